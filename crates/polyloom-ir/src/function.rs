//! Functions and modules: the arenas that hold HIR.
//!
//! A [`Function`] owns all its values, instructions and regions. Instructions stand in regions in execution order;
//! a region's last instruction is its terminator. Values are SSA: a use is dominated by its definition, which for
//! structured code means it stands earlier in the same region or in an enclosing one.
//!
//! Design: `docs/design/hir.md`.

use crate::entity::{FuncId, Inst, Region, Value};
use crate::fragment::FragmentAccess;
use crate::metadata::{ExecutionConstraints, KernelMetadata, OptLevel};
use crate::op::{Op, OpEffect};
use crate::span::Span;
use crate::types::Type;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::sync::Arc;

/// Describes what an instruction says beyond its operands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Imm {
    /// Nothing.
    #[default]
    None,
    /// `const`: the value's bits, zero-extended. The result's type says how to read them.
    Bits(u64),
    /// `tid`, `dim`, `thread_idx` and its like: an axis.
    Axis(u8),
    /// `component`, `with_component`: which one, in row-major order.
    Component(u16),
    /// `wrap_index`: which axis of what.
    Extent(AxisExtent),
    /// `call`: the callee.
    Func(FuncId),
    /// `break`, `continue`: the enclosing loop or block.
    Target(Inst),
    /// `assert`: the message; `print`: the format.
    Text(Arc<str>),
    /// `check`: what is checked.
    Check(CheckKind),
    /// `shared_array`: which one.
    Shared(Box<SharedArray>),
    /// `thread_fence`, and atomics that do not have the ordering and scope they have unless told.
    Memory(MemoryOrder),
    /// `shuffle` and its like: lanes in a group.
    Width(u8),
    /// `mma_load_a` and its like: how the array holds the matrix.
    Fragment(FragmentAccess),
    /// `async_copy`: how much, through which caches.
    Copy(SharedCopy),
    /// `named_barrier`: which one, of how many threads.
    Barrier(NamedBarrier),
    /// `async_wait`: how many groups of copies may still be under way.
    Pending(u8),
    /// `for_range` without carried values: its iterations may run at the same time, in step, one instruction after the
    /// other.
    Parallel,
}

/// The extent of an `async_copy`, and the caches that it uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedCopy {
    /// Number of elements, which follow each other in both arrays.
    pub count: u8,
    /// The caches.
    pub cache: CacheUse,
    /// True if each element is a multiple of `count` elements from its array's beginning, which whoever makes the
    /// instruction answers for: where the arrays are aligned, so are the elements.
    pub is_in_step: bool,
}

/// Caches that a copy to shared memory uses: PTX ISA 9.0 §9.7.9.25.3.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CacheUse {
    /// All (`cp.async.ca`).
    #[default]
    All,
    /// The second level alone, as 16 bytes can (`cp.async.cg`).
    L2,
    /// All, and what is copied is the first to make room (`evict_first`).
    Streaming,
}

impl CacheUse {
    /// The names that programs give them. `default` and `l1` are the same.
    pub const NAMES: [&str; 4] = ["default", "l1", "l2", "streaming"];

    /// `default`, `l2` or `streaming`.
    pub fn name(self) -> &'static str {
        match self {
            CacheUse::All => "default",
            CacheUse::L2 => "l2",
            CacheUse::Streaming => "streaming",
        }
    }

    /// Finds the caches of this name.
    pub fn from_name(name: &str) -> Option<CacheUse> {
        match name {
            "default" | "l1" => Some(CacheUse::All),
            "l2" => Some(CacheUse::L2),
            "streaming" => Some(CacheUse::Streaming),
            _ => None,
        }
    }

    /// Returns true if copies of so many bytes can use these caches.
    pub fn takes(self, bytes: u32) -> bool {
        match self {
            CacheUse::L2 => bytes == 16,
            CacheUse::All | CacheUse::Streaming => matches!(bytes, 4 | 8 | 16),
        }
    }
}

/// A barrier that some warps of a block wait at: PTX ISA 9.0 §9.7.13.1. Number 0 is that of `sync_threads`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NamedBarrier {
    /// Its number, 1 to [`NamedBarrier::MOST`].
    pub id: u8,
    /// The number of threads that it waits for, a multiple of the warp size.
    pub count: u16,
}

impl NamedBarrier {
    /// The greatest number.
    pub const MOST: u8 = 15;

    /// Returns true if PTX has such a barrier.
    pub fn is_valid(self) -> bool {
        let (count, warp) = (u32::from(self.count), crate::arch::WARP_SIZE);
        (1..=NamedBarrier::MOST).contains(&self.id)
            && (warp..=crate::arch::MAX_BLOCK_SIZE).contains(&count)
            && count.is_multiple_of(warp)
    }
}

/// A static array in shared memory. Instructions of one `id` name the same memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedArray {
    /// Its number, one for each place in the source.
    pub id: u32,
    /// Its extents.
    pub extents: SmallVec<[u32; 4]>,
    /// Holds what its address is a multiple of, in bytes: a power of two.
    pub align: u32,
}

impl SharedArray {
    /// The bytes it takes, if each element takes so many.
    pub fn bytes(&self, elem: u32) -> u64 {
        self.extents.iter().fold(u64::from(elem), |bytes, &extent| bytes.saturating_mul(extent.into()))
    }

    /// Returns what the array that the source calls so is called in PTX: no name of Python has a `$`, so that no other
    /// symbol is called the same.
    pub fn symbol(&self, name: Option<&str>) -> String {
        let is_plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        format!("{}${}", name.filter(is_plain).unwrap_or("shared"), self.id)
    }
}

/// Whom an access of memory is ordered for, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemoryOrder {
    /// Who sees the order.
    pub scope: MemoryScope,
    /// Holds what it orders.
    pub ordering: AtomicOrdering,
}

/// The threads that an order is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum MemoryScope {
    /// The thread alone.
    Thread,
    /// Those of its block.
    Block,
    /// Those of its device.
    #[default]
    Device,
    /// Those of all devices and of the CPU.
    System,
}

impl MemoryScope {
    /// Every scope.
    pub const ALL: [MemoryScope; 4] =
        [MemoryScope::Thread, MemoryScope::Block, MemoryScope::Device, MemoryScope::System];

    /// `thread`, `block`, `device` or `system`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryScope::Thread => "thread",
            MemoryScope::Block => "block",
            MemoryScope::Device => "device",
            MemoryScope::System => "system",
        }
    }

    /// The scope with this name.
    pub fn from_name(name: &str) -> Option<MemoryScope> {
        MemoryScope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// Describes what an atomic access orders: those of the C++ memory model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AtomicOrdering {
    /// Nothing beyond the element.
    #[default]
    Relaxed,
    /// What follows comes after it.
    Acquire,
    /// What precedes comes before it.
    Release,
    /// Both.
    AcqRel,
    /// Both, and all such accesses have one order.
    SeqCst,
}

impl AtomicOrdering {
    /// Every ordering.
    pub const ALL: [AtomicOrdering; 5] = [
        AtomicOrdering::Relaxed,
        AtomicOrdering::Acquire,
        AtomicOrdering::Release,
        AtomicOrdering::AcqRel,
        AtomicOrdering::SeqCst,
    ];

    /// `relaxed`, `acquire`, `release`, `acq_rel` or `seq_cst`.
    pub fn name(self) -> &'static str {
        match self {
            AtomicOrdering::Relaxed => "relaxed",
            AtomicOrdering::Acquire => "acquire",
            AtomicOrdering::Release => "release",
            AtomicOrdering::AcqRel => "acq_rel",
            AtomicOrdering::SeqCst => "seq_cst",
        }
    }

    /// The ordering with this name.
    pub fn from_name(name: &str) -> Option<AtomicOrdering> {
        AtomicOrdering::ALL.into_iter().find(|ordering| ordering.name() == name)
    }
}

/// An axis whose extent is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisExtent {
    /// The variable it is an axis of, as the source names it; empty if it has no name.
    pub name: Arc<str>,
    /// The number of the axis.
    pub axis: u8,
    /// Number of places it has.
    pub extent: u16,
}

/// Describes what a `check` guards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    /// An index of an array access.
    Bounds {
        /// The array as the source names it; empty if it has no name.
        array: Arc<str>,
        /// The axis indexed.
        axis: u8,
        /// True if the index is of an unsigned type: it then reads its operand, an `i64`, as the `u64` of these bits.
        unsigned: bool,
    },
    /// An integer divisor.
    Division,
}

impl CheckKind {
    /// The number that the index operand of a failed `check` stands for.
    pub fn index(&self, operand: i64) -> i128 {
        match self {
            CheckKind::Bounds { unsigned: true, .. } => (operand as u64).into(),
            CheckKind::Bounds { .. } | CheckKind::Division => operand.into(),
        }
    }
}

/// Operands of an instruction.
pub type Operands = SmallVec<[Value; 4]>;

/// One instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// The operation.
    pub op: Op,
    /// Operands in the order of the op's signature.
    pub operands: Operands,
    /// Results in order.
    pub results: SmallVec<[Value; 2]>,
    /// Regions it owns: two for `if` (then, else) and `while` (condition, body), one for `for_range` and `block`.
    pub regions: SmallVec<[Region; 2]>,
    /// Everything else.
    pub imm: Imm,
    /// The source it stands for.
    pub span: Span,
}

/// Says where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// Parameter `index` of a region. The function's own parameters are those of its body.
    Param(Region, u32),
    /// Result `index` of an instruction.
    Result(Inst, u32),
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its definition.
    pub def: ValueDef,
}

/// One region.
#[derive(Clone, Debug, Default)]
pub struct RegionData {
    /// `for_range` body: the counter, then the carried values. `while` regions: the carried values. Function body:
    /// the parameters.
    pub params: SmallVec<[Value; 4]>,
    /// Instructions in order; the last is the terminator.
    pub insts: Vec<Inst>,
}

/// Says whether a function is launched or called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FunctionKind {
    /// Launched over a grid of threads; has no results.
    Kernel,
    /// Called from kernels and functions.
    Func,
}

/// A function in HIR.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, unique in its module.
    pub name: Arc<str>,
    /// Kernel or function.
    pub kind: FunctionKind,
    /// Result types.
    pub results: SmallVec<[Type; 2]>,
    /// The outermost region; its parameters are the function's.
    pub body: Region,
    /// Names of the parameters, as many as there are.
    pub param_names: Vec<Arc<str>>,
    /// Says how it wants to be compiled.
    pub metadata: KernelMetadata,
    /// Holds what must hold while it runs.
    pub constraints: ExecutionConstraints,
    /// The source it stands for.
    pub span: Span,
    /// A function that stands in for its derivative: of its parameters, of adjoints of its results and of adjoints of
    /// those of its parameters that are floating-point numbers or composites of such, it gives the sums of the latter
    /// and of what flows to them. It may take adjoints of arrays of such as well, to which it adds itself.
    pub gradient: Option<FuncId>,
    /// A function that runs in its place on the way to its derivative.
    pub replay: Option<FuncId>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All regions.
    pub regions: PrimaryMap<Region, RegionData>,
    /// The source variable a value was assigned to, where there is one.
    pub value_names: SecondaryMap<Value, Option<Arc<str>>>,
}

impl Function {
    /// A function with these parameters and an empty body.
    pub fn new<'a>(
        name: impl Into<Arc<str>>,
        kind: FunctionKind,
        params: impl IntoIterator<Item = (&'a str, Type)>,
        results: &[Type],
    ) -> Function {
        let mut regions = PrimaryMap::new();
        let body = regions.push(RegionData::default());
        let mut function = Function {
            name: name.into(),
            kind,
            results: results.into(),
            body,
            param_names: Vec::new(),
            metadata: KernelMetadata::default(),
            constraints: ExecutionConstraints::default(),
            span: Span::NONE,
            gradient: None,
            replay: None,
            values: PrimaryMap::new(),
            insts: PrimaryMap::new(),
            regions,
            value_names: SecondaryMap::new(),
        };
        for (name, ty) in params {
            function.add_param(name, ty);
        }
        function
    }

    /// A function with the name, the parameters and the results of this one, compiled like it, and an empty body.
    pub fn like(&self) -> Function {
        let params = self.param_names.iter().zip(self.params()).map(|(name, &param)| (&**name, self.ty(param)));
        let new = Function::new(self.name.clone(), self.kind, params, &self.results);
        let (metadata, constraints) = (self.metadata.clone(), self.constraints.clone());
        Function { metadata, constraints, span: self.span, ..new }
    }

    /// Adds a parameter behind the others.
    pub fn add_param(&mut self, name: impl Into<Arc<str>>, ty: Type) -> Value {
        self.param_names.push(name.into());
        self.add_region_param(self.body, ty)
    }

    /// The types of the parameters and the results of a [`gradient`](Function::gradient), which may take the adjoints
    /// of arrays.
    pub fn gradient_signature(&self, with_arrays: bool) -> (Vec<Type>, Vec<Type>) {
        let own = || self.params().iter().map(|&param| self.ty(param));
        let moves = |ty: &Type| ty.is_float() && (with_arrays || ty.as_any_array().is_none());
        let params = own().chain(self.results.iter().copied()).chain(own().filter(moves)).collect();
        (params, own().filter(|ty| ty.is_float() && ty.as_any_array().is_none()).collect())
    }

    /// The parameters.
    pub fn params(&self) -> &[Value] {
        &self.regions[self.body].params
    }

    /// Returns which parameter a value is, if it is one.
    pub fn param_index(&self, value: Value) -> Option<usize> {
        match self.values[value].def {
            ValueDef::Param(region, index) if region == self.body => Some(index as usize),
            _ => None,
        }
    }

    /// For each parameter, whether the function may write the array. One that it passes on counts as written; back ends
    /// get kernels in which no call takes an array.
    pub fn written_arrays(&self) -> Vec<bool> {
        let mut written = vec![false; self.params().len()];
        self.walk(self.body, &mut |_, data| {
            let arrays = match data.op.info().effect {
                _ if data.op == Op::Call => &data.operands[..],
                OpEffect::Write | OpEffect::ReadWrite => &data.operands[..data.operands.len().min(1)],
                _ => &[],
            };
            for &array in arrays {
                if let (Some(_), Some(index)) = (self.ty(array).as_any_array(), self.param_index(array)) {
                    written[index] = true;
                }
            }
        });
        written
    }

    /// Returns the optimisation level that it asks for on the CPU, if it does: what is on the critical path asks for `Olatency`.
    pub fn opt_level(&self) -> Option<OptLevel> {
        if self.constraints.critical_path { Some(OptLevel::Olatency) } else { self.metadata.opt_level() }
    }

    /// Returns true if it has an op that needs a kernel to be launched in blocks, not counting what it calls.
    pub fn needs_blocks(&self) -> bool {
        let mut needs = false;
        self.walk(self.body, &mut |_, data| needs |= data.op.info().needs_blocks());
        needs
    }

    /// The functions it calls itself, each once.
    pub fn callees(&self) -> Vec<FuncId> {
        let mut callees = Vec::new();
        self.walk(self.body, &mut |_, data| {
            if let Imm::Func(callee) = data.imm
                && !callees.contains(&callee)
            {
                callees.push(callee);
            }
        });
        callees
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// A region's terminator, if it has one yet.
    pub fn terminator(&self, region: Region) -> Option<Inst> {
        let last = *self.regions[region].insts.last()?;
        self.insts[last].op.info().is_terminator().then_some(last)
    }

    /// Appends a parameter to a region.
    pub fn add_region_param(&mut self, region: Region, ty: Type) -> Value {
        let index = self.regions[region].params.len() as u32;
        let value = self.values.push(ValueData { ty, def: ValueDef::Param(region, index) });
        self.regions[region].params.push(value);
        value
    }

    /// Adds an instruction to the arena without placing it in a region.
    pub fn make_inst(&mut self, op: Op, operands: impl Into<Operands>, results: &[Type], imm: Imm, span: Span) -> Inst {
        let inst = self.insts.push(InstData {
            op,
            operands: operands.into(),
            results: SmallVec::new(),
            regions: SmallVec::new(),
            imm,
            span,
        });
        for (index, &ty) in results.iter().enumerate() {
            let value = self.values.push(ValueData { ty, def: ValueDef::Result(inst, index as u32) });
            self.insts[inst].results.push(value);
        }
        inst
    }

    /// The bits of a value, if it is a constant.
    pub fn as_const(&self, value: Value) -> Option<u64> {
        let ValueDef::Result(inst, _) = self.values[value].def else { return None };
        match self.insts[inst].imm {
            Imm::Bits(bits) if self.insts[inst].op == Op::Const => Some(bits),
            _ => None,
        }
    }

    /// Calls `visit` on every instruction reachable from `region`, each before those of its regions.
    pub fn walk(&self, region: Region, visit: &mut impl FnMut(Inst, &InstData)) {
        for &inst in &self.regions[region].insts {
            let data = &self.insts[inst];
            visit(inst, data);
            for &inner in &data.regions {
                self.walk(inner, visit);
            }
        }
    }
}

/// Functions that may call each other.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// All functions.
    pub functions: PrimaryMap<FuncId, Function>,
}

impl Module {
    /// An empty module.
    pub fn new() -> Module {
        Module::default()
    }

    /// A function and all that it calls, directly or not, each once and after one of its callers.
    pub fn reachable(&self, from: FuncId) -> Vec<FuncId> {
        let mut reached = vec![from];
        let mut next = 0;
        while next < reached.len() {
            for callee in self.functions[reached[next]].callees() {
                if !reached.contains(&callee) {
                    reached.push(callee);
                }
            }
            next += 1;
        }
        reached
    }

    /// The function with this name.
    pub fn find(&self, name: &str) -> Option<FuncId> {
        self.functions.iter().find(|(_, f)| &*f.name == name).map(|(id, _)| id)
    }
}
