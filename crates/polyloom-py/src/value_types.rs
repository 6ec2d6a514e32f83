//! Types, keys and layouts of the values that a group is given, on which its plan depends, and the package of the results.

use crate::external_key::ExternalKey;
use crate::group_calls::{ExternalType, literal, tensor_type};
use crate::tensor_operand::array_scalar;
use crate::tensor_view::{TensorPackage, TensorView, view_of};
use crate::torch_tensor;
use polyloom::DeviceId;
use polyloom::graph::{Layout, TensorOperand};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use smallvec::SmallVec;

/// Says how the calls of a group use an external value.
#[derive(Clone, Copy, Default)]
pub(crate) struct ExternalUse {
    pub(crate) is_tensor: bool,
    pub(crate) is_attribute: bool,
}

/// Says what is known of the values that a group is given.
pub(crate) struct ValueTypes {
    pub(crate) types: Vec<ExternalType>,
    pub(crate) keys: Vec<ExternalKey>,
    pub(crate) tensors: Vec<usize>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) package: TensorPackage,
    /// For each input, true if it is in the memory of a device.
    pub(crate) is_resident: Vec<bool>,
    /// Set if tensors are on several devices.
    pub(crate) mixed: Option<MixedDevices>,
    /// The package of tensors that have axes, if there is one.
    given: Option<TensorPackage>,
    /// The device of tensors that have axes, with the first value that is there.
    device: Option<(DeviceId, usize)>,
}

/// Two values on different devices, the first of each.
#[derive(Clone, Copy)]
pub(crate) struct MixedDevices {
    pub(crate) first: (DeviceId, usize),
    pub(crate) other: (DeviceId, usize),
}

impl Default for ValueTypes {
    fn default() -> ValueTypes {
        ValueTypes {
            types: Vec::new(),
            keys: Vec::new(),
            tensors: Vec::new(),
            layouts: Vec::new(),
            package: TensorPackage::NumPy,
            is_resident: Vec::new(),
            mixed: None,
            given: None,
            device: None,
        }
    }
}

impl ValueTypes {
    /// Adds a value. `gives_numbers` says that Python numbers are given at each run, by their places, which are counted.
    ///
    /// # Errors
    ///
    /// `TypeError` of elements that ops do not take, and of tensors of several packages.
    pub(crate) fn push(
        &mut self,
        py: Python<'_>,
        index: usize,
        object: &Bound<'_, PyAny>,
        external: ExternalUse,
        gives_numbers: bool,
        n_numbers: &mut u32,
    ) -> PyResult<()> {
        let mut held = SmallVec::new();
        // SAFETY: the object is alive, and the view is used up before Python code runs.
        let view = unsafe { view_of(py, object.as_ptr(), &mut held) };
        let is_value = external.is_attribute || !gives_numbers;
        let number = |is_float: bool, n_numbers: &mut u32| {
            *n_numbers += 1;
            ExternalType::Number(TensorOperand::Number { index: *n_numbers - 1, is_float })
        };
        let (ty, key) = match view {
            TensorView::Tensor(fields) if external.is_tensor => {
                let key = ExternalKey::of_tensor(&fields);
                let dtype = match fields.package {
                    TensorPackage::Torch => torch_tensor::scalar_of(fields.type_number),
                    _ => array_scalar(py, object),
                };
                let Some(dtype) = dtype else {
                    return Err(PyTypeError::new_err("has elements that ops do not take"));
                };
                let bytes = if fields.package == TensorPackage::Torch { 1 } else { i64::from(dtype.bytes()) };
                let extents = fields.extents.iter().map(|&extent| extent as u64).collect();
                let strides = fields.strides.iter().map(|&stride| stride / bytes).collect();
                self.layouts.push(Layout { extents, strides, offset: 0 });
                self.tensors.push(index);
                self.is_resident.push(fields.device != DeviceId::Cpu);
                if !fields.extents.is_empty() {
                    self.join_device(fields.device, index);
                    self.join(fields.package)?;
                } else if self.given.is_none() {
                    self.package = self.package.max(fields.package);
                }
                (ExternalType::Tensor(tensor_type(dtype, fields.extents)), key)
            }
            TensorView::Float(_) if !is_value => (number(true, n_numbers), ExternalKey::Number { is_float: true }),
            TensorView::Int(_) if !is_value => (number(false, n_numbers), ExternalKey::Number { is_float: false }),
            TensorView::Float(value) => (literal_type(object), ExternalKey::Float(value.to_bits())),
            TensorView::Int(value) => (literal_type(object), ExternalKey::Int(value)),
            _ => (literal_type(object), ExternalKey::of_object(object)?),
        };
        self.types.push(ty);
        self.keys.push(key);
        Ok(())
    }

    /// The device of the results. Numbers and tensors without axes are copied from the host to where the others are.
    pub(crate) fn device(&self) -> DeviceId {
        self.device.map_or(DeviceId::Cpu, |(device, _)| device)
    }

    /// Notes the device of a tensor that has axes.
    fn join_device(&mut self, device: DeviceId, index: usize) {
        let first = *self.device.get_or_insert((device, index));
        if first.0 != device && self.mixed.is_none() {
            self.mixed = Some(MixedDevices { first, other: (device, index) });
        }
    }

    /// Notes the package of a tensor that has axes.
    fn join(&mut self, package: TensorPackage) -> PyResult<()> {
        let is_mixed = self.given.is_some_and(|given| {
            given != package && (given == TensorPackage::Torch || package == TensorPackage::Torch)
        });
        if is_mixed {
            return Err(PyTypeError::new_err(
                "the arguments are both PyTorch tensors and other arrays: convert one, by torch.from_numpy(x) or x.numpy()",
            ));
        }
        self.given = Some(self.given.map_or(package, |given| given.max(package)));
        self.package = self.given.unwrap_or(package);
        Ok(())
    }
}

fn literal_type(object: &Bound<'_, PyAny>) -> ExternalType {
    literal(object).map_or(ExternalType::Other, ExternalType::Number)
}
