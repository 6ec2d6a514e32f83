//! A kernel and all it may call: which functions those are, their frames, and their bodies one after the other.

use super::element::array_element;
use super::op::{
    CallTarget, DecodedInst, DecodedOp, DecodedProgram, FunctionInfo, HostFunction, LaunchLimits, ParamPlace,
    ParameterInfo, SpecialRegister,
};
use super::pressure::pressure;
use super::symbol::{BlockScope, GlobalAddresses, PtxSymbol, RegisterFamily, RegisterFile, layout, variable_size};
use super::types::PtxType;
use super::{Decoded, InstClass};
use crate::error::{PtxError, TextPosition};
use crate::exec::registers::{FrameBase, PredicateTest, SourceOperand};
use crate::memory::window::{self, RESERVED_SHARED};
use crate::syntax::MAX_ERRORS;
use crate::syntax::ast::{
    InitialValue, ModuleItem, PtxAst, PtxFunction, PtxInstruction, PtxOperand, PtxVariable, StateSpace, Statement,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most registers of one file a function may declare; PTX of real kernels has some thousands.
const MAX_REGISTERS: u32 = 1 << 20;
/// Local memory of a thread when functions may call each other without end.
const RECURSIVE_LOCAL: u32 = 64 << 10;
/// Holds what `alloca` may give a thread.
const STACK_BYTES: u32 = 16 << 10;
/// The most local memory a thread may have, as on GPUs.
const MAX_LOCAL: u32 = 512 << 10;

/// Holds what a function cannot take or give back.
pub(super) const QUAD_PASSED: &str = "128 bits are passed in `.param`, not in a register";

pub(crate) struct FunctionDecoder<'a> {
    pub(super) ast: &'a PtxAst,
    /// The functions of the program, the kernel first.
    pub(super) functions: Vec<&'a PtxFunction>,
    pub(super) infos: Vec<FunctionInfo>,
    /// Says which of them is being decoded; the kernel is the first.
    pub(super) current: usize,
    pub(super) globals: &'a GlobalAddresses,
    /// Shared variables, by where they are declared.
    shared: FxHashMap<TextPosition, u64>,
    pub(super) code: Vec<DecodedInst>,
    errors: Vec<PtxError>,
    pub(super) scopes: Vec<BlockScope>,
    pub(super) size: FrameBase,
    local_top: u32,
    /// The predicate that holds the carry.
    pub(super) carry: Option<u32>,
    /// Names that the current function uses for more than copies, once somebody asks.
    used: Option<FxHashSet<&'a str>>,
    pub(super) position: TextPosition,
    /// True if the current instruction may name special registers.
    pub(super) reads_special: bool,
    source: (u32, u32, u32),
    /// The statements of the present block after the present one.
    pub(super) rest: &'a [Statement],
}

/// Decodes the kernel `name`. `globals` has the addresses of its variables.
pub(crate) fn decode(ast: &PtxAst, name: &str, globals: &GlobalAddresses) -> Result<DecodedProgram, Vec<PtxError>> {
    let kernel = definitions(ast).find(|function| function.entry && function.name == name);
    let Some(kernel) = kernel else {
        let position = TextPosition { line: 1, column: 1 };
        return Err(vec![PtxError::new(position, format!("the module has no kernel `{name}`"))]);
    };
    let (functions, names) = reachable(ast, kernel);
    let (shared, shared_names, static_shared_bytes) = match shared_layout(ast, &functions, &names) {
        Ok(layout) => layout,
        Err(error) => return Err(vec![error]),
    };
    let mut decoder = FunctionDecoder {
        ast,
        infos: Vec::new(),
        current: 0,
        functions,
        globals,
        shared,
        code: Vec::new(),
        errors: Vec::new(),
        scopes: Vec::new(),
        size: FrameBase::default(),
        local_top: 0,
        carry: None,
        used: None,
        position: kernel.position,
        reads_special: false,
        source: (0, 0, 0),
        rest: &[],
    };
    let parameters = decoder.interfaces(kernel);
    for index in 0..decoder.functions.len() {
        decoder.function(index);
    }
    if !decoder.errors.is_empty() {
        return Err(decoder.errors);
    }
    let grows = decoder.code.iter().any(|inst| matches!(inst.op, DecodedOp::Stack(_)));
    let stack_bytes = if grows { STACK_BYTES } else { 0 };
    let local_bytes = decoder.local_bytes().next_multiple_of(16).saturating_add(stack_bytes);
    if local_bytes > MAX_LOCAL {
        let message = format!("`{name}` needs {local_bytes} bytes of local memory, a thread has {MAX_LOCAL}");
        return Err(vec![PtxError::new(kernel.position, message)]);
    }
    let (parameters, parameter_bytes) = parameters.map_err(|error| vec![error])?;
    let files = ast.items.iter().filter_map(|item| match item {
        ModuleItem::File(index, name) => Some((*index, name.clone())),
        _ => None,
    });
    let allocates = decoder.code.iter().any(|inst| match &inst.op {
        DecodedOp::Call(call) => matches!(call.target, CallTarget::Host(HostFunction::Alloc)),
        _ => false,
    });
    let specials = decoder.code.iter().filter_map(|inst| match inst.op {
        DecodedOp::Special { which, .. } => Some(which),
        _ => None,
    });
    let specials: Vec<SpecialRegister> = specials.collect();
    let uses_reserved_shared = specials.iter().any(|which| matches!(which, SpecialRegister::ReservedShared(_)));
    let uses_workspace =
        specials.iter().any(|which| matches!(which, SpecialRegister::WorkspaceLow | SpecialRegister::WorkspaceHigh));
    Ok(DecodedProgram {
        code: decoder.code,
        functions: decoder.infos,
        kernel: 0,
        parameters,
        parameter_bytes,
        shared: shared_names,
        static_shared_bytes,
        uses_reserved_shared,
        uses_workspace,
        constants: globals.constants.clone(),
        local_bytes,
        stack_bytes,
        allocates,
        files: files.collect(),
        target: ast.target.first().cloned().unwrap_or_default(),
        limits: limits(kernel),
    })
}

pub(crate) fn definitions(ast: &PtxAst) -> impl Iterator<Item = &PtxFunction> {
    ast.items.iter().filter_map(|item| match item {
        ModuleItem::Function(function) if function.body.is_some() => Some(function),
        _ => None,
    })
}

/// Returns what the directives of a kernel say.
pub(crate) fn limits(kernel: &PtxFunction) -> LaunchLimits {
    let mut limits = LaunchLimits::default();
    for (name, values) in &kernel.directives {
        let at = |index: usize| values.get(index).map_or(1, |value| u32::try_from(*value).unwrap_or(u32::MAX));
        match name.as_str() {
            "maxntid" => limits.max_threads = Some(at(0).saturating_mul(at(1)).saturating_mul(at(2))),
            "reqntid" => limits.required_block = Some([at(0), at(1), at(2)]),
            "minnctapersm" => limits.min_blocks = Some(at(0)),
            "maxnreg" => limits.max_registers = Some(at(0)),
            "reqnctapercluster" => limits.required_cluster = Some([at(0), at(1), at(2)]),
            "maxclusterrank" => limits.max_cluster_blocks = Some(at(0)),
            "explicitcluster" => limits.needs_cluster = true,
            _ => {}
        }
    }
    limits
}

/// The kernel's parameters and the bytes they take.
pub(crate) fn parameters(kernel: &PtxFunction) -> Decoded<(Vec<ParameterInfo>, u32)> {
    let (places, bytes) = layout(0, kernel.parameters.iter())?;
    let infos = kernel.parameters.iter().zip(places).map(|(variable, (offset, size, align))| ParameterInfo {
        name: variable.name.clone(),
        offset,
        size,
        align,
        ty: variable.ty.clone(),
        pointer: variable.pointer.is_some(),
    });
    Ok((infos.collect(), bytes))
}

fn walk<'a>(body: &'a [Statement], visit: &mut impl FnMut(&'a Statement)) {
    for statement in body {
        visit(statement);
        if let Statement::Block(inner) = statement {
            walk(inner, visit);
        }
    }
}

pub(super) fn operand_names<'a>(operand: &'a PtxOperand, visit: &mut impl FnMut(&'a str)) {
    match operand {
        PtxOperand::Name(name) | PtxOperand::Offset(name, _) | PtxOperand::Element { array: name, .. } => visit(name),
        PtxOperand::Vector(all) | PtxOperand::List(all) => all.iter().for_each(|each| operand_names(each, visit)),
        PtxOperand::Address { base, more, .. } => {
            operand_names(base, visit);
            more.iter().for_each(|each| operand_names(each, visit));
        }
        PtxOperand::Not(base) | PtxOperand::Negative(base) => operand_names(base, visit),
        PtxOperand::Pair(a, b) => {
            operand_names(a, visit);
            operand_names(b, visit);
        }
        _ => {}
    }
}

fn initial_names<'a>(initial: &'a InitialValue, visit: &mut impl FnMut(&'a str)) {
    match initial {
        InitialValue::List(all) => all.iter().for_each(|each| initial_names(each, visit)),
        InitialValue::Address { name, .. } => visit(name),
        InitialValue::Masked { address, .. } => initial_names(address, visit),
        InitialValue::Integer(_) | InitialValue::Float(_) | InitialValue::Field { .. } => {}
    }
}

/// The functions a kernel may reach, itself first, and all names their bodies mention. Functions whose addresses are in
/// variables may be reached from anywhere.
fn reachable<'a>(ast: &'a PtxAst, kernel: &'a PtxFunction) -> (Vec<&'a PtxFunction>, FxHashSet<&'a str>) {
    let mut by_name: FxHashMap<&str, &PtxFunction> = FxHashMap::default();
    for function in definitions(ast).filter(|function| !function.entry) {
        by_name.insert(&function.name, function);
    }
    let mut names: FxHashSet<&str> = FxHashSet::default();
    let mut found = vec![kernel];
    let add = |name: &'a str, found: &mut Vec<&'a PtxFunction>, names: &mut FxHashSet<&'a str>| {
        if names.insert(name)
            && let Some(function) = by_name.get(name)
        {
            found.push(function);
        }
    };
    for item in &ast.items {
        if let ModuleItem::Variable(PtxVariable { initial: Some(initial), .. }) = item {
            initial_names(initial, &mut |name| add(name, &mut found, &mut names));
        }
        if let ModuleItem::Alias(_, target) = item {
            add(target, &mut found, &mut names);
        }
    }
    let mut next = 0;
    while next < found.len() {
        let body = found[next].body.as_deref().unwrap_or(&[]);
        walk(body, &mut |statement| match statement {
            Statement::Instruction(instruction) => {
                for operand in &instruction.operands {
                    operand_names(operand, &mut |name| add(name, &mut found, &mut names));
                }
            }
            Statement::Targets { targets, .. } => {
                targets.iter().for_each(|name| add(name, &mut found, &mut names));
            }
            _ => {}
        });
        next += 1;
    }
    (found, names)
}

type SharedLayout = (FxHashMap<TextPosition, u64>, Vec<(u32, u32, String)>, u32);

/// Returns where the shared variables of a program lie, past the system's part: those with a size first, dynamic ones
/// all behind them. Then their names, and the bytes until the dynamic ones.
fn shared_layout(ast: &PtxAst, functions: &[&PtxFunction], names: &FxHashSet<&str>) -> Decoded<SharedLayout> {
    let mut variables: Vec<&PtxVariable> = Vec::new();
    for item in &ast.items {
        if let ModuleItem::Variable(variable) = item
            && variable.space == StateSpace::Shared
            && names.contains(variable.name.as_str())
        {
            variables.push(variable);
        }
    }
    for function in functions {
        walk(function.body.as_deref().unwrap_or(&[]), &mut |statement| {
            if let Statement::Variable(variable) = statement
                && variable.space == StateSpace::Shared
            {
                variables.push(variable);
            }
        });
    }
    let dynamic = |variable: &PtxVariable| variable.extents.first() == Some(&None);
    let (places, end) = layout(RESERVED_SHARED, variables.iter().filter(|each| !dynamic(each)).copied())?;
    let fixed = variables.iter().filter(|each| !dynamic(each)).zip(&places);
    let mut addresses: FxHashMap<TextPosition, u64> = FxHashMap::default();
    let mut named = Vec::new();
    for (variable, (start, size, _)) in fixed {
        addresses.insert(variable.position, u64::from(*start));
        named.push((*start, *size, variable.name.clone()));
    }
    let mut start = end;
    for variable in variables.iter().filter(|each| dynamic(each)) {
        let (_, align) = variable_size(variable)?;
        let place = end.checked_next_multiple_of(align.max(16));
        start = start.max(place.ok_or_else(|| PtxError::new(variable.position, "variables of more than 4 GiB"))?);
    }
    for variable in variables.iter().filter(|each| dynamic(each)) {
        addresses.insert(variable.position, u64::from(start));
    }
    Ok((addresses, named, start - RESERVED_SHARED))
}

impl<'a> FunctionDecoder<'a> {
    /// Notes an error, up to as many as a parse reports.
    pub(super) fn note(&mut self, error: PtxError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Lays out what functions take and give back, before any body is decoded, since calls need both sides.
    fn interfaces(&mut self, kernel: &PtxFunction) -> Decoded<(Vec<ParameterInfo>, u32)> {
        for index in 0..self.functions.len() {
            let function = self.functions[index];
            let mut info = FunctionInfo {
                name: function.name.clone(),
                entry: 0,
                size: FrameBase::default(),
                pressure: function.body.as_deref().filter(|_| function.entry).and_then(pressure),
                parameters: Vec::new(),
                results: Vec::new(),
            };
            if !function.entry {
                self.size = FrameBase::default();
                self.local_top = 0;
                self.scopes = vec![BlockScope::default()];
                for (list, into) in
                    [(&function.results, &mut info.results), (&function.parameters, &mut info.parameters)]
                {
                    for variable in list {
                        match self.declare(variable) {
                            Ok(PtxSymbol::Register { file: RegisterFile::Quad, .. }) => {
                                self.note(PtxError::new(variable.position, QUAD_PASSED));
                            }
                            Ok(symbol) => into.push(place(&symbol)),
                            Err(error) => self.note(error),
                        }
                    }
                }
                self.scopes.clear();
            }
            self.infos.push(info);
        }
        parameters(kernel)
    }

    fn function(&mut self, index: usize) {
        let function = self.functions[index];
        self.current = index;
        self.size = FrameBase::default();
        self.local_top = 0;
        self.carry = None;
        self.used = None;
        self.source = (0, 0, 0);
        self.scopes = vec![BlockScope::default()];
        self.infos[index].entry = self.code.len() as u32;
        if function.entry {
            match parameters(function) {
                Ok((all, _)) => {
                    for (parameter, variable) in all.iter().zip(&function.parameters) {
                        let symbol =
                            PtxSymbol::Memory { space: StateSpace::Param, address: u64::from(parameter.offset) };
                        match self.define(&parameter.name, symbol, variable.position) {
                            Ok(()) => self.note_array(variable),
                            Err(error) => self.note(error),
                        }
                    }
                }
                Err(error) => self.note(error),
            }
        } else {
            // In the order in which `interfaces` laid them out.
            for variable in function.results.iter().chain(&function.parameters) {
                if let Err(error) = self.declare(variable)
                    && !self.errors.contains(&error)
                {
                    self.note(error);
                }
            }
        }
        self.body(function.body.as_deref().unwrap_or(&[]));
        // Control that falls off the end returns.
        self.position = function.position;
        self.emit(DecodedOp::Return, InstClass::Control);
        if let Some(scope) = self.scopes.pop() {
            for (_, _, label, position) in scope.pending {
                self.note(PtxError::new(position, format!("there is no label `{label}`")));
            }
        }
        let mut size = self.size;
        size.local = size.local.next_multiple_of(16);
        self.infos[index].size = size;
    }

    /// Returns true if a vector load writes the register, and at most vector stores read it.
    pub(super) fn is_copied(&mut self, register: &PtxOperand) -> bool {
        let PtxOperand::Name(name) = register else { return false };
        let body = self.functions[self.current].body.as_deref().unwrap_or(&[]);
        let used = self.used.get_or_insert_with(|| {
            let mut used = FxHashSet::default();
            walk(body, &mut |statement| {
                let Statement::Instruction(instruction) = statement else { return };
                let copied = match instruction.opcode.as_str() {
                    "ld" => instruction.operands.first(),
                    "st" => instruction.operands.get(1),
                    _ => None,
                };
                for operand in &instruction.operands {
                    let copies = copied.is_some_and(|copied| std::ptr::eq(copied, operand));
                    if !(copies && matches!(operand, PtxOperand::Vector(_))) {
                        operand_names(operand, &mut |name| _ = used.insert(name));
                    }
                }
            });
            used
        });
        !used.contains(name.as_str())
    }

    pub(super) fn scope(&mut self) -> &mut BlockScope {
        if self.scopes.is_empty() {
            self.scopes.push(BlockScope::default());
        }
        self.scopes.last_mut().expect("just made")
    }

    fn body(&mut self, body: &'a [Statement]) {
        for (index, statement) in body.iter().enumerate() {
            self.rest = &body[index + 1..];
            match statement {
                Statement::Label(name, position) => {
                    let here = self.code.len() as u32;
                    match self.unused(name, *position) {
                        Ok(()) => _ = self.scope().labels.insert(name.clone(), here),
                        Err(error) => self.note(error),
                    }
                }
                Statement::Variable(variable) => {
                    if let Err(error) = self.declare(variable) {
                        self.note(error);
                    }
                }
                Statement::Instruction(instruction) => {
                    if let Err(error) = self.line(instruction) {
                        self.note(error);
                    }
                }
                Statement::Block(inner) => {
                    let top = self.local_top;
                    self.scopes.push(BlockScope::default());
                    self.body(inner);
                    self.leave();
                    self.local_top = top;
                }
                Statement::Location(location) => self.source = (location.file, location.line, location.column),
                Statement::Pragma(_) => {}
                Statement::Targets { name, targets, .. } => {
                    if let Err(error) = self.define(name, PtxSymbol::Targets(targets.clone()), self.position) {
                        self.note(error);
                    }
                }
                Statement::Prototype { name, .. } => {
                    if let Err(error) = self.define(name, PtxSymbol::Prototype, self.position) {
                        self.note(error);
                    }
                }
            }
        }
        self.resolve_branches();
    }

    /// Leaves a block; branches whose labels it does not have are its surroundings'.
    fn leave(&mut self) {
        if let Some(scope) = self.scopes.pop() {
            self.scope().pending.extend(scope.pending);
        }
    }

    fn resolve_branches(&mut self) {
        let scope = self.scope();
        let labels = std::mem::take(&mut scope.labels);
        let mut left = Vec::new();
        for (inst, which, label, position) in std::mem::take(&mut scope.pending) {
            let Some(target) = labels.get(&label) else {
                left.push((inst, which, label, position));
                continue;
            };
            match &mut self.code[inst].op {
                DecodedOp::Branch(to) => *to = *target,
                DecodedOp::BranchTable { targets, .. } => targets[which] = *target,
                _ => {}
            }
        }
        let scope = self.scope();
        scope.pending = left;
        scope.labels = labels;
    }

    fn line(&mut self, instruction: &PtxInstruction) -> Decoded<()> {
        self.position = instruction.position;
        self.reads_special = match instruction.opcode.as_str() {
            "mov" => true,
            "cvt" => instruction.modifiers.iter().filter_map(|name| PtxType::parse(name)).all(PtxType::is_integer),
            _ => false,
        };
        let guard = match &instruction.guard {
            None => None,
            Some((negated, name)) => {
                let Some(PtxSymbol::Register { file: RegisterFile::Predicate, slot, .. }) = self.find(name) else {
                    return Err(PtxError::new(instruction.position, format!("`{name}` is no predicate")));
                };
                Some(PredicateTest::Register { slot, negated: *negated })
            }
        };
        let (op, class) = self.instruction(instruction)?;
        self.emit(op, class);
        if let Some(inst) = self.code.last_mut() {
            inst.guard = guard;
        }
        Ok(())
    }

    /// Adds an instruction at the current place.
    pub(super) fn emit(&mut self, op: DecodedOp, class: InstClass) {
        let index = self.code.len() as u32;
        self.code.push(DecodedInst { op, index, guard: None, class, position: self.position, source: self.source });
    }

    /// Returns what `name` stands for here.
    pub(super) fn find(&self, name: &str) -> Option<PtxSymbol> {
        if let Some(symbol) = self.scopes.iter().rev().find_map(|scope| scope.find(name)) {
            return Some(symbol);
        }
        if let Some(address) = self.globals.by_name.get(name) {
            return Some(self.globals.symbol(*address));
        }
        let shared = self.ast.items.iter().find_map(|item| match item {
            ModuleItem::Variable(variable) if variable.name == name => self.shared.get(&variable.position),
            _ => None,
        });
        shared.map(|address| PtxSymbol::Memory { space: StateSpace::Shared, address: *address })
    }

    /// The index of a function of the program, aliases included.
    pub(super) fn function_index(&self, name: &str) -> Option<usize> {
        let aliased = self.ast.items.iter().find_map(|item| match item {
            ModuleItem::Alias(alias, target) if alias == name => Some(target.as_str()),
            _ => None,
        });
        let name = aliased.unwrap_or(name);
        self.functions.iter().position(|function| function.name == name && !function.entry)
    }

    /// The address that stands for a function.
    pub(super) fn function_address(&self, name: &str) -> Option<u64> {
        let index = definitions(self.ast).position(|function| function.name == name)?;
        Some(window::FUNCTIONS + 16 * index as u64)
    }

    /// A register nobody else uses.
    pub(super) fn fresh(&mut self, file: RegisterFile) -> u32 {
        let counter = match file {
            RegisterFile::Word => &mut self.size.words,
            RegisterFile::Double | RegisterFile::Quad => &mut self.size.doubles,
            RegisterFile::Predicate => &mut self.size.predicates,
        };
        *counter += file.places();
        *counter - file.places()
    }

    /// The predicate of the carry.
    pub(super) fn carry(&mut self) -> u32 {
        match self.carry {
            Some(slot) => slot,
            None => {
                let slot = self.fresh(RegisterFile::Predicate);
                self.carry = Some(slot);
                slot
            }
        }
    }

    /// Tells whether `name` is still free in the innermost scope.
    fn unused(&mut self, name: &str, position: TextPosition) -> Decoded<()> {
        let scope = self.scope();
        if scope.find(name).is_none() && !scope.labels.contains_key(name) {
            return Ok(());
        }
        Err(PtxError::new(position, format!("`{name}` is declared twice in one scope")))
    }

    fn define(&mut self, name: &str, symbol: PtxSymbol, position: TextPosition) -> Decoded<()> {
        self.unused(name, position)?;
        self.scope().symbols.insert(name.to_owned(), symbol);
        Ok(())
    }

    fn note_array(&mut self, variable: &PtxVariable) {
        if let Some(bytes) = array_element(variable) {
            self.scope().arrays.insert(variable.name.clone(), bytes);
        }
    }

    fn declare(&mut self, variable: &PtxVariable) -> Decoded<PtxSymbol> {
        let fail = |message: String| Err(PtxError::new(variable.position, message));
        let symbol = match variable.space {
            StateSpace::Reg => {
                let Some(ty) = PtxType::parse(&variable.ty) else {
                    return fail(format!("`.{}` is no type", variable.ty));
                };
                let file = match ty.bits() {
                    1 => RegisterFile::Predicate,
                    8 | 16 | 32 => RegisterFile::Word,
                    64 => RegisterFile::Double,
                    128 if variable.lanes == 1 => RegisterFile::Quad,
                    _ => return fail(format!("the simulator has no registers of type `.{}`", variable.ty)),
                };
                let count = variable.count.unwrap_or(1).max(1);
                let counter = match file {
                    RegisterFile::Word => &mut self.size.words,
                    RegisterFile::Double | RegisterFile::Quad => &mut self.size.doubles,
                    RegisterFile::Predicate => &mut self.size.predicates,
                };
                let first = *counter;
                let places = count.saturating_mul(variable.lanes * file.places());
                if places.saturating_add(first) > MAX_REGISTERS {
                    return fail(format!("more than {MAX_REGISTERS} registers"));
                }
                *counter += places;
                if variable.count.is_some() {
                    let family = RegisterFamily { file, first, count, lanes: variable.lanes, ty };
                    let scope = self.scope();
                    let covered = scope.symbols.keys().any(|name| {
                        name.strip_prefix(&variable.name).is_some_and(|digits| family.number(digits).is_some())
                    });
                    if covered || scope.families.contains_key(&variable.name) {
                        return fail(format!("registers `{}<…>` are declared twice in one scope", variable.name));
                    }
                    scope.families.insert(variable.name.clone(), family);
                    return Ok(PtxSymbol::Register { file, slot: first, ty });
                }
                PtxSymbol::registers(file, first, variable.lanes, ty)
            }
            StateSpace::Local | StateSpace::Param => {
                let (size, align) = variable_size(variable)?;
                let offset = self.local_top.next_multiple_of(align);
                if offset.saturating_add(size) > MAX_LOCAL {
                    return fail(format!("more than {MAX_LOCAL} bytes of local memory"));
                }
                self.local_top = offset + size;
                self.size.local = self.size.local.max(self.local_top);
                PtxSymbol::Frame { offset, size }
            }
            StateSpace::Shared => match self.shared.get(&variable.position) {
                Some(address) => PtxSymbol::Memory { space: StateSpace::Shared, address: *address },
                None => return fail(format!("`{}` has no place in shared memory", variable.name)),
            },
            StateSpace::Global | StateSpace::Const => {
                // Variables of functions that keep their values; the module laid them out with its own.
                match self.globals.by_position.get(&variable.position) {
                    Some(address) => self.globals.symbol(*address),
                    None => return fail(format!("`{}` has no address", variable.name)),
                }
            }
        };
        self.define(&variable.name, symbol.clone(), variable.position)?;
        self.note_array(variable);
        Ok(symbol)
    }

    /// Returns how much local memory the deepest chain of calls takes.
    fn local_bytes(&self) -> u32 {
        let mut callees: Vec<Vec<usize>> = vec![Vec::new(); self.infos.len()];
        let mut indirect = false;
        for (index, info) in self.infos.iter().enumerate() {
            let end = self.infos.get(index + 1).map_or(self.code.len(), |next| next.entry as usize);
            for inst in &self.code[info.entry as usize..end] {
                if let DecodedOp::Call(call) = &inst.op {
                    match &call.target {
                        CallTarget::Function(callee) => callees[index].push(*callee),
                        CallTarget::Pointer(_) => indirect = true,
                        CallTarget::Host(_) => {}
                    }
                }
            }
        }
        // Longest path; as many rounds as there are functions, because otherwise it does not end.
        let mut need: Vec<u64> = self.infos.iter().map(|info| u64::from(info.size.local)).collect();
        for round in 0..=self.infos.len() {
            let mut changed = false;
            for index in 0..need.len() {
                let deepest = callees[index].iter().map(|callee| need[*callee]).max().unwrap_or(0);
                let total = u64::from(self.infos[index].size.local) + deepest;
                changed |= total > need[index];
                need[index] = need[index].max(total);
            }
            if !changed && !indirect {
                return u32::try_from(need[0]).unwrap_or(u32::MAX);
            }
            if round == self.infos.len() || indirect {
                break;
            }
        }
        RECURSIVE_LOCAL.max(self.infos[0].size.local)
    }
}

/// Returns where a declared parameter lies.
fn place(symbol: &PtxSymbol) -> ParamPlace {
    match symbol {
        PtxSymbol::Register { file: RegisterFile::Word, slot, ty } => {
            ParamPlace::Word(SourceOperand::Register(*slot), ty.bits())
        }
        PtxSymbol::Register { file: RegisterFile::Double, slot, .. } => {
            ParamPlace::Double(SourceOperand::Register(*slot))
        }
        PtxSymbol::Register { file: RegisterFile::Predicate, slot, .. } => {
            ParamPlace::Predicate(PredicateTest::Register { slot: *slot, negated: false })
        }
        PtxSymbol::Vector(all) => ParamPlace::Vector(all.iter().map(place).collect()),
        PtxSymbol::Frame { offset, size, .. } => ParamPlace::Memory { offset: *offset, size: *size },
        _ => ParamPlace::Memory { offset: 0, size: 0 },
    }
}
