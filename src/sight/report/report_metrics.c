/* report_metrics.c: numbers that follow from a report's facts, by the definitions of report.h. */
#include "mnem/report.h"

const char *mnem_report_refusal_text(mnem_report_refusal why) {
    static const char *const text[] = {
#define REFUSAL_TEXT(name, text) text,
        MNEM_REPORT_REFUSAL_LIST(REFUSAL_TEXT)
#undef REFUSAL_TEXT
    };
    return (unsigned)why < MNEM_REPORT_REFUSALS ? text[why] : "unknown";
}

mnem_report_metric_info mnem_report_metric_get(mnem_report_metric metric) {
    static const mnem_report_metric_info info[] = {
#define METRIC_INFO(name, key, text, unit) {key, text, unit},
        MNEM_REPORT_METRIC_LIST(METRIC_INFO)
#undef METRIC_INFO
    };
    return (unsigned)metric < MNEM_REPORT_METRICS ? info[metric]
                                                  : (mnem_report_metric_info){"", "", ""};
}

/* In percent; false where there is no whole. */
static bool percent(double part, double whole, double *value) {
    if (!(whole > 0)) return false;
    *value = 100 * part / whole;
    return true;
}

static bool number(bool known, double n, double *value) {
    *value = known ? n : 0;
    return known;
}

static uint64_t refusals(const mnem_report_facts *f) {
    uint64_t n = 0;
    for (int i = 0; i < MNEM_REPORT_REFUSALS; i++) n += f->refused[i].count;
    return n;
}

static uint64_t growing(const mnem_report_facts *f) {
    uint64_t n = 0;
    for (size_t i = 0; i < f->leaks; i++) n += f->leak[i].growing;
    return n;
}

/* Of what is reserved and granted at the peak. */
static bool measure_waste(const mnem_report_facts *f, mnem_report_metric metric, double *value) {
    const double l = (double)f->live.at_peak, g = (double)f->granted.at_peak;
    const double r = (double)f->reserved.at_peak, h = (double)f->hole_at_peak;
    switch (metric) {
    case MNEM_REPORT_METRIC_FRAGMENTATION: return f->reserved.known && percent(r - l, r, value);
    case MNEM_REPORT_METRIC_INTERNAL: return f->granted.known && percent(g - l, g, value);
    case MNEM_REPORT_METRIC_EXTERNAL:
        return f->reserved.known && f->granted.known && percent(r - g, r, value);
    case MNEM_REPORT_METRIC_UNUSABLE:
        return f->hole_known && r > g && percent(r - g - h, r - g, value);
    default: return f->reserved.known && percent(f->live.mean, f->reserved.mean, value);
    }
}

static bool measure_bytes(const mnem_report_facts *f, mnem_report_metric metric, double *value) {
    const double resident = (double)f->resident_most;
    switch (metric) {
    case MNEM_REPORT_METRIC_PEAK: return number(true, (double)f->bytes_peak, value);
    case MNEM_REPORT_METRIC_END: return number(f->events > 0, (double)f->bytes_end, value);
    case MNEM_REPORT_METRIC_RESERVED:
        return number(f->reserved.known, (double)f->reserved.most, value);
    case MNEM_REPORT_METRIC_RESIDENT: return number(f->resident_most, resident, value);
    case MNEM_REPORT_METRIC_UNACCOUNTED:
        return number(f->unaccounted_known, (double)f->unaccounted_bytes, value);
    case MNEM_REPORT_METRIC_UTILISATION:
        return percent((double)f->bytes_peak, (double)f->budget_bytes, value);
    default:
        return f->predicted_bytes &&
               percent((double)f->predicted_bytes - resident, resident, value);
    }
}

bool mnem_report_measure(const mnem_report_facts *f, mnem_report_metric metric, double *value) {
    *value = 0;
    switch (metric) {
    case MNEM_REPORT_METRIC_REFUSALS: return number(true, (double)refusals(f), value);
    case MNEM_REPORT_METRIC_LEAKS: return number(f->blocks, (double)f->leaked_blocks, value);
    case MNEM_REPORT_METRIC_LEAKED: return number(f->blocks, (double)f->leaked_bytes, value);
    case MNEM_REPORT_METRIC_GROWING: return number(f->blocks, (double)growing(f), value);
    case MNEM_REPORT_METRIC_ALLOCATIONS:
        return number(f->events > 0, (double)f->allocations, value);
    case MNEM_REPORT_METRIC_DROPPED: return number(f->events > 0, (double)f->dropped, value);
    case MNEM_REPORT_METRIC_SAMPLES_OFF:
        return number(f->samples, (double)(f->samples - f->samples_equal), value);
    case MNEM_REPORT_METRIC_DURATION: return number(true, (double)f->duration, value);
    case MNEM_REPORT_METRIC_FRAGMENTATION:
    case MNEM_REPORT_METRIC_INTERNAL:
    case MNEM_REPORT_METRIC_EXTERNAL:
    case MNEM_REPORT_METRIC_UNUSABLE:
    case MNEM_REPORT_METRIC_EFFICIENCY: return measure_waste(f, metric, value);
    case MNEM_REPORT_METRICS: return false;
    default: return measure_bytes(f, metric, value);
    }
}
