//! Contexts, and the stack of them that each thread has.

use crate::abi::Handle;
use crate::driver::Driver;
use crate::registry::new_handle;
use crate::status::{CudaError, Outcome};
use crate::stream::Stream;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// A context: the owner of memory and streams.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    pub(crate) is_primary: bool,
    pub(crate) flags: Mutex<u32>,
    /// Its default stream.
    pub(crate) stream: Arc<Stream>,
    /// Limits that the program has set, by their numbers.
    pub(crate) limits: Mutex<Vec<(u32, usize)>>,
}

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

/// The thread's current context.
pub(crate) fn current() -> Option<Arc<Context>> {
    STACK.with_borrow(|stack| stack.last().cloned())
}

/// Makes a context the thread's current one.
pub(crate) fn push(context: Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Makes the one before it the thread's current one.
pub(crate) fn pop() -> Outcome<Arc<Context>> {
    STACK.with_borrow_mut(Vec::pop).ok_or(CudaError::INVALID_CONTEXT)
}

/// Replaces the thread's current context, or drops it.
pub(crate) fn set(context: Option<Arc<Context>>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

impl Context {
    /// Makes one, with its default stream.
    pub(crate) fn create(driver: &Driver, is_primary: bool, flags: u32) -> Arc<Context> {
        let handle = new_handle();
        let stream_handle = new_handle();
        let stream = driver.streams.insert(stream_handle, Stream::new(stream_handle, handle, 0, 0, true));
        let (flags, limits) = (Mutex::new(flags), Mutex::default());
        driver.contexts.insert(handle, Context { handle, is_primary, flags, stream, limits })
    }

    /// The primary context, made when it is first asked for.
    pub(crate) fn retain_primary(driver: &Driver) -> Arc<Context> {
        let mut primary = driver.primary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (context, retained) = primary.get_or_insert_with(|| (Context::create(driver, true, 0), 0));
        *retained += 1;
        Arc::clone(context)
    }

    /// Ends it: its memory, streams and modules with it.
    pub(crate) fn destroy(&self, driver: &Driver) {
        driver.memory.free_all_of(driver, self.handle);
        driver.images.remove_if(|image| image.context == self.handle);
        driver.functions.remove_if(|function| function.image.context == self.handle);
        driver.streams.remove_if(|stream| stream.context == self.handle);
        driver.events.remove_if(|event| event.context == self.handle);
        // A context may be ended twice by a program that has already reset its device.
        let _ = driver.contexts.remove(self.handle);
        STACK.with_borrow_mut(|stack| stack.retain(|context| context.handle != self.handle));
    }
}
