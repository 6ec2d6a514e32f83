//! The page of a graph: its picture, both identities, its workloads with what is chosen for each, its paths.

use super::frame::{
    Page, PageFailure, arguments_text, find_graph, graph_href, graph_name, hash, hash_link, pager, path_href,
    workload_href,
};
use super::html::{HtmlWriter, NOTHING};
use super::http::PageRequest;
use super::path_view::PathView;
use super::units;
use polyloom::graph::drawing::{GraphOutline, MAX_DRAWN_NODES, draw};
use polyloom_store::{
    BestPathQuery, ChoiceReason, ContentHash, GraphRecord, ImplementationRecord, MeasurementPlace, PathIdentity,
    PathVerdict, RankedPath, Store, WorkloadRecord, WorkloadSummary, rank_paths,
};

const WORKLOADS_OF_PAGE: u64 = 20;
/// Paths that are listed; a page of more would be read by nobody.
const MAX_PATHS: u64 = 100;
const MAX_PLACES: usize = 8;

/// A workload where it was measured, with the path that is chosen there.
struct ChosenRow {
    workload: ContentHash,
    arguments: String,
    place: Option<MeasurementPlace>,
    chosen: Option<RankedPath>,
}

pub(super) fn page(store: &mut dyn Store, request: &PageRequest, bits: &ContentHash) -> Result<Page, PageFailure> {
    let graph = find_graph(store, bits)?;
    let number = request.value("page").and_then(|text| text.parse().ok()).filter(|page| *page >= 1).unwrap_or(1u64);
    let workloads = store.workloads_of(bits, (number - 1).saturating_mul(WORKLOADS_OF_PAGE), WORKLOADS_OF_PAGE + 1)?;
    let has_more = workloads.len() as u64 > WORKLOADS_OF_PAGE;
    let rows = chosen_rows(store, bits, &workloads[..workloads.len().min(WORKLOADS_OF_PAGE as usize)])?;
    let implementations = store.implementations_of(bits, MAX_PATHS)?;
    let mut others = store.graphs_of(&graph.mathematics)?;
    others.retain(|other| other.mathematics == graph.mathematics && other.bits != *bits);
    let mut html = HtmlWriter::default();
    write_drawing(&mut html, &graph.text);
    write_identities(&mut html, &graph, &others);
    write_workloads(&mut html, bits, &rows);
    let n_pages = number + u64::from(has_more);
    pager(&mut html, &|page| format!("{}?page={page}", graph_href(bits)), number, n_pages);
    write_paths(&mut html, bits, &implementations);
    write_texts(&mut html, &graph);
    Ok(Page::new(&graph_name(&graph.text), &[("/".to_owned(), "Graphs".to_owned())], html))
}

/// Returns the environment's best path of each workload, and all else that was measured of it there.
fn chosen_rows(
    store: &mut dyn Store,
    bits: &ContentHash,
    workloads: &[WorkloadSummary],
) -> Result<Vec<ChosenRow>, PageFailure> {
    let mut rows = Vec::new();
    for summary in workloads {
        let arguments = arguments_text(&summary.arguments);
        if summary.places.is_empty() {
            rows.push(ChosenRow { workload: summary.hash, arguments, place: None, chosen: None });
            continue;
        }
        for place in summary.places.iter().take(MAX_PLACES) {
            let query = query_of(bits, summary, place, PathIdentity::Bits);
            let ranked = rank_paths(store, &query, &mut |_, _| true)?;
            let chosen = ranked.into_iter().find(|path| matches!(path.verdict, PathVerdict::Chosen(_)));
            let (workload, arguments, place) = (summary.hash, arguments.clone(), Some(place.clone()));
            rows.push(ChosenRow { workload, arguments, place, chosen });
        }
    }
    Ok(rows)
}

/// Returns the query of the choice for a workload where it was measured.
pub(super) fn query_of(
    bits: &ContentHash,
    workload: &WorkloadSummary,
    place: &MeasurementPlace,
    identity: PathIdentity,
) -> BestPathQuery {
    BestPathQuery {
        graph: *bits,
        workload: WorkloadRecord { graph: *bits, arguments: workload.arguments.clone() },
        environment: place.environment,
        policy: place.policy.clone(),
        identity,
        max_error: None,
    }
}

pub(super) fn write_drawing(html: &mut HtmlWriter, text: &str) {
    let outline = match GraphOutline::read(text) {
        Ok(outline) => outline,
        Err(error) => {
            html.leaf("p", &[("class", "empty")], format_args!("The text cannot be drawn: {error}."));
            return;
        }
    };
    match draw(&outline, &[]) {
        Some(svg) => html.element("figure", &[("class", "drawing")], |html| html.finished(&svg)),
        None => {
            let summary = outline.summary();
            let words = format!("It is not drawn, because it has more than {MAX_DRAWN_NODES} nodes. {summary}.");
            html.leaf("p", &[("class", "empty")], words);
        }
    }
}

fn write_identities(html: &mut HtmlWriter, graph: &GraphRecord, others: &[GraphRecord]) {
    html.leaf("h2", &[], "Identities");
    super::frame::facts(html, &["Bits", "Mathematics", "Same mathematics"], |html, index| match index {
        0 => html.leaf("code", &[("class", "hash")], graph.bits),
        1 => html.leaf("code", &[("class", "hash")], graph.mathematics),
        _ if others.is_empty() => html.text("no other graph"),
        _ => {
            for (index, other) in others.iter().enumerate() {
                if index > 0 {
                    html.text(", ");
                }
                hash_link(html, &graph_href(&other.bits), &other.bits);
                html.text(format_args!(" {}", graph_name(&other.text)));
            }
        }
    });
}

fn write_workloads(html: &mut HtmlWriter, bits: &ContentHash, rows: &[ChosenRow]) {
    html.leaf("h2", &[], "Workloads");
    if rows.is_empty() {
        html.leaf("p", &[("class", "empty")], "It has been called with nothing yet.");
        return;
    }
    let columns = [
        ("Arguments", "grow"),
        ("Environment", ""),
        ("Policy", ""),
        ("Chosen path", "grow"),
        ("Median", "number"),
        ("Of the default", "number"),
        ("Measurements", "number"),
    ];
    html.table("cards", &columns, rows.len(), &|_| "", |html, row, column| {
        let ChosenRow { workload, arguments, place, chosen } = &rows[row];
        let Some(place) = place else {
            match column {
                "Arguments" => html.link(&workload_href(bits, workload, None), arguments),
                "Measurements" => html.text("0"),
                _ => html.text(NOTHING),
            }
            return;
        };
        let href = workload_href(bits, workload, Some((&place.environment, &place.policy)));
        match (column, chosen) {
            ("Arguments", _) => html.link(&href, arguments),
            ("Environment", _) => hash(html, &place.environment),
            ("Policy", _) => html.leaf("code", &[], &place.policy),
            ("Measurements", _) => html.text(units::count(place.n_traces)),
            (_, None) => html.text(if column == "Chosen path" { "none" } else { NOTHING }),
            ("Chosen path", Some(chosen)) => {
                write_path(html, bits, &chosen.implementation, &chosen.measured.implementation)
            }
            ("Median", Some(chosen)) => html.text(units::duration(chosen.measured.median)),
            (_, Some(chosen)) => match chosen.verdict {
                PathVerdict::Chosen(ChoiceReason::Wins { ratio }) => {
                    html.leaf("strong", &[], format_args!("{ratio:.3}"))
                }
                PathVerdict::Chosen(ChoiceReason::DefaultStands) => html.text("the default"),
                _ => html.text("it fails"),
            },
        }
    });
}

/// Writes the name of a path as a link, with what its recipe says.
pub(super) fn write_path(
    html: &mut HtmlWriter,
    bits: &ContentHash,
    implementation: &ImplementationRecord,
    implementation_hash: &ContentHash,
) {
    let view = PathView::of(implementation);
    write_path_view(html, bits, implementation, implementation_hash, &view);
}

/// Does the same with a view that is there already.
pub(super) fn write_path_view(
    html: &mut HtmlWriter,
    bits: &ContentHash,
    implementation: &ImplementationRecord,
    implementation_hash: &ContentHash,
    view: &PathView,
) {
    html.element("span", &[("class", "path")], |html| {
        html.link(&path_href(bits, implementation_hash), &view.name);
        html.text(" ");
        hash(html, implementation_hash);
        if implementation.is_default {
            html.text(" ");
            html.leaf("span", &[("class", "badge")], "default");
        }
        if implementation.identity == PathIdentity::Mathematics {
            html.text(" ");
            html.leaf("span", &[("class", "badge"), ("title", "Its results differ by rounding")], "rounds");
        }
        html.leaf("span", &[("class", "detail")], &view.detail);
    });
}

fn write_paths(html: &mut HtmlWriter, bits: &ContentHash, implementations: &[(ImplementationRecord, u64)]) {
    html.leaf("h2", &[], "Paths");
    if implementations.is_empty() {
        html.leaf("p", &[("class", "empty")], "No path is known.");
        return;
    }
    if implementations.len() as u64 == MAX_PATHS {
        html.leaf("p", &[("class", "muted")], format_args!("The first {MAX_PATHS}, defaults before the others."));
    }
    let columns = [("Path", "grow"), ("Results", ""), ("Measurements", "number")];
    html.table("cards", &columns, implementations.len(), &|_| "", |html, row, column| {
        let (implementation, n_traces) = &implementations[row];
        match (column, implementation.hash()) {
            ("Path", Ok(hash)) => write_path(html, bits, implementation, &hash),
            ("Path", Err(error)) => html.text(error),
            ("Results", _) => html.text(match implementation.identity {
                PathIdentity::Bits => "the same bits",
                PathIdentity::Mathematics => "rounded otherwise",
            }),
            _ => html.text(units::count(*n_traces)),
        }
    });
}

fn write_texts(html: &mut HtmlWriter, graph: &GraphRecord) {
    html.leaf("h2", &[], "Canonical texts");
    let texts = [("Bits", &graph.text), ("Mathematics", &graph.mathematics_text)];
    for (name, text) in texts {
        html.element("details", &[], |html| {
            html.leaf("summary", &[], format_args!("{name}, {}", units::counted(text.lines().count() as u64, "line")));
            if name == "Mathematics" && graph.text != graph.mathematics_text {
                write_drawing(html, text);
            }
            html.leaf("pre", &[("tabindex", "0")], text);
        });
    }
}
