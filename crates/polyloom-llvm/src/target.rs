//! The host as LLVM sees it: CPU, features, optimisation, object code.
//!
//! The kernel is vectorised by the lowering, so the pass pipeline leaves out what would look for vectors again, and
//! keeps what cleans up straight-line code and loops.

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions,
};
use polyloom_codegen::CodegenError;
use std::cell::RefCell;
use std::sync::OnceLock;

/// What is known of the host's processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Host {
    /// Its name, as `target-cpu` takes it.
    pub(crate) cpu: String,
    /// Its features, as `target-features` takes them.
    pub(crate) features: String,
    /// Bytes in its widest vector register.
    pub(crate) vector_bytes: u32,
    /// Whether conversions to and from binary16 are instructions.
    pub(crate) has_half_conversions: bool,
}

impl Host {
    /// This machine.
    ///
    /// # Errors
    ///
    /// When this build of LLVM has no code generator for it.
    pub(crate) fn get() -> Result<&'static Host, CodegenError> {
        static HOST: OnceLock<Result<Host, String>> = OnceLock::new();
        let detect = || {
            Target::initialize_native(&InitializationConfig::default())?;
            let cpu = TargetMachine::get_host_cpu_name().to_string();
            let features = TargetMachine::get_host_cpu_features().to_string();
            let has = |name: &str| features.split(',').any(|f| f.strip_prefix('+') == Some(name));
            let vector_bytes = match () {
                () if has("avx512f") && has("avx512vl") && has("avx512dq") && has("avx512bw") => 64,
                () if has("avx2") => 32,
                () => 16,
            };
            let has_half_conversions = !cfg!(target_arch = "x86_64") || has("f16c");
            Ok(Host { cpu, features, vector_bytes, has_half_conversions })
        };
        HOST.get_or_init(detect).as_ref().map_err(|message| CodegenError::new(message.clone()))
    }

    /// One of the x86-64 levels, whatever this machine has.
    ///
    /// # Errors
    ///
    /// When the name is none of them or this is not an x86-64 machine.
    pub(crate) fn level(name: &str) -> Result<Host, CodegenError> {
        Host::get()?;
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
        Ok(Host { cpu: name.to_owned(), features: String::new(), vector_bytes, has_half_conversions })
    }

    /// A target machine for this host. It belongs to one thread.
    fn machine(&self) -> Result<TargetMachine, CodegenError> {
        let triple = TargetMachine::get_default_triple();
        let target = Target::from_triple(&triple).map_err(|e| CodegenError::new(e.to_string()))?;
        let options = TargetMachineOptions::new()
            .set_cpu(&self.cpu)
            .set_features(&self.features)
            .set_level(OptimizationLevel::Default)
            .set_reloc_mode(RelocMode::PIC)
            .set_code_model(CodeModel::Small);
        target
            .create_target_machine_from_options(&triple, options)
            .ok_or_else(|| CodegenError::new(format!("LLVM cannot generate code for {}", self.cpu)))
    }
}

thread_local! {
    /// Making a target machine costs about as much as compiling a small kernel: each thread keeps its last one.
    static MACHINE: RefCell<Option<(Host, TargetMachine)>> = const { RefCell::new(None) };
}

fn with_machine<R>(
    host: &Host,
    work: impl FnOnce(&TargetMachine) -> Result<R, CodegenError>,
) -> Result<R, CodegenError> {
    MACHINE.with_borrow_mut(|cached| {
        let machine = match cached {
            Some((known, machine)) if known == host => machine,
            _ => &mut cached.insert((host.clone(), host.machine()?)).1,
        };
        work(machine)
    })
}

/// Tells the module what machine it is for. Comes before lowering: the data layout decides how constants fold.
pub(crate) fn prepare(host: &Host, module: &Module<'_>) -> Result<(), CodegenError> {
    with_machine(host, |machine| {
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        Ok(())
    })
}

/// Runs the optimiser. `vectorize` lets LLVM look for vectors in scalar code.
pub(crate) fn optimize(host: &Host, module: &Module<'_>, vectorize: bool) -> Result<(), CodegenError> {
    with_machine(host, |machine| {
        let options = PassBuilderOptions::create();
        options.set_loop_vectorization(vectorize);
        options.set_loop_slp_vectorization(vectorize);
        options.set_loop_interleaving(vectorize);
        options.set_loop_unrolling(true);
        module.run_passes("default<O2>", machine, options).map_err(|e| CodegenError::new(e.to_string()))
    })
}

/// Generates an object file or assembly text.
pub(crate) fn generate(host: &Host, module: &Module<'_>, assembly: bool) -> Result<Vec<u8>, CodegenError> {
    let kind = if assembly { FileType::Assembly } else { FileType::Object };
    with_machine(host, |machine| {
        machine
            .write_to_memory_buffer(module, kind)
            .map(|buffer| match assembly {
                true => buffer.as_slice().split(|&b| b == 0).next().unwrap_or_default().to_vec(),
                false => buffer.as_slice().to_vec(),
            })
            .map_err(|e| CodegenError::new(e.to_string()))
    })
}
