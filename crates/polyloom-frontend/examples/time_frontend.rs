//! How long the front end takes: `cargo run --release -p polyloom-frontend --example time_frontend`.
//!
//! Prints the median time to parse a file, and to bring a small kernel of it from the parsed file to HIR.

use polyloom_frontend::{FileEnvironment, FrontendOptions, SourceUnit, compile_kernel};
use polyloom_ir::SourceFile;
use std::time::Instant;

const TEXT: &str = "
import polyloom as loom


@loom.func
def weight(x: float, scale: float = 0.5) -> float:
    if x < 0.0:
        return 0.0
    return x * scale + 1.0


@loom.kernel
def stencil(n: int, a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2)):
    i, j = loom.tid()
    if i == 0 or j == 0 or i >= n - 1 or j >= n - 1:
        return
    total = 0.0
    for k in range(-1, 2):
        total += weight(a[i + k, j]) + weight(a[i, j + k], scale=0.25)
    b[i, j] = loom.sqrt(loom.max(total, 0.0)) + 2 * loom.sin(a[i, j])
";

fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..2001)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = SourceFile::new("stencil.py", TEXT, 1);
    let unit = SourceUnit::parse(file.clone())?;
    let environment = FileEnvironment::new(&unit);
    let kernel = environment.function(unit.find("stencil").ok_or("the file has no such kernel")?);
    let parse = median(|| drop(SourceUnit::parse(file.clone())));
    let compile = median(|| drop(compile_kernel(&kernel, &FrontendOptions::default())));
    println!("parse {parse:.1} µs, kernel to HIR {compile:.1} µs (medians)");
    Ok(())
}
