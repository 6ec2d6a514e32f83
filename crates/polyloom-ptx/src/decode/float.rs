//! f32 and f64 arithmetic and functions (PTX ISA 9.0 §9.7.3).

use super::function::FunctionDecoder;
use super::half::HalfKind;
use super::op::DecodedOp;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, LANES, RegisterFiles, lanes_where, map2, map3};
use crate::number::arithmetic::{
    DirectedOperation, canonical, directed, directed_f64, extremum, extremum_f64, flush, flush_if, fma, saturate,
};
use crate::number::half::{bf16_to_f32, f16_to_f32};
use crate::number::{Rounding, approximate};

/// Describes what is done to operands and results of f32 instructions.
#[derive(Clone, Copy)]
struct FloatFinish {
    ftz: bool,
    saturate: bool,
}

impl FloatFinish {
    #[inline]
    fn result(self, x: f32) -> f32 {
        let x = canonical(flush_if(self.ftz, x));
        if self.saturate { saturate(x) } else { x }
    }
}

impl FunctionDecoder<'_> {
    fn unary_f32(
        &mut self,
        line: &InstructionLine<'_>,
        finish: FloatFinish,
        f: impl Fn(f32) -> f32 + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        self.unary::<f32>(line, PtxType::F32, move |a| finish.result(f(flush_if(finish.ftz, a))))
    }

    fn binary_f32(
        &mut self,
        line: &InstructionLine<'_>,
        finish: FloatFinish,
        f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        // The plain case has its own loop, so that it vectorises.
        match finish {
            FloatFinish { ftz: false, saturate: false } => {
                self.binary::<f32>(line, PtxType::F32, move |a, b| canonical(f(a, b)))
            }
            FloatFinish { ftz: true, saturate: false } => {
                self.binary::<f32>(line, PtxType::F32, move |a, b| canonical(flush(f(flush(a), flush(b)))))
            }
            _ => self.binary::<f32>(line, PtxType::F32, move |a, b| {
                finish.result(f(flush_if(finish.ftz, a), flush_if(finish.ftz, b)))
            }),
        }
    }

    fn ternary_f32(
        &mut self,
        line: &InstructionLine<'_>,
        finish: FloatFinish,
        f: impl Fn(f32, f32, f32) -> f32 + Send + Sync + 'static,
    ) -> Decoded<Compute> {
        match finish {
            FloatFinish { ftz: false, saturate: false } => {
                self.ternary::<f32>(line, PtxType::F32, move |a, b, c| canonical(f(a, b, c)))
            }
            _ => self.ternary::<f32>(line, PtxType::F32, move |a, b, c| {
                let [a, b, c] = [a, b, c].map(|x| flush_if(finish.ftz, x));
                finish.result(f(a, b, c))
            }),
        }
    }

    pub(super) fn float(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        let rounds = matches!(opcode, "add" | "sub" | "mul" | "fma" | "mad" | "div");
        let extremum = matches!(opcode, "min" | "max");
        let rounding = if rounds { line.mods.rounding() } else { None };
        // `.full` is within 2 ulp of every quotient, as the rounded one is.
        let divides = opcode == "div";
        let approximate = divides && line.mods.take("approx");
        let full = divides && line.mods.take("full");
        let ty = line.mods.ty()?;
        // f64 has no other forms.
        let plain = ty == PtxType::F64;
        let finish = FloatFinish {
            ftz: !plain && line.mods.take("ftz"),
            saturate: ty == PtxType::F32 && rounds && !divides && line.mods.take("sat"),
        };
        let nan = !plain && extremum && line.mods.take("NaN");
        let sign = !plain && extremum && line.mods.take("xorsign");
        let magnitude = !plain && extremum && line.mods.take("abs");
        // Two values compare by magnitude for the sake of the sign, three for their own.
        if magnitude != (sign || magnitude && line.instruction.operands.len() == 4) {
            return line.error(format!("`{opcode}` of two values has `.xorsign.abs`, of three `.abs`"));
        }
        if rounding == Some(Rounding::NearestAway) {
            return line.error(format!("`{opcode}` has no `.rna`"));
        }
        let ways = usize::from(rounding.is_some()) + usize::from(approximate) + usize::from(full);
        if ways > 1 || matches!(opcode, "fma" | "mad" | "div") && ways == 0 {
            return line.error(format!("`{opcode}` of `.{}` needs one rounding such as `.rn`", ty.name()));
        }
        match ty {
            PtxType::F32 => {
                let compute = self.single(line, rounding, approximate, finish, (nan, sign, magnitude))?;
                Ok((DecodedOp::Compute(compute), InstClass::Float))
            }
            PtxType::F64 if approximate || full => line.mods.no_type(ty),
            PtxType::F64 => {
                let compute = self.double(line, rounding.unwrap_or(Rounding::Nearest))?;
                Ok((DecodedOp::Compute(compute), InstClass::Double))
            }
            PtxType::F32x2 => {
                let compute = self.packed(line, rounding.unwrap_or(Rounding::Nearest), finish)?;
                Ok((DecodedOp::Compute(compute), InstClass::Float))
            }
            other => line.mods.no_type(other),
        }
    }

    fn single(
        &mut self,
        line: &InstructionLine<'_>,
        rounding: Option<Rounding>,
        approximate: bool,
        finish: FloatFinish,
        (nan, sign, magnitude): (bool, bool, bool),
    ) -> Decoded<Compute> {
        let opcode = line.instruction.opcode.as_str();
        let mode = rounding.unwrap_or(Rounding::Nearest);
        let nearest = mode == Rounding::Nearest;
        let operation = match opcode {
            "add" => DirectedOperation::Add,
            "sub" => DirectedOperation::Sub,
            "mul" => DirectedOperation::Mul,
            "fma" | "mad" => DirectedOperation::Fma,
            "div" => DirectedOperation::Div,
            _ => {
                return match opcode {
                    "abs" => self.unary::<f32>(line, PtxType::F32, move |a| flush_if(finish.ftz, a).abs()),
                    "neg" => self.unary::<f32>(line, PtxType::F32, move |a| -flush_if(finish.ftz, a)),
                    "min" | "max" => {
                        let larger = opcode == "max";
                        let pick = move |a: f32, b: f32| {
                            let (x, y) = if magnitude { (a.abs(), b.abs()) } else { (a, b) };
                            let picked = extremum(larger, nan, x, y);
                            let flips = sign && a.is_sign_negative() != b.is_sign_negative();
                            if flips && !picked.is_nan() { -picked } else { picked }
                        };
                        if line.instruction.operands.len() == 4 {
                            self.ternary_f32(line, finish, move |a, b, c| pick(pick(a, b), c))
                        } else {
                            self.binary_f32(line, finish, pick)
                        }
                    }
                    _ => line.mods.no_type(PtxType::F32),
                };
            }
        };
        match operation {
            DirectedOperation::Add if nearest => self.binary_f32(line, finish, |a, b| a + b),
            DirectedOperation::Sub if nearest => self.binary_f32(line, finish, |a, b| a - b),
            DirectedOperation::Mul if nearest => self.binary_f32(line, finish, |a, b| a * b),
            DirectedOperation::Fma if nearest => self.ternary_f32(line, finish, fma),
            DirectedOperation::Fma => self.ternary_f32(line, finish, move |a, b, c| directed(operation, mode, a, b, c)),
            DirectedOperation::Div if approximate => self.binary_f32(line, finish, approximate::quotient),
            DirectedOperation::Div if nearest => self.binary_f32(line, finish, |a, b| a / b),
            _ => self.binary_f32(line, finish, move |a, b| directed(operation, mode, a, b, 0.0)),
        }
    }

    fn double(&mut self, line: &InstructionLine<'_>, rounding: Rounding) -> Decoded<Compute> {
        let nearest = rounding == Rounding::Nearest;
        let ty = PtxType::F64;
        match line.instruction.opcode.as_str() {
            "add" if nearest => self.binary::<f64>(line, ty, |a, b| a + b),
            "sub" if nearest => self.binary::<f64>(line, ty, |a, b| a - b),
            "mul" if nearest => self.binary::<f64>(line, ty, |a, b| a * b),
            "div" if nearest => self.binary::<f64>(line, ty, |a, b| a / b),
            "fma" | "mad" if nearest => self.ternary::<f64>(line, ty, f64::mul_add),
            "add" => {
                self.binary::<f64>(line, ty, move |a, b| directed_f64(DirectedOperation::Add, rounding, a, b, 0.0))
            }
            "sub" => {
                self.binary::<f64>(line, ty, move |a, b| directed_f64(DirectedOperation::Sub, rounding, a, b, 0.0))
            }
            "mul" => {
                self.binary::<f64>(line, ty, move |a, b| directed_f64(DirectedOperation::Mul, rounding, a, b, 0.0))
            }
            "div" => {
                self.binary::<f64>(line, ty, move |a, b| directed_f64(DirectedOperation::Div, rounding, a, b, 0.0))
            }
            "fma" | "mad" => {
                self.ternary::<f64>(line, ty, move |a, b, c| directed_f64(DirectedOperation::Fma, rounding, a, b, c))
            }
            "abs" => self.unary::<f64>(line, ty, f64::abs),
            "neg" => self.unary::<f64>(line, ty, |a| -a),
            "min" => self.binary::<f64>(line, ty, |a, b| extremum_f64(false, a, b)),
            "max" => self.binary::<f64>(line, ty, |a, b| extremum_f64(true, a, b)),
            _ => line.mods.no_type(ty),
        }
    }

    /// `.f32.f16` and `.f32.bf16`: the factors of `fma`, or the first summand, are the narrow type's.
    pub(super) fn mixed(&mut self, line: &mut InstructionLine<'_>, narrow: PtxType) -> Decoded<(DecodedOp, InstClass)> {
        let rounding = line.mods.rounding();
        if rounding == Some(Rounding::NearestAway) || rounding.is_none() && line.instruction.opcode == "fma" {
            return line.error(format!("`{}` needs a rounding such as `.rn`", line.instruction.opcode));
        }
        let mode = rounding.unwrap_or(Rounding::Nearest);
        let finish = FloatFinish { ftz: false, saturate: line.mods.take("sat") };
        line.mods.ty()?;
        line.mods.ty()?;
        let operation = match line.instruction.opcode.as_str() {
            "add" => DirectedOperation::Add,
            "sub" => DirectedOperation::Sub,
            "fma" => DirectedOperation::Fma,
            _ => return line.mods.no_type(narrow),
        };
        let count = if operation == DirectedOperation::Fma { 4 } else { 3 };
        line.check(count, count)?;
        let all = &line.instruction.operands;
        let widen = if narrow == PtxType::F16 { f16_to_f32 } else { bf16_to_f32 };
        let d = self.slot::<u32>(&all[0], PtxType::F32)?;
        let a = self.source(&all[1], narrow)?;
        let last = self.source(&all[count - 1], PtxType::F32)?;
        let compute = if operation == DirectedOperation::Fma {
            let b = self.source(&all[2], narrow)?;
            map3(d, a, b, last, move |a: u16, b: u16, c: f32| {
                finish.result(directed(operation, mode, widen(a), widen(b), c))
            })
        } else {
            map2(d, a, last, move |a: u16, b: f32| finish.result(directed(operation, mode, widen(a), b, 0.0)))
        };
        Ok((DecodedOp::Compute(compute), InstClass::Float))
    }

    /// `.f32x2`: two f32 in 64 bits.
    fn packed(&mut self, line: &InstructionLine<'_>, rounding: Rounding, finish: FloatFinish) -> Decoded<Compute> {
        let operation = match line.instruction.opcode.as_str() {
            "add" => DirectedOperation::Add,
            "sub" => DirectedOperation::Sub,
            "mul" => DirectedOperation::Mul,
            "fma" => DirectedOperation::Fma,
            _ => return line.mods.no_type(PtxType::F32x2),
        };
        let part = move |a: u64, b: u64, c: u64, shift: u32| {
            let [a, b, c] = [a, b, c].map(|x| flush_if(finish.ftz, f32::from_bits((x >> shift) as u32)));
            u64::from(finish.result(directed(operation, rounding, a, b, c)).to_bits()) << shift
        };
        if operation == DirectedOperation::Fma {
            return self.ternary::<u64>(line, PtxType::F32x2, move |a, b, c| part(a, b, c, 0) | part(a, b, c, 32));
        }
        self.binary::<u64>(line, PtxType::F32x2, move |a, b| part(a, b, 0, 0) | part(a, b, 0, 32))
    }

    pub(super) fn float_function(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        if opcode == "testp" {
            return self.test_property(line);
        }
        let rounding = line.mods.rounding();
        let approximates = line.mods.take("approx");
        let finish = FloatFinish { ftz: line.mods.take("ftz"), saturate: false };
        let ty = line.mods.ty()?;
        let brain = matches!(ty, PtxType::Bf16 | PtxType::Bf16x2);
        // Roundings, approximation and flushing that go together.
        let known = match (opcode, ty) {
            ("copysign", _) => rounding.is_none() && !approximates && !finish.ftz,
            ("rcp" | "sqrt", PtxType::F32) => rounding.is_some() != approximates,
            ("rcp", _) if approximates => rounding.is_none() && finish.ftz,
            ("rcp" | "sqrt", _) => rounding.is_some() && !approximates && !finish.ftz,
            ("ex2", PtxType::F16 | PtxType::F16x2) | ("tanh", _) => rounding.is_none() && approximates && !finish.ftz,
            ("ex2", _) if brain => rounding.is_none() && approximates && finish.ftz,
            _ => rounding.is_none() && approximates,
        };
        if !known || rounding == Some(Rounding::NearestAway) {
            let takes = match (opcode, ty) {
                ("copysign", _) => "no rounding, `.approx` or `.ftz`",
                ("rcp" | "sqrt", PtxType::F32) => "a rounding such as `.rn`, or `.approx`",
                ("rcp", PtxType::F64) => "a rounding such as `.rn`, or `.approx.ftz`",
                ("rcp" | "sqrt", _) => "a rounding such as `.rn`",
                ("ex2", _) if brain => "`.approx.ftz`",
                ("ex2", PtxType::F16 | PtxType::F16x2) | ("tanh", _) => "`.approx` alone",
                _ => "`.approx`",
            };
            let given: Vec<&str> = line.instruction.modifiers.iter().map(String::as_str).collect();
            let given = given.into_iter().filter(|name| PtxType::parse(name).is_none()).collect::<Vec<_>>().join(".");
            let given = if given.is_empty() { "which is missing".to_owned() } else { format!("not `.{given}`") };
            return line.error(format!("`{opcode}` of `.{}` takes {takes}, {given}", ty.name()));
        }
        if let Some(kind) = HalfKind::of(ty) {
            let f: fn(f32) -> f32 = match opcode {
                "ex2" => approximate::power_of_two,
                "tanh" => approximate::tangent,
                _ => return line.mods.no_type(ty),
            };
            return Ok((DecodedOp::Compute(self.half_function(line, ty, kind, finish.ftz, f)?), InstClass::Half));
        }
        let compute = match (opcode, ty) {
            ("copysign", PtxType::F32) => self.binary::<f32>(line, ty, |a, b| b.copysign(a))?,
            ("copysign", PtxType::F64) => self.binary::<f64>(line, ty, |a, b| b.copysign(a))?,
            ("rcp" | "sqrt", PtxType::F32) if !approximates => {
                let mode = rounding.unwrap_or(Rounding::Nearest);
                match (opcode, mode) {
                    ("rcp", Rounding::Nearest) => self.unary_f32(line, finish, |a| 1.0 / a)?,
                    ("sqrt", Rounding::Nearest) => self.unary_f32(line, finish, f32::sqrt)?,
                    ("rcp", _) => {
                        self.unary_f32(line, finish, move |a| directed(DirectedOperation::Div, mode, 1.0, a, 0.0))?
                    }
                    _ => self.unary_f32(line, finish, move |a| directed(DirectedOperation::Sqrt, mode, a, 0.0, 0.0))?,
                }
            }
            ("rcp", PtxType::F64) if approximates => self.unary::<f64>(line, ty, approximate::gross_reciprocal)?,
            ("rsqrt", PtxType::F64) if finish.ftz => self.unary::<f64>(line, ty, approximate::gross_reciprocal_root)?,
            ("rsqrt", PtxType::F64) => self.unary::<f64>(line, ty, |a| 1.0 / a.sqrt())?,
            ("rcp", PtxType::F64) => {
                let mode = rounding.unwrap_or(Rounding::Nearest);
                self.unary::<f64>(line, ty, move |a| directed_f64(DirectedOperation::Div, mode, 1.0, a, 0.0))?
            }
            ("sqrt", PtxType::F64) => {
                let mode = rounding.unwrap_or(Rounding::Nearest);
                self.unary::<f64>(line, ty, move |a| directed_f64(DirectedOperation::Sqrt, mode, a, 0.0, 0.0))?
            }
            ("rcp", PtxType::F32) => self.unary_f32(line, finish, approximate::reciprocal)?,
            ("sqrt", PtxType::F32) => self.unary_f32(line, finish, f32::sqrt)?,
            ("rsqrt", PtxType::F32) => self.unary_f32(line, finish, approximate::reciprocal_root)?,
            ("sin", PtxType::F32) => self.unary_f32(line, finish, approximate::sine)?,
            ("cos", PtxType::F32) => self.unary_f32(line, finish, approximate::cosine)?,
            ("ex2", PtxType::F32) => self.unary_f32(line, finish, approximate::power_of_two)?,
            ("lg2", PtxType::F32) => self.unary_f32(line, finish, approximate::logarithm)?,
            ("tanh", PtxType::F32) => self.unary_f32(line, finish, approximate::tangent)?,
            _ => return line.mods.no_type(ty),
        };
        Ok((DecodedOp::Compute(compute), if ty == PtxType::F64 { InstClass::Double } else { InstClass::Float }))
    }

    fn test_property(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        const PROPERTIES: &[(&str, u32)] =
            &[("finite", 0), ("infinite", 1), ("number", 2), ("notanumber", 3), ("normal", 4), ("subnormal", 5)];
        let property = line.mods.need_of(PROPERTIES)?;
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let p = self.predicate_slot(&all[0])?;
        macro_rules! test {
            ($float:ty) => {{
                let a = self.source(&all[1], ty)?;
                Box::new(move |registers: &mut RegisterFiles, mask: u32| {
                    let lanes: &[_; LANES] = a.get(registers);
                    let set = lanes_where::<$float, $float>(lanes, lanes, |x, _| match property {
                        0 => x.is_finite(),
                        1 => x.is_infinite(),
                        2 => !x.is_nan(),
                        3 => x.is_nan(),
                        4 => x.is_normal(),
                        _ => x.is_subnormal(),
                    });
                    if let Some(p) = p {
                        registers.set_predicate(p, set, mask);
                    }
                }) as Compute
            }};
        }
        let compute = match ty {
            PtxType::F32 => test!(f32),
            PtxType::F64 => test!(f64),
            other => return line.mods.no_type(other),
        };
        Ok((DecodedOp::Compute(compute), InstClass::Compare))
    }
}
