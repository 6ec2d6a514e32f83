//! The parameters of functions with the names that they see.

use crate::annotation::AnnotationReader;
use crate::environment::FunctionHandle;
use crate::function_info::FunctionRole;
use crate::loom::program::ProgramParam;
use crate::param_type::{ParamType, TypePattern};
use crate::structure::ValueType;
use polyloom_ir::{Scalar, Type};
use smallvec::SmallVec;
use std::sync::Arc;

impl FunctionHandle {
    /// Returns true if a definition takes parameters of the same types as an earlier one of its name, and so replaces
    /// it; others are overloads of one another.
    pub fn replaces(&self, earlier: &FunctionHandle) -> bool {
        let types = self.parameter_types(Some(ParamType::ANY));
        types.is_some() && types == earlier.parameter_types(Some(ParamType::ANY))
    }

    /// Returns true if it may be what a derivative of `function` is made of, since it takes what that takes first.
    pub fn goes_with(&self, function: &FunctionHandle) -> bool {
        let [own, of] = [self, function].map(|handle| handle.parameter_types(Some(ParamType::ANY)));
        let (Some(own), Some(of)) = (own, of) else { return false };
        match self.role() {
            Some(FunctionRole::Gradient) => own.starts_with(&of),
            _ => own == of,
        }
    }

    /// Its parameters; `None` if an annotation is missing or wrong.
    pub fn parameters(&self) -> Option<Vec<(Arc<str>, ParamType)>> {
        let types = self.parameter_types(None)?;
        let parameters = self.unit.definition(self.function)?.parameters.iter_non_variadic_params();
        Some(parameters.map(|p| p.parameter.name.as_str().into()).zip(types).collect())
    }

    /// Returns true if, as a kernel, it is compiled for the types of each launch. All its parameters have annotations
    /// then. Results of a `.loom` kernel say nothing: what it stores there does.
    pub fn is_generic_kernel(&self) -> bool {
        let n_given = self.unit.program_of(self.function).map_or(usize::MAX, |program| program.params.len());
        self.parameter_types(None).is_some_and(|types| types.iter().take(n_given).any(|ty| ty.is_generic()))
    }

    /// Types for which a kernel of a `.loom` file is checked where nothing says for which it is compiled: arrays and
    /// numbers of `f32`, and of `i32` where these must be integers. `None` if the text does not say of what rank an array
    /// is.
    pub fn example_types(&self) -> Option<Vec<ValueType>> {
        let program = self.unit.program_of(self.function)?;
        let types = self.parameter_types(None)?;
        let scalar = |pattern: TypePattern| {
            [Scalar::F32, Scalar::I32].into_iter().find(|scalar| pattern.contains((*scalar).into()))
        };
        let example = |(ty, param): (&ParamType, &ProgramParam)| match *ty {
            ParamType::Exact(ty) => Some(ty),
            ParamType::Generic(TypePattern::Any) => {
                let ndim = u8::try_from(param.extents.as_ref()?.len()).ok()?;
                Some(ValueType::Plain(Type::array_of(Scalar::F32.into(), ndim)?))
            }
            ParamType::Generic(pattern) => Some(scalar(pattern)?.into()),
            ParamType::GenericArray(pattern, ndim) => {
                Some(ValueType::Plain(Type::array_of(scalar(pattern)?.into(), ndim)?))
            }
            _ => None,
        };
        types.iter().zip(&program.params).map(example).collect()
    }

    /// Returns true if, as a function, it is compiled for the types of each call.
    pub(crate) fn is_generic_function(&self) -> bool {
        self.parameter_types(Some(ParamType::ANY)).is_some_and(|types| types.iter().any(|ty| ty.is_generic()))
    }

    pub(crate) fn parameter_types(&self, missing: Option<ParamType>) -> Option<SmallVec<[ParamType; 4]>> {
        let lookup = |path: &[&str]| self.environment.lookup(path);
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &lookup };
        reader.parameter_types(self.unit.definition(self.function)?, missing)
    }
}
