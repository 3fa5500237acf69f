"""Tables on the terminal."""

from collections.abc import Sequence

import click


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print rows of text in columns, each as wide as its widest cell.

    Args:
        head: the names of the columns.
        rows: the cells of each row.
        left: how many columns, from the first, are aligned to the left.

    >>> print_table(("update", "loss"), [("linear", "0.5"), ("iwa", "12")])
    update  loss
    linear   0.5
    iwa       12
    """
    lines = [head, *rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        cells = zip(line, widths, strict=True)
        click.echo("  ".join(c.ljust(w) if j < left else c.rjust(w) for j, (c, w) in enumerate(cells)).rstrip())
