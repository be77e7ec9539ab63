/* fuzz_safetensors.c: any bytes as the header of a safetensors file, with 4 KiB of data behind it,
 * in the folder of a model: what opens has keys that are found, and tensors whose bytes can be
 * read.
 *
 *     fuzz_safetensors -max_len=2048 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/safetensors */
#include <string.h>

#include "fuzz_folder.h"

enum { HEADER_MAX = 1 << 16, DATA_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static uint8_t file[8 + HEADER_MAX + DATA_BYTES];
    if (n > HEADER_MAX) return 0;
    const uint64_t header = n;
    memcpy(file, &header, sizeof header);
    if (n) memcpy(file + 8, data, n);
    memset(file + 8 + n, 0, DATA_BYTES);
    fuzz_folder();
    fuzz_folder_put("model.safetensors", file, 8 + n + DATA_BYTES);
    fuzz_folder_open();
    return 0;
}
