"""How far a long call is: for a function of yours, or as a bar of tqdm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, "int | None"], object]


@contextmanager
def shown(progress: bool | Progress | None) -> Iterator[Progress | None]:
    """What to call with (what, done, total): yours, tqdm's bar if there is one, or nothing."""
    if callable(progress):
        yield progress
        return
    bar = _bar() if progress is not False else None
    if bar is None:
        if progress is True:
            raise ImportError("progress=True: found no tqdm, expected it to be installed (pip install tqdm)")
        yield None
        return
    with bar:
        yield _moves(bar)


def _bar():
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    # In a pipe nothing is shown, as on the command line; a quick call shows nothing either.
    quiet = False if "ipykernel" in sys.modules else None
    shape = "{desc:<22} {percentage:3.0f}%|{bar}| {remaining} left"
    return tqdm(total=0, delay=0.5, leave=False, disable=quiet, bar_format=shape)


def _moves(bar) -> Progress:
    def move(what: str, done: int, total: int | None) -> None:
        bar.total = total
        bar.set_description_str(what, refresh=False)
        bar.update(done - bar.n)

    return move
