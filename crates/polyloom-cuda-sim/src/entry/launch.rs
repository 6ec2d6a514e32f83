//! Launches.

use super::entry_points;
use crate::abi::{Handle, LaunchConfiguration, launch_attribute};
use crate::context::Context;
use crate::driver::Driver;
use crate::launch::Launch;
use crate::pointers::{HostCall, In};
use crate::status::{CudaError, Outcome};
use crate::stream::Stream;
use crate::work::Work;
use std::ffi::{c_int, c_uint, c_void};

/// Reads a launch's parameters and submits it.
#[expect(clippy::too_many_arguments, reason = "the C interface has as many")]
fn launch(
    driver: &Driver,
    context: &Context,
    function: Handle,
    (grid, block): ([c_uint; 3], [c_uint; 3]),
    shared_bytes: c_uint,
    stream: Handle,
    (params, extra): (usize, usize),
    (cooperative, cluster): (bool, Option<[u32; 3]>),
) -> Outcome {
    let function = crate::module::FUNCTIONS.get(function)?;
    let stream = Stream::of(context, stream)?;
    let params = Launch::read_params(&function, params, extra)?;
    stream.submit(driver, Work::Launch(Launch { function, grid, block, shared_bytes, cooperative, cluster, params }))
}

/// Submits a launch with attributes.
fn launch_configured(
    driver: &Driver,
    context: &Context,
    configuration: &LaunchConfiguration,
    function: Handle,
    params: (usize, usize),
) -> Outcome {
    let mut cooperative = false;
    for attribute in configuration.attributes.list(configuration.n_attributes as usize)? {
        if attribute.id == launch_attribute::COOPERATIVE {
            cooperative = attribute.words()[0] != 0;
        }
    }
    let LaunchConfiguration { grid, block, shared_bytes, stream, .. } = *configuration;
    let kind = (cooperative, configuration.cluster()?);
    launch(driver, context, function, (grid, block), shared_bytes, stream, params, kind)
}

entry_points! { LAUNCH:
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: usize,
        extra: usize,
    ) [driver, context] and "_ptsz" {
        let sizes = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(driver, &context, function, sizes, shared_bytes, stream, (params, extra), (false, None))
    }

    fn cuLaunchCooperativeKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: usize,
    ) [driver, context] and "_ptsz" {
        let sizes = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(driver, &context, function, sizes, shared_bytes, stream, (params, 0), (true, None))
    }

    fn cuLaunchKernelEx(
        configuration: In<LaunchConfiguration>,
        function: Handle,
        params: usize,
        extra: usize,
    ) [driver, context] and "_ptsz" {
        launch_configured(driver, &context, &configuration.get()?, function, (params, extra))
    }

    fn cuLaunchHostFunc(
        stream: Handle,
        function: Option<extern "C" fn(*mut c_void)>,
        data: usize,
    ) [driver, context] and "_ptsz" {
        let function = function.ok_or(CudaError::INVALID_VALUE)?;
        Stream::of(&context, stream)?.submit(driver, Work::Host(HostCall { function, data }))
    }

    fn cuStreamAddCallback(
        stream: Handle,
        callback: Option<extern "C" fn(Handle, c_int, *mut c_void)>,
        data: usize,
        flags: c_uint,
    ) [driver, context] and "_ptsz" {
        let callback = callback.ok_or(CudaError::INVALID_VALUE)?;
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let found = Stream::of(&context, stream)?;
        if found.capture().is_some() {
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        driver.flush_prints();
        callback(stream, 0, std::ptr::with_exposed_provenance_mut(data));
        Ok(())
    }
}
