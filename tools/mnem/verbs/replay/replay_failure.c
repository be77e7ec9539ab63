/* replay_failure.c: the request that failed in a snapshot, and what stood in its way: how much was
 * free and in how many pieces, the segments that lost most, and whose blocks keep them. */
#include <string.h>

#include "verbs/replay/replay_snapshot.h"

enum { ROWS = 5, SITE_ROOM = 36 };

static char *where(const char *site, int room, char text[TOOL_TEXT * 8]) {
    return *site ? replay_site_text(site, room, text) : strcpy(text, "(not recorded)");
}

static void print_request(const replay_snapshot *s, const replay_case *c) {
    const mnem_snapshot_failure *f = s->failure;
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT], site[TOOL_TEXT * 8];
    tool_outf("\nthe request that failed: %s after operation %s of %s\n", tool_size(f->bytes, a),
              tool_exact(f->op, b), tool_exact(c->info.count, d));
    tool_outf("  by %s\n", where(f->site, 75, site));
    if (s->failures > 1) tool_outf("  the last of %s that failed\n", tool_exact(s->failures, a));
}

/* Which of the two it was: too much is live, or what is free lies in pieces. */
static void print_reason(const mnem_snapshot_failure *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT];
    const uint64_t capacity = f->bytes_reserved + f->bytes_device_free;
    if (f->bytes_free + f->bytes_device_free >= f->bytes)
        tool_outf("  cause: fragmentation. Enough was free, but in pieces:\n"
                  "    %s inside of reserved memory, in %s hole%s, the largest %s\n",
                  tool_size(f->bytes_free, a), tool_exact(f->holes, b), tool_s(f->holes),
                  tool_size(f->bytes_free_largest, d));
    else
        tool_outf("  cause: too much was live:\n"
                  "    with the request %s of %s; without fragmentation, %s missing\n",
                  tool_size(f->bytes_granted + f->bytes, a), tool_size(capacity, b),
                  tool_size(f->bytes - f->bytes_free - f->bytes_device_free, d));
}

static void print_state(const mnem_snapshot_failure *f) {
    char live[TOOL_TEXT], granted[TOOL_TEXT], reserved[TOOL_TEXT], outside[TOOL_TEXT];
    tool_outf("  live %s (%s with rounding), reserved %s, free outside %s\n",
              tool_size(f->bytes_live, live), tool_size(f->bytes_granted, granted),
              tool_size(f->bytes_reserved, reserved), tool_size(f->bytes_device_free, outside));
    print_reason(f);
}

static void print_segments(const mnem_snapshot_failure *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT], e[TOOL_TEXT], site[TOOL_TEXT * 8];
    if (!f->segment_count) return;
    tool_outf("\n  %10s %10s %10s %7s  %s\n", "segment", "free", "largest", "blocks",
              "most of it is held by");
    for (size_t i = 0; i < f->segment_count && i < ROWS; i++) {
        const mnem_snapshot_segment *g = &f->segment[i];
        tool_outf("  %10s %10s %10s %7s  %s\n", tool_size(g->bytes, a), tool_size(g->bytes_free, b),
                  tool_size(g->bytes_free_largest, d), tool_exact(g->blocks, e),
                  where(g->site, SITE_ROOM, site));
    }
    if (f->segment_count > ROWS)
        tool_outf("  and %s more of %s segments\n", tool_exact(f->segment_count - ROWS, a),
                  tool_exact(f->segments, b));
}

static void print_pins(const mnem_snapshot_failure *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT], e[TOOL_TEXT], site[TOOL_TEXT * 8];
    if (!f->pin_count) return;
    tool_outf("\n  %10s %10s %10s %7s  %s\n", "keeps free", "holds", "segments", "blocks",
              "whose blocks keep segments");
    for (size_t i = 0; i < f->pin_count && i < ROWS; i++) {
        const mnem_snapshot_pin *p = &f->pin[i];
        tool_outf("  %10s %10s %10s %7s  %s\n", tool_size(p->bytes_free, a), tool_size(p->bytes, b),
                  tool_exact(p->segments, d), tool_exact(p->blocks, e),
                  where(p->site, SITE_ROOM, site));
    }
    if (f->pin_count > ROWS) tool_outf("  and %s more\n", tool_exact(f->pin_count - ROWS, a));
}

void replay_failure_print(const replay_snapshot *s, const replay_case *c) {
    if (!s->failure) return;
    print_request(s, c);
    print_state(s->failure);
    print_segments(s->failure);
    print_pins(s->failure);
}

/* ---- as JSON ---- */

static json_t *json_segments(const mnem_snapshot_failure *f) {
    json_t *all = json_array();
    for (size_t i = 0; i < f->segment_count; i++) {
        const mnem_snapshot_segment *g = &f->segment[i];
        json_array_append_new(
            all, json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "address", (json_int_t)g->address,
                           "bytes", (json_int_t)g->bytes, "free_bytes", (json_int_t)g->bytes_free,
                           "largest_free_bytes", (json_int_t)g->bytes_free_largest, "blocks",
                           (json_int_t)g->blocks, "site", g->site));
    }
    return all;
}

static json_t *json_pins(const mnem_snapshot_failure *f) {
    json_t *all = json_array();
    for (size_t i = 0; i < f->pin_count; i++) {
        const mnem_snapshot_pin *p = &f->pin[i];
        json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:I, s:I}", "site", p->site, "bytes",
                                             (json_int_t)p->bytes, "blocks", (json_int_t)p->blocks,
                                             "segments", (json_int_t)p->segments, "free_bytes",
                                             (json_int_t)p->bytes_free));
    }
    return all;
}

json_t *replay_failure_json(const replay_snapshot *s) {
    const mnem_snapshot_failure *f = s->failure;
    return json_pack(
        "{s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "operation",
        (json_int_t)f->op, "bytes", (json_int_t)f->bytes, "site", f->site, "failures",
        (json_int_t)s->failures, "device_free_bytes", (json_int_t)f->bytes_device_free,
        "live_bytes", (json_int_t)f->bytes_live, "granted_bytes", (json_int_t)f->bytes_granted,
        "reserved_bytes", (json_int_t)f->bytes_reserved, "free_bytes", (json_int_t)f->bytes_free,
        "largest_free_bytes", (json_int_t)f->bytes_free_largest, "holes", (json_int_t)f->holes,
        "fragmented", f->bytes_free + f->bytes_device_free >= f->bytes, "segments",
        json_segments(f), "kept_by", json_pins(f));
}
