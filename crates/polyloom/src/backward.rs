//! Derivatives of kernels: backward kernels, and kernels with tangents.

use crate::kernel::Kernel;
use polyloom_frontend::typed_ast::Param;
use polyloom_frontend::{CompileError, ValueType};
use polyloom_ir::{FuncId, Module, Type};
use polyloom_passes::autodiff::{self, Request};
use polyloom_runtime::{PerProcess, without_fork};
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel's backward kernel, and what a launch of it needs beside the kernel's arguments.
///
/// Its parameters are the kernel's; the adjoints of those that are active; tapes; and, if there are tapes, the number
/// of threads that have a place on them.
pub struct Backward {
    /// The backward kernel.
    pub kernel: Kernel,
    /// The parameters of the kernel's HIR that the adjoints are of, in order.
    pub adjoints: Vec<usize>,
    /// Of each tape, which of the numbers that `sizes` finds is its first extent. The second is the number of threads.
    pub tapes: Vec<usize>,
    /// The kernel that finds out how long tapes have to be: it takes the kernel's arguments and an array of `n_sizes`
    /// numbers that begin at zero.
    pub sizes: Option<Kernel>,
    /// How many numbers `sizes` finds.
    pub n_sizes: usize,
    /// By parameter of the kernel's HIR: whether the backward kernel writes the array, so that it has to be given a
    /// copy.
    pub replayed: Vec<bool>,
    /// By parameter of the kernel's HIR: whether what the array held before the kernel ran matters.
    pub reads: Vec<bool>,
    /// By parameter of the kernel's HIR: whether the kernel itself writes the array.
    pub writes: Vec<bool>,
}

/// A kernel that computes, beside what a kernel computes, its derivative in a direction.
///
/// Its parameters are the kernel's, and the tangents of those that are active.
pub struct Tangent {
    /// The kernel with tangents.
    pub kernel: Kernel,
    /// The parameters of the kernel's HIR that the tangents are of, in order.
    pub tangents: Vec<usize>,
}

/// The derivatives of a kernel that have been asked for.
#[derive(Default)]
pub(crate) struct Derivatives {
    backward: Known<Backward>,
    tangent: Known<Tangent>,
}

type Known<T> = PerProcess<Mutex<Vec<(Request, Arc<T>)>>>;

/// What is known of this request, or else what `make` makes of it.
fn known<T>(
    known: &Known<T>,
    request: &Request,
    make: impl FnOnce() -> Result<T, CompileError>,
) -> Result<Arc<T>, CompileError> {
    let mut known = known.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, made)) = known.iter().find(|(key, _)| key == request) {
        return Ok(made.clone());
    }
    let made = Arc::new(make()?);
    known.push((request.clone(), made.clone()));
    Ok(made)
}

impl Backward {
    /// The types of the tapes' elements.
    pub fn tape_types(&self) -> impl Iterator<Item = Type> {
        let first = self.replayed.len() + self.adjoints.len();
        let types = self.kernel.types()[first..].iter().take(self.tapes.len());
        types.filter_map(|ty| ty.as_any_array().map(|(elem, _)| elem))
    }
}

impl Kernel {
    /// A backward kernel.
    ///
    /// # Errors
    ///
    /// Where the kernel has no derivative: what to write instead.
    pub fn backward(&self, request: &Request) -> Result<Arc<Backward>, CompileError> {
        known(&self.derivatives().backward, request, || {
            let (module, id) = self.module();
            let made = without_fork(|| autodiff::backward(module, id, request));
            let made = made.map_err(|diagnostics| self.rejected(diagnostics))?;
            Ok(Backward {
                kernel: self.derived(made.module, made.kernel),
                adjoints: made.adjoints,
                tapes: made.tapes,
                sizes: made.sizes.map(|(module, id)| self.derived(module, id)),
                n_sizes: made.n_sizes,
                replayed: made.replayed,
                reads: made.reads,
                writes: made.writes,
            })
        })
    }

    /// The kernel with tangents of the active parameters, and of all arrays that the kernel writes.
    ///
    /// # Errors
    ///
    /// Where the kernel has no derivative: what to write instead.
    pub fn tangent(&self, request: &Request) -> Result<Arc<Tangent>, CompileError> {
        known(&self.derivatives().tangent, request, || {
            let (module, id) = self.module();
            let made = without_fork(|| autodiff::tangent(module, id, request));
            let made = made.map_err(|diagnostics| self.rejected(diagnostics))?;
            Ok(Tangent { kernel: self.derived(made.module, made.kernel), tangents: made.tangents })
        })
    }

    /// A kernel made of this one.
    fn derived(&self, module: Module, id: FuncId) -> Kernel {
        let function = &module.functions[id];
        let params = function.param_names.iter().zip(function.params());
        let params =
            params.map(|(name, &param)| Param { name: name.clone(), ty: ValueType::Plain(function.ty(param)) });
        let arguments: Box<[Param]> = params.collect();
        self.beside(module, id, arguments)
    }
}
