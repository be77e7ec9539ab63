/* fuzz_folder.c: see fuzz_folder.h. A file is a link to memory that is written over. */
#include "fuzz_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/tokenizer.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 8, \"hidden_size\": 4,"
    " \"intermediate_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
    " \"num_key_value_heads\": 1, \"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-6}";
static const char tokenizer[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\":"
    " [\"a b\"]}, \"added_tokens\": [{\"id\": 3, \"content\": \"<s>\", \"special\": true}],"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}";

static struct {
    const char *name;
    int fd;
} files[] = {{"config.json", -1}, {"tokenizer.json", -1}, {"model.safetensors", -1}};

/* A header and as many zeros as its tensors take: the embedding, one layer, the last norm. */
static size_t make_weights(char *out, size_t room) {
    static const struct {
        const char *name;
        int rows, columns;
    } tensors[] = {{"embed_tokens", 8, 4},
                   {"layers.0.input_layernorm", 0, 4},
                   {"layers.0.mlp.down_proj", 4, 4},
                   {"layers.0.mlp.gate_proj", 4, 4},
                   {"layers.0.mlp.up_proj", 4, 4},
                   {"layers.0.post_attention_layernorm", 0, 4},
                   {"layers.0.self_attn.k_proj", 4, 4},
                   {"layers.0.self_attn.o_proj", 4, 4},
                   {"layers.0.self_attn.q_proj", 4, 4},
                   {"layers.0.self_attn.v_proj", 4, 4},
                   {"norm", 0, 4}};
    size_t at = 8, data = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char shape[32];
        const size_t bytes = 2 * 4 * (size_t)(tensors[i].rows ? tensors[i].rows : 1);
        snprintf(shape, sizeof shape, tensors[i].rows ? "%d, 4" : "4", tensors[i].rows);
        at += (size_t)snprintf(
            out + at, room - at,
            "%s\"model.%s.weight\": {\"dtype\": \"BF16\", \"shape\": [%s], \"data_offsets\": "
            "[%zu, %zu]}",
            i ? ", " : "{", tensors[i].name, shape, data, data + bytes);
        data += bytes;
    }
    at += (size_t)snprintf(out + at, room - at, "}");
    const uint64_t header = at - 8;
    memcpy(out, &header, sizeof header);
    memset(out + at, 0, data);
    return at + data;
}

void fuzz_folder_put(const char *name, const void *data, size_t n) {
    static char weights[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (strcmp(name, files[i].name) != 0) continue;
        if (!data && i == 2) n = make_weights(weights, sizeof weights);
        if (!data) data = i == 0 ? config : i == 1 ? tokenizer : weights;
        if (!n) n = strlen(data);
        CHECK(ftruncate(files[i].fd, 0) == 0 && pwrite(files[i].fd, data, n, 0) == (ssize_t)n);
    }
}

static char path[] = "/tmp/mnem-fuzz-folder-XXXXXX";

static void link_of(size_t file, char link[64]) {
    snprintf(link, 64, "%s/%s", path, files[file].name);
}

/* At the end of the process; one that crashes leaves its folder. */
static void remove_folder(void) {
    char link[64];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        link_of(i, link);
        unlink(link);
    }
    rmdir(path);
}

const char *fuzz_folder(void) {
    static int made;
    if (made++) return path;
    CHECK(mkdtemp(path) && atexit(remove_folder) == 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char link[64], target[32];
        files[i].fd = memfd_create(files[i].name, 0);
        link_of(i, link);
        snprintf(target, sizeof target, "/proc/self/fd/%d", files[i].fd);
        CHECK(files[i].fd >= 0 && symlink(target, link) == 0);
        fuzz_folder_put(files[i].name, NULL, 0);
    }
    return path;
}

static void read_tensors(const mnem_model *model) {
    static uint8_t bytes[1 << 16];
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
        for (uint64_t at = 0; at < info.bytes && at < 8 * sizeof bytes; at += sizeof bytes - 3) {
            const uint64_t left = info.bytes - at, n = sizeof bytes - 3;
            CHECK(mnem_model_tensor_read(model, i, at, left < n ? left : n, bytes) == MNEM_OK);
        }
}

static void read_keys(const mnem_model *model) {
    mnem_text key;
    mnem_value value;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++)
        CHECK(key.length == strlen(key.bytes) && mnem_model_key_find(model, key.bytes, &value));
}

void fuzz_folder_open(void) {
    mnem_model *model;
    mnem_transformer transformer;
    mnem_tokenizer *tokenizer_made;
    if (mnem_model_open(fuzz_folder(), &model) != MNEM_OK) {
        CHECK(*mnem_last_error());
        return;
    }
    read_tensors(model);
    read_keys(model);
    if (mnem_model_transformer(model, &transformer) != MNEM_OK) CHECK(*mnem_last_error());
    if (mnem_tokenizer_create(model, &tokenizer_made) == MNEM_OK)
        mnem_tokenizer_destroy(tokenizer_made);
    mnem_model_close(model);
}
