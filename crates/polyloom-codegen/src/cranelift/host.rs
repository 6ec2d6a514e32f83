//! The machine this process runs on: Cranelift's description of it, and the functions compiled code may call.
//!
//! Machines without instructions for rounding or fused multiply-add get calls in their place; Cranelift makes those
//! itself. Elsewhere compiled code calls nothing but other compiled code.

use crate::backend::CodegenError;
use cranelift_codegen::ir::{LibCall, Type, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable, SetError};
use std::sync::LazyLock;

/// Bumped when the same HIR comes to mean other code or other bytes.
const FORMAT: u32 = 1;

/// Cranelift set up for this machine.
pub(super) struct Host {
    /// For code that is loaded into this process.
    pub(super) isa: OwnedTargetIsa,
    /// All that compiled code depends on beside the HIR.
    pub(super) fingerprint: String,
}

/// The host, looked at once per process.
pub(super) fn host() -> Result<&'static Host, CodegenError> {
    static HOST: LazyLock<Result<Host, CodegenError>> = LazyLock::new(|| {
        let isa = build_isa(false)?;
        let mut fingerprint = format!(
            "polyloom {} format {FORMAT}, cranelift {}, {}\n{}",
            env!("CARGO_PKG_VERSION"),
            cranelift_codegen::VERSION,
            isa.triple(),
            isa.flags()
        );
        for flag in isa.isa_flags() {
            fingerprint.push_str(&format!("{flag}\n"));
        }
        Ok(Host { isa, fingerprint })
    });
    HOST.as_ref().map_err(Clone::clone)
}

/// Cranelift for this machine; position independent, for object files, or for code placed at a known address.
pub(super) fn build_isa(position_independent: bool) -> Result<OwnedTargetIsa, CodegenError> {
    let unsupported =
        |message: &str| CodegenError::new(format!("Cranelift cannot compile for this machine: {message}"));
    let configure = || -> Result<settings::Builder, SetError> {
        let mut flags = settings::builder();
        flags.set("opt_level", "speed")?;
        flags.set("is_pic", if position_independent { "true" } else { "false" })?;
        flags.set("use_colocated_libcalls", "false")?;
        flags.set("unwind_info", "false")?;
        flags.set("enable_probestack", "false")?;
        // The verifier of Cranelift's own IR is for finding our mistakes.
        flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        Ok(flags)
    };
    let flags = configure().map_err(|e| unsupported(&e.to_string()))?;
    let isa = cranelift_native::builder().map_err(unsupported)?;
    isa.finish(settings::Flags::new(flags)).map_err(|e| unsupported(&e.to_string()))
}

macro_rules! host_functions {
    ($($variant:ident = $symbol:literal, $function:expr, $params:literal, $ty:ident;)*) => {
        /// A function of the host, under the name it has in the C library.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum HostFunction {
            $($variant,)*
        }

        impl HostFunction {
            const ALL: &[HostFunction] = &[$(HostFunction::$variant),*];

            /// Its symbol in object files.
            pub(super) fn symbol(self) -> &'static str {
                match self { $(HostFunction::$variant => $symbol,)* }
            }

            /// Its address in this process.
            pub(super) fn address(self) -> u64 {
                match self { $(HostFunction::$variant => $function as *const () as usize as u64,)* }
            }

            /// How many parameters it has; they and its result have type [`HostFunction::ty`].
            pub(super) fn n_params(self) -> usize {
                match self { $(HostFunction::$variant => $params,)* }
            }

            /// The type of its parameters and result.
            pub(super) fn ty(self) -> Type {
                match self { $(HostFunction::$variant => types::$ty,)* }
            }
        }
    };
}

host_functions! {
    FmodF32 = "fmodf", fmod_f32 as extern "C" fn(f32, f32) -> f32, 2, F32;
    FmodF64 = "fmod", fmod_f64 as extern "C" fn(f64, f64) -> f64, 2, F64;
    FmaF32 = "fmaf", fma_f32 as extern "C" fn(f32, f32, f32) -> f32, 3, F32;
    FmaF64 = "fma", fma_f64 as extern "C" fn(f64, f64, f64) -> f64, 3, F64;
    FloorF32 = "floorf", floor_f32 as extern "C" fn(f32) -> f32, 1, F32;
    FloorF64 = "floor", floor_f64 as extern "C" fn(f64) -> f64, 1, F64;
    CeilF32 = "ceilf", ceil_f32 as extern "C" fn(f32) -> f32, 1, F32;
    CeilF64 = "ceil", ceil_f64 as extern "C" fn(f64) -> f64, 1, F64;
    TruncF32 = "truncf", trunc_f32 as extern "C" fn(f32) -> f32, 1, F32;
    TruncF64 = "trunc", trunc_f64 as extern "C" fn(f64) -> f64, 1, F64;
    NearestF32 = "nearbyintf", nearest_f32 as extern "C" fn(f32) -> f32, 1, F32;
    NearestF64 = "nearbyint", nearest_f64 as extern "C" fn(f64) -> f64, 1, F64;
}

extern "C" fn fmod_f32(a: f32, b: f32) -> f32 {
    a % b
}
extern "C" fn fmod_f64(a: f64, b: f64) -> f64 {
    a % b
}
extern "C" fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}
extern "C" fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}
extern "C" fn floor_f32(x: f32) -> f32 {
    x.floor()
}
extern "C" fn floor_f64(x: f64) -> f64 {
    x.floor()
}
extern "C" fn ceil_f32(x: f32) -> f32 {
    x.ceil()
}
extern "C" fn ceil_f64(x: f64) -> f64 {
    x.ceil()
}
extern "C" fn trunc_f32(x: f32) -> f32 {
    x.trunc()
}
extern "C" fn trunc_f64(x: f64) -> f64 {
    x.trunc()
}
extern "C" fn nearest_f32(x: f32) -> f32 {
    x.round_ties_even()
}
extern "C" fn nearest_f64(x: f64) -> f64 {
    x.round_ties_even()
}

impl HostFunction {
    /// The function Cranelift means by one of its library calls.
    pub(super) fn of_libcall(libcall: LibCall) -> Option<HostFunction> {
        Some(match libcall {
            LibCall::CeilF32 => HostFunction::CeilF32,
            LibCall::CeilF64 => HostFunction::CeilF64,
            LibCall::FloorF32 => HostFunction::FloorF32,
            LibCall::FloorF64 => HostFunction::FloorF64,
            LibCall::TruncF32 => HostFunction::TruncF32,
            LibCall::TruncF64 => HostFunction::TruncF64,
            LibCall::NearestF32 => HostFunction::NearestF32,
            LibCall::NearestF64 => HostFunction::NearestF64,
            LibCall::FmaF32 => HostFunction::FmaF32,
            LibCall::FmaF64 => HostFunction::FmaF64,
            _ => return None,
        })
    }

    /// The function with this number.
    pub(super) fn from_number(number: u32) -> Option<HostFunction> {
        HostFunction::ALL.get(number as usize).copied()
    }

    /// The convention it is called by.
    pub(super) fn call_conv() -> CallConv {
        CallConv::triple_default(&target_lexicon::Triple::host())
    }
}
