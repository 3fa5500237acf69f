"""Benchmarks of quality: the progressive loss of one pass with nothing tuned, beside the rivals' defaults and sweeps.

python -m benchmarks.quality                    ours against the recorded rivals: a table of ratios
python -m benchmarks.quality --rivals missing   first runs the rivals that are not yet recorded
"""
