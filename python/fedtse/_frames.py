"""Tables of pandas, Polars, pyarrow or plain arrays as the columns that features are made of.

Numbers are used where they lie: nothing is copied that has the right type already. Names of vehicles and
links become numbers with a list of names, by the table's own means (categories, dictionaries).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import FedtseValueError

NEEDED = ("time", "vehicle", "link", "position")


def columns(frame: Any) -> dict[str, Any]:
    """The columns `time`, `vehicle`, `link` and `position`, as the extension takes them."""
    table = _table(frame)
    missing = [name for name in NEEDED if name not in table]
    if missing:
        found = ", ".join(map(str, table)) or "none"
        raise FedtseValueError(f"columns: found {found}; expected {', '.join(NEEDED)}")
    vehicle, vehicle_names = _named(table["vehicle"])
    link, link_names = _named(table["link"])
    if link_names is None:
        raise FedtseValueError("link: found numbers, expected names of links")
    position = _numbers("position", table["position"])
    if position.dtype != np.float32:
        position = _contiguous("position", position, np.float64)
    return {
        "time": _contiguous("time", _numbers("time", table["time"]), np.float64),
        "vehicle": _contiguous("vehicle", vehicle, np.int64),
        "vehicle_names": vehicle_names,
        "link": _contiguous("link", link, np.int32),
        "link_names": link_names,
        "position": np.ascontiguousarray(position),
    }


def _table(frame: Any) -> Mapping[str, Any]:
    """The columns by name."""
    if isinstance(frame, Mapping):
        return frame
    kind = type(frame).__module__.split(".")[0]
    if kind == "pandas":
        return {name: frame[name] for name in frame.columns}
    if kind == "polars":
        frame = frame.collect() if hasattr(frame, "collect") else frame
        return {name: frame[name] for name in frame.columns}
    if kind == "pyarrow" and hasattr(frame, "column_names"):
        return {name: frame[name] for name in frame.column_names}
    if hasattr(frame, "__arrow_c_stream__"):
        return _table(_arrow_table(frame))
    raise FedtseValueError(
        f"table: found {type(frame).__name__}, expected a frame of pandas or Polars, a table with Arrow's "
        "stream interface, or a dictionary of columns"
    )


def _arrow_table(frame: Any) -> Any:
    """Whoever speaks Arrow is read by who is there to read it, without a copy."""
    try:
        import pyarrow

        return pyarrow.table(frame)
    except ImportError:
        pass
    try:
        import polars

        return polars.DataFrame(frame)
    except ImportError:
        raise FedtseValueError(
            f"table: found {type(frame).__name__}, which speaks Arrow; expected pyarrow or polars to read it"
        ) from None


def _numbers(name: str, column: Any) -> np.ndarray:
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind not in "iuf":
        raise FedtseValueError(f"{name}: found values of type {values.dtype}, expected numbers")
    return values


def _contiguous(name: str, values: np.ndarray, kind: type) -> np.ndarray:
    if values.ndim != 1:
        raise FedtseValueError(f"{name}: found {values.ndim} dimensions, expected 1")
    return np.ascontiguousarray(values, dtype=kind)


def _named(column: Any) -> tuple[np.ndarray, list[str] | None]:
    """Numbers with their names; whole numbers are names themselves (none)."""
    kind = type(column).__module__.split(".")[0]
    if kind == "pandas":
        return _named_pandas(column)
    if kind == "polars":
        return _named_polars(column)
    if kind == "pyarrow":
        return _named_arrow(column)
    values = np.asarray(column)
    if values.dtype.kind in "iu":
        return values, None
    names, places = np.unique(values.astype(str), return_inverse=True)
    return places, names.tolist()


def _named_pandas(column: Any) -> tuple[np.ndarray, list[str] | None]:
    if hasattr(column, "cat"):
        return column.cat.codes.to_numpy(), [str(name) for name in column.cat.categories]
    if column.dtype.kind in "iu":
        return column.to_numpy(), None
    import pandas

    places, names = pandas.factorize(column)
    return places, [str(name) for name in names]


def _named_polars(column: Any) -> tuple[np.ndarray, list[str] | None]:
    import polars

    if column.dtype.is_integer():
        return column.to_numpy(), None
    if not isinstance(column.dtype, (polars.Categorical, polars.Enum)):
        column = column.cast(polars.String).cast(polars.Categorical)
    distinct = column.drop_nulls().unique()
    names = [""] * (int(distinct.to_physical().max() or 0) + 1)
    for place, name in zip(distinct.to_physical().to_list(), distinct.cast(polars.String).to_list()):
        names[place] = name
    places = column.to_physical()
    if places.null_count():
        places = places.cast(polars.Int64).fill_null(-1)
    return places.to_numpy(), names


def _named_arrow(column: Any) -> tuple[np.ndarray, list[str] | None]:
    import pyarrow

    if pyarrow.types.is_integer(column.type):
        return column.to_numpy(), None
    if isinstance(column, pyarrow.ChunkedArray):
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        column = column.unify_dictionaries().combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.chunk(0)
    elif not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return places, [str(name) for name in column.dictionary.to_pylist()]
