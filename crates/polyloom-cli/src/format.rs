//! `polyloom fmt`: lays `.loom` files out in one way.

use crate::{CommandFailure, Outcome, print};
use polyloom::SourceFile;
use polyloom::frontend::format_loom;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct FormatArguments {
    /// .loom files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing, name the files that would change, and fail if there are any
    #[arg(long)]
    check: bool,
    /// Print the text and change nothing
    #[arg(long, conflicts_with = "check")]
    stdout: bool,
}

pub(crate) fn run(arguments: &FormatArguments) -> Outcome {
    let mut untidy = Vec::new();
    for path in &arguments.files {
        let failed = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let file = SourceFile::new(path.to_string_lossy().as_ref(), text, 1);
        let tidy = format_loom(&file)?;
        if arguments.stdout {
            print(tidy.as_bytes())?;
        } else if *tidy != *file.text {
            if !arguments.check {
                std::fs::write(path, &tidy).map_err(failed)?;
            }
            untidy.push(path.display().to_string());
        }
    }
    if arguments.check && !untidy.is_empty() {
        return Err(CommandFailure::Failed(format!("not formatted: {}", untidy.join(", "))));
    }
    Ok(())
}
