//! What a random kernel is launched with, and what it may do with each of its parameters.

use super::Random;
use crate::interp::{BufferMemory, InterpArg};
use crate::op::Op;
use crate::types::{Scalar, Type};

/// Describes how a kernel uses a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParamRole {
    Scalar,
    /// Read anywhere, never written. It has [`PADDING`] more elements than there are threads, and [`N_ROWS`] such rows
    /// if it has rows.
    Input,
    /// Element i is read and written by thread i alone.
    Own,
    /// Updated anywhere by one atomic.
    Shared(Op),
}

/// Distance by which thread indices may be shifted and still be indices of inputs.
pub(super) const PADDING: usize = 8;

/// Rows of an input of two dimensions: a power of two.
pub(super) const N_ROWS: usize = 4;

/// Elements of a shared array: a power of two.
pub(super) const N_SHARED: usize = 4;

pub(super) struct LaunchBuilder {
    pub(super) memory: BufferMemory,
    pub(super) args: Vec<InterpArg>,
    pub(super) params: Vec<(String, Type)>,
    pub(super) roles: Vec<ParamRole>,
}

impl LaunchBuilder {
    pub(super) fn arrange(&mut self, random: &mut Random, n_threads: usize) {
        self.scalar("n".to_owned(), Scalar::I32, random.below(12) as u64);
        for index in 0..random.below(4) {
            let ty = random.scalar();
            let bits = random.value(ty);
            self.scalar(format!("s{index}"), ty, bits);
        }
        for index in 0..1 + random.below(3) {
            let ty = random.scalar();
            let mut extents = vec![n_threads + PADDING];
            if random.one_in(3) {
                extents.insert(0, N_ROWS);
            }
            self.array(random, format!("input{index}"), ty, &extents, ParamRole::Input);
        }
        self.array(random, "floats".to_owned(), Scalar::F32, &[n_threads], ParamRole::Own);
        self.array(random, "ints".to_owned(), Scalar::I32, &[n_threads], ParamRole::Own);
        let ty = random.scalar();
        self.array(random, "others".to_owned(), ty, &[n_threads], ParamRole::Own);
        if random.one_in(2) {
            let op = random.pick(&[
                Op::AtomicAdd,
                Op::AtomicSub,
                Op::AtomicMin,
                Op::AtomicMax,
                Op::AtomicAnd,
                Op::AtomicOr,
                Op::AtomicXor,
            ]);
            let ty = random.pick(&[Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::I8, Scalar::U16]);
            self.array(random, "shared".to_owned(), ty, &[N_SHARED], ParamRole::Shared(op));
        }
    }

    fn scalar(&mut self, name: String, ty: Scalar, bits: u64) {
        self.params.push((name, ty.into()));
        self.args.push(InterpArg::Scalar(bits));
        self.roles.push(ParamRole::Scalar);
    }

    fn array(&mut self, random: &mut Random, name: String, elem: Scalar, extents: &[usize], role: ParamRole) {
        let elements: Vec<u64> = (0..extents.iter().product()).map(|_| random.value(elem)).collect();
        self.params.push((name, Type::array(elem, extents.len() as u8)));
        self.args.push(self.memory.add_array(elem, extents, &elements));
        self.roles.push(role);
    }
}
