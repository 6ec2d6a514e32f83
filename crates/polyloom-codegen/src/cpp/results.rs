//! Results that are more than one value: composites of which a component changes, and calls with several results.

use super::body::{FunctionWriter, number};
use super::expression::Precedence;
use super::prelude::Helper;
use super::unit::DefinitionCallee;
use polyloom_ir::{Imm, Inst, InstData, Op, Type, Value};
use smallvec::SmallVec;
use std::fmt::Write as _;

impl FunctionWriter<'_, '_> {
    /// A composite with another component.
    pub(super) fn with_component(&mut self, data: &InstData) {
        let (Some(&result), Some(&whole)) = (data.results.first(), data.operands.first()) else { return };
        let (Some(variable), Some(&value)) = (self.variables.of(result), data.operands.last()) else { return };
        if self.variables.of(whole) != Some(variable) {
            let rest = &data.operands[1..];
            if rest.iter().any(|&v| self.reads(v).contains(&variable)) {
                // The old value is needed to the end.
                self.open("{");
                let name = self.unused_name(&format!("next_{}", self.variables.all[variable].name));
                let ty = self.unit.type_name(self.variables.all[variable].ty);
                self.start();
                let _ = write!(self.out, "{ty} {name} = ");
                self.bits(whole, Precedence::Any);
                self.end();
                self.set_component(&name, data, value);
                let text = format!("{} = {name};", self.variables.all[variable].name);
                self.line(&text);
                self.close("}");
                return;
            }
            self.variables.all[variable].is_constant = false;
            self.assign_variable(variable, |body| body.bits(whole, Precedence::Any));
        }
        let name = self.variables.all[variable].name.clone();
        self.set_component(&name, data, value);
    }

    fn set_component(&mut self, name: &str, data: &InstData, value: Value) {
        let of = self.func.ty(data.operands[0]).as_composite();
        self.start();
        match (&data.imm, of) {
            (Imm::Component(number), Some(of)) if data.op == Op::WithComponent => {
                self.out.push_str(name);
                self.place(of, usize::from(*number));
                self.out.push_str(" = ");
                self.bits(value, Precedence::Any);
            }
            _ => {
                self.unit.need(Helper::SetComponent);
                let _ = write!(self.out, "set_component({name}, ");
                self.list(&data.operands[1..]);
                self.out.push(')');
            }
        }
        self.end();
    }

    /// A call with several results.
    pub(super) fn several_results(&mut self, inst: Inst, data: &InstData) {
        let new = |body: &Self, value: Value| {
            body.variables.of(value).is_some_and(|v| body.variables.all[v].is_constant && !body.declared.contains(v))
        };
        let live: SmallVec<[Value; 4]> =
            data.results.iter().copied().filter(|&value| self.plan.live.contains(value)).collect();
        if live.is_empty() {
            self.start();
            self.several_call(inst, data);
            self.end();
            return;
        }
        self.start();
        if live.iter().all(|&value| new(self, value)) {
            self.out.push_str("const auto [");
            for (index, &result) in data.results.iter().enumerate() {
                if index > 0 {
                    self.out.push_str(", ");
                }
                match self.variables.of(result) {
                    Some(variable) => {
                        self.declared.insert(variable);
                        self.out.push_str(&self.variables.all[variable].name);
                    }
                    None => {
                        let name = self.unused_name(&format!("unused_{}_{index}", number(inst)));
                        self.out.push_str(&name);
                    }
                }
            }
            self.out.push_str("] = ");
            self.several_call(inst, data);
            self.end();
            return;
        }
        let name = self.unused_name(&format!("results_{}", number(inst)));
        let _ = write!(self.out, "const auto {name} = ");
        self.several_call(inst, data);
        self.end();
        for (index, &result) in data.results.iter().enumerate() {
            if let Some(variable) = self.variables.of(result) {
                self.assign_variable(variable, |body| {
                    let _ = write!(body.out, "{name}.r{index}");
                });
            }
        }
    }

    /// A value drawn of a random state, which is a variable that the call changes.
    pub(super) fn draw(&mut self, inst: Inst, data: &InstData) {
        let (value, next, state) = (data.results[0], data.results[1], data.operands[0]);
        let Some(variable) = self.variables.of(next) else { return };
        let in_place = self.variables.of(state) == Some(variable);
        // The old value of the variable may be an operand as well.
        let is_needed = !in_place && data.operands[1..].iter().any(|&v| self.reads(v).contains(&variable));
        let mut name = self.variables.all[variable].name.clone();
        if is_needed {
            name = self.unused_name(&format!("draw_{}", number(inst)));
            let ty = self.unit.type_name(self.variables.all[variable].ty);
            self.start();
            let _ = write!(self.out, "{ty} {name} = ");
            self.bits(state, Precedence::Any);
            self.end();
        } else if !in_place {
            self.variables.all[variable].is_constant = false;
            self.assign_variable(variable, |body| body.bits(state, Precedence::Any));
        }
        let types: SmallVec<[Type; 4]> = data.operands.iter().map(|&v| self.func.ty(v)).collect();
        let results: SmallVec<[Type; 2]> = data.results.iter().map(|&v| self.func.ty(v)).collect();
        let callee = match self.unit.definition(data.op, &types, &results) {
            Some(DefinitionCallee::Function(callee) | DefinitionCallee::Widened(callee)) => callee,
            _ => return self.unsupported(data),
        };
        let call = |body: &mut Self| {
            let _ = write!(body.out, "{callee}({name}");
            for &operand in &data.operands[1..] {
                body.out.push_str(", ");
                body.value(operand, Precedence::Any);
            }
            body.out.push(')');
        };
        match self.variables.of(value) {
            Some(drawn) => self.assign_variable(drawn, call),
            None => {
                self.start();
                call(self);
                self.end();
            }
        }
        if is_needed {
            self.assign_variable(variable, |body| body.out.push_str(&name));
        }
    }

    /// The end of a function that changes the random state it is given: the value drawn and the next state.
    pub(super) fn return_drawn(&mut self, value: Value, next: Value) {
        let Some(state) = self.func.params().first().and_then(|&param| self.variables.of(param)) else { return };
        let changes = self.variables.of(next) != Some(state);
        let is_late = changes && self.reads(value).contains(&state);
        if is_late {
            let ty = self.unit.type_name(self.func.ty(value));
            self.start();
            let _ = write!(self.out, "const {ty} drawn = ");
            self.bits(value, Precedence::Any);
            self.end();
        }
        if changes {
            self.assign_variable(state, |body| body.bits(next, Precedence::Any));
        }
        self.start();
        self.out.push_str("return ");
        if is_late {
            self.out.push_str("drawn");
        } else {
            self.bits(value, Precedence::Any);
        }
        self.end();
    }

    fn several_call(&mut self, inst: Inst, data: &InstData) {
        match data.op {
            Op::Call => self.call_statement(inst, data),
            _ => self.library_statement(data),
        }
    }
}
