//! Launches whose arguments are bound: what a launch decides by its arguments is decided once.

use crate::kernel::Kernel;
use polyloom_ir::{LaunchConfig, MAX_DIMS, Scalar, Type};
use polyloom_runtime::{
    ArgBlock, ArgError, DeviceId, LaunchError, LaunchOptions, LaunchStats, Queue, Tier, VariantChoice,
};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel with its arguments, the queue it runs in, over how many threads, and in which variant of its code.
///
/// The first run compares indices with extents and chooses the variant; runs after it do neither. Replacing an argument
/// has the next run do so again.
pub struct BoundLaunch {
    kernel: Arc<Kernel>,
    queue: Arc<dyn Queue>,
    /// That of the queue.
    device: DeviceId,
    shape: SmallVec<[u64; MAX_DIMS]>,
    args: ArgBlock,
    grid: Option<LaunchConfig>,
    unchecked: bool,
    /// The tier of the code on the CPU; unless given, the device's policy chooses.
    tier: Option<Tier>,
    /// True if a run has found that the arguments fit the kernel, and indices the extents.
    is_verified: AtomicBool,
    choice: VariantChoice,
}

impl fmt::Debug for BoundLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {:?} on {}", self.kernel.name(), &self.shape[..], self.device)
    }
}

impl Clone for BoundLaunch {
    fn clone(&self) -> BoundLaunch {
        BoundLaunch {
            kernel: self.kernel.clone(),
            queue: self.queue.clone(),
            shape: self.shape.clone(),
            args: self.args.clone(),
            is_verified: AtomicBool::new(self.is_verified.load(Ordering::Relaxed)),
            choice: self.choice.clone(),
            ..*self
        }
    }
}

impl BoundLaunch {
    /// Binds a kernel's arguments, filled against [`Kernel::params`]. Of the options the grid, `unchecked` and the tier
    /// count.
    pub fn new(
        kernel: Arc<Kernel>,
        queue: Arc<dyn Queue>,
        shape: &[u64],
        args: ArgBlock,
        options: &LaunchOptions<'_>,
    ) -> BoundLaunch {
        BoundLaunch {
            kernel,
            device: queue.device(),
            queue,
            shape: shape.into(),
            args,
            grid: options.grid,
            unchecked: options.unchecked,
            tier: options.tier,
            is_verified: AtomicBool::new(false),
            choice: VariantChoice::default(),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// The queue that it runs in.
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// Returns where it runs.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The extents of the launch.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The blocks, if it says them.
    pub fn grid(&self) -> Option<LaunchConfig> {
        self.grid
    }

    /// Returns true if indices are not compared with extents before it runs.
    pub fn is_unchecked(&self) -> bool {
        self.unchecked
    }

    /// The arguments.
    pub fn args(&self) -> &ArgBlock {
        &self.args
    }

    /// Replaces an array. `param` is a number of [`Kernel::params`].
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::replace_array`]; the launch is then what it was.
    pub fn rebind_array(
        &mut self,
        param: usize,
        elem: Scalar,
        base: *mut u8,
        shape: &[u64],
        strides: &[i64],
    ) -> Result<(), ArgError> {
        self.args.replace_array(self.kernel.params(), param, elem, base, shape, strides)?;
        self.decide_again();
        Ok(())
    }

    /// Replaces a scalar. `param` is a number of [`Kernel::params`].
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::replace_scalar`]; the launch is then what it was.
    pub fn rebind_scalar(&mut self, param: usize, ty: Scalar, bits: u64) -> Result<(), ArgError> {
        if self.args.replace_scalar(self.kernel.params(), param, ty, bits)? {
            // The launch is verified again, because an index may be computed of the scalar. The choice of the variant
            // stays, because it is a matter of the arrays.
            *self.is_verified.get_mut() = false;
        }
        Ok(())
    }

    /// Moves an array that has elements to other memory of the host, where it has the same extents and strides. What has
    /// been verified of indices stays so.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::move_array`]; the launch is then what it was.
    pub(crate) fn move_array(&mut self, param: usize, base: *mut u8) -> Result<(), ArgError> {
        self.args.move_array(self.kernel.params(), param, base)?;
        self.choice = VariantChoice::default();
        Ok(())
    }

    /// Replaces a scalar of which no index is computed.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::replace_scalar`]; the launch is then what it was.
    pub(crate) fn replace_number(&mut self, param: usize, ty: Scalar, bits: u64) -> Result<(), ArgError> {
        self.args.replace_scalar(self.kernel.params(), param, ty, bits).map(drop)
    }

    /// Replaces a parameter by what another launch has for one of its own, which is of the same type and, of an array, in
    /// the same memory.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::replace_same_as`]; the launch is then what it was.
    pub(crate) fn rebind_same_as(
        &mut self,
        param: usize,
        other: &BoundLaunch,
        other_param: usize,
    ) -> Result<(), ArgError> {
        let (params, other_params) = (self.kernel.params(), other.kernel.params());
        if self.args.is_same(params, param, &other.args, other_params, other_param) {
            return Ok(());
        }
        self.args.replace_same_as(params, param, &other.args, other_params, other_param)?;
        match params.types()[param] {
            Type::Scalar(_) => *self.is_verified.get_mut() = false,
            _ => self.decide_again(),
        }
        Ok(())
    }

    /// Replaces the extents of the launch and, of a kernel that is launched in blocks, the blocks.
    pub fn set_shape(&mut self, shape: &[u64], grid: Option<LaunchConfig>) {
        self.shape = shape.into();
        self.grid = grid;
        self.decide_again();
    }

    fn decide_again(&mut self) {
        *self.is_verified.get_mut() = false;
        self.choice = VariantChoice::default();
    }

    /// Runs the launch on this thread if that is known to take a few microseconds at most; gives nothing where
    /// [`BoundLaunch::run`] has to look.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`].
    #[inline]
    pub unsafe fn run_if_short(&self) -> Option<Result<(), LaunchError>> {
        if self.device != DeviceId::Cpu || self.tier.is_some() {
            return None;
        }
        if !self.is_verified.load(Ordering::Relaxed) {
            let options = LaunchOptions { grid: self.grid, unchecked: self.unchecked, ..LaunchOptions::default() };
            // SAFETY: passed on to the caller.
            let done = unsafe { self.kernel.launch_if_short(&self.shape, &self.args, &options)? };
            self.is_verified.fetch_or(done.is_ok(), Ordering::Relaxed);
            return Some(done);
        }
        // SAFETY: passed on to the caller. Whatever changes arrays or shape forgets the choice.
        unsafe { self.kernel.launch_verified_if_short(&self.shape, &self.args, &self.choice) }
    }

    /// Runs the launch. The grid, `unchecked` and the tier, if it has one, are those that it is bound with.
    ///
    /// # Errors
    ///
    /// As [`Kernel::launch_on`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch_on`].
    pub unsafe fn run(&self, options: &LaunchOptions<'_>) -> Result<LaunchStats, LaunchError> {
        let tier = self.tier.or(options.tier);
        let options = LaunchOptions { grid: self.grid, unchecked: self.unchecked, tier, ..*options };
        // SAFETY: passed on to the caller.
        let stats = unsafe { self.kernel.launch_on(&*self.queue, &self.shape, &self.args, &options)? };
        self.is_verified.store(true, Ordering::Relaxed);
        Ok(stats)
    }
}
