//! Random well-typed kernels as Python source, over the whole language.
//!
//! The same seed gives the same text. Kernels are free of data races by construction, so that every engine must give
//! the same bits whatever the order of threads: a thread stores only to its own elements, loads only from arrays that
//! nobody stores to (or from its own elements), and touches shared elements by commutative integer atomics whose old
//! value it ignores. Indices are clamped to the array, negative ones included, and loops are short.

use super::program::{Access, ArrayParam, Program};
use super::random::Random;
use super::structs::Structs;
use polyloom_ir::op::{Group, Signature, Spelling, TyPattern};
use polyloom_ir::{Composite, Op, Scalar, Type};
use std::fmt::Write as _;

/// The kernel of a seed.
pub fn generate(seed: u64) -> Program {
    let mut generator = Generator::new(seed);
    generator.program()
}

#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) ty: Type,
    /// Loop counters and guards are read, never assigned.
    pub(super) assignable: bool,
}

impl Variable {
    fn new(name: String, ty: impl Into<Type>) -> Variable {
        Variable { name, ty: ty.into(), assignable: true }
    }

    fn fixed(name: String, ty: impl Into<Type>) -> Variable {
        Variable { assignable: false, ..Variable::new(name, ty) }
    }
}

struct UserFunction {
    name: String,
    params: Vec<Type>,
    results: Vec<Type>,
}

pub(super) struct Generator {
    pub(super) random: Random,
    /// Scalar types this program draws from: a few per program, so that values of one type meet.
    palette: Vec<Scalar>,
    math: Vec<Op>,
    /// Composites this program draws from.
    pub(super) composites: Vec<Composite>,
    /// How many more expressions may be of composites: each is many of scalars.
    pub(super) composite_budget: i32,
    /// How types without a name are made; the text calls them `T0`, `T1`, ….
    pub(super) named_types: Vec<String>,
    pub(super) structs: Structs,
    functions: Vec<UserFunction>,
    pub(super) arrays: Vec<ArrayParam>,
    /// Other names of arrays, each with the array.
    aliases: Vec<(String, usize)>,
    rank: usize,
    pub(super) scope: Vec<Variable>,
    text: String,
    indent: usize,
    next_name: u32,
    /// Loops around the current statement in this function.
    loops: usize,
    pub(super) in_kernel: bool,
    budget: i32,
}

const COORDINATES: [&str; 3] = ["i", "j", "k"];

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut random = Random::new(seed);
        let n_types = 2 + random.below(3);
        let palette: Vec<Scalar> = (0..n_types)
            .map(|_| if random.chance(40) { Scalar::F32 } else { *random.pick(&Scalar::ALL) })
            .chain([Scalar::I32])
            .collect();
        let unary_float = |op: &Op| {
            let info = op.info();
            let fits = |s: &Signature| s.results == [TyPattern::Var] && s.params.iter().all(|p| p.ty == TyPattern::Var);
            info.group == Group::Math
                && info.spelling != Spelling::Internal
                && scalar_overloads(*op).next().is_some()
                && scalar_overloads(*op).all(fits)
        };
        let all: Vec<Op> = Op::all().map(|info| info.op).filter(unary_float).collect();
        // Swarm: each program uses a few of the functions, so that each gets its share of attention.
        let math = (0..4).map(|_| *random.pick(&all)).collect();
        let mut generator = Generator {
            random,
            palette,
            math,
            composites: Vec::new(),
            composite_budget: 0,
            named_types: Vec::new(),
            structs: Structs::default(),
            functions: Vec::new(),
            arrays: Vec::new(),
            aliases: Vec::new(),
            rank: 1,
            scope: Vec::new(),
            text: String::new(),
            indent: 0,
            next_name: 0,
            loops: 0,
            in_kernel: false,
            budget: 0,
        };
        generator.draw_composites();
        generator.draw_structs();
        generator
    }

    fn program(&mut self) -> Program {
        for _ in 0..self.random.below(3) {
            self.function();
            self.struct_function();
        }
        self.rank = 1 + self.random.below(3);
        let scalars: Vec<Scalar> = (0..self.random.below(3)).map(|_| self.ty()).collect();
        let composites: Vec<Composite> = self.any_composite().into_iter().filter(|_| self.random.chance(40)).collect();
        for access in [Access::Read, Access::Own, Access::Read, Access::Own, Access::Shared] {
            if self.arrays.len() >= 2 && self.random.chance(40) {
                continue;
            }
            let ndim = if access == Access::Own { self.rank } else { 1 + self.random.below(3) };
            let elem = if access == Access::Shared {
                let integers = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::I16, Scalar::U8];
                Type::Scalar(*self.random.pick(&integers))
            } else {
                self.element(ndim)
            };
            self.arrays.push(ArrayParam { elem, ndim, access, same_shape: false });
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
        let mode = if self.random.chance(15) { "(check=True)" } else { "" };
        self.line("");
        self.line(&format!("@loom.kernel{mode}"));
        self.line(&format!("def kernel({}):", params.join(", ")));
        self.indent = 1;
        self.in_kernel = true;
        let coordinates = COORDINATES[..self.rank].join(", ");
        self.line(&format!("{coordinates} = loom.tid()"));
        for name in &COORDINATES[..self.rank] {
            self.scope.push(Variable::fixed((*name).to_owned(), Scalar::I32));
        }
        for (n, &ty) in scalars.iter().enumerate() {
            let assignable = self.random.chance(50);
            self.scope.push(Variable { assignable, ..Variable::new(format!("p{n}"), ty) });
        }
        for (n, &composite) in composites.iter().enumerate() {
            self.scope.push(Variable::fixed(format!("c{n}"), Type::Composite(composite)));
        }
        self.budget = 8 + self.random.below(28) as i32;
        let n = 3 + self.random.below(5);
        self.block(n, 0);
        for array in 0..self.arrays.len() {
            if self.arrays[array].access == Access::Own {
                self.store_own(array);
            }
        }
        self.store_own_structs();
        let struct_arrays = self.structs.array_params();
        let structs = self.struct_definitions();
        let mut text = "import polyloom as loom\n".to_owned();
        for (index, made) in self.named_types.iter().enumerate() {
            let _ = writeln!(text, "T{index} = {made}");
        }
        text.push_str(&structs);
        text.push_str(&self.text);
        let components = composites.iter().flat_map(|c| std::iter::repeat_n(c.elem(), c.n_components()));
        let scalars = scalars.into_iter().chain(components).chain(of_structs).collect();
        let arrays = self.arrays.iter().cloned().chain(struct_arrays).collect();
        Program { text, scalars, arrays, rank: self.rank }
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

    fn ty(&mut self) -> Scalar {
        *self.random.pick(&self.palette)
    }

    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.next_name += 1;
        format!("{prefix}{}", self.next_name)
    }

    fn function(&mut self) {
        let name = self.name("f");
        let params: Vec<Type> = (0..1 + self.random.below(3)).map(|_| self.value_type()).collect();
        let results: Vec<Type> = (0..1 + self.random.below(2)).map(|_| self.value_type()).collect();
        let list: Vec<String> =
            params.iter().enumerate().map(|(n, &ty)| format!("x{n}: {}", self.type_name(ty))).collect();
        self.begin_function(&format!("def {name}({}):", list.join(", ")));
        self.scope = params.iter().enumerate().map(|(n, &ty)| Variable::new(format!("x{n}"), ty)).collect();
        self.function_body();
        if self.random.chance(30) {
            let cond = self.expr(Scalar::Bool, 2);
            self.line(&format!("if {cond}:"));
            self.indent += 1;
            self.return_(&results);
            self.indent -= 1;
        }
        self.return_(&results);
        self.end_function();
        self.functions.push(UserFunction { name, params, results });
    }

    pub(super) fn begin_function(&mut self, head: &str) {
        self.line("");
        self.line("@loom.func");
        self.line(head);
        self.indent = 1;
        self.in_kernel = false;
        self.scope.clear();
        self.structs.leave_scope(0);
    }

    pub(super) fn function_body(&mut self) {
        self.budget = 6;
        let n = 1 + self.random.below(3);
        self.block(n, 1);
    }

    pub(super) fn end_function(&mut self) {
        self.indent = 0;
    }

    fn return_(&mut self, results: &[Type]) {
        let values: Vec<String> = results.iter().map(|&ty| self.pinned_of(ty, 2)).collect();
        self.line(&format!("return {}", values.join(", ")));
    }

    /// Statements; what they declare goes out of scope after them.
    fn block(&mut self, n: usize, depth: usize) {
        let (outer, outer_structs) = (self.scope.len(), self.structs.n_in_scope());
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
        }
    }

    fn statement(&mut self, depth: usize) {
        let own: Vec<usize> = (0..self.arrays.len()).filter(|&a| self.arrays[a].access == Access::Own).collect();
        if self.random.chance(20) && self.struct_statement() {
            return;
        }
        if self.random.chance(25) && self.composite_statement() {
            return;
        }
        match self.random.below(16) {
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
            15 if self.in_kernel && depth > 0 && self.random.chance(20) => {
                let cond = self.expr(Scalar::Bool, 1);
                self.line(&format!("if {cond}:"));
                self.line("    return");
            }
            _ => self.draw(),
        }
    }

    fn declare(&mut self) {
        let ty = self.ty();
        let value = self.expr(ty, 3);
        let name = self.name("v");
        if self.random.chance(30) {
            self.line(&format!("{name}: loom.{} = {value}", ty.python_name()));
        } else {
            self.line(&format!("{name} = loom.{}({value})", ty.python_name()));
        }
        self.scope.push(Variable::new(name, ty));
    }

    fn assignable(&mut self) -> Option<Variable> {
        let found: Vec<Variable> = self.scope.iter().filter(|v| v.assignable).cloned().collect();
        if found.is_empty() { None } else { Some(self.random.pick(&found).clone()) }
    }

    fn assign(&mut self) {
        let Some(Variable { name, ty, .. }) = self.assignable() else { return self.declare() };
        let ty = match ty {
            Type::Scalar(scalar) => scalar,
            Type::Composite(composite) => return self.assign_composite(&name, composite),
            _ => return,
        };
        let value = self.expr(ty, 3);
        let operators: &[&str] = match ty {
            Scalar::Bool => &["&=", "|=", "^="],
            _ if ty.is_float() => &["+=", "-=", "*=", "/="],
            _ => &["+=", "-=", "*=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>="],
        };
        let operator = if self.random.chance(50) { "=" } else { *self.random.pick(operators) };
        self.line(&format!("{name} {operator} {value}"));
    }

    fn swap(&mut self) {
        let Some(a) = self.assignable() else { return };
        let same: Vec<Variable> =
            self.scope.iter().filter(|v| v.assignable && v.ty == a.ty && v.name != a.name).cloned().collect();
        if same.is_empty() {
            return self.assign();
        }
        let b = self.random.pick(&same).clone();
        let value = self.pinned_of(a.ty, 2);
        self.line(&format!("{}, {} = {}, {value}", a.name, b.name, b.name));
    }

    /// `b, v, c = a0, x, a1`: names of arrays among variables.
    fn unpack_arrays(&mut self) {
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
                variables.push(Variable::new(name, ty));
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

    fn draw(&mut self) {
        let (seed, offset) = (self.expr(Scalar::I32, 2), self.expr(Scalar::I32, 2));
        let (state, value) = (self.name("s"), self.name("v"));
        self.line(&format!("{state} = loom.rand_init({seed}, {offset})"));
        let (call, ty) = *self.random.pick(&[
            ("randf(STATE)", Scalar::F32),
            ("randi(STATE)", Scalar::I32),
            ("randi(STATE, -5, 17)", Scalar::I32),
            ("randu(STATE)", Scalar::U32),
            ("randf(STATE, -2.0, 3.0)", Scalar::F32),
            ("randn(STATE)", Scalar::F32),
        ]);
        self.line(&format!("{value} = loom.{}", call.replace("STATE", &state)));
        self.scope.push(Variable::new(value, ty));
        self.scope.push(Variable::new(state, Scalar::U32));
    }

    fn unpack_call(&mut self) {
        let index = self.random.below(self.functions.len());
        let results = self.functions[index].results.clone();
        let call = self.call(index, 2);
        let names: Vec<String> = results.iter().map(|_| self.name("v")).collect();
        self.line(&format!("{} = {call}", names.join(", ")));
        for (name, ty) in names.into_iter().zip(results) {
            self.scope.push(Variable::new(name, ty));
        }
    }

    /// A function with this result alone.
    pub(super) fn function_with_result(&mut self, ty: Type) -> Option<usize> {
        let fits: Vec<usize> = (0..self.functions.len()).filter(|&f| self.functions[f].results == [ty]).collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    pub(super) fn call(&mut self, index: usize, depth: usize) -> String {
        let params = self.functions[index].params.clone();
        let mut args: Vec<String> = params.iter().map(|&ty| self.pinned_of(ty, depth)).collect();
        if self.random.chance(25)
            && let Some(last) = args.last_mut()
        {
            *last = format!("x{}={last}", params.len() - 1);
        }
        format!("{}({})", self.functions[index].name, args.join(", "))
    }

    fn if_(&mut self, depth: usize) {
        let cond = self.expr(Scalar::Bool, 3);
        self.line(&format!("if {cond}:"));
        self.nested(depth);
        if self.random.chance(30) {
            let cond = self.expr(Scalar::Bool, 2);
            self.line(&format!("elif {cond}:"));
            self.nested(depth);
        }
        if self.random.chance(50) {
            self.line("else:");
            self.nested(depth);
        }
    }

    fn nested(&mut self, depth: usize) {
        self.indent += 1;
        let n = 1 + self.random.below(3);
        self.block(n, depth + 1);
        self.indent -= 1;
    }

    fn for_(&mut self, depth: usize) {
        let counter = self.name("n");
        let bounds = match self.random.below(5) {
            0 => format!("{}", self.random.below(6)),
            1 => format!("{}, {}", self.random.below(3), 2 + self.random.below(5)),
            2 => format!("{}, -2, -{}", self.random.below(6), 1 + self.random.below(3)),
            3 => format!("loom.clamp({}, -3, 5)", self.pinned(Scalar::I32, 2)),
            _ => {
                let (from, to) = (self.pinned(Scalar::I32, 1), self.pinned(Scalar::I32, 1));
                format!(
                    "loom.clamp({from}, -4, 4), loom.clamp({to}, -4, 4), {}",
                    self.random.pick(&["1", "2", "-1", "-3"])
                )
            }
        };
        self.line(&format!("for {counter} in range({bounds}):"));
        self.loops += 1;
        self.scope.push(Variable::fixed(counter, Scalar::I32));
        self.nested(depth);
        self.scope.pop();
        self.loops -= 1;
        self.loop_else(depth);
    }

    fn while_(&mut self, depth: usize) {
        let guard = self.name("w");
        let cond = self.expr(Scalar::Bool, 2);
        self.line(&format!("{guard} = loom.int32(0)"));
        let n = 1 + self.random.below(6);
        self.line(&format!("while {guard} < {n} and ({cond}):"));
        self.loops += 1;
        self.indent += 1;
        self.line(&format!("{guard} += 1"));
        self.scope.push(Variable::fixed(guard, Scalar::I32));
        self.indent -= 1;
        self.nested(depth);
        self.loops -= 1;
        self.loop_else(depth);
    }

    fn loop_else(&mut self, depth: usize) {
        if self.random.chance(10) {
            self.line("else:");
            self.nested(depth);
        }
    }

    fn leave_loop(&mut self) {
        let cond = self.expr(Scalar::Bool, 2);
        let word = *self.random.pick(&["break", "continue"]);
        self.line(&format!("if {cond}:"));
        self.line(&format!("    {word}"));
    }

    pub(super) fn own_index(&self) -> String {
        COORDINATES[..self.rank].join(", ")
    }

    fn store_own(&mut self, array: usize) {
        let elem = match self.arrays[array].elem {
            Type::Scalar(elem) => elem,
            other => {
                let (value, index) = (self.pinned_of(other, 3), self.own_index());
                let operator = if self.random.chance(25) { "+=" } else { "=" };
                let array = self.array(array);
                return self.line(&format!("{array}[{index}] {operator} {value}"));
            }
        };
        let (value, index) = (self.expr(elem, 3), self.own_index());
        if elem != Scalar::Bool && self.random.chance(20) {
            // The element is the thread's own, so the order of float additions is fixed.
            let name = *self.random.pick(&["atomic_add", "atomic_sub", "atomic_min", "atomic_max", "atomic_exch"]);
            let (old, array) = (self.name("v"), self.array(array));
            self.line(&format!("{old} = loom.{name}({array}, {index}, loom.{}({value}))", elem.python_name()));
            self.scope.push(Variable::new(old, elem));
            return;
        }
        let operator = if elem != Scalar::Bool && self.random.chance(25) { "+=" } else { "=" };
        let array = self.array(array);
        self.line(&format!("{array}[{index}] {operator} {value}"));
    }

    fn atomic(&mut self) {
        let shared = self.arrays.iter().position(|a| a.access == Access::Shared);
        let Some(array) = shared else { return self.declare() };
        let Type::Scalar(elem) = self.arrays[array].elem else { return };
        let index = self.index(array);
        // One kind per array, or the order would show.
        let kinds = ["atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor"];
        let name = kinds[(self.palette.len() + self.rank + elem as usize) % kinds.len()];
        let value = self.pinned(elem, 2);
        let array = self.array(array);
        self.line(&format!("loom.{name}({array}, {index}, {value})"));
    }

    fn index(&mut self, array: usize) -> String {
        let ndim = self.arrays[array].ndim;
        self.index_of(&format!("a{array}"), ndim)
    }

    /// An index into the array of this name, clamped to it.
    pub(super) fn index_of(&mut self, array: &str, ndim: usize) -> String {
        let mut parts = Vec::new();
        for axis in 0..ndim {
            let part = match self.random.below(4) {
                0 if self.in_kernel => {
                    format!("loom.min({}, {array}.shape[{axis}] - 1)", COORDINATES[self.random.below(self.rank)])
                }
                1 => (*self.random.pick(&["0", "-1"])).to_owned(),
                _ => {
                    let value = self.pinned(Scalar::I32, 1);
                    format!("loom.clamp({value}, -{array}.shape[{axis}], {array}.shape[{axis}] - 1)")
                }
            };
            parts.push(part);
        }
        parts.join(", ")
    }

    /// An expression whose type is `ty` whatever surrounds it.
    pub(super) fn pinned(&mut self, ty: Scalar, depth: usize) -> String {
        let value = self.expr(ty, depth);
        format!("loom.{}({value})", ty.python_name())
    }

    /// The same for any type of values.
    pub(super) fn pinned_of(&mut self, ty: Type, depth: usize) -> String {
        match ty {
            Type::Composite(composite) => self.composite(composite, depth),
            Type::Scalar(scalar) => self.pinned(scalar, depth),
            other => unreachable!("programs have no values of type {other}"),
        }
    }

    /// An expression that is of type `ty` or a literal that becomes it.
    pub(super) fn expr(&mut self, ty: Scalar, depth: usize) -> String {
        if depth == 0 || self.random.chance(15) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.random.below(10) {
            0 => self.leaf(ty),
            1 => {
                let cond = self.expr(Scalar::Bool, d);
                let (a, b) = (self.pinned(ty, d), self.expr(ty, d));
                if self.random.chance(50) {
                    format!("({a} if {cond} else {b})")
                } else {
                    format!("loom.where({cond}, {a}, {b})")
                }
            }
            2 => {
                let from = self.ty();
                let value = self.pinned(from, d);
                format!("loom.{}({value})", ty.python_name())
            }
            3 => match self.function_with_result(ty.into()) {
                Some(index) => self.call(index, d),
                None => self.operation(ty, d),
            },
            4 => self.load(ty.into()).unwrap_or_else(|| self.leaf(ty)),
            5 => self.component(ty).unwrap_or_else(|| self.operation(ty, d)),
            6 if self.composite_budget > 0 => {
                self.composite_budget -= 1;
                let call = self.builtin(ty.into(), d);
                call.unwrap_or_else(|| self.operation(ty, d))
            }
            _ => self.operation(ty, d),
        }
    }

    pub(super) fn load(&mut self, ty: Type) -> Option<String> {
        if !self.in_kernel {
            return None;
        }
        if self.random.chance(30)
            && let Some(leaf) = self.struct_leaf(ty)
        {
            return Some(leaf);
        }
        let fits: Vec<usize> = (0..self.arrays.len())
            .filter(|&a| self.arrays[a].elem == ty && self.arrays[a].access != Access::Shared)
            .collect();
        if fits.is_empty() {
            return None;
        }
        let array = *self.random.pick(&fits);
        let index = if self.arrays[array].access == Access::Own { self.own_index() } else { self.index(array) };
        let array = self.array(array);
        Some(format!("{array}[{index}]"))
    }

    fn operation(&mut self, ty: Scalar, d: usize) -> String {
        if ty == Scalar::Bool {
            return self.condition(d);
        }
        let a = self.pinned(ty, d);
        if self.random.chance(35) {
            let math = self.math_of(ty);
            if let Some(op) = math {
                let n = scalar_overloads(op).next().map_or(1, |signature| signature.params.len());
                let args: Vec<String> = (0..n).map(|_| self.pinned(ty, d)).collect();
                return format!("loom.{}({})", op.name(), args.join(", "));
            }
        }
        let b = self.expr(ty, d);
        if ty.is_float() {
            return match self.random.below(10) {
                9 => self.power(&a, ty, d),
                0..=1 => format!("({a} + {b})"),
                2 => format!("({a} - {b})"),
                3..=4 => format!("({a} * {b})"),
                5 => format!("({a} / {b})"),
                6 => format!("({a} // {b})"),
                7 => format!("({a} % {b})"),
                _ => format!("(-{a})"),
            };
        }
        let operator = *self.random.pick(&["+", "-", "*", "//", "%", "/", "&", "|", "^", "<<", ">>"]);
        match self.random.below(13) {
            0 => format!("(~{a})"),
            12 => self.power(&a, ty, d),
            1 => format!("(-{a})"),
            _ => format!("({a} {operator} {b})"),
        }
    }

    /// `a ** b`; integers have small literal powers only.
    fn power(&mut self, a: &str, ty: Scalar, d: usize) -> String {
        let exponent = match self.random.below(6) {
            0 if ty.is_float() => self.expr(ty, d),
            1 if ty.is_float() => "0.5".to_owned(),
            2 if ty.is_float() => "(-2)".to_owned(),
            _ => self.random.below(10).to_string(),
        };
        format!("({a} ** {exponent})")
    }

    fn math_of(&mut self, ty: Scalar) -> Option<Op> {
        let takes = |op: &&Op| scalar_overloads(**op).any(|s| s.var.is_some_and(|class| class.contains(ty)));
        let fits: Vec<Op> = self.math.iter().filter(takes).copied().collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    fn condition(&mut self, d: usize) -> String {
        match self.random.below(8) {
            0 => format!("({} and {})", self.expr(Scalar::Bool, d), self.expr(Scalar::Bool, d)),
            1 => format!("({} or {})", self.expr(Scalar::Bool, d), self.expr(Scalar::Bool, d)),
            2 => format!("(not {})", self.expr(Scalar::Bool, d)),
            3 => {
                let ty = self.number();
                let (a, b, c) = (self.pinned(ty, d), self.pinned(ty, d), self.expr(ty, d));
                if self.random.chance(50) {
                    return format!("({a} < {b} <= {c})");
                }
                let mut chain = a;
                for _ in 0..3 + self.random.below(6) {
                    let operator = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                    let operand = if d > 0 && self.random.chance(30) { self.pinned(ty, d - 1) } else { self.leaf(ty) };
                    chain.push_str(&format!(" {operator} {operand}"));
                }
                format!("({chain})")
            }
            _ => {
                let ty = self.number();
                let operator = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {operator} {})", self.pinned(ty, d), self.expr(ty, d))
            }
        }
    }

    pub(super) fn number(&mut self) -> Scalar {
        match self.ty() {
            Scalar::Bool => Scalar::I32,
            ty => ty,
        }
    }

    fn leaf(&mut self, ty: Scalar) -> String {
        self.variable(ty.into()).unwrap_or_else(|| self.literal(ty))
    }

    /// Mostly a variable of this type, if there is one.
    pub(super) fn variable(&mut self, ty: Type) -> Option<String> {
        let fits: Vec<usize> = (0..self.scope.len()).filter(|&v| self.scope[v].ty == ty).collect();
        if fits.is_empty() || !self.random.chance(75) {
            return None;
        }
        Some(self.scope[*self.random.pick(&fits)].name.clone())
    }

    fn literal(&mut self, ty: Scalar) -> String {
        match ty {
            Scalar::Bool => (*self.random.pick(&["True", "False"])).to_owned(),
            _ if ty.is_float() => {
                let values = ["0.0", "1.0", "-1.0", "0.5", "2.0", "-0.25", "3.0", "1e-3", "100.0", "-7.5", "0.1", "2"];
                (*self.random.pick(&values)).to_owned()
            }
            _ => {
                let small = self.random.below(12) as i64;
                let edge = (1i64 << (ty.bits() - 1).min(31)) - 1;
                let value = match self.random.below(6) {
                    0 => edge,
                    1 if ty.is_signed_int() => -edge,
                    2 if ty.is_signed_int() => -small,
                    _ => small,
                };
                if value < 0 { format!("({value})") } else { value.to_string() }
            }
        }
    }
}

/// The overloads of an op for scalars alone.
fn scalar_overloads(op: Op) -> impl Iterator<Item = &'static Signature> {
    op.info().signatures.iter().filter(|signature| !signature.has_composites())
}
