//! How fast kernels become CUDA C++ text: `cargo run --release -p polyloom --example time_text -- FILE…`.
//!
//! Takes every kernel of the files that is not generic from the parsed file to text, over and over, and prints how long
//! the front end and the text take on average, and how many kernels a second that is on one core. Files whose kernels
//! call the package `wp` without importing it are taken too.

use polyloom::frontend::{FileEnvironment, FrontendOptions, SourceUnit, compile_kernel};
use polyloom::{PassOptions, SourceFile, TextOptions, TextTarget, write_text};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut n_kernels, mut n_bytes) = (0, 0);
    let (mut parse, mut front, mut text) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for path in std::env::args().skip(1) {
        let source = std::fs::read_to_string(&path)?;
        let imported = if source.contains("import") { source } else { format!("import polyloom as wp\n{source}") };
        let file = SourceFile::new(path.as_str(), imported, 1);
        let begin = Instant::now();
        for _ in 1..ROUNDS {
            drop(SourceUnit::parse(file.clone())?);
        }
        let unit = SourceUnit::parse(file)?;
        parse += begin.elapsed();
        let environment = FileEnvironment::new(&unit);
        for index in unit.kernels() {
            let kernel = environment.function(index);
            if compile_kernel(&kernel, &FrontendOptions::default()).is_err() {
                continue;
            }
            n_kernels += 1;
            for _ in 0..ROUNDS {
                let begin = Instant::now();
                let compiled = compile_kernel(&kernel, &FrontendOptions::default())?;
                front += begin.elapsed();
                let begin = Instant::now();
                let options = PassOptions::default();
                let written =
                    write_text(&compiled.module, compiled.kernel, &options, TextTarget::Cuda, &TextOptions::default())?;
                text += begin.elapsed();
                n_bytes += written.len() as u64;
            }
        }
    }
    let count = f64::from(n_kernels * ROUNDS);
    let [parse, front, text] = [parse, front, text].map(|time| time.as_secs_f64() * 1e6 / count);
    let bytes = n_bytes as f64 / count;
    let rate = 1e6 / (parse + front + text);
    println!(
        "{n_kernels} kernels: parse {parse:.1} µs, front end {front:.1} µs, text {text:.1} µs of {bytes:.0} bytes; \
         {rate:.0} kernels a second"
    );
    Ok(())
}
