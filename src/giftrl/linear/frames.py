"""Tables of other libraries: whatever speaks Arrow's PyCapsule protocol, for scikit-learn to take from there."""

from typing import Any


def as_frame(x: Any) -> Any:
    """A table that only Arrow's PyCapsule protocol describes, as a PyArrow table; everything else as it is.

    >>> import pyarrow
    >>> class Table:
    ...     def __arrow_c_stream__(self, requested_schema=None):
    ...         return pyarrow.table({"a": [1.0, 2.0]}).__arrow_c_stream__(requested_schema)
    >>> as_frame(Table()).column_names, as_frame([[1.0]])
    (['a'], [[1.0]])
    """
    speaks = hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__")
    if not speaks or hasattr(x, "__array__"):
        return x
    import pyarrow

    if hasattr(x, "__arrow_c_stream__"):
        return pyarrow.table(x)
    return pyarrow.table(pyarrow.record_batch(x))
