"""`static`, functions as arguments, and kernels made in loops and factories."""

from collections.abc import Callable

import numpy as np
import polyloom as wp
import pytest

VALUES = [2.0, 3.0, 5.0]
FLAG = False


@wp.func
def double(x: float):
    return 2.0 * x


@wp.func
def negative(x: float):
    return -x


@wp.func
def negative(x: int):  # noqa: F811 - an overload
    return -x


@wp.struct
class Data:
    data: wp.array(dtype=float)


@wp.struct
class WithArray:
    inner: Data
    y: float


FUNCTIONS = {"double": double, "negative": negative}


def launch_on(kernel, *values):
    x = np.array(values, np.float32)
    wp.launch(kernel, len(values), [x])
    return x.tolist()


def test_values_of_any_expression():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = x[i] * wp.static(sum(VALUES)) + wp.static(VALUES[1]) + wp.static(len(VALUES) + wp.static(1))
        for _j in range(wp.static(len(VALUES))):
            x[i] += wp.static(
                max(v for v in VALUES)  # over
                - 4.0
            )

    assert launch_on(k, 1.0) == [10 + 3 + 4 + 3]


def test_typed_values():
    @wp.kernel
    def k(x: wp.array(dtype=wp.float64), v: wp.array(dtype=wp.vec3)):
        x[0] = wp.static(np.float64(0.1)) + wp.static(wp.float64(0.2))
        v[0] = wp.static(wp.vec3(1.0, 2.0, 3.0) * 2.0)

    x, v = np.zeros(1), wp.zeros(1, dtype=wp.vec3)
    wp.launch(k, 1, [x, v])
    assert x[0] == 0.1 + 0.2
    assert v.numpy().tolist() == [[2, 4, 6]]


def test_functions():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        f = wp.static(FUNCTIONS["negative"])
        x[i] = f(wp.static(FUNCTIONS["double"])(x[i])) + wp.static(double if FLAG else negative)(1.0)

    assert launch_on(k, 3.0) == [-7]


def test_loops_are_unrolled_where_an_expression_names_the_counter():
    steps = [double, negative, double]

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        s = x[i]
        for j in range(3):
            f = wp.static(steps[j])
            s = f(s) + wp.static(VALUES[j]) * float(j)
            if j == 1:
                s += 100.0
        for j in range(2):
            s += float(j)
        x[i] = s

    s = 1.0
    for j in range(3):
        s = (-s if j == 1 else 2.0 * s) + VALUES[j] * j + (100 if j == 1 else 0)
    assert launch_on(k, 1.0) == [s + 1]
    assert "for_range" in k.hir()


def test_an_unrolled_loop_reads_what_the_iteration_before_has_set():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        last = 0.0
        for j in range(1, 8, 3):
            x[i] += last
            if x[i] > 1.0:
                last = wp.static(float(j))

    assert launch_on(k, 1.5, 0.0) == [6.5, 0]


def test_unrolled_loops_are_left_and_continued_by_static_conditions():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        for j in range(10):
            if wp.static(j % 2 == 0):
                continue
            if wp.static(j == 7):
                break
            x[i] += float(j)
        else:
            x[i] = -100.0
        for j in range(2):
            x[i] += wp.static(100.0 * j)
        else:
            x[i] += 1000.0

    assert launch_on(k, 0.5) == [0.5 + 1 + 3 + 5 + 100 + 1000]
    assert not k.warnings


def test_each_occurrence_is_computed_once():
    calls = []

    def call(x):
        calls.append(x)
        return float(len(calls))

    @wp.func
    def helper(x):
        return type(x)(wp.static(call("helper"))) * x

    @wp.kernel
    def k(x: wp.array(dtype=wp.Float)):
        i = wp.tid()
        x[i] = x.dtype(10.0 * wp.static(call(0)) + wp.static(call(0))) + helper(x[i])

    assert calls == ["helper", 0, 0]
    assert launch_on(k, 1.0) == [24]
    x = np.ones(1)
    wp.launch(k, 1, [x])
    assert x[0] == 24
    assert len(calls) == 3


def test_functions_run_as_python_outside_kernels():
    @wp.func
    def size(v: wp.vec2):
        return wp.length(v) + 1.0

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = wp.static(size(wp.vec2(3.0, 4.0)) + double(x=0.5))

    assert size(wp.vec2(3.0, 4.0)) == 6
    assert launch_on(k, 0.0) == [7]


def test_types_of_local_arrays_in_annotations():
    data = wp.array([[1.0, 2.0]], dtype=wp.float64)

    @wp.kernel(module="unique")
    def k(x: wp.array2d(dtype=data.dtype)):
        x[0, 0] = x[0, 1] + x.dtype(1)

    wp.launch(k, 1, [data])
    assert data.numpy().tolist() == [[3, 2]]


def test_nested_loops_and_lengths():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        v = wp.vec4(x[i])
        n = wp.static(len(v) + 1)
        s = float(n) + float(v.length - 4)
        for a in range(2):
            for b in range(2):
                s += wp.static(10.0**a) * wp.static(VALUES[a + b])
        x[i] = s

    assert launch_on(k, 1.0) == [5 + 2 + 3 + 30 + 50]


def test_branches_not_taken_are_not_compiled():
    is_vector = False

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        if wp.static(is_vector):
            x[i] = wp.length(x[i])
        elif FLAG:
            x[i] = undefined  # noqa: F821
        elif is_vector or not wp.static(len(VALUES) == 3):
            x[i] = 3.0
        else:
            y = 2.0 * x[i]
        x[i] = y + (wp.dot(x[i], x[i]) if is_vector else 1.0)

    assert launch_on(k, 4.0) == [9]
    assert not k.warnings


def test_types_choose_branches():
    @wp.func
    def size(x):
        if type(x) == wp.vec3:  # noqa: E721 - the types of kernels
            return wp.length(x)
        elif type(x) is wp.int32:
            return float(wp.abs(x))
        return wp.abs(x)

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = size(x[i]) + size(wp.vec3(3.0, 4.0, 0.0)) + size(-1)

    assert launch_on(k, -4.0) == [10]


def test_wrong_expressions(define):
    def error(body, **names):
        text = f"""
        import polyloom as wp

        @wp.kernel
        def k(x: wp.array(dtype=float)):
            i = wp.tid()
            {body}
        """
        with pytest.raises(wp.CompileError) as raised:
            define(text, **names)
        return str(raised.value)

    advice = "Make sure all variables used in the static expression are constant."
    assert f"name 'i' is not defined. {advice}" in error("x[i] = wp.static(i + 1)")
    assert "Error evaluating static expression: name 'nothing' is not defined" in error("x[i] = wp.static(nothing)")
    assert "division by zero" in error("x[i] = wp.static(1 / 0)")
    assert "`wp.static` takes one expression" in error("x[i] = wp.static()")
    assert "unsupported value: None is returned" in error("x[i] = wp.static(None)")
    array = wp.zeros(3, dtype=float)
    assert "a Warp array cannot be created inside Warp kernels" in error("x[i] = wp.static(a)", a=array)
    assert "value of type builtins.object" in error("x[i] = wp.static(a)", a=object())
    outer = WithArray()
    outer.inner.data = array
    assert "kernels at WithArray.inner" in error("x[i] = wp.static(a).y", a=outer)
    text = """for j in range(3):
                x[i] += wp.static(VALUES[j])
                if x[i] > 1.0:
                    break
    """
    wanted = "a loop that `static` unrolls cannot be left or continued by what happens when it runs"
    assert wanted in error(text, VALUES=VALUES)
    assert "value of type builtins.dict" in error("x[i] = wp.static({})")


def test_expressions_are_computed_when_the_kernel_is_defined():
    box = [1.0]

    @wp.func
    def helper(x):
        return x + type(x)(wp.static(box[0]))

    @wp.kernel
    def generic(x: wp.array(dtype=wp.Float)):
        i = wp.tid()
        x[i] = helper(x[i]) * x.dtype(wp.static(box[0] + 1.0))

    box[0] = 100.0
    assert launch_on(generic, 2.0) == [6]
    x = np.array([2.0])
    wp.launch(generic, 1, [x])
    assert x[0] == 6


@wp.func
def apply(f: Callable, x):
    return f(x)


@wp.func
def compose(f, g: wp.Function, x: float):
    return apply(g, apply(f, x))


def test_functions_are_arguments():
    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        y = compose(double, negative, x[i]) + apply(wp.sqrt, 16.0) + float(apply(negative, 2))
        x[i] = y + apply(f=wp.abs, x=-1.0) + apply(wp.float64, 1.5) if wp.static(False) else y

    assert launch_on(k, 3.0) == [-6 + 4 - 2]


def test_types_are_arguments():
    @wp.func
    def make(t, x: float):
        return t(x)

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        i = wp.tid()
        v = make(wp.vec3, x[i])
        x[i] = float(make(int, 2.75)) + v[2] + float(make(wp.float64, 0.5))

    assert launch_on(k, 3.0) == [5.5]


def test_wrong_functions(define):
    with pytest.raises(wp.CompileError) as raised:
        define(
            """
            import polyloom as wp
            from typing import Callable

            @wp.func
            def apply(f: Callable, x: float):
                return f(x)

            @wp.func
            def two(x: float, y: float):
                return x + y

            @wp.kernel
            def k(x: wp.array(dtype=float)):
                x[0] = apply(1.0, 2.0)
                x[0] = apply(wp.sin, wp.sin)
                x[0] = apply(two, 2.0)
                x[0] = apply(wp.vec3, 2.0)
            """
        )
    text = str(raised.value)
    assert "this is float32, but the parameter `f` of `apply` is Callable" in text
    assert "this is a builtin function, but the parameter `x` of `apply` is float32" in text
    assert "`f` is called wrongly: the argument `y` is missing" in text
    assert "this call compiles `apply(f: a function, x: float32)`" in text
    assert "this is the type `vec3`, but the parameter `f` of `apply` is Callable" in text


def factory(function, scale, dtype, length):
    vector = wp.types.vector(length=length, dtype=dtype)

    @wp.func
    def scaled(x: dtype):
        return function(x) * dtype(scale)

    @wp.kernel
    def k(x: wp.array(dtype=dtype), v: wp.array(dtype=vector)):
        i = wp.tid()
        x[i] = scaled(x[i])
        v[i] = vector(x[i]) * dtype(2)

    return k


@wp.func
def same(x):
    return x


def test_factories():
    cases = [(same, 3, wp.float32, 2), (same, 4, wp.float32, 2), (same, 3, wp.float64, 5), (wp.abs, 3, wp.int32, 3)]
    kernels = [factory(*case) for case in cases]
    for (function, scale, dtype, length), kernel in zip(cases, kernels, strict=True):
        x = np.array([-2, 1], dtype.numpy)
        v = np.zeros((2, length), dtype.numpy)
        wp.launch(kernel, 2, [x, v])
        want = (np.abs([-2, 1]) if function is wp.abs else np.array([-2, 1])) * scale
        assert x.tolist() == want.tolist()
        assert v.tolist() == np.repeat(2 * want[:, None], length, axis=1).tolist()


def test_kernels_of_a_loop_capture_what_the_loop_has_then():
    kernels = []
    for n in (1.0, 2.0):
        for f in (double, negative):

            @wp.func
            def step(x: float):
                return f(x) + n  # noqa: B023

            @wp.kernel
            def k(x: wp.array(dtype=float)):
                i = wp.tid()
                x[i] = step(x[i])  # noqa: B023

            kernels.append(k)
    assert [launch_on(k, 3.0) for k in kernels] == [[7], [-2], [8], [-1]]


def test_generic_kernels_of_a_factory():
    def make(n):
        @wp.kernel
        def k(x: wp.array(dtype=wp.Float)):
            i = wp.tid()
            x[i] = x[i] + x.dtype(n)

        return k

    one, two = make(1), make(2)
    for dtype in (np.float32, np.float64):
        x = np.zeros(1, dtype)
        wp.launch(one, 1, [x])
        wp.launch(two, 1, [x])
        assert x[0] == 3


@wp.struct
class Inner:
    scale: wp.float64
    flag: bool


@wp.struct
class Settings:
    n: wp.int64
    direction: wp.vec3
    inner: Inner


def settings(n, *direction, scale=1.0, flag=False):
    made = Settings()
    made.n = n
    made.direction = wp.vec3(*direction)
    made.inner.scale = scale
    made.inner.flag = flag
    return made


CHOSEN = settings(2**40 + 1, 1.0, 2.0, 3.0, scale=0.1, flag=True)


@wp.func
def total(of: Settings):
    return wp.float64(of.n) + wp.float64(of.direction[1]) + of.inner.scale


def test_structs():
    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        s = wp.static(CHOSEN)
        out[0] = wp.float64(s.n)
        out[1] = wp.float64(s.direction[2])
        out[2] = s.inner.scale
        out[3] = total(wp.static(settings(4, 0.0, 5.0, 0.0, scale=0.25)))
        if wp.static(CHOSEN).inner.flag:
            out[4] = wp.static(CHOSEN.inner).scale
        s.n = wp.int64(7)
        out[5] = wp.float64(s.n)

    out = np.zeros(6)
    wp.launch(k, 1, [out])
    assert out.tolist() == [2.0**40 + 1, 3.0, 0.1, 9.25, 0.1, 7.0]


def test_structs_of_an_unrolled_loop():
    choices = [settings(i, float(i), 0.0, 0.0) for i in range(3)]

    @wp.kernel
    def k(out: wp.array(dtype=wp.float64)):
        for i in range(3):
            s = wp.static(choices[i])
            out[i] = wp.float64(s.n) + wp.float64(s.direction[0])

    out = np.zeros(3)
    wp.launch(k, 1, [out])
    assert out.tolist() == [0.0, 2.0, 4.0]


def test_structs_with_arrays_are_refused():
    @wp.struct
    class Holder:
        values: wp.array(dtype=float)

    held = Holder()
    held.values = wp.zeros(3, dtype=float)
    with pytest.raises(Exception, match="a Warp array cannot be created inside Warp kernels at Holder"):

        @wp.kernel
        def k(out: wp.array(dtype=float)):
            s = wp.static(held)
            out[0] = s.values[0]

        k.compile()


def test_variables_that_are_constants():
    @wp.kernel
    def k(out: wp.array(dtype=float), n: int):
        a = wp.static(3)
        b = wp.static(a + 1)
        c = 2.5
        d = wp.static(c * b)
        v = wp.static(wp.vec3(1.0, 2.0, 3.0))
        for i in range(n):
            out[i] = wp.static(d + a) + wp.static(float(v[1]))
        f = 10
        f = wp.static(a * f)
        out[5] = float(wp.static(f))
        for j in range(2):
            e = wp.static(j + 30)
            out[6 + j] = float(wp.static(e + 1))

    x = np.zeros(8, np.float32)
    wp.launch(k, 1, [x, 2])
    assert x.tolist() == [15.0, 15.0, 0.0, 0.0, 0.0, 30.0, 31.0, 32.0]


@wp.func
def change(x: wp.ref[int]):
    x = x + 1


def assigned_in_a_branch(out: wp.array(dtype=int), n: int):
    a = 1
    if n > 3:
        a = 2
    out[0] = wp.static(a)


def assigned_later_in_the_loop(out: wp.array(dtype=int), n: int):
    a = 1
    for i in range(n):
        out[i] = wp.static(a)
        a = 2


def changed_by_a_call_in_the_loop(out: wp.array(dtype=int), n: int):
    a = 1
    for i in range(n):
        out[i] = wp.static(a)
        change(a)


def changed_part(out: wp.array(dtype=int), n: int):
    a = wp.static(wp.vec3i(1, 2, 3))
    for i in range(n):
        out[i] = wp.static(int(a[0]))
        a[0] = 5


def set_by_a_walrus(out: wp.array(dtype=int), n: int):
    a = 1
    if n > 3 and (a := 2) > n:
        out[1] = 1
    out[0] = wp.static(a)


def set_in_a_loop(out: wp.array(dtype=int), n: int):
    for _i in range(n):
        a = 1
    out[0] = wp.static(a)


def assigned_in_the_other_branch(out: wp.array(dtype=int), n: int):
    a = 1
    if n > 0:
        a = 2
    else:
        out[0] = wp.static(a)


def assigned_before_the_end_of_a_loop(out: wp.array(dtype=int), n: int):
    a = 1
    for _i in range(n):
        a = 2
    else:
        out[0] = wp.static(a)


def counted_by_a_loop(out: wp.array(dtype=int), n: int):
    a = 1
    for a in range(n):
        out[a] = 1
    else:
        out[0] = wp.static(a)


def assigned_between_conditions(out: wp.array(dtype=int), n: int):
    a = 3
    i = 0
    while i < wp.static(a):
        a = n
        i += 1


def drawn_from(out: wp.array(dtype=int), n: int):
    a = wp.uint32(7)
    for i in range(n):
        out[i] = wp.static(a)
        out[i] += wp.randi(a)


@pytest.mark.parametrize(
    "function",
    [
        assigned_in_the_other_branch,
        assigned_before_the_end_of_a_loop,
        counted_by_a_loop,
        assigned_between_conditions,
        drawn_from,
        assigned_in_a_branch,
        assigned_later_in_the_loop,
        changed_by_a_call_in_the_loop,
        changed_part,
        set_by_a_walrus,
        set_in_a_loop,
    ],
)
def test_variables_that_change_are_no_constants(function):
    with pytest.raises(wp.CompileError, match="`a` is a variable of the kernel|static"):
        wp.kernel(function).compile()


def test_a_counter_has_its_last_value_after_its_loop():
    @wp.kernel
    def k(out: wp.array(dtype=int)):
        at = 0
        for i in range(2):
            for i in range(1, 8, 3):  # noqa: B007 - the name again
                pass
            out[at] = wp.static(i * 10) + i
            at += 1
        for j in range(5, -4, -2):  # noqa: B007 - its last value is used
            out[2] += 1
        out[3] = wp.static(j)

    out = np.zeros(4, np.int32)
    wp.launch(k, 1, [out])
    assert out.tolist() == [77, 77, 5, -3]


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(3):\n        if x[0] > 0.0:\n            break",
        "for i in range(3):\n        i = 7",
        "for i in range(int(x[0])):\n        pass",
        "for i in range(0):\n        pass",
    ],
)
def test_a_counter_whose_last_value_is_not_known(define, body):
    with pytest.raises(wp.CompileError, match="name 'i' is not defined|`i` is not|static"):
        define(
            f"""
@loom.kernel
def k(x: loom.array(dtype=float)):
    {body}
    x[1] = float(loom.static(i))
"""
        )
