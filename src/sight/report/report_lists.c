/* report_lists.c: who held the peak, what was never given back, which operators took the time.
 *
 * The idea: lists are made once, at the end, of what counting left: holders become owners, blocks
 * that are still live become leaks by owner, with ages. Sorted, the largest first; among equals in
 * the order of first use, so that a report is the same each time.
 * Cost: sorts of the owners and of the blocks that are live at the end. */
#include "base/error.h"
#include "base/sort.h"
#include "mnem/trace_read.h"
#include "sight/report/report_private.h"

static uint32_t *in_order(size_t n, mnem__sort_less *less, const void *context) {
    uint32_t *order = mnem__alloc("report", (n + 1) * sizeof *order);
    for (size_t i = 0; order && i < n; i++) order[i] = (uint32_t)i;
    if (order) mnem__sort(order, n, less, context);
    return order;
}

/* ---- owners ---- */

static bool more_at_peak(const void *context, uint32_t a, uint32_t b) {
    const mnem__holders *h = context;
    uint64_t x, y, blocks;
    mnem__holder_peak(h, a, &x, &blocks);
    mnem__holder_peak(h, b, &y, &blocks);
    if (x != y) return x > y;
    return h->of[a].most != h->of[b].most ? h->of[a].most > h->of[b].most : a < b;
}

static void fill_owner(mnem_report *r, const mnem__holders *h, uint32_t i, mnem_report_owner *o) {
    const mnem__holder *from = &h->of[i];
    *o = (mnem_report_owner){.bytes_most = from->most,
                             .bytes_end = from->bytes,
                             .blocks_end = from->blocks,
                             .bytes_total = from->total,
                             .allocations = from->allocations};
    r->source->account(r->source, from->account, &o->kind, &o->tag);
    o->site = from->site ? r->source->site(r->source, from->site) : "";
    mnem__holder_peak(h, i, &o->bytes_at_peak, &o->blocks_at_peak);
}

/* Those that ever held anything. */
static mnem_status list_owners(mnem_report *r, const mnem__holders *h, mnem_report_owner **list,
                               size_t *count) {
    uint32_t *order = in_order(h->count, more_at_peak, h);
    *list = mnem__alloc("report", (h->count + 1) * sizeof **list);
    const mnem_status status = order && *list ? MNEM_OK : mnem__heap_status();
    for (uint32_t i = 0; status == MNEM_OK && i < h->count; i++)
        if (h->of[order[i]].most) fill_owner(r, h, order[i], &(*list)[(*count)++]);
    mnem__free(order);
    return status;
}

/* ---- leaks ---- */

static bool owner_then_birth(const void *context, uint32_t a, uint32_t b) {
    const mnem__live *slot = context;
    if (slot[a].owner != slot[b].owner) return slot[a].owner < slot[b].owner;
    return slot[a].born != slot[b].born ? slot[a].born < slot[b].born : a < b;
}

/* What lives at the end and began within the record, in a row at the table's start. */
static size_t gather(mnem__live_blocks *b) {
    size_t n = 0;
    for (size_t i = 0; i < b->room; i++)
        if (b->slot[i].used && !b->slot[i].before) b->slot[n++] = b->slot[i];
    return n;
}

/* Of blocks [from, to) in order of birth. */
static void fill_leak(mnem_report *r, const uint32_t *order, size_t from, size_t to) {
    const mnem__live *slot = r->count.blocks.slot;
    const mnem__holder *h = &r->count.sites.of[slot[order[from]].owner];
    const uint64_t end = r->count.at;
    mnem_report_leak *l = &r->leak[r->facts.leaks++];
    unsigned quarters = 0;
    *l = (mnem_report_leak){.blocks = to - from,
                            .age_oldest = end - slot[order[from]].born,
                            .age_median = end - slot[order[from + (to - from) / 2]].born};
    r->source->account(r->source, h->account, &l->kind, &l->tag);
    l->site = h->site ? r->source->site(r->source, h->site) : "";
    for (size_t i = from; i < to; i++) {
        const mnem__live *b = &slot[order[i]];
        l->bytes += b->bytes;
        if (end) quarters |= 1u << (unsigned)((unsigned __int128)b->born * 4 / (end + 1));
    }
    l->growing = quarters == 15;
    r->facts.leaked_bytes += l->bytes;
    r->facts.leaked_blocks += l->blocks;
}

static bool leaks_more(const void *context, uint32_t a, uint32_t b) {
    const mnem_report_leak *l = context;
    return l[a].bytes != l[b].bytes ? l[a].bytes > l[b].bytes : a < b;
}

static mnem_status sort_leaks(mnem_report *r) {
    const size_t n = r->facts.leaks;
    uint32_t *order = in_order(n, leaks_more, r->leak);
    mnem_report_leak *sorted = mnem__alloc("report", (n + 1) * sizeof *sorted);
    const mnem_status status = order && sorted ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        for (size_t i = 0; i < n; i++) sorted[i] = r->leak[order[i]];
        mnem__free(r->leak);
        r->leak = sorted;
    } else {
        mnem__free(sorted);
    }
    mnem__free(order);
    return status;
}

static mnem_status list_leaks(mnem_report *r) {
    const size_t n = gather(&r->count.blocks);
    uint32_t *order = in_order(n, owner_then_birth, r->count.blocks.slot);
    size_t owners = 0;
    for (size_t i = 0; order && i < n; i++)
        owners +=
            !i || r->count.blocks.slot[order[i]].owner != r->count.blocks.slot[order[i - 1]].owner;
    r->leak = order ? mnem__alloc("report", (owners + 1) * sizeof *r->leak) : NULL;
    const mnem_status status = r->leak ? MNEM_OK : mnem__heap_status();
    for (size_t i = 0, to; status == MNEM_OK && i < n; i = to) {
        for (to = i + 1; to < n && r->count.blocks.slot[order[to]].owner ==
                                       r->count.blocks.slot[order[i]].owner;)
            to++;
        fill_leak(r, order, i, to);
    }
    mnem__free(order);
    return status == MNEM_OK ? sort_leaks(r) : status;
}

/* ---- operators ---- */

static bool takes_longer(const void *context, uint32_t a, uint32_t b) {
    const mnem__span_sum *s = context;
    return s[a].total != s[b].total ? s[a].total > s[b].total : a < b;
}

static mnem_status list_operators(mnem_report *r) {
    const mnem__spans *s = &r->count.spans;
    uint32_t *order = in_order(s->count, takes_longer, s->of);
    r->operators = mnem__alloc("report", (s->count + 1) * sizeof *r->operators);
    const mnem_status status = order && r->operators ? MNEM_OK : mnem__heap_status();
    for (uint32_t i = 0; status == MNEM_OK && i < s->count; i++) {
        const mnem__span_sum *o = &s->of[order[i]];
        if (!o->count) continue;
        r->operators[r->facts.ops++] =
            (mnem_report_operator){.name = r->source->name(r->source, o->name),
                                   .sort = mnem_span_text((mnem_span)o->sort),
                                   .count = o->count,
                                   .bytes = o->bytes,
                                   .multiply_adds = o->multiply_adds,
                                   .ns_total = o->total,
                                   .ns_longest = o->longest};
    }
    mnem__free(order);
    return status;
}

mnem_status mnem__report_lists(mnem_report *r) {
    mnem_report_facts *f = &r->facts;
    MNEM__TRY(list_owners(r, &r->count.accounts, &r->account, &f->accounts));
    MNEM__TRY(list_owners(r, &r->count.sites, &r->site, &f->sites));
    MNEM__TRY(list_leaks(r));
    MNEM__TRY(list_operators(r));
    f->account = r->account;
    f->site = r->site;
    if (!r->count.sited) f->sites = 0;
    f->leak = r->leak;
    f->op = r->operators;
    return MNEM_OK;
}
