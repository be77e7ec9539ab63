/* report.c: the plan and the ledger as tables and as JSON. Names of JSON keys are stable. */
#include <string.h>
#include <unistd.h>

#include "stage.h"

void tool_report_model(FILE *file, const tool_stage *stage) {
    mnem_model_info m;
    mnem_model_info_get(stage->model, &m);
    char size[TOOL_TEXT], count[TOOL_TEXT];
    fprintf(file, "%s: %s, %s parameters, %s\n", tool_file_name(m.path), m.architecture,
            tool_count((double)m.parameters, count), tool_size(m.tensor_bytes, size));
}

const char *tool_main_type(const mnem_model *model) {
    enum { TYPES = 64 };
    uint64_t bytes[TYPES] = {0};
    mnem_type most = MNEM_TYPE_F32;
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        if ((int)t.type >= TYPES) continue;
        bytes[t.type] += t.bytes;
        if (bytes[t.type] > bytes[most]) most = t.type;
    }
    return mnem_type_get(most)->name;
}

/* ---- the plan ---- */

static const char *rotated_text(mnem_kv_choice kv) {
    const bool keys = mnem_kv_keys(kv) == MNEM_KV_Q4_0, values = mnem_kv_values(kv) == MNEM_KV_Q4_0;
    return keys && values ? ", keys and values rotated"
           : keys         ? ", keys rotated"
           : values       ? ", values rotated"
                          : "";
}

/* What was chosen, in words for who sees them for the first time. */
static void plan_choice(FILE *file, const mnem_engine_plan *p) {
    char text[256], slot[TOOL_TEXT];
    snprintf(text, sizeof text,
             "context of %d token%s, KV cache in %s%s; %d prompt token%s at once; %d thread%s",
             p->context, tool_s((uint64_t)p->context), mnem_kv_text(p->kv), rotated_text(p->kv),
             p->chunk, tool_s((uint64_t)p->chunk), p->threads, tool_s((uint64_t)p->threads));
    tool_wrap(file, "  chosen   ", text);
    if (p->bytes_streamed_per_pass == p->expert_bytes_per_token) return;
    const bool all = p->layers_resident == p->layers, none = p->layers_resident == 0;
    int n = 0;
    if (p->expert_slots)
        n = snprintf(text, sizeof text, "weights outside of experts are streamed");
    else if (all || none)
        n = snprintf(text, sizeof text, "%s; %s is streamed",
                     all ? "all layers stay resident" : "no layer is resident as a whole",
                     all ? "what comes before and after them" : "a part of each");
    else
        n = snprintf(text, sizeof text, "%d of %d layer%s stay resident; the rest is streamed",
                     p->layers_resident, p->layers, tool_s((uint64_t)p->layers));
    snprintf(text + n, sizeof text - (size_t)n, " through %d buffer%s of %s", p->ring_slots,
             tool_s((uint64_t)p->ring_slots), tool_size(p->ring_slot_bytes, slot));
    tool_wrap(file, "           ", text);
}

static void plan_pages(FILE *file, const mnem_engine_plan *p) {
    char text[160], size[TOOL_TEXT], kept[64] = "";
    const int32_t rest = p->sequences - p->logits_rows; /* of a server: they only keep pages */
    if (p->sequences == 1) return;
    if (rest > 0) snprintf(kept, sizeof kept, " (%d of them only cache prefixes)", rest);
    snprintf(text, sizeof text, "%d of %d tokens for %d sequences in total%s, %s each", p->pages,
             p->page_tokens, p->sequences, kept, tool_size(p->page_bytes, size));
    tool_wrap(file, "  pages    ", text);
}

/* Of recurrent layers: what sequences are at, and what of earlier positions is kept. */
static void plan_states(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    char text[192], size[TOOL_TEXT];
    if (p->states == 0) return;
    tool_size(mnem_transformer_state_bytes(&stage->transformer), size);
    const char *s = tool_s((uint64_t)p->states), *each = p->states > 1 ? " each" : "";
    if (p->snapshots > 0)
        snprintf(text, sizeof text,
                 "%d live state%s and %d snapshot%s, of %s each; snapshots are taken at every %d "
                 "tokens and where messages begin",
                 p->states, s, p->snapshots, tool_s((uint64_t)p->snapshots), size,
                 p->snapshot_tokens);
    else
        snprintf(text, sizeof text, "%d live state%s of %s%s; no snapshots", p->states, s, size,
                 each);
    tool_wrap(file, "  states   ", text);
}

static void plan_draft(FILE *file, const mnem_engine_plan *p) {
    char text[96];
    if (p->draft == 0) return;
    snprintf(text, sizeof text, "up to %d token%s, verified in one pass", p->draft,
             tool_s((uint64_t)p->draft));
    tool_wrap(file, "  drafts   ", text);
}

static void plan_experts(FILE *file, const mnem_engine_plan *p) {
    char text[256], size[TOOL_TEXT];
    if (p->expert_slots == 0) return;
    snprintf(text, sizeof text,
             "%d of %d resident (%.0f %%), the rest read as needed: about %.0f %% of those that a "
             "token uses are resident, %s per token are read",
             p->expert_slots, p->experts, 100.0 * p->expert_slots / p->experts,
             100 * p->expert_hit_rate, tool_size(p->expert_bytes_per_token, size));
    tool_wrap(file, "  experts  ", text);
}

static void plan_speed(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    char text[240 + TOOL_NOTE], note[TOOL_NOTE], disk[80] = "";
    if (p->streamed && stage->profile.disk_bytes_per_s > 0)
        snprintf(disk, sizeof disk, " from the disk (%.2g GB/s), more from the page cache",
                 stage->profile.disk_bytes_per_s / 1e9);
    if (p->predicted_generate <= 0)
        snprintf(text, sizeof text, "%s", tool_speed_unknown(stage));
    else
        snprintf(text, sizeof text, "about %.*f tokens/s, prompt %.*f tokens/s%s%s%s",
                 p->predicted_generate < 100, p->predicted_generate, p->predicted_prompt < 100,
                 p->predicted_prompt, disk, *tool_profile_note(stage, note) ? "; " : "", note);
    tool_wrap(file, "  speed    ", text);
}

static tool_bytes bytes_of(const mnem_engine_plan *p, const tool_stage *stage) {
    return (tool_bytes){.line = p->line,
                        .lines = p->lines,
                        .peak_bytes = p->peak_bytes - stage->kept_bytes,
                        .budget_bytes = p->budget_bytes,
                        .kept_bytes = stage->kept_bytes,
                        .budget_chosen = stage->budget_chosen};
}

/* All but the bytes and the advice. */
static void plan_ways(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    plan_choice(file, p);
    plan_pages(file, p);
    plan_states(file, p, stage);
    plan_draft(file, p);
    if (*p->why) tool_wrap(file, "  weights  ", p->why);
    plan_experts(file, p);
    plan_speed(file, p, stage);
}

static void plan_rest(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    plan_ways(file, p, stage);
    tool_advice(file, stage);
}

void tool_report_plan(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    const tool_bytes bytes = bytes_of(p, stage);
    fprintf(file, "plan\n");
    tool_bytes_plan(file, &bytes);
    plan_rest(file, p, stage);
}

void tool_report_plan_short(FILE *file, const mnem_engine_plan *p, const tool_stage *stage) {
    const tool_bytes bytes = bytes_of(p, stage);
    tool_bytes_plan_short(file, &bytes);
    plan_rest(file, p, stage);
}

/* "llama 1.1B Q4_0 · 639 MiB of 2 GiB · all in memory · 4096 tokens · 2 threads" */
static void report_line(FILE *file, const tool_stage *stage) {
    const mnem_engine_plan *p = &stage->plan;
    mnem_model_info m;
    char text[320], count[TOOL_TEXT], peak[TOOL_TEXT], budget[TOOL_TEXT], read[TOOL_TEXT];
    char where[96] = "all in memory";
    mnem_model_info_get(stage->model, &m);
    if (p->streamed)
        snprintf(where, sizeof where, "%s/token from disk",
                 tool_size(p->bytes_streamed_per_pass, read));
    tool_count((double)m.parameters, count);
    char *gap = strchr(count, ' ');
    if (gap) memmove(gap, gap + 1, strlen(gap));
    snprintf(text, sizeof text, "%s %s %s · %s of %s · %s · %d token%s · %d thread%s",
             m.architecture, count, tool_main_type(stage->model),
             tool_size(p->peak_bytes - stage->kept_bytes, peak), tool_size(p->budget_bytes, budget),
             where, p->context, tool_s((uint64_t)p->context), p->threads,
             tool_s((uint64_t)p->threads));
    tool_wrap_dim(file, "", text);
}

/* On a terminal tables of every byte would push the answer off the screen. */
static bool is_summary(FILE *file) {
    return isatty(fileno(file));
}

void tool_report_start(const tool_stage *stage) {
    const mnem_engine_plan *p = &stage->plan;
    if (stage->args->quiet || stage->args->json) return;
    if (!stage->args->verbose) {
        report_line(stderr, stage);
        tool_advice_line(stderr, stage);
        return;
    }
    tool_report_model(stderr, stage);
    if (!is_summary(stderr)) {
        tool_report_plan(stderr, p, stage);
        return;
    }
    const tool_bytes bytes = bytes_of(p, stage);
    tool_bytes_plan_short(stderr, &bytes);
    plan_ways(stderr, p, stage);
}

static json_t *step_json(uint64_t bytes, double speed, const char *change) {
    if (!bytes) return json_null();
    return json_pack("{s:I, s:s, s:f}", "bytes", (json_int_t)bytes, "change", change, "speed",
                     speed);
}

/* A path that isn't UTF-8 can't be in JSON: it is null there. */
json_t *tool_report_plan_json(const mnem_engine_plan *p, const tool_stage *stage) {
    const tool_bytes bytes = bytes_of(p, stage);
    mnem_model_info m;
    mnem_model_info_get(stage->model, &m);
    json_t *plan =
        json_pack("{s:o?, s:I, s:I, s:b, s:o, s:i, s:s, s:i, s:i, s:b}", "model",
                  json_string(m.path), "peak_bytes", (json_int_t)bytes.peak_bytes, "budget_bytes",
                  (json_int_t)p->budget_bytes, "budget_chosen", stage->budget_chosen, "lines",
                  tool_bytes_json(&bytes), "context", p->context, "kv", mnem_kv_text(p->kv),
                  "chunk", p->chunk, "threads", p->threads, "streamed", p->streamed);
    json_t *more = json_pack(
        "{s:i, s:i, s:i, s:I, s:i, s:i, s:I, s:I, s:i, s:I, s:I, s:i, s:i, s:f, s:I, s:i, s:I, "
        "s:b, s:s, s:o, s:o, s:o, s:o}",
        "sequences", p->sequences, "pages", p->pages, "page_tokens", p->page_tokens, "page_bytes",
        (json_int_t)p->page_bytes, "layers", p->layers, "layers_resident", p->layers_resident,
        "weight_bytes", (json_int_t)p->weight_bytes, "weight_bytes_resident",
        (json_int_t)p->weight_bytes_resident, "matrices_sparse", p->matrices_sparse,
        "sparse_saved_bytes", (json_int_t)p->sparse_saved_bytes, "bytes_streamed_per_pass",
        (json_int_t)p->bytes_streamed_per_pass, "experts", p->experts, "expert_slots",
        p->expert_slots, "expert_hit_rate", p->expert_hit_rate, "expert_bytes_per_token",
        (json_int_t)p->expert_bytes_per_token, "ring_slots", p->ring_slots, "ring_slot_bytes",
        (json_int_t)p->ring_slot_bytes, "direct_io", p->direct_io, "why", p->why, "smaller",
        step_json(p->smaller_bytes, p->smaller_speed, p->smaller), "larger",
        step_json(p->larger_bytes, p->larger_speed, p->larger), "predicted_prompt_tokens_per_s",
        tool_json_known(p->predicted_prompt), "predicted_tokens_per_s",
        tool_json_known(p->predicted_generate));
    if (plan && more) json_object_update(plan, more);
    json_decref(more);
    json_t *states = json_pack("{s:i, s:i, s:i, s:I}", "states", p->states, "snapshots",
                               p->snapshots, "snapshot_tokens", p->snapshot_tokens, "state_bytes",
                               (json_int_t)mnem_transformer_state_bytes(&stage->transformer));
    if (plan && states) json_object_update(plan, states);
    json_decref(states);
    if (plan) json_object_set_new(plan, "draft", json_integer(p->draft));
    if (plan && bytes.kept_bytes)
        json_object_set_new(plan, "kept_bytes", json_integer((json_int_t)bytes.kept_bytes));
    return plan;
}

/* ---- the ledger ---- */

void tool_report_end(FILE *file, const tool_stage *stage) {
    if (!is_summary(file)) {
        tool_report_ledger(file, stage);
        return;
    }
    tool_bytes_ledger_short(file, stage->ledger, stage->plan.peak_bytes - stage->kept_bytes,
                            stage->kept_bytes);
    tool_wrap(file, "  tables   ", "every byte by kind and tag: add 2> FILE, or use mnem plan -v");
}

void tool_report_ledger(FILE *file, const tool_stage *stage) {
    tool_bytes_ledger(file, stage->ledger, stage->plan.peak_bytes - stage->kept_bytes,
                      stage->kept_bytes);
}
