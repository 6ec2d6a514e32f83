//! `cp.async` and `mbarrier` (PTX ISA 9.0 §9.7.9.25 and §9.7.13.15).

use super::address::{take_scope, take_space};
use super::function::FunctionDecoder;
use super::op::{AsyncCopy, DecodedOp, DestRegister, MBarrier, MBarrierKind};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::SourceOperand;
use crate::syntax::ast::{PtxOperand, StateSpace};

impl FunctionDecoder<'_> {
    pub(super) fn copy(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        if line.instruction.opcode == "mbarrier" {
            return Ok((self.mbarrier(line)?, InstClass::Barrier));
        }
        let all = &line.instruction.operands;
        if line.instruction.modifiers.starts_with(&["async", "mbarrier", "arrive"].map(str::to_owned)) {
            return self.arrive_after_copies(line);
        }
        let named = |name: &str| line.instruction.modifiers.iter().any(|each| each == name);
        if named("bulk") {
            return match named("tensor") {
                true => self.tensor(line),
                false => self.bulk(line),
            };
        }
        if !line.mods.take("async")
            || line.instruction.modifiers.iter().any(|name| name == "bulk" || name == "mbarrier")
        {
            let name: Vec<&str> = line.instruction.modifiers.iter().map(String::as_str).collect();
            return line.error(format!("the simulator has no instruction `cp.{}`", name.join(".")));
        }
        if line.mods.take("commit_group") {
            line.check(0, 0)?;
            return Ok((DecodedOp::AsyncCommit, InstClass::AsyncCopy));
        }
        if line.mods.take("wait_all") {
            line.check(0, 0)?;
            return Ok((DecodedOp::AsyncWait(None), InstClass::AsyncCopy));
        }
        if line.mods.take("wait_group") {
            line.check(1, 1)?;
            let PtxOperand::Integer(count) = all[0] else { return line.error("`wait_group` needs a constant") };
            return Ok((DecodedOp::AsyncWait(Some(u32::try_from(count).unwrap_or(u32::MAX))), InstClass::AsyncCopy));
        }
        let bypass = line.mods.need_of(&[("ca", false), ("cg", true)])?;
        let to_space = take_space(&mut line.mods);
        let from_space = take_space(&mut line.mods);
        let policy = line.mods.take("L2::cache_hint");
        line.mods.take_of(&[("L2::64B", ()), ("L2::128B", ()), ("L2::256B", ())]);
        line.check(3, 4 + usize::from(policy))?;
        if to_space != Some(StateSpace::Shared) || from_space != Some(StateSpace::Global) {
            return line.error("`cp.async` copies from `.global` to `.shared`");
        }
        let (to, to_space) = self.address(line, &all[0], to_space)?;
        let (from, _) = self.address(line, &all[1], from_space)?;
        let size = match all[2] {
            PtxOperand::Integer(size @ (4 | 8 | 16)) if !bypass || size == 16 => size as u32,
            _ => return line.error("`cp.async` copies 4, 8 or 16 bytes, with `.cg` 16"),
        };
        let (mut source_size, mut ignore) = (None, None);
        if let Some(operand) = all.get(3)
            && !(policy && all.len() == 4)
        {
            if let Ok(test) = self.test(operand)
                && !matches!(operand, PtxOperand::Integer(_))
            {
                ignore = Some(test);
            } else {
                source_size = Some(self.source(operand, PtxType::U(32))?);
            }
        }
        Ok((
            DecodedOp::AsyncCopy(Box::new(AsyncCopy { to, to_space, from, size, source_size, ignore })),
            InstClass::AsyncCopy,
        ))
    }

    /// `cp.async.mbarrier.arrive`
    fn arrive_after_copies(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let counts = line.mods.take("noinc");
        for name in ["async", "mbarrier", "arrive"] {
            line.mods.take(name);
        }
        let space = take_space(&mut line.mods);
        line.mods.ty()?;
        line.check(1, 1)?;
        let (address, space) = self.address(line, &line.instruction.operands[0], space)?;
        let kind = MBarrierKind::ArriveAfterCopies { counts };
        Ok((DecodedOp::MBarrier(Box::new(MBarrier { address, space, kind })), InstClass::Barrier))
    }

    fn mbarrier(&mut self, line: &mut InstructionLine<'_>) -> Decoded<DecodedOp> {
        const KINDS: &[(&str, &str)] = &[
            ("init", "init"),
            ("inval", "inval"),
            ("arrive", "arrive"),
            ("arrive_drop", "arrive_drop"),
            ("expect_tx", "expect_tx"),
            ("complete_tx", "complete_tx"),
            ("test_wait", "test_wait"),
            ("try_wait", "try_wait"),
            ("pending_count", "pending_count"),
        ];
        let kind = line.mods.need_of(KINDS)?;
        let expects = kind.starts_with("arrive") && line.mods.take("expect_tx");
        let parity = line.mods.take("parity");
        let arrives = kind.starts_with("arrive");
        let partial = arrives && !expects && line.mods.take("noComplete");
        // Waits acquire and arrivals release, unless they are relaxed.
        let orders = line.mods.take(match kind {
            "test_wait" | "try_wait" => "acquire",
            _ if arrives => "release",
            _ => "relaxed",
        }) || arrives && !partial && line.mods.take("relaxed")
            || kind.ends_with("_wait") && line.mods.take("relaxed");
        if orders && take_scope(&mut line.mods).is_none() {
            return line.error("an order of `mbarrier` needs a scope");
        }
        let space = take_space(&mut line.mods);
        let ty = line.mods.ty()?;
        if ty.bits() != 64 {
            return line.mods.no_type(ty);
        }
        let all = &line.instruction.operands;
        line.check(1, 4)?;
        if kind == "pending_count" && space.is_none() {
            line.check(2, 2)?;
            let destination = self.destination(&all[0], 32)?;
            let state = self.any_source(&all[1], PtxType::B(64))?;
            return Ok(pending_count(destination, state));
        }
        let at = all.iter().position(|operand| matches!(operand, PtxOperand::Address { .. }));
        let Some(at) = at else { return line.error("`mbarrier` needs an address") };
        let (address, space) = self.address(line, &all[at], space)?;
        let after = all.get(at + 1);
        if arrives && at != 1 || (partial || expects) && after.is_none() || kind == "inval" && after.is_some() {
            return line.error(format!("`mbarrier.{kind}` has an operand too many or too few"));
        }
        let number = |this: &mut Self, operand: Option<&PtxOperand>, default: u32| match operand {
            Some(operand) => this.source::<u32>(operand, PtxType::U(32)),
            None => Ok(SourceOperand::constant(default)),
        };
        let kind = match kind {
            "init" => MBarrierKind::Init(number(self, after, 0)?),
            "inval" => MBarrierKind::Invalidate,
            "expect_tx" => MBarrierKind::ExpectBytes(number(self, after, 0)?),
            "complete_tx" => MBarrierKind::CompleteBytes(number(self, after, 0)?),
            "arrive" | "arrive_drop" => {
                let state = if at == 1 { self.destination(&all[0], 64)? } else { DestRegister::Sink };
                let drop = kind == "arrive_drop";
                if expects {
                    let expected = Some(number(self, after, 0)?);
                    MBarrierKind::Arrive { state, count: SourceOperand::constant(1), expected, drop }
                } else {
                    MBarrierKind::Arrive { state, count: number(self, after, 1)?, expected: None, drop }
                }
            }
            _ => {
                let (Some(done), Some(state)) = (self.predicate_slot(&all[0])?, after) else {
                    return line.error("a wait writes a predicate and needs a state or parity");
                };
                let state = self.any_source(state, if parity { PtxType::B(32) } else { PtxType::B(64) })?;
                MBarrierKind::Test { done, state, parity }
            }
        };
        Ok(DecodedOp::MBarrier(Box::new(MBarrier { address, space, kind })))
    }
}

/// The pending count lies in a state as it does in the barrier.
fn pending_count(destination: DestRegister, state: super::op::AnySource) -> DecodedOp {
    use super::op::AnySource;
    use crate::exec::registers::map1;
    let (DestRegister::Word(slot, _), AnySource::Double(state)) = (destination, state) else {
        return DecodedOp::Nothing;
    };
    DecodedOp::Compute(map1(Some(slot), state, |state: u64| crate::exec::mbarrier::pending(state)))
}
