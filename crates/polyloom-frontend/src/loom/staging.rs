//! `@shared(A)`: which tiles of an array the iterations of a block read, so that the block may stage them in shared memory.
//!
//! Subscripts are polynomials, as for the proof that iterations do not meet. Each must be a sum of indices with constant
//! coefficients and of terms that all iterations share. What varies in it within a block is then known beforehand: the
//! block's part of the parallel indices, loops of few iterations, and a segment of one longer loop, which runs segment by
//! segment. Accesses that differ by constants alone have one tile. Threads copy a tile together, between barriers, and read
//! it in place of the array; what they compute and its order stay the same.

use super::affine::Polynomial;
use super::parallel::{ElementAccess, IndexRange, LoopSurroundings, accesses_of};
use super::syntax::{Block, Expr, ExprKind, ForLoop, Stmt, StmtKind, blocks_of, expressions_of, walk_block, walk_expr};
use ruff_text_size::{TextRange, TextSize};
use std::collections::BTreeMap;

/// Loops with constant bounds and more iterations run segment by segment.
const MAX_WHOLE: i64 = 32;

/// Bytes of all tiles of a loop, which every GPU has.
const MAX_TILE_BYTES: u64 = 48 * 1024;

/// Threads of a block, which no GPU exceeds.
const MAX_THREADS: u32 = 1024;

/// Says why an array cannot be staged, with the place that shows it.
pub(super) struct StagingRefusal {
    pub(super) range: TextRange,
    pub(super) message: String,
    pub(super) help: String,
}

/// An argument of `@shared`.
#[derive(Clone, Copy)]
pub(super) struct StagedArray<'a> {
    pub(super) name: &'a str,
    pub(super) range: TextRange,
    /// Its axes, if it is known how many.
    pub(super) n_axes: Option<usize>,
    /// Bytes of an element; those of a number of 4 bytes if the text does not say its type.
    pub(super) element_bytes: u64,
    /// True if the annotation is the loop's own, which then must read it.
    pub(super) is_required: bool,
}

/// The tiles of a parallel loop.
pub(super) struct StagingPlan {
    /// Iterations of a block along each index.
    pub(super) sizes: Vec<u32>,
    pub(super) tiles: Vec<ArrayTile>,
    /// Iterations of a segment.
    pub(super) segment: u32,
}

/// A tile of an array.
pub(super) struct ArrayTile {
    pub(super) array: String,
    /// The argument of the annotation.
    pub(super) range: TextRange,
    element_bytes: u64,
    /// The statement of the loop's body that is the loop of whose segments each has its tile; `None` if there is one tile.
    pub(super) segmented: Option<usize>,
    pub(super) axes: Vec<TileAxis>,
    /// Where the accesses begin that read it.
    pub(super) accesses: Vec<TextSize>,
}

/// An axis of a tile.
pub(super) struct TileAxis {
    pub(super) extent: u32,
    /// The subscript at which the tile begins is the sum of these, and of `offset`.
    pub(super) terms: Vec<(TileTerm, i64)>,
    pub(super) offset: i64,
}

/// A term of a subscript that is the same for all accesses to a tile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TileTerm {
    /// The first value in the block of a parallel index, by its number.
    Index(usize),
    /// The first value in the segment.
    Segment,
    /// A product of names that all iterations share.
    Names(Vec<String>),
}

/// A subscript: its terms, and the least and the greatest of what constants and whole loops add.
struct SubscriptParts {
    terms: BTreeMap<TileTerm, i64>,
    least: i64,
    greatest: i64,
}

/// Accesses that have one tile.
struct AccessGroup {
    segmented: Option<usize>,
    /// The subscript along each axis, which reaches as far as that of any access.
    parts: Vec<SubscriptParts>,
    accesses: Vec<TextSize>,
}

/// Plans the tiles of a loop whose blocks have these sizes; `None` if it reads none of the arrays.
///
/// # Errors
///
/// Returns what keeps an array from being staged.
pub(super) fn plan(
    parallel: &ForLoop,
    arrays: &[StagedArray<'_>],
    sizes: Vec<u32>,
    around: &LoopSurroundings<'_>,
) -> Result<Option<StagingPlan>, StagingRefusal> {
    let (indices, accesses) = accesses_of(parallel, around);
    let segment = sizes.iter().copied().max().unwrap_or(16).clamp(16, 64);
    let mut made = StagingPlan { sizes, tiles: Vec::new(), segment };
    for array in arrays {
        let reads: Vec<&ElementAccess> = accesses.iter().filter(|access| access.array == array.name).collect();
        if reads.is_empty() && !array.is_required {
            continue;
        }
        TilePlanner { parallel, indices: &indices, array: *array, plan: &mut made }.plan(&reads)?;
    }
    if made.tiles.is_empty() {
        return Ok(None);
    }
    check_size(&made)?;
    check_exits(parallel, &made, &accesses)?;
    Ok(Some(made))
}

fn refusal(range: TextRange, message: impl Into<String>, help: impl Into<String>) -> StagingRefusal {
    StagingRefusal { range, message: message.into(), help: help.into() }
}

fn check_size(plan: &StagingPlan) -> Result<(), StagingRefusal> {
    // Products saturate, because extents may be any.
    let n_bytes = |tile: &ArrayTile| {
        tile.axes.iter().fold(tile.element_bytes, |n, axis| n.saturating_mul(u64::from(axis.extent)))
    };
    let total = plan.tiles.iter().fold(0u64, |total, tile| total.saturating_add(n_bytes(tile)));
    if total > MAX_TILE_BYTES
        && let Some(tile) = plan.tiles.iter().max_by_key(|tile| n_bytes(tile))
    {
        let extents: Vec<String> = tile.axes.iter().map(|axis| axis.extent.to_string()).collect();
        let (array, extents) = (&tile.array, extents.join(" × "));
        let n_elements = plan.tiles.iter().fold(0u64, |n, tile| n.saturating_add(n_bytes(tile) / tile.element_bytes));
        let message = format!(
            "the tiles of a block have {n_elements} elements, of which {extents} are of `{array}`: {total} bytes"
        );
        let help = format!("a block has room for {MAX_TILE_BYTES} bytes: write smaller extents in `@workgroup`");
        return Err(refusal(tile.range, message, help));
    }
    let n_threads = plan.sizes.iter().fold(1u32, |n, size| n.saturating_mul(*size));
    if n_threads > MAX_THREADS {
        let range = plan.tiles.first().map_or_else(TextRange::default, |tile| tile.range);
        let message = format!("a block of {n_threads} iterations, with arrays in shared memory");
        return Err(refusal(range, message, format!("write `@workgroup` of at most {MAX_THREADS} iterations")));
    }
    Ok(())
}

/// Reports what would keep threads from a barrier that the others wait at, and reads that barriers would move.
fn check_exits(parallel: &ForLoop, plan: &StagingPlan, accesses: &[ElementAccess]) -> Result<(), StagingRefusal> {
    let statements = &parallel.body.statements;
    let segmented = |at: usize| plan.tiles.iter().any(|tile| tile.segmented == Some(at));
    let Some(last) = (0..statements.len()).rev().find(|at| segmented(*at)) else { return Ok(()) };
    let waiting = statements.iter().take(last + 1);
    if let Some(range) =
        waiting.clone().find_map(|statement| exit_of(statement, &|kind| matches!(kind, StmtKind::Continue)))
    {
        let help = "write an `if` around what the iteration leaves out";
        return Err(refusal(range, "`continue` ends an iteration whose block waits for it to stage tiles", help));
    }
    for (at, statement) in statements.iter().enumerate().take(last + 1) {
        if let (StmtKind::For(inner), true) = (&statement.kind, segmented(at)) {
            let is_break = |kind: &StmtKind| matches!(kind, StmtKind::Break);
            if let Some(range) = inner.body.statements.iter().find_map(|inner| exit_of(inner, &is_break)) {
                let help = "write a condition around the loop's statements, or leave the array out of `@shared`";
                return Err(refusal(range, "`break` leaves a loop in which the block stages tiles", help));
            }
        }
    }
    let end = statements[last].range.end();
    let read = accesses.iter().find(|access| {
        let is_written = || accesses.iter().any(|other| other.is_write && other.array == access.array);
        !access.is_write && access.range.end() <= end && is_written()
    });
    if let Some(read) = read {
        let message = format!("`{}` is read and written in a loop whose block stages tiles", read.array);
        let help = "keep the value in a `var`, and store it at the end of the loop";
        return Err(refusal(read.range, message, help));
    }
    Ok(())
}

/// A statement of a kind that is in no loop of this statement.
fn exit_of(statement: &Stmt, is_exit: &dyn Fn(&StmtKind) -> bool) -> Option<TextRange> {
    match &statement.kind {
        kind if is_exit(kind) => Some(statement.range),
        StmtKind::For(_) | StmtKind::While { .. } => None,
        _ => {
            let blocks = blocks_of(statement);
            blocks.into_iter().flat_map(|block| &block.statements).find_map(|inner| exit_of(inner, is_exit))
        }
    }
}

/// Plans the tiles of one array.
struct TilePlanner<'p, 'a> {
    parallel: &'a ForLoop,
    indices: &'p [IndexRange],
    array: StagedArray<'a>,
    plan: &'p mut StagingPlan,
}

impl<'a> TilePlanner<'_, 'a> {
    fn plan(&mut self, accesses: &[&ElementAccess]) -> Result<(), StagingRefusal> {
        let name = self.array.name;
        if let Some(write) = accesses.iter().find(|access| access.is_write) {
            let message = format!("`{name}` is written in this loop, and staged from before it");
            return Err(refusal(write.range, message, format!("leave `{name}` out of `@shared`")));
        }
        if let Some(range) = self.use_as_whole(&self.parallel.body) {
            let message = format!("a part of `{name}` is used as an array, and `@shared` stages elements");
            return Err(refusal(range, message, format!("index `{name}` by all its axes")));
        }
        let Some(first) = accesses.first() else {
            let message = format!("this loop reads no element of `{name}`");
            return Err(refusal(self.array.range, message, format!("leave `{name}` out of `@shared`")));
        };
        let n_axes = self.array.n_axes.unwrap_or(first.subscripts.len());
        let mut groups: Vec<AccessGroup> = Vec::new();
        for access in accesses {
            if access.subscripts.len() != n_axes {
                let message = format!("a part of `{name}` is used as an array, and `@shared` stages elements");
                return Err(refusal(access.range, message, format!("index `{name}` by all its axes")));
            }
            let long = self.long_loop(access)?;
            let parts = self.parts(access, long.as_ref().map(|(_, range)| range))?;
            let segmented = long.map(|(at, _)| at);
            let same = |known: &&mut AccessGroup| {
                known.segmented == segmented
                    && known.parts.iter().map(|part| &part.terms).eq(parts.iter().map(|part| &part.terms))
            };
            match groups.iter_mut().find(same) {
                Some(group) => {
                    for (known, part) in group.parts.iter_mut().zip(parts) {
                        known.least = known.least.min(part.least);
                        known.greatest = known.greatest.max(part.greatest);
                    }
                    group.accesses.push(access.range.start());
                }
                None => groups.push(AccessGroup { segmented, parts, accesses: vec![access.range.start()] }),
            }
        }
        let n_groups = groups.len();
        for AccessGroup { segmented, parts, accesses } in groups {
            // An element that one thread reads once is not worth a copy beside those that many read.
            let is_own =
                segmented.is_none() && parts.iter().all(|part| part.least == part.greatest) && accesses.len() == 1;
            let n_chosen = parts.iter().flat_map(|part| part.terms.keys());
            let n_chosen = n_chosen.filter(|term| matches!(term, TileTerm::Index(_))).count();
            if is_own && n_chosen == self.indices.len() && n_groups > 1 {
                continue;
            }
            let axes = parts.into_iter().map(|part| self.axis(part)).collect();
            let (array, range, element_bytes) = (name.to_owned(), self.array.range, self.array.element_bytes);
            self.plan.tiles.push(ArrayTile { array, range, element_bytes, segmented, axes, accesses });
        }
        Ok(())
    }

    /// A place where the array is named and no element of it is meant.
    fn use_as_whole(&self, body: &'a Block) -> Option<TextRange> {
        let mut found = None;
        let mut elements: Vec<*const Expr> = Vec::new();
        walk_block(body, &mut |statement| {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| match &part.kind {
                    ExprKind::Index(of, _) => elements.push(&raw const **of),
                    ExprKind::Member(of, member) if member.name == "shape" => elements.push(&raw const **of),
                    ExprKind::Call { function, arguments, .. } if function.as_name() == Some("len") => {
                        elements.extend(arguments.iter().map(|argument| &raw const argument.value));
                    }
                    ExprKind::Name(name) if *name == self.array.name && !elements.contains(&(&raw const *part)) => {
                        found = found.or(Some(part.range));
                    }
                    _ => {}
                });
            }
            if let StmtKind::Declare { value: Some(value), .. } = &statement.kind
                && let ExprKind::Index(of, indices) = &value.kind
                && of.as_name() == Some(self.array.name)
                && self.array.n_axes.is_some_and(|n_axes| indices.len() < n_axes)
            {
                found = found.or(Some(value.range));
            }
        });
        found
    }

    /// The loop that runs segment by segment for this access: a statement of the body, and its index. None if loops of few
    /// iterations alone choose the element.
    fn long_loop(&self, access: &ElementAccess) -> Result<Option<(usize, IndexRange)>, StagingRefusal> {
        let mentions =
            |range: &IndexRange| access.subscripts.iter().flatten().any(|subscript| subscript.mentions(&range.name));
        let long: Vec<&IndexRange> =
            access.loops.iter().filter(|range| mentions(range) && whole_bounds(range).is_none()).collect();
        let name = self.array.name;
        let word = |range: &IndexRange| range.name.split('#').next().unwrap_or_default().to_owned();
        let range = match &long[..] {
            [] => return Ok(None),
            [only] => *only,
            [first, second, ..] => {
                let (first, second) = (word(first), word(second));
                let message = format!("a tile of `{name}` would have all values of `{first}` and of `{second}`");
                let help = format!(
                    "give one of the two loops constant bounds, at most {MAX_WHOLE} iterations, or leave `{name}` out of `@shared`"
                );
                return Err(refusal(access.range, message, help));
            }
        };
        let counter = word(range);
        let at = self.parallel.body.statements.iter().position(|statement| match &statement.kind {
            StmtKind::For(inner) => inner.indices.first().is_some_and(|index| index.name.range == range.place),
            _ => false,
        });
        let Some(at) = at else {
            let message = format!("the loop over `{counter}` is inside another statement of the parallel loop");
            let help = format!(
                "the block stages tiles between its iterations: move it out, or leave `{name}` out of `@shared`"
            );
            return Err(refusal(range.place, message, help));
        };
        let StmtKind::For(inner) = &self.parallel.body.statements[at].kind else { return Ok(None) };
        let index = &inner.indices[0];
        let is_fixed = |of: &Polynomial| !of.names().any(|name| name.contains('#'));
        let has_fixed_bounds = range.bounds.as_ref().is_some_and(|(first, last)| is_fixed(first) && is_fixed(last));
        if let Some(step) = &index.step {
            let help = format!("count by 1, or leave `{name}` out of `@shared`");
            return Err(refusal(step.range, format!("the loop over `{counter}` has a step"), help));
        }
        if !has_fixed_bounds {
            let message = format!("the bounds of `{counter}` differ between the iterations of a block");
            let help = format!(
                "bounds are integers of extents, parameters and `let`; write a condition in the loop, or leave `{name}` out of `@shared`"
            );
            return Err(refusal(index.start.range.cover(index.end.range), message, help));
        }
        Ok(Some((at, range.clone())))
    }

    fn parts(&self, access: &ElementAccess, long: Option<&IndexRange>) -> Result<Vec<SubscriptParts>, StagingRefusal> {
        let name = self.array.name;
        let parts = access.subscripts.iter().enumerate().map(|(axis, subscript)| {
            let unknown = |reason: String| {
                let help = format!(
                    "a block stages elements whose indices are sums of loop indices, extents and constants; leave `{name}` out of `@shared`"
                );
                refusal(access.range, reason, help)
            };
            let Some(subscript) = subscript else {
                return Err(unknown(format!("which elements of `{name}` a block reads along axis {axis} is data")));
            };
            let mut parts = SubscriptParts { terms: BTreeMap::new(), least: 0, greatest: 0 };
            for (names, coefficient) in subscript.terms() {
                let varies = names.iter().any(|name| name.contains('#'));
                let term = match names {
                    [] => {
                        parts.least = parts.least.saturating_add(coefficient);
                        parts.greatest = parts.greatest.saturating_add(coefficient);
                        continue;
                    }
                    [only] if varies => {
                        let index = self.indices.iter().position(|range| range.name == *only);
                        let whole = access.loops.iter().find(|range| range.name == *only).and_then(whole_bounds);
                        match (index, whole) {
                            (Some(index), _) => TileTerm::Index(index),
                            (None, _) if long.is_some_and(|range| range.name == *only) => TileTerm::Segment,
                            (None, Some((first, last))) => {
                                let ends = [first.saturating_mul(coefficient), last.saturating_mul(coefficient)];
                                parts.least = parts.least.saturating_add(ends[0].min(ends[1]));
                                parts.greatest = parts.greatest.saturating_add(ends[0].max(ends[1]));
                                continue;
                            }
                            (None, None) => {
                                return Err(unknown(format!("a tile of `{name}` has no bound along axis {axis}")));
                            }
                        }
                    }
                    _ if varies => {
                        let message = format!("how far apart the elements of `{name}` are along axis {axis} is no constant");
                        return Err(unknown(message));
                    }
                    names => {
                        let is_word = |name: &String| name.chars().all(|c| c == '_' || c.is_alphanumeric());
                        if !names.iter().all(is_word) {
                            let message = format!("the index of `{name}` along axis {axis} is no polynomial");
                            return Err(unknown(message));
                        }
                        TileTerm::Names(names.to_vec())
                    }
                };
                let known = parts.terms.entry(term).or_insert(0);
                *known = known.saturating_add(coefficient);
            }
            Ok(parts)
        });
        parts.collect()
    }

    fn axis(&self, parts: SubscriptParts) -> TileAxis {
        let (mut least, mut greatest) = (parts.least, parts.greatest);
        for (term, coefficient) in &parts.terms {
            let n = match term {
                TileTerm::Index(index) => self.plan.sizes.get(*index).copied().unwrap_or(1),
                TileTerm::Segment => self.plan.segment,
                TileTerm::Names(_) => 1,
            };
            let reach = coefficient.saturating_mul(i64::from(n) - 1);
            least = least.saturating_add(reach.min(0));
            greatest = greatest.saturating_add(reach.max(0));
        }
        let extent = u32::try_from(greatest.saturating_sub(least).saturating_add(1)).unwrap_or(u32::MAX);
        TileAxis { extent, terms: parts.terms.into_iter().collect(), offset: least }
    }
}

/// The first and the last value of an index of few iterations.
fn whole_bounds(range: &IndexRange) -> Option<(i64, i64)> {
    let (first, last) = range.bounds.as_ref()?;
    let (first, last) = (first.as_constant()?, last.as_constant()?);
    (first <= last && last - first < MAX_WHOLE).then_some((first, last))
}
