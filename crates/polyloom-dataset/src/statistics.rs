//! What a data set is made of, in numbers. Statistics of chunks add up to those of the whole.

use crate::row::Row;
use crate::text::{functions, n_lines};
use polyloom::{Kernel, Op};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Describes how often each thing occurs.
pub type Histogram = BTreeMap<String, u64>;

/// Sums over rows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowStatistics {
    /// Number of rows there are.
    pub rows: u64,
    /// Rows by category.
    pub categories: Histogram,
    /// Lines of forward code in all.
    pub forward_lines: u64,
    /// Lines of backward code in all.
    pub backward_lines: u64,
    /// Rows with a backward kernel.
    pub with_backward: u64,
    /// Says how these are spread.
    pub histograms: RowHistograms,
}

/// Describes what rows have, and how often.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowHistograms {
    /// Rows by difficulty.
    pub difficulty: Histogram,
    /// Number of times ops occur.
    pub ops: Histogram,
    /// Number of times one op takes what another gives: `mul add` is a sum of a product.
    pub op_bigrams: Histogram,
    /// Parameters by the type of their elements.
    pub dtypes: Histogram,
    /// Rows by the rank of their launches.
    pub ranks: Histogram,
    /// Rows by how deep their values are made of each other.
    pub depth: Histogram,
    /// Rows by the lines of their Python text, in tens.
    pub python_lines: Histogram,
    /// Rows by the lines of their forward code, in fifties.
    pub forward_lines: Histogram,
    /// Rows that have backward code by its lines, in fifties.
    pub backward_lines: Histogram,
}

/// Describes what is counted of a kernel and stands in no column.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpCounts {
    ops: FxHashMap<Op, u64>,
    bigrams: FxHashMap<(Op, Op), u64>,
}

impl OpCounts {
    pub(crate) fn of(kernel: &Kernel) -> OpCounts {
        let mut counts = OpCounts::default();
        for function in functions(kernel) {
            let mut origins = FxHashMap::default();
            function.walk(function.body, &mut |_, data| {
                *counts.ops.entry(data.op).or_default() += 1;
                for operand in &data.operands {
                    if let Some(&origin) = origins.get(operand) {
                        *counts.bigrams.entry((origin, data.op)).or_default() += 1;
                    }
                }
                origins.extend(data.results.iter().map(|&result| (result, data.op)));
            });
        }
        counts
    }

    /// Adds what is counted of other kernels.
    pub(crate) fn merge(&mut self, other: &OpCounts) {
        for (&op, n) in &other.ops {
            *self.ops.entry(op).or_default() += n;
        }
        for (&bigram, n) in &other.bigrams {
            *self.bigrams.entry(bigram).or_default() += n;
        }
    }
}

/// Counts a row by lines, in steps of so many.
fn count_lines(histogram: &mut Histogram, lines: usize, step: usize) {
    let first = lines / step * step;
    count(histogram, format!("{first:04} to {:04}", first + step - 1), 1);
}

fn count(histogram: &mut Histogram, name: impl Into<String>, n: u64) {
    *histogram.entry(name.into()).or_default() += n;
}

impl RowStatistics {
    /// Adds a row, but for its ops.
    pub(crate) fn add(&mut self, row: &Row) {
        self.rows += 1;
        count(&mut self.categories, &row.category, 1);
        let histograms = &mut self.histograms;
        count_lines(&mut histograms.python_lines, n_lines(&row.python_source), 10);
        let Some(metadata) = &row.metadata else { return };
        self.forward_lines += metadata.forward_lines as u64;
        self.backward_lines += metadata.backward_lines as u64;
        self.with_backward += u64::from(metadata.has_backward);
        count_lines(&mut histograms.forward_lines, metadata.forward_lines, 50);
        if metadata.has_backward {
            count_lines(&mut histograms.backward_lines, metadata.backward_lines, 50);
        }
        count(&mut histograms.difficulty, metadata.difficulty.to_string(), 1);
        count(&mut histograms.ranks, metadata.launch.len().to_string(), 1);
        count(&mut histograms.depth, format!("{:02}", metadata.depth), 1);
        for input in &metadata.inputs {
            count(&mut histograms.dtypes, &input.dtype, 1);
        }
    }

    /// Adds the ops of rows.
    pub(crate) fn add_ops(&mut self, counts: &OpCounts) {
        for (op, &n) in &counts.ops {
            count(&mut self.histograms.ops, op.name(), n);
        }
        for ((origin, op), &n) in &counts.bigrams {
            count(&mut self.histograms.op_bigrams, format!("{} {}", origin.name(), op.name()), n);
        }
    }

    /// Adds the statistics of other rows.
    pub fn merge(&mut self, other: &RowStatistics) {
        self.rows += other.rows;
        self.forward_lines += other.forward_lines;
        self.backward_lines += other.backward_lines;
        self.with_backward += other.with_backward;
        for (mine, theirs) in self.histograms_mut().into_iter().zip(other.histograms()) {
            for (name, &n) in theirs {
                count(mine, name, n);
            }
        }
    }

    fn histograms(&self) -> [&Histogram; 10] {
        let RowStatistics { categories, histograms: h, .. } = self;
        let [python, forward, backward] = [&h.python_lines, &h.forward_lines, &h.backward_lines];
        let (ops, bigrams) = (&h.ops, &h.op_bigrams);
        [categories, &h.difficulty, ops, bigrams, &h.dtypes, &h.ranks, &h.depth, python, forward, backward]
    }

    fn histograms_mut(&mut self) -> [&mut Histogram; 10] {
        let RowStatistics { categories, histograms: h, .. } = self;
        let [python, forward, backward] = [&mut h.python_lines, &mut h.forward_lines, &mut h.backward_lines];
        let (ops, bigrams) = (&mut h.ops, &mut h.op_bigrams);
        [
            categories,
            &mut h.difficulty,
            ops,
            bigrams,
            &mut h.dtypes,
            &mut h.ranks,
            &mut h.depth,
            python,
            forward,
            backward,
        ]
    }
}
