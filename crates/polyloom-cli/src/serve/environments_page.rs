//! The page of environments: all of them, and some side by side.

use super::frame::{Page, PageFailure, hash, moment};
use super::html::{HtmlWriter, NOTHING};
use super::http::PageRequest;
use super::units;
use super::workload_page::machine_name;
use polyloom_store::{EnvironmentSummary, MachineFacts, Store};
use std::collections::BTreeMap;

/// Environments that stand side by side, unless others are asked for.
const N_COMPARED: usize = 3;
const MAX_COMPARED: usize = 8;
const MAX_LISTED: usize = 200;

pub(super) fn page(store: &mut dyn Store, request: &PageRequest) -> Result<Page, PageFailure> {
    let mut environments = store.environments()?;
    environments.sort_by_key(|each| std::cmp::Reverse(each.measured_at));
    let asked: Vec<&str> = request.values("e").take(MAX_COMPARED).collect();
    let is_compared = |index: usize| {
        let fingerprint = environments[index].environment.fingerprint.to_string();
        if asked.is_empty() { index < N_COMPARED } else { asked.iter().any(|each| *each == fingerprint) }
    };
    let compared: Vec<&EnvironmentSummary> =
        (0..environments.len()).filter(|&index| is_compared(index)).map(|index| &environments[index]).collect();
    let mut html = HtmlWriter::default();
    if environments.is_empty() {
        html.leaf("p", &[("class", "empty")], "No environment is known: nothing has been measured.");
        return Ok(Page::new("Environments", &[], html));
    }
    html.element("form", &[("action", "/environments"), ("method", "get")], |html| {
        let columns = [
            ("Compare", ""),
            ("Fingerprint", ""),
            ("Machine", "grow"),
            ("Measurements", "number"),
            ("Newest", "nowrap"),
        ];
        html.table("cards", &columns, environments.len().min(MAX_LISTED), &|_| "", |html, row, column| {
            let summary = &environments[row];
            let fingerprint = summary.environment.fingerprint.to_string();
            match column {
                "Compare" => {
                    let label = format!("Compare {}", machine_name(&summary.environment.facts));
                    let attributes = [
                        ("type", "checkbox"),
                        ("name", "e"),
                        ("value", &*fingerprint),
                        ("aria-label", &*label),
                        ("checked", ""),
                    ];
                    let n = if is_compared(row) { attributes.len() } else { attributes.len() - 1 };
                    html.void("input", &attributes[..n]);
                }
                "Fingerprint" => hash(html, &summary.environment.fingerprint),
                "Machine" => html.text(machine_name(&summary.environment.facts)),
                "Measurements" => html.text(units::count(summary.n_traces)),
                _ => moment(html, summary.measured_at),
            }
        });
        if environments.len() > 1 {
            html.element("p", &[], |html| html.leaf("button", &[("type", "submit")], "Compare"));
        }
    });
    if !compared.is_empty() {
        write_comparison(&mut html, &compared);
    }
    Ok(Page::new("Environments", &[], html))
}

fn write_comparison(html: &mut HtmlWriter, compared: &[&EnvironmentSummary]) {
    html.leaf("h2", &[], "Side by side");
    if compared.len() > 1 {
        html.leaf("p", &[("class", "muted")], "Lines in which they differ are marked.");
    }
    let facts: Vec<BTreeMap<(u32, String), String>> =
        compared.iter().map(|each| facts_of(&each.environment.facts)).collect();
    let mut words: Vec<&(u32, String)> = facts.iter().flat_map(BTreeMap::keys).collect();
    words.sort();
    words.dedup();
    html.element(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", "Side by side")],
        |html| {
            html.element("table", &[("class", "compare")], |html| {
                html.element("thead", &[], |html| {
                    html.element("tr", &[], |html| {
                        html.leaf("th", &[("scope", "col")], "");
                        for each in compared {
                            html.element("th", &[("scope", "col")], |html| hash(html, &each.environment.fingerprint));
                        }
                    });
                });
                html.element("tbody", &[], |html| {
                    for word in words {
                        let values: Vec<&str> =
                            facts.iter().map(|facts| facts.get(word).map_or(NOTHING, String::as_str)).collect();
                        let is_same = values.iter().all(|value| value == &values[0]);
                        html.element("tr", &[("class", if is_same { "" } else { "differs" })], |html| {
                            html.leaf("th", &[("scope", "row")], &word.1);
                            for value in values {
                                html.leaf("td", &[], value);
                            }
                        });
                    }
                });
            });
        },
    );
}

/// Returns the facts about a machine that are known, by their order and name.
fn facts_of(facts: &MachineFacts) -> BTreeMap<(u32, String), String> {
    let mut known = BTreeMap::new();
    let mut next = 0;
    let mut put = |name: String, value: String| {
        next += 1;
        if !value.is_empty() && value != "0" {
            known.insert((next, name), value);
        }
    };
    let MachineFacts { cpu, memory_bytes, n_numa_nodes, gpus, system, libraries } = facts;
    put("CPU".to_owned(), cpu.model.clone());
    put("Architecture".to_owned(), cpu.architecture.clone());
    put("Instruction sets".to_owned(), cpu.features.join(" "));
    put("Sockets".to_owned(), cpu.n_sockets.to_string());
    put("Cores".to_owned(), cpu.n_cores.to_string());
    put("Threads".to_owned(), cpu.n_threads.to_string());
    put("Usable threads".to_owned(), cpu.n_usable_threads.to_string());
    let caches = cpu.caches.iter().map(|cache| {
        let kind = if cache.kind == "Unified" { String::new() } else { format!(" {}", cache.kind.to_lowercase()) };
        format!("L{}{kind} {}", cache.level, units::bytes(cache.bytes))
    });
    put("Caches".to_owned(), caches.collect::<Vec<_>>().join(", "));
    put("Governor".to_owned(), cpu.governor.clone());
    put("CPU clock".to_owned(), megahertz(cpu.max_mhz));
    put("Memory".to_owned(), if *memory_bytes == 0 { String::new() } else { units::bytes(*memory_bytes) });
    put("NUMA nodes".to_owned(), n_numa_nodes.to_string());
    put("System".to_owned(), system.name.clone());
    put("Distribution".to_owned(), system.distribution.clone());
    put("Kernel".to_owned(), system.kernel.clone());
    put("Huge pages".to_owned(), system.huge_pages.clone());
    for (index, gpu) in gpus.iter().enumerate() {
        let name = |what: &str| format!("GPU {index}{what}");
        let (major, minor) = gpu.compute_capability;
        put(name(""), gpu.name.clone());
        put(name(" memory"), units::bytes(gpu.memory_bytes));
        put(name(" driver"), format!("{}, CUDA {}", gpu.driver, gpu.cuda));
        put(name(" compute capability"), format!("{major}.{minor}"));
        put(name(" multiprocessors"), gpu.n_multiprocessors.to_string());
        put(name(" clocks"), format!("{}, memory {}", megahertz(gpu.max_mhz), megahertz(gpu.max_memory_mhz)));
    }
    // Libraries stand after all GPUs of any machine, by name.
    known.extend(libraries.iter().map(|(name, version)| ((u32::MAX, name.clone()), version.clone())));
    known
}

fn megahertz(mhz: u64) -> String {
    if mhz == 0 { String::new() } else { format!("{}\u{a0}MHz", units::count(mhz)) }
}
