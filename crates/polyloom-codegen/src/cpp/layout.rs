//! Where the instructions of a function stand: places in order of the text, and which region each is in.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use polyloom_ir::{Function, Inst, Op, Region, Value, ValueDef};

/// Places are numbered in order of the text. An instruction has one where it starts and, if it owns regions, one where
/// it ends; a region has one where it starts.
pub(super) struct TextLayout {
    insts: SecondaryMap<Inst, InstPlace>,
    regions: SecondaryMap<Region, RegionPlace>,
    n_places: u32,
}

#[derive(Clone, Copy, Default)]
struct InstPlace {
    start: u32,
    end: u32,
    region: PackedOption<Region>,
}

#[derive(Clone, Copy, Default)]
struct RegionPlace {
    start: u32,
    depth: u32,
    owner: PackedOption<Inst>,
}

impl TextLayout {
    pub(super) fn new(func: &Function) -> TextLayout {
        let mut layout = TextLayout {
            insts: SecondaryMap::with_capacity(func.insts.len()),
            regions: SecondaryMap::with_capacity(func.regions.len()),
            n_places: 0,
        };
        layout.add(func, func.body, 0, None);
        layout
    }

    fn add(&mut self, func: &Function, region: Region, depth: u32, owner: Option<Inst>) {
        self.regions[region] = RegionPlace { start: self.next(), depth, owner: owner.into() };
        for &inst in &func.regions[region].insts {
            let start = self.next();
            for &inner in &func.insts[inst].regions {
                self.add(func, inner, depth + 1, Some(inst));
            }
            let end = if func.insts[inst].regions.is_empty() { start } else { self.next() };
            self.insts[inst] = InstPlace { start, end, region: Some(region).into() };
        }
    }

    fn next(&mut self) -> u32 {
        self.n_places += 1;
        self.n_places
    }

    pub(super) fn n_places(&self) -> u32 {
        self.n_places
    }

    pub(super) fn start(&self, inst: Inst) -> u32 {
        self.insts[inst].start
    }

    pub(super) fn end(&self, inst: Inst) -> u32 {
        self.insts[inst].end
    }

    /// The region an instruction stands in.
    pub(super) fn region(&self, inst: Inst) -> Option<Region> {
        self.insts[inst].region.expand()
    }

    /// The instruction that owns a region; none for a function's body.
    pub(super) fn owner(&self, region: Region) -> Option<Inst> {
        self.regions[region].owner.expand()
    }

    /// The instruction in whose region another stands.
    pub(super) fn owner_of(&self, inst: Inst) -> Option<Inst> {
        self.region(inst).and_then(|region| self.owner(region))
    }

    /// Returns where a value comes into being, and in which region.
    pub(super) fn definition(&self, func: &Function, value: Value) -> Option<(u32, Region)> {
        Some(match func.values[value].def {
            ValueDef::Param(region, _) => (self.regions[region].start, region),
            ValueDef::Result(inst, _) => (self.end(inst), self.region(inst)?),
        })
    }

    /// The region around an owned one.
    fn parent(&self, region: Region) -> Option<Region> {
        self.owner(region).and_then(|owner| self.region(owner))
    }

    pub(super) fn depth(&self, region: Region) -> u32 {
        self.regions[region].depth
    }

    /// The innermost region that holds both.
    pub(super) fn common(&self, mut a: Region, mut b: Region) -> Region {
        while a != b {
            let up = if self.depth(a) >= self.depth(b) { &mut a } else { &mut b };
            match self.parent(*up) {
                Some(parent) => *up = parent,
                None => return *up,
            }
        }
        a
    }

    /// The ancestor of `region`, or itself, that is directly in a region of `owner`'s.
    fn branch(&self, mut region: Region, owner: Inst) -> Option<Region> {
        loop {
            match self.owner(region) {
                Some(found) if found == owner => return Some(region),
                Some(found) => region = self.region(found)?,
                None => return None,
            }
        }
    }

    /// The instruction directly in `outer` that holds `region`, which is inside of `outer` and not it.
    pub(super) fn holder(&self, mut region: Region, outer: Region) -> Option<Inst> {
        loop {
            let owner = self.owner(region)?;
            let parent = self.region(owner)?;
            if parent == outer {
                return Some(owner);
            }
            region = parent;
        }
    }

    /// Returns true if two regions are or lie in different branches of one `if`.
    pub(super) fn exclude_each_other(&self, func: &Function, a: Region, b: Region) -> bool {
        let common = self.common(a, b);
        let (Some(holder_a), Some(holder_b)) = (self.holder(a, common), self.holder(b, common)) else { return false };
        holder_a == holder_b
            && func.insts[holder_a].op == Op::If
            && self.branch(a, holder_a) != self.branch(b, holder_a)
    }

    /// Returns true if what is declared in one region is there in the other, or the reverse, as the text has it,
    /// because the condition of a `while` may stand in its body.
    pub(super) fn share_scope(&self, func: &Function, a: Region, b: Region) -> bool {
        let common = self.common(a, b);
        match (self.holder(a, common), self.holder(b, common)) {
            _ if common == a || common == b => true,
            (Some(a), Some(b)) => a == b && func.insts[a].op == Op::While,
            _ => false,
        }
    }

    /// The loops around a region, from the innermost on.
    pub(super) fn loops<'a>(&'a self, func: &'a Function, region: Region) -> impl Iterator<Item = Inst> + 'a {
        let mut next = self.owner(region);
        std::iter::from_fn(move || {
            while let Some(owner) = next {
                next = self.owner_of(owner);
                if matches!(func.insts[owner].op, Op::ForRange | Op::While) {
                    return Some(owner);
                }
            }
            None
        })
    }

    /// Returns true if a place lies between the start and the end of an instruction.
    pub(super) fn contains(&self, inst: Inst, place: u32) -> bool {
        self.start(inst) < place && place < self.end(inst)
    }
}
