//! Every op of the table, with every type it takes, for every architecture: PTX, or our diagnostic of what the
//! architecture lacks (PL0602). LLVM ends the process on what it cannot do, so that this ends is half of what is shown.

use crate::gpu::{prepare, ptx, ptx_of_version, ptxas_takes};
use polyloom_ir::fragment::{FragmentAccess, MatrixRole, fragment_type};
use polyloom_ir::function::{CacheUse, NamedBarrier, SharedArray, SharedCopy};
use polyloom_ir::op::{ExtentPattern, OpGroup, OpInfo, Signature, TyPattern};
use polyloom_ir::{
    AddressSpace, Arch, AtomicOrdering, AxisExtent, Builder, CheckKind, Code, Composite, FuncId, Function,
    FunctionKind, Imm, MemoryOrder, MemoryScope, Module, Op, PtxVersion, Scalar, Type, Value, check_arch,
    check_version, verify_module,
};

/// The elements of arrays of composites.
fn vector(elem: Scalar) -> Composite {
    Composite::Vector { elem, len: 3 }
}

/// A kernel that has an op with all types it takes. Its parameters are an array of each scalar type, of two dimensions,
/// and one of vectors of each.
struct Sample<'f> {
    builder: Builder<'f>,
    params: Vec<Value>,
    thread: Value,
    n_shared: u32,
    n_cases: usize,
}

impl Sample<'_> {
    fn param(&self, elem: Scalar) -> Value {
        self.params[Scalar::ALL.iter().position(|&ty| ty == elem).expect("it is a scalar type")]
    }

    fn array(&mut self, ty: Type) -> Value {
        match ty {
            Type::CompositeArray { elem, space: AddressSpace::Global, .. } => {
                let place = Scalar::ALL.iter().position(|&ty| ty == elem.elem()).expect("it is a scalar type");
                self.params[2 * Scalar::ALL.len() + place]
            }
            Type::Array { elem, ndim: 1, space: AddressSpace::Global } => {
                let place = Scalar::ALL.iter().position(|&ty| ty == elem).expect("it is a scalar type");
                self.params[Scalar::ALL.len() + place]
            }
            Type::Array { elem, space: AddressSpace::Global, .. } => self.param(elem),
            _ => {
                let id = self.n_shared;
                self.n_shared += 1;
                let ndim = usize::from(ty.as_any_array().expect("it is an array").1);
                let array = SharedArray { id, extents: [32, 16][..ndim].into(), align: 16 };
                let inst = self.builder.inst(Op::SharedArray, &[], &[ty], Imm::Shared(Box::new(array)));
                self.builder.func.insts[inst].results[0]
            }
        }
    }

    /// A value that nothing is known of.
    fn value(&mut self, ty: Type) -> Value {
        if ty.as_any_array().is_some() {
            return self.array(ty);
        }
        if let Some(composite) = ty.as_composite() {
            let elem = self.value(composite.elem().into());
            let inst = self.builder.inst(Op::Construct, &vec![elem; composite.n_components()], &[ty], Imm::None);
            return self.builder.func.insts[inst].results[0];
        }
        let array = self.param(ty.as_scalar().expect("it is a scalar"));
        self.builder.op(Op::ArrayLoad, &[array, self.thread, self.thread])
    }

    fn keep(&mut self, value: Value) {
        match self.builder.func.ty(value) {
            Type::Scalar(scalar) => {
                let array = self.param(scalar);
                self.builder.inst(Op::ArrayStore, &[array, self.thread, self.thread, value], &[], Imm::None);
            }
            Type::Composite(composite) => {
                for number in 0..composite.n_components() as u16 {
                    let ty = composite.elem().into();
                    let inst = self.builder.inst(Op::Component, &[value], &[ty], Imm::Component(number));
                    let component = self.builder.func.insts[inst].results[0];
                    self.keep(component);
                }
            }
            _ => {
                let extent = self.builder.dim(value, 0);
                self.keep(extent);
            }
        }
    }

    fn emit(&mut self, op: Op, operands: &[Value], results: &[Type], imm: Imm) {
        let inst = self.builder.inst(op, operands, results, imm);
        for result in self.builder.func.insts[inst].results.clone() {
            self.keep(result);
        }
        self.n_cases += 1;
    }

    /// An overload with one choice of its variables.
    fn overload(&mut self, op: Op, signature: &Signature, vars: [Option<Scalar>; 2], space: AddressSpace) {
        if op == Op::Bitcast && (vars[0].map(Scalar::bits) != vars[1].map(Scalar::bits) || vars[0] == vars[1]) {
            return;
        }
        let mut operands = Vec::new();
        for param in &signature.params {
            let ty = operand_type(param.ty, vars, space).expect("there is such a type");
            let n = match param.ty {
                TyPattern::Indices if self.is_by_components(&operands, signature) => 2,
                _ => 1,
            };
            operands.extend((0..n).map(|_| self.value(ty)).collect::<Vec<_>>());
        }
        let types: Vec<Type> = operands.iter().map(|&value| self.builder.func.ty(value)).collect();
        let results = match (op, vars) {
            (Op::Cast | Op::Bitcast, [_, Some(to)]) => vec![to.into()],
            _ => signature.result_types(&types).unwrap_or_else(|| panic!("`{}` takes {types:?}", op.name())),
        };
        let is_first = std::ptr::eq(signature, &op.info().signatures[0]);
        for imm in immediates(op, vars[0].filter(|_| is_first)) {
            self.emit(op, &operands, &results, imm);
        }
    }

    fn is_by_components(&self, operands: &[Value], signature: &Signature) -> bool {
        operands.len() == 1 && signature.params[0].ty == TyPattern::ArrayOfComponents
    }

    fn overloads(&mut self, info: &OpInfo) {
        let members = |class: Option<polyloom_ir::op::TypeClass>| -> Vec<Option<Scalar>> {
            class.map_or_else(|| vec![None], |class| class.members().map(Some).collect())
        };
        let in_memory = matches!(info.group, OpGroup::Array | OpGroup::Atomic) && info.op != Op::LoadReadonly;
        for signature in &info.signatures {
            for var in members(signature.var) {
                for var2 in members(signature.var2) {
                    self.overload(info.op, signature, [var, var2], AddressSpace::Global);
                    if in_memory {
                        self.overload(info.op, signature, [var, var2], AddressSpace::Shared);
                    }
                }
            }
        }
    }

    /// Ops whose types the table does not say.
    fn by_hand(&mut self, op: Op) {
        let global = |elem, ndim| Type::Array { elem, ndim, space: AddressSpace::Global };
        let shared = |elem, ndim| Type::Array { elem, ndim, space: AddressSpace::Shared };
        let (first, second) = (self.thread, self.value(Type::I32));
        match op {
            Op::SharedArray => {
                for elem in Scalar::ALL {
                    let array = self.array(shared(elem, 2));
                    let value = self.builder.op(Op::ArrayLoad, &[array, first, second]);
                    self.keep(value);
                    self.n_cases += 1;
                }
            }
            Op::DynamicShared => {
                for elem in Scalar::ALL {
                    let operands = [first, second, second];
                    let inst = self.builder.inst(Op::DynamicShared, &operands, &[shared(elem, 2)], Imm::None);
                    let array = self.builder.func.insts[inst].results[0];
                    let value = self.builder.op(Op::ArrayLoad, &[array, first, second]);
                    self.keep(value);
                    self.n_cases += 1;
                }
            }
            Op::MmaLoadA | Op::MmaLoadB | Op::MmaLoadC | Op::MmaStore => {
                let matrix = match op {
                    Op::MmaLoadA => MatrixRole::A,
                    Op::MmaLoadB => MatrixRole::B,
                    _ => MatrixRole::C,
                };
                for (elem, n) in Scalar::ALL.into_iter().flat_map(|elem| [(elem, 8), (elem, 16)]) {
                    let Some(part) = fragment_type(matrix, elem, n) else { continue };
                    for (ty, by_columns) in [(global(elem, 2), true), (shared(elem, 2), false)] {
                        let imm = Imm::Fragment(FragmentAccess { by_columns, n });
                        let array = self.array(ty);
                        match op {
                            Op::MmaStore => {
                                let value = self.value(part.into());
                                self.emit(op, &[array, first, second, value], &[], imm);
                            }
                            _ => self.emit(op, &[array, first, second], &[part.into()], imm),
                        }
                    }
                }
            }
            Op::AsyncCopy => {
                for elem in Scalar::ALL {
                    for bytes in [4, 8, 16].into_iter().filter(|bytes| bytes % elem.bytes() == 0) {
                        let (to, from) = (self.array(shared(elem, 1)), self.array(global(elem, 2)));
                        let caches = [CacheUse::All, CacheUse::L2, CacheUse::Streaming];
                        for cache in caches.into_iter().filter(|cache| cache.takes(bytes)) {
                            let count = (bytes / elem.bytes()) as u8;
                            self.emit(
                                op,
                                &[to, second, from, first, second],
                                &[],
                                Imm::Copy(SharedCopy { count, cache, is_in_step: false }),
                            );
                        }
                    }
                }
            }
            Op::Dim => {
                for array in self.params.clone() {
                    self.emit(op, &[array], &[Type::I32], Imm::Axis(0));
                }
            }
            Op::Print => {
                let values: Vec<Value> = Scalar::ALL.iter().map(|&elem| self.value(elem.into())).collect();
                let format = Scalar::ALL.map(|ty| if ty.is_float() { "%g " } else { "%d " }).concat();
                self.emit(op, &values, &[], Imm::Text(format.into()));
            }
            // What every kernel here has.
            Op::Const | Op::Construct | Op::Call => self.n_cases += 1,
            _ => {}
        }
    }
}

fn extent(extent: ExtentPattern) -> u16 {
    match extent {
        ExtentPattern::Is(extent) => extent,
        ExtentPattern::Var(_) => 3,
    }
}

fn operand_type(pattern: TyPattern, [var, var2]: [Option<Scalar>; 2], space: AddressSpace) -> Option<Type> {
    let array = |elem| Type::Array { elem, ndim: 1, space };
    Some(match pattern {
        TyPattern::Var => var?.into(),
        TyPattern::Var2 => var2?.into(),
        TyPattern::Is(scalar) => scalar.into(),
        TyPattern::ArrayOfVar | TyPattern::ListOfVar => array(var?),
        TyPattern::ArrayOf(elem) => array(elem),
        TyPattern::Indices => Type::I32,
        TyPattern::Composite => vector(var?).into(),
        TyPattern::ArrayOfComposite | TyPattern::ArrayOfComponents => {
            Type::CompositeArray { elem: vector(var?), ndim: 1, space }
        }
        TyPattern::Vector(len) => Composite::Vector { elem: var?, len: extent(len) }.into(),
        TyPattern::VectorOf(elem, len) => Composite::Vector { elem, len }.into(),
        TyPattern::Matrix(rows, cols) => {
            Composite::Matrix { elem: var?, rows: extent(rows) as u8, cols: extent(cols) as u8 }.into()
        }
        TyPattern::Quaternion => Composite::Quaternion { elem: var? }.into(),
        TyPattern::Transform => Composite::Transform { elem: var? }.into(),
    })
}

/// Immediates of all kinds that an op may have; for atomics, with two types.
fn immediates(op: Op, elem: Option<Scalar>) -> Vec<Imm> {
    const SCOPES: [MemoryScope; 4] =
        [MemoryScope::Thread, MemoryScope::Block, MemoryScope::Device, MemoryScope::System];
    const ORDERINGS: [AtomicOrdering; 5] = [
        AtomicOrdering::Relaxed,
        AtomicOrdering::Acquire,
        AtomicOrdering::Release,
        AtomicOrdering::AcqRel,
        AtomicOrdering::SeqCst,
    ];
    let memory = || {
        let all = SCOPES.into_iter().flat_map(|scope| ORDERINGS.map(|ordering| MemoryOrder { scope, ordering }));
        all.map(Imm::Memory)
    };
    match op {
        Op::Tid | Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => (0..3).map(Imm::Axis).collect(),
        Op::ThreadFence => memory().collect(),
        Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => vec![Imm::Width(32), Imm::Width(8)],
        Op::NamedBarrier => vec![Imm::Barrier(NamedBarrier { id: 3, count: 64 })],
        Op::AsyncWait => vec![Imm::Pending(0), Imm::Pending(3)],
        Op::Component | Op::WithComponent => vec![Imm::Component(1)],
        Op::WrapIndex => vec![Imm::Extent(AxisExtent { name: "v".into(), axis: 0, extent: 3 })],
        Op::Assert => vec![Imm::Text("it holds".into())],
        Op::Check => vec![Imm::Check(CheckKind::Division)],
        op if op.info().group == OpGroup::Atomic && matches!(elem, Some(Scalar::U64 | Scalar::F16)) => {
            memory().chain([Imm::None]).collect()
        }
        _ => vec![Imm::None],
    }
}

/// The op's kernel as back ends get it.
fn sample(info: &OpInfo) -> (Module, FuncId) {
    sample_of(info, |sample| {
        sample.overloads(info);
        sample.by_hand(info.op);
    })
}

/// A kernel of what is written into it, as back ends get it.
fn sample_of(info: &OpInfo, write: impl FnOnce(&mut Sample<'_>)) -> (Module, FuncId) {
    let space = AddressSpace::Global;
    let planes = Scalar::ALL.map(|elem| Type::Array { elem, ndim: 2, space });
    let lists = Scalar::ALL.map(|elem| Type::Array { elem, ndim: 1, space });
    let vectors = Scalar::ALL.map(|elem| Type::CompositeArray { elem: vector(elem), ndim: 1, space });
    let types: Vec<Type> = planes.into_iter().chain(lists).chain(vectors).collect();
    let names: Vec<String> = (0..types.len()).map(|number| format!("a{number}")).collect();
    let params = names.iter().map(String::as_str).zip(types);
    let mut function = Function::new("sample", FunctionKind::Kernel, params, &[]);
    let params = function.params().to_vec();
    let mut builder = Builder::new(&mut function);
    let thread = builder.tid(0);
    let mut sample = Sample { builder, params, thread, n_shared: 0, n_cases: 0 };
    write(&mut sample);
    assert!(sample.n_cases > 0, "`{}` is not tested", info.name);
    sample.builder.return_(&[]);
    let mut module = Module::new();
    let id = module.functions.push(function);
    if let Err(errors) = verify_module(&module) {
        panic!("`{}`: {errors:?}\n{module}", info.name);
    }
    prepare(&module, id)
}

/// Returns true if what is emitted for an op may depend on the architecture.
fn is_of_gpus(info: &OpInfo) -> bool {
    matches!(info.group, OpGroup::Gpu | OpGroup::Atomic | OpGroup::Array | OpGroup::Index | OpGroup::Debug)
}

fn ops() -> impl Iterator<Item = &'static OpInfo> {
    Op::all().filter(|info| info.group != OpGroup::Control)
}

#[test]
fn every_op_on_every_architecture() {
    let all: Vec<Arch> = Arch::all().collect();
    let ends = [all[0], all[all.len() - 1]];
    let sm_80: Arch = "sm_80".parse().expect("it is an architecture");
    for info in ops() {
        let (module, kernel) = sample(info);
        let archs = if is_of_gpus(info) { &all[..] } else { &ends[..] };
        for &arch in archs {
            let lacks = check_arch(&module, kernel, arch);
            assert!(lacks.iter().all(|error| error.code == Code::Arch), "`{}`: {lacks:?}", info.name);
            let scalarised = info.lowering == polyloom_ir::op::Lowering::Scalarised;
            // The sample has products of all types, and the oldest architecture those of one.
            let least = if info.op == Op::Mma { sm_80 } else { info.least_arch };
            assert_eq!(lacks.is_empty(), scalarised || arch.includes(least), "`{}` on {arch}", info.name);
            if lacks.is_empty() {
                let code = ptx(&module, kernel, arch);
                assert!(code.contains(&format!(".target {arch}")), "`{}`", info.name);
            }
        }
    }
}

#[test]
fn products_by_the_tensor_core_of_every_type_on_every_architecture() {
    let info = Op::Mma.info();
    let types = [("f16", "sm_75"), ("bf16", "sm_80"), ("f32", "sm_80"), ("i8", "sm_80"), ("u8", "sm_80")];
    for (pair, (factor, least)) in info.signatures.chunks_exact(2).zip(types) {
        let (module, kernel) = sample_of(info, |sample| {
            pair.iter().for_each(|signature| sample.overload(info.op, signature, [None; 2], AddressSpace::Global));
        });
        for arch in Arch::all() {
            let lacks = check_arch(&module, kernel, arch);
            assert_eq!(lacks.is_empty(), arch.includes(least.parse().expect("it is one")), "{factor} on {arch}");
            if lacks.is_empty() {
                let shape = if arch.number() == 75 || factor == "f32" { "m16n8k8" } else { "m16n8k16" };
                assert!(
                    ptx(&module, kernel, arch).contains(&format!("mma.sync.aligned.{shape}.")),
                    "{factor} on {arch}"
                );
            }
        }
        if factor == "f16" {
            let lacks = |version: &str| check_version(&module, kernel, version.parse().expect("it is a version"));
            assert!(lacks("6.5").is_empty());
            let message = "`mma` needs PTX 6.5 or later, not PTX 6.4";
            assert!(lacks("6.4").iter().all(|error| error.message == message) && !lacks("6.4").is_empty());
        }
    }
}

#[test]
fn every_op_in_every_version_of_ptx() {
    for info in ops().filter(|info| is_of_gpus(info)) {
        let (module, kernel) = sample(info);
        for version in PtxVersion::ALL {
            // The oldest architecture that has the op, which is the one that older versions know.
            let is_known = check_version(&module, kernel, version).is_empty();
            let has_op = |arch: &Arch| {
                is_known && arch.ptx_version() <= version && check_arch(&module, kernel, *arch).is_empty()
            };
            if let Some(arch) = Arch::all().find(has_op) {
                let code = ptx_of_version(&module, kernel, arch, version);
                assert!(code.contains(&format!(".version {version}")), "`{}` on {arch}", info.name);
            }
        }
    }
}

#[test]
fn ptxas_takes_every_op() {
    let samples: Vec<(&str, Module, FuncId)> = ops()
        .filter(|info| is_of_gpus(info))
        .map(|info| {
            let (module, kernel) = sample(info);
            (info.name, module, kernel)
        })
        .collect();
    ptxas_takes(samples.iter().map(|(name, module, kernel)| (*name, module, *kernel)));
}
