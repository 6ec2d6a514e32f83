//! The benchmark database as a planner uses it: one suite for both databases, and what each of them does when it fails.

mod concurrency;
mod database;
mod failures;
mod records;
mod suite;
