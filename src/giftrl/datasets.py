"""The paper's data sets, downloaded from the LIBSVM collection, verified and kept.

>>> from giftrl.datasets import REGISTRY
>>> REGISTRY["a9a"].rows
32561
"""

import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from giftrl import system
from giftrl.errors import DownloadFailed, UnknownName
from giftrl.files import file_errors
from giftrl.sweeps import fingerprint, read_all

__all__ = ["REGISTRY", "SITE", "Dataset", "DownloadFailed", "default_folder", "get"]

#: The address of the data sets of LIBSVM.
SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


class Dataset(NamedTuple):
    """A data set: its path below :data:`SITE`, its size, and the fingerprint of its numbers.

    The fingerprint is :func:`giftrl.sweeps.fingerprint`, a SHA-256 of the numbers and not of the bytes. A mirror that
    compresses the file differently passes the check; a file with one wrong digit does not. The copies with which the
    paper's figures were reproduced came from other public sites.

    >>> REGISTRY["ijcnn1"].file
    'ijcnn1.bz2'
    """

    name: str
    path: str
    task: str
    rows: int
    features: int
    fingerprint: str

    @property
    def file(self) -> str:
        """The file name."""
        return self.path.rsplit("/", 1)[-1]


# fmt: off
_DATASETS = (
    Dataset("a9a", "binary/a9a", "classification", 32561, 123,
            "da67dd42e94520ff7ffef42ee314af73b99deb38c2238be626de7ed3ce0ac868"),
    Dataset("ijcnn1", "binary/ijcnn1.bz2", "classification", 49990, 22,
            "879848889bc4cae8bd85dc025756e4a35c485a1d8cecfb0687b06fd145e5b9c7"),
    Dataset("phishing", "binary/phishing", "classification", 11055, 68,
            "4b7fe58cf997430f7455fd5e5cb778766164ca22c4525a88860f038e15199884"),
    Dataset("abalone", "regression/abalone", "regression", 4177, 8,
            "71502a74356dee648d68c6e5ac82de4fc674459124164513bcf589dd721110dc"),
    Dataset("cpusmall", "regression/cpusmall", "regression", 8192, 12,
            "814092eaa4300f79e93110311f20e07bf2c7038a775e46acdfecc913ff3ff887"),
)
# fmt: on

#: Every data set of the paper by its name, with its size and digest.
REGISTRY = {dataset.name: dataset for dataset in _DATASETS}


def default_folder() -> Path:
    """The folder of the data sets: the value of GIFTRL_DATA, or a folder in the user's cache.

    >>> import os
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, GIFTRL_DATA="/data"):
    ...     default_folder().name
    'data'
    """
    named = os.environ.get("GIFTRL_DATA")
    return Path(named) if named else system.cache_folder()


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
        check: compare the fingerprint of the file with the registry.
        watch: called with the downloaded part of the file, from 0 to 1, or None if its size is unknown.

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
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".giftrl-", dir=folder)
    with temporary:
        arrived = Path(temporary.name, dataset.file)
        try:
            _download(address, arrived, watch)
        except (OSError, ValueError, HTTPException) as problem:
            if isinstance(problem, urllib.error.HTTPError):
                problem.close()
            remedy = "check the connection and the address, or download the file yourself"
            raise DownloadFailed(dataset.name, address, f"could not be fetched ({problem})", remedy) from problem
        if check and (actual := _fingerprint(arrived)) != dataset.fingerprint:
            what = f"has the fingerprint {actual}, not {dataset.fingerprint}" if actual else "is not LIBSVM text"
            remedy = "try again, or try another site; --unchecked keeps the file as it is"
            raise DownloadFailed(dataset.name, address, what, remedy)
        with file_errors(target):
            system.replace(arrived, target)
    return target


def _download(address: str, path: Path, watch: Callable[[float | None], None] | None) -> None:
    with urllib.request.urlopen(address, timeout=60.0) as answer, path.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        while block := answer.read(1 << 16):
            file.write(block)
            if watch is not None:
                watch(min(1.0, file.tell() / size) if size else None)


def _fingerprint(path: Path) -> str:
    """The fingerprint of a file, or an empty text if it is not LIBSVM text."""
    try:
        return fingerprint(*read_all(path, "libsvm"))
    except ValueError:
        return ""
