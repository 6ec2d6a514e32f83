//! Where kernels print.
//!
//! Each `print` of a thread is one piece of text, written whole. A launch hands text to the sink from the thread that
//! called it and in the order a sequential run would print, whichever threads ran the kernel.

use polyloom_ir::{Scalar, Type};
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

/// Writes text to the sink. A sink that panics loses the text.
pub(crate) fn write(text: &str) {
    // SAFETY: a non-null pointer comes from `Box::into_raw` in `set_print_sink` and is never freed.
    let Some(sink) = (unsafe { SINK.load(Ordering::Acquire).as_ref() }) else {
        let mut out = std::io::stdout().lock();
        // A closed standard output is no reason to fail a launch.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        return;
    };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sink.write(text)));
}

/// The text of one `print`: its format with the operands in place of the conversions.
pub(crate) fn format(format: &str, types: &[Type], values: &[u64]) -> String {
    let mut text = String::new();
    let mut operands = types.iter().zip(values);
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let spec = &rest[at + 1..];
        let length = spec.find(|c: char| c.is_ascii_alphabetic() || c == '%').map_or(spec.len(), |i| i + 1);
        match (spec[..length].ends_with('%'), operands.next()) {
            (false, Some((ty, &bits))) => text.push_str(&plain(*ty, bits)),
            _ => text.push('%'),
        }
        rest = &spec[length..];
    }
    text.push_str(rest);
    text
}

fn plain(ty: Type, bits: u64) -> String {
    match ty.as_scalar() {
        Some(Scalar::F32) => f32::from_bits(bits as u32).to_string(),
        Some(Scalar::F64) => f64::from_bits(bits).to_string(),
        Some(scalar) if scalar.is_signed_int() => {
            let unused = 64 - scalar.bits();
            (((bits << unused) as i64) >> unused).to_string()
        }
        _ => bits.to_string(),
    }
}
