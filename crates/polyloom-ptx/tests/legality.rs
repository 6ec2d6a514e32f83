//! Instructions with every combination of modifiers and types that looks like one, legal and not: ptxas and the
//! simulator take the same.

use crate::ptxas::ptxas;
use polyloom_ptx::{Module, Simulator};
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

const HEAD: &str = ".version 9.2\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n\
    .reg .b8 %b<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b128 %q<8>; .reg .pred %p<8>;\n\
    .reg .f16 %fh<4>; .reg .u16 %uh<4>; .reg .s16 %sh<4>; .reg .f16x2 %fx<4>; .reg .f32 %f<4>; .reg .u32 %u<4>;\n\
    .reg .s32 %s<4>; .reg .f64 %fd<4>; .reg .u64 %ud<4>; .reg .s64 %sd<4>;\n\
    .shared .align 16 .b8 tile[256];\n";

/// Registers by their types.
const REGISTERS: &[(&str, &str)] = &[
    ("h", "f16 bf16 b16 u16 s16 e4m3x2 e5m2x2 e3m2x2 e2m3x2 e2m1x4 ue8m0x2 s2f6x2"),
    ("r", "f16x2 bf16x2 f32 b32 u32 s32 u16x2 s16x2 tf32 e4m3x4 e5m2x4 e3m2x4 e2m3x4"),
    ("rd", "f64 f32x2 b64 u64 s64"),
    ("b", "b8 u8 s8 e2m1x2"),
    ("q", "b128"),
    ("p", "pred"),
];

/// `<a|b>` stands for each of its alternatives; `@a1` for register 1 of the first type of the instruction, `@z1` of
/// the last. Registers of eight bits are those of sixteen, but for conversions to `e2m1`.
const FORMS: &[&str] = &[
    // Arithmetic of floats.
    "<add|sub|mul><|.rn|.rz|.rna><|.ftz><|.sat><|.relu|.oob|.NaN>.<f16|f16x2|bf16|bf16x2|f32|f64|f32x2> @z0, @z1, @z2;",
    "<fma|mad><|.rn|.rm><|.ftz><|.sat><|.relu><|.oob>.<f16|f16x2|bf16|bf16x2|f32|f64|f32x2> @z0, @z1, @z2, @z3;",
    "<min|max><|.rn><|.ftz><|.sat|.relu><|.NaN><|.xorsign.abs|.xorsign>.<f16|f16x2|bf16|bf16x2|f32|f64> @z0, @z1, @z2;",
    "<min|max><|.ftz><|.NaN><|.abs>.<f32|f64|f16> @z0, @z1, @z2, @z3;",
    "<neg|abs><|.ftz><|.sat|.rn>.<f16|f16x2|bf16|bf16x2|f32|f64|f32x2|tf32> @z0, @z1;",
    "div<|.rn|.rp|.approx|.full><|.ftz><|.sat>.<f16|f32|f64> @z0, @z1, @z2;",
    "<rcp|sqrt|rsqrt><|.rn|.rz|.approx><|.ftz><|.sat>.<f16|f32|f64|bf16> @z0, @z1;",
    "<sin|cos|lg2|ex2|tanh><|.rn|.approx><|.ftz>.<f16|f16x2|bf16|bf16x2|f32|f64> @z0, @z1;",
    "copysign<|.ftz>.<f16|f32|f64> @z0, @z1, @z2;",
    "testp<|.finite|.infinite|.number|.notanumber|.normal|.subnormal|.zero>.<f16|f32|f64> %p0, @z1;",
    "<add|sub><|.rn|.rz><|.ftz><|.sat>.f32.<f16|bf16|f16x2> %r0, @z1, %r2;",
    "fma<|.rn|.rz><|.ftz><|.sat>.f32.<f16|bf16> %r0, @z1, @z2, %r3;",
    // Integers.
    "<add|sub><|.sat><|.cc>.<u16|s16|u32|s32|u64|s64|u16x2|s16x2|b32> @z0, @z1, @z2;",
    "<div|rem><|.sat|.lo>.<u16|s16|u32|s32|u64|s64|b32> @z0, @z1, @z2;",
    "<min|max><|.relu>.<u16|s16|u32|s32|u64|s64|u16x2|s16x2|b32> @z0, @z1, @z2;",
    "mul<|.lo|.hi><|.sat>.<u16|s16|u32|s32|u64|s64|b32> @z0, @z1, @z2;",
    "mul.wide.<u16|s16> %r0, @z1, @z2;",
    "mul.wide.<u32|s32> %rd0, @z1, @z2;",
    "mad<|.lo|.hi><|.sat><|.cc>.<u16|s16|u32|s32|u64|s64> @z0, @z1, @z2, @z3;",
    "mad.wide<|.sat|.cc>.<u32|s32> %rd0, @z1, @z2, %rd3;",
    "<addc|subc><|.cc><|.sat>.<u16|u32|s32|u64|s64|b32> @z0, @z1, @z2;",
    "madc<|.lo|.hi><|.cc><|.sat>.<u32|s32|u64|s64> @z0, @z1, @z2, @z3;",
    "<abs|neg><|.sat>.<u16|s16|u32|s32|u64|s64|b32> @z0, @z1;",
    "sad<|.lo>.<u16|s16|u32|s32|u64|s64|b32> @z0, @z1, @z2, @z3;",
    "mul24<|.lo|.hi|.wide>.<u32|s32|u16|u64> @z0, @z1, @z2;",
    "mad24<|.lo|.hi><|.sat>.<u32|s32|u16> @z0, @z1, @z2, @z3;",
    "dp4a.<u32|s32|b32>.<u32|s32> %r0, %r1, %r2, %r3;",
    "dp2a<|.lo|.hi>.<u32|s32>.<u32|s32> %r0, %r1, %r2, %r3;",
    "vabsdiff<2|4>.<u32|s32|b32|u64>.<u32|s32>.<u32|s32|b32><|.sat><|.add> %r0, %r1, %r2, %r3;",
    "vabsdiff<2|4>.<u32|s32>.u32 %r0, %r1, %r2, %r3;",
    "vabsdiff<2|4>.u32.u32.u32 %r0, %r1, %r2;",
    // Bits.
    "<and|or|xor>.<b16|b32|b64|u16|u32|s32|u64|pred|b128|f32> @z0, @z1, @z2;",
    "<not|cnot>.<b16|b32|b64|u32|s64|pred> @z0, @z1;",
    "<popc|clz>.<b16|b32|b64|u32|s32> %r0, @z1;",
    "brev.<b16|b32|b64|u32> @z0, @z1;",
    "<shl|shr>.<b16|b32|b64|u16|u32|u64|s16|s32|s64> @z0, @z1, %r2;",
    "shf<|.l|.r><|.clamp|.wrap>.<b32|u32> %r0, %r1, %r2, %r3;",
    "lop3<|.xx>.<b32|u32> %r0, %r1, %r2, %r3, 0x12;",
    "lop3<|.or|.and|.xor>.b32 %r0|%p0, %r1, %r2, %r3, 0x12, %p1;",
    "lop3<|.or|.and>.b32 <%r0|_|%r0@|%p0|%r0@|_>, %r1, %r2, %r3, 0x12<|, %p1>;",
    "prmt.<b32|u32><|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16|.rc32> %r0, %r1, %r2, %r3;",
    "bfe.<b32|u32|s32|u64|s64|u16> @z0, @z1, %r2, %r3;",
    "bfi.<b32|b64|u32> @z0, @z1, @z2, %r3, %r4;",
    "bfind<|.shiftamt>.<b32|u32|s32|u64|s64|u16> %r0, @z1;",
    "fns.<b32|u32> %r0, %r1, %r2, %r3;",
    "<szext|bmsk><|.clamp|.wrap>.<b32|u32|s32> %r0, %r1, %r2;",
    // Comparisons.
    "setp<|.eq|.ne|.lt|.lo|.hs|.equ|.ltu|.num><|.ftz>.<b16|b32|b64|u16|u32|u64|s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64|b8> \
     %p0, @z1, @z2;",
    "setp.<eq|lt><|.and|.or|.xor|.not>.<b32|u32|f32> %p0|%p1, @z1, @z2, !%p2;",
    "set<.eq|.lt|.hi|.nan><|.ftz>.<u32|s32|f32|u16|s16|f16|bf16|f16x2|bf16x2|u64|b32>.<b32|u32|s64|f16|bf16|f16x2|bf16x2|f32|f64> \
     @a0, @z1, @z2;",
    "setp.<eq|lt><|.and>.<f16|f16x2|bf16|bf16x2|f32|u16> %p0|%p1, @z1, @z2<|, !%p2>;",
    "selp.<b16|b32|b64|u16|s32|u64|f32|f64|f16|pred> @z0, @z1, @z2, %p0;",
    "slct<|.ftz>.<b16|b32|u64|s32|f32|f64|f16>.<s32|f32|u32> @a0, @a1, @a2, %r4;",
    // Conversions.
    "cvt<|.rn|.rz|.rp|.rna|.rni|.rmi><|.ftz><|.sat>.<u8|s8|u16|s32|u64|f16|bf16|f32|f64>.<u8|s8|s16|u32|s64|f16|bf16|f32|f64> \
     @a0, @z1;",
    "cvt<|.rn|.rz|.rm|.rna|.rs><|.ftz|.sat><|.relu><|.satfinite>.<f16|bf16|tf32>.<f32|f16|f64> @a0, @z1;",
    "cvt<|.rn|.rz|.rp|.rs><|.relu><|.satfinite|.ftz|.sat>.<f16x2|bf16x2|e4m3x2|e5m2x2|e2m3x2|e3m2x2|ue8m0x2|s2f6x2|e2m1x2>.f32 \
     @a0, %r1, %r2;",
    "cvt<|.rn|.rs><|.relu><|.satfinite>.<f16x2|bf16x2|e4m3x2>.f32 @a0, %r1, %r2, %r3;",
    "cvt<|.rn|.rs><|.relu><|.satfinite>.<e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4>.f32 @a0, {%r1, %r2, %r3, %r4}, %r5;",
    "cvt<|.rn|.rz|.rp><|.relu><|.satfinite>.<e4m3x2|e5m2x2|e2m3x2|e3m2x2|ue8m0x2|s2f6x2|e2m1x2>.<f16x2|bf16x2> @a0, @z1;",
    "cvt<|.rn|.rz><|.relu><|.satfinite>.<f16x2|bf16x2>.<e4m3x2|e5m2x2|e2m3x2|e3m2x2|ue8m0x2|s2f6x2|e2m1x2> @a0, @z1;",
    "cvt.rn<|.relu><|.satfinite>.scaled::n2::ue8m0.<f16x2|bf16x2>.<e4m3x2|e2m3x2|ue8m0x2|s2f6x2|e2m1x2> @a0, @z1, %h3;",
    "cvt.rn.satfinite.scaled::n2::ue8m0.<e4m3x2|s2f6x2>.<bf16x2|f16x2> @a0, @z1, %h3;",
    "cvt.rn.satfinite.scaled::n2::ue8m0.<e4m3x2|s2f6x2>.f32 @a0, %r1, %r2, %h3;",
    "cvt.pack<|.sat>.<u16|s16|u8>.<s32|u32> %r0, %r1, %r2;",
    "cvt.pack<|.sat>.<u16|s16|u8|s8|u4|s4|u2|s2>.s32.b32 %r0, %r1, %r2, %r3;",
    // Memory.
    "ld<|.weak|.relaxed|.relaxed.gpu|.acquire.sys|.release.gpu|.volatile|.volatile.gpu><|.global|.shared|.local|.param|.const>\
     <|.ca|.cg|.cv|.wb|.nc>.<b32|f16> @z0, [%rd1];",
    "ld.global<|.ca|.cg|.cs|.lu|.cv|.wb|.wt>.<b8|b16|b32|b64|b128|u8|s16|u32|f32|f64|pred|f16x2|tf32> @z0, [%rd1];",
    "ld.global<.v2|.v3|.v4|.v8>.<b16|b32|b64> {@z0, @z1, @z2, @z3}, [%rd1];",
    "ld.global.v2.<b8|b16|f32|b64|b128> {@z0, @z1}, [%rd1];",
    "st<|.weak|.relaxed.cta|.release.gpu|.acquire.gpu|.volatile><|.global|.shared|.local|.const><|.wb|.cg|.cs|.wt|.ca|.nc>.b32 \
     [%rd1], %r0;",
    "st.global.<b8|b16|b32|b64|b128|u8|s16|u32|f32|f64|pred|f16> [%rd1], @z0;",
    "ldu<|.global|.shared>.<b32|f64|b128> @z0, [%rd1];",
    "<atom><|.relaxed.gpu|.acquire.cta|.acq_rel.sys|.weak|.volatile|.release|.gpu><|.global|.shared>.<add|exch>.<u32|b32|f32> \
     @z0, [%rd1], @z2;",
    "atom<|.global|.shared>.<and|or|xor|exch|add|inc|dec|min|max><|.noftz>.<b16|b32|b64|b128|u16|u32|u64|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64> \
     @z0, [%rd1], @z2;",
    "atom<|.global>.cas.<b16|b32|b64|b128|u16|u32|u64|s32|f32> @z0, [%rd1], @z2, @z3;",
    "red<|.global>.<and|or|xor|exch|add|inc|dec|min|max><|.noftz>.<b32|b64|b128|u32|u64|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64> \
     [%rd1], @z2;",
    "red<|.global>.cas.<b32|b64> [%rd1], @z2, @z3;",
    "ld<|.global|.shared|.local|.param|.const><|.nc><|.L1::evict_unchanged|.L1::evict_last|.L1::no_allocate|.L1::foo>\
     <|.L2::64B|.L2::128B|.L2::512B>.b32 %r0, [%rd1];",
    "ld<|.relaxed.gpu|.volatile|.acquire.sys|.weak|.mmio.relaxed.sys><|.global|.shared><|.L1::no_allocate|.L1::evict_last|.L2::128B>\
     .b32 %r0, [%rd1];",
    "ld<|.global|.shared>.L2::cache_hint.b32 %r0, [%rd1]<|, %rd2>;",
    "ld<|.relaxed.gpu|.mmio.relaxed.sys><|.global|.shared|.local|.param>.<v4.b64|v4.f64|v4.s64|v4.b32|v2.b64> \
     {@z0, @z1, @z2, @z3}, [%rd1];",
    "ld<|.relaxed.sys|.mmio.relaxed.sys><|.global|.local>.v2.<b32|u64|b16> {@z0, @z1}, [%rd1];",
    "ld<|.relaxed.sys|.mmio.relaxed.sys><|.global|.shared>.v8.<b8|b16|b32|f32|b64> {@z0, @z1, @z2, @z3, @z4, @z5, @z6, @z7}, [%rd1];",
    "st<|.relaxed.gpu|.volatile|.release.sys|.weak|.mmio.relaxed.sys><|.global|.shared|.local>\
     <|.L1::evict_first|.L1::evict_last|.L1::no_allocate|.L2::128B>.b32 [%rd1], %r0;",
    "st<|.global|.shared>.L2::cache_hint.b32 [%rd1], %r0<|, %rd2>;",
    "st<|.relaxed.gpu|.mmio.relaxed.sys><|.global|.shared|.local>.<v4.b64|v4.f64|v4.b32> [%rd1], {@z0, @z1, @z2, @z3};",
    "st<|.global|.local>.v8.<b8|b16|b32|s32|b64> [%rd1], {@z0, @z1, @z2, @z3, @z4, @z5, @z6, @z7};",
    "atom<|.global|.shared>.L2::cache_hint.add.u32 %r0, [%rd1], %r2<|, %rd3>;",
    "atom<|.global|.shared>.<add|min|and|exch|inc><|.noftz>.v2.<u32|b32|b64|f32|f16|bf16|f16x2|bf16x2|f64> \
     {@z0, @z1}, [%rd1], {@z2, @z3};",
    "atom.global.<add|max><|.noftz>.v4.<u32|b32|f32|f16|bf16x2> {@z0, @z1, @z2, @z3}, [%rd1], {@z0, @z1, @z2, @z3};",
    "red<|.global|.shared|.local>.<add|min|or><|.noftz>.v2.<u32|b32|f32|f16|bf16|f16x2> [%rd1], {@z2, @z3};",
    "red.global.add<|.noftz>.v8.<u32|f32|f16|bf16|f16x2> [%rd1], {@z0, @z1, @z2, @z3, @z4, @z5, @z6, @z7};",
    "atom.global.v2.add.f32 <%r0|_>, [%rd1], {%r2, %r3};",
    "cvta<|.to>.<global|shared|const|param|local>.<u64|b64|s64|f64> %rd0, %rd1;",
    "isspacep.<global|shared|shared::cta|local|const|param> %p0, <%r1|%rd1|%h1>;",
    "alloca.<u32|u64|b32|s64|f32> @z0, @z1;",
    "alloca.<u32|u64> @z0, @z1, <1|2|8|256|3|0|8388608|16777216>;",
    "alloca.u64 %rd0, 40;",
    "<stacksave|stackrestore>.<u32|u64|b64|s32> @z0;",
    // Synchronisation.
    "<bar|barrier><|.cta>.<sync|arrive><|.aligned> 1, 64;",
    "<bar|barrier><|.cta>.sync<|.aligned> 1;",
    "<bar|barrier>.red.<and|or|xor><|.aligned>.pred %p0, 1, %p1;",
    "<bar|barrier>.red.popc<|.aligned>.<u32|s32> %r0, 1, %p1;",
    "bar.warp<|.sync> -1;",
    "<bar|barrier>.<sync|arrive> 1, <0|16|33|64|1056>;",
    "bar.red.popc.u32 %r0, 1, <33|64>, %p1;",
    "membar.<cta|gl|sys|gpu|cluster>;",
    "fence.proxy<|.alias|.async|.tensormap><|.cta|.gpu|.sys|.cluster>;",
    "fence.proxy.async.<global|shared|shared::cta|shared::cluster|local>;",
    "fence.proxy.async::generic<|.acquire|.release><|.sync_restrict::shared::cta|.sync_restrict::shared::cluster><|.cluster|.gpu>;",
    "fence.proxy.tensormap::generic<|.acquire|.release><|.cta|.gpu|.sys><| [%rd1], 128| [%rd1], 64>;",
    "fence.mbarrier_init<|.release|.acquire><|.cta|.cluster|.gpu>;",
    "fence<|.acquire|.release|.acq_rel><|.sync_restrict::shared::cta|.sync_restrict::shared::cluster><|.cluster|.gpu>;",
    "fence<|.sc|.acq_rel|.acquire|.release|.relaxed><|.cta|.gpu|.sys|.cluster|.gl>;",
    "<vote.sync|vote>.<all|any|uni|ballot>.pred %p0, %p1, -1;",
    "match<|.any|.all>.sync.<b32|b64> <%r0|_>|%p0, @z1, -1;",
    "vote.sync.all.b32 %p0, %p1, -1;",
    "vote.sync.<ballot|all>.b32 %r0, %p1, -1;",
    "shfl<|.sync>.<up|down|bfly|idx|xor>.<b32|u32|b64> %r0, %r1, 1, 31, -1;",
    "match<|.any|.all>.sync.<b32|b64|u32> %r0, @z1, -1;",
    "redux.sync.<add|min|max|and|or|xor>.<u32|s32|b32|f32> %r0, %r1, -1;",
    "redux.sync.<min|max|add><|.abs><|.NaN>.f32 %r0, %r1, -1;",
    "mbarrier.<init|inval|arrive>.shared<|::cta>.<b64|b32> [tile], 1;",
    "mbarrier.<inval|test_wait><|.shared>.b64 [%rd1];",
    "mbarrier.arrive<|_drop><|.expect_tx><|.noComplete><|.release.cta|.release|.acquire.cta|.relaxed.cta><|.shared>.b64 %rd0, [%rd1], 1;",
    "mbarrier.arrive<|_drop><|.expect_tx><|.shared>.b64 %rd0, [%rd1];",
    "mbarrier.<test_wait|try_wait><|.acquire.cta|.relaxed.cta|.release.cta|.acquire><|.shared>.b64 %p0, [%rd1], %rd2;",
    "mbarrier.<test_wait|try_wait>.parity<|.shared>.b64 %p0, [%rd1], %r2;",
    "mbarrier.pending_count<|.shared>.b64 %r0, %rd1;",
    "mbarrier.<expect_tx|complete_tx><|.relaxed.cta|.release.cta><|.shared>.b64 [%rd1], 16;",
    "cp.async<|.ca|.cg>.shared.global<|.L2::64B|.L2::128B|.L2::32B> [%r1], [%rd1], <4|8|16|32>;",
    "cp.async.<commit_group|wait_all|wait_group>;",
    // Textures and surfaces.
    "tex<|.base>.1d.v4.<u32|s32|f32|f16|f64|b32>.<f32|s32|u32> {@a0, @a1, @a2, @a3}, [%rd1, {%r4}];",
    "tex.1d.v4.<f32|u32>.<f32|s32> {%r0, %r1, %r2, %r3}, [%rd1, <%r4|{%r4, %r5}>];",
    "tex<|.base>.<2d|a1d>.v4.<f32|s32>.<f32|s32> {%r0, %r1, %r2, %r3}, [%rd1, <{%r4, %r5}|{%r4}|{%r4, %r5, %r6, %r7}>];",
    "tex.<3d|a2d>.v4.<f32|u32>.<f32|s32> {%r0, %r1, %r2, %r3}, [%rd1, <{%r4, %r5, %r6, %r7}|{%r4, %r5}>];",
    "tex.2d<|.v2>.<f16x2|f32|f16|u32>.f32 {@a0, @a1}, [%rd1, {%r4, %r5}];",
    "tex.level.2d.v4.f32.<f32|s32> {%r0, %r1, %r2, %r3}, [%rd1, {%r4, %r5}]<|, %r6>;",
    "tex.level.3d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd1, {%r4, %r5, %r6, %r7}], <%r6|{%r6}>;",
    "tex.grad.<1d|2d|3d>.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd1, <{%r4}|{%r4, %r5}|{%r4, %r5, %r6, %r7}>], \
     <{%r4}, {%r4}|{%r4, %r5}, {%r4, %r5}|{%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}>;",
    "tex.2d.v4.f32.<f32|s32> {%r0, %r1, %r2, %r3}<|@|%p0>, [%rd1, {%r4, %r5}]<|, {%r6, %r7}|, {1, -2}>;",
    "tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd1, {%f1}], <{%r6}|{1, 2}>;",
    "tex.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd1, {%r4, %f1, %f2, %f2}]<|, {%r6, %r7}|, {%r6, %r7, %r8, %r9}>;",
    "tex.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, {%f1, %f2, %f3, %f3}], {1, 2, 3, 0};",
    "tex.2d.v4.<f32|s32|u32>.<f32|s32> {%<f|s|u>0, %r1, %r2, %r3}, [%rd1, {%<f|s|u>1, %r5}];",
    "tld4<|.r|.g|.b|.a>.<2d|1d>.v4.<f32|u32|s32>.<f32|s32> {%r0, %r1, %r2, %r3}, [%rd1, {%r4, %r5}];",
    "tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}<|@|%p0>, [%rd1, {%r4, %r5}]<|, {%r6, %r7}>;",
    "tld4.r.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%rd1, {%r4, %r5, %r6, %r7}];",
    "txq.<width|height|depth|array_size|num_mipmap_levels|num_samples|normalized_coords>.<b32|u32> %r0, [%rd1];",
    "txq.level.<width|height|depth>.b32 %r0, [%rd1]<|, %r2>;",
    "suq.<width|height|depth|array_size|num_samples>.<b32|u32> %r0, [%rd1];",
    "suld<|.b>.<1d|a1d>.<b8|b16|b32|b64|u32|f32>.<trap|clamp|zero> @z0, [%rd1, <{%r4}|{%r4, %r5}>];",
    "suld.b.1d.b32.<trap|zero> %r0, [%rd1, %r4];",
    "suld.b.2d<|.ca|.cg|.cs|.cv|.wb>.<b32|b64><|.trap|.clamp|.zero> @z0, [%rd1, {%r4, %r5}];",
    "suld.b.<3d|a2d>.v2.<b8|b16|b32|b64>.trap {@z0, @z1}, [%rd1, {%r4, %r5, %r6, %r7}];",
    "suld.b.2d.v4.<b8|b16|b32|b64>.zero {@z0, @z1, @z2, @z3}, [%rd1, {%r4, %r5}];",
    "sust<|.b>.<1d|a1d>.<b8|b16|b32|b64|u32|f32>.<trap|clamp|zero> [%rd1, <{%r4}|{%r4, %r5}>], @z0;",
    "sust.b.2d<|.wb|.cg|.cs|.wt|.ca>.<b32|b64><|.trap|.clamp|.zero> [%rd1, {%r4, %r5}], @z0;",
    "sust.b.<3d|a2d>.v2.<b8|b16|b32|b64>.clamp [%rd1, {%r4, %r5, %r6, %r7}], {@z0, @z1};",
    "sust.b.2d.v4.<b8|b16|b32|b64>.zero [%rd1, {%r4, %r5}], {@z0, @z1, @z2, @z3};",
    "sured.b.<add|min|max|and|or>.<1d|2d>.<u32|s32|b32|u64|s64|b64>.<trap|clamp|zero> [%rd1, <{%r4}|{%r4, %r5}>], @z0;",
    // Products of matrices.
    "mma.sync.aligned.<m16n8k8|m16n8k16|m8n8k16>.<row|col>.col<|.satfinite>.<f32|f16>.<f16|bf16|e4m3>.<f16|bf16>.<f32|f16> \
     {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
    "mma.sync.aligned.<m16n8k32|m16n8k64|m16n8k16>.row.col<|.satfinite>.s32.<s8|u4|u8>.<u8|s4>.s32 \
     {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
    "mma.sync.aligned.<m8n8k128|m16n8k128>.row.col<|.satfinite>.s32.b1.b1.s32<|.and|.xor|.or><|.popc> {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};",
    "mma<|.sync><|.aligned>.m16n8k256.row.col.s32.b1.b1.s32.xor.popc \
     {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};",
    "mma.sync.aligned.<m8n8k4|m16n8k8>.row.col<|.rz>.f64.f64.f64.f64 {%rd0, %rd1}, {%rd2}, {%rd3}, {%rd4, %rd5};",
    "mma.sync.aligned.m8n8k4.<row|col>.<row|col><|.satfinite>.<f16|f32|bf16>.f16.<f16|bf16>.<f16|f32> \
     {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r8, %r9, %r10, %r11};",
    "mma.sync.aligned.m8n8k4.<row|col>.<row|col>.<f16|f32>.f16.f16.<f16|f32> \
     {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r4, %r5}, {%r6, %r7}, {%r8, %r9, %r10, %r11};",
    "mma.sync.aligned.m8n8k4.<row|col>.<row|col>.<f16|f32>.f16.f16.<f16|f32> \
     {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};",
    "<ldmatrix><|.sync><|.aligned>.m8n8.<x1|x2|x4><|.trans>.shared.<b16|b8|b32> {%r0, %r1}, [%rd1];",
    // 128 bits.
    "mov.<b128|b64|u64|b32> %q0, %q1;",
    "mov.<b8|b16|b32|b64|u8|u16|u32|u64|s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64|f32x2|u16x2|s16x2|tf32|e4m3x2|e2m1x4|pred> @z0, @z1;",
    "mov.v2.<b8|b16|u16|b32|f32|b64|f64|f16x2|pred|b128> {@z0, @z1}, {@z1, @z2};",
    "mov.v4.<b16|s32|f32|b64> {@z0, @z1, @z2, @z3}, {@z3, @z2, _, @z0};",
    "mov.v2.<b32|u64> {@z0, _}, <{1, 2}|{1, 2, 3}|5|@z1>;",
    "mov.<v2|v4>.<u16|u32|s32|f32|u64> {@z0, @z1, @z2, @z3}, %tid;",
    "mov.<u16|b16|u32|s32|u64|f32> @z0, %<tid|ntid|ctaid|nctaid>.<x|y|z|w>;",
    "mov.<u16|u32|u64> @z0, %<laneid|smid|clock|clock64|gridid|globaltimer|lanemask_lt>;",
    "cvt.<u16|u32|u64|s32>.<u16|u32|s8> @a0, %<tid.x|laneid>;",
    "<add.u32|and.b32|shl.b32|setp.eq.u32> %r0, %<tid.x|laneid>, 1;",
    "mov.<b32|u32|f32|f64|b64|u64|b16> @z0, <0f3f800000|0d3ff0000000000000|1.5|.5|2.|1|-0f3f800000|1.0+2.0|(0f3f800000)>;",
    "<add|and|xor>.<u32|b32|f32|u64|b64|f64> @z0, @z1, <0f3f800000|0d3ff0000000000000|1.5|1>;",
    "<add|fma.rn>.<f16|f16x2> @z0, @z1, 1.5;",
    "mov.u32 %r0, <-7/2|8 % 3|1 ? 7 : 9|WARP_SZ*2|5 == 5|1 && 0|~0|!1|089|0b12|1.5 == 2.5|1 + 1.5|5/0|(.s64)-1|(.u32)1|0x1U|5u>;",
    "ld.global.u32 %r0, [%rd1+<4|1+2|8*2|WARP_SZ|(1)>];",
    ".pragma \"a\", \"b\";",
    "mov.b128 %q0, {<%rd0|%r0>, <%rd1|%r1>};",
    // Registers of other types than the instruction's.
    "<add.u32|add.f32|add.f16x2|mov.u32|mov.f32|and.b32|min.s32|copysign.f32> %r0, %<f|u|s|fx>1, %r2;",
    "<mov.u32|mov.f32|mov.b32|abs.s32|neg.f32|ex2.approx.f32|not.b32|brev.b32> %<f|u|s|fx>0, %r1;",
    "<popc|clz>.b32 %<f|u|s>0, %r1;",
    "<mov.u32|mov.f32|mov.b32|popc.b32|clz.b32|abs.s32|neg.f32|ex2.approx.f32|not.b32|brev.b32> %r0, %<f|u|s|fx>1;",
    "<add|mul.lo|min|fma.rn|mov|and|abs|not|neg>.<u64|f64|b64> <%fd|%ud|%sd|%rd>0, %rd1, %rd2;",
    "<add|sub|min>.<u16|s16|f16|bf16> <%fh|%uh|%sh|%h>0, %h1, <%fh|%uh|%h>2;",
    "fma.rn.<f16|f32|f64> @z0, @z1, @z2, <%fh|%uh|%f|%u|%fd|%ud>3;",
    "<setp.lt.f32|setp.lt.u32|setp.eq.b32|setp.lt.and.s32> %p0, %r1, %<f|u|s>2;",
    "setp.lt.and.f32 %p0, %<f|u|s>1, %r2, %p1;",
    "set.eq.<u32|f32|s32>.<f32|u32> %<f|u|s|r>0, %<f|u|s>1, %r2;",
    "selp.<b32|f32|u32> %<f|u>0, %<f|u>1, %r2, %p0;",
    "slct.<b32|f32|u32>.<f32|s32> %<f|u|r>0, %r1, %r2, %<f|u|s|r>3;",
    "<shl|shr>.<b32|u32> %<f|u|r>0, %r1, %<f|u>2;",
    "<bfe.u32|bfi.b32|prmt.b32|shf.l.clamp.b32|dp4a.u32.u32|mad.lo.u32|sad.s32> %r0, %<f|u>1, %r2, %<f|s|r>3;",
    "<bfe.u32|bfi.b32|prmt.b32|shf.l.clamp.b32|dp4a.u32.u32|mad.lo.u32|sad.s32> %<f|u>0, %r1, %r2, %r3;",
    "lop3.b32 %<f|u>0, %f1, %u2, %r3, 3;",
    "mul.wide.<u32|s32> %<fd|ud|sd>0, %r0, %<f|u|s>1;",
    "shfl.sync.idx.b32 %<f|u>0, %<f|u>1, %<f|u>2, 31, -1;",
    "<match.any.sync.b32|redux.sync.add.u32> %<f|u>0, %<f|u>1, -1;",
    "vote.sync.ballot.b32 %<f|u>0, %p0, -1;",
    "atom.global.<add|exch|min>.<f32|u32|b32> %<f|u>0, [%rd0], %<f|u>1;",
    "red.global.add.<f32|u32> [%rd0], %<f|u|s>1;",
    "cvt.rn.<f32|f16|f64>.<u32|s32> @a0, %<tid.x|laneid>;",
    "mov.<u16|u32> @z0, %<clusterid|nclusterid|cluster_ctaid|cluster_nctaid>.<x|w>;",
];

/// Each alternative of a form.
fn alternatives(form: &str) -> Vec<String> {
    let Some(start) = form.find('<') else { return vec![form.to_owned()] };
    let end = start + form[start..].find('>').expect("alternatives end");
    let (head, tail) = (&form[..start], &form[end + 1..]);
    // An alternative that has a bar itself has it as `@|`.
    let choices = form[start + 1..end].replace("@|", "\0");
    choices
        .split('|')
        .map(|each| each.replace('\0', "|"))
        .flat_map(|each| alternatives(&format!("{head}{each}{tail}")))
        .collect()
}

/// Registers in place of what stands for them.
fn filled(line: &str) -> String {
    let (name, operands) = line.split_once(' ').unwrap_or((line, ""));
    let converts_to_bits = name.starts_with("cvt");
    let register = |ty: &str| match REGISTERS.iter().find(|(_, types)| types.split(' ').any(|each| each == ty)) {
        Some((_, _)) if converts_to_bits && matches!(ty, "u8" | "s8") => "h",
        Some((register, _)) => *register,
        None => "r",
    };
    let types: Vec<&str> = name
        .trim_end_matches(';')
        .split('.')
        .filter(|part| REGISTERS.iter().any(|(_, types)| types.split(' ').any(|each| each == *part)))
        .collect();
    let mut operands = operands.to_owned();
    for (mark, ty) in [("@a", types.first()), ("@z", types.last())] {
        operands = operands.replace(mark, &format!("%{}", ty.map_or("r", |ty| register(ty))));
    }
    format!("{name} {operands}").trim_end().to_owned()
}

/// The lines that ptxas refuses.
fn refused_by(ptxas: &Path, lines: &[String]) -> Option<HashSet<usize>> {
    let folder = std::env::temp_dir().join(format!("polyloom-legality-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut refused: HashSet<usize> = HashSet::new();
    // Where a line is no PTX at all, ptxas stops; it is asked again without that line.
    loop {
        let kept = lines.iter().enumerate().map(|(index, line)| if refused.contains(&index) { "" } else { line });
        let text = format!("{HEAD}{}\nret;\n}}\n", kept.collect::<Vec<_>>().join("\n"));
        let source = folder.join("lines.ptx");
        std::fs::write(&source, text).expect("it is written");
        let mut command = Command::new(ptxas);
        let output = command.arg("-arch=sm_100a").arg("-o").arg(folder.join("lines.cubin")).arg(source).output();
        let output = output.expect("ptxas runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let first = HEAD.matches('\n').count() + 1;
        let mut fatal = false;
        for message in said.lines() {
            // Not lines of what an instruction is expanded to.
            let Some((_, rest)) = message.split_once("lines.ptx, line ") else { continue };
            let Some((number, what)) = rest.split_once(';') else { continue };
            let what = what.trim_start();
            if !(what.starts_with("error") || what.starts_with("fatal")) {
                continue;
            }
            assert!(!what.contains("Unsupported .version"), "this ptxas is too old: {message}");
            let number: usize = number.trim().parse().expect("a line");
            fatal |= what.starts_with("fatal") && (first..first + lines.len()).contains(&number);
            refused.extend(number.checked_sub(first).filter(|index| *index < lines.len()));
        }
        if !fatal {
            std::fs::remove_dir_all(&folder).expect("it is ours");
            return Some(refused);
        }
    }
}

fn taken_by_simulator(line: &str) -> bool {
    let Ok(module) = Module::parse(&format!("{HEAD}{line}\nret;\n}}\n")) else { return false };
    Simulator::default().load(&module).is_ok_and(|loaded| loaded.kernel("k").is_ok())
}

/// Returns what ptxas takes and the ISA manual does not have; the simulator keeps to the manual.
fn beyond_the_manual(line: &str) -> Option<&'static str> {
    let name = line.split(' ').next().unwrap_or_default();
    let parts: Vec<&str> = name.split('.').collect();
    let has = |part: &str| parts.contains(&part);
    match parts[0] {
        "fma" if has("rm") => Some("halves are rounded to the nearest alone (§9.7.4.4)"),
        "rcp" if has("ftz") && has("f64") => Some("`.ftz` of f64 goes with `.approx` alone (§9.7.3.13)"),
        "addc" | "subc" | "madc" if has("sat") || has("u16") => {
            Some("carries neither saturate nor have 16 bits (§9.7.2)")
        }
        "testp" if parts.len() == 2 => Some("the property is asked for by name (§9.7.3.1)"),
        _ => None,
    }
}

#[test]
fn ptxas_and_the_simulator_take_the_same() {
    let Some(ptxas) = ptxas() else { return };
    let lines: Vec<String> = FORMS.iter().flat_map(|form| alternatives(form)).map(|line| filled(&line)).collect();
    let Some(refused) = refused_by(&ptxas, &lines) else { return };
    let mut wrong = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let (ours, theirs) = (taken_by_simulator(line), !refused.contains(&index));
        if ours != theirs && (ours || beyond_the_manual(line).is_none()) {
            wrong.push(format!("{} {line}", if ours { "the simulator takes" } else { "ptxas takes" }));
        }
    }
    let taken = lines.len() - refused.len();
    assert!(wrong.is_empty(), "of {} lines, of which ptxas takes {taken}:\n{}", lines.len(), wrong.join("\n"));
    // Both sides are tried.
    assert!(taken > 800 && refused.len() > 800, "{taken} of {} lines are legal", lines.len());
}
