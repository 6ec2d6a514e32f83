//! The page of a path: its program drawn with a colour for each kernel, its steps, its recipe.

use super::frame::{Page, PageFailure, find_graph, graph_href, graph_name};
use super::html::{HtmlWriter, NOTHING};
use super::path_view::{PathView, group_text, groups_of_values, parameters_text};
use polyloom::graph::drawing::{GraphOutline, draw};
use polyloom::graph::recipe::{RecipeIdentity, RecipeStep, VerifiedRecipe};
use polyloom::graph::registry::KernelForm;
use polyloom_store::{ContentHash, ImplementationRecord, PathIdentity, Store};

pub(super) fn page(
    store: &mut dyn Store,
    bits: &ContentHash,
    implementation: &ContentHash,
) -> Result<Page, PageFailure> {
    let graph = find_graph(store, bits)?;
    let found = store.implementation(bits, implementation)?;
    let record = found.ok_or_else(|| PageFailure::NotFound(format!("The graph has no path {implementation}.")))?;
    let view = PathView::of(&record);
    let mut html = HtmlWriter::default();
    html.leaf("p", &[("class", "lead")], &view.detail);
    write_facts(&mut html, &record, implementation);
    match &view.recipe {
        Ok(verified) => {
            write_drawing(&mut html, verified);
            write_steps(&mut html, verified);
        }
        Err(error) => html.leaf("p", &[("class", "empty")], format_args!("The recipe cannot be read: {error}.")),
    }
    html.leaf("h2", &[], "Recipe");
    html.leaf("pre", &[("tabindex", "0")], pretty(&record.recipe));
    let way = [("/".to_owned(), "Graphs".to_owned()), (graph_href(bits), graph_name(&graph.text))];
    Ok(Page::new(&format!("Path {}", view.name), &way, html))
}

fn write_facts(html: &mut HtmlWriter, record: &ImplementationRecord, hash: &ContentHash) {
    super::frame::facts(html, &["Recipe", "Results", "Role"], |html, index| match index {
        0 => html.leaf("code", &[("class", "hash")], hash),
        1 => html.text(match record.identity {
            PathIdentity::Bits => "the bits that the graph defines",
            PathIdentity::Mathematics => "those of the graph over the reals; floats may differ",
        }),
        _ => html.text(match record.is_default {
            true => "a default, which others have to beat",
            false => "one of the others",
        }),
    });
}

fn write_drawing(html: &mut HtmlWriter, verified: &VerifiedRecipe) {
    html.leaf("h2", &[], "Program");
    let Ok(outline) = GraphOutline::read(&verified.recipe.program) else { return };
    match draw(&outline, &groups_of_values(verified)) {
        Some(svg) => html.element("figure", &[("class", "drawing")], |html| html.finished(&svg)),
        None => {
            html.leaf("p", &[("class", "empty")], format_args!("It is too large to be drawn. {}.", outline.summary()))
        }
    }
}

fn write_steps(html: &mut HtmlWriter, verified: &VerifiedRecipe) {
    html.leaf("h2", &[], "Steps");
    if verified.recipe.identity == RecipeIdentity::Mathematics {
        html.leaf("p", &[("class", "muted")], "The program is equal to the graph over the reals.");
    }
    let steps = &verified.recipe.steps;
    // The groups of the drawing are numbered by the steps that run.
    let mut groups = Vec::new();
    for step in steps {
        let last = groups.last().map_or(0, |(next, _)| *next);
        groups.push(match step {
            RecipeStep::Run(_) => (last + 1, Some(last)),
            RecipeStep::CopyTo { .. } => (last, None),
        });
    }
    let columns = [("Step", ""), ("Where", ""), ("What", "grow"), ("Values", "grow"), ("Parameters", "grow")];
    html.table("cards", &columns, steps.len(), &|_| "", |html, row, column| match (&steps[row], column) {
        (_, "Step") => html.text(row + 1),
        (RecipeStep::Run(group), "Where") => {
            let number = groups[row].1.unwrap_or(0) % 6;
            html.leaf("span", &[("class", &format!("key group-{number}"))], group.backend.name());
        }
        (RecipeStep::Run(group), "What") => html.text(group_text(group)),
        (RecipeStep::Run(group), "Values") => {
            let values: Vec<String> = group.nodes.iter().map(|node| format!("%{node}")).collect();
            html.leaf("code", &[], values.join(" "));
        }
        (RecipeStep::Run(group), _) => {
            let text = parameters_text(group);
            html.text(match group.form {
                _ if !text.is_empty() => &text,
                KernelForm::Fused => "chosen when planned",
                KernelForm::Monolithic => NOTHING,
            });
        }
        (RecipeStep::CopyTo { .. }, "Where") => html.text("copy"),
        (RecipeStep::CopyTo { from, to, .. }, "What") => html.text(format_args!("{from} → {to}")),
        (RecipeStep::CopyTo { value, .. }, "Values") => html.leaf("code", &[], format_args!("%{value}")),
        (RecipeStep::CopyTo { .. }, _) => html.text(NOTHING),
    });
}

/// Returns JSON with a line for each field; a text that is none stays.
fn pretty(recipe: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(recipe);
    value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| recipe.to_owned())
}
