/* report.c: the plan and the ledger as tables and as JSON. Names of JSON keys are stable. */
#include <string.h>

#include "stage.h"

void tool_report_model(FILE *file, const tool_stage *stage) {
    mnem_model_info m;
    mnem_model_info_get(stage->model, &m);
    char size[TOOL_TEXT], count[TOOL_TEXT];
    fprintf(file, "%s: %s, %s parameters, %s\n", tool_file_name(m.path), m.architecture,
            tool_count((double)m.parameters, count), tool_size(m.tensor_bytes, size));
}

const char *tool_kv_text(mnem_type type) {
    return type == MNEM_TYPE_Q8_0 ? "q8_0" : type == MNEM_TYPE_F32 ? "f32" : "f16";
}

/* ---- the plan ---- */

/* How much stays in memory is in the plan's own words (why); here is what they leave out. */
static void plan_choice(FILE *file, const mnem_engine_plan *p) {
    char text[256], slot[TOOL_TEXT];
    int n = snprintf(text, sizeof text, "context %d token%s, KV %s, chunks of %d, %d thread%s",
                     p->context, tool_s((uint64_t)p->context), tool_kv_text(p->kv_type), p->chunk,
                     p->threads, tool_s((uint64_t)p->threads));
    if (p->streamed)
        snprintf(text + n, sizeof text - (size_t)n,
                 "; %d of %d layer%s resident, the rest through %d buffer%s of %s",
                 p->layers_resident, p->layers, tool_s((uint64_t)p->layers), p->ring_slots,
                 tool_s((uint64_t)p->ring_slots), tool_size(p->ring_slot_bytes, slot));
    tool_wrap(file, "  chosen   ", text);
}

static void plan_speed(FILE *file, const mnem_engine_plan *p) {
    char text[160];
    if (p->predicted_generate <= 0)
        snprintf(text, sizeof text, "not known: `mnem bench` measures this machine once");
    else
        snprintf(text, sizeof text, "about %.*f tokens/s, prompt %.*f tokens/s",
                 p->predicted_generate < 100, p->predicted_generate, p->predicted_prompt < 100,
                 p->predicted_prompt);
    tool_wrap(file, "  speed    ", text);
}

static tool_bytes bytes_of(const mnem_engine_plan *p, const tool_stage *stage) {
    return (tool_bytes){.line = p->line,
                        .lines = p->lines,
                        .peak_bytes = p->peak_bytes,
                        .budget_bytes = p->budget_bytes,
                        .budget_chosen = stage->budget_chosen};
}

void tool_report_plan(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    const tool_bytes bytes = bytes_of(p, stage);
    fprintf(file, "plan\n");
    tool_bytes_plan(file, &bytes);
    plan_choice(file, p);
    if (*p->why) tool_wrap(file, "  why      ", p->why);
    if (*p->smaller) tool_wrap(file, "  smaller  ", p->smaller);
    if (*p->larger) tool_wrap(file, "  larger   ", p->larger);
    plan_speed(file, p);
}

void tool_report_start(const tool_stage *stage) {
    if (stage->args->quiet || stage->args->json) return;
    tool_report_model(stderr, stage);
    tool_report_plan(stderr, &stage->plan, stage);
}

static json_t *step_json(uint64_t bytes, const char *change) {
    if (!bytes && !*change) return json_null();
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "change", change);
}

/* A path that isn't UTF-8 can't be in JSON: it is null there. */
json_t *tool_report_plan_json(const mnem_engine_plan *p, const tool_stage *stage) {
    const tool_bytes bytes = bytes_of(p, stage);
    mnem_model_info m;
    mnem_model_info_get(stage->model, &m);
    json_t *plan =
        json_pack("{s:o?, s:I, s:I, s:b, s:o, s:i, s:s, s:i, s:i, s:b}", "model",
                  json_string(m.path), "peak_bytes", (json_int_t)p->peak_bytes, "budget_bytes",
                  (json_int_t)p->budget_bytes, "budget_chosen", stage->budget_chosen, "lines",
                  tool_bytes_json(&bytes), "context", p->context, "kv", tool_kv_text(p->kv_type),
                  "chunk", p->chunk, "threads", p->threads, "streamed", p->streamed);
    json_t *more = json_pack(
        "{s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:f, s:i, s:I, s:b, s:s, s:o, s:o, s:o, s:o}",
        "layers", p->layers, "layers_resident", p->layers_resident, "weight_bytes",
        (json_int_t)p->weight_bytes, "weight_bytes_resident", (json_int_t)p->weight_bytes_resident,
        "bytes_streamed_per_pass", (json_int_t)p->bytes_streamed_per_pass, "experts", p->experts,
        "expert_slots", p->expert_slots, "expert_hit_rate", p->expert_hit_rate, "ring_slots",
        p->ring_slots, "ring_slot_bytes", (json_int_t)p->ring_slot_bytes, "direct_io", p->direct_io,
        "why", p->why, "smaller", step_json(p->smaller_bytes, p->smaller), "larger",
        step_json(p->larger_bytes, p->larger), "predicted_prompt_tokens_per_s",
        tool_json_known(p->predicted_prompt), "predicted_tokens_per_s",
        tool_json_known(p->predicted_generate));
    if (plan && more) json_object_update(plan, more);
    json_decref(more);
    return plan;
}

/* ---- the ledger ---- */

void tool_report_ledger(FILE *file, const tool_stage *stage) {
    tool_bytes_ledger(file, stage->ledger, stage->plan.peak_bytes);
}

/* What the kernel counted beyond the ledger's peak. */
static uint64_t unaccounted(uint64_t vmhwm, uint64_t peak) {
    return vmhwm > peak ? vmhwm - peak : 0;
}

json_t *tool_report_ledger_json(const tool_stage *stage) {
    mnem_ledger_info info;
    mnem_ledger_info_get(stage->ledger, &info);
    json_t *accounts = json_array();
    mnem_account_info account;
    for (unsigned i = 0; mnem_ledger_account_get(stage->ledger, i, &account); i++)
        json_array_append_new(accounts, json_pack("{s:s, s:s, s:I, s:I}", "kind",
                                                  mnem_kind_text(account.kind), "tag", account.tag,
                                                  "bytes_live", (json_int_t)account.bytes_live,
                                                  "bytes_peak", (json_int_t)account.bytes_peak));
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "accounts", accounts, "bytes_live",
                     (json_int_t)info.bytes_live, "bytes_peak", (json_int_t)info.bytes_peak,
                     "budget_bytes", (json_int_t)info.budget_bytes, "bytes_unaccounted",
                     (json_int_t)unaccounted(tool_peak_bytes(), info.bytes_peak), "refusals",
                     (json_int_t)info.refusals);
}
