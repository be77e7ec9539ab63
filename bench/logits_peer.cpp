// logits_peer.cpp: llama.cpp's logits of test_families' text beside those of transformers: f32 keys
// and values, no flash. Arguments: MODEL.gguf MODEL.logits, of tests/data/architectures or made by
// the script there. One line a pair: the relative error of the norm.
//
//     c++ -O2 -I LLAMA_CPP/include -I LLAMA_CPP/ggml/include bench/logits_peer.cpp
//         BUILD/src/libllama.a BUILD/ggml/src/libggml.a BUILD/ggml/src/libggml-cpu.a
//         BUILD/ggml/src/libggml-base.a -fopenmp -lpthread -ldl -o logits_peer
#include <cmath>
#include <cstdio>
#include <vector>

#include "llama.h"

static const int TOKENS = 200, EVERY = 5;

static llama_context *open_model(const char *path) {
    llama_model_params model = llama_model_default_params();
    model.n_gpu_layers = 0;
    llama_model *loaded = llama_model_load_from_file(path, model);
    if (!loaded) return nullptr;
    llama_context_params context = llama_context_default_params();
    context.n_ctx = context.n_batch = context.n_ubatch = 256;
    context.type_k = context.type_v = GGML_TYPE_F32;
    context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context.n_threads = context.n_threads_batch = 1;
    return llama_init_from_model(loaded, context);
}

// Token i is (7 i i + 13 i + 5) mod the vocabulary.
static bool run(llama_context *context, int vocabulary) {
    llama_batch batch = llama_batch_init(TOKENS, 0, 1);
    batch.n_tokens = TOKENS;
    for (int i = 0; i < TOKENS; i++) {
        batch.token[i] = (7 * i * i + 13 * i + 5) % vocabulary;
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    return llama_decode(context, batch) == 0;
}

static bool compare(const char *model, const char *vectors) {
    int shape[2] = {0, 0};
    double difference = 0, size = 0;
    FILE *file = fopen(vectors, "rb");
    llama_context *context = open_model(model);
    if (!file || !context || fread(shape, sizeof *shape, 2, file) != 2) return false;
    std::vector<float> row(shape[1]);
    if (!run(context, shape[1])) return false;
    for (int r = 0; r < shape[0] && fread(row.data(), sizeof(float), row.size(), file); r++) {
        const float *ours = llama_get_logits_ith(context, r * EVERY + EVERY - 1);
        for (int i = 0; i < shape[1]; i++) {
            difference += std::pow((double)ours[i] - row[i], 2);
            size += std::pow((double)row[i], 2);
        }
    }
    fclose(file);
    printf("%s %.2g\n", model, std::sqrt(difference / size));
    return true;
}

int main(int count, char **arguments) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    for (int i = 1; i + 1 < count; i += 2)
        if (!compare(arguments[i], arguments[i + 1])) printf("%s isn't run\n", arguments[i]);
}
