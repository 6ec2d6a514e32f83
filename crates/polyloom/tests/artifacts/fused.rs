//! Functions of tensors in libraries, against the evaluator that defines them.

use super::{folder, has_program};
use polyloom::artifact::{
    Artifact, ArtifactError, ArtifactKind, ArtifactOptions, FusedExtent, FusedFunction, FusedVariant, NativeCpu,
};
use polyloom::graph::parse_graph;
use polyloom::graph::reference::{DenseTensor, evaluate};
use polyloom::{FloatMode, Scalar, Session};
use std::process::Command;

/// A product, rows that are normalised, a total and a result that is another's transpose, for N rows.
fn program(n: u64) -> String {
    format!(
        "%x = input \"x\" : f32[{n}, 12]\n%w = input \"w\" : f32[12, 5]\n%g = input \"gain\" : f32[]\n\
         %a = matmul %x, %w\n%b = softmax %a\n%c = multiply %b, %g\n%t = sum %c\n%d = transpose %c\n%e = exp %d\n\
         return %c, %t, %e, %d"
    )
}

fn function(rows: impl Iterator<Item = u64>) -> FusedFunction {
    let variants =
        rows.map(|n| FusedVariant { extent: Some(n), graph: parse_graph(&program(n)).unwrap(), recipe: None });
    FusedFunction {
        name: "rows".to_owned(),
        kind: ArtifactKind::Fused,
        source_signature: "rows(x, w, gain)".to_owned(),
        inputs: ["x", "w", "gain"].map(str::to_owned).to_vec(),
        outputs: ["scaled", "total", "turned", "plain"].map(str::to_owned).to_vec(),
        chosen: Some(FusedExtent { name: "N".to_owned(), input: 0, axis: 0 }),
        float_mode: FloatMode::Strict,
        variants: variants.collect(),
    }
}

const MAX_ROWS: u64 = 9;

/// Runs the function for each number of rows and prints bits; then calls it with arguments that it refuses.
const PROGRAM: &str = r#"
#include "tensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static float x[108], w[60], scaled[54], turned[54], plain[54], total;
static char workspace[rows_workspace_size + 1];

static void print(const float *data, int n) {
    for (int i = 0; i < n; i++) { uint32_t bits; memcpy(&bits, &data[i], 4); printf("%08" PRIx32 "\n", bits); }
}

static int32_t run(int64_t n, float *first, int64_t stride) {
    struct polyloom_array2 xs = {x, {n, 12}, {stride, 4}}, ws = {w, {12, 5}, {20, 4}};
    struct polyloom_array2 scaleds = {first, {n, 5}, {20, 4}}, turneds = {turned, {5, n}, {4 * n, 4}};
    struct polyloom_array2 plains = {plain, {5, n}, {4 * n, 4}};
    return rows(&xs, &ws, 0.75f, &scaleds, &turneds, &plains, &total, workspace + 1);
}

int main(void) {
    for (int i = 0; i < 108; i++) x[i] = 0.0625f * (float)(i * 7 % 23) - 0.5f;
    for (int i = 0; i < 60; i++) w[i] = 0.125f * (float)(i * 5 % 17) - 1.0f;
    for (int64_t n = 1; n <= 9; n++) {
        memset(workspace, 0xff, sizeof workspace);
        if (run(n, scaled, 48) != 0) return 1;
        print(scaled, (int)(5 * n));
        print(&total, 1);
        print(turned, (int)(5 * n));
        print(plain, (int)(5 * n));
    }
    printf("%s\n", rows_site(run(10, scaled, 48)));
    printf("%s\n", rows_site(run(0, scaled, 48)));
    printf("%s\n", rows_site(run(4, scaled, 96)));
    printf("%s\n", rows_site(run(4, turned + 19, 48)));
    printf("%" PRId32 "\n", run(1, scaled, 96));
    return 0;
}
"#;

const REFUSED: &str = "the extent N of `rows` is from 1 to 9
the extent N of `rows` is from 1 to 9
`x` of `rows` has the shape (N, 12) and no gaps between its elements
`scaled` of `rows` is written, and shares no memory with another argument
0
";

fn expected() -> String {
    let tensor = |extents: &[u64], values: Vec<f64>| DenseTensor::of_numbers(Scalar::F32, extents, &values).unwrap();
    let mut text = String::new();
    for n in 1..=MAX_ROWS {
        let x = (0..12 * n).map(|i| 0.0625 * (i * 7 % 23) as f64 - 0.5).collect();
        let w = (0..60).map(|i| 0.125 * f64::from(i * 5 % 17) - 1.0).collect();
        let graph = parse_graph(&program(n)).unwrap();
        let inputs = [tensor(&[n, 12], x), tensor(&[12, 5], w), tensor(&[], vec![0.75])];
        for result in evaluate(&graph, &inputs).unwrap() {
            result.bits.iter().for_each(|bits| text.push_str(&format!("{bits:08x}\n")));
        }
    }
    text + REFUSED
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_c_program_gets_the_bits_of_the_evaluator_for_each_extent() {
    if !has_program("cc") {
        println!("skipped: no C compiler");
        return;
    }
    let session = Session::new().unwrap();
    let cpus = match cfg!(target_arch = "x86_64") {
        true => vec![NativeCpu::Baseline, NativeCpu::Avx2],
        false => Vec::new(),
    };
    let folder = folder();
    let mut artifact = Artifact::new(ArtifactOptions { cpus, ..ArtifactOptions::new("tensors") }).unwrap();
    artifact.add_fused(&session, &function(1..=MAX_ROWS)).unwrap();
    let manifest = artifact.write(folder.path()).unwrap();
    let entry = &manifest.entries[0];
    assert_eq!((entry.kind.as_str(), entry.parameters[0].shape.as_slice()), ("fused", &[None, Some(12)][..]));
    let extent = entry.extent.as_ref().map(|extent| (extent.name.as_str(), extent.least, extent.greatest));
    assert_eq!(extent, Some(("N", 1, MAX_ROWS)));
    let kinds: Vec<&str> = entry.parameters.iter().map(|parameter| parameter.kind.as_str()).collect();
    assert_eq!(kinds, ["array", "array", "scalar", "array", "array", "array", "result", "workspace"]);
    std::fs::write(folder.path().join("main.c"), PROGRAM).unwrap();
    let made = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "main.c", "libtensors.a", "-lm", "-o", "main"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let ran = Command::new(folder.path().join("main")).output().unwrap();
    assert!(ran.status.success(), "{:?}", ran.status);
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected());
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn what_no_library_can_have_is_refused_by_name() {
    let session = Session::new().unwrap();
    let mut artifact = Artifact::new(ArtifactOptions::new("tensors")).unwrap();
    let mut refused = |text: &str, says: &str| {
        let mut wrong = function(1..=1);
        wrong.variants[0].graph = parse_graph(text).unwrap();
        (wrong.inputs, wrong.outputs, wrong.chosen) = (vec!["x".to_owned()], vec!["out".to_owned()], None);
        let error = artifact.add_fused(&session, &wrong).unwrap_err();
        assert!(matches!(error, ArtifactError::Fused { .. }), "{error}");
        let message = error.to_string();
        assert!(message.starts_with("`rows` cannot be in a library: ") && message.contains(says), "{message}");
    };
    refused("%x = input \"x\" : f32[4]\nreturn %x", "calls no op");
    refused("%x = input \"x\" : f32[1, 1, 1, 1, 1, 1, 2]\n%y = exp %x\nreturn %y", "has 7 axes");
    refused("%x = input \"x\" : f32[n]\n%y = exp %x\nreturn %y", "an extent is not known");
}
