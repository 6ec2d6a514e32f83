//! The types that a generic kernel is compiled for: given by `--type`, or those of the arguments of `run`.

use crate::{CommandFailure, value};
use polyloom::frontend::{FunctionHandle, ParamType, TypePattern, read_type};
use polyloom::{Composite, Kernel, Scalar, Session, Type, ValueType};
use std::collections::BTreeMap;

/// Compiles a kernel of a Python file. `types` has the types given for its generic parameters, and `values` the arguments
/// that say the others.
pub(crate) fn compile(
    session: &Session,
    handle: &FunctionHandle,
    name: &str,
    types: &BTreeMap<&str, &str>,
    values: &BTreeMap<&str, &str>,
) -> Result<Kernel, CommandFailure> {
    let params = handle.parameters().unwrap_or_default();
    if let Some(stray) = types.keys().find(|given| !params.iter().any(|(param, _)| **param == ***given)) {
        let names: Vec<&str> = params.iter().map(|(param, _)| &**param).collect();
        let names = names.join(", ");
        return Err(CommandFailure::Usage(format!(
            "--type {stray}: kernel `{name}` has no such parameter; it has {names}"
        )));
    }
    if !handle.is_generic_kernel() && types.is_empty() {
        return Ok(session.compile(handle, session.defaults())?);
    }
    let chosen = chosen_types(handle, name, types, values)?;
    Ok(session.compile_for(handle, &chosen, session.defaults())?)
}

/// The types of a kernel's parameters: those given, those of the arguments, and in `.loom`, where neither says, those
/// for which the kernel is checked.
pub(crate) fn chosen_types(
    handle: &FunctionHandle,
    name: &str,
    types: &BTreeMap<&str, &str>,
    values: &BTreeMap<&str, &str>,
) -> Result<Vec<ValueType>, CommandFailure> {
    let mut params = handle.parameters().unwrap_or_default();
    let examples = handle.example_types();
    if let Some(program) = handle.unit.program_of(handle.function) {
        params.truncate(program.params.len());
    }
    let mut chosen = Vec::with_capacity(params.len());
    for (index, (param, wanted)) in params.iter().enumerate() {
        let ty = match (*wanted, types.get(&**param), values.get(&**param)) {
            (wanted, Some(text), _) => {
                let ty = read_type(text, &*handle.environment);
                let ty = ty.map_err(|wrong| CommandFailure::Usage(format!("--type {param}={text}: {wrong}")))?;
                if !wanted.takes(ty) {
                    let given = ty.python_name();
                    return Err(CommandFailure::Usage(format!(
                        "--type {param}={text}: `{param}` is {wanted}, not {given}"
                    )));
                }
                ty
            }
            (ParamType::Exact(ty), None, _) => ty,
            (wanted, None, value) => match value.map(|text| type_of(wanted, text)).transpose()?.flatten() {
                Some(ty) => ty,
                None => match examples.as_ref().and_then(|examples| examples.get(index)) {
                    Some(ty) => *ty,
                    None => return Err(CommandFailure::Usage(missing(name, param, wanted))),
                },
            },
        };
        chosen.push(ty);
    }
    Ok(chosen)
}

/// The type that an argument says a generic parameter has.
fn type_of(wanted: ParamType, text: &str) -> Result<Option<ValueType>, CommandFailure> {
    let takes = |ty: Type| wanted.takes(ty).then_some(ValueType::Plain(ty));
    let Some(path) = text.strip_prefix('@') else {
        let scalar = match text {
            "true" | "True" | "false" | "False" => Scalar::Bool,
            _ if text.parse::<i64>().is_ok() => Scalar::I32,
            _ if text.parse::<f64>().is_ok() => Scalar::F32,
            _ => return Ok(None),
        };
        return Ok(takes(scalar.into()));
    };
    let (elem, shape) = value::type_of_file(path.as_ref()).map_err(CommandFailure::Failed)?;
    let n_dims = shape.len();
    let inner = match wanted {
        ParamType::GenericArray(pattern, _) => pattern.n_inner_axes(),
        _ => 0,
    };
    let plain = u8::try_from(n_dims).ok().and_then(|ndim| Type::array_of(elem.into(), ndim));
    if let Some(ty) = plain.and_then(takes) {
        return Ok(Some(ty));
    }
    let ParamType::GenericArray(TypePattern::Composite { kind, .. }, _) = wanted else { return Ok(None) };
    let Some(outer) = n_dims.checked_sub(inner).filter(|outer| *outer > 0) else { return Ok(None) };
    let extents: Vec<i128> = shape[outer..].iter().map(|&extent| extent.into()).collect();
    let composite = Composite::new(kind, elem, &extents).ok();
    Ok(composite.and_then(|composite| takes(Type::array_of(composite.into(), u8::try_from(outer).ok()?)?)))
}

fn missing(kernel: &str, param: &str, wanted: ParamType) -> String {
    let example = match wanted {
        ParamType::GenericArray(_, 1) => "array(dtype=float)".to_owned(),
        ParamType::GenericArray(_, ndim) => format!("array(dtype=float, ndim={ndim})"),
        _ => "float".to_owned(),
    };
    format!(
        "kernel `{kernel}` is generic: the parameter `{param}` is {wanted}, and nothing says which type: write \
         --type '{param}={example}'"
    )
}
