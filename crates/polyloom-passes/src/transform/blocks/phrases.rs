//! Phrases of text: the functions that kernels for readers call where text has a phrase, and what each computes.

use polyloom_ir::block_plan::TextPhrase;
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Module, Op, Scalar, Type, Value};

/// The functions that text has phrases for.
#[derive(Clone, Copy)]
pub(super) struct TextPhrases {
    /// The first coordinate of a thread; those of other axes follow.
    pub(super) thread: FuncId,
    /// The first coordinate of a block; the others follow.
    pub(super) block: FuncId,
    pub(super) wrap: FuncId,
}

impl TextPhrases {
    /// Adds the functions to a module, and says what each is.
    pub(super) fn add(module: &mut Module) -> (TextPhrases, Vec<(FuncId, TextPhrase)>) {
        let mut all = Vec::new();
        let mut add = |phrase: TextPhrase| {
            let id = module.functions.push(function(phrase));
            all.push((id, phrase));
            id
        };
        let threads = [0, 1, 2, 3].map(|axis| add(TextPhrase::ThreadIndex(axis)));
        let blocks = [0, 1, 2].map(|axis| add(TextPhrase::BlockIndex(axis)));
        let wrap = add(TextPhrase::Wrap);
        (TextPhrases { thread: threads[0], block: blocks[0], wrap }, all)
    }
}

/// Returns what a phrase means.
fn function(phrase: TextPhrase) -> Function {
    let (i32, i64) = (Type::I32, Type::Scalar(Scalar::I64));
    let (name, params, result) = match phrase {
        TextPhrase::ThreadIndex(axis) => {
            (format!("thread_index.{axis}"), vec![("number", i64), ("inner", i32), ("extent", i32)], i32)
        }
        TextPhrase::BlockIndex(axis) => {
            (format!("block_index.{axis}"), vec![("number", i32), ("x", i32), ("y", i32)], i32)
        }
        TextPhrase::Wrap => ("wrap.index".to_owned(), vec![("index", i64), ("extent", i64)], i64),
    };
    let mut func = Function::new(name, FunctionKind::Func, params, &[result]);
    let params: Vec<Value> = func.params().to_vec();
    let mut builder = Builder::new(&mut func);
    let value = match phrase {
        TextPhrase::ThreadIndex(axis) => {
            let inner = builder.cast(params[1], Scalar::I64);
            let row = builder.op(Op::Div, &[params[0], inner]);
            let extent = builder.cast(params[2], Scalar::I64);
            let place = if axis == 0 { row } else { builder.op(Op::Mod, &[row, extent]) };
            builder.cast(place, Scalar::I32)
        }
        TextPhrase::BlockIndex(0) => builder.op(Op::Mod, &[params[0], params[1]]),
        TextPhrase::BlockIndex(axis) => {
            let row = builder.op(Op::Div, &[params[0], params[1]]);
            builder.op(if axis == 1 { Op::Mod } else { Op::Div }, &[row, params[2]])
        }
        TextPhrase::Wrap => {
            let zero = builder.const_int(Scalar::I64, 0);
            let is_negative = builder.op(Op::Lt, &[params[0], zero]);
            let from_end = builder.op(Op::Add, &[params[0], params[1]]);
            builder.op(Op::Select, &[is_negative, from_end, params[0]])
        }
    };
    builder.return_(&[value]);
    func
}
