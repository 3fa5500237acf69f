"""Tables with a feature per column: Parquet, Arrow, CSV and NumPy files."""
