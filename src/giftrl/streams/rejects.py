"""The file of rows that were skipped."""

import base64
import json
from collections.abc import Iterable

from giftrl.files import Output
from giftrl.streams.batch import Rejected


class RejectsFile(Output):
    """A file of JSON lines with the rows that were skipped: source, line, column, problem, expected, raw.

    A row that is not UTF-8 is under ``raw_base64``, so that nothing of it is lost.
    """

    def add(self, rejected: Iterable[Rejected]) -> None:
        """Write rows."""
        lines = []
        for each in rejected:
            row = each._asdict()
            raw = row.pop("raw")
            try:
                row["raw"] = raw.decode()
            except UnicodeDecodeError:
                row["raw_base64"] = base64.b64encode(raw).decode()
            lines.append(json.dumps(row) + "\n")
        if lines:
            self.write("".join(lines).encode())
