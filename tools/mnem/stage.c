/* stage.c: from arguments to a running session, in the one order that lets the plan see every byte.
 *
 * Invariant: what is charged or allocated before tool_stage_plan is in the plan; after it only the
 * session allocates. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/link.h"
#include "ranks/ranks.h"
#include "sight/monitor_file.h"

/* ---- the model's path ---- */

/* Folders beside or above the executable where the shipped model may be: build trees first, then an
 * installation. */
static const char *const model_folders[] = {
    "models",          "../models",          "../../models",
    "../../../models", "../../../../models", "../share/mnem/models"};
#define SHIPPED_MODEL "mnem-kjv-5m-q8_0.gguf"

static const char *shipped_model(void) {
    static char path[PATH_MAX + 64];
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return NULL;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    for (size_t i = 0; i < sizeof model_folders / sizeof model_folders[0]; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", self, model_folders[i], SHIPPED_MODEL);
        if (access(path, R_OK) == 0) {
            char *whole = realpath(path, self);
            if (whole) snprintf(path, sizeof path, "%s", whole);
            return path;
        }
    }
    return NULL;
}

const char *tool_model_default(void) {
    const char *path = tool_env("MNEM_MODEL");
    return path ? path : shipped_model();
}

bool tool_model_is_shipped(const char *path) {
    const char *name = strrchr(path, '/');
    return strcmp(name ? name + 1 : path, SHIPPED_MODEL) == 0;
}

const char *tool_model_path(const tool_args *args) {
    if (args->operand[0]) return args->operand[0];
    const char *path = tool_model_default();
    if (!path)
        tool_message("no MODEL is given, and the bundled model %s was not found: name a MODEL, set "
                     "the environment variable MNEM_MODEL, or copy it from models/ to "
                     "../share/mnem/models, relative to the command's folder",
                     SHIPPED_MODEL);
    return path;
}

/* ---- opening ---- */

static int open_device(tool_stage *stage, uint64_t *budget) {
    const tool_session_asked *asked = stage->asked;
    if (!asked->device || strcmp(asked->device, "host") == 0) {
        if (asked->capacity)
            return tool_usage(
                "plan",
                "--capacity applies to --device null only: add --device null, or use --memory");
        return TOOL_OK;
    }
    if (strcmp(asked->device, "null") != 0)
        return tool_usage("plan", "--device takes host or null, not \"%s\"", asked->device);
    mnem_device_options options = {.capacity_bytes = asked->capacity};
    mnem_status status = mnem_device_open(asked->device, &options, &stage->device);
    if (status != MNEM_OK) return tool_fail(status);
    mnem_device_info info;
    mnem_device_info_get(stage->device, &info);
    if (!*budget) *budget = info.capacity_bytes;
    stage->options.device = stage->device;
    return TOOL_OK;
}

static void set_options(tool_stage *stage) {
    const tool_session_asked *asked = stage->asked;
    mnem_engine_options *o = &stage->options;
    tool_link_kept kept;
    o->ledger = stage->ledger;
    o->cut = asked->cut == 1 ? MNEM_CUT_ROWS : MNEM_CUT_LAYERS;
    o->context = asked->context;
    o->threads = asked->threads;
    o->chunk = asked->chunk;
    o->snapshot_tokens = asked->snapshot_tokens;
    o->kv = (mnem_kv_choice)asked->kv;
    o->page_cache = asked->page_cache;
    o->comm = tool_ranks();
    if (o->comm && tool_link_load(&kept)) o->link = kept.link;
    if (tool_profile_load(&stage->profile)) o->profile = &stage->profile;
}

/* ---- the trace ---- */

void tool_stage_begin(tool_stage *stage, const char *step) {
    if (stage->recording.trace) mnem_trace_begin(step);
}

void tool_stage_end(tool_stage *stage, const char *step) {
    if (stage->recording.trace) mnem_trace_end(step);
}

/* All but the ledger, to which the trace is charged. A signal that comes from here on finds no
 * session to cancel. */
static void take_down(tool_stage *stage) {
    tool_interrupt_watch(NULL);
    mnem_session_destroy(stage->session);
    mnem_tokenizer_destroy(stage->tokenizer);
    for (int i = 0; i < TOOL_ADAPTERS_MAX; i++) {
        mnem_model_close(stage->adapter_file[i]);
        stage->adapter_file[i] = NULL;
    }
    mnem_model_close(stage->model);
    if (stage->prompt.room)
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "prompt", stage->prompt.room);
    free(stage->prompt.text);
    tool_breakers_close(stage);
    mnem_device_close(stage->device);
    stage->session = NULL;
    stage->tokenizer = NULL;
    stage->model = NULL;
    stage->device = NULL;
    stage->prompt.text = NULL;
    stage->prompt.room = 0;
}

int tool_stage_end_trace(tool_stage *stage, int code) {
    if (!stage->recording.trace) return code;
    tool_recording_predicted(&stage->recording, stage->plan.peak_bytes - stage->kept_bytes);
    tool_monitor_end();
    take_down(stage); /* before the trace ends: what is live then was never given back */
    return tool_recording_end(&stage->recording, code);
}

/* Ranks of one machine share it, so that each one's budget must be said. */
static int check_ranks(const tool_stage *stage) {
    const tool_session_asked *asked = stage->asked;
    const char *verb = stage->args->verb->name;
    if (!tool_ranks()) {
        if (tool_given(stage->args, "cut") && strcmp(verb, "plan") != 0)
            return tool_usage(verb,
                              "--cut applies to several ranks only: start mpirun -n N mnem %s, or "
                              "leave out --cut",
                              verb);
        return TOOL_OK;
    }
    if (!asked->memory)
        return tool_usage(verb, "--memory is missing: set the budget of each rank with it, because "
                                "several ranks may share a machine");
    return TOOL_OK;
}

static int check_before(const tool_args *args, const tool_session_asked *asked, tool_stage *stage,
                        uint64_t *budget) {
    *stage = (tool_stage){.args = args, .asked = asked};
    tool_progress_quiet(args->quiet);
    *budget = asked->memory;
    int code = tool_recording_check(args, asked->trace);
    if (code == TOOL_OK) code = open_device(stage, budget);
    return code;
}

/* path: of the model; of several the file or folder that lists them. */
static int begin(tool_stage *stage, uint64_t budget, const char *path) {
    const tool_args *args = stage->args;
    const mnem_ledger_options ledger = {.budget_bytes = budget,
                                        .preparing = true,
                                        .own_process = true,
                                        .other_bytes = tool_ranks_bytes(),
                                        .other_tag = "MPI"};
    /* Of ranks, 0 shows what all do. */
    if (!tool_ranks_follows() &&
        tool_has_word("run serve batch", args->verb->name, strlen(args->verb->name)))
        tool_monitor_begin(args, path);
    const mnem_status status = mnem_ledger_create_process(&ledger, &stage->ledger);
    if (status != MNEM_OK) return tool_fail(status);
    tool_monitor_watch(stage->ledger);
    tool_monitor_tell(true);
    const int code =
        tool_recording_begin(args, stage->asked->trace, path, stage->ledger, &stage->recording);
    if (code == TOOL_OK) set_options(stage);
    return code;
}

int tool_stage_open_none(const tool_args *args, const tool_session_asked *asked, const char *path,
                         tool_stage *stage) {
    uint64_t budget;
    const int code = check_before(args, asked, stage, &budget);
    stage->budget_chosen = budget == 0;
    return code == TOOL_OK ? begin(stage, budget, path) : code;
}

int tool_stage_open(const tool_args *args, const tool_session_asked *asked, tool_stage *stage) {
    uint64_t budget;
    int code = check_before(args, asked, stage, &budget);
    if (code != TOOL_OK) return code;
    const char *path = tool_model_path(args);
    if (!path) return TOOL_FAILED;
    stage->budget_chosen = budget == 0;
    code = check_ranks(stage);
    if (code == TOOL_OK) code = tool_adapters_check(args->verb->name, &asked->lora);
    if (code != TOOL_OK) return code;
    if (asked->lora.count && !args->operand[0] && !args->quiet && !tool_ranks_follows())
        tool_message("note: no MODEL is named, so --lora is applied to %s", path);
    code = begin(stage, budget, path);
    if (code == TOOL_OK) code = tool_ranks_file_open(&path, stage->ledger);
    if (code != TOOL_OK) return code;
    tool_stage_begin(stage, "open");
    mnem_status status = mnem_model_open(path, &stage->model);
    if (status == MNEM_OK) status = mnem_model_transformer(stage->model, &stage->transformer);
    if (status == MNEM_OK) status = tool_adapters_open(stage);
    if (status == MNEM_OK && stage->options.profile) tool_profile_use(stage);
    tool_stage_end(stage, "open");
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

int tool_stage_needs_text(const tool_stage *stage) {
    if (mnem_transformer_supports(&stage->transformer, MNEM_FEATURE_GENERATE) == MNEM_OK)
        return TOOL_OK;
    return tool_failed("%s: %s", mnem_model_file_path(stage->model, 0), mnem_last_error());
}

/* What to do about a pre-tokenizer that isn't known. */
static void show_pre_names(bool given) {
    const char *names;
    tool_message(given ? "--pretokenizer takes one of these names; names on one line are "
                         "equivalent:"
                       : "add --pretokenizer NAME to choose a pre-tokenizer; names on one line are "
                         "equivalent:");
    for (size_t i = 0; (names = mnem_tokenizer_pre_names(i)); i++) tool_message("  %s", names);
}

int tool_pre_check(const char *pre) {
    const char *names;
    for (size_t i = 0; pre && (names = mnem_tokenizer_pre_names(i)); i++)
        if (tool_has_word(names, pre, strlen(pre))) return TOOL_OK;
    if (!pre) return TOOL_OK;
    const int code = tool_failed("the pre-tokenizer '%s' that was asked for does not exist", pre);
    show_pre_names(true);
    return code;
}

int tool_stage_tokenizer(tool_stage *stage) {
    const mnem_tokenizer_options options = {.pre = stage->asked->pre};
    tool_stage_begin(stage, "tokenizer");
    mnem_status status = mnem_tokenizer_create_with(stage->model, &options, &stage->tokenizer);
    tool_stage_end(stage, "tokenizer");
    if (status == MNEM_OK) return TOOL_OK;
    const int code = tool_fail(status);
    if (status == MNEM_UNSUPPORTED && strstr(mnem_last_error(), "pre-tokenizer"))
        show_pre_names(stage->asked->pre != NULL);
    return code;
}

/* ---- the prompt ---- */

static int grow_prompt(tool_stage *stage, size_t room) {
    uint64_t more = room - stage->prompt.room;
    mnem_status status = mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "prompt", more);
    if (status == MNEM_OVER_BUDGET && !stage->budget_chosen) {
        char have[TOOL_TEXT];
        return tool_over("the text has at least %zu bytes, too many for a budget of %s: use a "
                         "larger --memory or a shorter text",
                         stage->prompt.bytes, tool_size(tool_budget_bytes(stage->ledger), have));
    }
    if (status != MNEM_OK) return tool_fail(status);
    char *text = realloc(stage->prompt.text, room);
    if (!text) {
        mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "prompt", more);
        return tool_failed(
            "out of memory for a prompt of %zu bytes: shorten it, or end other programs", room);
    }
    stage->prompt.text = text;
    stage->prompt.room = room;
    return TOOL_OK;
}

/* What isn't a file may never end. */
static int refuse_endless(const char *name) {
    return tool_failed("%s has more than 1 GiB of text, which is supported only from a regular "
                       "file: store the text in a file first",
                       name);
}

static int read_all(tool_stage *stage, int fd, const char *name) {
    enum { ENDLESS = 1 << 30 };
    struct stat info;
    size_t guess = 4096;
    const bool file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (file) guess = (size_t)info.st_size + 1;
    for (;;) {
        if (!file && stage->prompt.bytes >= ENDLESS) return refuse_endless(name);
        if (stage->prompt.bytes == stage->prompt.room) {
            size_t room = stage->prompt.room ? 2 * stage->prompt.room : guess;
            int code = grow_prompt(stage, room);
            if (code != TOOL_OK) return code;
        }
        ssize_t n = read(fd, stage->prompt.text + stage->prompt.bytes,
                         stage->prompt.room - stage->prompt.bytes);
        if (n == 0) return TOOL_OK;
        if (tool_interrupted()) return TOOL_INTERRUPTED;
        if (n < 0 && errno != EINTR) return tool_failed("can't read %s: %s", name, strerror(errno));
        if (n > 0) stage->prompt.bytes += (size_t)n;
    }
}

int tool_stage_read(tool_stage *stage, const char *path) {
    if (strcmp(path, "-") == 0) {
        tool_say_waiting();
        return read_all(stage, STDIN_FILENO, "standard input");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tool_failed("can't open the file %s: %s", path, strerror(errno));
    int code = read_all(stage, fd, path);
    close(fd);
    return code;
}

/* ---- plan and session ---- */

uint64_t tool_budget_bytes(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info.budget_bytes;
}

/* It may be wanted, and the bytes are as planned, but the text mostly makes no sense there. */
static void say_beyond(const tool_stage *stage) {
    const int32_t trained = stage->transformer.context;
    if (stage->plan.context > trained)
        tool_message("warning: the context is %d tokens, but the model was trained for at most %d; "
                     "text beyond that length may make no sense (--ctx sets the context)",
                     stage->plan.context, trained);
}

/* Ranks plan together; rank 0 tells the others whether it is the last plan. */
static mnem_status make_plan(tool_stage *stage, bool *last) {
    mnem_comm *comm = stage->options.comm;
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    if (!comm) return mnem_engine_plan_make(stage->model, &stage->options, &stage->plan);
    for (int32_t i = 1; i <= mnem_comm_size(comm); i++) begin[i] = sizeof *last;
    const mnem_status status = mnem_comm_gather(comm, last, begin);
    if (status != MNEM_OK) return status;
    return mnem_engine_plan_ranks(stage->model, &stage->options, &stage->plan);
}

static int planned(tool_stage *stage) {
    const bool quiet = stage->args->quiet || stage->args->json || tool_ranks_follows();
    if (!tool_ranks_follows()) say_beyond(stage);
    tool_ranks_planned(&stage->plan, quiet);
    return tool_ranks_file_fill(stage->model, &stage->options, &stage->plan, quiet);
}

mnem_status tool_stage_try(tool_stage *stage) {
    bool last = false;
    return make_plan(stage, &last);
}

mnem_status tool_stage_choose(tool_stage *stage) {
    bool last = true;
    tool_stage_begin(stage, "plan");
    const mnem_status status = make_plan(stage, &last);
    tool_stage_end(stage, "plan");
    return status;
}

int tool_stage_plan(tool_stage *stage) {
    return tool_stage_chosen(stage, tool_stage_choose(stage));
}

int tool_stage_chosen(tool_stage *stage, mnem_status status) {
    if (status == MNEM_OK) return planned(stage);
    const uint64_t needed = stage->plan.needed_bytes;
    const uint64_t budget = stage->options.comm
                                ? stage->plan.budget_bytes /* maybe another rank's */
                                : tool_budget_bytes(stage->ledger);
    if (status == MNEM_OVER_BUDGET && needed && stage->device && !stage->asked->memory)
        return tool_fail_capacity(needed, budget);
    if (status != MNEM_OVER_BUDGET || !stage->options.comm)
        return tool_fail_plan(status, needed, budget, stage->plan.knob);
    return tool_fail_rank(mnem_last_error(), stage->plan.needed_rank, needed, budget,
                          stage->plan.knob, "");
}

int tool_stage_create(tool_stage *stage) {
    tool_progress progress;
    tool_progress_begin(&progress, "loading");
    stage->options.progress = (mnem_progress){tool_progress_tell, &progress};
    double start = tool_clock();
    tool_stage_begin(stage, "load");
    mnem_status status =
        mnem_session_create(stage->model, &stage->options, &stage->plan, &stage->session);
    tool_stage_end(stage, "load");
    tool_progress_end(&progress);
    stage->seconds_load = tool_clock() - start;
    if (status != MNEM_OK) return tool_fail(status);
    tool_interrupt_watch(stage->session);
    tool_ranks_joined();
    return TOOL_OK;
}

int tool_stage_follow_with(tool_stage *stage, tool_follow *follow, void *context) {
    mnem_engine *engine;
    bool last = false;
    mnem_status status = MNEM_OK;
    while (!last && status != MNEM_IO) status = make_plan(stage, &last);
    if (status == MNEM_OK) {
        const int code = planned(stage);
        if (code != TOOL_OK) return code;
        status = mnem_engine_create(stage->model, &stage->options, &stage->plan, &engine);
    }
    if (status == MNEM_OK) {
        status = follow(context, engine);
        if (status != MNEM_OK) return tool_ranks_end(tool_fail(status)); /* others may read it */
        mnem_engine_destroy(engine);
    }
    return tool_stage_end_trace(stage, status == MNEM_OK ? TOOL_OK : tool_fail(status));
}

static mnem_status follow_engine(void *context, mnem_engine *engine) {
    (void)context;
    return mnem_engine_follow(engine);
}

int tool_stage_follow(tool_stage *stage) {
    const int code = tool_stage_follow_with(stage, follow_engine, NULL);
    tool_stage_close(stage);
    return code;
}

static void tell_monitor(const tool_stage *stage, const char *phase) {
    mnem_engine_stats stats;
    mnem_session_stats_get(stage->session, &stats);
    tool_monitor_engine(&stats, phase);
    tool_monitor_tell(true);
}

mnem_status tool_stage_eval(tool_stage *stage, const int32_t *ids, int32_t n, int32_t first_logits,
                            mnem_on_logits *on_logits, void *context, const char *what) {
    tool_progress progress;
    tool_progress_begin(&progress, what ? what : "");
    mnem_status status = MNEM_OK;
    for (int32_t at = 0, part; at < n && status == MNEM_OK; at += part) {
        part = n - at < stage->plan.chunk ? n - at : stage->plan.chunk;
        if (tool_interrupted())
            status = MNEM_CANCELLED;
        else
            status =
                mnem_session_eval(stage->session, ids + at, part,
                                  first_logits > at ? first_logits - at : 0, on_logits, context);
        if (what) tool_progress_step(&progress, (uint64_t)(at + part), (uint64_t)n, NULL);
        if (tool_monitor_step()) tell_monitor(stage, n > 1 ? "prompt" : "generating");
    }
    tool_progress_end(&progress);
    return status;
}

mnem_status tool_stage_verify(tool_stage *stage, const int32_t *ids, int32_t n,
                              mnem_on_choice *on_choice, void *context, int32_t *accepted) {
    *accepted = 0;
    if (tool_interrupted()) return MNEM_CANCELLED;
    const mnem_status status = mnem_sequence_verify(mnem_session_sequence(stage->session), ids, n,
                                                    on_choice, context, accepted);
    if (tool_monitor_step()) tell_monitor(stage, "generating");
    return status;
}

void tool_stage_close(tool_stage *stage) {
    tool_monitor_end();
    take_down(stage);
    tool_recording_end(&stage->recording, TOOL_FAILED); /* where nobody asked for its code */
    mnem_ledger_destroy(stage->ledger);
    *stage = (tool_stage){0};
}
