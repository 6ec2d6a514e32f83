//! Paths as candidates of a measurement and of a verification.

use super::elements::{read_elements, write_elements};
use super::library::ArrayLibrary;
use super::{BoundPath, ExecutablePath, OutputPlace};
use crate::fusion::RunNumber;
use polyloom_graph::measure::{BatchTiming, Measure, MeasureFailure};
use polyloom_graph::reference::DenseTensor;
use polyloom_graph::verify_accuracy::VerifiedPath;
use polyloom_graph::{Layout, TensorType};
use polyloom_ir::Scalar;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The byte that outputs are filled with before a run: no kernel leaves it by chance in every element.
const POISON: u8 = 0xa5;
/// The time after which every kernel of a path that takes a part worth mentioning is hot.
const HEATING_TIME: Duration = Duration::from_millis(8);
/// The bytes that are written to flush the caches.
const FLUSH_BYTES: usize = 128 << 20;

/// Says what the outputs of a run have to be.
#[derive(Clone, Debug)]
pub enum OutputExpectation {
    /// The bits of these tensors, NaN being equal to NaN.
    Bits(Arc<Vec<DenseTensor>>),
    /// Numbers near those of these tensors, by half the digits of the element type relative to the scale of each: it finds what is
    /// entirely wrong at these extents. The tolerance of roundings is verified elsewhere.
    Near(Arc<Vec<DenseTensor>>),
}

/// A compiled path with arrays for its inputs and memory for its outputs.
pub struct MeasuredPathRun<'l, L: ArrayLibrary> {
    library: &'l L,
    bound: BoundPath<L::Kernel>,
    inputs: Vec<(Scalar, Layout, usize)>,
    outputs: Vec<(TensorType, L::Array, usize)>,
    numbers: Vec<RunNumber>,
    expectation: Option<OutputExpectation>,
    /// The outputs of the last run that are arrays of a library.
    returned: SmallVec<[L::Array; 2]>,
    flush: Vec<u64>,
    /// True once nobody wants the measurement any more.
    stop: Option<Arc<AtomicBool>>,
}

impl<'l, L: ArrayLibrary> MeasuredPathRun<'l, L> {
    /// Takes a path, the layouts and addresses of its inputs, which the library gives as arrays too, and the types of its outputs.
    ///
    /// # Errors
    ///
    /// That of the library if there is no memory for the outputs.
    pub fn new(
        library: &'l L,
        path: &Arc<ExecutablePath<L::Kernel>>,
        inputs: &[(Scalar, Layout, usize)],
        outputs: &[TensorType],
        numbers: &[RunNumber],
    ) -> Result<MeasuredPathRun<'l, L>, L::Error> {
        let made = outputs.iter().map(|ty| {
            let layout = Layout::dense(&ty.shape.as_static().unwrap_or_default());
            let (array, address) = library.new_array(ty.dtype, &layout)?;
            Ok((ty.clone(), array, address))
        });
        Ok(MeasuredPathRun {
            library,
            bound: path.bind(),
            inputs: inputs.to_vec(),
            outputs: made.collect::<Result<_, L::Error>>()?,
            numbers: numbers.to_vec(),
            expectation: None,
            returned: SmallVec::new(),
            flush: Vec::new(),
            stop: None,
        })
    }

    /// Says what the outputs have to be; nothing is said at first.
    pub fn expect(&mut self, expectation: OutputExpectation) {
        self.expectation = Some(expectation);
    }

    /// Gives a flag that ends the measurement as soon as it is true.
    pub fn stop_by(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    fn run_once(&mut self) -> Result<(), String> {
        let inputs: SmallVec<[usize; 8]> = self.inputs.iter().map(|(_, _, address)| *address).collect();
        let outputs: SmallVec<[usize; 4]> = self.outputs.iter().map(|(_, _, address)| *address).collect();
        // SAFETY: inputs and outputs are arrays of this run, with the layouts that the path was compiled for.
        let run = unsafe { self.bound.run(self.library, &inputs, &outputs, &self.numbers) };
        self.returned = run.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Runs the path once, and reads its outputs.
    ///
    /// # Errors
    ///
    /// The reason why it does not run.
    pub fn results(&mut self) -> Result<Vec<DenseTensor>, String> {
        self.run_once()?;
        self.read_outputs()
    }

    fn read_outputs(&self) -> Result<Vec<DenseTensor>, String> {
        let mut returned = self.returned.iter();
        let places = self.bound.path().output_places();
        let outputs = self.outputs.iter().zip(places).map(|((ty, _, address), place)| -> Result<DenseTensor, String> {
            let layout = Layout::dense(&ty.shape.as_static().unwrap_or_default());
            let address = match place {
                OutputPlace::Caller => *address,
                OutputPlace::Array => {
                    let array = returned.next().ok_or("an output is missing")?;
                    let (dense, address) = self.library.dense(array).map_err(|error| error.to_string())?;
                    // SAFETY: the dense array is alive, and has these elements.
                    let tensor = unsafe { read_elements(ty.dtype, &layout, address) };
                    drop(dense);
                    return Ok(tensor);
                }
            };
            // SAFETY: the memory is this run's, with these elements.
            Ok(unsafe { read_elements(ty.dtype, &layout, address) })
        });
        outputs.collect()
    }
}

impl<L: ArrayLibrary> Measure for MeasuredPathRun<'_, L> {
    fn prepare(&mut self) -> Result<(), MeasureFailure> {
        // A first run compiles, so that what cannot be compiled is not taken for slow.
        self.run_once().map_err(MeasureFailure::failed)?;
        let Some(kernel) = self.bound.path().plans().iter().find_map(|plan| plan.kernels().next().cloned()) else {
            return Ok(());
        };
        // Code that is hot is compiled again in the background, and what is measured is that.
        let begin = Instant::now();
        while begin.elapsed() < HEATING_TIME {
            self.run_once().map_err(MeasureFailure::failed)?;
        }
        self.library.detached(|| kernel.wait_for_code());
        Ok(())
    }

    fn poison_output(&mut self) -> Result<(), MeasureFailure> {
        self.returned.clear();
        for (ty, _, address) in &self.outputs {
            let n_bytes = ty.shape.n_elements().unwrap_or(0) * u64::from(ty.dtype.bytes());
            // SAFETY: the memory is this run's, with these elements.
            unsafe { std::ptr::write_bytes(*address as *mut u8, POISON, n_bytes as usize) };
        }
        Ok(())
    }

    fn flush_caches(&mut self) -> Result<(), MeasureFailure> {
        self.flush.resize(FLUSH_BYTES / 8, 0);
        self.flush.iter_mut().for_each(|word| *word = word.wrapping_add(1));
        std::hint::black_box(&self.flush);
        Ok(())
    }

    fn run_batch(&mut self, n_runs: u32) -> Result<BatchTiming, MeasureFailure> {
        // Time that others take of the libraries is not the path's.
        self.library.pause();
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(MeasureFailure::failed("it was stopped"));
        }
        let started = Instant::now();
        for _ in 0..n_runs {
            self.run_once().map_err(MeasureFailure::failed)?;
        }
        let picoseconds = started.elapsed().as_nanos().saturating_mul(1000);
        Ok(BatchTiming::ByDevice(u64::try_from(picoseconds).unwrap_or(u64::MAX)))
    }

    fn check_output(&mut self) -> Result<(), MeasureFailure> {
        let Some(expectation) = &self.expectation else { return Ok(()) };
        let found = self.read_outputs().map_err(MeasureFailure::failed)?;
        let expected = match expectation {
            OutputExpectation::Bits(expected) | OutputExpectation::Near(expected) => expected,
        };
        for (output, (found, expected)) in found.iter().zip(expected.iter()).enumerate() {
            let wrong = match expectation {
                OutputExpectation::Bits(_) => find_other_bits(found, expected),
                OutputExpectation::Near(_) => find_far(found, expected),
            };
            if let Some(index) = wrong {
                let (value, wanted) = (found.numbers()[index], expected.numbers()[index]);
                let reason =
                    format!("element {index} of output {output} is {value:?}, and the default path gives {wanted:?}");
                return Err(MeasureFailure::wrong(reason));
            }
        }
        Ok(())
    }
}

fn find_other_bits(found: &DenseTensor, expected: &DenseTensor) -> Option<usize> {
    let is_nan = |tensor: &DenseTensor, index: usize| {
        let one = DenseTensor { dtype: tensor.dtype, extents: vec![1], bits: vec![tensor.bits[index]] };
        tensor.dtype.is_float() && one.numbers()[0].is_nan()
    };
    let differs = |&index: &usize| {
        found.bits[index] != expected.bits[index] && !(is_nan(found, index) && is_nan(expected, index))
    };
    (0..expected.bits.len()).find(differs)
}

fn find_far(found: &DenseTensor, expected: &DenseTensor) -> Option<usize> {
    if !expected.dtype.is_float() {
        return (0..expected.bits.len()).find(|&index| found.bits[index] != expected.bits[index]);
    }
    let half_the_digits = match expected.dtype {
        Scalar::F64 => 2f64.powi(-26),
        Scalar::F32 => 2f64.powi(-12),
        Scalar::F16 => 2f64.powi(-5),
        _ => 2f64.powi(-4),
    };
    let (found, expected) = (found.numbers(), expected.numbers());
    let finite: Vec<f64> = expected.iter().copied().filter(|number| number.is_finite()).collect();
    let scale = (finite.iter().map(|number| number * number).sum::<f64>() / finite.len().max(1) as f64).sqrt();
    let is_far = |&index: &usize| {
        let (found, expected) = (found[index], expected[index]);
        if !expected.is_finite() {
            return false;
        }
        let distance = (found - expected).abs();
        distance.is_nan() || distance > half_the_digits * (expected.abs() + scale)
    };
    (0..expected.len()).find(is_far)
}

impl<L: ArrayLibrary> VerifiedPath for MeasuredPathRun<'_, L> {
    fn run(&mut self, inputs: &[DenseTensor], outputs: &mut [DenseTensor]) -> Result<(), String> {
        for ((dtype, layout, address), tensor) in self.inputs.iter().zip(inputs) {
            // SAFETY: the memory is this run's, with as many elements as the tensor, whose extents are the layout's.
            unsafe { write_elements(*dtype, layout, *address, &tensor.bits) };
        }
        for ((ty, _, address), tensor) in self.outputs.iter().zip(outputs.iter()) {
            let layout = Layout::dense(&tensor.extents);
            // SAFETY: as above.
            unsafe { write_elements(ty.dtype, &layout, *address, &tensor.bits) };
        }
        for (output, result) in outputs.iter_mut().zip(self.results()?) {
            *output = result;
        }
        Ok(())
    }
}
