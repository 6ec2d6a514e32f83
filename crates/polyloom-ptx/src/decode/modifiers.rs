//! The modifiers of one instruction, taken one by one; what nobody takes is an error.

use super::types::PtxType;
use crate::error::{PtxError, TextPosition};
use crate::number::Rounding;
use crate::syntax::ast::PtxInstruction;

pub(crate) struct ModifierReader<'i> {
    opcode: &'i str,
    position: TextPosition,
    left: Vec<&'i str>,
}

impl<'i> ModifierReader<'i> {
    pub(crate) fn new(instruction: &'i PtxInstruction) -> Self {
        ModifierReader {
            opcode: &instruction.opcode,
            position: instruction.position,
            left: instruction.modifiers.iter().map(String::as_str).collect(),
        }
    }

    /// Returns true if `name` was there.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let found = self.left.iter().position(|each| *each == name);
        if let Some(index) = found {
            self.left.remove(index);
        }
        found.is_some()
    }

    /// Returns what the first modifier of `choices` stands for.
    pub(crate) fn take_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let index = self.left.iter().position(|each| choices.iter().any(|(name, _)| name == each))?;
        let name = self.left.remove(index);
        choices.iter().find(|(each, _)| *each == name).map(|(_, value)| *value)
    }

    /// As `take_of`, where one has to be there.
    pub(crate) fn need_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, PtxError> {
        self.take_of(choices).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("`.{name}`")).collect();
            self.error(format!("`{}` needs one of {}", self.opcode, names.join(", ")))
        })
    }

    /// The next type.
    pub(crate) fn ty(&mut self) -> Result<PtxType, PtxError> {
        self.optional_ty().ok_or_else(|| self.error(format!("`{}` needs a type", self.opcode)))
    }

    pub(crate) fn optional_ty(&mut self) -> Option<PtxType> {
        let index = self.left.iter().position(|each| PtxType::parse(each).is_some())?;
        PtxType::parse(self.left.remove(index))
    }

    pub(crate) fn rounding(&mut self) -> Option<Rounding> {
        self.take_of(&[
            ("rn", Rounding::Nearest),
            ("rna", Rounding::NearestAway),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
    }

    /// Those of `names` that are there have no meaning here.
    pub(crate) fn drop_known(&mut self, names: &[&str]) {
        self.left.retain(|each| !names.contains(each));
    }

    pub(crate) fn drop_prefixed(&mut self, prefix: &str) {
        self.left.retain(|each| !each.starts_with(prefix));
    }

    pub(crate) fn finish(&self) -> Result<(), PtxError> {
        match self.left.first() {
            None => Ok(()),
            Some(name) => Err(self.error(format!("the simulator has no `.{name}` for `{}`", self.opcode))),
        }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> PtxError {
        PtxError::new(self.position, message)
    }

    /// `ty` does not go with the instruction.
    pub(crate) fn no_type<T>(&self, ty: PtxType) -> Result<T, PtxError> {
        Err(self.error(format!("`{}` has no type `.{}`", self.opcode, ty.name())))
    }
}
