"""Training on many machines with Ray: one model from sharded sources.

>>> import pathlib, tempfile
>>> from giftrl import distributed
>>> from giftrl.training import Settings
>>> folder = tempfile.TemporaryDirectory()
>>> data = pathlib.Path(folder.name, "rows.svm")
>>> _ = data.write_text("1 1:1\\n-1 2:1\\n" * 5)
>>> settings = Settings(loss="logistic", bits=4)
>>> distributed.train(settings, data, workers=2, cluster="simulation").examples
10
>>> folder.cleanup()
"""

from giftrl.distributed.driver import Costs, Driver
from giftrl.distributed.launch import PAYS, plan, train
from giftrl.distributed.ray_crew import connect

__all__ = ["PAYS", "Costs", "Driver", "connect", "plan", "train"]
