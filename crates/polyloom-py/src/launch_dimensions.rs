//! The threads and blocks that a launch runs over, and how Python gives them.

use polyloom::{DeviceId, LaunchConfig, MAX_DIMS};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use smallvec::SmallVec;

pub(crate) type Shape = SmallVec<[u64; MAX_DIMS]>;

/// Describes what a launch runs over.
#[derive(Clone)]
pub(crate) struct LaunchDimensions {
    pub(crate) shape: Shape,
    /// The blocks of a kernel that is launched in blocks.
    pub(crate) grid: Option<LaunchConfig>,
    pub(crate) device: DeviceId,
    /// True if indices are not compared with extents before it.
    pub(crate) unchecked: bool,
}

impl LaunchDimensions {
    /// Those of a launch that says something of blocks, or of a kernel that needs them.
    pub(crate) fn new(
        kernel: &polyloom::Kernel,
        device: DeviceId,
        shape: Option<Shape>,
        grid: Option<&Bound<'_, PyAny>>,
        block: Option<&Bound<'_, PyAny>>,
        shared_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LaunchDimensions> {
        let metadata = &kernel.function().metadata;
        let in_blocks = kernel.needs_blocks() || device != DeviceId::Cpu;
        let block = match block.filter(|block| !block.is_none()) {
            Some(block) => three("block", block)?,
            None => metadata.block(),
        };
        let n_threads = block.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
        if n_threads > MAX_BLOCK_SIZE {
            let [x, y, z] = block;
            let message = format!("a block has up to {MAX_BLOCK_SIZE} threads, and ({x}, {y}, {z}) are {n_threads}");
            return Err(PyValueError::new_err(message));
        }
        let shared_bytes = match shared_bytes {
            Some(bytes) => bytes.extract().map_err(|_| {
                let most = u32::MAX;
                PyValueError::new_err(format!("shared_bytes is an integer from 0 to {most}, not {bytes}"))
            })?,
            None => metadata.shared_bytes.unwrap_or(0),
        };
        match (shape, grid) {
            (Some(_), Some(_)) => Err(PyTypeError::new_err("a launch is over dim, or over grid and block, not both")),
            (None, None) => Err(PyTypeError::new_err("dim is missing: how many threads, or grid: how many blocks")),
            (Some(shape), None) => {
                let n_threads = shape.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent));
                let grid = LaunchConfig::of_threads(n_threads, block, shared_bytes);
                Ok(LaunchDimensions { shape, grid: in_blocks.then_some(grid), device, unchecked: false })
            }
            (None, Some(grid)) => {
                let grid = LaunchConfig { grid: three("grid", grid)?, block, shared_bytes };
                let shape = SmallVec::from_slice(&[grid.n_blocks().saturating_mul(n_threads)]);
                Ok(LaunchDimensions { shape, grid: in_blocks.then_some(grid), device, unchecked: false })
            }
        }
    }

    /// Replaces the number of threads; blocks keep their size.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        let n_threads = shape.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent));
        self.grid = self.grid.map(|grid| LaunchConfig::of_threads(n_threads, grid.block, grid.shared_bytes));
        self.shape = shape;
    }
}

/// Most threads in a block.
const MAX_BLOCK_SIZE: u64 = polyloom::MAX_BLOCK_SIZE as u64;

/// Up to three extents, the others 1.
pub(crate) fn three(what: &str, extents: &Bound<'_, PyAny>) -> PyResult<[u32; 3]> {
    let wrong = || PyValueError::new_err(format!("{what} is one to three positive integers, not {extents}"));
    let given: Vec<u32> = match extents.extract::<u32>() {
        Ok(extent) => vec![extent],
        Err(_) => extents.extract().map_err(|_| wrong())?,
    };
    if !(1..=3).contains(&given.len()) || given.contains(&0) {
        return Err(wrong());
    }
    let mut all = [1; 3];
    all[..given.len()].copy_from_slice(&given);
    Ok(all)
}

pub(crate) fn extents_of(dim: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let extent = |value: &Bound<'_, PyAny>| -> PyResult<u64> {
        let value: i64 = value.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(dim.py()) {
                return PyValueError::new_err("dim is too large: a launch has as many threads as int32 can count");
            }
            if error.is_instance_of::<PyTypeError>(dim.py()) {
                let given = dim.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
                return PyTypeError::new_err(format!("dim must be an integer or a tuple of integers, not {given}"));
            }
            error
        })?;
        u64::try_from(value).map_err(|_| PyValueError::new_err(format!("dim must not be negative, and is {dim}")))
    };
    if dim.cast::<PyInt>().is_ok() {
        return Ok(SmallVec::from_slice(&[extent(dim)?]));
    }
    match dim.try_iter() {
        Ok(items) => {
            // One more than there may be, because the sequence may have no end.
            let shape: Shape = items.take(MAX_DIMS + 1).map(|item| extent(&item?)).collect::<PyResult<_>>()?;
            if shape.len() > MAX_DIMS {
                return Err(PyValueError::new_err(format!("a launch has at most 4 dimensions, and dim is {dim}")));
            }
            if shape.is_empty() {
                return Err(PyValueError::new_err(format!("a launch has 1 to 4 dimensions, and dim is {dim}")));
            }
            Ok(shape)
        }
        Err(_) => Ok(SmallVec::from_slice(&[extent(dim)?])),
    }
}
