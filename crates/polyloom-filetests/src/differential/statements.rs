//! Statements about scalars, and control flow.

use super::generate::{ProgramGenerator, ProgramVariable};
use polyloom_ir::{Scalar, Type};

impl ProgramGenerator {
    pub(super) fn declare(&mut self) {
        let ty = self.ty();
        let value = self.expr(ty, 3);
        let name = self.name("v");
        // In a generic function an annotation would name one type.
        if self.stand_in != Some(ty) && self.random.chance(30) {
            self.line(&format!("{name}: loom.{} = {value}", ty.python_name()));
        } else {
            self.line(&format!("{name} = loom.{}({value})", ty.python_name()));
        }
        self.scope.push(ProgramVariable::new(name, ty));
    }

    pub(super) fn assignable(&mut self) -> Option<ProgramVariable> {
        let found: Vec<ProgramVariable> = self.scope.iter().filter(|v| v.assignable).cloned().collect();
        if found.is_empty() { None } else { Some(self.random.pick(&found).clone()) }
    }

    pub(super) fn assign(&mut self) {
        let Some(ProgramVariable { name, ty, .. }) = self.assignable() else { return self.declare() };
        let ty = match ty {
            Type::Scalar(scalar) => scalar,
            Type::Composite(composite) => return self.assign_composite(&name, composite),
            _ => return,
        };
        let value = self.expr(ty, 3);
        let operator = match ty {
            _ if self.random.chance(50) => "",
            Scalar::Bool => *self.random.pick(&["&", "|", "^"]),
            _ if ty.is_float() => *self.random.pick(&["+", "-", "*", "/"]),
            _ => match self.integer_operator() {
                "/" => "//",
                operator => operator,
            },
        };
        self.line(&format!("{name} {operator}= {value}"));
    }

    pub(super) fn swap(&mut self) {
        let Some(a) = self.assignable() else { return };
        let same: Vec<ProgramVariable> =
            self.scope.iter().filter(|v| v.assignable && v.ty == a.ty && v.name != a.name).cloned().collect();
        if same.is_empty() {
            return self.assign();
        }
        let b = self.random.pick(&same).clone();
        let value = self.pinned_of(a.ty, 2);
        self.line(&format!("{}, {} = {}, {value}", a.name, b.name, b.name));
    }

    /// The names of variables of a type that can be assigned.
    pub(super) fn assignable_of(&self, ty: Type) -> Vec<String> {
        self.scope.iter().filter(|v| v.assignable && v.ty == ty).map(|v| v.name.clone()).collect()
    }

    /// Prints a value or two.
    pub(super) fn print(&mut self) {
        let ty = self.value_type();
        let value = self.pinned_of(ty, 2);
        match ty {
            Type::Scalar(scalar) if self.random.chance(40) => {
                let format = if scalar.is_float() { "%.4f" } else { "%d" };
                self.line(&format!("loom.printf(\"{format};\\n\", {value})"));
            }
            _ => self.line(&format!("print(\"v\", {value})")),
        }
    }

    pub(super) fn if_(&mut self, depth: usize) {
        let cond = match self.random.below(10) {
            0 => (*self.random.pick(&["loom.static(K0 > 3)", "loom.static(K1 < 1.0)"])).to_owned(),
            _ => self.expr(Scalar::Bool, 3),
        };
        self.line(&format!("if {cond}:"));
        self.nested(depth);
        if self.random.chance(30) {
            let cond = self.expr(Scalar::Bool, 2);
            self.line(&format!("elif {cond}:"));
            self.nested(depth);
        }
        if self.random.chance(50) {
            self.line("else:");
            self.nested(depth);
        }
    }

    pub(super) fn nested(&mut self, depth: usize) {
        self.indent += 1;
        let n = 1 + self.random.below(3);
        self.block(n, depth + 1);
        self.indent -= 1;
    }

    /// A loop over constants whose counter static expressions name, so that its body is compiled once for each.
    fn unrolled(&mut self, counter: &str, depth: usize) {
        let n = 1 + self.random.below(4);
        self.line(&format!("for {counter} in range({n}):"));
        let n_in_scope = self.scope.len();
        let (value, ty) = (self.name("v"), self.ty());
        self.indent += 1;
        match ty {
            Scalar::Bool => self.line(&format!("{value} = loom.static({counter} > 1)")),
            _ => self.line(&format!("{value} = loom.{}(loom.static(2 * {counter} + K0))", ty.python_name())),
        }
        if self.random.chance(30) {
            let word = *self.random.pick(&["break", "continue"]);
            self.line(&format!("if loom.static({counter} == 1):"));
            self.line(&format!("    {word}"));
        }
        self.indent -= 1;
        self.scope.push(ProgramVariable::new(value, ty));
        self.scope.push(ProgramVariable::fixed(counter.to_owned(), Scalar::I32));
        // Exits from it depend on static conditions alone.
        let loops = std::mem::take(&mut self.loops);
        self.nested(depth + 1);
        self.loops = loops;
        self.scope.truncate(n_in_scope);
    }

    pub(super) fn for_(&mut self, depth: usize) {
        let counter = self.name("n");
        if self.random.chance(15) {
            return self.unrolled(&counter, depth);
        }
        let bounds = match self.random.below(5) {
            0 => format!("{}", self.random.below(6)),
            1 => format!("{}, {}", self.random.below(3), 2 + self.random.below(5)),
            2 => format!("{}, -2, -{}", self.random.below(6), 1 + self.random.below(3)),
            3 => format!("loom.clamp({}, -3, 5)", self.pinned(Scalar::I32, 2)),
            _ => {
                let (from, to) = (self.pinned(Scalar::I32, 1), self.pinned(Scalar::I32, 1));
                format!(
                    "loom.clamp({from}, -4, 4), loom.clamp({to}, -4, 4), {}",
                    self.random.pick(&["1", "2", "-1", "-3"])
                )
            }
        };
        self.line(&format!("for {counter} in range({bounds}):"));
        self.loops += 1;
        self.scope.push(ProgramVariable::fixed(counter, Scalar::I32));
        self.nested(depth);
        self.scope.pop();
        self.loops -= 1;
        self.loop_else(depth);
    }

    pub(super) fn while_(&mut self, depth: usize) {
        let guard = self.name("w");
        let cond = self.expr(Scalar::Bool, 2);
        self.line(&format!("{guard} = loom.int32(0)"));
        let n = 1 + self.random.below(6);
        self.line(&format!("while {guard} < {n} and ({cond}):"));
        self.loops += 1;
        self.indent += 1;
        self.line(&format!("{guard} += 1"));
        self.scope.push(ProgramVariable::fixed(guard, Scalar::I32));
        self.indent -= 1;
        self.nested(depth);
        self.loops -= 1;
        self.loop_else(depth);
    }

    pub(super) fn loop_else(&mut self, depth: usize) {
        if self.random.chance(10) {
            self.line("else:");
            self.nested(depth);
        }
    }

    pub(super) fn leave_loop(&mut self) {
        let cond = self.expr(Scalar::Bool, 2);
        let word = *self.random.pick(&["break", "continue"]);
        self.line(&format!("if {cond}:"));
        self.line(&format!("    {word}"));
    }
}
