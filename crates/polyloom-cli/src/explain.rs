//! `polyloom explain`: what was chosen for code of this machine, and why.

use crate::kernel_file::KernelFile;
use crate::{CommandFailure, Outcome, named, session};
use polyloom::{EmitOptions, Form};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct ExplainArguments {
    /// A .py file, a .loom file, or a .hir file
    file: PathBuf,
    /// The kernel; all of the file unless given
    #[arg(long)]
    kernel: Option<String>,
    /// The type of a parameter of a generic kernel
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<String>,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Outcome {
    let session = session(false)?;
    let file = KernelFile::read(&arguments.file)?;
    let given = named(&arguments.types, "--type")?;
    let names: Vec<String> = match &arguments.kernel {
        Some(name) => vec![name.clone()],
        None => file.kernel_names().iter().map(ToString::to_string).collect(),
    };
    if names.is_empty() {
        return Err(CommandFailure::Failed(format!("{}: no kernels: {}", arguments.file.display(), file.advice())));
    }
    for name in names {
        let kernel = file.compile(&session, Some(&name), &given, &BTreeMap::new())?;
        let text = kernel.emit_text(Form::Strategy, &EmitOptions::default());
        print!("{}", text.map_err(|error| CommandFailure::Failed(error.to_string()))?);
        if let Some(product) = file.explain_product(&name, session.defaults().float_mode) {
            println!("product of matrices: {product}");
        }
    }
    Ok(())
}
