/* history_line.c: a run as a line of JSON, and back.
 *
 * The idea: one table of fields serves both ways, so that what is written is what is read. A field
 * that is zero or empty isn't written. */
#include "sight/history/history_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "model/json/json_tree.h"

typedef enum field_kind { TEXT, INT32, INT64, WHOLE, REAL } field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    uint16_t offset, bytes;
} field;

#define FIELD(type, name, kind)                                                                    \
    { #name, kind, offsetof(type, name), sizeof(((type *)0)->name) }
#define RUN(name, kind)   FIELD(mnem_history_run, name, kind)
#define PHASE(name, kind) FIELD(mnem_history_phase, name, kind)

static const field run_fields[] = {
    RUN(time, INT64),
    RUN(verb, TEXT),
    RUN(version, TEXT),
    RUN(model, TEXT),
    RUN(folder, TEXT),
    RUN(machine, TEXT),
    RUN(architecture, TEXT),
    RUN(type, TEXT),
    RUN(kv, TEXT),
    RUN(precision, TEXT),
    RUN(moments, TEXT),
    RUN(threads, INT32),
    RUN(processors, INT32),
    RUN(context, INT32),
    RUN(chunk, INT32),
    RUN(sequences, INT32),
    RUN(batch, INT32),
    RUN(micro_batch, INT32),
    RUN(lora, INT32),
    RUN(context_asked, INT32),
    RUN(context_used, INT32),
    RUN(page_cache, INT32),
    RUN(streamed, INT32),
    RUN(budget_chosen, INT32),
    RUN(parameters, WHOLE),
    RUN(weight_bytes, WHOLE),
    RUN(kv_bytes, WHOLE),
    RUN(optimizer_bytes, WHOLE),
    RUN(gradient_bytes, WHOLE),
    RUN(activation_bytes, WHOLE),
    RUN(budget_bytes, WHOLE),
    RUN(predicted_bytes, WHOLE),
    RUN(peak_bytes, WHOLE),
    RUN(ledger_bytes, WHOLE),
    RUN(streamed_bytes, WHOLE),
    RUN(refusals, WHOLE),
    RUN(faults, WHOLE),
    RUN(seconds, REAL),
    RUN(seconds_load, REAL),
    RUN(seconds_waiting, REAL),
    RUN(preemptions, WHOLE),
    RUN(tokens_recomputed, WHOLE),
    RUN(refused_full, WHOLE),
    RUN(expert_hits, WHOLE),
    RUN(expert_misses, WHOLE),
};
static const field phase_fields[] = {
    PHASE(tokens, WHOLE),
    PHASE(seconds, REAL),
    PHASE(cpu_seconds, REAL),
    PHASE(predicted_seconds, REAL),
};
enum {
    RUN_FIELDS = sizeof run_fields / sizeof run_fields[0],
    PHASE_FIELDS = sizeof phase_fields / sizeof phase_fields[0]
};

const char *mnem_phase_text(mnem_phase phase) {
    static const char *const names[] = {"prompt", "tokens", "steps"};
    return (unsigned)phase < MNEM_PHASE_COUNT ? names[phase] : "?";
}

/* ---- writing ---- */

typedef struct text {
    char *at, *end; /* at == end: it is full */
} text;

__attribute__((format(printf, 2, 3))) static void append_format(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->at, (size_t)(t->end - t->at), format, args);
    va_end(args);
    t->at = n < 0 || n >= t->end - t->at ? t->end : t->at + n;
}

/* Names of files may be any bytes: what isn't printable ASCII or a whole character is '?'. */
static void put_quoted(text *t, const char *s) {
    append_format(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            append_format(t, "\\%c", c);
        else
            append_format(t, "%c", c < 0x20 || c >= 0x7f ? '?' : c);
    }
    append_format(t, "\"");
}

static double finite_or_0(double x) {
    return isfinite(x) ? x : 0;
}

/* ",\"key\":value" */
static void put_field(text *t, const field *f, const void *of) {
    const char *at = (const char *)of + f->offset;
    const double real = f->kind == REAL ? finite_or_0(*(const double *)at) : 0;
    const int64_t whole = f->kind == INT32                       ? *(const int32_t *)at
                          : f->kind == INT64 || f->kind == WHOLE ? *(const int64_t *)at
                                                                 : 0;
    if (f->kind == TEXT ? !*at : real == 0 && whole == 0) return;
    append_format(t, ",\"%s\":", f->key);
    if (f->kind == TEXT)
        put_quoted(t, at);
    else if (f->kind == REAL)
        append_format(t, "%.9g", real);
    else
        append_format(t, "%" PRId64, whole);
}

static void put_work(text *t, const mnem_work *w) {
    append_format(t, "[");
    put_quoted(t, w->op);
    append_format(t, ",");
    put_quoted(t, w->type);
    append_format(t, ",");
    put_quoted(t, w->level);
    append_format(t, ",%.9g,%.9g]", finite_or_0(w->macs), finite_or_0(w->bytes));
}

static void put_phase(text *t, mnem_phase which, const mnem_history_phase *p) {
    if (!p->tokens) return;
    append_format(t, ",\"%s\":{\"works\":[", mnem_phase_text(which));
    for (int32_t i = 0; i < p->works; i++) {
        if (i) append_format(t, ",");
        put_work(t, &p->work[i]);
    }
    append_format(t, "]");
    for (int i = 0; i < PHASE_FIELDS; i++) put_field(t, &phase_fields[i], p);
    append_format(t, "}");
}

size_t mnem__history_write(const mnem_history_run *run, char *out, size_t n) {
    text t = {out, out + n};
    append_format(&t, MNEM__HISTORY_BEGIN "%" PRIu64, run->run);
    for (int i = 0; i < RUN_FIELDS; i++) put_field(&t, &run_fields[i], run);
    for (int i = 0; i < MNEM_PHASE_COUNT; i++) put_phase(&t, (mnem_phase)i, &run->phase[i]);
    append_format(&t, "}\n");
    return t.at == t.end ? 0 : (size_t)(t.at - out);
}

/* ---- reading ---- */

static int64_t whole_of(const mnem__node *node, int64_t most) {
    if (!node || !node->is_integer || node->integer < 0) return 0;
    return node->integer > most ? most : node->integer;
}

static void take_field(const field *f, const mnem__node *object, void *of) {
    const mnem__node *node = mnem__node_get(object, f->key);
    char *at = (char *)of + f->offset;
    const double real = mnem__node_number(node, 0);
    switch (f->kind) {
    case TEXT: snprintf(at, f->bytes, "%s", mnem__node_text(node, "")); break;
    case INT32: *(int32_t *)at = (int32_t)whole_of(node, INT32_MAX); break;
    case INT64:
    case WHOLE: *(int64_t *)at = whole_of(node, INT64_MAX); break;
    case REAL: *(double *)at = isfinite(real) && real > 0 ? real : 0; break;
    }
}

static double positive(const mnem__node *node) {
    const double x = mnem__node_number(node, 0);
    return isfinite(x) && x > 0 ? x : 0;
}

static void take_work(const mnem__node *list, mnem_work *w) {
    snprintf(w->op, sizeof w->op, "%s", mnem__node_text(mnem__node_at(list, 0), ""));
    snprintf(w->type, sizeof w->type, "%s", mnem__node_text(mnem__node_at(list, 1), ""));
    snprintf(w->level, sizeof w->level, "%s", mnem__node_text(mnem__node_at(list, 2), ""));
    w->macs = positive(mnem__node_at(list, 3));
    w->bytes = positive(mnem__node_at(list, 4));
}

static void take_phase(const mnem__node *object, mnem_history_phase *p) {
    const mnem__node *works = mnem__node_get(object, "works");
    for (int i = 0; i < PHASE_FIELDS; i++) take_field(&phase_fields[i], object, p);
    for (; p->works < MNEM_HISTORY_WORKS; p->works++) {
        const mnem__node *list = mnem__node_at(works, (uint32_t)p->works);
        if (!list) return;
        take_work(list, &p->work[p->works]);
    }
}

bool mnem__history_parse(const char *line, size_t n, mnem_history_run *run) {
    mnem__arena arena = {0};
    mnem__json json;
    mnem__node *root = NULL;
    *run = (mnem_history_run){0};
    mnem__json_open_text(&json, "history", line, n);
    const bool read = mnem__tree_read(&arena, &json, &root) == MNEM_OK;
    mnem__json_close(&json);
    run->run = read ? (uint64_t)whole_of(mnem__node_get(root, "run"), INT64_MAX) : 0;
    for (int i = 0; i < RUN_FIELDS && run->run; i++) take_field(&run_fields[i], root, run);
    for (int i = 0; i < MNEM_PHASE_COUNT && run->run; i++)
        take_phase(mnem__node_get(root, mnem_phase_text((mnem_phase)i)), &run->phase[i]);
    mnem__arena_free(&arena);
    return run->run > 0;
}
