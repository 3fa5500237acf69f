"""Runs on many workers, simulated: the same bits whichever workers are lost, and wherever a run goes on."""

import re
import socket
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from giftrl import distributed
from giftrl.certificates import row_record as at
from giftrl.cli.commands import main
from giftrl.distributed import ray_crew
from giftrl.distributed.driver import Driver, LocalCrew
from giftrl.distributed.launch import read_checkpoint, write_checkpoint
from giftrl.distributed.ray_crew import require_address
from giftrl.errors import BadRow, Incompatible, InvalidInput, ModelFileError
from giftrl.training import Checkpoint, LinearModel, Settings, train
from giftrl.training.model import pack
from tests.distributed import SETTINGS, WORKERS, Losing, Swapping, bytes_of, plan_of_few_rows, write_rows


@pytest.fixture
def reading(tmp_path, monkeypatch):
    return plan_of_few_rows(tmp_path, monkeypatch)


def run(reading, crew=None, after=None):
    driver = Driver(LinearModel(reading.settings), reading, crew or LocalCrew(reading, len(reading.shards)))
    driver.run(after)
    return driver


def test_every_row_is_learnt_once(reading, tmp_path):
    model = run(reading).model
    alone = train(reading.settings, tmp_path / "rows.vw")
    assert (model.examples, model.nonzeros, model.weight) == (alone.examples, alone.nonzeros, alone.weight)
    assert model.average_loss < 1.1 * alone.average_loss
    assert model.features.report() == alone.features.report()
    assert {model.features.name(k) for k in range(256)} == {alone.features.name(k) for k in range(256)}


def test_one_worker_is_a_run_without_workers(reading, tmp_path):
    alone = train(reading.settings, tmp_path / "rows.vw")
    model = distributed.train(SETTINGS, tmp_path / "rows.vw", workers=1, cluster="simulation")
    assert same_but_stamps(model, alone)


def test_workers_need_the_state_as_a_whole_once(reading):
    wholes = []

    class Counting(LocalCrew):
        def one(self, order, piece, whole):
            return super().one(order, piece, lambda: wholes.append(order.shard) or whole())

    run(reading, Counting(reading, WORKERS))
    assert sorted(wholes) == [1, 2]


def test_train_writes_checkpoints_and_goes_on(reading, tmp_path):
    data, path = tmp_path / "rows.vw", tmp_path / "run.checkpoint"
    options = {"workers": WORKERS, "cluster": "simulation"}
    wanted = bytes_of(distributed.train(SETTINGS, data, **options), tmp_path)

    def stop(driver):
        if driver.costs.rounds == 4:
            raise KeyboardInterrupt

    options["checkpoint"] = Checkpoint(path, 1)
    with pytest.raises(KeyboardInterrupt):
        distributed.train(SETTINGS, data, after=stop, **options)
    with pytest.raises(InvalidInput, match="may be unfinished"):
        distributed.train(SETTINGS, data, **options)
    with pytest.raises(InvalidInput, match="workers=3, now 2"):
        distributed.train(SETTINGS, data, resume=True, **options | {"workers": 2})
    with pytest.raises(InvalidInput, match="loss='logistic', now 'hinge'"):
        distributed.train(Settings(loss="hinge", bits=8), data, resume=True, **options)
    assert bytes_of(distributed.train(SETTINGS, data, resume=True, **options), tmp_path) == wanted
    with data.open("a") as file:
        file.write("1 |a more\n")
    with pytest.raises(InvalidInput, match="other settings or data"):
        distributed.train(SETTINGS, data, resume=True, **options)


def test_a_sequential_checkpoint_is_not_one_of_many_workers(reading, tmp_path):
    LinearModel(reading.settings).save(tmp_path / "a.checkpoint")
    with pytest.raises(ModelFileError, match="not a sound checkpoint"):
        read_checkpoint(tmp_path / "a.checkpoint", reading)


def test_a_bad_row_stops_the_run_or_is_counted(reading, tmp_path):
    data = tmp_path / "rows.vw"
    with data.open("a") as file:
        file.write("x |a b\n" * 3)
    options = {"workers": WORKERS, "cluster": "simulation"}
    with pytest.raises(BadRow, match="rows.vw from byte"):
        distributed.train(SETTINGS, data, **options)
    model = distributed.train(SETTINGS, data, on_error="skip", **options)
    assert (model.examples, model.rejected) == (700, 3)


def test_more_workers_than_files(reading, tmp_path):
    import gzip

    for k in range(2):
        (tmp_path / f"rows{k}.vw.gz").write_bytes(gzip.compress((tmp_path / "rows.vw").read_bytes()))
    model = distributed.train(SETTINGS, str(tmp_path / "*.gz"), workers=5, cluster="simulation")
    assert model.examples == 1400


def test_products_and_their_names(reading, tmp_path):
    settings = Settings(loss="logistic", bits=10, interactions=(("a", "a"),))
    options = {"workers": WORKERS, "cluster": "simulation"}
    model = distributed.train(settings, tmp_path / "rows.vw", **options)
    alone = train(settings, tmp_path / "rows.vw")
    assert (model.examples, model.nonzeros) == (alone.examples, alone.nonzeros)
    assert model.features.report().used == alone.features.report().used


def test_ray_is_asked_for_by_name(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"needs Ray.*giftrl\[ray\]"):
        distributed.train(SETTINGS, write_rows(tmp_path / "rows.vw", 5), workers=2)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("ray://127.0.0.1:1", "nothing answers there"),
        ("simulation", "write ray://host:10001"),
        ("auto", 'pip install "giftrl\\[ray\\]"'),
    ],
)
def test_a_sweep_on_no_cluster_is_refused_at_once(monkeypatch, tmp_path, cluster, said):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("giftrl.distributed.ray_crew.CLUSTER_RECORD", tmp_path / "none")
    data = tmp_path / "rows.svm"
    data.write_text("1 1:1\n")
    run = CliRunner().invoke(main, ["sweep", str(data), "--cluster", cluster, "--out", str(tmp_path / "out")])
    assert run.exit_code != 0 and re.search(said, str(run.exception) + run.output)
    assert not (tmp_path / "out").exists()


def test_an_address_where_nothing_answers_is_named_at_once():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and not listening
        with pytest.raises(InvalidInput, match="nothing answers there"):
            require_address(f"ray://127.0.0.1:{held.getsockname()[1]}")


def test_a_cluster_that_has_ended_is_named_at_once(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        record = tmp_path / "ray_current_cluster"
        record.write_text(f"127.0.0.1:{held.getsockname()[1]}\n")
        monkeypatch.setattr(ray_crew, "CLUSTER_RECORD", record)
        with pytest.raises(InvalidInput, match="cluster='auto': nothing answers there"):
            require_address("auto")


def same_but_stamps(one, other):
    """Whether learners are the same, but for when features were set anew."""
    ours, theirs = (pack(each.learner, each.features.dimension) for each in (one, other))
    return {name for name in ours if not np.array_equal(ours[name], theirs[name])} <= {"features.stamps"}


@pytest.mark.parametrize("settings", [SETTINGS, Settings(loss="hinge", bits=8)])
def test_a_run_goes_on_from_a_model(reading, tmp_path, settings):
    first, second = tmp_path / "rows.vw", write_rows(tmp_path / "more.vw", rows=800)
    options = {"cluster": "simulation"}
    settings = replace(settings, witness_nonzeros=None)
    before = train(settings, first)
    before.save(tmp_path / "first.giftrl")
    model = distributed.train(LinearModel.load(tmp_path / "first.giftrl")[0], second, workers=1, **options)
    assert same_but_stamps(model, train(settings, [first, second]))
    many = LinearModel.load(tmp_path / "first.giftrl")[0]
    expected = distributed.plan(settings, second, WORKERS)
    crew = Losing(expected, (2, 1, "after"))
    bits = bytes_of(Driver(many, expected, crew).run(), tmp_path)
    again = LinearModel.load(tmp_path / "first.giftrl")[0]
    assert bytes_of(distributed.train(again, second, workers=WORKERS, **options), tmp_path) == bits
    assert again.examples == 1500 and again.learner.rounds == 1500
    assert again.average_loss < 1.1 * model.average_loss


def test_the_command_goes_on_and_says_when_it_does_not_pay(reading, tmp_path):
    one, two = tmp_path / "one.giftrl", tmp_path / "two.giftrl"
    more = ["--cluster", "simulation", "--workers", "2", "--model"]
    first = CliRunner().invoke(main, ["train", str(tmp_path / "rows.vw"), "--bits", "8", *more, str(one)])
    assert first.exit_code == 0, first.output
    note = "note: a cluster hardly pays below 100,000,000 rows, and there are about 700 here"
    assert first.output.startswith(note) and first.output.count("hardly pays") == 1
    second = CliRunner().invoke(main, ["train", str(tmp_path / "rows.vw"), "--from", str(one), *more, str(two)])
    assert second.exit_code == 0, second.output
    assert "continuing after 700 examples" in second.output and "1,400 examples" in second.output
    assert LinearModel.load(two)[0].examples == 1400
    for more_quiet in ("--quiet", "--json"):
        silent = CliRunner().invoke(main, ["train", str(tmp_path / "rows.vw"), *more[:-1], more_quiet])
        assert silent.exit_code == 0 and silent.stderr == "" and bool(silent.stdout) == (more_quiet == "--json")
    refused = CliRunner().invoke(
        main, ["train", str(tmp_path / "rows.vw"), "--from", str(one), "--bits", "9", *more, "x"]
    )
    assert refused.exit_code != 0 and "was trained with other settings" in str(refused.exception) + refused.output


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--passes", "2"), "--passes 2: a cluster makes one pass"),
        (("--report", "r.html"), "--report r.html: the page is about predictions"),
        (("-p", "p.txt"), "--predictions p.txt: predictions come in no order"),
        (("--rejects", "r", "--on-error", "skip"), "--rejects r: a cluster counts rows"),
    ],
)
def test_what_a_cluster_does_not_do_is_refused_by_name(tmp_path, option, said):
    data = write_rows(tmp_path / "rows.vw", 5)
    run = CliRunner().invoke(main, ["train", str(data), "--cluster", "simulation", *option])
    assert run.exit_code == 1 and said in run.output


# Certificates of all rows, with the same bits whoever fails on the way.

#: No example is stored, or some, or all, or their second moments; one score and K scores.
KINDS = {
    "none": Settings(loss="logistic", bits=8, witness_nonzeros=1),
    "some": Settings(loss="logistic", bits=8, witness_nonzeros=400),
    "all": Settings(loss="logistic", bits=8),
    "moments": Settings(loss="squared", bits=8, witness_nonzeros=400),
    "classes": Settings(loss="softmax", bits=8, witness_nonzeros=2000, label_values=(-1.0, 1.0, 2.0)),
}


@pytest.fixture(params=KINDS)
def each_reading(request, tmp_path, monkeypatch):
    return plan_of_few_rows(tmp_path, monkeypatch, KINDS[request.param])


def test_the_certificate_is_about_all_rows_and_nearly_as_good_as_that_of_one_worker(each_reading, tmp_path):
    model = run(each_reading).model
    assert model.learner.merges > 4
    best = model.certificate.best_loss(1.0, 5.0)
    alone = train(each_reading.settings, tmp_path / "rows.vw").certificate.best_loss(1.0, 5.0)
    assert best.rows == alone.rows == 700 and best.weight == pytest.approx(alone.weight)
    assert 0.0 < best.lower_bound <= best.loss_sum
    assert best.lower_bound > 0.8 * alone.lower_bound
    budget = each_reading.settings.witness_nonzeros
    assert model.learner.witnesses.record.sums[at.STORED_COST] <= budget
    assert (best.rows_kept == 700) == (budget == 1_000_000 or each_reading.settings.loss == "squared")
    for what in (model.certificate.theorem_terms, model.certificate.lemma_4_1, model.certificate.corollary_4_3):
        with pytest.raises(Incompatible, match="is about one sequence of rounds"):
            what(model.certificate.theta)


def test_workers_may_be_lost_or_slow_in_any_round(each_reading, tmp_path):
    driver = run(each_reading)
    wanted = bytes_of(driver.model, tmp_path)
    crews = [Losing(each_reading, (v, v % WORKERS, ("before", "after")[v % 2])) for v in range(driver.progress.version)]
    for crew in [*crews, Swapping(each_reading, WORKERS)]:
        assert bytes_of(run(each_reading, crew).model, tmp_path) == wanted


def test_a_run_goes_on_from_any_checkpoint(each_reading, tmp_path):
    path, kept = tmp_path / "run.checkpoint", []

    def after(driver):
        write_checkpoint(path, driver)
        kept.append(path.read_bytes())

    wanted = bytes_of(run(each_reading, after=after).model, tmp_path)
    for each in kept:
        path.write_bytes(each)
        model, progress = read_checkpoint(path, each_reading)
        again = Driver(model, each_reading, LocalCrew(each_reading, WORKERS), progress)
        assert bytes_of(again.run(), tmp_path) == wanted


def test_a_run_that_goes_on_from_a_model_has_the_certificate_of_both(each_reading, tmp_path):
    more = write_rows(tmp_path / "more.vw", rows=300)
    model = distributed.train(train(each_reading.settings, tmp_path / "rows.vw"), more, workers=2, cluster="simulation")
    best = model.certificate.best_loss(1.0, 5.0)
    assert best.rows == 1000 and 0.0 < best.lower_bound <= best.loss_sum


@pytest.mark.parametrize("nonzeros", [0, None])
def test_nothing_is_remembered_if_nothing_is_asked_for(reading, tmp_path, nonzeros):
    settings = replace(reading.settings, witness_nonzeros=nonzeros)
    model = distributed.train(settings, tmp_path / "rows.vw", workers=WORKERS, cluster="simulation")
    assert model.certificate.evidence is None
    assert model.certificate.merged and model.certificate.loss_sum == run(reading).model.certificate.loss_sum
