"""`loom.array` and its relatives."""

import subprocess
import sys
from typing import Any

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
    seen = np.from_dlpack(a)
    seen[1] = 2
    a[2] = 3
    assert a.numpy().tolist() == seen.tolist() == [1, 2, 3]


def test_what_numpy_asks_for_is_a_copy_or_none():
    a = loom.array([1.5, 2.5])
    assert np.may_share_memory(a.__array__(copy=False), a.numpy())
    assert np.may_share_memory(a.__array__(np.float32, copy=None), a.numpy())
    assert not np.may_share_memory(a.__array__(copy=True), a.numpy())
    for copy in (None, True):
        assert a.__array__(np.int64, copy=copy).tolist() == [1, 2]
    with pytest.raises(ValueError, match="elements of type float32 are not seen as int64 without a copy"):
        a.__array__(np.int64, copy=False)


def test_shape_and_ndim_of_data():
    x = np.arange(6, dtype=np.float32)
    a = loom.array(x, shape=(2, 3), copy=False)
    a[1, 2] = 9
    assert a.shape == (2, 3) and x[5] == 9
    with pytest.raises(ValueError, match="without a copy"):
        loom.array(np.zeros((2, 3), np.float32).T, shape=6, copy=False)
    with pytest.raises(ValueError, match="2 dimensions, not 1"):
        loom.array(a, ndim=1)


BFLOAT16 = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, polyloom as loom
t = loom.bfloat16
values = [1.0, 2.5, 3.0, 1 / 3, -0.0, 1e-40, 3.3961e38, 1e39, float("inf"), 1.00390625, 1.01171875, float("nan")]
a = loom.array(values, dtype=t)
b = loom.empty(len(values), t)
b[:] = np.array(values)
rows = [a, b, loom.clone(a), loom.ones(1, t), loom.full(1, 2.5, t), loom.zeros(1, t).fill_(3), loom.array(a.numpy(), t)]
for row in rows:
    print(*row.numpy().tolist())
print(loom.zeros(1).assign(loom.full(1, 2.5, t))[0])
"""


def test_bfloat16_without_ml_dtypes_converts_numbers():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = [1.0, 2.5, 3.0, 1 / 3, -0.0, 1e-40, 3.3961e38, 1e39, np.inf, 1.00390625, 1.01171875, np.nan]
    with np.errstate(over="ignore"):
        expected = np.array(values, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16).tolist()
    out = subprocess.run([sys.executable, "-c", BFLOAT16], capture_output=True, text=True)
    rows = out.stdout.splitlines()
    assert len(rows) == 8, out.stderr
    bits = [[int(b) for b in row.split()] for row in rows[:7]]
    assert bits == [expected, expected, expected, [0x3F80], [0x4020], [0x4040], expected]
    assert rows[7] == "2.5"


def test_wrong_use_is_refused():
    with pytest.raises(TypeError, match="complex128.*scalar type|scalar type"):
        loom.zeros(2, dtype=complex)
    with pytest.raises(TypeError, match="scalar type"):
        loom.zeros(2, dtype=None)
    with pytest.raises(ValueError, match="1 to 4"):
        loom.zeros((1,) * 5)
    with pytest.raises(ValueError, match="not available"):
        loom.zeros(2, device="gpu")
    with pytest.raises(TypeError, match="dtype"):
        loom.array()


def test_annotations_may_be_written_short():
    assert repr(loom.array(float)) == "polyloom.array(dtype=float32, ndim=1)"
    assert repr(loom.array(loom.vec3, 2)) == "polyloom.array(dtype=vec3, ndim=2)"
    assert repr(loom.array[float]) == "polyloom.array(dtype=float32, ndim=1)"
    assert repr(loom.array[loom.float64, 3]) == "polyloom.array(dtype=float64, ndim=3)"
    assert repr(loom.array2d[int]) == repr(loom.array2d(int)) == "polyloom.array(dtype=int32, ndim=2)"
    assert repr(loom.array(dtype=Any, ndim=2)) == "polyloom.array(dtype=Any, ndim=2)"
    with pytest.raises(TypeError, match="two element types"):
        loom.array(float, dtype=loom.float64)


def test_short_annotations_are_those_of_kernels(define):
    k = define("""
        @loom.kernel
        def k(a: loom.array(float), b: loom.array[float], c: loom.array2d[loom.vec3]):
            i = loom.tid()
            a[i] = b[i] + c[i, 0][1]
    """)["k"]
    a, b, c = np.zeros(2, np.float32), np.ones(2, np.float32), np.full((2, 1, 3), 2, np.float32)
    loom.launch(k, 2, [a, b, c])
    assert a.tolist() == [3, 3]


def test_components_are_seen_as_axes():
    numbers = np.arange(16, dtype=np.float32).reshape(4, 2, 2)
    matrices = loom.array(numbers, dtype=loom.mat22)
    seen = matrices.view(float)
    assert seen.shape == (4, 2, 2) and (seen.numpy() == numbers).all()
    assert seen.view(loom.mat22)[3] == loom.mat22(12, 13, 14, 15)
    seen[0, 0, 0] = 9.0
    assert matrices[0][0, 0] == 9.0
    with pytest.raises(TypeError, match="source dtype has size 4 bytes, but target dtype has size 2 bytes"):
        loom.zeros(2).view(loom.uint16)
    with pytest.raises(ValueError, match="last axes must be"):
        loom.zeros((2, 3)).view(loom.vec2)


def test_elements_from_rows_and_columns():
    assert loom.array(np.zeros((4, 6)), dtype=loom.vec3).shape == (4, 2)
    assert loom.array(np.zeros((4, 3, 1)), dtype=loom.vec3).shape == (4,)
    a = loom.zeros(2, dtype=loom.mat22)
    assert a.fill_([1, 2, 3, 4])[1] == loom.mat22(1, 2, 3, 4)
    assert loom.full(2, np.array([1, 2, 3], np.int16)).dtype is loom.vec3s
    assert loom.full(2, [[1.0, 2.0]]).dtype is loom.types.matrix((1, 2), loom.float64)
    assert loom.zeros(1, dtype=loom.bfloat16).fill_(loom.bfloat16(2)).list() == [2.0]


def test_new_arrays_take_strides():
    a = loom.zeros((2, 3), strides=(4, 8))
    a.assign([[1, 2, 3], [4, 5, 6]])
    assert a.strides == (4, 8) and a.capacity == 24 and a.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="expected 2 strides, got 1"):
        loom.empty((2, 3), strides=(4,))
    with pytest.raises(NotImplementedError, match="Negative strides"):
        loom.empty((2, 3), strides=(12, -4))
    assert loom.zeros(0).ptr is None


def test_errors_of_shapes_and_copies_are_of_warps_classes():
    with pytest.raises(RuntimeError, match=r"shape \(6,\) \(size 6\) into shape \(4, 2\) \(size 8\)"):
        loom.zeros(6).reshape((4, 2))
    with pytest.raises(ValueError, match="Array shapes must be non-negative"):
        loom.zeros((2, -1))
    for keywords, text in (
        ({"src_offset": -1}, "Source offset must be non-negative"),
        ({"count": 2.0}, "must be integers"),
        ({"count": 9}, "exceeds the source size"),
    ):
        with pytest.raises(RuntimeError, match=text):
            loom.copy(loom.zeros(4), loom.zeros(4), **keywords)


def test_structs_in_arrays_keep_their_arrays():
    @loom.struct
    class Row:
        n: int
        values: loom.array(dtype=float)

    row = Row()
    row.n, row.values = 2, loom.array([1.0, 2.0])
    rows = loom.zeros(3, dtype=Row)
    rows[1] = row
    del row
    assert rows[0].values is None and rows[1].values.list() == [1.0, 2.0]
    assert loom.array([rows[1]], dtype=Row).list()[0].values is rows[1].values
    assert rows.numpy()["values"]["shape"][1].tolist() == [2, 0, 0, 0]
    with pytest.warns(SyntaxWarning, match="its field `values` is an array"):

        @loom.kernel
        def k(rows: loom.array(dtype=Row)):
            rows[0].n = 1

    with pytest.raises(loom.CompileError, match="its field `values` is an array"):
        loom.launch(k, 1, [rows])


def test_dlpack_sees_the_same_memory():
    flags = loom.array([True, False])
    seen = loom.from_dlpack(loom.to_dlpack(flags), dtype=loom.uint8)
    assert seen.ptr == flags.ptr and seen.list() == [1, 0]
    with pytest.raises(RuntimeError, match="Incompatible data types: DLPack bool8 and Warp float32"):
        loom.from_dlpack(loom.to_dlpack(flags), dtype=float)
