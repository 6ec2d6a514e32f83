"""Kernels and functions that are compiled where they are used: those that name what stands further down, and those that
are refused because Polyloom does not have what they name."""

import importlib
import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest


def load(tmp_path: Path, name: str, text: str):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


HEAD = "import polyloom as wp\nfrom typing import Any\n"


def test_kernels_may_stand_above_what_they_call(tmp_path):
    text = (
        HEAD
        + """
@wp.kernel
def k(a: wp.array(dtype=float)):
    a[wp.tid()] = middle(2.0) + OFFSET

@wp.func
def middle(x: float) -> float:
    return bottom(x) + 1.0

@wp.func
def bottom(x: float) -> float:
    return x * x

OFFSET = 0.5
"""
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = load(tmp_path, "above", text)
    assert repr(module.k) == "<kernel k(…)>"
    out = np.zeros(2, np.float32)
    loom.launch(module.k, 2, [out])
    assert out.tolist() == [5.5, 5.5]
    assert repr(module.k) == "<kernel k(a: array(dtype=float32))>"
    assert "bottom" in module.k.hir()


def test_a_name_that_never_comes_is_an_error_at_the_definition(tmp_path):
    with pytest.raises(loom.CompileError, match="`nowhere` is not defined"):
        load(tmp_path, "never", HEAD + "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    a[0] = nowhere(2.0)\n")
    # What else is wrong is not put off.
    text = (
        HEAD
        + """
@wp.kernel
def k(a: wp.array(dtype=float)):
    a[0] = g(2.0)
    a[1] = wp.float64(1.0) + a[0]

@wp.func
def g(x: float):
    return x
"""
    )
    with pytest.raises(loom.CompileError, match="PL0101"):
        load(tmp_path, "also", text)


def test_a_launch_before_the_definition_says_what_is_missing(tmp_path):
    text = (
        HEAD
        + """
import numpy as np

@wp.kernel
def k(a: wp.array(dtype=float)):
    a[0] = g(2.0)

try:
    wp.launch(k, 1, [np.zeros(1, np.float32)])
except wp.CompileError as error:
    message = str(error)

@wp.func
def g(x: float):
    return x + 1.0
"""
    )
    module = load(tmp_path, "early", text)
    assert "`g` is not defined" in module.message
    out = np.zeros(1, np.float32)
    loom.launch(module.k, 1, [out])
    assert out[0] == 3.0


def test_functions_of_a_function_may_stand_below_the_kernel():
    def factory():
        @loom.kernel
        def k(a: loom.array(dtype=float)):
            a[0] = helper(2.0)

        @loom.func
        def helper(x: float):
            return x * 3.0

        return k

    out = np.zeros(1, np.float32)
    loom.launch(factory(), 1, [out])
    assert out[0] == 6.0


ABSENT = {
    "tiles": "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    t = wp.tile_load(a, shape=4)\n",
    "native": (
        "@wp.func_native('return x;')\ndef native(x: float) -> float: ...\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    a[0] = native(2.0)\n"
    ),
    "geometry": (
        "@wp.func\ndef near(mesh: wp.uint64, p: wp.vec3) -> float:\n"
        "    return wp.mesh_query_point(mesh, p, 1.0).u\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=float)):\n    a[0] = near(wp.uint64(0), wp.vec3())\n"
    ),
    "volumes": "@wp.kernel\ndef k(a: wp.array(dtype=float), v: wp.Volume):\n    a[0] = 1.0\n",
}


@pytest.mark.parametrize("what", ABSENT)
def test_what_polyloom_does_not_have_does_not_stop_an_import(tmp_path, what):
    text = HEAD + ABSENT[what] + "@wp.kernel\ndef fine(a: wp.array(dtype=float)):\n    a[wp.tid()] = 1.0\n"
    with pytest.warns(SyntaxWarning, match=rf"kernel 'k' is refused where it is launched: .*{what}"):
        module = load(tmp_path, f"absent_{what}", text)
    out = np.zeros(1, np.float32)
    loom.launch(module.fine, 1, [out])
    assert out[0] == 1.0
    for use in (
        lambda: loom.launch(module.k, 1, [out, 0][: 2 if what == "volumes" else 1]),
        module.k.compile,
        module.k.ptx,
    ):
        with pytest.raises(loom.CompileError, match=rf"(?s){what}.*-->.*\.py:\d+"):
            use()


def test_overloads_of_what_is_not_there_stop_no_import(tmp_path):
    text = HEAD + (
        "from typing import Any\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=Any)):\n    t = wp.tile_load(a, shape=4)\n"
        "made = wp.overload(k, [wp.array(dtype=wp.float32)])\n"
    )
    with pytest.warns(SyntaxWarning, match="kernel 'k' is refused where it is launched with these types: .*tiles"):
        module = load(tmp_path, "absent_overload", text)
    with pytest.raises(loom.CompileError, match=r"(?s)tiles.*-->.*\.py:\d+"):
        loom.launch(module.made, 1, [np.zeros(1, np.float32)])


def test_errors_that_follow_from_what_is_not_supported_yet_wait_with_it(tmp_path):
    text = HEAD + (
        "@wp.func\ndef swapped(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n"
        "    t = x\n    x = y\n    y = t\n    return x[0]\n"
        "@wp.struct\nclass Pair:\n    a: wp.array(dtype=float)\n    b: wp.array(dtype=float)\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=float), n: int):\n    p = Pair()\n    p.a = a\n    p.b = a\n"
        "    if n == 1:\n        v = p.a\n    elif n == 2:\n        v = p.b\n"
        "    if n == 1:\n        a[0] = v[0]\n    a[0] = swapped(a, a)\n"
    )
    with pytest.warns(SyntaxWarning, match="'k' is refused where it is launched: .* cannot be assigned again"):
        module = load(tmp_path, "follows", text)
    with pytest.raises(loom.CompileError, match="cannot be assigned again"):
        loom.launch(module.k, 1, [np.zeros(1, np.float32), 1])


def test_errors_in_the_arguments_of_what_is_defined_later_wait_with_it(tmp_path):
    text = HEAD + (
        "@wp.struct\nclass Row:\n    n: int\n"
        "@wp.kernel\ndef k(a: wp.array(dtype=int)):\n    r = Row()\n    r.n = a[0]\n    a[0] = Later.doubled(r)\n"
        "class Later:\n    @staticmethod\n    @wp.func\n    def doubled(r: Row) -> int:\n        return r.n + r.n\n"
    )
    module = load(tmp_path, "arguments_later", text)
    a = np.array([4], np.int32)
    loom.launch(module.k, 1, [a])
    assert a[0] == 8


def test_a_function_without_a_body_stops_no_import(tmp_path):
    text = HEAD + (
        "class Topology:\n    @staticmethod\n    @wp.func\n    def n_nodes(cell: int) -> int:\n"
        '        """Gives the number of nodes."""\n        ...\n'
    )
    module = load(tmp_path, "stub", text)

    with pytest.raises(loom.CompileError, match="not every path through `n_nodes` returns a value"):

        @loom.kernel
        def k(a: loom.array(dtype=int)):
            a[0] = module.Topology.n_nodes(a[0])


def test_absent_names_say_so_where_they_are_used(tmp_path):
    import polyloom.fem
    import polyloom.optim.linear
    from polyloom.optim import LBFGS
    from polyloom.render import UsdRenderer
    from polyloom.sparse import bsr_zeros

    for absent, sentence in {
        loom.Mesh: "polyloom.Mesh is not there: Polyloom is without geometry, volumes and textures",
        loom.ScopedAllocator: "polyloom.ScopedAllocator is not there: Polyloom is without allocators of programs",
        LBFGS: "polyloom.optim.LBFGS is not there: Polyloom is without optimisers other than SGD, Adam and AdamW",
        UsdRenderer: "polyloom.render.UsdRenderer is not there",
        bsr_zeros: "polyloom.sparse.bsr_zeros is not there: Polyloom is without sparse matrices",
        polyloom.fem.Grid2D: "polyloom.fem.Grid2D is not there",
        polyloom.optim.linear.cg: "polyloom.optim.linear.cg is not there",
        loom.utils.graph_coloring_assign: "polyloom.utils.graph_coloring_assign is not there: .* colouring of graphs",
    }.items():
        with pytest.raises(NotImplementedError, match=sentence):
            absent(1, x=2)
    assert not isinstance(3, loom.Mesh)
    assert loom.CaptureMode.THREAD_LOCAL.__name__ == "CaptureMode.THREAD_LOCAL"

    class Derived(loom.Mesh):
        pass

    with pytest.raises(NotImplementedError, match="polyloom.Mesh is not there"):
        Derived()
    with pytest.raises(AttributeError, match="no attribute 'sqr'"):
        _ = loom.sqr


def test_all_errors_may_wait_for_the_launch():
    assert loom.config.errors == "definition"
    with pytest.raises(ValueError, match="errors is 'definition' or 'launch'"):
        loom.config.errors = "never"
    loom.config.errors = "launch"
    try:
        with pytest.warns(SyntaxWarning, match=r"kernel 'k' is refused where it is launched: .*\[PL0101\]"):

            @loom.kernel
            def k(a: loom.array(dtype=float)):
                a[0] = loom.float64(1.0) + a[0]

    finally:
        loom.config.errors = "definition"
    with pytest.raises(loom.CompileError, match="PL0101"):
        loom.launch(k, 1, [np.zeros(1, np.float32)])


def test_annotations_may_name_variables_of_a_function_that_has_returned():
    def outer(dt, n):
        def k(a: loom.array(dtype=dt, ndim=n), b: loom.array(dtype=loom.types.vector(length=3, dtype=dt)), c: dt):
            a[0, 0] = c + b[0][1]

        return k

    for dt, numpy in ((loom.float32, np.float32), (loom.float64, np.float64)):
        kernel = loom.Kernel(func=outer(dt, 2))
        out = np.zeros((1, 1), numpy)
        loom.launch(kernel, 1, [out, np.array([[1, 2, 3]], numpy), 4.0])
        assert out[0, 0] == 6.0


def set_qualname(name):
    def change(function):
        function.__qualname__ = name
        return function

    return change


def test_annotations_in_a_class_of_a_function_may_name_variables_of_that():
    def made(Handle, Row):
        class Links:
            @staticmethod
            @loom.func
            def doubled(x: Handle, rows: loom.array(dtype=Row)) -> Handle:
                return x + x + Handle(rows.shape[0])

        return Links

    Links = made(loom.float64, loom.vec3)

    @loom.kernel
    def k(a: loom.array(dtype=loom.float64), rows: loom.array(dtype=loom.vec3)):
        a[0] = Links.doubled(a[0], rows)

    a = np.array([2.5])
    loom.launch(k, 1, [a, loom.zeros(3, dtype=loom.vec3)])
    assert a[0] == 8.0


def test_annotations_may_name_parts_of_variables_of_a_function():
    class Model:
        Handle = loom.float64
        Row = loom.vec3

    def made(model):
        class Links:
            @staticmethod
            @loom.func
            def doubled(x: model.Handle, rows: loom.array(dtype=model.Row)) -> model.Handle:
                return x + x + loom.float64(rows.shape[0])

        return Links

    def undecorated(model):
        def k(a: loom.array(dtype=model.Handle), rows: loom.array(dtype=model.Row)):
            a[0] = Links.doubled(a[0], rows)

        return k

    Links = made(Model)
    k = loom.kernel(undecorated(Model))
    a = np.array([2.5])
    loom.launch(k, 1, [a, loom.zeros(3, dtype=loom.vec3)])
    assert a[0] == 8.0


def test_decorators_of_the_program_may_stand_below_ours():
    @loom.func
    @set_qualname("abc")
    def f(x: float):
        return x + 1.0

    @loom.kernel(check=True)
    @set_qualname(name="def")
    def k(o: loom.array(dtype=float)):
        o[0] = f(o[0])

    out = np.zeros(1, np.float32)
    loom.launch(k, 1, [out])
    assert out[0] == 1.0
    assert "check" in k.metadata
    assert k.__qualname__ == "def"


def test_panics_become_internal_errors():
    # The panic is planted: none is known.
    script = (
        "import polyloom as loom\n"
        "from polyloom import _native\n"
        "try:\n    _native._panic('planted')\n"
        "except loom.InternalError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("internal error in Polyloom: planted (")
    assert "Please report it" in done.stdout
    assert done.stderr == ""


def test_a_struct_with_a_field_of_what_there_is_not_stops_no_import():
    import polyloom.fem

    with pytest.warns(SyntaxWarning, match="the struct Sampled cannot be used: its field 's' is of what polyloom.fem"):

        @loom.struct
        class Sampled:
            n: int
            s: polyloom.fem.Sample

    made = Sampled()
    with pytest.raises(NotImplementedError, match="polyloom.fem.Sample is not there"):
        made()
    with pytest.warns(SyntaxWarning, match="kernel 'k' is refused where it is launched"):

        @loom.kernel
        def k(s: Sampled, o: loom.array(dtype=int)):
            o[0] = s.n

    with pytest.raises(loom.CompileError, match="the struct Sampled cannot be used"):
        loom.launch(k, 1, [made, np.zeros(1, np.int32)])
