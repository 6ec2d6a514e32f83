"""Views, moved elements, random numbers, and the memory that results are in."""

import gc

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops
from tensor_arrays import FLOATS, assert_same_bits, evaluated, layouts, numbers


def test_views_share_memory_where_numpys_would():
    x = numbers((4, 6), np.float32)
    views = {
        "reshape": (ops.reshape(x, (2, -1)), x.reshape(2, -1)),
        "transpose": (ops.transpose(x), x.T),
        "permute": (ops.permute(x, (1, 0)), x.transpose(1, 0)),
        "slice": (ops.slice(x, (1, None), (None, -1), (2, -1)), x[1::2, :-1:-1]),
        "flip": (ops.flip(x), x[::-1, ::-1]),
        "flip of an axis": (ops.flip(x, 1), x[:, ::-1]),
        "broadcast_to": (ops.broadcast_to(x, (3, 4, 6)), np.broadcast_to(x, (3, 4, 6))),
    }
    for name, (given, wanted) in views.items():
        np.testing.assert_array_equal(given, wanted, name)
        assert np.shares_memory(given, x) == np.shares_memory(wanted, x), name
        assert given.flags.writeable == wanted.flags.writeable, name
    ops.reshape(x, 24)[0] = 77
    assert x[0, 0] == 77
    read_only = x.copy()
    read_only.flags.writeable = False
    assert not ops.transpose(read_only).flags.writeable


def test_a_reshape_of_what_is_not_dense_copies():
    x = numbers((4, 6), np.float64)[:, :5]
    given = ops.reshape(x, -1)
    np.testing.assert_array_equal(given, x.reshape(-1))
    assert not np.shares_memory(given, x)


def test_views_of_every_layout():
    for view in layouts(numbers((4, 6), np.float32)):
        np.testing.assert_array_equal(ops.transpose(view), view.T)
        np.testing.assert_array_equal(ops.flip(view, 0), view[::-1])
        np.testing.assert_array_equal(ops.reshape(view, (3, 8)), view.reshape(3, 8))
        np.testing.assert_array_equal(ops.slice(view, 1, 3), view[1:3])


def test_slices_are_those_of_python():
    x = np.arange(10)
    for start in [None, -12, -3, 0, 4, 12]:
        for stop in [None, -12, -3, 0, 4, 12]:
            for step in [1, 2, -1, -3]:
                np.testing.assert_array_equal(ops.slice(x, start, stop, step), x[start:stop:step])
    with pytest.raises(ValueError, match="sliced in steps of 0"):
        ops.slice(x, 0, 1, 0)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int16, bool])
def test_moved_elements(dtype):
    a, b = numbers((2, 3), dtype, 1), numbers((4, 3), dtype, 2)
    np.testing.assert_array_equal(ops.concat([a, b]), np.concatenate([a, b]))
    np.testing.assert_array_equal(ops.concat((a, a), axis=-1), np.concatenate([a, a], -1))
    np.testing.assert_array_equal(ops.stack([a, a, a], 1), np.stack([a, a, a], 1))
    np.testing.assert_array_equal(ops.pad(a, 2), np.pad(a, 2))
    np.testing.assert_array_equal(ops.pad(a, ((1, 0), (0, 2)), 1), np.pad(a, ((1, 0), (0, 2)), constant_values=1))
    np.testing.assert_array_equal(ops.tile(a, (2, 3)), np.tile(a, (2, 3)))
    np.testing.assert_array_equal(ops.tile(a, 2), np.tile(a, 2))
    for view in layouts(a):
        assert_same_bits(ops.pad(view, 1), np.pad(view, 1))
    with pytest.raises(ValueError, match=r"`concat`: `x\[0\]` has shape \[2, 3\] and `x\[1\]` has shape \[3, 2\]"):
        ops.concat([a, a.T])
    assert ops.concat([numbers(2, np.int32), numbers(2, np.float32)]).dtype == np.float64


def test_random_numbers_depend_on_the_seed_alone():
    first = ops.rand(7, (1000, 100))
    assert first.dtype == np.float32
    assert first.shape == (1000, 100)
    assert_same_bits(first, ops.rand(7, (1000, 100)))
    assert (first != ops.rand(8, (1000, 100))).any()
    assert_same_bits(ops.rand(7, 5), evaluated("rand", 7, shape=5))
    assert 0 <= first.min() < 0.001 and 0.999 < first.max() < 1
    assert abs(first.mean() - 0.5) < 0.005
    normal = ops.randn(3, (100_000,), np.float64)
    assert normal.dtype == np.float64
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    x = np.ones(10_000, np.float32)
    dropped = ops.dropout(x, 5, 0.25)
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((dropped == 0).mean() - 0.25) < 0.02
    assert_same_bits(ops.iota((2, 3), 1), np.array([[0, 1, 2], [0, 1, 2]]))


def test_the_memory_of_a_dead_result_serves_the_next():
    x = np.ones(1_000_000, np.float32)
    ops.add(x, x)
    gc.collect()
    before = loom.memory_report()
    address = ops.add(x, x).ctypes.data
    for _ in range(10):
        assert ops.multiply(x, x).ctypes.data == address
    after = loom.memory_report()
    assert after["n_allocated"] == before["n_allocated"]
    assert after["n_reused"] == before["n_reused"] + 11
    assert after["idle"] <= after["limit"]
    kept = ops.add(x, x)
    view = kept[10:20]
    used = loom.memory_report()["used"]
    del kept
    assert loom.memory_report()["used"] == used
    assert (view == 2).all()
    del view
    assert loom.memory_report()["used"] < used
    loom.release_memory()
    assert loom.memory_report()["idle"] == 0


def test_results_share_no_memory_with_arguments():
    x = numbers((10,), np.int32)
    for name in ["round", "floor", "ceil", "trunc", "absolute", "relu", "square"]:
        assert not np.shares_memory(getattr(ops, name)(x), x)
    assert not np.shares_memory(ops.sum(x, ()), x)
    assert not np.shares_memory(ops.tile(x, 1), x)
    assert not np.shares_memory(ops.pad(x, 0), x)
    assert not np.shares_memory(ops.concat([x]), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ops.iota((2**62, 2)),
        lambda: ops.pad(np.zeros(3), 2**62),
        lambda: ops.tile(np.zeros(3), 2**61),
        lambda: ops.broadcast_to(np.zeros(3), (2**61, 3)),
        lambda: ops.reshape(np.zeros((0, 2**40)), (2**62, 0)),
    ],
)
def test_results_beyond_memory_are_refused(call):
    with pytest.raises(ValueError, match="has too many elements"):
        call()


def test_a_step_beyond_the_axis_is_a_slice_of_one_element():
    assert ops.slice(np.arange(5), [-(2**63)], [2**63 - 1], [2**62]).tolist() == [0]
