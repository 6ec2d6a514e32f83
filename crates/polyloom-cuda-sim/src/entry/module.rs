//! Modules, libraries, functions, links, and how full multiprocessors get.

use super::entry_points;
use crate::abi::{DeviceAddress, Handle, LaunchConfiguration};
use crate::context;
use crate::driver::Driver;
use crate::image::{ImageError, is_archive, ptx_at, ptx_of};
use crate::link::Link;
use crate::module::{Function, LoadedImage};
use crate::pointers::{In, Out, Text, host_bytes};
use crate::registry::new_handle;
use crate::status::{CudaError, Outcome};
use std::ffi::{c_char, c_int, c_uint};

/// Options of the driver's compiler that are not about code (`CUjit_option`).
mod jit_option {
    pub(super) const WALL_TIME: u32 = 2;
    pub(super) const INFO_LOG: u32 = 3;
    pub(super) const INFO_LOG_BYTES: u32 = 4;
    pub(super) const ERROR_LOG: u32 = 5;
    pub(super) const ERROR_LOG_BYTES: u32 = 6;
}

/// Options as C callers pass them: numbers, and a list of values that are pointers or numbers themselves.
#[derive(Clone, Copy)]
struct JitOptions {
    n: c_uint,
    numbers: In<c_uint>,
    values: usize,
}

impl JitOptions {
    const NONE: JitOptions = JitOptions { n: 0, numbers: In::NOWHERE, values: 0 };

    fn value(&self, number: u32) -> Outcome<Option<(usize, usize)>> {
        let numbers = self.numbers.list(self.n as usize)?;
        let Some(index) = numbers.iter().position(|each| *each == number) else { return Ok(None) };
        let place = self.values + index * size_of::<usize>();
        Ok(Some((place, In::<usize>::at(place).get()?)))
    }

    /// Writes what the compiler says: nothing to the log of what went well, and what is wrong to that of errors.
    fn log(&self, error: &str) -> Outcome {
        use jit_option::{ERROR_LOG, ERROR_LOG_BYTES, INFO_LOG, INFO_LOG_BYTES, WALL_TIME};
        for (buffer, size, text) in [(ERROR_LOG, ERROR_LOG_BYTES, error), (INFO_LOG, INFO_LOG_BYTES, "")] {
            let (Some((_, buffer)), Some((place, room))) = (self.value(buffer)?, self.value(size)?) else { continue };
            let room = room as u32 as usize;
            if buffer != 0 && room > 0 {
                Out::<c_char>::of_address(buffer).set_text(text, room)?;
                // The size becomes that of what was written.
                Out::<c_uint>::of_address(place).set(text.len().min(room - 1) as c_uint)?;
            }
        }
        if let Some((place, _)) = self.value(WALL_TIME)? {
            Out::<f32>::of_address(place).set(0.0)?;
        }
        Ok(())
    }
}

/// Loads the image at an address.
fn load(driver: &Driver, context: Handle, address: usize, options: JitOptions) -> Outcome<Handle> {
    let text = ptx_at(address, driver.configuration.arch);
    match text.and_then(|text| LoadedImage::load(driver, context, &text)) {
        Ok(image) => {
            options.log("")?;
            Ok(image.handle)
        }
        Err(ImageError { error, reason }) => {
            driver.journal.tell(&format!("a module cannot be loaded: {reason}"));
            options.log(&reason)?;
            Err(error)
        }
    }
}

/// Loads a file.
fn load_file(driver: &Driver, context: Handle, name: Text) -> Outcome<Handle> {
    let path = name.get()?;
    let mut bytes = std::fs::read(&path).map_err(|error| {
        driver.journal.noted(&format!("the module {path} cannot be read: {error}"));
        CudaError::FILE_NOT_FOUND
    })?;
    bytes.push(0);
    load(driver, context, bytes.as_ptr().expose_provenance(), JitOptions::NONE)
}

fn variable(image: Handle, name: Text) -> Outcome<(DeviceAddress, usize)> {
    let range = crate::module::IMAGES.get(image)?.loaded.variable(&name.get()?).ok_or(CudaError::NOT_FOUND)?;
    Ok((range.start, (range.end - range.start) as usize))
}

/// An attribute of a function by its number (`CUfunction_attribute`).
fn attribute(driver: &Driver, function: &Function, number: c_uint) -> Outcome<c_int> {
    let limits = driver.configuration.arch.limits();
    let (resources, launches) = (function.kernel.resources(), function.kernel.limits());
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    Ok(match number {
        0 => {
            let by_registers = limits.registers / (resources.registers * 32).next_multiple_of(256) * 32;
            let most = launches.max_threads.or(launches.required_block.map(|block| block.iter().product()));
            int(by_registers.min(limits.threads_per_block).min(most.unwrap_or(u32::MAX)))
        }
        1 => int(resources.static_shared_bytes),
        2 => 0,
        3 => int(resources.local_bytes),
        4 => int(resources.registers),
        5 => {
            let (major, minor) = function.image.module.ast().version;
            int(10 * major + minor)
        }
        6 => int(driver.configuration.arch.number().into()),
        8 => int(function.max_dynamic_shared(limits.static_shared_bytes)),
        9 => function.setting(number).unwrap_or(-1),
        10 => launches.needs_cluster.into(),
        11..=13 => {
            let required = launches.required_cluster.map_or(0, |blocks| int(blocks[number as usize - 11]));
            function.setting(number).unwrap_or(required)
        }
        7 | 14 | 15 => function.setting(number).unwrap_or(0),
        _ => return Err(CudaError::INVALID_VALUE),
    })
}

fn set_attribute(driver: &Driver, function: &Function, number: c_uint, value: c_int) -> Outcome {
    match number {
        8 => {
            let bytes = u32::try_from(value).map_err(|_| CudaError::INVALID_VALUE)?;
            let most = driver.configuration.arch.limits().opt_in_shared_bytes;
            if function.kernel.resources().static_shared_bytes.saturating_add(bytes) > most {
                return Err(CudaError::INVALID_VALUE);
            }
            function.allow_dynamic_shared(bytes);
            Ok(())
        }
        9..=15 => {
            let mut settings = function.settings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            settings.insert(number, value);
            Ok(())
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Blocks of a function that a multiprocessor holds.
fn active_blocks(driver: &Driver, function: Handle, threads: c_int, shared_bytes: usize) -> Outcome<u32> {
    let function = crate::module::FUNCTIONS.get(function)?;
    let arch = driver.configuration.arch;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(CudaError::INVALID_VALUE)?;
    let shared = u32::try_from(shared_bytes).map_err(|_| CudaError::INVALID_VALUE)?;
    let limits = arch.limits();
    let static_bytes = function.kernel.resources().static_shared_bytes;
    let fits = threads <= limits.threads_per_block && static_bytes.saturating_add(shared) <= limits.opt_in_shared_bytes;
    Ok(if fits { function.kernel.occupancy(arch.number().into(), threads, shared).blocks } else { 0 })
}

/// Returns the blocks of a grid that fills the device, and the block size by which most threads are resident. A block has
/// the dynamic shared memory that the function gives for its size, or else that number of bytes.
fn best_block(
    driver: &Driver,
    function: Handle,
    (shared_of, shared_bytes): (Option<extern "C" fn(c_int) -> usize>, usize),
    limit: c_int,
) -> Outcome<(c_int, c_int)> {
    let shared = |threads: c_int| shared_of.map_or(shared_bytes, |shared_of| shared_of(threads));
    let most = attribute(driver, &*crate::module::FUNCTIONS.get(function)?, 0)?;
    let most = if limit > 0 { limit.min(most) } else { most };
    let (mut best, mut found) = (0, (0, 0));
    for threads in (1..=most / 32).rev().map(|warps| 32 * warps) {
        let blocks = active_blocks(driver, function, threads, shared(threads))? as c_int;
        if blocks * threads > best {
            best = blocks * threads;
            found = (blocks * polyloom_ptx::MULTIPROCESSORS as c_int, threads);
        }
    }
    Ok(found)
}

fn current_context() -> Handle {
    context::current().map_or(0, |context| context.handle)
}

/// Functions in the order of a module's text.
fn functions_of(driver: &Driver, image: Handle) -> Outcome<Vec<Handle>> {
    let image = crate::module::IMAGES.get(image)?;
    image.module.kernels().iter().map(|kernel| Ok(image.function(driver, &kernel.name)?.handle)).collect()
}

fn n_functions(image: Handle) -> Outcome<c_uint> {
    Ok(crate::module::IMAGES.get(image)?.module.kernels().len() as c_uint)
}

fn parameter(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) -> Outcome {
    let function = crate::module::FUNCTIONS.get(function)?;
    let parameter = function.kernel.parameters().get(index).ok_or(CudaError::INVALID_VALUE)?;
    offset.set_if_wanted(parameter.offset as usize);
    size.set_if_wanted(parameter.size as usize);
    Ok(())
}

/// Kinds of inputs of links (`CUjitInputType`).
const INPUT_NVVM: c_uint = 5;

fn add_to_link(driver: &Driver, link: Handle, kind: c_uint, bytes: &[u8]) -> Outcome {
    let link = crate::link::LINKS.get(link)?;
    if kind == INPUT_NVVM {
        return Err(CudaError::NOT_SUPPORTED);
    }
    if is_archive(bytes) {
        return Ok(());
    }
    let text = ptx_of(bytes, driver.configuration.arch).map_err(|ImageError { error, reason }| {
        driver.journal.noted(&format!("a module cannot be linked: {reason}"));
        error
    })?;
    link.state().texts.push(text);
    Ok(())
}

entry_points! { MODULE:
    fn cuModuleLoad(out: Out<Handle>, name: Text) [driver, context] {
        out.set(load_file(driver, context.handle, name)?)
    }

    fn cuModuleLoadData(out: Out<Handle>, image: usize) [driver, context] {
        out.set(load(driver, context.handle, image, JitOptions::NONE)?)
    }

    fn cuModuleLoadDataEx(
        out: Out<Handle>,
        image: usize,
        n: c_uint,
        numbers: In<c_uint>,
        values: usize,
    ) [driver, context] {
        out.set(load(driver, context.handle, image, JitOptions { n, numbers, values })?)
    }

    fn cuModuleLoadFatBinary(out: Out<Handle>, image: usize) [driver, context] {
        out.set(load(driver, context.handle, image, JitOptions::NONE)?)
    }

    fn cuModuleUnload(module: Handle) [_driver] {
        LoadedImage::unload(module)
    }

    fn cuModuleGetLoadingMode(mode: Out<c_uint>) [_driver] {
        // Eager: modules are loaded when they are asked for.
        mode.set(1)
    }

    fn cuModuleGetFunction(out: Out<Handle>, module: Handle, name: Text) [driver, _context] {
        out.set(crate::module::IMAGES.get(module)?.function(driver, &name.get()?)?.handle)
    }

    fn cuModuleGetFunctionCount(count: Out<c_uint>, module: Handle) [_driver] {
        count.set(n_functions(module)?)
    }

    fn cuModuleEnumerateFunctions(functions: Out<Handle>, n: c_uint, module: Handle) [driver] {
        let all = functions_of(driver, module)?;
        functions.set_all(&all[..all.len().min(n as usize)])
    }

    fn cuModuleGetGlobal_v2(address: Out<DeviceAddress>, size: Out<usize>, module: Handle, name: Text) [_driver] {
        let (start, n_bytes) = variable(module, name)?;
        address.set_if_wanted(start);
        size.set_if_wanted(n_bytes);
        Ok(())
    }

    fn cuLibraryLoadData(
        out: Out<Handle>,
        image: usize,
        numbers: In<c_uint>,
        values: usize,
        n: c_uint,
        _library_numbers: In<c_uint>,
        _library_values: usize,
        _n_library: c_uint,
    ) [driver] {
        out.set(load(driver, current_context(), image, JitOptions { n, numbers, values })?)
    }

    fn cuLibraryLoadFromFile(
        out: Out<Handle>,
        name: Text,
        _numbers: In<c_uint>,
        _values: usize,
        _n: c_uint,
        _library_numbers: In<c_uint>,
        _library_values: usize,
        _n_library: c_uint,
    ) [driver] {
        out.set(load_file(driver, current_context(), name)?)
    }

    fn cuLibraryUnload(library: Handle) [_driver] {
        LoadedImage::unload(library)
    }

    fn cuLibraryGetKernel(out: Out<Handle>, library: Handle, name: Text) [driver] {
        out.set(crate::module::IMAGES.get(library)?.function(driver, &name.get()?)?.handle)
    }

    fn cuLibraryGetKernelCount(count: Out<c_uint>, library: Handle) [_driver] {
        count.set(n_functions(library)?)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, n: c_uint, library: Handle) [driver] {
        let all = functions_of(driver, library)?;
        kernels.set_all(&all[..all.len().min(n as usize)])
    }

    fn cuLibraryGetModule(module: Out<Handle>, library: Handle) [_driver] {
        module.set(crate::module::IMAGES.get(library)?.handle)
    }

    fn cuLibraryGetGlobal(address: Out<DeviceAddress>, size: Out<usize>, library: Handle, name: Text) [_driver] {
        let (start, n_bytes) = variable(library, name)?;
        address.set_if_wanted(start);
        size.set_if_wanted(n_bytes);
        Ok(())
    }

    fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) [_driver] {
        function.set(crate::module::FUNCTIONS.get(kernel)?.handle)
    }

    fn cuKernelGetLibrary(library: Out<Handle>, kernel: Handle) [_driver] {
        library.set(crate::module::FUNCTIONS.get(kernel)?.image.handle)
    }

    fn cuKernelGetName(name: Out<*const c_char>, kernel: Handle) [_driver] {
        name.set(crate::module::FUNCTIONS.get(kernel)?.name.as_ptr())
    }

    fn cuKernelGetAttribute(value: Out<c_int>, number: c_uint, kernel: Handle, _device: c_int) [driver] {
        value.set(attribute(driver, &*crate::module::FUNCTIONS.get(kernel)?, number)?)
    }

    fn cuKernelSetAttribute(number: c_uint, value: c_int, kernel: Handle, _device: c_int) [driver] {
        set_attribute(driver, &*crate::module::FUNCTIONS.get(kernel)?, number, value)
    }

    fn cuKernelSetCacheConfig(kernel: Handle, _config: c_uint, _device: c_int) [_driver] {
        crate::module::FUNCTIONS.get(kernel).map(|_| ())
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, size: Out<usize>) [_driver] {
        parameter(kernel, index, offset, size)
    }

    fn cuKernelGetParamCount(kernel: Handle, count: Out<usize>) [_driver] {
        count.set(crate::module::FUNCTIONS.get(kernel)?.kernel.parameters().len())
    }

    fn cuFuncGetAttribute(value: Out<c_int>, number: c_uint, function: Handle) [driver] {
        value.set(attribute(driver, &*crate::module::FUNCTIONS.get(function)?, number)?)
    }

    fn cuFuncSetAttribute(function: Handle, number: c_uint, value: c_int) [driver] {
        set_attribute(driver, &*crate::module::FUNCTIONS.get(function)?, number, value)
    }

    fn cuFuncSetCacheConfig(function: Handle, _config: c_uint) [_driver] {
        crate::module::FUNCTIONS.get(function).map(|_| ())
    }

    fn cuFuncSetSharedMemConfig(function: Handle, _config: c_uint) [_driver] {
        crate::module::FUNCTIONS.get(function).map(|_| ())
    }

    fn cuFuncGetModule(module: Out<Handle>, function: Handle) [_driver] {
        module.set(crate::module::FUNCTIONS.get(function)?.image.handle)
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: Handle) [_driver] {
        name.set(crate::module::FUNCTIONS.get(function)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) [_driver] {
        parameter(function, index, offset, size)
    }

    fn cuFuncGetParamCount(function: Handle, count: Out<usize>) [_driver] {
        count.set(crate::module::FUNCTIONS.get(function)?.kernel.parameters().len())
    }

    fn cuFuncIsLoaded(state: Out<c_uint>, function: Handle) [_driver] {
        crate::module::FUNCTIONS.get(function)?;
        state.set(1)
    }

    fn cuFuncLoad(function: Handle) [_driver] {
        crate::module::FUNCTIONS.get(function).map(|_| ())
    }

    fn cuLinkCreate_v2(_n: c_uint, _numbers: In<c_uint>, _values: usize, out: Out<Handle>) [_driver] also "cuLinkCreate" {
        let handle = new_handle();
        crate::link::LINKS.insert(handle, Link::default());
        out.set(handle)
    }

    fn cuLinkAddData_v2(
        link: Handle,
        kind: c_uint,
        data: usize,
        size: usize,
        _name: usize,
        _n: c_uint,
        _numbers: In<c_uint>,
        _values: usize,
    ) [driver] also "cuLinkAddData" {
        if data == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        add_to_link(driver, link, kind, host_bytes(data, size))
    }

    fn cuLinkAddFile_v2(
        link: Handle,
        kind: c_uint,
        path: Text,
        _n: c_uint,
        _numbers: In<c_uint>,
        _values: usize,
    ) [driver] also "cuLinkAddFile" {
        let bytes = std::fs::read(path.get()?).map_err(|_| CudaError::FILE_NOT_FOUND)?;
        add_to_link(driver, link, kind, &bytes)
    }

    fn cuLinkComplete(link: Handle, cubin: Out<usize>, size: Out<usize>) [driver] {
        let made = crate::link::LINKS.get(link)?.state().complete();
        let (address, n_bytes) = made.map_err(|ImageError { error, reason }| {
            driver.journal.noted(&format!("modules cannot be linked: {reason}"));
            error
        })?;
        cubin.set(address)?;
        size.set_if_wanted(n_bytes);
        Ok(())
    }

    fn cuLinkDestroy(link: Handle) [_driver] {
        crate::link::LINKS.remove(link).map(|_| ())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        shared_bytes: usize,
    ) [driver] {
        blocks.set(active_blocks(driver, function, threads, shared_bytes)? as c_int)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        shared_bytes: usize,
        _flags: c_uint,
    ) [driver] {
        blocks.set(active_blocks(driver, function, threads, shared_bytes)? as c_int)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Handle,
        shared_of: Option<extern "C" fn(c_int) -> usize>,
        shared_bytes: usize,
        limit: c_int,
    ) [driver] {
        let (blocks, threads) = best_block(driver, function, (shared_of, shared_bytes), limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<c_int>,
        block: Out<c_int>,
        function: Handle,
        shared_of: Option<extern "C" fn(c_int) -> usize>,
        shared_bytes: usize,
        limit: c_int,
        _flags: c_uint,
    ) [driver] {
        let (blocks, threads) = best_block(driver, function, (shared_of, shared_bytes), limit)?;
        grid.set(blocks)?;
        block.set(threads)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        n_bytes: Out<usize>,
        function: Handle,
        blocks: c_int,
        _threads: c_int,
    ) [driver] {
        let limits = driver.configuration.arch.limits();
        let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(CudaError::INVALID_VALUE)?;
        let resources = crate::module::FUNCTIONS.get(function)?.kernel.resources();
        let taken = limits.reserved_shared_bytes + resources.static_shared_bytes;
        let a_block = limits.multiprocessor_shared_bytes / blocks / 128 * 128;
        n_bytes.set(a_block.saturating_sub(taken).min(limits.opt_in_shared_bytes) as usize)
    }

    fn cuOccupancyMaxActiveClusters(
        clusters: Out<c_int>,
        function: Handle,
        configuration: In<LaunchConfiguration>,
    ) [driver] {
        let configuration = configuration.get()?;
        let LaunchConfiguration { block, shared_bytes, .. } = configuration;
        let threads = c_int::try_from(block.iter().product::<u32>()).map_err(|_| CudaError::INVALID_VALUE)?;
        let blocks = active_blocks(driver, function, threads, shared_bytes as usize)?;
        let function = crate::module::FUNCTIONS.get(function)?;
        let asked = configuration.cluster()?.or_else(|| function.set_cluster()).or(function.kernel.limits().required_cluster);
        let of_cluster = asked.map_or(1, |extents| extents.iter().product::<u32>()).max(1);
        clusters.set((blocks * polyloom_ptx::MULTIPROCESSORS / of_cluster) as c_int)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        size: Out<c_int>,
        function: Handle,
        _configuration: In<LaunchConfiguration>,
    ) [driver] {
        let function = crate::module::FUNCTIONS.get(function)?;
        let has_clusters = driver.configuration.arch.number() >= 90;
        size.set(if has_clusters { function.max_cluster_blocks() as c_int } else { 1 })
    }
}
