//! The database of a process: opened when it is first needed, and never a reason for a call to fail.

use polyloom_store::{
    BestPathCache, ContentHash, DatabaseLocation, EnvironmentRecord, MachineFacts, Store, StoreError, create, open,
    open_read_only,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// The time between two looks for what other processes have written.
const WATCH_PERIOD: Duration = Duration::from_secs(5);

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

/// A look at the database for what others have written, by a connection of its own, so that no look-up waits for it.
#[derive(Default)]
struct DatabaseWatch {
    location: Option<DatabaseLocation>,
    store: Option<Box<dyn Store>>,
    /// The number that the last look has found.
    mark: Option<i64>,
}

/// The database that the planner of a process uses, with the environment that it measures in.
#[derive(Default)]
pub struct PlannerDatabase {
    /// Held while the database works, and by look-ups while they compile.
    store: Mutex<Option<Box<dyn Store>>>,
    /// Held for moments alone, so that nobody waits for it.
    facts: Mutex<DatabaseFacts>,
    cache: BestPathCache,
    watch: Mutex<DatabaseWatch>,
    /// Counts how often what is known has changed.
    generation: AtomicU64,
    /// The process that has a thread which looks; a forked child has none.
    watcher: AtomicU32,
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
        self.forget();
    }

    fn forget(&self) {
        self.cache.clear();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Counts how often what is known has changed. A decision that was made at another number is to be made again.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Looks if others have written measurements since the last look, and forgets what is known if so; returns true then. A database that
    /// is not there or fails has no news.
    pub fn look_for_news(&self) -> bool {
        // Whoever has it is looking, or was when this process was forked.
        let Ok(mut watch) = self.watch.try_lock() else { return false };
        let location = self.location();
        if watch.location != location {
            *watch = DatabaseWatch { location, ..DatabaseWatch::default() };
        }
        let Some(location) = &watch.location else { return false };
        if watch.store.is_none() {
            watch.store = open_read_only(location).ok();
            // Numbers of another connection cannot be compared with this one's.
            watch.mark = None;
        }
        let Some(store) = watch.store.as_mut() else { return false };
        let Ok(mark) = store.change_mark() else {
            watch.store = None;
            return false;
        };
        let is_news = watch.mark.replace(mark) != Some(mark);
        if is_news {
            self.forget();
        }
        is_news
    }

    /// Looks for news now and then, in a thread, from the first call on.
    pub fn keep_watching(&'static self) {
        let process = std::process::id();
        if self.watcher.swap(process, Ordering::Relaxed) == process {
            return;
        }
        // The first look always finds news, so that nothing is missed that is written before it.
        let look = move || loop {
            std::thread::sleep(WATCH_PERIOD);
            self.look_for_news();
        };
        // Without a thread, decisions are as old as their plans.
        let _ = std::thread::Builder::new().name("polyloom-watch".to_owned()).stack_size(512 << 10).spawn(look);
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

    /// Counts the statements that look-ups and writes have run over their connection; 0 if there is none.
    pub fn n_statements(&self) -> u64 {
        let store = self.store.try_lock();
        store.ok().and_then(|store| store.as_ref().map(|store| store.n_statements())).unwrap_or(0)
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
