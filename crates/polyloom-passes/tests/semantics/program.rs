//! Random programs that run: every access is inside its array, every loop ends.

use polyloom_ir::generate::Random;
use polyloom_ir::op::{Lowering, OpGroup};
use polyloom_ir::*;

/// The bits of a value that tends to be small or at an edge.
pub(super) fn value(random: &mut Random, scalar: Scalar) -> u64 {
    let mask = u64::MAX >> (64 - scalar.bits());
    let small = random.below(7) as i64 - 3;
    let number = match random.below(8) {
        0 => return random.bits() & mask,
        1 => f64::from(i32::MAX),
        2 => -2147483648.0,
        3 => 0.5 * small as f64,
        _ => small as f64,
    };
    let from = [number.to_bits()];
    eval::eval(Op::Cast, &[Type::F64], &from, scalar.into()).expect("numbers convert")
}

/// Number of elements each array has, per axis.
pub(super) const EXTENT: usize = 8;

/// The arrays of every generated kernel.
pub(super) const ARRAYS: [(&str, Scalar, u8); 4] =
    [("ints", Scalar::I32, 1), ("floats", Scalar::F32, 1), ("halves", Scalar::F16, 1), ("bytes", Scalar::U8, 2)];

/// The scalar parameters of every generated kernel.
pub(super) const SCALARS: [(&str, Scalar); 5] =
    [("n", Scalar::I32), ("x", Scalar::F32), ("flag", Scalar::Bool), ("wide", Scalar::I64), ("count", Scalar::U32)];

/// A module whose last function is a kernel that calls some of the others.
pub(super) fn program(seed: u64) -> (Module, FuncId) {
    let mut random = Random::new(seed);
    let mut module = Module::new();
    for index in 0..random.below(3) {
        let n_params = 1 + random.below(3);
        let params: Vec<(String, Type)> =
            (0..n_params).map(|i| (format!("p{i}"), scalar(&mut random).into())).collect();
        let results: Vec<Type> = (0..1 + random.below(2)).map(|_| scalar(&mut random).into()).collect();
        let name = if random.one_in(4) { "sign.f32".to_owned() } else { format!("f{index}") };
        if module.find(&name).is_some() {
            continue;
        }
        let params = params.iter().map(|(name, ty)| (name.as_str(), *ty));
        let mut func = Function::new(name, FunctionKind::Func, params, &results);
        Generator::new(&mut random, &module, &mut func).body(3);
        module.functions.push(func);
    }
    let arrays = ARRAYS.iter().map(|&(name, elem, ndim)| (name, Type::array(elem, ndim)));
    let scalars = SCALARS.iter().map(|&(name, scalar)| (name, scalar.into()));
    let mut kernel = Function::new("k", FunctionKind::Kernel, arrays.chain(scalars), &[]);
    Generator::new(&mut random, &module, &mut kernel).body(3);
    let kernel = module.functions.push(kernel);
    (module, kernel)
}

fn scalar(random: &mut Random) -> Scalar {
    const COMMON: [Scalar; 4] = [Scalar::I32, Scalar::F32, Scalar::Bool, Scalar::I64];
    if random.one_in(3) { random.pick(&Scalar::ALL) } else { random.pick(&COMMON) }
}

struct Exit {
    inst: Inst,
    types: Vec<Type>,
    is_loop: bool,
    /// The first carried value counts iterations of a `while`: whoever continues must count on.
    counter: Option<Value>,
}

struct Generator<'a, 'f> {
    random: &'a mut Random,
    module: &'a Module,
    b: Builder<'f>,
    scope: Vec<Value>,
    exits: Vec<Exit>,
    n_left: usize,
}

impl<'a, 'f> Generator<'a, 'f> {
    fn new(random: &'a mut Random, module: &'a Module, func: &'f mut Function) -> Self {
        let scope = func.params().iter().copied().filter(|&v| func.ty(v).as_scalar().is_some()).collect();
        Generator { random, module, b: Builder::new(func), scope, exits: Vec::new(), n_left: 60 }
    }

    fn body(&mut self, depth: usize) {
        if self.b.func.kind == FunctionKind::Kernel {
            let axis = self.random.below(2) as u8;
            let tid = if self.random.one_in(2) { self.b.op(Op::TidLinear, &[]) } else { self.b.tid(axis) };
            self.scope.push(tid);
        }
        self.code(depth);
        self.code(depth);
        let results = self.b.func.results.clone();
        let values = self.values(&results);
        self.b.return_(&values);
    }

    fn code(&mut self, depth: usize) {
        for _ in 0..2 + self.random.below(6) {
            if self.n_left == 0 {
                return;
            }
            self.n_left -= 1;
            match self.random.below(16) {
                0 | 1 if depth > 0 => self.branch(depth),
                2 if depth > 0 => self.counted_loop(depth),
                3 if depth > 0 => self.while_loop(depth),
                4 if depth > 0 => self.block(depth),
                5..=7 => self.access(),
                8 => self.call(),
                9 => self.library(),
                10 => self.cast(),
                _ => self.native(),
            }
        }
    }

    fn value(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.scope.iter().copied().filter(|&v| self.b.func.ty(v) == ty).collect();
        if !fitting.is_empty() && !self.random.one_in(3) {
            // The latest are used most, so that values depend on values.
            let from = if self.random.one_in(2) { fitting.len().saturating_sub(3) } else { 0 };
            return fitting[from + self.random.below(fitting.len() - from)];
        }
        let scalar = ty.as_scalar().expect("only scalars are asked for");
        let bits = value(self.random, scalar);
        let value = self.b.const_bits(scalar, bits);
        self.scope.push(value);
        value
    }

    fn values(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|&ty| self.value(ty)).collect()
    }

    fn types(&mut self) -> Vec<Type> {
        (0..self.random.below(3)).map(|_| scalar(self.random).into()).collect()
    }

    /// A native op of random operands. Left out: what makes a NaN's sign visible.
    fn native(&mut self) {
        let ops: Vec<_> = Op::all()
            .filter(|info| info.is_pure() && info.lowering == Lowering::Native && info.op != Op::Copysign)
            .filter(|info| {
                matches!(info.group, OpGroup::Arithmetic | OpGroup::Comparison | OpGroup::Bits | OpGroup::Math)
                    || info.op == Op::Select
            })
            .collect();
        let info = self.random.pick(&ops);
        let operand = scalar(self.random);
        let n_operands = info.signatures[0].params.len();
        let types: Vec<Type> = (0..n_operands)
            .map(|i| if info.op == Op::Select && i == 0 { Type::BOOL } else { operand.into() })
            .collect();
        if info.signatures.iter().any(|s| s.result_types(&types).is_some()) {
            let operands = self.values(&types);
            let result = self.b.op(info.op, &operands);
            self.scope.push(result);
        }
    }

    fn cast(&mut self) {
        let from = scalar(self.random);
        let to = scalar(self.random);
        let value = self.value(from.into());
        let result = self.b.cast(value, to);
        self.scope.push(result);
    }

    fn library(&mut self) {
        const OPS: [Op; 10] = [
            Op::Sign,
            Op::Clamp,
            Op::Mod,
            Op::FloorDiv,
            Op::Round,
            Op::IsNan,
            Op::Randf,
            Op::Randi,
            Op::Lerp,
            Op::Step,
        ];
        let op = self.random.pick(&OPS);
        let scalar = scalar(self.random);
        let signature = self.random.below(op.info().signatures.len());
        let params = &op.info().signatures[signature].params;
        let types: Vec<Type> = params
            .iter()
            .map(|param| match param.ty {
                op::TyPattern::Is(scalar) => scalar.into(),
                _ => scalar.into(),
            })
            .collect();
        let fits = op.info().signatures[signature].result_types(&types).is_some();
        if fits && math::library_function(op, &types).is_some() {
            let operands = self.values(&types);
            let results = self.b.op_results(op, &operands);
            self.scope.extend(results);
        }
    }

    fn call(&mut self) {
        if self.module.functions.is_empty() {
            return;
        }
        let callee = FuncId::from_u32(self.random.below(self.module.functions.len()) as u32);
        let function = &self.module.functions[callee];
        let types: Vec<Type> = function.params().iter().map(|&p| function.ty(p)).collect();
        let operands = self.values(&types);
        let results = self.b.call(callee, &operands, &function.results);
        self.scope.extend(results);
    }

    /// An index in `-EXTENT..EXTENT`, or one that is not negative by how it is made or guarded.
    fn index(&mut self) -> Value {
        let ty = self.random.pick(&[Scalar::I32, Scalar::I32, Scalar::I64, Scalar::I8, Scalar::U32]);
        let any = self.value(ty.into());
        let extent = EXTENT as i64;
        match self.random.below(4) {
            0 => {
                let low = self.b.const_int(ty, extent - 1);
                self.b.op(Op::BitAnd, &[any, low])
            }
            1 if ty.is_signed_int() => {
                let n = self.b.const_int(ty, extent);
                // The sign is the dividend's.
                self.b.op(Op::Mod, &[any, n])
            }
            2 => {
                let (zero, last) = (self.b.const_int(ty, 0), self.b.const_int(ty, extent - 1));
                let low = self.b.op(Op::Max, &[any, zero]);
                self.b.op(Op::Min, &[low, last])
            }
            _ if ty.is_signed_int() => {
                let (mask, n) = (self.b.const_int(ty, 2 * extent - 1), self.b.const_int(ty, extent));
                let low = self.b.op(Op::BitAnd, &[any, mask]);
                self.b.op(Op::Sub, &[low, n])
            }
            _ => self.b.const_int(ty, extent - 1),
        }
    }

    fn access(&mut self) {
        if self.b.func.kind != FunctionKind::Kernel {
            return self.native();
        }
        let number = self.random.below(ARRAYS.len());
        let (_, elem, ndim) = ARRAYS[number];
        let array = self.b.func.params()[number];
        let mut operands = vec![array];
        if self.random.one_in(4) && ndim == 1 {
            return self.guarded_access(array, elem);
        }
        for _ in 0..ndim {
            let index = self.index();
            operands.push(index);
        }
        match self.random.below(6) {
            0 if elem == Scalar::I32 => {
                let value = self.value(elem.into());
                operands.push(value);
                let op = self.random.pick(&[Op::AtomicAdd, Op::AtomicMin, Op::AtomicXor, Op::AtomicExch]);
                let old = self.b.op(op, &operands);
                self.scope.push(old);
            }
            1..=3 => {
                let element = self.b.op(Op::ArrayLoad, &operands);
                self.scope.push(element);
            }
            _ => {
                let value = self.value(elem.into());
                operands.push(value);
                self.b.inst(Op::ArrayStore, &operands, &[], Imm::None);
            }
        }
    }

    /// Accesses to the neighbours of an element, under a condition that keeps them inside.
    fn guarded_access(&mut self, array: Value, elem: Scalar) {
        let i = self.value(Type::I32);
        let (zero, one) = (self.b.const_int(Scalar::I32, 0), self.b.const_int(Scalar::I32, 1));
        let extent = self.b.dim(array, 0);
        let last = self.b.op(Op::Sub, &[extent, one]);
        let above = self.b.op(Op::Gt, &[i, zero]);
        let below = self.b.op(Op::Lt, &[i, last]);
        let inside = self.b.op(Op::BitAnd, &[above, below]);
        let (_, regions) = self.b.begin_if(inside, &[]);
        let outer = self.b.switch_to(regions[0]);
        let left = self.b.op(Op::Sub, &[i, one]);
        let right = self.b.op(Op::Add, &[i, one]);
        let x = self.b.op(Op::ArrayLoad, &[array, left]);
        let y = self.b.op(Op::ArrayLoad, &[array, right]);
        let sum = if elem == Scalar::Bool { x } else { self.b.op(Op::Add, &[x, y]) };
        self.b.inst(Op::ArrayStore, &[array, i, sum], &[], Imm::None);
        self.b.yield_(&[]);
        self.b.switch_to(regions[1]);
        self.b.yield_(&[]);
        self.b.switch_to(outer);
    }

    /// Fills a region: code, then its end. Gives whether it completes.
    fn region(&mut self, region: Region, yields: &[Type], depth: usize) -> bool {
        let scope = self.scope.len();
        let outer = self.b.switch_to(region);
        self.scope.extend(self.b.func.regions[region].params.iter().copied());
        self.code(depth - 1);
        let completes = self.end(yields, None);
        self.scope.truncate(scope);
        self.b.switch_to(outer);
        completes
    }

    /// Ends the region by a `yield` or, now and then, by leaving it.
    fn end(&mut self, yields: &[Type], counter: Option<Value>) -> bool {
        if self.random.one_in(4) {
            if self.random.one_in(4) {
                let results = self.b.func.results.clone();
                let values = self.values(&results);
                self.b.return_(&values);
                return false;
            }
            if !self.exits.is_empty() {
                let index = self.random.below(self.exits.len());
                let (inst, types) = (self.exits[index].inst, self.exits[index].types.clone());
                let mut values = self.values(&types);
                if self.exits[index].is_loop && self.random.one_in(2) {
                    if let Some(counter) = self.exits[index].counter {
                        values[0] = self.counted(counter);
                    }
                    self.b.continue_(inst, &values);
                } else {
                    self.b.break_(inst, &values);
                }
                return false;
            }
        }
        let mut values = self.values(yields);
        if let Some(counter) = counter {
            values[0] = self.counted(counter);
        }
        self.b.yield_(&values);
        true
    }

    fn counted(&mut self, counter: Value) -> Value {
        let one = self.b.const_int(Scalar::I32, 1);
        self.b.op(Op::Add, &[counter, one])
    }

    fn branch(&mut self, depth: usize) {
        let cond = self.value(Type::BOOL);
        let types = self.types();
        let (inst, regions) = self.b.begin_if(cond, &types);
        if self.region(regions[0], &types, depth) {
            self.region(regions[1], &types, depth);
        } else {
            // One side must go on, for there is more to come.
            let scope = self.scope.len();
            let outer = self.b.switch_to(regions[1]);
            let values = self.values(&types);
            self.b.yield_(&values);
            self.scope.truncate(scope);
            self.b.switch_to(outer);
        }
        let results = self.b.func.insts[inst].results.clone();
        self.scope.extend(results);
    }

    fn counted_loop(&mut self, depth: usize) {
        let ty = self.random.pick(&[Scalar::I32, Scalar::I32, Scalar::I64, Scalar::U8]);
        // Bounds and steps are small: at most a few iterations.
        let bounds = if self.random.one_in(2) {
            let low = self.random.below(4) as i64;
            let high = self.random.below(6) as i64;
            let step = self.random.below(4) as i64 - 1;
            [low, high, step].map(|n| self.b.const_int(ty, n))
        } else {
            let mask = self.b.const_int(ty, 3);
            let (low, high) = (self.value(ty.into()), self.value(ty.into()));
            let (low, high) = (self.b.op(Op::BitAnd, &[low, mask]), self.b.op(Op::BitAnd, &[high, mask]));
            [low, high, self.b.const_int(ty, 1)]
        };
        let types = self.types();
        let carried = self.values(&types);
        let (inst, region) = self.b.begin_for_range(bounds, &carried);
        self.exits.push(Exit { inst, types: types.clone(), is_loop: true, counter: None });
        self.region(region, &types, depth);
        self.exits.pop();
        let results = self.b.func.insts[inst].results.clone();
        self.scope.extend(results);
    }

    fn while_loop(&mut self, depth: usize) {
        let mut types = vec![Type::I32];
        types.extend(self.types());
        let zero = self.b.const_int(Scalar::I32, 0);
        let mut inits = vec![zero];
        inits.extend(self.values(&types[1..]));
        let (inst, regions) = self.b.begin_while(&inits);
        let scope = self.scope.len();
        let outer = self.b.switch_to(regions[0]);
        let counter = self.b.func.regions[regions[0]].params[0];
        self.scope.extend(self.b.func.regions[regions[0]].params[1..].iter().copied());
        for _ in 0..self.random.below(3) {
            self.native();
        }
        let limit = self.b.const_int(Scalar::I32, 3);
        let below = self.b.op(Op::Lt, &[counter, limit]);
        let other = self.value(Type::BOOL);
        let cond = if self.random.one_in(2) { below } else { self.b.op(Op::BitAnd, &[below, other]) };
        self.b.yield_(&[cond]);
        self.scope.truncate(scope);

        self.b.switch_to(regions[1]);
        let counter = self.b.func.regions[regions[1]].params[0];
        self.scope.extend(self.b.func.regions[regions[1]].params.iter().copied());
        self.exits.push(Exit { inst, types: types.clone(), is_loop: true, counter: Some(counter) });
        self.code(depth - 1);
        self.end(&types, Some(counter));
        self.exits.pop();
        self.scope.truncate(scope);
        self.b.switch_to(outer);
        let results = self.b.func.insts[inst].results.clone();
        self.scope.extend(results);
    }

    fn block(&mut self, depth: usize) {
        let types = self.types();
        let region = self.b.create_region(&[]);
        let inst = self.b.region_inst(Op::Block, &[], &types, &[region]);
        self.exits.push(Exit { inst, types: types.clone(), is_loop: false, counter: None });
        self.region(region, &types, depth);
        self.exits.pop();
        let results = self.b.func.insts[inst].results.clone();
        self.scope.extend(results);
    }
}
