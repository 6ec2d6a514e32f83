//! The plan of a rewritten function: for each group the moment, the expressions that become its call, and what these pass.
//!
//! The plan names pieces of the function's own text by their ranges, and whoever has a Python at hand edits the tree and
//! compiles it. Everything that it does not name stays as it is, and is evaluated in the same order as before. A call
//! inside of a comprehension, lambda, class or f-string stays as it is, and so does one in a helper, unless the helper
//! does nothing but call ops of one group: then the call of the helper is the place.
//!
//! Any run of calls of a legal group is legal at its own first or last call, so that a group with calls that cannot be
//! rewritten is cut into such runs.

mod leaf;
mod liveness;
mod own_text;
mod segment;
mod unit;

pub use super::plain::{OutsideRoot, PlainRequirement};

use super::grouping::CallGrouper;
use super::interpreter::CaptureInterpreter;
use own_text::OwnText;
use ruff_python_ast as ast;
use segment::SegmentBuilder;
use serde::Serialize;

/// The edits that make a function run its groups.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RewritingPlan {
    /// The groups, or runs of calls of groups.
    pub groups: Vec<GroupRewriting>,
    /// The calls of groups that stay single calls, each with the reason.
    pub left: Vec<(usize, String)>,
    /// What must hold of the types of values from outside.
    pub plain: Vec<PlainRequirement>,
}

/// One group as the rewritten function calls it.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRewriting {
    /// Indices of the captured calls, ascending. A member of the group is named by its place among these.
    pub calls: Vec<usize>,
    /// The moment, `first` or `last`.
    pub moment: &'static str,
    /// The calls themselves.
    pub members: Vec<GroupMember>,
    /// The external values, in the order in which they are passed.
    pub slots: Vec<GroupSlot>,
    /// The members whose results are needed outside, ascending.
    pub outputs: Vec<usize>,
    /// The expressions that change, in evaluation order.
    pub sites: Vec<GroupSite>,
}

/// A call of a group.
#[derive(Clone, Debug, Serialize)]
pub struct GroupMember {
    /// The dotted path of the op.
    pub path: String,
    /// The positional arguments.
    pub arguments: Vec<GroupOperand>,
    /// The keyword arguments.
    pub keywords: Vec<(String, GroupOperand)>,
}

/// An argument of a call of a group.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupOperand {
    /// An external value, by its slot.
    In(usize),
    /// The result of a member.
    Call(usize),
    /// A literal, as it is written.
    Const(String),
    /// A list or tuple.
    List(Vec<GroupOperand>),
}

/// The way in which an external value is had when the group runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSlot {
    /// An expression of a site evaluates it, and a hidden name keeps it.
    Kept,
    /// A local name holds it.
    Name(String),
    /// A global or a name of the closure holds it.
    Free(String),
    /// It is the member of a module with this dotted path.
    Path(String),
}

/// An expression that changes: a call of an op or of a helper.
#[derive(Clone, Debug, Serialize)]
pub struct GroupSite {
    /// The bytes of the expression.
    pub range: (u32, u32),
    /// The members that it evaluates.
    pub members: Vec<usize>,
    /// The member whose result is its value.
    pub result: usize,
    /// The arguments that are evaluated first, in order.
    pub evaluated: Vec<EvaluatedArgument>,
    /// True if unknown code runs between the group and the site, which may bind the names of ops anew.
    pub is_checked: bool,
    /// The slots of the external values of the members up to this site.
    pub n_slots: usize,
    /// The local names that hold results of members when it is evaluated, if the group runs later than these.
    pub holders: Vec<(String, usize)>,
}

/// An argument that a site evaluates at its own place.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluatedArgument {
    /// The bytes of the expression.
    pub range: (u32, u32),
    /// The slot that it fills.
    pub slot: Option<usize>,
    /// The member whose result it is.
    pub member: Option<usize>,
    /// True if it may run code, so that the callee is looked up before it.
    pub may_run_code: bool,
}

/// Plans the rewriting of a function.
pub(super) fn plan(
    interpreter: &CaptureInterpreter<'_>,
    grouper: &CallGrouper<'_>,
    def: &ast::StmtFunctionDef,
) -> RewritingPlan {
    let own = OwnText::of(def);
    let mut plan = RewritingPlan::default();
    for group in grouper.captured_groups() {
        let calls = &group.calls[..];
        if calls.len() < 2 {
            continue;
        }
        let mut start = 0;
        while start < calls.len() {
            let mut reason = None;
            let found = (start + 2..=calls.len()).rev().find_map(|end| {
                let builder = SegmentBuilder { interpreter, grouper, own: &own, calls: &calls[start..end] };
                match builder.build(&group.exec_at) {
                    Ok(rewriting) => Some((end, rewriting)),
                    Err(error) => {
                        reason.get_or_insert(error);
                        None
                    }
                }
            });
            match found {
                Some((end, rewriting)) => {
                    plan.groups.push(rewriting);
                    start = end;
                }
                None => {
                    let reason = reason.unwrap_or_else(|| "the calls beside it cannot run with it".to_owned());
                    plan.left.push((calls[start], reason));
                    start += 1;
                }
            }
        }
    }
    plan.groups.sort_by_key(|group| group.calls[0]);
    let is_used = |each: &&PlainRequirement| {
        each.has_operators || each.is_single || !each.loaded.is_empty() || !each.stored.is_empty()
    };
    plan.plain = interpreter.plain.iter().filter(is_used).cloned().collect();
    plan
}
