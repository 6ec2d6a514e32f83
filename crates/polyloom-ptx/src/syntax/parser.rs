//! From tokens to the syntax tree: module scope, variables, functions and constants. Bodies are in `statement`.

use super::ast::{
    InitialValue, ModuleItem, PointerAttribute, PtxAst, PtxFunction, PtxVariable, StateSpace, SymbolLinkage,
};
use super::constant::ConstantValue;
use super::lexer::{PtxToken, PtxTokenKind, tokens, unescaped};
use super::{MAX_DEPTH, MAX_ERRORS};
use crate::error::{PtxError, TextPosition};

/// A parse that may fail at one place.
pub(super) type Parse<T> = Result<T, PtxError>;

/// Parses a whole text, or says all that is wrong with it.
pub(crate) fn parse(text: &str) -> Result<PtxAst, Vec<PtxError>> {
    let mut errors = Vec::new();
    let tokens = tokens(text, &mut errors);
    let mut parser = PtxParser { tokens, at: 0, errors, depth: 0 };
    let ast = parser.module();
    if parser.errors.is_empty() { Ok(ast) } else { Err(parser.errors) }
}

pub(super) struct PtxParser<'a> {
    tokens: Vec<PtxToken<'a>>,
    at: usize,
    pub(super) errors: Vec<PtxError>,
    depth: usize,
}

/// Describes what a declaration may stand for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum DeclarationScope {
    Module,
    Body,
    Parameter,
}

impl<'a> PtxParser<'a> {
    pub(super) fn peek(&self) -> PtxTokenKind<'a> {
        self.tokens[self.at].kind
    }

    pub(super) fn peek_second(&self) -> PtxTokenKind<'a> {
        self.tokens.get(self.at + 1).map_or(PtxTokenKind::End, |token| token.kind)
    }

    /// Returns what comes next, as written.
    pub(super) fn peek_text(&self) -> &'a str {
        self.tokens[self.at].text
    }

    pub(super) fn position(&self) -> TextPosition {
        self.tokens[self.at].position
    }

    pub(super) fn next(&mut self) -> PtxToken<'a> {
        let token = self.tokens[self.at];
        if token.kind != PtxTokenKind::End {
            self.at += 1;
        }
        token
    }

    pub(super) fn fail<T>(&self, expected: &str) -> Parse<T> {
        let token = self.tokens[self.at];
        let found = if token.kind == PtxTokenKind::End {
            "the end of the text".to_owned()
        } else {
            format!("`{}`", token.text)
        };
        Err(PtxError::new(token.position, format!("expected {expected}, found {found}")))
    }

    pub(super) fn eat(&mut self, mark: char) -> bool {
        let found = self.peek() == PtxTokenKind::Mark(mark);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: char) -> Parse<()> {
        if self.eat(mark) { Ok(()) } else { self.fail(&format!("`{mark}`")) }
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek() == PtxTokenKind::Word(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, expected: &str) -> Parse<&'a str> {
        if let PtxTokenKind::Word(word) = self.peek() {
            self.at += 1;
            return Ok(word);
        }
        self.fail(expected)
    }

    pub(super) fn name(&mut self, expected: &str) -> Parse<&'a str> {
        if let PtxTokenKind::Name(name) = self.peek() {
            self.at += 1;
            return Ok(name);
        }
        self.fail(expected)
    }

    fn text(&mut self) -> Parse<String> {
        if let PtxTokenKind::Text(text) = self.peek() {
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
        let PtxTokenKind::Integer { value, .. } = self.peek() else { return self.fail(expected) };
        self.at += 1;
        u32::try_from(value).map_err(|_| PtxError::new(position, format!("{value} is too large for {expected}")))
    }

    /// Runs `inner` one level deeper, unless that is too deep.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth == MAX_DEPTH {
            return Err(PtxError::new(self.position(), format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Notes an error and goes behind the next `;`, or before the `}` or end that comes first. True if that was
    /// possible.
    pub(super) fn recover(&mut self, error: PtxError) -> bool {
        self.errors.push(error);
        if self.errors.len() >= MAX_ERRORS {
            return false;
        }
        loop {
            match self.peek() {
                PtxTokenKind::End | PtxTokenKind::Mark('}') => return self.peek() != PtxTokenKind::End,
                PtxTokenKind::Mark(';') => {
                    self.next();
                    return true;
                }
                _ => {
                    self.next();
                }
            }
        }
    }

    fn module(&mut self) -> PtxAst {
        let mut ast = PtxAst { address_size: 64, ..PtxAst::default() };
        if let Err(error) = self.header(&mut ast) {
            self.errors.push(error);
            return ast;
        }
        while self.peek() != PtxTokenKind::End {
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
    fn header(&mut self, ast: &mut PtxAst) -> Parse<()> {
        let position = self.position();
        if !self.eat_word("version") {
            return Err(PtxError::new(position, "a PTX module begins with `.version`"));
        }
        let text = self.next().text;
        let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some(version) = parts else {
            return Err(PtxError::new(position, format!("`{text}` is no version such as 8.0")));
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
            return Err(PtxError::new(position, "behind the `.version` of a PTX module comes its `.target`"));
        }
        if self.eat_word("address_size") {
            ast.address_size = self.number_u32("an address size")?;
        }
        Ok(())
    }

    fn item(&mut self, ast: &mut PtxAst) -> Parse<()> {
        if self.eat(';') {
            return Ok(());
        }
        let position = self.position();
        let PtxTokenKind::Word(word) = self.peek() else {
            return self.fail("a directive such as `.visible` or `.func`");
        };
        match word {
            "version" | "target" | "address_size" => {
                let message = "a module begins with `.version`, `.target` and `.address_size`, in this order";
                return Err(PtxError::new(position, format!("`.{word}` stands in its place: {message}")));
            }
            "file" => {
                self.next();
                let index = self.number_u32("a file index")?;
                let name = self.text()?;
                while self.eat(',') {
                    self.next();
                }
                ast.items.push(ModuleItem::File(index, name));
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
                ast.items.push(ModuleItem::Alias(name, target));
            }
            "pragma" => {
                self.next();
                let all = self.pragma()?;
                ast.items.push(ModuleItem::Pragma(all));
            }
            _ => self.symbol(ast)?,
        }
        Ok(())
    }

    /// Debug data, a line of tokens each.
    fn section(&mut self) -> Parse<ModuleItem> {
        let name = self.next().text.to_owned();
        self.expect('{')?;
        let mut body = Vec::new();
        let mut line = String::new();
        let mut last = self.position().line;
        while !matches!(self.peek(), PtxTokenKind::Mark('}') | PtxTokenKind::End) {
            let token = self.next();
            if token.position.line != last && !line.is_empty() {
                body.push(std::mem::take(&mut line));
            }
            last = token.position.line;
            let glued = matches!(token.kind, PtxTokenKind::Mark(',' | ':')) || line.is_empty();
            line.push_str(if glued { "" } else { " " });
            line.push_str(token.text);
        }
        body.extend((!line.is_empty()).then_some(line));
        self.expect('}')?;
        Ok(ModuleItem::Section(name, body))
    }

    /// A variable, a kernel or a function, and who sees it.
    fn symbol(&mut self, ast: &mut PtxAst) -> Parse<()> {
        let mut linkage = None;
        while let PtxTokenKind::Word(word) = self.peek()
            && let Some((found, _)) = SymbolLinkage::ALL.iter().find(|(_, name)| *name == word)
        {
            self.next();
            linkage = Some(*found);
        }
        if self.eat_word("entry") {
            let function = self.function(linkage, true)?;
            ast.items.push(ModuleItem::Function(function));
        } else if self.eat_word("func") {
            let function = self.function(linkage, false)?;
            ast.items.push(ModuleItem::Function(function));
        } else {
            for mut variable in self.variables(DeclarationScope::Module)? {
                variable.linkage = linkage;
                ast.items.push(ModuleItem::Variable(variable));
            }
        }
        Ok(())
    }

    fn function(&mut self, linkage: Option<SymbolLinkage>, entry: bool) -> Parse<PtxFunction> {
        if !entry && self.eat_word("attribute") {
            self.attributes()?;
        }
        let mut directives = self.directives()?;
        let results = if self.peek() == PtxTokenKind::Mark('(') { self.parameters()? } else { Vec::new() };
        let position = self.position();
        let name = self.name("a function's name")?.to_owned();
        let parameters = if self.peek() == PtxTokenKind::Mark('(') { self.parameters()? } else { Vec::new() };
        directives.extend(self.directives()?);
        let body = if self.eat(';') {
            None
        } else {
            self.expect('{')?;
            let body = self.statements()?;
            self.expect('}')?;
            Some(body)
        };
        Ok(PtxFunction { position, linkage, entry, results, name, parameters, directives, body })
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
        while let PtxTokenKind::Word(word) = self.peek() {
            self.next();
            let mut values = Vec::new();
            while let PtxTokenKind::Integer { value, .. } = self.peek() {
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

    pub(super) fn parameters(&mut self) -> Parse<Vec<PtxVariable>> {
        self.expect('(')?;
        let mut all = Vec::new();
        if self.eat(')') {
            return Ok(all);
        }
        loop {
            all.extend(self.variables(DeclarationScope::Parameter)?);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(all);
            }
        }
    }

    /// `.reg .b32 %r<4>, %x;` and all other declarations; a parameter is one and has no semicolon.
    pub(super) fn variables(&mut self, scope: DeclarationScope) -> Parse<Vec<PtxVariable>> {
        let word = self.word("a state space")?;
        let Some((space, _)) = StateSpace::ALL.iter().find(|(_, name)| *name == word) else {
            self.at -= 1;
            return self.fail("a state space, `.entry` or `.func`");
        };
        let mut model = PtxVariable {
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
        while let PtxTokenKind::Word(word) = self.peek() {
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
                "ptr" => model.pointer = Some(PointerAttribute { space: None, align: None }),
                "attribute" => self.attributes()?,
                _ => match (&mut model.pointer, StateSpace::ALL.iter().find(|(_, name)| *name == word)) {
                    (Some(pointer), Some((space, _))) => pointer.space = Some(*space),
                    _ if !model.ty.is_empty() => {
                        let message = format!("a variable has one type, not both `.{}` and `.{word}`", model.ty);
                        return Err(PtxError::new(self.position(), message));
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
                let extent = if self.peek() == PtxTokenKind::Mark(']') { None } else { Some(self.constant()?) };
                variable.extents.push(extent);
                self.expect(']')?;
            }
            if self.eat('=') {
                variable.initial = Some(self.initial()?);
            }
            all.push(variable);
            if scope == DeclarationScope::Parameter {
                return Ok(all);
            }
            if !self.eat(',') {
                self.expect(';')?;
                return Ok(all);
            }
        }
    }

    fn initial(&mut self) -> Parse<InitialValue> {
        match self.peek() {
            PtxTokenKind::Mark('{') => {
                self.next();
                let mut all = Vec::new();
                while !self.eat('}') {
                    all.push(self.nested(Self::initial)?);
                    if !self.eat(',') {
                        self.expect('}')?;
                        break;
                    }
                }
                Ok(InitialValue::List(all))
            }
            PtxTokenKind::Name(name) => {
                self.next();
                if self.eat('=') {
                    let value = Box::new(self.nested(Self::initial)?);
                    return Ok(InitialValue::Field { name: name.to_owned(), value });
                }
                let generic = name == "generic" && self.eat('(');
                let name = if generic { self.name("a variable")? } else { name }.to_owned();
                if generic {
                    self.expect(')')?;
                }
                let offset = self.offset()?;
                Ok(InitialValue::Address { name, offset, generic })
            }
            _ => {
                let value = match self.number()? {
                    ConstantValue::Float(value) => return Ok(InitialValue::Float(value)),
                    ConstantValue::Integer(value) => value,
                };
                if !self.eat('(') {
                    return Ok(InitialValue::Integer(value));
                }
                let address @ InitialValue::Address { .. } = self.nested(Self::initial)? else {
                    return self.fail("the address of a variable");
                };
                self.expect(')')?;
                Ok(InitialValue::Masked { mask: value, address: Box::new(address) })
            }
        }
    }

    /// `+4` or `-4` or nothing.
    pub(super) fn offset(&mut self) -> Parse<i64> {
        match self.peek() {
            PtxTokenKind::Mark('+') => {
                self.next();
                Ok(self.constant()? as i64)
            }
            PtxTokenKind::Mark('-') => Ok(self.constant()? as i64),
            _ => Ok(0),
        }
    }
}
