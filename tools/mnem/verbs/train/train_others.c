/* train_others.c: what other budgets would buy, for --dry-run: the ways of a step that no other way
 * beats in both bytes and time.
 *
 * A table of all of them may have a hundred rows. Without --verbose it has a few, evenly spread
 * from the smallest way to the fastest one, with the chosen one among them. */
#include <stdlib.h>

#include "verbs/train/train_tool.h"

enum { ROWS = 5 }; /* and the chosen one */

typedef struct ways {
    mnem_train_way *way;
    int32_t count, room;
    bool failed;
} ways;

static bool keep_way(void *context, const mnem_train_way *way) {
    ways *w = context;
    if (w->count == w->room) {
        const int32_t room = w->room ? 2 * w->room : 64;
        mnem_train_way *more = realloc(w->way, (size_t)room * sizeof *more);
        w->failed = !more;
        if (!more) return false;
        w->way = more;
        w->room = room;
    }
    w->way[w->count++] = *way;
    return true;
}

/* The list leaves out a way that is less than half a percent faster than a smaller one, but a
 * budget between the two chooses it: it is listed with the time of that one. */
static void add_chosen(const train_run *run, ways *w) {
    const mnem_train_plan *p = &run->plan;
    int32_t at = 0;
    for (int32_t i = 0; i < w->count; i++)
        if (w->way[i].chosen) return;
    while (at < w->count && w->way[at].peak_bytes <= p->peak_bytes) at++;
    const mnem_train_way chosen = {.peak_bytes = p->peak_bytes,
                                   .cost = w->count ? w->way[at ? at - 1 : 0].cost : 1,
                                   .micro_batch = p->micro_batch,
                                   .layers_recomputed = p->layers_recomputed,
                                   .teacher_streamed = p->teacher_streamed,
                                   .chosen = true};
    if (!keep_way(w, &chosen)) return;
    for (int32_t i = w->count - 1; i > at; i--) w->way[i] = w->way[i - 1];
    w->way[at] = chosen;
}

static void print_json(const mnem_train_way *way) {
    tool_out_json("budget",
                  json_pack("{s:I, s:f, s:i, s:i, s:b, s:b}", "peak_bytes",
                            (json_int_t)way->peak_bytes, "cost", way->cost, "micro_batch",
                            way->micro_batch, "layers_recomputed", way->layers_recomputed,
                            "teacher_streamed", way->teacher_streamed, "chosen", way->chosen));
}

static void print_row(const train_run *run, const mnem_train_way *way) {
    char size[TOOL_TEXT], layers[TOOL_TEXT];
    snprintf(layers, sizeof layers, "%d of %d", way->layers_recomputed, run->plan.layers);
    tool_outf("%c %12s %10.0f %% %12d %18s%s\n", way->chosen ? '*' : ' ',
              tool_size(way->peak_bytes, size), 100 * way->cost, way->micro_batch, layers,
              way->teacher_streamed ? "  streamed teacher" : "");
}

static bool is_spread(int32_t i, int32_t count) {
    for (int32_t row = 0; row < ROWS; row++)
        if (i == row * (count - 1) / (ROWS - 1)) return true;
    return false;
}

static void print_table(const train_run *run, const ways *w) {
    const bool all = run->args->verbose || w->count <= ROWS;
    int32_t shown = 0;
    tool_outf("         memory    step time  micro-batch  layers recomputed\n");
    for (int32_t i = 0; i < w->count; i++) {
        if (!all && !w->way[i].chosen && !is_spread(i, w->count)) continue;
        print_row(run, &w->way[i]);
        shown++;
    }
    if (run->args->verbose || run->args->quiet) return;
    if (all)
        tool_outf("-v prints every part in bytes\n");
    else
        tool_outf("%d of %d ways are shown (*: chosen); -v prints all, and every part in bytes\n",
                  shown, w->count);
}

int train_plan_ways(train_run *run) {
    ways w = {0};
    if (run->args->json) tool_out_json("plan", train_report_plan_json(run));
    const mnem_status status = mnem_train_frontier(&run->options, &run->plan, keep_way, &w);
    if (status == MNEM_OK && !w.failed) add_chosen(run, &w);
    const bool made = status == MNEM_OK && !w.failed;
    for (int32_t i = 0; i < w.count && made && run->args->json && !tool_out_closed(); i++)
        print_json(&w.way[i]);
    if (made && !run->args->json) print_table(run, &w);
    free(w.way);
    if (w.failed)
        return tool_failed("out of memory for a list of %d ways: end other programs", w.room);
    return status == MNEM_OK ? tool_out_end() : tool_fail(status);
}
