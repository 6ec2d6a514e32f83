//! The signature language of the op table.
//!
//! A signature is written as text and parsed once when the table is first read:
//!
//! ```text
//! [T: float](x: T) -> T                                a type variable and its class
//! [T: number](array: array[T], index..., value: T) -> T   one index per dimension of the array
//! [T: number](arr: array1[T], value: T) -> i32         an array of one dimension
//! (inout state: u32, low: i32, high: i32) -> i32       the caller's variable is updated
//! [T: float](a: C[T], b: C[T]) -> C[T]                 one composite type of T throughout
//! [T: number](a: mat[T R C], b: vec[T C]) -> vec[T R]  extents that must agree where a letter recurs
//! (inout state: u32) -> vec[f32 2]                     a vector of a scalar type
//! ```
//!
//! An `inout` parameter is one more result, after those written: HIR values are immutable, so the front end rebinds
//! the caller's variable to it.

use crate::types::{Composite, Scalar, Type};
use smallvec::SmallVec;
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
    /// Integers, `f32` and `f64`.
    Wide,
    /// Numbers and `bool`.
    Scalar,
}

impl TypeClass {
    const NAMES: [(&'static str, TypeClass); 6] = [
        ("int", TypeClass::Int),
        ("bits", TypeClass::Bits),
        ("float", TypeClass::Float),
        ("number", TypeClass::Number),
        ("wide", TypeClass::Wide),
        ("scalar", TypeClass::Scalar),
    ];

    /// Returns true if `scalar` is in the class.
    pub fn contains(self, scalar: Scalar) -> bool {
        match self {
            TypeClass::Int => scalar.is_int(),
            TypeClass::Bits => scalar.is_int() || scalar == Scalar::Bool,
            TypeClass::Float => scalar.is_float(),
            TypeClass::Number => scalar != Scalar::Bool,
            TypeClass::Wide => scalar != Scalar::Bool && !scalar.is_half(),
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
    /// A one-dimensional array of `T`.
    ListOfVar,
    /// A one-dimensional array of this scalar.
    ArrayOf(Scalar),
    /// One integer of any type per dimension of the array operand.
    Indices,
    /// Any composite of `T`, the same wherever it stands in the signature.
    Composite,
    /// An array of that composite, with any number of dimensions.
    ArrayOfComposite,
    /// An array of any composite of `T`, indexed down to a component: its elements' dimensions follow its own.
    ArrayOfComponents,
    /// A vector of `T`.
    Vector(ExtentPattern),
    /// A vector of this scalar with this length.
    VectorOf(Scalar, u16),
    /// A matrix of `T`: rows and columns.
    Matrix(ExtentPattern, ExtentPattern),
    /// A quaternion of `T`.
    Quaternion,
    /// A transform of `T`.
    Transform,
}

/// An extent in a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentPattern {
    /// This one.
    Is(u16),
    /// The one this letter stands for.
    Var(char),
}

/// A parameter in a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureParam {
    /// Its name, as keyword arguments spell it.
    pub name: &'static str,
    /// Its type.
    pub ty: TyPattern,
    /// True if the caller's variable is updated.
    pub inout: bool,
}

/// One overload of an op.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The text it was parsed from.
    pub text: &'static str,
    /// Holds what `T` ranges over.
    pub var: Option<TypeClass>,
    /// Holds what `U` ranges over.
    pub var2: Option<TypeClass>,
    /// Parameters in order.
    pub params: Vec<SignatureParam>,
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
        let extent = |text: &str| match text.parse() {
            Ok(extent) => ExtentPattern::Is(extent),
            Err(_) => text.chars().next().map_or_else(|| malformed(), ExtentPattern::Var),
        };
        let composite = |text: &str| -> Option<TyPattern> {
            let (name, rest) = text.split_once("[T")?;
            let extents: Vec<ExtentPattern> = rest.strip_suffix(']')?.split_whitespace().map(extent).collect();
            match (name, &extents[..]) {
                ("C", []) => Some(TyPattern::Composite),
                ("vec", &[len]) => Some(TyPattern::Vector(len)),
                ("mat", &[rows, cols]) => Some(TyPattern::Matrix(rows, cols)),
                ("quat", []) => Some(TyPattern::Quaternion),
                ("transform", []) => Some(TyPattern::Transform),
                _ => None,
            }
        };
        let pattern = |text: &str| match text {
            "T" => TyPattern::Var,
            "U" => TyPattern::Var2,
            "array[T]" => TyPattern::ArrayOfVar,
            "array1[T]" => TyPattern::ListOfVar,
            "array[C]" => TyPattern::ArrayOfComposite,
            "array[C:T]" => TyPattern::ArrayOfComponents,
            _ if let Some(pattern) = composite(text) => pattern,
            _ if let Some(vector) = text.strip_prefix("vec[") => {
                let (elem, len) = vector.trim_end_matches(']').split_once(' ').unwrap_or_else(|| malformed());
                let elem = Scalar::from_name(elem).unwrap_or_else(|| malformed());
                TyPattern::VectorOf(elem, len.parse().unwrap_or_else(|_| malformed()))
            }
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
                    return SignatureParam { name, ty: TyPattern::Indices, inout: false };
                }
                let (inout, p) = p.strip_prefix("inout ").map_or((false, p), |p| (true, p));
                let Some((name, ty)) = p.split_once(':') else { malformed() };
                SignatureParam { name: name.trim(), ty: pattern(ty.trim()), inout }
            })
            .collect();
        let results = results.trim().trim_start_matches('(').trim_end_matches(')');
        let results = results.split(',').map(str::trim).filter(|r| !r.is_empty()).map(pattern).collect();
        Signature { text, var, var2, params, results }
    }

    /// Returns true if its types may be floats or made of floats.
    pub fn has_floats(&self) -> bool {
        let takes = |class: Option<TypeClass>| class.is_some_and(|class| class.members().any(Scalar::is_float));
        let is_float = |pattern: TyPattern| match pattern {
            TyPattern::Is(scalar) | TyPattern::ArrayOf(scalar) | TyPattern::VectorOf(scalar, _) => scalar.is_float(),
            _ => false,
        };
        let mut patterns = self.params.iter().map(|param| param.ty).chain(self.results.iter().copied());
        takes(self.var) || takes(self.var2) || patterns.any(is_float)
    }

    /// Returns true if it takes composites or arrays of them, or gives one.
    pub fn has_composites(&self) -> bool {
        let scalars = |pattern: TyPattern| {
            use TyPattern::{ArrayOf, ArrayOfVar, Indices, Is, ListOfVar, Var, Var2};
            matches!(pattern, Var | Var2 | Is(_) | ArrayOfVar | ListOfVar | ArrayOf(_) | Indices)
        };
        !self.params.iter().map(|param| param.ty).chain(self.results.iter().copied()).all(scalars)
    }

    /// Result types for these operand types, `inout` results included; `None` if the overload does not fit.
    pub fn result_types(&self, operands: &[Type]) -> Option<Vec<Type>> {
        self.bind(operands)
    }

    /// Returns true if the one result can have this type.
    pub fn result_could_be(&self, ty: Type) -> bool {
        matches!(self.results[..], [pattern] if BoundVariables::default().unify(self, pattern, ty).is_some())
    }

    /// Operand types for which the one result has this type; what that leaves open is `choose`n. `None` if the overload
    /// gives no such result, takes arrays, or nothing is chosen.
    pub fn operand_types(&self, result: Type, choose: &mut dyn ResultChoice) -> Option<Vec<Type>> {
        let [pattern] = self.results[..] else { return None };
        let mut bound = BoundVariables::default();
        bound.unify(self, pattern, result)?;
        self.params.iter().map(|param| bound.choose(self, param.ty, choose)).collect()
    }

    fn bind(&self, operands: &[Type]) -> Option<Vec<Type>> {
        let mut bound = BoundVariables::default();
        let mut inout = Vec::new();
        let mut next = operands.iter();
        for param in &self.params {
            if param.ty == TyPattern::Indices {
                for _ in 0..bound.ndim {
                    if !next.next()?.as_scalar()?.is_int() {
                        return None;
                    }
                }
                continue;
            }
            let ty = *next.next()?;
            bound.unify(self, param.ty, ty)?;
            if param.inout {
                inout.push(ty);
            }
        }
        if next.next().is_some() {
            return None;
        }
        let results = self.results.iter().map(|&pattern| bound.ty(pattern));
        results.chain(inout.into_iter().map(Some)).collect()
    }
}

/// Who decides what the variables of a signature stand for, where a result leaves it open.
pub trait ResultChoice {
    /// A scalar type of the class.
    fn scalar(&mut self, class: TypeClass) -> Option<Scalar>;
    /// A composite of this scalar type.
    fn composite(&mut self, elem: Scalar) -> Option<Composite>;
    /// The length of a vector, rows or columns of a matrix.
    fn extent(&mut self) -> u16;
}

/// Describes what the variables of a signature stand for.
#[derive(Default)]
struct BoundVariables {
    var: Option<Scalar>,
    var2: Option<Scalar>,
    composite: Option<Composite>,
    extents: SmallVec<[(char, u16); 4]>,
    /// Dimensions of the array operand.
    ndim: usize,
}

impl BoundVariables {
    /// Makes `pattern` stand for `ty`, or gives `None` if it cannot.
    fn unify(&mut self, signature: &Signature, pattern: TyPattern, ty: Type) -> Option<()> {
        let fits = match pattern {
            TyPattern::Var => return self.unify_var(signature, ty.as_scalar()?),
            TyPattern::Var2 => {
                let scalar = ty.as_scalar()?;
                let fits = signature.var2.is_some_and(|class| class.contains(scalar));
                *self.var2.get_or_insert(scalar) == scalar && fits
            }
            TyPattern::Is(scalar) => ty == Type::Scalar(scalar),
            TyPattern::ArrayOfVar => {
                let (elem, ndim) = ty.as_array()?;
                self.ndim = ndim.into();
                return self.unify_var(signature, elem);
            }
            TyPattern::ListOfVar => {
                let (elem, ndim) = ty.as_array()?;
                return self.unify_var(signature, elem).filter(|()| ndim == 1);
            }
            TyPattern::ArrayOf(elem) => ty.as_array() == Some((elem, 1)),
            TyPattern::Indices => true,
            TyPattern::ArrayOfComposite => {
                let Type::CompositeArray { elem, ndim, .. } = ty else { return None };
                self.ndim = ndim.into();
                return self.unify(signature, TyPattern::Composite, Type::Composite(elem));
            }
            TyPattern::ArrayOfComponents => {
                let Type::CompositeArray { elem, ndim, .. } = ty else { return None };
                self.ndim = usize::from(ndim) + elem.shape().len();
                return self.unify_var(signature, elem.elem());
            }
            TyPattern::Composite => {
                let composite = ty.as_composite()?;
                self.unify_var(signature, composite.elem())?;
                *self.composite.get_or_insert(composite) == composite
            }
            TyPattern::Vector(extent) => {
                let Composite::Vector { elem, len } = ty.as_composite()? else { return None };
                self.unify_var(signature, elem)?;
                self.unify_extent(extent, len)
            }
            TyPattern::VectorOf(elem, len) => ty == Type::Composite(Composite::Vector { elem, len }),
            TyPattern::Matrix(n_rows, n_cols) => {
                let Composite::Matrix { elem, rows, cols } = ty.as_composite()? else { return None };
                self.unify_var(signature, elem)?;
                self.unify_extent(n_rows, rows.into()) && self.unify_extent(n_cols, cols.into())
            }
            TyPattern::Quaternion => {
                let Composite::Quaternion { elem } = ty.as_composite()? else { return None };
                return self.unify_var(signature, elem);
            }
            TyPattern::Transform => {
                let Composite::Transform { elem } = ty.as_composite()? else { return None };
                return self.unify_var(signature, elem);
            }
        };
        fits.then_some(())
    }

    fn unify_var(&mut self, signature: &Signature, scalar: Scalar) -> Option<()> {
        let fits = signature.var.is_some_and(|class| class.contains(scalar));
        (*self.var.get_or_insert(scalar) == scalar && fits).then_some(())
    }

    fn unify_extent(&mut self, extent: ExtentPattern, given: u16) -> bool {
        match extent {
            ExtentPattern::Is(wanted) => wanted == given,
            ExtentPattern::Var(name) => match self.extents.iter().find(|(known, _)| *known == name) {
                Some(&(_, known)) => known == given,
                None => {
                    self.extents.push((name, given));
                    true
                }
            },
        }
    }

    /// The type of a parameter, what is open of it chosen.
    fn choose(&mut self, signature: &Signature, pattern: TyPattern, choose: &mut dyn ResultChoice) -> Option<Type> {
        use TyPattern::{Composite, Matrix, Quaternion, Transform, Var, Var2, Vector};
        if matches!(pattern, Var | Composite | Vector(_) | Matrix(..) | Quaternion | Transform) && self.var.is_none() {
            self.var = Some(choose.scalar(signature.var?)?);
        }
        match pattern {
            Var2 if self.var2.is_none() => self.var2 = Some(choose.scalar(signature.var2?)?),
            Composite if self.composite.is_none() => self.composite = Some(choose.composite(self.var?)?),
            Vector(len) => self.choose_extent(len, choose),
            Matrix(rows, cols) => [rows, cols].into_iter().for_each(|extent| self.choose_extent(extent, choose)),
            _ => {}
        }
        self.ty(pattern)
    }

    fn choose_extent(&mut self, extent: ExtentPattern, choose: &mut dyn ResultChoice) {
        if let ExtentPattern::Var(name) = extent
            && !self.extents.iter().any(|(known, _)| *known == name)
        {
            self.extents.push((name, choose.extent()));
        }
    }

    /// The type a result's pattern stands for.
    fn ty(&self, pattern: TyPattern) -> Option<Type> {
        let extent = |extent: ExtentPattern| match extent {
            ExtentPattern::Is(extent) => Some(extent),
            ExtentPattern::Var(name) => {
                self.extents.iter().find(|(known, _)| *known == name).map(|&(_, extent)| extent)
            }
        };
        Some(match pattern {
            TyPattern::Var => self.var?.into(),
            TyPattern::Var2 => self.var2?.into(),
            TyPattern::Is(scalar) => scalar.into(),
            TyPattern::Composite => self.composite?.into(),
            TyPattern::Vector(len) => Composite::Vector { elem: self.var?, len: extent(len)? }.into(),
            TyPattern::VectorOf(elem, len) => Composite::Vector { elem, len }.into(),
            TyPattern::Matrix(rows, cols) => {
                let [rows, cols] = [rows, cols].map(|n| extent(n).and_then(|n| u8::try_from(n).ok()));
                Composite::Matrix { elem: self.var?, rows: rows?, cols: cols? }.into()
            }
            TyPattern::Quaternion => Composite::Quaternion { elem: self.var? }.into(),
            TyPattern::Transform => Composite::Transform { elem: self.var? }.into(),
            TyPattern::ArrayOfVar
            | TyPattern::ListOfVar
            | TyPattern::ArrayOf(_)
            | TyPattern::ArrayOfComposite
            | TyPattern::ArrayOfComponents
            | TyPattern::Indices => return None,
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}
