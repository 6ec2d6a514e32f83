//! The static cost model: what a path should take, from bytes moved, operations, launches and transfers.
//!
//! A step takes its launches, and then the longer of moving its bytes and its elementwise arithmetic, and then its products of matrices, which a
//! kernel overlaps with little else. The rates are data ([`MachineCosts`]): defaults, or what calibration has measured on a machine. The model
//! orders paths that nobody has measured; a measurement always counts more.

mod machine;
mod predict;
mod work;

pub use machine::{BackendCosts, CostSource, MachineCosts, MachineCostsError, TransferCosts};
pub use predict::{PredictedTime, StepTime, predict};
pub(crate) use predict::{group_time, monolithic_time};
pub(crate) use work::NodeWork;
pub use work::{CorrectionUnits, correction_units};
