"""Slow, obvious twins of the parsers of numbers, LIBSVM text and VW text; and a campaign that compares them.

    python -m tests.fuzz_parsers [count] [--seed SEED] [--hypothesis SHARE]

The inputs come from Hypothesis and from seeded random mutation. Prints what was run, or the first input on which a
parser and its twin differ.
"""

import argparse
import math
import random
import re
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from giftrl.streams.batch import Batch, Position
from giftrl.streams.names.features import Dictionary
from giftrl.streams.names.interactions import Interactions
from giftrl.streams.text.libsvm import LibsvmText
from giftrl.streams.text.vw import VwText
from tests.stream_rows import read_number

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
FEATURE = re.compile(rb"([0-9]+):(.*)", re.DOTALL)


class Bad(Exception):
    """A line that is to be rejected."""


class Row(NamedTuple):
    label: float
    weight: float
    tag: str
    entries: dict[str, float]
    namespaces: dict[str, str]
    base: float = 0.0


# --------------------------------------------------------------------------------------------------------- the twins


def twin_number(text: bytes) -> float:
    if not NUMBER.fullmatch(text):
        raise Bad("number")
    value = float(text)
    if not math.isfinite(value):
        raise Bad("large")
    return value


def add(entries: dict[str, float], name: str, value: float) -> None:
    entries[name] = entries[name] + value if name in entries else value
    if not math.isfinite(entries[name]):
        raise Bad("sum")


def twin_libsvm(line: bytes) -> Row | None:
    """A line without its newline; None where it is no row."""
    body = line.split(b"#")[0] if b"#" in line else line.removesuffix(b"\r")
    words = [word for word in re.split(rb"[ \t]+", body) if word]
    if not words:
        return None
    label = twin_number(words.pop(0))
    if words and words[0].startswith(b"qid:") and not re.fullmatch(rb"qid:[0-9]+", words.pop(0)):
        raise Bad("qid")
    entries: dict[str, float] = {}
    for word in words:
        match = FEATURE.fullmatch(word)
        if not match:
            raise Bad("feature")
        index = int(match[1]) if len(match[1]) < 4000 else int(match[1].lstrip(b"0")[:30] or b"0")
        if not 1 <= index < 2**63:
            raise Bad("index")
        if str(index) in entries:
            raise Bad("twice")
        entries[str(index)] = twin_number(match[2])
    return Row(label, 1.0, "", entries, {})


def twin_text(raw: bytes) -> str:
    if b"\0" in raw or b"\r" in raw:
        raise Bad("byte")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Bad("utf-8") from None


def twin_vw(line: bytes) -> Row | None:
    """A line without its newline; None where it is no row."""
    line = line.removesuffix(b"\r")
    if not line.strip(b" \t"):
        return None
    if b"|" not in line:
        raise Bad("bar")
    head, *sections = line.split(b"|")
    if b"\t" in head:
        raise Bad("tab")
    words = [word for word in head.split(b" ") if word]
    tag = ""
    if words and (not head.endswith(b" ") or words[-1].startswith(b"'")):
        tag = twin_text(words.pop().removeprefix(b"'"))
    if len(words) > 3:
        raise Bad("many")
    label, weight, base = [twin_number(word) for word in words] + [math.nan, 1.0, 0.0][len(words) :]
    if weight < 0.0:
        raise Bad("importance")
    entries: dict[str, float] = {}
    namespaces: dict[str, str] = {}
    for section in sections:
        # Every section begins with its namespace, which is empty where a blank follows the bar.
        first, *words = re.split(rb"[ \t]", section)
        raw, colon, text = first.partition(b":")
        namespace, factor = twin_text(raw), 1.0
        if colon:
            factor = twin_number(text)
        if (colon and not raw) or len(raw) > 255:
            raise Bad("namespace")
        for word in filter(None, words):
            raw, colon, text = word.partition(b":")
            if not raw:
                raise Bad("name")
            value = (twin_number(text) if colon else 1.0) * factor
            if not math.isfinite(value):
                raise Bad("large")
            if value != 0.0:
                name = f"{namespace}^{twin_text(raw)}" if namespace else twin_text(raw)
                namespaces.setdefault(name, namespace)
                add(entries, name, value)
            else:
                twin_text(raw)
    return Row(label, weight, tag, entries, namespaces, base)


# -------------------------------------------------------------------------------------------------------- comparisons


def same(a: float, b: float) -> bool:
    """To the last bit, with NaN equal to itself."""
    return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))


def check_number(data: bytes, compiled: bool = True) -> None:
    found = read_number(data, compiled=compiled)
    try:
        expected = twin_number(data)
    except Bad:
        assert found is None, (data, found)
    else:
        assert found is not None and same(found, expected), (data, found, expected)


def check_batch(
    batch: Batch, name_of: Callable[[int], str | None], data: bytes, twin: Callable[[bytes], Row | None]
) -> list[Row]:
    """That a batch is what the twin makes of each line; its rows."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    rows: list[tuple[int, Row]] = []
    bad = []
    for number, line in enumerate(lines, 1):
        try:
            row = twin(line)
        except Bad:
            bad.append(number)
        else:
            if row is not None:
                rows.append((number, row))
    assert [r.line for r in batch.rejected] == bad
    assert batch.lines.tolist() == [number for number, _ in rows]
    assert batch.end == Position(0, len(data), len(lines) + 1)
    for rejected in batch.rejected:
        line = lines[rejected.line - 1].removesuffix(b"\r")
        assert rejected.raw == line[:4096] or line[:4096] == rejected.raw + b"\r"
        assert 1 <= rejected.column <= len(line) + 2 and rejected.problem and rejected.expected
    assert batch.tags == tuple(row.tag for _, row in rows) or (not batch.tags and not any(row.tag for _, row in rows))
    for k, (_, row) in enumerate(rows):
        entries = slice(batch.indptr[k], batch.indptr[k + 1])
        assert same(batch.labels[k], row.label) and same(batch.weights[k], row.weight)
        assert [name_of(slot) for slot in batch.indices[entries].tolist()] == list(row.entries)
        assert all(map(same, batch.data[entries].tolist(), row.entries.values()))
    return [row for _, row in rows]


def check_libsvm(data: bytes, compiled: bool = True) -> None:
    features = Dictionary(compiled=compiled)
    batch = LibsvmText(features, compiled=compiled).parse(data, "fuzz", Position())
    check_batch(batch, features.name, data, twin_libsvm)


def check_vw(data: bytes, compiled: bool = True) -> None:
    features = Dictionary(compiled=compiled)
    interactions = Interactions(["nu", ("user", "ad"), "a:"])
    parser = VwText(features, interactions, compiled=compiled)
    batch = parser.parse(data, "fuzz", Position())
    rows = check_batch(batch, features.name, data, twin_vw)
    assert (batch.bases.tolist() or [0.0] * len(batch)) == [row.base for row in rows]
    assert len(batch.groups) == len(batch.data)
    namespaces = [namespace for row in rows for namespace in row.namespaces.values()]
    assert batch.groups.tolist() == [interactions.code(namespace) for namespace in namespaces]


CHECKS = (check_number, check_libsvm, check_vw)


# ------------------------------------------------------------------------------------------------------------- inputs

SEEDS: dict[Callable[..., None], list[bytes]] = {
    check_number: [
        b"0.0431", b"-1.5e-3", b"+.5", b"12345678901234567890123.5e-10", b"2.2250738585072011e-308", b"1e400", b"nan",
        b"17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028",
        b"9007199254740993", b"4.9406564584124654e-324", b"0x1p3", b"1_0", b"1e", b"0.0000000000000000000000000001e30",
    ],
    check_libsvm: [
        b"1 3:0.5 7:2\n-1 5:1 # five\n", b"+1 qid:3 1:2.5e-3\r\n\n# nothing\n0.5\n",
        b"1 9:1 3:2 9:4\n2 3:nan\n3:1 4:2\n", b"1 9223372036854775807:1 9223372036854775808:2\n1 0:1\n1 -3:1\n",
        b"\xef\xbb\xbf1 1:1\n", b"1\t2:3\t\n1 2:\n1 2\n",
    ],
    check_vw: [
        b"1 2.0 'first|user:0.5 age:30 |item red\n | red:-1\n", b"1 | caf\xc3\xa9 \xff a\0b\n1\n ||b\tc|d",
        b"1 |a b c:2 b\r\n\n-1 0.5 tag|f 13:3.9e-02 24:3.4e-02\n",
        b"| a:1e308 a:1e308\n1 2 3 | x\n|:2 x\n1 | :3\n|a:1e200 b:1e200\n",
    ],
}  # fmt: skip

PIECES = [
    b" ", b"\t", b"\n", b"\r\n", b"\r", b":", b"|", b"#", b"'", b"\0", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80",
    b"\xf4\x90", b"qid:", b"nan", b"inf", b"1e400", b"1e-400", b"-", b"+", b".", b"e", b"0", b"1", b"9" * 19, b"0" * 25,
    b"1" * 400, b"0.1", b"1:1", b"a:2", b"|n:2 ", b"^", b"\xef\xbb\xbf",
]  # fmt: skip


def mutated(rng: random.Random, target: Callable[..., None]) -> bytes:
    """An input near one of the seeds."""
    data = bytearray(rng.choice(SEEDS[target]))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[at:at] = rng.choice(PIECES)
            case 1:
                del data[at : at + rng.randrange(1, 5)]
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 20)]
            case _:
                data[at:] = rng.choice(SEEDS[target])
    return bytes(data)


def pieces(target: Callable[..., None]) -> st.SearchStrategy[bytes]:
    """Inputs for Hypothesis: seeds and pieces of text in any order."""
    piece = st.one_of(st.sampled_from(PIECES), st.sampled_from(SEEDS[target]), st.binary(max_size=3))
    return st.lists(piece, max_size=12).map(b"".join)


# ----------------------------------------------------------------------------------------------------------- campaign


def search(target: Callable[..., None], count: int) -> None:
    """Inputs from Hypothesis for one parser."""
    each = settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    each(given(pieces(target))(lambda data: target(data)))()


def run_random(count: int, seed: int, together: int = 25) -> None:
    """Inputs of lines are tried some at a time, as one block; where that fails, one by one."""
    rng = random.Random(seed)
    while count > 0:
        target = rng.choice(CHECKS)
        inputs = [mutated(rng, target) for _ in range(min(count, together))]
        count -= len(inputs)
        blocks = inputs if target is check_number else [b"\n".join(inputs)]
        try:
            for data in blocks:
                target(data)
        except BaseException:
            for data in [*inputs, *blocks]:
                try:
                    target(data)
                except BaseException:
                    print(f"{target.__name__} fails on {data!r}", file=sys.stderr)
                    raise


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the parsers with their twins.")
    parser.add_argument("count", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hypothesis", type=float, default=0.05, metavar="SHARE")
    options = parser.parse_args()
    searched = int(options.count * options.hypothesis)
    mutations = options.count - searched
    for name, count, run in [
        ("Hypothesis", searched, lambda: [search(target, max(1, searched // len(CHECKS))) for target in CHECKS]),
        ("random mutation", mutations, lambda: run_random(mutations, options.seed)),
    ]:
        began = time.monotonic()
        print(f"{count} inputs from {name} ...", flush=True)
        if count:
            run()
        print(f"... no difference, in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
