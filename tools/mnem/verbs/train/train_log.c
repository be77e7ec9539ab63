/* train_log.c: log.jsonl, and the curve of the loss.
 *
 * A line is written whole and flushed, or taken back: a full disk makes a gap, never half a line,
 * and the run goes on. Going on from a checkpoint drops the lines of steps that it
 * hasn't done yet, so that every step is there once. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "svg.h"
#include "verbs/train/train_tool.h"

/* ---- points ---- */

/* When there are too many, every other one goes, and from then on only every other one comes. */
static void add_point(train_curve *c, int64_t step, double loss) {
    if (c->every < 1) c->every = 1;
    if (++c->skipped < c->every) return;
    c->skipped = 0;
    if (c->count == TRAIN_CURVE) {
        for (int i = 0; i < TRAIN_CURVE / 2; i++) c->point[i] = c->point[2 * i];
        c->count = TRAIN_CURVE / 2;
        c->every *= 2;
    }
    c->point[c->count++] = (train_point){step, loss};
}

/* In f16 a step that is left out may have none. */
static void note_loss(train_run *run, int64_t step, double loss) {
    if (!isfinite(loss)) return;
    run->loss_last = loss;
    train_losses *l = &run->losses;
    if (l->count < TRAIN_MEAN) l->first[l->count] = loss;
    l->last[l->count++ % TRAIN_MEAN] = loss;
    add_point(&run->training_curve, step, loss);
}

static void note_line(train_run *run, json_t *line, int64_t step) {
    const json_t *loss = json_object_get(line, "loss");
    const json_t *validation = json_object_get(line, "validation_loss");
    if (json_is_number(loss)) note_loss(run, step, json_number_value(loss));
    if (json_is_number(validation)) {
        run->loss_validation = json_number_value(validation);
        run->validated = step;
        add_point(&run->validation_curve, step, run->loss_validation);
    }
}

/* ---- the file ---- */

/* Reads what is there, up to the first line past steps or that isn't whole: where that begins. */
static long read_until(train_run *run, FILE *file, int64_t steps) {
    char *text = NULL;
    size_t room = 0;
    long end = 0;
    while (getline(&text, &room, file) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        const json_t *number = json_object_get(line, "step");
        const int64_t step = json_is_integer(number) ? json_integer_value(number) : INT64_MAX;
        if (step <= steps) note_line(run, line, step);
        json_decref(line);
        if (step > steps) break;
        end = ftell(file);
    }
    free(text);
    return end;
}

static bool keep_until(train_run *run, FILE *file, int64_t steps) {
    const long end = read_until(run, file, steps);
    return ftruncate(fileno(file), end) == 0 && fseek(file, end, SEEK_SET) == 0;
}

void train_log_read(train_run *run, int64_t steps) {
    FILE *file = fopen(train_path(run, "log.jsonl"), "r");
    if (!file) return;
    read_until(run, file, steps);
    fclose(file);
}

int train_log_open(train_run *run, int64_t steps) {
    const char *path = train_path(run, "log.jsonl");
    run->log = fopen(path, steps > 0 ? "r+" : "w");
    if (!run->log && steps > 0) run->log = fopen(path, "w");
    if (run->log && (steps == 0 || keep_until(run, run->log, steps))) return TOOL_OK;
    return tool_failed("can't write the file %s: %s", path, strerror(errno));
}

/* Bypasses stdio, whose buffer would keep what couldn't be written. With --json to standard output,
 * too; the run continues when that is closed. */
static void write_line(train_run *run, const char *type, json_t *line) {
    if (!run->log) { /* that is rank 0's */
        json_decref(line);
        return;
    }
    json_object_set_new(line, "type", json_string(type));
    if (run->args->json && !tool_out_closed()) tool_out_json(type, json_incref(line));
    const int fd = fileno(run->log);
    const off_t begin = lseek(fd, 0, SEEK_END);
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(line);
    const bool ok = text && tool_new_write(fd, text, strlen(text)) && tool_new_write(fd, "\n", 1);
    const int why = text ? errno : ENOMEM;
    free(text);
    if (ok) return;
    const bool cut = ftruncate(fd, begin) == 0;
    if (!run->log_gap)
        tool_message(cut ? "can't write the log %s: %s; the run continues"
                         : "can't write the log %s: %s; the run continues, and the last line of "
                           "the log stays incomplete",
                     train_path(run, "log.jsonl"), strerror(why));
    run->log_gap = true;
}

static uint64_t peak_bytes(void) {
    return tool_peak_bytes();
}

void train_log_step(train_run *run, const mnem_train_report *r, double tokens_per_s) {
    note_loss(run, (int64_t)r->step, r->loss);
    write_line(run, "step",
               json_pack("{s:I, s:o, s:f, s:I, s:f, s:f, s:f, s:b}", "step", (json_int_t)r->step,
                         "loss", tool_json_real(r->loss), "tokens_per_s", tokens_per_s,
                         "bytes_peak", (json_int_t)peak_bytes(), "rate", r->rate, "norm",
                         isfinite(r->norm) ? r->norm : -1.0, "loss_scale", r->loss_scale, "applied",
                         r->applied));
}

void train_log_validation(train_run *run, int64_t step, double loss, double bits_per_byte) {
    run->loss_validation = loss;
    run->validated = step;
    if (isfinite(loss)) add_point(&run->validation_curve, step, loss);
    write_line(run, "validation",
               json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)step, "validation_loss",
                         tool_json_real(loss), "perplexity", tool_json_real(exp(loss)),
                         "bits_per_byte", tool_json_real(bits_per_byte)));
}

void train_log_adapt(train_run *run, const char *what, const mnem_load *load, int32_t before,
                     int32_t micro_batch) {
    write_line(run, "adapt",
               json_pack("{s:I, s:s, s:f, s:o, s:f, s:i, s:i}", "step",
                         (json_int_t)mnem_trainer_steps(run->trainer), "what", what, "pressure",
                         load->pressure, "efficiency", tool_json_known(load->efficiency),
                         "sequences_per_s", load->rate, "before", before, "micro_batch",
                         micro_batch));
}

void train_log_close(train_run *run) {
    if (run->log) fclose(run->log);
    run->log = NULL;
}

/* ---- the picture ---- */

static char *loss_text(double number, char text[TOOL_TEXT]) {
    snprintf(text, TOOL_TEXT, "%.4g", number);
    return text;
}

/* A line; a single point is a dot. */
static void draw_curve(const tool_svg *svg, const train_curve *c, const char *colour,
                       double width) {
    if (c->count == 1)
        fprintf(svg->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                tool_svg_x(svg, (double)c->point[0].step), tool_svg_y(svg, c->point[0].loss),
                colour);
    if (c->count < 2) return;
    fprintf(svg->file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" d=\"", colour,
            width);
    for (int i = 0; i < c->count; i++)
        fprintf(svg->file, "%c%.1f %.1f", i ? 'L' : 'M', tool_svg_x(svg, (double)c->point[i].step),
                tool_svg_y(svg, c->point[i].loss));
    fputs("\"/>\n", svg->file);
}

static void bounds(const train_curve *c, double *low, double *high) {
    for (int i = 0; i < c->count; i++) {
        if (c->point[i].loss < *low) *low = c->point[i].loss;
        if (c->point[i].loss > *high) *high = c->point[i].loss;
    }
}

int train_draw(const train_run *run) {
    const train_curve *t = &run->training_curve, *v = &run->validation_curve;
    const char *path = train_path(run, "loss.svg");
    char subtitle[200];
    tool_svg svg = {.file = NULL};
    if (t->count < 1) return TOOL_OK;
    int n =
        snprintf(subtitle, sizeof subtitle, "blue: of each step, %.4f at the end", run->loss_last);
    if (v->count)
        snprintf(subtitle + n, sizeof subtitle - (size_t)n,
                 "; red: of held-out text, %.4f, perplexity %.4g", run->loss_validation,
                 exp(run->loss_validation));
    if (!tool_svg_begin(&svg, path, "Loss (nats per token)", subtitle)) return TOOL_FAILED;
    svg.left = 0;
    svg.right = (double)t->point[t->count - 1].step + (t->count == 1); /* not at the border */
    svg.low = INFINITY;
    svg.high = -INFINITY;
    bounds(t, &svg.low, &svg.high);
    bounds(v, &svg.low, &svg.high);
    const double margin = 0.05 * (svg.high - svg.low) + 0.01;
    svg.low -= margin;
    svg.high += margin;
    tool_svg_axis_x(&svg, "step", false, tool_svg_plain);
    tool_svg_axis_y(&svg, "loss", false, loss_text);
    draw_curve(&svg, t, "#3f6fb5", 1);
    draw_curve(&svg, v, "#c00", 2);
    return tool_svg_end(&svg);
}
