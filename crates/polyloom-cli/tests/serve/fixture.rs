//! A database with something of everything: graphs with paths of real recipes, measurements that ended in every way, two environments,
//! and texts that would be harmful if a page took them for its own.

use polyloom::graph::cost::MachineCosts;
use polyloom::graph::path::{PathGenerator, PathLimits, PathRequest};
use polyloom::graph::recipe::{RecipeIdentity, RecipeStep};
use polyloom::graph::registry::KernelForm;
use polyloom::graph::{Backend, Graph, KernelRegistry, Recipe, parse_graph};
use polyloom_store::{
    CacheFacts, ContentHash, CpuFacts, EnvironmentRecord, GpuFacts, GraphRecord, ImplementationRecord, JobRequest,
    LeaseOutcome, MachineFacts, PathIdentity, Store, StoreRecord, SystemFacts, TraceObservations, TraceRecord,
    TraceStatus, WorkloadArgument, WorkloadRecord,
};
use std::time::Duration;

/// What no page may take for anything but text.
pub(crate) const HOSTILE: &str = "<script>document.title = \"owned\"</script><img src=x onerror=alert('1')>";

const SOFTMAX: &str = "%0 = input \"x\" : f32[n, m]\n%1 = softmax %0, axis=-1\nreturn %1\n";
/// A layer of a network, of which an input has the hostile text for its name.
const LAYER: &str = "%0 = input \"NAME\" : f32[n, 512]\n%1 = input \"w\" : f32[512, k]\n%2 = input \"b\" : f32[k]\n\
                     %3 = layer_norm %0, axis=-1\n%4 = matmul %3, %1\n%5 = add %4, %2\n%6 = gelu %5\n%7 = add %6, 1.5\n\
                     return %7\n";

pub(crate) fn environments() -> [EnvironmentRecord; 2] {
    let cache = |level, kind: &str, bytes, n_threads| CacheFacts { level, kind: kind.to_owned(), bytes, n_threads };
    let cpu = |model: &str, n, features: &[&str], max_mhz| CpuFacts {
        architecture: "x86_64".to_owned(),
        model: model.to_owned(),
        features: features.iter().map(|each| (*each).to_owned()).collect(),
        n_sockets: 1,
        n_cores: n,
        n_threads: 2 * n,
        n_usable_threads: n,
        caches: vec![cache(1, "Data", 32 << 10, 2), cache(2, "Unified", 1 << 20, 2), cache(3, "Unified", 32 << 20, 16)],
        governor: "performance".to_owned(),
        max_mhz,
    };
    let system = |kernel: &str| SystemFacts {
        name: "linux".to_owned(),
        distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        kernel: kernel.to_owned(),
        huge_pages: "madvise".to_owned(),
    };
    let libraries =
        |numpy: &str| [("numpy", numpy), ("torch", "2.15.0")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let desk = MachineFacts {
        cpu: cpu("AMD Ryzen 9 7950X 16-Core Processor", 16, &["avx2", "avx512f", "avx512vl", "fma"], 5700),
        memory_bytes: 64 << 30,
        n_numa_nodes: 1,
        gpus: Vec::new(),
        system: system("6.1.0-18-amd64"),
        libraries: libraries("2.4.0"),
    };
    let gpu = GpuFacts {
        name: "NVIDIA H200".to_owned(),
        memory_bytes: 139 << 30,
        driver: "570.124".to_owned(),
        cuda: "12.8".to_owned(),
        compute_capability: (9, 0),
        n_multiprocessors: 132,
        max_mhz: 1980,
        max_memory_mhz: 3201,
    };
    let server = MachineFacts {
        cpu: cpu(&format!("Intel Xeon Platinum 8592+ {HOSTILE}"), 64, &["amx_bf16", "avx2", "avx512f", "fma"], 3900),
        memory_bytes: 512 << 30,
        n_numa_nodes: 2,
        gpus: vec![gpu],
        system: system("6.8.0-45-generic"),
        libraries: libraries("2.3.5"),
    };
    [desk.into(), server.into()]
}

fn graph_record(graph: &Graph) -> GraphRecord {
    let identity = graph.identity().expect("the graph has a canonical form");
    GraphRecord {
        bits: identity.bits.hash.to_string().parse().expect("hashes are written alike"),
        mathematics: identity.mathematics.hash.to_string().parse().expect("hashes are written alike"),
        text: identity.bits.text,
        mathematics_text: identity.mathematics.text,
    }
}

fn argument(shape: &[u64]) -> WorkloadArgument {
    WorkloadArgument { dtype: "float32".to_owned(), shape: shape.to_vec(), layout: "c".to_owned() }
}

/// Returns recipes of a graph: PyTorch's first, which is the default, then others as they are found.
fn recipes(graph: &Graph, bits: &ContentHash, symbols: &[(&str, u64)], n: usize) -> Vec<Recipe> {
    let of = |backends: &[Backend], n_paths| -> Vec<Recipe> {
        let registry = KernelRegistry::with_backends(backends);
        let mut request = PathRequest::new(graph.clone(), bits.0);
        request.symbols = symbols.iter().map(|(name, extent)| ((*name).into(), *extent)).collect();
        // The search ends by its number of paths alone, so that it finds the same ones on every machine.
        let limits = PathLimits { n_paths, time: Duration::from_secs(600), ..PathLimits::default() };
        PathGenerator::new(request, &registry, MachineCosts::default(), limits).map(|path| path.recipe).collect()
    };
    let mut recipes = of(&[Backend::CpuTorch], 1);
    let others = of(&[Backend::CpuNative, Backend::CpuTorch, Backend::GpuCuda], n);
    recipes.extend(others.into_iter().filter(|recipe| recipe.backends() != [Backend::CpuTorch]));
    recipes.truncate(n);
    recipes
}

/// Returns the recipe with a parameter of its fused groups, which is another path.
fn tuned(recipe: &Recipe, unroll: u32) -> Recipe {
    let mut recipe = recipe.clone();
    for step in &mut recipe.steps {
        if let RecipeStep::Run(group) = step
            && group.form == KernelForm::Fused
        {
            group.parameters.unroll = Some(unroll);
        }
    }
    recipe
}

/// Samples with noise that looks like a machine's and is the same each time: a spread of about a percent, and some late ones.
pub(crate) fn samples(median_ns: u64, n: u64, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1000
    };
    (0..n)
        .map(|_| {
            // The sum of three is nearly normal.
            let noise = next() + next() + next();
            let late = if next() < 25 { 1 + next() / 4 } else { 0 };
            median_ns * (985 + noise / 100 + late)
        })
        .collect()
}

/// The parts of a trace that differ.
struct Ended<'a> {
    recipe: usize,
    status: TraceStatus,
    median_ns: u64,
    reason: Option<&'a str>,
    error: Option<f64>,
}

const fn ok(recipe: usize, median_ns: u64, error: f64) -> Ended<'static> {
    Ended { recipe, status: TraceStatus::Ok, median_ns, reason: None, error: Some(error) }
}

const fn not_ok(recipe: usize, status: TraceStatus, median_ns: u64, reason: &'static str) -> Ended<'static> {
    Ended { recipe, status, median_ns, reason: Some(reason), error: None }
}

/// A graph with its recipes and workloads, being filled.
struct GraphFixture {
    graph: GraphRecord,
    implementations: Vec<ImplementationRecord>,
    records: Vec<StoreRecord>,
}

impl GraphFixture {
    fn new(text: &str, symbols: &[(&str, u64)]) -> GraphFixture {
        let graph = parse_graph(text).expect("the graph is well formed");
        let record = graph_record(&graph);
        let mut recipes = recipes(&graph, &record.bits, symbols, 6);
        let fused =
            recipes.iter().find(|recipe| recipe.backends() == [Backend::CpuNative]).expect("there is one").clone();
        recipes.extend([2, 4].map(|unroll| tuned(&fused, unroll)));
        // One of them is taken to round otherwise, so that both kinds of results are there.
        let rounds = |index: usize| index == 5;
        recipes.iter_mut().enumerate().for_each(|(index, recipe)| {
            recipe.identity = if rounds(index) { RecipeIdentity::Mathematics } else { RecipeIdentity::Bits };
        });
        let implementations: Vec<ImplementationRecord> = recipes
            .iter()
            .enumerate()
            .map(|(index, recipe)| ImplementationRecord {
                graph: record.bits,
                recipe: recipe.to_json(),
                recipe_version: Recipe::VERSION,
                identity: if rounds(index) { PathIdentity::Mathematics } else { PathIdentity::Bits },
                is_default: index == 0,
            })
            .collect();
        let mut records: Vec<StoreRecord> = vec![record.clone().into()];
        records.extend(implementations.iter().cloned().map(StoreRecord::from));
        GraphFixture { graph: record, implementations, records }
    }

    fn measure(
        &mut self,
        shapes: &[&[u64]],
        (environment, policy, session): (&ContentHash, &str, &str),
        measured_at: i64,
        ended: &[Ended<'_>],
    ) {
        let arguments = shapes.iter().map(|shape| argument(shape)).collect();
        let workload = WorkloadRecord { graph: self.graph.bits, arguments };
        let hash = workload.hash();
        self.records.push(workload.into());
        for (index, each) in ended.iter().enumerate() {
            let implementation = &self.implementations[each.recipe];
            let has_samples = matches!(each.status, TraceStatus::Ok | TraceStatus::TooNoisy);
            let seed = 1 + each.recipe as u64 * 77 + measured_at as u64 % 1_000_003;
            let n_samples = if has_samples { 40 } else { 0 };
            let mut samples = samples(each.median_ns, n_samples, seed);
            if each.status == TraceStatus::TooNoisy {
                samples.iter_mut().enumerate().for_each(|(index, sample)| *sample += *sample / 3 * (index as u64 % 7));
            }
            let trace = TraceRecord {
                graph: self.graph.bits,
                implementation: implementation.hash().expect("the recipe is JSON"),
                workload: hash,
                environment: *environment,
                policy: policy.to_owned(),
                // Code for another machine is other code: what is wrong here may be right there.
                code_hash: ContentHash::of(format!("{environment} {}", implementation.recipe).as_bytes()),
                session: session.to_owned(),
                status: each.status,
                reason: each.reason.map(str::to_owned),
                warm_ups: if has_samples { vec![3000 * each.median_ns, 1200 * each.median_ns] } else { Vec::new() },
                samples,
                error: each.error,
                observations: TraceObservations {
                    load: Some([1.0, 1.25]),
                    cpu_mhz: Some([5450.0, 5425.0]),
                    ..TraceObservations::default()
                },
                measured_at: measured_at + index as i64 * 2_000_000,
                runner: "polyloom 0.1.0".to_owned(),
            };
            self.records.push(trace.into());
        }
    }
}

const POLICY: &str = "hot-1&<b>";
const MONDAY: i64 = 1_795_428_000_000_000;
const DAY: i64 = 86_400_000_000;

/// Returns all records, each after those it refers to.
pub(crate) fn records() -> Vec<StoreRecord> {
    use TraceStatus::{DoesNotCompile, Failed, TimedOut, TooNoisy, Wrong};
    let environments = environments();
    let [desk, server] = environments.each_ref().map(|each| each.fingerprint);
    let mut softmax = GraphFixture::new(SOFTMAX, &[("n", 1024), ("m", 1024)]);
    softmax.measure(
        &[&[1024, 1024]],
        (&desk, POLICY, "monday-1"),
        MONDAY,
        &[
            ok(0, 1_820_000, 2.4e-8),
            ok(1, 402_000, 5.9e-8),
            ok(2, 655_000, 5.9e-8),
            ok(6, 371_000, 5.9e-8),
            ok(7, 371_300, 5.9e-8),
            not_ok(3, TooNoisy, 700_000, "the interval of the median is 9 % of it after 200 samples"),
        ],
    );
    softmax.measure(
        &[&[1024, 1024]],
        (&desk, POLICY, "thursday-\"><b>"),
        MONDAY + 3 * DAY,
        &[
            ok(0, 1_905_000, 2.4e-8),
            ok(6, 380_000, 5.9e-8),
            ok(5, 290_000, 3.1e-4),
            not_ok(4, Wrong, 0, HOSTILE),
            not_ok(2, TimedOut, 0, "a run takes longer than 1 s, and the policy ends it there"),
        ],
    );
    softmax.measure(
        &[&[1024, 1024]],
        (&server, POLICY, "gpu-1"),
        MONDAY + DAY,
        &[
            ok(0, 2_650_000, 2.4e-8),
            ok(1, 510_000, 5.9e-8),
            ok(4, 61_000, 1.2e-7),
            not_ok(6, DoesNotCompile, 0, "LLVM refuses the module: invalid operand\n  at line 3 of <stdin>"),
            not_ok(7, Failed, 0, "the process ended with signal 11"),
        ],
    );
    softmax.measure(
        &[&[64, 4096]],
        (&desk, POLICY, "monday-2"),
        MONDAY + DAY / 24,
        &[ok(0, 402_000, 2.4e-8), ok(1, 398_500, 5.9e-8)],
    );
    softmax.measure(
        &[&[8, 8]],
        (&desk, "cold-1", "monday-3"),
        MONDAY + DAY / 12,
        &[not_ok(0, Failed, 0, "PyTorch is not installed"), ok(1, 2_300, 5.9e-8)],
    );
    let mut layer = GraphFixture::new(&LAYER.replace("NAME", &HOSTILE.replace('"', "'")), &[("n", 256), ("k", 512)]);
    layer.measure(
        &[&[256, 512], &[512, 512], &[512]],
        (&server, POLICY, "gpu-2"),
        MONDAY + 2 * DAY,
        &[ok(0, 3_900_000, 1.1e-6), ok(1, 2_050_000, 1.4e-6), ok(2, 2_900_000, 1.4e-6)],
    );
    let never =
        WorkloadRecord { graph: layer.graph.bits, arguments: [&[1u64, 512][..], &[512, 8], &[8]].map(argument).into() };
    // What another program has kept need not be a text that this one can read.
    let foreign = |text: &str| {
        let bits = ContentHash::of(text.as_bytes());
        GraphRecord {
            bits,
            mathematics: softmax.graph.mathematics,
            text: text.to_owned(),
            mathematics_text: softmax.graph.mathematics_text.clone(),
        }
    };
    let foreign = foreign(&format!("softmax(x) {HOSTILE}"));
    let unread = ImplementationRecord {
        graph: foreign.bits,
        recipe: format!(r#"{{"version":9,"steps":"{}"}}"#, HOSTILE.replace('"', "'")),
        recipe_version: 9,
        identity: PathIdentity::Bits,
        is_default: true,
    };
    let mut records: Vec<StoreRecord> = environments.into_iter().map(StoreRecord::from).collect();
    records.extend(layer.records);
    records.extend([never.into(), foreign.into(), unread.into()]);
    records.extend(softmax.records);
    records
}

/// Adds jobs in every state. Exchange files have none.
pub(crate) fn add_jobs(store: &mut dyn Store, records: &[StoreRecord]) {
    let environment = environments()[0].fingerprint;
    let mut jobs = Vec::new();
    for record in records {
        if let StoreRecord::Workload(workload) = record {
            jobs.push(JobRequest {
                graph: workload.graph,
                workload: workload.hash(),
                environment,
                policy: POLICY.to_owned(),
                priority: jobs.len() as i64,
                max_attempts: 1,
                is_repeated: false,
            });
        }
    }
    store.add_jobs(&jobs).expect("the records are there");
    let leased =
        store.lease(&environment, &format!("worker {HOSTILE}"), 3, Duration::from_secs(3600)).expect("jobs wait");
    store.finish(&leased[0], &LeaseOutcome::Done).expect("the lease is held");
    store.finish(&leased[1], &LeaseOutcome::Failed { reason: HOSTILE.to_owned() }).expect("the lease is held");
}
