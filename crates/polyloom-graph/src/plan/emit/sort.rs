//! Steps of sorts, in place. In a chunk, which lies in shared memory, a line is 32 neighbouring keys, of which each thread has one.
//!
//! Threads load neighbours and store neighbours in all steps, so that the CPU has whole registers: where pairs are of two lines,
//! because neighbours are compared with neighbours; and within lines, because a thread loads the key before its own and the
//! one after it at the distance, and takes one of them. Since others may have stored that one already, such steps go from one
//! array to another.

use super::BodyEmitter;
use crate::plan::sort::{COLUMN_RUN_LOG2, LINE_LOG2, RUN_LOG2, SortStep, chunk_log2, merging_pairs, sorting_pairs};
use crate::reference::N_LANES;
use polyloom_ir::{Expr, ExprBuilder, Scalar};

const LINE: i64 = 1 << LINE_LOG2;

/// The rows of keys, and the thread.
struct SortedRows<'g> {
    b: &'g ExprBuilder,
    keys: Expr<'g>,
    dtype: Scalar,
    n_rows: Expr<'g>,
    length: Expr<'g>,
    block: Expr<'g>,
    lane: Expr<'g>,
}

/// The keys of a chunk, of which those after the end are greater than all others.
struct SortedChunk<'g> {
    b: &'g ExprBuilder,
    /// Two arrays of a block, with a line before the keys and one after them. The first has the keys from one step to the next.
    keys: [Expr<'g>; 2],
    dtype: Scalar,
    /// The place of its first key in memory.
    first: Expr<'g>,
    length: Expr<'g>,
    n_lines: Expr<'g>,
    /// The thread, an `i32`, as all places within the chunk are.
    lane: Expr<'g>,
}

impl<'g> BodyEmitter<'_, 'g> {
    pub(super) fn sort(&self, step: SortStep, param: u16) {
        let sorted = self.body.passes.iter().flat_map(|pass| &pass.reductions).next();
        let Some(address) = sorted.and_then(|sorted| sorted.scanned.as_ref()) else { return };
        let ([n_rows], [length]) = (&self.body.outer[..], &self.body.inner[..]) else { return };
        let rows = SortedRows {
            b: self.b,
            keys: self.params[address.array as usize],
            dtype: self.body.params[address.array as usize].dtype,
            n_rows: self.extent(*n_rows),
            length: self.extent(*length),
            block: self.widened(self.b.block_idx(0)),
            lane: self.widened(self.b.thread_idx(0)),
        };
        let number = self.params[param as usize];
        match step {
            SortStep::InRegisters(n) => rows.sort_in_registers(usize::from(n)),
            SortStep::Columns { n_log2 } => rows.sort_column(n_log2),
            SortStep::Least(n) => rows.choose_least(usize::from(n)),
            SortStep::Chunks => rows.chunk().sort(rows.keys, number.cast(Scalar::I32)),
            SortStep::MergeChunks => rows.chunk().end_merge(rows.keys),
            SortStep::Across { is_mirrored, n_steps, .. } => rows.step_across(is_mirrored, n_steps, number),
        }
    }
}

/// Leaves the smaller key of each pair at the lower place.
fn exchange(keys: &mut [Expr<'_>], pairs: &[(usize, usize)]) {
    for &(low, high) in pairs {
        (keys[low], keys[high]) = (keys[low].min(keys[high]), keys[low].max(keys[high]));
    }
}

/// Returns the pairs of a merge of `n` keys, a power of two, that begins with mirror images.
fn mirrored_pairs(n: usize) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = (0..n / 2).map(|run| (run, n - 1 - run)).collect();
    let halves = merging_pairs(n / 2);
    pairs.extend(halves.iter().flat_map(|&(low, high)| [(low, high), (low + n / 2, high + n / 2)]));
    pairs
}

impl<'g> SortedRows<'g> {
    fn sort_in_registers(&self, n: usize) {
        let row = self.block * (N_LANES as i64) + self.lane;
        self.b.if_then(row.lt(self.n_rows), || {
            let first = row * (n as i64);
            let mut keys: Vec<Expr<'g>> = (0..n as i64).map(|place| self.keys.load(&[first + place])).collect();
            exchange(&mut keys, &sorting_pairs(n));
            (0..).zip(keys).for_each(|(place, key)| self.keys.store(&[first + place], key));
        });
    }

    /// Goes along a column with the least keys so far in registers: each further key takes its place among them, and the greatest
    /// one drops out.
    fn choose_least(&self, n: usize) {
        let row = self.block * (N_LANES as i64) + self.lane;
        self.b.if_then(row.lt(self.n_rows), || {
            let none: Vec<Expr<'g>> = (0..n).map(|_| self.b.int(self.dtype, -1)).collect();
            let first = row.constant(0);
            let least = self.b.for_range_many(first, self.length, first.constant(1), &none, |place, least| {
                let mut key = self.keys.load(&[place * self.n_rows + row]);
                let mut keep = |kept: &Expr<'g>| {
                    let lesser = kept.min(key);
                    key = kept.max(key);
                    lesser
                };
                least.iter().map(&mut keep).collect()
            });
            for (place, key) in (0..).zip(least) {
                let place = first.constant(place);
                self.b.if_then(place.lt(self.length), || self.keys.store(&[place * self.n_rows + row], key));
            }
        });
    }

    /// Sorts a column: runs in registers, and then merges of runs, each in one step across the runs and one within runs.
    fn sort_column(&self, n_log2: u8) {
        let (n, run) = (1i64 << n_log2, 1usize << COLUMN_RUN_LOG2);
        let b = self.b;
        let row = self.block * (N_LANES as i64) + self.lane;
        let kept = b.shared_array(0, self.dtype, (n * N_LANES as i64) as u32);
        let lane = b.thread_idx(0);
        let at = |place: Expr<'g>| place * (N_LANES as i64) + lane;
        let int = |value: i64| b.int(Scalar::I32, value);
        let in_place = |places: &[Expr<'g>], pairs: &[(usize, usize)]| {
            let mut keys: Vec<Expr<'g>> = places.iter().map(|&place| kept.load(&[at(place)])).collect();
            exchange(&mut keys, pairs);
            places.iter().zip(keys).for_each(|(&place, key)| kept.store(&[at(place)], key));
        };
        b.if_then(row.lt(self.n_rows), || {
            let length = self.length.cast(Scalar::I32);
            let in_memory = |place: Expr<'g>| place.cast(row.scalar()) * self.n_rows + row;
            b.for_range(0, length, 1, [], |place, []| {
                kept.store(&[at(place)], self.keys.load(&[in_memory(place)]));
                []
            });
            b.for_range(length, int(n), 1, [], |place, []| {
                kept.store(&[at(place)], b.int(self.dtype, -1));
                []
            });
            let each_run = |pairs: &[(usize, usize)]| {
                b.for_range(0, int(n), run as i64, [], |first, []| {
                    let places: Vec<Expr<'g>> = (0..run as i64).map(|place| first + place).collect();
                    in_place(&places, pairs);
                    []
                });
            };
            each_run(&sorting_pairs(run));
            for sorted_log2 in COLUMN_RUN_LOG2..n_log2 {
                // The first step of a merge compares keys with their mirror images, and the others those that are a run or more apart.
                let n_keys = 1usize << (sorted_log2 + 1 - COLUMN_RUN_LOG2);
                let pairs = mirrored_pairs(n_keys);
                b.for_range(0, int(n), 2 << sorted_log2, [], |first, []| {
                    b.for_range(0, int(run as i64), 1, [], |offset, []| {
                        let place = |part: i64| {
                            let start = first + part * run as i64;
                            if part >= n_keys as i64 / 2 { start + (run as i64 - 1) - offset } else { start + offset }
                        };
                        let places: Vec<Expr<'g>> = (0..n_keys as i64).map(place).collect();
                        in_place(&places, &pairs);
                        []
                    });
                    []
                });
                each_run(&merging_pairs(run));
            }
            b.for_range(0, length, 1, [], |place, []| {
                self.keys.store(&[in_memory(place)], kept.load(&[at(place)]));
                []
            });
        });
    }

    /// Returns a number's quotient by another and the remainder.
    fn divided(&self, number: Expr<'g>, by: Expr<'g>) -> [Expr<'g>; 2] {
        [self.b.op(polyloom_ir::Op::FloorDiv, &[number, by]), number % by]
    }

    fn chunk(&self) -> SortedChunk<'g> {
        let log2 = chunk_log2(self.dtype);
        let most = 1i64 << log2;
        let [row, number] = self.divided(self.block, (self.length + (most - 1)) >> i64::from(log2));
        let before = number << i64::from(log2);
        let length = (self.length - before).min(most).cast(Scalar::I32);
        SortedChunk {
            b: self.b,
            keys: [0, 1].map(|id| self.b.shared_array(id, self.dtype, (most + 2 * LINE) as u32)),
            dtype: self.dtype,
            first: row * self.length + before,
            length,
            n_lines: (length + (LINE - 1)) >> i64::from(LINE_LOG2),
            lane: self.b.thread_idx(0),
        }
    }

    /// Does steps between keys that are a chunk or more apart. A thread has a key of each run of `1 << log2_width` neighbours.
    fn step_across(&self, is_mirrored: bool, n_steps: u8, log2_width: Expr<'g>) {
        let n = 1usize << n_steps;
        let log2_parts = log2_width - i64::from(RUN_LOG2);
        let one = log2_width.constant(1);
        let [width, n_parts] = [one << log2_width, one << log2_parts];
        let group_log2 = log2_width + i64::from(n_steps);
        let n_groups = (self.length + ((one << group_log2) - 1)) >> group_log2;
        let [row, group] = self.divided(self.block >> log2_parts, n_groups);
        let first_row = row * self.length;
        let base = group << group_log2;
        let part = (self.block & (n_parts - 1)) << i64::from(RUN_LOG2);
        // A merge's first step counts the places of the upper half from its end, because a mirror is there.
        let is_upper = |run: usize| is_mirrored && run >= n / 2;
        let pairs = if is_mirrored { mirrored_pairs(n) } else { merging_pairs(n) };
        let n_lines = self.b.int(log2_width.scalar(), 1 << (RUN_LOG2 - LINE_LOG2));
        self.b.for_range(0, n_lines, 1, [], |line, []| {
            let offset = part + (line << i64::from(LINE_LOG2));
            // The first place of a line of each run.
            let line_of = |run: usize| {
                let start = base + (log2_width.constant(run as i64) << log2_width);
                if is_upper(run) { start + (width - LINE - offset) } else { start + offset }
            };
            let place_of = |run: usize| {
                line_of(run) + if is_upper(run) { self.lane.constant(LINE - 1) - self.lane } else { self.lane }
            };
            let is_whole = (0..n).map(|run| (line_of(run) + (LINE - 1)).lt(self.length)).reduce(|a, b| a & b);
            let Some(is_whole) = is_whole else { return [] };
            let step = |load: &dyn Fn(Expr<'g>) -> Expr<'g>, store: &dyn Fn(Expr<'g>, Expr<'g>)| {
                let mut keys: Vec<Expr<'g>> = (0..n).map(|run| load(place_of(run))).collect();
                exchange(&mut keys, &pairs);
                (0..n).zip(keys).for_each(|(run, key)| store(place_of(run), key));
            };
            self.b.branch(
                is_whole,
                || {
                    step(&|place| self.keys.load(&[first_row + place]), &|place, key| {
                        self.keys.store(&[first_row + place], key);
                    });
                    []
                },
                || {
                    let load = |place: Expr<'g>| {
                        let load = || [self.keys.load(&[first_row + place])];
                        let [key] = self.b.branch(place.lt(self.length), load, || [self.b.int(self.dtype, -1)]);
                        key
                    };
                    let store = |place: Expr<'g>, key: Expr<'g>| {
                        self.b.if_then(place.lt(self.length), || self.keys.store(&[first_row + place], key));
                    };
                    step(&load, &store);
                    []
                },
            );
            []
        });
    }
}

impl<'g> SortedChunk<'g> {
    fn sort(&self, memory: Expr<'g>, n_merges: Expr<'g>) {
        self.load(memory);
        self.sort_lines();
        self.b.for_range(0, n_merges, 1, [], |merge, []| {
            self.exchange_lines(merge, true);
            self.halve_from(merge);
            []
        });
        self.store(memory);
    }

    fn end_merge(&self, memory: Expr<'g>) {
        self.load(memory);
        let n_steps = chunk_log2(self.dtype) - LINE_LOG2;
        self.halve_from(self.b.int(Scalar::I32, n_steps.into()));
        self.store(memory);
    }

    /// Does the steps of a merge from a distance of `1 << (n_steps - 1)` lines on.
    fn halve_from(&self, n_steps: Expr<'g>) {
        self.b.for_range(0, n_steps, 1, [], |step, []| {
            self.exchange_lines(n_steps - 1 - step, false);
            []
        });
        self.halve_lines();
    }

    /// Calls a function for each place of the chunk, with the one in memory.
    fn each_place(&self, visit: impl Fn(Expr<'g>, Expr<'g>)) {
        let in_memory = |place: Expr<'g>| self.first + self.widened(place);
        let n_whole = self.length >> i64::from(LINE_LOG2);
        self.b.for_range(0, n_whole, 1, [], |line, []| {
            let place = (line << i64::from(LINE_LOG2)) + self.lane;
            visit(place, in_memory(place));
            []
        });
        let place = (n_whole << i64::from(LINE_LOG2)) + self.lane;
        self.b.if_then(place.lt(self.length), || visit(place, in_memory(place)));
    }

    fn widened(&self, place: Expr<'g>) -> Expr<'g> {
        if place.scalar() == self.first.scalar() { place } else { place.cast(self.first.scalar()) }
    }

    fn key(&self, array: usize, place: Expr<'g>) -> Expr<'g> {
        self.keys[array].load(&[place + LINE])
    }

    fn set_key(&self, array: usize, place: Expr<'g>, key: Expr<'g>) {
        self.keys[array].store(&[place + LINE], key);
    }

    fn load(&self, memory: Expr<'g>) {
        self.each_place(|place, in_memory| self.set_key(0, place, memory.load(&[in_memory])));
        let place = ((self.n_lines - 1) << i64::from(LINE_LOG2)) + self.lane;
        self.b.if_then(place.ge(self.length), || self.set_key(0, place, self.b.int(self.dtype, -1)));
        // Steps within lines load from the lines around the keys, too, what they do not take; it is defined.
        for array in [0, 1] {
            let after = self.n_lines << i64::from(LINE_LOG2);
            for place in [self.lane - LINE, after + self.lane] {
                self.set_key(array, place, self.b.int(self.dtype, 0));
            }
        }
        self.b.sync_threads();
    }

    fn store(&self, memory: Expr<'g>) {
        self.each_place(|place, in_memory| memory.store(&[in_memory], self.key(0, place)));
    }

    /// Does a step between lines that are `1 << log2` apart, or mirror images.
    fn exchange_lines(&self, log2: Expr<'g>, is_mirrored: bool) {
        let one = log2.constant(1);
        let half = one << log2;
        let n_blocks = self.n_lines >> (log2 + 1);
        let rest = (self.n_lines & ((half << 1) - 1)) - half;
        // Pairs with a line after the last are left out, which are the last ones, also of mirror images.
        let n_pairs = (n_blocks << log2) + rest.max(0);
        self.b.for_range(0, n_pairs, 1, [], |pair, []| {
            let offset = pair & (half - 1);
            let base = (pair >> log2) << (log2 + 1);
            let low = if is_mirrored { base + (half - 1 - offset) } else { base + offset };
            let high = base + half + offset;
            let [low, high] = [low, high].map(|line| line << i64::from(LINE_LOG2));
            let lane_of_high = if is_mirrored { self.lane.constant(LINE - 1) - self.lane } else { self.lane };
            self.exchange_places(low + self.lane, high + lane_of_high);
            []
        });
        self.b.sync_threads();
    }

    fn exchange_places(&self, low: Expr<'g>, high: Expr<'g>) {
        let mut keys = [low, high].map(|place| self.key(0, place));
        exchange(&mut keys, &[(0, 1)]);
        self.set_key(0, low, keys[0]);
        self.set_key(0, high, keys[1]);
    }

    /// Sorts each line: runs become runs twice as long, of which every second is sorted the other way round.
    fn sort_lines(&self) {
        let mut run = 2;
        let mut from = 0;
        while run < LINE {
            from = self.halve_runs(from, run / 2, run);
            run *= 2;
        }
        // 1, 2, 3 and 4 steps are an even number.
        self.halve_lines();
    }

    /// Does the last steps of a merge, within lines. Half of the threads do the first one in place, so that the number of others is
    /// even.
    fn halve_lines(&self) {
        let distance = LINE / 2;
        self.b.if_then(self.lane.lt(distance), || {
            self.b.for_range(0, self.n_lines, 1, [], |line, []| {
                let low = (line << i64::from(LINE_LOG2)) + self.lane;
                self.exchange_places(low, low + distance);
                []
            });
        });
        self.b.sync_threads();
        self.halve_runs(0, distance / 2, LINE);
    }

    /// Does the steps that sort runs, from a distance on, and returns the array that has the keys after them.
    fn halve_runs(&self, from: usize, distance: i64, run: i64) -> usize {
        let distances = std::iter::successors(Some(distance), |distance| Some(distance / 2)).take_while(|&d| d > 0);
        distances.fold(from, |from, distance| {
            self.step_in_lines(from, distance, run);
            1 - from
        })
    }

    /// Does a step within lines, from one array to the other.
    fn step_in_lines(&self, from: usize, distance: i64, run: i64) {
        let is_upper = (self.lane & distance).ne(0);
        let is_descending = if run == LINE { None } else { Some((self.lane & run).ne(0)) };
        let takes_larger = is_descending.map_or(is_upper, |is_descending| is_upper ^ is_descending);
        self.b.for_range(0, self.n_lines, 1, [], |line, []| {
            let place = (line << i64::from(LINE_LOG2)) + self.lane;
            let own = self.key(from, place);
            let other = is_upper.select(self.key(from, place - distance), self.key(from, place + distance));
            self.set_key(1 - from, place, takes_larger.select(own.max(other), own.min(other)));
            []
        });
        self.b.sync_threads();
    }
}
