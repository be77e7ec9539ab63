/* replay_draw.c: `mnem replay --svg`: the memory map over time.
 *
 * Time goes to the right (operations), offsets go up, a block is a box from its allocation to its
 * free. A million boxes would make a file that nobody can open, so: the BOXES_MAX largest on the
 * picture are boxes with a tooltip each; all others are added up in a grid of cells, and neighbours
 * of like colour and density are drawn as one. The file stays below about half a megabyte.
 * Over the map: live bytes as a line (where it lies below the top of the boxes, memory is lost to
 * holes) and what is reserved, dashed. Where a request was refused both end at a line that says
 * so. */
#include <stdlib.h>
#include <string.h>

#include "svg.h"
#include "verbs/replay/replay_tool.h"

enum {
    WIDTH = 1200, /* of the map, without margins */
    HEIGHT = 600,
    LEFT = 90,
    TOP = 64,
    BOTTOM = 96,
    RIGHT = 24,
    CELL = 4,
    COLUMNS = WIDTH / CELL,
    ROWS = HEIGHT / CELL,
    BOXES_MAX = 2000,
    CLASSES = 6,
    LEVELS = 3,
    POINTS = 400,
};

/* By size, from light to dark. */
static const struct size_class {
    uint64_t below;
    const char *text, *colour;
} classes[CLASSES] = {
    {(uint64_t)64 << 10, "below 64 KiB", "#fde0a6"},
    {(uint64_t)1 << 20, "64 KiB to 1 MiB", "#f9b55b"},
    {(uint64_t)16 << 20, "1 to 16 MiB", "#7fc97f"},
    {(uint64_t)128 << 20, "16 to 128 MiB", "#4ba3c3"},
    {(uint64_t)1 << 30, "128 MiB to 1 GiB", "#3f6fb5"},
    {UINT64_MAX, "1 GiB and more", "#5b3f8c"},
};

typedef struct drawn_box {
    mnem_replay_box box;
    double area; /* square pixels */
} drawn_box;

typedef struct drawing {
    const replay_case *c;
    FILE *file;
    double per_op, per_byte;    /* pixels */
    uint64_t top;               /* bytes at the upper edge */
    drawn_box boxes[BOXES_MAX]; /* a heap: the smallest first */
    int boxes_count;
    uint64_t merged;
    size_t done;                        /* operations; less than all: the next one was refused */
    float cell[ROWS][COLUMNS][CLASSES]; /* square pixels covered */
    struct {
        uint64_t live, reserved;
    } point[POINTS];
} drawing;

static int class_of(uint64_t bytes) {
    int i = 0;
    while (bytes >= classes[i].below) i++;
    return i;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* ---- gathering ---- */

typedef struct rectangle {
    double x0, x1, y0, y1; /* y from below */
} rectangle;

static rectangle place(const drawing *d, const mnem_replay_box *b) {
    return (rectangle){(double)b->born * d->per_op, (double)b->died * d->per_op,
                       (double)b->offset * d->per_byte,
                       (double)(b->offset + b->bytes) * d->per_byte};
}

/* Adds a box to the cells that it covers. */
static void merge(drawing *d, const mnem_replay_box *b) {
    const rectangle r = place(d, b);
    const int class = class_of(b->bytes);
    d->merged++;
    for (int row = (int)(r.y0 / CELL); row < ROWS && row * CELL < r.y1; row++) {
        const double high = smaller(r.y1, (row + 1) * CELL) - larger(r.y0, row * CELL);
        for (int column = (int)(r.x0 / CELL); column < COLUMNS && column * CELL < r.x1; column++) {
            const double wide = smaller(r.x1, (column + 1) * CELL) - larger(r.x0, column * CELL);
            d->cell[row][column][class] += (float)(wide * high);
        }
    }
}

static void sift_down(drawing *d, int i) {
    for (;;) {
        int least = i;
        for (int k = 2 * i + 1; k <= 2 * i + 2 && k < d->boxes_count; k++)
            if (d->boxes[k].area < d->boxes[least].area) least = k;
        if (least == i) return;
        const drawn_box swap = d->boxes[i];
        d->boxes[i] = d->boxes[least];
        d->boxes[least] = swap;
        i = least;
    }
}

static void sift_up(drawing *d, int i) {
    for (int above; i > 0 && d->boxes[above = (i - 1) / 2].area > d->boxes[i].area; i = above) {
        const drawn_box swap = d->boxes[i];
        d->boxes[i] = d->boxes[above];
        d->boxes[above] = swap;
    }
}

/* Keeps the largest boxes; the others are merged. */
static void on_box(void *context, const mnem_replay_box *box) {
    drawing *d = context;
    const rectangle r = place(d, box);
    const drawn_box entry = {*box, (r.x1 - r.x0) * (r.y1 - r.y0)};
    if (d->boxes_count < BOXES_MAX) {
        d->boxes[d->boxes_count] = entry;
        sift_up(d, d->boxes_count++);
    } else if (entry.area > d->boxes[0].area) {
        merge(d, &d->boxes[0].box);
        d->boxes[0] = entry;
        sift_down(d, 0);
    } else {
        merge(d, box);
    }
}

static void on_moment(void *context, const mnem_replay_moment *m) {
    drawing *d = context;
    const size_t i = m->op * POINTS / d->c->info.count;
    d->done = m->op + 1;
    if (m->bytes_live > d->point[i].live) d->point[i].live = m->bytes_live;
    if (m->bytes_reserved > d->point[i].reserved) d->point[i].reserved = m->bytes_reserved;
}

static bool was_refused(const drawing *d) {
    return d->done < d->c->info.count;
}

/* ---- writing ---- */

static void put_head(drawing *d) {
    const mnem_workload_info *i = &d->c->info;
    char ops[TOOL_TEXT], peak[TOOL_TEXT], top[TOOL_TEXT];
    fprintf(d->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n",
            LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, LEFT + WIDTH + RIGHT,
            TOP + HEIGHT + BOTTOM);
    fputs("<style>.b{stroke:#fff;stroke-width:.3}.b:hover{stroke:#000;stroke-width:1.5}", d->file);
    for (int k = 0; k < CLASSES; k++) fprintf(d->file, ".c%d{fill:%s}", k, classes[k].colour);
    fputs("</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", d->file);
    fprintf(d->file, "<text x=\"%d\" y=\"26\" font-size=\"18\" font-weight=\"bold\">", LEFT);
    tool_svg_text(d->file, tool_file_name(d->c->path));
    fprintf(d->file, ": memory map, policy %s</text>\n", d->c->names[0]);
    tool_size(was_refused(d) ? d->c->asked->capacity : d->top, top);
    fprintf(d->file,
            "<text x=\"%d\" y=\"48\" fill=\"#555\">%s operation%s; peak %s live, %s %s</text>\n",
            LEFT, tool_exact(i->count, ops), tool_s(i->count), tool_size(i->bytes_peak, peak),
            was_refused(d) ? "the capacity is" : "reserved", top);
}

/* A round number of bytes for about six ticks. */
static uint64_t tick_bytes(uint64_t top) {
    uint64_t tick = 1;
    while (tick < top / 8) tick *= 2;
    return tick;
}

static uint64_t tick_ops(size_t count) {
    uint64_t tick = 1;
    while (tick * 10 < count) tick *= 10;
    if (count / tick < 3) tick = tick >= 5 ? tick / 5 : 1;
    return tick;
}

static void put_axes(drawing *d) {
    char text[TOOL_TEXT];
    FILE *f = d->file;
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n", LEFT, TOP,
            WIDTH, HEIGHT);
    fputs("<g stroke=\"#ccc\" stroke-width=\"1\">\n", f);
    const uint64_t bytes = tick_bytes(d->top), ops = tick_ops(d->c->info.count);
    for (uint64_t b = 0; b <= d->top; b += bytes)
        fprintf(f, "<path d=\"M%d %.1fh-6\" stroke=\"#222\"/>", LEFT,
                TOP + HEIGHT - (double)b * d->per_byte);
    for (uint64_t n = 0; n <= d->c->info.count; n += ops)
        fprintf(f, "<path d=\"M%.1f %dv6\" stroke=\"#222\"/>", LEFT + (double)n * d->per_op,
                TOP + HEIGHT);
    fputs("\n</g>\n<g text-anchor=\"end\">\n", f);
    for (uint64_t b = 0; b <= d->top; b += bytes)
        fprintf(f, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 10,
                TOP + HEIGHT - (double)b * d->per_byte + 4, tool_size(b, text));
    fputs("</g>\n<g text-anchor=\"middle\">\n", f);
    for (uint64_t n = 0; n <= d->c->info.count; n += ops)
        fprintf(f, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", LEFT + (double)n * d->per_op,
                TOP + HEIGHT + 20, tool_exact(n, text));
    fprintf(f, "<text x=\"%d\" y=\"%d\">operation</text>\n", LEFT + WIDTH / 2, TOP + HEIGHT + 40);
    fprintf(f, "<text transform=\"translate(16 %d) rotate(-90)\">offset</text>\n</g>\n",
            TOP + HEIGHT / 2);
}

/* The class that covers most of a cell, and how much of it all classes cover, in LEVELS steps; 0:
 * nothing to draw. */
static int cell_look(const drawing *d, int row, int column) {
    const float *cell = d->cell[row][column];
    float sum = 0;
    int most = 0;
    for (int k = 0; k < CLASSES; k++) {
        sum += cell[k];
        if (cell[k] > cell[most]) most = k;
    }
    const double part = (double)sum / (CELL * CELL);
    if (part < 0.08) return 0;
    const int level = part < 0.35 ? 1 : part < 0.7 ? 2 : 3;
    return 1 + most * LEVELS + level - 1;
}

/* All runs of one look as one path. */
static void put_look(drawing *d, int look) {
    bool begun = false;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0, run; column < COLUMNS; column += run ? run : 1) {
            for (run = 0; column + run < COLUMNS && cell_look(d, row, column + run) == look;) run++;
            if (!run) continue;
            if (!begun)
                fprintf(d->file, "<path class=\"c%d\" opacity=\"%.2f\" d=\"", (look - 1) / LEVELS,
                        0.3 + 0.35 * ((look - 1) % LEVELS));
            begun = true;
            fprintf(d->file, "M%d %dh%dv%dh-%dz", LEFT + column * CELL,
                    TOP + HEIGHT - (row + 1) * CELL, run * CELL, CELL, run * CELL);
        }
    if (begun) fputs("\"/>\n", d->file);
}

static void put_box(drawing *d, const mnem_replay_box *b) {
    const rectangle r = place(d, b);
    char size[TOOL_TEXT], offset[TOOL_TEXT];
    if (r.y1 > HEIGHT + 1) return; /* a segment that came after others went back */
    const char *site = mnem_workload_site(d->c->workload, b->block);
    fprintf(
        d->file,
        "<rect class=\"b c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>block "
        "%u: %s at %s, operations %zu to %zu",
        class_of(b->bytes), LEFT + r.x0, TOP + HEIGHT - r.y1, larger(r.x1 - r.x0, 0.2),
        larger(r.y1 - r.y0, 0.2), b->block, tool_size(b->bytes, size), tool_size(b->offset, offset),
        b->born, b->died);
    if (b->died == d->c->info.count) fputs(" (live at the end)", d->file);
    if (*site) fputs(", ", d->file);
    tool_svg_text(d->file, site);
    fputs("</title></rect>\n", d->file);
}

static void put_lines(drawing *d) {
    const double step = (double)WIDTH / POINTS;
    const char *const style[] = {"stroke=\"#111\" stroke-width=\"1.4\"",
                                 "stroke=\"#c00\" stroke-width=\"1.4\" stroke-dasharray=\"5 3\""};
    for (int k = 0; k < 2; k++) {
        uint64_t last = 0;
        const int end = (int)(d->done * POINTS / d->c->info.count);
        if (end == 0) continue;
        fprintf(d->file, "<path fill=\"none\" %s d=\"", style[k]);
        for (int i = 0; i < end; i++) {
            const uint64_t v = k ? d->point[i].reserved : d->point[i].live;
            if (v) last = v; /* fewer operations than points leave gaps */
            fprintf(d->file, "%c%.1f %.1f", i ? 'L' : 'M', LEFT + (i + 0.5) * step,
                    TOP + HEIGHT - (double)last * d->per_byte);
        }
        fputs("\"/>\n", d->file);
    }
}

/* Nothing was replayed to the right of where a request was refused. */
static void put_refusal(drawing *d) {
    char op[TOOL_TEXT], more[TOOL_TEXT], left[TOOL_TEXT], all[TOOL_TEXT];
    const double x = (double)d->done * d->per_op;
    const uint64_t unserved = replay_unserved(&d->c->info, d->done);
    if (!was_refused(d)) return;
    fprintf(d->file,
            "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#c00\" "
            "opacity=\"0.07\"/>\n<path d=\"M%.1f %dv%d\" stroke=\"#c00\" stroke-width=\"2\"/>\n",
            LEFT + x, TOP, WIDTH - x, HEIGHT, LEFT + x, TOP, HEIGHT);
    const bool right = x > WIDTH / 2.0;
    fprintf(d->file,
            "<g fill=\"#c00\" font-size=\"16\" text-anchor=\"%s\"><text x=\"%.1f\" y=\"%d\" "
            "font-weight=\"bold\">refused at operation %s: %s more</text><text x=\"%.1f\" "
            "y=\"%d\">%s of %s allocations not served</text></g>\n",
            right ? "end" : "start", LEFT + x + (right ? -12 : 12), TOP + HEIGHT / 2,
            tool_exact(d->done, op), tool_size(d->c->info.ops[d->done].bytes, more),
            LEFT + x + (right ? -12 : 12), TOP + HEIGHT / 2 + 24, tool_exact(unserved, left),
            tool_exact(d->c->info.allocations, all));
}

static void put_legend(drawing *d) {
    const int y = TOP + HEIGHT + 70;
    int x = LEFT;
    for (int k = 0; k < CLASSES; k++) {
        fprintf(d->file,
                "<rect class=\"c%d\" x=\"%d\" y=\"%d\" width=\"14\" height=\"14\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text>\n",
                k, x, y - 12, x + 19, y, classes[k].text);
        x += 36 + 7 * (int)strlen(classes[k].text);
    }
    fprintf(d->file,
            "<path d=\"M%d %dh24\" stroke=\"#111\" stroke-width=\"2\"/><text x=\"%d\" y=\"%d\">live"
            "</text>\n<path d=\"M%d %dh24\" stroke=\"#c00\" stroke-width=\"2\" "
            "stroke-dasharray=\"5 3\"/><text x=\"%d\" y=\"%d\">reserved</text>\n",
            x, y - 5, x + 30, y, x + 75, y - 5, x + 105, y);
    if (d->merged) {
        char merged[TOOL_TEXT];
        fprintf(
            d->file,
            "<text x=\"%d\" y=\"%d\" fill=\"#555\">the %d largest boxes one by one; %s small ones "
            "added up in a grid, paler where they fill less</text>\n",
            LEFT, y + 20, d->boxes_count, tool_exact(d->merged, merged));
    }
    fputs("</svg>\n", d->file);
}

static void put_all(drawing *d) {
    put_head(d);
    put_axes(d);
    for (int look = 1; look <= CLASSES * LEVELS; look++) put_look(d, look);
    for (int i = 0; i < d->boxes_count; i++) put_box(d, &d->boxes[i].box);
    put_lines(d);
    put_refusal(d);
    put_legend(d);
}

static int write_file(drawing *d, const char *path) {
    tool_new out;
    const int code = tool_new_open(&out, path);
    if (code != TOOL_OK) return code;
    d->file = out.file;
    put_all(d);
    return tool_new_end(&out);
}

/* The upper edge: what was reserved, or would have been, rounded up a little. */
static uint64_t top_bytes(const replay_case *c) {
    const mnem_replay_result *r = &c->results[0];
    uint64_t top = r->bytes_reserved_peak;
    if (!top) top = c->asked->capacity ? c->asked->capacity : r->bytes_capacity_needed;
    return top ? top : c->info.bytes_peak;
}

int replay_draw(const replay_case *c, const char *file) {
    drawing *d = calloc(1, sizeof *d);
    if (!d) return tool_fail(MNEM_NO_MEMORY);
    d->c = c;
    d->top = top_bytes(c);
    d->per_op = (double)WIDTH / (double)c->info.count;
    d->per_byte = (double)HEIGHT / (double)d->top;
    const mnem_status status = replay_again(c, on_box, on_moment, d);
    const int code = status == MNEM_OK ? write_file(d, file) : tool_fail(status);
    free(d);
    return code;
}
