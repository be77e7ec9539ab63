/* pool_report.c: the report of a refused request, with advice.
 *
 *     pool kv: limit 64 MiB, 49.6 MiB live in 64 MiB reserved: no room for 8 MiB (8388608 bytes);
 *     largest free run 4 MiB (fragmentation 0.72 of what is free); in the way: activation hidden
 *     64 KiB (a.c:12); bytes_max 64 MiB leaves 0 B, 8 MiB more are needed
 *
 * The blocks in the way are those of the window that is easiest to empty.
 * Cost: a pass over the runs; only the text if the C heap has no memory for the map. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc/pool/pool_private.h"

enum { TEXT_BYTES = 900, BLOCKS_NAMED = 4 };

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t used;
} text;

static void __attribute__((format(printf, 2, 3))) append_format(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->bytes + t->used, TEXT_BYTES - t->used, format, args);
    va_end(args);
    if (n > 0) t->used += (size_t)n;
    if (t->used >= TEXT_BYTES) t->used = TEXT_BYTES - 1;
}

typedef char size_text[24];

static const char *size(uint64_t bytes, size_text out) {
    return mnem_size_format(bytes, out, sizeof(size_text));
}

static void put_numbers(text *t, mnem_pool *pool, const mnem_pool_request *r) {
    mnem_pool_info info;
    size_text most, live, reserved, asked, run;
    mnem__pool_info_fill(pool, &info);
    append_format(t,
                  "pool %s: limit %s, %s live in %s reserved: can't allocate %s (%llu bytes); "
                  "largest free run "
                  "%s (fragmentation %.2f, %.2f of what is free)",
                  pool->tag, size(info.bytes_max, most), size(info.bytes_live, live),
                  size(info.bytes_reserved, reserved), size(r->bytes, asked),
                  (unsigned long long)r->bytes, size(info.bytes_largest_free, run),
                  info.fragmentation, info.fragmentation_free);
    if (info.bytes_pending)
        append_format(
            t, "; %s are freed but their streams have not reached the free yet (options.wait)",
            size(info.bytes_pending, run));
}

static void put_block(text *t, const mnem_pool *pool, uint32_t id) {
    mnem_live_block b;
    if (!mnem__track_block(&pool->track, id, &b)) return;
    const char *file = b.file ? b.file : "?", *slash = strrchr(file, '/');
    size_text bytes_text;
    append_format(t, "%s %s %s (%s:%u%s)", mnem_kind_text(b.kind), b.tag, size(b.bytes, bytes_text),
                  slash ? slash + 1 : file, b.line,
                  mnem__pool_slot_at(pool, id)->state == MNEM__POOL_SLOT_PENDING ? ", freed" : "");
}

/* Lists the blocks of the window; returns their bytes that can't be moved. */
static void put_in_the_way(text *t, const mnem_pool *pool, const mnem__pool_entry *e,
                           uint32_t count) {
    uint32_t named = 0, blocks = 0;
    uint64_t bytes = 0, fixed = 0;
    append_format(t, "; in the way: ");
    for (uint32_t i = 0; i < count; i++) {
        if (e[i].slot == MNEM__POOL_FREE) continue;
        blocks++;
        bytes += e[i].bytes;
        if (!mnem__pool_movable(mnem__pool_slot_at(pool, e[i].slot))) fixed += e[i].bytes;
        if (named == BLOCKS_NAMED) continue;
        append_format(t, "%s", named++ ? ", " : "");
        put_block(t, pool, e[i].slot);
    }
    if (blocks > named) append_format(t, " and %u more", blocks - named);
    size_text all, fast;
    append_format(t, ", %s, %s of them not movable", size(bytes, all), size(fixed, fast));
}

static void put_window(text *t, mnem_pool *pool, const mnem__pool_heap *h, uint64_t bytes) {
    uint32_t first, last;
    if (mnem__pool_map_make(pool, h) && mnem__pool_window(pool, bytes, false, &first, &last))
        put_in_the_way(t, pool, pool->map.entries + first, last - first + 1);
    else
        append_format(t, "; no contiguous part of the stream's memory is that large");
}

mnem_status mnem__pool_refuse(mnem_pool *pool, mnem__pool_heap *h, const mnem_pool_request *request,
                              uint64_t bytes, mnem_status status, const char *why) {
    text t = {.used = 0};
    put_numbers(&t, pool, request);
    put_window(&t, pool, h, bytes);
    append_format(&t, "; %s", why);
    const uint64_t more = mnem__pool_reserved(pool) +
                          ((uint64_t)mnem__pool_units_for(pool, bytes) << pool->unit_shift);
    if (more > pool->options.bytes_max)
        append_format(&t, "; bytes_max = %llu would be enough", (unsigned long long)more);
    return mnem__fail(status == MNEM_OK ? MNEM_NO_MEMORY : status, "%s", t.bytes);
}
