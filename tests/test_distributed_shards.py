"""Shards: every row of every file is in one shard, once, wherever reading begins anew."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.distributed import plan, shards
from giftrl.distributed.shards import (
    Cut,
    File,
    ShardPlace,
    ShardRows,
    deal,
    find_files,
    lines_of_cut,
    look_at_files,
    whole_lines,
)
from giftrl.errors import BadSource, InvalidInput
from giftrl.streams.columns import Columns
from giftrl.training import Settings

pytestmark = pytest.mark.plain


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "MIN_BLOCK_BYTES", 32)


TEXTS = {
    "svm": "".join(f"{(-1) ** k} {1 + k % 7}:0.5 {10 + k}:{k}\n" for k in range(1, 60)),
    "vw": "".join(f"{(-1) ** k} |a x{k % 5}:2 |b y{k}\n" for k in range(1, 60)),
    "json": "".join(json.dumps({"label": (-1) ** k, "age": k, "city": f"c{k % 3}"}) + "\n" for k in range(1, 60)),
    "csv": "city,age,label\n" + "".join(f"c{k % 3},{k},{(-1) ** k}\n" for k in range(1, 60)),
}
BAD = {"svm": "1 nonsense\n", "vw": "x |a b\n", "json": '{"label": }\n', "csv": "Rome,old,1\n"}


def written(folder: Path, kind: str, bad: bool = False) -> Path:
    lines = TEXTS[kind].splitlines(keepends=True)
    if bad:
        lines = [each for k, line in enumerate(lines) for each in ([line, BAD[kind]] if k % 11 == 10 else [line])]
    path = folder / f"rows.{kind}"
    path.write_text("".join(lines))
    return path


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=40),
    ended=st.booleans(),
    header=st.sampled_from([b"", b"a,b\n", b"\xef\xbb\xbf", b"a long header," * 9 + b"\n"]),
    size=st.integers(1, 60),
)
def test_each_line_is_in_one_block(lines, ended, header, size):
    text = header + b"\n".join(lines) + (b"\n" if ended else b"")
    raw = io.BytesIO(text)
    begins = range(len(header), len(text), size)
    blocks = [whole_lines(raw, k, min(k + size, len(text)), k == len(header)) for k in begins]
    at, expected = len(header), [b""] * len(begins)
    for line in io.BytesIO(text[len(header) :]):
        expected[(at - len(header)) // size] += line
        at += len(line)
    assert blocks == expected


@given(
    files=st.lists(
        st.builds(File, st.just("f"), st.integers(1, 10**9), st.booleans(), st.just(b"")), min_size=1, max_size=6
    ),
    workers=st.integers(1, 70),
)
def test_shards_cover_all_bytes_once_and_are_even(files, workers):
    shares = deal(files, workers)
    assert shares == deal(files, workers)
    assert len(shares) == workers
    cuts = sorted(cut for share in shares for cut in share)
    for number, file in enumerate(files):
        mine = [cut for cut in cuts if cut.file == number]
        assert [cut.begin for cut in mine] == [0, *(cut.end for cut in mine[:-1])]
        assert mine[-1].end == file.size
    blocks = [sum(files[cut.file].lines for cut in share) for share in shares]
    assert max(blocks) - min(blocks) <= 1
    assert all(cut.end - cut.begin <= 4 << 20 for cut in cuts if files[cut.file].lines)


def rows_of(reading, shard, takes=(10**9,), restart=False):
    """Labels, entries and the count of rejected rows, taken in portions; by a new reader for each, if asked."""
    rows, place = ShardRows(reading, shard, ShardPlace()), ShardPlace()
    entries, rejected, turn = [], 0, 0
    while not rows.done:
        if restart:
            rows = ShardRows(reading, shard, ShardPlace(*json.loads(json.dumps(place))))
        for portion in rows.take(takes[turn % len(takes)]):
            batch = portion.batch
            assert type(portion.rejected) is int  # model files take no numbers of NumPy
            rejected += portion.rejected
            for k in range(len(batch)):
                part = slice(batch.indptr[k], batch.indptr[k + 1])
                entries.append((batch.labels[k], *batch.indices[part].tolist(), *batch.data[part].tolist()))
        place, turn = rows.place, turn + 1
    return entries, rejected


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_shards_hold_every_row(kind, workers, tmp_path, small_blocks):
    settings = Settings(loss="squared", bits=10)
    path = written(tmp_path, kind, bad=True)
    whole, rejected = rows_of(plan(settings, path, 1, on_error="skip"), 0)
    reading = plan(settings, path, workers, on_error="skip")
    assert workers == 1 or min(map(len, reading.shards)) > 1
    each = [rows_of(reading, shard) for shard in range(workers)]
    assert sorted(row for rows, _ in each for row in rows) == sorted(whole)
    assert len(whole) == 59
    assert sum(count for _, count in each) == rejected == 5


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("takes", [(1,), (3, 5), (7, 0, 20)])
def test_a_place_says_where_the_next_row_is(kind, takes, tmp_path, small_blocks):
    reading = plan(Settings(loss="squared", bits=10), written(tmp_path, kind, bad=True), 2, on_error="skip")
    for shard in range(2):
        assert rows_of(reading, shard, takes, restart=True) == rows_of(reading, shard)


@pytest.mark.parametrize("kind", ["gz", "parquet"])
def test_files_that_cannot_be_cut_are_dealt_whole(kind, tmp_path):
    for k in range(3):
        path = tmp_path / f"rows{k}.{'csv.gz' if kind == 'gz' else kind}"
        if kind == "gz":
            path.write_bytes(gzip.compress(TEXTS["csv"].encode()))
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({"age": np.arange(9.0), "label": np.arange(9) % 2}), path)
    reading = plan(Settings(loss="squared", bits=8), str(tmp_path / "*"), 2)
    assert [[cut.file for cut in shard] for shard in reading.shards] == [[0, 2], [1]]
    assert len(rows_of(reading, 0)[0]) == (118 if kind == "gz" else 18)
    assert rows_of(reading, 0, (5,), restart=True) == rows_of(reading, 0)


def test_csv_with_newlines_inside_quotes_is_not_cut(tmp_path, small_blocks):
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + '"two\nlines",1\nx,-1\n' * 30)
    reading = plan(Settings(loss="squared", bits=8), path, 4)
    assert [len(shard) for shard in reading.shards] == [1, 0, 0, 0]
    assert len(rows_of(reading, 0)[0]) == 60


def test_csv_without_header_keeps_its_first_row(tmp_path, small_blocks):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{k};{k % 2}\n" for k in range(100)))
    reading = plan(Settings(loss="squared", bits=8), path, 3, columns=Columns(header=False))
    assert sum(len(rows_of(reading, shard)[0]) for shard in range(3)) == 100


def test_urls_are_read_like_paths(tmp_path, small_blocks):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    settings = Settings(loss="squared", bits=10)
    path = written(tmp_path, "csv")
    with fsspec.open("memory://shards/rows.csv", "wb") as file:
        file.write(path.read_bytes())
    expected = plan(settings, path, 3)
    for url in (path.as_uri(), "memory://shards/rows.csv", "memory://shards/*.csv", "memory://shards"):
        reading = plan(settings, url, 3)
        assert reading.shards == expected.shards
        for shard in range(3):
            assert rows_of(reading, shard) == rows_of(expected, shard)


def test_parquet_behind_a_url(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"age": np.arange(9.0), "label": np.arange(9) % 2}), path)
    with fsspec.open("memory://tables/a.parquet", "wb") as file:
        file.write(path.read_bytes())
    settings = Settings(loss="squared", bits=8)
    assert rows_of(plan(settings, "memory://tables/a.parquet", 1), 0) == rows_of(plan(settings, path, 1), 0)


def test_an_open_block_begins_with_the_header(tmp_path):
    path = written(tmp_path, "csv")
    (file,) = look_at_files(find_files(path)).files
    assert lines_of_cut(file, Cut(0, 40, 60)).startswith(b"city,age,label\nc")


def test_what_cannot_be_shared_is_refused(tmp_path):
    settings, path = Settings(loss="squared", bits=8), written(tmp_path, "svm")
    with pytest.raises(InvalidInput, match="standard input"):
        plan(settings, [path, "-"], 2)
    with pytest.raises(InvalidInput, match="bits=None: a dictionary would differ .* try bits=18"):
        plan(Settings(loss="squared", bits=None), path, 2)
    with pytest.raises(InvalidInput, match="one format"):
        plan(settings, [path, written(tmp_path, "csv")], 2)
    with pytest.raises(InvalidInput, match="workers=0"):
        plan(settings, path, 0)
    with pytest.raises(BadSource, match="no such file"):
        plan(settings, tmp_path / "nothing.svm", 2)


def test_bad_urls_are_named():
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    settings = Settings(loss="squared", bits=8)
    for url, said in (
        ("memory://nowhere/a.svm", "no such file"),
        ("memory://nowhere/*.svm", "matches no file"),
        ("nosuchprotocol://a/b.svm", "cannot be read"),
    ):
        with pytest.raises(BadSource, match=said):
            plan(settings, url, 2)


def test_urls_need_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(InvalidInput, match=r"giftrl\[ray\]"):
        plan(Settings(loss="squared", bits=8), "s3://bucket/a.svm", 2)
