//! The verifier: the contract between everything that makes HIR and everything that reads it.
//!
//! Verified HIR never panics a pass or a back end. It is HIR of which all of this holds:
//!
//! Arenas
//!
//! 1. Every handle in reachable code (regions, parameters, instructions, operands, results, targets, callees) names an
//!    entity of its function or module. Entities that nothing reaches may be anything.
//! 2. The regions reachable from the body form a tree: the body is owned by no instruction, every other region by one,
//!    and every instruction stands in one place.
//! 3. Regions nest at most [`MAX_REGION_DEPTH`](crate::MAX_REGION_DEPTH) deep.
//! 4. Every value says where it is defined, and is defined there and nowhere else.
//! 5. A value is used where its definition dominates the use: it stands earlier in the same region or in an enclosing
//!    one. A region does not see the results of the instruction that owns it, nor a `while` body its condition.
//! 6. Every region ends in a terminator, and terminators stand nowhere else.
//!
//! Functions
//!
//! 7. Function names are not empty and unique in their module.
//! 8. There is one parameter name per parameter.
//! 9. Arrays have 1 to [`MAX_AXES`](crate::MAX_AXES) axes and are function parameters or what `shared_array` and
//!    `dynamic_shared` give: no other instruction gives an array, no other region takes one and no function returns
//!    one. A kernel takes no array in shared memory.
//!    An array of composites has as many dimensions less as its elements' components have. A composite has 1 to
//!    [`MAX_COMPONENTS`](crate::MAX_COMPONENTS) components.
//! 10. Kernels have no results and are not called.
//! 11. No function calls itself, directly or through others.
//!
//! Instructions
//!
//! 12. An instruction owns as many regions and carries the kind of immediate its op says
//!     ([`InstData::regions`](crate::InstData::regions),
//!     [`Imm`](crate::Imm)).
//! 13. Operand and result types are those of one of the op's overloads in the op table.
//! 14. A `const` has no operand and one scalar result, and its bits fit the result's type (`bool`: 0 or 1).
//! 15. `cast` takes a scalar to a scalar; `bitcast` takes a number to a number of the same size.
//! 16. Axes are those of a launch or of the array: `tid`, `wrap_index` and `check bounds` below
//!     [`MAX_DIMS`](crate::MAX_DIMS), `dim` below the array's dimensions.
//!     `construct` takes all components of its one result; `component` and `with_component` name one that there is.
//!     The axes of blocks and grids, as of `thread_idx`, are 0 to 2. The `width` of a `shuffle` is a power of two up to
//!     32. A `shared_array` has as many extents as dimensions, none of them 0; its alignment is a power
//!     of two.
//! 17. A `call` has the operands and results of its callee.
//! 18. `print` takes scalars.
//!
//! Control flow
//!
//! 19. `if` takes a `bool`; its regions take nothing and yield its results.
//! 20. `for_range` takes start, end and step of one integer type and the carried values; its region takes the counter
//!     and the carried values and yields the next ones, and its results are the carried values.
//! 21. `while` takes the carried values, which are also its results and the parameters of both regions. Its condition
//!     ends in a `yield` of one `bool` or in `unreachable`; its body yields the next carried values.
//! 22. `block` and its region take nothing; the region yields the results.
//! 23. `break` names a `block` or loop that encloses it and gives its results; `continue` names a loop that encloses it
//!     and gives its carried values.
//! 24. `return` gives the function's results. The body ends in `return` or `unreachable`.
//! 25. An `if` neither of whose regions yields is followed by `unreachable`.
//!
//! Blocks and warps, of the kernels of a module
//!
//! 26. What the threads of a block or a warp execute together (`Convergence`), and a call of a function that contains
//!     it, stands where control flow is the same for all of them, as [`crate::analysis::uniformity`] sees it.
//!
//! Derivatives
//!
//! 27. What stands in for a function or its derivative is a function, not a kernel, of the types that
//!     [`Function::gradient`] and [`Function::replay`] say.
//!
//! What an architecture or a version of PTX lacks is no matter of validity: [`check_arch`], [`check_version`].

mod arch;
mod constants;
mod convergence;
mod function;
mod op_types;
mod promises;
mod readonly;
mod structure;

pub use arch::{check_arch, check_archs, check_version, least_arch, least_version};
pub use constants::check_constants;
pub use convergence::check_convergence;
pub use promises::{LoopBound, check_promises, loop_bounds, timed_promise};
pub use readonly::check_readonly;

use crate::diagnostic::{Code, Diagnostic};
use crate::entity::FuncId;
use crate::function::{Function, Module};
use crate::span::Span;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashSet;

/// Checks a module against every invariant.
///
/// # Errors
///
/// Everything that is wrong, function by function.
pub fn verify_module(module: &Module) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut names = FxHashSet::default();
    let mut calls = SecondaryMap::new();
    for (id, function) in &module.functions {
        if !names.insert(&function.name) {
            errors.push(invalid(function.span, format!("two functions are called `{}`", function.name)));
        }
        calls[id] = check_function(function, Some(module), &mut errors);
    }
    find_recursion(module, &calls, &mut errors);
    if errors.is_empty() {
        errors = check_convergence(module);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks what a valid module may still get wrong: stores to read-only arrays, constants out of range, and promises of
/// decorators that its code breaks. Some of what it finds are warnings.
pub fn check_rules(module: &Module) -> Vec<Diagnostic> {
    [check_readonly, check_constants, check_promises].iter().flat_map(|check| check(module)).collect()
}

/// Checks one function. Without its module, what it calls is not looked at; recursion never is.
///
/// # Errors
///
/// Everything that is wrong.
pub fn verify_function(function: &Function, module: Option<&Module>) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    check_function(function, module, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A call: who and where.
type Call = (FuncId, Span);

/// Adds what is wrong with the function to `errors` and gives the calls in it.
fn check_function(function: &Function, module: Option<&Module>, errors: &mut Vec<Diagnostic>) -> Vec<Call> {
    // The other checks walk the regions, so that they need them to be a tree.
    let n_errors = errors.len();
    structure::check(function, module, errors);
    if errors.len() > n_errors { Vec::new() } else { function::check(function, module, errors) }
}

fn invalid(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::HirInvalid, span, message)
}

/// Reports every call that closes a cycle, in a depth-first search of the call graph.
fn find_recursion(module: &Module, calls: &SecondaryMap<FuncId, Vec<Call>>, errors: &mut Vec<Diagnostic>) {
    let mut visited = FxHashSet::default();
    for root in module.functions.keys() {
        // The chain of calls being followed: function, and how many of its calls have been.
        let mut chain: Vec<(FuncId, usize)> = Vec::new();
        if visited.insert(root) {
            chain.push((root, 0));
        }
        while let Some((caller, n_followed)) = chain.last_mut() {
            let Some(&(callee, span)) = calls[*caller].get(*n_followed) else {
                chain.pop();
                continue;
            };
            *n_followed += 1;
            if let Some(start) = chain.iter().position(|(function, _)| *function == callee) {
                let cycle = chain[start..].iter().map(|(function, _)| *function).chain([callee]);
                let names: Vec<String> = cycle.map(|id| format!("@{}", module.functions[id].name)).collect();
                errors.push(invalid(span, format!("recursion: {}", names.join(" calls "))));
            } else if visited.insert(callee) {
                chain.push((callee, 0));
            }
        }
    }
}
