//! Copies of tiles of tensors, against loops over their elements.

use crate::device::values;
use polyloom_ptx::{
    Fault, FindingKind, LaunchRequest, Module, Sanitizers, Simulator, TensorElement, TensorMap, TensorSwizzle,
};

/// A kernel of one warp, whose thread 0 sets the mbarrier at `bar` up. `map` is the tensor map, `out` gets the first
/// bytes of `tile`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{\n\
         .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .pred %p<8>;\n.shared .align 1024 .b8 tile[16384];\n.shared .align 8 .b64 bar;\n\
         mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p0, %r0, 0;\nld.param.u64 %rd0, [out];\nmov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\n\
         @%p0 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n{body}\nret;\n}}\n"
    )
}

/// Stores `n_bytes` of `tile` to `out`, a word by each thread at a time.
fn show(n_bytes: u32) -> String {
    format!(
        "mov.u32 %r20, %r0;\nL: setp.ge.u32 %p2, %r20, {};\n@%p2 bra E;\nshl.b32 %r21, %r20, 2;\nmov.u32 %r22, tile;\nadd.u32 %r22, %r22, %r21;\n\
         ld.shared.u32 %r23, [%r22];\nmul.wide.u32 %rd5, %r20, 4;\nadd.u64 %rd6, %rd0, %rd5;\nst.global.u32 [%rd6], %r23;\nadd.u32 %r20, %r20, 32;\nbra L;\nE:\n",
        n_bytes / 4
    )
}

/// Runs a kernel on a tensor of these bytes; gives the tensor and `out` as they are then.
fn run(body: &str, mut map: TensorMap, tensor: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Box<Fault>> {
    let simulator = Simulator::default();
    let loaded = simulator.load(&Module::parse(&kernel(body)).expect("it parses")).expect("it loads");
    let kernel = loaded.kernel("k").unwrap_or_else(|errors| panic!("{errors:#?}"));
    let memory = simulator.memory();
    map.address = memory.alloc(tensor.len(), 256).expect("memory");
    memory.write(map.address, tensor).expect("inside");
    let out = memory.alloc(16384, 256).expect("memory");
    let params = [map.to_bytes().to_vec(), out.to_le_bytes().to_vec()];
    let sanitize = Sanitizers { uninitialised: false, ..Sanitizers::ALL };
    kernel.launch(&LaunchRequest { block: [32, 1, 1], params: &params, sanitize, ..LaunchRequest::default() })?;
    let (mut tensor, mut shown) = (tensor.to_vec(), vec![0; 16384]);
    memory.read(map.address, &mut tensor).expect("inside");
    memory.read(out, &mut shown).expect("inside");
    Ok((tensor, shown))
}

fn map(element: TensorElement, extents: &[u64], strides: &[u64], tile: &[u32]) -> TensorMap {
    TensorMap {
        element,
        address: 0,
        extents: extents.to_vec(),
        strides: strides.to_vec(),
        tile: tile.to_vec(),
        steps: vec![1; extents.len()],
        swizzle: TensorSwizzle::None,
        fills_nan: false,
    }
}

/// Loads a tile at these coordinates, and waits.
fn load(coordinates: &str, n_bytes: u32) -> String {
    let n_axes = coordinates.split(',').count();
    format!(
        "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {n_bytes};\n\
         @%p0 cp.async.bulk.tensor.{n_axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {{{coordinates}}}], [bar];\n\
         W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;\n@!%p1 bra W;\n"
    )
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 + 0.5).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn tiles_are_loaded_with_zeros_outside_of_the_tensor() {
    // 20 columns of a row of 24 belong to the tensor, of 12 rows.
    let tensor = numbers(12 * 24);
    for (x, y) in [(0, 0), (4, 3), (14, 9), (-3, -2), (100, 0)] {
        let (_, shown) = run(
            &format!("{}{}", load(&format!("{x}, {y}"), 8 * 5 * 4), show(160)),
            map(TensorElement::F32, &[20, 12], &[96], &[8, 5]),
            &bytes(&tensor),
        )
        .unwrap_or_else(|fault| panic!("{fault}"));
        let found: Vec<f32> = values(&shown[..160]);
        for (at, found) in found.into_iter().enumerate() {
            let (column, row) = (x + at as i32 % 8, y + at as i32 / 8);
            let inside = (0..20).contains(&column) && (0..12).contains(&row);
            let expected = if inside { tensor[(row * 24 + column) as usize] } else { 0.0 };
            assert_eq!(found, expected, "element {at} of the tile at ({x}, {y})");
        }
    }
}

#[test]
fn axes_steps_and_nans() {
    // Every second element of the outermost of three axes, of 16-bit numbers.
    let tensor: Vec<u8> = (0..16u16 * 5 * 7).flat_map(u16::to_le_bytes).collect();
    let mut of_three = map(TensorElement::F16, &[16, 5, 7], &[32, 160], &[8, 2, 6]);
    of_three.steps = vec![1, 1, 2];
    of_three.fills_nan = true;
    let n_bytes = 8 * 2 * 3 * 2;
    let (_, shown) =
        run(&format!("{}{}", load("12, 4, 1", n_bytes), show(n_bytes)), of_three, &tensor).expect("no findings");
    for (at, found) in values::<u16>(&shown[..n_bytes as usize]).into_iter().enumerate() {
        let (x, y, z) = (12 + at % 8, 4 + at / 8 % 2, 1 + 2 * (at / 16));
        let expected = if x < 16 && y < 5 && z < 7 { (x + 16 * y + 80 * z) as u16 } else { 0x7ff7 };
        assert_eq!(found, expected, "({x}, {y}, {z})");
    }
    // One axis.
    let of_one = map(TensorElement::F32, &[100], &[], &[32]);
    let (_, shown) =
        run(&format!("{}{}", load("90", 128), show(128)), of_one, &bytes(&numbers(100))).expect("no findings");
    let expected: Vec<f32> = (0..32).map(|i| if i < 10 { 90.5 + i as f32 } else { 0.0 }).collect();
    assert_eq!(values::<f32>(&shown[..128]), expected);
}

#[test]
fn swizzles_move_pieces_of_sixteen_bytes() {
    let tensor = numbers(32 * 16);
    for (swizzle, columns, pieces) in
        [(TensorSwizzle::B128, 32, 8), (TensorSwizzle::B64, 16, 4), (TensorSwizzle::B32, 8, 2)]
    {
        let mut swizzled = map(TensorElement::F32, &[32, 16], &[128], &[columns, 16]);
        swizzled.swizzle = swizzle;
        let n_bytes = columns * 16 * 4;
        let (_, shown) = run(&format!("{}{}", load("0, 0", n_bytes), show(n_bytes)), swizzled, &bytes(&tensor))
            .expect("no findings");
        let found: Vec<f32> = values(&shown[..n_bytes as usize]);
        for row in 0..16usize {
            for column in 0..columns as usize {
                let plain = (row * columns as usize + column) * 4;
                let (line, piece) = (plain / 128, plain / 16 % 8);
                // The number of the piece changes by the lowest bits of the number of its line.
                let moved = line * 128 + (piece ^ (line % pieces)) * 16 + plain % 16;
                assert_eq!(found[moved / 4], tensor[row * 32 + column], "{swizzle:?} ({row}, {column})");
            }
        }
    }
}

#[test]
fn tiles_are_stored_and_reduced() {
    let fill = "mov.u32 %r20, %r0;\nF: setp.ge.u32 %p2, %r20, 64;\n@%p2 bra G;\nshl.b32 %r21, %r20, 2;\nmov.u32 %r22, tile;\nadd.u32 %r22, %r22, %r21;\n\
                st.shared.b32 [%r22], %r20;\nadd.u32 %r20, %r20, 32;\nbra F;\nG: bar.sync 0;\nfence.proxy.async;\n";
    let end = "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;\n";
    let tensor: Vec<u8> = (0..20u32 * 12).flat_map(|i| (1000 + i).to_le_bytes()).collect();
    let whole = || map(TensorElement::U32, &[18, 12], &[80], &[8, 8]);
    let stored = |copy: &str| -> Vec<u32> {
        let (tensor, _) =
            run(&format!("{fill}@%p0 {copy}\n{end}"), whole(), &tensor).unwrap_or_else(|fault| panic!("{fault}"));
        values(&tensor)
    };
    let expected = |x: i32, y: i32, f: fn(u32, u32) -> u32| -> Vec<u32> {
        let of = |i: i32| {
            let (column, row) = (i % 20 - x, i / 20 - y);
            let old = 1000 + i as u32;
            let inside = (0..8).contains(&column) && (0..8).contains(&row) && i % 20 < 18;
            if inside { f(old, (row * 8 + column) as u32) } else { old }
        };
        (0..240).map(of).collect()
    };
    let store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {12, 6}], [tile];";
    assert_eq!(stored(store), expected(12, 6, |_, new| new));
    assert_eq!(stored(&store.replace("12, 6", "-2, -3")), expected(-2, -3, |_, new| new));
    let reduce = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {3, 2}], [tile];";
    assert_eq!(stored(reduce), expected(3, 2, |old, new| old + new));
    assert_eq!(stored(&reduce.replace(".add", ".xor")), expected(3, 2, |old, new| old ^ new));
    assert_eq!(stored("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {0, 0}];"), expected(0, 0, |old, _| old));
}

#[test]
fn what_is_wrong_is_found() {
    let tensor = bytes(&numbers(400));
    let plain = || map(TensorElement::F32, &[20, 20], &[80], &[8, 8]);
    let found = |body: &str, map: TensorMap| {
        let fault = run(body, map, &tensor).expect_err("it is wrong");
        (fault.findings[0].kind, fault.findings[0].message.clone())
    };
    let (kind, message) = found(&load("0, 0, 0", 256), plain());
    assert_eq!(
        (kind, message.as_str()),
        (FindingKind::InvalidTensorMap, "the tensor has 2 axes, the copy 3 coordinates")
    );
    let mut crooked = plain();
    crooked.strides = vec![84];
    let (kind, message) = found(&load("0, 0", 256), crooked);
    assert!(kind == FindingKind::InvalidTensorMap && message.contains("is no tensor map"), "{message}");
    // The map says more than there is memory for.
    let (kind, _) = found(&load("0, 48", 256), map(TensorElement::F32, &[20, 60], &[80], &[8, 8]));
    assert_eq!(kind, FindingKind::OutOfBounds);
    let (kind, _) = found(&load("0, 0", 256).replace("[tile]", "[tile+64]"), plain());
    assert_eq!(kind, FindingKind::Misaligned);
    let (kind, message) =
        found("@%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.bulk_group [%rd1, {0, 0}], [tile];", plain());
    assert!(kind == FindingKind::InvalidTensorMap && message.contains("no `.max`"), "{message}");
    // Nobody waits for the copy.
    let early = format!("{}{}", load("0, 0", 256).split_once("W:").expect("it waits").0, show(256));
    let (kind, message) = found(&early, plain());
    assert!(kind == FindingKind::MissingAsyncWait, "{message}");
}

#[test]
fn a_map_in_global_memory_is_as_good() {
    let text = "
        .version 8.6
        .target sm_90
        .visible .entry k(.param .u64 map, .param .u64 out) {
            .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
            .shared .align 128 .b8 tile[128];
            .shared .align 8 .b64 bar;
            ld.param.u64 %rd1, [map];
            ld.param.u64 %rd0, [out];
            mbarrier.init.shared.b64 [bar], 1;
            fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
            mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
            cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [tile], [%rd1, {4}], [bar], %rd2;
            W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
            @!%p1 bra W;
            ld.shared.u32 %r1, [tile+4];
            st.global.u32 [%rd0], %r1;
            ret;
        }";
    let simulator = Simulator::default();
    let memory = simulator.memory();
    let (tensor, out) = (memory.alloc(64, 16).expect("memory"), memory.alloc(4, 4).expect("memory"));
    memory.write(tensor, &(0..16u32).flat_map(|i| (50 + i).to_le_bytes()).collect::<Vec<_>>()).expect("inside");
    let map = TensorMap { address: tensor, ..map(TensorElement::S32, &[16], &[], &[4]) };
    let place = memory.alloc(128, 64).expect("memory");
    memory.write(place, &map.to_bytes()).expect("inside");
    let loaded = simulator.load(&Module::parse(text).expect("it parses")).expect("it loads");
    let params = [place.to_le_bytes().to_vec(), out.to_le_bytes().to_vec()];
    let kernel = loaded.kernel("k").unwrap_or_else(|errors| panic!("{errors:#?}"));
    kernel
        .launch(&LaunchRequest { params: &params, ..LaunchRequest::default() })
        .unwrap_or_else(|fault| panic!("{fault}"));
    let mut found = [0; 4];
    memory.read(out, &mut found).expect("inside");
    assert_eq!(u32::from_le_bytes(found), 55);
}
