"""`loom.array` and its relatives."""

import numpy as np
import polyloom as loom
import pytest


def test_python_numbers_become_32_bit():
    assert loom.array([1.0, 2.0]).dtype is loom.float32
    assert loom.array([1, 2]).dtype is loom.int32
    assert loom.array([True]).dtype is loom.bool


def test_numpy_types_are_kept():
    assert loom.array(np.zeros(2)).dtype is loom.float64
    assert loom.array(np.zeros(2), dtype=float).dtype is loom.float32


def test_from_numpy_shares_and_array_copies():
    x = np.zeros(3, np.float32)
    loom.from_numpy(x).fill_(1)
    assert x.tolist() == [1, 1, 1]
    loom.array(x).fill_(2)
    assert x.tolist() == [1, 1, 1]


def test_makers():
    assert loom.zeros((2, 3), dtype=loom.int64).numpy().tolist() == [[0] * 3] * 2
    assert loom.ones(2).numpy().tolist() == [1, 1]
    assert loom.full(2, 7).dtype is loom.int32
    a = loom.array([[1.0, 2.0]])
    assert loom.zeros_like(a).shape == (1, 2)
    b = loom.clone(a)
    loom.copy(b, np.array([[3.0, 4.0]], np.float32))
    assert a.numpy().tolist() == [[1, 2]]
    assert b.numpy().tolist() == [[3, 4]]
    assert b.assign(a).numpy().tolist() == [[1, 2]]


def test_views_and_items():
    a = loom.array([[1, 2, 3], [4, 5, 6]])
    assert a[1].numpy().tolist() == [4, 5, 6]
    assert a[1, 2] == 6
    a[0] = 0
    assert a.numpy().tolist() == [[0, 0, 0], [4, 5, 6]]
    assert len(a) == 2 and a.size == 6 and a.strides == (12, 4)


def test_numpy_and_dlpack_see_the_same_memory():
    a = loom.zeros(3)
    np.asarray(a)[0] = 1
    np.from_dlpack(a)[1:2]
    assert a[0] == 1


def test_wrong_use_is_refused():
    with pytest.raises(TypeError, match="complex128.*scalar type|scalar type"):
        loom.zeros(2, dtype=complex)
    with pytest.raises(ValueError, match="1 to 4"):
        loom.zeros((1,) * 5)
    with pytest.raises(ValueError, match="not available"):
        loom.zeros(2, device="cuda:0")
    with pytest.raises(TypeError, match="dtype"):
        loom.array()
