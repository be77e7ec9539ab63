/* arch_mistral3.c: Mistral 3 and Ministral 3: Llama with YaRN, and scores that grow with the
 * logarithm of the position from the original context on. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mistral3 = {
    MNEM__LIKE_LLAMA,
    .names = {"mistral3"},
    .takes = MNEM__TAKES_TEMPERATURE,
};
