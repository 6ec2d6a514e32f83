//! The levels to which a kernel is proved right, the reasons why it is not taken, and a panic as one of them.

use polyloom::CompileError;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

/// Describes how far a kernel has been proved right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofLevel {
    /// It is Python, and kernels are found in it.
    Parse,
    /// All columns that are asked for can be written.
    Compile,
    /// Interpreter and machine code leave the same bits, which depend on all arguments; of a generated kernel, what is to
    /// decide something does.
    Run,
    /// Its backward kernel agrees with forward mode, and that with differences.
    Grad,
    /// The simulator runs the PTX with all its checks, and leaves these bits too.
    Full,
}

impl ProofLevel {
    /// All of them, the least first.
    pub const ALL: [ProofLevel; 5] =
        [ProofLevel::Parse, ProofLevel::Compile, ProofLevel::Run, ProofLevel::Grad, ProofLevel::Full];

    /// Its name in data sets and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProofLevel::Parse => "parse",
            ProofLevel::Compile => "compile",
            ProofLevel::Run => "run",
            ProofLevel::Grad => "grad",
            ProofLevel::Full => "full",
        }
    }

    /// Returns what a row of a data set has passed: `is_generated` says whether its kernel is no one's,
    /// `has_ptx_backward` whether it has PTX of the backward kernel.
    pub(crate) fn description(self, is_generated: bool, has_ptx_backward: bool) -> &'static str {
        match self {
            ProofLevel::Parse => "it is Python, and its kernel is found",
            ProofLevel::Compile if is_generated => {
                "every column is made of it, and none of its operations, unless it is a composite, is seen to be \
                 without effect"
            }
            ProofLevel::Compile => "every column is made of it",
            ProofLevel::Run if is_generated => {
                "interpreter and machine code leave the same bits on three sets of arguments, which all matter, and no \
                 clamp, extremum, remainder or comparison, unless of a composite, hardly ever does anything there"
            }
            ProofLevel::Run => {
                "interpreter and machine code leave the same bits on three sets of arguments, which all matter"
            }
            ProofLevel::Grad => {
                "its backward kernel agrees with forward mode, and that with differences in double precision"
            }
            ProofLevel::Full if has_ptx_backward => {
                "the PTX, forward and backward, leaves what the interpreter does on a simulator that checks bounds, \
                 races, barriers and uninitialised reads"
            }
            ProofLevel::Full => {
                "the forward PTX leaves what the interpreter does on a simulator that checks bounds, races, barriers \
                 and uninitialised reads"
            }
        }
    }
}

impl fmt::Display for ProofLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProofLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<ProofLevel, String> {
        let known = ProofLevel::ALL.map(ProofLevel::name).join(", ");
        let level = ProofLevel::ALL.into_iter().find(|level| level.name() == name);
        level.ok_or_else(|| format!("there is no level `{name}`; there are {known}"))
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident = $name:literal,)+) => {
        /// The reason for which a kernel is not taken.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Reason {
            $($(#[doc = $doc])+ $reason,)+
        }

        impl Reason {
            /// Its name in the statistics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)+
                }
            }

            /// Returns true if a reason has this name.
            pub(crate) fn is_name(name: &str) -> bool {
                [$($name),+].contains(&name)
            }
        }
    };
}

reasons! {
    /// The front end does not take it.
    Rejected = "rejected",
    /// A back end does not take it, or a launch fails.
    Failed = "failed",
    /// Two engines disagree: a fault of the compiler.
    Disagreement = "disagreement",
    /// A check fails: an index out of bounds, a division by zero.
    Trap = "trap",
    /// A thread takes more steps than it may.
    Endless = "endless",
    /// The simulator finds a race, a read of what nobody wrote, a barrier that not all threads reach, or the like.
    Sanitizer = "sanitizer",
    /// Its backward kernel, forward mode and differences do not agree: a fault of the compiler.
    Gradient = "gradient",
    /// Rounding leaves nothing of its derivatives, which are right in double precision.
    GradientInexact = "gradient_inexact",
    /// A derivative is infinite or NaN.
    GradientNotFinite = "gradient_not_finite",
    /// It leaves infinities or NaN.
    NotFinite = "not_finite",
    /// An array it writes holds one number throughout, or the same ones whatever it is given.
    Constant = "constant",
    /// Its structure is that of a kernel that no row may be like.
    Excluded = "excluded",
    /// The compiler panics.
    Panic = "panic",
    /// An operation has no effect, or had none in all runs: a clamp that never clamps, terms that cancel, a condition that
    /// always holds.
    NoEffect = "no_effect",
    /// A parameter makes no difference.
    Unused = "unused_parameter",
}

/// A kernel that is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedProof {
    /// Why.
    pub reason: Reason,
    /// Holds what there is to say of it.
    pub detail: String,
}

impl RejectedProof {
    pub(crate) fn new(reason: Reason, detail: impl fmt::Display) -> Box<RejectedProof> {
        Box::new(RejectedProof { reason, detail: detail.to_string() })
    }
}

impl fmt::Display for RejectedProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.detail)
    }
}

impl From<CompileError> for Box<RejectedProof> {
    fn from(error: CompileError) -> Box<RejectedProof> {
        RejectedProof::new(Reason::Rejected, error)
    }
}

/// A fault of the compiler must not end a long run, so that it is a reject like others.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Box<RejectedProof>>) -> Result<T, Box<RejectedProof>> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(RejectedProof::new(Reason::Panic, message(&*panic))))
}

/// Returns what a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic that says nothing")
}
