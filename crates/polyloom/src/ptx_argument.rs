//! What parameters of kernels in PTX are given, whoever wrote it: bytes, arrays, and structs of these as C lays them
//! out. Of kernels that Polyloom compiled also what their entries take in place of arrays and of a launch's extents
//! ([`ArgLayout`], [`GpuLaunch`]), and what the source calls their parameters.

use polyloom_codegen::{ArgLayout, GpuLaunch};
use polyloom_ir::MAX_DIMS;
use polyloom_ptx::ParameterInfo;
use polyloom_runtime::ArrayLayout;

const ADDRESS_BYTES: usize = 8;
/// Most threads of a launch on a GPU.
const MAX_LAUNCHED: u64 = (1 << 31) - 1;

/// Describes what a parameter is given.
#[derive(Clone, Debug)]
pub enum PtxArgument {
    /// These bytes, and what they are aligned to in a struct: a power of two.
    Bytes(Vec<u8>, usize),
    /// The address of an array.
    Array(ArrayLayout),
    /// A struct of these, at most [`MAX_STRUCT_LEVELS`] deep, and the least it is aligned to: a power of two.
    Struct(Vec<PtxArgument>, usize),
}

/// Most that a struct may be aligned to.
const MAX_ALIGN: usize = 128;

/// Says how deep structs may be in each other.
pub const MAX_STRUCT_LEVELS: usize = 64;

/// A parameter's bytes, in which the addresses of arrays on the device are yet to be written.
#[derive(Clone, Debug, Default)]
pub struct PtxParameter {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Its arrays, in the order they are given.
    pub arrays: Vec<PtxArray>,
}

/// An array of a parameter.
#[derive(Clone, Debug)]
pub struct PtxArray {
    /// The place where in the parameter its address belongs.
    pub offset: usize,
    /// The parameter's name, and for a member of a struct its number behind a dot: `p.0`.
    pub name: String,
    /// The place where it is on the host.
    pub layout: ArrayLayout,
}

impl PtxParameter {
    /// Writes the address on the device of one of the arrays.
    pub fn set_address(&mut self, array: usize, address: u64) {
        if let Some(&PtxArray { offset, .. }) = self.arrays.get(array) {
            self.bytes[offset..offset + ADDRESS_BYTES].copy_from_slice(&address.to_le_bytes());
        }
    }
}

impl PtxArgument {
    /// A struct of these that is aligned to at least `align` bytes.
    ///
    /// # Errors
    ///
    /// When nothing is aligned to so many, in words.
    pub fn aligned(members: Vec<PtxArgument>, align: usize) -> Result<PtxArgument, String> {
        match align.is_power_of_two() && align <= MAX_ALIGN {
            true => Ok(PtxArgument::Struct(members, align)),
            false => Err(format!("{align} is no alignment: it is a power of two up to {MAX_ALIGN}")),
        }
    }

    /// The argument as the bytes of a parameter with this name and size. An array for a parameter of more than a
    /// pointer's size becomes what kernels of Polyloom's take: address, extents and strides.
    ///
    /// # Errors
    ///
    /// When it has another size: what comes behind "the parameter".
    pub fn lay_out(&self, name: &str, size: usize) -> Result<PtxParameter, String> {
        let mut parameter = PtxParameter::default();
        self.append(name, &mut parameter);
        if let PtxArgument::Array(layout) = self {
            if size != ADDRESS_BYTES {
                describe(layout, &mut parameter.bytes);
            }
        } else if let PtxArgument::Struct(..) = self {
            parameter.bytes.resize(parameter.bytes.len().next_multiple_of(self.align()), 0);
        }
        let given = parameter.bytes.len();
        if given == size {
            return Ok(parameter);
        }
        Err(match self {
            PtxArgument::Array(layout) => format!(
                "has {size} bytes, where an address has 8 and what Polyloom's kernels take of an array of {} \
                 dimensions has {given}",
                layout.extents.len()
            ),
            PtxArgument::Struct(..) => format!("has {size} bytes, the struct that is given {given}"),
            PtxArgument::Bytes(..) => format!("has {size} bytes, not {given}"),
        })
    }

    fn append(&self, name: &str, to: &mut PtxParameter) {
        to.bytes.resize(to.bytes.len().next_multiple_of(self.align()), 0);
        match self {
            PtxArgument::Bytes(bytes, _) => to.bytes.extend(bytes),
            PtxArgument::Array(layout) => {
                to.arrays.push(PtxArray { offset: to.bytes.len(), name: name.to_owned(), layout: layout.clone() });
                to.bytes.extend([0; ADDRESS_BYTES]);
            }
            PtxArgument::Struct(members, _) => {
                for (index, member) in members.iter().enumerate() {
                    member.append(&format!("{name}.{index}"), to);
                }
                to.bytes.resize(to.bytes.len().next_multiple_of(self.align()), 0);
            }
        }
    }

    fn align(&self) -> usize {
        match self {
            PtxArgument::Bytes(_, align) => (*align).max(1),
            PtxArgument::Array(_) => ADDRESS_BYTES,
            PtxArgument::Struct(members, least) => {
                members.iter().map(PtxArgument::align).fold((*least).max(1), usize::max)
            }
        }
    }
}

/// Appends extents and strides to an array's address.
fn describe(array: &ArrayLayout, bytes: &mut Vec<u8>) {
    let ndim = array.extents.len() as u8;
    bytes.resize(ArgLayout::stride(ndim, ndim) as usize, 0);
    let mut set = |offset: u32, word: [u8; 8]| bytes[offset as usize..][..8].copy_from_slice(&word);
    for (axis, (extent, stride)) in (0..ndim).zip(array.extents.iter().zip(&array.strides)) {
        set(ArgLayout::extent(axis), extent.to_le_bytes());
        set(ArgLayout::stride(ndim, axis), stride.to_le_bytes());
    }
}

/// Returns what the first parameter of a kernel of Polyloom's is given for a launch of these extents; a failed check
/// then stops the launch.
///
/// # Errors
///
/// When no launch has such extents: what is wrong, as a sentence.
pub fn launch_bytes(extents: &[u64]) -> Result<Vec<u8>, String> {
    if extents.is_empty() || extents.len() > MAX_DIMS {
        return Err(format!("a launch has one to four extents, not {}", extents.len()));
    }
    let n_threads = extents.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
    if n_threads.is_none_or(|n| n > MAX_LAUNCHED) || extents.iter().any(|extent| *extent > MAX_LAUNCHED) {
        return Err("a launch has fewer than 2^31 threads".to_owned());
    }
    let mut bytes = vec![0; GpuLaunch::BYTES as usize];
    for axis in 0..MAX_DIMS {
        let extent = extents.get(axis).copied().unwrap_or(1);
        bytes[GpuLaunch::shape_offset(axis) as usize..][..8].copy_from_slice(&extent.to_le_bytes());
    }
    Ok(bytes)
}

/// Holds what the source calls the parameter that says what is launched.
const LAUNCH: &str = "launch";

/// Writes what the source calls an entry's parameters behind the names that LLVM gives them, `ENTRY_param_1`.
#[cfg(any(feature = "_compute", test))]
pub(crate) fn name_parameters<'a>(ptx: &str, entry: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = std::iter::once(LAUNCH).chain(names).collect();
    let prefix = format!("{entry}_param_");
    let mut text = String::with_capacity(ptx.len() + ptx.len() / 16);
    let mut rest = ptx;
    while let Some(at) = rest.find(&prefix) {
        let (before, number) = rest.split_at(at + prefix.len());
        let n_digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, behind) = number.split_at(n_digits);
        text.push_str(before);
        text.push_str(digits);
        if let Some(name) = digits.parse().ok().and_then(|index: usize| names.get(index)) {
            text.push('_');
            text.push_str(&in_ptx(name));
        }
        rest = behind;
    }
    text + rest
}

/// The number of an entry's parameter whose name is a compiler's, `ENTRY_param_1`, and what the name goes on with.
fn numbered<'a>(entry: &str, parameter: &'a str) -> Option<(&'a str, &'a str)> {
    let behind = parameter.strip_prefix(entry)?.strip_prefix("_param_")?;
    let n_digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    (n_digits > 0).then(|| behind.split_at(n_digits))
}

/// A name of the source in the letters that names of PTX may have: a field's dot is `$`, and `ä` is `$$e4$`.
#[cfg(any(feature = "_compute", test))]
fn in_ptx(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '.' => text.push('$'),
            c if c.is_ascii_alphanumeric() || c == '_' => text.push(c),
            c => text.push_str(&format!("$${:x}$", u32::from(c))),
        }
    }
    text
}

/// Returns what the source of one of Polyloom's kernels calls a parameter of its entry.
pub fn source_name(entry: &str, parameter: &str) -> Option<String> {
    let (_, rest) = numbered(entry, parameter)?;
    let mut rest = rest.strip_prefix('_')?;
    let mut name = String::with_capacity(rest.len());
    while let Some((before, behind)) = rest.split_once('$') {
        name.push_str(before);
        // No field's name is empty, so that two dots never follow each other, so a third `$` begins a letter.
        let letter = behind.strip_prefix('$').filter(|digits| !digits.starts_with('$'));
        rest = match letter.and_then(|letter| letter.split_once('$')) {
            Some((digits, behind)) => {
                name.push(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?);
                behind
            }
            None => {
                name.push('.');
                behind
            }
        };
    }
    Some(name + rest)
}

/// Returns true if an entry is one of Polyloom's, whose first parameter says what is launched. In PTX that Polyloom
/// wrote the parameter's name says so, in PTX that others made of its CUDA text the entry's.
pub fn takes_launch(entry: &str, parameters: &[ParameterInfo]) -> bool {
    let Some(first) = parameters.first().filter(|first| first.size == GpuLaunch::BYTES) else { return false };
    match numbered(entry, &first.name) {
        Some(("0", "")) => ["forward", "backward"].iter().any(|direction| {
            let name = entry.strip_suffix(direction);
            name.is_some_and(|name| name.ends_with("_cuda_kernel_"))
        }),
        Some(("0", rest)) => rest.strip_prefix('_') == Some(LAUNCH),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(base: u64) -> PtxArgument {
        PtxArgument::Array(ArrayLayout {
            base,
            elem_bytes: 4,
            extents: [3, 5].into_iter().collect(),
            strides: [20, 4].into_iter().collect(),
        })
    }

    fn bytes(bytes: &[u8]) -> PtxArgument {
        PtxArgument::Bytes(bytes.to_vec(), bytes.len())
    }

    #[test]
    fn structs_lie_as_in_c() {
        // struct { char a; struct { float *p; short s; } inner; int n; } is of 32 bytes: g++ says so.
        let inner = PtxArgument::Struct(vec![array(0), bytes(&[2, 3])], 1);
        let whole = PtxArgument::Struct(vec![bytes(&[1]), inner, bytes(&[4, 5, 6, 7])], 1);
        let mut parameter = whole.lay_out("p", 32).unwrap();
        parameter.set_address(0, 0x1122_3344_5566_7788);
        let mut expect = [0; 32];
        expect[0] = 1;
        expect[8..18].copy_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 3]);
        expect[24..28].copy_from_slice(&[4, 5, 6, 7]);
        assert_eq!(parameter.bytes, expect);
        assert_eq!(parameter.arrays[0].name, "p.1.0");
        assert_eq!(whole.lay_out("p", 24).unwrap_err(), "has 24 bytes, the struct that is given 32");
    }

    #[test]
    fn structs_are_aligned_to_what_is_asked() {
        // struct { char a; float2 v; }, where CUDA's float2 is `struct alignas(8) { float x, y; }`.
        let vector = PtxArgument::Struct(vec![bytes(&[1, 2, 3, 4]), bytes(&[5, 6, 7, 8])], 8);
        let whole = PtxArgument::Struct(vec![bytes(&[9]), vector], 1);
        let expect = [9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(whole.lay_out("p", 16).unwrap().bytes, expect);
        // Its size is a multiple too.
        assert_eq!(PtxArgument::Struct(vec![bytes(&[9])], 16).lay_out("p", 16).unwrap().bytes.len(), 16);
    }

    #[test]
    fn arrays_are_addresses_or_what_kernels_of_polyloom_take() {
        assert_eq!(array(0).lay_out("x", 8).unwrap().bytes, [0; 8]);
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
        };
        assert_eq!(words(&array(0).lay_out("x", 40).unwrap().bytes), [0, 3, 5, 20, 4]);
        let wrong = array(0).lay_out("x", 24).unwrap_err();
        assert!(wrong.contains("24 bytes") && wrong.contains("has 40"), "{wrong}");
    }

    #[test]
    fn launches_have_one_to_four_extents_and_fewer_than_2_to_the_31_threads() {
        let launch = launch_bytes(&[7, 9]).unwrap();
        assert_eq!(launch, [7u64, 9, 1, 1, 0].map(u64::to_le_bytes).concat());
        for extents in [&[][..], &[1; 5], &[1 << 31], &[1 << 16, 1 << 16], &[u64::MAX, 2], &[1 << 40, 0]] {
            assert!(launch_bytes(extents).is_err(), "{extents:?}");
        }
        assert!(launch_bytes(&[(1 << 31) - 1]).is_ok() && launch_bytes(&[5, 0]).is_ok());
    }

    #[test]
    fn parameters_are_called_what_the_source_calls_them() {
        let ptx = ".entry k_param_(.param .u64 k_param__param_0, .param .u64 k_param__param_1, .param .u64 k_param__param_11)";
        let named = name_parameters(ptx, "k_param_", ["s.x_param_1"].into_iter());
        assert_eq!(
            named,
            ".entry k_param_(.param .u64 k_param__param_0_launch, .param .u64 k_param__param_1_s$x_param_1, \
             .param .u64 k_param__param_11)"
        );
        assert_eq!(source_name("k_param_", "k_param__param_1_s$x_param_1").as_deref(), Some("s.x_param_1"));
        assert_eq!(source_name("k_param_", "k_param__param_11"), None);
        for name in ["ä", "ö", "winkel_ä", "é.ä.x", "s.é0.ü_", "v.0"] {
            let ptx = name_parameters("k_param_1", "k", [name].into_iter());
            assert!(ptx.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'$'), "{ptx}");
            assert_eq!(source_name("k", &ptx).as_deref(), Some(name));
        }
    }

    #[test]
    fn launches_are_parameters_of_kernels_of_polyloom_alone() {
        let takes = |entry: &str, name: &str, size: u32| {
            let (name, ty) = (name.to_owned(), "b8".to_owned());
            takes_launch(entry, &[ParameterInfo { name, offset: 0, size, align: 8, ty, pointer: false }])
        };
        assert!(takes("k_param_", "k_param__param_0_launch", 40));
        assert!(takes("k_cuda_kernel_backward", "k_cuda_kernel_backward_param_0", 40));
        assert!(!takes("k_param_", "k_param__param_1_launch", 40) && !takes("k_param_", "k_param__param_0_launch", 24));
        assert!(!takes("k", "k_param_0", 40) && !takes("k_cuda_kernel_forward", "k_cuda_kernel_forward_param_0", 32));
        assert!(!takes_launch("k", &[]));
    }
}
