//! Decides how wide the vectors are that code for the host uses.

/// Returns the bytes of the widest vector register that code should use, of a processor of which this tells whether it
/// has a feature, by the names that LLVM's `target-features` has.
///
/// 64 needs all of AVX-512 that the LLVM back end asks for, because half of it would leave masks and 64-bit products to
/// sequences of other instructions.
pub fn vector_bytes(has_feature: impl Fn(&str) -> bool) -> u32 {
    match () {
        () if ["avx512f", "avx512vl", "avx512dq", "avx512bw"].into_iter().all(&has_feature) => 64,
        () if has_feature("avx2") => 32,
        () => 16,
    }
}
