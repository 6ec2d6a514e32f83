//! What a module is made of, for those who keep or ship it.

use crate::decode::variable_size;
use crate::module::Module;
use crate::syntax::ast::{ModuleItem, PtxFunction, PtxInstruction, PtxVariable, StateSpace, Statement};
use std::collections::BTreeSet;

/// Describes what a module is made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ModuleContents {
    /// `.version`.
    pub version: (u32, u32),
    /// `.target`: the architecture first, then options.
    pub target: Vec<String>,
    /// Kernels.
    pub entries: Vec<String>,
    /// Functions that kernels call and the module has.
    pub functions: Vec<String>,
    /// Functions that it does not have: the driver's, such as `vprintf`.
    pub external_functions: Vec<String>,
    /// Variables in constant memory, and their bytes.
    pub constants: Vec<(String, u32)>,
    /// Variables in global memory, and their bytes.
    pub globals: Vec<(String, u32)>,
    /// Bytes of its arrays in shared memory, one after the other. Those whose extent is left open are not counted.
    pub shared_bytes: u32,
    /// True if it has an array in shared memory whose extent is left open, for the launch to say.
    pub has_dynamic_shared: bool,
    /// Address spaces that it accesses: their numbers, as LLVM has them, and names.
    pub spaces: Vec<(u8, &'static str)>,
}

/// Opcodes that access memory. Those with no space among their modifiers take generic addresses.
const ACCESSES: [&str; 6] = ["ld", "st", "atom", "red", "ldu", "cp"];

/// Numbers of the address spaces that are memory, but for parameters (LLVM, "User Guide for NVPTX Back-end").
const NUMBERS: [(u8, StateSpace); 4] =
    [(1, StateSpace::Global), (3, StateSpace::Shared), (4, StateSpace::Const), (5, StateSpace::Local)];

impl Module {
    /// Returns what it is made of.
    pub fn contents(&self) -> ModuleContents {
        let ast = self.ast();
        let mut found =
            ModuleContents { version: ast.version, target: ast.target.clone(), ..ModuleContents::default() };
        let mut spaces = BTreeSet::new();
        for item in &ast.items {
            match item {
                ModuleItem::Variable(variable) => found.variable(variable, &mut spaces),
                ModuleItem::Function(function) => found.function(function, &mut spaces),
                _ => {}
            }
        }
        found.spaces = spaces.into_iter().collect();
        found
    }
}

impl ModuleContents {
    fn function(&mut self, function: &PtxFunction, spaces: &mut BTreeSet<(u8, &'static str)>) {
        let name = function.name.clone();
        match (&function.body, function.entry) {
            (Some(body), entry) => {
                if entry { &mut self.entries } else { &mut self.functions }.push(name);
                self.body(body, spaces);
            }
            (None, _) => self.external_functions.push(name),
        }
    }

    fn body(&mut self, body: &[Statement], spaces: &mut BTreeSet<(u8, &'static str)>) {
        for statement in body {
            match statement {
                Statement::Variable(variable) => self.variable(variable, spaces),
                Statement::Instruction(instruction) => spaces.extend(space(instruction)),
                Statement::Block(inner) => self.body(inner, spaces),
                _ => {}
            }
        }
    }

    fn variable(&mut self, variable: &PtxVariable, spaces: &mut BTreeSet<(u8, &'static str)>) {
        let Some(&(number, space)) = NUMBERS.iter().find(|(_, space)| *space == variable.space) else { return };
        spaces.insert((number, space.name()));
        let (bytes, align) = variable_size(variable).unwrap_or((0, 1));
        let named = (variable.name.clone(), bytes);
        match space {
            StateSpace::Const => self.constants.push(named),
            StateSpace::Global => self.globals.push(named),
            StateSpace::Shared if variable.extents.contains(&None) => self.has_dynamic_shared = true,
            StateSpace::Shared => {
                let start = self.shared_bytes.checked_next_multiple_of(align);
                self.shared_bytes = start.and_then(|start| start.checked_add(bytes)).unwrap_or(u32::MAX);
            }
            _ => {}
        }
    }
}

/// The address spaces that an instruction accesses.
fn space(instruction: &PtxInstruction) -> Vec<(u8, &'static str)> {
    if !ACCESSES.contains(&instruction.opcode.as_str()) {
        return Vec::new();
    }
    // `shared::cta` is shared memory too.
    let modifiers = || instruction.modifiers.iter().map(|name| name.split("::").next().unwrap_or(name));
    let named = NUMBERS.iter().filter(|(_, space)| modifiers().any(|name| name == space.name()));
    let named: Vec<(u8, &str)> = named.map(|(number, space)| (*number, space.name())).collect();
    // `cp.async.commit_group` and the like have no operands in memory.
    let has_address = instruction.operands.iter().any(|o| matches!(o, crate::syntax::ast::PtxOperand::Address { .. }));
    match named.is_empty() && has_address && !modifiers().any(|name| name == StateSpace::Param.name()) {
        true => vec![(0, "generic")],
        false => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_module_has_is_found() {
        let text = "
            .version 8.3
            .target sm_90a, debug
            .address_size 64
            .extern .func (.param .b32 result) vprintf(.param .b64 a, .param .b64 b);
            .extern .shared .align 16 .b8 dynamic[];
            .shared .align 4 .b8 three[3];
            .shared .align 8 .b64 wide[2];
            .const .align 4 .f32 table[5];
            .global .u32 counter;
            .func (.reg .f32 r) helper(.reg .u64 p) { ld.f32 r, [p]; ret; }
            .visible .entry kernel(.param .u64 out) {
                .reg .b64 %rd<2>; .reg .f32 %f<2>;
                ld.param.u64 %rd1, [out];
                st.shared::cta.f32 [three], %f1;
                { .local .b32 own[2]; }
                ret;
            }";
        let found = Module::parse(text).unwrap().contents();
        assert_eq!(found.version, (8, 3));
        assert_eq!(found.target, ["sm_90a", "debug"]);
        assert_eq!(found.entries, ["kernel"]);
        assert_eq!(found.functions, ["helper"]);
        assert_eq!(found.external_functions, ["vprintf"]);
        assert_eq!(found.constants, [("table".to_owned(), 20)]);
        assert_eq!(found.globals, [("counter".to_owned(), 4)]);
        assert_eq!((found.shared_bytes, found.has_dynamic_shared), (8 + 16, true));
        assert_eq!(found.spaces, [(0, "generic"), (1, "global"), (3, "shared"), (4, "const"), (5, "local")]);
    }

    #[test]
    fn a_kernel_that_touches_nothing_uses_no_address_space() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing(.param .u32 n) {\n\
                    .reg .b32 %r<2>;\nld.param.u32 %r1, [n];\nret;\n}";
        assert_eq!(Module::parse(text).unwrap().contents().spaces, []);
    }
}
