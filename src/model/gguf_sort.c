/* gguf_sort.c: indices in the order of names: finding is a binary search, duplicates are
 * neighbours.
 *
 * Heap sort (Williams, 1964): in place, O(n log n) for every input, so that a hostile file can't
 * make opening slow as it could with a hash table of a known hash. */
#include <string.h>

#include "model/gguf.h"

static void sift(uint32_t *index, uint32_t root, uint32_t n,
                 bool (*less)(const mnem_model *, uint32_t, uint32_t), const mnem_model *model) {
    for (uint32_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && less(model, index[child], index[child + 1])) child++;
        if (!less(model, index[root], index[child])) return;
        uint32_t t = index[root];
        index[root] = index[child];
        index[child] = t;
    }
}

void mnem__gguf_sort(uint32_t *index, uint32_t n,
                     bool (*less)(const mnem_model *, uint32_t, uint32_t),
                     const mnem_model *model) {
    for (uint32_t i = n / 2; i-- > 0;) sift(index, i, n, less, model);
    for (uint32_t end = n; end-- > 1;) {
        uint32_t t = index[0];
        index[0] = index[end];
        index[end] = t;
        sift(index, 0, end, less, model);
    }
}

bool mnem__gguf_key_less(const mnem_model *model, uint32_t a, uint32_t b) {
    return strcmp(model->key[a].name, model->key[b].name) < 0;
}

bool mnem__gguf_tensor_less(const mnem_model *model, uint32_t a, uint32_t b) {
    return strcmp(model->tensor[a].name, model->tensor[b].name) < 0;
}
