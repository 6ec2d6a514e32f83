//! Values that are dropped without the GIL.

use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value that is dropped without the GIL, because what its end waits for may need it: a stream calls functions of Python.
pub(crate) struct Detached<T: Send>(ManuallyDrop<T>);

impl<T: Send> Detached<T> {
    pub(crate) fn new(value: T) -> Detached<T> {
        Detached(ManuallyDrop::new(value))
    }
}

impl<T: Send> Deref for Detached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        // SAFETY: nothing uses it afterwards, because this is dropped once.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        // Without an interpreter there is no GIL, and the value goes with the closure.
        let _ = Python::try_attach(move |py| py.detach(move || drop(value)));
    }
}
