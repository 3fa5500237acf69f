"""What a column of a table looks like, from an Arrow array of its first values."""

from typing import Any

from giftrl.streams.columns import Kind
from giftrl.streams.look import FIELDS, Look, look_at_numbers, look_at_texts
from giftrl.streams.tables.types import as_numpy, kind_of


def look_at(name: str, array: Any, missing: tuple[str, ...]) -> Look:
    """What a column looks like.

    Args:
        name: of the column.
        array: its first values.
        missing: spellings of a missing value.

    >>> import pyarrow as pa
    >>> look_at("when", pa.array(["2024-03-05", "NA", "2024-03-06"]), ("NA",)).kind
    'date'
    """
    import pyarrow as pa

    kind = kind_of(array.type)
    if kind == Kind.NUMBER and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return look_at_numbers(name, as_numpy(array)) if array.null_count == 0 else Look(Kind.NUMBER)
    if kind != Kind.CATEGORY or not len(array):
        return Look(kind or "")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    used = coded.indices.unique()
    fields = [str(field).strip(" \t") for field in coded[:FIELDS].to_pylist() if field is not None]
    there = [field for field in fields if field not in ("", *missing)]
    return look_at_texts(there, len(array), len(used) - (coded.null_count > 0))
