//! Reading a whole database against its own hashes, checksums and summaries.

use super::engine::SqlEngine;
use super::read;
use crate::record::{canonical_json, recipe_hash};
use crate::{CheckReport, SampleSummary, StoreError};

/// Findings that a report holds.
const MAX_PROBLEMS: usize = 100;

pub(super) fn check(engine: &mut impl SqlEngine, each: &mut dyn FnMut(u64, u64)) -> Result<CheckReport, StoreError> {
    let mut problems = engine.integrity_problems(MAX_PROBLEMS)?;
    // In a file that is damaged so, rows cannot be trusted to be there.
    if !problems.is_empty() {
        return Ok(CheckReport { problems, ..CheckReport::default() });
    }
    let counts = read::counts(engine)?;
    let mut note = |problem: String| {
        if problems.len() < MAX_PROBLEMS {
            problems.push(problem);
        }
    };
    read::for_each_row(engine, read::GRAPH_PAGE, &mut |row| read::graph(row, 1).map(|_| ()))?;
    read::for_each_row(engine, read::IMPLEMENTATION_PAGE, &mut |row| {
        let (id, hash) = (row.integer(0)?, row.hash(6)?);
        match read::implementation_row(row)
            .and_then(|record| Ok((canonical_json(&record.recipe)?, record.recipe_version)))
        {
            Ok((recipe, version)) if recipe_hash(version, &recipe) == hash => {}
            Ok(_) => note(format!("implementation {id}: the hash is not that of its recipe")),
            Err(error) => note(format!("implementation {id}: {error}")),
        }
        Ok(())
    })?;
    read::for_each_row(engine, read::WORKLOAD_PAGE, &mut |row| {
        let (id, hash) = (row.integer(0)?, row.hash(3)?);
        match read::workload_row(row) {
            Ok(workload) if workload.hash() == hash => {}
            Ok(_) => note(format!("workload {id}: the hash is not that of its arguments")),
            Err(error) => note(format!("workload {id}: {error}")),
        }
        Ok(())
    })?;
    read::for_each_row(engine, read::ENVIRONMENT_PAGE, &mut |row| {
        let id = row.integer(0)?;
        if let Err(error) = read::environment_row(row) {
            note(format!("environment {id}: {error}"));
        }
        Ok(())
    })?;
    let (mut n_read, n_all) = (0, counts["benchmark_traces"]);
    read::for_each_row(engine, read::TRACE_PAGE, &mut |row| {
        n_read += 1;
        each(n_read, n_all);
        let id = row.integer(0)?;
        match read::trace(row) {
            Ok((_, trace)) => {
                if trace.hash() != row.hash(16)? {
                    note(format!("trace {id}: the hash is not that of what it says"));
                }
                let stored = (row.count(17)?, row.integer_or_null(18)?, row.integer_or_null(19)?);
                let summary = SampleSummary::of(&trace.samples);
                let of = |value: fn(&SampleSummary) -> u64| summary.as_ref().and_then(|s| i64::try_from(value(s)).ok());
                if stored != (trace.samples.len() as u64, of(|s| s.median), of(|s| s.mad)) {
                    note(format!("trace {id}: the summary is not that of its samples"));
                }
            }
            Err(error) => note(format!("trace {id}: {error}")),
        }
        Ok(())
    })?;
    Ok(CheckReport { counts, problems })
}
