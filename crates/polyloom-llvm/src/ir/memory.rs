//! Memory: stack slots, loads and stores, atomics.

use super::*;

impl IrEmitter<'_> {
    /// A stack slot of the current function, allocated in its entry block.
    pub(crate) fn alloca(&self, ty: Ty) -> Val {
        let here = self.current();
        // SAFETY: the current block belongs to a function; the builder returns to where it was.
        unsafe {
            let entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here.0));
            let first = LLVMGetFirstInstruction(entry);
            match first.is_null() {
                true => LLVMPositionBuilderAtEnd(self.builder, entry),
                false => LLVMPositionBuilderBefore(self.builder, first),
            }
            let slot = LLVMBuildAlloca(self.builder, ty.0, UNNAMED);
            LLVMPositionBuilderAtEnd(self.builder, here.0);
            Val(slot)
        }
    }

    pub(crate) fn load(&self, ty: Ty, pointer: Val, align: u32) -> Val {
        // SAFETY: `pointer` is a pointer; that memory is there when the code runs is the caller's business.
        unsafe {
            let load = LLVMBuildLoad2(self.builder, ty.0, pointer.0, UNNAMED);
            LLVMSetAlignment(load, align);
            Val(load)
        }
    }

    pub(crate) fn store(&self, value: Val, pointer: Val, align: u32) -> Val {
        // SAFETY: as in `load`.
        unsafe {
            let store = LLVMBuildStore(self.builder, value.0, pointer.0);
            LLVMSetAlignment(store, align);
            Val(store)
        }
    }

    /// Reads a stack slot.
    pub(crate) fn get(&self, ty: Ty, slot: Val) -> Val {
        // SAFETY: a slot of this type.
        Val(unsafe { LLVMBuildLoad2(self.builder, ty.0, slot.0, UNNAMED) })
    }

    /// Writes a stack slot.
    pub(crate) fn set(&self, slot: Val, value: Val) {
        // SAFETY: a slot of the value's type.
        unsafe { LLVMBuildStore(self.builder, value.0, slot.0) };
    }

    /// `pointer + index * size_of(elem)`; a vector of pointers if the index is a vector.
    pub(crate) fn offset(&self, elem: Ty, pointer: Val, index: Val) -> Val {
        let mut indices = [index.0];
        // SAFETY: `pointer` is a pointer or a vector of as many as there are indices.
        Val(unsafe { LLVMBuildGEP2(self.builder, elem.0, pointer.0, indices.as_mut_ptr(), 1, UNNAMED) })
    }

    /// An atomic update without ordering, atomic to the threads of `scope`. Gives the old value.
    pub(crate) fn atomic_rmw(&self, op: LLVMAtomicRMWBinOp, pointer: Val, value: Val, scope: &str) -> Val {
        let order = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        // SAFETY: `pointer` is a pointer and the value of a type the operation takes.
        Val(unsafe { LLVMBuildAtomicRMWSyncScope(self.builder, op, pointer.0, value.0, order, self.sync_scope(scope)) })
    }

    /// Compares and exchanges integers: the old value and whether it was the expected one.
    pub(crate) fn cmpxchg(&self, pointer: Val, expected: Val, new: Val, scope: &str) -> (Val, Val) {
        let order = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
        // SAFETY: `pointer` is a pointer and the values are integers of one type.
        let pair = Val(unsafe {
            LLVMBuildAtomicCmpXchgSyncScope(
                self.builder,
                pointer.0,
                expected.0,
                new.0,
                order,
                order,
                self.sync_scope(scope),
            )
        });
        (self.extract_field(pair, 0), self.extract_field(pair, 1))
    }

    /// Orders accesses of memory for the threads of `scope`.
    pub(crate) fn fence(&self, order: FenceOrder, scope: &str) {
        // SAFETY: the builder stands in a function; fences have no operands.
        unsafe { LLVMBuildFenceSyncScope(self.builder, order, self.sync_scope(scope), UNNAMED) };
    }

    fn sync_scope(&self, name: &str) -> u32 {
        // SAFETY: the context is alive.
        unsafe { LLVMGetSyncScopeID(self.context, name.as_ptr().cast(), name.len()) }
    }

    /// Makes a load or store atomic to the threads of `scope`, without ordering.
    pub(crate) fn set_atomic(&self, access: Val, scope: &str) {
        // SAFETY: `access` is a load or store.
        unsafe {
            LLVMSetOrdering(access.0, LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic);
            LLVMSetAtomicSyncScopeID(access.0, self.sync_scope(scope));
        }
    }
}
