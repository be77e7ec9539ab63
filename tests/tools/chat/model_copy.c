/* model_copy.c: see model_copy.h. */
#include "tools/chat/model_copy.h"

#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/mnem.h"
#include "model/gguf/gguf_writer.h"
#include "tools/tool_run.h"

/* Of each token what it is, 1 normal and 3 control. */
static void set_control(mnem_value *types, int32_t token) {
    enum { TOKENS_MAX = 4096, CONTROL = 3 };
    static int32_t copy[TOKENS_MAX];
    assert_true(types->count <= TOKENS_MAX && (uint64_t)token < types->count);
    memcpy(copy, types->elements, types->count * sizeof *copy);
    copy[token] = CONTROL;
    types->elements = copy;
}

static void copy_keys(const mnem_model *model, mnem_gguf_writer *writer, uint32_t context,
                      int32_t control) {
    mnem_text key;
    mnem_value value;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)key.length, key.bytes);
        if (strcmp(name, "llama.context_length") == 0) value.u = context;
        if (control >= 0 && strcmp(name, "tokenizer.ggml.token_type") == 0)
            set_control(&value, control);
        assert_int_equal(mnem__gguf_write_key(writer, name, &value), MNEM_OK);
    }
}

static void copy_tensors(const mnem_model *model, mnem_gguf_writer *writer) {
    static char data[1 << 20];
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        assert_int_equal(mnem__gguf_write_tensor(writer, t.name, t.type, t.dims, t.shape), MNEM_OK);
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        assert_true(t.bytes <= sizeof data);
        assert_int_equal(mnem_model_tensor_read(model, i, 0, t.bytes, data), MNEM_OK);
        assert_int_equal(mnem__gguf_write_data(writer, data, t.bytes), MNEM_OK);
    }
}

const char *model_copy(const char *template, uint32_t context) {
    return model_copy_with(template, context, -1);
}

const char *model_copy_with(const char *template, uint32_t context, int32_t control) {
    static char path[128];
    mnem_model *model;
    mnem_gguf_writer *writer;
    snprintf(path, sizeof path, "%s/chat.gguf", tool_scratch());
    assert_int_equal(mnem_model_open(tool_model, &model), MNEM_OK);
    assert_int_equal(mnem_gguf_create(path, &writer), MNEM_OK);
    copy_keys(model, writer, context, control);
    assert_int_equal(mnem_gguf_key_text(writer, "tokenizer.chat_template", template), MNEM_OK);
    copy_tensors(model, writer);
    assert_int_equal(mnem_gguf_finish(writer), MNEM_OK);
    mnem_model_close(model);
    return path;
}
