"""The state of a sub-model as bytes and back: dictionaries, lists, numbers, texts and arrays.

No pickles: bytes that someone else has written can hold nothing but data. Arrays keep their type and every
bit.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from .errors import FedtseValueError

_TREE = "tree"


def pack(state: Any) -> bytes:
    """A state as bytes."""
    arrays: dict[str, np.ndarray] = {}
    tree = json.dumps(_flat(state, arrays))
    file = io.BytesIO()
    np.savez(file, **{_TREE: np.frombuffer(tree.encode(), dtype=np.uint8)}, **arrays)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """The state of bytes that `pack` made."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _whole(json.loads(arrays[_TREE].tobytes().decode()), arrays)
    except (KeyError, ValueError, OSError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FedtseValueError(f"state of a sub-model: found other bytes: {error}") from error


def _flat(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        name = f"array-{len(arrays)}"
        arrays[name] = np.asarray(value)
        if arrays[name].dtype == object:
            raise FedtseValueError("state of a sub-model: found an array of objects, expected numbers")
        return {"array": name}
    if isinstance(value, dict):
        return {"dict": [[_flat(key, arrays), _flat(one, arrays)] for key, one in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_flat(one, arrays) for one in value]}
    raise FedtseValueError(
        f"state of a sub-model: found a {type(value).__name__}, expected dictionaries, lists, numbers, texts "
        "and NumPy arrays"
    )


def _whole(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {_whole(key, arrays): _whole(one, arrays) for key, one in content}
    whole = [_whole(one, arrays) for one in content]
    return tuple(whole) if kind == "tuple" else whole
