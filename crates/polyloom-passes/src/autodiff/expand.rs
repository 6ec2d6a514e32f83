//! `expand`: ops that are differentiated by what they are made of become calls of their definitions, which are
//! inlined then.

use super::definitions::definition;
use polyloom_ir::{FuncId, Function, Imm, Inst, Module, Op, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Puts calls in the place of ops that are to be expanded, on operands of these types, in all functions of a module.
pub(super) fn expand(module: &mut Module, is_expanded: fn(Op, &[Type]) -> bool) {
    let mut known = FxHashMap::default();
    let mut next = 0;
    // Definitions join the module, and may hold such ops themselves.
    while let Some(id) = module.functions.keys().nth(next) {
        next += 1;
        let found: Vec<Inst> = expandable(&module.functions[id], is_expanded);
        for inst in found {
            let function = &module.functions[id];
            let data = &function.insts[inst];
            let types: Types = data.operands.iter().map(|&operand| function.ty(operand)).collect();
            let key = (data.op, types);
            let callee = match known.get(&key) {
                Some(&callee) => callee,
                None => {
                    let Some(callee) = definition(key.0, &key.1).map(|library| adopt(module, &library)) else {
                        continue;
                    };
                    known.insert(key, callee);
                    callee
                }
            };
            let data = &mut module.functions[id].insts[inst];
            data.op = Op::Call;
            data.imm = Imm::Func(callee);
        }
    }
}

type Types = SmallVec<[Type; 4]>;

fn expandable(function: &Function, is_expanded: fn(Op, &[Type]) -> bool) -> Vec<Inst> {
    let mut found = Vec::new();
    function.walk(function.body, &mut |inst, data| {
        let types: Types = data.operands.iter().chain(&data.results).map(|&value| function.ty(value)).collect();
        if is_expanded(data.op, &types) {
            found.push(inst);
        }
    });
    found
}

/// Adds a library's functions to a module and gives the handle of the first.
fn adopt(module: &mut Module, library: &Module) -> FuncId {
    let first = module.functions.len();
    for function in library.functions.values() {
        let mut function = function.clone();
        for data in function.insts.values_mut() {
            if let Imm::Func(callee) = &mut data.imm {
                *callee = FuncId::from_u32(first as u32 + callee.as_u32());
            }
        }
        // Names are unique in a module, and the same helper may come with several definitions.
        function.name = format!("{}.{}", function.name, module.functions.len()).into();
        module.functions.push(function);
    }
    FuncId::from_u32(first as u32)
}
