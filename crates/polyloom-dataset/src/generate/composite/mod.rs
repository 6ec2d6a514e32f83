//! Kernels such as programs have, grown from skeletons by choices.

mod dynamics;
mod geometry;
mod learning;
mod numerics;
mod particles;
mod rendering;
mod sequences;
mod variation;

use super::docstring::aside;
use super::elementwise::begin;
use super::expr::GeneratedExpr;
use super::generator::KernelGenerator;
use super::program::{Category, DatasetProgram, ProgramExtent};
use crate::catalogue::OperandNeed;
use crate::number_range::NumberRange;
use polyloom::{Composite, Random, Scalar, Type};

/// Describes what writes a kernel, and gives its name.
type Skeleton = fn(&mut KernelGenerator, u8) -> &'static str;

const SKELETONS: [Skeleton; 40] = [
    particles::step,
    particles::gravity,
    particles::lennard_jones,
    particles::chain,
    particles::collision,
    particles::quaternions,
    particles::pendulum,
    learning::softmax,
    learning::layer_norm,
    learning::matmul,
    learning::activation,
    learning::optimizer,
    learning::cross_entropy,
    learning::attention,
    learning::nearest_centroid,
    geometry::ray_sphere,
    geometry::distance_field,
    geometry::shading,
    geometry::camera,
    geometry::triangle,
    geometry::bilinear,
    geometry::tone_mapping,
    numerics::convolution,
    numerics::advection,
    numerics::jacobi,
    numerics::reaction,
    numerics::black_scholes,
    numerics::escape_time,
    numerics::integral,
    numerics::neuron,
    rendering::bilateral,
    rendering::sphere_tracing,
    rendering::microfacet,
    dynamics::runge_kutta,
    dynamics::smoothed_particles,
    dynamics::wave,
    dynamics::lattice_boltzmann,
    sequences::tracking,
    sequences::recurrent_cell,
    sequences::sparse_product,
];

/// Those of many lines.
const LONG: [Skeleton; 9] = [
    rendering::bilateral,
    rendering::sphere_tracing,
    rendering::microfacet,
    dynamics::runge_kutta,
    dynamics::wave,
    dynamics::lattice_boltzmann,
    sequences::tracking,
    particles::step,
    geometry::bilinear,
];

/// A kernel grown from a skeleton.
pub(super) fn draft(random: Random, difficulty: u8) -> Option<DatasetProgram> {
    let mut g = begin(random, Category::Composite);
    g.composites.clear();
    let skeleton = match difficulty {
        4 => g.random.pick(&LONG),
        _ => g.random.pick(&SKELETONS),
    };
    // A skeleton with nothing woven in is one kernel.
    let name = skeleton(&mut g, difficulty.max(2));
    g.names.take(name);
    g.finish_as(name, Category::Composite)
}

const VEC2: Type = Type::Composite(Composite::Vector { elem: Scalar::F32, len: 2 });
const VEC3: Type = Type::Composite(Composite::Vector { elem: Scalar::F32, len: 3 });
const VEC4: Type = Type::Composite(Composite::Vector { elem: Scalar::F32, len: 4 });
const MAT33: Type = Type::Composite(Composite::Matrix { elem: Scalar::F32, rows: 3, cols: 3 });
const MAT44: Type = Type::Composite(Composite::Matrix { elem: Scalar::F32, rows: 4, cols: 4 });
const QUAT: Type = Type::Composite(Composite::Quaternion { elem: Scalar::F32 });

/// The most ways in which the most difficult kernels keep a result besides the first, and the lines that are enough.
const MOST_WAYS: usize = 3;
const MANY_LINES: usize = 41;

/// Numbers that are almost never used up.
const N0: ProgramExtent = ProgramExtent::Free(0);
const N1: ProgramExtent = ProgramExtent::Free(1);

impl KernelGenerator {
    /// The types that expressions of the skeleton may have.
    fn with_composite(&mut self, ty: Type) {
        if let Some(composite) = ty.as_composite()
            && !self.composites.contains(&composite)
        {
            self.composites.push(composite);
        }
    }

    /// An array with an element for each thread, and the element as a variable.
    fn element_like(&mut self, names: &[&str], ty: Type, low: f64, high: f64) -> usize {
        let dim = [N0, N1, ProgramExtent::Free(2)];
        let name = self.array_like(names, ty, &dim[..self.indices.len()], low, high);
        let text = format!("{name}[{}]", self.indices.join(", "));
        let index = self.declare(text, format!("`{name}`"), ty, NumberRange::new(low, high));
        self.taken(&[index]);
        index
    }

    /// A parameter as a variable, used by the skeleton.
    fn number_like(&mut self, names: &[&str], low: f64, high: f64) -> usize {
        let name = self.scalar_like(names, Type::F32, low, high);
        let index = self.declare(name.clone(), format!("`{name}`"), Type::F32, NumberRange::new(low, high));
        self.variables[index].varies = false;
        self.taken(&[index]);
        index
    }

    /// A variable whose value the skeleton gives as text, with what it is.
    fn set_like(&mut self, names: &[&str], value: &str, ty: Type, bound: f64, what: &str) -> usize {
        self.ranged_like(names, value, ty, NumberRange::within(bound), what)
    }

    /// The same with a range. Without words it is its formula.
    fn ranged_like(&mut self, names: &[&str], value: &str, ty: Type, range: NumberRange, what: &str) -> usize {
        let index = self.unsaid_like(names, value, ty, range);
        let name = self.text(index);
        // A choice is told by its words.
        let beside = if value.contains(" if ") { String::new() } else { aside(value) };
        if what.is_empty() {
            self.explain(format!("`{name}` is `{value}`."));
        } else if self.comments && what.len() < 70 {
            // The comment goes before the line that it is about.
            self.comment_last(what);
            self.explain_comment(format!("`{name}` is {what}{beside}."));
        } else {
            self.explain(format!("`{name}` is {what}{beside}."));
        }
        index
    }

    /// A place or a length, which no expression reads, so that told by its formula.
    fn place_like(&mut self, names: &[&str], value: &str) -> String {
        let name = self.like(names);
        self.line(&format!("{name} = {value}"));
        self.explain(format!("`{name}` is `{value}`."));
        name
    }

    /// The same, of which what follows says what it is.
    fn unsaid_like(&mut self, names: &[&str], value: &str, ty: Type, range: NumberRange) -> usize {
        let index = self.let_like(names, value, ty, range);
        self.taken(&[index]);
        index
    }

    /// The value with a change now and then, under a new name, so that the skeleton goes on with that.
    fn varied(&mut self, base: usize, difficulty: u8) -> usize {
        let often = [3, 3, 2, 2, 2][usize::from(difficulty.min(4))];
        if !self.random.one_in(often) {
            return base;
        }
        let count = 1 + usize::from(difficulty > 2 && self.random.one_in(2));
        let value = self.changed(base, count, false);
        if value.is_bare() {
            return value.uses[0];
        }
        let named = self.named_like(&["adjusted", "modified"], value);
        named.uses[0]
    }

    /// A variable that a loop of the skeleton changes.
    fn starting(&mut self, names: &[&str], ty: Type, from: &str, bound: f64) -> usize {
        let name = self.like(names);
        let value = match ty {
            Type::F32 => format!("float({from})"),
            Type::I32 => format!("int({from})"),
            _ => from.to_owned(),
        };
        self.line(&format!("{name} = {value}"));
        let index = self.declare(name.clone(), format!("`{name}`"), ty, NumberRange::within(bound));
        self.taken(&[index]);
        index
    }

    /// Writes a result after changes, the more the more difficult the kernel is.
    fn written(&mut self, names: &[&str], base: usize, difficulty: u8) {
        let count = match difficulty {
            0 => 1 + usize::from(self.random.one_in(3)),
            1 => 1 + self.random.below(2),
            2 => 2 + self.random.below(2),
            3 => 3 + self.random.below(2),
            _ => 5 + self.random.below(3),
        };
        let value = self.changed(base, count, true);
        self.write_to(names, value);
        // The most difficult kernels keep the result in several ways.
        for _ in 0..if difficulty > 3 { MOST_WAYS } else { 0 } {
            if self.n_lines() >= MANY_LINES {
                break;
            }
            let count = 5 + self.random.below(3);
            let value = self.changed(base, count, true);
            self.write_to(&["diagnostic", "display_value", "monitor"], value);
        }
    }

    /// Writes a result as it is.
    fn kept(&mut self, names: &[&str], base: usize) {
        let value = self.read(base);
        self.write_to(names, value);
    }

    fn write_to(&mut self, names: &[&str], value: GeneratedExpr) {
        let value = self.constrain(value, OperandNeed::Finite);
        let halves = value.ty == Type::F32 && value.range.size() < 1e3 && self.random.one_in(10);
        let ty = if halves { Type::Scalar(Scalar::F16) } else { value.ty };
        let value = self.kept_as(value, ty);
        let name = self.zeros_like(names, value.ty, variation::of_threads(self.indices.len()));
        let at = self.indices.join(", ");
        self.line(&format!("{name}[{at}] = {}", value.text));
        self.say(format!("`{name}` is {}.", value.words));
    }
}
