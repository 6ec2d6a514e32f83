//! Generic functions, and functions that take functions, types and arrays, in random kernels.

use super::generate::{ProgramGenerator, ProgramVariable};
use polyloom_ir::{CompositeKind, Scalar, Type};

/// A generic function that the text defines.
pub(super) struct GenericFunction {
    name: String,
    takes: GenericCall,
}

/// Describes what a generic function is called with, for a result of some type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GenericCall {
    /// So many values of the result's type, which is an integer or, if so, a float.
    Scalars { n: usize, float: bool },
    /// One of those in [`WRITTEN`].
    Written(usize),
}

/// Types that a written function is right for.
#[derive(Clone, Copy)]
enum TypeClass {
    Any,
    Number,
    NumberOrComposite,
    Scalar,
    FloatVector,
}

/// Functions written down here. Of an argument, `x` stands for a value of the result's type, `f` and `g` for functions
/// of one and two of those, `t` for the type, `u` for any scalar, `a` for an array and `w` for one of the thread's own.
const WRITTEN: [(&str, TypeClass, &str, &str); 10] = [
    ("twice(f, x)", TypeClass::Any, "fx", "    return f(f(x))\n"),
    (
        "fold(f: Callable, x: Any, y)",
        TypeClass::Any,
        "gxx",
        "    for n in range(3):\n        x = f(x, y)\n        if x == y:\n            break\n    return x\n",
    ),
    ("convert(T, x)", TypeClass::Scalar, "tu", "    return T(x)\n"),
    (
        "blend(x: Any, y: Any)",
        TypeClass::NumberOrComposite,
        "xx",
        "    z = x - y\n    if x == y:\n        z = x + y\n    return z\n",
    ),
    (
        "choose(x, y)",
        TypeClass::Any,
        "xx",
        "    if type(x) == loom.float32:\n        return x * 0.5 + y\n    return x if x != y else y\n",
    ),
    (
        "unroll(x: loom.Scalar)",
        TypeClass::Number,
        "x",
        "    for n in range(3):\n        x += type(x)(loom.static(2 * n + 1))\n    return x\n",
    ),
    (
        "last(a: loom.array(dtype=Any), x)",
        TypeClass::Any,
        "ax",
        "    for n in range(loom.min(len(a), 5)):\n        if a[n] != x:\n            x = a[n]\n    return x\n",
    ),
    (
        "put(a: loom.array(dtype=Any), x)",
        TypeClass::Any,
        "wx",
        "    a[len(a) - 1] = x\n    y = a[0]\n    a[0] = x if y != x else a[-1]\n    return y\n",
    ),
    (
        "total(x: loom.types.vector(length=Any, dtype=loom.Float))",
        TypeClass::FloatVector,
        "x",
        "    s = x.dtype(0.0)\n    for n in range(len(x)):\n        s += x[n]\n    return x * s\n",
    ),
    (
        "kept(f, x)",
        TypeClass::Any,
        "fx",
        "    b = loom.zeros(shape=(2,), dtype=type(x))\n    b[1] = f(x)\n    return b[1] if b[1] != b[0] else x\n",
    ),
];

impl TypeClass {
    fn contains(self, ty: Type) -> bool {
        let number = ty.as_scalar().is_some_and(|scalar| scalar != Scalar::Bool);
        let composite = ty.as_composite();
        match self {
            TypeClass::Any => true,
            TypeClass::Number => number,
            TypeClass::NumberOrComposite => number || composite.is_some_and(|c| c.elem() != Scalar::Bool),
            TypeClass::Scalar => ty.as_scalar().is_some(),
            TypeClass::FloatVector => {
                composite.is_some_and(|c| c.kind() == CompositeKind::Vector && c.elem().is_float())
            }
        }
    }
}

impl ProgramGenerator {
    /// Defines a generic function, sometimes.
    pub(super) fn generic(&mut self) {
        match self.random.below(3) {
            0 => self.generic_of_scalars(),
            1 => {
                let index = self.random.below(WRITTEN.len());
                let takes = GenericCall::Written(index);
                if self.generics.iter().any(|known| known.takes == takes) {
                    return;
                }
                let (head, _, _, body) = WRITTEN[index];
                self.line("");
                self.line("@loom.func");
                self.line(&format!("def {head}:"));
                self.text.push_str(body);
                let name = head.split('(').next().unwrap_or_default().to_owned();
                self.generics.push(GenericFunction { name, takes });
            }
            _ => {}
        }
    }

    /// A function with a random body, right for all floats or for all integers, since it is made for one type and then
    /// says `type(x0)` in its place.
    fn generic_of_scalars(&mut self) {
        let float = self.random.chance(60);
        // No builtin and no other function names these types, and what is right for them is right for larger ones.
        let stands = if float { Scalar::F16 } else { Scalar::U8 };
        let n = 1 + self.random.below(2);
        let name = self.name("h");
        let class = if float { "loom.Float" } else { "loom.Int" };
        let annotations = ["", ": Any", &format!(": {class}")].map(str::to_owned);
        let params: Vec<String> = (0..n).map(|index| format!("x{index}{}", self.random.pick(&annotations))).collect();
        let (functions, generics) = (std::mem::take(&mut self.functions), std::mem::take(&mut self.generics));
        let composites = std::mem::take(&mut self.composites);
        let definitions = self.structs.hide();
        let palette = std::mem::replace(&mut self.palette, vec![stands, stands, Scalar::I32]);
        self.stand_in = Some(stands);
        let n_before = self.text.len();
        self.begin_function(&format!("def {name}({}):", params.join(", ")));
        self.scope = (0..n).map(|index| ProgramVariable::new(format!("x{index}"), stands)).collect();
        self.function_body();
        let value = self.pinned(stands, 3);
        self.line(&format!("return {value}"));
        self.end_function();
        let body = self.text.split_off(n_before);
        self.text.push_str(&body.replace(&format!("loom.{}", stands.python_name()), "type(x0)"));
        (self.functions, self.generics, self.composites, self.palette) = (functions, generics, composites, palette);
        self.structs.show(definitions);
        self.stand_in = None;
        self.generics.push(GenericFunction { name, takes: GenericCall::Scalars { n, float } });
    }

    /// A call of a generic function that gives a value of this type.
    pub(super) fn generic_call(&mut self, ty: Type, depth: usize) -> Option<String> {
        let fits = |generic: &&GenericFunction| match generic.takes {
            GenericCall::Scalars { float, .. } => {
                ty.as_scalar().is_some_and(|scalar| if float { scalar.is_float() } else { scalar.is_int() })
            }
            GenericCall::Written(index) => WRITTEN[index].1.contains(ty),
        };
        let fitting: Vec<(String, GenericCall)> =
            self.generics.iter().filter(fits).map(|generic| (generic.name.clone(), generic.takes)).collect();
        if fitting.is_empty() {
            return None;
        }
        let (name, takes) = self.random.pick(&fitting).clone();
        let kinds = match takes {
            GenericCall::Scalars { n, .. } => &"xx"[..n],
            GenericCall::Written(index) => WRITTEN[index].2,
        };
        let mut arguments = Vec::new();
        for kind in kinds.chars() {
            arguments.push(match kind {
                'f' => self.function_of(ty, 1)?,
                'g' => self.function_of(ty, 2)?,
                't' => self.type_name(ty),
                'u' => {
                    let from = self.ty();
                    self.pinned(from, depth)
                }
                'a' => self.row_of(ty, false)?,
                'w' => self.row_of(ty, true)?,
                _ => self.pinned_of(ty, depth),
            });
        }
        Some(format!("{name}({})", arguments.join(", ")))
    }

    /// A function, builtin or not, that takes so many values of a type and gives one.
    fn function_of(&mut self, ty: Type, n_params: usize) -> Option<String> {
        let own = self.functions.iter().filter(|f| f.results == [ty] && f.params == vec![ty; n_params]);
        let mut functions: Vec<String> = own.map(|f| f.name.clone()).collect();
        if functions.is_empty() || self.random.chance(60) {
            functions = self.endomorphisms(ty, n_params);
        }
        if functions.is_empty() { None } else { Some(self.random.pick(&functions).clone()) }
    }

    /// A one-dimensional array with such elements that this thread may read, or one of its own.
    fn row_of(&mut self, ty: Type, is_local: bool) -> Option<String> {
        let mut names: Vec<String> = self
            .parts
            .iter()
            .filter(|part| part.elem == ty && part.ndim == 1 && if is_local { part.is_local } else { part.is_free() })
            .map(|part| part.name.clone())
            .collect();
        if !is_local && self.in_kernel {
            names.extend((0..self.arrays.len()).filter(|&a| self.is_row_of(a, ty)).map(|a| format!("a{a}")));
        }
        if names.is_empty() { None } else { Some(self.random.pick(&names).clone()) }
    }
}
