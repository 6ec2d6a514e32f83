//! Control flow (PTX ISA 9.0 §9.7.12) and what has no effect here.

use super::function::{Decoder, QUAD_PASSED};
use super::op::{AnySource, Call, HostFunction, Op, Place, Target};
use super::symbol::{File, Symbol};
use super::types::Type;
use super::{Class, Decoded, Line};
use crate::exec::registers::{Source, Test};
use crate::syntax::ast::Operand;

impl Decoder<'_> {
    pub(super) fn control(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let all = &line.instruction.operands;
        line.mods.take("uni");
        let op = match line.instruction.opcode.as_str() {
            "bra" => {
                line.check(1, 1)?;
                let Operand::Name(label) = &all[0] else { return line.error("`bra` needs a label") };
                self.branch_to(0, label);
                Op::Branch(0)
            }
            "brx" => {
                line.mods.take("idx");
                line.check(2, 2)?;
                let index = self.source(&all[0], Type::U(32))?;
                let Operand::Name(list) = &all[1] else { return line.error("`brx` needs a list of targets") };
                let Some(Symbol::Targets(labels)) = self.find(list) else {
                    return line.error(format!("`{list}` is no list of targets"));
                };
                for (which, label) in labels.iter().enumerate() {
                    self.branch_to(which, label);
                }
                Op::BranchTable { index, targets: vec![0; labels.len()] }
            }
            "call" => self.call(line)?,
            "ret" => Op::Return,
            "exit" => Op::Exit,
            "trap" => Op::Trap,
            "nanosleep" => {
                line.mods.ty()?;
                line.check(1, 1)?;
                Op::Sleep
            }
            // A debugger's stop, a counter, hints.
            opcode => {
                match opcode {
                    "pmevent" => line.mods.drop_known(&["mask"]),
                    "setmaxnreg" => line.mods.drop_known(&["inc", "dec", "sync", "aligned", "u32"]),
                    "griddepcontrol" => line.mods.drop_known(&["launch_dependents", "wait"]),
                    _ => {}
                }
                Op::Nothing
            }
        };
        line.mods.finish()?;
        Ok((op, Class::Control))
    }

    /// Notes that the instruction being decoded, which comes next, jumps to `label`.
    fn branch_to(&mut self, which: usize, label: &str) {
        let (next, position) = (self.code.len(), self.position);
        self.scope().pending.push((next, which, label.to_owned(), position));
    }

    fn call(&mut self, line: &Line<'_>) -> Decoded<Op> {
        let mut rest = line.instruction.operands.as_slice();
        let results: &[Operand] = match rest {
            [Operand::List(results), tail @ ..] => {
                rest = tail;
                results
            }
            _ => &[],
        };
        let Some(Operand::Name(name)) = rest.first() else { return line.error("`call` needs a function") };
        let arguments: &[Operand] = match rest.get(1) {
            Some(Operand::List(arguments)) => arguments,
            _ => &[],
        };
        let mut result_places = Vec::new();
        let mut argument_places = Vec::new();
        let (target, formals) = if let Some(Symbol::Register { file: File::Double, slot, .. }) = self.find(name) {
            (Target::Pointer(Source::Register(slot)), None)
        } else if let Some(index) = self.function_index(name) {
            let info = &self.infos[index];
            (Target::Function(index), Some((info.results.clone(), info.parameters.clone())))
        } else if let Some(function) = HostFunction::from_name(name) {
            (Target::Host(function), None)
        } else {
            return line.error(format!("the module does not define `{name}`"));
        };
        if let Some((formal_results, formal_parameters)) = &formals {
            for (given, taken, what) in [
                (results.len(), formal_results.len(), "results"),
                (arguments.len(), formal_parameters.len(), "parameters"),
            ] {
                if given != taken {
                    return line.error(format!("`{name}` has {taken} {what}, not {given}"));
                }
            }
        }
        for (index, operand) in results.iter().enumerate() {
            let formal = formals.as_ref().and_then(|(results, _)| results.get(index));
            result_places.push(self.passed(operand, formal)?);
        }
        for (index, operand) in arguments.iter().enumerate() {
            let formal = formals.as_ref().and_then(|(_, parameters)| parameters.get(index));
            argument_places.push(self.passed(operand, formal)?);
        }
        Ok(Op::Call(Box::new(Call { target, arguments: argument_places, results: result_places })))
    }

    /// Returns what a call passes or gets, in the form the callee has it.
    fn passed(&mut self, operand: &Operand, formal: Option<&Place>) -> Decoded<Place> {
        let symbol = match operand {
            Operand::Name(name) => self.find(name),
            _ => None,
        };
        let formal_bytes = match formal {
            Some(Place::Memory { size, .. }) => Some(*size),
            Some(Place::Word(_, bits)) => Some(bits / 8),
            Some(Place::Double(_)) => Some(8),
            _ => None,
        };
        match symbol {
            Some(Symbol::Frame { offset, size, .. }) => {
                return match formal_bytes.filter(|wanted| *wanted != size) {
                    Some(wanted) => {
                        self.operand_error(format!("`{operand}` has {size} bytes, the function wants {wanted}"))
                    }
                    None => Ok(Place::Memory { offset, size }),
                };
            }
            Some(Symbol::Register { file: File::Quad, .. }) => return self.operand_error(QUAD_PASSED),
            _ => {}
        }
        let elements = match &symbol {
            Some(Symbol::Vector(_)) => self.elements(operand),
            _ => Vec::new(),
        };
        match formal {
            Some(Place::Vector(formals)) if formals.len() == elements.len() => {
                let parts = elements.iter().zip(formals).map(|(each, formal)| self.passed(each, Some(formal)));
                Ok(Place::Vector(parts.collect::<Decoded<_>>()?))
            }
            Some(Place::Vector(formals)) => {
                self.operand_error(format!("`{operand}` is no vector of {} registers", formals.len()))
            }
            None if !elements.is_empty() => {
                let parts = elements.iter().map(|each| self.passed(each, None));
                Ok(Place::Vector(parts.collect::<Decoded<_>>()?))
            }
            Some(_) if !elements.is_empty() => {
                self.operand_error(format!("`{operand}` is a vector, the function wants no such"))
            }
            Some(Place::Predicate(_)) => Ok(Place::Predicate(self.test(operand)?)),
            Some(Place::Word(_, bits)) => Ok(Place::Word(self.source(operand, Type::B(*bits))?, *bits)),
            Some(Place::Double(_)) => Ok(Place::Double(self.source(operand, Type::B(64))?)),
            Some(Place::Memory { size, .. }) if *size > 8 => {
                self.operand_error(format!("the function wants {size} bytes, in a variable of `.param`"))
            }
            Some(Place::Memory { size: 4, .. }) => Ok(Place::Word(self.source(operand, Type::B(32))?, 32)),
            Some(Place::Memory { size: 8, .. }) => Ok(Place::Double(self.source(operand, Type::B(64))?)),
            Some(Place::Memory { size, .. }) => match self.any_source(operand, Type::B(size * 8))? {
                AnySource::Word(source) => Ok(Place::Word(source, size * 8)),
                AnySource::Double(source) => Ok(Place::Double(source)),
            },
            None => match self.resolve(operand, Type::B(64))? {
                super::operand::Resolved::Register { file: File::Word, slot, ty } => {
                    Ok(Place::Word(Source::Register(slot), ty.bits()))
                }
                super::operand::Resolved::Register { file: File::Predicate, slot, .. } => {
                    Ok(Place::Predicate(Test::Register { slot, negated: false }))
                }
                super::operand::Resolved::Register { slot, .. } => Ok(Place::Double(Source::Register(slot))),
                super::operand::Resolved::Constant(bits) => Ok(Place::Double(Source::constant(bits))),
            },
        }
    }
}
