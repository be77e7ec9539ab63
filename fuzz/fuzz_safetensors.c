/* fuzz_safetensors.c: any bytes as the header of a safetensors file, with 4 KiB of data behind it,
 * in the folder of a model: what opens has keys that are found, and tensors whose bytes can be
 * read. Names that only some families have choose the folder's kind.
 *
 *     fuzz_safetensors -max_len=2048 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/safetensors */
#include <stdio.h>
#include <string.h>

#include "fuzz_folder.h"

enum { HEADER_MAX = 1 << 16, DATA_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char config[] =
    "{\"architectures\": [\"%s\"], \"vocab_size\": 8, \"hidden_size\": 4,"
    " \"intermediate_size\": 4, \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
    " \"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-6, \"num_experts\": 2,"
    " \"num_experts_per_tok\": 1, \"moe_intermediate_size\": 4, \"kv_lora_rank\": 4,"
    " \"qk_nope_head_dim\": 4, \"qk_rope_head_dim\": 2, \"v_head_dim\": 4}";

static const struct {
    const char *word, *architecture;
} kinds[] = {{"kv_b_proj", "DeepseekV3ForCausalLM"},
             {"gate_up", "GptOssForCausalLM"},
             {"encoder.", "BertForMaskedLM"},
             {"experts.", "Qwen3MoeForCausalLM"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put_config(const uint8_t *data, size_t n) {
    static int there = KINDS; /* the folder's own */
    char text[1024];
    int kind = 0;
    while (kind < KINDS && !memmem(data, n, kinds[kind].word, strlen(kinds[kind].word))) kind++;
    if (kind == there) return;
    there = kind;
    if (kind < KINDS) snprintf(text, sizeof text, config, kinds[kind].architecture);
    fuzz_folder_put("config.json", kind < KINDS ? text : NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t file[8 + HEADER_MAX + DATA_BYTES];
    if (n > HEADER_MAX) return 0;
    const uint64_t header = n;
    memcpy(file, &header, sizeof header);
    if (n) memcpy(file + 8, data, n);
    memset(file + 8 + n, 0, DATA_BYTES);
    fuzz_folder();
    put_config(data, n);
    fuzz_folder_put("model.safetensors", file, 8 + n + DATA_BYTES);
    fuzz_folder_open();
    return 0;
}
