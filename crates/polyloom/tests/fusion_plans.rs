//! Plans of tensor graphs, run on the CPU, give the bits of the reference evaluator.

use polyloom::{ArgBlock, Kernel, LaunchOptions, Module, Scalar, Session, SourceMap, Tier, TierPolicy};
use polyloom_graph::plan::{BufferKind, FusionPlan, KernelGrid, PlanArg, PlanOptions, TileShape, plan};
use polyloom_graph::reference::{DenseTensor, evaluate};
use polyloom_graph::{AttributeValue, GraphBuilder, Layout, Shape, TensorId, TensorOp, TensorOperand, parse_graph};
use polyloom_ir::generate::Random;

/// A strided input: the memory that it lies in, and where.
struct StridedInput {
    memory: Vec<u8>,
    layout: Layout,
}

/// Lays a tensor out with axes in another order, or reversed.
fn strided(tensor: &DenseTensor, random: &mut Random) -> StridedInput {
    let rank = tensor.extents.len();
    let mut order: Vec<usize> = (0..rank).collect();
    if random.one_in(3) {
        order.reverse();
    }
    let extents: Vec<u64> = order.iter().map(|&axis| tensor.extents[axis]).collect();
    let gap = if random.one_in(3) { 2 } else { 1 };
    let dense = Layout::dense(&extents);
    let mut strides = vec![0; rank];
    for (place, &axis) in order.iter().enumerate() {
        strides[axis] = dense.strides[place] * gap;
    }
    let mut offset = 0;
    for (stride, &extent) in strides.iter_mut().zip(&tensor.extents) {
        if random.one_in(4) && !tensor.bits.is_empty() {
            offset += *stride * (extent as i64 - 1);
            *stride = -*stride;
        }
    }
    let size = tensor.dtype.bytes() as usize;
    let n = tensor.extents.iter().product::<u64>() as usize * gap as usize + 1;
    let mut memory = vec![0u8; n * size];
    let layout = Layout { extents: tensor.extents.clone(), strides, offset };
    for (place, bits) in layout.places().zip(&tensor.bits) {
        memory[place * size..(place + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    StridedInput { memory, layout }
}

fn compile(session: &Session, plan: &FusionPlan) -> Vec<Kernel> {
    let compile = |kernel: &polyloom_graph::plan::PlanKernel| {
        let mut module = Module::new();
        let id = module.functions.push(kernel.body.function().expect("the body is a kernel"));
        session.compile_module(module, id, SourceMap::new()).expect("the kernel compiles")
    };
    plan.kernels.iter().map(compile).collect()
}

/// Runs a plan over memory of its own and returns the outputs, densely.
fn run(session: &Session, plan: &FusionPlan, inputs: &mut [StridedInput]) -> Vec<DenseTensor> {
    let mut own: Vec<Vec<u8>> = Vec::new();
    for buffer in &plan.buffers {
        let n = (buffer.n_elements + 1) as usize * buffer.dtype.bytes() as usize;
        own.push(if let BufferKind::Input(_) = buffer.kind { Vec::new() } else { vec![0xcd; n] });
    }
    for (planned, kernel) in plan.kernels.iter().zip(compile(session, plan)) {
        let params = kernel.params();
        let mut args = ArgBlock::new();
        for arg in &planned.args {
            match *arg {
                PlanArg::Scalar { dtype, bits } => args.scalar(params, dtype, bits).unwrap(),
                PlanArg::Number { .. } => panic!("the graph has no numbers"),
                PlanArg::Array { buffer, offset, n_elements } => {
                    let dtype = plan.buffers[buffer].dtype;
                    let memory = match plan.buffers[buffer].kind {
                        BufferKind::Input(input) => &mut inputs[input].memory,
                        _ => &mut own[buffer],
                    };
                    let first = offset as usize * dtype.bytes() as usize;
                    let end = first + n_elements as usize * dtype.bytes() as usize;
                    assert!(end <= memory.len(), "the plan stays within its buffers");
                    let base = memory[first..].as_mut_ptr();
                    args.array(params, dtype, base, &[n_elements], &[dtype.bytes().into()]).unwrap();
                }
            }
        }
        let shape = match &planned.grid {
            KernelGrid::Threads(extents) => extents.clone(),
            KernelGrid::Blocks { n_blocks, n_threads } => vec![n_blocks * u64::from(*n_threads)],
        };
        // SAFETY: the arrays outlive the launch, which is checked against their extents.
        unsafe { kernel.launch(&shape, &args, &LaunchOptions::default()) }.unwrap_or_else(|error| {
            panic!("{error}\n{}", kernel.module().0);
        });
    }
    let read = |output: &polyloom_graph::plan::PlanOutput| {
        let buffer = &plan.buffers[output.buffer];
        let size = buffer.dtype.bytes() as usize;
        let memory = match buffer.kind {
            BufferKind::Input(input) => &inputs[input].memory,
            _ => &own[output.buffer],
        };
        let element = |place: usize| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&memory[place * size..(place + 1) * size]);
            u64::from_le_bytes(bytes)
        };
        let bits = output.layout.places().map(element).collect();
        DenseTensor { dtype: buffer.dtype, extents: output.layout.extents.clone(), bits }
    };
    plan.outputs.iter().map(read).collect()
}

fn random_tensor(dtype: Scalar, extents: &[u64], random: &mut Random) -> DenseTensor {
    let n = extents.iter().product::<u64>();
    let value = |_| match random.below(40) {
        0 => 0.0,
        1 => -0.0,
        2 if dtype.is_float() && random.one_in(20) => f64::NAN,
        3 if dtype.is_float() && random.one_in(20) => f64::INFINITY,
        _ if dtype == Scalar::Bool => f64::from(random.one_in(2)),
        _ if dtype.is_float() => random.below(2_000_001) as f64 / 1e6 - 1.0,
        _ => random.below(7) as f64,
    };
    let values: Vec<f64> = (0..n).map(value).collect();
    DenseTensor::of_numbers(dtype, extents, &values).unwrap()
}

/// NaNs are equal whatever their bits.
fn canonical(tensor: &DenseTensor) -> Vec<u64> {
    let numbers = tensor.numbers();
    tensor.bits.iter().zip(numbers).map(|(&bits, number)| if number.is_nan() { u64::MAX } else { bits }).collect()
}

/// Plans a graph, runs it and compares; gives the number of kernels.
fn check(session: &Session, text: &str, seed: u64) -> usize {
    check_with(session, text, seed, &PlanOptions::default())
}

fn check_with(session: &Session, text: &str, seed: u64, options: &PlanOptions) -> usize {
    let mut random = Random::new(seed);
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let tensors: Vec<DenseTensor> =
        graph.inputs().map(|(_, ty)| random_tensor(ty.dtype, &ty.shape.as_static().unwrap(), &mut random)).collect();
    let expected = evaluate(&graph, &tensors).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut n_kernels = 0;
    for is_dense in [true, false] {
        let lay_out = |tensor: &DenseTensor| match is_dense {
            true => {
                let mut random = Random::new(0);
                let mut input = strided(tensor, &mut random);
                let size = tensor.dtype.bytes() as usize;
                input.layout = Layout::dense(&tensor.extents);
                input.memory = tensor.bits.iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
                input.memory.extend([0; 8]);
                input
            }
            false => strided(tensor, &mut random.clone()),
        };
        let mut inputs: Vec<StridedInput> = tensors.iter().map(lay_out).collect();
        random.bits();
        let layouts: Vec<Layout> = inputs.iter().map(|input| input.layout.clone()).collect();
        let planned = plan(&graph, &layouts, options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        if is_dense {
            n_kernels = planned.kernels.len();
        }
        let found = run(session, &planned, &mut inputs);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!((found.dtype, &found.extents), (expected.dtype, &expected.extents), "{text}");
            let (found_bits, expected_bits) = (canonical(found), canonical(expected));
            if let Some(place) = (0..found_bits.len()).find(|&place| found_bits[place] != expected_bits[place]) {
                let hir: Vec<String> =
                    planned.kernels.iter().map(|kernel| kernel.body.function().unwrap().to_string()).collect();
                panic!(
                    "output {index}, element {place}: {} is not {} (dense: {is_dense})\n{text}\n{}",
                    found.numbers()[place],
                    expected.numbers()[place],
                    hir.join("\n")
                );
            }
        }
    }
    n_kernels
}

#[test]
fn graphs_give_the_bits_of_the_reference_in_few_kernels() {
    let session = Session::new().unwrap();
    let x = |shape: &str| format!("%x = input \"x\" : f32[{shape}]\n");
    let cases: &[(String, usize)] = &[
        (x("1000") + "%y = add %x, 1.5\n%z = relu %y\n%w = multiply %z, %x\nreturn %w", 1),
        (x("10, 7") + "%v = input \"v\" : f32[7]\n%y = add %x, %v\n%z = exp %y\nreturn %y, %z", 1),
        (
            x("5, 6")
                + "%t = transpose %x\n%e = exp %t\n%s = slice %e, starts=(1, 0), sizes=[4, 5], steps=(1, 1)\nreturn %s",
            1,
        ),
        (x("6, 4") + "%r = reshape %x, shape=[3, 8]\n%y = add %r, 1\nreturn %y", 1),
        (x("40, 100") + "%v = input \"v\" : f32[100]\n%y = multiply %x, %v\n%z = tanh %y\nreturn %y, %z", 1),
        (x("5, 8, 100") + "%v = input \"v\" : f32[5, 1, 100]\n%y = add %x, %v\n%z = exp %v\nreturn %y, %z", 2),
        (x("33, 100") + "%v = input \"v\" : f32[100, 33]\n%t = transpose %v\n%y = add %x, %t\nreturn %y", 1),
        (
            x("3, 40, 2, 65")
                + "%v = input \"v\" : f32[65, 2, 3, 40]\n%t = permute %v, axes=(2, 3, 1, 0)\n%y = subtract %x, %t\nreturn %y",
            1,
        ),
        (x("50, 40, 3") + "%v = input \"v\" : f32[3]\n%y = subtract %x, %v\n%z = divide %y, %v\nreturn %y, %z", 1),
        (x("9, 1, 7") + "%v = input \"v\" : f32[9, 4, 1]\n%y = multiply %x, %v\nreturn %y", 1),
        (x("40, 1") + "%v = input \"v\" : f32[100]\n%y = add %x, %v\nreturn %y", 1),
        (x("40, 100") + "%y = sum %x, axes=(1)\nreturn %y", 1),
        (x("40, 100") + "%y = softmax %x\nreturn %y", 1),
        (x("40, 20") + "%y = softmax %x\nreturn %y", 1),
        (x("40, 100") + "%y = softmax %x, axis=0\nreturn %y", 8),
        (x("40, 100") + "%y = layer_norm %x\nreturn %y", 1),
        (x("40, 100") + "%y = var %x, axes=(1)\n%z = mean %x, axes=(1)\nreturn %y, %z", 1),
        (x("3, 10000") + "%y = sum %x, axes=(1)\n%m = max %x, axes=(1)\nreturn %y, %m", 4),
        (x("30, 10000") + "%y = sum %x, axes=(1)\n%m = max %x, axes=(1)\nreturn %y, %m", 1),
        (x("100000") + "%y = sum %x\nreturn %y", 2),
        (x("100000") + "%y = norm %x\n%z = divide %x, %y\nreturn %z", 4),
        (x("5000, 8") + "%y = sum %x, axes=(0)\nreturn %y", 3),
        (x("300, 8") + "%y = mean %x, axes=(0)\n%z = subtract %x, %y\nreturn %z", 4),
        (x("7, 9, 11") + "%y = sum %x, axes=(0, 2)\nreturn %y", 3),
        (x("7, 9, 110") + "%y = sum %x, axes=(0, 2)\nreturn %y", 3),
        (x("40, 100") + "%y = argmax %x, axis=1\n%z = argmin %x, axis=0\nreturn %y, %z", 2),
        (x("40, 100") + "%y = logsumexp %x, axes=(1)\nreturn %y", 1),
        (x("12, 5") + "%y = cumsum %x, axis=0\n%z = cumprod %x, axis=1\nreturn %y, %z", 2),
        (x("2, 9000") + "%y = cumsum %x, axis=1\nreturn %y", 1),
        (x("12, 5") + "%y = cummax %x, axis=0\n%z = cummin %x, axis=1\nreturn %y, %z", 2),
        (x("7, 50") + "%a = input \"a\" : f32[50]\n%y = linear_recurrence %a, %x, axis=1\nreturn %y", 1),
        (x("7, 50") + "%a = input \"a\" : f32[7, 1]\n%y = linear_recurrence %x, %a, axis=0\nreturn %y", 1),
        (x("12, 5") + "%y = input \"y\" : f32[5, 6]\n%z = matmul %x, %y\n%w = relu %z\nreturn %w", 1),
        (
            x("12, 5")
                + "%y = exp %x\n%c = concat %x, %y, axis=1\n%p = pad %c, widths=(1, 2, 0, 3), value=1.5\nreturn %p",
            5,
        ),
        (x("4") + "%r = rand 7, shape=[3, 4]\n%y = add %x, %r\n%n = randn 8, shape=[5]\nreturn %y, %n", 2),
        (x("0, 5") + "%y = sum %x, axes=(0)\n%z = add %x, 1\nreturn %y, %z", 2),
        (x("4, 6, 8") + "%y = group_norm %x, groups=3\nreturn %y", 2),
        (x("4, 6") + "%y = flip %x\n%z = broadcast_to %y, shape=[3, 4, 6]\nreturn %y, %z", 0),
    ];
    for (index, (text, most)) in cases.iter().enumerate() {
        let found = check(&session, text, index as u64);
        assert!(found <= *most, "{found} kernels, not {most}: {text}");
    }
}

/// Products in every shape of tile, with what comes before and after them, have the same bits.
#[test]
fn no_tile_changes_a_bit_of_a_product() {
    let session = Session::new().unwrap();
    let sizes =
        [[1, 4, 33], [5, 9, 13], [12, 32, 7], [13, 33, 40], [25, 64, 3], [40, 100, 65], [7, 47, 1], [64, 16, 20]];
    let mut random = Random::new(3);
    let mut n_tiled = 0;
    for [rows, columns, length] in sizes {
        for dtype in ["f32", "f64", "f16", "i32", "u8"] {
            let text = format!(
                "%a = input \"a\" : {dtype}[{rows}, {length}]\n%b = input \"b\" : {dtype}[2, {length}, {columns}]\n\
                 %c = input \"c\" : {dtype}[{columns}]\n%d = multiply %a, %a\n%p = matmul %d, %b\n%q = add %p, %c\n\
                 %r = multiply %q, %q\nreturn %r, %p"
            );
            let shapes =
                [None, Some(random_tile(&mut random)), Some(random_tile(&mut random)), Some(random_tile(&mut random))];
            for tile_shape in shapes {
                let options = PlanOptions { tile_shape, ..PlanOptions::default() };
                n_tiled += usize::from(tile_shape.is_some());
                check_with(&session, &text, random.below(1000) as u64, &options);
            }
        }
    }
    assert!(n_tiled > 100);
}

/// Products of a matrix and a vector, either way round, with few elements and with many.
#[test]
fn products_of_matrices_and_vectors_have_the_bits_of_the_reference() {
    let mut random = Random::new(5);
    let sizes =
        [[1, 40], [5, 33], [33, 100], [40, 257], [100, 31], [300, 64], [7, 500], [64, 32], [2100, 70], [300, 500]];
    for (index, session) in tiers().iter().enumerate() {
        for [columns, length] in sizes {
            for dtype in [["f32", "f64"], ["f16", "i32"]][index % 2] {
                let tile_shape = random.one_in(3).then(|| random_tile(&mut random));
                let options = PlanOptions { tile_shape, ..PlanOptions::default() };
                for (a, b) in [
                    (format!("{columns}, {length}"), format!("{length}")),
                    (format!("{length}"), format!("{length}, {columns}")),
                    (format!("2, 1, {length}"), format!("3, 1, {length}, {columns}")),
                ] {
                    let text = format!(
                        "%a = input \"a\" : {dtype}[{a}]\n%b = input \"b\" : {dtype}[{b}]\n%c = multiply %b, 3\n\
                         %p = matmul %a, %c\n%q = multiply %p, %p\nreturn %q, %p"
                    );
                    check_with(session, &text, random.below(1000) as u64, &options);
                }
            }
        }
    }
}

/// Contractions over random axes, and convolutions, with what comes before and after them.
#[test]
fn contractions_have_the_bits_of_the_reference_in_all_tiles() {
    let session = Session::new().unwrap();
    let n_graphs = std::env::var("POLYLOOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut random = Random::new(11);
    for seed in 0..n_graphs {
        let extents: Vec<u64> = (0..6).map(|_| [1, 2, 3, 5, 8, 13, 20, 33][random.below(8)]).collect();
        // Labels of the first operand alone, of the second, of both and the result, and of both alone.
        let kind: Vec<usize> = (0..6).map(|_| random.below(4)).collect();
        let shuffled = |kinds: &[usize], random: &mut Random| {
            let mut labels: Vec<usize> = (0..6).filter(|&label| kinds.contains(&kind[label])).collect();
            (1..labels.len()).for_each(|index| labels.swap(index, random.below(index + 1)));
            labels
        };
        let [a, b, r] = [[0, 2, 3], [1, 2, 3], [0, 1, 2]].map(|kinds| shuffled(&kinds, &mut random));
        let n = |labels: &[usize]| labels.iter().map(|&label| extents[label]).product::<u64>();
        if n(&[0, 1, 2, 3, 4, 5]) > 300_000 {
            continue;
        }
        let list = |labels: &[usize]| labels.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let shape = |labels: &[usize]| labels.iter().map(|&l| extents[l].to_string()).collect::<Vec<_>>().join(", ");
        let dtype = ["f32", "f64", "bf16", "i32", "bool"][random.below(5)];
        let text = format!(
            "%a = input \"a\" : {dtype}[{}]\n%b = input \"b\" : {dtype}[{}]\n%c = input \"c\" : {dtype}[{}]\n\
             %p = contract %a, %b, a_labels=({}), b_labels=({}), labels=({})\n%q = add %p, %c\nreturn %q",
            shape(&a),
            shape(&b),
            shape(&r),
            list(&a),
            list(&b),
            list(&r)
        );
        let tile_shape = random.one_in(2).then(|| random_tile(&mut random));
        let (rows, length, columns) = (extents[0], extents[1], extents[2]);
        for (a, b) in [
            (format!("{rows}, {length}"), format!("{length}")),
            (format!("{length}"), format!("{length}, {columns}")),
            (format!("{length}"), format!("{length}")),
            (format!("3, {rows}, {length}"), format!("{length}")),
            (format!("{length}"), format!("2, {length}, {columns}")),
            (format!("2, 1, {rows}, {length}"), format!("3, {length}, {columns}")),
        ] {
            let text = format!(
                "%a = input \"a\" : f32[{a}]\n%b = input \"b\" : f32[{b}]\n%p = matmul %a, %b\n%q = relu %p\nreturn %q, %p"
            );
            check_with(&session, &text, seed, &PlanOptions { tile_shape, ..PlanOptions::default() });
        }
        check_with(&session, &text, seed, &PlanOptions { tile_shape, ..PlanOptions::default() });
        let [queries, keys, width, values] = [20, 150, 9, 150].map(|n| 1 + random.below(n));
        let (causal, dtype) = (random.one_in(2), ["f32", "f32", "f64", "f16"][random.below(4)]);
        let text = format!(
            "%q = input \"q\" : {dtype}[2, {queries}, {width}]\n%k = input \"k\" : {dtype}[2, {keys}, {width}]\n\
             %v = input \"v\" : {dtype}[{keys}, {values}]\n%l = multiply %k, 0.5\n\
             %r = attention %q, %l, %v, causal={causal}\n%s = relu %r\nreturn %s, %r"
        );
        let vector_bytes = [16, 32, 64][random.below(3)];
        check_with(&session, &text, seed, &PlanOptions { vector_bytes, ..PlanOptions::default() });
        let (rows, columns, taken) = (1 + random.below(9), 1 + random.below(70), 1 + random.below(20));
        let axis = random.below(2);
        let index = [format!("{taken}, {columns}"), format!("{rows}, {taken}")][axis].clone();
        let text = format!(
            "%x = input \"x\" : f32[{rows}, {columns}]\n%i = input \"i\" : i32[{index}]\n%e = exp %x\n\
             %j = subtract %i, 3\n%g = gather %e, %j, axis={axis}\n%h = multiply %g, 0.5\n\
             %s = scatter_add %e, %j, %h, axis={axis}\n%t = add %s, %x\n%m = embedding %t, 1\nreturn %h, %t, %m"
        );
        check_with(&session, &text, seed, &PlanOptions::default());
        let [batch, groups, channels, outputs] = [2, 2, 3, 2].map(|n| 1 + random.below(n) as u64);
        let [height, width] = [8, 40].map(|n| 5 + random.below(n) as u64);
        let text = format!(
            "%x = input \"x\" : f32[{batch}, {}, {height}, {width}]\n%w = input \"w\" : f32[{}, {channels}, 3, {}]\n\
             %b = input \"b\" : f32[{}]\n%r = relu %x\n%y = conv2d %r, %w, %b, stride=({}), padding=({}), \
             dilation=({}), groups={groups}\n%z = relu %y\nreturn %z",
            groups * channels,
            groups * outputs * 3,
            1 + random.below(3),
            groups * outputs * 3,
            1 + random.below(2),
            random.below(3),
            1 + random.below(2),
        );
        check_with(&session, &text, seed, &PlanOptions { tile_shape, ..PlanOptions::default() });
    }
}

/// Sorts of rows of all lengths, with what comes before and after them, in code of both back ends.
#[test]
fn sorts_have_the_bits_of_the_reference() {
    let mut shapes: Vec<(String, usize)> =
        [1, 2, 3, 31, 32, 33, 1000, 2047, 2048, 2049, 5000, 70_000].map(|n| (n.to_string(), 0)).to_vec();
    let shaped =
        [("300, 7", 1), ("40, 33", 1), ("3, 2049", 1), ("70, 40", 0), ("2, 130, 3", 1), ("4100, 2", 0), ("5, 0", 1)];
    shapes.extend(shaped.map(|(shape, axis)| (shape.to_owned(), axis)));
    let dtypes = ["f32", "f64", "u8", "bf16", "i32", "bool", "i64", "f16"];
    let sessions = tiers();
    for (index, (shape, axis)) in shapes.iter().enumerate() {
        let is_long = shape == "70000";
        for dtype in [0, 1, 2].map(|other| dtypes[(index + 3 * other) % dtypes.len()]) {
            let text = format!(
                "%x = input \"x\" : {dtype}[{shape}]\n%y = multiply %x, %x\n%a = maximum %x, %y\n\
                 %s = sort %a, axis={axis}\n%i = argsort %a, axis={axis}, descending={}\n\
                 %z = add %s, %x\n%t = topk_indices %x, k={}, axis={axis}\n%v = gather %x, %t, axis={axis}\n\
                 return %z, %i, %v{}",
                index % 2 == 0,
                if shape == "5, 0" { 0 } else { 1 },
                if index % 3 == 0 { "" } else { ", %s" },
            );
            check(&sessions[index % sessions.len()], &text, index as u64);
            if is_long {
                break;
            }
        }
    }
    let text = "%x = input \"x\" : u32[9000, 2]\n%y = sort_keys %x, axis=0\nreturn %y";
    check(&sessions[0], text, 1);
    let text = "%x = input \"x\" : u32[10000]\n%y = bitwise_xor %x, 5\n%s = sort_keys %y\nreturn %s";
    check(&sessions[0], text, 1);
}

/// Rows of which each thread has one: sorted as a whole, and their least and greatest keys.
#[test]
fn sorts_of_short_rows_have_the_bits_of_the_reference() {
    let sessions = tiers();
    let shapes =
        [("9, 33", 1), ("40, 100", 1), ("33, 129", 1), ("70, 256", 1), ("8, 257", 1), ("2, 130, 9", 1), ("64, 40", 0)];
    for (index, (shape, axis)) in shapes.into_iter().enumerate() {
        for dtype in ["f32", ["f64", "u8", "i32", "bf16"][index % 4]] {
            let text = format!(
                "%x = input \"x\" : {dtype}[{shape}]\n%y = add %x, %x\n%s = sort %y, axis={axis}, descending={}\n\
                 %i = argsort %y, axis={axis}\n%t = maximum %s, %x\nreturn %t, %i",
                index % 2 == 0,
            );
            check(&sessions[index % sessions.len()], &text, index as u64);
        }
        for k in [1, 2, 8, 16, 17] {
            let text = format!(
                "%x = input \"x\" : f32[{shape}]\n%y = subtract %x, 1\n%t = topk_indices %y, k={k}, axis={axis}, \
                 largest={}\n%v = gather %y, %t, axis={axis}\nreturn %v, %t",
                index % 2 == 0,
            );
            check(&sessions[(index + k) % sessions.len()], &text, index as u64);
        }
    }
}

/// Returns a session for each back end.
fn tiers() -> Vec<Session> {
    let tiers = if polyloom::has_llvm() { vec![Tier::Quick, Tier::Optimized] } else { vec![Tier::Quick] };
    let sessions = tiers.into_iter().map(|tier| {
        let device = Session::default_device().unwrap().with_policy(TierPolicy::Always(tier)).unwrap();
        Session::on(device).unwrap()
    });
    sessions.collect()
}

fn random_tile(random: &mut Random) -> TileShape {
    TileShape {
        rows: 1 + random.below(14) as u8,
        columns: [8, 16, 32, 64][random.below(4)],
        packs_left: random.one_in(2),
        packs_right: random.one_in(2),
        n_grouped: 1 + random.below(5) as u32,
        piece: 1 + random.below(20) as u32,
    }
}

/// Graphs of other sizes have kernels that are there already.
#[test]
fn lengths_of_rows_are_parameters() {
    let bodies = |n: u64| {
        let text = format!(
            "%x = input \"x\" : f32[40, {n}]\n%y = layer_norm %x\n%m = var %x, axes=(0)\n%z = subtract %y, %m\nreturn %z"
        );
        let graph = parse_graph(&text).unwrap();
        let planned = plan(&graph, &[Layout::dense(&[40, n])], &PlanOptions::default()).unwrap();
        planned.kernels.iter().map(|kernel| kernel.body.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(100), bodies(225));
}

/// So do sorts, whatever the number of chunks is.
#[test]
fn lengths_of_sorted_rows_are_parameters() {
    let bodies = |n: u64| {
        let graph = parse_graph(&format!("%x = input \"x\" : f32[3, {n}]\n%y = argsort %x\nreturn %y")).unwrap();
        let planned = plan(&graph, &[Layout::dense(&[3, n])], &PlanOptions::default()).unwrap();
        planned.kernels.iter().map(|kernel| kernel.body.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bodies(100), bodies(2000));
    assert_eq!(bodies(2049), bodies(4000));
    let of_rows = |n_rows: u64, n: u64| {
        let text = format!("%x = input \"x\" : f32[{n_rows}, {n}]\n%y = sort %x\nreturn %y");
        let planned = plan(&parse_graph(&text).unwrap(), &[Layout::dense(&[n_rows, n])], &PlanOptions::default());
        planned.unwrap().kernels.into_iter().map(|kernel| kernel.body).collect::<Vec<_>>()
    };
    assert_eq!(of_rows(40, 70), of_rows(90, 120));
    let [fewer, more] = [bodies(70_000), bodies(300_000)];
    assert!(more.len() > fewer.len() && more.iter().all(|body| fewer.contains(body)));
}

/// Builds a random graph, op by op, and lets it end with some of its values.
fn random_graph(random: &mut Random) -> polyloom_graph::Graph {
    let mut b = GraphBuilder::new();
    let dtypes =
        [Scalar::F32, Scalar::F32, Scalar::F32, Scalar::F64, Scalar::F16, Scalar::I32, Scalar::U8, Scalar::Bool];
    let lengths = [1, 1, 2, 3, 5, 8, 33, 40, 70];
    let base: Vec<u64> = (0..random.below(4)).map(|_| lengths[random.below(lengths.len())]).collect();
    let mut values: Vec<TensorId> = Vec::new();
    for index in 0..1 + random.below(3) {
        let first = random.below(base.len() + 1);
        let extents: Vec<u64> = base[first..].iter().map(|&n| if random.one_in(5) { 1 } else { n }).collect();
        let dtype = dtypes[random.below(dtypes.len())];
        values.push(b.input(&format!("x{index}"), dtype, Shape::of(&extents)).unwrap());
    }
    let infos: Vec<_> = TensorOp::all().filter(|info| info.name != "element_count").collect();
    let mut n_tries = 0;
    while values.len() < 9 && n_tries < 60 {
        n_tries += 1;
        let info = infos[random.below(infos.len())];
        let pick = |random: &mut Random| values[values.len() - 1 - random.below(values.len().min(4))];
        let n_tensors = info.signature.tensor_counts().0 + usize::from(random.one_in(3));
        let mut operands: Vec<TensorOperand> = (0..n_tensors).map(|_| pick(random).into()).collect();
        if n_tensors == 2 && random.one_in(4) {
            operands[random.below(2)] = [TensorOperand::Int(2), TensorOperand::Float(0.5)][random.below(2)];
        }
        let Some(&TensorOperand::Value(first)) =
            operands.iter().find(|operand| matches!(operand, TensorOperand::Value(_)))
        else {
            continue;
        };
        let extents = b.ty(first).unwrap().shape.as_static().unwrap();
        let mut attributes = Vec::new();
        for parameter in &info.signature.attributes {
            let Some(value) = random_attribute(info.name, parameter.name, &extents, random) else { continue };
            attributes.push((parameter.name, value));
        }
        if matches!(info.name, "rand" | "randn") {
            operands = vec![TensorOperand::Int(random.below(100) as i64)];
        }
        if random.one_in(2) {
            let dtype = b.ty(first).unwrap().dtype;
            let shapes = fitting_shapes(info.name, n_tensors, &extents, random);
            for (place, (extents, is_index)) in shapes {
                let dtype = if is_index { Scalar::I32 } else { dtype };
                let made = b.input(&format!("x{n_tries}_{place}"), dtype, Shape::of(&extents)).unwrap();
                operands.truncate(place);
                operands.push(made.into());
            }
        }
        let Ok(made) = b.op(info.op, &operands, &attributes) else { continue };
        let n: u64 = b.ty(made).unwrap().shape.n_elements().unwrap();
        if n < 40_000 {
            values.push(made);
        }
    }
    let n_outputs = 1 + random.below(3);
    let outputs: Vec<TensorId> =
        (0..n_outputs).map(|_| values[values.len() - 1 - random.below(values.len().min(5))]).collect();
    b.finish(&outputs).unwrap()
}

/// Returns shapes of new inputs in the place of operands from one on, for ops whose operands seldom fit each other; with true for
/// indices. `extents` are those of the first operand.
fn fitting_shapes(op: &str, n_tensors: usize, extents: &[u64], random: &mut Random) -> Vec<(usize, (Vec<u64>, bool))> {
    let length = |random: &mut Random| [1, 2, 3, 5, 8, 13, 33][random.below(7)];
    let (n, m, inner) = (length(random), length(random), extents.last().copied().unwrap_or(1));
    let numbers = |extents: &[u64]| (extents.to_vec(), false);
    let indices = |extents: &[u64]| (extents.to_vec(), true);
    let (first, mut shapes) = match op {
        "matmul" => (1, vec![numbers(&[inner, n])]),
        "linear" => (1, vec![numbers(&[n, inner]), numbers(&[n])]),
        "attention" => (0, vec![numbers(&[2, n, m]), numbers(&[n + 2, m]), numbers(&[n + 2, 3])]),
        "conv1d" => (0, vec![numbers(&[2, 4, n + 2]), numbers(&[6, 2, 2]), numbers(&[6])]),
        "conv2d" => (0, vec![numbers(&[2, 4, n + 2, m + 2]), numbers(&[6, 2, 2, 3]), numbers(&[6])]),
        "max_pool2d" | "avg_pool2d" => (0, vec![numbers(&[2, n + 2, m + 2])]),
        "embedding" => (0, vec![numbers(&[5, m]), indices(&[n, 2])]),
        "cross_entropy" => (0, vec![numbers(&[n, 6]), indices(&[n])]),
        "one_hot" => (0, vec![indices(&[n, 2])]),
        "gather" if !extents.is_empty() => (1, vec![indices(extents)]),
        "scatter_add" if !extents.is_empty() => (1, vec![indices(extents), numbers(extents)]),
        "sort" | "argsort" | "topk_indices" => (0, vec![numbers(&[2, n * 97 + 3])]),
        _ => return Vec::new(),
    };
    shapes.truncate(n_tensors.saturating_sub(first));
    (first..).zip(shapes).collect()
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
        "shape" => AttributeValue::Shape(Shape::of(&[3, 1 + random.below(40) as u64])),
        "starts" => AttributeValue::Ints(extents.iter().map(|_| 0).collect()),
        "sizes" => AttributeValue::Shape(Shape::of(&extents.iter().map(|n| n.div_ceil(2)).collect::<Vec<_>>())),
        "steps" => AttributeValue::Ints(extents.iter().map(|_| 1 + i64::from(random.one_in(2))).collect()),
        "widths" => AttributeValue::Ints((0..2 * rank).map(|_| random.below(3) as i64).collect()),
        "repeats" => AttributeValue::Ints(extents.iter().map(|_| 1 + random.below(2) as i64).collect()),
        "groups" => AttributeValue::Int(1 + random.below(2) as i64),
        "classes" => AttributeValue::Int(1 + random.below(9) as i64),
        "causal" => AttributeValue::Bool(random.one_in(2)),
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

/// Random graphs, of which `POLYLOOM_GRAPHS` says how many, in code of both back ends.
#[test]
fn random_graphs_give_the_bits_of_the_reference() {
    let n_graphs = std::env::var("POLYLOOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let sessions = tiers();
    for seed in 0..n_graphs {
        let graph = random_graph(&mut Random::new(seed));
        let session = &sessions[seed as usize % sessions.len()];
        check(session, &graph.to_string(), seed);
    }
}
