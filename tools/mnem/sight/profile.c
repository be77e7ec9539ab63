/* profile.c: the machine profile that `mnem bench` measures and `mnem plan` reads: a JSON file; and
 * in it what is between its ranks, and what models reached.
 *
 * What a model reaches depends on the threads, and on whether caches hold its weights. So a rate is
 * kept with both, and the one of the nearest size counts, if it is of the same threads and not of
 * quite another size, unless both are of a size that no cache holds. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output_file.h"
#include "ranks/link.h"
#include "sight/profile_age.h"
#include "stage.h"

bool tool_profile_path(char *path, size_t n) {
    const char *cache = tool_env("XDG_CACHE_HOME"), *home = tool_env("HOME");
    if (!cache && !home) return false;
    int length = cache ? snprintf(path, n, "%s/mnem/profile.json", cache)
                       : snprintf(path, n, "%s/.cache/mnem/profile.json", home);
    return length > 0 && (size_t)length < n;
}

static double number(const json_t *object, const char *key) {
    double value = json_number_value(json_object_get(object, key));
    return value > 0 ? value : 0; /* also for NaN, a missing key or another type */
}

bool tool_profile_load(mnem_machine_profile *profile) {
    char path[PATH_MAX];
    *profile = (mnem_machine_profile){0};
    if (!tool_profile_path(path, sizeof path)) return false;
    json_t *object = json_load_file(path, 0, NULL);
    profile->read_bytes_per_s = number(object, "read_bytes_per_s");
    profile->disk_bytes_per_s = number(object, "disk_bytes_per_s");
    profile->macs_per_s = number(object, "macs_per_s");
    json_decref(object);
    return profile->read_bytes_per_s > 0;
}

double tool_profile_swap(void) {
    char path[PATH_MAX];
    if (!tool_profile_path(path, sizeof path)) return 0;
    json_t *object = json_load_file(path, 0, NULL);
    const double rate = number(object, "swap_bytes_per_s");
    json_decref(object);
    return rate;
}

static bool write_whole(const char *path, json_t *object) {
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.XXXXXX", path);
    int fd = mkstemp(part);
    if (fd < 0) return false;
    bool ok = json_dumpfd(object, fd, JSON_INDENT(2)) == 0 && write(fd, "\n", 1) == 1;
    ok = close(fd) == 0 && ok;
    if (ok && rename(part, path) == 0) return true;
    unlink(part);
    return false;
}

/* Puts these beside what the file has of others. */
static bool save(json_t *more) {
    char path[PATH_MAX];
    if (!tool_profile_path(path, sizeof path)) {
        tool_message(
            "warning: the machine profile (measured speeds) is not stored, because neither "
            "XDG_CACHE_HOME nor HOME is set");
        json_decref(more);
        return false;
    }
    json_t *object = json_load_file(path, 0, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        object = json_object();
    }
    tool_new_folders(path, 0777);
    bool ok = more && json_object_update(object, more) == 0 && write_whole(path, object);
    json_decref(object);
    json_decref(more);
    if (!ok)
        tool_message(
            "warning: the machine profile (measured speeds) is not stored: can't write %s: %s",
            path, strerror(errno));
    return ok;
}

bool tool_profile_save(const mnem_machine_profile *profile) {
    return save(json_pack("{s:f, s:f, s:f}", "read_bytes_per_s", profile->read_bytes_per_s,
                          "disk_bytes_per_s", profile->disk_bytes_per_s, "macs_per_s",
                          profile->macs_per_s));
}

void tool_profile_age_load(tool_profile_age *age) {
    char path[PATH_MAX];
    *age = (tool_profile_age){.load = -1};
    if (!tool_profile_path(path, sizeof path)) return;
    json_t *object = json_load_file(path, 0, NULL);
    const json_t *load = json_object_get(object, "load");
    age->measured_at = number(object, "measured_at");
    if (json_is_number(load)) age->load = fmin(number(object, "load"), 1);
    age->again_at = number(object, "again_at");
    age->cache_bytes = number(object, "cache_bytes");
    age->read_bytes_per_s = number(object, "read_bytes_per_s");
    age->threads = (int32_t)fmin(number(object, "threads"), INT32_MAX);
    json_decref(object);
}

bool tool_profile_age_save(const tool_profile_age *age) {
    json_t *load = age->load < 0 ? json_null() : json_real(age->load);
    return save(json_pack("{s:I, s:o, s:I, s:i}", "measured_at", (json_int_t)age->measured_at,
                          "load", load, "again_at", (json_int_t)age->again_at, "threads",
                          age->threads));
}

bool tool_link_save(const tool_link_kept *kept) {
    return save(json_pack("{s:f, s:f, s:I}", "link_seconds", kept->link.seconds, "link_bytes_per_s",
                          kept->link.bytes_per_second, "rank_bytes", (json_int_t)kept->rank_bytes));
}

bool tool_link_load(tool_link_kept *kept) {
    char path[PATH_MAX];
    *kept = (tool_link_kept){0};
    if (!tool_profile_path(path, sizeof path)) return false;
    json_t *object = json_load_file(path, 0, NULL);
    kept->link.seconds = number(object, "link_seconds");
    kept->link.bytes_per_second = number(object, "link_bytes_per_s");
    kept->rank_bytes = (uint64_t)number(object, "rank_bytes");
    json_decref(object);
    return kept->rank_bytes > 0;
}

/* ---- what models reached ---- */

enum { REACHED_MOST = 24 };
static const double size_alike = 1.05, size_far = 4; /* times */
static const double no_cache_holds = 256 << 20;

static int32_t threads_of(int32_t asked) {
    return asked > 0 ? asked : tool_processors();
}

/* How many times as large; at least 1. */
static double apart(double a, double b) {
    return a > b ? a / b : b / a;
}

/* A file may have layers behind those that run, which predict further tokens. */
static bool tensor_runs(const mnem_transformer *shape, const char *tensor) {
    return strncmp(tensor, "blk.", 4) != 0 || strtol(tensor + 4, NULL, 10) < shape->layers;
}

tool_token_work tool_token_work_of(const mnem_model *model, const mnem_transformer *shape) {
    tool_token_work work = {0};
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        if (t.dims < 2 || !tensor_runs(shape, t.name)) continue;
        if (!shape->tied && strcmp(t.name, "token_embd.weight") == 0) continue; /* a row */
        if (strcmp(t.name, "per_layer_token_embd.weight") == 0) {
            work.bytes += (double)t.bytes / (double)t.shape[0];
            continue;
        }
        const bool experts = strstr(t.name, "_exps.") != NULL;
        const double used = experts ? (double)shape->route.used / shape->experts : 1;
        double numbers = 1;
        for (int d = 0; d < t.dims; d++) numbers *= (double)t.shape[d];
        work.bytes += t.layout == MNEM_LAYOUT_SPARSE
                          ? (double)mnem_sparse_bytes(t.type, t.shape[0], t.shape[1])
                          : used * (double)t.bytes;
        work.macs += used * numbers;
        if (strcmp(t.name, shape->tied ? "token_embd.weight" : "output.weight") == 0)
            work.head_macs = numbers;
        else if ((int)t.type < TOOL_WORK_TYPES)
            work.macs_of[t.type] += used * numbers;
        work.sparse |= t.layout == MNEM_LAYOUT_SPARSE;
    }
    work.bytes += 2 * (double)mnem_transformer_state_bytes(shape); /* read and written */
    return work;
}

/* Not known: below 0. */
static double load_of(const json_t *reached) {
    const json_t *load = json_object_get(reached, "load");
    return json_is_number(load) ? fmin(number(reached, "load"), 1) : -1;
}

static tool_rates rates_of(const json_t *reached) {
    return (tool_rates){number(reached, "generate_bytes_per_s"), number(reached, "macs_per_s"),
                        load_of(reached)};
}

bool tool_reached_save(const tool_reached *r, bool *kept_old) {
    char path[PATH_MAX];
    *kept_old = false;
    if (!tool_profile_path(path, sizeof path) || !(r->token_bytes > 0)) return false;
    const int32_t threads = threads_of(r->threads);
    tool_rates now = r->rates;
    json_t *object = json_load_file(path, 0, NULL), *list = json_array(), *old;
    size_t i;
    json_array_foreach(json_object_get(object, "reached"), i, old) {
        const bool same = (int32_t)number(old, "threads") == threads &&
                          apart(number(old, "token_bytes"), r->token_bytes) < size_alike;
        const tool_rates kept = rates_of(old);
        if (same && !tool_rates_join(&kept, &now)) *kept_old = true;
        if (!same) json_array_append(list, old);
    }
    while (json_array_size(list) >= REACHED_MOST) json_array_remove(list, 0); /* the oldest */
    json_array_append_new(list,
                          json_pack("{s:i, s:f, s:f, s:f, s:o}", "threads", threads, "token_bytes",
                                    r->token_bytes, "generate_bytes_per_s",
                                    now.generate_bytes_per_s, "macs_per_s", now.macs_per_s, "load",
                                    now.load < 0 ? json_null() : json_real(now.load)));
    json_decref(object);
    return save(json_pack("{s:o}", "reached", list));
}

bool tool_reached_use(int32_t threads, double token_bytes, mnem_machine_profile *profile,
                      double *load) {
    char path[PATH_MAX];
    double nearest = INFINITY;
    if (!tool_profile_path(path, sizeof path) || !(token_bytes > 0)) return false;
    json_t *object = json_load_file(path, 0, NULL), *one;
    size_t i;
    json_array_foreach(json_object_get(object, "reached"), i, one) {
        const double its_bytes = number(one, "token_bytes"), far = apart(its_bytes, token_bytes);
        const bool large = its_bytes > no_cache_holds && token_bytes > no_cache_holds;
        if ((int32_t)number(one, "threads") != threads_of(threads) || !(far < nearest)) continue;
        if (far > size_far && !large) continue;
        nearest = far;
        if (load_of(one) >= 0) *load = load_of(one);
        profile->generate_bytes_per_s = number(one, "generate_bytes_per_s");
        if (number(one, "macs_per_s") > 0) profile->macs_per_s = number(one, "macs_per_s");
    }
    json_decref(object);
    return isfinite(nearest);
}

void tool_profile_use(tool_stage *stage) {
    const int32_t threads = stage->asked->threads;
    const double bytes = tool_token_work_of(stage->model, &stage->transformer).bytes;
    tool_profile_age age;
    tool_profile_age_load(&age);
    stage->profile_load = age.load;
    stage->profile_threads = age.threads;
    if (tool_reached_use(threads, bytes, &stage->profile, &stage->profile_load))
        stage->profile_threads = 0;
}

const char *tool_profile_note(const tool_stage *stage, char text[TOOL_NOTE]) {
    *text = 0;
    if (!stage->options.profile) return text;
    if (tool_load_is_high(stage->profile_load))
        snprintf(
            text, TOOL_NOTE,
            "measured under %.0f %% load, so the machine may be faster: `mnem bench --refresh` "
            "measures it again",
            100 * stage->profile_load);
    else if (stage->profile_threads > 0)
        snprintf(text, TOOL_NOTE, "measured with %d thread%s: `mnem bench` measures all processors",
                 stage->profile_threads, tool_s((uint64_t)stage->profile_threads));
    return text;
}

const char *tool_speed_unknown(const tool_stage *stage) {
    return stage->options.profile ? "unknown until `mnem bench` has measured prompts too (-p)"
                                  : "unknown until `mnem bench` has measured this machine once";
}
