//! Indices in random kernels.
//!
//! Those of parameters are in bounds without checks: clamped to the array, or affine in the thread's coordinates where
//! the array has the launch's shape, also by `int32` arithmetic that wraps. With checks, and into what a thread has to
//! itself, an index may now and then be outside.

use super::generate::{COORDINATES, ProgramGenerator, ProgramVariable};
use super::program::ArrayUse;
use polyloom_ir::{Scalar, Type};

/// Ways to write the thread's own index along an axis: `{c}` is the coordinate, `{n}` the extent.
const SAME: [&str; 7] = [
    "{c} - {n}",
    "({c} + 2147483647) - 2147483647",
    "{c} * 3 * (-1431655765)",
    "({c} * 65536) * 65536 + {c}",
    "loom.int64({c})",
    "loom.uint32({c})",
    "loom.uint64({c})",
];

/// Further indices along an axis that are within it.
const OTHERS: [&str; 12] = [
    "{c}",
    "{c} - 1",
    "-1 - {c}",
    "{n} - 1 - {c}",
    "{c} // 2",
    "{c} % 3",
    "{c} & 5",
    "loom.uint8({c})",
    "loom.int8({c})",
    "loom.int64({c}) - loom.int64(1)",
    "({c} - 2147483647) + 2147483646",
    "loom.where({c} > 1, {c} - 2, {c})",
];

impl ProgramGenerator {
    /// The index of an element that is the thread's own of the array of this name. In axes beyond the launch's it is any.
    pub(super) fn own_index(&mut self, array: &str, ndim: usize) -> String {
        self.own_index_from(array, 0, ndim)
    }

    /// The same, of a part of an array that the coordinates before `first` chose.
    pub(super) fn own_index_from(&mut self, part: &str, first: usize, ndim: usize) -> String {
        let mut index = Vec::new();
        for (axis, coordinate) in COORDINATES[first..self.rank].iter().enumerate() {
            let way = if self.random.chance(8) { *self.random.pick(&SAME) } else { "{c}" };
            index.push(filled(way, coordinate, part, axis));
        }
        for axis in index.len()..ndim {
            index.push(self.index_along(part, axis));
        }
        index.join(", ")
    }

    /// An index of a parameter that this thread may read.
    pub(super) fn index(&mut self, array: usize) -> String {
        let name = format!("a{array}");
        let ndim = self.arrays[array].ndim;
        if self.has_launch_shape(array) && self.random.chance(60) {
            let mut index = Vec::new();
            for (axis, coordinate) in COORDINATES[..ndim].iter().enumerate() {
                let way = if self.random.chance(30) { *self.random.pick(&SAME) } else { *self.random.pick(&OTHERS) };
                index.push(filled(way, coordinate, &name, axis));
            }
            return index.join(", ");
        }
        self.index_of(&name, ndim)
    }

    /// Returns true if a parameter that nobody stores to has the launch's shape.
    fn has_launch_shape(&self, array: usize) -> bool {
        let array = &self.arrays[array];
        self.in_kernel && array.access == ArrayUse::Read && array.same_shape
    }

    /// An index into the array of this name, clamped to it; with checks not always.
    pub(super) fn index_of(&mut self, array: &str, ndim: usize) -> String {
        let mut parts = Vec::new();
        for axis in 0..ndim {
            if self.checked
                && self.random.chance(8)
                && let Some(stray) = self.stray()
            {
                parts.push(stray);
                continue;
            }
            parts.push(self.index_along(array, axis));
        }
        parts.join(", ")
    }

    /// An index along an axis of the array of this name, clamped to it.
    fn index_along(&mut self, array: &str, axis: usize) -> String {
        match self.random.below(4) {
            0 if self.in_kernel => {
                format!("loom.min({}, {array}.shape[{axis}] - 1)", COORDINATES[self.random.below(self.rank)])
            }
            1 => (*self.random.pick(&["0", "-1"])).to_owned(),
            _ => {
                let value = self.pinned(Scalar::I32, 1);
                format!("loom.clamp({value}, -{array}.shape[{axis}], {array}.shape[{axis}] - 1)")
            }
        }
    }

    /// An index into a composite, or into an array of the thread's own, that need not be within it. It is no constant:
    /// constants outside are rejected.
    pub(super) fn stray(&mut self) -> Option<String> {
        // Counters are left out, because the counter of an unrolled loop is a constant.
        let is_variable = |v: &&ProgramVariable| v.assignable || COORDINATES.contains(&v.name.as_str());
        let integers = self.scope.iter().filter(|v| v.ty == Type::I32);
        let variables: Vec<String> = integers.filter(is_variable).map(|v| v.name.clone()).collect();
        if variables.is_empty() {
            return None;
        }
        let name = self.random.pick(&variables).clone();
        let way = *self.random.pick(&["{}", "{} + 1", "{} - 1", "2 * {} - 3", "-{}", "{} * {}"]);
        Some(way.replace("{}", &name))
    }

    /// `assert …`, which nothing but kernels with checks look at.
    pub(super) fn assert_(&mut self) {
        let cond = match self.stray() {
            Some(value) if self.random.chance(80) => {
                let bound = *self.random.pick(&[3, 20, 100]);
                format!("{value} < {bound}")
            }
            _ => self.expr(Scalar::Bool, 2),
        };
        let message = if self.random.chance(50) { ", \"too large\"" } else { "" };
        self.line(&format!("assert {cond}{message}"));
    }

    /// A sum over neighbours of the thread's element of an array of the launch's shape. False if there is none.
    pub(super) fn stencil(&mut self) -> bool {
        let is_number = |ty: Type| ty.as_scalar().is_some_and(|scalar| scalar != Scalar::Bool);
        let fits: Vec<usize> = (0..self.arrays.len())
            .filter(|&array| self.has_launch_shape(array) && is_number(self.arrays[array].elem))
            .collect();
        if fits.is_empty() {
            return false;
        }
        let array = *self.random.pick(&fits);
        let (sum, counter) = (self.name("v"), self.name("n"));
        let first = self.index(array);
        let axis = self.random.below(self.rank);
        let mut index: Vec<String> = COORDINATES[..self.rank].iter().map(|&c| c.to_owned()).collect();
        // The first element has the last one before it.
        index[axis] = format!("{} + {counter}", index[axis]);
        self.line(&format!("{sum} = a{array}[{first}]"));
        self.line(&format!("for {counter} in range(-1, 1):"));
        self.line(&format!("    {sum} += a{array}[{}]", index.join(", ")));
        self.scope.push(ProgramVariable::new(sum, self.arrays[array].elem));
        true
    }
}

fn filled(way: &str, coordinate: &str, array: &str, axis: usize) -> String {
    way.replace("{c}", coordinate).replace("{n}", &format!("{array}.shape[{axis}]"))
}
