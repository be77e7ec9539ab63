/* influence.c: the change of direction that each layer makes to hidden states (block influence;
 * ShortGPT: Men et al. 2024).
 *
 * The idea: the influence of a layer is 1 - cos of the angle between a token's hidden states
 * before and behind it, averaged over tokens. A walk provides the states before a layer as the
 * inputs of its first matrix, scaled by a norm and multiplied by its weights; divided by these
 * weights they have the directions of the states (without the mean, if the norm removes it).
 * Invariant: each token belongs to one member, and tokens are added in order. Cost: a hidden
 * state for each of at most SAMPLES tokens, evenly spread over the text. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "mnem/compress.h"
#include "model/architecture/architecture.h"

enum { SAMPLES = 2048, CHUNK_DEFAULT = 512 };
static const char TAG[] = "calibration";

typedef struct seer {
    const mnem_model *model;
    mnem_transformer t;
    const mnem__architecture *architecture;
    int64_t chunk, every, samples; /* one of `every` tokens is a sample */
    float *factor, *bias;          /* [embd]: weights of the norm before a layer */
    float *before;                 /* [samples, embd]: directions */
    double *turned;                /* [samples]: 1 - cos of the change since `before` */
    double *influence;
} seer;

/* ---- one token ---- */

/* Element i of the norm's input, up to a factor. */
static double unbent(const seer *s, const float *x, int64_t i) {
    return ((double)x[i] - (double)s->bias[i]) * (double)s->factor[i];
}

static double mean_of(const seer *s, const float *x) {
    double sum = 0;
    for (int64_t i = 0; i < s->t.embd; i++) sum += unbent(s, x, i);
    return sum / s->t.embd;
}

static void take_sample(seer *s, int64_t sample, const float *x) {
    const int64_t embd = s->t.embd;
    float *before = s->before + sample * embd;
    double both = 0, old = 0, new = 0;
    const bool centred = mnem__norm_of(s->architecture, &s->t) == MNEM_OP_LAYER_NORM;
    const double mean = centred ? mean_of(s, x) : 0;
    for (int64_t i = 0; i < embd; i++) {
        const double is = unbent(s, x, i) - mean;
        const double was = (double)before[i];
        both += was * is;
        old += was * was;
        new += is *is;
        before[i] = (float)is;
    }
    s->turned[sample] = old > 0 && new > 0 ? 1 - both / sqrt(old * new) : 0;
}

/* The index of a token's sample, or -1. */
static int64_t sample_of(const seer *s, int64_t sequence, int64_t position) {
    const int64_t token = sequence * s->chunk + position;
    return token % s->every == 0 && token / s->every < s->samples ? token / s->every : -1;
}

/* ---- the watcher ---- */

static mnem_status read_vector(const seer *s, mnem__role role, int32_t layer, float *out) {
    const int32_t index = role ? mnem__role_tensor(s->model, role, layer) : -1;
    if (index < 0) return MNEM_OK;
    return mnem_model_tensor_read(s->model, (uint32_t)index, 0, (uint64_t)s->t.embd * sizeof(float),
                                  out);
}

/* Reads the weights of the norm before the layer's first part; layer < 0: no norm. */
static mnem_status read_norm(seer *s, int32_t layer) {
    const mnem__layer_part *part = s->architecture->parts;
    while (layer >= 0 && !mnem__layer_is(&s->t, layer, part->layers)) part++;
    const mnem__role norm = layer < 0 ? MNEM__ROLE_NONE : part->norm;
    for (int32_t i = 0; i < s->t.embd; i++) s->factor[i] = 1, s->bias[i] = 0;
    if (!norm) return MNEM_OK;
    MNEM__TRY(read_vector(s, norm, layer, s->factor));
    MNEM__TRY(read_vector(s, mnem__role_get(norm)->bias, layer, s->bias));
    for (int32_t i = 0; i < s->t.embd; i++) s->factor[i] = s->factor[i] != 0 ? 1 / s->factor[i] : 0;
    return MNEM_OK;
}

static void add_up(seer *s, int32_t layer) {
    double sum = 0;
    for (int64_t i = 0; i < s->samples; i++) sum += s->turned[i];
    s->influence[layer] = sum / (double)s->samples;
}

static mnem_status begin(void *context, const mnem_walk_layer *layer) {
    return read_norm(context, layer->layer);
}

static void input(void *context, const mnem_walk_input *seen, const mnem_worker *worker) {
    seer *s = context;
    int64_t first, last;
    if (seen->matrix != 0) return;
    mnem_team_split(worker, seen->rows, 1, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t sample = sample_of(s, seen->sequence, seen->position + i);
        if (sample >= 0) take_sample(s, sample, seen->x + i * seen->stride);
    }
}

/* The layer's inputs were compared with those of the layer before. */
static mnem_status end(void *context, const mnem_walk_layer *layer) {
    seer *s = context;
    if (layer->layer > 0) add_up(s, layer->layer - 1);
    return layer->layer + 1 < layer->layers ? MNEM_OK : read_norm(s, -1);
}

static mnem_status states(void *context, int64_t sequence, const float *rows) {
    seer *s = context;
    for (int64_t i = 0; i < s->chunk; i++) {
        const int64_t sample = sample_of(s, sequence, i);
        if (sample >= 0) take_sample(s, sample, rows + i * s->t.embd);
    }
    return MNEM_OK;
}

/* ---- the walk ---- */

static uint64_t bytes_of(const seer *s) {
    const uint64_t embd = (uint64_t)s->t.embd, samples = (uint64_t)s->samples;
    return (samples + 2) * embd * sizeof(float) + samples * sizeof(double);
}

static mnem_status take_room(seer *s) {
    s->turned = mnem__calloc(TAG, 1, bytes_of(s));
    if (!s->turned) return mnem__heap_status();
    s->before = (float *)(void *)(s->turned + s->samples);
    s->factor = s->before + s->samples * s->t.embd;
    s->bias = s->factor + s->t.embd;
    return MNEM_OK;
}

mnem_status mnem_influence(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, double *influence,
                           mnem_walk_report *report) {
    seer s = {.model = model,
              .chunk = options->chunk ? options->chunk : CHUNK_DEFAULT,
              .influence = influence};
    MNEM__TRY(mnem_model_transformer(model, &s.t));
    s.architecture = mnem__architecture_find(s.t.architecture);
    s.every = mnem__max_i64(1, sequences * s.chunk / SAMPLES);
    s.samples = mnem__min_i64(SAMPLES, sequences * s.chunk / s.every);
    MNEM__TRY(take_room(&s));
    const mnem_walk_watcher watcher = {
        .begin = begin, .input = input, .end = end, .states = states, .context = &s};
    const mnem_status status = mnem_walk(model, options, ids, sequences, &watcher, report);
    if (status == MNEM_OK && !options->plan_only) add_up(&s, s.t.layers - 1);
    mnem__free(s.turned);
    return status;
}
