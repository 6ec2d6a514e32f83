//! The records of a database, as they go in, come out, and stand in the lines of an exchange file. They refer to each
//! other by hashes, which are the same in every database, so that merging two is putting the records of both.

use crate::{ContentHash, MachineFacts, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tensor computation, without shapes: one row of `canonical_graphs`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GraphRecord {
    /// The identity of its bits: what has the same may replace it always.
    pub bits: ContentHash,
    /// The identity of its mathematics: what has the same may replace it where a tolerance allows.
    pub mathematics: ContentHash,
    /// The canonical text that `bits` is the hash of by the planner's rules, compared when a hash is met again.
    pub text: String,
    /// The canonical text that `mathematics` is the hash of.
    pub mathematics_text: String,
}

/// Says how near the results of a path are to those of the graph it computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathIdentity {
    /// They have the same bits.
    Bits,
    /// They are the same over the reals, and differ by rounding.
    Mathematics,
}

/// A way to compute a graph: one row of `implementations`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImplementationRecord {
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// JSON: kernels, groupings, transfers, parameters. Its canonical form (keys in order, no spaces) is what is stored.
    pub recipe: String,
    /// The version of the recipe's schema.
    pub recipe_version: u32,
    /// Says how near its results are.
    pub identity: PathIdentity,
    /// True of a path that runs where nothing is known; others have to beat it.
    pub is_default: bool,
}

/// One argument of a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct WorkloadArgument {
    /// Its element type, such as `float32`.
    pub dtype: String,
    /// Its shape, in elements.
    pub shape: Vec<u64>,
    /// Its layout, such as `c` for rows first.
    pub layout: String,
}

/// Describes what a graph is called with: one row of `workloads`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The arguments in the graph's order.
    pub arguments: Vec<WorkloadArgument>,
}

/// Hardware and software: one row of `environments`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    /// The hash of what matters for speed, by the rules of the program that sniffed. Of two with one the first is kept.
    pub fingerprint: ContentHash,
    /// Describes it.
    pub facts: MachineFacts,
}

impl From<MachineFacts> for EnvironmentRecord {
    fn from(facts: MachineFacts) -> EnvironmentRecord {
        EnvironmentRecord { fingerprint: facts.fingerprint(), facts }
    }
}

/// Says how a measurement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceStatus {
    /// It has samples that may be compared.
    Ok,
    /// The recipe does not compile.
    DoesNotCompile,
    /// The result is wrong. Such code never runs for this workload.
    Wrong,
    /// It took longer than the policy allows.
    TimedOut,
    /// The samples never became steady; they are kept and say nothing against the path.
    TooNoisy,
    /// It failed when it ran.
    Failed,
}

impl TraceStatus {
    /// All of them.
    pub const ALL: [TraceStatus; 6] = [
        TraceStatus::Ok,
        TraceStatus::DoesNotCompile,
        TraceStatus::Wrong,
        TraceStatus::TimedOut,
        TraceStatus::TooNoisy,
        TraceStatus::Failed,
    ];

    /// Returns the name that the database and exchange files have for it.
    pub fn name(self) -> &'static str {
        match self {
            TraceStatus::Ok => "ok",
            TraceStatus::DoesNotCompile => "does_not_compile",
            TraceStatus::Wrong => "wrong",
            TraceStatus::TimedOut => "timed_out",
            TraceStatus::TooNoisy => "too_noisy",
            TraceStatus::Failed => "failed",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<TraceStatus> {
        TraceStatus::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// Records what was seen of the machine around a measurement, before it and after it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceObservations {
    /// The clock of the CPU in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<[f64; 2]>,
    /// The clock of the GPU's multiprocessors in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_mhz: Option<[f64; 2]>,
    /// Runnable threads of the whole machine, the measurement's own among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<[f64; 2]>,
    /// The temperature of the device in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<[f64; 2]>,
}

/// A measurement: one row of `benchmark_traces`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TraceRecord {
    /// The graph's `bits`.
    pub graph: ContentHash,
    /// The implementation's hash.
    pub implementation: ContentHash,
    /// The workload's hash.
    pub workload: ContentHash,
    /// The environment's fingerprint.
    pub environment: ContentHash,
    /// The measurement policy, such as `hot-1`: what is measured by different ones is not compared.
    pub policy: String,
    /// The hash of the code that ran, or would have: a choice is valid as long as the recipe gives this code.
    pub code_hash: ContentHash,
    /// Names what was measured interleaved with this. Only within a session are times compared.
    pub session: String,
    /// Says how it ended.
    pub status: TraceStatus,
    /// Why, of all but `ok`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The warm-up's samples in picoseconds, in order.
    pub warm_ups: Vec<u64>,
    /// All samples in picoseconds, in order, outliers among them.
    pub samples: Vec<u64>,
    /// The largest error against the golden reference, relative to the scale of the output. None where it has not been
    /// compared, or is no number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<f64>,
    /// Clocks and load.
    pub observations: TraceObservations,
    /// When it ended, in microseconds since 1970.
    pub measured_at: i64,
    /// The program that measured, with its version.
    pub runner: String,
}

/// Any record. In a line of an exchange file its table is the field `table`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "table")]
pub enum StoreRecord {
    /// A row of `canonical_graphs`.
    #[serde(rename = "canonical_graphs")]
    Graph(GraphRecord),
    /// A row of `implementations`.
    #[serde(rename = "implementations")]
    Implementation(ImplementationRecord),
    /// A row of `workloads`.
    #[serde(rename = "workloads")]
    Workload(WorkloadRecord),
    /// A row of `environments`.
    #[serde(rename = "environments")]
    Environment(Box<EnvironmentRecord>),
    /// A row of `benchmark_traces`.
    #[serde(rename = "benchmark_traces")]
    Trace(Box<TraceRecord>),
}

macro_rules! record_from {
    ($($record:ident => $variant:ident $(($wrap:path))?),*) => {
        $(impl From<$record> for StoreRecord {
            fn from(record: $record) -> StoreRecord {
                StoreRecord::$variant($($wrap)?(record))
            }
        })*
    };
}

record_from!(GraphRecord => Graph, ImplementationRecord => Implementation, WorkloadRecord => Workload,
    EnvironmentRecord => Environment (Box::new), TraceRecord => Trace (Box::new));

fn invalid(reason: impl Into<String>) -> StoreError {
    StoreError::InvalidRecord { reason: reason.into() }
}

/// Writes JSON with the keys of objects in order and without spaces, whatever order the reader keeps.
fn write_canonical(value: &Value, text: &mut String) {
    let mut list = |open: char, close: char, items: &mut dyn Iterator<Item = (Option<&String>, &Value)>| {
        text.push(open);
        for (index, (key, value)) in items.enumerate() {
            if index > 0 {
                text.push(',');
            }
            if let Some(key) = key {
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
            }
            write_canonical(value, text);
        }
        text.push(close);
    };
    match value {
        Value::Array(items) => list('[', ']', &mut items.iter().map(|value| (None, value))),
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().map(|(key, value)| (Some(key), value)).collect();
            entries.sort_by_key(|entry| entry.0);
            list('{', '}', &mut entries.into_iter());
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

pub(crate) fn canonical_json(text: &str) -> Result<String, StoreError> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| invalid(format!("the recipe is no JSON: {error}")))?;
    let mut canonical = String::with_capacity(text.len());
    write_canonical(&value, &mut canonical);
    Ok(canonical)
}

/// Serialises what has text keys and no way to fail.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl ImplementationRecord {
    /// Returns the hash of the recipe in its canonical form with its version: the same recipe for two graphs has one hash.
    ///
    /// # Errors
    ///
    /// If the recipe is no JSON.
    pub fn hash(&self) -> Result<ContentHash, StoreError> {
        Ok(recipe_hash(self.recipe_version, &canonical_json(&self.recipe)?))
    }
}

pub(crate) fn recipe_hash(version: u32, canonical: &str) -> ContentHash {
    ContentHash::of(format!("{version} {canonical}").as_bytes())
}

impl WorkloadRecord {
    /// Returns the hash of the arguments: the same arguments of two graphs have one hash.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(json(&self.arguments).as_bytes())
    }

    /// Returns how far the shapes of two workloads are apart: the sum of the logarithms of the ratios of extents. None
    /// where dtypes, layouts or ranks differ, because then one says nothing about the other.
    ///
    /// ```
    /// use polyloom_store::{ContentHash, WorkloadArgument, WorkloadRecord};
    ///
    /// let of = |n, dtype: &str| WorkloadRecord {
    ///     graph: ContentHash::of(b"sum"),
    ///     arguments: vec![WorkloadArgument { dtype: dtype.to_owned(), shape: vec![n], layout: "c".to_owned() }],
    /// };
    /// let distance = of(1023, "float32").distance(&of(2047, "float32")).unwrap();
    /// assert!((distance - 2f64.ln()).abs() < 1e-12);
    /// assert_eq!(of(4, "float32").distance(&of(4, "float64")), None);
    /// ```
    pub fn distance(&self, other: &WorkloadRecord) -> Option<f64> {
        if self.arguments.len() != other.arguments.len() {
            return None;
        }
        let mut distance = 0.0;
        for (a, b) in self.arguments.iter().zip(&other.arguments) {
            if a.dtype != b.dtype || a.layout != b.layout || a.shape.len() != b.shape.len() {
                return None;
            }
            // An extent may be 0.
            let ratios = a.shape.iter().zip(&b.shape).map(|(a, b)| ((*a as f64 + 1.0) / (*b as f64 + 1.0)).ln().abs());
            distance += ratios.sum::<f64>();
        }
        Some(distance)
    }
}

impl TraceRecord {
    /// Returns the hash of all that the record says, by which a trace that is put twice is one.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(json(self).as_bytes())
    }
}

impl StoreRecord {
    /// Checks what no constraint of the database can, or would tell less clearly.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        let texts: Vec<&str> = match self {
            StoreRecord::Graph(graph) => vec![&graph.text, &graph.mathematics_text],
            StoreRecord::Implementation(_) | StoreRecord::Workload(_) | StoreRecord::Environment(_) => vec![],
            StoreRecord::Trace(trace) => {
                trace.verify()?;
                vec![&trace.policy, &trace.session, trace.reason.as_deref().unwrap_or_default(), &trace.runner]
            }
        };
        // PostgreSQL has no text with it, and both databases hold the same.
        match texts.iter().any(|text| text.contains('\0')) {
            true => Err(invalid("a text has the character 0")),
            false => Ok(()),
        }
    }
}

impl TraceRecord {
    fn verify(&self) -> Result<(), StoreError> {
        let is_ok = self.status == TraceStatus::Ok;
        if is_ok && self.samples.is_empty() {
            return Err(invalid("a trace that is ok has samples"));
        }
        if is_ok == self.reason.is_some() {
            return Err(invalid("a trace has a reason if and only if it is not ok"));
        }
        if self.policy.is_empty() {
            return Err(invalid("a trace has a measurement policy"));
        }
        if self.samples.iter().chain(&self.warm_ups).any(|sample| i64::try_from(*sample).is_err()) {
            return Err(invalid("a sample is longer than 106 days"));
        }
        let observed = &self.observations;
        let pairs = [observed.cpu_mhz, observed.gpu_mhz, observed.load, observed.temperature];
        let mut numbers = pairs.into_iter().flatten().flatten().chain(self.error);
        // JSON has no other numbers, so that the hash would not be that of what is exported.
        match numbers.any(|number| !number.is_finite()) {
            true => Err(invalid("an error or an observation is not finite")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ImplementationRecord, PathIdentity};
    use crate::ContentHash;

    #[test]
    fn the_spelling_of_a_recipe_does_not_matter() {
        let hash = |recipe: &str, recipe_version| {
            let graph = ContentHash::of(b"");
            let (recipe, identity) = (recipe.to_owned(), PathIdentity::Bits);
            ImplementationRecord { graph, recipe, recipe_version, identity, is_default: false }.hash().unwrap()
        };
        assert_eq!(
            hash(r#"{"b": [1, 2], "a": {"y": 1, "x": "\u00e9"}}"#, 1),
            hash(r#"{"a":{"x":"é","y":1},"b":[1,2]}"#, 1)
        );
        assert_ne!(hash(r#"{"b":[1,2]}"#, 1), hash(r#"{"b":[2,1]}"#, 1));
        assert_ne!(hash("{}", 1), hash("{}", 2));
    }
}
