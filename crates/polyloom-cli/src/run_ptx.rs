//! `polyloom run FILE.ptx`: a kernel of a PTX file on the simulator, whoever wrote it.
//!
//! PTX does not say what a pointer points at, so arrays carry the type of their elements: `x=f32:arange:1024`.

use crate::run::{describe_arrays, print_arrays, save};
use crate::simulate;
use crate::value::{Argument, ArrayValue};
use crate::{Failure, Outcome, named, print};
use polyloom::ptx::{KernelInfo, Module, Simulator};
use polyloom::{LaunchOptions, Scalar, Type, describe_fault, describe_report, run_on_simulator};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What a run of a PTX file is given.
pub(crate) struct Request<'a> {
    pub(crate) file: &'a Path,
    pub(crate) kernel: Option<&'a str>,
    pub(crate) simulate: &'a simulate::Arguments,
    pub(crate) args: &'a [String],
    pub(crate) out: &'a [String],
    pub(crate) json: bool,
}

pub(crate) fn run(request: &Request<'_>) -> Outcome {
    let file = request.file;
    let failed = |message: String| Failure::Failed(message);
    let text =
        std::fs::read_to_string(file).map_err(|error| failed(format!("cannot read {}: {error}", file.display())))?;
    let located = |errors: Vec<polyloom::ptx::Error>| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{}:{error}", file.display())).collect();
        failed(lines.join("\n"))
    };
    let module = Module::parse(&text).map_err(located)?;
    let kernels = module.kernels();
    let info = chosen(&kernels, request)?;
    let grid = request.simulate.grid(None, [1; 3])?;
    let mut given = named(request.args, "--arg")?;
    let outputs = named(request.out, "--out")?;

    let simulator = Simulator::default();
    let loaded = simulator.load(&module).map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let kernel = loaded.kernel(&info.name).map_err(located)?;
    let memory = simulator.memory();
    let (mut params, mut arrays) = (Vec::new(), Vec::new());
    for parameter in kernel.parameters() {
        let name = parameter.name.as_str();
        let Some(text) = given.remove(name) else {
            let message = format!("parameter `{name}`, a .{} of {} bytes, has no value", parameter.ty, parameter.size);
            return Err(Failure::Usage(format!("{message}: --arg {name}=…")));
        };
        let value = value(name, &parameter.ty, parameter.size, text).map_err(Failure::Usage)?;
        let bytes = match value {
            Value::Bytes(bytes) => bytes,
            Value::Array(array) => {
                let bytes = array.bytes();
                let address = memory.alloc(bytes.len(), 256).map_err(|error| failed(error.to_string()))?;
                memory.write(address, &bytes).map_err(|error| failed(error.to_string()))?;
                arrays.push((name, address, array));
                address.to_le_bytes().to_vec()
            }
        };
        if bytes.len() != parameter.size as usize {
            let message = format!("--arg {name}={text}: {} bytes for a parameter of {}", bytes.len(), parameter.size);
            return Err(Failure::Usage(message));
        }
        params.push(bytes);
    }
    if let Some(name) = given.keys().next() {
        return Err(Failure::Usage(format!("kernel `{}` has no parameter `{name}`", info.name)));
    }

    let options = request.simulate.options();
    let arch = request.simulate.arch().number().into();
    let started = Instant::now();
    let names: Vec<(u64, Arc<str>)> = arrays.iter().map(|(name, address, _)| (*address, (*name).into())).collect();
    let report = run_on_simulator(&kernel, arch, &params, &names, &grid, &LaunchOptions::default(), &options);
    let report = report.map_err(|fault| failed(describe_fault(&fault)))?;
    let seconds = started.elapsed().as_secs_f64();
    for (_, address, array) in &mut arrays {
        let mut bytes = vec![0; array.bytes().len()];
        memory.read(*address, &mut bytes).map_err(|error| failed(error.to_string()))?;
        array.set_bytes(&bytes);
    }
    let named = || arrays.iter().map(|(name, _, array)| (*name, array));
    save(named(), outputs)?;
    if request.json {
        if request.simulate.counters {
            eprint!("{}", describe_report(&report, seconds));
        }
        return print_arrays(named());
    }
    print((describe_arrays(named()) + &describe_report(&report, seconds)).as_bytes())
}

/// The kernel that is asked for, or the only one.
fn chosen<'a>(kernels: &'a [KernelInfo], request: &Request<'_>) -> Result<&'a KernelInfo, Failure> {
    let file = request.file.display();
    let names = || kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ");
    let info = match request.kernel {
        Some(name) => kernels.iter().find(|kernel| kernel.name == name),
        None if kernels.len() == 1 => kernels.first(),
        None => return Err(Failure::Usage(format!("{file} has several kernels: --kernel {}", names()))),
    };
    info.ok_or_else(|| {
        let name = request.kernel.unwrap_or_default();
        Failure::Failed(format!("{file} has no kernel `{name}`; it has {}", names()))
    })
}

/// The value of a parameter.
enum Value {
    Bytes(Vec<u8>),
    Array(ArrayValue),
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

/// Reads `TYPE:arange:1024` or `TYPE:@FILE.npy`, an array; `bytes:00ff…`, any bytes; `TYPE:VALUE` or `VALUE`, a scalar.
fn value(name: &str, ty: &str, size: u32, text: &str) -> Result<Value, String> {
    let wrong = |what: String| format!("--arg {name}={text}: {what}");
    if let Some(digits) = text.strip_prefix("bytes:") {
        let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
        let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
        return bytes.map(Value::Bytes).ok_or_else(|| wrong("write two hexadecimal digits for each byte".to_owned()));
    }
    let (ty, rest) = match text.split_once(':').and_then(|(ty, rest)| Some((scalar(ty)?, rest))) {
        Some(typed) => typed,
        None => {
            let is_one = scalar(ty).filter(|scalar| scalar.bytes() == size);
            let wanted = || wrong(format!("a .{ty} of {size} bytes takes TYPE:VALUE or TYPE:arange:SHAPE"));
            (is_one.ok_or_else(wanted)?, text)
        }
    };
    if rest.starts_with('@') || rest.contains(':') {
        return ArrayValue::parse(ty, usize::MAX, &[], rest).map(Value::Array).map_err(wrong);
    }
    // Registers have no sign, and compilers write `.u32` for `int`.
    let half = 1i128 << (8 * ty.bytes() - 1);
    if ty.is_unsigned_int()
        && let Ok(number) = rest.parse::<i128>()
        && (-half..0).contains(&number)
    {
        return Ok(Value::Bytes(number.to_le_bytes()[..ty.bytes() as usize].to_vec()));
    }
    match Argument::parse(name, Type::Scalar(ty), &[], rest)? {
        Argument::Scalar(_, bits) => {
            let mut bytes = bits.to_le_bytes().to_vec();
            bytes.truncate(ty.bytes() as usize);
            Ok(Value::Bytes(bytes))
        }
        Argument::Array(array) => Ok(Value::Array(array)),
    }
}
