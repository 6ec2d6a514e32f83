//! The library through its C interface, as programs load it.

mod driver;
mod faults;
mod graphs;
mod kernels;
mod memory;
mod modules;
mod sharing;
mod streams;
mod textures;
mod virtual_memory;
