//! The tensor core, copies in the background and read-only loads, in CUDA C++.

use super::body::FunctionWriter;
use super::prelude::Helper;
use super::target::TextTarget;
use polyloom_ir::function::CacheUse;
use polyloom_ir::{AddressSpace, Imm, Inst, InstData, Op, Scalar, Type, Value};
use std::fmt::Write as _;

impl FunctionWriter<'_, '_> {
    /// `mma_load_a` and its like: what is not the default of their templates stands in angle brackets.
    pub(super) fn fragment(&mut self, helper: Helper, data: &InstData) {
        let Imm::Fragment(fragment) = data.imm else { return };
        for value in data.results.iter().chain(&data.operands) {
            self.unit.type_name(self.func.ty(*value));
        }
        self.unit.need(helper);
        self.out.push_str(helper.name());
        let n = match data.op {
            Op::MmaLoadB | Op::MmaLoadC => Some(fragment.n.to_string()),
            _ => None,
        };
        let layout = fragment.by_columns.then(|| "by_columns".to_owned());
        let arguments: Vec<String> = n.into_iter().chain(layout).collect();
        if !arguments.is_empty() {
            let _ = write!(self.out, "<{}>", arguments.join(", "));
        }
        self.out.push('(');
        self.list(&data.operands);
        self.out.push(')');
    }

    /// A product of the tensor core.
    pub(super) fn product(&mut self, data: &InstData) {
        let factor = self.func.ty(data.operands[0]).as_composite().map(|composite| composite.elem());
        self.unit.need(match factor {
            Some(Scalar::F16) => Helper::MmaF16,
            Some(Scalar::BF16) => Helper::MmaBF16,
            Some(Scalar::I8) => Helper::MmaI8,
            Some(Scalar::U8) => Helper::MmaU8,
            _ => Helper::MmaTF32,
        });
        for value in data.results.iter().chain(&data.operands) {
            self.unit.type_name(self.func.ty(*value));
        }
        self.call(Helper::MmaProduct, &data.operands);
    }

    /// The beginning of a copy to shared memory.
    pub(super) fn async_copy(&mut self, inst: Inst, data: &InstData) {
        let Imm::Copy(copy) = data.imm else { return };
        let n_to = 1 + self.func.ty(data.operands[0]).as_any_array().map_or(0, |(_, ndim)| usize::from(ndim));
        let (to, from) = data.operands.split_at(n_to);
        let helper = match copy.cache {
            CacheUse::All => Helper::AsyncCopy,
            CacheUse::L2 => Helper::AsyncCopyL2,
            CacheUse::Streaming => Helper::AsyncCopyStreaming,
        };
        self.unit.need(helper);
        let _ = write!(self.out, "{}<{}>(&", helper.name(), copy.count);
        self.element_at(inst, to[0], &to[1..], 1);
        self.out.push_str(", &");
        self.element_at(inst, from[0], &from[1..], n_to + 1);
        self.out.push_str(", ");
        self.raw(from[0]);
        let _ = write!(self.out, ".strides[{}])", from.len() - 2);
    }

    /// The end of a group of copies.
    pub(super) fn async_commit(&mut self) {
        self.call(Helper::AsyncCommit, &[]);
    }

    /// The wait for groups of copies.
    pub(super) fn async_wait(&mut self, data: &InstData) {
        let Imm::Pending(pending) = data.imm else { return };
        self.unit.need(Helper::AsyncWait);
        let _ = write!(self.out, "async_wait<{pending}>()");
    }

    /// An element of an array that nothing writes.
    pub(super) fn load_readonly(&mut self, inst: Inst, data: &InstData, ty: Type) {
        let (array, indices): (Value, &[Value]) = (data.operands[0], &data.operands[1..]);
        let is_global = self.func.ty(array).space() == Some(AddressSpace::Global);
        if self.unit.target() != TextTarget::Cuda || !is_global {
            self.element(inst, array, indices);
            return;
        }
        match ty.as_scalar() {
            Some(scalar) if scalar != Scalar::Bool && !scalar.is_half() => self.out.push_str("__ldg(&"),
            Some(_) => {
                self.unit.need(Helper::LoadReadonly);
                self.out.push_str("load_readonly(");
            }
            None => {
                self.unit.type_name(ty);
                self.unit.need(Helper::LoadReadonlyComposite);
                self.out.push_str("load_readonly(");
            }
        }
        self.element(inst, array, indices);
        self.out.push(')');
    }
}
