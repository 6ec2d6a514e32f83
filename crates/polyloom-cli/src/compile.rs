//! `polyloom compile`: one of a kernel's forms.

use crate::kernel_file::KernelFile;
use crate::run as launching;
use crate::{CommandFailure, Outcome, named, print, report, session};
use clap::ValueEnum;
use polyloom::{
    Arch, Defaults, DerivativeRequest, EmitError, EmitOptions, FloatMode, Form, GpuTarget, GridShape, Kernel,
    PtxVersion, Tier,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct CompileArguments {
    /// A .py file, a .loom file, or a .hir file
    file: PathBuf,
    /// The kernel, if the file has several
    #[arg(long)]
    kernel: Option<String>,
    /// What to write; by default what the back end that is named makes: object files (llvm, cranelift) or PTX (nvptx, cuda)
    #[arg(long, value_enum, required_unless_present = "backend")]
    emit: Option<EmitForm>,
    /// The kernel itself; its backward kernel, which carries derivatives with respect to all parameters from what it
    /// wrote to what it read; or both: two texts, each complete, one after the other or, with `-o`, the other in a file
    /// of its own
    #[arg(long, value_enum, default_value_t = CompileDirection::Forward)]
    direction: CompileDirection,
    /// The type of a parameter of a generic kernel, NAME=TYPE, such as a=array(dtype=float)
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<String>,
    /// How floating-point arithmetic may be compiled, for kernels that do not say
    #[arg(long, value_enum, default_value_t = FloatChoice::Strict)]
    float: FloatChoice,
    /// The back end: llvm or cranelift for this machine, nvptx or cuda for GPUs; by default the best of this build that
    /// makes what `--emit` says. With cuda and `--dim` the kernel is run as well, on cuda:0
    #[arg(long, value_enum)]
    backend: Option<BackendChoice>,
    /// With `--backend cuda`: run the kernel over so many threads, N, NxM or N,M
    #[arg(long, value_parser = launching::shape)]
    dim: Option<launching::LaunchShape>,
    /// With `--dim`: an argument, NAME=VALUE, as of `polyloom run`
    #[arg(long = "arg", value_name = "NAME=VALUE", requires = "dim")]
    args: Vec<String>,
    /// The GPU architecture of PTX and cubins, sm_75 to sm_121; with `--emit llvm`, LLVM IR is for it too. A fat binary
    /// may have several
    #[arg(long, value_name = "sm_NN")]
    arch: Vec<Arch>,
    /// The version of PTX, such as 8.0; by default one that knows the architecture
    #[arg(long, value_name = "N.N")]
    ptx_version: Option<PtxVersion>,
    /// C++ and CUDA C++ in which lines of the kernel's source stand before what they became
    #[arg(long)]
    comments: bool,
    /// GPU code for launches of at most 2^27 threads and arrays that are dense, begin at multiples of 64 bytes and do
    /// not overlap, not for any
    #[arg(long)]
    dense: bool,
    /// GPU code whose threads run through the launch by strides of the grid, not one thread for each element
    #[arg(long)]
    grid_stride: bool,
    /// Also write what there is to know of GPU code, as JSON: for `--emit ptx`, `cubin` and `cuda`
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// Neither read nor keep compiled code on disk
    #[arg(long)]
    no_cache: bool,
    /// Where to write it; standard output by default, NAME.o for object files, NAME.cubin for cubins, NAME.fatbin for fat
    /// binaries
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum EmitForm {
    /// The typed syntax tree
    Ast,
    /// HIR as the front end made it
    Hir,
    /// HIR as back ends get it
    HirPrepared,
    /// C++ that compiles by itself
    Cpp,
    /// CUDA C++ that compiles by itself
    Cuda,
    /// LLVM IR, optimised
    Llvm,
    /// Assembly of this machine
    Asm,
    /// A relocatable object file of this machine
    Obj,
    /// PTX, the assembly language of NVIDIA GPUs
    Ptx,
    /// PTX assembled for GPUs of one architecture, by NVIDIA's ptxas or nvJitLink
    Cubin,
    /// PTX for each architecture and, where NVIDIA's assembler is found, cubins: one image that drivers choose from
    Fatbin,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum CompileDirection {
    Forward,
    Backward,
    Both,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum BackendChoice {
    /// LLVM, for this machine
    Llvm,
    /// Cranelift, for this machine
    Cranelift,
    /// LLVM, for NVIDIA GPUs: PTX
    Nvptx,
    /// PTX, and CUDA's driver to run it
    Cuda,
}

impl BackendChoice {
    /// Lists the forms it makes, the default first.
    fn forms(self) -> &'static [EmitForm] {
        match self {
            BackendChoice::Llvm => &[EmitForm::Obj, EmitForm::Asm, EmitForm::Llvm],
            BackendChoice::Cranelift => &[EmitForm::Obj, EmitForm::Asm],
            BackendChoice::Nvptx => &[EmitForm::Ptx, EmitForm::Llvm, EmitForm::Cubin, EmitForm::Fatbin],
            BackendChoice::Cuda => &[EmitForm::Ptx, EmitForm::Cubin, EmitForm::Fatbin, EmitForm::Cuda],
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum FloatChoice {
    Strict,
    Contract,
    Fast,
}

/// Returns the name of a value on the command line.
fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Chooses the form to write.
///
/// # Errors
///
/// When the back end that is named does not make it.
fn chosen_form(arguments: &CompileArguments) -> Result<EmitForm, CommandFailure> {
    if arguments.dim.is_some() && arguments.backend != Some(BackendChoice::Cuda) {
        let message = "--dim is of --backend cuda, which runs kernels; `polyloom run` runs them anywhere";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let Some(backend) = arguments.backend else { return Ok(arguments.emit.unwrap_or(EmitForm::Hir)) };
    let forms = backend.forms();
    let emit = arguments.emit.unwrap_or(forms[0]);
    if forms.contains(&emit) {
        return Ok(emit);
    }
    let makes: Vec<String> = forms.iter().map(name_of).collect();
    let (backend, emit) = (name_of(&backend), name_of(&emit));
    Err(CommandFailure::Usage(format!("--backend {backend} makes {}, not {emit}", makes.join(", "))))
}

pub(crate) fn run(arguments: &CompileArguments) -> Outcome {
    let emit = chosen_form(arguments)?;
    // A kernel that is run is written only if the command line asks for that too, since otherwise its PTX would stand
    // before what the run prints.
    if arguments.dim.is_none() || arguments.emit.is_some() || arguments.output.is_some() {
        write_forms(arguments, emit)?;
    }
    match &arguments.dim {
        Some(dim) => launching::run(&launching::RunArguments {
            dim: Some(dim.clone()),
            device: Some("cuda:0".to_owned()),
            args: arguments.args.clone(),
            types: arguments.types.clone(),
            no_cache: arguments.no_cache,
            ..launching::RunArguments::of_file(arguments.file.clone(), arguments.kernel.clone())
        }),
        None => Ok(()),
    }
}

fn write_forms(arguments: &CompileArguments, emit: EmitForm) -> Outcome {
    let session = session(arguments.no_cache)?;
    let float_mode = match arguments.float {
        FloatChoice::Strict => FloatMode::Strict,
        FloatChoice::Contract => FloatMode::Contract,
        FloatChoice::Fast => FloatMode::Fast,
    };
    session.set_defaults(Defaults { float_mode, ..session.defaults() });
    let file = KernelFile::read(&arguments.file)?;
    let given = named(&arguments.types, "--type")?;
    let kernel = file.compile(&session, arguments.kernel.as_deref(), &given, &BTreeMap::new())?;
    let name = kernel.name();
    let tier = arguments.backend.map(|backend| match backend {
        BackendChoice::Cranelift => Tier::Quick,
        BackendChoice::Llvm | BackendChoice::Nvptx | BackendChoice::Cuda => Tier::Optimized,
    });
    let is_for_gpus = matches!(emit, EmitForm::Ptx | EmitForm::Cubin | EmitForm::Cuda);
    if arguments.metadata.is_some() && !is_for_gpus {
        return Err(CommandFailure::Usage("--metadata is of GPU code: --emit ptx, cubin or cuda".to_owned()));
    }
    let is_of_ptx = match emit {
        EmitForm::Ptx | EmitForm::Cubin | EmitForm::Fatbin => true,
        EmitForm::Llvm => is_gpu_llvm(arguments),
        _ => false,
    };
    let chosen = [
        ("--dense", arguments.dense),
        ("--grid-stride", arguments.grid_stride),
        ("--ptx-version", arguments.ptx_version.is_some()),
    ];
    if let Some((option, _)) = chosen.iter().find(|(_, is_given)| *is_given && !is_of_ptx) {
        return Err(CommandFailure::Usage(format!(
            "{option} is of PTX: --emit ptx, cubin, fatbin, or llvm with --arch"
        )));
    }
    if arguments.arch.len() > 1 && emit != EmitForm::Fatbin {
        return Err(CommandFailure::Usage("several --arch make one fat binary: --emit fatbin".to_owned()));
    }
    if arguments.comments && !matches!(emit, EmitForm::Cpp | EmitForm::Cuda) {
        return Err(CommandFailure::Usage("--comments are of text: --emit cpp or cuda".to_owned()));
    }
    if arguments.metadata.is_some() && arguments.direction == CompileDirection::Both {
        return Err(CommandFailure::Usage("--metadata is of one kernel: --direction forward or backward".to_owned()));
    }
    if emit == EmitForm::Ast && arguments.direction != CompileDirection::Forward {
        return Err(CommandFailure::Usage(
            "a backward kernel has no syntax tree: look at --emit hir or cpp".to_owned(),
        ));
    }
    let refused = |error| match error {
        EmitError::Rejected(error) => CommandFailure::from(error),
        error => CommandFailure::Failed(error.to_string()),
    };
    let default = match emit {
        EmitForm::Obj => Some(PathBuf::from(format!("{name}.o"))),
        EmitForm::Cubin => Some(PathBuf::from(format!("{name}.cubin"))),
        EmitForm::Fatbin => Some(PathBuf::from(format!("{name}.fatbin"))),
        _ => None,
    };
    let output = arguments.output.clone().or(default);
    let one = |kernel: &Kernel, output: Option<&Path>| -> Outcome {
        if let (EmitForm::Cuda, Some(arch)) = (emit, arguments.arch.first()) {
            kernel.check_arch(*arch)?;
        }
        let targets = targets(arguments, kernel);
        let target = targets[0];
        let options = EmitOptions { tier, gpu: Some(target), comments: arguments.comments };
        let bytes = match wanted(arguments, emit) {
            Some(form) => kernel.emit(form, &options),
            None => kernel.fatbin(&targets),
        };
        let bytes = bytes.map_err(refused)?;
        if let Some(path) = &arguments.metadata {
            let metadata = match emit {
                EmitForm::Cuda => kernel.cuda_metadata(target.arch),
                _ => kernel.gpu_metadata(&target),
            };
            let metadata = metadata.map_err(refused)?;
            let text =
                serde_json::to_string_pretty(&metadata).map_err(|error| CommandFailure::Failed(error.to_string()))?;
            write(path, format!("{text}\n").as_bytes())?;
        }
        match output {
            None => print(&bytes),
            Some(path) => write(path, &bytes),
        }
    };
    if arguments.direction == CompileDirection::Forward {
        return one(&kernel, output.as_deref());
    }
    let request = DerivativeRequest::new(vec![true; kernel.types().len()], kernel.natural_rank());
    let backward = kernel.backward(&request)?;
    if let Some(warning) = backward.warning() {
        report(&warning);
    }
    if arguments.direction == CompileDirection::Backward {
        // By default it goes beside the kernel's own file, so that it does not replace that.
        let output = arguments.output.clone().or_else(|| output.as_deref().map(for_backward));
        return one(&backward.kernel, output.as_deref());
    }
    one(&kernel, output.as_deref())?;
    one(&backward.kernel, output.as_deref().map(for_backward).as_deref())
}

/// The file of a backward kernel beside that of the kernel: `k_backward.ptx` beside `k.ptx`.
fn for_backward(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let suffix = path.extension().map_or_else(String::new, |suffix| format!(".{}", suffix.to_string_lossy()));
    path.with_file_name(format!("{stem}_backward{suffix}"))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes)
        .map_err(|error| CommandFailure::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Returns true if LLVM IR is asked for GPUs.
fn is_gpu_llvm(arguments: &CompileArguments) -> bool {
    !arguments.arch.is_empty() || arguments.backend == Some(BackendChoice::Nvptx)
}

/// Names what GPU code is for: one target at least.
fn targets(arguments: &CompileArguments, kernel: &Kernel) -> Vec<GpuTarget> {
    let target = |arch| GpuTarget {
        ptx_version: arguments.ptx_version,
        shape: if arguments.grid_stride { GridShape::Stride } else { GridShape::OneThreadEach },
        dense: arguments.dense,
        ..GpuTarget::new(arch)
    };
    match arguments.arch.as_slice() {
        [] => vec![target(kernel.arch().unwrap_or(Arch::DEFAULT))],
        archs => archs.iter().copied().map(target).collect(),
    }
}

/// The form that is asked for; none of a fat binary, which has two.
fn wanted(arguments: &CompileArguments, emit: EmitForm) -> Option<Form> {
    Some(match emit {
        EmitForm::Ast => Form::Ast,
        EmitForm::Hir => Form::Hir,
        EmitForm::HirPrepared => Form::HirPrepared,
        EmitForm::Cpp => Form::Cpp,
        EmitForm::Cuda => Form::Cuda,
        EmitForm::Llvm if is_gpu_llvm(arguments) => Form::GpuLlvmIrOptimized,
        EmitForm::Llvm => Form::LlvmIrOptimized,
        EmitForm::Asm => Form::Asm,
        EmitForm::Obj => Form::Obj,
        EmitForm::Ptx => Form::Ptx,
        EmitForm::Cubin => Form::Cubin,
        EmitForm::Fatbin => return None,
    })
}
