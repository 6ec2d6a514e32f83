"""What of Warp's package there is not here: placeholders that can be imported, and say so where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, NoReturn, Union

from polyloom._absent_names import ABSENT

# Why a public name of Warp's has no counterpart: the first of these that it matches, whatever its case.
REASONS = [
    ("colouring of graphs", r"^graph_?coloring"),
    (
        "allocators of programs, graphs in files, handles of other processes and timers of CUDA devices",
        r"cuda|stream|event|graph|capture|mempool|peer|allocat|memory|can_access|ipc_handle|lto_cache|^timing|"
        r"timing_?result|suggested_block_size|launch_tiled|determinis",
    ),
    (
        "geometry, volumes and textures",
        r"mesh|bvh|hash_?grid|volume|texture|glbuffer|cubql|closest_point|intersect_tri",
    ),
    ("tiles", r"^tile|^untile"),
    ("linear algebra on arrays of a thread's own", r"^dense_"),
    ("Omniverse Fabric", r"fabric"),
    ("Warp's wrappers for JAX; Polyloom's is `polyloom.jax.function`", r"jax."),
    ("arrays of Paddle, which DLPack passes on", r"paddle"),
    (
        "native code in kernels, and kernels built ahead of time",
        r"native|build|aot|address_of|get_cpu_kernel_cache_key",
    ),
    ("Warp's messages about itself", r"print_diagnostics"),
]


def reason_of(name: str) -> str:
    """Why there is no such name; nothing if that is not known."""
    return next((reason for reason, pattern in REASONS if re.search(pattern, name, re.IGNORECASE)), "")


class Absent:
    """Something of Warp's that Polyloom does not have. It can be imported, named in annotations and passed around.

    Calling it is a `NotImplementedError`, and a kernel that uses it is refused where it is launched.
    """

    def __init__(self, name: str, sentence: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "polyloom"
        self.__doc__ = sentence

    def refuse(self) -> NoReturn:
        """Raises the error that using it is."""
        raise NotImplementedError(self.__doc__)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse()

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}", str(self.__doc__))

    def __getitem__(self, index: Any) -> Absent:
        return self

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        def refuse(made: Any, *args: Any, **kwargs: Any) -> NoReturn:
            self.refuse()

        return (type(self.__name__, (), {"__init__": refuse}),)

    def __repr__(self) -> str:
        return f"<absent: {self.__doc__}>"


def _sentence(name: str) -> str:
    reason = reason_of(name.rpartition(".")[2]) or "this part of Warp"
    return f"polyloom.{name} is not there: Polyloom is without {reason}"


class RefusedStruct(Absent):
    """A struct with a field of a type that there is not: what is made of it is absent, too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Absent(self.__name__, str(self.__doc__))


class _RefusedDecorator(Absent):
    """A decorator of functions that kernels cannot call: what it makes is absent, too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        def refuse(function: Callable[..., Any]) -> Absent:
            return Absent(function.__name__, f"'{function.__name__}' cannot be called: {self.__doc__}")

        return refuse


def absent(name: str) -> Absent:
    """What stands for a name of Warp's that the package does not have.

    Raises
    ------
    AttributeError
        If it is none.
    """
    if name in ABSENT:
        return (_RefusedDecorator if name == "func_native" else Absent)(name, _sentence(name))
    message = f"module 'polyloom' has no attribute {name!r}"
    if name in ("jax", "torch"):
        raise AttributeError(f"{message} yet: import polyloom.{name}", name=name)
    raise AttributeError(message, name=name)


def absent_members(module: str, names: Collection[str]) -> Callable[[str], Absent]:
    """The `__getattr__` of a module that has some of what Warp's has.

    Parameters
    ----------
    module : str
        Its name, `polyloom.utils`.
    names : collection of str
        What of Warp's module is not there.
    """
    own = module.removeprefix("polyloom.")

    def member(name: str) -> Absent:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        return Absent(f"{own}.{name}", _sentence(f"{own}.{name}"))

    return member


def absent_module(module: str, what: str) -> Callable[[str], Absent]:
    """The `__getattr__` of a module that stands for one of Warp's.

    Parameters
    ----------
    module : str
        Its name, `polyloom.render`.
    what : str
        What it would be about.
    """
    own = module.removeprefix("polyloom.")

    def member(name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        return Absent(f"{own}.{name}", f"{module}.{name} is not there: Polyloom is without {what}")

    return member
