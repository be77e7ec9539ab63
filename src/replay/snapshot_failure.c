/* snapshot_failure.c: the state in which a request failed: segments, live blocks, the holes between
 * them, and whose blocks keep segments from going back.
 *
 *     +--------+------+------------+--------+      segment: reserved bytes in a row
 *     | block  | hole |   block    | hole   |
 *     +--------+------+------------+--------+
 *
 * Segments: the snapshot has those of its end, and the record tells what was taken (+1) and given
 * back (-1) since. What is covered at the failure is the end's, less what was taken since, and what
 * was given back since: a sum over addresses that needs no order, whatever a broken file says.
 * Blocks: those that the operations before the failure left live, at the addresses of the record.
 * How much a block takes is known for what lives to the end; else it is rounded as PyTorch would,
 * and what follows it counts as its own where PyTorch doesn't split so small a rest off.
 *
 * Cost: sorts of the blocks, of the segments' changes, and of who holds what. */
#include <string.h>

#include "base/error.h"
#include "base/sort.h"
#include "replay/replay_private.h"
#include "replay/snapshot_facts.h"

static const char tag[] = "replay";

#define MIB ((uint64_t)1 << 20)

typedef struct edge {
    uint64_t address;
    int32_t delta;
    bool begins, expandable; /* begins: no segment goes on across it */
} edge;

typedef struct live_block {
    uint64_t address, asked, granted;
    uint32_t site;
} live_block;

/* Bytes of one site in one segment. */
typedef struct hold {
    uint32_t site, segment;
    uint64_t bytes;
} hold;

typedef struct scene {
    const mnem_workload *w;
    const mnem__failed *failed;
    mnem__array edges, blocks, segments, holds, pins; /* edge, live_block, ..segment, hold, ..pin */
    uint32_t *index;
    mnem_snapshot_failure sum;
} scene;

/* 0, 1, 2, ... in the order of less; NULL without memory. */
static uint32_t *sorted(size_t n, mnem__sort_less *less, const void *context) {
    uint32_t *index = mnem__alloc(tag, (n + 1) * sizeof *index);
    for (size_t i = 0; index && i < n; i++) index[i] = (uint32_t)i;
    if (index) mnem__sort(index, n, less, context);
    return index;
}

/* ---- blocks ---- */

static mnem_status add_block(scene *s, const mnem_workload_op *o) {
    const mnem__snapshot_facts *f = s->w->facts;
    const uint64_t granted = ((const uint64_t *)f->granted.p)[o->block];
    const live_block b = {
        .address = ((const uint64_t *)f->address.p)[o->block],
        .asked = o->bytes,
        .granted = granted ? granted : mnem__pytorch_round(&f->settings, o->bytes),
        .site = s->w->site_at[o->block],
    };
    return mnem__array_append(&s->blocks, &b, sizeof b);
}

static mnem_status list_blocks(scene *s) {
    const mnem_workload_info *info = &s->w->info;
    size_t *born = mnem__calloc(tag, info->allocations, sizeof *born);
    if (!born) return mnem__heap_status();
    for (size_t i = 0; i < s->failed->op; i++)
        born[info->ops[i].block] = info->ops[i].bytes ? i + 1 : 0;
    mnem_status status = MNEM_OK;
    for (size_t b = 0; b < info->allocations && status == MNEM_OK; b++)
        if (born[b]) status = add_block(s, &info->ops[born[b] - 1]);
    mnem__free(born);
    return status;
}

static bool block_before(const void *context, uint32_t a, uint32_t b) {
    const live_block *block = context;
    return block[a].address != block[b].address ? block[a].address < block[b].address : a < b;
}

/* ---- segments ---- */

static mnem_status add_edges(scene *s, const mnem__reserved *r, int32_t sign) {
    const uint64_t end = r->address + r->bytes;
    const edge from = {r->address, sign, !r->expandable, r->expandable != 0};
    const edge to = {end, -sign, false, r->expandable != 0};
    if (!r->bytes || end < r->address) return MNEM_OK;
    MNEM__TRY(mnem__array_append(&s->edges, &from, sizeof from));
    return mnem__array_append(&s->edges, &to, sizeof to);
}

static mnem_status list_edges(scene *s) {
    const mnem__snapshot_facts *f = s->w->facts;
    const mnem__reserved *end = f->segments.p, *change = f->changes.p;
    for (size_t i = 0; i < f->segments.count; i++) MNEM__TRY(add_edges(s, &end[i], 1));
    for (size_t i = s->failed->change; i < f->changes.count; i++)
        MNEM__TRY(add_edges(s, &change[i], change[i].taken ? -1 : 1));
    return MNEM_OK;
}

static bool edge_before(const void *context, uint32_t a, uint32_t b) {
    const edge *e = context;
    return e[a].address != e[b].address ? e[a].address < e[b].address : a < b;
}

static bool grows(const scene *s, uint32_t segment) {
    return ((const mnem_snapshot_segment *)s->segments.p)[segment].blocks;
}

/* Every stretch that is covered; `blocks` says for now whether it is a segment that grows. */
static mnem_status sweep(scene *s) {
    const edge *e = s->edges.p;
    int64_t cover = 0;
    mnem_snapshot_segment seg = {0};
    for (size_t i = 0; i < s->edges.count;) {
        const uint64_t at = e[s->index[i]].address;
        bool begins = false, expandable = false;
        const bool covered = cover > 0;
        for (; i < s->edges.count && e[s->index[i]].address == at; i++) {
            cover += e[s->index[i]].delta;
            begins = begins || e[s->index[i]].begins;
            expandable = expandable || e[s->index[i]].expandable;
        }
        if (covered && (cover <= 0 || begins)) {
            seg.bytes = at - seg.address;
            MNEM__TRY(mnem__array_append(&s->segments, &seg, sizeof seg));
        }
        if (cover > 0 && (!covered || begins))
            seg = (mnem_snapshot_segment){.address = at, .blocks = expandable, .site = ""};
    }
    return MNEM_OK;
}

static mnem_status list_segments(scene *s) {
    MNEM__TRY(list_edges(s));
    s->index = sorted(s->edges.count, edge_before, s->edges.p);
    const mnem_status status = s->index ? sweep(s) : mnem__heap_status();
    mnem__free(s->index);
    s->index = NULL;
    return status;
}

/* ---- holes ---- */

/* Is the rest of so many bytes behind a block the block's own? */
static bool is_own(const scene *s, const mnem_snapshot_segment *seg, bool expandable,
                   uint64_t rest) {
    const uint64_t split_max = s->w->facts->settings.max_split_bytes;
    if (expandable || seg->bytes <= 2 * MIB) return rest < 512;
    return rest <= MIB || (split_max && seg->bytes >= split_max);
}

static void add_hole(scene *s, mnem_snapshot_segment *seg, uint64_t bytes) {
    if (!bytes) return;
    seg->bytes_free += bytes;
    if (bytes > seg->bytes_free_largest) seg->bytes_free_largest = bytes;
    s->sum.holes++;
}

/* The blocks of one segment, from the sorted index i on; *next is the first behind it. */
static mnem_status walk_segment(scene *s, uint32_t number, size_t i, size_t *next) {
    mnem_snapshot_segment *seg = (mnem_snapshot_segment *)s->segments.p + number;
    const live_block *block = s->blocks.p;
    const uint64_t end = seg->address + seg->bytes;
    const bool expandable = grows(s, number);
    uint64_t at = seg->address;
    bool behind = false; /* a block of this segment */
    seg->blocks = 0;
    for (; i < s->blocks.count && block[s->index[i]].address < end; i++) {
        const live_block *b = &block[s->index[i]];
        if (b->address < seg->address) continue; /* in no segment: the file contradicts itself */
        const uint64_t hole = b->address > at ? b->address - at : 0;
        if (!behind || !is_own(s, seg, expandable, hole)) add_hole(s, seg, hole);
        const uint64_t room = end - b->address;
        at = b->address + (b->granted < room ? b->granted : room);
        const hold h = {b->site, number, b->asked};
        MNEM__TRY(mnem__array_append(&s->holds, &h, sizeof h));
        seg->blocks++;
        behind = true;
    }
    if (!behind || !is_own(s, seg, expandable, end - at)) add_hole(s, seg, end - at);
    *next = i;
    return MNEM_OK;
}

static mnem_status find_holes(scene *s) {
    mnem_snapshot_failure *sum = &s->sum;
    s->index = sorted(s->blocks.count, block_before, s->blocks.p);
    if (!s->index) return mnem__heap_status();
    for (size_t k = 0, i = 0; k < s->segments.count; k++) {
        MNEM__TRY(walk_segment(s, (uint32_t)k, i, &i));
        const mnem_snapshot_segment *seg = (mnem_snapshot_segment *)s->segments.p + k;
        sum->bytes_reserved += seg->bytes;
        sum->bytes_free += seg->bytes_free;
        if (seg->bytes_free_largest > sum->bytes_free_largest)
            sum->bytes_free_largest = seg->bytes_free_largest;
    }
    sum->bytes_granted = sum->bytes_reserved - sum->bytes_free;
    sum->segments = s->segments.count;
    for (size_t i = 0; i < s->blocks.count; i++)
        sum->bytes_live += ((const live_block *)s->blocks.p)[i].asked;
    return MNEM_OK;
}

/* ---- who is in the way ---- */

static int compare_sites(const scene *s, uint32_t a, uint32_t b) {
    return a == b ? 0 : strcmp(mnem__stack_text(s->w, a), mnem__stack_text(s->w, b));
}

static bool hold_before(const void *context, uint32_t a, uint32_t b) {
    const scene *s = context;
    const hold *h = s->holds.p;
    const int sites = compare_sites(s, h[a].site, h[b].site);
    if (sites) return sites < 0;
    return h[a].segment != h[b].segment ? h[a].segment < h[b].segment : a < b;
}

/* The blocks of one site in one segment, from the sorted index i on; returns the end. */
static size_t sum_segment(scene *s, size_t i, mnem_snapshot_pin *pin, uint64_t *most) {
    const hold *h = s->holds.p, *first = &h[s->index[i]];
    mnem_snapshot_segment *seg = (mnem_snapshot_segment *)s->segments.p + first->segment;
    uint64_t bytes = 0, blocks = 0;
    for (; i < s->holds.count; i++, blocks++) {
        const hold *next = &h[s->index[i]];
        if (next->segment != first->segment || compare_sites(s, next->site, first->site)) break;
        bytes += next->bytes;
    }
    if (bytes > most[first->segment]) {
        most[first->segment] = bytes;
        seg->site = mnem__stack_text(s->w, first->site);
    }
    if (!seg->bytes_free) return i;
    pin->bytes += bytes;
    pin->blocks += blocks;
    pin->segments++;
    pin->bytes_free += seg->bytes_free;
    return i;
}

static mnem_status sum_pins(scene *s, uint64_t *most) {
    const hold *h = s->holds.p;
    for (size_t i = 0; i < s->holds.count;) {
        const uint32_t site = h[s->index[i]].site;
        mnem_snapshot_pin pin = {.site = mnem__stack_text(s->w, site)};
        while (i < s->holds.count && !compare_sites(s, h[s->index[i]].site, site))
            i = sum_segment(s, i, &pin, most);
        if (pin.segments) MNEM__TRY(mnem__array_append(&s->pins, &pin, sizeof pin));
    }
    return MNEM_OK;
}

static mnem_status find_pins(scene *s) {
    mnem__free(s->index);
    s->index = sorted(s->holds.count, hold_before, s);
    uint64_t *most = mnem__calloc(tag, s->segments.count + 1, sizeof *most);
    const mnem_status status = s->index && most ? sum_pins(s, most) : mnem__heap_status();
    mnem__free(most);
    return status;
}

/* ---- the result, in one piece: the sums, then segments, then pins ---- */

static bool freer_segment(const void *context, uint32_t a, uint32_t b) {
    const mnem_snapshot_segment *s = context;
    return s[a].bytes_free != s[b].bytes_free ? s[a].bytes_free > s[b].bytes_free : a < b;
}

static bool freer_pin(const void *context, uint32_t a, uint32_t b) {
    const mnem_snapshot_pin *p = context;
    if (p[a].bytes_free != p[b].bytes_free) return p[a].bytes_free > p[b].bytes_free;
    return p[a].bytes != p[b].bytes ? p[a].bytes > p[b].bytes : a < b;
}

static void fill_failure(const scene *s, mnem_snapshot_failure *all, const uint32_t *segments,
                         const uint32_t *pins) {
    mnem_snapshot_segment *segment = (mnem_snapshot_segment *)(all + 1);
    mnem_snapshot_pin *pin = (mnem_snapshot_pin *)(segment + s->segments.count);
    *all = s->sum;
    all->segment = segment;
    all->pin = pin;
    for (size_t i = 0; i < s->segments.count; i++) {
        const mnem_snapshot_segment *seg = (mnem_snapshot_segment *)s->segments.p + segments[i];
        if (seg->bytes_free && seg->blocks) segment[all->segment_count++] = *seg;
    }
    for (size_t i = 0; i < s->pins.count; i++)
        pin[all->pin_count++] = ((const mnem_snapshot_pin *)s->pins.p)[pins[i]];
}

static mnem_status finish(scene *s, mnem_snapshot_failure **out) {
    const size_t bytes = sizeof **out + s->segments.count * sizeof(mnem_snapshot_segment) +
                         s->pins.count * sizeof(mnem_snapshot_pin);
    mnem_snapshot_failure *all = mnem__alloc(tag, bytes);
    uint32_t *segments = sorted(s->segments.count, freer_segment, s->segments.p);
    uint32_t *pins = sorted(s->pins.count, freer_pin, s->pins.p);
    if (all && segments && pins)
        fill_failure(s, *out = all, segments, pins);
    else
        mnem__free(all);
    mnem__free(segments);
    mnem__free(pins);
    return *out ? MNEM_OK : mnem__heap_status();
}

static mnem_status rebuild(scene *s, mnem_snapshot_failure **out) {
    s->sum = (mnem_snapshot_failure){.op = s->failed->op,
                                     .bytes = s->failed->bytes,
                                     .site = mnem__stack_text(s->w, s->failed->site),
                                     .bytes_device_free = s->failed->device_free};
    MNEM__TRY(list_blocks(s));
    MNEM__TRY(list_segments(s));
    MNEM__TRY(find_holes(s));
    MNEM__TRY(find_pins(s));
    return finish(s, out);
}

mnem_status mnem_snapshot_failure_create(const mnem_workload *w, size_t i,
                                         mnem_snapshot_failure **out) {
    scene s = {.w = w};
    *out = NULL;
    if (i >= mnem_snapshot_failures(w))
        return mnem__fail(
            MNEM_NOT_FOUND,
            "snapshot: failed request %zu does not exist: the snapshot has %zu (numbered from 0)",
            i, mnem_snapshot_failures(w));
    s.failed = (const mnem__failed *)w->facts->failures.p + i;
    const mnem_status status = rebuild(&s, out);
    mnem__free(s.edges.p);
    mnem__free(s.blocks.p);
    mnem__free(s.segments.p);
    mnem__free(s.holds.p);
    mnem__free(s.pins.p);
    mnem__free(s.index);
    return status;
}

void mnem_snapshot_failure_destroy(mnem_snapshot_failure *failure) {
    mnem__free(failure);
}
