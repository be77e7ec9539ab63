/* api_metrics.c: GET /metrics, in OpenMetrics' text: what the scheduler counts, the ledger, the
 * process. Dashboards of vLLM's find its names too where that is asked for (--metrics-compat). */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "verbs/serve/api/api_private.h"

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
    {"num_requests_running", "num_requests_running", GAUGE_INT, AT(running), "Requests that run"},
    {"num_requests_waiting", "num_requests_waiting", GAUGE_INT, AT(waiting), "Requests that wait"},
    {"num_requests_preempted", NULL, GAUGE_INT, AT(preempted), "Requests that were set aside"},
    {"queue_bytes", NULL, GAUGE, AT(queue_bytes), "Bytes of requests that wait"},
    {"num_preemptions", "num_preemptions", COUNTER, AT(preemptions), "Times one was set aside"},
    {"prompt_tokens", "prompt_tokens", COUNTER, AT(prompt_tokens), "Tokens of prompts"},
    {"generation_tokens", "generation_tokens", COUNTER, AT(tokens), "Tokens chosen"},
    {"prefix_cache_queries", "prefix_cache_queries", COUNTER, AT(prefix_queries),
     "Tokens of prompts that were looked for in the prefix cache"},
    {"prefix_cache_hits", "prefix_cache_hits", COUNTER, AT(prefix_hits),
     "Tokens of prompts that were found there"},
    {"recomputed_tokens", NULL, COUNTER, AT(tokens_recomputed), "Computed again, set aside before"},
    {"evicted_pages", NULL, COUNTER, AT(evicted_pages), "Pages that the prefix cache gave up"},
    {"requests_refused_full", NULL, COUNTER, AT(refused_full), "Refused: the queue was full"},
    {"requests_refused_budget", NULL, COUNTER, AT(refused_budget), "Refused: can never fit"},
    {"steps", NULL, COUNTER, AT(steps), "Steps of the engine"},
    {"step_seconds", NULL, HISTOGRAM, AT(step), "A step"},
    {"time_to_first_token_seconds", "time_to_first_token_seconds", HISTOGRAM, AT(first_token),
     "From a request to its first token"},
    {"inter_token_latency_seconds", "inter_token_latency_seconds", HISTOGRAM, AT(between_tokens),
     "Between two tokens of a request"},
    {"e2e_request_latency_seconds", "e2e_request_latency_seconds", HISTOGRAM, AT(whole),
     "From a request to its end"},
    {"request_queue_time_seconds", "request_queue_time_seconds", HISTOGRAM, AT(queued), "Waiting"},
    {"request_prefill_time_seconds", "request_prefill_time_seconds", HISTOGRAM, AT(prompt),
     "The prompt"},
    {"request_decode_time_seconds", "request_decode_time_seconds", HISTOGRAM, AT(generating),
     "Generating"},
};
#undef AT

static void put_histogram(const char *prefix, const char *name, const mnem_histogram *h,
                          api_text *out) {
    uint64_t below = 0;
    for (int i = 0; i < MNEM_HISTOGRAM_BUCKETS; i++) {
        const double bound = mnem_histogram_bound(i);
        below += h->bucket[i];
        if (isinf(bound))
            api_format(out, "%s%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", prefix, name, below);
        else
            api_format(out, "%s%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", prefix, name, bound, below);
    }
    api_format(out, "%s%s_count %" PRIu64 "\n%s%s_sum %.9g\n", prefix, name, h->count, prefix, name,
               h->sum);
}

static void put_metric(const metric *m, const char *prefix, const char *name,
                       const mnem_scheduler_stats *stats, api_text *out) {
    static const char *const types[] = {"gauge", "gauge", "counter", "histogram"};
    const char *at = (const char *)stats + m->at;
    api_format(out, "# TYPE %s%s %s\n# HELP %s%s %s.\n", prefix, name, types[m->form], prefix, name,
               m->help);
    if (m->form == HISTOGRAM)
        put_histogram(prefix, name, (const mnem_histogram *)at, out);
    else if (m->form == GAUGE_INT)
        api_format(out, "%s%s %d\n", prefix, name, *(const int32_t *)at);
    else
        api_format(out, "%s%s%s %" PRIu64 "\n", prefix, name, m->form == COUNTER ? "_total" : "",
                   *(const uint64_t *)at);
}

/* ---- what has labels ---- */

static void put_head(const char *name, const char *type, const char *help, api_text *out) {
    api_format(out, "# TYPE %s %s\n# HELP %s %s.\n", name, type, name, help);
}

static void put_pages(const mnem_scheduler_stats *s, api_text *out) {
    const struct {
        const char *state;
        uint64_t pages;
    } rows[] = {{"private", s->pages_private},
                {"shared", s->pages_shared},
                {"cached", s->pages_cached},
                {"free", s->pages_free}};
    put_head("mnem_kv_pages", "gauge", "Pages of keys and values", out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        api_format(out, "mnem_kv_pages{state=\"%s\"} %" PRIu64 "\n", rows[i].state, rows[i].pages);
    put_head("mnem_swap_bytes", "counter", "Bytes of pages to and from the swap file", out);
    api_format(out,
               "mnem_swap_bytes_total{direction=\"out\"} %" PRIu64
               "\nmnem_swap_bytes_total{direction=\"in\"} %" PRIu64 "\n",
               s->swap_bytes_out, s->swap_bytes_in);
}

static void put_usage(const mnem_scheduler_stats *s, const char *prefix, api_text *out) {
    const uint64_t used = s->pages_private + s->pages_shared;
    api_format(out,
               "# TYPE %skv_cache_usage_perc gauge\n# HELP %skv_cache_usage_perc Of 1: pages "
               "that requests use.\n%skv_cache_usage_perc %.6g\n",
               prefix, prefix, prefix, s->pages ? (double)used / (double)s->pages : 0.0);
}

static void put_ends(const mnem_scheduler_stats *s, const char *prefix, const char *label,
                     api_text *out) {
    api_format(out,
               "# TYPE %srequest_success counter\n# HELP %srequest_success Requests that have "
               "ended.\n",
               prefix, prefix);
    for (int i = 0; i < MNEM_END_COUNT; i++)
        api_format(out, "%srequest_success_total{%s=\"%s\"} %" PRIu64 "\n", prefix, label,
                   mnem_request_end_text((mnem_request_end)i), s->ended[i]);
}

static void put_accounts(const mnem_ledger *ledger, bool peak, api_text *out) {
    mnem_account_info info;
    const char *name = peak ? "mnem_ledger_peak_bytes" : "mnem_ledger_bytes";
    put_head(name, "gauge", peak ? "The most of an account so far" : "An account of the ledger",
             out);
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &info); i++) {
        api_format(out, "%s{kind=\"%s\",tag=", name, mnem_kind_text(info.kind));
        api_quote(out, info.tag, strlen(info.tag)); /* labels are escaped as JSON is, here */
        api_format(out, "} %" PRIu64 "\n", peak ? info.bytes_peak : info.bytes_live);
    }
}

static void put_process(const api *a, api_text *out) {
    mnem_ledger_info ledger;
    mnem_process_usage process;
    mnem_ledger_info_get(a->options.ledger, &ledger);
    put_head("mnem_budget_bytes", "gauge", "What the process may take", out);
    api_format(out, "mnem_budget_bytes %" PRIu64 "\n", ledger.budget_bytes);
    put_head("mnem_requests_bytes", "gauge", "Of requests and answers", out);
    api_format(out, "mnem_requests_bytes %" PRIu64 "\n", a->memory.bytes_live);
    if (mnem_process_usage_get(&process) != MNEM_OK) return;
    put_head("process_resident_memory_bytes", "gauge", "As the kernel counts it", out);
    api_format(out, "process_resident_memory_bytes %" PRIu64 "\n", process.bytes_resident);
}

static void put_all(const api *a, const mnem_scheduler_stats *stats, api_text *out) {
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        put_metric(&metrics[i], "mnem_", metrics[i].name, stats, out);
    put_pages(stats, out);
    put_usage(stats, "mnem_", out);
    put_ends(stats, "mnem_", "finished_reason", out);
    put_accounts(a->options.ledger, false, out);
    put_accounts(a->options.ledger, true, out);
    put_process(a, out);
    if (a->options.metrics_vllm) {
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
            if (metrics[i].vllm) put_metric(&metrics[i], "vllm:", metrics[i].vllm, stats, out);
        put_usage(stats, "vllm:", out);
        put_ends(stats, "vllm:", "finished_reason", out);
    }
    api_say(out, "# EOF\n");
}

void api_on_metrics(void *context, http_exchange *exchange, const http_request *request) {
    api *a = context;
    api_text text = {.memory = &a->memory};
    mnem_scheduler_stats stats = {0};
    (void)request;
    if (a->scheduler) mnem_scheduler_stats_get(a->scheduler, &stats);
    put_all(a, &stats, &text);
    api_answer_text(a, exchange, 200, "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    &text);
}
