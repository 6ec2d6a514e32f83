//! Which arrays of a kernel may differ between GPUs and the interpreter, because GPUs take subnormal `float32` numbers for
//! zeros where they add to global memory (PTX ISA 9.0 §9.7.13.5, `atom.add`).
//!
//! Those are the arrays that such sums go to, and those that hold what was computed from their elements or from what the
//! sums gave back.

use polyloom_ir::op::Effect;
use polyloom_ir::{AddressSpace, Function, FunctionKind, Inst, InstData, Module, Op, Region, Scalar, Type, Value};
use std::collections::HashSet;

/// Of each parameter of the kernel that is an array, in order, whether it is one of them.
pub(super) fn flushed_arrays(module: &Module) -> Vec<bool> {
    let Some(kernel) = module.functions.values().find(|function| function.kind == FunctionKind::Kernel) else {
        return Vec::new();
    };
    let mut found = Flushed { function: kernel, values: HashSet::new() };
    // Loops carry values back to where they were looked at before.
    while found.region(kernel.body) {}
    let arrays = kernel.params().iter().filter(|&&param| kernel.ty(param).as_array().is_some());
    arrays.map(|param| found.values.contains(param)).collect()
}

struct Flushed<'a> {
    function: &'a Function,
    /// Values that may differ, and arrays that hold such values.
    values: HashSet<Value>,
}

impl Flushed<'_> {
    /// Follows the values through a region. Gives whether there are more than were known.
    fn region(&mut self, region: Region) -> bool {
        let mut is_more = false;
        for &inst in &self.function.regions[region].insts {
            is_more |= self.inst(inst);
        }
        is_more
    }

    fn inst(&mut self, inst: Inst) -> bool {
        let data = &self.function.insts[inst];
        let mut is_more = false;
        for &region in &data.regions {
            is_more |= self.region(region);
        }
        if self.differs(data) {
            let results = data.results.iter();
            let carried = data.regions.iter().flat_map(|&region| &self.function.regions[region].params);
            // What is stored differs where it is stored.
            let stored = data.operands.iter().filter(|&&operand| writes(data.op) && self.is_array(operand)).take(1);
            let all: Vec<Value> = results.chain(carried).chain(stored).copied().collect();
            for value in all {
                is_more |= self.values.insert(value);
            }
        }
        is_more
    }

    /// Whether what an instruction gives or stores may differ.
    fn differs(&self, data: &InstData) -> bool {
        let takes_one = || data.op != Op::Dim && data.operands.iter().any(|operand| self.values.contains(operand));
        is_flushing_sum(self.function, data)
            || takes_one()
            || data.regions.iter().any(|&region| self.leaves_with(region))
    }

    /// Whether such a value leaves a region.
    fn leaves_with(&self, region: Region) -> bool {
        let mut leaves = false;
        self.function.walk(region, &mut |_, data| {
            let ends = matches!(data.op, Op::Yield | Op::Break | Op::Continue | Op::Return);
            leaves |= ends && data.operands.iter().any(|operand| self.values.contains(operand));
        });
        leaves
    }

    fn is_array(&self, value: Value) -> bool {
        self.function.ty(value).as_array().is_some()
    }
}

fn writes(op: Op) -> bool {
    matches!(op.info().effect, Effect::Write | Effect::ReadWrite)
}

fn is_flushing_sum(function: &Function, data: &InstData) -> bool {
    let ty = data.operands.first().map(|&array| function.ty(array));
    let is_global = |ty: &Type| matches!(ty, Type::Array { elem: Scalar::F32, space: AddressSpace::Global, .. });
    matches!(data.op, Op::AtomicAdd | Op::AtomicSub) && ty.is_some_and(|ty| is_global(&ty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    #[test]
    fn sums_and_what_is_made_of_them() {
        let check = |body: &str, expect: [bool; 3]| {
            let params = "%a a: array<f32, 1>, %b b: array<f32, 1>, %c c: array<i32, 1>, %x x: f32";
            let text = format!("kernel @k({params}) {{\n  %i: i32 = tid_linear\n{body}\n  return\n}}\n");
            let module = parse_module(&text, FileId::from_u32(0)).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
            assert_eq!(flushed_arrays(&module), expect, "{body}");
        };
        check("", [false; 3]);
        check("array_store %a, %i, %x", [false; 3]);
        check("%o: f32 = atomic_add %a, %i, %x", [true, false, false]);
        check("%o: f32 = atomic_max %a, %i, %x", [false; 3]);
        check("%n: i32 = atomic_add %c, %i, %i", [false; 3]);
        check("%o: f32 = atomic_sub %b, %i, %x\narray_store %a, %i, %o", [true, true, false]);
        check("%o: f32 = atomic_add %b, %i, %x\n%n: i32 = dim 0 %b\narray_store %c, %i, %n", [false, true, false]);
        // First in the order of the text, but after a sum, in a loop.
        let in_a_loop = "for_range %i, %i, %i (%j j: i32) {
            %y: f32 = array_load %b, %j
            array_store %a, %j, %y
            %o: f32 = atomic_add %b, %j, %x
            yield
        }";
        check(in_a_loop, [true, true, false]);
        let by_a_branch = "%o: f32 = atomic_add %b, %i, %x
            %is: bool = gt %o, %x
            %n: i32 = if %is { yield %i } else { yield %i }
            array_store %c, %i, %n";
        check(by_a_branch, [false, true, true]);
    }
}
