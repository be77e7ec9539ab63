/* engine_text.c: the sentences of a plan, from its numbers. */
#include "engine/engine_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends to a text of at most n bytes, "; " between sentences; what doesn't fit is cut. */
__attribute__((format(printf, 3, 4))) static void add(char *out, size_t n, const char *format,
                                                      ...) {
    size_t used = strlen(out);
    if (used > 0 && used + 3 < n) used += (size_t)snprintf(out + used, n - used, ", ");
    va_list list;
    va_start(list, format);
    vsnprintf(out + used, n - used, format, list);
    va_end(list);
}

static void add_streamed(const mnem_engine_plan *plan, char *out, size_t n) {
    char a[24], b[24];
    const uint64_t others = plan->bytes_streamed_per_pass - plan->expert_bytes_per_token;
    mnem_size_format(plan->weight_bytes_resident, a, sizeof a);
    if (others == 0)
        add(out, n, "all weights but experts stay in memory (%s)", a);
    else
        add(out, n, "%s of %s of weights stay in memory", a,
            mnem_size_format(plan->weight_bytes, b, sizeof b));
    if (others > 0)
        add(out, n, "%s are read from disk for every token or chunk of a prompt",
            mnem_size_format(others, a, sizeof a));
    if (plan->expert_slots > 0)
        add(out, n, "what is left holds %d of %d experts", plan->expert_slots, plan->experts);
    if (!plan->direct_io) add(out, n, "through the page cache, which is outside the budget");
    if (!plan->embedding_resident) add(out, n, "rows of the embedding are read, too");
}

/* What is read from disk is dense, but for compact matrices. */
static void add_sparse(const mnem_engine_plan *plan, char *out, size_t n) {
    char size[24];
    if (plan->matrices_sparse > 0)
        add(out, n, "%d matrices are 2:4, which saves %s%s", plan->matrices_sparse,
            mnem_size_format(plan->sparse_saved_bytes, size, sizeof size),
            plan->matrices_compact ? " in memory and on disk"
            : plan->streamed       ? " in memory, not on disk"
                                   : "");
    if (plan->matrices_dense > 0)
        add(out, n, "%d more are 2:4, but kept dense: that is faster on this processor",
            plan->matrices_dense);
}

/* Of the table of embeddings of layers a token needs a row, which is read in any case. */
static void add_layer_rows(const mnem__transformer_map *map, char *out, size_t n) {
    mnem_tensor_info info;
    char size[24];
    if (map->layer_table < 0) return;
    mnem_model_tensor_get(map->model, (uint32_t)map->layer_table, &info);
    add(out, n, "embeddings of layers stay in the file: %s are read for each token",
        mnem_size_format(mnem_type_row_bytes(info.type, info.shape[1]), size, sizeof size));
}

void mnem__engine_why(mnem_engine_plan *plan, const mnem__transformer_map *map) {
    char size[24];
    char *out = plan->why;
    const size_t n = sizeof plan->why;
    out[0] = 0;
    if (plan->streamed)
        add_streamed(plan, out, n);
    else
        add(out, n, "all %s of weights stay in memory",
            mnem_size_format(plan->weight_bytes, size, sizeof size));
    add_sparse(plan, out, n);
    add_layer_rows(map, out, n);
}

static uint64_t streamed(const mnem__way *way) {
    return way->residency->streamed_bytes_body + way->residency->streamed_bytes_head +
           way->residency->expert_misses_bytes;
}

void mnem__engine_change(const mnem__search *search, const mnem__way *from, const mnem__way *to,
                         char *out, size_t n) {
    char size[24];
    const mnem__choice a = mnem__way_choice(from), b = mnem__way_choice(to);
    const uint64_t read = streamed(to);
    out[0] = 0;
    if (b.expert_slots > 0 && b.expert_slots != a.expert_slots)
        add(out, n, "%d of %d experts in memory", b.expert_slots, search->experts.expert_total);
    if (read == 0 && streamed(from) > 0)
        add(out, n, "all weights in memory");
    else if (read != streamed(from))
        add(out, n, "%s from disk for every token", mnem_size_format(read, size, sizeof size));
    if (b.context != a.context) add(out, n, "context %d", b.context);
    if (b.kv != a.kv) add(out, n, "%s KV", mnem_type_get(mnem_kv_type(b.kv))->name);
    if (b.chunk != a.chunk) add(out, n, "chunks of %d", b.chunk);
    if (b.embedding_packed != a.embedding_packed)
        add(out, n, "embedding rows %s", b.embedding_packed ? "in memory" : "from disk");
    if ((b.slots != a.slots || b.slot_bytes != a.slot_bytes) && !out[0])
        add(out, n, "ring of %d x %s", b.slots, mnem_size_format(b.slot_bytes, size, sizeof size));
}
