"""Sources: whatever the compression, the size of a block and the place to start, the lines are those of the file."""

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from giftrl.errors import BadSource, InvalidInput
from giftrl.streams.batch import Position
from giftrl.streams.line_blocks import LineBlocks
from giftrl.streams.source import Source, Stream, codec_of, find_sources

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BEGIN = Position()
PACK = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "zstd": zstd.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
DECODERS = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zstd": zstd.ZstdDecompressor,
    "xz": lzma.LZMADecompressor,
    "bz2": bz2.BZ2Decompressor,
}
packed_by = pytest.mark.parametrize("packing", DECODERS)


def save(folder: Path, data: bytes, name: str = "data") -> Source:
    path = folder / name
    path.write_bytes(data)
    return Source(str(path), path)


def read(source: Source, start: Position = BEGIN, **options: int) -> list[tuple[Position, bytes]]:
    """The position of each line, and its bytes, with what the blocks say of themselves checked on the way."""
    found = []
    with Stream(source) as stream:
        here = start
        for block in LineBlocks(stream, start, **options):
            assert block.start == here
            for line in block.data.tobytes().splitlines(keepends=True) if len(block.data) else []:
                found.append((here, line))
                here = Position(here.source, here.offset + len(line), here.line + 1)
            if block.rejected:
                here = block.end
            assert block.end == here
    return found


def until_broken(source: Source, size: int = 1 << 20) -> tuple[list[bytes], str]:
    """The lines of a source, and what went wrong behind them."""
    found = []
    with Stream(source) as stream:
        try:
            for block in LineBlocks(stream, BEGIN, size):
                found.extend(split(block.data.tobytes()))
        except BadSource as problem:
            return found, str(problem)
    return found, ""


def split(data: bytes) -> list[bytes]:
    """Lines end at a newline and at nothing else."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


plain = (
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\r", b"").replace(b"\x0b", b"")), min_size=1)
    .map(b"\n".join)
    .filter(lambda data: codec_of(data) is None)
)


@given(data=plain.filter(bool), packing=st.sampled_from(sorted(PACK)), size=st.integers(1, 64))
def test_lines_are_those_of_the_file(tmp_path_factory, data, packing, size):
    packed = PACK[packing](data)
    source = save(tmp_path_factory.getbasetemp(), packed)
    with Stream(source) as stream:
        assert stream.compression == (None if packing == "plain" else packing)
        found = [block.data.tobytes() for block in LineBlocks(stream, Position(), size)]
        assert all(found) and stream.consumed == len(packed) == stream.total
    assert b"".join(found) == data
    assert [line for _, line in read(source, size=size)] == split(data)


@given(data=plain.filter(bool), packing=st.sampled_from(sorted(PACK)), where=st.randoms(use_true_random=False))
def test_a_position_is_enough_to_go_on(tmp_path_factory, data, packing, where):
    source = save(tmp_path_factory.getbasetemp(), PACK[packing](data))
    whole = read(source, size=16)
    k = where.randrange(len(whole))
    assert read(source, whole[k][0], size=7) == whole[k:]


def test_a_place_behind_the_end_is_an_error(tmp_path):
    for packing in PACK:
        source = save(tmp_path, PACK[packing](b"one\ntwo\n"))
        assert read(source, Position(0, 8, 3)) == []
        with pytest.raises(BadSource, match="ends at byte 8, before byte 9"):
            read(source, Position(0, 9, 3))


@given(data=plain.filter(bool), backs=st.lists(st.integers(0, 3), max_size=20), size=st.integers(1, 40))
def test_lines_given_back_come_again(tmp_path_factory, data, backs, size):
    source = save(tmp_path_factory.getbasetemp(), data)
    found: list[bytes] = []
    with Stream(source) as stream:
        blocks = LineBlocks(stream, Position(), size)
        for block in blocks:
            assert block.start == Position(0, sum(map(len, found)), len(found) + 1)
            pieces = split(block.data.tobytes())
            back = min(backs.pop(), len(pieces)) if backs else 0
            blocks.give_back(sum(map(len, pieces[len(pieces) - back :])))
            found.extend(pieces[: len(pieces) - back])
    assert found == split(data)


@packed_by
def test_members_and_padding_are_one_file(tmp_path, packing):
    # A frame that zstd skips is no data.
    skipped = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" if packing == "zstd" else PACK[packing](b"")
    data = skipped + PACK[packing](b"one\n") + skipped + PACK[packing](b"two\n") + bytes(512)
    assert [line for _, line in read(save(tmp_path, data))] == [b"one\n", b"two\n"]
    with pytest.raises(BadSource, match=f":2:1: the {packing} data is followed by something else"):
        read(save(tmp_path, PACK[packing](b"one\n") + b"garbage"))


@packed_by
def test_broken_data_gives_its_whole_lines_first(tmp_path, packing):
    rng = random.Random(0)
    data = b"".join(b"%d %d\n" % (i, rng.getrandbits(60)) for i in range(60_000))
    packed = PACK[packing](data)
    truth = split(data)
    for cut in [20, len(packed) // 2, len(packed) - 1]:
        source = save(tmp_path, packed[:cut])
        found, problem = until_broken(source, 1 << 14)
        assert found == truth[: len(found)]
        assert problem.startswith(f"{source.name}:{len(found) + 1}:1: the {packing} data ends too early")
    # All that a decoder makes of the first half of the data is there.
    whole = DECODERS[packing]().decompress(packed[: len(packed) // 2])
    found, _ = until_broken(save(tmp_path, packed[: len(packed) // 2]))
    assert found == split(whole)[: whole.count(b"\n")]


@packed_by
def test_damaged_data_is_an_error_or_has_the_same_length(tmp_path, packing):
    data = b"".join(b"line %d of many\n" % i for i in range(20_000))
    packed = PACK[packing](data)
    rng = random.Random(1)
    for _ in range(20):
        at = rng.randrange(20, len(packed))
        wrong = packed[:at] + bytes([packed[at] ^ (1 << rng.randrange(8))]) + packed[at + 1 :]
        found, problem = until_broken(save(tmp_path, wrong))
        if problem:
            assert f":{len(found) + 1}:1: the {packing} data" in problem
        else:
            # A frame without a checksum cannot know; gzip, xz and bz2 have one.
            assert packing == "zstd" or found == split(data)


def test_a_line_that_is_too_long_is_rejected_and_skipped(tmp_path):
    long = b"x" * 101
    data = b"one\n" + long + b"\ntwo\n" + b"y" * 100 + b"\n" + long * 30_000 + b"\nthree\n" + long
    source = save(tmp_path, data)
    found, rejected = [], []
    with Stream(source) as stream:
        for block in LineBlocks(stream, Position(), 16, max_line=100):
            found.extend(split(block.data.tobytes()))
            rejected.extend(block.rejected)
    assert found == [b"one\n", b"two\n", b"y" * 100 + b"\n", b"three\n"]
    assert [each.line for each in rejected] == [2, 5, 7]
    assert rejected[1].raw == b"x" * len(rejected[1].raw) and len(rejected[1].raw) <= 200
    assert "expected at most 100 bytes a line" in str(rejected[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to tell the memory of a process")
def test_a_long_line_is_not_kept(tmp_path):
    # 1 GB of one line in 1 MB of gzip.
    packed = gzip.compress(bytes(1 << 24).replace(b"\0", b"a"), 9) * 64 + gzip.compress(b"\nend\n")
    source = save(tmp_path, packed)
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from giftrl.streams.source import Source, Stream\n"
        "from giftrl.streams.line_blocks import LineBlocks\n"
        "from giftrl.streams.batch import Position\n"
        "with Stream(Source('x', Path(sys.argv[1]))) as stream:\n"
        "    blocks = list(LineBlocks(stream, Position(), max_line=1 << 24))\n"
        "peak = int(re.search(r'VmHWM:\\s*([0-9]+) kB', Path('/proc/self/status').read_text())[1])\n"
        "print(blocks[-1].data.tobytes(), peak // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(source.path)], capture_output=True, text=True, check=True)
    end, megabytes = done.stdout.rsplit(maxsplit=1)
    assert end == r"b'end\n'"
    assert int(megabytes) < 300


def test_directories_globs_and_order(tmp_path):
    for name in ["b/2", "b/10", "a", ".hidden", "_SUCCESS", "b/.x", ".git/y", "c[1].csv", "_temporary/z"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")

    def names(*asked: str) -> list[str]:
        found = find_sources([tmp_path / each if each != "-" else each for each in asked])
        return [each.name.removeprefix(f"{tmp_path}/") for each in found]

    assert names("") == ["a", "b/10", "b/2", "c[1].csv"]
    assert names("b/*", "a") == ["b/10", "b/2", "a"]
    assert names("**/2") == ["b/2"]
    assert names("c[1].csv") == ["c[1].csv"]  # a file of that name comes before the pattern
    assert names("?") == ["a", "b/10", "b/2"]  # a pattern may match directories
    assert names("-", "a") == ["-", "a"]
    assert names("_SUCCESS", ".hidden") == ["_SUCCESS", ".hidden"]  # named by the user


def test_what_cannot_be_read_says_so(tmp_path):
    (tmp_path / "empty").write_text("")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "secret").write_text("1\n")
    for name, message in [
        ("missing", "there is no such file"),
        ("empty", "the file is empty"),
        ("nothing", "the directory holds no files"),
        ("*.csv", "the pattern matches no file"),
    ]:
        with pytest.raises(BadSource, match=message) as caught:
            find_sources(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="at least one source"):
        find_sources([])
    with pytest.raises(InvalidInput, match="standard input at most once"):
        find_sources(["-", "-"])


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_a_file_without_permission(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("1\n")
    secret.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(BadSource, match="may not be read"):
            find_sources(secret)
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(b"one\ntwo\n")))
    writer.start()
    [source] = find_sources(pipe)
    with Stream(source) as stream:
        assert stream.total is None and not stream.seekable
        assert [block.data.tobytes() for block in LineBlocks(stream, Position(0, 4, 2))] == [b"two\n"]
    writer.join()


def test_standard_input(tmp_path, monkeypatch):
    code = (
        "from giftrl.streams.source import Stream, find_sources\n"
        "from giftrl.streams.line_blocks import LineBlocks\n"
        "from giftrl.streams.batch import Position\n"
        "with Stream(find_sources('-')[0]) as stream:\n"
        "    blocks = LineBlocks(stream, Position(0, 4, 2))\n"
        "    print(stream.compression, stream.total, [block.data.tobytes() for block in blocks])\n"
    )
    packed = gzip.compress(b"one\ntwo\nthree")
    done = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, check=True)
    assert done.stdout == b"gzip None [b'two\\nthree']\n"
    (tmp_path / "file").write_bytes(b"one\ntwo\n")
    with (tmp_path / "file").open("rb") as handle:
        done = subprocess.run([sys.executable, "-c", code], stdin=handle, capture_output=True, check=True)
    assert done.stdout == b"None 8 [b'two\\n']\n"
    # Where something else stands in for it.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo")))
    with Stream(Source("-", None)) as stream:
        assert [block.data.tobytes() for block in LineBlocks(stream, Position())] == [b"one\ntwo"]
