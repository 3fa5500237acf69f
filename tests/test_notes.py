"""What ``giftrl train`` says of the columns that it found: all that is true of them, and nothing else."""

import json

import pytest

from giftrl.samples import SAMPLES
from giftrl.streams.infer_columns import infer_from_texts
from tests.commands import giftrl

pytestmark = pytest.mark.plain


def said_of(path, text, *options):
    """What is said before the table."""
    path.write_text(text)
    said = giftrl("train", path, "--beta", "1", "--certificate-seconds", 0, *options).stderr.decode()
    return [line for line in said[: said.index("  examples  since last")].splitlines()[1:] if line]


@pytest.mark.parametrize("text", ["y\nno\nyes\nno\n", "a b y\n1 2 no\n3 4 yes\n1 2 no\n"])
def test_a_table_of_labels_alone(tmp_path, text):
    (note,) = said_of(tmp_path / "a.csv", text)
    assert note.startswith("note: the table has no column to learn from besides the label")
    assert note.endswith("columns of CSV are looked for between tabs, semicolons, commas or bars")
    lines = said_of(tmp_path / "a.csv", "x,y\n1,no\n2,yes\n", "--ignore", "x")
    assert lines[:2] == ["ignored  x", "label    y"] and lines[2:] == [note]


def test_numbers_with_units(tmp_path):
    rows = [f"{k + 0.5}%,${k}.10,{k}.00 EUR,{k},{'no' if k % 2 else 'yes'}\n" for k in range(10, 30)]
    text = "rate,price,paid,x,y\n" + "".join(rows)
    note = "read as categories; remove the unit to have numbers"
    found = said_of(tmp_path / "a.csv", text)
    assert found[-1] == f"note: rate, price and paid look like numbers with a unit (10.5%), and are {note}"
    (*_, last) = said_of(tmp_path / "a.csv", text, "--categorical", "rate", "--ignore", "paid")
    assert last == f"note: price looks like numbers with a unit ($10.10), and is {note}"
    lines = [json.dumps({"price": f"${k}.10", "x": k * k, "y": k % 2}) for k in range(30)]
    assert said_of(tmp_path / "a.json", "\n".join(lines))[-1].startswith(
        "note: price looks like numbers with a unit ($0.10)"
    )


@pytest.mark.parametrize(
    ("fields", "unit"),
    [
        (["10%", "20%", "$5"], "10%"),
        (["-$1,250.00", "$5"], "-$1,250.00"),
        (["EUR 5", "EUR 6"], "EUR 5"),
        (["1 month", "2 months", "3 months"], "1 month"),
        (["120 km/h", "80 km/h", "x", *(f"{k} km/h" for k in range(20))], "120 km/h"),
        (["2D", "3D"], ""),
        (["1st", "2nd", "3rd"], ""),
        (["C100", "C101", "C102"], ""),
        (["10A", "10B", "11A"], ""),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ""),
        (["%", "5%", "kg"], ""),
    ],
)
def test_what_a_unit_is(fields, unit):
    assert infer_from_texts(fields, len(fields), len(set(fields))).unit == unit


def test_only_what_applies_is_said_of_missing_values(tmp_path):
    def missing(text):
        return [line for line in said_of(tmp_path / "a.csv", text) if "missing" in line]

    rest = "is missing, the category column=missing is added; a missing category adds nothing."
    assert missing("c,y\na,no\nb,yes\n") == []
    assert missing("c,y\n1,no\n2,yes\n") == [f"Where a number {rest}"]
    assert missing("c,d,y\n1,2024-03-05,no\n2,2024-03-06,yes\n") == [f"Where a number or date {rest}"]


def test_keys_of_json_without_a_meaning_of_their_own(tmp_path):
    rows = [{"x": k, "c": "ab"[k % 2], "when": f"2024-03-0{k}", "id": 7, "y": k % 2} for k in range(1, 6)]
    text = "\n".join(map(json.dumps, rows))
    assert said_of(tmp_path / "a.json", text, "--ignore", "id") == [
        "dates       when (years since 2000; weekday, month, hour if given)",
        "ignored     id",
        "label       y",
        "other keys  numbers are numbers, texts are categories",
    ]


def test_the_commands_to_try_on_customers_leave_nothing_to_point_out(tmp_path):
    path, _ = SAMPLES["churn"].write(tmp_path)
    lines = path.read_text().splitlines(keepends=True)[:60]
    typed = SAMPLES["churn"].commands(tmp_path)[0].split()
    found = said_of(path, "".join(lines), *typed[3 : typed.index("--model")])
    assert "ignored     customer_id" in found and not any(line.startswith("note:") for line in found)
