/* models_list.h: the models that `mnem serve --models` names: of a folder, or of a file.
 *
 *     FOLDER   each *.gguf in it, by its name without .gguf, and each folder that has a config.json
 *     FILE     {"models": [
 *                {"path": "a.gguf", "name": "a", "adapters": ["poet.gguf:0.5"], "context": 8192,
 *                 "pin": true, "idle": 600}]}
 *
 * Of a FILE paths are relative to its folder; all but the path may be left out. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_LIST_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_LIST_H

#include "server/api/api_models.h"
#include "stage.h"

typedef struct models_entry {
    char name[API_MODEL_NAME];
    char *path;
    char *adapter[TOOL_ADAPTERS_MAX]; /* as --lora takes them */
    int adapters;
    int32_t context; /* 0: the plan's */
    int32_t idle;    /* seconds without a request until it is unloaded; 0: none */
    bool pin;
} models_entry;

typedef struct models_list {
    models_entry entry[API_MODELS];
    int count;
} models_list;

/* Exit code, with the message printed. fini is needed in any case. */
int models_list_read(const char *path, models_list *list);
void models_list_fini(models_list *list);

#endif
