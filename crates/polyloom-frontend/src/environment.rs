//! What names mean outside a kernel.
//!
//! The compiler sees a kernel's text and asks an [`NameEnvironment`] about every name the text does not define: the Python
//! package answers from live objects, [`crate::FileEnvironment`] from the rest of the file.

use crate::annotation::AnnotationReader;
use crate::custom::CustomDerivative;
use crate::param_type::ParamType;
use crate::source::{FunctionRole, SourceUnit};
use crate::structure::{StructType, ValueType};
use polyloom_ir::{Composite, CompositeKind, Op, Scalar, Type};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Resolves the free names of a function.
///
/// Python's own builtins (`range`, `len`, `float`, …) need not be resolved: the compiler knows them, and asks about
/// them only so that a user's own definition of such a name wins.
pub trait NameEnvironment: Send + Sync {
    /// Returns what a name, or a name followed by attributes, stands for. `["wp", "sin"]` is `wp.sin`; `None` if it is
    /// not defined.
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning>;

    /// The value of the Python expression at this offset of the function's file, with these variables beside the names
    /// of the environment; `None` if there is no Python here to compute it. Each occurrence is computed once.
    ///
    /// # Errors
    ///
    /// What Python says is wrong.
    fn evaluate(
        &self,
        _expression: &str,
        _offset: u32,
        _variables: &[(&str, KernelVariable)],
    ) -> Option<Result<CapturedMeaning, String>> {
        None
    }

    /// Names that are defined, for "did you mean".
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A name of a kernel in an expression that Python computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelVariable {
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float, by its bits.
    Float(u64),
    /// Something of which only the length is known.
    OfLength(u16),
}

/// The meaning of a name captured from outside.
#[derive(Clone)]
pub enum CapturedMeaning {
    /// `True`, `False`.
    Bool(bool),
    /// A Python integer: it takes the type of what it meets.
    Int(i128),
    /// A Python float: it takes the type of what it meets.
    Float(f64),
    /// A typed constant, such as a NumPy scalar or `loom.float64(1.0)`: its bits, zero-extended.
    Constant(u64, Scalar),
    /// A vector, matrix, quaternion or transform such as `loom.vec3(1.0, 2.0, 3.0)`: its components' bits,
    /// zero-extended.
    CompositeConstant(Arc<[u64]>, Composite),
    /// A scalar type; called, it converts.
    Type(Scalar),
    /// A composite type, such as `loom.vec3`; called, it makes a value.
    Composite(Composite),
    /// A struct type; called, it makes a value.
    Struct(StructType),
    /// `loom.types.vector` and its like: with `length` or `shape` and `dtype`, a composite type.
    TypeConstructor(CompositeKind),
    /// A type of parameters, such as `loom.array(dtype=float)` assigned to a name.
    Annotation(ParamType),
    /// `loom.array` and `loom.array1d` … `loom.array4d`: with `dtype` and, for the first, `ndim`, an array type.
    ArrayConstructor(Option<u8>),
    /// `loom.indexedarray` and its like: as [`CapturedMeaning::ArrayConstructor`].
    IndexedArrayConstructor(Option<u8>),
    /// `loom.ref`: with a type in brackets, that of parameters by reference.
    ReferenceConstructor,
    /// `typing.Any`: a parameter of any type.
    Any,
    /// `typing.TypeVar`: called, it makes the annotation of parameters of several types.
    TypeVariable,
    /// A builtin function.
    Builtin(BuiltinFunction),
    /// A module, by its full name.
    Module(Arc<str>),
    /// A user's function: its overloads in the order of their definition, no two of the same parameter types.
    Function(Vec<FunctionHandle>),
    /// `grad(f)`: what a function or builtin `f` of that name has as derivatives.
    Gradient(Arc<CapturedMeaning>, Arc<str>),
    /// A kernel, which other kernels cannot call.
    Kernel(Arc<str>),
    /// A string.
    Text(Arc<str>),
    /// A value the language has no place for, by the name of its Python type.
    Unsupported(Arc<str>),
    /// What stands for a part of Warp that there is not here, by the sentence that says so.
    Absent(Arc<str>),
    /// Something that only running the program would tell, in words: `set when the program runs`.
    Unknown(&'static str),
}

/// A function a kernel can call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BuiltinFunction {
    /// An operation of the op table.
    Op(Op),
    /// `tid()`: the first coordinate, or as many as it is unpacked to.
    Tid,
    /// `range(…)`, in `for` only.
    Range,
    /// `len(a)`: the extent along the first axis.
    Len,
    /// `print(…)`.
    Print,
    /// `printf("…", …)`.
    Printf,
    /// `min(…)` or `max(…)` of two or more values.
    Fold(Op),
    /// `cast(x, dtype)`: the same bits as another type.
    Cast,
    /// `static(x)`, `constant(x)`: `x`, which must be a constant.
    Constant,
    /// `grad(f)`: a function that gives the derivatives of what `f` gives.
    Grad,
    /// What makes vectors and the like and is no type.
    Construct(CompositeConstructor),
}

/// A function that makes vectors, matrices, quaternions or transforms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompositeConstructor {
    /// `vector(…, length=, dtype=)`.
    Vector,
    /// `matrix(…, shape=, dtype=)`.
    Matrix,
    /// `matrix_from_rows(…)`.
    Rows,
    /// `matrix_from_cols(…)`.
    Columns,
    /// `identity(n, dtype=)`.
    Identity,
    /// `quat_identity(dtype=)`.
    QuatIdentity,
    /// `transform_identity(dtype=)`.
    TransformIdentity,
    /// `quaternion(x, y, z, w, dtype=)`.
    Quaternion,
    /// `transformation(p, q, dtype=)`.
    Transformation,
}

impl CompositeConstructor {
    /// Returns what a call of a type's constructor makes in a kernel.
    pub(crate) fn of(kind: CompositeKind) -> CompositeConstructor {
        match kind {
            CompositeKind::Vector => CompositeConstructor::Vector,
            CompositeKind::Matrix => CompositeConstructor::Matrix,
            CompositeKind::Quaternion => CompositeConstructor::Quaternion,
            CompositeKind::Transform => CompositeConstructor::Transformation,
        }
    }

    /// Returns true if a type among its arguments is that of the elements, since the others are of numbers.
    pub(crate) fn has_dtype(self) -> bool {
        matches!(
            self,
            CompositeConstructor::Identity
                | CompositeConstructor::QuatIdentity
                | CompositeConstructor::TransformIdentity
        )
    }
}

/// A function of a file with the names it sees.
///
/// The same Python function must come with the same `Arc`s every time: they are its identity.
#[derive(Clone)]
pub struct FunctionHandle {
    /// The file.
    pub unit: Arc<SourceUnit>,
    /// Index into [`SourceUnit::functions`].
    pub function: usize,
    /// The meaning of its free names.
    pub environment: Arc<dyn NameEnvironment>,
    /// Decorator arguments beyond those in its text: a file that is one call with them, `kernel(block_dim=256)`.
    pub arguments: Option<Arc<SourceUnit>>,
    /// Holds what stands in for its own derivative.
    pub custom: Arc<CustomDerivative>,
}

/// Describes what two handles share only if they are the same function.
pub(crate) type Identity = (usize, usize, usize);

impl FunctionHandle {
    /// The function's identity.
    pub(crate) fn identity(&self) -> Identity {
        let environment = Arc::as_ptr(&self.environment).cast::<()>() as usize;
        (Arc::as_ptr(&self.unit) as usize, self.function, environment)
    }

    /// Returns true if the two are one definition, executed once.
    pub fn is_same(&self, other: &FunctionHandle) -> bool {
        self.identity() == other.identity()
    }

    /// Returns true if a definition takes parameters of the same types as an earlier one of its name, and so replaces
    /// it; others are overloads of one another.
    pub fn replaces(&self, earlier: &FunctionHandle) -> bool {
        let types = self.parameter_types(Some(ParamType::ANY));
        types.is_some() && types == earlier.parameter_types(Some(ParamType::ANY))
    }

    /// Returns what its text makes of it.
    pub fn role(&self) -> Option<FunctionRole> {
        self.unit.functions().get(self.function)?.role
    }

    /// Returns true if it may be what a derivative of `function` is made of, since it takes what that takes first.
    pub fn goes_with(&self, function: &FunctionHandle) -> bool {
        let [own, of] = [self, function].map(|handle| handle.parameter_types(Some(ParamType::ANY)));
        let (Some(own), Some(of)) = (own, of) else { return false };
        match self.role() {
            Some(FunctionRole::Gradient) => own.starts_with(&of),
            _ => own == of,
        }
    }

    /// Its parameters; `None` if an annotation is missing or wrong.
    pub fn parameters(&self) -> Option<Vec<(Arc<str>, ParamType)>> {
        let types = self.parameter_types(None)?;
        let parameters = self.unit.definition(self.function)?.parameters.iter_non_variadic_params();
        Some(parameters.map(|p| p.parameter.name.as_str().into()).zip(types).collect())
    }

    /// Whether, as a kernel, it is compiled for the types of each launch. All its parameters have annotations then.
    pub fn is_generic_kernel(&self) -> bool {
        self.parameter_types(None).is_some_and(|types| types.iter().any(|ty| ty.is_generic()))
    }

    /// Whether, as a function, it is compiled for the types of each call.
    pub(crate) fn is_generic_function(&self) -> bool {
        self.parameter_types(Some(ParamType::ANY)).is_some_and(|types| types.iter().any(|ty| ty.is_generic()))
    }

    /// Computes the static expressions in its text that need nothing of its own, and so keeps what they are now; gives
    /// whether there are no others. What is wrong with them is reported when it is compiled.
    pub fn evaluate_static_expressions(&self) -> bool {
        let lookup = |path: &[&str]| self.environment.lookup(path);
        let Some(def) = self.unit.definition(self.function) else { return true };
        if !self.unit.text(ruff_text_size::Ranged::range(def)).contains("static") {
            return true;
        }
        let (free, n_all) = crate::check::static_expressions(def, &lookup);
        for expr in &free {
            let range = ruff_text_size::Ranged::range(*expr);
            self.environment.evaluate(self.unit.text(range), range.start().to_u32(), &[]);
        }
        free.len() == n_all
    }

    pub(crate) fn parameter_types(&self, missing: Option<ParamType>) -> Option<SmallVec<[ParamType; 4]>> {
        let lookup = |path: &[&str]| self.environment.lookup(path);
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
        reader.parameter_types(self.unit.definition(self.function)?, missing)
    }

    /// The function's name.
    pub fn name(&self) -> Arc<str> {
        self.unit.functions().get(self.function).map_or_else(|| "".into(), |f| f.name.clone())
    }
}

impl fmt::Debug for FunctionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionHandle({} in {})", self.name(), self.unit.file().name)
    }
}

impl CapturedMeaning {
    /// Returns true if code compiled for the one is right for the other: the same value to the bit, the same type, the
    /// same functions.
    pub fn is_same(&self, other: &CapturedMeaning) -> bool {
        match (self, other) {
            (CapturedMeaning::Bool(a), CapturedMeaning::Bool(b)) => a == b,
            (CapturedMeaning::Int(a), CapturedMeaning::Int(b)) => a == b,
            (CapturedMeaning::Float(a), CapturedMeaning::Float(b)) => a.to_bits() == b.to_bits(),
            (CapturedMeaning::Constant(a, of), CapturedMeaning::Constant(b, other)) => (a, of) == (b, other),
            (CapturedMeaning::CompositeConstant(a, of), CapturedMeaning::CompositeConstant(b, other)) => {
                (a, of) == (b, other)
            }
            (CapturedMeaning::Type(a), CapturedMeaning::Type(b)) => a == b,
            (CapturedMeaning::Composite(a), CapturedMeaning::Composite(b)) => a == b,
            (CapturedMeaning::Struct(a), CapturedMeaning::Struct(b)) => a == b,
            (CapturedMeaning::TypeConstructor(a), CapturedMeaning::TypeConstructor(b)) => a == b,
            (CapturedMeaning::Annotation(a), CapturedMeaning::Annotation(b)) => a == b,
            (CapturedMeaning::ArrayConstructor(a), CapturedMeaning::ArrayConstructor(b)) => a == b,
            (CapturedMeaning::Any, CapturedMeaning::Any)
            | (CapturedMeaning::TypeVariable, CapturedMeaning::TypeVariable) => true,
            (CapturedMeaning::Builtin(a), CapturedMeaning::Builtin(b)) => a == b,
            (CapturedMeaning::Function(a), CapturedMeaning::Function(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
            }
            (CapturedMeaning::Module(a), CapturedMeaning::Module(b))
            | (CapturedMeaning::Kernel(a), CapturedMeaning::Kernel(b))
            | (CapturedMeaning::Text(a), CapturedMeaning::Text(b))
            | (CapturedMeaning::Absent(a), CapturedMeaning::Absent(b))
            | (CapturedMeaning::Unsupported(a), CapturedMeaning::Unsupported(b)) => a == b,
            (CapturedMeaning::Gradient(a, _), CapturedMeaning::Gradient(b, _)) => a.is_same(b),
            (CapturedMeaning::Unknown(a), CapturedMeaning::Unknown(b)) => a == b,
            _ => false,
        }
    }

    /// A type as a name of it is captured.
    pub fn of_type(ty: ValueType) -> CapturedMeaning {
        match ty {
            ValueType::Plain(Type::Scalar(scalar)) => CapturedMeaning::Type(scalar),
            ValueType::Plain(Type::Composite(composite)) => CapturedMeaning::Composite(composite),
            ValueType::Struct(of) => CapturedMeaning::Struct(of),
            array => CapturedMeaning::Annotation(ParamType::Exact(array)),
        }
    }

    /// Returns what it is, for messages: `a module`, `a string`.
    pub fn describe(&self) -> String {
        match self {
            CapturedMeaning::Bool(_) => "a bool".to_owned(),
            CapturedMeaning::Int(_) => "an integer".to_owned(),
            CapturedMeaning::Float(_) => "a float".to_owned(),
            CapturedMeaning::Constant(_, scalar) => format!("a {} constant", scalar.python_name()),
            CapturedMeaning::CompositeConstant(_, composite) => format!("a {} constant", composite.python_name()),
            CapturedMeaning::Type(scalar) => format!("the type `{}`", scalar.python_name()),
            CapturedMeaning::Composite(composite) => format!("the type `{}`", composite.python_name()),
            CapturedMeaning::Struct(of) => format!("the struct `{}`", of.name()),
            CapturedMeaning::Annotation(ParamType::Exact(_)) | CapturedMeaning::ArrayConstructor(_) => {
                "an array type".to_owned()
            }
            CapturedMeaning::Annotation(_) => "the annotation of a generic parameter".to_owned(),
            CapturedMeaning::TypeConstructor(kind) => format!("`{}` of the module `types`", kind.python_name()),
            CapturedMeaning::IndexedArrayConstructor(_) => "an array type".to_owned(),
            CapturedMeaning::ReferenceConstructor => "the annotation `ref`".to_owned(),
            CapturedMeaning::Any => "the annotation `Any`".to_owned(),
            CapturedMeaning::TypeVariable => "`TypeVar` of the module `typing`".to_owned(),
            CapturedMeaning::Builtin(_) => "a builtin function".to_owned(),
            CapturedMeaning::Module(name) => format!("the module `{name}`"),
            CapturedMeaning::Function(_) => "a function".to_owned(),
            CapturedMeaning::Gradient(..) => "the derivative of a function".to_owned(),
            CapturedMeaning::Kernel(_) => "a kernel".to_owned(),
            CapturedMeaning::Text(_) => "a string".to_owned(),
            CapturedMeaning::Unsupported(name) => format!("a value of type `{name}`"),
            CapturedMeaning::Absent(_) => "a part of Warp that Polyloom does not have".to_owned(),
            CapturedMeaning::Unknown(what) => (*what).to_owned(),
        }
    }
}
