/* api_metrics.c: GET /metrics, in OpenMetrics' text: what the scheduler counts, the ledger, the
 * process. Dashboards of vLLM's find its names too where that is asked for (--metrics-compat). */
#include <stddef.h>

#include "server/api/api_private.h"
#include "server/open_metrics.h"

/* ---- a number of the scheduler, by where it is ---- */

typedef enum form { GAUGE_INT, GAUGE, COUNTER, HISTOGRAM } form;

typedef struct metric {
    const char *name; /* of a counter without _total */
    const char *vllm; /* its name there; NULL: it has none */
    form form;
    size_t at; /* in mnem_scheduler_stats */
    const char *help;
} metric;

#define AT(field) offsetof(mnem_scheduler_stats, field)
static const metric metrics[] = {
    {"num_requests_running", "num_requests_running", GAUGE_INT, AT(running),
     "Requests that are running"},
    {"num_requests_waiting", "num_requests_waiting", GAUGE_INT, AT(waiting),
     "Requests that are waiting in the queue"},
    {"num_requests_preempted", NULL, GAUGE_INT, AT(preempted), "Requests that are preempted now"},
    {"queue_bytes", NULL, GAUGE, AT(queue_bytes), "Memory of the requests in the queue, in bytes"},
    {"num_preemptions", "num_preemptions", COUNTER, AT(preemptions),
     "Preemptions of running requests"},
    {"prompt_tokens", "prompt_tokens", COUNTER, AT(prompt_tokens), "Prompt tokens of all requests"},
    {"generation_tokens", "generation_tokens", COUNTER, AT(tokens), "Tokens generated"},
    {"prefix_cache_queries", "prefix_cache_queries", COUNTER, AT(prefix_queries),
     "Prompt tokens looked up in the prefix cache"},
    {"prefix_cache_hits", "prefix_cache_hits", COUNTER, AT(prefix_hits),
     "Prompt tokens found in the prefix cache"},
    {"recomputed_tokens", NULL, COUNTER, AT(tokens_recomputed),
     "Tokens recomputed after a preemption"},
    {"evicted_pages", NULL, COUNTER, AT(evicted_pages),
     "KV cache pages evicted from the prefix cache"},
    {"requests_refused_full", NULL, COUNTER, AT(refused_full),
     "Requests refused because the queue was full"},
    {"requests_refused_budget", NULL, COUNTER, AT(refused_budget),
     "Requests refused because they need more memory than the budget has"},
    {"steps", NULL, COUNTER, AT(steps), "Engine steps"},
    {"step_seconds", NULL, HISTOGRAM, AT(step), "Duration of one engine step in seconds"},
    {"time_to_first_token_seconds", "time_to_first_token_seconds", HISTOGRAM, AT(first_token),
     "Time from the arrival of a request to its first token in seconds"},
    {"inter_token_latency_seconds", "inter_token_latency_seconds", HISTOGRAM, AT(between_tokens),
     "Time between two tokens of a request in seconds"},
    {"e2e_request_latency_seconds", "e2e_request_latency_seconds", HISTOGRAM, AT(whole),
     "Time from the arrival of a request to its end in seconds"},
    {"request_queue_time_seconds", "request_queue_time_seconds", HISTOGRAM, AT(queued),
     "Time that a request waited in the queue in seconds"},
    {"request_prefill_time_seconds", "request_prefill_time_seconds", HISTOGRAM, AT(prompt),
     "Time that a request spent in prefill in seconds"},
    {"request_decode_time_seconds", "request_decode_time_seconds", HISTOGRAM, AT(generating),
     "Time that a request spent in decode in seconds"},
};
#undef AT

static void add_histogram(mnem_histogram *sum, const mnem_histogram *h) {
    sum->count += h->count;
    sum->sum += h->sum;
    for (int i = 0; i < MNEM_HISTOGRAM_BUCKETS; i++) sum->bucket[i] += h->bucket[i];
}

/* ---- one number of each model ---- */

enum { LABELS = 4 };
/* The output and the prefix of names. A server with several models adds the label "model" to each
 * sample. */
typedef struct writer {
    const api *a;
    open_metrics *out;
    const char *prefix;
} writer;

/* The scheduler whose numbers this name shows: names that share one show its numbers once. */
static const mnem_scheduler *shown_scheduler(const api_slot *slot) {
    return slot->served && !slot->served->shares ? slot->served->scheduler : NULL;
}

/* The counts of a model since the server's start, over its earlier schedulers and the present one.
 * false: it isn't loaded, so it has no gauges. */
static bool stats_of(const api_slot *slot, mnem_scheduler_stats *stats) {
    const mnem_scheduler *scheduler = shown_scheduler(slot);
    *stats = (mnem_scheduler_stats){0};
    if (scheduler) mnem_scheduler_stats_get(scheduler, stats);
    api_stats_add(stats, &slot->past);
    return scheduler != NULL;
}

/* Whether a model has samples: one of several models has none before its first load, and none while
 * another name shows them. */
static bool has_numbers(const writer *w, const api_slot *slot) {
    return !api_has_several(w->a) || (slot->loads > 0 && !slot->listing.shares_with);
}

static const open_metrics_label *labels_of(const writer *w, const api_slot *slot,
                                           open_metrics_label labels[LABELS]) {
    size_t n = 0;
    while (labels[n].name) n++;
    if (api_has_several(w->a)) labels[n] = (open_metrics_label){"model", slot->listing.name};
    return labels;
}

#define NO_LABELS              ((open_metrics_label[LABELS]){{0}})
#define ONE_LABEL(name, value) ((open_metrics_label[LABELS]){{name, value}})
#define TWO_LABELS(name, value, more, other)                                                       \
    ((open_metrics_label[LABELS]){{name, value}, {more, other}})

static void put_value(const writer *w, const metric *m, const api_slot *slot) {
    mnem_scheduler_stats stats;
    const bool loaded = stats_of(slot, &stats);
    if (!has_numbers(w, slot)) return;
    const char *at = (const char *)&stats + m->at;
    const open_metrics_label *labels = labels_of(w, slot, NO_LABELS);
    if (api_has_several(w->a) && !loaded && m->form <= GAUGE) return;
    if (m->form == HISTOGRAM)
        open_metrics_histogram(w->out, labels, (const mnem_histogram *)at);
    else if (m->form == GAUGE_INT)
        open_metrics_count(w->out, labels, (uint64_t)(*(const int32_t *)at));
    else
        open_metrics_count(w->out, labels, *(const uint64_t *)at);
}

static void put_metric(const writer *w, const metric *m, const char *name) {
    static const open_metrics_type types[] = {OPEN_METRICS_GAUGE, OPEN_METRICS_GAUGE,
                                              OPEN_METRICS_COUNTER, OPEN_METRICS_HISTOGRAM};
    open_metrics_family(w->out, w->prefix, name, types[m->form], m->help);
    for (int32_t i = 0; i < w->a->slots; i++) put_value(w, m, w->a->slot + i);
}

void api_stats_add(mnem_scheduler_stats *sum, const mnem_scheduler_stats *stats) {
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        char *to = (char *)sum + metrics[i].at;
        const char *from = (const char *)stats + metrics[i].at;
        if (metrics[i].form == HISTOGRAM)
            add_histogram((mnem_histogram *)to, (const mnem_histogram *)from);
        else if (metrics[i].form == COUNTER)
            *(uint64_t *)to += *(const uint64_t *)from;
    }
    for (int i = 0; i < MNEM_END_COUNT; i++) sum->ended[i] += stats->ended[i];
    for (int i = 0; i < MNEM_ASIDE_COUNT; i++) sum->aside[i] += stats->aside[i];
    sum->aside_swap_seconds += stats->aside_swap_seconds;
    sum->aside_recompute_seconds += stats->aside_recompute_seconds;
    sum->swap_bytes_out += stats->swap_bytes_out;
    sum->swap_bytes_in += stats->swap_bytes_in;
    sum->swap_failures += stats->swap_failures;
}

/* ---- what has labels ---- */

/* Calls one of the functions below for each model; they write all samples of one family of it. */
typedef void putter(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s);

static void put_each(const writer *w, bool loaded_only, putter *put) {
    mnem_scheduler_stats stats;
    for (int32_t i = 0; i < w->a->slots; i++)
        if ((stats_of(w->a->slot + i, &stats) || !loaded_only) && has_numbers(w, w->a->slot + i))
            put(w, w->a->slot + i, &stats);
}

static void put_page_counts(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    const struct {
        const char *state;
        uint64_t pages;
    } rows[] = {{"private", s->pages_private},
                {"shared", s->pages_shared},
                {"cached", s->pages_cached},
                {"free", s->pages_free}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        open_metrics_count(w->out, labels_of(w, slot, ONE_LABEL("state", rows[i].state)),
                           rows[i].pages);
}

static void put_swap_bytes(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    open_metrics_count(w->out, labels_of(w, slot, ONE_LABEL("direction", "out")),
                       s->swap_bytes_out);
    open_metrics_count(w->out, labels_of(w, slot, ONE_LABEL("direction", "in")), s->swap_bytes_in);
}

static void put_swap_failures(const writer *w, const api_slot *slot,
                              const mnem_scheduler_stats *s) {
    open_metrics_count(w->out, labels_of(w, slot, NO_LABELS), s->swap_failures);
}

static void put_pages(const writer *w) {
    open_metrics *out = w->out;
    open_metrics_family(out, "mnem_", "kv_pages", OPEN_METRICS_GAUGE, "KV cache pages by state");
    put_each(w, true, put_page_counts);
    open_metrics_family(
        out, "mnem_", "swap_bytes", OPEN_METRICS_COUNTER,
        "Bytes of KV cache pages and recurrent states written to (out) and read from (in) the "
        "swap file");
    put_each(w, false, put_swap_bytes);
    open_metrics_family(
        out, "mnem_", "swap_failures", OPEN_METRICS_COUNTER,
        "Failed writes and reads of the swap file, after which pages are recomputed");
    put_each(w, false, put_swap_failures);
}

/* Which way was taken for pages of requests that were set aside, and why. */
static const char *const swap = "swap", *const recompute = "recompute";

static void put_aside_counts(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    const struct {
        const char *way, *why;
    } rows[MNEM_ASIDE_COUNT] = {[MNEM_ASIDE_SWAPPED] = {swap, "faster"},
                                [MNEM_ASIDE_RECOMPUTED] = {recompute, "faster"},
                                [MNEM_ASIDE_NO_FILE] = {recompute, "no_swap_file"},
                                [MNEM_ASIDE_NO_ROOM] = {recompute, "no_room"}};
    for (size_t i = 0; i < MNEM_ASIDE_COUNT; i++)
        open_metrics_count(w->out,
                           labels_of(w, slot, TWO_LABELS("way", rows[i].way, "why", rows[i].why)),
                           s->aside[i]);
}

static void put_aside_seconds(const writer *w, const api_slot *slot,
                              const mnem_scheduler_stats *s) {
    open_metrics_real(w->out, labels_of(w, slot, ONE_LABEL("way", swap)), s->aside_swap_seconds);
    open_metrics_real(w->out, labels_of(w, slot, ONE_LABEL("way", recompute)),
                      s->aside_recompute_seconds);
}

static void put_swap_rate(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    open_metrics_real(w->out, labels_of(w, slot, NO_LABELS), s->swap_bytes_per_s);
}

static void put_aside(const writer *w) {
    open_metrics *out = w->out;
    open_metrics_family(out, "mnem_", "set_aside", OPEN_METRICS_COUNTER,
                        "Preemptions by what was done with the KV cache pages (way: swap offloads "
                        "them, recompute drops them) and the reason (why)");
    put_each(w, false, put_aside_counts);
    open_metrics_family(
        out, "mnem_", "set_aside_expected_seconds", OPEN_METRICS_COUNTER,
        "Expected seconds to swap or to recompute pages, of preemptions where both were possible");
    put_each(w, false, put_aside_seconds);
    open_metrics_family(
        out, "mnem_", "swap_bytes_per_second", OPEN_METRICS_GAUGE,
        "Recent bandwidth of the swap file in bytes per second, an estimate until it is measured");
    put_each(w, api_has_several(w->a), put_swap_rate);
}

static void put_usage_of(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    const uint64_t used = s->pages_private + s->pages_shared;
    open_metrics_real(w->out, labels_of(w, slot, NO_LABELS),
                      s->pages ? (double)used / (double)s->pages : 0.0);
}

static void put_usage(const writer *w) {
    open_metrics_family(w->out, w->prefix, "kv_cache_usage_perc", OPEN_METRICS_GAUGE,
                        "Fraction (0 to 1) of the KV cache pages that running requests use");
    put_each(w, true, put_usage_of);
}

static void put_ends_of(const writer *w, const api_slot *slot, const mnem_scheduler_stats *s) {
    for (int i = 0; i < MNEM_END_COUNT; i++) {
        const char *end = mnem_request_end_text((mnem_request_end)i);
        open_metrics_count(w->out, labels_of(w, slot, ONE_LABEL("finished_reason", end)),
                           s->ended[i]);
    }
}

static void put_ends(const writer *w) {
    open_metrics_family(w->out, w->prefix, "request_success", OPEN_METRICS_COUNTER,
                        "Finished requests by reason");
    put_each(w, false, put_ends_of);
}

/* ---- several models ---- */

static void put_models(const writer *w) {
    open_metrics *out = w->out;
    const api *a = w->a;
    open_metrics_family(out, "mnem_", "model_state", OPEN_METRICS_GAUGE,
                        "1 for the state that a model is in");
    for (int32_t i = 0; i < a->slots; i++)
        open_metrics_count(
            out,
            labels_of(w, a->slot + i, ONE_LABEL("state", api_state_text(a->slot[i].use.state))), 1);
    open_metrics_family(out, "mnem_", "model_bytes", OPEN_METRICS_GAUGE,
                        "Bytes that a model takes while it is loaded");
    for (int32_t i = 0; i < a->slots; i++)
        open_metrics_count(out, labels_of(w, a->slot + i, NO_LABELS), a->slot[i].listing.bytes);
    open_metrics_family(out, "mnem_", "model_loads", OPEN_METRICS_COUNTER,
                        "Times that a model was loaded");
    for (int32_t i = 0; i < a->slots; i++)
        open_metrics_count(out, labels_of(w, a->slot + i, NO_LABELS), a->slot[i].loads);
    open_metrics_family(out, "mnem_", "model_requests_waiting", OPEN_METRICS_GAUGE,
                        "Requests that wait until their model is loaded");
    for (int32_t i = 0; i < a->slots; i++)
        open_metrics_count(out, labels_of(w, a->slot + i, NO_LABELS),
                           (uint64_t)a->slot[i].use.waiting);
}

static void put_accounts(const mnem_ledger *ledger, bool peak, open_metrics *out) {
    mnem_account_info info;
    open_metrics_family(out, "mnem_", peak ? "ledger_peak_bytes" : "ledger_bytes",
                        OPEN_METRICS_GAUGE,
                        peak ? "Peak bytes of each account of the ledger"
                             : "Live bytes of each account of the ledger");
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &info); i++)
        open_metrics_count(
            out,
            (open_metrics_label[]){{"kind", mnem_kind_text(info.kind)}, {"tag", info.tag}, {0}},
            peak ? info.bytes_peak : info.bytes_live);
}

static void put_gauge(const char *prefix, const char *name, const char *help, uint64_t value,
                      open_metrics *out) {
    open_metrics_family(out, prefix, name, OPEN_METRICS_GAUGE, help);
    open_metrics_count(out, NULL, value);
}

static void put_process(const api *a, open_metrics *out) {
    mnem_ledger_info ledger;
    mnem_process_usage process;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    put_gauge("mnem_", "budget_bytes", "Memory budget of the process in bytes", ledger.budget_bytes,
              out);
    put_gauge("mnem_", "requests_bytes", "Memory of requests and responses in bytes",
              a->memory.bytes_live, out);
    if (mnem_process_usage_get(&process) != MNEM_OK) return;
    put_gauge("process_", "resident_memory_bytes",
              "Resident memory of the process in bytes, as reported by the kernel",
              process.bytes_resident, out);
    const uint64_t seen = process.bytes_peak, peak = ledger.bytes_peak;
    put_gauge("mnem_", "unaccounted_bytes",
              "Peak RSS of the process beyond the peak of the ledger in bytes",
              seen > peak ? seen - peak : 0, out);
}

/* Whether any model has gauges. */
static bool any_loaded(const api *a) {
    for (int32_t i = 0; i < a->slots; i++)
        if (a->slot[i].served && a->slot[i].served->scheduler) return true;
    return false;
}

static void put_all(const api *a, open_metrics *out) {
    const writer own = {a, out, "mnem_"}, vllm = {a, out, "vllm:"};
    const bool loaded = any_loaded(a);
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        put_metric(&own, &metrics[i], metrics[i].name);
    if (loaded) put_pages(&own);
    put_aside(&own);
    if (loaded) put_usage(&own);
    put_ends(&own);
    if (api_has_several(a)) put_models(&own);
    put_accounts(a->options.ledger, false, out);
    put_accounts(a->options.ledger, true, out);
    put_process(a, out);
    if (a->options.metrics_vllm) {
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
            if (metrics[i].vllm) put_metric(&vllm, &metrics[i], metrics[i].vllm);
        if (loaded) put_usage(&vllm);
        put_ends(&vllm);
    }
    open_metrics_end(out);
}

static void put_text(void *context, const char *bytes, size_t n) {
    api_put(context, bytes, n);
}

void api_on_metrics(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    (void)request;
    put_all(a, &(open_metrics){.put = put_text, .context = &text});
    api_answer_text(a, exchange, 200, OPEN_METRICS_CONTENT_TYPE, &text);
}
