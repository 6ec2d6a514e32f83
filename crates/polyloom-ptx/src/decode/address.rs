//! State spaces, orders and addresses of memory operands.

use super::function::Decoder;
use super::modifiers::Modifiers;
use super::op::{Address, AddressBase, Class, Order, Scope};
use super::symbol::{File, Symbol};
use super::types::Type;
use super::{Decoded, Line};
use crate::memory::window;
use crate::syntax::ast::{Operand, Space};

const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("shared::cluster", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
    ("const", Space::Const),
];

const SCOPES: &[(&str, Scope)] =
    &[("cta", Scope::Block), ("cluster", Scope::Cluster), ("gpu", Scope::Device), ("sys", Scope::System)];

pub(super) fn take_space(mods: &mut Modifiers<'_>) -> Option<Space> {
    mods.take_of(SPACES)
}

pub(super) fn take_scope(mods: &mut Modifiers<'_>) -> Option<Scope> {
    mods.take_of(SCOPES)
}

/// Instructions that order memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ordered {
    Load,
    Store,
    Atomic,
    Reduction,
}

/// `.relaxed.gpu`, `.volatile` and the like, the space, and of loads and stores how they are cached, which has no effect
/// here.
pub(super) fn take_order(line: &mut Line<'_>, of: Ordered) -> Decoded<(Order, Option<Space>)> {
    const KINDS: &[(&str, (bool, bool, bool))] = &[
        ("weak", (false, false, false)),
        ("relaxed", (true, false, false)),
        ("acquire", (true, true, false)),
        ("release", (true, false, true)),
        ("acq_rel", (true, true, true)),
        ("volatile", (true, false, false)),
    ];
    let mapped = matches!(of, Ordered::Load | Ordered::Store) && line.mods.take("mmio");
    let name = line.mods.take_of(&KINDS.iter().map(|(name, _)| (*name, *name)).collect::<Vec<_>>());
    let scope = take_scope(&mut line.mods);
    let space = take_space(&mut line.mods);
    let updates = matches!(of, Ordered::Atomic | Ordered::Reduction);
    let known = matches!(
        (of, name),
        (_, None | Some("relaxed"))
            | (Ordered::Load, Some("weak" | "volatile" | "acquire"))
            | (Ordered::Store, Some("weak" | "volatile" | "release"))
            | (Ordered::Atomic, Some("acquire" | "release" | "acq_rel"))
            | (Ordered::Reduction, Some("release"))
    );
    let scoped = matches!(name, Some("relaxed" | "acquire" | "release"));
    if !known
        || !updates && scoped != scope.is_some()
        || mapped && (name, scope) != (Some("relaxed"), Some(Scope::System))
    {
        return line.error(format!("`{}` has no such order and scope", line.instruction.opcode));
    }
    let reaches = match space {
        None | Some(Space::Global) => true,
        Some(Space::Shared) => !mapped,
        Some(Space::Local) => !scoped && !updates,
        Some(_) => !scoped && !updates && name != Some("volatile"),
    };
    if !reaches {
        let (opcode, space) = (&line.instruction.opcode, space.map_or("", Space::name));
        return line.error(format!("`{opcode}` with such an order does not go to `.{space}`"));
    }
    if matches!(name, None | Some("weak")) && !updates {
        let caches: &[&str] =
            if of == Ordered::Load { &["ca", "cg", "cs", "lu", "cv"] } else { &["wb", "cg", "cs", "wt"] };
        caches.iter().for_each(|cache| _ = line.mods.take(cache));
        if of == Ordered::Load && name.is_none() && space == Some(Space::Global) {
            line.mods.take("nc");
        }
    }
    let kind = KINDS.iter().find(|(each, _)| Some(*each) == name).map(|(_, kind)| *kind);
    let (strong, acquire, release) = kind.unwrap_or((updates, false, false));
    Ok((Order { strong, acquire, release, scope: scope.unwrap_or(Scope::Device) }, space))
}

/// Hints of loads and stores to the caches, which have no effect here; whether one is an operand.
pub(super) fn take_cache_hints(line: &mut Line<'_>, of: Ordered, space: Option<Space>) -> Decoded<bool> {
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
    if of == Ordered::Load {
        second |= line.mods.take_of(PREFETCHES).is_some();
    }
    let policy = line.mods.take("L2::cache_hint");
    let named = |name: &str| line.instruction.modifiers.iter().any(|each| each == name);
    let kept_out = named("mmio") && (first || second) || named("volatile") && first;
    if kept_out || (first || second || policy) && !matches!(space, None | Some(Space::Global)) {
        return line.error("hints to caches are for global memory, with neither `.volatile` nor `.mmio`");
    }
    Ok(policy)
}

impl Decoder<'_> {
    /// An address operand in `space` (generic if none), and the space it turns out to be in.
    pub(super) fn address(
        &mut self,
        line: &Line<'_>,
        operand: &Operand,
        space: Option<Space>,
    ) -> Decoded<(Address, Option<Space>)> {
        if let Operand::Element { array, index, offset } = operand
            && matches!(line.instruction.opcode.as_str(), "ld" | "ldu" | "st")
        {
            return self.element(line, (array, index.as_deref(), *offset), space);
        }
        let Operand::Address { base, offset, more } = operand else {
            return line.error(format!("`{operand}` is no address"));
        };
        if !more.is_empty() {
            return line.error("the simulator has no tensor addresses");
        }
        let offset = *offset;
        let constant = |value: u64| Address { base: AddressBase::Nothing, offset: (value as i64).wrapping_add(offset) };
        match &**base {
            Operand::Integer(value) => Ok((constant(*value), space)),
            Operand::Name(name) => match self.find(name) {
                Some(Symbol::Register { file: File::Word, slot, ty }) if ty.bits() == 32 => {
                    Ok((Address { base: AddressBase::Word(slot), offset }, self.parameter_space(space)))
                }
                Some(Symbol::Register { file: File::Double, slot, .. }) => {
                    Ok((Address { base: AddressBase::Double(slot), offset }, self.parameter_space(space)))
                }
                Some(Symbol::Memory { space: found, address }) => {
                    if space.is_some_and(|space| space != found) {
                        let (space, found) = (space.map_or("", Space::name), found.name());
                        return line.error(format!("`{name}` is in `.{found}`, not in `.{space}`"));
                    }
                    Ok((constant(address), Some(space.unwrap_or(found))))
                }
                Some(Symbol::Frame { size, .. }) if u64::try_from(offset).map_or(true, |at| at >= size.into()) => {
                    line.error(format!("`{name}` has {size} bytes, byte {offset} is none of them"))
                }
                Some(Symbol::Frame { offset: place, .. }) => {
                    let offset = offset.wrapping_add(place.into());
                    Ok((Address { base: AddressBase::Frame, offset }, Some(Space::Local)))
                }
                Some(_) => line.error(format!("`{name}` is no address")),
                None => line.error(format!("`{name}` is not declared")),
            },
            other => line.error(format!("`{other}` is no address")),
        }
    }

    /// Parameters of functions lie in local memory, those of the kernel in a space of their own.
    fn parameter_space(&self, space: Option<Space>) -> Option<Space> {
        match space {
            Some(Space::Param) if self.current != 0 => Some(Space::Local),
            other => other,
        }
    }

    /// The window an address of `space` is moved to by `cvta`.
    pub(super) fn window_of(&self, space: Space) -> u64 {
        match self.parameter_space(Some(space)).unwrap_or(space) {
            Space::Const => self.globals.constants.start,
            space => window::base(space),
        }
    }
}

/// Returns how an access is counted.
pub(super) fn class(space: Option<Space>, store: bool) -> Class {
    match (space, store) {
        (None, _) => Class::Generic,
        (Some(Space::Shared), false) => Class::LoadShared,
        (Some(Space::Shared), true) => Class::StoreShared,
        (Some(Space::Local), false) => Class::LoadLocal,
        (Some(Space::Local), true) => Class::StoreLocal,
        (Some(Space::Param), _) => Class::LoadParameter,
        (Some(Space::Const), _) => Class::LoadConstant,
        (Some(_), false) => Class::LoadGlobal,
        (Some(_), true) => Class::StoreGlobal,
    }
}

/// Types that memory instructions move, by their bytes.
pub(super) fn memory_type(line: &Line<'_>, ty: Type) -> Decoded<u32> {
    match ty.bits() {
        8 | 16 | 32 | 64 | 128 => Ok(ty.bytes()),
        _ => line.mods.no_type(ty),
    }
}
