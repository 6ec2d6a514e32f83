//! What kernels print on a GPU. The driver writes it to the process's standard output while the device is waited for;
//! this brings it to where kernels print elsewhere.
//!
//! Whatever else the process writes to its standard output meanwhile comes along: nothing is lost, but it may come
//! later. Rust's own `stdout` waits.

#[cfg(unix)]
use crate::print;

/// Waits for a device, and hands on what the driver writes meanwhile.
#[cfg(unix)]
pub(super) fn handed_on<R>(wait: impl FnOnce() -> R) -> R {
    let (result, text) = captured(wait);
    print::write(&text);
    result
}

/// Waits for a device. The driver's text stays where the driver writes it.
#[cfg(not(unix))]
pub(super) fn handed_on<R>(wait: impl FnOnce() -> R) -> R {
    wait()
}

/// The process's standard output, while it goes elsewhere.
#[cfg(unix)]
struct Redirected {
    before: libc::c_int,
}

#[cfg(unix)]
impl Redirected {
    /// Lets it go to a file; `None` if the process has none, or as many files as it may.
    fn to(file: &std::fs::File) -> Option<Redirected> {
        use std::os::fd::AsRawFd;
        // SAFETY: descriptors are numbers; of those that are none, the calls say so.
        unsafe {
            // What is buffered was printed before.
            libc::fflush(std::ptr::null_mut());
            let before = libc::dup(libc::STDOUT_FILENO);
            if before < 0 {
                return None;
            }
            if libc::dup2(file.as_raw_fd(), libc::STDOUT_FILENO) < 0 {
                libc::close(before);
                return None;
            }
            Some(Redirected { before })
        }
    }
}

#[cfg(unix)]
impl Drop for Redirected {
    fn drop(&mut self) {
        // SAFETY: `before` is a descriptor of this one's own.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::dup2(self.before, libc::STDOUT_FILENO);
            libc::close(self.before);
        }
    }
}

/// Runs `wait` and gives what was written to the process's standard output meanwhile.
#[cfg(unix)]
fn captured<R>(wait: impl FnOnce() -> R) -> (R, String) {
    use std::io::{Read, Seek, Write};
    // One at a time, and without what Rust code prints.
    let mut own = std::io::stdout().lock();
    // A closed standard output is no reason to fail.
    let _ = own.flush();
    let file = tempfile::tempfile().ok();
    let redirected = file.as_ref().and_then(Redirected::to);
    let result = wait();
    drop(redirected);
    let mut bytes = Vec::new();
    if let Some(mut file) = file {
        // What cannot be read back is lost, as it is with no standard output.
        let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    }
    (result, String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_c_code_writes_is_captured_and_nothing_afterwards() {
        let write = |text: &str| {
            // SAFETY: the pointer is to so many bytes.
            let written = unsafe { libc::write(libc::STDOUT_FILENO, text.as_ptr().cast(), text.len()) };
            assert_eq!(written, text.len() as isize);
        };
        let (result, text) = captured(|| {
            write("straight\n");
            // SAFETY: the text ends in a zero byte.
            unsafe { libc::puts(c"through a stream".as_ptr()) };
            7
        });
        assert_eq!(result, 7);
        assert!(text.contains("straight\n") && text.contains("through a stream\n"), "{text:?}");
        let ((), text) = captured(|| write("again\n"));
        assert!(text.contains("again\n") && !text.contains("straight"), "{text:?}");
    }
}
