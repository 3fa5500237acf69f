"""The algorithms as the paper writes them, in NumPy, one round at a time: for reading, testing, and custom losses.

A **player** plays a point x_t, sees the loss of the **round**, and moves. Its **trace** (:mod:`giftrl.trace`) records
the rounds, and a :class:`giftrl.Certificate` follows from the trace.

>>> from giftrl.reference import Learner
>>> learner = Learner(1, update="linear", schedule="constant")
>>> learner.observe("absolute", [1.0], 2.0).loss, learner.x.tolist(), len(learner.trace.rounds)
(2.0, [1.0], 1)

The compiled learners compute the same points.
"""

from giftrl.reference.learner import Learner, Player

__all__ = ["Learner", "Player"]
