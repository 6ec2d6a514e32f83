//! Paths: all of them compute their graph, the best-looking come first, and none does the same as another one with more words.

use crate::support::{graph, numbers, tensor};
use polyloom_graph::cost::MachineCosts;
use polyloom_graph::path::{ComputePath, PathGenerator, PathLimits, PathRequest, PathVariant, StopReason};
use polyloom_graph::recipe::{RecipeIdentity, RecipeStep, VerifiedRecipe};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::registry::{KernelEntry, KernelForm, KernelPattern};
use polyloom_graph::{Backend, Graph, KernelRegistry, MemorySpace, Recipe, Residence, TensorDef, TensorId, TensorOp};
use polyloom_ir::Scalar;
use std::collections::HashMap;
use std::time::Duration;

/// Many paths, and as much time as they take.
const UNHURRIED: PathLimits = PathLimits { n_paths: 400, time: Duration::from_secs(600), n_prefixes: 1_000_000 };

fn collect(request: &PathRequest, backends: &[Backend], limits: PathLimits) -> (Vec<ComputePath>, Option<StopReason>) {
    let registry = KernelRegistry::with_backends(backends);
    let mut generator = PathGenerator::new(request.clone(), &registry, MachineCosts::default(), limits);
    let paths: Vec<ComputePath> = generator.by_ref().collect();
    assert_eq!(generator.error(), None);
    (paths, generator.stop_reason())
}

/// Runs a recipe step by step with the reference evaluator. A step reads at the residence of its backend alone.
fn run(recipe: &VerifiedRecipe, inputs: &[DenseTensor]) -> Vec<DenseTensor> {
    let program = &recipe.program;
    let mut values: HashMap<(TensorId, Residence), DenseTensor> = HashMap::new();
    let ids = program.iter().filter(|(_, value)| matches!(value.def, TensorDef::Input(_))).map(|(id, _)| id);
    for ((id, input), &residence) in ids.zip(inputs).zip(&recipe.recipe.inputs) {
        values.insert((id, residence), input.clone());
    }
    for step in &recipe.recipe.steps {
        match step {
            RecipeStep::CopyTo { value, from, to } => {
                let copy = values[&(TensorId(*value), *from)].clone();
                values.insert((TensorId(*value), *to), copy);
            }
            RecipeStep::Run(group) => {
                let residence = group.backend.residence();
                let part = group.graph(program).unwrap();
                let read: Vec<DenseTensor> =
                    part.inputs.iter().map(|&input| values[&(input, residence)].clone()).collect();
                for (&id, result) in part.outputs.iter().zip(evaluate(&part.graph, &read).unwrap()) {
                    values.insert((id, residence), result);
                }
            }
        }
    }
    program.outputs.iter().map(|&output| values[&(output, recipe.recipe.outputs)].clone()).collect()
}

/// Checks that a path can run, and that reading its text gives it again.
#[track_caller]
fn check_path(path: &ComputePath, graph: &Graph, registry: &KernelRegistry) -> VerifiedRecipe {
    let text = path.recipe.to_json();
    let read = Recipe::from_json(&text).unwrap();
    assert_eq!(read, path.recipe);
    let verified = read.verify().unwrap_or_else(|error| panic!("{error}\n{text}"));
    verified.fits(graph, &[7; 32]).unwrap();
    verified.check_kernels(registry).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(path.predicted.steps.len(), path.recipe.steps.len());
    verified
}

#[test]
fn two_nodes_on_two_backends() {
    let graph = graph("%0 = input \"x\" : f32[64]\n%1 = exp %0\n%2 = add %1, %0\nreturn %2");
    let backends = [Backend::CpuNative, Backend::CpuTorch];
    let (paths, reason) = collect(&PathRequest::new(graph.clone(), [7; 32]), &backends, UNHURRIED);
    assert_eq!(reason, Some(StopReason::Exhausted));
    let registry = KernelRegistry::with_backends(&backends);
    let x = tensor(Scalar::F32, &[64], &numbers(64));
    let expected = evaluate(&graph, std::slice::from_ref(&x)).unwrap();
    for path in &paths {
        assert_eq!(run(&check_path(path, &graph, &registry), std::slice::from_ref(&x)), expected);
    }
    // Both natively, together or apart; both by PyTorch; one each, in both orders.
    assert_eq!(paths.len(), 5);
    let steps: Vec<String> = paths[0].recipe.steps.iter().map(|step| format!("{step:?}")).collect();
    assert_eq!(steps.len(), 1, "{steps:?}");
    let ns: Vec<f64> = paths.iter().map(|path| path.predicted.total_ns()).collect();
    assert!(ns.is_sorted(), "{ns:?}");
    assert!(
        paths.iter().all(|path| path.recipe.backends() != [Backend::CpuTorch] || path.predicted.transfer_ns() > 0.0)
    );
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Makes the text of a graph of so many ops over small matrices.
fn random_text(random: &mut Random, n_ops: usize) -> String {
    const UNARY: [&str; 10] =
        ["exp", "tanh", "gelu", "relu", "sigmoid", "negative", "softmax", "log_softmax", "square", "contiguous"];
    const BINARY: [&str; 4] = ["add", "multiply", "subtract", "maximum"];
    let mut lines = String::new();
    let mut shapes: Vec<[u64; 2]> = vec![[3, 4], [3, 4], [4, 3], [1, 4]];
    for (index, shape) in shapes.iter().enumerate() {
        lines += &format!("%{index} = input \"x{index}\" : f32{shape:?}\n");
    }
    for _ in 0..n_ops {
        let a = random.below(shapes.len());
        let shape = shapes[a];
        let next = shapes.len();
        let fits = |b: &usize| shapes[*b].iter().zip(shape).all(|(&m, n)| m == n || m == 1);
        let others: Vec<usize> = (0..next).filter(fits).collect();
        let (line, shape) = match random.below(10) {
            0..3 => (format!("{} %{a}", UNARY[random.below(UNARY.len())]), shape),
            3..6 => {
                let b = others[random.below(others.len())];
                (format!("{} %{a}, %{b}", BINARY[random.below(BINARY.len())]), shape)
            }
            6 => (format!("sum %{a}, axes=(1), keepdims=true"), [shape[0], 1]),
            7 => (format!("transpose %{a}"), [shape[1], shape[0]]),
            8 => match shapes.iter().position(|other| other[0] == shape[1]) {
                Some(b) => (format!("matmul %{a}, %{b}"), [shape[0], shapes[b][1]]),
                None => (format!("cumsum %{a}, axis=1"), shape),
            },
            _ => (format!("multiply %{a}, 0.5"), shape),
        };
        // A number is a value of its own in the text that is printed, and none in this one.
        lines += &format!("%{next} = {line}\n");
        shapes.push(shape);
    }
    let last = shapes.len() - 1;
    format!("{lines}return %{last}, %{}", 4 + random.below(shapes.len() - 4))
}

#[test]
fn every_path_computes_its_graph() {
    let mut random = Random(34);
    let mut n_paths = 0;
    for round in 0..40 {
        let n_ops = 1 + random.below(9);
        let text = random_text(&mut random, n_ops);
        let graph = graph(&text);
        let inputs: Vec<DenseTensor> = graph
            .inputs()
            .map(|(_, ty)| {
                let extents = ty.shape.as_static().unwrap();
                let n = extents.iter().product::<u64>() as usize;
                tensor(Scalar::F32, &extents, &numbers(n + round)[round..])
            })
            .collect();
        let expected = evaluate(&graph, &inputs).unwrap();
        let mut request = PathRequest::new(graph.clone(), [7; 32]);
        request.inputs = (0..4).map(|_| Residence::ALL[random.below(5)]).collect();
        request.outputs = Residence::ALL[random.below(5)];
        request.allows_simulator = true;
        let limits = PathLimits { n_paths: 25, ..UNHURRIED };
        let (paths, _) = collect(&request, &Backend::ALL, limits);
        assert!(!paths.is_empty(), "{text}");
        let registry = KernelRegistry::with_backends(&Backend::ALL);
        for path in &paths {
            let verified = check_path(path, &graph, &registry);
            assert_eq!(run(&verified, &inputs), expected, "{text}\n{}", path.recipe.to_json());
            n_paths += 1;
        }
    }
    assert!(n_paths > 400, "{n_paths}");
}

/// Between tensors of a GPU: a kernel of the whole op, its parts on the GPU, and a detour over the CPU.
#[test]
fn whole_ops_parts_and_detours_appear() {
    let graph = graph("%0 = input \"x\" : f32[8, 16]\n%1 = softmax %0\n%2 = exp %1\nreturn %2");
    let mut request = PathRequest::new(graph, [7; 32]);
    request.inputs = vec![Residence::TorchCuda];
    request.outputs = Residence::TorchCuda;
    let backends = [Backend::GpuTorch, Backend::CpuNumpy, Backend::GpuCuda];
    let (paths, _) = collect(&request, &backends, PathLimits { n_paths: 3000, ..UNHURRIED });
    let has = |wanted: &dyn Fn(&ComputePath) -> bool| paths.iter().any(wanted);
    let is_on = |path: &ComputePath, backend| path.recipe.backends() == [backend];
    assert!(has(&|path| is_on(path, Backend::GpuTorch) && path.recipe.steps.len() == 2), "softmax is one call");
    assert!(has(&|path| is_on(path, Backend::GpuTorch) && path.recipe.steps.len() > 4), "softmax is its parts");
    assert!(has(&|path| is_on(path, Backend::GpuCuda) && path.recipe.groups().count() == 1), "all is one plan");
    let detours = |path: &ComputePath| {
        let spaces = path.recipe.groups().map(|group| group.backend.residence().memory());
        let spaces: Vec<MemorySpace> = spaces.collect();
        spaces.contains(&MemorySpace::Host) && spaces.contains(&MemorySpace::Device)
    };
    assert!(has(&detours), "a part on the CPU");
    // The GPU's own paths are far below those that leave it.
    assert!(!detours(&paths[0]));
}

#[test]
fn nothing_is_copied_away_and_back_for_views_alone() {
    let paths_of = |view: &str| {
        let text = format!("%0 = input \"x\" : f32[8, 16]\n%1 = exp %0\n%2 = {view}\n%3 = tanh %2\nreturn %3");
        let mut request = PathRequest::new(graph(&text), [7; 32]);
        request.inputs = vec![Residence::TorchCuda];
        request.outputs = Residence::TorchCuda;
        let (paths, reason) = collect(&request, &[Backend::GpuTorch, Backend::CpuNumpy], UNHURRIED);
        assert_eq!(reason, Some(StopReason::Exhausted));
        paths
    };
    let is_loop = |path: &ComputePath| {
        let on_host: Vec<u32> =
            path.recipe.groups().filter(|g| g.backend == Backend::CpuNumpy).flat_map(|g| g.nodes.clone()).collect();
        on_host == [2] || on_host == [1, 3]
    };
    let paths = paths_of("permute %1, axes=(1, 0)");
    assert!(!paths.iter().any(is_loop));
    // Eight ways to deal three nodes to two backends, and two of them are such loops, from either memory.
    assert_eq!(paths.len(), 6);
    // A composite op has a second form, and is a view in both.
    let paths = paths_of("transpose %1");
    assert!(!paths.iter().any(is_loop));
    assert_eq!(paths.len(), 12);
}

#[test]
fn a_search_says_why_it_stopped() {
    let text = "%0 = input \"x\" : f32[64]\n%1 = exp %0\n%2 = tanh %1\n%3 = add %2, %0\nreturn %3";
    let request = PathRequest::new(graph(text), [7; 32]);
    let backends = [Backend::CpuNative, Backend::CpuNumpy];
    let stopped = |limits| {
        let (paths, reason) = collect(&request, &backends, limits);
        (paths.len(), reason)
    };
    assert_eq!(stopped(PathLimits { n_paths: 3, ..UNHURRIED }), (3, Some(StopReason::PathLimit)));
    let (n_in_no_time, reason) = stopped(PathLimits { time: Duration::ZERO, ..UNHURRIED });
    assert!(n_in_no_time >= 1);
    assert_eq!(reason, Some(StopReason::TimeLimit));
    let (n_all, reason) = stopped(UNHURRIED);
    assert_eq!(reason, Some(StopReason::Exhausted));
    assert!(n_all > n_in_no_time);
    assert_eq!(stopped(PathLimits { n_prefixes: 1, ..UNHURRIED }).1, Some(StopReason::PrefixLimit));
}

#[test]
fn what_needs_bits_gets_no_function_that_rounds_otherwise() {
    let graph = graph("%0 = input \"x\" : f32[64]\n%1 = exp %0\n%2 = add %1, %0\nreturn %2");
    let mut request = PathRequest::new(graph, [7; 32]);
    let backends = [Backend::CpuNative, Backend::CpuNumpy];
    let (free, _) = collect(&request, &backends, UNHURRIED);
    request.needs_bits = true;
    let (strict, _) = collect(&request, &backends, UNHURRIED);
    let is_strict = |path: &&ComputePath| path.recipe.identity == RecipeIdentity::Bits;
    assert_eq!(strict.len(), free.iter().filter(is_strict).count());
    assert!(strict.iter().all(|path| is_strict(&path)));
    // NumPy adds as everybody does, and has an exponential of its own.
    let numpy = |path: &ComputePath| {
        path.recipe
            .groups()
            .filter(|g| g.backend == Backend::CpuNumpy)
            .flat_map(|g| g.nodes.clone())
            .collect::<Vec<_>>()
    };
    assert!(strict.iter().any(|path| numpy(path) == [2]));
    assert!(free.iter().any(|path| numpy(path) == [1]));
}

#[test]
fn kernels_of_others_take_part() {
    let graph = graph("%0 = input \"x\" : f32[8, 16]\n%1 = softmax %0\nreturn %1");
    let mut registry = KernelRegistry::with_backends(&[Backend::CpuNative]);
    let entry = KernelEntry {
        name: "online_softmax".into(),
        op: TensorOp::Softmax,
        backend: Backend::CpuNative,
        pattern: KernelPattern { max_rank: 2, ..KernelPattern::ANY },
        form: KernelForm::Monolithic,
        keeps_bits: false,
    };
    registry.register(entry.clone()).unwrap();
    let error = registry.register(entry.clone()).unwrap_err();
    assert_eq!(error.to_string(), "CPU_NATIVE has a kernel `online_softmax` for `softmax` already");
    let error = registry.register(KernelEntry { form: KernelForm::Fused, ..entry }).unwrap_err();
    assert_eq!(error.to_string(), "`online_softmax` is one kernel, and cannot be fused");
    let request = PathRequest::new(graph, [7; 32]);
    let paths: Vec<ComputePath> = PathGenerator::new(request, &registry, MachineCosts::default(), UNHURRIED).collect();
    let own = |path: &&ComputePath| path.recipe.groups().any(|group| group.kernel == "online_softmax");
    assert_eq!(paths.iter().filter(own).count(), 1);
    assert!(paths.iter().filter(own).all(|path| path.recipe.identity == RecipeIdentity::Mathematics));
}

/// Variants compute the same real numbers, so that in `float64` all of them are near each other.
#[test]
fn paths_of_variants_have_the_values_of_the_graph() {
    let inputs = "%0 = input \"a\" : f64[5, 6]\n%1 = input \"b\" : f64[5, 6]\n%2 = input \"c\" : f64[5, 6]\n";
    let own = graph(&format!("{inputs}%3 = add %0, %1\n%4 = multiply %3, %2\n%5 = sum %4, axes=(1)\nreturn %5"));
    let other = graph(&format!(
        "{inputs}%3 = multiply %0, %2\n%4 = multiply %1, %2\n%5 = add %3, %4\n%6 = sum %5, axes=(1)\nreturn %6"
    ));
    let mut request = PathRequest::new(own.clone(), [7; 32]);
    request.variants.push(PathVariant { graph: other, keeps_bits: false });
    let backends = [Backend::CpuNative, Backend::CpuNumpy];
    let (paths, _) = collect(&request, &backends, UNHURRIED);
    let values: Vec<DenseTensor> = (0..3).map(|k| tensor(Scalar::F64, &[5, 6], &numbers(30 + k)[k..])).collect();
    let expected = evaluate(&own, &values).unwrap().remove(0).numbers();
    let registry = KernelRegistry::with_backends(&backends);
    let mut n_variants = 0;
    for path in &paths {
        let verified = check_path(path, &own, &registry);
        let is_variant = verified.program.values.len() > own.values.len();
        n_variants += usize::from(is_variant);
        assert!(!is_variant || path.recipe.identity == RecipeIdentity::Mathematics);
        for (got, want) in run(&verified, &values).remove(0).numbers().iter().zip(&expected) {
            assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{got} {want}");
        }
    }
    assert!(n_variants > 0 && n_variants < paths.len());
}

/// Symbols stay in the recipe, so that one recipe serves all sizes.
#[test]
fn recipes_of_graphs_with_symbols_keep_them() {
    let graph = graph("%0 = input \"x\" : f32[n, 16]\n%1 = layer_norm %0\n%2 = relu %1\nreturn %2");
    let mut request = PathRequest::new(graph.clone(), [7; 32]);
    request.symbols.insert("n".into(), 100);
    let (paths, _) =
        collect(&request, &[Backend::CpuNative, Backend::CpuTorch], PathLimits { n_paths: 30, ..UNHURRIED });
    let x = tensor(Scalar::F32, &[3, 16], &numbers(48));
    let expected = evaluate(&graph, std::slice::from_ref(&x)).unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::CpuNative, Backend::CpuTorch]);
    assert!(paths.len() > 5);
    for path in &paths {
        let verified = check_path(path, &graph, &registry);
        assert!(path.recipe.program.contains("f32[n, 16]"));
        assert_eq!(run(&verified, std::slice::from_ref(&x)), expected);
    }
    let (none, reason) = {
        request.symbols.clear();
        let registry = KernelRegistry::with_backends(&[Backend::CpuNative]);
        let mut generator = PathGenerator::new(request, &registry, MachineCosts::default(), UNHURRIED);
        (generator.next(), generator.stop_reason())
    };
    assert_eq!((none, reason), (None, Some(StopReason::Failed)));
}

#[test]
fn chains_of_two_hundred_ops_have_paths_too() {
    let mut text = "%0 = input \"x\" : f32[64, 64]\n%1 = input \"w\" : f32[64, 64]\n".to_owned();
    for id in 2..202 {
        let before = id - 1;
        text += &match id % 5 {
            0 => format!("%{id} = matmul %{before}, %1\n"),
            1 => format!("%{id} = softmax %{before}\n"),
            2 => format!("%{id} = gelu %{before}\n"),
            3 => format!("%{id} = add %{before}, %1\n"),
            _ => format!("%{id} = layer_norm %{before}\n"),
        };
    }
    let graph = graph(&format!("{text}return %201"));
    let backends = [Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch];
    let limits = PathLimits { n_paths: 5, ..UNHURRIED };
    let (paths, reason) = collect(&PathRequest::new(graph, [7; 32]), &backends, limits);
    assert_eq!((paths.len(), reason), (5, Some(StopReason::PathLimit)));
    paths.iter().for_each(|path| {
        path.recipe.verify().unwrap();
    });
}
