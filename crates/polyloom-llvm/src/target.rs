//! Processors as LLVM sees them: the host's and NVIDIA's GPUs. Features, optimisation, object code.
//!
//! The kernel is vectorised by the lowering; LLVM looks for more vectors in what that leaves scalar.

use crate::fatal::{self, LlvmFailure};
use inkwell::OptimizationLevel;
use inkwell::llvm_sys::core::LLVMDisposeMessage;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMGetErrorMessage};
use inkwell::llvm_sys::target_machine::LLVMCodeGenFileType;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions, TargetTriple,
};
use polyloom_codegen::{CodegenError, NativeCpu, vector_bytes};
use polyloom_ir::OptLevel;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The threads of one GPU, as a scope of atomic operations.
pub(crate) const DEVICE_SCOPE: &str = "device";
/// Those of a block.
pub(crate) const BLOCK_SCOPE: &str = "block";

/// Describes what is known of a processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostProcessor {
    /// True if it is a GPU, with an address space for each kind of memory and no way to call into the host.
    pub(crate) is_gpu: bool,
    /// LLVM's name of the platform, unless that is this machine's.
    pub(crate) triple: Option<String>,
    /// Its name, as `target-cpu` takes it.
    pub(crate) cpu: String,
    /// Its features, as `target-features` takes them.
    pub(crate) features: String,
    /// Bytes in its widest vector register.
    pub(crate) vector_bytes: u32,
    /// True if conversions to and from binary16 are instructions.
    pub(crate) has_half_conversions: bool,
}

impl HostProcessor {
    /// Returns true if it loads the elements of a gather one after the other, in more time than as many loads take: a sparse
    /// product takes 3.3 ms on a Zen 5 without gathers and 5.6 ms with them, on a Xeon 3.3 ms and 2.5 ms.
    pub(crate) fn has_slow_gathers(&self) -> bool {
        self.cpu.starts_with("znver")
    }

    /// This machine.
    ///
    /// # Errors
    ///
    /// When this build of LLVM has no code generator for it.
    pub(crate) fn host() -> Result<&'static HostProcessor, CodegenError> {
        static HOST: OnceLock<Result<HostProcessor, String>> = OnceLock::new();
        let detect = || {
            Target::initialize_native(&InitializationConfig::default())?;
            let cpu = TargetMachine::get_host_cpu_name().to_string();
            let features = TargetMachine::get_host_cpu_features().to_string();
            let has = |name: &str| features.split(',').any(|f| f.strip_prefix('+') == Some(name));
            let vector_bytes = vector_bytes(has);
            let has_half_conversions = !cfg!(target_arch = "x86_64") || has("f16c");
            Ok(HostProcessor { is_gpu: false, triple: None, cpu, features, vector_bytes, has_half_conversions })
        };
        HOST.get_or_init(detect).as_ref().map_err(|message| CodegenError::new(message.clone()))
    }

    /// One of the x86-64 levels, whatever this machine has.
    ///
    /// # Errors
    ///
    /// When the name is none of them or this is not an x86-64 machine.
    pub(crate) fn level(name: &str) -> Result<HostProcessor, CodegenError> {
        HostProcessor::host()?;
        let (vector_bytes, has_half_conversions) = match name {
            _ if !cfg!(target_arch = "x86_64") => (0, false),
            "x86-64" | "x86-64-v2" => (16, false),
            "x86-64-v3" => (32, true),
            "x86-64-v4" => (64, true),
            _ => (0, false),
        };
        if vector_bytes == 0 {
            return Err(CodegenError::new(format!("`{name}` is no processor this back end can compile for")));
        }
        Ok(HostProcessor {
            is_gpu: false,
            triple: None,
            cpu: name.to_owned(),
            features: String::new(),
            vector_bytes,
            has_half_conversions,
        })
    }

    /// A kind of processor of a platform, by LLVM's name of that, or of this machine's.
    ///
    /// # Errors
    ///
    /// When the platform has no such processors, or this build of LLVM no code generator for it.
    pub(crate) fn kind(triple: Option<&str>, cpu: NativeCpu) -> Result<HostProcessor, CodegenError> {
        if cpu == NativeCpu::Native && triple.is_none() {
            return HostProcessor::host().cloned();
        }
        let host = TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned();
        let platform = triple.unwrap_or(&host);
        let (name, features, vector_bytes, has_half_conversions) = match (platform.split('-').next(), cpu) {
            (Some("x86_64"), NativeCpu::Baseline) => ("x86-64", "", 16, false),
            (Some("x86_64"), NativeCpu::Avx2) => ("x86-64-v3", "", 32, true),
            (Some("x86_64"), NativeCpu::Avx512) => ("x86-64-v4", "", 64, true),
            (Some("aarch64"), NativeCpu::Baseline | NativeCpu::Neon) => ("generic", "+neon", 16, true),
            _ => {
                let message = format!("{platform} has no processors of the kind `{}`", cpu.name());
                return Err(CodegenError::new(message));
            }
        };
        static INITIALIZE: std::sync::Once = std::sync::Once::new();
        INITIALIZE.call_once(|| {
            Target::initialize_x86(&InitializationConfig::default());
            Target::initialize_aarch64(&InitializationConfig::default());
        });
        Ok(HostProcessor {
            is_gpu: false,
            triple: Some(platform.to_owned()),
            cpu: name.to_owned(),
            features: features.to_owned(),
            vector_bytes,
            has_half_conversions,
        })
    }

    /// A GPU of this architecture (`sm_80`, `sm_90a`, …), its code written for this version of PTX, in tenths.
    ///
    /// LLVM ends the process if it does not know the one or the other, or the version is too low for the architecture:
    /// the caller has checked both.
    pub(crate) fn gpu(arch: &str, ptx_version: u32) -> HostProcessor {
        static INITIALIZE: std::sync::Once = std::sync::Once::new();
        INITIALIZE.call_once(|| Target::initialize_nvptx(&InitializationConfig::default()));
        HostProcessor {
            is_gpu: true,
            triple: None,
            cpu: arch.to_owned(),
            features: format!("+ptx{ptx_version}"),
            vector_bytes: 4,
            has_half_conversions: true,
        }
    }

    /// The number of a GPU's architecture, such as 80.
    pub(crate) fn gpu_number(&self) -> Option<u32> {
        let digits = self.cpu.strip_prefix("sm_").filter(|_| self.is_gpu)?;
        digits.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    }

    /// Returns which threads see an atomic operation as one, as LLVM names it: those of the device, or of the system.
    pub(crate) fn atomic_scope(&self) -> &'static str {
        if self.is_gpu { DEVICE_SCOPE } else { "" }
    }

    /// A target machine for this processor. It belongs to one thread.
    fn machine(&self, level: OptimizationLevel) -> Result<TargetMachine, CodegenError> {
        let triple = match (self.is_gpu, &self.triple) {
            (true, _) => TargetTriple::create("nvptx64-nvidia-cuda"),
            (false, Some(triple)) => TargetTriple::create(triple),
            (false, None) => TargetMachine::get_default_triple(),
        };
        let target = Target::from_triple(&triple).map_err(|e| CodegenError::new(e.to_string()))?;
        let options = TargetMachineOptions::new()
            .set_cpu(&self.cpu)
            .set_features(&self.features)
            .set_level(level)
            .set_reloc_mode(RelocMode::PIC)
            .set_code_model(CodeModel::Small);
        target
            .create_target_machine_from_options(&triple, options)
            .ok_or_else(|| CodegenError::new(format!("LLVM cannot generate code for {}", self.cpu)))
    }
}

thread_local! {
    /// Making a target machine costs about as much as compiling a small kernel, so that each thread keeps its last one
    /// for the host and its last one for GPUs.
    static MACHINES: RefCell<[Option<(HostProcessor, TargetMachine)>; 2]> = const { RefCell::new([None, None]) };
}

fn with_machine<R>(
    processor: &HostProcessor,
    work: impl FnOnce(&TargetMachine) -> Result<R, LlvmFailure>,
) -> Result<R, LlvmFailure> {
    MACHINES.with_borrow_mut(|machines| {
        let cached = &mut machines[usize::from(processor.is_gpu)];
        let (known, machine) = match cached.take() {
            Some(cached) if cached.0 == *processor => cached,
            _ => (processor.clone(), processor.machine(OptimizationLevel::Default)?),
        };
        let (result, machine) = run_with(machine, work);
        *cached = machine.map(|machine| (known, machine));
        result
    })
}

/// Runs `work` with a target machine, and returns the machine unless a fatal error has made it useless.
fn run_with<R>(
    machine: TargetMachine,
    work: impl FnOnce(&TargetMachine) -> Result<R, LlvmFailure>,
) -> (Result<R, LlvmFailure>, Option<TargetMachine>) {
    let result = work(&machine);
    if matches!(result, Err(LlvmFailure::Fatal(_))) {
        // LLVM may have left references to it behind.
        std::mem::forget(machine);
        return (result, None);
    }
    (result, Some(machine))
}

/// Tells the module what machine it is for. Comes before lowering, because the data layout decides how constants fold.
pub(crate) fn prepare(processor: &HostProcessor, module: &Module<'_>) -> Result<(), LlvmFailure> {
    with_machine(processor, |machine| {
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        Ok(())
    })
}

/// Holds what is run on GPU code, in place of LLVM's own `default<O2>`, because kernels come here with common
/// expressions found, and the driver's assembler optimises what it gets. Of 170 kernels of a data set, ptxas makes code
/// of this that is 0.3 % longer than of `default<O2>`, with as many registers. `instcombine` takes longer than anything
/// else here, each time it runs: once before loops are looked at, some of which are seen to be short by what it leaves,
/// and once at the end. `nvvm-intr-range`, which only the default pipelines run by themselves, says how large thread
/// and block indices are; `infer-alignment` is what wide loads and stores rest on.
const GPU_PASSES: &str = "function<eager-inv>(nvvm-intr-range,sroa<modify-cfg>,early-cse,simplifycfg),\
    cgscc(inline),\
    function<eager-inv>(early-cse<memssa>,reassociate,loop-mssa(licm,loop-rotate,simple-loop-unswitch),\
    instcombine<no-verify-fixpoint>,loop(indvars,loop-deletion,loop-unroll-full),sroa<modify-cfg>,gvn,\
    correlated-propagation,dse,simplifycfg<hoist-common-insts;sink-common-insts>,\
    loop-unroll<O2>,infer-alignment,instcombine<no-verify-fixpoint>),\
    globaldce";

/// Holds what is run on code so long that the other passes, some of which take time that grows as its square, would
/// take minutes: what takes time that grows as the code does.
const PASSES_OF_LONG_CODE: &str = "function<eager-inv>(sroa<modify-cfg>,early-cse<memssa>,simplifycfg),\
    cgscc(inline),function<eager-inv>(early-cse<memssa>,simplifycfg),globaldce";

/// Holds what is run on code in which groups of threads are vectors already: `default<O2>` without the passes that look for
/// vectors. The pass for straight code makes vectors of the addresses of a product's rows, which the loads take apart again,
/// so that convolutions took 1.3 to 1.7 times as long.
const PASSES_OF_GROUPS: &str = "forceattrs,inferattrs,\
    function<eager-inv>(lower-expect,simplifycfg,sroa<modify-cfg>,early-cse),ipsccp,called-value-propagation,globalopt,\
    function<eager-inv>(mem2reg,instcombine<no-verify-fixpoint>,simplifycfg<switch-range-to-icmp>),\
    always-inline,require<globals-aa>,function(invalidate<aa>),cgscc(devirt<4>(inline,function-attrs,\
    function<eager-inv;no-rerun>(sroa<modify-cfg>,early-cse<memssa>,jump-threading,correlated-propagation,\
    simplifycfg<switch-range-to-icmp>,instcombine<no-verify-fixpoint>,aggressive-instcombine,\
    libcalls-shrinkwrap,tailcallelim,simplifycfg<switch-range-to-icmp>,reassociate,constraint-elimination,\
    loop-mssa(loop-instsimplify,loop-simplifycfg,licm<no-allowspeculation>,loop-rotate<header-duplication>,\
    licm<allowspeculation>,simple-loop-unswitch<no-nontrivial;trivial>),\
    simplifycfg<switch-range-to-icmp>,instcombine<no-verify-fixpoint>,\
    loop(loop-idiom,indvars,extra-simple-loop-unswitch-passes,loop-deletion,loop-unroll-full),\
    sroa<modify-cfg>,vector-combine,mldst-motion,gvn,sccp,bdce,instcombine<no-verify-fixpoint>,\
    jump-threading,correlated-propagation,adce,memcpyopt,dse,loop-mssa(licm<allowspeculation>),\
    simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-common-insts;sink-common-insts>,\
    instcombine<no-verify-fixpoint>))),\
    deadargelim,globalopt,globaldce,rpo-function-attrs,recompute-globalsaa,\
    function<eager-inv>(float2int,lower-constant-intrinsics,loop(loop-rotate<header-duplication>,loop-deletion),\
    infer-alignment,loop-load-elim,instcombine<no-verify-fixpoint>,\
    simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-arithmetic;switch-to-lookup;no-keep-loops;\
    hoist-common-insts;sink-common-insts>,vector-combine,instcombine<no-verify-fixpoint>,loop-unroll<O2>,\
    sroa<preserve-cfg>,infer-alignment,instcombine<no-verify-fixpoint>,loop-mssa(licm<allowspeculation>),\
    alignment-from-assumptions,loop-sink,instsimplify,div-rem-pairs,tailcallelim,\
    simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-loads-stores-with-cond-faulting;\
    speculate-unpredictables>),globaldce,constmerge";

/// Instructions of the longest code that is optimised with all passes.
const LONG_CODE: usize = 20_000;

/// The effort that LLVM spends on code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OptimizationEffort {
    /// All there is.
    Full,
    /// Passes whose time grows no faster than the code.
    Linear,
}

impl OptimizationEffort {
    /// This effort, or less if the module is long.
    pub(crate) fn for_module(self, module: &Module<'_>) -> OptimizationEffort {
        let blocks = module.get_functions().flat_map(|function| function.get_basic_block_iter());
        let n_instructions: usize = blocks.map(|block| block.get_instructions().count()).sum();
        if n_instructions > LONG_CODE { OptimizationEffort::Linear } else { self }
    }
}

/// Says how hard LLVM tries.
#[derive(Clone, Copy, Default)]
pub(crate) struct OptimizerMode {
    /// True if it must not look for vectors in the iterations of loops, nor in straight code.
    pub(crate) leaves_vectors: bool,
    /// True if it may have several iterations of a loop under way.
    pub(crate) interleaves: bool,
    /// True if groups of threads, or the threads of blocks, are vectors already.
    pub(crate) has_groups: bool,
    /// Its optimisation level, unless that is the usual one.
    pub(crate) level: Option<OptLevel>,
}

impl OptimizerMode {
    /// Returns how hard code generation tries: its passes are others than those of the optimiser.
    fn of_generation(self) -> OptimizationLevel {
        match self.level {
            Some(OptLevel::O0) => OptimizationLevel::None,
            Some(OptLevel::O1) => OptimizationLevel::Less,
            Some(OptLevel::O3 | OptLevel::Olatency) => OptimizationLevel::Aggressive,
            Some(OptLevel::O2 | OptLevel::Os) | None => OptimizationLevel::Default,
        }
    }
}

/// Runs the optimiser.
pub(crate) fn optimize(
    processor: &HostProcessor,
    module: &Module<'_>,
    mode: OptimizerMode,
    effort: OptimizationEffort,
) -> Result<(), LlvmFailure> {
    with_machine(processor, |machine| {
        let options = PassBuilderOptions::create();
        options.set_loop_unrolling(true);
        options.set_loop_interleaving(mode.interleaves);
        let passes = match effort {
            OptimizationEffort::Linear => PASSES_OF_LONG_CODE,
            OptimizationEffort::Full if processor.is_gpu => GPU_PASSES,
            OptimizationEffort::Full => match mode.level {
                Some(OptLevel::O0) => "default<O0>",
                Some(OptLevel::Os) => "default<Os>",
                // Whatever the options say, the names of these pipelines decide whether they look for vectors.
                _ if mode.leaves_vectors => "default<O1>",
                Some(OptLevel::O1) => "default<O1>",
                None | Some(OptLevel::Olatency) if mode.has_groups => PASSES_OF_GROUPS,
                Some(OptLevel::O3 | OptLevel::Olatency) => "default<O3>",
                None | Some(OptLevel::O2) => "default<O2>",
            },
        };
        let passes = CString::new(passes).map_err(|e| CodegenError::new(e.to_string()))?;
        // SAFETY: all four are alive, and the message of an error is freed once, after it is copied.
        fatal::catch(|| unsafe {
            let error =
                fatal::LLVMRunPasses(module.as_mut_ptr(), passes.as_ptr(), machine.as_mut_ptr(), options.as_mut_ptr());
            if error.is_null() {
                return Ok(());
            }
            let message = LLVMGetErrorMessage(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(message);
            Err(CodegenError::new(text))
        })
    })
}

/// Generates an object file or assembly text.
pub(crate) fn generate(
    processor: &HostProcessor,
    module: &Module<'_>,
    assembly: bool,
    mode: OptimizerMode,
    effort: OptimizationEffort,
) -> Result<Vec<u8>, LlvmFailure> {
    let write = |machine: &TargetMachine| {
        let bytes = write_code(machine, module, assembly)?;
        Ok(match assembly {
            true => bytes.as_slice().split(|&b| b == 0).next().unwrap_or_default().to_vec(),
            false => bytes.as_slice().to_vec(),
        })
    };
    match (effort, mode.of_generation()) {
        (OptimizationEffort::Full, OptimizationLevel::Default) => with_machine(processor, write),
        (OptimizationEffort::Full, level) => run_with(processor.machine(level)?, write).0,
        // Code generation has passes of its own, which it runs for code that is to be good.
        (OptimizationEffort::Linear, _) => run_with(processor.machine(OptimizationLevel::None)?, write).0,
    }
}

fn write_code(
    machine: &TargetMachine,
    module: &Module<'_>,
    assembly: bool,
) -> Result<MemoryBuffer<'static>, LlvmFailure> {
    let kind = if assembly { LLVMCodeGenFileType::LLVMAssemblyFile } else { LLVMCodeGenFileType::LLVMObjectFile };
    let (mut message, mut buffer) = (null_mut(), null_mut());
    // SAFETY: machine and module are alive. LLVM returns 0 and a buffer of our own, or a message, which is freed once,
    // after it is copied.
    fatal::catch(|| unsafe {
        let has_failed = fatal::LLVMTargetMachineEmitToMemoryBuffer(
            machine.as_mut_ptr(),
            module.as_mut_ptr(),
            kind,
            &mut message,
            &mut buffer,
        );
        if has_failed == 0 {
            return Ok(MemoryBuffer::new(buffer));
        }
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeMessage(message);
        Err(CodegenError::new(text))
    })
}
