"""Bounds, steps and indices of slices, of every integer type and at the ends of each, against Python's own slices."""

import random

import numpy as np
import polyloom as loom
import pytest
from numpy.testing import assert_array_equal
from sources import define

TYPES = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}


def extremes(name: str) -> list[int]:
    bits = TYPES[name]
    low, high = (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    near_zero = (-11, -10, -9, -2, -1, 0, 1, 2, 3, 9, 10, 11)
    beyond = (sign * 2**power + offset for sign in (-1, 1) for power in (31, 32) for offset in (-1, 0, 1, 3))
    return sorted({v for v in (low, low + 1, high - 1, high, *near_zero, *beyond) if low <= v <= high})


COMBINATIONS = [tuple(random.Random(7).sample(list(TYPES), 3)), ("int64",) * 3, ("uint64",) * 3, ("uint32",) * 3]
COMBINATIONS += [("int32",) * 3, ("int8", "uint64", "int64"), ("uint16", "int64", "int32")]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("types", COMBINATIONS, ids="-".join)
def test_slices_have_the_elements_that_pythons_have(types: tuple[str, str, str], device: str) -> None:
    p, q, s = types
    k = define(
        f"""
        @loom.kernel
        def k(a: loom.array(dtype=int), p: loom.{p}, q: loom.{q}, s: loom.{s}, o: loom.array(dtype=int)):
            both = a[p:q:s]
            o[0] = both.shape[0]
            for i in range(both.shape[0]):
                o[4 + i] = both[i]
            o[1] = len(a[p:q])
            o[2] = len(a[::s])
            o[3] = len(a[q::s])
        """
    )["k"]
    draw, a = random.Random("-".join(types)), list(range(100, 110))
    for _ in range(60 if device == "cpu" else 8):
        low, high, step = (draw.choice(extremes(t)) for t in types)
        o = np.zeros(14, np.int32)
        values = [getattr(np, t)(v) for t, v in zip(types, (low, high, step), strict=True)]
        loom.launch(k, 1, [np.array(a, np.int32), *values, o], device=device)
        expected = np.zeros(14, np.int32)
        # Python refuses a step of 0; in a kernel such a slice is empty.
        both = a[low:high:step] if step else []
        expected[4 : 4 + len(both)] = both
        expected[:4] = len(both), len(a[low:high]), len(a[::step]) if step else 0, len(a[high::step]) if step else 0
        assert_array_equal(o, expected, f"a[{low}:{high}:{step}]")


@pytest.mark.parametrize("step", [2**31 - 1, -(2**31) + 1, -(2**31), 2**31, 2**40, 3, -4])
def test_steps_may_be_literals(step: int) -> None:
    k = define(
        f"""
        @loom.kernel
        def k(a: loom.array(dtype=int), g: loom.array2d(dtype=int), o: loom.array(dtype=int)):
            o[0] = len(a[::{step}])
            o[1] = a[::{step}][0]
            o[2] = g[::{step}, 0].shape[0]
            o[3] = g[1, ::{step}].shape[0]
            o[4] = a[2:8][::{step}].shape[0]
        """
    )["k"]
    a, g, o = np.arange(10, dtype=np.int32), np.zeros((5, 6), np.int32), np.zeros(5, np.int32)
    loom.launch(k, 1, [a, g, o])
    n = [len(range(n)[::step]) for n in (10, 5, 6)]
    assert o.tolist() == [n[0], a.tolist()[::step][0], n[1], n[2], len(a.tolist()[2:8][::step])]


WAYS = {
    "read": "o[0] = s[i]",
    "write": "s[i] = 1.0",
    "update": "s[i] += 1.0",
    "product": "s[i] *= 2.0",
    "atomic": "loom.atomic_add(s, i, 1.0)",
    "function": "o[0] = first(s, i)",
    "row": "o[0] = g[1:3][i, 0]",
    "column": "o[0] = g[0, 1:3][i]",
    "slice of a slice": "o[0] = s[1:4][i]",
    "backward": "o[0] = a[8:2:-1][i]",
}


@pytest.mark.parametrize(
    "index", [("uint32", 2**32 - 1), ("int64", 2**32 + 1), ("int64", -(2**40)), ("uint64", 2**64 - 1)]
)
@pytest.mark.parametrize("way", WAYS)
def test_checked_mode_sees_indices_that_are_not_int32(way: str, index: tuple[str, int]) -> None:
    dtype, value = index
    k = define(
        f"""
        @loom.func
        def first(s: loom.array(dtype=float), i: loom.{dtype}):
            return s[i]

        @loom.kernel(check=True)
        def k(a: loom.array(dtype=float), g: loom.array2d(dtype=float), i: loom.{dtype}, o: loom.array(dtype=float)):
            s = a[2:8]
            {WAYS[way]}
        """
    )["k"]
    arrays = np.arange(10, dtype=np.float32), np.ones((4, 4), np.float32)
    with pytest.raises(loom.LaunchError, match="is out of bounds"):
        loom.launch(k, 1, [*arrays, getattr(np, dtype)(value), np.zeros(1, np.float32)])
    assert_array_equal(arrays[0], np.arange(10, dtype=np.float32))


def test_indices_of_every_type_reach_their_elements() -> None:
    for dtype in TYPES:
        k = define(
            f"""
            @loom.kernel(check=True)
            def k(a: loom.array(dtype=float), i: loom.{dtype}, o: loom.array(dtype=float)):
                s = a[2:8]
                o[0] = s[i]
                o[1] = s[::-1][i]
                o[2] = s[1:][::2][i]
            """
        )["k"]
        a = np.arange(10, dtype=np.float32)
        for value in (0, 1, 2) + (() if dtype.startswith("u") else (-1, -2)):
            o = np.zeros(3, np.float32)
            loom.launch(k, 1, [a, getattr(np, dtype)(value), o])
            s = a[2:8]
            assert_array_equal(o, [s[value], s[::-1][value], s[1:][::2][value]])


def test_checked_mode_reports_a_step_of_0() -> None:
    k = define(
        """
        @loom.kernel(check=True)
        def k(a: loom.array(dtype=float), s: int, o: loom.array(dtype=float)):
            o[0] = float(len(a[::s]))
        """
    )["k"]
    with pytest.raises(loom.LaunchError, match="division by zero"):
        loom.launch(k, 1, [np.ones(4, np.float32), 0, np.zeros(1, np.float32)])
