//! Every path that the search finds, run by the executor, gives the bits of the reference evaluator.
//!
//! The library is the evaluator itself, node by node, so that paths over libraries keep bits too, and each difference is the executor's.

use polyloom::Session;
use polyloom::executor::{ArrayLibrary, ExecutablePath, HostArray, HostArrays, MeasuredPathRun};
use polyloom::fusion::RunNumber;
use polyloom_graph::cost::MachineCosts;
use polyloom_graph::path::{PathGenerator, PathLimits, PathRequest};
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::recipe::RecipeStep;
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::verify_accuracy::{InputDistribution, InputDomain, make_inputs};
use polyloom_graph::{Backend, Graph, KernelRegistry, Layout, Residence, SymbolValues, TensorType, parse_graph};
use std::sync::Arc;

const GRAPHS: [&str; 5] = [
    "%x = input \"x\" : f32[9, 17]\n%y = input \"y\" : f32[17]\n%a = add %x, %y\n%b = exp %a\n%c = multiply %b, %a\nreturn %c",
    "%x = input \"x\" : f32[8, 12]\n%w = input \"w\" : f32[12, 5]\n%a = matmul %x, %w\n%b = softmax %a\n%c = sum %b, axes=0\n\
     return %b, %c",
    "%x = input \"x\" : f32[6, 10]\n%a = transpose %x\n%b = multiply %a, 2.0\n%c = sum %b, axes=1\n%d = subtract %b, %b\n\
     return %c, %d",
    "%x = input \"x\" : f64[40]\n%a = cumsum %x, axis=0\n%b = tanh %a\n%c = maximum %b, %x\nreturn %c",
    "%x = input \"x\" : i32[5, 7]\n%a = negative %x\n%b = add %a, %x\n%c = cast %b, dtype=f32\n%d = add %c, 1.0\nreturn %d, %b",
];

fn output_types(graph: &Graph) -> Vec<TensorType> {
    graph.outputs.iter().map(|&output| graph.value(output).unwrap().ty.clone()).collect()
}

/// Compiles and runs a path on tensors, and returns the outputs.
fn run(
    session: &Session,
    recipe: &polyloom_graph::Recipe,
    graph: &Graph,
    inputs: &[DenseTensor],
    numbers: &[RunNumber],
) -> Vec<DenseTensor> {
    let arrays: Vec<HostArray> = inputs.iter().map(HostArray::of).collect();
    let layouts: Vec<Layout> = inputs.iter().map(|tensor| Layout::dense(&tensor.extents)).collect();
    let places: Vec<_> = inputs
        .iter()
        .zip(&arrays)
        .zip(&layouts)
        .map(|((tensor, array), layout)| (tensor.dtype, layout.clone(), array.address()))
        .collect();
    let library = HostArrays::default().with_inputs(arrays);
    let verified = recipe.verify().expect("the recipe can run");
    let symbols = SymbolValues::default();
    let options = PlanOptions::default();
    let path =
        ExecutablePath::compile(session, &verified, &symbols, &layouts, &options, &library).expect("it compiles");
    let path = Arc::new(path);
    let mut run =
        MeasuredPathRun::new(&library, &path, &places, &output_types(graph), numbers).expect("there is memory");
    let first = run.results().expect("it runs");
    assert_eq!(run.results().expect("it runs again"), first, "a second run gives the same");
    first
}

#[test]
fn all_paths_give_the_bits_of_the_evaluator() {
    let session = Session::new().unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::CpuNative, Backend::CpuNumpy, Backend::CpuTorch]);
    let mut n_paths = 0;
    for text in GRAPHS {
        let graph = parse_graph(text).unwrap();
        let inputs = make_inputs(&graph, InputDistribution::Normal, InputDomain::Reals, 3).unwrap();
        let expected = evaluate(&graph, &inputs).unwrap();
        let limits = PathLimits { n_paths: 40, ..PathLimits::default() };
        let request = PathRequest::new(graph.clone(), [1; 32]);
        for path in PathGenerator::new(request, &registry, MachineCosts::default(), limits) {
            let found = run(&session, &path.recipe, &graph, &inputs, &[]);
            assert_eq!(found, expected, "{}", path.recipe.to_json());
            n_paths += 1;
        }
    }
    assert!(n_paths >= 100, "{n_paths}");
}

#[test]
fn values_between_kernels_share_an_arena() {
    let session = Session::new().unwrap();
    let text = "%x = input \"x\" : f32[64]\n%a = exp %x\n%b = sin %a\n%c = cos %b\n%d = tanh %c\nreturn %d";
    let graph = parse_graph(text).unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::CpuNative]);
    let request = PathRequest::new(graph.clone(), [1; 32]);
    let paths = PathGenerator::new(request, &registry, MachineCosts::default(), PathLimits::default());
    let apart = paths.into_iter().find(|path| path.recipe.groups().count() == 4).expect("each op is a kernel");
    let verified = apart.recipe.verify().unwrap();
    let (layouts, options) = ([Layout::dense(&[64])], PlanOptions::default());
    let path = ExecutablePath::compile(
        &session,
        &verified,
        &SymbolValues::default(),
        &layouts,
        &options,
        &HostArrays::default(),
    );
    let path = path.unwrap();
    // Three values, of which two live at once.
    assert_eq!((path.arena_bytes(), path.is_native()), (2 * 64 * 4, true));
}

#[cfg(feature = "_compute")]
#[test]
fn paths_over_the_simulator_give_the_bits_of_the_evaluator() {
    let session = Session::new().unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::Sim, Backend::CpuNumpy]);
    for text in [GRAPHS[0], GRAPHS[2], GRAPHS[4]] {
        let graph = parse_graph(text).unwrap();
        let inputs = make_inputs(&graph, InputDistribution::Normal, InputDomain::Reals, 3).unwrap();
        let expected = evaluate(&graph, &inputs).unwrap();
        let mut request = PathRequest::new(graph.clone(), [1; 32]);
        request.allows_simulator = true;
        let limits = PathLimits { n_paths: 12, ..PathLimits::default() };
        let mut n_on_simulator = 0;
        for path in PathGenerator::new(request, &registry, MachineCosts::default(), limits) {
            assert_eq!(run(&session, &path.recipe, &graph, &inputs, &[]), expected, "{}", path.recipe.to_json());
            n_on_simulator += usize::from(path.recipe.backends().contains(&Backend::Sim));
        }
        assert!(n_on_simulator >= 2, "{n_on_simulator}");
    }
}

#[test]
fn paths_over_tensors_on_a_gpu_give_the_bits_of_the_evaluator() {
    let session = Session::new().unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::GpuTorch, Backend::CpuTorch, Backend::CpuNative]);
    let mut n_on_gpu = 0;
    for text in GRAPHS {
        let graph = parse_graph(text).unwrap();
        let inputs = make_inputs(&graph, InputDistribution::Normal, InputDomain::Reals, 3).unwrap();
        let expected = evaluate(&graph, &inputs).unwrap();
        let request = PathRequest::new(graph.clone(), [1; 32]);
        let mut costs = MachineCosts::default();
        // Copies cost nothing, so that paths go there and back.
        costs.transfers.iter_mut().for_each(|copy| (copy.latency_ns, copy.bytes_per_ns) = (1.0, 1e3));
        let limits = PathLimits { n_paths: 24, ..PathLimits::default() };
        for path in PathGenerator::new(request, &registry, costs, limits) {
            assert_eq!(run(&session, &path.recipe, &graph, &inputs, &[]), expected, "{}", path.recipe.to_json());
            n_on_gpu += usize::from(path.recipe.backends().contains(&Backend::GpuTorch));
        }
    }
    assert!(n_on_gpu >= 10, "{n_on_gpu}");
}

#[test]
fn copies_that_nothing_makes_are_refused_by_name() {
    let session = Session::new().unwrap();
    let graph = parse_graph("%x = input \"x\" : f32[4]\n%a = exp %x\nreturn %a").unwrap();
    let registry = KernelRegistry::with_backends(&[Backend::GpuTorch]);
    let request = PathRequest::new(graph, [1; 32]);
    let path = PathGenerator::new(request, &registry, MachineCosts::default(), PathLimits::default()).next().unwrap();
    // The input is an array of Polyloom on a device, which PyTorch does not take.
    let mut recipe = path.recipe;
    recipe.inputs = vec![Residence::LoomSim];
    if let Some(RecipeStep::CopyTo { from, .. }) = recipe.steps.first_mut() {
        *from = Residence::LoomSim;
    }
    let verified = recipe.verify().unwrap();
    let (layouts, options) = ([Layout::dense(&[4])], PlanOptions::default());
    let compiled = ExecutablePath::compile(
        &session,
        &verified,
        &SymbolValues::default(),
        &layouts,
        &options,
        &HostArrays::default(),
    );
    let error = compiled.err().expect("it is refused").to_string();
    assert!(error.contains("from loom_sim to torch_cuda"), "{error}");
}
