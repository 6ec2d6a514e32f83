//! The Python extension module, `polyloom._native`.
//!
//! It turns Python objects into what the facade takes and results and errors back into Python objects. Architecture
//! invariant: no compiler logic here, and no panic leaves (`boundary.rs`); none is expected.

mod argument_numbers;
mod argument_types;
mod arguments;
mod array;
mod array_library;
mod backward;
mod boundary;
mod builtin_call;
mod capture;
mod captures;
mod code_forms;
mod composite;
mod config;
mod detached;
mod device;
mod device_image;
mod device_memory;
mod dlpack;
mod eager_op;
mod entry_guard;
mod environment;
mod errors;
mod external_key;
mod function;
mod function_methods;
mod fused_calls;
mod fusion_capture;
mod fusion_group;
mod generic;
mod generic_types;
mod graph_trace;
mod group_calls;
mod group_plan;
mod held_launch;
mod host_memory;
mod interruptible;
mod kernel;
mod kernel_methods;
mod launch;
mod launch_dimensions;
mod launch_memo;
mod launch_run;
mod loom_module;
mod native_callable;
mod native_function;
mod numpy_array;
mod numpy_calls;
mod op_attributes;
mod op_errors;
mod packages;
mod path_choice;
mod path_kernels;
mod path_report;
mod plain_call;
mod plan;
mod print;
mod queue;
mod recorded_launch;
mod recorded_tasks;
mod result_memory;
mod result_package;
mod scope;
mod sim;
mod sim_settings;
mod source_unit;
mod staged_calls;
mod struct_type;
mod structure;
mod synth;
mod tape_recording;
mod tape_region;
mod tape_repeats;
mod tasks;
mod tensor_graph;
mod tensor_operand;
mod tensor_view;
mod torch_tensor;
mod trace_results;
mod value_types;
mod view;
mod waits;

use polyloom::{Op, Session};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::OnceLock;

// Compiling allocates many small things. Memory that others free, or that Python counts, never comes from here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The process's one session.
fn session() -> PyResult<&'static Session> {
    static SESSION: OnceLock<Session> = OnceLock::new();
    if let Some(session) = SESSION.get() {
        return Ok(session);
    }
    // A failure is not kept, because the environment variable that is wrong may be mended in the process.
    let made = Session::new().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok(SESSION.get_or_init(|| made))
}

/// Ends work in the background: Python calls it when it exits.
#[pyfunction]
fn close(py: Python<'_>) {
    py.detach(polyloom::close_background);
}

/// Names and documentation of the kernel language's builtins.
#[pyfunction]
fn builtins() -> Vec<(&'static str, String)> {
    let ops = Op::all().filter(|info| info.is_builtin());
    ops.flat_map(|info| {
        let doc: Vec<String> = info.signatures.iter().map(|s| format!("{}{s}", info.name)).collect();
        let doc = format!("{}\n\n{}", doc.join("\n"), info.doc.trim());
        std::iter::once(info.name).chain(info.aliases.iter().copied()).map(move |name| (name, doc.clone()))
    })
    .collect()
}

/// Of each builtin its name, how it is differentiated, and its overloads.
#[pyfunction]
fn derivatives() -> Vec<(&'static str, String, Vec<String>)> {
    let builtins = Op::all().filter(|info| info.is_builtin());
    builtins
        .map(|info| {
            let overloads = info.signatures.iter().map(ToString::to_string).collect();
            (info.name, format!("{:?}", info.derivative), overloads)
        })
        .collect()
}

/// Runs the command line and gives its exit status.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<i32> {
    packages::tell(py)?;
    Ok(py.detach(|| print::to_process_during(|| polyloom_cli::run(arguments))))
}

/// The package's native half.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    print::install();
    boundary::keep_panics();
    // Earlier than any exit handler of the process, when the compiler is still whole.
    module.py().import("atexit")?.call_method1("register", (wrap_pyfunction!(close, module)?,))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_STRUCT_LEVELS", polyloom::MAX_STRUCT_LEVELS)?;
    module.add_class::<array::ArrayBase>()?;
    module.add_class::<device::DeviceMemory>()?;
    module.add_class::<composite::CompositeType>()?;
    module.add_class::<composite::CompositeBase>()?;
    module.add_class::<struct_type::StructType>()?;
    module.add_class::<config::Config>()?;
    module.add_class::<source_unit::SourceUnit>()?;
    module.add_class::<loom_module::LoomModule>()?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<backward::Backward>()?;
    module.add_class::<backward::BackwardRepeat>()?;
    module.add_class::<function::Function>()?;
    module.add_class::<native_function::NativeFunction>()?;
    module.add_class::<captures::Captures>()?;
    module.add_class::<entry_guard::EntryGuard>()?;
    module.add_class::<fusion_capture::CapturedFunction>()?;
    module.add_class::<recorded_launch::RecordedLaunch>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<tasks::TaskGraph>()?;
    module.add_class::<tasks::TaskTimeline>()?;
    module.add_function(wrap_pyfunction!(recorded_tasks::set_recording_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(recorded_tasks::recording_tasks, module)?)?;
    module.add_function(wrap_pyfunction!(recorded_tasks::run_recorded_tasks, module)?)?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<queue::QueueEvent>()?;
    module.add_class::<queue::DeviceGraph>()?;
    module.add_class::<queue::Branch>()?;
    module.add_class::<host_memory::HostMemory>()?;
    module.add_class::<device_image::DeviceImage>()?;
    module.add_class::<device_image::ImageKernel>()?;
    module.add_function(wrap_pyfunction!(device_image::kernel_properties, module)?)?;
    module.add_function(wrap_pyfunction!(queue::has_branches, module)?)?;
    module.add_class::<sim::SimModule>()?;
    module.add_class::<view::ViewBase>()?;
    module.add_class::<fusion_group::FusionGroup>()?;
    module.add_class::<tensor_graph::TensorGraph>()?;
    module.add_class::<path_choice::PathJob>()?;
    module.add_class::<graph_trace::GraphTrace>()?;
    module.add_class::<graph_trace::TracedBase>()?;
    module.add_class::<tape_region::RegionState>()?;
    module.add_class::<tape_repeats::LaunchLog>()?;
    module.add_function(wrap_pyfunction!(device::default_device, module)?)?;
    module.add_function(wrap_pyfunction!(device::set_default_device, module)?)?;
    module.add_function(wrap_pyfunction!(device::check_device, module)?)?;
    module.add_function(wrap_pyfunction!(device::cuda_devices_of_machine, module)?)?;
    module.add_function(wrap_pyfunction!(device::environment, module)?)?;
    module.add_function(wrap_pyfunction!(device::gpu_available, module)?)?;
    module.add_function(wrap_pyfunction!(device::architecture, module)?)?;
    module.add_function(wrap_pyfunction!(device::cuda_free_memory, module)?)?;
    module.add_function(wrap_pyfunction!(device::device_properties, module)?)?;
    module.add_function(wrap_pyfunction!(device::synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(device::clear_memory, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::device_memory_report, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::release_device_memory, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::set_device_memory_limits, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::has_driver_pool, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::use_driver_pool, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::open_cuda_devices, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::can_access_peer, module)?)?;
    module.add_function(wrap_pyfunction!(device_memory::set_peer_access, module)?)?;
    module.add_function(wrap_pyfunction!(device::span, module)?)?;
    module.add_function(wrap_pyfunction!(view::address_of, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_bfloat16_as_bits, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_bits_as_bfloat16, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_on_cuda, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_of_cuda, module)?)?;
    module.add_function(wrap_pyfunction!(sim_settings::configure_simulator, module)?)?;
    module.add_function(wrap_pyfunction!(sim_settings::last_simulator_report, module)?)?;
    module.add_function(wrap_pyfunction!(sim::launch_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(boundary::panic_for_tests, module)?)?;
    module.add_function(wrap_pyfunction!(launch::launch, module)?)?;
    module.add_function(wrap_pyfunction!(eager_op::tensor_ops, module)?)?;
    module.add_function(wrap_pyfunction!(result_memory::memory_report, module)?)?;
    module.add_function(wrap_pyfunction!(result_memory::release_memory, module)?)?;
    module.add_function(wrap_pyfunction!(result_memory::new_result, module)?)?;
    module.add_function(wrap_pyfunction!(trace_results::trace_results, module)?)?;
    module.add_function(wrap_pyfunction!(trace_results::trace_plans, module)?)?;
    module.add_function(wrap_pyfunction!(backward::launch_backward, module)?)?;
    module.add_function(wrap_pyfunction!(tape_recording::set_recording, module)?)?;
    module.add_function(wrap_pyfunction!(tape_recording::set_capturing, module)?)?;
    module.add_function(wrap_pyfunction!(tape_recording::recording_level, module)?)?;
    module.add_function(wrap_pyfunction!(builtins, module)?)?;
    module.add_function(wrap_pyfunction!(derivatives, module)?)?;
    module.add_function(wrap_pyfunction!(captures::result_types, module)?)?;
    module.add_function(wrap_pyfunction!(builtin_call::call_builtin, module)?)?;
    module.add_function(wrap_pyfunction!(composite::composite_names, module)?)?;
    module.add_function(wrap_pyfunction!(synth::kernel_categories, module)?)?;
    module.add_function(wrap_pyfunction!(synth::generate_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(synth::dataset_settings, module)?)?;
    module.add_function(wrap_pyfunction!(synth::dataset_part, module)?)?;
    module.add_function(wrap_pyfunction!(synth::produce_dataset, module)?)?;
    module.add_function(wrap_pyfunction!(synth::merge_datasets, module)?)?;
    module.add_function(wrap_pyfunction!(synth::dataset_columns_to_merge_by, module)?)?;
    module.add_function(wrap_pyfunction!(synth::dataset_exclusion, module)?)?;
    module.add_function(wrap_pyfunction!(synth::has_backward, module)?)?;
    module.add_function(wrap_pyfunction!(synth::dataset_columns, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::path_policy, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::set_process_policy, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::set_database, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::database_place, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::measured_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::stop_measuring, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::look_for_news, module)?)?;
    module.add_function(wrap_pyfunction!(path_choice::n_database_statements, module)?)?;
    module.add_function(wrap_pyfunction!(path_kernels::add_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(path_kernels::remove_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(path_report::profile_database, module)?)?;
    module.add_function(wrap_pyfunction!(path_report::calibrate_machine, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    Ok(())
}
