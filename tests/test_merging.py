"""Merging mixtures: laws of states that become one, and the compiled loops against a slow twin."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from giftrl.compiled.lanes import lanes
from giftrl.compiled.rows import as_rows
from giftrl.errors import Incompatible
from giftrl.losses import BY_NAME
from giftrl.mixtures import MixtureLearner
from giftrl.mixtures.experts import WEALTH
from giftrl.mixtures.feature_state import CENTRE, SCALE
from giftrl.mixtures.mixture import MulticlassMixture
from giftrl.ops.loss import value
from giftrl.workers.merge_experts import merge_experts, merge_features, unit_of
from giftrl.workers.merging import blended, copy_of, first_steps, merge, merge_mixtures
from giftrl.workers.pieces import ONE_THREAD, Share, put, take, take_all
from giftrl.workers.step_size import Window
from giftrl.workers.threads import Team
from tests import merging_twin as twin

FEATURES = 6


def rows_and_labels(learner: Any, seed: int, n: int, shift: float = 0.0) -> tuple[Any, Any]:
    """Rows with a constant, dense and sparse features of different scales, and labels that the loss accepts."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, FEATURES)) * [1.0, 100.0, 0.01, 1.0, 3.0, 1.0] + shift
    x[:, 3:5] *= rng.random((n, 2)) < 0.3
    x[:, -1] = 1.0
    score = x[:, 0] + 0.01 * x[:, 1] + 0.3 * rng.normal(size=n)
    if learner.classes is not None:
        return x, np.clip(np.floor(score + 1.5), 0, learner.classes - 1).astype(np.int64)
    if learner.pieces.margin:
        return x, np.where(score > 0.0, 1.0, -1.0)
    return x, np.floor(np.exp(0.3 * score))


def learners() -> dict[str, Any]:
    """How to make each kind of mixture, in float64."""
    options: dict[str, Any] = {"constant": FEATURES - 1, "dtype": "float64", "compiled": False}
    made: dict[str, Any] = {name: (lambda name=name: MixtureLearner(FEATURES, name, **options)) for name in BY_NAME}
    made["light"] = lambda: MixtureLearner(FEATURES, "logistic", preset="light", **options)
    made["no constant"] = lambda: MixtureLearner(FEATURES, "squared", dtype="float64", compiled=False)
    made["softmax"] = lambda: MulticlassMixture(FEATURES, 3, "softmax", **options)
    made["multiclass_hinge"] = lambda: MulticlassMixture(FEATURES, 3, "multiclass_hinge", **options)
    return made


EVERY = np.arange(FEATURES)


def workers_of(make: Any, parts: list[int], before: int = 30, seed: int = 0) -> tuple[Any, list[Any]]:
    """A learner of some rows, and workers that began from its state and learnt as many rows each as ``parts`` says."""
    base = make()
    if before:
        base.learn(*rows_and_labels(base, seed, before))
    members = []
    for k, n in enumerate(parts, 1):
        member = copy_of(base, 0)
        if n:
            member.learn(*rows_and_labels(base, seed + 100 * k, n, shift=0.5 * k))
        members.append(member)
    return base, members


def merged(base: Any, members: list[Any], window: Window | None = None) -> Any:
    piece, *pieces = take_all([base, *members], EVERY)
    return merge(base, piece, pieces, window, first_steps(base))[0]


def flat(piece: Any) -> list[Any]:
    """The numbers of a piece, in order."""
    parts = [piece.record, piece.x, piece.theta, piece.dense, piece.counts, *piece.matrix, *piece.mixing]
    return [np.asarray(part, np.float64).reshape(-1) for part in parts]


def distance(first: Any, second: Any) -> float:
    """The largest difference, relative where numbers are large; infinities must be the same."""
    worst = 0.0
    for a, b in zip(flat(first), flat(second), strict=True):
        assert np.array_equal(np.isinf(a), np.isinf(b))
        there = np.isfinite(a)
        gap = np.abs(a[there] - b[there]) / np.maximum(1.0, np.abs(a[there]))
        worst = max(worst, gap.max(initial=0.0))
    return worst


@pytest.mark.parametrize("kind", learners())
def test_merging_one_worker_is_the_identity(kind: str) -> None:
    base, (member,) = workers_of(learners()[kind], [20])
    assert distance(merged(base, [member]), take(member, EVERY)) == 0.0


@pytest.mark.parametrize("kind", learners())
def test_the_order_of_workers_does_not_matter(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 13])
    if base.classes is None and not base.pieces.margin:  # places in the full matrix are given in order
        base.matrix.size[0] = max(base.matrix.size[0], 0)
    there = merged(base, members)
    back = merged(base, members[::-1])
    assert distance(there, back) < 1e-9


@pytest.mark.parametrize("kind", learners())
def test_a_worker_without_rows_changes_nothing(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 0])
    assert distance(merged(base, members), merged(base, members[:2])) < 1e-12


@pytest.mark.parametrize("kind", learners())
def test_loops_equal_the_twin(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 13])
    piece, *pieces = take_all([base, *members], EVERY)
    place = -1 if base.constant is None else base.constant
    known = merge_features(base, piece, pieces, place)
    obvious = twin.merge_features(base, piece, pieces)
    np.testing.assert_allclose(known.rows, obvious.rows, rtol=1e-12)
    np.testing.assert_allclose(known.scale, obvious.scale, rtol=1e-12)
    np.testing.assert_allclose(known.record[:, CENTRE], obvious.centre, rtol=1e-9, atol=1e-12)
    assert np.array_equal(known.dense, obvious.dense)
    ends = merge_experts(base, piece, pieces, known, place)
    own = [twin.in_units(base, each, obvious, base.constant) for each in (piece, *pieces)]
    average, total = twin.ends(own[0], own[1:])
    np.testing.assert_allclose(ends.average, average, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ends.total, total, rtol=1e-9, atol=1e-9)
    poor, rich = twin.wealth(own[0], own[1:])
    stakes = own[0].coin[:, 1] + sum(each.coin[:, 1] - own[0].coin[:, 1] for each in own[1:])
    np.testing.assert_allclose(ends.coin, np.stack([stakes, poor, rich], axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["logistic", "no constant", "softmax"])
def test_weights_that_move_where_no_strength_grows_are_averaged_plainly(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 13])
    piece, pieces = _first_and_others(base, members)
    for each in pieces:
        for column in (int(base.places.curve), int(base.places.root)):
            each.x[:, column] = piece.x[:, column]
        each.record[:, SCALE] = piece.record[:, SCALE]
    place = -1 if base.constant is None else base.constant
    ends = merge_experts(base, piece, pieces, merge_features(base, piece, pieces, place), place)
    obvious = twin.merge_features(base, piece, pieces)
    own = [twin.in_units(base, each, obvious, base.constant) for each in pieces]
    n = lanes(base.grid)
    np.testing.assert_allclose(ends.average[..., :n], np.mean([each.x for each in own], axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("step", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", learners())
def test_the_merged_state_has_weights_and_bets_between_the_ends(kind: str, step: float) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 13])
    merger = merge_mixtures(base, *_first_and_others(base, members))
    steps = np.full_like(first_steps(base), step)
    x = blended(base, merger, steps, np.zeros(FEATURES, np.int64)).x.astype(np.float64)
    scores, n, coin = base.classes or 1, lanes(base.grid), int(base.places.coin)
    expected = merger.ends.average + step * (merger.ends.total - merger.ends.average)
    theta, staked, wealth = (x[:, coin + k * scores : coin + (k + 1) * scores] for k in range(3))
    np.testing.assert_allclose(x[:, : n * scores].reshape(-1, scores, n), expected[..., :n], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((WEALTH + wealth) * theta / (1.0 + staked), expected[..., n], rtol=1e-9, atol=1e-9)
    assert (abs(theta) <= staked * (1.0 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize("kind", learners())
def test_the_average_of_workers_that_agree_is_what_each_of_them_has(kind: str) -> None:
    """Sixteen that have all made one correction have not made it sixteen times over."""
    base, members = workers_of(learners()[kind], [20])
    piece, pieces = _first_and_others(base, members * 16)
    ends, [own] = merge_mixtures(base, piece, pieces).ends, _first_and_others(base, members)[1]
    scores, n, coin = base.classes or 1, lanes(base.grid), int(base.places.coin)
    theta, staked, wealth = (own.x[:, coin + k * scores : coin + (k + 1) * scores] for k in range(3))
    moved = ends.average[..., n] - (WEALTH + wealth) * theta / (1.0 + staked)
    still = (own.record[:, SCALE] == piece.record[:, SCALE])[:, None]
    np.testing.assert_allclose(moved * still, 0.0, atol=1e-9)


def _first_and_others(base: Any, members: list[Any]) -> tuple[Any, list[Any]]:
    piece, *pieces = take_all([base, *members], EVERY)
    return piece, pieces


@pytest.mark.parametrize("kind", learners())
def test_threads_that_share_a_merge_change_nothing(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 7, 13])
    x, y = rows_and_labels(base, 5, 16)
    window = Window(as_rows(x, FEATURES)[0], y, np.empty(0))
    found = []
    with ThreadPoolExecutor(3) as pool:
        for share in (ONE_THREAD, Share(pool, 3)):
            piece, *pieces = take_all([base, *members], EVERY, share)
            made, steps = merge(base, piece, pieces, window, first_steps(base), share)
            other = learners()[kind]()
            other.restore(base.state())
            put(other, made, share)
            found.append((steps, other.state()))
    assert np.array_equal(found[0][0], found[1][0])
    assert all(np.array_equal(array, found[1][1][name]) for name, array in found[0][1].items())


@pytest.mark.parametrize("kind", learners())
def test_a_merged_state_can_be_restored_and_goes_on(kind: str) -> None:
    base, members = workers_of(learners()[kind], [20, 20])
    x, y = rows_and_labels(base, 5, 16)
    window = Window(as_rows(x, FEATURES)[0], y, np.empty(0))
    put(base, merged(base, members, window))
    again = learners()[kind]()
    again.restore(base.state())
    p, q = base.learn(x, y), again.learn(x, y)
    assert np.isfinite(p).all() and np.array_equal(p, q)
    assert again.rounds == 30 + 40 + 16


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["logistic", "squared", "hinge", "softmax", "multiclass_hinge"])
def test_certificates_hold_for_any_partition(kind: str, seed: int) -> None:
    """The sums of the certificate are those of every prediction that was made, whoever made it."""
    make, rng, played = learners()[kind], np.random.default_rng(seed), []
    base = make()

    def learn(learner: Any, n: int) -> None:
        x, y = rows_and_labels(base, int(rng.integers(1 << 30)), n)
        weights = rng.integers(1, 3, n).astype(float)
        played.append((x, y, weights, learner.learn(x, y, weights)))

    for _ in range(4):
        learn(base, int(rng.integers(1, 9)))
        members = [copy_of(base, 0) for _ in range(rng.integers(1, 5))]
        for member in members:
            if n := int(rng.integers(0, 9)):
                learn(member, n)
        x, y = rows_and_labels(base, seed, 8)
        put(
            base, merged(base, members, Window(as_rows(x, FEATURES)[0], y, np.empty(0)) if rng.random() < 0.7 else None)
        )
    assert base.merges > 0 and base.sound
    x, y, weights, predictions = (np.concatenate([part[k] for part in played]) for k in range(4))

    def total(scores: Any) -> float:
        return float(sum(h * value(base.loss, p, label) for h, p, label in zip(weights, scores, y, strict=True)))

    paid, certificate = total(predictions), base.certificate
    assert certificate.merged and certificate.loss_sum == pytest.approx(paid, rel=1e-9)
    with pytest.raises(Incompatible, match=r"Theorem 3\.1 is about one sequence of rounds"):
        certificate.theorem_terms(np.zeros_like(certificate.theta))
    for scale in (0.0, 0.5, 3.0):
        u = scale * rng.normal(size=(FEATURES, *predictions.shape[1:]))
        theirs = total(x @ u)
        assert paid - theirs <= certificate.regret_bound(u.reshape(-1)) + 1e-8 * (1.0 + paid + theirs)


def test_a_scale_that_grows_in_one_worker_spoils_nothing() -> None:
    """A feature that hardly moves at first, and then does: the full matrix of one worker has followed its scale."""
    rng = np.random.default_rng(0)

    def rows(n: int, size: float) -> tuple[Any, Any]:
        x = np.column_stack([rng.normal(size=n), 5.0 + size * rng.normal(size=n), np.ones(n)])
        return x, np.where(x[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)

    base = MixtureLearner(3, "logistic", constant=2, dtype="float64", compiled=False)
    base.learn(*rows(100, 1e-9))
    members = []
    for size in (1e-9, 1e-9, 1.0):
        member = copy_of(base, 0)
        member.learn(*rows(30, size))
        members.append(member)
    piece, *pieces = take_all([base, *members], np.arange(3))
    put(base, merge(base, piece, pieces, None, first_steps(base))[0])
    x, y = rows(200, 1.0)
    own = base.expert_names.index("full matrix")
    before = float(base.mixing.totals[own])
    base.learn(x, y)
    assert (base.mixing.totals[own] - before) / 200 < 1.0
    assert np.logaddexp(0.0, -y * base.predict(x)).mean() < 0.7


def test_a_dense_feature_stays_dense_for_longer_than_it_took() -> None:
    """Two features in 28 of 63 rows: one was dense before the round, and the other was not."""
    make = learners()["logistic"]
    base, y = make(), np.where(np.arange(33) % 2 == 0, 1.0, -1.0)
    x = np.zeros((33, FEATURES))
    x[:, -1] = 1.0
    before, after = x[:30].copy(), x.copy()
    before[:28, 0], after[:28, 1] = 1.0 + np.arange(28), 1.0 + np.arange(28)
    base.learn(before, y[:30])
    members = []
    for part in (slice(0, 16), slice(16, 33)):
        member = copy_of(base, 0)
        member.learn(after[part], y[part])
        members.append(member)
    piece, *pieces = take_all([base, *members], EVERY)
    known = merge_features(base, piece, pieces, FEATURES - 1)
    assert known.rows[:2].tolist() == [28.0, 28.0] and known.dense[:2].tolist() == [True, False]


def test_the_full_matrix_adds_precisions() -> None:
    """With features of -1 and +1 and nothing centred, units stay: what workers add is the change of A^-1."""
    rng = np.random.default_rng(0)

    def make() -> Any:
        return MixtureLearner(3, "squared", dtype="float64", compiled=False)

    def taught(learner: Any, n: int) -> Any:
        x = rng.choice([-1.0, 1.0], (n, 3))
        learner.learn(x, x @ [1.0, 2.0, 3.0] + rng.normal(size=n))
        return learner

    def precision(matrix: Any) -> Any:
        return np.linalg.inv((matrix.inverse - matrix.late.T @ matrix.late)[:3, :3])

    base = taught(make(), 21)
    members = [taught(copy_of(base, 0), n) for n in (5, 6)]
    assert all(member.matrix.waiting[0] > 0 for member in (base, *members))
    piece, *pieces = take_all([base, *members], np.arange(3))
    found = merge(base, piece, pieces, None, first_steps(base))[0].matrix
    expected = sum(precision(member.matrix) for member in members) - precision(base.matrix)
    np.testing.assert_allclose(precision(found), expected, rtol=1e-8)
    duals = [precision(each.matrix) @ each.matrix.x[:3] for each in (base, *members)]
    np.testing.assert_allclose(expected @ found.x[:3], duals[1] + duals[2] - duals[0], rtol=1e-7)


def test_the_constant_of_the_coin_takes_up_what_centres_move() -> None:
    base, members = workers_of(learners()["logistic"], [20, 7, 13])
    piece, *pieces = take_all([base, *members], EVERY)
    obvious = twin.merge_features(base, piece, pieces)
    own = [twin.in_units(base, each, obvious, base.constant) for each in pieces]
    n, rows = 8, [20.0, 7.0, 13.0]
    bets = [
        unit_of(base, p) * (WEALTH + o.coin[:, 2]) * o.coin[:, 0] / (1.0 + o.coin[:, 1])
        for p, o in zip(pieces, own, strict=True)
    ]
    constants = [o.offsets[n] + o.shift @ bet for o, bet in zip(own, bets, strict=True)]
    expected = np.average(constants, axis=0, weights=rows)
    assert any(o.shift.any() for o in own)
    np.testing.assert_allclose(merge_mixtures(base, piece, pieces).ends.offsets[n], expected, rtol=1e-9)


#: Columns of rows for compiled merges.
COLUMNS = 40


def stream(n: int) -> tuple[Any, Any]:
    """Rows of three dense features, many rare ones whose scales grow on the way, and a constant; scores."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, COLUMNS)) * np.where(rng.random((n, COLUMNS)) < 0.1, 1.0, 0.0)
    x[:, 3:] *= np.exp(np.linspace(0.0, 3.0, n))[:, None]
    x[:, :3] = rng.normal(size=(n, 3)) + 1.0
    x[:, -1] = 1.0
    return sparse.csr_array(x), x @ rng.normal(size=COLUMNS) / 3.0 + rng.normal(size=n)


def learner_of(kind: str, compiled: bool) -> Any:
    options: dict[str, Any] = {"constant": COLUMNS - 1, "compiled": compiled}
    if kind == "softmax":
        return MulticlassMixture(COLUMNS, 3, "softmax", **options)
    return MixtureLearner(COLUMNS, kind, **options)


@pytest.mark.verify
@pytest.mark.parametrize("workers", [3])
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_a_compiled_team_learns_what_a_plain_one_learns(kind: str, workers: int) -> None:
    x, score = stream(900)
    y: Any = np.digitize(score, [0.0, 1.5]) if kind == "softmax" else np.where(score > 0.5, 1.0, -1.0)
    found = []
    for compiled in (False, True):
        learner = learner_of(kind, compiled)
        with Team(learner, workers, first=100) as team:
            made = team.learn(x, y)
            team.finish()
            found.append((made, team.steps, learner.predict(x)))
        assert team.times.merges > 5
    for plain, own in zip(*found, strict=True):
        np.testing.assert_allclose(own, plain, rtol=1e-3, atol=1e-3)
