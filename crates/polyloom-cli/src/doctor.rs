//! `polyloom doctor`: what this build and this machine have. It fails if kernels cannot run.

use crate::{CommandFailure, Outcome, print, print_json};
use polyloom::{DeviceFailure, NvrtcCompiler, Session, Tier, cuda_devices, find_assembler, num_threads};
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
    let machine = format!("{}-{}, {} threads a launch", std::env::consts::ARCH, std::env::consts::OS, num_threads());
    let mut found = vec![
        needed("version", true, format!("polyloom {}", env!("CARGO_PKG_VERSION"))),
        needed("machine", true, machine),
    ];
    match Session::new() {
        Ok(session) => {
            let describe = |tier| session.device().backend(tier).map(|b| b.description());
            let quick = describe(Tier::Quick);
            found.push(needed("cranelift", quick.is_some(), quick.unwrap_or_default()));
            let optimizer = describe(Tier::Optimized);
            let absent = "not in this build: cargo feature `llvm`, or the Python package".to_owned();
            found.push(optional("llvm", optimizer.is_some(), optimizer.unwrap_or(absent)));
            let folder = session.device().cache().directory();
            let detail = folder.map_or_else(|| "in memory only".to_owned(), |folder| folder.display().to_string());
            found.push(optional("code cache", folder.is_some(), detail));
        }
        Err(error) => found.push(needed("back ends", false, error.to_string())),
    }
    found.push(match find_assembler() {
        Ok(path) => optional("assembler", true, path.display().to_string()),
        Err(_) => optional("assembler", false, "none, for cubins: pip install nvidia-cuda-nvcc brings one".to_owned()),
    });
    found.push(match NvrtcCompiler::find().and_then(|nvrtc| nvrtc.version()) {
        Ok(version) => optional("nvrtc", true, version),
        Err(_) => optional("nvrtc", false, "none, for data sets: pip install nvidia-cuda-nvrtc brings it".to_owned()),
    });
    match cuda_devices() {
        Ok(devices) if devices.is_empty() => found.push(optional("gpu", false, "the driver sees none".to_owned())),
        Ok(devices) => found.extend(devices.iter().map(|gpu| {
            let (major, minor) = gpu.capability;
            let gib = gpu.memory_bytes as f64 / f64::from(1 << 30);
            let detail = format!("cuda:{}, {}, compute capability {major}.{minor}, {gib:.0} GiB", gpu.number, gpu.name);
            optional("gpu", true, detail)
        })),
        Err(DeviceFailure::Absent { reason, .. }) => found.push(optional("gpu", false, reason)),
        Err(failure) => found.push(optional("gpu", false, failure.to_string())),
    }
    found
}
