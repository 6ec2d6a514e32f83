//! Every file under `tests/filetests`.

use std::io::Write;

#[test]
fn files_give_what_stands_beside_them() {
    let filter = std::env::var("POLYLOOM_FILETESTS").unwrap_or_default();
    let bless = std::env::var_os("POLYLOOM_BLESS").is_some_and(|value| value != "0");
    let report = polyloom_filetests::run(&polyloom_filetests::root(), &filter, bless);
    // Straight to standard error: the test runner keeps what `eprintln!` writes to itself.
    let _ = writeln!(std::io::stderr(), "{}", report.summary());
    assert!(report.failures.is_empty(), "{}\n{}", report.failures.join("\n"), report.summary());
}
