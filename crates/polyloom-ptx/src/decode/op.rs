//! Decoded instructions: operands resolved to registers, constants and addresses, branches to instruction indices.

use super::types::PtxType;
use crate::error::TextPosition;
use crate::exec::registers::{Compute, FrameBase, LANES, PredicateTest, RegisterFiles, Slot, SourceOperand};
use crate::syntax::ast::StateSpace;
use std::ops::Range;

/// A kernel and all functions it may call, ready to run.
pub(crate) struct DecodedProgram {
    pub(crate) code: Vec<DecodedInst>,
    pub(crate) functions: Vec<FunctionInfo>,
    /// The kernel among `functions`.
    pub(crate) kernel: usize,
    pub(crate) parameters: Vec<ParameterInfo>,
    /// Bytes of parameters.
    pub(crate) parameter_bytes: u32,
    /// Named ranges of static shared memory: start, length, name.
    pub(crate) shared: Vec<(u32, u32, String)>,
    /// Bytes of static shared memory, which begins at [`RESERVED_SHARED`](crate::memory::window::RESERVED_SHARED);
    /// dynamic shared memory begins where it ends.
    pub(crate) static_shared_bytes: u32,
    /// True if it asks where the system's part of shared memory is, and so may access it.
    pub(crate) uses_reserved_shared: bool,
    /// True if it asks for the workspace of a cooperative launch.
    pub(crate) uses_workspace: bool,
    /// The generic addresses of constant memory.
    pub(crate) constants: Range<u64>,
    /// Bytes of local memory a thread may need.
    pub(crate) local_bytes: u32,
    /// Those of these that `alloca` gives; there are none unless some function uses it.
    pub(crate) stack_bytes: u32,
    /// True if it calls `malloc`.
    pub(crate) allocates: bool,
    /// `.file` indices and names.
    pub(crate) files: Vec<(u32, String)>,
    /// The module's `.target`.
    pub(crate) target: String,
    pub(crate) limits: LaunchLimits,
}

/// Describes what the kernel's directives say of its launches.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaunchLimits {
    /// `.maxntid`: at most as many threads a block.
    pub max_threads: Option<u32>,
    /// `.reqntid`: exactly this block.
    pub required_block: Option<[u32; 3]>,
    /// `.minnctapersm`
    pub min_blocks: Option<u32>,
    /// `.maxnreg`
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`: exactly these clusters.
    pub required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`: at most as many blocks a cluster.
    pub max_cluster_blocks: Option<u32>,
    /// `.explicitcluster`: a launch has to say how large clusters are.
    pub needs_cluster: bool,
}

/// A function of the program.
pub(crate) struct FunctionInfo {
    pub(crate) name: String,
    pub(crate) entry: u32,
    /// Registers and local memory of one call.
    pub(crate) size: FrameBase,
    /// Most 32-bit registers of a kernel that hold values at once, if it was told.
    pub(crate) pressure: Option<u32>,
    pub(crate) parameters: Vec<ParamPlace>,
    pub(crate) results: Vec<ParamPlace>,
}

/// A parameter of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterInfo {
    /// Its name.
    pub name: String,
    /// The place where it begins in the parameter block.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its alignment in bytes.
    pub align: u32,
    /// The fundamental type, without the dot: `u64`, `f32`, `b8` for an array of bytes.
    pub ty: String,
    /// It was declared `.ptr`.
    pub pointer: bool,
}

/// Says where a function's parameter or result lies in its frame, or what a call passes.
#[derive(Clone, Debug)]
pub(crate) enum ParamPlace {
    Memory {
        offset: u32,
        size: u32,
    },
    /// In a register of so many bits.
    Word(SourceOperand<u32>, u32),
    Double(SourceOperand<u64>),
    Predicate(PredicateTest),
    Vector(Vec<ParamPlace>),
}

/// One instruction.
pub(crate) struct DecodedInst {
    pub(crate) op: DecodedOp,
    /// The place where it stands in the program.
    pub(crate) index: u32,
    pub(crate) guard: Option<PredicateTest>,
    pub(crate) class: InstClass,
    pub(crate) position: TextPosition,
    /// File, line and column of the user's source, or zeros.
    pub(crate) source: (u32, u32, u32),
}

/// Kinds of instructions, as counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum InstClass {
    Integer,
    Half,
    Float,
    Double,
    Convert,
    Compare,
    Move,
    Control,
    LoadGlobal,
    StoreGlobal,
    LoadShared,
    StoreShared,
    LoadLocal,
    StoreLocal,
    LoadParameter,
    LoadConstant,
    Generic,
    Atomic,
    Barrier,
    Fence,
    Warp,
    Matrix,
    AsyncCopy,
    Texture,
}

impl InstClass {
    /// All of them, in the order of reports.
    pub const ALL: [InstClass; 24] = [
        InstClass::Integer,
        InstClass::Half,
        InstClass::Float,
        InstClass::Double,
        InstClass::Convert,
        InstClass::Compare,
        InstClass::Move,
        InstClass::Control,
        InstClass::LoadGlobal,
        InstClass::StoreGlobal,
        InstClass::LoadShared,
        InstClass::StoreShared,
        InstClass::LoadLocal,
        InstClass::StoreLocal,
        InstClass::LoadParameter,
        InstClass::LoadConstant,
        InstClass::Generic,
        InstClass::Atomic,
        InstClass::Barrier,
        InstClass::Fence,
        InstClass::Warp,
        InstClass::Matrix,
        InstClass::AsyncCopy,
        InstClass::Texture,
    ];

    /// Returns what reports call it.
    pub fn name(self) -> &'static str {
        match self {
            InstClass::Integer => "integer",
            InstClass::Half => "half",
            InstClass::Float => "float",
            InstClass::Double => "double",
            InstClass::Convert => "convert",
            InstClass::Compare => "compare",
            InstClass::Move => "move",
            InstClass::Control => "control",
            InstClass::LoadGlobal => "load global",
            InstClass::StoreGlobal => "store global",
            InstClass::LoadShared => "load shared",
            InstClass::StoreShared => "store shared",
            InstClass::LoadLocal => "load local",
            InstClass::StoreLocal => "store local",
            InstClass::LoadParameter => "load parameter",
            InstClass::LoadConstant => "load constant",
            InstClass::Generic => "generic memory",
            InstClass::Atomic => "atomic",
            InstClass::Barrier => "barrier",
            InstClass::Fence => "fence",
            InstClass::Warp => "warp",
            InstClass::Matrix => "matrix",
            InstClass::AsyncCopy => "asynchronous copy",
            InstClass::Texture => "texture",
        }
    }
}

pub(crate) enum DecodedOp {
    Compute(Compute),
    Nothing,
    Branch(u32),
    BranchTable {
        index: SourceOperand<u32>,
        targets: Vec<u32>,
    },
    Call(Box<CallOp>),
    Return,
    Exit,
    Trap,
    Special {
        destination: DestRegister,
        which: SpecialRegister,
    },
    FrameAddress {
        destination: DestRegister,
        offset: i64,
    },
    Stack(StackOp),
    Load(Box<LoadOp>),
    Store(Box<StoreOp>),
    Atomic(Box<AtomicOp>),
    WideAtomic(Box<WideAtomic>),
    Barrier(Box<BarrierOp>),
    Cluster(Box<ClusterOp>),
    Warp(Box<WarpOp>),
    ActiveMask(Slot),
    Fence(OrderScope),
    AsyncCopy(Box<AsyncCopy>),
    AsyncCommit,
    /// Waits until at most so many groups are under way, or for all copies.
    AsyncWait(Option<u32>),
    BulkCopy(Box<BulkCopy>),
    BulkCommit,
    /// Waits until at most so many bulk groups are under way, or have yet to be read.
    BulkWait {
        left: u32,
        only_reads: bool,
    },
    TensorCopy(Box<TensorCopy>),
    TextureFetch(Box<TextureFetch>),
    SurfaceAccess(Box<SurfaceAccess>),
    ImageQuery(Box<ImageQuery>),
    WarpGroupProduct(Box<WarpGroupProduct>),
    /// `st.async` and `red.async`
    AsyncAccess(Box<AsyncAccess>),
    MBarrier(Box<MBarrier>),
    Sleep,
}

impl DecodedOp {
    /// Says what tells that a bulk copy is done, if it is one.
    pub(crate) fn bulk_end(&self) -> Option<&BulkEnd> {
        match self {
            DecodedOp::BulkCopy(copy) => Some(&copy.end),
            DecodedOp::TensorCopy(copy) => Some(&copy.end),
            _ => None,
        }
    }
}

/// A register that is written with a value of its own width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DestRegister {
    /// A slot of the 32-bit file, and the register's width.
    Word(u32, u32),
    Double(u32),
    Sink,
}

/// A value of either width that is read.
#[derive(Clone, Debug)]
pub(crate) enum AnySource {
    Word(SourceOperand<u32>),
    Double(SourceOperand<u64>),
}

/// A call of a known function, a pointer, or one the simulator provides.
pub(crate) struct CallOp {
    pub(crate) target: CallTarget,
    pub(crate) arguments: Vec<ParamPlace>,
    pub(crate) results: Vec<ParamPlace>,
}

pub(crate) enum CallTarget {
    Function(usize),
    Pointer(SourceOperand<u64>),
    Host(HostFunction),
}

/// Functions that GPUs' drivers have, and the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostFunction {
    /// `vprintf`
    Print,
    /// `__assertfail`
    Assertion,
    /// `malloc`
    Alloc,
    /// `free`
    Free,
    /// `cudaGraphSetConditional`
    SetConditional,
}

impl HostFunction {
    pub(super) fn from_name(name: &str) -> Option<HostFunction> {
        match name {
            "vprintf" => Some(HostFunction::Print),
            "__assertfail" => Some(HostFunction::Assertion),
            "malloc" => Some(HostFunction::Alloc),
            "free" => Some(HostFunction::Free),
            "cudaGraphSetConditional" => Some(HostFunction::SetConditional),
            _ => None,
        }
    }
}

/// Describes what is done with the part of local memory that grows.
pub(crate) enum StackOp {
    /// So many bytes, at a multiple of `align`, until the function returns.
    Alloc {
        destination: DestRegister,
        size: AnySource,
        align: u32,
    },
    Save(DestRegister),
    Restore(AnySource),
}

/// Special registers (PTX ISA 9.0 §10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpecialRegister {
    ThreadIndex(usize),
    BlockSize(usize),
    BlockIndex(usize),
    GridSize(usize),
    Lane,
    Warp,
    WarpCount,
    Processor,
    ProcessorCount,
    Clock,
    Time,
    TimeHigh,
    ClockHigh,
    LanesEqual,
    LanesLessEqual,
    LanesLess,
    LanesGreaterEqual,
    LanesGreater,
    DynamicShared,
    /// What the program has of shared memory, static and dynamic.
    TotalShared,
    /// That, and what the system has.
    AggregateShared,
    /// An offset or size of what the system has of shared memory.
    ReservedShared(u32),
    /// The halves of the address of the workspace that a cooperative launch has, or zero.
    WorkspaceLow,
    WorkspaceHigh,
    /// Asks for the place of the block's cluster among those of the grid, and their number.
    ClusterIndex(usize),
    ClusterCount(usize),
    /// Asks for the place of the block in its cluster, and the cluster's extents in blocks.
    IndexInCluster(usize),
    ClusterSize(usize),
    ClusterRank,
    ClusterBlocks,
    /// Zero that 16 bits may be read of, since a fourth component, and the number of a launch, which has none here.
    Absent,
    Zero,
}

/// Says where an access goes, before the lanes' registers are added.
#[derive(Clone, Debug)]
pub(crate) struct AccessAddress {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum AddressBase {
    Nothing,
    /// The frame's local memory.
    Frame,
    Word(u32),
    Double(u32),
}

/// Describes how far a memory operation is ordered (PTX ISA 9.0 §8.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum OrderScope {
    Block,
    Cluster,
    Device,
    System,
}

/// Describes how strong a memory operation is (PTX ISA 9.0 §8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryOrder {
    /// Relaxed or more, `.volatile` included; otherwise weak.
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    pub(crate) scope: OrderScope,
}

pub(crate) struct LoadOp {
    /// `None`: generic.
    pub(crate) space: Option<StateSpace>,
    pub(crate) size: u32,
    pub(crate) signed: bool,
    pub(crate) address: AccessAddress,
    pub(crate) destinations: Vec<DestRegister>,
    pub(crate) order: MemoryOrder,
    /// The destinations are parts of one value, which nobody changes in between.
    pub(crate) at_once: bool,
    /// A bit for each byte that at most stores use.
    pub(crate) copied: u32,
}

pub(crate) struct StoreOp {
    pub(crate) space: Option<StateSpace>,
    pub(crate) size: u32,
    pub(crate) address: AccessAddress,
    pub(crate) sources: Vec<AnySource>,
    pub(crate) order: MemoryOrder,
    /// As in `Load`.
    pub(crate) at_once: bool,
}

/// Describes what memory becomes, from what it was and the operands.
pub(crate) type Update = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

pub(crate) struct AtomicOp {
    pub(crate) space: Option<StateSpace>,
    pub(crate) size: u32,
    pub(crate) update: Update,
    /// In place of `update` where global memory behaves otherwise.
    pub(crate) global_update: Option<Update>,
    pub(crate) address: AccessAddress,
    pub(crate) destinations: Vec<DestRegister>,
    pub(crate) operands: Vec<AnySource>,
    /// The second operand of `cas`.
    pub(crate) second: Option<AnySource>,
    pub(crate) order: MemoryOrder,
    /// `cas` and `exch`, which locks are made of.
    pub(crate) spins: bool,
}

/// The halves of 128 bits, the lower first.
pub(crate) type Halves = [SourceOperand<u64>; 2];

/// `cas` and `exch` of 128 bits.
pub(crate) struct WideAtomic {
    pub(crate) space: Option<StateSpace>,
    pub(crate) address: AccessAddress,
    pub(crate) destination: Slot,
    /// Holds what memory has to be for it to change.
    pub(crate) expected: Option<Halves>,
    pub(crate) new: Halves,
    pub(crate) order: MemoryOrder,
}

pub(crate) struct BarrierOp {
    pub(crate) id: SourceOperand<u32>,
    /// The number of threads, if not all of the block.
    pub(crate) count: Option<SourceOperand<u32>>,
    pub(crate) waits: bool,
    pub(crate) aligned: bool,
    pub(crate) reduction: Option<BarrierReduction>,
}

/// An instruction that asks for the block's cluster.
pub(crate) enum ClusterOp {
    /// `barrier.cluster.arrive`; a relaxed one orders no memory.
    Arrive { relaxed: bool },
    /// `barrier.cluster.wait`
    Wait,
    /// `mapa`
    MapAddress { destination: DestRegister, address: AnySource, rank: SourceOperand<u32>, is_generic: bool },
    /// `getctarank`
    RankOf { destination: DestRegister, address: AnySource },
}

pub(crate) struct BarrierReduction {
    pub(crate) kind: ReductionKind,
    pub(crate) destination: u32,
    pub(crate) input: PredicateTest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReductionKind {
    And,
    Or,
    /// Into a 32-bit register; the others into predicates.
    Count,
}

/// An instruction that lanes of a warp execute together.
pub(crate) struct WarpOp {
    /// Says which lanes; `None`: those that are there.
    pub(crate) members: Option<SourceOperand<u32>>,
    /// Lane that each lane of a shuffle reads, itself if that one is out of range.
    pub(crate) sources: Option<Sources>,
    /// True if all lanes use what a shuffle gives them.
    pub(crate) unguarded: bool,
    pub(crate) kind: WarpKind,
}

pub(crate) type Sources = Box<dyn Fn(&RegisterFiles) -> [u32; LANES] + Send + Sync>;

pub(crate) enum WarpKind {
    Sync,
    /// Reads and writes registers of the executing lanes.
    Lanes(Compute),
    /// Loads and stores of matrices.
    Matrix(Box<MatrixAccess>),
}

/// `ldmatrix`, `stmatrix`, `wmma.load` and `wmma.store`.
pub(crate) struct MatrixAccess {
    pub(crate) space: Option<StateSpace>,
    pub(crate) address: AccessAddress,
    /// In elements.
    pub(crate) stride: Option<SourceOperand<u32>>,
    pub(crate) registers: Vec<DestRegister>,
    pub(crate) store: bool,
    /// Bytes of an element.
    pub(crate) size: u32,
    /// In order of their places in registers, so that each place is one access of the warp.
    pub(crate) elements: Vec<LaneElement>,
    pub(crate) rows: MatrixRows,
    /// The elements again, as parts of the rows' bytes.
    pub(crate) pieces: Vec<RegisterPiece>,
}

/// A part of a register in all lanes, of one element or several that follow each other in memory.
pub(crate) struct RegisterPiece {
    pub(crate) register: u8,
    /// The first bit in the register.
    pub(crate) bit: u8,
    pub(crate) bytes: u8,
    /// Place of each lane's first byte among the bytes of all rows.
    pub(crate) offsets: [u16; LANES],
    /// True if it is a word in each lane, one behind the other.
    pub(crate) consecutive: bool,
}

/// The runs of bytes that a matrix lies in.
pub(crate) struct MatrixRows {
    /// Whose address each is counted from, and how many strides it is away.
    pub(crate) starts: Vec<(u8, u32)>,
    /// Bytes of each.
    pub(crate) size: u32,
    /// Bytes, a power of two.
    pub(crate) align: u32,
}

/// An element of a register of a lane, and where it lies in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneElement {
    pub(crate) lane: u8,
    pub(crate) register: u8,
    /// The first bit in the register.
    pub(crate) bit: u8,
    /// Whose address it is counted from.
    pub(crate) row_lane: u8,
    /// Elements between rows or columns, times the stride.
    pub(crate) major: u32,
    /// Elements.
    pub(crate) minor: u32,
}

pub(crate) struct AsyncCopy {
    pub(crate) to: AccessAddress,
    pub(crate) to_space: Option<StateSpace>,
    pub(crate) from: AccessAddress,
    pub(crate) size: u32,
    pub(crate) source_size: Option<SourceOperand<u32>>,
    pub(crate) ignore: Option<PredicateTest>,
}

/// `cp.async.bulk` and `cp.reduce.async.bulk`.
pub(crate) struct BulkCopy {
    pub(crate) to: AccessAddress,
    pub(crate) to_space: StateSpace,
    pub(crate) from: AccessAddress,
    pub(crate) from_space: StateSpace,
    pub(crate) size: SourceOperand<u32>,
    pub(crate) end: BulkEnd,
    /// A bit for each block of the cluster that it goes to.
    pub(crate) blocks: Option<SourceOperand<u32>>,
    /// A bit for each byte of 16 that is written.
    pub(crate) bytes: Option<SourceOperand<u32>>,
    pub(crate) reduction: Option<BulkReduction>,
}

/// A copy of a tile, from a tensor if an mbarrier is told of it, otherwise to one.
pub(crate) struct TensorCopy {
    /// The generic address of the tensor map.
    pub(crate) map: AccessAddress,
    /// The place of the tile's first element along each axis of the tensor, the innermost first.
    pub(crate) coordinates: Vec<SourceOperand<u32>>,
    pub(crate) shared: AccessAddress,
    pub(crate) end: BulkEnd,
    /// A bit for each block of the cluster that it goes to.
    pub(crate) blocks: Option<SourceOperand<u32>>,
    /// Names what elements of the tensor are reduced by.
    pub(crate) reduction: Option<&'static str>,
}

/// Says which texel of a texture or surface an instruction is about, and of what shape that has to be.
pub(crate) struct ImagePlace {
    /// The handle of the texture or surface.
    pub(crate) object: SourceOperand<u64>,
    pub(crate) layer: Option<SourceOperand<u32>>,
    /// Coordinates along each axis: floats, or integers.
    pub(crate) coordinates: Vec<SourceOperand<u32>>,
}

/// `tex` and `tld4`.
pub(crate) struct TextureFetch {
    pub(crate) place: ImagePlace,
    pub(crate) has_integers: bool,
    /// Texels to add along each axis, if there are any.
    pub(crate) offsets: Vec<SourceOperand<u32>>,
    /// The channel of four texels that `tld4` gives.
    pub(crate) gathers: Option<usize>,
    pub(crate) result: TextureResult,
    pub(crate) destinations: Vec<DestRegister>,
    /// The predicate that tells that all texels are in memory.
    pub(crate) resident: Slot,
}

/// Describes what registers get of the channels that a fetch gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TextureResult {
    /// One each, as 32 bits.
    Words,
    /// One each, as a half if it is a float.
    Halves,
    /// Two each, as halves.
    HalfPairs,
}

/// `suld`, `sust` and `sured`.
pub(crate) struct SurfaceAccess {
    /// The first coordinate counts bytes.
    pub(crate) place: ImagePlace,
    /// Bytes of each value.
    pub(crate) size: u32,
    pub(crate) outside: SurfaceOutside,
    pub(crate) kind: SurfaceAccessKind,
}

pub(crate) enum SurfaceAccessKind {
    Load(Vec<DestRegister>),
    Store(Vec<AnySource>),
    Update(AnySource, Update),
}

/// Describes what an access outside of a surface does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SurfaceOutside {
    /// Ends the launch.
    Trap,
    /// Is to the nearest place inside.
    Clamp,
    /// Reads zero, or writes nothing.
    Zero,
}

/// `txq` and `suq`.
pub(crate) struct ImageQuery {
    pub(crate) object: SourceOperand<u64>,
    pub(crate) is_surface: bool,
    pub(crate) query: ImageFact,
    pub(crate) destination: DestRegister,
}

/// Describes what a query of a texture or surface asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ImageFact {
    /// Texels along an axis.
    Extent(usize),
    /// Layers.
    ArraySize,
    /// Always one, because there are neither smaller versions of an image nor several samples of a texel.
    One,
    /// True if coordinates go from 0 to 1.
    IsNormalized,
}

/// `wgmma.mma_async`: rows of A, of which a warp of the group has sixteen, times columns of B.
pub(crate) struct WarpGroupProduct {
    /// Columns of the result.
    pub(crate) n: u32,
    /// The extent that is summed over.
    pub(crate) k: u32,
    /// The types of the result, A and B.
    pub(crate) types: [PtxType; 3],
    pub(crate) saturates: bool,
    /// The registers of the result, and the same as they are before.
    pub(crate) sums: Vec<DestRegister>,
    pub(crate) sources: Vec<AnySource>,
    pub(crate) a: FactorSource,
    /// The matrix descriptor of B.
    pub(crate) b: SourceOperand<u64>,
    /// Says whether the product is added to what the registers hold.
    pub(crate) accumulates: PredicateTest,
    /// Says which of A and B is negated.
    pub(crate) negates: [bool; 2],
    /// Says which of A and B has its rows, or columns, next to each other in memory.
    pub(crate) transposes: [bool; 2],
}

/// Where a factor of a product is.
pub(crate) enum FactorSource {
    Registers(Vec<AnySource>),
    /// In shared memory, by a matrix descriptor.
    Shared(SourceOperand<u64>),
}

/// A store or an update whose bytes an mbarrier expects.
pub(crate) struct AsyncAccess {
    pub(crate) access: AsyncAccessKind,
    pub(crate) n_bytes: u32,
    pub(crate) barrier: AccessAddress,
}

pub(crate) enum AsyncAccessKind {
    Store(StoreOp),
    Update(AtomicOp),
}

/// Describes what a bulk copy tells that it is done.
pub(crate) enum BulkEnd {
    /// The bulk group that the thread commits.
    Group,
    /// Bytes that an mbarrier expects.
    MBarrier(AccessAddress),
}

pub(crate) struct BulkReduction {
    pub(crate) update: Update,
    /// Bytes of an element.
    pub(crate) size: u32,
}

pub(crate) struct MBarrier {
    pub(crate) address: AccessAddress,
    pub(crate) space: Option<StateSpace>,
    pub(crate) kind: MBarrierKind,
}

pub(crate) enum MBarrierKind {
    Init(SourceOperand<u32>),
    Invalidate,
    Arrive {
        state: DestRegister,
        count: SourceOperand<u32>,
        expected: Option<SourceOperand<u32>>,
        drop: bool,
    },
    /// `cp.async.mbarrier.arrive`; with `.noinc` the arrival counts as one of those expected.
    ArriveAfterCopies {
        counts: bool,
    },
    ExpectBytes(SourceOperand<u32>),
    CompleteBytes(SourceOperand<u32>),
    /// By a state, or by a parity.
    Test {
        done: u32,
        state: AnySource,
        parity: bool,
    },
}
