"""Every output of a command: checked before any work is done, and written whole or not at all."""

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO

from giftrl.errors import InvalidInput, ModelFileError
from giftrl.files import REMEDIES, file_errors, is_stream, open_stream, replacing, require_replaceable

Named = str | os.PathLike[str]
#: What tells one file from another: device and inode, or the resolved name of a file that is not there yet.
Identity = tuple[int, int] | str


@contextlib.contextmanager
def writing(path: Named) -> Iterator[IO[bytes]]:
    """Open an output: a file through a temporary one that then takes its place, a pipe or a device as it is.

    An error in the ``with`` block leaves an earlier file of that name as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing(f"{folder}/a") as file:
    ...         _ = file.write(b"one")
    ...     import pathlib; pathlib.Path(folder, "a").read_text()
    'one'
    """
    if is_stream(path):
        with file_errors(path), open(path, "wb", opener=open_stream) as file:
            yield file
    else:
        with replacing(path) as new, new.open("wb") as file:
            yield file


def check_outputs(
    read: Mapping[str, Sequence[Named]],
    written: Mapping[str, Named | None],
    *,
    files_only: Collection[str] = (),
    kept: Collection[tuple[str, str]] = (),
) -> None:
    """Raise an error if an output cannot be written, or is also an input or another output.

    Links are followed, and standard output counts where it is a file. Nothing is opened or changed.

    Args:
        read: the files that are read, by the name of their argument; "-" is standard input.
        written: the files that will be written, by the name of their argument; None where there is none.
        files_only: the outputs that must be regular files, and not pipes or devices.
        kept: pairs of an input and an output that may be the same file.

    >>> check_outputs({"data": ["-"]}, {"model": "a", "summary": "./a"})
    Traceback (most recent call last):
    giftrl.errors.InvalidInput: summary='./a': is the file of model as well; give another file
    """
    inputs: dict[Identity, list[str]] = {}
    for name, paths in read.items():
        for path in paths:
            identity = _identity(0 if path == "-" else path)
            if identity is not None:
                inputs.setdefault(identity, []).append(name)
    outputs: dict[Identity, str] = {}
    standard = _identity(1)
    if standard in inputs:
        rule = f"is a file of {inputs[standard][0]} as well, which would never end"
        raise InvalidInput("output", "-", rule, "send it to another file")
    if standard is not None:
        outputs[standard] = "standard output"
    for name, output in written.items():
        if output is None:
            continue
        _require_writable(name, output, name in files_only)
        identity = _identity(output)
        if identity is None:
            continue
        others = [other for other in inputs.get(identity, []) if (other, name) not in kept]
        if others:
            rule = f"must not be a file that is read ({others[0]}): its content would be lost"
            raise InvalidInput(name, str(output), rule, "give another file")
        if identity in outputs:
            raise InvalidInput(name, str(output), f"is the file of {outputs[identity]} as well", "give another file")
        outputs[identity] = name


def _identity(path: Named | int) -> Identity | None:
    """What tells a file from others; None for what is not a file, such as a pipe, or cannot be looked at."""
    try:
        status = os.stat(path)  # noqa: PTH116 (of a descriptor, too)
    except FileNotFoundError:
        return os.path.realpath(path) if not isinstance(path, int) else None
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _require_writable(name: str, path: Named, file_only: bool) -> None:
    try:
        with file_errors(path):
            if not is_stream(path):
                require_replaceable(path)
            elif file_only:
                raise ModelFileError(path, "is a device or a pipe and not a file", "give the name of a file")
            elif not os.access(path, os.W_OK):
                raise ModelFileError(path, *REMEDIES[errno.EACCES])
    except ModelFileError as problem:
        raise InvalidInput(name, str(path), f"cannot be written: it {problem.problem}", problem.remedy) from None
