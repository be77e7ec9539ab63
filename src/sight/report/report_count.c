/* report_count.c: events into sums: what is live, who holds it, since when.
 *
 * The idea: one pass. Where a ledger told of charges, its accounts are what is live, and blocks lie
 * within them (a pool's are pieces of what the pool was charged for); else blocks are what is live.
 * Levels are summed over time as they were between events.
 * Invariant: live is the sum of all accounts' bytes. Cost: a block's slot while it lives, a holder
 * for each account and site. */
#include "sight/report/report_private.h"

#include "base/error.h"
#include "mnem/trace_read.h"

static void pass_time(mnem__count *c, uint64_t at) {
    const uint64_t span = at > c->at ? at - c->at : 0;
    if (!span) return;
    c->live.sum += (unsigned __int128)c->live.now * span;
    c->granted.sum += (unsigned __int128)c->granted.now * span;
    if ((int64_t)c->reserved.now > 0) c->reserved.sum += (unsigned __int128)c->reserved.now * span;
    c->at = at;
}

static void keep_most(mnem__integral *i) {
    if ((int64_t)i->now > (int64_t)i->most) i->most = i->now;
}

static void keep_peak(mnem__integral *i) {
    i->at_peak = (int64_t)i->now > 0 ? i->now : 0;
}

static void live_is(mnem__count *c, uint64_t bytes) {
    c->live.now = bytes;
    if (bytes <= c->live.most) return;
    c->live.most = bytes;
    c->peak_at = c->at;
    c->peak_event = c->events;
    c->resident_at_peak = c->resident;
    keep_peak(&c->live);
    keep_peak(&c->granted);
    keep_peak(&c->reserved);
    mnem__holders_peak(&c->accounts);
    mnem__holders_peak(&c->sites);
}

/* The first charge: what blocks were summed to is forgotten, they lie within accounts. */
static void begin_charges(mnem__count *c) {
    if (c->charged) return;
    c->charged = true;
    for (uint32_t i = 0; i < c->accounts.count; i++) mnem__holder_set(&c->accounts, i, 0, 0);
    c->live = (mnem__integral){0};
}

static mnem_status charge(mnem__count *c, const mnem__report_event *e) {
    begin_charges(c);
    const uint32_t i = mnem__holder_get(&c->accounts, e->account, 0);
    if (i == MNEM__HOLDER_NONE) return mnem__heap_status();
    const uint64_t live = c->live.now - c->accounts.of[i].bytes + e->bytes;
    if (e->before) c->bytes_before += e->bytes;
    mnem__holder_set(&c->accounts, i, e->bytes, 0);
    live_is(c, live);
    return MNEM_OK;
}

static void hold(mnem__holders *h, uint32_t i, uint64_t bytes, bool taken) {
    const mnem__holder *o = &h->of[i];
    if (taken)
        mnem__holder_set(h, i, o->bytes + bytes, o->blocks + 1);
    else
        mnem__holder_set(h, i, o->bytes - bytes, o->blocks - 1);
}

static void give(mnem__count *c, mnem__live *b) {
    hold(&c->sites, b->owner, b->bytes, false);
    c->granted.now -= b->granted;
    if (!c->charged) {
        hold(&c->accounts, b->account, b->bytes, false);
        c->live.now -= b->bytes;
    }
    mnem__live_remove(&c->blocks, b);
}

static mnem_status count_taken(mnem__count *c, const mnem__report_event *e) {
    mnem__live *b = mnem__live_find(&c->blocks, e->id);
    if (b) give(c, b); /* its end was lost */
    b = mnem__live_add(&c->blocks, e->id);
    const uint32_t account = mnem__holder_get(&c->accounts, e->account, 0);
    const uint32_t owner = mnem__holder_get(&c->sites, e->account, e->site);
    if (!b || account == MNEM__HOLDER_NONE || owner == MNEM__HOLDER_NONE)
        return mnem__heap_status();
    *b = (mnem__live){e->id,   e->bytes, e->granted, e->address, e->at,
                      account, owner,    true,       e->before};
    c->allocations += !e->before;
    c->sited = c->sited || e->site;
    if (e->before) c->bytes_before += e->bytes;
    hold(&c->sites, owner, e->bytes, true);
    keep_most(&c->reserved);
    c->granted.now += e->granted;
    keep_most(&c->granted);
    if (c->charged) return MNEM_OK;
    hold(&c->accounts, account, e->bytes, true);
    live_is(c, c->live.now + e->bytes);
    return MNEM_OK;
}

static void refuse(mnem__count *c, const mnem__report_event *e) {
    int32_t why = e->why;
    const int64_t free = (int64_t)(c->reserved.now - c->granted.now);
    if (why < 0 || why >= MNEM_REPORT_REFUSALS)
        why = free >= (int64_t)e->bytes ? MNEM_REPORT_FRAGMENTATION : MNEM_REPORT_CAPACITY;
    mnem_report_refused *r = &c->refused[why];
    r->count++;
    r->bytes_last = e->bytes;
    if (e->bytes > r->bytes_largest) r->bytes_largest = e->bytes;
}

static void reserve(mnem__count *c, const mnem__report_event *e) {
    c->reserved.now += e->granted ? e->bytes : 0 - e->bytes;
    if (!e->before) keep_most(&c->reserved);
}

static void reside(mnem__count *c, const mnem__report_event *e) {
    c->resident = e->bytes;
    if (e->bytes > c->resident_most) c->resident_most = e->bytes;
    const int64_t beyond = (int64_t)(e->bytes - c->live.now);
    if (!c->sampled || beyond > c->unaccounted) c->unaccounted = beyond;
    c->sampled = true;
}

/* What the ledger said that it had beside what its accounts come to here. */
static void compare(mnem__count *c, const mnem__report_event *e) {
    uint64_t bytes = 0;
    if (!c->source || !c->source->within) return;
    for (uint32_t i = 0; i < c->accounts.count; i++)
        if (c->source->within(c->source, c->accounts.of[i].account, e->id, e->why))
            bytes += c->accounts.of[i].bytes;
    c->sample_differs = c->sample_differs || bytes != e->bytes;
    if (e->why >= 0) return;
    c->samples++;
    c->samples_equal += !c->sample_differs;
    c->sample_differs = false;
}

mnem_status mnem__count_span(mnem__count *c, const mnem__report_event *e, bool *ended,
                             mnem__span *span) {
    MNEM__TRY(mnem__spans_tell(&c->spans, e, ended, span));
    if (!*ended || span->sort != MNEM_SPAN_READ) return MNEM_OK;
    c->disk_bytes += span->bytes;
    c->disk_ns += span->to - span->from;
    c->disk_reads++;
    return MNEM_OK;
}

mnem_status mnem__count_event(mnem__count *c, const mnem__report_event *e) {
    bool ended;
    mnem__span span;
    mnem__live *b;
    pass_time(c, e->at);
    c->events++;
    switch (e->what) {
    case MNEM__REPORT_CHARGE: return charge(c, e);
    case MNEM__REPORT_ALLOC: return count_taken(c, e);
    case MNEM__REPORT_FREE:
        b = mnem__live_find(&c->blocks, e->id);
        if (b) give(c, b);
        return MNEM_OK;
    case MNEM__REPORT_RESERVE: reserve(c, e); return MNEM_OK;
    case MNEM__REPORT_REFUSE: refuse(c, e); return MNEM_OK;
    case MNEM__REPORT_BEGIN:
    case MNEM__REPORT_END: return mnem__count_span(c, e, &ended, &span);
    case MNEM__REPORT_RESIDENT: reside(c, e); return MNEM_OK;
    case MNEM__REPORT_LEFT: c->runs_left_out = e->bytes; return MNEM_OK;
    case MNEM__REPORT_SAMPLE: compare(c, e); return MNEM_OK;
    case MNEM__REPORT_TICK: return MNEM_OK;
    }
    return MNEM_OK;
}

void mnem__count_fini(mnem__count *c) {
    mnem__live_fini(&c->blocks);
    mnem__holders_fini(&c->accounts);
    mnem__holders_fini(&c->sites);
    mnem__spans_fini(&c->spans);
}
