//! What names mean to a function of a live Python program: closure cells, globals, then Python's builtins.
//!
//! Names are looked up when a function is defined, and what is found is taken by value, with two exceptions: a name
//! that has no meaning yet is looked up when a kernel that uses it is compiled, and a function goes on gaining
//! overloads.
//!
//! Design: `docs/design/names-and-instances.md`.

use crate::builtin_call::composite_value;
use crate::capture::{capture, module_member};
use crate::function::Function;
use crate::scope::Scope;
use polyloom::SourceUnit;
use polyloom::frontend::{CapturedMeaning, FunctionHandle, KernelVariable, NameEnvironment, python_builtin};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// Says where an expression stands, with the variables in it.
pub(crate) type Evaluation = (u32, Vec<(Box<str>, KernelVariable)>);

/// The names a function sees.
pub(crate) struct LiveEnvironment {
    /// A weak reference to the scope.
    scope: Py<PyWeakrefReference>,
    /// Holds what names meant when the function was defined, by dotted path.
    captured: BTreeMap<Box<str>, CapturedMeaning>,
    /// Holds what Python has computed: an expression keeps its value, whenever the code around it is compiled again.
    evaluated: Mutex<HashMap<Evaluation, CapturedMeaning>>,
}

impl LiveEnvironment {
    /// The surroundings of the function with this index in its file, as they are now, and the scope that they refer to.
    pub(crate) fn new<'py>(
        py: Python<'py>,
        unit: &SourceUnit,
        function: usize,
        globals: Py<PyDict>,
        cells: Py<PyDict>,
    ) -> PyResult<(LiveEnvironment, Bound<'py, Scope>)> {
        let mut scope = Scope { globals, cells, objects: PyDict::new(py).unbind(), functions: Vec::new() };
        let mut captured = BTreeMap::new();
        let free = unit.free_names(function);
        let own_name = unit.functions().get(function).map(|info| &info.name);
        for path in free.paths {
            // Its own name is about to mean this function too.
            if own_name.is_some_and(|own| **own == *path) {
                continue;
            }
            let parts: SmallVec<[&str; 4]> = path.split('.').collect();
            // What only Python's own builtins give a meaning may still be defined.
            let Some(root) = scope.root(py, parts[0]) else { continue };
            match scope.find(py, &parts) {
                Some(CapturedMeaning::Function(found)) if is_outdated(unit, function, &found) => {}
                // `None`, say, until a later line gives it a meaning.
                Some(CapturedMeaning::Unsupported(_) | CapturedMeaning::Unknown(_)) | None => {}
                Some(found) => {
                    let members = parts[1..].iter().try_fold(root, |value, name| value.getattr(*name).ok());
                    if let Some(Ok(function)) = members.map(Bound::cast_into::<Function>) {
                        scope.functions.push(function.unbind());
                    }
                    captured.insert(path.as_str().into(), found);
                }
            }
        }
        for name in free.in_static {
            if let Some(object) = scope.root(py, &name) {
                scope.objects.bind(py).set_item(name, object)?;
            }
        }
        let scope = Bound::new(py, scope)?;
        let made =
            LiveEnvironment { scope: PyWeakrefReference::new(&scope)?.unbind(), captured, evaluated: Mutex::default() };
        Ok((made, scope))
    }

    /// The scope, while something that may be compiled owns it.
    fn scope<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Scope>> {
        self.scope.bind(py).upgrade()?.cast_into().ok()
    }

    /// Returns what names mean that had a meaning when the function was defined, and the static expressions computed so
    /// far.
    pub(crate) fn captures(&self) -> (&BTreeMap<Box<str>, CapturedMeaning>, HashMap<Evaluation, CapturedMeaning>) {
        (&self.captured, self.evaluated.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Scope {
    fn run(&self, py: Python<'_>, expression: &str, variables: &[(&str, KernelVariable)]) -> PyResult<CapturedMeaning> {
        // One dictionary of all names, so that comprehensions see them too.
        let names = self.globals.bind(py).copy()?;
        for (name, value) in self.cells.bind(py) {
            match contents(value) {
                Some(value) => names.set_item(name, value)?,
                // A closure variable hides the global of its name, set or not.
                None if names.contains(&name)? => names.del_item(name)?,
                None => {}
            }
        }
        names.update(self.objects.bind(py).as_mapping())?;
        for (name, variable) in variables {
            match variable {
                KernelVariable::Bool(value) => names.set_item(name, value)?,
                KernelVariable::Int(value) => names.set_item(name, value)?,
                KernelVariable::Float(bits) => names.set_item(name, f64::from_bits(*bits))?,
                KernelVariable::Composite(bits, composite) => {
                    names.set_item(name, composite_value(py, *composite, bits)?)?;
                }
                KernelVariable::OfLength(n) => names.set_item(name, PyTuple::new(py, (0..*n).map(|_| py.None()))?)?,
            }
        }
        // In parentheses it may go over several lines.
        let code = CString::new(format!("({expression}\n)"))?;
        let value = py.eval(&code, Some(&names), None)?;
        let meaning = capture(&value);
        if matches!(meaning, CapturedMeaning::Unsupported(_)) {
            let problem = py.import("polyloom._static_values")?.call_method1("why_unsupported", (&value,))?;
            if !problem.is_none() {
                return Err(PyTypeError::new_err(problem.unbind()));
            }
        }
        Ok(meaning)
    }

    fn root<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyAny>> {
        let find = |names: &Py<PyDict>| names.bind(py).get_item(name).ok().flatten();
        match find(&self.cells) {
            Some(value) => contents(value),
            None => find(&self.globals),
        }
    }

    /// True for a closure variable that the function around has not set yet.
    fn is_empty_cell(&self, py: Python<'_>, name: &str) -> bool {
        let value = self.cells.bind(py).get_item(name).ok().flatten();
        value.is_some_and(|value| contents(value).is_none())
    }

    /// Returns what a path means now.
    fn find(&self, py: Python<'_>, path: &[&str]) -> Option<CapturedMeaning> {
        let (first, rest) = path.split_first()?;
        let mut value = match self.root(py, first) {
            Some(value) => value,
            None if self.is_empty_cell(py, first) => {
                return Some(CapturedMeaning::Unknown("a variable that the function around it has not set yet"));
            }
            None if rest.is_empty() => return python_builtin(first),
            None => return None,
        };
        for (index, name) in rest.iter().enumerate() {
            if index + 1 == rest.len()
                && let Ok(module) = value.cast::<PyModule>()
                && let Some(member) = module_member(module, name)
            {
                return Some(member);
            }
            value = value.getattr(*name).ok()?;
        }
        Some(capture(&value))
    }
}

/// The value of a closure variable, given as a value or as its cell; `None` if the cell is empty.
fn contents(value: Bound<'_, PyAny>) -> Option<Bound<'_, PyAny>> {
    if value.get_type().qualname().is_ok_and(|name| name == "cell") {
        return value.getattr("cell_contents").ok();
    }
    Some(value)
}

/// Returns true if a function is from an earlier run of the text that defines this one, and stands below it there,
/// because it is about to be defined anew.
fn is_outdated(unit: &SourceUnit, function: usize, found: &[FunctionHandle]) -> bool {
    found.iter().any(|other| unit.will_define_again(function, &other.unit, other.function))
}

/// The function with the overloads that it has gained since it was captured. What is now another function is not it.
fn with_overloads(captured: &[FunctionHandle], now: Option<CapturedMeaning>) -> Vec<FunctionHandle> {
    match now {
        Some(CapturedMeaning::Function(now))
            if captured.iter().all(|known| now.iter().any(|other| other.is_same(known))) =>
        {
            now
        }
        _ => captured.to_vec(),
    }
}

impl NameEnvironment for LiveEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        match self.captured.get(&*path.join(".")) {
            Some(CapturedMeaning::Function(captured)) => {
                let now = Python::attach(|py| self.scope(py)?.get().find(py, path));
                Some(CapturedMeaning::Function(with_overloads(captured, now)))
            }
            Some(captured) => Some(captured.clone()),
            None => Python::attach(|py| self.scope(py)?.get().find(py, path)),
        }
    }

    fn evaluate(
        &self,
        expression: &str,
        offset: u32,
        variables: &[(&str, KernelVariable)],
    ) -> Option<Result<CapturedMeaning, String>> {
        let evaluated = || self.evaluated.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Evaluation = (offset, variables.iter().map(|(name, v)| ((*name).into(), v.clone())).collect());
        if let Some(known) = evaluated().get(&key) {
            return Some(Ok(known.clone()));
        }
        let run = |py: Python<'_>| match self.scope(py) {
            Some(scope) => scope.get().run(py, expression, variables),
            None => Err(PyRuntimeError::new_err("the program has dropped the function that this is in")),
        };
        Some(Python::attach(|py| match run(py) {
            Ok(value) => {
                evaluated().insert(key, value.clone());
                Ok(value)
            }
            Err(error) => {
                let name = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
                Err(format!("{name}: {}", error.value(py)))
            }
        }))
    }

    fn names(&self) -> Vec<String> {
        Python::attach(|py| {
            let Some(scope) = self.scope(py) else { return Vec::new() };
            let all = [&scope.get().cells, &scope.get().globals].into_iter().flat_map(|names| names.bind(py).keys());
            all.filter_map(|name| name.extract::<String>().ok()).filter(|name| !name.starts_with("__")).collect()
        })
    }
}
