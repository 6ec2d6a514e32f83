//! The first page: what the database has, what was measured last, and the graphs.

use super::frame::{
    Page, PageFailure, arguments_text, graph_href, graph_name, hash_link, moment, pager, workload_href,
};
use super::html::HtmlWriter;
use super::http::{PageRequest, encode};
use super::op_index::OpIndex;
use super::units;
use polyloom_store::{GraphSummary, SessionSummary, Store};
use std::collections::BTreeMap;

const GRAPHS_OF_PAGE: u64 = 50;
const MAX_SESSIONS: usize = 8;
/// Sessions are looked for among so many of the last measurements.
const MAX_SESSION_TRACES: u64 = 1000;
/// A longer text to search for is none of an op's name.
const MAX_SEARCH_LETTERS: usize = 100;

/// Some of the graphs that are looked at.
struct FoundGraphs {
    n_graphs: u64,
    graphs: Vec<GraphSummary>,
}

pub(super) fn page(store: &mut dyn Store, index: &OpIndex, request: &PageRequest) -> Result<Page, PageFailure> {
    let search: Option<String> =
        request.value("search").map(|text| text.trim().chars().take(MAX_SEARCH_LETTERS).collect());
    let search = search.filter(|text| !text.is_empty());
    let number = request.value("page").and_then(|text| text.parse().ok()).filter(|page| *page >= 1).unwrap_or(1u64);
    let offset = (number - 1).saturating_mul(GRAPHS_OF_PAGE);
    let counts = store.counts()?;
    let found = match &search {
        Some(search) => {
            let hashes = index.find(store, search)?;
            let of_page =
                hashes.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX)).take(GRAPHS_OF_PAGE as usize);
            let graphs: Result<Vec<_>, _> = of_page.map(|hash| store.graph_summary(hash)).collect();
            FoundGraphs { n_graphs: hashes.len() as u64, graphs: graphs?.into_iter().flatten().collect() }
        }
        None => FoundGraphs {
            n_graphs: counts.get("canonical_graphs").copied().unwrap_or_default(),
            graphs: store.graph_page(offset, GRAPHS_OF_PAGE)?,
        },
    };
    let is_first = number == 1 && search.is_none();
    let sessions = if is_first { store.newest_sessions(MAX_SESSION_TRACES)? } else { Vec::new() };
    let names = session_names(store, &sessions)?;
    let mut html = HtmlWriter::default();
    write_counts(&mut html, &counts);
    if is_first {
        write_sessions(&mut html, &sessions, &names);
    }
    write_graphs(&mut html, &found, search.as_deref(), number);
    Ok(Page::new("Overview", &[], html))
}

/// Returns the names of the graphs of sessions, by their hashes.
fn session_names(store: &mut dyn Store, sessions: &[SessionSummary]) -> Result<BTreeMap<String, String>, PageFailure> {
    let mut names = BTreeMap::new();
    for session in sessions.iter().take(MAX_SESSIONS) {
        let graph = super::frame::find_graph(store, &session.graph)?;
        names.insert(graph.bits.to_string(), graph_name(&graph.text));
    }
    Ok(names)
}

fn write_counts(html: &mut HtmlWriter, counts: &BTreeMap<&'static str, u64>) {
    const SHOWN: [(&str, &str); 6] = [
        ("canonical_graphs", "graphs"),
        ("implementations", "paths"),
        ("workloads", "workloads"),
        ("environments", "environments"),
        ("benchmark_traces", "measurements"),
        ("leases", "jobs"),
    ];
    html.element("ul", &[("class", "counts"), ("aria-label", "Counts")], |html| {
        for (table, word) in SHOWN {
            html.element("li", &[], |html| {
                html.leaf("strong", &[], units::count(counts.get(table).copied().unwrap_or_default()));
                html.text(format_args!(" {word}"));
            });
        }
    });
}

fn write_sessions(html: &mut HtmlWriter, sessions: &[SessionSummary], names: &BTreeMap<String, String>) {
    html.leaf("h2", &[], "Newest sessions");
    if sessions.is_empty() {
        html.leaf("p", &[("class", "empty")], "Nothing has been measured yet.");
        return;
    }
    let columns = [
        ("When", "nowrap"),
        ("Graph", "grow"),
        ("Arguments", "grow"),
        ("Environment", ""),
        ("Policy", ""),
        ("Measurements", "number"),
    ];
    let n_shown = sessions.len().min(MAX_SESSIONS);
    html.table("cards", &columns, n_shown, &|_| "", |html, row, column| {
        let session = &sessions[row];
        let place = (&session.environment, &*session.policy);
        match column {
            "When" => moment(html, Some(session.measured_at)),
            "Graph" => {
                let name = names.get(&session.graph.to_string()).map_or("", String::as_str);
                html.link(&graph_href(&session.graph), name);
            }
            "Arguments" => {
                let text = arguments_text(&session.arguments);
                html.link(&workload_href(&session.graph, &session.workload, Some(place)), text);
            }
            "Environment" => html.text(session.gpu.as_deref().unwrap_or(&session.cpu)),
            "Policy" => html.leaf("code", &[], &session.policy),
            _ => {
                html.text(units::count(session.n_traces));
                if session.n_failed > 0 {
                    html.leaf("span", &[("class", "muted")], format_args!(", {} not ok", session.n_failed));
                }
            }
        }
    });
}

fn write_graphs(html: &mut HtmlWriter, found: &FoundGraphs, search: Option<&str>, number: u64) {
    html.leaf("h2", &[("id", "graphs")], "Graphs");
    html.element("form", &[("class", "search"), ("action", "/"), ("method", "get"), ("role", "search")], |html| {
        html.leaf("label", &[("for", "search")], "Op");
        html.void(
            "input",
            &[
                ("id", "search"),
                ("type", "search"),
                ("name", "search"),
                ("value", search.unwrap_or("")),
                ("placeholder", "softmax"),
                ("autocomplete", "off"),
            ],
        );
        html.leaf("button", &[("type", "submit")], "Search");
        if search.is_some() {
            html.link("/", "all graphs");
        }
    });
    if let Some(search) = search {
        html.element("p", &[("class", "muted")], |html| {
            html.text(format_args!("{} with ", units::counted(found.n_graphs, "graph")));
            html.leaf("code", &[], search);
            html.text(" among the ops of the canonical text or of the default path.");
        });
    }
    if found.graphs.is_empty() {
        html.leaf("p", &[("class", "empty")], "No graph is found.");
        return;
    }
    let columns = [
        ("Graph", "grow"),
        ("Bits", ""),
        ("Paths", "number"),
        ("Workloads", "number"),
        ("Measurements", "number"),
        ("Newest", "nowrap"),
    ];
    html.table("cards", &columns, found.graphs.len(), &|_| "", |html, row, column| {
        let summary = &found.graphs[row];
        let bits = &summary.graph.bits;
        match column {
            "Graph" => html.link(&graph_href(bits), graph_name(&summary.graph.text)),
            "Bits" => hash_link(html, &graph_href(bits), bits),
            "Paths" => html.text(units::count(summary.n_implementations)),
            "Workloads" => html.text(units::count(summary.n_workloads)),
            "Measurements" => html.text(units::count(summary.n_traces)),
            _ => moment(html, summary.measured_at),
        }
    });
    let href = |page: u64| match search {
        Some(search) => format!("/?search={}&page={page}#graphs", encode(search)),
        None => format!("/?page={page}#graphs"),
    };
    pager(html, &href, number, found.n_graphs.div_ceil(GRAPHS_OF_PAGE));
}
