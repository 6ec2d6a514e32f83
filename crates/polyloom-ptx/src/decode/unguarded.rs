//! Whether what a shuffle gives is used whichever lane it is of. From a lane that has exited comes nothing that is defined,
//! which programs may read as long as they throw it away: a reduction of part of a warp chooses, for each lane, between
//! the sum and what it had.
//!
//! Looked at are the instructions that follow until control divides or meets. What is read there under a predicate or by
//! `selp` counts as chosen; what is stored, given to other lanes or carried around a loop does not.

use super::function::{FunctionDecoder, operand_names};
use crate::syntax::ast::{PtxInstruction, PtxOperand, Statement};

/// Instructions whose first operand is no register that they write.
const WRITE_NOTHING: &[&str] =
    &["st", "red", "sust", "sured", "bar", "barrier", "bra", "brx", "call", "ret", "exit", "cp", "mbarrier"];
/// Those after which a value has got out: to memory, or to other lanes.
const SINKS: &[&str] = &["st", "red", "sust", "sured", "atom", "ld", "suld", "tex", "shfl", "redux", "call"];

/// Number of statements that are looked at, so that what comes later is let pass.
const LOOKED_AT: usize = 256;

impl FunctionDecoder<'_> {
    /// Returns true if the registers that `written` names are used for all lanes in what follows the present
    /// instruction.
    pub(super) fn is_unguarded(&self, written: &PtxOperand) -> bool {
        // By name, and whether it is more than a copy.
        let mut undefined: Vec<(&str, bool)> = Vec::new();
        let destination = if let PtxOperand::Pair(value, _) = written { value } else { written };
        operand_names(destination, &mut |name| undefined.push((name, false)));
        for statement in self.rest.iter().take(LOOKED_AT) {
            let instruction = match statement {
                Statement::Instruction(instruction) => instruction,
                Statement::Location(_) | Statement::Variable(_) | Statement::Pragma(_) => continue,
                _ => return false,
            };
            let opcode = instruction.opcode.as_str();
            let (writes, reads) = names(instruction);
            let found: Vec<(&str, bool)> = undefined.iter().copied().filter(|(name, _)| reads.contains(name)).collect();
            let chosen = instruction.guard.is_some() || matches!(opcode, "selp" | "slct");
            if !found.is_empty() && !chosen && SINKS.contains(&opcode) {
                return true;
            }
            if opcode == "bra" {
                let label = reads.first().copied().unwrap_or_default();
                let is_loop = self.scopes.iter().any(|scope| scope.labels.contains_key(label));
                return is_loop && undefined.iter().any(|(_, derived)| *derived);
            }
            if matches!(opcode, "brx" | "ret" | "exit" | "trap") {
                return false;
            }
            if chosen {
                undefined.retain(|(name, _)| !reads.contains(name));
            } else {
                undefined.retain(|(name, _)| !writes.contains(name));
                // A predicate is combined with others before it chooses anything.
                if !found.is_empty() && !matches!(opcode, "setp" | "set") {
                    let derived = opcode != "mov" || found.iter().any(|(_, derived)| *derived);
                    undefined.extend(writes.into_iter().map(|name| (name, derived)));
                }
            }
            if undefined.is_empty() {
                return false;
            }
        }
        false
    }
}

/// The names that an instruction writes, and those that it reads.
fn names(instruction: &PtxInstruction) -> (Vec<&str>, Vec<&str>) {
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let first_is_read = WRITE_NOTHING.contains(&instruction.opcode.as_str());
    for (index, operand) in instruction.operands.iter().enumerate() {
        let into = if index == 0 && !first_is_read { &mut writes } else { &mut reads };
        operand_names(operand, &mut |name| into.push(name));
    }
    (writes, reads)
}
