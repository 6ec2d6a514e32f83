//! `.loom`: what is accepted, what is rejected and in which words, and what programs are to those who run them.

use polyloom_frontend::{
    CompileError, FileEnvironment, FrontendOptions, LoomProgram, MatrixFactor, ShapeArgument, SourceUnit, check_file,
    compile_kernel, compile_kernel_for, format_loom, loom_of_python,
};
use polyloom_ir::{Code, SourceFile, Type};
use std::sync::Arc;

const ISSUE: &str = r#"kernel scale(x: array<f32, n>, a: f32) -> y: array<f32, n> {
    for i in 0..n { y[i] = a * x[i] }
}

compute(A, B) @kernel(matmul) @device("cuda:0") {
    @workgroup(16, 16)
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
}
"#;

fn read(text: &str) -> Result<Arc<SourceUnit>, CompileError> {
    let other = "fn twice(x: f32) -> f32 { return 2.0 * x }\nconst HALF = 0.5\nfn fill(y: array<f32, n>, i: i32) { y[i] = 1.0 }\n";
    SourceUnit::parse_loom(SourceFile::new("test.loom", text, 1), &|_, path| match path {
        "other.loom" => Ok((path.to_owned(), other.to_owned())),
        _ => Err("there is no such file".to_owned()),
    })
}

fn checked(text: &str) -> Result<Arc<SourceUnit>, CompileError> {
    let unit = read(text)?;
    check_file(&unit, &FrontendOptions::default())?;
    Ok(unit)
}

/// Checks that a text is accepted.
fn accept(text: &str) -> Arc<SourceUnit> {
    checked(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Checks that a text is rejected by one error of this code, with words of its message and help.
#[track_caller]
fn reject(text: &str, code: Code, words: &[&str]) {
    let error = checked(text).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    let rendered = error.render(false);
    assert_eq!(error.diagnostics[0].code, code, "{rendered}");
    for word in words {
        assert!(rendered.contains(word), "no {word:?} in\n{rendered}");
    }
}

fn program<'u>(unit: &'u SourceUnit, name: &str) -> &'u LoomProgram {
    unit.programs().iter().find(|program| *program.name == *name).expect("the file has this program")
}

fn hir(unit: &Arc<SourceUnit>, name: &str, types: &[Type]) -> String {
    let function = FileEnvironment::new(unit).function(unit.find(name).expect("the file has this function"));
    let types: Vec<_> = types.iter().map(|ty| (*ty).into()).collect();
    let options = FrontendOptions::default();
    let compiled = match types.is_empty() {
        true => compile_kernel(&function, &options),
        false => compile_kernel_for(&function, &types, &options),
    };
    compiled.unwrap_or_else(|error| panic!("{error}")).module.to_string()
}

#[test]
fn programs_of_the_issue_are_what_python_kernels_are() {
    let unit = accept(ISSUE);
    let python = SourceUnit::parse(SourceFile::new(
        "test.py",
        "import polyloom as loom\n\n@loom.kernel\ndef scale(x: loom.array(dtype=float), a: float, y: loom.array(dtype=float)):\n    i = loom.tid()\n    y[i] = a * x[i]\n",
        1,
    ));
    let python = python.expect("Python takes it");
    assert_eq!(hir(&unit, "scale", &[]), hir(&python, "scale", &[]));
    let matrix = Type::array(polyloom_ir::Scalar::F64, 2);
    let product = hir(&unit, "matmul", &[matrix, matrix]);
    assert!(product.contains("%2 out: array<f64, 2>"), "{product}");
    assert!(product.contains("workgroup_size = (16, 16, 1)"), "{product}");
}

#[test]
fn shapes_follow_from_arguments_and_disagreeing_ones_are_both_named() {
    let unit = accept(ISSUE);
    let matmul = program(&unit, "matmul");
    let array = |shape: &[u64]| ShapeArgument::Array(shape.to_vec());
    let bound = matmul.bind(&[array(&[2, 3]), array(&[3, 4])]).expect("shapes agree");
    assert_eq!(bound.results, [vec![2, 4]]);
    assert_eq!(bound.launches[0].dim, Some(vec![2, 4]));
    let error = matmul.bind(&[array(&[2, 3]), array(&[5, 4])]).expect_err("shapes disagree");
    assert_eq!(error, "`K` is 3 by axis 1 of `A` and 5 by axis 0 of `B`");
    let error = matmul.bind(&[array(&[2]), array(&[5, 4])]).expect_err("ranks disagree");
    assert_eq!(error, "`A` has 1 axis, but `matmul` takes 2 axes there");
    assert_eq!(matmul.device.as_ref().map(|device| &*device.name), Some("cuda:0"));
}

#[test]
fn extents_are_integers_of_shapes_and_numbers() {
    let unit = accept(
        "kernel f(x: array<f32, n>, k: i32, w: array<f32, 2 * n + 1>) -> y: array<f32, n / 2, k> {
            let half = n / 2
            for i in 0..half, j in 1..k step 2 { y[i, j] = x[2 * i] + w[j] }
        }",
    );
    let f = program(&unit, "f");
    let arguments = |w: u64| [ShapeArgument::Array(vec![8]), ShapeArgument::Int(5), ShapeArgument::Array(vec![w])];
    let bound = f.bind(&arguments(17)).expect("shapes agree");
    assert_eq!((bound.results, bound.launches[0].dim.clone()), (vec![vec![4, 5]], Some(vec![4, 2])));
    let error = f.bind(&arguments(16)).expect_err("shapes disagree");
    assert_eq!(error, "axis 0 of `w` is 16, but `f` takes `(2 * n) + 1` there, which is 17 by axis 0 of `x`");
}

#[test]
fn stages_are_launched_in_order() {
    let unit = accept(
        "kernel f(x: array<f32, n>) -> y: array<f32, n> {
            for i in 0..n { y[i] = x[i] }
            serial for s in 0..3 {
                let width = 1 << s
                for b in 0..n / (2 * width), j in 0..width {
                    let low = b * 2 * width + j
                    let high = low + width
                    let t = y[low]
                    y[low] = t + y[high]
                    y[high] = t - y[high]
                }
            }
            y[0] = 0.0
        }",
    );
    let bound = program(&unit, "f").bind(&[ShapeArgument::Array(vec![8])]).expect("shapes agree");
    let dims: Vec<_> = bound.launches.iter().map(|launch| launch.dim.clone().unwrap_or_default()).collect();
    assert_eq!(dims, [vec![8], vec![4, 1], vec![2, 2], vec![1, 4], vec![1]]);
    assert_eq!(bound.launches[2].counters, [1]);
}

#[test]
fn iterations_that_meet_are_named() {
    let kernel =
        |body: &str| format!("kernel f(x: array<f32, n>, p: array<i32, n>) -> y: array<f32, n> {{\n{body}\n}}\n");
    let collision = |body: &str, words: &[&str]| reject(&kernel(body), Code::Collision, words);
    collision("for i in 0..n { y[i / 2] = x[i] }", &["`i = 0` and `i = 1`", "y[i / 2]"]);
    collision("for i in 0..n { y[0] = x[i] }", &["`i = 0` and `i = 1` both write `y[0]`"]);
    collision("for i in 1..n { y[i] = y[i - 1] }", &["`i = 1` writes `y[1]`, which the iteration `i = 2` reads"]);
    collision("for i in 0..n { y[p[i]] = x[i] }", &["may both write"]);
    collision("for i in 0..n { for j in 0..n { y[j] += x[i] } }", &["both write `y["]);
    collision("for i in 0..n, j in 0..4 { y[i] = x[j] }", &["`i = 0, j = 0` and `i = 0, j = 1`"]);
    collision("for i in 0..n, j in 0..5 { y[4 * i + j] = x[j] }", &["both write"]);
    collision("var s = 0.0\nfor i in 0..n { s += x[i] }", &["`s` is a variable outside the parallel loop"]);
    collision("for i in 0..n { let row = y\n row[0] = x[i] }", &["both write"]);
    for body in [
        "for i in 0..n, j in 0..4 { y[4 * i + j] = x[j] }",
        "for i in 0..n { y[2 * i] = x[i]; y[2 * i + 1] = y[2 * i] }",
        "for i in 0..n { y[n - 1 - i] = x[i] }",
        "for i in 0..n { for j in 0..3 { y[3 * i + j] += x[i] } }",
        "for i in 0..n { let k = i + 1\n y[k] = x[i] }",
        "for i in 0..n { atomic_add(y, p[i], x[i]) }",
        "serial for i in 1..n { y[i] = y[i - 1] + x[i] }",
        "for i in 0..n step 2 { y[i] = x[i]; y[i] += x[i + 1] }",
    ] {
        accept(&kernel(body));
    }
    accept(
        "kernel image(x: array<f32, h, w>) -> y: array<f32, h * w * 3> {
            for i in 0..h, j in 0..w, c in 0..3 { y[(i * w + j) * 3 + c] = x[i, j] }
        }",
    );
    reject(
        "fn fill(y: array<f32, n>, i: i32) { y[i] = 1.0 }\nkernel f(x: array<f32, n>) { for i in 0..n { fill(x, 0) } }",
        Code::Collision,
        &["both write"],
    );
    reject(
        "from \"other.loom\" import fill\nkernel f(x: array<f32, n>) { for i in 0..n { fill(x, 0) } }",
        Code::Collision,
        &["both write"],
    );
}

#[test]
fn elements_of_an_anti_diagonal_do_not_meet() {
    accept(
        "kernel f(n: i32) -> c: array<i32, n, n> {
            serial for d in 2..2 * n - 1 {
                for i in max(1, d - n + 1)..=min(d - 1, n - 1) {
                    c[i, d - i] = c[i - 1, d - i - 1] + c[i - 1, d - i] + c[i, d - i - 1]
                }
            }
        }",
    );
    // One diagonal further is written by the iteration beside.
    reject(
        "kernel f(n: i32) -> c: array<i32, n, n> {
            serial for d in 2..n { for i in 1..d { c[i, d - i] = c[i - 1, d - i + 1] } }
        }",
        Code::Collision,
        &["`c["],
    );
}

#[test]
fn reductions_are_what_their_iterations_give_in_order() {
    let unit = accept(
        "kernel f(x: array<f32, m, n>, p: array<i32, m, n>) -> rows: array<f32, m>, all: array<f32, 1>, most: array<i32, 1>,
            counts: array<i32, 8> {
            reduce for i in 0..m, j in 0..n { rows[i] += x[i, j] }
            reduce for i in 0..m, j in 0..n { all[0] *= x[i, j] }
            reduce for i in 0..m, j in 0..n {
                most[0] = max(most[0], p[i, j])
                if x[i, j] > 0.0 { counts[p[i, j]] += 1 }
            }
            var sum = 0.0
            reduce for i in 0..m { sum += rows[i] }
            all[0] = sum
        }",
    );
    let array = |shape: &[u64]| ShapeArgument::Array(shape.to_vec());
    let bound = program(&unit, "f").bind(&[array(&[3, 4]), array(&[3, 4])]).expect("shapes agree");
    let dims: Vec<_> = bound.launches.iter().map(|launch| launch.dim.clone().unwrap_or_default()).collect();
    assert_eq!(dims, [vec![3], vec![1], vec![3, 4], vec![1]]);
    let third = hir(&unit, "f_3", &[]);
    assert!(third.contains("atomic_max") && third.contains("atomic_add"), "{third}");
    for body in [
        // A read of the array keeps its updates in order.
        "reduce for i in 0..m { counts[0] += counts[1] + 1 }",
        // Two operators do not commute.
        "reduce for i in 0..m { counts[0] += 1; counts[0] *= 2 }",
        "reduce for i in 0..m, j in 0..i { counts[i] += j; counts[j] += 1 }",
    ] {
        let unit = accept(&format!("kernel f(m: i32) -> counts: array<i32, m> {{ {body} }}"));
        let bound = program(&unit, "f").bind(&[ShapeArgument::Int(5)]).expect("shapes agree");
        assert_eq!(bound.launches[0].dim, Some(vec![1]), "{body}");
    }
    let kernel = |body: &str| format!("kernel f(x: array<f32, n>) -> y: array<f32, n> {{\n{body}\n}}\n");
    reject(&kernel("reduce for i in 0..n { y[0] = x[i] }"), Code::Unsupported, &["combines nothing"]);
    reject(&kernel("reduce for i in 0..n { y[0] += x[i]; break }"), Code::Unsupported, &["takes all its iterations"]);
    accept(&kernel("for i in 0..n { reduce for j in 0..n { y[i] += x[j] } }"));
    // Elsewhere `reduce` is a name.
    accept(&kernel("for i in 0..n { let reduce = x[i]; y[i] = reduce }"));
}

#[test]
fn parallel_loops_stand_under_conditions_of_parameters() {
    let unit = accept(
        "kernel f(x: array<f32, n>, a: f32) -> y: array<f32, n> {
            let big = n > 4
            if big and a > 0.0 {
                for i in 0..n { y[i] = a * x[i] }
            } else if a == 0.0 {
                y[0] = 1.0
                for i in 1..n { y[i] = x[i] }
            } else {
                for i in 0..n { y[i] = 2.0 }
            }
        }",
    );
    let arguments = [ShapeArgument::Array(vec![8]), ShapeArgument::Other];
    let bound = program(&unit, "f").bind(&arguments).expect("shapes agree");
    assert_eq!(bound.launches.len(), 4);
    let kernel = |body: &str| format!("kernel f(x: array<f32, n>) -> y: array<f32, n> {{\n{body}\n}}\n");
    let words = &["not known before they are launched"][..];
    reject(&kernel("if x[0] > 0.0 { for i in 0..n { y[i] = 1.0 } }"), Code::Unsupported, words);
    reject(&kernel("while n > 3 { for i in 0..n { y[i] = 1.0 } }"), Code::Unsupported, &["in a `while` loop"]);
}

#[test]
fn values_outside_loops_that_read_elements_are_worked_out_once() {
    // Otherwise every iteration would read what others write.
    let unit = accept(
        "fn first(x: array<f32, n>) -> f32 { return x[0] }
        kernel f(x: array<f32, n>) { let a = first(x)\n for i in 0..n { x[i] = a } }",
    );
    let bound = program(&unit, "f").bind(&[ShapeArgument::Array(vec![8])]).expect("there is one shape");
    assert_eq!(bound.scratch, [vec![1]]);
    let launches: Vec<_> = bound.launches.iter().map(|launch| (launch.dim.clone(), launch.scratch.clone())).collect();
    assert_eq!(launches, [(Some(vec![1]), vec![0]), (Some(vec![8]), vec![0])]);
    assert!(hir(&unit, "f_1", &[]).contains("array_store") && !hir(&unit, "f_2", &[]).contains("call"));
    accept("kernel f(x: array<f32, n>) { let half = len(x) / 2\n for i in 0..half { x[i] = 0.0 } }");
}

#[test]
fn annotations_stand_before_functions_or_after_their_parameters() {
    let unit = accept(
        "/// Twice.
        @inline
        fn twice(x: f32) -> f32 { return 2.0 * x }
        /// Doubles.
        @critical_path @workgroup(64)
        kernel f(x: array<f32, n>) @no_allocation { for i in 0..n { x[i] = twice(x[i]) } }",
    );
    assert_eq!(program(&unit, "f").doc, "Doubles.");
    let text = hir(&unit, "f", &[]);
    assert!(text.contains("workgroup_size = (64, 1, 1)") && text.contains("critical_path"), "{text}");
    reject("@inline\nconst N = 3\n", Code::Syntax, &["belongs to no function"]);
}

#[test]
fn promises_and_levels_are_annotations() {
    let unit = accept(
        "@no_syscalls @unchecked @cpu_affinity(0, 2) @target_latency_ns(500) @opt_level(O3)
        kernel f(x: array<f32, n>) { for i in 0..n { x[i] = 1.0 } }",
    );
    let text = hir(&unit, "f", &[]);
    for part in
        ["no_syscalls", "unchecked", "cpu_affinity = (0, 2)", "target_latency_ns = 500", "hint \"opt_level\" = \"O3\""]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    reject(
        "kernel f(x: array<f32, n>) @opt_level(O9) { for i in 0..n { x[i] = 1.0 } }",
        Code::BadDecorator,
        &["no optimisation level", "`\"Olatency\"`"],
    );
    reject(
        "kernel f(x: array<f32, n>) @critical_path { for i in 0..n { while x[i] > 0.0 { x[i] -= 1.0 } } }",
        Code::BrokenPromise,
        &["a loop without a bound", "`@critical_path`"],
    );
    reject(
        "kernel f(x: array<f32, n>) @no_syscalls { for i in 0..n { print(x[i]) } }",
        Code::BrokenPromise,
        &["printing", "`@no_syscalls`"],
    );
}

#[test]
fn types_have_names_and_slices_have_steps() {
    accept(
        "type Vec5 = vector<f32, 5>
        kernel f(x: array<f32, n>) -> y: array<f32, n> {
            for i in 0..n {
                let five = Vec5(1.0, 2.0, 3.0, 4.0, x[i])
                let odd = five[1.. step 2]
                let back = five[.. step -1]
                let three = vec3(*odd, back[0])
                let sum = three.x +
                    three.y *
                    three.z
                y[i] = sum
            }
        }",
    );
    accept("kernel f(x: array<f32, n>) { for i in 0..n { let type = x[i]; let step = 1.0; x[i] = type + step } }");
}

#[test]
fn type_variables_are_known_of_parts_of_arrays() {
    accept(
        "fn sums<T: Float>(row: array<T, n>) -> (T, T) { var sum = T(0)\n for i in 0..n { sum += row[i] }\n return sum, T(1) }
        kernel f<T: Float>(x: array<T, m, n>) -> y: array<T, m> {
            for i in 0..m {
                let a, b = sums(x[i])
                let own = zeros(shape=3, dtype=f32)
                let c, d = sums(own)
                y[i] = a + b + T(c)
            }
        }",
    );
}

#[test]
fn examples_are_laid_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom");
    let mut n = 0;
    for folder in [folder.to_owned(), format!("{folder}/library")] {
        for entry in std::fs::read_dir(folder).expect("there are examples").flatten() {
            if entry.path().extension().is_none_or(|extension| extension != "loom") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("an example is text");
            let name = entry.path().to_string_lossy().into_owned();
            let tidy = format_loom(&SourceFile::new(name.as_str(), text.as_str(), 1)).expect("an example is read");
            assert_eq!(tidy, text, "{name}");
            n += 1;
        }
    }
    assert!(n > 30);
}

#[test]
fn the_language_has_functions_structs_generics_constants_and_imports() {
    accept(
        r#"import "other.loom"
from "other.loom" import twice, HALF

/// A point in motion.
struct Point { position: vec3, speed: f32 }

const STEPS = 3
const RATE: f64 = 0.25

/// Adds up.
fn total<T: Float>(x: array<T, n>) -> T {
    var sum = T(0)
    for i in 0..n: sum += x[i]
    return sum
}

fn both(a: f32, b: f32) -> (f32, f32) { return b, a }

kernel f(x: array<f32, n>, w: array<f64, m>, points: array<Point, n>) -> y: array<f32, n>, z: array<f64, n> {
    for i in 0..n {
        var a = twice(x[i]) + other.twice(HALF)
        let b, c = both(a, 1.0)
        if a > 1.0 and not (b < 0.0) {
            a = -a ** 2
        } else if a == 0.0 {
            continue
        } else:
            a = if c > 0.0 then c else sqrt(b)
        while a < 10.0 {
            a *= 2.0
            if a > 5.0: break
        }
        for k in 0..STEPS, l in 0..=k { a += f32(k * l) }
        for k in 0..2 { let t = 1; a += f32(t) }
        for k in 0..2 { let t = 1.5; a += t }
        let v = vec3(a, 0.0, 1.0f32)
        points[i].position = v + points[i].position
        y[i] = dot(v, v) + total(x)
        z[i] = total(w) * RATE + f64(floordiv(7, 2))
    }
}

kernel plain(x: array<f32, n>) {
    let i = tid()
    if i < n { x[i] = x[i] * 2.0 }
}

compute mean(x) {
    for i in 0..n:
        var sum = 0.0
        for j in 0..m:
            sum += x[i, j]
        out[i] = sum / 2.0
}
"#,
    );
}

#[test]
fn mistakes_are_told_in_the_words_of_the_language() {
    let body =
        |body: &str| format!("kernel f(x: array<f32, n>) -> y: array<f32, n> {{\n  for i in 0..n {{\n{body}\n}}\n}}\n");
    let all = [
        ("y[i] = z", Code::UnknownName, &["`z` is not defined"][..]),
        ("y[i] = x[i] + 1i64", Code::TypeMismatch, &["f32", "i64"]),
        ("let s = 1.0; s = 2.0", Code::BadAssignment, &["declared by `let`", "var s"]),
        ("q = 1.0", Code::BadAssignment, &["`q` is not declared", "var q"]),
        ("i = 1", Code::BadAssignment, &["counts the loop"]),
        ("x = 1.0", Code::BadAssignment, &["is a parameter"]),
        ("break", Code::Unsupported, &["parallel loop"]),
        ("return", Code::Unsupported, &["continue"]),
        ("y[i] = x[i", Code::Syntax, &["never closed"]),
        ("y[i] = ", Code::Syntax, &["the line ends where a value is expected"]),
        ("if x[i] > 0.0 && true { }", Code::Syntax, &["write `and`"]),
        ("let a = 1.0; let a = 2.0", Code::BadAssignment, &["declared twice"]),
        ("@unrol for k in 0..3 { }", Code::BadDecorator, &["did you mean `@unroll`?"]),
        ("var v: float = 1.0", Code::UnknownName, &["write `f32`"]),
        ("y[i] = squareroot(x[i])", Code::UnknownName, &["squareroot"]),
        ("for k in 4 { }", Code::Syntax, &["for k in 0..4"]),
        ("for k in range(4) { }", Code::Syntax, &["for k in 0..4"]),
        ("if x[i] = 0.0 { }", Code::Syntax, &["compare with `==`"]),
        ("y[i]++", Code::Syntax, &["`++` is no operator", "+= 1"]),
        ("float s = 0.0", Code::Syntax, &["var x = 0.0"]),
        ("parallel for k in 0..3 { }", Code::Syntax, &["`serial for`, `reduce for` or `scan for`"]),
        ("y[i] = math.sqrt(x[i])", Code::UnknownName, &["by their names alone"]),
        ("let a = [1, 2]", Code::Syntax, &["zeros(shape=3"]),
    ];
    for (text, code, words) in all {
        reject(&body(text), code, words);
    }
    reject("kernel f(x) { for i in 0..n { x[i + 1] = 0.0 } }", Code::UnknownName, &["nothing says how large `n` is"]);
    reject("compute f(x) { for i in 0..n { x[i] = 0.0 } }", Code::ReturnMismatch, &["stores nothing in `out`"]);
    reject("kernel f(x: array<f32, n>, a) { for i in 0..n { x[i] = a } }", Code::MissingAnnotation, &["a: f32"]);
    reject("kernel f(float x) { }", Code::Syntax, &["write types after names: `x: f32`"]);
    reject("def f():\n  pass\n", Code::Syntax, &["fn name"]);
    reject("import \"nothing.loom\"\n", Code::UnknownName, &["cannot be read"]);
    reject("from \"other.loom\" import twise\n", Code::UnknownName, &["did you mean `twice`?"]);
    reject(
        "kernel f(x: array<f32, n>) @kernel(elementwise) { for i in 1..n { let a = x[i - 1] } }",
        Code::BrokenPromise,
        &["no `elementwise`", "x[i - 1]"],
    );
    reject(
        "compute f(A, B) @kernel(matmul) { for i in 0..n { out[i] = A[i] * B[i] } }",
        Code::BrokenPromise,
        &["an index for rows and one for columns"],
    );
}

#[test]
fn several_mistakes_are_told_at_once() {
    let text = "kernel f(x: array<f32, n>) {\n    for i in 0..n {\n        x[i] = \n        x[i] = 1.0 +* 2.0\n        x[i = 2\n    }\n}\nfn g( -> f32 { }\n";
    let error = read(text).expect_err("the text has mistakes");
    assert!(error.diagnostics.len() >= 4, "{}", error.render(false));
}

#[test]
fn a_block_after_a_colon_has_statements() {
    for text in [
        "kernel k(m: i32) {\n    if m > 0 {\n  if m > 1:\n    }\n}\n",
        "kernel k(m: i32) {\n    if m > 1:\n}\n",
        "fn f(m: i32):\n",
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains("the block after `:` has no statements"), "{error}");
    }
}

#[test]
fn numbers_have_no_members() {
    let error = read("kernel k(x: array<f32, n>) { for i in 0..n { x[i] = x[2 . i] } }").expect_err("`2 . i`");
    assert!(error.to_string().contains("a number has no members"), "{error}");
}

#[test]
fn formatting_is_stable_and_keeps_comments_and_meaning() {
    let untidy = "// A file.\n\n\n\nkernel   f(x:array<f32,n>,a : f32)->y:array<f32 , n>@workgroup( 64 ){\n  // Each.\nfor i in 0 .. n{\n      let b = - x[ i ]*( a+1.0 ) // why\n if b<0.0:\n   y[i]=min(b,c = 2)\n else:\n        y[i] = -b\n // end\n}\n}\nfn g<T:Float>(x:T)->(T,T){return x,x}\n";
    let tidy = "// A file.\n\nkernel f(x: array<f32, n>, a: f32) -> y: array<f32, n> @workgroup(64) {\n    // Each.\n    for i in 0..n {\n        let b = -x[i] * (a + 1.0) // why\n        if b < 0.0:\n            y[i] = min(b, c=2)\n        else:\n            y[i] = -b\n        // end\n    }\n}\nfn g<T: Float>(x: T) -> (T, T) { return x, x }\n";
    let format = |text: &str| format_loom(&SourceFile::new("test.loom", text, 1)).expect("the text is read");
    assert_eq!(format(untidy), tidy);
    assert_eq!(format(tidy), tidy);
    assert_eq!(format(ISSUE), ISSUE);
}

/// Random kernels that are kept in files, as `.loom`: they are compiled, and most are the same to the letter.
#[test]
fn python_kernels_are_what_their_loom_text_is() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filetests/differential");
    let (mut n_same, mut n_other, mut without) = (0, 0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("there are such files").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a test is text").replace("check=True, ", "");
        // `kernel` is a word of `.loom`.
        let text = text.replace("check=True", "").replace("def kernel(", "def generated(");
        let loom = match loom_of_python(&text) {
            Ok(loom) => loom,
            Err(reason) => {
                without.push(reason);
                continue;
            }
        };
        let python = SourceUnit::parse(SourceFile::new("test.py", text.as_str(), 1)).expect("Python takes it");
        let unit = read(&loom).unwrap_or_else(|error| panic!("{}: {error}\n{loom}", path.display()));
        match hir(&python, "generated", &[]) == hir(&unit, "generated", &[]) {
            true => n_same += 1,
            false => n_other += 1,
        }
    }
    assert!(n_same > 2 * n_other && n_same > without.len(), "{n_same} are the same, {n_other} not; {without:?}");
}

/// Checks that `@shared` refuses a loop, at the marked place: `«` and `»` stand around it in the text.
#[track_caller]
fn refuse_staging(text: &str, words: &[&str]) {
    let place = (text.find('«').expect("a mark"), text.replace('«', "").find('»').expect("a mark"));
    let text = text.replace(['«', '»'], "");
    let error = checked(&text).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
    let rendered = error.render(false);
    let [diagnostic] = &error.diagnostics[..] else { panic!("{rendered}") };
    assert_eq!(diagnostic.code, Code::BadDecorator, "{rendered}");
    assert_eq!((diagnostic.span.start as usize, diagnostic.span.end as usize), place, "{rendered}");
    for word in words {
        assert!(rendered.contains(word), "no {word:?} in\n{rendered}");
    }
}

#[test]
fn what_cannot_be_staged_is_refused_at_its_place() {
    let kernel = |body: &str| {
        format!("kernel f(x: array<f32, n>, a: array<f32, m, n>, p: array<i32, n>) -> y: array<f32, n> {{ {body} }}")
    };
    let cases: [(&str, &[&str]); 14] = [
        ("@shared(x) for i in 0..n { y[i] = «x[p[i]]» }", &["a block reads along axis 0 is data"]),
        ("@shared(y) for i in 0..n { «y[i]» = x[i] }", &["`y` is written in this loop", "staged by this"]),
        ("@shared(«a») for i in 0..n { y[i] = x[i] }", &["this loop reads no element of `a`"]),
        ("@shared(a) for i in 0..m { let r = «a[i]»; y[i] = r[0] }", &["a part of `a` is used as an array"]),
        (
            "@shared(x) for i in 0..n { for k in «i..n» { y[i] += x[k] } }",
            &["bounds of `k` differ between the iterations"],
        ),
        ("@shared(x) for i in 0..n { for k in 0..n step «2» { y[i] += x[k] } }", &["has a step", "count by 1"]),
        (
            "@shared(a) for i in 0..n { for r in 0..m { for k in 0..n { y[i] += «a[r, k]» } } }",
            &["all values of `r` and of `k`"],
        ),
        (
            "@shared(x) for i in 0..n { if x[i] > 0.0 { for «k» in 0..n { y[i] += x[k] } } }",
            &["inside another statement"],
        ),
        (
            "@shared(x) for i in 0..n { for k in 0..n { if x[k] > 2.0 { «break» }; y[i] += x[k] } }",
            &["`break` leaves a loop"],
        ),
        (
            "@shared(x) for i in 0..n { if p[i] > 2 { «continue» }; for k in 0..n { y[i] += x[k] } }",
            &["`continue` ends an iteration"],
        ),
        (
            "@shared(x) for i in 0..n { let b = «y[i]»; for k in 0..n { y[i] = b + x[k] } }",
            &["`y` is read and written"],
        ),
        ("@shared(x) for i in 0..n / 4 { y[i] = «x[i * n]» }", &["how far apart the elements of `x` are along axis 0"]),
        ("«@workgroup(8, 8)» @shared(x) for i in 0..n { y[i] = x[i] }", &["of 1 indices", "@workgroup(256)"]),
        (
            "@workgroup(2) @shared(x) for i in 0..n step «2» { y[i] = x[i] }",
            &["a step of a loop whose blocks stage tiles"],
        ),
    ];
    for (body, words) in cases {
        refuse_staging(&kernel(body), words);
    }
    let large =
        "@workgroup(32, 32) @shared(«a») for i in 0..m, j in 0..n { for k in 0..1000 { z[i, j] += a[i + 31 * k, j] } }";
    let text = format!("kernel f(a: array<f32, k, n>, m: i32) -> z: array<f32, m, n> {{ {large} }}");
    refuse_staging(&text, &["elements, of which", "write smaller extents in `@workgroup`"]);
}

#[test]
fn staged_loops_are_launched_in_whole_blocks() {
    let unit = accept(&ISSUE.replace("@workgroup(16, 16)", "@workgroup(16, 8) @shared(A, B)"));
    let array = |shape: &[u64]| ShapeArgument::Array(shape.to_vec());
    let bound = program(&unit, "matmul").bind(&[array(&[17, 3]), array(&[3, 9])]).expect("shapes agree");
    assert_eq!(bound.results, [vec![17, 9]]);
    assert_eq!(bound.launches[0].dim, Some(vec![2 * 2 * 16 * 8]));
    let matrix = Type::array(polyloom_ir::Scalar::F32, 2);
    let staged = hir(&unit, "matmul", &[matrix, matrix]);
    assert!(staged.contains("workgroup_size = (8, 16, 1)"), "{staged}");
    assert_eq!(staged.matches("shared_array").count(), 2, "{staged}");
    assert_eq!(staged.matches("sync_threads").count(), 2, "{staged}");
}

#[test]
fn products_of_matrices_are_known() {
    let product = |term: &str, rest: &str| {
        let text = format!(
            "compute f(A, B) @kernel(matmul) {{ for i in 0..M, j in 0..N {{ var s = 0.0; for k in 0..K {{ {term} }}; out[i, j] = s{rest} }} }}"
        );
        let factor = |factor: MatrixFactor| (factor.param, factor.is_transposed);
        let found = program(&accept(&text), "f").product;
        found.map(|product| (factor(product.left), factor(product.right), product.is_fused))
    };
    let as_is = |param: usize| (param, false);
    assert_eq!(product("s += A[i, k] * B[k, j]", ""), Some((as_is(0), as_is(1), false)));
    assert_eq!(product("s += B[k, j] * A[i, k]", ""), Some((as_is(0), as_is(1), false)));
    assert_eq!(product("s += B[i, k] * A[k, j]", ""), Some((as_is(1), as_is(0), false)));
    assert_eq!(product("s = fma(A[i, k], B[k, j], s)", ""), Some((as_is(0), as_is(1), true)));
    assert_eq!(product("s += A[i, k] * B[j, k]", ""), Some((as_is(0), (1, true), false)));
    assert_eq!(product("s = fma(B[k, j], A[k, i], s)", ""), Some(((0, true), as_is(1), true)));
    assert_eq!(product("s += A[i, k] * B[k, j]", " + 1.0"), None);
}
