"""Several threads parse: batches, names and errors are those of one thread, whatever the number of threads."""

import gzip
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import BadRow, BadSource
from giftrl.streams.names.features import Dictionary, Hashing
from giftrl.streams.reader import Reader, ordered_map
from giftrl.streams.source import Source

WORDS = st.sampled_from([f"w{i}" for i in range(40)])
ROWS = {
    "vw": st.builds(
        lambda names, bad: f"1 |a {' '.join(names)}\n" if bad else "1 |a x:y\n",
        st.lists(WORDS, max_size=5), st.integers(0, 9),
    ),
    "libsvm": st.builds(
        lambda numbers, bad: "1" + "".join(f" {k}:2.5" for k in sorted(numbers)) + "\n" if bad else "1 3:x\n",
        st.sets(st.integers(1, 40), max_size=2)  , st.integers(0, 9),
    ),
}  # fmt: skip


def everything(reader, features):
    """All that a reader says, step by step: rows, what is bad, where it is, and what the features know."""
    seen = []
    try:
        for batch in reader:
            kinds, arrays = features.state()
            known = {name: array.tolist() for name, array in arrays.items()}
            rows = [getattr(batch, name).tolist() for name in ("data", "indices", "indptr", "labels", "lines")]
            seen.append((rows, batch.end, batch.rejected, kinds, known))
    except (BadRow, BadSource) as problem:
        seen.append((type(problem), str(problem)))
    return seen, reader.rows, reader.rejected


@pytest.mark.parametrize("format_", ROWS)
@given(
    data=st.data(), threads=st.integers(2, 4), on_error=st.sampled_from(["stop", "skip"]), bits=st.sampled_from([4, 12])
)
def test_the_number_of_threads_changes_nothing(format_, data, threads, on_error, bits):
    text = "".join(data.draw(st.lists(ROWS[format_], min_size=20, max_size=60))).encode()
    found = []
    for count in (1, threads):
        features = Hashing(bits, compiled=False)
        source = Source("x", data=text or b"\n")
        reader = Reader(
            source, features, format=format_, on_error=on_error, threads=count, block=64, max_line=60, compiled=False
        )
        found.append(everything(reader, features))
    assert found[0] == found[1]


def test_rows_before_a_break_are_delivered_first(tmp_path):
    path = tmp_path / "x.svm.gz"
    packed = gzip.compress(b"".join(b"1 %d:0.%d\n" % (k % 900 + 1, k * 7919 % 100_000) for k in range(30_000)))
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found = []
    for threads in (1, 3):
        features = Hashing(10)
        found.append(everything(Reader(path, features, threads=threads, block=1 << 14), features))
    assert found[0] == found[1]
    assert found[0][0][-1][0] is BadSource and found[0][1] > 10_000


def parsers():
    return [each for each in threading.enumerate() if each.name.startswith("giftrl-parser")]


def test_threads_parse_where_order_does_not_matter_and_end_with_the_loop(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(b"1 1:1 2:2\n" * 100_000)
    for features, count in ((Hashing(4), 3), (Dictionary(), 0)):
        batches = iter(Reader(path, features, block=1 << 12, threads=3))
        next(batches)
        assert len(parsers()) == count
        batches.close()
        assert parsers() == []


def test_what_a_worker_raises_comes_in_its_turn():
    def work(k):
        if k == 3:
            raise ValueError("three")
        return k

    seen = []
    with pytest.raises(ValueError, match="three"):
        seen.extend(ordered_map(range(9), [work, work]))
    assert seen == [0, 1, 2] and parsers() == []
