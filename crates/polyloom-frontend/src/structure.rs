//! Struct types: what `@loom.struct` makes of a class.
//!
//! HIR knows no structs. A value of a struct type is one value for each of its leaves, the fields that are no structs
//! themselves, in the order of their declaration; an array of structs is one array for each leaf. The checker does
//! that: what it hands on has locals, parameters and results for leaves alone.

use polyloom_ir::{AddressSpace, Code, Type, array_name};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Leaves that a struct type may have, those of structs within it included.
const MAX_LEAVES: usize = 256;

/// A struct type. Two of the same name with the same fields are the same type.
#[derive(Clone, Copy)]
pub struct StructType(&'static StructDefinition);

#[derive(PartialEq, Eq, Hash)]
struct StructDefinition {
    name: Box<str>,
    fields: Box<[StructField]>,
    leaves: Box<[StructLeaf]>,
}

/// A field of a struct type.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct StructField {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub ty: ValueType,
    /// Number of leaves those before it have.
    pub first_leaf: usize,
}

/// A field of a struct, or of a struct within it, that is no struct itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StructLeaf {
    /// The names of the fields that lead to it: `pose.position`.
    pub path: Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// The type of a value in source text: one of HIR, or a struct or an array of structs, of which HIR has the leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueType {
    /// A type of HIR.
    Plain(Type),
    /// A struct.
    Struct(StructType),
    /// An array of structs.
    StructArray {
        /// Its elements.
        elem: StructType,
        /// Number of dimensions.
        ndim: u8,
        /// The place where the memory of all leaves is.
        space: AddressSpace,
    },
}

impl StructType {
    /// The struct type of this name with these fields.
    ///
    /// # Errors
    ///
    /// If one is there twice, or there are too many: in words.
    pub fn new(name: &str, fields: impl IntoIterator<Item = (String, ValueType)>) -> Result<StructType, String> {
        let mut made: Vec<StructField> = Vec::new();
        let mut leaves: Vec<StructLeaf> = Vec::new();
        for (field, ty) in fields {
            if made.iter().any(|known| *known.name == *field) {
                return Err(format!("the struct `{name}` has two fields `{field}`"));
            }
            made.push(StructField { name: field.as_str().into(), ty, first_leaf: leaves.len() });
            leaves.extend(ty.leaves(&field));
            if leaves.len() > MAX_LEAVES {
                return Err(format!(
                    "the struct `{name}` has more than {MAX_LEAVES} fields, those of its structs included"
                ));
            }
        }
        let definition = StructDefinition { name: name.into(), fields: made.into(), leaves: leaves.into() };
        Ok(StructType(StructDefinition::interned(definition)))
    }

    /// Returns what an indexed array is: the array, and for each of its dimensions the indices that choose among it.
    /// The name is none that a class could have.
    pub fn indexed_array(elem: Type, ndim: u8) -> Option<StructType> {
        let name = format!("indexedarray(dtype={}, ndim={ndim})", elem.python_name());
        let data = ("data".to_owned(), ValueType::Plain(Type::array_of(elem, ndim)?));
        let indices = Type::array(polyloom_ir::Scalar::I32, 1);
        let indices = (0..ndim).map(|axis| (format!("indices{axis}"), ValueType::Plain(indices)));
        StructType::new(&name, std::iter::once(data).chain(indices)).ok()
    }

    /// If it is a type of indexed arrays, the type of their elements and the number of their dimensions.
    pub(crate) fn as_indexed_array(self) -> Option<(Type, u8)> {
        let data = self.is_indexed_array().then(|| self.field("data"))??;
        match data.ty {
            ValueType::Plain(array) => array.as_any_array(),
            ValueType::Struct(_) | ValueType::StructArray { .. } => None,
        }
    }

    /// Returns true if it is a type of indexed arrays.
    pub fn is_indexed_array(self) -> bool {
        self.name().starts_with("indexedarray(")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Its fields in the order of their declaration.
    pub fn fields(self) -> &'static [StructField] {
        &self.0.fields
    }

    /// Its leaves in the order of their declaration.
    pub fn leaves(self) -> &'static [StructLeaf] {
        &self.0.leaves
    }

    /// The field of a name.
    pub fn field(self, name: &str) -> Option<&'static StructField> {
        self.fields().iter().find(|field| *field.name == *name)
    }

    /// The path of a leaf that is an array, if there is one.
    pub fn array_within(self) -> Option<&'static str> {
        self.leaves().iter().find(|leaf| leaf.ty.as_any_array().is_some()).map(|leaf| &*leaf.path)
    }

    /// The reason why it cannot be the element of an array, in words, with what to do instead.
    pub(crate) fn why_no_array(self) -> Option<(Code, String, String)> {
        let name = self.name();
        if self.leaves().is_empty() {
            let message = format!("an array of `{name}` is not supported: it has no fields");
            return Some((Code::BadAnnotation, message, "give the struct a field".to_owned()));
        }
        if let Some(path) = self.array_within() {
            let message = format!("an array of `{name}` is not supported: its field `{path}` is an array");
            let help = format!("pass the arrays one by one, or one `{name}` that is no element");
            return Some((Code::NotSupportedYet, message, help));
        }
        None
    }
}

impl StructLeaf {
    /// The array of it that an array of its structs has.
    fn array(&self, ndim: u8, space: AddressSpace) -> Option<Type> {
        Some(Type::array_of(self.ty, ndim)?.in_space(space))
    }
}

impl StructDefinition {
    /// The one definition equal to this, because struct types compare and are copied as addresses. They live as long as
    /// the process does, as the classes of a Python program mostly do.
    fn interned(definition: StructDefinition) -> &'static StructDefinition {
        static KNOWN: LazyLock<Mutex<FxHashSet<&'static StructDefinition>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&definition) {
            Some(known) => known,
            None => {
                let made: &'static StructDefinition = Box::leak(Box::new(definition));
                known.insert(made);
                made
            }
        }
    }
}

impl PartialEq for StructType {
    fn eq(&self, other: &StructType) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for StructType {}

impl Hash for StructType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for StructType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StructType({})", self.name())
    }
}

impl ValueType {
    /// An array of structs in global memory.
    pub fn struct_array(elem: StructType, ndim: u8) -> ValueType {
        ValueType::StructArray { elem, ndim, space: AddressSpace::Global }
    }

    /// The same type of arrays elsewhere; other types as they are.
    #[must_use]
    pub fn in_space(self, space: AddressSpace) -> ValueType {
        match self {
            ValueType::Plain(ty) => ty.in_space(space).into(),
            ValueType::Struct(_) => self,
            ValueType::StructArray { elem, ndim, .. } => ValueType::StructArray { elem, ndim, space },
        }
    }

    /// The type, if it is one of HIR.
    pub fn as_plain(self) -> Option<Type> {
        match self {
            ValueType::Plain(ty) => Some(ty),
            ValueType::Struct(_) | ValueType::StructArray { .. } => None,
        }
    }

    /// Returns true if it is an array, of structs or of anything else.
    pub fn is_array(self) -> bool {
        match self {
            ValueType::Plain(ty) => ty.as_any_array().is_some(),
            ValueType::Struct(_) => false,
            ValueType::StructArray { .. } => true,
        }
    }

    /// True if a leaf of it is an array.
    pub(crate) fn has_arrays(self) -> bool {
        self.leaf_types().iter().any(|leaf| leaf.as_any_array().is_some())
    }

    /// Its leaves, for a variable of this name: the variable itself, if it is no struct.
    pub fn leaves(self, name: &str) -> SmallVec<[StructLeaf; 1]> {
        let below = |leaf: &StructLeaf| -> Arc<str> { format!("{name}.{}", leaf.path).into() };
        match self {
            ValueType::Plain(ty) => SmallVec::from_elem(StructLeaf { path: name.into(), ty }, 1),
            ValueType::Struct(of) => {
                of.leaves().iter().map(|leaf| StructLeaf { path: below(leaf), ty: leaf.ty }).collect()
            }
            ValueType::StructArray { elem, ndim, space } => {
                // Every leaf of a struct that arrays have as elements is an element too.
                let array = |leaf: &StructLeaf| Some(StructLeaf { path: below(leaf), ty: leaf.array(ndim, space)? });
                elem.leaves().iter().filter_map(array).collect()
            }
        }
    }

    /// The reason why nothing has this type, in words, with what to do instead: an array in it cannot be.
    pub(crate) fn why_no_parameter(self) -> Option<(Code, String, String)> {
        match self {
            ValueType::Plain(_) => None,
            ValueType::StructArray { elem, .. } => elem.why_no_array(),
            ValueType::Struct(of) => of.fields().iter().find_map(|field| field.ty.why_no_parameter()),
        }
    }

    /// The types of its leaves.
    pub fn leaf_types(self) -> SmallVec<[Type; 4]> {
        match self {
            ValueType::Plain(ty) => smallvec![ty],
            ValueType::Struct(of) => of.leaves().iter().map(|leaf| leaf.ty).collect(),
            ValueType::StructArray { elem, ndim, space } => {
                elem.leaves().iter().filter_map(|leaf| leaf.array(ndim, space)).collect()
            }
        }
    }

    /// Returns the number of leaves it has.
    pub fn n_leaves(self) -> usize {
        match self {
            ValueType::Plain(_) => 1,
            ValueType::Struct(of) | ValueType::StructArray { elem: of, .. } => of.leaves().len(),
        }
    }

    /// The type as a Python user writes it.
    pub fn python_name(self) -> String {
        match self {
            ValueType::Plain(ty) => ty.python_name(),
            ValueType::Struct(of) => of.name().to_owned(),
            ValueType::StructArray { elem, ndim, space } => array_name(elem.name(), ndim, space),
        }
    }
}

impl From<Type> for ValueType {
    fn from(ty: Type) -> ValueType {
        ValueType::Plain(ty)
    }
}

impl From<polyloom_ir::Scalar> for ValueType {
    fn from(scalar: polyloom_ir::Scalar) -> ValueType {
        ValueType::Plain(scalar.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{StructType, ValueType};
    use polyloom_ir::{AddressSpace, Scalar, Type};

    fn pair(name: &str) -> StructType {
        let fields = [("a".to_owned(), Type::F32.into()), ("b".to_owned(), Type::I32.into())];
        StructType::new(name, fields).expect("two fields")
    }

    #[test]
    fn equal_definitions_are_one_type() {
        assert_eq!(pair("Pair"), pair("Pair"));
        assert_ne!(pair("Pair"), pair("Other"));
    }

    #[test]
    fn leaves_of_nested_structs_have_paths() {
        let fields = [("first".to_owned(), ValueType::Struct(pair("Pair"))), ("x".to_owned(), Type::F64.into())];
        let outer = StructType::new("Outer", fields).expect("two fields");
        let paths: Vec<String> = outer.leaves().iter().map(|leaf| format!("{}: {}", leaf.path, leaf.ty)).collect();
        assert_eq!(paths, ["first.a: f32", "first.b: i32", "x: f64"]);
        assert_eq!(outer.field("x").map(|field| field.first_leaf), Some(2));
        let array = ValueType::struct_array(outer, 2);
        assert_eq!(array.leaves("o")[2].ty, Type::array(Scalar::F64, 2));
        let shared = array.in_space(AddressSpace::Shared);
        assert_eq!(shared.leaves("o")[2].ty, Type::array(Scalar::F64, 2).in_space(AddressSpace::Shared));
        assert_eq!(shared.leaf_types()[1].space(), Some(AddressSpace::Shared));
        assert_eq!(shared.python_name(), "shared array(dtype=Outer, ndim=2)");
    }

    #[test]
    fn what_is_no_struct_is_refused() {
        let twice = ["a", "a"].map(|name| (name.to_owned(), Type::F32.into()));
        assert!(StructType::new("Twice", twice).is_err());
        assert!(StructType::new("Empty", []).is_ok_and(|empty| empty.why_no_array().is_some()));
    }
}
