//! `tex`, `tld4` and queries (PTX ISA 9.0 §9.7.10), of texture objects in unified mode: a texture has its sampler in it.

use super::function::FunctionDecoder;
use super::op::{DecodedOp, ImageFact, ImagePlace, ImageQuery, TextureFetch, TextureResult};
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::SourceOperand;
use crate::syntax::ast::PtxOperand;

/// Axes and layers.
type ImageShape = (usize, bool);

/// A layer, and coordinates along each axis.
type ImageCoordinates = (Option<SourceOperand<u32>>, Vec<SourceOperand<u32>>);

const SHAPES: &[(&str, ImageShape)] =
    &[("1d", (1, false)), ("2d", (2, false)), ("3d", (3, false)), ("a1d", (1, true)), ("a2d", (2, true))];
/// Shapes that PTX has and the simulator has not.
const MISSING_SHAPES: &[&str] = &["cube", "acube", "2dms", "a2dms"];
const CHANNELS: &[(&str, usize)] = &[("r", 0), ("g", 1), ("b", 2), ("a", 3)];
const FACTS: &[(&str, ImageFact)] = &[
    ("width", ImageFact::Extent(0)),
    ("height", ImageFact::Extent(1)),
    ("depth", ImageFact::Extent(2)),
    ("array_size", ImageFact::ArraySize),
];
const TEXTURE_FACTS: &[(&str, ImageFact)] = &[
    ("num_mipmap_levels", ImageFact::One),
    ("num_samples", ImageFact::One),
    ("normalized_coords", ImageFact::IsNormalized),
];

impl FunctionDecoder<'_> {
    pub(super) fn texture_fetch(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let gathers = if line.instruction.opcode == "tld4" { Some(line.mods.need_of(CHANNELS)?) } else { None };
        // A texture has one version of its image, which every level is then.
        let n_level = match gathers {
            Some(_) => 0,
            None => line.mods.take_of(&[("base", 0), ("level", 1), ("grad", 2)]).unwrap_or(0usize),
        };
        let shape = image_shape(line)?;
        if gathers.is_some() && shape.0 != 2 {
            return line.error("`tld4` is of textures of two axes");
        }
        let count = line.mods.need_of(&[("v4", 4), ("v2", 2)])?;
        let (ty, coordinate) = (line.mods.ty()?, line.mods.ty()?);
        let result = match (ty, count) {
            (PtxType::F32 | PtxType::U(32) | PtxType::S(32), 4) => TextureResult::Words,
            (PtxType::F16, 4) => TextureResult::Halves,
            (PtxType::F16x2, 2) => TextureResult::HalfPairs,
            _ => {
                return line.error(format!("`{}` has no {count} results of `.{}`", line.instruction.opcode, ty.name()));
            }
        };
        if !matches!(coordinate, PtxType::F32 | PtxType::S(32)) || gathers.is_some() && coordinate != PtxType::F32 {
            return line.mods.no_type(coordinate);
        }
        let least = 2 + n_level;
        line.check(least, least + 2)?;
        let all = &line.instruction.operands;
        // A level, or gradients along each axis. They say nothing of an image that has one level.
        for given in &all[2..least] {
            let (elements, wanted) = (self.elements(given), if n_level == 1 { 1 } else { shape.0.next_power_of_two() });
            if elements.len() != wanted {
                return line.error(format!("{wanted} numbers are wanted, not {}", elements.len()));
            }
            elements.iter().try_for_each(|each| self.image_word(each, coordinate).map(|_| ()))?;
        }
        let mut offsets = Vec::new();
        for extra in &all[least..] {
            if !matches!(extra, PtxOperand::Vector(_)) || !offsets.is_empty() {
                return line.error(format!("the simulator has no depth comparison for `{}`", line.instruction.opcode));
            }
            offsets = self.coordinates(line, &self.elements(extra), (shape.0, false), PtxType::S(32))?.1;
        }
        let place = self.image_place(line, &all[1], shape, coordinate)?;
        let (written, resident) = match &all[0] {
            PtxOperand::Pair(written, predicate) => (&**written, self.predicate_slot(predicate)?),
            written => (written, None),
        };
        let written = self.elements(written);
        if written.len() != count {
            return line.error(format!("{count} registers are written, not {}", written.len()));
        }
        let destinations = written.iter().map(|each| self.destination(each, ty.bits())).collect::<Decoded<_>>()?;
        let has_integers = coordinate == PtxType::S(32);
        let fetch = TextureFetch { place, has_integers, offsets, gathers, result, destinations, resident };
        Ok((DecodedOp::TextureFetch(Box::new(fetch)), InstClass::Texture))
    }

    /// `txq` and `suq`
    pub(super) fn image_query(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        let is_surface = line.instruction.opcode == "suq";
        let known = if is_surface { FACTS.to_vec() } else { [FACTS, TEXTURE_FACTS].concat() };
        let by_level = !is_surface && line.mods.take("level");
        let query = line.mods.take_of(&known);
        line.mods.ty()?;
        let count = 2 + usize::from(by_level);
        line.check(count, count)?;
        let Some(query) = query else { return line.error(format!("`{}` asks for nothing", line.instruction.opcode)) };
        let all = &line.instruction.operands;
        let PtxOperand::Address { base, offset: 0, more } = &all[1] else {
            return line.error(format!("`{}` is no texture or surface", all[1]));
        };
        if !more.is_empty() {
            return line.error(format!("`{}` is a place, not a texture or surface", all[1]));
        }
        let object = self.image_object(line, base)?;
        let destination = self.destination(&all[0], 32)?;
        let query = ImageQuery { object, is_surface, query, destination };
        Ok((DecodedOp::ImageQuery(Box::new(query)), InstClass::Texture))
    }

    /// `[object, {coordinates}]`
    pub(super) fn image_place(
        &mut self,
        line: &InstructionLine<'_>,
        operand: &PtxOperand,
        shape: ImageShape,
        ty: PtxType,
    ) -> Decoded<ImagePlace> {
        let PtxOperand::Address { base, offset: 0, more } = operand else {
            return line.error(format!("`{operand}` is no texture or surface with coordinates"));
        };
        let [coordinates] = more.as_slice() else {
            let complaint = "textures have their samplers in them (unified mode), which no operand names";
            return match more.is_empty() {
                true => line.error(format!("`{operand}` has no coordinates")),
                false => line.error(complaint),
            };
        };
        let object = self.image_object(line, base)?;
        let (layer, coordinates) = self.coordinates(line, &self.elements(coordinates), shape, ty)?;
        Ok(ImagePlace { object, layer, coordinates })
    }

    fn image_object(&mut self, line: &InstructionLine<'_>, base: &PtxOperand) -> Decoded<SourceOperand<u64>> {
        match base {
            PtxOperand::Name(_) => self.source(base, PtxType::B(64)),
            _ => line.error(format!("`{base}` is no register with a handle")),
        }
    }

    /// A layer and coordinates. Vectors have one, two or four elements; those at the end that are not needed are none.
    fn coordinates(
        &mut self,
        line: &InstructionLine<'_>,
        elements: &[PtxOperand],
        (n_axes, is_layered): ImageShape,
        ty: PtxType,
    ) -> Decoded<ImageCoordinates> {
        let n_used = n_axes + usize::from(is_layered);
        let n_elements = n_used.next_power_of_two();
        if !matches!(elements.len(), 1 | 2 | 4) || elements.len() < n_elements {
            return line.error(format!("{n_elements} coordinates are wanted, not {}", elements.len()));
        }
        let (layer, rest) = match is_layered {
            true => (Some(self.image_word(&elements[0], PtxType::U(32))?), &elements[1..n_used]),
            false => (None, &elements[..n_used]),
        };
        Ok((layer, rest.iter().map(|each| self.image_word(each, ty)).collect::<Decoded<_>>()?))
    }

    /// A coordinate or the like: a register of 32 bits of any type, or a constant of the instruction's.
    fn image_word(&mut self, operand: &PtxOperand, ty: PtxType) -> Decoded<SourceOperand<u32>> {
        self.source(operand, if matches!(operand, PtxOperand::Name(_)) { PtxType::B(32) } else { ty })
    }
}

/// The shape that an instruction names.
pub(super) fn image_shape(line: &mut InstructionLine<'_>) -> Decoded<ImageShape> {
    let named = |name: &&&str| line.instruction.modifiers.iter().any(|each| each == **name);
    if let Some(name) = MISSING_SHAPES.iter().find(named) {
        return line.error(format!("the simulator has no `.{name}` for `{}`", line.instruction.opcode));
    }
    line.mods.need_of(SHAPES)
}
