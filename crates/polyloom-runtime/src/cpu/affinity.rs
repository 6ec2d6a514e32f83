//! The cores that a kernel may run on: `cpu_affinity` of its decorator.
//!
//! Whoever takes part in a launch of such a kernel is confined to the cores while it does, and gets back the ones it had. A
//! measurement of calls is confined to one core.

use std::io;

/// Confines this thread to some cores until it is dropped.
pub struct AffinityGuard {
    #[cfg(target_os = "linux")]
    before: libc::cpu_set_t,
}

#[cfg(target_os = "linux")]
impl AffinityGuard {
    /// Confines this thread to the cores.
    ///
    /// # Errors
    ///
    /// The system's, where the process may run on none of the cores.
    pub fn to(cores: &[u32]) -> io::Result<AffinityGuard> {
        // SAFETY: a set of cores is plain bits, all of which may be zero.
        let (mut before, mut set): (libc::cpu_set_t, libc::cpu_set_t) = unsafe { std::mem::zeroed() };
        for &core in cores.iter().filter(|&&core| core < libc::CPU_SETSIZE as u32) {
            // SAFETY: the core is within the set.
            unsafe { libc::CPU_SET(core as usize, &mut set) };
        }
        // SAFETY: both are sets of the size that is given, of the calling thread.
        let confined = unsafe {
            libc::sched_getaffinity(0, size_of_val(&before), &raw mut before) == 0
                && libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
        };
        if confined { Ok(AffinityGuard { before }) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(target_os = "linux")]
impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the system gave.
        unsafe { libc::sched_setaffinity(0, size_of_val(&self.before), &raw const self.before) };
    }
}

#[cfg(not(target_os = "linux"))]
impl AffinityGuard {
    /// Confines this thread to the cores, which this system cannot.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn to(_: &[u32]) -> io::Result<AffinityGuard> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// The cores that this thread may run on; empty where the system does not tell.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> Vec<u32> {
    // SAFETY: a set of cores is plain bits, all of which may be zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the size that is given.
    let is_known = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } == 0;
    // SAFETY: every core asked for is within the set.
    let is_allowed = |core: &u32| is_known && unsafe { libc::CPU_ISSET(*core as usize, &set) };
    (0..libc::CPU_SETSIZE as u32).filter(is_allowed).collect()
}

/// The core that this thread runs on, if the system tells it without being called.
#[cfg(target_os = "linux")]
pub fn current_core() -> Option<u32> {
    // SAFETY: the function takes nothing, and gives a core or -1.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The core that this thread runs on, which this system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn current_core() -> Option<u32> {
    None
}

/// The cores that this thread may run on; empty, because the system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn allowed_cores() -> Vec<u32> {
    Vec::new()
}
