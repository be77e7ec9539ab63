/* report_create.c: a trace as numbers: opens the source, counts its events, and makes the facts.
 *
 * The idea: whoever knows the format turns it into events (report_source.h); the rest is the same
 * for all. Cost: one pass; with addresses a second one, up to the peak. */
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "sight/report/report_private.h"

enum { TELL_EVERY = 1 << 16 };

static mnem_status count_all(mnem_report *r) {
    mnem__report_event e;
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK) {
        status = r->source->next(r->source, &e);
        if (status != MNEM_OK) break;
        status = mnem__count_event(&r->count, &e);
        if (status == MNEM_OK && r->count.events % TELL_EVERY == 0)
            status = mnem__progress_tell(&r->options.progress, "counting", r->count.events, 0)
                         ? MNEM_OK
                         : mnem__fail(MNEM_CANCELLED, "report: stopped by the caller");
    }
    return status == MNEM_NOT_FOUND ? MNEM_OK : status;
}

static mnem_report_level level_of(const mnem_report *r, const mnem__integral *i, bool known) {
    const double span = (double)r->count.at;
    if (!known) return (mnem_report_level){0};
    return (mnem_report_level){true, i->at_peak, i->most,
                               span > 0 ? (double)i->sum / span : (double)i->now};
}

static void fill_facts(mnem_report *r) {
    const mnem__count *c = &r->count;
    const mnem__report_about *a = &r->about;
    mnem_report_facts *f = &r->facts;
    *f = (mnem_report_facts){.path = r->path,
                             .format = a->format,
                             .program = a->program,
                             .roofs = a->roofs,
                             .clocked = a->clocked,
                             .duration = c->at,
                             .events = c->events,
                             .allocations = c->allocations,
                             .threads = a->threads,
                             .rank = a->rank,
                             .ranks = a->ranks,
                             .clock = a->clock,
                             .blocks = a->blocks || c->allocations || c->blocks.count,
                             .dropped = a->dropped,
                             .budget_bytes = a->budget_bytes,
                             .bytes_peak = c->live.most,
                             .peak_at = c->peak_at,
                             .bytes_end = c->live.now,
                             .bytes_before = c->bytes_before,
                             .resident_most = c->resident_most,
                             .resident_at_peak = c->resident_at_peak,
                             .unaccounted_known = c->sampled,
                             .unaccounted_bytes = c->unaccounted,
                             .samples = c->samples,
                             .samples_equal = c->samples_equal,
                             .predicted_bytes = a->predicted_bytes,
                             .live = level_of(r, &c->live, true),
                             .granted = level_of(r, &c->granted, a->places),
                             .reserved = level_of(r, &c->reserved, a->places),
                             .disk_bytes = c->disk_bytes,
                             .disk_ns = c->disk_ns,
                             .disk_reads = c->disk_reads,
                             .runs_left_out = c->runs_left_out};
    memcpy(f->refused, c->refused, sizeof f->refused);
}

static mnem_status make(mnem_report *r, const char *path) {
    r->path = mnem__strndup("report", path, strlen(path));
    if (!r->path) return mnem__heap_status();
    mnem_status status = mnem__report_open_trace(path, &r->options, &r->source);
    if (status == MNEM_UNSUPPORTED)
        status = mnem__report_open_workload(path, &r->options, &r->source);
    if (status != MNEM_OK) return status;
    r->count.source = r->source;
    MNEM__TRY(count_all(r));
    r->source->about(r->source, &r->about);
    fill_facts(r);
    MNEM__TRY(mnem__report_lists(r));
    return mnem__report_hole(r);
}

mnem_status mnem_report_create(const char *path, const mnem_report_options *options,
                               mnem_report **report) {
    mnem_report *r = mnem__calloc("report", 1, sizeof *r);
    *report = NULL;
    if (!r) return mnem__heap_status();
    if (options) r->options = *options;
    const mnem_status status = make(r, path);
    if (status == MNEM_OK)
        *report = r;
    else
        mnem_report_destroy(r);
    return status;
}

void mnem_report_destroy(mnem_report *r) {
    if (!r) return;
    mnem__count_fini(&r->count);
    if (r->source) r->source->close(r->source);
    mnem__free(r->account);
    mnem__free(r->site);
    mnem__free(r->leak);
    mnem__free(r->operators);
    mnem__free(r->path);
    mnem__free(r);
}

const mnem_report_facts *mnem_report_facts_get(const mnem_report *r) {
    return &r->facts;
}
