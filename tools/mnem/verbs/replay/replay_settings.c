/* replay_settings.c: advice in PyTorch's own words: PYTORCH_CUDA_ALLOC_CONF as it was, and as it
 * would be better, each replayed through the model of PyTorch's allocator.
 *
 * One option at a time is changed, the others stay as the snapshot says. Advised is, with a
 * capacity that the recorded setting exceeds, what needs the least of those that fit; else what
 * reserves least, if that is at least a hundredth less. What is set already is never proposed. */
#include <stdlib.h>
#include <string.h>

#include "verbs/replay/replay_snapshot.h"

static const struct {
    const char *key, *value;
} candidates[] = {
    {"expandable_segments", "True"},
    {"max_split_size_mb", "64"},
    {"max_split_size_mb", "128"},
    {"max_split_size_mb", "256"},
    {"max_split_size_mb", "512"},
    {"roundup_power2_divisions", "4"},
    {"roundup_power2_divisions", "8"},
    {"roundup_power2_divisions", "16"},
    {"garbage_collection_threshold", "0.8"},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* ---- a setting as text, and back ---- */

/* The length of the option at text: commas inside of brackets don't end it. */
static size_t option_length(const char *text) {
    int depth = 0;
    size_t n = 0;
    for (; text[n] && (text[n] != ',' || depth > 0); n++)
        depth += (text[n] == '[') - (text[n] == ']');
    return n;
}

static void append(char conf[REPLAY_CONF], const char *text, size_t n) {
    const size_t used = strlen(conf);
    snprintf(conf + used, REPLAY_CONF - used, "%s%.*s", used ? "," : "", (int)n, text);
}

/* The variable as it was, without the option `key`. */
static void copy_others(const char *text, const char *key, char conf[REPLAY_CONF]) {
    while (*text) {
        text += strspn(text, " ,");
        const size_t n = option_length(text), k = key ? strlen(key) : 0;
        const bool same = k && strncmp(text, key, k) == 0 && text[k] == ':';
        if (n && !same) append(conf, text, n);
        text += n;
    }
}

static void change(mnem_pytorch_settings *s, const char *key, const char *value) {
    if (strcmp(key, "expandable_segments") == 0)
        s->expandable_segments = true;
    else if (strcmp(key, "max_split_size_mb") == 0)
        s->max_split_bytes = strtoull(value, NULL, 10) << 20;
    else if (strcmp(key, "garbage_collection_threshold") == 0)
        s->garbage_collection_threshold = strtod(value, NULL);
    else
        for (int i = 0; i < MNEM_PYTORCH_SIZES; i++)
            s->roundup_divisions[i] = (uint32_t)strtoul(value, NULL, 10);
}

static bool same_settings(const mnem_pytorch_settings *a, const mnem_pytorch_settings *b) {
    bool same = a->expandable_segments == b->expandable_segments &&
                a->max_split_bytes == b->max_split_bytes &&
                !(a->garbage_collection_threshold < b->garbage_collection_threshold) &&
                !(a->garbage_collection_threshold > b->garbage_collection_threshold);
    for (int i = 0; i < MNEM_PYTORCH_SIZES; i++)
        same = same && a->roundup_divisions[i] == b->roundup_divisions[i];
    return same;
}

/* ---- trying ---- */

typedef struct trying {
    tool_progress progress;
    int done, all;
} trying;

static bool on_progress(void *context, const char *what, uint64_t done, uint64_t total) {
    trying *t = context;
    (void)what;
    tool_progress_step(&t->progress, (uint64_t)t->done * total + done, (uint64_t)t->all * total,
                       "PyTorch's settings");
    return !tool_interrupted();
}

static mnem_status try_one(const replay_case *c, replay_snapshot *s, trying *t, const char *key,
                           const char *value) {
    mnem_pytorch_settings settings = s->settings;
    replay_trial *trial = &s->trial[s->trials];
    if (key) change(&settings, key, value);
    if (key && same_settings(&settings, &s->settings)) return MNEM_OK;
    *trial = (replay_trial){.key = key};
    if (key) snprintf(trial->setting, sizeof trial->setting, "%s:%s", key, value);
    copy_others(s->settings_text, key, trial->conf);
    if (key) append(trial->conf, trial->setting, strlen(trial->setting));
    const mnem_status status = mnem_pytorch_try(c->workload, &settings, s->capacity,
                                                (mnem_progress){on_progress, t}, &trial->result);
    s->trials += status == MNEM_OK;
    return status;
}

static bool is_better(const replay_trial *a, const replay_trial *b, bool within) {
    if (!within) return a->result.bytes_reserved_peak < b->result.bytes_reserved_peak;
    if (a->result.fits != b->result.fits) return a->result.fits;
    return a->result.bytes_needed < b->result.bytes_needed;
}

static void choose(replay_snapshot *s) {
    const bool within = !s->trial[0].result.fits;
    const uint64_t before = s->trial[0].result.bytes_reserved_peak;
    for (int i = 1; i < s->trials; i++)
        if (is_better(&s->trial[i], &s->trial[s->best], within)) s->best = i;
    const mnem_pytorch_trial *best = &s->trial[s->best].result;
    if (within ? !best->fits : before - best->bytes_reserved_peak < before / 100) s->best = 0;
}

mnem_status replay_settings_try(const replay_case *c, replay_snapshot *s) {
    trying t = {.all = CANDIDATES + 1};
    tool_progress_begin(&t.progress, "replaying");
    mnem_status status = try_one(c, s, &t, NULL, NULL);
    for (int i = 0; i < CANDIDATES && status == MNEM_OK; i++) {
        t.done++;
        /* It collects nothing without a limit. */
        const bool idle =
            !s->capacity && strcmp(candidates[i].key, "garbage_collection_threshold") == 0;
        if (!idle) status = try_one(c, s, &t, candidates[i].key, candidates[i].value);
    }
    tool_progress_end(&t.progress);
    if (status == MNEM_INVALID) { /* no device has so much: nothing to advise */
        s->trials = 0;
        return MNEM_OK;
    }
    if (status == MNEM_OK) choose(s);
    return status;
}

/* ---- as text ---- */

/* What PyTorch reserved, beside what the model does with the same setting. */
static uint64_t model_reserved(const replay_snapshot *s) {
    const mnem_pytorch_trial *now = &s->trial[0].result;
    return s->failure && now->bytes_reserved_within ? now->bytes_reserved_within
                                                    : now->bytes_reserved_peak;
}

static void print_recorded(const replay_snapshot *s, const replay_case *c) {
    char text[REPLAY_CONF + 200], a[TOOL_TEXT], b[TOOL_TEXT];
    const uint64_t recorded = c->info.bytes_reserved_peak, model = model_reserved(s);
    if (!s->settings_known)
        snprintf(text, sizeof text, "the snapshot has no settings: PyTorch's defaults are assumed");
    else if (s->trial[0].conf[0])
        snprintf(text, sizeof text, "PYTORCH_CUDA_ALLOC_CONF=%s is already set", s->trial[0].conf);
    else
        snprintf(text, sizeof text, "PYTORCH_CUDA_ALLOC_CONF isn't set: PyTorch's defaults");
    tool_wrap(stdout, "  now        ", text);
    if (!recorded || (s->failure && !s->trial[0].result.fits)) return;
    if (s->failure)
        snprintf(text, sizeof text,
                 "%s reserved in the record, until a request failed; %s in the replay, which "
                 "serves it",
                 tool_size(recorded, a), tool_size(model, b));
    else
        snprintf(text, sizeof text, "%s reserved in the record, %s in the replay (%+.2f %%)",
                 tool_size(recorded, a), tool_size(model, b),
                 100 * ((double)model / (double)recorded - 1));
    tool_wrap(stdout, "  check      ", text);
}

/* The best value of each option stands for it. */
static bool is_shown(const replay_snapshot *s, int i) {
    const replay_trial *t = &s->trial[i];
    if (!t->key || i == s->best) return true;
    for (int k = 1; k < s->trials; k++) {
        if (k == i || strcmp(s->trial[k].key, t->key) != 0) continue;
        if (k == s->best || is_better(&s->trial[k], t, s->capacity > 0) ||
            (k < i && !is_better(t, &s->trial[k], s->capacity > 0)))
            return false;
    }
    return true;
}

static void print_trials(const replay_snapshot *s) {
    char a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT];
    if (s->capacity)
        tool_outf("  %-33s %10s %10s  in %s\n", "setting", "reserves", "needs",
                  tool_size(s->capacity, d));
    else
        tool_outf("  %-33s %10s %10s\n", "setting", "reserves", "needs");
    for (int i = 0; i < s->trials; i++) {
        const mnem_pytorch_trial *t = &s->trial[i].result;
        if (!is_shown(s, i)) continue;
        tool_outf("  %-33s %10s %10s", i ? s->trial[i].setting : "as recorded",
                  tool_size(t->bytes_reserved_peak, a), tool_size(t->bytes_needed, b));
        tool_outf(s->capacity ? "  %s\n" : "\n", t->fits ? "fits" : "doesn't fit");
    }
}

static void print_nothing(const replay_snapshot *s) {
    char text[300], a[TOOL_TEXT], b[TOOL_TEXT];
    const mnem_pytorch_trial *now = &s->trial[0].result;
    uint64_t least = now->bytes_needed;
    for (int i = 1; i < s->trials; i++)
        if (s->trial[i].result.bytes_needed < least) least = s->trial[i].result.bytes_needed;
    if (now->fits)
        snprintf(text, sizeof text,
                 "no change: none of the settings tried reserves at least 1 %% less than %s",
                 tool_size(now->bytes_reserved_peak, a));
    else
        snprintf(text, sizeof text,
                 "no setting helps: every setting tried needs at least %s of %s; reduce the bytes "
                 "that are live at once",
                 tool_size(least, a), tool_size(s->capacity, b));
    tool_wrap(stdout, "  set        ", text);
}

static void print_choice(const replay_snapshot *s) {
    char text[300], a[TOOL_TEXT], b[TOOL_TEXT], d[TOOL_TEXT];
    const mnem_pytorch_trial *now = &s->trial[0].result, *then = &s->trial[s->best].result;
    tool_outf("  set        PYTORCH_CUDA_ALLOC_CONF=%s\n", s->trial[s->best].conf);
    int n;
    if (now->fits)
        n = snprintf(text, sizeof text, "%s reserved at the peak instead of %s",
                     tool_size(then->bytes_reserved_peak, a),
                     tool_size(now->bytes_reserved_peak, b));
    else
        n = snprintf(text, sizeof text, "needs %s instead of %s, and so fits into %s",
                     tool_size(then->bytes_needed, a), tool_size(now->bytes_needed, b),
                     tool_size(s->capacity, d));
    if (strcmp(s->trial[s->best].key, "garbage_collection_threshold") == 0)
        snprintf(text + n, sizeof text - (size_t)n,
                 "; acts only with torch.cuda.set_per_process_memory_fraction");
    tool_out_flush();
    tool_wrap(stdout, "  gains      ", text);
}

void replay_settings_print(const replay_snapshot *s, const replay_case *c) {
    if (!s->trials) return;
    tool_outf("\nadvice for PyTorch itself\n");
    tool_out_flush();
    print_recorded(s, c);
    print_trials(s);
    tool_out_flush();
    if (s->best)
        print_choice(s);
    else
        print_nothing(s);
}

/* ---- as JSON ---- */

static json_t *json_trial(const replay_snapshot *s, const replay_trial *t) {
    const mnem_pytorch_trial *r = &t->result;
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "setting", t->setting, "conf", t->conf,
                     "reserved_bytes", (json_int_t)r->bytes_reserved_peak, "needed_bytes",
                     (json_int_t)r->bytes_needed, "fits",
                     s->capacity ? json_boolean(r->fits) : json_null(), "refused_operation",
                     tool_json_count(!r->fits, r->refused_op));
}

json_t *replay_settings_json(const replay_snapshot *s, const replay_case *c) {
    json_t *trials = json_array();
    if (!s->trials) return json_decref(trials), json_null();
    for (int i = 0; i < s->trials; i++) json_array_append_new(trials, json_trial(s, &s->trial[i]));
    json_t *root = json_pack("{s:s, s:b, s:o, s:o}", "conf", s->trial[0].conf, "conf_known",
                             s->settings_known, "capacity_bytes",
                             tool_json_count(s->capacity > 0, s->capacity), "trials", trials);
    json_object_set_new(
        root, "recorded_reserved_bytes",
        tool_json_count(c->info.bytes_reserved_peak > 0, c->info.bytes_reserved_peak));
    json_object_set_new(root, "replayed_reserved_bytes",
                        json_integer((json_int_t)model_reserved(s)));
    json_object_set_new(root, "advice",
                        s->best ? json_string(s->trial[s->best].conf) : json_null());
    return root;
}
