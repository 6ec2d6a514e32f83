//! This module writes what all pages have: the head, the way back, the foot, and the short forms of records.

use super::html::{HtmlWriter, NOTHING};
use super::http::encode;
use super::units;
use polyloom::graph::drawing::GraphOutline;
use polyloom_store::{ContentHash, GraphRecord, Store, StoreError, TraceStatus, WorkloadArgument};

/// The ops that the name of a graph has; a large graph has many more.
const MAX_NAMED_OPS: usize = 6;

/// The reason why there is no page.
pub(super) enum PageFailure {
    /// The database has no such record, or this program no such page.
    NotFound(String),
    /// The database fails.
    Store(StoreError),
}

/// A page that is being made.
pub(super) struct Page {
    title: String,
    /// Links and names of the pages above this one.
    way: Vec<(String, String)>,
    body: HtmlWriter,
}

impl Page {
    pub(super) fn new(title: &str, way: &[(String, String)], body: HtmlWriter) -> Page {
        Page { title: title.to_owned(), way: way.to_vec(), body }
    }

    /// Returns the whole document.
    pub(super) fn finish(self, database: &str) -> String {
        let Page { title, way, body } = self;
        let body = body.finish();
        let mut html = HtmlWriter::default();
        html.doctype();
        html.element("html", &[("lang", "en")], |html| {
            html.element("head", &[], |html| {
                html.void("meta", &[("charset", "utf-8")]);
                html.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
                html.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
                html.leaf("title", &[], format_args!("{title} · Polyloom benchmarks"));
                html.void("link", &[("rel", "stylesheet"), ("href", "/style.css")]);
                html.void("link", &[("rel", "icon"), ("href", "/icon.svg")]);
            });
            html.element("body", &[], |html| {
                html.element("header", &[("class", "site")], |html| {
                    html.element("nav", &[("aria-label", "Pages")], |html| {
                        html.element("a", &[("class", "brand"), ("href", "/")], |html| html.text("Polyloom benchmarks"));
                        html.link("/environments", "Environments");
                        html.link("/jobs", "Jobs");
                    });
                    html.leaf("span", &[("class", "database"), ("title", "The database that is shown")], database);
                });
                html.element("main", &[], |html| {
                    if !way.is_empty() {
                        html.element("nav", &[("class", "way"), ("aria-label", "Way")], |html| {
                            for (href, name) in &way {
                                html.link(href, name);
                                html.leaf("span", &[("aria-hidden", "true")], " › ");
                            }
                        });
                    }
                    html.leaf("h1", &[], &title);
                    html.finished(&body);
                });
                html.element("footer", &[], |html| {
                    html.text(
                        "Read from the database for this page; times are UTC. Choices are derived from measurements each time, \
                         and stored nowhere.",
                    );
                });
            });
        });
        html.finish()
    }
}

pub(super) fn failure_page(title: &str, what: &str) -> Page {
    let mut html = HtmlWriter::default();
    html.leaf("p", &[("class", "lead")], what);
    html.element("p", &[], |html| html.link("/", "To the overview"));
    Page::new(title, &[], html)
}

/// Returns the graph with a hash of its bits.
pub(super) fn find_graph(store: &mut dyn Store, bits: &ContentHash) -> Result<GraphRecord, PageFailure> {
    let mut graphs = store.graphs_of(bits)?.into_iter();
    let found = graphs.find(|graph| graph.bits == *bits);
    found.ok_or_else(|| PageFailure::NotFound(format!("The database has no graph {bits}.")))
}

/// Names a graph by its ops, because hashes say nothing to people.
pub(super) fn graph_name(text: &str) -> String {
    let Ok(outline) = GraphOutline::read(text) else {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("an empty text");
        return line.chars().take(60).collect();
    };
    let counts = outline.op_counts();
    let named: Vec<String> = counts
        .iter()
        .take(MAX_NAMED_OPS)
        .map(|(op, n)| if *n == 1 { (*op).to_owned() } else { format!("{n}\u{a0}{op}") })
        .collect();
    match counts.len() {
        0 => "no op".to_owned(),
        n if n > MAX_NAMED_OPS => format!("{} and {} more", named.join(", "), n - MAX_NAMED_OPS),
        _ => named.join(", "),
    }
}

/// Writes the arguments of a workload as a list of types.
pub(super) fn arguments_text(arguments: &[WorkloadArgument]) -> String {
    let types = arguments.iter().map(|argument| {
        let extents: Vec<String> = argument.shape.iter().map(u64::to_string).collect();
        let layout = if argument.layout == "c" { String::new() } else { format!(" {}", argument.layout) };
        format!("{}[{}]{layout}", argument.dtype, extents.join(", "))
    });
    let types: Vec<String> = types.collect();
    if types.is_empty() { "no arguments".to_owned() } else { types.join(" · ") }
}

/// Returns the first digits of a hash, which tell the few of a page apart.
pub(super) fn short(hash: &ContentHash) -> String {
    hash.to_string()[..8].to_owned()
}

/// Writes the first digits of a hash; the others are in its title.
pub(super) fn hash(html: &mut HtmlWriter, hash: &ContentHash) {
    html.leaf("code", &[("class", "short"), ("title", &hash.to_string())], short(hash));
}

/// Writes the first digits of a hash as a link.
pub(super) fn hash_link(html: &mut HtmlWriter, href: &str, linked: &ContentHash) {
    html.element("a", &[("href", href)], |html| hash(html, linked));
}

pub(super) fn graph_href(graph: &ContentHash) -> String {
    format!("/graph/{graph}")
}

pub(super) fn path_href(graph: &ContentHash, implementation: &ContentHash) -> String {
    format!("/path/{graph}/{implementation}")
}

/// Returns the link to a workload, in an environment and by a policy if they are given.
pub(super) fn workload_href(
    graph: &ContentHash,
    workload: &ContentHash,
    place: Option<(&ContentHash, &str)>,
) -> String {
    match place {
        None => format!("/workload/{graph}/{workload}"),
        Some((environment, policy)) => {
            format!("/workload/{graph}/{workload}?environment={environment}&policy={}", encode(policy))
        }
    }
}

pub(super) fn status_text(status: TraceStatus) -> &'static str {
    match status {
        TraceStatus::Ok => "ok",
        TraceStatus::DoesNotCompile => "does not compile",
        TraceStatus::Wrong => "wrong",
        TraceStatus::TimedOut => "timed out",
        TraceStatus::TooNoisy => "too noisy",
        TraceStatus::Failed => "failed",
    }
}

pub(super) fn status(html: &mut HtmlWriter, status: TraceStatus) {
    let class = match status {
        TraceStatus::Ok => "status ok",
        TraceStatus::TooNoisy => "status noisy",
        _ => "status bad",
    };
    html.leaf("span", &[("class", class)], status_text(status));
}

/// Writes a time of day, or a dash.
pub(super) fn moment(html: &mut HtmlWriter, microseconds: Option<i64>) {
    match microseconds {
        Some(at) => html.leaf("time", &[("class", "nowrap")], units::moment(at)),
        None => html.text(NOTHING),
    }
}

/// Writes links to the neighbours of a page of a list.
pub(super) fn pager(html: &mut HtmlWriter, href: &dyn Fn(u64) -> String, number: u64, n_pages: u64) {
    if n_pages <= 1 {
        return;
    }
    html.element("nav", &[("class", "pager"), ("aria-label", "Pages of the list")], |html| {
        if number > 1 {
            html.link(&href(number - 1), "← newer");
        }
        html.leaf("span", &[], format_args!("page {} of {}", units::count(number), units::count(n_pages)));
        if number < n_pages {
            html.link(&href(number + 1), "older →");
        }
    });
}

/// Writes pairs of a word and what the callback writes for it.
pub(super) fn facts(html: &mut HtmlWriter, words: &[&str], mut value: impl FnMut(&mut HtmlWriter, usize)) {
    html.element("dl", &[("class", "facts")], |html| {
        for (index, word) in words.iter().enumerate() {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], word);
                html.element("dd", &[], |html| value(html, index));
            });
        }
    });
}
