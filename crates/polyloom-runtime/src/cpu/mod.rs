//! The device `cpu`: kernels run as machine code of the host, on the calling thread and a pool of workers.

pub(crate) mod affinity;
pub(crate) mod blocks;
pub mod candidates;
pub mod checksum;
pub mod clear;
mod copies;
mod cost;
pub mod device;
pub(crate) mod facts;
pub(crate) mod interpret;
pub mod kernel;
pub(crate) mod kernel_source;
pub mod launch;
pub(crate) mod output;
pub mod pool;
pub mod queue;
pub(crate) mod run;
mod thread_order;
pub(crate) mod tiers;
