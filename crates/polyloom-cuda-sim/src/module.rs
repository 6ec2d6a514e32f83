//! Modules and their functions.

use crate::abi::Handle;
use crate::driver::Driver;
use crate::image::ImageError;
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::{Kernel, LoadError, LoadedModule, Module, PtxError};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A module or a library: the driver API has both, and the same functions may be asked for by either.
pub(crate) struct LoadedImage {
    pub(crate) handle: Handle,
    pub(crate) context: Handle,
    pub(crate) module: Module,
    pub(crate) loaded: LoadedModule,
    functions: Mutex<BTreeMap<String, Handle>>,
}

/// A kernel of a module.
pub(crate) struct Function {
    pub(crate) handle: Handle,
    pub(crate) name: CString,
    pub(crate) kernel: Kernel,
    pub(crate) image: Arc<LoadedImage>,
    /// Bytes of dynamic shared memory that the program has allowed, or `UNSET`.
    dynamic_shared: AtomicU32,
    /// Attributes that the program has set; but for those of clusters they change nothing here.
    pub(crate) settings: Mutex<BTreeMap<u32, i32>>,
}

/// All modules and libraries.
pub(crate) static IMAGES: Registry<LoadedImage> = Registry::new();

/// All functions and kernels of theirs that somebody has asked for.
pub(crate) static FUNCTIONS: Registry<Function> = Registry::new();

const UNSET: u32 = u32::MAX;

/// The most blocks of a cluster on every device that has clusters.
pub(crate) const PORTABLE_CLUSTER_BLOCKS: u32 = 8;

/// Attributes of functions that are about clusters.
mod cluster_attribute {
    pub(super) const REQUIRED_EXTENTS: [u32; 3] = [11, 12, 13];
    pub(super) const NON_PORTABLE_SIZE_ALLOWED: u32 = 14;
}

/// Limits the lines of a compiler's complaints that are told.
const MOST_LINES: usize = 8;

impl LoadedImage {
    /// Loads PTX text.
    pub(crate) fn load(driver: &Driver, context: Handle, text: &str) -> Result<Arc<LoadedImage>, ImageError> {
        let invalid = |errors: &[PtxError]| ImageError { error: CudaError::INVALID_PTX, reason: lines(errors) };
        let module = Module::parse(text).map_err(|errors| invalid(&errors))?;
        let arch = driver.configuration.arch;
        if !module.runs_on(arch.number().into()) {
            let target = module.ast().target.first().map_or("", String::as_str);
            let reason = format!(
                "the module is for {target}, the device is {arch}: compile for {arch}, or set POLYLOOM_GPU_ARCH to {target}"
            );
            return Err(ImageError { error: CudaError::NO_BINARY_FOR_GPU, reason });
        }
        let loaded = driver.simulator.load(&module).map_err(|error| match error {
            LoadError::Module(errors) => invalid(&errors),
            LoadError::Memory(error) => ImageError { error: CudaError::OUT_OF_MEMORY, reason: error.to_string() },
        })?;
        let handle = new_handle();
        let image = LoadedImage { handle, context, module, loaded, functions: Mutex::default() };
        Ok(crate::module::IMAGES.insert(handle, image))
    }

    /// The function of a name.
    pub(crate) fn function(self: &Arc<Self>, driver: &Driver, name: &str) -> Outcome<Arc<Function>> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = functions.get(name) {
            return crate::module::FUNCTIONS.get(*known);
        }
        if !self.module.kernels().iter().any(|kernel| kernel.name == name) {
            return Err(CudaError::NOT_FOUND);
        }
        let kernel = self.loaded.kernel(name).map_err(|errors| {
            driver.journal.noted(&format!("kernel `{name}` cannot run here: {}", lines(&errors)));
            CudaError::INVALID_PTX
        })?;
        let handle = new_handle();
        let function = Function {
            handle,
            name: CString::new(name).map_err(|_| CudaError::NOT_FOUND)?,
            kernel,
            image: Arc::clone(self),
            dynamic_shared: AtomicU32::new(UNSET),
            settings: Mutex::default(),
        };
        functions.insert(name.to_owned(), handle);
        Ok(crate::module::FUNCTIONS.insert(handle, function))
    }

    /// Unloads it, with its functions.
    pub(crate) fn unload(handle: Handle) -> Outcome {
        let image = crate::module::IMAGES.remove(handle)?;
        for function in image.functions.lock().unwrap_or_else(PoisonError::into_inner).values() {
            // Its context may have ended, and the functions with it.
            let _ = crate::module::FUNCTIONS.remove(*function);
        }
        Ok(())
    }
}

impl Function {
    /// The most dynamic shared memory that a launch may have: what is left of what blocks have without asking, unless
    /// the program has allowed more.
    pub(crate) fn max_dynamic_shared(&self, without_asking: u32) -> u32 {
        match self.dynamic_shared.load(Relaxed) {
            UNSET => without_asking.saturating_sub(self.kernel.resources().static_shared_bytes),
            bytes => bytes,
        }
    }

    /// An attribute that the program has set.
    pub(crate) fn setting(&self, number: u32) -> Option<i32> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).get(&number).copied()
    }

    /// Blocks of a cluster, if the program has set them for all launches.
    pub(crate) fn set_cluster(&self) -> Option<[u32; 3]> {
        let extents = cluster_attribute::REQUIRED_EXTENTS.map(|number| self.setting(number).unwrap_or(0));
        extents.iter().any(|extent| *extent > 0).then(|| extents.map(|extent| extent.max(1).unsigned_abs()))
    }

    /// The most blocks that a cluster of it may have.
    pub(crate) fn max_cluster_blocks(&self) -> u32 {
        let allows_more = self.setting(cluster_attribute::NON_PORTABLE_SIZE_ALLOWED).is_some_and(|value| value != 0);
        if allows_more { 2 * PORTABLE_CLUSTER_BLOCKS } else { PORTABLE_CLUSTER_BLOCKS }
    }

    /// Allows so much dynamic shared memory.
    pub(crate) fn allow_dynamic_shared(&self, bytes: u32) {
        self.dynamic_shared.store(bytes, Relaxed);
    }
}

fn lines(errors: &[PtxError]) -> String {
    let shown: Vec<String> = errors.iter().take(MOST_LINES).map(|error| format!("PTX line {error}")).collect();
    let more = errors.len().saturating_sub(MOST_LINES);
    let rest = if more > 0 { format!("\nand {more} more") } else { String::new() };
    shown.join("\n") + &rest
}
