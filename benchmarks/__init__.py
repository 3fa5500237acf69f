"""Benchmarks of speed: an objective, datasets and solvers, timed side by side.

python -m benchmarks           one pass over each data set by every solver: a table of ratios
python -m benchmarks.growth    how the cost of a nonzero grows with rows, nonzeros, features and models
"""
