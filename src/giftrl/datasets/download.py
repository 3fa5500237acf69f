"""Download a data set into a temporary folder, verify it, and move it into place."""

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from giftrl import system
from giftrl.datasets.registry import REGISTRY, SITE, Dataset
from giftrl.errors import DownloadFailed, GiftrlError, UnknownName
from giftrl.files import file_errors
from giftrl.sweeps import fingerprint, read_all


def default_folder() -> Path:
    """The folder of the data sets: the value of GIFTRL_DATA, or a folder in the user's cache.

    >>> import os
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, GIFTRL_DATA="/data"):
    ...     default_folder().name
    'data'
    """
    named = os.environ.get("GIFTRL_DATA")
    return Path(named) if named else Path(str(_pooch().os_cache("giftrl")))


class _Watched:
    """What pooch calls a progress bar; it tells ``watch`` the part that has arrived, or None if the size is unknown."""

    def __init__(self, watch: Callable[[float | None], None]) -> None:
        self.watch = watch
        self.total = 0  # in bytes; set by pooch
        self.arrived = 0

    def update(self, size: int) -> None:
        self.arrived += size
        self.watch(min(1.0, self.arrived / self.total) if self.total else None)

    def reset(self) -> None:
        self.arrived = 0

    def close(self) -> None:
        """Nothing is open."""


def get(
    name: str | Dataset,
    folder: str | Path | None = None,
    *,
    site: str = SITE,
    check: bool = True,
    watch: Callable[[float | None], None] | None = None,
) -> Path:
    """The path of a data set, which is downloaded unless the folder already has it.

    Args:
        name: the name of a data set in the registry, or a :class:`Dataset` of your own.
        folder: the folder of the data sets; None means :func:`default_folder`.
        site: the address to which the path of the data set is appended.
        check: whether to compare the fingerprint of the file with that of the registry.
        watch: called with the part of the file that has arrived, from 0 to 1, or None if its size is unknown.

    >>> from giftrl.errors import UnknownName
    >>> try:
    ...     get("a8a")
    ... except UnknownName as error:
    ...     print(str(error)[:60])
    name='a8a': is not a known name; did you mean 'a9a'? Known:
    """
    if isinstance(name, str) and name not in REGISTRY:
        raise UnknownName("name", name, REGISTRY)
    dataset = REGISTRY[name] if isinstance(name, str) else name
    folder = default_folder() if folder is None else Path(folder)
    target = folder / dataset.file
    if target.is_file() and (not check or _fingerprint(target) == dataset.fingerprint):
        return target
    address = site.rstrip("/") + "/" + dataset.path
    pooch = _pooch()
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".giftrl-", dir=folder)
    with temporary:
        try:
            downloader = pooch.HTTPDownloader(progressbar=_Watched(watch) if watch else False, timeout=60)
            arrived = Path(
                pooch.retrieve(address, None, fname=dataset.file, path=temporary.name, downloader=downloader)
            )
        except (OSError, ValueError) as problem:  # the errors of requests and pooch
            if (response := getattr(problem, "response", None)) is not None:
                response.close()  # an unread error page would keep its connection open
            remedy = "check the connection and the address, or download the file yourself"
            raise DownloadFailed(dataset.name, address, f"could not be fetched ({problem})", remedy) from problem
        if check and (actual := _fingerprint(arrived)) != dataset.fingerprint:
            what = f"has the fingerprint {actual}, not {dataset.fingerprint}" if actual else "is not LIBSVM text"
            remedy = "try again, or try another site; --unchecked keeps the file as it is"
            raise DownloadFailed(dataset.name, address, what, remedy)
        with file_errors(target):
            system.replace(arrived, target)
    return target


def _fingerprint(path: Path) -> str:
    """The fingerprint of a file, or an empty text if it is not LIBSVM text."""
    try:
        return fingerprint(*read_all(path, "libsvm"))
    except ValueError:
        return ""


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as missing:
        raise GiftrlError("downloading needs pooch; pip install 'giftrl[experiments]'") from missing
    pooch.get_logger().setLevel(logging.WARNING)
    return pooch
