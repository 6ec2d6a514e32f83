//! Expressions of a given type over the op table.

use super::condition_tests::ConditionTest;
use super::expr::{BindingStrength, GeneratedExpr};
use super::generator::{GeneratedVariable, KernelGenerator, name_of};
use super::overloads::{BuiltinOverload, OVERLOADS, TypeChoices, giving, is_in_warp_of};
use super::sense::{is_pointless, mistakes_angle};
use crate::catalogue::{DrawFrequency, OpKind, OpTrait, OperandNeed, expected, facts};
use crate::number_range::{NumberRange, within_type};
use polyloom::op::{OpSpelling, ResultChoice, TypeClass};
use polyloom::{Composite, Op, Random, Scalar, Type};
use smallvec::SmallVec;
use std::rc::Rc;

/// The longest text that becomes part of a longer one; what is longer gets a name first.
const LONG: usize = 34;

/// Returns true if something is divided by a rotation, component by component, because that means nothing.
fn divides_by_rotation(op: Op, types: &[Type]) -> bool {
    let is_rotation =
        |ty: &Type| matches!(ty.as_composite(), Some(Composite::Quaternion { .. } | Composite::Transform { .. }));
    facts(op).kind == OpKind::Quotient && types.get(1).is_some_and(is_rotation)
}

/// Describes what an overload leaves open is taken from the types of the kernel.
struct OfKernel<'a> {
    random: &'a mut Random,
    composites: &'a [Composite],
    scalars: &'a [Scalar],
}

impl ResultChoice for OfKernel<'_> {
    fn scalar(&mut self, class: TypeClass) -> Option<Scalar> {
        let fits: Vec<Scalar> = self.scalars.iter().copied().filter(|&scalar| class.contains(scalar)).collect();
        (!fits.is_empty()).then(|| self.random.pick(&fits))
    }

    fn composite(&mut self, elem: Scalar) -> Option<Composite> {
        let fits: Vec<Composite> = self.composites.iter().copied().filter(|c| c.elem() == elem).collect();
        (!fits.is_empty()).then(|| self.random.pick(&fits))
    }

    fn extent(&mut self) -> u16 {
        let known: Vec<u16> = self.composites.iter().filter_map(|c| c.shape().first().copied()).collect();
        if known.is_empty() { 3 } else { self.random.pick(&known) }
    }
}

fn is_matrix(ty: Type) -> bool {
    matches!(ty.as_composite(), Some(Composite::Matrix { .. }))
}

impl KernelGenerator {
    /// An expression of this type, so many operations deep at most.
    pub(super) fn value(&mut self, ty: Type, depth: usize) -> GeneratedExpr {
        if depth == 0 || self.random.one_in(8) {
            return self.leaf(ty);
        }
        for _ in 0..4 {
            if let Some(expr) = self.operation(ty, depth) {
                return self.by_name(expr);
            }
        }
        self.leaf(ty)
    }

    /// The variable that has this value already, if there is one.
    fn by_name(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let has_it =
            |variable: &GeneratedVariable| variable.visible && !variable.changes && variable.value == expr.text;
        let changes = expr.uses.iter().any(|&index| self.variables[index].changes);
        match self.variables.iter().position(has_it).filter(|_| !changes) {
            Some(index) => self.read(index),
            None => expr,
        }
    }

    /// A condition that depends on something.
    pub(super) fn condition(&mut self, depth: usize) -> GeneratedExpr {
        self.open_condition(depth).unwrap_or_else(|| self.any_condition(0))
    }

    /// One that nothing has decided yet.
    pub(super) fn open_condition(&mut self, depth: usize) -> Option<GeneratedExpr> {
        for at in 0..8 {
            let before = self.so_far();
            let called = self.calls();
            let condition = self.any_condition(if at < 4 { depth } else { 0 });
            if !self.is_decided(&condition) {
                return Some(condition);
            }
            self.undo(before);
            self.set_calls(&called);
        }
        None
    }

    fn any_condition(&mut self, depth: usize) -> GeneratedExpr {
        let truth = NumberRange::new(0.0, 1.0);
        match self.random.below(12) {
            0..=2 if depth > 0 => {
                let (a, b) = (self.any_condition(depth - 1), self.any_condition(0));
                let operator = self.random.pick(&["and", "or"]);
                let first = a.asks.clone();
                let asks: Vec<ConditionTest> = a.asks.iter().chain(&b.asks).cloned().collect();
                let (a, b) = (self.short(a), self.short(b));
                // Two conditions on one variable hold seldom together, or always one of them.
                let (of_a, of_b) = (self.roots(&a), self.roots(&b));
                let overlap = of_a.iter().any(|root| of_b.contains(root)) && (of_a.len() == 1 || of_b.len() == 1);
                let overlap = overlap || a.uses.iter().any(|index| b.uses.contains(index));
                return match overlap {
                    true => GeneratedExpr { asks: first, ..a },
                    false => GeneratedExpr { asks, ..GeneratedExpr::binary(operator, &a, &b, Type::BOOL, truth) },
                };
            }
            3 if depth > 0 => {
                let x = self.any_condition(depth);
                // The opposite of one comparison is another comparison.
                return if x.binding <= BindingStrength::And {
                    GeneratedExpr::unary("not", &x, Type::BOOL, truth)
                } else {
                    x
                };
            }
            4 if self.has(self.whole) => {
                let x = self.variable(self.whole, 0);
                // The remainder of a loop's counter may be one value alone.
                let counts = x.uses.iter().any(|&index| self.variables[index].counts);
                if counts {
                    return self.comparison(depth);
                }
                let modulus = self.random.pick(&[2, 2, 3, 4, 5]);
                let rest = GeneratedExpr::binary(
                    "%",
                    &x,
                    &self.int(modulus),
                    x.ty,
                    NumberRange::within(f64::from(modulus - 1)),
                );
                let wanted = self.random.below(modulus as usize) as i32;
                let wanted = self.int(wanted);
                let operator = self.random.pick(&["==", "!=", "=="]);
                let asks = vec![self.ask(operator, &rest, &wanted)];
                return GeneratedExpr { asks, ..GeneratedExpr::binary(operator, &rest, &wanted, Type::BOOL, truth) };
            }
            _ => {}
        }
        self.comparison(depth)
    }

    /// A condition on which of two values is the larger.
    fn comparison(&mut self, depth: usize) -> GeneratedExpr {
        let truth = NumberRange::new(0.0, 1.0);
        let whole = self.whole;
        let has_whole = self.variables.iter().any(|known| known.visible && known.varies && known.ty == whole);
        let ty = if has_whole && self.random.one_in(3) { self.whole } else { self.real };
        let mut a = self.variable(ty, depth);
        for _ in 0..3 {
            // A sum with a number could be compared with another number.
            let is_plain = a.is_bare() || !a.parts.is_moved && !a.parts.is_scaled;
            // Nor do bounds change on which side of a number between them a value is.
            let is_plain = is_plain && !a.has(OpTrait::Limits);
            if self.differs(&a) && is_plain {
                break;
            }
            a = self.variable(ty, depth);
        }
        let operator = match ty == self.whole {
            true => self.random.pick(&["<", ">", "<", ">", "<=", ">="]),
            false => self.random.pick(&["<", ">"]),
        };
        let b = match self.random.below(3) {
            0 => self.variable(ty, 0),
            _ => self.threshold(&a),
        };
        let overlap = a.uses.iter().any(|index| b.uses.contains(index));
        let b = if overlap { self.threshold(&a) } else { b };
        let (a, b) = (self.short(a), self.short(b));
        let asks = vec![self.ask(operator, &a, &b)];
        GeneratedExpr { asks, ..GeneratedExpr::binary(operator, &a, &b, Type::BOOL, truth) }
    }

    /// A number within what the expression may be.
    pub(super) fn threshold(&mut self, of: &GeneratedExpr) -> GeneratedExpr {
        // Much of a wide range is never reached.
        let NumberRange { low, high } = of.range;
        let (low, high) =
            if of.ty == self.whole { (low.max(-4.0), high.min(20.0)) } else { (low.max(-1.5), high.min(1.5)) };
        let (low, high) = match low < high {
            true => (low, high),
            // A value far from zero takes a part near there.
            false if of.range.low > 0.0 => (of.range.low.min(1e3), of.range.high.min(of.range.low.min(1e3) * 2.0)),
            false => (of.range.low.max(of.range.high.max(-1e3) * 2.0), of.range.high.max(-1e3)),
        };
        let at = low + (high - low) * (3 + self.random.below(5)) as f64 / 10.0;
        if of.ty == self.whole {
            self.int(at.round() as i32)
        } else {
            self.number_of(of.ty, (at * 100.0).round() / 100.0)
        }
    }

    /// An expression with a variable in it.
    pub(super) fn variable(&mut self, ty: Type, depth: usize) -> GeneratedExpr {
        for _ in 0..4 {
            let expr = self.value(ty, depth);
            if !expr.uses.is_empty() {
                return expr;
            }
        }
        self.leaf_of_variable(ty).unwrap_or_else(|| self.leaf(ty))
    }

    fn choices_for(&mut self, ty: Type) -> Rc<TypeChoices> {
        if let Some((_, known)) = self.choices.iter().find(|(known, _)| *known == ty) {
            return Rc::clone(known);
        }
        let mut overloads: Vec<BuiltinOverload> =
            giving(ty).iter().filter(|&&at| self.kept[at]).map(|&at| OVERLOADS[at]).collect();
        overloads.sort_by_key(|overload| overload.op);
        let mut ops: Vec<Op> = overloads.iter().map(|overload| overload.op).collect();
        ops.dedup();
        let is_common =
            |op: &Op| matches!(facts(*op).frequency, DrawFrequency::Basic | DrawFrequency::CommonOfFloats(_));
        let common = ops.iter().copied().filter(is_common).collect();
        let choices = Rc::new(TypeChoices { ops, common, overloads });
        self.choices.push((ty, Rc::clone(&choices)));
        choices
    }

    /// A call of a builtin that gives this type.
    fn operation(&mut self, ty: Type, depth: usize) -> Option<GeneratedExpr> {
        if !self.functions.is_empty()
            && self.random.one_in(3)
            && let Some(call) = self.call_of_function(ty, depth)
        {
            return Some(call);
        }
        let choices = self.choices_for(ty);
        if choices.ops.is_empty() {
            return None;
        }
        // Arithmetic is most of what programs do.
        let op = match choices.common.is_empty() || self.random.below(100) >= self.arithmetic {
            true => self.random.pick(&choices.ops),
            false => self.random.pick(&choices.common),
        };
        let one_in = match facts(op).frequency {
            DrawFrequency::OneIn(n) => n,
            DrawFrequency::OfFloats(n) | DrawFrequency::CommonOfFloats(n) if ty == self.whole => n,
            _ => 1,
        };
        if one_in > 1 && !self.random.one_in(one_in) {
            return None;
        }
        let first = choices.overloads.partition_point(|overload| overload.op < op);
        let n = choices.overloads[first..].iter().take_while(|overload| overload.op == op).count();
        let overload = choices.overloads[first + self.random.below(n)];
        let mut choose = OfKernel { random: &mut self.random, composites: &self.composites, scalars: &self.scalars };
        let types = overload.signature.operand_types(ty, &mut choose)?;
        if self.is_shared() && !is_in_warp_of(op, &types) {
            return None;
        }
        let known = |ty: &Type| ty.as_composite().is_none_or(|composite| self.composites.contains(&composite));
        if !types.iter().all(known) || divides_by_rotation(op, &types) {
            return None;
        }
        self.call(op, &types, ty, depth)
    }

    /// This builtin of operands of these types.
    fn call(&mut self, op: Op, types: &[Type], ty: Type, depth: usize) -> Option<GeneratedExpr> {
        let stated = facts(op);
        let has_bounds = stated.is(OpTrait::BoundsLast) || stated.is(OpTrait::BoundsFirst);
        let mut args: Vec<GeneratedExpr> = Vec::with_capacity(types.len());
        let first_axis = if types.len() == 4 { self.random.below(3) as i32 } else { 0 };
        for (index, &operand) in types.iter().enumerate() {
            let arg = match (op, operand) {
                // Bounds are numbers, which [`KernelGenerator::bounds`] puts in order.
                _ if has_bounds && index > 0 => self.constant(operand),
                (Op::Select, Type::BOOL) => self.condition(depth - 1),
                // Axes, each once.
                (_, Type::I32) if stated.is(OpTrait::TakesAxes) => GeneratedExpr::int((first_axis + index as i32) % 3),
                _ => self.operand(operand, stated.need(index), index == 0, depth - 1),
            };
            args.push(arg);
        }
        if is_pointless(op, &args) || mistakes_angle(op, &args[0]) {
            return None;
        }
        if has_bounds && !self.bounds(stated.is(OpTrait::BoundsFirst), &mut args) {
            return None;
        }
        let range = |args: &[GeneratedExpr]| {
            let ranges: SmallVec<[NumberRange; 4]> = args.iter().map(|arg| arg.range).collect();
            let is_same = args.len() == 2 && args[0].text == args[1].text;
            expected(op, &ranges, ty, types, is_same)
        };
        // Sums and products of whole numbers are kept from wrapping around.
        let wraps =
            |args: &[GeneratedExpr]| ty == self.whole && within_type(range(args), ty) != range(args).rising(f64::trunc);
        if stated.frequency == DrawFrequency::Basic && wraps(&args) {
            args = args.into_iter().map(|arg| self.constrain(arg, OperandNeed::Moderate)).collect();
            if is_pointless(op, &args) {
                return None;
            }
        }
        let range = within_type(range(&args), ty);
        let args: Vec<GeneratedExpr> = args.into_iter().map(|arg| self.short(arg)).collect();
        let refs: Vec<&GeneratedExpr> = args.iter().collect();
        Some(match (op.info().spelling, &refs[..]) {
            (OpSpelling::Operator("**"), [a, b]) if self.powers_called => {
                GeneratedExpr::call(&self.builtin(op.name()), &[a, b], ty, range)
            }
            (OpSpelling::Operator(operator), [a, b]) => {
                let is_product = op == Op::Mul && is_matrix(a.ty) && b.ty.as_composite().is_some();
                GeneratedExpr::binary(if is_product && self.at_sign { "@" } else { operator }, a, b, ty, range)
            }
            (OpSpelling::Operator(operator), [x]) => GeneratedExpr::unary(operator, x, ty, range).by(op),
            _ => GeneratedExpr::call(&self.builtin(op.name()), &refs, ty, range).by(op),
        })
    }

    /// An operand as it is needed: rather one of which it is known than one that is made so.
    fn operand(&mut self, ty: Type, need: OperandNeed, varies: bool, depth: usize) -> GeneratedExpr {
        // A branch on nothing, bounds without a value between them: operands that vary come first.
        let arg = if varies { self.variable(ty, depth) } else { self.value(ty, depth) };
        if need == OperandNeed::Finite || need.is_met_by(arg.range) {
            return self.constrain(arg, need);
        }
        let simple = if varies { self.variable(ty, 0) } else { self.leaf(ty) };
        let arg = if need.is_met_by(simple.range) || self.random.one_in(2) { simple } else { arg };
        self.constrain(arg, need)
    }

    /// Makes the bounds among the operands constants in order, with room between them for what is bounded, if it has any.
    fn bounds(&mut self, are_first: bool, args: &mut [GeneratedExpr]) -> bool {
        let [a, b, c] = args else { return false };
        let is_whole = a.ty == self.whole;
        // Much of a wide range is never reached.
        let (least, most, step) = if is_whole { (-8.0, 24.0, 1.0) } else { (-2.0, 2.5, 0.05) };
        let (mut low, mut high) = (a.range.low.max(least), a.range.high.min(most));
        if low >= high {
            (low, high) = (a.range.low.max(-1e3), (a.range.low.max(-1e3) + most - least).min(a.range.high));
        }
        let room = high - low;
        if room < 8.0 * step {
            return false;
        }
        // Bounds that nothing passes bound nothing.
        low = ((low + room * (2 + self.random.below(6)) as f64 / 20.0) / step).round() * step;
        high = ((high - room * (2 + self.random.below(6)) as f64 / 20.0) / step).round() * step;
        let (low, high) = match is_whole {
            true => (self.int(low as i32), self.int(high as i32)),
            false => (self.number((low * 100.0).round() / 100.0), self.number((high * 100.0).round() / 100.0)),
        };
        if are_first {
            *c = std::mem::replace(a, low);
            *b = high;
        } else {
            (*b, *c) = (low, high);
        }
        true
    }

    /// A variable of the type or a number.
    pub(super) fn leaf(&mut self, ty: Type) -> GeneratedExpr {
        let wants_number = ty.as_scalar().is_some() && self.random.one_in(4);
        match if wants_number { None } else { self.leaf_of_variable(ty) } {
            Some(leaf) => leaf,
            None => self.constant(ty),
        }
    }

    /// A variable of the type, or made of one; what has not been used comes first.
    pub(super) fn leaf_of_variable(&mut self, ty: Type) -> Option<GeneratedExpr> {
        let of_type = self.candidates(|known| known == ty);
        if of_type > 0 && !self.random.one_in(6) {
            return self.candidate(of_type, |known| known == ty);
        }
        let Type::Scalar(scalar) = ty else {
            return match of_type {
                0 => self.built(ty),
                _ => self.candidate(of_type, |known| known == ty),
            };
        };
        let has_parts = |known: Type| known.as_composite().is_some_and(|composite| composite.elem() == scalar);
        let parts = self.candidates(has_parts);
        if parts > 0 && (of_type == 0 || self.random.one_in(2)) {
            let whole = self.candidate(parts, has_parts)?;
            return Some(self.component(&whole));
        }
        if of_type > 0 {
            return self.candidate(of_type, |known| known == ty);
        }
        let (real, whole) = (self.real, self.whole);
        if ty == real {
            let is_int = |known| known == Type::I32 || known == whole;
            let ints = self.candidates(is_int);
            let int = self.candidate(ints, is_int)?;
            return Some(self.cast(int, ty));
        }
        if ty == whole {
            let floats = self.candidates(|known| known == real);
            let float = match self.candidate(floats, |known| known == real) {
                Some(float) => float,
                None => {
                    let of_reals = |known: Type| known.as_composite().is_some_and(|c| real == c.elem().into());
                    let composites = self.candidates(of_reals);
                    let composite = self.candidate(composites, of_reals)?;
                    self.component(&composite)
                }
            };
            return Some(self.as_whole(float));
        }
        None
    }

    /// Returns the number of variables there are to choose among, because what has not been used comes first.
    fn candidates(&self, fits: impl Fn(Type) -> bool) -> usize {
        let (mut all, mut unused) = (0, 0);
        for variable in self.variables.iter().filter(|variable| variable.visible && fits(variable.ty)) {
            all += 1;
            unused += usize::from(!variable.used);
        }
        if unused > 0 { unused } else { all }
    }

    /// One of so many.
    fn candidate(&mut self, count: usize, fits: impl Fn(Type) -> bool) -> Option<GeneratedExpr> {
        if count == 0 {
            return None;
        }
        let of = |variable: &&GeneratedVariable| variable.visible && fits(variable.ty);
        let is_unused = self.variables.iter().filter(of).any(|variable| !variable.used);
        let at = self.random.below(count);
        let mut places = (0..self.variables.len()).filter(|&index| {
            let variable = &self.variables[index];
            variable.visible && fits(variable.ty) && !(is_unused && variable.used)
        });
        let index = places.nth(at)?;
        Some(self.read(index))
    }

    /// The value in another type of numbers.
    pub(super) fn cast(&mut self, value: GeneratedExpr, ty: Type) -> GeneratedExpr {
        if value.ty == ty {
            return value;
        }
        let range = value.range;
        GeneratedExpr::call(&self.cast_name(ty), &[&value], ty, range).by(Op::Cast)
    }

    /// A fraction as a whole number, in steps so small that it tells values apart.
    pub(super) fn as_whole(&mut self, value: GeneratedExpr) -> GeneratedExpr {
        let steps = match value.head {
            // A multiple of a whole number is whole, too.
            Some(Op::Cast) => self.random.pick(&[0.5, 1.5, 2.5, 0.25]),
            _ => self.random.pick(&[10.0, 16.0, 32.0, 64.0, 100.0]),
        };
        // A value that is bounded after it is scaled has few values left.
        let need = if value.range.size() * steps > 1e5 { OperandNeed::Moderate } else { OperandNeed::Finite };
        let mut value = self.constrain(value, need);
        if self.whole.as_scalar().is_some_and(Scalar::is_unsigned_int) && value.range.low < 0.0 {
            value = self.applied(Op::Abs, &[&value]);
        }
        let value = self.short(value);
        let scaled = self.times(&value, steps);
        let scaled = self.constrain(scaled, OperandNeed::Finite);
        let (floor, ceil) = (scaled.range.rising(f64::floor), scaled.range.rising(f64::ceil));
        let inner = match self.random.below(8) {
            0 => self.applied(Op::Floor, &[&scaled]),
            1 => self.applied_within(Op::Round, &[&scaled], floor.or(ceil)),
            2 => self.applied(Op::Ceil, &[&scaled]),
            3 if self.real == Type::F32 || !self.is_shared() => {
                self.applied_within(Op::Rint, &[&scaled], floor.or(ceil))
            }
            _ => scaled,
        };
        GeneratedExpr::call(&self.cast_name(self.whole), &[&inner], self.whole, floor.or(ceil))
    }

    /// The value so many times, because a number that it is multiplied with already takes that in.
    pub(super) fn times(&mut self, value: &GeneratedExpr, number: f64) -> GeneratedExpr {
        let first = self.random.one_in(2);
        let (number, first, value) = match value.scaled.as_deref() {
            Some((known, first, value)) => ((known * number * 1e4).round() / 1e4, *first, value),
            None => (number, first, value),
        };
        if number == 1.0 {
            return value.clone();
        }
        let number = self.number_of(value.ty, number);
        let (a, b) = if first { (&number, value) } else { (value, &number) };
        GeneratedExpr::binary("*", a, b, value.ty, a.range * b.range)
    }

    /// A component of a composite.
    pub(super) fn component(&mut self, whole: &GeneratedExpr) -> GeneratedExpr {
        let Some(composite) = whole.ty.as_composite() else { return whole.clone() };
        let elem = Type::Scalar(composite.elem());
        match composite.shape()[..] {
            [len @ 2..=4] if self.named_components => {
                let at = self.random.below(len.into());
                GeneratedExpr::part(whole, [".x", ".y", ".z", ".w"][at], elem)
            }
            [rows, cols] => {
                let (row, mut col) = (self.random.below(rows.into()), self.random.below(cols.into()));
                // The others are zeros.
                if whole.has(OpTrait::ZeroOffDiagonal) {
                    col = row;
                } else if whole.has(OpTrait::ZeroOnDiagonal) && col == row {
                    col = (row + 1) % usize::from(cols);
                }
                GeneratedExpr::part(whole, &format!("[{row}, {col}]"), elem)
            }
            _ => {
                let at = self.random.below(composite.n_components());
                GeneratedExpr::part(whole, &format!("[{at}]"), elem)
            }
        }
    }

    /// A composite of scalars.
    fn built(&mut self, ty: Type) -> Option<GeneratedExpr> {
        let composite = ty.as_composite()?;
        let Composite::Vector { elem, len: len @ 2..=4 } = composite else { return None };
        let elem = Type::Scalar(elem);
        let parts: Vec<GeneratedExpr> =
            (0..len).map(|_| self.leaf_of_variable(elem).unwrap_or_else(|| self.constant(elem))).collect();
        let mut parts = parts;
        if parts.iter().all(|part| part.text == parts[0].text) {
            parts[1] = self.constant(elem);
        }
        let range = parts.iter().fold(parts[0].range, |range, part| range.or(part.range));
        let refs: Vec<&GeneratedExpr> = parts.iter().collect();
        Some(GeneratedExpr::call(&self.builtin(&name_of(composite.into())), &refs, ty, range))
    }

    /// A number, or a composite of numbers.
    pub(super) fn constant(&mut self, ty: Type) -> GeneratedExpr {
        const FLOATS: [f64; 18] =
            [0.5, 2.0, 0.25, 1.5, 0.1, 3.0, 0.75, 1.0, 4.0, 0.2, 0.3, 0.05, 2.5, 0.8, 0.6, 1.2, 0.01, 10.0];
        match ty {
            _ if ty == self.real && self.random.one_in(3) => {
                let hundredths = 1 + self.random.below(299);
                self.number(hundredths as f64 / 100.0)
            }
            Type::F32 | Type::F64 => {
                let number = self.random.pick(&FLOATS);
                self.number_of(ty, number)
            }
            _ if ty == self.whole => {
                let number = if self.random.one_in(4) { 1 << self.random.below(6) } else { 1 + self.random.below(9) };
                self.int(number as i32)
            }
            Type::BOOL => self.condition(0),
            Type::Scalar(scalar) => {
                let number = if scalar.is_float() {
                    GeneratedExpr::float(self.random.pick(&FLOATS))
                } else {
                    GeneratedExpr::int(1 + self.random.below(9) as i32)
                };
                let range = number.range;
                GeneratedExpr::call(&self.cast_name(ty), &[&number], ty, range)
            }
            _ => match ty.as_composite() {
                Some(composite) => {
                    let parts: Vec<GeneratedExpr> =
                        (0..composite.n_components()).map(|_| self.constant(Type::Scalar(composite.elem()))).collect();
                    let refs: Vec<&GeneratedExpr> = parts.iter().collect();
                    let range = parts.iter().fold(parts[0].range, |range, part| range.or(part.range));
                    GeneratedExpr::call(&self.builtin(&name_of(composite.into())), &refs, ty, range)
                }
                None => GeneratedExpr::int(1),
            },
        }
    }

    /// The expression, or a new variable if a line with an assignment of it would be long.
    pub(super) fn fitting(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        if expr.text.len() > 62 && !self.inline { self.name(expr) } else { expr }
    }

    /// The expression, or a new variable that has its value if its text is long.
    pub(super) fn short(&mut self, expr: GeneratedExpr) -> GeneratedExpr {
        let is_long = expr.text.len() > LONG || expr.binding == BindingStrength::Atom && expr.text.len() > LONG + 8;
        if !is_long || self.inline { expr } else { self.name(expr) }
    }
}
