"""Sample data sets to try commands on: ``giftrl demo NAME`` writes one, the same bytes each time.

``churn`` and ``clicks`` are made up, ``text`` is documentation of the installed packages, and the others come with
scikit-learn.

>>> list(SAMPLES)
['churn', 'text', 'clicks', 'cancer', 'wine', 'iris', 'digits', 'diabetes']
"""

import csv
import datetime
import importlib
import inspect
import io
import json
import math
import random
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from giftrl.errors import GiftrlError, InvalidInput
from giftrl.files import file_errors, write

__all__ = ["SAMPLES", "Sample"]


class Sample(NamedTuple):
    """A data set: its file, its task and origin, and the options to train on it.

    Attributes:
        name: the name for ``giftrl demo``.
        file: the name of the file; its ending determines the format.
        what: the task in a few words.
        origin: the origin of the rows.
        rows: returns the content of the file, the same bytes each time.
        training: the options of ``giftrl train`` for this file, besides the model.
        probable: True if its models predict probabilities.

    >>> SAMPLES["iris"].file, SAMPLES["iris"].rows().count(b"\\n")
    ('iris.csv', 151)
    """

    name: str
    file: str
    what: str
    origin: str
    rows: Callable[[], bytes]
    training: str
    probable: bool = True

    def write(self, folder: Path) -> tuple[Path, bool]:
        """Write the file into a folder, unless it is there; return its path, and True if the file is new.

        An existing file is never changed: if its content differs, that is an error.
        """
        path, content = folder / self.file, self.rows()
        with file_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if path.is_file() and path.read_bytes() == content:
                    return path, False
                raise InvalidInput("out", str(path), "is there already, with other content", "give another folder")
        write(path, [content])
        return path, True

    def commands(self, folder: Path) -> list[str]:
        """Commands to try on the file in a folder."""
        data, model = (shlex.quote(str(folder / name)) for name in (self.file, f"{self.name}.giftrl"))
        return [
            f"giftrl train {data} {self.training} --model {model}",
            f"giftrl predict {model} {data}{' --proba' if self.probable else ''}",
            f"giftrl inspect {model}",
            f"giftrl certify {model} {data}",
        ]


def _as_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV; None becomes an empty cell."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(head)
    lines.writerows(rows)
    return text.getvalue().encode()


# Customers who stay or leave: a made-up table with dates, empty cells and everything else that real tables have.

CUSTOMERS = 4000
#: The day of the table: customers signed up in the five years before it.
CHURN_DATE = datetime.date(2025, 6, 30)
#: The monthly fee of each plan, and its effect on leaving.
PLANS = {"basic": (9.99, 0.5), "family": (24.5, -0.5), "business": (89.0, -0.8)}
PAYMENTS = {"card": -0.2, "direct debit": -0.7, "invoice": 0.8}
COUNTRIES = ("DE", "FR", "IT", "PL", "ES", "NL")

CHURN_COLUMNS = (
    "customer_id", "signup_date", "last_login", "country", "plan", "payment", "monthly_fee", "total_spent", "data_gb",
    "support_calls", "age", "satisfaction", "paperless", "family_discount", "churned",
)  # fmt: skip


def churn() -> bytes:
    """The table of customers as CSV."""
    chance = random.Random(20250630)
    return _as_csv(CHURN_COLUMNS, [_customer(chance, number) for number in range(CUSTOMERS)])


def _customer(chance: random.Random, number: int) -> list[object]:
    days = 1 + int(1800 * chance.random())
    idle = min(days, int(chance.expovariate(1 / 12.0)))
    plan = chance.choices(list(PLANS), (6, 3, 1))[0]
    payment = chance.choices(list(PAYMENTS), (5, 3, 2))[0]
    fee, hold = PLANS[plan]
    fee = round(fee * chance.choice((0.9, 1.0, 1.0, 1.2)), 2)
    spent = fee * (days // 30 + 1)
    gigabytes = chance.lognormvariate(2.5, 1.0)
    calls = min(9, int(chance.expovariate(0.8)))
    age = int(chance.triangular(18, 88, 38))
    satisfaction = chance.choices((1, 2, 3, 4, 5), (1, 1, 3, 4, 3))[0]
    paperless, discount = chance.random() < 0.6, plan == "family" and chance.random() < 0.5
    score = 1.6 * (
        hold + PAYMENTS[payment] - 0.0011 * days + 0.045 * idle + 0.35 * calls - 0.012 * (age - 40)
        - 0.55 * (satisfaction - 3) - 0.4 * paperless - 0.25 * math.log(gigabytes / 12.0) - 0.7 * discount - 0.4
    )  # fmt: skip
    left = chance.random() < 1.0 / (1.0 + math.exp(-score))
    return [
        f"C{100_000 + 7 * number}", CHURN_DATE - datetime.timedelta(days), CHURN_DATE - datetime.timedelta(idle),
        chance.choice(COUNTRIES), plan, payment, fee, f"{spent:.2f}", f"{gigabytes:.1f}", calls,
        age if chance.random() < 0.9 else None, satisfaction if chance.random() < 0.5 else None,
        "true" if paperless else "false", "true" if discount else "false", "yes" if left else "no",
    ]  # fmt: skip


# Advertisements shown and clicked on: a made-up stream with concept drift.

ADVERTISEMENTS = 20_000
SITES = ("news", "sport", "mail", "weather", "games")
ADS = ("shoes", "phone", "travel", "bank", "pizza", "books", "cars", "films")
DEVICES = ("phone", "desktop", "tablet")


def clicks() -> bytes:
    """One JSON object a line for each advertisement shown."""
    chance = random.Random(20250301)
    taste = {(site, ad): chance.gauss(0.0, 0.8) for site in SITES for ad in ADS}
    appeal = {ad: chance.gauss(0.0, 0.7) for ad in ADS}
    lines, when = [], datetime.datetime(2025, 3, 1)
    for row in range(ADVERTISEMENTS):
        # Concept drift: appeals take small steps, and halfway a campaign reverses them.
        if row % 50 == 0:
            appeal = {ad: 0.995 * value + chance.gauss(0.0, 0.06) for ad, value in appeal.items()}
        if row == ADVERTISEMENTS // 2:
            appeal = {ad: -value for ad, value in appeal.items()}
        when += datetime.timedelta(seconds=1 + int(chance.expovariate(1 / 40.0)))
        site, ad, device = chance.choice(SITES), chance.choice(ADS), chance.choices(DEVICES, (6, 3, 1))[0]
        user, seen = int(500 * chance.random() ** 2), int(chance.expovariate(0.5))
        evening = 1.0 if 18 <= when.hour < 23 else 0.0
        score = -1.4 + taste[site, ad] + appeal[ad] + 0.5 * evening - 0.3 * seen - 0.6 * (device == "tablet")
        clicked = int(chance.random() < 1.0 / (1.0 + math.exp(-score)))
        features = {
            "hour": when.hour, "site": site, "ad": ad, "device": device, "user": f"u{user}", "seen_before": seen,
        }  # fmt: skip
        lines.append(json.dumps({"clicked": clicked, **features}))
    return "".join(f"{line}\n" for line in lines).encode()


# Real text: documentation of public functions and classes. Packages and modules that are not installed are left out.

DOCUMENTED = {
    "numpy": ("", "fft", "linalg", "ma", "polynomial", "random", "testing"),
    "scipy": ("cluster.hierarchy", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
              "sparse", "sparse.linalg", "spatial", "special", "stats"),
    "sklearn": ("cluster", "decomposition", "ensemble", "feature_extraction", "feature_selection", "linear_model",
                "metrics", "model_selection", "neighbors", "preprocessing", "svm", "tree", "utils"),
    "pyarrow": ("", "compute", "csv", "dataset", "parquet", "types"),
}  # fmt: skip
#: The range of lengths of a text, in characters.
MIN_TEXT, MAX_TEXT = 40, 600


def text() -> bytes:
    """A line for each function or class: its name, the beginning of its documentation, and its package."""
    described: dict[str, tuple[str, str, str]] = {}
    for package, modules in DOCUMENTED.items():
        for module in modules:
            try:
                place = importlib.import_module(".".join(filter(None, (package, module))))
            except ImportError:
                continue
            public = getattr(place, "__all__", None) or (name for name in vars(place) if not name.startswith("_"))
            for name in sorted(public):
                prose = _prose(inspect.getattr_static(place, name, None))
                if len(prose) >= MIN_TEXT:
                    described.setdefault(prose, (name, prose, package))
    lines = sorted(described.values())
    random.Random(20250101).shuffle(lines)  # rows in the order of their labels would teach little
    return _as_csv(("name", "text", "package"), lines)


def _prose(value: Any) -> str:
    """The sentences before the first section of a docstring, in one line, without signatures."""
    if not (callable(value) and isinstance(value.__doc__, str)):
        return ""
    prose = re.split(r"\n[A-Z][\w ]*\n-{3,}|\n\.\. |\n>>> ", f"\n{inspect.cleandoc(value.__doc__)}")[0]
    paragraphs = [" ".join(part.split()) for part in prose.split("\n\n")]
    return " ".join(part for part in paragraphs if not re.match(r"[\w.]+\(.*\)", part))[:MAX_TEXT]


# The tables that come with scikit-learn.

#: The loader of each table in scikit-learn.
LOADERS = {"cancer": "breast_cancer", "wine": "wine", "iris": "iris", "digits": "digits", "diabetes": "diabetes"}


def load(name: str, scaled: bool = False) -> Any:
    """A table of scikit-learn by the name of its loader, such as ``breast_cancer``; diabetes is in its original units.

    >>> load("iris").target_names.tolist()
    ['setosa', 'versicolor', 'virginica']
    """
    try:
        from sklearn import datasets
    except ImportError as missing:
        raise GiftrlError("this data comes with scikit-learn; pip install 'giftrl[experiments]'") from missing
    return getattr(datasets, f"load_{name}")(**({"scaled": scaled} if name == "diabetes" else {}))


def _table(name: str, label: str) -> bytes:
    """A table of scikit-learn as CSV, in a fixed random order, with the label in the last column."""
    table = load(LOADERS[name])
    head = [column.replace("(", "").replace(")", "").replace(" ", "_") for column in table.feature_names]
    named = name not in ("diabetes", "digits")
    labels = [str(table.target_names[y]) if named else f"{y:g}" for y in table.target]
    cells = table.data.tolist()
    order = np.argsort(np.random.default_rng(20250101).random(len(labels)), kind="stable").tolist()
    return _as_csv([*head, label], [[*(f"{value:.10g}" for value in cells[row]), labels[row]] for row in order])


def _real(name: str, label: str, what: str, options: str = "", probable: bool = True) -> Sample:
    training = f"--label {label}{options}"
    return Sample(
        name, f"{name}.csv", what, "real; it comes with scikit-learn", partial(_table, name, label), training, probable
    )


#: Every data set by its name, in the order of ``giftrl demo --list``.
SAMPLES = {
    sample.name: sample
    for sample in (
        Sample(
            "churn", "churn.csv", "which customers leave: yes or no",
            "made up by a program with a fixed seed; no real people", churn, "--label churned --ignore customer_id",
        ),
        Sample(
            "text", "text.csv", "which package does a text belong to: numpy, scipy, sklearn or pyarrow",
            "real: the documentation of the packages that are installed here", text,
            "--label package --text text --ignore name",
        ),
        Sample(
            "clicks", "clicks.jsonl", "a stream: is an advertisement clicked on? What people like changes halfway",
            "made up by a program with a fixed seed", clicks, "--label clicked --labels 0,1 -q site:ad",
        ),
        _real("cancer", "diagnosis", "is a tumour malignant or benign? 30 measurements of its cells"),
        _real("wine", "cultivar", "which of three cultivars is a wine made of? 13 chemical measurements"),
        _real("iris", "species", "which of three species is a flower? 4 lengths"),
        _real(
            "digits", "digit", "which digit is written in an image of 8 by 8 pixels?", " --loss softmax --labels 0..9"
        ),
        _real(
            "diabetes", "progression",
            "how far has a disease progressed after a year? A number, from 10 measurements", " --loss squared", False,
        ),
    )
}  # fmt: skip
