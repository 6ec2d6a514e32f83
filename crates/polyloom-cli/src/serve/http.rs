//! A small server of HTTP/1.1 for one user: answers to GET, over loopback, one request a connection.
//!
//! Pages of other sites cannot read what it says: a browser lets them read answers of their own origin alone, and a name of theirs that
//! resolves to this machine is refused by the `Host` that it comes with.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A head of more bytes is refused; those of browsers have some hundreds.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// Connections at the same time. Browsers open some that they do not use at once.
const MAX_CONNECTIONS: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The names under which this machine calls itself. The port is not compared, because a tunnel may have another one.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// Nothing is loaded from elsewhere, no script runs, and no page of another site shows this one in a frame.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
                       base-uri 'none'; frame-ancestors 'none'\r\n\
                       X-Content-Type-Options: nosniff\r\n\
                       Referrer-Policy: no-referrer\r\n\
                       Cross-Origin-Resource-Policy: same-origin\r\n\
                       Cache-Control: no-store\r\n\
                       Connection: close\r\n";

/// A request for a page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PageRequest {
    /// The parts of the path between slashes.
    pub(super) path: Vec<String>,
    /// Names and values after the question mark.
    pub(super) query: Vec<(String, String)>,
}

impl PageRequest {
    /// Reads the target of a request; none if it is not a path.
    pub(super) fn parse(target: &str) -> Option<PageRequest> {
        let (path, query) = target.strip_prefix('/')?.split_once('?').unwrap_or((&target[1..], ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Some(PageRequest {
            path: path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false)).collect(),
            query: pairs.map(|(name, value)| (decode(name, true), decode(value, true))).collect(),
        })
    }

    /// Returns the first value of a name, if it is not empty.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(each, value)| each == name && !value.is_empty());
        found.map(|(_, value)| &**value)
    }

    /// Returns the values of a name that are not empty.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(each, value)| each == name && !value.is_empty()).map(|(_, value)| &**value)
    }
}

/// Replaces `%20` and its like; what is no such code stays as it is.
fn decode(text: &str, is_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if is_query && first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes a text so that it is one value of a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// An answer.
pub(super) struct PageResponse {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl PageResponse {
    fn plain(status: u16, body: &str) -> PageResponse {
        PageResponse { status, content_type: "text/plain; charset=utf-8", body: format!("{body}\n") }
    }
}

/// Answers until the process ends. A connection has a thread, so that one that a browser keeps in reserve holds nobody up.
pub(super) fn serve(
    listener: &TcpListener,
    answer: impl Fn(&PageRequest) -> PageResponse + Send + Sync + 'static,
) -> std::io::Error {
    let answer = Arc::new(answer);
    let n_open = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // These say something about one connection, not about those to come.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
            Err(error) => return error,
        };
        if n_open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            n_open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (answer, n_here) = (answer.clone(), n_open.clone());
        let spawned = std::thread::Builder::new().spawn(move || {
            // A reader that went away is no failure.
            let _ = converse(stream, &*answer);
            n_here.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            n_open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn converse(mut stream: TcpStream, answer: &dyn Fn(&PageRequest) -> PageResponse) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = Vec::new();
    let mut is_head_only = false;
    let response = loop {
        let mut piece = [0; 4096];
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Ok(());
        }
        head.extend(&piece[..n]);
        match read_head(&head) {
            RequestHead::Partial if head.len() <= MAX_HEAD_BYTES => {}
            RequestHead::Partial => break PageResponse::plain(431, "the head of the request is too long"),
            RequestHead::Refused(response) => break response,
            RequestHead::Complete { request, is_head } => {
                is_head_only = is_head;
                // A page that panics is a defect of this program, and no reason to answer nobody any more.
                let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(&request)));
                break answered.unwrap_or_else(|_| PageResponse::plain(500, "this page failed"));
            }
        }
    };
    write_response(&mut stream, &response, is_head_only)?;
    // Otherwise the system resets the connection because of unread bytes, and the answer is lost with it.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    let _ = std::io::copy(&mut Read::take(&mut stream, 1 << 20), &mut std::io::sink());
    Ok(())
}

enum RequestHead {
    Partial,
    Refused(PageResponse),
    Complete { request: PageRequest, is_head: bool },
}

fn read_head(head: &[u8]) -> RequestHead {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Partial) => return RequestHead::Partial,
        Ok(httparse::Status::Complete(_)) => {}
        Err(error) => return RequestHead::Refused(PageResponse::plain(400, &format!("no request: {error}"))),
    }
    let mut hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().filter(|_| hosts.next().is_none()).map(|header| header.value).unwrap_or_default();
    if !is_own_host(host) {
        return RequestHead::Refused(PageResponse::plain(403, "this server answers to 127.0.0.1 and localhost alone"));
    }
    let is_head = parsed.method == Some("HEAD");
    if !is_head && parsed.method != Some("GET") {
        return RequestHead::Refused(PageResponse::plain(405, "this server shows, and changes nothing: GET and HEAD"));
    }
    match parsed.path.and_then(PageRequest::parse) {
        Some(request) => RequestHead::Complete { request, is_head },
        None => RequestHead::Refused(PageResponse::plain(400, "the target of a request is a path")),
    }
}

fn is_own_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    HOSTS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn write_response(stream: &mut TcpStream, response: &PageResponse, is_head_only: bool) -> std::io::Result<()> {
    let reason = match response.status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let allow = if response.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}{HEADERS}\r\n",
        response.status,
        response.content_type,
        response.body.len()
    );
    let mut bytes = head.into_bytes();
    if !is_head_only {
        bytes.extend(response.body.as_bytes());
    }
    stream.write_all(&bytes)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::{PageRequest, RequestHead, encode, is_own_host, read_head};

    #[test]
    fn targets_are_read() {
        let request = PageRequest::parse("/graph/a%2Fb/?search=a+b%3d%zz&search=&e=1&e=2").unwrap();
        assert_eq!(request.path, ["graph", "a/b"]);
        assert_eq!((request.value("search"), request.value("none")), (Some("a b=%zz"), None));
        assert_eq!(request.values("e").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(PageRequest::parse("/").unwrap(), PageRequest::default());
        assert_eq!(PageRequest::parse("http://127.0.0.1/"), None);
        let text = "<a b=\"1\">&%+é";
        let request = PageRequest::parse(&format!("/?x={}", encode(text))).unwrap();
        assert_eq!(request.value("x"), Some(text));
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        for own in ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:80"] {
            assert!(is_own_host(own.as_bytes()), "{own}");
        }
        for other in
            ["", "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "127.0.0.1:x", "0.0.0.0:80", "\u{fe}"]
        {
            assert!(!is_own_host(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn requests_of_other_kinds_are_refused() {
        let status = |head: &str| match read_head(head.as_bytes()) {
            RequestHead::Partial => 0,
            RequestHead::Refused(response) => response.status,
            RequestHead::Complete { .. } => 200,
        };
        assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\n"), 0);
        assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
        assert_eq!(status("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
        assert_eq!(status("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), 403);
        assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), 403);
        assert_eq!(status("\u{16}\u{3}\u{1}"), 400);
    }
}
