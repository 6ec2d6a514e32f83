//! Streams and events.

use super::entry_points;
use crate::abi::{DeviceAddress, EdgeData, Handle};
use crate::context::Context;
use crate::driver::Driver;
use crate::event::Event;
use crate::graph::Graph;
use crate::memory::CopyPlace;
use crate::pointers::{In, Out};
use crate::registry::new_handle;
use crate::status::{CudaError, Outcome};
use crate::stream::{self, Capture, CaptureMode, Stream, THREAD_MODE};
use crate::work::{FillWork, Work};
use std::ffi::{c_int, c_uint};

/// Says if a stream is captured (`CUstreamCaptureStatus`).
fn status(capture: Option<&Capture>) -> c_uint {
    match capture {
        None => 0,
        Some(capture) if capture.is_invalid => 2,
        Some(_) => 1,
    }
}

/// Orders what the host does next after an event, whose work is over because work runs as it is submitted.
fn host_waits_for(driver: &Driver, event: Handle) -> Outcome {
    let event = crate::event::EVENTS.get(event)?;
    if event.state().captured.is_some() {
        return Err(CudaError::CAPTURED_EVENT);
    }
    driver.order.host_waited(&event.state().clock.clone());
    driver.flush_prints();
    Ok(())
}

fn record(driver: &Driver, context: &Context, event: Handle, stream: Handle) -> Outcome {
    let event = crate::event::EVENTS.get(event)?;
    Stream::of(context, stream)?.record(driver, &event)
}

/// Milliseconds between two events.
fn elapsed(start: Handle, end: Handle) -> Outcome<f32> {
    let time = |event: Handle| {
        let event = crate::event::EVENTS.get(event)?;
        if event.flags & Event::DISABLE_TIMING != 0 {
            return Err(CudaError::INVALID_HANDLE);
        }
        let state = event.state().clone();
        if state.captured.is_some() {
            return Err(CudaError::CAPTURED_EVENT);
        }
        state.recorded.ok_or(CudaError::INVALID_HANDLE)
    };
    let (start, end) = (time(start)?, time(end)?);
    let (later, sign) = if end >= start { (end - start, 1.0) } else { (start - end, -1.0) };
    Ok(sign * later.as_secs_f32() * 1e3)
}

/// Tells of a capture: its state, its number, its graph, and what comes before the next node.
fn capture_info(
    context: &Context,
    stream: Handle,
    (state, id): (Out<c_uint>, Out<u64>),
    (graph, dependencies, n): (Out<Handle>, Out<usize>, Out<usize>),
) -> Outcome {
    let stream = Stream::of(context, stream)?;
    let capture = stream.capture().clone();
    state.set(status(capture.as_ref()))?;
    let Some(capture) = capture else {
        n.set_if_wanted(0);
        return Ok(());
    };
    id.set_if_wanted(capture.id);
    graph.set_if_wanted(capture.graph.handle);
    n.set_if_wanted(capture.dependencies.len());
    dependencies.set_if_wanted(stream.show_dependencies(&capture.dependencies));
    Ok(())
}

fn update_dependencies(context: &Context, stream: Handle, nodes: Vec<Handle>, flags: c_uint) -> Outcome {
    let stream = Stream::of(context, stream)?;
    let mut capture = stream.capture();
    let capture = capture.as_mut().ok_or(CudaError::ILLEGAL_STATE)?;
    match flags {
        0 => capture.dependencies.extend(nodes),
        1 => capture.dependencies = nodes,
        _ => return Err(CudaError::INVALID_VALUE),
    }
    Ok(())
}

/// Waits for a value in memory: it is there, or nobody will write it, because everything that was submitted is done.
fn wait_value(
    driver: &Driver,
    context: &Context,
    stream: Handle,
    (address, n_bytes): (DeviceAddress, usize),
    (value, flags): (u64, c_uint),
) -> Outcome {
    let stream = Stream::of(context, stream)?;
    if stream.capture().is_some() {
        return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
    }
    let is_there = || -> Outcome<bool> {
        let mut bytes = [0u8; 8];
        let to = CopyPlace::Host(bytes.as_mut_ptr().expose_provenance());
        driver.memory.copy(driver, to, CopyPlace::Device(address), n_bytes)?;
        let found = u64::from_le_bytes(bytes);
        let mask = if n_bytes == 4 { u64::from(u32::MAX) } else { u64::MAX };
        Ok(match flags & 3 {
            // Greater or equal, going round.
            0 if n_bytes == 4 => (found as u32).wrapping_sub(value as u32) as i32 >= 0,
            0 => found.wrapping_sub(value) as i64 >= 0,
            1 => found == value,
            2 => found & value != 0,
            _ => !(found | value) & mask != 0,
        })
    };
    // Another thread of the host may write it yet.
    let started = std::time::Instant::now();
    while !is_there()? {
        if started.elapsed().as_secs() >= WAIT_SECONDS {
            driver.journal.noted(&format!(
                "a stream waits for a value at 0x{address:x} that nothing submitted before writes: after {WAIT_SECONDS} s it is given up"
            ));
            return Err(CudaError::LAUNCH_TIMEOUT);
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// Limits the time that a stream waits for a value that the host may write.
const WAIT_SECONDS: u64 = 60;

fn write_value(
    driver: &Driver,
    context: &Context,
    stream: Handle,
    (address, n_words): (DeviceAddress, usize),
    value: u64,
) -> Outcome {
    let stream = Stream::of(context, stream)?;
    for word in 0..n_words {
        let fill = FillWork {
            address: address + 4 * word as u64,
            pitch: 0,
            value: (value >> (32 * word)) as u32,
            element_bytes: 4,
            width: 1,
            height: 1,
        };
        stream.submit(driver, Work::Fill(fill))?;
    }
    Ok(())
}

fn create(context: &Context, out: Out<Handle>, flags: c_uint, priority: c_int) -> Outcome {
    out.set(stream::create(context, flags, priority.clamp(-5, 0))?)
}

entry_points! { STREAM:
    fn cuStreamCreate(out: Out<Handle>, flags: c_uint) [_driver, context] {
        create(&context, out, flags, 0)
    }

    fn cuStreamCreateWithPriority(out: Out<Handle>, flags: c_uint, priority: c_int) [_driver, context] {
        create(&context, out, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: Handle) [_driver] also "cuStreamDestroy" {
        if crate::stream::STREAMS.get(stream)?.is_default {
            return Err(CudaError::INVALID_HANDLE);
        }
        crate::stream::STREAMS.remove(stream).map(|_| ())
    }

    fn cuStreamSynchronize(stream: Handle) [driver, context] and "_ptsz" {
        Stream::of(&context, stream)?.synchronize(driver)
    }

    fn cuStreamQuery(stream: Handle) [driver, context] and "_ptsz" {
        Stream::of(&context, stream)?.synchronize(driver)
    }

    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) [driver, context] and "_ptsz" {
        let event = crate::event::EVENTS.get(event)?;
        Stream::of(&context, stream)?.wait(driver, &event)
    }

    fn cuStreamGetFlags(stream: Handle, flags: Out<c_uint>) [_driver, context] and "_ptsz" {
        flags.set(Stream::of(&context, stream)?.flags)
    }

    fn cuStreamGetPriority(stream: Handle, priority: Out<c_int>) [_driver, context] and "_ptsz" {
        priority.set(Stream::of(&context, stream)?.priority)
    }

    fn cuStreamGetId(stream: Handle, id: Out<u64>) [_driver, context] and "_ptsz" {
        id.set(Stream::of(&context, stream)?.id)
    }

    fn cuStreamGetCtx(stream: Handle, out: Out<Handle>) [_driver, context] and "_ptsz" {
        out.set(Stream::of(&context, stream)?.context)
    }

    fn cuStreamGetCtx_v2(stream: Handle, out: Out<Handle>, green: Out<Handle>) [_driver, context] and "_ptsz" {
        green.set_if_wanted(0);
        out.set(Stream::of(&context, stream)?.context)
    }

    fn cuStreamGetDevice(stream: Handle, device: Out<c_int>) [_driver, context] and "_ptsz" {
        Stream::of(&context, stream)?;
        device.set(0)
    }

    fn cuStreamCopyAttributes(to: Handle, from: Handle) [_driver, context] and "_ptsz" {
        Stream::of(&context, to)?;
        Stream::of(&context, from).map(|_| ())
    }

    fn cuStreamGetAttribute(stream: Handle, _number: c_uint, value: Out<[u64; 8]>) [_driver, context] and "_ptsz" {
        Stream::of(&context, stream)?;
        value.set([0; 8])
    }

    fn cuStreamSetAttribute(stream: Handle, _number: c_uint, _value: In<[u64; 8]>) [_driver, context] and "_ptsz" {
        Stream::of(&context, stream).map(|_| ())
    }

    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) [_driver, context] and "_ptsz" {
        let mode = CaptureMode::of(mode)?;
        let graph = Graph::create();
        Stream::of(&context, stream)?.begin_capture(graph, Vec::new(), mode)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: Handle,
        graph: Handle,
        dependencies: In<Handle>,
        _edges: In<EdgeData>,
        n: usize,
        mode: c_uint,
    ) [_driver, context] and "_ptsz" {
        let graph = crate::graph::GRAPHS.get(graph)?;
        let mode = CaptureMode::of(mode)?;
        Stream::of(&context, stream)?.begin_capture(graph, dependencies.list(n)?, mode)
    }

    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) [_driver, context] and "_ptsz" {
        let ended = Stream::of(&context, stream)?.end_capture();
        graph.set(ended.as_ref().map_or(0, |graph| graph.handle))?;
        ended.map(|_| ())
    }

    fn cuStreamIsCapturing(stream: Handle, state: Out<c_uint>) [_driver, context] and "_ptsz" {
        let stream = Stream::of(&context, stream)?;
        let capture = stream.capture();
        state.set(status(capture.as_ref()))
    }

    fn cuStreamGetCaptureInfo(stream: Handle, state: Out<c_uint>, id: Out<u64>) [_driver, context] and "_ptsz" {
        capture_info(&context, stream, (state, id), (Out::NOWHERE, Out::NOWHERE, Out::NOWHERE))
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        state: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<usize>,
        n: Out<usize>,
    ) [_driver, context] and "_ptsz" {
        capture_info(&context, stream, (state, id), (graph, dependencies, n))
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle,
        state: Out<c_uint>,
        id: Out<u64>,
        graph: Out<Handle>,
        dependencies: Out<usize>,
        edges: Out<usize>,
        n: Out<usize>,
    ) [_driver, context] and "_ptsz" {
        edges.set_if_wanted(0);
        capture_info(&context, stream, (state, id), (graph, dependencies, n))
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: Handle,
        nodes: In<Handle>,
        n: usize,
        flags: c_uint,
    ) [_driver, context] and "_ptsz" {
        update_dependencies(&context, stream, nodes.list(n)?, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: Handle,
        nodes: In<Handle>,
        _edges: In<EdgeData>,
        n: usize,
        flags: c_uint,
    ) [_driver, context] and "_ptsz" {
        update_dependencies(&context, stream, nodes.list(n)?, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<c_uint>) [_driver] {
        let new = CaptureMode::of(mode.get()?)?;
        mode.set(THREAD_MODE.replace(new).number())
    }

    fn cuStreamWriteValue32_v2(
        stream: Handle,
        address: DeviceAddress,
        value: u32,
        _flags: c_uint,
    ) [driver, context] and "_ptsz" {
        write_value(driver, &context, stream, (address, 1), value.into())
    }

    fn cuStreamWriteValue64_v2(
        stream: Handle,
        address: DeviceAddress,
        value: u64,
        _flags: c_uint,
    ) [driver, context] and "_ptsz" {
        write_value(driver, &context, stream, (address, 2), value)
    }

    fn cuStreamWaitValue32_v2(
        stream: Handle,
        address: DeviceAddress,
        value: u32,
        flags: c_uint,
    ) [driver, context] and "_ptsz" {
        wait_value(driver, &context, stream, (address, 4), (value.into(), flags))
    }

    fn cuStreamWaitValue64_v2(
        stream: Handle,
        address: DeviceAddress,
        value: u64,
        flags: c_uint,
    ) [driver, context] and "_ptsz" {
        wait_value(driver, &context, stream, (address, 8), (value, flags))
    }

    fn cuEventCreate(out: Out<Handle>, flags: c_uint) [_driver, context] {
        if flags & Event::INTERPROCESS != 0 && flags & Event::DISABLE_TIMING == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let handle = new_handle();
        crate::event::EVENTS.insert(handle, Event::new(context.handle, flags));
        out.set(handle)
    }

    fn cuEventDestroy_v2(event: Handle) [_driver] also "cuEventDestroy" {
        crate::event::EVENTS.remove(event).map(|_| ())
    }

    fn cuEventRecord(event: Handle, stream: Handle) [driver, context] and "_ptsz" {
        record(driver, &context, event, stream)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: c_uint) [driver, context] and "_ptsz" {
        record(driver, &context, event, stream)
    }

    fn cuEventQuery(event: Handle) [driver, _context] {
        host_waits_for(driver, event)
    }

    fn cuEventSynchronize(event: Handle) [driver, _context] {
        host_waits_for(driver, event)
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) [_driver] {
        milliseconds.set(elapsed(start, end)?)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) [_driver] {
        milliseconds.set(elapsed(start, end)?)
    }
}
