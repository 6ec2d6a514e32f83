//! Text to HIR. See [`crate::text`] for the form.
//!
//! The reader takes any input: it recurses at most [`MAX_REGION_DEPTH`] deep, always advances, and after an error goes
//! on at the next instruction. Names are resolved at the end of their function, callees at the end of the module, so
//! that malformed modules (a use before its definition, a call to a later function) can be written down.

use super::MAX_REGION_DEPTH;
use super::constant::{parse_bits, parse_constant};
use super::lexer::{HirToken, TokenKind};
use super::reader::{CalleeUse, HirReader, Parsed, SyntaxFailure};
use crate::diagnostic::{Code, Diagnostic, near_names};
use crate::entity::{FuncId, Inst, Region, Value};
use crate::fragment::FragmentAccess;
use crate::function::{
    AtomicOrdering, AxisExtent, CacheUse, CheckKind, Function, FunctionKind, Imm, MemoryOrder, MemoryScope, Module,
    NamedBarrier, Operands, RegionData, SharedArray, SharedCopy,
};
use crate::op::{Convergence, Op, OpGroup};
use crate::span::{FileId, Span};
use crate::types::Type;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Reads a module from HIR text. Spans point into `file` unless the text gives its own.
///
/// # Errors
///
/// All syntax errors and unresolved names, in the order of the text.
pub fn parse_module(text: &str, file: FileId) -> Result<Module, Vec<Diagnostic>> {
    if u32::try_from(text.len()).is_err() {
        let message = "HIR text is longer than 4 GiB";
        return Err(vec![Diagnostic::error(Code::Limit, Span::new(file, 0, 0), message)]);
    }
    let mut reader = HirReader::new(text, file);
    let module = reader.module();
    if reader.errors.is_empty() {
        return Ok(module);
    }
    reader.errors.sort_by_key(|error| error.span.start);
    Err(reader.errors)
}

/// `%0 name: type, …`
type Definitions = SmallVec<[(HirToken, Option<Arc<str>>, Type); 2]>;

/// A function being read.
struct FunctionBody<'t> {
    id: FuncId,
    func: Function,
    values: FxHashMap<&'t str, Value>,
    labels: FxHashMap<&'t str, Inst>,
    /// Operands that stood before their definition, by instruction and operand index.
    late_operands: Vec<(Inst, usize, &'t str, Span)>,
    targets: Vec<(Inst, &'t str, Span)>,
}

impl<'t> HirReader<'t> {
    fn module(&mut self) -> Module {
        let mut module = Module::new();
        while self.peek().kind != TokenKind::End {
            if self.function(&mut module).is_err() {
                while self.peek().kind != TokenKind::End && !self.at_function() {
                    self.next();
                }
            }
        }
        // Calls are not resolved after an error, because the name may be that of a function that could not be read.
        let calls = if self.errors.is_empty() { std::mem::take(&mut self.calls) } else { Vec::new() };
        for (caller, by, name, span) in calls {
            let Some(&callee) = self.functions.get(&name) else {
                self.error(span, format!("no function is called `{name}`"));
                continue;
            };
            let function = &mut module.functions[caller];
            match by {
                CalleeUse::Call(inst) => function.insts[inst].imm = Imm::Func(callee),
                CalleeUse::Gradient => function.gradient = Some(callee),
                CalleeUse::Replay => function.replay = Some(callee),
            }
        }
        module
    }

    fn at_function(&self) -> bool {
        let token = self.peek();
        token.starts_line && token.kind == TokenKind::Word && matches!(self.str(token), "kernel" | "func")
    }

    fn function(&mut self, module: &mut Module) -> Parsed<()> {
        let first = self.at;
        let kind = if self.eat_word("kernel") {
            FunctionKind::Kernel
        } else if self.eat_word("func") {
            FunctionKind::Func
        } else {
            return self.expected("`kernel` or `func`");
        };
        let (name, _) = self.function_name()?;
        let errors_before = self.errors.len();
        let id = module.functions.next_key();
        // Two functions of one name are no error here, since the verifier reports them.
        self.functions.entry(name.clone()).or_insert(id);
        let mut body = FunctionBody {
            id,
            func: Function::new(name, kind, [], &[]),
            values: FxHashMap::default(),
            labels: FxHashMap::default(),
            late_operands: Vec::new(),
            targets: Vec::new(),
        };
        let outcome = self.signature_and_code(&mut body, first);
        if self.errors.len() == errors_before {
            self.resolve(&mut body);
        }
        module.functions.push(body.func);
        outcome
    }

    fn signature_and_code(&mut self, body: &mut FunctionBody<'t>, first: usize) -> Parsed<()> {
        self.expect("(")?;
        while !self.eat(")") {
            if !body.func.param_names.is_empty() {
                self.expect(",")?;
            }
            let value = self.kind(TokenKind::Value, "a parameter, `%0 name: type`")?;
            let name = self.name("the parameter's name")?;
            self.expect(":")?;
            let ty = self.ty()?;
            let param = body.func.add_param(name, ty);
            self.define(body, value, param)?;
        }
        if self.eat("->") {
            self.expect("(")?;
            loop {
                let ty = self.ty()?;
                body.func.results.push(ty);
                if self.eat(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        for (word, by) in [("gradient", CalleeUse::Gradient), ("replay", CalleeUse::Replay)] {
            if self.eat_word(word) {
                let (name, span) = self.function_name()?;
                self.calls.push((body.id, by, name, span));
            }
        }
        if self.peek().kind == TokenKind::Mark("[") {
            let (metadata, constraints) = self.attributes()?;
            (body.func.metadata, body.func.constraints) = (metadata, constraints);
        }
        body.func.span = self.source(first)?;
        self.block(body, body.func.body, 1)
    }

    fn define(&mut self, body: &mut FunctionBody<'t>, token: HirToken, value: Value) -> Parsed<()> {
        let text = self.str(token);
        match body.values.insert(text, value) {
            None => Ok(()),
            Some(_) => self.fail(token, format!("value `{text}` is defined twice")),
        }
    }

    /// `{ … }`. An error in an instruction is reported and the reading goes on behind it.
    fn block(&mut self, body: &mut FunctionBody<'t>, region: Region, depth: usize) -> Parsed<()> {
        if depth > MAX_REGION_DEPTH {
            let message = format!("regions nest more than {MAX_REGION_DEPTH} deep");
            return self.fail(self.peek(), message);
        }
        self.expect("{")?;
        loop {
            let token = self.peek();
            if self.eat("}") {
                return Ok(());
            }
            if token.kind == TokenKind::End || self.at_function() {
                return self.expected("an instruction or `}`");
            }
            if !token.starts_line && self.tokens[self.at - 1].kind != TokenKind::Mark("{") {
                self.error(self.span(token), format!("expected the end of the line, found `{}`", self.str(token)));
                self.skip_instruction();
            } else if self.instruction(body, region, depth).is_err() {
                self.skip_instruction();
            }
        }
    }

    /// Goes to the start of the next line outside any braces opened on the way, or to the brace that closes the block.
    fn skip_instruction(&mut self) {
        let mut open = 0usize;
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::End => return,
                TokenKind::Mark("{") => open += 1,
                TokenKind::Mark("}") if open == 0 => return,
                TokenKind::Mark("}") => open -= 1,
                _ if self.at_function() => return,
                _ => {}
            }
            self.next();
            if open == 0 && self.peek().starts_line {
                return;
            }
        }
    }

    fn instruction(&mut self, body: &mut FunctionBody<'t>, region: Region, depth: usize) -> Parsed<()> {
        let first = self.at;
        let mut results = Definitions::new();
        if self.peek().kind == TokenKind::Value {
            results = self.definitions()?;
            self.expect("=")?;
        }
        let types: SmallVec<[Type; 2]> = results.iter().map(|r| r.2).collect();
        let op = self.op()?;
        let inst = body.func.make_inst(op, Operands::new(), &types, Imm::None, Span::NONE);
        body.func.regions[region].insts.push(inst);
        for (index, (token, name, _)) in results.into_iter().enumerate() {
            let value = body.func.insts[inst].results[index];
            self.name_value(body, token, name, value)?;
        }
        self.label(body, inst)?;
        body.func.insts[inst].imm = self.immediate(body, inst)?;
        self.operands(body, inst)?;
        body.func.insts[inst].span = self.source(first)?;
        while matches!(self.peek().kind, TokenKind::Mark("(" | "{")) || self.region_keyword() {
            let inner = body.func.regions.push(RegionData::default());
            body.func.insts[inst].regions.push(inner);
            if self.eat("(") {
                for (token, name, ty) in self.definitions()? {
                    let value = body.func.add_region_param(inner, ty);
                    self.name_value(body, token, name, value)?;
                }
                self.expect(")")?;
            }
            self.block(body, inner, depth + 1)?;
        }
        Ok(())
    }

    fn region_keyword(&mut self) -> bool {
        self.tokens[self.at - 1].kind == TokenKind::Mark("}") && (self.eat_word("else") || self.eat_word("do"))
    }

    fn op(&mut self) -> Parsed<Op> {
        let token = self.kind(TokenKind::Word, "an op")?;
        let name = self.str(token);
        if let Some(op) = Op::from_name(name) {
            return Ok(op);
        }
        let near = near_names(name, Op::all().map(|info| info.name));
        let mut error = Diagnostic::error(Code::HirSyntax, self.span(token), format!("there is no op `{name}`"));
        if !near.is_empty() {
            error = error.help(format!("did you mean `{}`?", near.join("` or `")));
        }
        self.errors.push(error);
        Err(SyntaxFailure)
    }

    /// `%0 name: type, …`
    fn definitions(&mut self) -> Parsed<Definitions> {
        let mut list = SmallVec::new();
        loop {
            let token = self.kind(TokenKind::Value, "a value")?;
            let named = matches!(self.peek().kind, TokenKind::Word | TokenKind::Str);
            let name = if named { Some(self.name("a name")?.into()) } else { None };
            self.expect(":")?;
            list.push((token, name, self.ty()?));
            if !self.eat(",") {
                return Ok(list);
            }
        }
    }

    fn name_value(
        &mut self,
        body: &mut FunctionBody<'t>,
        token: HirToken,
        name: Option<Arc<str>>,
        value: Value,
    ) -> Parsed<()> {
        if name.is_some() {
            body.func.value_names[value] = name;
        }
        self.define(body, token, value)
    }

    /// The label on `inst`. On `break` and `continue`, whose own label would be one too many, the target comes last.
    fn label(&mut self, body: &mut FunctionBody<'t>, inst: Inst) -> Parsed<()> {
        let token = self.peek();
        let next = self.tokens.get(self.at + 1).map(|t| t.kind);
        let is_target = matches!(body.func.insts[inst].op, Op::Break | Op::Continue) && next != Some(TokenKind::Label);
        if token.kind != TokenKind::Label || is_target {
            return Ok(());
        }
        self.next();
        match body.labels.insert(self.str(token), inst) {
            None => Ok(()),
            Some(_) => self.fail(token, format!("label `{}` is defined twice", self.str(token))),
        }
    }

    fn immediate(&mut self, body: &mut FunctionBody<'t>, inst: Inst) -> Parsed<Imm> {
        match body.func.insts[inst].op {
            Op::Const => {
                let ty = body.func.insts[inst].results.first().map(|&v| body.func.ty(v));
                Ok(Imm::Bits(self.constant(ty)?))
            }
            Op::Tid | Op::Dim | Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => {
                Ok(Imm::Axis(self.number("an axis")?))
            }
            Op::Component | Op::WithComponent => Ok(Imm::Component(self.number("a component's number")?)),
            Op::WrapIndex => Ok(Imm::Extent(AxisExtent {
                name: self.string("a variable's name in quotes")?.into(),
                axis: self.number("an axis")?,
                extent: self.number("an extent")?,
            })),
            Op::Call => {
                let (name, span) = self.function_name()?;
                self.calls.push((body.id, CalleeUse::Call(inst), name, span));
                Ok(Imm::None)
            }
            Op::Break | Op::Continue => {
                let token = self.kind(TokenKind::Label, "`^` and a label")?;
                body.targets.push((inst, self.str(token), self.span(token)));
                Ok(Imm::None)
            }
            Op::Assert | Op::Print => Ok(Imm::Text(self.string("a string")?.into())),
            Op::Check if self.eat_word("division") => Ok(Imm::Check(CheckKind::Division)),
            Op::Check if self.eat_word("bounds") => {
                let unsigned = self.eat_word("unsigned");
                let array = self.string("the array's name in quotes")?.into();
                Ok(Imm::Check(CheckKind::Bounds { array, axis: self.number("an axis")?, unsigned }))
            }
            Op::Check => self.expected("`bounds` or `division`"),
            Op::SharedArray => {
                let id = self.number("the array's number")?;
                let extents = self.numbers()?.into();
                if !self.eat_word("align") {
                    return self.expected("`align`");
                }
                Ok(Imm::Shared(Box::new(SharedArray { id, extents, align: self.number("an alignment")? })))
            }
            Op::ThreadFence => {
                let scope = self.choice("a scope", MemoryScope::from_name)?;
                Ok(Imm::Memory(MemoryOrder { scope, ordering: AtomicOrdering::SeqCst }))
            }
            Op::MmaLoadA | Op::MmaLoadB | Op::MmaLoadC | Op::MmaStore => {
                let by_columns = match () {
                    () if self.eat_word("rows") => false,
                    () if self.eat_word("columns") => true,
                    () => return self.expected("`rows` or `columns`"),
                };
                Ok(Imm::Fragment(FragmentAccess { by_columns, n: self.number("a number of columns")? }))
            }
            Op::AsyncCopy => {
                let count = self.number("a number of elements")?;
                let is_in_step = self.eat_word("in_step");
                let has_cache = self.peek().kind == TokenKind::Word;
                let cache = if has_cache { self.choice("a cache", CacheUse::from_name)? } else { CacheUse::default() };
                Ok(Imm::Copy(SharedCopy { count, cache, is_in_step }))
            }
            Op::NamedBarrier => {
                let id = self.number("the number of a barrier")?;
                Ok(Imm::Barrier(NamedBarrier { id, count: self.number("a number of threads")? }))
            }
            Op::ForRange if self.eat_word("parallel") => Ok(Imm::Parallel),
            Op::AsyncWait => Ok(Imm::Pending(self.number("a number of groups")?)),
            op if op.info().convergence == Convergence::Warp && self.peek().kind == TokenKind::Number => {
                Ok(Imm::Width(self.number("a number of lanes")?))
            }
            op if op.info().group == OpGroup::Atomic && self.peek().kind == TokenKind::Word => {
                let scope = self.choice("a scope", MemoryScope::from_name)?;
                Ok(Imm::Memory(MemoryOrder { scope, ordering: self.choice("an ordering", AtomicOrdering::from_name)? }))
            }
            _ => Ok(Imm::None),
        }
    }

    fn constant(&mut self, ty: Option<Type>) -> Parsed<u64> {
        let token = self.peek();
        let text = self.str(token);
        if !matches!(token.kind, TokenKind::Number | TokenKind::Word) || token.starts_line {
            return self.expected("a constant");
        }
        let bits = match ty.and_then(Type::as_scalar) {
            Some(scalar) => parse_constant(scalar, text),
            None => parse_bits(text),
        };
        match (bits, ty) {
            (Some(bits), _) => {
                self.next();
                Ok(bits)
            }
            (None, Some(ty)) => {
                let error = Diagnostic::error(
                    Code::HirSyntax,
                    self.span(token),
                    format!("`{text}` is not a constant of type {ty}"),
                );
                self.errors.push(error.help("any constant can be written as its bits, `0x…`"));
                Err(SyntaxFailure)
            }
            (None, None) => self.fail(token, "a constant without a result can only be given as bits, `0x…`"),
        }
    }

    /// Operands stand on the line of the op, or after a comma.
    fn operands(&mut self, body: &mut FunctionBody<'t>, inst: Inst) -> Parsed<()> {
        if self.peek().kind != TokenKind::Value || self.peek().starts_line {
            return Ok(());
        }
        loop {
            let token = self.kind(TokenKind::Value, "a value")?;
            let text = self.str(token);
            let index = body.func.insts[inst].operands.len();
            let value = body.values.get(text).copied().unwrap_or_else(|| {
                body.late_operands.push((inst, index, text, self.span(token)));
                Value::from_u32(0)
            });
            body.func.insts[inst].operands.push(value);
            if !self.eat(",") {
                return Ok(());
            }
        }
    }

    /// Fills in what could not be known before the whole function was read.
    fn resolve(&mut self, body: &mut FunctionBody<'t>) {
        for (inst, index, name, span) in std::mem::take(&mut body.late_operands) {
            match body.values.get(name) {
                Some(&value) => body.func.insts[inst].operands[index] = value,
                None => self.error(span, format!("value `{name}` is not defined")),
            }
        }
        for (inst, name, span) in std::mem::take(&mut body.targets) {
            match body.labels.get(name) {
                Some(&target) => body.func.insts[inst].imm = Imm::Target(target),
                None => self.error(span, format!("label `{name}` is not defined")),
            }
        }
    }
}
