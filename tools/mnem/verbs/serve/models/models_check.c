/* models_check.c: refuses options that don't apply to several models, or mean something else. */
#include "ranks/ranks.h"
#include "verbs/serve/models/models_serve.h"

static const struct {
    const char *option, *instead;
} alone[] = {
    {"alias", "name the models in a FILE"},
    {"lora", "list adapters of a model in a FILE"},
    {"template", "the models' own templates are used"},
    {"keep-cache",
     "--swap FOLDER keeps the prefix caches of unloaded models until the server ends"},
    {"pretokenizer", "each model's own pretokenizer is used"},
    {"trace", "a trace records one model: trace a server of that model"},
};

int models_check(const serve_options *o) {
    struct stat info;
    if (o->args.operands > 0)
        return tool_usage("serve", "MODEL and --models can't be combined: leave one out");
    if (tool_ranks())
        return tool_usage("serve", "--models is for one process: start it without mpirun");
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (tool_given(&o->args, alone[i].option))
            return tool_usage("serve", "--%s can't be combined with --models: %s", alone[i].option,
                              alone[i].instead);
    if (o->swap && (stat(o->swap, &info) != 0 || !S_ISDIR(info.st_mode)))
        return tool_usage("serve", "with --models, --swap takes a FOLDER that exists, not \"%s\"",
                          o->swap);
    return tool_breakers_check("serve", &o->breakers);
}
