/* roofline_draw.c: roofs and operators, both axes logarithms.
 *
 *     FLOP/s        ____________ int8
 *                  /  __________ f32
 *              L2 /  /
 *                /  / memory
 *               /  /      o operators below
 *                          FLOP a byte */
#include <math.h>
#include <string.h>

#include "sight/roofline.h"
#include "svg.h"

enum { LOW_X = -2, HIGH_X = 4 };

static const char *const colours[] = {"#8a8a8a", "#5b8fb9", "#3a7d44", "#b5522a"};
static const char *const phase_colours[] = {"#d1495b", "#2e66b0"};

static char *power_text(double number, char text[TOOL_TEXT]) {
    const double n = pow(10, number);
    snprintf(text, TOOL_TEXT, "%.*f", n < 0.0995 ? 2 : n < 0.995 ? 1 : 0, n);
    return text;
}

static double highest(const mnem_probe *p) {
    double most = 1e9;
    for (int i = 0; i < p->peaks; i++)
        if (p->peak[i].rate[1].best > most) most = p->peak[i].rate[1].best;
    return most;
}

static void line(const tool_svg *svg, double x0, double y0, double x1, double y1,
                 const char *colour) {
    fprintf(svg->file,
            "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" stroke-width=\"2\" fill=\"none\"/>\n",
            tool_svg_x(svg, x0), tool_svg_y(svg, y0), tool_svg_x(svg, x1), tool_svg_y(svg, y1),
            colour);
}

/* Rises with the bytes a second, from the left or the lower edge up to the highest peak. */
static void draw_level(const tool_svg *svg, const mnem_probe *p, int index) {
    const mnem_probe_level *l = &p->level[index];
    const double rate = l->rate[p->teams - 1][MNEM_PROBE_LOAD].best;
    if (!(rate > 0)) return;
    const double gb = log10(rate / 1e9), top = log10(highest(p) / 1e9);
    const double x0 = fmax(svg->left, svg->low - gb), x1 = top - gb;
    const char *colour = colours[index % 4];
    line(svg, x0, x0 + gb, x1, top, colour);
    /* Along the line from its beginning, where no peak crosses it. */
    const double x = x0 + (svg->right - svg->left) / 100, y = x + gb;
    const double dx = tool_svg_x(svg, x + 1) - tool_svg_x(svg, x);
    const double dy = tool_svg_y(svg, y + 1) - tool_svg_y(svg, y);
    fprintf(svg->file,
            "<text transform=\"translate(%.1f %.1f) rotate(%.1f)\" fill=\"%s\">%s %.*f "
            "GB/s</text>\n",
            tool_svg_x(svg, x) - 6, tool_svg_y(svg, y) - 6, atan2(dy, dx) * 180 / 3.14159265,
            colour, l->name, rate < 99.5e9, rate / 1e9);
}

/* Flat, from where the fastest level reaches it. */
static void draw_peak(const tool_svg *svg, const mnem_probe *p, const mnem_probe_peak *k) {
    double fastest = 1;
    for (int i = 0; i < p->levels; i++)
        fastest = fmax(fastest, p->level[i].rate[p->teams - 1][MNEM_PROBE_LOAD].best);
    const double y = log10(k->rate[1].best / 1e9);
    const double x0 = fmax(svg->left, y - log10(fastest / 1e9));
    line(svg, x0, y, svg->right, y, "#222");
    fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s %.0f GFLOP/s</text>\n",
            tool_svg_x(svg, svg->right) - 4, tool_svg_y(svg, y) - 6, k->type,
            k->rate[1].best / 1e9);
}

static void draw_op(const tool_svg *svg, const roofline *r, const roofline_op *o,
                    const char *colour) {
    if (!o->multiply_adds || !(o->seconds > 0)) return;
    const double flop = 2 * (double)o->multiply_adds;
    const double x = log10(flop / (double)o->bytes), y = log10(flop / o->seconds / 1e9);
    const double share = o->seconds / r->operators_s;
    if (x < svg->left || x > svg->right || y < svg->low || y > svg->high) return;
    fprintf(svg->file,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" fill-opacity=\".7\" "
            "stroke=\"#fff\"><title>%s: %s %s, %d nodes: %.2f FLOP a byte, %.1f GFLOP/s at most, "
            "%.1f %% of the pass</title></circle>\n",
            tool_svg_x(svg, x), tool_svg_y(svg, y), 4 + 10 * sqrt(share), colour, r->phase, o->op,
            o->name, o->count, flop / (double)o->bytes, flop / o->seconds / 1e9, 100 * share);
}

static void draw_legend(const tool_svg *svg, const roofline *list, int count) {
    const int y = SVG_TOP + SVG_HEIGHT + 72;
    for (int i = 0; i < count; i++)
        fprintf(svg->file,
                "<circle cx=\"%d\" cy=\"%d\" r=\"7\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s: %d "
                "token%s, %.0f tokens/s at most</text>\n",
                SVG_LEFT + 8 + 420 * i, y - 5, phase_colours[i % 2], SVG_LEFT + 22 + 420 * i, y,
                list[i].phase, list[i].tokens, tool_s((uint64_t)list[i].tokens),
                list[i].seconds > 0 ? list[i].tokens / list[i].seconds : 0);
}

int roofline_draw(const mnem_probe *p, const roofline *list, int count, const char *title,
                  const char *path) {
    const mnem_probe_level *memory = &p->level[p->levels - 1];
    const double slow = memory->rate[p->teams - 1][MNEM_PROBE_LOAD].best;
    char subtitle[160];
    snprintf(subtitle, sizeof subtitle,
             "%.80s, %d thread%s: the limits set by bandwidth and arithmetic", p->processor,
             p->threads, tool_s((uint64_t)p->threads));
    tool_svg svg = {.left = LOW_X,
                    .right = HIGH_X,
                    .low = floor(log10(fmax(slow, 1e9) / 1e9) + LOW_X + 0.5),
                    .high = ceil(log10(highest(p) / 1e9) + 0.15)};
    if (!tool_svg_begin(&svg, path, title, subtitle)) return TOOL_FAILED;
    for (int i = 0; i < p->levels; i++) draw_level(&svg, p, i);
    for (int i = 0; i < p->peaks; i++)
        if (p->peak[i].used && strcmp(p->peak[i].type, "bf16") != 0)
            draw_peak(&svg, p, &p->peak[i]);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < list[i].count; k++)
            draw_op(&svg, &list[i], &list[i].op[k], phase_colours[i % 2]);
    draw_legend(&svg, list, count);
    tool_svg_axis_x(&svg, "operations per byte (a multiply-add counts as two)", false, power_text);
    tool_svg_axis_y(&svg, "GFLOP/s", false, power_text);
    return tool_svg_end(&svg);
}
