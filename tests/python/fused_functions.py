"""Ops in NumPy and texts of functions, for the tests of fused functions. Not a test file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from fusion_oracle import compare, programs, standin  # noqa: E402, F401

OPS = compare.standin_ops()


def loaded(text, **names):
    """The function `f` of a text, fused, in a module of its own."""
    import polyloom

    return standin.loaded(text, {"ops": OPS, "loom": polyloom, **names})


def n_runs(function):
    """How often groups of a function have run."""
    return sum(group.native.n_runs for group in function.groups)
