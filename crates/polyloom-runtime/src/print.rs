//! Where kernels print.
//!
//! Each `print` of a thread is one piece of text, written whole. A launch hands text to the sink from the thread that
//! called it and in the order a sequential run would print, whichever threads ran the kernel.

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Receives what kernels print.
pub trait PrintSink: Send + Sync {
    /// Takes text of whole `print` calls. Called on the thread that called [`crate::launch`].
    fn write(&self, text: &str);
}

type Sink = Arc<dyn PrintSink>;

static SINK: AtomicPtr<Sink> = AtomicPtr::new(std::ptr::null_mut());

/// Makes kernels print to `sink` instead of the process's standard output.
///
/// The sink is kept for the life of the process, since a launch may be using it: this is called once or twice, not
/// in a loop.
pub fn set_print_sink(sink: Sink) {
    SINK.store(Box::into_raw(Box::new(sink)), Ordering::Release);
}

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Does something in which the kernels that this thread launches print nothing.
pub fn without_prints<R>(work: impl FnOnce() -> R) -> R {
    struct SinkGuard(bool);
    impl Drop for SinkGuard {
        fn drop(&mut self) {
            IS_SILENT.set(self.0);
        }
    }
    let _restore = SinkGuard(IS_SILENT.replace(true));
    work()
}

/// Writes text to the sink. A sink that panics loses the text.
pub(crate) fn write(text: &str) {
    if text.is_empty() || IS_SILENT.get() {
        return;
    }
    // SAFETY: a non-null pointer comes from `Box::into_raw` in `set_print_sink` and is never freed.
    let Some(sink) = (unsafe { SINK.load(Ordering::Acquire).as_ref() }) else {
        let mut out = std::io::stdout().lock();
        // A closed standard output is no reason to fail a launch.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        return;
    };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sink.write(text)));
}
