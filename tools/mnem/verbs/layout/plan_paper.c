/* plan_paper.c: tells a plan of ranks: a line for each, why it is cut so, how fast it would be, and
 * where no cut was asked for what the other one would be. */
#include "verbs/layout/plan_paper.h"

#include <string.h>

/* ---- numbers ---- */

static uint64_t bytes_of(const mnem_engine_plan *plan, mnem_kind kind) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == kind) bytes += plan->line[i].bytes;
    return bytes;
}

/* What isn't weights, keys and values, nor what a rank has before it plans: activations, what
 * operators work in, messages, tables. */
static uint64_t work_bytes(const paper *p, const mnem_engine_plan *plan) {
    return plan->peak_bytes - bytes_of(plan, MNEM_KIND_WEIGHTS) - bytes_of(plan, MNEM_KIND_KV) -
           p->rank_bytes;
}

/* Of a token or a chunk the part that a rank waits for others, and for links; 0: it isn't known. */
static double waits(double own, double all) {
    return own > 0 && all > own ? all - own : 0;
}

static int32_t count_streaming(const paper *p) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->count; i++) n += p->ranks[i].plan.streamed;
    return n;
}

static bool is_rows(const paper *p) {
    return p->cut == MNEM_CUT_ROWS;
}

/* Each rank has some of a mixture's. */
static bool cuts_experts(const paper *p) {
    return is_rows(p) && p->ranks[p->count - 1].plan.rows.experts.end > 0;
}

static const char *cut_text(const paper *p) {
    return is_rows(p) ? "rows" : "layers";
}

/* ---- the table ---- */

static const char *span_text(int32_t begin, int32_t end, char text[32]) {
    snprintf(text, 32, "%d to %d", begin, end - 1);
    return text;
}

static const char *wait_text(double own, double all, char text[24]) {
    if (own > 0)
        snprintf(text, 24, "%.1f ms", 1e3 * waits(own, all));
    else
        snprintf(text, 24, "-");
    return text;
}

static void print_rank(const paper *p, int32_t i) {
    char size[8][TOOL_TEXT], span[3][32], wait[2][24];
    const mnem_engine_plan *q = &p->ranks[i].plan;
    if (is_rows(p))
        tool_outf("  %4d %11s %8s", i, span_text(q->rows.heads.begin, q->rows.heads.end, span[0]),
                  span_text(q->rows.kv_heads.begin, q->rows.kv_heads.end, span[1]));
    else
        tool_outf("  %4d %11s", i, span_text(q->layer_begin, q->layer_end, span[0]));
    if (cuts_experts(p))
        tool_outf(" %10s", span_text(q->rows.experts.begin, q->rows.experts.end, span[2]));
    tool_outf(" %10s %10s %10s %10s %10s %10s %10s %9s %9s %9s\n",
              tool_size(bytes_of(q, MNEM_KIND_WEIGHTS), size[0]),
              tool_size(bytes_of(q, MNEM_KIND_KV), size[1]), tool_size(work_bytes(p, q), size[7]),
              tool_size(p->rank_bytes, size[2]), tool_size(q->peak_bytes, size[3]),
              tool_size(q->budget_bytes, size[4]), tool_size(q->part_token_sent, size[5]),
              wait_text(q->part_token_seconds, q->ranks_token_seconds, wait[0]),
              tool_size(q->part_chunk_sent, size[6]),
              wait_text(q->part_chunk_seconds, q->ranks_chunk_seconds, wait[1]));
}

/* What each has a part of, and why so much. */
static void print_cut(const paper *p) {
    char text[300];
    const mnem_engine_plan *q = &p->ranks[0].plan;
    const int32_t n = count_streaming(p);
    if (n > 0)
        snprintf(
            text, sizeof text,
            "split by the free memory of each rank: %d of %d stream weights from their disks for "
            "every token; more --memory or more --ranks would keep them resident",
            n, p->count);
    else if (is_rows(p))
        snprintf(text, sizeof text,
                 "each rank holds the same share of every matrix, as far as its budget allows, "
                 "since all wait for the slowest; its KV cache is that of its own heads");
    else if (q->part_by_work)
        snprintf(text, sizeof text,
                 "split so that the slowest rank is as fast as possible: all weights stay "
                 "resident, and the whole context fits");
    else
        snprintf(text, sizeof text,
                 "split so that the fullest rank has the most memory left: a split by speed would "
                 "reduce the context or stream weights from disk");
    tool_wrap(stdout, "  cut      ", text);
}

static void print_speed(const paper *p) {
    char text[400 + TOOL_NOTE], link[TOOL_TEXT], note[TOOL_NOTE];
    const mnem_engine_plan *q = &p->ranks[0].plan;
    if (q->predicted_generate > 0)
        snprintf(text, sizeof text,
                 "about %.*f tokens/s, prompt %.*f tokens/s, %d sequences in total %.*f tokens/s, "
                 "with links of %s, assuming this machine's speed for every rank%s%s",
                 q->predicted_generate < 100, q->predicted_generate, q->predicted_prompt < 100,
                 q->predicted_prompt, q->together, q->predicted_together < 100,
                 q->predicted_together, tool_link_text(&p->link, link),
                 *tool_profile_note(p->stage, note) ? "; " : "", note);
    else
        snprintf(text, sizeof text, "%s", tool_speed_unknown(p->stage));
    tool_wrap(stdout, "  speed    ", text);
}

static void print_why(const paper *p) {
    char text[300], size[TOOL_TEXT];
    print_cut(p);
    snprintf(text, sizeof text, "%s of each for code, libraries and MPI: %s",
             tool_size(p->rank_bytes, size),
             p->measured ? "as mnem bench measured it under mpirun"
                         : "an estimate; mnem bench under mpirun measures and stores it");
    tool_wrap(stdout, "  MPI      ", text);
    print_speed(p);
}

/* ---- the other cut ---- */

typedef struct measure {
    const char *name;
    double chosen, other;
} measure;

/* Where the chosen cut is faster (sign 1), or slower (-1): "generation (2.1 times), a prompt". */
static bool list_faster(const measure *m, int count, int sign, char *text, size_t n) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < count; i++) {
        const double times = sign > 0 ? m[i].chosen / m[i].other : m[i].other / m[i].chosen;
        if (times < 1.005 || used >= n) continue;
        used += (size_t)snprintf(text + used, n - used, "%s%s (%.2f times)", used ? ", " : "",
                                 m[i].name, times);
    }
    return used > 0;
}

static void compare_speeds(const paper *p, const paper *other, char *text, size_t n) {
    const mnem_engine_plan *q = &p->ranks[0].plan, *o = &other->ranks[0].plan;
    char eight[40], better[160], worse[160];
    snprintf(eight, sizeof eight, "%d sequences together", q->together);
    const measure m[] = {{"a prompt", q->predicted_prompt, o->predicted_prompt},
                         {"generation", q->predicted_generate, o->predicted_generate},
                         {eight, q->predicted_together, o->predicted_together}};
    const bool has_better = list_faster(m, 3, 1, better, sizeof better);
    const bool has_worse = list_faster(m, 3, -1, worse, sizeof worse);
    snprintf(
        text, n,
        "a prompt of 512 tokens and 128 generated take less time than with --cut %s: %s%s%s%s; "
        "that has about %.*f tokens/s, prompt %.*f, %d sequences %.*f",
        cut_text(other), has_better ? "faster in " : "", better,
        has_worse ? ", though slower in " : "", worse, o->predicted_generate < 100,
        o->predicted_generate, o->predicted_prompt < 100, o->predicted_prompt, o->together,
        o->predicted_together < 100, o->predicted_together);
}

static const char *refusal_text(const paper *p) {
    const char *text = p->ranks ? p->ranks[0].text : "";
    return *text ? text : mnem_status_text(p->status);
}

static void choice_text(const paper *p, const paper *other, char *text, size_t n) {
    char why[600];
    if (other->status != MNEM_OK)
        snprintf(why, sizeof why, "--cut %s is not possible: %s", cut_text(other),
                 refusal_text(other));
    else if (p->ranks[0].plan.predicted_generate > 0)
        compare_speeds(p, other, why, sizeof why);
    else
        snprintf(why, sizeof why, "the speed of %s is unknown until `mnem bench` has run",
                 cut_text(other));
    snprintf(text, n, "%s%s: %s", cut_text(p), is_rows(p) ? " (say --cut rows)" : "", why);
}

static int print_table(const paper *p, const paper *other) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    char text[800];
    tool_report_model(stdout, p->stage);
    tool_outf("%s over %d ranks: context %d token%s, KV %s, chunks of %d\n",
              is_rows(p) ? "rows of every matrix" : "layers in a row", p->count, q->context,
              tool_s((uint64_t)q->context), mnem_kv_text(q->kv), q->chunk);
    tool_outf("%*s      for a token         for a chunk\n",
              (is_rows(p) ? 96 : 87) + (cuts_experts(p) ? 11 : 0), "");
    tool_outf(
        "  rank %11s%s%s    weights         kv       work   code+MPI       peak     budget      "
        "sends     waits     sends     waits\n",
        is_rows(p) ? "heads" : "layers", is_rows(p) ? "   groups" : "",
        cuts_experts(p) ? "    experts" : "");
    for (int32_t i = 0; i < p->count; i++) print_rank(p, i);
    print_why(p);
    if (other) {
        choice_text(p, other, text, sizeof text);
        tool_wrap(stdout, "  choice   ", text);
    }
    return tool_out_end();
}

/* ---- the object ---- */

static json_t *rank_json(const paper *p, int32_t i) {
    const mnem_engine_plan *q = &p->ranks[i].plan;
    json_t *object = json_pack(
        "{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
        "rank", i, "layer_begin", q->layer_begin, "layers", q->layers, "layers_resident",
        q->layers_resident, "weight_bytes", (json_int_t)bytes_of(q, MNEM_KIND_WEIGHTS), "kv_bytes",
        (json_int_t)bytes_of(q, MNEM_KIND_KV), "work_bytes", (json_int_t)work_bytes(p, q),
        "rank_bytes", (json_int_t)p->rank_bytes, "bytes_streamed_per_pass",
        (json_int_t)q->bytes_streamed_per_pass, "peak_bytes", (json_int_t)q->peak_bytes,
        "budget_bytes", (json_int_t)q->budget_bytes, "token_bytes_sent",
        (json_int_t)q->part_token_sent, "chunk_bytes_sent", (json_int_t)q->part_chunk_sent,
        "token_seconds", tool_json_known(q->part_token_seconds), "chunk_seconds",
        tool_json_known(q->part_chunk_seconds), "token_seconds_waiting",
        tool_json_known(waits(q->part_token_seconds, q->ranks_token_seconds)),
        "chunk_seconds_waiting",
        tool_json_known(waits(q->part_chunk_seconds, q->ranks_chunk_seconds)));
    if (object && is_rows(p))
        json_object_update_new(object,
                               json_pack("{s:i, s:i, s:i, s:i}", "head_begin", q->rows.heads.begin,
                                         "heads", q->rows.heads.end - q->rows.heads.begin,
                                         "kv_head_begin", q->rows.kv_heads.begin, "kv_heads",
                                         q->rows.kv_heads.end - q->rows.kv_heads.begin));
    if (object && cuts_experts(p))
        json_object_update_new(object,
                               json_pack("{s:i, s:i}", "expert_begin", q->rows.experts.begin,
                                         "experts", q->rows.experts.end - q->rows.experts.begin));
    return object;
}

static json_t *speed_json(const paper *p) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    if (p->status != MNEM_OK)
        return json_pack("{s:s, s:o?}", "cut", cut_text(p), "refused",
                         json_string(refusal_text(p)));
    return json_pack("{s:s, s:o, s:o, s:i, s:o}", "cut", cut_text(p), "predicted_tokens_per_s",
                     tool_json_known(q->predicted_generate), "predicted_prompt_tokens_per_s",
                     tool_json_known(q->predicted_prompt), "together", q->together,
                     "predicted_together_tokens_per_s", tool_json_known(q->predicted_together));
}

static int print_json(const paper *p, const paper *other) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    json_t *list = json_array(), *object = speed_json(p);
    char text[800];
    for (int32_t i = 0; i < p->count; i++) json_array_append_new(list, rank_json(p, i));
    json_t *more =
        json_pack("{s:b, s:i, s:s, s:i, s:b, s:f, s:f, s:o}", "cut_by_speed", q->part_by_work,
                  "context", q->context, "kv", mnem_kv_text(q->kv), "chunk", q->chunk,
                  "rank_bytes_measured", p->measured, "link_seconds", p->link.seconds,
                  "link_bytes_per_s", p->link.bytes_per_second, "ranks", list);
    if (object && more) json_object_update_new(object, more);
    if (object && other) {
        choice_text(p, other, text, sizeof text);
        json_object_set_new(object, "other", speed_json(other));
        json_object_set_new(object, "choice", json_string(text));
    }
    tool_out_json("ranks", object);
    return tool_out_end();
}

int tool_paper_print(const paper *p, const paper *other) {
    return p->stage->args->json ? print_json(p, other) : print_table(p, other);
}
