//! Databases for tests: a file in a folder of its own, or a database of a server that is started here.

use polyloom_store::{DatabaseLocation, Store, create};
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A place for a database, which goes when this does.
pub(crate) enum TestDatabase {
    Sqlite(TempDir),
    Postgres { server: &'static PostgresServer, name: String },
}

impl TestDatabase {
    pub(crate) fn sqlite() -> TestDatabase {
        TestDatabase::Sqlite(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// None where there is no server; the reason is printed.
    pub(crate) fn postgres() -> Option<TestDatabase> {
        static SERVER: OnceLock<Result<PostgresServer, String>> = OnceLock::new();
        static N_DATABASES: AtomicU32 = AtomicU32::new(0);
        let server = match SERVER.get_or_init(PostgresServer::start) {
            Ok(server) => server,
            Err(reason) => {
                // The harness keeps what `eprintln` writes to itself.
                let _ = writeln!(std::io::stderr(), "skipped, no PostgreSQL: {reason}");
                return None;
            }
        };
        let name = format!("polyloom_{}_{}", std::process::id(), N_DATABASES.fetch_add(1, Ordering::Relaxed));
        server.run(&format!("CREATE DATABASE {name}"));
        Some(TestDatabase::Postgres { server, name })
    }

    pub(crate) fn location(&self) -> DatabaseLocation {
        match self {
            TestDatabase::Sqlite(folder) => DatabaseLocation::Sqlite(folder.path().join("benchmarks.db")),
            TestDatabase::Postgres { server, name } => DatabaseLocation::Postgres(server.url(name)),
        }
    }

    pub(crate) fn create(&self) -> Box<dyn Store> {
        create(&self.location()).unwrap()
    }

    /// Runs SQL beside the store, without constraints between rows.
    pub(crate) fn run(&self, sql: &str) {
        match self.location() {
            DatabaseLocation::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.execute_batch(sql).unwrap();
            }
            DatabaseLocation::Postgres(url) => {
                postgres::Client::connect(&url, postgres::NoTls).unwrap().batch_execute(sql).unwrap();
            }
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let TestDatabase::Postgres { server, name } = self {
            server.run(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

/// A server, given by `POLYLOOM_TEST_PG` or started here. What is started ends with this process, however that ends.
pub(crate) struct PostgresServer {
    /// The URL up to the database's name, and from after it.
    url: (String, String),
    /// Its end ends the server.
    _alive: Option<std::process::ChildStdin>,
}

impl PostgresServer {
    pub(crate) fn url(&self, database: &str) -> String {
        format!("{}/{database}{}", self.url.0, self.url.1)
    }

    fn run(&self, sql: &str) {
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap();
        client.batch_execute(sql).unwrap();
    }

    fn start() -> Result<PostgresServer, String> {
        if let Ok(url) = std::env::var("POLYLOOM_TEST_PG") {
            let (scheme, rest) = url.split_once("://").ok_or("POLYLOOM_TEST_PG is no URL")?;
            let (address, parameters) =
                rest.split_once('?').map_or((rest, String::new()), |(a, p)| (a, format!("?{p}")));
            let host = address.split('/').next().unwrap_or_default();
            return Ok(PostgresServer { url: (format!("{scheme}://{host}"), parameters), _alive: None });
        }
        let programs = programs().ok_or("neither POLYLOOM_TEST_PG nor Debian's package `postgresql`")?;
        let folder = tempfile::Builder::new().prefix("polyloom-pg").tempdir().map_err(|error| error.to_string())?;
        let user = server_user()?;
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group)).map_err(|error| error.to_string())?;
        }
        let as_user = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir("/");
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data");
        let made = as_user(&programs.join("initdb"))
            .args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        // The shell waits for the end of its input, which comes when this process is gone.
        let script = r#""$0" -D "$2" -k "$1" -c listen_addresses= -c fsync=off -c max_connections=60 >"$1/log" 2>&1 &
            server=$!; read -r _; kill -INT $server; wait $server; rm -rf "$1""#;
        let mut shell = as_user(Path::new("/bin/sh"));
        shell.arg("-c").arg(script).arg(programs.join("postgres")).arg(folder.path()).arg(&data);
        // It must outlive a Ctrl-C that ends the tests, to clean up.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = shell.spawn().map_err(|error| error.to_string())?;
        let folder = folder.keep();
        let parameters = format!("?host={}&user=postgres", folder.display());
        let server = PostgresServer { url: ("postgres://".to_owned(), parameters), _alive: shell.stdin.take() };
        let begin = Instant::now();
        while let Err(error) = postgres::Client::connect(&server.url("postgres"), postgres::NoTls) {
            if begin.elapsed() > Duration::from_secs(60) {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(format!("it does not start: {error}\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

/// Returns the folder of the newest server's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").exists() && folder.join("postgres").exists()).max()
}

/// Returns whom the server runs as, if not as whom the tests do: it refuses to be root.
fn server_user() -> Result<Option<(u32, u32)>, String> {
    use std::os::unix::fs::MetadataExt as _;
    if std::fs::metadata("/proc/self").map_err(|error| error.to_string())?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let user = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&"postgres") && fields.len() > 3;
        is_it.then(|| Some((fields[2].parse().ok()?, fields[3].parse().ok()?))).flatten()
    });
    user.map(Some).ok_or_else(|| "there is no user `postgres`".to_owned())
}
