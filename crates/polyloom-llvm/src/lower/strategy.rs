//! Chooses, before a kernel is lowered, how many threads run at a time, and which arrays are copied.
//!
//! Design: `docs/design/cpu-strategies.md`.

use super::calls::used_values;
use super::entry::loop_alignment;
use super::prefetch::read_in_loops;
use super::private_copies::find_private_params;
use super::row_tiles::tiled_accesses;
use super::width::{GroupWidth, WidthRequest};
use crate::target::HostProcessor;
use polyloom_codegen::CodeVariant;
use polyloom_ir::analysis::uniformity::{ThreadScope, Uniformity, UniformityContext};
use polyloom_ir::{FuncId, Function, Inst, MAX_DIMS, Module, Op, OptLevel, SourceMap};
use std::fmt::Write;

/// The choices for one variant of a kernel.
pub(crate) struct Strategy {
    pub(crate) uniformity: Uniformity,
    /// Rank of the launch.
    pub(crate) rank: u8,
    /// The width of groups of the launch's threads.
    pub(crate) width: GroupWidth,
    /// The width of groups of a block's threads, loop by loop.
    pub(crate) parallel: Vec<(Inst, GroupWidth)>,
    /// The array parameters that ranges of threads may have copies of, with the ops that bring a copy to its array.
    pub(crate) copied: Vec<(usize, Op)>,
}

impl Strategy {
    /// Chooses what the variant leaves open.
    pub(crate) fn of(module: &Module, kernel: FuncId, variant: &CodeVariant, processor: &HostProcessor) -> Strategy {
        let func = &module.functions[kernel];
        let disjoint = |index: usize| variant.facts.array(index).disjoint;
        let rank = variant.launch_rank.clamp(1, MAX_DIMS as u8);
        let threads = if func.metadata.by_block { ThreadScope::Iteration } else { ThreadScope::Row };
        let context = UniformityContext { disjoint: &disjoint, threads, ..UniformityContext::new(module, rank) };
        let uniformity = Uniformity::of(func, &context);
        let request = WidthRequest { module, func, uniformity: &uniformity, variant, processor };
        // Otherwise blocks that run as lanes would share the memory that the launch gives for one.
        let given = variant.lanes.filter(|_| !func.metadata.by_block);
        let given = given.map(|lanes| GroupWidth::fixed(lanes.clamp(1, 64).next_power_of_two()));
        let width = given.unwrap_or_else(|| request.of_launch());
        let parallel = request.of_parallel_loops();
        let copied = find_private_params(func, &used_values(func), variant);
        Strategy { uniformity, rank, width, parallel, copied }
    }

    /// The lanes to measure: those chosen and those that the estimate cannot tell from them; none if it can.
    pub(crate) fn candidates(&self) -> Vec<u32> {
        self.width.rival.map(|rival| vec![self.width.lanes, rival]).unwrap_or_default()
    }

    /// The arrays that threads go along rows of, in words.
    fn tiled_rows(&self, module: &Module, func: &Function, variant: &CodeVariant) -> String {
        let tiled = tiled_accesses(module, func, &self.uniformity, &variant.facts);
        let mut params: Vec<usize> =
            tiled.keys().filter_map(|&inst| func.param_index(func.insts[inst].operands[0])).collect();
        params.sort_unstable();
        params.dedup();
        let names: Vec<String> = params.iter().map(|&param| format!("`{}`", name_of(func, param))).collect();
        match &names[..] {
            [] => String::new(),
            names => format!(
                "each thread goes along rows of {}: tiles of them are transposed in registers\n",
                names.join(", ")
            ),
        }
    }

    /// The choices in words.
    pub(crate) fn explain(
        &self,
        module: &Module,
        kernel: FuncId,
        variant: &CodeVariant,
        processor: &HostProcessor,
        sources: Option<&SourceMap>,
    ) -> String {
        let func = &module.functions[kernel];
        let mut text = format!("kernel `{}`, vector registers of {} bytes\n", func.name, processor.vector_bytes);
        if func.metadata.by_block {
            text.push_str("blocks run one by one, the threads of a block between two barriers as loops:\n");
        } else {
            let _ = writeln!(text, "threads run {}", in_words(self.width));
            if self.width.rival.is_some() {
                text.push_str("the two are so close that launches measure both where the kernel stays hot\n");
            }
        }
        for &(inst, width) in &self.parallel {
            let data = &func.insts[inst];
            // The loop has no place of its own in the source: what it does first that has one says where it is.
            let mut span = None;
            func.walk(data.regions[0], &mut |_, inner| {
                span = span.or((inner.span != polyloom_ir::Span::NONE).then_some(inner.span));
            });
            let line = span.and_then(|span| sources?.locate(span)).map(|(_, at)| format!("line {}: ", at.line));
            let _ = writeln!(text, "  {}threads {}", line.unwrap_or_default(), in_words(width));
        }
        if self.width.lanes > 1 || self.parallel.iter().any(|(_, width)| width.lanes > 1) {
            text.push_str(&self.tiled_rows(module, func, variant));
        }
        if let Some(level) = func.opt_level() {
            let _ = writeln!(text, "optimisation level {}", level.name());
        }
        if func.opt_level() == Some(OptLevel::Olatency) {
            text.push_str(&describe_latency(func, processor));
        }
        for &(param, op) in &self.copied {
            let name = name_of(func, param);
            let _ = writeln!(
                text,
                "`{name}` is updated by `{}` alone: ranges of many threads update copies of it if it is small",
                op.name()
            );
        }
        text
    }
}

/// Describes what the level for the shortest delay brings.
fn describe_latency(func: &Function, processor: &HostProcessor) -> String {
    let align = loop_alignment(processor, func.opt_level()).unwrap_or_default();
    let mut text = format!(
        "  every function inlined; hot code, with loops at multiples of {align} bytes; no stack protector\n  \
         instructions of {} in vectors of {} bytes; numbers that are denormal are kept, as the processor has them\n",
        processor.cpu, processor.vector_bytes
    );
    let is_asked = func.constraints.critical_path && func.metadata.hint("prefetch") != Ok(Some(0));
    let arrays: Vec<String> =
        read_in_loops(func).into_iter().map(|param| format!("`{}`", name_of(func, param))).collect();
    if is_asked && !arrays.is_empty() {
        let _ = writeln!(text, "  the first lines of {} are asked for on entry (prefetch)", arrays.join(", "));
    }
    text
}

fn name_of(func: &Function, param: usize) -> &str {
    func.param_names.get(param).map_or("an array", |name| name)
}

fn in_words(width: GroupWidth) -> String {
    let way = match width.lanes {
        1 => "one by one".to_owned(),
        lanes => format!("in groups of {lanes}"),
    };
    match width.cost {
        Some(cost) => {
            format!("{way}: about {:.1} cycles each in groups, {:.1} one by one", cost.in_group, cost.alone)
        }
        None => way,
    }
}
