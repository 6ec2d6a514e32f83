//! `polyloom doctor`: what this build and this machine have.

use crate::{Outcome, print, print_json};
use polyloom::{Session, Tier, has_llvm, num_threads};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    detail: String,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let findings = findings();
    if arguments.json {
        return print_json(&findings);
    }
    let mut text = String::new();
    for Finding { what, ok, detail } in &findings {
        let _ = writeln!(text, "{} {what:<12} {detail}", if *ok { "ok " } else { " - " });
    }
    print(text.as_bytes());
    Ok(())
}

fn findings() -> Vec<Finding> {
    let mut found = vec![
        Finding { what: "version", ok: true, detail: format!("polyloom {}", env!("CARGO_PKG_VERSION")) },
        Finding {
            what: "machine",
            ok: true,
            detail: format!("{}-{}, {} threads a launch", std::env::consts::ARCH, std::env::consts::OS, num_threads()),
        },
    ];
    match Session::new() {
        Ok(session) => {
            let fingerprint = |tier| session.device().backend(tier).map(|b| b.fingerprint());
            let quick = fingerprint(Tier::Quick);
            found.push(Finding { what: "cranelift", ok: quick.is_some(), detail: quick.unwrap_or_default() });
            let optimizer = fingerprint(Tier::Optimized);
            let ok = optimizer.is_some();
            let absent = "not in this build: cargo feature `llvm`, or the Python package".to_owned();
            found.push(Finding { what: "llvm", ok, detail: optimizer.unwrap_or(absent) });
            let folder = session.device().cache().directory();
            let detail = folder.map_or_else(|| "in memory only".to_owned(), |folder| folder.display().to_string());
            found.push(Finding { what: "code cache", ok: folder.is_some(), detail });
        }
        Err(error) => found.push(Finding { what: "back ends", ok: false, detail: error.to_string() }),
    }
    let gpu = if has_llvm() { "not in this build" } else { "not in this build, which is the light one" };
    found.push(Finding { what: "gpu", ok: false, detail: gpu.to_owned() });
    found
}
