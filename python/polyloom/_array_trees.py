"""Nested structures of arrays: dictionaries, lists, tuples, named tuples and dataclasses, at any depth."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np


def leaves_of(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves in their order, with how they are reached, as in `["w"][0].bias`. `None` is no leaf."""
    for step, item in _items_of(tree):
        yield from leaves_of(item, path + step)
    if not _is_node(tree) and tree is not None:
        yield path, tree


def flattened(tree: Any, leaves: list[Any]) -> Any:
    """Appends the leaves in their order, and gives what two trees of one structure have in common, to be compared."""
    if type(tree) is np.ndarray:
        leaves.append(tree)
        return ...
    if tree is None:
        return None
    if isinstance(tree, dict):
        return (type(tree), *[(key, flattened(item, leaves)) for key, item in tree.items()])
    if isinstance(tree, (list, tuple)):
        return (type(tree), *[flattened(item, leaves) for item in tree])
    if _is_dataclass(tree):
        return (type(tree), *[flattened(getattr(tree, each.name), leaves) for each in _fields(tree)])
    leaves.append(tree)
    return ...


def rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    """A structure like `tree`, with these leaves in the place of its own."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        made = {key: rebuilt(item, leaves) for key, item in tree.items()}
        return made if type(tree) is dict else _of_dict(tree, made)
    if isinstance(tree, tuple):
        items = [rebuilt(item, leaves) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [rebuilt(item, leaves) for item in tree]
    if _is_dataclass(tree):
        return dataclasses.replace(
            tree, **{each.name: rebuilt(getattr(tree, each.name), leaves) for each in _fields(tree)}
        )
    return next(leaves)


def check_like(tree: Any, other: Any, what: str = "the structure") -> None:
    """Raises `ValueError` if a structure differs from another in more than its leaves."""
    own, given = [path for path, _ in leaves_of(tree)], [path for path, _ in leaves_of(other)]
    if own == given:
        return
    missing = [path for path in own if path not in given]
    extra = [path for path in given if path not in own]
    if missing:
        found = f"it lacks {missing[0] or 'an array'}"
    elif extra:
        found = f"it has {extra[0] or 'an array'} beside"
    else:
        found = "its items are in another order"
    raise ValueError(f"{what} is not like that of the arrays: {found}")


def _of_dict(like: dict[Any, Any], items: dict[Any, Any]) -> Any:
    made = like.copy()
    made.update(items)
    return made


def _is_dataclass(tree: Any) -> bool:
    return hasattr(type(tree), "__dataclass_fields__")


def _fields(tree: Any) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(tree) if each.init]


def _is_node(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple)) or _is_dataclass(tree)


def _items_of(tree: Any) -> list[tuple[str, Any]]:
    if isinstance(tree, dict):
        return [(f"[{key!r}]", item) for key, item in tree.items()]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [(f".{name}", item) for name, item in zip(tree._fields, tree, strict=True)]
    if isinstance(tree, (list, tuple)):
        return [(f"[{index}]", item) for index, item in enumerate(tree)]
    if _is_dataclass(tree):
        return [(f".{each.name}", getattr(tree, each.name)) for each in _fields(tree)]
    return []
