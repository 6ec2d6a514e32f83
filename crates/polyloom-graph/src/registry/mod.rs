//! The registry of kernels: which backend can compute which node.
//!
//! An entry is keyed by op, backend and a pattern of dtypes, ranks and layout. All kernels take the same input, the operands and attributes
//! of the node ([`KernelSignature`] describes it), so that one may stand in for another. A registry holds the backends of one machine: one
//! whose library is missing has no entries, which is no error. Others add entries of their own by [`KernelRegistry::register`].

mod library;
mod signature;

pub use library::{LibraryFunction, library_function};
pub use signature::{DtypeSet, KernelPattern, KernelSignature, OperandSignature};

use crate::backend::Backend;
use crate::op::TensorOp;
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use thiserror::Error;

/// The way in which a step of a path computes its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelForm {
    /// One kernel, or call of a library, computes the one node.
    Monolithic,
    /// A fusion plan computes the nodes, composite ones by their parts.
    Fused,
}

/// The name of the kernels that Polyloom plans.
pub const PLANNED: &str = "polyloom";

/// A kernel that a registry knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelEntry {
    /// Its name, by which recipes refer to it. One op of one backend has no two kernels of a name.
    pub name: Arc<str>,
    /// The op that it computes.
    pub op: TensorOp,
    /// The backend that it runs on.
    pub backend: Backend,
    /// The operands that it takes.
    pub pattern: KernelPattern,
    /// The way in which it computes.
    pub form: KernelForm,
    /// True if its result has the bits that [`crate::reference`] defines.
    pub keeps_bits: bool,
}

/// The reason why an entry is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RegistryError {
    /// There is a kernel of this name.
    #[error("{backend} has a kernel `{name}` for `{}` already", op.name())]
    Duplicate {
        /// The name.
        name: Arc<str>,
        /// The op.
        op: TensorOp,
        /// The backend.
        backend: Backend,
    },
    /// Polyloom's planner alone makes kernels of several nodes.
    #[error("`{name}` is one kernel, and cannot be fused")]
    Fused {
        /// The name.
        name: Arc<str>,
    },
}

/// The kernels of the backends that a machine has.
#[derive(Clone, Debug, Default)]
pub struct KernelRegistry {
    backends: BTreeSet<Backend>,
    entries: FxHashMap<(TensorOp, Backend), Vec<KernelEntry>>,
}

impl KernelRegistry {
    /// Makes a registry of these backends: what Polyloom plans, and what NumPy and PyTorch have.
    ///
    /// ```
    /// use polyloom_graph::{Backend, KernelRegistry};
    /// let registry = KernelRegistry::with_backends(&[Backend::CpuNative, Backend::CpuNumpy]);
    /// assert!(!registry.has(Backend::GpuCuda));
    /// ```
    pub fn with_backends(backends: &[Backend]) -> KernelRegistry {
        let mut registry = KernelRegistry { backends: backends.iter().copied().collect(), ..KernelRegistry::default() };
        for info in TensorOp::all() {
            for &backend in &registry.backends {
                let entry = if backend.plans_groups() {
                    KernelEntry {
                        name: PLANNED.into(),
                        op: info.op,
                        backend,
                        pattern: KernelPattern::ANY,
                        form: KernelForm::Fused,
                        keeps_bits: true,
                    }
                } else {
                    let Some(function) = library_function(info.op, backend) else { continue };
                    let dtypes = if backend == Backend::CpuNumpy {
                        DtypeSet::ALL.without(Scalar::BF16)
                    } else {
                        DtypeSet::ALL.without(Scalar::U16).without(Scalar::U32).without(Scalar::U64)
                    };
                    KernelEntry {
                        name: function.name.into(),
                        op: info.op,
                        backend,
                        pattern: KernelPattern { dtypes, ..KernelPattern::ANY },
                        form: KernelForm::Monolithic,
                        keeps_bits: function.keeps_bits,
                    }
                };
                registry.entries.entry((info.op, backend)).or_default().push(entry);
            }
        }
        registry
    }

    /// Adds a kernel, and its backend if the registry does not have it.
    ///
    /// # Errors
    ///
    /// [`RegistryError`].
    pub fn register(&mut self, entry: KernelEntry) -> Result<(), RegistryError> {
        if entry.form == KernelForm::Fused {
            return Err(RegistryError::Fused { name: entry.name });
        }
        let entries = self.entries.entry((entry.op, entry.backend)).or_default();
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(RegistryError::Duplicate { name: entry.name, op: entry.op, backend: entry.backend });
        }
        self.backends.insert(entry.backend);
        entries.push(entry);
        Ok(())
    }

    /// Returns the registry with these of its backends alone.
    #[must_use]
    pub fn restricted(&self, backends: &[Backend]) -> KernelRegistry {
        let entries = self.entries.iter().filter(|((_, backend), _)| backends.contains(backend));
        KernelRegistry {
            backends: self.backends.iter().copied().filter(|backend| backends.contains(backend)).collect(),
            entries: entries.map(|(key, entries)| (*key, entries.clone())).collect(),
        }
    }

    /// Returns the backends.
    pub fn backends(&self) -> impl Iterator<Item = Backend> + '_ {
        self.backends.iter().copied()
    }

    /// Returns true if the machine has a backend.
    pub fn has(&self, backend: Backend) -> bool {
        self.backends.contains(&backend)
    }

    /// Returns the kernels that take a node, backend by backend.
    pub fn kernels<'r>(&'r self, signature: &'r KernelSignature) -> impl Iterator<Item = &'r KernelEntry> + 'r {
        let of_backend = |&backend: &Backend| self.entries.get(&(signature.op, backend));
        self.backends.iter().filter_map(of_backend).flatten().filter(|entry| entry.pattern.matches(signature))
    }

    /// Returns a kernel by name.
    pub fn kernel(&self, op: TensorOp, backend: Backend, name: &str) -> Option<&KernelEntry> {
        self.entries.get(&(op, backend))?.iter().find(|entry| &*entry.name == name)
    }
}
