//! Captures the function `f` of each text of a JSON list on standard input, and writes the list of the reports.
//!
//! `scripts/capture_oracle.py` compares them with what running the functions shows. Ops of its programs whose names
//! begin with `view` may return views; all others are pure.

use polyloom_frontend::SourceUnit;
use polyloom_frontend::capture::{CaptureReport, FileCaptureEnvironment, OpCatalogue, TensorOpFacts, capture};
use polyloom_ir::SourceFile;

struct OracleOps;

impl OpCatalogue for OracleOps {
    fn op(&self, path: &str) -> Option<TensorOpFacts> {
        let name = path.strip_prefix("polyloom.ops.")?;
        Some(if name.starts_with("view") { TensorOpFacts::VIEW } else { TensorOpFacts::PURE })
    }
}

fn report(text: &str) -> Option<CaptureReport> {
    let unit = SourceUnit::parse(SourceFile::new("oracle.py", text, 1)).ok()?;
    let function = unit.find("f")?;
    let captured = capture(&unit, function, FileCaptureEnvironment::new(&unit, function), &OracleOps)?;
    Some(captured.report())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let texts: Vec<String> = serde_json::from_reader(std::io::stdin().lock())?;
    let reports: Vec<Option<CaptureReport>> = texts.iter().map(|text| report(text)).collect();
    serde_json::to_writer(std::io::stdout().lock(), &reports)?;
    Ok(())
}
