/* split.c: a chain of layers cut into parts so that the fullest device has the most memory left.
 *
 * Idea: given a room that every device must keep, filling the devices one after another with as
 * many layers as they hold finds a cut if there is one: whatever another cut gives to the first
 * devices, this one gives them as much or more. More room is never easier, so bisection finds the
 * most, exactly. The greedy cut fills the first devices first; moving layers to emptier neighbours
 * evens it out.
 *
 *     room 10:  [A A A A|..........] [B B|....................] [ |                    ]
 *     evened:   [A A|..............] [B B|....................] [C C|                  ]
 *
 * A room below zero is what every device is short of: the same bisection.
 * Invariant: bytes_used is fixed_bytes and the bytes of the device's layers, 0 without layers.
 * Cost: a probe is O(layers + devices), about 63 of them; no heap. */
#include "plan/split.h"
#include "base/error.h"

enum { NUMBER_BITS = 62 };
static const uint64_t number_most = (uint64_t)1 << NUMBER_BITS;

typedef struct chain {
    const uint64_t *bytes;
    size_t layers;
    mnem__split_device *devices;
    size_t device_count;
} chain;

/* Fills the devices in turn, each up to capacity - room; true when all layers are placed. */
static bool fill_devices(const chain *c, int64_t room) {
    size_t next = 0;
    for (size_t i = 0; i < c->device_count; i++) {
        mnem__split_device *d = &c->devices[i];
        const int64_t limit = (int64_t)d->capacity_bytes - room;
        uint64_t used = d->fixed_bytes;
        d->layer_begin = next;
        while (next < c->layers && (int64_t)(used + c->bytes[next]) <= limit)
            used += c->bytes[next++];
        d->layers = next - d->layer_begin;
        d->bytes_used = d->layers ? used : 0;
    }
    return next == c->layers;
}

/* The most room with which fill succeeds; fill(low) does, fill(high) doesn't. */
static int64_t most_room(const chain *c, int64_t low, int64_t high) {
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fill_devices(c, middle))
            low = middle;
        else
            high = middle;
    }
    fill_devices(c, low);
    return low;
}

/* ---- evening out ---- */

static int64_t room_with(const mnem__split_device *d, uint64_t used) {
    return (int64_t)d->capacity_bytes - (int64_t)used;
}

/* What d uses with this layer more or less. */
static uint64_t used_after(const mnem__split_device *d, uint64_t bytes, bool more) {
    if (more) return (d->layers ? d->bytes_used : d->fixed_bytes) + bytes;
    return d->layers > 1 ? d->bytes_used - bytes : 0;
}

/* Gives one layer from `from` to its neighbour, if the fuller of the two has more room then. */
static bool give_layer(const chain *c, mnem__split_device *from, mnem__split_device *to) {
    if (from->layers == 0) return false;
    const bool up = to > from;
    const size_t layer = up ? from->layer_begin + from->layers - 1 : from->layer_begin;
    const uint64_t a = used_after(from, c->bytes[layer], false);
    const uint64_t b = used_after(to, c->bytes[layer], true);
    /* An unused device doesn't count as full, however small it is. */
    if (room_with(to, b) <= room_with(from, from->bytes_used)) return false;
    if (to->layers && room_with(to, to->bytes_used) <= room_with(from, from->bytes_used))
        return false;
    from->bytes_used = a;
    to->bytes_used = b;
    from->layers--;
    to->layers++;
    if (up)
        to->layer_begin = layer;
    else
        from->layer_begin++;
    return true;
}

/* Gifts travel, hence passes. Each makes the fuller of two emptier and nobody as full as it was, so
 * no cut comes back; the limit is for chains that are made to take long. */
static void even_out(const chain *c) {
    size_t passes = 2 * (c->layers + c->device_count);
    for (bool moved = true; moved && passes > 0; passes--) {
        moved = false;
        for (size_t i = 0; i + 1 < c->device_count; i++) {
            while (give_layer(c, &c->devices[i], &c->devices[i + 1])) moved = true;
            while (give_layer(c, &c->devices[i + 1], &c->devices[i])) moved = true;
        }
    }
}

/* Parts without layers begin where the one before ends. */
static void close_gaps(const chain *c) {
    size_t next = 0;
    for (size_t i = 0; i < c->device_count; i++) {
        c->devices[i].layer_begin = next;
        next += c->devices[i].layers;
    }
}

/* ---- numbers from outside ---- */

/* The sum of all layers and the largest device; *most: the largest that a room can be. */
static mnem_status check(const chain *c, uint64_t *sum, uint64_t *most) {
    *sum = *most = 0;
    if (c->layers == 0 || c->device_count == 0)
        return mnem__fail(
            MNEM_INVALID,
            "split: there are %zu layers and %zu devices, expected at least 1 of each", c->layers,
            c->device_count);
    for (size_t i = 0; i < c->layers; i++) {
        if (c->bytes[i] >= number_most - *sum)
            return mnem__fail(MNEM_INVALID,
                              "split: the bytes of layers 0 to %zu add up to 2^62 or more", i);
        *sum += c->bytes[i];
    }
    uint64_t fixed = 0;
    for (size_t i = 0; i < c->device_count; i++) {
        const mnem__split_device *d = &c->devices[i];
        if (d->capacity_bytes >= number_most || d->fixed_bytes >= number_most - *sum)
            return mnem__fail(MNEM_INVALID,
                              "split: capacity_bytes of device %zu, or its fixed_bytes with those "
                              "of all layers, is 2^62 or more",
                              i);
        if (d->capacity_bytes > *most) *most = d->capacity_bytes;
        if (d->fixed_bytes > fixed) fixed = d->fixed_bytes;
    }
    *sum += fixed;
    return MNEM_OK;
}

mnem_status mnem__plan_split(const uint64_t *layer_bytes, size_t layers,
                             mnem__split_device *devices, size_t device_count,
                             mnem__split_result *result) {
    const chain c = {layer_bytes, layers, devices, device_count};
    uint64_t sum, most;
    *result = (mnem__split_result){0};
    MNEM__TRY(check(&c, &sum, &most));
    /* With sum more on every device, the first takes everything. */
    const int64_t room = most_room(&c, -(int64_t)sum, (int64_t)most + 1);
    if (room < 0) {
        result->short_bytes = (uint64_t)-room;
        return mnem__fail(MNEM_OVER_BUDGET,
                          "split: the layers don't fit the devices; they would fit if each device "
                          "had %llu more bytes",
                          (unsigned long long)result->short_bytes);
    }
    even_out(&c);
    close_gaps(&c);
    result->room_bytes = (uint64_t)room;
    return MNEM_OK;
}
