//! Sums, products, maxima and choices.

use super::{Law, LawSite};
use crate::canonical::{TermId, coefficient};
use crate::op::TensorOp::{Absolute, Add, Divide, Less, LessEqual, Maximum, Minimum, Multiply, Where};

/// The most terms that a product of sums becomes.
const MOST_TERMS: usize = 24;

pub(super) const LAWS: &[Law] = &[
    Law {
        name: "distribution",
        statement: "a * (b + c) = a * b + a * c",
        domain: None,
        examples: &["%a = add %x, %y\n%r = multiply %a, %p"],
        ops: &[Multiply],
        apply: distribute,
    },
    Law {
        name: "common factor",
        statement: "a * b + a * c = a * (b + c)",
        domain: None,
        examples: &[
            "%a = multiply %x, %p\n%b = multiply %y, %p\n%r = add %a, %b",
            "%a = multiply %x, %p\n%r = add %a, %x",
        ],
        ops: &[Add],
        apply: factor_out,
    },
    Law {
        name: "cancellation",
        statement: "x * (1 / x) = 1",
        domain: Some("x is not 0"),
        examples: &["%a = add %p, 1.0\n%b = divide %x, %a\n%r = multiply %b, %a"],
        ops: &[Multiply],
        apply: cancel,
    },
    Law {
        name: "extremum of negatives",
        statement: "max(a, b) = -min(-a, -b)",
        domain: None,
        examples: &["%r = maximum %x, %y", "%r = minimum %x, %y"],
        ops: &[Maximum, Minimum],
        apply: |site| negated_extremum(site).into_iter().collect(),
    },
    Law {
        name: "shift out of an extremum",
        statement: "max(a + c, b + c) = max(a, b) + c",
        domain: None,
        examples: &["%a = add %x, %s\n%b = add %y, %s\n%r = maximum %a, %b"],
        ops: &[Maximum, Minimum],
        apply: |site| shift_out(site).into_iter().collect(),
    },
    Law {
        name: "shift into an extremum",
        statement: "max(a, b) + c = max(a + c, b + c)",
        domain: None,
        examples: &["%a = maximum %x, %y\n%r = add %a, %s"],
        ops: &[Add],
        apply: |site| shift_in(site).into_iter().collect(),
    },
    Law {
        name: "scale into an extremum",
        statement: "c * max(a, b) = max(c * a, c * b), for a number c above 0, and min for one below",
        domain: None,
        examples: &["%a = maximum %x, %y\n%r = multiply %a, 2.0", "%a = maximum %x, %y\n%r = multiply %a, -2.0"],
        ops: &[Multiply],
        apply: |site| scale_in(site).into_iter().collect(),
    },
    Law {
        name: "scale out of an extremum",
        statement: "max(c * a, c * b) = c * max(a, b), for a number c above 0",
        domain: None,
        examples: &["%a = multiply %x, 2.0\n%b = multiply %y, 2.0\n%r = maximum %a, %b"],
        ops: &[Maximum, Minimum],
        apply: |site| scale_out(site).into_iter().collect(),
    },
    Law {
        name: "magnitude as a maximum",
        statement: "abs(x) = max(x, -x)",
        domain: None,
        examples: &["%r = absolute %x"],
        ops: &[Absolute],
        apply: |site| {
            let x = site.operands[0];
            let found = site.is_float().then(|| site.negated(x)).flatten();
            found.and_then(|negative| site.elementwise(Maximum, vec![x, negative])).into_iter().collect()
        },
    },
    Law {
        name: "maximum as a magnitude",
        statement: "max(x, -x) = abs(x)",
        domain: None,
        examples: &["%a = negative %x\n%r = maximum %x, %a"],
        ops: &[Maximum],
        apply: |site| magnitude(site).into_iter().collect(),
    },
    Law {
        name: "square of a magnitude",
        statement: "abs(x) * abs(x) = x * x",
        domain: None,
        examples: &["%a = absolute %x\n%r = multiply %a, %a"],
        ops: &[Multiply],
        apply: |site| square_of_magnitude(site).into_iter().collect(),
    },
    Law {
        name: "magnitude of a product",
        statement: "abs(a * b) = abs(a) * abs(b)",
        domain: None,
        examples: &["%a = multiply %x, %y\n%r = absolute %a"],
        ops: &[Absolute],
        apply: |site| magnitude_of_product(site).into_iter().collect(),
    },
    Law {
        name: "choice of the larger",
        statement: "where(a < b, b, a) = max(a, b) and where(a < b, a, b) = min(a, b)",
        domain: None,
        examples: &["%c = less %x, %y\n%r = where %c, %y, %x", "%c = less_equal %x, %y\n%r = where %c, %x, %y"],
        ops: &[Where],
        apply: |site| choice(site).into_iter().collect(),
    },
    Law {
        name: "choice of a slope",
        statement: "where(0 < x, x, c * x) = max(x, c * x), for a number c of at most 1",
        domain: None,
        examples: &["%r = leaky_relu %x"],
        ops: &[Where],
        apply: |site| slope(site).into_iter().collect(),
    },
    Law {
        name: "sum of both extrema",
        statement: "max(a, b) + min(a, b) = a + b, and max(a, b) - min(a, b) = abs(a - b)",
        domain: None,
        examples: &[
            "%a = maximum %x, %y\n%b = minimum %x, %y\n%r = add %a, %b",
            "%a = maximum %x, %y\n%b = minimum %x, %y\n%c = subtract %b, %a\n%r = add %c, %p",
        ],
        ops: &[Add],
        apply: |site| both_extrema(site).into_iter().collect(),
    },
    Law {
        name: "factor into a choice",
        statement: "where(c, a, b) * d = where(c, a * d, b * d)",
        domain: None,
        examples: &["%c = less %x, %y\n%a = where %c, %x, 0.0\n%r = multiply %a, %p"],
        ops: &[Multiply],
        apply: |site| into_choice(site).into_iter().collect(),
    },
    Law {
        name: "sum of choices",
        statement: "where(c, a, b) + where(c, d, e) = where(c, a + d, b + e)",
        domain: None,
        examples: &["%c = less %x, %y\n%a = where %c, %x, 0.0\n%b = where %c, 0.0, %y\n%r = add %a, %b"],
        ops: &[Add],
        apply: |site| sum_of_choices(site).into_iter().collect(),
    },
];

fn distribute(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for place in 0..site.operands.len() {
        // A power of a sum has the same factor many times.
        if seen.contains(&site.operands[place]) {
            continue;
        }
        seen.push(site.operands[place]);
        let others = site.others(place);
        for terms in site.terms_of(site.operands[place], Add) {
            if terms.len() > MOST_TERMS {
                continue;
            }
            let products: Option<Vec<TermId>> = terms
                .iter()
                .map(|&term| {
                    let factors: Vec<TermId> = others.iter().copied().chain([term]).collect();
                    site.product(&factors)
                })
                .collect();
            found.extend(products.and_then(|products| site.sum(&products)));
        }
    }
    found
}

/// Returns the ways to write a term as factors.
fn factorings(site: &LawSite<'_, '_>, term: TermId) -> Vec<Vec<TermId>> {
    let mut ways = site.terms_of(term, Multiply);
    ways.truncate(4);
    ways.push(vec![term]);
    ways
}

fn factor_out(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    let terms = site.operands.clone();
    if terms.len() > MOST_TERMS {
        return Vec::new();
    }
    let ways: Vec<Vec<Vec<TermId>>> = terms.iter().map(|&term| factorings(site, term)).collect();
    // A number alone is no factor; a term that is one may be 1 times another.
    let mut candidates: Vec<TermId> = ways.iter().flatten().flatten().copied().collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|&factor| coefficient(site.store, factor).is_none());
    let mut found = Vec::new();
    for factor in candidates {
        let (mut cofactors, mut rest) = (Vec::new(), Vec::new());
        for (term, ways) in terms.iter().zip(&ways) {
            match ways.iter().find(|factors| factors.contains(&factor)) {
                Some(factors) => {
                    let mut left = factors.clone();
                    if let Some(place) = left.iter().position(|other| *other == factor) {
                        left.remove(place);
                    }
                    cofactors.push(left);
                }
                None => rest.push(*term),
            }
        }
        if cofactors.len() < 2 {
            continue;
        }
        let cofactors: Option<Vec<TermId>> = cofactors.iter().map(|factors| site.product(factors)).collect();
        let Some(inner) = cofactors.and_then(|cofactors| site.sum(&cofactors)) else { continue };
        let Some(product) = site.product(&[factor, inner]) else { continue };
        rest.push(product);
        found.extend(site.sum(&rest));
    }
    found
}

fn cancel(site: &mut LawSite<'_, '_>) -> Vec<TermId> {
    if !site.is_float() {
        return Vec::new();
    }
    for place in 0..site.operands.len() {
        for quotient in site.terms_of(site.operands[place], Divide) {
            if site.real(quotient[0]) != Some(1.0) {
                continue;
            }
            let divisor = quotient[1];
            let mut others = site.others(place);
            if let Some(place) = others.iter().position(|&other| other == divisor) {
                others.remove(place);
                let result = site.product(&others);
                return result.into_iter().collect();
            }
            // The divisor may be a multiple of a factor.
            let (value, rest) = site.split(divisor);
            if let Some(place) = others.iter().position(|&other| other == rest && value != 1.0 && value != 0.0) {
                others.remove(place);
                let scaled = site.product(&others).and_then(|product| site.scaled(1.0 / value, product));
                return scaled.into_iter().collect();
            }
        }
    }
    Vec::new()
}

fn negated_extremum(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    let other = if site.op == Maximum { Minimum } else { Maximum };
    let negated: Option<Vec<TermId>> = site.operands.clone().into_iter().map(|operand| site.negated(operand)).collect();
    let inner = site.chain(other, &negated?)?;
    site.negated(inner)
}

/// Returns the ways to write a term as a sum.
fn sums(site: &LawSite<'_, '_>, term: TermId) -> Vec<Vec<TermId>> {
    let mut ways = site.terms_of(term, Add);
    ways.truncate(3);
    ways.push(vec![term]);
    ways
}

fn shift_out(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    let operands = site.operands.clone();
    let first_ways = sums(site, operands[0]);
    let candidates: Vec<TermId> = first_ways.iter().flatten().copied().collect();
    for shift in candidates {
        if !operands.iter().all(|&operand| sums(site, operand).iter().any(|terms| terms.contains(&shift))) {
            continue;
        }
        let negative = site.negated(shift)?;
        let rest: Option<Vec<TermId>> = operands.iter().map(|&operand| site.sum(&[operand, negative])).collect();
        let inner = site.chain(site.op, &rest?)?;
        return site.sum(&[inner, shift]);
    }
    None
}

fn shift_in(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    for place in 0..site.operands.len() {
        for op in [Maximum, Minimum] {
            if let Some(operands) = site.terms_of(site.operands[place], op).into_iter().next() {
                let others = site.others(place);
                let shifted: Option<Vec<TermId>> = operands
                    .iter()
                    .map(|&operand| {
                        let terms: Vec<TermId> = others.iter().copied().chain([operand]).collect();
                        site.sum(&terms)
                    })
                    .collect();
                return site.chain(op, &shifted?);
            }
        }
    }
    None
}

fn scale_in(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() || site.operands.len() != 2 {
        return None;
    }
    let place = site.operands.iter().position(|&operand| site.real(operand).is_some())?;
    let value = site.real(site.operands[place])?;
    let x = site.operands[1 - place];
    for (op, other) in [(Maximum, Minimum), (Minimum, Maximum)] {
        if let Some(operands) = site.terms_of(x, op).into_iter().next() {
            let scaled: Option<Vec<TermId>> = operands.iter().map(|&operand| site.scaled(value, operand)).collect();
            return site.chain(if value < 0.0 { other } else { op }, &scaled?);
        }
    }
    None
}

fn scale_out(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    let operands = site.operands.clone();
    let values: Vec<f64> = operands.iter().map(|&operand| site.split(operand).0.abs()).collect();
    let value = values.into_iter().find(|&value| value != 1.0 && value > 0.0)?;
    let scaled: Option<Vec<TermId>> = operands.iter().map(|&operand| site.scaled(1.0 / value, operand)).collect();
    let inner = site.chain(site.op, &scaled?)?;
    site.scaled(value, inner)
}

fn both_extrema(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    if !site.is_float() {
        return None;
    }
    let terms: Vec<(f64, TermId)> = site.operands.clone().into_iter().map(|term| site.split(term)).collect();
    let pairs_of = |site: &LawSite<'_, '_>, x: TermId, op| -> Vec<Vec<TermId>> {
        let mut pairs = site.terms_of(x, op);
        pairs.retain(|pair| pair.len() == 2);
        pairs.iter_mut().for_each(|pair| pair.sort_unstable());
        pairs
    };
    for (first, &(value, most)) in terms.iter().enumerate() {
        for pair in pairs_of(site, most, Maximum) {
            for (second, &(other, least)) in terms.iter().enumerate() {
                if value.abs() != other.abs() || !pairs_of(site, least, Minimum).contains(&pair) {
                    continue;
                }
                let both = if value == other {
                    site.sum(&pair)?
                } else {
                    let negative = site.negated(pair[1])?;
                    let difference = site.sum(&[pair[0], negative])?;
                    site.elementwise(Absolute, vec![difference])?
                };
                let both = site.scaled(value, both)?;
                let rest = site.operands.iter().enumerate().filter(|(place, _)| *place != first && *place != second);
                let terms: Vec<TermId> = rest.map(|(_, &id)| id).chain([both]).collect();
                return site.sum(&terms);
            }
        }
    }
    None
}

fn magnitude(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let &[a, b] = &site.operands[..] else { return None };
    if !site.is_float() || site.negated(a)? != b && site.negated(b)? != a {
        return None;
    }
    site.elementwise(Absolute, vec![a])
}

fn square_of_magnitude(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    for place in 0..site.operands.len() {
        let magnitude = site.operands[place];
        let mut others = site.others(place);
        let Some(other) = others.iter().position(|&other| other == magnitude) else { continue };
        if let Some(inner) = site.terms_of(magnitude, Absolute).into_iter().next() {
            others.remove(other);
            others.extend([inner[0], inner[0]]);
            return site.product(&others);
        }
    }
    None
}

fn magnitude_of_product(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let factors = site.terms_of(site.operands[0], Multiply).into_iter().next().filter(|_| site.is_float())?;
    let magnitudes: Option<Vec<TermId>> =
        factors.into_iter().map(|factor| site.elementwise(Absolute, vec![factor])).collect();
    site.product(&magnitudes?)
}

fn choice(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let &[condition, yes, no] = &site.operands[..] else { return None };
    for op in [Less, LessEqual] {
        for compared in site.terms_of(condition, op) {
            if compared == [no, yes] {
                return site.elementwise(Maximum, vec![no, yes]);
            }
            if compared == [yes, no] {
                return site.elementwise(Minimum, vec![yes, no]);
            }
        }
    }
    None
}

fn slope(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let &[condition, yes, no] = &site.operands[..] else { return None };
    let (value, rest) = site.split(no);
    if rest != yes || value > 1.0 || !site.is_float() {
        return None;
    }
    for op in [Less, LessEqual] {
        for compared in site.terms_of(condition, op) {
            if site.real(compared[0]) == Some(0.0) && compared[1] == yes {
                return site.elementwise(Maximum, vec![yes, no]);
            }
        }
    }
    None
}

fn into_choice(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    for place in 0..site.operands.len() {
        if let Some(chosen) = site.terms_of(site.operands[place], Where).into_iter().next() {
            let others = site.others(place);
            let mut times = |x: TermId| {
                let factors: Vec<TermId> = others.iter().copied().chain([x]).collect();
                site.product(&factors)
            };
            let (yes, no) = (times(chosen[1])?, times(chosen[2])?);
            return site.elementwise(Where, vec![chosen[0], yes, no]);
        }
    }
    None
}

fn sum_of_choices(site: &mut LawSite<'_, '_>) -> Option<TermId> {
    let choices: Vec<(usize, Vec<TermId>)> = (0..site.operands.len())
        .filter_map(|place| Some((place, site.terms_of(site.operands[place], Where).into_iter().next()?)))
        .collect();
    for (index, (first, a)) in choices.iter().enumerate() {
        for (second, b) in &choices[index + 1..] {
            if a[0] != b[0] {
                continue;
            }
            let (yes, no) = (site.sum(&[a[1], b[1]])?, site.sum(&[a[2], b[2]])?);
            let both = site.elementwise(Where, vec![a[0], yes, no])?;
            let rest = site.operands.iter().enumerate().filter(|(place, _)| place != first && place != second);
            let terms: Vec<TermId> = rest.map(|(_, &id)| id).chain([both]).collect();
            return site.sum(&terms);
        }
    }
    None
}
