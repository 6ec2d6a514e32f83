//! The op table: every operation of HIR, declared once.
//!
//! The checker, the verifier, the interpreter, the printers, the Python stubs and the reference pages all read this
//! table; nothing else lists the operations. An entry gives the op's name (the same in HIR text, in Python and in
//! the docs), its overloads in the small signature language of [`signature`], its effect, and how back ends come to
//! code for it. What each op computes, edge cases included, is [`crate::eval`] for scalars and
//! [`crate::interp`] for the rest.
//!
//! Adding a builtin is one entry in [`table`], plus its arm in `eval` ([`Lowering::Native`]) or its body in
//! [`crate::math`] ([`Lowering::Library`]), and a rule in `polyloom_passes::autodiff` if the entry says so
//! ([`Derivative::Rule`]).
//!
//! Design: `docs/design/hir.md`.

mod signature;
mod table;

pub use signature::{ExtentPattern, ResultChoice, Signature, SignatureParam, TyPattern, TypeClass};
pub use table::Op;

use crate::arch::Arch;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The section of the reference an op belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum OpGroup {
    /// Region-carrying ops and terminators.
    Control,
    /// Constants, conversions, calls: the glue of HIR.
    Core,
    /// Thread indices and array extents.
    Index,
    /// `+ - * /` and their like.
    Arithmetic,
    /// Comparisons.
    Comparison,
    /// Bit manipulation.
    Bits,
    /// Scalar mathematics.
    Math,
    /// Vectors, matrices, quaternions.
    Vector,
    /// Array element access.
    Array,
    /// Searching arrays.
    Search,
    /// Atomic updates of array elements.
    Atomic,
    /// Random numbers.
    Random,
    /// Blocks and warps of threads, and the memory they share.
    Gpu,
    /// Assertions and printing.
    Debug,
}

impl OpGroup {
    /// The heading of the group's page in the reference.
    pub fn title(self) -> &'static str {
        match self {
            OpGroup::Control => "Control flow",
            OpGroup::Core => "Values and conversions",
            OpGroup::Index => "Threads and extents",
            OpGroup::Arithmetic => "Arithmetic",
            OpGroup::Comparison => "Comparison",
            OpGroup::Bits => "Bits",
            OpGroup::Math => "Scalar mathematics",
            OpGroup::Vector => "Vectors and matrices",
            OpGroup::Array => "Array elements",
            OpGroup::Search => "Searching",
            OpGroup::Atomic => "Atomics",
            OpGroup::Random => "Random numbers",
            OpGroup::Gpu => "Blocks and warps",
            OpGroup::Debug => "Checking and printing",
        }
    }
}

/// Describes what executing an op does besides computing its results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpEffect {
    /// Nothing: may be duplicated, moved, merged or dropped, and executed speculatively.
    Pure,
    /// Reads memory.
    Read,
    /// Writes memory.
    Write,
    /// Reads and writes memory, prints, or ends the launch.
    ReadWrite,
    /// Owns regions; its effect is theirs.
    Region,
    /// Ends a region.
    Terminator,
}

/// Says which threads must execute an op together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Convergence {
    /// None need to.
    #[default]
    None,
    /// All threads of the warp that have not exited.
    Warp,
    /// All threads of the block that have not exited.
    Block,
}

/// Describes how a back end comes to code for an op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lowering {
    /// Every back end implements it, and [`crate::eval`] or the interpreter defines it.
    Native,
    /// [`crate::math`] holds an HIR function that defines it; the `expand_library` pass puts a call in its place. Where
    /// [`crate::math::library_function`] gives none for the operands' types, the op is native: `mod` of integers.
    Library,
    /// Its operands or results are composites: `scalarise` puts what it is on components in its place.
    Scalarised,
}

/// Describes how an op is differentiated. The rules are those of the passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Derivative {
    /// Its results do not change with its operands by degrees, so that the derivative is zero. So it is of what takes
    /// no floats, and of random numbers, which count as constants.
    Zero,
    /// For each a rule, what its operands' adjoints are of its results' adjoints.
    Rule,
    /// By a rule for scalars. Where composites are among its operands, by its definition.
    ScalarRule,
    /// By what it is made of.
    Definition,
    /// It is control flow or accesses memory, which differentiation reverses as a whole.
    Structure,
    /// Not at all: a kernel that needs its derivative is refused.
    None,
}

/// Describes how Python code reaches an op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpSpelling {
    /// Not from Python: HIR only.
    Internal,
    /// As a function of the package, `loom.NAME`.
    Function,
    /// As an operator, and as `loom.NAME`.
    Operator(&'static str),
}

/// A line of an example.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExampleLine {
    /// A statement or an expression of the kernel language. `a = [1, 2]`, at the beginning, stands for an array that
    /// the kernel is given.
    pub text: &'static str,
    /// Holds what `print` shows of the expression in a kernel, numbers to seven digits; what a statement prints itself.
    pub shown: Option<&'static str>,
}

impl ExampleLine {
    /// An example as an interactive session, `>>> ` before each line.
    pub fn session(lines: &[ExampleLine]) -> String {
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, ">>> {}", line.text);
            if let Some(shown) = line.shown {
                let _ = writeln!(text, "{shown}");
            }
        }
        text
    }
}

/// Everything the table says about one op.
#[derive(Debug)]
pub struct OpInfo {
    /// The op.
    pub op: Op,
    /// Its one name, in HIR text, Python and the docs.
    pub name: &'static str,
    /// Its section of the reference.
    pub group: OpGroup,
    /// Says how Python reaches it.
    pub spelling: OpSpelling,
    /// Other Python names for it (Warp's).
    pub aliases: &'static [&'static str],
    /// Its effect.
    pub effect: OpEffect,
    /// The place where its code comes from.
    pub lowering: Lowering,
    /// Says which threads must execute it together. An op with any is neither moved nor duplicated, merged or dropped.
    pub convergence: Convergence,
    /// The least GPU architecture that has it; on the CPU it works whatever this is.
    pub least_arch: Arch,
    /// Says how it is differentiated.
    pub derivative: Derivative,
    /// Holds what its derivative is taken to be where it has none in the strict sense, for the reference.
    pub kinks: Option<&'static str>,
    /// Holds what it computes, for the reference: one sentence, then the edge cases.
    pub doc: &'static str,
    /// Holds what a call looks like and gives. Every builtin has one, which a test executes on every engine.
    pub example: Vec<ExampleLine>,
    /// Overloads in the order tried; empty for ops whose types the verifier checks by hand (control flow, calls).
    pub signatures: Vec<Signature>,
}

impl OpInfo {
    /// Returns true if executing it more or less often than written cannot be observed.
    pub fn is_pure(&self) -> bool {
        self.effect == OpEffect::Pure
    }

    /// Returns true if it ends a region.
    pub fn is_terminator(&self) -> bool {
        self.effect == OpEffect::Terminator
    }

    /// Returns what `warp_reduce_add` and its like combine values by.
    pub fn reduces_by(&self) -> Option<Op> {
        Some(match self.op {
            Op::WarpReduceAdd => Op::Add,
            Op::WarpReduceMin => Op::Min,
            Op::WarpReduceMax => Op::Max,
            Op::WarpReduceAnd => Op::BitAnd,
            Op::WarpReduceOr => Op::BitOr,
            Op::WarpReduceXor => Op::BitXor,
            _ => return None,
        })
    }

    /// Returns true if a kernel that has it is launched in blocks of threads, on the CPU too. `block_dim` alone is no
    /// reason: a block is one thread then.
    pub fn needs_blocks(&self) -> bool {
        self.group == OpGroup::Gpu && self.op != Op::BlockDim || matches!(self.op, Op::AtomicInc | Op::AtomicDec)
    }

    /// Returns true if any of its overloads takes or gives floats, so that there may be a derivative.
    pub fn has_floats(&self) -> bool {
        self.signatures.iter().any(Signature::has_floats)
    }

    /// Returns what there is to say of its derivative, for the reference.
    pub fn derivative_doc(&self) -> Option<String> {
        let general = match self.derivative {
            _ if !self.has_floats() => return None,
            Derivative::Zero => "Its derivative is 0.",
            Derivative::None => "It has no derivative: a kernel that needs it is refused.",
            Derivative::Rule | Derivative::ScalarRule | Derivative::Definition | Derivative::Structure => {
                "It has a derivative."
            }
        };
        let kinks = self.kinks.map(|kinks| format!(" {kinks}"));
        Some(format!("{general}{}", kinks.unwrap_or_default()))
    }

    /// Returns true if Python code can name it.
    pub fn is_builtin(&self) -> bool {
        self.spelling != OpSpelling::Internal
    }
}

impl Op {
    /// The op that gives the same result with its two operands exchanged, where they are scalars.
    pub fn exchanged(self) -> Option<Op> {
        Some(match self {
            Op::Add | Op::Mul | Op::Min | Op::Max | Op::BitAnd | Op::BitOr | Op::BitXor | Op::Eq | Op::Ne => self,
            Op::Lt => Op::Gt,
            Op::Gt => Op::Lt,
            Op::Le => Op::Ge,
            Op::Ge => Op::Le,
            _ => return None,
        })
    }

    /// The comparison that holds just when this one does not. For floats only equality has one, because of NaN.
    pub fn inverse(self, float: bool) -> Option<Op> {
        Some(match self {
            Op::Eq => Op::Ne,
            Op::Ne => Op::Eq,
            Op::Lt if !float => Op::Ge,
            Op::Ge if !float => Op::Lt,
            Op::Gt if !float => Op::Le,
            Op::Le if !float => Op::Gt,
            _ => return None,
        })
    }

    /// Returns the op of the element and the value that an atomic update stores, if there is one.
    pub fn combination(self) -> Option<Op> {
        Some(match self {
            Op::AtomicAdd => Op::Add,
            Op::AtomicSub => Op::Sub,
            Op::AtomicMin => Op::Min,
            Op::AtomicMax => Op::Max,
            Op::AtomicAnd => Op::BitAnd,
            Op::AtomicOr => Op::BitOr,
            Op::AtomicXor => Op::BitXor,
            _ => return None,
        })
    }

    /// The op's table entry.
    pub fn info(self) -> &'static OpInfo {
        &table::TABLE[self as usize]
    }

    /// The op's name in HIR text and in Python.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The op with this HIR name.
    pub fn from_name(name: &str) -> Option<Op> {
        static NAMES: LazyLock<HashMap<&'static str, Op>> =
            LazyLock::new(|| table::TABLE.iter().map(|info| (info.name, info.op)).collect());
        NAMES.get(name).copied()
    }

    /// The builtin that Python code calls by this name, aliases included.
    pub fn from_builtin_name(name: &str) -> Option<Op> {
        static NAMES: LazyLock<HashMap<&'static str, Op>> = LazyLock::new(|| {
            let builtins = || table::TABLE.iter().filter(|info| info.is_builtin());
            let aliases = builtins().flat_map(|info| info.aliases.iter().map(|alias| (*alias, info.op)));
            aliases.chain(builtins().map(|info| (info.name, info.op))).collect()
        });
        NAMES.get(name).copied()
    }

    /// Every op, in table order.
    pub fn all() -> impl Iterator<Item = &'static OpInfo> {
        table::TABLE.iter()
    }
}
