"""Arrow's types and arrays, as far as tables need them: numbers, texts, lists and structures."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from giftrl.streams.columns import Kind
from giftrl.streams.infer_columns import FIELDS_TO_INFER, InferredColumn, infer_from_numbers, infer_from_texts


class Words(NamedTuple):
    """Texts, none of them empty, and for each item of a column the number of its text; -1 if it has none."""

    words: Any
    codes: NDArray[np.int64]


def as_numpy(array: Any) -> NDArray[Any]:
    """An array of numbers or truth values, none of them null, as NumPy reads it: the same memory, which stays as it is.

    Arrow's own ``to_numpy`` imports pandas if that is installed, which takes longer than some millions of numbers.

    >>> import pyarrow as pa
    >>> as_numpy(pa.array([1, 2, 3])[1:]).tolist(), as_numpy(pa.array([True, False])).tolist()
    ([2, 3], [True, False])
    """
    import pyarrow as pa

    if pa.types.is_boolean(array.type):
        return as_numpy(array.cast(pa.uint8())).view(np.bool_)
    kind = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    dtype = np.dtype(f"{kind}{array.type.bit_width // 8}")
    data = array.buffers()[1] if len(array) else b""
    found = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize if len(array) else 0)
    found.flags.writeable = False
    return found


def _filled(array: Any, missing: float) -> NDArray[Any]:
    """An array of numbers as NumPy reads it, with ``missing`` in place of nulls."""
    found = as_numpy(array)
    return np.where(as_numpy(array.is_valid()), found, missing) if array.null_count else found


def as_arrow(values: NDArray[Any]) -> Any:
    """An array of NumPy as Arrow reads it: the same memory. ``pyarrow.array`` imports pandas too.

    >>> as_arrow(np.array([0.5, 2.0])).to_pylist()
    [0.5, 2.0]
    """
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def words(array: Any) -> Words:
    """The texts of a column, each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.large_string()).dictionary_encode()
    codes = as_numpy(array.indices.cast(pa.int64()).fill_null(-1))
    texts = array.dictionary.cast(pa.large_string())
    used = np.zeros(len(texts) + 1, np.bool_)
    used[codes] = True  # -1 is the last
    used[:-1] &= as_numpy(pc.greater(pc.binary_length(texts), 0).fill_null(False))
    places = np.flatnonzero(used[:-1])
    renumbered = np.full(len(used), -1)
    renumbered[places] = np.arange(len(places))
    return Words(texts.take(as_arrow(places)), renumbered[codes])


def lengths(array: Any) -> NDArray[np.int64]:
    """The lengths of the lists in a column."""
    import pyarrow.compute as pc

    return np.asarray(_filled(pc.list_value_length(array), 0), np.int64)


def flat_types(schema: Any) -> list[tuple[str, Any]]:
    """The names and types of columns, those of structures taken apart."""
    import pyarrow as pa

    found: list[tuple[str, Any]] = []
    waiting = [(field.name, field.type) for field in reversed(schema)]
    while waiting:
        name, type_ = waiting.pop()
        type_ = getattr(type_, "storage_type", type_)
        if pa.types.is_struct(type_):
            fields = [type_.field(at) for at in range(type_.num_fields)]
            waiting.extend((f"{name}^{field.name}", field.type) for field in reversed(fields))
        else:
            found.append((name, type_))
    return found


def flat_arrays(batch: Any) -> Iterator[tuple[str, Any]]:
    """The names and arrays of columns, those of structures taken apart; in no order."""
    import pyarrow as pa

    waiting = list(zip(batch.schema.names, batch.columns, strict=True))
    while waiting:
        name, array = waiting.pop()
        array = getattr(array, "storage", array)
        if pa.types.is_struct(array.type):
            fields = [array.type.field(at).name for at in range(array.type.num_fields)]
            waiting.extend((f"{name}^{field}", part) for field, part in zip(fields, array.flatten(), strict=True))
        else:
            yield name, array


def is_number(type_: Any) -> bool:
    """True if a column of this type holds numbers, or nothing at all (type null)."""
    import pyarrow.types as pt

    return any(check(type_) for check in (pt.is_integer, pt.is_floating, pt.is_boolean, pt.is_decimal, pt.is_null))


def is_text(type_: Any) -> bool:
    """True if a column of this type holds text."""
    import pyarrow.types as pt

    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))


def kind_of(type_: Any) -> str | None:
    """The kind of a column of this type; None if it has neither numbers, dates nor text."""
    import pyarrow.types as pt

    if pt.is_dictionary(type_):
        return Kind.CATEGORY if is_text(type_.value_type) or is_number(type_.value_type) else None
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        inner = type_.value_type
        return Kind.NUMBERS if is_number(inner) else Kind.CATEGORIES if is_text(inner) else None
    if pt.is_date(type_) or pt.is_timestamp(type_):
        return Kind.DATE
    return Kind.NUMBER if is_number(type_) else Kind.CATEGORY if is_text(type_) else None


def numbers(array: Any, missing: float) -> NDArray[np.float64]:
    """A column as float64, with ``missing`` in place of nulls."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type) or pa.types.is_boolean(array.type) or pa.types.is_null(array.type):
        array = array.cast(pa.float64())
    if array.null_count:
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(_filled(array, missing), np.float64)


def infer_column(name: str, array: Any, missing: tuple[str, ...]) -> InferredColumn:
    """Infer the kind of a column from an Arrow array of its first values.

    Args:
        name: of the column.
        array: its first values.
        missing: spellings of a missing value.

    >>> import pyarrow as pa
    >>> infer_column("when", pa.array(["2024-03-05", "NA", "2024-03-06"]), ("NA",)).kind
    'date'
    """
    import pyarrow as pa

    kind = kind_of(array.type)
    if kind == Kind.NUMBER and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return infer_from_numbers(name, as_numpy(array)) if array.null_count == 0 else InferredColumn(Kind.NUMBER)
    if kind != Kind.CATEGORY or not len(array):
        return InferredColumn(kind or "")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    used = coded.indices.unique()
    fields = [str(field).strip(" \t") for field in coded[:FIELDS_TO_INFER].to_pylist() if field is not None]
    there = [field for field in fields if field not in ("", *missing)]
    return infer_from_texts(there, len(array), len(used) - (coded.null_count > 0))
