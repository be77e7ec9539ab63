/* make_model_options.c: the arguments of make_model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/make_model.h"

static const char HELP[] =
    "usage: make_model OUT [--arch NAME] [--embd N] [--layers N] [--heads N]\n"
    "  [--kv-heads N] [--head-dim N] [--ff N] [--vocab N] [--context N] [--type TYPE]\n"
    "  [--experts N] [--experts-used N] [--ff-expert N] [--ff-shared N]\n"
    "  [--state-groups N] [--state-heads N] [--state-dim N] [--state-columns N]\n"
    "  [--attend-every N] [--window N] [--window-head-dim N] [--kv-shared N] [--layer-embd N]\n"
    "  [--latent N] [--index-heads N] [--index-dim N] [--index-top-k N]\n"
    "  [--output-type TYPE] [--router-type TYPE] [--tied] [--bias] [--rope-scaling "
    "yarn|linear|llama3]\n"
    "  [--tokenizer llama|gpt2] [--chat-template TEXT] [--alignment N] [--seed N]\n"
    "  [--hollow]   no data: a hole as large, for plans of models that no disk here holds\n";

static bool take_number(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        long *to;
    } numbers[] = {
        {"--embd", &o->embd},
        {"--layers", &o->layers},
        {"--heads", &o->heads},
        {"--kv-heads", &o->kv_heads},
        {"--head-dim", &o->head_dim},
        {"--ff", &o->ff},
        {"--vocab", &o->vocab},
        {"--context", &o->context},
        {"--alignment", &o->alignment},
        {"--seed", &o->seed},
        {"--experts", &o->experts},
        {"--experts-used", &o->experts_used},
        {"--ff-expert", &o->ff_expert},
        {"--ff-shared", &o->ff_shared},
        {"--state-dim", &o->state_dim},
        {"--state-columns", &o->state_columns},
        {"--state-groups", &o->state_groups},
        {"--state-heads", &o->state_heads},
        {"--attend-every", &o->attend_every},
        {"--window", &o->window},
        {"--window-head-dim", &o->window_head_dim},
        {"--kv-shared", &o->kv_shared},
        {"--layer-embd", &o->layer_embd},
        {"--latent", &o->latent},
        {"--index-heads", &o->index_heads},
        {"--index-dim", &o->index_dim},
        {"--index-top-k", &o->index_top_k},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = strtol(value, NULL, 10);
            return true;
        }
    return false;
}

static bool take_text(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"--arch", &o->arch},
        {"--type", &o->type},
        {"--output-type", &o->output_type},
        {"--router-type", &o->router_type},
        {"--rope-scaling", &o->rope_scaling},
        {"--tokenizer", &o->tokenizer},
        {"--chat-template", &o->chat_template},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].to = value;
            return true;
        }
    return false;
}

static bool take_flag(options *o, const char *name) {
    bool *flag = strcmp(name, "--tied") == 0     ? &o->tied
                 : strcmp(name, "--bias") == 0   ? &o->bias
                 : strcmp(name, "--hollow") == 0 ? &o->hollow
                                                 : NULL;
    if (flag) *flag = true;
    return flag != NULL;
}

options parse_options(int argc, char **argv) {
    options o = {.arch = "llama",
                 .type = "Q4_0",
                 .embd = 256,
                 .layers = 4,
                 .heads = 8,
                 .kv_heads = 0,
                 .ff = 768,
                 .vocab = 2048,
                 .context = 2048,
                 .experts = 8,
                 .experts_used = 2};
    for (int i = 1; i < argc; i++) {
        if (take_flag(&o, argv[i])) continue;
        if (argv[i][0] != '-' && !o.out) {
            o.out = argv[i];
            continue;
        }
        bool known = i + 1 < argc &&
                     (take_number(&o, argv[i], argv[i + 1]) || take_text(&o, argv[i], argv[i + 1]));
        if (!known) {
            fputs(HELP, stderr);
            die(argv[i]);
        }
        i++;
    }
    if (!o.out) {
        fputs(HELP, stderr);
        exit(2);
    }
    if (o.kv_heads == 0) o.kv_heads = o.heads;
    if (o.head_dim == 0) o.head_dim = o.embd / o.heads;
    if (o.ff_expert == 0) o.ff_expert = o.ff;
    if (o.ff_shared == 0) o.ff_shared = o.ff_expert;
    if (o.state_groups == 0) o.state_groups = o.kv_heads;
    if (o.state_heads == 0) o.state_heads = o.heads;
    if (o.state_dim == 0) o.state_dim = o.head_dim;
    if (o.state_columns == 0) o.state_columns = o.state_dim;
    if (o.attend_every == 0) o.attend_every = 2;
    if (o.window == 0) o.window = 9;
    if (o.window_head_dim == 0) o.window_head_dim = o.head_dim;
    if (o.latent == 0) o.latent = o.head_dim;
    if (o.index_heads == 0) o.index_heads = 4;
    if (o.index_dim == 0) o.index_dim = o.head_dim;
    if (o.index_top_k == 0) o.index_top_k = 2048;
    if (!o.output_type) o.output_type = o.type;
    if (!o.router_type) o.router_type = "F32";
    if (!o.tokenizer) o.tokenizer = strcmp(o.arch, "llama") == 0 ? "llama" : "gpt2";
    return o;
}
