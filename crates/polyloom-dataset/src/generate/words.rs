//! Expressions in words, for docstrings: the outermost operation in prose, what it is of as formulas.

use smallvec::SmallVec;

/// What functions give, `{}` being their operands.
const NOUNS: [(&str, &str); 71] = [
    ("abs", "the absolute value of {}"),
    ("acos", "the inverse cosine of {}"),
    ("acosh", "the inverse hyperbolic cosine of {}"),
    ("argmax", "the position of the largest component of {}"),
    ("argmin", "the position of the smallest component of {}"),
    ("asin", "the inverse sine of {}"),
    ("asinh", "the inverse hyperbolic sine of {}"),
    ("atan", "the inverse tangent of {}"),
    ("atan2", "the angle whose tangent is {} over {}"),
    ("atanh", "the inverse hyperbolic tangent of {}"),
    ("bit_count", "the number of set bits of {}"),
    ("cbrt", "the cube root of {}"),
    ("ceil", "{} rounded up"),
    ("clamp", "{} limited to the range from {} to {}"),
    ("copysign", "{} with the sign of {}"),
    ("cos", "the cosine of {}"),
    ("cosh", "the hyperbolic cosine of {}"),
    ("cross", "the cross product of {} and {}"),
    ("cw_div", "the component-wise quotient of {} and {}"),
    ("cw_mul", "the component-wise product of {} and {}"),
    ("ddot", "the double contraction of {} and {}"),
    ("degrees", "{} in degrees"),
    ("determinant", "the determinant of {}"),
    ("diag", "the diagonal matrix of {}"),
    ("dot", "the dot product of {} and {}"),
    ("erf", "the error function of {}"),
    ("erfc", "the complementary error function of {}"),
    ("exp", "the exponential of {}"),
    ("exp2", "two to the power of {}"),
    ("expm1", "the exponential of {} less one"),
    ("float", "{} as a float"),
    ("floor", "{} rounded down"),
    ("fma", "{} times {} plus {}"),
    ("frac", "the fractional part of {}"),
    ("get_diag", "the diagonal of {}"),
    ("hypot", "the hypotenuse over {} and {}"),
    ("int", "{} as an integer"),
    ("inverse", "the inverse of {}"),
    ("length", "the length of {}"),
    ("length_sq", "the squared length of {}"),
    ("lerp", "the mix of {} and {} in the proportion {}"),
    ("log", "the natural logarithm of {}"),
    ("log10", "the decimal logarithm of {}"),
    ("log1p", "the logarithm of one plus {}"),
    ("log2", "the binary logarithm of {}"),
    ("max", "the larger of {} and {}"),
    ("min", "the smaller of {} and {}"),
    ("noise", "the noise at {}"),
    ("norm_l1", "the sum of the absolute components of {}"),
    ("normalize", "the direction of {}"),
    ("outer", "the outer product of {} and {}"),
    ("pow", "{} to the power of {}"),
    ("quat_inverse", "the inverse rotation of {}"),
    ("quat_rotate", "{1} rotated by {0}"),
    ("quat_rotate_inv", "{1} rotated back by {0}"),
    ("radians", "{} in radians"),
    ("rint", "{} rounded to even"),
    ("round", "{} rounded"),
    ("rsqrt", "one over the square root of {}"),
    ("sign", "the sign of {}"),
    ("sin", "the sine of {}"),
    ("sinh", "the hyperbolic sine of {}"),
    ("skew", "the cross-product matrix of {}"),
    ("smoothstep", "the smooth step of {2} from {0} to {1}"),
    ("sqrt", "the square root of {}"),
    ("step", "the unit step of {}"),
    ("tan", "the tangent of {}"),
    ("tanh", "the hyperbolic tangent of {}"),
    ("trace", "the trace of {}"),
    ("transpose", "the transpose of {}"),
    ("trunc", "{} without its fraction"),
];

/// `a OPERATOR b`.
pub(super) fn binary(operator: &str, a: &str, b: &str) -> String {
    let noun = match operator {
        "+" => "the sum of {} and {}",
        "-" => "the difference of {} and {}",
        "*" => "the product of {} and {}",
        "@" => "the matrix product of {} and {}",
        "/" => "the quotient of {} and {}",
        "//" => "the whole part of {} over {}",
        "%" => "the remainder of {} by {}",
        "<<" => "{} shifted left by {}",
        ">>" => "{} shifted right by {}",
        "&" => "the common bits of {} and {}",
        "|" => "the bits of {} and of {}",
        "^" => "the differing bits of {} and {}",
        "<" => "{} is less than {}",
        ">" => "{} is greater than {}",
        "<=" => "{} is at most {}",
        ">=" => "{} is at least {}",
        "==" => "{} equals {}",
        "!=" => "{} differs from {}",
        "and" => "{} and {}",
        "or" => "{} or {}",
        "**" => "{} to the power of {}",
        _ => "{} with {}",
    };
    if operator == "*" && a == b {
        return format!("the square of {a}");
    }
    fill(noun, &[a, b])
}

/// `OPERATOR x`.
pub(super) fn unary(operator: &str, x: &str) -> String {
    match operator {
        "-" => format!("minus {x}"),
        "~" => format!("the inverted bits of {x}"),
        _ => format!("not {x}"),
    }
}

/// A condition that does not hold, of which `text` is the code.
pub(super) fn negated(condition: &str, text: &str) -> String {
    let verbs = [(" is ", " is not "), (" equals ", " does not equal "), (" differs ", " does not differ ")];
    let mut found = verbs.iter().filter(|(verb, _)| condition.contains(verb));
    match (found.next(), found.next()) {
        (Some((verb, negated)), None) if condition.matches(verb).count() == 1 => condition.replacen(verb, negated, 1),
        _ => formula(text),
    }
}

/// Code as the docstring has it: without the package.
pub(super) fn formula(text: &str) -> String {
    format!("`{}`", text.replace("wp.", "").replace("loom.", ""))
}

/// `NAME(args)`, of which `text` is the code.
pub(super) fn call(name: &str, args: &[String], text: &str) -> String {
    let name = name.rsplit('.').next().unwrap_or(name);
    let args: SmallVec<[&str; 4]> = args.iter().map(String::as_str).collect();
    if name == "where"
        && let [condition, yes, no] = args[..]
    {
        return format!("{yes} where {condition} holds and {no} elsewhere");
    }
    match NOUNS.binary_search_by_key(&name, |(known, _)| known) {
        Ok(at) if NOUNS[at].1.matches('{').count() == args.len() => fill(NOUNS[at].1, &args),
        _ => formula(text),
    }
}

/// A component.
pub(super) fn part(suffix: &str, x: &str) -> String {
    match x.strip_suffix('`') {
        Some(name) if x.matches('`').count() == 2 => format!("{name}{suffix}`"),
        _ => format!("component `{suffix}` of {x}"),
    }
}

/// The noun with operands in place of `{}`, or of `{0}` and the like.
fn fill(noun: &str, args: &[&str]) -> String {
    let mut text = String::with_capacity(noun.len() + args.iter().map(|arg| arg.len()).sum::<usize>());
    let mut rest = noun;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((number, after)) = after.split_once('}') else { break };
        let at = number.parse().unwrap_or(next);
        next = at + 1;
        text.push_str(args.get(at).copied().unwrap_or_default());
        rest = after;
    }
    text.push_str(rest);
    text
}

/// `a, b and c`.
pub(super) fn list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_sorted() {
        assert!(NOUNS.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn calls_read_as_sentences() {
        let args = |of: &[&str]| -> Vec<String> { of.iter().map(|&arg| arg.to_owned()).collect() };
        assert_eq!(call("wp.sin", &args(&["`x`"]), "wp.sin(x)"), "the sine of `x`");
        assert_eq!(call("wp.quat_rotate", &args(&["`q`", "`v`"]), ""), "`v` rotated by `q`");
        assert_eq!(call("wp.unheard_of", &args(&["`a`"]), "wp.unheard_of(a)"), "`unheard_of(a)`");
        assert_eq!(part(".x", "`p`"), "`p.x`");
        assert_eq!(part("[0]", "the sum of `p` and `q`"), "component `[0]` of the sum of `p` and `q`");
        assert_eq!(negated("`a` is less than 2", "not a < 2"), "`a` is not less than 2");
        assert_eq!(binary("*", "`a`", "`a`"), "the square of `a`");
    }
}
