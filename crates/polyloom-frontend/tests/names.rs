//! What functions are called in HIR, in traps and in diagnostics.

use polyloom_frontend::{FileEnvironment, FrontendOptions, SourceUnit, compile_kernel};
use polyloom_ir::SourceFile;

#[test]
fn a_kernel_that_calls_a_function_of_its_name_keeps_it() {
    let text = "
import polyloom as loom

@loom.func
def step(x: int):
    return x + 1

class Simulation:
    @loom.kernel
    def step(a: loom.array(dtype=int)):
        a[0] = step(a[0])
";
    let unit = SourceUnit::parse(SourceFile::new("names.py", text, 1)).expect("the text is Python");
    let kernel = FileEnvironment::new(&unit).function(unit.kernels().next().expect("there is a kernel"));
    let compiled = compile_kernel(&kernel, &FrontendOptions::default()).expect("the kernel compiles");
    assert_eq!(&*compiled.module.functions[compiled.kernel].name, "step");
    let names: Vec<&str> = compiled.module.functions.values().map(|function| &*function.name).collect();
    assert_eq!(names, ["step_2", "step"]);
}
