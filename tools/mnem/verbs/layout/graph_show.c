/* graph_show.c: a program's tensors as a table, as JSON and as a drawing.
 *
 * Only tensors that the graph places are shown: views lie in another one, external ones (weights,
 * pages) elsewhere. Layers are alike, so the table has the first for all; JSON and the drawing have
 * every one. */
#include <stdarg.h>
#include <string.h>

#include "svg.h"
#include "verbs/layout/graph_tool.h"

/* One that the graph places: not a view, not external, and touched. */
static bool is_placed(const mnem_graph_tensor_info *t, int32_t id) {
    return t->slot == -1 && t->of == id && t->lower < t->upper;
}

static char *name_text(const mnem_graph_tensor_info *t, char text[TOOL_TEXT]) {
    if (t->number < 0)
        snprintf(text, TOOL_TEXT, "%s", t->name);
    else
        snprintf(text, TOOL_TEXT, "%s %d", t->name, t->number);
    return text;
}

/* ---- the table ---- */

/* What cleaning up before placement saved. */
static void print_saving(const char *name, const mnem_graph_saving *saving, const char *what) {
    char size[TOOL_TEXT], exact[TOOL_TEXT];
    tool_outf("  %-12s %11s %14s  %d node%s %s\n", name, tool_size(saving->bytes, size),
              tool_exact(saving->bytes, exact), saving->nodes, tool_s((uint64_t)saving->nodes),
              what);
}

static void print_sizes(const graph_program *p) {
    const mnem_graph_sizes *s = &p->sizes;
    const uint64_t saved = s->total_bytes > s->block_bytes ? s->total_bytes - s->block_bytes : 0;
    char size[TOOL_TEXT], exact[TOOL_TEXT];
    print_saving("constants", &s->folded, "of constants only run once");
    print_saving("merged", &s->merged, "repeated an earlier one");
    print_saving("dropped", &s->dropped, "wrote unread values");
    print_saving("in place", &s->in_place, "write over an input");
    tool_outf("  no reuse     %11s %14s\n", tool_size(s->total_bytes, size),
              tool_exact(s->total_bytes, exact));
    tool_outf("  block        %11s %14s  ", tool_size(s->block_bytes, size),
              tool_exact(s->block_bytes, exact));
    tool_outf("reuse saves %s (%.1f %%)\n", tool_size(saved, size),
              s->total_bytes ? 100.0 * (double)saved / (double)s->total_bytes : 0.0);
    tool_outf("  lower bound  %11s %14s  ", tool_size(s->lower_bound_bytes, size),
              tool_exact(s->lower_bound_bytes, exact));
    if (s->block_bytes == s->lower_bound_bytes)
        tool_outf("the block reaches it: the minimum\n");
    else
        tool_outf("the block is %.2f %% above it\n",
                  100.0 * (double)(s->block_bytes - s->lower_bound_bytes) /
                      (double)s->lower_bound_bytes);
    tool_outf("  workspace    %11s %14s\n", tool_size(s->workspace_bytes, size),
              tool_exact(s->workspace_bytes, exact));
}

/* The first layer stands for all. */
static void print_tensors(const graph_program *p) {
    mnem_graph_tensor_info t;
    int placed = 0, shown = 0;
    tool_outf("  tensor              bytes    alive in nodes             offset\n");
    for (int32_t id = 1; mnem_graph_tensor_get(p->graph, id, &t); id++) {
        char name[TOOL_TEXT], bytes[TOOL_TEXT], offset[TOOL_TEXT], nodes[TOOL_TEXT];
        if (!is_placed(&t, id)) continue;
        placed++;
        if (t.number > 0) continue;
        shown++;
        snprintf(nodes, sizeof nodes, "%d to %d", t.lower, t.upper - 1);
        tool_outf("  %-14s %10s    %-14s %18s\n", name_text(&t, name), tool_exact(t.bytes, bytes),
                  nodes, tool_exact(t.offset, offset));
    }
    if (shown < placed) tool_outf("  and %d of later layers (--json lists all)\n", placed - shown);
}

void graph_print(const graph_program *p) {
    print_sizes(p);
    print_tensors(p);
}

/* ---- JSON ---- */

static json_t *tensors_json(const mnem_graph *graph) {
    json_t *list = json_array();
    mnem_graph_tensor_info t;
    for (int32_t id = 1; mnem_graph_tensor_get(graph, id, &t); id++) {
        char name[TOOL_TEXT];
        if (!is_placed(&t, id)) continue;
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:I, s:i, s:i, s:I}", "id", id, "name",
                                        name_text(&t, name), "bytes", (json_int_t)t.bytes, "lower",
                                        t.lower, "upper", t.upper, "offset", (json_int_t)t.offset));
    }
    return list;
}

static json_t *nodes_json(const mnem_graph *graph) {
    json_t *list = json_array();
    mnem_graph_node_info n;
    for (int32_t i = 0; mnem_graph_node_get(graph, i, &n); i++)
        json_array_append_new(list, json_pack("{s:s, s:[i,i,i], s:i, s:I, s:b}", "op",
                                              mnem_op_text(n.kind), "in", n.in[0], n.in[1], n.in[2],
                                              "out", n.out, "workspace_bytes",
                                              (json_int_t)n.workspace_bytes, "waits", n.waits));
    return list;
}

static json_t *saving_json(const mnem_graph_saving *saving) {
    return json_pack("{s:i, s:I}", "nodes", saving->nodes, "bytes", (json_int_t)saving->bytes);
}

json_t *graph_json(const graph_program *p) {
    const mnem_graph_sizes *s = &p->sizes;
    return json_pack("{s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "constants",
                     saving_json(&s->folded), "merged", saving_json(&s->merged), "dropped",
                     saving_json(&s->dropped), "nodes_in_place", s->in_place.nodes,
                     "bytes_in_place", (json_int_t)s->in_place.bytes, "block_bytes",
                     (json_int_t)s->block_bytes, "lower_bound_bytes",
                     (json_int_t)s->lower_bound_bytes, "total_bytes", (json_int_t)s->total_bytes,
                     "workspace_bytes", (json_int_t)s->workspace_bytes, "optimal",
                     s->block_bytes == s->lower_bound_bytes, "tensors", tensors_json(p->graph),
                     "nodes", nodes_json(p->graph));
}

/* ---- the drawing: nodes to the right, offsets up ---- */

enum { ROLES_MAX = 12 };
static const char *const colours[ROLES_MAX] = {"#4ba3c3", "#f9b55b", "#7fc97f", "#e0788a",
                                               "#9f86c0", "#c9b18b", "#5f9ea0", "#d0d060",
                                               "#88a0d8", "#c87850", "#a0c8a0", "#b0b0b0"};

/* Tensors of one name have one colour; those past the first eleven share the last. */
typedef struct roles {
    const char *name[ROLES_MAX];
    int count;
} roles;

static int role_of(roles *r, const char *name) {
    int i = 0;
    while (i < r->count && strcmp(r->name[i], name) != 0) i++;
    if (i < r->count) return i;
    if (r->count < ROLES_MAX) r->name[r->count++] = i == ROLES_MAX - 1 ? "others" : name;
    return i < ROLES_MAX ? i : ROLES_MAX - 1;
}

static void draw_tensor(const tool_svg *svg, const mnem_graph_tensor_info *t, int role) {
    const double x0 = tool_svg_x(svg, t->lower), x1 = tool_svg_x(svg, t->upper);
    const double y1 = tool_svg_y(svg, (double)t->offset);
    const double y0 = tool_svg_y(svg, (double)(t->offset + t->bytes));
    char name[TOOL_TEXT], size[TOOL_TEXT], at[TOOL_TEXT];
    fprintf(svg->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
            "stroke=\"#fff\" stroke-width=\".5\"><title>%s: %s bytes at %s, nodes %d to %d</title>"
            "</rect>\n",
            x0, y0, x1 - x0, y1 - y0, colours[role], name_text(t, name), tool_exact(t->bytes, size),
            tool_exact(t->offset, at), t->lower, t->upper - 1);
    const double wide = 7.5 * (double)strlen(name);
    if (x1 - x0 >= wide && y1 - y0 >= 14)
        fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                (x0 + x1) / 2, (y0 + y1) / 2 + 4, name);
    else if (x1 - x0 >= 14 && y1 - y0 >= wide)
        fprintf(svg->file,
                "<text text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(-90)\">%s"
                "</text>\n",
                (x0 + x1) / 2 + 4, (y0 + y1) / 2, name);
}

static void draw_legend(const tool_svg *svg, const roles *r) {
    const int y = SVG_TOP + SVG_HEIGHT + 72;
    int x = SVG_LEFT;
    for (int i = 0; i < r->count; i++) {
        fprintf(svg->file,
                "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"%d\">%s</text>\n",
                x, y - 12, colours[i], x + 19, y, r->name[i]);
        x += 40 + 8 * (int)strlen(r->name[i]);
    }
}

int graph_draw(const tool_stage *stage, const graph_program *p, const char *path,
               const char *format, ...) {
    char title[200], what[80], subtitle[200], a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT];
    mnem_model_info m;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    mnem_model_info_get(stage->model, &m);
    snprintf(title, sizeof title, "%.100s: %s", tool_file_name(m.path), what);
    snprintf(subtitle, sizeof subtitle, "block %s, lower bound %s, without reuse %s",
             tool_size(p->sizes.block_bytes, a), tool_size(p->sizes.lower_bound_bytes, b),
             tool_size(p->sizes.total_bytes, c));
    tool_svg svg = {.right = p->sizes.nodes, .high = (double)p->sizes.block_bytes};
    if (!tool_svg_begin(&svg, path, title, subtitle)) return TOOL_FAILED;
    roles r = {.count = 0};
    mnem_graph_tensor_info t;
    for (int32_t id = 1; mnem_graph_tensor_get(p->graph, id, &t); id++)
        if (is_placed(&t, id)) draw_tensor(&svg, &t, role_of(&r, t.name));
    draw_legend(&svg, &r);
    tool_svg_axis_x(&svg, "node", false, tool_svg_plain);
    tool_svg_axis_y(&svg, "offset", true, tool_svg_bytes);
    return tool_svg_end(&svg);
}
