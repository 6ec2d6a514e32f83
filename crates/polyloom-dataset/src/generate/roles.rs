//! Whether the names of numbers say what a kernel does with them: a `threshold` is compared with, a `gain` multiplies.
//!
//! Parameters have names before anything reads them, so a name that does not fit is another in the finished kernel.

use super::generator::KernelGenerator;
use super::words;

/// Describes what a number is to what stands beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NumberUse {
    Factor,
    Divisor,
    Term,
    Limit,
    Exponent,
    Other,
}

/// Names that promise a use.
const FACTORS: [&str; 11] =
    ["factor", "gain", "scale", "strength", "rate", "ratio", "damping", "decay", "sharpness", "slope", "stiffness"];
const TERMS: [&str; 5] = ["offset", "bias", "drift", "margin", "shift"];
const LIMITS: [&str; 3] = ["threshold", "cutoff", "limit"];
const DIVISORS: [&str; 3] = ["width", "period", "span"];

/// Names that promise none.
pub(super) const PLAIN: [&str; 12] =
    ["alpha", "beta", "gamma", "kappa", "lam", "mu", "nu", "omega", "rho", "sigma", "tau", "theta"];

impl KernelGenerator {
    /// Renames numbers whose names promise another use than the lines make of them.
    pub(super) fn name_by_use(&mut self) {
        for name in std::mem::take(&mut self.numbers) {
            let uses = uses(self.lines(), &name);
            if promised(&name).is_none_or(|promised| fits(&uses, promised)) {
                continue;
            }
            let wanted = [NumberUse::Factor, NumberUse::Term, NumberUse::Limit, NumberUse::Divisor]
                .into_iter()
                .find(|&use_| fits(&uses, use_));
            let names: &[&str] = match wanted {
                Some(NumberUse::Factor) => &FACTORS[..4],
                Some(NumberUse::Term) => &TERMS,
                Some(NumberUse::Limit) => &LIMITS,
                Some(NumberUse::Divisor) => &DIVISORS[..1],
                _ => &PLAIN,
            };
            let first = self.random.below(names.len());
            let fitting = names[first..].iter().chain(&names[..first]).chain(&PLAIN);
            if let Some(fresh) = fitting.copied().find(|fresh| self.names.take(fresh)) {
                self.rename(&name, fresh);
            }
        }
    }
}

fn promised(name: &str) -> Option<NumberUse> {
    let lists: [(&[&str], NumberUse); 4] = [
        (&FACTORS, NumberUse::Factor),
        (&TERMS, NumberUse::Term),
        (&LIMITS, NumberUse::Limit),
        (&DIVISORS, NumberUse::Divisor),
    ];
    lists.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, promised)| promised)
}

/// Returns true if a name that promises this is true of these uses.
fn fits(uses: &[NumberUse], promised: NumberUse) -> bool {
    uses.contains(&promised) && uses.iter().all(|&found| found == promised || found == NumberUse::Other)
}

/// Returns what lines do with a number.
fn uses(lines: &[String], name: &str) -> Vec<NumberUse> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| !line.trim_start().starts_with('#')) {
        for at in words::places(line, name) {
            let (before, after) = beside(line, at, at + name.len());
            let (before, is_negative) = without_minus(before);
            found.push(match () {
                () if before.ends_with("**") || after.starts_with("**") => NumberUse::Exponent,
                () if before.ends_with('%') || before.ends_with('/') => NumberUse::Divisor,
                () if before.ends_with('*') || after.starts_with(['*', '/', '%']) => NumberUse::Factor,
                () if ["<", ">", "<=", ">=", "==", "!="].iter().any(|sign| before.ends_with(sign)) => NumberUse::Limit,
                () if ["<", ">", "==", "!="].iter().any(|sign| after.starts_with(sign)) => NumberUse::Limit,
                () if before.ends_with(['+', '-']) || after.starts_with(['+', '-']) => NumberUse::Term,
                () if is_negative => NumberUse::Other,
                () => NumberUse::Other,
            });
        }
    }
    found
}

/// Returns what stands before a name past a minus that is its own sign, and whether there is one.
fn without_minus(before: &str) -> (&str, bool) {
    let Some(rest) = before.strip_suffix('-').map(str::trim_end) else { return (before, false) };
    let is_sign = rest.is_empty()
        || rest.ends_with(['(', ',', '=', '*', '/', '+', '<', '>', '%', '['])
        || rest.ends_with("return");
    if is_sign { (rest, true) } else { (before, false) }
}

/// Returns what stands before a name and behind it, past its conversion to another type.
fn beside(line: &str, start: usize, end: usize) -> (&str, &str) {
    let (before, after) = (line[..start].trim_end(), line[end..].trim_start());
    let is_cast = ["float(", "float64(", "int("].iter().any(|cast| before.ends_with(cast));
    match after.strip_prefix(')').filter(|_| is_cast) {
        Some(after) => {
            let is_of_call = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            (before.trim_end_matches('(').trim_end_matches(is_of_call).trim_end(), after.trim_start())
        }
        None => (before, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_told_apart() {
        let check = |line: &str, expected: &[NumberUse]| assert_eq!(uses(&[line.to_owned()], "g"), expected, "{line}");
        check("a = g * b", &[NumberUse::Factor]);
        check("a = b + g", &[NumberUse::Term]);
        check("a = (g - b) * c", &[NumberUse::Term]);
        check("if b > g:", &[NumberUse::Limit]);
        check("if b == g:", &[NumberUse::Limit]);
        check("if g != b:", &[NumberUse::Limit]);
        check("if b > -g:", &[NumberUse::Limit]);
        check("a = b * -g", &[NumberUse::Factor]);
        check("a = wp.sin(-g)", &[NumberUse::Other]);
        check("a = -g", &[NumberUse::Other]);
        check("a = b % g", &[NumberUse::Divisor]);
        check("a = wp.float64(g) * b", &[NumberUse::Factor]);
        check("a = wp.sin(g) + gg", &[NumberUse::Other]);
        check("# g * g", &[]);
        assert!(
            fits(&[NumberUse::Term, NumberUse::Other], NumberUse::Term) && !fits(&[NumberUse::Other], NumberUse::Term)
        );
    }
}
