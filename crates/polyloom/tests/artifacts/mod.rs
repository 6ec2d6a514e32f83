//! Libraries made ahead of time, used by programs of C.

mod fused;

use polyloom::artifact::{Artifact, ArtifactError, ArtifactOptions, Manifest, ManifestError, NativeCpu};
use polyloom::frontend::FileEnvironment;
use polyloom::{EmitError, Session, SourceFile, SourceUnit};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const SOURCE: &str = "
import polyloom as loom

@loom.kernel(check=True)
def mix(a: float, x: loom.array(dtype=float), at: loom.array(dtype=int), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[at[i]] + loom.exp(x[i])

@loom.kernel
def far(p: loom.vec3, points: loom.array(dtype=loom.vec3), out: loom.array(dtype=loom.float64)):
    i = loom.tid()
    out[i] = loom.float64(loom.length(points[i] - p))

@loom.kernel(block_dim=8)
def mirrored(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=8, dtype=float)
    i, t = loom.tid(), loom.thread_idx(0)
    tile[t] = x[i]
    loom.sync_threads()
    x[i] = tile[7 - t]

@loom.func
def fee(price: loom.float64, quantity: loom.int16, is_maker: bool) -> loom.float64:
    rate = loom.where(is_maker, loom.float64(0.0001), loom.float64(0.0004))
    return price * loom.float64(quantity) * rate

@loom.func
def clamped(a: loom.int8, b: loom.int8) -> loom.int8:
    return loom.min(a, b)
";

/// Prints the bits of all that the library computes.
const PROGRAM: &str = r#"
#include "sample.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    float x[50], y[50];
    int32_t at[50];
    for (int i = 0; i < 50; i++) { x[i] = 0.1f * (float)i - 2.0f; y[i] = 0.0f; at[i] = (i * 7) % 50; }
    struct polyloom_array1 xs = {x, {50}, {4}}, ys = {y, {50}, {4}}, ats = {at, {50}, {4}};
    if (mix(50, 0.75f, &xs, &ats, &ys) != 0) return 1;
    for (int i = 0; i < 50; i++) { uint32_t bits; memcpy(&bits, &y[i], 4); printf("%08" PRIx32 "\n", bits); }
    at[20] = -51;
    printf("%s\n", mix_site(mix(50, 0.75f, &xs, &ats, &ys)));
    printf("[%s]\n", mix_site(0));
    const float p[3] = {1.0f, 2.0f, 3.0f};
    float points[6] = {1.0f, 2.0f, 8.0f, 4.0f, 6.0f, 15.0f};
    double out[4] = {0.0, -1.0, 0.0, -1.0};
    struct polyloom_array2 ps = {points, {2, 3}, {12, 4}};
    struct polyloom_array1 outs = {out, {2}, {16}};
    if (far(2, p, &ps, &outs) != 0) return 2;
    printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
    printf("%.17g %.17g\n", fee(101.5, -200, true), fee(101.5, 300, false));
    printf("%d\n", clamped(-3, 100));
    float row[16];
    for (int i = 0; i < 16; i++) row[i] = (float)i;
    struct polyloom_array1 rows = {row, {16}, {4}};
    char workspace[mirrored_workspace_size];
    if (mirrored(16, &rows, workspace) != 0) return 3;
    printf("%g %g %g\n", row[0], row[7], row[8]);
    printf("abi %" PRId32 " cpu %s\n", sample_abi(), sample_cpu());
    return 0;
}
"#;

/// What [`PROGRAM`] prints but for the first 50 lines and the last.
const EXPECT: &str = "an index is out of bounds for axis 0 of `x` in `mix` (sample.py:7:16)
[]
5 -1 13 -1
-2.0300000000000002 12.18
-3
7 0 15
";

fn artifact(session: &Session, options: ArtifactOptions) -> Result<Artifact, ArtifactError> {
    let unit: Arc<SourceUnit> = SourceUnit::parse(SourceFile::new("sample.py", SOURCE, 1)).unwrap();
    let mut artifact = Artifact::new(options)?;
    for name in ["mix", "far", "mirrored"] {
        artifact.add_kernel(&session.compile_file_kernel(&unit, name).unwrap())?;
    }
    for name in ["fee", "clamped"] {
        let index = unit.functions().iter().position(|function| &*function.name == name).unwrap();
        artifact.add_function(session, &FileEnvironment::new(&unit).function(index), session.defaults())?;
    }
    Ok(artifact)
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Compiles [`PROGRAM`] with a library and runs it, under a program that does if there is one.
fn run_program(compiler: &str, folder: &Path, libraries: &[&str], runner: &[&str]) -> String {
    std::fs::write(folder.join("main.c"), PROGRAM).unwrap();
    let program = folder.join("main");
    let made = Command::new(compiler)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I."])
        .args(["main.c", "-o", "main", "-L."])
        .args(libraries)
        .args(["-lm", "-Wl,-rpath,$ORIGIN"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (command, before) = match runner {
        [] => (program.to_str().unwrap(), &[][..]),
        [runner, before @ ..] => (*runner, before),
    };
    let mut command = Command::new(command);
    command.args(before);
    if !runner.is_empty() {
        command.arg(&program);
    }
    let ran = command.current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{:?}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// The 50 floats that a program printed, and the rest of its lines but the last.
fn split_output(text: &str) -> (Vec<f32>, String, &str) {
    let lines: Vec<&str> = text.lines().collect();
    let floats = lines[..50].iter().map(|bits| f32::from_bits(u32::from_str_radix(bits, 16).unwrap())).collect();
    let rest = lines[50..lines.len() - 1].iter().map(|line| format!("{line}\n")).collect();
    (floats, rest, lines[lines.len() - 1])
}

fn check_floats(floats: &[f32]) {
    let x = |i: usize| 0.1 * i as f32 - 2.0;
    for (i, &y) in floats.iter().enumerate() {
        let expect = 0.75 * f64::from(x(i * 7 % 50)) + f64::from(x(i)).exp();
        assert!((f64::from(y) - expect).abs() < 2e-6, "element {i}: {y} and {expect}");
    }
}

fn has_program(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The best kind of processor that Linux says this machine has.
fn best_cpu() -> &'static str {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags: Vec<&str> =
        info.lines().find(|line| line.starts_with("flags")).unwrap_or("").split_whitespace().collect();
    let has = |wanted: &[&str]| wanted.iter().all(|flag| flags.contains(flag));
    match () {
        () if !has(&["avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"]) => "baseline",
        () if !has(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]) => "avx2",
        () => "avx512",
    }
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_c_program_links_the_library_either_way() {
    if !has_program("cc") {
        println!("skipped: no C compiler");
        return;
    }
    let (session, folder) = (Session::new().unwrap(), folder());
    let manifest = artifact(&session, ArtifactOptions::new("sample")).unwrap().write(folder.path()).unwrap();
    let fixed = run_program("cc", folder.path(), &["libsample.a"], &[]);
    let shared = run_program("cc", folder.path(), &["-lsample"], &[]);
    assert_eq!(fixed, shared);
    let (floats, rest, last) = split_output(&fixed);
    check_floats(&floats);
    assert_eq!(rest, EXPECT);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(last, format!("abi 1 cpu {}", best_cpu()));
    }
    for file in &manifest.files {
        assert!(folder.path().join(&file.path).is_file(), "{}", file.path);
    }
    let read = Manifest::from_json(&std::fs::read_to_string(folder.path().join("sample.json")).unwrap()).unwrap();
    assert_eq!(read, manifest);
    let names: Vec<&str> = read.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["mix", "far", "mirrored", "fee", "clamped"]);
    assert_eq!(read.entries[1].parameters[2].shape, [None, Some(3)]);
    let workspace = &read.entries[2].parameters[2];
    assert_eq!((workspace.name.as_str(), workspace.kind.as_str()), ("workspace", "workspace"));
    assert!(workspace.shape[0].is_some_and(|bytes| bytes >= 32));
    // `at[i]`, `x[at[i]]`, `x[i]` and `y[i]`.
    assert_eq!(read.entries[0].checks.len(), 4);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn every_kind_of_processor_gives_the_same_bits() {
    if !has_program("cc") || !cfg!(target_arch = "x86_64") {
        println!("skipped: no C compiler, or no x86-64");
        return;
    }
    let session = Session::new().unwrap();
    let kinds = [NativeCpu::Baseline, NativeCpu::Avx2, NativeCpu::Avx512, NativeCpu::Native];
    let there = match best_cpu() {
        "avx512" => &kinds[..],
        "avx2" => &[NativeCpu::Baseline, NativeCpu::Avx2, NativeCpu::Native],
        _ => &[NativeCpu::Baseline, NativeCpu::Native],
    };
    let outputs: Vec<String> = there
        .iter()
        .map(|&cpu| {
            let folder = folder();
            let options =
                ArtifactOptions { cpus: vec![cpu], has_shared_library: false, ..ArtifactOptions::new("sample") };
            artifact(&session, options).unwrap().write(folder.path()).unwrap();
            let output = run_program("cc", folder.path(), &["libsample.a"], &[]);
            let (output, last) = output.trim_end().rsplit_once('\n').unwrap();
            assert_eq!(last, format!("abi 1 cpu {}", cpu.name()));
            output.to_owned()
        })
        .collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn code_for_aarch64_runs_under_qemu() {
    let (compiler, runner) = ("aarch64-linux-gnu-gcc", "qemu-aarch64");
    if !has_program(compiler) || !has_program(runner) {
        println!("skipped: needs {compiler} and {runner} (Debian: gcc-aarch64-linux-gnu and qemu-user)");
        return;
    }
    let (session, folder) = (Session::new().unwrap(), folder());
    let options =
        ArtifactOptions { triple: Some("aarch64-unknown-linux-gnu".to_owned()), ..ArtifactOptions::new("sample") };
    let manifest = artifact(&session, options).unwrap().write(folder.path()).unwrap();
    assert_eq!(manifest.target.cpus, ["neon"]);
    let output = run_program(compiler, folder.path(), &["libsample.a", "-static"], &[runner]);
    let (floats, rest, last) = split_output(&output);
    check_floats(&floats);
    assert_eq!((rest.as_str(), last), (EXPECT, "abi 1 cpu neon"));
    if !has_program("cc") || !cfg!(target_arch = "x86_64") {
        return;
    }
    let here = self::folder();
    let options = ArtifactOptions { has_shared_library: false, ..ArtifactOptions::new("sample") };
    artifact(&session, options).unwrap().write(here.path()).unwrap();
    let (of_host, ..) = split_output(&run_program("cc", here.path(), &["libsample.a"], &[]));
    let bits = |floats: &[f32]| floats.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&floats), bits(&of_host));
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn dispatch_takes_what_the_processor_has() {
    let runner = "qemu-x86_64";
    if !has_program("cc") || !has_program(runner) || !cfg!(target_arch = "x86_64") {
        println!("skipped: needs a C compiler and {runner} (Debian: qemu-user)");
        return;
    }
    let (session, folder) = (Session::new().unwrap(), folder());
    let options = ArtifactOptions { has_shared_library: false, ..ArtifactOptions::new("sample") };
    artifact(&session, options).unwrap().write(folder.path()).unwrap();
    let outputs: Vec<String> = [("Nehalem", "baseline"), ("IvyBridge", "baseline"), ("Haswell", "avx2")]
        .into_iter()
        .map(|(cpu, expect)| {
            let output = run_program("cc", folder.path(), &["libsample.a"], &[runner, "-cpu", cpu]);
            let (output, last) = output.trim_end().rsplit_once('\n').unwrap();
            assert_eq!(last, format!("abi 1 cpu {expect}"), "{cpu}");
            output.to_owned()
        })
        .collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn equal_artifacts_are_equal_files() {
    let session = Session::new().unwrap();
    let made = [(); 2].map(|()| {
        let folder = folder();
        let options = ArtifactOptions { has_shared_library: false, ..ArtifactOptions::new("sample") };
        artifact(&session, options).unwrap().write(folder.path()).unwrap();
        std::fs::read(folder.path().join("libsample.a")).unwrap()
    });
    assert!(made[0] == made[1]);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn names_that_meet_are_refused() {
    let session = Session::new().unwrap();
    let error = |options| match artifact(&session, options) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert!(error(ArtifactOptions::new("two words")).contains("no name for a library"));
    let mut twice = artifact(&session, ArtifactOptions::new("sample")).unwrap();
    let unit = SourceUnit::parse(SourceFile::new("sample.py", SOURCE, 1)).unwrap();
    let again = twice.add_kernel(&session.compile_file_kernel(&unit, "mix").unwrap()).unwrap_err();
    assert!(again.to_string().starts_with("two functions are called `mix` in C"), "{again}");
    let unknown = ArtifactOptions { triple: Some("riscv64-unknown-linux-gnu".to_owned()), ..ArtifactOptions::new("s") };
    assert!(
        error(ArtifactOptions { cpus: vec![NativeCpu::Avx2, NativeCpu::Neon], ..unknown }).contains("name one kind")
    );
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn a_promise_that_code_for_a_processor_breaks_is_an_error_at_its_line() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: needs x86-64");
        return;
    }
    let text = "import polyloom as loom

@loom.kernel(critical_path=True)
def fused(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    b = 2.0 * x[i]
    y[i] = loom.fma(a, b, x[i])
";
    let session = Session::new().unwrap();
    let unit = SourceUnit::parse(SourceFile::new("promised.py", text, 1)).unwrap();
    let built = |cpu: NativeCpu| {
        let options = ArtifactOptions { cpus: vec![cpu], has_shared_library: false, ..ArtifactOptions::new("sample") };
        let mut artifact = Artifact::new(options)?;
        artifact.add_kernel(&session.compile_file_kernel(&unit, "fused").unwrap())?;
        artifact.write(folder().path())
    };
    let manifest = built(NativeCpu::Avx2).expect("fused multiply-add is an instruction there");
    assert_eq!(manifest.entries[0].promises, ["critical_path"]);
    let error = match built(NativeCpu::Baseline) {
        Err(ArtifactError::Emit(EmitError::Rejected(error))) => error.render(false),
        other => panic!("{other:?}"),
    };
    let expect = "error[PL0005]: the machine code calls `fmaf` in a kernel under `critical_path`
 --> promised.py:7:12
  |
7 |     y[i] = loom.fma(a, b, x[i])
  |            ^^^^^^^^^^^^^^^^^^^^
  |
  = help: this processor has no instruction for it: compute it in another way, or leave the promise out
";
    assert_eq!(error, expect);
}

#[test]
#[cfg_attr(not(feature = "_llvm"), ignore = "native functions are made by LLVM")]
fn the_manifest_says_what_is_promised() {
    let text = "import polyloom as loom

@loom.kernel(no_syscalls=True, target_latency_ns=200, cpu_affinity=[2, 3])
def placed(x: loom.array(dtype=float)):
    x[0] = 1.0

@loom.kernel
def plain(x: loom.array(dtype=float)):
    x[0] = 1.0
";
    let session = Session::new().unwrap();
    let unit = SourceUnit::parse(SourceFile::new("promised.py", text, 1)).unwrap();
    let options = ArtifactOptions { has_shared_library: false, ..ArtifactOptions::new("sample") };
    let mut artifact = Artifact::new(options).unwrap();
    for name in ["placed", "plain"] {
        artifact.add_kernel(&session.compile_file_kernel(&unit, name).unwrap()).unwrap();
    }
    let folder = folder();
    let manifest = artifact.write(folder.path()).unwrap();
    let [placed, plain] = &manifest.entries[..] else { panic!("{manifest:?}") };
    assert_eq!(placed.promises, ["no_syscalls", "cpu_affinity = (2, 3)", "target_latency_ns = 200"]);
    assert!(placed.constraints.contains(&"the calling thread is confined to the cores 2, 3".to_owned()));
    assert!(plain.promises.is_empty());
    let json = std::fs::read_to_string(folder.path().join("sample.json")).unwrap();
    assert_eq!(Manifest::from_json(&json).unwrap(), manifest);
    // A manifest of before has no promises.
    assert_eq!(json.matches("promises").count(), 1);
}

#[test]
#[cfg(feature = "_compute")]
fn code_for_gpus_lies_beside_the_library() {
    let session = Session::new().unwrap();
    let archs = ["sm_80", "sm_90"].map(|name| name.parse().unwrap()).to_vec();
    let options = ArtifactOptions { archs, has_shared_library: false, ..ArtifactOptions::new("sample") };
    let folder = folder();
    let manifest = artifact(&session, options).unwrap().write(folder.path()).unwrap();
    let of_kind = |kind: &str| -> Vec<&str> {
        manifest.files.iter().filter(|file| file.kind == kind).map(|file| file.path.as_str()).collect()
    };
    // Functions of values are no kernels of a GPU.
    assert_eq!(of_kind("fatbin"), ["mix.fatbin", "far.fatbin", "mirrored.fatbin"]);
    assert_eq!(of_kind("ptx").len(), 6);
    let image = std::fs::read(folder.path().join("mix.fatbin")).unwrap();
    // The magic number of `fatbinary_section.h`, and the text of both.
    assert_eq!(image[..4], 0xba55_ed50u32.to_le_bytes());
    let text = String::from_utf8_lossy(&image);
    assert!(text.contains(".target sm_80") && text.contains(".target sm_90"));
}

#[test]
fn manifests_of_schema_1_are_read() {
    let text = include_str!("manifest_v1.json");
    let manifest = Manifest::from_json(text).unwrap();
    assert_eq!((manifest.schema, manifest.abi, manifest.entries.len()), (1, 1, 1));
    assert_eq!(manifest.files[1].arch.as_deref(), Some("sm_80"));
    let entry = &manifest.entries[0];
    assert_eq!(entry.parameters[2].shape, [None]);
    assert!(entry.parameters[2].written && !entry.parameters[1].written && entry.checks.is_empty());
    // Fields of later versions of Polyloom are passed over.
    let later = text.replace("\"abi\": 1,", "\"abi\": 1, \"signed_by\": \"somebody\",");
    assert_eq!(Manifest::from_json(&later).unwrap(), manifest);
    let error = Manifest::from_json(&text.replace("\"schema\": 1", "\"schema\": 99")).unwrap_err();
    assert!(matches!(error, ManifestError::Schema { schema: 99 }));
    assert!(matches!(Manifest::from_json("{}"), Err(ManifestError::Text(_))));
}
