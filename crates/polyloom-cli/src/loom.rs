//! `polyloom run` of a kernel or a computation of a `.loom` file: results are allocated, and all its loops are run.

use crate::run::{RunArguments, describe_arrays, print_arrays, save_to};
use crate::types::chosen_types;
use crate::value::{ArrayValue, LaunchArgument};
use crate::{CommandFailure, Outcome, named, print};
use polyloom::frontend::{FileEnvironment, LoomProgram, ShapeArgument, kernel_not_found};
use polyloom::{
    ArgBlock, DeviceId, Kernel, LaunchError, LaunchOptions, Session, SourceUnit, Type, describe_fault, queue,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The program of a name, or the only one.
fn chosen_program<'u>(unit: &'u SourceUnit, wanted: Option<&str>) -> Result<&'u LoomProgram, CommandFailure> {
    let programs = unit.programs();
    let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
    let found = match (wanted, programs) {
        (Some(name), _) => programs.iter().rev().find(|program| *program.name == *name),
        (None, [only]) => Some(only),
        (None, [_, ..]) => {
            let (file, names) = (&unit.file().name, names.join(", "));
            let message = format!("{file} has several kernels, choose one with --kernel: {names}");
            return Err(CommandFailure::Usage(message));
        }
        (None, []) => None,
    };
    let advice = "begin a function with `kernel` or `compute`";
    found.ok_or_else(|| kernel_not_found(unit.file(), &names, wanted, advice).into())
}

/// The device that is named, or else the one that the program prefers if it is there. A program may require its own.
fn chosen_device(program: &LoomProgram, named: Option<&str>) -> Result<DeviceId, CommandFailure> {
    let parse = |name: &str| {
        let message = || format!("there is no device `{name}`: devices are cpu, sim:0, and GPUs, cuda:0 and so on");
        DeviceId::from_name(name).ok_or_else(|| CommandFailure::Usage(message()))
    };
    if let Some(name) = named {
        return parse(name);
    }
    let Some(preference) = &program.device else { return Ok(DeviceId::Cpu) };
    let device = parse(&preference.name)?;
    match queue(device) {
        Ok(_) => Ok(device),
        Err(failure) if preference.is_required => {
            let message = format!("`{}` requires {}: {failure}", program.name, preference.name);
            Err(CommandFailure::Failed(message))
        }
        Err(_) => {
            let (name, wanted) = (&program.name, &preference.name);
            eprintln!("warning: `{name}` prefers {wanted}, which is not there: the CPU runs it");
            Ok(DeviceId::Cpu)
        }
    }
}

/// The kernels that a program launches, by the index of their function, compiled for the arguments.
fn compiled(
    session: &Session,
    unit: &Arc<SourceUnit>,
    program: &LoomProgram,
    types: &BTreeMap<&str, &str>,
    given: &BTreeMap<&str, &str>,
) -> Result<BTreeMap<usize, Kernel>, CommandFailure> {
    let environment = FileEnvironment::new(unit);
    let mut kernels = BTreeMap::new();
    let mut chosen = None;
    for index in program.functions() {
        let handle = environment.function(index);
        let kernel = match handle.is_generic_kernel() {
            false => session.compile(&handle, session.defaults())?,
            true => {
                let types = match &chosen {
                    Some(known) => known,
                    None => chosen.insert(chosen_types(&handle, &program.name, types, given)?),
                };
                session.compile_for(&handle, types, session.defaults())?
            }
        };
        kernels.insert(index, kernel);
    }
    Ok(kernels)
}

/// Runs a program.
///
/// # Errors
///
/// Reports what is wrong with it, with the arguments and their shapes, and what fails while it runs.
pub(crate) fn run(arguments: &RunArguments, session: &Session, unit: &Arc<SourceUnit>) -> Outcome {
    let program = chosen_program(unit, arguments.kernel.as_deref())?;
    let mut given = named(&arguments.args, "--arg")?;
    let types = named(&arguments.types, "--type")?;
    let mut outputs = named(&arguments.out, "--out")?;
    let device = chosen_device(program, arguments.device.as_deref())?;
    let kernels = compiled(session, unit, program, &types, &given)?;
    let Some(first) = kernels.values().next() else {
        return Err(CommandFailure::Failed(format!("`{}` runs nothing", program.name)));
    };
    let params: Vec<&str> = program.params.iter().map(|param| &*param.name).collect();
    let mut values: Vec<(String, LaunchArgument)> = Vec::new();
    let mut shapes = Vec::new();
    for param in &params {
        shapes.push(argument(first, param, &mut given, &mut values)?);
    }
    if let Some(stray) = given.keys().next() {
        let message = format!("`{}` has no parameter `{stray}`; it has {}", program.name, params.join(", "));
        return Err(CommandFailure::Usage(message));
    }
    let bound = program.bind(&shapes).map_err(CommandFailure::Failed)?;
    for (result, shape) in program.results.iter().zip(&bound.results) {
        for (name, ty) in parts(first, &result.name) {
            let Type::Array { elem, .. } = ty else { continue };
            let element = element_shape(first, name);
            let extents = shape.iter().copied().chain(element.iter().map(|&extent| u64::from(extent)));
            let zeros = ArrayValue::zeros(elem, extents.collect()).map_err(CommandFailure::Failed)?;
            values.push((name.to_owned(), LaunchArgument::Array(zeros)));
        }
    }
    let dim = arguments.dim.as_ref().map(|shape| shape.extents());
    let queue = queue(device).map_err(|failure| CommandFailure::Failed(failure.to_string()))?;
    let start = Instant::now();
    for stage in &bound.launches {
        let Some(kernel) = kernels.get(&stage.function) else { continue };
        let Some(extents) = stage.dim.as_deref().or(dim) else {
            let message = format!("`{}` asks for its thread: say how many run by --dim", program.name);
            return Err(CommandFailure::Usage(message));
        };
        let mut block = ArgBlock::new();
        let wrong = |error: polyloom::ArgError| CommandFailure::Failed(error.to_string());
        for (_, value) in &mut values {
            value.push(kernel.params(), &mut block).map_err(wrong)?;
        }
        for counter in &stage.counters {
            block.scalar(kernel.params(), polyloom::Scalar::I32, u64::from(counter.cast_unsigned())).map_err(wrong)?;
        }
        // SAFETY: the arrays are owned by `values`, which outlives the launch, and nothing else touches them. The
        // kernel is checked.
        let done = unsafe { kernel.launch_on(&*queue, extents, &block, &LaunchOptions::default()) };
        done.map_err(|error| match &error {
            LaunchError::Trap(trap) => CommandFailure::Failed(kernel.explain(trap).message),
            LaunchError::Outside(outside) => CommandFailure::Failed(kernel.explain_outside(outside).message),
            LaunchError::Simulator(fault) => CommandFailure::Failed(describe_fault(fault)),
            _ => CommandFailure::Failed(error.to_string()),
        })?;
    }
    let elapsed = start.elapsed();
    let arrays = || values.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_array()?)));
    for (name, array) in arrays() {
        if let Some(path) = outputs.remove(name) {
            save_to(path, array)?;
        }
    }
    if let Some(name) = outputs.keys().next() {
        return Err(CommandFailure::Usage(format!("--out {name}: `{name}` is no array")));
    }
    let is_written = |name: &str| {
        let mut kernels = bound.launches.iter().filter_map(|stage| kernels.get(&stage.function));
        program.results.iter().any(|result| is_part(name, &result.name))
            || kernels.any(|each| each.writes_argument(name))
    };
    let written = arrays().filter(|(name, _)| is_written(name));
    if arguments.json {
        return print_arrays(written);
    }
    let n = bound.launches.len();
    let launches = if n == 1 { "1 launch".to_owned() } else { format!("{n} launches") };
    let text = format!("{}{launches} in {:.3} ms\n", describe_arrays(written), elapsed.as_secs_f64() * 1e3);
    print(text.as_bytes())
}

/// The shape of a parameter's elements, if they are vectors or matrices.
fn element_shape(kernel: &Kernel, param: &str) -> Vec<u16> {
    let index = kernel.names().iter().position(|name| **name == *param);
    match index.and_then(|index| kernel.types().get(index)) {
        Some(Type::CompositeArray { elem, .. }) => elem.shape().to_vec(),
        _ => Vec::new(),
    }
}

/// Returns true for a parameter of a kernel, and for the fields of one that is a struct and the components of a vector.
fn is_part(name: &str, param: &str) -> bool {
    name.strip_prefix(param).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The parts of a parameter, as arguments of a launch: itself, or its fields or components.
fn parts<'k>(kernel: &'k Kernel, param: &str) -> Vec<(&'k str, Type)> {
    let params = kernel.params();
    let own = params.names().iter().zip(params.types()).filter(|(name, _)| is_part(name, param));
    own.map(|(name, ty)| (&**name, *ty)).collect()
}

/// Reads an argument, and gives what shapes depend on of it.
fn argument(
    kernel: &Kernel,
    param: &str,
    given: &mut BTreeMap<&str, &str>,
    values: &mut Vec<(String, LaunchArgument)>,
) -> Result<ShapeArgument, CommandFailure> {
    let own = parts(kernel, param);
    let missing = |name: &str| CommandFailure::Usage(format!("parameter `{name}` has no value: --arg {name}=…"));
    let texts: Vec<&str> = match given.remove(param) {
        Some(text) if own.len() == 1 => vec![text],
        // A vector or matrix is given by its components.
        Some(text) => {
            let texts: Vec<&str> = text.split(',').map(str::trim).collect();
            if texts.len() != own.len() {
                let (n, given) = (own.len(), texts.len());
                let message = format!("--arg {param}={text}: `{param}` has {n} components, {given} given");
                return Err(CommandFailure::Usage(message));
            }
            texts
        }
        // The fields of a struct are given one by one.
        None => {
            let is_vector =
                |(name, _): &(&str, Type)| name.rsplit('.').next().is_some_and(|last| last.parse::<u32>().is_ok());
            if own.iter().any(is_vector) && own.iter().all(|(name, _)| !given.contains_key(*name)) {
                return Err(missing(param));
            }
            let texts = own.iter().map(|(name, _)| given.remove(*name).ok_or_else(|| missing(name)));
            texts.collect::<Result<_, _>>()?
        }
    };
    let mut shape = ShapeArgument::Other;
    for ((name, ty), text) in own.iter().zip(texts) {
        let element = element_shape(kernel, name);
        let value = LaunchArgument::parse(name, *ty, &element, text).map_err(CommandFailure::Usage)?;
        shape = match &value {
            LaunchArgument::Array(array) => {
                let extents = array.shape();
                let extents = extents[..extents.len() - element.len()].to_vec();
                match shape {
                    ShapeArgument::Array(known) if known != extents => {
                        let message =
                            format!("the fields of `{param}` are arrays of one shape, and `{name}` has another");
                        return Err(CommandFailure::Usage(message));
                    }
                    _ => ShapeArgument::Array(extents),
                }
            }
            LaunchArgument::Scalar(scalar, _) if scalar.is_int() && own.len() == 1 => {
                text.parse().map_or(ShapeArgument::Other, ShapeArgument::Int)
            }
            LaunchArgument::Scalar(..) => shape,
        };
        values.push(((*name).to_owned(), value));
    }
    Ok(shape)
}
