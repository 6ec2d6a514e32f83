//! Inference: syntax trees to the typed AST.
//!
//! A [`KernelCompilation`] checks one kernel and, as calls are met, every function it calls, once for each choice of
//! parameter types. All diagnostics are collected: a rejected expression has the type [`ExprType::Error`], and nothing
//! built on it is reported again. Variables have one type in a function, that of their first assignment in the text.

mod array_choice;
mod assignment;
mod augmented;
mod builtin;
mod call;
mod component_expr;
mod component_parts;
mod composite;
mod construct;
mod conversion;
mod element;
mod expression;
mod flow;
mod function;
mod gpu;
mod grad;
mod inferred;
mod lint;
mod logic;
mod loops;
mod meaning;
mod operator;
mod overload;
mod print;
mod reference;
mod report;
mod results;
mod return_merge;
mod run;
mod scope;
mod shared;
mod slice;
mod statement;
mod statement_effects;
mod static_expression;
mod struct_variable;
mod structure;
mod subscript_meaning;
mod temporaries;
mod tuple;
mod unrolled_copy;
mod unsupported;
mod view;
mod zeroed;
mod zeroed_variable;

use crate::builtin_function::BuiltinFunction;
use crate::environment::{CapturedMeaning, FunctionHandle, Identity};
use crate::file_environment::FileEnvironment;
use crate::local_array::LocalArray;
use crate::loom::in_loom;
use crate::lower::func_id;
use crate::options::FrontendOptions;
use crate::source::SourceUnit;
use crate::structure::ValueType;
use crate::typed_ast::{FunctionId, TypedProgram};
use polyloom_ir::{Diagnostic, FileId, FuncId, SourceMap, Span, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// Function instances in one kernel beyond this are not compiled.
const MAX_INSTANCES: usize = 1000;

/// Calls nested deeper than this are not followed.
const MAX_CALL_DEPTH: usize = 64;

/// Calls inside so many levels of expressions and statements, counted over all functions being checked, are not
/// followed, so that the checker's recursion is bounded, with [`expression::MAX_DEPTH`] more for the function called.
const MAX_DEPTH_OF_CALLS: u32 = 400;

/// Statements, expressions and parameters of overloads looked at for one kernel beyond this are not checked.
const MAX_WORK: usize = 1_000_000;

/// Unknown names for which a near one is looked for, because each is compared with every name there is.
const MAX_SUGGESTIONS: u32 = 100;

/// A function's identity and what it is given.
type InstanceKey = (Identity, SmallVec<[GivenKey; 4]>);

/// Describes what an instance of a function is given for a parameter.
#[derive(Clone)]
pub(crate) enum SpecialisationArg {
    /// A value of this type.
    Value(ValueType),
    /// Something known when it is compiled: a function or a type.
    Known(CapturedMeaning),
    /// The part of an array of this type that such indices choose.
    View(Type, SmallVec<[ViewIndex; 2]>),
    /// The same of an array of the caller's own.
    Own(LocalArray, SmallVec<[ViewIndex; 2]>),
    /// A tuple of values of these types.
    Tuple(SmallVec<[ValueType; 2]>),
    /// A struct of this type whose arrays at these leaves are not set.
    Incomplete(ValueType, SmallVec<[usize; 4]>),
}

/// An index among those of a view that a function is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ViewIndex {
    /// One index of this type.
    At(Type),
    /// A slice.
    Slice,
    /// The axis of an indexed array.
    Gather,
}

/// A function instance that is being checked. Its handle keeps identities from being reused.
struct OpenInstance {
    handle: FunctionHandle,
    key: InstanceKey,
}

/// Describes what of a [`SpecialisationArg`] makes a difference to the instance.
#[derive(Clone, PartialEq, Eq, Hash)]
enum GivenKey {
    Value(ValueType),
    Type(ValueType),
    Builtin(BuiltinFunction),
    Functions(SmallVec<[Identity; 2]>),
    Gradient(Box<GivenKey>),
    View(Type, SmallVec<[ViewIndex; 2]>),
    Own(LocalArray, SmallVec<[ViewIndex; 2]>),
    Tuple(SmallVec<[ValueType; 2]>),
    Incomplete(ValueType, SmallVec<[usize; 4]>),
}

impl SpecialisationArg {
    /// `None` for what is no function and no type.
    fn key(&self) -> Option<GivenKey> {
        Some(match self {
            SpecialisationArg::Value(ty) => GivenKey::Value(*ty),
            SpecialisationArg::View(array, indices) => GivenKey::View(*array, indices.clone()),
            SpecialisationArg::Tuple(types) => GivenKey::Tuple(types.clone()),
            SpecialisationArg::Own(fixed, indices) => GivenKey::Own(fixed.clone(), indices.clone()),
            SpecialisationArg::Incomplete(ty, unset) => GivenKey::Incomplete(*ty, unset.clone()),
            SpecialisationArg::Known(CapturedMeaning::Type(scalar)) => GivenKey::Type((*scalar).into()),
            SpecialisationArg::Known(CapturedMeaning::Composite(composite)) => {
                GivenKey::Type(Type::Composite(*composite).into())
            }
            SpecialisationArg::Known(CapturedMeaning::Struct(of)) => GivenKey::Type(ValueType::Struct(*of)),
            SpecialisationArg::Known(CapturedMeaning::Builtin(builtin)) => GivenKey::Builtin(*builtin),
            SpecialisationArg::Known(CapturedMeaning::Function(handles)) => {
                GivenKey::Functions(handles.iter().map(FunctionHandle::identity).collect())
            }
            SpecialisationArg::Known(CapturedMeaning::Gradient(of, _)) => {
                GivenKey::Gradient(Box::new(SpecialisationArg::Known(CapturedMeaning::clone(of)).key()?))
            }
            SpecialisationArg::Known(_) => return None,
        })
    }
}

/// The checking of one kernel.
pub(crate) struct KernelCompilation<'o> {
    options: &'o FrontendOptions,
    pub(crate) sources: SourceMap,
    files: Vec<(Arc<SourceUnit>, FileId)>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) program: TypedProgram,
    /// Finished instances; `None` for those with errors.
    instances: FxHashMap<InstanceKey, Option<FunctionId>>,
    /// The function instances being checked, outermost first.
    stack: Vec<OpenInstance>,
    finished: Vec<FunctionHandle>,
    /// True if a function on its own is being checked, so that where the memory of its arrays is, calls will say.
    is_alone: bool,
    names: FxHashSet<Arc<str>>,
    /// The number of parameters of the function whose derivative the next instance carries.
    n_of_gradient: Option<usize>,
    /// Functions that give the derivatives of others, with these; what the others call comes first.
    pub(crate) gradients: Vec<(FunctionId, FunctionId)>,
    /// Holds what has been spent on the kernel, or the function on its own, being checked.
    spent: WorkBudget,
    suggestions_left: u32,
    /// The places in the program that make a shared array.
    n_shared_arrays: u32,
}

/// Describes what one kernel with the functions it calls has taken so far.
#[derive(Default)]
struct WorkBudget {
    /// Function instances begun.
    n_instances: usize,
    /// Statements, expressions and parameters of overloads looked at.
    work: usize,
    /// Levels of statements and expressions around the call that is being followed, over all open functions.
    depth: u32,
    /// True if a call that leads too far has been reported, because the others would only repeat that.
    limit_reported: bool,
}

impl<'o> KernelCompilation<'o> {
    pub(crate) fn new(options: &'o FrontendOptions) -> KernelCompilation<'o> {
        KernelCompilation {
            options,
            sources: SourceMap::new(),
            files: Vec::new(),
            diagnostics: Vec::new(),
            program: TypedProgram::default(),
            instances: FxHashMap::default(),
            stack: Vec::new(),
            finished: Vec::new(),
            names: FxHashSet::default(),
            is_alone: false,
            n_of_gradient: None,
            gradients: Vec::new(),
            spent: WorkBudget::default(),
            suggestions_left: MAX_SUGGESTIONS,
            n_shared_arrays: 0,
        }
    }

    /// The handle of a unit's file in this compilation's source map.
    pub(crate) fn file_of(&mut self, unit: &Arc<SourceUnit>) -> FileId {
        if let Some((_, file)) = self.files.iter().find(|(known, _)| Arc::ptr_eq(known, unit)) {
            return *file;
        }
        let file = self.sources.add(unit.file().clone());
        self.files.push((unit.clone(), file));
        file
    }

    /// Reports what is wrong with the structs of a file.
    pub(crate) fn report_structs(&mut self, unit: &Arc<SourceUnit>, environment: &FileEnvironment) {
        let file = self.file_of(unit);
        let errors = environment.errors().iter().cloned();
        self.diagnostics.extend(errors.map(|error| report::error_of(file, error)));
    }

    /// The diagnostics in the order of the text, each once, because instances of one function repeat each other's.
    pub(crate) fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        let reported = std::mem::take(&mut self.diagnostics);
        let in_words_of_its_file = |diagnostic: Diagnostic| {
            let loom =
                self.files.iter().find(|(_, file)| *file == diagnostic.span.file).and_then(|(unit, _)| unit.loom());
            match loom {
                Some(loom) => in_loom(diagnostic, &loom.renamed),
                None => diagnostic,
            }
        };
        let mut diagnostics: Vec<Diagnostic> = reported.into_iter().map(in_words_of_its_file).collect();
        let key = |span: Span| (span.file, span.start, span.end);
        diagnostics.sort_by_key(|d| key(d.span));
        let mut seen = FxHashSet::default();
        diagnostics.retain(|d| seen.insert((d.code, key(d.span), d.message.clone())));
        diagnostics
    }

    /// The derivatives that are declared, and the functions that they are of, in the module of the program.
    pub(crate) fn lowered_gradients(&self) -> Vec<(FuncId, FuncId)> {
        self.gradients.iter().map(|&(gradient, of)| (func_id(gradient), func_id(of))).collect()
    }

    /// A name for a function instance that no other has.
    fn unique_name(&mut self, name: &str) -> Arc<str> {
        let mut unique: Arc<str> = name.into();
        let mut n = 1;
        while !self.names.insert(unique.clone()) {
            n += 1;
            unique = format!("{name}_{n}").into();
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::KernelCompilation;
    use crate::options::FrontendOptions;
    use polyloom_ir::{Code, Diagnostic, Span};

    #[test]
    fn what_instances_of_a_function_repeat_is_reported_once() {
        let options = FrontendOptions::default();
        let mut compilation = KernelCompilation::new(&options);
        let report = |message: &str| Diagnostic::error(Code::TypeMismatch, Span::NONE, message);
        compilation.diagnostics = ["one", "other", "one", "other"].map(report).to_vec();
        assert_eq!(compilation.take_diagnostics(), ["one", "other"].map(report));
    }
}
