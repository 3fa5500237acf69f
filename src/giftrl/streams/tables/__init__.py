"""Tables, one column a feature: Arrow batches, which Parquet, CSV and NumPy files become."""
