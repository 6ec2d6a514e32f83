//! Control flow (PTX ISA 9.0 §9.7.12) and what has no effect here.

use super::function::{FunctionDecoder, QUAD_PASSED};
use super::op::{AnySource, CallOp, CallTarget, DecodedOp, HostFunction, ParamPlace};
use super::symbol::{PtxSymbol, RegisterFile};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{PredicateTest, SourceOperand};
use crate::syntax::ast::PtxOperand;

impl FunctionDecoder<'_> {
    pub(super) fn control(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let all = &line.instruction.operands;
        line.mods.take("uni");
        let op = match line.instruction.opcode.as_str() {
            "bra" => {
                line.check(1, 1)?;
                let PtxOperand::Name(label) = &all[0] else { return line.error("`bra` needs a label") };
                self.branch_to(0, label);
                DecodedOp::Branch(0)
            }
            "brx" => {
                line.mods.take("idx");
                line.check(2, 2)?;
                let index = self.source(&all[0], PtxType::U(32))?;
                let PtxOperand::Name(list) = &all[1] else { return line.error("`brx` needs a list of targets") };
                let Some(PtxSymbol::Targets(labels)) = self.find(list) else {
                    return line.error(format!("`{list}` is no list of targets"));
                };
                for (which, label) in labels.iter().enumerate() {
                    self.branch_to(which, label);
                }
                DecodedOp::BranchTable { index, targets: vec![0; labels.len()] }
            }
            "call" => self.call(line)?,
            "ret" => DecodedOp::Return,
            "exit" => DecodedOp::Exit,
            "trap" => DecodedOp::Trap,
            "nanosleep" => {
                line.mods.ty()?;
                line.check(1, 1)?;
                DecodedOp::Sleep
            }
            // A debugger's stop, a counter, hints.
            opcode => {
                match opcode {
                    "pmevent" => line.mods.drop_known(&["mask"]),
                    "setmaxnreg" => line.mods.drop_known(&["inc", "dec", "sync", "aligned", "u32"]),
                    "griddepcontrol" => line.mods.drop_known(&["launch_dependents", "wait"]),
                    _ => {}
                }
                DecodedOp::Nothing
            }
        };
        line.mods.finish()?;
        Ok((op, InstClass::Control))
    }

    /// Notes that the instruction being decoded, which comes next, jumps to `label`.
    fn branch_to(&mut self, which: usize, label: &str) {
        let (next, position) = (self.code.len(), self.position);
        self.scope().pending.push((next, which, label.to_owned(), position));
    }

    fn call(&mut self, line: &InstructionLine<'_>) -> Decoded<DecodedOp> {
        let mut rest = line.instruction.operands.as_slice();
        let results: &[PtxOperand] = match rest {
            [PtxOperand::List(results), tail @ ..] => {
                rest = tail;
                results
            }
            _ => &[],
        };
        let Some(PtxOperand::Name(name)) = rest.first() else { return line.error("`call` needs a function") };
        let arguments: &[PtxOperand] = match rest.get(1) {
            Some(PtxOperand::List(arguments)) => arguments,
            _ => &[],
        };
        let mut result_places = Vec::new();
        let mut argument_places = Vec::new();
        let (target, formals) =
            if let Some(PtxSymbol::Register { file: RegisterFile::Double, slot, .. }) = self.find(name) {
                (CallTarget::Pointer(SourceOperand::Register(slot)), None)
            } else if let Some(index) = self.function_index(name) {
                let info = &self.infos[index];
                (CallTarget::Function(index), Some((info.results.clone(), info.parameters.clone())))
            } else if let Some(function) = HostFunction::from_name(name) {
                (CallTarget::Host(function), None)
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
        Ok(DecodedOp::Call(Box::new(CallOp { target, arguments: argument_places, results: result_places })))
    }

    /// Returns what a call passes or gets, in the form the callee has it.
    fn passed(&mut self, operand: &PtxOperand, formal: Option<&ParamPlace>) -> Decoded<ParamPlace> {
        let symbol = match operand {
            PtxOperand::Name(name) => self.find(name),
            _ => None,
        };
        let formal_bytes = match formal {
            Some(ParamPlace::Memory { size, .. }) => Some(*size),
            Some(ParamPlace::Word(_, bits)) => Some(bits / 8),
            Some(ParamPlace::Double(_)) => Some(8),
            _ => None,
        };
        match symbol {
            Some(PtxSymbol::Frame { offset, size, .. }) => {
                return match formal_bytes.filter(|wanted| *wanted != size) {
                    Some(wanted) => {
                        self.operand_error(format!("`{operand}` has {size} bytes, the function wants {wanted}"))
                    }
                    None => Ok(ParamPlace::Memory { offset, size }),
                };
            }
            Some(PtxSymbol::Register { file: RegisterFile::Quad, .. }) => return self.operand_error(QUAD_PASSED),
            _ => {}
        }
        let elements = match &symbol {
            Some(PtxSymbol::Vector(_)) => self.elements(operand),
            _ => Vec::new(),
        };
        match formal {
            Some(ParamPlace::Vector(formals)) if formals.len() == elements.len() => {
                let parts = elements.iter().zip(formals).map(|(each, formal)| self.passed(each, Some(formal)));
                Ok(ParamPlace::Vector(parts.collect::<Decoded<_>>()?))
            }
            Some(ParamPlace::Vector(formals)) => {
                self.operand_error(format!("`{operand}` is no vector of {} registers", formals.len()))
            }
            None if !elements.is_empty() => {
                let parts = elements.iter().map(|each| self.passed(each, None));
                Ok(ParamPlace::Vector(parts.collect::<Decoded<_>>()?))
            }
            Some(_) if !elements.is_empty() => {
                self.operand_error(format!("`{operand}` is a vector, the function wants no such"))
            }
            Some(ParamPlace::Predicate(_)) => Ok(ParamPlace::Predicate(self.test(operand)?)),
            Some(ParamPlace::Word(_, bits)) => Ok(ParamPlace::Word(self.source(operand, PtxType::B(*bits))?, *bits)),
            Some(ParamPlace::Double(_)) => Ok(ParamPlace::Double(self.source(operand, PtxType::B(64))?)),
            Some(ParamPlace::Memory { size, .. }) if *size > 8 => {
                self.operand_error(format!("the function wants {size} bytes, in a variable of `.param`"))
            }
            Some(ParamPlace::Memory { size: 4, .. }) => Ok(ParamPlace::Word(self.source(operand, PtxType::B(32))?, 32)),
            Some(ParamPlace::Memory { size: 8, .. }) => Ok(ParamPlace::Double(self.source(operand, PtxType::B(64))?)),
            Some(ParamPlace::Memory { size, .. }) => match self.any_source(operand, PtxType::B(size * 8))? {
                AnySource::Word(source) => Ok(ParamPlace::Word(source, size * 8)),
                AnySource::Double(source) => Ok(ParamPlace::Double(source)),
            },
            None => match self.resolve(operand, PtxType::B(64))? {
                super::operand::ResolvedOperand::Register { file: RegisterFile::Word, slot, ty } => {
                    Ok(ParamPlace::Word(SourceOperand::Register(slot), ty.bits()))
                }
                super::operand::ResolvedOperand::Register { file: RegisterFile::Predicate, slot, .. } => {
                    Ok(ParamPlace::Predicate(PredicateTest::Register { slot, negated: false }))
                }
                super::operand::ResolvedOperand::Register { slot, .. } => {
                    Ok(ParamPlace::Double(SourceOperand::Register(slot)))
                }
                super::operand::ResolvedOperand::Constant(bits) => {
                    Ok(ParamPlace::Double(SourceOperand::constant(bits)))
                }
            },
        }
    }
}
