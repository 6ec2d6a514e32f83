//! The Python package's type stubs are what the op table and the compiler's types give.

#[path = "../examples/generate/functions.rs"]
pub(crate) mod functions;
#[path = "../examples/generate/stubs.rs"]
mod generated;

#[test]
fn stubs_are_up_to_date() {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/polyloom");
    for (name, text) in generated::all() {
        let kept = std::fs::read_to_string(format!("{package}/{name}")).unwrap_or_default();
        let differing = kept.lines().zip(text.lines()).position(|(kept, text)| kept != text);
        let line = 1 + differing.unwrap_or_else(|| kept.lines().count().min(text.lines().count()));
        assert!(kept == text, "python/polyloom/{name} differs in line {line}: run `make stubs`");
    }
}
