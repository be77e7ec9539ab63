// tokenize_peer.cpp: ids of many texts, by llama.cpp, for compare_tokenizers.py.
// stdin: for each text a byte of flags (1: add BOS and EOS, 2: parse special tokens), its length as
// 4 bytes, its bytes. stdout: a line of ids for each.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "llama.h"

int main(int, char **argv) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    llama_model *model = llama_model_load_from_file(argv[1], params);
    if (!model) return 1;
    const llama_vocab *vocab = llama_model_get_vocab(model);
    unsigned char flags;
    uint32_t n;
    while (fread(&flags, 1, 1, stdin) == 1 && fread(&n, 4, 1, stdin) == 1) {
        std::string text(n, 0);
        if (n && fread(&text[0], 1, n, stdin) != n) return 1;
        std::vector<llama_token> ids(n + 8);
        const int count = llama_tokenize(vocab, text.data(), (int)n, ids.data(), (int)ids.size(),
                                         flags & 1, flags & 2);
        if (count < 0) return 1;
        for (int i = 0; i < count; i++) printf("%d ", ids[i]);
        printf("\n");
    }
    llama_model_free(model);
}
