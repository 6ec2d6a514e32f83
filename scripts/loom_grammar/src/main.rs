//! Writes the C parser of the tree-sitter grammar in a folder, as `tree-sitter generate` does, whose releases are on GitHub alone.

use std::path::Path;

/// The version of the parser's tables that editors of 2023 and later read.
const ABI: usize = 14;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the grammar is the first argument");
    let written =
        tree_sitter_generate::generate_parser_in_directory(Path::new(&folder), None, None, ABI, None, Some("node"));
    if let Err(error) = written {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
