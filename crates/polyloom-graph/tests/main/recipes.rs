//! Recipes: their JSON form stands, and what does not fit is refused with the reason.

use crate::support::graph;
use polyloom_graph::plan::TileShape;
use polyloom_graph::recipe::{KernelGroup, KernelParameters, RecipeIdentity, RecipeStep};
use polyloom_graph::registry::KernelForm;
use polyloom_graph::{Backend, KernelRegistry, Recipe, Residence};
use std::path::Path;

/// `exp` natively, `add` by PyTorch, and back.
fn sample() -> Recipe {
    let tile = TileShape { rows: 12, columns: 32, packs_left: false, packs_right: true, n_grouped: 2, piece: 256 };
    let parameters = KernelParameters {
        tile: Some(tile),
        vector_bytes: Some(64),
        threads: Some(2),
        block_size: Some(128),
        unroll: Some(4),
        tier: Some(1),
    };
    let group = |backend, form, kernel: &str, nodes: &[u32], parameters| {
        RecipeStep::Run(KernelGroup { backend, form, kernel: kernel.to_owned(), nodes: nodes.to_vec(), parameters })
    };
    let copy = |value, from, to| RecipeStep::CopyTo { value, from, to };
    Recipe {
        version: Recipe::VERSION,
        graph: [0xa5; 32],
        identity: RecipeIdentity::Mathematics,
        inputs: vec![Residence::Numpy],
        outputs: Residence::Numpy,
        program: graph("%0 = input \"x\" : f32[n]\n%1 = exp %0\n%2 = add %1, %0\nreturn %2").to_string(),
        steps: vec![
            group(Backend::CpuNative, KernelForm::Fused, "polyloom", &[1], parameters),
            copy(0, Residence::Numpy, Residence::TorchCpu),
            copy(1, Residence::Numpy, Residence::TorchCpu),
            group(Backend::CpuTorch, KernelForm::Monolithic, "add", &[2], KernelParameters::default()),
            copy(2, Residence::TorchCpu, Residence::Numpy),
        ],
    }
}

#[test]
fn recipes_read_back_as_they_were() {
    let recipe = sample();
    let read = Recipe::from_json(&recipe.to_json()).unwrap();
    assert_eq!(read, recipe);
    assert_eq!(read.to_json(), recipe.to_json());
    recipe.verify().unwrap();
}

/// Guards the JSON form: other programs keep recipes in databases. Whoever changes it raises [`Recipe::VERSION`], unless all that older
/// versions wrote is read as before; `POLYLOOM_BLESS=1` writes the file.
#[test]
fn the_form_of_recipes_stands() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/recipe_form.json");
    let text = format!("{}\n", sample().to_json());
    if std::env::var_os("POLYLOOM_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "POLYLOOM_BLESS=1 writes the form anew");
    assert_eq!(Recipe::from_json(&text).unwrap(), sample());
}

/// Checks why a changed sample is refused.
#[track_caller]
fn check_refused(change: impl FnOnce(&mut Recipe), reason: &str) {
    let mut recipe = sample();
    change(&mut recipe);
    // A refused recipe is refused after a way through text as well.
    let read = Recipe::from_json(&recipe.to_json()).unwrap();
    assert_eq!(read.verify().unwrap_err().to_string(), reason);
}

fn group(recipe: &mut Recipe, step: usize) -> &mut KernelGroup {
    match &mut recipe.steps[step] {
        RecipeStep::Run(group) => group,
        RecipeStep::CopyTo { .. } => panic!("step {step} is a copy"),
    }
}

#[test]
fn what_does_not_fit_its_program_is_refused() {
    check_refused(
        |r| {
            r.steps.remove(2);
        },
        "step 2 reads %1 at torch_cpu, where it is not: a `copy_to` is missing",
    );
    check_refused(
        |r| {
            r.steps.pop();
        },
        "the output %2 is not brought to numpy",
    );
    check_refused(|r| r.steps.swap(0, 2), "step 0 copies %1 from numpy, where it is not");
    check_refused(|r| r.steps.swap(0, 3), "step 0 reads %1, which step 3 computes");
    check_refused(
        |r| r.steps.insert(2, RecipeStep::CopyTo { value: 0, from: Residence::TorchCpu, to: Residence::Numpy }),
        "step 2 copies %0 to numpy, where it is already",
    );
    check_refused(
        |r| r.steps[1] = RecipeStep::CopyTo { value: 99, from: Residence::Numpy, to: Residence::TorchCpu },
        "step 1 copies %99 from numpy, where it is not",
    );
    check_refused(
        |r| {
            r.steps.remove(0);
            r.steps.remove(1);
        },
        "no step computes %1, on which outputs depend",
    );
    check_refused(|r| group(r, 0).nodes.push(2), "steps 0 and 3 both compute %2");
    check_refused(|r| group(r, 0).nodes.push(1), "steps 0 and 0 both compute %1");
    check_refused(|r| group(r, 0).nodes = vec![2, 1], "the nodes of step 0 are not in ascending order");
    check_refused(|r| group(r, 0).nodes = vec![0], "step 0 computes %0, which is no op of the program");
    check_refused(|r| group(r, 0).nodes = vec![7], "step 0 computes %7, which is no op of the program");
    check_refused(|r| group(r, 0).nodes.clear(), "step 0 computes nothing");
    check_refused(|r| group(r, 3).form = KernelForm::Fused, "step 3 fuses nodes on CPU_TORCH, which plans no kernels");
    check_refused(
        |r| {
            let own = group(r, 3);
            own.nodes = vec![1, 2];
            r.steps.remove(0);
        },
        "step 2 runs one kernel for 2 nodes, but a monolithic kernel computes one",
    );
    check_refused(|r| r.inputs.clear(), "the recipe has residences for 0 inputs, and its program has 1");
    check_refused(
        |r| group(r, 0).parameters.block_size = Some(4096),
        "step 0: `block_size` is 4096, and is from 1 to 1024",
    );
    check_refused(
        |r| group(r, 0).parameters.vector_bytes = Some(48),
        "step 0: `vector_bytes` is 48, and is a power of two",
    );
    check_refused(|r| r.program.clear(), "the recipe's program: line 0: there is no `return`");
}

/// `%1` and `%3` in one group, `%2` between them in another.
#[test]
fn groups_that_wait_for_each_other_are_a_cycle() {
    let mut recipe = sample();
    recipe.program =
        graph("%0 = input \"x\" : f32[4]\n%1 = exp %0\n%2 = sin %1\n%3 = add %1, %2\nreturn %3").to_string();
    let run = |nodes: &[u32]| {
        RecipeStep::Run(KernelGroup {
            backend: Backend::CpuNative,
            form: KernelForm::Fused,
            kernel: "polyloom".to_owned(),
            nodes: nodes.to_vec(),
            parameters: KernelParameters::default(),
        })
    };
    recipe.steps = vec![run(&[1, 3]), run(&[2])];
    assert_eq!(recipe.verify().unwrap_err().to_string(), "steps 0 and 1 wait for each other's results");
    recipe.steps = vec![run(&[2]), run(&[1, 3])];
    assert_eq!(recipe.verify().unwrap_err().to_string(), "steps 0 and 1 wait for each other's results");
    recipe.steps = vec![run(&[3]), run(&[1]), run(&[2])];
    assert_eq!(recipe.verify().unwrap_err().to_string(), "step 0 reads %1, which step 1 computes");
    recipe.steps = vec![run(&[1]), run(&[2, 3])];
    recipe.verify().unwrap();
}

#[test]
fn text_that_is_no_recipe_is_refused() {
    let refusal = |text: &str| Recipe::from_json(text).unwrap_err().to_string();
    let json = sample().to_json();
    assert_eq!(
        refusal(&json.replace("\"version\":1", "\"version\":2")),
        "the recipe is of version 2; this program reads version 1"
    );
    assert!(refusal("{").starts_with("this is no recipe: "));
    assert!(refusal(&json.replace("CPU_TORCH", "CPU_ABACUS")).contains("unknown variant `CPU_ABACUS`"));
    assert!(refusal(&json.replace("\"nodes\"", "\"knots\"")).contains("knots"));
    assert!(refusal(&json.replace("a5a5", "a5")).contains("64 hexadecimal digits"));
}

#[test]
fn a_recipe_of_another_graph_is_refused() {
    let verified = sample().verify().unwrap();
    let fits = |text: &str| verified.fits(&graph(text), &[0xa5; 32]).map_err(|error| error.to_string());
    // A number in the place of the symbol is fine, as is another symbol.
    fits("%0 = input \"y\" : f32[8]\n%1 = negative %0\nreturn %1").unwrap();
    fits("%0 = input \"y\" : f32[m]\n%1 = negative %0\nreturn %1").unwrap();
    let error = fits("%0 = input \"y\" : f64[8]\n%1 = negative %0\nreturn %1").unwrap_err();
    assert_eq!(error, "the recipe's program does not fit the graph: it has f32[n] in the place of f64[8]");
    let error = fits("%0 = input \"y\" : f32[8]\n%1 = sum %0\nreturn %1").unwrap_err();
    assert_eq!(error, "the recipe's program does not fit the graph: it has f32[n] in the place of f32[]");
    let error = fits("%0 = input \"y\" : f32[8]\n%1 = negative %0\nreturn %1, %1").unwrap_err();
    assert!(error.ends_with("it has 1 inputs and 1 outputs, not 1 inputs and 2 outputs"), "{error}");
    let own = graph(&sample().program);
    let error = verified.fits(&own, &[0; 32]).unwrap_err().to_string();
    assert_eq!(error, format!("the recipe is of the graph {}, not of {}", "a5".repeat(32), "00".repeat(32)));
}

#[test]
fn a_recipe_of_another_machine_says_what_is_absent() {
    let verified = sample().verify().unwrap();
    let refusal = |backends: &[Backend]| {
        verified.check_kernels(&KernelRegistry::with_backends(backends)).map_err(|error| error.to_string())
    };
    refusal(&[Backend::CpuNative, Backend::CpuTorch]).unwrap();
    assert_eq!(refusal(&[Backend::CpuNumpy]).unwrap_err(), "this machine lacks CPU_TORCH, CPU_NATIVE");
    let mut other = sample();
    group(&mut other, 3).kernel = "add_quickly".to_owned();
    let registry = KernelRegistry::with_backends(&Backend::ALL);
    let error = other.verify().unwrap().check_kernels(&registry).unwrap_err();
    assert_eq!(error.to_string(), "CPU_TORCH has no kernel `add_quickly` that takes %2");
}
