//! `test parse` and `test verify`: the text form and the verifier.

use crate::case::TestCase;
use polyloom_ir::{parse_module, verify_module};

pub(super) fn parse(case: &TestCase) -> Result<String, String> {
    let (_, file) = case.sources();
    let module = match parse_module(&case.text, file) {
        Ok(module) => module,
        Err(errors) => return Ok(case.render(&errors)),
    };
    let printed = module.to_string();
    match parse_module(&printed, file) {
        Ok(again) if again.to_string() == printed => Ok(printed),
        Ok(again) => Err(format!("prints differently after it was read back:\n{again}")),
        Err(errors) => Err(format!("what it prints cannot be read back: {errors:?}\n{printed}")),
    }
}

pub(super) fn verify(case: &TestCase) -> Result<String, String> {
    match verify_module(&case.module(false)?) {
        Ok(()) => Ok("verified\n".to_owned()),
        Err(errors) => Ok(case.render(&errors)),
    }
}
