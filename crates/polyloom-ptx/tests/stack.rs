//! Local memory that grows: `alloca`, `stacksave` and `stackrestore`.

use crate::device::{array, try_launch, value, values};
use polyloom_ptx::{FindingKind, LaunchRequest, Sanitizers};

/// Each thread `i` takes `4 * (i + 1)` bytes `n` times, in a function that calls itself to a depth of `i % 4`; numbers
/// in them are added up once all are there.
const SUMS: &str = "
.version 8.0
.target sm_80
.address_size 64
.func (.param .u32 sum) fill(.param .u32 i, .param .u32 depth) {
    .reg .pred %p; .reg .b32 %i, %j, %s, %t, %d, %v; .reg .b64 %rd<4>;
    ld.param.u32 %i, [i];
    ld.param.u32 %d, [depth];
    add.u32 %j, %i, 1;
    mul.wide.u32 %rd0, %j, 4;
    alloca.u64 %rd1, %rd0;
    alloca.u64 %rd2, 4, 64;
    st.local.u32 [%rd2], 100;
    mov.u32 %j, 0;
fills:
    mul.wide.u32 %rd3, %j, 4;
    add.u64 %rd3, %rd1, %rd3;
    st.local.u32 [%rd3], %j;
    add.u32 %j, %j, 1;
    setp.le.u32 %p, %j, %i;
    @%p bra fills;
    mov.u32 %t, 0;
    setp.eq.u32 %p, %d, 0;
    @%p bra adds;
    sub.u32 %d, %d, 1;
    {
        .param .u32 a; .param .u32 b; .param .u32 c;
        st.param.u32 [a], %i;
        st.param.u32 [b], %d;
        call (c), fill, (a, b);
        ld.param.u32 %t, [c];
    }
adds:
    // By generic addresses.
    cvta.local.u64 %rd1, %rd1;
    cvta.local.u64 %rd2, %rd2;
    ld.u32 %s, [%rd2];
    add.u32 %s, %s, %t;
    mov.u32 %j, 0;
more:
    mul.wide.u32 %rd3, %j, 4;
    add.u64 %rd3, %rd1, %rd3;
    ld.u32 %v, [%rd3];
    add.u32 %s, %s, %v;
    add.u32 %j, %j, 1;
    setp.le.u32 %p, %j, %i;
    @%p bra more;
    st.param.u32 [sum], %s;
    ret;
}
.visible .entry sums(.param .u64 out, .param .u32 n) {
    .reg .pred %p; .reg .b32 %i, %k, %n, %d, %s; .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [out];
    ld.param.u32 %n, [n];
    mov.u32 %i, %tid.x;
    and.b32 %d, %i, 3;
    mov.u32 %k, 0;
again:
    {
        .param .u32 a; .param .u32 b; .param .u32 c;
        st.param.u32 [a], %i;
        st.param.u32 [b], %d;
        call (c), fill, (a, b);
        ld.param.u32 %s, [c];
    }
    add.u32 %k, %k, 1;
    setp.lt.u32 %p, %k, %n;
    @%p bra again;
    mul.wide.u32 %rd1, %i, 4;
    add.u64 %rd1, %rd0, %rd1;
    st.global.u32 [%rd1], %s;
    ret;
}";

#[test]
fn functions_give_back_what_they_take() {
    // A hundred times what one activation takes would be more than there is.
    let launch = LaunchRequest { block: [48, 1, 1], sanitize: Sanitizers::ALL, ..LaunchRequest::default() };
    let (arrays, _) = try_launch(SUMS, "sums", vec![array(&[0u32; 48]), value(100u32)], launch).expect("it runs");
    let expected: Vec<u32> = (0..48u32).map(|i| (i % 4 + 1) * (100 + i * (i + 1) / 2)).collect();
    assert_eq!(values::<u32>(&arrays[0]), expected);
}

/// Takes `size` bytes `n` times, between `stacksave` and `stackrestore` if `restores`.
fn in_a_loop(restores: bool) -> String {
    let restore = if restores { "stackrestore.u64 %rd1;" } else { "" };
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 size, .param .u32 n) {{
    .reg .pred %p; .reg .b32 %k, %n; .reg .b64 %rd<5>;
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd3, [size];
    ld.param.u32 %n, [n];
    mov.u32 %k, 0;
again:
    stacksave.u64 %rd1;
    alloca.u64 %rd2, %rd3;
    st.local.u32 [%rd2], %k;
    st.global.u64 [%rd0], %rd2;
    {restore}
    add.u32 %k, %k, 1;
    setp.lt.u32 %p, %k, %n;
    @%p bra again;
    ret;
}}"
    )
}

#[test]
fn what_is_restored_is_there_again_and_else_it_ends() {
    let run = |restores: bool, size: u64, n: u32| {
        try_launch(&in_a_loop(restores), "k", vec![array(&[0u64]), value(size), value(n)], LaunchRequest::default())
    };
    assert!(run(true, 10_000, 50).is_ok());
    assert!(run(false, 4000, 4).is_ok());
    for (restores, size, n) in [(false, 4000, 5), (true, 20_000, 1), (true, u64::MAX, 1)] {
        let fault = run(restores, size, n).expect_err("there is not as much");
        assert_eq!(fault.findings[0].kind, FindingKind::StackOverflow);
        assert!(fault.findings[0].message.contains(&format!("`alloca` of {size} bytes")), "{fault}");
    }
}

/// Thread `i` takes `8 * i + 8` bytes and stores a word `at` bytes into them, after giving them back if it `restores`.
fn stored_at(at: u32, restores: bool, space: &str) -> String {
    let restore = if restores { "stackrestore.u64 %rd2;" } else { "" };
    let convert = if space.is_empty() { "cvta.local.u64 %rd1, %rd1;" } else { "" };
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k() {{
    .reg .b32 %i; .reg .b64 %rd<3>;
    .local .b32 other;
    mov.u32 %i, %tid.x;
    st.local.u32 [other], %i;
    mul.wide.u32 %rd0, %i, 8;
    add.u64 %rd0, %rd0, 8;
    stacksave.u64 %rd2;
    alloca.u64 %rd1, %rd0;
    {restore}
    {convert}
    st{space}.u32 [%rd1+{at}], %i;
    ret;
}}"
    )
}

#[test]
fn what_was_not_given_is_out_of_bounds() {
    for space in [".local", ""] {
        let run = |at: u32, restores: bool| {
            let launch = LaunchRequest { block: [48, 1, 1], ..LaunchRequest::default() };
            try_launch(&stored_at(at, restores, space), "k", vec![], launch)
        };
        assert!(run(0, false).is_ok() && run(4, false).is_ok());
        for (at, restores, threads) in [(8, false, 1), (36, false, 4), (0, true, 32)] {
            let fault = run(at, restores).expect_err("it is not the thread's");
            let finding = &fault.findings[0];
            assert_eq!(finding.kind, FindingKind::OutOfBounds);
            assert_eq!(finding.threads.len(), threads, "{fault}");
            assert!(finding.message.contains("bytes of local memory"), "{fault}");
        }
    }
}

#[test]
fn calls_do_not_reach_into_what_alloca_gave() {
    // Each call has a KiB of its own; in between lies what the entry has taken.
    let text = ".version 8.0
.target sm_80
.address_size 64
.func deeper(.param .u32 n) {
    .reg .b32 %r<3>; .reg .pred %p;
    .local .align 16 .b8 own[1024];
    ld.param.u32 %r1, [n];
    st.local.u32 [own], %r1;
    st.local.u32 [own+1020], %r1;
    setp.eq.u32 %p, %r1, 0;
    @%p bra done;
    sub.u32 %r2, %r1, 1;
    { .param .u32 q; st.param.u32 [q], %r2; call.uni deeper, (q); }
done:
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 depth) {
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [depth];
    alloca.u64 %rd2, 16384, 16;
    st.local.u32 [%rd2], 4242;
    { .param .u32 q; st.param.u32 [q], %r1; call.uni deeper, (q); }
    ld.local.u32 %r3, [%rd2];
    st.global.u32 [%rd1], %r3;
    ret;
}";
    let mut deepest = 0;
    for depth in 0..100u32 {
        match try_launch(text, "k", vec![array(&[0u32]), value(depth)], LaunchRequest::default()) {
            Ok((arrays, _)) => {
                assert_eq!(values::<u32>(&arrays[0]), [4242], "{depth} calls deep");
                deepest = depth;
            }
            Err(fault) => assert_eq!(fault.findings[0].kind, FindingKind::StackOverflow, "{depth}: {fault}"),
        }
    }
    assert!((30..99).contains(&deepest), "{deepest}");
}

#[test]
fn a_stack_is_restored_to_where_it_was() {
    let text = in_a_loop(true).replace("stackrestore.u64 %rd1;", "stackrestore.u64 4096;");
    let fault = try_launch(&text, "k", vec![array(&[0u64]), value(8u64), value(1u32)], LaunchRequest::default());
    let fault = fault.expect_err("nobody saved that");
    assert!(fault.findings[0].message.contains("`stackrestore` of what"), "{fault}");
}
