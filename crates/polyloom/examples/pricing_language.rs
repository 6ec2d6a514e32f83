//! A small language of prices, compiled: each line is a function of `float64` numbers, and the last one becomes a kernel
//! over arrays, with its gradient, a C function and a library.
//!
//! `cargo run -p polyloom --features llvm --example pricing_language`. The guide's page on embedding goes through it.

use polyloom::artifact::{Artifact, ArtifactOptions};
use polyloom::{
    ArgBlock, DerivativeRequest, Expr, ExprBuilder, FuncId, Kernel, LaunchOptions, Module, NativeArray, Op, Scalar,
    Session, SourceMap, Type, has_llvm,
};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

const PROGRAM: &str = "
normal(x) = 0.5 * (1 + erf(x / sqrt(2)))
d(spot, strike, rate, sigma, years) = (log(spot / strike) + (rate + sigma * sigma / 2) * years) / (sigma * sqrt(years))
call(spot, strike, rate, sigma, years) = spot * normal(d(spot, strike, rate, sigma, years)) - strike * exp(-rate * years) * normal(d(spot, strike, rate, sigma, years) - sigma * sqrt(years))
";

const F64: Type = Type::F64;
const ARRAY: Type = Type::array(Scalar::F64, 1);

/// A reader of one definition: the rest of its text, and what names mean.
struct Reader<'t, 'g> {
    rest: &'t str,
    builder: &'g ExprBuilder,
    variables: HashMap<&'t str, Expr<'g>>,
    functions: &'t HashMap<String, FuncId>,
}

impl<'t, 'g> Reader<'t, 'g> {
    /// Takes a symbol if it comes next.
    fn takes(&mut self, symbol: char) -> bool {
        let taken = self.rest.trim_start().strip_prefix(symbol);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }

    fn sum(&mut self) -> Result<Expr<'g>, String> {
        let mut value = self.product()?;
        loop {
            match () {
                () if self.takes('+') => value = value + self.product()?,
                () if self.takes('-') => value = value - self.product()?,
                () => return Ok(value),
            }
        }
    }

    fn product(&mut self) -> Result<Expr<'g>, String> {
        let mut value = self.factor()?;
        loop {
            match () {
                () if self.takes('*') => value = value * self.factor()?,
                () if self.takes('/') => value = value / self.factor()?,
                () => return Ok(value),
            }
        }
    }

    /// A number, a name, a call, or a sum in parentheses, with or without a sign.
    fn factor(&mut self) -> Result<Expr<'g>, String> {
        if self.takes('-') {
            return Ok(-self.factor()?);
        }
        if self.takes('(') {
            let value = self.sum()?;
            return if self.takes(')') { Ok(value) } else { Err(format!("`)` is missing before `{}`", self.rest)) };
        }
        let rest = self.rest.trim_start();
        let (word, rest) = rest.split_at(rest.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(rest.len()));
        self.rest = rest;
        if let Ok(number) = word.parse::<f64>() {
            return Ok(self.builder.float(Scalar::F64, number));
        }
        if !self.takes('(') {
            return self.variables.get(word).copied().ok_or_else(|| format!("`{word}` is no variable"));
        }
        let mut args = vec![self.sum()?];
        while self.takes(',') {
            args.push(self.sum()?);
        }
        let op = match word {
            "exp" => Op::Exp,
            "log" => Op::Log,
            "sqrt" => Op::Sqrt,
            "erf" => Op::Erf,
            _ => {
                let callee = self.functions.get(word).ok_or_else(|| format!("`{word}` is no function"))?;
                let [value] = self.builder.call(*callee, &args, [F64]);
                return if self.takes(')') { Ok(value) } else { Err(format!("`)` is missing after `{word}(`")) };
            }
        };
        if self.takes(')') { Ok(self.builder.op(op, &args)) } else { Err(format!("`)` is missing after `{word}(`")) }
    }
}

/// Compiles a program: its last function as a kernel over arrays, one for each parameter and one for the results.
fn compile(session: &Session, program: &str) -> Result<Kernel, Box<dyn Error>> {
    let (mut module, mut functions) = (Module::new(), HashMap::new());
    let mut last = None;
    for line in program.lines().filter(|line| !line.trim().is_empty()) {
        let (head, body) = line.split_once('=').ok_or("a definition has a `=`")?;
        let (name, params) = head.trim().trim_end_matches(')').split_once('(').ok_or("a function has parameters")?;
        let params: Vec<(&str, Type)> = params.split(',').map(|param| (param.trim(), F64)).collect();
        let mut wrong = None;
        let function = ExprBuilder::function(name, &params, &[F64], |builder, values| {
            let variables = params.iter().map(|(name, _)| *name).zip(values.iter().copied()).collect();
            let mut reader = Reader { rest: body, builder, variables, functions: &functions };
            let value = reader.sum();
            let error = value.as_ref().err().cloned();
            wrong = error.or((!reader.rest.trim().is_empty()).then(|| format!("`{}` is too much", reader.rest)));
            vec![value.unwrap_or_else(|_| builder.float(Scalar::F64, 0.0))]
        });
        if let Some(wrong) = wrong {
            return Err(format!("{name}: {wrong}").into());
        }
        let id = module.functions.push(function?);
        functions.insert(name.to_owned(), id);
        last = Some((name, id, params));
    }
    let (name, callee, params) = last.ok_or("the program has no function")?;
    let arrays: Vec<(&str, Type)> = params.iter().map(|(name, _)| (*name, ARRAY)).chain([("price", ARRAY)]).collect();
    let kernel = ExprBuilder::kernel_with(&format!("{name}_prices"), &arrays, |builder, values| {
        let (i, (out, inputs)) = (builder.tid(0), values.split_last().expect("there is the result at least"));
        let args: Vec<Expr<'_>> = inputs.iter().map(|array| array.load(&[i])).collect();
        let [price] = builder.call(callee, &args, [F64]);
        out.store(&[i], price);
    })?;
    let kernel = module.functions.push(kernel);
    Ok(session.compile_module(module, kernel, SourceMap::new())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::new()?;
    let kernel = Arc::new(compile(&session, PROGRAM)?);
    println!("{}", kernel.signature());

    // Launched, over a book of four options.
    let mut book = [[100.0, 90.0, 110.0, 100.0], [100.0; 4], [0.03; 4], [0.2, 0.2, 0.2, 0.4], [1.0; 4]];
    let mut prices = [0.0f64; 4];
    let mut args = ArgBlock::new();
    for input in &mut book {
        args.slice(kernel.params(), input, &[4])?;
    }
    args.slice(kernel.params(), &mut prices, &[4])?;
    // SAFETY: the arrays outlive the launch and have an element for each thread.
    unsafe { kernel.launch(&[4], &args, &LaunchOptions::default())? };
    println!("prices {prices:.4?}");
    // A call at the money for a year: 9.4134, as tables and other programs have it.
    assert!((prices[0] - 9.4134).abs() < 1e-4);

    // Its gradient: a kernel with the adjoints of all parameters.
    let backward = kernel.backward(&DerivativeRequest::new(vec![true; 6], 1))?;
    println!("{}", backward.kernel.signature());

    if !has_llvm() {
        println!("native functions and libraries need the feature `llvm`");
        return Ok(());
    }
    // Called, as a C function.
    let function = kernel.native_function()?;
    type Arrays = *const NativeArray<f64, 1>;
    let call = function.typed::<unsafe extern "C" fn(i64, Arrays, Arrays, Arrays, Arrays, Arrays, Arrays) -> i32>()?;
    let mut called = [0.0f64; 4];
    let array = |data: &mut [f64; 4]| NativeArray { data: data.as_mut_ptr(), shape: [4], strides: [8] };
    let inputs = book.each_mut().map(array);
    let [a, b, c, d, e] = &inputs;
    // SAFETY: the arrays are alive and have an element for each thread.
    assert_eq!(unsafe { call(4, a, b, c, d, e, &array(&mut called)) }, 0);
    assert_eq!(called, prices);

    // Shipped, for C, C++, Rust and Python.
    let folder = std::env::temp_dir().join(format!("pricing_language_{}", std::process::id()));
    let options = ArtifactOptions { has_shared_library: false, ..ArtifactOptions::new("options") };
    let mut artifact = Artifact::new(options)?;
    artifact.add_kernel(&kernel)?;
    artifact.add_backward(&kernel)?;
    for entry in artifact.write(&folder)?.entries {
        println!("{};", entry.prototype);
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
