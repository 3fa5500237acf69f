"""Merging learners that began from the same state and learnt different rows.

A *round*: all workers begin from the same state, each learns its own rows, and their states are merged into one. A
worker's part in a round is a pure function of the state and its rows, and a merge is a pure function of the states.
"""

from giftrl.workers.merging import first_steps, merge
from giftrl.workers.pieces import put, take, touched
from giftrl.workers.planner import Round, cut, first_rows, next_round
from giftrl.workers.step_size import Window

__all__ = ["Round", "Window", "cut", "first_rows", "first_steps", "merge", "next_round", "put", "take", "touched"]
