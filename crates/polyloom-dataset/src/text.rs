//! The columns of a row: a kernel in all its forms.

use crate::generate::{DatasetProgram, GENERATOR};
use crate::produce::SourceSettings;
use crate::proof::{ProofLevel, Reason, RejectedProof};
use crate::row::{KernelHashes, Row, RowMetadata, ToolVersions, made_of};
use polyloom::{
    Arch, BackwardKernel, Code, DerivativeRequest, EmitOptions, Form, FuncId, Function, GpuTarget, Imm, Inst, Kernel,
    Module, Op, Region, Value,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// The licence of generated rows.
const LICENSE: &str = "Apache-2.0";

/// Says which devices rows have code for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceColumns {
    /// CUDA C++, PTX and LLVM IR for GPUs.
    Cuda,
    /// C++.
    Cpu,
    /// All of it.
    #[default]
    Both,
}

impl DeviceColumns {
    /// Its name in data sets and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DeviceColumns::Cuda => "cuda",
            DeviceColumns::Cpu => "cpu",
            DeviceColumns::Both => "both",
        }
    }
}

impl FromStr for DeviceColumns {
    type Err = String;

    fn from_str(name: &str) -> Result<DeviceColumns, String> {
        let known = [DeviceColumns::Cuda, DeviceColumns::Cpu, DeviceColumns::Both]
            .into_iter()
            .find(|device| device.name() == name);
        known.ok_or_else(|| format!("there is no device `{name}`; there are cuda, cpu and both"))
    }
}

/// Says where a row comes from.
pub(crate) struct RowOrigin<'a> {
    pub(crate) seed: u64,
    pub(crate) index: u64,
    /// The files that kernels are found in.
    pub(crate) source: Option<&'a SourceSettings>,
    /// The place where in these this one was found.
    pub(crate) origin: Option<String>,
}

/// Describes what of a kernel is written, and for what.
#[derive(Clone, Debug)]
pub struct KernelTexts {
    /// The devices.
    pub device: DeviceColumns,
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

impl KernelTexts {
    /// Returns true if rows have this column: it is asked for, or one that is made of it, and its device is.
    pub(crate) fn wants(&self, column: &str) -> bool {
        let is_for_device = match column {
            "cpp_forward" | "cpp_backward" => self.device != DeviceColumns::Cuda,
            "hir" => true,
            _ => self.device != DeviceColumns::Cpu,
        };
        let is_made_of_it = |wanted: &str| made_of(wanted) == Some(column);
        is_for_device && self.columns.iter().any(|wanted| wanted == column || is_made_of_it(wanted))
    }

    /// The kernel's GPU code, as far as rows have it or it is needed to prove them right to this level.
    ///
    /// # Errors
    ///
    /// Where the back end does not take the kernel.
    pub fn gpu_code(&self, kernel: &Kernel, level: ProofLevel) -> Result<GpuCode, Box<RejectedProof>> {
        let target = self.gpu_target();
        let ptx_backward = match self.wants("ptx_backward") {
            true => backward(kernel)?.map(|backward| backward.kernel.emit_text(Form::Ptx, &target)),
            false => None,
        };
        let ptx_backward = ptx_backward.transpose().map_err(failed)?;
        if self.wants("llvm_ir_forward") {
            let made = kernel.emit_forms(&[Form::GpuLlvmIrOptimized, Form::Ptx], &target).map_err(failed)?;
            let mut texts = made.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned());
            let (llvm_ir, ptx) = (texts.next(), texts.next());
            return Ok(GpuCode { ptx, ptx_backward, llvm_ir });
        }
        let needs_ptx = self.wants("ptx_forward") || level >= ProofLevel::Full;
        let ptx = needs_ptx.then(|| kernel.emit_text(Form::Ptx, &target).map_err(failed)).transpose()?;
        Ok(GpuCode { ptx, ptx_backward, llvm_ir: None })
    }

    fn gpu_target(&self) -> EmitOptions {
        EmitOptions::for_gpu(GpuTarget { lines: false, ..GpuTarget::new(self.arch) })
    }

    /// The row of a program whose kernel, with this GPU code, has passed a level.
    ///
    /// # Errors
    ///
    /// Where a back end does not take the kernel.
    pub(crate) fn row(
        &self,
        program: &DatasetProgram,
        kernel: &Kernel,
        code: GpuCode,
        hashes: KernelHashes,
        verified: ProofLevel,
        RowOrigin { seed, index, source, origin }: RowOrigin<'_>,
    ) -> Result<Row, Box<RejectedProof>> {
        let backward = backward(kernel)?;
        let of_backward = backward.as_deref().map(|backward| &*backward.kernel);
        let text = |column, kernel: Option<&Kernel>, form| -> Result<Option<String>, Box<RejectedProof>> {
            let kernel = kernel.filter(|_| self.wants(column));
            kernel.map(|kernel| kernel.emit_text(form, &EmitOptions::default()).map_err(failed)).transpose()
        };
        let cuda_forward = text("cuda_forward", Some(kernel), Form::Cuda)?;
        let cuda_backward = text("cuda_backward", of_backward, Form::Cuda)?;
        let cpp_forward = text("cpp_forward", Some(kernel), Form::Cpp)?;
        let cpp_backward = text("cpp_backward", of_backward, Form::Cpp)?;
        let ptx_forward = code.ptx.filter(|_| self.wants("ptx_forward"));
        let ptx_backward = code.ptx_backward;
        let hir =
            self.wants("hir").then(|| kernel.emit(Form::Hir, &EmitOptions::default()).map_err(failed)).transpose()?;
        let lines = |texts: [&Option<String>; 3]| texts.into_iter().flatten().next().map_or(0, |text| n_lines(text));
        let metadata = RowMetadata {
            device: self.device.name().to_owned(),
            has_backward: backward.is_some(),
            forward_lines: lines([&cuda_forward, &cpp_forward, &ptx_forward]),
            backward_lines: lines([&cuda_backward, &cpp_backward, &ptx_backward]),
            generation_time_ms: None,
            codegen_only: true,
            cuda_available_at_generation: None,
            cuda_compiler: None,
            verified,
            arch: self.arch.to_string(),
            inputs: program.inputs.clone(),
            launch: program.dim.clone(),
            ops: ops(kernel),
            depth: depth(kernel),
            difficulty: program.difficulty,
            hashes,
            origin,
            seed,
            index,
            versions: ToolVersions { polyloom: env!("CARGO_PKG_VERSION").to_owned(), generator: GENERATOR },
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

/// Returns the number of lines a text has whose last line ends like all others. Texts are long, and `str::lines` looks
/// for ends one by one; sums of bytes, of no more than fit a byte, become vector code.
pub(crate) fn n_lines(text: &str) -> usize {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>();
    text.as_bytes().chunks(255).map(|bytes| usize::from(of(bytes))).sum()
}

/// The hashes of a text and its kernel.
pub(crate) fn hashes(source: &str, kernel: &Kernel) -> KernelHashes {
    let digits = |hash: &[u8; 32]| hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    KernelHashes {
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
pub fn backward(kernel: &Kernel) -> Result<Option<Arc<BackwardKernel>>, Box<RejectedProof>> {
    match kernel.backward(&request(kernel)) {
        Ok(backward) if backward.needs.adjoints.is_empty() => Ok(None),
        Ok(backward) => Ok(Some(backward)),
        Err(error) if error.diagnostics.iter().all(|d| d.code == Code::NotDifferentiable) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn failed(error: impl Display) -> Box<RejectedProof> {
    RejectedProof::new(Reason::Failed, error)
}

/// A kernel, and the functions it calls.
pub(crate) fn functions(kernel: &Kernel) -> impl Iterator<Item = &Function> {
    let (module, id) = kernel.module();
    module.reachable(id).into_iter().map(move |id| &module.functions[id])
}

/// The ops of a kernel and of what it calls, each once.
fn ops(kernel: &Kernel) -> Vec<String> {
    let mut ops = BTreeSet::new();
    for function in functions(kernel) {
        function.walk(function.body, &mut |_, data| {
            if !matches!(data.op, Op::Const) {
                ops.insert(data.op.name().to_owned());
            }
        });
    }
    ops.into_iter().collect()
}

/// The most operations one after the other, each of which takes the result of the one before: of a loop those of one
/// iteration, of a call those of what is called.
fn depth(kernel: &Kernel) -> usize {
    let (module, id) = kernel.module();
    depth_of(module, id, &mut FxHashMap::default())
}

/// That of a function, where those that are `known` need not be looked at again.
fn depth_of(module: &Module, id: FuncId, known: &mut FxHashMap<FuncId, usize>) -> usize {
    if let Some(&depth) = known.get(&id) {
        return depth;
    }
    let function = &module.functions[id];
    let mut depths = OperationDepths { module, function, known, of: FxHashMap::default(), left: Vec::new(), most: 0 };
    depths.region(function.body);
    let most = depths.most;
    known.insert(id, most);
    most
}

/// Describes how many operations stand behind the values of a function.
struct OperationDepths<'a> {
    module: &'a Module,
    function: &'a Function,
    known: &'a mut FxHashMap<FuncId, usize>,
    of: FxHashMap<Value, usize>,
    /// The instructions with regions around the current place, and behind each of their results, how many.
    left: Vec<(Inst, Vec<usize>)>,
    most: usize,
}

impl OperationDepths<'_> {
    fn of(&self, value: Value) -> usize {
        self.of.get(&value).copied().unwrap_or(0)
    }

    fn region(&mut self, region: Region) {
        for &inst in &self.function.regions[region].insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let data = &self.function.insts[inst];
        let operands: Vec<usize> = data.operands.iter().map(|&operand| self.of(operand)).collect();
        let deepest = operands.iter().copied().max().unwrap_or(0);
        match (data.op, &data.imm) {
            (Op::Const | Op::Return, _) => {}
            (Op::Yield, _) => self.leave(self.left.len().wrapping_sub(1), &operands),
            (Op::Break, Imm::Target(target)) => {
                let around = self.left.iter().rposition(|(owner, _)| owner == target);
                self.leave(around.unwrap_or(usize::MAX), &operands);
            }
            (op, imm) if data.regions.is_empty() => {
                let own = match imm {
                    Imm::Func(callee) if op == Op::Call => depth_of(self.module, *callee, self.known).max(1),
                    _ => 1,
                };
                self.most = self.most.max(deepest + own);
                self.of.extend(data.results.iter().map(|&result| (result, deepest + own)));
            }
            (op, _) => {
                let carried = if op == Op::ForRange { &operands[3..] } else { &operands[..] };
                // A condition is as deep as what it chooses; the counter of a loop, as its ends.
                let least = if op == Op::If { deepest } else { 0 };
                self.left.push((inst, vec![least; data.results.len()]));
                for &inner in &data.regions {
                    let params = &self.function.regions[inner].params;
                    let counter = (op == Op::ForRange).then(|| operands[..3].iter().copied().max().unwrap_or(0));
                    let known = counter.into_iter().chain(carried.iter().copied());
                    self.of.extend(params.iter().copied().zip(known));
                    self.region(inner);
                    // The value that a condition hands on says whether the loop goes on.
                    if let Some((_, left)) =
                        self.left.last_mut().filter(|_| op == Op::While && inner == data.regions[0])
                    {
                        left.fill(0);
                    }
                }
                if let Some((_, left)) = self.left.pop() {
                    self.of.extend(data.results.iter().copied().zip(left));
                }
            }
        }
    }

    /// Notes what an instruction around is left with.
    fn leave(&mut self, around: usize, operands: &[usize]) {
        let Some((_, left)) = self.left.get_mut(around) else { return };
        for (left, &depth) in left.iter_mut().zip(operands) {
            *left = (*left).max(depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::KernelVerifier;

    fn compiled(lines: &str) -> Kernel {
        let lines = lines.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let source = format!(
            "import polyloom as loom


@loom.func
def wave(a: float):
    return 2.0 * loom.sin(a)


@loom.kernel
def kernel(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
{lines}"
        );
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        verifier.compile("kernel", &source).expect("it compiles")
    }

    /// Each function is looked at once, however many calls lead to it.
    #[test]
    fn depth_is_found_in_long_chains_of_calls() {
        let mut source = "import polyloom as loom\n\n\n@loom.func\ndef f0(a: float):\n    return a + 1.0\n".to_owned();
        for n in 1..60 {
            let inner = n - 1;
            source += &format!("\n\n@loom.func\ndef f{n}(a: float):\n    return f{inner}(a) * f{inner}(-a)\n");
        }
        source +=
            "\n\n@loom.kernel\ndef kernel(x: loom.array(dtype=float)):\n    i = loom.tid()\n    x[i] = f59(x[i])\n";
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("kernel", &source).expect("it compiles");
        // A minus and a product for each of them, the sum of the first, and `tid`, a load and a store.
        assert_eq!(depth(&kernel), 59 * 2 + 1 + 3);
    }

    #[test]
    fn ops_of_what_is_called_count() {
        let found = ops(&compiled("out[i] = wave(x[i])"));
        assert_eq!(found, ["array_load", "array_store", "call", "mul", "return", "sin", "tid"]);
    }

    /// Counts by hand: `tid`, `array_load`, the arithmetic, `array_store`.
    #[test]
    fn depth_goes_through_calls_branches_and_loops() {
        let check = |lines: &str, expected: usize| assert_eq!(depth(&compiled(lines)), expected, "{lines}");
        check("out[i] = x[i]", 3);
        check("out[i] = x[i] * 2.0 + 1.0", 5);
        check("out[i] = wave(x[i]) + 1.0", 6);
        check("out[i] = wave(wave(x[i]))", 7);
        check("a = x[i]\nif a > 0.0:\n    a = a * a + 1.0\nout[i] = a", 5);
        check("s = x[i]\nfor k in range(3):\n    s = loom.sin(s) * 2.0\nout[i] = loom.cos(s)", 6);
        check("s = x[i]\nwhile s > 1.0:\n    s = 0.5 * s\nout[i] = s", 4);
        check("s = x[i]\nfor k in range(3):\n    s = loom.sin(s)\n    if s > 0.5:\n        break\nout[i] = s", 4);
    }
}
