//! The definitions that are differentiated in an op's place.
//!
//! They compute the op's own bits: the forward sweep of a backward kernel takes the branches that the kernel took.

use crate::text;
use crate::transform::scalarise::LengthUse;
use polyloom_ir::{Builder, Composite, Function, FunctionKind, Imm, Module, Op, Type, Value};
use smallvec::SmallVec;
use std::sync::Arc;

/// The function that defines an op for operands of these types, first in its module, followed by what it calls.
pub(super) fn definition(op: Op, types: &[Type]) -> Option<Arc<Module>> {
    if let Some(module) = by_composites(op, types) {
        return Some(Arc::new(module));
    }
    let lengths = if op == Op::Length { LengthUse::Apart } else { LengthUse::Whole };
    text::definition_of_composites(op, types, lengths, false).map(Arc::new)
}

/// Defines ops that are other ops on composites put together, which have rules of their own.
fn by_composites(op: Op, types: &[Type]) -> Option<Module> {
    let results = op.info().signatures.iter().find_map(|signature| signature.result_types(types))?;
    let names = ["a", "b", "c"];
    let mut function =
        Function::new(op.name(), FunctionKind::Func, names.into_iter().zip(types.iter().copied()), &results);
    let x: SmallVec<[Value; 3]> = function.params().into();
    let mut whole = WholeModule { b: Builder::new(&mut function) };
    let value = whole.of(op, types, &x)?;
    whole.b.return_(&[value]);
    let mut module = Module::new();
    module.functions.push(function);
    Some(module)
}

struct WholeModule<'f> {
    b: Builder<'f>,
}

impl WholeModule<'_> {
    fn of(&mut self, op: Op, types: &[Type], x: &[Value]) -> Option<Value> {
        let is_transform = matches!(types.first(), Some(Type::Composite(Composite::Transform { .. })));
        Some(match op {
            Op::TransformPoint if is_transform => {
                let (position, rotation) = self.frame(x[0]);
                let turned = self.b.op(Op::QuatRotate, &[rotation, x[1]]);
                self.b.op(Op::Add, &[position, turned])
            }
            Op::TransformVector if is_transform => {
                let (_, rotation) = self.frame(x[0]);
                self.b.op(Op::QuatRotate, &[rotation, x[1]])
            }
            Op::TransformInverse => {
                let (position, rotation) = self.frame(x[0]);
                let rotation = self.b.op(Op::QuatInverse, &[rotation]);
                let moved = self.b.op(Op::QuatRotate, &[rotation, position]);
                let moved = self.b.op(Op::Neg, &[moved]);
                self.joined(types[0], [moved, rotation])
            }
            Op::TransformTwist | Op::TransformWrench => {
                let (position, rotation) = self.frame(x[0]);
                let [mut top, mut bottom] = self.halves(x[1]).map(|part| self.b.op(Op::QuatRotate, &[rotation, part]));
                // The part that the position moves.
                let (lever, moved) = if op == Op::TransformTwist { (top, &mut bottom) } else { (bottom, &mut top) };
                let moment = self.b.op(Op::Cross, &[position, lever]);
                *moved = self.b.op(Op::Add, &[*moved, moment]);
                self.joined(types[1], [top, bottom])
            }
            Op::VelocityAtPoint => {
                let [angular, linear] = self.halves(x[0]);
                let turning = self.b.op(Op::Cross, &[angular, x[1]]);
                self.b.op(Op::Add, &[linear, turning])
            }
            Op::SpatialDot => self.b.op(Op::Dot, x),
            Op::SpatialCross => {
                let ([a, b], [c, d]) = (self.halves(x[0]), self.halves(x[1]));
                let [top, first, second] = [(a, c), (b, c), (a, d)].map(|(a, b)| self.b.op(Op::Cross, &[a, b]));
                let bottom = self.b.op(Op::Add, &[first, second]);
                self.joined(types[0], [top, bottom])
            }
            Op::SpatialCrossDual => {
                let ([a, b], [c, d]) = (self.halves(x[0]), self.halves(x[1]));
                let [first, second, bottom] = [(a, c), (b, d), (a, d)].map(|(a, b)| self.b.op(Op::Cross, &[a, b]));
                let top = self.b.op(Op::Add, &[first, second]);
                self.joined(types[0], [top, bottom])
            }
            _ => return None,
        })
    }

    /// A transform's translation and rotation.
    fn frame(&mut self, transform: Value) -> (Value, Value) {
        let position = self.b.op(Op::TransformGetTranslation, &[transform]);
        (position, self.b.op(Op::TransformGetRotation, &[transform]))
    }

    fn halves(&mut self, spatial: Value) -> [Value; 2] {
        [Op::SpatialTop, Op::SpatialBottom].map(|part| self.b.op(part, &[spatial]))
    }

    /// A composite of the components of two.
    fn joined(&mut self, ty: Type, parts: [Value; 2]) -> Value {
        let mut components: SmallVec<[Value; 8]> = SmallVec::new();
        for part in parts {
            let Some(composite) = self.b.func.ty(part).as_composite() else { continue };
            for number in 0..composite.n_components() {
                let elem = [composite.elem().into()];
                let inst = self.b.inst(Op::Component, &[part], &elem, Imm::Component(number as u16));
                components.push(self.b.func.insts[inst].results[0]);
            }
        }
        let inst = self.b.inst(Op::Construct, &components, &[ty], Imm::None);
        self.b.func.insts[inst].results[0]
    }
}
