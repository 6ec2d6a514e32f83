//! From tokens to the syntax tree: module scope, variables, functions and constants. Bodies are in `statement`.

use super::ast::{Ast, Function, Initial, Item, Linkage, Pointer, Space, Variable};
use super::constant::Number;
use super::lexer::{Kind, Token, tokens, unescaped};
use super::{MAX_DEPTH, MAX_ERRORS};
use crate::error::{Error, Position};

/// A parse that may fail at one place.
pub(super) type Parse<T> = Result<T, Error>;

/// Parses a whole text, or says all that is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Ast, Vec<Error>> {
    let mut errors = Vec::new();
    let tokens = tokens(text, &mut errors);
    let mut parser = Parser { tokens, at: 0, errors, depth: 0 };
    let ast = parser.module();
    if parser.errors.is_empty() { Ok(ast) } else { Err(parser.errors) }
}

pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    pub(super) errors: Vec<Error>,
    depth: usize,
}

/// Describes what a declaration may stand for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scope {
    Module,
    Body,
    Parameter,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }

    pub(super) fn peek_second(&self) -> Kind<'a> {
        self.tokens.get(self.at + 1).map_or(Kind::End, |token| token.kind)
    }

    /// Returns what comes next, as written.
    pub(super) fn peek_text(&self) -> &'a str {
        self.tokens[self.at].text
    }

    pub(super) fn position(&self) -> Position {
        self.tokens[self.at].position
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.tokens[self.at];
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    pub(super) fn fail<T>(&self, expected: &str) -> Parse<T> {
        let token = self.tokens[self.at];
        let found =
            if token.kind == Kind::End { "the end of the text".to_owned() } else { format!("`{}`", token.text) };
        Err(Error::new(token.position, format!("expected {expected}, found {found}")))
    }

    pub(super) fn eat(&mut self, mark: char) -> bool {
        let found = self.peek() == Kind::Mark(mark);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Parse<()> {
        if self.eat(mark) { Ok(()) } else { self.fail(&format!("`{mark}`")) }
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek() == Kind::Word(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, expected: &str) -> Parse<&'a str> {
        if let Kind::Word(word) = self.peek() {
            self.at += 1;
            return Ok(word);
        }
        self.fail(expected)
    }

    pub(super) fn name(&mut self, expected: &str) -> Parse<&'a str> {
        if let Kind::Name(name) = self.peek() {
            self.at += 1;
            return Ok(name);
        }
        self.fail(expected)
    }

    fn text(&mut self) -> Parse<String> {
        if let Kind::Text(text) = self.peek() {
            self.at += 1;
            return Ok(unescaped(text));
        }
        self.fail("a string")
    }

    /// The strings of a `.pragma`, whose word is read.
    pub(super) fn pragma(&mut self) -> Parse<Vec<String>> {
        let mut all = vec![self.text()?];
        while self.eat(',') {
            all.push(self.text()?);
        }
        self.expect(';')?;
        Ok(all)
    }

    pub(super) fn number_u32(&mut self, expected: &str) -> Parse<u32> {
        let position = self.position();
        let Kind::Integer { value, .. } = self.peek() else { return self.fail(expected) };
        self.at += 1;
        u32::try_from(value).map_err(|_| Error::new(position, format!("{value} is too large for {expected}")))
    }

    /// Runs `inner` one level deeper, unless that is too deep.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth == MAX_DEPTH {
            return Err(Error::new(self.position(), format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Notes an error and goes behind the next `;`, or before the `}` or end that comes first. True if that was
    /// possible.
    pub(super) fn recover(&mut self, error: Error) -> bool {
        self.errors.push(error);
        if self.errors.len() >= MAX_ERRORS {
            return false;
        }
        loop {
            match self.peek() {
                Kind::End | Kind::Mark('}') => return self.peek() != Kind::End,
                Kind::Mark(';') => {
                    self.next();
                    return true;
                }
                _ => {
                    self.next();
                }
            }
        }
    }

    fn module(&mut self) -> Ast {
        let mut ast = Ast { address_size: 64, ..Ast::default() };
        if let Err(error) = self.header(&mut ast) {
            self.errors.push(error);
            return ast;
        }
        while self.peek() != Kind::End {
            let before = self.at;
            if let Err(error) = self.item(&mut ast) {
                let go_on = self.recover(error);
                // A stray brace: go on behind it.
                self.eat('}');
                if !go_on {
                    break;
                }
                if self.at == before {
                    self.next();
                }
            }
        }
        ast
    }

    /// `.version`, `.target` and `.address_size`, which come before everything else and in this order.
    fn header(&mut self, ast: &mut Ast) -> Parse<()> {
        let position = self.position();
        if !self.eat_word("version") {
            return Err(Error::new(position, "a PTX module begins with `.version`"));
        }
        let text = self.next().text;
        let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some(version) = parts else {
            return Err(Error::new(position, format!("`{text}` is no version such as 8.0")));
        };
        ast.version = version;
        let position = self.position();
        while self.eat_word("target") {
            loop {
                let name = self.name("a target such as sm_80")?.to_owned();
                ast.target.push(name);
                if !self.eat(',') {
                    break;
                }
            }
        }
        if ast.target.is_empty() {
            return Err(Error::new(position, "behind the `.version` of a PTX module comes its `.target`"));
        }
        if self.eat_word("address_size") {
            ast.address_size = self.number_u32("an address size")?;
        }
        Ok(())
    }

    fn item(&mut self, ast: &mut Ast) -> Parse<()> {
        if self.eat(';') {
            return Ok(());
        }
        let position = self.position();
        let Kind::Word(word) = self.peek() else { return self.fail("a directive such as `.visible` or `.func`") };
        match word {
            "version" | "target" | "address_size" => {
                let message = "a module begins with `.version`, `.target` and `.address_size`, in this order";
                return Err(Error::new(position, format!("`.{word}` stands in its place: {message}")));
            }
            "file" => {
                self.next();
                let index = self.number_u32("a file index")?;
                let name = self.text()?;
                while self.eat(',') {
                    self.next();
                }
                ast.items.push(Item::File(index, name));
            }
            "section" => {
                self.next();
                let section = self.section()?;
                ast.items.push(section);
            }
            "alias" => {
                self.next();
                let name = self.name("a name")?.to_owned();
                self.expect(',')?;
                let target = self.name("a function")?.to_owned();
                self.expect(';')?;
                ast.items.push(Item::Alias(name, target));
            }
            "pragma" => {
                self.next();
                let all = self.pragma()?;
                ast.items.push(Item::Pragma(all));
            }
            _ => self.symbol(ast)?,
        }
        Ok(())
    }

    /// Debug data, a line of tokens each.
    fn section(&mut self) -> Parse<Item> {
        let name = self.next().text.to_owned();
        self.expect('{')?;
        let mut body = Vec::new();
        let mut line = String::new();
        let mut last = self.position().line;
        while !matches!(self.peek(), Kind::Mark('}') | Kind::End) {
            let token = self.next();
            if token.position.line != last && !line.is_empty() {
                body.push(std::mem::take(&mut line));
            }
            last = token.position.line;
            let glued = matches!(token.kind, Kind::Mark(',' | ':')) || line.is_empty();
            line.push_str(if glued { "" } else { " " });
            line.push_str(token.text);
        }
        body.extend((!line.is_empty()).then_some(line));
        self.expect('}')?;
        Ok(Item::Section(name, body))
    }

    /// A variable, a kernel or a function, and who sees it.
    fn symbol(&mut self, ast: &mut Ast) -> Parse<()> {
        let mut linkage = None;
        while let Kind::Word(word) = self.peek()
            && let Some((found, _)) = Linkage::ALL.iter().find(|(_, name)| *name == word)
        {
            self.next();
            linkage = Some(*found);
        }
        if self.eat_word("entry") {
            let function = self.function(linkage, true)?;
            ast.items.push(Item::Function(function));
        } else if self.eat_word("func") {
            let function = self.function(linkage, false)?;
            ast.items.push(Item::Function(function));
        } else {
            for mut variable in self.variables(Scope::Module)? {
                variable.linkage = linkage;
                ast.items.push(Item::Variable(variable));
            }
        }
        Ok(())
    }

    fn function(&mut self, linkage: Option<Linkage>, entry: bool) -> Parse<Function> {
        if !entry && self.eat_word("attribute") {
            self.attributes()?;
        }
        let mut directives = self.directives()?;
        let results = if self.peek() == Kind::Mark('(') { self.parameters()? } else { Vec::new() };
        let position = self.position();
        let name = self.name("a function's name")?.to_owned();
        let parameters = if self.peek() == Kind::Mark('(') { self.parameters()? } else { Vec::new() };
        directives.extend(self.directives()?);
        let body = if self.eat(';') {
            None
        } else {
            self.expect('{')?;
            let body = self.statements()?;
            self.expect('}')?;
            Some(body)
        };
        Ok(Function { position, linkage, entry, results, name, parameters, directives, body })
    }

    /// `(.managed)` or `(.unified(19, 95))` behind `.attribute`, which mean nothing where the host's memory is the
    /// device's.
    fn attributes(&mut self) -> Parse<()> {
        self.expect('(')?;
        loop {
            if self.eat_word("unified") {
                self.expect('(')?;
                self.constant()?;
                self.expect(',')?;
                self.constant()?;
                self.expect(')')?;
            } else if !self.eat_word("managed") {
                return self.fail("`.managed` or `.unified`");
            }
            if !self.eat(',') {
                return self.expect(')');
            }
        }
    }

    /// `.maxntid 256, 1, 1` and the like.
    pub(super) fn directives(&mut self) -> Parse<Vec<(String, Vec<u64>)>> {
        let mut all = Vec::new();
        while let Kind::Word(word) = self.peek() {
            self.next();
            let mut values = Vec::new();
            while let Kind::Integer { value, .. } = self.peek() {
                self.next();
                values.push(value);
                if !self.eat(',') {
                    break;
                }
            }
            all.push((word.to_owned(), values));
        }
        Ok(all)
    }

    pub(super) fn parameters(&mut self) -> Parse<Vec<Variable>> {
        self.expect('(')?;
        let mut all = Vec::new();
        if self.eat(')') {
            return Ok(all);
        }
        loop {
            all.extend(self.variables(Scope::Parameter)?);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(all);
            }
        }
    }

    /// `.reg .b32 %r<4>, %x;` and all other declarations; a parameter is one and has no semicolon.
    pub(super) fn variables(&mut self, scope: Scope) -> Parse<Vec<Variable>> {
        let word = self.word("a state space")?;
        let Some((space, _)) = Space::ALL.iter().find(|(_, name)| *name == word) else {
            self.at -= 1;
            return self.fail("a state space, `.entry` or `.func`");
        };
        let mut model = Variable {
            position: self.position(),
            linkage: None,
            space: *space,
            align: None,
            lanes: 1,
            ty: String::new(),
            pointer: None,
            name: String::new(),
            count: None,
            extents: Vec::new(),
            initial: None,
        };
        while let Kind::Word(word) = self.peek() {
            self.next();
            match word {
                "align" => {
                    let align = self.number_u32("an alignment")?;
                    match &mut model.pointer {
                        Some(pointer) => pointer.align = Some(align),
                        None => model.align = Some(align),
                    }
                }
                "v2" | "v4" => model.lanes = u32::from(word.as_bytes()[1] - b'0'),
                "ptr" => model.pointer = Some(Pointer { space: None, align: None }),
                "attribute" => self.attributes()?,
                _ => match (&mut model.pointer, Space::ALL.iter().find(|(_, name)| *name == word)) {
                    (Some(pointer), Some((space, _))) => pointer.space = Some(*space),
                    _ if !model.ty.is_empty() => {
                        let message = format!("a variable has one type, not both `.{}` and `.{word}`", model.ty);
                        return Err(Error::new(self.position(), message));
                    }
                    _ => word.clone_into(&mut model.ty),
                },
            }
        }
        if model.ty.is_empty() {
            return self.fail("a type such as `.b32`");
        }
        let mut all = Vec::new();
        loop {
            let mut variable = model.clone();
            variable.position = self.position();
            self.name("a name")?.clone_into(&mut variable.name);
            if self.eat('<') {
                variable.count = Some(self.number_u32("a number of registers")?);
                self.expect('>')?;
            }
            while self.eat('[') {
                let extent = if self.peek() == Kind::Mark(']') { None } else { Some(self.constant()?) };
                variable.extents.push(extent);
                self.expect(']')?;
            }
            if self.eat('=') {
                variable.initial = Some(self.initial()?);
            }
            all.push(variable);
            if scope == Scope::Parameter {
                return Ok(all);
            }
            if !self.eat(',') {
                self.expect(';')?;
                return Ok(all);
            }
        }
    }

    fn initial(&mut self) -> Parse<Initial> {
        match self.peek() {
            Kind::Mark('{') => {
                self.next();
                let mut all = Vec::new();
                while !self.eat('}') {
                    all.push(self.nested(Self::initial)?);
                    if !self.eat(',') {
                        self.expect('}')?;
                        break;
                    }
                }
                Ok(Initial::List(all))
            }
            Kind::Name(name) => {
                self.next();
                if self.eat('=') {
                    let value = Box::new(self.nested(Self::initial)?);
                    return Ok(Initial::Field { name: name.to_owned(), value });
                }
                let generic = name == "generic" && self.eat('(');
                let name = if generic { self.name("a variable")? } else { name }.to_owned();
                if generic {
                    self.expect(')')?;
                }
                let offset = self.offset()?;
                Ok(Initial::Address { name, offset, generic })
            }
            _ => {
                let value = match self.number()? {
                    Number::Float(value) => return Ok(Initial::Float(value)),
                    Number::Integer(value) => value,
                };
                if !self.eat('(') {
                    return Ok(Initial::Integer(value));
                }
                let address @ Initial::Address { .. } = self.nested(Self::initial)? else {
                    return self.fail("the address of a variable");
                };
                self.expect(')')?;
                Ok(Initial::Masked { mask: value, address: Box::new(address) })
            }
        }
    }

    /// `+4` or `-4` or nothing.
    pub(super) fn offset(&mut self) -> Parse<i64> {
        match self.peek() {
            Kind::Mark('+') => {
                self.next();
                Ok(self.constant()? as i64)
            }
            Kind::Mark('-') => Ok(self.constant()? as i64),
            _ => Ok(0),
        }
    }
}
