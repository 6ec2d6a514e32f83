//! `polyloom.sim`: PTX from elsewhere, loaded into the simulator and launched there.

use crate::device::{DeviceMemory, layout_of};
use crate::errors::{device_error, simulator_error};
use crate::interruptible::interruptible;
use crate::launch_dimensions::three;
use crate::sim_settings::{SimSettings, set_last_report};
use polyloom::ptx::LoadError;
use polyloom::{
    HostArray, LaunchConfig, LaunchOptions, PtxArgument, PtxParameter, SimOptions, StagedArrays, StagedPlacement,
    run_on_simulator, sim_queue, source_name, takes_launch,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use std::time::Instant;

/// PTX that is loaded into `sim:0`.
#[pyclass(frozen, module = "polyloom._native")]
pub(crate) struct SimModule {
    inner: polyloom::SimModule,
}

fn ptx_errors(errors: &[polyloom::ptx::PtxError]) -> PyErr {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    PyValueError::new_err(lines.join("\n"))
}

impl SimModule {
    fn loaded_kernel(&self, name: &str) -> PyResult<polyloom::ptx::Kernel> {
        let loaded = self.inner.loaded().map_err(|error: LoadError| PyValueError::new_err(error.to_string()))?;
        loaded.kernel(name).map_err(|errors| ptx_errors(&errors))
    }
}

#[pymethods]
impl SimModule {
    #[new]
    fn new(text: &str) -> PyResult<SimModule> {
        let module = polyloom::ptx::Module::parse(text).map_err(|errors| ptx_errors(&errors))?;
        let inner = polyloom::SimModule::new(module);
        inner.loaded().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(SimModule { inner })
    }

    /// The names of its kernels.
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.inner.module().kernels().into_iter().map(|kernel| kernel.name).collect()
    }

    /// A kernel's parameters: name, type and size in bytes.
    fn parameters(&self, kernel: &str) -> PyResult<Vec<(String, String, u32)>> {
        let kernel = self.loaded_kernel(kernel)?;
        Ok(kernel.parameters().iter().map(|p| (p.name.clone(), p.ty.clone(), p.size)).collect())
    }

    /// Tells whether the kernel is one of Polyloom's, whose first parameter says what is launched.
    fn takes_launch(&self, kernel: &str) -> PyResult<bool> {
        let kernel = self.loaded_kernel(kernel)?;
        Ok(takes_launch(kernel.name(), kernel.parameters()))
    }

    /// Runs a kernel on an argument for each parameter, but that the one that says what is launched may be left out:
    /// it is then as many threads as the grid has. Arrays of the host's are copied to the simulator and, where
    /// they may be written, back. `before` is called before the kernel runs, unless the arguments are refused.
    #[expect(clippy::too_many_arguments, reason = "a launch has as many sides")]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &str,
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        args: Vec<PtxArgumentValue<'_>>,
        shared_bytes: u32,
        cooperative: bool,
        before: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let kernel = self.loaded_kernel(kernel)?;
        let grid = LaunchConfig { grid: three("grid", grid)?, block: three("block", block)?, shared_bytes };
        let (mut parameters, mut arrays) = (Vec::new(), Vec::new());
        let mut infos = kernel.parameters().iter();
        let is_own = takes_launch(kernel.name(), kernel.parameters());
        if is_own
            && args.len() + 1 == infos.len()
            && let Some(info) = infos.next()
        {
            let bytes = polyloom::launch_bytes(&[grid.n_blocks().saturating_mul(grid.block_size())]);
            let wrong = |what| PyTypeError::new_err(format!("parameter '{}' is left out: {what}", info.name));
            parameters.push(PtxParameter { bytes: bytes.map_err(wrong)?, arrays: Vec::new() });
        }
        for (argument, info) in args.iter().zip(infos) {
            let name = source_name(kernel.name(), &info.name).unwrap_or_else(|| info.name.clone());
            let laid_out = argument.in_ptx(&mut arrays)?.lay_out(&name, info.size as usize);
            let wrong = |what| PyTypeError::new_err(format!("parameter '{}' {what}", info.name));
            parameters.push(laid_out.map_err(wrong)?);
        }
        let queue = sim_queue();
        let on_host = arrays.iter().flatten().cloned().collect();
        let placement = if is_own { StagedPlacement::AsOnHost } else { StagedPlacement::Exact };
        // SAFETY: NumPy says where the elements are, `args` holds the arrays until the launch is done, and those that
        // are copied back may be written.
        let staged = unsafe { StagedArrays::new(&*queue, on_host, placement) };
        let staged = staged.map_err(|failure| device_error(py, &failure))?;
        let names = place_arrays(&mut parameters, &arrays, &staged);
        let params: Vec<Vec<u8>> = parameters.into_iter().map(|parameter| parameter.bytes).collect();
        let settings = SimSettings::get();
        let sim = SimOptions { cooperative, ..settings.options() };
        before.call0()?;
        let started = Instant::now();
        let (result, interrupt) = interruptible(py, |options| {
            let arch = settings.arch.number().into();
            run_on_simulator(&kernel, arch, &params, &names, &grid, &LaunchOptions { sim, ..*options })
        })?;
        // SAFETY: as above.
        unsafe { staged.copy_back() }.map_err(|failure| device_error(py, &failure))?;
        if let Some(interrupt) = interrupt {
            return Err(interrupt);
        }
        set_last_report(result.as_ref().unwrap_or_else(|fault| &fault.report).clone(), started.elapsed());
        result.map(drop).map_err(|fault| simulator_error(py, &fault))
    }

    /// The module as PTX.
    fn __str__(&self) -> String {
        self.inner.module().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<PTX module with kernels {}>", self.kernels().join(", "))
    }
}

/// Returns what the first parameter of a kernel of Polyloom's is given for a launch of these extents, as bytes.
#[pyfunction]
pub(crate) fn launch_bytes(py: Python<'_>, extents: Vec<u64>) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = polyloom::launch_bytes(&extents);
    bytes.map(|bytes| PyBytes::new(py, &bytes)).map_err(PyTypeError::new_err)
}

/// Describes what a parameter of a foreign kernel is given, as Python hands it over.
#[derive(FromPyObject)]
enum PtxArgumentValue<'py> {
    /// Bytes, and what they are aligned to in a struct.
    Bytes(Bound<'py, PyBytes>, usize),
    /// A NumPy array, and the memory of a device that it describes.
    Array(Bound<'py, PyAny>, Option<Py<DeviceMemory>>),
    /// A struct, and what it is aligned to at least.
    Struct(Vec<PtxArgumentValue<'py>>, usize),
}

impl PtxArgumentValue<'_> {
    /// The argument, and its arrays appended to `arrays`: `None` for those that are on the device.
    fn in_ptx(&self, arrays: &mut Vec<Option<HostArray>>) -> PyResult<PtxArgument> {
        Ok(match self {
            PtxArgumentValue::Bytes(bytes, align) => PtxArgument::Bytes(bytes.as_bytes().to_vec(), *align),
            PtxArgumentValue::Array(storage, memory) => {
                let layout = layout_of(storage)?;
                let is_written = storage.getattr("flags")?.getattr("writeable")?.extract()?;
                arrays.push(memory.is_none().then(|| HostArray { layout: layout.clone(), is_written }));
                PtxArgument::Array(layout)
            }
            PtxArgumentValue::Struct(members, align) => {
                let members: PyResult<Vec<PtxArgument>> = members.iter().map(|member| member.in_ptx(arrays)).collect();
                PtxArgument::aligned(members?, *align).map_err(PyTypeError::new_err)?
            }
        })
    }
}

/// Writes the addresses of arrays into the parameters, and gives these with the names of the arrays.
fn place_arrays(
    parameters: &mut [PtxParameter],
    arrays: &[Option<HostArray>],
    staged: &StagedArrays<'_>,
) -> Vec<(u64, Arc<str>)> {
    let (mut names, mut n_staged) = (Vec::new(), 0);
    let mut host = arrays.iter();
    for parameter in parameters {
        for index in 0..parameter.arrays.len() {
            let array = &parameter.arrays[index];
            // An array of no elements is nowhere.
            let address = match host.next() {
                Some(Some(_)) => {
                    n_staged += 1;
                    staged.address(n_staged - 1).unwrap_or(0)
                }
                _ if array.layout.n_bytes() == 0 => 0,
                _ => array.layout.base,
            };
            names.push((address, array.name.as_str().into()));
            parameter.set_address(index, address);
        }
    }
    names
}
