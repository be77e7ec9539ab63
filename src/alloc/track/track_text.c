/* track_text.c: groups of live blocks as lines of text.
 *
 * The idea: a line is formatted separately and appended only when all of it fits, so that no line
 * is cut and omitted ones are counted. Names of functions are looked up here, when the text is
 * made, not when a block is allocated. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "mnem/live.h"

enum { LINE_MAX_BYTES = 512, REST_BYTES = 48 /* for the line that counts the rest */ };

typedef struct text_out {
    char *at;
    size_t left; /* with the zero */
} text_out;

/* Puts a line in; false when it and room for the last line don't fit. */
static bool line_put(text_out *out, const char *line, size_t reserve) {
    size_t n = strlen(line);
    if (n + 1 + reserve > out->left) return false;
    memcpy(out->at, line, n + 1);
    out->at += n;
    out->left -= n;
    return true;
}

static void frame_line(const void *frame, char *line, size_t n) {
    Dl_info info;
    /* The call is before the return address, which may be the next function's first byte. */
    if (!dladdr((const char *)frame - 1, &info) || !info.dli_fname) {
        snprintf(line, n, "    %p\n", frame);
        return;
    }
    const char *base = strrchr(info.dli_fname, '/');
    base = base ? base + 1 : info.dli_fname;
    size_t offset = (size_t)((const char *)frame - (const char *)info.dli_fbase);
    if (info.dli_sname)
        snprintf(line, n, "    %s+%zu (%s)\n", info.dli_sname,
                 (size_t)((const char *)frame - (const char *)info.dli_saddr), base);
    else
        snprintf(line, n, "    %s+0x%zx\n", base, offset);
}

static void group_line(const mnem_live_group *g, char *line, size_t n) {
    char size[24], place[256] = "";
    if (g->file) snprintf(place, sizeof place, "  at %.200s:%u", g->file, g->line);
    snprintf(line, n, "%s%s%s  %llu block%s %s%s (oldest: step %u)\n", mnem_kind_text(g->kind),
             g->tag ? " " : "", g->tag ? g->tag : "", (unsigned long long)g->blocks,
             g->blocks == 1 ? "" : "s", mnem_size_format(g->bytes, size, sizeof size), place,
             g->oldest_step);
}

/* A group whole, or nothing of it. */
static bool group_put(text_out *out, const mnem_live_group *g, size_t reserve) {
    const text_out before = *out;
    char line[LINE_MAX_BYTES];
    group_line(g, line, sizeof line);
    bool fits = line_put(out, line, reserve);
    for (uint32_t i = 0; i < g->frame_count && fits; i++) {
        frame_line(g->frames[i], line, sizeof line);
        fits = line_put(out, line, reserve);
    }
    if (!fits) {
        *out = before;
        *out->at = 0;
    }
    return fits;
}

char *mnem_live_text(const mnem_live_group *groups, size_t count, char *out, size_t n) {
    if (!n) return out;
    text_out text = {.at = out, .left = n};
    *out = 0;
    size_t i = 0;
    while (i < count && group_put(&text, &groups[i], i + 1 < count ? REST_BYTES : 0)) i++;
    if (i == count) return out;
    uint64_t bytes = 0;
    for (size_t k = i; k < count; k++) bytes += groups[k].bytes;
    char line[LINE_MAX_BYTES], size[24];
    snprintf(line, sizeof line, "and %zu more, %s\n", count - i,
             mnem_size_format(bytes, size, sizeof size));
    line_put(&text, line, 0);
    return out;
}
