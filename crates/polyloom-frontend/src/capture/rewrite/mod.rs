//! The plan of a rewritten function: for each group the moment, the expressions that become its call, and what these pass.
//!
//! The plan names pieces of the function's own text by their ranges, and whoever has a Python at hand edits the tree and
//! compiles it. Everything that it does not name stays as it is, and is evaluated in the same order as before. A call
//! inside of a comprehension, lambda, class or f-string stays as it is, and so does one in a helper, unless the helper
//! does nothing but call ops of one group: then the call of the helper is the place.
//!
//! Any run of calls of a legal group is legal at its own first or last call, so that a group with calls that cannot be
//! rewritten is cut into such runs.

pub(crate) mod edits;
mod last;
mod leaf;
mod liveness;
mod own_text;
mod segment;
mod unit;

pub use edits::{
    EvaluatedArgument, GroupMember, GroupOperand, GroupRewriting, GroupSite, GroupSlot, OutsideRoot, PlainRequirement,
    RewritingPlan,
};

use super::grouping::CallGrouper;
use super::interpreter::CaptureInterpreter;
use super::result::ExecMoment;
use super::timeline::EventKind;
use own_text::OwnText;
use polyloom_ir::Span;
use ruff_python_ast as ast;
use segment::SegmentBuilder;

/// Plans the rewriting of a function.
pub(super) fn plan(
    interpreter: &CaptureInterpreter<'_>,
    grouper: &CallGrouper<'_>,
    def: &ast::StmtFunctionDef,
) -> (RewritingPlan, Vec<Span>) {
    let own = OwnText::of(def);
    let mut plan = RewritingPlan::default();
    let mut views = Vec::new();
    if interpreter.timeline.events.iter().any(|event| event.kind == EventKind::Dynamic) {
        // `locals()` would show the hidden names of a rewritten function, and the program may pass them on.
        plan.shows_names = true;
        let calls = 0..interpreter.timeline.calls.len();
        plan.left.extend(calls.map(|call| (call, "code that reaches every name runs in the function".to_owned())));
        return (plan, views);
    }
    for group in grouper.captured_groups() {
        let calls = &group.calls[..];
        // A call of NumPy by itself is NumPy's own.
        let n_least = if interpreter.timeline.calls[calls[0]].parameters.is_empty() { 1 } else { 2 };
        if calls.len() < n_least {
            continue;
        }
        // The rest of a group runs as it is written.
        let n_least = calls.len().min(2);
        // One call runs in its own place.
        let legal = if calls.len() == 1 { &[ExecMoment::First][..] } else { &group.exec_at[..] };
        let whole = SegmentBuilder { interpreter, grouper, own: &own, calls };
        views.extend(whole.escaping_views());
        let mut start = 0;
        while start < calls.len() {
            let mut reason = None;
            let found = (start + n_least..=calls.len()).rev().find_map(|end| {
                let builder = SegmentBuilder { interpreter, grouper, own: &own, calls: &calls[start..end] };
                match builder.build(legal) {
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
        each.has_operators || each.is_single || each.is_array || !each.loaded.is_empty() || !each.stored.is_empty()
    };
    plan.plain = interpreter.plain.iter().filter(is_used).cloned().collect();
    (plan, views)
}
