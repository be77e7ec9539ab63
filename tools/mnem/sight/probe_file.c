/* probe_file.c: a probe as JSON, to and from the file that keeps it.
 *
 * Invariant: a file is of the machine that its name's fingerprint is of, and is taken only when its
 * version, teams and levels are what a probe can have; anything else counts as none. */
#include "sight/probe_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "output_file.h"

enum { VERSION = 1 };

/* Keys of the streams. */
static const char *const stream_key[MNEM_PROBE_STREAMS] = {"load", "store", "stream", "copy",
                                                           "triad"};

/* ---- out ---- */

static json_t *value_json(const mnem_probe_value *v) {
    if (!v->passes) return json_null();
    return json_pack("{s:f, s:f, s:f, s:i}", "best", v->best, "median", v->median, "cv", v->cv,
                     "passes", v->passes);
}

static json_t *rates_json(const mnem_probe *p, const mnem_probe_level *l) {
    json_t *rates = json_object();
    for (int s = 0; s < MNEM_PROBE_STREAMS; s++) {
        json_t *list = json_array();
        for (int t = 0; t < p->teams; t++) json_array_append_new(list, value_json(&l->rate[t][s]));
        json_object_set_new(rates, stream_key[s], list);
    }
    return rates;
}

static json_t *levels_json(const mnem_probe *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->levels; i++) {
        const mnem_probe_level *l = &p->level[i];
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:b, s:b, s:o, s:o, s:o}", "name",
                            l->name, "said_bytes", (json_int_t)l->said_bytes, "measured_bytes",
                            (json_int_t)l->measured_bytes, "shared", l->shared, "latency_bytes",
                            (json_int_t)l->latency_bytes, "rate_bytes", (json_int_t)l->rate_bytes,
                            "partly", l->partly, "lies", mnem_probe_level_lies(l), "latency_ns",
                            value_json(&l->latency), "latency_4k_ns", value_json(&l->latency_small),
                            "bytes_per_s", rates_json(p, l)));
    }
    return list;
}

static json_t *sizes_json(const mnem_probe *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->sizes; i++)
        json_array_append_new(list, json_pack("[I, o, o]", (json_int_t)p->size[i].bytes,
                                              tool_json_known(p->size[i].ns),
                                              tool_json_known(p->size[i].ns_small)));
    return list;
}

static json_t *peaks_json(const mnem_probe *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->peaks; i++) {
        const mnem_probe_peak *k = &p->peak[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:o, s:o}", "type", k->type,
                                        "instructions", k->instructions, "used", k->used, "one",
                                        value_json(&k->rate[0]), "all", value_json(&k->rate[1])));
    }
    return list;
}

json_t *tool_probe_json(const mnem_probe *p) {
    json_t *teams = json_array();
    for (int i = 0; i < p->teams; i++) json_array_append_new(teams, json_integer(p->team[i]));
    char name[TOOL_TEXT];
    snprintf(name, sizeof name, "%016" PRIx64, mnem_probe_fingerprint());
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:I, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:i, s:f}",
        "version", VERSION, "fingerprint", name, "processor", p->processor, "unused", p->unused,
        "measured_at", (json_int_t)time(NULL), "threads", p->threads, "teams", teams, "levels",
        levels_json(p), "sizes", sizes_json(p), "peaks", peaks_json(p), "clock_hz",
        value_json(&p->clock), "clock_wide_hz", value_json(&p->clock_wide), "disk_bytes_per_s",
        value_json(&p->disk), "disk_4k_ns", value_json(&p->disk_wait), "bytes",
        (json_int_t)p->bytes, "rounds", p->rounds, "seconds", p->seconds);
}

/* ---- in ---- */

static double number(const json_t *object, const char *key) {
    const double value = json_number_value(json_object_get(object, key));
    return value >= 0 && value < 1e18 ? value : 0; /* also for another type */
}

static uint64_t whole(const json_t *object, const char *key) {
    return (uint64_t)number(object, key);
}

static int32_t count(const json_t *object, const char *key) {
    const double value = number(object, key);
    return value < 1 << 30 ? (int32_t)value : 0;
}

static void text(const json_t *object, const char *key, char *out, size_t n) {
    const char *value = json_string_value(json_object_get(object, key));
    snprintf(out, n, "%s", value ? value : "");
}

static mnem_probe_value value_of(const json_t *v) {
    return (mnem_probe_value){.best = number(v, "best"),
                              .median = number(v, "median"),
                              .cv = number(v, "cv"),
                              .passes = count(v, "passes")};
}

static void read_level(const json_t *from, const mnem_probe *p, mnem_probe_level *l) {
    const json_t *rates = json_object_get(from, "bytes_per_s");
    text(from, "name", l->name, sizeof l->name);
    l->said_bytes = whole(from, "said_bytes");
    l->measured_bytes = whole(from, "measured_bytes");
    l->shared = count(from, "shared");
    l->latency_bytes = whole(from, "latency_bytes");
    l->rate_bytes = whole(from, "rate_bytes");
    l->partly = json_is_true(json_object_get(from, "partly"));
    l->latency = value_of(json_object_get(from, "latency_ns"));
    l->latency_small = value_of(json_object_get(from, "latency_4k_ns"));
    for (int s = 0; s < MNEM_PROBE_STREAMS; s++)
        for (int t = 0; t < p->teams; t++)
            l->rate[t][s] =
                value_of(json_array_get(json_object_get(rates, stream_key[s]), (size_t)t));
}

static void read_sizes(const json_t *list, mnem_probe *p) {
    for (size_t i = 0; i < json_array_size(list) && p->sizes < MNEM_PROBE_SIZES; i++) {
        const json_t *row = json_array_get(list, i);
        mnem_probe_size *size = &p->size[p->sizes++];
        size->bytes = (uint64_t)json_integer_value(json_array_get(row, 0));
        size->ns = json_number_value(json_array_get(row, 1));
        size->ns_small = json_number_value(json_array_get(row, 2));
    }
}

static void read_peaks(const json_t *list, mnem_probe *p) {
    for (size_t i = 0; i < json_array_size(list) && p->peaks < MNEM_PROBE_PEAKS; i++) {
        const json_t *from = json_array_get(list, i);
        mnem_probe_peak *k = &p->peak[p->peaks++];
        text(from, "type", k->type, sizeof k->type);
        text(from, "instructions", k->instructions, sizeof k->instructions);
        k->used = json_is_true(json_object_get(from, "used"));
        k->rate[0] = value_of(json_object_get(from, "one"));
        k->rate[1] = value_of(json_object_get(from, "all"));
    }
}

static bool read_probe(const json_t *from, mnem_probe *p) {
    const json_t *teams = json_object_get(from, "teams"), *levels = json_object_get(from, "levels");
    if (count(from, "version") != VERSION) return false;
    text(from, "processor", p->processor, sizeof p->processor);
    text(from, "unused", p->unused, sizeof p->unused);
    p->threads = count(from, "threads");
    for (size_t i = 0; i < json_array_size(teams) && p->teams < MNEM_PROBE_TEAMS; i++)
        p->team[p->teams++] = (int32_t)json_integer_value(json_array_get(teams, i));
    for (size_t i = 0; i < json_array_size(levels) && p->levels < MNEM_PROBE_LEVELS; i++)
        read_level(json_array_get(levels, i), p, &p->level[p->levels++]);
    read_sizes(json_object_get(from, "sizes"), p);
    read_peaks(json_object_get(from, "peaks"), p);
    p->clock = value_of(json_object_get(from, "clock_hz"));
    p->clock_wide = value_of(json_object_get(from, "clock_wide_hz"));
    p->disk = value_of(json_object_get(from, "disk_bytes_per_s"));
    p->disk_wait = value_of(json_object_get(from, "disk_4k_ns"));
    p->bytes = whole(from, "bytes");
    p->rounds = count(from, "rounds");
    p->seconds = number(from, "seconds");
    return p->teams > 0 && p->levels > 1 && tool_probe_memory_rate(p) > 0;
}

/* ---- the file ---- */

static bool file_path(char *path, size_t n) {
    const char *state = tool_env("XDG_STATE_HOME"), *home = tool_env("HOME");
    if (!state && !home) return false;
    const int length =
        snprintf(path, n, "%s%s/mnem/probe-%016" PRIx64 ".json", state ? state : home,
                 state ? "" : "/.local/state", mnem_probe_fingerprint());
    return length > 0 && (size_t)length < n;
}

bool tool_probe_load(mnem_probe *probe, double *age) {
    char path[PATH_MAX];
    *probe = (mnem_probe){0};
    *age = 0;
    if (!file_path(path, sizeof path)) return false;
    json_t *from = json_load_file(path, 0, NULL);
    const bool ok = json_is_object(from) && read_probe(from, probe);
    if (ok) *age = difftime(time(NULL), (time_t)number(from, "measured_at"));
    if (!ok) *probe = (mnem_probe){0};
    json_decref(from);
    return ok;
}

bool tool_probe_save(const mnem_probe *probe) {
    char path[PATH_MAX], part[PATH_MAX + 8];
    if (!file_path(path, sizeof path)) {
        tool_message("warning: the result of the probe is not stored, because neither "
                     "XDG_STATE_HOME nor HOME is set");
        return false;
    }
    tool_new_folders(path, 0700);
    json_t *object = tool_probe_json(probe);
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    const int fd = mkstemp(part);
    bool ok =
        fd >= 0 && object && json_dumpfd(object, fd, JSON_COMPACT) == 0 && write(fd, "\n", 1) == 1;
    if (fd >= 0) ok = close(fd) == 0 && ok;
    ok = ok && rename(part, path) == 0;
    if (!ok)
        tool_message("warning: the result of the probe is not stored: can't write %s: %s", path,
                     strerror(errno));
    if (!ok && fd >= 0) unlink(part);
    json_decref(object);
    return ok;
}

/* ---- what others take of it ---- */

double tool_probe_memory_rate(const mnem_probe *p) {
    if (p->levels < 1 || p->teams < 1) return 0;
    return p->level[p->levels - 1].rate[p->teams - 1][MNEM_PROBE_LOAD].best;
}

char *tool_probe_when(double age, char out[TOOL_TEXT]) {
    const char *unit = age < 5400 ? "min" : age < 172800 ? "h" : "days";
    const double of = age < 5400 ? 60 : age < 172800 ? 3600 : 86400;
    snprintf(out, TOOL_TEXT, "mnem probe, %.0f %s ago", age > 0 ? age / of : 0, unit);
    return out;
}
