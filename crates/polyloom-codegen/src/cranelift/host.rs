//! The machine this process runs on: Cranelift's description of it, and the functions compiled code may call.
//!
//! Machines without instructions for rounding or fused multiply-add get calls in their place; Cranelift makes those
//! itself. Elsewhere compiled code calls nothing but other compiled code.

use crate::backend::CodegenError;
use cranelift_codegen::ir::LibCall;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable, SetError};
use std::sync::LazyLock;

/// Bumped when the same HIR comes to mean other code or other bytes.
const FORMAT: u32 = 2;

/// Cranelift set up for this machine.
pub(super) struct HostIsa {
    /// For code that is loaded into this process.
    pub(super) isa: OwnedTargetIsa,
    /// Holds what it was set up with.
    pub(super) features: HostFeatures,
    pub(super) effort: CompileEffort,
    /// All that compiled code depends on beside the HIR.
    pub(super) fingerprint: String,
    /// The fingerprint's hash, which objects carry.
    pub(super) identity: [u8; 32],
}

/// Says which instructions may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HostFeatures {
    /// All that the machine has.
    Native,
    /// Those every machine of its architecture has.
    Baseline,
}

/// Describes how much time goes into code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CompileEffort {
    /// As much as pays where code is run for a while.
    Usual,
    /// As little as may be.
    Least,
}

/// The host, looked at once per process.
pub(super) fn host(features: HostFeatures, effort: CompileEffort) -> Result<&'static HostIsa, CodegenError> {
    type Known = LazyLock<Result<HostIsa, CodegenError>>;
    static NATIVE: Known = LazyLock::new(|| HostIsa::new(HostFeatures::Native, CompileEffort::Usual));
    static BASELINE: Known = LazyLock::new(|| HostIsa::new(HostFeatures::Baseline, CompileEffort::Usual));
    static NATIVE_AT_LEAST: Known = LazyLock::new(|| HostIsa::new(HostFeatures::Native, CompileEffort::Least));
    static BASELINE_AT_LEAST: Known = LazyLock::new(|| HostIsa::new(HostFeatures::Baseline, CompileEffort::Least));
    let host = match (features, effort) {
        (HostFeatures::Native, CompileEffort::Usual) => &NATIVE,
        (HostFeatures::Baseline, CompileEffort::Usual) => &BASELINE,
        (HostFeatures::Native, CompileEffort::Least) => &NATIVE_AT_LEAST,
        (HostFeatures::Baseline, CompileEffort::Least) => &BASELINE_AT_LEAST,
    };
    host.as_ref().map_err(Clone::clone)
}

impl HostIsa {
    fn new(features: HostFeatures, effort: CompileEffort) -> Result<HostIsa, CodegenError> {
        let isa = build_isa(features, effort, false)?;
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
        let identity = *blake3::hash(fingerprint.as_bytes()).as_bytes();
        Ok(HostIsa { isa, features, effort, fingerprint, identity })
    }
}

/// Cranelift for this machine; position independent, for object files, or for code placed at a known address.
pub(super) fn build_isa(
    features: HostFeatures,
    effort: CompileEffort,
    position_independent: bool,
) -> Result<OwnedTargetIsa, CodegenError> {
    let unsupported =
        |message: &str| CodegenError::new(format!("Cranelift cannot compile for this machine: {message}"));
    let configure = || -> Result<settings::Builder, SetError> {
        let mut flags = settings::builder();
        // Measured on small kernels (`examples/time_cranelift.rs`): optimising takes 25 to 45 % more time and makes
        // kernels with array arithmetic up to twice as fast; the single-pass register allocator saves as much time
        // again, and makes loops three to five times slower.
        let (opt_level, regalloc) = match effort {
            CompileEffort::Usual => ("speed", "backtracking"),
            CompileEffort::Least => ("none", "single_pass"),
        };
        flags.set("opt_level", opt_level)?;
        flags.set("regalloc_algorithm", regalloc)?;
        flags.set("is_pic", if position_independent { "true" } else { "false" })?;
        flags.set("use_colocated_libcalls", "false")?;
        flags.set("unwind_info", "false")?;
        flags.set("enable_probestack", "false")?;
        // Functions of the module may return whole matrices.
        flags.set("enable_multi_ret_implicit_sret", "true")?;
        // Released code goes without the verifier of Cranelift's own IR, because it is for finding our mistakes.
        flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        Ok(flags)
    };
    let flags = configure().map_err(|e| unsupported(&e.to_string()))?;
    let isa = cranelift_native::builder_with_options(features == HostFeatures::Native).map_err(unsupported)?;
    isa.finish(settings::Flags::new(flags)).map_err(|e| unsupported(&e.to_string()))
}

macro_rules! host_functions {
    ($($variant:ident = $function:expr;)*) => {
        /// A function of the host that Cranelift may call, under Cranelift's name for it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(super) enum HostFunction {
            $($variant,)*
        }

        impl HostFunction {
            const ALL: &[HostFunction] = &[$(HostFunction::$variant),*];

            /// Its address in this process.
            pub(super) fn address(self) -> u64 {
                match self { $(HostFunction::$variant => $function as *const () as usize as u64,)* }
            }

            /// The call that Cranelift makes of it.
            pub(super) fn libcall(self) -> LibCall {
                match self { $(HostFunction::$variant => LibCall::$variant,)* }
            }

            /// The function behind a call that Cranelift makes; none for those it makes only where we never ask.
            pub(super) fn of_libcall(libcall: LibCall) -> Option<HostFunction> {
                HostFunction::ALL.iter().copied().find(|function| function.libcall() == libcall)
            }

            /// The function with this number.
            pub(super) fn from_number(number: u32) -> Option<HostFunction> {
                HostFunction::ALL.get(number as usize).copied()
            }
        }
    };
}

host_functions! {
    FmaF32 = fma_f32 as extern "C" fn(f32, f32, f32) -> f32;
    FmaF64 = fma_f64 as extern "C" fn(f64, f64, f64) -> f64;
    FloorF32 = floor_f32 as extern "C" fn(f32) -> f32;
    FloorF64 = floor_f64 as extern "C" fn(f64) -> f64;
    CeilF32 = ceil_f32 as extern "C" fn(f32) -> f32;
    CeilF64 = ceil_f64 as extern "C" fn(f64) -> f64;
    TruncF32 = trunc_f32 as extern "C" fn(f32) -> f32;
    TruncF64 = trunc_f64 as extern "C" fn(f64) -> f64;
    NearestF32 = nearest_f32 as extern "C" fn(f32) -> f32;
    NearestF64 = nearest_f64 as extern "C" fn(f64) -> f64;
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
