//! Bodies: statements, instructions and operands.

use super::ast::{LocDirective, PtxInstruction, PtxOperand, Statement};
use super::constant::ConstantValue;
use super::lexer::PtxTokenKind;
use super::parser::{DeclarationScope, Parse, PtxParser};
use crate::error::PtxError;

impl PtxParser<'_> {
    /// Statements up to a closing brace, which stays.
    pub(super) fn statements(&mut self) -> Parse<Vec<Statement>> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                PtxTokenKind::Mark('}') => return Ok(all),
                PtxTokenKind::End => return self.fail("`}`"),
                _ => {}
            }
            if let Err(error) = self.statement(&mut all)
                && !self.recover(error)
            {
                return Err(self.errors.pop().unwrap_or_else(|| PtxError::new(self.position(), "too many errors")));
            }
        }
    }

    fn statement(&mut self, all: &mut Vec<Statement>) -> Parse<()> {
        match self.peek() {
            PtxTokenKind::Mark(';') => {
                self.next();
            }
            PtxTokenKind::Mark('{') => {
                self.next();
                let inner = self.nested(Self::statements)?;
                self.expect('}')?;
                all.push(Statement::Block(inner));
            }
            PtxTokenKind::Word("loc") => {
                self.next();
                all.push(Statement::Location(self.location()?));
            }
            PtxTokenKind::Word("pragma") => {
                self.next();
                let texts = self.pragma()?;
                all.push(Statement::Pragma(texts));
            }
            PtxTokenKind::Word(_) => {
                all.extend(self.variables(DeclarationScope::Body)?.into_iter().map(Statement::Variable))
            }
            PtxTokenKind::Name(name) if self.peek_second() == PtxTokenKind::Mark(':') => {
                let position = self.position();
                self.next();
                self.next();
                all.push(self.labelled(name)?.unwrap_or_else(|| Statement::Label(name.to_owned(), position)));
            }
            _ => all.push(Statement::Instruction(self.instruction()?)),
        }
        Ok(())
    }

    /// Returns what a label names if that is no instruction.
    fn labelled(&mut self, name: &str) -> Parse<Option<Statement>> {
        let PtxTokenKind::Word(word @ ("calltargets" | "branchtargets" | "callprototype")) = self.peek() else {
            return Ok(None);
        };
        self.next();
        if word == "callprototype" {
            let results = if self.peek() == PtxTokenKind::Mark('(') { self.parameters()? } else { Vec::new() };
            self.name("`_`")?;
            let parameters = if self.peek() == PtxTokenKind::Mark('(') { self.parameters()? } else { Vec::new() };
            let directives = self.directives()?;
            self.expect(';')?;
            return Ok(Some(Statement::Prototype { name: name.to_owned(), results, parameters, directives }));
        }
        let mut targets = Vec::new();
        loop {
            targets.push(self.name("a target")?.to_owned());
            if !self.eat(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(Some(Statement::Targets { name: name.to_owned(), calls: word == "calltargets", targets }))
    }

    fn place(&mut self) -> Parse<(u32, u32, u32)> {
        Ok((self.number_u32("a file index")?, self.number_u32("a line")?, self.number_u32("a column")?))
    }

    fn location(&mut self) -> Parse<LocDirective> {
        let (file, line, column) = self.place()?;
        let mut location = LocDirective { file, line, column, function_name: None, inlined_at: None };
        while self.eat(',') {
            match self.name("`function_name` or `inlined_at`")? {
                "function_name" => {
                    let label = self.name("a label")?.to_owned();
                    location.function_name = Some((label, self.offset()?));
                }
                "inlined_at" => location.inlined_at = Some(self.place()?),
                _ => return self.fail("`function_name` or `inlined_at` before this"),
            }
        }
        Ok(location)
    }

    fn instruction(&mut self) -> Parse<PtxInstruction> {
        let guard = if self.eat('@') {
            let negated = self.eat('!');
            Some((negated, self.name("a predicate")?.to_owned()))
        } else {
            None
        };
        let position = self.position();
        let opcode = self.name("an instruction")?.to_owned();
        let mut modifiers = Vec::new();
        while let PtxTokenKind::Word(word) = self.peek() {
            self.next();
            modifiers.push(word.to_owned());
        }
        let mut operands = Vec::new();
        while !self.eat(';') {
            // Arguments of a call stand in parentheses, and so may a constant elsewhere.
            if opcode == "call" && self.eat('(') {
                operands.push(PtxOperand::List(self.operands_until(')')?));
            } else {
                operands.push(self.operand()?);
            }
            if !self.eat(',') {
                self.expect(';')?;
                break;
            }
        }
        Ok(PtxInstruction { position, guard, opcode, modifiers, operands })
    }

    fn operands_until(&mut self, close: char) -> Parse<Vec<PtxOperand>> {
        let mut all = Vec::new();
        if self.eat(close) {
            return Ok(all);
        }
        loop {
            all.push(self.nested(Self::operand)?);
            if !self.eat(',') {
                self.expect(close)?;
                return Ok(all);
            }
        }
    }

    fn operand(&mut self) -> Parse<PtxOperand> {
        let first = self.operand_alone()?;
        if self.eat('|') {
            return Ok(PtxOperand::Pair(Box::new(first), Box::new(self.operand_alone()?)));
        }
        Ok(first)
    }

    /// Returns what follows `array[`.
    fn element(&mut self, array: String) -> Parse<PtxOperand> {
        let index = match self.peek() {
            PtxTokenKind::Name(name) => {
                self.next();
                Some(name.to_owned())
            }
            _ => None,
        };
        let offset = if index.is_some() { self.offset()? } else { self.constant()? as i64 };
        self.expect(']')?;
        Ok(PtxOperand::Element { array, index, offset })
    }

    fn operand_alone(&mut self) -> Parse<PtxOperand> {
        match self.peek() {
            PtxTokenKind::Name(name) => {
                self.next();
                let name = name.to_owned();
                if let PtxTokenKind::Word(component) = self.peek() {
                    self.next();
                    return Ok(PtxOperand::Component(name, component.to_owned()));
                }
                if self.eat('[') {
                    return self.element(name);
                }
                if matches!(self.peek(), PtxTokenKind::Mark('+' | '-')) {
                    return Ok(PtxOperand::Offset(name, self.offset()?));
                }
                Ok(PtxOperand::Name(name))
            }
            PtxTokenKind::Mark('!') if matches!(self.peek_second(), PtxTokenKind::Name(_)) => {
                self.next();
                Ok(PtxOperand::Not(Box::new(self.nested(Self::operand_alone)?)))
            }
            PtxTokenKind::Mark('-') if matches!(self.peek_second(), PtxTokenKind::Name(_)) => {
                self.next();
                Ok(PtxOperand::Negative(Box::new(self.nested(Self::operand_alone)?)))
            }
            PtxTokenKind::Mark('{') => {
                self.next();
                Ok(PtxOperand::Vector(self.operands_until('}')?))
            }
            PtxTokenKind::Mark('[') => {
                self.next();
                let base = match self.peek() {
                    PtxTokenKind::Name(name) => {
                        self.next();
                        PtxOperand::Name(name.to_owned())
                    }
                    _ => PtxOperand::Integer(self.constant()?),
                };
                let offset = self.offset()?;
                let mut more = Vec::new();
                while self.eat(',') {
                    more.push(self.nested(Self::operand)?);
                }
                self.expect(']')?;
                Ok(PtxOperand::Address { base: Box::new(base), offset, more })
            }
            _ => Ok(match self.number()? {
                ConstantValue::Integer(value) => PtxOperand::Integer(value),
                ConstantValue::Float(value) => PtxOperand::Float(value),
            }),
        }
    }
}
