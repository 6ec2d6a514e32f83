//! Random kernels that mean something.
//!
//! A kernel is a function of a category, a seed and nothing else. It is written from the op table, so a new builtin is
//! covered the day it is added. What is known of the ranges of values keeps it to where functions are defined; that
//! every input reaches an output is so by construction, as what nothing has read is taken into the last output.

mod atomics;
mod blocks;
mod bounded_value;
mod composite;
mod condition_tests;
mod constrain;
mod difficulty;
mod docstring;
mod draws;
mod elementwise;
mod expr;
mod flow;
mod function;
mod generated_function;
mod generator;
mod hoist;
mod known;
mod names;
mod overloads;
mod program;
mod roles;
mod rows;
mod sense;
mod stencil;
mod structure;
mod sum_parts;
mod tensor;
mod usage;
mod values;
mod weave;
mod words;

pub use program::{Category, DatasetProgram, InputValues, ProgramExtent, ProgramInput, UnknownCategory};

use polyloom::Random;

/// The generator's version: another number, other kernels for the same seed.
pub(crate) const GENERATOR: u32 = 9;

/// The kernel of a category with this seed; the same on every machine.
pub fn generate(category: Category, seed: u64) -> DatasetProgram {
    let mut random = Random::new(seed);
    loop {
        let difficulty = match category {
            // Many of the longest skeletons come out too long.
            Category::Composite => random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4, 4]),
            _ => random.pick(&[0, 0, 1, 1, 1, 2, 2, 3, 4]),
        };
        if let Some(program) = draft(category, difficulty, Random::new(random.bits())) {
            return program;
        }
    }
}

/// A kernel, if its lines come out short enough.
fn draft(category: Category, difficulty: u8, random: Random) -> Option<DatasetProgram> {
    match category {
        Category::Arithmetic | Category::Math | Category::Vector | Category::Matrix => {
            elementwise::draft(random, category, difficulty)
        }
        Category::ControlFlow => flow::branches(random, difficulty),
        Category::Loop => flow::loops(random, difficulty),
        Category::Function => function::draft(random, difficulty),
        Category::Stencil => stencil::draft(random, difficulty),
        Category::Reduction => rows::reduction(random, difficulty),
        Category::Scan => rows::scan(random, difficulty),
        Category::Struct => structure::draft(random, difficulty),
        Category::Random => draws::draft(random, difficulty),
        Category::Atomic => atomics::draft(random, difficulty),
        Category::SharedMemory => blocks::shared_memory(random, difficulty),
        Category::Warp => blocks::warp(random, difficulty),
        Category::TensorCore => tensor::draft(random, difficulty),
        Category::Composite => composite::draft(random, difficulty),
    }
}

#[cfg(test)]
mod quality;
#[cfg(test)]
mod tests;
