/* engine_seconds.c: the time that ways to run a model take.
 *
 * Time is that of a reference job (a prompt of up to 512 tokens, 128 more generated): for each pass
 * the larger of computing (multiply-accumulates, or reading the weights from memory) and of reading
 * what is streamed from disk, and a part of the smaller. A request to the disk costs its latency,
 * so small slots read slower. Recurrent states are read and written by each sequence of a pass. */
#include <math.h>

#include "base/minmax.h"
#include "engine/engine_search.h"
#include "model/architecture/transformer_rows.h"

static const double request_seconds = 80e-6, row_seconds = 10e-6;
/* Reading beside computing isn't free: packing takes cycles, and chunks take meetings. */
static const double overlap_cost = 0.25;
/* Of a token's experts, what wrong guesses read beside them, times the root of the part that isn't
 * in memory: recorded 0.04 where the disk is what everything waits for, 0.09 where it isn't. */
static const double wrong_guesses = 0.08;
/* q8_0 keys and values are taken only where they make more room for speed than this. */
static const double q8_penalty = 1.03;

/* ---- experts ---- */

/* Of the experts that tokens use, those that at least one of them does. */
static double experts_wanted(const mnem__search *search, double tokens) {
    return 1 - pow(1 - search->expert_part, tokens);
}

/* Of the experts that a pass uses, those that are in memory for having been used before. For one
 * token fitted to recorded routing whose busiest quarter gets half of the uses (`bench_experts`):
 * where little is in memory the root of that part, where much is nearly all. A chunk that wants all
 * finds what is there. */
double mnem__expert_hits(const mnem__search *search, int32_t slots, double tokens) {
    if (slots == 0) return 1;
    const double part = fmin(1, slots / (double)search->experts.expert_total);
    const double one = search->expert_part, wanted = experts_wanted(search, tokens);
    const double often = 1 - (1 - sqrt(part)) * pow(1 - part * part, 1.5);
    return one < 1 ? part + (often - part) * (1 - wanted) / (1 - one) : part;
}

/* With what is read on a wrong guess, which there is room for only beside what layers want. */
double mnem__expert_bytes(const mnem__search *search, int32_t slots, double tokens) {
    if (search->experts.expert_file_bytes == 0) return 0;
    const double wanted = experts_wanted(search, tokens);
    const double misses = 1 - mnem__expert_hits(search, slots, tokens);
    const mnem_transformer *t = &search->setup->map->shape;
    const bool guesses = slots >= 4 * wanted * mnem__transformer_experts_here(t);
    return (double)search->experts.expert_file_bytes * wanted *
           (misses + (guesses ? wrong_guesses * sqrt(misses) : 0));
}

/* ---- passes ---- */

/* Two things at once: the longer, and a part of the shorter. */
static double both(double a, double b) {
    return fmax(a, b) + overlap_cost * fmin(a, b);
}

/* What one token takes of arithmetic is in the rate of generation, where that was measured. */
static double computing_seconds(const mnem_machine_profile *p, double macs, double tokens,
                                double bytes) {
    const double arithmetic = macs / p->macs_per_s;
    if (p->generate_bytes_per_s == 0) return both(arithmetic, bytes / p->read_bytes_per_s);
    const double reading = bytes / p->generate_bytes_per_s;
    return fmax(arithmetic, reading) +
           overlap_cost * fmin(arithmetic * (tokens - 1) / tokens, reading);
}

/* What a pass does: tokens of some sequences, through the body or the head. */
typedef struct pass {
    double tokens, sequences;
    bool head;
} pass;

static double pass_seconds(const mnem__search *search, const mnem__way *way, pass does) {
    const bool head = does.head;
    const double tokens = does.tokens;
    const mnem_machine_profile *p = &search->profile;
    const double macs = (head ? search->head_macs : search->body_macs) * tokens;
    const double bytes =
        head ? search->head_bytes : search->body_bytes + does.sequences * search->state_bytes;
    const double experts =
        head ? 0 : mnem__expert_bytes(search, way->residency->expert_slots, tokens);
    const double streamed =
        (double)(head ? way->residency->streamed_bytes_head : way->residency->streamed_bytes_body);
    const double computing = computing_seconds(p, macs, tokens, bytes);
    if (streamed + experts == 0) return computing;
    const double requests = ceil(streamed / (double)way->ring->slot_bytes);
    const double reading = (streamed / p->disk_bytes_per_s + requests * request_seconds) *
                           (1 + 0.1 / (double)way->ring->slots);
    return both(computing, reading + experts / p->disk_bytes_per_s);
}

/* A prompt in passes of a chunk each; the last has what is left. */
static double prompt_seconds(const mnem__search *search, const mnem__way *way, double prompt) {
    const double chunk = fmin(way->graphs->chunk, prompt);
    const double whole = floor(prompt / chunk), left = prompt - whole * chunk;
    const double seconds = whole * pass_seconds(search, way, (pass){chunk, 1, false});
    return left > 0 ? seconds + pass_seconds(search, way, (pass){left, 1, false}) : seconds;
}

double mnem__way_seconds(const mnem__search *search, const mnem__way *way) {
    const double together = mnem__max_i32(search->together, 1);
    const double prompt = together * search->reference_prompt;
    const double generate = search->reference_generate;
    const double head = pass_seconds(search, way, (pass){1, 1, true});
    const double rows = fmin(way->graphs->chunk, together), passes = ceil(together / rows);
    double seconds = prompt_seconds(search, way, prompt) + head;
    seconds += generate * passes * (pass_seconds(search, way, (pass){rows, rows, false}) + head);
    if (!way->residency->embedding_packed) seconds += (prompt + together * generate) * row_seconds;
    if (search->setup->map->layer_table >= 0)
        seconds += (prompt + together * generate) * row_seconds;
    seconds += 1e-3 * (search->file_bytes / search->profile.disk_bytes_per_s +
                       search->file_bytes / (double)way->ring->slot_bytes * request_seconds /
                           (double)way->ring->slots);
    return way->graphs->kv == MNEM_KV_Q8_0 ? seconds * q8_penalty : seconds;
}

double mnem__way_pass_seconds(const mnem__search *search, const mnem__way *way, int32_t tokens,
                              int32_t logits) {
    const double sequences = logits > 0 ? logits : 1; /* a prompt's tokens are of one */
    return pass_seconds(search, way, (pass){tokens, sequences, false}) +
           (logits ? pass_seconds(search, way, (pass){logits, sequences, true}) : 0);
}
