//! Identity: canonical forms of graphs, and hashes of them.
//!
//! A graph has two identities ([`IdentityStrength`]). That of its *bits* is shared by graphs that compute the same bits, so
//! that one may always replace the other; that of its *mathematics* by graphs that are equal over the real numbers, whose
//! floats may differ. Neither is complete: graphs with different hashes may still be equal, which [`crate::equivalence`] looks
//! into.
//!
//! [`canonicalise`] goes over the values once. Composite ops are decomposed first; values that no output depends on are left
//! out; each op goes through the rules of its kind (`normal.rs`), which removes views and casts that do nothing, folds constants and orders operands;
//! equal values become one. A value is known by its Merkle hash (`merkle.rs`), a hash of its op, attributes, type and the hashes
//! of its operands, so that neither names nor the order of definitions matter, and a value that is used a thousand times is
//! hashed once.
//!
//! What would break an identity, and what is done about it: operands are ordered by hash, not by when they were made, because
//! interning orders by insertion; the canonical NaN stands for all, because only NaN-ness is defined, and -0.0 differs from 0.0
//! in the identity of bits alone; numbers are hashed and printed by bits, never as decimal digits; ops by name, never by place
//! in the table; the version of the op set and of the canonical form is part of each hash ([`OP_SET_VERSION`]).
//!
//! Inputs are known by their place and extents that are symbols by where they appear first, because callers pass arguments by
//! place. All inputs count, also those that no output depends on.
//!
//! Design: `docs/design/identity.md`.

mod along_axes;
mod canonicalise;
mod coefficient;
mod contraction;
mod definition;
mod elementwise;
mod fold;
mod form;
mod function;
mod labels;
mod merkle;
mod normal;
mod options;
mod reduction;
mod ring;
mod term;
mod text;
mod types;
mod view;

pub use canonicalise::canonicalise;
pub(crate) use canonicalise::search_form;
pub(crate) use coefficient::{Coefficient, coefficient, number, push_coefficient};
pub(crate) use contraction::contract;
pub(crate) use definition::{Definition, DefinitionId, DefinitionTable};
pub use form::CanonicalGraph;
pub(crate) use form::restore_term;
pub(crate) use labels::labels_of;
pub use merkle::{GraphHash, OP_SET_VERSION};
pub(crate) use normal::{infer_and_make, make};
pub use options::{ConstantPrecision, IdentityOptions, IdentityStrength};
pub(crate) use reduction::reduce;
pub(crate) use ring::{exp, log, product, reciprocal, sqrt, sum};
pub(crate) use term::{Term, TermHead, TermId, TermOperands, TermStore, real};
pub(crate) use types::{TypeId, TypeTable};
pub(crate) use view::{broadcast, permute, reshape};

use crate::error::GraphError;
use crate::graph::Graph;

/// A hash with the canonical text that it is of, which is compared when a hash is found.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CanonicalForm {
    /// The hash.
    pub hash: GraphHash,
    /// The text.
    pub text: String,
}

/// Both identities of a graph.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GraphIdentity {
    /// That of its bits.
    pub bits: CanonicalForm,
    /// That of its mathematics.
    pub mathematics: CanonicalForm,
}

impl Graph {
    /// Returns both identities, with constants as they are.
    ///
    /// # Errors
    ///
    /// Those of [`canonicalise`].
    ///
    /// ```
    /// use polyloom_graph::parse_graph;
    ///
    /// let identity = |text: &str| parse_graph(text).unwrap().identity().unwrap();
    /// let a = identity("%x = input \"x\" : f32[3]\n%y = input \"y\" : f32[3]\n%s = add %x, %y\n%t = add %s, %x\nreturn %t");
    /// let b = identity("%u = input \"u\" : f32[3]\n%v = input \"v\" : f32[3]\n%s = add %v, %u\n%t = add %u, %s\nreturn %t");
    /// let c = identity("%u = input \"u\" : f32[3]\n%v = input \"v\" : f32[3]\n%s = add %u, %u\n%t = add %s, %v\nreturn %t");
    /// assert_eq!(a.bits, b.bits);
    /// assert!(a.bits.hash != c.bits.hash && a.mathematics == c.mathematics);
    /// ```
    pub fn identity(&self) -> Result<GraphIdentity, GraphError> {
        let form = |strength| -> Result<CanonicalForm, GraphError> {
            let canonical = canonicalise(self, IdentityOptions::of(strength))?;
            Ok(CanonicalForm { hash: canonical.hash(), text: canonical.text() })
        };
        Ok(GraphIdentity { bits: form(IdentityStrength::Bits)?, mathematics: form(IdentityStrength::Mathematics)? })
    }
}
