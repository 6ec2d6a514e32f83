//! Histograms of calls as text and as SVG: times on a logarithmic axis, one row or bar for each quarter of an octave.

use super::LatencyReport;
use polyloom::latency::LatencyHistogram;

/// Rows of a factor of two.
const PER_OCTAVE: f64 = 4.0;
/// Most rows: what lies beyond is in the last one.
const MAX_ROWS: usize = 36;
/// Characters of the longest bar.
const BAR: f64 = 34.0;

/// A range of times, and the calls of each function in it.
struct HistogramRow {
    /// The end in nanoseconds.
    up_to_ns: f64,
    counts: Vec<u64>,
}

fn rows(report: &LatencyReport) -> Vec<HistogramRow> {
    let histograms: Vec<&LatencyHistogram> = report.functions.iter().map(|function| &function.histogram).collect();
    let least = histograms.iter().map(|histogram| histogram.least()).min().unwrap_or(0).max(1);
    let most = histograms.iter().map(|histogram| histogram.most()).max().unwrap_or(1);
    let mut rows = Vec::new();
    let (mut above, mut end) = (0, least as f64);
    while above < most {
        let up_to = if rows.len() + 1 == MAX_ROWS { most } else { (end as u64).min(most) };
        if up_to > above {
            let counts = histograms.iter().map(|histogram| histogram.count(above, up_to)).collect();
            rows.push(HistogramRow { up_to_ns: report.clock.ns(up_to), counts });
            above = up_to;
        }
        end *= 2f64.powf(1.0 / PER_OCTAVE);
    }
    rows
}

/// A count's part of the longest bar. Bars grow with the logarithm, so that one call in a million is seen.
fn part(count: u64, most: u64) -> f64 {
    if count == 0 { 0.0 } else { (1.0 + count as f64).ln() / (1.0 + most as f64).ln() }
}

/// The histogram as lines of text.
pub(super) fn bars(report: &LatencyReport) -> String {
    let rows = rows(report);
    let most = rows.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(1);
    let marks = ['#', '.', '='];
    let mut text = String::from("\n");
    for (function, mark) in report.functions.iter().zip(marks) {
        text += &format!("  {mark} {}\n", function.name);
    }
    text += "  up to, ns      calls   (bars grow with the logarithm)\n";
    for row in rows.iter().filter(|row| row.counts.iter().any(|&count| count > 0)) {
        for (index, (&count, mark)) in row.counts.iter().zip(marks).enumerate() {
            if count == 0 {
                continue;
            }
            let is_first = row.counts[..index].iter().all(|&count| count == 0);
            let time = if is_first { format!("{:.1}", row.up_to_ns) } else { String::new() };
            let bar = mark.to_string().repeat((part(count, most) * BAR).ceil() as usize);
            text += &format!("{time:>11}{count:>11}   {bar}\n");
        }
    }
    text
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 16.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 64.0;
/// The colours of the kernel, the empty function and the library, which readers who confuse red and green tell apart.
const COLOURS: [&str; 3] = ["#0072b2", "#999999", "#e69f00"];

/// The histogram as SVG.
pub(super) fn svg(report: &LatencyReport) -> String {
    let rows = rows(report);
    let most = rows.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(1);
    let step = (WIDTH - 2.0 * LEFT) / rows.len().max(1) as f64;
    let bar_width = step / report.functions.len() as f64 * 0.9;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for (index, (function, colour)) in report.functions.iter().zip(COLOURS).enumerate() {
        let (y, ns) = (16.0 + 14.0 * index as f64, |part| report.clock.ns(function.histogram.quantile(part)));
        text += &format!(
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"{y}\">{}: \
             {:.1} ns at 50 %, {:.1} ns at 99.9 %</text>\n",
            y - 9.0,
            LEFT + 16.0,
            escaped(&function.name),
            ns(0.5),
            ns(0.999)
        );
    }
    for (row_index, row) in rows.iter().enumerate() {
        let x = LEFT + step * row_index as f64;
        for (index, (&count, colour)) in row.counts.iter().zip(COLOURS).enumerate() {
            let height = part(count, most) * (HEIGHT - TOP - BOTTOM);
            if count > 0 {
                text += &format!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{bar_width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
                     <title>{count} calls up to {:.1} ns</title></rect>\n",
                    x + bar_width * index as f64,
                    HEIGHT - BOTTOM - height,
                    row.up_to_ns
                );
            }
        }
        if row_index % 4 == 0 {
            let y = HEIGHT - BOTTOM + 14.0;
            text += &format!("<text x=\"{x:.1}\" y=\"{y}\">{:.0}</text>\n", row.up_to_ns);
        }
    }
    let y = HEIGHT - 8.0;
    text += &format!(
        "<text x=\"{LEFT}\" y=\"{y}\">nanoseconds of a call, with the clock's own; bars grow with the logarithm of the \
         number of calls</text>\n</svg>\n"
    );
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
