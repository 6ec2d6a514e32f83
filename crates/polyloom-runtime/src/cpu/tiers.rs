//! When a variant gets better code, and how it gets it.
//!
//! All variants start with the same quick code, which makes no use of what is known of the arguments. One that has run
//! for [`HOT`] is recompiled for just that, on the background thread, by the optimising back end if there is one and
//! else by the quick one. Launches go on meanwhile and pick the new code up at their next chunk. The old code stays in
//! memory as long as the kernel. A variant that stays hot in optimised code is promoted once more: [`super::candidates`].

use super::kernel::{KernelInner, VariantState};
use crate::background::{self, JobKind};
use crate::fork::generation;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time in quick code after which optimised code is worth making.
pub(crate) const HOT: Duration = Duration::from_millis(2);

/// Describes how far a variant is on its way to better code.
///
/// A forked child has its parent's variants and not the thread that was to recompile them: a request counts only in the
/// process that made it.
pub(crate) struct TierPromotion {
    /// 0 at first, [`TierPromotion::SETTLED`], or one more than the generation of the process that has asked.
    state: AtomicU32,
}

impl TierPromotion {
    const SETTLED: u32 = u32::MAX;

    /// Of a variant that can be recompiled, or need not be.
    pub(crate) fn new(is_wanted: bool) -> TierPromotion {
        TierPromotion { state: AtomicU32::new(if is_wanted { 0 } else { TierPromotion::SETTLED }) }
    }

    fn asked() -> u32 {
        generation() + 1
    }

    /// Returns true if better code is to be had and has not been asked for.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state != TierPromotion::SETTLED && state != TierPromotion::asked()
    }

    /// Notes that better code is asked for; gives whether it was due.
    fn ask(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        let is_due = state != TierPromotion::SETTLED && state != TierPromotion::asked();
        is_due
            && self.state.compare_exchange(state, TierPromotion::asked(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes that a request may be made again: it came to nothing, or was not the last.
    fn withdraw(&self) {
        let asked = TierPromotion::asked();
        let _ = self.state.compare_exchange(asked, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that the variant has the best code there is for it.
    fn settle(&self) {
        self.state.store(TierPromotion::SETTLED, Ordering::Relaxed);
    }
}

/// Has the variant recompiled, unless that has been asked for or is not wanted.
#[cold]
pub(crate) fn promote(kernel: &Arc<KernelInner>, variant: &VariantState) {
    if !variant.promotion.ask() {
        return;
    }
    let Some(slot) = kernel.slot_of(variant) else { return };
    let kernel = Arc::downgrade(kernel);
    let accepted = background::submit(JobKind::Compile, move || {
        // A kernel that is gone needs no code.
        if let Some(kernel) = kernel.upgrade()
            && let Some(variant) = kernel.variant_at(slot)
        {
            match kernel.improve(variant) {
                true => variant.promotion.withdraw(),
                false => variant.promotion.settle(),
            }
        }
    });
    if !accepted {
        variant.promotion.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_made_once_unless_it_comes_to_nothing() {
        let promotion = TierPromotion::new(true);
        assert!(promotion.is_due() && promotion.ask());
        assert!(!promotion.is_due() && !promotion.ask());
        promotion.withdraw();
        assert!(promotion.ask());
        promotion.settle();
        promotion.withdraw();
        assert!(!promotion.is_due() && !promotion.ask());
        assert!(!TierPromotion::new(false).is_due());
    }

    #[cfg(unix)]
    #[test]
    fn a_child_asks_for_what_its_parent_has_asked_for() {
        let [asked, settled] = [TierPromotion::new(true), TierPromotion::new(true)];
        assert!(asked.ask() && settled.ask());
        settled.settle();
        // SAFETY: the child only looks at atomics and leaves without running any destructor.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = asked.is_due() && asked.ask() && !asked.ask() && !settled.is_due();
            // SAFETY: ends the child.
            unsafe { libc::_exit(if right { 0 } else { 1 }) }
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(!asked.is_due());
    }
}
