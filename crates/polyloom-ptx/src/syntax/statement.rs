//! Bodies: statements, instructions and operands.

use super::ast::{Instruction, Location, Operand, Statement};
use super::constant::Number;
use super::lexer::Kind;
use super::parser::{Parse, Parser, Scope};
use crate::error::Error;

impl Parser<'_> {
    /// Statements up to a closing brace, which stays.
    pub(super) fn statements(&mut self) -> Parse<Vec<Statement>> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Kind::Mark('}') => return Ok(all),
                Kind::End => return self.fail("`}`"),
                _ => {}
            }
            if let Err(error) = self.statement(&mut all)
                && !self.recover(error)
            {
                return Err(self.errors.pop().unwrap_or_else(|| Error::new(self.position(), "too many errors")));
            }
        }
    }

    fn statement(&mut self, all: &mut Vec<Statement>) -> Parse<()> {
        match self.peek() {
            Kind::Mark(';') => {
                self.next();
            }
            Kind::Mark('{') => {
                self.next();
                let inner = self.nested(Self::statements)?;
                self.expect('}')?;
                all.push(Statement::Block(inner));
            }
            Kind::Word("loc") => {
                self.next();
                all.push(Statement::Location(self.location()?));
            }
            Kind::Word("pragma") => {
                self.next();
                let texts = self.pragma()?;
                all.push(Statement::Pragma(texts));
            }
            Kind::Word(_) => all.extend(self.variables(Scope::Body)?.into_iter().map(Statement::Variable)),
            Kind::Name(name) if self.peek_second() == Kind::Mark(':') => {
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
        let Kind::Word(word @ ("calltargets" | "branchtargets" | "callprototype")) = self.peek() else {
            return Ok(None);
        };
        self.next();
        if word == "callprototype" {
            let results = if self.peek() == Kind::Mark('(') { self.parameters()? } else { Vec::new() };
            self.name("`_`")?;
            let parameters = if self.peek() == Kind::Mark('(') { self.parameters()? } else { Vec::new() };
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

    fn location(&mut self) -> Parse<Location> {
        let (file, line, column) = self.place()?;
        let mut location = Location { file, line, column, function_name: None, inlined_at: None };
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

    fn instruction(&mut self) -> Parse<Instruction> {
        let guard = if self.eat('@') {
            let negated = self.eat('!');
            Some((negated, self.name("a predicate")?.to_owned()))
        } else {
            None
        };
        let position = self.position();
        let opcode = self.name("an instruction")?.to_owned();
        let mut modifiers = Vec::new();
        while let Kind::Word(word) = self.peek() {
            self.next();
            modifiers.push(word.to_owned());
        }
        let mut operands = Vec::new();
        while !self.eat(';') {
            // Arguments of a call stand in parentheses, and so may a constant elsewhere.
            if opcode == "call" && self.eat('(') {
                operands.push(Operand::List(self.operands_until(')')?));
            } else {
                operands.push(self.operand()?);
            }
            if !self.eat(',') {
                self.expect(';')?;
                break;
            }
        }
        Ok(Instruction { position, guard, opcode, modifiers, operands })
    }

    fn operands_until(&mut self, close: char) -> Parse<Vec<Operand>> {
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

    fn operand(&mut self) -> Parse<Operand> {
        let first = self.operand_alone()?;
        if self.eat('|') {
            return Ok(Operand::Pair(Box::new(first), Box::new(self.operand_alone()?)));
        }
        Ok(first)
    }

    /// Returns what follows `array[`.
    fn element(&mut self, array: String) -> Parse<Operand> {
        let index = match self.peek() {
            Kind::Name(name) => {
                self.next();
                Some(name.to_owned())
            }
            _ => None,
        };
        let offset = if index.is_some() { self.offset()? } else { self.constant()? as i64 };
        self.expect(']')?;
        Ok(Operand::Element { array, index, offset })
    }

    fn operand_alone(&mut self) -> Parse<Operand> {
        match self.peek() {
            Kind::Name(name) => {
                self.next();
                let name = name.to_owned();
                if let Kind::Word(component) = self.peek() {
                    self.next();
                    return Ok(Operand::Component(name, component.to_owned()));
                }
                if self.eat('[') {
                    return self.element(name);
                }
                if matches!(self.peek(), Kind::Mark('+' | '-')) {
                    return Ok(Operand::Offset(name, self.offset()?));
                }
                Ok(Operand::Name(name))
            }
            Kind::Mark('!') if matches!(self.peek_second(), Kind::Name(_)) => {
                self.next();
                Ok(Operand::Not(Box::new(self.nested(Self::operand_alone)?)))
            }
            Kind::Mark('-') if matches!(self.peek_second(), Kind::Name(_)) => {
                self.next();
                Ok(Operand::Negative(Box::new(self.nested(Self::operand_alone)?)))
            }
            Kind::Mark('{') => {
                self.next();
                Ok(Operand::Vector(self.operands_until('}')?))
            }
            Kind::Mark('[') => {
                self.next();
                let base = match self.peek() {
                    Kind::Name(name) => {
                        self.next();
                        Operand::Name(name.to_owned())
                    }
                    _ => Operand::Integer(self.constant()?),
                };
                let offset = self.offset()?;
                let mut more = Vec::new();
                while self.eat(',') {
                    more.push(self.nested(Self::operand)?);
                }
                self.expect(']')?;
                Ok(Operand::Address { base: Box::new(base), offset, more })
            }
            _ => Ok(match self.number()? {
                Number::Integer(value) => Operand::Integer(value),
                Number::Float(value) => Operand::Float(value),
            }),
        }
    }
}
