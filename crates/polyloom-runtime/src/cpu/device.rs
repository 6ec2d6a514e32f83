//! The CPU as a device: its back ends and how they are used.

use super::kernel::KernelInner;
use super::pool::{MAX_THREADS, threads_from_env};
use crate::background;
use crate::cache::{CacheError, CodeCache};
use crate::fork::without_fork;
use polyloom_codegen::Backend;
use polyloom_ir::Op;
use polyloom_ir::interp::{GlobalSums, ObservedOp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Describes how a kernel is executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// The interpreter, the definition of what kernels mean. Slow, and on the calling thread alone.
    Interpreter,
    /// Code that is quick to make.
    Quick,
    /// Code that is quick to run.
    Optimized,
}

/// Says which tier runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TierPolicy {
    /// Quick code first, optimised code once a kernel turns out to be hot.
    #[default]
    Automatic,
    /// Always this one, compiled before the launch.
    Always(Tier),
}

impl TierPolicy {
    /// Reads `auto`, `interp`, `0` or `1`, the values of `POLYLOOM_TIER`. An empty one is `auto`, as if it were not
    /// set.
    pub fn from_name(name: &str) -> Option<TierPolicy> {
        match name {
            "" | "auto" => Some(TierPolicy::Automatic),
            "interp" => Some(TierPolicy::Always(Tier::Interpreter)),
            "0" => Some(TierPolicy::Always(Tier::Quick)),
            "1" => Some(TierPolicy::Always(Tier::Optimized)),
            _ => None,
        }
    }
}

/// Why a device cannot be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeviceError {
    /// `POLYLOOM_TIER` is none of its values.
    #[error("POLYLOOM_TIER is `{value}`; it may be `auto`, `interp`, `0` or `1`")]
    UnknownTier {
        /// The value found in the environment.
        value: String,
    },
    /// `POLYLOOM_NUM_THREADS` is no number of threads.
    #[error("POLYLOOM_NUM_THREADS is `{value}`; it must be a number from 1 to {MAX_THREADS}")]
    BadThreadCount {
        /// The value found in the environment.
        value: String,
    },
    /// The code cache is configured wrongly.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Optimised code is asked for and no back end makes it.
    #[error("POLYLOOM_TIER=1 needs the LLVM back end, which this build does not have (cargo feature `llvm`)")]
    NoOptimizer,
}

/// The CPU of this machine.
pub struct CpuDevice {
    quick: Arc<dyn Backend>,
    optimizer: Option<Arc<dyn Backend>>,
    policy: TierPolicy,
    cache: CodeCache,
    interpreted_sums: GlobalSums,
    most_interpreted_steps: Option<u64>,
    observer: Option<Arc<dyn LaunchObserver>>,
    is_deterministic: AtomicBool,
    /// Kernels and the slots of their variants whose candidates have been measured. It is locked `without_fork`, because
    /// a forked child has to find it unlocked.
    measured: Mutex<Vec<(Weak<KernelInner>, usize)>>,
}

/// Watches what the interpreter does.
pub trait LaunchObserver: Send + Sync {
    /// Returns true if it is to be told of this op, a scalar one of one result.
    fn watches(&self, op: Op) -> bool;

    /// One has been executed, on the thread that launches.
    fn observe(&self, observed: &ObservedOp<'_>);
}

impl CpuDevice {
    /// A device that compiles with `quick` first and, if there is an `optimizer`, recompiles hot kernels with it. Code
    /// is cached in memory.
    pub fn new(quick: Arc<dyn Backend>, optimizer: Option<Arc<dyn Backend>>) -> CpuDevice {
        background::arm();
        CpuDevice {
            quick,
            optimizer,
            policy: TierPolicy::Automatic,
            cache: CodeCache::in_memory(),
            interpreted_sums: GlobalSums::Exact,
            most_interpreted_steps: None,
            observer: None,
            is_deterministic: AtomicBool::new(false),
            measured: Mutex::default(),
        }
    }

    /// Works like [`CpuDevice::new`], configured by `POLYLOOM_TIER` and, for the cache, as [`CodeCache::from_env`].
    /// Also looks whether `POLYLOOM_NUM_THREADS` is a number.
    ///
    /// # Errors
    ///
    /// If that has no meaning, or asks for a tier that is not there.
    pub fn from_env(quick: Arc<dyn Backend>, optimizer: Option<Arc<dyn Backend>>) -> Result<CpuDevice, DeviceError> {
        let value = std::env::var("POLYLOOM_TIER").unwrap_or_default();
        let Some(policy) = TierPolicy::from_name(&value) else { return Err(DeviceError::UnknownTier { value }) };
        threads_from_env().map_err(|value| DeviceError::BadThreadCount { value })?;
        CpuDevice::new(quick, optimizer).with_cache(CodeCache::from_env()?).with_policy(policy)
    }

    /// The device with another tier policy.
    ///
    /// # Errors
    ///
    /// If the policy asks for a tier that is not there.
    pub fn with_policy(self, policy: TierPolicy) -> Result<CpuDevice, DeviceError> {
        if policy == TierPolicy::Always(Tier::Optimized) && self.optimizer.is_none() {
            return Err(DeviceError::NoOptimizer);
        }
        Ok(CpuDevice { policy, ..self })
    }

    /// The device with another code cache.
    #[must_use]
    pub fn with_cache(self, cache: CodeCache) -> CpuDevice {
        CpuDevice { cache, ..self }
    }

    /// The device whose interpreter adds to global memory as `sums` says. Compiled code gives exact sums always.
    #[must_use]
    pub fn with_interpreted_sums(self, interpreted_sums: GlobalSums) -> CpuDevice {
        CpuDevice { interpreted_sums, ..self }
    }

    /// The device whose interpreter ends a launch when one of its threads, or blocks of a kernel that is launched in
    /// blocks, takes more than so many steps: see [`Interpreter::with_max_steps`](polyloom_ir::interp::Interpreter).
    #[must_use]
    pub fn with_most_interpreted_steps(self, steps: u64) -> CpuDevice {
        CpuDevice { most_interpreted_steps: Some(steps), ..self }
    }

    /// The device whose interpreter tells of what it does.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn LaunchObserver>) -> CpuDevice {
        CpuDevice { observer: Some(observer), ..self }
    }

    /// Sets whether the model alone decides how threads run. Otherwise launches of hot kernels may measure candidates,
    /// whose bits may differ in the modes `contract` and `fast`. What has been measured before counts again when it is set
    /// back; kernels that become hot meanwhile are not measured later.
    pub fn set_deterministic(&self, is_deterministic: bool) {
        self.is_deterministic.store(is_deterministic, Ordering::SeqCst);
        for (kernel, slot) in self.with_measured(|measured| measured.clone()) {
            if let Some(kernel) = kernel.upgrade() {
                kernel.choose_again(slot);
            }
        }
    }

    /// Notes that candidates of a variant have been measured.
    pub(crate) fn note_measured(&self, kernel: Weak<KernelInner>, slot: usize) {
        self.with_measured(|measured| {
            measured.retain(|(kernel, _)| kernel.strong_count() > 0);
            measured.push((kernel, slot));
        });
    }

    fn with_measured<R>(&self, work: impl FnOnce(&mut Vec<(Weak<KernelInner>, usize)>) -> R) -> R {
        without_fork(|| work(&mut self.measured.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns true if the model alone decides how threads run.
    #[inline]
    pub fn is_deterministic(&self) -> bool {
        self.is_deterministic.load(Ordering::Relaxed)
    }

    /// Returns the observer of the interpreter.
    pub(crate) fn observer(&self) -> Option<&dyn LaunchObserver> {
        self.observer.as_deref()
    }

    /// The most steps that its interpreter takes for a thread or block.
    pub(crate) fn most_interpreted_steps(&self) -> Option<u64> {
        self.most_interpreted_steps
    }

    /// Returns how its interpreter adds to global memory.
    pub(crate) fn interpreted_sums(&self) -> GlobalSums {
        self.interpreted_sums
    }

    /// The code cache.
    pub fn cache(&self) -> &CodeCache {
        &self.cache
    }

    /// Returns which tier runs.
    pub fn policy(&self) -> TierPolicy {
        self.policy
    }

    /// Waits until hot kernels have been recompiled and the code cache is written.
    pub fn wait_for_background(&self) {
        background::wait();
    }

    /// The back end of a tier; none for the interpreter.
    pub fn backend(&self, tier: Tier) -> Option<&Arc<dyn Backend>> {
        match tier {
            Tier::Interpreter => None,
            Tier::Quick => Some(&self.quick),
            Tier::Optimized => self.optimizer.as_ref(),
        }
    }
}
