/* source_workload.c: allocation traces (PyTorch snapshots, text) as a report's events.
 *
 * The idea: a workload is in memory already; its operations come one by one, and before each what
 * the snapshot says happened by then: memory that was taken from the device or given back, and
 * requests that failed. A block's account is its stream: the record knows no other.
 * Invariant: times never go back: what has none keeps the last one.
 * Cost: nothing but the workload. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "replay/replay_private.h"
#include "replay/snapshot_facts.h"
#include "sight/report/report_source.h"

enum { STREAM_NAMES = 64, STREAM_TEXT = 24 };

typedef struct workload_source {
    mnem__report_source base;
    mnem_workload *w;
    mnem_workload_info info;
    const mnem__snapshot_facts *facts; /* NULL: text */
    size_t op, change, failure, before;
    uint64_t us_first, at;
    mnem__number_map site_of; /* where a site's text lies → where the first like it does */
    char stream[STREAM_NAMES][STREAM_TEXT];
} workload_source;

static uint64_t us_of(const workload_source *s, size_t op) {
    return op < s->facts->time.count ? ((const uint64_t *)s->facts->time.p)[op] : 0;
}

static bool is_timed(const workload_source *s) {
    return s->facts && s->facts->timed;
}

/* The time of an operation, or the last that was known. */
static uint64_t time_of(workload_source *s, size_t op) {
    if (!is_timed(s)) return s->at = op > s->info.prelude ? op - s->info.prelude : 0;
    const uint64_t us = op < s->info.prelude ? 0 : us_of(s, op);
    if (us > s->us_first && (us - s->us_first) * 1000 > s->at) s->at = (us - s->us_first) * 1000;
    return s->at;
}

static mnem__report_event reserved(const mnem__reserved *r, uint64_t at, bool taken) {
    return (mnem__report_event){.what = MNEM__REPORT_RESERVE,
                                .account = -1,
                                .at = at,
                                .bytes = r->bytes,
                                .granted = taken,
                                .address = r->address,
                                .joined = r->expandable};
}

/* What was reserved when the record began: what is at its end, less what was taken since, and what
 * was given back since: sums over addresses need no order. */
static bool next_before(workload_source *s, mnem__report_event *e) {
    const mnem__snapshot_facts *f = s->facts;
    if (!f || s->before == f->segments.count + f->changes.count) return false;
    const size_t i = s->before++;
    const mnem__reserved *r = i < f->segments.count
                                  ? (const mnem__reserved *)f->segments.p + i
                                  : (const mnem__reserved *)f->changes.p + (i - f->segments.count);
    *e = reserved(r, 0, i < f->segments.count || !r->taken);
    e->before = true;
    return true;
}

static bool next_change(workload_source *s, mnem__report_event *e) {
    const mnem__snapshot_facts *f = s->facts;
    if (!f || s->change == f->changes.count) return false;
    const mnem__reserved *r = (const mnem__reserved *)f->changes.p + s->change;
    if (r->op > s->op) return false;
    s->change++;
    *e = reserved(r, s->at, r->taken);
    return true;
}

static bool next_failure(workload_source *s, mnem__report_event *e) {
    const mnem__snapshot_facts *f = s->facts;
    if (!f || s->failure == f->failures.count) return false;
    const mnem__failed *failed = (const mnem__failed *)f->failures.p + s->failure;
    if (failed->op > s->op) return false;
    s->failure++;
    *e = (mnem__report_event){.what = MNEM__REPORT_REFUSE,
                              .account = -1,
                              .why = -1,
                              .at = s->at,
                              .bytes = failed->bytes,
                              .site = failed->site};
    return true;
}

static void place(const workload_source *s, uint32_t block, mnem__report_event *e) {
    const mnem__snapshot_facts *f = s->facts;
    if (!f || block >= f->granted.count) return;
    const uint64_t granted = ((const uint64_t *)f->granted.p)[block];
    e->granted = granted ? granted : mnem__pytorch_round(&f->settings, e->bytes);
    e->address = ((const uint64_t *)f->address.p)[block];
}

/* Stacks that end in the same line are one site. */
static mnem_status unite_sites(workload_source *s) {
    mnem__number_map of_text = {0};
    bool enough = true;
    for (size_t i = 0; s->w->site_at && i < s->info.allocations && enough; i++) {
        const uint32_t at = s->w->site_at[i];
        const char *text = mnem__stack_text(s->w, at);
        if (mnem__number_get(&s->site_of, at) != MNEM__NUMBER_NONE) continue;
        uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
        for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        uint32_t first = mnem__number_get(&of_text, hash);
        if (first == MNEM__NUMBER_NONE || strcmp(mnem__stack_text(s->w, first), text) != 0)
            first = at;
        enough = mnem__number_set(&of_text, hash, first) &&
                 mnem__number_set(&s->site_of, at, *text ? first : 0);
    }
    mnem__number_fini(&of_text);
    return enough ? MNEM_OK : mnem__heap_status();
}

static mnem_status workload_next(mnem__report_source *self, mnem__report_event *e) {
    workload_source *s = (workload_source *)self;
    if (next_before(s, e) || next_change(s, e) || next_failure(s, e)) return MNEM_OK;
    if (s->op == s->info.count) return MNEM_NOT_FOUND;
    const mnem_workload_op *o = &s->info.ops[s->op];
    *e = (mnem__report_event){.what = o->bytes ? MNEM__REPORT_ALLOC : MNEM__REPORT_FREE,
                              .account = (int32_t)mnem__min_u32(o->stream, STREAM_NAMES - 1),
                              .at = time_of(s, s->op),
                              .id = o->block,
                              .bytes = o->bytes,
                              .before = s->op < s->info.prelude};
    if (o->bytes) place(s, o->block, e);
    if (o->bytes && s->w->site_at) e->site = mnem__number_get(&s->site_of, s->w->site_at[o->block]);
    s->op++;
    return MNEM_OK;
}

static mnem_status workload_rewind(mnem__report_source *self) {
    workload_source *s = (workload_source *)self;
    s->op = s->change = s->failure = s->before = 0;
    s->at = 0;
    return MNEM_OK;
}

static void workload_account(mnem__report_source *self, int32_t account, const char **kind,
                             const char **tag) {
    workload_source *s = (workload_source *)self;
    char *text = s->stream[account];
    if (!*text)
        snprintf(text, STREAM_TEXT, "stream %d%s", account,
                 account == STREAM_NAMES - 1 ? " and on" : "");
    *kind = "device";
    *tag = text;
}

static const char *workload_site(mnem__report_source *self, uint32_t site) {
    const workload_source *s = (workload_source *)self;
    return s->w->site_at ? mnem__stack_text(s->w, site) : "";
}

static const char *workload_name(mnem__report_source *self, uint32_t name) {
    (void)self, (void)name;
    return "";
}

static void workload_about(mnem__report_source *self, mnem__report_about *about) {
    const workload_source *s = (workload_source *)self;
    const bool reserved = s->facts && (s->facts->segments.count || s->facts->changes.count);
    *about = (mnem__report_about){.format = s->info.format,
                                  .program = "",
                                  .clocked = is_timed(s),
                                  .blocks = true,
                                  .places = reserved,
                                  .dropped = s->info.dropped,
                                  .threads = 1};
}

static void workload_close(mnem__report_source *self) {
    workload_source *s = (workload_source *)self;
    mnem__number_fini(&s->site_of);
    mnem_workload_close(s->w);
    mnem__free(s);
}

mnem_status mnem__report_open_workload(const char *path, const mnem_report_options *options,
                                       mnem__report_source **source) {
    const mnem_workload_options o = {options->device_given, options->device, options->progress};
    workload_source *s = mnem__calloc("report", 1, sizeof *s);
    *source = NULL;
    if (!s) return mnem__heap_status();
    const mnem_status status = mnem_workload_open(path, &o, &s->w);
    if (status != MNEM_OK) {
        mnem__free(s);
        return status;
    }
    mnem_workload_info_get(s->w, &s->info);
    s->facts = s->w->facts;
    for (size_t i = s->info.prelude; is_timed(s) && i < s->info.count && !s->us_first; i++)
        s->us_first = us_of(s, i);
    s->base =
        (mnem__report_source){workload_next, workload_rewind, workload_account, NULL,
                              workload_site, workload_name,   workload_about,   workload_close};
    const mnem_status united = unite_sites(s);
    if (united == MNEM_OK)
        *source = &s->base;
    else
        workload_close(&s->base);
    return united;
}
