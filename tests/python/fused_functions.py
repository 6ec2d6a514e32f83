"""Texts of functions, for the tests of fused functions. Not a test file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from fusion_oracle import compare, programs, texts  # noqa: E402, F401
from polyloom import ops as OPS  # noqa: E402, N812


def loaded(text, **names):
    """The function `f` of a text, fused, in a module of its own."""
    import polyloom

    return texts.loaded(text, {"ops": OPS, "loom": polyloom, **names})


def n_runs(function):
    """How often groups of a function have run."""
    return sum(group.native.n_runs for group in function.groups)
