//! Tests of what a driver over the simulator needs: memory of the host's, limits, and how far a launch is.

use polyloom_ptx::{
    FindingKind, HostMemory, LaunchProgress, LaunchRequest, MemoryError, Module, Sanitizers, Simulator,
};
use std::sync::Mutex;

#[test]
fn memory_of_the_host_has_one_address_on_both_sides() {
    let text = "
        .version 8.0
        .target sm_80
        .visible .entry twice(.param .u64 x) {
            .reg .b32 %r; .reg .b64 %rd;
            ld.param.u64 %rd, [x];
            ld.u32 %r, [%rd];
            add.u32 %r, %r, %r;
            st.u32 [%rd+4], %r;
            ret;
        }";
    let simulator = Simulator::default();
    let kernel = simulator.load(&Module::parse(text).unwrap()).unwrap().kernel("twice").unwrap();
    // Two numbers that begin at no multiple of 16.
    let mut numbers = vec![0u32, 21, 0, 7];
    let (start, memory) = (numbers[1..].as_mut_ptr(), simulator.memory());
    // SAFETY: the numbers live to the end of the test, and nothing runs beside it.
    let lend = || unsafe { HostMemory::new(start.cast(), 8) }.unwrap();
    let before = memory.in_use();
    let address = memory.map_host(lend()).unwrap();
    assert_eq!((address, memory.in_use()), (start.addr() as u64, before));
    assert_eq!(memory.map_host(lend()), Err(MemoryError::AlreadyMapped(address)));
    let params = [address.to_le_bytes().to_vec()];
    let launch = LaunchRequest { params: &params, ..LaunchRequest::default() };
    kernel.launch(&launch).unwrap();
    assert_eq!(numbers, [0, 21, 42, 7]);
    assert_eq!(memory.allocation_at(address + 7), Some(address..address + 8));
    // The memory beside it is nobody's.
    let params = [(address + 4).to_le_bytes().to_vec()];
    let fault = kernel.launch(&LaunchRequest { params: &params, ..launch }).unwrap_err();
    assert!(fault.to_string().contains("0 bytes past the end of the 8-byte allocation"), "{fault}");
    memory.free(address).unwrap();
    assert!(kernel.launch(&launch).is_err());
    assert_eq!(numbers, [0, 21, 42, 7]);
}

#[test]
fn launches_end_at_their_limit_and_tell_how_far_they_are() {
    let text = "
        .version 8.0
        .target sm_80
        .visible .entry three() { .reg .u32 %r; mov.u32 %r, 1; add.u32 %r, %r, 1; ret; }
        .visible .entry forever() { .reg .u32 %r; mov.u32 %r, 1; again: add.u32 %r, %r, 1; bra again; }";
    let simulator = Simulator::default();
    let loaded = simulator.load(&Module::parse(text).unwrap()).unwrap();
    let seen = Mutex::new(Vec::new());
    let progress = |at: LaunchProgress| seen.lock().unwrap().push((at.blocks_done, at.thread_instructions));
    let launch = LaunchRequest { grid: [3, 1, 1], block: [2, 1, 1], progress: &progress, ..LaunchRequest::default() };
    loaded.kernel("three").unwrap().launch(&launch).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(1, 6), (2, 12), (3, 18)]);
    let limited = LaunchRequest { max_thread_instructions: Some(11), ..launch };
    let fault = loaded.kernel("three").unwrap().launch(&limited).unwrap_err();
    assert_eq!(fault.findings[0].kind, FindingKind::InstructionLimit);
    assert!(fault.to_string().contains("over 11 instructions, with 2 of 3 blocks done"), "{fault}");
    let limited = LaunchRequest { max_thread_instructions: Some(1_000_000), ..launch };
    let fault = loaded.kernel("forever").unwrap().launch(&limited).unwrap_err();
    assert!(fault.to_string().contains("with 0 of 3 blocks done"), "{fault}");
}

#[test]
fn a_report_says_which_memory_was_accessed() {
    let text = "
        .version 8.0
        .target sm_80
        .visible .entry k(.param .u64 x) {
            .reg .b32 %r<3>; .reg .b64 %rd;
            ld.param.u64 %rd, [x];
            ld.global.u32 %r1, [%rd+8];
            st.global.u64 [%rd+16], %rd;
            atom.global.add.u32 %r2, [%rd+32], 1;
            ret;
        }";
    let simulator = Simulator::default();
    let kernel = simulator.load(&Module::parse(text).unwrap()).unwrap().kernel("k").unwrap();
    let address = simulator.memory().alloc(64, 8).unwrap();
    let params = [address.to_le_bytes().to_vec()];
    let sanitize = Sanitizers { races: true, ..Sanitizers::default() };
    let launch = LaunchRequest { params: &params, sanitize, accesses: true, ..LaunchRequest::default() };
    let report = kernel.launch(&launch).unwrap();
    let found = report.accesses.iter().map(|access| {
        let range = access.range.start - address..access.range.end - address;
        (range, access.writes, access.is_atomic, access.site.position.line)
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(8..12, false, false, 7), (16..24, true, false, 8), (32..36, true, true, 9)]
    );
    let launch = LaunchRequest { accesses: false, ..launch };
    assert_eq!(kernel.launch(&launch).unwrap().accesses, []);
}
