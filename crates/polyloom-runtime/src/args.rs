//! Arguments of a launch: the packed block that compiled code reads.
//!
//! [`KernelParams`] says what a kernel takes. An [`ArgBlock`] is filled parameter by parameter and checked against that
//! meanwhile, so that a full block always fits its kernel. What machine code relies on and cannot check is checked
//! here: extents fit the `int32` that `dim` gives, and so does what a kernel reads of an array's size, elements are
//! aligned, and no index overflows an address.

use crate::device::layout::ArrayLayout;
use polyloom_codegen::ArgLayout;
use polyloom_ir::{Composite, Function, MAX_AXES, Scalar, Type};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parameters of a kernel.
#[derive(Clone, Debug)]
pub struct KernelParams {
    /// Identity of these parameters and their clones alone. 0 is nobody's.
    id: u64,
    types: Vec<Type>,
    names: Vec<Arc<str>>,
    layout: ArgLayout,
    /// The composite whose components are the last axes of each array parameter. May be shorter than `types`.
    elements: Vec<Option<Composite>>,
    /// True if arrays of several axes have at most as many elements as an `int32` counts.
    sizes_are_int32: bool,
}

impl KernelParams {
    /// The parameters of `kernel`.
    pub fn of(kernel: &Function) -> KernelParams {
        let types = kernel.params().iter().map(|&param| kernel.ty(param));
        KernelParams::new(kernel.param_names.iter().cloned().zip(types), Vec::new())
    }

    /// Parameters of these names and types. `elements` says, by parameter, which composites an array's last axes are
    /// the components of; it may be shorter than the parameters are many.
    pub fn new(params: impl IntoIterator<Item = (Arc<str>, Type)>, elements: Vec<Option<Composite>>) -> KernelParams {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (names, types): (Vec<Arc<str>>, Vec<Type>) = params.into_iter().unzip();
        let layout = ArgLayout::new(types.iter().copied());
        KernelParams {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            types,
            names,
            layout,
            elements,
            sizes_are_int32: false,
        }
    }

    /// The same, of a kernel that reads the numbers of elements of arrays of several axes.
    #[must_use]
    pub fn with_int32_sizes(self) -> KernelParams {
        KernelParams { sizes_are_int32: true, ..self }
    }

    /// Returns which composite the last axes of an array are the components of.
    pub(crate) fn element(&self, param: usize) -> Option<Composite> {
        self.elements.get(param).copied().flatten()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns true if there are none.
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

    /// Returns where each lies in the block.
    pub fn layout(&self) -> &ArgLayout {
        &self.layout
    }

    /// Returns which words of the block are a parameter's.
    fn words_of(&self, param: usize) -> Range<usize> {
        let end = self.layout.offsets.get(param + 1).copied().unwrap_or(self.layout.size);
        self.layout.offsets[param] as usize / 8..end as usize / 8
    }

    /// Returns how many arrays stand before a parameter.
    fn array_number(&self, param: usize) -> usize {
        self.types[..param].iter().filter(|ty| ty.as_array().is_some()).count()
    }

    /// Tells whether arrays of these elements, extents and strides fit the parameter.
    fn check_array(&self, param: usize, elem: Scalar, shape: &[u64], strides: &[i64]) -> Result<(), ArgError> {
        let (wanted, name) = (self.types[param], &self.names[param]);
        let Some((_, ndim)) = wanted.as_array().filter(|(wanted, _)| *wanted == elem) else {
            let given = Type::array(elem, shape.len().min(4) as u8).python_name();
            return Err(ArgError::Type { name: name.clone(), wanted: wanted.python_name(), given });
        };
        if shape.len() != usize::from(ndim) || strides.len() != shape.len() {
            return Err(ArgError::Rank { name: name.clone(), wanted: ndim.into(), given: shape.len() });
        }
        if let Some(element) = self.element(param) {
            let inner = element.shape();
            let given = &shape[shape.len().saturating_sub(inner.len())..];
            if !given.iter().copied().eq(inner.iter().map(|&extent| u64::from(extent))) {
                let (wanted, given) = (element.python_name(), given.to_vec());
                return Err(ArgError::Element { name: name.clone(), wanted, extents: inner.to_vec(), given });
            }
        }
        if self.sizes_are_int32 {
            let n_inner = self.element(param).map_or(0, |element| element.shape().len());
            check_size(name, &shape[..shape.len() - n_inner])?;
        }
        Ok(())
    }
}

/// Why an argument does not fit its parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgError {
    /// More arguments than parameters, or a launch with fewer.
    Count {
        /// Says how many were given, as far as is known.
        given: usize,
        /// Says how many the kernel takes.
        wanted: usize,
    },
    /// Arguments that were given for the parameters of another kernel.
    OtherKernel,
    /// A scalar for an array, an array for a scalar, or another element type.
    Type {
        /// The parameter.
        name: Arc<str>,
        /// Its type, as Python spells it.
        wanted: String,
        /// Holds what was given.
        given: String,
    },
    /// An array of another rank.
    Rank {
        /// The parameter.
        name: Arc<str>,
        /// Its rank.
        wanted: usize,
        /// The rank given.
        given: usize,
    },
    /// An array whose last axes are not the components of its elements.
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
    TooLarge {
        /// The parameter.
        name: Arc<str>,
        /// Holds what is too large.
        reason: String,
    },
    /// Elements that are not at multiples of their size.
    Misaligned {
        /// The parameter.
        name: Arc<str>,
        /// Size of an element.
        bytes: u32,
    },
    /// An array in a device's memory, where one of the host is wanted.
    OnDevice {
        /// The parameter.
        name: Arc<str>,
    },
    /// A slice with another number of elements than its shape.
    Length {
        /// The parameter.
        name: Arc<str>,
        /// Elements in the slice.
        elements: usize,
        /// Elements in the shape.
        wanted: u64,
    },
}

impl ArgError {
    /// The parameter that an argument does not fit, and the end of a sentence that begins with the argument.
    pub fn of_parameter(&self) -> Option<(&str, String)> {
        let (name, problem) = match self {
            ArgError::Count { .. } | ArgError::OtherKernel => return None,
            ArgError::Type { name, wanted, given } => (name, format!("must be {wanted}, not {given}")),
            ArgError::Rank { name, wanted, given } => (name, format!("must have {wanted} dimensions, not {given}")),
            ArgError::Element { name, wanted, extents, given } => {
                let problem =
                    format!("is an array of {wanted}: its last axes have the extents {extents:?}, not {given:?}");
                (name, problem)
            }
            ArgError::TooLarge { name, reason } => (name, format!("is too large: {reason}")),
            ArgError::Misaligned { name, bytes } => {
                (name, format!("has elements that are not aligned to {bytes} bytes; pass a copy"))
            }
            ArgError::OnDevice { name } => {
                (name, "is in the memory of a device, and the launch is on the CPU".to_owned())
            }
            ArgError::Length { name, elements, wanted } => {
                (name, format!("has {elements} elements, its shape wants {wanted}"))
            }
        };
        Some((name, problem))
    }
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.of_parameter()) {
            (_, Some((name, problem))) => write!(f, "argument `{name}` {problem}"),
            (ArgError::Count { given, wanted }, _) => write!(f, "{given} arguments given, {wanted} wanted"),
            _ => f.write_str("the arguments were given for another kernel"),
        }
    }
}

impl std::error::Error for ArgError {}

/// Rust types that are elements of arrays.
pub trait ArrayElement: Copy + Send + Sync + 'static {
    /// The HIR type.
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($ty:ty => $scalar:ident),*) => { $(impl ArrayElement for $ty { const SCALAR: Scalar = Scalar::$scalar; })* };
}
elements!(bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64);

/// The arguments of one launch, packed as [`ArgLayout`] says, for the kernel whose [`KernelParams`] it is filled with.
/// Reusable: [`ArgBlock::clear`] keeps its memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ArgBlock {
    words: Vec<u64>,
    /// Footprints of the array parameters, in their order.
    footprints: Vec<Footprint>,
    n_params: usize,
    /// The [`KernelParams::id`] of the first parameter given.
    given_for: u64,
    /// The parameters whose arrays are in a device's memory.
    resident: SmallVec<[u32; 8]>,
}

/// Describes how an array lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Address of its first byte, and of the one past its last; both 0 if it has no elements.
    begin: u64,
    end: u64,
    /// Its elements are in blocks of `width` bytes, which begin at multiples of `step` from `begin`, as a field does in
    /// an array of structs. A step of 0 says that it is one block.
    step: u64,
    width: u64,
    /// True if its first element is at a multiple of 64 bytes.
    pub(crate) is_aligned: bool,
    /// True if it is dense and row-major, or empty.
    pub(crate) is_contiguous: bool,
    /// True if `int32` holds the byte offsets of all its elements.
    pub(crate) offsets_fit_i32: bool,
    /// True if two of its elements may have bytes in common, as in a broadcast view.
    pub(crate) overlaps_itself: bool,
}

impl Footprint {
    /// The addresses from its first byte to its last; none if it has no elements.
    pub fn addresses(&self) -> Range<u64> {
        self.begin..self.end
    }

    /// Returns true if two of its elements may have bytes in common, as in a broadcast view.
    pub fn overlaps_itself(&self) -> bool {
        self.overlaps_itself
    }

    /// Returns the number of bytes that lie between its first and its last.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.begin
    }

    /// Returns true if the two may have elements in common: their addresses overlap, and they are not seen to be
    /// different fields of one array of structs.
    #[inline]
    pub fn overlaps(&self, other: &Footprint) -> bool {
        self.begin < other.end && other.begin < self.end && !self.lies_between(other)
    }

    /// Returns true if all blocks of the other lie between this one's.
    fn lies_between(&self, other: &Footprint) -> bool {
        if self.step != other.step || self.step == 0 {
            return false;
        }
        let apart = (i128::from(other.begin) - i128::from(self.begin)).rem_euclid(i128::from(self.step));
        i128::from(self.width) <= apart && apart + i128::from(other.width) <= i128::from(self.step)
    }
}

/// Returns true if elements of so many bytes may overlap: along some axis they are closer than all there is along the
/// axes with smaller strides.
#[cold]
fn overlaps_itself(bytes: u64, shape: &[u64], strides: &[i64]) -> bool {
    let mut axes: SmallVec<[(u64, u64); MAX_AXES]> =
        strides.iter().map(|stride| stride.unsigned_abs()).zip(shape.iter().copied()).collect();
    axes.retain(|&mut (_, extent)| extent > 1);
    axes.sort_unstable();
    let mut extends = bytes;
    axes.iter().any(|&(distance, extent)| {
        let overlaps = distance < extends;
        extends = extends.saturating_add(distance.saturating_mul(extent - 1));
        overlaps
    })
}

/// An array as an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgArray {
    /// The type of its numbers.
    pub elem: Scalar,
    /// Says how they lie in memory. The last axes are the components of composites.
    pub layout: ArrayLayout,
    /// True if that is the memory of the launch's device, and not the host's.
    pub is_resident: bool,
}

impl ArgArray {
    /// Looks at its memory.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`]; `name` is what the error calls it.
    pub fn footprint(&self, name: &Arc<str>) -> Result<Footprint, ArgError> {
        let ArrayLayout { base, extents, strides, .. } = &self.layout;
        footprint_of(name, self.elem, *base as *mut u8, extents, strides)
    }
}

impl ArgBlock {
    /// An empty block.
    pub fn new() -> ArgBlock {
        ArgBlock::default()
    }

    /// Empties the block.
    pub fn clear(&mut self) {
        self.words.clear();
        self.footprints.clear();
        self.resident.clear();
        self.n_params = 0;
    }

    /// The packed words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns how the arrays given so far lie in memory, in the order of their parameters.
    pub fn footprints(&self) -> &[Footprint] {
        &self.footprints
    }

    /// Returns the number of parameters that have been given.
    pub fn len(&self) -> usize {
        self.n_params
    }

    /// Returns true if no parameter has been given.
    pub fn is_empty(&self) -> bool {
        self.n_params == 0
    }

    fn next<'p>(&mut self, params: &'p KernelParams) -> Result<(Type, &'p Arc<str>), ArgError> {
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
    pub fn scalar(&mut self, params: &KernelParams, ty: Scalar, bits: u64) -> Result<(), ArgError> {
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
    /// If the parameter is no such array, there is none left, those before it are of another kernel, or the array is
    /// one that kernels cannot index.
    pub fn array(
        &mut self,
        params: &KernelParams,
        elem: Scalar,
        base: *mut u8,
        shape: &[u64],
        strides: &[i64],
    ) -> Result<(), ArgError> {
        let (_, name) = self.next(params)?;
        params.check_array(self.n_params, elem, shape, strides)?;
        self.footprints.push(footprint_of(name, elem, base, shape, strides)?);
        self.words.reserve(1 + 2 * shape.len());
        self.words.push(base as u64);
        shape.iter().for_each(|&extent| self.words.push(extent));
        strides.iter().for_each(|&stride| self.words.push(stride as u64));
        self.n_params += 1;
        Ok(())
    }

    /// Replaces a scalar that was given. Bits beyond its width are ignored. Gives whether that changes anything.
    ///
    /// # Errors
    ///
    /// If the parameter is none of that type, or has not been given for this kernel.
    pub fn replace_scalar(
        &mut self,
        params: &KernelParams,
        param: usize,
        ty: Scalar,
        bits: u64,
    ) -> Result<bool, ArgError> {
        self.check_given(params, param)?;
        let wanted = params.types[param];
        if wanted != Type::Scalar(ty) {
            let (wanted, given) = (wanted.python_name(), ty.python_name().to_owned());
            return Err(ArgError::Type { name: params.names[param].clone(), wanted, given });
        }
        let bits = bits & (u64::MAX >> (64 - ty.bits()));
        let before = std::mem::replace(&mut self.words[params.layout.offsets[param] as usize / 8], bits);
        Ok(before != bits)
    }

    /// Replaces an array that was given, by one in the same memory: the host's, or that of the launch's device.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`], and if the parameter has not been given for this kernel.
    pub fn replace_array(
        &mut self,
        params: &KernelParams,
        param: usize,
        elem: Scalar,
        base: *mut u8,
        shape: &[u64],
        strides: &[i64],
    ) -> Result<(), ArgError> {
        self.check_given(params, param)?;
        params.check_array(param, elem, shape, strides)?;
        let footprint = footprint_of(&params.names[param], elem, base, shape, strides)?;
        self.footprints[params.array_number(param)] = footprint;
        let first = params.layout.offsets[param] as usize / 8;
        let words = &mut self.words[first..=first + 2 * shape.len()];
        words[0] = base as u64;
        words[1..=shape.len()].copy_from_slice(shape);
        for (word, &stride) in words[1 + shape.len()..].iter_mut().zip(strides) {
            *word = stride as u64;
        }
        Ok(())
    }

    /// Moves an array that was given, and has elements, to other memory of the host, where it has the same extents and
    /// strides.
    ///
    /// # Errors
    ///
    /// If the parameter is no array or has not been given for this kernel, or its elements would not be aligned.
    #[inline]
    pub fn move_array(&mut self, params: &KernelParams, param: usize, base: *mut u8) -> Result<(), ArgError> {
        self.check_given(params, param)?;
        let name = &params.names[param];
        let Some((elem, _)) = params.types[param].as_array() else {
            let wanted = params.types[param].python_name();
            return Err(ArgError::Type { name: name.clone(), wanted, given: "an array".to_owned() });
        };
        let (address, bytes) = (base as u64, u64::from(elem.bytes()));
        let footprint = &mut self.footprints[params.array_number(param)];
        let word = &mut self.words[params.layout.offsets[param] as usize / 8];
        let distance = address.wrapping_sub(*word);
        let (begin, end) = (footprint.begin.wrapping_add(distance), footprint.end.wrapping_add(distance));
        if !address.is_multiple_of(bytes) {
            return Err(ArgError::Misaligned { name: name.clone(), bytes: elem.bytes() });
        }
        if begin > end {
            return Err(unreachable_elements(name));
        }
        (footprint.begin, footprint.end, footprint.is_aligned) = (begin, end, address.is_multiple_of(64));
        *word = address;
        Ok(())
    }

    /// Gives the next parameter: what another block was given for one of its own, which is of the same type.
    ///
    /// # Errors
    ///
    /// If the two differ in type, there is no parameter left, or the other one was not given.
    pub fn same_as(
        &mut self,
        params: &KernelParams,
        other: &ArgBlock,
        other_params: &KernelParams,
        param: usize,
    ) -> Result<(), ArgError> {
        let (wanted, name) = self.next(params)?;
        other.check_given(other_params, param)?;
        let given = other_params.types[param];
        if given != wanted {
            let (wanted, given) = (wanted.python_name(), given.python_name());
            return Err(ArgError::Type { name: name.clone(), wanted, given });
        }
        self.words.extend_from_slice(&other.words[other_params.words_of(param)]);
        if given.as_array().is_some() {
            self.footprints.push(other.footprints[other_params.array_number(param)]);
        }
        self.n_params += 1;
        if other.is_resident(param) {
            self.set_resident();
        }
        Ok(())
    }

    /// Replaces a parameter that was given by what another block was given for one of its own, which is of the same type.
    /// An array stays in the same memory: the host's, or that of the launch's device.
    ///
    /// # Errors
    ///
    /// If the two differ in type, or one was not given for its kernel.
    pub fn replace_same_as(
        &mut self,
        params: &KernelParams,
        param: usize,
        other: &ArgBlock,
        other_params: &KernelParams,
        other_param: usize,
    ) -> Result<(), ArgError> {
        self.check_given(params, param)?;
        other.check_given(other_params, other_param)?;
        let (wanted, given) = (params.types[param], other_params.types[other_param]);
        if given != wanted {
            let (wanted, given) = (wanted.python_name(), given.python_name());
            return Err(ArgError::Type { name: params.names[param].clone(), wanted, given });
        }
        self.words[params.words_of(param)].copy_from_slice(&other.words[other_params.words_of(other_param)]);
        if given.as_array().is_some() {
            self.footprints[params.array_number(param)] = other.footprints[other_params.array_number(other_param)];
        }
        Ok(())
    }

    /// Returns true if a parameter was given the very memory, extents and strides, or the number, that another block
    /// was given for one of its own of the same type.
    pub fn is_same(
        &self,
        params: &KernelParams,
        param: usize,
        other: &ArgBlock,
        other_params: &KernelParams,
        other_param: usize,
    ) -> bool {
        self.check_given(params, param).is_ok()
            && other.check_given(other_params, other_param).is_ok()
            && self.words[params.words_of(param)] == other.words[other_params.words_of(other_param)]
            && params.types[param] == other_params.types[other_param]
            && self.is_resident(param) == other.is_resident(other_param)
    }

    fn check_given(&self, params: &KernelParams, param: usize) -> Result<(), ArgError> {
        match self.given_for == params.id {
            true if param < self.n_params => Ok(()),
            true => Err(ArgError::Count { given: self.n_params, wanted: params.len() }),
            false => Err(ArgError::OtherKernel),
        }
    }

    /// Gives the next parameter: an array, in whichever memory.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`].
    pub fn push_array(&mut self, params: &KernelParams, array: &ArgArray) -> Result<(), ArgError> {
        let ArrayLayout { base, extents, strides, .. } = &array.layout;
        self.array(params, array.elem, *base as *mut u8, extents, strides)?;
        if array.is_resident {
            self.set_resident();
        }
        Ok(())
    }

    /// The array that a parameter was given; none if it is a scalar, or was not given for this kernel.
    pub fn array_at(&self, params: &KernelParams, param: usize) -> Option<ArgArray> {
        self.check_given(params, param).ok()?;
        let (elem, ndim) = params.types.get(param)?.as_array()?;
        let first = params.layout.offsets[param] as usize / 8;
        let n = usize::from(ndim);
        let words = self.words.get(first..=first + 2 * n)?;
        let layout = ArrayLayout {
            base: words[0],
            elem_bytes: elem.bytes().into(),
            extents: words[1..=n].into(),
            strides: words[1 + n..].iter().map(|&word| word as i64).collect(),
        };
        Some(ArgArray { elem, layout, is_resident: self.is_resident(param) })
    }

    /// The bits that a scalar parameter was given; none if it is an array, or was not given for this kernel.
    pub fn scalar_at(&self, params: &KernelParams, param: usize) -> Option<u64> {
        self.check_given(params, param).ok()?;
        params.types.get(param)?.as_scalar()?;
        self.words.get(params.layout.offsets[param] as usize / 8).copied()
    }

    /// Says that the array given last is in the memory of the device that the launch is on, not in the host's.
    pub fn set_resident(&mut self) {
        self.resident.push(self.n_params.saturating_sub(1) as u32);
    }

    /// Returns true if the array that is this parameter is in a device's memory.
    pub fn is_resident(&self, param: usize) -> bool {
        self.resident.contains(&(param as u32))
    }

    /// Tells whether all arrays are the host's.
    ///
    /// # Errors
    ///
    /// [`ArgError::OnDevice`].
    #[inline]
    pub(crate) fn check_on_host(&self, params: &KernelParams) -> Result<(), ArgError> {
        match self.resident.first().and_then(|&param| params.names.get(param as usize)) {
            None => Ok(()),
            Some(name) => Err(ArgError::OnDevice { name: name.clone() }),
        }
    }

    /// Gives the next parameter: a dense row-major array over a slice.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`], and if the slice has not as many elements as the shape.
    pub fn slice<T: ArrayElement>(
        &mut self,
        params: &KernelParams,
        data: &mut [T],
        shape: &[u64],
    ) -> Result<(), ArgError> {
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
            // Cannot overflow unless an extent is 0, since the product is the slice's length.
            stride = stride.wrapping_mul(shape[axis] as i64);
        }
        self.array(params, T::SCALAR, data.as_mut_ptr().cast(), shape, &strides)
    }

    /// Checks that every parameter has been given, and given for these parameters.
    ///
    /// # Errors
    ///
    /// [`ArgError::Count`] and [`ArgError::OtherKernel`].
    pub fn check_complete(&self, params: &KernelParams) -> Result<(), ArgError> {
        if self.n_params == params.len() && (self.given_for == params.id || params.is_empty()) {
            return Ok(());
        }
        if self.n_params > 0 && self.given_for != params.id {
            return Err(ArgError::OtherKernel);
        }
        Err(ArgError::Count { given: self.n_params, wanted: params.len() })
    }
}

/// Looks at an array's memory, once for all that launches want to know of it.
#[inline]
fn footprint_of(
    name: &Arc<str>,
    elem: Scalar,
    base: *mut u8,
    shape: &[u64],
    strides: &[i64],
) -> Result<Footprint, ArgError> {
    let (address, bytes) = (base as u64, u64::from(elem.bytes()));
    // Places of the farthest elements, as offsets from the base.
    let (mut low, mut high) = (0i64, 0i64);
    let (mut in_range, mut contiguous, mut empty) = (true, true, false);
    let (mut dense, mut steps) = (bytes, address);
    let (mut width, mut step) = (bytes, 0u64);
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent > i32::MAX as u64 {
            return Err(too_long(name, shape));
        }
        empty |= extent == 0;
        contiguous &= stride as u64 == dense || extent == 1;
        dense = dense.wrapping_mul(extent);
        if extent <= 1 {
            continue;
        }
        steps |= stride as u64;
        let distance = stride.unsigned_abs();
        if step == 0 && distance <= width {
            width = width.saturating_add(distance.saturating_mul(extent - 1));
        } else {
            step = greatest_common_divisor(distance, step);
        }
        let end = if stride < 0 { &mut low } else { &mut high };
        match stride.checked_mul(extent as i64 - 1).and_then(|offset| end.checked_add(offset)) {
            Some(sum) => *end = sum,
            None => in_range = false,
        }
    }
    let is_aligned = address.is_multiple_of(64);
    if empty {
        return Ok(Footprint { is_aligned, is_contiguous: true, offsets_fit_i32: true, ..Footprint::default() });
    }
    let begin = address.checked_add_signed(low);
    let end = address.checked_add_signed(high).and_then(|last| last.checked_add(bytes));
    let (true, Some(begin), Some(end)) = (in_range, begin, end) else { return Err(unreachable_elements(name)) };
    if steps & (bytes - 1) != 0 {
        return Err(ArgError::Misaligned { name: name.clone(), bytes: elem.bytes() });
    }
    let offsets_fit_i32 = low >= i32::MIN.into() && high <= i32::MAX.into();
    let is_contiguous = contiguous;
    let overlaps_itself = !contiguous && overlaps_itself(bytes, shape, strides);
    Ok(Footprint { begin, end, step, width, is_aligned, is_contiguous, offsets_fit_i32, overlaps_itself })
}

/// Of two numbers of which at most one is 0.
fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// That `size` of an array of this shape is an `int32`.
fn check_size(name: &Arc<str>, shape: &[u64]) -> Result<(), ArgError> {
    let size = shape.iter().fold(1u128, |size, &extent| size.saturating_mul(extent.into()));
    if size <= i32::MAX as u128 {
        return Ok(());
    }
    let reason = format!(
        "the kernel reads its `size`, an int32, and {size} elements are more than that counts; write \
         `int64({name}.shape[0]) * …`"
    );
    Err(ArgError::TooLarge { name: name.clone(), reason })
}

#[cold]
fn too_long(name: &Arc<str>, shape: &[u64]) -> ArgError {
    let longest = shape.iter().enumerate().find(|&(_, &extent)| extent > i32::MAX as u64);
    let (axis, extent) = longest.unwrap_or((0, &u64::MAX));
    let reason = format!("extent {extent} along axis {axis} is more than int32 can index");
    ArgError::TooLarge { name: name.clone(), reason }
}

#[cold]
fn unreachable_elements(name: &Arc<str>) -> ArgError {
    ArgError::TooLarge { name: name.clone(), reason: "its strides reach outside the address space".to_owned() }
}
