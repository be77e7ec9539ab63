/* report_draw.c: what a page draws: never events, but series in buckets, the largest boxes, and a
 * raster of all.
 *
 * The idea: the facts are known, so one more pass fills arrays of a fixed size: which accounts and
 * sites have a series of their own, how long the record is, and which addresses there are (that
 * takes a pass of its own, where blocks have any). Whatever the record's length, the page gets
 * 4096 buckets of at most 32 tags and 64 sites, 20,000 blocks and spans, and 1024 by 256 cells.
 * Cost: 8 MiB and what is live at one time; two passes. */
#include <string.h>

#include "base/error.h"
#include "base/sort.h"
#include "sight/report/page_boxes.h"
#include "sight/report/page_raster.h"
#include "sight/report/page_series.h"
#include "sight/report/report_private.h"

enum { TAGS_MOST = 32, SITES_MOST = 64, REFUSALS_MOST = 256, LEVELS = 4 };
enum { LEVEL_LIVE, LEVEL_GRANTED, LEVEL_RESERVED, LEVEL_RESIDENT };

typedef struct refusal_mark {
    uint64_t at, bytes;
    int32_t why;
} refusal_mark;

typedef struct drawing {
    mnem_report *r;
    mnem__count count; /* once more, event by event */
    mnem__series tags, sites, levels;
    uint32_t *tag_of, *site_of; /* holder → series, or the last series for all others */
    uint32_t tags_named, sites_named;
    uint64_t tag_rest; /* bytes of those without a series */
    mnem__boxes blocks, spans;
    mnem__regions regions;
    mnem__raster raster;
    refusal_mark refusal[REFUSALS_MOST];
    uint32_t refusals;
} drawing;

static uint32_t bucket_of(const drawing *d, uint64_t at) {
    return (uint32_t)((unsigned __int128)at * MNEM__BUCKETS / (d->r->facts.duration + 1));
}

/* ---- who has a series ---- */

static bool holds_more(const void *context, uint32_t a, uint32_t b) {
    const mnem__holders *h = context;
    return h->of[a].most != h->of[b].most ? h->of[a].most > h->of[b].most : a < b;
}

/* Numbers the first `most` by their own peaks, of those that ever held anything (accounts of pools
 * don't where ledgers are told of); the others get that number + 0. */
static mnem_status choose(const mnem__holders *h, uint32_t most, uint32_t **series,
                          uint32_t *named) {
    uint32_t *order = mnem__alloc("report", (h->count + 1) * sizeof *order);
    *series = mnem__alloc("report", (h->count + 1) * sizeof **series);
    uint32_t holding = 0;
    for (uint32_t i = 0; i < h->count; i++) holding += h->of[i].most > 0;
    *named = holding < most ? holding : most;
    const mnem_status status = order && *series ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        for (uint32_t i = 0; i < h->count; i++) order[i] = i;
        mnem__sort(order, h->count, holds_more, h);
        for (uint32_t i = 0; i < h->count; i++) (*series)[order[i]] = i < *named ? i : *named;
    }
    mnem__free(order);
    return status;
}

/* ---- blocks ---- */

static void tell_block(drawing *d, const mnem__live *b, uint64_t at) {
    const uint64_t bytes = b->granted ? b->granted : b->bytes;
    if (!d->regions.count || !b->granted) return;
    const mnem__box box = {b->born, at, mnem__regions_place(&d->regions, b->address), bytes,
                           d->site_of[b->owner]};
    mnem__boxes_tell(&d->blocks, &box);
    mnem__raster_add(&d->raster, box.from, box.to, box.low, bytes);
}

static void tell_site(drawing *d, uint32_t owner, uint32_t bucket) {
    const uint32_t s = d->site_of[owner];
    if (s < d->sites_named) mnem__series_set(&d->sites, s, bucket, d->count.sites.of[owner].bytes);
}

static void tell_tag(drawing *d, uint32_t account, uint64_t before, uint32_t bucket) {
    const uint32_t s = d->tag_of[account];
    const uint64_t now = d->count.accounts.of[account].bytes;
    if (s < d->tags_named) {
        mnem__series_set(&d->tags, s, bucket, now);
        return;
    }
    d->tag_rest += now - before;
    mnem__series_set(&d->tags, s, bucket, d->tag_rest);
}

static void tell_levels(drawing *d, uint32_t bucket) {
    const mnem__count *c = &d->count;
    const uint64_t reserved = (int64_t)c->reserved.now > 0 ? c->reserved.now : 0;
    const uint64_t value[LEVELS] = {c->live.now, c->granted.now, reserved, c->resident};
    for (uint32_t i = 0; i < LEVELS; i++)
        if (d->levels.now[i] != value[i] || !d->levels.until[i])
            mnem__series_set(&d->levels, i, bucket, value[i]);
}

/* ---- events ---- */

static void tell_refusal(drawing *d, const mnem__report_event *e,
                         const mnem_report_refused before[MNEM_REPORT_REFUSALS]) {
    int32_t why = 0;
    while (why < MNEM_REPORT_REFUSALS - 1 && d->count.refused[why].count == before[why].count)
        why++;
    if (d->refusals < REFUSALS_MOST)
        d->refusal[d->refusals++] = (refusal_mark){e->at, e->bytes, why};
}

static mnem_status draw_block(drawing *d, const mnem__report_event *e, uint32_t bucket) {
    mnem__live *b = mnem__live_find(&d->count.blocks, e->id);
    if (e->what == MNEM__REPORT_FREE && !b) return MNEM_OK;
    if (b) tell_block(d, b, e->at);
    uint32_t owner = b ? b->owner : 0, account = b ? b->account : 0;
    uint64_t before = b ? d->count.accounts.of[account].bytes : 0;
    if (e->what == MNEM__REPORT_ALLOC && !b) {
        account = mnem__holder_get(&d->count.accounts, e->account, 0);
        if (account == MNEM__HOLDER_NONE) return mnem__heap_status();
        before = d->count.accounts.of[account].bytes;
    }
    MNEM__TRY(mnem__count_event(&d->count, e));
    if (e->what == MNEM__REPORT_ALLOC) {
        b = mnem__live_find(&d->count.blocks, e->id);
        owner = b->owner;
        account = b->account;
    }
    tell_site(d, owner, bucket);
    if (!d->r->count.charged) tell_tag(d, account, before, bucket);
    return MNEM_OK;
}

static mnem_status draw_charge(drawing *d, const mnem__report_event *e, uint32_t bucket) {
    const uint32_t i = mnem__holder_get(&d->count.accounts, e->account, 0);
    if (i == MNEM__HOLDER_NONE) return mnem__heap_status();
    const uint64_t before = d->count.charged ? d->count.accounts.of[i].bytes : 0;
    MNEM__TRY(mnem__count_event(&d->count, e));
    tell_tag(d, i, before, bucket);
    return MNEM_OK;
}

static mnem_status draw_span(drawing *d, const mnem__report_event *e) {
    bool ended;
    mnem__span span;
    MNEM__TRY(mnem__count_span(&d->count, e, &ended, &span));
    if (!ended) return MNEM_OK;
    const mnem__box box = {span.from, span.to, (uint64_t)span.lane << 8 | span.depth, 0, span.name};
    mnem__boxes_tell(&d->spans, &box);
    return MNEM_OK;
}

static mnem_status draw_event(drawing *d, const mnem__report_event *e) {
    const uint32_t bucket = bucket_of(d, e->at);
    mnem_report_refused before[MNEM_REPORT_REFUSALS];
    mnem_status status = MNEM_OK;
    switch (e->what) {
    case MNEM__REPORT_ALLOC:
    case MNEM__REPORT_FREE: status = draw_block(d, e, bucket); break;
    case MNEM__REPORT_CHARGE: status = draw_charge(d, e, bucket); break;
    case MNEM__REPORT_BEGIN:
    case MNEM__REPORT_END: return draw_span(d, e);
    case MNEM__REPORT_REFUSE:
        memcpy(before, d->count.refused, sizeof before);
        status = mnem__count_event(&d->count, e);
        tell_refusal(d, e, before);
        break;
    default: status = mnem__count_event(&d->count, e);
    }
    if (status == MNEM_OK && !(e->what == MNEM__REPORT_RESERVE && e->before))
        tell_levels(d, bucket);
    return status;
}

/* Calls for every event from the first on. */
static mnem_status each(drawing *d, mnem_status (*what)(drawing *, const mnem__report_event *)) {
    mnem__report_event e;
    mnem__report_source *source = d->r->source;
    mnem_status status = source->rewind(source);
    for (uint64_t i = 0; status == MNEM_OK && i < d->r->facts.events; i++) {
        status = source->next(source, &e);
        if (status == MNEM_OK) status = what(d, &e);
    }
    return status == MNEM_NOT_FOUND ? MNEM_OK : status;
}

static mnem_status add_region(drawing *d, const mnem__report_event *e) {
    if (e->what != MNEM__REPORT_ALLOC || !e->granted) return MNEM_OK;
    return mnem__regions_add(&d->regions, e->address, e->granted);
}

static mnem_status draw_all(drawing *d) {
    const mnem_report *r = d->r;
    d->count.charged = r->count.charged; /* from the start, as the facts are */
    MNEM__TRY(choose(&r->count.accounts, TAGS_MOST - 1, &d->tag_of, &d->tags_named));
    MNEM__TRY(choose(&r->count.sites, SITES_MOST - 1, &d->site_of, &d->sites_named));
    MNEM__TRY(mnem__series_init(&d->tags, d->tags_named + 1, true));
    MNEM__TRY(mnem__series_init(&d->sites, d->sites_named, false));
    MNEM__TRY(mnem__series_init(&d->levels, LEVELS, true));
    MNEM__TRY(mnem__boxes_init(&d->blocks));
    MNEM__TRY(mnem__boxes_init(&d->spans));
    if (r->count.allocations || r->facts.leaks || r->facts.bytes_before) {
        MNEM__TRY(each(d, add_region));
        MNEM__TRY(mnem__regions_seal(&d->regions));
    }
    MNEM__TRY(mnem__raster_init(&d->raster, r->facts.duration, mnem__regions_bytes(&d->regions)));
    MNEM__TRY(each(d, draw_event));
    for (size_t i = 0; i < d->count.blocks.room; i++)
        if (d->count.blocks.slot[i].used)
            tell_block(d, &d->count.blocks.slot[i], r->facts.duration);
    return MNEM_OK;
}

/* ---- as text ---- */

/* Kind, tag, site, bytes at the peak. */
static void write_names(drawing *d, mnem__code *c, const mnem__holders *h, const uint32_t *series,
                        uint32_t named) {
    mnem__report_source *source = d->r->source;
    bool first = true;
    mnem__code_text(c, "[");
    for (uint32_t s = 0; s < named; s++)
        for (uint32_t i = 0; i < h->count; i++) {
            const char *kind, *tag;
            uint64_t bytes, blocks;
            if (series[i] != s) continue;
            source->account(source, h->of[i].account, &kind, &tag);
            mnem__code_text(c, first ? "[" : ",\n[");
            mnem__code_quoted(c, kind);
            mnem__code_text(c, ",");
            mnem__code_quoted(c, tag);
            mnem__code_text(c, ",");
            mnem__code_quoted(c, h->of[i].site ? source->site(source, h->of[i].site) : "");
            mnem__holder_peak(h, i, &bytes, &blocks);
            mnem__code_text(c, ",%llu]", (unsigned long long)bytes);
            first = false;
            break;
        }
    mnem__code_text(c, "]");
}

/* The names of spans that are drawn, by number. */
static void write_span_names(drawing *d, mnem__code *c) {
    const mnem__spans *s = &d->count.spans;
    mnem__report_source *source = d->r->source;
    bool first = true;
    mnem__code_text(c, "{");
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->of[i].count) continue;
        mnem__code_text(c, "%s\"%u\":", first ? "" : ",", i);
        mnem__code_quoted(c, source->name(source, i));
        first = false;
    }
    mnem__code_text(c, "}");
}

static void write_refusals(const drawing *d, mnem__code *c) {
    mnem__code_text(c, "[");
    for (uint32_t i = 0; i < d->refusals; i++)
        mnem__code_text(c, "%s[%llu,%llu,%d]", i ? "," : "", (unsigned long long)d->refusal[i].at,
                        (unsigned long long)d->refusal[i].bytes, (int)d->refusal[i].why);
    mnem__code_text(c, "]");
}

static mnem_status write_all(drawing *d, mnem__code *c) {
    mnem__code_text(
        c, "{\"buckets\":%d,\"duration\":%llu,\"clocked\":%s,\n\"tags\":", MNEM__BUCKETS,
        (unsigned long long)d->r->facts.duration, d->r->facts.clocked ? "true" : "false");
    write_names(d, c, &d->r->count.accounts, d->tag_of, d->tags_named);
    mnem__code_text(c, ",\n\"tag_series\":");
    mnem__series_write(&d->tags, c);
    mnem__code_text(c, ",\n\"levels\":");
    mnem__series_write(&d->levels, c);
    mnem__code_text(c, ",\n\"sites\":");
    write_names(d, c, &d->r->count.sites, d->site_of, d->sites_named);
    mnem__code_text(c, ",\n\"site_series\":");
    mnem__series_write(&d->sites, c);
    mnem__code_text(c, ",\n\"blocks\":{\"all\":%llu,\"shown\":%u,\"bytes\":%llu,\"box\":",
                    (unsigned long long)d->blocks.all, d->blocks.count,
                    (unsigned long long)mnem__regions_bytes(&d->regions));
    MNEM__TRY(mnem__boxes_write(&d->blocks, c));
    mnem__code_text(c, ",\n\"width\":%d,\"height\":%d,\"raster\":", MNEM__RASTER_WIDTH,
                    MNEM__RASTER_HEIGHT);
    mnem__raster_write(&d->raster, c);
    mnem__code_text(c, "},\n\"spans\":{\"all\":%llu,\"shown\":%u,\"lanes\":%u,\"box\":",
                    (unsigned long long)d->spans.all, d->spans.count, d->count.spans.stacks);
    MNEM__TRY(mnem__boxes_write(&d->spans, c));
    mnem__code_text(c, ",\n\"names\":");
    write_span_names(d, c);
    mnem__code_text(c, "},\n\"refusals\":");
    write_refusals(d, c);
    mnem__code_text(c, "}\n");
    return MNEM_OK;
}

static void fini(drawing *d) {
    mnem__count_fini(&d->count);
    mnem__series_fini(&d->tags);
    mnem__series_fini(&d->sites);
    mnem__series_fini(&d->levels);
    mnem__boxes_fini(&d->blocks);
    mnem__boxes_fini(&d->spans);
    mnem__regions_fini(&d->regions);
    mnem__raster_fini(&d->raster);
    mnem__free(d->tag_of);
    mnem__free(d->site_of);
}

mnem_status mnem_report_draw(mnem_report *r, const mnem_report_sink *sink) {
    mnem__code code = {.sink = sink};
    drawing *d = mnem__calloc("report", 1, sizeof *d);
    if (!d) return mnem__heap_status();
    d->r = r;
    mnem_status status = draw_all(d);
    if (status == MNEM_OK) status = write_all(d, &code);
    if (status == MNEM_OK && !mnem__code_flush(&code))
        status = mnem__fail(
            MNEM_IO,
            "report: the page is not complete: the caller's write function returned false");
    fini(d);
    mnem__free(d);
    return status;
}
