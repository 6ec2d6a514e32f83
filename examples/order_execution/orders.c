/* The path of an order as in orders.py, the way one writes it in C: pointers that do not overlap, and lengths.

       cc -O3 -march=native -ffp-contract=off -shared -fPIC -o orders.so orders.c -lm

   For each function there is an entry that takes Polyloom's block of arguments (NAME_block), by which `polyloom latency
   --against orders.so` calls both in the same way. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { MOST_SHARES, MOST_NOTIONAL, MOST_POSITION, REFERENCE, COLLAR };

int32_t check_risk(int32_t price, int32_t quantity, int32_t side, int32_t position, const int64_t *restrict limits,
                   int32_t *restrict verdict) {
    int64_t shares = quantity, notional = shares * price, after = position + side * shares;
    int64_t away = llabs(price - limits[REFERENCE]);
    int32_t broken = 0;
    if (away > limits[COLLAR]) broken = COLLAR + 1;
    if (llabs(after) > limits[MOST_POSITION]) broken = MOST_POSITION + 1;
    if (notional > limits[MOST_NOTIONAL]) broken = MOST_NOTIONAL + 1;
    if (quantity <= 0 || shares > limits[MOST_SHARES]) broken = MOST_SHARES + 1;
    verdict[0] = broken;
    return 0;
}

int32_t evaluate_signal(const float *restrict features, const float *restrict weights, float *restrict means,
                        float *restrict signal, int64_t n) {
    float score = 0.0f;
    for (int64_t k = 0; k < n; k++) {
        float mean = means[k] + 0.05f * (features[k] - means[k]);
        means[k] = mean;
        score += weights[k] * (features[k] - mean);
    }
    signal[0] = tanhf(score);
    signal[1] = 1.0f / (1.0f + expf(-score));
    return 0;
}

static uint64_t mixed(uint64_t hash, uint64_t word) { return (hash ^ word) * 1099511628211u; }

int32_t submit_order(int32_t price, int32_t quantity, int32_t side, int32_t *restrict level_prices,
                     int32_t *restrict level_sizes, int32_t n_levels, int64_t *restrict ring, int64_t n_slots,
                     int64_t *restrict state) {
    int32_t at = 0;
    for (int32_t k = 0; k < n_levels; k++)
        if (level_sizes[k] > 0 && side * (level_prices[k] - price) > 0) at++;
    if (at < n_levels) {
        if (level_sizes[at] == 0 || level_prices[at] != price) {
            for (int32_t k = n_levels - 1; k > at; k--) {
                level_prices[k] = level_prices[k - 1];
                level_sizes[k] = level_sizes[k - 1];
            }
            level_prices[at] = price;
            level_sizes[at] = 0;
        }
        level_sizes[at] += quantity;
    }
    int64_t sequence = state[0];
    int64_t *message = ring + 8 * (sequence % n_slots);
    message[0] = sequence;
    message[1] = price;
    message[2] = quantity;
    message[3] = side;
    message[4] = at;
    message[5] = state[1];
    message[6] = sequence ^ state[2];
    uint64_t hash = 1469598103934665603u;
    for (int word = 0; word < 7; word++) hash = mixed(hash, (uint64_t)message[word]);
    message[7] = (int64_t)hash;
    state[0] = sequence + 1;
    state[1] += quantity;
    state[2] = (int64_t)hash;
    return 0;
}

int32_t update_position(int32_t instrument, int32_t price, int32_t quantity, int32_t *restrict positions,
                        int64_t *restrict costs, int64_t *restrict realised, int64_t *restrict exposure, int32_t n) {
    int32_t held = positions[instrument];
    int64_t cost = costs[instrument];
    if (held == 0 || (held > 0) == (quantity > 0)) {
        costs[instrument] = cost + (int64_t)quantity * price;
    } else {
        int32_t closed = abs(held) < abs(quantity) ? abs(held) : abs(quantity);
        int64_t share = cost * closed / abs(held), side = held < 0 ? -1 : 1;
        realised[instrument] += side * closed * price - share;
        costs[instrument] = cost - share - side * (abs(quantity) - closed) * price;
    }
    positions[instrument] = held + quantity;
    int64_t total = 0;
    for (int32_t k = 0; k < n; k++) total += llabs(costs[k]);
    exposure[0] = total;
    return 0;
}

/* The block: 8 bytes for a scalar; for an array its address, its extents and its strides in bytes. */

static int32_t number(const int64_t *word) { return (int32_t)*word; }
static void *address(const int64_t *word) { return (void *)(intptr_t)*word; }

int32_t check_risk_block(const int64_t *a, const int64_t *extents) {
    (void)extents;
    return check_risk(number(a), number(a + 1), number(a + 2), number(a + 3), address(a + 4), address(a + 7));
}

int32_t evaluate_signal_block(const int64_t *a, const int64_t *extents) {
    (void)extents;
    return evaluate_signal(address(a), address(a + 3), address(a + 6), address(a + 9), a[1]);
}

int32_t submit_order_block(const int64_t *a, const int64_t *extents) {
    (void)extents;
    return submit_order(number(a), number(a + 1), number(a + 2), address(a + 3), address(a + 6), number(a + 4),
                        address(a + 9), a[10], address(a + 14));
}

int32_t update_position_block(const int64_t *a, const int64_t *extents) {
    (void)extents;
    return update_position(number(a), number(a + 1), number(a + 2), address(a + 3), address(a + 6), address(a + 9),
                           address(a + 12), number(a + 4));
}
