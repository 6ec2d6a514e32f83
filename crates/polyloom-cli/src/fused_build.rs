//! Functions of tensors of `polyloom build`: traced by Python, in a process of its own, and given to the artifact as graphs.

use crate::build::{BuildArguments, BuildDirection};
use crate::dataset::python;
use crate::{CommandFailure, named};
use polyloom::FloatMode;
use polyloom::artifact::{ArtifactKind, FusedExtent, FusedFunction, FusedRecipe, FusedVariant};
use polyloom::graph::OutputCotangent::One;
use polyloom::graph::plan::PlanOptions;
use polyloom::graph::{Graph, Recipe, TensorDef, TensorId, gradient, parse_graph, value_and_gradient_from};
use polyloom::planner::fit_recipe;
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Holds what Python says of the functions.
#[derive(Deserialize)]
struct TracedFunctions {
    functions: Vec<TracedFunction>,
}

#[derive(Deserialize)]
struct TracedFunction {
    name: String,
    signature: String,
    float_mode: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    chosen: Option<ChosenPlace>,
    variants: Vec<TracedVariant>,
}

#[derive(Deserialize)]
struct ChosenPlace {
    name: String,
    input: usize,
    axis: usize,
}

#[derive(Deserialize)]
struct TracedVariant {
    extent: Option<u64>,
    graph: String,
    #[serde(default)]
    recipe: Option<String>,
}

/// The options for functions of tensors.
#[derive(clap::Args)]
pub(crate) struct FusedArguments {
    /// Functions of tensors to build as well, `@loom.fuse` or plain functions of `ops`, with their shapes: each becomes a C
    /// function that runs on the calling thread
    #[arg(long = "fuse", value_name = "NAME", value_delimiter = ',')]
    pub(crate) fused: Vec<String>,
    /// The shapes of arguments of these functions, such as x=64x128; an extent that callers choose is a name, as in x=Nx128
    #[arg(long = "shape", value_name = "NAME=4x5", num_args = 1..)]
    shapes: Vec<String>,
    /// The element types of arguments, float32 unless given
    #[arg(long = "dtype", value_name = "NAME=TYPE", num_args = 1..)]
    dtypes: Vec<String>,
    /// The values of arguments that are numbers, which are fixed in the library
    #[arg(long = "number", value_name = "NAME=VALUE", num_args = 1..)]
    numbers: Vec<String>,
    /// The values of an extent that callers choose, such as N=1..64
    #[arg(long = "extent", value_name = "NAME=1..64")]
    extents: Vec<String>,
    /// The arguments that gradients are by, of --direction backward or both; all floats unless given
    #[arg(long = "wrt", value_name = "NAME", value_delimiter = ',')]
    wrt: Vec<String>,
    /// A recipe, as `polyloom plan explain --json` shows them, by which the function runs whose graph it is of
    #[arg(long = "recipe", value_name = "FILE.json")]
    recipes: Vec<PathBuf>,
    /// Run each function by the path that is measured to be the fastest for its shapes
    #[arg(long)]
    planned: bool,
    /// The benchmark database of --planned: a file of SQLite, or postgres://USER@HOST/NAME
    #[arg(long, value_name = "PLACE")]
    database: Option<String>,
}

impl FusedArguments {
    /// True if none of the options is given that are of no use without functions.
    fn is_empty(&self) -> bool {
        let lists = [&self.shapes, &self.dtypes, &self.numbers, &self.extents, &self.wrt];
        lists.iter().all(|list| list.is_empty()) && self.recipes.is_empty() && !self.planned && self.database.is_none()
    }
}

/// Traces the functions, and gives them as an artifact takes them, gradients after each.
pub(crate) fn fused_functions(
    arguments: &BuildArguments,
    float_mode: FloatMode,
) -> Result<Vec<FusedFunction>, CommandFailure> {
    let fused = &arguments.fused;
    if fused.fused.is_empty() {
        return match fused.is_empty() {
            true => Ok(Vec::new()),
            false => Err(CommandFailure::Usage(
                "--shape, --dtype, --number, --extent, --wrt, --recipe, --planned and --database are for functions of \
                 tensors, which --fuse names"
                    .to_owned(),
            )),
        };
    }
    if fused.planned && !fused.recipes.is_empty() {
        return Err(CommandFailure::Usage(
            "--planned finds a recipe, and --recipe gives one: give one of them".to_owned(),
        ));
    }
    if arguments.direction != BuildDirection::Forward && (fused.planned || !fused.recipes.is_empty()) {
        let message = "a recipe is of the function itself: build gradients without --recipe and --planned";
        return Err(CommandFailure::Usage(message.to_owned()));
    }
    let recipes = fused.recipes.iter().map(|path| read_recipe(path)).collect::<Result<Vec<_>, _>>()?;
    let mut is_used = vec![false; recipes.len()];
    let traced = trace(arguments, float_mode)?;
    let is_known = |wanted: &&String| traced.iter().any(|function| function.inputs.contains(*wanted));
    if let Some(unknown) = fused.wrt.iter().find(|wanted| !is_known(wanted)) {
        let message = format!("--wrt {unknown}: no function that is built has such an argument");
        return Err(CommandFailure::Usage(message));
    }
    let mut made = Vec::new();
    for function in traced {
        let function = read(function, &recipes, &mut is_used)?;
        if arguments.direction != BuildDirection::Forward {
            let gradient = gradient_of(&function, &fused.wrt)?;
            if arguments.direction == BuildDirection::Both {
                made.push(function);
            }
            made.push(gradient);
        } else {
            made.push(function);
        }
    }
    if let Some(unused) = is_used.iter().position(|used| !used) {
        let path = fused.recipes[unused].display();
        let names = fused.fused.join("` or `");
        return Err(CommandFailure::Failed(format!("the recipe {path} is of another graph than that of `{names}`")));
    }
    Ok(made)
}

fn read_recipe(path: &Path) -> Result<Recipe, CommandFailure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandFailure::Failed(format!("cannot read {}: {error}", path.display())))?;
    Recipe::from_json(&text).map_err(|error| CommandFailure::Failed(format!("{}: {error}", path.display())))
}

/// Runs the module that calls the functions.
fn trace(arguments: &BuildArguments, float_mode: FloatMode) -> Result<Vec<TracedFunction>, CommandFailure> {
    let fused = &arguments.fused;
    let request = json!({
        "files": arguments.files.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "functions": fused.fused,
        "shapes": named(&fused.shapes, "--shape")?,
        "dtypes": named(&fused.dtypes, "--dtype")?,
        "numbers": named(&fused.numbers, "--number")?,
        "extents": named(&fused.extents, "--extent")?,
        "planned": fused.planned,
        "database": fused.database,
        "float": float_mode.name(),
    });
    let python = python();
    let ran = Command::new(&python)
        .args(["-m", "polyloom._build_command", &request.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| CommandFailure::Failed(format!("cannot run {}: {error}", python.display())))?;
    match ran.status.code() {
        Some(0) => {}
        // The process has said what is wrong.
        Some(1) => return Err(CommandFailure::Silent),
        _ => return Err(CommandFailure::Interrupted(format!("{} ended with {}", python.display(), ran.status))),
    }
    let traced: TracedFunctions =
        serde_json::from_slice(&ran.stdout).map_err(|error| internal(&format!("functions as JSON: {error}")))?;
    Ok(traced.functions)
}

fn internal(message: &str) -> CommandFailure {
    CommandFailure::Failed(format!("internal error: {message}"))
}

/// Reads a function, with the recipe that fits it.
fn read(function: TracedFunction, recipes: &[Recipe], is_used: &mut [bool]) -> Result<FusedFunction, CommandFailure> {
    let TracedFunction { name, signature, float_mode, inputs, outputs, chosen, variants } = function;
    let float_mode = FloatMode::from_name(&float_mode).ok_or_else(|| internal("a float mode has no such name"))?;
    let options = PlanOptions { float_mode, ..PlanOptions::default() };
    let mut read = Vec::new();
    for TracedVariant { extent, graph, recipe: planned } in variants {
        let graph = parse_graph(&graph).map_err(|error| internal(&error.to_string()))?;
        let mut recipe: Option<FusedRecipe> = None;
        if let Some(text) = planned {
            let planned = Recipe::from_json(&text).map_err(|error| internal(&error.to_string()))?;
            let fitted = fit_recipe(&graph, &planned, options);
            recipe = Some(fitted.map_err(|error| CommandFailure::Failed(format!("the recipe of `{name}`: {error}")))?);
        }
        for (given, used) in recipes.iter().zip(&mut *is_used) {
            if let Ok(fitted) = fit_recipe(&graph, given, options) {
                *used = true;
                recipe = Some(fitted);
            }
        }
        read.push(FusedVariant { extent, graph, recipe });
    }
    Ok(FusedFunction {
        name,
        kind: ArtifactKind::Fused,
        source_signature: signature,
        inputs,
        outputs,
        chosen: chosen.map(|ChosenPlace { name, input, axis }| FusedExtent { name, input, axis }),
        float_mode,
        variants: read,
    })
}

/// Makes the function of the gradients by some inputs, all floats unless some are named: of a function of one number its value and gradients,
/// and of others what takes cotangents of the results that are floats.
fn gradient_of(function: &FusedFunction, wrt: &[String]) -> Result<FusedFunction, CommandFailure> {
    let failed = |what: &str| CommandFailure::Failed(format!("`{}` has no gradient: {what}", function.name));
    let first = function.variants.first().ok_or_else(|| failed("it has no extents"))?;
    let is_float = |graph: &Graph, id: TensorId| graph.value(id).is_some_and(|value| value.ty.dtype.is_float());
    let is_named = |name: &String| wrt.is_empty() || wrt.contains(name);
    let types: Vec<bool> = first.graph.inputs().map(|(_, ty)| ty.dtype.is_float()).collect();
    let places: Vec<usize> =
        (0..function.inputs.len()).filter(|&place| types[place] && is_named(&function.inputs[place])).collect();
    if places.is_empty() {
        return Err(failed("none of its arguments is a float that --wrt allows"));
    }
    if let Some(whole) = wrt
        .iter()
        .find(|name| function.inputs.iter().position(|input| input == *name).is_some_and(|place| !types[place]))
    {
        return Err(failed(&format!("`{whole}` has no floats")));
    }
    let gives_float: Vec<bool> = first.graph.outputs.iter().map(|&id| is_float(&first.graph, id)).collect();
    if !gives_float.contains(&true) {
        return Err(failed("it gives no float"));
    }
    let is_number = |id: &TensorId| first.graph.value(*id).is_some_and(|value| value.ty.shape.rank() == 0);
    let is_loss = gives_float == [true] && first.graph.outputs.iter().all(is_number);
    let variants = function.variants.iter().map(|variant| {
        let graph = &variant.graph;
        let inputs = graph.iter().filter(|(_, value)| matches!(value.def, TensorDef::Input(_))).map(|(id, _)| id);
        let inputs: Vec<TensorId> = inputs.collect();
        let wrt: Vec<TensorId> = places.iter().map(|&place| inputs[place]).collect();
        let made = match is_loss {
            true => value_and_gradient_from(graph, &wrt, &[One]),
            false => gradient(graph, &wrt),
        };
        let graph = made.map_err(|error| failed(&error.to_string()))?;
        Ok(FusedVariant { extent: variant.extent, graph, recipe: None })
    });
    let variants = variants.collect::<Result<_, CommandFailure>>()?;
    let gradients = places.iter().map(|&place| format!("grad_{}", function.inputs[place]));
    let (mut inputs, name) = (function.inputs.clone(), &function.name);
    let (name, outputs) = match is_loss {
        true => (format!("{name}_value_and_grad"), function.outputs.iter().cloned().chain(gradients).collect()),
        false => {
            let floats = function.outputs.iter().zip(&gives_float).filter(|(_, is_float)| **is_float);
            inputs.extend(floats.map(|(output, _)| format!("ct_{output}")));
            (format!("{name}_vjp"), gradients.collect())
        }
    };
    Ok(FusedFunction { name, kind: ArtifactKind::Gradient, inputs, outputs, variants, ..function.clone() })
}
