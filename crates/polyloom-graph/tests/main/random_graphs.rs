//! Random graphs of all ops, and graphs that are the same but for names, order and sharing.

use polyloom_graph::reference::DenseTensor;
use polyloom_graph::{AttributeValue, Graph, GraphBuilder, Shape, TensorDef, TensorId, TensorOp, TensorOperand};
use polyloom_ir::Scalar;

/// A sequence of random numbers, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Builds a random graph, op by op, and lets it end with some of its values.
pub(crate) fn random_graph(random: &mut Random, dtypes: &[Scalar]) -> Graph {
    let mut b = GraphBuilder::new();
    let lengths = [1, 1, 2, 3, 4, 5];
    let base: Vec<u64> = (0..random.below(4)).map(|_| lengths[random.below(lengths.len())]).collect();
    let mut values: Vec<TensorId> = Vec::new();
    for index in 0..1 + random.below(3) {
        let first = random.below(base.len() + 1);
        let extents: Vec<u64> = base[first..].iter().map(|&n| if random.one_in(5) { 1 } else { n }).collect();
        let dtype = dtypes[random.below(dtypes.len())];
        values.push(b.input(&format!("x{index}"), dtype, Shape::of(&extents)).unwrap());
    }
    let infos: Vec<_> = TensorOp::all().collect();
    let mut n_tries = 0;
    while values.len() < 10 && n_tries < 60 {
        n_tries += 1;
        let info = infos[random.below(infos.len())];
        let pick = |random: &mut Random| values[values.len() - 1 - random.below(values.len().min(4))];
        let n_tensors = info.signature.tensor_counts().0 + usize::from(random.one_in(3));
        let mut operands: Vec<TensorOperand> = (0..n_tensors).map(|_| pick(random).into()).collect();
        if n_tensors == 2 && random.one_in(3) {
            let numbers =
                [TensorOperand::Int(2), TensorOperand::Float(0.5), TensorOperand::Int(0), TensorOperand::Int(1)];
            operands[random.below(2)] = numbers[random.below(4)];
        }
        let first = operands.iter().find_map(|operand| match operand {
            TensorOperand::Value(id) => Some(*id),
            _ => None,
        });
        let Some(first) = first else { continue };
        let extents = b.ty(first).unwrap().shape.as_static().unwrap();
        let mut attributes = Vec::new();
        for parameter in &info.signature.attributes {
            let Some(value) = random_attribute(info.name, parameter.name, &extents, random) else { continue };
            attributes.push((parameter.name, value));
        }
        if matches!(info.name, "rand" | "randn") {
            operands = vec![TensorOperand::Int(random.below(100) as i64)];
        }
        let Ok(made) = b.op(info.op, &operands, &attributes) else { continue };
        if b.ty(made).unwrap().shape.n_elements().unwrap() < 200 {
            values.push(made);
        }
    }
    let n_outputs = 1 + random.below(3);
    let outputs: Vec<TensorId> =
        (0..n_outputs).map(|_| values[values.len() - 1 - random.below(values.len().min(5))]).collect();
    b.finish(&outputs).unwrap()
}

fn random_attribute(op: &str, name: &str, extents: &[u64], random: &mut Random) -> Option<AttributeValue> {
    let rank = extents.len();
    Some(match name {
        "axis" | "axis1" | "axis2" if rank > 0 => AttributeValue::Int(random.below(rank) as i64),
        "axes" if op == "permute" => {
            let mut axes: Vec<i64> = (0..rank as i64).collect();
            (1..rank).for_each(|index| axes.swap(index, random.below(index + 1)));
            AttributeValue::Ints(axes)
        }
        "axes" => AttributeValue::Ints((0..rank as i64).filter(|_| random.one_in(2)).collect()),
        "keepdims" | "descending" | "largest" => AttributeValue::Bool(random.one_in(2)),
        "k" => AttributeValue::Int(1 + random.below(3) as i64),
        "dtype" => AttributeValue::Dtype([Scalar::F32, Scalar::F64, Scalar::I32, Scalar::U32][random.below(4)]),
        "shape" if op == "reshape" => {
            let n = extents.iter().product::<u64>();
            let factor = [1, 2, 3, 5].into_iter().rev().find(|factor| n % factor == 0).unwrap_or(1);
            AttributeValue::Shape(Shape::of(&[factor, n / factor]))
        }
        "shape" if op == "broadcast_to" => AttributeValue::Shape(Shape::of(&[&[2], extents].concat())),
        "shape" => AttributeValue::Shape(Shape::of(&[3, 1 + random.below(4) as u64])),
        "starts" => AttributeValue::Ints(extents.iter().map(|_| 0).collect()),
        "sizes" => AttributeValue::Shape(Shape::of(&extents.iter().map(|n| n.div_ceil(2)).collect::<Vec<_>>())),
        "steps" => AttributeValue::Ints(extents.iter().map(|_| 1 + i64::from(random.one_in(2))).collect()),
        "widths" => AttributeValue::Ints((0..2 * rank).map(|_| random.below(3) as i64).collect()),
        "repeats" => AttributeValue::Ints(extents.iter().map(|_| 1 + random.below(2) as i64).collect()),
        "groups" => AttributeValue::Int(1 + random.below(2) as i64),
        "size" | "stride" | "dilation" => AttributeValue::Ints(vec![1 + random.below(3) as i64]),
        "padding" => AttributeValue::Ints(vec![random.below(2) as i64]),
        "a_labels" | "b_labels" => AttributeValue::Ints((0..rank as i64).collect()),
        "labels" => AttributeValue::Ints((0..rank as i64).rev().filter(|_| random.one_in(2)).collect()),
        "combine" => AttributeValue::Text(["add", "multiply", "maximum", "minimum"][random.below(4)].into()),
        "equation" => {
            AttributeValue::Text(["ab,ab->b", "ab,cb", "a,b", "abc,abd->dca", "ab->a"][random.below(5)].into())
        }
        _ => return None,
    })
}

/// Makes inputs of a graph of known extents: numbers near 0, of both signs, or any bits.
pub(crate) fn random_inputs(graph: &Graph, random: &mut Random, has_any_bits: bool) -> Vec<DenseTensor> {
    let input = |(_, ty): (&str, &polyloom_graph::TensorType)| {
        let extents = ty.shape.as_static().unwrap();
        let n = extents.iter().product::<u64>() as usize;
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0];
        let mut element = || match random.below(if has_any_bits { 3 } else { 1 }) {
            1 => special[random.below(special.len())],
            _ => (random.next() % 4096) as f64 / 512.0 - 4.0,
        };
        let numbers: Vec<f64> = (0..n).map(|_| element()).collect();
        DenseTensor::of_numbers(ty.dtype, &extents, &numbers).unwrap()
    };
    graph.inputs().map(input).collect()
}

/// Returns the graph with other names, in another order, with operands of commutative ops exchanged, some values twice and some that no output
/// needs. Inputs keep their order.
pub(crate) fn disguised(graph: &Graph, random: &mut Random) -> Graph {
    let mut result = Graph::default();
    let n = graph.values.len();
    let mut copies: Vec<Vec<TensorId>> = vec![Vec::new(); n];
    let mut waiting: Vec<usize> = (0..n).collect();
    let is_input = |index: usize| matches!(graph.values[index].def, TensorDef::Input(_));
    while !waiting.is_empty() {
        // Any value whose operands are there, and no input before those that come first.
        let first_input = waiting.iter().copied().find(|&index| is_input(index));
        let is_ready = |&index: &usize| match &graph.values[index].def {
            TensorDef::Op { operands, .. } => operands.iter().all(|operand| !copies[operand.0 as usize].is_empty()),
            _ => !is_input(index) || first_input == Some(index),
        };
        let ready: Vec<usize> = waiting.iter().copied().filter(is_ready).collect();
        let index = ready[random.below(ready.len())];
        let n_copies = if is_input(index) { 1 } else { 1 + usize::from(random.one_in(4)) };
        for _ in 0..n_copies {
            let mut value = graph.values[index].clone();
            match &mut value.def {
                TensorDef::Input(name) => *name = format!("other_{}_{name}", n - index).into(),
                TensorDef::Op { op, operands, .. } => {
                    for operand in operands.iter_mut() {
                        let of_operand = &copies[operand.0 as usize];
                        *operand = of_operand[random.below(of_operand.len())];
                    }
                    if op.is_commutative() && operands.len() == 2 && random.one_in(2) {
                        operands.swap(0, 1);
                    }
                }
                _ => {}
            }
            copies[index].push(TensorId(result.values.len() as u32));
            result.values.push(value);
        }
        waiting.retain(|&other| other != index);
    }
    // Values that no output needs.
    for _ in 0..random.below(3) {
        let value = result.values[random.below(result.values.len())].clone();
        if !matches!(value.def, TensorDef::Input(_)) {
            result.values.push(value);
        }
    }
    let output = |id: &TensorId| {
        let of_output = &copies[id.0 as usize];
        of_output[of_output.len() - 1]
    };
    result.outputs = graph.outputs.iter().map(output).collect();
    result
}
