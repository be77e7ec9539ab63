/* workload_snapshot.c: a PyTorch memory snapshot as a workload.
 *
 * The layout (torch/csrc/cuda/memory_snapshot.cpp writes it, torch/cuda/_memory_viz.py reads it):
 *
 *     {"segments": [{"device", "address", "total_size", "stream",
 *                    "blocks": [{"address", "size", "requested_size", "state", "frames"}]}],
 *      "device_traces": [[{"action", "addr", "size", "stream", "frames"}, ...], ... per device]}
 *
 * or, before device_traces existed, the list of segments alone. The trace is bounded: it may
 * begin anywhere. Idea: two passes over the events of one device. The first finds what was live
 * before the first event: blocks that are freed and were never allocated, then blocks that are
 * active in the segments and whose allocation no event shows. The second pass emits: first those,
 * then the events.
 *
 * A block is freed when free_completed says so: between free_requested and free_completed another
 * stream still uses it, and no allocator could have given it away. Two events for one address that
 * contradict each other (an allocation where one is live) end the earlier block, and are counted.
 *
 * Cost: constant time per event and block; 48 bytes for each block that was live before. */
#include <string.h>

#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"
#include "replay/snapshot_facts.h"

static const char tag[] = "workload";

enum { DEVICES_MAX = 4096 };

typedef struct event {
    mnem__word action;
    uint64_t address, bytes, stream;
    uint64_t us;          /* 0: unknown */
    uint64_t device_free; /* of a failure */
    mnem__value frames;
} event;

typedef struct snapshot {
    mnem__pickle *pickle;
    mnem_workload *w;
    mnem__value segments, traces; /* lists, or OTHER */
    mnem__value settings;         /* a dict, or OTHER */
    uint64_t visits_left;
    /* of the device that is read */
    mnem__value trace;
    mnem__number_map live; /* address → block; first pass: 0 */
    event *before;         /* what was live at the start; only address, bytes, stream, frames */
    size_t before_count, before_room;
    mnem__stack_sites sites;
    size_t site_blocks_room;
    uint64_t reserved, reserved_peak; /* relative to the start, mod 2^64 */
} snapshot;

static mnem_status bad(const snapshot *s, const char *what, uint64_t index) {
    (void)s;
    return mnem__fail(MNEM_BAD_FILE,
                      "%s %llu has another form than in a memory snapshot; the file is damaged, or "
                      "not a memory snapshot of PyTorch",
                      what, (unsigned long long)index);
}

/* Counts a step; a file whose lists contain each other would take forever. */
static mnem_status visit(snapshot *s) {
    if (s->visits_left--) return MNEM_OK;
    return mnem__fail(
        MNEM_BAD_FILE,
        "the lists contain each other; the file is damaged, or not a memory snapshot of PyTorch");
}

static uint64_t number_of(const snapshot *s, const mnem__fields *f, mnem__word word) {
    int64_t n = 0;
    mnem__pickle_integer(s->pickle, f->of[word], &n);
    return (uint64_t)n;
}

/* ---- one event, one block ---- */

/* MNEM_BAD_FILE when it is none. Actions that are nothing to us have the word NONE. */
static mnem_status read_event(snapshot *s, mnem__value v, uint64_t index, event *e) {
    mnem__fields f;
    MNEM__TRY(visit(s));
    if (!mnem__pickle_fields(s->pickle, v, &f)) return bad(s, "event", index);
    *e = (event){.action = mnem__pickle_word(f.of[MNEM__WORD_ACTION]),
                 .address = number_of(s, &f, MNEM__WORD_ADDR),
                 .bytes = number_of(s, &f, MNEM__WORD_SIZE),
                 .stream = number_of(s, &f, MNEM__WORD_STREAM),
                 .us = number_of(s, &f, MNEM__WORD_TIME_US),
                 .device_free = number_of(s, &f, MNEM__WORD_DEVICE_FREE),
                 .frames = f.of[MNEM__WORD_FRAMES]};
    int64_t n;
    const bool whole = mnem__pickle_integer(s->pickle, f.of[MNEM__WORD_ADDR], &n) &&
                       mnem__pickle_integer(s->pickle, f.of[MNEM__WORD_SIZE], &n) && n >= 0;
    switch (e->action) {
    case MNEM__WORD_ALLOC:
    case MNEM__WORD_FREE_REQUESTED:
    case MNEM__WORD_FREE_COMPLETED:
    case MNEM__WORD_SEGMENT_ALLOC:
    case MNEM__WORD_SEGMENT_FREE:
    case MNEM__WORD_SEGMENT_MAP:
    case MNEM__WORD_SEGMENT_UNMAP: return whole ? MNEM_OK : bad(s, "event", index);
    default: return MNEM_OK;
    }
}

typedef struct segment {
    uint64_t device, address, bytes, stream, expandable;
    mnem__value blocks;
} segment;

static mnem_status read_segment(snapshot *s, mnem__value v, uint64_t index, segment *out) {
    mnem__fields f;
    MNEM__TRY(visit(s));
    if (!mnem__pickle_fields(s->pickle, v, &f)) return bad(s, "segment", index);
    *out = (segment){.device = number_of(s, &f, MNEM__WORD_DEVICE),
                     .address = number_of(s, &f, MNEM__WORD_ADDRESS),
                     .bytes = number_of(s, &f, MNEM__WORD_TOTAL_SIZE),
                     .stream = number_of(s, &f, MNEM__WORD_STREAM),
                     .expandable = number_of(s, &f, MNEM__WORD_IS_EXPANDABLE),
                     .blocks = f.of[MNEM__WORD_BLOCKS]};
    if (out->device >= DEVICES_MAX) return bad(s, "segment", index);
    return MNEM_OK;
}

/* A block of a segment; *at: its address when it doesn't say one, then the next block's. e->action
 * is ALLOC when it is live. */
static mnem_status read_block(snapshot *s, mnem__value v, uint64_t index, uint64_t *at, event *e) {
    mnem__fields f;
    int64_t n;
    MNEM__TRY(visit(s));
    if (!mnem__pickle_fields(s->pickle, v, &f)) return bad(s, "block", index);
    const uint64_t size = number_of(s, &f, MNEM__WORD_SIZE);
    if (mnem__pickle_integer(s->pickle, f.of[MNEM__WORD_ADDRESS], &n)) *at = (uint64_t)n;
    const mnem__word state = mnem__pickle_word(f.of[MNEM__WORD_STATE]);
    *e = (event){.address = *at, .bytes = size, .frames = f.of[MNEM__WORD_FRAMES]};
    if (mnem__pickle_integer(s->pickle, f.of[MNEM__WORD_REQUESTED_SIZE], &n) && n > 0)
        e->bytes = (uint64_t)n;
    if (state == MNEM__WORD_ACTIVE_ALLOCATED || state == MNEM__WORD_ACTIVE_PENDING_FREE ||
        state == MNEM__WORD_ACTIVE_AWAITING_FREE)
        e->action = MNEM__WORD_ALLOC;
    *at += size;
    return (int64_t)e->bytes < 0 ? bad(s, "block", index) : MNEM_OK;
}

/* ---- which device ---- */

typedef struct device_count {
    uint64_t events, blocks;
} device_count;

static mnem_status count_segments(snapshot *s, device_count counts[DEVICES_MAX]) {
    mnem__pickle_walk segments = mnem__pickle_walk_begin(s->pickle, s->segments);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &segments, &v); i++) {
        segment seg;
        MNEM__TRY(read_segment(s, v, i, &seg));
        mnem__pickle_walk blocks = mnem__pickle_walk_begin(s->pickle, seg.blocks);
        while (mnem__pickle_walk_next(s->pickle, &blocks, &v)) {
            if (!s->visits_left--) return visit(s);
            counts[seg.device].blocks++;
        }
    }
    return MNEM_OK;
}

static mnem_status count_traces(snapshot *s, device_count counts[DEVICES_MAX]) {
    mnem__pickle_walk traces = mnem__pickle_walk_begin(s->pickle, s->traces);
    mnem__value trace, v;
    for (unsigned device = 0; mnem__pickle_walk_next(s->pickle, &traces, &trace); device++) {
        if (device == DEVICES_MAX) return bad(s, "device", device);
        mnem__pickle_walk events = mnem__pickle_walk_begin(s->pickle, trace);
        while (mnem__pickle_walk_next(s->pickle, &events, &v)) {
            MNEM__TRY(visit(s));
            counts[device].events++;
        }
    }
    return MNEM_OK;
}

/* The device with the most events, then blocks; or the one that was asked for. */
static mnem_status choose_among(snapshot *s, const device_count counts[DEVICES_MAX],
                                const mnem_workload_options *o) {
    unsigned best = 0;
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        if (counts[i].events || counts[i].blocks) s->w->info.devices++;
        if (counts[i].events > counts[best].events ||
            (counts[i].events == counts[best].events && counts[i].blocks > counts[best].blocks))
            best = i;
    }
    if (o && o->device_given) {
        best = o->device;
        if (best >= DEVICES_MAX || (!counts[best].events && !counts[best].blocks))
            return mnem__fail(MNEM_NOT_FOUND,
                              "the snapshot has no events of device %u (it has %u device%s)", best,
                              s->w->info.devices, s->w->info.devices == 1 ? "" : "s");
    }
    s->w->info.device = best;
    return MNEM_OK;
}

static mnem_status choose_device(snapshot *s, const mnem_workload_options *o) {
    device_count *counts = mnem__calloc(tag, DEVICES_MAX, sizeof *counts);
    if (!counts) return mnem__heap_status();
    mnem_status status = count_segments(s, counts);
    if (status == MNEM_OK) status = count_traces(s, counts);
    if (status == MNEM_OK) status = choose_among(s, counts, o);
    mnem__free(counts);
    mnem__pickle_walk traces = mnem__pickle_walk_begin(s->pickle, s->traces);
    for (unsigned i = 0; i <= s->w->info.device; i++)
        if (!mnem__pickle_walk_next(s->pickle, &traces, &s->trace)) s->trace = MNEM__VALUE_OTHER;
    return status;
}

/* ---- first pass: what was live before the first event ---- */

static mnem_status add_before(snapshot *s, const event *e) {
    if (!e->bytes) return MNEM_OK;
    if (s->before_count == s->before_room)
        MNEM__GROW(tag, s->before, s->before_room, 256, mnem__heap_status());
    s->before[s->before_count++] = *e;
    return MNEM_OK;
}

enum { SEEN_FREED = 0, SEEN_LIVE = 1 };

/* Follows one address: freed without an allocation means live before. */
static mnem_status follow(snapshot *s, const event *e) {
    const uint32_t seen = mnem__number_get(&s->live, e->address);
    const bool allocates = e->action == MNEM__WORD_ALLOC;
    if (!allocates && seen == SEEN_LIVE && e->action == MNEM__WORD_FREE_REQUESTED) return MNEM_OK;
    if (!allocates && seen == SEEN_FREED) return MNEM_OK; /* the second pass counts it */
    if (!allocates && seen == MNEM__NUMBER_NONE) {
        event before = *e; /* of the free; the site and time of its allocation are unknown */
        before.frames = MNEM__VALUE_OTHER;
        before.us = 0;
        MNEM__TRY(add_before(s, &before));
    }
    /* After free_requested without an allocation the block is still there. */
    const uint32_t now = e->action == MNEM__WORD_FREE_COMPLETED ? SEEN_FREED : SEEN_LIVE;
    return mnem__number_set(&s->live, e->address, now) ? MNEM_OK : mnem__heap_status();
}

static mnem_status scan_events(snapshot *s) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, s->trace);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        event e;
        mnem_status status = read_event(s, v, i, &e);
        if (status == MNEM_OK && e.bytes &&
            (e.action == MNEM__WORD_ALLOC || e.action == MNEM__WORD_FREE_REQUESTED ||
             e.action == MNEM__WORD_FREE_COMPLETED))
            status = follow(s, &e);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

/* Active blocks whose address no event of the trace left live. */
static mnem_status scan_blocks(snapshot *s, const segment *seg) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, seg->blocks);
    uint64_t at = seg->address;
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        event e;
        MNEM__TRY(read_block(s, v, i, &at, &e));
        const uint32_t seen = mnem__number_get(&s->live, e.address);
        e.stream = seg->stream;
        if (e.action != MNEM__WORD_ALLOC || seen == SEEN_LIVE) continue;
        if (seen == SEEN_FREED) { /* the events freed it, and say nothing of a new one */
            s->w->info.dropped++;
            continue;
        }
        mnem_status status = add_before(s, &e);
        if (status == MNEM_OK && !mnem__number_set(&s->live, e.address, SEEN_LIVE))
            status = mnem__heap_status();
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

static mnem_status scan_segments(snapshot *s) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, s->segments);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        segment seg;
        MNEM__TRY(read_segment(s, v, i, &seg));
        if (seg.device != s->w->info.device) continue;
        s->reserved += seg.bytes;
        MNEM__TRY(scan_blocks(s, &seg));
    }
    return MNEM_OK;
}

static mnem_status set_site(snapshot *s, uint32_t block, mnem__value frames) {
    if (block >= s->site_blocks_room)
        MNEM__GROW(tag, s->w->site_at, s->site_blocks_room, 1024, mnem__heap_status());
    return mnem__stack_site(&s->sites, s->pickle, s->w, frames, &s->w->site_at[block]);
}

/* ---- second pass: operations ---- */

static mnem_status emit_alloc(snapshot *s, const event *e) {
    uint32_t block = mnem__number_get(&s->live, e->address);
    mnem_status status = MNEM_OK;
    if (block != MNEM__NUMBER_NONE) { /* its free is missing */
        s->w->info.dropped++;
        status = mnem__workload_free_there(s->w, block);
        if (status == MNEM_OK) status = mnem__facts_op(s->w, e->us, NULL);
    }
    if (status == MNEM_OK) status = mnem__workload_alloc(s->w, e->bytes, e->stream, &block);
    if (status == MNEM_OK) status = set_site(s, block, e->frames);
    if (status == MNEM_OK) status = mnem__facts_op(s->w, e->us, &e->address);
    if (status != MNEM_OK) return status;
    return mnem__number_set(&s->live, e->address, block) ? MNEM_OK : mnem__heap_status();
}

static mnem_status emit_free(snapshot *s, const event *e) {
    const uint32_t block = mnem__number_get(&s->live, e->address);
    if (block == MNEM__NUMBER_NONE) {
        s->w->info.dropped++;
        return MNEM_OK;
    }
    MNEM__TRY(mnem__workload_free(s->w, block, e->stream));
    MNEM__TRY(mnem__facts_op(s->w, e->us, NULL));
    return mnem__number_set(&s->live, e->address, MNEM__NUMBER_NONE) ? MNEM_OK
                                                                     : mnem__heap_status();
}

/* Memory taken from the device or given back. */
static mnem_status emit_change(snapshot *s, const event *e) {
    const bool taken = e->action == MNEM__WORD_SEGMENT_ALLOC || e->action == MNEM__WORD_SEGMENT_MAP;
    const bool expandable =
        e->action == MNEM__WORD_SEGMENT_MAP || e->action == MNEM__WORD_SEGMENT_UNMAP;
    s->w->info.segments_asked += taken;
    s->reserved += taken ? e->bytes : 0 - e->bytes;
    if ((int64_t)s->reserved > (int64_t)s->reserved_peak) s->reserved_peak = s->reserved;
    return mnem__facts_change(
        &s->w->facts->changes,
        (mnem__reserved){e->address, e->bytes, taken, expandable, s->w->info.count});
}

static mnem_status emit_failure(snapshot *s, const event *e) {
    mnem__snapshot_facts *facts = s->w->facts;
    mnem__failed f = {.op = s->w->info.count,
                      .change = facts->changes.count,
                      .bytes = e->bytes,
                      .device_free = e->device_free};
    if (!e->bytes || (int64_t)e->bytes < 0 || (int64_t)e->device_free < 0) return MNEM_OK;
    MNEM__TRY(mnem__workload_stream(s->w, e->stream, &f.stream));
    MNEM__TRY(mnem__stack_site(&s->sites, s->pickle, s->w, e->frames, &f.site));
    return mnem__facts_failure(facts, f);
}

static mnem_status emit_event(snapshot *s, const event *e) {
    switch (e->action) {
    case MNEM__WORD_ALLOC: return e->bytes ? emit_alloc(s, e) : MNEM_OK;
    case MNEM__WORD_FREE_COMPLETED: return e->bytes ? emit_free(s, e) : MNEM_OK;
    case MNEM__WORD_SEGMENT_ALLOC:
    case MNEM__WORD_SEGMENT_MAP:
    case MNEM__WORD_SEGMENT_FREE:
    case MNEM__WORD_SEGMENT_UNMAP: return emit_change(s, e);
    case MNEM__WORD_OOM: return emit_failure(s, e);
    default: return MNEM_OK;
    }
}

static mnem_status emit_events(snapshot *s) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, s->trace);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        event e;
        mnem_status status = read_event(s, v, i, &e);
        if (status == MNEM_OK) status = emit_event(s, &e);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

static mnem_status emit(snapshot *s) {
    const uint64_t reserved_end = s->reserved;
    mnem_status status = MNEM_OK;
    mnem__number_fini(&s->live);
    for (size_t i = 0; i < s->before_count && status == MNEM_OK; i++)
        status = emit_alloc(s, &s->before[i]);
    s->w->info.prelude = s->w->info.count;
    s->reserved = s->reserved_peak = 0;
    if (status == MNEM_OK) status = emit_events(s);
    /* What was reserved at the start: the end's, less what the events added. */
    const uint64_t start = reserved_end - s->reserved;
    if ((int64_t)start >= 0) s->w->info.bytes_reserved_peak = start + s->reserved_peak;
    return status;
}

/* ---- the end: segments, and what their live blocks take ---- */

static mnem_status note_blocks(snapshot *s, const segment *seg) {
    uint64_t *granted = s->w->facts->granted.p, at = seg->address;
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, seg->blocks);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        event e = {0};
        MNEM__TRY(read_block(s, v, i, &at, &e));
        const uint32_t block = mnem__number_get(&s->live, e.address);
        if (e.action != MNEM__WORD_ALLOC || block == MNEM__NUMBER_NONE) continue;
        granted[block] = at - e.address;
    }
    return MNEM_OK;
}

static mnem_status note_segments(snapshot *s) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(s->pickle, s->segments);
    mnem__value v;
    for (uint64_t i = 0; mnem__pickle_walk_next(s->pickle, &walk, &v); i++) {
        segment seg;
        MNEM__TRY(read_segment(s, v, i, &seg));
        if (seg.device != s->w->info.device) continue;
        const mnem__reserved end = {seg.address, seg.bytes, 1, seg.expandable != 0, 0};
        MNEM__TRY(mnem__facts_change(&s->w->facts->segments, end));
        MNEM__TRY(note_blocks(s, &seg));
    }
    return MNEM_OK;
}

static mnem_status find_parts(snapshot *s) {
    mnem__fields top;
    const mnem__value v = mnem__pickle_top(s->pickle);
    if (mnem__value_tag_of(v) == MNEM__VALUE_LIST) {
        s->segments = v;
        return MNEM_OK;
    }
    if (!mnem__pickle_fields(s->pickle, v, &top) ||
        mnem__value_tag_of(top.of[MNEM__WORD_SEGMENTS]) != MNEM__VALUE_LIST)
        return mnem__fail(MNEM_BAD_FILE,
                          "the file is a pickle, but not a memory snapshot: the list of segments "
                          "is missing; write one with torch.cuda.memory._dump_snapshot");
    s->segments = top.of[MNEM__WORD_SEGMENTS];
    s->traces = top.of[MNEM__WORD_DEVICE_TRACES];
    s->settings = top.of[MNEM__WORD_ALLOCATOR_SETTINGS];
    return MNEM_OK;
}

static mnem_status convert(snapshot *s, const mnem_workload_options *o) {
    s->visits_left = 8 * mnem__pickle_elements(s->pickle) + 1000;
    MNEM__TRY(find_parts(s));
    MNEM__TRY(choose_device(s, o));
    MNEM__TRY(scan_events(s));
    MNEM__TRY(scan_segments(s));
    MNEM__TRY(mnem__facts_create(s->w));
    mnem__facts_settings(s->w->facts, s->pickle, s->settings);
    MNEM__TRY(emit(s));
    return note_segments(s);
}

mnem_status mnem__workload_read_snapshot(mnem__input *in, mnem_workload *w) {
    snapshot s = {.w = w};
    MNEM__TRY(mnem__pickle_read(in, &s.pickle));
    w->info.format = "PyTorch snapshot";
    mnem_status status = convert(&s, in->options);
    mnem__pickle_free(s.pickle);
    mnem__number_fini(&s.live);
    mnem__number_fini(&s.sites.of_frames);
    mnem__free(s.before);
    return status == MNEM_OK ? MNEM_OK : mnem__fail_in(status, "%s", in->name);
}
