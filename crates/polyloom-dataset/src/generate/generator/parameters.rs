//! The parameters of a kernel that is being written, and its threads.

use super::{GeneratedParameter, KernelGenerator, name_of};
use crate::generate::names::NameRole;
use crate::generate::program::{InputValues, ProgramExtent, ProgramInput};
use crate::number_range::NumberRange;
use polyloom::{Composite, Scalar, Type};

impl KernelGenerator {
    /// A parameter that is no array.
    pub(in crate::generate) fn scalar(&mut self, ty: Type, low: f64, high: f64) -> usize {
        let role = if ty.is_float() { NameRole::Scalar } else { NameRole::Whole };
        let name = self.names.draw(&mut self.random, role);
        self.param(&name, ty, Vec::new(), InputValues::Between { low, high });
        let index = self.declare(name.clone(), format!("`{name}`"), ty, NumberRange::new(low, high));
        self.numbers.push(name);
        self.variables[index].varies = false;
        index
    }

    /// The same under one of these names.
    pub(in crate::generate) fn scalar_like(&mut self, names: &[&str], ty: Type, low: f64, high: f64) -> String {
        let name = self.like(names);
        self.param(&name, ty, Vec::new(), InputValues::Between { low, high });
        name
    }

    /// One of these names, or one like it.
    pub(in crate::generate) fn like(&mut self, names: &[&str]) -> String {
        let first = self.random.below(names.len());
        for at in 0..names.len() {
            let name = names[(first + at) % names.len()];
            if self.names.take(name) {
                return name.to_owned();
            }
        }
        (1..).map(|n| format!("{}{n}", names[first])).find(|name| self.names.take(name)).unwrap_or_default()
    }

    /// A parameter under one of these names: an array of these extents.
    pub(in crate::generate) fn array_like(
        &mut self,
        names: &[&str],
        elem: Type,
        shape: &[ProgramExtent],
        low: f64,
        high: f64,
    ) -> String {
        let name = self.like(names);
        self.param(&name, elem, shape.to_vec(), InputValues::Between { low, high });
        name
    }

    /// An array that the kernel writes, zeros to begin with.
    pub(in crate::generate) fn zeros_like(&mut self, names: &[&str], elem: Type, shape: &[ProgramExtent]) -> String {
        let name = self.like(names);
        self.param(&name, elem, shape.to_vec(), InputValues::Zeros);
        name
    }

    /// A parameter.
    pub(in crate::generate) fn param(
        &mut self,
        name: &str,
        elem: Type,
        shape: Vec<ProgramExtent>,
        values: InputValues,
    ) {
        let annotation = self.annotation(&self.type_name(elem), shape.len());
        let dtype = name_of(elem);
        let inputs = vec![ProgramInput { name: name.to_owned(), dtype, shape, values }];
        self.params.push(GeneratedParameter { text: format!("{name}: {annotation}"), inputs });
    }

    /// A parameter that is passed as several.
    pub(in crate::generate) fn param_of(&mut self, name: &str, annotation: &str, inputs: Vec<ProgramInput>) {
        self.params.push(GeneratedParameter { text: format!("{name}: {annotation}"), inputs });
    }

    /// The annotation of something with so many axes.
    pub(in crate::generate) fn annotation(&self, dtype: &str, rank: usize) -> String {
        let package = self.package;
        match rank {
            0 => dtype.to_owned(),
            1 => format!("{package}.array(dtype={dtype})"),
            rank => format!("{package}.array{rank}d(dtype={dtype})"),
        }
    }

    /// An array that threads read, an element each: the element is the variable.
    pub(in crate::generate) fn elements(&mut self, elem: Type, low: f64, high: f64) -> usize {
        let name = self.names.draw(&mut self.random, NameRole::Array(elem));
        let stored = self.stored_as(elem, low, high);
        // Quaternions are rotations.
        let (low, high, values) = match elem.as_composite() {
            Some(Composite::Quaternion { .. }) => (-1.0, 1.0, InputValues::Unit),
            _ => (low, high, InputValues::Between { low, high }),
        };
        self.param(&name, stored, self.dim.clone(), values);
        let mut text = format!("{name}[{}]", self.indices.join(", "));
        if stored != elem {
            text = format!("{}({text})", self.cast_name(elem));
        }
        self.declare(text, format!("`{name}`"), elem, NumberRange::new(low, high))
    }

    /// The type of an array whose elements are computed with as another.
    pub(in crate::generate) fn stored_as(&mut self, elem: Type, low: f64, high: f64) -> Type {
        if !self.random.one_in(12) {
            return elem;
        }
        let small: &[Scalar] = match elem {
            Type::F32 | Type::F64 if low.abs().max(high.abs()) < 1e3 => &[Scalar::F16, Scalar::F64, Scalar::F32],
            Type::I32 if low >= 0.0 && high <= 100.0 => {
                &[Scalar::U8, Scalar::I8, Scalar::I16, Scalar::U16, Scalar::I64, Scalar::U32]
            }
            Type::I32 if low.abs().max(high.abs()) <= 100.0 => &[Scalar::I8, Scalar::I16, Scalar::I64],
            Type::I32 => &[Scalar::I64],
            _ => return elem,
        };
        self.random.pick(small).into()
    }

    /// An array that threads write, an element each: the text of the element.
    pub(in crate::generate) fn output(&mut self, elem: Type) -> (String, String) {
        let name = self.names.draw(&mut self.random, NameRole::Output);
        self.param(&name, elem, self.dim.clone(), InputValues::Zeros);
        (format!("{name}[{}]", self.indices.join(", ")), name)
    }

    /// Begins a kernel of one thread for each element of arrays of this rank.
    pub(in crate::generate) fn threads(&mut self, rank: usize) {
        let names: &[&str] = match rank {
            1 => self.random.pick(&[&["i"], &["i"], &["tid"], &["idx"], &["n"], &["k"]]),
            2 => self.random.pick(&[&["i", "j"], &["i", "j"], &["row", "col"], &["y", "x"]]),
            _ => self.random.pick(&[&["i", "j", "k"], &["z", "y", "x"]]),
        };
        self.dim = (0..rank).map(|axis| ProgramExtent::Free(axis as u8)).collect();
        for name in names {
            self.names.take(name);
        }
        self.indices = names.iter().map(|&name| name.to_owned()).collect();
        self.line(&format!("{} = {}()", names.join(", "), self.builtin("tid")));
    }

    /// Begins a kernel of one thread for each index along these extents.
    pub(in crate::generate) fn threads_over(&mut self, extents: &[ProgramExtent], names: &[&str]) {
        self.dim = extents.to_vec();
        self.indices = names.iter().map(|name| self.like(&[name])).collect();
        let indices = self.indices.join(", ");
        self.line(&format!("{indices} = {}()", self.builtin("tid")));
    }
}
