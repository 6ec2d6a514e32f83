//! The static cost model: what it must order rightly whatever the rates.

use crate::support::graph;
use polyloom_graph::cost::{MachineCosts, MachineCostsError, PredictedTime, predict};
use polyloom_graph::plan::PlanOptions;
use polyloom_graph::recipe::{KernelGroup, KernelParameters, Recipe, RecipeIdentity, RecipeStep};
use polyloom_graph::registry::KernelForm;
use polyloom_graph::{Backend, Residence, TensorDef};

/// Returns a recipe of groups of nodes on one backend, between arrays of NumPy.
fn recipe_on(backend: Backend, text: &str, groups: &[&[u32]]) -> Recipe {
    let program = graph(text);
    let (form, kernel) = match backend.plans_groups() {
        true => (KernelForm::Fused, "polyloom"),
        false => (KernelForm::Monolithic, "of the op's name"),
    };
    let residence = backend.residence();
    let inputs: Vec<u32> =
        program.iter().filter(|(_, v)| matches!(v.def, TensorDef::Input(_))).map(|(id, _)| id.0).collect();
    let is_away = residence != Residence::Numpy;
    let mut steps: Vec<RecipeStep> = Vec::new();
    if is_away {
        steps.extend(inputs.iter().map(|&value| RecipeStep::CopyTo { value, from: Residence::Numpy, to: residence }));
    }
    steps.extend(groups.iter().map(|nodes| {
        let (kernel, nodes) = (kernel.to_owned(), nodes.to_vec());
        RecipeStep::Run(KernelGroup { backend, form, kernel, nodes, parameters: KernelParameters::default() })
    }));
    if is_away {
        let copy = |value| RecipeStep::CopyTo { value, from: residence, to: Residence::Numpy };
        steps.extend(program.outputs.iter().map(|output| copy(output.0)));
    }
    Recipe {
        version: Recipe::VERSION,
        graph: [0; 32],
        identity: RecipeIdentity::Bits,
        inputs: vec![Residence::Numpy; inputs.len()],
        outputs: Residence::Numpy,
        program: program.to_string(),
        steps,
    }
}

fn predicted(recipe: &Recipe) -> PredictedTime {
    let verified = recipe.verify().unwrap();
    predict(&verified, &Default::default(), &MachineCosts::default(), &PlanOptions::default()).unwrap()
}

fn chain(n: u64) -> String {
    format!("%0 = input \"x\" : f32[{n}]\n%1 = negative %0\n%2 = multiply %1, %0\n%3 = absolute %2\nreturn %3")
}

#[test]
fn times_grow_with_sizes() {
    let product = |n: u64| {
        format!("%0 = input \"a\" : f32[{n}, {n}]\n%1 = matmul %0, %0\n%2 = tanh %1\n%3 = softmax %2\nreturn %3")
    };
    for backend in Backend::ALL {
        for text in [&chain as &dyn Fn(u64) -> String, &product] {
            let sizes = [16u64, 100, 128, 1000, 1024, 3000];
            let groups: &[&[u32]] = &[&[1], &[2], &[3]];
            let times: Vec<f64> =
                sizes.iter().map(|&n| predicted(&recipe_on(backend, &text(n), groups)).total_ns()).collect();
            assert!(times.is_sorted_by(|a, b| a < b), "{backend}: {times:?}");
        }
    }
    // The step from the cache to memory too.
    let times: Vec<f64> = (18..26)
        .map(|log| predicted(&recipe_on(Backend::CpuNative, &chain(1 << log), &[&[1, 2, 3]])).total_ns())
        .collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
}

#[test]
fn fused_chains_are_below_unfused_ones() {
    for backend in [Backend::CpuNative, Backend::GpuCuda] {
        for n in [64, 1 << 12, 1 << 20, 1 << 25] {
            let fused = predicted(&recipe_on(backend, &chain(n), &[&[1, 2, 3]]));
            let halves = predicted(&recipe_on(backend, &chain(n), &[&[1, 2], &[3]]));
            let apart = predicted(&recipe_on(backend, &chain(n), &[&[1], &[2], &[3]]));
            assert!(fused.total_ns() < halves.total_ns() && halves.total_ns() < apart.total_ns());
            let n_launches = |time: &PredictedTime| time.steps.iter().map(|step| step.n_launches).sum::<u32>();
            assert_eq!((n_launches(&fused), n_launches(&halves), n_launches(&apart)), (1, 2, 3));
        }
    }
    // One read and one write, instead of three and two of each.
    let fused = predicted(&recipe_on(Backend::CpuNative, &chain(1 << 20), &[&[1, 2, 3]]));
    assert_eq!(fused.steps[0].n_bytes, 8 << 20);
}

#[test]
fn transfers_are_most_of_what_tiny_graphs_take_on_a_gpu() {
    for backend in [Backend::GpuTorch, Backend::GpuCuda] {
        let time = predicted(&recipe_on(
            backend,
            &chain(64),
            if backend.plans_groups() { &[&[1, 2, 3]] } else { &[&[1], &[2], &[3]] },
        ));
        let at_home = predicted(&recipe_on(Backend::CpuNative, &chain(64), &[&[1, 2, 3]]));
        assert!(time.transfer_ns() > 0.6 * time.total_ns(), "{time:?}");
        assert!(at_home.total_ns() < time.total_ns() / 10.0);
    }
    // A product of large matrices is worth the way there and back.
    let text = "%0 = input \"a\" : f32[4096, 4096]\n%1 = matmul %0, %0\nreturn %1";
    let there = predicted(&recipe_on(Backend::GpuCuda, text, &[&[1]])).total_ns();
    assert!(there < predicted(&recipe_on(Backend::CpuNative, text, &[&[1]])).total_ns());
}

#[test]
fn rates_are_read_from_json_and_checked() {
    let mut costs = MachineCosts::default();
    costs.backends.remove(&Backend::Sim);
    costs.backends.get_mut(&Backend::CpuNative).unwrap().launch_ns = 123.5;
    assert_eq!(MachineCosts::from_json(&costs.to_json()).unwrap(), costs);
    costs.zero_copy_ns = 0.0;
    let error = MachineCosts::from_json(&costs.to_json()).unwrap_err();
    assert_eq!(error.to_string(), "zero_copy_ns is 0, and rates and times are positive numbers");
    costs.version = 9;
    assert!(matches!(MachineCosts::from_json(&costs.to_json()), Err(MachineCostsError::Version { found: 9 })));
    assert!(matches!(MachineCosts::from_json("{}"), Err(MachineCostsError::Syntax(_))));
}
