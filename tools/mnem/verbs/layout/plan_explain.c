/* plan_explain.c: `mnem plan --explain`: the ways to run that nothing beats, as a table, as JSON
 * and as a drawing of bytes against speed. */
#include <stdlib.h>
#include <string.h>

#include "svg.h"
#include "verbs/layout/plan_tool.h"

#define ROWS_APART 1.25 /* times as fast as the row before */

static bool on_way(void *context, const mnem_engine_way *way) {
    tool_frontier *f = context;
    if (f->count == f->room) {
        const int room = f->room ? 2 * f->room : 64;
        mnem_engine_way *more = realloc(f->ways, (size_t)room * sizeof *more);
        f->failed = !more;
        if (!more) return false;
        f->ways = more;
        f->room = room;
    }
    f->ways[f->count++] = *way;
    return true;
}

int tool_frontier_make(const tool_stage *stage, tool_frontier *frontier) {
    *frontier = (tool_frontier){0};
    const mnem_status status =
        mnem_engine_frontier(stage->model, &stage->options, &stage->plan, on_way, frontier);
    if (status != MNEM_OK) return tool_fail(status);
    if (!frontier->failed && frontier->count > 0) return TOOL_OK;
    return tool_failed("out of memory for the list of plans of --explain: end other programs");
}

void tool_frontier_free(tool_frontier *frontier) {
    free(frontier->ways);
    *frontier = (tool_frontier){0};
}

/* Against the fastest way, in percent. */
static double speed(const tool_frontier *f, int i) {
    return 100 * f->ways[f->count - 1].seconds / f->ways[i].seconds;
}

/* What is read again and again, and what else this budget makes small. */
static void describe(const mnem_engine_way *w, char out[128]) {
    char size[TOOL_TEXT];
    int used = sprintf(out, "everything in memory");
    if (w->bytes_streamed_per_pass)
        used = sprintf(out, "%s/token from disk", tool_size(w->bytes_streamed_per_pass, size));
    if (w->expert_slots)
        sprintf(out + used, ", %d experts in memory", w->expert_slots);
    else
        sprintf(out + used, ", chunks of %d", w->chunk);
}

static char *budget_of(const mnem_engine_way *w, char text[TOOL_TEXT]) {
    return mnem_size_budget(w->peak_bytes, text, TOOL_TEXT);
}

/* A row that is worth its line: the ends, the plan's own, and what is so much faster than the row
 * before it; of several that one budget covers the fastest. */
static bool is_shown(const tool_frontier *f, int i, double last) {
    char here[TOOL_TEXT], next[TOOL_TEXT];
    if (f->ways[i].chosen || i == f->count - 1) return true;
    if (strcmp(budget_of(&f->ways[i], here), budget_of(&f->ways[i + 1], next)) == 0) return false;
    return last == 0 || f->ways[i].seconds * ROWS_APART <= last;
}

void tool_frontier_print(FILE *file, const tool_stage *stage, const tool_frontier *f) {
    char budget[TOOL_TEXT], what[128];
    double last = 0;
    int shown = 0;
    fprintf(file, "what a budget buys at a context of %d\n", stage->plan.context);
    if (!stage->options.profile)
        fputs("  on a plain machine: `mnem bench` measures this one\n", file);
    fprintf(file, "  %12s %10s %10s\n", "--memory", "tokens/s", "prompt/s");
    for (int i = 0; i < f->count; i++) {
        const mnem_engine_way *w = &f->ways[i];
        if (!is_shown(f, i, last)) continue;
        shown++;
        last = w->seconds;
        describe(w, what);
        fprintf(file, "%c %12s %10.1f %10.1f  %s\n", w->chosen ? '*' : ' ', budget_of(w, budget),
                w->tokens_per_s, w->prompt_tokens_per_s, what);
    }
    fprintf(file, "  * this plan; %d of %d way%s that nothing beats in both bytes and time\n",
            shown, f->count, tool_s((uint64_t)f->count));
}

json_t *tool_frontier_json(const tool_frontier *f) {
    json_t *list = json_array();
    for (int i = 0; i < f->count; i++) {
        const mnem_engine_way *w = &f->ways[i];
        json_array_append_new(
            list, json_pack("{s:I, s:f, s:f, s:f, s:i, s:i, s:s, s:i, s:i, s:f, s:I, s:b, s:s}",
                            "peak_bytes", (json_int_t)w->peak_bytes, "seconds", w->seconds,
                            "tokens_per_s", w->tokens_per_s, "prompt_tokens_per_s",
                            w->prompt_tokens_per_s, "context", w->context, "chunk", w->chunk, "kv",
                            mnem_kv_text(w->kv), "matrices_resident", w->matrices_resident,
                            "expert_slots", w->expert_slots, "expert_hit_rate", w->expert_hit_rate,
                            "bytes_streamed_per_pass", (json_int_t)w->bytes_streamed_per_pass,
                            "chosen", w->chosen, "gave_up", w->gave_up));
    }
    return list;
}

/* ---- the drawing ---- */

static char *percent(double number, char text[TOOL_TEXT]) {
    snprintf(text, TOOL_TEXT, "%.0f %%", number);
    return text;
}

/* A budget between two ways buys the smaller one: a staircase. */
static void draw_stairs(const tool_svg *svg, const tool_frontier *f) {
    fputs("<path fill=\"none\" stroke=\"#3f6fb5\" stroke-width=\"1.6\" d=\"", svg->file);
    for (int i = 0; i < f->count; i++) {
        const double x = tool_svg_x(svg, (double)f->ways[i].peak_bytes);
        const double y = tool_svg_y(svg, speed(f, i));
        if (i == 0)
            fprintf(svg->file, "M%.1f %.1f", x, y);
        else
            fprintf(svg->file, "H%.1fV%.1f", x, y);
    }
    fprintf(svg->file, "H%d\"/>\n", SVG_LEFT + SVG_WIDTH);
}

static void draw_points(const tool_svg *svg, const tool_frontier *f) {
    char size[TOOL_TEXT];
    for (int i = 0; i < f->count; i++) {
        const mnem_engine_way *w = &f->ways[i];
        const double x = tool_svg_x(svg, (double)w->peak_bytes), y = tool_svg_y(svg, speed(f, i));
        fprintf(svg->file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"><title>%s, %.1f %%: ", x, y,
                w->chosen ? 7 : 3, w->chosen ? "#c00" : "#3f6fb5", tool_size(w->peak_bytes, size),
                speed(f, i));
        tool_svg_text(svg->file, w->gave_up);
        fputs("</title></circle>\n", svg->file);
        if (!w->chosen) continue;
        const bool right = x > SVG_LEFT + SVG_WIDTH * 0.7;
        fprintf(svg->file,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#c00\" "
                "font-weight=\"bold\">this plan: %s, %.1f %%</text>\n",
                x + (right ? -12 : 12), y + 22, right ? "end" : "start", size, speed(f, i));
    }
}

static void draw_budget(const tool_svg *svg, uint64_t budget) {
    char size[TOOL_TEXT];
    if ((double)budget < svg->left || (double)budget > svg->right) return;
    const double x = tool_svg_x(svg, (double)budget);
    fprintf(svg->file,
            "<path d=\"M%.1f %dV%d\" stroke=\"#555\" stroke-dasharray=\"5 3\"/><text x=\"%.1f\" "
            "y=\"%d\" fill=\"#555\" text-anchor=\"end\">budget %s</text>\n",
            x, SVG_TOP, SVG_TOP + SVG_HEIGHT, x - 6, SVG_TOP + 18, tool_size(budget, size));
}

int tool_frontier_draw(const tool_stage *stage, const tool_frontier *f, const char *path) {
    const double least = (double)f->ways[0].peak_bytes;
    const double most = (double)f->ways[f->count - 1].peak_bytes;
    const double margin = most > least ? (most - least) * 0.05 : most * 0.05;
    mnem_model_info m;
    char title[160], subtitle[160];
    mnem_model_info_get(stage->model, &m);
    snprintf(title, sizeof title, "%.100s: bytes against speed", tool_file_name(m.path));
    snprintf(
        subtitle, sizeof subtitle,
        "%d way%s to run at context %d that no other beats in both; 100 %% takes %.3g s for the "
        "reference job",
        f->count, tool_s((uint64_t)f->count), stage->plan.context, f->ways[f->count - 1].seconds);
    tool_svg svg = {.left = least - margin > 0 ? least - margin : 0,
                    .right = most + margin,
                    .low = 0,
                    .high = 105};
    if (!tool_svg_begin(&svg, path, title, subtitle)) return TOOL_FAILED;
    draw_budget(&svg, stage->plan.budget_bytes);
    draw_stairs(&svg, f);
    draw_points(&svg, f);
    tool_svg_axis_x(&svg, "predicted peak of the process", true, tool_svg_bytes);
    tool_svg_axis_y(&svg, "predicted speed, of the fastest way", false, percent);
    return tool_svg_end(&svg);
}
