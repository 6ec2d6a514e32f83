//! What kernels say to the host: failed checks, assertions, prints.

use super::launch::{Trapped, assert_same, dense, kernel_of, module, run, trapped, view};
use super::{EngineSubject, HirPreparation};
use crate::abi::{LaunchContext, SiteKind, SiteTable};
use crate::backend::ArgFacts;
use polyloom_ir::interp::{BufferMemory, InterpArg, InterpError, Interpreter, PrintingHost};
use polyloom_ir::{MAX_DIMS, Scalar};

/// A context for kernels that neither trap nor print.
///
/// # Panics
///
/// The process ends if they do.
pub(super) fn silent_context(threads: u64) -> LaunchContext {
    extern "C" fn trap(_: *const LaunchContext, _: u32, _: i64, _: i64, _: u64) {
        std::process::abort();
    }
    extern "C" fn print(_: *const LaunchContext, _: u32, _: *const u64) {
        std::process::abort();
    }
    let mut shape = [1; MAX_DIMS];
    shape[0] = threads;
    LaunchContext { shape, trap, print, data: std::ptr::null_mut() }
}

/// A kernel whose checks fail in thread 11 stops there, says which, and leaves what comes after alone.
pub fn traps(subject: &EngineSubject<'_>) {
    let text = "kernel @k(%a a: array<i32, 1>, %out out: array<i32, 1>) {
        %i: i32 = tid 0
        %limit: i32 = const 100
        %never: bool = ne %i, %limit
        %i64: i64 = cast %i
        %n: i64 = const 11
        check division %never, %i64, %n
        %x: i32 = array_load %a, %i
        %five: i32 = const 5
        %ok: bool = lt %x, %five
        %x64: i64 = cast %x
        if %ok { yield } else {
          check bounds \"a\" 0 %ok, %x64, %n
          yield }
        array_store %out, %i, %x
        return }";
    let parsed = module(text);
    let kernel = kernel_of(&parsed);
    let (prepared, id, code) = subject.load(&parsed, kernel, HirPreparation::AsWritten, 1, ArgFacts::default());
    let function = &prepared.functions[id];
    let mut input = vec![1u64; 64];
    input[11] = 77;
    input[40] = 78;
    let mut memory = BufferMemory::default();
    let args = [dense(&mut memory, Scalar::I32, &[64], &input), dense(&mut memory, Scalar::I32, &[64], &[0; 64])];
    let events = run(&code, function, &[64], &args, &mut memory, &[0..32, 32..64]);
    let [(site, index, extent, thread)] = events.traps[..] else { panic!("one trap, not {:?}", events.traps) };
    assert_eq!((index, extent, thread), (77, 11, 11));
    let sites = SiteTable::of(function);
    let SiteKind::Check(polyloom_ir::CheckKind::Bounds { array, axis, .. }) = &sites.sites[site as usize].kind else {
        panic!("the wrong site: {:?}", sites.sites[site as usize])
    };
    assert_eq!((&**array, *axis), ("a", 0));
    // Threads before the failing one are done; those after it are not, where threads run in order.
    let out = memory.elements(Scalar::I32, args[1]);
    let runs_in_order = !subject.is_device();
    assert!(!runs_in_order || out[12..].iter().all(|&x| x == 0), "threads ran on after a failed check: {out:?}");
    assert_eq!(out[11], 0);
    ranked_trap(subject);
    assertion(subject);
}

/// In launches of higher rank the thread is the linear one.
fn ranked_trap(subject: &EngineSubject<'_>) {
    let text = "kernel @k() {
        %i: i32 = tid 0
        %j: i32 = tid 1
        %two: i32 = const 2
        %three: i32 = const 3
        %a: bool = ne %i, %two
        %b: bool = ne %j, %three
        %ok: bool = bit_or %a, %b
        %j64: i64 = cast %j
        %m: i64 = const -5
        check bounds \"grid\" 1 %ok, %j64, %m
        return }";
    let module = module(text);
    let (prepared, id, code) =
        subject.load(&module, kernel_of(&module), HirPreparation::AsWritten, 2, ArgFacts::default());
    let mut memory = BufferMemory::default();
    let events = run(&code, &prepared.functions[id], &[4, 10], &[], &mut memory, std::slice::from_ref(&(5..40)));
    let traps: Vec<_> = events.traps.iter().map(|&(_, index, extent, thread)| (index, extent, thread)).collect();
    assert_eq!(traps, [(3, -5, 23)]);
}

/// Kernels prepared for checked execution, one thread at a time: each traps where the interpreter says, with the index,
/// extent and thread it says, and otherwise leaves the memory it leaves.
pub fn checks(subject: &EngineSubject<'_>) {
    for index in [Scalar::I8, Scalar::I32, Scalar::I64, Scalar::U8, Scalar::U32, Scalar::U64] {
        let text = format!(
            "kernel @k(%at at: array<{name}, 1>, %by by: array<i32, 1>, %a a: array<i32, 2>, %out out: array<i32, 1>) {{
             %i: i32 = tid 0
             %p: {name} = array_load %at, %i
             %d: i32 = array_load %by, %i
             %one: i32 = const 1
             %x: i32 = array_load %a, %p, %one
             %q: i32 = div %x, %d
             %r: i32 = mod %q, %d
             %s: i32 = add %q, %r
             array_store %out, %p, %s
             %ok: bool = ne %s, %one
             assert \"not one\" %ok
             return }}",
            name = index.name()
        );
        let parsed = module(&text);
        let positions = super::values::edges(index);
        let n = positions.len();
        let divisors: Vec<u64> = (0..n as u64).map(|t| t % 5).collect();
        let mut memory = BufferMemory::default();
        let args = [
            dense(&mut memory, index, &[n], &positions),
            dense(&mut memory, Scalar::I32, &[n], &divisors),
            dense(&mut memory, Scalar::I32, &[11, 2], &(0..22).collect::<Vec<u64>>()),
            dense(&mut memory, Scalar::I32, &[9], &[0; 9]),
        ];
        let (prepared, id, code) =
            subject.load(&parsed, kernel_of(&parsed), HirPreparation::Checked, 1, ArgFacts::default());
        let function = &prepared.functions[id];
        let sites = SiteTable::of(function);
        let interpreter = Interpreter::new(&prepared, id).unwrap_or_else(|e| panic!("{e}\n{prepared}"));
        let mut n_traps = 0;
        for thread in 0..n as u64 {
            let (mut expected, mut actual) = (memory.clone(), memory.clone());
            // A device runs no thread of a launch alone, but a launch of one thread over its elements.
            let (args, shape, range) = match subject.is_device() {
                true => (
                    [element(&args[0], index, thread), element(&args[1], Scalar::I32, thread), args[2], args[3]],
                    1,
                    0..1,
                ),
                false => (args, n as u64, thread..thread + 1),
            };
            let outcome =
                interpreter.launch(&[shape], &args, &mut expected, &mut PrintingHost::default(), range.clone());
            let want: Vec<Trapped> = match outcome {
                Ok(()) => Vec::new(),
                Err(InterpError::Trap(trap)) => vec![trapped(&sites, &trap)],
                Err(error) => panic!("the reference fails: {error}\n{prepared}"),
            };
            n_traps += want.len();
            let events = run(&code, function, &[shape], &args, &mut actual, std::slice::from_ref(&range));
            assert_eq!(events.traps, want, "{} in thread {thread}\n{prepared}", subject.name());
            assert_same(subject, function, &args, &expected, &actual, || format!("thread {thread}\n{prepared}"));
        }
        assert!(n_traps > n / 4 && n_traps < n, "{n_traps} traps of {n} threads show little");
    }
}

/// A view of one element of a dense array.
fn element(array: &InterpArg, elem: Scalar, at: u64) -> InterpArg {
    let InterpArg::Array(array) = array else { panic!("it is an array") };
    view(array.buffer, at as i64 * i64::from(elem.bytes()), &[1], &[elem.bytes().into()])
}

fn assertion(subject: &EngineSubject<'_>) {
    let text = "kernel @k(%flags flags: array<bool, 1>) {
        %i: i32 = tid 0
        %ok: bool = array_load %flags, %i
        assert \"flag is set\" %ok
        return }";
    let module = module(text);
    let (prepared, id, code) =
        subject.load(&module, kernel_of(&module), HirPreparation::AsWritten, 1, ArgFacts::default());
    let mut memory = BufferMemory::default();
    let mut flags = [1u64; 40];
    flags[33] = 0;
    let args = [dense(&mut memory, Scalar::Bool, &[40], &flags)];
    let function = &prepared.functions[id];
    let events = run(&code, function, &[40], &args, &mut memory, std::slice::from_ref(&(0..40)));
    let [(site, _, _, 33)] = events.traps[..] else { panic!("one trap in thread 33, not {:?}", events.traps) };
    let kind = &SiteTable::of(function).sites[site as usize].kind;
    assert_eq!(*kind, SiteKind::Assert("flag is set".into()));
}

/// Values of every type reach `print` with their bits, threads in order, in divergent control flow too.
pub fn prints(subject: &EngineSubject<'_>) {
    for ty in Scalar::ALL {
        let text = format!(
            "kernel @k(%a a: array<{name}, 1>, %out out: array<i32, 1>) {{
             %i: i32 = tid 0
             %x: {name} = array_load %a, %i
             %three: i32 = const 3
             %m: i32 = bit_and %i, %three
             %c: bool = ne %m, %three
             if %c {{ print \"%d %g\" %i, %x
               yield }} else {{ yield }}
             array_store %out, %i, %m
             return }}",
            name = ty.name()
        );
        let module = module(&text);
        let (prepared, id, code) =
            subject.load(&module, kernel_of(&module), HirPreparation::Unchecked, 1, ArgFacts::default());
        let values = super::values::edges(ty);
        let n = values.len().min(21);
        let mut memory = BufferMemory::default();
        let args: [InterpArg; 2] =
            [dense(&mut memory, ty, &[n], &values[..n]), dense(&mut memory, Scalar::I32, &[n], &vec![0; n])];
        let mut expected_memory = memory.clone();
        let function = &prepared.functions[id];
        let events = run(&code, function, &[n as u64], &args, &mut memory, std::slice::from_ref(&(0..n as u64)));
        let printed = (0..n).filter(|i| i & 3 != 3);
        let expected: Vec<(u32, Vec<u64>)> = printed.map(|i| (0, vec![i as u64, values[i]])).collect();
        if subject.is_device() {
            let mut text = PrintingHost::default();
            for (_, slots) in &expected {
                polyloom_ir::interp::InterpHost::print(&mut text, "%d %g", &[Scalar::I32.into(), ty.into()], slots);
            }
            assert_eq!(events.text, text.0, "{} prints of {}", subject.name(), ty.name());
        } else {
            assert_eq!(events.prints, expected, "{} prints of {}", subject.name(), ty.name());
        }
        let marks: Vec<u64> = (0..n as u64).map(|i| i & 3).collect();
        expected_memory.buffers[1] = marks.iter().flat_map(|m| (*m as u32).to_le_bytes()).collect();
        assert_same(subject, function, &args, &expected_memory, &memory, || text.clone());
    }
}
