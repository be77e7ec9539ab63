/* clique_load.c: how many bytes those alive at one time need.
 *
 * Idea: offsets are multiples of the least alignment, so all but the highest buffer fill up whole
 * multiples of it. Which is the highest isn't known; the bound takes the one whose last multiple is
 * the least full.
 *
 *     |#####...|######..|########|#        alignment 8: 8 + 8 + 8 + 1, the slack of 7 is on top
 *
 * Slacks are below the alignment. Up to 64 they have a counter each, so that the largest is one
 * look at a bit set; above, a counter stands for a 64th of the alignment, and its largest slack
 * counts.
 * Invariant: rounded - plain = the sum of slacks; slots has the bits of the counters that aren't 0.
 * Cost: 300 bytes; O(1) for each change. */
#include "place/greedy/clique_load.h"

#include "base/checked.h"

static int64_t round_up(int64_t bytes, int64_t alignment) {
    return (bytes + alignment - 1) & -alignment;
}

/* Do all sizes, rounded, fit a number? */
static bool sums_fit(const mnem_place_buffer *buffers, size_t n, uint64_t alignment) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        if (!mnem__align_u64(buffers[i].bytes, alignment, &bytes) ||
            !mnem__add_u64(sum, bytes, &sum) || sum > INT64_MAX)
            return false;
    }
    return true;
}

void mnem__load_init(mnem__load *load, const mnem_place_buffer *buffers, size_t n) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint64_t alignment = buffers[i].alignment ? buffers[i].alignment : 64;
        if (buffers[i].bytes > 0 && alignment < least) least = alignment;
    }
    if (least > INT64_MAX || !sums_fit(buffers, n, least)) least = 1;
    *load =
        (mnem__load){.alignment = (int64_t)least, .unit = least > 64 ? (int64_t)(least / 64) : 1};
}

void mnem__load_clear(mnem__load *load) {
    *load = (mnem__load){.alignment = load->alignment, .unit = load->unit};
}

void mnem__load_add(mnem__load *load, int64_t bytes) {
    const int64_t rounded = round_up(bytes, load->alignment);
    const int64_t slot = (rounded - bytes) / load->unit;
    load->plain += bytes;
    load->rounded += rounded;
    load->count[slot]++;
    load->slots |= UINT64_C(1) << slot;
}

void mnem__load_take(mnem__load *load, int64_t bytes) {
    const int64_t rounded = round_up(bytes, load->alignment);
    const int64_t slot = (rounded - bytes) / load->unit;
    load->plain -= bytes;
    load->rounded -= rounded;
    if (--load->count[slot] == 0) load->slots &= ~(UINT64_C(1) << slot);
}

int64_t mnem__load_need(const mnem__load *load) {
    if (load->slots == 0) return 0;
    const int64_t slot = 63 - __builtin_clzll(load->slots);
    const int64_t need = load->rounded - (slot * load->unit + load->unit - 1);
    return need > load->plain ? need : load->plain;
}
