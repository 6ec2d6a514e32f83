//! Matching by backtracking: operands of commutative ops are tried in both orders.

use super::{Bindings, Pattern, PatternIndex, PatternMatch};
use crate::attribute::{AttributeValue, Attributes};
use crate::builder::convert;
use crate::canonical::{TermHead, TermId, TermOperands, TermStore};
use crate::graph::TensorType;
use crate::op::TensorOp;
use crate::shape::{Dim, Shape};
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Matches a pattern whose root is a term.
pub(super) fn match_at(index: &PatternIndex, pattern: &Pattern, candidate: TermId) -> Option<PatternMatch> {
    let mut matcher = Matcher { index, pattern, state: MatchState::default(), n_left: MOST_STEPS };
    if !matcher.match_all(&mut vec![(pattern.root, candidate)]) {
        return None;
    }
    let MatchState { terms, bindings, .. } = matcher.state;
    let inputs = pattern.form.inputs().map(|(_, input)| terms.get(&input).map(|term| index.ids[term]));
    // An input that the pattern does not use is given by none.
    let inputs: Vec<_> = inputs.collect::<Option<_>>()?;
    // A number of elements may be a constant, which matches may share.
    let is_inside = |id: &TermId, term: &TermId| {
        let is_op = |head: &TermHead| matches!(head, TermHead::Op(..));
        is_op(pattern.form.head(*id)) && is_op(index.form.head(*term))
    };
    let mut inside: Vec<_> =
        terms.iter().filter(|(id, term)| is_inside(id, term)).map(|(_, term)| index.ids[term]).collect();
    inside.sort_unstable();
    inside.dedup();
    Some(PatternMatch { root: index.ids[&candidate], inputs, inside, bindings })
}

/// The most steps of one match. Both orders of each commutative op are tried, which a pattern of one repeated op would make
/// exponential.
const MOST_STEPS: u32 = 4096;

#[derive(Clone, Default)]
struct MatchState {
    terms: FxHashMap<TermId, TermId>,
    bindings: Bindings,
    /// Numbers of elements of the pattern that are constants of the graph: the term that they are of, axes, and the constant's
    /// value.
    counts: Vec<(TermId, Vec<usize>, f64)>,
}

struct Matcher<'a> {
    index: &'a PatternIndex,
    pattern: &'a Pattern,
    state: MatchState,
    n_left: u32,
}

impl Matcher<'_> {
    /// Matches pairs of terms that wait. Leaves the state as it was if they do not.
    fn match_all(&mut self, waiting: &mut Vec<(TermId, TermId)>) -> bool {
        let Some((wanted, term)) = waiting.pop() else { return self.check_counts() };
        if self.n_left == 0 {
            return false;
        }
        self.n_left -= 1;
        if let Some(&known) = self.state.terms.get(&wanted) {
            return known == term && self.match_all(waiting);
        }
        let saved = self.state.clone();
        if self.match_head(wanted, term) {
            self.state.terms.insert(wanted, term);
            let of_wanted = TermOperands::from_slice(self.pattern.form.operands(wanted));
            let of_term = TermOperands::from_slice(self.index.form.operands(term));
            let is_count = self.state.counts.len() > saved.counts.len();
            let is_input = matches!(*self.pattern.form.head(wanted), TermHead::Input(_));
            let orders: Vec<TermOperands> = match *self.pattern.form.head(wanted) {
                _ if is_count || is_input => vec![TermOperands::new()],
                TermHead::Op(op, _) if op.is_commutative() && of_term.len() == 2 => {
                    vec![of_term.clone(), smallvec![of_term[1], of_term[0]]]
                }
                _ => vec![of_term],
            };
            for order in orders {
                let mut next = waiting.clone();
                next.extend(of_wanted.iter().copied().zip(order));
                let before = self.state.clone();
                if self.match_all(&mut next) {
                    return true;
                }
                self.state = before;
            }
        }
        self.state = saved;
        false
    }

    fn match_head(&mut self, wanted: TermId, term: TermId) -> bool {
        let pattern = &self.pattern.form;
        let form = &self.index.form;
        let (of_wanted, of_term) = (pattern.operands(wanted), form.operands(term));
        match (pattern.head(wanted), form.head(term)) {
            (TermHead::Input(_), _) => {
                let (wanted, own) = (pattern.ty(wanted).clone(), self.index.type_of(term).clone());
                self.match_dtype(wanted.dtype, own.dtype)
                    && (wanted.shape.rank() == 0 || self.match_shape(&wanted.shape, &own.shape))
            }
            (TermHead::Constant(wanted_bits), TermHead::Constant(bits)) => {
                let (wanted, own) = (pattern.ty(wanted).dtype, self.index.type_of(term).dtype);
                self.match_dtype(wanted, own) && convert(wanted, *wanted_bits, own) == *bits
            }
            (TermHead::Op(TensorOp::ElementCount, attributes), TermHead::Constant(bits)) => {
                let value = f64::from_bits(convert(self.index.type_of(term).dtype, *bits, Scalar::F64));
                let axes = attributes.0[0].axes();
                self.state.counts.push((of_wanted[0], axes, value));
                self.match_dtype(pattern.ty(wanted).dtype, self.index.type_of(term).dtype)
            }
            (TermHead::Op(wanted_op, wanted_attributes), TermHead::Op(op, attributes)) => {
                wanted_op == op
                    && of_wanted.len() == of_term.len()
                    && self.match_dtype(pattern.ty(wanted).dtype, self.index.type_of(term).dtype)
                    && self.match_attributes(wanted_attributes, attributes)
            }
            _ => false,
        }
    }

    /// Matches a type: `f64` of the pattern is one float type throughout.
    fn match_dtype(&mut self, wanted: Scalar, own: Scalar) -> bool {
        if wanted != Scalar::F64 {
            return wanted == own;
        }
        own.is_float() && *self.state.bindings.float.get_or_insert(own) == own
    }

    fn match_shape(&mut self, wanted: &Shape, own: &Shape) -> bool {
        wanted.rank() == own.rank() && wanted.0.iter().zip(&own.0).all(|(wanted, own)| self.match_dim(wanted, own))
    }

    fn match_dim(&mut self, wanted: &Dim, own: &Dim) -> bool {
        match wanted {
            Dim::Static(_) => wanted == own,
            Dim::Symbol(name) => self.state.bindings.dims.entry(name.clone()).or_insert_with(|| own.clone()) == own,
        }
    }

    fn match_attributes(&mut self, wanted: &Attributes, own: &Attributes) -> bool {
        wanted.0.iter().zip(&own.0).all(|pair| match pair {
            (AttributeValue::Shape(wanted), AttributeValue::Shape(own)) => self.match_shape(wanted, own),
            (AttributeValue::Dtype(wanted), AttributeValue::Dtype(own)) => self.match_dtype(*wanted, *own),
            (wanted, own) => wanted == own,
        })
    }

    /// Checks numbers of elements, now that it is known what they are of.
    fn check_counts(&self) -> bool {
        self.state.counts.iter().all(|(of, axes, value)| {
            let ty: Option<&TensorType> = self.state.terms.get(of).map(|term| self.index.type_of(*term));
            let count = ty.and_then(|ty| {
                axes.iter().try_fold(1u64, |n, &axis| n.checked_mul(ty.shape.0.get(axis)?.as_static()?))
            });
            count.is_some_and(|count| count as f64 == *value)
        })
    }
}
