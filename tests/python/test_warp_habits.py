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


def make_scaled(factor: float, table: list[float]) -> Any:
    @loom.kernel(module="unique")
    def scaled(x: loom.array(dtype=float)):
        i = loom.tid()
        x[i] = x[i] * factor + loom.static(table[0])

    return scaled


def test_a_unique_kernel_is_made_once_for_what_it_captures():
    first = make_scaled(2.0, [1.0])
    assert make_scaled(2.0, [1.0]) is first
    others = [make_scaled(3.0, [1.0]), make_scaled(2.0, [2.0]), make_scaled(2, [1.0])]
    assert len({id(each) for each in (first, *others)}) == 4
    assert first.module.name != others[0].module.name
    x = loom.ones(1)
    loom.launch(others[1], 1, [x])
    assert x.list() == [4.0]


def test_module_options_are_for_unique_kernels():
    def k(x: loom.array(dtype=float)):
        x[0] = 1.0

    assert loom.kernel(module="unique", module_options={"fast_math": True})(k).module.options["fast_math"]
    for options, error, text in (
        ({"module_options": {}}, ValueError, 'requires module="unique"'),
        ({"module": "unique", "module_options": {"fast_mth": 1}}, ValueError, "Valid options"),
        ({"module": "unique", "module_options": 1}, TypeError, "must be a dict, got int"),
        ({"name": "1k"}, ValueError, "identifier"),
    ):
        with pytest.raises(error, match=text):
            loom.kernel(**options)(k)
    assert loom.kernel(name="other")(k).key == "other"
    with pytest.raises(TypeError, match="inline must be a bool"):
        loom.func(inline=1)(k)


def test_specialisations_are_listed():
    @loom.kernel
    def fill(x: loom.array(dtype=Any)):
        x[loom.tid()] = x.dtype(1)

    assert fill.overloads == {}
    for dtype in (float, int, float):
        loom.launch(fill, 1, [loom.zeros(1, dtype=dtype)])
    assert len(fill.overloads) == 2


@pytest.mark.parametrize("device", ENGINES)
def test_a_starred_slice_of_an_array_is_its_elements(device: str) -> None:
    @loom.kernel
    def k(a: loom.array(dtype=int), out: loom.array(dtype=loom.vec3i)):
        out[0] = loom.vec3i(*a[:3])
        out[1] = loom.vec3i(*a[1:6:2])
        out[2] = loom.vec3i(loom.max(*a[:2]), *a[3:5])

    out = loom.zeros(3, dtype=loom.vec3i, device=device)
    loom.launch(k, 1, [loom.array(np.arange(6), dtype=int, device=device)], [out], device=device)
    assert out.numpy().tolist() == [[0, 1, 2], [1, 3, 5], [1, 3, 4]]


@pytest.mark.parametrize(
    ("slice_", "text"),
    [
        ("a[0:]", "requires explicit upper bound"),
        ("a[:n]", "Slice component must be a compile-time constant"),
        ("a[:-1]", "cannot be negative for arrays"),
        ("a[3:0:-1]", "step cannot be negative"),
        ("a[0:2:0]", "Slice step cannot be zero"),
        ("a", "Starred expressions are only supported for"),
        ("a[:2000]", "at most 1024 values"),
    ],
)
def test_starred_slices_are_constant(slice_: str, text: str) -> None:
    with pytest.raises(loom.CompileError, match=text):
        define(f"@loom.kernel\ndef k(a: loom.array(dtype=int), n: int):\n    v = loom.vec3i(*{slice_})\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("v = loom.types.matrix(1.0, 2.0, 3.0)", "the `shape` argument must be specified when initializing"),
        ("v = loom.types.vector()", "the `length` argument must be specified when zero-initializing a vector"),
        ("v = loom.mat22(1.0, 2.0, 3.0)", r"values given \(3\) when constructing a matrix of shape \(2, 2\)"),
        ("v = loom.vec3(loom.vec2(1.0, 2.0))", "vector of length 3 given when copy constructing a vector of length 2"),
        ("v = loom.vec2(x, x)", "all values used to initialize this vector are expected to be of the type `float32`"),
        ("v = loom.transform(1.0, 2.0)", r"values given \(2\) when constructing a transform; expected 0, 1, or 7"),
        ("loom.expect_eq(loom.vec2(), loom.vec3())", "Can't test equality for objects with different types"),
        ("f = half\n    f = 1.0", "rebinding function-valued local.*non-function"),
        ("g = loom.grad(half)\n    g += 1.0", "Cannot reassign local 'g'.*wp.grad"),
        ("v = loom.static(1.0 / 0.0)", "Error evaluating static expression: (float )?division by zero"),
    ],
)
def test_errors_are_in_warps_words(body: str, text: str) -> None:
    source = "@loom.func\ndef half(x: float):\n    return 0.5 * x\n\n@loom.kernel\ndef k(x: loom.float64):\n    "
    with pytest.raises(loom.CompileError, match=text):
        define(source + body + "\n")


def test_a_result_that_its_annotation_does_not_say():
    for annotation, result, text in (
        ("loom.int16", "loom.int8(1)", "annotated as `int16` but the code returns a value of type `int8`"),
        ("int", "1, 2", "annotated as `int` but the code returns 2 values"),
        ("tuple[int, int]", "1, 1.5", r"the code returns a tuple with types `\(int32, float32\)`"),
        ("tuple[int, int, int]", "1, 2", "a tuple of 3 elements but the code returns 2 values"),
    ):
        with pytest.raises(loom.CompileError, match=text):
            define(f"@loom.func\ndef f() -> {annotation}:\n    return {result}\n")


def test_an_undefined_name_is_a_key_error():
    with pytest.raises(KeyError) as caught:
        define("@loom.kernel\ndef k(a: loom.array(dtype=float)):\n    a[0] = missing(a[0])\n")
    assert isinstance(caught.value, loom.CompileError)
    assert str(caught.value).splitlines()[-1] == "`missing` is not defined"


def test_ranges_take_static_bools():
    @loom.kernel
    def k(o: loom.array(dtype=int)):
        for _ in range(loom.static(True)):
            o[0] += 1

    o = loom.zeros(1, dtype=int)
    loom.launch(k, 1, [o])
    assert o.list() == [1]


def test_wrong_arguments_are_type_and_runtime_errors():
    @loom.kernel
    def k(a: loom.array(dtype=float, ndim=2)):
        a[0, 0] = 1.0

    for arguments in ([], [loom.zeros(2)], [loom.zeros((2, 2), dtype=int)], [1.0]):
        for error in (TypeError, RuntimeError):
            with pytest.raises(error) as caught:
                loom.launch(k, 1, arguments)
            assert isinstance(caught.value, loom.ArgumentError)
    with pytest.raises(ValueError, match="at most 4 dimensions"):
        loom.launch(k, (1,) * 5, [loom.zeros((1, 1))])


def test_small_things_of_the_package():
    assert loom.transform_expand((1, 2, 3, 0, 0, 0, 1)) == loom.transform((1, 2, 3))
    assert bytes(loom.quat_identity()) == np.array([0, 0, 0, 1], np.float32).tobytes()
    assert loom.get_cuda_supported_archs() == sorted({each.arch for each in loom.get_cuda_devices()})
    assert not loom.is_mempool_access_supported("cpu", "cpu")
    assert (
        loom.get_device("cpu").max_shared_memory_per_block == 0 < loom.get_device("sim:0").max_shared_memory_per_block
    )
    assert loom.ref[int] == loom.ref[int] and loom.ref[int] != loom.ref[float]
    annotation = loom.indexedarray[loom.float64]
    assert (annotation.dtype, annotation.ndim) == (loom.float64, 1)
    with pytest.raises(RuntimeError, match="Couldn't find a function 'mul'"):
        loom.mul(loom.int8(1), 1000)
    loom.config.legacy_scalar_return_types = True
    try:
        assert type(loom.sin(loom.float64(1.0))) is float
    finally:
        loom.config.legacy_scalar_return_types = None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v[1:] = loom.vec3d(5.0, 6.0, 7.0)", "The provided vector is expected to be of length 3 with dtype float32."),
        (
            "v[1:] = loom.float64(5.0)",
            "The provided value is expected to be a vector of length 3, with dtype float32.",
        ),
        (
            "v[1:] = loom.mat22(5.0, 6.0, 7.0, 8.0)",
            "The provided value is expected to be a vector of length 3, with dtype float32.",
        ),
        (
            "v[1:] = loom.vec2(5.0, 6.0)",
            "The length of the provided vector (2) isn't compatible with the given slice (expected 3).",
        ),
        ("y[i].y = v", "Composite slot assignment expects value of type float32"),
    ],
)
def test_values_of_other_types_are_type_errors(line: str, message: str) -> None:
    for error in (TypeError, ValueError, loom.CompileError):
        with pytest.raises(error) as raised:
            define(
                f"""
                @loom.kernel
                def k(y: loom.array(dtype=loom.vec4)):
                    i = loom.tid()
                    v = loom.vec4(1.0, 2.0, 3.0, 4.0)
                    {line}
                """
            )
        assert message in str(raised.value)


def test_lists_say_what_to_use() -> None:
    with pytest.raises(loom.CompileError, match=r"Use vectors like `loom.vec3\(\)` for small fixed-size collections"):
        define("@loom.kernel\ndef k():\n    x = [1.0, 2.0]\n")
    with pytest.raises(loom.CompileError, match="Construct `ast.Dict` not supported in kernels"):
        define("@loom.kernel\ndef k():\n    x = {'a': 1.0}\n")
    with pytest.raises(loom.CompileError, match=r"\(2\) when constructing a vector of length 12345"):
        define("@loom.kernel\ndef k():\n    x = loom.types.vector(1.0, 2.0, length=12345)\n")


@pytest.mark.parametrize("annotation", ["float", "loom.vec3"])
def test_kernels_return_nothing(annotation: str) -> None:
    message = "Warp kernels cannot return values"
    with pytest.raises(loom.CompileError, match=message):
        define(f"@loom.kernel\ndef k(x: float) -> {annotation}:\n    return\n")
    with pytest.raises(loom.CompileError, match=message):
        define("@loom.kernel\ndef k(x: float):\n    return x\n")


def test_unions_are_no_types_of_parameters() -> None:
    message = "Union type annotations are only supported at Python scope"
    with pytest.raises(RuntimeError, match=message):
        define("@loom.func\ndef f(x: int | float):\n    return 0.0\n")
    # What Warp says at the definition waits for no launch.
    loom.config.errors = "launch"
    try:
        with pytest.raises(RuntimeError, match=message):
            define("@loom.func\ndef f(x: loom.array(dtype=float) | float):\n    return 0.0\n")
    finally:
        loom.config.errors = "definition"


def test_annotations_of_arrays_of_what_is_no_type() -> None:
    class Custom:
        pass

    annotation = loom.array[Custom, 2]
    assert annotation.dtype is Custom and annotation.ndim == 2
    with pytest.raises(loom.CompileError):
        define("@loom.kernel\ndef k(x: A):\n    pass\n", A=annotation)


@loom.kernel
def reused_name(x: Any):
    return


def reused_name(x: float) -> type(None): ...  # noqa: F811 - the name of the kernel


def test_overloads_of_kernels_whose_name_means_something_else() -> None:
    kernel = loom.overload(reused_name)
    assert isinstance(kernel, loom.Kernel) and len(kernel.overloads) == 1

    def of_two(x: Any):
        return

    loom.kernel(name="of_two_a")(of_two)
    loom.kernel(name="of_two_b")(of_two)
    with pytest.raises(RuntimeError, match="Ambiguous kernel lookup"):

        @loom.overload
        def of_two(x: float): ...


@loom.func
def applied(g: loom.Function, x: float):
    return g(x)


@loom.func
def halved(x: float):
    return 0.5 * x


def test_functions_are_given_functions_of_kernels() -> None:
    assert applied(halved, 3.0) == 1.5 and applied(g=loom.abs, x=-2.0) == 2.0
    with pytest.raises(RuntimeError, match="Error calling function 'applied', no overload found"):
        applied(lambda x: x, 3.0)


def test_map_says_what_a_function_takes() -> None:
    x = loom.zeros(3, dtype=float)

    @loom.func
    def of_int(i: int):
        return 5.0 * float(i)

    with pytest.raises(TypeError, match=r"Number of input arguments \(2\) does not match .* arguments \(1\)$"):
        loom.map(halved, x, x)
    with pytest.raises(
        TypeError, match="Function .*__locals__of_int does not support the provided argument types float32"
    ):
        loom.map(of_int, x)


@loom.struct
class Cell:
    n: loom.uint8
    at: loom.vec3
    x: float
    is_on: bool


def test_fields_keep_scalar_types() -> None:
    cell = Cell()
    assert isinstance(cell.n, loom.uint8) and isinstance(cell.x, loom.float32) and cell.is_on is False
    assert cell.n == 0 and cell.x == 0.0 and repr(cell) == "Cell(n=0, at=vec3([0.0, 0.0, 0.0]), x=0.0, is_on=False)"
    cell.n = loom.uint8(7)
    assert isinstance(cell.n, loom.uint8) and int(cell.n) == 7
    cell.n, cell.x = 200, 1.5
    assert type(cell.n) is int and type(cell.x) is float
    with pytest.raises(OverflowError):
        cell.n = loom.int32(256)
    assert loom.array([Cell(), cell], dtype=Cell).numpy()["n"].tolist() == [0, 200]


def test_indexed_arrays_of_structs_outside_kernels() -> None:
    data = loom.array([Cell(i, loom.vec3(float(i)), 0.5 * i, True) for i in range(5)], dtype=Cell)
    chosen = data[loom.array([3, 1], dtype=int)]
    assert chosen.numpy()["n"].tolist() == [3, 1] and chosen.dtype is Cell
    assert loom.clone(chosen).dtype is Cell and loom.empty_like(chosen).shape == (2,)
    chosen.fill_(Cell(9, loom.vec3(1.0), 2.0, False))
    assert data.numpy()["n"].tolist() == [0, 9, 2, 9, 4]
    chosen.zero_()
    assert data.numpy()["x"].tolist() == [0.0, 0.0, 1.0, 0.0, 2.0]
    # What is like an indexed array of vectors has vectors for elements.
    vectors = loom.zeros(4, dtype=loom.vec3)[loom.array([2, 0], dtype=int)]
    assert loom.zeros_like(vectors).dtype is loom.vec3 and loom.array(vectors).shape == (2,)


@loom.kernel
def take_cell(cell: Cell, x: loom.array(dtype=float)):
    x[loom.tid()] = cell.x


def test_structs_as_arguments_of_recorded_launches() -> None:
    x = loom.zeros(2, dtype=float)
    with pytest.raises(RuntimeError, match="argument 'cell' expects Cell but got None"):
        loom.launch(take_cell, 1, [None, x])
    cell = Cell()
    command = loom.launch(take_cell, 2, [cell, x], record_cmd=True)
    cell.x = 3.0
    command.set_param_at_index_from_ctype(0, cell.__ctype__())
    command.set_param_by_name_from_ctype("x", x.__ctype__())
    command.launch()
    assert x.numpy().tolist() == [3.0, 3.0]


def test_a_struct_with_a_base_class_is_an_error_of_both_kinds() -> None:
    for error in (TypeError, RuntimeError):
        with pytest.raises(error, match="Warp structs must be defined as base classes$"):

            @loom.struct
            class Child(Cell):
                y: int


@loom.kernel
def add_to_cells(cells: loom.array(dtype=Cell), x: loom.array(dtype=loom.vec2), d: float):
    i = loom.tid()
    cells[i].x += d
    x[i] = loom.vec2(1.0, cells[i].x / d)


@pytest.mark.parametrize("device", ENGINES)
def test_verify_fp_tells_which_array_is_no_longer_finite(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    cells = loom.zeros(4, dtype=Cell, device=device)
    x = loom.zeros(4, dtype=loom.vec2, device=device)
    loom.config.verify_fp = True
    try:
        loom.launch(add_to_cells, 4, [cells, x, 1.0], device=device)
        assert capfd.readouterr().out == ""
        loom.launch(add_to_cells, 2, [cells, x, float("inf")], device=device)
    finally:
        loom.config.verify_fp = False
    first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("verify_fp: after kernel 'add_to_cells' 2 of 4 numbers in 'cells.x' are not finite: ")
    assert first.endswith("the first is inf, at [0]")
    assert "'x' are not finite: the first is nan, at [0, 1]" in second
    loom.launch(add_to_cells, 2, [cells, x, float("inf")], device=device)
    assert capfd.readouterr().out == ""


def test_annotations_of_arrays_take_attributes() -> None:
    annotation: Any = loom.array(dtype=loom.vec3, ndim=2)
    annotation.shape = ("nworld", 3)
    assert annotation.shape == ("nworld", 3)
    assert annotation == loom.array(dtype=loom.vec3, ndim=2)


def test_annotations_of_arrays_of_what_is_absent_can_be_made() -> None:
    annotation: Any = loom.array(dtype=loom.Texture2D, ndim=1)
    annotation.shape = ("*",)
    with pytest.raises(NotImplementedError, match="without geometry, volumes and textures"):
        annotation()


@pytest.mark.parametrize("device", ENGINES)
def test_indexed_arrays_of_any_elements(device: str) -> None:
    names, _ = warned(
        """
        from typing import Any

        Port = loom.indexedarray(dtype=Any)

        @loom.kernel
        def gather(port: loom.indexedarray(dtype=Any), out: loom.array[Any]):
            i = loom.tid()
            out[i] = port[i]

        @loom.kernel
        def named(port: Port, out: loom.array[Any]):
            i = loom.tid()
            out[i] = port[i]

        @loom.kernel
        def of_two(port: loom.indexedarray2d[Any], out: loom.array2d[Any]):
            i, j = loom.tid()
            out[i, j] = port[i, j]
        """
    )
    chosen = loom.array([3, 1], dtype=int, device=device)
    for dtype in (float, loom.vec3, loom.transform, loom.int64):
        elements = np.arange(4 * getattr(dtype, "_length_", 1)).reshape(4, -1).squeeze()
        data = loom.array(elements, dtype=dtype, device=device)
        for kernel in (names["gather"], names["named"]):
            assert kernel.is_generic
            out = loom.zeros(2, dtype=dtype, device=device)
            loom.launch(kernel, 2, [loom.indexedarray(data, [chosen]), out], device=device)
            np.testing.assert_array_equal(out.numpy(), elements[[3, 1]])
    data = loom.array(np.arange(6).reshape(2, 3), dtype=float, device=device)
    out = loom.zeros((2, 2), dtype=float, device=device)
    loom.launch(names["of_two"], (2, 2), [loom.indexedarray(data, [None, chosen - 1]), out], device=device)
    np.testing.assert_array_equal(out.numpy(), [[2, 0], [5, 3]])
    for wrong, what in ((data, "array"), (3.0, "float32"), (loom.indexedarray(data), "indexedarray")):
        with pytest.raises(TypeError, match=rf"must be indexedarray\(dtype=Any\), not {what}"):
            loom.launch(names["gather"], 2, [wrong, out], device=device)
    loom.overload(names["gather"], {"port": loom.indexedarray(dtype=loom.quat), "out": loom.array[loom.quat]})


def test_axes_of_shapes_are_chosen_when_the_code_runs():
    @loom.func
    def extent(a: loom.array3d(dtype=float), axis: int):
        return a.shape[axis]

    @loom.kernel
    def extents(a: loom.array3d(dtype=float), axes: loom.array(dtype=loom.int64), out: loom.array(dtype=int)):
        n = 1
        for i in range(3):
            out[i] = a.shape[i]
        for i in range(a.ndim - 1):
            n *= a.shape[i + 1]
        out[3] = n
        d = 1
        out[4] = a.shape[d]
        out[5] = extent(a, 2)
        for i in range(axes.shape[0]):
            out[6 + i] = a.shape[axes[i]]

    axes = np.array([0, 2, -1, -3, 3, -4, 2**40], np.int64)
    for device in ("cpu", "sim:0"):
        out = loom.zeros(6 + len(axes), dtype=int, device=device)
        a = loom.zeros((2, 3, 4), dtype=float, device=device)
        loom.launch(extents, 1, [a, loom.array(axes, device=device), out], device=device)
        # What is no axis has no extent.
        assert out.list() == [2, 3, 4, 12, 3, 4, 2, 4, 4, 2, 0, 0, 0]


def test_integers_of_other_libraries_are_flags():
    @loom.kernel
    def chosen(flag: bool, out: loom.array(dtype=float)):
        if flag:
            out[0] = 1.0

    for flag in (np.int32(1), np.uint8(7), np.int8(0), loom.int32(1), 4, np.bool_(True)):
        out = loom.zeros(1, dtype=float)
        loom.launch(chosen, 1, [flag, out])
        assert out.list() == [1.0 if flag else 0.0]
    for wrong in (1.0, np.float32(1), np.array([1, 2])):
        with pytest.raises(TypeError, match="must be bool"):
            loom.launch(chosen, 1, [wrong, loom.zeros(1, dtype=float)])
