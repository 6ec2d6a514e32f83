//! Random kernels with barriers, warp operations and threads that leave early: what they compute when they are split at
//! barriers is what they compute as written.

use crate::split::launch_split;
use polyloom_frontend::{FileEnvironment, FrontendOptions as Defaults, SourceUnit, compile_kernel};
use polyloom_ir::LaunchConfig;
use polyloom_ir::generate::Random;
use polyloom_ir::interp::{BufferMemory, InterpArg, InterpError, Interpreter, PrintingHost};
use polyloom_ir::{Scalar, SourceFile};
use polyloom_passes::transform::blocks::split_blocks;
use polyloom_passes::{PipelineOptions, prepared};
use std::fmt::Write;

/// Enough for any of these kernels.
const MAX_STEPS: u64 = 3_000_000;

/// Makes a kernel from a seed and compares. Gives whether the compiler took it.
///
/// # Panics
///
/// If it computes something else when it is split.
pub fn barriers(seed: u64) -> bool {
    let mut writer = BarrierWriter { random: Random::new(seed), text: String::new(), depth: 1, n_loops: 0 };
    let block = writer.random.pick(&["32", "64", "40", "7", "(8, 6)", "(5, 4, 3)"]);
    writer.kernel(block);
    let text = writer.text;
    let file = SourceFile::new("barriers.py", text.as_str(), 1);
    let Ok(unit) = SourceUnit::parse(file) else { panic!("seed {seed}: not Python\n{text}") };
    let Some(index) = unit.kernels().next() else { return false };
    let Ok(compiled) = compile_kernel(&FileEnvironment::new(&unit).function(index), &Defaults::default()) else {
        return false;
    };
    let (module, kernel) = (&compiled.module, compiled.kernel);
    let threads = module.functions[kernel].metadata.workgroup_size.unwrap_or([1; 3]);
    let size = u64::from(threads.iter().product::<u32>());
    let n_threads = 2 * size - writer.random.below(size as usize) as u64;
    let grid = LaunchConfig::of_threads(n_threads, threads, 0);
    let n = writer.random.below(5) as u64;
    let memory = || {
        let mut memory = BufferMemory::default();
        let elements: Vec<u64> = (0..n_threads).map(|i| i * 7 % 13).collect();
        let array = memory.add_array(Scalar::I32, &[n_threads as usize], &elements);
        let counts = memory.add_array(Scalar::I32, &[4], &[0; 4]);
        (memory, [array, counts, InterpArg::Scalar(n)])
    };
    let (mut expected, arguments) = memory();
    let mut printed = PrintingHost::default();
    let Ok(interpreter) = Interpreter::new(module, kernel) else { return false };
    let interpreter = interpreter.with_max_steps(MAX_STEPS);
    let blocks = 0..grid.n_blocks();
    match interpreter.launch_grid(&[n_threads], &grid, &arguments, &mut expected, &mut printed, blocks) {
        Err(InterpError::StepLimit { .. }) => return false,
        done => done.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}\n{module}")),
    }
    for checked in [false, true] {
        let Ok((mut copy, id)) = prepared(module, kernel, &PipelineOptions { checked, ..Default::default() }) else {
            return false;
        };
        let whole = copy.to_string();
        let Some(plan) = split_blocks(&mut copy, id) else {
            panic!("seed {seed}: it cannot be split\n{text}\n{whole}");
        };
        let (mut found, arguments) = memory();
        let mut also_printed = PrintingHost::default();
        let (split, over) = ((&copy, id, &plan), (&[n_threads][..], grid));
        launch_split(split, over, &arguments, &mut found, &mut also_printed, u64::MAX)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}\n{whole}\n{copy}"));
        for (name, array) in ["a", "counts"].into_iter().zip(arguments) {
            let (wanted, got) = (expected.elements(Scalar::I32, array), found.elements(Scalar::I32, array));
            assert_eq!(wanted, got, "seed {seed}: {name} in blocks of {block}, n = {n}\n{text}\n{whole}\n{copy}");
        }
        assert_eq!(sorted(&printed), sorted(&also_printed), "seed {seed}\n{text}\n{whole}\n{copy}");
    }
    true
}

/// The lines printed. Between two barriers it is open which thread prints first.
fn sorted(printed: &PrintingHost) -> Vec<&str> {
    let mut lines: Vec<&str> = printed.0.lines().collect();
    lines.sort_unstable();
    lines
}

/// Describes what a statement may be here: which threads reach it together.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum StatementScope {
    Nobody,
    Warp,
    Block,
}

struct BarrierWriter {
    random: Random,
    text: String,
    depth: usize,
    n_loops: usize,
}

impl BarrierWriter {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}{text}", "    ".repeat(self.depth));
    }

    fn kernel(&mut self, block: &str) {
        let _ = writeln!(
            self.text,
            "import polyloom as loom\n\n\n@loom.kernel(block_dim={block})\n\
             def k(a: loom.array(dtype=int), counts: loom.array(dtype=int), n: int):"
        );
        for line in [
            "tile = loom.shared_array(shape=64, dtype=int)",
            "sums = loom.shared_array(shape=4, dtype=int)",
            "i = loom.tid()",
            "t = loom.warp_id() * 32 + loom.lane_id()",
            "tx = loom.thread_idx(0)",
            "w = loom.warp_id()",
            "lane = loom.lane_id()",
            "u0 = int(n)",
            "u1 = int(loom.block_idx())",
            "x0 = int(a[i])",
            "x1 = int(t * 3)",
            "x2 = int(i ^ 5)",
        ] {
            self.line(line);
        }
        self.statements(StatementScope::Block, 3, false);
        if self.random.one_in(2) {
            let cond = self.cond();
            self.line(&format!("if {cond}:"));
            self.line("    a[i] = x1");
            self.line("    return");
            self.statements(StatementScope::Nobody, 1, false);
        }
        self.line("a[i] = x0 + x1 * 3 + x2 * 5 + u0 * 7");
    }

    /// Statements, of which the last may leave the loop around them.
    fn statements(&mut self, together: StatementScope, budget: usize, in_loop: bool) {
        let n = 1 + self.random.below(4);
        for _ in 0..n {
            self.statement(together, budget, in_loop);
        }
        if in_loop && self.random.one_in(4) {
            let cond = self.cond();
            self.line(&format!("if {cond}:"));
            self.line("    continue");
            self.statement(StatementScope::Nobody, 0, false);
        }
    }

    fn statement(&mut self, together: StatementScope, budget: usize, in_loop: bool) {
        let x = self.variable();
        let value = self.value();
        match self.random.below(if budget > 0 { 13 } else { 9 }) {
            0 => self.line(&format!("{x} = {value}")),
            1 if together == StatementScope::Block => {
                let value = self.random.pick(&["u0 + 1", "u1 - u0", "u0 & 3", "n * 2 - u1"]);
                let u = self.random.pick(&["u0", "u1"]);
                self.line(&format!("{u} = {value}"));
            }
            1 => self.line(&format!("tile[t] = {value}")),
            2 if together == StatementScope::Block && self.random.one_in(2) => {
                let by = self.random.pick(&["1", "5", "u0 + 3", "x0 & 31"]);
                self.line(&format!("tile[t] = {value}"));
                self.line("loom.sync_threads()");
                self.line(&format!("{x} = tile[(t + ({by})) & 63]"));
                self.line("loom.sync_threads()");
            }
            4 if together == StatementScope::Block => {
                let cond = self.cond();
                let vote = self.random.pick(&[
                    "x2 = loom.sync_threads_count(COND)",
                    "u0 = loom.sync_threads_count(COND)",
                    "x0 += int(loom.sync_threads_or(COND))",
                    "u1 = int(loom.sync_threads_and(COND))",
                ]);
                self.line(&vote.replace("COND", &cond));
            }
            // The result of an update is not used, because the order of the threads' updates is open.
            2 => self.line(&format!("loom.atomic_add(sums, {}, {value})", self.n_loops % 4)),
            3 if together == StatementScope::Block => {
                self.line("loom.sync_threads()");
                self.line(&format!("{x} += sums[{} & 3]", self.n_loops));
                self.line("loom.sync_threads()");
            }
            3 | 4 => self.line(&format!("{x} ^= {value}")),
            5..=7 if together >= StatementScope::Warp => {
                let cond = self.cond();
                let by = self.random.pick(&["1", "16", "u0 & 7", "lane & 3", "x1"]);
                let call = self.random.pick(&[
                    "loom.shuffle(VALUE, BY)",
                    "loom.shuffle(VALUE, BY, width=8)",
                    "loom.shuffle_up(VALUE, BY)",
                    "loom.shuffle_down(VALUE, BY)",
                    "loom.shuffle_xor(VALUE, BY, width=16)",
                    "loom.warp_reduce_add(VALUE)",
                    "loom.warp_reduce_max(VALUE)",
                    "loom.int32(loom.ballot(COND))",
                    "loom.int32(loom.match_any((VALUE) & 3))",
                    "loom.int32(loom.match_all((VALUE) & 1))",
                    "int(loom.warp_any(COND))",
                ]);
                let call = call.replace("VALUE", &value).replace("BY", by).replace("COND", &cond);
                self.line(&format!("{x} = {call}"));
            }
            5 => {
                // Each element has an operation of its own, because the order would count otherwise.
                let update = self.random.pick(&["add(counts, 0", "max(counts, 1", "xor(counts, 2"]);
                self.line(&format!("loom.atomic_{update}, {value})"));
            }
            6 => self.line(&format!("if tx < {}:\n{}    {x} = {value}", self.n_loops + 3, "    ".repeat(self.depth))),
            7 => self.line(&format!("print({x})")),
            8 if in_loop => {
                let cond = match together {
                    StatementScope::Block => "u0 > 2".to_owned(),
                    StatementScope::Warp => "w == 1".to_owned(),
                    StatementScope::Nobody => self.cond(),
                };
                let out = self.random.pick(&["break", "continue"]);
                self.line(&format!("if {cond}:"));
                self.line(&format!("    {out}"));
            }
            8 => self.line(&format!("{x} -= {value}")),
            9 | 10 => {
                let (cond, inside) = self.branch(together);
                self.line(&format!("if {cond}:"));
                self.inside(inside, budget, false);
                if self.random.one_in(2) {
                    self.line("else:");
                    self.inside(inside, budget, false);
                }
            }
            _ => {
                let (range, inside) = match self.random.below(4) {
                    0 => ("u0 & 3", together),
                    1 => ("t, t + 3", together),
                    2 => ("w + 1", together.min_warp()),
                    _ => ("x0 & 3", StatementScope::Nobody),
                };
                self.n_loops += 1;
                let counter = format!("k{}", self.n_loops);
                self.line(&format!("for {counter} in range({range}):"));
                self.line(&format!("    {x} += {counter}"));
                self.inside(inside, budget, true);
            }
        }
    }

    fn inside(&mut self, together: StatementScope, budget: usize, in_loop: bool) {
        self.depth += 1;
        self.statements(together, budget - 1, in_loop);
        self.depth -= 1;
    }

    /// A condition, and which threads are together where it holds.
    fn branch(&mut self, together: StatementScope) -> (String, StatementScope) {
        match self.random.below(3) {
            0 => (self.random.pick(&["u0 > 1", "n != u1", "u0 == u1"]).to_owned(), together),
            1 => (self.random.pick(&["w == 0", "w > u0"]).to_owned(), together.min_warp()),
            _ => (self.cond(), StatementScope::Nobody),
        }
    }

    fn variable(&mut self) -> &'static str {
        self.random.pick(&["x0", "x1", "x2"])
    }

    fn value(&mut self) -> String {
        let (a, b) = (self.variable(), self.random.pick(&["x0", "x1", "x2", "t", "u0", "i", "3", "w", "tx"]));
        let op = self.random.pick(&["+", "-", "*", "^", "&"]);
        format!("{a} {op} {b}")
    }

    fn cond(&mut self) -> String {
        let value = self.value();
        let op = self.random.pick(&["<", ">", "==", ">="]);
        format!("({value}) & 15 {op} {}", self.random.below(16))
    }
}

impl StatementScope {
    fn min_warp(self) -> StatementScope {
        if self == StatementScope::Block { StatementScope::Warp } else { self }
    }
}
