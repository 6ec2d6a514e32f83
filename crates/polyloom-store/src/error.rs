//! All that can go wrong with a database is one type. Callers that look paths up treat every one of these as "nothing is
//! known" and go on: execution never fails because the database does.

use crate::ContentHash;

/// Says why a database did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no database at the place.
    #[error("there is no benchmark database at {location}: `polyloom db init` makes one")]
    Missing {
        /// Names the place.
        location: String,
    },
    /// The file or server cannot be opened.
    #[error("cannot open the benchmark database {location}: {reason}")]
    CannotOpen {
        /// Names the place.
        location: String,
        /// Says why, in the words of the system.
        reason: String,
    },
    /// The file is no database, or a damaged one.
    #[error(
        "the benchmark database {location} is damaged: {reason}; `polyloom db check` says more, and what `db export` \
         still reads can be imported into a new one"
    )]
    Damaged {
        /// Names the place.
        location: String,
        /// Says what was found.
        reason: String,
    },
    /// Another process holds the lock for longer than is waited.
    #[error("the benchmark database {location} stayed locked by another process: {reason}; try again when it is done")]
    Locked {
        /// Names the place.
        location: String,
        /// Says which lock, in the words of the database.
        reason: String,
    },
    /// The database may be read and not written.
    #[error(
        "the benchmark database {location} is read-only: change its permissions, or name another by POLYLOOM_DATABASE"
    )]
    ReadOnly {
        /// Names the place.
        location: String,
    },
    /// No room is left for what is written.
    #[error("the benchmark database {location} cannot grow: {reason}; free space, or move the database")]
    Full {
        /// Names the place.
        location: String,
        /// Says what is full, in the words of the system.
        reason: String,
    },
    /// The server went away, or cannot be reached. The next call connects again.
    #[error("the server of the benchmark database {location} is lost: {reason}")]
    ServerLost {
        /// Names the place, without its password.
        location: String,
        /// Says why, in the words of the driver.
        reason: String,
    },
    /// The server refuses this user.
    #[error("the server of the benchmark database {location} refuses access: {reason}")]
    Refused {
        /// Names the place, without its password.
        location: String,
        /// Says why, in the words of the server.
        reason: String,
    },
    /// A newer program has made or migrated the database.
    #[error(
        "the benchmark database {location} has schema {found}, and this program knows {known}: install a newer Polyloom"
    )]
    NewerSchema {
        /// Names the place.
        location: String,
        /// Counts the migrations it has had.
        found: i64,
        /// Counts the migrations this program has.
        known: i64,
    },
    /// An older program has made the database.
    #[error(
        "the benchmark database {location} has schema {found}, and this program needs {known}: run `polyloom db migrate`"
    )]
    OlderSchema {
        /// Names the place.
        location: String,
        /// Counts the migrations it has had.
        found: i64,
        /// Counts the migrations this program has.
        known: i64,
    },
    /// A migration that the database has had is not the one this program has under the number.
    #[error("migration {version} of the benchmark database {location} is not the one that this program has: {reason}")]
    MigrationDiffers {
        /// Names the place.
        location: String,
        /// Numbers the migration.
        version: i64,
        /// Says which differ.
        reason: String,
    },
    /// A record refers to one that the database does not have.
    #[error("the record refers to {what} {hash}, which the database does not have")]
    MissingReference {
        /// Says what is referred to.
        what: &'static str,
        /// Holds its hash.
        hash: ContentHash,
    },
    /// Two texts have one hash.
    #[error("{what} {hash} is in the database with another text: one of the two was hashed wrongly")]
    HashCollision {
        /// Says what was hashed.
        what: &'static str,
        /// Holds the hash.
        hash: ContentHash,
    },
    /// A record contradicts itself.
    #[error("the record is not valid: {reason}")]
    InvalidRecord {
        /// Says what contradicts.
        reason: String,
    },
    /// The lease of a job has passed to another worker, or the job is finished.
    #[error("the lease of job {job} is lost: another worker has it, or it is finished")]
    LeaseLost {
        /// Numbers the job.
        job: i64,
    },
    /// An exchange file cannot be read.
    #[error("line {line}: {reason}")]
    InvalidLine {
        /// Numbers the line from 1.
        line: usize,
        /// Says what is wrong with it.
        reason: String,
    },
    /// A file beside the database cannot be read or written.
    #[error("{context}: {source}")]
    Io {
        /// Says what was done with which file.
        context: String,
        /// Holds the system's error.
        source: std::io::Error,
    },
    /// The database refuses a statement of ours.
    #[error("the benchmark database {location} refuses a statement: {reason}")]
    Statement {
        /// Names the place.
        location: String,
        /// Says why, in the words of the database.
        reason: String,
    },
}
