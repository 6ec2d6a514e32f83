//! The methods that kernels have in Python.
//!
//! This file is longer than others: PyO3 takes all methods of a class in one block.

use crate::backward::{Backward, KnownArgument, arguments_of};
use crate::boundary::guarded;
use crate::code_forms::{emit_error, gpu_target, llvm_form};
use crate::errors::{compile_error, diagnostic_object, launch_error};
use crate::generic::Generic;
use crate::kernel::{Deferred, Kernel, LaunchedCode};
use crate::native_callable::callable;
use crate::native_function::NativeFunction;
use crate::source_unit::SourceUnit;
use crate::{arguments, device, packages, session};
use polyloom::{AccessCheck, DerivativeLaunch, DerivativeRequest, EmitOptions, Form, GpuTarget, Scalar, Type};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// Describes what differentiation goes by, of a parameter.
type ParameterFacts = (u8, &'static str, Vec<u16>, bool);

#[pymethods]
impl Kernel {
    /// `deferred` kernels are compiled when they are first used, and what is wrong with them is told then.
    #[new]
    #[pyo3(signature = (unit, line, function, globals, cells, options, deferred = false))]
    #[expect(clippy::too_many_arguments, reason = "the decorator gives them")]
    fn new(
        py: Python<'_>,
        unit: &Bound<'_, SourceUnit>,
        line: u32,
        function: &Bound<'_, PyAny>,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
        options: Option<&str>,
        deferred: bool,
    ) -> PyResult<Kernel> {
        let (handle, scope) = unit.get().handle(line, function, globals, cells, options)?;
        let session = session()?;
        let defaults = session.defaults();
        let code = match Generic::new(&handle, defaults) {
            Some(generic) => {
                handle.evaluate_static_expressions();
                LaunchedCode::Generic(generic)
            }
            None if deferred => {
                let (name, handle) = (handle.name(), handle.clone());
                LaunchedCode::Deferred(Box::new(Deferred { handle, name, defaults, compiled: OnceLock::new() }))
            }
            None => LaunchedCode::One(Arc::new(guarded(|| {
                session.compile(&handle, defaults).map_err(|error| compile_error(py, &error))
            })?)),
        };
        let doc = function.getattr("__doc__")?.extract()?;
        let text = Some((handle.unit.clone(), handle.function));
        let scope = matches!(code, LaunchedCode::Generic(_) | LaunchedCode::Deferred(_)).then(|| scope.unbind());
        Ok(Kernel { code, doc, text, scope })
    }

    /// Nothing changes a kernel, because a copy is the kernel itself.
    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scope)
    }

    /// The kernel's name.
    #[getter(__name__)]
    fn python_name(&self) -> &str {
        self.name()
    }

    /// The kernel's name, as Warp's programs ask for it.
    #[getter]
    fn key(slf: &Bound<'_, Self>) -> PyResult<String> {
        // The decorator's argument `name`.
        match slf.getattr("__dict__")?.cast::<PyDict>()?.get_item("_key")? {
            Some(key) => key.extract(),
            None => Ok(slf.get().name().to_owned()),
        }
    }

    /// The specialisations of a generic kernel so far, by their parameters' types; none of other kernels.
    #[getter]
    fn overloads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let overloads = PyDict::new(py);
        if let Some(generic) = self.generic() {
            for (types, kernel) in generic.specialisations(py) {
                overloads.set_item(types, kernel)?;
            }
        }
        Ok(overloads)
    }

    /// The kernel's name.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        match &self.code {
            LaunchedCode::One(kernel) => kernel.name(),
            LaunchedCode::Tangent(tangent) => tangent.kernel.name(),
            LaunchedCode::Flat(kernel) | LaunchedCode::Strict(kernel) => kernel.name(),
            LaunchedCode::Generic(generic) => generic.name(),
            LaunchedCode::Deferred(deferred) => &deferred.name,
        }
    }

    /// Returns true if the types of a launch's arguments choose what is compiled.
    #[getter]
    fn is_generic(&self) -> bool {
        matches!(self.code, LaunchedCode::Generic(_))
    }

    /// The kernel that this generic one is for parameters of these types: a list of one for each parameter, or a
    /// dictionary of those of its generic parameters.
    fn overload<'py>(&self, types: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Kernel>> {
        match &self.code {
            LaunchedCode::Generic(generic) => generic.for_types(types),
            _ => {
                let message = format!("kernel '{}' is not generic: it has one type for each parameter", self.name());
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// The kernel's docstring.
    #[getter(__doc__)]
    fn python_doc(&self) -> Option<&str> {
        self.doc.as_deref()
    }

    /// The text of the kernel with the imports, functions, structs and constants of its file that it needs.
    #[getter]
    fn source(&self) -> Option<String> {
        self.text.as_ref().map(|(unit, function)| unit.excerpt(*function))
    }

    /// Name and parameters with their types.
    #[getter]
    fn signature(&self) -> String {
        match &self.code {
            LaunchedCode::Generic(generic) => generic.signature(),
            LaunchedCode::Deferred(deferred) if deferred.compiled.get().is_none() => format!("{}(…)", deferred.name),
            _ => self.one().map(|kernel| kernel.signature()).unwrap_or_default(),
        }
    }

    /// The device that the decorator names, on which launches run that name none; `None` if it names none, and of
    /// generic kernels.
    #[getter]
    fn device(&self) -> PyResult<Option<String>> {
        Ok(if self.generic().is_some() { None } else { self.one()?.device().map(|device| device.to_string()) })
    }

    /// Warnings of the compiler, as `Diagnostic` objects.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        if let LaunchedCode::One(kernel) = &self.code {
            for warning in kernel.warnings() {
                list.append(diagnostic_object(py, warning, kernel.sources())?)?;
            }
        }
        Ok(list)
    }

    /// The kernel's metadata and execution constraints that differ from the default, as HIR text spells them.
    #[getter]
    fn metadata(&self) -> PyResult<Vec<String>> {
        Ok(self.one()?.metadata())
    }

    /// The kernel as a native function: a C function that runs on the calling thread, to be called with the extents of
    /// the launch, if its threads have coordinates, and the arguments. It is compiled now, by LLVM.
    fn function(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let kernel = self.one()?;
        let made = guarded(|| Ok(py.detach(|| kernel.native_function())))?;
        callable(py, made.map(NativeFunction::new).map_err(|error| emit_error(py, &error))?)
    }

    /// The kernel's HIR as text: as written, or `prepared` for back ends.
    #[pyo3(signature = (*, prepared = false, backward = false))]
    fn hir(&self, py: Python<'_>, prepared: bool, backward: bool) -> PyResult<String> {
        self.text(py, if prepared { Form::HirPrepared } else { Form::Hir }, &EmitOptions::default(), backward)
    }

    /// The kernel's typed syntax tree as text.
    fn ast(&self, py: Python<'_>) -> PyResult<String> {
        self.text(py, Form::Ast, &EmitOptions::default(), false)
    }

    /// The kernel's LLVM IR as text, after optimisation unless `optimized` is false: what runs where arrays are dense
    /// and do not overlap, as many threads at a time as launches have measured to be faster; or, if an architecture is named, what PTX for it is made of.
    #[pyo3(signature = (*, optimized = true, backward = false, arch = None))]
    fn llvm_ir(&self, py: Python<'_>, optimized: bool, backward: bool, arch: Option<&str>) -> PyResult<String> {
        let target = arch.map(|arch| self.gpu_target(Some(arch), None, false, false)).transpose()?;
        let (form, options) = llvm_form(optimized, target);
        self.text(py, form, &options, backward)
    }

    /// The kernel as C++ that compiles by itself. With `comments`, lines of the kernel's source stand before what they
    /// became.
    #[pyo3(signature = (*, comments = false, backward = false))]
    fn cpp(&self, py: Python<'_>, comments: bool, backward: bool) -> PyResult<String> {
        self.text(py, Form::Cpp, &EmitOptions { comments, ..EmitOptions::default() }, backward)
    }

    /// The kernel as CUDA C++ that compiles by itself, for NVRTC and nvcc. With `comments`, lines of the kernel's
    /// source stand before what they became.
    #[pyo3(signature = (*, comments = false, backward = false))]
    fn cuda(&self, py: Python<'_>, comments: bool, backward: bool) -> PyResult<String> {
        self.text(py, Form::Cuda, &EmitOptions { comments, ..EmitOptions::default() }, backward)
    }

    /// The kernel's PTX for a GPU architecture, `sm_75` to `sm_121`, by default the one that its decorator names as
    /// `target`, or `sm_80`: for any arrays or, if `dense`, for dense ones that
    /// begin at multiples of 64 bytes and do not overlap, in launches of at most 2^27 threads; with a thread for each
    /// element of a launch or, if `grid_stride`, threads that run through the launch by strides of the grid. The
    /// entry's parameters are described in the guide. No GPU is needed.
    #[pyo3(signature = (arch = None, *, ptx_version = None, dense = false, grid_stride = false, backward = false))]
    fn ptx(
        &self,
        py: Python<'_>,
        arch: Option<&str>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
        backward: bool,
    ) -> PyResult<String> {
        let target = self.gpu_target(arch, ptx_version, dense, grid_stride)?;
        self.text(py, Form::Ptx, &EmitOptions::for_gpu(target), backward)
    }

    /// The kernel's PTX, assembled for GPUs of one architecture: a cubin. Parameters are those of `ptx`. No GPU is
    /// needed, but NVIDIA's assembler is: `ptxas` on PATH, in a CUDA tool kit or of the package `nvidia-cuda-nvcc`, or
    /// the library `libnvJitLink`.
    #[pyo3(signature = (arch = None, *, ptx_version = None, dense = false, grid_stride = false, backward = false))]
    fn cubin<'py>(
        &self,
        py: Python<'py>,
        arch: Option<&str>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
        backward: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let target = self.gpu_target(arch, ptx_version, dense, grid_stride)?;
        packages::tell(py)?;
        Ok(PyBytes::new(py, &self.code(py, Form::Cubin, &EmitOptions::for_gpu(target), backward)?))
    }

    /// The kernel's code for several GPU architectures in one image, a fat binary, of which a driver loads what fits its
    /// GPU best: the PTX of each and, where NVIDIA's assembler is found, a cubin of each. Other parameters are those of
    /// `ptx`. No GPU is needed.
    #[pyo3(signature = (archs, *, ptx_version = None, dense = false, grid_stride = false, backward = false))]
    fn fatbin<'py>(
        &self,
        py: Python<'py>,
        archs: Vec<String>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
        backward: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if archs.is_empty() {
            return Err(PyValueError::new_err("a fat binary is for one architecture at least"));
        }
        let targets = archs.iter().map(|arch| self.gpu_target(Some(arch), ptx_version, dense, grid_stride));
        let targets = targets.collect::<PyResult<Vec<_>>>()?;
        packages::tell(py)?;
        let made = self.directed(py, backward, |kernel| py.detach(|| kernel.fatbin(&targets)))?;
        Ok(PyBytes::new(py, &made.map_err(|error| emit_error(py, &error))?))
    }

    /// Returns what there is to know of the kernel's GPU code, as a dictionary: `ptx_version`, `target_archs`,
    /// `least_arch`, `required_features`, `entry_points`, `device_functions`, `constant_memory`, `shared_memory`,
    /// `launch_bounds`, `max_registers`, `address_spaces`, `parameters` and more; and whether a GPU was there when the
    /// code was made, `cuda_available_at_generation` and `codegen_only`, for which it looks for NVIDIA's driver.
    /// Parameters are those of `ptx`.
    #[pyo3(signature = (arch = None, *, ptx_version = None, dense = false, grid_stride = false, backward = false))]
    fn gpu_metadata<'py>(
        &self,
        py: Python<'py>,
        arch: Option<&str>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
        backward: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let target = self.gpu_target(arch, ptx_version, dense, grid_stride)?;
        let metadata = self.directed(py, backward, |kernel| py.detach(|| kernel.gpu_metadata(&target)))?;
        let metadata = metadata.map_err(|error| emit_error(py, &error))?;
        let text = serde_json::to_string(&metadata).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The machine code that runs where arrays are dense and do not overlap, as assembly text: as many threads at a time as
    /// launches have measured to be faster.
    #[pyo3(signature = (*, backward = false))]
    fn asm(&self, py: Python<'_>, backward: bool) -> PyResult<String> {
        self.text(py, Form::Asm, &EmitOptions::default(), backward)
    }

    /// Returns what was chosen for code that runs on the CPU where arrays are dense and do not overlap, and why: how many
    /// threads run at a time, what a thread is estimated to take either way, and which arrays ranges of threads have
    /// copies of.
    #[pyo3(signature = (*, backward = false))]
    fn explain(&self, py: Python<'_>, backward: bool) -> PyResult<String> {
        self.text(py, Form::Strategy, &EmitOptions::default(), backward)
    }

    /// The kernel's accesses of arrays in the order of their execution, functions that it calls included: for each index
    /// a `KernelAccess`, which says whether launches verify it before anything runs.
    #[getter]
    fn accesses<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let class = py.import("polyloom._accesses")?.getattr("KernelAccess")?;
        let record = |access: polyloom::KernelAccess| {
            let (checked, reason) = match access.check {
                AccessCheck::Launch => (Some("launch"), None),
                AccessCheck::Run => (Some("run"), None),
                AccessCheck::Nothing(reason) => (None, Some(reason)),
            };
            class.call1((access.array.as_deref(), access.axis, access.text, access.position.line, checked, reason))
        };
        self.one()?.accesses().into_iter().map(record).collect()
    }

    /// The names of the parameters, as the source has them.
    #[getter]
    fn parameter_names(&self) -> PyResult<Vec<String>> {
        match &self.code {
            LaunchedCode::Generic(generic) => Ok(generic.param_names().map(str::to_owned).collect()),
            _ => Ok(self.one()?.arguments().iter().map(|param| param.name.to_string()).collect()),
        }
    }

    /// Arguments of a launch with the numbers that they are now and, if they are copied, structs with their values.
    fn _by_value(&self, py: Python<'_>, args: Vec<Bound<'_, PyAny>>, copies_structs: bool) -> PyResult<Vec<Py<PyAny>>> {
        let borrowed: Vec<_> = args.iter().map(Bound::as_borrowed).collect();
        arguments::by_value(py, self.one()?, &borrowed, copies_structs)
    }

    /// The kernel with the parameters of its HIR, leaves in place of structs; itself if it takes no structs.
    #[getter]
    fn _flat<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Kernel>> {
        let kernel = slf.get().one()?;
        match kernel.has_structs() {
            true => Bound::new(
                slf.py(),
                Kernel { code: LaunchedCode::Flat(kernel.flat().clone()), doc: None, text: None, scope: None },
            ),
            false => Ok(slf.clone()),
        }
    }

    /// The kernel with the parameters of its HIR in the mode `strict`; itself if that is its mode.
    #[getter]
    fn _strict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Kernel>> {
        match slf.get().one()?.strict() {
            Some(strict) => Bound::new(
                slf.py(),
                Kernel { code: LaunchedCode::Strict(strict.clone()), doc: None, text: None, scope: None },
            ),
            None => Ok(slf.clone()),
        }
    }

    /// The arguments of a launch on a device as the parameters of the kernel's HIR take them: for each argument the
    /// leaves of the struct, or of the array of structs, that it is, or itself alone.
    fn _leaves<'py>(&self, args: Vec<Bound<'py, PyAny>>, device: &str) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        arguments::leaves(self.one()?, device::named(device)?, &args)
    }

    /// Returns what differentiation goes by: for each parameter of the kernel's HIR its number of dimensions, 0 if it
    /// is no array; the name of the type of its numbers; the extents of an element's components; and whether the kernel
    /// writes it.
    #[getter]
    fn _parameters(&self) -> PyResult<Vec<ParameterFacts>> {
        let kernel = self.one()?;
        let mut n_before = 0;
        let parameter = |&ty: &Type| {
            let is_written = kernel.writes(n_before);
            n_before += ty.as_composite().map_or(1, polyloom::Composite::n_components);
            let (elem, ndim) = ty.as_any_array().unwrap_or((ty, 0));
            let composite = elem.as_composite();
            let scalar = composite.map(polyloom::Composite::elem).or_else(|| elem.as_scalar());
            let inner = composite.map_or_else(Vec::new, |composite| composite.shape().to_vec());
            (ndim, scalar.map_or("", Scalar::python_name), inner, is_written)
        };
        Ok(kernel.types().iter().map(parameter).collect())
    }

    /// What the backward kernel with respect to the parameters that are active needs, for launches with these extents.
    /// Elements of the arrays that are `coinciding` may be one memory though their indices differ. What is `known` of the
    /// arguments is for each an integer, the extents of an array, or None.
    #[pyo3(signature = (active, dim, coinciding = Vec::new(), known = Vec::new()))]
    fn backward(
        &self,
        py: Python<'_>,
        active: Vec<bool>,
        dim: Vec<u64>,
        coinciding: Vec<bool>,
        known: Vec<Option<KnownArgument>>,
    ) -> PyResult<Backward> {
        Backward::of(py, self.one()?, active, &dim, coinciding, known)
    }

    /// The kernel with tangents of the parameters that are active and of all arrays that it writes, for launches with
    /// these extents, whose arguments are `known` as for `backward`; the parameters that it has tangents of, in order;
    /// and those arrays of which it then takes what the kernel leaves in them.
    fn tangent(
        &self,
        py: Python<'_>,
        active: Vec<bool>,
        dim: Vec<u64>,
        known: Vec<Option<KnownArgument>>,
    ) -> PyResult<(Kernel, Vec<usize>, Vec<usize>)> {
        let kernel = self.one()?;
        let request = DerivativeRequest::new(active, dim.len() as u8);
        let arguments = arguments_of(known);
        let launch = DerivativeLaunch { dim: &dim, arguments: &arguments };
        let made = || py.detach(|| kernel.tangent(&request).and_then(|made| made.check(&launch).map(|()| made)));
        let tangent = guarded(|| made().map_err(|error| compile_error(py, &error)))?;
        let (tangents, after) = (tangent.tangents.clone(), tangent.after.clone());
        Ok((Kernel { code: LaunchedCode::Tangent(tangent), doc: None, text: None, scope: None }, tangents, after))
    }

    /// The kernel that runs for these arguments: of a generic one, its overload.
    fn for_arguments<'py>(slf: &Bound<'py, Self>, args: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, Kernel>> {
        match slf.get().generic() {
            None => Ok(slf.clone()),
            Some(generic) => {
                let args: Vec<_> = args.iter().map(|arg| arg.as_borrowed()).collect();
                generic.for_arguments(slf.py(), &args)
            }
        }
    }

    /// Makes machine code now, for launches of as many dimensions as the kernel asks coordinates, so that the first
    /// launch need not.
    #[pyo3(signature = (ndim = None))]
    fn compile(&self, py: Python<'_>, ndim: Option<u8>) -> PyResult<()> {
        let kernel = self.one()?;
        let rank = ndim.unwrap_or_else(|| kernel.natural_rank());
        if !(1..=4).contains(&rank) {
            return Err(PyValueError::new_err(format!("a launch has 1 to 4 dimensions, not {rank}")));
        }
        guarded(|| py.detach(|| kernel.compile(rank)).map_err(|error| launch_error(py, kernel, &error, None)))
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(&self, _args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let name = self.name();
        Err(PyTypeError::new_err(format!(
            "'{name}' is a kernel: run it with polyloom.launch({name}, dim, [arguments])"
        )))
    }

    fn __repr__(&self) -> String {
        format!("<kernel {}>", self.signature())
    }
}

impl Kernel {
    fn text(&self, py: Python<'_>, form: Form, options: &EmitOptions, backward: bool) -> PyResult<String> {
        Ok(String::from_utf8_lossy(&self.code(py, form, options, backward)?).into_owned())
    }

    fn code(&self, py: Python<'_>, form: Form, options: &EmitOptions, backward: bool) -> PyResult<Vec<u8>> {
        let bytes = self.directed(py, backward, |kernel| py.detach(|| kernel.emit(form, options)))?;
        bytes.map_err(|error| emit_error(py, &error))
    }

    /// Describes the GPU code that is asked for.
    fn gpu_target(
        &self,
        arch: Option<&str>,
        ptx_version: Option<&str>,
        dense: bool,
        grid_stride: bool,
    ) -> PyResult<GpuTarget> {
        gpu_target(arch, self.one()?.arch(), ptx_version, dense, grid_stride)
    }

    /// Returns what `work` makes of the kernel or, if `backward`, of its backward kernel with respect to all its
    /// parameters.
    fn directed<R>(&self, py: Python<'_>, backward: bool, work: impl FnOnce(&polyloom::Kernel) -> R) -> PyResult<R> {
        let kernel = self.one()?;
        if !backward {
            return guarded(|| Ok(work(kernel)));
        }
        let request = DerivativeRequest::new(vec![true; kernel.types().len()], kernel.natural_rank());
        let made = || py.detach(|| kernel.backward(&request));
        let backward = guarded(|| made().map_err(|error| compile_error(py, &error)))?;
        if let Some(warning) = backward.warning() {
            let text = CString::new(warning.render(false))?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        guarded(|| Ok(work(&backward.kernel)))
    }
}
