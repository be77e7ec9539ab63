/* draft_pace.c: how many drafted tokens are worth their rows in a pass.
 *
 * Idea: a pass that verifies k tokens gives E(k) = 1 + p1 + p1 p2 + ... + p1 ... pk tokens, where
 * pi is the chance that the i-th is right if those before it are, and takes T(1 + k). The k with
 * the most E(k) / T(1 + k) is best (Leviathan, Kalman, Matias 2023), none where that isn't clearly
 * more than 1 / T(1).
 *
 *     p    by how many tokens agree before it: the longer a match, the surer it goes on. Counted
 *          at every token of the text with the match that the drafter has, drafted or not, so it
 *          costs no row, and a prompt teaches it before the first draft.
 *     T    by the number of rows, measured in each pass; between measured numbers a line, behind
 *          the last of them cheap rows.
 *
 * So what isn't measured is tried, twice as many rows at a time at the most; what was measured as
 * dear gets cheaper by a thousandth of the way at each pass without a draft, so it is tried again
 * some day. A pass of one row now and then keeps T(1) true while drafts go on.
 * Both are guesses, and the best of many guesses is mostly too good. So drafts live on credit: what
 * their passes lost against passes of one row is kept, what they gained pays it back, and beyond
 * three passes there are no more until passes without a draft, each by 1 / 128, have paid.
 * Invariant: whatever the text, no more time is lost than that: three passes, 1 % of all, and what
 * was gained just before. Lengths decide the speed alone.
 * Cost: O(most) per pass, nothing is allocated. */
#include "sampling/draft_pace.h"

#include "base/minmax.h"

static const double memory = 64;          /* tokens that a rate looks back at */
static const double gain_least = 1.03;    /* below it a draft isn't clearly faster */
static const double row_cheap = 1.0 / 16; /* a further row that isn't measured, of a pass of one */
static const double weight = 0.25;        /* of the last sample */
static const double forget = 1.0 / 1024;
static const double lost_most = 3, gained_most = 4, pays = 1.0 / 128; /* in passes of one row */
enum { PLAIN_EVERY = 32, SETTLED = 4 };

/* Classes of 2, 3, 4, 5-6, 7-9, 10-15, 16-31 and more tokens. */
static int class_of(int32_t agreed) {
    static const int32_t ends[MNEM__DRAFT_CLASSES - 1] = {3, 4, 5, 7, 10, 16, 32};
    int index = 0;
    while (index < MNEM__DRAFT_CLASSES - 1 && agreed >= ends[index]) index++;
    return index;
}

void mnem__draft_pace_saw(mnem__draft_pace *pace, int32_t agreed, bool right) {
    const int index = class_of(agreed);
    if (pace->seen[index] >= memory) {
        pace->seen[index] /= 2;
        pace->right[index] /= 2;
    }
    pace->seen[index]++;
    pace->right[index] += right;
}

/* As many right as wrong before anything was seen. */
static double rate_of(const mnem__draft_pace *pace, int32_t agreed) {
    const int index = class_of(agreed);
    return (pace->right[index] + 1) / (pace->seen[index] + 2);
}

static void keep_account(mnem__draft_pace *pace, int32_t rows, int32_t tokens, double seconds) {
    if (rows == 1)
        pace->lost -= pace->lost > 0 ? pays : 0;
    else if (pace->seconds[1] > 0)
        pace->lost += seconds / pace->seconds[1] - tokens;
    if (pace->lost < -gained_most) pace->lost = -gained_most;
}

void mnem__draft_pace_took(mnem__draft_pace *pace, int32_t rows, int32_t tokens, double seconds) {
    double *mean = &pace->seconds[rows];
    const int32_t n = ++pace->samples[rows];
    pace->since_plain = rows == 1 ? 0 : pace->since_plain + 1;
    if (n > SETTLED && seconds > 2 * *mean) seconds = 2 * *mean; /* another program's turn */
    *mean += (seconds - *mean) * (n < SETTLED ? 1.0 / n : weight);
    keep_account(pace, rows, tokens, seconds);
}

/* rows from 2; one row is measured. */
static double pass_seconds(const mnem__draft_pace *pace, int32_t rows) {
    int32_t below = rows, above = rows;
    while (pace->samples[below] == 0) below--;
    while (above < MNEM__DRAFT_ROWS && pace->samples[above] == 0) above++;
    const double from = pace->seconds[below];
    double row = pace->seconds[1] * row_cheap;
    if (above < MNEM__DRAFT_ROWS && above > below)
        row = (pace->seconds[above] - from) / (above - below);
    return from + row * (rows - below);
}

/* Up to twice as many as were measured: what rows cost isn't learned by the dearest pass. */
static int32_t rows_most(const mnem__draft_pace *pace) {
    int32_t rows = MNEM__DRAFT_ROWS - 1;
    while (pace->samples[rows] == 0) rows--;
    return mnem__min_i32(2 * rows, MNEM__DRAFT_ROWS - 1);
}

/* Whoever was found too dear comes again after a while. */
static void forget_costs(mnem__draft_pace *pace) {
    for (int32_t rows = 2; rows < MNEM__DRAFT_ROWS; rows++) {
        const double cheap = pace->seconds[1] * (1 + row_cheap * (rows - 1));
        if (pace->samples[rows] > 0 && pace->seconds[rows] > cheap)
            pace->seconds[rows] += (cheap - pace->seconds[rows]) * forget;
    }
}

int32_t mnem__draft_pace_length(mnem__draft_pace *pace, int32_t agreed, int32_t most) {
    double chance = 1, tokens = 1, best;
    int32_t length = 0;
    if (pace->samples[1] < SETTLED || pace->since_plain >= PLAIN_EVERY) return 0;
    if (pace->lost > lost_most) return 0;
    best = gain_least / pace->seconds[1];
    for (int32_t k = 1; k <= mnem__min_i32(most, rows_most(pace) - 1); k++) {
        chance *= rate_of(pace, agreed + k - 1);
        tokens += chance;
        const double rate = tokens / pass_seconds(pace, k + 1);
        if (rate > best) {
            best = rate;
            length = k;
        }
    }
    if (length == 0) forget_costs(pace);
    return length;
}
