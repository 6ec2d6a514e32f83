//! Recipes: paths as JSON, which another process or machine can replay.
//!
//! A recipe holds the graph that it runs (`program`), the steps in their order, and the hash of the graph that it computes. A step copies
//! a value to another residence or runs a group of nodes on a backend. The program is in the recipe because a path may run another form of
//! the graph than the one that is asked for: with composite ops taken apart, or a variant that is equal to it; the nodes are the values of the program.
//! The form, its versions and its fields are described in `docs/design/recipes.md`.
//!
//! Design: `docs/design/recipes.md`.

mod error;
mod group;
mod parameter;
mod verify;

pub use error::RecipeError;
pub use group::GroupGraph;
pub(crate) use group::ProgramReaders;
pub use parameter::KernelParameters;
pub use verify::VerifiedRecipe;

use crate::backend::{Backend, Residence};
use crate::registry::KernelForm;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The identity of its graph that a recipe keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipeIdentity {
    /// Its outputs have the bits that the graph defines.
    Bits,
    /// Its outputs are those of the graph over the real numbers; floats may differ.
    Mathematics,
}

/// A path through the backends that computes a graph.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The version of the form, [`Recipe::VERSION`].
    pub version: u32,
    /// The hash of the identity of bits of the graph that it computes, in hexadecimal digits.
    #[serde(serialize_with = "write_hash", deserialize_with = "read_hash")]
    pub graph: [u8; 32],
    /// The identity that it keeps.
    pub identity: RecipeIdentity,
    /// Says where the inputs are, in their order.
    pub inputs: Vec<Residence>,
    /// Says where the outputs have to be.
    pub outputs: Residence,
    /// The text of the graph whose values are the nodes.
    pub program: String,
    /// The steps in the order in which they run.
    pub steps: Vec<RecipeStep>,
}

/// A step of a recipe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum RecipeStep {
    /// Makes a value available at another residence. Its elements are copied if the memory is another one.
    CopyTo {
        /// The value of the program.
        value: u32,
        /// A residence that it is at.
        from: Residence,
        /// The one that it is then at too.
        to: Residence,
    },
    /// Computes nodes.
    Run(KernelGroup),
}

/// Nodes that one kernel, or one fusion plan, computes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelGroup {
    /// The backend that runs it.
    pub backend: Backend,
    /// The way in which it computes.
    pub form: KernelForm,
    /// The name of the kernel in the registry.
    pub kernel: String,
    /// The values of the program that it computes, in ascending order.
    pub nodes: Vec<u32>,
    /// The choices of its kernels. Those that are not given are made when they are planned.
    #[serde(default, skip_serializing_if = "KernelParameters::is_default")]
    pub parameters: KernelParameters,
}

impl Recipe {
    /// The version of the JSON form. It is raised with every change by which an older program would misread a recipe.
    pub const VERSION: u32 = 1;

    /// Returns the JSON form. Equal recipes have the same text.
    pub fn to_json(&self) -> String {
        // There are no maps and no numbers but integers: nothing of it can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the JSON form. It says nothing about whether the recipe can run: [`Recipe::verify`] does.
    ///
    /// # Errors
    ///
    /// [`RecipeError::Syntax`], and [`RecipeError::Version`] for a recipe of another version.
    pub fn from_json(text: &str) -> Result<Recipe, RecipeError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let syntax = |error: serde_json::Error| RecipeError::Syntax(error.to_string());
        let Versioned { version } = serde_json::from_str(text).map_err(syntax)?;
        if version != Recipe::VERSION {
            return Err(RecipeError::Version { found: version });
        }
        serde_json::from_str(text).map_err(syntax)
    }

    /// Returns the groups in the order in which they run.
    pub fn groups(&self) -> impl Iterator<Item = &KernelGroup> {
        self.steps.iter().filter_map(|step| match step {
            RecipeStep::Run(group) => Some(group),
            RecipeStep::CopyTo { .. } => None,
        })
    }

    /// Returns the backends that it needs, in order.
    pub fn backends(&self) -> Vec<Backend> {
        let mut backends: Vec<Backend> = self.groups().map(|group| group.backend).collect();
        backends.sort_unstable();
        backends.dedup();
        backends
    }
}

fn write_hash<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits)
}

fn read_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits: Option<Vec<u8>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 64);
    let digits = digits.ok_or_else(|| serde::de::Error::custom("a hash has 64 hexadecimal digits"))?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = 16 * pair[0] + pair[1];
    }
    Ok(hash)
}
