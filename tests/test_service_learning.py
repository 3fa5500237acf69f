"""What a service learns is, bit for bit, what ``giftrl train`` learns from the same rows in the same order."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import Refused
from giftrl.service.bodies import Body
from giftrl.service.folder import Folder
from giftrl.service.online_model import OnlineModel
from giftrl.service.request_limits import Limits
from giftrl.service.requested_settings import RequestedSettings
from giftrl.service.writer import LEARN, SAVE, Clock, Job
from giftrl.streams.batch import Batch, Position
from giftrl.training import LinearModel, Settings
from tests.commands import giftrl
from tests.serving import QUICK, quick_settings, rows, trained

pytestmark = pytest.mark.plain


def bytes_of(live, path):
    live.linear.save(path)
    return path.read_bytes()


def cut(lines, chosen):
    """Lines in requests of random sizes."""
    entries = []
    while lines:
        size = chosen.choice([1, 1, 2, 7, 30])
        entries.append(Body("json", b"".join(lines[:size])))
        lines = lines[size:]
    return entries


def learn(live, entries, chosen):
    while entries:
        count = chosen.randint(1, 1 if live.is_provisional else len(entries))
        live.learn(entries[:count])
        entries = entries[count:]


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans())
def test_requests_of_any_size_make_the_model_of_one_file(tmp_path_factory, seed, dictionary):
    path, lines, chosen = tmp_path_factory.mktemp("one"), rows(120, seed), random.Random(seed)
    live = OnlineModel(RequestedSettings(QUICK | {"dictionary": dictionary}))
    learn(live, cut(lines, chosen), chosen)
    wanted = trained(path, lines, quick_settings() if not dictionary else Settings(
        loss="logistic", label_values=(0.0, 1.0), beta=1.0, bits=None))  # fmt: skip
    assert bytes_of(live, path / "live") == wanted


@settings(max_examples=6)
@given(st.integers(0, 10**6))
def test_without_settings_the_rows_choose_as_they_do_in_a_file(tmp_path_factory, seed):
    path, chosen = tmp_path_factory.mktemp("none"), random.Random(seed)
    kinds = [["no", "yes"], [1, 2, 3], ["a", "b", "c"], [0.5, 7, 2.25, 9, -1]]
    labels = chosen.choice(kinds)
    made = [{"label": chosen.choice(labels), "day": f"2024-01-{k % 28 + 1:02d}", "x": k % 5} for k in range(128)]
    lines = [json.dumps(each).encode() + b"\n" for each in made]
    live = OnlineModel(RequestedSettings({"beta": 1.0, "bits": 6}))
    learn(live, cut(lines[:100], chosen), chosen)
    learn(live, [Body("json", b"".join(lines[100:]))], chosen)  # which passes a power of two with its last row
    data = path / "rows.json"
    data.write_bytes(b"".join(lines))
    giftrl("train", data, "--label", "label", "--beta", 1, "--bits", 6, "--quiet", "--model", path / "m")
    assert bytes_of(live, path / "live") == (path / "m").read_bytes()


def test_a_refused_request_changes_nothing(tmp_path):
    lines = rows(40)
    live = OnlineModel(RequestedSettings(QUICK | {"dictionary": True}))
    for k, line in enumerate(lines):
        for bad in (b'{"label": 5, "new%d": 1}\n', b'{"label": 1, "other%d": 1}\n{"labe', b'{"new": %d}\n'):
            with pytest.raises(Refused):
                live.learn([Body("json", bad % k if b"%d" in bad else bad)])
        live.learn([Body("json", line)])
    wanted = trained(tmp_path, lines, Settings(loss="logistic", label_values=(0.0, 1.0), beta=1.0, bits=None))
    assert bytes_of(live, tmp_path / "live") == wanted


def test_a_young_model_keeps_what_it_has_acknowledged():
    live = OnlineModel(RequestedSettings({"beta": 1.0, "bits": 5}))
    live.learn([Body("json", b'{"label": "word", "x": 1}\n')])
    assert live.waiting == 1
    for k in range(40):
        # From ten numbers on, `giftrl train` would take the word for a mistake, and leave out that row.
        live.learn([Body("json", b'{"label": %d, "x": 1}\n' % (k % 2))])
    assert live.examples == 41
    assert live.linear.settings.class_names == ("0", "1", "word")


def test_rows_that_are_left_out_are_those_that_train_leaves_out(tmp_path):
    lines = rows(30)
    lines[3], lines[17] = b'{"label": 7, "a": 1}\n', b"no json\n"
    live = OnlineModel(RequestedSettings(QUICK))
    answers = [live.learn([Body("json", b"".join(lines[k : k + 10]), skip=True)])[0] for k in (0, 10, 20)]
    assert [answer.predictions.index(None) for answer in answers[:2]] == [3, 7]
    assert [answer.rejected[0].line for answer in answers[:2]] == [4, 8]
    assert bytes_of(live, tmp_path / "live") == trained(tmp_path, lines, quick_settings(), on_error="skip")


def test_weights_add_up_the_same_in_any_pieces():
    """The sum of the weights was rounded differently for every split of the rows."""
    rng = np.random.default_rng(0)
    weights, sums = rng.random(1000), set()
    for most in (1, 7, 1000):
        model = LinearModel(Settings(loss="squared", beta=1.0, bits=2))
        n = len(weights)
        batch = Batch(
            "a", np.ones(n), np.zeros(n, np.int32), np.arange(n + 1), np.zeros(n), weights, np.arange(n),
            np.empty(0, np.uint8), Position(),
        )  # fmt: skip
        for _ in model.learn(batch, most):
            pass
        sums.add(model.weight)
    assert len(sums) == 1


FORMATS = {
    "libsvm": b"1 1:0.5 3:2\n-1 2:1\n",
    "vw": b"1 |a x y:2\n-1 |b z\n",
    "json": b'{"label": 1, "x": 2}\n{"label": -1, "y": 3}\n',
}


@pytest.mark.parametrize("format_", FORMATS)
def test_every_text_is_read_as_train_reads_it(format_, tmp_path):
    live = OnlineModel(RequestedSettings({"loss": "logistic", "labels": [-1, 1], "beta": 1.0, "bits": 6}))
    for line in FORMATS[format_].splitlines(keepends=True):
        live.learn([Body(format_, line)])
    data = tmp_path / "rows"
    data.write_bytes(FORMATS[format_])
    more = ["--label", "label"] if format_ == "json" else []
    giftrl("train", data, "--format", format_, "--loss", "logistic", "--labels=-1,1", "--beta", 1, "--bits", 6,
           "--quiet", "--model", tmp_path / "m", *more)  # fmt: skip
    assert bytes_of(live, tmp_path / "live") == (tmp_path / "m").read_bytes()


def opened(path, **limits):
    folder = Folder(path, Limits(**limits), Clock())
    if not folder.has("m"):
        folder.create("m", QUICK)
    return folder, folder.get("m")


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_reopening_at_any_moment_goes_on_where_it_was(tmp_path_factory, seed):
    path, chosen, lines = tmp_path_factory.mktemp("open"), random.Random(seed), rows(100, seed)
    folder, writer = opened(path / "f", log=chosen.choice([100, 2000, 10**6]))
    for entry in cut(lines, chosen):
        writer.submit(Job(LEARN, entry)).answer.result(60)
        if chosen.random() < 0.2:
            folder.close()
            folder, writer = opened(path / "f", log=2000)
    writer.submit(Job(SAVE, path=path / "end")).answer.result(60)
    folder.close()
    assert Path(path / "end").read_bytes() == trained(path, lines, quick_settings())


def test_a_model_without_enough_memory_for_two_is_closed_and_reopened(tmp_path):
    folder = Folder(tmp_path / "f", Limits(memory=1), Clock())
    lines = rows(40)
    for name in "abc":
        folder.create(name, QUICK)
    for line in lines:
        for name in "abc":
            folder.get(name).submit(Job(LEARN, Body("json", line))).answer.result(60)
            assert len(folder.writers) == 1
    for name in "abc":
        folder.get(name).submit(Job(SAVE, path=tmp_path / name)).answer.result(60)
        assert (tmp_path / name).read_bytes() == trained(tmp_path, lines, quick_settings())
    folder.close()
