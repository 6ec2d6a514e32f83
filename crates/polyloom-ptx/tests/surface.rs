//! Surfaces: bytes that are read and written, what is outside, and races.

use crate::texture::{ImageDevice, floats, format};
use polyloom_ptx::{FindingKind, LaunchRequest, Module, Sanitizers, TexelChannel, TexelFormat, TexelImage};

const FLOAT: TexelFormat = TexelFormat { channel: TexelChannel::F32, n_channels: 1 };

/// A device with a surface of an array with these bytes.
fn surface(shape: TexelImage, bytes: &[u8]) -> (ImageDevice, TexelImage, u64) {
    let device = ImageDevice::new();
    let image = device.array(shape, bytes);
    let object = device.simulator.memory().create_surface(image).expect("it is a surface");
    (device, image, object)
}

/// Words of places: bytes of a row, rows, planes.
fn at(x: i32, y: i32, z: i32) -> [u32; 4] {
    [x as u32, y as u32, z as u32, 0]
}

#[test]
fn loads_of_all_sizes() {
    let bytes: Vec<u8> = (0..64).collect();
    let (device, _, object) = surface(TexelImage::array(format(TexelChannel::U8, 4), &[8, 2], None), &bytes);
    let load = |line: &str, x: i32, y: i32| device.run(line, object, &[at(x, y, 0)])[0];
    let word = |first: u32| first * 0x0101_0101 + 0x0302_0100;
    let byte = "suld.b.2d.b8.trap %h0, [%rd0, {%c0, %c1}];\ncvt.u32.u16 %f0, %h0;";
    assert_eq!(load(byte, 5, 1), [37, 0, 0, 0]);
    let half = "suld.b.2d.b16.trap %h0, [%rd0, {%c0, %c1}];\ncvt.u32.u16 %f0, %h0;";
    assert_eq!(load(half, 6, 0), [0x0706, 0, 0, 0]);
    assert_eq!(load("suld.b.2d.b32.trap %f0, [%rd0, {%c0, %c1}];", 8, 1), [word(40), 0, 0, 0]);
    let double = "suld.b.2d.b64.trap %rd4, [%rd0, {%c0, %c1}];\nmov.b64 {%f0, %f1}, %rd4;";
    assert_eq!(load(double, 8, 0), [word(8), word(12), 0, 0]);
    let two = "suld.b.2d.v2.b32.trap {%f0, %f1}, [%rd0, {%c0, %c1}];";
    assert_eq!(load(two, 16, 0), [word(16), word(20), 0, 0]);
    let four = "suld.b.2d.v4.b32.trap {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}];";
    assert_eq!(load(four, 16, 1), [word(48), word(52), word(56), word(60)]);
    let bytes = "suld.b.2d.v4.b8.trap {%h0, %h1, %h2, %h3}, [%rd0, {%c0, %c1}];\n\
                 cvt.u32.u16 %f0, %h0; cvt.u32.u16 %f1, %h1; cvt.u32.u16 %f2, %h2; cvt.u32.u16 %f3, %h3;";
    assert_eq!(load(bytes, 4, 0), [4, 5, 6, 7]);
}

#[test]
fn stores_of_all_sizes() {
    let store = |lines: &str, x: i32| {
        let (device, image, object) = surface(TexelImage::array(format(TexelChannel::U32, 1), &[8], None), &[0; 32]);
        device.run(&format!("mov.b32 %f0, 0x44332211;\n{lines}"), object, &[at(x, 0, 0)]);
        device.bytes(&image)
    };
    let expected = |at: usize, bytes: &[u8]| {
        let mut all = vec![0; 32];
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    let word = [0x11, 0x22, 0x33, 0x44];
    let byte = "cvt.u16.u32 %h0, %f0;\nsust.b.1d.b8.trap [%rd0, {%c0}], %h0;";
    assert_eq!(store(byte, 3), expected(3, &word[..1]));
    assert_eq!(store("cvt.u16.u32 %h0, %f0;\nsust.b.1d.b16.trap [%rd0, {%c0}], %h0;", 6), expected(6, &word[..2]));
    assert_eq!(store("sust.b.1d.b32.trap [%rd0, {%c0}], %f0;", 12), expected(12, &word));
    let double = "mov.b64 %rd4, {%f0, %f0};\nsust.b.1d.b64.trap [%rd0, {%c0}], %rd4;";
    assert_eq!(store(double, 24), expected(24, &word.repeat(2)));
    let four = "sust.b.1d.v4.b32.trap [%rd0, {%c0}], {%f0, %f1, %f0, %f1};";
    assert_eq!(store(four, 16), expected(16, &[&word[..], &[0; 4], &word, &[0; 4]].concat()));
}

#[test]
fn layers_and_planes() {
    let numbers: Vec<f32> = (0..24).map(|number| number as f32).collect();
    let (device, image, object) = surface(TexelImage::array(FLOAT, &[3, 2, 4], None), &floats(&numbers));
    let load = "suld.b.3d.b32.trap %f0, [%rd0, {%c0, %c1, %c2, %c2}];";
    assert_eq!(device.run(load, object, &[at(8, 1, 3)])[0][0], 23f32.to_bits());
    let store = "mov.b32 %f0, 0;\nsust.b.3d.b32.trap [%rd0, {%c0, %c1, %c2, %c2}], %f0;";
    device.run(store, object, &[at(4, 0, 2)]);
    let mut expected = numbers.clone();
    expected[2 * 6 + 1] = 0.0;
    assert_eq!(device.bytes(&image), floats(&expected));
    let (device, _, object) = surface(TexelImage::array(FLOAT, &[3, 2], Some(4)), &floats(&numbers));
    let load = "suld.b.a2d.b32.trap %f0, [%rd0, {%c2, %c0, %c1, %c1}];";
    assert_eq!(device.run(load, object, &[at(8, 1, 1)])[0][0], 11f32.to_bits());
    let (device, _, object) = surface(TexelImage::array(FLOAT, &[6], Some(4)), &floats(&numbers));
    let load = "suld.b.a1d.b32.trap %f0, [%rd0, {%c2, %c0}];";
    assert_eq!(device.run(load, object, &[at(4, 0, 3)])[0][0], 19f32.to_bits());
}

#[test]
fn outside_of_a_surface() {
    let numbers: Vec<f32> = (1..=6).map(|number| number as f32).collect();
    let outside = [at(-4, 0, 0), at(12, 1, 0), at(4, -1, 0), at(8, 2, 0), at(400, 900, 0), at(4, 1, 0)];
    let load = |mode: &str| {
        let (device, _, object) = surface(TexelImage::array(FLOAT, &[3, 2], None), &floats(&numbers));
        let line = format!("mov.b32 %f0, 7;\nsuld.b.2d.b32.{mode} %f0, [%rd0, {{%c0, %c1}}];");
        device.run(&line, object, &outside).iter().map(|row| f32::from_bits(row[0])).collect::<Vec<f32>>()
    };
    assert_eq!(load("zero"), [0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
    assert_eq!(load("clamp"), [1.0, 6.0, 2.0, 6.0, 6.0, 5.0]);
    let store = |mode: &str, place: [u32; 4]| {
        let (device, image, object) = surface(TexelImage::array(FLOAT, &[3, 2], None), &floats(&numbers));
        let line = format!("mov.b32 %f0, 0;\nsust.b.2d.b32.{mode} [%rd0, {{%c0, %c1}}], %f0;");
        device.run(&line, object, &[place]);
        device.bytes(&image)
    };
    assert_eq!(store("zero", at(12, 0, 0)), floats(&numbers));
    assert_eq!(store("clamp", at(12, 0, 0)), floats(&[1.0, 2.0, 0.0, 4.0, 5.0, 6.0]));
    // Of two words the nearest place begins at the word before the last, which is no multiple of their size.
    let (device, _, object) = surface(TexelImage::array(FLOAT, &[3, 1], None), &floats(&numbers[..3]));
    let two = "suld.b.2d.v2.b32.clamp {%f0, %f1}, [%rd0, {%c0, %c1}];";
    assert_eq!(device.run(two, object, &[at(16, 0, 0)])[0], [1f32.to_bits(), 2f32.to_bits(), 0, 0]);
    for (line, what) in [
        (
            "suld.b.2d.b32.trap %f0, [%rd0, {%c0, %c1}];",
            "4 bytes at byte 12 of row 0 of a surface of 3 by 1 texels of 4 bytes",
        ),
        ("sust.b.2d.v2.b32.trap [%rd0, {%c0, %c1}], {%f0, %f0};", "8 bytes at byte 8 of row 0"),
    ] {
        let x = if line.starts_with("suld") { 12 } else { 8 };
        // With and without checks: what is outside is part of what the instruction does.
        for sanitize in [Sanitizers::ALL, Sanitizers::NONE] {
            let fault = device.try_run(line, object, &[at(0, 0, 0), at(x, 0, 0)], sanitize).expect_err("it traps");
            let text = fault.to_string();
            assert!(fault.findings[0].kind == FindingKind::SurfaceBounds && text.contains(what), "{text}");
            // The line of the kernel's instruction, and the thread.
            assert!(text.contains("PTX line 11") && text.contains("thread (1, 0, 0)"), "{text}");
        }
    }
    let line = "suld.b.2d.b32.zero %f0, [%rd0, {%c0, %c1}];";
    let fault = device.try_run(line, object, &[at(2, 0, 0)], Sanitizers::ALL).expect_err("it is misaligned");
    assert_eq!(fault.findings[0].kind, FindingKind::Misaligned);
}

#[test]
fn surfaces_are_updated() {
    let (device, image, object) = surface(TexelImage::array(format(TexelChannel::U32, 1), &[2], None), &[0; 8]);
    let line = "mov.b32 %f0, 3;\nsured.b.add.1d.u32.trap [%rd0, {%c0}], %f0;\nsured.b.or.1d.b32.zero [%rd0, {%c1}], 16;\n\
                sured.b.min.1d.s32.zero [%rd0, {%c2}], -5;";
    // All threads add to the first word, and the one before the first is none.
    device.run(line, object, &[[0, 4, -4i32 as u32, 0]; 7]);
    assert_eq!(device.bytes(&image), [21, 0, 0, 0, 16, 0, 0, 0]);
}

#[test]
fn races_over_texels_are_found() {
    let (device, _, object) = surface(TexelImage::array(FLOAT, &[4], None), &[0; 16]);
    // Threads of two warps write their numbers to one texel.
    let line = "mov.u32 %f0, %tid.x;\nsust.b.1d.b32.trap [%rd0, {%c0}], %f0;";
    let places = vec![at(4, 0, 0); 64];
    let fault = device.try_run(line, object, &places, Sanitizers::ALL).expect_err("it races");
    let text = fault.to_string();
    assert!(fault.findings[0].kind == FindingKind::Race && text.contains("byte 4 of `array of 4 texels`"), "{text}");
    // Each its own texel, and the same value of all, are none.
    let apart: Vec<[u32; 4]> = (0..4).map(|thread| at(4 * thread, 0, 0)).collect();
    device.run(line, object, &apart);
    device.run("mov.u32 %f0, 5;\nsust.b.1d.b32.trap [%rd0, {%c0}], %f0;", object, &places);
}

#[test]
fn handles_that_are_of_no_surface() {
    let (device, image, object) = surface(TexelImage::array(FLOAT, &[4], None), &[0; 16]);
    let line = "suld.b.1d.b32.trap %f0, [%rd0, {%c0}];";
    let wrong = |line: &str, object| {
        let fault = device.try_run(line, object, &[[0; 4]], Sanitizers::ALL).expect_err("it fails");
        (fault.findings[0].kind, fault.to_string())
    };
    let (kind, text) = wrong(line, 5);
    assert!(kind == FindingKind::InvalidTexture && text.contains("0x5 is the handle of no surface"), "{text}");
    let (kind, text) = wrong("suld.b.a1d.b32.trap %f0, [%rd0, {%c0, %c1}];", object);
    assert!(kind == FindingKind::InvalidTexture && text.contains("is given 1 coordinates and a layer"), "{text}");
    device.simulator.memory().free(image.address).expect("it is there");
    let (kind, text) = wrong(line, object);
    assert!(kind == FindingKind::OutOfBounds && text.contains("the surface 0x"), "{text}");
}

#[test]
fn threads_name_different_surfaces() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let images =
        [[1.0, 2.0], [3.0, 4.0]].map(|texels| device.array(TexelImage::array(FLOAT, &[2], None), &floats(&texels)));
    let objects = images.map(|image| memory.create_surface(image).expect("it is a surface"));
    let line = "setp.ne.u32 %q0, %c2, 0;\n@%q0 mov.b64 %rd0, {%c2, %c3};\nsuld.b.1d.b32.trap %f0, [%rd0, {%c0}];";
    let second = [objects[1] as u32, (objects[1] >> 32) as u32];
    let places = [[0, 0, 0, 0], [4, 0, second[0], second[1]], [4, 0, 0, 0]];
    let found: Vec<f32> = device.run(line, objects[0], &places).iter().map(|row| f32::from_bits(row[0])).collect();
    assert_eq!(found, [1.0, 4.0, 2.0]);
}

/// Surfaces as NVRTC compiles them (`ptx/nvrtc_textures.cu`, for compute_80).
#[test]
fn surfaces_of_cuda_programs() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let numbers: Vec<f32> = (1..=24).map(|number| number as f32).collect();
    let shapes: [(&[u32], Option<u32>); 5] =
        [(&[4], None), (&[3, 2], None), (&[3, 2, 2], None), (&[3], Some(2)), (&[3, 2], Some(2))];
    let images = shapes.map(|(extents, layers)| {
        let n = extents.iter().product::<u32>() * layers.unwrap_or(1);
        device.array(TexelImage::array(FLOAT, extents, layers), &floats(&numbers[..n as usize]))
    });
    let objects = images.map(|image| memory.create_surface(image).expect("it is a surface"));
    let params = objects.map(|object| object.to_le_bytes().to_vec());
    let loaded = device
        .simulator
        .load(&Module::parse(include_str!("ptx/nvrtc_textures.ptx")).expect("it parses"))
        .expect("it loads");
    let kernel = loaded.kernel("surfaces").unwrap_or_else(|errors| panic!("{errors:#?}"));
    // More threads and blocks than there are texels along each axis.
    let launch = LaunchRequest {
        grid: [3, 3, 1],
        block: [32, 1, 1],
        params: &params,
        sanitize: Sanitizers { uninitialised: true, ..Sanitizers::DEFAULT },
        ..LaunchRequest::default()
    };
    kernel.launch(&launch).unwrap_or_else(|fault| panic!("{fault}"));
    for image in images {
        let expected: Vec<f32> = (1..).map(|number| 2.0 * number as f32).take(device.bytes(&image).len() / 4).collect();
        assert_eq!(device.bytes(&image), floats(&expected), "{image:?}");
    }
}
