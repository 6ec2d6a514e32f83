//! `polyloom run`: a kernel on arguments from the command line, checked unless it says `check=False`: arguments are
//! typed by hand here, and arrays that are too small for the grid, or empty, are soon given.

use crate::kernel_file::KernelFile;
use crate::value::{ArrayValue, LaunchArgument, extents};
use crate::{CommandFailure, Outcome, loom, named, print, print_json, run_ptx, session, simulate};
use polyloom::{
    ArgBlock, Defaults, DeviceId, Kernel, LaunchError, LaunchOptions, LaunchStats, MAX_DIMS, Type, describe_fault,
    describe_report, queue,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// A .py file, a .loom file, a .hir file, or a .ptx file, which runs on sim:0
    pub(crate) file: PathBuf,
    /// The kernel, if the file has several
    #[arg(long)]
    pub(crate) kernel: Option<String>,
    /// Number of threads: N, or NxM or N,M for two dimensions, up to four
    #[arg(long, allow_hyphen_values = true, value_parser = shape)]
    pub(crate) dim: Option<LaunchShape>,
    /// Where to run it: cpu, sim:0, the simulator of a GPU, or cuda:0 and so on, an NVIDIA GPU
    #[arg(long)]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) simulate: simulate::SimulateArguments,
    /// An argument, NAME=VALUE: a number, for vectors and matrices all components like 1,2,3, or for arrays
    /// zeros:SHAPE, ones:SHAPE, arange:SHAPE, random:SHAPE[:SEED] or
    /// @FILE.npy, with a shape like 1024 or 64x64; elements that are vectors or matrices bring theirs
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,
    /// Neither read nor keep compiled code on disk
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// The type of a parameter of a generic kernel, NAME=TYPE, such as a=array(dtype=float), if the arguments do not
    /// say
    #[arg(long = "type", value_name = "NAME=TYPE")]
    pub(crate) types: Vec<String>,
    /// Save an array after the launch, NAME=FILE.npy
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) out: Vec<String>,
    /// Print the written arrays as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunArguments {
    /// Makes arguments that name a kernel and nothing else.
    pub(crate) fn of_file(file: PathBuf, kernel: Option<String>) -> RunArguments {
        RunArguments {
            file,
            kernel,
            dim: None,
            device: None,
            simulate: simulate::SimulateArguments::default(),
            args: Vec::new(),
            no_cache: false,
            types: Vec::new(),
            out: Vec::new(),
            json: false,
        }
    }
}

/// The extents of a launch.
#[derive(Clone)]
pub(crate) struct LaunchShape(Vec<u64>);

impl LaunchShape {
    pub(crate) fn extents(&self) -> &[u64] {
        &self.0
    }
}

pub(crate) fn shape(text: &str) -> Result<LaunchShape, String> {
    let wrong = || "a number of threads is an integer of 0 or more: 1024, or 64x64".to_owned();
    extents(text).map(LaunchShape).ok_or_else(wrong)
}

pub(crate) fn run(arguments: &RunArguments) -> Outcome {
    let is_ptx = arguments.file.extension().is_some_and(|extension| extension == "ptx");
    if is_ptx {
        chosen_device(arguments, is_ptx, DeviceId::Simulator)?;
        return run_ptx::run(&run_ptx::PtxRequest {
            file: &arguments.file,
            kernel: arguments.kernel.as_deref(),
            simulate: &arguments.simulate,
            args: &arguments.args,
            out: &arguments.out,
            json: arguments.json,
        });
    }
    let dim = arguments.dim.as_ref().map(|shape| &shape.0[..]);
    if dim.is_some_and(|dim| dim.len() > MAX_DIMS) {
        return Err(CommandFailure::Usage(format!("--dim takes at most {MAX_DIMS} extents")));
    }
    let session = session(arguments.no_cache)?;
    session.set_defaults(Defaults { check: true, ..session.defaults() });
    let file = KernelFile::read(&arguments.file)?;
    if let KernelFile::Python(unit) = &file
        && unit.is_loom()
    {
        return loom::run(arguments, &session, unit);
    }
    let mut given = named(&arguments.args, "--arg")?;
    let types = named(&arguments.types, "--type")?;
    let kernel = file.compile(&session, arguments.kernel.as_deref(), &types, &given)?;
    let device = chosen_device(arguments, is_ptx, kernel.device().unwrap_or(DeviceId::Cpu))?;
    let params = kernel.params();

    let outputs = named(&arguments.out, "--out")?;
    // A name before a dot is known, too, because a composite stands for its components.
    let is = |param: &str, name: &str| param == name || param.rsplit_once('.').is_some_and(|(whole, _)| whole == name);
    let known = |name: &str| params.names().iter().any(|param| is(param, name));
    let stray = given.keys().chain(outputs.keys()).copied().find(|name| !known(name));
    if let Some(name) = stray {
        let (kernel, names) = (kernel.name(), params.names().join(", "));
        return Err(CommandFailure::Usage(format!("kernel `{kernel}` has no parameter `{name}`; it has {names}")));
    }
    let mut values = argument_values(&kernel, &mut given)?;

    let n_given = dim.map(|dim| dim.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent)));
    let default_block = kernel.function().metadata.block();
    let grid = arguments.simulate.grid(n_given, default_block)?;
    let in_a_row = [grid.n_blocks().saturating_mul(grid.block_size())];
    let dim = dim.unwrap_or(&in_a_row);
    let mut block = ArgBlock::new();
    for value in &mut values {
        value.push(params, &mut block).map_err(|error| CommandFailure::Failed(error.to_string()))?;
    }
    let grid = (device != DeviceId::Cpu || kernel.needs_blocks()).then_some(grid);
    let sim = arguments.simulate.options();
    let options = LaunchOptions { grid, timed: true, sim, ..LaunchOptions::default() };
    let queue = queue(device).map_err(|failure| CommandFailure::Failed(failure.to_string()))?;
    // SAFETY: the arrays are owned by `values`, which outlives the launch, and nothing else touches them. The
    // kernel is checked, or says that its indices are within them.
    let done = unsafe { kernel.launch_on(&*queue, dim, &block, &options) };
    let LaunchStats { elapsed, report, .. } = done.map_err(|error| match &error {
        LaunchError::Trap(trap) => CommandFailure::Failed(kernel.explain(trap).message),
        LaunchError::Outside(outside) => CommandFailure::Failed(kernel.explain_outside(outside).message),
        LaunchError::Simulator(fault) => CommandFailure::Failed(describe_fault(fault)),
        _ => CommandFailure::Failed(error.to_string()),
    })?;

    let seconds = elapsed.unwrap_or_default().as_secs_f64();

    let arrays: Vec<(usize, &str, &ArrayValue)> = params
        .names()
        .iter()
        .zip(&values)
        .enumerate()
        .filter_map(|(index, (name, value))| value.as_array().map(|array| (index, &**name, array)))
        .collect();
    save(arrays.iter().map(|&(_, name, array)| (name, array)), outputs)?;
    let written = arrays.iter().filter(|(index, _, _)| kernel.writes(*index)).map(|&(_, name, array)| (name, array));
    if arguments.json {
        if let Some(report) = report.filter(|_| arguments.simulate.counters) {
            eprint!("{}", describe_report(&report, seconds));
        }
        return print_arrays(written);
    }
    let mut text = describe_arrays(written);
    // The extents of an empty grid are not multiplied, because the others may be of any size.
    let n_threads: u64 = if dim.contains(&0) { 0 } else { dim.iter().product() };
    text += &format!("{n_threads} threads in {:.3} ms\n", seconds * 1e3);
    if let Some(report) = report {
        text += &describe_report(&report, seconds);
    }
    print(text.as_bytes())
}

/// Chooses the device, `default` if none is named, and refuses files and arguments that it does not take.
fn chosen_device(arguments: &RunArguments, is_ptx: bool, default: DeviceId) -> Result<DeviceId, CommandFailure> {
    let device = match arguments.device.as_deref() {
        None => default,
        Some(name) => DeviceId::from_name(name).ok_or_else(|| {
            CommandFailure::Usage(format!(
                "there is no device `{name}`: devices are cpu, sim:0, and GPUs, cuda:0 and so on"
            ))
        })?,
    };
    if is_ptx && device != DeviceId::Simulator {
        return Err(CommandFailure::Usage("PTX runs on --device sim:0".to_owned()));
    }
    if arguments.simulate.needs_simulator() && device != DeviceId::Simulator {
        return Err(CommandFailure::Usage(
            "--sanitize, --counters and --cooperative are for --device sim:0".to_owned(),
        ));
    }
    if is_ptx && arguments.dim.is_some() {
        let message = "a kernel of a PTX file is launched with --grid and --block: it says nothing of --dim";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    Ok(device)
}

/// The values of the parameters, in order, from the texts that are given for them.
pub(crate) fn argument_values(
    kernel: &Kernel,
    given: &mut BTreeMap<&str, &str>,
) -> Result<Vec<LaunchArgument>, CommandFailure> {
    let params = kernel.params();
    let composites: Vec<&str> = params.names().iter().filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
    let components = components(given, &composites)?;
    let mut values = Vec::new();
    for (param, &ty) in params.names().iter().zip(params.types()) {
        let component = components.get(&**param).map(String::as_str);
        let Some(text) = component.or_else(|| given.remove(&**param)) else {
            let param = param.rsplit_once('.').map_or(&**param, |(composite, _)| composite);
            let signature = kernel.signature();
            return Err(CommandFailure::Usage(format!(
                "parameter `{param}` has no value: --arg {param}=…  ({signature})"
            )));
        };
        let declared = kernel.names().iter().position(|name| name == param).and_then(|index| kernel.types().get(index));
        let element = match declared {
            Some(Type::CompositeArray { elem, .. }) => elem.shape(),
            _ => Default::default(),
        };
        values.push(LaunchArgument::parse(param, ty, &element, text).map_err(CommandFailure::Usage)?);
    }
    Ok(values)
}

/// Saves an array in a file.
pub(crate) fn save_to(path: &str, array: &ArrayValue) -> Outcome {
    array.save(path.as_ref()).map_err(|error| CommandFailure::Failed(format!("cannot write {path}: {error}")))
}

/// Saves arrays in the files that `--out` names for them.
fn save<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a ArrayValue)>, mut outputs: BTreeMap<&str, &str>) -> Outcome {
    for (name, array) in arrays {
        if let Some(path) = outputs.remove(name) {
            save_to(path, array)?;
        }
    }
    match outputs.keys().next() {
        Some(name) => Err(CommandFailure::Usage(format!("--out {name}: `{name}` is no array"))),
        None => Ok(()),
    }
}

/// Prints arrays as JSON.
pub(crate) fn print_arrays<'a>(arrays: impl Iterator<Item = (&'a str, &'a ArrayValue)>) -> Outcome {
    print_json(&arrays.map(|(name, array)| (name, array.json())).collect::<BTreeMap<&str, serde_json::Value>>())
}

/// A line for each array.
pub(crate) fn describe_arrays<'a>(arrays: impl Iterator<Item = (&'a str, &'a ArrayValue)>) -> String {
    arrays.map(|(name, array)| format!("{name}: {array}\n")).collect()
}

/// The components of vectors and matrices among the arguments, `v=1,2,3`, by the names of the parameters they are.
/// `composites` names the composite of each component.
fn components(
    given: &mut BTreeMap<&str, &str>,
    composites: &[&str],
) -> Result<BTreeMap<String, String>, CommandFailure> {
    let mut found = BTreeMap::new();
    for &composite in composites {
        let Some(text) = given.remove(composite) else { continue };
        let n = composites.iter().filter(|&&name| name == composite).count();
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() != n {
            let message = format!("--arg {composite}={text}: `{composite}` has {n} components, {} given", parts.len());
            return Err(CommandFailure::Usage(message));
        }
        found
            .extend(parts.iter().enumerate().map(|(index, part)| (format!("{composite}.{index}"), (*part).to_owned())));
    }
    Ok(found)
}
