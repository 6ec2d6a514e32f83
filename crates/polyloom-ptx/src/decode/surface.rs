//! `suld`, `sust` and `sured` (PTX ISA 9.0 §9.7.11), of surface objects: what is read and written are bytes.

use super::atomic::update;
use super::function::FunctionDecoder;
use super::op::{DecodedOp, SurfaceAccess, SurfaceAccessKind, SurfaceOutside};
use super::texture::image_shape;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};

const OUTSIDE: &[(&str, SurfaceOutside)] =
    &[("trap", SurfaceOutside::Trap), ("clamp", SurfaceOutside::Clamp), ("zero", SurfaceOutside::Zero)];
const REDUCTIONS: &[(&str, &str)] = &[("add", "add"), ("min", "min"), ("max", "max"), ("and", "and"), ("or", "or")];
const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4)];

impl FunctionDecoder<'_> {
    pub(super) fn surface_access(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let opcode = line.instruction.opcode.as_str();
        if line.instruction.modifiers.iter().any(|name| name == "p") {
            return line.error(format!("the simulator has no `.p` for `{opcode}`"));
        }
        if !line.mods.take("b") {
            return line.error(format!("`{opcode}` needs `.b`"));
        }
        let reduction = if opcode == "sured" { Some(line.mods.need_of(REDUCTIONS)?) } else { None };
        let shape = image_shape(line)?;
        let caches: &[(&str, ())] = match opcode {
            "suld" => &[("ca", ()), ("cg", ()), ("cs", ()), ("cv", ())],
            "sust" => &[("wb", ()), ("cg", ()), ("cs", ()), ("wt", ())],
            _ => &[],
        };
        line.mods.take_of(caches);
        let count = if reduction.is_some() { 1 } else { line.mods.take_of(VECTORS).unwrap_or(1) };
        let ty = line.mods.ty()?;
        let outside = line.mods.need_of(OUTSIDE)?;
        line.check(2, 2)?;
        if count as u32 * ty.bits() > 128 {
            return line.error(format!("{count} registers of `.{}` are too many", ty.name()));
        }
        let all = &line.instruction.operands;
        let (values, place) = if opcode == "suld" { (&all[0], &all[1]) } else { (&all[1], &all[0]) };
        let place = self.image_place(line, place, shape, PtxType::S(32))?;
        let values = self.elements(values);
        if values.len() != count {
            return line.error(format!("{count} registers are wanted, not {}", values.len()));
        }
        let kind = match (opcode, reduction) {
            ("suld", _) => {
                let registers = values.iter().map(|each| self.destination(each, ty.bits()));
                SurfaceAccessKind::Load(registers.collect::<Decoded<_>>()?)
            }
            (_, Some(operation)) => {
                let known = match ty {
                    PtxType::B(32) => matches!(operation, "and" | "or"),
                    PtxType::U(_) | PtxType::S(32) => matches!(operation, "add" | "min" | "max"),
                    PtxType::S(_) => matches!(operation, "min" | "max"),
                    _ => false,
                };
                match update(operation, ty).filter(|_| known) {
                    Some(update) => SurfaceAccessKind::Update(self.any_source(&values[0], ty)?, update),
                    None => return line.error(format!("`sured.b.{operation}` has no type `.{}`", ty.name())),
                }
            }
            _ => {
                let sources = values.iter().map(|each| self.any_source(each, ty));
                SurfaceAccessKind::Store(sources.collect::<Decoded<_>>()?)
            }
        };
        let access = SurfaceAccess { place, size: ty.bytes(), outside, kind };
        Ok((DecodedOp::SurfaceAccess(Box::new(access)), InstClass::Texture))
    }
}
