//! From the syntax tree to a program: names resolved, types checked, branches made indices.
//!
//! Each group of instructions has a file, in which each instruction is one arm that says what it computes. What PTX
//! does not have, or the simulator does not, is an error with its place that names it.

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
mod symbol;
mod sync;
pub(crate) mod types;
mod unguarded;
mod video;
mod warp;

use crate::error::Error;
use crate::syntax::ast::Instruction;
use modifiers::Modifiers;
use op::{Class, Op};
use types::Type;

pub(crate) use function::decode;
pub(crate) use symbol::{Globals, Symbol, declared, incomplete, is_opaque, repeated, variable_size};

/// Forms of instructions that the simulator has in others, by a modifier that tells them.
const LACKING: &[(&str, &str)] = &[("st", "bulk"), ("st", "async"), ("red", "async"), ("ldmatrix", "m8n16")];

/// Describes what decoding one instruction gives.
pub(crate) type Decoded<T> = Result<T, Error>;

/// One instruction while it is decoded.
pub(crate) struct Line<'i> {
    pub(crate) instruction: &'i Instruction,
    pub(crate) mods: Modifiers<'i>,
}

impl Line<'_> {
    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Decoded<T> {
        Err(Error::new(self.instruction.position, message))
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

impl function::Decoder<'_> {
    /// One instruction of any kind.
    fn instruction(&mut self, instruction: &Instruction) -> Decoded<(Op, Class)> {
        let mut line = Line { instruction, mods: Modifiers::new(instruction) };
        let line = &mut line;
        let mut types = instruction.modifiers.iter().filter_map(|name| Type::parse(name));
        if let Some(wrong) = types.find(|ty| !ty.is_of(&instruction.opcode)) {
            return line.mods.no_type(wrong);
        }
        let lacks = |(opcode, name): &&(&str, &str)| {
            instruction.opcode == *opcode && instruction.modifiers.iter().any(|each| each == name)
        };
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
            "mov" | "ld" | "ldu" | "st" | "cvta" | "isspacep" | "prefetch" | "prefetchu" | "discard"
            | "applypriority" | "createpolicy" | "mapa" | "getctarank" => self.movement(line),
            "atom" | "red" => self.atomic(line),
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent" | "setmaxnreg"
            | "griddepcontrol" => self.control(line),
            "bar" | "barrier" | "membar" | "fence" => self.synchronisation(line),
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => self.warp(line),
            "ldmatrix" | "stmatrix" | "mma" | "wmma" | "movmatrix" => self.matrix(line),
            "cp" | "mbarrier" => self.copy(line),
            "alloca" | "stacksave" | "stackrestore" => self.stack(line),
            opcode => line.error(format!("the simulator has no instruction `{opcode}`")),
        }
    }

    fn arithmetic(&mut self, line: &mut Line<'_>) -> Decoded<(Op, Class)> {
        let mut types = line.instruction.modifiers.iter().filter_map(|name| Type::parse(name));
        let (first, second) = (types.next(), types.next());
        match second.or(first) {
            Some(narrow @ (Type::F16 | Type::Bf16)) if first == Some(Type::F32) => self.mixed(line, narrow),
            Some(Type::F32 | Type::F64 | Type::F32x2) => self.float(line),
            Some(Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => self.half(line),
            _ => self.integer(line),
        }
    }
}
