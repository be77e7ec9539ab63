/* svg.c: a drawing with two axes: frame, ticks and labels.
 *
 * Pixels are numbers scaled once, here; what is drawn in the field is the caller's. */
#include "svg.h"

#include <math.h>
#include <string.h>

void tool_svg_text(FILE *file, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '&': fputs("&amp;", file); break;
        default: fputc(*text >= 32 && *text < 127 ? *text : '?', file);
        }
}

bool tool_svg_begin(tool_svg *svg, const char *path, const char *title, const char *subtitle) {
    enum { WIDE = SVG_LEFT + SVG_WIDTH + 40, HIGH = SVG_TOP + SVG_HEIGHT + SVG_BOTTOM };
    static tool_new out;
    if (tool_new_open(&out, path) != TOOL_OK) return false;
    svg->out = &out;
    svg->file = out.file;
    fprintf(svg->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"26\" font-size=\"18\" font-weight=\"bold\">",
            WIDE, HIGH, WIDE, HIGH, SVG_LEFT);
    tool_svg_text(svg->file, title);
    fprintf(svg->file, "</text>\n<text x=\"%d\" y=\"48\" fill=\"#555\">", SVG_LEFT);
    tool_svg_text(svg->file, subtitle);
    fprintf(svg->file,
            "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n",
            SVG_LEFT, SVG_TOP, SVG_WIDTH, SVG_HEIGHT);
    return true;
}

int tool_svg_end(tool_svg *svg) {
    fputs("</svg>\n", svg->file);
    return tool_new_end(svg->out);
}

double tool_svg_x(const tool_svg *svg, double x) {
    return SVG_LEFT + (x - svg->left) / (svg->right - svg->left) * SVG_WIDTH;
}

double tool_svg_y(const tool_svg *svg, double y) {
    return SVG_TOP + SVG_HEIGHT - (y - svg->low) / (svg->high - svg->low) * SVG_HEIGHT;
}

/* A round step that makes at most ten ticks. */
static double step_of(double span, bool bytes) {
    double step = 1;
    if (bytes) {
        while (step * 10 < span) step *= 2;
        return step;
    }
    while (step * 10 < span) step *= 10;
    if (step > 1 && span / step < 3) return step / 5;
    return step;
}

/* The same for numbers that needn't be whole: four to ten ticks, however short the axis is. */
static double step_of_real(double span) {
    const double step = pow(10, floor(log10(span)));
    return span / step < 2 ? step / 5 : span / step < 5 ? step / 2 : step;
}

void tool_svg_axis_x(tool_svg *svg, const char *label, bool bytes, tool_svg_number *text) {
    const double step = step_of(svg->right - svg->left, bytes);
    const int foot = SVG_TOP + SVG_HEIGHT;
    char number[TOOL_TEXT];
    fputs("<g text-anchor=\"middle\">\n", svg->file);
    for (double x = ceil(svg->left / step) * step; x <= svg->right; x += step)
        fprintf(svg->file,
                "<path d=\"M%.1f %dv6\" stroke=\"#222\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
                tool_svg_x(svg, x), foot, tool_svg_x(svg, x), foot + 20, text(x, number));
    fprintf(svg->file, "<text x=\"%d\" y=\"%d\">%s</text>\n</g>\n", SVG_LEFT + SVG_WIDTH / 2,
            foot + 42, label);
}

void tool_svg_axis_y(tool_svg *svg, const char *label, bool bytes, tool_svg_number *text) {
    const double span = svg->high - svg->low;
    const double step = bytes ? step_of(span, true) : step_of_real(span);
    char number[TOOL_TEXT];
    fputs("<g text-anchor=\"end\">\n", svg->file);
    for (double y = ceil(svg->low / step) * step; y <= svg->high; y += step)
        fprintf(svg->file,
                "<path d=\"M%d %.1fh-6\" stroke=\"#222\"/><text x=\"%d\" y=\"%.1f\">%s</text>\n",
                SVG_LEFT, tool_svg_y(svg, y), SVG_LEFT - 10, tool_svg_y(svg, y) + 4,
                text(y, number));
    fprintf(svg->file,
            "</g>\n<text text-anchor=\"middle\" transform=\"translate(18 %d) rotate(-90)\">%s"
            "</text>\n",
            SVG_TOP + SVG_HEIGHT / 2, label);
}

char *tool_svg_bytes(double number, char text[TOOL_TEXT]) {
    return tool_size((uint64_t)number, text);
}

char *tool_svg_plain(double number, char text[TOOL_TEXT]) {
    return tool_exact((uint64_t)number, text);
}
