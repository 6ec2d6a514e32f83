//! Identities: what keeps a hash, what changes it, and that canonical forms compute what they stand for.

use crate::random_graphs::{Random, disguised, random_graph, random_inputs};
use crate::support::graph;
use polyloom_graph::canonical::IdentityStrength::{Bits, Mathematics};
use polyloom_graph::canonical::{ConstantPrecision, GraphHash, IdentityOptions, IdentityStrength, canonicalise};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{AttributeValue, Graph, TensorDef, TensorId, TensorOp, verify};
use polyloom_ir::Scalar::{self, BF16, Bool, F16, F32, F64, I8, I32, I64, U8, U32};
use std::collections::BTreeMap;
use std::fmt::Write;

const DTYPES: &[Scalar] = &[F32, F32, F32, F64, F16, BF16, I32, U8, I8, U32, I64, Bool];

fn hash(graph: &Graph, strength: IdentityStrength) -> GraphHash {
    canonicalise(graph, IdentityOptions::of(strength)).unwrap().hash()
}

/// Returns true if tensors have the same bits, NaN being equal to NaN.
fn are_same(a: &[DenseTensor], b: &[DenseTensor]) -> bool {
    let is_same = |a: &DenseTensor, b: &DenseTensor| {
        let pairs = a.bits.iter().zip(&b.bits).zip(a.numbers().into_iter().zip(b.numbers()));
        a.dtype == b.dtype
            && a.extents == b.extents
            && pairs.into_iter().all(|((x, y), (p, q))| x == y || p.is_nan() && q.is_nan())
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}

/// Checks that two graphs have one identity of a strength, or have not.
#[track_caller]
fn check(a: &str, b: &str, strength: IdentityStrength, are_equal: bool) {
    let inputs = "%x = input \"x\" : f32[2, 3]\n%y = input \"y\" : f32[2, 3]\n%w = input \"w\" : f32[3, 4]\n\
        %n = input \"n\" : i32[3]\n%m = input \"m\" : i32[3]\n%s = input \"s\" : f32[]\n";
    let [a, b] = [a, b].map(|body| graph(&format!("{inputs}{body}\nreturn %r")));
    let [canonical_a, canonical_b] = [&a, &b].map(|graph| canonicalise(graph, IdentityOptions::of(strength)).unwrap());
    let are_alike = canonical_a.hash() == canonical_b.hash();
    assert_eq!(are_alike, are_equal, "{}\n{}", canonical_a.text(), canonical_b.text());
    assert_eq!(canonical_a.text() == canonical_b.text(), are_equal);
}

/// Graphs of the same bits.
#[test]
fn laws_that_keep_bits_keep_the_identity_of_bits() {
    for (a, b) in [
        ("%r = add %x, %y", "%r = add %y, %x"),
        ("%r = greater %x, %y", "%r = less %y, %x"),
        ("%r = maximum %x, %x", "%r = reshape %x, shape=(2, 3)"),
        ("%r = square %x", "%r = multiply %x, %x"),
        ("%r = sigmoid %x", "%a = negative %x\n%b = exp %a\n%c = add 1, %b\n%r = reciprocal %c"),
        ("%r = relu %x", "%r = maximum 0, %x"),
        ("%a = negative %y\n%r = add %a, %x", "%r = subtract %x, %y"),
        ("%r = add %x, %x", "%r = multiply %x, 2"),
        ("%r = multiply %x, 1", "%a = negative %x\n%r = negative %a"),
        ("%a = add 1.0, 2.0\n%b = cast %a, dtype=f32\n%r = multiply %x, %b", "%r = multiply %x, 3"),
        ("%a = cast %x, dtype=f64\n%r = cast %a, dtype=f32", "%r = contiguous %x"),
        (
            "%a = sum %x, axes=(1), keepdims=true\n%r = subtract %x, %a",
            "%a = sum %x, axes=(1)\n%b = reshape %a, shape=(2, 1)\n%r = subtract %x, %b",
        ),
        ("%a = transpose %x\n%b = exp %a\n%r = transpose %b", "%r = exp %x"),
        ("%a = matmul %x, %w\n%r = transpose %a", "%a = transpose %x\n%b = transpose %w\n%r = matmul %b, %a"),
        ("%r = matmul %x, %w", "%r = einsum %x, %w, equation=\"ij,jk->ik\""),
        ("%a = transpose %x\n%b = matmul %x, %a\n%r = transpose %b", "%a = transpose %x\n%r = matmul %x, %a"),
        ("%a = broadcast_to %s, shape=(2, 3)\n%r = add %x, %a", "%r = add %s, %x"),
        ("%r = mean %x", "%a = sum %x\n%r = divide %a, 6"),
        ("%a = flip %x\n%r = flip %a, axes=(0)", "%r = flip %x, axes=(1)"),
        ("%a = max %x, axes=(0)\n%r = max %a", "%r = max %x"),
        (
            "%a = absolute %x\n%b = negative %a\n%c = absolute %b\n%r = add %c, %x",
            "%a = absolute %x\n%b = absolute %a\n%r = add %b, %x",
        ),
        ("%c = less %x, %y\n%d = logical_not %c\n%r = where %d, %x, %y", "%c = less %x, %y\n%r = where %c, %y, %x"),
    ] {
        check(a, b, Bits, true);
        check(a, b, Mathematics, true);
    }
}

/// Graphs that are equal over the real numbers, and not in their bits.
#[test]
fn laws_over_the_reals_keep_the_identity_of_the_mathematics_alone() {
    for (a, b) in [
        ("%a = add %x, %y\n%r = add %a, 1", "%a = add %y, 1\n%r = add %x, %a"),
        ("%r = add %x, 0", "%r = contiguous %x"),
        ("%r = subtract %x, %x", "%r = multiply %x, 0"),
        ("%a = add %x, %y\n%r = subtract %a, %y", "%r = contiguous %x"),
        ("%r = divide %x, 3", "%r = multiply %x, 0.3333333333333333"),
        ("%a = subtract %x, %y\n%r = negative %a", "%r = subtract %y, %x"),
        ("%r = power %x, 2.0", "%r = square %x"),
        ("%r = rsqrt %x", "%a = sqrt %x\n%r = divide 1.0, %a"),
        ("%r = softmax %x", "%a = exp %x\n%b = sum %a, axes=(1), keepdims=true\n%r = divide %a, %b"),
        ("%r = log_softmax %x", "%a = softmax %x\n%r = log %a"),
        ("%r = logsumexp %x", "%a = exp %x\n%b = sum %a\n%r = log %b"),
        ("%r = mean %x", "%a = mean %x, axes=(0)\n%r = mean %a"),
        ("%a = multiply %x, %s\n%r = sum %a", "%a = sum %x\n%r = multiply %s, %a"),
        ("%a = add %x, %y\n%r = sum %a, axes=(0)", "%a = sum %x, axes=(0)\n%b = sum %y, axes=(0)\n%r = add %b, %a"),
        ("%a = multiply %x, 2\n%r = max %a", "%a = max %x\n%r = multiply %a, 2"),
        ("%r = tan %x", "%a = sin %x\n%b = cos %x\n%r = divide %a, %b"),
        ("%a = negative %x\n%r = sin %a", "%a = sin %x\n%r = negative %a"),
        ("%a = log2 %x\n%r = exp2 %a", "%a = log %x\n%r = exp %a"),
    ] {
        let is_half_third = a.contains("divide %x, 3");
        if !is_half_third {
            check(a, b, Mathematics, true);
        }
        check(a, b, Bits, false);
    }
}

/// Graphs that differ in a way that a canonical form might lose.
#[test]
fn near_misses_have_other_identities() {
    for (a, b) in [
        ("%r = subtract %x, %y", "%r = subtract %y, %x"),
        ("%r = less %x, %y", "%r = less_equal %x, %y"),
        ("%r = softmax %x", "%r = softmax %x, axis=0"),
        ("%r = layer_norm %x", "%r = layer_norm %x, epsilon=1e-6"),
        ("%r = sum %x, axes=(0), keepdims=true", "%r = sum %x, axes=(0)"),
        ("%r = gelu %x", "%r = gelu %x, approximate=\"tanh\""),
        ("%r = matmul %x, %w", "%a = flip %w\n%r = matmul %x, %a"),
        ("%a = transpose %x\n%r = matmul %x, %a", "%a = transpose %y\n%r = matmul %y, %a"),
        ("%a = maximum %x, 0\n%r = minimum %a, 1", "%a = maximum %x, 0\n%r = minimum %a, 2"),
        ("%a = cast %n, dtype=i8\n%r = cast %a, dtype=i32", "%r = contiguous %n"),
        ("%a = cast %n, dtype=f32\n%r = cast %a, dtype=i32", "%r = contiguous %n"),
        ("%r = multiply %n, 3", "%r = multiply %m, 3"),
        ("%r = floor_divide %n, 2", "%r = right_shift %n, 2"),
        ("%r = var %x", "%r = var %x, correction=1"),
        ("%a = subtract %x, %y\n%r = absolute %a", "%a = add %x, %y\n%r = absolute %a"),
        ("%r = argmax %x, axis=1", "%r = argmin %x, axis=1"),
    ] {
        check(a, b, Bits, false);
        check(a, b, Mathematics, false);
    }
    // -0.0 is another number in the bits alone, and NaN is one number whatever its bits are.
    check("%r = maximum %x, 0.0", "%r = maximum %x, -0.0", Bits, false);
    check("%r = maximum %x, 0.0", "%r = maximum %x, -0.0", Mathematics, true);
    let with_bits = |bits: u64| {
        let mut graph = graph(
            "%x = input \"x\" : f32[2]\n%c = constant NaN : f32[]\n%r = where true, %x, %c\n%q = add %c, %x\nreturn %q",
        );
        for value in &mut graph.values {
            if matches!(value.def, TensorDef::Constant(other) if other > 1) {
                value.def = TensorDef::Constant(bits);
            }
        }
        graph
    };
    assert_eq!(hash(&with_bits(0x7fc0_0000), Bits), hash(&with_bits(0xffc0_1234), Bits));
}

/// Names, order, sharing, commuted operands and values that nobody needs do not matter.
#[test]
fn disguises_keep_the_hash() {
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let graph = random_graph(random, DTYPES);
        let other = disguised(&graph, random);
        verify(&other).unwrap();
        for strength in [Bits, Mathematics] {
            let [a, b] = [&graph, &other].map(|graph| canonicalise(graph, IdentityOptions::of(strength)).unwrap());
            assert_eq!(a.hash(), b.hash(), "seed {seed}\n{graph}\n{}\n{}", a.text(), b.text());
            assert_eq!(a.text(), b.text(), "seed {seed}");
        }
    }
}

/// The canonical form of the bits computes them.
#[test]
fn canonical_forms_of_bits_compute_the_same_bits() {
    for seed in 0..600 {
        let random = &mut Random::new(seed);
        let graph = random_graph(random, DTYPES);
        let canonical = canonicalise(&graph, IdentityOptions::of(Bits)).unwrap();
        let restored = canonical.to_graph().unwrap();
        verify(&restored).unwrap();
        assert_eq!(hash(&restored, Bits), canonical.hash(), "seed {seed}\n{graph}\n{}", canonical.text());
        for has_any_bits in [false, true] {
            let inputs = random_inputs(&graph, random, has_any_bits);
            let want = evaluate(&graph, &inputs).unwrap();
            let got = evaluate(&restored, &inputs).unwrap();
            assert!(are_same(&got, &want), "seed {seed}\n{graph}\n{restored}\n{got:?}\n{want:?}");
        }
    }
}

/// The canonical form of the mathematics computes the same numbers, but for rounding, where both are defined.
#[test]
fn canonical_forms_of_the_mathematics_are_equal_over_the_reals() {
    let mut n_compared = 0;
    for seed in 0..6000 {
        let random = &mut Random::new(seed);
        let graph = random_graph(random, &[F64]);
        let is_smooth = |def: &TensorDef| match def {
            TensorDef::Op { op, .. } => !has_jumps(*op),
            _ => true,
        };
        // A rounding error before a jump is an error of any size after it.
        if !graph.values.iter().all(|value| is_smooth(&value.def) && value.ty.dtype == F64) {
            continue;
        }
        let restored = canonicalise(&graph, IdentityOptions::of(Mathematics)).unwrap().to_graph().unwrap();
        verify(&restored).unwrap();
        let inputs = random_inputs(&graph, random, false);
        let (want, got) = (evaluate(&graph, &inputs).unwrap(), evaluate(&restored, &inputs).unwrap());
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.numbers(), want.numbers());
            let is_usual = |x: f64| x.is_finite() && x.abs() < 1e8;
            let scale = want.iter().filter(|x| is_usual(**x)).fold(1.0, |scale: f64, x| scale.max(x.abs()));
            for (got, want) in got.into_iter().zip(want).filter(|&(got, want)| is_usual(got) && is_usual(want)) {
                n_compared += 1;
                assert!((got - want).abs() <= 1e-6 * scale, "seed {seed}: {got} {want}\n{graph}\n{restored}");
            }
        }
    }
    assert!(n_compared > 1000, "{n_compared}");
}

fn has_jumps(op: TensorOp) -> bool {
    let jumps =
        "floor_divide remainder sign floor ceil trunc round argmax argmin argsort topk_indices sort bitcast power";
    jumps.split(' ').any(|name| name == op.name())
}

/// A graph that computes something else has another hash.
#[test]
fn changes_of_meaning_alter_the_hash() {
    let mut n_changed = 0;
    for seed in 0..500 {
        let random = &mut Random::new(seed);
        let graph = random_graph(random, DTYPES);
        let Some(other) = mutated(&graph, random) else { continue };
        let inputs = random_inputs(&graph, random, false);
        let (Ok(a), Ok(b)) = (evaluate(&graph, &inputs), evaluate(&other, &inputs)) else { continue };
        if are_same(&a, &b) {
            continue;
        }
        n_changed += 1;
        assert_ne!(hash(&graph, Bits), hash(&other, Bits), "seed {seed}\n{graph}\n{other}");
    }
    assert!(n_changed > 80, "{n_changed}");
}

/// Changes an op, a constant, an attribute or an operand.
fn mutated(graph: &Graph, random: &mut Random) -> Option<Graph> {
    let ops: Vec<TensorOp> = TensorOp::all().map(|info| info.op).collect();
    (0..60).find_map(|_| {
        let mut other = graph.clone();
        let index = random.below(graph.values.len());
        match &mut other.values[index].def {
            TensorDef::Constant(bits) => *bits ^= 1 << random.below(graph.values[index].ty.dtype.bits() as usize),
            TensorDef::Op { op, operands, attributes } => match random.below(3) {
                0 => *op = ops[random.below(ops.len())],
                1 => {
                    let n_operands = operands.len().max(1);
                    *operands.get_mut(random.below(n_operands))? = TensorId(random.below(index.max(1)) as u32);
                }
                _ => match attributes.0.first_mut()? {
                    AttributeValue::Int(value) => *value += 1,
                    AttributeValue::Float(value) => *value += 0.25,
                    AttributeValue::Bool(value) => *value = !*value,
                    AttributeValue::Ints(values) if values.len() > 1 => values.swap(0, 1),
                    _ => return None,
                },
            },
            _ => return None,
        }
        (verify(&other).is_ok() && other != *graph).then_some(other)
    })
}

/// A value that is used twice at each of 1,000 steps is hashed once.
#[test]
fn shared_graphs_are_hashed_as_graphs() {
    let chain = |op: &str, n: usize| {
        let mut text = "%0 = input \"x\" : f32[4]\n".to_owned();
        for step in 1..=n {
            writeln!(text, "%{step} = {op} %{}, %{}", step - 1, step - 1).unwrap();
        }
        writeln!(text, "return %{n}").unwrap();
        graph(&text)
    };
    for op in ["add", "multiply", "subtract", "maximum", "hypot", "divide", "atan2"] {
        for strength in [Bits, Mathematics] {
            let canonical = canonicalise(&chain(op, 1000), IdentityOptions::of(strength)).unwrap();
            assert!(canonical.n_terms() < 8000, "{op} {strength:?}: {}", canonical.n_terms());
            assert!(canonical.text().len() < 4_000_000);
        }
    }
    assert_ne!(hash(&chain("add", 1000), Mathematics), hash(&chain("add", 999), Mathematics));
}

#[test]
fn symbols_are_known_by_their_place() {
    let with = |n: &str, m: &str| {
        graph(&format!(
            "%x = input \"x\" : f32[{n}, {m}]\n%a = mean %x, axes=(1), keepdims=true\n%b = subtract %x, %a\n\
             %c = reshape %b, shape=[{n}, 1, {m}]\nreturn %c"
        ))
    };
    for strength in [Bits, Mathematics] {
        assert_eq!(hash(&with("n", "m"), strength), hash(&with("rows", "columns"), strength));
        assert_eq!(hash(&with("n", "m"), strength), hash(&with("m", "n"), strength));
        assert_ne!(hash(&with("n", "m"), strength), hash(&with("n", "n"), strength));
        assert_ne!(hash(&with("n", "m"), strength), hash(&with("n", "3"), strength));
    }
}

#[test]
fn buckets_bring_constants_together() {
    let with = |number: f64| graph(&format!("%x = input \"x\" : f32[3]\n%r = multiply %x, {number:?}\nreturn %r"));
    let bucketed = |number: f64| {
        let options = IdentityOptions { strength: Bits, constants: ConstantPrecision::Bucketed };
        canonicalise(&with(number), options).unwrap().hash()
    };
    assert_eq!(bucketed(0.1), bucketed(0.105));
    assert_ne!(hash(&with(0.1), Bits), hash(&with(0.105), Bits));
    assert_ne!(bucketed(0.1), bucketed(0.2));
    assert_ne!(bucketed(0.1), bucketed(-0.1));
    assert_ne!(bucketed(0.1), hash(&with(0.1), Bits));
}

/// The laws that ops say they have are those that the evaluator shows, NaN being equal to NaN.
#[test]
fn ops_have_the_laws_that_they_say() {
    let binary = TensorOp::all().filter(|info| {
        info.signature.tensors.len() == 2 && info.kind == polyloom_graph::op::TensorKernelKind::Elementwise
    });
    let mut n_ops = 0;
    for info in binary.filter(|info| info.signature.attributes.is_empty()) {
        n_ops += 1;
        let (mut is_commutative, mut is_idempotent) = (true, true);
        for &dtype in &[F32, F64, F16, BF16, I8, U8, I32, I64, Bool] {
            let text = |a: &str, b: &str| {
                format!(
                    "%x = input \"x\" : {dtype}[400]\n%y = input \"y\" : {dtype}[400]\n%r = {} {a}, {b}\nreturn %r",
                    info.name
                )
            };
            let Ok(forward) = polyloom_graph::parse_graph(&text("%x", "%y")) else { continue };
            let [backward, with_itself] = [graph(&text("%y", "%x")), graph(&text("%x", "%x"))];
            let inputs = random_inputs(&forward, &mut Random::new(7), true);
            let [forward, backward, with_itself] =
                [&forward, &backward, &with_itself].map(|graph| evaluate(graph, &inputs).unwrap());
            is_commutative &= are_same(&forward, &backward);
            is_idempotent &= with_itself[0].dtype != dtype || are_same(&with_itself, &inputs[..1]);
        }
        assert_eq!(is_commutative, info.op.is_commutative(), "{}", info.name);
        assert!(is_idempotent || !info.op.is_idempotent(), "{}", info.name);
    }
    assert!(n_ops > 20);
}

/// Hashes are the same in every process, on every machine and in every version of the program. Where one changes with the decomposition of
/// an op, what was measured of its graphs is lost, which must be worth it. Where all change, the format has changed: raise `OP_SET_VERSION`.
/// Either way write the file anew with `POLYLOOM_BLESS=1`.
#[test]
fn known_hashes_stay() {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    let mut note = |name: String, graph: &Graph| {
        let identity = graph.identity().unwrap();
        lines.insert(name, format!("{} {}", identity.bits.hash, identity.mathematics.hash));
    };
    for info in TensorOp::all() {
        // Each op on the first operands that it takes.
        let shapes = ["f32[2, 4]", "f32[]", "u32[4]", "i64[]", "f32[2, 4, 6, 6]", "f32[3, 4, 6]"];
        let attributes = [
            "",
            ", axis=0",
            ", shape=(8)",
            ", shape=(2, 2, 4)",
            ", axes=(1, 0)",
            ", axes=(0)",
            ", dtype=f64",
            ", dtype=i32",
            ", k=2",
            ", groups=2",
            ", classes=3",
            ", starts=(0, 1), sizes=(2, 2), steps=(1, 1)",
            ", widths=(0, 1, 2, 0)",
            ", repeats=(1, 2)",
            ", size=2",
            ", a_labels=(0, 1), b_labels=(0, 1), labels=(0)",
            ", equation=\"ab,ab->a\"",
            ", equation=\"ab->ba\"",
            ", axes=(1), sizes=(2), steps=(1), dilations=(1)",
            "shape=(2, 3)",
        ];
        let count = info.signature.tensor_counts().0.max(1);
        let tries = shapes.iter().flat_map(|first| shapes.iter().map(move |second| (first, second)));
        let found = tries.flat_map(|pair| attributes.iter().map(move |attributes| (pair, attributes))).find_map(|((first, second), attributes)| {
            let operands: Vec<String> = (0..count).map(|place| format!("%{}", place.min(1))).collect();
            let operands = if attributes.starts_with(',') || attributes.is_empty() { operands.join(", ") } else { String::new() };
            let text = format!("%0 = input \"a\" : {first}\n%1 = input \"b\" : {second}\n%r = {} {operands}{attributes}\nreturn %r", info.name);
            polyloom_graph::parse_graph(&text).ok()
        });
        if let Some(graph) = found {
            note(format!("op {}", info.name), &graph);
        }
    }
    assert!(lines.len() > 110, "{}", lines.len());
    let mut note = |name: String, graph: &Graph| {
        let identity = graph.identity().unwrap();
        lines.insert(name, format!("{} {}", identity.bits.hash, identity.mathematics.hash));
    };
    for seed in 0..60 {
        note(format!("random {seed:02}"), &random_graph(&mut Random::new(seed), DTYPES));
    }
    note(
        "symbols".to_owned(),
        &graph("%x = input \"x\" : f32[n, 5]\n%y = layer_norm %x\n%z = mean %y, axes=(0)\nreturn %z, %y"),
    );
    let text: String = lines.iter().map(|(name, hashes)| format!("{name}: {hashes}\n")).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/main/identity.txt");
    if std::env::var_os("POLYLOOM_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    for (got, want) in text.lines().zip(known.lines()) {
        assert_eq!(got, want, "a known hash changed");
    }
    assert_eq!(text, known);
}
