//! Charts as SVG. Lengths are parts of the width in percent, so that a chart fills its place on screens of any width and its marks stay
//! round; labels are HTML beside it.

use super::html::HtmlWriter;
use super::units;
use polyloom_store::SampleSummary;

/// An axis ends at so many times its reference, so that a very slow path does not press the others together.
const MAX_OVER_REFERENCE: u64 = 3;
/// Samples that are drawn of a measurement. The compact form of a database holds many more.
const MAX_DOTS: usize = 240;
const BAR_HEIGHT: u32 = 24;
const STRIP_HEIGHT: f64 = 34.0;

/// An axis of times from 0.
#[derive(Clone, Copy)]
pub(super) struct TimeAxis {
    /// The time at its end, in picoseconds.
    pub(super) end: u64,
}

impl TimeAxis {
    /// Makes an axis for measurements, of which `reference` is what others are compared with.
    pub(super) fn of(summaries: &[SampleSummary], reference: Option<u64>) -> TimeAxis {
        let longest = summaries.iter().map(|summary| summary.p95).max().unwrap_or(0);
        let shortest = summaries.iter().map(|summary| summary.median).min().unwrap_or(0);
        let limit = reference.unwrap_or(shortest).max(shortest).saturating_mul(MAX_OVER_REFERENCE);
        // A little room is left after the longest one.
        TimeAxis { end: (longest.min(limit) / 100).saturating_mul(104).max(1) }
    }

    fn percent(self, time: u64) -> f64 {
        100.0 * time as f64 / self.end as f64
    }

    /// Writes the ends of the axis, to stand above charts.
    pub(super) fn ends(self, html: &mut HtmlWriter) {
        html.element("div", &[("class", "axis"), ("aria-hidden", "true")], |html| {
            html.leaf("span", &[], "0");
            html.leaf("span", &[], units::duration(self.end / 2));
            html.leaf("span", &[], units::duration(self.end));
        });
    }
}

fn percent(value: f64) -> String {
    format!("{:.2}%", value.clamp(0.0, 100.0))
}

fn line(html: &mut HtmlWriter, class: &str, from: (f64, f64), to: (f64, f64)) {
    let (x1, x2) = (percent(from.0), percent(to.0));
    let (y1, y2) = (from.1.to_string(), to.1.to_string());
    html.void("line", &[("class", class), ("x1", &x1), ("x2", &x2), ("y1", &y1), ("y2", &y2)]);
}

/// Writes the bar of a measurement: the median, nine tenths of the samples as a line, the minimum as a notch, and the predicted time.
pub(super) fn bar(
    html: &mut HtmlWriter,
    axis: TimeAxis,
    summary: &SampleSummary,
    predicted: Option<u64>,
    class: &'static str,
) {
    let said = predicted.map_or_else(String::new, |time| format!(", predicted {}", units::duration(time)));
    let label = format!(
        "median {}, minimum {}, nine tenths of {} from {} to {}{said}",
        units::duration(summary.median),
        units::duration(summary.min),
        units::counted(summary.n_samples, "sample"),
        units::duration(summary.p05),
        units::duration(summary.p95),
    );
    let height = BAR_HEIGHT.to_string();
    let attributes =
        [("class", class), ("width", "100%"), ("height", &height), ("role", "img"), ("aria-label", &label)];
    html.element("svg", &attributes, |html| {
        html.leaf("title", &[], &label);
        let width = percent(axis.percent(summary.median));
        html.void("rect", &[("class", "median"), ("x", "0"), ("y", "6"), ("width", &width), ("height", "12")]);
        line(html, "spread", (axis.percent(summary.p05), 12.0), (axis.percent(summary.p95), 12.0));
        line(html, "minimum", (axis.percent(summary.min), 5.0), (axis.percent(summary.min), 19.0));
        if let Some(time) = predicted.filter(|time| *time <= axis.end) {
            line(html, "predicted", (axis.percent(time), 0.0), (axis.percent(time), 24.0));
        }
        if summary.median > axis.end {
            html.leaf("text", &[("class", "beyond"), ("x", "99%"), ("y", "17"), ("text-anchor", "end")], "›");
        }
    });
}

/// Writes samples as dots: times from left to right, and their order from top to bottom.
pub(super) fn strip(html: &mut HtmlWriter, axis: TimeAxis, summary: &SampleSummary, samples: &[u64]) {
    let label = format!(
        "{} from {} to {}, {} of them outliers, in their order from top to bottom",
        units::counted(summary.n_samples, "sample"),
        units::duration(summary.min),
        units::duration(summary.max),
        summary.n_outliers
    );
    let height = STRIP_HEIGHT.to_string();
    let attributes =
        [("class", "strip"), ("width", "100%"), ("height", &height), ("role", "img"), ("aria-label", &label)];
    html.element("svg", &attributes, |html| {
        html.leaf("title", &[], &label);
        let median = axis.percent(summary.median);
        if summary.median <= axis.end {
            line(html, "median", (median, 0.0), (median, STRIP_HEIGHT));
        }
        let stride = samples.len().div_ceil(MAX_DOTS).max(1);
        let step = (STRIP_HEIGHT - 8.0) / samples.len().saturating_sub(1).max(1) as f64;
        for (index, &sample) in samples.iter().enumerate().step_by(stride) {
            let is_beyond = sample > axis.end;
            let class = if is_beyond { "dot beyond" } else { "dot" };
            let x = percent(axis.percent(sample).min(99.5));
            let y = format!("{:.1}", 4.0 + index as f64 * step);
            html.void("circle", &[("class", class), ("cx", &x), ("cy", &y), ("r", "2")]);
        }
    });
}

/// Says what the marks of bars are.
pub(super) fn bar_legend(html: &mut HtmlWriter) {
    html.element("p", &[("class", "legend")], |html| {
        for (class, word) in [
            ("median", "median"),
            ("spread", "nine tenths of the samples"),
            ("minimum", "minimum"),
            ("predicted", "predicted, by default rates"),
        ] {
            html.element("span", &[], |html| {
                html.element(
                    "svg",
                    &[("class", "bar"), ("width", "18"), ("height", "12"), ("aria-hidden", "true")],
                    |html| match class {
                        "median" => html.void(
                            "rect",
                            &[("class", "median"), ("x", "0"), ("y", "1"), ("width", "18"), ("height", "10")],
                        ),
                        "spread" => {
                            html.void(
                                "line",
                                &[("class", "spread"), ("x1", "0"), ("x2", "18"), ("y1", "6"), ("y2", "6")],
                            );
                        }
                        class => {
                            html.void("line", &[("class", class), ("x1", "9"), ("x2", "9"), ("y1", "0"), ("y2", "12")]);
                        }
                    },
                );
                html.text(format_args!(" {word}"));
            });
        }
    });
}
