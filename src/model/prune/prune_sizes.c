/* prune_sizes.c: how many heads, channels and layers stay, and what can't lose any.
 *
 * Heads that share keys and values go together, so that every reader's ratio of the two holds. What
 * follows from the number of heads or of layers elsewhere (norms over all heads, windows that come
 * every few layers) would become something else: the table of supports.c refuses
 * it. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "mnem/supports.h"
#include "model/prune/prune_private.h"

enum { CHANNELS_SMALL = 32, CHANNELS_LARGE = 256, FF_LARGE = 2048 };

/* What is left of n when the part goes, in steps of `step`; at least one step. */
static int32_t left(int32_t n, double part, int32_t step) {
    const double steps = round((1 - part) * (double)n / (double)step);
    return steps < 1 ? step : (int32_t)steps * step;
}

/* Something goes. what: "heads", step: how many go at once. */
static mnem_status check_left(int32_t n, int32_t stay, double part, const char *what,
                              int32_t step) {
    if (stay < n) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "prune: %g %% of %d %s is less than one group: they are removed in groups of "
                      "%d, so give more than %.3g %%",
                      100 * part, n, what, step, 50 * (double)step / n);
}

/* ---- heads ---- */

static mnem_status size_heads(mnem__prune_choice *c) {
    const double part = c->options->heads;
    if (part == 0) return MNEM_OK;
    MNEM__TRY(mnem_transformer_supports(&c->from, MNEM_FEATURE_PRUNE_HEADS));
    const int32_t each = c->from.heads / c->from.kv_heads;
    const int32_t groups = left(c->from.kv_heads, part, 1);
    MNEM__TRY(check_left(c->from.heads, groups * each, part, "heads", each));
    c->to.kv_heads = groups;
    c->to.heads = groups * each;
    return MNEM_OK;
}

/* ---- channels ---- */

/* Of what a block of most types needs, that by which the source can be divided. */
static int32_t channel_step(int32_t ff) {
    int32_t step = ff >= FF_LARGE ? CHANNELS_LARGE : CHANNELS_SMALL;
    while (ff % step != 0) step /= 2;
    return step;
}

static mnem_status size_channels(mnem__prune_choice *c) {
    const double part = c->options->ffn;
    if (part == 0) return MNEM_OK;
    MNEM__TRY(mnem_transformer_supports(&c->from, MNEM_FEATURE_PRUNE_CHANNELS));
    const int32_t step = channel_step(c->from.ff);
    c->to.ff = left(c->from.ff, part, step);
    return check_left(c->from.ff, c->to.ff, part, "channels", step);
}

/* ---- layers ---- */

static mnem_status size_layers(mnem__prune_choice *c) {
    const double part = c->options->layers;
    if (part == 0) return MNEM_OK;
    MNEM__TRY(mnem_transformer_supports(&c->from, MNEM_FEATURE_PRUNE_LAYERS));
    c->to.layers = left(c->from.layers, part, 1);
    return check_left(c->from.layers, c->to.layers, part, "layers", 1);
}

/* ---- all ---- */

static mnem_status check_options(const mnem_prune_options *o) {
    const bool less = o->heads != 0 || o->ffn != 0 || o->layers != 0;
    const bool parts = o->heads >= 0 && o->heads < 1 && o->ffn >= 0 && o->ffn < 1 &&
                       o->layers >= 0 && o->layers < 1;
    if (!parts)
        return mnem__fail(MNEM_INVALID,
                          "prune: heads is %g, ffn %g and layers %g, expected fractions from 0 to "
                          "below 1",
                          o->heads, o->ffn, o->layers);
    if (o->pattern != MNEM_PRUNE_DENSE && o->pattern != MNEM_PRUNE_2_4)
        return mnem__fail(
            MNEM_INVALID,
            "prune: pattern %d does not exist, expected a constant of mnem_prune_pattern",
            (int)o->pattern);
    if (less && o->pattern == MNEM_PRUNE_2_4)
        return mnem__fail(
            MNEM_INVALID,
            "prune: 2:4 can't be combined with heads, channels or layers: prune in two runs");
    if (o->compact && o->pattern != MNEM_PRUNE_2_4)
        return mnem__fail(MNEM_INVALID, "prune: the option compact needs the pattern 2:4");
    if (!less && o->pattern == MNEM_PRUNE_DENSE)
        return mnem__fail(
            MNEM_INVALID,
            "prune: the options remove nothing: set heads, ffn, layers or the pattern 2:4");
    return MNEM_OK;
}

static mnem_status find_recipe(mnem__prune_choice *c) {
    const char *type = c->options->type;
    c->recipe = NULL;
    if (!type || strcasecmp(type, "same") == 0) return MNEM_OK;
    return mnem__recipe_find("prune", type, &c->recipe);
}

mnem_status mnem__prune_sizes(mnem__prune_choice *c) {
    MNEM__TRY(check_options(c->options));
    MNEM__TRY(find_recipe(c));
    MNEM__TRY(mnem_model_transformer(c->model, &c->from));
    c->architecture = mnem__architecture_find(c->from.architecture);
    c->to = c->from;
    MNEM__TRY(size_heads(c));
    MNEM__TRY(size_channels(c));
    return size_layers(c);
}
