//! `test backward`: the backward kernel of every kernel, as HIR.

use super::python;
use crate::case::TestCase;
use polyloom_ir::FunctionKind;
use polyloom_passes::autodiff::{self, DerivativeRequest};

/// The backward kernels with respect to all parameters; with the option `checkpoints` or `rows` those with checkpoints,
/// with `stages` the stages as well, and with `overwriting` all where gradients are written rather than added to.
pub(super) fn backward(case: &TestCase) -> Result<String, String> {
    let mut texts = Vec::new();
    for module in python::modules(case)? {
        let kernels = module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel);
        for (id, function) in kernels {
            let rank = autodiff::natural_rank(function);
            let rows = case.has_option("rows");
            let request = DerivativeRequest {
                checkpoints: rows || case.has_option("checkpoints"),
                rows,
                ..DerivativeRequest::new(vec![true; function.params().len()], rank)
            };
            let made = autodiff::backward(&module, id, &request).map_err(|errors| case.render(&errors))?;
            let first = made.needs.replayed.len();
            let adjoints = first..first + made.needs.adjoints.len();
            let mut all = vec![(made.module, made.kernel)];
            if case.has_option("stages") {
                let stages = autodiff::split(&all[0].0, all[0].1, adjoints, rank);
                let stages = stages.map_err(|errors| case.render(&errors))?.into_iter();
                all.extend(stages.map(|stage| (stage.module, stage.kernel)));
            }
            if case.has_option("overwriting") {
                for (module, kernel) in &mut all {
                    let made = autodiff::overwriting(module, *kernel, first, &made.needs.accesses, rank);
                    (*module, *kernel) = (made.module, made.kernel);
                }
            }
            texts.extend(all.into_iter().map(|(module, _)| module.to_string()));
        }
    }
    Ok(texts.join("\n"))
}
