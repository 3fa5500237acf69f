"""Batches as plain Python, for comparison with slow and obvious twins."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from giftrl.streams.batch import Batch

Row = tuple[int, float | None, float, dict[str, float]]


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
