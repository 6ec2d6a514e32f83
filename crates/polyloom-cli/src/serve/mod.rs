//! `polyloom db serve`: the benchmark database in a browser.
//!
//! All is made here for each request: pages are HTML and SVG without scripts, from what a connection of its own reads of the database,
//! which is opened to read. Choices are derived by the store's rules ([`rank_paths`](polyloom_store::rank_paths)); what a page
//! shows of a path is in `path_view`.

mod chart;
mod environments_page;
mod frame;
mod graph_page;
mod html;
mod http;
mod jobs_page;
mod op_index;
mod overview_page;
mod path_page;
mod path_view;
mod units;
mod workload_page;

use crate::database::DatabasePlace;
use crate::{CommandFailure, Outcome, print};
use frame::{Page, PageFailure};
use http::{PageRequest, PageResponse};
use op_index::OpIndex;
use polyloom_store::{ContentHash, DatabaseLocation, StoreError, open_read_only};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    place: DatabasePlace,
    /// The port of 127.0.0.1; 0 is a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub(crate) fn run(arguments: &ServeArguments) -> Outcome {
    let location = arguments.place.location()?;
    // A fault of the database is told here once, so that no page has to.
    open_read_only(&location)?.counts()?;
    let failed = |error: &std::io::Error| {
        CommandFailure::Failed(format!("cannot serve on 127.0.0.1:{}: {error}", arguments.port))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    print(format!("http://{address}/\n").as_bytes())?;
    eprintln!("{location} is shown there, to this machine alone, until Ctrl-C");
    let index = Arc::new(OpIndex::default());
    let (prepared, place) = (index.clone(), location.clone());
    std::thread::spawn(move || {
        if let Ok(mut store) = open_read_only(&place) {
            prepared.prepare(&mut *store);
        }
    });
    Err(failed(&http::serve(&listener, move |request| respond(&location, &index, request))))
}

fn respond(location: &DatabaseLocation, index: &OpIndex, request: &PageRequest) -> PageResponse {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match path[..] {
        ["style.css"] => return asset("text/css; charset=utf-8", include_str!("style.css")),
        ["icon.svg"] => return asset("image/svg+xml", include_str!("icon.svg")),
        _ => {}
    }
    let name = location.to_string();
    let (status, page) = match page(location, index, request, &path) {
        Ok(page) => (200, page),
        Err(PageFailure::NotFound(what)) => (404, frame::failure_page("Not found", &what)),
        Err(PageFailure::Store(error)) => {
            (503, frame::failure_page("The database does not answer", &error.to_string()))
        }
    };
    PageResponse { status, content_type: "text/html; charset=utf-8", body: page.finish(&name) }
}

fn asset(content_type: &'static str, body: &str) -> PageResponse {
    PageResponse { status: 200, content_type, body: body.to_owned() }
}

/// Makes a page. The database is opened anew, so that what has failed once is tried again.
fn page(
    location: &DatabaseLocation,
    index: &OpIndex,
    request: &PageRequest,
    path: &[&str],
) -> Result<Page, PageFailure> {
    let hash = |text: &str| {
        text.parse::<ContentHash>().map_err(|_| PageFailure::NotFound(format!("`{text}` is no hash of a record.")))
    };
    let mut store = open_read_only(location)?;
    let store = &mut *store;
    match *path {
        [] => overview_page::page(store, index, request),
        ["graph", graph] => graph_page::page(store, request, &hash(graph)?),
        ["workload", graph, workload] => workload_page::page(store, request, &hash(graph)?, &hash(workload)?),
        ["path", graph, implementation] => path_page::page(store, &hash(graph)?, &hash(implementation)?),
        ["environments"] => environments_page::page(store, request),
        ["jobs"] => jobs_page::page(store, request),
        _ => Err(PageFailure::NotFound(format!("There is no page /{}.", path.join("/")))),
    }
}

impl From<StoreError> for PageFailure {
    fn from(error: StoreError) -> PageFailure {
        PageFailure::Store(error)
    }
}
