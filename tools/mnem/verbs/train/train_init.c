/* train_init.c: what a model to start from decides.
 *
 * Rule: the shape is the model's. A value of --config or of an option must be the same, or is
 * refused with both numbers; none is ignored. */
#include <math.h>
#include <string.h>

#include "verbs/train/train_tool.h"

enum { LORA_CONTEXT = 512 };

static int differs(const train_run *run, const char *name, const char *ours, const char *theirs) {
    return tool_failed(tool_given(run->args, name)
                           ? "--%s is %s, but the model %s of --init has %s, and the run uses the "
                             "model's shape: leave out this option"
                           : "the config's \"%s\" is %s, but the model %s of --init has %s, and "
                             "the run uses the model's shape: remove this key from the config",
                       name, ours, run->config.init, theirs);
}

static int check_count(const train_run *run, const char *name, int32_t ours, int32_t theirs) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    const bool said = train_config_given(&run->config, name) || tool_given(run->args, name);
    if (!said || ours == theirs) return TOOL_OK;
    snprintf(a, sizeof a, "%d", ours);
    snprintf(b, sizeof b, "%d", theirs);
    return differs(run, name, a, b);
}

/* Files keep them as f32. */
static int check_real(const train_run *run, const char *name, double ours, double theirs) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    if (!train_config_given(&run->config, name) || fabs(ours - theirs) <= 1e-6 * fabs(theirs))
        return TOOL_OK;
    snprintf(a, sizeof a, "%g", ours);
    snprintf(b, sizeof b, "%g", theirs);
    return differs(run, name, a, b);
}

/* A model may have rows for more tokens than its tokenizer knows: both numbers are its. */
static int check_vocab(const train_run *run, const mnem_model *model, const mnem_transformer *t) {
    mnem_tokenizer *tokenizer;
    mnem_tokenizer_info info = {0};
    const int32_t ours = run->config.vocab;
    const bool said = train_config_given(&run->config, "vocab") || tool_given(run->args, "vocab");
    if (!said || ours == t->vocab) return TOOL_OK;
    const mnem_status status = mnem_tokenizer_create(model, &tokenizer);
    if (status != MNEM_OK) return tool_fail(status);
    mnem_tokenizer_info_get(tokenizer, &info);
    mnem_tokenizer_destroy(tokenizer);
    return ours == info.vocab ? TOOL_OK : check_count(run, "vocab", ours, t->vocab);
}

static int check_shape(const train_run *run, const mnem_model *model, const mnem_transformer *t) {
    const train_config *c = &run->config;
    const struct {
        const char *name;
        int32_t ours, theirs;
    } counts[] = {{"layers", c->layers, t->layers},
                  {"embd", c->embd, t->embd},
                  {"heads", c->heads, t->heads},
                  {"kv_heads", c->kv_heads, t->kv_heads},
                  {"head_dim", train_config_head_dim(c), t->head_dim},
                  {"ff", c->ff, t->ff}};
    int code = TOOL_OK;
    if (train_config_given(c, "architecture") && strcmp(c->architecture, t->architecture) != 0)
        return differs(run, "architecture", c->architecture, t->architecture);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && code == TOOL_OK; i++)
        code = check_count(run, counts[i].name, counts[i].ours, counts[i].theirs);
    if (code == TOOL_OK) code = check_real(run, "epsilon", c->epsilon, (double)t->epsilon);
    if (code == TOOL_OK && t->rope.base > 0)
        code = check_real(run, "rope_base", c->rope_base, (double)t->rope.base);
    return code == TOOL_OK ? check_vocab(run, model, t) : code;
}

static void copy_shape(train_run *run, const mnem_transformer *t) {
    train_config *c = &run->config;
    snprintf(c->architecture, sizeof c->architecture, "%s", t->architecture);
    c->layers = t->layers;
    c->embd = t->embd;
    c->heads = t->heads;
    c->kv_heads = t->kv_heads;
    c->head_dim = t->head_dim * t->heads == t->embd ? 0 : t->head_dim;
    c->ff = t->ff;
    c->vocab = t->vocab;
    c->epsilon = (double)t->epsilon;
    if (t->rope.base > 0) c->rope_base = (double)t->rope.base; /* gpt2 has none */
    if (tool_given(run->args, "ctx") || train_config_given(c, "context")) return;
    c->context = t->window > 0 && t->window < t->context ? t->window : t->context;
    if (c->lora && c->context > LORA_CONTEXT) c->context = LORA_CONTEXT;
}

/* What `mnem info` says of it. */
static int check_supported(const train_run *run, const mnem_transformer *t) {
    const mnem_status status = mnem_transformer_supports(
        t, run->config.lora ? MNEM_FEATURE_TRAIN_ADAPTERS : MNEM_FEATURE_TRAIN);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* All weights are trained in shapes that the trainer makes itself; adapters take any. */
static int check_trainable(const train_run *run, const mnem_transformer *t) {
    const mnem_rope *r = &t->rope;
    const bool plain_rope = !r->neox && r->dims == t->head_dim && r->yarn_ext == 0 &&
                            (r->scale == 0 || r->scale == 1) && t->rope_factors < 0;
    if (run->config.lora) return TOOL_OK;
    if (!strcmp(t->architecture, "llama") && !plain_rope)
        return tool_failed("the model %s of --init has scaled or partial rotary positions (RoPE), "
                           "which mnem train does not support: use another model",
                           run->config.init);
    return TOOL_OK;
}

int train_init_shape(train_run *run) {
    mnem_model *model;
    mnem_transformer t;
    mnem_status status = mnem_model_open(run->config.init, &model);
    if (status != MNEM_OK) return tool_fail(status);
    status = mnem_model_transformer(model, &t);
    int code = status == MNEM_OK ? check_shape(run, model, &t) : tool_fail(status);
    mnem_model_close(model);
    if (code == TOOL_OK) code = check_supported(run, &t);
    if (code == TOOL_OK) code = check_trainable(run, &t);
    if (code == TOOL_OK) copy_shape(run, &t);
    return code;
}
