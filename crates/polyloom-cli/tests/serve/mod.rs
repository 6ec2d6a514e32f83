//! `polyloom db serve`, as a browser meets it.

mod fixture;

use crate::{Folder, polyloom, text};
use fixture::HOSTILE;
use polyloom_store::{DatabaseLocation, StoreRecord, create, export_jsonl, import_jsonl};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, which ends when this goes.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn new(database: &str) -> Served {
        let mut process = Command::new(env!("CARGO_BIN_EXE_polyloom"))
            .args(["db", "serve", "--database", database])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command runs");
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().expect("it is piped")).read_line(&mut url).expect("a line comes");
        let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        Served { address: address.unwrap_or_else(|| panic!("no URL: {url}")).to_owned(), process }
    }

    /// Sends a request and returns the status, the head and the body.
    fn send(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_owned(), body.to_owned())
    }

    fn get(&self, target: &str) -> (u16, String) {
        let (status, _, body) = self.send(&format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address));
        (status, body)
    }

    /// Returns all pages that links lead to from the first one, with their targets.
    fn all_pages(&self) -> Vec<(String, String)> {
        let (mut waiting, mut seen, mut pages) = (vec!["/".to_owned()], BTreeSet::new(), Vec::new());
        while let Some(target) = waiting.pop() {
            if !seen.insert(target.clone()) {
                continue;
            }
            let (status, body) = self.get(&target);
            assert_eq!(status, 200, "{target}: {body}");
            for link in body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let link = link.replace("&amp;", "&");
                assert!(link.starts_with('/') && !link.starts_with("//"), "{target} links to {link}");
                waiting.push(link.split('#').next().unwrap_or_default().to_owned());
            }
            pages.push((target, body));
        }
        pages
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn filled(folder: &Folder) -> String {
    let place = folder.path("benchmarks.db");
    let mut store = create(&DatabaseLocation::parse(&place)).unwrap();
    let records = fixture::records();
    store.put(&records).unwrap();
    fixture::add_jobs(&mut *store, &records);
    place
}

#[test]
fn all_pages_are_there_and_texts_of_the_database_stay_texts() {
    let folder = Folder::new();
    let served = Served::new(&filled(&folder));
    let pages = served.all_pages();
    let of = |kind: &str| pages.iter().filter(|(target, _)| target.starts_with(kind)).count();
    // Two graphs of eight paths each, and one that this program cannot read.
    assert_eq!((of("/graph/"), of("/path/")), (3, 17));
    assert!(of("/workload/") >= 6 && of("/jobs") >= 4 && of("/environments") == 1, "{:?}", pages.len());
    let mut n_escaped = 0;
    for (target, body) in &pages {
        for harmful in ["<script", "<img", "onerror=alert('", "style=\"", "javascript:", "http://", "https://"] {
            // The name of SVG's namespace is no address that is loaded.
            let body = body.replace("http://www.w3.org/2000/svg", "");
            assert!(!body.contains(harmful) || target.ends_with(".svg"), "{target} has {harmful}");
        }
        n_escaped += body.matches("&lt;script&gt;").count();
    }
    assert!(n_escaped > 10, "{n_escaped}");
    assert!(HOSTILE.starts_with("<script>"));
}

#[test]
fn a_workload_shows_what_is_chosen_and_why() {
    let folder = Folder::new();
    let served = Served::new(&filled(&folder));
    let pages = served.all_pages();
    let page = |words: &[&str]| {
        let found = pages.iter().find(|(_, body)| words.iter().all(|word| body.contains(word)));
        found.unwrap_or_else(|| panic!("no page has {words:?}"))
    };
    // 380 µs of 1905 µs.
    page(&["float32[1024, 1024]", "<strong>5.0", "It is chosen because it takes 0.", "beats the default, and"]);
    page(&["float32[1024, 1024]", "NVIDIA H200", "does not compile", "LLVM refuses the module"]);
    page(&["float32[64, 4096]", "it is the default, and nothing beats it beyond the noise"]);
    page(&["float32[8, 8]", "the default fails, and this is the fastest path that works"]);
    let (_, body) = page(&["class=\"status bad\">wrong</span> never runs for this workload again"]);
    assert!(body.contains("timed out") && body.contains("too noisy") && body.contains("class=\"dot"), "{body}");
    let (_, faster) = page(&["identity=mathematics\" aria-current=\"page\"", "rounds", "<strong>6."]);
    assert!(faster.contains("3.1e-4"));
    let (_, body) = page(&["It has not been measured there."]);
    assert!(body.contains("float32[1, 512]"));
    let (_, path) = page(&["<h1>Path CPU_NATIVE</h1>", "ops fused"]);
    assert!(path.contains("class=\"node group-0\"") && path.contains("&quot;unroll&quot;"), "{path}");
    let (_, found) = served.all_pages().remove(0);
    assert!(found.contains("3</strong> graphs"), "{found}");
    assert!(served.get("/?search=layer_norm").1.contains("1\u{a0}graph with"));
    assert!(served.get("/?search=%27%20OR%201%3D1").1.contains("No graph is found."));
}

#[test]
fn the_server_refuses_other_hosts_and_methods_and_writes_nothing() {
    let folder = Folder::new();
    let place = filled(&folder);
    let before = polyloom(&["db", "export", "--database", &place]).stdout;
    let served = Served::new(&place);
    let (status, head, body) = served.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!((status, body.contains("graph")), (403, false), "{head}");
    let (status, head, _) =
        served.send(&format!("POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\n\r\nx=1\n", served.address));
    assert!(status == 405 && head.contains("\r\nAllow: GET, HEAD"), "{head}");
    let (status, head, body) = served.send("HEAD / HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
    assert_eq!((status, &*body), (200, ""));
    assert!(head.contains("Content-Security-Policy: default-src 'none'; style-src 'self';"), "{head}");
    let (status, _, _) = served.send(&format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(40_000)));
    assert_eq!(status, 431);
    for target in ["/graph/zz", "/graph/../x", "/none", &format!("/graph/{}", "0".repeat(64))] {
        let (status, body) = served.get(target);
        assert!(status == 404 && body.contains("<h1>Not found</h1>"), "{target}: {body}");
    }
    assert_eq!(served.get("/?page=99999999999999999999").0, 200);
    assert_eq!(served.get("/?page=18446744073709551615").0, 200);
    served.all_pages();
    let after = polyloom(&["db", "export", "--database", &place]).stdout;
    assert!(before == after, "the database has changed");
    drop(served);
    let out = polyloom(&["db", "serve", "--database", &folder.path("none.db")]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("`polyloom db init` makes one"), "{}", text(&out.stderr));
}

/// The tests in Python make their database of this file, which `POLYLOOM_BLESS=1` writes anew. It is not compared with what the
/// fixture gives now, because each change of the path search gives other recipes.
#[test]
fn the_file_for_other_tests_can_be_read() {
    let folder = Folder::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/data/benchmarks.jsonl");
    let records = fixture::records();
    if std::env::var_os("POLYLOOM_BLESS").is_some() {
        let mut store = create(&DatabaseLocation::parse(&folder.path("written.db"))).unwrap();
        store.put(&records).unwrap();
        let mut lines = Vec::new();
        export_jsonl(&mut *store, &mut lines, &mut |_| {}).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &lines).unwrap();
    }
    let mut store = create(&DatabaseLocation::parse(&folder.path("read.db"))).unwrap();
    let file =
        std::fs::read(&path).unwrap_or_else(|error| panic!("POLYLOOM_BLESS=1 writes {}: {error}", path.display()));
    import_jsonl(&mut *store, &mut &*file, &mut |_| {}).unwrap();
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, [""; 0]);
    let n_traces = records.iter().filter(|record| matches!(record, StoreRecord::Trace(_))).count() as u64;
    assert_eq!(store.counts().unwrap()["benchmark_traces"], n_traces);
}
