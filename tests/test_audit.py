"""``giftrl predict --audit`` and ``giftrl inspect``: weights by name, and what each adds to a score."""

import json

import numpy as np
import pytest

from giftrl.streams.names.features import SEPARATOR
from tests.commands import giftrl

pytestmark = pytest.mark.plain


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.vw"
    rng = np.random.default_rng(0)
    lines = []
    for k in range(60):
        user, ad, page = rng.integers(0, 3, 3).tolist()
        label = 1 if (user + ad + page) % 2 else -1
        lines.append(f"{label} 'row{k}|user u{user}:{1 + k % 3} |ad a{ad} x:0.5 |page p{page}\n")
    path.write_text("".join(lines))
    return path


def blocks(text: str) -> list[dict]:
    """What an audit says, block by block."""
    found = []
    for block in text.strip("\n").split("\n\n"):
        first, *lines = block.split("\n")
        entries = [line.split("\t") for line in lines]
        if len(entries) > 1:
            assert entries[0] == ["feature", "coordinate", "value", "weight", "contribution"]
        facts = {each[0]: each[1] for each in entries if len(each) == 2}
        features = {each[0]: tuple(map(float, each[1:])) for each in entries[1:] if len(each) == 5}
        found.append({"row": first, "features": features, **facts})
    return found


@pytest.mark.parametrize("names", [("--bits", "14"), ("--dictionary",)])
@pytest.mark.parametrize(
    "options",
    [
        ("--beta", "1"), (), ("--beta", "1", "-q", "user:ad", "-q", "uap", "--ngram", "ad:2", "--normalize", "unit"),
        ("--loss", "squared", "-q", "::"), ("--no-constant", "-q", "aa"),
    ],
)  # fmt: skip
def test_contributions_sum_to_the_score(rows, tmp_path, names, options):
    model = tmp_path / "m"
    giftrl("train", rows, *names, *options, "--model", model, "--quiet")
    answers, scores = (
        [line.split() for line in giftrl("predict", model, rows, *how).stdout.decode().splitlines()]
        for how in ((), ("--scores",))
    )
    audit = tmp_path / "audit.txt"
    giftrl("predict", model, rows, "--audit", "-o", audit)
    said = audit.read_text()
    assert giftrl("predict", model, rows, "--audit").stdout.decode() == said
    found = blocks(said)
    assert len(found) == len(answers) == 60
    for k, (block, (answer, tag), (score, *_)) in enumerate(zip(found, answers, scores, strict=True)):
        assert block["row"] == f"{rows}:{k + 1} row{k}" and tag == f"row{k}"
        added = [contribution for _, _, _, contribution in block["features"].values()]
        assert sum(added) == pytest.approx(float(block["score"]), rel=1e-6, abs=1e-7)
        assert [abs(each) for each in added] == sorted(map(abs, added), reverse=True)
        for _, value, weight, contribution in block["features"].values():
            assert value * weight == pytest.approx(contribution, rel=1e-6)
        assert block["prediction"] == answer
        if "squared" not in options:  # which is clipped to the labels seen
            assert float(block["score"]) == pytest.approx(float(score), rel=1e-6, abs=1e-8)
    shown = json.loads(giftrl("inspect", model, "--top", 10_000, "--json").stdout)["weights"]
    weights = {each["feature"]: each["weight"] for each in shown}
    for block in found:
        for name, (_, value, weight, _) in block["features"].items():
            assert weights.get(name, 0.0) == pytest.approx(weight, rel=1e-6), name
            assert value > 0.0
    names_seen = {name for block in found for name in block["features"]}
    assert not any(name.startswith("#") for name in names_seen)
    assert ("(constant)" in names_seen) == ("--no-constant" not in options)
    if "uap" in options:
        assert {"ad^a0^x", "ad^x"} <= names_seen
        products = [set(name.split(SEPARATOR)) for name in weights]
        assert {"user^u0", "ad^a1"} in products and {"user^u1", "ad^a2", "page^p0"} in products


def test_an_audit_shows_the_names_of_the_row_and_not_those_of_the_training_data(rows, tmp_path):
    model, new = tmp_path / "m", tmp_path / "new.vw"
    giftrl("train", rows, "--beta", 1, "--bits", 1, "--model", model, "--quiet")
    new.write_text("|user never_seen:2 |ad other\nbad\n|page p0\n")
    first, second, _ = blocks(giftrl("predict", model, new, "--audit", "--on-error", "skip").stdout.decode())
    assert {"user^never_seen", "ad^other"} & set(first["features"])
    assert second == {"row": f"{new}:2", "features": {}, "prediction": "nan"}


def test_an_audit_of_converted_rows_has_the_names_of_the_model(rows, tmp_path):
    model, converted = tmp_path / "m", tmp_path / "rows.arrow"
    giftrl("train", rows, "--beta", 1, "-q", "uap", "--model", model, "--quiet")
    giftrl("convert", rows, converted, "-q", "uap", "--quiet")
    for one, two in zip(
        *(blocks(giftrl("predict", model, file, "--audit").stdout.decode()) for file in (rows, converted)), strict=True
    ):
        assert one["features"] == two["features"] and one["score"] == two["score"]


def test_an_audit_of_classes_is_of_the_class_that_is_predicted(tmp_path):
    data, model = tmp_path / "x.svm", tmp_path / "m"
    data.write_text("3 1:1 2:0.5\n5 2:1\n9 3:1\n" * 20)
    giftrl(
        "train", data, "--loss", "softmax", "--labels", "3,5,9", "--beta", 1, "--bits", 4, "--model", model, "--quiet"
    )
    found = blocks(giftrl("predict", model, data, "--audit").stdout.decode())
    weights = json.loads(giftrl("inspect", model, "--json", "--top", 100).stdout)["weights"]
    known = {each["feature"]: each["weight"] for each in weights}
    for block, label in zip(found, [3, 5, 9] * 20, strict=True):
        assert block["prediction"] == str(label)
        for name, (_, _, weight, _) in block["features"].items():
            assert weight == pytest.approx(known[f"{name} (class {label})"], rel=1e-6)
    [block, *_] = blocks(giftrl("predict", model, data, "--audit", "--proba").stdout.decode())
    assert len(block["prediction"].split()) == 3


def test_names_in_an_audit_do_not_break_lines(tmp_path):
    data, model = tmp_path / "x.csv", tmp_path / "m"
    data.write_text('label,city\n1,"a\tb\nc"\n-1,d\n')
    giftrl("train", data, "--beta", 1, "--model", model, "--quiet")
    [block, _] = blocks(giftrl("predict", model, data, "--audit").stdout.decode())
    assert set(block["features"]) == {"city=a\\tb\\nc", "(constant)"}
