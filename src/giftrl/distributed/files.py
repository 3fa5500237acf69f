"""The files that a run on many machines reads: paths, globs, directories and URLs such as ``s3://bucket/day*.vw``."""

import glob
import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from giftrl.errors import BadSource, GiftrlError, InvalidInput, require
from giftrl.streams.columns import Columns, Schema
from giftrl.streams.formats import HEAD, TEXT, detect
from giftrl.streams.sources.source import STANDARD_INPUT, Source, Stream, find_sources, is_url

Named = str | os.PathLike[str]
#: Text is hardly ever more times as large as its compressed file.
COMPRESSION = 10
#: What goes wrong is an error of ours: the traces that these packages also log are for programs that ask for them.
LOGGERS = ("fsspec", "gcsfs", "s3fs")


class File(NamedTuple):
    """A file of rows, and what is known about it before its rows are read.

    Attributes:
        name: its path or URL.
        size: in bytes.
        lines: whether it can be cut between any two lines.
        header: of CSV, the bytes before its first row.
        delimiter: of CSV.
    """

    name: str
    size: int
    lines: bool = False
    header: bytes = b""
    delimiter: str | None = None


def source_of(name: str) -> Source:
    """The whole of a file."""
    return Source(name, opener=partial(open_url, name)) if is_url(name) else Source(name, Path(name))


def open_url(name: str) -> Any:
    """The bytes behind a URL, opened to be read."""
    with _url_errors(name):
        return _fsspec(name).open(name, "rb").open()


def find_files(sources: Named | Sequence[Named]) -> tuple[File, ...]:
    """The files that paths, globs, directories and URLs stand for, with their sizes."""
    names = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    require(len(names) > 0, "sources", sources, "must name at least one source", "give files or URLs")
    for name in names:
        piped = os.fspath(name) == STANDARD_INPUT
        require(not piped, "sources", name, "cannot be split among workers", "write standard input to a file")
    return tuple(file for name in names for file in (_behind_url(str(name)) if is_url(name) else _on_disk(name)))


def _on_disk(name: Named) -> Iterator[File]:
    for source in find_sources(name):
        assert source.path is not None
        if not source.path.is_file():
            raise BadSource(source.name, "is a pipe or a device, which workers cannot share", "write it to a file")
        # Workers may run in another folder.
        yield File(str(source.path.resolve()), source.path.stat().st_size)


def _behind_url(url: str) -> Iterator[File]:
    with _url_errors(url):
        system, path = _fsspec(url).core.url_to_fs(url)
        if glob.has_magic(path) and not system.exists(path):
            found = sorted(system.glob(path))
            if not found:
                raise BadSource(url, "the pattern matches no file", "check it")
        else:
            found = sorted(system.find(path)) if system.isdir(path) else [path]
        for each in found:
            size = int(system.info(each)["size"])
            name = system.unstrip_protocol(each)
            if size == 0:
                raise BadSource(name, "the file is empty", "leave it out")
            yield File(name, size)


def _fsspec(url: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise InvalidInput(
            "sources", url, "needs fsspec, which is not installed", 'pip install "giftrl[ray]"'
        ) from None
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    return fsspec


class _url_errors:  # noqa: N801 (it reads as a function)
    """Turn what goes wrong with a URL into an error that names it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if problem is None or isinstance(problem, GiftrlError) or not isinstance(problem, Exception):
            return
        if isinstance(problem, FileNotFoundError):
            raise BadSource(self.url, "there is no such file", "check the name") from None
        if isinstance(problem, ImportError):
            raise BadSource(self.url, f"needs another package ({problem})", "install it on every machine") from None
        # Each file system has errors of its own, and not all of them are an OSError.
        said = f"{type(problem).__name__}: {problem}"
        raise BadSource(self.url, f"cannot be read ({said})", "check the address and the access to it") from None


class Look(NamedTuple):
    """Files with what their first bytes show, their format, and what the columns of tables are for."""

    files: tuple[File, ...]
    format: str
    schema: Schema | None


def look_at_files(
    files: Sequence[File],
    format: str | None = None,  # noqa: A002
    columns: Columns | None = None,
    schema: Schema | None = None,
    named_labels: bool = False,
) -> Look:
    """Find out which files can be cut between lines, and where the rows of CSV begin.

    Args:
        files: as :func:`find_files` gives them.
        format, columns, schema: as for :class:`giftrl.streams.Reader`.
        named_labels: whether labels are text.
    """
    looked, formats = [], dict[str, str]()
    for file in files:
        with Stream(source_of(file.name)) as stream:
            head = stream.peek(HEAD)
            stream.check_end(1)
            found = detect(head, file.name, format)
            formats.setdefault(found, file.name)
            plain = stream.compression is None
        if found == "csv":
            from giftrl.streams.tables.csv import layout

            made = layout(head[:HEAD], file.name, columns or Columns(), schema, len(head) < HEAD, named_labels)
            file = file._replace(header=head[: made.offset], delimiter=made.delimiter)
            schema = schema or made.schema
        looked.append(file._replace(lines=plain and found in TEXT and not (found == "csv" and _has_long_records(head))))
    if len(formats) > 1:
        (one, first), (other, second), *_ = formats.items()
        rule = f"must have one format, and the first is {one} and the second {other}"
        raise InvalidInput(
            "sources", [first, second], rule, "convert one of them (giftrl convert), or train in two runs"
        )
    return Look(tuple(looked), next(iter(formats)), schema)


def _has_long_records(head: bytes) -> bool:
    """Whether a record of CSV has a newline inside quotes: a line then has an odd number of quotes."""
    return any(line.count(b'"') % 2 for line in head.split(b"\n")[:-1])


class About(NamedTuple):
    """About how many rows there are.

    Attributes:
        rows: how many.
        most: whether there may be far fewer, as of compressed files.

    >>> print(About(16_000), About(32_000, most=True), sep=", ")
    about 16,000, at most about 32,000
    """

    rows: int
    most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.most else ''}about {self.rows:,}"


def about_rows(files: Sequence[File], format: str | None = None) -> About | None:  # noqa: A002
    """About how many rows files of text have; None where that cannot be told, as of tables in Parquet.

    By the size of each file, and by how long the first lines of the first are. Compressed files count with the most
    text that they are likely to hold.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.svm")
    ...     _ = path.write_text("1 1:1\\n-1 2:1\\n" * 50)
    ...     about_rows(find_files(path))
    About(rows=100, most=False)
    """
    with Stream(source_of(files[0].name)) as stream:
        head = stream.peek(HEAD)[:HEAD]
    if detect(head, files[0].name, format) not in TEXT:
        return None
    packed = [_is_compressed(file) for file in files]
    size = sum(file.size * (COMPRESSION if each else 1) for file, each in zip(files, packed, strict=True))
    return About(max(1, round(size * head.count(b"\n") / len(head))), any(packed))


def _is_compressed(file: File) -> bool:
    with Stream(source_of(file.name)) as stream:
        return stream.compression is not None
