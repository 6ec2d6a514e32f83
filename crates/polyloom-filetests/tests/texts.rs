//! What file tests launch, as C++ text through the C++ compilers of the machine.

use polyloom_filetests::kind::run_texts;
use std::io::Write;

fn run(compiler: &str) {
    let folder = std::env::temp_dir().join(format!("polyloom-texts-{compiler}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let done = run_texts(&polyloom_filetests::root(), compiler, &folder);
    // Loaded libraries need their files no longer.
    let _ = std::fs::remove_dir_all(&folder);
    let _ = match done {
        None => writeln!(std::io::stderr(), "skipped: no {compiler}"),
        Some(Ok(n)) => writeln!(std::io::stderr(), "{n} launches of C++ text through {compiler}"),
        Some(Err(failures)) => panic!("{}", failures.join("\n")),
    };
}

#[test]
fn launches_of_file_tests_give_the_same_as_text_through_gcc() {
    run("g++");
}

#[test]
fn launches_of_file_tests_give_the_same_as_text_through_clang() {
    run("clang++");
}
