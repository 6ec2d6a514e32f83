//! `polyloom run FILE.ptx`: a kernel of a PTX file on the simulator, whoever wrote it.
//!
//! PTX does not say what a pointer points at, so arrays carry the type of their elements: `x=f32:arange:1024`. Nor does
//! it say what is in a struct: `p={f32:arange:64,i32:64}`, or `{8|f32:1,f32:2}` of one that is aligned to 8 bytes.

use crate::run::{describe_arrays, print_arrays, save_to};
use crate::simulate;
use crate::value::{ArrayValue, LaunchArgument, extents};
use crate::{CommandFailure, Outcome, named, print};
use polyloom::ptx::{KernelInfo, Module, ParameterInfo, Simulator};
use polyloom::{
    LaunchConfig, LaunchOptions, MAX_STRUCT_LEVELS, PtxArgument, Scalar, Type, describe_fault, describe_report,
    launch_bytes, run_on_simulator, source_name, takes_launch,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What a run of a PTX file is given.
pub(crate) struct PtxRequest<'a> {
    pub(crate) file: &'a Path,
    pub(crate) kernel: Option<&'a str>,
    pub(crate) simulate: &'a simulate::SimulateArguments,
    pub(crate) args: &'a [String],
    pub(crate) out: &'a [String],
    pub(crate) json: bool,
}

pub(crate) fn run(request: &PtxRequest<'_>) -> Outcome {
    let file = request.file;
    let failed = |message: String| CommandFailure::Failed(message);
    let text =
        std::fs::read_to_string(file).map_err(|error| failed(format!("cannot read {}: {error}", file.display())))?;
    let located = |errors: Vec<polyloom::ptx::PtxError>| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{}:{error}", file.display())).collect();
        failed(lines.join("\n"))
    };
    let module = Module::parse(&text).map_err(located)?;
    let kernels = module.kernels();
    let info = chosen(&kernels, request)?;
    let grid = request.simulate.grid(None, [1; 3])?;
    let mut given = named(request.args, "--arg")?;
    let mut outputs = named(request.out, "--out")?;

    let simulator = Simulator::default();
    let loaded = simulator.load(&module).map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let kernel = loaded.kernel(&info.name).map_err(located)?;
    let memory = simulator.memory();
    let is_own = takes_launch(&info.name, kernel.parameters());
    let (mut params, mut arrays, mut saved) = (Vec::new(), Vec::new(), Vec::new());
    for (index, parameter) in kernel.parameters().iter().enumerate() {
        let mut given_arrays = Vec::new();
        let names = names_of(&info.name, kernel.parameters(), index, is_own);
        let (name, text) = taken(&names, &mut given);
        let argument = match is_own && index == 0 {
            true => launched(&name, text, &grid)?,
            false => argument(&name, parameter, text, &mut given_arrays)?,
        };
        let text = text.unwrap_or_default();
        let mut laid_out = argument
            .lay_out(&name, parameter.size as usize)
            .map_err(|what| CommandFailure::Usage(format!("--arg {name}={text}: the parameter {what}")))?;
        for (index, array) in given_arrays.into_iter().enumerate() {
            let bytes = array.bytes();
            let address = memory.alloc(bytes.len(), 256).map_err(|error| failed(error.to_string()))?;
            memory.write(address, &bytes).map_err(|error| failed(error.to_string()))?;
            laid_out.set_address(index, address);
            let array_name = laid_out.arrays[index].name.clone();
            let paths = names.iter().filter_map(|other| outputs.remove(&*array_name.replacen(&name, other, 1)));
            saved.extend(paths.map(|path| (arrays.len(), path)));
            arrays.push((array_name, address, array));
        }
        params.push(laid_out.bytes);
    }
    if let Some(name) = given.keys().next() {
        return Err(CommandFailure::Usage(format!("kernel `{}` has no parameter `{name}`", info.name)));
    }
    if let Some(name) = outputs.keys().next() {
        return Err(CommandFailure::Usage(format!("--out {name}: `{name}` is no array")));
    }

    let options = LaunchOptions { sim: request.simulate.options(), ..LaunchOptions::default() };
    let arch = request.simulate.arch().number().into();
    let started = Instant::now();
    let names: Vec<(u64, Arc<str>)> =
        arrays.iter().map(|(name, address, _)| (*address, name.as_str().into())).collect();
    let report = run_on_simulator(&kernel, arch, &params, &names, &grid, &options);
    let report = report.map_err(|fault| failed(describe_fault(&fault)))?;
    let seconds = started.elapsed().as_secs_f64();
    for (_, address, array) in &mut arrays {
        let mut bytes = vec![0; array.bytes().len()];
        memory.read(*address, &mut bytes).map_err(|error| failed(error.to_string()))?;
        array.set_bytes(&bytes);
    }
    let named = || arrays.iter().map(|(name, _, array)| (name.as_str(), array));
    for (index, path) in saved {
        save_to(path, &arrays[index].2)?;
    }
    if request.json {
        if request.simulate.counters {
            eprint!("{}", describe_report(&report, seconds));
        }
        return print_arrays(named());
    }
    print((describe_arrays(named()) + &describe_report(&report, seconds)).as_bytes())
}

/// The kernel that is asked for, or the only one.
fn chosen<'a>(kernels: &'a [KernelInfo], request: &PtxRequest<'_>) -> Result<&'a KernelInfo, CommandFailure> {
    let file = request.file.display();
    if kernels.is_empty() {
        return Err(CommandFailure::Failed(format!(
            "{file} has no kernel: a `.entry` whose parameters can be laid out"
        )));
    }
    let names = || kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
    let info = match request.kernel {
        Some(name) => kernels.iter().find(|kernel| kernel.name == name),
        None if kernels.len() == 1 => kernels.first(),
        None => return Err(CommandFailure::Usage(format!("{file} has several kernels: --kernel {}", names()))),
    };
    info.ok_or_else(|| {
        let name = request.kernel.unwrap_or_default();
        CommandFailure::Failed(format!("{file} has no kernel `{name}`; it has {}", names()))
    })
}

/// The scalars of PTX, by their names there: those without a sign are taken for unsigned integers.
fn scalar(ty: &str) -> Option<Scalar> {
    Scalar::from_name(ty).or_else(|| {
        Some(match ty {
            "s8" => Scalar::I8,
            "s16" => Scalar::I16,
            "s32" => Scalar::I32,
            "s64" => Scalar::I64,
            "b8" => Scalar::U8,
            "b16" => Scalar::U16,
            "b32" => Scalar::U32,
            "b64" => Scalar::U64,
            _ => return None,
        })
    })
}

/// What a parameter may be called: in kernels of Polyloom's by its name in the source, else by its own, and by its
/// number. The one that says what is launched leaves its name to one of the kernel's.
fn names_of(entry: &str, parameters: &[ParameterInfo], index: usize, is_own: bool) -> Vec<String> {
    let source = |parameter: &ParameterInfo| source_name(entry, &parameter.name);
    let name = source(&parameters[index]).filter(|name| {
        !is_own || index > 0 || !parameters[1..].iter().any(|other| source(other).as_ref() == Some(name))
    });
    name.into_iter().chain([parameters[index].name.clone(), index.to_string()]).collect()
}

/// What a parameter of these names is called, and what is given for it.
fn taken<'a>(names: &[String], given: &mut BTreeMap<&str, &'a str>) -> (String, Option<&'a str>) {
    let found = names.iter().find_map(|name| Some((name, given.remove(name.as_str())?)));
    found.map_or_else(|| (names[0].clone(), None), |(name, text)| (name.clone(), Some(text)))
}

/// What is launched: as many threads as the grid has, unless an argument says how many.
fn launched(name: &str, text: Option<&str>, grid: &LaunchConfig) -> Result<PtxArgument, CommandFailure> {
    let bytes = match text.map(extents) {
        None => launch_bytes(&[grid.n_blocks().saturating_mul(grid.block_size())]),
        Some(Some(extents)) => launch_bytes(&extents),
        Some(None) => Err("what is launched is an extent or several, as 1024 or 64x64".to_owned()),
    };
    let wrong = |what| CommandFailure::Usage(format!("--arg {name}={}: {what}", text.unwrap_or("…, left out")));
    Ok(PtxArgument::Bytes(bytes.map_err(wrong)?, 8))
}

/// What is given for a parameter; its arrays go to `arrays`.
fn argument(
    name: &str,
    parameter: &ParameterInfo,
    text: Option<&str>,
    arrays: &mut Vec<ArrayValue>,
) -> Result<PtxArgument, CommandFailure> {
    let Some(text) = text else {
        let message = format!("parameter `{name}`, a .{} of {} bytes, has no value", parameter.ty, parameter.size);
        return Err(CommandFailure::Usage(format!("{message}: --arg {name}=…")));
    };
    value(name, &parameter.ty, parameter.size, text, MAX_STRUCT_LEVELS, arrays).map_err(CommandFailure::Usage)
}

/// Reads `TYPE:arange:1024` or `TYPE:@FILE.npy`, an array; `bytes:00ff…`, any bytes; `{…,…}`, a struct, and `{8|…,…}`,
/// one with an alignment; `TYPE:VALUE` or `VALUE`, a scalar. Structs may be `levels` deep.
fn value(
    name: &str,
    ty: &str,
    size: u32,
    text: &str,
    levels: usize,
    arrays: &mut Vec<ArrayValue>,
) -> Result<PtxArgument, String> {
    let wrong = |what: String| format!("--arg {name}={text}: {what}");
    if let Some(members) = text.strip_prefix('{') {
        if levels == 0 {
            return Err(format!("--arg {name}=…: structs are more than {MAX_STRUCT_LEVELS} deep in each other"));
        }
        let members = members.strip_suffix('}').ok_or_else(|| wrong("its braces do not match".to_owned()))?;
        let (align, members) = members
            .split_once('|')
            .and_then(|(align, members)| Some((align.trim().parse().ok()?, members)))
            .unwrap_or((1, members));
        let members = members_of(members).ok_or_else(|| wrong("its braces do not match".to_owned()))?;
        let members = members.into_iter().enumerate().map(|(index, member)| {
            // A member is given no size here, because nothing but the text says of what size it is.
            value(&format!("{name}.{index}"), "b8", 0, member.trim(), levels - 1, arrays)
        });
        return PtxArgument::aligned(members.collect::<Result<_, _>>()?, align).map_err(wrong);
    }
    if let Some(digits) = text.strip_prefix("bytes:") {
        let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
        let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
        let bytes = bytes.ok_or_else(|| wrong("write two hexadecimal digits for each byte".to_owned()))?;
        return Ok(PtxArgument::Bytes(bytes, 1));
    }
    let (ty, rest) = match text.split_once(':').and_then(|(ty, rest)| Some((scalar(ty)?, rest))) {
        Some(typed) => typed,
        None => {
            let is_one = scalar(ty).filter(|scalar| scalar.bytes() == size);
            let wanted = || match size {
                0 => wrong(
                    "a member of a struct is TYPE:VALUE, TYPE:arange:SHAPE, TYPE:@FILE.npy, bytes:… or {…}: commas \
                     divide members, so write a shape as 4x4"
                        .to_owned(),
                ),
                _ => wrong(format!("a .{ty} of {size} bytes takes TYPE:VALUE, TYPE:arange:SHAPE or {{…}}")),
            };
            (is_one.ok_or_else(wanted)?, text)
        }
    };
    if rest.starts_with('@') || rest.contains(':') {
        let array = ArrayValue::parse(ty, usize::MAX, &[], rest).map_err(|what| match size {
            0 if rest.starts_with('@') => wrong(format!("{what} (commas divide members, in names of files too)")),
            _ => wrong(what),
        })?;
        let argument = PtxArgument::Array(array.layout());
        arrays.push(array);
        return Ok(argument);
    }
    // Unsigned types take negative numbers, because registers have no sign and compilers write `.u32` for `int`.
    let half = 1i128 << (8 * ty.bytes() - 1);
    let n_bytes = ty.bytes() as usize;
    let bits = match rest.parse::<i128>() {
        Ok(number) if ty.is_unsigned_int() && (-half..0).contains(&number) => number as u64,
        _ => match LaunchArgument::parse(name, Type::Scalar(ty), &[], rest)? {
            LaunchArgument::Scalar(_, bits) => bits,
            LaunchArgument::Array(_) => return Err(wrong(format!("`{rest}` is no {}", ty.python_name()))),
        },
    };
    Ok(PtxArgument::Bytes(bits.to_le_bytes()[..n_bytes].to_vec(), n_bytes))
}

/// The members of a struct: what stands between its commas, but for those inside other structs.
fn members_of(text: &str) -> Option<Vec<&str>> {
    let (mut members, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&text[start..]);
    (depth == 0).then_some(members)
}
