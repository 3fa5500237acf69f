"""What a data set to try things on is, and how it becomes a file."""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from giftrl.errors import InvalidInput
from giftrl.files import file_errors, write


class Sample(NamedTuple):
    """A data set: its file, what it holds and where that is from, and commands to try on it.

    Attributes:
        name: what ``giftrl demo`` calls it.
        file: the name of the file; its ending says the format.
        what: the task in a few words.
        origin: where the rows are from.
        rows: the content of the file, the same bytes each time.
        training: the options of ``giftrl train`` for this file, besides the model.
        certain: whether its models give probabilities.

    >>> from giftrl.samples import SAMPLES
    >>> sample = SAMPLES["iris"]
    >>> sample.file, sample.rows().count(b"\\n")
    ('iris.csv', 151)
    """

    name: str
    file: str
    what: str
    origin: str
    rows: Callable[[], bytes]
    training: str
    certain: bool = True

    def write(self, folder: Path) -> tuple[Path, bool]:
        """Write the file into a folder, and return its path and whether it is new.

        A file of that name is left alone: with the same content there is nothing to do, and with another content it is
        an error.

        >>> import tempfile
        >>> sample = Sample("few", "few.csv", "", "", lambda: b"x,y\\n1,2\\n", "--loss squared")
        >>> folder = Path(tempfile.mkdtemp())
        >>> sample.write(folder)[1], sample.write(folder)[1]
        (True, False)
        """
        path, content = folder / self.file, self.rows()
        with file_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if path.is_file() and path.read_bytes() == content:
                    return path, False
                raise InvalidInput("out", str(path), "is there already, with other content", "give another folder")
        write(path, [content])
        return path, True

    def commands(self, folder: Path) -> list[str]:
        """Commands to try on the file that is in a folder.

        >>> Sample("few", "few.csv", "", "", bytes, "--loss squared", False).commands(Path("."))[0]
        'giftrl train few.csv --loss squared --model few.giftrl'
        """
        data, model = (shlex.quote(str(folder / name)) for name in (self.file, f"{self.name}.giftrl"))
        return [
            f"giftrl train {data} {self.training} --model {model}",
            f"giftrl predict {model} {data}{' --proba' if self.certain else ''}",
            f"giftrl inspect {model}",
            f"giftrl certify {model} {data}",
        ]


def as_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV; a cell that is None is left empty.

    >>> as_csv(["a", "b"], [[1.5, None], ["x, y", 2]])
    b'a,b\\n1.5,\\n"x, y",2\\n'
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(head)
    lines.writerows(rows)
    return text.getvalue().encode()
