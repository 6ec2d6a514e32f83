//! Derivatives of kernels: backward kernels, and kernels with tangents.
//!
//! Design: `docs/design/reverse-mode.md`.

use crate::kernel::Kernel;
use crate::kernel_program::plain_params;
use crate::memo::Memo;
use polyloom_frontend::CompileError;
use polyloom_ir::{Diagnostic, FuncId, Module, Scalar, Severity, Type};
use polyloom_passes::autodiff::{
    self, AccessRace, AdjointAccess, BackwardNeeds, DerivativeLaunch, DerivativeRequest, TapeExtent,
};
use polyloom_runtime::without_fork;
use std::sync::{Arc, OnceLock};

/// A backward kernel with more threads is launched whole, because the indices of what its stages gather might overflow.
const MOST_IN_STAGES: u64 = 1 << 30;
/// If fewer threads have a place on tapes, loops had better keep what they carry at some iterations only.
const LEAST_ON_CPU: u64 = 64;
const LEAST_ON_GPU: u64 = 4096;
/// So many bytes of tapes stay in the cache of a core, which launches make use of if they are enough for as many
/// threads.
const CACHED: u64 = 2 << 20;
const LEAST_CACHED: u64 = 256;

/// A kernel's backward kernel, and what a launch of it needs beside the kernel's arguments.
///
/// Its parameters are the kernel's; the adjoints of those that are active; arrays as the kernel leaves them, in the mode
/// `strict` ([`Kernel::strict`]); and, if it [takes a part](BackwardNeeds::takes_part) of a launch, tapes, how many iterations
/// segments of loops have, the number of the first thread, and all extents of the launch but the first.
/// [`BackwardKernel::plan`] says how large these are.
pub struct BackwardKernel {
    /// The backward kernel.
    pub kernel: Arc<Kernel>,
    /// The kernel that finds the [lengths](BackwardNeeds::lengths) of loops, unless all are known: it takes the kernel's
    /// arguments and an array of as many `i32` numbers, which begin at zero.
    pub sizes: Option<Arc<Kernel>>,
    /// Holds what a launch has to know.
    pub needs: BackwardNeeds,
    rank: u8,
    stages: OnceLock<Vec<BackwardStage>>,
    overwriting: OnceLock<Vec<OverwritingKernel>>,
}

/// One of the launches that do what a backward kernel does.
pub struct BackwardStage {
    /// It takes what the backward kernel takes.
    pub kernel: Arc<Kernel>,
    /// Of a kernel that gathers sums, which of [`BackwardNeeds::adjoints`] it is launched over the elements of; it takes,
    /// last, the extents of the whole launch. Of the one for the rest, which is launched over these, nothing.
    pub over: Option<usize>,
}

/// The backward kernel, or one of its stages, where gradients are written rather than added to.
struct OverwritingKernel {
    kernel: Arc<Kernel>,
    /// Says which of the adjoints it writes whole, if they have the extents that it is launched over.
    begun: Vec<usize>,
    /// Says which of the adjoints it writes of arrays that the kernel only writes.
    taken: Vec<usize>,
    is_idle: bool,
}

/// A kernel that computes, beside what a kernel computes, its derivative in a direction.
///
/// Its parameters are the kernel's, the tangents of those that are active, and arrays as the kernel leaves them.
pub struct TangentKernel {
    /// The kernel with tangents.
    pub kernel: Arc<Kernel>,
    /// The parameters of the kernel's HIR that the tangents are of, in order.
    pub tangents: Vec<usize>,
    /// The parameters of the kernel's HIR, arrays, of which it takes what the kernel leaves in them in the mode `strict`.
    pub after: Vec<usize>,
    races: Vec<AccessRace>,
}

impl TangentKernel {
    /// Refuses launches whose threads race.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn check(&self, launch: &DerivativeLaunch<'_>) -> Result<(), CompileError> {
        refuse_races(&self.kernel, &self.races, launch)
    }
}

fn refuse_races(kernel: &Kernel, races: &[AccessRace], launch: &DerivativeLaunch<'_>) -> Result<(), CompileError> {
    let mut diagnostics: Vec<Diagnostic> = autodiff::races_in(races, launch).into_iter().cloned().collect();
    diagnostics.dedup();
    if diagnostics.is_empty() { Ok(()) } else { Err(kernel.rejected(diagnostics)) }
}

/// The derivatives of a kernel that have been asked for.
#[derive(Default)]
pub(crate) struct DerivativeMemo {
    backward: Memo<DerivativeRequest, BackwardKernel>,
    tangent: Memo<DerivativeRequest, TangentKernel>,
}

/// Describes what tapes may take, and where.
#[derive(Clone, Copy, Debug)]
pub struct TapeLimits {
    /// Bytes of all tapes of a launch.
    pub bytes: u64,
    /// Number of cores that run a launch on the CPU. On a GPU there are none to speak of.
    pub n_cores: Option<u64>,
}

/// Describes what a launch of a backward kernel with tapes needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapePlan {
    /// Number of threads that are launched at a time, each with a place on the tapes.
    pub n_places: u64,
    /// The shape of each tape, and the type of its numbers.
    pub tapes: Vec<(Vec<u64>, Scalar)>,
    /// Number of iterations segments of loops have.
    pub segments: Vec<u64>,
    /// The bytes that all tapes take.
    pub bytes: u64,
    /// The bytes that one thread takes; the largest number if a tape would be too long for its indices.
    pub per_place: u64,
    /// True if loops are so long that few threads have a place on the tapes, or not one has, since with checkpoints
    /// ([`DerivativeRequest::checkpoints`], and [`DerivativeRequest::rows`] if [`BackwardNeeds::records_rows`] says so) more would have.
    pub is_cramped: bool,
}

/// Says which kernel a launch of a backward kernel is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackwardPart {
    /// One of [`BackwardKernel::stages`]; none for the kernel itself.
    pub stage: Option<usize>,
    /// True if it writes gradients rather than adding to them.
    pub overwrites: bool,
}

/// A launch of a backward kernel without tapes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackwardLaunch {
    /// Holds what is launched.
    pub part: BackwardPart,
    /// Its extents.
    pub dim: Vec<u64>,
    /// Numbers that its kernel takes last.
    pub extents: Vec<u64>,
}

/// The launches of a backward kernel where gradients are written rather than added to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverwritingLaunches {
    /// The launches, in order; none of a kernel that [takes a part](BackwardNeeds::takes_part) of a launch, which is launched as
    /// ever.
    pub launches: Vec<BackwardLaunch>,
    /// Says which of [`BackwardNeeds::adjoints`] have to be set to zero before.
    pub cleared: Vec<usize>,
    /// The adjoints, of arrays that the kernel only writes, that have to be given copies.
    pub copied: Vec<usize>,
}

impl BackwardKernel {
    /// Returns what does the same, launched in order, where sums that the kernel scatters are better gathered: see
    /// [`autodiff::split`]. Else there is none.
    pub fn stages(&self) -> &[BackwardStage] {
        self.stages.get_or_init(|| {
            if self.needs.takes_part() {
                return Vec::new();
            }
            let (module, id) = self.kernel.module();
            let first = self.needs.replayed.len();
            let adjoints = first..first + self.needs.adjoints.len();
            let made = without_fork(|| autodiff::split(module, id, adjoints, self.rank));
            // An error is no failure here, because a kernel that grows too large when it is split runs whole.
            let made = made.unwrap_or_default().into_iter();
            made.map(|stage| BackwardStage {
                kernel: Arc::new(self.kernel.derived(stage.module, stage.kernel)),
                over: stage.over,
            })
            .collect()
        })
    }

    /// Refuses launches whose threads race.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn check(&self, launch: &DerivativeLaunch<'_>) -> Result<(), CompileError> {
        refuse_races(&self.kernel, &self.needs.races, launch)
    }

    /// Returns what to warn of where code is written out, which is for any launch: that threads race in each that has
    /// more than one.
    pub fn warning(&self) -> Option<CompileError> {
        let race = self.needs.race_in_any_launch(self.rank)?;
        Some(self.kernel.rejected(vec![Diagnostic { severity: Severity::Warning, ..race.clone() }]))
    }

    /// The launches, in order, of a kernel that does not [take a part](BackwardNeeds::takes_part) of a launch with these
    /// extents. Each adjoint comes with its extents, or with none if elements of it may be one memory.
    pub fn launches(&self, dim: &[u64], adjoints: &[Option<&[u64]>]) -> Vec<BackwardLaunch> {
        let n_threads: u64 = dim.iter().product();
        let part = |stage| BackwardPart { stage, overwrites: false };
        let stage = |(number, stage): (usize, &BackwardStage)| match stage.over {
            None => Some(BackwardLaunch { part: part(Some(number)), dim: dim.to_vec(), extents: Vec::new() }),
            Some(adjoint) => {
                let elements = adjoints.get(adjoint).copied().flatten()?.get(..dim.len())?;
                // A thread for each element pays where there are not many more elements than threads, since otherwise
                // many would gather nothing.
                let pays = elements.iter().product::<u64>() <= 2 * n_threads;
                let part = part(Some(number));
                pays.then(|| BackwardLaunch { part, dim: elements.to_vec(), extents: dim.to_vec() })
            }
        };
        let in_stages = n_threads <= MOST_IN_STAGES && !self.stages().is_empty() && !adjoints.contains(&None);
        let stages = in_stages.then(|| self.stages().iter().enumerate().map(stage).collect::<Option<Vec<_>>>());
        stages.flatten().unwrap_or_else(|| vec![self.whole_launch(dim)])
    }

    /// The launch of the kernel itself.
    pub(crate) fn whole_launch(&self, dim: &[u64]) -> BackwardLaunch {
        let part = BackwardPart { stage: None, overwrites: false };
        BackwardLaunch { part, dim: dim.to_vec(), extents: Vec::new() }
    }

    /// The backward kernel with other kernels in place of its own.
    pub(crate) fn with_kernels(&self, other: impl Fn(&Kernel) -> Kernel) -> BackwardKernel {
        BackwardKernel {
            kernel: Arc::new(other(&self.kernel)),
            sizes: self.sizes.as_ref().map(|sizes| Arc::new(other(sizes))),
            needs: self.needs.clone(),
            rank: self.rank,
            stages: OnceLock::new(),
            overwriting: OnceLock::new(),
        }
    }

    /// The launches where gradients are written rather than added to: those of arrays that the kernel only reads are
    /// then right whatever was in them, and those of arrays that it only writes stay what they are.
    pub fn overwriting_launches(&self, dim: &[u64], adjoints: &[Option<&[u64]>]) -> OverwritingLaunches {
        let accesses = self.needs.accesses.iter().enumerate();
        let those = |wanted: AdjointAccess| accesses.clone().filter(move |&(_, &access)| access == wanted);
        let mut cleared: Vec<usize> = those(AdjointAccess::Reads).map(|(number, _)| number).collect();
        let mut copied: Vec<usize> = those(AdjointAccess::Writes).map(|(number, _)| number).collect();
        if self.needs.takes_part() {
            return OverwritingLaunches { launches: Vec::new(), cleared, copied };
        }
        let mut launches = self.launches(dim, adjoints);
        if adjoints.contains(&None) {
            return OverwritingLaunches { launches, cleared, copied };
        }
        copied.clear();
        launches.retain_mut(|launch| {
            let Some(made) = self.overwriting(launch.part.stage) else { return true };
            launch.part.overwrites = true;
            let is_whole = |adjoint: &usize| adjoints[*adjoint].is_some_and(|shape| shape.starts_with(&launch.dim));
            cleared.retain(|adjoint| !(made.begun.contains(adjoint) && is_whole(adjoint)));
            copied.extend(made.taken.iter().copied());
            !made.is_idle
        });
        OverwritingLaunches { launches, cleared, copied }
    }

    fn overwriting(&self, stage: Option<usize>) -> Option<&OverwritingKernel> {
        let all = self.overwriting.get_or_init(|| {
            let kernels = std::iter::once(&*self.kernel).chain(self.stages().iter().map(|stage| &*stage.kernel));
            let overwriting = |kernel: &Kernel| {
                let ((module, id), first) = (kernel.module(), self.needs.replayed.len());
                let made = without_fork(|| autodiff::overwriting(module, id, first, &self.needs.accesses, self.rank));
                let autodiff::OverwritingProgram { module, kernel: id, begun, taken, is_idle } = made;
                OverwritingKernel { kernel: Arc::new(self.kernel.derived(module, id)), begun, taken, is_idle }
            };
            kernels.map(overwriting).collect()
        });
        all.get(stage.map_or(0, |stage| stage + 1))
    }

    /// The kernel that is launched.
    pub fn kernel_of(&self, part: BackwardPart) -> &Arc<Kernel> {
        let plain = part.stage.and_then(|stage| self.stages().get(stage)).map_or(&self.kernel, |stage| &stage.kernel);
        let made = part.overwrites.then(|| self.overwriting(part.stage)).flatten();
        made.map_or(plain, |made| &made.kernel)
    }

    /// Returns what a launch over so many threads needs, where loops are so long ([`BackwardNeeds::lengths`]): as many threads
    /// at a time as have place, but one at least.
    pub fn plan(&self, lengths: &[u32], n_threads: u64, limits: TapeLimits) -> TapePlan {
        let length = |number: usize| u64::from(lengths.get(number).copied().unwrap_or(0).max(1));
        // A segment has about as many iterations as there are segments, so that tapes of both are short.
        let segment = |number: usize| (length(number) - 1).isqrt() + 1;
        let extent = |extent: &TapeExtent| match *extent {
            TapeExtent::Whole(number) => length(number),
            TapeExtent::Checkpoints(number) => length(number).div_ceil(segment(number)),
            TapeExtent::Segment(number) => segment(number),
            TapeExtent::Rows { of, row } => length(of).div_ceil(segment(of)) * length(row),
            TapeExtent::SegmentReads { of, reads } => segment(of) * length(reads),
        };
        let extents: Vec<u64> = self.needs.tapes.iter().map(extent).collect();
        let bytes =
            |ty: Type| ty.components().iter().filter_map(|ty| ty.as_scalar()).map(|s| u64::from(s.bytes())).sum();
        let of_places: Vec<u64> = self.tape_types().map(bytes).collect();
        let is_too_long = extents.iter().any(|&extent| i32::try_from(extent).is_err());
        let per_place = match is_too_long {
            true => u64::MAX,
            false => extents.iter().zip(of_places).map(|(extent, bytes)| extent * bytes).sum(),
        };
        let n_places = |bytes: u64| (bytes / per_place.max(1)).clamp(1, n_threads.max(1));
        let mut places = n_places(limits.bytes);
        let least = limits.n_cores.map_or(LEAST_ON_GPU, |_| LEAST_ON_CPU);
        let is_cramped = places < least.min(n_threads) || places.saturating_mul(per_place) > limits.bytes;
        if let Some(n_cores) = limits.n_cores {
            let cached = n_places(limits.bytes.min(CACHED * n_cores));
            if cached >= LEAST_CACHED * n_cores {
                places = cached;
            }
        }
        let shape = |(&extent, ty): (&u64, Type)| {
            let (elem, inner) = match ty {
                Type::Composite(composite) => (Some(composite.elem()), composite.shape().to_vec()),
                ty => (ty.as_scalar(), Vec::new()),
            };
            let shape = [extent, places].into_iter().chain(inner.into_iter().map(u64::from)).collect();
            (shape, elem.unwrap_or(Scalar::I32))
        };
        TapePlan {
            n_places: places,
            tapes: extents.iter().zip(self.tape_types()).map(shape).collect(),
            segments: self.needs.segments.iter().map(|&number| segment(number)).collect(),
            bytes: places.saturating_mul(per_place),
            per_place,
            is_cramped,
        }
    }

    /// The types of the tapes' elements.
    fn tape_types(&self) -> impl Iterator<Item = Type> {
        let first = self.needs.replayed.len() + self.needs.adjoints.len() + self.needs.after.len();
        let types = self.kernel.types()[first..].iter().take(self.needs.tapes.len());
        types.filter_map(|ty| ty.as_any_array().map(|(elem, _)| elem))
    }
}

impl Kernel {
    /// A backward kernel.
    ///
    /// # Errors
    ///
    /// Where the kernel has no derivative: what to write instead.
    pub fn backward(&self, request: &DerivativeRequest) -> Result<Arc<BackwardKernel>, CompileError> {
        self.derivatives().backward.get_or_make(request, || {
            let (module, id) = self.module();
            let made = without_fork(|| autodiff::backward(module, id, request));
            let made = made.map_err(|diagnostics| self.rejected(diagnostics))?;
            Ok(BackwardKernel {
                kernel: Arc::new(self.derived(made.module, made.kernel)),
                sizes: made.sizes.map(|(module, id)| Arc::new(self.derived(module, id))),
                needs: made.needs,
                rank: request.rank,
                stages: OnceLock::new(),
                overwriting: OnceLock::new(),
            })
        })
    }

    /// The kernel with tangents of the active parameters, and of all arrays that the kernel writes.
    ///
    /// # Errors
    ///
    /// Where the kernel has no derivative: what to write instead.
    pub fn tangent(&self, request: &DerivativeRequest) -> Result<Arc<TangentKernel>, CompileError> {
        self.derivatives().tangent.get_or_make(request, || {
            let (module, id) = self.module();
            let made = without_fork(|| autodiff::tangent(module, id, request));
            let made = made.map_err(|diagnostics| self.rejected(diagnostics))?;
            let kernel = Arc::new(self.derived(made.module, made.kernel));
            Ok(TangentKernel { kernel, tangents: made.tangents, after: made.after, races: made.races })
        })
    }

    /// A kernel made of this one, with the parameters that its HIR has.
    pub(crate) fn derived(&self, module: Module, id: FuncId) -> Kernel {
        let arguments = plain_params(&module.functions[id]);
        self.derived_with(module, id, arguments)
    }
}
