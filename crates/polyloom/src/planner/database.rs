//! The database of a process: opened when it is first needed, and never a reason for a call to fail.

use polyloom_store::{
    BestPathCache, ContentHash, DatabaseLocation, EnvironmentRecord, MachineFacts, Store, StoreError, create, open,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Says what a caller wants of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatabaseAccess {
    /// To look something up. A database that is not there knows nothing, which is no failure.
    Look,
    /// To write to it. A database that is not there is made.
    Write,
}

#[derive(Default)]
struct DatabaseFacts {
    location: Option<DatabaseLocation>,
    environment: Option<EnvironmentRecord>,
    /// Failures that have been told, by their texts.
    told: Vec<String>,
}

/// The database that the planner of a process uses, with the environment that it measures in.
#[derive(Default)]
pub struct PlannerDatabase {
    /// Held while the database works, and by look-ups while they compile.
    store: Mutex<Option<Box<dyn Store>>>,
    /// Held for moments alone, so that nobody waits for it.
    facts: Mutex<DatabaseFacts>,
    cache: BestPathCache,
}

impl PlannerDatabase {
    fn facts(&self) -> MutexGuard<'_, DatabaseFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers that this process has had.
    pub fn cache(&self) -> &BestPathCache {
        &self.cache
    }

    /// Names another database, or with none the one that the environment variables name.
    pub fn set_location(&self, location: Option<DatabaseLocation>) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        *store = None;
        self.facts().location = location;
        self.cache.clear();
    }

    /// Returns the place of the database; none without a home directory.
    pub fn location(&self) -> Option<DatabaseLocation> {
        self.facts().location.clone().or_else(DatabaseLocation::from_env)
    }

    /// Sets versions of the libraries that paths call, which are part of the environment.
    pub fn set_libraries(&self, libraries: BTreeMap<String, String>) {
        let facts = MachineFacts { libraries, ..MachineFacts::sniff() };
        self.facts().environment = Some(facts.into());
    }

    /// Returns the environment of this process.
    pub fn environment(&self) -> EnvironmentRecord {
        self.facts().environment.get_or_insert_with(|| MachineFacts::sniff().into()).clone()
    }

    /// Returns the fingerprint of the environment.
    pub fn fingerprint(&self) -> ContentHash {
        self.facts().environment.get_or_insert_with(|| MachineFacts::sniff().into()).fingerprint
    }

    /// Does something with the database; gives none if there is no database, or another thread of this process has it and it is only to be
    /// looked at.
    ///
    /// # Errors
    ///
    /// If the database fails. A connection that failed is opened anew next time.
    pub fn with_store<R>(
        &self,
        access: DatabaseAccess,
        action: impl FnOnce(&mut dyn Store) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let mut connection = match access {
            DatabaseAccess::Write => self.store.lock().unwrap_or_else(PoisonError::into_inner),
            // A child that was forked while a thread of its parent had the lock does not wait for ever.
            DatabaseAccess::Look => match self.store.try_lock() {
                Ok(store) => store,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(None),
            },
        };
        let Some(location) = self.location() else { return Ok(None) };
        if connection.is_none() {
            *connection = match (access, open(&location)) {
                (_, Ok(store)) => Some(store),
                (DatabaseAccess::Look, Err(StoreError::Missing { .. })) => return Ok(None),
                (DatabaseAccess::Write, Err(StoreError::Missing { .. } | StoreError::OlderSchema { .. })) => {
                    Some(create(&location)?)
                }
                (_, Err(error)) => return Err(error),
            };
        }
        let Some(store) = connection.as_mut() else { return Ok(None) };
        let result = action(&mut **store);
        if result.is_err() {
            *connection = None;
        }
        result.map(Some)
    }

    /// Returns true if a failure is new, so that each is told once.
    pub fn is_news(&self, failure: &StoreError) -> bool {
        let text = failure.to_string();
        let mut facts = self.facts();
        if facts.told.contains(&text) {
            return false;
        }
        facts.told.push(text);
        true
    }
}
