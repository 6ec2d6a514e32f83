//! Kernels of one thread for each element.

use super::expr::Expr;
use super::generator::Generator;
use super::program::Category;
use super::range::Range;
use polyloom::{Composite, MAX_DIMS, Random, Scalar, Type};

const VEC2: Composite = Composite::Vector { elem: Scalar::F32, len: 2 };
const VEC3: Composite = Composite::Vector { elem: Scalar::F32, len: 3 };
const VEC4: Composite = Composite::Vector { elem: Scalar::F32, len: 4 };
const MAT22: Composite = Composite::Matrix { elem: Scalar::F32, rows: 2, cols: 2 };
const MAT33: Composite = Composite::Matrix { elem: Scalar::F32, rows: 3, cols: 3 };
const QUAT: Composite = Composite::Quaternion { elem: Scalar::F32 };

/// A kernel in the making, of the category's types.
pub(super) fn begin(mut random: Random, category: Category) -> Generator {
    let composites: &[Composite] = match category {
        Category::Vector => random.pick(&[&[VEC2], &[VEC3], &[VEC3], &[VEC4], &[VEC2, VEC3]]),
        Category::Matrix => {
            random.pick(&[&[VEC2, MAT22], &[VEC3, MAT33], &[VEC3, MAT33], &[VEC3, QUAT], &[VEC3, MAT33, QUAT]])
        }
        _ => &[],
    };
    let scalars: &[Scalar] = match category {
        Category::Arithmetic => random.pick(&[&[Scalar::F32], &[Scalar::I32], &[Scalar::F32, Scalar::I32]]),
        Category::ControlFlow | Category::Loop => random.pick(&[&[Scalar::F32], &[Scalar::F32, Scalar::I32]]),
        _ => &[Scalar::F32],
    };
    let composites = composites.to_vec();
    let scalars = scalars.to_vec();
    Generator::new(random, composites, scalars)
}

impl Generator {
    /// Parameters: arrays with an element for each thread, and numbers.
    pub(super) fn parameters(&mut self, difficulty: u8) {
        let n_axes = self.composites.iter().map(|composite| composite.shape().len()).max().unwrap_or(0);
        let rank = self.random.pick(&[1, 1, 1, 1, 2, 2, 3]).min(MAX_DIMS - n_axes);
        self.threads(rank);
        let types: Vec<Type> = self.types();
        let n_arrays = 1 + self.random.below(2 + usize::from(difficulty) / 2);
        // Of each type one, so that what a category is about occurs.
        let mut elems: Vec<Type> = self.composites.iter().map(|&composite| composite.into()).collect();
        if elems.is_empty() {
            elems.push(types[0]);
        }
        while elems.len() < n_arrays {
            elems.push(self.random.pick(&types));
        }
        for elem in elems {
            let (low, high) = self.limits(elem);
            self.elements(elem, low, high);
        }
        for _ in 0..self.random.below(2 + usize::from(difficulty) / 2) {
            let scalar = self.random.pick(&self.scalars.clone());
            let (low, high) = self.limits(scalar.into());
            self.scalar(scalar.into(), low, high);
        }
    }

    /// The types of values.
    pub(super) fn types(&self) -> Vec<Type> {
        let scalars = self.scalars.iter().map(|&scalar| Type::Scalar(scalar));
        scalars.chain(self.composites.iter().map(|&composite| composite.into())).collect()
    }

    fn limits(&mut self, ty: Type) -> (f64, f64) {
        match ty {
            Type::I32 => self.random.pick(&[(0.0, 9.0), (-5.0, 5.0), (1.0, 20.0), (0.0, 100.0)]),
            _ => self.random.pick(&[(-2.0, 2.0), (-2.0, 2.0), (0.0, 1.0), (0.1, 2.0), (-3.0, 3.0), (-1.0, 1.0)]),
        }
    }

    /// Straight-line statements.
    pub(super) fn statements(&mut self, count: usize, depth: usize) {
        for _ in 0..count {
            let types = self.types();
            let ty = self.random.pick(&types);
            let value = self.variable(ty, depth);
            self.assign_new(value);
        }
    }

    /// Writes outputs, the last of which takes in all that nothing has read.
    pub(super) fn outputs(&mut self, depth: usize) {
        let types = self.types();
        // What a category is about comes last in the list.
        let last = types[types.len() - 1];
        let mut outputs = vec![if self.random.one_in(3) { self.random.pick(&types) } else { last }];
        if self.random.one_in(4) {
            outputs.push(self.random.pick(&types));
        }
        let n = outputs.len();
        for (index, ty) in outputs.into_iter().enumerate() {
            let mut value = self.variable(ty, depth);
            if index + 1 == n {
                value = self.with_unused(value);
            }
            self.store(value);
        }
    }

    /// Writes a value to an element of an array of its own.
    pub(super) fn store(&mut self, value: Expr) {
        let (element, name) = self.output(value.ty);
        self.line(&format!("{element} = {}", value.text));
        self.say(format!("`{name}` is {}.", value.words));
    }

    /// The value, and all that has not been read.
    pub(super) fn with_unused(&mut self, mut value: Expr) -> Expr {
        loop {
            let unused = |index: &usize| self.variables[*index].visible && !self.variables[*index].used;
            let Some(index) = (0..self.variables.len()).find(unused) else { return value };
            let other = self.read(index);
            let other = self.converted(other, value.ty);
            let (a, b) = (self.short(value), self.short(other));
            let (a, b) = if self.random.one_in(2) { (a, b) } else { (b, a) };
            let (operator, range) = match (a.ty == b.ty, self.random.below(3)) {
                (true, 0) => ("-", a.range - b.range),
                (true, 1) if a.ty == Type::F32 && a.range.size() * b.range.size() < 1e4 => ("*", a.range * b.range),
                (true, _) => ("+", a.range + b.range),
                (false, _) => ("*", a.range * b.range),
            };
            let ty = if a.ty.as_composite().is_some() { a.ty } else { b.ty };
            value = Expr::binary(operator, &a, &b, ty, range);
        }
    }

    /// A value that can be added to, or multiplied with, what has this type.
    fn converted(&mut self, value: Expr, to: Type) -> Expr {
        let elem = |ty: Type| ty.as_composite().map_or(ty, |composite| composite.elem().into());
        if value.ty == to {
            return value;
        }
        let value = match value.ty.as_composite() {
            Some(Composite::Vector { len, .. }) if self.random.one_in(2) => {
                let range = Range::new(0.0, value.range.size() * f64::from(len).sqrt());
                Expr::call(&self.builtin("length"), &[&value], elem(value.ty), range)
            }
            Some(_) => self.component(&value),
            None => value,
        };
        let range = value.range;
        match (value.ty, elem(to)) {
            (Type::I32, Type::F32) => Expr::call("float", &[&value], Type::F32, range),
            (Type::F32, Type::I32) => {
                let value = self.constrain(value, super::domain::Need::Finite);
                let floor = Expr::call(&self.builtin("floor"), &[&value], Type::F32, value.range);
                let range = value.range.rising(f64::floor);
                Expr::call("int", &[&floor], Type::I32, range)
            }
            (Type::BOOL, wanted) => {
                let (one, none) = match wanted {
                    Type::I32 => (Expr::int(1), Expr::int(0)),
                    _ => (Expr::float(1.0), Expr::float(0.5)),
                };
                Expr::call(&self.builtin("where"), &[&value, &one, &none], wanted, Range::new(0.0, 1.0))
            }
            _ => value,
        }
    }
}
