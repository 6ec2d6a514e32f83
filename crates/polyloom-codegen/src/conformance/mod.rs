//! One suite of kernels for every engine: back ends and the interpreter.
//!
//! An engine is right when its kernels compute what [`polyloom_ir::eval`] and [`polyloom_ir::interp`] say, bit for bit.
//! Each suite here is a function of a [`EngineSubject`] that panics with what differs. [`crate::conformance_tests`] makes
//! tests of them (this module is behind the feature `conformance`):
//!
//! - [`ops`]: every native op on every type, over edge cases and random values, operands constant and not;
//! - [`control`]: every shape of control flow;
//! - [`divisors`]: integer division by what a launch is given;
//! - [`memory`]: ranks, ranges, strides, facts, atomics;
//! - [`library`]: calls to library functions;
//! - [`host`]: traps and printing;
//! - [`rounding`]: what a float mode lets a back end do to sums of products, and no more;
//! - [`random`]: random programs.
//!
//! [`text`] makes an engine of C++ text.
//!
//! In the float mode `strict` every result is the reference's, bit for bit. The other modes change only float
//! arithmetic: each suite still runs in them, with [`EngineSubject::agrees`] for a comparison, and all but sums of products
//! still have the reference's bits in `contract`.
//!
//! Reference results come from the HIR as written, the engine's from the HIR as prepared, so that a suite also
//! covers the passes between. Of the interpreter, [`ops`], [`rounding`] and most of [`host`] show that it is right,
//! since what they expect comes from `eval` or is written down; the other suites show that prepared HIR, cut into
//! ranges, still computes what the program as written does.

pub mod control;
pub mod divisors;
pub mod host;
pub mod kernels;
pub mod launch;
pub mod library;
pub mod memory;
pub mod ops;
pub mod random;
pub mod rounding;
pub mod text;
pub mod values;

use crate::backend::{ArgFacts, Backend, CodeVariant};
use launch::ReadyKernel;
use polyloom_ir::interp::Interpreter;
use polyloom_ir::{FloatMode, FuncId, Module, Scalar};

/// Makes a module of tests, one for each suite, of what `$run`, a `fn(fn(&Subject<'_>))`, runs suites on.
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])* mod $subject:ident = $run:expr) => {
        $(#[$attribute])*
        mod $subject {
            use super::*;
            $crate::conformance_tests! { $run;
                every_op_on_every_type = ops::elementwise;
                every_op_with_a_constant_operand = ops::constant_operands;
                every_conversion = ops::casts;
                division_by_arguments = divisors::all;
                control_flow = control::all;
                ranks_and_ranges = memory::ranks_and_ranges;
                strides = memory::strides;
                any_byte_is_true = memory::bools;
                short_rows = memory::short_rows;
                wrapping_indices = memory::wrapping_indices;
                atomics = memory::atomics;
                atomics_under_contention = memory::contention;
                library_functions = library::all;
                traps = host::traps;
                checks = host::checks;
                prints = host::prints;
                random_programs = random::few;
                sums_of_products = rounding::all;
            }
        }
    };
    ($run:expr; $($name:ident = $family:ident::$suite:ident;)*) => { $(
        #[test]
        fn $name() {
            let run: fn(fn(&$crate::conformance::EngineSubject<'_>)) = $run;
            run($crate::conformance::$family::$suite);
        }
    )* };
}

/// Describes how a kernel is brought into the form back ends take: `polyloom_passes::pipeline::prepared`, with checks
/// or without.
pub type Prepare = dyn Fn(&Module, FuncId, bool) -> (Module, FuncId);

/// Makes a prepared kernel ready to run.
pub type Load<'a> = dyn Fn(&Module, FuncId, &CodeVariant) -> Result<ReadyKernel, String> + 'a;

/// Describes what happens to a kernel before a back end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HirPreparation {
    /// Nothing: it is in the form back ends take.
    AsWritten,
    /// It is prepared for unchecked execution.
    Unchecked,
    /// It is prepared for checked execution.
    Checked,
}

/// Describes what runs kernels.
#[derive(Clone, Copy)]
pub enum ConformanceEngine<'a> {
    /// Machine code of this back end.
    Backend(&'a dyn Backend),
    /// What a function makes of a prepared kernel, and a name for it.
    Loader(&'static str, &'a Load<'a>),
    /// The same for a device, which runs launches as a whole, threads in no order, and whose atomic sums of `f32` take
    /// subnormal numbers for zeros.
    Device(&'static str, &'a Load<'a>),
    /// The interpreter, which knows one float mode, `strict`, and is right in all.
    Interpreter,
}

/// An engine under test.
pub struct EngineSubject<'a> {
    /// The engine.
    pub engine: ConformanceEngine<'a>,
    /// Prepares a kernel.
    pub prepare: &'a Prepare,
    /// The mode to compile in.
    pub float_mode: FloatMode,
    /// The lanes of every kernel, if they are not left to the engine.
    pub lanes: Option<u32>,
}

impl EngineSubject<'_> {
    /// Its engine, for messages.
    pub fn name(&self) -> &'static str {
        match self.engine {
            ConformanceEngine::Backend(backend) => backend.name(),
            ConformanceEngine::Loader(name, _) | ConformanceEngine::Device(name, _) => name,
            ConformanceEngine::Interpreter => "interpreter",
        }
    }

    /// Returns true if its engine is a device.
    pub fn is_device(&self) -> bool {
        matches!(self.engine, ConformanceEngine::Device(..))
    }

    /// Returns true if an engine may give `got` where one operation, rounded once, gives `want`.
    ///
    /// Equal bits, or NaNs of any kind; in the mode `fast` also a zero of the other sign, and a finite number at most
    /// four units in the last place away.
    pub fn agrees(&self, ty: Scalar, want: u64, got: u64) -> bool {
        let near = || {
            let (want, got) = (values::ordinal(ty, want), values::ordinal(ty, got));
            matches!((want, got), (Some(want), Some(got)) if want.abs_diff(got) <= 4)
        };
        values::same(ty, want, got) || (self.float_mode == FloatMode::Fast && ty.is_float() && near())
    }

    /// A kernel, its float mode set, in the form back ends take.
    pub fn prepared(&self, module: &Module, kernel: FuncId, preparation: HirPreparation) -> (Module, FuncId) {
        let mut module = module.clone();
        module.functions[kernel].metadata.float_mode = self.float_mode;
        match preparation {
            HirPreparation::AsWritten => (module, kernel),
            _ => (self.prepare)(&module, kernel, preparation == HirPreparation::Checked),
        }
    }

    /// Prepares a kernel and makes it ready to run.
    ///
    /// # Panics
    ///
    /// When the engine refuses.
    pub fn load(
        &self,
        module: &Module,
        kernel: FuncId,
        preparation: HirPreparation,
        launch_rank: u8,
        facts: ArgFacts,
    ) -> (Module, FuncId, ReadyKernel) {
        let (prepared, id) = self.prepared(module, kernel, preparation);
        let variant = CodeVariant::new(launch_rank, facts).with_lanes(self.lanes);
        let code = match self.engine {
            ConformanceEngine::Backend(backend) => backend
                .compile(&prepared, id, &variant)
                .and_then(|object| backend.load(&object))
                .map(ReadyKernel::Machine)
                .map_err(|error| error.to_string()),
            ConformanceEngine::Loader(_, load) | ConformanceEngine::Device(_, load) => load(&prepared, id, &variant),
            ConformanceEngine::Interpreter => {
                Interpreter::new(&prepared, id).map(ReadyKernel::Interpreted).map_err(|error| error.to_string())
            }
        };
        let code = code.unwrap_or_else(|error| panic!("{} refuses: {error}\n{prepared}", self.name()));
        (prepared, id, code)
    }
}
