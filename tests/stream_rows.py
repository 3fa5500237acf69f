"""Batches as plain Python, for comparison with slow and obvious twins; and texts with good and bad rows."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from giftrl.compiled.compiler import ready
from giftrl.errors import BadRow
from giftrl.streams.batch import Batch
from giftrl.streams.names.features import Dictionary
from giftrl.streams.reader import Reader
from giftrl.streams.text.numbers import HARD, number, shorten

Row = tuple[int, float | None, float, dict[str, float]]

#: For each format, rows that can be used and rows that cannot.
TEXTS = {
    "libsvm": b"1 1:2 3:4\n-1 x\n\n1 2:5\n0.5 7:1 9:-1\n1 1:nan\n-1 1:1\n",
    "vw": b"1 |a x y:2\n-1 |a y\nx |a\n1 'tag|b z:0.5 |a x\n|a x\n",
    "csv": b'label,n,c\n1,2,a\n-1,,"b\nc"\n1,2\n5,1,a\n-1,1,"d""e"\n',
    "json": b'{"label": 1, "n": 2}\n{"label": -1, "c": "a"}\n{\n{"label": 7}\n{"label": -1, "n": [1, 2]}\n',
}


def named_rows(batches: Iterable[Batch], features: Any) -> list[Row]:
    """The line, label, weight and features by name of every row; what a batch promises is checked on the way."""
    found: list[Row] = []
    for batch in batches:
        check(batch, features)
        for i, line in enumerate(batch.lines.tolist()):
            entries = range(batch.indptr[i], batch.indptr[i + 1])
            values = {features.name(int(batch.indices[k])): float(batch.data[k]) for k in entries}
            label = float(batch.labels[i])
            found.append((line, None if math.isnan(label) else label, float(batch.weights[i]), values))
    return found


def arrays(batch: Batch) -> list[Any]:
    """What a batch says of its rows, as arrays."""
    return [batch.data, batch.indices, batch.indptr, batch.labels, batch.weights, batch.lines]


def check(batch: Batch, features: Any) -> None:
    """What every batch promises."""
    assert batch.indptr[0] == 0 and batch.indptr[-1] == len(batch.data) == len(batch.indices)
    assert len(batch.labels) == len(batch.weights) == len(batch.lines) == len(batch.indptr) - 1
    assert (np.diff(batch.lines) > 0).all()
    assert np.isfinite(batch.data).all()
    assert batch.data.dtype == np.float64 and batch.indices.dtype == np.int32 and batch.indptr.dtype == np.int64
    assert (batch.indices >= 0).all() and (batch.indices < features.dimension).all()
    for i in range(len(batch)):
        row = batch.indices[batch.indptr[i] : batch.indptr[i + 1]]
        assert len(set(row.tolist())) == len(row)
    bad = [each.line for each in batch.rejected]
    assert bad == sorted(bad)
    assert not set(bad) & set(batch.lines.tolist())
    assert all(each.source == batch.source and each.column >= 1 for each in batch.rejected)
    assert not len(batch.groups) or len(batch.groups) == len(batch.data)
    assert not batch.tags or len(batch.tags) == len(batch)


def flat(key: str, value: object, out: dict[str, float]) -> None:
    """What an object means, slowly."""
    if isinstance(value, dict):
        for inner, item in value.items():
            flat(f"{key}^{inner}", item, out)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            if isinstance(item, str):
                flat(key, item, out)
            else:
                flat(f"{key}^{at}", item, out)
    elif isinstance(value, str):
        if value:
            out[f"{key}={value}"] = out.get(f"{key}={value}", 0.0) + 1.0
    elif value is not None and float(value) != 0.0:
        out[key] = out.get(key, 0.0) + float(value)


def signs(labels: Any) -> Any:
    """Which labels are -1 or 1."""
    return np.isin(labels, (-1.0, 1.0))


def until_bad(reader: Reader) -> tuple[list[Batch], BadRow | None]:
    """The batches of a reader, and the error that ended it."""
    batches = []
    try:
        for batch in reader:
            batches.append(batch)  # noqa: PERF402 (those before the error are wanted)
    except BadRow as problem:
        return batches, problem
    return batches, None


def read(path: Any, **options: Any) -> tuple[list[Row], list[tuple[int, int, str]], list[Batch]]:
    """The rows of a file, where and why others were skipped, and the batches."""
    features = options.pop("features", None) or Dictionary()
    reader = Reader(path, features, on_error="skip", constant=False, **options)
    batches = list(reader)
    assert all(len(batch) or batch.rejected for batch in batches)
    assert reader.rows == sum(map(len, batches)) and reader.rejected == sum(len(b.rejected) for b in batches)
    rejected = [(each.line, each.column, each.problem) for batch in batches for each in batch.rejected]
    return named_rows(batches, features), rejected, batches


def read_number(text: str | bytes, *, compiled: bool = True) -> float | None:
    """The float64 that the loops read, or None where the text is not a number or float64 cannot hold it."""
    raw = text.encode() if isinstance(text, str) else text
    read = ready(number, compiled, counted=False)
    value, after, problem = read(np.frombuffer(raw + b"\n", np.uint8), 0)
    if problem == HARD:
        value, after, problem = read(np.frombuffer(shorten(raw, 0) + b"\n", np.uint8), 0)
    return float(value) if problem == 0 and after == len(raw) else None


def vowpal_wabbit(text: str, options: str, capfd) -> dict[str, float]:
    """The features that Vowpal Wabbit sees, by name."""
    package = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    capfd.readouterr()
    workspace = package.Workspace(f"{options} --noconstant -a --quiet")
    example = workspace.parse(text)
    workspace.predict(example)
    workspace.finish_example(example)
    workspace.finish()
    found: dict[str, float] = {}
    for line in capfd.readouterr().out.splitlines():
        for token in line.split("\t")[1:]:
            name, _, value, _ = token.rsplit(":", 3)
            found[name] = found.get(name, 0.0) + float(value)
    return found
