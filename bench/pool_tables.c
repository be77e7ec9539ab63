/* pool_tables.c: what bench_pool measured, as tables and as JSON. bench_pool.c says what the
 * columns are. */
#include "pool_tables.h"

#include "mnem/mnem.h"

static void cell(double value, int decimals) {
    if (value > 0)
        printf(" %9.*f", decimals, value);
    else
        printf(" %9s", "-");
}

static void remaps_print(const result *r) {
    if (!r->report_count) return;
    printf("\n%-20s %8s %8s %8s %8s %8s %8s %8s %8s %8s %8s\n", "granules, capacity", "mean", "p99",
           "worst", "remaps", "unmaps", "mapped", "tries", "plan us", "worst", "device us");
    for (int k = 0; k < r->report_count; k++) {
        const granule_report *x = &r->reports[k];
        printf("%-20.4f %8.1f %8.0f %8.0f %8llu %8llu %8llu %8llu %8.1f %8.0f", x->capacity,
               x->mean, x->p99, x->worst, (unsigned long long)x->remaps,
               (unsigned long long)x->unmaps, (unsigned long long)x->mapped,
               (unsigned long long)x->plans, x->plan_mean, x->plan_worst);
        if (x->device_worst > 0)
            printf(" %8.0f (worst %.0f)\n", x->device_mean, x->device_worst);
        else
            printf(" %8s\n", "-");
    }
}

static void ranges_print(const result *r) {
    if (!r->range_count) return;
    printf("\n%-20s %8s %8s %8s %8s %8s\n", "pool-range, capacity", "mean", "calls", "at once",
           "remapped", "reserved");
    for (int k = 0; k < r->range_count; k++) {
        const range_report *x = &r->ranges[k];
        printf("%-20.4f %8.1f %8llu ", x->capacity, x->mean, (unsigned long long)x->calls);
        if (x->calls_at_once)
            printf("%8llu", (unsigned long long)x->calls_at_once);
        else
            printf("%8s", "-"); /* it doesn't complete */
        printf(" %8.2f %8.4f\n", x->remapped, x->reserved);
    }
}

void table_print(const bench_trace *t, const subject *subjects, int count, const result *results) {
    char peak[24];
    printf("%s: %zu operations, %zu allocations, peak live %s in %u blocks at most\n", t->name,
           t->count, t->allocations, mnem_size_format(t->bytes_peak, peak, sizeof peak), t->slots);
    printf("%-20s %9s %9s %9s %9s %9s %9s %9s %9s\n", "ns", "mean", "p50", "p99", "worst",
           "worst free", "fit", "room", "calls");
    for (int i = 0; i < count; i++) {
        const result *r = &results[i];
        printf("%-20s", subjects[i].name);
        cell(r->timed ? r->mean : 0, 1);
        cell(r->timed ? r->p50 : 0, 1);
        cell(r->timed ? r->p99 : 0, 1);
        cell(r->timed ? r->worst : 0, 0);
        cell(r->timed ? r->worst_free : 0, 0);
        cell(r->fit, 4);
        cell(r->room, 3);
        cell((double)r->calls, 0);
        printf("\n");
    }
    for (int i = 0; i < count; i++) remaps_print(&results[i]);
    for (int i = 0; i < count; i++) ranges_print(&results[i]);
    printf("\n");
}

static void json_number(FILE *f, const char *key, double value) {
    if (value > 0)
        fprintf(f, ", \"%s\": %.6g", key, value);
    else
        fprintf(f, ", \"%s\": null", key);
}

static void json_remaps(FILE *f, const result *r) {
    fprintf(f, ", \"remapping\": [");
    for (int k = 0; k < r->report_count; k++) {
        const granule_report *x = &r->reports[k];
        fprintf(f, "%s{\"capacity_over_live\": %.6g", k ? ", " : "", x->capacity);
        json_number(f, "ns_mean", x->mean);
        json_number(f, "ns_p99", x->p99);
        json_number(f, "ns_worst", x->worst);
        fprintf(f, ", \"remaps\": %llu, \"plans\": %llu", (unsigned long long)x->remaps,
                (unsigned long long)x->plans);
        json_number(f, "us_plan_mean", x->plan_mean);
        json_number(f, "us_plan_worst", x->plan_worst);
        json_number(f, "us_device_mean", x->device_mean);
        json_number(f, "us_device_worst", x->device_worst);
        fprintf(f, "}");
    }
    fprintf(f, "]");
}

static void json_ranges(FILE *f, const result *r) {
    fprintf(f, ", \"range\": [");
    for (int k = 0; k < r->range_count; k++) {
        const range_report *x = &r->ranges[k];
        fprintf(f, "%s{\"capacity_over_live\": %.6g, \"ns_mean\": %.6g, \"upstream_calls\": %llu",
                k ? ", " : "", x->capacity, x->mean, (unsigned long long)x->calls);
        json_number(f, "upstream_calls_at_once", (double)x->calls_at_once);
        fprintf(f, ", \"remapped_over_live\": %.6g, \"reserved_over_live\": %.6g}", x->remapped,
                x->reserved);
    }
    fprintf(f, "]");
}

void json_trace(FILE *f, const bench_trace *t, const subject *subjects, int count,
                const result *results) {
    fprintf(f, "    {\"name\": \"%s\", \"operations\": %zu, \"allocations\": %zu, ", t->name,
            t->count, t->allocations);
    fprintf(f, "\"bytes_peak\": %llu, \"policies\": [", (unsigned long long)t->bytes_peak);
    for (int i = 0; i < count; i++) {
        const result *r = &results[i];
        fprintf(f, "%s\n      {\"name\": \"%s\"", i ? "," : "", subjects[i].name);
        json_number(f, "ns_mean", r->timed ? r->mean : 0);
        json_number(f, "ns_p50", r->timed ? r->p50 : 0);
        json_number(f, "ns_p99", r->timed ? r->p99 : 0);
        json_number(f, "ns_worst", r->timed ? r->worst : 0);
        json_number(f, "ns_worst_free", r->timed ? r->worst_free : 0);
        json_number(f, "capacity_over_live", r->fit);
        json_number(f, "reserved_over_live", r->room);
        json_number(f, "upstream_calls", (double)r->calls);
        if (r->report_count) json_remaps(f, r);
        if (r->range_count) json_ranges(f, r);
        fprintf(f, "}");
    }
    fprintf(f, "\n    ]}");
}
