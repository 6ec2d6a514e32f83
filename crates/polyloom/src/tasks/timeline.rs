//! What ran where and when: records, a text and a Gantt chart.

use super::{TaskGraph, TaskPlan};
use polyloom_runtime::DeviceId;
use std::fmt;
use std::fmt::Write as _;

/// A run of a kernel, or a copy. Times are nanoseconds from the beginning of the tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimelineEntry {
    /// The task that ran, or that a copy was for; none of a copy that brings results back.
    pub task: Option<usize>,
    /// The device that ran it, or whose memory is written.
    pub device: DeviceId,
    /// The device whose memory is copied; none of a kernel.
    pub from: Option<DeviceId>,
    /// The bytes of a copy.
    pub n_bytes: u64,
    /// The time when it began.
    pub begin: u64,
    /// The time when it ended.
    pub end: u64,
}

/// Records what ran where and when, and what was predicted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskTimeline {
    /// Kernels and copies, in the order in which they began.
    pub entries: Vec<TimelineEntry>,
    /// The names of the tasks' kernels.
    pub names: Vec<String>,
    /// The devices.
    pub devices: Vec<DeviceId>,
    /// The time in nanoseconds until everything was back.
    pub total: u64,
    /// The time in nanoseconds that was predicted.
    pub predicted: f64,
}

/// The width of the chart in pixels, without the names of devices.
const CHART_WIDTH: f64 = 900.0;
const NAME_WIDTH: f64 = 90.0;
const ROW_HEIGHT: f64 = 34.0;
/// The columns of the chart as text.
const TEXT_WIDTH: u64 = 60;
/// Colours of kernels, by name in turn: Okabe and Ito's, which people who do not see all colours tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

impl TaskTimeline {
    pub(super) fn new(graph: &TaskGraph, plan: &TaskPlan, mut entries: Vec<TimelineEntry>, total: u64) -> TaskTimeline {
        entries.sort_by_key(|entry| (entry.begin, entry.end));
        let names = graph.tasks.iter().map(|recorded| recorded.task.kernel.name().to_owned()).collect();
        let mut devices = graph.devices().to_vec();
        for entry in &entries {
            if !devices.contains(&entry.device) {
                devices.push(entry.device);
            }
        }
        TaskTimeline { entries, names, devices, total, predicted: plan.schedule.makespan }
    }

    /// Appends what ran after it.
    pub fn append(&mut self, other: &TaskTimeline) {
        let n_tasks = self.names.len();
        let shifted = |entry: &TimelineEntry| TimelineEntry {
            task: entry.task.map(|task| task + n_tasks),
            begin: entry.begin + self.total,
            end: entry.end + self.total,
            ..*entry
        };
        self.entries.extend(other.entries.iter().map(shifted).collect::<Vec<_>>());
        self.names.extend_from_slice(&other.names);
        for device in &other.devices {
            if !self.devices.contains(device) {
                self.devices.push(*device);
            }
        }
        self.total += other.total;
        self.predicted += other.predicted;
    }

    /// Returns what an entry is called.
    pub fn label(&self, entry: &TimelineEntry) -> String {
        match (entry.from, entry.task.and_then(|task| self.names.get(task))) {
            (Some(from), Some(name)) => format!("copy of {} bytes from {from} for {name}", entry.n_bytes),
            (Some(from), None) => format!("copy of {} bytes from {from}", entry.n_bytes),
            (None, Some(name)) => name.clone(),
            (None, None) => String::new(),
        }
    }

    /// Returns the Gantt chart as SVG: a row for each device, kernels in colours and copies in grey.
    pub fn svg(&self) -> String {
        let scale = CHART_WIDTH / self.total.max(1) as f64;
        let height = ROW_HEIGHT * self.devices.len() as f64 + 24.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n",
            NAME_WIDTH + CHART_WIDTH + 10.0
        );
        let mut known: Vec<&str> = Vec::new();
        for (row, device) in self.devices.iter().enumerate() {
            let y = ROW_HEIGHT * row as f64;
            let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">{device}</text>", y + 20.0);
            for entry in self.entries.iter().filter(|entry| entry.device == *device) {
                let (x, width) =
                    (NAME_WIDTH + entry.begin as f64 * scale, ((entry.end - entry.begin) as f64 * scale).max(0.5));
                let (colour, text) = match entry.task.and_then(|task| self.names.get(task)) {
                    Some(name) if entry.from.is_none() => {
                        let number = known.iter().position(|known| known == name).unwrap_or_else(|| {
                            known.push(name);
                            known.len() - 1
                        });
                        (COLOURS[number % COLOURS.len()], name.as_str())
                    }
                    _ => ("#999999", ""),
                };
                let title = format!(
                    "{}: {} to {}",
                    self.label(entry),
                    duration(entry.begin as f64),
                    duration(entry.end as f64)
                );
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{}\" fill=\"{colour}\"><title>{}</title></rect>",
                    y + 6.0,
                    ROW_HEIGHT - 12.0,
                    escaped(&title)
                );
                if width > 7.0 * text.len() as f64 && !text.is_empty() {
                    let _ = writeln!(
                        svg,
                        "<text x=\"{:.2}\" y=\"{}\" fill=\"white\">{}</text>",
                        x + 3.0,
                        y + 20.0,
                        escaped(text)
                    );
                }
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{NAME_WIDTH}\" y=\"{y}\">0</text><text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{}</text>",
            duration(self.total as f64),
            x = NAME_WIDTH + CHART_WIDTH,
            y = height - 8.0,
        );
        svg.push_str("</svg>\n");
        svg
    }
}

impl fmt::Display for TaskTimeline {
    /// A line for each device, with `#` where it ran kernels and `-` where it copied, and a line for each kernel and copy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total.max(1);
        for device in &self.devices {
            let mut row = vec!['.'; TEXT_WIDTH as usize];
            for entry in self.entries.iter().filter(|entry| entry.device == *device) {
                let column = |ns: u64| (u128::from(ns) * u128::from(TEXT_WIDTH) / u128::from(total)) as usize;
                let (first, last) = (column(entry.begin).min(row.len() - 1), column(entry.end).min(row.len() - 1));
                for cell in &mut row[first..=last] {
                    if entry.from.is_none() || *cell == '.' {
                        *cell = if entry.from.is_none() { '#' } else { '-' };
                    }
                }
            }
            writeln!(f, "{:<8} |{}|", device.to_string(), row.into_iter().collect::<String>())?;
        }
        for entry in &self.entries {
            let (begin, length) = (duration(entry.begin as f64), duration((entry.end - entry.begin) as f64));
            writeln!(f, "{begin:>10} +{length:<10} {:<8} {}", entry.device.to_string(), self.label(entry))?;
        }
        write!(f, "{} in all, {} predicted", duration(self.total as f64), duration(self.predicted))
    }
}

/// Returns nanoseconds as people read them.
fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
