//! When a variant gets better code, and how it gets it.
//!
//! A variant that has run for [`HOT`] is recompiled by the optimising back end on the background thread. Launches go on
//! meanwhile, and pick the new code up at their next chunk. The old code stays in memory as long as the kernel.

use super::device::Tier;
use super::kernel::{KernelInner, VariantState};
use crate::background::{self, JobKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time in quick code after which optimised code is worth making.
pub(crate) const HOT: Duration = Duration::from_millis(2);

/// Has the variant recompiled, unless that has been done or is not wanted.
#[cold]
pub(crate) fn promote(kernel: &Arc<KernelInner>, variant: &VariantState) {
    if variant.promoted.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(slot) = kernel.slot_of(variant) else { return };
    let kernel = Arc::downgrade(kernel);
    background::submit(JobKind::Compile, move || {
        // A kernel that is gone needs no code.
        if let Some(kernel) = kernel.upgrade()
            && let Some(variant) = kernel.variant_in(slot)
        {
            match kernel.build(&variant.variant, Tier::Optimized) {
                Ok(code) => kernel.install(variant, code, Tier::Optimized),
                // Kept for whoever asks: the quick code goes on doing its work.
                Err(error) => variant.set_error(error),
            }
        }
    });
}
