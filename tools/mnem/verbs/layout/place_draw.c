/* place_draw.c: the drawing of `mnem place`: time to the right, offsets up.
 *
 * Each space is a band of the field, with its own scale: a small one beside a large one would be a
 * line otherwise. */
#include <math.h>
#include <string.h>

#include "verbs/layout/place_tool.h"

static const char *const colours[] = {"#4ba3c3", "#f9b55b", "#7fc97f", "#e0788a",
                                      "#9f86c0", "#c9b18b", "#88a0d8", "#d0d060"};
enum { COLOURS = sizeof colours / sizeof *colours };

static char *time_text(double number, char text[TOOL_TEXT]) {
    snprintf(text, TOOL_TEXT, "%.0f", number);
    return text;
}

/* A name in the middle of a box, upright where that lets it be larger; none where it would be too
 * small to read. */
static void draw_name(const tool_svg *svg, const char *name, double x, double y, double width,
                      double height) {
    const double wide = 0.6 * (double)(strlen(name) + 1);
    const double across = fmin(fmin(height, 13), width / wide);
    const double upright = fmin(fmin(width, 13), height / wide);
    const double font = fmax(across, upright);
    if (font < 5) return;
    fprintf(svg->file,
            "<text text-anchor=\"middle\" font-size=\"%.1f\" transform=\"translate(%.1f %.1f)%s\">",
            font, across >= upright ? x : x + font / 3, across >= upright ? y + font / 3 : y,
            across >= upright ? "" : " rotate(-90)");
    tool_svg_text(svg->file, name);
    fputs("</text>\n", svg->file);
}

/* A piece of buffer i, and its name where there is room. */
static void draw_box(const placing *p, const tool_svg *svg, size_t i, int64_t lower, int64_t upper,
                     uint64_t bottom, uint64_t top) {
    const mnem_place_buffer *b = &p->t.buffers[i];
    const char *id = mnem_place_csv_id(p->csv, i);
    const double x0 = tool_svg_x(svg, (double)lower), x1 = tool_svg_x(svg, (double)upper);
    const double y1 = tool_svg_y(svg, (double)(b->offset + bottom));
    const double y0 = tool_svg_y(svg, (double)(b->offset + top));
    if (lower >= upper || bottom >= top) return;
    fprintf(svg->file,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
            "stroke=\"#fff\" stroke-width=\".5\"><title>",
            x0, y0, x1 - x0, y1 - y0, colours[i % COLOURS]);
    tool_svg_text(svg->file, id);
    char size[TOOL_TEXT], at[TOOL_TEXT];
    fprintf(svg->file, ": %s bytes at %s, %lld to %lld</title></rect>\n",
            tool_exact(b->bytes, size), tool_exact(b->offset, at), (long long)b->lower,
            (long long)b->upper);
    draw_name(svg, id, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0);
}

static void draw_buffer(const placing *p, const tool_svg *svg, size_t i) {
    const mnem_place_buffer *b = &p->t.buffers[i];
    int64_t after = b->lower;
    for (uint32_t g = 0; g < p->t.constraints[i].gap_count; g++) {
        const mnem_place_gap *gap = &p->t.constraints[i].gaps[g];
        draw_box(p, svg, i, after, gap->lower, 0, b->bytes);
        draw_box(p, svg, i, gap->lower, gap->upper, gap->window_lower, gap->window_upper);
        after = gap->upper;
    }
    draw_box(p, svg, i, after, b->upper, 0, b->bytes);
}

static void draw_level(const tool_svg *svg, uint64_t bytes, const char *colour, const char *name,
                       int place) {
    const double y = tool_svg_y(svg, (double)bytes);
    char exact[TOOL_TEXT];
    fprintf(svg->file,
            "<path d=\"M%d %.1fh%d\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"7 4\"/>"
            "<rect x=\"%d\" y=\"%d\" width=\"22\" height=\"3\" fill=\"%s\"/>"
            "<text x=\"%d\" y=\"%d\">%s %s</text>\n",
            SVG_LEFT, y, SVG_WIDTH, colour, SVG_LEFT + 260 * place, SVG_TOP + SVG_HEIGHT + 67,
            colour, SVG_LEFT + 260 * place + 30, SVG_TOP + SVG_HEIGHT + 73, name,
            tool_exact(bytes, exact));
}

/* ---- one band ---- */

/* The drawing's numbers such that [0, high] fills band `at` of `count`. */
static tool_svg band(const tool_svg *svg, double high, uint32_t at, uint32_t count) {
    tool_svg part = *svg;
    part.low = -high * at;
    part.high = part.low + high * count;
    return part;
}

static double high_of(const placing *p, uint32_t space) {
    uint64_t high = p->r.peak_bytes;
    if (p->asked->capacity > high) high = p->asked->capacity;
    if (p->space_count) {
        const mnem_place_space *s = &p->spaces[space];
        high = s->capacity_bytes > s->peak_bytes ? s->capacity_bytes : s->peak_bytes;
    }
    return high ? 1.02 * (double)high : 1;
}

/* The band's foot, its name and, where the space has one, its capacity. */
static void draw_space(const placing *p, const tool_svg *part, uint32_t space) {
    const mnem_place_space *s = &p->spaces[space];
    const double foot = tool_svg_y(part, 0);
    char peak[TOOL_TEXT], capacity[TOOL_TEXT];
    fprintf(part->file, "<path d=\"M%d %.1fh%d\" stroke=\"#222\"/>\n", SVG_LEFT, foot, SVG_WIDTH);
    if (s->capacity_bytes)
        fprintf(part->file,
                "<path d=\"M%d %.1fh%d\" stroke=\"#c0392b\" stroke-width=\"1.5\" "
                "stroke-dasharray=\"7 4\"/>\n",
                SVG_LEFT, tool_svg_y(part, (double)s->capacity_bytes), SVG_WIDTH);
    fprintf(part->file, "<text text-anchor=\"end\" font-weight=\"bold\" x=\"%d\" y=\"%.1f\">",
            SVG_LEFT - 6, foot - 2);
    tool_svg_text(part->file, p->space_names[space]);
    fprintf(part->file, "<title>peak %s of %s bytes</title></text>\n",
            tool_exact(s->peak_bytes, peak),
            s->capacity_bytes ? tool_exact(s->capacity_bytes, capacity) : "any number of");
}

static void draw_bands(const placing *p, const tool_svg *svg) {
    for (uint32_t s = 0; s < p->space_count; s++) {
        const tool_svg part = band(svg, high_of(p, s), s, p->space_count);
        for (size_t i = 0; i < p->t.n; i++)
            if (p->uses[i].space == s) draw_buffer(p, &part, i);
        draw_space(p, &part, s);
    }
}

static void draw_one(const placing *p, tool_svg *svg) {
    for (size_t i = 0; i < p->t.n; i++) draw_buffer(p, svg, i);
    draw_level(svg, p->r.lower_bound_bytes, "#1a7f37", "bound", 0);
    if (p->asked->capacity) draw_level(svg, p->asked->capacity, "#c0392b", "capacity", 1);
    tool_svg_axis_y(svg, "offset", true, tool_svg_bytes);
}

/* ---- all of it ---- */

static void set_titles(const placing *p, char title[160], char subtitle[160]) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    snprintf(title, 160, "%.100s: %s buffer%s", tool_file_name(p->path), tool_exact(p->t.n, a),
             tool_s(p->t.n));
    if (p->space_count)
        snprintf(subtitle, 160, "%u space%s, cost %s, bound %s: %s", p->space_count,
                 tool_s(p->space_count), tool_exact(p->spread.cost, a),
                 tool_exact(p->spread.lower_bound_cost, b), place_verdict(p));
    else
        snprintf(subtitle, 160, "peak %s, without reuse %s, waste %.2f %%: %s",
                 tool_size(p->r.peak_bytes, a), tool_size(p->r.total_bytes, b), place_waste(p),
                 place_verdict(p));
}

int place_draw(const placing *p, const char *path) {
    tool_svg svg = {.high = high_of(p, 0)};
    char title[160], subtitle[160];
    set_titles(p, title, subtitle);
    for (size_t i = 0; i < p->t.n; i++) {
        const mnem_place_buffer *buffer = &p->t.buffers[i];
        if (i == 0 || (double)buffer->lower < svg.left) svg.left = (double)buffer->lower;
        if (i == 0 || (double)buffer->upper > svg.right) svg.right = (double)buffer->upper;
    }
    if (svg.right <= svg.left) svg.right = svg.left + 1;
    if (!tool_svg_begin(&svg, path, title, subtitle)) return TOOL_FAILED;
    if (p->space_count)
        draw_bands(p, &svg);
    else
        draw_one(p, &svg);
    tool_svg_axis_x(&svg, "time", false, time_text);
    return tool_svg_end(&svg);
}
