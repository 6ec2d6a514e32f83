//! `polyloom run` of a kernel or a computation of a `.loom` file: results are allocated, and all its loops are run.

use crate::run::{RunArguments, describe_arrays, print_arrays, save_to};
use crate::types::chosen_types;
use crate::value::{ArrayValue, LaunchArgument};
use crate::{CommandFailure, Outcome, named, print};
use polyloom::frontend::{FileEnvironment, LoomProgram, MatrixProduct, ShapeArgument, kernel_not_found};
use polyloom::{
    ArgBlock, DeviceId, Kernel, LaunchError, LaunchOptions, LoomProduct, Session, SourceUnit, Type, describe_fault,
    queue,
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
    let mut bound = program.bind(&shapes).map_err(CommandFailure::Failed)?;
    bound.launches = bound.clone().launches_for(device == DeviceId::Cpu);
    // Before them are the parameters, whose values all launches take.
    let n_given = values.len();
    // The results that the values after the parameters are of.
    let mut owners: Vec<usize> = Vec::new();
    for (number, (result, shape)) in program.results.iter().zip(&bound.results).enumerate() {
        let mut stages = bound.launches.iter().filter(|stage| stage.results.contains(&number));
        let kernel = stages.find_map(|stage| kernels.get(&stage.function)).unwrap_or(first);
        values.extend(zeros(kernel, &result.name, shape)?);
        owners.resize(values.len() - n_given, number);
    }
    let mut scratch: Vec<Vec<LaunchArgument>> = Vec::new();
    for (index, (array, shape)) in program.scratch.iter().zip(&bound.scratch).enumerate() {
        let mut stages = bound.launches.iter().filter(|stage| stage.scratch.contains(&index));
        let kernel = stages.find_map(|stage| kernels.get(&stage.function));
        scratch.push(match kernel {
            Some(kernel) => zeros(kernel, &array.name, shape)?.into_iter().map(|(_, value)| value).collect(),
            None => Vec::new(),
        });
    }
    let dim = arguments.dim.as_ref().map(|shape| shape.extents());
    let queue = queue(device).map_err(|failure| CommandFailure::Failed(failure.to_string()))?;
    let mut by_engine = match program.product.filter(|_| device == DeviceId::Cpu) {
        Some(product) => engine_product(session, product, &values)?,
        None => None,
    };
    let start = Instant::now();
    if let (Some(engine), Some(product)) = (&mut by_engine, program.product) {
        let addresses: Vec<usize> = values.iter_mut().map(|(_, value)| value.address()).collect();
        // SAFETY: the arrays are owned by `values`, dense, and of the extents and elements that the product is for.
        let done = unsafe { engine.run(addresses[product.left.param], addresses[product.right.param], addresses[2]) };
        done.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    }
    for stage in bound.launches.iter().filter(|_| by_engine.is_none()) {
        let Some(kernel) = kernels.get(&stage.function) else { continue };
        let Some(extents) = stage.dim.as_deref().or(dim) else {
            let message = format!("`{}` asks for its thread: say how many run by --dim", program.name);
            return Err(CommandFailure::Usage(message));
        };
        let mut block = ArgBlock::new();
        let wrong = |error: polyloom::ArgError| CommandFailure::Failed(error.to_string());
        for (at, (_, value)) in values.iter_mut().enumerate() {
            let owner = at.checked_sub(n_given).and_then(|at| owners.get(at));
            if owner.is_none_or(|owner| stage.results.contains(owner)) {
                value.push(kernel.params(), &mut block).map_err(wrong)?;
            }
        }
        for index in &stage.scratch {
            for value in scratch.get_mut(*index).into_iter().flatten() {
                value.push(kernel.params(), &mut block).map_err(wrong)?;
            }
        }
        for counter in &stage.counters {
            block.scalar(kernel.params(), polyloom::Scalar::I32, u64::from(counter.cast_unsigned())).map_err(wrong)?;
        }
        // SAFETY: the arrays are owned by `values` and `scratch`, which outlive the launch, and nothing else touches them. The
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

/// The product that a program is, by the tensor engine, where that gives the bits of its loops. Its parameters are the two
/// factors, after which comes the result.
fn engine_product(
    session: &Session,
    product: MatrixProduct,
    values: &[(String, LaunchArgument)],
) -> Result<Option<LoomProduct>, CommandFailure> {
    let array = |index: usize| values.get(index).and_then(|(_, value)| value.as_array());
    let (Some(left), Some(right)) = (array(product.left.param), array(product.right.param)) else { return Ok(None) };
    let (&[left_rows, left_columns], &[right_rows, right_columns]) = (left.shape(), right.shape()) else {
        return Ok(None);
    };
    let [rows, depth] = product.left.turned([left_rows, left_columns]);
    let [_, columns] = product.right.turned([right_rows, right_columns]);
    if left.elem() != right.elem() || values.len() != 3 {
        return Ok(None);
    }
    let mode = session.defaults().float_mode;
    let found = session.loom_product(product, left.elem(), [rows, depth, columns], mode);
    found.map_err(|error| CommandFailure::Failed(error.to_string()))
}

/// Arrays of zeros for a parameter: itself, or its fields or components.
fn zeros(kernel: &Kernel, param: &str, shape: &[u64]) -> Result<Vec<(String, LaunchArgument)>, CommandFailure> {
    let mut values = Vec::new();
    for (name, ty) in parts(kernel, param) {
        let Type::Array { elem, .. } = ty else { continue };
        let element = element_shape(kernel, name);
        let extents = shape.iter().copied().chain(element.iter().map(|&extent| u64::from(extent)));
        let zeros = ArrayValue::zeros(elem, extents.collect()).map_err(CommandFailure::Failed)?;
        values.push((name.to_owned(), LaunchArgument::Array(zeros)));
    }
    Ok(values)
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
