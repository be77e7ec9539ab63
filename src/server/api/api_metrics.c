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

static void put_metric(const metric *m, const char *prefix, const char *name,
                       const mnem_scheduler_stats *stats, open_metrics *out) {
    static const open_metrics_type types[] = {OPEN_METRICS_GAUGE, OPEN_METRICS_GAUGE,
                                              OPEN_METRICS_COUNTER, OPEN_METRICS_HISTOGRAM};
    const char *at = (const char *)stats + m->at;
    open_metrics_family(out, prefix, name, types[m->form], m->help);
    if (m->form == HISTOGRAM)
        open_metrics_histogram(out, (const mnem_histogram *)at);
    else if (m->form == GAUGE_INT)
        open_metrics_count(out, NULL, (uint64_t)(*(const int32_t *)at));
    else
        open_metrics_count(out, NULL, *(const uint64_t *)at);
}

/* ---- what has labels ---- */

static void put_pages(const mnem_scheduler_stats *s, open_metrics *out) {
    const struct {
        const char *state;
        uint64_t pages;
    } rows[] = {{"private", s->pages_private},
                {"shared", s->pages_shared},
                {"cached", s->pages_cached},
                {"free", s->pages_free}};
    open_metrics_family(out, "mnem_", "kv_pages", OPEN_METRICS_GAUGE, "KV cache pages by state");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        open_metrics_count(out, (open_metrics_label[]){{"state", rows[i].state}, {0}},
                           rows[i].pages);
    open_metrics_family(
        out, "mnem_", "swap_bytes", OPEN_METRICS_COUNTER,
        "Bytes of KV cache pages and recurrent states written to (out) and read from (in) the "
        "swap file");
    open_metrics_count(out, (open_metrics_label[]){{"direction", "out"}, {0}}, s->swap_bytes_out);
    open_metrics_count(out, (open_metrics_label[]){{"direction", "in"}, {0}}, s->swap_bytes_in);
    open_metrics_family(
        out, "mnem_", "swap_failures", OPEN_METRICS_COUNTER,
        "Failed writes and reads of the swap file, after which pages are recomputed");
    open_metrics_count(out, NULL, s->swap_failures);
}

/* Which way was taken for pages of requests that were set aside, and why. */
static void put_aside(const mnem_scheduler_stats *s, open_metrics *out) {
    static const char *const swap = "swap", *const recompute = "recompute";
    const struct {
        const char *way, *why;
    } rows[MNEM_ASIDE_COUNT] = {[MNEM_ASIDE_SWAPPED] = {swap, "faster"},
                                [MNEM_ASIDE_RECOMPUTED] = {recompute, "faster"},
                                [MNEM_ASIDE_NO_FILE] = {recompute, "no_swap_file"},
                                [MNEM_ASIDE_NO_ROOM] = {recompute, "no_room"}};
    open_metrics_family(out, "mnem_", "set_aside", OPEN_METRICS_COUNTER,
                        "Preemptions by what was done with the KV cache pages (way: swap offloads "
                        "them, recompute drops them) and the reason (why)");
    for (size_t i = 0; i < MNEM_ASIDE_COUNT; i++)
        open_metrics_count(out,
                           (open_metrics_label[]){{"way", rows[i].way}, {"why", rows[i].why}, {0}},
                           s->aside[i]);
    open_metrics_family(
        out, "mnem_", "set_aside_expected_seconds", OPEN_METRICS_COUNTER,
        "Expected seconds to swap or to recompute pages, of preemptions where both were possible");
    open_metrics_real(out, (open_metrics_label[]){{"way", swap}, {0}}, s->aside_swap_seconds);
    open_metrics_real(out, (open_metrics_label[]){{"way", recompute}, {0}},
                      s->aside_recompute_seconds);
    open_metrics_family(
        out, "mnem_", "swap_bytes_per_second", OPEN_METRICS_GAUGE,
        "Recent bandwidth of the swap file in bytes per second, an estimate until it is measured");
    open_metrics_real(out, NULL, s->swap_bytes_per_s);
}

static void put_usage(const mnem_scheduler_stats *s, const char *prefix, open_metrics *out) {
    const uint64_t used = s->pages_private + s->pages_shared;
    open_metrics_family(out, prefix, "kv_cache_usage_perc", OPEN_METRICS_GAUGE,
                        "Fraction (0 to 1) of the KV cache pages that running requests use");
    open_metrics_real(out, NULL, s->pages ? (double)used / (double)s->pages : 0.0);
}

static void put_ends(const mnem_scheduler_stats *s, const char *prefix, const char *label,
                     open_metrics *out) {
    open_metrics_family(out, prefix, "request_success", OPEN_METRICS_COUNTER,
                        "Finished requests by reason");
    for (int i = 0; i < MNEM_END_COUNT; i++) {
        const char *end = mnem_request_end_text((mnem_request_end)i);
        open_metrics_count(out, (open_metrics_label[]){{label, end}, {0}}, s->ended[i]);
    }
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

static void put_all(const api *a, const mnem_scheduler_stats *stats, open_metrics *out) {
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        put_metric(&metrics[i], "mnem_", metrics[i].name, stats, out);
    if (a->slot->served->scheduler) put_pages(stats, out);
    put_aside(stats, out);
    if (a->slot->served->scheduler) put_usage(stats, "mnem_", out);
    put_ends(stats, "mnem_", "finished_reason", out);
    put_accounts(a->options.ledger, false, out);
    put_accounts(a->options.ledger, true, out);
    put_process(a, out);
    if (a->options.metrics_vllm) {
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
            if (metrics[i].vllm) put_metric(&metrics[i], "vllm:", metrics[i].vllm, stats, out);
        if (a->slot->served->scheduler) put_usage(stats, "vllm:", out);
        put_ends(stats, "vllm:", "finished_reason", out);
    }
    open_metrics_end(out);
}

static void put_text(void *context, const char *bytes, size_t n) {
    api_put(context, bytes, n);
}

void api_on_metrics(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    mnem_scheduler_stats stats = {0};
    (void)request;
    const mnem_scheduler *scheduler = a->slot->served->scheduler;
    if (scheduler) mnem_scheduler_stats_get(scheduler, &stats);
    put_all(a, &stats, &(open_metrics){.put = put_text, .context = &text});
    api_answer_text(a, exchange, 200, OPEN_METRICS_CONTENT_TYPE, &text);
}
