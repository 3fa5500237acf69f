"""Learning with several workers whose models are merged periodically.

A *round*: all workers begin with the state of one learner, each learns its own rows, and their states are merged into
one (:mod:`giftrl.workers.merging`). The :mod:`~giftrl.workers.planner` says how many rows a round has. Its last rows
are the *window*, to which the merge is fitted (:mod:`giftrl.workers.step_size`). A *team* uses threads;
:mod:`giftrl.distributed` uses many machines.

>>> import numpy as np
>>> from giftrl.mixtures import MixtureLearner
>>> from giftrl.workers import Team
>>> x = np.random.default_rng(0).normal(size=(60, 2))
>>> learner = MixtureLearner(2, "squared", compiled=False)
>>> with Team(learner, workers=2, first=20) as team:
...     predictions = team.learn(x, x @ [1.0, 2.0])
...     team.finish()
>>> learner.rounds, team.between_rounds
(60, True)
"""

from giftrl.workers.merging import MergedLearner, SharedState
from giftrl.workers.threads import Team, TeamTimes

__all__ = ["MergedLearner", "SharedState", "Team", "TeamTimes"]
