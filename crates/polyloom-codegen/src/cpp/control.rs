//! Control flow: branches, loops and jumps.

use super::body::{FunctionWriter, number};
use super::expression::Precedence;
use super::prelude::Helper;
use super::target::TextTarget;
use polyloom_ir::{FunctionKind, Imm, Inst, InstData, Op, Region};
use std::fmt::Write as _;

impl FunctionWriter<'_, '_> {
    /// `note`: the comment that stands behind the condition.
    pub(super) fn if_(&mut self, data: &InstData, note: &str) {
        let begin = self.out.len();
        self.out.push_str("if (");
        self.value(data.operands[0], Precedence::Any);
        let _ = writeln!(self.out, ") {{{note}");
        let inside = self.out.len();
        self.indent += 1;
        self.region(data.regions[0]);
        self.indent -= 1;
        let otherwise = data.regions[1];
        if self.out.len() == inside {
            // Nothing happens if the condition holds.
            self.out.truncate(begin);
            self.out.push_str("if (");
            self.negated(data.operands[0]);
            let _ = writeln!(self.out, ") {{{note}");
            self.indent += 1;
            self.region(otherwise);
            self.indent -= 1;
            self.line("}");
            return;
        }
        let end = self.out.len();
        if let Some(inner) = self.only_if(otherwise) {
            self.start();
            self.out.push_str("} else ");
            let inner = &self.func.insts[inner];
            let note = self.note(inner.span).map_or(String::new(), |line| format!("  // {line}"));
            self.if_(inner, &note);
            return;
        }
        self.line("} else {");
        let inside = self.out.len();
        self.indent += 1;
        self.region(otherwise);
        self.indent -= 1;
        if self.out.len() == inside {
            self.out.truncate(end);
        }
        self.line("}");
    }

    /// The `if` that is all there is in a region.
    pub(super) fn only_if(&self, region: Region) -> Option<Inst> {
        let func = self.func;
        let (&last, before) = func.regions[region].insts.split_last()?;
        let mut statements =
            before.iter().copied().filter(|&inst| self.plan.is_statement(inst, &func.insts[inst], self.calls));
        let only = statements.next()?;
        let hands_nothing_on = func.insts[last].op == Op::Yield
            && func.insts[last].operands.iter().zip(&func.insts[self.layout.owner(region)?].results).all(
                |(&from, &to)| self.variables.of(to).is_none() || self.variables.of(from) == self.variables.of(to),
            );
        let alone = statements.next().is_none()
            && hands_nothing_on
            && func.insts[only].op == Op::If
            && !self.declarations.contains_key(&only);
        alone.then_some(only)
    }

    pub(super) fn for_range(&mut self, inst: Inst, data: &InstData) {
        let func = self.func;
        let region = data.regions[0];
        let counter = func.regions[region].params[0];
        self.hand(&data.operands[3..], inst);
        let (Some(variable), Some(ty)) = (self.variables.of(counter), self.scalar_of(counter)) else { return };
        self.declared.insert(variable);
        let name = self.variables.all[variable].name.clone();
        let ty_name = self.unit.type_name(ty.into());
        let (low, high, step) = (data.operands[0], data.operands[1], self.intervals.of(data.operands[2]).low);
        self.start();
        if self.intervals.counts_plainly(data) {
            let _ = write!(self.out, "for ({ty_name} {name} = ");
            self.bits(low, Precedence::Any);
            let _ = write!(self.out, "; {name} {} ", if step > 0 { '<' } else { '>' });
            self.value(high, Precedence::Shift);
            let _ = match step {
                _ if self.written_constant(data.operands[2]).is_none() => {
                    let _ = write!(self.out, "; {name} += ");
                    self.value(data.operands[2], Precedence::Any);
                    writeln!(self.out, ") {{")
                }
                1 => writeln!(self.out, "; ++{name}) {{"),
                -1 => writeln!(self.out, "; --{name}) {{"),
                2.. => writeln!(self.out, "; {name} += {step}) {{"),
                _ => writeln!(self.out, "; {name} -= {}) {{", -step),
            };
        } else {
            let unused = if self.plan.is_used(counter) { "" } else { "[[maybe_unused]] " };
            let _ = write!(self.out, "for ({unused}const {ty_name} {name} : ");
            self.call(Helper::Range, &data.operands[..3]);
            self.out.push_str(") {\n");
        }
        self.loop_body(inst, region);
        self.close("}");
        self.left_label(inst);
    }

    pub(super) fn while_(&mut self, inst: Inst, data: &InstData) {
        let func = self.func;
        let [condition, body] = [data.regions[0], data.regions[1]];
        self.hand(&data.operands, inst);
        let Some((&last, before)) = func.regions[condition].insts.split_last() else { return };
        let is_expression = before.iter().all(|&inst| !self.plan.is_statement(inst, &func.insts[inst], self.calls));
        if is_expression && func.insts[last].op == Op::Yield {
            self.start();
            self.out.push_str("while (");
            self.value(func.insts[last].operands[0], Precedence::Any);
            self.out.push_str(") {\n");
            self.loop_body(inst, body);
        } else {
            self.line("while (true) {");
            self.around.push(inst);
            self.indent += 1;
            for &inner in before {
                let data = &func.insts[inner];
                if self.plan.is_statement(inner, data, self.calls) {
                    self.statement(inner, data, condition);
                }
            }
            let goes_on = func.insts[last].op == Op::Yield;
            if goes_on {
                self.start();
                self.out.push_str("if (");
                self.negated(func.insts[last].operands[0]);
                self.out.push_str(") {\n");
                self.indent += 1;
                self.line("break;");
                self.close("}");
            } else {
                self.statement(last, &func.insts[last], condition);
            }
            self.indent -= 1;
            self.around.pop();
            if goes_on {
                self.loop_body(inst, body);
            } else {
                self.indent += 1;
            }
        }
        self.close("}");
        self.left_label(inst);
    }

    /// What a loop repeats, with the label that inner loops continue it at.
    fn loop_body(&mut self, inst: Inst, region: Region) {
        self.around.push(inst);
        self.indent += 1;
        let is_continued = self.jumps.continued.contains(&inst);
        if is_continued {
            self.open("{");
        }
        self.region(region);
        if is_continued {
            self.close("}");
            let text = format!("continue_{}:;", number(inst));
            self.line(&text);
        }
        self.around.pop();
    }

    pub(super) fn left_label(&mut self, inst: Inst) {
        if self.jumps.left.contains(&inst) {
            let text = format!("break_{}:;", number(inst));
            self.line(&text);
        }
    }

    pub(super) fn jump(&mut self, data: &InstData) {
        let Imm::Target(target) = data.imm else { return };
        self.hand(&data.operands, target);
        let is_near = self.around.last() == Some(&target);
        let word = if data.op == Op::Break { "break" } else { "continue" };
        let text = if is_near { format!("{word};") } else { format!("goto {word}_{};", number(target)) };
        self.line(&text);
    }

    pub(super) fn return_(&mut self, data: &InstData, region: Region) {
        if self.func.kind == FunctionKind::Kernel {
            if self.unit.in_blocks && self.unit.target() == TextTarget::Cuda && region != self.func.body {
                self.line("return;");
            } else if region != self.func.body {
                self.line(match self.unit.blocks {
                    _ if self.around.is_empty() => "continue;",
                    Some(_) => "goto next_block;",
                    None => "goto next_thread;",
                });
            }
            return;
        }
        match data.operands[..] {
            [value, next] if self.changes_state => self.return_drawn(value, next),
            [] if region == self.func.body => {}
            [] => self.line("return;"),
            [value] => {
                self.start();
                self.out.push_str("return ");
                self.bits(value, Precedence::Any);
                self.end();
            }
            _ => {
                self.start();
                self.out.push_str("return {");
                self.list(&data.operands);
                self.out.push('}');
                self.end();
            }
        }
    }
}
