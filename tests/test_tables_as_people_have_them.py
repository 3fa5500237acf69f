"""Tables as people have them: dates, ids, missing values, texts, decimal commas, and what is said of them."""

import csv
import datetime
import json
import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import InvalidInput, UnknownName
from giftrl.samples import SAMPLES
from giftrl.streams.columns import Columns, Kind, Schema, infer_from_numbers, infer_from_texts
from giftrl.streams.names.dates import WEEKDAYS, moment
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.objects import words_of
from giftrl.streams.reader import Reader
from giftrl.streams.tables.table_rows import date_columns, word_lists
from giftrl.training.trainer import Trainer
from tests.commands import giftrl
from tests.stream_rows import named_rows

pytestmark = pytest.mark.plain
QUICK = ("--certificate-seconds", "0")
WORDS = ["good", "bad", "awful", "fine", "product", "delivery", "quick", "slow", "the", "it", "was", "very", "price"]
HEADS = ["customer_id", "when", "city", "amount", "review", "active", "price"]


def sold(count=600):
    """Rows of a table whose prices have a weekday, a trend and words that matter; amounts and cities may be missing."""
    random.seed(3)
    rows = []
    for k in range(count):
        when = datetime.datetime(2022, 1, 1) + datetime.timedelta(hours=random.randrange(2 * 365 * 24))
        said = random.choices(WORDS, k=random.randrange(6, 12))
        amount = random.choice([None, random.gauss(50.0, 1.0)])
        price = 3.0 * (when.weekday() == 5) + 2.0 * (when.year - 2022 + when.timetuple().tm_yday / 365.0)
        price += ("good" in said) - 2.0 * ("awful" in said) + (0.0 if amount is None else amount - 50.0)
        city = random.choice(["Rome", "Oslo, Norway", ""])
        rows.append([f"c{k}", when, city, amount, ", ".join(said), random.choice([True, False]), price])
    return rows


def write_csv(path, rows, heads=HEADS, mark="", **options):
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(mark)
        writer = csv.writer(file, **options)
        if heads:
            writer.writerow(heads)
        writer.writerows(
            [each.isoformat() if isinstance(each, datetime.date) else each for each in row] for row in rows
        )
    return path


def weights_of(model):
    found = json.loads(giftrl("inspect", model, "--json", "--top", "200", *QUICK).stdout)
    return {each["feature"]: each["weight"] for each in found["weights"]}, found


def train(*arguments, **options):
    return giftrl("train", *arguments, "--loss", "squared", *QUICK, **options).stderr.decode()


def rows_of(path, **columns):
    features = Dictionary()
    reader = Reader(path, features, columns=Columns(**columns), constant=False, compiled=False)
    return [row[-1] for row in named_rows(list(reader), features)], reader


@pytest.mark.plain(False)  # some hundred rows take plain Python longer than loops that other tests compile as well
def test_dates_and_words_are_learnt_from_csv_parquet_and_json_alike(tmp_path):
    rows = sold()
    table = write_csv(tmp_path / "a.csv", rows, mark="\ufeff", lineterminator="\r\n")
    said = train(table, "--text", "review", "--ignore", "customer_id", "--model", tmp_path / "m")
    assert said.startswith(
        "numbers     amount\ncategories  city, active\n"
        "dates       when (years since 2000; weekday, month, hour if given)\n"
        "text        review (its words)\nignored     customer_id\nlabel       price\nWhere a number "
    )
    assert "note:" not in said
    weights, found = weights_of(tmp_path / "m")
    assert found["schema"]["kinds"] == ["ignored", "date", "category", "number", "text", "category", "label"]
    others = [weights[f"when^weekday={day}"] for day in WEEKDAYS if day != "Sat"]
    assert weights["when^weekday=Sat"] - sum(others) / 6 == pytest.approx(3.0, abs=0.3)
    assert weights["when"] == pytest.approx(2.0, abs=0.5)
    assert weights["review=good"] == pytest.approx(1.0, abs=0.3)
    assert weights["review=awful"] == pytest.approx(-2.0, abs=0.3)
    assert b"years since 2000" in giftrl("inspect", tmp_path / "m", "--top", "1", *QUICK).stdout

    columns = {"text": ("review",), "ignore": ("customer_id",), "label": "price"}
    expected, _ = rows_of(table, **columns)
    assert {key.partition("=")[0] for row in expected for key in row} == {
        "when", "when^weekday", "when^month", "when^hour", "city", "amount", "review", "active"
    }  # fmt: skip
    named = [dict(zip(HEADS, row, strict=True)) for row in rows]
    texts = pa.array([row["when"].isoformat() for row in named])
    values = pa.table({key: [str(row[key]) if key == "active" else row[key] for row in named] for key in HEADS})
    for table in (values, values.set_column(1, "when", texts)):
        pq.write_table(table, tmp_path / "a.parquet")
        found, reader = rows_of(tmp_path / "a.parquet", **columns)
        assert reader.schema.kinds == ("ignored", "date", "category", "number", "text", "category", "label")
        assert found == expected

    lines = [json.dumps(row | {"when": row["when"].isoformat(), "active": str(row["active"])}) for row in named[:100]]
    (tmp_path / "a.json").write_text("\n".join(lines))
    found, reader = rows_of(tmp_path / "a.json", **columns)
    # A key of JSON that is null is no feature: objects leave out what they do not have.
    assert found == [{key: value for key, value in row.items() if key != "amount=missing"} for row in expected[:100]]
    assert ("when", "date") in zip(*reader.schema, strict=True)
    # A backslash makes the slow way read a line.
    (tmp_path / "b.json").write_text("\n".join(line.replace("o", "\\u006f") for line in lines))
    assert rows_of(tmp_path / "b.json", **columns)[0] == found


def test_the_model_knows_its_columns(tmp_path):
    """Predictions, certificates, converted files, and runs that go on, with dates and words."""
    rows = sold(300)
    table = write_csv(tmp_path / "a.csv", rows)
    plain = ("--text", "review", "--ignore", "customer_id", "--beta", "1")
    train(table, *plain, "--model", tmp_path / "m", "-p", tmp_path / "p")
    write_csv(tmp_path / "new.csv", [row[1:-1] for row in rows], HEADS[1:-1])
    answers = giftrl("predict", tmp_path / "m", tmp_path / "new.csv", "--quiet").stdout
    assert answers == giftrl("predict", tmp_path / "m", table, "--quiet").stdout
    assert len(set(answers.split())) == 300
    write_csv(tmp_path / "more.csv", [[*row, "x"] for row in rows], [*HEADS, "more"])
    refused = giftrl("predict", tmp_path / "m", tmp_path / "more.csv", check=False).stderr.decode()
    assert "has the column 'more'" in refused and "--ignore more" in refused
    assert answers == giftrl("predict", tmp_path / "m", tmp_path / "more.csv", "--ignore", "more", "--quiet").stdout
    assert b"average loss" in giftrl("certify", tmp_path / "m", table, "--time-limit", "1").stdout
    said = giftrl("convert", table, tmp_path / "a.arrow", *plain[:-2]).stderr.decode()
    assert "dates       when" in said
    train(tmp_path / "a.arrow", "--beta", "1", "--model", tmp_path / "c")
    sizes = [[abs(each) for each in weights_of(tmp_path / name)[0].values()] for name in "cm"]
    assert sizes[0] == sizes[1]  # a converted file does not know the signs of names

    # The same columns, given as a file; a model goes on with them, and with no others.
    schema = tmp_path / "columns.json"
    schema.write_bytes(giftrl("inspect", tmp_path / "m", "--json", *QUICK).stdout)
    train(table, "--schema", schema, "--beta", "1", "--model", tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == (tmp_path / "m").read_bytes()
    train(table, "--schema", schema, "--from", tmp_path / "m", "--model", tmp_path / "t")
    other = json.loads(schema.read_text())["schema"]
    other["kinds"][1] = "category"
    schema.write_text(json.dumps(other))
    refused = giftrl(
        "train", table, "--schema", schema, "--from", tmp_path / "m", "--model", tmp_path / "t", check=False
    )
    assert b"is not what the model was trained with" in refused.stderr
    for text, message in (
        ("{", "is not JSON"),
        ('{"names": ["a"]}', "must have two lists of text, names and kinds"),
        ('{"names": ["a"], "kinds": []}', "has 1 names and 0 kinds"),
        ('{"names": ["a"], "kinds": ["dat"]}', "did you mean 'date'?"),
        ('{"names": ["a", "a"], "kinds": ["date", "text"]}', "has the name 'a' twice"),
        ('{"names": ["a", "b"], "kinds": ["label", "label"]}', "has the kind 'label' twice"),
        ('{"names": ["price"], "kinds": ["label"]}', "has the columns 'customer_id', 'when'"),
    ):
        schema.write_text(text)
        refused = giftrl("train", table, "--schema", schema, check=False)
        assert refused.returncode == 1 and message in refused.stderr.decode()
    assert giftrl("train", table, "--schema", schema, "--label", "price", check=False).returncode == 2


def test_a_run_goes_on_with_its_columns(tmp_path, monkeypatch):
    rows = sold(200)
    tables = [write_csv(tmp_path / "a.csv", rows[:150]), write_csv(tmp_path / "b.csv", rows[150:])]
    options = (*tables, "--text", "review", "--beta", "1", "--checkpoint-every", "10")
    train(*options, "--model", tmp_path / "whole")
    write = Trainer.write_checkpoint

    def write_and_stop(self):
        write(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "write_checkpoint", write_and_stop)
        broken = giftrl("train", *options, "--loss", "squared", "--model", tmp_path / "broken", check=False)
        assert b"interrupted" in broken.stderr
    said = train(*options, "--model", tmp_path / "broken", "--resume")
    assert "continuing after 150 examples" in said and "dates       when" in said
    assert (tmp_path / "broken").read_bytes() == (tmp_path / "whole").read_bytes()


def test_what_is_pointed_out(tmp_path):
    rows = sold(100)
    for row in rows:
        row[1] = row[1].strftime("%d/%m/%Y")
    said = train(write_csv(tmp_path / "a.csv", rows), "--beta", "1")
    notes = [line for line in said.splitlines() if line.startswith("note:")]
    assert notes == [
        "note: when looks like dates that can be read in several ways, such as "
        f"{rows[0][1]!r}, and is ignored; write 2024-03-05, or give --categorical when",
        "note: review is text of many words (9 on average), read as a category that hardly occurs twice; --text review "
        "makes features of the words",
        "note: customer_id is different in every row, and teaches nothing about new ones; --ignore customer_id leaves "
        "it out",
    ]
    assert "ignored     when\n" in said
    said = train(
        tmp_path / "a.csv", "--beta", "1", "--categorical", "when", "--text", "review", "--categorical", "customer_id"
    )
    assert "note:" not in said
    # Nothing is said of formats without columns, and nothing silly of JSON.
    (tmp_path / "a.svm").write_text("1 1:2\n-1 2:1\n")
    (tmp_path / "a.json").write_text('{"y": 1, "a": 2}\n{"y": 2, "a": "b"}\n')
    for name in ("a.svm", "a.json"):
        assert train(tmp_path / name, "--beta", "1").startswith("  examples  since last")


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (["3,14", "2,5", "x"], "sep=';', decimal=',').to_csv('new.csv'"),
        (["1.234,56", "2.000,00", ""], "sep=';', decimal=',', thousands='.').to_csv('new.csv'"),
        (["1,234", "2,000,000", "17,500.25"], "write 1234 if the comma is between thousands"),
    ],
)
def test_decimal_commas_are_refused(tmp_path, values, remedy):
    table = write_csv(tmp_path / "a.csv", [[each, 1] for each in values], ["price", "y"], delimiter=";")
    refused = giftrl("train", table, check=False)
    message = refused.stderr.decode()
    assert refused.returncode == 1
    assert f"the column 'price' has numbers with a comma, such as {values[0]!r}; write " in message
    assert remedy in message and "--categorical price or --ignore price" in message
    assert rows_of(table, categorical=("price",))[0][0] == {f"price={values[0]}": 1.0}


def test_a_bad_date_rejects_its_row(tmp_path):
    rows = [[f"2024-02-{day:02d}", day] for day in range(1, 30)] + [["2024-02-30", 1], ["NA", 2], ["", 3]]
    table = write_csv(tmp_path / "a.csv", rows, ["when", "y"])
    refused = giftrl("train", table, "--loss", "squared", "--beta", "1", check=False).stderr.decode()
    assert "a.csv:31:1: '2024-02-30' in the column of dates 'when', expected an ISO date that exists" in refused
    assert "if these are categories, --categorical COLUMN reads them as such" in refused
    pq.write_table(
        pa.table({"when": [row[0] for row in rows], "y": [float(row[1]) for row in rows]}), tmp_path / "a.pq"
    )
    (tmp_path / "a.json").write_text("\n".join(json.dumps(dict(zip(("when", "y"), row, strict=True))) for row in rows))
    for name, where in (("a.pq", "30:1: "), ("a.json", "30:2: ")):
        refused = giftrl("train", tmp_path / name, "--loss", "squared", "--beta", "1", check=False).stderr.decode()
        assert f"{name}:{where}'2024-02-30' " in refused and "expected an ISO date that exists" in refused
    assert len(rows_of(write_csv(tmp_path / "b.csv", rows[:29], None))[0]) == 29  # and the first row is no header


ZONES = ["", "Z", "+02:00", "-0330", " UTC", "+05"]


@given(
    st.lists(
        st.tuples(
            st.datetimes() | st.dates(), st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]),
            st.sampled_from("T "), st.sampled_from(ZONES),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_dates_are_those_of_the_standard_library(cases):
    texts, expected = [], []
    for when, precision, mark, zone in cases:
        timed = isinstance(when, datetime.datetime)
        text = when.isoformat(mark, precision) + zone if timed else when.isoformat()
        aware = datetime.datetime.fromisoformat(re.sub(" UTC", "Z", text))
        since = aware.replace(tzinfo=None) - datetime.datetime(2000, 1, 1) - (aware.utcoffset() or datetime.timedelta())
        texts.append(text)
        expected.append(
            (since / datetime.timedelta(days=365.25), aware.weekday(), aware.month, aware.hour if timed else -1)
        )
    years, parts, _ = date_columns(pa.array(texts, pa.string()))
    assert years.tolist() == pytest.approx([each[0] for each in expected], rel=1e-12, abs=1e-12)
    for at, name in enumerate(("weekday", "month", "hour")):
        wanted = [each[1 + at] for each in expected]
        shown = ["" if each == -1 else WEEKDAYS[each] if at == 0 else str(each) for each in wanted]
        assert parts[name].to_pylist() == shown if name in parts else not any(shown)
    assert [moment(text).years for text in texts] == years.tolist()


DIGITS = st.text("0123456789-:T Z+.", max_size=12)
DATES = st.from_regex(
    r"20[0-9]{2}-[0-9]{2}-[0-9]{2}([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]*)?)?)?", fullmatch=True
)


@given(st.lists(DIGITS | DATES | st.tuples(DATES, DIGITS).map("".join), max_size=5))
def test_both_readers_of_dates_take_the_same_texts(texts):
    years, _, missing = date_columns(pa.array(texts, pa.string()))
    for text, time, absent in zip(texts, years.tolist(), missing.tolist(), strict=True):
        one = moment(text.strip(" \t"))
        assert absent == (not text.strip(" \t"))
        assert absent or (time == one.years if one is not None else time != time)


@given(st.lists(st.none() | st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))))
def test_arrow_timestamps_mean_what_their_text_does(values):
    texts = pa.array([None if each is None else each.isoformat() for each in values], pa.string())
    years, parts, missing = date_columns(texts)
    for type_ in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        found = date_columns(pa.array(values, type_))
        assert found[0].tolist() == pytest.approx(years.tolist(), rel=1e-12, abs=1e-12)
        assert {name: part.to_pylist() for name, part in found[1].items()} == {
            name: part.to_pylist() for name, part in parts.items()
        }
        assert found[2].tolist() == missing.tolist() == [each is None for each in values]
    days = pa.array([None if each is None else each.date() for each in values], pa.date32())
    assert "hour" not in date_columns(days)[1]
    east = date_columns(pa.array([0], pa.timestamp("s", "+02:00")))
    assert east[0].tolist() == date_columns(pa.array(["1970-01-01"]))[0].tolist()
    assert east[1]["hour"].to_pylist() == ["2"]


# Letters that this version of Python does not know yet may be known to Arrow.
@given(
    st.lists(
        st.none()
        | st.text(st.characters(exclude_categories=["Cn", "Cs"]), max_size=20)
        | st.text("aB ß_İΣ1½-", max_size=12)
    )
)
def test_words_are_those_of_re(texts):
    expected = [[] if text is None else list(dict.fromkeys(words_of(text))) for text in texts]
    assert word_lists(pa.array(texts, pa.string())).to_pylist() == expected
    for text in texts:
        if text is not None and text.isascii():
            assert words_of(text) == re.findall("[a-z0-9]+", text.lower())


def test_looks():
    different = np.random.default_rng(0).permutation(1000)
    assert infer_from_numbers("order id", different).different and infer_from_numbers("orderId", different).different
    for name in ("paid", "width", "amount", "idle"):
        assert not infer_from_numbers(name, different).different
    counts = np.arange(1, 40)
    assert infer_from_numbers("row", counts).different and not infer_from_numbers("year", counts).different
    assert not infer_from_numbers("user_id", different[:10]).different
    assert not infer_from_numbers("id", np.append(different, 7)).different
    assert not infer_from_numbers("id", different + 0.5).different
    dates = "05/03/2024|5.3.2024|5 Mar 2024|March 5, 2024|2024/03/05 12:30|Tue, 05 Mar 2024 12:30:00 GMT"
    for text in dates.split("|"):
        assert infer_from_texts([text], 1, 1).kind == "ignored", text
    for text in ("1.2.10", "10.0.0.1", "may", "5", "12/7", "A-12-2024", "Mar"):
        assert infer_from_texts([text], 1, 1).kind == "category", text


# Notes of giftrl train on columns: all that applies, and nothing else.


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


# Tables for a model that knows its columns, and labels that the model does not know.

SCHEMA = Schema(("age", "city", "y"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL))


@pytest.mark.parametrize(
    ("names", "columns", "kinds"),
    [
        (("age", "city", "y"), Columns(label="y"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "city"), Columns(label="y"), (Kind.NUMBER, Kind.CATEGORY)),
        (("age", "city", "outcome"), Columns(label="outcome"), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "city", "outcome"), Columns(label=-1), (Kind.NUMBER, Kind.CATEGORY, Kind.LABEL)),
        (("age", "id", "city"), Columns(ignore=("id",)), (Kind.NUMBER, Kind.IGNORED, Kind.CATEGORY)),
        (("age", "w", "city"), Columns(weight="w"), (Kind.NUMBER, Kind.WEIGHT, Kind.CATEGORY)),
    ],
)
def test_columns_may_be_named_as_they_are_known(names, columns, kinds):
    assert SCHEMA.kinds_of(names, "a.csv", columns) == kinds


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (Columns(label="city"), "known as a column of the kind category, and not label"),
        (Columns(ignore=("age",)), "known as a column of the kind number, and not ignored"),
        (Columns(categorical=("age",)), "known as a column of the kind number, and not category"),
        (Columns(text=("city",)), "known as a column of the kind category, and not text"),
        (Columns(label="more"), "is not the column of labels, which is 'y'"),
    ],
)
def test_columns_cannot_become_something_else(columns, problem):
    with pytest.raises(InvalidInput, match=problem):
        SCHEMA.kinds_of(("age", "city", "y", *(["more"] if columns.label == "more" else [])), "a.csv", columns)
    with pytest.raises(UnknownName, match="nope"):
        SCHEMA.kinds_of(("age", "city"), "a.csv", Columns(ignore=("nope",)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with three labels, its model, and a table of which some labels are unknown."""
    folder = tmp_path_factory.mktemp("known")
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{['low', 'mid', 'high'][int(x > -0.5) + int(x > 0.5)]}" for x in rng.normal(size=60)]
    (folder / "rows.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (folder / "other.csv").write_text("\n".join(["x,y", *rows[:5], "0.1,none", "0.2,none"]) + "\n")
    giftrl("train", folder / "rows.csv", "--model", folder / "m", "--quiet")
    return folder


def test_labels_that_a_model_does_not_know_are_counted(folder):
    said = giftrl("predict", folder / "m", folder / "other.csv").stderr.decode()
    assert "2 rows with other labels than high, low or mid" in said and "over 5 rows with labels" in said
    bad = folder / "bad.csv"
    bad.write_text((folder / "other.csv").read_text() + "x,low\n")
    said = giftrl("predict", folder / "m", bad, "--on-error", "skip").stderr.decode()
    assert "1 row could not be used; nan stands for each" in said


def test_scores_of_several_classes_have_a_head(folder):
    head, *rows = giftrl("predict", folder / "m", folder / "rows.csv", "--scores").stdout.decode().splitlines()
    assert head.split("\t") == ["high", "low", "mid"] and {len(row.split("\t")) for row in rows} == {3}


def test_labels_of_converted_files_can_be_named(folder, monkeypatch):
    monkeypatch.setattr("giftrl.streams.first_labels.MAX_ROWS", 60)
    late, arrow = folder / "late.csv", folder / "late.arrow"
    late.write_text((folder / "rows.csv").read_text() + "0.1,none\n")
    refused = giftrl("convert", late, arrow, check=False).stderr.decode()
    assert f"{late}:62:5: the label 'none', expected high, low or mid (--labels names all of them)" in refused
    giftrl("convert", late, arrow, "--labels", "low,mid,high,none")
    direct, converted = (
        json.loads(giftrl("train", path, "--labels", "low,mid,high,none", "--json").stdout) for path in (late, arrow)
    )
    assert direct["average_loss"] == converted["average_loss"]
    assert (direct["examples"], direct["features"]) == (converted["examples"], converted["features"]) == (61, 1)


def test_keys_that_json_does_not_have_are_pointed_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"label": "a", "x": 1}\n{"label": "b", "x": 2}\n')
    said = giftrl("train", path, "--ignore", "nope").stderr.decode()
    assert f"note: no key is called nope in the first lines of {path}" in said
    assert "no key" not in giftrl("train", path, "--ignore", "x").stderr.decode()
