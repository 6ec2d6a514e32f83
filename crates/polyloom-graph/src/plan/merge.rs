//! Merges the axes of a kernel: those of one element go, and neighbours that all accesses go through in step become one.

use crate::layout::Layout;
use crate::reference::N_LANES;

/// The least length, and the least number, of rows that elements are dealt out by.
const MIN_ROW: u64 = 64;
const MIN_ROWS: u64 = 16;

/// The axes of a kernel after merging.
#[derive(Clone, Debug)]
pub(super) struct MergedAxes {
    /// The extents that threads are dealt out along.
    pub(super) outer: Vec<u64>,
    /// The extents of a row.
    pub(super) inner: Vec<u64>,
    /// The last old axis of each new one, whose stride it has.
    last: Vec<usize>,
}

impl MergedAxes {
    /// Merges axes. Some, by their number among all, stay as they are.
    pub(super) fn new(
        outer: &[u64],
        inner: &[u64],
        layouts: &[Layout],
        is_pinned: impl Fn(usize) -> bool,
    ) -> MergedAxes {
        let mut axes = MergedAxes { outer: Vec::new(), inner: Vec::new(), last: Vec::new() };
        let mut merge = |extents: &[u64], first: usize| {
            let mut merged: Vec<u64> = Vec::new();
            let mut previous: Option<usize> = None;
            for (index, &extent) in extents.iter().enumerate() {
                let axis = first + index;
                if extent == 1 && !is_pinned(axis) {
                    continue;
                }
                let in_step = |before: usize| {
                    let is_step =
                        |layout: &Layout| layout.strides[before] == layout.strides[axis].wrapping_mul(extent as i64);
                    !is_pinned(axis) && !is_pinned(before) && layouts.iter().all(is_step)
                };
                match (previous, merged.last_mut(), axes.last.last_mut()) {
                    (Some(before), Some(last_extent), Some(last_axis)) if in_step(before) => {
                        *last_extent *= extent;
                        *last_axis = axis;
                    }
                    _ => {
                        merged.push(extent);
                        axes.last.push(axis);
                    }
                }
                previous = Some(axis);
            }
            merged
        };
        let merged_outer = merge(outer, 0);
        let merged_inner = merge(inner, outer.len());
        axes.outer = merged_outer;
        axes.inner = merged_inner;
        axes
    }

    /// The last of the old axes that make the last outer one.
    pub(super) fn last_axis(&self) -> Option<usize> {
        self.outer.len().checked_sub(1).map(|last| self.last[last])
    }

    /// Makes the last outer axis a row, if there are no rows yet, it is long, and neighbours along it are neighbours in memory.
    pub(super) fn take_row(&mut self, layouts: &[Layout]) {
        let [outer @ .., length] = &self.outer[..] else { return };
        let n_rows: u64 = outer.iter().product();
        let is_near = |layout: &Layout| self.last.last().is_some_and(|&axis| (0..=1).contains(&layout.strides[axis]));
        let has_rows = !self.inner.is_empty();
        if has_rows || *length < MIN_ROW || n_rows < MIN_ROWS || !layouts.iter().all(is_near) {
            return;
        }
        self.inner.extend(self.outer.pop());
    }

    /// Returns the axis, other than the last, along which neighbours are neighbours in memory for some layout that leaps
    /// along the last one.
    pub(super) fn transposed_axis(&self, layouts: &[Layout]) -> Option<usize> {
        let [rows @ .., columns] = &self.outer[..] else { return None };
        if !self.inner.is_empty() || *columns < N_LANES as u64 {
            return None;
        }
        layouts.iter().find_map(|layout| {
            let strides = self.strides(layout);
            let leaps = strides[rows.len()].abs() > 1;
            (0..rows.len()).find(|&axis| leaps && strides[axis].abs() == 1 && rows[axis] >= N_LANES as u64)
        })
    }

    /// Returns the last axis along which there are many rows, if rows are short, but fill a good part of blocks of threads.
    pub(super) fn axis_of_narrow_rows(&self) -> Option<usize> {
        let n_lanes = N_LANES as u64;
        let (columns, rows) = self.outer.split_last()?;
        let is_narrow = (n_lanes / 2..MIN_ROW).contains(columns) && self.inner.is_empty();
        rows.iter().rposition(|&n| n >= n_lanes / 2).filter(|_| is_narrow)
    }

    /// Returns true if elements lie along rows that are too short for the vectors of a grid of several axes.
    pub(super) fn has_short_rows(&self) -> bool {
        self.inner.is_empty() && self.outer.len() > 1 && self.outer.last().is_some_and(|&length| length < MIN_ROW)
    }

    /// Returns true if the elements of a layout follow each other in the order of the axes.
    pub(super) fn is_dense(&self, layout: &Layout) -> bool {
        let extents = [&self.outer[..], &self.inner[..]].concat();
        self.strides(layout) == Layout::dense(&extents).strides
    }

    /// Returns the strides of a layout along the merged axes.
    pub(super) fn strides(&self, layout: &Layout) -> Vec<i64> {
        self.last.iter().map(|&axis| layout.strides[axis]).collect()
    }
}
