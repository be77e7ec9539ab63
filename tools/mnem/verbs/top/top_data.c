/* top_data.c: a status file's view for programs: one JSON object, or OpenMetrics. */
#include "server/open_metrics.h"
#include "verbs/top/top.h"

/* ---- JSON ---- */

static json_t *json_count(uint64_t n) {
    return json_integer((json_int_t)n);
}

/* Texts of a file may be any bytes that don't steer a terminal; JSON takes UTF-8. */
static json_t *json_text(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *json_accounts(const mnem_monitor_view *v) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->accounts; i++) {
        const mnem_monitor_account *a = &v->account[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "kind",
                                              json_text(a->kind), "tag", json_text(a->tag),
                                              "bytes_live", json_count(a->bytes_live), "bytes_peak",
                                              json_count(a->bytes_peak), "limit_bytes",
                                              json_count(a->limit_bytes)));
    }
    return list;
}

static json_t *json_models(const mnem_monitor_view *v) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->models; i++) {
        const mnem_monitor_model *m = &v->served[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:o, s:o}", "name", json_text(m->name), "state",
                                        json_text(m->state), "bytes", json_count(m->bytes),
                                        "requests", json_count(m->requests)));
    }
    return list;
}

void top_json(const mnem_monitor_view *v) {
    static const char *const names[] = {
        "started_ms",    "updated_ms",       "budget_bytes",     "bytes_live",
        "bytes_peak",    "refusals",         "bytes_resident",   "bytes_resident_peak",
        "steps",         "steps_planned",    "tokens",           "pages_used",
        "pages_total",   "requests_running", "requests_waiting", "requests_preempted",
        "requests_done", "requests_refused"};
    const mnem_monitor_numbers *n = &v->numbers;
    const uint64_t values[] = {
        v->started_ms,    v->updated_ms,       v->budget_bytes,     v->bytes_live,
        v->bytes_peak,    v->refusals,         v->bytes_resident,   v->bytes_resident_peak,
        n->steps,         n->steps_planned,    n->tokens,           n->pages_used,
        n->pages_total,   n->requests_running, n->requests_waiting, n->requests_preempted,
        n->requests_done, n->requests_refused};
    _Static_assert(sizeof names / sizeof names[0] == sizeof values / sizeof values[0], "pairs");
    json_t *root = json_pack("{s:I, s:b, s:o, s:o, s:o}", "pid", (json_int_t)v->pid, "alive",
                             mnem_monitor_alive(v), "program", json_text(v->program), "model",
                             json_text(v->model), "phase", json_text(n->phase));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        json_object_set_new(root, names[i], json_count(values[i]));
    json_object_set_new(root, "tokens_per_s", tool_json_real(n->tokens_per_s));
    json_object_set_new(root, "step_seconds", tool_json_real(n->step_seconds));
    json_object_set_new(root, "loss", n->loss != 0 ? tool_json_real(n->loss) : json_null());
    json_object_set_new(root, "accounts", json_accounts(v));
    if (v->models) json_object_set_new(root, "models", json_models(v));
    tool_out_json("status", root);
}

/* ---- OpenMetrics ---- */

static void print_bytes(void *context, const char *bytes, size_t n) {
    (void)context;
    tool_out(bytes, n);
}

static void family(open_metrics *m, const char *name, open_metrics_type type, const char *help,
                   uint64_t value) {
    open_metrics_family(m, "mnem_", name, type, help);
    open_metrics_count(m, NULL, value);
}

static void real(open_metrics *m, const char *name, const char *help, double value) {
    open_metrics_family(m, "mnem_", name, OPEN_METRICS_GAUGE, help);
    open_metrics_real(m, NULL, value);
}

static void put_accounts(open_metrics *m, const mnem_monitor_view *v, bool peak) {
    open_metrics_family(m, "mnem_", peak ? "ledger_peak_bytes" : "ledger_bytes", OPEN_METRICS_GAUGE,
                        peak ? "Peak bytes of each account of the ledger"
                             : "Live bytes of each account of the ledger");
    for (uint32_t i = 0; i < v->accounts; i++) {
        const mnem_monitor_account *a = &v->account[i];
        const open_metrics_label labels[] = {{"kind", a->kind}, {"tag", a->tag}, {0}};
        open_metrics_count(m, labels, peak ? a->bytes_peak : a->bytes_live);
    }
}

static void put_requests(open_metrics *m, const mnem_monitor_numbers *n) {
    family(m, "num_requests_running", OPEN_METRICS_GAUGE, "Requests that are running",
           n->requests_running);
    family(m, "num_requests_waiting", OPEN_METRICS_GAUGE, "Requests that are waiting in the queue",
           n->requests_waiting);
    family(m, "num_requests_preempted", OPEN_METRICS_GAUGE, "Requests that are preempted now",
           n->requests_preempted);
    family(m, "requests_ended", OPEN_METRICS_COUNTER, "Finished requests", n->requests_done);
    family(m, "requests_refused", OPEN_METRICS_COUNTER, "Requests that were refused",
           n->requests_refused);
}

/* As `mnem serve` has them at /metrics. */
static void put_models(open_metrics *m, const mnem_monitor_view *v) {
    if (!v->models) return;
    open_metrics_family(m, "mnem_", "model_state", OPEN_METRICS_GAUGE,
                        "1 for the state that a model is in");
    for (uint32_t i = 0; i < v->models; i++)
        open_metrics_count(m,
                           (open_metrics_label[]){
                               {"state", v->served[i].state}, {"model", v->served[i].name}, {0}},
                           1);
    open_metrics_family(m, "mnem_", "model_bytes", OPEN_METRICS_GAUGE,
                        "Bytes that a model takes while it is loaded");
    for (uint32_t i = 0; i < v->models; i++)
        open_metrics_count(m, (open_metrics_label[]){{"model", v->served[i].name}, {0}},
                           v->served[i].bytes);
}

void top_open_metrics(const mnem_monitor_view *v) {
    open_metrics m = {.put = print_bytes};
    const mnem_monitor_numbers *n = &v->numbers;
    family(&m, "budget_bytes", OPEN_METRICS_GAUGE, "Memory budget of the process in bytes",
           v->budget_bytes);
    family(&m, "refusals", OPEN_METRICS_COUNTER, "Allocations that the budget refused",
           v->refusals);
    put_accounts(&m, v, false);
    put_accounts(&m, v, true);
    family(&m, "steps", OPEN_METRICS_COUNTER, "Steps", n->steps);
    family(&m, "tokens", OPEN_METRICS_COUNTER, "Tokens", n->tokens);
    real(&m, "tokens_per_second", "Tokens per second, recent average", n->tokens_per_s);
    real(&m, "last_step_seconds", "Duration of a recent step in seconds", n->step_seconds);
    if (n->loss != 0) real(&m, "loss", "Loss of the last step", n->loss);
    family(&m, "kv_pages_used", OPEN_METRICS_GAUGE, "KV cache pages in use", n->pages_used);
    family(&m, "kv_pages_all", OPEN_METRICS_GAUGE, "KV cache pages in total", n->pages_total);
    put_requests(&m, n);
    put_models(&m, v);
    open_metrics_family(&m, "process_", "resident_memory_bytes", OPEN_METRICS_GAUGE,
                        "Resident memory of the process in bytes, as reported by the kernel");
    open_metrics_count(&m, NULL, v->bytes_resident);
    open_metrics_end(&m);
}
