"""Single rows in JSON take a short way through the service: the same answers and the same model, bit for bit."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giftrl.errors import Refused
from giftrl.service.bodies import Body
from giftrl.service.online_model import OnlineModel, SingleRows
from giftrl.service.requested_settings import RequestedSettings
from tests.serving import rows

KINDS = [
    {"loss": "logistic", "labels": [0, 1]}, {"loss": "logistic", "labels": ["0", "1"], "beta": 1.0},
    {"loss": "squared", "beta": 1.0}, {"loss": "squared"}, {"loss": "squared", "constant": False},
]  # fmt: skip
VALUES = st.one_of(
    st.floats(-9, 9), st.integers(-3, 3), st.sampled_from([True, False, None, "", "x", "a:b", 'q"', "\\", "é"]),
    st.sampled_from([[1, 2], ["u", "v"], [], {"k": 1, "l": {"m": "n"}}, 1e30, 0, -0.0, 2**63]),
)  # fmt: skip
KEYS = st.sampled_from(["a", "b", "c", "city", "a=x", "features", "weight", "é", 'k"', "c^k"])
ROWS = st.lists(st.tuples(KEYS, VALUES), max_size=6)


def written(pairs, label=None, spaced=False):
    """An object with these keys and values in order, some of which may be there twice."""
    pairs = [*pairs, *([] if label is None else [("label", label)])]
    colon = " : " if spaced else ":"
    return ("{" + ",".join(json.dumps(k) + colon + json.dumps(v) for k, v in pairs) + "}\n").encode()


def model(kind, dictionary, lines):
    live = OnlineModel(RequestedSettings({"bits": 5} | kind | ({"dictionary": True} if dictionary else {})))
    live.learn([Body("json", b"".join(lines))])
    return live


def bytes_of(live, path):
    live.linear.save(path)
    return path.read_bytes()


def answers(live, lines, how):
    """What a way to ask answers to each line; words where it refuses."""
    found = []
    for line in lines:
        try:
            found.append(how(live, Body("json", line)).predictions)
        except Refused as refusal:
            found.append(str(refusal))
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.lists(ROWS, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_one_row_is_scored_as_many_are(kind, found, dictionary, spaced):
    live = model(kind, dictionary, rows(40))
    asked = [written(each, spaced=spaced) for each in found]
    asked += [written({k: v for k, v in json.loads(line).items() if k != "label"}.items()) for line in rows(5, 1)]
    for output in ("scores", "label"):

        def predicted(live, entry, output=output):
            return live.predict([entry], output)[0]

        single = answers(live, asked, predicted)
        double = answers(live, [2 * line for line in asked], predicted)
        for one, two in zip(single, double, strict=True):
            assert isinstance(one, str) == isinstance(two, str)
            assert isinstance(one, str) or 2 * one == two


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.lists(st.tuples(ROWS, st.sampled_from([0, 1, "0", 1.0, None, "z"])), min_size=1, max_size=12), st.booleans())
def test_one_row_is_learnt_as_many_are(tmp_path_factory, kind, found, dictionary):
    path = tmp_path_factory.mktemp("learnt")
    lines = [*(written(each, label) for each, label in found), *rows(6, 2), *(written(*each) for each in found)]
    live, twin = (model(kind, dictionary, rows(40)) for _ in range(2))
    # With an empty line beside it, the reader looks at every row.
    first = answers(live, lines, lambda live, entry: live.learn([entry])[0])
    assert first == answers(twin, [line + b"\n" for line in lines], lambda live, entry: live.learn([entry])[0])
    assert bytes_of(live, path / "a") == bytes_of(twin, path / "b")


def test_usual_rows_take_the_short_way(monkeypatch):
    """Rows of numbers, texts and lists whose names have been met once."""
    live = model(KINDS[0] | {"bits": 12}, False, rows(40))
    counts = {"learn": 0, "predict": 0}
    for name in counts:
        original = getattr(SingleRows, name)

        def counting(self, given, name=name, original=original):
            found = original(self, given)
            counts[name] += found is not None
            return found

        monkeypatch.setattr(SingleRows, name, counting)
    for line in 2 * [*rows(5, 3), b'{"label": 1, "a": 2.5, "tags": ["u", "v"], "on": true, "of": {"it": null}}\n']:
        live.learn([Body("json", line)])
    assert counts["learn"] >= 6
    for line in rows(5, 4):
        live.predict([Body("json", written({"a": json.loads(line)["a"], "city": "Rome"}.items()))])
    assert counts["predict"] == 5


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1e-400", "123456789012345678901234567890", "1.7976931348623157e308"]
)
def test_numbers_at_the_ends_of_the_range(number):
    live = model(KINDS[3], False, rows(40))
    line = b'{"a": ' + number.encode() + b"}\n"
    for ask in (lambda live, entry: live.predict([entry])[0],):
        one, two = answers(live, [line, 2 * line], ask)
        assert isinstance(one, str) == isinstance(two, str)
        assert isinstance(one, str) or 2 * one == two
