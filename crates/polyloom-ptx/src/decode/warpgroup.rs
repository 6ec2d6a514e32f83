//! Products of a warp group: `wgmma` (PTX ISA 9.0 §9.7.15).
//!
//! Each warp of the group multiplies sixteen rows by all columns, so that warps need not wait for each other here.
//! Products are added as those of `mma` are.

use super::function::FunctionDecoder;
use super::op::{DecodedOp, FactorSource, WarpGroupProduct};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::syntax::ast::PtxOperand;

/// Columns of a shape `m64nNkK`, and what is summed over.
fn shape(name: &str) -> Option<(u32, u32)> {
    let (n, k) = name.strip_prefix("m64n")?.split_once('k')?;
    Some((n.parse().ok()?, k.parse().ok()?))
}

/// The k of a product of elements of these types, if there is one with such a result.
fn depth(result: PtxType, factors: [PtxType; 2]) -> Option<u32> {
    match (result, factors) {
        (PtxType::F16 | PtxType::F32, [PtxType::F16, PtxType::F16])
        | (PtxType::F32, [PtxType::Bf16, PtxType::Bf16]) => Some(16),
        (PtxType::F32, [PtxType::Tf32, PtxType::Tf32]) => Some(8),
        (PtxType::F16 | PtxType::F32, [PtxType::E4m3 | PtxType::E5m2, PtxType::E4m3 | PtxType::E5m2])
        | (PtxType::S(32), [PtxType::S(8) | PtxType::U(8), PtxType::S(8) | PtxType::U(8)]) => Some(32),
        (PtxType::S(32), [PtxType::B1, PtxType::B1]) => Some(256),
        _ => None,
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn warp_group(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let kind = line.mods.need_of(&[("fence", 0), ("commit_group", 1), ("wait_group", 2), ("mma_async", 3)])?;
        if line.mods.take("sp") {
            return line.error("the simulator has no `.sp` for `wgmma`");
        }
        if !(line.mods.take("sync") && line.mods.take("aligned")) {
            return line.error("`wgmma` needs `.sync.aligned`");
        }
        // A product is done when it begins.
        if kind < 3 {
            let count = usize::from(kind == 2);
            line.check(count, count)?;
            return Ok((DecodedOp::Nothing, InstClass::Matrix));
        }
        let name = line.instruction.modifiers.iter().find(|name| shape(name).is_some());
        let Some((name, (n, k))) = name.and_then(|name| Some((name, shape(name)?))) else {
            return line.error("`wgmma.mma_async` needs a shape such as `.m64n128k16`");
        };
        line.mods.take(name);
        let types = [line.mods.ty()?, line.mods.ty()?, line.mods.ty()?];
        let [result, a_type, b_type] = types;
        let has_bits = a_type == PtxType::B1;
        let counts_bits = has_bits && line.mods.take("and") && line.mods.take("popc");
        let is_whole = result == PtxType::S(32);
        let saturates = is_whole && !has_bits && line.mods.take("satfinite");
        // Integers have eight columns, and then multiples of sixteen.
        let fits = (8..=256).contains(&n) && n % 8 == 0 && (!is_whole || n <= 24 || n % 16 == 0);
        if depth(result, [a_type, b_type]) != Some(k) || !fits || has_bits != counts_bits {
            let name = line.instruction.modifiers.join(".");
            return line.error(format!("`wgmma.{name}` has no such shape and types"));
        }
        // Halves may lie the other way round, and floats be negated.
        let lies_either_way = matches!(a_type, PtxType::F16 | PtxType::Bf16);
        let all = &line.instruction.operands;
        let in_registers = matches!(all.get(1), Some(PtxOperand::Vector(_)));
        let n_ways = match (lies_either_way, in_registers) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        let count = 4 + if is_whole { 0 } else { 2 + n_ways };
        line.check(count, count)?;
        let constant = |at: usize, allowed: [u64; 2]| match all[at] {
            PtxOperand::Integer(value) if allowed.contains(&value) => Ok(value),
            _ => line.error(format!("operand {} is one of {} and {}", at + 1, allowed[0] as i64, allowed[1] as i64)),
        };
        let (minus, one) = (u64::MAX, 1);
        let (mut negates, mut transposes) = ([false; 2], [false; 2]);
        if !is_whole {
            negates = [constant(4, [minus, one])? == minus, constant(5, [minus, one])? == minus];
            match n_ways {
                1 => transposes[1] = constant(6, [0, 1])? == 1,
                2 => transposes = [constant(6, [0, 1])? == 1, constant(7, [0, 1])? == 1],
                _ => {}
            }
        }
        let sums = self.elements(&all[0]);
        let a_word = if result == PtxType::F16 { 4 } else { 2 };
        if sums.len() as u32 != n / a_word {
            return line.error(format!("the result has {} registers, not {}", n / a_word, sums.len()));
        }
        let sources = sums.iter().map(|each| self.any_source(each, PtxType::B(32))).collect::<Decoded<_>>()?;
        let sums = sums.iter().map(|each| self.destination(each, 32)).collect::<Decoded<_>>()?;
        let a = if in_registers {
            let words = self.elements(&all[1]);
            if words.len() != 4 {
                return line.error(format!("rows of A are in 4 registers, not {}", words.len()));
            }
            let words = words.iter().map(|each| self.any_source(each, PtxType::B(32))).collect::<Decoded<_>>()?;
            FactorSource::Registers(words)
        } else {
            FactorSource::Shared(self.source(&all[1], PtxType::B(64))?)
        };
        let b = self.source(&all[2], PtxType::B(64))?;
        let accumulates = self.test(&all[3])?;
        let product =
            WarpGroupProduct { n, k, types, saturates, sums, sources, a, b, accumulates, negates, transposes };
        Ok((DecodedOp::WarpGroupProduct(Box::new(product)), InstClass::Matrix))
    }
}
