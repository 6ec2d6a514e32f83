"""Functions with overloads, and builtins with effects, called from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import polyloom as loom
import pytest


@loom.func
def twice(x: int):
    return 1


@loom.func
def twice(x: float):  # noqa: F811 - an overload
    return 2


@loom.func
def twice(x: loom.vec3):  # noqa: F811 - an overload
    return 3


@loom.func
def twice(x: loom.float64):  # noqa: F811 - an overload
    return 4


@loom.func
def scaled(x: float, y: Any):
    return 2


@loom.func
def scaled(x: int, y: Any):  # noqa: F811 - an overload
    return 1


def test_the_overload_whose_types_fit_runs():
    assert twice(1) == 1 and twice(1.0) == 2 and twice(x=loom.vec3()) == 3
    assert twice(loom.float64(1)) == 4 and twice(np.float64(1)) == 4
    assert twice(np.float32(1)) == 2 and twice(loom.int32(1)) == 1
    assert scaled(1.5, 2) == 2 and scaled(1, y=2) == 1
    with pytest.raises(TypeError, match=r"no overload of twice\(\) takes \(vec2\)"):
        twice(loom.vec2())
    with pytest.raises(TypeError, match="no overload"):
        twice(1, 2)


def test_expectations_print_what_is_not_met(capsys):
    loom.expect_eq(1, 1)
    loom.expect_near(1.0, 1.0 + 1e-7)
    loom.expect_neq(loom.vec2(1, 2), loom.vec2(1, 3))
    assert capsys.readouterr().out == ""
    loom.expect_eq(1, 2)
    assert capsys.readouterr().out == "Error, expect_eq() failed:\n\t Expected: 2\n\t Actual: 1\n"
    loom.expect_near(1.0, 2.0, 0.5)
    assert capsys.readouterr().out == "Error, expect_near() failed:\n\t Expected: 2.0\n\t Actual: 1.0\n"
    loom.expect_near(float("nan"), 1.0)
    assert "Actual: nan" in capsys.readouterr().out


def test_parts_of_transformations_are_set():
    t = loom.transform()
    loom.transform_set_translation(t, loom.vec3(1, 2, 3))
    loom.transform_set_rotation(t, loom.quat(1, 0, 0, 0))
    assert t == (1, 2, 3, 1, 0, 0, 0)


def test_kernels_say_their_options_and_module():
    def fill(x: loom.array(dtype=float)):
        x[loom.tid()] = 1.0

    kernel = loom.Kernel(func=fill, options={"enable_backward": False})
    assert kernel.options == {"enable_backward": False}
    assert kernel.module is loom.get_module(__name__) and kernel.module.options["enable_backward"] is True
    own = loom.Module("own")
    assert loom.Kernel(fill, module=own).module is own and loom.kernel(module=own)(fill).module is own
    assert loom.kernel(module="unique")(fill).module is not kernel.module


def test_errors_have_warps_names():
    with pytest.raises(loom.WarpCodegenError) as raised:

        @loom.kernel
        def wrong(x: loom.array(dtype=float)):
            x[loom.tid()] = "text"

    assert isinstance(raised.value, (SyntaxError, RuntimeError))
    assert loom.WarpCodegenTypeError is loom.CompileError


def test_loggers_are_kept():
    class Mine:
        def debug(self, message): ...
        def info(self, message): ...
        def warning(self, message, category=None, stacklevel=1): ...
        def error(self, message): ...

    first, mine = loom.get_logger(), Mine()
    with loom.ScopedLogger(mine):
        assert loom.get_logger() is mine
    assert loom.get_logger() is first
    loom.set_logger(mine)
    loom.set_logger(None)
    assert loom.get_logger() is first
    with pytest.raises(TypeError, match=r"no debug\(\)"):
        loom.set_logger(object())
    level = loom.config.log_level
    with loom.ScopedLogLevel(loom.LOG_ERROR):
        assert loom.config.log_level == 40
    assert loom.config.log_level == level
