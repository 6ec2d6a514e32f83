//! Contexts, and the stack of them that each thread has.

use crate::abi::Handle;
use crate::driver::Driver;
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use crate::stream::Stream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

/// A context: the owner of memory and streams.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    pub(crate) is_primary: bool,
    pub(crate) flags: Mutex<u32>,
    /// Its default stream.
    pub(crate) stream: Arc<Stream>,
    /// The default streams of threads that have used theirs.
    of_threads: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    /// Limits that the program has set, by their numbers.
    pub(crate) limits: Mutex<Vec<(u32, usize)>>,
}

/// All contexts.
pub(crate) static CONTEXTS: Registry<Context> = Registry::new();

/// The primary context, once it has been asked for, and how often it is retained.
pub(crate) static PRIMARY: Mutex<Option<(Arc<Context>, u32)>> = Mutex::new(None);

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

/// The contexts in which a thread has used its default stream, with the thread's number. Dropped when the thread ends.
struct OwnStreams(RefCell<Vec<(ThreadId, Handle)>>);

thread_local! {
    static OWN_STREAMS: OwnStreams = const { OwnStreams(RefCell::new(Vec::new())) };
}

impl Drop for OwnStreams {
    fn drop(&mut self) {
        for (thread, context) in self.0.take() {
            if let Ok(context) = CONTEXTS.get(context) {
                context.end_stream_of(thread);
            }
        }
    }
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
    pub(crate) fn create(is_primary: bool, flags: u32) -> Arc<Context> {
        let handle = new_handle();
        let stream_handle = new_handle();
        let stream = crate::stream::STREAMS.insert(stream_handle, Stream::new(stream_handle, handle, 0, 0, true));
        let (flags, limits) = (Mutex::new(flags), Mutex::default());
        let of_threads = Mutex::default();
        crate::context::CONTEXTS.insert(handle, Context { handle, is_primary, flags, stream, of_threads, limits })
    }

    /// The default stream of the calling thread, which waits for that of the context and it for this, and for no other.
    pub(crate) fn stream_of_thread(&self) -> Arc<Stream> {
        let mut all = self.of_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::current().id();
        let stream = all.entry(thread).or_insert_with(|| {
            let handle = new_handle();
            // A thread that is ending has nothing that is told of its end, and its stream stays.
            let _ = OWN_STREAMS.try_with(|own| own.0.borrow_mut().push((thread, self.handle)));
            crate::stream::STREAMS.insert(handle, Stream::new(handle, self.handle, 0, 0, false))
        });
        Arc::clone(stream)
    }

    /// Ends the default stream of a thread. What the stream has begun goes on, so that the default stream of the context
    /// still waits for it.
    fn end_stream_of(&self, thread: ThreadId) {
        let stream = self.of_threads.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread);
        let Some(stream) = stream else { return };
        if let Ok(driver) = crate::driver::driver() {
            driver.order.wait(self.stream.id, &driver.order.clock(stream.id));
        }
        // The program may have reset the device meanwhile.
        let _ = crate::stream::STREAMS.remove(stream.handle);
    }

    /// The primary context, made when it is first asked for.
    pub(crate) fn retain_primary() -> Arc<Context> {
        let mut primary = crate::context::PRIMARY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (context, retained) = primary.get_or_insert_with(|| (Context::create(true, 0), 0));
        *retained += 1;
        Arc::clone(context)
    }

    /// Ends it: its memory, streams and modules with it.
    pub(crate) fn destroy(&self, driver: &Driver) {
        crate::array::end_all_of(driver, self.handle);
        driver.memory.free_all_of(driver, self.handle);
        crate::module::IMAGES.remove_if(|image| image.context == self.handle);
        crate::module::FUNCTIONS.remove_if(|function| function.image.context == self.handle);
        crate::stream::STREAMS.remove_if(|stream| stream.context == self.handle);
        crate::event::EVENTS.remove_if(|event| event.context == self.handle);
        // A context may be ended twice by a program that has already reset its device.
        let _ = crate::context::CONTEXTS.remove(self.handle);
        STACK.with_borrow_mut(|stack| stack.retain(|context| context.handle != self.handle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_streams_of_threads_end_with_them() {
        let context = Context::create(false, 0);
        let n_streams = || {
            let all = crate::stream::STREAMS.all();
            all.iter().filter(|stream| stream.context == context.handle).count()
        };
        let own = context.stream_of_thread();
        assert_eq!(n_streams(), 2, "the context's and this thread's");
        for _ in 0..10 {
            let handles = std::thread::scope(|scope| {
                let used = scope.spawn(|| [context.stream_of_thread(), context.stream_of_thread()]);
                used.join().expect("the thread ends")
            });
            assert_eq!(handles[0].handle, handles[1].handle);
            assert_ne!(handles[0].handle, own.handle);
        }
        // A scope waits for what its threads run, and not for what is dropped after that.
        let mut waited = 0;
        while n_streams() > 2 && waited < 1000 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            waited += 1;
        }
        assert_eq!(n_streams(), 2);
        assert_eq!(context.stream_of_thread().handle, own.handle);
    }
}
