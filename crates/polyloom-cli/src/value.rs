//! Values of kernel arguments as the command line spells them.

use npyz::WriterBuilder as _;
use polyloom::{ArgBlock, ArgError, ArrayLayout, KernelParams, Random, Scalar, Type, scalar_bits};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _};
use std::path::Path;

/// Most bytes an array made from the command line may have.
const MAX_BYTES: u64 = 8 << 30;
/// Elements shown at each end of a printed array.
const SHOWN: usize = 4;

/// One argument.
pub(crate) enum LaunchArgument {
    /// A scalar's type and bits.
    Scalar(Scalar, u64),
    /// An array.
    Array(ArrayValue),
}

/// A dense row-major array. It is made of words, so that the elements are aligned for every type.
pub(crate) struct ArrayValue {
    elem: Scalar,
    shape: Vec<u64>,
    words: Vec<u64>,
}

impl LaunchArgument {
    /// Reads the value of a parameter. `element` is the shape of an array's elements, if they are vectors or matrices:
    /// the shape that is given may go without it.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub(crate) fn parse(param: &str, ty: Type, element: &[u16], text: &str) -> Result<LaunchArgument, String> {
        match ty {
            Type::Scalar(scalar) => {
                let bits = parse_scalar(scalar, text)
                    .ok_or_else(|| format!("--arg {param}={text}: `{text}` is no {}", scalar.python_name()))?;
                Ok(LaunchArgument::Scalar(scalar, bits))
            }
            Type::Array { elem, ndim, .. } => {
                let array = ArrayValue::parse(elem, usize::from(ndim), element, text)
                    .map_err(|error| format!("--arg {param}={text}: {error}"))?;
                if array.shape.len() != usize::from(ndim) {
                    let (given, inner) = (array.shape.len(), element.len());
                    let wanted = usize::from(ndim) - inner;
                    let dimensions = if wanted == 1 { "dimension" } else { "dimensions" };
                    let with = match inner {
                        0 => String::new(),
                        _ => format!(", or {ndim} with those of its elements"),
                    };
                    return Err(format!(
                        "--arg {param}={text}: `{param}` has {wanted} {dimensions}{with}; {given} given"
                    ));
                }
                Ok(LaunchArgument::Array(array))
            }
            other => Err(format!("--arg {param}={text}: a {} is given by its components", other.python_name())),
        }
    }

    /// Appends the argument to a block.
    ///
    /// # Errors
    ///
    /// As [`ArgBlock::array`].
    pub(crate) fn push(&mut self, params: &KernelParams, block: &mut ArgBlock) -> Result<(), ArgError> {
        match self {
            LaunchArgument::Scalar(scalar, bits) => block.scalar(params, *scalar, *bits),
            LaunchArgument::Array(array) => {
                let strides = array.layout().strides;
                let base = array.words.as_mut_ptr().cast();
                block.array(params, array.elem, base, &array.shape, &strides)
            }
        }
    }

    /// The address of an array's first element; 0 for a number.
    pub(crate) fn address(&mut self) -> usize {
        match self {
            LaunchArgument::Array(array) => array.address(),
            LaunchArgument::Scalar(..) => 0,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&ArrayValue> {
        match self {
            LaunchArgument::Array(array) => Some(array),
            LaunchArgument::Scalar(..) => None,
        }
    }
}

/// Extents as `64x64` or `64,64`.
pub(crate) fn extents(text: &str) -> Option<Vec<u64>> {
    text.split(['x', ',']).map(|extent| extent.parse().ok()).collect()
}

fn parse_scalar(scalar: Scalar, text: &str) -> Option<u64> {
    match scalar {
        Scalar::Bool => match text {
            "true" | "True" | "1" => Some(1),
            "false" | "False" | "0" => Some(0),
            _ => None,
        },
        _ if scalar.is_float() => text.parse().ok().map(|value| scalar_bits::from_f64(scalar, value)),
        _ => text.parse().ok().and_then(|value| scalar_bits::from_int(scalar, value)),
    }
}

/// Longest header of a `.npy` file; those of NumPy take some hundred bytes.
const MAX_HEADER_BYTES: u32 = 1 << 16;
/// How deep brackets of a header nest: those of structured elements have four levels.
const MAX_HEADER_NESTING: usize = 8;

/// Opens a `.npy` file whose header can be parsed in a short time: the parser takes exponentially longer with each
/// level of brackets. What is no file is not opened, since a device has no end and a pipe makes its reader wait.
fn open_npy(path: &Path) -> Result<BufReader<File>, String> {
    let wrong = |error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
    if !std::fs::metadata(path).map_err(|error| wrong(&error))?.is_file() {
        return Err(wrong(&"it is not a regular file"));
    }
    let mut file = File::open(path).map_err(|error| wrong(&error))?;
    // Magic number, version and length of the header: NumPy Enhancement Proposal 1.
    let mut start = Vec::new();
    file.by_ref().take(12).read_to_end(&mut start).map_err(|error| wrong(&error))?;
    let (length, n_read) = match start[..] {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => (u16::from_le_bytes([a, b]).into(), 10),
        [0x93, b'N', b'U', b'M', b'P', b'Y', _, _, a, b, c, d] => (u32::from_le_bytes([a, b, c, d]), 12),
        _ => return Err(wrong(&"it is not a .npy file")),
    };
    if length > MAX_HEADER_BYTES {
        return Err(wrong(&format!("its header has {length} bytes")));
    }
    let mut header = start[n_read..].to_vec();
    file.by_ref().take(length.into()).read_to_end(&mut header).map_err(|error| wrong(&error))?;
    let mut nesting = 0usize;
    for byte in header {
        match byte {
            b'(' | b'[' | b'{' => nesting += 1,
            b')' | b']' | b'}' => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > MAX_HEADER_NESTING {
            return Err(wrong(&"its header is nested too deep"));
        }
    }
    file.rewind().map_err(|error| wrong(&error))?;
    Ok(BufReader::new(file))
}

/// What the elements of an array in a file are, and its shape.
///
/// # Errors
///
/// If the file cannot be read, or has elements of another kind.
pub(crate) fn type_of_file(path: &Path) -> Result<(Scalar, Vec<u64>), String> {
    let wrong = |error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
    let header = npyz::NpyHeader::from_reader(open_npy(path)?).map_err(|error| wrong(&error))?;
    let npyz::DType::Plain(elements) = header.dtype() else { return Err(wrong(&"it has structured elements")) };
    let scalar = match (elements.type_char(), elements.size_field()) {
        (npyz::TypeChar::Bool, _) => Some(Scalar::Bool),
        (npyz::TypeChar::Int, 1) => Some(Scalar::I8),
        (npyz::TypeChar::Int, 2) => Some(Scalar::I16),
        (npyz::TypeChar::Int, 4) => Some(Scalar::I32),
        (npyz::TypeChar::Int, 8) => Some(Scalar::I64),
        (npyz::TypeChar::Uint, 1) => Some(Scalar::U8),
        (npyz::TypeChar::Uint, 2) => Some(Scalar::U16),
        (npyz::TypeChar::Uint, 4) => Some(Scalar::U32),
        (npyz::TypeChar::Uint, 8) => Some(Scalar::U64),
        (npyz::TypeChar::Float, 4) => Some(Scalar::F32),
        (npyz::TypeChar::Float, 8) => Some(Scalar::F64),
        _ => None,
    };
    let scalar = scalar.ok_or_else(|| wrong(&format!("its elements are `{elements}`")))?;
    Ok((scalar, header.shape().to_vec()))
}

impl ArrayValue {
    pub(crate) fn parse(elem: Scalar, rank: usize, element: &[u16], text: &str) -> Result<ArrayValue, String> {
        if let Some(path) = text.strip_prefix('@') {
            return ArrayValue::load(elem, path.as_ref());
        }
        let mut parts = text.split(':');
        let (kind, shape, seed) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next());
        if !matches!(kind, "zeros" | "ones" | "arange" | "random") {
            return Err(format!("`{kind}` is none of zeros:SHAPE, ones:SHAPE, arange:SHAPE, random:SHAPE, @FILE.npy"));
        }
        let mut shape = extents(shape).ok_or_else(|| format!("`{shape}` is no shape: write 1024 or 64x64"))?;
        if shape.len() + element.len() == rank {
            shape.extend(element.iter().map(|&extent| u64::from(extent)));
        }
        let seed = match seed {
            None => 0,
            Some(seed) => seed.parse::<u64>().map_err(|_| format!("`{seed}` is no seed"))?,
        };
        let mut numbers = Random::new(seed);
        let element: &mut dyn FnMut(u64) -> u64 = match kind {
            "zeros" => &mut |_| 0,
            "ones" => &mut |_| scalar_bits::from_f64(elem, 1.0),
            "arange" => &mut |index| arange(elem, index),
            _ => &mut |_| random(elem, numbers.bits()),
        };
        let mut array = ArrayValue::zeros(elem, shape)?;
        for index in 0..array.len() {
            array.set(index, element(index as u64));
        }
        Ok(array)
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub(crate) fn elem(&self) -> Scalar {
        self.elem
    }

    /// The address of its first element, through which it may be written.
    pub(crate) fn address(&mut self) -> usize {
        self.words.as_mut_ptr() as usize
    }

    pub(crate) fn zeros(elem: Scalar, shape: Vec<u64>) -> Result<ArrayValue, String> {
        let bytes = shape.iter().try_fold(u64::from(elem.bytes()), |n, &extent| n.checked_mul(extent));
        let Some(bytes) = bytes.filter(|&n| n <= MAX_BYTES) else {
            return Err(format!("an array of {} GiB or more is too large for this command", MAX_BYTES >> 30));
        };
        Ok(ArrayValue { elem, shape, words: vec![0; bytes.div_ceil(8) as usize] })
    }

    /// Where its elements are.
    pub(crate) fn layout(&self) -> ArrayLayout {
        let mut strides = vec![0i64; self.shape.len()];
        let mut stride = i64::from(self.elem.bytes());
        for axis in (0..strides.len()).rev() {
            strides[axis] = stride;
            stride = stride.wrapping_mul(self.shape[axis] as i64);
        }
        ArrayLayout {
            base: self.words.as_ptr() as u64,
            elem_bytes: self.elem.bytes().into(),
            extents: self.shape.as_slice().into(),
            strides: strides.into(),
        }
    }

    /// Its elements' bytes, in order.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.len() * self.elem.bytes() as usize);
        bytes
    }

    /// Replaces its elements by these bytes, as many as [`ArrayValue::bytes`] gives.
    pub(crate) fn set_bytes(&mut self, bytes: &[u8]) {
        for (word, chunk) in self.words.iter_mut().zip(bytes.chunks(8)) {
            let mut all = [0; 8];
            all[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(all);
        }
    }

    fn len(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }

    fn get(&self, index: usize) -> u64 {
        let bits = self.elem.bytes() as usize * 8;
        let at = index * bits;
        (self.words[at / 64] >> (at % 64)) & (u64::MAX >> (64 - bits))
    }

    fn set(&mut self, index: usize, value: u64) {
        let bits = self.elem.bytes() as usize * 8;
        let at = index * bits;
        let mask = (u64::MAX >> (64 - bits)) << (at % 64);
        let word = &mut self.words[at / 64];
        *word = *word & !mask | (value << (at % 64)) & mask;
    }

    fn load(elem: Scalar, path: &Path) -> Result<ArrayValue, String> {
        let wrong = |error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
        let file = npyz::NpyFile::new(open_npy(path)?).map_err(|error| wrong(&error))?;
        if file.order() != npyz::Order::C {
            return Err(format!("{} is in Fortran order: save a C-ordered copy", path.display()));
        }
        let mut array = ArrayValue::zeros(elem, file.shape().to_vec())?;
        macro_rules! read {
            ($ty:ty, $bits:expr) => {{
                let values = file.into_vec::<$ty>().map_err(|error| wrong(&error))?;
                values.into_iter().enumerate().for_each(|(index, value)| array.set(index, $bits(value)));
            }};
        }
        match elem {
            Scalar::Bool => read!(bool, u64::from),
            Scalar::I8 => read!(i8, |v| v as u8 as u64),
            Scalar::I16 => read!(i16, |v| v as u16 as u64),
            Scalar::I32 => read!(i32, |v| v as u32 as u64),
            Scalar::I64 => read!(i64, |v| v as u64),
            Scalar::U8 => read!(u8, u64::from),
            Scalar::U16 => read!(u16, u64::from),
            Scalar::U32 => read!(u32, u64::from),
            Scalar::U64 => read!(u64, |v| v),
            Scalar::F32 => read!(f32, |v: f32| v.to_bits().into()),
            Scalar::F64 => read!(f64, f64::to_bits),
            Scalar::F16 | Scalar::BF16 => {
                return Err(format!("{} arrays are not read from files", elem.python_name()));
            }
        }
        Ok(array)
    }

    /// Saves the array as a `.npy` file.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        let elements = || (0..self.len()).map(|index| self.get(index));
        macro_rules! write {
            ($ty:ty, $value:expr) => {{
                let file = BufWriter::new(File::create(path)?);
                let mut writer =
                    npyz::WriteOptions::<$ty>::new().default_dtype().shape(&self.shape).writer(file).begin_nd()?;
                for bits in elements() {
                    writer.push(&$value(bits))?;
                }
                writer.finish()
            }};
        }
        match self.elem {
            Scalar::Bool => write!(bool, |bits| bits != 0),
            Scalar::I8 => write!(i8, |bits| bits as i8),
            Scalar::I16 => write!(i16, |bits| bits as i16),
            Scalar::I32 => write!(i32, |bits| bits as i32),
            Scalar::I64 => write!(i64, |bits| bits as i64),
            Scalar::U8 => write!(u8, |bits| bits as u8),
            Scalar::U16 => write!(u16, |bits| bits as u16),
            Scalar::U32 => write!(u32, |bits| bits as u32),
            Scalar::U64 => write!(u64, |bits| bits),
            Scalar::F32 => write!(f32, |bits| f32::from_bits(bits as u32)),
            Scalar::F64 => write!(f64, f64::from_bits),
            // Both are saved as `float32`, because it holds them exactly and can be read everywhere.
            Scalar::F16 | Scalar::BF16 => write!(f32, |bits| scalar_bits::to_f64(self.elem, bits) as f32),
        }
    }

    /// The elements as a flat JSON list beside shape and type. JSON has no numbers for `"NaN"`, `"Infinity"` and
    /// `"-Infinity"`, so that they are strings.
    pub(crate) fn json(&self) -> serde_json::Value {
        let elements = (0..self.len()).map(|index| match (self.elem, self.get(index)) {
            (Scalar::Bool, bits) => serde_json::Value::from(bits != 0),
            (elem, bits) if elem.is_float() => json_float(scalar_bits::to_f64(elem, bits)),
            (elem, bits) if elem.is_signed_int() => serde_json::Value::from(signed(elem, bits)),
            (_, bits) => serde_json::Value::from(bits),
        });
        let elements: Vec<serde_json::Value> = elements.collect();
        serde_json::json!({ "dtype": self.elem.python_name(), "shape": self.shape, "data": elements })
    }
}

fn json_float(value: f64) -> serde_json::Value {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => value.into(),
    }
}

fn signed(elem: Scalar, bits: u64) -> i64 {
    let shift = 64 - elem.bits();
    ((bits << shift) as i64) >> shift
}

/// Counts up; integer types wrap.
fn arange(elem: Scalar, index: u64) -> u64 {
    match elem {
        Scalar::Bool => index & 1,
        _ if elem.is_float() => scalar_bits::from_f64(elem, index as f64),
        _ => index & (u64::MAX >> (64 - elem.bits())),
    }
}

/// Of 64 random bits: uniform on [0, 1) for floats, over the whole range for integers.
fn random(elem: Scalar, bits: u64) -> u64 {
    if elem.is_float() {
        return scalar_bits::from_f64(elem, (bits >> 40) as f64 / (1u64 << 24) as f64);
    }
    bits & (u64::MAX >> (64 - elem.bits()))
}

impl fmt::Display for ArrayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{}[{}] ", self.elem.python_name(), shape.join(", "))?;
        let n = self.len();
        let one = |index: usize| match (self.elem, self.get(index)) {
            (Scalar::Bool, bits) => (bits != 0).to_string(),
            (Scalar::F32, bits) => f32::from_bits(bits as u32).to_string(),
            (elem, bits) if elem.is_float() => scalar_bits::to_f64(elem, bits).to_string(),
            (elem, bits) if elem.is_signed_int() => signed(elem, bits).to_string(),
            (_, bits) => bits.to_string(),
        };
        if n <= 2 * SHOWN {
            return write!(f, "{}", (0..n).map(one).collect::<Vec<_>>().join(" "));
        }
        let head: Vec<String> = (0..SHOWN).map(one).collect();
        let tail: Vec<String> = (n - SHOWN..n).map(one).collect();
        write!(f, "{} … {}", head.join(" "), tail.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a file of these bytes.
    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("x.npy");
        std::fs::write(&path, bytes).expect("it can be written");
        let by_type = type_of_file(&path).expect_err("it is refused");
        let by_value = ArrayValue::load(Scalar::F32, &path).err().expect("it is refused");
        assert_eq!(by_type, by_value);
        by_type.rsplit(": ").next().unwrap_or_default().to_owned()
    }

    fn npy(header: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes
    }

    #[test]
    fn headers_that_take_long_to_parse_are_refused() {
        let shape = format!("{}1{}", "(1,".repeat(24), ")".repeat(24));
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        assert_eq!(refused(&npy(&header)), "its header is nested too deep");
        assert_eq!(refused(&npy(&"[".repeat(30))), "its header is nested too deep");
        assert_eq!(refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), "its header has 4294967295 bytes");
        assert_eq!(refused(b"nothing of the kind"), "it is not a .npy file");
        assert_eq!(refused(b""), "it is not a .npy file");
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_folders_are_not_read() {
        for path in ["/dev/zero", "/dev"] {
            let message = type_of_file(path.as_ref()).expect_err("it is refused");
            assert_eq!(message, format!("cannot read {path}: it is not a regular file"));
        }
    }
}
