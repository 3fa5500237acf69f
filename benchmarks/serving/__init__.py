"""The service beside River and Vowpal Wabbit behind an application of the same kind."""
