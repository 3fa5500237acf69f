"""Experiments: the library at work on real data."""
