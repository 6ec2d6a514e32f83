//! The functions of the kernel language that are no ops of the table: what they take are not values of one type each,
//! or they are Python's own. Tests include this file too: they run the examples and compare the stubs.

use polyloom_ir::op::ExampleLine;

/// One of them.
pub(crate) struct Function {
    /// As kernels call it, without the package.
    pub(crate) name: &'static str,
    /// Parameters and result as a type stub spells them.
    pub(crate) signature: &'static str,
    /// Holds what it does.
    pub(crate) doc: &'static str,
    /// Lines of a kernel with what they print.
    pub(crate) example: &'static [ExampleLine],
    /// The place where it comes from.
    pub(crate) origin: Origin,
}

/// Says where a name comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The package, for kernels alone: it has a type stub.
    Kernels,
    /// The package, where it is a function of Python's too.
    Package,
    /// Python.
    Python,
}

const fn gives(text: &'static str, shown: &'static str) -> ExampleLine {
    ExampleLine { text, shown: Some(shown) }
}

const fn line(text: &'static str) -> ExampleLine {
    ExampleLine { text, shown: None }
}

/// All of them.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "tid",
        signature: "() -> Any",
        doc: "The thread's index; unpacked to two, three or four names, its coordinates.",
        example: &[gives("loom.tid()", "0")],
        origin: Origin::Kernels,
    },
    Function {
        name: "printf",
        signature: "(format: str, *values: object) -> None",
        doc: "Prints by a C format string.",
        example: &[gives("loom.printf(\"%d of %.1f\\n\", 3, 2.5)", "3 of 2.5")],
        origin: Origin::Kernels,
    },
    Function {
        name: "cast",
        signature: "(x: object, dtype: T) -> T",
        doc: "The bits of `x` read as another type of the same size.",
        example: &[gives("loom.cast(1.0, loom.int32)", "1065353216")],
        origin: Origin::Kernels,
    },
    Function {
        name: "vector",
        signature: "(*components: Any, length: int = ..., dtype: Any = ...) -> _Vector",
        doc: "A vector of these components, or of `length` that are all one number.",
        example: &[
            gives("loom.vector(1.0, 2.0, 3.0)", "[1.0, 2.0, 3.0]"),
            gives("loom.vector(0.5, length=2)", "[0.5, 0.5]"),
        ],
        origin: Origin::Kernels,
    },
    Function {
        name: "matrix",
        signature: "(*components: Any, shape: tuple[int, int] = ..., dtype: Any = ...) -> _Matrix",
        doc: "A matrix of these components, row by row, or of `shape` all one number.",
        example: &[gives("loom.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))", "[[1.0, 2.0], [3.0, 4.0]]")],
        origin: Origin::Kernels,
    },
    Function {
        name: "matrix_from_rows",
        signature: "(*rows: _Vector) -> _Matrix",
        doc: "The matrix with these vectors as rows.",
        example: &[gives(
            "loom.matrix_from_rows(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))",
            "[[1.0, 2.0], [3.0, 4.0]]",
        )],
        origin: Origin::Kernels,
    },
    Function {
        name: "matrix_from_cols",
        signature: "(*cols: _Vector) -> _Matrix",
        doc: "The matrix with these vectors as columns.",
        example: &[gives(
            "loom.matrix_from_cols(loom.vec2(1.0, 2.0), loom.vec2(3.0, 4.0))",
            "[[1.0, 3.0], [2.0, 4.0]]",
        )],
        origin: Origin::Kernels,
    },
    Function {
        name: "identity",
        signature: "(n: int, dtype: Any) -> _Matrix",
        doc: "The identity matrix.",
        example: &[gives("loom.identity(n=2, dtype=float)", "[[1.0, 0.0], [0.0, 1.0]]")],
        origin: Origin::Kernels,
    },
    Function {
        name: "quat_identity",
        signature: "(dtype: Any = ...) -> _Quaternion",
        doc: "The quaternion of no rotation.",
        example: &[gives("loom.quat_identity()", "[0.0, 0.0, 0.0, 1.0]")],
        origin: Origin::Kernels,
    },
    Function {
        name: "transform_identity",
        signature: "(dtype: Any = ...) -> _Transformation",
        doc: "The transformation that moves nothing.",
        example: &[gives("loom.transform_identity()", "[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]")],
        origin: Origin::Kernels,
    },
    Function {
        name: "quaternion",
        signature: "(*components: Any, dtype: Any = ...) -> _Quaternion",
        doc: "A quaternion of x, y, z and the real part.",
        example: &[gives("loom.quaternion(1.0, 2.0, 3.0, 4.0)", "[1.0, 2.0, 3.0, 4.0]")],
        origin: Origin::Kernels,
    },
    Function {
        name: "transformation",
        signature: "(*components: Any, dtype: Any = ...) -> _Transformation",
        doc: "A transformation of a translation and a rotation.",
        example: &[gives(
            "loom.transformation(loom.vec3(1.0, 2.0, 3.0), loom.quat_identity())",
            "[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]",
        )],
        origin: Origin::Kernels,
    },
    Function {
        name: "zeros",
        signature: "(shape: tuple[int, ...], dtype: Any) -> array",
        doc: "In a kernel, an array of the thread's own, filled with zeros. The extents are constants.",
        example: &[line("b = loom.zeros(shape=(2,), dtype=int)"), line("b[1] = 5"), gives("b[0] + b[1]", "5")],
        origin: Origin::Package,
    },
    Function {
        name: "static",
        signature: "(expression: T) -> T",
        doc: "The value that a Python expression has when the kernel is defined, as a constant.",
        example: &[gives("loom.static(2 * 3)", "6")],
        origin: Origin::Package,
    },
    Function {
        name: "range",
        signature: "(start: int = 0, stop: int, step: int = 1)",
        doc: "What a `for` counts through, as in Python.",
        example: &[gives("for i in range(6, 0, -2): print(i)", "6\n4\n2")],
        origin: Origin::Python,
    },
    Function {
        name: "len",
        signature: "(x: array | Vector | Matrix) -> int",
        doc: "The extent of an array along its first axis; how many components a vector, and rows a matrix has.",
        example: &[line("a = [3, 1, 4]"), gives("len(a)", "3")],
        origin: Origin::Python,
    },
    Function {
        name: "print",
        signature: "(*values: object) -> None",
        doc: "Prints values with blanks between them and ends the line.",
        example: &[gives("print(\"x\", 2, 0.5)", "x 2 0.5")],
        origin: Origin::Python,
    },
    Function {
        name: "int",
        signature: "(x: float) -> int32",
        doc: "A number as `int32`, rounded toward zero. The other types convert likewise: `loom.uint8(x)`.",
        example: &[gives("int(-2.7)", "-2")],
        origin: Origin::Python,
    },
    Function {
        name: "float",
        signature: "(x: int) -> float32",
        doc: "A number as `float32`.",
        example: &[gives("float(3)", "3.0")],
        origin: Origin::Python,
    },
];
