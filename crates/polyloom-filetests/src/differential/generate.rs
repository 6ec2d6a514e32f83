//! Random well-typed kernels as Python source, over the whole language.
//!
//! The same seed gives the same text. Kernels are free of data races by construction, so that every engine must give
//! the same bits whatever the order of threads: a thread stores only to its own elements, loads only from arrays that
//! nobody stores to (or from its own elements), and touches shared elements by commutative integer atomics whose old
//! value it ignores. Indices are within the array, negative ones included, but for some of kernels with checks, and
//! loops are short.

use super::generics::GenericFunction;
use super::names::NameSource;
use super::program::{ArrayParam, ArrayUse, BlockNeeds, NamedPart, RandomProgram, UserFunction};
use super::random::SeededChoices;
use super::structs::ProgramStructs;
use polyloom_ir::op::{OpGroup, OpSpelling, Signature, TyPattern};
use polyloom_ir::{Composite, Op, Scalar, Type};
use std::fmt::Write as _;

/// The kernel of a seed.
pub fn generate(seed: u64) -> RandomProgram {
    ProgramGenerator::new(seed, false).program()
}

/// A kernel that mostly has derivatives: over `float64`, with threads that do not work together.
pub fn generate_smooth(seed: u64) -> RandomProgram {
    ProgramGenerator::new(seed, true).program()
}

#[derive(Clone)]
pub(super) struct ProgramVariable {
    pub(super) name: String,
    pub(super) ty: Type,
    /// Loop counters and guards are read, never assigned.
    pub(super) assignable: bool,
}

impl ProgramVariable {
    pub(super) fn new(name: String, ty: impl Into<Type>) -> ProgramVariable {
        ProgramVariable { name, ty: ty.into(), assignable: true }
    }

    pub(super) fn fixed(name: String, ty: impl Into<Type>) -> ProgramVariable {
        ProgramVariable { assignable: false, ..ProgramVariable::new(name, ty) }
    }
}

pub(super) struct ProgramGenerator {
    pub(super) random: SeededChoices,
    /// The number of threads that LLVM's code is to run at a time; half of the programs leave it the choice.
    vector_width: Option<u32>,
    /// Scalar types this program draws from: a few per program, so that values of one type meet.
    pub(super) palette: Vec<Scalar>,
    pub(super) math: Vec<Op>,
    /// Composites this program draws from.
    pub(super) composites: Vec<Composite>,
    /// Number of more expressions that may be of composites, since each is many of scalars.
    pub(super) composite_budget: i32,
    /// Says how types without a name are made; the text calls them `T0`, `T1`, ….
    pub(super) named_types: Vec<String>,
    pub(super) structs: ProgramStructs,
    pub(super) functions: Vec<UserFunction>,
    pub(super) generics: Vec<GenericFunction>,
    /// The type that stands for that of the parameters in the body of a generic function.
    pub(super) stand_in: Option<Scalar>,
    pub(super) arrays: Vec<ArrayParam>,
    /// Other names of arrays, each with the array.
    pub(super) aliases: Vec<(String, usize)>,
    /// Parts of arrays, and arrays of the thread's own, in scope.
    pub(super) parts: Vec<NamedPart>,
    pub(super) rank: usize,
    pub(super) scope: Vec<ProgramVariable>,
    pub(super) text: String,
    pub(super) indent: usize,
    names: NameSource,
    /// Loops around the current statement in this function.
    pub(super) loops: usize,
    pub(super) in_kernel: bool,
    /// True if the kernel is to be differentiated.
    pub(super) smooth: bool,
    /// True if the kernel is compiled with checks.
    pub(super) checked: bool,
    /// Holds what threads of a block share, if the kernel has them work together.
    pub(super) in_blocks: Option<BlockNeeds>,
    pub(super) budget: i32,
}

/// Names of the module that static expressions use.
const CONSTANTS: &str = "K0 = 3\nK1 = 0.5\n";

pub(super) const COORDINATES: [&str; 3] = ["i", "j", "k"];

impl ProgramGenerator {
    fn new(seed: u64, smooth: bool) -> ProgramGenerator {
        let mut random = SeededChoices::new(seed);
        let n_types = 2 + random.below(3);
        let palette: Vec<Scalar> = (0..n_types)
            .map(|_| if random.chance(40) { Scalar::F32 } else { *random.pick(&Scalar::ALL) })
            .chain([Scalar::I32])
            .collect();
        let palette =
            if smooth { vec![Scalar::F64, Scalar::F64, Scalar::F64, Scalar::F64, Scalar::I32] } else { palette };
        let unary_float = |op: &Op| {
            let info = op.info();
            let fits = |s: &Signature| s.results == [TyPattern::Var] && s.params.iter().all(|p| p.ty == TyPattern::Var);
            info.group == OpGroup::Math
                && info.spelling != OpSpelling::Internal
                && scalar_overloads(*op).next().is_some()
                && scalar_overloads(*op).all(fits)
        };
        let all: Vec<Op> = Op::all().map(|info| info.op).filter(unary_float).collect();
        // Swarm: each program uses a few of the functions, so that each gets its share of attention.
        let math = (0..4).map(|_| *random.pick(&all)).collect();
        let mut generator = ProgramGenerator {
            vector_width: Some(1 << (seed % 14) as u32).filter(|width| *width <= 64),
            random,
            palette,
            math,
            composites: Vec::new(),
            composite_budget: 0,
            named_types: Vec::new(),
            structs: ProgramStructs::default(),
            functions: Vec::new(),
            generics: Vec::new(),
            stand_in: None,
            arrays: Vec::new(),
            aliases: Vec::new(),
            parts: Vec::new(),
            rank: 1,
            scope: Vec::new(),
            text: String::new(),
            indent: 0,
            names: NameSource::new(seed),
            loops: 0,
            in_kernel: false,
            smooth,
            checked: false,
            in_blocks: None,
            budget: 0,
        };
        generator.draw_composites();
        generator.draw_structs();
        generator
    }

    fn program(&mut self) -> RandomProgram {
        self.checked = !self.smooth && self.random.chance(20);
        for _ in 0..self.random.below(3) {
            self.function();
            self.struct_function();
            self.generic();
        }
        let in_blocks = self.draw_block();
        self.rank = if in_blocks.is_some() { 1 } else { 1 + self.random.below(3) };
        let scalars: Vec<Scalar> = (0..self.random.below(3)).map(|_| self.ty()).collect();
        let composites: Vec<Composite> = self.any_composite().into_iter().filter(|_| self.random.chance(40)).collect();
        for access in [ArrayUse::Read, ArrayUse::Own, ArrayUse::Read, ArrayUse::Own, ArrayUse::Shared] {
            if self.arrays.len() >= 2 && self.random.chance(40) {
                continue;
            }
            let ndim = match access {
                // A row for each thread.
                ArrayUse::Own if self.smooth && self.rank < 3 && self.random.chance(50) => self.rank + 1,
                ArrayUse::Own => self.rank,
                _ => 1 + self.random.below(3),
            };
            let elem = if access == ArrayUse::Shared && self.smooth {
                Type::Scalar(Scalar::F64)
            } else if access == ArrayUse::Shared {
                let integers = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::I16, Scalar::U8];
                let of_integers = |c: &Composite| c.elem().is_int() && ndim + c.shape().len() <= 4;
                let composites: Vec<Composite> = self.composites.iter().copied().filter(of_integers).collect();
                match composites.first() {
                    Some(&composite) if self.random.chance(60) => composite.into(),
                    _ => Type::Scalar(*self.random.pick(&integers)),
                }
            } else {
                self.element(ndim)
            };
            self.arrays.push(ArrayParam { elem, ndim, access, same_shape: false });
            if access == ArrayUse::Own && ndim == self.rank && self.random.chance(35) {
                let elem = self.element(ndim);
                self.arrays.push(ArrayParam { elem, ndim, access: ArrayUse::Read, same_shape: true });
            }
        }
        let mut params: Vec<String> =
            scalars.iter().enumerate().map(|(n, s)| format!("p{n}: loom.{}", s.python_name())).collect();
        for (n, &composite) in composites.iter().enumerate() {
            let name = self.type_name(Type::Composite(composite));
            params.push(format!("c{n}: {name}"));
        }
        for (n, array) in self.arrays.clone().into_iter().enumerate() {
            let name = self.type_name(array.elem);
            params.push(format!("a{n}: loom.array(dtype={name}, ndim={})", array.ndim));
        }
        self.scope.clear();
        self.structs.leave_scope(0);
        let (struct_params, of_structs) = self.struct_params(self.rank);
        params.extend(struct_params);
        let mode = if self.checked { Some("check=True".to_owned()) } else { in_blocks };
        let hint = self.vector_width.map(|width| format!("hints={{\"vector_width\": {width}}}"));
        let arguments: Vec<String> = mode.into_iter().chain(hint).collect();
        self.line("");
        self.line(&match arguments[..] {
            [] => "@loom.kernel".to_owned(),
            _ => format!("@loom.kernel({})", arguments.join(", ")),
        });
        self.line(&format!("def kernel({}):", params.join(", ")));
        self.indent = 1;
        self.in_kernel = true;
        let coordinates = COORDINATES[..self.rank].join(", ");
        self.line(&format!("{coordinates} = loom.tid()"));
        for name in &COORDINATES[..self.rank] {
            self.scope.push(ProgramVariable::fixed((*name).to_owned(), Scalar::I32));
        }
        for (n, &ty) in scalars.iter().enumerate() {
            let assignable = self.random.chance(50);
            self.scope.push(ProgramVariable { assignable, ..ProgramVariable::new(format!("p{n}"), ty) });
        }
        for (n, &composite) in composites.iter().enumerate() {
            self.scope.push(ProgramVariable::fixed(format!("c{n}"), Type::Composite(composite)));
        }
        self.budget = 8 + self.random.below(28) as i32;
        let n = 3 + self.random.below(5);
        self.begin_block();
        if self.in_blocks.is_some() {
            for _ in 0..1 + self.random.below(4) {
                self.block(1, 0);
                self.together(0);
            }
        }
        self.block(n, 0);
        for array in 0..self.arrays.len() {
            if self.arrays[array].access == ArrayUse::Own {
                self.store_own(array);
            }
        }
        self.store_own_structs();
        let struct_arrays = self.structs.array_params();
        let structs = self.struct_definitions();
        let mut text = "from typing import Any, Callable\n\nimport polyloom as loom\n\n".to_owned();
        text.push_str(CONSTANTS);
        for (index, made) in self.named_types.iter().enumerate() {
            let _ = writeln!(text, "T{index} = {made}");
        }
        text.push_str(&structs);
        text.push_str(&self.text);
        let components = composites.iter().flat_map(|c| std::iter::repeat_n(c.elem(), c.n_components()));
        let scalars = scalars.into_iter().chain(components).chain(of_structs).collect();
        let arrays = self.arrays.iter().cloned().chain(struct_arrays).collect();
        RandomProgram { text, scalars, arrays, rank: self.rank }
    }

    /// The type of an array's elements. An array has at most four dimensions, its elements' included.
    fn element(&mut self, ndim: usize) -> Type {
        match self.any_composite() {
            Some(composite) if ndim + composite.shape().len() <= 4 && self.random.chance(40) => composite.into(),
            _ => self.ty().into(),
        }
    }

    /// A type of variables.
    pub(super) fn value_type(&mut self) -> Type {
        match self.any_composite() {
            Some(composite) if self.random.chance(30) => composite.into(),
            _ => self.ty().into(),
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", self.indent * 4);
    }

    pub(super) fn ty(&mut self) -> Scalar {
        *self.random.pick(&self.palette)
    }

    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.names.next(prefix)
    }

    /// Statements; what they declare goes out of scope after them.
    pub(super) fn block(&mut self, n: usize, depth: usize) {
        let (outer, outer_structs, outer_parts) = (self.scope.len(), self.structs.n_in_scope(), self.parts.len());
        let before = self.text.len();
        for _ in 0..n {
            if self.budget <= 0 {
                break;
            }
            self.budget -= 1;
            self.statement(depth);
        }
        if self.text.len() == before {
            self.line("pass");
        }
        if depth > 0 {
            self.scope.truncate(outer);
            self.structs.leave_scope(outer_structs);
            self.parts.truncate(outer_parts);
        }
    }

    fn statement(&mut self, depth: usize) {
        let own: Vec<usize> = (0..self.arrays.len()).filter(|&a| self.arrays[a].access == ArrayUse::Own).collect();
        if self.random.chance(20) && self.struct_statement() {
            return;
        }
        if self.random.chance(25) && self.composite_statement() {
            return;
        }
        if self.smooth && self.loops == 0 && depth < 2 && self.random.chance(20) && self.rows(depth) {
            return;
        }
        match self.random.below(20) {
            0..=3 => self.declare(),
            4..=6 => self.assign(),
            7 if depth < 3 => self.if_(depth),
            8 if depth < 3 && self.loops < 2 => self.for_(depth),
            9 if depth < 3 && self.loops < 2 => self.while_(depth),
            10 if self.in_kernel && !own.is_empty() => {
                let array = *self.random.pick(&own);
                self.store_own(array);
            }
            11 if self.in_kernel => self.atomic(),
            12 if depth == 0 && self.in_kernel && self.random.chance(50) => self.unpack_arrays(),
            12 => self.swap(),
            13 if self.loops > 0 => self.leave_loop(),
            14 if !self.functions.is_empty() => self.unpack_call(),
            15 if self.in_kernel && depth > 0 && self.in_blocks.is_none() && self.random.chance(20) => {
                let cond = self.expr(Scalar::Bool, 1);
                self.line(&format!("if {cond}:"));
                self.line("    return");
            }
            16 => self.declare_part(),
            17 => self.store_part(),
            18 if self.random.chance(if self.checked { 50 } else { 5 }) => self.assert_(),
            // Threads of a block print in the order in which they get to it.
            18 if self.in_blocks.is_none() && self.random.chance(30) => self.print(),
            18 if self.search() => {}
            19 if self.stencil() => {}
            _ => {
                if !self.builtin_statement() {
                    self.declare();
                }
            }
        }
    }
}

/// The overloads of an op for scalars alone.
pub(super) fn scalar_overloads(op: Op) -> impl Iterator<Item = &'static Signature> {
    op.info().signatures.iter().filter(|signature| !signature.has_composites())
}
