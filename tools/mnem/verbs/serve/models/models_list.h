/* models_list.h: the models of `mnem serve --models`: those of a folder, or the list in a file.
 *
 *     FOLDER   each *.gguf in it, named without .gguf, and each folder that has a config.json
 *     FILE     {"models": [
 *                {"path": "a.gguf", "name": "a", "adapters": ["poet.gguf:0.5"], "context": 8192,
 *                 "pin": true, "idle": 600}]}
 *
 * Paths in a FILE are relative to its folder. Only "path" is required. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_LIST_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_LIST_H

#include "server/api/api_models.h"
#include "stage.h"

typedef struct models_entry {
    char name[API_MODEL_NAME];
    char *path;
    char *adapter[TOOL_ADAPTERS_MAX]; /* each as an argument of --lora */
    int adapters;
    int32_t context; /* 0: the plan's */
    int32_t idle;    /* seconds without a request until it is unloaded; 0: no limit */
    bool pin;
} models_entry;

typedef struct models_list {
    models_entry entry[API_MODELS];
    int count;
} models_list;

/* Returns an exit code, and prints the message of an error. Call fini after an error, too. */
int models_list_read(const char *path, models_list *list);
void models_list_fini(models_list *list);

#endif
