/* fuzz_hf_config.c: any bytes as config.json, in the folder of a model: what opens has keys that
 * are found, and tensors whose bytes can be read.
 *
 *     fuzz_hf_config -max_len=4096 -dict=fuzz/json.dict NEW_FOLDER fuzz/corpus/hf_config */
#include <string.h>

#include "fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_folder();
    if (n) fuzz_folder_put("config.json", data, n);
    fuzz_folder_open();
    return 0;
}
