//! HIR as text: what [`print`] writes, [`parse`] reads.
//!
//! Printing, reading and printing again gives the same text for every module the verifier accepts, so tests, caches and
//! bug reports can carry HIR as text. The reader accepts more than the verifier does (a value used before its
//! definition, a wrong type), because the verifier's own tests are written in this form.
//!
//! ```text
//! ; a comment reaches to the end of its line
//! kernel @saxpy(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) [float_mode = contract] {
//!   %3 i: i32 = tid 0
//!   %4: f32 = array_load %1, %3
//!   %5: f32 = mul %0, %4
//!   array_store %2, %3, %5
//!   return
//! }
//! ```
//!
//! ```text
//! module   = function*
//! function = ("kernel" | "func") "@" name "(" [param ("," param)*] ")" ["->" "(" type ("," type)* ")"] [attributes]
//!            [source] block
//! param    = value name ":" type
//! region   = ["(" [result ("," result)*] ")"] block
//! block    = "{" instruction* "}"
//! instruction = [result ("," result)* "="] op [label] [immediate] [value ("," value)*] [source]
//!               [region (["else" | "do"] region)*]
//! result   = value [name] ":" type
//! immediate = number                      of `const`, `tid` and `dim`
//!           | "@" name                    of `call`
//!           | label                       of `break` and `continue`
//!           | string                      of `assert` and `print`
//!           | "bounds" string number | "division"       of `check`
//! type     = scalar | "array" "<" scalar "," number ">"
//! source   = "!" number ":" number ".." number | "!" "none"
//! value    = "%" word        label = "^" word        name = word | string
//! ```
//!
//! An instruction starts on a line of its own. A label stands on the instruction that `break` and `continue` name by
//! it. `source` is the file's number and the byte range an instruction stands for; one without it stands for its own
//! text. Constants are decimal where reading them back gives the same bits, else `0x` and the bits.

mod attributes;
mod constant;
mod lexer;
mod parse;
mod print;
mod reader;

pub use constant::{TypedConstant, parse_constant};
pub use parse::parse_module;
pub(crate) use print::HirPrinter;
pub use print::{PrintOptions, attributes, print_module};

/// Says how deeply regions may nest, in HIR text and in any verified function, because every walk over HIR recurses on
/// regions.
pub const MAX_REGION_DEPTH: usize = 512;

/// Returns true if a name can stand in HIR text without quotes.
fn is_bare_name(name: &str) -> bool {
    name.chars().next().is_some_and(is_word_start) && name.chars().all(is_word_char)
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '$')
}
