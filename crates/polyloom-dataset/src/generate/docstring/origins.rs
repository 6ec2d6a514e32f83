//! Sentences about what values are computed from, where there is no room for how.

use super::dataflow::{LineSources, NameDataflow, ValueDerivation};
use super::names::names_of;
use super::{DocSubject, list};
use crate::generate::words::without_package;

/// The most sentences of this kind.
const MOST: usize = 3;

/// Returns what each name is computed from, of those that are computed from parameters.
pub(super) fn computed_from(subject: &DocSubject<'_>, flow: &NameDataflow<'_>, names: &[&str]) -> Vec<String> {
    let mut groups: Vec<(LineSources, Vec<&str>)> = Vec::new();
    for &name in names {
        let Some(origin) = flow.origin(name).filter(|origin| origin.params != 0) else { continue };
        match groups.iter_mut().find(|(known, _)| known.params == origin.params) {
            Some((known, names)) => {
                known.join(&origin);
                names.push(name);
            }
            None => groups.push((origin, vec![name])),
        }
    }
    if groups.len() > MOST {
        let mut all = LineSources::default();
        groups.iter().for_each(|(origin, _)| all.join(origin));
        groups = vec![(all, groups.into_iter().flat_map(|(_, names)| names).collect())];
    }
    let sentence = |(origin, names): &(LineSources, Vec<&str>)| {
        let given = subject.inputs.iter().map(|given| given.name);
        let sources: Vec<&str> = given
            .enumerate()
            .filter(|(at, name)| origin.has_param(*at) && !names.contains(name))
            .map(|(_, name)| name)
            .collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        format!(
            "{} {verb} computed from {}{}.",
            list(names),
            list(&sources),
            told(subject, &flow.way(origin), names.len())
        )
    };
    groups.iter().map(sentence).collect()
}

/// Returns the number of steps there are, how often the loops go round, and what the first branch tests.
fn told(subject: &DocSubject<'_>, way: &ValueDerivation<'_>, n_names: usize) -> String {
    let rounds: Option<Vec<String>> = way.loops.iter().map(|over| rounds(subject, over)).collect();
    let loops = match (way.loops.len(), rounds.as_deref()) {
        (0, _) => None,
        (1, Some([rounds])) => Some(format!("a loop of at most {rounds} rounds")),
        (1, _) => Some("a loop".to_owned()),
        (_, Some([first @ .., last])) => Some(format!("loops of at most {} and {last} rounds", first.join(", "))),
        (n, _) => Some(format!("{n} loops")),
    };
    let known = subject.known();
    let is_known = |test: &&&str| names_of(test).all(|name| known.contains(name));
    let test = way.tests.iter().find(is_known).map(|test| without_package(test));
    let branches = match (way.n_branches, test) {
        (0, _) => None,
        (1, Some(test)) => Some(format!("a branch on `{test}`")),
        (1, None) => Some("a branch".to_owned()),
        (n, Some(test)) => Some(format!("{n} branches, one of them on `{test}`")),
        (n, None) => Some(format!("{n} branches")),
    };
    let with: Vec<String> = loops.into_iter().chain(branches).collect();
    let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(" and ")) };
    let together = if n_names > 1 { " together" } else { "" };
    match way.n_steps {
        0..=2 => with,
        n => format!(" in {n} steps{together}{with}"),
    }
}

/// Returns the number of times a loop goes round unless it is left, if its bounds are numbers or a parameter.
fn rounds(subject: &DocSubject<'_>, over: &str) -> Option<String> {
    let args = over.strip_prefix("range(")?.strip_suffix(')')?;
    if subject.inputs.iter().any(|given| given.name == args) {
        return Some(format!("`{args}`"));
    }
    let bounds: Vec<i64> = args.split(", ").map(|bound| bound.parse().ok()).collect::<Option<_>>()?;
    let n = match bounds[..] {
        [high] => high,
        [low, high] => high - low,
        [low, high, step] if step > 0 => (high - low + step - 1) / step,
        [low, high, step] if step < 0 => (low - high - step - 1) / -step,
        _ => return None,
    };
    (n > 1).then(|| n.to_string())
}

/// Returns which of the values each of these parameters has a say in first.
pub(super) fn entering(
    subject: &DocSubject<'_>,
    flow: &NameDataflow<'_>,
    params: &[&str],
    among: &[&str],
) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for &param in params {
        let Some(number) = subject.inputs.iter().position(|given| given.name == param) else { continue };
        let reached = among.iter().filter_map(|&name| {
            let origin = flow.origin(name).filter(|origin| origin.has_param(number))?;
            Some((origin.n_lines(), name))
        });
        let Some((_, first)) = reached.min_by_key(|(n_lines, _)| *n_lines) else { continue };
        match groups.iter_mut().find(|(name, _)| *name == first) {
            Some((_, params)) => params.push(param),
            None => groups.push((first, vec![param])),
        }
    }
    let sentence = |(first, params): &(&str, Vec<&str>)| {
        let verb = if params.len() == 1 { "enters" } else { "enter" };
        format!("{} {verb} into `{first}`.", list(params))
    };
    groups.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::docstring::ReadParameter;
    use crate::generate::program::Category;

    #[test]
    fn loops_are_counted() {
        let inputs = [ReadParameter { name: "n", rank: 0, is_struct: false }];
        let subject = DocSubject { category: Category::Loop, inputs: &inputs, outputs: &[], indices: &[], lines: &[] };
        let check =
            |over: &str, expected: Option<&str>| assert_eq!(rounds(&subject, over).as_deref(), expected, "{over}");
        check("range(4)", Some("4"));
        check("range(1, 5)", Some("4"));
        check("range(0, 7, 2)", Some("4"));
        check("range(7, 0, -1)", Some("7"));
        check("range(6, 0, -4)", Some("2"));
        check("range(n)", Some("`n`"));
        check("range(x.shape[0])", None);
    }
}
