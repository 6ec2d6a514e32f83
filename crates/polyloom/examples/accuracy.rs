//! Measures the mathematics library as compiled code computes it.
//!
//! ```text
//! accuracy [--stride N] [--f64 FILE] [FUNCTION…]
//! ```
//!
//! Every `f32` input (or every Nth) of every function of one argument is compared with the C library's `f64` function,
//! and each function's worst input and error printed; an error above one unit in the last place is a failure. With
//! `--f64`, functions of `f64` are sampled into a file, which `scripts/accuracy_f64.py` compares with MPFR.

use polyloom::{
    ArgBlock, Kernel, LaunchOptions, Session, SourceFile, SourceUnit, Tier, TierPolicy, has_llvm, num_threads,
};
use polyloom_ir::generate;
use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
    safe fn asinh(x: f64) -> f64;
    safe fn acosh(x: f64) -> f64;
    safe fn atanh(x: f64) -> f64;
}

type Reference = fn(f64) -> f64;

/// The functions of one argument. (The standard library's inverse hyperbolic functions are not accurate enough.)
const FUNCTIONS: [(&str, Reference); 26] = [
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("asin", f64::asin),
    ("acos", f64::acos),
    ("atan", f64::atan),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("tanh", f64::tanh),
    ("asinh", |x| asinh(x)),
    ("acosh", |x| acosh(x)),
    ("atanh", |x| atanh(x)),
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("expm1", f64::exp_m1),
    ("log", f64::ln),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("cbrt", f64::cbrt),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("erf", |x| erf(x)),
    ("erfc", |x| erfc(x)),
    ("erfinv", inverse_erf),
    ("erfcinv", inverse_erfc),
    ("round", f64::round),
];

/// Takes the logarithm of the approximation for small `x`, then Newton's steps on the logarithm of `erfc`.
fn inverse_erfc(x: f64) -> f64 {
    if x > 0.5 {
        return inverse_erf(1.0 - x);
    }
    if x <= 0.0 || x.is_nan() {
        return if x == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    let mut y = (-(x * 1.7).ln()).max(0.2).sqrt();
    for _ in 0..7 {
        let ratio = (erfc(y) / x).ln() * erfc(y);
        y += ratio / ((-y * y).exp() * std::f64::consts::FRAC_2_SQRT_PI);
    }
    y
}

/// Winitzki's approximation of the inverse error function, then Halley's steps.
fn inverse_erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude < 1e-6 {
        return x * (1.0 + std::f64::consts::PI / 12.0 * x * x) / std::f64::consts::FRAC_2_SQRT_PI;
    }
    if magnitude >= 1.0 || x.is_nan() {
        return if magnitude == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    let logarithm = (-magnitude * magnitude).ln_1p();
    let term = 2.0 / (std::f64::consts::PI * 0.147) + logarithm / 2.0;
    let mut y = ((term * term - logarithm / 0.147).sqrt() - term).sqrt();
    for _ in 0..4 {
        let difference = if magnitude < 0.5 { erf(y) - magnitude } else { (1.0 - magnitude) - erfc(y) };
        let step = difference * (y * y).exp() / std::f64::consts::FRAC_2_SQRT_PI;
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// The error of a result in units in its last place; infinite for a wrong sign, infinity or NaN.
fn error_in_ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    if rounded.is_infinite() || got.is_infinite() || want == 0.0 {
        return if got == rounded { 0.0 } else { f64::INFINITY };
    }
    let exponent = (want.abs().to_bits() >> 52) as i32 - 1023;
    (f64::from(got) - want).abs() * 2f64.powi(23 - exponent.max(-126))
}

/// A kernel that applies each function to an array: `sin_float32`, `sin_float64`, …
fn source() -> String {
    let mut text = String::from("import polyloom as loom\n");
    for (name, _) in FUNCTIONS {
        for ty in ["float32", "float64"] {
            let array = format!("loom.array(dtype=loom.{ty})");
            let _ = write!(
                text,
                "\n@loom.kernel\ndef {name}_{ty}(x: {array}, y: {array}):\n    i = loom.tid()\n    \
                 y[i] = loom.{name}(x[i])\n"
            );
        }
    }
    text
}

/// Inputs of one launch.
const BLOCK: usize = 1 << 20;

fn launch<T: polyloom_runtime::ArrayElement>(kernel: &Kernel, x: &mut [T], y: &mut [T]) -> Result<(), Box<dyn Error>> {
    let shape = [x.len() as u64];
    let mut args = ArgBlock::new();
    args.slice(kernel.params(), x, &shape)?;
    args.slice(kernel.params(), y, &shape)?;
    // SAFETY: both arrays outlive the launch and have as many elements as it has threads.
    unsafe { kernel.launch(&shape, &args, &LaunchOptions::default())? };
    Ok(())
}

/// The greatest error over every `stride`-th input, and the input.
fn worst(kernel: &Kernel, reference: Reference, stride: u64) -> Result<(f64, f32), Box<dyn Error>> {
    let (mut x, mut y) = (vec![0f32; BLOCK], vec![0f32; BLOCK]);
    let mut worst = (0.0, 0.0f32);
    let mut next = 0u64;
    while next <= u64::from(u32::MAX) {
        for slot in &mut x {
            *slot = f32::from_bits(next.min(u64::from(u32::MAX)) as u32);
            next += stride;
        }
        launch(kernel, &mut x, &mut y)?;
        let share = BLOCK.div_ceil(num_threads());
        let found = std::thread::scope(|scope| {
            let workers: Vec<_> = x
                .chunks(share)
                .zip(y.chunks(share))
                .map(|(x, y)| {
                    scope.spawn(move || {
                        x.iter().zip(y).fold((0.0, 0.0f32), |worst, (&x, &got)| {
                            let error = error_in_ulps(got, reference(x.into()));
                            if error > worst.0 { (error, x) } else { worst }
                        })
                    })
                })
                .collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect::<Vec<_>>()
        });
        worst = found.into_iter().fold(worst, |a, b| if b.0 > a.0 { b } else { a });
    }
    Ok(worst)
}

/// Random operands.
struct Random(generate::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2f64.powi(-53)
    }

    /// All bit patterns, the range of exponentials, the middle of most functions, and near 0 and 1, in turn.
    fn sample(&mut self, index: usize) -> f64 {
        let sign = if self.next() & 1 == 0 { 1.0 } else { -1.0 };
        match index % 5 {
            0 => f64::from_bits(self.next()),
            1 => sign * self.unit() * 750.0,
            2 => sign * self.unit() * 30.0,
            3 => sign * self.unit() * 2f64.powi(-((self.next() % 50) as i32)),
            _ => sign * (1.0 - self.unit() * 2f64.powi(-((self.next() % 50) as i32))),
        }
    }
}

fn sample_f64(session: &Session, unit: &std::sync::Arc<SourceUnit>, path: &str) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for (name, _) in FUNCTIONS {
        let kernel = session.compile_file_kernel(unit, &format!("{name}_float64"))?;
        let mut random = Random(generate::Random::new(20));
        let mut x: Vec<f64> = (0..20_000).map(|index| random.sample(index)).collect();
        let mut y = vec![0f64; x.len()];
        launch(&kernel, &mut x, &mut y)?;
        for (x, y) in x.iter().zip(&y) {
            let _ = writeln!(text, "{name} {:016x} {:016x}", x.to_bits(), y.to_bits());
        }
    }
    Ok(std::fs::write(path, text)?)
}

fn run() -> Result<bool, Box<dyn Error>> {
    let (mut stride, mut f64_path, mut names) = (1, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--stride" => stride = arguments.next().ok_or("--stride wants a number")?.parse::<u64>()?.max(1),
            "--f64" => f64_path = Some(arguments.next().ok_or("--f64 wants a file")?),
            name => names.push(name.to_owned()),
        }
    }
    let tier = if has_llvm() { Tier::Optimized } else { Tier::Quick };
    let session = Session::on(Session::default_device()?.with_policy(TierPolicy::Always(tier))?)?;
    let unit = SourceUnit::parse(SourceFile::new("accuracy.py", source(), 1))?;
    if let Some(path) = f64_path {
        sample_f64(&session, &unit, &path)?;
        return Ok(true);
    }
    println!("f32, one input in {stride}, against the C library's f64\n");
    println!("| function | greatest error (ulp) | at |\n|---|---:|---:|");
    let mut good = true;
    for (name, reference) in FUNCTIONS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let kernel = session.compile_file_kernel(&unit, &format!("{name}_float32"))?;
        let (error, at) = worst(&kernel, reference, stride)?;
        println!("| `{name}` | {error:.4} | {at:e} |");
        good &= error <= 1.0;
    }
    Ok(good)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("accuracy: an error is above one unit in the last place");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("accuracy: {error}");
            ExitCode::from(2)
        }
    }
}
