//! Functions of CUDA's device run time (`libcudadevrt`) that modules declare and do not define, as PTX: those by which
//! cooperative groups of Numba and of older headers synchronise a grid. Linkers get them from a library; here a module
//! has them when it is loaded.

use crate::syntax::ast::{ModuleItem, PtxAst, PtxFunction};
use crate::syntax::parse;
use std::sync::{Arc, OnceLock};

const TEXT: &str = include_str!("device_runtime.ptx");

fn library() -> &'static PtxAst {
    static LIBRARY: OnceLock<PtxAst> = OnceLock::new();
    LIBRARY.get_or_init(|| parse(TEXT).unwrap_or_default())
}

fn function(item: &ModuleItem) -> Option<&PtxFunction> {
    match item {
        ModuleItem::Function(function) => Some(function),
        _ => None,
    }
}

/// The module with all of the library, if it declares a function of that and defines none.
pub(crate) fn completed(ast: &Arc<PtxAst>) -> Arc<PtxAst> {
    let own: Vec<&PtxFunction> = ast.items.iter().filter_map(function).collect();
    let of_library: Vec<&str> = library().items.iter().filter_map(function).map(|each| each.name.as_str()).collect();
    let mut known = own.iter().filter(|each| of_library.contains(&each.name.as_str()));
    if known.clone().next().is_none() || known.any(|each| each.body.is_some()) {
        return Arc::clone(ast);
    }
    let items = ast.items.iter().chain(&library().items).cloned().collect();
    Arc::new(PtxAst { items, ..(**ast).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_ptx() {
        let names: Vec<&str> = library().items.iter().filter_map(function).map(|each| each.name.as_str()).collect();
        assert_eq!(names, ["cudaCGGetIntrinsicHandle", "cudaCGSynchronize", "cudaCGSynchronizeGrid"]);
    }
}
