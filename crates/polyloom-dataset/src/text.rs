//! The columns of a row: a kernel in all its forms.

use crate::generate::Program;
use crate::produce::SourceSettings;
use crate::row::{Hashes, Metadata, Row, Versions};
use crate::tools::made_of;
use crate::verify::{Level, Reason, Reject};
use polyloom::{
    Arch, Backward, Code, DerivativeRequest, Form, Function, GpuError, GpuForm, GpuTarget, Kernel, Op, TextTarget,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// The generator's version: another number, other kernels for the same seed.
pub(crate) const GENERATOR: u32 = 8;

/// The licence of generated rows.
const LICENSE: &str = "Apache-2.0";

/// Which devices rows have code for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// CUDA C++, PTX and LLVM IR for GPUs.
    Cuda,
    /// C++.
    Cpu,
    /// All of it.
    #[default]
    Both,
}

impl Device {
    /// Its name in data sets and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Device::Cuda => "cuda",
            Device::Cpu => "cpu",
            Device::Both => "both",
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(name: &str) -> Result<Device, String> {
        let known = [Device::Cuda, Device::Cpu, Device::Both].into_iter().find(|device| device.name() == name);
        known.ok_or_else(|| format!("there is no device `{name}`; there are cuda, cpu and both"))
    }
}

/// Where a row comes from.
pub(crate) struct Place<'a> {
    pub(crate) seed: u64,
    pub(crate) index: u64,
    /// The files that kernels are found in.
    pub(crate) source: Option<&'a SourceSettings>,
    /// Where in these this one was found.
    pub(crate) origin: Option<String>,
}

/// What of a kernel is written, and for what.
#[derive(Clone, Debug)]
pub struct Texts {
    /// The devices.
    pub device: Device,
    /// The architecture of PTX and LLVM IR.
    pub arch: Arch,
    /// The columns: no other code is made.
    pub columns: Vec<String>,
}

/// GPU code of a kernel.
#[derive(Clone, Debug, Default)]
pub struct GpuCode {
    /// PTX, which the simulator runs.
    pub(crate) ptx: Option<String>,
    /// PTX of the backward kernel, which it runs too.
    pub(crate) ptx_backward: Option<String>,
    llvm_ir: Option<String>,
}

impl Texts {
    /// Whether rows have this column: it is asked for, or one that is made of it, and its device is.
    pub(crate) fn wants(&self, column: &str) -> bool {
        let is_for_device = match column {
            "cpp_forward" | "cpp_backward" => self.device != Device::Cuda,
            "hir" => true,
            _ => self.device != Device::Cpu,
        };
        let is_made_of_it = |wanted: &str| made_of(wanted) == Some(column);
        is_for_device && self.columns.iter().any(|wanted| wanted == column || is_made_of_it(wanted))
    }

    /// The kernel's GPU code, as far as rows have it or it is needed to prove them right to this level.
    ///
    /// # Errors
    ///
    /// Where the back end does not take the kernel.
    pub fn gpu_code(&self, kernel: &Kernel, level: Level) -> Result<GpuCode, Box<Reject>> {
        let target = self.gpu_target();
        let ptx_backward = match self.wants("ptx_backward") {
            true => backward(kernel)?.map(|backward| backward.kernel.emit_gpu(GpuForm::Ptx, &target)),
            false => None,
        };
        let ptx_backward = ptx_backward.transpose().map_err(beyond)?;
        if self.wants("llvm_ir_forward") {
            let forms = [GpuForm::LlvmIrOptimized, GpuForm::Ptx];
            let [llvm_ir, ptx] = kernel.emit_gpu_forms(forms, &target).map_err(beyond)?;
            return Ok(GpuCode { ptx: Some(ptx), ptx_backward, llvm_ir: Some(llvm_ir) });
        }
        let needs_ptx = self.wants("ptx_forward") || level >= Level::Full;
        let ptx = needs_ptx.then(|| kernel.emit_gpu(GpuForm::Ptx, &target).map_err(beyond)).transpose()?;
        Ok(GpuCode { ptx, ptx_backward, llvm_ir: None })
    }

    fn gpu_target(&self) -> GpuTarget {
        GpuTarget { lines: false, ..GpuTarget::new(self.arch) }
    }

    /// The row of a program whose kernel, with this GPU code, has passed a level.
    ///
    /// # Errors
    ///
    /// Where a back end does not take the kernel.
    pub(crate) fn row(
        &self,
        program: &Program,
        kernel: &Kernel,
        code: GpuCode,
        hashes: Hashes,
        verified: Level,
        Place { seed, index, source, origin }: Place<'_>,
    ) -> Result<Row, Box<Reject>> {
        let backward = backward(kernel)?;
        let of_backward = backward.as_deref().map(|backward| &backward.kernel);
        let text = |column, kernel: Option<&Kernel>, target| -> Result<Option<String>, Box<Reject>> {
            let kernel = kernel.filter(|_| self.wants(column));
            kernel.map(|kernel| kernel.text(target, false).map_err(failed)).transpose()
        };
        let cuda_forward = text("cuda_forward", Some(kernel), TextTarget::Cuda)?;
        let cuda_backward = text("cuda_backward", of_backward, TextTarget::Cuda)?;
        let cpp_forward = text("cpp_forward", Some(kernel), TextTarget::Cpp)?;
        let cpp_backward = text("cpp_backward", of_backward, TextTarget::Cpp)?;
        let ptx_forward = code.ptx.filter(|_| self.wants("ptx_forward"));
        let ptx_backward = code.ptx_backward;
        let hir = self.wants("hir").then(|| kernel.emit(Form::Hir, None).map_err(failed)).transpose()?;
        let lines = |texts: [&Option<String>; 3]| texts.into_iter().flatten().next().map_or(0, |text| n_lines(text));
        let metadata = Metadata {
            device: self.device.name().to_owned(),
            has_backward: backward.is_some(),
            forward_lines: lines([&cuda_forward, &cpp_forward, &ptx_forward]),
            backward_lines: lines([&cuda_backward, &cpp_backward, &ptx_backward]),
            generation_time_ms: None,
            codegen_only: true,
            cuda_available_at_generation: None,
            verified,
            arch: self.arch.to_string(),
            inputs: program.inputs.clone(),
            launch: program.dim.clone(),
            ops: ops(kernel.function()),
            depth: depth(kernel.function()),
            difficulty: program.difficulty,
            hashes,
            origin,
            seed,
            index,
            versions: Versions { polyloom: env!("CARGO_PKG_VERSION").to_owned(), generator: GENERATOR },
            license: source.map_or(LICENSE, |source| &source.license).to_owned(),
        };
        let id = match source {
            Some(source) => format!("polyloom-{}-{index}", source.fingerprint.get(..12).unwrap_or_default()),
            None => format!("polyloom-{seed}-{index}"),
        };
        Ok(Row {
            id,
            kernel_name: program.name.clone(),
            category: program.category.to_string(),
            python_source: program.source.clone(),
            cuda_forward,
            cuda_backward,
            cpp_forward,
            cpp_backward,
            llvm_ir_forward: code.llvm_ir,
            ptx_forward,
            ptx_backward,
            hir: hir.map(|hir| String::from_utf8_lossy(&hir).into_owned()),
            device: self.device.name().to_owned(),
            metadata: Some(metadata),
            ..Row::default()
        })
    }
}

/// How many lines a text has whose last line ends like all others. Texts are long, and `str::lines` looks for ends one by
/// one; sums of bytes, of no more than fit a byte, become vector code.
pub(crate) fn n_lines(text: &str) -> usize {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>();
    text.as_bytes().chunks(255).map(|bytes| usize::from(of(bytes))).sum()
}

/// The hashes of a text and its kernel.
pub(crate) fn hashes(source: &str, kernel: &Kernel) -> Hashes {
    let digits = |hash: &[u8; 32]| hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Hashes {
        exact: digits(blake3::hash(source.as_bytes()).as_bytes()),
        alpha: digits(&kernel.hash()),
        structure: digits(&kernel.structure_hash()),
    }
}

/// Derivatives with respect to all parameters.
pub(crate) fn request(kernel: &Kernel) -> DerivativeRequest {
    DerivativeRequest::new(vec![true; kernel.types().len()], kernel.natural_rank())
}

/// The backward kernel with respect to all parameters, unless the kernel has no derivative.
///
/// # Errors
///
/// Where the kernel is rejected.
pub fn backward(kernel: &Kernel) -> Result<Option<Arc<Backward>>, Box<Reject>> {
    match kernel.backward(&request(kernel)) {
        Ok(backward) if backward.needs.adjoints.is_empty() => Ok(None),
        Ok(backward) => Ok(Some(backward)),
        Err(error) if error.diagnostics.iter().all(|d| d.code == Code::NotDifferentiable) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn failed(error: impl Display) -> Box<Reject> {
    Reject::new(Reason::Failed, error)
}

fn beyond(error: GpuError) -> Box<Reject> {
    failed(error)
}

/// The ops of a function, each once.
fn ops(function: &Function) -> Vec<String> {
    let mut ops = BTreeSet::new();
    function.walk(function.body, &mut |_, data| {
        if !matches!(data.op, Op::Const) {
            ops.insert(data.op.name().to_owned());
        }
    });
    ops.into_iter().collect()
}

/// The most operations one after the other, each of which takes the result of the one before.
fn depth(function: &Function) -> usize {
    let mut depths = FxHashMap::default();
    let mut most = 0;
    function.walk(function.body, &mut |_, data| {
        let deepest = data.operands.iter().filter_map(|operand| depths.get(operand)).copied().max().unwrap_or(0);
        let own = deepest + usize::from(!matches!(data.op, Op::Const));
        most = most.max(own);
        depths.extend(data.results.iter().map(|&result| (result, own)));
    });
    most
}
