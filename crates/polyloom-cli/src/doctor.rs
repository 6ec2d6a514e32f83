//! `polyloom doctor`: what this build and this machine have. It fails if kernels cannot run.

use crate::{CommandFailure, Outcome, print, print_json};
use polyloom::environment;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct DoctorArguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DoctorFinding {
    what: &'static str,
    ok: bool,
    detail: String,
    /// Whether nothing runs without it.
    #[serde(skip)]
    is_needed: bool,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Outcome {
    let findings = findings();
    if arguments.json {
        print_json(&findings)?;
    } else {
        let mut text = String::new();
        for DoctorFinding { what, ok, detail, .. } in &findings {
            let _ = writeln!(text, "{} {what:<12} {detail}", if *ok { "ok " } else { " - " });
        }
        print(text.as_bytes())?;
    }
    if findings.iter().any(|finding| finding.is_needed && !finding.ok) { Err(CommandFailure::Silent) } else { Ok(()) }
}

fn findings() -> Vec<DoctorFinding> {
    let needed = |what, ok, detail| DoctorFinding { what, ok, detail, is_needed: true };
    let optional = |what, ok, detail| DoctorFinding { what, ok, detail, is_needed: false };
    let found = environment();
    let processor = found.processor;
    let machine = format!("{}-{}, {} threads a launch", processor.architecture, found.system, found.n_threads);
    let name = if processor.name.is_empty() { "of unknown name" } else { &processor.name };
    let vectors = format!("{name}, vectors of {} bits", 8 * processor.vector_bytes);
    let mut findings = vec![
        needed("version", true, format!("polyloom {}", found.version)),
        needed("machine", true, machine),
        optional("processor", true, vectors),
    ];
    match found.problem {
        None => {
            let cranelift = found.cranelift;
            findings.push(needed("cranelift", cranelift.is_some(), cranelift.unwrap_or_default()));
            let absent = "not in this build: cargo feature `llvm`, or the Python package".to_owned();
            findings.push(optional("llvm", found.llvm.is_some(), found.llvm.unwrap_or(absent)));
            let folder = found.code_cache.map(|folder| folder.display().to_string());
            findings.push(optional("code cache", folder.is_some(), folder.unwrap_or("in memory only".to_owned())));
        }
        Some(problem) => findings.push(needed("back ends", false, problem)),
    }
    let (has_database, database) = crate::database::finding();
    findings.push(optional("database", has_database, database));
    let assembler = found.assembler.map(|path| path.display().to_string());
    let absent = "none, for cubins: pip install nvidia-cuda-nvcc brings one".to_owned();
    findings.push(optional("assembler", assembler.is_some(), assembler.unwrap_or(absent)));
    let absent = "none, for data sets: pip install nvidia-cuda-nvrtc brings it".to_owned();
    findings.push(optional("nvrtc", found.nvrtc.is_some(), found.nvrtc.unwrap_or(absent)));
    findings.extend(found.no_gpu.map(|reason| optional("gpu", false, reason)));
    findings.extend(found.gpus.iter().map(|gpu| {
        let (major, minor) = gpu.capability.unwrap_or_default();
        let gib = gpu.memory_bytes.unwrap_or_default() as f64 / f64::from(1 << 30);
        let detail = format!("{}, {}, compute capability {major}.{minor}, {gib:.0} GiB", gpu.id, gpu.name);
        optional("gpu", true, detail)
    }));
    findings
}
