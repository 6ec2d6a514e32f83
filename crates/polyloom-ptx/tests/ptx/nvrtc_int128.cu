// Numbers of 128 bits are pairs of 64, the lower first.
typedef unsigned __int128 u128;

extern "C" __global__ void divide(const unsigned long long* a, const unsigned long long* b, unsigned long long* out) {
    int t = 2 * threadIdx.x;
    u128 x = (u128)a[t + 1] << 64 | a[t], y = (u128)b[t + 1] << 64 | b[t];
    u128 quotient = x / y, remainder = x % y;
    out[2 * t] = (unsigned long long)quotient;
    out[2 * t + 1] = (unsigned long long)(quotient >> 64);
    out[2 * t + 2] = (unsigned long long)remainder;
    out[2 * t + 3] = (unsigned long long)(remainder >> 64);
}
