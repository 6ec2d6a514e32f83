//! The place of a database: a file, or a server's URL.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The place of a database.
///
/// ```
/// use polyloom_store::DatabaseLocation;
///
/// let server = DatabaseLocation::parse("postgres://tuner:secret@db/benchmarks");
/// assert_eq!(server.to_string(), "postgres://tuner:***@db/benchmarks");
/// assert!(matches!(DatabaseLocation::parse("tuned.db"), DatabaseLocation::Sqlite(_)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseLocation {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL server with the database's name.
    Postgres(String),
}

impl DatabaseLocation {
    /// Takes `postgres://…` and `postgresql://…` for a server, and everything else for a path.
    pub fn parse(text: &str) -> DatabaseLocation {
        match text.starts_with("postgres://") || text.starts_with("postgresql://") {
            true => DatabaseLocation::Postgres(text.to_owned()),
            false => DatabaseLocation::Sqlite(PathBuf::from(text)),
        }
    }

    /// Returns the place that the environment names: `POLYLOOM_DATABASE`, a path or a URL, by default
    /// `polyloom/benchmarks.db` in the user's data directory. It is not in the cache's, because measurements take hours
    /// to make again and caches are deleted without a thought. None where there is no home directory.
    pub fn from_env() -> Option<DatabaseLocation> {
        DatabaseLocation::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Option<DatabaseLocation> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        // Otherwise a relative one would put a database into every folder that a program is started from.
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(named) = variable("POLYLOOM_DATABASE") {
            return Some(match named.to_str() {
                Some(text) => DatabaseLocation::parse(text),
                None => DatabaseLocation::Sqlite(PathBuf::from(named)),
            });
        }
        let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local").join("share")))?;
        Some(DatabaseLocation::Sqlite(data.join("polyloom").join("benchmarks.db")))
    }
}

/// Shows no password, because locations are parts of messages and logs.
impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            DatabaseLocation::Sqlite(path) => return path.display().fmt(f),
            DatabaseLocation::Postgres(url) => url,
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (address, parameters) = rest.split_once('?').map_or((rest, None), |(a, p)| (a, Some(p)));
        let shown = match address.rsplit_once('@') {
            Some((user, host)) => match user.split_once(':') {
                Some((name, _)) => format!("{name}:***@{host}"),
                None => address.to_owned(),
            },
            None => address.to_owned(),
        };
        write!(f, "{scheme}://{shown}")?;
        let hidden = |parameter: &str| match parameter.split_once('=') {
            Some(("password", _)) => "password=***".to_owned(),
            _ => parameter.to_owned(),
        };
        match parameters {
            Some(parameters) => write!(f, "?{}", parameters.split('&').map(hidden).collect::<Vec<_>>().join("&")),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseLocation;
    use std::path::PathBuf;

    #[test]
    fn the_environment_names_the_place() {
        let found = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(each, _)| *each == name).map(|(_, value)| (*value).into());
            DatabaseLocation::from_variables(value)
        };
        let file = |path: &str| Some(DatabaseLocation::Sqlite(PathBuf::from(path)));
        assert_eq!(found(&[("HOME", "/home/a")]), file("/home/a/.local/share/polyloom/benchmarks.db"));
        assert_eq!(found(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]), file("/data/polyloom/benchmarks.db"));
        assert_eq!(
            found(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "data")]),
            file("/home/a/.local/share/polyloom/benchmarks.db")
        );
        assert_eq!(found(&[("HOME", "/home/a"), ("POLYLOOM_DATABASE", "x.db")]), file("x.db"));
        let server = "postgresql://db/benchmarks";
        assert_eq!(found(&[("POLYLOOM_DATABASE", server)]), Some(DatabaseLocation::Postgres(server.to_owned())));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| DatabaseLocation::parse(url).to_string();
        assert_eq!(shown("postgres://db/x"), "postgres://db/x");
        assert_eq!(shown("postgres://a@db/x"), "postgres://a@db/x");
        assert_eq!(shown("postgres://a:p@ss@db/x"), "postgres://a:***@db/x");
        assert_eq!(shown("postgres:///x?host=/run&password=p&user=a"), "postgres:///x?host=/run&password=***&user=a");
    }
}
