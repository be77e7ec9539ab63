/* roofline.c: the least time of a program's operators, by their exact bytes and multiply-adds.
 *
 * Where bytes are: a pass goes through all weights and pages once, so they come from the level that
 * holds all of them together; the block of intermediates comes from the level that holds it.
 * Bytes are the model's: each element of an operand once, weights as they are packed. */
#include "sight/roofline.h"

#include <string.h>

#include "sight/probe_file.h"

/* What is gone through once a pass: more of it than any operator alone. */
static bool is_swept(mnem_op_kind kind) {
    switch (kind) {
    case MNEM_OP_MATMUL:
    case MNEM_OP_EXPERTS:
    case MNEM_OP_EMBED:
    case MNEM_OP_ATTENTION:
    case MNEM_OP_KV_STORE: return true;
    default: return false;
    }
}

typedef struct levels {
    const mnem_probe *probe;
    const mnem_probe_level *swept, *block;
} levels;

static roofline_op *find(roofline *r, const char *op, const char *name) {
    for (int i = 0; i < r->count; i++)
        if (!strcmp(r->op[i].op, op) && !strcmp(r->op[i].name, name)) return &r->op[i];
    if (r->count == ROOFLINE_MOST) return &r->op[ROOFLINE_MOST - 1]; /* the last has the rest */
    roofline_op *o = &r->op[r->count++];
    *o = (roofline_op){.op = op};
    snprintf(o->name, sizeof o->name, "%s", name);
    return o;
}

/* Weights that are quantized meet rows of 8 bits. */
static const char *type_of(const mnem_graph *graph, const mnem_graph_node_info *node) {
    mnem_graph_tensor_info in;
    const bool eight =
        mnem_graph_tensor_get(graph, node->in[0], &in) && in.desc.type == MNEM_TYPE_A8;
    return eight ? "int8" : "f32";
}

static double rate_of(const mnem_probe *p, const mnem_probe_level *level) {
    return level ? level->rate[p->teams - 1][MNEM_PROBE_LOAD].best : 0;
}

static void add_node(roofline *r, const levels *l, const mnem_graph *graph, int32_t index,
                     const mnem_graph_node_info *node, const mnem_op_cost *cost) {
    mnem_graph_tensor_info out;
    const bool named = mnem_graph_tensor_get(graph, node->out, &out);
    roofline_op *o = find(r, mnem_op_text(node->kind), named ? out.name : "");
    const uint64_t bytes = cost->bytes_read + cost->bytes_written;
    (void)index;
    o->level = is_swept(node->kind) ? l->swept : l->block;
    if (cost->multiply_adds) o->type = type_of(graph, node);
    const double rate = rate_of(l->probe, o->level);
    const double peak = o->type ? mnem_probe_peak_of(l->probe, o->type) : 0;
    const double moving = rate > 0 ? (double)bytes / rate : 0;
    const double adding = peak > 0 ? 2 * (double)cost->multiply_adds / peak : 0;
    o->count++;
    o->multiply_adds += cost->multiply_adds;
    o->bytes += bytes;
    o->seconds += moving > adding ? moving : adding;
    o->arithmetic = adding > moving;
}

/* One program's nodes: the body, or the head, whose rows are those that logits are wanted of. */
static mnem_status add_program(const tool_stage *stage, const levels *l, bool head, roofline *r) {
    mnem_graph *graph = NULL;
    mnem_graph_sizes sizes;
    mnem_graph_node_info node;
    mnem_op_cost cost;
    const int32_t tokens = head ? 1 : r->tokens;
    mnem_status status = mnem_engine_graph_create(stage->model, &stage->options, &stage->plan, head,
                                                  head ? 0 : tokens, &graph, &sizes);
    if (status != MNEM_OK) return status;
    levels here = *l;
    here.block = mnem_probe_level_of(l->probe, sizes.block_bytes);
    const int64_t first = stage->transformer.encoder ? 0 : tokens - 1;
    for (int32_t i = 0; mnem_graph_node_get(graph, i, &node); i++) {
        mnem_graph_node_cost(graph, i, tokens, first, r->past, &cost);
        add_node(r, &here, graph, i, &node, &cost);
    }
    mnem_graph_destroy(graph);
    return MNEM_OK;
}

/* Bytes of keys and values that a pass reads. */
static uint64_t past_bytes(const mnem_engine_plan *p, int32_t past) {
    return p->page_tokens ? p->page_bytes / (uint64_t)p->page_tokens * (uint64_t)past : 0;
}

mnem_status roofline_make(const tool_stage *stage, const mnem_probe *probe, bool prefill,
                          roofline *r) {
    enum { PAST = 511 };
    const mnem_engine_plan *p = &stage->plan;
    const int32_t most = p->context - 1;
    *r = (roofline){.phase = prefill ? "prefill" : "decode",
                    .tokens = prefill ? p->chunk : 1,
                    .past = prefill       ? 0
                            : most < PAST ? most
                                          : PAST};
    const levels l = {
        .probe = probe,
        .swept = mnem_probe_level_of(probe, p->weight_bytes + past_bytes(p, r->past + r->tokens))};
    mnem_status status = add_program(stage, &l, false, r);
    if (status == MNEM_OK && !stage->transformer.encoder) status = add_program(stage, &l, true, r);
    for (int i = 0; i < r->count; i++) {
        r->multiply_adds += r->op[i].multiply_adds;
        r->bytes += r->op[i].bytes;
        r->operators_s += r->op[i].seconds;
    }
    r->streamed_bytes = p->bytes_streamed_per_pass;
    const double disk = probe->disk.best > 0 ? (double)r->streamed_bytes / probe->disk.best : 0;
    r->seconds = disk > r->operators_s ? disk : r->operators_s;
    return status;
}

/* ---- the table ---- */

static double intensity(uint64_t multiply_adds, uint64_t bytes) {
    return bytes ? 2 * (double)multiply_adds / (double)bytes : 0;
}

static void print_op(const roofline *r, const roofline_op *o) {
    char name[TOOL_TEXT + 16], bytes[TOOL_TEXT], adds[TOOL_TEXT];
    snprintf(name, sizeof name, "%s %s", o->op, o->name);
    tool_outf("  %-19s %5d %9s %8s %6.1f  %-6s%8.3f ms %5.1f %%\n", name, o->count,
              tool_size(o->bytes, bytes),
              o->multiply_adds ? tool_count((double)o->multiply_adds, adds) : "-",
              intensity(o->multiply_adds, o->bytes),
              o->arithmetic ? o->type
              : o->level    ? o->level->name
                            : "-",
              1e3 * o->seconds, r->operators_s > 0 ? 100 * o->seconds / r->operators_s : 0);
}

/* What takes most first. */
static void print_ops(const roofline *r) {
    bool shown[ROOFLINE_MOST] = {false};
    for (int i = 0; i < r->count; i++) {
        int next = -1;
        for (int k = 0; k < r->count; k++)
            if (!shown[k] && (next < 0 || r->op[k].seconds > r->op[next].seconds)) next = k;
        shown[next] = true;
        print_op(r, &r->op[next]);
    }
}

void roofline_print(const roofline *r) {
    char bytes[TOOL_TEXT], adds[TOOL_TEXT];
    tool_outf("\n%s: %d token%s after %d others: what limits each operator, and its minimum time\n",
              r->phase, r->tokens, tool_s((uint64_t)r->tokens), r->past);
    tool_outf("  operator            nodes     bytes mul-adds FLOP/B  by       least   share\n");
    print_ops(r);
    tool_outf("  all %31s %8s %6.1f %15.3f ms\n  at most %.0f tokens/s\n",
              tool_size(r->bytes, bytes), tool_count((double)r->multiply_adds, adds),
              intensity(r->multiply_adds, r->bytes), 1e3 * r->operators_s,
              r->seconds > 0 ? r->tokens / r->seconds : 0);
    if (r->streamed_bytes)
        tool_outf("  from disk meanwhile %15s %31.3f ms\n", tool_size(r->streamed_bytes, bytes),
                  1e3 * r->seconds);
}

json_t *roofline_json(const roofline *r) {
    json_t *list = json_array();
    for (int i = 0; i < r->count; i++) {
        const roofline_op *o = &r->op[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:I, s:I, s:f, s:s, s:s?, s:s, s:f}", "op", o->op,
                            "name", o->name, "nodes", o->count, "multiply_adds",
                            (json_int_t)o->multiply_adds, "bytes", (json_int_t)o->bytes,
                            "flop_per_byte", intensity(o->multiply_adds, o->bytes), "level",
                            o->level ? o->level->name : "", "type", o->type, "limit",
                            o->arithmetic ? "arithmetic" : "bytes", "seconds", o->seconds));
    }
    return json_pack(
        "{s:s, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:o, s:o}", "phase", r->phase, "tokens",
        r->tokens, "past", r->past, "multiply_adds", (json_int_t)r->multiply_adds, "bytes",
        (json_int_t)r->bytes, "streamed_bytes", (json_int_t)r->streamed_bytes, "operators_seconds",
        r->operators_s, "seconds", r->seconds, "tokens_per_s",
        tool_json_known(r->seconds > 0 ? r->tokens / r->seconds : 0), "operators", list);
}

/* ---- for plan and bench ---- */

/* The level that limits most of a pass, or what does: memory where nothing else is known. */
static void set_level(roofline_most *most, const roofline *r, const mnem_probe *probe) {
    const mnem_probe_level *level = NULL;
    double longest = 0;
    for (int i = 0; i < r->count; i++)
        if (r->op[i].level && r->op[i].seconds > longest) {
            longest = r->op[i].seconds;
            level = r->op[i].level;
        }
    if (!level) return;
    snprintf(most->level, sizeof most->level, "%s", level->name);
    most->level_rate = level->rate[probe->teams - 1][MNEM_PROBE_LOAD].best;
}

bool roofline_most_get(const tool_stage *stage, roofline_most *most) {
    static mnem_probe probe;
    static roofline r;
    double age;
    *most = (roofline_most){0};
    if (!tool_probe_load(&probe, &age)) return false;
    most->memory_rate = tool_probe_memory_rate(&probe);
    most->int8_rate = mnem_probe_peak_of(&probe, "int8");
    most->level_rate = most->memory_rate;
    snprintf(most->level, sizeof most->level, "memory");
    tool_probe_when(age, most->when);
    if (roofline_make(stage, &probe, true, &r) == MNEM_OK && r.seconds > 0)
        most->prompt = r.tokens / r.seconds;
    if (stage->transformer.encoder) return true;
    if (roofline_make(stage, &probe, false, &r) == MNEM_OK && r.seconds > 0)
        most->generate = r.tokens / r.seconds;
    set_level(most, &r, &probe);
    return true;
}

json_t *roofline_most_json(const roofline_most *most) {
    return json_pack("{s:o, s:o, s:f, s:f}", "prompt_tokens_per_s", tool_json_known(most->prompt),
                     "tokens_per_s", tool_json_known(most->generate), "memory_bytes_per_s",
                     most->memory_rate, "int8_per_s", most->int8_rate);
}
