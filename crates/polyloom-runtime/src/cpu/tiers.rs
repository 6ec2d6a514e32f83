//! When a variant gets better code, and how it gets it.
//!
//! All variants start with the same quick code, which makes no use of what is known of the arguments. One that has run
//! for [`HOT`] is recompiled for just that, on the background thread, by the optimising back end if there is one and
//! else by the quick one. Launches go on meanwhile and pick the new code up at their next chunk. The old code stays in
//! memory as long as the kernel.

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
            kernel.improve(variant);
        }
    });
}
