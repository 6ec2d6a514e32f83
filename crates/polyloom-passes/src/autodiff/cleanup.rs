//! Cleaning up of what differentiation has written: out with what nothing needs, and no two parameters of one name.

use crate::transform::{cse, dce, fold};
use polyloom_ir::{CallEffects, Function, Value};
use std::sync::Arc;

/// Takes out what nothing needs, where nobody else looks at the `private` arrays.
pub(super) fn clean(func: &mut Function, private: &[Value]) {
    let calls = CallEffects::default();
    fold::fold(func);
    dce::dce_private(func, &calls, private);
    cse::cse(func, &calls);
    fold::fold(func);
    dce::dce_private(func, &calls, private);
}

/// Gives parameters whose names others have before them names of their own, as texts do: `adj_x_2`.
pub(super) fn distinct_names(func: &mut Function) {
    for index in 1..func.param_names.len() {
        let (before, name) = (&func.param_names[..index], &func.param_names[index]);
        let numbered = (2..).map(|number| Arc::from(format!("{name}_{number}")));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        if let Some(free) = names.find(|name| !before.contains(name)) {
            func.param_names[index] = free;
        }
    }
}
