//! `libcuda.so.1` over the PTX simulator: programs that are written for NVIDIA's driver run on a machine with no GPU, with
//! the simulator's checks.
//!
//! The entry points in `entry` have the C signatures of the CUDA driver API 13.0. There is one device, whose architecture
//! the environment names (`configuration.rs`). Work is done in the call that submits it, one thing at a time, so that
//! streams are in an order that the program allows; while a stream is captured its work becomes nodes of a graph.
//! Addresses of device memory are the simulator's, in a part of the address space that the host leaves alone, so that
//! kernels may follow pointers that are stored in memory; managed and pinned memory has one address on both sides.
//! Modules are PTX: machine code is refused with a message that says what to compile.
//!
//! What a program does wrong is told on standard error once, and `polyloom gpu run` collects it (`journal.rs`). An entry
//! point that is missing here returns `CUDA_ERROR_NOT_SUPPORTED` and is told as well.
//!
//! Architecture invariant: the crate knows the simulator and the limits of architectures, and nothing of Polyloom's
//! compiler or run time, which use it through the C interface as any program does.
//!
//! Design: `docs/design/cuda-driver.md`.

#![deny(unsafe_code)]

mod abi;
mod array;
mod call;
mod configuration;
mod context;
mod driver;
mod entry;
mod event;
mod graph;
mod host_buffer;
mod image;
mod ipc;
mod journal;
mod launch;
mod link;
mod memory;
mod module;
mod order;
mod pointers;
mod registry;
mod reservation;
mod status;
mod stream;
mod virtual_memory;
mod work;
