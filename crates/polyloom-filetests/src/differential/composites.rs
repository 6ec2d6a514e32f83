//! Vectors, matrices, quaternions and transforms in random kernels.

use super::generate::{ProgramGenerator, ProgramVariable};
use super::program::{ArrayParam, ArrayUse};
use polyloom_ir::{Composite, CompositeKind, Scalar, Type};

impl ProgramGenerator {
    /// Composites that this program draws from; often none.
    pub(super) fn draw_composites(&mut self) {
        if self.random.chance(40) {
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let elem = match self.number() {
                _ if self.smooth => Scalar::F64,
                elem if elem.is_float() || self.random.chance(60) => elem,
                _ => Scalar::F32,
            };
            let extent = |this: &mut ProgramGenerator| 2 + this.random.below(3) as i128;
            let (kind, shape) = match self.random.below(9) {
                0 if elem.is_float() => (CompositeKind::Quaternion, vec![]),
                1 if elem.is_float() => (CompositeKind::Transform, vec![]),
                2 => (CompositeKind::Vector, vec![*self.random.pick(&[1, 5, 6, 7])]),
                3 => (CompositeKind::Matrix, vec![extent(self), extent(self)]),
                4..=5 => {
                    let n = extent(self);
                    (CompositeKind::Matrix, vec![n, n])
                }
                _ => (CompositeKind::Vector, vec![extent(self)]),
            };
            if let Ok(composite) = Composite::new(kind, elem, &shape) {
                self.composites.push(composite);
            }
        }
        self.composite_budget = 6 + self.random.below(14) as i32;
    }

    /// One of the program's composites, if it has any.
    pub(super) fn any_composite(&mut self) -> Option<Composite> {
        if self.composites.is_empty() { None } else { Some(*self.random.pick(&self.composites)) }
    }

    /// The name of a type in the program's text.
    pub(super) fn type_name(&mut self, ty: Type) -> String {
        let composite = match ty {
            Type::Composite(composite) => composite,
            Type::Scalar(scalar) => return format!("loom.{}", scalar.python_name()),
            other => unreachable!("programs have no variables of type {other}"),
        };
        let name = composite.python_name();
        let elem = composite.elem().python_name();
        // Generic code that names its own types has no name, because it depends on the call.
        let is_generic = self.stand_in == Some(composite.elem());
        let maker = match name.split_once('(') {
            Some((maker, _)) => maker,
            None if is_generic => composite.kind().python_name(),
            None => return format!("loom.{name}"),
        };
        let shape = composite.shape();
        let made = match composite {
            Composite::Vector { .. } => format!("loom.types.{maker}(length={}, dtype=loom.{elem})", shape[0]),
            Composite::Quaternion { .. } | Composite::Transform { .. } => {
                format!("loom.types.{maker}(dtype=loom.{elem})")
            }
            Composite::Matrix { .. } => {
                format!("loom.types.{maker}(shape=({}, {}), dtype=loom.{elem})", shape[0], shape[1])
            }
        };
        if is_generic {
            return made;
        }
        if let Some(index) = self.named_types.iter().position(|known| *known == made) {
            return format!("T{index}");
        }
        self.named_types.push(made);
        format!("T{}", self.named_types.len() - 1)
    }

    /// An expression of a composite type.
    pub(super) fn composite(&mut self, ty: Composite, depth: usize) -> String {
        if depth == 0 || self.composite_budget <= 0 || self.random.chance(20) {
            return self.composite_leaf(ty);
        }
        self.composite_budget -= 1;
        let d = depth - 1;
        match self.random.below(8) {
            0 => self.construct(ty, d),
            1 => {
                let cond = self.expr(Scalar::Bool, d);
                let (a, b) = (self.composite(ty, d), self.composite(ty, d));
                format!("({a} if {cond} else {b})")
            }
            2 => self.load(Type::Composite(ty)).unwrap_or_else(|| self.composite_leaf(ty)),
            3 => match self.function_with_result(Type::Composite(ty)) {
                Some(index) if self.random.chance(50) => self.call(index, d),
                _ => self.generic_call(Type::Composite(ty), d).unwrap_or_else(|| self.construct(ty, d)),
            },
            _ => self.builtin(Type::Composite(ty), d).unwrap_or_else(|| self.composite_leaf(ty)),
        }
    }

    fn composite_leaf(&mut self, ty: Composite) -> String {
        if self.random.chance(25)
            && let Some(slice) = self.slice(ty)
        {
            return slice;
        }
        match self.variable(Type::Composite(ty)) {
            Some(name) => name,
            None => self.construct(ty, 0),
        }
    }

    /// Several components of a variable: `v[1:3]`, `m[0]`, `m[:, -1]`, `m[0:2, 1:]`.
    fn slice(&mut self, wanted: Composite) -> Option<String> {
        let of_elem = |v: &&ProgramVariable| v.ty.as_composite().is_some_and(|c| c.elem() == wanted.elem());
        let variables: Vec<ProgramVariable> = self.scope.iter().filter(of_elem).cloned().collect();
        let mut slices = Vec::new();
        for variable in variables {
            let Some(shape) = variable.ty.as_composite().map(Composite::shape) else { continue };
            let ways: &[&str] = match (&shape[..], &wanted.shape()[..], wanted.kind()) {
                (&[of], &[len], CompositeKind::Vector) if of >= len => &["s"],
                (&[rows, cols], &[len], CompositeKind::Vector) if rows >= len && cols >= len => &["is", "si"],
                (&[_, cols], &[len], CompositeKind::Vector) if cols >= len => &["is"],
                (&[rows, _], &[len], CompositeKind::Vector) if rows >= len => &["si"],
                (&[rows, cols], &[n, m], CompositeKind::Matrix) if rows >= n && cols >= m => &["ss"],
                _ => continue,
            };
            slices.push((variable.name, shape, *self.random.pick(ways)));
        }
        if slices.is_empty() {
            return None;
        }
        let (name, of, way) = self.random.pick(&slices).clone();
        let mut lengths = wanted.shape().into_iter();
        let mut indices = Vec::new();
        for (kind, extent) in way.chars().zip(of) {
            indices.push(match kind {
                's' => self.span(extent, lengths.next()?),
                _ => self.component_index(extent),
            });
        }
        Some(format!("{name}[{}]", indices.join(", ")))
    }

    /// A slice of `len` places of an axis.
    fn span(&mut self, extent: u16, len: u16) -> String {
        let from = self.random.below(usize::from(extent - len) + 1) as u16;
        let to = from + len;
        match self.random.below(4) {
            0 if len == extent => ":".to_owned(),
            0 if len > 1 => match from {
                0 => format!("{}::-1", to - 1),
                _ => format!("{}:{}:-1", to - 1, from - 1),
            },
            1 if to == extent => format!("{from}:"),
            2 if from == 0 => format!(":{to}"),
            _ => format!("{from}:{to}"),
        }
    }

    fn construct(&mut self, ty: Composite, depth: usize) -> String {
        let name = self.type_name(Type::Composite(ty));
        let elem = ty.elem();
        let fills = matches!(ty, Composite::Vector { .. } | Composite::Matrix { .. });
        match self.random.below(8) {
            0 => format!("{name}()"),
            2..=3 => self.make(ty, depth),
            1 if fills => format!("{name}({})", self.pinned(elem, depth)),
            _ => {
                let of_components = |this: &mut ProgramGenerator| {
                    let shallow = if this.random.chance(80) { 0 } else { depth };
                    this.pinned(elem, shallow)
                };
                let components: Vec<String> = (0..ty.n_components()).map(|_| of_components(self)).collect();
                format!("{name}({})", components.join(", "))
            }
        }
    }

    /// A composite made by a function that is no type.
    fn make(&mut self, ty: Composite, depth: usize) -> String {
        let elem = ty.elem();
        let dtype = format!("dtype=loom.{}", elem.python_name());
        let components = |this: &mut ProgramGenerator| {
            (0..ty.n_components()).map(|_| this.pinned(elem, 0)).collect::<Vec<_>>().join(", ")
        };
        let of_vectors = |this: &mut ProgramGenerator, n: u16, len: u16| {
            let vector = Composite::Vector { elem, len };
            (0..n).map(|_| this.composite(vector, depth.min(1))).collect::<Vec<_>>().join(", ")
        };
        match ty {
            Composite::Vector { len, .. } => match self.random.below(3) {
                0 => format!("loom.vector({}, length={len}, {dtype})", self.pinned(elem, depth)),
                1 if len > 1 => {
                    let rest = Composite::Vector { elem, len: len - 1 };
                    let rest = self.composite(rest, depth.min(1));
                    format!("{}(*{rest}, {})", self.type_name(ty.into()), self.pinned(elem, depth))
                }
                _ if len > 1 => format!("loom.vector({})", components(self)),
                _ => format!("{}({})", self.type_name(ty.into()), self.pinned(elem, depth)),
            },
            Composite::Matrix { rows, cols, .. } => match self.random.below(4) {
                0 if rows == cols => format!("loom.identity(n={rows}, {dtype})"),
                1 => format!("loom.matrix_from_rows({})", of_vectors(self, rows.into(), cols.into())),
                2 => format!("loom.matrix_from_cols({})", of_vectors(self, cols.into(), rows.into())),
                _ => format!("loom.matrix({}, shape=({rows}, {cols}))", components(self)),
            },
            Composite::Quaternion { .. } => match self.random.below(2) {
                0 => format!("loom.quat_identity({dtype})"),
                _ => format!("loom.quaternion({})", components(self)),
            },
            Composite::Transform { .. } => match self.random.below(2) {
                0 => format!("loom.transform_identity({dtype})"),
                _ => {
                    let position = self.composite(Composite::Vector { elem, len: 3 }, depth.min(1));
                    let rotation = self.composite(Composite::Quaternion { elem }, depth.min(1));
                    format!("loom.transformation({position}, {rotation})")
                }
            },
        }
    }

    /// A component of a variable.
    pub(super) fn component(&mut self, elem: Scalar) -> Option<String> {
        let of_elem = |v: &&ProgramVariable| v.ty.as_composite().is_some_and(|composite| composite.elem() == elem);
        let fits: Vec<(String, Option<Composite>)> =
            self.scope.iter().filter(of_elem).map(|v| (v.name.clone(), v.ty.as_composite())).collect();
        if fits.is_empty() {
            return None;
        }
        let (name, composite) = self.random.pick(&fits).clone();
        let place = self.place(composite?);
        Some(format!("{name}{place}"))
    }

    /// Returns what selects a component: `[1]`, `[-1, 0]`, `.x`, an index computed at run time.
    fn place(&mut self, ty: Composite) -> String {
        let letters = ["x", "y", "z", "w"];
        if let Composite::Vector { len: len @ 1..=4, .. } = ty
            && self.random.chance(30)
        {
            return format!(".{}", self.random.pick(&letters[..len.into()]));
        }
        let indices: Vec<String> = ty.shape().iter().map(|&extent| self.component_index(extent)).collect();
        format!("[{}]", indices.join(", "))
    }

    fn component_index(&mut self, extent: u16) -> String {
        if self.checked
            && self.random.chance(8)
            && let Some(stray) = self.stray()
        {
            return stray;
        }
        match self.random.below(3) {
            0 => format!("loom.clamp({}, -{extent}, {extent} - 1)", self.pinned(Scalar::I32, 1)),
            _ => (self.random.below(2 * usize::from(extent)) as i32 - i32::from(extent)).to_string(),
        }
    }

    /// A statement about composites. False if none came to mind.
    pub(super) fn composite_statement(&mut self) -> bool {
        let Some(ty) = self.any_composite() else { return false };
        match self.random.below(6) {
            0 => return self.builtin_statement(),
            1..=2 => {
                let value = self.composite(ty, 3);
                let name = self.name("v");
                self.line(&format!("{name} = {value}"));
                self.scope.push(ProgramVariable { name, ty: Type::Composite(ty), assignable: true });
            }
            3 => return self.store_component(),
            _ => {
                let targets: Vec<ProgramVariable> =
                    self.scope.iter().filter(|v| v.assignable && v.ty.as_composite().is_some()).cloned().collect();
                if targets.is_empty() {
                    return false;
                }
                let ProgramVariable { name, ty, .. } = self.random.pick(&targets).clone();
                let Some(ty) = ty.as_composite() else { return false };
                self.assign_composite(&name, ty);
            }
        }
        true
    }

    /// Assigns a variable, or a part of it.
    pub(super) fn assign_composite(&mut self, name: &str, ty: Composite) {
        let elem = ty.elem();
        match self.random.below(6) {
            0..=1 => {
                let value = self.composite(ty, 3);
                self.line(&format!("{name} = {value}"));
            }
            2 if elem != Scalar::Bool => {
                let operator = *self.random.pick(&["+=", "-="]);
                let value = self.composite(ty, 2);
                self.line(&format!("{name} {operator} {value}"));
            }
            3 if matches!(ty, Composite::Vector { .. } | Composite::Matrix { .. }) => {
                let (place, part) = self.several(ty);
                let operator = if elem == Scalar::Bool { "=" } else { *self.random.pick(&["=", "=", "+="]) };
                let value = match self.random.below(5) {
                    0 if operator == "=" && place.contains(':') => self.pinned(elem, 1),
                    _ => self.composite(part, 2),
                };
                self.line(&format!("{name}[{place}] {operator} {value}"));
            }
            _ => {
                let place = self.place(ty);
                let operator = if elem != Scalar::Bool && self.random.chance(30) { "+=" } else { "=" };
                let value = self.pinned(elem, 2);
                self.line(&format!("{name}{place} {operator} {value}"));
            }
        }
    }

    /// Returns what selects several components, and what they are together: a row, a column, a slice.
    fn several(&mut self, ty: Composite) -> (String, Composite) {
        let elem = ty.elem();
        let length = |this: &mut ProgramGenerator, extent: u16| 1 + this.random.below(usize::from(extent)) as u16;
        match ty.shape()[..] {
            [rows, cols] => {
                let (n_rows, n_cols) = (length(self, rows), length(self, cols));
                match self.random.below(4) {
                    0 => (self.component_index(rows), Composite::Vector { elem, len: cols }),
                    1 => {
                        let index = format!("{}, {}", self.span(rows, n_rows), self.component_index(cols));
                        (index, Composite::Vector { elem, len: n_rows })
                    }
                    2 => {
                        let index = format!("{}, {}", self.component_index(rows), self.span(cols, n_cols));
                        (index, Composite::Vector { elem, len: n_cols })
                    }
                    _ => {
                        let index = format!("{}, {}", self.span(rows, n_rows), self.span(cols, n_cols));
                        (index, Composite::Matrix { elem, rows: n_rows as u8, cols: n_cols as u8 })
                    }
                }
            }
            _ => {
                let extent = ty.shape()[0];
                let len = length(self, extent);
                (self.span(extent, len), Composite::Vector { elem, len })
            }
        }
    }

    /// `a[i][1] = x`: a component of the thread's own element.
    fn store_component(&mut self) -> bool {
        let own = |&a: &usize| {
            let array = &self.arrays[a];
            self.in_kernel && array.access == ArrayUse::Own && array.elem.as_composite().is_some()
        };
        let arrays: Vec<usize> = (0..self.arrays.len()).filter(own).collect();
        if arrays.is_empty() {
            return false;
        }
        let array = *self.random.pick(&arrays);
        let ArrayParam { elem, ndim, .. } = self.arrays[array];
        let Some(ty) = elem.as_composite() else { return false };
        let (index, place) = (self.own_index(&format!("a{array}"), ndim), self.place(ty));
        let operator = if self.random.chance(30) { "+=" } else { "=" };
        let value = self.pinned(ty.elem(), 2);
        let name = self.array(array);
        self.line(&format!("{name}[{index}]{place} {operator} {value}"));
        true
    }
}
