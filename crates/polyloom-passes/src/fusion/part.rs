//! A kernel that runs a part of a launch: the threads from some coordinate along the first axis on.
//!
//! It takes that coordinate as one more parameter and adds it to what `tid` gives along the axis. Two parts of a launch may run at
//! once, in memories of their own, if each element that a thread writes is accessed by that thread alone; [`ArrayUse`] knows.

use super::{ArrayUse, array_uses, refusal};
use crate::pipeline::extract;
use crate::transform::inline;
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Imm, Module, Op, Type, Value};
use std::sync::Arc;

/// A kernel for parts of launches.
#[derive(Clone, Debug)]
pub struct LaunchPart {
    /// The module of the kernel, whose last parameter is the first coordinate, an `i32`.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Its accesses of the parameters of the whole.
    pub uses: Vec<ArrayUse>,
}

impl LaunchPart {
    /// Makes the kernel; nothing if launches of it are not run in parts, because its threads have to do with each other or know
    /// their number among all.
    pub fn of(module: &Module, kernel: FuncId) -> Option<LaunchPart> {
        if refusal(module, kernel).is_some() {
            return None;
        }
        let uses = array_uses(module, kernel);
        let (mut module, whole) = extract(module, kernel);
        let function = &mut module.functions[whole];
        function.kind = FunctionKind::Func;
        let name = format!("{}_part", function.name);
        let params = function
            .params()
            .iter()
            .zip(&function.param_names)
            .map(|(&value, name)| (name.clone(), function.ty(value)));
        let first_name: Arc<str> = unused_name(&function.param_names).into();
        let params: Vec<(Arc<str>, Type)> = params.chain([(first_name, Type::I32)]).collect();
        let typed = params.iter().map(|(name, ty)| (&**name, *ty));
        let mut part = Function::new(name.as_str(), FunctionKind::Kernel, typed, &[]);
        (part.metadata, part.constraints, part.span) =
            (function.metadata.clone(), function.constraints.clone(), function.span);
        let values: Vec<Value> = part.params().to_vec();
        let (&first, given) = values.split_last()?;
        let mut builder = Builder::new(&mut part);
        let local = builder.tid(0);
        let coordinate = builder.op(Op::Add, &[local, first]);
        builder.inst(Op::Call, given, &[], Imm::Func(whole));
        builder.inst(Op::Return, &[], &[], Imm::None);
        let id = module.functions.push(part);
        inline::inline(&mut module, id, inline::KeptCalls::NoCalls).ok()?;
        let function = &mut module.functions[id];
        let (mut coordinates, mut knows_number) = (Vec::new(), false);
        function.walk(function.body, &mut |_, data| {
            knows_number |= data.op == Op::TidLinear;
            if data.op == Op::Tid && data.imm == Imm::Axis(0) && data.results[0] != local {
                coordinates.push(data.results[0]);
            }
        });
        if knows_number {
            return None;
        }
        for data in function.insts.values_mut() {
            for operand in &mut data.operands {
                if coordinates.contains(operand) {
                    *operand = coordinate;
                }
            }
        }
        let (module, kernel) = extract(&module, id);
        Some(LaunchPart { module, kernel, uses })
    }

    /// For each parameter of the whole, the axis of the array, the factor and the offset by which the first coordinate of the launch
    /// indexes it in all accesses; nothing if the launch cannot be run in parts: `written` says which parameters the kernel writes.
    pub fn windows(&self, written: &[bool], shape: &[u64]) -> Option<Vec<Option<(usize, i64, i64)>>> {
        let windows = self.uses.iter().zip(written).map(|(use_, &is_written)| {
            let ArrayUse::Elements(axes) = use_ else {
                return (use_ == &ArrayUse::Untouched || !is_written).then_some(None);
            };
            if is_written && !use_.is_apart(use_, shape) {
                return None;
            }
            let along = |index: &Option<super::AxisIndex>| index.filter(|index| index.coordinate == 0);
            let found = axes.iter().enumerate().find_map(|(axis, index)| Some((axis, along(index)?)));
            let window = found.map(|(axis, index)| (axis, index.factor, index.offset));
            (window.is_some() || !is_written).then_some(window)
        });
        windows.collect()
    }
}

fn unused_name(names: &[Arc<str>]) -> String {
    let mut name = "begin".to_owned();
    while names.iter().any(|known| **known == *name) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module, verify_module};

    fn part(params: &str, body: &str) -> Option<LaunchPart> {
        let text = format!("kernel @k({params}) {{\n{body}\nreturn\n}}");
        let module = parse_module(&text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        let part = LaunchPart::of(&module, kernel);
        if let Some(part) = &part {
            verify_module(&part.module).expect("the part is valid");
        }
        part
    }

    const OWN: &str = "%i: i32 = tid 0\n%v: f32 = array_load %x, %i\narray_store %y, %i, %v";

    #[test]
    fn the_coordinate_is_that_of_the_whole() {
        let part = part("%x x: array<f32, 1>, %y y: array<f32, 1>", OWN).expect("threads have elements of their own");
        let text = part.module.to_string();
        assert!(text.contains("begin: i32"), "{text}");
        assert_eq!(text.matches("tid 0").count(), 2, "the second is of no use: {text}");
        assert_eq!(part.windows(&[false, true], &[8]), Some(vec![Some((0, 1, 0)); 2]));
    }

    #[test]
    fn what_is_read_may_be_read_by_all_and_what_is_written_may_not() {
        let body = "%i: i32 = tid 0\n%c: i32 = const 0\n%v: f32 = array_load %x, %c\narray_store %y, %i, %v";
        let whole = part("%x x: array<f32, 1>, %y y: array<f32, 1>", body).expect("one may read what all read");
        assert_eq!(whole.windows(&[false, true], &[8]), Some(vec![None, Some((0, 1, 0))]));
        let body = "%i: i32 = tid 0\n%c: i32 = const 0\n%v: f32 = array_load %x, %i\narray_store %y, %c, %v";
        let one = part("%x x: array<f32, 1>, %y y: array<f32, 1>", body).expect("it is a kernel");
        assert_eq!(one.windows(&[false, true], &[8]), None, "all threads write one element");
        let rows = part("%x x: array<f32, 1>, %y y: array<f32, 1>", OWN).expect("it is a kernel");
        assert_eq!(rows.windows(&[false, true], &[8, 2]), None, "two threads write one element");
    }

    #[test]
    fn threads_that_know_their_number_or_run_in_blocks_have_no_parts() {
        let linear = "%i: i32 = tid_linear\n%v: f32 = array_load %x, %i\narray_store %y, %i, %v";
        assert!(part("%x x: array<f32, 1>, %y y: array<f32, 1>", linear).is_none());
        assert!(part("%x x: array<f32, 1>, %y y: array<f32, 1>", &format!("{OWN}\nsync_threads")).is_none());
    }
}
