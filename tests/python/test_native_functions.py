"""Kernels and functions of values as native functions: `kernel.function()`."""

import ctypes
import sys

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def scale(x: loom.array(dtype=float), y: loom.array(dtype=float), a: float):
    i = loom.tid()
    y[i] = a * x[i] + loom.sin(x[i])


@loom.kernel
def outer(x: loom.array(dtype=loom.float64), y: loom.array(dtype=loom.float64), out: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    out[i, j] = x[i] * y[j]


@loom.kernel
def total(x: loom.array(dtype=loom.float64), out: loom.array(dtype=loom.float64)):
    s = loom.float64(0.0)
    for i in range(x.shape[0]):
        s += x[i]
    out[0] = s


@loom.struct
class Order:
    price: float
    quantity: loom.int32
    side: loom.vec2


@loom.kernel
def value(order: Order, out: loom.array(dtype=float)):
    out[0] = order.price * float(order.quantity) + order.side[1]


@loom.func
def notional(price: float, quantity: loom.int32) -> float:
    return price * float(quantity)


@loom.func
def split(v: loom.vec3, s: float):
    return s * v, loom.length(v)


@loom.func
def mean(x: loom.array(dtype=float)) -> float:
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s / float(x.shape[0])


@loom.kernel(check=True)
def gather(x: loom.array(dtype=float), at: loom.array(dtype=int), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[at[i]]


@loom.kernel
def prints(x: loom.array(dtype=float)):
    print(x[loom.tid()])


@pytest.mark.parametrize("n", [0, 1, 5, 16, 100, 1001])
def test_a_call_gives_the_bits_of_a_launch(n):
    x = np.linspace(-4.0, 9.0, n, dtype=np.float32)
    called, launched = np.zeros_like(x), np.zeros_like(x)
    function = scale.function()
    function.prepare()
    assert function(n, x, called, 1.5) is None
    loom.launch(scale, dim=n, inputs=[x, launched, 1.5])
    assert called.tobytes() == launched.tobytes()


def test_strided_arrays():
    x = np.arange(40, dtype=np.float32)
    y = np.zeros(80, np.float32)
    scale.function()(20, x[::-2], y[10:70:3], 2.0)
    expect = 2.0 * x[::-2].astype(np.float64) + np.sin(x[::-2].astype(np.float64))
    np.testing.assert_allclose(y[10:70:3], expect, rtol=1e-6)
    assert np.count_nonzero(y) == np.count_nonzero(y[10:70:3])


def test_several_extents_and_transposed_arrays():
    x, y = np.arange(5.0), np.arange(7.0) + 1
    out = np.zeros((7, 5)).T
    outer.function()(5, 7, x, y, out)
    np.testing.assert_array_equal(out, np.outer(x, y))


def test_a_kernel_without_coordinates_takes_no_extents():
    out = np.zeros(1)
    function = total.function()
    assert function.prototype == "int32_t total(const struct polyloom_array1 *x, const struct polyloom_array1 *out)"
    function(np.array([1.5, 2.0, 0.25]), out)
    assert out[0] == 3.75


def test_structs_are_their_fields_in_c_and_themselves_in_python():
    order, out = Order(), np.zeros(1, np.float32)
    order.price, order.quantity, order.side = 2.5, 3, loom.vec2(1.0, 7.0)
    function = value.function()
    assert "float order_price, int32_t order_quantity, const float order_side[2]" in function.prototype
    function(order, out)
    assert out[0] == 14.5


def test_functions_return_values():
    function = notional.function()
    assert function.prototype == "float notional(float price, int32_t quantity)"
    assert function(2.5, 4) == 10.0
    scaled, length = split.function()(loom.vec3(2.0, 3.0, 6.0), 0.5)
    assert list(scaled) == [1.0, 1.5, 3.0] and length == 7.0
    assert mean.function()(np.array([1.0, 2.0, 6.0], np.float32)) == 3.0


def test_the_address_is_that_of_the_c_function():
    function = notional.function()
    pointer = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_int32)(function.address)
    assert pointer(1.5, 4) == 6.0


def test_wrong_arguments_are_named():
    function = scale.function()
    x = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match=r"native function 'scale' takes 4 arguments \(dim0, x, y, a\), 3 given"):
        function(x, x, 1.0)
    with pytest.raises(TypeError, match="argument 'y' of kernel 'scale' must have elements of type float32"):
        function(4, x, np.zeros(4), 1.0)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        function(4, x, frozen, 1.0)
    with pytest.raises(TypeError, match="argument 'quantity'"):
        notional.function()(1.0, "4")


def test_an_access_outside_of_an_array_is_refused():
    x, y = np.zeros(4, np.float32), np.zeros(3, np.float32)
    with pytest.raises(loom.LaunchError, match="axis 0 of 'y'|axis 0 of `y`"):
        scale.function()(4, x, y, 1.0)


@loom.kernel(block_dim=64)
def sums_of_blocks(x: loom.array(dtype=loom.float64), sums: loom.array(dtype=loom.float64)):
    tile = loom.shared_array(shape=64, dtype=loom.float64)
    i, t = loom.tid(), loom.thread_idx(0)
    tile[t] = x[i]
    loom.sync_threads()
    half = 32
    while half > 0:
        if t < half and i + half < x.shape[0]:
            tile[t] += tile[t + half]
        loom.sync_threads()
        half //= 2
    if t == 0:
        sums[loom.block_idx(0)] = tile[0]


@loom.kernel(block_dim=32)
def mirrored_rows(x: loom.array2d(dtype=float), out: loom.array2d(dtype=float)):
    i, j = loom.tid()
    tile = loom.shared_array(shape=32, dtype=float)
    t = loom.thread_idx(0)
    tile[t] = x[i, j]
    loom.sync_threads()
    out[i, j] = tile[loom.block_dim() - 1 - t]


@loom.kernel(block_dim=32)
def warp_sums(x: loom.array(dtype=int), out: loom.array(dtype=int)):
    i = loom.tid()
    total = loom.warp_reduce_add(x[i])
    if loom.thread_idx(0) == 0:
        out[loom.block_idx(0)] = total


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_kernels_of_blocks_have_a_workspace(n):
    function, x = sums_of_blocks.function(), np.random.default_rng(n).random(n)
    size = function.workspace_size()
    assert 64 * 8 <= size < 64 * 64
    assert function.prototype.endswith("void *workspace)")
    wanted, called, given = (np.zeros(-(-n // 64)) for _ in range(3))
    loom.launch(sums_of_blocks, n, [x, wanted])
    function(n, x, called)
    # What was there before makes no difference, nor where the memory begins.
    memory = np.full(size + 1, 255, np.uint8)
    function(n, x, given, workspace=memory[1:])
    np.testing.assert_allclose(wanted, [x[i : i + 64].sum() for i in range(0, n, 64)], rtol=1e-14)
    assert (called == wanted).all() and (given == wanted).all()
    assert memory[0] == 255
    with pytest.raises(ValueError, match=rf"needs a workspace of {size} bytes, and {size - 1} are given"):
        function(n, x, given, workspace=memory[: size - 1])
    with pytest.raises(TypeError, match="dense NumPy array that may be written"):
        function(n, x, given, workspace=memory[::2])


def test_blocks_along_rows_and_warps():
    x = np.arange(6 * 64, dtype=np.float32).reshape(6, 64)
    wanted, called = np.zeros_like(x), np.zeros_like(x)
    loom.launch(mirrored_rows, x.shape, [x, wanted])
    mirrored_rows.function()(6, 64, x, called)
    np.testing.assert_array_equal(called, wanted)
    np.testing.assert_array_equal(called, x.reshape(6, 2, 32)[:, :, ::-1].reshape(6, 64))
    numbers, sums = np.arange(128, dtype=np.int32), np.zeros(4, np.int32)
    warp_sums.function()(128, numbers, sums)
    np.testing.assert_array_equal(sums, numbers.reshape(4, 32).sum(axis=1))


@loom.func
def of_all_sorts(a: loom.int8, b: loom.uint16, c: bool, d: loom.uint64, e: loom.float16) -> loom.uint64:
    return loom.uint64(loom.int32(a) + loom.int32(b) + loom.where(c, 1000, 0)) + d + loom.uint64(loom.int32(e))


@loom.func
def is_less(a: loom.float64, b: loom.float64) -> bool:
    return a < b


@loom.func
def lowered(a: loom.int8) -> loom.int8:
    return a - loom.int8(1)


@pytest.mark.parametrize("way", ["vector", "tuple"])
def test_all_types_of_numbers(way):
    sorts, less, lower = (
        f.function() if way == "vector" else f.function().__call__ for f in (of_all_sorts, is_less, lowered)
    )
    assert sorts(-3, 40_000, True, 2**63, 7.0) == -3 + 40_000 + 1000 + 2**63 + 7
    assert sorts(np.int8(-3), 40_000, False, 5, np.float16(7.0)) == -3 + 40_000 + 5 + 7
    assert less(1.0, 2.0) is True and less(2.0, 1.0) is False and less(1, np.float64(2.0)) is True
    assert lower(-127) == -128 and lower(-128) == 127
    # As for launches, a negative number stands for that of its bits where the parameter is unsigned.
    assert sorts(0, -1, False, 0, 0.0) == 65535 and sorts(0, 0, False, -1, 0.0) == 2**64 - 1
    for function, arguments in [
        (lower, (128,)),
        (lower, (-129,)),
        (sorts, (0, 65536, True, 0, 0.0)),
        (sorts, (0, 0, True, 2**64, 0.0)),
    ]:
        with pytest.raises(OverflowError):
            function(*arguments)


def test_the_object_is_its_function():
    function = scale.function()
    assert function.__name__ == "scale" and repr(function).startswith("<native function 'int32_t scale(")
    assert callable(function)
    with pytest.raises(AttributeError):
        function.absent  # noqa: B018
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        function(1, 2, wrong=3)
    # A call keeps no argument and no function.
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    call = total.function()
    sums, given = np.zeros(1), np.ones(3)
    before = [sys.getrefcount(each) for each in (given, sums, call, None)]
    for _ in range(1000):
        call(given, sums)
        call(given[::1], sums)
    after = [sys.getrefcount(each) for each in (given, sums, call, None)]
    assert before[:3] == after[:3] and abs(after[3] - before[3]) < 100
    function(4, x, y, 1.0)
    for _ in range(100):
        assert notional.function()(2.5, 4) == 10.0


def test_explain_is_of_calls():
    # A launch runs this kernel in groups of threads, and a call is one.
    text = total.function().explain()
    assert text.startswith("a call runs one thread\n") and "threads run in groups" not in text
    assert "one thread" not in scale.function().explain()


def test_others_need_no_workspace():
    for function in (scale.function(), notional.function(), mean.function()):
        assert function.workspace_size() == 0 and "workspace" not in function.prototype


def test_a_failed_check_has_its_line():
    x, out = np.zeros(4, np.float32), np.zeros(2, np.float32)
    with pytest.raises(loom.LaunchError, match="an index is out of bounds for axis 0 of `x`") as caught:
        gather.function()(2, x, np.array([1, 9], np.int32), out)
    assert caught.value.file == __file__


def test_what_prints_is_no_native_function():
    with pytest.raises(Exception, match="prints, and a native function has nowhere to print to"):
        prints.function()


@loom.kernel(critical_path=True)
def mixed(
    n: int, m: loom.int64, a: float, b: loom.float64, x: loom.array(dtype=float), out: loom.array(dtype=loom.float64)
):
    s = loom.float64(x[0]) * b + loom.float64(n)
    out[0] = s
    out[1] = loom.float64(m) + loom.float64(a)


@loom.func
def product(price: loom.int32, quantity: loom.int32) -> loom.int64:
    return loom.int64(price) * loom.int64(quantity)


@pytest.mark.parametrize("way", ["vector", "tuple"])
def test_plain_arguments_and_others_give_the_same(way):
    function, values = mixed.function(), product.function()
    if way == "tuple":
        function, values = function.__call__, values.__call__
    x = np.arange(1, 9, dtype=np.float32)
    whole = np.zeros(4)
    cases = [
        (3, 5, 0.5, 2.0, x, np.zeros(2)),
        (np.int32(3), np.int64(5), np.float32(0.5), np.float64(2.0), x, np.zeros(2)),
        (True, 5, 1, 2, x[::-1][7:], np.zeros(2)),
        (-(2**31), 2**63 - 1, float("inf"), float("nan"), x, np.zeros(2)),
        (3, 5, 0.5, 2.0, x, whole[::2]),
    ]
    for n, m, a, b, given, out in cases:
        assert function(n, m, a, b, given, out) is None
        want = [float(given[0]) * float(b) + float(n), float(m) + float(np.float32(a))]
        np.testing.assert_array_equal(out, want)
    assert values(-7, 3_000_000) == -21_000_000
    assert values(np.int32(-7), True) == -7


@pytest.mark.parametrize("way", ["vector", "tuple"])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 5, 0.5, 2.0, np.ones(8, np.float32)), TypeError, "5 given"),
        ((2**31, 5, 0.5, 2.0, np.ones(8, np.float32), np.zeros(2)), OverflowError, "argument 'n'"),
        ((3, 5, "a", 2.0, np.ones(8, np.float32), np.zeros(2)), TypeError, "argument 'a'"),
        ((3, 5, 0.5, 2.0, np.ones(8), np.zeros(2)), TypeError, "argument 'x'"),
        ((3, 5, 0.5, 2.0, np.ones((2, 4), np.float32), np.zeros(2)), TypeError, "1 dimension"),
        ((3, 5, 0.5, 2.0, np.ones(8, np.float32), np.zeros(1)), loom.LaunchError, "out"),
        ((3, 5, 0.5, 2.0, np.ones(0, np.float32), np.zeros(2)), loom.LaunchError, "x"),
        ((3, 5, 0.5, 2.0, np.ones(8, np.float32), np.broadcast_to(np.zeros(1), 2)), ValueError, "read-only"),
    ],
)
def test_wrong_arguments_are_told_before_anything_runs(way, arguments, error, message):
    function = mixed.function() if way == "vector" else mixed.function().__call__
    with pytest.raises(error, match=message):
        function(*arguments)


@loom.func
def sum_of_warp(x: int) -> int:
    return loom.warp_reduce_add(x)


def test_a_value_of_a_block_is_refused():
    with pytest.raises(loom.CompileError, match="`sum_of_warp` gives a value and is about the threads of a block"):
        sum_of_warp.function()


def test_objects_of_native_functions_come_from_kernels_alone():
    with pytest.raises(TypeError, match="cannot create"):
        type(scale.function())()


def test_a_workspace_of_objects_is_refused():
    size = sums_of_blocks.function().workspace_size()
    with pytest.raises(TypeError, match="workspace"):
        sums_of_blocks.function()(64, np.zeros(64), np.zeros(1), workspace=np.empty(size, object))
