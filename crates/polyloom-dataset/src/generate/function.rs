//! Functions that kernels call.

use super::expr::GeneratedExpr;
use super::generated_function::GeneratedFunction;
use super::generator::KernelGenerator;
use super::names::{self, NameRole};
use super::program::{Category, DatasetProgram};
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Op, Random, Type};

/// A kernel whose work is done by functions.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = super::elementwise::begin(random, Category::Function);
    let n_functions = match difficulty {
        0 | 1 => 1,
        2 => 1 + g.random.below(2),
        3 => 2 + g.random.below(2),
        _ => 4 + g.random.below(2),
    };
    for _ in 0..n_functions {
        g.function(difficulty);
    }
    let pair = (difficulty > 0 && g.random.one_in(3)).then(|| g.function_of_two());
    g.parameters(difficulty);
    let goal = g.goal(difficulty) * 2 / 3;
    g.fill(if difficulty > 0 { goal } else { 0 }, difficulty);
    if let Some(pair) = pair {
        g.call_for_two(&pair);
    }
    for index in 0..g.functions.len() {
        if !g.functions[index].is_called {
            let call = g.call_function(index, 1);
            g.assign_new(call);
        }
    }
    g.gap();
    g.outputs(1 + usize::from(difficulty > 1));
    g.finish(Category::Function)
}

impl KernelGenerator {
    /// Returns what parameters of functions are given: [`KernelGenerator::constrain`] brings numbers there.
    fn param_range(&self, ty: Type) -> NumberRange {
        NumberRange::within(if ty == self.whole { 127.0 } else { 8.0 })
    }

    /// Writes a function; those that are there may be called by it.
    pub(super) fn function(&mut self, difficulty: u8) {
        let types = self.types();
        let result = self.random.pick(&types);
        let n_params = 1 + self.random.below(3);
        let params: Vec<Type> =
            (0..n_params).map(|index| if index == 0 { result } else { self.random.pick(&types) }).collect();
        let generic = self.random.one_in(8) && params.iter().all(|&param| param == result);
        let mut range = NumberRange::of(0.0);
        let (name, mut outer) = ("helper", None);
        let names: Vec<String> = params.iter().map(|_| self.names.draw(&mut self.random, NameRole::Local)).collect();
        let annotated = |g: &KernelGenerator, ty| if generic { "Any".to_owned() } else { g.type_name(ty) };
        let heads: Vec<(String, String)> =
            names.iter().zip(&params).map(|(name, &ty)| (name.clone(), annotated(self, ty))).collect();
        if generic {
            self.import("from typing import Any");
        }
        let arrow = if generic || self.random.one_in(2) { String::new() } else { self.type_name(result) };
        let told = self.item(name, &heads, |g| {
            for (name, &ty) in names.iter().zip(&params) {
                g.declare(name.clone(), format!("`{name}`"), ty, g.param_range(ty));
            }
            let n_statements = g.random.below(1 + usize::from(difficulty));
            g.statements(n_statements, 1);
            let mut early_words = None;
            let is_simple = result.as_composite().is_none() && g.random.one_in(4);
            if is_simple {
                let early = g.variable(result, 1);
                let early = g.constrain(early, OperandNeed::Finite);
                let condition = g.condition(0);
                range = range.or(early.range);
                g.line(&format!("if {}:", condition.text));
                g.nested(|g| g.line(&format!("return {}", early.text)));
                g.learn(&condition, false);
                early_words = Some(format!("{} if {}", early.words, condition.words));
            }
            let value = g.variable(result, 2);
            let value = g.with_unused(value);
            let value = g.constrain(value, OperandNeed::Finite);
            range = range.or(value.range);
            outer = value.head.filter(|_| !is_simple);
            g.line(&format!("return {}", value.text));
            g.say(early_words.map_or(value.words.clone(), |early| format!("{early}, else {}", value.words)));
            arrow
        });
        let name = self.function_name(name, outer);
        self.explain(told.sentence(&format!("{name}({})", names.join(", "))));
        self.functions.push(GeneratedFunction { name, params, result, range, is_called: false });
    }

    /// Gives the function that was written last a name by what its result comes from.
    fn function_name(&mut self, name: &str, outer: Option<Op>) -> String {
        let names = self.random.pick(&[names::functions(outer), names::functions(None)]);
        // Otherwise one that it has inside would be something else there.
        let mut fresh = self.like(names);
        while self.item_has(&fresh) {
            fresh = self.like(names);
        }
        self.rename_item(name, &fresh);
        fresh
    }

    /// A call of a function that gives this type, if there is one.
    pub(super) fn call_of_function(&mut self, ty: Type, depth: usize) -> Option<GeneratedExpr> {
        let fits: Vec<usize> = (0..self.functions.len()).filter(|&index| self.functions[index].result == ty).collect();
        let index = (!fits.is_empty()).then(|| self.random.pick(&fits))?;
        Some(self.call_function(index, depth))
    }

    /// Returns which functions are called.
    pub(super) fn calls(&self) -> Vec<bool> {
        self.functions.iter().map(|function| function.is_called).collect()
    }

    /// The same as it was.
    pub(super) fn set_calls(&mut self, called: &[bool]) {
        for (function, &called) in self.functions.iter_mut().zip(called) {
            function.is_called = called;
        }
    }

    fn call_function(&mut self, index: usize, depth: usize) -> GeneratedExpr {
        let GeneratedFunction { name, params, result, range, .. } = self.functions[index].clone();
        self.functions[index].is_called = true;
        let args: Vec<GeneratedExpr> = params
            .into_iter()
            .map(|param| {
                let arg = self.argument(param, depth.saturating_sub(1));
                let (arg, _) = self.with_sign(arg);
                let arg = self.constrain(arg, OperandNeed::Moderate);
                self.short(arg)
            })
            .collect();
        let mut args = self.apart(args);
        if args.iter().all(|arg| arg.uses.is_empty()) {
            let ty = args[0].ty;
            let seen = (0..self.variables.len()).find(|&at| self.variables[at].visible && self.variables[at].ty == ty);
            if let Some(seen) = seen {
                let value = self.read(seen);
                let value = self.constrain(value, OperandNeed::Moderate);
                args[0] = self.short(value);
            }
        }
        let refs: Vec<&GeneratedExpr> = args.iter().collect();
        GeneratedExpr::call(&name, &refs, result, range)
    }

    /// Arguments of which none is another, because given one twice, a function of two is one of one.
    fn apart(&mut self, mut args: Vec<GeneratedExpr>) -> Vec<GeneratedExpr> {
        let is_new = |args: &[GeneratedExpr], at: usize| args[..at].iter().all(|arg| arg.text != args[at].text);
        for at in 1..args.len() {
            for _ in 0..6 {
                if is_new(&args, at) {
                    break;
                }
                let changed = match args[at].is_bare() {
                    true => self.more_than_bare(args[at].clone()),
                    false => self.argument(args[at].ty, 0),
                };
                let (changed, _) = self.with_sign(changed);
                let changed = self.constrain(changed, OperandNeed::Moderate);
                args[at] = self.short(changed);
            }
            if args[at].ty == self.real && !is_new(&args, at) {
                let part = self.number([0.5, 0.25, 0.75][at % 3]);
                let range = part.range * args[at].range;
                args[at] = GeneratedExpr::binary("*", &part, &args[at], self.real, range);
            }
        }
        args
    }

    /// Returns what a function is given, which takes numbers of both signs: rather such that are.
    fn argument(&mut self, ty: Type, depth: usize) -> GeneratedExpr {
        let is_of_both_signs = |arg: &GeneratedExpr| arg.range.low < -0.6 && arg.range.high > 0.6;
        let mut arg = self.variable(ty, depth);
        for _ in 0..4 {
            if is_of_both_signs(&arg) || ty != self.real {
                return arg;
            }
            arg = self.variable(ty, depth);
        }
        let middle = (5.0 * (arg.range.low + arg.range.high)).round() / 10.0;
        if is_of_both_signs(&arg) || arg.parts.is_moved || !(0.5..50.0).contains(&middle.abs()) {
            return arg;
        }
        let sign = if middle > 0.0 { "-" } else { "+" };
        let range = arg.range - NumberRange::of(middle);
        let arg = self.short(arg);
        GeneratedExpr::binary(sign, &arg, &self.number(middle.abs()), ty, range)
    }

    /// A function of two results: its name, and the type and range of each.
    fn function_of_two(&mut self) -> (String, [(Type, NumberRange); 2]) {
        let types = self.types();
        let (first, second) = (self.random.pick(&types), self.random.pick(&types));
        let name = self.like(&["pair", "split", "both_parts", "resolve"]);
        let params: Vec<String> = (0..2).map(|_| self.names.draw(&mut self.random, NameRole::Local)).collect();
        let heads: Vec<(String, String)> =
            params.iter().zip([first, second]).map(|(name, ty)| (name.clone(), self.type_name(ty))).collect();
        let mut ranges = [NumberRange::ANY; 2];
        let told = self.item(&name, &heads, |g| {
            for (name, ty) in params.iter().zip([first, second]) {
                g.declare(name.clone(), format!("`{name}`"), ty, g.param_range(ty));
            }
            let a = g.variable(first, 2);
            let a = g.constrain(a, OperandNeed::Finite);
            let b = g.variable(second, 1);
            let b = g.with_unused(b);
            let b = g.constrain(b, OperandNeed::Finite);
            ranges = [a.range, b.range];
            g.line(&format!("return {}, {}", a.text, b.text));
            g.say(a.words);
            g.say(b.words);
            String::new()
        });
        self.names.take(&name);
        self.explain(told.sentence(&format!("{name}({})", params.join(", "))));
        (name, [(first, ranges[0]), (second, ranges[1])])
    }

    fn call_for_two(&mut self, (name, results): &(String, [(Type, NumberRange); 2])) {
        let args: Vec<GeneratedExpr> = results
            .iter()
            .map(|&(ty, _)| {
                let arg = self.argument(ty, 1);
                let (arg, _) = self.with_sign(arg);
                let arg = self.constrain(arg, OperandNeed::Moderate);
                self.short(arg)
            })
            .collect();
        let args: Vec<String> = self.apart(args).into_iter().map(|arg| arg.text).collect();
        let names: Vec<String> = results.iter().map(|_| self.names.draw(&mut self.random, NameRole::Local)).collect();
        let args = args.join(", ");
        self.line(&format!("{} = {name}({args})", names.join(", ")));
        self.explain(format!("`{}` are the results of `{name}({args})`.", names.join("` and `")));
        for (name, &(ty, range)) in names.iter().zip(results) {
            self.declare(name.clone(), format!("`{name}`"), ty, range);
        }
    }
}
