//! `polyloom build`: kernels and functions of files as a library that needs nothing of Polyloom.

use crate::fused_build::{FusedArguments, fused_functions};
use crate::kernel_file::KernelFile;
use crate::{CommandFailure, Outcome, named, print_json, session};
use clap::ValueEnum;
use polyloom::artifact::{Artifact, ArtifactError, ArtifactOptions, NativeCpu};
use polyloom::{Arch, Defaults, EmitError, FloatMode};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct BuildArguments {
    /// .py, .loom and .hir files
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The folder to write the library to
    #[arg(short, long)]
    output: PathBuf,
    /// The library's name; by default that of the folder
    #[arg(long)]
    name: Option<String>,
    /// The kernels to build, by default all of the files
    #[arg(long = "kernel", value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Functions of values to build as well: `@loom.func` in Python
    #[arg(long = "function", value_name = "NAME", value_delimiter = ',')]
    functions: Vec<String>,
    #[command(flatten)]
    pub(crate) fused: FusedArguments,
    /// The kernels themselves; their backward kernels, NAME_backward, which take the kernels' parameters and then an array
    /// for the adjoint of each; or both. Of functions of tensors NAME_value_and_grad for those that give one number, and
    /// NAME_vjp for others
    #[arg(long, value_enum, default_value_t = BuildDirection::Forward)]
    pub(crate) direction: BuildDirection,
    /// Comes before the name of each function in C
    #[arg(long, default_value = "")]
    prefix: String,
    /// The kinds of processors to make code for, among which the library chooses when it is loaded: by default baseline,
    /// avx2 and avx512, or neon
    #[arg(long = "cpu", value_enum, value_delimiter = ',')]
    cpus: Vec<CpuChoice>,
    /// The platform, as LLVM names it, such as aarch64-unknown-linux-gnu; by default this machine's
    #[arg(long)]
    target: Option<String>,
    /// The architectures of GPUs, sm_75 to sm_121, to write PTX for beside the library, and a fat binary of all of them
    #[arg(long = "arch", value_name = "sm_NN", value_delimiter = ',')]
    archs: Vec<Arch>,
    /// The type of a parameter of a generic kernel, NAME=TYPE, such as a=array(dtype=float)
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<String>,
    /// How floating-point arithmetic may be compiled, for kernels that do not say
    #[arg(long, value_enum, default_value_t = FloatModeChoice::Strict)]
    float: FloatModeChoice,
    /// No shared library and no Python module, for which a C compiler links
    #[arg(long)]
    no_shared: bool,
    /// Print the manifest
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum CpuChoice {
    /// All processors of the platform
    Baseline,
    /// x86-64 with AVX2 and FMA
    Avx2,
    /// x86-64 with AVX-512
    Avx512,
    /// ARMv8-A
    Neon,
    /// This machine's processor
    Native,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
pub(crate) enum BuildDirection {
    Forward,
    Backward,
    Both,
}

#[derive(Clone, Copy, ValueEnum)]
enum FloatModeChoice {
    Strict,
    Contract,
    Fast,
}

impl From<ArtifactError> for CommandFailure {
    fn from(error: ArtifactError) -> CommandFailure {
        match error {
            ArtifactError::Emit(EmitError::Rejected(error)) => error.into(),
            ArtifactError::Name(_) => CommandFailure::Usage(error.to_string()),
            error => CommandFailure::Failed(error.to_string()),
        }
    }
}

pub(crate) fn run(arguments: &BuildArguments) -> Outcome {
    let session = session(true)?;
    let float_mode = match arguments.float {
        FloatModeChoice::Strict => FloatMode::Strict,
        FloatModeChoice::Contract => FloatMode::Contract,
        FloatModeChoice::Fast => FloatMode::Fast,
    };
    session.set_defaults(Defaults { float_mode, ..session.defaults() });
    let folder = arguments.output.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = arguments.name.clone().or(folder).unwrap_or_default();
    let cpus = arguments.cpus.iter().map(|cpu| match cpu {
        CpuChoice::Baseline => NativeCpu::Baseline,
        CpuChoice::Avx2 => NativeCpu::Avx2,
        CpuChoice::Avx512 => NativeCpu::Avx512,
        CpuChoice::Neon => NativeCpu::Neon,
        CpuChoice::Native => NativeCpu::Native,
    });
    let mut artifact = Artifact::new(ArtifactOptions {
        prefix: arguments.prefix.clone(),
        triple: arguments.target.clone(),
        cpus: cpus.collect(),
        archs: arguments.archs.clone(),
        has_shared_library: !arguments.no_shared,
        ..ArtifactOptions::new(&name)
    })?;
    let fused = fused_functions(arguments, float_mode)?;
    let types = named(&arguments.types, "--type")?;
    let mut unused_types: BTreeMap<&str, &str> = types.iter().map(|(name, ty)| (&**name, &**ty)).collect();
    let (mut kernels, mut functions) = (arguments.kernels.clone(), arguments.functions.clone());
    for path in &arguments.files {
        let file = KernelFile::read(path)?;
        for name in file.kernel_names() {
            let is_wanted = arguments.kernels.iter().any(|wanted| **wanted == *name);
            let lists = [&arguments.kernels, &arguments.functions, &arguments.fused.fused];
            let is_every = lists.iter().all(|list| list.is_empty());
            if is_wanted || is_every {
                kernels.retain(|wanted| **wanted != *name);
                let parameters = file.parameter_names(&name);
                let of_kernel: BTreeMap<&str, &str> = types
                    .iter()
                    .filter(|(param, _)| parameters.iter().any(|p| **p == ***param))
                    .map(|(k, v)| (*k, *v))
                    .collect();
                unused_types.retain(|name, _| !of_kernel.contains_key(name));
                let kernel = file.compile(&session, Some(&name), &of_kernel, &BTreeMap::new())?;
                if arguments.direction != BuildDirection::Backward {
                    artifact.add_kernel(&kernel)?;
                }
                if arguments.direction != BuildDirection::Forward {
                    artifact.add_backward(&kernel)?;
                }
            }
        }
        for name in &arguments.functions {
            if let Some(function) = file.function(name) {
                functions.retain(|wanted| wanted != name);
                artifact.add_function(&session, &function, session.defaults())?;
            }
        }
    }
    if let Some(name) = kernels.first().or(functions.first()) {
        let what = if kernels.is_empty() { "function" } else { "kernel" };
        return Err(CommandFailure::Failed(format!("no file has a {what} `{name}`")));
    }
    if let Some(name) = unused_types.keys().next() {
        return Err(CommandFailure::Usage(format!("--type {name}: no kernel that is built has a parameter `{name}`")));
    }
    for function in &fused {
        artifact.add_fused(&session, function)?;
    }
    let manifest = artifact.write(&arguments.output)?;
    match arguments.json {
        true => print_json(&manifest),
        false => Ok(()),
    }
}
