/* replay_timeline.c: `mnem replay --timeline`: reserved and live bytes over time, as a table of
 * moments, and as a graph of characters on a terminal.
 *
 * The operations are cut into equal parts; a row or column shows the largest live bytes of its part
 * and what is reserved then. */
#include <string.h>
#include <unistd.h>

#include "verbs/replay/replay_tool.h"

enum { PARTS_MAX = 72, ROWS = 24, HEIGHT = 14 };

typedef struct timeline {
    size_t count;
    int parts;
    struct {
        size_t op; /* where live is largest */
        uint64_t live, reserved;
    } part[PARTS_MAX];
} timeline;

static void on_moment(void *context, const mnem_replay_moment *m) {
    timeline *t = context;
    const size_t i = m->op * (size_t)t->parts / t->count;
    if (m->bytes_live >= t->part[i].live) {
        t->part[i].op = m->op;
        t->part[i].live = m->bytes_live;
    }
    if (m->bytes_reserved > t->part[i].reserved) t->part[i].reserved = m->bytes_reserved;
}

static void print_table(const timeline *t, const char *name) {
    tool_outf("\n  timeline of %s: the largest live bytes of each of %d part%s\n", name, t->parts,
              tool_s((uint64_t)t->parts));
    tool_outf("  %12s %12s %12s %8s\n", "operation", "live", "reserved", "waste");
    for (int i = 0; i < t->parts; i++) {
        char op[TOOL_TEXT], live[TOOL_TEXT], reserved[TOOL_TEXT];
        const uint64_t r = t->part[i].reserved, l = t->part[i].live;
        tool_outf("  %12s %12s %12s %6.1f %%\n", tool_exact(t->part[i].op, op), tool_size(l, live),
                  tool_size(r, reserved), r ? 100 * (1 - (double)l / (double)r) : 0);
    }
}

/* '#' live, '.' reserved and not live; bytes upwards. */
static void print_graph(const timeline *t, const char *name) {
    uint64_t most = 1;
    char size[TOOL_TEXT];
    for (int i = 0; i < t->parts; i++)
        if (t->part[i].reserved > most) most = t->part[i].reserved;
    tool_outf("\n  memory over time of %s: # live, . reserved\n", name);
    for (int row = HEIGHT; row > 0; row--) {
        char line[PARTS_MAX + 1];
        /* The middle of the row decides. */
        const double edge = ((double)row - 0.5) / HEIGHT * (double)most;
        for (int i = 0; i < t->parts; i++)
            line[i] = (double)t->part[i].live >= edge       ? '#'
                      : (double)t->part[i].reserved >= edge ? '.'
                                                            : ' ';
        line[t->parts] = 0;
        tool_outf("  %9s |%s\n",
                  row == HEIGHT ? tool_size(most, size)
                  : row == 1    ? "0 B"
                                : "",
                  line);
    }
    char end[TOOL_TEXT];
    tool_exact(t->count, end);
    tool_outf("  %9s +%.*s\n", "", t->parts,
              "------------------------------------------------------------------------");
    tool_outf("  %9s  0%*s operations\n", "", t->parts - 12, end);
}

int replay_timeline(const replay_case *c) {
    static timeline t;
    const bool graph = isatty(STDOUT_FILENO);
    const int parts = graph ? PARTS_MAX : ROWS;
    t = (timeline){.count = c->info.count};
    t.parts = c->info.count < (size_t)parts ? (int)c->info.count : parts;
    const mnem_status status = replay_again(c, NULL, on_moment, &t);
    if (status != MNEM_OK) return tool_fail(status);
    if (graph && t.parts == PARTS_MAX) print_graph(&t, c->names[0]);
    if (graph) { /* the table beside it in fewer rows */
        timeline small = {.count = t.count, .parts = t.parts < ROWS ? t.parts : ROWS};
        for (int i = 0; i < t.parts; i++) {
            const int k = i * small.parts / t.parts;
            if (t.part[i].live >= small.part[k].live)
                small.part[k].op = t.part[i].op, small.part[k].live = t.part[i].live;
            if (t.part[i].reserved > small.part[k].reserved)
                small.part[k].reserved = t.part[i].reserved;
        }
        t = small;
    }
    print_table(&t, c->names[0]);
    return TOOL_OK;
}
