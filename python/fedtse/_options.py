"""Keyword arguments as options of the command line, which knows their defaults and limits."""

from __future__ import annotations

import os
from collections.abc import Iterable


def words(**options: object) -> list[str]:
    """`rate=[20, 40]` as `--rate=20,40`; True as the option alone; None and False as nothing."""
    found = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(option)
        else:
            found.append(f"{option}={_text(value)}")
    return found


def _text(value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Iterable):
        return ",".join(_text(one) for one in value)
    return str(value)
