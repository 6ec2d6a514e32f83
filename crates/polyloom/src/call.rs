//! Builtins and operators of values outside kernels.
//!
//! What a builtin computes is defined once, for kernels; so a call of it is a kernel of one thread, compiled once for
//! each builtin and types of arguments.

use crate::Defaults;
use crate::kernel::Kernel;
use crate::session::Session;
use polyloom_frontend::{
    BuiltinFunction, CapturedMeaning, CompileError, FunctionHandle, NameEnvironment, ParamType, SourceUnit, ValueType,
    package_member,
};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{Scalar, SourceFile, Type};
use polyloom_runtime::{ArgBlock, LaunchOptions};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most calls that are kept compiled.
const MAX_KEPT: usize = 4096;

/// The bits of a value's components, zero-extended.
pub type Bits = SmallVec<[u64; 16]>;

/// Why a call has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// Its arguments or its result are no values outside kernels.
    #[error("the call has no value outside kernels")]
    NoValue,
    /// There is no such builtin, or it does not take these arguments.
    #[error("{0}")]
    Arguments(String),
    /// It cannot be compiled or run.
    #[error("{0}")]
    Failed(String),
}

/// The calls compiled so far.
#[derive(Default)]
pub(crate) struct BuiltinCalls {
    compiled: Mutex<HashMap<Key, Arc<BuiltinCall>>>,
}

/// An expression and the types of its variables.
type Key = (Box<str>, SmallVec<[Type; 4]>);

struct BuiltinCall {
    kernel: Kernel,
    results: Box<[Type]>,
}

impl Session {
    /// The value of an expression such as `polyloom.dot(x0, x1)` or `x0 * x1`, where `x0`, `x1`, … are these values;
    /// the values of one such as `polyloom.svd3(x0)`.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub fn call(&self, expression: &str, args: &[(Type, Bits)]) -> Result<Vec<(Type, Bits)>, CallError> {
        let types: SmallVec<[Type; 4]> = args.iter().map(|(ty, _)| *ty).collect();
        let key = (expression.into(), types);
        let compiled = || self.calls().compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let known = compiled().get(&key).cloned();
        let call = match known {
            Some(call) => call,
            None => {
                let call = Arc::new(self.compile_call(expression, &key.1)?);
                let mut compiled = compiled();
                if compiled.len() >= MAX_KEPT {
                    compiled.clear();
                }
                compiled.insert(key, call.clone());
                call
            }
        };
        call.run(args)
    }

    fn compile_call(&self, expression: &str, types: &[Type]) -> Result<BuiltinCall, CallError> {
        let mut params: Vec<String> = (0..types.len()).map(|index| format!("x{index}: t{index}")).collect();
        let defaults = Defaults::default();
        let text =
            format!("import polyloom\n@polyloom.func\ndef call({}):\n    return {expression}\n", params.join(", "));
        let plain = |ty: &ValueType| match ty {
            ValueType::Plain(ty) => Ok(*ty),
            _ => Err(CallError::NoValue),
        };
        let results = self.result_types(&function_of(text, types, &[])?, defaults).map_err(refused)?;
        let results: Box<[Type]> = results.iter().map(plain).collect::<Result<_, _>>()?;
        params.extend((0..results.len()).map(|index| format!("out{index}: t_out{index}")));
        let targets: Vec<String> = (0..results.len()).map(|index| format!("out{index}[0]")).collect();
        let (params, targets) = (params.join(", "), targets.join(", "));
        if targets.is_empty() {
            return Err(CallError::NoValue);
        }
        let text = format!("import polyloom\n@polyloom.kernel\ndef call({params}):\n    {targets} = {expression}\n");
        let kernel = self.compile(&function_of(text, types, &results)?, defaults).map_err(refused)?;
        Ok(BuiltinCall { kernel, results })
    }
}

/// The one function of a text that computes with parameters of these types and may store results of those types.
fn function_of(text: String, types: &[Type], results: &[Type]) -> Result<FunctionHandle, CallError> {
    let out = results.iter().map(|&ty| Type::array_of(ty, 1)).collect();
    let environment = Arc::new(CallEnvironment { types: types.into(), out });
    let unit = SourceUnit::parse(SourceFile::new("<call>", text, 1)).map_err(refused)?;
    Ok(FunctionHandle { unit, function: 0, environment, arguments: None, custom: Default::default() })
}

fn refused(error: CompileError) -> CallError {
    let first = error.diagnostics.first();
    CallError::Arguments(first.map_or_else(|| error.to_string(), |diagnostic| diagnostic.message.clone()))
}

impl BuiltinCall {
    fn run(&self, args: &[(Type, Bits)]) -> Result<Vec<(Type, Bits)>, CallError> {
        let params = self.kernel.params();
        let mut block = ArgBlock::new();
        let failed = |error: &dyn std::fmt::Display| CallError::Failed(error.to_string());
        for (ty, bits) in args {
            let elem = elem_of(*ty).ok_or(CallError::NoValue)?;
            for &bits in bits {
                block.scalar(params, elem, bits).map_err(|error| failed(&error))?;
            }
        }
        let mut outputs: SmallVec<[ResultMemory; 3]> = SmallVec::new();
        for &result in &self.results {
            outputs.push(ResultMemory::new(result).ok_or(CallError::NoValue)?);
        }
        for output in &mut outputs {
            let base = output.words.as_mut_ptr().cast();
            block.array(params, output.elem, base, &output.shape, &output.strides).map_err(|error| failed(&error))?;
        }
        // SAFETY: the outputs outlive the launch and each holds the one element that the one thread stores.
        unsafe { self.kernel.launch(&[1], &block, &LaunchOptions::default()) }.map_err(|error| failed(&error))?;
        Ok(self.results.iter().zip(&outputs).map(|(&ty, output)| (ty, output.bits())).collect())
    }
}

/// Memory for one result.
struct ResultMemory {
    elem: Scalar,
    /// Words keep the elements aligned for every type.
    words: Vec<u64>,
    shape: SmallVec<[u64; 3]>,
    strides: SmallVec<[i64; 3]>,
}

impl ResultMemory {
    fn new(ty: Type) -> Option<ResultMemory> {
        let elem = elem_of(ty)?;
        let shape: SmallVec<[u64; 3]> = match ty {
            Type::Composite(composite) => [1].into_iter().chain(composite.shape().iter().map(|&n| n.into())).collect(),
            _ => SmallVec::from_slice(&[1]),
        };
        let n = shape.iter().product::<u64>() as usize;
        let bytes = elem.bytes() as usize;
        let mut strides: SmallVec<[i64; 3]> = SmallVec::from_elem(bytes as i64, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as i64;
        }
        Some(ResultMemory { elem, words: vec![0; (n * bytes).div_ceil(8)], shape, strides })
    }

    /// The bits of the components.
    fn bits(&self) -> Bits {
        let bytes = self.elem.bytes() as usize;
        let mask = u64::MAX >> (64 - 8 * bytes);
        let n = self.shape.iter().product::<u64>() as usize;
        (0..n).map(|index| (self.words[index * bytes / 8] >> (index * bytes % 8 * 8)) & mask).collect()
    }
}

fn elem_of(ty: Type) -> Option<Scalar> {
    ty.as_scalar().or_else(|| Some(ty.as_composite()?.elem()))
}

/// Returns true if a builtin's result follows from the values it is given, and it does nothing else, so that it can be
/// called outside kernels.
pub fn is_function_of_values(name: &str) -> bool {
    match package_member(name) {
        Some(CapturedMeaning::Builtin(BuiltinFunction::Op(op))) => {
            let info = op.info();
            info.is_pure()
                && info.group != OpGroup::Gpu
                && info.signatures.iter().any(|s| s.params.iter().all(|param| !param.inout))
        }
        Some(CapturedMeaning::Builtin(BuiltinFunction::Fold(_) | BuiltinFunction::Construct(_))) => true,
        _ => false,
    }
}

/// Describes what the names in the text of a call mean: the package, and the types of its parameters.
struct CallEnvironment {
    types: Box<[Type]>,
    out: Box<[Option<Type>]>,
}

impl NameEnvironment for CallEnvironment {
    fn lookup(&self, path: &[&str]) -> Option<CapturedMeaning> {
        let ty = match path {
            ["polyloom"] => return Some(CapturedMeaning::Module("polyloom".into())),
            ["polyloom", member] => return package_member(member),
            [name] if name.starts_with("t_out") => (*self.out.get(name["t_out".len()..].parse::<usize>().ok()?)?)?,
            [name] => *self.types.get(name.strip_prefix('t')?.parse::<usize>().ok()?)?,
            _ => return None,
        };
        Some(CapturedMeaning::Annotation(ParamType::Exact(ty.into())))
    }
}
