//! How launches of backward kernels are divided: what tapes take, and which stages are launched.
//!
//! Shapes and places are worked out by hand from the kernels' text: an iteration keeps the 8 bytes, or 24, that it has
//! been given.

use polyloom::{
    ArgArray, ArgBlock, ArrayLayout, BackwardKernel, BackwardRun, CpuQueue, DerivativeRequest, LaunchOptions, Queue,
    Scalar, Session, SourceFile, SourceUnit, TapeExtent, TapeLimits,
};
use std::sync::Arc;

const TEXT: &str = "\
import polyloom as loom


@loom.kernel
def sines(n: int, x: loom.array(dtype=loom.float64), y: loom.array(dtype=loom.float64)):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = loom.sin(v)
    y[i] = v


@loom.kernel
def squares(n: int, x: loom.array(dtype=loom.vec3d), y: loom.array(dtype=loom.vec3d)):
    i = loom.tid()
    v = x[i]
    for _ in range(n):
        v = loom.cw_mul(v, v)
    y[i] = v


@loom.kernel
def rows(n: int, x: loom.array2d(dtype=loom.float64)):
    i = loom.tid()
    for _ in range(n):
        for j in range(1, x.shape[1]):
            x[i, j] = loom.sin(x[i, j - 1])


@loom.kernel
def stencil(x: loom.array2d(dtype=loom.float64), y: loom.array2d(dtype=loom.float64)):
    i, j = loom.tid()
    y[i, j] = x[i + 1, j] - x[i, j + 1]
";

fn backward(kernel: &str, rank: u8, checkpoints: bool) -> Arc<BackwardKernel> {
    requested(kernel, DerivativeRequest { checkpoints, ..DerivativeRequest::new(Vec::new(), rank) })
}

fn with_rows(kernel: &str) -> Arc<BackwardKernel> {
    requested(kernel, DerivativeRequest { checkpoints: true, rows: true, ..DerivativeRequest::new(Vec::new(), 1) })
}

fn requested(kernel: &str, request: DerivativeRequest) -> Arc<BackwardKernel> {
    let unit = SourceUnit::parse(SourceFile::new("kernels.py", TEXT, 1)).unwrap();
    let session = Session::on(Session::default_device().unwrap()).unwrap();
    let kernel = session.compile_file_kernel(&unit, kernel).unwrap();
    let active = vec![true; kernel.types().len()];
    kernel.backward(&DerivativeRequest { active, ..request }).unwrap()
}

/// Describes what a launch on so many cores, or on a GPU, may take: threads, bytes, cores.
type Launch = (u64, u64, Option<u64>);

#[test]
fn as_many_threads_have_place_as_tapes_may_take_bytes() {
    let backward = backward("sines", 1, false);
    let plenty: u64 = 1 << 30;
    // The loop's length, the launch; then places, bytes, and whether places are few.
    let table: [(u32, Launch, u64, u64, bool); 13] = [
        // All threads have place, or as many as 8000 bytes hold: too few for a GPU, not for a core.
        (10, (50, 8000, None), 50, 4000, false),
        (10, (1000, 8000, None), 100, 8000, true),
        (10, (1000, 8000, Some(1)), 100, 8000, false),
        (10, (1000, 8079, Some(1)), 100, 8000, false),
        (10, (1000, 63 * 80, Some(1)), 63, 63 * 80, true),
        (10, (60, 8000, Some(1)), 60, 4800, false),
        // On CPUs no more than caches hold, 2 MiB a core, if that is at least 256 threads a core.
        (10, (1 << 20, plenty, Some(1)), 26_214, 2_097_120, false),
        (10, (1 << 20, plenty, Some(4)), 104_857, 8_388_560, false),
        (10, (1 << 20, plenty, None), 1 << 20, 80 << 20, false),
        (1000, (1 << 20, plenty, Some(1)), 262, 2_096_000, false),
        (1100, (1 << 20, plenty, Some(1)), 122_016, 1_073_740_800, false),
        // One thread at least, though it takes more.
        (2000, (1, 8000, Some(1)), 1, 16_000, true),
        // A loop that does not run has a tape as well.
        (0, (50, 8000, None), 50, 400, false),
    ];
    for (length, (n_threads, bytes, n_cores), places, taken, is_cramped) in table {
        let plan = backward.plan(&[length], n_threads, TapeLimits { bytes, n_cores });
        let found = (plan.n_places, plan.bytes, plan.is_cramped);
        assert_eq!(found, (places, taken, is_cramped), "{length} times, {n_threads} threads, {bytes} B, {n_cores:?}");
        assert_eq!(plan.tapes, [(vec![u64::from(length.max(1)), places], Scalar::F64)]);
        assert!(plan.segments.is_empty());
    }
}

#[test]
fn tapes_of_composites_have_their_extents() {
    let backward = backward("squares", 1, false);
    let plan = backward.plan(&[10], 100, TapeLimits { bytes: 2400, n_cores: Some(1) });
    assert_eq!(plan.tapes, [(vec![10, 10, 3], Scalar::F64)]);
    assert_eq!((plan.n_places, plan.bytes), (10, 2400));
}

#[test]
fn checkpoints_are_as_many_as_segments_have_iterations() {
    let backward = backward("sines", 1, true);
    // The loop's length; iterations of a segment, and checkpoints.
    for (length, segment, checkpoints) in [(0, 1, 1), (1, 1, 1), (2, 2, 1), (10, 4, 3), (16, 4, 4), (17, 5, 4)] {
        let plan = backward.plan(&[length], 100, TapeLimits { bytes: 1 << 20, n_cores: None });
        assert_eq!(plan.segments, [segment], "{length} times");
        let mut extents: Vec<u64> = plan.tapes.iter().map(|(shape, _)| shape[0]).collect();
        extents.sort_unstable();
        let mut expected = [checkpoints, segment];
        expected.sort_unstable();
        assert_eq!(extents, expected, "{length} times");
        assert_eq!(plan.bytes, 100 * 8 * (segment + checkpoints), "{length} times");
    }
}

#[test]
fn checkpoints_keep_rows_and_what_a_segment_reads_of_them() {
    let whole = backward("rows", 1, false);
    assert!(whole.needs.records_rows);
    let backward = with_rows("rows");
    assert!(!backward.needs.records_rows);
    // How often the outer loop runs, how long a row is, and how much of it an iteration reads. The inner loop runs as
    // often as it reads.
    let plan = |n: u32, row: u32, reads: u32| {
        let rows = backward.needs.tapes.iter().find_map(|extent| match *extent {
            TapeExtent::Rows { of, row } => Some((of, row)),
            _ => None,
        });
        let (of, of_row) = rows.unwrap();
        let length = |number: usize| if number == of { n } else { [reads, row][usize::from(number == of_row)] };
        let lengths: Vec<u32> = (0..backward.needs.lengths.len()).map(length).collect();
        backward.plan(&lengths, 100, TapeLimits { bytes: 1 << 20, n_cores: Some(1) })
    };
    // For each float64, 4 checkpoints of 10 elements, 4 iterations that read 9; the rest are numbers of places on
    // tapes, one of each iteration, and of the inner loop one of each of 3 segments and of each of 3 iterations.
    let found = plan(16, 10, 9);
    assert_eq!(found.per_place, 8 * (4 * 10 + 4 * 9) + 4 * (4 + 3 + 3));
    assert_eq!(found.bytes, 100 * found.per_place);
    assert!(!found.is_cramped);
    // A tape that is too long for its indices is as if it took everything.
    let found = plan(1 << 30, 1 << 20, 1 << 20);
    assert_eq!((found.per_place, found.n_places, found.is_cramped), (u64::MAX, 1, true));
}

#[test]
fn stages_are_launched_where_gathering_pays() {
    let stencil = backward("stencil", 2, false);
    let gathered = |elements: [u64; 2], dim: [u64; 2]| {
        vec![(Some(0), elements.to_vec(), dim.to_vec()), (Some(1), dim.to_vec(), vec![])]
    };
    let whole = |dim: [u64; 2]| vec![(None, dim.to_vec(), vec![])];
    let launches = |dim: [u64; 2], adjoints: [Option<[u64; 2]>; 2]| -> Vec<_> {
        let adjoints = adjoints.each_ref().map(|extents| extents.as_ref().map(|extents| &extents[..]));
        stencil.launches(&dim, &adjoints).into_iter().map(|l| (l.part.stage, l.dim, l.extents)).collect()
    };
    let of = |dim: [u64; 2], x: [u64; 2]| launches(dim, [Some(x), Some(dim)]);
    assert_eq!(of([5, 4], [6, 5]), gathered([6, 5], [5, 4]));
    // Elements may be twice as many as threads.
    assert_eq!(of([5, 4], [8, 5]), gathered([8, 5], [5, 4]));
    assert_eq!(of([5, 4], [6, 7]), whole([5, 4]));
    // Of 2^30 threads at most.
    let side = 1 << 15;
    assert_eq!(of([side, side], [side + 1, side + 1]), gathered([side + 1, side + 1], [side, side]));
    assert_eq!(of([side, side + 1], [side + 1, side + 2]), whole([side, side + 1]));
    // Elements that may be one memory are not gathered.
    assert_eq!(launches([5, 4], [None, Some([5, 4])]), whole([5, 4]));
    assert_eq!(launches([5, 4], [Some([6, 5]), None]), whole([5, 4]));
    let sines = backward("sines", 1, false);
    assert!(sines.stages().is_empty());
}

#[test]
fn gradients_are_written_where_threads_have_elements_of_their_own() {
    let stencil = backward("stencil", 2, false);
    let launches = |dim: [u64; 2], x: Option<[u64; 2]>| {
        let found = stencil.overwriting_launches(&dim, &[x.as_ref().map(|x| &x[..]), Some(&dim)]);
        let launches: Vec<_> = found.launches.into_iter().map(|l| (l.part.stage, l.part.overwrites)).collect();
        (launches, found.cleared, found.copied)
    };
    // What gathers writes all elements, and nothing is left to do.
    assert_eq!(launches([5, 4], Some([6, 5])), (vec![(Some(0), true)], vec![], vec![]));
    // What scatters adds to them.
    assert_eq!(launches([5, 4], Some([6, 7])), (vec![(None, true)], vec![0], vec![]));
    assert_eq!(
        launches([5, 4], None),
        (vec![(None, false)], vec![0], vec![1]),
        "elements that may be one memory are added to"
    );
    // A kernel with tapes is launched as ever.
    let found = backward("sines", 1, false).overwriting_launches(&[8], &[Some(&[8]), Some(&[8])]);
    assert_eq!((found.launches.len(), found.cleared, found.copied), (0, vec![0], vec![1]));
}

#[test]
fn an_adjoint_that_does_not_fit_is_named() {
    let unit = SourceUnit::parse(SourceFile::new("kernels.py", TEXT, 1)).unwrap();
    let kernel = Session::new().unwrap().compile_file_kernel(&unit, "stencil").unwrap();
    let backward = kernel.backward(&DerivativeRequest::new(vec![true; 2], 2)).unwrap();
    let (mut x, mut y) = (vec![1.0; 9], vec![0.0; 9]);
    let mut args = ArgBlock::new();
    for array in [&mut x, &mut y] {
        args.slice(kernel.params(), array, &[3, 3]).unwrap();
    }
    // Of floats, where the kernel has doubles.
    let mut memory = [0.0f32; 9];
    let layout = ArrayLayout {
        base: memory.as_mut_ptr() as u64,
        elem_bytes: 4,
        extents: [3, 3].as_slice().into(),
        strides: [12, 4].as_slice().into(),
    };
    let adjoint = ArgArray { elem: Scalar::F32, layout, is_resident: false };
    let queue: Arc<dyn Queue> = Arc::new(CpuQueue);
    let run = BackwardRun {
        forward: &kernel,
        shape: &[2, 2],
        args: &args,
        adjoints: &[adjoint.clone(), adjoint],
        after: &[],
        queue: &queue,
        is_whole: true,
        // SAFETY: the arrays outlive the launch.
        run: &|kernel, shape, args| unsafe { kernel.launch(shape, args, &LaunchOptions::default()) },
    };
    // SAFETY: as above.
    let error = unsafe { backward.launch(&run, false, None).unwrap_err().to_string() };
    assert!(error.contains("must be") && error.contains("float64") && error.contains("float32"), "{error}");
}
