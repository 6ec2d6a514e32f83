//! What kernels print on a GPU. The driver writes it to the process's standard output while the device is waited for;
//! this brings it to where kernels print elsewhere.
//!
//! Whatever else the process writes to its standard output meanwhile comes along: nothing is lost, but it may come
//! later. Rust's own `stdout` waits. The one exception are programs that are started meanwhile: they inherit the
//! standard output of that moment, and what they write after the wait is lost.

#[cfg(target_os = "linux")]
use crate::print;

/// Waits for a device, and hands on what the driver writes meanwhile.
#[cfg(target_os = "linux")]
pub(super) fn handed_on<R>(wait: impl FnOnce() -> R) -> R {
    let (result, text) = captured(wait);
    print::write(&text);
    result
}

/// Waits for a device. The driver's text stays where the driver writes it.
#[cfg(not(target_os = "linux"))]
pub(super) fn handed_on<R>(wait: impl FnOnce() -> R) -> R {
    wait()
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    /// C's stream of standard output, a macro for a variable of this name in glibc and musl.
    #[link_name = "stdout"]
    static C_STDOUT: *mut libc::FILE;
}

/// Writes what C's stream of standard output has buffered. That stream alone, because to flush all would wait for those
/// that other threads hold, as one does that waits for input.
#[cfg(target_os = "linux")]
fn flush() {
    // SAFETY: the C library sets the stream up before anything runs, and it is never closed by anybody who wants to
    // print.
    unsafe { libc::fflush(C_STDOUT) };
}

/// The process's standard output, while it goes elsewhere.
#[cfg(target_os = "linux")]
struct RedirectedStdout {
    before: libc::c_int,
}

#[cfg(target_os = "linux")]
impl RedirectedStdout {
    /// Lets it go to a file; `None` if the process has none, or as many files as it may.
    fn to(file: &std::fs::File) -> Option<RedirectedStdout> {
        use std::os::fd::AsRawFd;
        // Buffered text was printed before.
        flush();
        // SAFETY: descriptors are numbers; of those that are none, the calls say so.
        unsafe {
            // It is closed on exec, so that programs that are started meanwhile do not inherit it.
            let before = libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 0);
            if before < 0 {
                return None;
            }
            if libc::dup2(file.as_raw_fd(), libc::STDOUT_FILENO) < 0 {
                libc::close(before);
                return None;
            }
            Some(RedirectedStdout { before })
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for RedirectedStdout {
    fn drop(&mut self) {
        flush();
        // SAFETY: `before` is a descriptor of this one's own.
        unsafe {
            libc::dup2(self.before, libc::STDOUT_FILENO);
            libc::close(self.before);
        }
    }
}

/// Runs `wait` and gives what was written to the process's standard output meanwhile.
#[cfg(target_os = "linux")]
fn captured<R>(wait: impl FnOnce() -> R) -> (R, String) {
    use std::io::{Read, Seek, Write};
    // The lock is held to the end, so that one thread captures at a time and Rust code prints nothing.
    let mut own = std::io::stdout().lock();
    // A closed standard output is no reason to fail.
    let _ = own.flush();
    let file = tempfile::tempfile().ok();
    let redirected = file.as_ref().and_then(RedirectedStdout::to);
    let result = wait();
    drop(redirected);
    let mut bytes = Vec::new();
    if let Some(mut file) = file {
        // Text that cannot be read back is lost, as it is with no standard output.
        let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    }
    (result, String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, target_os = "linux"))]
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

    /// Waiting for a device while another thread waits for input, which holds that stream.
    #[test]
    fn no_other_stream_is_waited_for() {
        // SAFETY: a stream of this test's own, locked and unlocked once.
        unsafe {
            let stream = libc::tmpfile();
            assert!(!stream.is_null());
            flockfile(stream);
            let (done, ended) = std::sync::mpsc::channel();
            std::thread::spawn(move || done.send(captured(|| 7).0));
            let result = ended.recv_timeout(std::time::Duration::from_secs(30));
            funlockfile(stream);
            libc::fclose(stream);
            assert_eq!(result, Ok(7));
        }
    }

    unsafe extern "C" {
        fn flockfile(stream: *mut libc::FILE);
        fn funlockfile(stream: *mut libc::FILE);
    }

    /// A panic of whoever waits leaves standard output as it was.
    #[test]
    fn standard_output_comes_back_whatever_happens() {
        let place = || std::fs::read_link("/proc/self/fd/1").unwrap();
        let before = place();
        let panicked = std::panic::catch_unwind(|| captured(|| panic!("this panic belongs to the test")));
        assert!(panicked.is_err());
        let _own = std::io::stdout().lock();
        assert_eq!(place(), before);
    }
}
