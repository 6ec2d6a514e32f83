//! Textures: values worked out by hand, and random fetches against the formulas of the CUDA C++ Programming Guide
//! ("Texture Fetching"), written out for one texel at a time.

use crate::device::{dump, values};
use crate::instructions::random;
use polyloom_ptx::{
    Fault, FindingKind, LaunchRequest, Module, Sanitizers, Simulator, TexelChannel, TexelFormat, TexelImage, Texture,
    TextureAddressing, TextureFilter,
};

/// A kernel whose threads fetch once each: `line` writes %f0 to %f3, from the object %rd0, at the words %c0 to %c3 that
/// each thread has in `at`. All of them are 32-bit registers; %q0 is a predicate.
fn kernel(line: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 object, .param .u64 at, .param .u64 out) {{\n\
         .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .b32 %f<8>; .reg .b32 %c<4>; .reg .b16 %h<4>; .reg .pred %q<2>;\n\
         ld.param.u64 %rd0, [object]; ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [out];\n\
         mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;\n\
         mul.wide.u32 %rd3, %r0, 16; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n\
         ld.global.v4.u32 {{%c0, %c1, %c2, %c3}}, [%rd1];\n\
         mov.u32 %f0, 0; mov.u32 %f1, 0; mov.u32 %f2, 0; mov.u32 %f3, 0;\n\
         {line}\n\
         st.global.v4.u32 [%rd2], {{%f0, %f1, %f2, %f3}};\nret;\n}}\n"
    )
}

/// A device with images.
pub(crate) struct ImageDevice {
    pub(crate) simulator: Simulator,
}

impl ImageDevice {
    pub(crate) fn new() -> ImageDevice {
        ImageDevice { simulator: Simulator::default() }
    }

    /// An array with these bytes, which have no gaps.
    pub(crate) fn array(&self, shape: TexelImage, bytes: &[u8]) -> TexelImage {
        let memory = self.simulator.memory();
        let image = memory.alloc_image(shape).expect("memory");
        let row = image.row_bytes() as usize;
        for (number, bytes) in bytes.chunks(row).enumerate() {
            let (y, plane) = (number as u32 % image.extents[1], number as u32 / image.extents[1]);
            memory.write(image.texel(0, y, plane), bytes).expect("inside");
        }
        image
    }

    /// The bytes of an image, without gaps.
    pub(crate) fn bytes(&self, image: &TexelImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        for plane in 0..image.n_planes() {
            for y in 0..image.extents[1] {
                let mut row = vec![0; image.row_bytes() as usize];
                self.simulator.memory().read(image.texel(0, y, plane), &mut row).expect("inside");
                bytes.extend(row);
            }
        }
        bytes
    }

    /// Returns what `line` gives for each row of words.
    pub(crate) fn try_run(
        &self,
        line: &str,
        object: u64,
        at: &[[u32; 4]],
        sanitize: Sanitizers,
    ) -> Result<Vec<[u32; 4]>, Box<Fault>> {
        dump(&kernel(line));
        let loaded = self.simulator.load(&Module::parse(&kernel(line)).expect("it parses")).expect("it loads");
        let kernel = loaded.kernel("k").unwrap_or_else(|errors| panic!("{errors:#?}"));
        let memory = self.simulator.memory();
        let words: Vec<u8> = at.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let [places, out] =
            [memory.alloc(words.len(), 16), memory.alloc(words.len(), 16)].map(|made| made.expect("memory"));
        memory.write(places, &words).expect("inside");
        let params = [object, places, out].map(|value| value.to_le_bytes().to_vec());
        let block = [at.len() as u32, 1, 1];
        kernel.launch(&LaunchRequest { block, params: &params, sanitize, ..LaunchRequest::default() })?;
        let mut bytes = vec![0; words.len()];
        memory.read(out, &mut bytes).expect("inside");
        [places, out].iter().for_each(|address| memory.free(*address).expect("it is there"));
        Ok(values::<u32>(&bytes).chunks(4).map(|row| row.try_into().expect("four words")).collect())
    }

    pub(crate) fn run(&self, line: &str, object: u64, at: &[[u32; 4]]) -> Vec<[u32; 4]> {
        self.try_run(line, object, at, Sanitizers::ALL).unwrap_or_else(|fault| panic!("{line}: {fault}"))
    }

    pub(crate) fn texture(&self, texture: Texture) -> u64 {
        self.simulator.memory().create_texture(texture).expect("it is a texture")
    }

    /// The first channel that a texture gives at float coordinates.
    fn first(&self, line: &str, texture: Texture, at: &[&[f32]]) -> Vec<f32> {
        let places: Vec<[u32; 4]> = at.iter().map(|at| words(at)).collect();
        self.run(line, self.texture(texture), &places).iter().map(|row| f32::from_bits(row[0])).collect()
    }
}

/// Coordinates as a kernel reads them.
fn words(at: &[f32]) -> [u32; 4] {
    std::array::from_fn(|axis| at.get(axis).map_or(0, |at| at.to_bits()))
}

pub(crate) fn format(channel: TexelChannel, n_channels: u32) -> TexelFormat {
    TexelFormat { channel, n_channels }
}

const FLOAT: TexelFormat = TexelFormat { channel: TexelChannel::F32, n_channels: 1 };

pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

const TEX_1D: &str = "tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0}];";
const TEX_2D: &str = "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}];";
const TEX_3D: &str = "tex.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1, %c2, %c2}];";

#[test]
fn the_nearest_texel_is_the_one_that_coordinates_are_in() {
    let device = ImageDevice::new();
    let image = device.array(TexelImage::array(FLOAT, &[4], None), &floats(&[10.0, 20.0, 30.0, 40.0]));
    let fetch = |addressing, is_normalized, at: &[f32]| {
        let texture =
            Texture { addressing: [addressing; 3], is_normalized, border: [7.0, 0.0, 0.0, 0.0], ..Texture::new(image) };
        device.first(TEX_1D, texture, &at.iter().map(std::slice::from_ref).collect::<Vec<_>>())
    };
    use TextureAddressing::{Border, Clamp, Mirror, Wrap};
    let texels = [-1.0, 0.0, 0.99, 1.0, 2.5, 3.99, 4.0, 1e30];
    assert_eq!(fetch(Clamp, false, &texels), [10.0, 10.0, 10.0, 20.0, 30.0, 40.0, 40.0, 40.0]);
    assert_eq!(fetch(Border, false, &texels), [7.0, 10.0, 10.0, 20.0, 30.0, 40.0, 7.0, 7.0]);
    // Coordinates that count texels do not wrap.
    assert_eq!(fetch(Wrap, false, &texels), fetch(Clamp, false, &texels));
    assert_eq!(fetch(Mirror, false, &texels), fetch(Clamp, false, &texels));
    let fractions = [-0.1, 0.1, 0.3, 0.9, 1.1, 1.3, 2.3, -1.2];
    assert_eq!(fetch(Clamp, true, &fractions), [10.0, 10.0, 20.0, 40.0, 40.0, 40.0, 40.0, 10.0]);
    assert_eq!(fetch(Border, true, &fractions), [7.0, 10.0, 20.0, 40.0, 7.0, 7.0, 7.0, 7.0]);
    assert_eq!(fetch(Wrap, true, &fractions), [40.0, 10.0, 20.0, 40.0, 10.0, 20.0, 20.0, 40.0]);
    assert_eq!(fetch(Mirror, true, &fractions), [10.0, 10.0, 20.0, 40.0, 40.0, 30.0, 20.0, 40.0]);
}

#[test]
fn linear_filters_weigh_in_256ths() {
    let device = ImageDevice::new();
    let image = device.array(TexelImage::array(FLOAT, &[4], None), &floats(&[0.0, 1.0, 4.0, 9.0]));
    let fetch = |addressing, is_normalized, at: &[f32]| {
        let texture = Texture {
            addressing: [addressing; 3],
            filter: TextureFilter::Linear,
            is_normalized,
            border: [8.0, 0.0, 0.0, 0.0],
            ..Texture::new(image)
        };
        device.first(TEX_1D, texture, &at.iter().map(std::slice::from_ref).collect::<Vec<_>>())
    };
    use TextureAddressing::{Border, Clamp, Mirror, Wrap};
    // Between the middles of the texels 0 and 1, 1 and 2, before the first, and after the last.
    assert_eq!(fetch(Clamp, false, &[1.0, 2.25, 0.25, 3.75]), [0.5, 0.25 + 0.75 * 4.0, 0.0, 9.0]);
    assert_eq!(fetch(Border, false, &[0.25, 3.75, -0.5]), [0.25 * 8.0, 0.75 * 9.0 + 0.25 * 8.0, 8.0]);
    // At the middle of a texel, an eighth of a 256th after it, and three quarters of one.
    assert_eq!(fetch(Clamp, false, &[1.5, 0.5 + 0.125 / 256.0, 0.5 + 0.75 / 256.0]), [1.0, 0.0, 1.0 / 256.0]);
    // Half way between the last texel and the first.
    assert_eq!(fetch(Wrap, true, &[0.0, 1.0]), [4.5, 4.5]);
    assert_eq!(fetch(Mirror, true, &[0.0, 1.0]), [0.0, 9.0]);
}

#[test]
fn filters_take_of_four_and_of_eight_texels() {
    let device = ImageDevice::new();
    let square = device.array(TexelImage::array(FLOAT, &[2, 2], None), &floats(&[1.0, 2.0, 3.0, 5.0]));
    let linear = |image| Texture { filter: TextureFilter::Linear, ..Texture::new(image) };
    // Weights of a quarter along x and a half along y: 0.75 * 0.5 * (1 + 3) + 0.25 * 0.5 * (2 + 5).
    assert_eq!(device.first(TEX_2D, linear(square), &[&[0.75, 1.0]]), [1.5 + 0.875]);
    let numbers: Vec<f32> = (0..8).map(|number| number as f32).collect();
    let cube = device.array(TexelImage::array(FLOAT, &[2, 2, 2], None), &floats(&numbers));
    // A texel is x + 2 y + 4 z, so that a place between is as well.
    let found = device.first(TEX_3D, linear(cube), &[&[0.75, 1.25, 1.0], &[1.5, 0.5, 1.5]]);
    assert_eq!(found, [0.25 + 2.0 * 0.75 + 4.0 * 0.5, 5.0]);
}

/// The texel of an image of one channel that an index along each axis stands for, by the image continued in all
/// directions; nothing where there is a border.
fn continued(texels: &[f64], extents: &[usize], modes: &[TextureAddressing], at: &[i64]) -> Option<f64> {
    let (mut place, mut stride) = (0, 1);
    for ((extent, mode), at) in extents.iter().zip(modes).zip(at) {
        let n = *extent as i64;
        let forth: Vec<i64> = (0..n).collect();
        let line: Vec<i64> = match mode {
            TextureAddressing::Mirror => forth.iter().copied().chain(forth.iter().rev().copied()).collect(),
            _ => forth,
        };
        let index = match mode {
            TextureAddressing::Wrap | TextureAddressing::Mirror => {
                let period = line.len() as i64;
                line[(((at % period) + period) % period) as usize]
            }
            TextureAddressing::Clamp if *at < 0 => 0,
            TextureAddressing::Clamp if *at >= n => n - 1,
            TextureAddressing::Border if *at < 0 || *at >= n => return None,
            _ => *at,
        };
        place += index as usize * stride;
        stride *= extent;
    }
    Some(texels[place])
}

/// tex(x, y, z) by the guide's formulas, with a border of zeros.
fn fetched(texture: &Texture, texels: &[f64], at: &[f32]) -> f64 {
    let n_axes = texture.image.n_axes;
    let extents: Vec<usize> = texture.image.extents[..n_axes].iter().map(|extent| *extent as usize).collect();
    let modes: Vec<TextureAddressing> = texture.addressing[..n_axes]
        .iter()
        .map(|mode| match mode {
            TextureAddressing::Wrap | TextureAddressing::Mirror if !texture.is_normalized => TextureAddressing::Clamp,
            mode => *mode,
        })
        .collect();
    let scale = |axis: usize| if texture.is_normalized { extents[axis] as f64 } else { 1.0 };
    let places: Vec<f64> = (0..n_axes).map(|axis| f64::from(at[axis]) * scale(axis)).collect();
    if texture.filter == TextureFilter::Nearest {
        let indices: Vec<i64> = places.iter().map(|place| place.floor() as i64).collect();
        return continued(texels, &extents, &modes, &indices).unwrap_or(0.0);
    }
    // T[i] and T[i + 1] along each axis, with alpha = frac(x - 0.5) to 8 bits.
    fn along(places: &[f64], chosen: &mut Vec<i64>, texel: &dyn Fn(&[i64]) -> f64) -> f64 {
        let Some(place) = places.get(chosen.len()) else { return texel(chosen) };
        let shifted = place - 0.5;
        let alpha = ((shifted - shifted.floor()) * 256.0).round_ties_even() / 256.0;
        let mut part = |index: i64| {
            chosen.push(index);
            let found = along(places, chosen, texel);
            chosen.pop();
            found
        };
        let first = shifted.floor() as i64;
        (1.0 - alpha) * part(first) + alpha * part(first + 1)
    }
    along(&places, &mut Vec::new(), &|indices| continued(texels, &extents, &modes, indices).unwrap_or(0.0))
}

#[test]
fn random_fetches_are_as_the_guide_has_them() {
    let device = ImageDevice::new();
    let unit = |bits: u64| (bits >> 40) as f32 / (1 << 24) as f32;
    for (line, extents) in [(TEX_1D, vec![7]), (TEX_2D, vec![5, 3]), (TEX_3D, vec![3, 4, 2])] {
        let n_texels = extents.iter().product::<u32>() as usize;
        let texels: Vec<f32> = random(n_texels, 3).into_iter().map(|bits| unit(bits) * 16.0 - 8.0).collect();
        let image = device.array(TexelImage::array(FLOAT, &extents, None), &floats(&texels));
        let wide: Vec<f64> = texels.iter().map(|texel| f64::from(*texel)).collect();
        let all =
            [TextureAddressing::Wrap, TextureAddressing::Clamp, TextureAddressing::Mirror, TextureAddressing::Border];
        for (case, seeds) in random(64, 5).chunks(2).enumerate() {
            let texture = Texture {
                addressing: [0, 1, 2].map(|axis| all[(seeds[0] >> (2 * axis) & 3) as usize]),
                filter: if case % 2 == 0 { TextureFilter::Linear } else { TextureFilter::Nearest },
                is_normalized: case % 4 < 2,
                ..Texture::new(image)
            };
            let reach = |axis: usize| if texture.is_normalized { 1.0 } else { extents[axis] as f32 };
            let places: Vec<Vec<f32>> = random(96, seeds[1])
                .chunks(3)
                .map(|bits| (0..extents.len()).map(|axis| (unit(bits[axis]) * 4.0 - 1.5) * reach(axis)).collect())
                .collect();
            let found = device.first(line, texture, &places.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for (at, found) in places.iter().zip(found) {
                let expected = fetched(&texture, &wide, at);
                // The sum is rounded once; the formula's here at each step, in more digits.
                assert!((f64::from(found) - expected).abs() <= 1e-6, "{texture:?} at {at:?}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn texels_of_all_formats() {
    let device = ImageDevice::new();
    let fetch = |channel, n_channels, reads_fractions, bytes: &[u8]| {
        let format = format(channel, n_channels);
        let n_texels = bytes.len() as u32 / format.n_bytes();
        let image = device.array(TexelImage::array(format, &[n_texels], None), bytes);
        let object = device.texture(Texture { reads_fractions, ..Texture::new(image) });
        let at: Vec<[u32; 4]> = (0..n_texels).map(|texel| words(&[texel as f32])).collect();
        device.run(TEX_1D, object, &at)
    };
    let one = 1f32.to_bits();
    // Integers as they are; a channel that is not there is zero, and the fourth one.
    use TexelChannel::{F16, F32, S8, S16, S32, U8, U16, U32};
    assert_eq!(fetch(U8, 1, false, &[200, 7]), [[200, 0, 0, 1], [7, 0, 0, 1]]);
    assert_eq!(fetch(S8, 2, false, &[0xfb, 3]), [[-5i32 as u32, 3, 0, 1]]);
    assert_eq!(fetch(U16, 4, false, &[1, 2, 3, 0, 0xff, 0xff, 9, 0]), [[0x201, 3, 0xffff, 9]]);
    assert_eq!(fetch(S16, 1, false, &[0, 0x80]), [[-32768i32 as u32, 0, 0, 1]]);
    assert_eq!(fetch(U32, 2, false, &[1, 0, 0, 0x80, 5, 0, 0, 0]), [[0x8000_0001, 5, 0, 1]]);
    assert_eq!(fetch(S32, 1, false, &[0xff, 0xff, 0xff, 0xff]), [[u32::MAX, 0, 0, 1]]);
    // As fractions of the largest; those of 32 bits are read as they are nevertheless.
    let fraction =
        |channel, bytes: &[u8]| fetch(channel, 1, true, bytes).into_iter().map(|row| row.map(f32::from_bits));
    assert!(fraction(U8, &[0, 51, 255]).eq([[0.0, 0.0, 0.0, 1.0], [0.2, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]]));
    let firsts = |channel, bytes: &[u8]| fraction(channel, bytes).map(|row| row[0]).collect::<Vec<_>>();
    assert_eq!(firsts(S8, &[127, 0x81, 0x80, 0]), [1.0, -1.0, -1.0, 0.0]);
    assert_eq!(firsts(U16, &[0xff, 0xff, 0x33, 0x33]), [1.0, 0.2]);
    assert_eq!(firsts(S16, &[0xff, 0x7f, 0x01, 0x80, 0x00, 0x80]), [1.0, -1.0, -1.0]);
    assert_eq!(fetch(U32, 1, true, &[7, 0, 0, 0]), [[7, 0, 0, 1]]);
    // Floats: 1, -2, the largest and the smallest half; a NaN keeps its bits.
    let halves: Vec<u8> = [0x3c00u16, 0xc000, 0x7bff, 1].iter().flat_map(|half| half.to_le_bytes()).collect();
    let found = fetch(F16, 4, false, &halves)[0].map(f32::from_bits);
    assert_eq!(found, [1.0, -2.0, 65504.0, 2f32.powi(-24)]);
    assert_eq!(fetch(F32, 2, false, &[1, 2, 0xa0, 0x7f, 0, 0, 0x80, 0x3f]), [[0x7fa0_0201, one, 0, one]]);
}

#[test]
fn filters_of_fractions_and_halves() {
    let device = ImageDevice::new();
    let linear = |format: TexelFormat, bytes: &[u8]| {
        let image = device.array(TexelImage::array(format, &[2], None), bytes);
        Texture { filter: TextureFilter::Linear, reads_fractions: true, ..Texture::new(image) }
    };
    // Half way between 0 and 255 of 255, and a quarter of the way from 1 to 3 in halves.
    assert_eq!(device.first(TEX_1D, linear(format(TexelChannel::U8, 1), &[0, 255]), &[&[1.0]]), [0.5]);
    let halves = [0x00, 0x3c, 0x00, 0x42];
    assert_eq!(device.first(TEX_1D, linear(format(TexelChannel::F16, 1), &halves), &[&[0.75]]), [1.5]);
    let integers = device.array(TexelImage::array(format(TexelChannel::U32, 1), &[2], None), &[0; 8]);
    let fault = Texture { filter: TextureFilter::Linear, ..Texture::new(integers) }.fault();
    assert!(fault.is_some_and(|fault| fault.contains("integers")));
}

#[test]
fn borders_have_a_colour_of_bits_for_integers() {
    let device = ImageDevice::new();
    let image = device.array(TexelImage::array(format(TexelChannel::U32, 2), &[1], None), &[1, 0, 0, 0, 2, 0, 0, 0]);
    let border = [f32::from_bits(77), f32::from_bits(78), 0.0, 0.0];
    let texture = Texture { addressing: [TextureAddressing::Border; 3], border, ..Texture::new(image) };
    let found = device.run(TEX_1D, device.texture(texture), &[words(&[0.0]), words(&[5.0])]);
    assert_eq!(found, [[1, 2, 0, 1], [77, 78, 0, 1]]);
}

#[test]
fn layers_are_chosen_by_number() {
    let device = ImageDevice::new();
    let numbers: Vec<f32> = (0..24).map(|number| number as f32).collect();
    let rows = device.array(TexelImage::array(FLOAT, &[4], Some(3)), &floats(&numbers[..12]));
    let line = "tex.a1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c1, %c0}];";
    let at = |layer: u32, x: f32, y: f32| [x.to_bits(), layer, y.to_bits(), 0];
    let firsts = |line: &str, object, places: &[[u32; 4]]| {
        device.run(line, object, places).iter().map(|row| f32::from_bits(row[0])).collect::<Vec<f32>>()
    };
    // A layer beyond the last is the last.
    let object = device.texture(Texture::new(rows));
    assert_eq!(firsts(line, object, &[at(0, 1.0, 0.0), at(2, 3.5, 0.0), at(9, 0.0, 0.0)]), [1.0, 11.0, 8.0]);
    let planes = device.array(TexelImage::array(FLOAT, &[3, 2], Some(4)), &floats(&numbers));
    let line = "tex.a2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c1, %c0, %c2, %c2}];";
    let linear = Texture { filter: TextureFilter::Linear, ..Texture::new(planes) };
    // Between layers nothing is filtered.
    let object = device.texture(linear);
    assert_eq!(firsts(line, object, &[at(1, 1.0, 1.0), at(3, 2.5, 1.5)]), [(6.0 + 7.0 + 9.0 + 10.0) / 4.0, 23.0]);
}

#[test]
fn integer_coordinates_read_one_texel() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let address = memory.alloc(16, 512).expect("memory");
    memory.write(address, &floats(&[1.0, 2.0, 3.0, 4.0])).expect("inside");
    let line = "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0}];";
    let firsts = |line: &str, texture, places: &[[u32; 4]]| {
        let found = device.run(line, device.texture(texture), places);
        found.iter().map(|row| f32::from_bits(row[0])).collect::<Vec<f32>>()
    };
    // Plain memory has zeros beyond its ends, whatever the texture says, and no filter.
    let texture = Texture {
        filter: TextureFilter::Linear,
        addressing: [TextureAddressing::Wrap; 3],
        is_normalized: true,
        border: [9.0; 4],
        ..Texture::new(TexelImage::linear(FLOAT, address, 4))
    };
    let at = |x: i32, y: i32| [x as u32, y as u32, 0, 0];
    assert_eq!(firsts(line, texture, &[at(0, 0), at(3, 0), at(4, 0), at(-1, 0)]), [1.0, 4.0, 0.0, 0.0]);
    // Rows of pitched memory, with offsets.
    let image = TexelImage::rows(FLOAT, address, [2, 2], 8);
    let line = "tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}], {1, -1};";
    assert_eq!(firsts(line, Texture::new(image), &[at(0, 1), at(-1, 2), at(5, 5)]), [2.0, 3.0, 4.0]);
    let line = "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}], {1, 1};";
    assert_eq!(device.first(line, Texture::new(image), &[&[0.9, 0.0], &[-1.0, -1.0]]), [4.0, 1.0]);
}

#[test]
fn levels_and_results_of_other_forms() {
    let device = ImageDevice::new();
    let bytes = floats(&[1.0, -2.5, 0.1, 4.0]);
    let image = device.array(TexelImage::array(format(TexelChannel::F32, 4), &[1, 1], None), &bytes);
    let object = device.texture(Texture::new(image));
    let plain = device.run(TEX_2D, object, &[[0; 4]]);
    assert_eq!(plain[0].map(f32::from_bits), [1.0, -2.5, 0.1, 4.0]);
    for line in [
        "tex.base.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}];",
        "tex.level.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}], %c2;",
        "tex.grad.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}], {%c2, %c2}, {%c3, %c3};",
        "tex.2d.v4.u32.f32 {%f0, %f1, %f2, %f3}, [%rd0, {%c0, %c1}];",
        "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}|%q0, [%rd0, {%c0, %c1}];\n@!%q0 mov.u32 %f0, 0;",
    ] {
        assert_eq!(device.run(line, object, &[[0; 4]]), plain, "{line}");
    }
    // Halves, one and two in a register: 0.1 is 0x2e66.
    let halves = "tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd0, {%c0, %c1}];\n\
                  cvt.u32.u16 %f0, %h0; cvt.u32.u16 %f1, %h1; cvt.u32.u16 %f2, %h2; cvt.u32.u16 %f3, %h3;";
    assert_eq!(device.run(halves, object, &[[0; 4]]), [[0x3c00, 0xc100, 0x2e66, 0x4400]]);
    let pairs = "tex.2d.v2.f16x2.f32 {%f0, %f1}, [%rd0, {%c0, %c1}];";
    assert_eq!(device.run(pairs, object, &[[0; 4]]), [[0xc100_3c00, 0x4400_2e66, 0, 0]]);
}

#[test]
fn gathers_give_a_channel_of_four_texels() {
    let device = ImageDevice::new();
    let bytes: Vec<u8> = (0..4 * 4 * 2).collect();
    let image = device.array(TexelImage::array(format(TexelChannel::U8, 2), &[4, 4], None), &bytes);
    let object = device.texture(Texture::new(image));
    let gather = |channel: &str, x: f32, y: f32| {
        let line = format!("tld4.{channel}.2d.v4.u32.f32 {{%f0, %f1, %f2, %f3}}, [%rd0, {{%c0, %c1}}];");
        device.run(&line, object, &[words(&[x, y])])[0]
    };
    // A texel's channels are 2 x + 8 y and one more. The first texel is in the later row.
    assert_eq!(gather("r", 2.0, 2.0), [18, 20, 12, 10]);
    assert_eq!(gather("g", 2.0, 2.0), [19, 21, 13, 11]);
    assert_eq!(gather("b", 2.0, 2.0), [0; 4]);
    // 2.49805 - 0.5 is rounded to 2 in 256ths (CUDA C++ Programming Guide, "Texture Gather").
    assert_eq!(gather("r", 2.49805, 2.0), [20, 22, 14, 12]);
    // Beyond the image.
    assert_eq!(gather("r", 0.0, 0.0), [0; 4]);
}

#[test]
fn queries_tell_extents() {
    let device = ImageDevice::new();
    let line = |queries: [&str; 4], opcode: &str| -> String {
        let of = |(register, query): (usize, &&str)| format!("{opcode}.{query}.b32 %f{register}, [%rd0];\n");
        queries.iter().enumerate().map(of).collect()
    };
    let image = device.array(TexelImage::array(FLOAT, &[6, 5], Some(3)), &[0; 6 * 5 * 3 * 4]);
    let texture = device.texture(Texture { is_normalized: true, ..Texture::new(image) });
    assert_eq!(
        device.run(&line(["width", "height", "depth", "array_size"], "txq"), texture, &[[0; 4]]),
        [[6, 5, 1, 3]]
    );
    let more = line(["normalized_coords", "num_mipmap_levels", "num_samples", "width"], "txq");
    assert_eq!(device.run(&more, texture, &[[0; 4]]), [[1, 1, 1, 6]]);
    let cube = device.array(TexelImage::array(FLOAT, &[2, 3, 4], None), &[0; 96]);
    let surface = device.simulator.memory().create_surface(cube).expect("it is a surface");
    assert_eq!(
        device.run(&line(["width", "height", "depth", "array_size"], "suq"), surface, &[[0; 4]]),
        [[2, 3, 4, 1]]
    );
}

/// Returns what a fetch of one thread at zero ends with.
fn finding(device: &ImageDevice, line: &str, object: u64) -> (FindingKind, String) {
    let fault = device.try_run(line, object, &[[0; 4]], Sanitizers::ALL).expect_err("it fails");
    (fault.findings[0].kind, fault.to_string())
}

#[test]
fn handles_that_are_of_no_texture() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let image = device.array(TexelImage::array(FLOAT, &[4], None), &floats(&[1.0; 4]));
    let texture = device.texture(Texture::new(image));
    let (kind, text) = finding(&device, TEX_2D, texture);
    assert!(
        kind == FindingKind::InvalidTexture && text.contains("is of 4 texels, and is given 2 coordinates"),
        "{text}"
    );
    let (kind, text) = finding(&device, TEX_1D, 12);
    assert!(kind == FindingKind::InvalidTexture && text.contains("0xc is the handle of no texture"), "{text}");
    let surface = memory.create_surface(image).expect("it is a surface");
    let (_, text) = finding(&device, TEX_1D, surface);
    assert!(text.contains("is the handle of a surface, not of a texture"), "{text}");
    let (kind, text) = finding(&device, "ld.global.u32 %f0, [%rd0];", texture & !3);
    assert!(kind == FindingKind::OutOfBounds, "{text}");
    // The memory of a texture may go before it does.
    memory.free(image.address).expect("it is there");
    let (kind, text) = finding(&device, TEX_1D, texture);
    assert!(
        kind == FindingKind::OutOfBounds && text.contains(&format!("the texture 0x{texture:x}: 4 bytes")),
        "{text}"
    );
    memory.destroy_object(texture).expect("it is there");
    assert!(memory.destroy_object(texture).is_err());
    let (kind, _) = finding(&device, TEX_1D, texture);
    assert_eq!(kind, FindingKind::InvalidTexture);
}

#[test]
fn texels_that_nobody_wrote_are_found() {
    let device = ImageDevice::new();
    let image = device.simulator.memory().alloc_image(TexelImage::array(FLOAT, &[4], None)).expect("memory");
    let texture = device.texture(Texture::new(image));
    let (kind, text) = finding(&device, TEX_1D, texture);
    assert!(kind == FindingKind::Uninitialised && text.contains("`array of 4 texels`"), "{text}");
}

#[test]
fn objects_that_cannot_be_are_refused() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let shapes = [
        TexelImage::array(format(TexelChannel::F32, 3), &[4], None),
        TexelImage::array(FLOAT, &[4, 0], None),
        TexelImage::array(FLOAT, &[2, 2, 2], Some(2)),
        TexelImage::array(FLOAT, &[2; 4], None),
    ];
    for shape in shapes {
        assert!(memory.alloc_image(shape).is_err(), "{shape:?}");
    }
    let rows = |address, pitch| Texture::new(TexelImage::rows(FLOAT, address, [4, 4], pitch)).fault();
    assert_eq!(rows(512, 16), None);
    assert!(rows(512, 12).is_some() && rows(512, 18).is_some() && rows(514, 16).is_some());
}

/// Textures as NVRTC compiles them (`ptx/nvrtc_textures.cu`, for compute_80).
#[test]
fn textures_of_cuda_programs() {
    let device = ImageDevice::new();
    let memory = device.simulator.memory();
    let numbers: Vec<f32> = (0..16).map(|number| number as f32).collect();
    let plain = memory.alloc(64, 512).expect("memory");
    memory.write(plain, &floats(&numbers)).expect("inside");
    let array = |extents: &[u32], n_layers: Option<u32>| {
        let n = extents.iter().product::<u32>() * n_layers.unwrap_or(1);
        device.array(TexelImage::array(FLOAT, extents, n_layers), &floats(&numbers[..n as usize]))
    };
    let linear = |image| Texture { filter: TextureFilter::Linear, ..Texture::new(image) };
    let bytes = device.array(TexelImage::array(format(TexelChannel::U8, 4), &[2, 1], None), &[1, 2, 3, 4, 5, 6, 7, 8]);
    let objects = [
        Texture::new(TexelImage::linear(FLOAT, plain, 16)),
        Texture::new(array(&[4], None)),
        linear(array(&[2, 2], None)),
        linear(array(&[2, 2, 2], None)),
        Texture::new(array(&[4], Some(3))),
        Texture::new(array(&[2, 2], Some(3))),
        Texture::new(bytes),
    ]
    .map(|texture| device.texture(texture));
    let out = memory.alloc(64, 4).expect("memory");
    let params: Vec<Vec<u8>> = objects.iter().chain([&out]).map(|value| value.to_le_bytes().to_vec()).collect();
    let text = include_str!("ptx/nvrtc_textures.ptx");
    let loaded = device.simulator.load(&Module::parse(text).expect("it parses")).expect("it loads");
    let kernel = loaded.kernel("textures").unwrap_or_else(|errors| panic!("{errors:#?}"));
    let launch = LaunchRequest { params: &params, sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    kernel.launch(&launch).unwrap_or_else(|fault| panic!("{fault}"));
    let mut found = [0; 64];
    memory.read(out, &mut found).expect("inside");
    // Of the square's texels 0 to 3: a quarter of the way along x, half of it along y.
    let square = 0.25 + 2.0 * 0.5;
    let cube = 0.25 + 2.0 * 0.75 + 4.0 * 0.5;
    let expected = [2.0, 1.0, square, cube, 9.0, 5.0, square, square, 2.0, 3.0, 1.0, 0.0, 5.0, 6.0, 7.0, 8.0];
    assert_eq!(values::<f32>(&found), expected);
}
