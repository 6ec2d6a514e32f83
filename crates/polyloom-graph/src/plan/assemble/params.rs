//! The parameters of a body: arrays, and numbers by their roles.

use super::BodyAssembler;
use crate::layout::Layout;
use crate::plan::PlanArg;
use crate::plan::body::{BodyAddress, BodyForm, BodyParam, BodyPlace, BodyStride};
use crate::plan::expression::Source;
use polyloom_ir::Scalar;

/// The role of a number that is a parameter. Numbers of one role and value are one parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NumberRole {
    Extent(usize),
    Stride(usize, i64),
    Offset(usize, i64),
    Count(u64),
    ElementCount(u64, Scalar),
    Distance(i64),
    GroupedTiles,
    Piece,
    SortStep,
    Given(u32, Scalar),
}

impl BodyAssembler<'_> {
    pub(super) fn address(&mut self, source: Source, layout: &Layout) -> BodyAddress {
        // An element that is the same along an axis is there even if the axis is empty.
        let touched = |(&extent, &stride): (&u64, &i64)| if stride == 0 { 1 } else { extent };
        let extents = layout.extents.iter().zip(&layout.strides).map(touched).collect();
        let range = Layout { extents, ..layout.clone() }.place_range();
        let (least, n) = range.map_or((layout.offset, 0), |(least, most)| (least, (most - least + 1) as u64));
        self.address_within(source, layout, least, n)
    }

    /// Returns the address of the first of `n` elements that lie at a distance from each other.
    pub(super) fn spanning_address(&mut self, source: Source, layout: &Layout, n: u64, distance: i64) -> BodyAddress {
        let (least, most) = layout.place_range().unwrap_or((layout.offset, layout.offset));
        let reach = (n.max(1) - 1) as i64 * distance;
        let (least, most) = (least + reach.min(0), most + reach.max(0));
        self.address_within(source, layout, least, (most - least) as u64 + 1)
    }

    pub(super) fn address_within(
        &mut self,
        source: Source,
        layout: &Layout,
        least: i64,
        n_elements: u64,
    ) -> BodyAddress {
        let buffer = self.buffers.buffer(self.graph, source);
        let dtype = self.buffers.buffers[buffer].dtype;
        let key = (buffer, least, n_elements);
        let array = match self.arrays.get(&key) {
            Some(&array) => array,
            None => {
                self.params.push(BodyParam { is_array: true, dtype });
                self.args.push(PlanArg::Array { buffer, offset: least, n_elements });
                let array = self.params.len() as u16 - 1;
                self.arrays.insert(key, array);
                array
            }
        };
        BodyAddress { array, place: self.place(layout, layout.offset - least) }
    }

    pub(super) fn place(&mut self, layout: &Layout, offset: i64) -> BodyPlace {
        let is_number = self.form() == BodyForm::Numbered && self.axes.is_dense(layout);
        let merged = if is_number { Vec::new() } else { self.axes.strides(layout) };
        let strides = merged.into_iter().enumerate().map(|(axis, stride)| match stride {
            0 => BodyStride::Zero,
            1 => BodyStride::One,
            stride => BodyStride::Param(self.integer(NumberRole::Stride(axis, stride), stride)),
        });
        let strides = strides.collect();
        let n_params = self.params.len();
        let offset = (offset != 0).then(|| self.integer(NumberRole::Offset(n_params, offset), offset));
        BodyPlace { strides, offset, is_number }
    }

    pub(super) fn integer(&mut self, role: NumberRole, value: i64) -> u16 {
        let dtype = if self.is_wide { Scalar::I64 } else { Scalar::I32 };
        let bits = if self.is_wide { value as u64 } else { u64::from(value as u32) };
        self.number(role, PlanArg::Scalar { dtype, bits }, dtype)
    }

    pub(super) fn number(&mut self, role: NumberRole, arg: PlanArg, dtype: Scalar) -> u16 {
        if let Some(&param) = self.numbers.get(&role) {
            return param;
        }
        self.params.push(BodyParam { is_array: false, dtype });
        self.args.push(arg);
        let param = self.params.len() as u16 - 1;
        self.numbers.insert(role, param);
        param
    }
}
