/* fuzz_folder.h: a folder of a tiny model whose files are in memory, for targets that take one file
 * of it. */
#ifndef MNEM_FUZZ_FUZZ_FOLDER_H
#define MNEM_FUZZ_FUZZ_FOLDER_H

#include <stddef.h>
#include <stdint.h>

/* The folder, with config.json, tokenizer.json and model.safetensors of a model that opens. Made
 * once a process. */
const char *fuzz_folder(void);
/* Other bytes for one of its files; config.json and the others come back with NULL. */
void fuzz_folder_put(const char *name, const void *data, size_t n);
/* Opens the folder, looks at every key and every byte of its tensors, makes the tokenizer. */
void fuzz_folder_open(void);

#endif
