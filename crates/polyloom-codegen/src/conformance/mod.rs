//! One suite of kernels for every back end.
//!
//! A back end is right when its kernels compute what [`polyloom_ir::eval`] and [`polyloom_ir::interp`] say, bit for bit.
//! Each suite here is a function of a [`Subject`] that panics with what differs. Back ends run them from their tests
//! (this module is behind the feature `conformance`):
//!
//! - [`ops`]: every native op on every type, over edge cases and random values, operands constant and not;
//! - [`control`]: every shape of control flow;
//! - [`memory`]: ranks, ranges, strides, facts, atomics;
//! - [`library`]: calls to library functions;
//! - [`host`]: traps and printing;
//! - [`rounding`]: what a float mode lets a back end do to sums of products, and no more;
//! - [`random`]: random programs.
//!
//! In the float mode `strict` every result is the reference's, bit for bit. The other modes change only float arithmetic:
//! each suite still runs in them, with [`Subject::agrees`] for a comparison, and all but sums of products still have the
//! reference's bits in `contract`.
//!
//! Reference results come from the HIR as written, the back end's from the HIR as prepared, so that a suite also
//! covers the passes between.

pub mod control;
pub mod host;
pub mod kernels;
pub mod launch;
pub mod library;
pub mod memory;
pub mod ops;
pub mod random;
pub mod rounding;
pub mod values;

use crate::backend::{Backend, Facts, LoadedCode, Variant};
use polyloom_ir::{FloatMode, FuncId, Module, Scalar};
use std::sync::Arc;

/// A suite: its name and what it does.
pub type Suite = (&'static str, fn(&Subject<'_>));

/// Every suite.
pub const SUITES: &[Suite] = &[
    ("ops::elementwise", ops::elementwise),
    ("ops::constant_operands", ops::constant_operands),
    ("ops::casts", ops::casts),
    ("control::all", control::all),
    ("memory::ranks_and_ranges", memory::ranks_and_ranges),
    ("memory::strides", memory::strides),
    ("memory::bools", memory::bools),
    ("memory::atomics", memory::atomics),
    ("memory::contention", memory::contention),
    ("library::all", library::all),
    ("host::traps", host::traps),
    ("host::checks", host::checks),
    ("host::prints", host::prints),
    ("random::few", random::few),
    ("rounding::all", rounding::all),
];

/// How a kernel is brought into the form back ends take: `polyloom_passes::pipeline::prepared`, with checks or without.
pub type Prepare = dyn Fn(&Module, FuncId, bool) -> (Module, FuncId);

/// What happens to a kernel before a back end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preparation {
    /// Nothing: it is in the form back ends take.
    AsWritten,
    /// It is prepared for unchecked execution.
    Unchecked,
    /// It is prepared for checked execution.
    Checked,
}

/// A back end under test.
pub struct Subject<'a> {
    /// The back end.
    pub backend: &'a dyn Backend,
    /// Prepares a kernel.
    pub prepare: &'a Prepare,
    /// The mode to compile in.
    pub float_mode: FloatMode,
}

impl Subject<'_> {
    /// Whether a back end may give `got` where one operation, rounded once, gives `want`.
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
    pub fn prepared(&self, module: &Module, kernel: FuncId, preparation: Preparation) -> (Module, FuncId) {
        let mut module = module.clone();
        module.functions[kernel].metadata.float_mode = self.float_mode;
        match preparation {
            Preparation::AsWritten => (module, kernel),
            _ => (self.prepare)(&module, kernel, preparation == Preparation::Checked),
        }
    }

    /// Prepares, compiles and loads a kernel.
    ///
    /// # Panics
    ///
    /// When the back end refuses.
    pub fn load(
        &self,
        module: &Module,
        kernel: FuncId,
        preparation: Preparation,
        launch_rank: u8,
        facts: Facts,
    ) -> (Module, FuncId, Arc<dyn LoadedCode>) {
        let (prepared, id) = self.prepared(module, kernel, preparation);
        let variant = Variant { launch_rank, facts };
        let code = self
            .backend
            .compile(&prepared, id, &variant)
            .and_then(|object| self.backend.load(&object))
            .unwrap_or_else(|error| panic!("{} refuses: {error}\n{prepared}", self.backend.name()));
        (prepared, id, code)
    }
}
