//! Exponentials, logarithms, roots, and the functions that they express.

use super::{Law, LawSite};
use crate::canonical::TermId;
use crate::op::TensorOp::{Add, Cos, Divide, Exp, Log, Multiply, Power, Sin, Sqrt, Tanh};

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "exponential of a logarithm",
        statement: "exp(a + log(x)) = exp(a) * x, and exp(c * log(x)) = x ** c for a whole number c from -4 to 4",
        domain: Some("x is above 0"),
        examples: &["%a = log %p\n%b = add %a, %x\n%r = exp %b", "%a = log %p\n%b = multiply %a, -2.0\n%r = exp %b"],
        ops: &[Exp],
        apply: |site| exp_of_log(site).into_iter().collect(),
    },
    Law {
        name: "logarithm of a product",
        statement: "log(a * b) = log(a) + log(b), and log(1 / a) = -log(a)",
        domain: Some("all factors are above 0"),
        examples: &["%a = multiply %p, %p\n%b = multiply %a, 3.0\n%r = log %b"],
        ops: &[Log],
        apply: |site| log_of_product(site).into_iter().collect(),
    },
    Law {
        name: "logarithm of a root",
        statement: "log(sqrt(x)) = log(x) / 2",
        domain: None,
        examples: &["%a = sqrt %p\n%r = log %a"],
        ops: &[Log],
        apply: |site| {
            let root = site.terms_of(site.operands[0], Sqrt).into_iter().next();
            root.and_then(|root| site.log(root[0])).and_then(|log| site.scaled(0.5, log)).into_iter().collect()
        },
    },
    Law {
        name: "square of a root",
        statement: "sqrt(x) * sqrt(x) = x, and x / sqrt(x) = sqrt(x)",
        domain: Some("x is not below 0, and above in the quotient"),
        examples: &["%a = sqrt %p\n%r = multiply %a, %a", "%a = sqrt %p\n%r = divide %p, %a"],
        ops: &[Multiply],
        apply: square_of_root,
    },
    Law {
        name: "product of roots",
        statement: "sqrt(a) * sqrt(b) = sqrt(a * b)",
        domain: Some("neither is below 0"),
        examples: &["%a = sqrt %p\n%b = add %p, 1.0\n%c = sqrt %b\n%r = multiply %a, %c"],
        ops: &[Multiply],
        apply: |site| product_of_roots(site).into_iter().collect(),
    },
    Law {
        name: "root of a product",
        statement: "sqrt(c * x) = sqrt(c) * sqrt(x) for a number c, sqrt(a * b) = sqrt(a) * sqrt(b), and sqrt(x * x) = abs(x)",
        domain: Some("no factor is below 0, but for the square"),
        examples: &["%a = multiply %p, 4.0\n%r = sqrt %a", "%a = multiply %x, %x\n%r = sqrt %a"],
        ops: &[Sqrt],
        apply: root_of_product,
    },
    Law {
        name: "tanh by an exponential",
        statement: "tanh(x) = 1 - 2 / (exp(2 * x) + 1)",
        domain: None,
        examples: &["%r = tanh %x"],
        ops: &[Tanh],
        apply: |site| tanh(site).into_iter().collect(),
    },
    Law {
        name: "logistic reflection",
        statement: "1 / (1 + exp(a)) = 1 - 1 / (1 + exp(-a))",
        domain: None,
        examples: &["%r = sigmoid %x"],
        ops: &[Divide],
        apply: |site| reflect(site).into_iter().collect(),
    },
    Law {
        name: "expansion by an exponential",
        statement: "1 / (b + c * exp(a)) = exp(-a) / (b * exp(-a) + c)",
        domain: None,
        examples: &["%a = exp %x\n%b = add %a, %p\n%r = divide 1.0, %b"],
        ops: &[Divide],
        apply: expand,
    },
    Law {
        name: "softplus without overflow",
        statement: "log(1 + exp(x)) = max(x, 0) + log(1 + exp(-abs(x)))",
        domain: None,
        examples: &["%a = exp %x\n%r = log1p %a"],
        ops: &[Log],
        apply: |site| softplus(site).into_iter().collect(),
    },
    Law {
        name: "factor of a logarithm",
        statement: "log(b + c * exp(a)) = a + log(b * exp(-a) + c)",
        domain: None,
        examples: &["%a = exp %x\n%b = add %a, %p\n%r = log %b"],
        ops: &[Log],
        apply: factor_of_log,
    },
    Law {
        name: "sine and cosine",
        statement: "a * sin(x) * sin(x) + a * cos(x) * cos(x) = a",
        domain: None,
        examples: &["%a = sin %x\n%b = square %a\n%c = cos %x\n%d = square %c\n%r = add %b, %d"],
        ops: &[Add],
        apply: |site| pythagoras(site).into_iter().collect(),
    },
    Law {
        name: "square of a cosine",
        statement: "cos(x) * cos(x) = 1 - sin(x) * sin(x)",
        domain: None,
        examples: &["%a = cos %x\n%r = square %a"],
        ops: &[Multiply],
        apply: |site| square_of_cosine(site).into_iter().collect(),
    },
    Law {
        name: "doubled angle",
        statement: "sin(2 * x) = 2 * sin(x) * cos(x), and cos(2 * x) = 1 - 2 * sin(x) * sin(x)",
        domain: None,
        examples: &["%a = multiply %x, 2.0\n%r = sin %a", "%a = add %x, %x\n%r = cos %a"],
        ops: &[Sin, Cos],
        apply: |site| doubled(site).into_iter().collect(),
    },
    Law {
        name: "angle of a sum",
        statement: "sin(a + b) = sin(a) * cos(b) + cos(a) * sin(b), and cos(a + b) = cos(a) * cos(b) - sin(a) * sin(b)",
        domain: None,
        examples: &["%a = add %x, %y\n%r = sin %a", "%a = subtract %x, %y\n%r = cos %a"],
        ops: &[Sin, Cos],
        apply: |site| angle_of_sum(site).into_iter().collect(),
    },
    Law {
        name: "power by an exponential",
        statement: "x ** a = exp(a * log(x))",
        domain: Some("x is above 0"),
        examples: &["%r = power %p, %x"],
        ops: &[Power],
        apply: |site| {
            let (x, a) = (site.operands[0], site.operands[1]);
            let exponent = if site.is_float() { site.log(x) } else { None };
            let exponent = exponent.and_then(|log| site.product(&[a, log]));
            exponent.and_then(|exponent| site.exp(exponent)).into_iter().collect()
        },
    },
];

fn exp_of_log(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let x = site.operands[0];
    let mut ways = site.terms_of(x, Add);
    ways.push(vec![x]);
    for terms in ways {
        let (mut factors, mut rest) = (Vec::new(), Vec::new());
        for term in terms {
            let (value, inner) = site.split(term);
            match site.terms_of(inner, Log).into_iter().next() {
                Some(log) if value.fract() == 0.0 && value.abs() <= 4.0 => {
                    let factor = if value < 0.0 { site.reciprocal(log[0])? } else { log[0] };
                    factors.extend(std::iter::repeat_n(factor, value.abs() as usize));
                }
                _ => rest.push(term),
            }
        }
        if factors.is_empty() {
            continue;
        }
        if !rest.is_empty() {
            let exponent = site.sum(&rest)?;
            factors.push(site.exp(exponent)?);
        }
        return site.product(&factors);
    }
    None
}

fn log_of_product(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let x = site.operands[0];
    if let Some(factors) = site.terms_of(x, Multiply).into_iter().next() {
        let logs: Option<Vec<TermId>> = factors.into_iter().map(|factor| site.log(factor)).collect();
        return site.sum(&logs?);
    }
    let quotient = site.terms_of(x, Divide).into_iter().next()?;
    let log = site.log(quotient[1])?;
    if site.real(quotient[0]) == Some(1.0) { site.negated(log) } else { None }
}

fn square_of_root(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let mut found = Vec::new();
    for place in 0..site.operands.len() {
        let factor = site.operands[place];
        for root in site.terms_of(factor, Sqrt) {
            let mut others = site.others(place);
            if let Some(other) = others.iter().position(|&other| other == factor) {
                others.remove(other);
                others.push(root[0]);
                found.extend(site.product(&others));
            }
        }
        for quotient in site.terms_of(factor, Divide) {
            for root in site.terms_of(quotient[1], Sqrt) {
                let mut others = site.others(place);
                if let Some(other) = others.iter().position(|&other| other == root[0]) {
                    others.remove(other);
                    others.push(quotient[1]);
                    found.extend(site.product(&others));
                } else if let Some(other) = others.iter().position(|&other| other == factor) {
                    // The square of a reciprocal root.
                    others.remove(other);
                    others.extend(site.reciprocal(root[0]));
                    found.extend(site.product(&others));
                }
            }
        }
    }
    found
}

fn product_of_roots(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let roots: Vec<(usize, TermId)> = (0..site.operands.len())
        .filter_map(|place| Some((place, site.terms_of(site.operands[place], Sqrt).first()?[0])))
        .collect();
    if roots.len() < 2 {
        return None;
    }
    let rest = site.operands.iter().enumerate().filter(|(place, _)| roots.iter().all(|(root, _)| root != place));
    let mut factors: Vec<TermId> = rest.map(|(_, &id)| id).collect();
    let insides: Vec<TermId> = roots.iter().map(|&(_, inside)| inside).collect();
    let inside = site.product(&insides)?;
    factors.push(site.sqrt(inside)?);
    site.product(&factors)
}

fn root_of_product(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let mut found = Vec::new();
    for factors in site.terms_of(site.operands[0], Multiply) {
        if let &[a, b] = &factors[..]
            && a == b
        {
            found.extend(site.elementwise(crate::op::TensorOp::Absolute, vec![a]));
            continue;
        }
        if factors.iter().any(|&factor| site.real(factor).is_some_and(|value| value < 0.0)) {
            continue;
        }
        let roots: Option<Vec<TermId>> = factors.into_iter().map(|factor| site.sqrt(factor)).collect();
        found.extend(roots.and_then(|roots| site.product(&roots)));
    }
    found
}

fn tanh(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let doubled = site.scaled(2.0, site.operands[0])?;
    let (one, exponential) = (site.number(1.0), site.exp(doubled)?);
    let below = site.sum(&[one, exponential])?;
    let reciprocal = site.reciprocal(below)?;
    let part = site.scaled(-2.0, reciprocal)?;
    site.sum(&[one, part])
}

/// Returns the divisor of a reciprocal.
fn divisor(site: &LawSite<'_, '_>) -> Option<TermId> {
    (site.real(site.operands[0]) == Some(1.0) && site.is_float()).then_some(site.operands[1])
}

/// Returns what the exponential in `1 + exp(a)` is of.
fn exponent_beside_one(site: &LawSite<'_, '_>, x: TermId) -> Option<TermId> {
    site.terms_of(x, Add).into_iter().find_map(|terms| {
        let &[a, b] = &terms[..] else { return None };
        let (one, exponential) = if site.real(a).is_some() { (a, b) } else { (b, a) };
        let exponent = site.terms_of(exponential, Exp).first()?[0];
        (site.real(one) == Some(1.0)).then_some(exponent)
    })
}

fn reflect(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let exponent = exponent_beside_one(site, divisor(site)?)?;
    let negative = site.negated(exponent)?;
    let (one, exponential) = (site.number(1.0), site.exp(negative)?);
    let below = site.sum(&[one, exponential])?;
    let reciprocal = site.reciprocal(below)?;
    let negative = site.negated(reciprocal)?;
    site.sum(&[one, negative])
}

/// Returns the exponents of exponentials in a sum's terms, and the terms.
fn exponents(site: &LawSite<'_, '_>, x: TermId) -> Vec<(TermId, Vec<TermId>)> {
    let mut found = Vec::new();
    for terms in site.terms_of(x, Add).into_iter().take(2) {
        for &term in terms.iter().take(4) {
            let mut factors: Vec<TermId> = site.terms_of(term, Multiply).into_iter().flatten().collect();
            factors.push(term);
            let of_exp = factors.into_iter().find_map(|factor| Some(site.terms_of(factor, Exp).first()?[0]));
            found.extend(of_exp.map(|exponent| (exponent, terms.clone())));
        }
    }
    found
}

/// Divides each term by an exponential, and returns the sum with the exponential of the negative.
fn divided(site: &mut LawSite<'_, '_>, exponent: TermId, terms: &[TermId]) -> Option<(TermId, TermId)> {
    let negative = site.negated(exponent)?;
    let factor = site.exp(negative)?;
    let terms: Option<Vec<TermId>> = terms.iter().map(|&term| site.product(&[term, factor])).collect();
    Some((site.sum(&terms?)?, factor))
}

fn expand(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let Some(divisor) = divisor(site) else { return Vec::new() };
    let mut found = Vec::new();
    for (exponent, terms) in exponents(site, divisor) {
        let Some((sum, factor)) = divided(site, exponent, &terms) else { continue };
        found.extend(site.reciprocal(sum).and_then(|reciprocal| site.product(&[reciprocal, factor])));
    }
    found
}

fn factor_of_log(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let mut found = Vec::new();
    for (exponent, terms) in exponents(site, site.operands[0]) {
        let Some((sum, _)) = divided(site, exponent, &terms) else { continue };
        found.extend(site.log(sum).and_then(|log| site.sum(&[log, exponent])));
    }
    found
}

fn softplus(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let x = exponent_beside_one(site, site.operands[0])?;
    let magnitude = site.elementwise(crate::op::TensorOp::Absolute, vec![x])?;
    let negative = site.negated(magnitude)?;
    let (one, zero, exponential) = (site.number(1.0), site.number(0.0), site.exp(negative)?);
    let inside = site.sum(&[one, exponential])?;
    let log = site.log(inside)?;
    let positive = site.elementwise(crate::op::TensorOp::Maximum, vec![x, zero])?;
    site.sum(&[positive, log])
}

fn pythagoras(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let terms = site.operands.clone();
    // Takes two equal factors that are a function of an operand out of a term.
    let without_square = |site: &LawSite<'_, '_>, term: TermId, op| -> Option<(TermId, Vec<TermId>)> {
        let factors = site.terms_of(term, Multiply).into_iter().next()?;
        let (place, argument) = factors.iter().enumerate().find_map(|(place, &factor)| {
            let argument = site.terms_of(factor, op).first()?[0];
            factors[place + 1..].contains(&factor).then_some((place, argument))
        })?;
        let factor = factors[place];
        let mut n_left = 2;
        let rest = factors.into_iter().filter(|&other| {
            let is_taken = other == factor && n_left > 0;
            n_left -= i32::from(is_taken);
            !is_taken
        });
        Some((argument, rest.collect()))
    };
    for (first, &sine) in terms.iter().enumerate() {
        let Some((x, a)) = without_square(site, sine, Sin) else { continue };
        for (second, &cosine) in terms.iter().enumerate() {
            let Some((y, b)) = without_square(site, cosine, Cos) else { continue };
            if x != y || a != b {
                continue;
            }
            let rest = terms.iter().enumerate().filter(|(place, _)| *place != first && *place != second);
            let mut rest: Vec<TermId> = rest.map(|(_, &id)| id).collect();
            rest.push(site.product(&a)?);
            return site.sum(&rest);
        }
    }
    None
}

fn square_of_cosine(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    for place in 0..site.operands.len() {
        let factor = site.operands[place];
        let mut others = site.others(place);
        let Some(other) = others.iter().position(|&other| other == factor) else { continue };
        let Some(argument) = site.terms_of(factor, Cos).first().map(|operands| operands[0]) else { continue };
        others.remove(other);
        let sine = site.elementwise(Sin, vec![argument])?;
        let (one, square) = (site.number(1.0), site.product(&[sine, sine])?);
        let negative = site.negated(square)?;
        others.push(site.sum(&[one, negative])?);
        return site.product(&others);
    }
    None
}

fn doubled(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let (value, x) = site.split(site.operands[0]);
    if value != 2.0 {
        return None;
    }
    let (sine, cosine) = (site.elementwise(Sin, vec![x])?, site.elementwise(Cos, vec![x])?);
    if site.op == Sin {
        let product = site.product(&[sine, cosine])?;
        return site.scaled(2.0, product);
    }
    let (one, square) = (site.number(1.0), site.product(&[sine, sine])?);
    let part = site.scaled(-2.0, square)?;
    site.sum(&[one, part])
}

fn angle_of_sum(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let terms = site.terms_of(site.operands[0], Add).into_iter().find(|terms| terms.len() == 2)?;
    let both = |site: &mut LawSite<'_, '_>, op| -> Option<[TermId; 2]> {
        Some([site.elementwise(op, vec![terms[0]])?, site.elementwise(op, vec![terms[1]])?])
    };
    let ([sine, other_sine], [cosine, other_cosine]) = (both(site, Sin)?, both(site, Cos)?);
    if site.op == Sin {
        let parts = [site.product(&[sine, other_cosine])?, site.product(&[cosine, other_sine])?];
        return site.sum(&parts);
    }
    let (first, second) = (site.product(&[cosine, other_cosine])?, site.product(&[sine, other_sine])?);
    let negative = site.negated(second)?;
    site.sum(&[first, negative])
}
