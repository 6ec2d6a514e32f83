//! Laws over the real numbers, each with a statement, where it holds, and an example that a test applies it to.
//!
//! Only laws of which neither side is always the better one are here; the others are rules of canonical forms. A law looks at
//! one node of the e-graph and returns terms that are equal to it.

mod arithmetic;
mod function;
mod logic;
mod movement;
mod product;
mod reduction;

use super::egraph::EGraphStore;
use crate::attribute::Attributes;
use crate::canonical::{self, Coefficient, IdentityOptions, IdentityStrength, TermId, TermStore, canonicalise};
use crate::error::GraphError;
use crate::graph::{Graph, TensorType};
use crate::op::TensorOp;

/// A node that a law looks at.
pub(super) struct LawSite<'s, 'e> {
    pub(super) store: &'s mut EGraphStore<'e>,
    pub(super) op: TensorOp,
    pub(super) attributes: Attributes,
    pub(super) operands: Vec<TermId>,
    pub(super) ty: TensorType,
}

/// A law.
pub struct Law {
    /// Its name, unique among laws.
    pub name: &'static str,
    /// The law in words.
    pub statement: &'static str,
    /// The domain in which it holds; `None` if it holds wherever both sides are defined.
    pub domain: Option<&'static str>,
    /// Graphs that it applies to: the lines between inputs `%x` and `%y`, `f64[3, 4]`, `%p`, `f64[3, 4]` and above 0, `%w`,
    /// `f64[4, 5]`, `%s`, `f64[]`, and the result `%r`.
    pub examples: &'static [&'static str],
    /// The ops whose nodes it looks at.
    pub(super) ops: &'static [TensorOp],
    pub(super) apply: fn(&mut LawSite<'_, '_>) -> Vec<TermId>,
}

impl std::fmt::Debug for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.statement)
    }
}

/// Returns all laws.
pub fn laws() -> impl Iterator<Item = &'static Law> {
    [arithmetic::LAWS, function::LAWS, logic::LAWS, reduction::LAWS, product::LAWS, movement::LAWS]
        .into_iter()
        .flatten()
}

/// Returns the graphs that one use of a law makes of a graph, one for each node of its canonical form that the law applies to.
///
/// # Errors
///
/// Those of [`canonicalise`].
pub fn examples_applied(law: &'static Law, graph: &Graph) -> Result<Vec<Graph>, GraphError> {
    let form = canonicalise(graph, IdentityOptions::of(IdentityStrength::Mathematics))?;
    super::saturate::variants(&form, law)
}

impl LawSite<'_, '_> {
    /// Returns the operands of each node of an op in the class of a term.
    fn terms_of(&self, x: TermId, op: TensorOp) -> Vec<Vec<TermId>> {
        self.store.operands_of_each(x, op)
    }

    /// Returns the types of all operands together.
    fn dtype(&self) -> polyloom_ir::Scalar {
        self.ty.dtype
    }

    fn is_float(&self) -> bool {
        self.ty.dtype.is_float()
    }

    /// Returns the operands without one.
    fn others(&self, place: usize) -> Vec<TermId> {
        self.operands.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, &id)| id).collect()
    }

    fn sum(&mut self, terms: &[TermId]) -> Option<TermId> {
        let one = Coefficient::of(self.dtype(), 1);
        let terms: Vec<_> = terms.iter().map(|&term| (one, term)).collect();
        canonical::sum(self.store, &terms, self.ty.dtype)
    }

    fn negated(&mut self, x: TermId) -> Option<TermId> {
        let minus_one = Coefficient::of(self.dtype(), -1);
        canonical::sum(self.store, &[(minus_one, x)], self.ty.dtype)
    }

    fn scaled(&mut self, value: f64, x: TermId) -> Option<TermId> {
        canonical::sum(self.store, &[(Coefficient::Real(value), x)], self.ty.dtype)
    }

    fn product(&mut self, factors: &[TermId]) -> Option<TermId> {
        if factors.is_empty() {
            return Some(self.number(1.0));
        }
        canonical::product(self.store, factors, self.ty.dtype)
    }

    fn reciprocal(&mut self, x: TermId) -> Option<TermId> {
        canonical::reciprocal(self.store, x, self.ty.dtype)
    }

    fn exp(&mut self, x: TermId) -> Option<TermId> {
        canonical::exp(self.store, x, self.ty.dtype)
    }

    fn log(&mut self, x: TermId) -> Option<TermId> {
        canonical::log(self.store, x, self.ty.dtype)
    }

    fn sqrt(&mut self, x: TermId) -> Option<TermId> {
        canonical::sqrt(self.store, x, self.ty.dtype)
    }

    fn number(&mut self, value: f64) -> TermId {
        let dtype = self.ty.dtype;
        if dtype.is_float() {
            return canonical::number(self.store, dtype, value);
        }
        let value = Coefficient::Integer(value as i128);
        canonical::push_coefficient(self.store, dtype, value)
    }

    fn real(&self, x: TermId) -> Option<f64> {
        canonical::real(self.store, x)
    }

    /// Adds an elementwise op of operands of the type of the result.
    fn elementwise(&mut self, op: TensorOp, operands: Vec<TermId>) -> Option<TermId> {
        self.make(op, operands, Vec::new())
    }

    /// Adds an associative op of any number of operands.
    fn chain(&mut self, op: TensorOp, operands: &[TermId]) -> Option<TermId> {
        let (first, rest) = operands.split_first()?;
        rest.iter().try_fold(*first, |chain, &operand| self.elementwise(op, vec![chain, operand]))
    }

    fn make(
        &mut self,
        op: TensorOp,
        operands: Vec<TermId>,
        attributes: Vec<crate::attribute::AttributeValue>,
    ) -> Option<TermId> {
        canonical::infer_and_make(self.store, op, operands.into(), attributes)
    }

    /// Splits a term into a number and the rest.
    fn split(&mut self, x: TermId) -> (f64, TermId) {
        for factors in self.terms_of(x, TensorOp::Multiply) {
            let Some(place) = factors.iter().position(|&factor| self.real(factor).is_some()) else { continue };
            let value = self.real(factors[place]).unwrap_or(1.0);
            let rest: Vec<TermId> =
                factors.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, &id)| id).collect();
            if let Some(rest) = self.product(&rest) {
                return (value, rest);
            }
        }
        (1.0, x)
    }

    fn shape(&self, x: TermId) -> crate::shape::Shape {
        self.store.ty(x).shape.clone()
    }
}
