//! A kernel without Python text: built as HIR, run on the CPU and on the simulator of a GPU, shown as PTX.
//!
//! `cargo run -p polyloom --features compute --example embed`; without the feature it runs on the CPU alone. The guide's
//! page on embedding goes through it.

use polyloom::ptx::Sanitizers;
use polyloom::{
    Arch, ArgBlock, EmitOptions, ExprBuilder, Form, GpuTarget, Kernel, LaunchOptions, Module, Op, Scalar, Session,
    SimOptions, SourceMap, Type, has_compute, sim_queue,
};
use std::error::Error;

/// Builds a kernel that repeats `v = v * exp(-v * v)` `n` times for each element `v` of `x` and writes it to `y`.
fn damped(session: &Session) -> Result<Kernel, Box<dyn Error>> {
    let array = Type::array(Scalar::F32, 1);
    let params = [("n", Type::I32), ("x", array), ("y", array)];
    let function = ExprBuilder::kernel("damped", params, |b, [n, x, y]| {
        let i = b.tid(0);
        b.if_then(i.lt(x.extent(0)), || {
            let start = x.load(&[i]);
            let [end] = b.for_range(0, n, 1, [start], |_, [value]| [value * b.op(Op::Exp, &[-(value * value)])]);
            y.store(&[i], end);
        });
    })?;
    let mut module = Module::new();
    let kernel = module.functions.push(function);
    Ok(session.compile_module(module, kernel, SourceMap::new())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::new()?;
    let kernel = damped(&session)?;
    println!("{}", kernel.module().0);

    let mut x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
    let mut y = vec![0.0f32; x.len()];
    let (shape, options) = ([x.len() as u64], LaunchOptions::default());
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::I32, 3)?;
    args.slice(kernel.params(), &mut x, &[8])?;
    args.slice(kernel.params(), &mut y, &[8])?;
    // SAFETY: `x` and `y` outlive the launch, and the kernel compares its index with the extent they have.
    unsafe { kernel.launch(&shape, &args, &options)? };
    println!("on the CPU         {y:?}");
    if !has_compute() {
        println!("this build has no GPU code: it needs the feature `compute`");
        return Ok(());
    }

    let on_cpu = std::mem::replace(&mut y, vec![0.0; 8]);
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::I32, 3)?;
    args.slice(kernel.params(), &mut x, &[8])?;
    args.slice(kernel.params(), &mut y, &[8])?;
    let sim = SimOptions { sanitize: Sanitizers::ALL, ..SimOptions::default() };
    let options = LaunchOptions { sim, ..options };
    // SAFETY: as above.
    unsafe { kernel.launch_on(&*sim_queue(), &shape, &args, &options)? };
    println!("on the simulator   {y:?}");
    assert_eq!(y, on_cpu);
    println!("\n{}", kernel.emit_text(Form::Ptx, &EmitOptions::for_gpu(GpuTarget::new(Arch::DEFAULT)))?);
    Ok(())
}
