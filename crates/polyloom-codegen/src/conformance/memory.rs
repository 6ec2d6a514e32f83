//! Memory: ranks of launches and arrays, ranges that begin and end anywhere, strides of every kind, atomics.

use super::launch::{ReadyKernel, compare, dense, kernel_of, module, run, view};
use super::values::{RandomOperands, edges};
use super::{EngineSubject, HirPreparation};
use crate::backend::ArgFacts;
use polyloom_ir::Scalar;
use polyloom_ir::interp::BufferMemory;

/// For each rank, every thread writes its coordinates and its linear index where they belong; kernels that ask for
/// only some coordinates are covered too.
pub fn ranks_and_ranges(subject: &EngineSubject<'_>) {
    let shapes: [&[usize]; 9] =
        [&[1], &[200], &[1, 1], &[7, 13], &[3, 64], &[5, 1, 9], &[2, 3, 17], &[2, 3, 1, 5], &[3, 2, 4, 7]];
    for shape in shapes {
        let rank = shape.len();
        let total: usize = shape.iter().product();
        let launch: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        for asked in 0..1u32 << rank {
            let mut body = String::from("%zero: i32 = const 0\n%lin: i32 = tid_linear\n");
            let mut sum = "%zero".to_owned();
            for axis in (0..rank).filter(|axis| asked >> axis & 1 == 1) {
                let weight = 10i32.pow(2 * axis as u32);
                body += &format!(
                    "%t{axis}: i32 = tid {axis}\n%w{axis}: i32 = const {weight}\n%p{axis}: i32 = mul %t{axis}, %w{axis}\n\
                     %s{axis}: i32 = add {sum}, %p{axis}\n"
                );
                sum = format!("%s{axis}");
            }
            let text = format!(
                "kernel @k(%out out: array<i32, 1>, %count count: array<i32, 1>) {{\n{body}array_store %out, %lin, {sum}\n\
                 %old: i32 = array_load %count, %lin\n%one: i32 = const 1\n%new: i32 = add %old, %one\n\
                 array_store %count, %lin, %new\nreturn }}"
            );
            let mut memory = BufferMemory::default();
            let zeros = vec![0; total];
            let args =
                [dense(&mut memory, Scalar::I32, &[total], &zeros), dense(&mut memory, Scalar::I32, &[total], &zeros)];
            compare(subject, &text, &launch, &args, &memory);
        }
        // Coordinates as indices, along axes the launch does not have too.
        let indices: Vec<String> = (0..rank).map(|axis| format!("%t{axis}")).collect();
        let tids: String = (0..4).map(|axis| format!("%t{axis}: i32 = tid {axis}\n")).collect();
        let dims: String = (0..rank).map(|axis| format!("%d{axis}: i32 = dim {axis} %a\n")).collect();
        let text = format!(
            "kernel @k(%a a: array<i32, {rank}>, %out out: array<i32, {rank}>) {{\n{tids}{dims}\
             %x: i32 = array_load %a, {at}\n%y: i32 = add %x, %d{last}\n%z: i32 = add %y, %t3\n\
             array_store %out, {at}, %z\nreturn }}",
            at = indices.join(", "),
            last = rank - 1,
        );
        let values: Vec<u64> = (0..total as u64).map(|v| v * 3).collect();
        let mut memory = BufferMemory::default();
        let args =
            [dense(&mut memory, Scalar::I32, shape, &values), dense(&mut memory, Scalar::I32, shape, &vec![0; total])];
        compare(subject, &text, &launch, &args, &memory);
    }
}

/// Memory from elsewhere may hold any byte for `true`, so that loads give 1, and stores write 1.
pub fn bools(subject: &EngineSubject<'_>) {
    let text = "kernel @k(%a a: array<bool, 1>, %out out: array<i32, 1>, %copy copy: array<bool, 1>) {
        %i: i32 = tid 0
        %x: bool = array_load %a, %i
        %n: i32 = cast %x
        %not: bool = logical_not %x
        %m: i32 = cast %not
        %two: i32 = const 2
        %twice: i32 = mul %m, %two
        %true: bool = const true
        %same: bool = eq %x, %true
        %s: i32 = cast %same
        %four: i32 = const 4
        %fourfold: i32 = mul %s, %four
        %p: i32 = add %n, %twice
        %q: i32 = add %p, %fourfold
        array_store %out, %i, %q
        array_store %copy, %i, %x
        return }";
    let bytes: Vec<u64> = (0..100).map(|i| [0, 1, 2, 0x80, 0xff][i % 5]).collect();
    let mut memory = BufferMemory::default();
    let args = [
        dense(&mut memory, Scalar::Bool, &[100], &bytes),
        dense(&mut memory, Scalar::I32, &[100], &[0; 100]),
        dense(&mut memory, Scalar::Bool, &[100], &[0; 100]),
    ];
    compare(subject, text, &[100], &args, &memory);
}

/// Views of one buffer: steps, reversed axes, broadcast axes, transposes, offsets.
pub fn strides(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(5);
    for elem in Scalar::ALL {
        let name = elem.name();
        let size = i64::from(elem.bytes());
        let text = format!(
            "kernel @k(%a a: array<{name}, 2>, %out out: array<{name}, 2>) {{\n%i: i32 = tid 0\n%j: i32 = tid 1\n\
             %x: {name} = array_load %a, %i, %j\narray_store %out, %i, %j, %x\nreturn }}"
        );
        let sources = [
            view(0, 0, &[5, 6], &[6 * size, size]),
            view(0, 3 * size, &[5, 6], &[14 * size, 2 * size]),
            view(0, 29 * size, &[5, 6], &[-6 * size, -size]),
            view(0, 5 * size, &[5, 6], &[0, size]),
            view(0, 5 * size, &[5, 6], &[size, 0]),
            view(0, 0, &[5, 6], &[size, 5 * size]),
            view(0, 7 * size, &[5, 6], &[0, 0]),
        ];
        let targets = [view(1, 0, &[5, 6], &[6 * size, size]), view(1, 60 * size, &[5, 6], &[-9 * size, -size])];
        for source in sources {
            for target in targets {
                let mut memory = BufferMemory::default();
                dense(&mut memory, elem, &[100], &random.values(elem, 100));
                dense(&mut memory, elem, &[100], &vec![0; 100]);
                compare(subject, &text, &[5, 6], &[source, target], &memory);
            }
        }
    }
    // In place, through overlapping views, in row-major order of threads of one range.
    let text = "kernel @k(%a a: array<i64, 1>, %b b: array<i64, 1>) {\n%i: i32 = tid 0\n%x: i64 = array_load %a, %i\n\
                %y: i64 = array_load %b, %i\n%z: i64 = add %x, %y\narray_store %b, %i, %z\nreturn }";
    let mut memory = BufferMemory::default();
    dense(&mut memory, Scalar::I64, &[64], &(0..64).collect::<Vec<u64>>());
    let same = view(0, 0, &[64], &[8]);
    compare(subject, text, &[64], &[same, same], &memory);
    // Indices of every integer type, and negative ones, which the passes make explicit.
    for index in Scalar::ALL.into_iter().filter(|s| s.is_int()) {
        let name = index.name();
        let text = format!(
            "kernel @k(%at at: array<{name}, 1>, %a a: array<f32, 1>, %out out: array<f32, 1>) {{\n%i: i32 = tid 0\n\
             %p: {name} = array_load %at, %i\n%x: f32 = array_load %a, %p\narray_store %out, %i, %x\nreturn }}"
        );
        let mut positions: Vec<u64> = (0..40).map(|p| p * 7 % 40).collect();
        if index.is_signed_int() {
            positions.extend((1..=40u64).map(|p| p.wrapping_neg() & (u64::MAX >> (64 - index.bits()))));
        }
        let values = random.values(Scalar::F32, 40);
        let n = positions.len();
        let mut memory = BufferMemory::default();
        let args = [
            dense(&mut memory, index, &[n], &positions),
            dense(&mut memory, Scalar::F32, &[40], &values),
            dense(&mut memory, Scalar::F32, &[n], &vec![0; n]),
        ];
        compare(subject, &text, &[n as u64], &args, &memory);
    }
}

/// Indices that wrap around between the threads that execute, one or several whole turns, forwards and backwards.
pub fn wrapping_indices(subject: &EngineSubject<'_>) {
    const N: usize = 66;
    let values = RandomOperands::new(7).values(Scalar::F32, N);
    // Every third or fifth thread is a small distance from the last; those between are far away.
    for (every, turns, apart) in [(3, 1, 2), (3, 2, 1), (5, 1, 3), (5, 3, 1), (3, 1, -1), (5, 2, -4)] {
        let wide = i64::from(turns) << 32;
        let Some(factor) = (0..8).map(|near| apart + near).find(|near| (wide + near) % every == 0) else { continue };
        let factor = ((wide + factor) / every) as i32;
        let last = (N as i64 - 1) / every * every;
        let lowest = (0..=last / every).map(|k| (k * every).wrapping_mul(factor.into()) as i32).min().unwrap_or(0);
        for (source, target) in [("%far", "%i"), ("%i", "%far")] {
            let text = format!(
                "kernel @k(%a a: array<f32, 1>, %out out: array<f32, 1>) {{\n%i: i32 = tid 0\n\
                 %every: i32 = const {every}\n%rest: i32 = mod %i, %every\n%zero: i32 = const 0\n\
                 %is: bool = eq %rest, %zero\nif %is {{\n%factor: i32 = const {factor}\n\
                 %product: i32 = mul %i, %factor\n%lowest: i32 = const {lowest}\n%far: i32 = sub %product, %lowest\n\
                 %x: f32 = array_load %a, {source}\narray_store %out, {target}, %x\nyield }} else {{ yield }}\nreturn }}"
            );
            let mut memory = BufferMemory::default();
            let length = 4 * N;
            let mut padded = values.clone();
            padded.resize(length, 0);
            let args = [
                dense(&mut memory, Scalar::F32, &[length], &padded),
                dense(&mut memory, Scalar::F32, &[length], &vec![0; length]),
            ];
            compare(subject, &text, &[N as u64], &args, &memory);
        }
    }
}

/// Rows of a few elements that constant indices name, as those of vectors and matrices: all or some of them, under a
/// condition, from other places than they go to, in place, with indices that count from the end.
pub fn short_rows(subject: &EngineSubject<'_>) {
    const N: usize = 70;
    let mut random = RandomOperands::new(6);
    // One type of each size, and those that lie in memory otherwise than in registers.
    let elems = [Scalar::F32, Scalar::I64, Scalar::F16, Scalar::U8, Scalar::Bool];
    for elem in elems {
        let lengths: &[usize] = match elem {
            Scalar::F32 => &[2, 3, 4, 5, 9, 12],
            Scalar::I64 => &[3, 4, 7],
            _ => &[3, 4],
        };
        for &length in lengths {
            let row = [N, length];
            let flags: Vec<u64> = (0..N as u64).map(|i| i * i % 7 % 2).collect();
            let values = random.values(elem, N * length);
            for body in row_bodies(elem.name(), length) {
                let text = format!(
                    "kernel @k(%a a: array<{0}, 2>, %flag flag: array<i32, 1>, %out out: array<{0}, 2>) {{\n\
                     %i: i32 = tid 0\n{body}return }}",
                    elem.name()
                );
                let mut memory = BufferMemory::default();
                let args = [
                    dense(&mut memory, elem, &row, &values),
                    dense(&mut memory, Scalar::I32, &[N], &flags),
                    dense(&mut memory, elem, &row, &vec![0; N * length]),
                ];
                compare(subject, &text, &[N as u64], &args, &memory);
            }
        }
    }
}

/// Returns what is done with row `%i`: bodies of a kernel.
fn row_bodies(ty: &str, length: usize) -> Vec<String> {
    let mut constants = String::new();
    for place in 0..length {
        constants += &format!("%c{place}: i32 = const {place}\n");
    }
    let copy = |from: &str, to: &str, order: &dyn Fn(usize) -> usize| {
        let mut text = constants.clone();
        for place in 0..length {
            text += &format!("%x{place}: {ty} = array_load %a, {from}, %c{place}\n");
        }
        for place in (0..length).map(order) {
            text += &format!("array_store %out, {to}, %c{place}, %x{}\n", (place + 1) % length);
        }
        text
    };
    let flagged = "%zero: i32 = const 0\n%f: i32 = array_load %flag, %i\n%set: bool = ne %f, %zero\n";
    let wild = "%zero: i32 = const 0\n%big: i32 = const 67108864\n%f: i32 = array_load %flag, %i\n\
                %off: bool = eq %f, %zero\n%p: i32 = where %off, %big, %i\n";
    let permuted = "%step: i32 = const 29\n%m: i32 = const 70\n%far: i32 = mul %i, %step\n%p: i32 = mod %far, %m\n";
    let from_end = "%n: i32 = const 70\n%back: i32 = sub %i, %n\n";
    vec![
        copy("%i", "%i", &|place| place),
        copy("%i", "%i", &|place| length - 1 - place),
        format!("{flagged}if %set {{\n{}yield }} else {{ yield }}\n", copy("%i", "%i", &|place| place)),
        format!("{from_end}{}", copy("%back", "%i", &|place| place)),
        format!("{permuted}{}", copy("%p", "%i", &|place| place)),
        format!("{flagged}{permuted}if %set {{\n{}yield }} else {{ yield }}\n", copy("%p", "%i", &|place| place)),
        format!("{from_end}{}", copy("%i", "%back", &|place| place)),
        // Indices that no array has, in threads that are left out: all of some groups' threads, and all of them.
        format!(
            "{wild}%set: bool = ne %f, %zero\nif %set {{\n{}yield }} else {{ yield }}\n",
            copy("%p", "%i", &|place| place)
        ),
        format!(
            "{wild}%set: bool = lt %i, %zero\nif %set {{\n{}yield }} else {{ yield }}\n",
            copy("%p", "%i", &|place| place)
        ),
        // One element of each, then another whose value is read back in between.
        format!(
            "{constants}%x: {ty} = array_load %a, %i, %c1\narray_store %out, %i, %c0, %x\n\
             %y: {ty} = array_load %out, %i, %c0\narray_store %out, %i, %c1, %y\n"
        ),
        // In place: each place takes the next one's old value, the last its own first.
        format!("{constants}{}", {
            let mut text = String::new();
            for place in 0..length {
                text += &format!("%x{place}: {ty} = array_load %a, %i, %c{}\n", (place + 1) % length);
            }
            for place in 0..length {
                text += &format!("array_store %a, %i, %c{place}, %x{place}\n");
            }
            text
        }),
    ]
}

/// Every atomic on every type: on one element that all threads update, on one each, with the old value used and not.
/// Threads of one range run in order, so even float sums have one right result.
pub fn atomics(subject: &EngineSubject<'_>) {
    use polyloom_ir::Op;
    let mut random = RandomOperands::new(6);
    let ops = Op::all().filter(|info| info.group == polyloom_ir::op::OpGroup::Atomic && !info.needs_blocks());
    for info in ops {
        let class = info.signatures[0].var.expect("atomics are generic");
        for elem in class.members() {
            let (op, name) = (info.name, elem.name());
            let compare_operand = if info.op == Op::AtomicCas { "%first, " } else { "" };
            let mut values = edges(elem);
            values.extend(random.values(elem, 100));
            if subject.is_device() && elem == Scalar::F32 {
                values.retain(|&bits| !f32::from_bits(bits as u32).is_subnormal());
            }
            let n = values.len();
            let text = format!(
                "kernel @k(%a a: array<{name}, 1>, %shared shared: array<{name}, 2>, %own own: array<{name}, 1>, %old old: array<{name}, 1>) {{
                 %i: i32 = tid 0
                 %zero: i32 = const 0
                 %one: i32 = const 1
                 %x: {name} = array_load %a, %i
                 %first: {name} = array_load %a, %zero
                 %o: {name} = {op} %shared, %one, %zero, {compare_operand}%x
                 array_store %old, %i, %o
                 %p: {name} = {op} %own, %i, {compare_operand}%x
                 %q: {name} = {op} %shared, %zero, %one, {compare_operand}%x
                 return }}"
            );
            let own: Vec<u64> = values.iter().rev().copied().collect();
            let mut memory = BufferMemory::default();
            let args = [
                dense(&mut memory, elem, &[n], &values),
                dense(&mut memory, elem, &[2, 2], &[values[1], values[2], values[0], values[3]]),
                dense(&mut memory, elem, &[n], &own),
                dense(&mut memory, elem, &[n], &vec![0; n]),
            ];
            compare(subject, &text, &[n as u64], &args, &memory);
        }
    }
}

/// Several threads of the process add to one element; integer sums do not depend on the order. The interpreter runs one
/// thread after another.
pub fn contention(subject: &EngineSubject<'_>) {
    for (elem, want) in
        [(Scalar::I32, 40_000u64), (Scalar::U8, 40_000 % 256), (Scalar::F32, 40_000f32.to_bits().into())]
    {
        let name = elem.name();
        let text = format!(
            "kernel @k(%sum sum: array<{name}, 1>) {{\n%zero: i32 = const 0\n%one: {name} = const 1\n\
             %old: {name} = atomic_add %sum, %zero, %one\nreturn }}"
        );
        let module = module(&text);
        let (prepared, id, code) =
            subject.load(&module, kernel_of(&module), HirPreparation::Unchecked, 1, ArgFacts::default());
        let ReadyKernel::Machine(code) = code else {
            let mut memory = BufferMemory::default();
            let args = [dense(&mut memory, elem, &[1], &[0])];
            run(&code, &prepared.functions[id], &[40_000], &args, &mut memory, &[0..10_000, 10_000..40_000]);
            assert_eq!(memory.elements(elem, args[0]), [want], "{} sums of {name}", subject.name());
            continue;
        };
        let layout = crate::abi::ArgLayout::of(&prepared.functions[id]);
        let sum = std::sync::atomic::AtomicU64::new(0);
        let mut block = vec![0u64; layout.size as usize / 8];
        block[0] = sum.as_ptr() as usize as u64;
        block[1] = 1;
        block[2] = elem.bytes().into();
        let (block, code) = (&block, &code);
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                scope.spawn(move || {
                    let context = super::host::silent_context(40_000);
                    // SAFETY: the block describes one array of one element, and the kernel touches nothing else.
                    unsafe { code.entry()(block.as_ptr().cast(), &context, part * 10_000, (part + 1) * 10_000) };
                });
            }
        });
        assert_eq!(sum.into_inner(), want, "{} sums of {name} under contention", subject.name());
    }
}
