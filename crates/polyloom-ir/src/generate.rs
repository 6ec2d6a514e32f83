//! Random programs that run: kernels with launches, for checking passes and back ends against the interpreter.
//!
//! Every program of [`program`] is valid, ends, stays inside its arrays, and gives the same result in whatever order
//! its threads run: a thread writes elements of its own only, or updates shared ones by one integer atomic whose result
//! it does not use. What differs between back ends by definition does not happen: no NaN's bits are looked at. So a
//! compiled program must leave the memory that the interpreter leaves, as [`same_memory`] compares it.
//!
//! A seed means the same program on every machine, until this file changes.

use crate::builder::Builder;
use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{Function, FunctionKind, Imm, Module};
use crate::interp::{Arg, BufferMemory, InterpError, Interpreter, Printed};
use crate::op::{Effect, Group, Lowering, Op, OpInfo, Signature, TyPattern};
use crate::types::{Scalar, Type};

/// What programs may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Library ops.
    pub library: bool,
    /// Native ops on floats, other than conversions.
    pub float_arithmetic: bool,
    /// About how many instructions a kernel has.
    pub size: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { library: true, float_arithmetic: true, size: 60 }
    }
}

/// A kernel and a launch of it.
#[derive(Clone, Debug)]
pub struct Program {
    /// The module; the verifier accepts it.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Extents of the launch.
    pub shape: Vec<u64>,
    /// Arguments. Each array has a buffer of its own, dense and row-major from its start.
    pub args: Vec<Arg>,
    /// The buffers before the launch.
    pub memory: BufferMemory,
}

impl Program {
    /// Number of threads of the launch.
    pub fn n_threads(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The memory after the interpreter has run the launch.
    ///
    /// # Errors
    ///
    /// [`InterpError::StepLimit`] for the rare program that runs long; no other if `module` is as generated or
    /// equivalent.
    pub fn interpret(&self, module: &Module, kernel: FuncId) -> Result<BufferMemory, InterpError> {
        let interpreter = Interpreter::new(module, kernel)?.with_max_steps(1_000_000);
        let mut memory = self.memory.clone();
        interpreter.launch(&self.shape, &self.args, &mut memory, &mut Printed::default(), 0..self.n_threads())?;
        Ok(memory)
    }

    /// Compares two memories after the launch, a NaN being equal to any NaN.
    ///
    /// # Errors
    ///
    /// The first element that differs, in words.
    pub fn same_memory(&self, expected: &BufferMemory, found: &BufferMemory) -> Result<(), String> {
        let kernel = &self.module.functions[self.kernel];
        for (index, (&arg, &param)) in self.args.iter().zip(kernel.params()).enumerate() {
            let Type::Array { elem, .. } = kernel.ty(param) else { continue };
            let (expected, found) = (expected.elements(elem, arg), found.elements(elem, arg));
            let name = &kernel.param_names[index];
            if expected.len() != found.len() {
                return Err(format!("{name} has {} elements, not {}", found.len(), expected.len()));
            }
            for (element, (&expected, &found)) in expected.iter().zip(&found).enumerate() {
                if expected != found && !(is_nan(elem, expected) && is_nan(elem, found)) {
                    return Err(format!("element {element} of {name}: {elem} is {found:#x}, not {expected:#x}"));
                }
            }
        }
        Ok(())
    }
}

/// Whether the bits of a value of this type are a NaN.
pub fn is_nan(ty: Scalar, bits: u64) -> bool {
    let (exponent, mantissa) = match ty {
        Scalar::F16 => (0x7c00, 0x3ff),
        Scalar::BF16 => (0x7f80, 0x7f),
        Scalar::F32 => (0x7f80_0000, 0x7f_ffff),
        Scalar::F64 => (0x7ff0_0000_0000_0000, 0xf_ffff_ffff_ffff),
        _ => return false,
    };
    bits & exponent == exponent && bits & mantissa != 0
}

/// The program of a seed.
pub fn program(seed: u64, options: Options) -> Program {
    let mut random = Random(seed);
    let mut module = Module::new();
    for index in 0..random.below(3) {
        let function = function(&mut random, &module, options, index);
        module.functions.push(function);
    }
    let shape: Vec<u64> = match random.below(6) {
        0 => vec![1 + random.below(5) as u64, 1 + random.below(40) as u64],
        1 => vec![1 + random.below(3) as u64, 1 + random.below(4) as u64, 1 + random.below(20) as u64],
        2 => vec![2, 1, 2, 1 + random.below(18) as u64],
        _ => vec![1 + random.below(70) as u64],
    };
    let mut launch =
        Launch { memory: BufferMemory::default(), args: Vec::new(), params: Vec::new(), roles: Vec::new() };
    launch.arrange(&mut random, shape.iter().product::<u64>() as usize);
    let params = launch.params.iter().map(|(name, ty)| (name.as_str(), *ty));
    let mut kernel = Function::new("kernel", FunctionKind::Kernel, params, &[]);
    let scope = kernel.params().iter().copied().filter(|&v| kernel.ty(v).as_scalar().is_some()).collect();
    let arrays = kernel.params().iter().copied().zip(launch.roles.iter().copied());
    let arrays: Vec<(Value, Role)> = arrays.filter(|(_, role)| *role != Role::Scalar).collect();
    let mut generator = Generator {
        random: &mut random,
        module: &module,
        builder: Builder::new(&mut kernel),
        scope,
        arrays,
        exits: Vec::new(),
        results: None,
        options,
        budget: options.size,
    };
    generator.kernel_body();
    let kernel = module.functions.push(kernel);
    Program { module, kernel, shape, args: launch.args, memory: launch.memory }
}

/// A function of scalars for kernels to call.
fn function(random: &mut Random, module: &Module, options: Options, index: usize) -> Function {
    let params: Vec<(String, Type)> =
        (0..1 + random.below(3)).map(|i| (format!("p{i}"), random.scalar_type())).collect();
    let results: Vec<Type> = (0..1 + random.below(2)).map(|_| random.scalar_type()).collect();
    let params = params.iter().map(|(name, ty)| (name.as_str(), *ty));
    let mut func = Function::new(format!("function{index}"), FunctionKind::Func, params, &results);
    let scope = func.params().to_vec();
    let mut generator = Generator {
        random,
        module,
        builder: Builder::new(&mut func),
        scope,
        arrays: Vec::new(),
        exits: Vec::new(),
        results: Some(results.clone()),
        options,
        budget: options.size / 3,
    };
    generator.code(2);
    let values = generator.values(&results);
    generator.builder.return_(&values);
    func
}

/// A generator of random numbers (SplitMix64; Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// OOPSLA 2014), so that a seed means the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of a list.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Any scalar type, most often one of those that kernels are made of.
    fn scalar(&mut self) -> Scalar {
        if self.one_in(2) { self.pick(&[Scalar::F32, Scalar::I32, Scalar::Bool]) } else { self.pick(&Scalar::ALL) }
    }

    fn scalar_type(&mut self) -> Type {
        self.scalar().into()
    }

    /// The bits of a value, often one at an edge of its type.
    fn value(&mut self, ty: Scalar) -> u64 {
        let mask = u64::MAX >> (64 - ty.bits());
        if ty == Scalar::Bool {
            return self.bits() & 1;
        }
        if ty.is_int() {
            let edge = self.pick(&[0, 1, 2, 3, u64::MAX, mask >> 1, (mask >> 1) + 1, 7, 100]);
            return mask & if self.one_in(3) { self.bits() } else { edge };
        }
        let number = match self.below(4) {
            0 => self.pick(&[0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e-320, 3e38, 65504.0, f64::INFINITY, f64::NAN]),
            1 => self.below(200) as f64 / 8.0 - 12.5,
            2 => (self.below(2000) as f64 - 1000.0) * 1.000_000_1,
            _ => return mask & self.bits(),
        };
        crate::eval::eval(Op::Cast, &[Type::F64], &[number.to_bits()], ty.into()).unwrap_or(0)
    }
}

/// How a kernel uses a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Scalar,
    /// Read anywhere, never written. It has [`PADDING`] more elements than there are threads, and [`N_ROWS`] such rows
    /// if it has rows.
    Input,
    /// Element i is read and written by thread i alone.
    Own,
    /// Updated anywhere by one atomic.
    Shared(Op),
}

/// By how much thread indices may be shifted and still be indices of inputs.
const PADDING: usize = 8;

/// Rows of an input of two dimensions: a power of two.
const N_ROWS: usize = 4;

/// Elements of a shared array: a power of two.
const N_SHARED: usize = 4;

struct Launch {
    memory: BufferMemory,
    args: Vec<Arg>,
    params: Vec<(String, Type)>,
    roles: Vec<Role>,
}

impl Launch {
    fn arrange(&mut self, random: &mut Random, n_threads: usize) {
        self.scalar("n".to_owned(), Scalar::I32, random.below(12) as u64);
        for index in 0..random.below(4) {
            let ty = random.scalar();
            let bits = random.value(ty);
            self.scalar(format!("s{index}"), ty, bits);
        }
        for index in 0..1 + random.below(3) {
            let ty = random.scalar();
            let mut extents = vec![n_threads + PADDING];
            if random.one_in(3) {
                extents.insert(0, N_ROWS);
            }
            self.array(random, format!("input{index}"), ty, &extents, Role::Input);
        }
        self.array(random, "floats".to_owned(), Scalar::F32, &[n_threads], Role::Own);
        self.array(random, "ints".to_owned(), Scalar::I32, &[n_threads], Role::Own);
        let ty = random.scalar();
        self.array(random, "others".to_owned(), ty, &[n_threads], Role::Own);
        if random.one_in(2) {
            let op = random.pick(&[
                Op::AtomicAdd,
                Op::AtomicSub,
                Op::AtomicMin,
                Op::AtomicMax,
                Op::AtomicAnd,
                Op::AtomicOr,
                Op::AtomicXor,
            ]);
            let ty = random.pick(&[Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::I8, Scalar::U16]);
            self.array(random, "shared".to_owned(), ty, &[N_SHARED], Role::Shared(op));
        }
    }

    fn scalar(&mut self, name: String, ty: Scalar, bits: u64) {
        self.params.push((name, ty.into()));
        self.args.push(Arg::Scalar(bits));
        self.roles.push(Role::Scalar);
    }

    fn array(&mut self, random: &mut Random, name: String, elem: Scalar, extents: &[usize], role: Role) {
        let elements: Vec<u64> = (0..extents.iter().product()).map(|_| random.value(elem)).collect();
        self.params.push((name, Type::array(elem, extents.len() as u8)));
        self.args.push(self.memory.add_array(elem, extents, &elements));
        self.roles.push(role);
    }
}

/// An enclosing instruction that can be left.
#[derive(Clone)]
struct Exit {
    inst: Inst,
    types: Vec<Type>,
    /// Loop parameters before the carried values that random code chooses: `while` counts its iterations.
    counter: Option<Value>,
    is_loop: bool,
}

struct Generator<'a, 'f> {
    random: &'a mut Random,
    module: &'a Module,
    builder: Builder<'f>,
    /// Scalars that can be used here.
    scope: Vec<Value>,
    arrays: Vec<(Value, Role)>,
    exits: Vec<Exit>,
    /// Result types; `None` in a kernel.
    results: Option<Vec<Type>>,
    options: Options,
    /// How many more instructions there may be, roughly.
    budget: usize,
}

impl Generator<'_, '_> {
    fn ty(&self, value: Value) -> Type {
        self.builder.func.ty(value)
    }

    fn kernel_body(&mut self) {
        let linear = self.linear_index();
        self.scope.push(linear);
        while self.budget > 0 {
            self.code(3);
        }
        for (array, role) in self.arrays.clone() {
            if role == Role::Own {
                self.store(array);
            }
        }
        self.builder.return_(&[]);
    }

    fn linear_index(&mut self) -> Value {
        let inst = self.builder.inst(Op::TidLinear, &[], &[Type::I32], Imm::None);
        self.builder.func.insts[inst].results[0]
    }

    /// Instructions, no terminator.
    fn code(&mut self, depth: usize) {
        for _ in 0..1 + self.random.below(6) {
            self.budget = self.budget.saturating_sub(1);
            let depth = if self.budget == 0 { 0 } else { depth };
            match self.random.below(20) {
                0 | 1 if depth > 0 => self.branch(depth),
                2 if depth > 0 => self.counted_loop(depth),
                3 if depth > 0 => self.while_loop(depth),
                4 if depth > 0 => self.block(depth),
                5 if depth > 0 => self.guard(),
                6 if self.results.is_none() => {
                    let tid = self.builder.tid(self.random.below(4) as u8);
                    self.scope.push(tid);
                }
                7..=9 if !self.arrays.is_empty() => self.array_access(),
                10 => self.call(),
                11 => self.conversion(),
                12 | 13 => self.comparison(),
                _ => self.table_op(),
            }
        }
    }

    /// A value of this type: one in scope, one converted, or a constant.
    fn value(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.scope.iter().copied().filter(|&value| self.ty(value) == ty).collect();
        let Type::Scalar(scalar) = ty else { return self.scope[0] };
        if !fitting.is_empty() && !self.random.one_in(5) {
            // Later values are better: they keep the earlier ones alive.
            let skip = self.random.below(fitting.len());
            return fitting[skip.max(self.random.below(fitting.len()))];
        }
        let value = if !self.scope.is_empty() && self.random.one_in(2) {
            let from = self.random.pick(&self.scope);
            self.builder.cast(from, scalar)
        } else {
            let bits = self.random.value(scalar);
            self.builder.const_bits(scalar, bits)
        };
        self.scope.push(value);
        value
    }

    fn values(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|&ty| self.value(ty)).collect()
    }

    fn some_types(&mut self) -> Vec<Type> {
        (0..self.random.below(3)).map(|_| self.random.scalar_type()).collect()
    }

    /// An integer from 0 to `mask`, which is one less than a power of two.
    fn small(&mut self, ty: Scalar, mask: i64) -> Value {
        let value = self.value(ty.into());
        let mask = self.builder.const_int(ty, mask);
        self.builder.op(Op::BitAnd, &[value, mask])
    }

    // ---- scalars -------------------------------------------------------------------------------------------------

    fn table_op(&mut self) {
        let wanted = |info: &&OpInfo| {
            let is_scalar = info.signatures.iter().any(|signature| !signature.has_composites());
            info.effect == Effect::Pure
                && info.is_builtin()
                && info.group != Group::Gpu
                && is_scalar
                && (self.options.library || info.lowering == Lowering::Native)
        };
        let ops: Vec<&OpInfo> = Op::all().filter(wanted).collect();
        // Library ops outnumber the native ones, which programs are mostly made of.
        let native: Vec<&OpInfo> = ops.iter().copied().filter(|info| info.lowering == Lowering::Native).collect();
        let info = if self.random.one_in(3) { self.random.pick(&ops) } else { self.random.pick(&native) };
        let signatures: Vec<&Signature> = info.signatures.iter().filter(|s| !s.has_composites()).collect();
        let signature: &Signature = self.random.pick(&signatures);
        let floats = self.options.float_arithmetic || info.lowering == Lowering::Library;
        let members = signature.var.into_iter().flat_map(|class| class.members());
        let members: Vec<Scalar> = members.filter(|ty| floats || !ty.is_float()).collect();
        if signature.var.is_some() && members.is_empty() {
            return;
        }
        let usual: Vec<Scalar> = members.iter().copied().filter(|ty| matches!(ty, Scalar::F32 | Scalar::I32)).collect();
        let var = match () {
            () if members.is_empty() => Scalar::I32,
            () if usual.is_empty() || self.random.one_in(2) => self.random.pick(&members),
            () => self.random.pick(&usual),
        };
        let types: Option<Vec<Type>> = signature
            .params
            .iter()
            .map(|param| match param.ty {
                TyPattern::Var => Some(var.into()),
                TyPattern::Is(scalar) => Some(scalar.into()),
                _ => None,
            })
            .collect();
        let Some(types) = types else { return };
        let operands = self.values(&types);
        let results = self.builder.op_results(info.op, &operands);
        self.scope.extend(results);
    }

    fn comparison(&mut self) {
        let op = self.random.pick(&[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge]);
        let Some(&value) = self.scope.get(self.random.below(self.scope.len())) else { return };
        let ty = self.ty(value);
        if ty == Type::BOOL {
            return;
        }
        let other = self.value(ty);
        let result = self.builder.op(op, &[value, other]);
        self.scope.push(result);
    }

    fn conversion(&mut self) {
        let Some(&value) = self.scope.get(self.random.below(self.scope.len())) else { return };
        let Type::Scalar(from) = self.ty(value) else { return };
        let same_size = |to: &Scalar| *to != from && *to != Scalar::Bool && to.bits() == from.bits();
        let reinterpretable: Vec<Scalar> = Scalar::ALL.into_iter().filter(same_size).collect();
        // The bits of a NaN are not looked at, so floats are not reinterpreted.
        let result = if from.is_int() && self.random.one_in(3) {
            let to = self.random.pick(&reinterpretable);
            self.builder.bitcast(value, to)
        } else {
            let to = self.random.pick(&Scalar::ALL);
            self.builder.cast(value, to)
        };
        self.scope.push(result);
    }

    fn call(&mut self) {
        let n_callees = self.module.functions.len();
        if n_callees == 0 {
            return;
        }
        let callee = FuncId::from_u32(self.random.below(n_callees) as u32);
        let function = &self.module.functions[callee];
        let types: Vec<Type> = function.params().iter().map(|&param| function.ty(param)).collect();
        let operands = self.values(&types);
        let results = self.builder.call(callee, &operands, &function.results);
        self.scope.extend(results);
    }

    // ---- arrays --------------------------------------------------------------------------------------------------

    fn array_access(&mut self) {
        let (array, role) = self.random.pick(&self.arrays);
        match role {
            Role::Scalar => {}
            Role::Input => self.load(array),
            Role::Own if self.random.one_in(2) => {
                let own = self.linear_index();
                let value = self.builder.op(Op::ArrayLoad, &[array, own]);
                self.scope.push(value);
            }
            Role::Own => self.store(array),
            Role::Shared(op) => {
                let Some((elem, _)) = self.ty(array).as_array() else { return };
                let index = self.small(Scalar::I32, N_SHARED as i64 - 1);
                let value = self.value(elem.into());
                self.builder.op(op, &[array, index, value]);
            }
        }
    }

    fn store(&mut self, array: Value) {
        let Some((elem, _)) = self.ty(array).as_array() else { return };
        let own = self.linear_index();
        let value = self.value(elem.into());
        self.builder.inst(Op::ArrayStore, &[array, own, value], &[], Imm::None);
    }

    /// Reads an input: next to the thread's own element, anywhere, or counted from the end.
    fn load(&mut self, array: Value) {
        let Some((_, ndim)) = self.ty(array).as_array() else { return };
        let mut operands = vec![array];
        if ndim == 2 {
            let row = self.small(Scalar::I32, N_ROWS as i64 - 1);
            operands.push(if self.random.one_in(3) { self.builder.op(Op::Invert, &[row]) } else { row });
        }
        let index = match self.random.below(4) {
            0 => {
                let own = self.linear_index();
                let shift = self.random.below(PADDING) as i64;
                let shift = self.builder.const_int(Scalar::I32, shift);
                self.builder.op(Op::Add, &[own, shift])
            }
            1 => {
                let ty = self.random.pick(&[Scalar::I32, Scalar::I64, Scalar::U32, Scalar::U8, Scalar::I16]);
                self.small(ty, PADDING as i64 - 1)
            }
            2 => {
                let index = self.small(Scalar::I32, PADDING as i64 - 1);
                self.builder.op(Op::Invert, &[index])
            }
            _ => {
                let index = self.value(Type::I32);
                let extent = self.builder.dim(array, ndim - 1);
                self.builder.op(Op::Mod, &[index, extent])
            }
        };
        operands.push(index);
        let value = self.builder.op(Op::ArrayLoad, &operands);
        self.scope.push(value);
    }

    // ---- control flow --------------------------------------------------------------------------------------------

    /// Code in `region` with its parameters in scope, ended by `yield` of values of these types or, if it may, by
    /// leaving for elsewhere. Gives whether it yields.
    fn region(&mut self, region: Region, yields: &[Type], may_leave: bool, depth: usize) -> bool {
        let outer = self.builder.switch_to(region);
        let n_outer = self.scope.len();
        let params = self.builder.func.regions[region].params.clone();
        self.scope.extend(params);
        self.code(depth - 1);
        let leaves = may_leave && self.random.one_in(3) && self.leave();
        if !leaves {
            let values = self.values(yields);
            self.builder.yield_(&values);
        }
        self.scope.truncate(n_outer);
        self.builder.switch_to(outer);
        !leaves
    }

    /// Ends the region with `break`, `continue` or `return`.
    fn leave(&mut self) -> bool {
        if self.random.one_in(4) {
            let types = self.results.clone().unwrap_or_default();
            let values = self.values(&types);
            self.builder.return_(&values);
            return true;
        }
        let Some(exit) = self.exits.get(self.random.below(self.exits.len())).cloned() else { return false };
        let mut values = self.values(&exit.types);
        if exit.is_loop && self.random.one_in(2) {
            let next = exit.counter.map(|counter| self.next_count(counter));
            values.splice(0..0, next);
            self.builder.continue_(exit.inst, &values);
        } else {
            values.splice(0..0, exit.counter);
            self.builder.break_(exit.inst, &values);
        }
        true
    }

    fn next_count(&mut self, counter: Value) -> Value {
        let one = self.builder.const_int(Scalar::I32, 1);
        self.builder.op(Op::Add, &[counter, one])
    }

    fn keep_results(&mut self, inst: Inst) {
        let results = self.builder.func.insts[inst].results.clone();
        self.scope.extend(results);
    }

    fn branch(&mut self, depth: usize) {
        let cond = self.value(Type::BOOL);
        let types = self.some_types();
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        let inst = self.builder.region_inst(Op::If, &[cond], &types, &regions);
        // One side at least yields, so that the code after it can be reached.
        let yields = self.region(regions[0], &types, true, depth);
        self.region(regions[1], &types, yields, depth);
        self.keep_results(inst);
    }

    /// `if cond { leave }`.
    fn guard(&mut self) {
        let cond = self.value(Type::BOOL);
        let regions = [self.builder.create_region(&[]), self.builder.create_region(&[])];
        self.builder.region_inst(Op::If, &[cond], &[], &regions);
        let outer = self.builder.switch_to(regions[0]);
        let n_outer = self.scope.len();
        if !self.leave() {
            self.builder.yield_(&[]);
        }
        self.scope.truncate(n_outer);
        self.builder.switch_to(regions[1]);
        self.builder.yield_(&[]);
        self.builder.switch_to(outer);
    }

    fn counted_loop(&mut self, depth: usize) {
        let counter = self.random.pick(&[Scalar::I32, Scalar::I32, Scalar::I64, Scalar::U32, Scalar::I8, Scalar::U16]);
        let types = self.some_types();
        // Up to 7 steps from a start near 0 or at the type's end, to one or another side.
        let lo = if self.random.one_in(4) { self.value(counter.into()) } else { self.small(counter, 3) };
        let step = self.random.pick(&[1, 1, 1, 2, 3, -1, 0, i64::MAX]);
        let steps = self.small(counter, 7);
        let step = self.builder.const_int(counter, step);
        let span = self.builder.op(Op::Mul, &[steps, step]);
        let hi = self.builder.op(Op::Add, &[lo, span]);
        let mut operands = vec![lo, hi, step];
        operands.extend(self.values(&types));
        let params: Vec<Type> = [counter.into()].into_iter().chain(types.iter().copied()).collect();
        let region = self.builder.create_region(&params);
        let inst = self.builder.region_inst(Op::ForRange, &operands, &types, &[region]);
        self.exits.push(Exit { inst, types: types.clone(), counter: None, is_loop: true });
        self.region(region, &types, true, depth);
        self.exits.pop();
        self.keep_results(inst);
    }

    /// A loop of at most 6 iterations that random code may end sooner.
    fn while_loop(&mut self, depth: usize) {
        let types = self.some_types();
        let mut carried = vec![Type::I32];
        carried.extend(&types);
        let mut operands = vec![self.builder.const_int(Scalar::I32, 0)];
        operands.extend(self.values(&types));
        let regions = [self.builder.create_region(&carried), self.builder.create_region(&carried)];
        let inst = self.builder.region_inst(Op::While, &operands, &carried, &regions);
        let outer = self.builder.switch_to(regions[0]);
        let n_outer = self.scope.len();
        let params = self.builder.func.regions[regions[0]].params.to_vec();
        self.scope.extend(&params);
        let limit = self.random.below(7) as i64;
        let limit = self.builder.const_int(Scalar::I32, limit);
        let below = self.builder.op(Op::Lt, &[params[0], limit]);
        let wanted = self.value(Type::BOOL);
        let cond = if self.random.one_in(2) { self.builder.op(Op::BitAnd, &[below, wanted]) } else { below };
        self.builder.yield_(&[cond]);
        self.scope.truncate(n_outer);

        self.builder.switch_to(regions[1]);
        let params = self.builder.func.regions[regions[1]].params.to_vec();
        self.scope.extend(&params);
        self.exits.push(Exit { inst, types: types.clone(), counter: Some(params[0]), is_loop: true });
        self.code(depth - 1);
        self.exits.pop();
        let mut next = vec![self.next_count(params[0])];
        next.extend(self.values(&types));
        self.builder.yield_(&next);
        self.scope.truncate(n_outer);
        self.builder.switch_to(outer);
        self.keep_results(inst);
    }

    fn block(&mut self, depth: usize) {
        let types = self.some_types();
        let region = self.builder.create_region(&[]);
        let inst = self.builder.region_inst(Op::Block, &[], &types, &[region]);
        self.exits.push(Exit { inst, types: types.clone(), counter: None, is_loop: false });
        self.region(region, &types, false, depth);
        self.exits.pop();
        self.keep_results(inst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_valid_and_end() {
        let mut n_long = 0;
        for seed in 0..500 {
            let program = program(seed, Options::default());
            if let Err(errors) = crate::verify::verify_module(&program.module) {
                panic!("seed {seed}: {errors:#?}\n{}", program.module);
            }
            match program.interpret(&program.module, program.kernel) {
                Ok(_) => {}
                Err(InterpError::StepLimit { .. }) => n_long += 1,
                Err(InterpError::NoDefinition { .. }) => {}
                Err(error) => panic!("seed {seed}: {error:?}\n{}", program.module),
            }
        }
        assert!(n_long < 5, "{n_long} programs run long");
    }

    #[test]
    fn the_order_of_threads_does_not_matter() {
        for seed in 0..200 {
            let program = program(seed, Options { library: false, ..Options::default() });
            let Ok(expected) = program.interpret(&program.module, program.kernel) else { continue };
            let interpreter = Interpreter::new(&program.module, program.kernel).unwrap();
            let mut memory = program.memory.clone();
            for thread in (0..program.n_threads()).rev() {
                let (args, host) = (&program.args, &mut Printed::default());
                interpreter.launch(&program.shape, args, &mut memory, host, thread..thread + 1).unwrap();
            }
            program.same_memory(&expected, &memory).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        }
    }
}
