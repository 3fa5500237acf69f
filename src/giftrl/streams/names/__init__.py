"""From the name of a feature to a coordinate: hashing, dictionary, interactions."""
