/* compress_draw.c: the table of a compression as a drawing: bytes against divergence.
 *
 * Below and left is better. It is drawn 640 pixels wide, so that it can be read in a page's column.
 * Labels stand beside their points, pushed apart where points are near each other. */
#include <math.h>
#include <string.h>

#include "svg.h"
#include "verbs/compress/compress_table.h"

enum {
    WIDE = 640,
    HIGH = 420,
    LEFT = 80,
    RIGHT = WIDE - 24,
    TOP = 62,
    FOOT = HIGH - 62,
    APART = 17, /* lines of labels */
};

typedef struct drawing {
    const tool_compress *table;
    FILE *file;
    double most_bytes, most_kl;       /* at the edges of the field */
    double label[TOOL_COMPRESS_ROWS]; /* y of each row's */
} drawing;

static double x_of(const drawing *d, double bytes) {
    return LEFT + bytes / d->most_bytes * (RIGHT - LEFT);
}

static double y_of(const drawing *d, double kl) {
    return FOOT - kl / d->most_kl * (FOOT - TOP);
}

static double row_y(const drawing *d, int i) {
    const double kl = d->table->row[i].kl;
    return y_of(d, isfinite(kl) ? kl : d->most_kl);
}

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, for three to seven ticks. */
static double step_of(double span) {
    const double power = pow(10, floor(log10(span / 3)));
    const double times = span / 3 / power;
    return power * (times >= 5 ? 5 : times >= 2 ? 2 : 1);
}

static void draw_x(const drawing *d) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double one = 1;
    while (unit < 4 && d->most_bytes >= 2 * 1024 * one) one *= 1024, unit++;
    const double step = step_of(d->most_bytes / one);
    fputs("<g text-anchor=\"middle\">\n", d->file);
    for (double x = 0; x * one <= d->most_bytes; x += step)
        fprintf(d->file,
                "<path d=\"M%.1f %dv5\" stroke=\"#222\"/><text x=\"%.1f\" y=\"%d\">%g</text>\n",
                x_of(d, x * one), FOOT, x_of(d, x * one), FOOT + 20, x);
    fprintf(d->file, "<text x=\"%d\" y=\"%d\">size of the file, %s</text>\n</g>\n",
            (LEFT + RIGHT) / 2, FOOT + 44, units[unit]);
}

static void draw_y(const drawing *d) {
    const double step = step_of(d->most_kl);
    fputs("<g text-anchor=\"end\">\n", d->file);
    for (int i = 0; i * step <= d->most_kl; i++)
        fprintf(d->file,
                "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\">%g</text>\n",
                LEFT, y_of(d, i * step), RIGHT, LEFT - 8, y_of(d, i * step) + 5, i * step);
    fprintf(d->file,
            "</g>\n<text text-anchor=\"middle\" transform=\"translate(18 %d) rotate(-90)\">"
            "divergence (KL), nats a token</text>\n",
            (TOP + FOOT) / 2);
}

/* ---- points and their labels ---- */

/* Rows from the top of the field down. */
static void order_rows(const drawing *d, int order[TOOL_COMPRESS_ROWS]) {
    for (int i = 0; i < d->table->rows; i++) {
        int at = i;
        for (; at > 0 && row_y(d, order[at - 1]) > row_y(d, i); at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Each at least a line below the one above it, then back into the field from its foot. */
static void place_labels(drawing *d) {
    int order[TOOL_COMPRESS_ROWS];
    const int n = d->table->rows;
    order_rows(d, order);
    for (int i = 0; i < n; i++) {
        d->label[order[i]] = row_y(d, order[i]);
        if (i > 0) d->label[order[i]] = fmax(d->label[order[i]], d->label[order[i - 1]] + APART);
    }
    double least = FOOT - 8;
    for (int i = n - 1; i >= 0; i--, least -= APART)
        d->label[order[i]] = fmin(d->label[order[i]], least);
}

static void draw_row(const drawing *d, int i) {
    const tool_compress_row *r = &d->table->row[i];
    const double x = x_of(d, (double)r->bytes), y = row_y(d, i);
    const bool left = x > LEFT + 0.6 * (RIGHT - LEFT);
    const double at = left ? x - 14 : x + 14;
    const char *colour = r->result ? "#c8501e" : "#3f6fb5";
    fprintf(d->file,
            "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#999\"/><circle cx=\"%.1f\" cy=\"%.1f\" "
            "r=\"5\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>",
            x, y, at, d->label[i], x, y, colour, left ? at - 3 : at + 3, d->label[i] + 5,
            left ? "end" : "start", r->result ? " font-weight=\"bold\"" : "");
    tool_svg_text(d->file, r->name);
    if (!r->source) fprintf(d->file, " %+.2f %%", 100 * (r->ratio - 1));
    fputs("</text>\n", d->file);
}

static void draw_head(const drawing *d) {
    fprintf(d->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"sans-serif\" font-size=\"14\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"17\" font-weight=\"bold\">",
            WIDE, HIGH, WIDE, HIGH, LEFT);
    tool_svg_text(d->file, tool_file_name(d->table->out));
    fprintf(
        d->file,
        ": bytes against loss</text>\n<text x=\"%d\" y=\"45\" fill=\"#555\">against %s over %llu "
        "tokens, with the change of the perplexity</text>\n"
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f6f6f6\"/>\n",
        LEFT, d->table->row[0].name, (unsigned long long)d->table->tokens, LEFT, TOP, RIGHT - LEFT,
        FOOT - TOP);
}

int tool_compress_draw(const tool_compress *table, const char *path) {
    tool_new out;
    drawing d = {.table = table, .most_kl = 1e-6};
    for (int i = 0; i < table->rows; i++) {
        const tool_compress_row *r = &table->row[i];
        d.most_bytes = fmax(d.most_bytes, 1.06 * (double)r->bytes);
        if (isfinite(r->kl)) d.most_kl = fmax(d.most_kl, 1.12 * r->kl);
    }
    const int code = tool_new_open(&out, path);
    if (code != TOOL_OK) return code;
    d.file = out.file;
    place_labels(&d);
    draw_head(&d);
    draw_y(&d);
    draw_x(&d);
    for (int i = 0; i < table->rows; i++) draw_row(&d, i);
    fputs("</svg>\n", d.file);
    return tool_new_end(&out);
}
