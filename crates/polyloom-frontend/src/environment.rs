//! What names mean outside a kernel.
//!
//! The compiler sees a kernel's text and asks an [`NameEnvironment`] about every name the text does not define: the Python
//! package answers from live objects, [`crate::FileEnvironment`] from the rest of the file.

use crate::builtin_function::BuiltinFunction;
use crate::custom::CustomDerivative;
use crate::function_info::FunctionRole;
use crate::param_type::ParamType;
use crate::source::SourceUnit;
use crate::structure::{StructType, ValueType};
use polyloom_ir::{Composite, CompositeKind, Scalar, Type};
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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KernelVariable {
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float, by its bits.
    Float(u64),
    /// A vector, matrix, quaternion or transform: its components' bits, zero-extended.
    Composite(Arc<[u64]>, Composite),
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
    /// An instance of a struct without arrays: the bits of its leaves one after another, zero-extended.
    StructConstant(Arc<[u64]>, StructType),
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

    /// Returns what its text makes of it.
    pub fn role(&self) -> Option<FunctionRole> {
        self.unit.functions().get(self.function)?.role
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
            (CapturedMeaning::StructConstant(a, of), CapturedMeaning::StructConstant(b, other)) => {
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
            CapturedMeaning::StructConstant(_, of) => format!("an instance of the struct `{}`", of.name()),
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
