//! Describes a `kernel` or `compute` to whoever runs it: parameters, results, shapes, and launches in order.
//!
//! The loops of a kernel become functions of the file that are launched over a grid. How large grids and results are
//! depends on the shapes of the arguments alone, and on integers among these, so that [`LoomProgram::bind`] can work out
//! all of it before anything runs, and say which shapes disagree.

use polyloom_ir::FloatMode;
use std::sync::Arc;

/// Launches of one program beyond this are not bound.
const MAX_LAUNCHES: usize = 1 << 20;

/// A `kernel` or a `compute`.
#[derive(Clone, Debug)]
pub struct LoomProgram {
    /// Its name.
    pub name: Arc<str>,
    /// True of `compute`.
    pub is_compute: bool,
    /// The text of its `///` lines.
    pub doc: String,
    /// Its parameters, in order.
    pub params: Vec<ProgramParam>,
    /// Its results, which callers allocate, in order.
    pub results: Vec<ProgramParam>,
    /// Arrays of its own, which live as long as a call: scratch arrays, and one element for each variable that a loop sets and a
    /// later one reads.
    pub scratch: Vec<ProgramParam>,
    /// The names that stand for extents, in an order in which each depends on those before it.
    pub symbols: Vec<ShapeSymbol>,
    /// Holds what runs, in order.
    pub stages: Vec<ProgramStage>,
    /// The device that `@device` prefers.
    pub device: Option<DevicePreference>,
    /// The kind that `@kernel` asserts.
    pub kind: Option<Arc<str>>,
    /// The product that it is, if it is one of matrices and says so by `@kernel(matmul)`.
    pub product: Option<MatrixProduct>,
}

/// A program that multiplies two matrices and does nothing else: element `[i, j]` of its result is the sum over `k` of
/// `left[i, k] * right[k, j]` in ascending order, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixProduct {
    /// The left factor.
    pub left: MatrixFactor,
    /// The right factor.
    pub right: MatrixFactor,
    /// True if each term rounds once, by `fma`.
    pub is_fused: bool,
}

/// A factor of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixFactor {
    /// The number of the parameter.
    pub param: usize,
    /// True if the parameter has rows of the factor as columns.
    pub is_transposed: bool,
}

impl MatrixFactor {
    /// Returns the rows and columns of the factor, of those of the parameter, and the other way.
    pub fn turned<T: Copy>(self, [rows, columns]: [T; 2]) -> [T; 2] {
        if self.is_transposed { [columns, rows] } else { [rows, columns] }
    }
}

impl MatrixProduct {
    /// Returns true if a chain of fused multiply-adds may compute it, which rounds once a term.
    pub fn may_fuse(self, mode: FloatMode) -> bool {
        self.is_fused || mode != FloatMode::Strict
    }
}

/// A preference for a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePreference {
    /// Its name: `cuda:0`.
    pub name: Arc<str>,
    /// True if the program runs nowhere else.
    pub is_required: bool,
}

/// A parameter or a result.
#[derive(Clone, Debug)]
pub struct ProgramParam {
    /// Its name.
    pub name: Arc<str>,
    /// For an array, its extents as far as they are known by name; `None` for one that may be any.
    pub extents: Option<Vec<Option<Extent>>>,
    /// True if its elements are what the program stores there.
    pub is_inferred: bool,
}

/// A name for an extent.
#[derive(Clone, Debug)]
pub struct ShapeSymbol {
    /// The name.
    pub name: Arc<str>,
    /// The arrays and axes that are so large, of which the first says what it is.
    pub axes: Vec<(Arc<str>, usize)>,
}

/// A step of a program.
#[derive(Clone, Debug)]
pub enum ProgramStage {
    /// A function is launched once for each index of a grid.
    Launch {
        /// The index of the function in its file.
        function: usize,
        /// The grid. `None` for one that the caller chooses.
        extents: Option<Vec<Extent>>,
        /// The results that it takes after the parameters, by their numbers: all but those that it neither names nor knows the
        /// type of.
        results: Vec<usize>,
        /// The scratch arrays that it takes after these, by their numbers.
        scratch: Vec<usize>,
        /// Counters of the loops around it, which it takes after these.
        counters: Vec<Arc<str>>,
        /// The loop without tiles, where the function is of blocks that stage some: it takes the same, and gives the same.
        plain: Option<PlainLoop>,
    },
    /// Stages that run in order, several times.
    Serial {
        /// The name of the counter.
        counter: Arc<str>,
        /// Its first value.
        start: Extent,
        /// The value before which it ends.
        end: Extent,
        /// The number by which it grows.
        step: Extent,
        /// Holds what runs each time.
        stages: Vec<ProgramStage>,
    },
}

/// A loop without tiles.
#[derive(Clone, Debug)]
pub struct PlainLoop {
    /// The index of the function in its file.
    pub function: usize,
    /// The grid.
    pub extents: Vec<Extent>,
}

/// An integer that shapes and arguments say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// This one.
    Constant(i64),
    /// One that has a name.
    Symbol(Arc<str>),
    /// The extent of an array along an axis.
    Axis(Arc<str>, usize),
    /// An operation on two others.
    Op(ExtentOp, Box<[Extent; 2]>),
}

/// An operation on extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentOp {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient, rounded toward zero.
    Div,
    /// The remainder of the quotient rounded down.
    Mod,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// Bits moved up.
    Lshift,
    /// Bits moved down.
    Rshift,
    /// A power.
    Pow,
    /// The number of steps of the second that reach the first: the quotient, rounded up, and not less than 0.
    Steps,
}

/// An argument as far as shapes depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShapeArgument {
    /// An array of these extents.
    Array(Vec<u64>),
    /// An integer.
    Int(i64),
    /// Anything else.
    Other,
}

/// A program with all its extents worked out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundProgram {
    /// The shapes of the results.
    pub results: Vec<Vec<u64>>,
    /// The shapes of the scratch arrays, which begin with zeros.
    pub scratch: Vec<Vec<u64>>,
    /// Holds what is launched, in order.
    pub launches: Vec<BoundStage>,
}

/// A launch of a [`BoundProgram`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundStage {
    /// The index of the function in its file.
    pub function: usize,
    /// The grid. `None` for one that the caller chooses.
    pub dim: Option<Vec<u64>>,
    /// The results that it takes after the parameters, by their numbers.
    pub results: Vec<usize>,
    /// The scratch arrays that it takes after these, by their numbers.
    pub scratch: Vec<usize>,
    /// The counters that it takes after these.
    pub counters: Vec<i32>,
    /// The function and the grid of the loop without tiles, where the function is of blocks that stage some.
    pub plain: Option<(usize, Vec<u64>)>,
}

impl BoundProgram {
    /// Returns the launches for a device: those of a CPU stage no tiles, because its caches hold what blocks would copy.
    pub fn launches_for(self, is_cpu: bool) -> Vec<BoundStage> {
        let mut launches = self.launches;
        for launch in launches.iter_mut().filter(|_| is_cpu) {
            if let Some((function, dim)) = launch.plain.take() {
                (launch.function, launch.dim) = (function, Some(dim));
            }
        }
        launches
    }
}

/// The values of names while a program is bound.
struct ExtentScope<'a> {
    program: &'a LoomProgram,
    arguments: &'a [ShapeArgument],
    values: Vec<(Arc<str>, i64)>,
}

impl LoomProgram {
    /// The indices of the functions that it launches on some device, in the order of the text.
    pub fn functions(&self) -> Vec<usize> {
        let mut functions = Vec::new();
        collect_functions(&self.stages, &mut functions);
        functions
    }

    /// Works out shapes and launches for arguments, in the order of the parameters.
    ///
    /// # Errors
    ///
    /// Says which shapes disagree, or why there is no such extent, in words.
    pub fn bind(&self, arguments: &[ShapeArgument]) -> Result<BoundProgram, String> {
        let name = &self.name;
        if arguments.len() != self.params.len() {
            let n = self.params.len();
            return Err(format!(
                "`{name}` takes {n} argument{}, not {}",
                if n == 1 { "" } else { "s" },
                arguments.len()
            ));
        }
        let mut scope = ExtentScope { program: self, arguments, values: Vec::new() };
        for (param, argument) in self.params.iter().zip(arguments) {
            match (argument, &param.extents) {
                (ShapeArgument::Array(shape), Some(extents)) if shape.len() != extents.len() => {
                    let (has, wants) = (axes(shape.len()), axes(extents.len()));
                    return Err(format!("`{}` has {has}, but `{name}` takes {wants} there", param.name));
                }
                (ShapeArgument::Int(value), None) => scope.values.push((param.name.clone(), *value)),
                (ShapeArgument::Int(_) | ShapeArgument::Other, Some(extents)) => {
                    return Err(format!("`{}` is an array of {} in `{name}`", param.name, axes(extents.len())));
                }
                _ => {}
            }
        }
        for symbol in &self.symbols {
            let mut known: Option<(&str, usize, u64)> = None;
            for (array, axis) in &symbol.axes {
                let Some(extent) = scope.axis(array, *axis) else { continue };
                match known {
                    None => known = Some((array, *axis, extent)),
                    Some((_, _, same)) if same == extent => {}
                    Some((first, first_axis, other)) => {
                        let symbol = &symbol.name;
                        return Err(format!(
                            "`{symbol}` is {other} by axis {first_axis} of `{first}` and {extent} by axis {axis} of `{array}`"
                        ));
                    }
                }
            }
            if let Some((_, _, extent)) = known {
                scope.values.push((symbol.name.clone(), i64::try_from(extent).unwrap_or(i64::MAX)));
            }
        }
        for (param, argument) in self.params.iter().zip(arguments) {
            let (ShapeArgument::Array(shape), Some(extents)) = (argument, &param.extents) else { continue };
            for (axis, (&extent, wanted)) in shape.iter().zip(extents).enumerate() {
                let Some(wanted) = wanted else { continue };
                let value = scope.evaluate(wanted)?;
                if i64::try_from(extent) != Ok(value) {
                    let array = &param.name;
                    return Err(format!(
                        "axis {axis} of `{array}` is {extent}, but `{name}` takes `{wanted}` there, which is {value}{}",
                        scope.where_from(wanted)
                    ));
                }
            }
        }
        let shape = |array: &ProgramParam| {
            let extents = array.extents.iter().flatten().flatten();
            extents.map(|extent| scope.extent(extent, &array.name)).collect::<Result<Vec<u64>, String>>()
        };
        let results = self.results.iter().map(shape).collect::<Result<_, _>>()?;
        let scratch = self.scratch.iter().map(shape).collect::<Result<_, _>>()?;
        let mut launches = Vec::new();
        scope.launches(&self.stages, &mut launches)?;
        Ok(BoundProgram { results, scratch, launches })
    }
}

impl ExtentScope<'_> {
    fn axis(&self, array: &str, axis: usize) -> Option<u64> {
        let index = self.program.params.iter().position(|param| *param.name == *array)?;
        match self.arguments.get(index)? {
            ShapeArgument::Array(shape) => shape.get(axis).copied(),
            _ => None,
        }
    }

    /// Says by which array an extent is what it is: ` by axis 0 of `x``.
    fn where_from(&self, extent: &Extent) -> String {
        let mut names = Vec::new();
        extent.names(&mut names);
        let symbols = self.program.symbols.iter().filter(|symbol| names.iter().any(|name| **name == *symbol.name));
        let firsts: Vec<String> = symbols
            .filter_map(|symbol| symbol.axes.first())
            .map(|(array, axis)| format!("axis {axis} of `{array}`"))
            .collect();
        if firsts.is_empty() { String::new() } else { format!(" by {}", firsts.join(" and ")) }
    }

    fn evaluate(&self, extent: &Extent) -> Result<i64, String> {
        let value = match extent {
            Extent::Constant(value) => Some(*value),
            Extent::Symbol(name) => self.values.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value),
            Extent::Axis(array, axis) => self.axis(array, *axis).and_then(|extent| i64::try_from(extent).ok()),
            Extent::Op(op, operands) => {
                let (a, b) = (self.evaluate(&operands[0])?, self.evaluate(&operands[1])?);
                return apply(*op, a, b).ok_or_else(|| format!("`{extent}` has no value for {a} and {b}"));
            }
        };
        value.ok_or_else(|| format!("nothing says what `{extent}` is"))
    }

    fn extent(&self, extent: &Extent, of: &str) -> Result<u64, String> {
        let value = self.evaluate(extent)?;
        u64::try_from(value).map_err(|_| format!("`{of}` has no extent of `{extent}`, which is {value}"))
    }

    fn launches(&mut self, stages: &[ProgramStage], launches: &mut Vec<BoundStage>) -> Result<(), String> {
        for stage in stages {
            match stage {
                ProgramStage::Launch { function, extents, results, scratch, counters, plain } => {
                    let grid = |extents: &Vec<Extent>| {
                        let extents = extents.iter().map(|extent| Ok(self.evaluate(extent)?.max(0).unsigned_abs()));
                        extents.collect::<Result<Vec<u64>, String>>()
                    };
                    let dim = extents.as_ref().map(grid).transpose()?;
                    let plain = match plain {
                        Some(plain) => Some((plain.function, grid(&plain.extents)?)),
                        None => None,
                    };
                    let value = |counter: &Arc<str>| self.evaluate(&Extent::Symbol(counter.clone()));
                    let counters = counters
                        .iter()
                        .map(|counter| {
                            let value = value(counter)?;
                            i32::try_from(value).map_err(|_| format!("`{counter}` is {value}, which is no `i32`"))
                        })
                        .collect::<Result<Vec<i32>, String>>()?;
                    if launches.len() >= MAX_LAUNCHES {
                        return Err(format!("`{}` runs more than {MAX_LAUNCHES} loops in order", self.program.name));
                    }
                    if dim.as_ref().is_none_or(|dim| !dim.contains(&0)) {
                        let (function, results, scratch) = (*function, results.clone(), scratch.clone());
                        launches.push(BoundStage { function, dim, results, scratch, counters, plain });
                    }
                }
                ProgramStage::Serial { counter, start, end, step, stages } => {
                    let (start, end, step) = (self.evaluate(start)?, self.evaluate(end)?, self.evaluate(step)?);
                    if step == 0 {
                        return Err(format!("the loop over `{counter}` has a step of 0"));
                    }
                    let mut value = start;
                    while if step > 0 { value < end } else { value > end } {
                        self.values.push((counter.clone(), value));
                        let done = self.launches(stages, launches);
                        self.values.pop();
                        done?;
                        value = value.saturating_add(step);
                    }
                }
            }
        }
        Ok(())
    }
}

fn collect_functions(stages: &[ProgramStage], functions: &mut Vec<usize>) {
    for stage in stages {
        match stage {
            ProgramStage::Launch { function, plain, .. } => {
                functions.push(*function);
                functions.extend(plain.as_ref().map(|plain| plain.function));
            }
            ProgramStage::Serial { stages, .. } => collect_functions(stages, functions),
        }
    }
}

fn apply(op: ExtentOp, a: i64, b: i64) -> Option<i64> {
    match op {
        ExtentOp::Add => a.checked_add(b),
        ExtentOp::Sub => a.checked_sub(b),
        ExtentOp::Mul => a.checked_mul(b),
        ExtentOp::Div => a.checked_div(b),
        ExtentOp::Mod => a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }),
        ExtentOp::Min => Some(a.min(b)),
        ExtentOp::Max => Some(a.max(b)),
        ExtentOp::Lshift => u32::try_from(b).ok().filter(|b| *b < 63).and_then(|b| a.checked_mul(1 << b)),
        ExtentOp::Rshift => u32::try_from(b).ok().filter(|b| *b < 64).map(|b| a >> b),
        ExtentOp::Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        ExtentOp::Steps if b > 0 => Some((a.max(0).checked_add(b - 1)?) / b),
        ExtentOp::Steps => None,
    }
}

fn axes(n: usize) -> String {
    if n == 1 { "1 axis".to_owned() } else { format!("{n} axes") }
}

impl Extent {
    /// An operation on two extents, worked out if both are constants.
    pub fn op(op: ExtentOp, a: Extent, b: Extent) -> Extent {
        match (op, &a, &b) {
            (_, Extent::Constant(x), Extent::Constant(y)) if let Some(value) = apply(op, *x, *y) => {
                Extent::Constant(value)
            }
            (ExtentOp::Add | ExtentOp::Sub, _, Extent::Constant(0))
            | (ExtentOp::Mul | ExtentOp::Div | ExtentOp::Steps, _, Extent::Constant(1)) => a,
            (ExtentOp::Add, Extent::Constant(0), _) | (ExtentOp::Mul, Extent::Constant(1), _) => b,
            _ => Extent::Op(op, Box::new([a, b])),
        }
    }

    /// Adds the names in it to those known.
    pub fn names(&self, names: &mut Vec<Arc<str>>) {
        match self {
            Extent::Constant(_) => {}
            Extent::Symbol(name) | Extent::Axis(name, _) => names.push(name.clone()),
            Extent::Op(_, operands) => operands.iter().for_each(|operand| operand.names(names)),
        }
    }
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Extent::Constant(value) => write!(f, "{value}"),
            Extent::Symbol(name) => f.write_str(name),
            Extent::Axis(array, axis) => write!(f, "{array}.shape[{axis}]"),
            Extent::Op(op, operands) => {
                let [a, b] = &**operands;
                let nested = |operand: &Extent| match operand {
                    Extent::Op(ExtentOp::Min | ExtentOp::Max, _) => operand.to_string(),
                    Extent::Op(..) => format!("({operand})"),
                    _ => operand.to_string(),
                };
                let symbol = match op {
                    ExtentOp::Add => "+",
                    ExtentOp::Sub => "-",
                    ExtentOp::Mul => "*",
                    ExtentOp::Div | ExtentOp::Steps => "/",
                    ExtentOp::Mod => "%",
                    ExtentOp::Lshift => "<<",
                    ExtentOp::Rshift => ">>",
                    ExtentOp::Pow => "**",
                    ExtentOp::Min => return write!(f, "min({a}, {b})"),
                    ExtentOp::Max => return write!(f, "max({a}, {b})"),
                };
                write!(f, "{} {symbol} {}", nested(a), nested(b))
            }
        }
    }
}
