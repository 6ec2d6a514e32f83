//! What parameters of kernels in PTX are given, whoever wrote it: bytes, arrays, and structs of these as C lays them
//! out. Of kernels that Polyloom compiled also what their entries take in place of arrays and of a launch's extents
//! ([`ArgLayout`], [`GpuLaunch`]), and what the source calls their parameters.

use polyloom_codegen::{ArgLayout, GpuLaunch};
use polyloom_ir::MAX_DIMS;
use polyloom_runtime::Layout;

const ADDRESS_BYTES: usize = 8;

/// What a parameter is given.
#[derive(Clone, Debug)]
pub enum PtxArgument {
    /// These bytes, and what they are aligned to in a struct: a power of two.
    Bytes(Vec<u8>, usize),
    /// The address of an array.
    Array(Layout),
    /// A struct of these.
    Struct(Vec<PtxArgument>),
}

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
    /// Where in the parameter its address belongs.
    pub offset: usize,
    /// The parameter's name, and for a member of a struct its number behind a dot: `p.0`.
    pub name: String,
    /// Where it is on the host.
    pub layout: Layout,
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
        } else if let PtxArgument::Struct(_) = self {
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
            PtxArgument::Struct(_) => format!("has {size} bytes, the struct that is given {given}"),
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
            PtxArgument::Struct(members) => {
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
            PtxArgument::Struct(members) => members.iter().map(PtxArgument::align).max().unwrap_or(1),
        }
    }
}

/// Appends extents and strides to an array's address.
fn describe(array: &Layout, bytes: &mut Vec<u8>) {
    let ndim = array.extents.len() as u8;
    bytes.resize(ArgLayout::stride(ndim, ndim) as usize, 0);
    let mut set = |offset: u32, word: [u8; 8]| bytes[offset as usize..][..8].copy_from_slice(&word);
    for (axis, (extent, stride)) in (0..ndim).zip(array.extents.iter().zip(&array.strides)) {
        set(ArgLayout::extent(axis), extent.to_le_bytes());
        set(ArgLayout::stride(ndim, axis), stride.to_le_bytes());
    }
}

/// What the first parameter of a kernel of Polyloom's is given for a launch of these extents; a failed check then
/// stops the launch. `None` if there are too many.
pub fn launch_argument(extents: &[u64]) -> Option<PtxArgument> {
    if extents.len() > MAX_DIMS {
        return None;
    }
    let mut bytes = vec![0; GpuLaunch::BYTES as usize];
    for axis in 0..MAX_DIMS {
        let extent = extents.get(axis).copied().unwrap_or(1);
        bytes[GpuLaunch::shape_offset(axis) as usize..][..8].copy_from_slice(&extent.to_le_bytes());
    }
    Some(PtxArgument::Bytes(bytes, 8))
}

/// What the source calls the parameter that says what is launched.
const LAUNCH: &str = "launch";

/// Writes what the source calls an entry's parameters behind the names that LLVM gives them, `ENTRY_param_1`.
#[cfg(any(feature = "compute", feature = "compute-static", test))]
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
            // What a name of PTX may not have; a field's dot is given back by `source_name`.
            text.extend(name.chars().map(|c| match c {
                '.' => '$',
                c if c.is_ascii_alphanumeric() => c,
                _ => '_',
            }));
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

/// What the source of one of Polyloom's kernels calls a parameter of its entry.
pub fn source_name(entry: &str, parameter: &str) -> Option<String> {
    let (_, rest) = numbered(entry, parameter)?;
    Some(rest.strip_prefix('_')?.replace('$', "."))
}

/// Whether an entry's first parameter, of this name, says what is launched: the entry is one of Polyloom's.
pub fn is_launch(entry: &str, parameter: &str) -> bool {
    numbered(entry, parameter).is_some_and(|(number, rest)| number == "0" && rest.strip_prefix('_') == Some(LAUNCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(base: u64) -> PtxArgument {
        PtxArgument::Array(Layout {
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
        let inner = PtxArgument::Struct(vec![array(0), bytes(&[2, 3])]);
        let whole = PtxArgument::Struct(vec![bytes(&[1]), inner, bytes(&[4, 5, 6, 7])]);
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
    fn arrays_are_addresses_or_what_kernels_of_polyloom_take() {
        assert_eq!(array(0).lay_out("x", 8).unwrap().bytes, [0; 8]);
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
        };
        assert_eq!(words(&array(0).lay_out("x", 40).unwrap().bytes), [0, 3, 5, 20, 4]);
        let wrong = array(0).lay_out("x", 24).unwrap_err();
        assert!(wrong.contains("24 bytes") && wrong.contains("has 40"), "{wrong}");
        let PtxArgument::Bytes(launch, _) = launch_argument(&[7, 9]).unwrap() else { panic!("it is bytes") };
        assert_eq!(words(&launch), [7, 9, 1, 1, 0]);
        assert!(launch_argument(&[1; 5]).is_none());
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
        assert!(is_launch("k_param_", "k_param__param_0_launch") && !is_launch("k_param_", "k_param__param_1_launch"));
        assert_eq!(source_name("k_param_", "k_param__param_1_s$x_param_1").as_deref(), Some("s.x_param_1"));
        assert_eq!(source_name("k_param_", "k_param__param_11"), None);
    }
}
