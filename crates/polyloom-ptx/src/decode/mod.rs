//! From the syntax tree to a program: names resolved, types checked, branches made indices.
//!
//! Each group of instructions has a file, in which each instruction is one arm that says what it computes. What PTX
//! does not have, or the simulator does not, is an error with its place that names it.
//!
//! Design: `docs/design/ptx-simulator.md`.

mod address;
mod atomic;
mod bulk;
mod compare;
mod control;
mod convert;
mod copy;
mod element;
mod float;
pub(crate) mod function;
mod half;
mod integer;
mod logic;
mod matrix;
pub(crate) mod modifiers;
mod movement;
pub(crate) mod op;
mod operand;
mod packed;
mod pressure;
mod product;
mod special;
mod stack;
mod surface;
mod symbol;
mod sync;
mod tensor;
mod texture;
pub(crate) mod types;
mod unguarded;
mod video;
mod warp;
mod warpgroup;

use crate::error::PtxError;
use crate::syntax::ast::PtxInstruction;
use modifiers::ModifierReader;
use op::{DecodedOp, InstClass};
use types::PtxType;

pub(crate) use atomic::tensor_update;
pub(crate) use function::decode;
pub(crate) use product::element_bits;
pub(crate) use symbol::{GlobalAddresses, PtxSymbol, declared, incomplete, is_opaque, repeated, variable_size};

/// Forms of instructions that the simulator has in others, by a modifier that tells them.
const LACKING: &[(&str, &str)] = &[("st", "bulk"), ("ldmatrix", "m8n16")];

/// Describes what decoding one instruction gives.
pub(crate) type Decoded<T> = Result<T, PtxError>;

/// One instruction while it is decoded.
pub(crate) struct InstructionLine<'i> {
    pub(crate) instruction: &'i PtxInstruction,
    pub(crate) mods: ModifierReader<'i>,
}

impl InstructionLine<'_> {
    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Decoded<T> {
        Err(PtxError::new(self.instruction.position, message))
    }

    /// Between `least` and `most` operands, and no modifier that nobody took.
    pub(crate) fn check(&self, least: usize, most: usize) -> Decoded<()> {
        self.mods.finish()?;
        let count = self.instruction.operands.len();
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        self.error(format!("`{}` takes {wanted} operands, not {count}", self.instruction.opcode))
    }
}

impl function::FunctionDecoder<'_> {
    /// One instruction of any kind.
    fn instruction(&mut self, instruction: &PtxInstruction) -> Decoded<(DecodedOp, InstClass)> {
        let mut line = InstructionLine { instruction, mods: ModifierReader::new(instruction) };
        let line = &mut line;
        let mut types = instruction.modifiers.iter().filter_map(|name| PtxType::parse(name));
        if let Some(wrong) = types.find(|ty| !ty.is_of(&instruction.opcode)) {
            return line.mods.no_type(wrong);
        }
        let named = |name: &str| instruction.modifiers.iter().any(|each| each == name);
        let lacks = |(opcode, name): &&(&str, &str)| instruction.opcode == *opcode && named(name);
        if let Some((opcode, name)) = LACKING.iter().find(lacks) {
            return line.error(format!("the simulator has no `.{name}` for `{opcode}`"));
        }
        match instruction.opcode.as_str() {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "abs" | "neg" | "min" | "max" => self.arithmetic(line),
            "mul24" | "mad24" | "sad" | "rem" | "addc" | "subc" | "madc" | "dp4a" | "dp2a" => self.integer(line),
            "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh" | "copysign" | "testp" => {
                self.float_function(line)
            }
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi"
            | "popc" | "clz" | "bfind" | "fns" | "brev" | "szext" | "bmsk" => self.logic(line),
            "vabsdiff2" | "vabsdiff4" => self.absolute_differences(line),
            "set" | "setp" | "selp" | "slct" => self.compare(line),
            "cvt" => self.convert(line),
            "st" | "red" if named("async") => self.async_access(line),
            "mov" | "ld" | "ldu" | "st" | "cvta" | "isspacep" | "prefetch" | "prefetchu" | "discard"
            | "applypriority" | "createpolicy" | "mapa" | "getctarank" => self.movement(line),
            "atom" | "red" => self.atomic(line),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent" | "setmaxnreg"
            | "griddepcontrol" => self.control(line),
            "bar" | "barrier" | "membar" | "fence" => self.synchronisation(line),
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => self.warp(line),
            "ldmatrix" | "stmatrix" | "mma" | "wmma" | "movmatrix" => self.matrix(line),
            "wgmma" => self.warp_group(line),
            "cp" | "mbarrier" => self.copy(line),
            "alloca" | "stacksave" | "stackrestore" => self.stack(line),
            "tex" | "tld4" => self.texture_fetch(line),
            "txq" | "suq" => self.image_query(line),
            "suld" | "sust" | "sured" => self.surface_access(line),
            opcode => line.error(format!("the simulator has no instruction `{opcode}`")),
        }
    }

    fn arithmetic(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let mut types = line.instruction.modifiers.iter().filter_map(|name| PtxType::parse(name));
        let (first, second) = (types.next(), types.next());
        match second.or(first) {
            Some(narrow @ (PtxType::F16 | PtxType::Bf16)) if first == Some(PtxType::F32) => self.mixed(line, narrow),
            Some(PtxType::F32 | PtxType::F64 | PtxType::F32x2) => self.float(line),
            Some(PtxType::F16 | PtxType::F16x2 | PtxType::Bf16 | PtxType::Bf16x2) => self.half(line),
            _ => self.integer(line),
        }
    }
}
