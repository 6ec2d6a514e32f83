//! Proof that the iterations of a parallel loop do not meet: that no two of them access one element of an array that
//! either of them writes.
//!
//! Subscripts are polynomials in the indices of the parallel loop, those of loops in it, and names that are the same in
//! all iterations. Two accesses by different iterations meet only if all their subscripts are equal. From an equation
//! `c·i + r = c·i' + r'`, in which everything that may differ in `r' − r` is less than `c` in size, follows `i = i'`,
//! and with that the next equation may say more; if all indices are equal in the end, it was one iteration. Indices that
//! stand alone in an equation are also replaced in the others, which then may contradict each other. That proves `y[i]`,
//! `y[i, j]`, `y[i * n + j]` for `j` below `n`, `y[2 * i + 1]` beside `y[2 * i]`, `y[i, n - i]` beside
//! `y[i - 1, n - i - 1]`, and their like.
//!
//! Small extents are tried where the proof fails, until two iterations meet, which the error then names.

use super::affine::{Polynomial, eliminated, polynomial};
use super::syntax::{Block, Expr, ExprKind, ForLoop, Stmt, StmtKind, walk_expr};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};

/// Accesses of one loop beyond this are not compared, because each is compared with each.
const MAX_ACCESSES: usize = 400;

/// Iterations, with those of loops in them, that are tried to find two that meet.
const MAX_TRIED: usize = 4000;

/// Two iterations that meet, or what else keeps a loop from being parallel.
pub(super) struct Collision {
    pub(super) range: TextRange,
    pub(super) other: Option<TextRange>,
    pub(super) message: String,
}

/// An access to an element.
pub(super) struct ElementAccess {
    pub(super) array: String,
    /// One for each axis; `None` for one that no polynomial is.
    pub(super) subscripts: Vec<Option<Polynomial>>,
    pub(super) is_write: bool,
    pub(super) range: TextRange,
    /// The loops around it inside the parallel one.
    pub(super) loops: Vec<IndexRange>,
}

/// The values of an index.
#[derive(Clone)]
pub(super) struct IndexRange {
    /// The name in polynomials, which no other index has.
    pub(super) name: String,
    /// The place where the loop names it.
    pub(super) place: TextRange,
    /// The least and the greatest, if they are known.
    pub(super) bounds: Option<(Polynomial, Polynomial)>,
    /// The value before which it ends.
    end: Option<Polynomial>,
}

/// Holds what is known of names outside the loop.
pub(super) struct LoopSurroundings<'a> {
    /// Returns true for the name of an array.
    pub(super) is_array: &'a dyn Fn(&str) -> bool,
    /// Returns true for a name that is an integer, the same in all iterations.
    pub(super) is_uniform: &'a dyn Fn(&str) -> bool,
    /// Says which parameters a function of the program writes to.
    pub(super) writes_of: &'a dyn Fn(&str) -> Option<Vec<bool>>,
}

/// An array and the first subscripts of a part of it.
type ArrayPart = (String, Vec<Option<Polynomial>>);

/// Sees the indices of an iteration with their values, and the values of names; returns false if it has seen enough.
type IterationVisitor<'v> = dyn FnMut(&[(&str, i64)], &dyn Fn(&str) -> Option<i64>) -> bool + 'v;

struct AccessCollector<'a> {
    around: &'a LoopSurroundings<'a>,
    accesses: Vec<ElementAccess>,
    /// Names that stand for polynomials, innermost last; `None` for what is none.
    names: Vec<(String, Option<Polynomial>)>,
    /// Names that stand for parts of arrays: the array and its first subscripts.
    parts: Vec<(String, ArrayPart)>,
    loops: Vec<IndexRange>,
    n_indices: usize,
}

/// The indices of a parallel loop, and the elements that its iterations access.
pub(super) fn accesses_of(parallel: &ForLoop, around: &LoopSurroundings<'_>) -> (Vec<IndexRange>, Vec<ElementAccess>) {
    let mut collector = AccessCollector {
        around,
        accesses: Vec::new(),
        names: Vec::new(),
        parts: Vec::new(),
        loops: Vec::new(),
        n_indices: 0,
    };
    let mut indices = Vec::new();
    for index in &parallel.indices {
        let range = collector.index_range(&index.name.name, index);
        collector.names.push((index.name.name.clone(), Some(Polynomial::name(&range.name))));
        indices.push(range);
    }
    collector.block(&parallel.body);
    (indices, collector.accesses)
}

/// Finds two iterations of a parallel loop that meet, if it is not proved that there are none.
pub(super) fn collision(parallel: &ForLoop, text: &str, around: &LoopSurroundings<'_>) -> Option<Collision> {
    let (indices, accesses) = accesses_of(parallel, around);
    let written: FxHashSet<&str> =
        accesses.iter().filter(|access| access.is_write).map(|access| access.array.as_str()).collect();
    let compared: Vec<&ElementAccess> =
        accesses.iter().filter(|access| written.contains(access.array.as_str())).collect();
    if compared.len() > MAX_ACCESSES {
        let message = format!("this loop accesses elements in more than {MAX_ACCESSES} places, which are not compared");
        return Some(Collision { range: parallel.header, other: None, message });
    }
    let meeting = IterationMeeting { indices: &indices, text };
    for (at, access) in compared.iter().enumerate() {
        for other in &compared[at..] {
            if access.array == other.array
                && (access.is_write || other.is_write)
                && !meeting.is_impossible(access, other)
            {
                // The write is named first.
                let (write, other) = if access.is_write { (access, other) } else { (other, access) };
                return Some(meeting.describe(write, other));
            }
        }
    }
    None
}

impl<'a> AccessCollector<'a> {
    fn meaning(&self, name: &str) -> Option<Polynomial> {
        match self.names.iter().rev().find(|(known, _)| known == name) {
            Some((_, meaning)) => meaning.clone(),
            None => (self.around.is_uniform)(name).then(|| Polynomial::name(name)),
        }
    }

    fn polynomial(&self, expr: &Expr) -> Option<Polynomial> {
        polynomial(expr, &|name| self.meaning(name), &|part| self.uniform(part))
    }

    /// A name for an expression that has the same value in all iterations, whatever that is: `n / 2`.
    fn uniform(&self, expr: &Expr) -> Option<Polynomial> {
        let mut is_uniform = true;
        walk_expr(expr, &mut |part| match &part.kind {
            ExprKind::Name(name) => {
                let is_function = matches!(name.as_str(), "min" | "max" | "i32");
                let is_own = self.names.iter().any(|(known, _)| known == name);
                is_uniform &= is_function || !is_own && (self.around.is_uniform)(name);
            }
            ExprKind::Int(..) | ExprKind::Binary(..) | ExprKind::Unary(..) | ExprKind::Call { .. } => {}
            _ => is_uniform = false,
        });
        is_uniform.then(|| Polynomial::name(&format!("{:?}", ShapeOf(expr))))
    }

    fn index_range(&mut self, name: &str, index: &super::syntax::LoopIndex) -> IndexRange {
        self.n_indices += 1;
        let start = self.polynomial(&index.start);
        let end = self.polynomial(&index.end);
        let is_up = match &index.step {
            None => true,
            Some(step) => self.polynomial(step).is_some_and(|step| step.as_constant().is_some_and(|step| step > 0)),
        };
        let last =
            end.as_ref().map(|end| if index.is_inclusive { end.clone() } else { end.minus(&Polynomial::constant(1)) });
        let bounds = start.zip(last).filter(|_| is_up);
        let name = format!("{name}#{}", self.n_indices);
        IndexRange { name, place: index.name.range, bounds, end: end.filter(|_| is_up) }
    }

    fn block(&mut self, block: &Block) {
        let (n_names, n_parts) = (self.names.len(), self.parts.len());
        block.statements.iter().for_each(|statement| self.statement(statement));
        self.names.truncate(n_names);
        self.parts.truncate(n_parts);
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Declare { is_var, targets, value, .. } => {
                if let Some(value) = value {
                    self.reads(value);
                }
                let meaning = value.as_ref().filter(|_| !is_var && targets.len() == 1);
                let meaning = meaning.and_then(|value| self.polynomial(value));
                let part = value.as_ref().and_then(|value| self.element(value));
                for target in targets {
                    self.names.push((target.name.clone(), meaning.clone()));
                    if let Some(part) = &part {
                        self.parts.push((target.name.clone(), part.clone()));
                    }
                }
            }
            StmtKind::Assign { targets, value } => {
                self.reads(value);
                targets.iter().for_each(|target| self.written(target));
            }
            StmtKind::Update { target, value, .. } => {
                self.reads(value);
                self.written(target);
            }
            StmtKind::If { branches, otherwise } => {
                for (cond, body) in branches {
                    self.reads(cond);
                    self.block(body);
                }
                otherwise.iter().for_each(|body| self.block(body));
            }
            StmtKind::For(inner) => {
                let (n_names, n_loops) = (self.names.len(), self.loops.len());
                for index in &inner.indices {
                    self.reads(&index.start);
                    self.reads(&index.end);
                    let range = self.index_range(&index.name.name, index);
                    self.names.push((index.name.name.clone(), Some(Polynomial::name(&range.name))));
                    self.loops.push(range);
                }
                self.block(&inner.body);
                self.names.truncate(n_names);
                self.loops.truncate(n_loops);
            }
            StmtKind::While { cond, body } => {
                self.reads(cond);
                self.block(body);
            }
            StmtKind::Return(values) => values.iter().for_each(|value| self.reads(value)),
            StmtKind::Assert { cond, .. } => self.reads(cond),
            StmtKind::Expr(value) => self.reads(value),
            StmtKind::Break | StmtKind::Continue => {}
        }
    }

    /// The array and the subscripts of an element or a part: those of `a[i][j]` and of `a[i, j]` are the same.
    fn element(&self, expr: &Expr) -> Option<(String, Vec<Option<Polynomial>>)> {
        match &expr.kind {
            ExprKind::Index(of, indices) => {
                let (array, mut all) = self.element(of)?;
                all.extend(indices.iter().map(|index| self.polynomial(index)));
                Some((array, all))
            }
            ExprKind::Member(of, member) => match self.element(of)? {
                // The array in a struct.
                (name, subscripts) if subscripts.is_empty() => Some((format!("{name}.{}", member.name), subscripts)),
                // A field of an element.
                element => Some(element),
            },
            ExprKind::Name(name) => match self.names.iter().rposition(|(known, _)| known == name) {
                None => (self.around.is_array)(name).then(|| (name.clone(), Vec::new())),
                Some(_) => {
                    let part = self.parts.iter().rev().find(|(known, _)| known == name);
                    part.map(|(_, part)| part.clone())
                }
            },
            _ => None,
        }
    }

    fn access(&mut self, (array, subscripts): (String, Vec<Option<Polynomial>>), is_write: bool, range: TextRange) {
        let loops = self.loops.clone();
        self.accesses.push(ElementAccess { array, subscripts, is_write, range, loops });
    }

    fn written(&mut self, target: &Expr) {
        match &target.kind {
            ExprKind::Tuple(targets) => targets.iter().for_each(|target| self.written(target)),
            ExprKind::Name(_) => {}
            _ => {
                if let Some(element) = self.element(target) {
                    self.access(element, true, target.range);
                }
                self.reads_of_indices(target);
            }
        }
    }

    /// Notes what the indices of an element read.
    fn reads_of_indices(&mut self, element: &Expr) {
        match &element.kind {
            ExprKind::Index(of, indices) => {
                self.reads_of_indices(of);
                indices.iter().for_each(|index| self.reads(index));
            }
            ExprKind::Member(of, _) => self.reads_of_indices(of),
            _ => {}
        }
    }

    fn reads(&mut self, expr: &Expr) {
        if let Some(element) = self.element(expr) {
            // An array as a whole is read where its elements are; `a.shape` reads none.
            if !element.1.is_empty() {
                self.access(element, false, expr.range);
            }
            return self.reads_of_indices(expr);
        }
        match &expr.kind {
            ExprKind::Call { function, arguments, .. } => {
                let name = function.as_name().unwrap_or_default();
                let is_atomic = name.starts_with("atomic_");
                let writes = (self.around.writes_of)(name);
                for (index, argument) in arguments.iter().enumerate() {
                    let part = self.element(&argument.value);
                    match (part, &writes) {
                        // Atomic accesses may meet.
                        (Some(_), _) if is_atomic && index == 0 => self.reads_of_indices(&argument.value),
                        (Some(part), Some(writes)) => {
                            let is_written = writes.get(index).copied().unwrap_or(true);
                            self.access(part, is_written, argument.value.range);
                            self.reads_of_indices(&argument.value);
                        }
                        _ => self.reads(&argument.value),
                    }
                }
            }
            ExprKind::Member(of, _) | ExprKind::Unary(_, of) | ExprKind::Spread(of) => self.reads(of),
            ExprKind::Index(of, indices) => {
                self.reads(of);
                indices.iter().for_each(|index| self.reads(index));
            }
            ExprKind::Binary(_, left, right) => {
                self.reads(left);
                self.reads(right);
            }
            ExprKind::Compare(first, rest) => {
                self.reads(first);
                rest.iter().for_each(|(_, operand)| self.reads(operand));
            }
            ExprKind::Logic(_, terms) | ExprKind::Tuple(terms) => terms.iter().for_each(|term| self.reads(term)),
            ExprKind::Select(parts) => parts.iter().for_each(|part| self.reads(part)),
            ExprKind::Range(bounds) => bounds.iter().flatten().for_each(|bound| self.reads(bound)),
            _ => {}
        }
    }
}

/// Writes an expression without its places, so that equal ones are equal.
struct ShapeOf<'a>(&'a Expr);

impl std::fmt::Debug for ShapeOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.kind {
            ExprKind::Int(value, _) => write!(f, "{value}"),
            ExprKind::Name(name) => f.write_str(name),
            ExprKind::Binary(op, left, right) => write!(f, "({:?} {op:?} {:?})", ShapeOf(left), ShapeOf(right)),
            ExprKind::Unary(op, operand) => write!(f, "({op:?} {:?})", ShapeOf(operand)),
            ExprKind::Call { function, arguments, .. } => {
                write!(f, "{:?}", ShapeOf(function))?;
                arguments.iter().try_for_each(|argument| write!(f, "({:?})", ShapeOf(&argument.value)))
            }
            _ => f.write_str("?"),
        }
    }
}

/// The comparison of accesses by different iterations.
struct IterationMeeting<'a> {
    indices: &'a [IndexRange],
    text: &'a str,
}

impl IterationMeeting<'_> {
    /// Returns true if it is proved that no two different iterations make these accesses to one element.
    fn is_impossible(&self, access: &ElementAccess, other: &ElementAccess) -> bool {
        // All indices of the other access are those of another iteration.
        let varies = |name: &str| name.contains('#');
        let primed = |name: &str| varies(name).then(|| format!("{name}'"));
        let prime = |range: &IndexRange| IndexRange {
            name: format!("{}'", range.name),
            place: range.place,
            bounds: range.bounds.as_ref().map(|(least, most)| (least.renamed(&primed), most.renamed(&primed))),
            end: range.end.as_ref().map(|end| end.renamed(&primed)),
        };
        let own = self.indices.iter().chain(&access.loops).cloned();
        let theirs = self.indices.iter().chain(&other.loops).map(prime);
        let ranges: Vec<IndexRange> = own.chain(theirs).collect();
        // A loop from 0 to `n` that runs at all says that `n` is at least 1.
        let counts_up = |range: &&IndexRange| {
            let least = range.bounds.as_ref().and_then(|(least, _)| least.as_constant());
            least.is_some_and(|least| least >= 0)
        };
        let ends: FxHashSet<String> = ranges
            .iter()
            .filter(counts_up)
            .filter_map(|range| range.end.as_ref())
            .filter_map(|end| Some(end.names().next()?.to_owned()).filter(|name| *end == Polynomial::name(name)))
            .collect();
        let at_least_one = |name: &str| ends.contains(name);
        let mut equations: Vec<Polynomial> = Vec::new();
        for (left, right) in access.subscripts.iter().zip(&other.subscripts) {
            if let (Some(left), Some(right)) = (left, right) {
                equations.push(left.minus(&right.renamed(&primed)));
            }
        }
        equations.extend(eliminated(&equations, &varies));
        let mut open: Vec<&str> = self.indices.iter().map(|range| range.name.as_str()).collect();
        loop {
            let never = equations.iter().any(|equation| {
                let bounds = bounds_of(equation, &ranges, &at_least_one);
                bounds.is_some_and(|(least, most)| {
                    least.is_positive(&at_least_one) || most.scaled(-1).is_positive(&at_least_one)
                })
            });
            if never || open.is_empty() {
                return true;
            }
            let known = open.iter().copied().find(|index| {
                equations.iter().any(|equation| {
                    let index_primed = format!("{index}'");
                    let Some((coefficient, rest)) = equation.split(index) else { return false };
                    let Some((opposite, rest)) = rest.split(&index_primed) else { return false };
                    if coefficient.plus(&opposite).as_constant() != Some(0) || coefficient.names().any(varies) {
                        return false;
                    }
                    let size = match coefficient.is_positive(&at_least_one) {
                        true => coefficient,
                        false if coefficient.scaled(-1).is_positive(&at_least_one) => coefficient.scaled(-1),
                        false => return false,
                    };
                    bounds_of(&rest, &ranges, &at_least_one).is_some_and(|(least, most)| {
                        size.minus(&most).is_positive(&at_least_one) && size.plus(&least).is_positive(&at_least_one)
                    })
                })
            });
            let Some(index) = known else { return false };
            open.retain(|other| *other != index);
            let index_primed = format!("{index}'");
            let same = |name: &str| (name == index_primed).then(|| index.to_owned());
            equations.iter_mut().for_each(|equation| *equation = equation.renamed(&same));
        }
    }

    /// Says which iterations meet where.
    fn describe(&self, write: &ElementAccess, other: &ElementAccess) -> Collision {
        let verb = if other.is_write { "also writes" } else { "reads" };
        let element = self.text.get(write.range.start().to_usize()..write.range.end().to_usize()).unwrap_or_default();
        let array = &write.array;
        let message = match self.witness(write, other) {
            Some((first, second, place)) => {
                // They meet if the data say so, because an index is data.
                let may = if place.is_empty() { "may " } else { "" };
                let place = if place.is_empty() { element.to_owned() } else { format!("{array}[{place}]") };
                match (other.is_write, may) {
                    (true, "") => format!("the iterations {first} and {second} both write `{place}`"),
                    (true, _) => format!("the iterations {first} and {second} may both write one element by `{place}`"),
                    (false, "") => {
                        format!("the iteration {first} writes `{place}`, which the iteration {second} reads")
                    }
                    (false, _) => {
                        format!("the iteration {first} may write by `{place}` what the iteration {second} reads")
                    }
                }
            }
            None => format!("nothing shows that no other iteration {verb} what one writes in `{element}`"),
        };
        let is_same = write.range == other.range;
        Collision { range: write.range, other: (!is_same).then_some(other.range), message }
    }

    /// Two iterations that meet for small extents, with the indices of the element.
    fn witness(&self, write: &ElementAccess, other: &ElementAccess) -> Option<(String, String, String)> {
        for extent in [4, 3, 5] {
            let points = self.points(write, extent);
            let others = self.points(other, extent);
            let mut seen: FxHashMap<Vec<Option<i64>>, &Vec<i64>> = FxHashMap::default();
            for (iteration, element) in &points {
                if element.iter().all(Option::is_some) {
                    seen.entry(element.clone()).or_insert(iteration);
                    continue;
                }
                // Any two iterations may meet, because an index is data.
                let second = others.iter().find(|(other, element_of_other)| {
                    let may_be_same =
                        element.iter().zip(element_of_other).all(|(a, b)| a.is_none() || b.is_none() || a == b);
                    other != iteration && may_be_same
                })?;
                return Some((self.name_of(iteration), self.name_of(&second.0), String::new()));
            }
            for (iteration, element) in &others {
                // The first write there may be of this very iteration, and another of a later one.
                let first = points.iter().find(|(writer, place)| writer != iteration && place == element);
                if seen.contains_key(element)
                    && let Some((writer, _)) = first
                {
                    let place = element.iter().flatten().map(i64::to_string).collect::<Vec<_>>().join(", ");
                    let (a, b) = match write.range == other.range && writer > iteration {
                        true => (iteration, writer),
                        false => (writer, iteration),
                    };
                    return Some((self.name_of(a), self.name_of(b), place));
                }
            }
        }
        None
    }

    fn name_of(&self, iteration: &[i64]) -> String {
        let parts = self.indices.iter().zip(iteration).map(|(index, value)| {
            let name = index.name.split('#').next().unwrap_or_default();
            format!("{name} = {value}")
        });
        format!("`{}`", parts.collect::<Vec<_>>().join(", "))
    }

    /// The iterations of the loops, for names of this value, each with the element that it accesses.
    fn points(&self, access: &ElementAccess, extent: i64) -> Vec<(Vec<i64>, Vec<Option<i64>>)> {
        let loops: Vec<&IndexRange> = self.indices.iter().chain(&access.loops).collect();
        let mut points = Vec::new();
        let mut values: Vec<(&str, i64)> = Vec::new();
        self.enumerate(&loops, &mut values, extent, &mut |values, value_of| {
            let iteration = values.iter().take(self.indices.len()).map(|(_, value)| *value).collect();
            let element = access.subscripts.iter().map(|subscript| subscript.as_ref()?.evaluate(value_of)).collect();
            points.push((iteration, element));
            points.len() < MAX_TRIED
        });
        points
    }

    fn enumerate<'r>(
        &self,
        loops: &[&'r IndexRange],
        values: &mut Vec<(&'r str, i64)>,
        extent: i64,
        visit: &mut IterationVisitor<'_>,
    ) -> bool {
        let known: Vec<(&str, i64)> = values.clone();
        let value_of = |name: &str| match known.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => Some(*value),
            None => Some(extent),
        };
        let Some((first, rest)) = loops.split_first() else { return visit(values, &value_of) };
        let (start, end) = match &first.bounds {
            Some((least, most)) => (least.evaluate(&value_of).unwrap_or(0), most.evaluate(&value_of).unwrap_or(extent)),
            None => (0, extent),
        };
        for value in start..=end.min(start + 2 * extent) {
            values.push((&first.name, value));
            let goes_on = self.enumerate(rest, values, extent, visit);
            values.pop();
            if !goes_on {
                return false;
            }
        }
        true
    }
}

/// The least and the greatest value of a polynomial, in names that are the same in all iterations.
fn bounds_of(
    of: &Polynomial,
    ranges: &[IndexRange],
    at_least_one: &dyn Fn(&str) -> bool,
) -> Option<(Polynomial, Polynomial)> {
    let (mut least, mut most) = (of.clone(), of.clone());
    // Inner ranges may depend on outer indices, which are replaced after them.
    for range in ranges.iter().rev() {
        for (bound, is_least) in [(&mut least, true), (&mut most, false)] {
            if !bound.mentions(&range.name) {
                continue;
            }
            let (coefficient, rest) = bound.split(&range.name)?;
            let (low, high) = range.bounds.as_ref()?;
            let up = coefficient.is_positive(at_least_one);
            if !up && !coefficient.scaled(-1).is_positive(at_least_one) {
                return None;
            }
            let chosen = if up == is_least { low } else { high };
            *bound = rest.plus(&coefficient.times(chosen)?);
        }
    }
    let is_fixed = |polynomial: &Polynomial| !polynomial.names().any(|name| name.contains('#'));
    (is_fixed(&least) && is_fixed(&most)).then_some((least, most))
}
