//! Parts of a data set, made one by one, are together what one run makes.

use super::{assert_same, assert_success, folder, lines, produce, text, validate, write_sources};
use crate::polyloom;

#[test]
fn shards_make_together_what_one_run_makes() {
    let (_keep, whole) = folder();
    assert_success(&produce(&whole, &["--count", "150"]));
    let shards: Vec<_> = (0..3).map(|_| folder()).collect();
    for (number, (_, shard)) in shards.iter().enumerate() {
        assert_success(&produce(shard, &["--count", "150", "--shard", &format!("{number}/3")]));
    }
    let (_keep, merged) = folder();
    let paths: Vec<&str> = shards.iter().map(|(_, shard)| shard.as_str()).collect();
    assert_success(&polyloom(&[&["dataset", "merge", "--output", &merged, "--count", "150"][..], &paths].concat()));
    assert_same(&whole, &merged);
    let (_keep, torn) = folder();
    let missing = polyloom(&["dataset", "merge", "--output", &torn, paths[0], paths[2]]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("shard 1/3 is missing"), "{}", text(&missing.stderr));
    let missing = polyloom(&["dataset", "merge", "--output", &torn, paths[1], paths[0]]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("shard 2/3 is missing"), "{}", text(&missing.stderr));
}

#[test]
fn ranges_of_indices_make_together_what_one_run_makes() {
    let ranges = ["0..35", "35..50", "50..70"];
    let parts = ranges.map(|range| {
        let (keep, path) = folder();
        assert_success(&produce(&path, &["--index-range", range]));
        (keep, path)
    });
    let (_keep, merged) = folder();
    // In whatever order they are given.
    let paths: Vec<&str> = parts.iter().rev().map(|(_, path)| path.as_str()).collect();
    assert_success(&polyloom(&[&["dataset", "merge", "--output", &merged][..], &paths].concat()));
    let (_keep, whole) = folder();
    assert_success(&produce(&whole, &["--index-range", "0..70"]));
    assert_same(&merged, &whole);
    assert_success(&validate(&merged));
}

#[test]
fn ranges_of_kernels_of_files_are_put_together() {
    let (keep, whole) = folder();
    let source = write_sources(&keep);
    assert_success(&produce(&whole, &["--from", &source]));
    let n = lines(&whole, "data").len() + lines(&whole, "rejects").len();
    let ranges = [format!("0..{}", n / 2), format!("{}..{n}", n / 2)];
    let parts = ranges.map(|range| {
        let (keep, path) = folder();
        assert_success(&produce(&path, &["--from", &source, "--index-range", &range]));
        (keep, path)
    });
    let (_keep, merged) = folder();
    assert_success(&polyloom(&["dataset", "merge", "--output", &merged, &parts[1].1, &parts[0].1]));
    assert_same(&merged, &whole);
    assert_success(&validate(&merged));
}

#[test]
fn shards_without_what_rows_are_counted_by_are_not_put_together() {
    let (_keep, shard) = folder();
    let few =
        ["dataset", "produce", "--output", &shard, "--index-range", "0..5", "--verify", "parse", "--columns", "id"];
    assert_success(&polyloom(&few));
    let (_keep, merged) = folder();
    let output = polyloom(&["dataset", "merge", "--output", &merged, &shard]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("without the columns kernel_name, category, python_source, metadata"), "{message}");
}
