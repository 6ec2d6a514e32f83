//! Kernels of the usual kinds with arguments for them: what examples time.

use super::launch::dense;
use polyloom_ir::Scalar;
use polyloom_ir::interp::{BufferMemory, InterpArg};

/// A kernel, a grid and arguments.
pub struct TimedKernel {
    /// The kernel's name.
    pub name: &'static str,
    /// Its HIR.
    pub text: &'static str,
    /// The grid.
    pub shape: Vec<u64>,
    /// The arguments.
    pub args: Vec<InterpArg>,
    /// Holds what the array arguments view.
    pub memory: BufferMemory,
}

impl TimedKernel {
    fn new(name: &'static str, text: &'static str, shape: &[usize]) -> TimedKernel {
        let shape = shape.iter().map(|&extent| extent as u64).collect();
        TimedKernel { name, text, shape, args: Vec::new(), memory: BufferMemory::default() }
    }

    fn scalar(mut self, bits: u64) -> TimedKernel {
        self.args.push(InterpArg::Scalar(bits));
        self
    }

    /// An array as large as the grid.
    fn array(mut self, elem: Scalar, bits: impl Fn(usize) -> u32) -> TimedKernel {
        let extents: Vec<usize> = self.shape.iter().map(|&extent| extent as usize).collect();
        let bits: Vec<u64> = (0..extents.iter().product()).map(|index| bits(index).into()).collect();
        self.args.push(dense(&mut self.memory, elem, &extents, &bits));
        self
    }
}

/// `y[i] += a * x[i]`.
pub fn saxpy(n: usize) -> TimedKernel {
    let timed = TimedKernel::new("saxpy", include_str!("../../../../tests/kernels/saxpy.hir"), &[n]);
    let timed = timed.scalar(2f32.to_bits().into());
    timed.array(Scalar::F32, |i| (i as f32).to_bits()).array(Scalar::F32, |_| 1f32.to_bits())
}

/// `y[i] = exp(s * x[i])`: a call to a library function.
pub fn exp(n: usize) -> TimedKernel {
    let timed = TimedKernel::new("exp", include_str!("../../../../tests/kernels/exp.hir"), &[n]);
    let timed = timed.scalar(0.25f32.to_bits().into());
    timed.array(Scalar::F32, |i| ((i % 1000) as f32 * 0.01).to_bits()).array(Scalar::F32, |_| 0)
}

/// The accelerations of `n` bodies, each by all.
pub fn nbody(n: usize) -> TimedKernel {
    let mut timed = TimedKernel::new("nbody", include_str!("../../../../tests/kernels/nbody.hir"), &[n]);
    for k in 0..4 {
        let place = move |i: usize| ((i * (7 + 2 * k) * 2_654_435) % 1000) as f32 / 1000.0;
        timed = timed.array(Scalar::F32, move |i| place(i).to_bits());
    }
    for _ in 0..3 {
        timed = timed.array(Scalar::F32, |_| 0);
    }
    timed.scalar(n as u64)
}

/// One step of diffusion on an `n` by `n` grid.
pub fn stencil(n: usize) -> TimedKernel {
    let timed = TimedKernel::new("stencil", include_str!("../../../../tests/kernels/stencil.hir"), &[n, n]);
    let timed = timed.array(Scalar::F32, |i| ((i % 97) as f32).to_bits()).array(Scalar::F32, |_| 0);
    timed.scalar(0.1f32.to_bits().into())
}

/// Iterations, at most 256, on an `n` by `n` grid.
pub fn mandelbrot(n: usize) -> TimedKernel {
    let timed = TimedKernel::new("mandelbrot", include_str!("../../../../tests/kernels/mandelbrot.hir"), &[n, n]);
    timed.array(Scalar::I32, |_| 0).scalar((3.0 / n as f32).to_bits().into()).scalar(256)
}
