//! Random modules the verifier accepts: every op with a signature, every structure, names, spans and attributes.
//!
//! They have the right types and dominance and are otherwise meaningless: the text form, the verifier and passes are
//! tested with them. Programs that run come from [`polyloom_ir::generate`].

use polyloom_ir::generate::Random;
use polyloom_ir::*;

/// The module of a seed. The verifier accepts it.
pub fn random_module(seed: u64) -> Module {
    let mut random = Random::new(seed);
    let mut module = Module::new();
    for index in 0..1 + random.below(4) {
        let kind = if random.one_in(3) { FunctionKind::Kernel } else { FunctionKind::Func };
        let n_params = random.below(4);
        let params: Vec<(String, Type)> = (0..n_params).map(|i| (format!("p{i}"), param_type(&mut random))).collect();
        let n_results = if kind == FunctionKind::Kernel { 0 } else { random.below(3) };
        let results: Vec<Type> = (0..n_results).map(|_| scalar_type(&mut random)).collect();
        let name = if random.one_in(5) { format!("odd name {index}") } else { format!("f{index}") };
        let params = params.iter().map(|(name, ty)| (name.as_str(), *ty));
        let mut func = Function::new(name, kind, params, &results);
        attributes(&mut random, &mut func);
        let values = func.params().to_vec();
        let b = Builder::new(&mut func);
        let mut generator =
            ModuleGenerator { random: &mut random, module: &module, b, values, exits: Vec::new(), results };
        generator.code(4);
        let results = generator.any_of_types(&generator.results.clone());
        generator.b.return_(&results);
        module.functions.push(func);
    }
    module
}

fn attributes(random: &mut Random, func: &mut Function) {
    let metadata = &mut func.metadata;
    metadata.kind = random.pick(&KernelKind::ALL);
    metadata.float_mode = random.pick(&FloatMode::ALL);
    metadata.target = CompileTarget::from_name(random.pick(&["", "cpu", "cuda:0", "sm_80", "sim:0", "auto"]));
    metadata.workgroup_size = random.one_in(3).then(|| [1, 2, random.below(9) as u32]);
    metadata.launch_bounds = random.one_in(3).then(|| (256, random.one_in(2).then_some(2)));
    metadata.max_registers = random.one_in(4).then_some(64);
    metadata.check = random.one_in(2);
    metadata.hints = (0..random.below(3)).map(|i| (format!("k{i}"), "a \"v\"\u{1}".to_owned())).collect();
    func.constraints.inline_always = random.one_in(2);
    func.constraints.cpu_affinity = (0..random.below(3) as u32).collect();
    func.constraints.target_latency_ns = random.one_in(3).then_some(50);
}

fn scalar_type(random: &mut Random) -> Type {
    random.pick(&Scalar::ALL).into()
}

fn param_type(random: &mut Random) -> Type {
    if random.one_in(2) {
        return scalar_type(random);
    }
    Type::array(random.pick(&Scalar::ALL), 1 + random.below(MAX_DIMS) as u8)
}

struct ModuleGenerator<'a, 'f> {
    random: &'a mut Random,
    module: &'a Module,
    b: Builder<'f>,
    /// Holds what is in scope.
    values: Vec<Value>,
    /// Enclosing instructions that can be left, with their result types, and whether they are loops.
    exits: Vec<(Inst, Vec<Type>, bool)>,
    /// Result types of the function.
    results: Vec<Type>,
}

impl ModuleGenerator<'_, '_> {
    /// Instructions, no terminator.
    fn code(&mut self, depth: usize) {
        for _ in 0..1 + self.random.below(6) {
            let span = match self.random.below(3) {
                0 => Span::NONE,
                n => Span::new(FileId::from_u32(n as u32), self.random.below(100) as u32, 100),
            };
            self.b.set_span(span);
            match self.random.below(12) {
                0 if depth > 0 => self.branch(depth),
                1 if depth > 0 => self.counted_loop(depth),
                2 if depth > 0 => self.while_loop(depth),
                3 if depth > 0 => self.block(depth),
                4 => self.glue(),
                5 => self.call(),
                _ => self.table_op(),
            }
        }
    }

    /// A value in scope of this type, often a new constant.
    fn any(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.values.iter().copied().filter(|&v| self.b.func.ty(v) == ty).collect();
        if !fitting.is_empty() && !self.random.one_in(4) {
            return self.random.pick(&fitting);
        }
        let scalar = ty.as_scalar().expect("arrays are parameters and looked for before");
        let bits = match self.random.below(4) {
            0 => self.random.bits(),
            1 => f64::from(self.random.below(100) as f32).to_bits(),
            2 => u64::from((self.random.below(100) as f32 / 8.0).to_bits()),
            _ => self.random.below(100) as u64,
        };
        let value = self.b.const_bits(scalar, bits & (u64::MAX >> (64 - scalar.bits())));
        self.keep(&[value]);
        value
    }

    fn any_of_types(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|&ty| self.any(ty)).collect()
    }

    fn any_types(&mut self) -> Vec<Type> {
        (0..self.random.below(3)).map(|_| scalar_type(self.random)).collect()
    }

    fn keep(&mut self, values: &[Value]) {
        for &value in values {
            if self.random.one_in(4) {
                self.b.func.value_names[value] = Some(self.random.pick(&["x", "longer_name", "not a word"]).into());
            }
            self.values.push(value);
        }
    }

    fn array(&mut self) -> Option<Value> {
        let arrays: Vec<Value> =
            self.values.iter().copied().filter(|&v| self.b.func.ty(v).as_array().is_some()).collect();
        (!arrays.is_empty()).then(|| self.random.pick(&arrays))
    }

    /// Any op with a signature that can be met.
    fn table_op(&mut self) {
        use op::TyPattern;
        let special = [Op::Cast, Op::Bitcast, Op::Tid, Op::WrapIndex, Op::Assert, Op::Check];
        let ops = Op::all().filter(|info| {
            !info.signatures.is_empty() && !special.contains(&info.op) && info.group != op::OpGroup::Gpu
        });
        let ops: Vec<&op::OpInfo> = ops.collect();
        let info = self.random.pick(&ops);
        let signature = &info.signatures[self.random.below(info.signatures.len())];
        if signature.has_composites() {
            return;
        }
        let array = self.array();
        let var = match array.map(|a| self.b.func.ty(a)) {
            Some(Type::Array { elem, .. }) if signature.params.iter().any(|p| p.ty == TyPattern::ArrayOfVar) => elem,
            _ => {
                let members: Vec<Scalar> = signature.var.into_iter().flat_map(|class| class.members()).collect();
                if members.is_empty() { Scalar::I32 } else { self.random.pick(&members) }
            }
        };
        let mut operands = Vec::new();
        for param in &signature.params {
            match param.ty {
                TyPattern::Var | TyPattern::Var2 => operands.push(self.any(var.into())),
                TyPattern::Is(scalar) => operands.push(self.any(scalar.into())),
                TyPattern::ArrayOfVar | TyPattern::ListOfVar | TyPattern::ArrayOf(_) => match array {
                    Some(array) => operands.push(array),
                    None => return,
                },
                TyPattern::Indices => {
                    let ndim = array.and_then(|a| self.b.func.ty(a).as_array()).map_or(0, |(_, ndim)| ndim);
                    for _ in 0..ndim {
                        let index = self.random.pick(&[Type::I32, Type::I64, Type::U32]);
                        operands.push(self.any(index));
                    }
                }
                TyPattern::Composite
                | TyPattern::ArrayOfComposite
                | TyPattern::Vector(_)
                | TyPattern::VectorOf(..)
                | TyPattern::Matrix(..)
                | TyPattern::ArrayOfComponents
                | TyPattern::Quaternion
                | TyPattern::Transform => return,
            }
        }
        let types: Vec<Type> = operands.iter().map(|&v| self.b.func.ty(v)).collect();
        if signature.result_types(&types).is_some() {
            let results = self.b.op_results(info.op, &operands);
            self.keep(&results);
        }
    }

    /// The ops the table leaves to the verifier.
    fn glue(&mut self) {
        let result = match self.random.below(8) {
            0 => {
                let from = self.any_of_types(&[Type::F32])[0];
                let to = self.random.pick(&Scalar::ALL);
                self.b.cast(from, to)
            }
            1 => {
                let from = self.any(Type::F32);
                self.b.bitcast(from, Scalar::U32)
            }
            6 => {
                let of = AxisExtent { name: "näme".into(), axis: 1, extent: 1 + self.random.below(1000) as u16 };
                let index = self.any(Scalar::U8.into());
                let inst = self.b.inst(Op::WrapIndex, &[index], &[Type::I32], Imm::Extent(of));
                self.b.func.insts[inst].results[0]
            }
            2 => self.b.tid(self.random.below(MAX_DIMS) as u8),
            3 => match self.array() {
                Some(array) => {
                    let ndim = self.b.func.ty(array).as_array().map_or(1, |(_, ndim)| ndim);
                    self.b.dim(array, self.random.below(ndim as usize) as u8)
                }
                None => return,
            },
            4 => {
                let cond = self.any(Type::BOOL);
                self.b.inst(Op::Assert, &[cond], &[], Imm::Text("message; with \"marks\"\n{".into()));
                return;
            }
            5 => {
                let operands = self.any_of_types(&[Type::BOOL, Type::I64, Type::I64]);
                let kind = match self.random.below(2) {
                    0 => CheckKind::Division,
                    _ => CheckKind::Bounds { array: "näme".into(), axis: 3, unsigned: self.random.below(2) == 0 },
                };
                self.b.inst(Op::Check, &operands, &[], Imm::Check(kind));
                return;
            }
            _ => {
                let types = self.any_types();
                let operands = self.any_of_types(&types);
                self.b.inst(Op::Print, &operands, &[], Imm::Text("%d\r\n".into()));
                return;
            }
        };
        self.keep(&[result]);
    }

    fn call(&mut self) {
        let callees: Vec<FuncId> = self.module.functions.keys().collect();
        let Some(&callee) = callees.get(self.random.below(callees.len().max(1))) else { return };
        let function = &self.module.functions[callee];
        let types: Vec<Type> = function.params().iter().map(|&p| function.ty(p)).collect();
        let has = |v: &Type| v.as_scalar().is_some() || self.values.iter().any(|&w| self.b.func.ty(w) == *v);
        if function.kind == FunctionKind::Kernel || !types.iter().all(has) {
            return;
        }
        let operands: Vec<Value> = types
            .iter()
            .map(|&ty| match ty {
                Type::Scalar(_) => self.any(ty),
                _ => *self.values.iter().find(|&&v| self.b.func.ty(v) == ty).expect("looked for above"),
            })
            .collect();
        let results = self.b.call(callee, &operands, &function.results);
        self.keep(&results);
    }

    /// Code in `region` with its parameters in scope, ended by `yield` of these types or by an early exit.
    /// Gives whether it yields.
    fn region(&mut self, region: Region, yields: &[Type], may_leave: bool, depth: usize) -> bool {
        let outer = self.b.switch_to(region);
        let n_outer_values = self.values.len();
        let params = self.b.func.regions[region].params.clone();
        self.keep(&params);
        self.code(depth - 1);
        let exit = if self.random.one_in(3) && !self.exits.is_empty() {
            let index = self.random.below(self.exits.len());
            Some(self.exits[index].clone())
        } else {
            None
        };
        let leaves = match exit {
            _ if may_leave && self.random.one_in(8) => {
                let values = self.any_of_types(&self.results.clone());
                self.b.return_(&values);
                true
            }
            Some((target, types, is_loop)) if may_leave => {
                let values = self.any_of_types(&types);
                if is_loop && self.random.one_in(2) {
                    self.b.continue_(target, &values);
                } else {
                    self.b.break_(target, &values);
                }
                true
            }
            _ => {
                let values = self.any_of_types(yields);
                self.b.yield_(&values);
                false
            }
        };
        self.values.truncate(n_outer_values);
        self.b.switch_to(outer);
        !leaves
    }

    fn results(&mut self, inst: Inst) {
        let results = self.b.func.insts[inst].results.clone();
        self.keep(&results);
    }

    fn branch(&mut self, depth: usize) {
        let cond = self.any(Type::BOOL);
        let types = self.any_types();
        let (inst, regions) = self.b.begin_if(cond, &types);
        let yields = self.region(regions[0], &types, true, depth);
        // One branch at least yields, so that the code after it can be reached.
        self.region(regions[1], &types, yields, depth);
        self.results(inst);
    }

    fn counted_loop(&mut self, depth: usize) {
        let counter = self.random.pick(&[Type::I32, Type::I64, Type::U32]);
        let types = self.any_types();
        let bounds = [(); 3].map(|()| self.any(counter));
        let carried = self.any_of_types(&types);
        let (inst, region) = self.b.begin_for_range(bounds, &carried);
        self.exits.push((inst, types.clone(), true));
        self.region(region, &types, true, depth);
        self.exits.pop();
        self.results(inst);
    }

    fn while_loop(&mut self, depth: usize) {
        let types = self.any_types();
        let operands = self.any_of_types(&types);
        let (inst, regions) = self.b.begin_while(&operands);
        self.region(regions[0], &[Type::BOOL], false, depth);
        self.exits.push((inst, types.clone(), true));
        self.region(regions[1], &types, true, depth);
        self.exits.pop();
        self.results(inst);
    }

    fn block(&mut self, depth: usize) {
        let types = self.any_types();
        let region = self.b.create_region(&[]);
        let inst = self.b.region_inst(Op::Block, &[], &types, &[region]);
        self.exits.push((inst, types.clone(), false));
        self.region(region, &types, false, depth);
        self.exits.pop();
        self.results(inst);
    }
}
