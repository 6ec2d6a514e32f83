//! Derivatives of kernels: backward kernels, and kernels with tangents.

use crate::kernel::Kernel;
use polyloom_frontend::typed_ast::Param;
use polyloom_frontend::{CompileError, ValueType};
use polyloom_ir::{FuncId, Module, Type};
use polyloom_passes::autodiff::{self, Request, TapeExtent};
use polyloom_runtime::{PerProcess, without_fork};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A kernel's backward kernel, and what a launch of it needs beside the kernel's arguments.
///
/// Its parameters are the kernel's; the adjoints of those that are active; arrays as the kernel leaves them; and, if it
/// [takes a part](Backward::takes_part) of a launch, tapes, how many iterations segments of loops have, the number of
/// the first thread, and all extents of the launch but the first. [`Backward::plan`] says how large these are.
pub struct Backward {
    /// The backward kernel.
    pub kernel: Kernel,
    /// The parameters of the kernel's HIR that the adjoints are of, in order.
    pub adjoints: Vec<usize>,
    /// The parameters of the kernel's HIR, arrays, of which it takes, behind the adjoints, what the kernel leaves in them
    /// in the mode `strict` ([`Kernel::strict`]).
    pub after: Vec<usize>,
    rank: u8,
    parts: OnceLock<Vec<Part>>,
    tapes: Vec<TapeExtent>,
    segments: Vec<usize>,
    /// How often loops run and reads are executed, as far as that is known before a launch.
    pub lengths: Vec<Option<u32>>,
    /// The kernel that finds these lengths, unless all are known: it takes the kernel's arguments and an array of as
    /// many `i32` numbers, which begin at zero.
    pub sizes: Option<Kernel>,
    /// Whether all threads of a launch find the same lengths, so that one need be asked.
    pub lengths_are_uniform: bool,
    /// By parameter of the kernel's HIR: whether the backward kernel writes the array, so that it has to be given a
    /// copy.
    pub replayed: Vec<bool>,
    /// By parameter of the kernel's HIR: whether what the array held before the kernel ran matters.
    pub reads: Vec<bool>,
    /// By parameter of the kernel's HIR: whether the kernel itself writes the array.
    pub writes: Vec<bool>,
    /// By parameter of the kernel's HIR: whether what the array holds after the kernel matters, and not what it held
    /// before.
    pub left: Vec<bool>,
}

/// One of the launches that do what a backward kernel does.
pub struct Part {
    /// It takes what the backward kernel takes.
    pub kernel: Kernel,
    /// Of a kernel that gathers sums, which of [`Backward::adjoints`] it is launched over the elements of; it takes,
    /// last, the extents of the whole launch. Of the one for the rest, which is launched over these, nothing.
    pub over: Option<usize>,
}

/// A kernel that computes, beside what a kernel computes, its derivative in a direction.
///
/// Its parameters are the kernel's, the tangents of those that are active, and arrays as the kernel leaves them.
pub struct Tangent {
    /// The kernel with tangents.
    pub kernel: Kernel,
    /// The parameters of the kernel's HIR that the tangents are of, in order.
    pub tangents: Vec<usize>,
    /// The parameters of the kernel's HIR, arrays, of which it takes what the kernel leaves in them in the mode `strict`.
    pub after: Vec<usize>,
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

/// What a launch of a backward kernel needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapePlan {
    /// How many threads are launched at a time, each with a place on the tapes.
    pub n_places: u64,
    /// The first extents of the tapes. The second is `n_places`.
    pub extents: Vec<u64>,
    /// How many iterations segments of loops have.
    pub segments: Vec<u64>,
    /// The bytes that all tapes take.
    pub bytes: u64,
}

impl Backward {
    /// Whether it is launched over a part of a launch's threads at a time, in one dimension.
    pub fn takes_part(&self) -> bool {
        !self.tapes.is_empty() || !self.segments.is_empty()
    }

    /// The launches that do the same, in order, where sums that the kernel scatters are better gathered: see
    /// [`autodiff::split`]. Else there are none.
    pub fn parts(&self) -> &[Part] {
        self.parts.get_or_init(|| {
            if self.takes_part() {
                return Vec::new();
            }
            let (module, id) = self.kernel.module();
            let first = self.replayed.len();
            let made = without_fork(|| autodiff::split(module, id, first..first + self.adjoints.len(), self.rank));
            // What is too large to be split is launched whole.
            let made = made.unwrap_or_default().into_iter();
            made.map(|part| Part { kernel: self.kernel.derived(part.module, part.kernel), over: part.over }).collect()
        })
    }

    /// What a launch over so many threads needs, where loops are so long ([`Backward::lengths`]) and tapes may take
    /// `budget` bytes: as many threads at a time as have place, but one at least.
    pub fn plan(&self, lengths: &[u32], n_threads: u64, budget: u64) -> TapePlan {
        let length = |number: usize| u64::from(lengths.get(number).copied().unwrap_or(0).max(1));
        // As many segments as each has iterations keep both few.
        let segment = |number: usize| (length(number) - 1).isqrt() + 1;
        let extent = |extent: &TapeExtent| match *extent {
            TapeExtent::Whole(number) => length(number),
            TapeExtent::Checkpoints(number) => length(number).div_ceil(segment(number)),
            TapeExtent::Segment(number) => segment(number),
        };
        let extents: Vec<u64> = self.tapes.iter().map(extent).collect();
        let bytes =
            |ty: Type| ty.components().iter().filter_map(|ty| ty.as_scalar()).map(|s| u64::from(s.bytes())).sum();
        let of_places: Vec<u64> = self.tape_types().map(bytes).collect();
        let per_place: u64 = extents.iter().zip(of_places).map(|(extent, bytes)| extent * bytes).sum();
        let n_places = (budget / per_place.max(1)).clamp(1, n_threads.max(1));
        let segments = self.segments.iter().map(|&number| segment(number)).collect();
        TapePlan { n_places, extents, segments, bytes: n_places * per_place }
    }

    /// The types of the tapes' elements.
    pub fn tape_types(&self) -> impl Iterator<Item = Type> {
        let first = self.replayed.len() + self.adjoints.len() + self.after.len();
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
                after: made.after,
                rank: request.rank,
                parts: OnceLock::new(),
                tapes: made.tapes,
                segments: made.segments,
                lengths: made.lengths,
                sizes: made.sizes.map(|(module, id)| self.derived(module, id)),
                lengths_are_uniform: made.lengths_are_uniform,
                replayed: made.replayed,
                reads: made.reads,
                writes: made.writes,
                left: made.left,
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
            Ok(Tangent { kernel: self.derived(made.module, made.kernel), tangents: made.tangents, after: made.after })
        })
    }

    /// A kernel made of this one, with the parameters that its HIR has.
    pub(crate) fn derived(&self, module: Module, id: FuncId) -> Kernel {
        let function = &module.functions[id];
        let params = function.param_names.iter().zip(function.params());
        let params =
            params.map(|(name, &param)| Param { name: name.clone(), ty: ValueType::Plain(function.ty(param)) });
        let arguments: Box<[Param]> = params.collect();
        self.beside(module, id, arguments)
    }
}
