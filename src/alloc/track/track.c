/* track.c: which blocks are live, and the questions that are asked about them.
 *
 * The idea: counters of kinds and tags are kept with every operation (inline, in track.h). What is
 * live of each site, the oldest block of a group, and what is newer than a mark, takes a pass over
 * the records; its sums lie in the sites' rows, so a question takes no heap and can be asked when
 * there is none.
 *
 *     record: { bytes, sequence, site, stream, step, generation }     by the block's number
 *     site:   { file:line, tag, backtrace | sum }       tag: { kind, text | live, peak }
 *
 * Invariant: bytes live of all = of the kinds = of the tags = of the records whose generation is
 * odd.
 * Cost: a record and three counters for each operation (bench_track); a question: 1 to 5 ns for
 * each number in use, and a sort of the groups. */
#include "alloc/track/track.h"

#include "base/error.h"
#include "base/heap.h"

mnem_status mnem__track_init(mnem__track *t, uint32_t site_max) {
    static _Atomic uint32_t tracks;
    *t = (mnem__track){.salt = ++tracks * UINT32_C(0x9E3779B1) << 1};
    return mnem__sites_init(&t->sites, site_max);
}

void mnem__track_fini(mnem__track *t) {
    mnem__rows_free(&t->records);
    mnem__sites_fini(&t->sites);
}

mnem_status mnem__track_reserve(mnem__track *t, uint32_t count) {
    const uint32_t before = t->records.capacity;
    const bool done = mnem__rows_reserve(&t->records, sizeof(mnem__record), count);
    for (uint32_t id = before; id < t->records.capacity; id++)
        mnem__record_at(t, id)->generation = t->salt;
    return done ? MNEM_OK : mnem__heap_status();
}

/* ---- blocks ---- */

static void block_fill(const mnem__track *t, uint32_t id, mnem_live_block *out) {
    const mnem__record *r = mnem__record_at(t, id);
    const mnem__site *s = mnem__site_at(&t->sites, r->site);
    const mnem__tag *tag = mnem__tag_at(&t->sites, s->tag);
    *out = (mnem_live_block){.kind = tag->kind,
                             .tag = tag->text,
                             .file = s->name,
                             .line = s->line,
                             .bytes = r->bytes,
                             .sequence = r->sequence,
                             .step = r->step,
                             .stream = r->stream,
                             .block = id};
    out->frames = mnem__stack_frames(&t->sites, s->stack, &out->frame_count);
}

bool mnem__track_block(const mnem__track *t, uint32_t id, mnem_live_block *out) {
    if (id >= t->used || mnem__record_at(t, id)->generation == t->salt) return false;
    block_fill(t, id, out);
    return true;
}

/* ---- groups ---- */

static void sums_clear(mnem__track *t) {
    for (uint32_t i = 0; i < t->sites.site_count; i++)
        mnem__site_at(&t->sites, i)->sum = (mnem__site_sum){0};
}

static void sums_make(mnem__track *t, uint64_t since) {
    sums_clear(t);
    for (uint32_t id = 0; id < t->used; id++) {
        const mnem__record *r = mnem__record_at(t, id);
        if (!(r->generation & 1) || r->sequence <= since) continue;
        mnem__site_sum *sum = &mnem__site_at(&t->sites, r->site)->sum;
        if (!sum->blocks || r->sequence < sum->oldest_sequence) {
            sum->oldest_sequence = r->sequence;
            sum->oldest_step = r->step;
            sum->oldest_block = id;
        }
        sum->blocks++;
        sum->bytes += r->bytes;
    }
}

/* Adds what one site has to another's sum, and leaves nothing there. */
static void sum_move(mnem__site_sum *to, mnem__site_sum *from) {
    if (to == from) return;
    if (!to->blocks || (from->blocks && from->oldest_sequence < to->oldest_sequence)) {
        to->oldest_sequence = from->oldest_sequence;
        to->oldest_step = from->oldest_step;
        to->oldest_block = from->oldest_block;
    }
    to->blocks += from->blocks;
    to->bytes += from->bytes;
    *from = (mnem__site_sum){0};
}

/* Sums of sites into that of their tag's site for others, or into that of their kind's first. */
static void sums_gather(mnem__track *t, mnem_live_by by) {
    for (uint32_t i = 0; i < t->sites.site_count && by != MNEM_LIVE_BY_SITE; i++) {
        mnem__site *s = mnem__site_at(&t->sites, i);
        if (!s->sum.blocks) continue;
        const mnem__tag *tag = mnem__tag_at(&t->sites, s->tag);
        if (by == MNEM_LIVE_BY_KIND) tag = mnem__tag_at(&t->sites, (uint32_t)tag->kind);
        sum_move(&mnem__site_at(&t->sites, tag->others)->sum, &s->sum);
    }
}

static void group_fill(const mnem__track *t, mnem_live_by by, const mnem__site *s,
                       mnem_live_group *out) {
    const mnem__tag *tag = mnem__tag_at(&t->sites, s->tag);
    const mnem__count *count = by == MNEM_LIVE_BY_KIND ? &t->kinds[tag->kind] : &tag->count;
    *out = (mnem_live_group){.kind = tag->kind,
                             .tag = by == MNEM_LIVE_BY_KIND ? NULL : tag->text,
                             .blocks = s->sum.blocks,
                             .bytes = s->sum.bytes,
                             .bytes_peak = count->bytes_peak,
                             .allocations = count->allocations,
                             .oldest_sequence = s->sum.oldest_sequence,
                             .oldest_step = s->sum.oldest_step,
                             .oldest_block = s->sum.oldest_block};
    if (by != MNEM_LIVE_BY_SITE) return;
    out->file = s->name;
    out->line = s->line;
    out->frames = mnem__stack_frames(&t->sites, s->stack, &out->frame_count);
}

static bool group_before(const mnem_live_group *a, const mnem_live_group *b,
                         mnem_live_order order) {
    if (order == MNEM_LIVE_MOST_BYTES_FIRST && a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->oldest_sequence < b->oldest_sequence;
}

/* Puts a group among the n that are there, in order; at most max stay. The caller's rows are few
 * and a group moves them only when it is among the first max. */
static void group_insert(mnem_live_group *out, size_t n, size_t max, const mnem_live_group *group,
                         mnem_live_order order) {
    size_t i = n < max ? n : max;
    if (i == max && (!max || !group_before(group, &out[max - 1], order))) return;
    if (i == max) i--;
    for (; i && group_before(group, &out[i - 1], order); i--) out[i] = out[i - 1];
    out[i] = *group;
}

size_t mnem__track_live(mnem__track *t, const mnem_live_query *query, mnem_live_group *out,
                        size_t max) {
    static const mnem_live_query defaults;
    if (!query) query = &defaults;
    sums_make(t, query->since);
    sums_gather(t, query->by);
    size_t n = 0;
    for (uint32_t i = 0; i < t->sites.site_count; i++) {
        const mnem__site *s = mnem__site_at(&t->sites, i);
        if (!s->sum.blocks) continue;
        mnem_live_group group;
        group_fill(t, query->by, s, &group);
        group_insert(out, n++, max, &group, query->order);
    }
    return n;
}
