/* fuzz_hf_config.c: any bytes as config.json, in the folder of a model: what opens has keys that
 * are found, and tensors whose bytes can be read. Weights and tokenizer are those of a stored
 * folder where the input names its kind, so that what its tensors become is reached.
 *
 *     fuzz_hf_config -max_len=4096 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/hf_config */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct {
    const char *word, *folder;
} kinds[] = {{"GptOssF", "gpt_oss_mxfp4"},
             {"DeepseekV", "deepseek3"},
             {"BertM", "bert"},
             {"Qwen3Moe", "qwen3moe"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put_stored(const char *folder, const char *name) {
    static char bytes[1 << 19];
    char path[512];
    snprintf(path, sizeof path, MNEM_TEST_DATA "/folders/%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) abort();
    fuzz_folder_put(name, bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
}

static void put_rest(int kind) {
    static const char *const names[] = {"model.safetensors", "tokenizer.json"};
    static int there = KINDS; /* the folder's own */
    if (kind == there) return;
    there = kind;
    for (int i = 0; i < 2; i++) {
        if (kind < KINDS)
            put_stored(kinds[kind].folder, names[i]);
        else
            fuzz_folder_put(names[i], NULL, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    int kind = 0;
    fuzz_folder();
    while (kind < KINDS && !memmem(data, n, kinds[kind].word, strlen(kinds[kind].word))) kind++;
    put_rest(kind);
    if (n) fuzz_folder_put("config.json", data, n);
    fuzz_folder_open();
    return 0;
}
