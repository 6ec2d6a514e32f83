"""What programs written for Warp do that Python or a stricter compiler would not: each with the value Warp gives."""

import enum
import warnings
from typing import Any

import numpy as np
import polyloom as loom
import pytest
from sources import define

ENGINES = ["cpu", "sim:0"]


def warned(source: str) -> tuple[dict[str, Any], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = define(source)
    return names, [str(warning.message).split(":")[0] for warning in caught]


@pytest.mark.parametrize("device", ENGINES)
def test_variables_that_some_paths_set_are_zero_on_the_others(device: str) -> None:
    names, messages = warned(
        """
        @loom.struct
        class S:
            a: float
            v: loom.vec2

        @loom.kernel
        def k(a: bool, b: bool, n: int, o: loom.array(dtype=float)):
            if a or b:
                x = 3.0
                m = loom.mat22(1.0, 2.0, 3.0, 4.0)
                s = S(2.0, loom.vec2(4.0, 5.0))
            for i in range(n):
                y = float(i) + 1.0
                if i == 2:
                    break
            if a:
                o[0] = x + m[1, 0]
                o[1] = s.v[1] + s.a
            else:
                o[0] = x
            o[2] = y
            o[3] = float(i)
            x = x + 1.0
            o[4] = x
        """
    )
    unset = "is not set on every path to this use [PL0204]"
    assert messages == [f"`{name}` {unset}" for name in ("x", "m", "s", "y", "i")]
    for a, b, n, expected in (
        (True, False, 5, [6, 7, 3, 2, 4]),
        (False, True, 0, [3, 0, 0, 0, 4]),
        (False, False, 2, [0, 0, 2, 1, 1]),
    ):
        o = loom.zeros(5, dtype=float, device=device)
        loom.launch(names["k"], 1, [a, b, n, o], device=device)
        assert o.numpy().tolist() == expected


def test_such_variables_have_gradients() -> None:
    names, _ = warned(
        """
        @loom.kernel
        def k(x: loom.array(dtype=float), o: loom.array(dtype=float)):
            i = loom.tid()
            if x[i] > 1.0:
                y = x[i] * x[i]
            o[i] = y + x[i]
        """
    )
    x = loom.array([0.5, 3.0], dtype=float, requires_grad=True)
    o = loom.zeros(2, dtype=float, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(names["k"], 2, [x, o])
    tape.backward(grads={o: loom.ones(2, dtype=float)})
    assert o.numpy().tolist() == [0.5, 12.0] and x.grad.numpy().tolist() == [1.0, 7.0]


def test_what_nothing_sets_is_an_error() -> None:
    with pytest.raises(loom.CompileError, match="`x` is used before it is set"):
        define(
            """
            @loom.kernel
            def k(o: loom.array(dtype=float)):
                o[0] = x
                x = 1.0
            """
        )


def test_functions_may_end_without_a_return() -> None:
    names, messages = warned(
        """
        @loom.func
        def same_group(a: int, b: int) -> bool:
            if a == 0:
                return False
            if a > 0:
                return a == b
            if a < 0:
                return a != b

        @loom.func
        def pair(a: int):
            if a > 0:
                return float(a), loom.vec2(1.0, 2.0)

        @loom.kernel
        def k(n: loom.array(dtype=int), o: loom.array(dtype=float)):
            i = loom.tid()
            if same_group(n[i], 1):
                o[i] = 7.0
            x, v = pair(n[i])
            o[i] += x + v[1]
        """
    )
    assert messages == [f"not every path through `{f}` returns a value [PL0107]" for f in ("same_group", "pair")]
    o = np.zeros(3, np.float32)
    loom.launch(names["k"], 3, [np.array([1, 0, -1], np.int32), o])
    assert o.tolist() == [10.0, 0.0, 7.0]


def test_a_function_with_no_return_at_all_is_an_error() -> None:
    with pytest.raises(loom.CompileError, match="not every path through `f` returns a value"):
        define(
            """
            @loom.func
            def f(a: int) -> float:
                b = a
            """
        )


def test_a_name_may_count_that_was_something_else() -> None:
    k = define(
        """
        @loom.kernel
        def k(o: loom.array(dtype=float)):
            k = loom.float32(2.5)
            o[0] = k
            for k in range(3):
                o[1] += float(k)
            o[2] = float(k)
        """
    )["k"]
    o = np.zeros(3, np.float32)
    loom.launch(k, 1, [o])
    assert o.tolist() == [2.5, 3.0, 2.0]


def test_scalars_have_a_dtype() -> None:
    k = define(
        """
        from typing import Any

        @loom.func
        def f(x: Any):
            return x.dtype(1.5) + x

        @loom.kernel
        def k(a: loom.array(dtype=Any), b: loom.array(dtype=Any)):
            a[0] = f(a[0])
            b[0] = f(b[0])
        """
    )["k"]
    a, b = np.ones(1), np.ones(1, np.float16)
    loom.launch(k, 1, [a, b])
    assert a[0] == 2.5 and b[0] == 2.5


def test_bool_parameters_take_flags() -> None:
    class Flag(enum.IntFlag):
        SPRING = 4
        DAMPER = 8

    k = define(
        """
        @loom.kernel
        def k(f: bool, o: loom.array(dtype=float)):
            if f:
                o[0] = 1.0
        """
    )["k"]
    for value, expected in ((Flag.SPRING & Flag(12), 1.0), (Flag.SPRING & Flag.DAMPER, 0.0), (2, 1.0), (0, 0.0)):
        o = np.zeros(1, np.float32)
        loom.launch(k, 1, [value, o])
        assert o[0] == expected
    with pytest.raises(TypeError, match="must be bool, not float"):
        loom.launch(k, 1, [1.0, np.zeros(1, np.float32)])
