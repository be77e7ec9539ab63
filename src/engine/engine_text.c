/* engine_text.c: the sentences of a plan, from its numbers. */
#include "engine/engine_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

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

void mnem__engine_why(mnem_engine_plan *plan) {
    char a[24], b[24];
    char *out = plan->why;
    const size_t n = sizeof plan->why;
    out[0] = 0;
    if (!plan->streamed) {
        add(out, n, "all %s of matrices stay in memory",
            mnem_size_format(plan->weight_bytes, a, sizeof a));
    } else {
        add(out, n, "%s of %s of matrices fit beside the rest",
            mnem_size_format(plan->weight_bytes_resident, a, sizeof a),
            mnem_size_format(plan->weight_bytes, b, sizeof b));
        add(out, n, "%s are read from disk for every token or chunk",
            mnem_size_format(plan->bytes_streamed_per_pass, a, sizeof a));
        if (plan->expert_slots > 0)
            add(out, n, "%d of %d experts have a place: %.0f %% of uses should find theirs",
                plan->expert_slots, plan->experts, 100 * plan->expert_hit_rate);
        if (!plan->direct_io) add(out, n, "through the page cache, which is outside the budget");
    }
    add(out, n, "chunks of %d tokens", plan->chunk);
    if (!plan->embedding_resident) add(out, n, "embedding rows are read from disk");
}

static uint64_t streamed(const mnem__way *way) {
    return way->residency->streamed_bytes_body + way->residency->streamed_bytes_head +
           way->residency->expert_misses_bytes;
}

void mnem__engine_change(const mnem__way *from, const mnem__way *to, char *out, size_t n) {
    char size[24];
    const mnem__choice a = mnem__way_choice(from), b = mnem__way_choice(to);
    snprintf(out, n, "%s: ", mnem_size_format(to->peak_bytes, size, sizeof size));
    const size_t head = strlen(out);
    char *rest = out + head;
    rest[0] = 0;
    if (b.context != a.context) add(rest, n - head, "context %d", b.context);
    if (b.kv_type != a.kv_type) add(rest, n - head, "%s KV", mnem_type_get(b.kv_type)->name);
    if (b.chunk != a.chunk) add(rest, n - head, "chunks of %d", b.chunk);
    const uint64_t read = streamed(to);
    if (read == 0 && streamed(from) > 0)
        add(rest, n - head, "all weights in memory");
    else if (read != streamed(from))
        add(rest, n - head, "%s from disk for every token",
            mnem_size_format(read, size, sizeof size));
    if (b.embedding_packed != a.embedding_packed)
        add(rest, n - head, "embedding rows %s", b.embedding_packed ? "in memory" : "from disk");
    if ((b.slots != a.slots || b.slot_bytes != a.slot_bytes) && (read > 0 || rest[0] == 0))
        add(rest, n - head, "ring of %d x %s", b.slots,
            mnem_size_format(b.slot_bytes, size, sizeof size));
}

mnem_status mnem__engine_refuse(uint64_t needed, uint64_t budget) {
    char a[24], b[24], c[24];
    return mnem__fail(MNEM_OVER_BUDGET, "plan: needs %llu bytes (%s), budget is %llu (%s), %s over",
                      (unsigned long long)needed, mnem_size_format(needed, a, sizeof a),
                      (unsigned long long)budget, mnem_size_format(budget, b, sizeof b),
                      mnem_size_format(needed - budget, c, sizeof c));
}
