//! The guide lists what of NumPy is captured, as the table has it.

use polyloom_frontend::capture::numpy_forms_text;

#[test]
fn the_guide_lists_the_forms_of_numpy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/fusion.md");
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let text = numpy_forms_text();
    assert!(guide.contains(&text), "docs/guide/fusion.md lists other forms of NumPy than the table:\n{text}");
}
