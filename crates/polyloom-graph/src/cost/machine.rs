//! The rates of a machine, as data.

use super::work::NodeWork;
use crate::backend::{Backend, MemorySpace, Residence};
use polyloom_ir::Scalar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Says where rates come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// They were measured on this machine.
    Calibrated,
    /// They were measured on another machine.
    Default,
    /// Nobody has measured them.
    Estimate,
}

/// The rates of a backend. A byte a nanosecond is 1 GB/s, an operation a nanosecond 1 GFLOP/s.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendCosts {
    /// Says where they come from.
    pub source: CostSource,
    /// The time of a launch, or of a call, that does nothing.
    pub launch_ns: f64,
    /// The bytes that memory moves in a nanosecond.
    pub bytes_per_ns: f64,
    /// The bytes of the last-level cache.
    pub cache_bytes: u64,
    /// The bytes that are moved in a nanosecond by kernels whose bytes fit into the cache.
    pub cached_bytes_per_ns: f64,
    /// The elementwise operations on 32-bit numbers in a nanosecond; half as many on 64-bit ones.
    pub flops_per_ns: f64,
    /// The operations of products of matrices in a nanosecond, by the same rule.
    pub product_flops_per_ns: f64,
    /// The nanoseconds that an op takes beyond what the rates say, for each of its operations, or for each byte of its result
    /// if it has none, by its name; products with vectors are named apart (`matmul of vectors`). An op that is not named takes
    /// what the rates say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub corrections: BTreeMap<String, f64>,
}

/// The rates of copies from one memory to another.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferCosts {
    /// The memory that is read.
    pub from: MemorySpace,
    /// The memory that is written.
    pub to: MemorySpace,
    /// Says where the rates come from.
    pub source: CostSource,
    /// The time of a copy of nothing.
    pub latency_ns: f64,
    /// The bytes that are copied in a nanosecond.
    pub bytes_per_ns: f64,
}

/// The rates of a machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineCosts {
    /// The version of this form, [`MachineCosts::VERSION`].
    pub version: u32,
    /// The rates of backends.
    pub backends: BTreeMap<Backend, BackendCosts>,
    /// The rates of copies. Those that are missing take [`MachineCosts::SLOWEST_COPY`].
    pub transfers: Vec<TransferCosts>,
    /// The time of taking an array of one library as one of another, over the same memory.
    pub zero_copy_ns: f64,
}

/// The reason why the rates of a machine cannot be read.
#[derive(Debug, Error)]
pub enum MachineCostsError {
    /// The text is no JSON of this form.
    #[error("these are no rates of a machine: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The form is of another version.
    #[error("the rates are of version {found}; this program reads version {}", MachineCosts::VERSION)]
    Version {
        /// The version.
        found: u32,
    },
    /// A rate is no positive number.
    #[error("{what} is {value}, and rates and times are positive numbers")]
    Rate {
        /// Names the rate.
        what: String,
        /// Its value.
        value: f64,
    },
}

impl Default for MachineCosts {
    /// Returns rates that were measured with arrays of `float32` (medians of `add`, `exp`, `tanh` and `matmul` of many sizes): for the CPU on two
    /// cores of a Zen 4 with NumPy 2.4 and PyTorch 2.15, for CUDA on an H200 (`docs/gpu.md`). Those of PyTorch on a GPU are those of
    /// CUDA with cuBLAS' products, and those of the simulator are a guess that keeps it last.
    fn default() -> MachineCosts {
        let costs =
            |source, launch_ns, bytes_per_ns, (cache_mib, cached_bytes_per_ns): (u64, f64), flops_per_ns, product| {
                let cache_bytes = cache_mib << 20;
                BackendCosts {
                    source,
                    launch_ns,
                    bytes_per_ns,
                    cache_bytes,
                    cached_bytes_per_ns,
                    flops_per_ns,
                    product_flops_per_ns: product,
                    corrections: BTreeMap::new(),
                }
            };
        let backends = [
            (Backend::CpuNumpy, costs(CostSource::Default, 350.0, 33.0, (16, 90.0), 31.0, 170.0)),
            (Backend::CpuTorch, costs(CostSource::Default, 1170.0, 56.0, (16, 150.0), 33.0, 190.0)),
            (Backend::GpuTorch, costs(CostSource::Estimate, 3900.0, 3400.0, (50, 3400.0), 8600.0, 48_000.0)),
            (Backend::CpuNative, costs(CostSource::Default, 440.0, 61.0, (16, 79.0), 60.0, 190.0)),
            (Backend::GpuCuda, costs(CostSource::Default, 3900.0, 3400.0, (50, 3400.0), 8600.0, 8600.0)),
            (Backend::Sim, costs(CostSource::Estimate, 1e6, 0.01, (0, 0.01), 0.01, 0.01)),
        ];
        let copy =
            |from, to, source, latency_ns, bytes_per_ns| TransferCosts { from, to, source, latency_ns, bytes_per_ns };
        let transfers = vec![
            copy(MemorySpace::Host, MemorySpace::Device, CostSource::Default, 9000.0, 2.7),
            copy(MemorySpace::Device, MemorySpace::Host, CostSource::Default, 9000.0, 3.6),
            copy(MemorySpace::Host, MemorySpace::Simulated, CostSource::Estimate, 9000.0, 2.7),
            copy(MemorySpace::Simulated, MemorySpace::Host, CostSource::Estimate, 9000.0, 2.7),
        ];
        MachineCosts { version: MachineCosts::VERSION, backends: backends.into(), transfers, zero_copy_ns: 700.0 }
    }
}

impl MachineCosts {
    /// The version of the JSON form.
    pub const VERSION: u32 = 2;
    /// The latency and bytes a nanosecond of copies that nothing is known of.
    pub const SLOWEST_COPY: (f64, f64) = (20_000.0, 1.0);

    /// Reads the JSON form.
    ///
    /// # Errors
    ///
    /// [`MachineCostsError`].
    ///
    /// ```
    /// use polyloom_graph::cost::MachineCosts;
    /// let costs = MachineCosts::default();
    /// assert_eq!(MachineCosts::from_json(&costs.to_json()).unwrap(), costs);
    /// ```
    pub fn from_json(text: &str) -> Result<MachineCosts, MachineCostsError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_str(text)?;
        if version != MachineCosts::VERSION {
            return Err(MachineCostsError::Version { found: version });
        }
        let costs: MachineCosts = serde_json::from_str(text)?;
        let of_backend = |(backend, costs): (&Backend, &BackendCosts)| {
            [
                ("launch_ns", costs.launch_ns),
                ("bytes_per_ns", costs.bytes_per_ns),
                ("cached_bytes_per_ns", costs.cached_bytes_per_ns),
                ("flops_per_ns", costs.flops_per_ns),
                ("product_flops_per_ns", costs.product_flops_per_ns),
            ]
            .map(|(name, value)| (format!("{name} of {backend}"), value))
        };
        let of_copy = |copy: &TransferCosts| {
            [("latency_ns", copy.latency_ns), ("bytes_per_ns", copy.bytes_per_ns)]
                .map(|(name, value)| (format!("{name} from {:?} to {:?}", copy.from, copy.to), value))
        };
        let all = costs.backends.iter().flat_map(of_backend).chain(costs.transfers.iter().flat_map(of_copy));
        let zero_copy = ("zero_copy_ns".to_owned(), costs.zero_copy_ns);
        let corrections = costs.backends.iter().flat_map(|(backend, costs)| {
            costs.corrections.iter().map(move |(op, value)| (format!("the correction of `{op}` on {backend}"), *value))
        });
        if let Some((what, value)) = corrections.into_iter().find(|(_, value)| !value.is_finite()) {
            return Err(MachineCostsError::Rate { what, value });
        }
        match all.chain([zero_copy]).find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            Some((what, value)) => Err(MachineCostsError::Rate { what, value }),
            None => Ok(costs),
        }
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        // Maps have keys that are strings, and numbers are finite: nothing of it can fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the time of a copy of so many bytes.
    pub fn transfer_ns(&self, from: Residence, to: Residence, n_bytes: u64) -> f64 {
        if from.is_zero_copy_to(to) {
            return self.zero_copy_ns;
        }
        let known = self.transfers.iter().find(|copy| copy.from == from.memory() && copy.to == to.memory());
        let (latency_ns, bytes_per_ns) =
            known.map_or(MachineCosts::SLOWEST_COPY, |copy| (copy.latency_ns, copy.bytes_per_ns));
        latency_ns + n_bytes as f64 / bytes_per_ns
    }

    /// Returns the rates of a backend, the default's if there are none.
    pub(crate) fn backend(&self, backend: Backend) -> BackendCosts {
        let known = self.backends.get(&backend).cloned();
        known.or_else(|| MachineCosts::default().backends.remove(&backend)).unwrap_or(BackendCosts {
            source: CostSource::Estimate,
            launch_ns: 1e6,
            bytes_per_ns: 1.0,
            cache_bytes: 0,
            cached_bytes_per_ns: 1.0,
            flops_per_ns: 1.0,
            product_flops_per_ns: 1.0,
            corrections: BTreeMap::new(),
        })
    }
}

impl BackendCosts {
    /// Returns the time of moving bytes in one kernel. It grows with the bytes, also where they leave the cache.
    pub fn memory_ns(&self, n_bytes: u64) -> f64 {
        let is_cached = n_bytes <= self.cache_bytes;
        n_bytes as f64 / if is_cached { self.cached_bytes_per_ns.max(self.bytes_per_ns) } else { self.bytes_per_ns }
    }

    /// Returns the time of elementwise operations on numbers of a type.
    pub fn element_ns(&self, flops: u64, dtype: Scalar) -> f64 {
        flops as f64 * width(dtype) / self.flops_per_ns
    }

    /// Returns the time that a node takes beyond what the rates say. It may be less than nothing.
    pub(crate) fn correction_ns(&self, work: &NodeWork) -> f64 {
        if self.corrections.is_empty() {
            return 0.0;
        }
        let known = work.correction_name().and_then(|name| self.corrections.get(name.as_ref()));
        known.map_or(0.0, |ns| ns * work.n_units() as f64)
    }

    /// Returns the times of a node's elementwise operations and of its products, with what is known of its op.
    pub(crate) fn node_ns(&self, work: &NodeWork) -> (f64, f64) {
        let (element_ns, product_ns) =
            (self.element_ns(work.flops, work.dtype), self.product_ns(work.product_flops, work.dtype));
        let correction_ns = self.correction_ns(work);
        if work.product_flops > 0 {
            (element_ns, (product_ns + correction_ns).max(0.0))
        } else {
            ((element_ns + correction_ns).max(0.0), product_ns)
        }
    }

    /// Returns the time of operations of products of matrices.
    pub fn product_ns(&self, flops: u64, dtype: Scalar) -> f64 {
        flops as f64 * width(dtype) / self.product_flops_per_ns
    }
}

/// Returns the time of an operation on a type against one on 32 bits.
fn width(dtype: Scalar) -> f64 {
    if dtype.bytes() > 4 { 2.0 } else { 1.0 }
}
