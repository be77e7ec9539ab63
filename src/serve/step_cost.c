/* step_cost.c: what a step will take.
 *
 * Invariant: every number is a mean of what was measured, the newest a quarter of it. A place that
 * nobody has stood at costs what the nearest lower one does. */
#include "serve/step_cost.h"

#include "base/minmax.h"

/* Beginning, and how much of what was measured is believed. */
enum { BEGIN = 32, NEWEST = 4 };
/* Twenty-five tokens a second: faster than one reads. */
#define UNNOTICED 0.040

static int place_of(int32_t position) {
    int place = 0;
    while (place < MNEM__COST_PLACES - 1 && position >> (place + 6)) place++;
    return place;
}

static void mix(double *mean, double value) {
    *mean = *mean > 0 ? *mean + (value - *mean) / NEWEST : value;
}

static double token_seconds(const mnem__step_cost *cost, int32_t position) {
    for (int place = place_of(position); place >= 0; place--)
        if (cost->token[place] > 0) return cost->token[place];
    return 0;
}

void mnem__step_cost_learn(mnem__step_cost *cost, int32_t rows, int32_t prompt, int32_t position,
                           double seconds) {
    if (prompt == 0) {
        mix(&cost->step, seconds);
        return;
    }
    /* The others' part of the step; a prompt's token costs at least a tenth of it all, or a slow
     * step beside a fast one would make it free. */
    const double rest = rows > 0 ? seconds - cost->step : seconds;
    const double least = seconds / 10;
    mix(&cost->token[place_of(position)], (rest > least ? rest : least) / prompt);
    cost->last = prompt;
}

double mnem__step_cost_bound(const mnem__step_cost *cost, double most, bool streamed) {
    const double twice = 2 * cost->step, seconds = twice > UNNOTICED ? twice : UNNOTICED;
    return streamed || seconds < most ? seconds : most;
}

int32_t mnem__step_cost_tokens(const mnem__step_cost *cost, int32_t position, double seconds,
                               int32_t least) {
    const double each = token_seconds(cost, position);
    if (!(each > 0)) return mnem__max_i32(BEGIN, least);
    double room = seconds - cost->step;
    /* Where a step alone takes longer than it may, as with weights from a disk, half as much again
     * is spent on prompts, or they would never come to an end. */
    if (room < seconds / 4 && cost->step > seconds) room = cost->step / 2;
    const double tokens = room / each, twice = 2.0 * mnem__max_i32(cost->last, BEGIN);
    const double some = tokens < twice ? tokens : twice;
    return some > least ? (int32_t)some : least;
}

double mnem__step_cost_prompt(const mnem__step_cost *cost, int32_t position, int32_t n) {
    return token_seconds(cost, position) * n;
}
