/* gguf_writer.h: what is written into a file: keys first, then every tensor's declaration, then the
 * data in the order of declaration. */
#ifndef MNEM_SRC_MODEL_GGUF_GGUF_WRITER_H
#define MNEM_SRC_MODEL_GGUF_GGUF_WRITER_H

#include "mnem/model.h"

/* An array of texts must come from mnem_model_key_*, or use mnem__gguf_write_key_texts.
 * general.alignment sets the file's alignment. After a failure every call returns the same status.
 */
mnem_status mnem__gguf_write_key(mnem_gguf_writer *writer, const char *key,
                                 const mnem_value *value);
mnem_status mnem__gguf_write_key_u32(mnem_gguf_writer *writer, const char *key, uint32_t number);
mnem_status mnem__gguf_write_key_f32(mnem_gguf_writer *writer, const char *key, float number);
mnem_status mnem__gguf_write_key_texts(mnem_gguf_writer *writer, const char *key,
                                       const mnem_text *texts, uint64_t count);
mnem_status mnem__gguf_write_tensor(mnem_gguf_writer *writer, const char *name, mnem_type type,
                                    int dims, const int64_t *shape);
/* The next bytes of the tensor data; pads by itself between tensors. */
mnem_status mnem__gguf_write_data(mnem_gguf_writer *writer, const void *data, uint64_t bytes);
/* As mnem_gguf_finish, before any data: all of it is a hole, which reads as zeros and takes no room
 * where the file system has holes. Keys and declarations are true, so that what reads only those (a
 * plan) says what it would of the model. */
mnem_status mnem__gguf_finish_hollow(mnem_gguf_writer *writer);

#endif
