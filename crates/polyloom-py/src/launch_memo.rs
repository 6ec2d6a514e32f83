//! The arguments of a thread's latest launches, so that the same launch again need not look at them anew.
//!
//! Programs launch a kernel on the same arrays many times. A memo keeps the filled argument block together with
//! everything of each array that filling it looked at: the object, its type, address, extents, strides, element type
//! and flags. Where all of that is what it was, the block is right, whatever has become of the objects in between; a
//! memo holds no reference. Numbers are read each time.

use crate::argument_numbers;
use crate::arguments::{self, Writes};
use crate::array::ArrayBase;
use crate::launch_dimensions::LaunchDimensions;
use numpy::npyffi;
use polyloom::{ArgBlock, Composite, DeviceId, LaunchError, Scalar, Type, VariantChoice};
use pyo3::prelude::*;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::Cell;
use std::hash::{Hash, Hasher};

/// Memos of a thread, each for the kernels whose addresses fall to it.
const N_MEMOS: usize = 16;
/// Launches with more arguments are not kept.
const MAX_ARGUMENTS: usize = 12;

thread_local! {
    static MEMOS: [Cell<Option<Box<LaunchMemo>>>; N_MEMOS] = const { [const { Cell::new(None) }; N_MEMOS] };
}

/// A launch on the CPU, and the block that its arguments filled.
#[derive(Default)]
pub(crate) struct LaunchMemo {
    kernel: usize,
    shape: SmallVec<[u64; polyloom::MAX_DIMS]>,
    is_unchecked: bool,
    pub(crate) block: ArgBlock,
    /// Holds what the block was filled from; empty if it cannot be kept.
    arguments: SmallVec<[ArgumentSnapshot; 8]>,
    choice: VariantChoice,
    /// True if a launch has compared indices with extents and found them within.
    is_verified: bool,
}

enum ArgumentSnapshot {
    Scalar(Scalar),
    Array(ArraySnapshot),
}

/// Everything that a launch looks at of an array.
#[derive(PartialEq, Eq)]
pub(crate) struct ArraySnapshot {
    /// The argument and its type.
    argument: usize,
    class: usize,
    /// Of an array of the package's: whose components the last axes are.
    element: Option<Composite>,
    /// The NumPy array and its fields.
    storage: usize,
    data: usize,
    flags: i32,
    /// The element type: the object, and what tells it from another one at the same address.
    descr: usize,
    type_number: i32,
    byte_order: u8,
    layout: SmallVec<[npyffi::npy_intp; 4]>,
}

/// The NumPy array that an argument is, or that an array of the package's is over, and the latter's elements; nothing
/// for an argument that is converted on the way, or is on a device.
#[inline]
fn storage_of(py: Python<'_>, arg: &Bound<'_, PyAny>) -> Option<(*mut npyffi::PyArrayObject, Option<Composite>)> {
    // SAFETY: `arg` is a live object.
    if unsafe { npyffi::PyArray_CheckExact(py, arg.as_ptr()) } != 0 {
        return Some((arg.as_ptr().cast(), None));
    }
    let array = arg.cast::<ArrayBase>().ok()?.get();
    (array.device() == DeviceId::Cpu).then(|| (array.object().cast(), array.element()))
}

impl ArraySnapshot {
    /// Returns nothing of an argument that cannot be kept.
    pub(crate) fn of(py: Python<'_>, arg: &Bound<'_, PyAny>) -> Option<ArraySnapshot> {
        let (storage, element) = storage_of(py, arg)?;
        // SAFETY: the argument holds the array, of which `layout` asks nothing while Python code may run.
        let (array, descr, [extents, strides]) = unsafe { fields(storage) };
        Some(ArraySnapshot {
            argument: arg.as_ptr() as usize,
            class: arg.get_type_ptr() as usize,
            element,
            storage: storage as usize,
            data: array.data as usize,
            flags: array.flags,
            descr: array.descr as usize,
            type_number: descr.type_num,
            byte_order: descr.byteorder as u8,
            layout: extents.iter().chain(strides).copied().collect(),
        })
    }

    /// The same number for arrays with the same extents, strides and elements.
    pub(crate) fn layout_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (&self.layout, self.descr).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if the other array has the same extents, strides and elements.
    pub(crate) fn is_like(&self, other: &ArraySnapshot) -> bool {
        self.layout == other.layout
            && self.element == other.element
            && self.descr == other.descr
            && self.type_number == other.type_number
            && self.byte_order == other.byte_order
    }

    /// Returns true if the argument is the array that this is of, and has not changed since.
    #[inline]
    pub(crate) fn is_of(&self, py: Python<'_>, arg: &Bound<'_, PyAny>) -> bool {
        if arg.as_ptr() as usize != self.argument || arg.get_type_ptr() as usize != self.class {
            return false;
        }
        let Some((storage, element)) = storage_of(py, arg) else { return false };
        if storage as usize != self.storage || element != self.element {
            return false;
        }
        // SAFETY: as above.
        let (array, descr, [extents, strides]) = unsafe { fields(storage) };
        let (known_extents, known_strides) = self.layout.split_at(self.layout.len() / 2);
        array.data as usize == self.data
            && array.flags == self.flags
            && array.descr as usize == self.descr
            && descr.type_num == self.type_number
            && descr.byteorder as u8 == self.byte_order
            && extents == known_extents
            && strides == known_strides
    }
}

type ArrayFields<'a> =
    (&'a npyffi::objects::PyArrayObject_fields, &'a npyffi::objects::PyArray_Descr_fields, [&'a [npyffi::npy_intp]; 2]);

/// The fields of an array and of its descriptor, its extents and its strides.
///
/// # Safety
///
/// The array is alive, and no Python code runs during `'a`.
#[inline]
unsafe fn fields<'a>(object: *mut npyffi::PyArrayObject) -> ArrayFields<'a> {
    // SAFETY: a live array's fields and descriptor are valid, and extents and strides are as many as it says.
    unsafe {
        let array = &(*object).fields;
        let layout = match usize::try_from(array.nd) {
            Ok(n @ 1..) => [array.dimensions, array.strides].map(|first| std::slice::from_raw_parts(first, n)),
            _ => [&[][..]; 2],
        };
        (array, &(*array.descr).fields, layout)
    }
}

/// A memo that is in use by a launch.
pub(crate) struct TakenMemo {
    slot: usize,
    memo: Box<LaunchMemo>,
}

impl TakenMemo {
    /// Takes the memo for a kernel; if a launch under way uses it, an empty one.
    #[inline]
    pub(crate) fn take(kernel: &polyloom::Kernel) -> TakenMemo {
        let address = std::ptr::from_ref(kernel) as usize;
        let slot = (address >> 7) % N_MEMOS;
        TakenMemo { slot, memo: MEMOS.with(|memos| memos[slot].take()).unwrap_or_default() }
    }

    /// Puts the memo back.
    #[inline]
    pub(crate) fn put_back(self) {
        MEMOS.with(|memos| memos[self.slot].set(Some(self.memo)));
    }

    /// The block.
    pub(crate) fn block(&self) -> &ArgBlock {
        &self.memo.block
    }

    /// Makes the block that of these arguments, if it is but for numbers; tells whether it is.
    #[inline]
    pub(crate) fn holds(
        &mut self,
        py: Python<'_>,
        kernel: &polyloom::Kernel,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, '_, PyAny>],
    ) -> bool {
        let memo = &mut *self.memo;
        let is_same_launch = memo.kernel == std::ptr::from_ref(kernel) as usize
            && memo.arguments.len() == args.len()
            && !args.is_empty()
            && memo.shape == dimensions.shape
            && memo.is_unchecked == dimensions.unchecked
            // Another kernel may have come to the address.
            && memo.block.check_complete(kernel.params()).is_ok();
        if !is_same_launch {
            return false;
        }
        for (index, (arg, known)) in args.iter().zip(&memo.arguments).enumerate() {
            match known {
                ArgumentSnapshot::Array(known) => {
                    if !known.is_of(py, arg) {
                        return false;
                    }
                }
                ArgumentSnapshot::Scalar(scalar) => {
                    let Ok(bits) = argument_numbers::scalar_argument(arg, *scalar) else { return false };
                    match memo.block.replace_scalar(kernel.params(), index, *scalar, bits) {
                        // An index may be computed of it.
                        Ok(is_changed) => memo.is_verified &= !is_changed,
                        Err(_) => return false,
                    }
                }
            }
        }
        true
    }

    /// Runs the launch that the block holds if it is known to be right and to be over at once.
    ///
    /// # Safety
    ///
    /// The block [holds](TakenMemo::holds) the arguments, which the caller keeps alive.
    #[inline]
    pub(crate) unsafe fn run_if_short(&self, kernel: &polyloom::Kernel) -> Option<Result<(), LaunchError>> {
        let memo = &*self.memo;
        // SAFETY: passed on to the caller; the choice is of this kernel and these arrays.
        memo.is_verified.then(|| unsafe { kernel.launch_verified_if_short(&memo.shape, &memo.block, &memo.choice) })?
    }

    /// Fills the block from arguments.
    ///
    /// # Errors
    ///
    /// As [`arguments::fill`].
    pub(crate) fn fill<'py>(
        &mut self,
        py: Python<'py>,
        kernel: &polyloom::Kernel,
        dimensions: &LaunchDimensions,
        args: &[Borrowed<'_, 'py, PyAny>],
        held: &mut SmallVec<[Bound<'py, PyAny>; 2]>,
        written: &mut Writes,
    ) -> PyResult<()> {
        let memo = &mut *self.memo;
        memo.arguments.clear();
        memo.block.clear();
        memo.is_verified = false;
        arguments::fill(py, kernel, dimensions.device, args, &mut memo.block, held, written)?;
        if dimensions.device != DeviceId::Cpu || kernel.has_structs() || args.len() > MAX_ARGUMENTS {
            return Ok(());
        }
        for (arg, &ty) in args.iter().zip(kernel.types()) {
            let snapshot = match ty {
                Type::Scalar(scalar) => Some(ArgumentSnapshot::Scalar(scalar)),
                // Several slots of the block.
                Type::Composite(_) => None,
                _ => ArraySnapshot::of(py, arg).map(ArgumentSnapshot::Array),
            };
            let Some(snapshot) = snapshot else {
                memo.arguments.clear();
                return Ok(());
            };
            memo.arguments.push(snapshot);
        }
        memo.kernel = std::ptr::from_ref(kernel) as usize;
        memo.shape.clone_from(&dimensions.shape);
        memo.is_unchecked = dimensions.unchecked;
        memo.choice = VariantChoice::default();
        Ok(())
    }

    /// Notes that a launch of the block has found its arguments right.
    pub(crate) fn set_verified(&mut self) {
        self.memo.is_verified = true;
    }
}
