"""Small runs on many workers, for tests."""

import numpy as np

from giftrl import distributed
from giftrl.distributed import shards
from giftrl.distributed.driver import LocalCrew, Worker
from giftrl.training import Settings
from giftrl.workers import planner

SETTINGS = Settings(loss="logistic", bits=8)
WORKERS = 3


def few_rows(patch):
    """Let rounds begin after few rows; the schedule is the driver's, and workers need not know it."""
    patch.setattr(planner, "MIN_FIRST_ROWS", 64)
    patch.setattr(planner, "FIRST_ROWS_PER_WORKER", 8)
    patch.setattr(planner, "MIN_ROUND_SHARE", 0.5)
    patch.setattr(planner, "ROUND_ROWS_PER_FEATURE", 0)


def write_rows(path, rows=700, features=40, seed=0):
    """Rows of VW text whose labels depend on their features."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=features)
    with path.open("w") as file:
        for _ in range(rows):
            chosen = np.unique(np.minimum(rng.geometric(0.1, 5), features - 1))
            values = rng.normal(size=len(chosen)).round(3)
            label = 1 if weights[chosen] @ values + 0.3 * rng.normal() > 0.0 else -1
            weight = rng.integers(1, 4)
            file.write(f"{label} {weight} |a " + " ".join(f"n{j}:{v}" for j, v in zip(chosen, values, strict=True)))
            file.write("\n")
    return path


def bytes_of(model, folder):
    """The bytes of a model's file."""
    path = folder / "model.giftrl"
    model.save(path)
    return path.read_bytes()


def plan_of_few_rows(folder, patch, settings=SETTINGS, workers=WORKERS):
    """The shards of a small file, many blocks each, in a run of many rounds."""
    few_rows(patch)
    patch.setattr(shards, "MIN_BLOCK_BYTES", 256)
    return distributed.plan(settings, write_rows(folder / "rows.vw"), workers)


class Losing(LocalCrew):
    """Loses a worker in a round: before its order, or after it and before its reply."""

    def __init__(self, reading, lost):
        super().__init__(reading, len(reading.shards))
        self.lost = lost

    def one(self, order, piece, whole):
        if self.lost == (order.version, order.shard, "before"):
            self.workers[order.shard] = Worker(self.reading)
        reply = super().one(order, piece, whole)
        if self.lost == (order.version, order.shard, "after"):
            self.workers[order.shard] = Worker(self.reading)
            reply = super().one(order, piece, whole)
        return reply


class Swapping(LocalCrew):
    """Gives each order to another worker as well, whose reply counts."""

    def one(self, order, piece, whole):
        super().one(order, piece, whole)
        reply = self.workers[(order.shard + 1) % len(self.workers)].round(order, whole(), True)
        assert reply is not None
        return reply
