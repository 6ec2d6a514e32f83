//! Lowering statements.

use super::{AstLowering, LoopFrame, Merged};
use crate::typed_ast::{
    AssignTarget, ElementPlace, ElementPlaces, ExprKind, LocalId, LoopBody, StmtKind, TypedExpr, TypedStmt, UpdateOp,
};
use polyloom_ir::{Composite, Imm, Inst, Op, Scalar, Span, Value};
use smallvec::SmallVec;

impl AstLowering<'_, '_> {
    /// Lowers statements in order and says whether their end is reached; if it is not, a terminator stands there.
    pub(super) fn block(&mut self, body: &[TypedStmt]) -> bool {
        body.iter().all(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &TypedStmt) -> bool {
        self.builder.set_span(stmt.span);
        match &stmt.kind {
            StmtKind::Assign { targets, values } => {
                let mut results: SmallVec<[Value; 2]> = SmallVec::new();
                for value in values {
                    self.values(value, &mut results);
                }
                let mut results = results.into_iter();
                for target in targets {
                    if let AssignTarget::Places(places) = target {
                        self.store_each(places, &mut results, stmt.span);
                        continue;
                    }
                    let Some(value) = results.next() else { break };
                    match target {
                        AssignTarget::Places(_) => {}
                        AssignTarget::Local(local) => self.set(*local, value),
                        AssignTarget::Element(element) => self.store(element, value, stmt.span),
                        AssignTarget::Component(local, index) => {
                            let (whole, name) = (self.local(*local), self.name(*local).into());
                            let index = self.component_index(index, whole, name, stmt.span);
                            self.set_component(*local, index, value);
                        }
                    }
                }
                true
            }
            StmtKind::Update { element, op, value } => {
                let mut operands = self.element(element);
                if let UpdateOp::Op(op) = op
                    && let Some(atomic) = atomic_update(*op, element)
                {
                    operands.push(self.expr(value));
                    self.builder.set_span(stmt.span);
                    self.builder.op(atomic, &operands);
                    return true;
                }
                self.builder.set_span(element.span);
                let old = self.builder.op(Op::ArrayLoad, &operands);
                let new = match op {
                    UpdateOp::Op(op) => {
                        let value = self.expr(value);
                        self.builder.set_span(stmt.span);
                        self.builder.op(*op, &[old, value])
                    }
                    UpdateOp::Power(power) => self.power(old, *power),
                };
                operands.push(new);
                self.builder.set_span(element.span);
                self.builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
                true
            }
            StmtKind::If { cond, then, otherwise, merged } => match cond.kind {
                ExprKind::Const(bits) => self.block(if bits != 0 { then } else { otherwise }),
                _ => self.branch(cond, then, otherwise, merged, stmt.span),
            },
            StmtKind::For { counter, start, stop, step, body } => {
                let bounds = [self.expr(start), self.expr(stop), self.expr(step)];
                let body_start = start.span.end.max(stop.span.end).max(step.span.end);
                self.loop_(LoopKind::For { counter: *counter, bounds, body_start }, body, stmt.span)
            }
            StmtKind::While { cond, cond_assigns, body } => {
                let assigns = !cond_assigns.is_empty();
                self.loop_(LoopKind::While { cond, assigns }, body, stmt.span)
            }
            StmtKind::Break => {
                if let Some(frame) = self.loops.last() {
                    let (target, locals) = match &frame.block {
                        Some((block, merged)) => (*block, merged.clone()),
                        None => (frame.loop_inst, frame.carried.clone()),
                    };
                    let values = self.locals(&locals);
                    self.builder.break_(target, &values);
                }
                false
            }
            StmtKind::Continue => {
                if let Some(frame) = self.loops.last() {
                    let (target, locals) = (frame.loop_inst, frame.carried.clone());
                    let values = self.locals(&locals);
                    self.builder.continue_(target, &values);
                }
                false
            }
            StmtKind::Return(values) => {
                let mut results: SmallVec<[Value; 2]> = SmallVec::new();
                for value in values {
                    self.values(value, &mut results);
                }
                results.extend(self.locals(&self.function.updated));
                self.builder.set_span(stmt.span);
                self.builder.return_(&results);
                false
            }
            StmtKind::Assert { cond, message } => {
                let cond = self.expr(cond);
                self.builder.set_span(stmt.span);
                self.builder.inst(Op::Assert, &[cond], &[], Imm::Text(message.clone()));
                true
            }
            StmtKind::Print { format, args } => {
                let args: SmallVec<[Value; 4]> = args.iter().map(|a| self.expr(a)).collect();
                self.builder.set_span(stmt.span);
                self.builder.inst(Op::Print, &args, &[], Imm::Text(format.clone()));
                true
            }
            StmtKind::Expr(expr) => {
                self.values(expr, &mut SmallVec::new());
                true
            }
        }
    }

    /// The operands of an access: the array and its indices.
    pub(super) fn element(&mut self, element: &ElementPlace) -> SmallVec<[Value; 4]> {
        let mut operands = SmallVec::new();
        operands.push(self.expr(&element.array));
        for index in &element.indices {
            operands.push(self.expr(index));
        }
        operands
    }

    fn set_component(&mut self, local: LocalId, index: Result<u16, Value>, value: Value) {
        let (whole, ty) = (self.local(local), self.ty(local));
        let inst = match index {
            Ok(component) => self.builder.inst(Op::WithComponent, &[whole, value], &[ty], Imm::Component(component)),
            Err(index) => self.builder.inst(Op::WithComponentAt, &[whole, index, value], &[ty], Imm::None),
        };
        let result = self.builder.func.insts[inst].results[0];
        self.set(local, result);
    }

    fn store(&mut self, element: &ElementPlace, value: Value, span: Span) {
        let mut operands = self.element(element);
        operands.push(value);
        self.builder.set_span(element.span);
        self.builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
        self.builder.set_span(span);
    }

    /// Stores one of the values in each place.
    fn store_each(&mut self, places: &ElementPlaces, values: &mut impl Iterator<Item = Value>, span: Span) {
        let common: SmallVec<[Value; 4]> = places.indices.iter().map(|index| self.expr(index)).collect();
        for ((array, inner), value) in places.each.iter().zip(values) {
            let mut operands: SmallVec<[Value; 4]> = SmallVec::new();
            operands.push(self.expr(array));
            operands.extend_from_slice(&common);
            operands.extend(inner.iter().map(|index| self.expr(index)));
            operands.push(value);
            self.builder.set_span(places.span);
            self.builder.inst(Op::ArrayStore, &operands, &[], Imm::None);
        }
        self.builder.set_span(span);
    }

    fn branch(
        &mut self,
        cond: &TypedExpr,
        then: &[TypedStmt],
        otherwise: &[TypedStmt],
        merged: &[LocalId],
        span: Span,
    ) -> bool {
        let merged: Merged = merged.iter().copied().filter(|l| self.is_read_after(*l, span)).collect();
        let cond = self.expr(cond);
        self.builder.set_span(span);
        let types = self.types(&merged);
        let (inst, regions) = self.builder.begin_if(cond, &types);
        let before = self.changes.len();
        let mut completes = false;
        let outer = self.builder.region();
        for (region, body) in regions.into_iter().zip([then, otherwise]) {
            self.builder.switch_to(region);
            if self.block(body) {
                completes = true;
                let values = self.locals(&merged);
                self.builder.set_span(span);
                self.builder.yield_(&values);
            }
            self.restore(before);
        }
        self.builder.switch_to(outer);
        self.finish(inst, &merged, completes)
    }

    /// Takes the results of a construct, or ends the region if the construct never ends.
    fn finish(&mut self, inst: Inst, merged: &[LocalId], completes: bool) -> bool {
        if completes {
            let results = self.builder.func.insts[inst].results.clone();
            self.set_all(merged, &results);
        } else {
            self.builder.inst(Op::Unreachable, &[], &[], Imm::None);
        }
        completes
    }

    fn loop_(&mut self, kind: LoopKind<'_>, body: &LoopBody, span: Span) -> bool {
        // With an `else`, `break` leaves a block around both, so that it passes over the `else`.
        if body.has_break && !body.otherwise.is_empty() {
            let merged: Merged = body.merged.iter().copied().filter(|l| self.is_read_after(*l, span)).collect();
            self.builder.set_span(span);
            let region = self.builder.create_region(&[]);
            let types = self.types(&merged);
            let block = self.builder.region_inst(Op::Block, &[], &types, &[region]);
            let before = self.changes.len();
            let outer = self.builder.switch_to(region);
            self.loop_inst(&kind, body, span, Some((block, merged.clone())));
            if self.block(&body.otherwise) {
                let values = self.locals(&merged);
                self.builder.set_span(span);
                self.builder.yield_(&values);
            }
            self.builder.switch_to(outer);
            self.restore(before);
            return self.finish(block, &merged, body.completes);
        }
        self.loop_inst(&kind, body, span, None);
        if !body.otherwise.is_empty() {
            return self.block(&body.otherwise);
        }
        if !body.completes {
            self.builder.inst(Op::Unreachable, &[], &[], Imm::None);
        }
        body.completes
    }

    /// The loop itself; its carried variables have their final values afterwards.
    fn loop_inst(&mut self, kind: &LoopKind<'_>, body: &LoopBody, span: Span, block: Option<(Inst, Merged)>) {
        // An `else` or a block keeps all variables carried, because they are read there inside the loop's own span.
        let reads_inside = block.is_some() || !body.otherwise.is_empty();
        let carried: Merged = body
            .carried
            .iter()
            .copied()
            .filter(|l| {
                reads_inside
                    || match kind {
                        LoopKind::For { counter, body_start, .. } if counter == l => {
                            self.is_counter_read_outside(*l, *body_start, span.end)
                        }
                        _ => self.vars[l.0 as usize].is_some() || self.is_read_after(*l, span),
                    }
            })
            .collect();
        self.builder.set_span(span);
        let initial = self.locals(&carried);
        let before = self.changes.len();
        let outer = self.builder.region();
        let inst = match kind {
            LoopKind::For { counter, bounds, .. } => {
                let (inst, region) = self.builder.begin_for_range(*bounds, &initial);
                let params = self.builder.func.regions[region].params.clone();
                self.builder.switch_to(region);
                if let [iv, rest @ ..] = &params[..] {
                    self.set_all(&carried, rest);
                    self.set(*counter, *iv);
                }
                self.loops.push(LoopFrame { loop_inst: inst, carried: carried.clone(), block });
                inst
            }
            LoopKind::While { cond, assigns } => {
                let (inst, regions) = self.builder.begin_while(&initial);
                let params = regions.map(|r| self.builder.func.regions[r].params.clone());
                self.builder.switch_to(regions[0]);
                self.set_all(&carried, &params[0]);
                // A condition that updates a random state stands in the body, so that only the body hands values on.
                let value = if *assigns { self.builder.const_bool(true) } else { self.expr(cond) };
                self.builder.yield_(&[value]);
                self.restore(before);
                self.builder.switch_to(regions[1]);
                self.set_all(&carried, &params[1]);
                if *assigns {
                    self.break_unless(cond, inst, &carried);
                }
                self.loops.push(LoopFrame { loop_inst: inst, carried: carried.clone(), block });
                inst
            }
        };
        if self.block(&body.body) {
            let values = self.locals(&carried);
            self.builder.set_span(span);
            self.builder.yield_(&values);
        }
        self.loops.pop();
        self.builder.switch_to(outer);
        self.restore(before);
        let results = self.builder.func.insts[inst].results.clone();
        self.set_all(&carried, &results);
    }

    fn break_unless(&mut self, cond: &TypedExpr, target: Inst, carried: &[LocalId]) {
        let value = self.expr(cond);
        let (_, regions) = self.builder.begin_if(value, &[]);
        let outer = self.builder.switch_to(regions[0]);
        self.builder.yield_(&[]);
        self.builder.switch_to(regions[1]);
        let values = self.locals(carried);
        self.builder.break_(target, &values);
        self.builder.switch_to(outer);
    }
}

/// Describes what differs between loops.
enum LoopKind<'s> {
    For { counter: LocalId, bounds: [Value; 3], body_start: u32 },
    While { cond: &'s TypedExpr, assigns: bool },
}

/// The atomic operation that `op=` of an array's element is, if there is one.
fn atomic_update(op: Op, element: &ElementPlace) -> Option<Op> {
    let (elem, _) = element.array.ty.as_value()?.as_any_array()?;
    let is_int = elem.as_composite().map(Composite::elem).or(elem.as_scalar()).is_some_and(Scalar::is_int);
    match op {
        Op::Add => Some(Op::AtomicAdd),
        Op::Sub => Some(Op::AtomicSub),
        Op::BitAnd if is_int => Some(Op::AtomicAnd),
        Op::BitOr if is_int => Some(Op::AtomicOr),
        Op::BitXor if is_int => Some(Op::AtomicXor),
        _ => None,
    }
}
