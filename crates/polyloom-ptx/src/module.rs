//! Modules, devices and launches: what the crate is used through.

use crate::decode::function::{definitions, limits, parameters};
use crate::decode::op::{DecodedProgram, LaunchLimits, ParameterInfo};
use crate::decode::{
    GlobalAddresses, PtxSymbol, declared, decode, incomplete, is_opaque, repeated, types::PtxType, variable_size,
};
use crate::error::{PtxError, TextPosition};
use crate::exec;
use crate::memory::device::AllocationPurpose;
use crate::memory::{DeviceMemory, MemoryError, window};
use crate::occupancy::Occupancy;
use crate::report::{Fault, Report};
use crate::syntax::ast::{InitialValue, ModuleItem, PtxAst, PtxVariable, StateSpace, SymbolLinkage};
use crate::syntax::parse;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// A parsed PTX module. `Display` prints it as PTX.
#[derive(Clone, Debug)]
pub struct Module {
    ast: Arc<PtxAst>,
}

/// Describes what a module says of one of its kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Holds what it takes, in order.
    pub parameters: Vec<ParameterInfo>,
    /// Holds what its directives allow.
    pub limits: LaunchLimits,
}

impl Module {
    /// Parses PTX text, or says everything that is wrong with it.
    ///
    /// ```
    /// let text = ".version 8.0\n.target sm_80\n.visible .entry nothing() { ret; }";
    /// let module = polyloom_ptx::Module::parse(text).unwrap();
    /// assert_eq!(module.kernels()[0].name, "nothing");
    /// ```
    pub fn parse(text: &str) -> Result<Module, Vec<PtxError>> {
        let ast = parse(text)?;
        if ast.address_size != 64 {
            let message = format!("the simulator has 64-bit addresses, not `.address_size {}`", ast.address_size);
            return Err(vec![PtxError::new(TextPosition { line: 1, column: 1 }, message)]);
        }
        for wrong in [repeated(&ast), incomplete(&ast)] {
            if !wrong.is_empty() {
                return Err(wrong);
            }
        }
        Ok(Module { ast: Arc::new(ast) })
    }

    /// Returns true if a device of an architecture, 80 for `sm_80`, runs it.
    pub fn runs_on(&self, arch: u32) -> bool {
        self.ast.target.first().is_none_or(|target| exec::runs_on(target, arch))
    }

    /// The syntax tree.
    pub fn ast(&self) -> &PtxAst {
        &self.ast
    }

    /// Its kernels, in order. Those whose parameters have no layout are left out; loading them says why.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        let kernels = definitions(&self.ast).filter(|function| function.entry);
        let infos = kernels.filter_map(|function| {
            let (parameters, _) = parameters(function).ok()?;
            Some(KernelInfo { name: function.name.clone(), parameters, limits: limits(function) })
        });
        infos.collect()
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ast.fmt(f)
    }
}

/// Says which checks a launch makes: at first those that a GPU's driver reports as well, of bounds and alignment.
///
/// ```
/// use polyloom_ptx::Sanitizers;
///
/// let checks: Sanitizers = "races,no-alignment".parse()?;
/// assert!(checks.bounds && checks.races && !checks.alignment && !checks.barriers);
/// assert!("reces".parse::<Sanitizers>().is_err());
/// # Ok::<(), polyloom_ptx::UnknownSanitizer>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sanitizers {
    /// Accesses outside of memory, writes of constants and parameters, and what `free` is given that `malloc` did not
    /// give. Unchecked, such accesses read zeros and write nothing.
    pub bounds: bool,
    /// Addresses that are no multiple of what is accessed. Unchecked, they are rounded down to one.
    pub alignment: bool,
    /// Reads of shared and global memory that nobody wrote.
    pub uninitialised: bool,
    /// Accesses of one place that nothing orders, in a block and between blocks.
    pub races: bool,
    /// Barriers that not all threads reach together, and warp instructions of lanes that their masks do not name.
    pub barriers: bool,
    /// Accesses of what `cp.async` may not have copied yet, and writes of what it may have yet to read.
    pub async_copies: bool,
}

impl Sanitizers {
    /// All of them.
    pub const ALL: Sanitizers = Sanitizers {
        bounds: true,
        alignment: true,
        uninitialised: true,
        races: true,
        barriers: true,
        async_copies: true,
    };

    /// None at all.
    pub const NONE: Sanitizers = Sanitizers {
        bounds: false,
        alignment: false,
        uninitialised: false,
        races: false,
        barriers: false,
        async_copies: false,
    };

    /// Those of a launch that says nothing of them.
    pub const DEFAULT: Sanitizers = Sanitizers { bounds: true, alignment: true, ..Sanitizers::NONE };

    /// Returns true if every access has to be looked at, not only those that go wrong.
    pub(crate) fn observes(self) -> bool {
        Sanitizers { bounds: false, alignment: false, ..self } != Sanitizers::NONE
    }
}

impl Default for Sanitizers {
    fn default() -> Sanitizers {
        Sanitizers::DEFAULT
    }
}

/// A name that is no check's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownSanitizer(String);

impl fmt::Display for UnknownSanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "there is no check '{}': there are bounds, alignment, races, uninitialised, barriers and async, each also \
             with no- before it, and all, default and none",
            self.0
        )
    }
}

impl std::error::Error for UnknownSanitizer {}

/// From names with commas between, each of which adds its check to the default ones, or takes it away if it begins with
/// `no-`; `all`, `none` and `default` set them all.
impl FromStr for Sanitizers {
    type Err = UnknownSanitizer;

    fn from_str(names: &str) -> Result<Sanitizers, UnknownSanitizer> {
        let mut checks = Sanitizers::DEFAULT;
        for name in names.split(',').map(str::trim) {
            let (check, is_on) = name.strip_prefix("no-").map_or((name, true), |check| (check, false));
            match (check, is_on) {
                ("bounds", _) => checks.bounds = is_on,
                ("alignment", _) => checks.alignment = is_on,
                ("races", _) => checks.races = is_on,
                ("uninitialised" | "uninitialized", _) => checks.uninitialised = is_on,
                ("barriers", _) => checks.barriers = is_on,
                ("async", _) => checks.async_copies = is_on,
                ("all", true) => checks = Sanitizers::ALL,
                ("none", true) => checks = Sanitizers::NONE,
                ("default", true) => checks = Sanitizers::DEFAULT,
                _ => return Err(UnknownSanitizer(name.to_owned())),
            }
        }
        Ok(checks)
    }
}

/// Describes what a thread and a block of a kernel take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelResources {
    /// 32-bit registers of a thread, an estimate: PTX does not say.
    pub registers: u32,
    /// Bytes of shared memory that the module declares.
    pub static_shared_bytes: u32,
    /// Bytes of local memory that a thread may need.
    pub local_bytes: u32,
}

/// Describes how a kernel is launched.
#[derive(Clone, Copy)]
pub struct LaunchRequest<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory besides what the module declares.
    pub dynamic_shared_bytes: u32,
    /// True if all blocks are resident at once, and kernels find the workspace that they synchronise the grid by.
    pub cooperative: bool,
    /// Blocks of a cluster in x, y and z, if the launch says how many: one, otherwise, or what the kernel requires.
    pub cluster: Option<[u32; 3]>,
    /// The bytes of each parameter, little-endian.
    pub params: &'a [Vec<u8>],
    /// Holds what reports call the allocations that hold these addresses.
    pub names: &'a [(u64, Arc<str>)],
    /// Holds what is checked.
    pub sanitize: Sanitizers,
    /// True if to count.
    pub counters: bool,
    /// True if the report is to say which global memory was accessed. The check for races has to be on.
    pub accesses: bool,
    /// Host threads to use; with other checks than those of bounds and alignment it is one.
    pub threads: usize,
    /// The architecture whose limits hold, 80 for `sm_80`.
    pub arch: u32,
    /// Asked now and then; `true` ends the launch.
    pub interrupt: &'a (dyn Fn() -> bool + Sync),
    /// Gets what the kernel prints, a call of `printf` at a time.
    pub print: &'a (dyn Fn(&str) + Sync),
    /// The most instructions that all threads together may execute; blocks look now and then.
    pub max_thread_instructions: Option<u64>,
    /// Told after each block how far the launch is.
    pub progress: &'a (dyn Fn(LaunchProgress) + Sync),
}

/// Says how far a launch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchProgress {
    /// Blocks that are done.
    pub blocks_done: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Instructions that the threads of blocks which are done have executed.
    pub thread_instructions: u64,
}

impl Default for LaunchRequest<'_> {
    /// One thread, the default checks, printing to nowhere.
    fn default() -> Self {
        LaunchRequest {
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            cooperative: false,
            cluster: None,
            params: &[],
            names: &[],
            sanitize: Sanitizers::default(),
            counters: false,
            accesses: false,
            threads: 1,
            arch: 90,
            interrupt: &|| false,
            print: &|_| {},
            max_thread_instructions: None,
            progress: &|_| {},
        }
    }
}

/// A simulated device.
///
/// ```
/// use polyloom_ptx::{LaunchRequest, Module, Simulator};
///
/// let text = "
///     .version 8.0
///     .target sm_80
///     .visible .entry twice(.param .u64 out) {
///         .reg .b32 %r<3>;
///         .reg .b64 %rd<4>;
///         ld.param.u64 %rd1, [out];
///         mov.u32 %r1, %tid.x;
///         add.s32 %r2, %r1, %r1;
///         mul.wide.u32 %rd2, %r1, 4;
///         add.s64 %rd3, %rd1, %rd2;
///         st.global.u32 [%rd3], %r2;
///         ret;
///     }";
/// let simulator = Simulator::default();
/// let loaded = simulator.load(&Module::parse(text).unwrap()).unwrap();
/// let kernel = loaded.kernel("twice").unwrap();
/// let out = simulator.memory().alloc(16, 4).unwrap();
/// let params = [out.to_le_bytes().to_vec()];
/// kernel.launch(&LaunchRequest { block: [4, 1, 1], params: &params, ..LaunchRequest::default() }).unwrap();
/// let mut bytes = [0; 16];
/// simulator.memory().read(out, &mut bytes).unwrap();
/// assert_eq!(bytes, [0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0]);
/// ```
#[derive(Clone, Default)]
pub struct Simulator {
    memory: DeviceMemory,
}

/// Why a module could not be loaded.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The module has no meaning.
    #[error("{}", .0.iter().map(PtxError::to_string).collect::<Vec<_>>().join("\n"))]
    Module(Vec<PtxError>),
    /// Its variables do not fit.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl Simulator {
    /// A device with this memory.
    pub fn with_memory(memory: DeviceMemory) -> Simulator {
        Simulator { memory }
    }

    /// Its global memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    /// Puts the module's global and constant variables into memory, where they stay until the result is dropped.
    pub fn load(&self, module: &Module) -> Result<LoadedModule, LoadError> {
        let mut loaded = LoadedModule {
            inner: Arc::new(SimulatorState {
                ast: crate::device_runtime::completed(&module.ast),
                memory: self.memory.clone(),
                globals: GlobalAddresses::default(),
                heap: Mutex::default(),
                programs: Mutex::default(),
            }),
        };
        let mut variables = Vec::new();
        for item in &module.ast.items {
            match item {
                ModuleItem::Variable(variable) => variables.push((variable, true)),
                ModuleItem::Function(function) => {
                    let body = function.body.as_deref().unwrap_or(&[]);
                    declared(body, &mut |variable| variables.push((variable, false)));
                }
                _ => {}
            }
        }
        variables.retain(|(each, _)| matches!(each.space, StateSpace::Global | StateSpace::Const) && !is_opaque(each));
        // Declarations come last, because the definition of a variable that is also declared says how large it is.
        variables.sort_by_key(|(variable, _)| variable.linkage == Some(SymbolLinkage::Extern));
        let Some(inner) = Arc::get_mut(&mut loaded.inner) else { return Ok(loaded) };
        let mut names = FxHashSet::default();
        let mut constants = Vec::new();
        let mut placed = Vec::new();
        for (variable, of_module) in &variables {
            if *of_module && !names.insert(&variable.name) {
                continue;
            }
            let (size, align) = variable_size(variable).map_err(|error| LoadError::Module(vec![error]))?;
            let name = variable.name.clone();
            if variable.space == StateSpace::Const {
                constants.push((name, size as usize, u64::from(align)));
            }
            placed.push((variable, of_module, size as usize, u64::from(align)));
        }
        let globals = &mut inner.globals;
        let mut addresses = Vec::new();
        if !constants.is_empty() {
            (addresses, globals.constants) = self.memory.alloc_constants(&constants)?;
        }
        let mut addresses = addresses.into_iter();
        for (variable, of_module, size, align) in placed {
            let of_constant = if variable.space == StateSpace::Const { addresses.next() } else { None };
            let address = match of_constant {
                Some(address) => address,
                None => {
                    self.memory.alloc_for(size, align, AllocationPurpose::Variable { name: variable.name.clone() })?
                }
            };
            globals.by_position.insert(variable.position, address);
            if *of_module {
                globals.by_name.insert(variable.name.clone(), address);
            }
        }
        for (variable, _) in variables {
            let Some(address) = inner.globals.by_position.get(&variable.position).copied() else { continue };
            let mut bytes = Vec::new();
            if let Some(initial) = &variable.initial {
                inner.initial(variable, initial, &mut bytes).map_err(|error| LoadError::Module(vec![error]))?;
            }
            let (size, _) = variable_size(variable).map_err(|error| LoadError::Module(vec![error]))?;
            if bytes.len() > size as usize {
                let message = format!("`{}` has {size} bytes, its initial value {}", variable.name, bytes.len());
                return Err(LoadError::Module(vec![PtxError::new(variable.position, message)]));
            }
            // A variable without an initial value is zero, as the allocation is.
            self.memory.write(address, &bytes)?;
        }
        Ok(loaded)
    }
}

/// A module whose variables are in a device's memory.
#[derive(Clone)]
pub struct LoadedModule {
    inner: Arc<SimulatorState>,
}

struct SimulatorState {
    ast: Arc<PtxAst>,
    memory: DeviceMemory,
    globals: GlobalAddresses,
    /// The place where `malloc` of its kernels takes memory, once one is launched that calls it.
    heap: Mutex<Option<u64>>,
    programs: Mutex<FxHashMap<String, Arc<DecodedProgram>>>,
}

impl Drop for SimulatorState {
    fn drop(&mut self) {
        let heap = self.heap.get_mut().unwrap_or_else(PoisonError::into_inner);
        for address in self.globals.by_position.values().chain(heap.as_ref()) {
            // The result is ignored because somebody may have freed a variable by its address, which is theirs to
            // answer for.
            let _ = self.memory.free(*address);
        }
    }
}

impl SimulatorState {
    /// The address of its heap, if there is memory for one.
    fn heap(&self) -> Option<u64> {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        *heap = heap.or_else(|| self.memory.alloc_heap().ok());
        *heap
    }

    fn initial(&self, variable: &PtxVariable, initial: &InitialValue, bytes: &mut Vec<u8>) -> Result<(), PtxError> {
        let ty = PtxType::parse(&variable.ty).unwrap_or(PtxType::B(8));
        let size = ty.bytes() as usize;
        let fail = |value: String| {
            let message = format!("`{value}` is no initial value of type `.{}`", variable.ty);
            Err(PtxError::new(variable.position, message))
        };
        match initial {
            InitialValue::List(all) => {
                let start = bytes.len();
                for each in all {
                    self.initial(variable, each, bytes)?;
                }
                // A row of a matrix that is given in part.
                if variable.extents.len() > 1 && !all.iter().any(|each| matches!(each, InitialValue::List(_))) {
                    let row = variable.extents.last().copied().flatten().unwrap_or(0) as usize * size;
                    bytes.resize(bytes.len().max(start + row), 0);
                }
            }
            InitialValue::Integer(value) if !ty.is_float() => bytes.extend(&value.to_le_bytes()[..size.min(8)]),
            InitialValue::Float(value) => {
                // Unlike an operand, a value of 32 bits may be a decimal.
                let literal = if ty == PtxType::B(32) { PtxType::F32 } else { ty };
                let Some(bits) = literal.bits_of(*value) else { return fail(value.to_string()) };
                bytes.extend(&bits.to_le_bytes()[..size.min(8)]);
            }
            InitialValue::Integer(value) => return fail(value.to_string()),
            InitialValue::Field { name, .. } => return fail(name.clone()),
            InitialValue::Address { .. } => {
                bytes.extend(&self.address(variable, initial)?.to_le_bytes()[..size.min(8)])
            }
            InitialValue::Masked { mask, address } => {
                let bits = self.address(variable, address)? & mask;
                let value = bits >> mask.trailing_zeros().min(63);
                bytes.extend(&value.to_le_bytes()[..size.min(8)]);
            }
        }
        Ok(())
    }

    /// Returns what an initial value of a variable points to.
    fn address(&self, variable: &PtxVariable, initial: &InitialValue) -> Result<u64, PtxError> {
        let InitialValue::Address { name, offset, generic } = initial else {
            return Err(PtxError::new(variable.position, "an address is wanted"));
        };
        let in_space = |address: u64| match self.globals.symbol(address) {
            PtxSymbol::Memory { address, .. } if !generic => address,
            _ => address,
        };
        let function = definitions(&self.ast).position(|function| function.name == *name);
        let function = function.map(|index| window::FUNCTIONS + 16 * index as u64);
        match self.globals.by_name.get(name).map(|address| in_space(*address)).or(function) {
            Some(address) => Ok(address.wrapping_add_signed(*offset)),
            None => Err(PtxError::new(variable.position, format!("`{name}` has no address"))),
        }
    }
}

impl LoadedModule {
    /// The addresses of a variable in global or constant memory.
    pub fn variable(&self, name: &str) -> Option<Range<u64>> {
        self.inner.memory.allocation_at(*self.inner.globals.by_name.get(name)?)
    }

    /// Decodes a kernel, once, or says what in it the simulator cannot run.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Vec<PtxError>> {
        let known = self.inner.programs.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let program = match known {
            Some(program) => program,
            None => {
                let program = Arc::new(decode(&self.inner.ast, name, &self.inner.globals)?);
                let mut programs = self.inner.programs.lock().unwrap_or_else(PoisonError::into_inner);
                programs.insert(name.to_owned(), Arc::clone(&program));
                program
            }
        };
        let functions = program.functions.iter().map(|info| {
            let index = definitions(&self.inner.ast).position(|function| function.name == info.name);
            window::FUNCTIONS + 16 * index.unwrap_or(0) as u64
        });
        let functions = functions.collect();
        Ok(Kernel { program, functions, inner: Arc::clone(&self.inner) })
    }
}

/// A kernel that is ready to run.
#[derive(Clone)]
pub struct Kernel {
    program: Arc<DecodedProgram>,
    functions: Arc<[u64]>,
    inner: Arc<SimulatorState>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.program.functions[self.program.kernel].name
    }

    /// Returns what it takes, in order.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.program.parameters
    }

    /// Returns what its directives allow.
    pub fn limits(&self) -> LaunchLimits {
        self.program.limits
    }

    /// Returns what a thread and a block of it take.
    pub fn resources(&self) -> KernelResources {
        let program = &self.program;
        KernelResources {
            registers: crate::occupancy::registers(program),
            static_shared_bytes: program.static_shared_bytes,
            local_bytes: program.local_bytes,
        }
    }

    /// Returns how many blocks of so many threads, with so much dynamic shared memory, a multiprocessor of an
    /// architecture (80 for `sm_80`) holds.
    pub fn occupancy(&self, arch: u32, threads: u32, dynamic_shared_bytes: u32) -> Occupancy {
        crate::occupancy::of_block(&self.program, arch, threads, dynamic_shared_bytes)
    }

    /// Runs it to its end. Memory keeps what a launch that fails has written.
    pub fn launch(&self, launch: &LaunchRequest<'_>) -> Result<Report, Box<Fault>> {
        let heap = self.program.allocates.then(|| self.inner.heap()).flatten();
        exec::run(&self.program, &self.functions, (&self.inner.memory, heap), launch)
    }
}
