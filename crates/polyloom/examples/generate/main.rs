//! Generates what follows from the op table: the builtin reference and the Python type stubs.
//!
//! ```text
//! generate reference DIR     one Markdown page per group of builtins, and an index
//! generate stubs DIR         type stubs of every builtin and every named composite type
//! generate errors FILE       the list of error codes, with links to their pages
//! ```

mod functions;
mod stubs;

use functions::{FUNCTIONS, Origin};
use polyloom_ir::Code;
use polyloom_ir::op::{ExampleLine, OpGroup, OpInfo, OpSpelling};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use stubs::{builtins, paragraph};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["reference", folder] => write_reference(Path::new(folder)),
        ["stubs", folder] => {
            stubs::all().into_iter().try_for_each(|(name, text)| std::fs::write(Path::new(folder).join(name), text))
        }
        ["errors", file] => std::fs::write(file, error_index()),
        _ => {
            eprintln!("usage: generate reference DIR | generate stubs DIR | generate errors FILE");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn error_index() -> String {
    let mut text = String::from(
        "# Errors\n\nEvery diagnostic has a stable code. Its page shows a program that gets it and one that does not.\n\n",
    );
    for code in Code::ALL {
        let _ = writeln!(text, "- [{code}: {}]({code}.md)", code.title());
    }
    text
}

fn write_reference(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut groups: BTreeMap<OpGroup, Vec<&OpInfo>> = BTreeMap::new();
    for info in builtins() {
        groups.entry(info.group).or_default().push(info);
    }
    let mut index = String::from(
        "# Builtins\n\nEvery builtin of the kernel language. In a signature `T` is a type variable with its class in \
         brackets: `int`, `float`, `number` (both), `bits` (integers and `bool`), `scalar` (numbers and `bool`). [What \
         every kernel uses](../guide/basics.md) explains the rest of the notation.\n\nThe lines of an example are a kernel's; below one stands what `print` shows of it there. \
         An array such as `a = [3, 1, 4]` is one that the kernel is given.\n\n",
    );
    let names: Vec<String> =
        FUNCTIONS.iter().map(|function| format!("[`{0}`](language.md#{0})", function.name)).collect();
    let _ = writeln!(index, "**[Language](language.md)**: {}\n", names.join(", "));
    std::fs::write(folder.join("language.md"), language())?;
    for (group, ops) in groups {
        let slug = group.title().to_lowercase().replace(' ', "-");
        let names: Vec<String> = ops.iter().map(|info| format!("[`{0}`]({slug}.md#{0})", info.name)).collect();
        let _ = writeln!(index, "**[{}]({slug}.md)**: {}\n", group.title(), names.join(", "));
        let mut page = format!("# {}\n", group.title());
        for info in ops {
            let _ = write!(page, "\n## `{}` {{ #{} }}\n\n", info.name, info.name);
            for signature in &info.signatures {
                let _ = writeln!(page, "    {}{signature}", info.name);
            }
            let _ = writeln!(page, "\n{}", paragraph(info.doc));
            if let Some(derivative) = info.derivative_doc() {
                let _ = writeln!(page, "\n{derivative}");
            }
            if let OpSpelling::Operator(operator) = info.spelling {
                let _ = writeln!(page, "\nAlso the operator `{operator}`.");
            }
            if !info.aliases.is_empty() {
                let _ = writeln!(page, "\nAlso `{}`.", info.aliases.join("`, `"));
            }
            let _ = writeln!(page, "\n```pycon\n{}```", ExampleLine::session(&info.example));
        }
        std::fs::write(folder.join(format!("{slug}.md")), page)?;
    }
    std::fs::write(folder.join("index.md"), index)
}

/// The page of what is no op.
fn language() -> String {
    let mut page = String::from("# Language\n");
    for function in FUNCTIONS {
        let _ = write!(
            page,
            "\n## `{0}` {{ #{0} }}\n\n    {0}{1}\n\n{2}\n",
            function.name, function.signature, function.doc
        );
        if function.origin == Origin::Python {
            page.push_str("\nWritten without the package's name.\n");
        }
        let _ = writeln!(page, "\n```pycon\n{}```", ExampleLine::session(function.example));
    }
    page
}
