//! Arrays: parameters of the kernel, parts of them, and arrays of a thread's own.

use super::generate::{COORDINATES, ProgramGenerator, ProgramVariable};
use super::program::{ArrayParam, ArrayUse, NamedPart};
use polyloom_ir::op::{OpGroup, TyPattern};
use polyloom_ir::{Composite, Op, Scalar, Type};

impl ProgramGenerator {
    /// Returns true if a parameter is a one-dimensional array with such elements that nobody stores to.
    pub(super) fn is_row_of(&self, array: usize, elem: Type) -> bool {
        let array = &self.arrays[array];
        array.access == ArrayUse::Read && array.ndim == 1 && array.elem == elem
    }

    /// `b, v, c = a0, x, a1`: names of arrays among variables.
    pub(super) fn unpack_arrays(&mut self) {
        let (mut targets, mut values) = (Vec::new(), Vec::new());
        let (mut aliases, mut variables) = (Vec::new(), Vec::new());
        for _ in 0..2 + self.random.below(3) {
            if self.random.chance(50) {
                let array = self.random.below(self.arrays.len());
                values.push(self.array(array));
                let alias = self.name("b");
                targets.push(alias.clone());
                aliases.push((alias, array));
            } else {
                let ty = self.value_type();
                values.push(self.pinned_of(ty, 2));
                let name = self.name("v");
                targets.push(name.clone());
                variables.push(ProgramVariable::new(name, ty));
            }
        }
        self.line(&format!("{} = {}", targets.join(", "), values.join(", ")));
        self.aliases.extend(aliases);
        self.scope.extend(variables);
    }

    /// One of the names of an array.
    pub(super) fn array(&mut self, array: usize) -> String {
        let names: Vec<&String> = self.aliases.iter().filter(|(_, a)| *a == array).map(|(name, _)| name).collect();
        if names.is_empty() || self.random.chance(50) {
            return format!("a{array}");
        }
        (*self.random.pick(&names)).clone()
    }

    pub(super) fn store_own(&mut self, array: usize) {
        let name = self.array_name(array);
        let ArrayParam { elem, ndim, .. } = self.arrays[array];
        let index = self.own_index(&name, ndim);
        // The element is the thread's own, so that the order of float additions is fixed.
        if self.random.chance(25) && self.own_atomic(&name, elem, &index) {
            return;
        }
        let value = self.pinned_of(elem, 3);
        let operator = if elem != Type::BOOL && self.random.chance(25) { "+=" } else { "=" };
        let array = self.array(array);
        self.line(&format!("{array}[{index}] {operator} {value}"));
    }

    /// A loop that reads and overwrites rows of the thread's own. False if there is no array of such.
    pub(super) fn rows(&mut self, depth: usize) -> bool {
        let is_row = |a: &ArrayParam| a.access == ArrayUse::Own && a.ndim > self.rank && a.elem == Scalar::F64.into();
        let arrays: Vec<usize> = (0..self.arrays.len()).filter(|&a| is_row(&self.arrays[a])).collect();
        if arrays.is_empty() || !self.in_kernel {
            return false;
        }
        let (counter, inner) = (self.name("n"), self.name("n"));
        let n = 1 + self.random.below(12);
        self.line(&format!("for {counter} in range({n}):"));
        self.loops += 1;
        self.indent += 1;
        self.scope.push(ProgramVariable::fixed(counter, Scalar::I32));
        for _ in 0..1 + self.random.below(2) {
            let [to, from, other] = [(); 3].map(|()| *self.random.pick(&arrays));
            let in_inner = self.random.chance(60);
            if in_inner {
                let extent = format!("a{}.shape[{}]", self.random.pick(&arrays), self.rank);
                self.line(&format!("for {inner} in range({extent}):"));
                self.indent += 1;
                self.scope.push(ProgramVariable::fixed(inner.clone(), Scalar::I32));
            }
            let [to, from, other] = [to, from, other].map(|a| {
                let (name, ndim) = (self.array_name(a), self.arrays[a].ndim);
                format!("{name}[{}]", self.own_index(&name, ndim))
            });
            // Nothing that grows from iteration to iteration, since what then shrinks again, differences do not see.
            let value = match self.random.below(3) {
                0 => format!("0.5 * loom.sin({from}) * loom.cos({other}) + 0.3"),
                1 => format!("0.9 * {from} + 0.1 * {other}"),
                _ => format!("loom.cos({from}) + {}", self.pinned(Scalar::F64, 1)),
            };
            self.line(&format!("{to} = {value}"));
            if in_inner {
                self.indent -= 1;
                self.scope.pop();
            }
        }
        self.indent -= 1;
        if self.random.chance(40) {
            self.nested(depth);
        }
        self.scope.pop();
        self.loops -= 1;
        true
    }

    fn array_name(&self, array: usize) -> String {
        format!("a{array}")
    }

    /// An atomic on an element that no other thread touches. False if there is none for the type.
    fn own_atomic(&mut self, array: &str, elem: Type, index: &str) -> bool {
        let atomics = self.atomics_of(elem);
        if atomics.is_empty() {
            return false;
        }
        let op = *self.random.pick(&atomics);
        let value = self.pinned_of(elem, 2);
        let operands = match (op, elem) {
            // A literal, since which NaN a NaN is, engines need not agree on.
            (Op::AtomicCas, Type::Scalar(scalar)) => {
                format!("loom.{}({}), {value}", scalar.python_name(), self.literal(scalar))
            }
            _ => value,
        };
        let old = self.name("v");
        self.line(&format!("{old} = loom.{}({array}, {index}, {operands})", op.name()));
        self.scope.push(ProgramVariable::new(old, elem));
        true
    }

    /// An atomic on an element that other threads touch too; nobody looks at its old value.
    pub(super) fn atomic(&mut self) {
        let shared = self.arrays.iter().position(|a| a.access == ArrayUse::Shared);
        let Some(array) = shared else { return self.declare() };
        let elem = self.arrays[array].elem;
        let index = self.index(array);
        // One kind per array, because the order would show otherwise.
        let mut kinds = self.atomics_of(elem);
        kinds.retain(|op| !matches!(op, Op::AtomicCas | Op::AtomicExch));
        let op = kinds[(self.palette.len() + self.rank) % kinds.len()];
        let value = self.pinned_of(elem, 2);
        let array = self.array(array);
        self.line(&format!("loom.{}({array}, {index}, {value})", op.name()));
    }

    /// The atomics on elements of this type: those with a derivative, where that is asked for.
    fn atomics_of(&self, elem: Type) -> Vec<Op> {
        let mut atomics = atomics_of(elem);
        if self.smooth {
            atomics.retain(|op| matches!(op, Op::AtomicAdd | Op::AtomicSub | Op::AtomicMin | Op::AtomicMax));
        }
        atomics
    }

    /// `b = a0[i]`, `b = loom.zeros(shape=(3,), dtype=float)`.
    pub(super) fn declare_part(&mut self) {
        let with_parts = |a: &usize| self.arrays[*a].ndim > 1 && self.arrays[*a].access != ArrayUse::Shared;
        let arrays: Vec<usize> = (0..self.arrays.len()).filter(|a| self.in_kernel && with_parts(a)).collect();
        let name = self.name("b");
        if arrays.is_empty() || self.random.chance(40) {
            let elem = self.value_type();
            let shapes: [&[usize]; 6] = [&[1], &[3], &[5], &[2, 2], &[2, 3], &[2, 1, 2]];
            let shape = *self.random.pick(&shapes);
            let n_components = elem.as_composite().map_or(1, Composite::n_components);
            let shape = if n_components > 9 { &[2] } else { shape };
            let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
            let made = self.type_name(elem);
            let shape_text = match &extents[..] {
                [one] if self.random.chance(50) => one.clone(),
                [one] => format!("({one},)"),
                _ => format!("({})", extents.join(", ")),
            };
            self.line(&format!("{name} = loom.zeros(shape={shape_text}, dtype={made})"));
            let ndim = shape.len();
            self.parts.push(NamedPart { name, elem, ndim, n_chosen: None, is_writable: true, is_local: true });
            return;
        }
        let array = *self.random.pick(&arrays);
        let ArrayParam { elem, ndim, access, .. } = self.arrays[array].clone();
        let n = 1 + self.random.below(ndim - 1);
        let is_own = access == ArrayUse::Own;
        let n = if is_own { n.min(self.rank) } else { n };
        let index = if is_own { COORDINATES[..n].join(", ") } else { self.index_of(&format!("a{array}"), n) };
        let index =
            if n > 1 && self.random.chance(30) && !index.contains('(') { index.replace(", ", "][") } else { index };
        let of = self.array(array);
        self.line(&format!("{name} = {of}[{index}]"));
        let n_chosen = is_own.then_some(n);
        self.parts.push(NamedPart { name, elem, ndim: ndim - n, n_chosen, is_writable: is_own, is_local: false });
    }

    /// Stores to a part of an array. False if there is none to store to.
    pub(super) fn store_part(&mut self) {
        let parts: Vec<NamedPart> = self.parts.iter().filter(|part| part.is_writable).cloned().collect();
        if parts.is_empty() {
            return self.declare_part();
        }
        let part = self.random.pick(&parts).clone();
        let index = self.part_index(&part);
        if !part.is_local && self.random.chance(30) && self.own_atomic(&part.name, part.elem, &index) {
            return;
        }
        // Components of what a local array holds are assigned with the whole element.
        if let Type::Composite(composite) = part.elem
            && !part.is_local
            && self.random.chance(50)
        {
            return self.assign_composite(&format!("{}[{index}]", part.name), composite);
        }
        let operator = if part.elem != Type::BOOL && self.random.chance(25) { "+=" } else { "=" };
        let value = self.pinned_of(part.elem, 2);
        self.line(&format!("{}[{index}] {operator} {value}", part.name));
    }

    /// An index of an element of a part that this thread may read.
    fn part_index(&mut self, part: &NamedPart) -> String {
        match part.n_chosen {
            Some(n) => self.own_index_from(&part.name, n, part.ndim),
            None if part.is_local && self.random.chance(8) => {
                let mut index: Vec<String> = (0..part.ndim).filter_map(|_| self.stray()).collect();
                index.resize(part.ndim, "0".to_owned());
                index.join(", ")
            }
            None => self.index_of(&part.name, part.ndim),
        }
    }

    /// An element of a part of an array.
    fn load_part(&mut self, ty: Type) -> Option<String> {
        let parts: Vec<NamedPart> = self.parts.iter().filter(|part| part.elem == ty).cloned().collect();
        if parts.is_empty() {
            return None;
        }
        let part = self.random.pick(&parts).clone();
        let index = self.part_index(&part);
        Some(format!("{}[{index}]", part.name))
    }

    pub(super) fn load(&mut self, ty: Type) -> Option<String> {
        if self.random.chance(40)
            && let Some(element) = self.load_part(ty)
        {
            return Some(element);
        }
        if !self.in_kernel {
            return None;
        }
        if self.random.chance(30)
            && let Some(leaf) = self.struct_leaf(ty)
        {
            return Some(leaf);
        }
        let fits: Vec<usize> = (0..self.arrays.len())
            .filter(|&a| self.arrays[a].elem == ty && self.arrays[a].access != ArrayUse::Shared)
            .collect();
        if fits.is_empty() {
            return None;
        }
        let array = *self.random.pick(&fits);
        let index = match self.arrays[array].access {
            ArrayUse::Own => self.own_index(&format!("a{array}"), self.arrays[array].ndim),
            _ => self.index(array),
        };
        let array = self.array(array);
        Some(format!("{array}[{index}]"))
    }
}

/// The atomics on elements of this type.
fn atomics_of(elem: Type) -> Vec<Op> {
    let takes = |op: Op| {
        op.info().signatures.iter().any(|signature| {
            let (pattern, scalar) = match elem {
                Type::Composite(composite) => (TyPattern::ArrayOfComposite, Some(composite.elem())),
                _ => (TyPattern::ArrayOfVar, elem.as_scalar()),
            };
            let of_class = scalar.is_some_and(|scalar| signature.var.is_some_and(|class| class.contains(scalar)));
            of_class && signature.params.iter().any(|param| param.ty == pattern)
        })
    };
    Op::all()
        .filter(|info| info.group == OpGroup::Atomic && !info.needs_blocks() && takes(info.op))
        .map(|info| info.op)
        .collect()
}
