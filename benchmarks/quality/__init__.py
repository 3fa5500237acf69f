"""Benchmarks of quality: our loss of one pass without tuning, and the losses of the rivals with many settings.

python -m benchmarks.quality                    compare giftrl with the recorded rivals
python -m benchmarks.quality --rivals missing   run the rivals that are not recorded yet
"""
