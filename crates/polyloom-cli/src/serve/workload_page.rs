//! The page of a workload: what is chosen for it where it was measured and why, all paths with their times, their samples, other
//! environments, and every measurement.

use super::chart::{TimeAxis, bar, bar_legend, strip};
use super::frame::{
    Page, PageFailure, arguments_text, find_graph, graph_href, graph_name, hash, hash_link, moment, path_href, short,
    status, workload_href,
};
use super::graph_page::{query_of, write_path, write_path_view};
use super::html::{HtmlWriter, NOTHING};
use super::http::PageRequest;
use super::path_view::{PathPredictor, PathView};
use super::units;
use polyloom_store::{
    ChoiceReason, ContentHash, EnvironmentRecord, MachineFacts, MeasurementPlace, PathIdentity, PathVerdict,
    RankedPath, SampleSummary, Store, TraceFilter, TraceRecord, TraceStatus, WorkloadSummary, rank_paths,
};

/// Measurements that are read, the newest ones.
const MAX_TRACES: u64 = 300;
const MAX_SESSIONS: usize = 3;
const MAX_LISTED_TRACES: usize = 60;
const MAX_PLACES: usize = 16;

/// Holds what a page shows of one place, read before anything is written.
struct WorkloadView<'a> {
    bits: ContentHash,
    summary: &'a WorkloadSummary,
    place: &'a MeasurementPlace,
    identity: PathIdentity,
    paths: Vec<ShownPath>,
    /// The newest first.
    traces: Vec<TraceRecord>,
    environments: Vec<EnvironmentRecord>,
    /// The choice at each place, and the median of the default in its session.
    choices: Vec<(&'a MeasurementPlace, Option<RankedPath>, Option<u64>)>,
}

/// A ranked path with what else is shown of it.
struct ShownPath {
    ranked: RankedPath,
    view: PathView,
    predicted: Option<u64>,
    /// The summary of the samples by which it is judged.
    summary: Option<SampleSummary>,
    /// Why its newest measurement that is not `ok` is not.
    reason: Option<String>,
}

pub(super) fn page(
    store: &mut dyn Store,
    request: &PageRequest,
    bits: &ContentHash,
    workload: &ContentHash,
) -> Result<Page, PageFailure> {
    let graph = find_graph(store, bits)?;
    let summary = store.workload(bits, workload)?;
    let not_found = || PageFailure::NotFound(format!("The graph has no workload {workload}."));
    let summary = summary.ok_or_else(not_found)?;
    let mut html = HtmlWriter::default();
    let asked = summary.places.iter().find(|place| {
        let environment = request.value("environment").is_none_or(|text| place.environment.to_string() == text);
        environment && request.value("policy").is_none_or(|text| place.policy == text)
    });
    let identity = match request.value("identity") {
        Some("mathematics") => PathIdentity::Mathematics,
        _ => PathIdentity::Bits,
    };
    match asked {
        Some(place) => {
            let view = read_view(store, bits, &summary, place, identity)?;
            write_switches(&mut html, &view);
            write_choice(&mut html, &view);
            write_paths(&mut html, &view);
            write_samples(&mut html, &view);
            write_environments(&mut html, &view);
            write_traces(&mut html, &view);
        }
        None => html.leaf("p", &[("class", "empty")], "It has not been measured there."),
    }
    let way = [("/".to_owned(), "Graphs".to_owned()), (graph_href(bits), graph_name(&graph.text))];
    Ok(Page::new(&arguments_text(&summary.arguments), &way, html))
}

fn read_view<'a>(
    store: &mut dyn Store,
    bits: &ContentHash,
    summary: &'a WorkloadSummary,
    place: &'a MeasurementPlace,
    identity: PathIdentity,
) -> Result<WorkloadView<'a>, PageFailure> {
    let mut traces = store.traces(&TraceFilter {
        graph: *bits,
        workload: Some(summary.hash),
        environment: Some(place.environment),
        limit: Some(MAX_TRACES),
    })?;
    traces.retain(|trace| trace.policy == place.policy);
    let mut paths = Vec::new();
    let predictor = PathPredictor::new();
    for ranked in rank_paths(store, &query_of(bits, summary, place, identity), &mut |_, _| true)? {
        let view = PathView::of(&ranked.implementation);
        let predicted = predictor.predict(&view, &summary.arguments);
        let key = (ranked.measured.implementation, ranked.measured.code_hash);
        let mut own = traces.iter().filter(|trace| (trace.implementation, trace.code_hash) == key);
        let reason = own.clone().find_map(|trace| trace.reason.clone());
        let judged = own
            .find(|trace| trace.measured_at == ranked.measured.measured_at && trace.session == ranked.measured.session);
        let summary = judged.and_then(|trace| SampleSummary::of(&trace.samples));
        paths.push(ShownPath { ranked, view, predicted, summary, reason });
    }
    let mut choices = Vec::new();
    for place in summary.places.iter().take(MAX_PLACES) {
        let ranked = rank_paths(store, &query_of(bits, summary, place, identity), &mut |_, _| true)?;
        let chosen = ranked.iter().find(|path| matches!(path.verdict, PathVerdict::Chosen(_))).cloned();
        let default = chosen.as_ref().and_then(|chosen| default_median(&ranked, chosen));
        choices.push((place, chosen, default));
    }
    let mut environments: Vec<EnvironmentRecord> = Vec::new();
    for place in summary.places.iter().take(MAX_PLACES) {
        if environments.iter().all(|known| known.fingerprint != place.environment) {
            environments.extend(store.environment(&place.environment)?);
        }
    }
    Ok(WorkloadView { bits: *bits, summary, place, identity, paths, traces, environments, choices })
}

/// Returns the median of the default that a path was compared with.
fn default_median(ranked: &[RankedPath], path: &RankedPath) -> Option<u64> {
    let mut defaults = ranked.iter().filter(|each| each.measured.is_default && each.measured.median > 0);
    match path.ratio {
        Some(ratio) if ratio > 0.0 => Some((path.measured.median as f64 / ratio).round() as u64),
        _ => defaults.next().map(|default| default.measured.median),
    }
}

impl WorkloadView<'_> {
    fn facts(&self, environment: &ContentHash) -> Option<&MachineFacts> {
        let found = self.environments.iter().find(|each| each.fingerprint == *environment);
        found.map(|each| &each.facts)
    }

    fn shown(&self, trace: &TraceRecord) -> Option<&ShownPath> {
        self.paths.iter().find(|path| {
            let measured = &path.ranked.measured;
            (measured.implementation, measured.code_hash) == (trace.implementation, trace.code_hash)
        })
    }

    /// Returns the link to the same page with another identity.
    fn href(&self, place: &MeasurementPlace, identity: PathIdentity) -> String {
        let href = workload_href(&self.bits, &self.summary.hash, Some((&place.environment, &place.policy)));
        match identity {
            PathIdentity::Bits => href,
            PathIdentity::Mathematics => format!("{href}&identity=mathematics"),
        }
    }
}

/// Names a machine in few words.
pub(super) fn machine_name(facts: &MachineFacts) -> String {
    let gpus: Vec<&str> = facts.gpus.iter().map(|gpu| &*gpu.name).collect();
    let cpu = if facts.cpu.model.is_empty() { "unknown CPU" } else { &facts.cpu.model };
    let threads = units::counted(facts.cpu.n_usable_threads, "thread");
    match gpus[..] {
        [] => format!("{cpu}, {threads}"),
        [gpu] => format!("{gpu}; {cpu}, {threads}"),
        [gpu, ..] => format!("{}\u{a0}× {gpu}; {cpu}, {threads}", gpus.len()),
    }
}

fn write_switches(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    html.element("div", &[("class", "switches")], |html| {
        html.element("nav", &[("aria-label", "Environment and policy")], |html| {
            html.leaf("span", &[("class", "label")], "Measured on");
            for place in view.summary.places.iter().take(MAX_PLACES) {
                let name = view.facts(&place.environment).map_or_else(|| short(&place.environment), machine_name);
                let current = if place == view.place { "page" } else { "false" };
                html.element("a", &[("href", &view.href(place, view.identity)), ("aria-current", current)], |html| {
                    html.leaf("span", &[], name);
                    html.text(" ");
                    html.leaf("code", &[], &place.policy);
                });
            }
        });
        html.element("nav", &[("aria-label", "Results")], |html| {
            html.leaf("span", &[("class", "label")], "Results");
            let choices = [(PathIdentity::Bits, "same bits"), (PathIdentity::Mathematics, "rounding allowed")];
            for (identity, word) in choices {
                let current = if identity == view.identity { "page" } else { "false" };
                let href = view.href(view.place, identity);
                html.leaf("a", &[("href", &href), ("aria-current", current)], word);
            }
        });
    });
}

fn write_choice(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    html.element("section", &[("class", "choice"), ("aria-label", "The choice")], |html| {
        let chosen = view.paths.iter().find_map(|path| match path.ranked.verdict {
            PathVerdict::Chosen(reason) => Some((path, reason)),
            _ => None,
        });
        let Some((path, reason)) = chosen else {
            html.leaf("p", &[("class", "verdict")], "Nothing is chosen");
            html.leaf("p", &[], "No default path was measured that works, so that nothing says what a path gains.");
            return;
        };
        html.element("p", &[("class", "verdict")], |html| {
            match reason {
                ChoiceReason::Wins { ratio } => html.leaf("strong", &[], format_args!("{:.2}×", 1.0 / ratio)),
                ChoiceReason::DefaultStands => html.leaf("strong", &[], "Default"),
                ChoiceReason::DefaultFails => html.leaf("strong", &[], "Default fails"),
            }
            html.text(" ");
            let measured = &path.ranked.measured;
            write_path_view(html, &view.bits, &path.ranked.implementation, &measured.implementation, &path.view);
        });
        html.leaf("p", &[], format_args!("It is chosen because {reason}."));
        html.element("p", &[("class", "muted")], |html| {
            html.text(format_args!(
                "By {} in this environment. It counts as a win if the median is smaller than the default's of the same session \
                 by 2 % and by three standard errors. Whether recipes still give the measured code is not known here.",
                units::counted(view.place.n_traces, "measurement")
            ));
        });
    });
}

fn write_paths(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    html.leaf("h2", &[], "Paths");
    let summaries: Vec<SampleSummary> = view.paths.iter().filter_map(|path| path.summary).collect();
    let default = view.paths.iter().find(|path| path.ranked.measured.is_default && path.ranked.measured.median > 0);
    let axis = TimeAxis::of(&summaries, default.map(|path| path.ranked.measured.median));
    if !summaries.is_empty() {
        bar_legend(html);
    }
    let columns = [
        ("Path", "grow"),
        ("Time", "chart"),
        ("Median", "number"),
        ("Predicted", "number"),
        ("Of the default", "number"),
        ("Error", "number"),
        ("Verdict", "grow"),
    ];
    let class = |row: usize| match view.paths[row].ranked.verdict {
        PathVerdict::Chosen(_) => "chosen",
        PathVerdict::Wrong | PathVerdict::Fails(_) | PathVerdict::Stale => "out",
        _ => "",
    };
    html.table("cards paths", &columns, view.paths.len(), &class, |html, row, column| {
        let path = &view.paths[row];
        let measured = &path.ranked.measured;
        match column {
            "Path" => {
                write_path_view(html, &view.bits, &path.ranked.implementation, &measured.implementation, &path.view);
            }
            "Time" => match &path.summary {
                Some(summary) => {
                    let class = match path.ranked.verdict {
                        PathVerdict::Chosen(_) => "bar chosen",
                        _ if measured.is_default => "bar default",
                        _ => "bar",
                    };
                    bar(html, axis, summary, path.predicted, class);
                    if row == 0 {
                        axis.ends(html);
                    }
                }
                None => html.leaf("span", &[("class", "muted")], "no samples"),
            },
            "Median" => match path.summary {
                Some(summary) => {
                    html.text(units::duration(summary.median));
                    let noise = 100.0 * measured.relative_error();
                    html.leaf(
                        "span",
                        &[("class", "detail"), ("title", "The standard error of the median")],
                        format_args!("± {noise:.1} %"),
                    );
                    html.leaf("span", &[("class", "detail")], format_args!("min {}", units::duration(summary.min)));
                }
                None => html.text(NOTHING),
            },
            "Predicted" => match path.predicted {
                Some(time) => html.text(units::duration(time)),
                None => html.text(NOTHING),
            },
            "Of the default" => match path.ranked.ratio {
                Some(ratio) => html.text(format_args!("{ratio:.3}")),
                None => html.text(NOTHING),
            },
            "Error" => match measured.error {
                Some(error) => html.text(units::error(error)),
                None => html.text(NOTHING),
            },
            _ => write_verdict(html, path),
        }
    });
}

fn write_verdict(html: &mut HtmlWriter, path: &ShownPath) {
    match path.ranked.verdict {
        PathVerdict::Chosen(_) => html.leaf("span", &[("class", "status ok")], "chosen"),
        PathVerdict::Wrong => status(html, TraceStatus::Wrong),
        PathVerdict::Fails(ended) => status(html, ended),
        PathVerdict::Unsteady => status(html, TraceStatus::TooNoisy),
        verdict => html.text(verdict),
    }
    if let PathVerdict::Wrong = path.ranked.verdict {
        html.text(" never runs for this workload again");
    }
    if let Some(reason) = &path.reason {
        html.leaf("span", &[("class", "detail reason")], reason);
    }
}

fn write_samples(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    let mut sessions: Vec<&str> = Vec::new();
    for trace in view.traces.iter().filter(|trace| !trace.samples.is_empty()) {
        if !sessions.contains(&&*trace.session) {
            sessions.push(&trace.session);
        }
    }
    if sessions.is_empty() {
        return;
    }
    html.leaf("h2", &[], "Samples");
    html.leaf(
        "p",
        &[("class", "muted")],
        "Each dot is a sample: its time from left to right, its turn from top to bottom. Paths of a session took turns.",
    );
    let n_sessions = sessions.len();
    for session in sessions.into_iter().take(MAX_SESSIONS) {
        let of_session = view.traces.iter().filter(|trace| trace.session == session);
        let mut rows: Vec<(&TraceRecord, SampleSummary)> =
            of_session.filter_map(|trace| Some((trace, SampleSummary::of(&trace.samples)?))).collect();
        rows.sort_by_key(|(_, summary)| summary.median);
        let is_default = |trace: &TraceRecord| view.shown(trace).is_some_and(|path| path.ranked.measured.is_default);
        let default = rows.iter().find(|(trace, _)| is_default(trace)).map(|(_, summary)| summary.median);
        let summaries: Vec<SampleSummary> = rows.iter().map(|(_, summary)| *summary).collect();
        let axis = TimeAxis::of(&summaries, default);
        html.element("h3", &[], |html| {
            html.text("Session ");
            html.leaf("code", &[], session);
            html.text(" ");
            moment(html, rows.first().map(|(trace, _)| trace.measured_at));
        });
        html.element("div", &[("class", "strips")], |html| {
            for (trace, summary) in &rows {
                html.element("div", &[("class", "strip-row")], |html| {
                    html.element("div", &[("class", "strip-name")], |html| {
                        let name = view.shown(trace).map_or("unknown", |path| &*path.view.name);
                        html.link(&path_href(&view.bits, &trace.implementation), name);
                        html.text(" ");
                        hash(html, &trace.implementation);
                        if is_default(trace) {
                            html.text(" ");
                            html.leaf("span", &[("class", "badge")], "default");
                        }
                        if trace.status != TraceStatus::Ok {
                            html.text(" ");
                            status(html, trace.status);
                        }
                    });
                    strip(html, axis, summary, &trace.samples);
                });
            }
            html.element("div", &[("class", "strip-row")], |html| {
                html.leaf("div", &[("class", "strip-name")], "");
                axis.ends(html);
            });
        });
    }
    if n_sessions > MAX_SESSIONS {
        let n_more = (n_sessions - MAX_SESSIONS) as u64;
        html.leaf("p", &[("class", "muted")], format_args!("{} before these.", units::counted(n_more, "session")));
    }
}

fn write_environments(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    html.leaf("h2", &[], "Environments");
    let columns = [
        ("Environment", "grow"),
        ("Policy", ""),
        ("Chosen path", "grow"),
        ("Median", "number"),
        ("Default", "number"),
        ("Of the default", "number"),
    ];
    let class = |row: usize| if view.choices[row].0 == view.place { "current" } else { "" };
    html.table("cards", &columns, view.choices.len(), &class, |html, row, column| {
        let (place, chosen, default) = &view.choices[row];
        match (column, chosen) {
            ("Environment", _) => {
                let name = view.facts(&place.environment).map_or_else(|| short(&place.environment), machine_name);
                html.link(&view.href(place, view.identity), name);
                html.text(" ");
                hash(html, &place.environment);
            }
            ("Policy", _) => html.leaf("code", &[], &place.policy),
            (_, None) => html.text(if column == "Chosen path" { "none" } else { NOTHING }),
            ("Chosen path", Some(chosen)) => {
                write_path(html, &view.bits, &chosen.implementation, &chosen.measured.implementation);
            }
            ("Median", Some(chosen)) => html.text(units::duration(chosen.measured.median)),
            ("Default", _) => html.text(default.map_or_else(|| NOTHING.to_owned(), units::duration)),
            (_, Some(chosen)) => {
                html.text(chosen.ratio.map_or_else(|| NOTHING.to_owned(), |ratio| format!("{ratio:.3}")))
            }
        }
    });
    html.element("p", &[], |html| html.link("/environments", "Compare what the machines have"));
}

fn write_traces(html: &mut HtmlWriter, view: &WorkloadView<'_>) {
    html.leaf("h2", &[], "Measurements");
    let n_shown = view.traces.len().min(MAX_LISTED_TRACES);
    html.element("details", &[], |html| {
        let n = units::counted(view.place.n_traces, "measurement");
        let which = if (n_shown as u64) < view.place.n_traces {
            format!(", the newest {n_shown} one by one")
        } else {
            ", one by one".to_owned()
        };
        html.leaf("summary", &[], format_args!("{n}{which}"));
        write_trace_table(html, view, n_shown);
    });
}

fn write_trace_table(html: &mut HtmlWriter, view: &WorkloadView<'_>, n_shown: usize) {
    let columns = [
        ("When", "nowrap"),
        ("Path", ""),
        ("Code", ""),
        ("Status", "grow"),
        ("Median", "number"),
        ("Samples", "number"),
        ("Error", "number"),
        ("Machine", ""),
        ("Session", ""),
    ];
    html.table("cards traces", &columns, n_shown, &|_| "", |html, row, column| {
        let trace = &view.traces[row];
        let summary = SampleSummary::of(&trace.samples);
        match column {
            "When" => moment(html, Some(trace.measured_at)),
            "Path" => {
                let href = path_href(&view.bits, &trace.implementation);
                hash_link(html, &href, &trace.implementation);
                let name = view.shown(trace).map_or("", |path| &*path.view.name);
                html.text(format_args!(" {name}"));
            }
            "Code" => hash(html, &trace.code_hash),
            "Status" => {
                status(html, trace.status);
                if let Some(reason) = &trace.reason {
                    html.leaf("span", &[("class", "detail reason")], reason);
                }
            }
            "Median" => {
                html.text(summary.map_or_else(|| NOTHING.to_owned(), |summary| units::duration(summary.median)))
            }
            "Samples" => {
                html.text(units::count(trace.samples.len() as u64));
                if let Some(summary) = summary.filter(|summary| summary.n_outliers > 0) {
                    let outliers = units::counted(summary.n_outliers, "outlier");
                    html.leaf("span", &[("class", "detail")], outliers);
                }
            }
            "Error" => html.text(trace.error.map_or_else(|| NOTHING.to_owned(), units::error)),
            "Machine" => write_observations(html, trace),
            _ => html.leaf("code", &[], &trace.session),
        }
    });
}

/// Writes what was seen of the machine before and after a measurement.
fn write_observations(html: &mut HtmlWriter, trace: &TraceRecord) {
    let observed = &trace.observations;
    let pairs = [
        ("load", observed.load, ""),
        ("CPU", observed.cpu_mhz, "\u{a0}MHz"),
        ("GPU", observed.gpu_mhz, "\u{a0}MHz"),
        ("at", observed.temperature, "\u{a0}°C"),
    ];
    let mut is_first = true;
    for (word, pair, unit) in pairs {
        let Some([before, after]) = pair else { continue };
        let separator = if is_first { "" } else { ", " };
        html.text(format_args!("{separator}{word}\u{a0}{before}→{after}{unit}"));
        is_first = false;
    }
    if is_first {
        html.text(NOTHING);
    }
}
