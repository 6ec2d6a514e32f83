//! Proofs: the laws that lead from one graph to the other, each with the terms before and after it.

use super::egraph::{TermAnalysis, TermNode};
use crate::canonical::TermHead;
use egg::{Explanation, TreeTerm};
use rustc_hash::FxHashSet;
use std::fmt;
use std::rc::Rc;

/// One use of a law.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProofStep {
    /// The law's name, or `normal form` for the rules that canonical forms are made by.
    pub law: String,
    /// The term before it, with `…` for what lies deep in it.
    pub before: String,
    /// The term after it.
    pub after: String,
}

impl fmt::Display for ProofStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}   [{}]", self.before, self.after, self.law)
    }
}

/// How deep terms are written.
const DEPTH: usize = 4;

/// Returns the steps of an explanation. Parts that are shared are told once.
pub(super) fn steps_of(explanation: &Explanation<TermNode>, analysis: &TermAnalysis) -> Vec<ProofStep> {
    let mut writer = ProofWriter { analysis, seen: FxHashSet::default(), steps: Vec::new() };
    writer.write(&explanation.explanation_trees);
    let mut told: FxHashSet<ProofStep> = FxHashSet::default();
    writer.steps.retain(|step| step.before != step.after && told.insert(step.clone()));
    writer.steps
}

struct ProofWriter<'a> {
    analysis: &'a TermAnalysis,
    seen: FxHashSet<*const TreeTerm<TermNode>>,
    steps: Vec<ProofStep>,
}

impl ProofWriter<'_> {
    fn write(&mut self, terms: &[Rc<TreeTerm<TermNode>>]) {
        for (index, term) in terms.iter().enumerate() {
            let law = term.forward_rule.or(term.backward_rule);
            if let (Some(law), Some(before)) = (law, index.checked_sub(1).map(|index| &terms[index])) {
                let step = ProofStep {
                    law: law.to_string(),
                    before: self.text(before, true, DEPTH),
                    after: self.text(term, false, DEPTH),
                };
                self.steps.push(step);
            }
            if self.seen.insert(Rc::as_ptr(term)) {
                term.child_proofs.iter().for_each(|child| self.write(child));
            }
        }
    }

    /// Writes a term as it is at the end or the beginning of the steps within it.
    fn text(&self, term: &TreeTerm<TermNode>, is_last: bool, depth: usize) -> String {
        let name = match self.analysis.head(&term.node) {
            TermHead::Input(place) => return format!("x{place}"),
            TermHead::Number(place) => return format!("number{place}"),
            TermHead::Constant(bits) => return format!("{bits:#x}"),
            TermHead::Real(bits) => return format!("{:?}", f64::from_bits(*bits)),
            TermHead::Op(op, _) => op.name(),
        };
        if depth == 0 {
            return "…".to_owned();
        }
        let operands = term.child_proofs.iter().filter_map(|steps| if is_last { steps.last() } else { steps.first() });
        let operands: Vec<String> = operands.map(|operand| self.text(operand, is_last, depth - 1)).collect();
        format!("{name}({})", operands.join(", "))
    }
}
