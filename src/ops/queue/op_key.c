/* op_key.c: see op_key.h. What a descriptor hasn't takes a bit; so most keys are short. */
#include "ops/queue/op_key.h"

#include <string.h>

#include "base/cpu.h"
#include "ops/core/half.h"

/* A new field of a descriptor belongs into put_fields, or operators are found that differ in it. */
_Static_assert(sizeof(mnem_op_desc) == 1152, "mnem_op_desc has changed");

static void put_word(mnem__op_key_words *key, uint64_t word) {
    key->word[key->count++] = word;
}

/* Two numbers in a word. */
static void put_pair(mnem__op_key_words *key, uint32_t low, uint32_t high) {
    put_word(key, low | (uint64_t)high << 32);
}

static void put_floats(mnem__op_key_words *key, float low, float high) {
    put_pair(key, mnem__float_bits(low), mnem__float_bits(high));
}

static void put_ints(mnem__op_key_words *key, int32_t low, int32_t high) {
    put_pair(key, (uint32_t)low, (uint32_t)high);
}

static void put_tensor(mnem__op_key_words *key, const mnem_tensor *t) {
    put_word(key, (uint64_t)t->type | (uint64_t)t->layout << 32 | (uint64_t)t->dims << 40);
    for (int d = 0; d < t->dims && d < MNEM_TENSOR_DIMS; d++) {
        put_word(key, (uint64_t)t->shape[d]);
        put_word(key, (uint64_t)t->stride[d]);
    }
    put_word(key, (uint64_t)t->offset);
}

static void put_tensors(mnem__op_key_words *key, const mnem_op_desc *d) {
    const uint32_t at = key->count++;
    uint64_t there = 0;
    for (int i = 0; i < MNEM_OP_INPUTS + 1 + MNEM_OP_ALSO; i++) {
        const mnem_tensor *t = i < MNEM_OP_INPUTS    ? &d->in[i]
                               : i == MNEM_OP_INPUTS ? &d->out
                                                     : &d->also[i - MNEM_OP_INPUTS - 1];
        if (t->dims == 0) continue;
        there |= 1u << i;
        put_tensor(key, t);
    }
    key->word[at] = there;
}

static void put_rope(mnem__op_key_words *key, const mnem_rope *r) {
    put_ints(key, r->dims, r->original_context);
    put_pair(key, r->neox, r->yarn_unrounded);
    put_floats(key, r->base, r->scale);
    put_floats(key, r->yarn_ext, r->yarn_attn);
    put_floats(key, r->yarn_beta_fast, r->yarn_beta_slow);
}

static void put_route(mnem__op_key_words *key, const mnem_route *r) {
    put_ints(key, r->used,
             r->sigmoid | r->normalized << 1 | r->groups_by_best << 2 | r->on_input << 3);
    put_ints(key, r->groups, r->groups_used);
    put_floats(key, r->scale, r->mixer);
}

static void put_fields(mnem__op_key_words *key, const mnem_op_desc *d) {
    put_pair(key, (uint32_t)d->kind, (uint32_t)d->device);
    put_pair(key, (uint32_t)d->workers, (uint32_t)mnem__cpu_level_get());
    put_word(key,
             (uint64_t)(d->accumulate | d->inverse << 1 | d->both_ways << 2 | d->by_position << 3 |
                        d->by_token << 4 | d->apart << 5 | d->tiled << 6 | d->window_chunks << 7 |
                        d->temperature_from_1 << 8 | d->softplus << 9 | d->kv.apart << 10 |
                        d->kv.keys_rotated << 11 | d->kv.values_rotated << 12) |
                 (uint64_t)d->kv.value_type << 32);
    put_word(key, d->state_offset);
    put_floats(key, d->epsilon, d->scale);
    put_rope(key, &d->rope);
    put_ints(key, (int32_t)d->kv.type, d->kv.kv_heads);
    put_ints(key, d->kv.head_dim, d->kv.page_tokens);
    put_ints(key, d->kv.value_dim, d->max_positions);
    put_ints(key, d->window, d->axis);
    put_floats(key, d->soft_cap, d->temperature);
    put_ints(key, d->temperature_every, d->sequence);
    put_floats(key, d->dropout, d->alpha);
    put_floats(key, d->xielu.a, d->xielu.b);
    put_floats(key, d->xielu.c, d->xielu.e);
    put_pair(key, d->stream, (uint32_t)d->core);
    put_floats(key, d->teach_weight, d->teach_temperature);
    put_word(key, d->keep_bytes);
    put_route(key, &d->route);
    put_pair(key, (uint32_t)d->reduce, d->axes);
    put_pair(key, mnem__float_bits(d->limit), (uint32_t)d->low_count);
    put_word(key, (uint64_t)(uintptr_t)d->low);
}

/* Each word is multiplied in by an odd number of many bits (Fibonacci hashing, Knuth 6.4). */
static uint64_t hash_of(const mnem__op_key_words *key) {
    uint64_t hash = key->count;
    for (uint32_t i = 0; i < key->count; i++) {
        hash = (hash ^ key->word[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

void mnem__op_key_make(const mnem_op_desc *desc, mnem__op_key_words *key) {
    key->count = 0;
    put_fields(key, desc);
    put_tensors(key, desc);
    key->hash = hash_of(key);
}

bool mnem__op_key_equal(const mnem__op_key_words *a, const mnem__op_key_words *b) {
    return a->hash == b->hash && a->count == b->count &&
           memcmp(a->word, b->word, a->count * sizeof *a->word) == 0;
}
