"""Arrays and comparisons for tests of tensor ops."""

import numpy as np
from polyloom import _native

SHAPES = [(), (0,), (1,), (7,), (1000,), (3, 0, 2), (5, 1), (4, 33), (2, 3, 5)]
FLOATS = [np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 0.5, -2.5, 3.5]


def numbers(shape, dtype, seed=0, low=-4.0, high=4.0):
    """Random numbers of a type; integers from 0 on where they have no sign."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(max(int(low), 0 if dtype.kind == "u" else -100), int(high) + 1, shape).astype(dtype)
    return random.uniform(low, high, shape).astype(dtype)


def layouts(array):
    """Views with the elements of an array, in every way that elements lie in memory."""
    yield array
    if not array.ndim:
        return
    yield np.asfortranarray(array)
    spread = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)
    spread[::2] = array
    yield spread[::2]
    yield np.ascontiguousarray(array[::-1])[::-1]
    yield np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def group_of(name, n_args, **kwargs):
    """A group of one call, whose arguments by position are given at each run."""
    args = [("in", i) for i in range(n_args)]
    constants = {key: ("const", value) for key, value in kwargs.items()}
    return _native.FusionGroup(name, [(name, args, constants)], [0])


def evaluated(name, *args, **kwargs):
    """The result by the evaluator that defines the ops."""
    ((dtype, extents, bits),) = group_of(name, len(args), **kwargs)._evaluate(*args)
    dtype = np.dtype(dtype)
    unsigned = np.array(bits, np.uint64).astype(f"u{dtype.itemsize}")
    return unsigned.view(dtype).reshape(extents)


def assert_same_bits(given, wanted):
    """The arrays have the same types, shapes and bits; NaNs are alike."""
    given, wanted = np.asarray(given), np.asarray(wanted)
    assert (given.dtype, given.shape) == (wanted.dtype, wanted.shape)
    if given.dtype.kind == "f":
        both_nan = np.isnan(given) & np.isnan(wanted)
        given, wanted = np.where(both_nan, 0, given), np.where(both_nan, 0, wanted)
    assert np.ascontiguousarray(given).tobytes() == np.ascontiguousarray(wanted).tobytes()
