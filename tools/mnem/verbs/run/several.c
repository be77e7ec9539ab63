/* several.c: the loop over sequences, and the order of what they say.
 *
 *     prompts   0  1  2  3  4  5  6  7 ...
 *               printed ^  ^ running  ^ not begun
 *
 * A text has a slot (its tokens) from when it begins until it is printed, and of the few sequences
 * and samplers one only while it runs. The one whose turn it is prints as it goes; the others keep
 * their tokens, from which the same text is made when their turn comes: no text waits in memory.
 * Invariant: all that this takes is there before the plan. */
#include "verbs/run/several_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "sight/monitor_file.h"

/* ---- what they take ---- */

static void close_slots(tool_several *s) {
    for (int32_t i = 0; i < s->slots; i++) {
        s->slot[i].g.sampler = NULL; /* its lane's */
        s->slot[i].g.constraint.match = NULL;
        if (s->slot[i].g.stage) tool_generator_close(&s->slot[i].g);
    }
    for (int32_t i = 0; i < TOOL_TOGETHER; i++) {
        mnem_sampler_destroy(s->sampler[i]);
        mnem_match_destroy(s->match[i]);
        s->sampler[i] = NULL;
        s->match[i] = NULL;
    }
    free(s->slot);
    if (s->taken) mnem_ledger_release(s->stage->ledger, MNEM_KIND_HOST, "answers", s->taken);
    s->slot = NULL;
    s->slots = s->together = 0;
    s->taken = 0;
}

/* A lane's sampler for another prompt takes the bytes of the one before. */
static int set_sampler(tool_several *s, int32_t lane, uint64_t seed) {
    mnem_sampler_options sampling = s->sampling;
    sampling.seed = seed;
    mnem_sampler_destroy(s->sampler[lane]);
    s->sampler[lane] = NULL;
    const mnem_status status =
        mnem_sampler_create(&sampling, s->stage->transformer.vocab, &s->sampler[lane]);
    return status == MNEM_OK ? TOOL_OK : tool_fail_asked(status);
}

static int open_lane(tool_several *s, int32_t lane) {
    const int code = set_sampler(s, lane, s->sampling.seed);
    if (code != TOOL_OK || !s->constraint.grammar) return code;
    const mnem_status status = mnem_match_create(s->constraint.grammar, &s->match[lane]);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int open_slots(tool_several *s, int32_t together, int32_t room) {
    const int32_t most = together * TOOL_WAITING, count = s->list.count;
    const int32_t slots = count < most ? count : most;
    const uint64_t bytes = (uint64_t)slots * sizeof(slot);
    const mnem_status status =
        mnem_ledger_charge(s->stage->ledger, MNEM_KIND_HOST, "answers", bytes);
    if (status != MNEM_OK) return tool_fail(status);
    s->taken = bytes;
    s->slot = calloc((size_t)slots, sizeof *s->slot);
    if (!s->slot)
        return tool_failed(
            "out of memory for %d answers: end other programs, or give fewer prompts", slots);
    s->slots = slots;
    s->together = together;
    int code = TOOL_OK;
    for (int32_t i = 0; i < together && code == TOOL_OK; i++) code = open_lane(s, i);
    for (int32_t i = 0; i < slots && code == TOOL_OK; i++) {
        s->slot[i].lane = -1;
        code = tool_generator_prepare(s->stage, s->asked, room, &s->slot[i].g);
    }
    return code;
}

/* ---- the plan ---- */

/* Passes over the weights, in seconds: what as many at once would take for all. */
static double seconds_of(const tool_several *s, int32_t together) {
    const int32_t groups = (s->list.count + together - 1) / together;
    return groups * s->stage->plan.predicted_seconds;
}

static mnem_status try_together(tool_several *s, int32_t together) {
    s->stage->options.sequences = together;
    return tool_stage_try(s->stage);
}

/* The count whose plan promises the most: all, unless they leave too little for the weights.
 * *all_bytes: what all would take, where they don't fit. */
static int32_t choose(tool_several *s, int32_t most, uint64_t *all_bytes) {
    int32_t best = 1;
    double least = 0;
    *all_bytes = 0;
    for (int32_t k = most; k >= 1; k /= 2) {
        const mnem_engine_plan *p = &s->stage->plan;
        const mnem_status status = try_together(s, k);
        const uint64_t bytes = status == MNEM_OVER_BUDGET ? p->needed_bytes : p->wanted_bytes;
        if (k == most) *all_bytes = bytes;
        if (status != MNEM_OK || bytes) continue; /* fewer may have all of their context */
        const double seconds = seconds_of(s, k);
        if (least == 0 || seconds < least) best = k, least = seconds;
        if (!p->streamed) break;
    }
    return best;
}

static void say_groups(const tool_several *s, int32_t most, uint64_t all_bytes) {
    char least[TOOL_TEXT], help[TOOL_TEXT + 32] = "";
    if (s->together == most || s->stage->args->quiet) return;
    if (all_bytes)
        snprintf(help, sizeof help, "; --memory %s would hold %d",
                 tool_budget_of_other(all_bytes, least), most);
    tool_message("of %d prompts, %d run%s at a time, which is the most that this budget allows%s",
                 s->list.count, s->together, s->together == 1 ? "s" : "", help);
}

static int plan(tool_several *s, int32_t wanted, int32_t room) {
    tool_stage *stage = s->stage;
    const int32_t count = s->list.count, most = count < TOOL_TOGETHER ? count : TOOL_TOGETHER;
    uint64_t all_bytes;
    stage->options.context_wanted = wanted;
    stage->options.context_needed = s->list.longest + 1;
    int code = open_slots(s, most, room);
    const int32_t together = code == TOOL_OK ? choose(s, most, &all_bytes) : 1;
    if (code != TOOL_OK) return code;
    if (together < most) {
        close_slots(s);
        code = open_slots(s, together, room);
    }
    stage->options.sequences = together;
    if (code == TOOL_OK) code = tool_stage_plan(stage);
    if (code == TOOL_OK) say_groups(s, most, all_bytes);
    if (code == TOOL_OK && stage->plan.wanted_bytes && !stage->asked->context) {
        char least[TOOL_TEXT];
        tool_message("the budget allows a context of %d tokens for each prompt, but a prompt and "
                     "its answer may have up to %d: --memory %s has space for all of them",
                     stage->plan.context, wanted,
                     tool_budget_of_other(stage->plan.wanted_bytes, least));
    }
    return code;
}

int tool_several_plan(tool_stage *stage, const run_options *asked, tool_several **several) {
    static tool_several s;
    int32_t wanted;
    s = (tool_several){.stage = stage, .asked = asked};
    s.sampling = tool_generator_sampling(stage, asked);
    *several = &s;
    int code = tool_prompts_open(stage, asked, &s.list);
    if (code == TOOL_OK)
        code = tool_constraint_open(stage, &asked->constraint, s.list.end, &s.constraint);
    if (code == TOOL_OK) code = tool_prompt_room(stage, asked, (size_t)s.list.longest, &wanted);
    if (code != TOOL_OK) return code;
    s.limit = asked->tokens < 0 ? INT32_MAX : asked->tokens;
    if (!s.limit) s.limit = s.list.answers ? INT32_MAX : TOOL_DEFAULT_TOKENS;
    return plan(&s, wanted, tool_prompt_sequence(stage, asked, s.list.answers, wanted));
}

void tool_several_close(tool_several *s) {
    if (!s) return;
    tool_interrupt_call(NULL, NULL);
    mnem_engine_destroy(s->engine);
    close_slots(s);
    tool_constraint_close(&s->constraint);
    tool_prompts_close(&s->list);
}

/* ---- running ---- */

/* The next prompt, in a slot whose text has been printed. */
static int start(tool_several *s, int32_t lane) {
    const int32_t i = s->begun;
    const tool_prompt *p = &s->list.prompt[i];
    const uint64_t seed = s->sampling.seed + (uint64_t)i;
    slot *a = tool_slot_of(s, i);
    const tool_generator kept = a->g; /* its tokens' memory */
    *a = (slot){.prompt = i, .lane = lane, .last = -1};
    a->g = (tool_generator){.stage = s->stage,
                            .asked = s->asked,
                            .ids = kept.ids,
                            .room = kept.room,
                            .next = -1,
                            .end = s->list.end,
                            .newline = true,
                            .mute = true,
                            .answers = s->list.answers,
                            .sampling = s->sampling};
    a->g.sampling.seed = seed;
    tool_generator_add(&a->g, s->list.ids + p->at, (size_t)p->count);
    const int code = set_sampler(s, lane, seed);
    if (code != TOOL_OK) return code;
    a->g.sampler = s->sampler[lane];
    a->g.constraint.match = s->match[lane];
    tool_constraint_begin(&a->g.constraint);
    const mnem_status status = mnem_sequence_create(s->engine, &a->sequence);
    if (status != MNEM_OK) return tool_fail(status);
    s->running[lane] = a;
    s->begun++;
    s->prompt_tokens += (uint64_t)p->count;
    return TOOL_OK;
}

static void finish(tool_several *s, slot *a, tool_end end) {
    s->running[a->lane] = NULL;
    s->tokens += a->g.tokens;
    mnem_sequence_destroy(a->sequence);
    a->sequence = NULL;
    a->g.sampler = NULL;
    a->cut = a->g.constraint.match && !mnem_match_may_end(a->g.constraint.match);
    a->g.constraint.match = NULL;
    a->lane = -1;
    a->end = end;
}

static bool on_logits(void *context, int32_t part, int32_t index, const float *logits) {
    slot *a = ((flight *)context)->slot[part];
    (void)index;
    a->g.next = tool_constraint_choose(&a->g.constraint, a->g.sampler, logits);
    return true;
}

static int32_t flights_most(const tool_several *s) {
    const int32_t most = mnem_engine_steps_most(s->engine);
    return most < FLIGHTS ? most : FLIGHTS;
}

/* What isn't evaluated yet of those whose turn it is: of each group of lanes that fly by turns. */
static void fill_flight(tool_several *s, flight *f) {
    int32_t running = 0;
    for (int32_t lane = 0; lane < s->together; lane++) running += s->running[lane] != NULL;
    const int32_t most = flights_most(s), group = (running + most - 1) / most;
    *f = (flight){0};
    for (int32_t lane = 0; lane < s->together && f->parts < group; lane++) {
        slot *a = s->running[lane];
        if (!a || a->flies) continue;
        const int32_t done = mnem_sequence_length(a->sequence), n = a->g.count - done;
        tool_generator_accept(&a->g, done);
        f->slot[f->parts] = a;
        f->part[f->parts++] = (mnem_step_part){a->sequence, a->g.ids + done, n, n - 1};
        a->flies = true;
    }
}

static void tell_monitor(const tool_several *s) {
    if (!tool_monitor_step()) return;
    uint64_t running = 0;
    mnem_engine_stats stats;
    for (int32_t lane = 0; lane < s->together; lane++) running += s->running[lane] != NULL;
    mnem_engine_stats_get(s->engine, &stats);
    tool_monitor_engine(&stats, "generating");
    tool_monitor_numbers("generating")->requests_running = running;
    tool_monitor_tell(true);
}

static int advance(tool_several *s, slot *a) {
    tool_end end;
    if (tool_generator_take(&a->g, &end)) {
        if (++a->made >= s->limit) finish(s, a, TOOL_END_LIMIT);
        return TOOL_OK;
    }
    if (end == TOOL_END_STOP || end == TOOL_END_CONTEXT || end == TOOL_END_GRAMMAR)
        a->last = a->g.next;
    finish(s, a, end);
    return end == TOOL_END_FAILED ? tool_fail(a->g.status) : TOOL_OK;
}

/* Takes the tokens of the oldest flight. */
static int land(tool_several *s) {
    flight *f = &s->flight[s->flight_first];
    const mnem_status status = f->ended ? MNEM_OK : mnem_engine_step_end(s->engine);
    int code = status == MNEM_OK ? TOOL_OK : tool_fail(status);
    s->flight_first = (s->flight_first + 1) % flights_most(s);
    s->flights--;
    for (int32_t i = 0; i < f->parts && status == MNEM_OK; i++) {
        f->slot[i]->flies = false;
        const int one = advance(s, f->slot[i]);
        if (code == TOOL_OK) code = one;
    }
    return code;
}

/* Several passes can't be awaited: they wait until the others have landed. */
static int take_off(tool_several *s) {
    flight *f = &s->flight[(s->flight_first + s->flights) % flights_most(s)];
    int code = TOOL_OK;
    fill_flight(s, f);
    if (!f->parts) return TOOL_OK;
    if (tool_interrupted()) return tool_fail(MNEM_CANCELLED);
    mnem_status status;
    while ((status = mnem_engine_step_begin(s->engine, f->part, f->parts, on_logits, f,
                                            &f->ended)) == MNEM_BUSY &&
           s->flights > 0 && code == TOOL_OK)
        code = land(s);
    if (code != TOOL_OK) return code;
    if (status != MNEM_OK) return tool_fail(status);
    s->flights++;
    return TOOL_OK;
}

static void stop_all(tool_several *s) {
    for (int32_t lane = 0; lane < s->together; lane++)
        if (s->running[lane])
            finish(s, s->running[lane],
                   tool_interrupted() ? TOOL_END_INTERRUPTED : TOOL_END_FAILED);
}

static int run_prompts(tool_several *s) {
    while (s->printed < s->list.count && !tool_out_closed()) {
        for (int32_t lane = 0; lane < s->together; lane++) {
            const bool waiting = s->begun < s->list.count && s->begun - s->printed < s->slots;
            const int code = !s->running[lane] && waiting ? start(s, lane) : TOOL_OK;
            if (code != TOOL_OK) return code;
        }
        const int32_t before = s->flights;
        tell_monitor(s);
        int code = take_off(s);
        if (code == TOOL_OK && s->flights > 0 &&
            (s->flights == flights_most(s) || s->flights == before))
            code = land(s);
        if (code != TOOL_OK) stop_all(s);
        tool_print_turns(s);
        if (code != TOOL_OK) return code;
    }
    return tool_interrupted() ? TOOL_INTERRUPTED : TOOL_OK;
}

/* ---- the end ---- */

static void report(const tool_several *s) {
    const tool_stage *stage = s->stage;
    const double rate = s->seconds > 0 ? (double)s->tokens / s->seconds : 0;
    mnem_engine_stats e;
    mnem_engine_stats_get(s->engine, &e);
    if (stage->args->json) {
        json_t *plan = tool_report_plan_json(&stage->plan, stage);
        json_object_set_new(plan, "sequences", json_integer(stage->plan.sequences));
        json_t *stats = json_pack(
            "{s:i, s:i, s:I, s:I, s:f, s:f, s:I, s:I}", "prompts", s->list.count, "together",
            s->together, "prompt_tokens", (json_int_t)s->prompt_tokens, "tokens",
            (json_int_t)s->tokens, "tokens_per_s", rate, "seconds_load", stage->seconds_load,
            "bytes_streamed", (json_int_t)e.bytes_streamed, "vmhwm", (json_int_t)tool_peak_bytes());
        tool_out_json("end", json_pack("{s:o, s:o, s:o}", "plan", plan, "ledger",
                                       tool_ledger_json(stage->ledger), "stats", stats));
    } else if (!stage->args->quiet) {
        char text[160], size[TOOL_TEXT];
        snprintf(text, sizeof text, "%d prompt%s, %d at a time · %llu tokens at %.*f/s · peak %s",
                 s->list.count, tool_s((uint64_t)s->list.count), s->together,
                 (unsigned long long)s->tokens, rate < 100, rate,
                 tool_size(tool_peak_bytes(), size));
        if (stage->args->verbose) tool_report_end(stderr, stage);
        tool_wrap_dim(stderr, "", text);
    }
}

/* All of it as tokens made: prompts and answers share steps. */
static void keep(const tool_several *s) {
    mnem_history_run run = {.seconds = s->seconds};
    mnem_engine_stats e;
    mnem_engine_stats_get(s->engine, &e);
    tool_history_stage(s->stage, &e, &run);
    tool_history_phase(&run, MNEM_PHASE_TOKENS, s->tokens, s->seconds, s->cpu_seconds, 0);
    tool_history_add(s->stage->args, &run);
}

static void cancel(void *engine) {
    mnem_engine_cancel(engine);
}

static int create(tool_several *s) {
    tool_stage *stage = s->stage;
    tool_progress progress;
    const double start_time = tool_clock();
    tool_progress_begin(&progress, "loading");
    stage->options.progress = (mnem_progress){tool_progress_tell, &progress};
    const mnem_status status =
        mnem_engine_create(stage->model, &stage->options, &stage->plan, &s->engine);
    tool_progress_end(&progress);
    stage->seconds_load = tool_clock() - start_time;
    if (status != MNEM_OK) return tool_fail(status);
    tool_interrupt_call(cancel, s->engine);
    tool_ranks_joined();
    return TOOL_OK;
}

int tool_several_run(tool_several *s) {
    int code = create(s);
    if (code != TOOL_OK) return code;
    const double begun = tool_clock(), cpu = tool_cpu_clock();
    tool_stage_begin(s->stage, "generate");
    code = run_prompts(s);
    tool_stage_end(s->stage, "generate");
    s->seconds = tool_clock() - begun;
    s->cpu_seconds = tool_cpu_clock() - cpu;
    report(s);
    if (code == TOOL_OK || code == TOOL_INTERRUPTED) keep(s);
    const int out = tool_out_end();
    return code != TOOL_OK ? code : out;
}
