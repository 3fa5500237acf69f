"""What a run on many workers proves: nearly what one worker does, with the same bits whoever fails on the way."""

from dataclasses import replace

import pytest

from giftrl import distributed
from giftrl.certificates import row_record as at
from giftrl.distributed.driver import Driver, LocalCrew
from giftrl.distributed.launch import read_checkpoint, write_checkpoint
from giftrl.errors import Incompatible
from giftrl.training import LinearModel, Settings, train
from tests.distributed import WORKERS, Losing, Swapping, bytes_of, plan_of_few_rows, write_rows

#: Nothing is kept, and rows are in groups; some rows are kept; second moments are; K scores.
KINDS = {
    "none": Settings(loss="logistic", bits=8, witness_nonzeros=1),
    "some": Settings(loss="logistic", bits=8, witness_nonzeros=400),
    "all": Settings(loss="logistic", bits=8),
    "moments": Settings(loss="squared", bits=8, witness_nonzeros=400),
    "classes": Settings(loss="softmax", bits=8, witness_nonzeros=2000, label_values=(-1.0, 1.0, 2.0)),
}


@pytest.fixture(params=KINDS)
def reading(request, tmp_path, monkeypatch):
    return plan_of_few_rows(tmp_path, monkeypatch, KINDS[request.param])


def run(reading, crew=None, after=None):
    driver = Driver(LinearModel(reading.settings), reading, crew or LocalCrew(reading, WORKERS))
    return driver.run(after), driver


def test_the_certificate_is_about_all_rows_and_nearly_as_good_as_that_of_one_worker(reading, tmp_path):
    model, _ = run(reading)
    assert model.learner.merges > 4
    best = model.certificate.best_loss(1.0, 5.0)
    alone = train(reading.settings, tmp_path / "rows.vw").certificate.best_loss(1.0, 5.0)
    assert best.rows == alone.rows == 700 and best.weight == pytest.approx(alone.weight)
    assert 0.0 < best.lower_bound <= best.loss_sum
    assert best.lower_bound > 0.8 * alone.lower_bound
    budget = reading.settings.witness_nonzeros
    assert model.learner.witnesses.record.sums[at.STORED_COST] <= budget
    assert (best.rows_kept == 700) == (budget == 1_000_000 or reading.settings.loss == "squared")
    for what in (model.certificate.theorem_terms, model.certificate.lemma_4_1, model.certificate.corollary_4_3):
        with pytest.raises(Incompatible, match="is about one sequence of rounds"):
            what(model.certificate.theta)


def test_workers_may_be_lost_or_slow_in_any_round(reading, tmp_path):
    model, driver = run(reading)
    wanted = bytes_of(model, tmp_path)
    crews = [Losing(reading, (v, v % WORKERS, ("before", "after")[v % 2])) for v in range(driver.progress.version)]
    for crew in [*crews, Swapping(reading, WORKERS)]:
        assert bytes_of(run(reading, crew)[0], tmp_path) == wanted


def test_a_run_goes_on_from_any_checkpoint(reading, tmp_path):
    path, kept = tmp_path / "run.checkpoint", []

    def after(driver):
        write_checkpoint(path, driver)
        kept.append(path.read_bytes())

    wanted = bytes_of(run(reading, after=after)[0], tmp_path)
    for each in kept:
        path.write_bytes(each)
        model, progress = read_checkpoint(path, reading)
        again = Driver(model, reading, LocalCrew(reading, WORKERS), progress)
        assert bytes_of(again.run(), tmp_path) == wanted


def test_a_run_that_goes_on_from_a_model_has_the_certificate_of_both(reading, tmp_path):
    more = write_rows(tmp_path / "more.vw", rows=300)
    model = distributed.train(train(reading.settings, tmp_path / "rows.vw"), more, workers=2, cluster="simulation")
    best = model.certificate.best_loss(1.0, 5.0)
    assert best.rows == 1000 and 0.0 < best.lower_bound <= best.loss_sum


@pytest.mark.parametrize("nonzeros", [0, None])
def test_nothing_is_remembered_if_nothing_is_asked_for(reading, tmp_path, nonzeros):
    settings = replace(reading.settings, witness_nonzeros=nonzeros)
    model = distributed.train(settings, tmp_path / "rows.vw", workers=WORKERS, cluster="simulation")
    assert model.certificate.evidence is None
    assert model.certificate.merged and model.certificate.loss_sum == run(reading)[0].certificate.loss_sum
