//! Links: images that are added one by one and made one module, whose "cubin" is PTX again.

use crate::image::{ImageError, joined};
use crate::registry::Registry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A link under way.
#[derive(Default)]
pub(crate) struct Link {
    state: Mutex<LinkState>,
}

/// All links.
pub(crate) static LINKS: Registry<Link> = Registry::new();

/// Holds what a link has been given, and what it made.
#[derive(Default)]
pub(crate) struct LinkState {
    pub(crate) texts: Vec<String>,
    /// The result with a zero byte behind it, kept for as long as the link is.
    made: Option<Box<[u8]>>,
}

impl Link {
    pub(crate) fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkState {
    /// Joins what was given. Gives the address and the size of the result.
    pub(crate) fn complete(&mut self) -> Result<(usize, usize), ImageError> {
        let mut bytes = joined(&self.texts)?.into_bytes();
        bytes.push(0);
        let made = self.made.insert(bytes.into_boxed_slice());
        Ok((made.as_ptr().expose_provenance(), made.len()))
    }
}
