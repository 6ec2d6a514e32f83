//! Checking one function instance: parameters, body, results.

use super::flow::{FlowState, LocalSet, LoopFlow};
use super::inferred::InferredTypes;
use super::report::{error_of, span_of};
use super::return_merge::ReturnMerge;
use super::statement_effects::StatementEffects;
use super::struct_variable::StructVariable;
use super::temporaries::Temporaries;
use super::unrolled_copy::UnrolledCopy;
use super::zeroed_variable::ZeroedVariable;
use super::{
    InstanceKey, KernelCompilation, MAX_CALL_DEPTH, MAX_DEPTH_OF_CALLS, MAX_INSTANCES, MAX_WORK, OpenInstance,
    SpecialisationArg, WorkBudget,
};
use crate::adjoints::{adjoints_in, first_returned, parameter_of};
use crate::annotation::AnnotationReader;
use crate::decorator;
use crate::environment::{CapturedMeaning, FunctionHandle, KernelVariable, NameEnvironment};
use crate::function_info::FunctionRole;
use crate::local_array::LocalArray;
use crate::number::PythonNumber;
use crate::param_type::ParamType;
use crate::source::SourceUnit;
use crate::structure::ValueType;
use crate::typed_ast::{
    CustomDerivative, ExprKind, ExprType, FunctionId, LocalId, LocalVariable, TypedExpr, TypedFunction, TypedParam,
};
use polyloom_ir::{Code, Diagnostic, FileId, FunctionKind, Span, Type};
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Labels of one message, those for calls of generic functions among them.
const MAX_LABELS: usize = 4;

/// Describes what a name of the function is.
#[derive(Clone, Copy)]
pub(super) enum NameMeaning {
    /// A variable that has a type.
    Local(LocalId),
    /// A variable that is a struct or an array of structs, by its index.
    Struct(usize),
    /// Assigned in the function, but not yet in the text read so far; the span of the first assignment.
    Later(Span),
    /// A variable whose first value was rejected.
    Poisoned,
    /// Something known when the function is compiled, a function or a type: an index into [`FunctionChecker::known`].
    Known(usize),
    /// A part of an array: an index into [`FunctionChecker::views`].
    View(usize),
    /// Different parts of arrays on different paths.
    Diverged,
}

/// The state of checking one function.
pub(super) struct FunctionChecker<'c, 'o, 'a> {
    pub(super) compilation: &'c mut KernelCompilation<'o>,
    pub(super) unit: &'a SourceUnit,
    /// Index into the unit's functions.
    pub(super) function: usize,
    pub(super) environment: &'a dyn NameEnvironment,
    pub(super) file: FileId,
    pub(super) kind: FunctionKind,
    pub(super) names: FxHashMap<&'a str, NameMeaning>,
    pub(super) captured: FxHashMap<SmallVec<[&'a str; 4]>, Option<CapturedMeaning>>,
    /// The meanings that [`NameMeaning::Known`] indexes.
    pub(super) known: Vec<CapturedMeaning>,
    /// Names made to stand for something of [`FunctionChecker::known`], with what they were before.
    pub(super) rebound: Vec<(&'a str, Option<NameMeaning>)>,
    /// Says how many of them are from before the innermost branch or loop body.
    pub(super) n_rebound_outside: usize,
    /// Says how many of them are from before the innermost loop body, which an earlier iteration may have made stand for
    /// something else.
    pub(super) n_rebound_outside_loop: usize,
    /// Parameters whose values are known in the branch being checked, which choose arrays there.
    pub(super) decided: Vec<(&'a str, bool)>,
    /// The loops around that are unrolled, innermost last.
    pub(super) unrolled: Vec<UnrolledCopy<'a>>,
    /// The parts of arrays that names stand for.
    pub(super) views: Vec<TypedExpr>,
    /// The variables that arguments of the current call were evaluated into.
    pub(super) held_arguments: Temporaries,
    /// The variables that are parameters by reference.
    pub(super) references: SmallVec<[LocalId; 4]>,
    /// The statements that by-reference arguments add around the current statement.
    pub(super) around: StatementEffects,
    /// The variables that hold arrays of the function's own.
    pub(super) fixed: FxHashMap<LocalId, LocalArray>,
    /// Holds what is returned, if that is an array of the function's own.
    pub(super) own_result: Option<LocalArray>,
    /// The array of the function's own that its annotation says it returns.
    pub(super) declared_own: Option<LocalArray>,
    pub(super) locals: Vec<LocalVariable>,
    /// The variables that are structs; their leaves are among the locals.
    pub(super) structs: Vec<StructVariable>,
    params: Vec<TypedParam>,
    /// Says how many of the locals are parameters or leaves of such; they come first.
    pub(super) n_params: usize,
    /// The first values of variables that are numbers or quotients of integers, for messages: they decide the type.
    pub(super) first_values: FxHashMap<LocalId, TypedExpr>,
    /// The variables that are constants at this point on the way through the text, with the number of loops around
    /// their assignments.
    pub(super) constant_values: FxHashMap<LocalId, (KernelVariable, usize)>,
    /// Number of conditions of `while` loops around what is looked at.
    pub(super) n_loop_conditions: usize,
    /// The variable whose new value is being checked.
    pub(super) assigning: Option<LocalId>,
    /// True if what is checked only decides something, so that any value that is true will do.
    pub(super) deciding: bool,
    /// For the lint: whether variables are never negative, as far as they have been assigned.
    pub(super) counting: FxHashMap<LocalId, bool>,
    pub(super) results: ReturnMerge,
    /// The parameters that arrays in the results are, once a return has said so.
    pub(super) returned_arrays: Option<Vec<Option<LocalId>>>,
    pub(super) flow: FlowState,
    /// Variables assigned in each construct that is open, innermost last.
    pub(super) assigned: Vec<LocalSet>,
    pub(super) loops: Vec<LoopFlow>,
    /// True if the code ends here because of a condition known when it is compiled.
    pub(super) chosen_end: bool,
    /// Says how deep the statement or expression being checked is nested.
    pub(super) depth: u32,
    /// In how many `elif` branches, beyond that.
    pub(super) n_elifs: u32,
    pub(super) failed: bool,
    /// True if a limit has been reported, because whatever else is near it would only repeat that.
    limit_reached: bool,
    /// True if the number of elements of an array of several axes was read.
    pub(super) reads_size: bool,
    /// The variables that are read where some path has not set them.
    pub(super) zeroed: Vec<ZeroedVariable>,
    /// Results whose types the body is to show: their names and the numbers of their parameters.
    pub(super) awaited_results: Vec<(&'a str, usize)>,
    /// Variables that began as plain numbers, with where they are declared.
    pub(super) plain_numbers: FxHashMap<LocalId, (u32, PythonNumber)>,
    /// The types that earlier passes over the body have shown.
    pub(super) shown_types: InferredTypes,
    /// The types that this pass shows.
    pub(super) found_types: InferredTypes,
}

/// The reason why a body is checked again.
enum BodyRevision {
    /// These variables are zero from the start.
    Zeroed(Vec<ZeroedVariable>),
    /// These types are known.
    Types(InferredTypes),
}

/// `None` if something given is no value, function or type.
fn instance_key(handle: &FunctionHandle, given: &[SpecialisationArg]) -> Option<InstanceKey> {
    Some((handle.identity(), given.iter().map(SpecialisationArg::key).collect::<Option<_>>()?))
}

impl KernelCompilation<'_> {
    /// Checks a kernel, or a function on its own for these parameter types. Errors are in the diagnostics.
    pub(crate) fn check_root(
        &mut self,
        handle: &FunctionHandle,
        kind: FunctionKind,
        types: &[ValueType],
    ) -> Option<FunctionId> {
        self.spent = WorkBudget::default();
        self.is_alone = kind == FunctionKind::Func;
        let given: SmallVec<[SpecialisationArg; 4]> = types.iter().map(|ty| SpecialisationArg::Value(*ty)).collect();
        self.check_instance(handle, kind, &given, Span::NONE)
    }

    /// Checks the function that the expression of the span `call` calls, for what its parameters are given.
    pub(super) fn check_instance(
        &mut self,
        handle: &FunctionHandle,
        kind: FunctionKind,
        given: &[SpecialisationArg],
        call: Span,
    ) -> Option<FunctionId> {
        let key = instance_key(handle, given)?;
        if let Some(done) = self.instances.get(&key) {
            return *done;
        }
        let file = self.file_of(&handle.unit);
        let def = handle.unit.definition(handle.function)?;
        if let Some((message, help)) = self.limit(def.name.as_str()) {
            if !std::mem::replace(&mut self.spent.limit_reported, true) {
                self.diagnostics.push(Diagnostic::error(Code::Limit, call, message).help(help));
            }
            return None;
        }
        self.spent.n_instances += 1;
        self.stack.push(OpenInstance { handle: handle.clone(), key: key.clone() });
        let n_before = self.diagnostics.len();
        let function = self.check_function(handle, def, file, kind, given);
        if !given.is_empty() && handle.is_generic_function() {
            self.name_instance(n_before, def, file, given, call);
        }
        if let Some(open) = self.stack.pop() {
            self.finished.push(open.handle);
        }
        let id = function.map(|function| {
            self.program.functions.push(function);
            FunctionId(self.program.functions.len() as u32 - 1)
        });
        self.instances.insert(key, id);
        if let Some(id) = id {
            self.check_custom(handle, id, given, call);
        }
        id
    }

    /// Checks what stands in for a function's own derivative, for the same types.
    fn check_custom(&mut self, handle: &FunctionHandle, id: FunctionId, given: &[SpecialisationArg], call: Span) {
        let (gradient, replay) = (handle.custom.gradient(), handle.custom.replay());
        if gradient.is_none() && replay.is_none() {
            return;
        }
        let function = &self.program.functions[id.0 as usize];
        let (results, span) = (function.results.clone(), function.span);
        let is_plain = |ty: &ValueType| ty.as_plain().is_some();
        let takes_plain = given.iter().all(|given| match given {
            SpecialisationArg::Value(ty) => is_plain(ty) || is_struct_of_floats(*ty),
            SpecialisationArg::Known(_) => true,
            SpecialisationArg::View(..)
            | SpecialisationArg::Own(..)
            | SpecialisationArg::Tuple(_)
            | SpecialisationArg::Incomplete(..) => false,
        });
        if !takes_plain || !results.iter().all(is_plain) || !function.updated.is_empty() {
            let message = format!("the derivative of `{}` cannot be given by another function", handle.name());
            let help = "it may be for functions of numbers, vectors and their like, structs of floats and whole arrays, \
                 without references";
            self.diagnostics.push(Diagnostic::error(Code::Unsupported, span, message).help(help));
            return;
        }
        if let Some(gradient) = gradient {
            let Some(found) = self.check_gradient(&gradient, handle, given, &results, call) else { return };
            self.program.functions[id.0 as usize].custom.gradient = found;
        }
        if let Some(replay) = replay {
            let found = self.check_instance(&replay, FunctionKind::Func, given, call);
            let gives = found.map(|found| &self.program.functions[found.0 as usize].results);
            if gives.is_some_and(|gives| *gives != results) {
                let file = self.file_of(&replay.unit);
                let def = replay.unit.definition(replay.function);
                let span = def.map_or(span, |def| span_of(file, def.name.range()));
                let message = format!("`{}` gives other types than `{}`", replay.name(), handle.name());
                let help = "what runs in a function's place gives values of the same types";
                self.diagnostics.push(Diagnostic::error(Code::TypeMismatch, span, message).help(help));
            }
            self.program.functions[id.0 as usize].custom.replay = found;
        }
    }

    /// Checks what carries derivatives through the function `of` for these types; the outer `None` is one that has other
    /// parameters, or results.
    fn check_gradient(
        &mut self,
        gradient: &FunctionHandle,
        of: &FunctionHandle,
        given: &[SpecialisationArg],
        results: &[ValueType],
        call: Span,
    ) -> Option<Option<FunctionId>> {
        let def = gradient.unit.definition(gradient.function)?;
        let file = self.file_of(&gradient.unit);
        let refuse = |this: &mut Self, range: TextRange, message: String, help: String| {
            let diagnostic = Diagnostic::error(Code::TypeMismatch, span_of(file, range), message).help(help);
            this.diagnostics.push(diagnostic);
            None
        };
        let (name, of) = (gradient.name(), of.name());
        let mut all: SmallVec<[SpecialisationArg; 4]> = given.iter().cloned().collect();
        all.extend(results.iter().map(|ty| SpecialisationArg::Value(*ty)));
        if def.parameters.len() != all.len() {
            let (n, n_results) = (given.len(), results.len());
            let message = format!(
                "`{name}` takes the {n} parameters of `{of}` and an adjoint for each of its {n_results} results"
            );
            let help = "write `adj_ret` behind the parameters of the function, or one such for each result";
            return refuse(self, def.name.range(), message, help.to_owned());
        }
        let types = gradient.parameter_types(Some(ParamType::ANY)).unwrap_or_default();
        let mut adjoints = def.parameters.iter_non_variadic_params().zip(&types).skip(given.len()).zip(results);
        if let Some(((parameter, declared), ty)) = adjoints.find(|((_, declared), ty)| !declared.takes(**ty)) {
            let (adjoint, ty) = (parameter.parameter.name.as_str(), ty.python_name());
            let message =
                format!("`{adjoint}` is the adjoint of what `{of}` gives, which is `{ty}`, and not `{declared}`");
            return refuse(self, parameter.range(), message, format!("write `{adjoint}: {ty}`"));
        }
        self.n_of_gradient = Some(given.len());
        let found = self.check_instance(gradient, FunctionKind::Func, &all, call);
        self.n_of_gradient = None;
        if found.is_some_and(|found| !self.program.functions[found.0 as usize].results.is_empty()) {
            let message = format!("`{name}` gives values, and what a gradient gives back is lost");
            let first = def.parameters.iter_non_variadic_params().next().filter(|_| !given.is_empty());
            let help = first.map_or_else(
                || "return nothing".to_owned(),
                |first| format!("add to `adjoint[{}]` and the like, and return nothing", first.parameter.name.as_str()),
            );
            let range = first_returned(def).unwrap_or_else(|| def.name.range());
            return refuse(self, range, message, help);
        }
        Some(found)
    }

    /// Adds to the errors since there were `n_before` for which types a generic function was compiled, and where those
    /// come from: alone they may be of code that nothing seems to be wrong with.
    fn name_instance(
        &mut self,
        n_before: usize,
        def: &ast::StmtFunctionDef,
        file: FileId,
        given: &[SpecialisationArg],
        call: Span,
    ) {
        let is_error = |d: &&mut Diagnostic| d.severity == polyloom_ir::Severity::Error;
        let mut errors = self.diagnostics[n_before..].iter_mut().filter(is_error).peekable();
        if errors.peek().is_none() {
            return;
        }
        let parameters = def.parameters.iter_non_variadic_params().map(|p| p.parameter.name.as_str());
        let parameters = parameters.zip(given).map(|(name, given)| match given {
            SpecialisationArg::Value(ty) => format!("{name}: {}", ty.python_name()),
            SpecialisationArg::Known(what) => format!("{name}: {}", what.describe()),
            SpecialisationArg::View(array, _) => format!("{name}: part of {}", array.python_name()),
            SpecialisationArg::Own(..) => format!("{name}: an array of the caller's own"),
            SpecialisationArg::Tuple(types) => format!("{name}: a tuple of {}", types.len()),
            SpecialisationArg::Incomplete(ty, _) => {
                format!("{name}: {} with arrays that are not set", ty.python_name())
            }
        });
        let instance = format!("`{}({})`", def.name.as_str(), parameters.collect::<Vec<_>>().join(", "));
        for error in errors.filter(|error| error.labels.len() < MAX_LABELS) {
            let (span, text) = match call {
                Span::NONE => (span_of(file, def.name.range()), format!("compiled as {instance}")),
                call => (call, format!("this call compiles {instance}")),
            };
            error.labels.push((span, text));
        }
    }

    /// Returns why a call of the function cannot be followed, and what to do.
    fn limit(&self, name: &str) -> Option<(String, &'static str)> {
        if self.spent.n_instances >= MAX_INSTANCES {
            let message = format!("the call of `{name}` leads to more than {MAX_INSTANCES} functions");
            return Some((message, "call fewer functions, or the same ones with fewer types, or split the kernel"));
        }
        if self.stack.len() >= MAX_CALL_DEPTH || self.spent.depth > MAX_DEPTH_OF_CALLS {
            let message = format!("the call of `{name}` is nested too deeply in other calls");
            return Some((message, "merge functions that only call the next, or call them on lines of their own"));
        }
        if self.spent.work >= MAX_WORK {
            let message = format!("the call of `{name}` makes the kernel too long");
            return Some((message, "use loops instead of repeated code, or split the kernel"));
        }
        None
    }

    /// Checks a function on its own, if its annotations say all its types; of a generic one, the annotations.
    pub(crate) fn check_alone(&mut self, handle: &FunctionHandle) {
        let Some(def) = handle.unit.definition(handle.function) else { return };
        let lookup = |path: &[&str]| handle.environment.lookup(path);
        let reader = AnnotationReader { text: &handle.unit.file().text, lookup: &lookup };
        let mut types: SmallVec<[ValueType; 4]> = SmallVec::new();
        let mut errors = Vec::new();
        let mut is_generic = false;
        for parameter in def.parameters.iter_non_variadic_params() {
            match parameter.parameter.annotation.as_deref().map(|a| reader.read(a)) {
                Some(Ok(ParamType::Exact(ty) | ParamType::Reference(ty))) => types.push(ty),
                None if is_instance(parameter.parameter.name.as_str()) => types.push(Type::F32.into()),
                Some(Ok(_)) | None => is_generic = true,
                // The function is checked all the same, because that reports the annotation, with everything else.
                Some(Err(error)) => {
                    types.push(Type::F32.into());
                    errors.push(error);
                }
            }
        }
        if !is_generic {
            self.check_root(handle, FunctionKind::Func, &types);
            return;
        }
        errors.extend(def.returns.as_deref().and_then(|returns| reader.read_results(returns).err()));
        let file = self.file_of(&handle.unit);
        self.diagnostics.extend(errors.into_iter().map(|error| error_of(file, error)));
    }

    /// Returns the open calls from this instance of the function to the innermost; `None` if calling it is no recursion.
    pub(super) fn open_calls(
        &self,
        handle: &FunctionHandle,
        given: &[SpecialisationArg],
    ) -> Option<Vec<&FunctionHandle>> {
        let is_open = || self.stack.iter().any(|open| open.key.0 == handle.identity());
        let key = is_open().then(|| instance_key(handle, given)).flatten()?;
        let at = self.stack.iter().position(|open| open.key == key)?;
        Some(self.stack[at..].iter().map(|open| &open.handle).collect())
    }

    fn check_function(
        &mut self,
        handle: &FunctionHandle,
        def: &ast::StmtFunctionDef,
        file: FileId,
        kind: FunctionKind,
        given: &[SpecialisationArg],
    ) -> Option<TypedFunction> {
        // Named before what it calls, so that a kernel keeps its name even if it calls a function of the same.
        let name = self.unique_name(def.name.as_str());
        let (n_diagnostics, n_shared_arrays) = (self.diagnostics.len(), self.n_shared_arrays);
        let mut zeroed: Vec<ZeroedVariable> = Vec::new();
        let mut types = InferredTypes::default();
        let mut is_last = false;
        // Calls within the body are of other functions, whichever pass over it meets them.
        let n_of_gradient = self.n_of_gradient.take();
        loop {
            let pass = (name.clone(), &zeroed[..], &types, n_of_gradient);
            match self.check_body(handle, def, file, kind, given, pass) {
                Ok(function) => return function,
                Err(_) if is_last => return None,
                // Variables that only some paths set are zero on the others, so that the body is checked again, with
                // these there from the start.
                Err(BodyRevision::Zeroed(found)) => {
                    self.diagnostics.truncate(n_diagnostics);
                    self.diagnostics.extend(found.iter().map(|variable| variable.warning.clone()));
                    zeroed = found;
                    is_last = true;
                }
                Err(BodyRevision::Types(found)) => {
                    self.diagnostics.truncate(n_diagnostics);
                    types.add(found);
                }
            }
            self.n_shared_arrays = n_shared_arrays;
        }
    }

    /// Checks a function whose body begins with these variables, and has shown these types. `Err` with what else it
    /// should begin with if nothing is wrong with it, and with types that it shows.
    fn check_body(
        &mut self,
        handle: &FunctionHandle,
        def: &ast::StmtFunctionDef,
        file: FileId,
        kind: FunctionKind,
        given: &[SpecialisationArg],
        (name, zeroed, shown_types, n_of_gradient): (Arc<str>, &[ZeroedVariable], &InferredTypes, Option<usize>),
    ) -> Result<Option<TypedFunction>, BodyRevision> {
        let unit = &*handle.unit;
        let beside = handle.arguments.as_ref().map(|unit| (&**unit, self.file_of(unit)));
        let mut checker = FunctionChecker {
            compilation: self,
            unit,
            function: handle.function,
            environment: &*handle.environment,
            file,
            kind,
            names: FxHashMap::default(),
            captured: FxHashMap::default(),
            known: Vec::new(),
            rebound: Vec::new(),
            n_rebound_outside: 0,
            n_rebound_outside_loop: 0,
            decided: Vec::new(),
            unrolled: Vec::new(),
            views: Vec::new(),
            held_arguments: Temporaries::default(),
            references: SmallVec::new(),
            around: StatementEffects::default(),
            fixed: FxHashMap::default(),
            own_result: None,
            declared_own: None,
            chosen_end: false,
            locals: Vec::new(),
            structs: Vec::new(),
            params: Vec::new(),
            n_params: 0,
            first_values: FxHashMap::default(),
            constant_values: FxHashMap::default(),
            n_loop_conditions: 0,
            assigning: None,
            deciding: false,
            counting: FxHashMap::default(),
            results: ReturnMerge::Inferred(None),
            returned_arrays: None,
            flow: FlowState::start(),
            assigned: vec![LocalSet::default()],
            loops: Vec::new(),
            depth: 0,
            n_elifs: 0,
            failed: false,
            limit_reached: false,
            reads_size: false,
            zeroed: Vec::new(),
            awaited_results: Vec::new(),
            plain_numbers: FxHashMap::default(),
            shown_types: shown_types.clone(),
            found_types: InferredTypes::default(),
        };
        checker.plain_function(def);
        let (mut metadata, constraints) = checker.decorators(def, beside);
        checker.type_variables(def, given);
        checker.parameters(def, given);
        let n_named = checker.n_params;
        checker.declare_adjoints(given, n_of_gradient);
        checker.declared_results(def);
        checker.refuse_assignment_expressions(&def.body);
        checker.collect_names(&def.body);
        let mut body = Vec::with_capacity(def.body.len());
        for variable in zeroed {
            checker.begin_with(variable, &mut body);
        }
        checker.block(&def.body, &mut body);
        let results = checker.finish_results(def, &mut body);
        metadata.reads_size = checker.reads_size;
        let FunctionChecker {
            locals,
            params,
            n_params,
            failed,
            fixed,
            references,
            assigned,
            own_result,
            zeroed,
            returned_arrays,
            found_types,
            ..
        } = checker;
        if !found_types.is_empty() {
            return Err(BodyRevision::Types(found_types));
        }
        if failed {
            return Ok(None);
        }
        if !zeroed.is_empty() {
            return Err(BodyRevision::Zeroed(zeroed));
        }
        let is_shared = |local: &LocalId| fixed.contains_key(local) || references.contains(local);
        let is_changed = |local: &LocalId| is_shared(local) && assigned.iter().any(|set| set.contains(*local));
        // Adjoints are handed back all.
        let is_array = |local: &LocalId| locals[local.0 as usize].ty.as_any_array().is_some();
        let is_updated = |local: &LocalId| local.0 >= n_named as u32 && !is_array(local) || is_changed(local);
        let updated = (0..n_params as u32).map(LocalId).filter(is_updated).collect();
        Ok(Some(TypedFunction {
            name,
            kind,
            params,
            locals,
            results,
            returned_arrays: returned_arrays.unwrap_or_default(),
            updated,
            custom: CustomDerivative::default(),
            own_result,
            body,
            metadata,
            constraints,
            span: span_of(file, def.name.range()),
        }))
    }
}

/// Returns true if a parameter is the object of a method, which kernels do not have.
fn is_instance(name: &str) -> bool {
    matches!(name, "self" | "cls")
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    pub(super) fn span(&self, node: impl Ranged) -> Span {
        span_of(self.file, node.range())
    }

    /// Reports an error.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.failed |= diagnostic.severity == polyloom_ir::Severity::Error;
        if diagnostic.code == Code::Limit && std::mem::replace(&mut self.limit_reached, true) {
            return;
        }
        self.compilation.diagnostics.push(diagnostic);
    }

    /// Reports an error with a help line and gives the rejected expression in its place.
    pub(super) fn reject(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> TypedExpr {
        self.report(Diagnostic::error(code, span, message).help(help));
        TypedExpr::error(span)
    }

    fn plain_function(&mut self, def: &ast::StmtFunctionDef) {
        if def.is_async {
            let span = self.span(def.name.range());
            let what = if self.kind == FunctionKind::Kernel { "a kernel" } else { "a function of kernels" };
            self.reject(
                Code::Unsupported,
                span,
                format!("{what} cannot be `async`"),
                "write `def` instead of `async def`",
            );
        }
    }

    /// Counts what is looked at, and says whether there is still room; that there is none is reported once.
    pub(super) fn spend(&mut self, work: usize, at: &impl Ranged) -> bool {
        self.compilation.spent.work = self.compilation.spent.work.saturating_add(work);
        if self.compilation.spent.work < MAX_WORK {
            return true;
        }
        self.failed = true;
        if !std::mem::replace(&mut self.compilation.spent.limit_reported, true) {
            let span = self.span(at);
            let message = "the kernel with the functions it calls is too long";
            self.reject(Code::Limit, span, message, "use loops instead of repeated code, or split the kernel");
        }
        false
    }

    fn decorators(
        &mut self,
        def: &'a ast::StmtFunctionDef,
        beside: Option<(&SourceUnit, FileId)>,
    ) -> (polyloom_ir::KernelMetadata, polyloom_ir::ExecutionConstraints) {
        let info = self.unit.functions().get(self.function);
        if info.is_some_and(|info| info.of.is_some()) {
            // Its decorator says which function it belongs to, and nothing else.
            return Default::default();
        }
        let environment = self.environment;
        let mut reader = decorator::DecoratorReader {
            file: self.file,
            lookup: &|path| environment.lookup(path),
            options: self.compilation.options,
            diagnostics: Vec::new(),
        };
        let read = reader.read(def, info.and_then(|info| info.decorator), beside, self.kind);
        for diagnostic in reader.diagnostics {
            self.report(diagnostic);
        }
        read
    }

    /// Reads an annotation in the function's surroundings.
    pub(super) fn annotation(&mut self, expr: &'a ast::Expr) -> Option<ParamType> {
        let known = |path: &[&str]| self.known_or_outside(path);
        let reader = AnnotationReader { text: &self.unit.file().text, lookup: &known };
        match reader.read(expr) {
            Ok(ty) => Some(ty),
            Err(error) => {
                self.report(error_of(self.file, error));
                None
            }
        }
    }

    fn parameters(&mut self, def: &'a ast::StmtFunctionDef, given: &[SpecialisationArg]) {
        let parameters = &*def.parameters;
        for variadic in [&parameters.vararg, &parameters.kwarg].into_iter().flatten() {
            let span = self.span(variadic.range);
            self.reject(
                Code::Unsupported,
                span,
                "a function takes a fixed number of parameters",
                "name each parameter and give it a type",
            );
        }
        for (i, parameter) in parameters.iter_non_variadic_params().enumerate() {
            let name = &parameter.parameter.name;
            let span = self.span(name.range());
            if self.kind == FunctionKind::Kernel
                && let Some(default) = &parameter.default
            {
                let span = self.span(&**default);
                self.reject(
                    Code::Unsupported,
                    span,
                    "a kernel's parameters have no defaults",
                    "pass the value when the kernel is launched",
                );
            }
            let annotated = match &parameter.parameter.annotation {
                None if self.kind == FunctionKind::Func && !is_instance(name) => Some(ParamType::ANY),
                None => {
                    let message = format!("the parameter `{}` has no type", name.as_str());
                    let help = match name.as_str() {
                        "self" | "cls" => {
                            "define it outside the class, with what it needs of it as parameters".to_owned()
                        }
                        name => format!("write `{name}: float`, or `{name}: {}.array(dtype=float)`", self.package()),
                    };
                    self.reject(Code::MissingAnnotation, span, message, help);
                    None
                }
                Some(annotation) => self.annotation(annotation),
            };
            let binding = match (annotated, given.get(i)) {
                (Some(_), Some(SpecialisationArg::Known(what))) => {
                    self.known.push(what.clone());
                    NameMeaning::Known(self.known.len() - 1)
                }
                (Some(_), Some(SpecialisationArg::View(array, indices))) => {
                    self.view_parameter(name.as_str(), *array, indices, span)
                }
                (Some(_), Some(SpecialisationArg::Own(fixed, indices))) => {
                    self.own_parameter(name.as_str(), fixed, indices, span)
                }
                (Some(_), Some(SpecialisationArg::Tuple(types))) => self.tuple_parameter(name.as_str(), types, span),
                (Some(_), Some(SpecialisationArg::Incomplete(ty, unset))) => {
                    self.incomplete_parameter(name.as_str(), *ty, unset, span)
                }
                (Some(ParamType::Reference(_)), _) if self.kind == FunctionKind::Kernel => {
                    let message = format!("a kernel has no parameters by reference, as `{}` is", name.as_str());
                    self.reject(Code::BadAnnotation, span, message, "pass an array of one element");
                    NameMeaning::Poisoned
                }
                (Some(annotated), Some(&SpecialisationArg::Value(ty))) => {
                    let first = self.locals.len() as u32;
                    let binding = self.parameter(name.as_str(), ty, span);
                    if let ParamType::Reference(_) = annotated {
                        for local in first..self.locals.len() as u32 {
                            self.references.push(LocalId(local));
                            // It counts as read everywhere, because its value at the end of the function is handed
                            // back.
                            self.locals[local as usize].first_read = 0;
                            self.locals[local as usize].last_read = u32::MAX;
                        }
                    }
                    binding
                }
                (Some(ParamType::Exact(ty)), None) => self.parameter(name.as_str(), ty, span),
                (Some(_), None) if let Some(&ty) = self.shown_types.results.get(&i) => {
                    self.parameter(name.as_str(), ty, span)
                }
                (Some(ParamType::GenericArray(_, ndim)), None) if let Some(ty) = self.result_of_variable(i, ndim) => {
                    self.parameter(name.as_str(), ty, span)
                }
                (Some(_), None) if self.unit.loom_function(self.function).is_some_and(|f| f.inferred.contains(&i)) => {
                    self.awaited_results.push((name.as_str(), i));
                    self.failed = true;
                    NameMeaning::Poisoned
                }
                _ => {
                    // Without a type the function is rejected; it is checked all the same, so that its other mistakes
                    // are found.
                    self.failed = true;
                    NameMeaning::Poisoned
                }
            };
            self.names.insert(name.as_str(), binding);
        }
        self.n_params = self.locals.len();
    }

    /// The adjoints of the parameters, in a function that carries derivatives: parameters by reference.
    fn declare_adjoints(&mut self, given: &[SpecialisationArg], n_of_gradient: Option<usize>) {
        let unit = self.unit;
        let Some(info) = unit.functions().get(self.function) else { return };
        let Some(n) = n_of_gradient.filter(|_| info.role == Some(FunctionRole::Gradient)) else { return };
        let moving: Vec<(&Arc<str>, ValueType)> = info
            .adjoints
            .iter()
            .zip(given)
            .take(n)
            .filter_map(|(name, given)| match given {
                SpecialisationArg::Value(ty) if is_struct_of_floats(*ty) => Some((name, *ty)),
                SpecialisationArg::Value(ty @ ValueType::Plain(plain)) if plain.is_float() => Some((name, *ty)),
                _ => None,
            })
            .collect();
        let is_array = |ty: ValueType| ty.as_plain().and_then(Type::as_any_array).is_some();
        let named = unit.definition(self.function).map(adjoints_in).unwrap_or_default();
        let is_named = |name: &str| named.iter().any(|(adjoint, _)| *adjoint == name);
        let with_arrays = moving.iter().any(|(name, ty)| is_array(*ty) && is_named(name));
        for (name, ty) in moving {
            if is_array(ty) {
                if with_arrays {
                    let binding = self.parameter(name, ty, Span::NONE);
                    self.names.insert(name, binding);
                }
                continue;
            }
            let first = self.locals.len() as u32;
            let binding = self.parameter(name, ty, Span::NONE);
            for local in first..self.locals.len() as u32 {
                self.references.push(LocalId(local));
                self.locals[local as usize].first_read = 0;
                self.locals[local as usize].last_read = u32::MAX;
            }
            self.names.insert(name, binding);
        }
        for (adjoint, range) in named {
            let Entry::Vacant(entry) = self.names.entry(adjoint) else { continue };
            entry.insert(NameMeaning::Poisoned);
            self.refuse_adjoint(
                adjoint,
                range,
                info.adjoints.iter().position(|name| **name == *adjoint).filter(|at| *at < n),
            );
        }
        self.n_params = self.locals.len();
    }

    /// Says that there is no such adjoint: of something else than a parameter that moves, which `at` says it is.
    fn refuse_adjoint(&mut self, adjoint: &str, range: TextRange, at: Option<usize>) {
        let name = parameter_of(adjoint).unwrap_or(adjoint);
        let why = match at {
            Some(_) => "derivatives are with respect to floating-point numbers and what is made of these",
            None => "it is no parameter of the function that this is the gradient of",
        };
        let help = match at {
            Some(_) => format!("leave `{adjoint}` out"),
            None => "work out what is to be added to the adjoints of the parameters in variables of its own".to_owned(),
        };
        let span = self.span(range);
        self.reject(Code::NotDifferentiable, span, format!("`{name}` has no adjoint: {why}"), help);
    }

    /// A variable that has its value when the function begins.
    pub(super) fn parameter(&mut self, name: &str, ty: ValueType, span: Span) -> NameMeaning {
        self.params.push(TypedParam { name: name.into(), ty });
        let first = self.locals.len() as u32;
        let binding = match ty {
            ValueType::Plain(ty) => NameMeaning::Local(self.new_local(name, ty, span)),
            _ => self.new_struct(name, ty, span, true),
        };
        for local in first..self.locals.len() as u32 {
            self.flow.set.insert(LocalId(local));
        }
        match ty {
            ValueType::Struct(of) if of.is_indexed_array() => {
                let leaves = self.locals_from(first as usize).map(|local| {
                    TypedExpr::new(ExprKind::Local(local), ExprType::Value(self.locals[local.0 as usize].ty), span)
                });
                let leaves = leaves.collect();
                match self.indexed_array(leaves, span) {
                    Some(view) => self.named_view(view),
                    None => binding,
                }
            }
            _ => binding,
        }
    }

    /// Returns the number of variables there are.
    pub(super) fn n_locals(&self) -> usize {
        self.locals.len()
    }

    /// The variables made since there were so many.
    pub(super) fn locals_from(&self, first: usize) -> impl Iterator<Item = LocalId> + use<> {
        (first as u32..self.locals.len() as u32).map(LocalId)
    }

    pub(super) fn new_local(&mut self, name: &str, ty: Type, span: Span) -> LocalId {
        self.locals.push(LocalVariable { name: Arc::from(name), ty, span, first_read: u32::MAX, last_read: 0 });
        LocalId(self.locals.len() as u32 - 1)
    }

    /// Notes every name the body assigns, because in Python these are the function's own wherever they stand.
    fn collect_names(&mut self, body: &'a [ast::Stmt]) {
        for stmt in body {
            match stmt {
                ast::Stmt::Assign(s) => s.targets.iter().for_each(|t| self.collect_target(t)),
                ast::Stmt::AugAssign(s) => self.collect_target(&s.target),
                ast::Stmt::AnnAssign(s) => self.collect_target(&s.target),
                ast::Stmt::For(s) => self.collect_target(&s.target),
                // A nested function is passed over, since its names are not this function's; it is rejected later.
                ast::Stmt::FunctionDef(_) | ast::Stmt::ClassDef(_) => continue,
                _ => {}
            }
            for block in crate::source::blocks_of(stmt) {
                self.collect_names(block);
            }
        }
    }

    fn collect_target(&mut self, target: &'a ast::Expr) {
        match target {
            ast::Expr::Name(name) => {
                let span = self.span(name);
                if let Entry::Vacant(entry) = self.names.entry(name.id.as_str()) {
                    entry.insert(NameMeaning::Later(span));
                }
            }
            ast::Expr::Tuple(tuple) => tuple.elts.iter().for_each(|t| self.collect_target(t)),
            ast::Expr::List(list) => list.elts.iter().for_each(|t| self.collect_target(t)),
            _ => {}
        }
    }
}

/// True of a struct all of whose leaves are floating-point numbers or are made of these: its adjoint is such a struct.
fn is_struct_of_floats(ty: ValueType) -> bool {
    let is_float = |leaf: &Type| leaf.is_float() && leaf.as_any_array().is_none();
    matches!(ty, ValueType::Struct(_)) && !ty.leaf_types().is_empty() && ty.leaf_types().iter().all(is_float)
}
