//! How many registers a function needs, about: the most that hold values at once.
//!
//! PTX has as many registers as it likes, and what a GPU's assembler makes of them is its own affair. Values that are
//! needed later have to be somewhere, though, so this is what it starts from. Liveness by blocks of instructions,
//! backwards until nothing changes.

use crate::syntax::ast::{PtxInstruction, PtxOperand, PtxVariable, StateSpace, Statement};
use rustc_hash::FxHashMap;

/// Functions whose blocks times registers are more are not looked at, because the tables would take too long.
const MAX_TABLE: usize = 1 << 24;

/// The registers of a body by name, each with how many 32-bit registers it takes.
#[derive(Default)]
struct RegisterNames<'a> {
    families: FxHashMap<&'a str, u32>,
    known: FxHashMap<&'a str, usize>,
    widths: Vec<u32>,
}

impl<'a> RegisterNames<'a> {
    fn declare(&mut self, variable: &'a PtxVariable) {
        let width = match variable.ty.as_str() {
            "pred" => 0,
            "b64" | "u64" | "s64" | "f64" | "f32x2" => 2,
            "b128" => 4,
            _ => 1,
        };
        self.families.insert(&variable.name, width * variable.lanes);
    }

    fn of(&mut self, name: &'a str) -> Option<usize> {
        if let Some(&known) = self.known.get(name) {
            return Some(known);
        }
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let width = *self.families.get(name).or_else(|| self.families.get(family))?;
        self.widths.push(width);
        self.known.insert(name, self.widths.len() - 1);
        Some(self.widths.len() - 1)
    }

    fn visit(&mut self, operand: &'a PtxOperand, found: &mut Vec<usize>) {
        match operand {
            PtxOperand::Name(name) | PtxOperand::Component(name, _) | PtxOperand::Offset(name, _) => {
                found.extend(self.of(name))
            }
            PtxOperand::Vector(all) | PtxOperand::List(all) => all.iter().for_each(|each| self.visit(each, found)),
            PtxOperand::Pair(a, b) => {
                self.visit(a, found);
                self.visit(b, found);
            }
            PtxOperand::Not(inner) | PtxOperand::Negative(inner) => self.visit(inner, found),
            PtxOperand::Address { base, more, .. } => {
                self.visit(base, found);
                more.iter().for_each(|each| self.visit(each, found));
            }
            PtxOperand::Element { index, .. } => found.extend(index.as_ref().and_then(|name| self.of(name))),
            PtxOperand::Integer(_) | PtxOperand::Float(_) => {}
        }
    }
}

/// One instruction: what it reads, what it writes.
struct PressureStep {
    reads: Vec<usize>,
    writes: Vec<usize>,
    /// True if it loads a parameter, which instructions may read from where it is.
    is_parameter: bool,
}

/// Instructions of which all run if the first does, and the blocks that may come next.
#[derive(Default)]
struct PressureBlock {
    steps: Vec<PressureStep>,
    next: Vec<usize>,
}

/// The most 32-bit registers of a body that hold values at once; `None` if it is too long to tell.
pub(super) fn pressure(body: &[Statement]) -> Option<u32> {
    let mut names = RegisterNames::default();
    let mut flat = Vec::new();
    flatten(body, &mut names, &mut flat);
    let blocks = blocks(&flat, &mut names);
    forget_parameters(&blocks, &mut names);
    let words = names.widths.len().div_ceil(64);
    if blocks.len().saturating_mul(words) > MAX_TABLE {
        return None;
    }
    // Registers needed where a block begins.
    let mut needed = vec![vec![0u64; words]; blocks.len()];
    let mut live = vec![0u64; words];
    let mut most = 0;
    let mut changed = true;
    while changed {
        changed = false;
        most = 0;
        for (index, block) in blocks.iter().enumerate().rev() {
            live.fill(0);
            for &next in &block.next {
                live.iter_mut().zip(&needed[next]).for_each(|(live, needed)| *live |= needed);
            }
            let weigh = |live: &[u64]| -> u32 {
                let bits = live.iter().enumerate().flat_map(|(word, &bits)| ones(bits).map(move |at| word * 64 + at));
                bits.map(|register| names.widths[register]).sum()
            };
            let mut weight = weigh(&live);
            most = most.max(weight);
            for step in block.steps.iter().rev() {
                for &register in &step.writes {
                    let bit = 1 << (register % 64);
                    weight -= if live[register / 64] & bit == 0 { 0 } else { names.widths[register] };
                    live[register / 64] &= !bit;
                }
                for &register in &step.reads {
                    let bit = 1 << (register % 64);
                    weight += if live[register / 64] & bit == 0 { names.widths[register] } else { 0 };
                    live[register / 64] |= bit;
                }
                most = most.max(weight);
            }
            if needed[index] != live {
                needed[index].copy_from_slice(&live);
                changed = true;
            }
        }
    }
    Some(most)
}

/// Registers that hold nothing but parameters take no room.
fn forget_parameters(blocks: &[PressureBlock], names: &mut RegisterNames<'_>) {
    let mut computed = vec![false; names.widths.len()];
    for step in blocks.iter().flat_map(|block| &block.steps).filter(|step| !step.is_parameter) {
        step.writes.iter().for_each(|&register| computed[register] = true);
    }
    names.widths.iter_mut().zip(computed).filter(|(_, computed)| !computed).for_each(|(width, _)| *width = 0);
}

/// The places of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            at
        })
    })
}

fn flatten<'a>(body: &'a [Statement], names: &mut RegisterNames<'a>, flat: &mut Vec<&'a Statement>) {
    for statement in body {
        match statement {
            Statement::Block(inner) => flatten(inner, names, flat),
            Statement::Variable(variable) if variable.space == StateSpace::Reg => names.declare(variable),
            Statement::Label(..) | Statement::Instruction(_) | Statement::Targets { .. } => flat.push(statement),
            _ => {}
        }
    }
}

fn blocks<'a>(flat: &[&'a Statement], names: &mut RegisterNames<'a>) -> Vec<PressureBlock> {
    let mut labels: FxHashMap<&str, usize> = FxHashMap::default();
    let mut targets: FxHashMap<&str, &[String]> = FxHashMap::default();
    let mut blocks = vec![PressureBlock::default()];
    let mut jumps: Vec<(usize, &str)> = Vec::new();
    for statement in flat {
        let open = blocks.len() - 1;
        match statement {
            Statement::Label(name, _) => {
                if !blocks[open].steps.is_empty() || open == 0 {
                    blocks[open].next.push(open + 1);
                    blocks.push(PressureBlock::default());
                }
                labels.insert(name, blocks.len() - 1);
            }
            Statement::Targets { name, targets: to, .. } => {
                targets.insert(name, to);
            }
            Statement::Instruction(instruction) => {
                blocks[open].steps.push(step(instruction, names));
                let ends = matches!(instruction.opcode.as_str(), "bra" | "brx" | "ret" | "exit");
                if !ends {
                    continue;
                }
                jumps.extend(instruction.operands.iter().filter_map(|operand| match operand {
                    PtxOperand::Name(name) if !matches!(instruction.opcode.as_str(), "ret" | "exit") => {
                        Some((open, name.as_str()))
                    }
                    _ => None,
                }));
                if instruction.guard.is_some() {
                    blocks[open].next.push(open + 1);
                }
                blocks.push(PressureBlock::default());
            }
            _ => {}
        }
    }
    for (from, name) in jumps {
        let listed = targets.get(name).copied().unwrap_or_default().iter().map(String::as_str);
        let to = std::iter::once(name).chain(listed).filter_map(|label| labels.get(label).copied());
        let to: Vec<usize> = to.collect();
        blocks[from].next.extend(to);
    }
    blocks
}

fn step<'a>(instruction: &'a PtxInstruction, names: &mut RegisterNames<'a>) -> PressureStep {
    let has = |modifier: &str| instruction.modifiers.iter().any(|each| each == modifier);
    let is_parameter = instruction.opcode == "ld" && has("param");
    let mut step = PressureStep { reads: Vec::new(), writes: Vec::new(), is_parameter };
    let writes = match instruction.opcode.as_str() {
        "st" | "red" | "bra" | "brx" | "ret" | "exit" | "membar" | "fence" | "cp" | "nanosleep" | "prefetch"
        | "stmatrix" | "call" => false,
        "bar" | "barrier" => has("red"),
        _ => true,
    };
    for (index, operand) in instruction.operands.iter().enumerate() {
        let is_address = matches!(operand, PtxOperand::Address { .. } | PtxOperand::Element { .. });
        let to = if index == 0 && writes && !is_address { &mut step.writes } else { &mut step.reads };
        names.visit(operand, to);
    }
    if instruction.opcode == "wgmma" {
        // The product is added to what the registers of the result hold.
        step.reads.extend_from_slice(&step.writes);
    }
    if let Some((_, guard)) = &instruction.guard {
        step.reads.extend(names.of(guard));
        // Results of a guarded instruction count as read, because the old value stays where the guard is false.
        step.reads.extend_from_slice(&step.writes);
    }
    step
}
