//! Kernels whose threads work together: barriers, shared memory, warp operations.
//!
//! What threads do together stands where control flow is the same for all of them: conditions and bounds there depend
//! on nothing but the launch and the block. Between two barriers a thread stores only its own elements of shared
//! arrays, or all threads update them by one commutative atomic. Kernels with warp operations are launched over whole
//! warps, for what a lane gets from one that has exited is not defined.

use super::generate::{ProgramGenerator, ProgramVariable};
use super::program::{ArrayParam, ArrayUse, BlockNeeds};
use polyloom_ir::{Composite, Scalar, Type};

/// Bytes of dynamic shared memory that kernels ask for.
const DYNAMIC_BYTES: usize = 2048;

impl ProgramGenerator {
    /// Decides whether the kernel has threads work together, and gives what its decorator says of that.
    pub(super) fn draw_block(&mut self) -> Option<String> {
        if self.checked || self.smooth || !self.random.chance(25) {
            return None;
        }
        let warps = self.random.chance(70);
        let size = if warps { 32 * (1 + self.random.below(4)) } else { *self.random.pick(&[1, 7, 20, 32, 64, 100]) };
        self.in_blocks = Some(BlockNeeds { size, warps, shared: Vec::new() });
        Some(format!("block_dim={size}, shared_bytes={DYNAMIC_BYTES}"))
    }

    /// The beginning of such a kernel: its coordinates and shared arrays.
    pub(super) fn begin_block(&mut self) {
        let Some(BlockNeeds { size, warps, .. }) = self.in_blocks else { return };
        let own = self.arrays.iter().position(|array| array.access == ArrayUse::Own).unwrap_or(0);
        self.line("t = loom.thread_idx()");
        self.line("b = loom.block_idx()");
        // Number of threads of the block.
        self.line(&format!("live = loom.min({size}, a{own}.shape[0] - b * loom.block_dim())"));
        if warps {
            self.line("lane = loom.lane_id()");
            self.scope.push(ProgramVariable::fixed("lane".to_owned(), Scalar::I32));
        }
        for name in ["t", "b", "live"] {
            self.scope.push(ProgramVariable::fixed(name.to_owned(), Scalar::I32));
        }
        for _ in 0..1 + self.random.below(2) {
            let elem = match self.any_composite() {
                Some(composite) if composite.n_components() <= 4 && self.random.chance(40) => composite.into(),
                _ => Type::Scalar(self.ty()),
            };
            let (name, ty) = (self.name("s"), self.type_name(elem));
            if self.random.chance(25) {
                let bytes = elem.as_composite().map_or_else(
                    || elem.as_scalar().map_or(8, |scalar| scalar.bytes() as usize),
                    |c| c.n_components() * c.elem().bytes() as usize,
                );
                if bytes * size <= DYNAMIC_BYTES && !self.has_dynamic() {
                    self.line(&format!("{name} = loom.dynamic_shared(shape={size}, dtype={ty})"));
                    self.share(name, elem);
                    continue;
                }
            }
            self.line(&format!("{name} = loom.shared_array(shape={size}, dtype={ty})"));
            self.share(name, elem);
        }
    }

    fn has_dynamic(&self) -> bool {
        self.text.contains("dynamic_shared")
    }

    fn share(&mut self, name: String, elem: Type) {
        if let Some(block) = &mut self.in_blocks {
            block.shared.push((name, elem));
        }
    }

    /// Something that all threads of the block do together.
    pub(super) fn together(&mut self, depth: usize) {
        let Some(block) = self.in_blocks.clone() else { return };
        match self.random.below(14) {
            12 | 13 => self.behind_a_condition(),
            0..=2 => self.exchange(&block),
            3 => self.count(&block),
            4 => self.vote_of_block(),
            5 if depth < 2 => self.uniform_if(depth),
            6 if depth < 2 => self.uniform_for(depth),
            7 => self.copy_behind(&block),
            8 => self.order(&block),
            9 if block.warps && self.random.chance(30) => self.tensor_core(),
            _ if block.warps => self.warp_operation(),
            _ => self.exchange(&block),
        }
    }

    /// An index of a live thread.
    fn live_index(&mut self) -> String {
        match self.random.below(5) {
            0 => "live - 1 - t".to_owned(),
            1 => "loom.min(t ^ 1, live - 1)".to_owned(),
            2 => "(t + 1) % live".to_owned(),
            3 => "0".to_owned(),
            _ => format!("loom.abs({} % live)", self.pinned(Scalar::I32, 2)),
        }
    }

    /// Each thread stores its own element, then reads another's.
    fn exchange(&mut self, block: &BlockNeeds) {
        let (array, elem) = self.random.pick(&block.shared).clone();
        let value = self.pinned_of(elem, 2);
        self.line(&format!("{array}[t] = {value}"));
        self.line("loom.sync_threads()");
        let index = self.live_index();
        self.read_shared(&format!("{array}[{index}]"), elem);
        self.line("loom.sync_threads()");
    }

    fn read_shared(&mut self, element: &str, elem: Type) {
        let name = self.name("v");
        self.line(&format!("{name} = {element}"));
        self.scope.push(ProgramVariable::new(name, elem));
    }

    /// Threads update shared elements by a commutative atomic.
    fn count(&mut self, block: &BlockNeeds) {
        let integers = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];
        let is_counter = |(_, elem): &&(String, Type)| elem.as_scalar().is_some_and(|ty| integers.contains(&ty));
        let Some((array, elem)) = block.shared.iter().find(is_counter).cloned() else { return self.exchange(block) };
        let Some(ty) = elem.as_scalar() else { return };
        let start = self.literal(ty);
        self.line(&format!("{array}[t] = loom.{}({start})", ty.python_name()));
        self.line("loom.sync_threads()");
        let index = self.live_index();
        let call = match self.random.below(8) {
            0 | 2 if ty == Scalar::U32 => format!("loom.atomic_inc({array}, {index}, loom.uint32(5))"),
            1 | 3 if ty == Scalar::U32 => format!("loom.atomic_dec({array}, {index}, loom.uint32(6))"),
            n => {
                let op = ["add", "sub", "min", "max", "and", "or", "xor", "add"][n];
                let value = self.pinned(ty, 2);
                let order =
                    *self.random.pick(&["", "", ", scope=\"block\"", ", order=\"acq_rel\"", ", order=\"seq_cst\""]);
                format!("loom.atomic_{op}({array}, {index}, {value}{order})")
            }
        };
        if self.random.chance(30) {
            let cond = self.expr(Scalar::Bool, 2);
            self.line(&format!("if {cond}:"));
            self.line(&format!("    {call}"));
        } else {
            self.line(&call);
        }
        self.line("loom.sync_threads()");
        let index = self.live_index();
        self.read_shared(&format!("{array}[{index}]"), elem);
        self.line("loom.sync_threads()");
    }

    /// Threads up to a limit store their elements, alone between two barriers.
    fn behind_a_condition(&mut self) {
        let is_integer =
            |array: &ArrayParam| array.access == ArrayUse::Read && array.elem == Type::I32 && array.ndim == 1;
        let mut limits = vec!["live // 2".to_owned(), "b + 3".to_owned(), "5".to_owned(), "live - 1".to_owned()];
        limits.extend((0..self.arrays.len()).filter(|&a| is_integer(&self.arrays[a])).map(|a| format!("a{a}[0]")));
        let limit = self.random.pick(&limits).clone();
        let comparison = *self.random.pick(&["<", "<=", ">", ">=", "=="]);
        let mut cond = format!("t {comparison} {limit}");
        if self.random.chance(50) {
            let name = self.name("v");
            self.line(&format!("{name} = {cond}"));
            self.scope.push(ProgramVariable::fixed(name.clone(), Scalar::Bool));
            cond = name;
        }
        self.line("loom.sync_threads()");
        let own: Vec<usize> = (0..self.arrays.len()).filter(|&a| self.arrays[a].access == ArrayUse::Own).collect();
        self.line(&format!("if {cond}:"));
        self.indent += 1;
        let array = *self.random.pick(&own);
        let n_in_scope = self.scope.len();
        self.store_own(array);
        self.scope.truncate(n_in_scope);
        self.indent -= 1;
        self.line("loom.sync_threads()");
    }

    fn vote_of_block(&mut self) {
        let cond = self.expr(Scalar::Bool, 2);
        let (way, ty) = *self.random.pick(&[("and", Scalar::Bool), ("or", Scalar::Bool), ("count", Scalar::I32)]);
        let name = self.name("v");
        self.line(&format!("{name} = loom.sync_threads_{way}({cond})"));
        self.scope.push(ProgramVariable::new(name, ty));
    }

    /// A condition that is the same for all threads of the block.
    fn uniform_condition(&mut self) -> String {
        let conditions = ["b % 2 == 0", "live > 20", "b < 1", "live % 3 != 0", "live * 2 > b", "loom.grid_dim() > 2"];
        (*self.random.pick(&conditions)).to_owned()
    }

    fn uniform_if(&mut self, depth: usize) {
        let cond = self.uniform_condition();
        self.line(&format!("if {cond}:"));
        self.nested_together(depth);
        if self.random.chance(40) {
            self.line("else:");
            self.nested_together(depth);
        }
    }

    fn uniform_for(&mut self, depth: usize) {
        let counter = self.name("n");
        let bounds = *self.random.pick(&["2", "1, 4", "b % 3", "3, 0, -1", "live % 3"]);
        self.line(&format!("for {counter} in range({bounds}):"));
        self.scope.push(ProgramVariable::fixed(counter, Scalar::I32));
        self.nested_together(depth);
        self.scope.pop();
    }

    /// A block of statements, some of which threads execute together.
    fn nested_together(&mut self, depth: usize) {
        let outer = self.scope.len();
        self.indent += 1;
        self.together(depth + 1);
        if self.random.chance(50) {
            // Threads may return where they are alone, and must not before a barrier.
            self.assign();
        }
        if self.random.chance(40) {
            self.together(depth + 1);
        }
        self.indent -= 1;
        self.scope.truncate(outer);
    }

    /// Asynchronous copies to shared memory, and reads that need no order.
    fn copy_behind(&mut self, block: &BlockNeeds) {
        let readable =
            |array: &ArrayParam, elem: Type| array.access == ArrayUse::Read && array.elem == elem && array.ndim == 1;
        for (array, elem) in block.shared.clone() {
            let Some(source) = (0..self.arrays.len()).find(|&a| readable(&self.arrays[a], elem)) else { continue };
            let Some(scalar) = elem.as_scalar() else { continue };
            let index = self.index(source);
            if !matches!(scalar.bytes(), 4 | 8) {
                let name = self.name("v");
                self.line(&format!("{name} = loom.load_readonly(a{source}, {index})"));
                self.scope.push(ProgramVariable::new(name, elem));
                return;
            }
            self.line(&format!("loom.async_copy({array}[t], a{source}[{index}])"));
            self.line("loom.async_commit()");
            self.line("loom.async_wait()");
            self.line("loom.sync_threads()");
            let index = self.live_index();
            self.read_shared(&format!("{array}[{index}]"), elem);
            self.line("loom.sync_threads()");
            return;
        }
        self.exchange(block);
    }

    /// A call without a result that could differ.
    fn order(&mut self, block: &BlockNeeds) {
        let calls = [
            "loom.thread_fence()",
            "loom.thread_fence(scope=\"block\")",
            "loom.thread_fence(scope=\"system\")",
            "loom.nanosleep(loom.uint32(20))",
            "loom.sync_warp()",
        ];
        let n = if block.warps { calls.len() } else { calls.len() - 1 };
        let call = calls[self.random.below(n)];
        self.line(call);
    }

    /// An operation of all lanes of a warp.
    fn warp_operation(&mut self) {
        let name = self.name("v");
        let (value, ty): (String, Type) = match self.random.below(10) {
            0 => (format!("loom.ballot({})", self.expr(Scalar::Bool, 2)), Scalar::U32.into()),
            1 => {
                let way = *self.random.pick(&["any", "all"]);
                (format!("loom.warp_{way}({})", self.expr(Scalar::Bool, 2)), Scalar::Bool.into())
            }
            2 => {
                let ty = self.whole_number();
                let way = *self.random.pick(&["any", "all"]);
                (format!("loom.match_{way}({})", self.pinned(ty, 2)), Scalar::U32.into())
            }
            3..=5 => {
                let ty = self.number();
                let bitwise = ty.is_int() && self.random.chance(40);
                let way = if bitwise {
                    self.random.pick(&["and", "or", "xor"])
                } else {
                    self.random.pick(&["add", "min", "max"])
                };
                let value = match self.composite_of(ty) {
                    Some(composite) if self.random.chance(40) => Type::Composite(composite),
                    _ => ty.into(),
                };
                (format!("loom.warp_reduce_{way}({})", self.pinned_of(value, 2)), value)
            }
            _ => {
                let ty = self.value_type();
                let value = self.pinned_of(ty, 2);
                let lane = match self.random.below(4) {
                    0 => self.pinned(Scalar::I32, 1),
                    1 => "lane ^ 5".to_owned(),
                    _ => self.random.below(33).to_string(),
                };
                let way = *self.random.pick(&["", "_up", "_down", "_xor"]);
                let width = *self.random.pick(&["", "", ", width=16", ", width=4", ", width=1"]);
                (format!("loom.shuffle{way}({value}, {lane}{width})"), ty)
            }
        };
        self.line(&format!("{name} = {value}"));
        self.scope.push(ProgramVariable::new(name, ty));
    }

    /// A type of integers that the program draws from.
    fn whole_number(&mut self) -> Scalar {
        match self.ty() {
            ty if ty.is_int() => ty,
            _ => Scalar::I32,
        }
    }

    /// A composite of the program with these elements.
    fn composite_of(&self, elem: Scalar) -> Option<Composite> {
        self.composites.iter().copied().find(|composite| composite.elem() == elem && composite.n_components() <= 4)
    }

    /// A product of bytes by the tensor core, whose sums are exact.
    fn tensor_core(&mut self) {
        let (tile, sums) = (self.name("s"), self.name("s"));
        let byte = *self.random.pick(&[Scalar::I8, Scalar::U8]);
        let byte = byte.python_name();
        self.line(&format!("{tile} = loom.shared_array(shape=(16, 16), dtype=loom.{byte})"));
        self.line(&format!("{sums} = loom.shared_array(shape=(16, 16), dtype=loom.int32)"));
        let factor = 1 + self.random.below(9);
        let e = self.name("n");
        self.line(&format!("for {e} in range(t, 256, live):"));
        self.line(&format!("    {tile}[{e} // 16, {e} % 16] = loom.{byte}({e} * {factor} + b)"));
        self.line(&format!("    {sums}[{e} // 16, {e} % 16] = {e} - 100"));
        self.line("loom.sync_threads()");
        let n = *self.random.pick(&[16, 8]);
        let (b, c) = if n == 8 { (", n=8", ", n=8") } else { ("", "") };
        self.line("if loom.warp_id() == 0:");
        let product = self.name("v");
        let layout = *self.random.pick(&["", ", layout=\"col\""]);
        self.line(&format!(
            "    {product} = loom.mma(loom.mma_load_a({tile}, 0, 0{layout}), loom.mma_load_b({tile}, 0, 0{b}), loom.mma_load_c({sums}, 0, 0{c}))"
        ));
        self.line(&format!("    loom.mma_store({sums}, 0, 0, {product})"));
        self.line("loom.sync_threads()");
        let index = self.live_index();
        self.read_shared(&format!("{sums}[({index}) % 16, t % 16]"), Scalar::I32.into());
        self.line("loom.sync_threads()");
    }
}
