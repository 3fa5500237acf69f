"""Model files as tests see them: arbitrary contents, equality in every bit, and what a hostile writer can make."""

import hashlib
import json
import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = [np.dtype(t) for t in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]

names = st.text(min_size=0, max_size=8).filter(lambda name: name.isprintable())
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
arrays_strategy = st.dictionaries(names, st.sampled_from(DTYPES).flatmap(lambda t: hnp.arrays(t, shapes)), max_size=5)
keys = st.text(max_size=6).filter(lambda key: not key.startswith("$"))
surrogates = st.text(st.characters(exclude_categories=[]), max_size=6)
leaves = st.none() | st.booleans() | st.integers(-(2**2047), 2**2047) | st.floats() | surrogates
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))
headers = st.dictionaries(keys, values, max_size=4)


def same(a, b):
    """Equal in type and in every bit, with NaN equal to NaN."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return isinstance(b, float) and (math.isnan(a) and math.isnan(b) if math.isnan(a) else repr(a) == repr(b))
    return type(a) is type(b) and a == b


def deep(levels):
    """Dicts in dicts."""
    value = {}
    for _ in range(levels):
        value = {"x": value}
    return value


def sealed(table, data=b"", giftrl=None, version=1, content=None, pad=0):
    """A file that a hostile writer made: any table and data, and a checksum that is right."""
    giftrl = {"content": content or {}, "format": "giftrl-model", "version": version} if giftrl is None else giftrl
    giftrl = giftrl if isinstance(giftrl, str) else json.dumps(giftrl)

    def start(digest):
        if isinstance(table, str):
            metadata = json.dumps({"giftrl": giftrl, "sha256": digest})
            text = table.replace("METADATA", f'"__metadata__": {metadata}').encode()
        else:
            text = json.dumps({"__metadata__": {"giftrl": giftrl, "sha256": digest}} | table).encode()
        text += b" " * pad
        return len(text).to_bytes(8, "little") + text

    return start(hashlib.sha256(start("0" * 64) + data).hexdigest()) + data


def entry(dtype="F64", shape=(1,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def written(folder, data):
    path = folder / "hostile.giftrl"
    path.write_bytes(data)
    return path
