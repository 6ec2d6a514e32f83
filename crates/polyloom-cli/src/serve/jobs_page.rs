//! The page of jobs: what waits to be profiled, who works at what until when, and what failed.

use super::frame::{Page, PageFailure, arguments_text, hash, moment, pager, short, workload_href};
use super::html::{HtmlWriter, NOTHING};
use super::http::PageRequest;
use super::units;
use polyloom_store::{JobCounts, JobState, JobSummary, Store};

const JOBS_OF_PAGE: u64 = 50;

fn count_of(counts: &JobCounts, state: JobState) -> u64 {
    match state {
        JobState::Waiting => counts.n_waiting,
        JobState::Leased => counts.n_leased,
        JobState::Done => counts.n_done,
        JobState::Failed => counts.n_failed,
    }
}

pub(super) fn page(store: &mut dyn Store, request: &PageRequest) -> Result<Page, PageFailure> {
    let counts = store.job_counts(None)?;
    let asked = JobState::ALL.into_iter().find(|state| request.value("state") == Some(state.name()));
    let first = JobState::ALL.into_iter().find(|state| count_of(&counts, *state) > 0);
    let state = asked.or(first).unwrap_or(JobState::Waiting);
    let number = request.value("page").and_then(|text| text.parse().ok()).filter(|page| *page >= 1).unwrap_or(1u64);
    let jobs = store.jobs(state, (number - 1).saturating_mul(JOBS_OF_PAGE), JOBS_OF_PAGE)?;
    let mut html = HtmlWriter::default();
    html.leaf(
        "p",
        &[("class", "lead")],
        "Workloads to be profiled. A worker leases a job for some time; when it is gone, another takes the job over.",
    );
    html.element("div", &[("class", "switches")], |html| {
        html.element("nav", &[("aria-label", "State")], |html| {
            for each in JobState::ALL {
                let current = if each == state { "page" } else { "false" };
                let href = format!("/jobs?state={}", each.name());
                let words = format!("{} {}", units::count(count_of(&counts, each)), each.name());
                html.leaf("a", &[("href", &href), ("aria-current", current)], words);
            }
        });
    });
    if jobs.is_empty() {
        html.leaf("p", &[("class", "empty")], format_args!("No job is {}.", state.name()));
    } else {
        write_jobs(&mut html, state, &jobs);
    }
    let href = |page: u64| format!("/jobs?state={}&page={page}", state.name());
    pager(&mut html, &href, number, count_of(&counts, state).div_ceil(JOBS_OF_PAGE));
    Ok(Page::new("Jobs", &[], html))
}

fn write_jobs(html: &mut HtmlWriter, state: JobState, jobs: &[JobSummary]) {
    let time = match state {
        JobState::Waiting => "Added",
        JobState::Leased => "Leased until",
        JobState::Done | JobState::Failed => "Ended",
    };
    let columns = [
        ("Job", "number"),
        ("Graph", ""),
        ("Arguments", "grow"),
        ("Environment", ""),
        ("Policy", ""),
        ("Priority", "number"),
        ("Attempts", "number"),
        ("Worker", ""),
        (time, "nowrap"),
    ];
    html.table("cards", &columns, jobs.len(), &|_| "", |html, row, column| {
        let job = &jobs[row];
        match column {
            "Job" => html.text(job.id),
            "Graph" => html.link(&super::frame::graph_href(&job.graph), short(&job.graph)),
            "Arguments" => {
                let text = arguments_text(&job.arguments);
                html.link(&workload_href(&job.graph, &job.workload, None), text);
                if let Some(reason) = &job.reason {
                    html.leaf("span", &[("class", "detail reason")], reason);
                }
            }
            "Environment" => hash(html, &job.environment),
            "Policy" => html.leaf("code", &[], &job.policy),
            "Priority" => html.text(job.priority),
            "Attempts" => html.text(format_args!("{} of {}", job.n_attempts, job.max_attempts)),
            "Worker" => html.text(job.owner.as_deref().unwrap_or(NOTHING)),
            _ => moment(
                html,
                match state {
                    JobState::Waiting => Some(job.created_at),
                    JobState::Leased => job.leased_until,
                    JobState::Done | JobState::Failed => job.finished_at,
                },
            ),
        }
    });
}
