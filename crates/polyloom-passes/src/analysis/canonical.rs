//! The identity of a kernel's code: a hash over its canonical form, and that of everything it calls.

use polyloom_ir::canonical::CanonicalForm;
use polyloom_ir::{FuncId, Module, Op};
use std::fmt::Write;
use std::sync::LazyLock;

/// The hash of a kernel and what it calls.
///
/// It depends on the op table, so it changes with the meaning of HIR. It says nothing of passes and back ends: a cache
/// adds the compiler's version and the back end's fingerprint to its key.
pub fn canonical_hash(module: &Module, kernel: FuncId) -> [u8; 32] {
    hash_of(CanonicalForm::default(), module, kernel)
}

/// The hash of a kernel and what it calls apart from the values of constants: kernels that differ in these alone have
/// the same.
pub fn structure_hash(module: &Module, kernel: FuncId) -> [u8; 32] {
    hash_of(CanonicalForm::without_constants(), module, kernel)
}

fn hash_of(mut form: CanonicalForm, module: &Module, kernel: FuncId) -> [u8; 32] {
    form.bytes.extend_from_slice(&*TABLE);
    form.functions.push(kernel);
    let mut next = 0;
    while let Some(&id) = form.functions.get(next) {
        next += 1;
        form.add(&module.functions[id]);
    }
    *blake3::hash(&form.bytes).as_bytes()
}

/// A hash of the op table, because op numbers in the canonical form mean nothing without it.
static TABLE: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut text = String::new();
    for info in Op::all() {
        // Writing to a string does not fail.
        let _ = write!(text, "{} {:?} {:?}", info.name, info.effect, info.lowering);
        for signature in &info.signatures {
            let _ = write!(text, " {signature}");
        }
        text.push('\n');
    }
    *blake3::hash(text.as_bytes()).as_bytes()
});

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    fn hash(text: &str) -> [u8; 32] {
        let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        canonical_hash(&module, kernel)
    }

    const KERNEL: &str = "
        func @twice(%x x: f32) -> (f32) {
          %y: f32 = add %x, %x
          return %y
        }
        kernel @k(%a a: array<f32, 1>, %n n: i32) {
          %zero: i32 = const 0
          %one: i32 = const 1
          for_range ^0 %zero, %n, %one (%i: i32) {
            %x: f32 = array_load %a, %i
            %y: f32 = call @twice %x
            array_store %a, %i, %y
            yield
          }
          return
        }";

    #[test]
    fn names_and_order_of_functions_do_not_count() {
        let renamed = KERNEL.replace("twice", "double").replace("%x", "%input").replace(" a: ", " data: ");
        assert_eq!(hash(KERNEL), hash(&renamed));
        let (func, kernel) = KERNEL.split_at(KERNEL.find("kernel").expect("there is a kernel"));
        assert_eq!(hash(KERNEL), hash(&format!("{kernel}\n{func}")));
        assert_eq!(hash(KERNEL), hash(&format!("func @unused() {{\n return\n }}\n{KERNEL}")));
    }

    #[test]
    fn constants_are_no_part_of_the_structure() {
        let structure = |text: &str| {
            let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
            structure_hash(&module, module.find("k").expect("it has a kernel `k`"))
        };
        let shared = KERNEL.replace("%one (", "%zero (").replace("%one: i32 = const 1", "");
        assert_ne!(hash(KERNEL), hash(&shared));
        for same in [KERNEL.replace("const 1", "const 2"), KERNEL.replace("%x", "%input"), shared] {
            assert_eq!(structure(KERNEL), structure(&same), "{same}");
        }
        for other in [KERNEL.replace("add %x, %x", "mul %x, %x"), KERNEL.replace("%zero, %n, %one", "%zero, %one, %n")]
        {
            assert_ne!(structure(KERNEL), structure(&other), "{other}");
        }
    }

    #[test]
    fn everything_that_is_code_counts() {
        for (from, to) in [
            ("add %x, %x", "mul %x, %x"),
            ("const 1", "const 2"),
            ("%zero, %n, %one (", "%n, %zero, %one ("),
            ("array<f32, 1>, %n n: i32", "array<f32, 1>, %m m: i32, %n n: i32"),
            ("yield", "continue ^0"),
            ("%n n: i32) {", "%n n: i32) [float_mode = fast] {"),
            ("-> (f32) {", "-> (f32) [inline_always] {"),
        ] {
            let changed = KERNEL.replace(from, to);
            assert_ne!(changed, KERNEL, "{from}");
            assert_ne!(hash(KERNEL), hash(&changed), "{from} became {to}");
        }
    }
}
