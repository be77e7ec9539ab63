/* batch_run.c: a hash of everything that the answers of a run depend on. Each answer contains it.
 *
 * The high half is a hash of the digests of the model and its adapters, and of the adapters' scales
 * and paths (a request may name an adapter). The low half is a hash of the values of all options
 * that change a text; options that only change time or memory are left out. */
#include <string.h>

#include "server/api/file/api_file.h"
#include "verbs/batch/batch.h"

/* Options left out here. Context and KV type are hashed as the plan has them, and the template by
 * its text. */
static const char without[] = "model memory threads chunk snapshot-tokens page-cache cut ctx kv "
                              "parallel out dry-run template "
                              "trace json quiet verbose help lora alias";

static size_t value_bytes(tool_value kind) {
    switch (kind) {
    case TOOL_VALUE_FLAG: return sizeof(bool);
    case TOOL_VALUE_COUNT:
    case TOOL_VALUE_CHOICE:
    case TOOL_VALUE_KV: return sizeof(int32_t);
    case TOOL_VALUE_FLOAT: return sizeof(float);
    case TOOL_VALUE_REAL: return sizeof(double);
    case TOOL_VALUE_SIZE:
    case TOOL_VALUE_BUDGET:
    case TOOL_VALUE_NUMBER: return sizeof(uint64_t);
    default: return 0;
    }
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    return batch_hash(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static uint64_t hash_texts(uint64_t hash, const tool_texts *texts) {
    for (int i = 0; i < texts->count; i++) hash = hash_text(hash, texts->text[i]);
    return hash;
}

static uint64_t hash_option(uint64_t hash, const tool_option *o, const char *at) {
    hash = hash_text(hash, o->name);
    if (o->kind == TOOL_VALUE_LIST) return hash_texts(hash, (const tool_texts *)(const void *)at);
    if (o->kind == TOOL_VALUE_TEXT || o->kind == TOOL_VALUE_NAME)
        return hash_text(hash, *(const char *const *)(const void *)at);
    return batch_hash(hash, at, value_bytes(o->kind));
}

/* Of the types that were first the number of the type, as answers of earlier versions have it. */
static int32_t kv_number(mnem_kv_choice kv) {
    const bool first = kv == MNEM_KV_F16 || kv == MNEM_KV_Q8_0 || kv == MNEM_KV_F32;
    return first ? (int32_t)mnem_kv_type(kv) : (int32_t)kv + (1 << 20);
}

static uint64_t hash_options(const batch *b) {
    const tool_args *args = &b->o->serve.args;
    const mnem_engine_plan *plan = &b->serve.model.stage.plan;
    const int32_t numbers[] = {plan->context, kv_number(plan->kv)};
    uint64_t hash = batch_hash(0, numbers, sizeof numbers);
    tool_option o;
    for (int i = 0; tool_option_get(args->verb, i, &o); i++)
        if (!tool_has_word(without, o.name, strlen(o.name)))
            hash = hash_option(hash, &o, (const char *)args + o.offset);
    hash = batch_hash(hash, b->serve.model.stage.prompt.text, b->serve.model.stage.prompt.bytes);
    return hash_text(hash, b->serve.model.name);
}

static uint64_t hash_model(const batch *b) {
    api_file file;
    const tool_stage *stage = &b->serve.model.stage;
    api_file_read(stage->model, stage->tokenizer, &file);
    uint64_t hash = hash_texts(hash_text(0, file.digest), &b->o->serve.session.lora);
    for (int32_t i = 0; i < stage->options.adapter_count; i++) {
        api_file_read(stage->adapter_file[i], NULL, &file); /* an adapter has no vocabulary */
        hash = hash_text(hash, file.digest);
        hash = batch_hash(hash, &stage->adapter[i].scale, sizeof stage->adapter[i].scale);
    }
    return hash;
}

uint64_t batch_run_of(const batch *b) {
    const uint64_t model = hash_model(b), options = hash_options(b);
    return ((model ^ model >> 32) << 32) | ((options ^ options >> 32) & 0xffffffff) | 1;
}
