//! What names stand for, and how large variables are.

use super::Decoded;
use super::types::PtxType;
use crate::error::{PtxError, TextPosition};
use crate::syntax::MAX_ERRORS;
use crate::syntax::ast::{InitialValue, ModuleItem, PtxAst, PtxVariable, StateSpace, Statement, SymbolLinkage};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Says which file a register is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegisterFile {
    Word,
    Double,
    /// 128 bits, which lie in two registers of `Double`, the lower half first.
    Quad,
    Predicate,
}

impl RegisterFile {
    /// Returns the number of places of its file a register takes.
    pub(crate) fn places(self) -> u32 {
        if self == RegisterFile::Quad { 2 } else { 1 }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PtxSymbol {
    Register {
        file: RegisterFile,
        slot: u32,
        ty: PtxType,
    },
    /// `.reg .v4`
    Vector(Vec<PtxSymbol>),
    /// A variable at an address of its space.
    Memory {
        space: StateSpace,
        address: u64,
    },
    /// A variable of the frame, among local memory; parameters of functions are such.
    Frame {
        offset: u32,
        size: u32,
    },
    /// Of a call or `brx`.
    Targets(Vec<String>),
    Prototype,
}

impl PtxSymbol {
    /// A register, or a vector of several.
    pub(crate) fn registers(file: RegisterFile, first: u32, lanes: u32, ty: PtxType) -> PtxSymbol {
        let register = |lane| PtxSymbol::Register { file, slot: first + lane, ty };
        if lanes > 1 { PtxSymbol::Vector((0..lanes).map(register).collect()) } else { register(0) }
    }
}

/// `%r<N>`: registers whose names are `prefix` and a number.
pub(crate) struct RegisterFamily {
    pub(crate) file: RegisterFile,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Number of components of each, if they are vectors.
    pub(crate) lanes: u32,
    pub(crate) ty: PtxType,
}

/// The names of one block.
#[derive(Default)]
pub(crate) struct BlockScope {
    pub(crate) symbols: FxHashMap<String, PtxSymbol>,
    pub(crate) families: FxHashMap<String, RegisterFamily>,
    /// Bytes of an element, of the symbols that are arrays.
    pub(crate) arrays: FxHashMap<String, u32>,
    /// Labels, and the instructions they stand before.
    pub(crate) labels: FxHashMap<String, u32>,
    /// Branches whose label is still to come: the instruction, which of its targets, and the label.
    pub(crate) pending: Vec<(usize, usize, String, TextPosition)>,
}

impl BlockScope {
    pub(crate) fn find(&self, name: &str) -> Option<PtxSymbol> {
        if let Some(symbol) = self.symbols.get(name) {
            return Some(symbol.clone());
        }
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let family = self.families.get(prefix)?;
        let slot = family.first + family.number(number)? * family.lanes * family.file.places();
        Some(PtxSymbol::registers(family.file, slot, family.lanes, family.ty))
    }
}

impl RegisterFamily {
    /// Returns which of its registers has these digits behind the prefix.
    pub(crate) fn number(&self, digits: &str) -> Option<u32> {
        digits.parse().ok().filter(|number| *number < self.count)
    }
}

/// Addresses of global and constant variables.
#[derive(Default)]
pub(crate) struct GlobalAddresses {
    /// Those of module scope.
    pub(crate) by_name: FxHashMap<String, u64>,
    /// All, by where they are declared; functions have variables of their own, which may share a name.
    pub(crate) by_position: FxHashMap<TextPosition, u64>,
    /// The place where the constant variables are among generic addresses. An address of `.const` counts from the
    /// start, so that 32 bits hold it.
    pub(crate) constants: Range<u64>,
}

impl GlobalAddresses {
    /// Returns what stands for the variable at a generic address.
    pub(crate) fn symbol(&self, address: u64) -> PtxSymbol {
        match self.constants.contains(&address) {
            true => PtxSymbol::Memory { space: StateSpace::Const, address: address - self.constants.start },
            false => PtxSymbol::Memory { space: StateSpace::Global, address },
        }
    }
}

/// Returns true if a variable is of a texture, a sampler or a surface. Those that no kernel uses take no part.
pub(crate) fn is_opaque(variable: &PtxVariable) -> bool {
    matches!(variable.ty.as_str(), "texref" | "samplerref" | "surfref")
}

/// Names of module scope that are defined twice, or as two things. Declarations may be repeated.
pub(crate) fn repeated(ast: &PtxAst) -> Vec<PtxError> {
    let mut known: FxHashMap<&str, (&str, Option<TextPosition>)> = FxHashMap::default();
    let mut errors = Vec::new();
    for item in &ast.items {
        let (name, position, kind, defines) = match item {
            ModuleItem::Variable(each) => {
                (&each.name, each.position, "variable", each.linkage != Some(SymbolLinkage::Extern))
            }
            ModuleItem::Function(each) => {
                (&each.name, each.position, if each.entry { "kernel" } else { "function" }, each.body.is_some())
            }
            _ => continue,
        };
        let (first_kind, defined) = known.entry(name).or_insert((kind, None));
        if *first_kind != kind {
            errors.push(PtxError::new(position, format!("`{name}` is a {first_kind} and a {kind}")));
        } else if let Some(first) = defined.filter(|_| defines) {
            errors.push(PtxError::new(position, format!("the {kind} `{name}` is defined twice, first at {first}")));
        } else if let Some(first) = defined.filter(|_| kind != "variable") {
            errors.push(PtxError::new(
                position,
                format!("the {kind} `{name}` is declared after its definition at {first}"),
            ));
        }
        *defined = defined.or(defines.then_some(position));
    }
    errors.truncate(MAX_ERRORS);
    errors
}

/// Arrays of no elements, among variables that are defined and parameters of kernels.
pub(crate) fn incomplete(ast: &PtxAst) -> Vec<PtxError> {
    let is_empty = |variable: &PtxVariable| {
        let is_open = matches!(variable.extents.first(), Some(None)) && variable.initial.is_none();
        is_open || variable.extents.contains(&Some(0))
    };
    let mut errors = Vec::new();
    let mut check = |variable: &PtxVariable| {
        if is_empty(variable) && variable.linkage != Some(SymbolLinkage::Extern) {
            errors.push(PtxError::new(variable.position, format!("`{}` is an array of no elements", variable.name)));
        }
    };
    for item in &ast.items {
        match item {
            ModuleItem::Variable(variable) => check(variable),
            ModuleItem::Function(function) => {
                if function.entry {
                    function.parameters.iter().for_each(&mut check);
                }
                declared(function.body.as_deref().unwrap_or(&[]), &mut |variable| check(variable));
            }
            _ => {}
        }
    }
    errors.truncate(MAX_ERRORS);
    errors
}

/// Visits the variables that a body declares.
pub(crate) fn declared<'a>(body: &'a [Statement], visit: &mut impl FnMut(&'a PtxVariable)) {
    for statement in body {
        match statement {
            Statement::Variable(variable) => visit(variable),
            Statement::Block(inner) => declared(inner, visit),
            _ => {}
        }
    }
}

/// Bytes of a variable and its alignment. An extent that is left open is the initial value's, or zero.
pub(crate) fn variable_size(variable: &PtxVariable) -> Decoded<(u32, u32)> {
    let fail = |message: String| PtxError::new(variable.position, message);
    let ty = PtxType::parse(&variable.ty).ok_or_else(|| fail(format!("`.{}` is no type", variable.ty)))?;
    let element = ty.bytes() * variable.lanes;
    let mut size = u64::from(element);
    for extent in &variable.extents {
        let given = match &variable.initial {
            Some(InitialValue::List(all)) => all.len() as u64,
            _ => 0,
        };
        size = size
            .checked_mul(extent.unwrap_or(given))
            .filter(|size| *size < 1 << 31)
            .ok_or_else(|| fail(format!("`{}` is larger than 2 GiB", variable.name)))?;
    }
    let align = variable.align.unwrap_or(element).max(1);
    if !align.is_power_of_two() {
        return Err(fail(format!("an alignment is a power of two, not {align}")));
    }
    Ok((size as u32, align))
}

/// Says where variables lie: offset, size and alignment of each, and the end.
type Layout = (Vec<(u32, u32, u32)>, u32);

/// Lays variables out one after the other, from `start`.
pub(crate) fn layout<'a>(start: u32, variables: impl Iterator<Item = &'a PtxVariable>) -> Decoded<Layout> {
    let mut end = start;
    let mut all = Vec::new();
    for variable in variables {
        let (size, align) = variable_size(variable)?;
        let placed = end.checked_next_multiple_of(align).and_then(|start| Some((start, start.checked_add(size)?)));
        let (start, next) = placed.ok_or_else(|| PtxError::new(variable.position, "variables of more than 4 GiB"))?;
        all.push((start, size, align));
        end = next;
    }
    Ok((all, end))
}
