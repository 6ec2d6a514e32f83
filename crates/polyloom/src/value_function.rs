//! Functions of values as kernels of one thread, so that one way leads to code.
//!
//! The text of the kernel calls the function and stores its results, each in an array of one element. Native functions
//! return them as values again ([`crate::NativeFunction`]).

use crate::Defaults;
use crate::emit_options::EmitError;
use crate::kernel::Kernel;
use crate::native_function::NativeFunction;
use crate::session::Session;
use polyloom_frontend::{
    CapturedMeaning, CompileError, FileEnvironment, FunctionHandle, NameEnvironment, ParamType, SourceUnit, ValueType,
    function_error, no_such_kernel, package_member,
};
use polyloom_ir::{Code, SourceFile, Type};
use std::sync::Arc;

/// A function of values as a kernel.
pub(crate) struct ValueKernel {
    pub(crate) kernel: Kernel,
    /// The types of the function's results, for which the kernel's last parameters are.
    pub(crate) results: Vec<Type>,
}

impl Session {
    /// A function of scalars, composites, structs and arrays as a native function, compiled now. All its parameters have
    /// annotations.
    ///
    /// # Errors
    ///
    /// All that is wrong with the function; when it returns what is no value in C, or LLVM cannot compile it.
    pub fn native_function(&self, function: &FunctionHandle, defaults: Defaults) -> Result<NativeFunction, EmitError> {
        let ValueKernel { kernel, results } = self.value_kernel(function, defaults)?;
        NativeFunction::new(Arc::new(kernel), &function.name(), &results)
    }

    /// The function or kernel of a file with this name as a native function.
    ///
    /// # Errors
    ///
    /// As [`Session::native_function`] and [`Kernel::native_function`], and if the file has nothing of the name.
    pub fn file_function(&self, unit: &Arc<SourceUnit>, name: &str) -> Result<NativeFunction, EmitError> {
        let named = |&index: &usize| unit.functions().get(index).is_some_and(|function| &*function.name == name);
        if let Some(kernel) = unit.kernels().filter(named).last() {
            return Arc::new(self.compile_file_function(unit, kernel)?).native_function();
        }
        // The last one is taken, because a later definition replaces an earlier one in Python.
        let found = (0..unit.functions().len()).rfind(named);
        let function = found.ok_or_else(|| no_such_kernel(unit, Some(name)))?;
        self.native_function(&FileEnvironment::new(unit).function(function), self.defaults())
    }

    /// The kernel of one thread that stores what a function returns.
    pub(crate) fn value_kernel(&self, function: &FunctionHandle, defaults: Defaults) -> Result<ValueKernel, EmitError> {
        let name = function.name();
        let refused =
            |message: String, help: &str| EmitError::from(function_error(function, Code::NotNative, message, help));
        let results = self.result_types(function, defaults)?;
        let plain = |ty: &ValueType| match ty {
            ValueType::Plain(ty @ (Type::Scalar(_) | Type::Composite(_))) => Ok(*ty),
            _ => {
                let message = format!("`{name}` returns {}, which is no value in C", ty.python_name());
                Err(refused(message, "return its parts, or make it a kernel that stores them"))
            }
        };
        let results: Vec<Type> = results.iter().map(plain).collect::<Result<_, _>>()?;
        if results.is_empty() {
            return Err(refused(
                format!("`{name}` returns nothing"),
                "make it a kernel: decorate it with `@loom.kernel`",
            ));
        }
        let exact = |(name, ty): (Arc<str>, ParamType)| match ty {
            ParamType::Exact(ty) => Some((name, ty)),
            _ => None,
        };
        let params: Option<Vec<(Arc<str>, ValueType)>> =
            function.parameters().unwrap_or_default().into_iter().map(exact).collect();
        let missing = || refused(format!("`{name}` is generic"), "give each parameter one type");
        let params = params.ok_or_else(missing)?;
        let kernel = self.compile(&calling(function, &params, &results)?, defaults)?;
        Ok(ValueKernel { kernel, results })
    }
}

/// The kernel that calls a function with these parameters and stores results of these types.
fn calling(
    function: &FunctionHandle,
    params: &[(Arc<str>, ValueType)],
    results: &[Type],
) -> Result<FunctionHandle, CompileError> {
    let targets: Vec<String> = (0..results.len())
        .map(|index| {
            let mut name = format!("result{index}");
            while params.iter().any(|(param, _)| **param == *name) {
                name.push('_');
            }
            name
        })
        .collect();
    let given = params.iter().enumerate().map(|(index, (name, _))| format!("{name}: polyloom_type_{index}"));
    let stored = targets.iter().enumerate().map(|(index, name)| format!("{name}: polyloom_result_{index}"));
    let declared: Vec<String> = given.chain(stored).collect();
    let names: Vec<&str> = params.iter().map(|(name, _)| &**name).collect();
    let stores: Vec<String> = targets.iter().map(|name| format!("{name}[0]")).collect();
    let (declared, stores, names) = (declared.join(", "), stores.join(", "), names.join(", "));
    let text = format!(
        "import polyloom\n@polyloom.kernel\ndef {}({declared}):\n    {stores} = polyloom_function({names})\n",
        function.name()
    );
    let environment = Arc::new(ValueEnvironment {
        function: function.clone(),
        types: params.iter().map(|(_, ty)| *ty).collect(),
        results: results.iter().map(|&ty| Type::array_of(ty, 1)).collect(),
    });
    let unit = SourceUnit::parse(SourceFile::new("<function>", text, 1))?;
    Ok(FunctionHandle { unit, function: 0, environment, arguments: None, custom: Default::default() })
}

/// Describes what the names in the text of the kernel mean.
struct ValueEnvironment {
    function: FunctionHandle,
    types: Box<[ValueType]>,
    results: Box<[Option<Type>]>,
}

impl NameEnvironment for ValueEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        let [name] = path else {
            return match path {
                ["polyloom", member] => package_member(member),
                _ => None,
            };
        };
        let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
        if *name == "polyloom" {
            return Some(CapturedMeaning::Module("polyloom".into()));
        }
        if *name == "polyloom_function" {
            return Some(CapturedMeaning::Function(vec![self.function.clone()]));
        }
        let ty = match number("polyloom_type_") {
            Some(index) => *self.types.get(index)?,
            None => (*self.results.get(number("polyloom_result_")?)?)?.into(),
        };
        Some(CapturedMeaning::Annotation(ParamType::Exact(ty)))
    }
}
