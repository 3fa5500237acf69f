"""Several threads learn one stream: what depends on them, what does not, and going on after an interruption."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from giftrl import FTRLClassifier, FTRLRegressor, distributed
from giftrl.compiled.rows import as_rows, slice_rows
from giftrl.errors import BadRow, Incompatible, InvalidInput
from giftrl.kernels import LinearLearner
from giftrl.mixtures import MixtureLearner
from giftrl.streams.reader import Reader
from giftrl.training import Checkpoint, LinearModel, Settings, Trainer
from giftrl.workers.planner import MAX_ROUND_SHARE, MIN_FIRST_ROWS, cut, first_rows, next_round
from giftrl.workers.threads import FEATURES_COUNTED, Team, count_features

NONE = np.empty(0)


def stream(n: int, features: int = 4, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, features - 1)), np.ones(n)])
    return x, np.where(x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def taught(n: int, workers: int, batch: int, first: int = 64, **options: Any) -> tuple[Any, Any, Team]:
    """A learner that a team has taught, in batches, and the predictions."""
    x, y = stream(n)
    learner = MixtureLearner(4, "logistic", constant=3, compiled=False)
    learner.keep_witnesses(options.get("witnesses"), constant=3)
    rows = as_rows(x, 4)[0]
    with Team(learner, workers, first=first) as team:
        parts = [slice(a, min(n, a + batch)) for a in range(0, n, batch)]
        made = [team.learn_rows(slice_rows(rows, part.start, part.stop), y[part], NONE) for part in parts]
        team.finish()
    return learner, np.concatenate(made), team


def test_rounds_grow_and_cover_every_row() -> None:
    for workers in (1, 2, 16, 64):
        rows = first_rows(workers)
        for _ in range(50):
            now = next_round(rows, workers)
            assert 0 < now.window <= now.split
            parts = cut(now.split, workers)
            assert [a for a, _ in parts[1:]] == [b for _, b in parts[:-1]] and parts[-1][1] == now.split
            rows += now.split + now.window
        assert rows > 1.1**40 * first_rows(workers)


@pytest.mark.parametrize("features", [10, 50_000, 1 << 24])
def test_rounds_have_as_many_rows_as_there_are_features(features: int) -> None:
    for workers in (2, 16, 64):
        rows = first_rows(workers, features)
        size = sum(next_round(rows, workers, features))
        assert features <= size <= max(MAX_ROUND_SHARE * rows, 16 * workers) + 1
        assert next_round(100 * rows, workers, features) == next_round(100 * rows, workers)


def test_a_team_splits_rows_only_once_rounds_have_as_many_as_features() -> None:
    features, n = 3000, 14_000
    indices = np.random.default_rng(0).integers(features, size=n)
    indices[:features] = np.arange(features)
    x = sparse.csr_array((np.ones(n), indices, np.arange(n + 1)), (n, features))
    learner = MixtureLearner(features, "logistic")
    with Team(learner, 2) as team:
        for first in range(0, n, 1000):
            team.learn(x[first : first + 1000], np.ones(1000))
            assert (team.times.merges > 0 or not team.between_rounds) == (first + 1000 > 4 * features)
        team.finish()
    assert learner.rounds == n


def test_room_for_more_features_does_not_change_how_many_are_known() -> None:
    features = FEATURES_COUNTED * np.array([0, 0, 0, 1, 1, 1, 2, 2]) + [0, 5, 1000, -1, 0, 2, 0, 4]
    x = sparse.csr_array((np.ones(8), features, np.arange(9)), (8, 3 * FEATURES_COUNTED))
    learner = MixtureLearner(3 * FEATURES_COUNTED, "logistic")
    learner.learn(x, np.ones(8))
    assert count_features(learner) == 4 + 2 * 2 + 2 * 4
    learner.grow(10 * FEATURES_COUNTED)
    assert count_features(learner) == 4 + 2 * 2 + 2 * 4


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_row_is_learnt_once(workers: int) -> None:
    learner, made, team = taught(300, workers, 50)
    assert learner.rounds == len(made) == 300
    assert team.times.merges > 0 and team.between_rounds
    _, y = stream(300)
    paid = np.logaddexp(0.0, -y * made).sum()
    assert learner.certificate.loss_sum == pytest.approx(paid)


@pytest.mark.parametrize("batch", [7, 50, 64, 100, 333, 1000])
def test_no_round_is_open_for_longer_than_it_is_or_a_batch_lasts(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint needs a learner that has learnt all rows."""
    monkeypatch.setattr("giftrl.workers.planner.MAX_WINDOW_ROWS", 4)  # a small part of a round, as in long runs
    n = 2000
    x, y = stream(n)
    learner = MixtureLearner(4, "logistic", compiled=False)
    open_since = 0
    with Team(learner, 2, first=40) as team:
        for first in range(0, n, batch):
            team.learn(x[first : first + batch], y[first : first + batch])
            if team.between_rounds:
                open_since = first + batch
            size = sum(next_round(max(open_since, 40), 2))
            assert first + batch - open_since < 2 * max(batch, size) and (team.between_rounds or size > batch)
        merges = team.times.merges
        team.finish()
    assert learner.rounds == n and merges > 3


def test_timing_changes_nothing() -> None:
    first, again = (taught(300, 3, 70)[0].state() for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_a_team_is_about_as_good_as_one_learner() -> None:
    learner, made, _ = taught(2000, 4, 500)
    x, y = stream(2000)
    alone = MixtureLearner(4, "logistic", constant=3, compiled=False)
    expected = np.logaddexp(0.0, -y * alone.learn(x, y)).mean()
    assert np.logaddexp(0.0, -y * made).mean() < 1.03 * expected
    new, labels = stream(2000, seed=1)
    best = np.logaddexp(0.0, -labels * alone.predict(new)).mean()
    assert np.logaddexp(0.0, -labels * learner.predict(new)).mean() < 1.02 * best


def test_witnesses_are_those_of_every_row() -> None:
    learner, _, _ = taught(300, 2, 70, witnesses=10_000)
    assert learner.witnesses.rows == 300
    best = learner.certificate.best_loss()
    x, y = stream(300)
    for scale in (0.0, 0.5, 1.0):
        assert best.lower_bound <= np.logaddexp(0.0, -y * (x @ (scale * learner.x))).sum() + 1e-9


def test_the_first_rows_are_learnt_by_one() -> None:
    x, y = stream(MIN_FIRST_ROWS)
    alone = FTRLClassifier(shuffle=False).fit(x[:500], y[:500])
    team = FTRLClassifier(shuffle=False, n_jobs=2).fit(x[:500], y[:500])
    assert np.array_equal(alone.coef_, team.coef_)


def test_estimators_with_several_jobs() -> None:
    x, y = stream(3 * MIN_FIRST_ROWS)
    alone, team = (FTRLClassifier(n_jobs=jobs).fit(x, y) for jobs in (None, 2))
    assert not np.array_equal(alone.coef_, team.coef_)
    assert team.average_loss_ == pytest.approx(alone.average_loss_, rel=0.01)
    assert np.array_equal(team.coef_, FTRLClassifier(n_jobs=2).fit(x, y).coef_)
    targets = np.column_stack([x @ [1.0, 2.0, 3.0, 4.0], x[:, 0]])
    each, shared = (FTRLRegressor(n_jobs=jobs).fit(x, targets) for jobs in (1, 2))
    assert np.array_equal(each.coef_, shared.coef_)  # a model for each target, which threads share out


def write_rows(path: Path, n: int) -> None:
    x, y = stream(n)
    lines = (
        f"{label:+.0f} " + " ".join(f"{j + 1}:{v:.4g}" for j, v in enumerate(row))
        for row, label in zip(x, y, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("giftrl.training.trainer.Reader", partial(Reader, block=1 << 16))
    data = tmp_path / "a.svm"
    write_rows(data, 4 * MIN_FIRST_ROWS)

    def trainer(name: str) -> Trainer:
        checkpoint = Checkpoint(tmp_path / f"{name}.checkpoint", 1000)
        return Trainer(LinearModel(Settings(bits=6)), data, workers=2, checkpoint=checkpoint)

    whole = trainer("whole")
    whole.run().save(tmp_path / "whole.giftrl")
    assert whole.model.team_times.merges > 3

    class Stop(Exception):
        pass

    def stop(given: Trainer, *_: Any) -> None:
        if given.model.examples > 3 * MIN_FIRST_ROWS:
            raise Stop

    with pytest.raises(Stop):
        trainer("cut").run(stop)
    again = trainer("cut")
    again.resume()
    assert MIN_FIRST_ROWS < again.model.examples < 3 * MIN_FIRST_ROWS
    again.run().save(tmp_path / "cut.giftrl")
    assert (tmp_path / "cut.giftrl").read_bytes() == (tmp_path / "whole.giftrl").read_bytes()
    other = Trainer(
        LinearModel(Settings(bits=6)), data, workers=3, checkpoint=Checkpoint(tmp_path / "cut.checkpoint", 1)
    )
    with pytest.raises(InvalidInput, match="workers=2, now 3"):
        other.resume()


def test_wrong_rows_end_a_run_with_workers(tmp_path: Path) -> None:
    data = tmp_path / "a.svm"
    write_rows(data, 2 * MIN_FIRST_ROWS)
    data.write_text(data.read_text() + "nonsense\n")
    model = LinearModel(Settings(bits=6))
    with pytest.raises(BadRow):
        Trainer(model, data, workers=2).run()
    assert model.team is None and model.learner.sound
    assert model.learner.rounds == model.examples == 2 * MIN_FIRST_ROWS


def test_features_may_grow_in_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("giftrl.training.trainer.Reader", partial(Reader, block=1 << 14))
    data = tmp_path / "a.vw"
    n = 2 * MIN_FIRST_ROWS
    data.write_text("".join(f"{1 if k % 3 else -1} | f{k % 7} new{k // 50}\n" for k in range(n)))
    model = LinearModel(Settings(bits=None))
    Trainer(model, data, workers=2).run()
    assert model.examples == model.learner.rounds == n and model.team_times.merges > 0


def test_without_a_window_workers_are_averaged() -> None:
    """The sum of workers can be far off, and with no window nobody would know."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(330, 1)) + 0.1 * rng.normal(size=(330, 20))
    y = x.sum(axis=1)
    learner = MixtureLearner(20, "squared", compiled=False)
    with Team(learner, 8, first=300) as team:
        team.learn(x[:300], y[:300])
        alone = np.square(x @ learner.x - y).mean()
        team.learn(x[300:309], y[300:309])
        team.finish()
    assert np.square(x @ learner.x - y).mean() < 1.5 * alone + 1e-3


def test_rows_of_a_round_that_is_lost_are_not_remembered() -> None:
    """A bound on the loss of any model must be over the rows that were learnt."""
    x, y = stream(500)
    learner = MixtureLearner(4, "squared", compiled=False)
    learner.keep_witnesses(1000, constant=3)
    with Team(learner, 2, first=64) as team:
        for first in range(0, 480, 10):
            team.learn(x[first : first + 10], y[first : first + 10])
        assert not team.between_rounds
    assert learner.witnesses is not None and learner.witnesses.rows == learner.rounds < 480
    assert learner.certificate.best_loss().lower_bound <= np.square(x @ learner.x - y)[: learner.rounds].sum() + 1e-9


def test_rows_that_one_worker_learns_between_two_rounds_count_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """New features may ask for more rows by one worker; then the others begin with what it has learned."""
    monkeypatch.setattr("giftrl.workers.planner.MIN_FIRST_ROWS", 64)
    monkeypatch.setattr("giftrl.workers.planner.FIRST_ROWS_PER_WORKER", 8)
    n = 900
    x, y = stream(n)
    x = np.column_stack([x, np.zeros((n, 180))])
    x[200:260, 4:] = np.tile(np.eye(60), 3)
    learner = MixtureLearner(184, "logistic", constant=3, compiled=False)
    with Team(learner, 2) as team:
        made, merges = [], []
        for first in range(0, n, 20):
            made.append(team.learn(x[first : first + 20], y[first : first + 20]))
            merges.append(team.times.merges)
        team.finish()
    assert 0 < merges[14] == merges[35] < merges[-1]  # four rows for each feature
    assert learner.rounds == n
    assert learner.certificate.loss_sum == pytest.approx(np.logaddexp(0.0, -y * np.concatenate(made)).sum())


def test_merges_are_not_forgotten() -> None:
    learner, _, _ = taught(300, 2, 70)
    assert learner.merges > 0
    x, y = stream(301)
    with Team(learner, 2, first=0) as team:
        team.learn(x[300:], y[300:])
        team.finish()
    assert learner.certificate.merged


@pytest.mark.parametrize("jobs", [0, 1.5, "a", True])
def test_wrong_numbers_of_jobs(jobs: Any) -> None:
    x, y = stream(20)
    with pytest.raises(InvalidInput, match="n_jobs"):
        FTRLClassifier(n_jobs=jobs).fit(x, y)


def test_an_interrupted_estimator_can_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = stream(MIN_FIRST_ROWS)
    targets = x[:, :2]
    model = FTRLRegressor(n_jobs=2).partial_fit(x, targets)
    with monkeypatch.context() as patched:
        patched.setattr(
            "giftrl.linear.estimator.SeparateModels.learn", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(x, targets)
    assert pickle.loads(pickle.dumps(model.partial_fit(x, targets))).t_ == model.t_


def test_a_number_for_beta_is_refused_by_name(tmp_path: Path) -> None:
    x, y = stream(20)
    with pytest.raises(InvalidInput, match=r"n_jobs=2: needs beta='auto': .*; leave out one of the two"):
        FTRLClassifier(beta=1.0, n_jobs=2).fit(x, y)
    assert FTRLClassifier(beta=1.0, n_jobs=1).fit(x, y).t_ == 21
    assert FTRLRegressor(beta=1.0, n_jobs=2).fit(x, x[:, :2]).t_ == 21  # a model for each target: nothing is merged
    with pytest.raises(InvalidInput, match="workers=2: needs beta='auto'"):
        Trainer(LinearModel(Settings(beta=1.0)), tmp_path / "a.svm", workers=2)
    with pytest.raises(InvalidInput, match="workers=2: needs beta='auto'"):
        distributed.plan(Settings(beta=1.0), tmp_path / "a.svm", workers=2)
    with pytest.raises(Incompatible, match="LinearLearner cannot be merged"):
        Team(LinearLearner(4, compiled=False), 2)
    with pytest.raises(InvalidInput, match="workers"):
        Team(MixtureLearner(4, compiled=False), 0)
