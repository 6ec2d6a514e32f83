"""Launches: arguments in, results out, and a clear exception for whatever does not fit."""

import ctypes
import itertools
import pathlib
import re
import runpy
import threading
import weakref
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]


@loom.kernel
def fill2(value: int, out: loom.array(dtype=int, ndim=2)):
    i, j = loom.tid()
    out[i, j] = value + 10 * i + j


@loom.kernel
def copy_both(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i]
    z[i] = x[i]


def arrays(n=8):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


def test_runs_on_numpy_arrays_in_place():
    x, y = arrays()
    loom.launch(saxpy, 8, [2.0, x, y])
    np.testing.assert_array_equal(y, 2 * np.arange(8, dtype=np.float32) + 1)


def test_inputs_and_outputs_are_one_list():
    x, y = arrays()
    loom.launch(saxpy, dim=8, inputs=[2.0, x], outputs=[y], device="cpu")
    np.testing.assert_array_equal(y, 2 * x + 1)


@pytest.mark.parametrize("shape", [1, 7, 1000, 100_003])
def test_every_thread_runs_once(shape):
    count = np.zeros(shape, np.int32)

    @loom.kernel
    def visit(count: loom.array(dtype=int)):
        i = loom.tid()
        loom.atomic_add(count, i, 1)

    loom.launch(visit, shape, [count])
    assert (count == 1).all()


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (64, 33), (1000, 7)])
def test_two_dimensional_launch(shape):
    out = np.zeros(shape, np.int32)
    loom.launch(fill2, shape, [100, out])
    i, j = np.indices(shape)
    np.testing.assert_array_equal(out, 100 + 10 * i + j)


def test_three_and_four_dimensional_launches():
    @loom.kernel
    def mark3(out: loom.array(dtype=int, ndim=3)):
        i, j, k = loom.tid()
        out[i, j, k] = i * 100 + j * 10 + k

    @loom.kernel
    def mark4(out: loom.array(dtype=int, ndim=4)):
        i, j, k, m = loom.tid()
        out[i, j, k, m] = i * 1000 + j * 100 + k * 10 + m

    out3, out4 = np.zeros((2, 3, 4), np.int32), np.zeros((2, 3, 4, 5), np.int32)
    loom.launch(mark3, out3.shape, [out3])
    loom.launch(mark4, out4.shape, [out4])
    np.testing.assert_array_equal(out3, np.einsum("nijk,n->ijk", np.indices(out3.shape), [100, 10, 1]))
    np.testing.assert_array_equal(out4, np.einsum("nijkm,n->ijkm", np.indices(out4.shape), [1000, 100, 10, 1]))


def test_views_of_any_stride():
    base = np.arange(40, dtype=np.float32)
    y = np.zeros(10, np.float32)
    loom.launch(saxpy, 10, [1.0, base[::-4], y])
    np.testing.assert_array_equal(y, base[::-4])
    out = np.zeros((6, 8), np.int32)
    loom.launch(fill2, (4, 3), [0, out.T[::2, 1::2]])
    i, j = np.indices((4, 3))
    np.testing.assert_array_equal(out.T[::2, 1::2], 10 * i + j)
    assert np.count_nonzero(out) == np.count_nonzero(10 * i + j)


def test_in_place_and_aliased_arguments():
    x = np.arange(5, dtype=np.float32)
    loom.launch(saxpy, 5, [1.0, x, x])
    np.testing.assert_array_equal(x, 2 * np.arange(5))


def test_launch_of_no_threads_does_nothing():
    x, y = arrays()
    loom.launch(saxpy, 0, [2.0, x, y])
    np.testing.assert_array_equal(y, 1)


def test_loom_arrays_and_array_interface():
    x, y = loom.array([1.0, 2.0, 3.0], dtype=float), loom.zeros(3)
    loom.launch(saxpy, 3, [2.0, x, y])
    assert y.numpy().tolist() == [2.0, 4.0, 6.0]

    class Wrapper:
        def __init__(self, a):
            self.a = a

        @property
        def __array_interface__(self):
            return self.a.__array_interface__

    a, b = arrays(3)
    loom.launch(saxpy, 3, [1.0, Wrapper(a), Wrapper(b)])
    np.testing.assert_array_equal(b, a + 1)


class Tensor:
    """Memory that is reached through DLPack alone; `version` 0 knows nothing of DLPack 1.0."""

    def __init__(self, a, version=1):
        self.a = a
        self.version = version

    def __dlpack__(self, **options):
        if self.version == 0 and options.keys() - {"stream"}:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


@pytest.mark.parametrize("version", [0, 1])
def test_dlpack(version):
    a, b = arrays(3)
    loom.launch(saxpy, 3, [1.0, Tensor(a, version), Tensor(b, version)])
    np.testing.assert_array_equal(b, a + 1)


def test_dlpack_memory_that_is_read_only_is_not_written():
    a, b = arrays(3)
    b.flags.writeable = False
    with pytest.raises(ValueError, match="'y'.*read-only"):
        loom.launch(saxpy, 3, [1.0, a, Tensor(b)])


class Immutable(Tensor):
    """As JAX's arrays are: DLPack says nothing, NumPy gets a read-only array."""

    def __init__(self, a):
        super().__init__(a, 0)

    def __array__(self, dtype=None, copy=None):
        seen = self.a.view()
        seen.flags.writeable = False
        return seen


def test_arrays_that_never_change_are_read_and_not_written():
    a, b = arrays(3)
    loom.launch(saxpy, 3, [1.0, Immutable(a), b])
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(ValueError, match="'y'.*read-only: pass a copy"):
        loom.launch(saxpy, 3, [1.0, a, Immutable(b)])
    command = loom.launch(saxpy, 3, [1.0, a, b], record_cmd=True)
    with pytest.raises(ValueError, match="'y'.*read-only: pass a copy"):
        command.set_param_at_index(2, Immutable(b))


def test_overlapping_dlpack_outputs_are_refused():
    x, both = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(ValueError, match="'z'.*overlaps.*'y'"):
        loom.launch(copy_both, 4, [x, Tensor(both[:4]), Tensor(both[2:6])])
    loom.launch(copy_both, 4, [x, Tensor(both[::2]), Tensor(both[1::2])])
    np.testing.assert_array_equal(both, np.repeat(x, 2))


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool"],
)
def test_every_element_type(define, dtype):
    kernels = define(f"""
        @loom.kernel
        def copy(x: loom.array(dtype=loom.{dtype}), y: loom.array(dtype=loom.{dtype})):
            i = loom.tid()
            y[i] = x[i]
    """)
    x = np.array([0, 1, 1, 0, 1], dtype=dtype)
    y = np.zeros(5, dtype)
    loom.launch(kernels["copy"], 5, [x, y])
    np.testing.assert_array_equal(x, y)


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")

    @loom.kernel
    def triple(x: loom.array(dtype=loom.bfloat16)):
        i = loom.tid()
        x[i] = x[i] * loom.bfloat16(3.0)

    x = np.array([1.0, 0.1, -2.5], ml_dtypes.bfloat16)
    expected = x * ml_dtypes.bfloat16(3)
    loom.launch(triple, 3, [x])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ([2.0, None], TypeError, ["saxpy", "3 arguments", "a, x, y", "2 given"]),
        (["two", "x", "y"], TypeError, ["'a'", "float32", "str"]),
        ([2.0, np.zeros(8), np.zeros(8, np.float32)], TypeError, ["'x'", "float32", "float64"]),
        ([2.0, np.zeros((8, 1), np.float32), np.zeros(8, np.float32)], TypeError, ["'x'", "1 dimension", "2"]),
        ([2.0, [1.0] * 8, np.zeros(8, np.float32)], TypeError, ["'x'", "array", "list"]),
        ([2.0, np.zeros(8, ">f4"), np.zeros(8, np.float32)], TypeError, ["'x'", "float32", ">f4"]),
        ([10**400, np.zeros(8, np.float32), np.zeros(8, np.float32)], OverflowError, ["'a'", "float32", "large"]),
        ([10**9999, np.zeros(8, np.float32), np.zeros(8, np.float32)], OverflowError, ["'a'", "float32", "large"]),
    ],
)
def test_arguments_that_do_not_fit(arguments, error, words):
    with pytest.raises(error) as caught:
        loom.launch(saxpy, 8, arguments)
    for word in words:
        assert word in str(caught.value)


def test_integer_arguments_must_fit():
    out = np.zeros((1, 1), np.int32)
    for value in (2**31, 2**127 - 1, -(2**127), 10**400):
        with pytest.raises(OverflowError, match="'value'.*int32"):
            loom.launch(fill2, (1, 1), [value, out])


@pytest.mark.parametrize(
    "value", [1.5, np.float32(2.0), Fraction(5, 2), Decimal(2), np.array([2.5]), loom.float32(2.0), loom.bfloat16(2)]
)
def test_integer_parameters_take_no_fractions(value):
    with pytest.raises(TypeError, match="'value'.*int32"):
        loom.launch(fill2, (1, 1), [value, np.zeros((1, 1), np.int32)])


@pytest.mark.parametrize("value", [1, True, np.True_, np.uint8(1), np.array(1), loom.int64(1), loom.bool(True)])
def test_integer_parameters_take_all_integers(value):
    out = np.zeros((1, 1), np.int32)
    loom.launch(fill2, (1, 1), [value, out])
    assert out[0, 0] == 1


def test_bool_parameters_take_booleans_and_integers_and_nothing_named_like_them():
    @loom.kernel
    def store(value: bool, out: loom.array(dtype=bool)):
        out[0] = value

    class boolean:  # noqa: N801
        pass

    for value in (True, np.True_, loom.bool(True), 1, -4, np.int32(1), loom.int32(1)):
        out = np.zeros(1, bool)
        loom.launch(store, 1, [value, out])
        assert out[0]
    for value in (boolean(), 1.0, loom.float32(1), np.array([1, 2])):
        with pytest.raises(TypeError, match="'value'.*bool"):
            loom.launch(store, 1, [value, np.zeros(1, bool)])


def test_exceptions_of_an_arguments_own_code_pass_through():
    class Interrupted:
        @property
        def __array_interface__(self):
            raise KeyboardInterrupt

        def __float__(self):
            raise KeyboardInterrupt

    x, y = arrays()
    for arguments in ([Interrupted(), x, y], [1.0, Interrupted(), y]):
        with pytest.raises(KeyboardInterrupt):
            loom.launch(saxpy, 8, arguments)


def test_bfloat16_bits_have_this_machines_byte_order():
    @loom.kernel
    def touch(x: loom.array(dtype=loom.bfloat16)):
        x[0] = x[0]

    foreign = np.dtype(np.uint16).newbyteorder("S")
    with pytest.raises(TypeError, match="'x'.*bfloat16"):
        loom.launch(touch, 1, [np.zeros(1, foreign)])


def test_read_only_outputs_are_refused_and_read_only_inputs_are_not():
    x, y = arrays()
    x.flags.writeable = False
    loom.launch(saxpy, 8, [1.0, x, y])
    y.flags.writeable = False
    with pytest.raises(ValueError, match="'y'.*read-only"):
        loom.launch(saxpy, 8, [1.0, x, y])


def test_overlapping_outputs_are_refused_and_interleaved_ones_are_not():
    x = np.arange(4, dtype=np.float32)
    both = np.zeros(8, np.float32)
    with pytest.raises(ValueError, match="'z'.*overlaps.*'y'"):
        loom.launch(copy_both, 4, [x, both[:4], both[2:6]])
    loom.launch(copy_both, 4, [x, both[::2], both[1::2]])
    np.testing.assert_array_equal(both, np.repeat(x, 2))


def test_wrong_device_dim_and_kernel():
    x, y = arrays()
    with pytest.raises(ValueError, match="device 'gpu' is not available"):
        loom.launch(saxpy, 8, [1.0, x, y], device="gpu")
    with pytest.raises(loom.DeviceError, match="device 'cuda:99' is not available"):
        loom.launch(saxpy, 8, [1.0, x, y], device="cuda:99")
    with pytest.raises(ValueError, match="negative"):
        loom.launch(saxpy, -1, [1.0, x, y])
    with pytest.raises(ValueError, match="at most 4"):
        loom.launch(saxpy, (1, 1, 1, 1, 1), [1.0, x, y])
    with pytest.raises(ValueError, match="at most 4|1 to 4"):
        loom.launch(saxpy, itertools.count(1), [1.0, x, y])
    with pytest.raises(TypeError, match="dim"):
        loom.launch(saxpy, "many", [1.0, x, y])
    for dim in (2**64, (2**70, 1), 2**40):
        with pytest.raises(ValueError, match="than int32 can count|as int32 can count"):
            loom.launch(saxpy, dim, [1.0, x, y])
    # A launch for later is refused where it is made.
    for dim, message in ((2**31 + 1, "extent 2147483649 in dimension 0"), ((2**16, 2**16), "int32 can count")):
        with pytest.raises(ValueError, match=message):
            loom.launch(saxpy, dim, [1.0, x, y], record_cmd=True)
    with pytest.raises(TypeError, match="kernel"):
        loom.launch(len, 8, [x])
    with pytest.raises(TypeError, match="launch"):
        saxpy(1.0, x, y)


def test_recorded_launch():
    x, y = arrays()
    step = loom.launch(saxpy, 8, [2.0, x, y], record_cmd=True)
    np.testing.assert_array_equal(y, 1)
    step.launch()
    step.launch()
    np.testing.assert_array_equal(y, 4 * x + 1)
    step.set_param_at_index(0, 0.0)
    step.set_param_by_name("y", np.zeros(8, np.float32))
    step.set_dim(4)
    step.launch()
    with pytest.raises(IndexError):
        step.set_param_at_index(9, 0.0)
    with pytest.raises(IndexError, match="no -1"):
        step.set_param_at_index(-1, 0.0)
    with pytest.raises(TypeError, match="a sequence of arguments, not int"):
        step.set_params(3)
    with pytest.raises(TypeError, match="not '4'"):
        step.set_dim("4")
    assert "saxpy" in repr(step)


def test_recorded_launches_take_numbers_of_ctypes():
    x, y = arrays()
    step = loom.launch(saxpy, 8, [2.0, x, y], record_cmd=True)
    step.set_param_at_index_from_ctype(0, ctypes.c_float(3.0))
    step.set_param_by_name_from_ctype("a", ctypes.c_double(4.0))
    step.set_params_from_ctypes([ctypes.c_float(5.0), x, y])
    before = y.copy()
    step.launch()
    np.testing.assert_array_equal(y, before + 5.0 * x)
    with pytest.raises(TypeError, match="'a'.*float32"):
        step.set_param_at_index_from_ctype(0, ctypes.c_char(b"a"))


@loom.kernel
def words(a: loom.uint32, b: loom.uint8, c: loom.uint64, out: loom.array(dtype=loom.uint64)):
    out[0] = loom.uint64(a)
    out[1] = loom.uint64(b)
    out[2] = c


def test_unsigned_arguments_take_negative_numbers_of_the_signed_type():
    out = np.zeros(3, np.uint64)
    loom.launch(words, 1, [-1, -128, -(2**63), out])
    assert out.tolist() == [2**32 - 1, 128, 2**63]
    with pytest.raises(OverflowError, match="-129, which does not fit uint8"):
        loom.launch(words, 1, [-1, -129, 0, out])
    with pytest.raises(OverflowError, match="4294967296, which does not fit uint32"):
        loom.launch(words, 1, [2**32, 0, 0, out])


def test_recorded_launches_check_when_they_are_recorded_and_changed():
    x, y = arrays()
    with pytest.raises(TypeError, match="'a'.*float32"):
        loom.launch(saxpy, 8, ["two", x, y], record_cmd=True)
    step = loom.launch(saxpy, 8, [2.0, x, y], record_cmd=True)
    with pytest.raises(TypeError, match="'y'.*float64"):
        step.set_param_by_name("y", np.zeros(8))
    with pytest.raises(TypeError, match="2 given"):
        step.set_params([1.0, x])
    step.launch()
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_outputs_of_a_recorded_launch_can_be_swapped():
    x, y, z = np.ones(4, np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    step = loom.launch(copy_both, 4, [x, y, z], record_cmd=True)
    step.set_param_by_name("y", z)
    with pytest.raises(ValueError, match="overlaps"):
        step.launch()
    step.set_param_by_name("z", y)
    step.launch()
    assert y.all() and z.all()


def test_replaced_arguments_of_a_recorded_launch_are_those_of_the_next_run():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    step = loom.launch(saxpy, 4, [1.0, x[:4], y[:4]], record_cmd=True)
    for _ in range(3):
        step.launch()
    assert y.tolist() == [3.0] * 4 + [0.0] * 4
    step.set_param_by_name("a", 0.5)
    step.launch()
    assert y.tolist() == [3.5] * 4 + [0.0] * 4
    # Every other element, so that code for dense arrays must not run.
    step.set_param_by_name("y", y[::2])
    step.launch()
    assert y.tolist() == [4.0, 3.5, 4.0, 3.5, 0.5, 0.0, 0.5, 0.0]
    step.set_dim(1)
    step.launch()
    assert y.tolist() == [4.5, 3.5, 4.0, 3.5, 0.5, 0.0, 0.5, 0.0]
    step.set_dim(5)
    with pytest.raises(loom.LaunchError, match="has 4 elements"):
        step.launch()
    step.set_param_by_name("y", y)
    step.set_param_by_name("x", x[1:])
    step.launch()
    step.set_param_by_name("y", y[:3])
    with pytest.raises(loom.LaunchError, match="axis 0 of `y` has 3 elements"):
        step.launch()
    assert y.tolist() == [5.0, 4.0, 4.5, 4.0, 1.0, 0.0, 0.5, 0.0]
    read_only = np.zeros(8, np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        step.set_param_by_name("y", read_only)


def test_a_recorded_launch_lets_go_of_what_is_replaced():
    class Array(np.ndarray):
        pass

    x, y = (array.view(Array) for array in arrays())
    step = loom.launch(saxpy, 8, [1.0, x, y], record_cmd=True)
    step.launch()
    replaced = weakref.ref(x)
    other = np.ones(8, np.float32).view(Array)
    held = weakref.ref(other)
    step.set_param_by_name("x", other)
    del x, other
    assert replaced() is None and held() is not None
    step.launch()


def test_recorded_launches_take_numbers_by_value():
    @loom.kernel
    def fill(v: loom.vec2, s: float, m: loom.mat22, y: loom.array(dtype=float), z: int):
        y[0] = v[0]
        y[1] = v[1]
        y[2] = s
        y[3] = m[1, 0]
        y[4] = float(z)

    y, z = np.zeros(5, np.float32), np.zeros(5, np.float32)
    v, s, m, n = loom.vec2(1.0, 2.0), np.array(3.0), [[0.0, 0.0], [4.0, 0.0]], np.array(-5)
    step = loom.launch(fill, 1, [v, s, m, y, n], record_cmd=True)
    v[0], s[()], m[1][0], n[()] = 100.0, 100.0, 100.0, 100
    step.launch()
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0, -5.0]
    # Whatever is bound anew, and also where a tape records the launch.
    step.set_param_by_name("y", z)
    step.set_dim(1)
    with loom.Tape():
        step.launch()
    assert z.tolist() == y.tolist()
    w = loom.vec2(6.0, 7.0)
    step.set_param_by_name("v", w)
    w[1] = 100.0
    step.set_param_by_name("y", Tensor(y))
    step.launch()
    assert y.tolist() == [6.0, 7.0, 3.0, 4.0, -5.0]
    t = np.array(8.0)
    step.set_params([w, t, m, y, n])
    w[0], t[()] = 0.0, 0.0
    step.set_dim(1)
    step.launch()
    assert y.tolist() == [6.0, 100.0, 8.0, 100.0, 100.0]


def test_errors_are_those_of_what_has_failed(monkeypatch):
    class Undecided:
        def __bool__(self):
            raise KeyError("undecided")

    x, y = arrays()
    with pytest.raises(KeyError, match="undecided"):
        loom.launch(saxpy, 8, [1.0, x, y], record_tape=Undecided())

    def fails(*_):
        raise KeyError("the tape's")

    with loom.Tape():
        monkeypatch.setattr("polyloom._tape._Recording.finish", fails)
        with pytest.raises(loom.LaunchError, match="has 8 elements"):
            loom.launch(saxpy, 9, [1.0, x, y])
        monkeypatch.setattr("polyloom._tape.overwritten", fails)
        with pytest.raises(loom.LaunchError, match="has 8 elements"):
            loom.launch(saxpy, 9, [1.0, x, y], record_tape=False)
        with pytest.raises(KeyError, match="the tape's"):
            loom.launch(saxpy, 8, [1.0, x, y], record_tape=False)


def test_recorded_launch_holds_its_arguments():
    y = np.zeros(4, np.float32)
    step = loom.launch(saxpy, 4, [2.0, Tensor(np.ones(4, np.float32)), y], record_cmd=True)
    for _ in range(2):
        step.launch()
    np.testing.assert_array_equal(y, 4)


def test_dropped_arguments_may_use_the_recorded_launch():
    class Array(np.ndarray):
        def __del__(self):
            dropped.append(repr(step))

    dropped = []
    x, y = arrays()
    step = loom.launch(saxpy, 8, [1.0, x.view(Array), y], record_cmd=True)
    step.set_params([1.0, x.view(Array), y])
    assert len(dropped) == 1
    step.set_param_at_index(1, x)
    assert len(dropped) == 2


def test_coordinates_beyond_the_launch_are_zero():
    out = np.zeros((3, 2), np.int32)
    loom.launch(fill2, 3, [100, out])
    assert out.tolist() == [[100, 0], [110, 0], [120, 0]]


def test_launches_from_several_threads():
    def work(seed, results):
        x = np.full(10_000, seed, np.float32)
        y = np.zeros(10_000, np.float32)
        for _ in range(50):
            loom.launch(saxpy, x.size, [1.0, x, y])
        results[seed] = y

    results = {}
    threads = [threading.Thread(target=work, args=(s, results)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed, y in results.items():
        np.testing.assert_array_equal(y, 50 * seed)


def test_kernel_describes_itself():
    assert repr(saxpy) == "<kernel saxpy(a: float32, x: array(dtype=float32), y: array(dtype=float32))>"
    assert saxpy.signature.startswith("saxpy(a: float32")
    assert "kernel @saxpy" in saxpy.hir()
    assert re.search(r"<\d+ x float>", saxpy.llvm_ir())
    assert "ret" in saxpy.asm()


def test_redefining_a_function_replaces_it():
    @loom.func
    def f(x: float):
        return 1.0

    @loom.func
    def f(x: int):  # noqa: F811 - an overload
        return 2.0

    @loom.func
    def f(x: float):  # noqa: F811
        return 3.0

    @loom.kernel
    def latest(y: loom.array(dtype=float)):
        y[0] = f(y[0])
        y[1] = f(7)

    y = np.zeros(2, np.float32)
    loom.launch(latest, 1, [y])
    np.testing.assert_array_equal(y, [3.0, 2.0])


def test_attributes_of_classes_are_what_they_are_to_the_command_line():
    folder = pathlib.Path(__file__).parents[1] / "filetests" / "frontend"
    names = runpy.run_path(str(folder / "class_attributes.py"))
    integers, floats = np.zeros(6, np.int32), np.array([0.0, 1.0, 0.0], np.float32)
    loom.launch(names["attributes"], 1, [integers])
    loom.launch(names["others"], 1, [floats])
    np.testing.assert_array_equal(integers, [3, 4, 50, 7, 101, 6])
    np.testing.assert_array_equal(floats, np.array([0.5, 102.0, 6.2831855], np.float32))


def test_what_is_passed_wrongly_is_told_what_to_write(define):
    saxpy = define("""
        @loom.kernel
        def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
            i = loom.tid()
            y[i] = a * x[i] + y[i]
    """)["saxpy"]
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(
        TypeError, match=r"lists of arguments, not float: write polyloom\.launch\(saxpy, dim, \[a, x, y\]"
    ):
        loom.launch(saxpy, 3, 2.0, x, y)
    with pytest.raises(TypeError, match="not ndarray: write"):
        loom.launch(saxpy, 3, [2.0], x, y)
    with pytest.raises(TypeError, match=r"device is a string, not ndarray: .* inputs=\[…\]"):
        loom.launch(saxpy, 3, [2.0], [x], y)
    with pytest.raises(
        TypeError, match=r"not float64: .* \.astype\(np\.float32\), or dtype=loom\.float64 in the kernel"
    ):
        loom.launch(saxpy, 3, [2.0, np.ones(3), y])
    with pytest.raises(
        TypeError,
        match=r"array\(ndim=1, dtype=float32\), but passed value has type list: .* np\.array\(…, np\.float32\)",
    ):
        loom.launch(saxpy, 3, [2.0, [1.0, 2.0, 3.0], y])


def test_no_array_is_one_without_elements(define):
    k = define("""
        @loom.kernel
        def k(a: loom.array2d(dtype=float), v: loom.array(dtype=loom.vec3), out: loom.array(dtype=int)):
            if a and not v:
                out[0] = 1
            out[1] = 1 if v else 2
            out[2] = (1 if a else 0) + a.shape[0]
    """)["k"]
    full, vectors = np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32)
    for a, v, expected in (
        (full, None, [1, 2, 3]),
        (None, vectors, [0, 1, 0]),
        (np.zeros((2, 0), np.float32), loom.zeros(0, dtype=loom.vec3), [0, 2, 2]),
        (full, vectors, [0, 1, 3]),
    ):
        out = np.zeros(3, np.int32)
        loom.launch(k, 1, [a, v, out])
        assert out.tolist() == expected


def test_no_array_has_no_element_to_write(define):
    k = define("""
        @loom.kernel(check=True)
        def k(out: loom.array(dtype=int)):
            out[0] = 1
    """)["k"]
    with pytest.raises(loom.LaunchError, match="index 0 is out of bounds for axis 0 of `out` with extent 0"):
        loom.launch(k, 1, [None])


def test_an_argument_may_change_the_list_it_is_in(define):
    kernels = define("""
        from typing import Any

        @loom.kernel
        def copied(a: loom.array(dtype=Any), b: loom.array(dtype=Any)):
            i = loom.tid()
            b[i] = a[i]
    """)

    class Clearing:
        def __init__(self, arguments):
            self.arguments = arguments

        @property
        def __array_interface__(self):
            self.arguments.clear()
            self.others = [np.arange(7.0) + i for i in range(1000)]
            self.ones = np.ones(4, np.float32)
            return self.ones.__array_interface__

    arguments = []
    b = np.zeros(4, np.float32)
    arguments += [Clearing(arguments), b]
    loom.launch(kernels["copied"], 4, arguments)
    assert (b == 1).all()
    arguments += [Clearing(arguments), np.zeros(4, np.float32)]
    loom.launch(kernels["copied"], 4, arguments)


def test_arguments_that_do_not_fit_are_named_alike(define):
    kernels = define("""
        @loom.kernel
        def copied(a: loom.array(dtype=float)):
            a[0] = 1.0
    """)
    misaligned = np.zeros(9, np.int8)[1:].view(np.float32)
    with pytest.raises(
        ValueError, match="^argument 'a' of kernel 'copied' has elements that are not aligned to 4 bytes"
    ):
        loom.launch(kernels["copied"], 1, [misaligned])
    far = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**31,), (0,))
    with pytest.raises(ValueError, match="^argument 'a' of kernel 'copied' is too large: extent 2147483648"):
        loom.launch(kernels["copied"], 1, [far])
