/* open_metrics.h: writes metrics in the format OpenMetrics 1.0, for every verb that exports them.
 *
 * A text consists of families and an end; a family has a name, a type and a help, followed by its
 * samples. The caller gives valid names; values of labels may be any bytes. Nothing is allocated:
 * `put` receives the text in pieces.
 *
 *     open_metrics m = {put, context};
 *     open_metrics_family(&m, "mnem_", "ledger_bytes", OPEN_METRICS_GAUGE, "An account");
 *     open_metrics_count(&m, (open_metrics_label[]){{"kind", "kv"}, {"tag", "pages"}, {0}}, 512);
 *     open_metrics_end(&m);
 */
#ifndef MNEM_SRC_SERVER_OPEN_METRICS_H
#define MNEM_SRC_SERVER_OPEN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "mnem/serve.h"

/* The Content-Type of such a text. */
#define OPEN_METRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

typedef enum open_metrics_type {
    OPEN_METRICS_GAUGE,
    OPEN_METRICS_COUNTER, /* its samples get the suffix _total */
    OPEN_METRICS_HISTOGRAM,
} open_metrics_type;

typedef struct open_metrics {
    void (*put)(void *context, const char *bytes, size_t n);
    void *context;
    /* The current family, borrowed. */
    const char *prefix, *name;
    open_metrics_type type;
} open_metrics;

typedef struct open_metrics_label {
    const char *name, *value;
} open_metrics_label;

/* Begins a family. prefix "mnem_" and name "steps" make mnem_steps. help: a sentence without its
 * full stop. All are borrowed until the next family. */
void open_metrics_family(open_metrics *m, const char *prefix, const char *name,
                         open_metrics_type type, const char *help);
/* Writes a sample of a gauge or a counter. labels end with an empty one; NULL: none. */
void open_metrics_count(open_metrics *m, const open_metrics_label *labels, uint64_t value);
void open_metrics_real(open_metrics *m, const open_metrics_label *labels, double value);
/* Writes all samples of a histogram; labels as above, before the bound's. */
void open_metrics_histogram(open_metrics *m, const open_metrics_label *labels,
                            const mnem_histogram *h);
/* Writes the last line. */
void open_metrics_end(open_metrics *m);

#endif
