"""Feature names to coordinates: hashing, dictionaries, interactions and n-grams."""
