//! Layouts: where the elements of a tensor lie in a buffer.

/// An offset and a stride for each axis, in elements. A broadcast axis has stride 0, a flipped one a negative stride.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The extents of the axes.
    pub extents: Vec<u64>,
    /// The distances in elements between neighbours along each axis.
    pub strides: Vec<i64>,
    /// The place of the element whose indices are all 0.
    pub offset: i64,
}

impl Layout {
    /// Makes the dense row-major layout.
    ///
    /// ```
    /// use polyloom_graph::Layout;
    /// assert_eq!(Layout::dense(&[2, 3, 4]).strides, [12, 4, 1]);
    /// ```
    pub fn dense(extents: &[u64]) -> Layout {
        let mut strides = vec![1; extents.len()];
        for axis in (1..extents.len()).rev() {
            // An extent of 0 counts as 1, as in NumPy, so that the strides of an empty tensor are those of a full one.
            strides[axis - 1] = strides[axis] * (extents[axis].max(1) as i64);
        }
        Layout { extents: extents.to_vec(), strides, offset: 0 }
    }

    /// Returns true if the elements lie in row-major order without gaps. Axes of extent 1 have any stride.
    pub fn is_dense(&self) -> bool {
        let dense = Layout::dense(&self.extents);
        let is_empty = self.extents.contains(&0);
        let axes = self.strides.iter().zip(&dense.strides).zip(&self.extents);
        is_empty || axes.into_iter().all(|((stride, expected), &extent)| extent == 1 || stride == expected)
    }

    /// Returns the number of elements.
    pub fn n_elements(&self) -> u64 {
        self.extents.iter().product()
    }

    /// Orders the axes anew: axis `i` of the result is axis `axes[i]`.
    pub fn permuted(&self, axes: &[usize]) -> Layout {
        Layout {
            extents: axes.iter().map(|&axis| self.extents[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Takes `sizes[axis]` elements of each axis, from `starts[axis]` on in steps. Strides wrap, because the step along an axis
    /// of one element may be any number.
    pub fn sliced(&self, starts: &[i64], sizes: &[u64], steps: &[i64]) -> Layout {
        let offset = self
            .strides
            .iter()
            .zip(starts)
            .fold(0i64, |sum, (stride, start)| sum.wrapping_add(stride.wrapping_mul(*start)));
        let strides = self.strides.iter().zip(steps).map(|(stride, step)| stride.wrapping_mul(*step)).collect();
        Layout { extents: sizes.to_vec(), strides, offset: self.offset.wrapping_add(offset) }
    }

    /// Repeats elements along new leading axes and along axes of extent 1. The extents are ones that the layout's broadcast
    /// to: there are not fewer, and the others are the same.
    pub fn broadcast_to(&self, extents: &[u64]) -> Layout {
        let n_new = extents.len() - self.extents.len();
        let own = self.extents.iter().zip(&self.strides).zip(&extents[n_new..]);
        let strides = own.map(|((&from, &stride), &to)| if from == to { stride } else { 0 });
        Layout {
            extents: extents.to_vec(),
            strides: std::iter::repeat_n(0, n_new).chain(strides).collect(),
            offset: self.offset,
        }
    }

    /// Returns the same elements in row-major order along other axes; `None` if they then do not lie at constant distances. There
    /// are as many elements.
    pub fn reshaped(&self, extents: &[u64]) -> Option<Layout> {
        if self.extents.contains(&0) {
            return Some(Layout { offset: self.offset, ..Layout::dense(extents) });
        }
        let old: Vec<(u64, i64)> =
            self.extents.iter().copied().zip(self.strides.iter().copied()).filter(|(extent, _)| *extent != 1).collect();
        let mut strides = vec![0; extents.len()];
        let (mut first, mut axis) = (0, 0);
        while first < old.len() {
            // The least run of old axes, and of new ones, with as many elements.
            let (mut last, mut n_old, mut n_new, start) = (first, old[first].0, 1, axis);
            while n_old != n_new {
                if n_new < n_old {
                    n_new *= extents.get(axis)?;
                    axis += 1;
                } else {
                    last += 1;
                    n_old *= old.get(last)?.0;
                }
            }
            for pair in old[first..=last].windows(2) {
                if pair[0].1 != pair[1].1.checked_mul(i64::try_from(pair[1].0).ok()?)? {
                    return None;
                }
            }
            let mut stride = old[last].1;
            for new in (start..axis).rev() {
                strides[new] = stride;
                stride = stride.wrapping_mul(extents[new] as i64);
            }
            first = last + 1;
        }
        Some(Layout { extents: extents.to_vec(), strides, offset: self.offset })
    }

    /// Cuts axes into windows: `steps` apart along the axis, with the elements of each, `dilations` apart, along a new axis at the
    /// end. The extents are those of the result.
    pub fn windows(&self, axes: &[usize], extents: &[u64], steps: &[i64], dilations: &[i64]) -> Layout {
        let mut strides = self.strides.clone();
        strides.extend(axes.iter().zip(dilations).map(|(&axis, dilation)| self.strides[axis].wrapping_mul(*dilation)));
        for (&axis, step) in axes.iter().zip(steps) {
            strides[axis] = strides[axis].wrapping_mul(*step);
        }
        Layout { extents: extents.to_vec(), strides, offset: self.offset }
    }

    /// Adds axes at the end, along which all elements are the same.
    pub fn repeated(&self, extents: &[u64]) -> Layout {
        let mut layout = self.clone();
        layout.extents.extend(extents);
        layout.strides.resize(layout.extents.len(), 0);
        layout
    }

    /// Returns the least and the greatest place of an element; `None` if there is none.
    pub fn place_range(&self) -> Option<(i64, i64)> {
        if self.extents.contains(&0) {
            return None;
        }
        let reach = self.extents.iter().zip(&self.strides).map(|(&extent, stride)| (extent as i64 - 1) * stride);
        Some(reach.fold((self.offset, self.offset), |(least, most), reach| (least + reach.min(0), most + reach.max(0))))
    }

    /// Returns the places of the elements, in row-major order of their indices.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let n = self.n_elements();
        let mut index = vec![0u64; self.extents.len()];
        let mut place = self.offset;
        (0..n).map(move |_| {
            let here = place as usize;
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                place = place.wrapping_add(self.strides[axis]);
                if index[axis] < self.extents[axis] {
                    break;
                }
                place = place.wrapping_sub(self.strides[axis].wrapping_mul(index[axis] as i64));
                index[axis] = 0;
            }
            here
        })
    }
}
