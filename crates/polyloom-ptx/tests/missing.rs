//! The table of the guide that says what is missing, and what the simulator says.

use polyloom_ptx::{Module, Simulator};

const GUIDE: &str = include_str!("../../../docs/guide/simulator.md");

/// The errors of a kernel with this line: an instruction, or a directive of the module or the kernel.
fn errors(line: &str) -> Vec<String> {
    let (mut address_size, mut directive, mut instruction) = (".address_size 64", "", "");
    match line {
        _ if line.starts_with(".address_size") => address_size = line,
        _ if line.starts_with('.') => directive = line,
        _ => instruction = line,
    }
    let text = format!(
        ".version 9.2\n.target sm_100a\n{address_size}\n.global .texref image;\n.global .surfref plane;\n\
         .extern .func (.param .b32 r) cudaLaunchDevice(.param .b64 a, .param .b32 b);\n\
         .func quad(.reg .b128 %q) {{ ret; }}\n.visible .entry k(.param .u64 out) {directive} {{\n\
         .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .b16 %h<4>; .reg .b128 %q<2>; .reg .pred %p<4>; .reg .f32 %f<8>;\n\
         .shared .align 16 .b8 tile[4096];\n{instruction}\nret;\n}}\n"
    );
    let module = match Module::parse(&text) {
        Ok(module) => module,
        Err(errors) => return errors.into_iter().map(|error| error.message).collect(),
    };
    let loaded = Simulator::default().load(&module).unwrap_or_else(|error| panic!("{line}: {error}"));
    loaded.kernel("k").err().unwrap_or_default().into_iter().map(|error| error.message).collect()
}

#[test]
fn the_guide_has_the_messages_of_what_is_missing() {
    let (_, table) = GUIDE.split_once("\n| missing | for example | message |\n|---|---|---|\n").expect("the table");
    let mut wrong = Vec::new();
    let mut n_rows = 0;
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        n_rows += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, example, message] = cells.as_slice() else { panic!("three columns: {row}") };
        let found = errors(example.trim_matches('`'));
        if found.first().map(String::as_str) != Some(message) {
            wrong.push(format!("{example}: the guide says {message:?}, the simulator {found:?}"));
        }
    }
    assert!(n_rows > 20 && wrong.is_empty(), "{n_rows} rows\n{}", wrong.join("\n"));
}
