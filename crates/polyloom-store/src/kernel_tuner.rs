//! Export for other tools: Kernel Tuner's cache files (its schema `cache` 1.1.0) and the open results format T4
//! (schema 1.0.0, `results`), which Kernel Tuner and its relatives read. One file holds what was measured of one graph with
//! one workload in one environment by one policy.
//!
//! Sources: `kernel_tuner/schema/cache/1.1.0/schema.json` and `kernel_tuner/schema/T4/1.0.0/results-schema.json` of
//! Kernel Tuner. Times there are milliseconds.

use crate::{
    ContentHash, MachineFacts, SampleSummary, Store, StoreError, StoreRecord, TraceFilter, TraceRecord, TraceStatus,
    WorkloadArgument,
};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The format of a file for other tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunerFormat {
    /// Kernel Tuner's cache file, 1.1.0.
    KernelTunerCache,
    /// Results of the format T4, 1.0.0.
    T4Results,
}

/// A file for other tools.
#[derive(Clone, PartialEq, Debug)]
pub struct TunerFile {
    /// Its name, which says of which graph, workload, environment and policy it is.
    pub name: String,
    /// Its JSON.
    pub content: Value,
}

/// A parameter of a recipe in these formats: a path of names to a number, text or truth value.
type TuneParameters = BTreeMap<String, Value>;

/// Reads the whole database, and calls back with one file after the other.
///
/// # Errors
///
/// If the database cannot be read, or the callback fails.
pub fn export_for_tuners(
    store: &mut dyn Store,
    format: TunerFormat,
    each: &mut dyn FnMut(TunerFile) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut recipes: FxHashMap<(ContentHash, ContentHash), TuneParameters> = FxHashMap::default();
    let mut workloads: FxHashMap<(ContentHash, ContentHash), Vec<WorkloadArgument>> = FxHashMap::default();
    let mut environments: FxHashMap<ContentHash, MachineFacts> = FxHashMap::default();
    // The traces themselves are read group by group, because all of them may not fit into memory.
    let mut groups: BTreeMap<(ContentHash, ContentHash, ContentHash), BTreeSet<String>> = BTreeMap::new();
    store.for_each_record(&mut |record| {
        match record {
            StoreRecord::Graph(_) => {}
            StoreRecord::Implementation(record) => {
                let recipe = serde_json::from_str(&record.recipe).unwrap_or(Value::Null);
                let mut parameters = TuneParameters::new();
                flatten(&recipe, String::new(), &mut parameters);
                recipes.insert((record.graph, record.hash()?), parameters);
            }
            StoreRecord::Workload(record) => {
                workloads.insert((record.graph, record.hash()), record.arguments);
            }
            StoreRecord::Environment(record) => {
                environments.insert(record.fingerprint, record.facts);
            }
            StoreRecord::Trace(trace) => {
                groups.entry((trace.graph, trace.workload, trace.environment)).or_default().insert(trace.policy);
            }
        }
        Ok(())
    })?;
    let mut n_files = 0;
    for ((graph, workload, environment), policies) in groups {
        let filter = TraceFilter { graph, workload: Some(workload), environment: Some(environment), limit: None };
        let mut traces = store.traces(&filter)?;
        traces.reverse();
        let arguments = workloads.get(&(graph, workload)).map_or(&[][..], Vec::as_slice);
        let parameters_of =
            |trace: &TraceRecord| recipes.get(&(graph, trace.implementation)).cloned().unwrap_or_default();
        let device = environments.get(&environment).map_or("", |facts| match facts.gpus.first() {
            Some(gpu) => &gpu.name,
            None => &facts.cpu.model,
        });
        for policy in policies {
            let of_policy: Vec<&TraceRecord> = traces.iter().filter(|trace| trace.policy == policy).collect();
            let content = match format {
                TunerFormat::KernelTunerCache => cache(&of_policy, &graph, arguments, device, &parameters_of),
                TunerFormat::T4Results => results(&of_policy, &parameters_of),
            };
            let policy: String = policy.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let name = format!("{}-{}-{}-{policy}.json", graph.short(), workload.short(), environment.short());
            n_files += 1;
            each(TunerFile { name, content })?;
        }
    }
    Ok(n_files)
}

/// Takes a recipe apart into its scalars.
fn flatten(value: &Value, path: String, parameters: &mut TuneParameters) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(name, value)| flatten(value, below(name), parameters)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| flatten(value, below(&index.to_string()), parameters));
        }
        scalar => {
            parameters.insert(if path.is_empty() { "recipe".to_owned() } else { path }, scalar.clone());
        }
    }
}

fn milliseconds(picoseconds: u64) -> f64 {
    picoseconds as f64 / 1e9
}

fn times(samples: &[u64]) -> Value {
    samples.iter().map(|sample| Value::from(milliseconds(*sample))).collect()
}

fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn cache(
    traces: &[&TraceRecord],
    graph: &ContentHash,
    arguments: &[WorkloadArgument],
    device: &str,
    parameters_of: &dyn Fn(&TraceRecord) -> TuneParameters,
) -> Value {
    let all: Vec<TuneParameters> = traces.iter().map(|trace| parameters_of(trace)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    // Parameters that all recipes have alike were not tuned. The implementation is a parameter too, so that no two are one.
    let is_tuned = |name: &&String| all.iter().any(|each| each.get(*name) != all[0].get(*name));
    let names: Vec<&String> = names.into_iter().filter(is_tuned).collect();
    let implementation = "implementation".to_owned();
    let keys: Vec<&String> = std::iter::once(&implementation).chain(names).collect();
    let mut entries = Map::new();
    let mut values: BTreeMap<&String, Vec<Value>> = BTreeMap::new();
    for (trace, parameters) in traces.iter().zip(&all) {
        let value = |name: &&String| match **name == implementation {
            true => Value::from(trace.implementation.short()),
            false => parameters.get(*name).cloned().unwrap_or(Value::Null),
        };
        let configuration: Vec<Value> = keys.iter().map(value).collect();
        for (name, value) in keys.iter().zip(&configuration) {
            let known = values.entry(name).or_default();
            if !known.contains(value) {
                known.push(value.clone());
            }
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let key = configuration.iter().map(text).collect::<Vec<_>>().join(",");
        let own = keys.iter().map(|name| (*name).clone()).zip(configuration);
        // Traces come in the order of time: the last of an implementation is the newest.
        entries.insert(key, Value::Object(own.chain(cache_entry(trace)).collect()));
    }
    let problem: Vec<u64> = arguments.iter().map(|argument| argument.shape.iter().product()).collect();
    Value::Object(object([
        ("schema_version", "1.1.0".into()),
        ("device_name", device.into()),
        ("kernel_name", graph.to_string().into()),
        ("problem_size", problem.into()),
        ("tune_params_keys", keys.iter().map(|name| Value::from(name.as_str())).collect()),
        (
            "tune_params",
            Value::Object(values.into_iter().map(|(name, values)| (name.clone(), values.into())).collect()),
        ),
        ("objective", "time".into()),
        ("cache", Value::Object(entries)),
    ]))
}

fn cache_entry(trace: &TraceRecord) -> Map<String, Value> {
    let summary = SampleSummary::of(&trace.samples);
    let time = match (trace.status, &summary) {
        (TraceStatus::Ok | TraceStatus::TooNoisy, Some(summary)) => milliseconds(summary.median).into(),
        (TraceStatus::DoesNotCompile, _) => "CompilationFailedConfig".into(),
        _ => "RuntimeFailedConfig".into(),
    };
    let spent: u64 = trace.samples.iter().chain(&trace.warm_ups).fold(0, |sum, sample| sum.saturating_add(*sample));
    let mut entry = object([
        ("time", time),
        ("times", times(&trace.samples)),
        ("compile_time", 0.into()),
        ("verification_time", 0.into()),
        ("benchmark_time", milliseconds(spent).into()),
        ("strategy_time", 0.into()),
        ("framework_time", 0.into()),
        ("timestamp", timestamp(trace.measured_at).into()),
        ("status", trace.status.name().into()),
        ("code_hash", trace.code_hash.to_string().into()),
    ]);
    entry.extend(trace.reason.clone().map(|reason| ("reason".to_owned(), reason.into())));
    entry.extend(trace.error.map(|error| ("error".to_owned(), error.into())));
    entry
}

fn results(traces: &[&TraceRecord], parameters_of: &dyn Fn(&TraceRecord) -> TuneParameters) -> Value {
    let result = |trace: &TraceRecord| {
        let invalidity = match trace.status {
            TraceStatus::Ok | TraceStatus::TooNoisy => "correct",
            TraceStatus::DoesNotCompile => "compile",
            TraceStatus::Wrong => "correctness",
            TraceStatus::TimedOut => "timeout",
            TraceStatus::Failed => "runtime",
        };
        let mut configuration: Map<String, Value> = parameters_of(trace).into_iter().collect();
        configuration.insert("implementation".to_owned(), trace.implementation.short().into());
        let measurement = |name: &str, value: f64, unit: &str| {
            Value::Object(object([("name", name.into()), ("value", value.into()), ("unit", unit.into())]))
        };
        let mut measurements = Vec::new();
        if let Some(summary) = SampleSummary::of(&trace.samples) {
            measurements.push(measurement("time", milliseconds(summary.median), "ms"));
        }
        measurements.extend(trace.error.map(|error| measurement("error", error, "")));
        Value::Object(object([
            ("timestamp", timestamp(trace.measured_at).into()),
            ("configuration", Value::Object(configuration)),
            ("objectives", vec![Value::from("time")].into()),
            (
                "times",
                Value::Object(object([
                    ("compilation_time", 0.into()),
                    ("runtimes", times(&trace.samples)),
                    ("framework", 0.into()),
                    ("search_algorithm", 0.into()),
                    ("validation", 0.into()),
                ])),
            ),
            ("invalidity", invalidity.into()),
            ("correctness", u8::from(invalidity == "correct").into()),
            ("measurements", measurements.into()),
        ]))
    };
    Value::Object(object([
        ("schema_version", "1.0.0".into()),
        ("results", traces.iter().map(|trace| result(trace)).collect()),
    ]))
}

/// Writes microseconds since 1970 as RFC 3339 does, in UTC.
fn timestamp(microseconds: i64) -> String {
    let (seconds, fraction) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: years begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}+00:00")
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        // These are what `date -u -d @…` says.
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(timestamp(1_709_210_096_000_005), "2024-02-29T12:34:56.000005+00:00");
        assert_eq!(timestamp(4_107_542_400_000_000), "2100-03-01T00:00:00.000000+00:00");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59.999999+00:00");
    }
}
