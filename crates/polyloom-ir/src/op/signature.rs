//! The signature language of the op table.
//!
//! A signature is written as text and parsed once when the table is first read:
//!
//! ```text
//! [T: float](x: T) -> T                                a type variable and its class
//! [T: number](array: array[T], index..., value: T) -> T   one index per dimension of the array
//! (inout state: u32, low: i32, high: i32) -> i32       the caller's variable is updated
//! ```
//!
//! An `inout` parameter is one more result, after those written: HIR values are immutable, so the front end rebinds
//! the caller's variable to it.

use crate::types::{Scalar, Type};
use std::fmt;

/// A set of scalar types a type variable ranges over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeClass {
    /// Signed and unsigned integers.
    Int,
    /// Integers and `bool`.
    Bits,
    /// `f16`, `bf16`, `f32`, `f64`.
    Float,
    /// Integers and floats.
    Number,
    /// Numbers and `bool`.
    Scalar,
}

impl TypeClass {
    const NAMES: [(&'static str, TypeClass); 5] = [
        ("int", TypeClass::Int),
        ("bits", TypeClass::Bits),
        ("float", TypeClass::Float),
        ("number", TypeClass::Number),
        ("scalar", TypeClass::Scalar),
    ];

    /// Whether `scalar` is in the class.
    pub fn contains(self, scalar: Scalar) -> bool {
        match self {
            TypeClass::Int => scalar.is_int(),
            TypeClass::Bits => scalar.is_int() || scalar == Scalar::Bool,
            TypeClass::Float => scalar.is_float(),
            TypeClass::Number => scalar != Scalar::Bool,
            TypeClass::Scalar => true,
        }
    }

    /// The class's name in signatures.
    pub fn name(self) -> &'static str {
        TypeClass::NAMES.iter().find(|(_, class)| *class == self).map_or("", |(name, _)| name)
    }

    /// The members, in [`Scalar::ALL`] order.
    pub fn members(self) -> impl Iterator<Item = Scalar> {
        Scalar::ALL.into_iter().filter(move |s| self.contains(*s))
    }
}

/// The type of a parameter or result in a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TyPattern {
    /// The type the signature's variable `T` stands for.
    Var,
    /// The type the signature's second variable `U` stands for.
    Var2,
    /// This scalar type.
    Is(Scalar),
    /// An array of `T` with any number of dimensions.
    ArrayOfVar,
    /// A one-dimensional array of this scalar.
    ArrayOf(Scalar),
    /// One integer of any type per dimension of the array operand.
    Indices,
}

/// A parameter in a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name, as keyword arguments spell it.
    pub name: &'static str,
    /// Its type.
    pub ty: TyPattern,
    /// Whether the caller's variable is updated.
    pub inout: bool,
}

/// One overload of an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The text it was parsed from.
    pub text: &'static str,
    /// What `T` ranges over.
    pub var: Option<TypeClass>,
    /// What `U` ranges over.
    pub var2: Option<TypeClass>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Results in order, without those of `inout` parameters.
    pub results: Vec<TyPattern>,
}

impl Signature {
    /// Parses a signature of the table.
    ///
    /// # Panics
    ///
    /// On malformed text: the table is part of the program, and a test reads all of it.
    pub fn parse(text: &'static str) -> Signature {
        let malformed = || -> ! { panic!("malformed signature in the op table: {text}") };
        let mut rest = text.trim();
        let (mut var, mut var2) = (None, None);
        if let Some(after) = rest.strip_prefix('[') {
            let Some((vars, after)) = after.split_once(']') else { malformed() };
            for decl in vars.split(',') {
                let Some((name, class)) = decl.split_once(':') else { malformed() };
                let class = TypeClass::NAMES.iter().find(|(n, _)| *n == class.trim()).map(|(_, c)| *c);
                match name.trim() {
                    "T" if class.is_some() => var = class,
                    "U" if class.is_some() => var2 = class,
                    _ => malformed(),
                }
            }
            rest = after.trim_start();
        }
        let Some((params, results)) = rest.split_once("->").map_or_else(|| Some((rest, "")), Some) else { malformed() };
        let Some(params) = params.trim().strip_prefix('(').and_then(|p| p.strip_suffix(')')) else { malformed() };
        let pattern = |text: &str| match text {
            "T" => TyPattern::Var,
            "U" => TyPattern::Var2,
            "array[T]" => TyPattern::ArrayOfVar,
            _ => match text.strip_prefix("array[").and_then(|t| t.strip_suffix(']')) {
                Some(elem) => Scalar::from_name(elem).map_or_else(|| malformed(), TyPattern::ArrayOf),
                None => Scalar::from_name(text).map_or_else(|| malformed(), TyPattern::Is),
            },
        };
        let params = params
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(|p| {
                if let Some(name) = p.strip_suffix("...") {
                    return Param { name, ty: TyPattern::Indices, inout: false };
                }
                let (inout, p) = p.strip_prefix("inout ").map_or((false, p), |p| (true, p));
                let Some((name, ty)) = p.split_once(':') else { malformed() };
                Param { name: name.trim(), ty: pattern(ty.trim()), inout }
            })
            .collect();
        let results = results.trim().trim_start_matches('(').trim_end_matches(')');
        let results = results.split(',').map(str::trim).filter(|r| !r.is_empty()).map(pattern).collect();
        Signature { text, var, var2, params, results }
    }

    /// Result types for these operand types, `inout` results included; `None` if the overload does not fit.
    pub fn result_types(&self, operands: &[Type]) -> Option<Vec<Type>> {
        self.bind(operands)
    }

    fn bind(&self, operands: &[Type]) -> Option<Vec<Type>> {
        let (mut var, mut var2) = (None::<Scalar>, None::<Scalar>);
        let mut inout = Vec::new();
        let mut ndim = 0usize;
        let mut next = operands.iter();
        let unify = |slot: &mut Option<Scalar>, class: Option<TypeClass>, scalar: Scalar| match slot {
            Some(bound) => *bound == scalar,
            None => {
                *slot = Some(scalar);
                class.is_some_and(|c| c.contains(scalar))
            }
        };
        for param in &self.params {
            if param.ty == TyPattern::Indices {
                for _ in 0..ndim {
                    if !next.next()?.as_scalar()?.is_int() {
                        return None;
                    }
                }
                continue;
            }
            let ty = *next.next()?;
            let fits = match param.ty {
                TyPattern::Var => unify(&mut var, self.var, ty.as_scalar()?),
                TyPattern::Var2 => unify(&mut var2, self.var2, ty.as_scalar()?),
                TyPattern::Is(scalar) => ty == Type::Scalar(scalar),
                TyPattern::ArrayOfVar => {
                    let (elem, n) = ty.as_array()?;
                    ndim = n as usize;
                    unify(&mut var, self.var, elem)
                }
                TyPattern::ArrayOf(elem) => ty == Type::Array { elem, ndim: 1 },
                TyPattern::Indices => true,
            };
            if !fits {
                return None;
            }
            if param.inout {
                inout.push(ty);
            }
        }
        if next.next().is_some() {
            return None;
        }
        let mut results = Vec::with_capacity(self.results.len() + inout.len());
        for pattern in &self.results {
            results.push(Type::Scalar(match pattern {
                TyPattern::Var => var?,
                TyPattern::Var2 => var2?,
                TyPattern::Is(scalar) => *scalar,
                TyPattern::ArrayOfVar | TyPattern::ArrayOf(_) | TyPattern::Indices => return None,
            }));
        }
        results.extend(inout);
        Some(results)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}
