//! Arguments of a launch: the packed block that compiled code reads.
//!
//! [`Params`] says what a kernel takes; an [`ArgBlock`] is filled parameter by parameter and checked against it as it
//! is filled, so that a full block always fits its kernel. What machine code relies on and cannot check is checked
//! here: extents fit the `int32` that `dim` gives, elements are aligned, and no index overflows an address.

use polyloom_codegen::ArgLayout;
use polyloom_ir::{Composite, Function, Scalar, Type};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parameters of a kernel.
#[derive(Clone, Debug)]
pub struct Params {
    /// Of these parameters and their clones alone. 0 is nobody's.
    id: u64,
    types: Vec<Type>,
    names: Vec<Arc<str>>,
    layout: ArgLayout,
    /// By parameter, if its last axes are the components of a composite: which. May be shorter than `types`.
    elements: Vec<Option<Composite>>,
}

impl Params {
    /// The parameters of `kernel`.
    pub fn of(kernel: &Function) -> Params {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Params {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            types: kernel.params().iter().map(|&p| kernel.ty(p)).collect(),
            names: kernel.param_names.clone(),
            layout: ArgLayout::of(kernel),
            elements: Vec::new(),
        }
    }

    /// The same parameters, where the last axes of some arrays are the components of composites.
    pub fn with_elements(self, elements: Vec<Option<Composite>>) -> Params {
        Params { elements, ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Their types.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Their names.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Where each lies in the block.
    pub fn layout(&self) -> &ArgLayout {
        &self.layout
    }
}

/// Why an argument does not fit its parameter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ArgError {
    /// More arguments than parameters, or a launch with fewer.
    #[error("{given} arguments given, {wanted} wanted")]
    Count {
        /// How many were given, as far as is known.
        given: usize,
        /// How many the kernel takes.
        wanted: usize,
    },
    /// Arguments that were given for the parameters of another kernel.
    #[error("the arguments were given for another kernel")]
    OtherKernel,
    /// A scalar for an array, an array for a scalar, or another element type.
    #[error("argument `{name}` must be {wanted}, not {given}")]
    Type {
        /// The parameter.
        name: Arc<str>,
        /// Its type, as Python spells it.
        wanted: String,
        /// What was given.
        given: String,
    },
    /// An array of another rank.
    #[error("argument `{name}` must have {wanted} dimensions, not {given}")]
    Rank {
        /// The parameter.
        name: Arc<str>,
        /// Its rank.
        wanted: usize,
        /// The rank given.
        given: usize,
    },
    /// An array whose last axes are not the components of its elements.
    #[error("argument `{name}` is an array of {wanted}: its last axes have the extents {extents:?}, not {given:?}")]
    Element {
        /// The parameter.
        name: Arc<str>,
        /// Its elements' type, as Python spells it.
        wanted: String,
        /// The extents of an element's components.
        extents: Vec<u16>,
        /// Those of the array's last axes.
        given: Vec<u64>,
    },
    /// Extents that an `int32` index cannot reach, or strides that leave the address space.
    #[error("argument `{name}` is too large: {reason}")]
    TooLarge {
        /// The parameter.
        name: Arc<str>,
        /// What is too large.
        reason: String,
    },
    /// Elements that are not at multiples of their size.
    #[error("the elements of argument `{name}` are not aligned to {bytes} bytes; pass a copy")]
    Misaligned {
        /// The parameter.
        name: Arc<str>,
        /// Size of an element.
        bytes: u32,
    },
    /// A slice with another number of elements than its shape.
    #[error("argument `{name}` has {elements} elements, its shape wants {wanted}")]
    Length {
        /// The parameter.
        name: Arc<str>,
        /// Elements in the slice.
        elements: usize,
        /// Elements in the shape.
        wanted: u64,
    },
}

/// Rust types that are elements of arrays.
pub trait Element: Copy + Send + Sync + 'static {
    /// The HIR type.
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($ty:ty => $scalar:ident),*) => { $(impl Element for $ty { const SCALAR: Scalar = Scalar::$scalar; })* };
}
elements!(bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64);

/// The arguments of one launch, packed as [`ArgLayout`] says, for the kernel whose [`Params`] it is filled with. Reusable: [`ArgBlock::clear`] keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct ArgBlock {
    words: Vec<u64>,
    n_params: usize,
    /// The [`Params::id`] of the first parameter given.
    given_for: u64,
}

impl ArgBlock {
    /// An empty block.
    pub fn new() -> ArgBlock {
        ArgBlock::default()
    }

    /// Empties the block.
    pub fn clear(&mut self) {
        self.words.clear();
        self.n_params = 0;
    }

    /// The packed words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many parameters have been given.
    pub fn len(&self) -> usize {
        self.n_params
    }

    /// Whether no parameter has been given.
    pub fn is_empty(&self) -> bool {
        self.n_params == 0
    }

    fn next<'p>(&mut self, params: &'p Params) -> Result<(Type, &'p Arc<str>), ArgError> {
        if self.n_params == 0 {
            self.given_for = params.id;
        }
        if self.given_for != params.id {
            return Err(ArgError::OtherKernel);
        }
        match (params.types.get(self.n_params), params.names.get(self.n_params)) {
            (Some(&ty), Some(name)) => Ok((ty, name)),
            _ => Err(ArgError::Count { given: self.n_params + 1, wanted: params.len() }),
        }
    }

    /// Gives the next parameter: a scalar of type `ty`. Bits beyond its width are ignored.
    ///
    /// # Errors
    ///
    /// If the parameter is none of that type, there is none left, or those before it are of another kernel.
    pub fn scalar(&mut self, params: &Params, ty: Scalar, bits: u64) -> Result<(), ArgError> {
        let (wanted, name) = self.next(params)?;
        if wanted != Type::Scalar(ty) {
            let (wanted, given) = (wanted.python_name(), ty.python_name().to_owned());
            return Err(ArgError::Type { name: name.clone(), wanted, given });
        }
        self.words.push(bits & (u64::MAX >> (64 - ty.bits())));
        self.n_params += 1;
        Ok(())
    }

    /// Gives the next parameter: an array of `elem` at `base` with these extents and byte strides.
    ///
    /// Nothing is read or written here; [`crate::launch`] says what must hold of the memory.
    ///
    /// # Errors
    ///
    /// If the parameter is no such array, there is none left, those before it are of another kernel, or the array is one
    /// that kernels cannot index.
    pub fn array(
        &mut self,
        params: &Params,
        elem: Scalar,
        base: *mut u8,
        shape: &[u64],
        strides: &[i64],
    ) -> Result<(), ArgError> {
        let (wanted, name) = self.next(params)?;
        let Some((wanted_elem, ndim)) = wanted.as_array().filter(|(wanted, _)| *wanted == elem) else {
            let given = Type::Array { elem, ndim: shape.len().min(4) as u8 }.python_name();
            return Err(ArgError::Type { name: name.clone(), wanted: wanted.python_name(), given });
        };
        if shape.len() != usize::from(ndim) || strides.len() != shape.len() {
            return Err(ArgError::Rank { name: name.clone(), wanted: ndim.into(), given: shape.len() });
        }
        if let Some(element) = params.elements.get(self.n_params).copied().flatten() {
            let inner = element.shape();
            let given = &shape[shape.len().saturating_sub(inner.len())..];
            if !given.iter().copied().eq(inner.iter().map(|&extent| u64::from(extent))) {
                let (wanted, given) = (element.python_name(), given.to_vec());
                return Err(ArgError::Element { name: name.clone(), wanted, extents: inner.to_vec(), given });
            }
        }
        check_geometry(name, wanted_elem, base, shape, strides)?;
        self.words.push(base as u64);
        self.words.extend_from_slice(shape);
        self.words.extend(strides.iter().map(|&s| s as u64));
        self.n_params += 1;
        Ok(())
    }

    /// Gives the next parameter: a dense row-major array over a slice.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`], and if the slice has not as many elements as the shape.
    pub fn slice<T: Element>(&mut self, params: &Params, data: &mut [T], shape: &[u64]) -> Result<(), ArgError> {
        let wanted = shape.iter().try_fold(1u64, |n, &e| n.checked_mul(e));
        if wanted != Some(data.len() as u64) {
            let (_, name) = self.next(params)?;
            let wanted = wanted.unwrap_or(u64::MAX);
            return Err(ArgError::Length { name: name.clone(), elements: data.len(), wanted });
        }
        let mut strides: SmallVec<[i64; 4]> = SmallVec::from_elem(0, shape.len());
        let mut stride = size_of::<T>() as i64;
        for axis in (0..shape.len()).rev() {
            strides[axis] = stride;
            // Cannot overflow unless an extent is 0: the product is the slice's length.
            stride = stride.wrapping_mul(shape[axis] as i64);
        }
        self.array(params, T::SCALAR, data.as_mut_ptr().cast(), shape, &strides)
    }

    /// Whether every parameter has been given, and given for these parameters.
    pub(crate) fn check_complete(&self, params: &Params) -> Result<(), ArgError> {
        if self.n_params == params.len() && (self.given_for == params.id || params.is_empty()) {
            return Ok(());
        }
        if self.n_params > 0 && self.given_for != params.id {
            return Err(ArgError::OtherKernel);
        }
        Err(ArgError::Count { given: self.n_params, wanted: params.len() })
    }
}

fn check_geometry(
    name: &Arc<str>,
    elem: Scalar,
    base: *mut u8,
    shape: &[u64],
    strides: &[i64],
) -> Result<(), ArgError> {
    let bytes = elem.bytes();
    // Where the farthest elements lie, as offsets from the base.
    let (mut low, mut high) = (0i64, 0i64);
    let mut in_range = true;
    for (axis, (&extent, &stride)) in shape.iter().zip(strides).enumerate() {
        if extent > i32::MAX as u64 {
            let reason = format!("extent {extent} along axis {axis} is more than int32 can index");
            return Err(ArgError::TooLarge { name: name.clone(), reason });
        }
        let steps = (extent as i64).saturating_sub(1).max(0);
        let farthest = stride.checked_mul(steps);
        let end = if stride < 0 { &mut low } else { &mut high };
        match farthest.and_then(|offset| end.checked_add(offset)) {
            Some(sum) => *end = sum,
            None => in_range = false,
        }
    }
    if shape.contains(&0) {
        return Ok(());
    }
    let address = base as u64;
    let fits = low.unsigned_abs() <= address
        && high.checked_add(bytes.into()).is_some_and(|high| address.checked_add(high as u64).is_some());
    if !in_range || !fits {
        let reason = "its strides reach outside the address space".to_owned();
        return Err(ArgError::TooLarge { name: name.clone(), reason });
    }
    let misaligned = |value: u64| value & u64::from(bytes - 1) != 0;
    let stride_misaligned = |(&extent, &stride): (&u64, &i64)| extent > 1 && misaligned(stride as u64);
    if misaligned(address) || shape.iter().zip(strides).any(stride_misaligned) {
        return Err(ArgError::Misaligned { name: name.clone(), bytes });
    }
    Ok(())
}
