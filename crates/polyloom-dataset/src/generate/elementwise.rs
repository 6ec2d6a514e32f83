//! Kernels of one thread for each element.

use super::expr::GeneratedExpr;
use super::generator::{KernelGenerator, name_of};
use super::program::{Category, DatasetProgram};
use super::sum_parts::SumParts;
use super::usage;
use crate::number_range::NumberRange;
use polyloom::{Composite, MAX_DIMS, Random, Scalar, Type};

/// A kernel of straight lines.
pub(super) fn draft(random: Random, category: Category, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, category);
    g.parameters(difficulty);
    let goal = g.goal(difficulty);
    g.fill(goal - 1, difficulty);
    if difficulty > 0 {
        g.gap();
    }
    g.outputs(1 + usize::from(difficulty > 0));
    g.finish(category)
}

/// A kernel in the making, of the category's types.
pub(super) fn begin(mut random: Random, category: Category) -> KernelGenerator {
    // Random numbers have 32 bits, and skeletons do not ask.
    let doubled = !matches!(category, Category::Random | Category::Composite) && random.one_in(10);
    let elem = if doubled { Scalar::F64 } else { Scalar::F32 };
    let vec = |len| Composite::Vector { elem, len };
    let mat = |n| Composite::Matrix { elem, rows: n, cols: n };
    let quat = Composite::Quaternion { elem };
    let transform = Composite::Transform { elem };
    let composites: Vec<Composite> = match (category, random.below(6)) {
        (Category::Vector, choice) => match choice {
            0 | 1 => vec![vec(3)],
            2 => vec![vec(2)],
            3 => vec![vec(4)],
            4 => vec![vec(2), vec(3)],
            _ => vec![vec(3), vec(4)],
        },
        // Rigid transformations, and what moves in space.
        (Category::Matrix, 5) => match random.below(4) {
            0 => vec![vec(3), quat, transform],
            1 => vec![vec(3), quat, mat(4), transform],
            2 => vec![vec(3), transform, vec(6)],
            _ => vec![vec(3), mat(3), vec(6), mat(6)],
        },
        (Category::Matrix, choice) => match choice {
            0 => vec![vec(2), mat(2)],
            1 | 2 => vec![vec(3), mat(3)],
            3 => vec![vec(3), quat],
            _ if random.one_in(2) => vec![vec(3), mat(3), quat],
            _ => vec![vec(4), mat(4)],
        },
        (Category::Math | Category::Arithmetic | Category::Atomic, _) => Vec::new(),
        (_, 0) => vec![vec(3)],
        (_, 1) => vec![vec(2)],
        _ => Vec::new(),
    };
    let whole = match random.below(20) {
        0 => Scalar::I64,
        1 => Scalar::U32,
        _ => Scalar::I32,
    };
    let scalars = match category {
        Category::Arithmetic => match random.below(3) {
            0 => vec![elem],
            1 => vec![whole],
            _ => vec![elem, whole],
        },
        Category::ControlFlow | Category::Loop | Category::Function | Category::Reduction | Category::Scan
            if random.one_in(2) =>
        {
            vec![elem, Scalar::I32]
        }
        // The places of components are unsigned.
        Category::Vector if random.one_in(8) => vec![elem, Scalar::U32],
        Category::Struct | Category::Random | Category::Atomic | Category::SharedMemory | Category::Warp
            if random.one_in(3) =>
        {
            vec![elem, Scalar::I32]
        }
        _ => vec![elem],
    };
    let mut g = KernelGenerator::new(random, composites, scalars);
    // A line says itself what it computes, so that only a skeleton's lines need words.
    g.comments &= category == Category::Composite;
    g
}

impl KernelGenerator {
    /// Parameters: arrays with an element for each thread, and numbers.
    pub(super) fn parameters(&mut self, difficulty: u8) {
        let n_axes = self.composites.iter().map(|composite| composite.shape().len()).max().unwrap_or(0);
        let rank = self.random.pick(&[1, 1, 1, 1, 2, 2, 3]).min(MAX_DIMS - n_axes);
        self.threads(rank);
        let types: Vec<Type> = self.types();
        let n_arrays = 1 + self.random.below(2 + usize::from(difficulty) / 2);
        // One of each type, so that the subject of a category occurs.
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

    pub(super) fn limits(&mut self, ty: Type) -> (f64, f64) {
        match ty {
            Type::Scalar(scalar) if scalar.is_unsigned_int() => {
                self.random.pick(&[(0.0, 9.0), (1.0, 20.0), (0.0, 100.0), (0.0, 1000.0)])
            }
            Type::Scalar(scalar) if scalar.is_int() => {
                self.random.pick(&[(0.0, 9.0), (-5.0, 5.0), (1.0, 20.0), (0.0, 100.0)])
            }
            _ => self.random.pick(&[(-2.0, 2.0), (-2.0, 2.0), (0.0, 1.0), (0.1, 2.0), (-3.0, 3.0), (-1.0, 1.0)]),
        }
    }

    /// Straight-line statements.
    pub(super) fn statements(&mut self, count: usize, depth: usize) {
        for _ in 0..count {
            let types = self.types();
            let ty = self.random.pick(&types);
            let value = self.computed(ty, depth);
            self.assign_new(value);
        }
    }

    /// A value that is more than a variable under another name.
    pub(super) fn computed(&mut self, ty: Type, depth: usize) -> GeneratedExpr {
        for _ in 0..4 {
            let value = self.variable(ty, depth);
            if !value.is_bare() {
                return value;
            }
        }
        let value = self.variable(ty, depth);
        self.more_than_bare(value)
    }

    /// The value, or something made of it if it is a variable and nothing else.
    pub(super) fn more_than_bare(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        if !value.is_bare() {
            return value;
        }
        let ty = value.ty;
        let elem = ty.as_composite().map_or(ty, |composite| composite.elem().into());
        let number = match elem {
            _ if elem == self.whole && ty == elem => {
                let number = self.random.pick(&[2, 3, 5, 7]);
                self.int(number)
            }
            Type::Scalar(scalar) if scalar.is_float() => {
                let number = self.random.pick(&[0.5, 2.0, 0.25, 1.5, 0.75, 3.0, 0.8, 1.25]);
                self.number_of(elem, number)
            }
            _ => return value,
        };
        // A number beside one that is there already could be in it.
        let SumParts { is_moved, is_scaled, .. } = value.parts;
        let is_moved = ty == elem && !is_moved && (is_scaled || self.random.one_in(3));
        let (operator, range) = match is_moved {
            true => (self.random.pick(&["+", "-"]), value.range + number.range.or(-number.range)),
            false => ("*", value.range * number.range),
        };
        match operator == "*" && self.random.one_in(2) {
            true => GeneratedExpr::binary(operator, &number, &value, ty, range),
            false => GeneratedExpr::binary(operator, &value, &number, ty, range),
        }
    }

    /// Writes outputs, the last of which takes in all that nothing has read.
    pub(super) fn outputs(&mut self, depth: usize) {
        let types = self.types();
        // The subject of a category comes last in the list.
        let last = types[types.len() - 1];
        let mut outputs = vec![if self.random.one_in(3) { self.random.pick(&types) } else { last }];
        if self.random.one_in(4) {
            outputs.push(self.random.pick(&types));
        }
        let n = outputs.len();
        for (index, ty) in outputs.into_iter().enumerate() {
            let mut value = self.computed(ty, depth);
            if index + 1 == n {
                value = self.with_unused(value);
            }
            self.store(value);
        }
    }

    /// Writes a value to an element of an array of its own.
    pub(super) fn store(&mut self, value: GeneratedExpr) {
        let NumberRange { low, high } = value.range;
        let stored = if value.range.size() < 1e4 { self.stored_as(value.ty, low, high) } else { value.ty };
        let value = self.kept_as(value, stored);
        let (element, name) = self.output(stored);
        if element == value.text {
            return;
        }
        self.outer = value.head;
        self.line(&format!("{element} = {}", value.text));
        self.say(format!("`{name}` is {}.", value.words));
    }

    /// The value as an array of this type keeps it.
    pub(super) fn kept_as(&self, value: GeneratedExpr, ty: Type) -> GeneratedExpr {
        if value.ty == ty {
            return value;
        }
        let mut kept = GeneratedExpr::call(&self.cast_name(ty), &[&value], ty, value.range);
        kept.words = format!("{}, stored as {}", value.words, in_words(ty));
        kept
    }

    /// The value, and all that has not been read.
    pub(super) fn with_unused(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        self.with_unused_from(value, 0)
    }

    /// The same of the variables from a number on.
    pub(super) fn with_unused_from(&mut self, mut value: GeneratedExpr, first: usize) -> GeneratedExpr {
        self.review();
        for &index in &value.uses {
            let variable = &self.variables[index];
            let is_whole =
                || usage::reads_whole(&[self.lines(), std::slice::from_ref(&value.text)].concat(), &variable.text);
            let is_used = variable.used || !variable.is_made_whole() || is_whole();
            self.variables[index].used = is_used;
        }
        loop {
            let unused = |index: &usize| {
                let variable = &self.variables[*index];
                variable.visible && !variable.used && !variable.is_free
            };
            let Some(index) = (first..self.variables.len()).find(unused) else { return value };
            let other = self.read(index);
            let other = self.converted(other, value.ty);
            let (a, b) = (self.short(value), self.short(other));
            let (a, b) = if self.random.one_in(2) { (a, b) } else { (b, a) };
            let cancels = |is_sum| a.parts.cancel(&b.parts, is_sum) || a.parts.doubles(&b.parts);
            let (operator, range) = match (a.ty == b.ty, self.random.below(3)) {
                (true, _) if cancels(true) && cancels(false) => match a.ty.as_composite() {
                    None if a.range.size() * b.range.size() < 1e4 => ("*", a.range * b.range),
                    _ => ("+", a.range + b.range),
                },
                (true, 0) if !cancels(false) && !b.text.starts_with('-') => ("-", a.range - b.range),
                (true, _) if cancels(true) => ("-", a.range - b.range),
                (true, 1) if a.ty == self.real && a.range.size() * b.range.size() < 1e4 => ("*", a.range * b.range),
                (true, _) => ("+", a.range + b.range),
                (false, _) => ("*", a.range * b.range),
            };
            let ty = if a.ty.as_composite().is_some() { a.ty } else { b.ty };
            value = GeneratedExpr::binary(operator, &a, &b, ty, range);
        }
    }

    /// The sum of two components of a composite.
    fn components(&mut self, whole: &GeneratedExpr) -> GeneratedExpr {
        let first = self.component(whole);
        loop {
            let second = self.component(whole);
            if second.text != first.text {
                return GeneratedExpr::binary("+", &first, &second, first.ty, first.range + second.range);
            }
        }
    }

    /// A value that can be added to, or multiplied with, what has this type.
    fn converted(&mut self, value: GeneratedExpr, to: Type) -> GeneratedExpr {
        let elem = |ty: Type| ty.as_composite().map_or(ty, |composite| composite.elem().into());
        if value.ty == to {
            return value;
        }
        let is_made = value.is_bare() && value.uses.iter().all(|&index| self.variables[index].is_made_whole());
        let value = match value.ty.as_composite() {
            Some(Composite::Vector { .. } | Composite::Quaternion { .. })
                if !value.is_of_one_length() && (is_made || self.random.one_in(2)) =>
            {
                let len = value.ty.as_composite().map_or(1, Composite::n_components) as u8;
                let range = NumberRange::new(0.0, value.range.size() * f64::from(len).sqrt());
                GeneratedExpr::call(&self.builtin("length"), &[&value], elem(value.ty), range)
            }
            Some(_) if is_made => self.components(&value),
            Some(_) => self.component(&value),
            None => value,
        };
        let range = value.range;
        let wanted = elem(to);
        if value.ty == wanted {
            return value;
        }
        match value.ty {
            Type::BOOL => {
                let (one, none) = match wanted == self.whole {
                    true => (self.int(1), self.int(0)),
                    false => (self.number_of(wanted, 1.0), self.number_of(wanted, 0.5)),
                };
                GeneratedExpr::call(&self.builtin("where"), &[&value, &one, &none], wanted, NumberRange::new(0.0, 1.0))
            }
            _ if wanted == self.whole && value.ty == self.real => self.as_whole(value),
            _ => {
                let NumberRange { low, high } = range;
                GeneratedExpr::call(&self.cast_name(wanted), &[&value], wanted, NumberRange::new(low, high))
            }
        }
    }
}

/// A type of numbers with its article.
fn in_words(ty: Type) -> String {
    let name = name_of(ty);
    let article = if name.starts_with('i') { "an" } else { "a" };
    format!("{article} {name}")
}
