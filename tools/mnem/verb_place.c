/* verb_place.c: `mnem place`: offsets for the buffers of a table. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "svg.h"

enum { SHOWN_MAX = 20 };

typedef struct placing {
    const tool_args *args;
    const char *path;
    mnem_plan_csv *csv;
    mnem_plan_csv_info t;
    mnem_plan_result r;
    double seconds;
    int64_t busiest; /* when most bytes are alive */
    uint32_t *alive; /* then, the largest first */
    size_t alive_count;
} placing;

/* ---- files ---- */

/* The whole file, to be freed; NULL with a message. */
static char *read_whole(const char *path, size_t *length) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t room = 0, got = 1;
    for (*length = 0; file && got; *length += got) {
        if (*length == room) {
            char *more = realloc(text, room = room ? 2 * room : 1 << 16);
            if (!more) break;
            text = more;
        }
        got = fread(text + *length, 1, room - *length, file);
    }
    const bool failed = !file || got || ferror(file);
    if (failed) tool_message("%s: can't read it: %s", path, strerror(errno));
    if (file && file != stdin) fclose(file);
    if (!failed) return text;
    free(text);
    return NULL;
}

static int read_table(placing *p) {
    size_t length;
    char *text = read_whole(p->path, &length);
    if (!text) return TOOL_FAILED;
    const mnem_status status = mnem_plan_csv_read(text, length, &p->csv);
    free(text);
    if (status != MNEM_OK) {
        tool_message("%s: %s", p->path, mnem_last_error());
        return TOOL_FAILED;
    }
    p->t = mnem_plan_csv_info_get(p->csv);
    return TOOL_OK;
}

static int write_table(const placing *p) {
    const size_t length = mnem_plan_csv_write(p->csv, NULL, 0);
    char *text = malloc(length);
    if (!text) return tool_fail(MNEM_NO_MEMORY);
    mnem_plan_csv_write(p->csv, text, length);
    bool good;
    if (strcmp(p->args->out, "-") == 0) {
        good = tool_out(text, length) || tool_out_closed();
    } else {
        FILE *file = fopen(p->args->out, "wb");
        good = file && fwrite(text, 1, length, file) == length;
        good = file && fclose(file) == 0 && good;
    }
    free(text);
    if (good) return TOOL_OK;
    tool_message("%s: can't write it: %s", p->args->out, strerror(errno));
    return TOOL_FAILED;
}

/* ---- who is alive when most is ---- */

typedef struct moment {
    int64_t time;
    int64_t more; /* bytes */
} moment;

static int by_time(const void *x, const void *y) {
    const moment *a = x, *b = y;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return (a->more > b->more) - (a->more < b->more);
}

static size_t add_moments(moment *m, int64_t lower, int64_t upper, uint64_t bytes) {
    m[0] = (moment){lower, (int64_t)bytes};
    m[1] = (moment){upper, -(int64_t)bytes};
    return 2;
}

/* What a buffer uses at a time: [*bottom, *top) of it. */
static void used(const placing *p, size_t i, int64_t time, uint64_t *bottom, uint64_t *top) {
    const mnem_plan_buffer *b = &p->t.buffers[i];
    const bool lives = time >= b->lower && time < b->upper;
    *bottom = 0;
    *top = lives ? b->bytes : 0;
    for (uint32_t g = 0; g < p->t.wishes[i].gap_count && lives; g++) {
        const mnem_plan_gap *gap = &p->t.wishes[i].gaps[g];
        if (time < gap->lower || time >= gap->upper) continue;
        *bottom = gap->window_lower;
        *top = gap->window_upper;
    }
}

static int64_t busiest_time(const placing *p, moment *moments) {
    size_t count = 0;
    for (size_t i = 0; i < p->t.n; i++) {
        const mnem_plan_buffer *b = &p->t.buffers[i];
        count += add_moments(moments + count, b->lower, b->upper, b->bytes);
        for (uint32_t g = 0; g < p->t.wishes[i].gap_count; g++) {
            const mnem_plan_gap *gap = &p->t.wishes[i].gaps[g];
            /* Fewer from its start, as many again at its end. */
            count += add_moments(moments + count, gap->upper, gap->lower,
                                 b->bytes - (gap->window_upper - gap->window_lower));
        }
    }
    qsort(moments, count, sizeof *moments, by_time);
    int64_t sum = 0, most = -1, busiest = 0;
    for (size_t i = 0; i < count; i++) {
        sum += moments[i].more;
        if (i + 1 < count && moments[i + 1].time == moments[i].time) continue;
        if (sum > most) {
            most = sum;
            busiest = moments[i].time;
        }
    }
    return busiest;
}

static const mnem_plan_buffer *sorted_buffers; /* qsort takes no context */

static int larger_first(const void *x, const void *y) {
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const uint64_t a = sorted_buffers[i].bytes, b = sorted_buffers[j].bytes;
    if (a != b) return a > b ? -1 : 1;
    return (i > j) - (i < j);
}

static int find_alive(placing *p) {
    size_t moments = 2 * p->t.n;
    for (size_t i = 0; i < p->t.n; i++) moments += 2 * (size_t)p->t.wishes[i].gap_count;
    moment *m = calloc(moments + 1, sizeof *m);
    p->alive = calloc(p->t.n + 1, sizeof *p->alive);
    if (m && p->alive) {
        p->busiest = busiest_time(p, m);
        for (uint32_t i = 0; i < p->t.n; i++) {
            uint64_t bottom, top;
            used(p, i, p->busiest, &bottom, &top);
            if (bottom < top) p->alive[p->alive_count++] = i;
        }
        sorted_buffers = p->t.buffers;
        qsort(p->alive, p->alive_count, sizeof *p->alive, larger_first);
    }
    free(m);
    return m && p->alive ? TOOL_OK : tool_fail(MNEM_NO_MEMORY);
}

/* ---- as text and JSON ---- */

static bool fits(const placing *p) {
    return !p->args->capacity || p->r.peak_bytes <= p->args->capacity;
}

static double waste(const placing *p) {
    if (p->r.lower_bound_bytes == 0) return 0;
    return 100 * ((double)p->r.peak_bytes / (double)p->r.lower_bound_bytes - 1);
}

static const char *verdict_text(const placing *p) {
    if (p->r.verdict == MNEM_PLAN_INFEASIBLE) return "infeasible";
    if (!fits(p)) return "none found";
    return p->r.verdict == MNEM_PLAN_OPTIMAL ? "optimal" : "feasible";
}

static void print_verdict(const placing *p) {
    char a[TOOL_TEXT];
    tool_outf("  verdict  %s", verdict_text(p));
    if (p->r.verdict == MNEM_PLAN_INFEASIBLE)
        tool_outf(": no placement fits %s", tool_exact(p->args->capacity, a));
    else if (!fits(p))
        tool_outf(": none within %s in %g s (--time), which is no proof",
                  tool_exact(p->args->capacity, a), p->args->time_limit);
    else if (p->r.verdict == MNEM_PLAN_OPTIMAL)
        tool_outf(": no placement takes less");
    else
        tool_outf(": at most %.2f %% above the best", waste(p));
    tool_outf("\n");
}

static void print_line(const char *name, uint64_t bytes, const char *note) {
    char size[TOOL_TEXT], exact[TOOL_TEXT];
    tool_outf("  %-8s %11s %20s%s\n", name, tool_size(bytes, size), tool_exact(bytes, exact), note);
}

static void print_text(const placing *p) {
    char a[TOOL_TEXT], b[TOOL_TEXT], note[TOOL_TEXT];
    tool_outf("%s: %s buffers, %.3g s\n", p->path, tool_exact(p->t.n, a), p->seconds);
    print_line("sum", p->r.total_bytes, "  without reuse");
    print_line("bound", p->r.lower_bound_bytes, "  no placement is below");
    snprintf(note, sizeof note, "  waste %.2f %%", waste(p));
    print_line("peak", p->r.peak_bytes, note);
    if (p->args->capacity) print_line("capacity", p->args->capacity, fits(p) ? "" : "  exceeded");
    print_verdict(p);
    tool_outf("  alive at %lld, when most is: %s buffers\n", (long long)p->busiest,
              tool_exact(p->alive_count, a));
    if (p->alive_count) tool_outf("    %18s %18s  id\n", "bytes", "offset");
    for (size_t i = 0; i < p->alive_count && i < SHOWN_MAX; i++) {
        const mnem_plan_buffer *buffer = &p->t.buffers[p->alive[i]];
        tool_outf("    %18s %18s  %s, %lld to %lld\n", tool_exact(buffer->bytes, a),
                  tool_exact(buffer->offset, b), mnem_plan_csv_id(p->csv, p->alive[i]),
                  (long long)buffer->lower, (long long)buffer->upper);
    }
    if (p->alive_count > SHOWN_MAX)
        tool_outf("    and %s smaller ones (--json has all)\n",
                  tool_exact(p->alive_count - SHOWN_MAX, a));
}

static void print_json(const placing *p) {
    json_t *alive = json_array();
    for (size_t i = 0; i < p->alive_count; i++) {
        const mnem_plan_buffer *b = &p->t.buffers[p->alive[i]];
        json_t *id = json_string(mnem_plan_csv_id(p->csv, p->alive[i]));
        json_array_append_new(
            alive, json_pack("{s:o, s:I, s:I, s:I, s:I}", "id", id ? id : json_null(), "bytes",
                             (json_int_t)b->bytes, "offset", (json_int_t)b->offset, "lower",
                             (json_int_t)b->lower, "upper", (json_int_t)b->upper));
    }
    tool_out_json(
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:s, s:b, s:f, s:I, s:I, s:o}", "file", p->path,
                  "buffers", (json_int_t)p->t.n, "total_bytes", (json_int_t)p->r.total_bytes,
                  "lower_bound_bytes", (json_int_t)p->r.lower_bound_bytes, "peak_bytes",
                  (json_int_t)p->r.peak_bytes, "waste_percent", waste(p), "verdict",
                  verdict_text(p), "fits", fits(p), "seconds", p->seconds, "nodes",
                  (json_int_t)p->r.nodes, "busiest_time", (json_int_t)p->busiest, "alive", alive));
}

/* ---- the drawing: time to the right, offsets up ---- */

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
    const mnem_plan_buffer *b = &p->t.buffers[i];
    const char *id = mnem_plan_csv_id(p->csv, i);
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
    const mnem_plan_buffer *b = &p->t.buffers[i];
    int64_t after = b->lower;
    for (uint32_t g = 0; g < p->t.wishes[i].gap_count; g++) {
        const mnem_plan_gap *gap = &p->t.wishes[i].gaps[g];
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

static int draw(const placing *p, const char *path) {
    tool_svg svg = {.high = (double)p->r.peak_bytes};
    char title[160], subtitle[160], a[TOOL_TEXT], b[TOOL_TEXT];
    const char *slash = strrchr(p->path, '/');
    snprintf(title, sizeof title, "%.100s: %s buffers", slash ? slash + 1 : p->path,
             tool_exact(p->t.n, a));
    snprintf(subtitle, sizeof subtitle, "peak %s, without reuse %s, waste %.2f %%: %s",
             tool_size(p->r.peak_bytes, a), tool_size(p->r.total_bytes, b), waste(p),
             verdict_text(p));
    for (size_t i = 0; i < p->t.n; i++) {
        const mnem_plan_buffer *buffer = &p->t.buffers[i];
        if (i == 0 || (double)buffer->lower < svg.left) svg.left = (double)buffer->lower;
        if (i == 0 || (double)buffer->upper > svg.right) svg.right = (double)buffer->upper;
    }
    if ((double)p->args->capacity > svg.high) svg.high = (double)p->args->capacity;
    if (svg.high == 0) svg.high = 1;
    if (svg.right <= svg.left) svg.right = svg.left + 1;
    svg.high *= 1.02;
    if (!tool_svg_begin(&svg, path, title, subtitle)) return TOOL_FAILED;
    for (size_t i = 0; i < p->t.n; i++) draw_buffer(p, &svg, i);
    draw_level(&svg, p->r.lower_bound_bytes, "#1a7f37", "bound", 0);
    if (p->args->capacity) draw_level(&svg, p->args->capacity, "#c0392b", "capacity", 1);
    tool_svg_axis_x(&svg, "time", false, time_text);
    tool_svg_axis_y(&svg, "offset", true, tool_svg_bytes);
    return tool_svg_end(&svg, path);
}

/* ---- the verb ---- */

static int place(placing *p) {
    const mnem_plan_options options = {
        .capacity_bytes = p->args->capacity, .seconds = p->args->time_limit, .seed = p->args->seed};
    const double start = tool_clock();
    const mnem_status status =
        mnem_plan_solve_wishes(p->t.buffers, p->t.wishes, p->t.n, &options, &p->r);
    p->seconds = tool_clock() - start;
    if (status != MNEM_OK) return tool_fail(status);
    int code = find_alive(p);
    if (code == TOOL_OK && p->args->svg) code = draw(p, p->args->svg);
    if (code == TOOL_OK && p->args->out) code = write_table(p);
    if (code != TOOL_OK) return code;
    if (p->args->json)
        print_json(p);
    else if (!p->args->out || strcmp(p->args->out, "-") != 0)
        print_text(p);
    code = tool_out_end();
    return code == TOOL_OK && !fits(p) ? TOOL_OVER_BUDGET : code;
}

int verb_place(const tool_args *args) {
    placing p = {.args = args, .path = args->operand[0]};
    if (args->json && args->out && strcmp(args->out, "-") == 0)
        return tool_usage("place", "--json and --out - both want standard output");
    int code = read_table(&p);
    if (code == TOOL_OK) code = place(&p);
    mnem_plan_csv_destroy(p.csv);
    free(p.alive);
    return code;
}
