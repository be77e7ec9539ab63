/* place_spaces.c: the spaces of `mnem place`: from the command line, and as text and JSON.
 *
 * A space is NAME[=SIZE][:COST]. What it costs to be in one is accesses x bytes x COST, summed over
 * the buffers; the default COST is the place on the command line, so that the first is free. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/layout/place_tool.h"

/* ---- the command line ---- */

static bool take_cost(const char *text, uint64_t *cost) {
    char *end;
    errno = 0;
    *cost = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno;
}

/* NAME[=SIZE][:COST] */
static int parse_space(placing *p, const char *text) {
    const uint32_t at = p->space_count;
    mnem_place_space *s = &p->spaces[at];
    char *name = p->space_text[at], size[PLACE_NAME];
    const size_t length = strcspn(text, "=:");
    const char *rest = text + length;
    *s = (mnem_place_space){.cost = at};
    if (length == 0 || length >= PLACE_NAME || strcspn(text, " ,") < length)
        return tool_usage("place",
                          "--space %s: the name before = or : must have 1 to %d characters, "
                          "without commas and spaces",
                          text, PLACE_NAME - 1);
    memcpy(name, text, length);
    for (uint32_t i = 0; i < at; i++)
        if (strcmp(p->space_text[i], name) == 0)
            return tool_usage("place", "--space %s is given twice; give each name once", name);
    if (*rest == '=') {
        const size_t digits = strcspn(rest + 1, ":");
        snprintf(size, sizeof size, "%.*s", (int)(digits < sizeof size ? digits : 0), rest + 1);
        if (mnem_size_parse(size, &s->capacity_bytes) != MNEM_OK)
            return tool_usage(
                "place", "--space %s: the = must be followed by a size such as 512K or 2G", text);
        rest += 1 + digits;
    }
    if (*rest == ':' && !take_cost(rest + 1, &s->cost))
        return tool_usage(
            "place",
            "--space %s: the : must be followed by a whole number, the cost of accessing one byte",
            text);
    p->space_names[p->space_count++] = name;
    return TOOL_OK;
}

int place_spaces_parse(placing *p) {
    for (int i = 0; i < p->asked->space.count; i++) {
        const int code = parse_space(p, p->asked->space.text[i]);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

/* ---- what came out ---- */

static uint64_t accesses_of(const placing *p, size_t i) {
    return p->uses[i].accesses * p->t.buffers[i].bytes;
}

/* Of what is in a space: how many buffers, and their cost. */
static size_t sum_up(const placing *p, uint32_t space, uint64_t *cost) {
    size_t count = 0;
    *cost = 0;
    for (size_t i = 0; i < p->t.n; i++) {
        if (p->uses[i].space != space) continue;
        count++;
        *cost += accesses_of(p, i) * p->spaces[space].cost;
    }
    return count;
}

static void print_spaces(const placing *p) {
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT], d[TOOL_TEXT];
    tool_outf("  %-12s %16s %16s %9s %18s\n", "space", "capacity", "peak", "buffers", "cost");
    for (uint32_t s = 0; s < p->space_count; s++) {
        uint64_t cost;
        const size_t count = sum_up(p, s, &cost);
        const uint64_t capacity = p->spaces[s].capacity_bytes;
        tool_outf("  %-12s %16s %16s %9s %18s\n", p->space_names[s],
                  capacity ? tool_exact(capacity, a) : "none",
                  tool_exact(p->spaces[s].peak_bytes, b), tool_exact(count, c),
                  tool_exact(cost, d));
    }
}

/* In percent; a bound of 0 under a cost above it says nothing, and 100 stands for that. */
static double above_bound(const placing *p) {
    const mnem_place_spaces_result *r = &p->spread;
    if (r->cost <= r->lower_bound_cost) return 0;
    return r->lower_bound_cost ? 100 * ((double)r->cost / (double)r->lower_bound_cost - 1) : 100;
}

static void print_verdict(const placing *p) {
    char a[TOOL_TEXT];
    tool_outf("  verdict  %s", place_verdict(p));
    if (p->spread.verdict == MNEM_PLACE_INFEASIBLE)
        tool_outf(": nothing fits these capacities");
    else if (!place_fits(p))
        tool_outf(": no placement found for %s bytes in %g s (--time); one may exist",
                  tool_exact(p->spread.over_bytes, a), p->asked->seconds);
    else if (p->spread.verdict == MNEM_PLACE_OPTIMAL)
        tool_outf(": no placement costs less");
    else if (p->spread.lower_bound_cost == 0)
        tool_outf(": no bound is known");
    else
        tool_outf(": at most %.2f %% above the best", above_bound(p));
    tool_outf("\n");
    if (p->stopped) tool_outf("  stopped  by a signal: the best so far\n");
}

static const placing *sorted; /* qsort takes no context */

static int used_more_first(const void *x, const void *y) {
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const uint64_t a = accesses_of(sorted, i), b = accesses_of(sorted, j);
    if (a != b) return a > b ? -1 : 1;
    return (i > j) - (i < j);
}

static void print_buffers(const placing *p) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    uint32_t *order = calloc(p->t.n + 1, sizeof *order);
    if (!order) return;
    for (uint32_t i = 0; i < p->t.n; i++) order[i] = i;
    sorted = p;
    qsort(order, p->t.n, sizeof *order, used_more_first);
    if (p->t.n) tool_outf("    %18s %18s  space, id\n", "bytes", "offset");
    for (size_t i = 0; i < p->t.n && i < PLACE_SHOWN_MAX; i++) {
        const mnem_place_buffer *buffer = &p->t.buffers[order[i]];
        tool_outf("    %18s %18s  %s, %s, %lld to %lld\n", tool_exact(buffer->bytes, a),
                  tool_exact(buffer->offset, b), p->space_names[p->uses[order[i]].space],
                  mnem_place_csv_id(p->csv, order[i]), (long long)buffer->lower,
                  (long long)buffer->upper);
    }
    if (p->t.n > PLACE_SHOWN_MAX)
        tool_outf("    and %s less used one%s (--json and --out have all)\n",
                  tool_exact(p->t.n - PLACE_SHOWN_MAX, a), tool_s(p->t.n - PLACE_SHOWN_MAX));
    free(order);
}

void place_spaces_text(const placing *p) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    tool_outf("%s: %s buffer%s, %.3g s\n", p->path, tool_exact(p->t.n, a), tool_s(p->t.n),
              p->seconds);
    print_spaces(p);
    tool_outf("  cost     %s, bound %s (accesses x bytes x cost)\n", tool_exact(p->spread.cost, a),
              tool_exact(p->spread.lower_bound_cost, b));
    print_verdict(p);
    print_buffers(p);
}

static json_t *spaces_json(const placing *p) {
    json_t *spaces = json_array();
    for (uint32_t s = 0; s < p->space_count; s++) {
        uint64_t cost;
        const size_t count = sum_up(p, s, &cost);
        const uint64_t capacity = p->spaces[s].capacity_bytes;
        json_array_append_new(spaces,
                              json_pack("{s:s, s:o, s:I, s:I, s:I}", "name", p->space_names[s],
                                        "capacity_bytes", tool_json_count(capacity > 0, capacity),
                                        "peak_bytes", (json_int_t)p->spaces[s].peak_bytes,
                                        "buffers", (json_int_t)count, "cost", (json_int_t)cost));
    }
    return spaces;
}

void place_spaces_json(const placing *p) {
    const mnem_place_spaces_result *r = &p->spread;
    json_t *placed = json_array();
    for (size_t i = 0; i < p->t.n; i++) {
        const mnem_place_buffer *b = &p->t.buffers[i];
        json_t *id = json_string(mnem_place_csv_id(p->csv, i));
        json_array_append_new(placed, json_pack("{s:o, s:I, s:s, s:I}", "id", id ? id : json_null(),
                                                "bytes", (json_int_t)b->bytes, "space",
                                                p->space_names[p->uses[i].space], "offset",
                                                (json_int_t)b->offset));
    }
    tool_out_json("place",
                  json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:b, s:b, s:f, s:I, s:o, s:o}", "file",
                            p->path, "buffers", (json_int_t)p->t.n, "cost", (json_int_t)r->cost,
                            "lower_bound_cost", (json_int_t)r->lower_bound_cost, "over_bytes",
                            (json_int_t)r->over_bytes, "verdict", place_verdict(p), "fits",
                            place_fits(p), "stopped", p->stopped, "seconds", p->seconds, "nodes",
                            (json_int_t)r->nodes, "spaces", spaces_json(p), "placed", placed));
}
