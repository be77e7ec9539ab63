/* prune_layers.c: which layers go.
 *
 * The idea: a layer that turns what comes in by little is missed by little. That can be measured
 * over a text (block influence; ShortGPT: Men et al. 2024). Without one it is estimated from
 * weights: the mean square of what a layer adds, were all directions of its input alike, over the
 * sum of those of the layers before it, which is about what x has grown to. The first and the last
 * layer stay while there are others: the first makes of tokens what all others work on, and the
 * last what the output matrix reads. Where layers have parts that this can't weigh (experts,
 * latents, convolutions), the deepest go, but for the last (Gromov et al. 2024). */
#include "base/error.h"
#include "model/prune/prune_private.h"

/* Of a layer's parts one that isn't attention or a plain feed-forward. */
static bool can_weigh(const mnem__prune_choice *c) {
    const mnem_transformer *t = &c->from;
    return !t->experts && !t->latent && !t->conv_length && !t->encoder;
}

static mnem_status estimate(const mnem__prune_choice *c, double *influence) {
    const int32_t layers = c->from.layers;
    double squares[MNEM_LAYERS_MAX], before = 0;
    for (int32_t i = 0; i < layers; i++) influence[i] = -i;
    if (can_weigh(c)) {
        MNEM__TRY(mnem__prune_weigh_layers(c, squares));
        for (int32_t i = 0; i < layers; before += squares[i++])
            influence[i] = squares[i] / (before > 0 ? before : 1);
    }
    influence[0] = influence[layers - 1] = 1e300;
    return MNEM_OK;
}

static int32_t least_of(const double *influence, const bool *gone, int32_t layers) {
    int32_t least = -1;
    for (int32_t i = 0; i < layers; i++)
        if (!gone[i] && (least < 0 || influence[i] < influence[least])) least = i;
    return least;
}

mnem_status mnem__prune_layers(mnem__prune_choice *c) {
    const int32_t layers = c->from.layers;
    const double *influence = c->options->influence;
    bool gone[MNEM_LAYERS_MAX] = {false};
    double estimated[MNEM_LAYERS_MAX];
    if (!influence && c->to.layers < layers) MNEM__TRY(estimate(c, estimated));
    if (!influence) influence = estimated;
    for (int32_t i = c->to.layers; i < layers; i++) gone[least_of(influence, gone, layers)] = true;
    int32_t stay = 0;
    for (int32_t i = 0; i < layers; i++)
        if (!gone[i]) c->layers[stay++] = i;
    return MNEM_OK;
}

bool mnem__prune_layer(const mnem__prune_choice *c, int32_t layer, int32_t *to) {
    for (*to = 0; *to < c->to.layers; (*to)++)
        if (c->layers[*to] == layer) return true;
    return false;
}
