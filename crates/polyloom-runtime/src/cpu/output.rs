//! Keeps what threads print in the order of a sequential run.
//!
//! Each chunk of a launch collects its text. The calling thread passes it on as soon as all chunks before it are done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Text that may wait for earlier chunks. With more, helpers leave the launch to its calling thread, which works
/// through the chunks in order.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// The text of chunks that are done.
#[derive(Default)]
pub(crate) struct OrderedOutput {
    state: Mutex<PrintState>,
}

#[derive(Default)]
struct PrintState {
    /// All threads before this one are done and their text is taken.
    frontier: u64,
    /// Chunks beyond the frontier: begin to end and text.
    waiting: BTreeMap<u64, (u64, String)>,
    n_bytes: usize,
}

impl OrderedOutput {
    fn lock(&self) -> MutexGuard<'_, PrintState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if everything before thread `begin` has been taken, so that its text need not wait.
    pub(crate) fn is_next(&self, begin: u64) -> bool {
        self.lock().frontier == begin
    }

    /// Returns true if too much text is waiting.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().n_bytes > MAX_WAITING_BYTES
    }

    /// Notes that threads `begin..end` are done and what they printed.
    pub(crate) fn submit(&self, begin: u64, end: u64, text: String) {
        let mut state = self.lock();
        state.n_bytes += text.len();
        state.waiting.insert(begin, (end, text));
    }

    /// Takes the text that waits for nothing.
    pub(crate) fn take_ready(&self) -> String {
        let mut state = self.lock();
        let mut ready = String::new();
        while let frontier = state.frontier
            && let Some((end, text)) = state.waiting.remove(&frontier)
        {
            state.frontier = end;
            state.n_bytes -= text.len();
            ready.push_str(&text);
        }
        ready
    }

    /// Takes all text in order, over gaps that a launch that stopped early has left.
    pub(crate) fn take_all(&self) -> String {
        let mut state = self.lock();
        state.n_bytes = 0;
        std::mem::take(&mut state.waiting).into_values().map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_waits_for_earlier_chunks() {
        let output = OrderedOutput::default();
        output.submit(64, 128, "b".to_owned());
        assert_eq!(output.take_ready(), "");
        assert!(output.is_next(0));
        output.submit(0, 64, "a".to_owned());
        assert_eq!(output.take_ready(), "ab");
        assert!(output.is_next(128));
        output.submit(256, 300, "d".to_owned());
        output.submit(192, 256, "c".to_owned());
        assert_eq!(output.take_ready(), "");
        assert_eq!(output.take_all(), "cd");
    }
}
