//! Types of terms, each once, because most terms of a graph have one of a few: what is compared and copied is a number.

use crate::graph::TensorType;
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;

/// A type, by its place in a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct TypeId(u32);

/// The types of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeTable {
    types: Vec<TensorType>,
    by_type: FxHashMap<TensorType, TypeId>,
}

impl TypeTable {
    /// Adds a type, unless it is there.
    pub(crate) fn intern(&mut self, ty: &TensorType) -> TypeId {
        if let Some(&id) = self.by_type.get(ty) {
            return id;
        }
        let id = TypeId(self.types.len() as u32);
        self.types.push(ty.clone());
        self.by_type.insert(ty.clone(), id);
        id
    }

    pub(crate) fn get(&self, id: TypeId) -> &TensorType {
        &self.types[id.0 as usize]
    }

    /// Adds the type of another element type and the same shape.
    pub(super) fn with_dtype(&mut self, id: TypeId, dtype: Scalar) -> TypeId {
        let ty = self.get(id);
        if ty.dtype == dtype {
            return id;
        }
        let ty = TensorType { dtype, shape: ty.shape.clone() };
        self.intern(&ty)
    }

    pub(super) fn have_one_shape(&self, a: TypeId, b: TypeId) -> bool {
        a == b || self.get(a).shape == self.get(b).shape
    }

    /// Adds the type whose shape two types broadcast to, of either element type. Returns `None` if they do not.
    fn broadcast_pair(&mut self, a: TypeId, b: TypeId) -> Option<TypeId> {
        let (of_a, of_b) = (&self.get(a).shape, &self.get(b).shape);
        if of_b.rank() == 0 || of_a == of_b {
            return Some(a);
        }
        if of_a.rank() == 0 {
            return Some(b);
        }
        let shape = of_a.broadcast(of_b)?;
        if shape == *of_a {
            return Some(a);
        }
        if shape == *of_b {
            return Some(b);
        }
        let ty = TensorType { dtype: self.get(a).dtype, shape };
        Some(self.intern(&ty))
    }

    /// Adds the type of an elementwise op of operands that broadcast. Returns `None` if they do not.
    pub(super) fn broadcast(&mut self, operands: impl IntoIterator<Item = TypeId>, dtype: Scalar) -> Option<TypeId> {
        let mut operands = operands.into_iter();
        let mut ty = operands.next()?;
        for operand in operands {
            if operand != ty {
                ty = self.broadcast_pair(ty, operand)?;
            }
        }
        Some(self.with_dtype(ty, dtype))
    }
}
