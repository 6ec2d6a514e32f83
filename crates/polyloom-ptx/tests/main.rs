//! The tests of the PTX simulator. Inputs lie in `ptx/`; expected values are computed here, by hand or with Rust's own
//! arithmetic, or are the ISA manual's.

mod bulk;
mod checks;
mod cluster;
mod constants;
mod counting;
mod device;
mod embedding;
mod fat_binary;
mod fuzz;
mod groups;
mod instructions;
mod legality;
mod matrix;
mod missing;
mod modules;
mod nvrtc;
mod ptxas;
mod samples;
mod stack;
mod surface;
mod sync;
mod syntax;
mod tensor;
mod texture;
mod warpgroup;
mod wide;
