"""Real text: what the functions and classes of the installed packages say about themselves."""

import importlib
import inspect
import random
import re
from typing import Any

from giftrl.samples.sample import Sample, as_csv

#: Each package with the modules whose public names are read; packages and modules that are not installed are left out.
MODULES = {
    "numpy": ("", "fft", "linalg", "ma", "polynomial", "random", "testing"),
    "scipy": ("cluster.hierarchy", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
              "sparse", "sparse.linalg", "spatial", "special", "stats"),
    "sklearn": ("cluster", "decomposition", "ensemble", "feature_extraction", "feature_selection", "linear_model",
                "metrics", "model_selection", "neighbors", "preprocessing", "svm", "tree", "utils"),
    "pyarrow": ("", "compute", "csv", "dataset", "parquet", "types"),
}  # fmt: skip
SHORTEST = 40  # in characters; what is shorter says little
LONGEST = 600


def rows() -> bytes:
    """A line for each function or class: its name, what its documentation says first, and its package.

    >>> rows().decode().splitlines()[0]
    'name,text,package'
    """
    found: dict[str, tuple[str, str, str]] = {}
    for package, modules in MODULES.items():
        for module in modules:
            for name, value in _public(".".join(filter(None, (package, module)))):
                text = _prose(value)
                if len(text) >= SHORTEST:
                    found.setdefault(text, (name, text, package))
    lines = sorted(found.values())
    random.Random(20250101).shuffle(lines)  # sorted by package, they would teach little
    return as_csv(("name", "text", "package"), lines)


def _public(module: str) -> list[tuple[str, Any]]:
    """The public functions and classes of a module, by name."""
    try:
        place = importlib.import_module(module)
    except ImportError:
        return []
    names = sorted(getattr(place, "__all__", None) or (name for name in vars(place) if not name.startswith("_")))
    values = ((name, inspect.getattr_static(place, name, None)) for name in names)
    return [(name, value) for name, value in values if callable(value)]


def _prose(value: Any) -> str:
    """The sentences before the first section of a docstring, in one line, without signatures."""
    text = inspect.cleandoc(value.__doc__) if isinstance(value.__doc__, str) else ""
    text = re.split(r"\n[A-Z][\w ]*\n-{3,}|\n\.\. |\n>>> ", f"\n{text}")[0]
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    said = " ".join(part for part in paragraphs if not re.match(r"[\w.]+\(.*\)", part))
    return said[:LONGEST]


TEXT = Sample(
    "text",
    "text.csv",
    "which package does a text belong to: numpy, scipy, sklearn or pyarrow",
    "real: the documentation of the packages that are installed here",
    rows,
    "--label package --text text --ignore name",
)
