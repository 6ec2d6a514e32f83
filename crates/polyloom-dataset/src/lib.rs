//! Data sets of kernels: what they are made of, proved right by, and written as.

pub mod generate;
