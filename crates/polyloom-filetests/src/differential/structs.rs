//! Structs in random kernels.
//!
//! The leaves of a struct variable, its fields and the fields of those that are structs, are variables with a point in
//! their names to the rest of the generator: it reads and assigns them as any other.

use super::generate::{ProgramGenerator, ProgramVariable};
use super::program::{ArrayParam, ArrayUse};
use polyloom_ir::{Scalar, Type};
use std::fmt::Write as _;

enum StructMember {
    Value(Type),
    Struct(usize),
}

/// The structs of a program and what is there of them.
#[derive(Default)]
pub(super) struct ProgramStructs {
    /// Their fields, `f0`, `f1`, …; the structs are called `S0`, `S1`, ….
    definitions: Vec<Vec<StructMember>>,
    /// Kernel parameters `e0`, `e1`, … that are arrays of structs.
    arrays: Vec<StructArray>,
    /// Variables in scope, with their structs.
    variables: Vec<(String, usize)>,
    /// Functions that take a struct and give one like it.
    functions: Vec<(String, usize)>,
}

struct StructArray {
    definition: usize,
    ndim: usize,
    access: ArrayUse,
}

impl ProgramStructs {
    /// The leaves of a struct: their paths, each with a point before it, and types.
    fn leaves(&self, definition: usize) -> Vec<(String, Type)> {
        let mut leaves = Vec::new();
        for (index, field) in self.definitions[definition].iter().enumerate() {
            match *field {
                StructMember::Value(ty) => leaves.push((format!(".f{index}"), ty)),
                StructMember::Struct(inner) => {
                    leaves.extend(self.leaves(inner).into_iter().map(|(path, ty)| (format!(".f{index}{path}"), ty)));
                }
            }
        }
        leaves
    }

    /// Returns the number of struct variables that are in scope, for [`ProgramStructs::leave_scope`].
    pub(super) fn n_in_scope(&self) -> usize {
        self.variables.len()
    }

    /// Makes the program have no structs until [`ProgramStructs::show`].
    pub(super) fn hide(&mut self) -> ProgramStructs {
        std::mem::take(self)
    }

    /// Undoes [`ProgramStructs::hide`].
    pub(super) fn show(&mut self, hidden: ProgramStructs) {
        *self = hidden;
    }

    /// Forgets the variables after the first `n`.
    pub(super) fn leave_scope(&mut self, n: usize) {
        self.variables.truncate(n);
    }

    /// One parameter for each leaf of each array of structs, in order.
    pub(super) fn array_params(&self) -> Vec<ArrayParam> {
        let of = |array: &StructArray| {
            let (ndim, access) = (array.ndim, array.access);
            let leaves = self.leaves(array.definition).into_iter().enumerate();
            leaves.map(move |(index, (_, elem))| ArrayParam { elem, ndim, access, same_shape: index > 0 })
        };
        self.arrays.iter().flat_map(of).collect()
    }
}

impl ProgramGenerator {
    /// Structs that this program has; mostly none.
    pub(super) fn draw_structs(&mut self) {
        if self.random.chance(75) {
            return;
        }
        for definition in 0..1 + self.random.below(2) {
            let n_fields = 1 + self.random.below(3);
            let field = |this: &mut ProgramGenerator| match definition {
                0 => StructMember::Value(this.value_type()),
                _ if this.random.chance(60) => StructMember::Value(this.value_type()),
                _ => StructMember::Struct(this.random.below(definition)),
            };
            let fields = (0..n_fields).map(|_| field(self)).collect();
            self.structs.definitions.push(fields);
        }
    }

    /// The text of the definitions.
    pub(super) fn struct_definitions(&mut self) -> String {
        let mut text = String::new();
        for (index, fields) in std::mem::take(&mut self.structs.definitions).into_iter().enumerate() {
            let _ = write!(text, "\n@loom.struct\nclass S{index}:\n");
            for (n, field) in fields.into_iter().enumerate() {
                let name = match field {
                    StructMember::Value(ty) => self.type_name(ty),
                    StructMember::Struct(inner) => format!("S{inner}"),
                };
                let _ = writeln!(text, "    f{n}: {name}");
            }
        }
        text
    }

    fn any_struct(&mut self) -> Option<usize> {
        let n = self.structs.definitions.len();
        if n == 0 { None } else { Some(self.random.below(n)) }
    }

    /// A function that changes some fields of its argument and returns it.
    pub(super) fn struct_function(&mut self) {
        let Some(definition) = self.any_struct() else { return };
        let name = self.name("g");
        self.begin_function(&format!("def {name}(s: S{definition}) -> S{definition}:"));
        self.declare_struct("s".to_owned(), definition, true);
        self.function_body();
        self.line("return s");
        self.end_function();
        self.structs.functions.push((name, definition));
    }

    /// Declares parameters of kernels. Gives their text and the scalars they consist of.
    pub(super) fn struct_params(&mut self, rank: usize) -> (Vec<String>, Vec<Scalar>) {
        let (mut params, mut scalars) = (Vec::new(), Vec::new());
        for access in [ArrayUse::Read, ArrayUse::Own] {
            let Some(definition) = self.any_struct() else { return (params, scalars) };
            let ndim = if access == ArrayUse::Own { rank } else { 1 + self.random.below(2) };
            let leaf_rank = |ty: Type| ty.as_composite().map_or(0, |composite| composite.shape().len());
            if self.structs.leaves(definition).iter().all(|&(_, ty)| ndim + leaf_rank(ty) <= 4) {
                params.push(format!("e{}: loom.array(dtype=S{definition}, ndim={ndim})", self.structs.arrays.len()));
                self.structs.arrays.push(StructArray { definition, ndim, access });
            }
        }
        if let Some(definition) = self.any_struct().filter(|_| self.random.chance(50)) {
            params.insert(0, format!("s: S{definition}"));
            for (_, ty) in self.structs.leaves(definition) {
                match ty {
                    Type::Composite(composite) => {
                        scalars.extend(std::iter::repeat_n(composite.elem(), composite.n_components()));
                    }
                    _ => scalars.extend(ty.as_scalar()),
                }
            }
            self.declare_struct("s".to_owned(), definition, false);
        }
        (params, scalars)
    }

    fn declare_struct(&mut self, name: String, definition: usize, assignable: bool) {
        for (path, ty) in self.structs.leaves(definition) {
            self.scope.push(ProgramVariable { name: format!("{name}{path}"), ty, assignable });
        }
        if assignable {
            self.structs.variables.push((name, definition));
        }
    }

    /// An expression of a struct's type.
    fn struct_value(&mut self, definition: usize, depth: usize) -> String {
        let variables: Vec<String> =
            self.structs.variables.iter().filter(|(_, d)| *d == definition).map(|(name, _)| name.clone()).collect();
        let arrays: Vec<usize> =
            (0..self.structs.arrays.len()).filter(|&a| self.structs.arrays[a].definition == definition).collect();
        let functions: Vec<String> =
            self.structs.functions.iter().filter(|(_, d)| *d == definition).map(|(name, _)| name.clone()).collect();
        match self.random.below(7) {
            0 | 1 if !variables.is_empty() => self.random.pick(&variables).clone(),
            2 if self.in_kernel && !arrays.is_empty() => {
                let array = *self.random.pick(&arrays);
                self.struct_element(array)
            }
            3 if depth > 0 && !functions.is_empty() => {
                let function = self.random.pick(&functions).clone();
                format!("{function}({})", self.struct_value(definition, depth - 1))
            }
            4 if depth > 0 => {
                let cond = self.expr(Scalar::Bool, 1);
                let (a, b) = (self.struct_value(definition, depth - 1), self.struct_value(definition, depth - 1));
                format!("({a} if {cond} else {b})")
            }
            5 => format!("S{definition}()"),
            _ => self.construct_struct(definition, depth),
        }
    }

    fn construct_struct(&mut self, definition: usize, depth: usize) -> String {
        let mut values = Vec::new();
        for index in 0..self.structs.definitions[definition].len() {
            let value = match self.structs.definitions[definition][index] {
                StructMember::Value(ty) => self.pinned_of(ty, depth.min(1)),
                StructMember::Struct(inner) => self.struct_value(inner, depth.saturating_sub(1)),
            };
            values.push(if index > 0 { format!("f{index}={value}") } else { value });
        }
        format!("S{definition}({})", values.join(", "))
    }

    /// `e0[…]`: an element of an array of structs that this thread may read.
    fn struct_element(&mut self, array: usize) -> String {
        let StructArray { ndim, access, .. } = self.structs.arrays[array];
        let name = format!("e{array}");
        let index = if access == ArrayUse::Own { self.own_index(&name, ndim) } else { self.index_of(&name, ndim) };
        format!("{name}[{index}]")
    }

    /// A leaf of an element, of this type.
    pub(super) fn struct_leaf(&mut self, wanted: Type) -> Option<String> {
        let mut fits = Vec::new();
        for (array, StructArray { definition, .. }) in self.structs.arrays.iter().enumerate() {
            let leaves = self.structs.leaves(*definition).into_iter().filter(|(_, ty)| *ty == wanted);
            fits.extend(leaves.map(|(path, _)| (array, path)));
        }
        if fits.is_empty() || !self.in_kernel {
            return None;
        }
        let (array, path) = self.random.pick(&fits).clone();
        Some(format!("{}{path}", self.struct_element(array)))
    }

    /// A statement about structs. False if none came to mind.
    pub(super) fn struct_statement(&mut self) -> bool {
        let Some(definition) = self.any_struct() else { return false };
        let own = self.structs.arrays.iter().position(|array| array.access == ArrayUse::Own);
        match self.random.below(4) {
            0 if self.in_kernel && own.is_some() => self.store_own_structs(),
            1 if !self.structs.variables.is_empty() => {
                let (name, definition) = self.random.pick(&self.structs.variables).clone();
                let value = self.struct_value(definition, 2);
                self.line(&format!("{name} = {value}"));
            }
            _ => {
                let value = self.struct_value(definition, 2);
                let name = self.name("s");
                self.line(&format!("{name} = {value}"));
                self.declare_struct(name, definition, true);
            }
        }
        true
    }

    /// Stores to the thread's own element of each array of structs, or to a part of it.
    pub(super) fn store_own_structs(&mut self) {
        for array in 0..self.structs.arrays.len() {
            let StructArray { definition, access, .. } = self.structs.arrays[array];
            if access != ArrayUse::Own {
                continue;
            }
            let element = self.struct_element(array);
            if self.random.chance(40) {
                let value = self.struct_value(definition, 2);
                self.line(&format!("{element} = {value}"));
                continue;
            }
            let leaves = self.structs.leaves(definition);
            let (path, ty) = self.random.pick(&leaves).clone();
            match ty {
                Type::Composite(composite) => self.assign_composite(&format!("{element}{path}"), composite),
                _ => {
                    let operator = if ty != Type::BOOL && self.random.chance(25) { "+=" } else { "=" };
                    let value = self.pinned_of(ty, 2);
                    self.line(&format!("{element}{path} {operator} {value}"));
                }
            }
        }
    }
}
