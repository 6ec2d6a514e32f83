//! The suite every engine passes, on PTX in the simulator.

use polyloom_codegen::conformance::launch::{DeviceCode, LaunchEvents, ReadyKernel};
use polyloom_codegen::conformance::{ConformanceEngine, EngineSubject};
use polyloom_codegen::{
    ArgLayout, CodeVariant, EmitRequest, Emitter as _, Form, GpuLaunch, GpuReport, conformance_tests,
};
use polyloom_ir::interp::{BufferMemory, InterpArg};
use polyloom_ir::{Arch, FloatMode, FuncId, Function, MAX_DIMS, Module, Type};
use polyloom_llvm::{GpuOptions, NvptxBackend};
use polyloom_passes::pipeline;
use polyloom_ptx::{DeviceMemory, Kernel, LaunchRequest, Sanitizers, Simulator};
use std::sync::Mutex;

fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
    let options = pipeline::PipelineOptions { checked, gpu: true };
    pipeline::prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}\n{module}"))
}

/// A kernel that the simulator has loaded.
struct Simulated {
    simulator: Simulator,
    kernel: Kernel,
    arch: Arch,
}

impl Simulated {
    fn load(
        simulator: &Simulator,
        arch: Arch,
        module: &Module,
        id: FuncId,
        variant: &CodeVariant,
    ) -> Result<ReadyKernel, String> {
        let version = arch.ptx_version().max("7.0".parse().expect("it is a version"));
        let request = EmitRequest { entry: "kernel", ..EmitRequest::new(module, id, variant) };
        let made = NvptxBackend::new(arch, version, GpuOptions::default()).emit(&request, Form::Ptx);
        let ptx = made.map_err(|error| error.to_string())?;
        let ptx = String::from_utf8(ptx).expect("PTX is text");
        let parsed = polyloom_ptx::Module::parse(&ptx).map_err(|errors| format!("{errors:?}\n{ptx}"))?;
        let loaded = simulator.load(&parsed).map_err(|error| error.to_string())?;
        let kernel = loaded.kernel("kernel").map_err(|errors| format!("{errors:?}\n{ptx}"))?;
        Ok(ReadyKernel::Device(Box::new(Simulated { simulator: simulator.clone(), kernel, arch })))
    }

    fn memory(&self) -> &DeviceMemory {
        self.simulator.memory()
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory().read(address, &mut bytes).expect("it is there");
        u64::from_le_bytes(bytes)
    }
}

impl DeviceCode for Simulated {
    fn launch(&self, kernel: &Function, shape: &[u64], args: &[InterpArg], memory: &mut BufferMemory) -> LaunchEvents {
        let device = self.memory();
        let alloc = |bytes: &[u8]| {
            // Whole words: updates of 16-bit elements exchange the word they are in.
            let address = device.alloc(bytes.len().next_multiple_of(4).max(4), 256).expect("there is room");
            device.write(address, bytes).expect("it is there");
            address
        };
        let report = alloc(&[0; size_of::<GpuReport>()]);
        let buffers: Vec<u64> = memory.buffers.iter().map(|bytes| alloc(bytes)).collect();
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut first = [1; GpuLaunch::BYTES as usize / 8];
        first[..shape.len()].copy_from_slice(shape);
        first[MAX_DIMS] = report;
        let mut params = vec![bytes(&first)];
        for (arg, &param) in args.iter().zip(kernel.params()) {
            params.push(match (arg, kernel.ty(param)) {
                (InterpArg::Scalar(bits), Type::Scalar(ty)) => bits.to_le_bytes()[..ty.bytes() as usize].to_vec(),
                (InterpArg::Array(array), Type::Array { ndim, .. }) => {
                    let mut words = vec![0; ArgLayout::new([kernel.ty(param)]).size as usize / 8];
                    words[0] = buffers[array.buffer as usize].wrapping_add_signed(array.offset);
                    for axis in 0..ndim {
                        words[ArgLayout::extent(axis) as usize / 8] = array.extents[usize::from(axis)] as u64;
                        words[ArgLayout::stride(ndim, axis) as usize / 8] = array.strides[usize::from(axis)] as u64;
                    }
                    bytes(&words)
                }
                (arg, ty) => panic!("{arg:?} is no {ty}"),
            });
        }
        let n_threads = shape.iter().product::<u64>() as u32;
        let text = Mutex::new(String::new());
        let launch = LaunchRequest {
            grid: [n_threads.div_ceil(BLOCK_SIZE), 1, 1],
            block: [BLOCK_SIZE, 1, 1],
            dynamic_shared_bytes: 0,
            cooperative: false,
            params: &params,
            names: &[],
            sanitize: Sanitizers::default(),
            counters: false,
            threads: 1,
            arch: self.arch.number().into(),
            interrupt: &|| false,
            print: &|printed| text.lock().expect("nobody panics").push_str(printed),
            ..LaunchRequest::default()
        };
        if let Err(fault) = self.kernel.launch(&launch) {
            panic!("{fault}\n{kernel}");
        }
        let mut events = LaunchEvents { text: text.into_inner().expect("nobody panics"), ..LaunchEvents::default() };
        if self.word(report + u64::from(GpuReport::CLAIMED_OFFSET)) != 0 {
            let word = |offset: u32| self.word(report + u64::from(offset));
            let (site, thread) = (word(GpuReport::SITE_OFFSET) as u32, word(GpuReport::THREAD_OFFSET));
            let (index, extent) = (word(GpuReport::INDEX_OFFSET), word(GpuReport::EXTENT_OFFSET));
            events.traps.push((site, index as i64, extent as i64, thread));
        }
        for (bytes, &address) in memory.buffers.iter_mut().zip(&buffers) {
            device.read(address, bytes).expect("it is there");
            device.free(address).expect("it is there");
        }
        device.free(report).expect("it is there");
        events
    }
}

/// Threads of a block: two warps, one of them not full.
const BLOCK_SIZE: u32 = 50;

fn run(arch: &str, float_mode: FloatMode, suite: fn(&EngineSubject<'_>)) {
    let arch: Arch = arch.parse().expect("it is an architecture");
    let simulator = Simulator::default();
    let load =
        |module: &Module, id: FuncId, variant: &CodeVariant| Simulated::load(&simulator, arch, module, id, variant);
    suite(&EngineSubject {
        engine: ConformanceEngine::Device("simulator", &load),
        prepare: &prepare,
        float_mode,
        lanes: None,
    });
}

conformance_tests! { mod sm_75 = |suite| run("sm_75", FloatMode::Strict, suite) }
conformance_tests! { mod sm_75_contract = |suite| run("sm_75", FloatMode::Contract, suite) }
conformance_tests! { mod sm_75_fast = |suite| run("sm_75", FloatMode::Fast, suite) }
conformance_tests! { mod sm_80 = |suite| run("sm_80", FloatMode::Strict, suite) }
conformance_tests! { mod sm_80_contract = |suite| run("sm_80", FloatMode::Contract, suite) }
conformance_tests! { mod sm_80_fast = |suite| run("sm_80", FloatMode::Fast, suite) }
conformance_tests! { mod sm_90 = |suite| run("sm_90", FloatMode::Strict, suite) }
conformance_tests! { mod sm_90_contract = |suite| run("sm_90", FloatMode::Contract, suite) }
conformance_tests! { mod sm_90_fast = |suite| run("sm_90", FloatMode::Fast, suite) }
