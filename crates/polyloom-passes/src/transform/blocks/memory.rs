//! Parameters that the launch makes: the shape of the launch, and memory of the block.

use super::thread_loops::SpillSlot;
use super::{BlockSplitter, EmitScope, ThreadContext, ThreadLevel};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::block_plan::BlockParam;
use polyloom_ir::{Op, Scalar, SharedArray, Type, Value};
use smallvec::{SmallVec, smallvec};

impl BlockSplitter<'_> {
    /// A parameter that is no memory.
    pub(super) fn scalar_param(&mut self, param: BlockParam) -> Value {
        if let Some((_, known)) = self.scalars.iter().find(|(known, _)| *known == param) {
            return *known;
        }
        let name = match param {
            BlockParam::Threads => "block.threads".to_owned(),
            BlockParam::BlockExtent(axis) => format!("block.extent{axis}"),
            BlockParam::GridExtent(axis) => format!("grid.extent{axis}"),
            BlockParam::LaunchExtent(axis) => format!("launch.extent{axis}"),
            BlockParam::InnerThreads(axis) => format!("launch.inner{axis}"),
            _ => "block.shared_bytes".to_owned(),
        };
        let value = self.param(&name, Type::I32, param.clone());
        self.scalars.push((param, value));
        value
    }

    fn param(&mut self, name: &str, ty: Type, param: BlockParam) -> Value {
        self.plan.push(param);
        self.emit.func.add_param(name, ty)
    }

    /// An array with these extents.
    pub(super) fn fixed(&mut self, name: &str, elem: Scalar, extents: &[u32]) -> Value {
        let ty = Type::array(elem, extents.len() as u8);
        self.param(name, ty, BlockParam::Fixed(extents.into()))
    }

    /// An array with an element for each lane of a warp.
    pub(super) fn per_lane(&mut self, name: &str, elem: Scalar) -> Value {
        self.fixed(name, elem, &[WARP_SIZE])
    }

    /// An array with an element for each thread.
    pub(super) fn per_thread(&mut self, name: &str, elem: Scalar) -> Value {
        self.param(name, Type::array(elem, 1), BlockParam::PerThread)
    }

    /// A cell for a value.
    pub(super) fn cell(&mut self, value: Value) -> SpillSlot {
        self.home(value, |this, name, elem| SpillSlot::Cell(this.fixed(name, elem, &[1])))
    }

    /// Memory for a value that differs between threads: of the warp alone, or of the block.
    pub(super) fn varying_home(&mut self, value: Value, of_block: bool) -> SpillSlot {
        self.home(value, |this, name, elem| match of_block {
            true => SpillSlot::PerThread(this.per_thread(name, elem)),
            false => SpillSlot::PerLane(this.per_lane(name, elem)),
        })
    }

    /// The memory that a value of the kernel is kept in, made on first demand.
    fn home(&mut self, value: Value, make: impl FnOnce(&mut Self, &str, Scalar) -> SpillSlot) -> SpillSlot {
        if let Some(home) = self.homes[value] {
            return home;
        }
        let elem = self.facts.scalar(value).unwrap_or(Scalar::I32);
        let name = match &self.func.value_names[value] {
            Some(name) => format!("kept.{name}"),
            None => "kept".to_owned(),
        };
        let home = make(self, &name, elem);
        self.homes[value] = Some(home);
        home
    }

    /// The array of a home, and where in it a thread's element is.
    fn element(&mut self, home: SpillSlot, at: &ThreadContext) -> (Value, Value) {
        match home {
            SpillSlot::Cell(array) => (array, self.emit.int(0)),
            SpillSlot::PerThread(array) => (array, at.thread),
            SpillSlot::PerLane(array) => match at.lane {
                Some((lane, _)) => (array, lane),
                None => (array, self.emit.int(0)),
            },
        }
    }

    pub(super) fn load_home(&mut self, home: SpillSlot, at: &ThreadContext) -> Value {
        let (array, index) = self.element(home, at);
        self.emit.load(array, &[index])
    }

    pub(super) fn store_home(&mut self, home: SpillSlot, at: &ThreadContext, value: Value) {
        let (array, index) = self.element(home, at);
        self.emit.store(array, &[index], value);
    }

    /// The array that a static shared array becomes.
    pub(super) fn shared_array(&mut self, value: Value, array: &SharedArray) -> Value {
        if let Some((_, known)) = self.shared.iter().find(|(id, _)| *id == array.id) {
            return *known;
        }
        let (elem, _) = self.func.ty(value).as_array().unwrap_or((Scalar::U8, 0));
        let name = match &self.func.value_names[value] {
            Some(name) => format!("shared.{name}"),
            None => "shared".to_owned(),
        };
        let made = self.fixed(&name, elem, &array.extents);
        self.shared.push((array.id, made));
        made
    }

    /// Dynamic shared memory as an array of elements, which begin at each byte or at multiples of their size.
    pub(super) fn dynamic_array(&mut self, elem: Scalar, by_byte: bool) -> Value {
        let known = self.dynamic.iter().find(|(known, bytes, _)| (*known, *bytes) == (elem, by_byte));
        if let Some((.., known)) = known {
            return *known;
        }
        let param = BlockParam::Dynamic { by_byte, alone: false };
        let array = self.param("shared.dynamic", Type::array(elem, 1), param);
        self.dynamic.push((elem, by_byte, array));
        array
    }

    /// Memory of one element that the launch looks at when a check fails.
    pub(super) fn failed_thread(&mut self) -> Value {
        if let Some(known) = self.failed_thread {
            return known;
        }
        let array = self.param(
            if self.text.is_some() { "running" } else { "block.failed" },
            Type::array(Scalar::I32, 1),
            BlockParam::FailedThread,
        );
        *self.failed_thread.insert(array)
    }

    /// The counter that `clock` reads.
    pub(super) fn clock(&mut self) -> Value {
        if let Some(known) = self.clock {
            return known;
        }
        let array = self.fixed(if self.text.is_some() { "ticks" } else { "block.clock" }, Scalar::U64, &[1]);
        *self.clock.insert(array)
    }

    /// Returns where threads are on their way to.
    pub(super) fn away_state(&mut self) -> Value {
        if let Some(known) = self.away_state {
            return known;
        }
        let array = self.per_thread(if self.text.is_some() { "away" } else { "block.away" }, Scalar::I32);
        *self.away_state.insert(array)
    }

    /// Puts what the block's memory begins with where the code for the block does: zeros in shared memory, and all
    /// threads there.
    pub(super) fn clear_memory(&mut self, at: usize) {
        let body = self.emit.func.body;
        self.emit.region = body;
        self.emit.span = self.func.span;
        if self.text.is_some() {
            // Its memory is declared where the code begins.
            return self.mark_alone();
        }
        let rest = self.emit.func.regions[body].insts.split_off(at);
        if let Some(state) = self.away_state {
            let (zero, n_threads) = (self.emit.int(0), self.n_threads);
            self.fill(state, zero, &[n_threads]);
        }
        for (_, array) in self.shared.clone() {
            let BlockParam::Fixed(extents) = self.param_of(array).clone() else { continue };
            let elem = self.emit.elem(array);
            let zero = self.emit.constant(elem, 0);
            let extents: SmallVec<[Value; 4]> = extents.iter().map(|&extent| self.emit.int(extent)).collect();
            self.fill(array, zero, &extents);
        }
        if !self.dynamic.is_empty() {
            let bytes = self.scalar_param(BlockParam::SharedBytes);
            let (elem, by_byte, array) = match self.dynamic[..] {
                [only] if !only.1 => only,
                _ => (Scalar::U64, false, self.dynamic_array(Scalar::U64, false)),
            };
            debug_assert!(!by_byte);
            let zero = self.emit.constant(elem, 0);
            let more = self.emit.int(elem.bytes() - 1);
            let sum = self.emit.op(Op::Add, &[bytes, more]);
            let shift = self.emit.int(elem.bytes().trailing_zeros());
            let n = self.emit.op(Op::Rshift, &[sum, shift]);
            self.fill(array, zero, &[n]);
        }
        self.mark_alone();
        self.emit.func.regions[body].insts.extend(rest);
    }

    /// Notes in the plan that there is one view of dynamic shared memory, if there is.
    fn mark_alone(&mut self) {
        if let [(.., only)] = self.dynamic[..]
            && let Some(index) = self.emit.func.param_index(only)
            && let BlockParam::Dynamic { alone, .. } = &mut self.plan[index - self.func.params().len()]
        {
            *alone = true;
        }
    }

    fn param_of(&self, array: Value) -> &BlockParam {
        let index = self.emit.func.param_index(array).unwrap_or(self.func.params().len());
        &self.plan[index - self.func.params().len()]
    }

    /// Stores a value to all elements of an array with these extents.
    pub(super) fn fill(&mut self, array: Value, value: Value, extents: &[Value]) {
        let zero = self.emit.int(0);
        let mut loops: SmallVec<[_; 4]> = smallvec![];
        let mut indices: SmallVec<[Value; 4]> = smallvec![];
        for &extent in extents {
            let this = self.emit.begin_loop(zero, extent, &[]);
            indices.push(this.params[0]);
            loops.push(this);
        }
        self.emit.store(array, &indices, value);
        while let Some(this) = loops.pop() {
            self.emit.end_loop(this, &[]);
        }
    }

    /// The first of the threads that code runs for.
    pub(super) fn first_of(&mut self, around: &EmitScope) -> ThreadContext {
        let lane = around.warp.map(|(warp, _)| (self.emit.int(0), warp));
        ThreadContext {
            thread: around.base,
            lane,
            coordinates: None,
            values: Default::default(),
            targets: Default::default(),
            exit: None,
            this: None,
            keeps: false,
            is_last: false,
        }
    }

    /// Makes a value of the kernel one outside of the loops over threads.
    pub(super) fn set_outer(&mut self, level: ThreadLevel, old: Value, new: Value) {
        self.outer[old] = new.into();
        if level == ThreadLevel::Warp {
            self.of_warp.push(old);
        }
        self.name(old, new);
    }
}
