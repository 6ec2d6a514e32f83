//! State spaces, orders and addresses of memory operands.

use super::function::FunctionDecoder;
use super::modifiers::ModifierReader;
use super::op::{AccessAddress, AddressBase, InstClass, MemoryOrder, OrderScope};
use super::symbol::{PtxSymbol, RegisterFile};
use super::types::PtxType;
use super::{Decoded, InstructionLine};
use crate::memory::window;
use crate::syntax::ast::{PtxOperand, StateSpace};

const SPACES: &[(&str, StateSpace)] = &[
    ("global", StateSpace::Global),
    ("shared", StateSpace::Shared),
    ("shared::cta", StateSpace::Shared),
    ("shared::cluster", StateSpace::Shared),
    ("local", StateSpace::Local),
    ("param", StateSpace::Param),
    ("param::entry", StateSpace::Param),
    ("param::func", StateSpace::Param),
    ("const", StateSpace::Const),
];

const SCOPES: &[(&str, OrderScope)] = &[
    ("cta", OrderScope::Block),
    ("cluster", OrderScope::Cluster),
    ("gpu", OrderScope::Device),
    ("sys", OrderScope::System),
];

pub(super) fn take_space(mods: &mut ModifierReader<'_>) -> Option<StateSpace> {
    mods.take_of(SPACES)
}

pub(super) fn take_scope(mods: &mut ModifierReader<'_>) -> Option<OrderScope> {
    mods.take_of(SCOPES)
}

/// Instructions that order memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OrderedAccess {
    Load,
    Store,
    Atomic,
    Reduction,
}

/// `.relaxed.gpu`, `.volatile` and the like, the space, and of loads and stores how they are cached, which has no effect
/// here.
pub(super) fn take_order(
    line: &mut InstructionLine<'_>,
    of: OrderedAccess,
) -> Decoded<(MemoryOrder, Option<StateSpace>)> {
    const KINDS: &[(&str, (bool, bool, bool))] = &[
        ("weak", (false, false, false)),
        ("relaxed", (true, false, false)),
        ("acquire", (true, true, false)),
        ("release", (true, false, true)),
        ("acq_rel", (true, true, true)),
        ("volatile", (true, false, false)),
    ];
    let mapped = matches!(of, OrderedAccess::Load | OrderedAccess::Store) && line.mods.take("mmio");
    let name = line.mods.take_of(&KINDS.iter().map(|(name, _)| (*name, *name)).collect::<Vec<_>>());
    let scope = take_scope(&mut line.mods);
    let space = take_space(&mut line.mods);
    let updates = matches!(of, OrderedAccess::Atomic | OrderedAccess::Reduction);
    let known = matches!(
        (of, name),
        (_, None | Some("relaxed"))
            | (OrderedAccess::Load, Some("weak" | "volatile" | "acquire"))
            | (OrderedAccess::Store, Some("weak" | "volatile" | "release"))
            | (OrderedAccess::Atomic, Some("acquire" | "release" | "acq_rel"))
            | (OrderedAccess::Reduction, Some("release"))
    );
    let scoped = matches!(name, Some("relaxed" | "acquire" | "release"));
    if !known
        || !updates && scoped != scope.is_some()
        || mapped && (name, scope) != (Some("relaxed"), Some(OrderScope::System))
    {
        return line.error(format!("`{}` has no such order and scope", line.instruction.opcode));
    }
    let reaches = match space {
        None | Some(StateSpace::Global) => true,
        Some(StateSpace::Shared) => !mapped,
        Some(StateSpace::Local) => !scoped && !updates,
        Some(_) => !scoped && !updates && name != Some("volatile"),
    };
    if !reaches {
        let (opcode, space) = (&line.instruction.opcode, space.map_or("", StateSpace::name));
        return line.error(format!("`{opcode}` with such an order does not go to `.{space}`"));
    }
    if matches!(name, None | Some("weak")) && !updates {
        let caches: &[&str] =
            if of == OrderedAccess::Load { &["ca", "cg", "cs", "lu", "cv"] } else { &["wb", "cg", "cs", "wt"] };
        caches.iter().for_each(|cache| _ = line.mods.take(cache));
        if of == OrderedAccess::Load && name.is_none() && space == Some(StateSpace::Global) {
            line.mods.take("nc");
        }
    }
    let kind = KINDS.iter().find(|(each, _)| Some(*each) == name).map(|(_, kind)| *kind);
    let (strong, acquire, release) = kind.unwrap_or((updates, false, false));
    Ok((MemoryOrder { strong, acquire, release, scope: scope.unwrap_or(OrderScope::Device) }, space))
}

/// Hints of loads and stores to the caches, which have no effect here; whether one is an operand.
pub(super) fn take_cache_hints(
    line: &mut InstructionLine<'_>,
    of: OrderedAccess,
    space: Option<StateSpace>,
) -> Decoded<bool> {
    const PRIORITIES: &[(&str, ())] = &[
        ("L1::evict_normal", ()),
        ("L1::evict_unchanged", ()),
        ("L1::evict_first", ()),
        ("L1::evict_last", ()),
        ("L1::no_allocate", ()),
    ];
    const PREFETCHES: &[(&str, ())] = &[("L2::64B", ()), ("L2::128B", ()), ("L2::256B", ())];
    const SECOND: &[(&str, ())] = &[("L2::evict_normal", ()), ("L2::evict_first", ()), ("L2::evict_last", ())];
    line.mods.take("unified");
    let first = line.mods.take_of(PRIORITIES).is_some();
    let mut second = line.mods.take_of(SECOND).is_some();
    if of == OrderedAccess::Load {
        second |= line.mods.take_of(PREFETCHES).is_some();
    }
    let policy = line.mods.take("L2::cache_hint");
    let named = |name: &str| line.instruction.modifiers.iter().any(|each| each == name);
    let kept_out = named("mmio") && (first || second) || named("volatile") && first;
    if kept_out || (first || second || policy) && !matches!(space, None | Some(StateSpace::Global)) {
        return line.error("hints to caches are for global memory, with neither `.volatile` nor `.mmio`");
    }
    Ok(policy)
}

impl FunctionDecoder<'_> {
    /// An address operand in `space` (generic if none), and the space it turns out to be in.
    pub(super) fn address(
        &mut self,
        line: &InstructionLine<'_>,
        operand: &PtxOperand,
        space: Option<StateSpace>,
    ) -> Decoded<(AccessAddress, Option<StateSpace>)> {
        if let PtxOperand::Element { array, index, offset } = operand
            && matches!(line.instruction.opcode.as_str(), "ld" | "ldu" | "st")
        {
            return self.element(line, (array, index.as_deref(), *offset), space);
        }
        let PtxOperand::Address { base, offset, more } = operand else {
            return line.error(format!("`{operand}` is no address"));
        };
        if !more.is_empty() {
            return line.error("the simulator has no tensor addresses");
        }
        let offset = *offset;
        let constant =
            |value: u64| AccessAddress { base: AddressBase::Nothing, offset: (value as i64).wrapping_add(offset) };
        match &**base {
            PtxOperand::Integer(value) => Ok((constant(*value), space)),
            PtxOperand::Name(name) => match self.find(name) {
                Some(PtxSymbol::Register { file: RegisterFile::Word, slot, ty }) if ty.bits() == 32 => {
                    Ok((AccessAddress { base: AddressBase::Word(slot), offset }, self.parameter_space(space)))
                }
                Some(PtxSymbol::Register { file: RegisterFile::Double, slot, .. }) => {
                    Ok((AccessAddress { base: AddressBase::Double(slot), offset }, self.parameter_space(space)))
                }
                Some(PtxSymbol::Memory { space: found, address }) => {
                    if space.is_some_and(|space| space != found) {
                        let (space, found) = (space.map_or("", StateSpace::name), found.name());
                        return line.error(format!("`{name}` is in `.{found}`, not in `.{space}`"));
                    }
                    Ok((constant(address), Some(space.unwrap_or(found))))
                }
                Some(PtxSymbol::Frame { size, .. }) if u64::try_from(offset).map_or(true, |at| at >= size.into()) => {
                    line.error(format!("`{name}` has {size} bytes, byte {offset} is none of them"))
                }
                Some(PtxSymbol::Frame { offset: place, .. }) => {
                    let offset = offset.wrapping_add(place.into());
                    Ok((AccessAddress { base: AddressBase::Frame, offset }, Some(StateSpace::Local)))
                }
                Some(_) => line.error(format!("`{name}` is no address")),
                None => line.error(format!("`{name}` is not declared")),
            },
            other => line.error(format!("`{other}` is no address")),
        }
    }

    /// Parameters of functions lie in local memory, those of the kernel in a space of their own.
    fn parameter_space(&self, space: Option<StateSpace>) -> Option<StateSpace> {
        match space {
            Some(StateSpace::Param) if self.current != 0 => Some(StateSpace::Local),
            other => other,
        }
    }

    /// The window an address of `space` is moved to by `cvta`.
    pub(super) fn window_of(&self, space: StateSpace) -> u64 {
        match self.parameter_space(Some(space)).unwrap_or(space) {
            StateSpace::Const => self.globals.constants.start,
            space => window::base(space),
        }
    }
}

/// Returns how an access is counted.
pub(super) fn class(space: Option<StateSpace>, store: bool) -> InstClass {
    match (space, store) {
        (None, _) => InstClass::Generic,
        (Some(StateSpace::Shared), false) => InstClass::LoadShared,
        (Some(StateSpace::Shared), true) => InstClass::StoreShared,
        (Some(StateSpace::Local), false) => InstClass::LoadLocal,
        (Some(StateSpace::Local), true) => InstClass::StoreLocal,
        (Some(StateSpace::Param), _) => InstClass::LoadParameter,
        (Some(StateSpace::Const), _) => InstClass::LoadConstant,
        (Some(_), false) => InstClass::LoadGlobal,
        (Some(_), true) => InstClass::StoreGlobal,
    }
}

/// Types that memory instructions move, by their bytes.
pub(super) fn memory_type(line: &InstructionLine<'_>, ty: PtxType) -> Decoded<u32> {
    match ty.bits() {
        8 | 16 | 32 | 64 | 128 => Ok(ty.bytes()),
        _ => line.mods.no_type(ty),
    }
}
