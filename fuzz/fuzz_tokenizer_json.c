/* fuzz_tokenizer_json.c: any bytes as tokenizer.json, in the folder of a model: what opens has keys
 * that are found, and tensors whose bytes can be read.
 *
 *     fuzz_tokenizer_json -max_len=4096 -dict=fuzz/json.dict NEW fuzz/corpus/tokenizer_json */
#include <string.h>

#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_folder();
    if (n) fuzz_folder_put("tokenizer.json", data, n);
    fuzz_folder_open();
    return 0;
}
