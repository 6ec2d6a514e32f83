//! Discrete spaces of parameters, with constraints as data.

use polyloom_ir::generate::Random;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The draws of a random point for each point that is wanted, because constraints may leave few.
const DRAWS_PER_POINT: usize = 64;
/// Spaces of up to so many points are listed, not drawn from.
const MAX_LISTED_POINTS: usize = 4096;

/// A parameter with the values that it may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunableParameter {
    /// The name.
    pub name: Arc<str>,
    /// The values in ascending order, so that neighbours are alike.
    pub values: Vec<i64>,
}

/// A condition that points have to meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParameterConstraint {
    /// The product of parameters is limited, as that of tiles is by shared memory.
    ProductAtMost(Vec<Arc<str>>, i64),
    /// One parameter is a multiple of another.
    MultipleOf(Arc<str>, Arc<str>),
    /// One parameter is at most another.
    AtMost(Arc<str>, Arc<str>),
}

/// A value for each parameter, in the order of the space.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ParameterPoint(pub Vec<(Arc<str>, i64)>);

impl ParameterPoint {
    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.iter().find(|(own, _)| &**own == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for ParameterPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&pairs.join(", "))
    }
}

impl ParameterConstraint {
    /// Returns true if a point meets the condition. One on a parameter that the point lacks is met.
    pub fn holds(&self, point: &ParameterPoint) -> bool {
        match self {
            ParameterConstraint::ProductAtMost(names, limit) => {
                let product = names.iter().filter_map(|name| point.get(name)).try_fold(1i64, i64::checked_mul);
                product.is_some_and(|product| product <= *limit)
            }
            ParameterConstraint::MultipleOf(name, of) => match (point.get(name), point.get(of)) {
                (Some(value), Some(of)) => of != 0 && value % of == 0,
                _ => true,
            },
            ParameterConstraint::AtMost(name, limit) => match (point.get(name), point.get(limit)) {
                (Some(value), Some(limit)) => value <= limit,
                _ => true,
            },
        }
    }
}

/// The points that a kernel may be compiled for.
///
/// ```
/// use polyloom_graph::tune::{ParameterConstraint, ParameterSpace};
///
/// let space = ParameterSpace::new(&[("block_size", &[32, 64, 128]), ("unroll", &[1, 2, 4])])
///     .with(ParameterConstraint::ProductAtMost(vec!["block_size".into(), "unroll".into()], 128));
/// assert_eq!(space.n_combinations(), 9);
/// assert_eq!(space.draw(100, 1).len(), 6);
/// assert_eq!(space.point(&[("unroll", 2), ("block_size", 64)]).unwrap().to_string(), "block_size=64, unroll=2");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParameterSpace {
    /// The parameters.
    pub parameters: Vec<TunableParameter>,
    /// The constraints, all of which a point meets.
    pub constraints: Vec<ParameterConstraint>,
}

impl ParameterSpace {
    /// Makes a space without constraints.
    pub fn new(parameters: &[(&str, &[i64])]) -> ParameterSpace {
        let parameter = |(name, values): &(&str, &[i64])| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values.dedup();
            TunableParameter { name: (*name).into(), values }
        };
        ParameterSpace { parameters: parameters.iter().map(parameter).collect(), constraints: Vec::new() }
    }

    /// Adds a constraint.
    pub fn with(mut self, constraint: ParameterConstraint) -> ParameterSpace {
        self.constraints.push(constraint);
        self
    }

    /// Returns the number of combinations of values, constraints left out of account.
    pub fn n_combinations(&self) -> usize {
        self.parameters.iter().fold(1, |n: usize, parameter| n.saturating_mul(parameter.values.len()))
    }

    /// Returns the point with these values; `None` if a parameter lacks one, or the space has no such point.
    pub fn point(&self, values: &[(&str, i64)]) -> Option<ParameterPoint> {
        let pair = |parameter: &TunableParameter| {
            let (_, value) = values.iter().find(|(name, _)| **name == *parameter.name)?;
            parameter.values.contains(value).then(|| (parameter.name.clone(), *value))
        };
        let point = ParameterPoint(self.parameters.iter().map(pair).collect::<Option<_>>()?);
        self.allows(&point).then_some(point)
    }

    /// Returns true if a point meets all constraints.
    pub fn allows(&self, point: &ParameterPoint) -> bool {
        self.constraints.iter().all(|constraint| constraint.holds(point))
    }

    /// Returns up to `n` points, all different: all in a random order if the space is small, or else random ones. They are the same for the same
    /// seed.
    pub fn draw(&self, n: usize, seed: u64) -> Vec<ParameterPoint> {
        let mut random = Random::new(seed);
        let n_combinations = self.n_combinations();
        if n_combinations <= MAX_LISTED_POINTS {
            let mut points: Vec<ParameterPoint> =
                (0..n_combinations).map(|index| self.combination(index)).filter(|point| self.allows(point)).collect();
            for index in (1..points.len()).rev() {
                points.swap(index, random.below(index + 1));
            }
            points.truncate(n);
            return points;
        }
        let mut seen = HashSet::new();
        let mut points = Vec::new();
        for _ in 0..n.saturating_mul(DRAWS_PER_POINT) {
            let pairs =
                self.parameters.iter().map(|parameter| (parameter.name.clone(), random.pick(&parameter.values)));
            let point = ParameterPoint(pairs.collect());
            if points.len() < n && self.allows(&point) && seen.insert(point.clone()) {
                points.push(point);
            }
        }
        points
    }

    /// Returns a combination by its number.
    fn combination(&self, mut index: usize) -> ParameterPoint {
        let pairs = self.parameters.iter().map(|parameter| {
            let value = parameter.values[index % parameter.values.len()];
            index /= parameter.values.len();
            (parameter.name.clone(), value)
        });
        ParameterPoint(pairs.collect())
    }

    /// Returns the points that differ from a point in one parameter by one step.
    pub fn neighbours(&self, point: &ParameterPoint) -> Vec<ParameterPoint> {
        let mut neighbours = Vec::new();
        for (place, parameter) in self.parameters.iter().enumerate() {
            let Some(own) = parameter.values.iter().position(|value| *value == point.0[place].1) else { continue };
            for step in [own.checked_sub(1), Some(own + 1)].into_iter().flatten() {
                if let Some(&value) = parameter.values.get(step) {
                    let mut neighbour = point.clone();
                    neighbour.0[place].1 = value;
                    neighbours.push(neighbour);
                }
            }
        }
        neighbours.retain(|neighbour| self.allows(neighbour));
        neighbours
    }
}
