//! Measures the pages of `polyloom db serve` over a database of 10,000 tuned graphs: `cargo run --release -p polyloom-cli --example
//! measure_pages [DATABASE]`. Prints the median and the longest time of each kind of page. A database that is given is kept, and filled
//! only if it is not there.

use polyloom::graph::cost::MachineCosts;
use polyloom::graph::path::{PathGenerator, PathLimits, PathRequest};
use polyloom::graph::{Backend, KernelRegistry, parse_graph};
use polyloom_store::{
    ContentHash, DatabaseLocation, GraphRecord, ImplementationRecord, MachineFacts, PathIdentity, StoreRecord,
    TraceObservations, TraceRecord, TraceStatus, WorkloadArgument, WorkloadRecord, create,
};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const N_GRAPHS: u64 = 10_000;
const N_PATHS: usize = 8;
const N_REPEATS: usize = 15;
const OPS: [&str; 12] =
    ["exp", "tanh", "sqrt", "absolute", "cosh", "sin", "cos", "square", "floor", "softmax", "gelu", "erf"];

/// Returns the text of a graph with its number in base 12 as ops, and a product before it.
fn text(mut index: u64) -> String {
    let mut text = "%0 = input \"x\" : f32[n, m]\n%1 = input \"w\" : f32[m, k]\n%2 = matmul %0, %1\n".to_owned();
    for value in 3..8 {
        let _ = writeln!(text, "%{value} = {} %{}", OPS[(index % 12) as usize], value - 1);
        index /= 12;
    }
    text + "%8 = add %7, %2\nreturn %8\n"
}

fn records(index: u64, environment: ContentHash) -> Result<Vec<StoreRecord>, Box<dyn Error>> {
    let graph = parse_graph(&text(index))?;
    let identity = graph.identity()?;
    let record = GraphRecord {
        bits: identity.bits.hash.to_string().parse()?,
        mathematics: identity.mathematics.hash.to_string().parse()?,
        text: identity.bits.text,
        mathematics_text: identity.mathematics.text,
    };
    let registry = KernelRegistry::with_backends(&[Backend::CpuNumpy, Backend::CpuTorch, Backend::CpuNative]);
    let mut request = PathRequest::new(graph, record.bits.0);
    request.symbols =
        [("n", 256), ("m", 512), ("k", 128)].map(|(name, extent)| (name.into(), extent)).into_iter().collect();
    let limits = PathLimits { n_paths: N_PATHS, ..PathLimits::default() };
    let paths = PathGenerator::new(request, &registry, MachineCosts::default(), limits);
    let argument = |shape: [u64; 2]| WorkloadArgument {
        dtype: "float32".to_owned(),
        shape: shape.to_vec(),
        layout: "c".to_owned(),
    };
    let workload = WorkloadRecord { graph: record.bits, arguments: vec![argument([256, 512]), argument([512, 128])] };
    let mut records: Vec<StoreRecord> = vec![record.clone().into(), workload.clone().into()];
    for (place, path) in paths.enumerate() {
        let implementation = ImplementationRecord {
            graph: record.bits,
            recipe: path.recipe.to_json(),
            recipe_version: path.recipe.version,
            identity: PathIdentity::Bits,
            is_default: place == 0,
        };
        let trace = TraceRecord {
            graph: record.bits,
            implementation: implementation.hash()?,
            workload: workload.hash(),
            environment,
            policy: "hot-1".to_owned(),
            code_hash: record.bits,
            session: format!("session {index}"),
            status: TraceStatus::Ok,
            reason: None,
            warm_ups: vec![60_000_000; 5],
            samples: (0..50).map(|i| 50_000_000 + (place as u64 * 7 % 5) * 3_000_000 + i * 7919 % 100_000).collect(),
            error: Some(1e-7),
            observations: TraceObservations::default(),
            measured_at: 1_795_428_000_000_000 + index as i64 * 1_000_000,
            runner: "example".to_owned(),
        };
        records.extend([implementation.into(), trace.into()]);
    }
    Ok(records)
}

fn get(port: u16, target: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn measure(what: &str, port: u16, target: &dyn Fn(usize) -> String) -> Result<(), Box<dyn Error>> {
    let mut times: Vec<Duration> = Vec::new();
    let mut n_bytes = 0;
    for repeat in 0..N_REPEATS {
        let begin = Instant::now();
        let answer = get(port, &target(repeat))?;
        times.push(begin.elapsed());
        n_bytes = answer.len();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{what}: {answer}");
    }
    times.sort_unstable();
    println!("{what:<36} {:>9.2?} {:>9.2?} {:>5} KiB", times[N_REPEATS / 2], times[N_REPEATS - 1], n_bytes >> 10);
    Ok(())
}

/// Returns the targets of links in a page that begin so.
fn links(page: &str, begin: &str) -> Vec<String> {
    let targets = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    targets.filter(|target| target.starts_with(begin)).map(|target| target.replace("&amp;", "&")).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let given = std::env::args().nth(1).map(std::path::PathBuf::from);
    let path = given.unwrap_or_else(|| folder.path().join("benchmarks.db"));
    let is_there = path.exists();
    let mut store = create(&DatabaseLocation::Sqlite(path.clone()))?;
    if !is_there {
        let facts = MachineFacts::sniff();
        let environment = facts.fingerprint();
        store.put(&[polyloom_store::EnvironmentRecord::from(facts).into()])?;
        for first in (0..N_GRAPHS).step_by(100) {
            let mut batch = Vec::new();
            for index in first..first + 100 {
                batch.extend(records(index * 24 + index / 10_000, environment)?);
            }
            store.put(&batch)?;
        }
    }
    println!("{:?}", store.counts()?);
    drop(store);
    // A port that has just been free is still free a moment later.
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let database = path.clone().into_os_string();
    std::thread::spawn(move || {
        let options = ["db", "serve", "--port", &port.to_string(), "--database"].map(Into::into);
        polyloom_cli::run(options.into_iter().chain([database]).collect())
    });
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let first = get(port, "/?page=2")?;
    let graphs = links(&first, "/graph/");
    let of_graph = |repeat: usize| graphs[2 * repeat % graphs.len()].clone();
    let mut workloads = Vec::new();
    let mut paths = Vec::new();
    for repeat in 0..N_REPEATS {
        let page = get(port, &of_graph(repeat))?;
        workloads.extend(links(&page, "/workload/").into_iter().take(1));
        paths.extend(links(&page, "/path/").into_iter().take(1));
    }
    println!("{:<36} {:>9} {:>9}", "page", "median", "longest");
    measure("overview", port, &|_| "/".to_owned())?;
    measure("overview, another page of graphs", port, &|repeat| format!("/?page={}", 10 * repeat + 2))?;
    measure("search that finds many", port, &|_| "/?search=softmax".to_owned())?;
    measure("search that finds nothing", port, &|_| "/?search=cumprod".to_owned())?;
    measure("graph", port, &of_graph)?;
    measure("workload", port, &|repeat| workloads[repeat].clone())?;
    measure("path", port, &|repeat| paths[repeat].clone())?;
    measure("environments", port, &|_| "/environments".to_owned())?;
    measure("jobs", port, &|_| "/jobs".to_owned())?;
    Ok(())
}
