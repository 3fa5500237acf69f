"""The bound for rows that are read again and again instead of being kept."""

import time

import numpy as np
import pytest

from giftrl.certificates import Evidence, passes
from giftrl.certificates.passes import DataSample, by_passes
from giftrl.certificates.row_record import Examples
from giftrl.errors import BadSource, InvalidInput
from giftrl.losses import Hinge, Logistic, MulticlassHinge, Softmax, Squared
from giftrl.ops.loss import kinked
from giftrl.streams.names.features import Dictionary
from giftrl.training import Settings
from giftrl.training.certification import LabelledRows
from tests.best_losses import EVERY, make

pytestmark = pytest.mark.plain


def pieces(kept, size=25):
    """The rows of a record, in blocks."""
    numbers = np.arange(len(kept.examples.labels))
    return [kept.examples.only(numbers // size == block) for block in range(-(-len(numbers) // size))]


def answer(case, u, **options):
    blocks = pieces(case.evidence)
    return by_passes(case.evidence.without_rows(), lambda: blocks, u, **options)


@pytest.mark.parametrize("loss", EVERY, ids=repr)
@pytest.mark.parametrize("many", [False, True])
def test_passes_prove_nearly_as_much_as_all_rows(loss, many, monkeypatch):
    case = make(loss, seed=3, n=100, d=4)
    if many:  # as if there were more features than a matrix is made for
        monkeypatch.setattr(passes, "MAX_HESSIAN_COORDINATES", 0)
    u = 0.5 * case.rng.normal(size=case.evidence.theta.shape)
    whole = case.evidence.best_loss(u, time_limit=60.0)
    best = answer(case, u, sample=Examples.joined(pieces(case.evidence)[::2]), time_limit=60.0)
    assert best.loss_sum == pytest.approx(case.total(u), rel=1e-12)
    assert (best.rows, best.weight, best.least) == (100, case.evidence.weight, pytest.approx(whole.least, abs=1e-9))
    room = whole.lower_bound - whole.least
    # Above that of all rows only where the other units, or the solver's tolerance, make it so.
    assert best.lower_bound <= whole.lower_bound + 1e-3 * room
    left = (0.1 if many else 0.01) if kinked(loss) else 1e-4
    assert best.lower_bound >= whole.lower_bound - left * room


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Hinge(), Softmax(), MulticlassHinge()], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_no_pass_claims_too_much(loss, seed):
    case = make(loss, seed=seed, n=40, d=3, orders=2.0)
    u = case.rng.normal(size=case.evidence.theta.shape) / np.sqrt(
        np.maximum(case.evidence.squares, 1e-9) / case.evidence.weight
    ).reshape((-1,) + (1,) * (case.evidence.theta.ndim - 1))
    found = []
    best = answer(case, u, watch=lambda number, bound: found.append(bound), time_limit=3.0)
    for units in case.evidence.units():
        if units.name == best.units:
            least = case.exact(u, units, units.norm(u))
            assert best.lower_bound <= least
            if not case.classes:
                assert best.lower_bound <= case.best(units, units.norm(u))[0] * (1 + 1e-6) + 1e-6
    assert found == sorted(found) and len(found) == best.passes


def test_a_pass_at_numbers_beyond_float64():
    case = make(Logistic(), seed=1)
    with np.errstate(all="ignore"):
        best = answer(case, np.full(case.evidence.theta.shape, 1e308))
    assert best.lower_bound == best.least == 0.0


def test_gap_and_time():
    case = make(Logistic(), seed=1, n=100)
    u = 0.1 * case.rng.normal(size=case.evidence.theta.shape)
    tight, loose = answer(case, u), answer(case, u, gap=5.0)
    assert loose.passes < tight.passes and loose.loss_sum <= 6.0 * loose.lower_bound
    begun = time.monotonic()
    assert answer(case, u, time_limit=0.0).passes == 1
    assert time.monotonic() - begun < 5.0
    with pytest.raises(InvalidInput, match="scale=-1.0: must be finite and not negative"):
        answer(case, u, scale=-1.0)


def test_the_model_0_and_a_ball_of_size_0():
    case = make(Squared(), seed=2)
    zero = answer(case, case.zero())
    assert zero.lower_bound == pytest.approx(case.total(case.zero()), rel=1e-9)
    assert zero.lower_bound <= case.total(case.zero())
    u = case.rng.normal(size=case.evidence.theta.shape)
    assert answer(case, u, scale=0.0).lower_bound == pytest.approx(case.total(case.zero()), rel=1e-9)


def test_a_sample_is_the_same_however_rows_come():
    case = make(Squared(), seed=2, n=200)
    whole, parts = DataSample(300), DataSample(300)
    whole.add(Examples.joined(pieces(case.evidence)))
    for block in pieces(case.evidence, 7):
        parts.add(block)
    assert whole.share == parts.share < 1.0
    assert whole.entries == parts.entries <= 300
    for one, other in zip(whole.rows(), parts.rows(), strict=True):
        assert np.array_equal(one, other)
    everything = DataSample(10_000)
    for block in pieces(case.evidence, 7):
        everything.add(block)
    assert everything.share == 1.0
    assert np.array_equal(everything.rows().matrix(4).toarray(), case.evidence.examples.matrix(4).toarray())


def test_rows_without_features():
    kept = Evidence.of_rows("squared", np.empty((3, 0)), [1.0, 2.0, 3.0])
    assert by_passes(kept.without_rows(), lambda: [kept.examples], np.empty(0)).lower_bound == pytest.approx(7.0)


def test_data_that_changes_is_refused(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 2:1\n")
    rows = LabelledRows([path], Settings(), Dictionary(), most=0)
    rows.survey()
    assert rows.again and rows.sample.share < 1.0
    for changed in ("1 1:1\n", "1 1:1\n-1 3:1\n", "1 1:1\n-1 2:1\n1 1:1\n"):
        path.write_text(changed)
        with pytest.raises(BadSource, match="rows.svm: changed while it was read; use a copy"):
            list(rows.blocks())
