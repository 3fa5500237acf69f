"""Downloading: into a temporary place, checked there, then moved to where it belongs."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from giftrl.datasets.registry import REGISTRY, SITE, Dataset
from giftrl.errors import DownloadFailed, GiftrlError, UnknownName
from giftrl.files import file_errors
from giftrl.sweeps import fingerprint, read_all

__all__ = ["default_folder", "get"]


def default_folder() -> Path:
    """Where data sets are kept: the folder that GIFTRL_DATA names, or the user's cache."""
    named = os.environ.get("GIFTRL_DATA")
    return Path(named) if named else Path(str(_pooch().os_cache("giftrl")))


def get(
    name: str | Dataset,
    folder: str | Path | None = None,
    *,
    site: str = SITE,
    check: bool = True,
) -> Path:
    """The path of a data set, downloaded unless it is there already.

    Args:
        name: a name of the registry, or a data set of your own.
        folder: where it is kept; None is :func:`default_folder`.
        site: the address that the data set's path is added to.
        check: whether to compare what arrived with the fingerprint of the registry.
    """
    if isinstance(name, str) and name not in REGISTRY:
        raise UnknownName("name", name, REGISTRY)
    dataset = REGISTRY[name] if isinstance(name, str) else name
    place = default_folder() if folder is None else Path(folder)
    target = place / dataset.file
    if target.is_file() and (not check or _found(target) == dataset.fingerprint):
        return target
    address = site.rstrip("/") + "/" + dataset.path
    pooch = _pooch()
    with file_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        room = tempfile.TemporaryDirectory(prefix=".giftrl-", dir=place)
    with room:
        try:
            downloader = pooch.HTTPDownloader(timeout=60)
            arrived = Path(pooch.retrieve(address, None, fname=dataset.file, path=room.name, downloader=downloader))
        except (OSError, ValueError) as problem:  # what requests and pooch raise
            if (answer := getattr(problem, "response", None)) is not None:
                answer.close()  # an error page that nobody reads would keep its connection open
            remedy = "check the connection and the address, or put the file there yourself"
            raise DownloadFailed(dataset.name, address, f"could not be fetched ({problem})", remedy) from problem
        found = _found(arrived) if check else ""
        if check and found != dataset.fingerprint:
            what = "is not LIBSVM text" if found == "" else f"has the fingerprint {found}, not {dataset.fingerprint}"
            raise DownloadFailed(
                dataset.name, address, what, "try again or another site; --unchecked keeps it all the same"
            )
        with file_errors(target):
            arrived.replace(target)
    return target


def _found(path: Path) -> str:
    """The fingerprint of a file, or nothing where it cannot be read."""
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
