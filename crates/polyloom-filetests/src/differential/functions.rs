//! Functions with parameters of one type each.

use super::generate::{ProgramGenerator, ProgramVariable};
use super::program::UserFunction;
use polyloom_ir::{Scalar, Type};

impl ProgramGenerator {
    pub(super) fn function(&mut self) {
        let name = self.name("f");
        let params: Vec<Type> = (0..1 + self.random.below(3)).map(|_| self.value_type()).collect();
        let results: Vec<Type> = (0..1 + self.random.below(2)).map(|_| self.value_type()).collect();
        let list: Vec<String> =
            params.iter().enumerate().map(|(n, &ty)| format!("x{n}: {}", self.type_name(ty))).collect();
        self.begin_function(&format!("def {name}({}):", list.join(", ")));
        self.scope = params.iter().enumerate().map(|(n, &ty)| ProgramVariable::new(format!("x{n}"), ty)).collect();
        self.function_body();
        if self.random.chance(30) {
            let cond = self.expr(Scalar::Bool, 2);
            self.line(&format!("if {cond}:"));
            self.indent += 1;
            self.return_(&results);
            self.indent -= 1;
        }
        self.return_(&results);
        self.end_function();
        self.functions.push(UserFunction { name, params, results });
    }

    pub(super) fn begin_function(&mut self, head: &str) {
        self.line("");
        self.line("@loom.func");
        self.line(head);
        self.indent = 1;
        self.in_kernel = false;
        self.scope.clear();
        self.structs.leave_scope(0);
    }

    pub(super) fn function_body(&mut self) {
        self.budget = 6;
        let n = 1 + self.random.below(3);
        self.block(n, 1);
    }

    pub(super) fn end_function(&mut self) {
        self.indent = 0;
    }

    pub(super) fn return_(&mut self, results: &[Type]) {
        let values: Vec<String> = results.iter().map(|&ty| self.pinned_of(ty, 2)).collect();
        self.line(&format!("return {}", values.join(", ")));
    }

    pub(super) fn unpack_call(&mut self) {
        let index = self.random.below(self.functions.len());
        let results = self.functions[index].results.clone();
        let call = self.call(index, 2);
        let names: Vec<String> = results.iter().map(|_| self.name("v")).collect();
        self.line(&format!("{} = {call}", names.join(", ")));
        for (name, ty) in names.into_iter().zip(results) {
            self.scope.push(ProgramVariable::new(name, ty));
        }
    }

    /// A function with this result alone.
    pub(super) fn function_with_result(&mut self, ty: Type) -> Option<usize> {
        let fits: Vec<usize> = (0..self.functions.len()).filter(|&f| self.functions[f].results == [ty]).collect();
        if fits.is_empty() { None } else { Some(*self.random.pick(&fits)) }
    }

    pub(super) fn call(&mut self, index: usize, depth: usize) -> String {
        let params = self.functions[index].params.clone();
        let mut args: Vec<String> = params.iter().map(|&ty| self.pinned_of(ty, depth)).collect();
        if self.random.chance(25)
            && let Some(last) = args.last_mut()
        {
            *last = format!("x{}={last}", params.len() - 1);
        }
        format!("{}({})", self.functions[index].name, args.join(", "))
    }
}
