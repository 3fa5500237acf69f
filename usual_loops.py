"""The usual loops, by using them: every loss at its defaults, rows dense and sparse, every text format, and Arrow,
and several workers.

``hatch_build.py`` runs this to have the loops compiled that a wheel brings, and a test runs it where there is no
compiler, to see that the wheel brings them all. Names of losses as arguments stand for those losses only. With
``--to FOLDER`` the object files of the loops that were used are copied there; those that were compiled before, by
whatever program, are taken from the user's cache.
"""

import argparse
import json
import shutil
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner
from scipy.sparse import csr_array, random_array

from giftrl import FTRLClassifier, FTRLRegressor, losses
from giftrl.adapters.named_rows import NamedLearner
from giftrl.cli.commands import main
from giftrl.compiled import object_files
from giftrl.config import Recipe, make
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from giftrl.workers import planner

CLASSIFIERS = ("logistic", "hinge", "squared_hinge", *losses.MULTICLASS)
VALUES = np.random.default_rng(0).normal(size=(30, 3)).round(2)


def labels_of(loss: str) -> Any:
    """Labels that a loss takes."""
    if loss in losses.MULTICLASS:
        return np.arange(len(VALUES)) % 3
    if loss in CLASSIFIERS:
        return np.where(VALUES[:, 0] > 0.0, 1, -1)
    return np.abs(VALUES[:, 0]).round() if loss == "poisson" else VALUES[:, 0]


def unsorted(values: Any) -> Any:
    """Sparse rows that name their features backwards."""
    n, features = values.shape
    indices = np.tile(np.arange(features, dtype=np.int32)[::-1], n)
    return csr_array((values[:, ::-1].ravel(), indices, np.arange(n + 1, dtype=np.int32) * features))


def fit(loss: str) -> None:
    """Fit and predict with an estimator, and learn a single row."""
    y = labels_of(loss)
    for kind in (np.float64, np.float32):
        values = VALUES.astype(kind)
        for rows in (values, csr_array(values), unsorted(values)):
            if loss in CLASSIFIERS:
                FTRLClassifier(loss=loss).fit(rows, y).predict(rows)
                FTRLClassifier(loss=loss).partial_fit(rows[:1], y[:1], classes=np.unique(y)).predict(rows)
            else:
                FTRLRegressor(loss=loss).fit(rows, y).predict(rows)
                FTRLRegressor(loss=loss).partial_fit(rows[:1], y[:1]).predict(rows)


def prove(loss: str) -> None:
    """Ask for certificates: with all rows stored, with some, and with sparse rows of many features."""
    kind: Any = FTRLClassifier if loss in CLASSIFIERS else FTRLRegressor
    for rows in (VALUES, csr_array(VALUES)):
        for budget in (1_000_000, 60):
            model = kind(loss=loss, witness_nonzeros=budget).fit(rows, labels_of(loss))
            model.certificate_.best_loss()
    wide = random_array((len(VALUES), 1000), density=0.01, format="csr", rng=0)
    kind(loss=loss).fit(csr_array(wide), labels_of(loss)).certificate_.best_loss()


def one_by_one(loss: str) -> None:
    """Learn and predict single rows: with names, as the adapter for River does, and dense."""
    y, recipe = labels_of(loss).astype(float), Recipe(loss, witness_nonzeros=60)
    if loss in losses.MULTICLASS:
        learner = make(recipe, 3, 3, constant=2)
    else:
        learner = make(recipe, 3, constant=2)
        named: Any = NamedLearner(recipe)
        for row, label in zip(VALUES, y, strict=True):
            named.learn_one(dict(zip("uvw", row.tolist(), strict=True)), label)
            named.score_one({"u": 1.0})
        if find_spec("river") is not None:
            from giftrl.adapters import river

            adapter: Any = river.FTRLClassifier if loss in CLASSIFIERS else river.FTRLRegressor
            adapted = adapter(loss=loss)
            adapted.learn_one({"u": 1.0}, 1)
            adapted.predict_one({"u": 1.0})
    for rows in (VALUES, csr_array(VALUES)):
        learner.learn(rows[:1], y[:1])
        learner.predict(rows[:1])


def texts(loss: str) -> dict[str, str]:
    """The rows in every text format."""
    rows = list(zip(labels_of(loss).tolist(), VALUES.tolist(), strict=True))
    return {
        "a.svm": "".join(f"{y} 1:{u} 2:{v} 3:{w}\n" for y, (u, v, w) in rows),
        "a.vw": "".join(f"{y} |a u:{u} v:{v} |b blue w:{w}\n" for y, (u, v, w) in rows),
        "a.csv": "label,u,v,colour\n" + "".join(f"{y},{u},{v},blue\n" for y, (u, v, _) in rows),
        "a.jsonl": "".join(json.dumps({"label": y, "u": u, "v": v, "colour": "blue"}) + "\n" for y, (u, v, _) in rows),
    }


def command(*arguments: object) -> None:
    """Run a command of giftrl."""
    done = CliRunner().invoke(main, [str(each) for each in arguments], prog_name="giftrl")
    if done.exit_code:
        raise SystemExit(f"giftrl {' '.join(map(str, arguments))}: {done.output}{done.exception!r}")


def train(folder: Path, loss: str, formats: tuple[str, ...]) -> None:
    """Train from text or from converted text, inspect the model, and predict."""
    for name, text in texts(loss).items():
        (folder / name).write_text(text, encoding="utf-8")
    if "a.arrow" in formats:
        command("convert", folder / "a.svm", folder / "a.arrow")
    if "a.parquet" in formats:
        from pyarrow import csv, parquet

        parquet.write_table(csv.read_csv(folder / "a.csv"), folder / "a.parquet")
    if "a.npz" in formats:
        np.savez(folder / "a.npz", X=VALUES, y=labels_of(loss))
    options = ["--labels", "0..2"] if loss in losses.MULTICLASS else []
    for name in formats:
        command("train", folder / name, "--loss", loss, *options, "--model", folder / "m.giftrl")
        command("inspect", folder / "m.giftrl")
        command("predict", folder / "m.giftrl", folder / name)


def resume(folder: Path, loss: str) -> None:
    """Interrupt a run after its first checkpoint, and go on from there."""
    settings = Settings(loss=loss, label_values=(0, 1, 2) if loss in losses.MULTICLASS else None)
    data, checkpoint = [folder / "a.svm"] * 2, Checkpoint(folder / "a.checkpoint", 1)

    def interrupt(trainer: Trainer, *rest: object) -> None:
        if trainer.model.examples > len(VALUES):
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        Trainer(LinearModel(settings), data, checkpoint=checkpoint).run(interrupt)
    second = Trainer(LinearModel(settings), data, checkpoint=checkpoint)
    second.resume()
    before = second.model.examples
    second.run()
    checkpoint.path.unlink()
    if not before == len(VALUES) == second.model.examples / 2:
        raise SystemExit(f"went on after {before} of {2 * len(VALUES)} examples to {second.model.examples}")


def together(folder: Path, loss: str) -> None:
    """Learn with two workers, from matrices and from text, with rounds that begin after a few rows."""
    kind: Any = FTRLClassifier if loss in CLASSIFIERS else FTRLRegressor
    options = ["--labels", "0..2"] if loss in losses.MULTICLASS else []
    with patch.multiple(
        planner, MIN_FIRST_ROWS=4, FIRST_ROWS_PER_WORKER=2, ROUND_ROWS_PER_WORKER=4, ROUND_ROWS_PER_FEATURE=0
    ):
        for values in (VALUES, VALUES.astype(np.float32)):
            for rows in (values, csr_array(values)):
                kind(loss=loss, n_jobs=2).fit(rows, labels_of(loss))
        command("train", folder / "a.svm", "--loss", loss, *options, "--workers", 2, "--summary", folder / "s.json")
    if not json.loads((folder / "s.json").read_text(encoding="utf-8"))["workers"]["merges"]:
        raise SystemExit("two workers have merged nothing")


def use(wanted: tuple[str, ...]) -> None:
    """Use the loops of these losses; the formats are those of the first one."""
    with tempfile.TemporaryDirectory() as folder:
        for k, loss in enumerate(wanted):
            fit(loss)
            prove(loss)
            one_by_one(loss)
            train(Path(folder), loss, (*texts(loss), "a.arrow", "a.parquet", "a.npz") if k == 0 else ("a.svm",))
            resume(Path(folder), loss)
            together(Path(folder), loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("losses", nargs="*", default=list(losses.EVERY))
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    use(tuple(options.losses))
    for symbol in sorted({symbol for symbol, _ in object_files.LINKED}) if options.to is not None else ():
        shutil.copy(object_files.path_of(symbol), options.to)
