//! The `polyloom` command as a user runs it.

mod database;
mod dataset;
mod native;
mod serve;

use std::process::{Command, Output};
use tempfile::TempDir;

const SOURCE: &str = "\
import warp as wp

SCALE = 2.0

@wp.func
def square(x: float):
    return x * x

@wp.kernel
def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    y[i] = SCALE * square(x[i]) + float(n)
";

const WRONG: &str = "\
import polyloom as loom

@loom.kernel
def wrong(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    x[i] = loom.sine(x[i])
    x[i] = x[i] + n
";

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the test"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file for the test");
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path of ASCII").to_owned()
    }
}

fn polyloom(arguments: &[&str]) -> Output {
    polyloom_with(&[], arguments)
}

/// Runs the command with these environment variables, and without a code cache on disk.
fn polyloom_with(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_polyloom"))
        .args(arguments)
        .env("POLYLOOM_CACHE", "0")
        .envs(variables.iter().copied())
        .output()
        .expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_accepts_a_right_file_silently() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let out = polyloom(&["check", &file]);
    assert_eq!((out.status.code(), text(&out.stdout), text(&out.stderr)), (Some(0), String::new(), String::new()));
}

#[test]
fn check_says_that_a_file_has_no_kernels() {
    let folder = Folder::new();
    let file = folder.file("k.py", "import polyloom as loom\n");
    let out = polyloom(&["check", &file]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), String::new()));
    assert!(text(&out.stderr).contains("no kernels: decorate a function with `@loom.kernel`"), "{}", text(&out.stderr));
}

#[test]
fn shapes_of_arrays_of_vectors_go_without_the_components() {
    let source = "import polyloom as loom\n@loom.kernel\ndef k(x: loom.array(dtype=loom.vec3, ndim=2), n: \
                  loom.array(dtype=int, ndim=2)):\n    i, j = loom.tid()\n    x[i, j][1] = 2.0\n    n[i, j] = 1\n";
    let folder = Folder::new();
    let file = folder.file("k.py", source);
    for (dim, x) in [("2x1", "zeros:2x1"), ("2,1", "zeros:2,1"), ("2x1", "zeros:2x1x3")] {
        let out = polyloom(&["run", &file, "--dim", dim, "--arg", &format!("x={x}"), "--arg", "n=zeros:2,1"]);
        assert!(
            text(&out.stdout).contains("float32[2, 1, 3] 0 2 0 0 2 0\n"),
            "{}{}",
            text(&out.stdout),
            text(&out.stderr)
        );
    }
    let out = polyloom(&["run", &file, "--dim", "2", "--arg", "x=zeros:2", "--arg", "n=zeros:2,1"]);
    let errors = text(&out.stderr);
    assert!(errors.contains("`x` has 2 dimensions, or 3 with those of its elements; 1 given"), "{errors}");
}

#[test]
fn check_reports_every_error_with_its_place() {
    let folder = Folder::new();
    let file = folder.file("k.py", WRONG);
    let out = polyloom(&["check", &file]);
    assert_eq!(out.status.code(), Some(1));
    let errors = text(&out.stderr);
    for words in ["PL0202", "PL0101", "k.py:6:12", "k.py:7", "loom.sine", "sin"] {
        assert!(errors.contains(words), "{words} is not in\n{errors}");
    }
}

#[test]
fn check_reports_derivatives_that_there_are_none_of() {
    let text_of = |range: &str| {
        format!(
            "import polyloom as loom\n\n\n@loom.func\ndef power(x: float, n: int):\n    p = float(1.0)\n    \
             for _ in range({range}):\n        p = p * x\n    return p\n\n\n@loom.func\n\
             def slope(x: float, n: int):\n    return loom.grad(power)(x, n)\n\n\n@loom.kernel\n\
             def k(x: loom.array(dtype=float)):\n    x[loom.tid()] = 1.0\n"
        )
    };
    // No kernel calls `slope`.
    let folder = Folder::new();
    let out = polyloom(&["check", &folder.file("wrong.py", &text_of("n"))]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("PL0701"), "{}", text(&out.stderr));
    let out = polyloom(&["check", &folder.file("right.py", &text_of("3"))]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn check_json_has_the_documented_fields() {
    let folder = Folder::new();
    let file = folder.file("k.py", WRONG);
    let out = polyloom(&["check", "--json", &file]);
    assert_eq!(out.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let first = &found[0];
    assert_eq!(found.as_array().map(Vec::len), Some(2));
    assert_eq!((first["code"].as_str(), first["severity"].as_str()), (Some("PL0202"), Some("error")));
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(6), Some(12)));
    assert_eq!((first["end_line"].as_u64(), first["end_column"].as_u64()), (Some(6), Some(21)));
    assert!(first["message"].is_string() && first["help"].is_string());
    assert_eq!(first["file"].as_str(), Some(&*file));
}

#[test]
fn check_looks_at_functions_no_kernel_calls_and_at_every_kernel_of_a_name() {
    let source = "\
import polyloom as loom

@loom.func
def uncalled(x: float):
    return x + nowhere

@loom.kernel
def twice(x: loom.array(dtype=float)):
    x[0] = first_wrong

@loom.kernel
def twice(x: loom.array(dtype=float)):
    x[0] = uncalled(x[0])
";
    let folder = Folder::new();
    let file = folder.file("k.py", source);
    let out = polyloom(&["check", "--json", &file]);
    assert_eq!(out.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let lines: Vec<u64> = found.as_array().into_iter().flatten().filter_map(|f| f["line"].as_u64()).collect();
    assert_eq!(lines, [5, 9], "{found}");
}

#[test]
fn files_that_are_no_programs_are_reported() {
    let folder = Folder::new();
    let broken = folder.file("broken.py", "def f(:\n");
    let out = polyloom(&["check", &broken]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("PL0001"));
    let missing = polyloom(&["check", &folder.path("missing.py")]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("polyloom: cannot read"));
}

#[test]
fn a_back_end_writes_what_it_makes_and_says_what_it_does_not() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let of = |arguments: &[&str]| {
        let out = polyloom(&[&["compile", &file, "--no-cache"], arguments].concat());
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    for (backend, form, makes) in [
        ("cranelift", "llvm", "--backend cranelift makes obj, asm, not llvm"),
        ("llvm", "ptx", "--backend llvm makes obj, asm, llvm, not ptx"),
        ("nvptx", "obj", "--backend nvptx makes ptx, llvm, cubin, fatbin, not obj"),
        ("cuda", "hir", "--backend cuda makes ptx, cubin, fatbin, cuda, not hir"),
    ] {
        let (code, _, error) = of(&["--backend", backend, "--emit", form]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(makes), "{error}");
    }
    let object = folder.path("k.o");
    let (code, _, error) = of(&["--backend", "cranelift", "-o", &object]);
    assert_eq!(code, Some(0), "{error}");
    assert!(std::fs::read(&object).expect("it was written").starts_with(b"\x7fELF") || !cfg!(target_os = "linux"));
    let (code, _, error) = of(&["--backend", "nvptx", "--dim", "4"]);
    assert!(code == Some(2) && error.contains("--dim is of --backend cuda"), "{error}");
    let (code, _, error) = of(&[]);
    assert!(code == Some(2) && error.contains("--emit"), "{error}");
    if !polyloom::has_llvm() {
        return;
    }
    for backend in ["nvptx", "cuda"] {
        let (code, ptx, error) = of(&["--backend", backend]);
        assert_eq!(code, Some(0), "{error}");
        assert!(ptx.contains(".target sm_80"), "{ptx}");
    }
    let (_, ir, _) = of(&["--backend", "nvptx", "--emit", "llvm"]);
    assert!(ir.contains("nvptx64-nvidia-cuda"), "{ir}");
    if !polyloom::gpu_available() {
        // The code is there before the machine turns out to have nothing to run it on.
        let ptx = folder.path("k.ptx");
        let (code, _, error) = of(&[
            "--backend",
            "cuda",
            "-o",
            &ptx,
            "--dim",
            "4",
            "--arg",
            "x=arange:4",
            "--arg",
            "y=zeros:4",
            "--arg",
            "n=1",
        ]);
        assert!(code == Some(1) && error.contains("cuda:0"), "{error}");
        assert!(std::fs::read_to_string(&ptx).expect("it was written").contains(".entry"));
    }
}

#[test]
fn explain_says_how_threads_run() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let out = polyloom(&["explain", &file]);
    if polyloom::has_llvm() {
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(text(&out.stdout).contains("kernel `scaled`"), "{}", text(&out.stdout));
        assert!(text(&out.stdout).contains("threads run in groups of"), "{}", text(&out.stdout));
    } else {
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains("LLVM"), "{}", text(&out.stderr));
    }
    let out = polyloom(&["explain", &file, "--kernel", "no_such"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
}

#[test]
fn compile_emits_every_form() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    for (form, words) in
        [("ast", "scaled"), ("hir", "kernel @scaled"), ("hir-prepared", "kernel @scaled"), ("asm", "ret")]
    {
        let out = polyloom(&["compile", &file, "--emit", form]);
        assert_eq!(out.status.code(), Some(0), "{form}: {}", text(&out.stderr));
        assert!(text(&out.stdout).contains(words), "{form}: {}", text(&out.stdout));
    }
    let out = polyloom(&["compile", &file, "--emit", "asm", "--backend", "cranelift", "--no-cache"]);
    assert!(text(&out.stdout).contains("ret"), "{}", text(&out.stderr));
    if polyloom::has_llvm() {
        // Launches over dense arrays run this: neighbouring elements are moved together.
        let out = polyloom(&["compile", &file, "--emit", "asm"]);
        assert!(!text(&out.stdout).contains("gather"), "{}", text(&out.stdout));
    }
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_polyloom"));
        let status = command.args(["compile", &file, "--emit", "hir"]).stdout(full).status().expect("it starts");
        assert_eq!(status.code(), Some(1), "what cannot be written is no success");
    }
    let object = folder.path("k.o");
    let out = polyloom(&["compile", &file, "--emit", "obj", "-o", &object]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(std::fs::read(&object).expect("the object file").len() > 100);
    let out = polyloom(&["compile", &file, "--emit", "llvm"]);
    if polyloom::has_llvm() {
        assert!(text(&out.stdout).contains("define"), "{}", text(&out.stderr));
    } else {
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains("llvm"));
    }
}

#[test]
fn compile_emits_backward_kernels() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let emitted = |arguments: &[&str]| {
        let out = polyloom(&[&["compile", &file], arguments].concat());
        assert_eq!(out.status.code(), Some(0), "{arguments:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    let mut forms = vec![
        ("hir", "kernel @scaled(%0 x: array<f32, 1>, %1 y: array<f32, 1>, %2 n: i32)", "%3 adj_x: array<f32, 1>"),
        ("hir-prepared", "kernel @scaled(", "adj_x"),
        ("cpp", "scaled_cpu_kernel_forward(", "scaled_cpu_kernel_backward("),
        ("cuda", "scaled_cuda_kernel_forward(", "scaled_cuda_kernel_backward("),
    ];
    if polyloom::has_llvm() {
        forms.push(("ptx", ".entry scaled_cuda_kernel_forward(", ".entry scaled_cuda_kernel_backward("));
        forms.push(("llvm", "define", "define"));
    }
    for (form, forward, backward) in forms {
        let both = emitted(&["--emit", form, "--direction", "both"]);
        let [one, other] =
            ["forward", "backward"].map(|direction| emitted(&["--emit", form, "--direction", direction]));
        assert!(one.contains(forward) && other.contains(backward), "{form}: {one}{other}");
        assert_ne!(one, other, "{form}");
        assert_eq!(both, one + &other, "{form}");
    }
    let output = folder.path("both.cpp");
    assert_eq!(emitted(&["--emit", "cpp", "--direction", "both", "-o", &output]), "");
    let written = |name| std::fs::read_to_string(folder.path(name)).expect("the file");
    assert!(written("both.cpp").contains("scaled_cpu_kernel_forward("));
    assert!(written("both_backward.cpp").contains("scaled_cpu_kernel_backward("));
    let object = folder.path("k.o");
    emitted(&["--emit", "obj", "--direction", "both", "-o", &object]);
    let objects = ["k.o", "k_backward.o"].map(|name| std::fs::read(folder.path(name)).expect("the object file"));
    assert_ne!(objects[0], objects[1]);
    assert_ne!(emitted(&["--emit", "asm", "--direction", "backward"]), emitted(&["--emit", "asm"]));
    let refused = [
        (&["--emit", "ast", "--direction", "backward"][..], "a backward kernel has no syntax tree"),
        (&["--emit", "cuda", "--direction", "both", "--metadata", "m.json"], "--metadata is of one kernel"),
        (&["--emit", "hir", "--direction", "sideways"], "sideways"),
        (&["--emit", "cuda", "--dense"], "--dense is of PTX"),
        (&["--emit", "llvm", "--grid-stride"], "--grid-stride is of PTX"),
        (&["--emit", "cpp", "--ptx-version", "8.0"], "--ptx-version is of PTX"),
    ];
    for (arguments, message) in refused {
        let out = polyloom(&[&["compile", &file], arguments].concat());
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    }
    let unordered = "import polyloom as loom\n\n\n@loom.kernel\ndef k(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n    \
                     y[loom.tid()] = loom.atomic_add(x, 0, 1.0)\n";
    let file = folder.file("unordered.py", unordered);
    let out = polyloom(&["compile", &file, "--emit", "hir", "--direction", "backward"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("PL0701"), "{}", text(&out.stderr));
}

#[test]
fn run_runs_the_kernel_and_saves_arrays() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let saved = folder.path("y.npy");
    let out_option = format!("y={saved}");
    let arguments = ["run", &file, "--kernel", "scaled", "--dim", "4", "--arg", "x=arange:4", "--arg", "y=zeros:4"];
    let more = ["--arg", "n=1", "--out", &out_option];
    let out = polyloom(&[&arguments[..], &more[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("y: float32[4] 1 3 9 19"), "{}", text(&out.stdout));
    // What was saved can be read again.
    let again = format!("x=@{saved}");
    let out = polyloom(&["run", &file, "--dim", "4", "--arg", &again, "--arg", "y=zeros:4", "--arg", "n=0", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(found["y"]["data"], serde_json::json!([2.0, 18.0, 162.0, 722.0]));
}

#[test]
fn json_has_words_for_what_json_numbers_lack() {
    let source = "\
import polyloom as loom

@loom.kernel
def divide(x: loom.array(dtype=float), by: float):
    i = loom.tid()
    x[i] = (float(i) - 1.0) / by
";
    let folder = Folder::new();
    let file = folder.file("k.py", source);
    let out = polyloom(&["run", &file, "--dim", "3", "--arg", "x=zeros:3", "--arg", "by=0", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(found["x"]["data"], serde_json::json!(["-Infinity", "NaN", "Infinity"]));
}

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    for (arguments, words) in [
        (&["run", &file, "--dim", "4"][..], "parameter `x` has no value"),
        (
            &["run", &file, "--dim", "4", "--arg", "x=zeros:4", "--arg", "y=zeros:4x4", "--arg", "n=0"],
            "1 dimension; 2 given",
        ),
        (&["run", &file, "--dim", "4", "--arg", "xx=zeros:4"], "no parameter `xx`; it has x, y, n"),
        (&["run", &file, "--dim", "4", "--arg", "x=3", "--arg", "y=zeros:4", "--arg", "n=0"], "zeros:SHAPE"),
        (&["run", &file, "--dim", "-4", "--arg", "x=zeros:4"], "an integer of 0 or more"),
        (&["run", &file, "--dim", "4", "--arg", "x=zeros:4", "--arg", "y=zeros:4", "--arg", "n=1.5"], "no int32"),
        (
            &["run", &file, "--dim", "4", "--arg", "x=zeros:4", "--arg", "y=zeros:4", "--arg", "n=1", "--arg", "z=1"],
            "no parameter `z`",
        ),
        (&["compile", &file, "--emit", "nonsense"], "nonsense"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let out = polyloom(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(words), "{words} is not in {}", text(&out.stderr));
    }
    let out = polyloom(&["compile", &file, "--kernel", "scald", "--emit", "hir"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("did you mean `scaled`?"), "{}", text(&out.stderr));
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let arguments = ["--dim", "4", "--arg", "x=zeros:4", "--arg", "y=zeros:4", "--arg", "n=0"];
    for (device, status, words) in [
        ("cuda:99", 1, "device 'cuda:99' is not available: "),
        ("gpu", 2, "there is no device `gpu`: devices are cpu, sim:0, and GPUs, cuda:0 and so on"),
    ] {
        let out = polyloom(&[&["run", &file][..], &arguments[..], &["--device", device][..]].concat());
        assert_eq!(out.status.code(), Some(status), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
}

const RACE: &str = "\
import polyloom as loom

@loom.kernel(block_dim=64)
def mirrored(a: loom.array(dtype=float)):
    tile = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    i = loom.tid()
    tile[t] = a[i]
    a[i] = tile[63 - t]
";

#[test]
#[cfg_attr(not(feature = "compute"), ignore = "this build makes no PTX")]
fn the_simulator_reports_and_counts() {
    let folder = Folder::new();
    let file = folder.file("race.py", RACE);
    let run = |more: &[&str]| {
        let always = ["run", &file, "--dim", "64", "--device", "sim:0", "--arg", "a=ones:64"];
        polyloom(&[&always[..], more].concat())
    };
    let out = run(&["--sanitize", "all"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
    let said = text(&out.stderr);
    assert!(said.contains("race.py:8: data race in kernel `mirrored`: write of byte 128 of `tile`"), "{said}");
    assert!(said.contains("race.py:9: read of uninitialised memory in kernel `mirrored`"), "{said}");
    let out = run(&["--sanitize", "all,no-races,no-uninitialised"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let out = run(&["--sanitize", "reces"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let names = "there are bounds, alignment, races, uninitialised, barriers and async";
    assert!(text(&out.stderr).contains(names), "{}", text(&out.stderr));
    let out = run(&["--counters"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    for row in ["thread instructions", "bytes used of those moved", "bank conflicts", "divergent branches", "occupancy"]
    {
        assert!(text(&out.stdout).contains(row), "{row}: {}", text(&out.stdout));
    }
}

#[test]
fn ptx_from_elsewhere_runs() {
    let ptx = "\
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 all[];
.visible .entry reversed(.param .u64 x, .param .u32 n) {
    .reg .b32 %r<6>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [x];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d1, %d0, %d1;
    ld.global.u32 %r2, [%d1];
    shl.b32 %r3, %r1, 2;
    mov.u32 %r4, all;
    add.u32 %r4, %r4, %r3;
    st.shared.u32 [%r4], %r2;
    bar.sync 0;
    sub.u32 %r3, %r0, %r1;
    mul.lo.u32 %r3, %r3, 4;
    mov.u32 %r4, all;
    add.u32 %r4, %r4, %r3;
    ld.shared.u32 %r2, [%r4+-4];
    st.global.u32 [%d1], %r2;
    ret;
}
";
    let folder = Folder::new();
    let file = folder.file("reversed.ptx", ptx);
    let run = |block: &str, shared: &str| {
        let shape = ["--kernel", "reversed", "--grid", "1,1,1", "--block", block, "--shared", shared];
        let args = ["--arg", "x=s32:arange:4", "--arg", "n=4", "--sanitize", "all"];
        polyloom(&[&["run", &file][..], &shape, &args].concat())
    };
    let out = run("4,1,1", "16");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("x: int32[4] 3 2 1 0"), "{}", text(&out.stdout));
    let out = run("4,1,1", "12");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("PTX line 16: out-of-bounds access"), "{}", text(&out.stderr));
    // All blocks of a cooperative launch have to fit.
    let shape = ["--grid", "5000", "--block", "4", "--shared", "16", "--cooperative"];
    let out = polyloom(&[&["run", &file][..], &shape, &["--arg", "x=s32:arange:4", "--arg", "n=4"]].concat());
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("a cooperative launch has all its blocks at once"), "{}", text(&out.stderr));
    // What is wrong with a text is said with line and column.
    let file = folder.file("wrong.ptx", &ptx.replace("shl.b32", "shll.b32"));
    let out = polyloom(&["run", &file, "--grid", "1", "--block", "1", "--arg", "x=s32:zeros:4", "--arg", "n=4"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("wrong.ptx:13:5: "), "{}", text(&out.stderr));
}

#[test]
fn structs_with_arrays_are_arguments_of_ptx() {
    // What NVRTC makes of: struct Inner { float* out; short k; }; struct P { int n; Inner inner; const float* x; };
    // __global__ void scaled(P p) { int i = threadIdx.x; if (i < p.n) p.inner.out[i] = p.x[i] * p.inner.k; }
    let ptx = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry scaled(.param .align 8 .b8 scaled_param_0[32]) {
    .reg .pred %p<2>; .reg .b16 %rs<2>; .reg .b32 %r<3>; .reg .f32 %f<4>; .reg .b64 %d<6>;
    ld.param.u32 %r1, [scaled_param_0];
    mov.u32 %r2, %tid.x;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 ret;
    ld.param.u64 %d1, [scaled_param_0+8];
    ld.param.u16 %rs1, [scaled_param_0+16];
    ld.param.u64 %d2, [scaled_param_0+24];
    mul.wide.s32 %d3, %r2, 4;
    add.s64 %d4, %d2, %d3;
    ld.global.f32 %f1, [%d4];
    cvt.rn.f32.s16 %f2, %rs1;
    mul.f32 %f3, %f1, %f2;
    add.s64 %d5, %d1, %d3;
    st.global.f32 [%d5], %f3;
    ret;
}
";
    let folder = Folder::new();
    let (file, saved) = (folder.file("scaled.ptx", ptx), folder.0.path().join("out.npy"));
    let run = |arg: &str| {
        let out = format!("0.1.0={}", saved.display());
        polyloom(&["run", &file, "--grid", "1", "--block", "8", "--arg", arg, "--out", &out, "--sanitize", "all"])
    };
    let out = run("0={i32:3, {f32:zeros:8,i16:-2}, f32:arange:3}");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("0.1.0: float32[8] -0 -2 -4 0 0 0 0 0\n0.2: float32[3] 0 1 2"),
        "{}",
        text(&out.stdout)
    );
    assert!(saved.exists());
    // An access out of bounds is of the member.
    let out = run("0={i32:4,{f32:zeros:8,i16:-2},f32:arange:3}");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("past the end of `0.2` (12 bytes"), "{}", text(&out.stderr));
    // Its arrays go by the number of the parameter and by its name, whichever it is given by.
    for arg in
        ["0={i32:3,{f32:zeros:8,i16:-2},f32:arange:3}", "scaled_param_0={i32:3,{8|f32:zeros:8,i16:-2},f32:arange:3}"]
    {
        std::fs::remove_file(&saved).unwrap();
        assert_eq!(run(arg).status.code(), Some(0), "{arg}");
        assert!(saved.exists(), "{arg}");
    }
    let deep = format!("0={}i32:1{}", "{".repeat(50_000), "}".repeat(50_000));
    for (arg, message) in [
        ("0={i32:3,{f32:zeros:8,i16:-2}}", "the parameter has 32 bytes, the struct that is given 24"),
        ("0={i32:3,{f32:zeros:8,i16:-2,f32:arange:3}", "its braces do not match"),
        ("0={3}", "a member of a struct is TYPE:VALUE"),
        ("0={i32:3,{f32:@a,b.npy,i16:-2}}", "commas divide members, in names of files too"),
        ("0={12|i32:3}", "12 is no alignment"),
        (&deep, "structs are more than 64 deep"),
        ("0=f32:zeros:4x4", "the parameter has 32 bytes, where an address has 8"),
    ] {
        let out = run(arg);
        assert_eq!(out.status.code(), Some(2), "{arg}");
        assert!(text(&out.stderr).contains(message), "{arg}: {}", text(&out.stderr));
    }
}

#[cfg(feature = "_compute")]
#[test]
fn ptx_that_was_compiled_here_runs_as_a_file() {
    let folder = Folder::new();
    let source = "\
import polyloom as loom

@loom.kernel(check=False)
def outer(a: float, x: loom.array(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    y[i, j] = a * x[i] + float(j)
";
    let source = folder.file("outer.py", source);
    let out = polyloom(&["compile", &source, "--emit", "ptx"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let file = folder.file("outer.ptx", &text(&out.stdout));
    let run = |more: &[&str]| {
        let args = ["--arg", "a=10", "--arg", "x=f32:arange:3", "--arg", "y=f32:zeros:3x2", "--sanitize", "all"];
        polyloom(&[&["run", &file, "--grid", "1", "--block", "32"][..], &args, more].concat())
    };
    let out = run(&["--arg", "launch=3x2"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("y: float32[3, 2] 0 1 10 11 20 21"), "{}", text(&out.stdout));
    // Without extents there are as many threads as the grid has, along the first axis.
    let out = run(&[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("out-of-bounds"), "{}", text(&out.stderr));
    for (launch, message) in [("65536x65536", "fewer than 2^31 threads"), ("f32:3", "is an extent or several")] {
        let out = run(&["--arg", &format!("launch={launch}")]);
        assert_eq!(out.status.code(), Some(2), "{launch}");
        assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    }
}

#[cfg(feature = "_compute")]
#[test]
fn parameters_of_ptx_go_by_their_names_in_the_source() {
    let folder = Folder::new();
    let source = "\
import polyloom as loom

@loom.kernel(check=False)
def named(launch: float, ä: float, ö: float, x: loom.array(dtype=float), n: loom.array(dtype=loom.int8)):
    i = loom.tid()
    x[i] = launch + ä - ö
    loom.atomic_add(n, 2, loom.int8(1))
";
    let out = polyloom(&["compile", &folder.file("named.py", source), "--emit", "ptx"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let file = folder.file("named.ptx", &text(&out.stdout));
    let args = ["launch=100", "0=2", "ö=1", "ä=20", "x=f32:zeros:2", "n=s8:zeros:3"];
    let args: Vec<&str> = args.iter().flat_map(|arg| ["--arg", arg]).collect();
    let out = polyloom(&[&["run", &file, "--grid", "1", "--block", "32", "--sanitize", "all"][..], &args].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("x: float32[2] 119 119\nn: int8[3] 0 0 2\n"), "{}", text(&out.stdout));
}

#[test]
fn an_empty_grid_runs_nothing_however_large_it_is_otherwise() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let grid = "18446744073709551615,5,0";
    let out = polyloom(&["run", &file, "--dim", grid, "--arg", "x=zeros:4", "--arg", "y=zeros:4", "--arg", "n=0"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("0 threads in"), "{}", text(&out.stdout));
}

#[test]
fn composites_are_given_by_their_components() {
    let source = "import polyloom as loom\n\n@loom.kernel\ndef k(v: loom.vec2, x: loom.array(dtype=loom.vec2)):\n    \
                  i = loom.tid()\n    x[i] = x[i] + 2.0 * v\n";
    let folder = Folder::new();
    let file = folder.file("k.py", source);
    let run = |v: &str, x: &str| polyloom(&["run", &file, "--dim", "2", "--arg", v, "--arg", x]);
    let out = run("v=1,2.5", "x=arange:2x2");
    assert!(text(&out.stdout).contains("x: float32[2, 2] 2 6 4 8"), "{}{}", text(&out.stdout), text(&out.stderr));
    let refused = |v: &str, x: &str, message: &str| {
        let out = run(v, x);
        assert_ne!(out.status.code(), Some(0));
        assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    };
    refused("v=1", "x=zeros:2x2", "`v` has 2 components, 1 given");
    refused("v=1,2", "x=zeros:2x3", "its last axes have the extents [2], not [3]");
    refused("w=1,2", "x=zeros:2x2", "has no parameter `w`");
}

#[test]
fn an_empty_array_is_not_read() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let empty = folder.path("empty.npy");
    let run = |dim: &str, x: &str, more: &[&str]| {
        let arguments = ["run", &file, "--dim", dim, "--arg", x, "--arg", "y=zeros:3", "--arg", "n=0"];
        polyloom(&[&arguments[..], more].concat())
    };
    let out = run("0", "x=zeros:0", &["--out", &format!("x={empty}")]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let out = run("3", &format!("x=@{empty}"), &[]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("of `x` with extent 0"), "{}", text(&out.stderr));
}

#[test]
fn runs_name_the_line_of_a_failed_check() {
    let folder = Folder::new();
    let file = folder.file("k.py", SOURCE);
    let arguments = ["run", &file, "--dim", "5", "--arg", "x=zeros:4", "--arg", "y=zeros:5", "--arg", "n=0"];
    let out = polyloom(&arguments);
    assert_eq!(out.status.code(), Some(1));
    let errors = text(&out.stderr);
    assert!(errors.contains("index 4 is out of bounds") && errors.contains("k.py:12"), "{errors}");
}

#[test]
fn doctor_says_what_there_is() {
    let out = polyloom(&["doctor", "--json"]);
    assert_eq!(out.status.code(), Some(0));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let names: Vec<&str> = found.as_array().into_iter().flatten().filter_map(|f| f["what"].as_str()).collect();
    for what in ["version", "cranelift", "llvm", "assembler", "nvrtc", "gpu"] {
        assert!(names.contains(&what), "{what} is not among {names:?}");
    }
}

#[test]
fn doctor_is_brief() {
    let out = text(&polyloom(&["doctor"]).stdout);
    assert_eq!(out.lines().count(), 10, "{out}");
    // Paths are as long as they are.
    assert!(out.lines().all(|line| line.len() < 100 || line.contains('/')), "{out}");
}

#[test]
fn doctor_fails_where_kernels_cannot_run() {
    for (name, value) in [("POLYLOOM_TIER", "2"), ("POLYLOOM_CACHE", "off"), ("POLYLOOM_CACHE_BYTES", "1G")] {
        for arguments in [&["doctor"][..], &["doctor", "--json"]] {
            let out = polyloom_with(&[(name, value)], arguments);
            assert_eq!(out.status.code(), Some(1), "{name}");
            assert!(text(&out.stdout).contains(&format!("{name} is `{value}`")), "{}", text(&out.stdout));
        }
    }
}

const GENERIC: &str = "\
from typing import Any
import polyloom as loom

@loom.kernel
def scale(x: loom.array(dtype=Any), by: Any):
    i = loom.tid()
    x[i] = x[i] * x.dtype(by)
";

#[test]
fn generic_kernels_take_their_types_from_options_and_arguments() {
    let folder = Folder::new();
    let file = folder.file("k.py", GENERIC);
    let out = polyloom(&["compile", &file, "--emit", "hir"]);
    assert_eq!(out.status.code(), Some(2));
    let errors = text(&out.stderr);
    assert!(errors.contains("the parameter `x` is array(dtype=Any)"), "{errors}");
    assert!(errors.contains("--type 'x=array(dtype=float)'"), "{errors}");
    let types = ["--type", "x=loom.array(dtype=loom.float64)", "--type", "by=int"];
    let out = polyloom(&[&["compile", &file, "--emit", "hir"][..], &types].concat());
    assert!(text(&out.stdout).contains("f64"), "{}", text(&out.stderr));
    let out = polyloom(&["compile", &file, "--emit", "hir", "--type", "x=float"]);
    assert!(text(&out.stderr).contains("`x` is array(dtype=Any), not float32"), "{}", text(&out.stderr));
    let out = polyloom(&["compile", &file, "--emit", "hir", "--type", "y=float"]);
    assert!(text(&out.stderr).contains("has no such parameter; it has x, by"), "{}", text(&out.stderr));

    let run = ["run", &file, "--dim", "3", "--arg", "by=2", "--arg", "x=arange:3"];
    let saved = folder.path("x.npy");
    let more = ["--type", "x=array(dtype=int64)", "--out", &format!("x={saved}")];
    let out = polyloom(&[&run[..], &more].concat());
    assert!(text(&out.stdout).contains("x: int64[3] 0 2 4"), "{}{}", text(&out.stdout), text(&out.stderr));
    let out = polyloom(&["run", &file, "--dim", "3", "--arg", "by=2", "--arg", &format!("x=@{saved}"), "--json"]);
    assert!(text(&out.stdout).contains("int64"), "{}{}", text(&out.stdout), text(&out.stderr));
}

const HIR: &str = "\
kernel @saxpy(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) {
  %3 i: i32 = tid 0
  %4: f32 = array_load %1, %3
  %5: f32 = mul %0, %4
  %6: f32 = array_load %2, %3
  %7: f32 = add %5, %6
  array_store %2, %3, %7
  return
}
";

#[test]
fn hir_text_is_checked_compiled_and_run() {
    let folder = Folder::new();
    let file = folder.file("saxpy.hir", HIR);
    let out = polyloom(&["check", &file]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    let out = polyloom(&["compile", &file, "--emit", "hir"]);
    assert_eq!(text(&out.stdout), HIR, "{}", text(&out.stderr));
    let arguments = ["--dim", "4", "--arg", "a=2", "--arg", "x=ones:4", "--arg", "y=arange:4"];
    let out = polyloom(&[&["run", &file], &arguments[..]].concat());
    assert!(text(&out.stdout).contains("2 3 4 5"), "{}{}", text(&out.stdout), text(&out.stderr));
    // Kernels that are run by hand are checked, these too.
    let out = polyloom(&[&["run", &file, "--dim", "5"], &arguments[2..]].concat());
    assert!(text(&out.stderr).contains("saxpy.hir:3:"), "{}", text(&out.stderr));
    let out = polyloom(&["compile", &file, "--emit", "ast"]);
    assert!(text(&out.stderr).contains("has no syntax tree"), "{}", text(&out.stderr));
    let out = polyloom(&["compile", &file, "--emit", "cpp", "--direction", "backward"]);
    assert!(text(&out.stdout).contains("saxpy_cpu_kernel_backward"), "{}", text(&out.stderr));
}

#[test]
fn wrong_hir_text_is_refused_with_its_place() {
    let folder = Folder::new();
    let ill_typed = folder.file("typed.hir", &HIR.replace("mul %0, %4", "mul %0, %3"));
    let no_name = folder.file("name.hir", &HIR.replace("%7\n", "%9\n"));
    let function = folder.file("function.hir", "func @f() {\n  return\n}\n");
    for (command, file, words) in [
        (&["check"][..], &ill_typed, &["typed.hir:4:3", "mul"][..]),
        (&["compile", "--emit", "asm"], &ill_typed, &["typed.hir:4:3", "mul"]),
        (&["check"], &no_name, &["name.hir:7:", "%9"]),
        (&["run", "--dim", "1"], &function, &["has no kernel", "begin a function with `kernel`"]),
    ] {
        let out = polyloom(&[&command[..1], &[file], &command[1..]].concat());
        let errors = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{errors}");
        assert!(words.iter().all(|words| errors.contains(words)), "{words:?} are not in\n{errors}");
    }
}

const FUSED: &str = "\
from polyloom import ops

def f(a, b):
    x = ops.add(a, b)
    y = ops.relu(x)
    y += 1
    return ops.multiply(y, a)
";

#[test]
fn fuse_explain_shows_groups_and_the_statements_that_end_chains() {
    let folder = Folder::new();
    let file = folder.file("f.py", FUSED);
    let out = polyloom(&["fuse", "explain", &format!("{file}:f")]);
    let expected = format!(
        "\
f: 3 calls, 2 groups
  group 0: ops.add (line 4), ops.relu (line 5); runs at its first or its last call
  group 1: ops.multiply (line 7)

warning[PL0304]: `y += 1` writes the result of `ops.relu` before `ops.multiply` reads it
 --> {file}:6:5
  |
6 |     y += 1
  |     ^^^^^^
  |
  = help: make a new value, `y = ops.add(y, 1)`, or write after the last `ops.*` call that reads it
"
    );
    assert_eq!((out.status.code(), text(&out.stdout), text(&out.stderr)), (Some(0), expected, String::new()));
    let out = polyloom(&["fuse", "explain", &format!("{file}:f"), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the report is JSON");
    assert_eq!(report["calls"], serde_json::json!(["add", "relu", "multiply"]));
    assert_eq!(report["groups"], serde_json::json!([[0, 1], [2]]));
    assert_eq!(report["exec_at"], serde_json::json!([["first", "last"], null]));
    assert_eq!((&report["breaks"][0]["line"], &report["breaks"][0]["cause"]), (&6.into(), &"written".into()));
}

#[test]
fn fuse_explain_knows_the_ops_and_views_of_the_op_table() {
    let folder = Folder::new();
    let source = "\
from polyloom import ops

def f(a):
    x = ops.relo(a)
    y = ops.add(x, a)
    z = ops.swapaxes(y, 0, 1)
    z += 1
    return ops.mul(y, a)
";
    let file = folder.file("f.py", source);
    let out = polyloom(&["fuse", "explain", &format!("{file}:f"), "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the report is JSON");
    // `relo` is no op, and what is written through a view of `y` keeps apart what reads `y`.
    assert_eq!(report["calls"], serde_json::json!(["add", "swapaxes", "mul"]));
    assert_eq!(report["groups"], serde_json::json!([[0, 1], [2]]));
}

#[test]
fn fuse_explain_reads_the_spelling_off_the_decorator() {
    let folder = Folder::new();
    let body = "def f(a):\n    return np.exp(a) * 2\n";
    for (decorator, calls) in [("@loom.fuse(numpy=True)\n", "2 calls, 1 group"), ("@loom.fuse\n", "0 calls, 0 groups")]
    {
        let text = format!("import numpy as np\nimport polyloom as loom\n{decorator}{body}");
        let file = folder.file("numpy.py", &text);
        let out = polyloom(&["fuse", "explain", &format!("{file}:f")]);
        let shown = self::text(&out.stdout);
        assert!(shown.starts_with(&format!("f: {calls}")), "{shown}");
    }
}

#[test]
fn fuse_explain_refuses_what_is_no_function() {
    let folder = Folder::new();
    let file = folder.file("f.py", FUSED);
    for (argument, status, words) in [
        (file.clone(), 2, "FILE:FUNCTION"),
        (format!("{file}:"), 2, "FILE:FUNCTION"),
        (format!("{file}:g"), 1, "no function `g`"),
        (folder.path("none.py") + ":f", 1, "cannot read"),
    ] {
        let out = polyloom(&["fuse", "explain", &argument]);
        assert_eq!(out.status.code(), Some(status), "{argument}");
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
}
