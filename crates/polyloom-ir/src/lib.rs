//! HIR, the one intermediate representation of Polyloom, and its definition.
//!
//! The crate knows no front end, no back end and no Python. It holds the types, the op table, the arenas, the text
//! form, the verifier, the interpreter that defines what HIR means, and the diagnostics every layer reports through.

#![forbid(unsafe_code)]

pub mod analysis;
pub mod arch;
pub mod block_plan;
pub mod builder;
pub mod canonical;
pub mod diagnostic;
pub mod entity;
pub mod eval;
pub mod expression;
pub mod format;
pub mod fragment;
pub mod function;
pub mod generate;
pub mod interp;
pub mod launch_config;
pub mod math;
pub mod metadata;
pub mod op;
pub mod span;
pub mod text;
pub mod types;
pub mod verify;

pub use analysis::effects::{ArrayWrites, CallEffects};
pub use arch::{Arch, ArchLimits, ArchVariant, PtxVersion, UnknownArch};
pub use builder::{BuildError, Builder};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use entity::{FuncId, Inst, Region, Value};
pub use expression::{Expr, ExprBuilder};
pub use function::{
    AtomicOrdering, AxisExtent, CheckKind, Function, FunctionKind, Imm, InstData, MemoryOrder, MemoryScope, Module,
    RegionData, SharedArray, ValueData, ValueDef,
};
pub use launch_config::LaunchConfig;
pub use metadata::{CompileTarget, ExecutionConstraints, FloatMode, KernelKind, KernelMetadata, OptLevel};
pub use op::Op;
pub use span::{FileId, SourceFile, SourceMap, Span};
pub use text::{MAX_REGION_DEPTH, parse_module};
pub use types::{AddressSpace, Composite, CompositeKind, MAX_AXES, MAX_COMPONENTS, MAX_DIMS, Scalar, Type, array_name};
pub use verify::{
    LoopBound, check_arch, check_archs, check_constants, check_convergence, check_promises, check_readonly,
    check_rules, check_version, least_version, loop_bounds, timed_promise, verify_function, verify_module,
};
