/* generate.c: the loop of generation, and the way of a token's text to stdout.
 *
 * Text goes piece -> whole UTF-8 characters -> stop texts -> stdout, and is flushed for each token.
 * What could be the beginning of a stop text is held back until it is decided. With --json each
 * token is an object whose text is what came out with it; held text comes with a later one. */
#include "verbs/run/prompt_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sight/history_file.h"
#include "verbs/run/draft/drafting.h"
#include "verbs/run/terminal_text.h"

const char *tool_end_text(tool_end end) {
    static const char *const texts[] = {"limit",       "end_token", "stop",   "context_full",
                                        "interrupted", "closed",    "failed", "grammar"};
    return texts[end];
}

static uint64_t random_seed(void) {
    uint32_t seed; /* 32 bits: short enough to type again */
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint32_t)(tool_clock() * 1e6);
    return seed;
}

static mnem_logit_bias biases[TOOL_SPACES_MAX];

/* The range of a bias is that of mnem serve. */
static bool read_bias(const char *text, mnem_logit_bias *bias) {
    enum { MOST = 100 };
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    const long id = strtol(text, &end, 10);
    if (errno || id > INT32_MAX || (*end != '+' && *end != '-')) return false;
    const char *sign = end;
    const double value = strtod(sign, &end);
    *bias = (mnem_logit_bias){(int32_t)id, (float)value};
    return end > sign + 1 && !*end && value >= -MOST && value <= MOST;
}

int tool_biases_read(const char *verb, const run_options *asked) {
    for (int i = 0; i < asked->biases.count; i++) {
        const char *text = asked->biases.text[i];
        if (!read_bias(text, &biases[i]))
            return tool_usage(verb,
                              "--logit-bias takes ID+BIAS or ID-BIAS, with a bias of at most 100, "
                              "not \"%s\"",
                              text);
        for (int k = 0; k < i; k++)
            if (biases[k].id == biases[i].id)
                return tool_usage(verb,
                                  "--logit-bias is given twice for token %d; give each token once",
                                  biases[i].id);
    }
    return TOOL_OK;
}

mnem_sampler_options tool_generator_sampling(const tool_stage *stage, const run_options *asked) {
    mnem_sampler_options sampling = asked->sampling;
    sampling.dry_breakers = stage->breakers.of;
    sampling.bias = biases;
    sampling.bias_count = asked->biases.count;
    if (!tool_given(stage->args, "seed")) sampling.seed = random_seed();
    return sampling;
}

static int open_sampler(tool_generator *g) {
    g->sampling = tool_generator_sampling(g->stage, g->asked);
    const mnem_status status =
        mnem_sampler_create(&g->sampling, g->stage->transformer.vocab, &g->sampler);
    return status == MNEM_OK ? TOOL_OK : tool_fail_asked(status);
}

/* There may be room for one only. What was there fitted, and has seen the same tokens then. */
int tool_generator_resample(tool_generator *g, const mnem_sampler_options *sampling) {
    const int32_t vocab = g->stage->transformer.vocab;
    const int32_t seen = mnem_session_length(g->stage->session);
    const mnem_sampler_options before = g->sampling;
    mnem_sampler_destroy(g->sampler);
    g->sampler = NULL;
    const mnem_status status = mnem_sampler_create(sampling, vocab, &g->sampler);
    const int code = status == MNEM_OK ? TOOL_OK : tool_fail(status);
    g->sampling = status == MNEM_OK ? *sampling : before;
    if (status != MNEM_OK && mnem_sampler_create(&before, vocab, &g->sampler) != MNEM_OK)
        return TOOL_FAILED;
    for (int32_t i = 0; i < seen; i++) mnem_sampler_accept(g->sampler, g->ids[i]);
    return code;
}

int tool_generator_prepare(tool_stage *stage, const run_options *asked, int32_t room,
                           tool_generator *g) {
    *g = (tool_generator){.stage = stage, .asked = asked, .next = -1, .end = -1, .newline = true};
    uint64_t bytes = (uint64_t)room * sizeof *g->ids;
    mnem_status status = mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "sequence", bytes);
    if (status != MNEM_OK) return tool_fail(status);
    g->room = room;
    g->ids = malloc(bytes ? bytes : 1);
    if (!g->ids)
        return tool_failed(
            "out of memory for a sequence of %d tokens: end other programs, or use a smaller --ctx",
            room);
    memset(g->ids, 0, bytes);
    return TOOL_OK;
}

int tool_generator_open(tool_stage *stage, const run_options *asked, int32_t room,
                        tool_generator *g) {
    const int code = tool_generator_prepare(stage, asked, room, g);
    return code == TOOL_OK ? open_sampler(g) : code;
}

void tool_generator_close(tool_generator *g) {
    tool_constraint_close(&g->constraint);
    mnem_draft_destroy(g->draft);
    mnem_sampler_destroy(g->sampler);
    if (g->room)
        mnem_ledger_release(g->stage->ledger, MNEM_KIND_HOST, "sequence",
                            (uint64_t)g->room * sizeof *g->ids);
    free(g->ids);
    *g = (tool_generator){.next = -1};
}

bool tool_generator_add(tool_generator *g, const int32_t *ids, size_t n) {
    if (n > (size_t)(g->room - g->count)) return false;
    memcpy(g->ids + g->count, ids, n * sizeof *ids);
    g->count += (int32_t)n;
    return true;
}

bool tool_generator_replace(tool_generator *g, int32_t until, const int32_t *ids, size_t n) {
    const int32_t tail = g->count - until, length = mnem_session_length(g->stage->session);
    if (n > (size_t)(g->room - tail)) return false;
    int32_t same = 0, most = n < (size_t)until ? (int32_t)n : until;
    while (same < most && g->ids[same] == ids[same]) same++;
    const bool all = same == until && n == (size_t)until;
    memmove(g->ids + n, g->ids + until, (size_t)tail * sizeof *ids);
    memcpy(g->ids, ids, n * sizeof *ids);
    g->count = (int32_t)n + tail;
    if (all) same = g->count;
    if (same >= g->count) same = g->count - 1; /* the next token comes from the last one's logits */
    return length <= same || mnem_session_truncate(g->stage->session, same) == MNEM_OK;
}

void tool_generator_say_empty(const tool_generator *g, tool_end end, uint64_t before) {
    static const char *const by[TOOL_END_GRAMMAR + 1] = {[TOOL_END_LIMIT] = "-n",
                                                         [TOOL_END_STOP] = "--stop",
                                                         [TOOL_END_CONTEXT] =
                                                             "the end of the context",
                                                         [TOOL_END_INTERRUPTED] = "Ctrl-C"};
    if (by[end]) tool_constraint_say_cut(&g->constraint, by[end]);
    if (g->text_bytes > before) return;
    if (end == TOOL_END_TOKEN)
        tool_message(
            g->answers
                ? "the answer is empty: the first token that the model chose ends its turn"
                : "no text was generated: the first token that the model chose ends the text");
    if (end == TOOL_END_STOP)
        tool_message("the answer is empty, because it began with the --stop text");
}

double tool_generator_rate(const tool_generator *g) {
    return g->seconds_decode > 0 ? (double)g->decoded / g->seconds_decode : 0;
}

double tool_generator_prompt_rate(const tool_generator *g) {
    return g->seconds_prompt > 0 ? (double)g->prompt_tokens / g->seconds_prompt : 0;
}

/* "20 tokens at 41.4/s · prompt 2 at 69.8/s · peak 14.6 MiB · seed 7" */
static void report_line(FILE *file, const tool_generator *g) {
    const double rate = tool_generator_rate(g), prompt = tool_generator_prompt_rate(g);
    mnem_engine_stats s;
    char text[400], size[TOOL_TEXT], drafts[TOOL_DRAFT_TEXT];
    mnem_session_stats_get(g->stage->session, &s);
    size_t n = (size_t)snprintf(text, sizeof text, "%llu token%s", (unsigned long long)g->tokens,
                                tool_s(g->tokens));
    if (rate > 0) n += (size_t)snprintf(text + n, sizeof text - n, " at %.*f/s", rate < 100, rate);
    if (g->prompt_tokens)
        n += (size_t)snprintf(text + n, sizeof text - n, " · prompt %llu at %.*f/s",
                              (unsigned long long)g->prompt_tokens, prompt < 100, prompt);
    if (*tool_draft_text(g, drafts, sizeof drafts))
        n += (size_t)snprintf(text + n, sizeof text - n, " · %s", drafts);
    n += (size_t)snprintf(text + n, sizeof text - n, " · peak %s",
                          tool_size(tool_peak_bytes(), size));
    if (s.bytes_streamed)
        n += (size_t)snprintf(text + n, sizeof text - n, " · %s from disk, %.1f s waiting for it",
                              tool_size(s.bytes_streamed, size), s.seconds_waiting);
    if (g->sampling.temperature > 0)
        snprintf(text + n, sizeof text - n, " · seed %llu", (unsigned long long)g->sampling.seed);
    tool_wrap_dim(file, "", text);
}

void tool_generator_keep(const tool_generator *g) {
    const mnem_engine_plan *p = &g->stage->plan;
    mnem_history_run run = {.context_used = mnem_session_length(g->stage->session)};
    mnem_engine_stats s;
    if (!g->prompt_tokens && !g->decoded) return;
    mnem_session_stats_get(g->stage->session, &s);
    tool_history_stage(g->stage, &s, &run);
    tool_history_phase(&run, MNEM_PHASE_PROMPT, g->prompt_tokens, g->seconds_prompt, g->cpu_prompt,
                       p->predicted_prompt);
    tool_history_phase(&run, MNEM_PHASE_TOKENS, g->decoded, g->seconds_decode, g->cpu_decode,
                       p->predicted_generate);
    tool_history_work(g->stage, MNEM_PHASE_PROMPT, 0.5 * (double)g->prompt_tokens, &run);
    tool_history_work(g->stage, MNEM_PHASE_TOKENS, run.context_used - 0.5 * (double)(g->decoded),
                      &run);
    run.seconds = g->seconds_prompt + g->seconds_decode;
    tool_history_add(g->stage->args, &run);
}

void tool_generator_end(FILE *file, const tool_generator *g) {
    const tool_args *args = g->stage->args;
    if (args->quiet || args->json) return;
    if (!args->verbose) {
        report_line(file, g);
        return;
    }
    fputc('\n', file);
    tool_report_end(file, g->stage);
    tool_generator_report(file, g);
}

void tool_generator_report(FILE *file, const tool_generator *g) {
    mnem_engine_stats s;
    mnem_session_stats_get(g->stage->session, &s);
    fputs("speed\n", file);
    if (g->prompt_tokens)
        fprintf(file, "  prompt     %6llu token%s, %.1f tokens/s\n",
                (unsigned long long)g->prompt_tokens, tool_s((uint64_t)g->prompt_tokens),
                tool_generator_prompt_rate(g));
    fprintf(file, "  generated  %6llu token%s", (unsigned long long)g->tokens,
            tool_s((uint64_t)g->tokens));
    if (tool_generator_rate(g) > 0) fprintf(file, ", %.1f tokens/s", tool_generator_rate(g));
    if (g->sampling.temperature > 0)
        fprintf(file, ", seed %llu", (unsigned long long)g->sampling.seed);
    fputc('\n', file);
    char size[TOOL_TEXT], drafts[TOOL_DRAFT_TEXT];
    if (*tool_draft_text(g, drafts, sizeof drafts)) fprintf(file, "  drafts     %s\n", drafts);
    const uint64_t uses = s.expert_hits + s.expert_misses;
    if (uses)
        fprintf(file, "  experts    %.1f %% of %llu uses were resident, %.1f %% were read ahead\n",
                100 * (double)(s.expert_hits - s.expert_guessed) / (double)uses,
                (unsigned long long)uses, 100 * (double)s.expert_guessed / (double)uses);
    if (s.bytes_streamed)
        fprintf(file, "  streamed   %s from disk, %.1f s waiting for it\n",
                tool_size(s.bytes_streamed, size), s.seconds_waiting);
}

/* ---- text ---- */

static void print(tool_generator *g, int32_t id, const char *text, size_t length, bool token) {
    if (g->mute) {
        /* printed when its turn comes */
    } else if (g->stage->args->json) {
        if (!token && !length) return;
        json_t *object = json_object();
        json_object_set_new(object, "token", token ? json_integer(id) : json_null());
        json_object_set_new(object, "text", json_stringn(text, length));
        tool_out_json("token", object);
    } else if (length) {
        tool_out_shown(text, length);
        tool_out_flush();
    }
    if (!length) return;
    g->newline = text[length - 1] == '\n';
    g->text_bytes += length;
    if (g->on_text) g->on_text(g->context, text, length);
}

/* Where the earliest stop text begins in the held bytes, or held_bytes. */
static size_t find_stop(const tool_generator *g) {
    const tool_texts *stop = &g->asked->stop;
    size_t first = g->held_bytes;
    for (int i = 0; i < stop->count; i++) {
        const char *at = memmem(g->held, g->held_bytes, stop->text[i], strlen(stop->text[i]));
        if (at && (size_t)(at - g->held) < first) first = (size_t)(at - g->held);
    }
    return first;
}

/* How many bytes at the end may be the beginning of a stop text. */
static size_t undecided(const tool_generator *g) {
    const tool_texts *stop = &g->asked->stop;
    size_t most = 0;
    for (int i = 0; i < stop->count; i++) {
        size_t length = strlen(stop->text[i]) - 1;
        if (length > g->held_bytes) length = g->held_bytes;
        for (; length > most; length--)
            if (memcmp(g->held + g->held_bytes - length, stop->text[i], length) == 0) most = length;
    }
    return most;
}

/* Takes a slice of a piece; true when a stop text came. */
static bool take_slice(tool_generator *g, int32_t id, const char *bytes, size_t length) {
    g->held_bytes += mnem_utf8_join(&g->joiner, bytes, length, g->held + g->held_bytes);
    size_t out = find_stop(g);
    bool stopped = out < g->held_bytes;
    if (!stopped) out = g->held_bytes - undecided(g);
    print(g, id, g->held, out, true);
    g->held_bytes -= out;
    memmove(g->held, g->held + out, g->held_bytes);
    return stopped;
}

static bool take_token(tool_generator *g, int32_t id) {
    enum { SLICE = (sizeof g->held - TOOL_STOP_BYTES) / 3 - 8 };
    mnem_text piece = mnem_tokenizer_piece(g->stage->tokenizer, id, false);
    /* An empty piece still tells --json about its token; empty slices must not flush the joiner. */
    if (!piece.length) print(g, id, "", 0, true);
    while (piece.length) {
        size_t n = piece.length < SLICE ? piece.length : SLICE;
        if (take_slice(g, id, piece.bytes, n)) return true;
        piece.bytes += n;
        piece.length -= n;
    }
    return false;
}

/* An end that comes from outside may cut a character: what there is of it isn't told. */
static bool cuts(tool_end end) {
    return end == TOOL_END_LIMIT || end == TOOL_END_CONTEXT || end == TOOL_END_INTERRUPTED;
}

void tool_generator_flush(tool_generator *g, tool_end end) {
    if (end != TOOL_END_STOP) {
        if (!cuts(end)) g->held_bytes += mnem_utf8_join(&g->joiner, "", 0, g->held + g->held_bytes);
        print(g, 0, g->held, g->held_bytes, false);
    }
    if (!g->mute && !g->stage->args->json) {
        tool_out_shown_end();
        tool_out_flush();
    }
    g->held_bytes = 0;
    g->joiner = (mnem_utf8_joiner){0};
}

void tool_generator_say(tool_generator *g, int32_t from, int32_t last) {
    const uint64_t tokens = g->tokens;
    bool stopped = false;
    g->held_bytes = 0;
    g->joiner = (mnem_utf8_joiner){0};
    g->text_bytes = 0;
    g->newline = true;
    for (int32_t i = from; i < g->count && !stopped; i++) stopped = take_token(g, g->ids[i]);
    if (last >= 0 && !stopped) take_token(g, last);
    g->tokens = tokens;
}

/* ---- the loop ---- */

static bool on_logits(void *context, int32_t index, const float *logits) {
    (void)index;
    tool_generator *g = context;
    g->next = tool_constraint_choose(&g->constraint, g->sampler, logits);
    return true;
}

void tool_generator_accept(tool_generator *g, int32_t from) {
    const int32_t told = g->count - g->chosen;
    for (int32_t i = from; i < told; i++) mnem_sampler_accept(g->sampler, g->ids[i]);
    if (g->chosen) mnem_sampler_accept_chosen(g->sampler, g->ids[told]);
    for (int32_t i = from; i < g->count && g->draft; i++) mnem_draft_accept(g->draft, g->ids[i]);
    g->chosen = false;
}

/* Whether the prompt is saved behind this pass: then it holds nothing else. */
static bool is_saved_next(const tool_generator *g) {
    return g->asked->prompt_cache && !g->cache.saved && !g->cache.at_end;
}

/* The tokens of the sequence's tail, or the last one and a draft of up to `most` behind it. */
static mnem_status evaluate(tool_generator *g, int32_t n, int32_t most) {
    const int32_t done = mnem_session_length(g->stage->session);
    if (n == 1 && g->draft) return tool_draft_step(g, is_saved_next(g) ? 0 : most);
    return tool_stage_eval(g->stage, g->ids + done, g->count - done, g->count - done - 1, on_logits,
                           g, n > 1 ? "reading the prompt" : NULL);
}

/* Evaluates the tail of the sequence; the next token is chosen from its last logits. most: tokens
 * that a draft may add. */
static mnem_status catch_up(tool_generator *g, int32_t most) {
    g->round.taken = 0;
    g->round.ended = false;
    tool_prompt_cache_load(g);
    int32_t done = mnem_session_length(g->stage->session), n = g->count - done;
    if (n <= 0) return MNEM_OK;
    double start = tool_clock(), cpu = tool_cpu_clock();
    tool_generator_accept(g, done);
    if (n > 1)
        mnem_sequence_snapshots_at_turns(mnem_session_sequence(g->stage->session),
                                         g->stage->tokenizer, &g->end, g->end >= 0, g->ids,
                                         g->count);
    mnem_status status;
    do { /* a Ctrl-C that came between two evals has cancelled this one, after it was dealt with */
        status = evaluate(g, n, most);
    } while (status == MNEM_CANCELLED && !tool_interrupted());
    double seconds = tool_clock() - start;
    cpu = tool_cpu_clock() - cpu;
    if (n == 1) {
        g->seconds_decode += seconds;
        g->cpu_decode += cpu;
        g->decoded += 1 + (uint64_t)g->round.taken;
    } else {
        g->seconds_prompt += seconds;
        g->cpu_prompt += cpu;
        g->prompt_tokens += (uint64_t)n;
    }
    if (status == MNEM_OK && !g->cache.at_end) tool_prompt_cache_save(g);
    return status;
}

static tool_end ended(tool_generator *g, mnem_status status) {
    if (status == MNEM_CANCELLED) return TOOL_END_INTERRUPTED;
    g->status = status;
    return TOOL_END_FAILED;
}

/* Makes room for one more token. */
static bool room(tool_generator *g) {
    if (g->count < g->stage->plan.context && g->count < g->room) return true;
    return g->on_full && g->on_full(g->context) && g->count < g->stage->plan.context;
}

static bool is_end(const tool_generator *g) {
    if (g->asked->ignore_end) return false;
    return mnem_tokenizer_is_end(g->stage->tokenizer, g->next) ||
           (g->next == g->end && g->next >= 0);
}

bool tool_generator_take(tool_generator *g, tool_end *end) {
    if (g->constraint.status != MNEM_OK) {
        *end = ended(g, g->constraint.status);
        return false;
    }
    *end = TOOL_END_TOKEN;
    if (is_end(g)) return false;
    *end = TOOL_END_GRAMMAR;
    if (g->next < 0) return false;
    g->tokens++;
    *end = TOOL_END_STOP;
    if (take_token(g, g->next)) return false;
    *end = TOOL_END_CLOSED;
    if (tool_out_closed()) return false;
    *end = TOOL_END_GRAMMAR;
    if (tool_constraint_ends(&g->constraint, g->next)) return false;
    *end = TOOL_END_CONTEXT;
    if (!room(g)) return false;
    g->ids[g->count++] = g->next;
    g->chosen = true;
    *end = TOOL_END_INTERRUPTED;
    return !tool_interrupted();
}

static tool_end generate(tool_generator *g, int32_t limit) {
    mnem_status status = tool_draft_open(g);
    if (status != MNEM_OK) return ended(g, status);
    for (int32_t made = 0; made < limit; made++) {
        tool_end end;
        status = catch_up(g, limit - made - 1);
        made += g->round.taken;
        if (status != MNEM_OK) return ended(g, status);
        if (g->round.ended) return g->round.end;
        if (!tool_generator_take(g, &end)) return end;
    }
    return TOOL_END_LIMIT;
}

tool_end tool_generate(tool_generator *g, int32_t limit) {
    tool_stage_begin(g->stage, "generate");
    tool_constraint_begin(&g->constraint);
    mnem_sampler_reset_chosen(g->sampler);
    g->chosen = false;
    tool_end end = generate(g, limit);
    tool_stage_end(g->stage, "generate");
    tool_generator_flush(g, end);
    if (tool_out_closed()) return TOOL_END_CLOSED;
    return end;
}
