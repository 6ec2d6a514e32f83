"""`config.verify_fp`: what launches say of infinities and NaN in the arrays that they have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyloom import _native
from polyloom._arrays import array
from polyloom._leaves import facts_of, leaves_of
from polyloom._views import View


def report(kernel: _native.Kernel, args: Sequence[Any], device: str) -> None:
    """Prints a line for each array that a launch has written and that holds an infinity or NaN."""
    facts = facts_of(kernel)
    leaves = (leaf for of_argument in leaves_of(kernel, args, device) for leaf in of_argument)
    for leaf, name, is_written in zip(leaves, facts.names, facts.writes, strict=True):
        if not is_written or leaf.view is None or not leaf.view.is_float:
            continue
        elements = _on_host(leaf.view)
        bad = ~np.isfinite(elements)
        if bad.any():
            first = tuple(int(index) for index in np.argwhere(bad)[0])
            told = f"{int(bad.sum())} of {bad.size} numbers in '{name}' are not finite"
            where = f"[{', '.join(map(str, first))}]"
            print(
                f"verify_fp: after kernel '{kernel.key}' {told}: the first is {elements[first]}, at {where}", flush=True
            )


def _on_host(view: View) -> Any:
    """The numbers of an array, wherever they are."""
    return view.storage if view.memory is None else array._wrap(view.storage, None, view.memory).numpy()
