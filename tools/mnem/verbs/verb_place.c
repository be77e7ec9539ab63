/* verb_place.c: `mnem place`: offsets for the buffers of a table.
 *
 * The table is read whole and solved within a time; a signal ends the search, and what it found so
 * far is shown and written as though the time were over. With --space the same goes for several
 * spaces, whose own parts are in place_spaces.c.
 * The busiest time, when the most bytes are live: every birth, death and gap is a moment with more
 * or fewer bytes; sorted by time, their running sum has its maximum at the busiest one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "output_file.h"
#include "verbs/layout/place_tool.h"

/* ---- files ---- */

/* Ten million buffers are far more than anyone plans; at most half of what the machine has left. */
static size_t bytes_most(void) {
    enum { TABLE_MOST = 256 << 20 };
    uint64_t left;
    const bool known = mnem_process_available(&left) == MNEM_OK;
    return known && left / 2 < TABLE_MOST ? (size_t)(left / 2) : TABLE_MOST;
}

/* Appends what comes next; 0 at the end, and when *why says what is wrong. */
static size_t read_more(FILE *file, char **text, size_t length, size_t *room, const char **why) {
    if (length == *room) {
        char *more = realloc(*text, *room = *room ? 2 * *room : 1 << 16);
        if (!more) *why = strerror(ENOMEM);
        if (!more) return 0;
        *text = more;
    }
    const size_t got = fread(*text + length, 1, *room - length, file);
    if (ferror(file))
        *why = strerror(errno);
    else if (memchr(*text + length, 0, got))
        *why = "it has a zero byte, so it isn't a text table";
    return *why ? 0 : got;
}

/* The whole file, to be freed; NULL with a message. What never ends (a device, a pipe) is stopped
 * by its length. */
static char *read_whole(const char *path, size_t *length) {
    if (strcmp(path, "-") == 0) tool_say_waiting();
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    const size_t most = bytes_most();
    const char *why = file ? NULL : strerror(errno);
    char *text = NULL;
    size_t room = 0;
    *length = 0;
    for (size_t got = 1; !why && got; *length += got) {
        got = read_more(file, &text, *length, &room, &why);
        if (*length + got > most) why = "it is too long for a table";
    }
    if (file && file != stdin) fclose(file);
    if (!why) return text;
    tool_message("can't read %s: %s", path, why);
    free(text);
    return NULL;
}

static int read_table(placing *p) {
    size_t length;
    char *text = read_whole(p->path, &length);
    if (!text) return TOOL_FAILED;
    const mnem_status status = mnem_place_csv_read(text, length, &p->csv);
    free(text);
    if (status != MNEM_OK) return tool_failed("%s: %s", p->path, mnem_last_error());
    mnem_place_csv_info_get(p->csv, &p->t);
    if (p->space_count &&
        mnem_place_csv_uses(p->csv, p->space_names, p->space_count, &p->uses) != MNEM_OK)
        return tool_failed("%s: %s", p->path, mnem_last_error());
    return TOOL_OK;
}

static int write_file(const char *path, const char *text, size_t length) {
    tool_new out;
    const int code = tool_new_open(&out, path);
    if (code != TOOL_OK) return code;
    fwrite(text, 1, length, out.file);
    return tool_new_end(&out);
}

static int write_table(const placing *p) {
    const size_t length = mnem_place_csv_write(p->csv, NULL, 0);
    char *text = malloc(length);
    if (!text) return tool_fail(MNEM_NO_MEMORY);
    mnem_place_csv_write(p->csv, text, length);
    int code = TOOL_OK;
    if (strcmp(p->asked->out, "-") == 0)
        tool_out(text, length);
    else
        code = write_file(p->asked->out, text, length);
    free(text);
    return code;
}

/* ---- the busiest time ---- */

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
    const mnem_place_buffer *b = &p->t.buffers[i];
    const bool lives = time >= b->lower && time < b->upper;
    *bottom = 0;
    *top = lives ? b->bytes : 0;
    for (uint32_t g = 0; g < p->t.constraints[i].gap_count && lives; g++) {
        const mnem_place_gap *gap = &p->t.constraints[i].gaps[g];
        if (time < gap->lower || time >= gap->upper) continue;
        *bottom = gap->window_lower;
        *top = gap->window_upper;
    }
}

/* Moments at one time count together: what dies then makes room for what is born. */
static int64_t busiest_time(const placing *p, moment *moments) {
    size_t count = 0;
    for (size_t i = 0; i < p->t.n; i++) {
        const mnem_place_buffer *b = &p->t.buffers[i];
        count += add_moments(moments + count, b->lower, b->upper, b->bytes);
        for (uint32_t g = 0; g < p->t.constraints[i].gap_count; g++) {
            const mnem_place_gap *gap = &p->t.constraints[i].gaps[g];
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

static const mnem_place_buffer *sorted_buffers; /* qsort takes no context */

static int larger_first(const void *x, const void *y) {
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const uint64_t a = sorted_buffers[i].bytes, b = sorted_buffers[j].bytes;
    if (a != b) return a > b ? -1 : 1;
    return (i > j) - (i < j);
}

static int find_alive(placing *p) {
    size_t moments = 2 * p->t.n;
    for (size_t i = 0; i < p->t.n; i++) moments += 2 * (size_t)p->t.constraints[i].gap_count;
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

bool place_fits(const placing *p) {
    if (p->space_count) return p->spread.over_bytes == 0;
    return !p->asked->capacity || p->r.peak_bytes <= p->asked->capacity;
}

double place_waste(const placing *p) {
    if (p->r.lower_bound_bytes == 0) return 0;
    return 100 * ((double)p->r.peak_bytes / (double)p->r.lower_bound_bytes - 1);
}

const char *place_verdict(const placing *p) {
    const mnem_place_verdict verdict = p->space_count ? p->spread.verdict : p->r.verdict;
    if (verdict == MNEM_PLACE_INFEASIBLE) return "infeasible";
    if (!place_fits(p)) return "none found";
    return verdict == MNEM_PLACE_OPTIMAL ? "optimal" : "feasible";
}

static void print_verdict(const placing *p) {
    char a[TOOL_TEXT];
    tool_outf("  verdict  %s", place_verdict(p));
    if (p->r.verdict == MNEM_PLACE_INFEASIBLE)
        tool_outf(": no placement fits %s", tool_exact(p->asked->capacity, a));
    else if (!place_fits(p))
        tool_outf(": none within %s in %g s (--time), which is no proof",
                  tool_exact(p->asked->capacity, a), p->asked->seconds);
    else if (p->r.verdict == MNEM_PLACE_OPTIMAL)
        tool_outf(": no placement takes less");
    else
        tool_outf(": at most %.2f %% above the best", place_waste(p));
    tool_outf("\n");
    if (p->stopped) tool_outf("  stopped  by a signal: the best so far\n");
}

static void print_line(const char *name, uint64_t bytes, const char *note) {
    char size[TOOL_TEXT], exact[TOOL_TEXT];
    tool_outf("  %-8s %11s %20s%s\n", name, tool_size(bytes, size), tool_exact(bytes, exact), note);
}

static void print_text(const placing *p) {
    char a[TOOL_TEXT], b[TOOL_TEXT], note[TOOL_TEXT];
    tool_outf("%s: %s buffer%s, %.3g s\n", p->path, tool_exact(p->t.n, a), tool_s(p->t.n),
              p->seconds);
    print_line("sum", p->r.total_bytes, "  without reuse");
    print_line("bound", p->r.lower_bound_bytes, "  no placement is below");
    snprintf(note, sizeof note, "  waste %.2f %%", place_waste(p));
    print_line("peak", p->r.peak_bytes, note);
    if (p->asked->capacity)
        print_line("capacity", p->asked->capacity, place_fits(p) ? "" : "  exceeded");
    print_verdict(p);
    tool_outf("  busiest  at time %lld, with %s live buffer%s\n", (long long)p->busiest,
              tool_exact(p->alive_count, a), tool_s(p->alive_count));
    if (p->alive_count) tool_outf("    %18s %18s  id\n", "bytes", "offset");
    for (size_t i = 0; i < p->alive_count && i < PLACE_SHOWN_MAX; i++) {
        const mnem_place_buffer *buffer = &p->t.buffers[p->alive[i]];
        tool_outf("    %18s %18s  %s, %lld to %lld\n", tool_exact(buffer->bytes, a),
                  tool_exact(buffer->offset, b), mnem_place_csv_id(p->csv, p->alive[i]),
                  (long long)buffer->lower, (long long)buffer->upper);
    }
    if (p->alive_count > PLACE_SHOWN_MAX)
        tool_outf("    and %s smaller ones (--json has all)\n",
                  tool_exact(p->alive_count - PLACE_SHOWN_MAX, a));
}

static void print_json(const placing *p) {
    json_t *alive = json_array();
    for (size_t i = 0; i < p->alive_count; i++) {
        const mnem_place_buffer *b = &p->t.buffers[p->alive[i]];
        json_t *id = json_string(mnem_place_csv_id(p->csv, p->alive[i]));
        json_array_append_new(
            alive, json_pack("{s:o, s:I, s:I, s:I, s:I}", "id", id ? id : json_null(), "bytes",
                             (json_int_t)b->bytes, "offset", (json_int_t)b->offset, "lower",
                             (json_int_t)b->lower, "upper", (json_int_t)b->upper));
    }
    tool_out_json("place",
                  json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:s, s:b, s:b, s:f, s:I, s:I, s:o}",
                            "file", p->path, "buffers", (json_int_t)p->t.n, "total_bytes",
                            (json_int_t)p->r.total_bytes, "lower_bound_bytes",
                            (json_int_t)p->r.lower_bound_bytes, "peak_bytes",
                            (json_int_t)p->r.peak_bytes, "waste_percent", place_waste(p), "verdict",
                            place_verdict(p), "fits", place_fits(p), "stopped", p->stopped,
                            "seconds", p->seconds, "nodes", (json_int_t)p->r.nodes, "busiest_time",
                            (json_int_t)p->busiest, "alive", alive));
}

/* ---- the verb ---- */

static bool is_interrupted(void *context) {
    (void)context;
    return tool_interrupted();
}

/* Fills in p->r or p->spread. From here on a signal ends the search and nothing else. */
static mnem_status solve(placing *p) {
    const mnem_place_options options = {.capacity_bytes = p->asked->capacity,
                                        .seconds = p->asked->seconds,
                                        .seed = p->asked->seed,
                                        .stop = is_interrupted};
    const double start = tool_clock();
    tool_interrupt_watch(NULL);
    const mnem_status status =
        p->space_count
            ? mnem_place_solve_spaces(p->t.buffers, p->t.constraints, p->uses, p->t.n, p->spaces,
                                      p->space_count, &options, &p->spread)
            : mnem_place_solve_constrained(p->t.buffers, p->t.constraints, p->t.n, &options, &p->r);
    p->seconds = tool_clock() - start;
    p->stopped = tool_interrupted();
    return status;
}

static void print(const placing *p) {
    const bool quiet = p->asked->out && strcmp(p->asked->out, "-") == 0;
    if (p->args->json && p->space_count)
        place_spaces_json(p);
    else if (p->args->json)
        print_json(p);
    else if (!quiet && p->space_count)
        place_spaces_text(p);
    else if (!quiet)
        print_text(p);
    else if (p->stopped)
        tool_message(
            "the search for %s was stopped by a signal; the result is the best placement so far",
            p->path);
}

static int place(placing *p) {
    const mnem_status status = solve(p);
    if (status == MNEM_INVALID) return tool_failed("%s: %s", p->path, mnem_last_error());
    if (status != MNEM_OK) return tool_fail(status);
    int code = p->space_count ? TOOL_OK : find_alive(p);
    if (code == TOOL_OK && p->asked->svg) code = place_draw(p, p->asked->svg);
    if (code == TOOL_OK && p->asked->out) code = write_table(p);
    if (code != TOOL_OK) return code;
    print(p);
    code = tool_out_end();
    if (code == TOOL_OK && p->stopped) return TOOL_INTERRUPTED;
    return code == TOOL_OK && !place_fits(p) ? TOOL_OVER_BUDGET : code;
}

static int verb_place(const tool_args *args) {
    const place_options *o = (const place_options *)args;
    placing p = {.args = args, .asked = o, .path = args->operand[0]};
    if (args->json && o->out && strcmp(o->out, "-") == 0)
        return tool_usage("place",
                          "--json and --out - both write to standard output: leave one out");
    if (o->capacity && o->space.count)
        return tool_usage("place", "--capacity sets the size of a single space and can't be "
                                   "combined with --space: use --space NAME=SIZE");
    int code = tool_new_check_apart(o->svg, o->out);
    if (code == TOOL_OK) code = place_spaces_parse(&p);
    if (code == TOOL_OK) code = read_table(&p);
    if (code == TOOL_OK) code = place(&p);
    mnem_place_csv_destroy(p.csv);
    free(p.alive);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(place_options, field)
static const tool_option options[] = {
    {"capacity", 0, "SIZE", TOOL_VALUE_SIZE, AT(capacity),
     .help =
         "available memory: stop at the first placement that fits (default: search for the lowest "
         "peak)"},
    {"space", 0, "SPACE", TOOL_VALUE_LIST, AT(space), .most = TOOL_SPACES_MAX,
     .help = "NAME[=SIZE][:COST]: a space (a memory) that buffers may be in, its size (default: no "
             "limit), and the cost of one access to one byte there (default: 0, 1, 2, ... in the "
             "order given); may be repeated up to 32 times"},
    {"time", 0, "S", TOOL_VALUE_REAL, AT(seconds), .least = 0.001, .most = 1e6,
     .help = "seconds to search for a better placement (default: 2)"},
    {"seed", 's', "N", TOOL_VALUE_NUMBER, AT(seed), .help = "seed of the search (default: 0)"},
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .also = "output outfile", .last = true,
     .path = TOOL_PATH_WRITE | TOOL_PATH_IN_PLACE,
     .help =
         "write the table with offsets to FILE (- is standard output, without the report); same as "
         "the operand OUT"},
    {"svg", 0, "FILE", TOOL_VALUE_TEXT, AT(svg), .path = TOOL_PATH_WRITE,
     .help = "draw the placement to FILE: time to the right, offsets up"},
    TOOL_JSON_OPTION("one object"),
    {0},
};

static place_options asked = {.seconds = 2};
TOOL_VERB(
    place, "FILE.csv [OUT]", 1, 1, "find offsets for buffers whose lifetimes are known",
    "Finds an offset for each buffer of a table, so that buffers that are live at the same time\n"
    "don't overlap and the peak (the largest end of a buffer) is low. Shows how good the\n"
    "placement is: its peak, a lower bound for the peak of any placement, and whether it is\n"
    "optimal. Also lists the buffers that are live when the sum of live bytes is largest.\n"
    "\n"
    "The table is a CSV file as MiniMalloc reads it, with the columns id, lower, upper (the\n"
    "buffer is live at the times t with lower <= t < upper) and size (in bytes). Optional columns\n"
    "are alignment, hint (a preferred offset), gaps (times within the lifetime in which other\n"
    "buffers may use the bytes: 5-9, or 5-9@0:64 if bytes 0 to 63 stay in use) and offset (a\n"
    "given offset is fixed). `-` as the file means standard input. A table of two buffers:\n"
    "\n"
    "  id,lower,upper,size\n"
    "  a,0,3,40\n"
    "  b,2,5,24\n"
    "\n"
    "With --capacity, the exit code is 3 when no placement that fits was found. Ctrl-C or\n"
    "SIGTERM ends the search; the best placement so far is shown and written (exit code 130 or\n"
    "143).\n"
    "\n"
    "With --space (given once for each space), buffers are distributed over several memories, or\n"
    "spaces, so that the sum of accesses x bytes x cost is as small as possible. Three more\n"
    "columns are for that: accesses (how often the buffer is accessed, default: 1), spaces (names\n"
    "of the spaces that it may be in, separated by blanks) and space (in the output the chosen\n"
    "space; in the input a space that is fixed).\n",
    "mnem place buffers.csv  # how low can the peak be?\n"
    "mnem place buffers.csv --capacity 1M -o placed.csv  # does it fit 1 MiB?\n"
    "mnem place buffers.csv --time 60 --svg map.svg  # search longer, and draw the result\n"
    "mnem place buffers.csv --space chip=1M --space main:20 -o -  # distribute buffers over two "
    "memories\n"
    "mnem place buffers.csv --json | jq .peak_bytes  # print the peak\n");
