"""What a tape has recorded as a drawing in Graphviz' language (DOT)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from polyloom._operations import Operation
from polyloom._views import View


def drawing_of(
    operations: Sequence[Operation], marks: Sequence[tuple[int, str | None, Any]], is_simplified: bool
) -> str:
    """Operations as boxes in the order of their recording, within the parts that have names, and arrays as ellipses."""
    runs = [[each] for each in operations]
    if is_simplified:
        runs = [list(same) for _, same in groupby(operations, key=_alike)]
    boxes: list[str] = []
    arrays: dict[Any, str] = {}
    edges: dict[str, None] = {}
    pending = list(marks)
    n_before = 0
    for number, run in enumerate(runs):
        while pending and pending[0][0] <= n_before:
            boxes.append(_mark(pending.pop(0), number))
        operation, box = run[0], f"op{number}"
        repeated = f"\\nrepeated {len(run)}x" if len(run) > 1 else ""
        boxes.append(f'  {box} [shape=box, label="{_quoted(operation.name.rpartition("/")[2])}{repeated}"];')
        written = {view.key for view in operation.written}
        for view, _ in operation.arrays:
            if view.key not in arrays:
                arrays[view.key] = f"a{len(arrays)}"
                boxes.insert(0, _array(arrays[view.key], view))
            ellipse = arrays[view.key]
            edges[f"  {box} -> {ellipse};" if view.key in written else f"  {ellipse} -> {box};"] = None
        n_before += len(run)
    boxes.extend(_mark(mark, len(runs)) for mark in pending)
    return "\n".join(["digraph tape {", *boxes, *edges, "}"]) + "\n"


def _alike(operation: Operation) -> Any:
    return operation.name, tuple(view.key for view, _ in operation.arrays)


def _array(name: str, view: View) -> str:
    shape, dtype = view.storage.shape, view.storage.dtype
    return f'  {name} [label="array {shape}", tooltip="{_quoted(f"array: dtype={dtype}, shape={shape}")}"];'


def _mark(mark: tuple[int, str | None, Any], number: int) -> str:
    _, name, _ = mark
    return "  }" if name is None else f'  subgraph cluster{number} {{ label="{_quoted(name)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
