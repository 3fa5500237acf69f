"""Benchmarks of speed: an objective, data sets and solvers, timed side by side.

python -m benchmarks           time one pass of every solver over each data set
python -m benchmarks.growth    measure how the cost of a nonzero grows with rows, nonzeros, features and models
"""
