//! Rust's function pointers as types of native functions.

use polyloom_codegen::{CodegenError, NativeArgument, NativeArray, NativeReturn, NativeSignature};
use polyloom_ir::Scalar;
use std::ffi::c_void;

/// Describes what a Rust type can be as a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeParameter {
    /// A number by value.
    Number(Scalar),
    /// A pointer to numbers that are read.
    Numbers(Scalar),
    /// A pointer to a result.
    Result(Scalar),
    /// A pointer to an array of such elements, of this rank.
    Array(Scalar, usize),
    /// A pointer to the workspace.
    Workspace,
}

/// A scalar as Rust has it: of the 16-bit floats, their bits.
fn rust_scalar(scalar: Scalar) -> Scalar {
    if scalar.is_half() { Scalar::U16 } else { scalar }
}

impl std::fmt::Display for NativeParameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NativeParameter::Number(scalar) => f.write_str(scalar.name()),
            NativeParameter::Numbers(scalar) => write!(f, "*const {}", scalar.name()),
            NativeParameter::Result(scalar) => write!(f, "*mut {}", scalar.name()),
            NativeParameter::Workspace => f.write_str("*mut c_void"),
            NativeParameter::Array(scalar, ndim) => write!(f, "*const NativeArray<{}, {ndim}>", scalar.name()),
        }
    }
}

impl NativeParameter {
    /// The parameter that an argument of the ABI is in Rust.
    fn of(argument: NativeArgument) -> NativeParameter {
        match argument {
            NativeArgument::Extent => NativeParameter::Number(Scalar::I64),
            NativeArgument::Scalar(scalar) => NativeParameter::Number(rust_scalar(scalar)),
            NativeArgument::Components(composite) => NativeParameter::Numbers(rust_scalar(composite.elem())),
            NativeArgument::Array { elem, ndim, .. } => NativeParameter::Array(rust_scalar(elem), ndim.into()),
            NativeArgument::Result(ty) => NativeParameter::Result(rust_scalar(ty.scalar_within())),
            NativeArgument::Workspace => NativeParameter::Workspace,
        }
    }
}

/// A Rust type that parameters of native functions have.
pub trait NativeType {
    /// What it is as a parameter.
    const PARAMETER: NativeParameter;
}

/// A Rust type that native functions return, and arrays have elements of.
pub trait NativeResult {
    /// The scalar that it is.
    const SCALAR: Scalar;
}

macro_rules! numbers {
    ($($ty:ty => $scalar:ident),*) => { $(
        impl NativeType for $ty { const PARAMETER: NativeParameter = NativeParameter::Number(Scalar::$scalar); }
        impl NativeType for *const $ty { const PARAMETER: NativeParameter = NativeParameter::Numbers(Scalar::$scalar); }
        impl NativeType for *mut $ty { const PARAMETER: NativeParameter = NativeParameter::Result(Scalar::$scalar); }
        impl NativeResult for $ty { const SCALAR: Scalar = Scalar::$scalar; }
    )* };
}
numbers!(bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64);

impl NativeType for *mut c_void {
    const PARAMETER: NativeParameter = NativeParameter::Workspace;
}

impl<T: NativeResult, const N: usize> NativeType for *const NativeArray<T, N> {
    const PARAMETER: NativeParameter = NativeParameter::Array(T::SCALAR, N);
}

/// A pointer to a C function: `unsafe extern "C" fn(…) -> …` of up to 16 parameters.
///
/// # Safety
///
/// The type has the size of a pointer, and the parameters that `check` compares.
pub unsafe trait NativePointer: Copy {
    /// Compares its parameters and result with those of a native function.
    ///
    /// # Errors
    ///
    /// When they differ, with the first that does.
    fn check(signature: &NativeSignature) -> Result<(), CodegenError>;
}

fn check(signature: &NativeSignature, params: &[NativeParameter], result: Scalar) -> Result<(), CodegenError> {
    let (arguments, names) = (signature.arguments(), signature.argument_names());
    let name = &signature.name;
    if params.len() != arguments.len() {
        let (wanted, given) = (arguments.len(), params.len());
        return Err(CodegenError::new(format!("`{name}` has {wanted} parameters, not {given}: {}", names.join(", "))));
    }
    for ((param, &argument), argument_name) in params.iter().zip(&arguments).zip(&names) {
        let wanted = NativeParameter::of(argument);
        if *param != wanted {
            return Err(CodegenError::new(format!("`{argument_name}` of `{name}` is `{wanted}`, not `{param}`")));
        }
    }
    let wanted = match signature.returns {
        NativeReturn::Status => Scalar::I32,
        NativeReturn::Value(scalar) => rust_scalar(scalar),
    };
    match wanted == result {
        true => Ok(()),
        false => Err(CodegenError::new(format!("`{name}` returns {}, not {}", wanted.name(), result.name()))),
    }
}

macro_rules! pointers {
    ($($param:ident)*) => {
        // SAFETY: a function pointer, whose parameters and result are handed to `check`.
        unsafe impl<R: NativeResult, $($param: NativeType),*> NativePointer for unsafe extern "C" fn($($param),*) -> R {
            fn check(signature: &NativeSignature) -> Result<(), CodegenError> {
                check(signature, &[$($param::PARAMETER),*], R::SCALAR)
            }
        }
    };
}
pointers!();
pointers!(A);
pointers!(A B);
pointers!(A B C);
pointers!(A B C D);
pointers!(A B C D E);
pointers!(A B C D E F);
pointers!(A B C D E F G);
pointers!(A B C D E F G H);
pointers!(A B C D E F G H I);
pointers!(A B C D E F G H I J);
pointers!(A B C D E F G H I J K);
pointers!(A B C D E F G H I J K L);
pointers!(A B C D E F G H I J K L M);
pointers!(A B C D E F G H I J K L M N);
pointers!(A B C D E F G H I J K L M N O);
pointers!(A B C D E F G H I J K L M N O P);
