/* test_arch_tables.c: the tables of architectures are whole, and each loads a model made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/architecture/architecture.h"

/* Calls body for each architecture as `a`. */
#define EACH(a)                                                                                    \
    for (int index_ = 0; index_ < 1000; index_++)                                                  \
        for (const mnem__architecture *a = mnem__architecture_get(index_); a; a = NULL)

static int count_of(const mnem__architecture *a, mnem__role role) {
    int count = 0;
    for (const mnem__tensor_use *use = a->tensors; use->role; use++) count += use->role == role;
    return count;
}

static void every_role_has_a_name_of_its_own(void **state) {
    (void)state;
    for (int role = 1; role < MNEM__ROLES; role++) {
        if (role == MNEM__ROLE_STREAM_ROUTER_AGAIN) continue; /* that of STREAM_ROUTER */
        const mnem__role_info *info = mnem__role_get((mnem__role)role);
        char name[MNEM__ROLE_NAME];
        int32_t layer;
        assert_non_null(info->name);
        mnem__role_name((mnem__role)role, 1023, name);
        assert_int_equal(mnem__role_find(name, &layer), role);
        assert_int_equal(layer, mnem__role_in_layer((mnem__role)role) ? 1023 : -1);
        for (int other = 1; other < role; other++)
            if (other != MNEM__ROLE_STREAM_ROUTER_AGAIN)
                assert_string_not_equal(info->name, mnem__role_get((mnem__role)other)->name);
    }
}

static void names_that_no_role_has_are_none(void **state) {
    (void)state;
    static const char *const names[] = {"",
                                        "blk.",
                                        "blk.0",
                                        "blk.0.",
                                        "blk.x.attn_q.weight",
                                        "attn_q.weight",
                                        "blk.0.token_embd.weight",
                                        "blk.0.attn_q.weights",
                                        "output"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t layer;
        assert_int_equal(mnem__role_find(names[i], &layer), MNEM__ROLE_NONE);
    }
}

static void matrices_of_a_layer_come_first_then_its_vectors(void **state) {
    (void)state;
    for (int role = 1; role < MNEM__OUTER_FIRST; role++) {
        const mnem__role_info *info = mnem__role_get((mnem__role)role);
        const bool is_matrix = role < MNEM__LAYER_VECTOR_FIRST;
        if (info->precision != MNEM__PRECISION_WHOLE)
            assert_int_equal(info->rows != MNEM__WIDTH_NONE, is_matrix);
        assert_int_equal(info->text != NULL, is_matrix);
    }
}

static void each_role_stands_once_in_an_architecture(void **state) {
    (void)state;
    EACH(a)
    for (const mnem__tensor_use *use = a->tensors; use->role; use++)
        assert_int_equal(count_of(a, use->role), 1);
}

/* before the layers, of each layer, after */
static void layers_stand_together_in_an_architecture(void **state) {
    (void)state;
    EACH(a) {
        int changes = 0;
        assert_int_equal(a->tensors[0].role, MNEM__ROLE_EMBEDDING);
        for (const mnem__tensor_use *use = a->tensors; use[1].role; use++)
            changes += mnem__role_in_layer(use->role) != mnem__role_in_layer(use[1].role);
        assert_int_equal(changes, a->encoder ? 1 : 2);
    }
}

static mnem__layers layers_of(const mnem__architecture *a, mnem__role role) {
    const mnem__tensor_use *use = a->tensors;
    while (use->role && use->role != role) use++;
    /* Layers that attend to those of others have no keys, or no values, of their own. */
    const bool shared = use->layers == MNEM__LAYERS_KEYED || use->layers == MNEM__LAYERS_VALUED;
    return shared ? MNEM__LAYERS_ALL : use->layers;
}

/* Parts that stand in for each other in a layer may begin, and end, with the same norm. */
static int uses_of(const mnem__architecture *a, mnem__role role) {
    int parts = 0;
    for (const mnem__layer_part *part = a->parts; part->out; part++)
        parts += part->norm == role || part->post_norm == role || part->in[0] == role ||
                 part->out == role;
    return parts > 1 ? parts : 1;
}

static void tensors_are_in_the_layers_of_the_part_that_uses_them(void **state) {
    (void)state;
    EACH(a)
    for (const mnem__layer_part *part = a->parts; part->out; part++) {
        const mnem__role roles[] = {
            part->norm,     part->in[0],        part->in[1],        part->in[2],     part->q_norm,
            part->k_norm,   part->out,          part->post_norm,    part->weight,    part->router,
            part->sum_norm, part->shared_in[0], part->shared_in[1], part->shared_out};
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
            const mnem__role bias = mnem__role_get(roles[i])->bias;
            if (roles[i] && uses_of(a, roles[i]) > 1) continue;
            if (roles[i]) assert_int_equal(layers_of(a, roles[i]), part->layers);
            if (bias && count_of(a, bias)) assert_int_equal(layers_of(a, bias), part->layers);
        }
    }
}

static void layers_are_leading_or_later(void **state) {
    (void)state;
    const mnem_transformer plain = {.layers = 3};
    const mnem_transformer mixed = {.layers = 3, .leading = {.kind = MNEM_LAYERS_FIRST, .n = 1}};
    for (int32_t layer = 0; layer < 3; layer++) {
        assert_true(mnem__layer_is(&mixed, layer, MNEM__LAYERS_ALL));
        assert_true(mnem__layer_is(&plain, layer, MNEM__LAYERS_LATER));
        assert_false(mnem__layer_is(&plain, layer, MNEM__LAYERS_LEADING));
        assert_int_equal(mnem__layer_is(&mixed, layer, MNEM__LAYERS_LEADING), layer == 0);
        assert_int_equal(mnem__layer_is(&mixed, layer, MNEM__LAYERS_LATER), layer > 0);
    }
}

/* Counts what the parts use in used[], biases with the matrices and norms that they belong to. */
static void use_role(const mnem__architecture *a, mnem__role role, int *used) {
    if (!role) return;
    const mnem__role bias = mnem__role_get(role)->bias;
    assert_int_equal(count_of(a, role), 1);
    used[role]++;
    if (bias) used[bias]++;
}

static const mnem__role of_streams[8] = {
    MNEM__ROLE_STREAMS_IN,          MNEM__ROLE_STREAMS_OUT,    MNEM__ROLE_STREAM_ROUTER,
    MNEM__ROLE_STREAM_ROUTER_AGAIN, MNEM__ROLE_STREAM_PREDICT, MNEM__ROLE_STREAM_CORRECT,
    MNEM__ROLE_STREAM_ROUTER_NORM,  MNEM__ROLE_STREAM_SCALE};

static void every_tensor_of_an_architecture_is_used_once(void **state) {
    (void)state;
    EACH(a) {
        int used[MNEM__ROLES] = {0};
        for (const mnem__layer_part *part = a->parts; part->out; part++) {
            for (int i = 0; i < MNEM__PART_INPUTS; i++) use_role(a, part->in[i], used);
            for (int i = 0; i < 3; i++) use_role(a, part->x_norms[i], used);
            for (int i = 0; i < 3; i++) use_role(a, part->convs[i], used);
            use_role(a, part->decay_b, used);
            use_role(a, part->gate_b, used);
            use_role(a, part->norm, used);
            use_role(a, part->q_norm, used);
            use_role(a, part->k_norm, used);
            use_role(a, part->weight, used);
            use_role(a, part->out, used);
            use_role(a, part->post_norm, used);
            use_role(a, part->router, used);
            use_role(a, part->choice_bias, used);
            use_role(a, part->latent_down, used);
            use_role(a, part->latent_up, used);
            use_role(a, part->sinks, used);
            use_role(a, part->a, used);
            use_role(a, part->dt_bias, used);
            use_role(a, part->state_norm, used);
            use_role(a, part->conv_bias, used);
            use_role(a, part->skip, used);
            use_role(a, part->x, used);
            use_role(a, part->step, used);
            use_role(a, part->q_b, used);
            use_role(a, part->k_b, used);
            use_role(a, part->v_b, used);
            use_role(a, part->kv_norm, used);
            use_role(a, part->index_k, used);
            use_role(a, part->index_weight, used);
            use_role(a, part->index_q, used);
            use_role(a, part->index_norm, used);
            use_role(a, part->shared_gate, used);
            use_role(a, part->shared_in[0], used);
            use_role(a, part->shared_in[1], used);
            use_role(a, part->shared_out, used);
            use_role(a, part->sum_norm, used);
            use_role(a, part->shared_norm, used);
            use_role(a, part->shared_post_norm, used);
            use_role(a, part->experts_post_norm, used);
            use_role(a, part->router_norm, used);
            use_role(a, part->expert_scales, used);
        }
        use_role(a, MNEM__ROLE_EMBEDDING, used);
        if (a->encoder) {
            use_role(a, MNEM__ROLE_TOKEN_TYPES, used);
            use_role(a, MNEM__ROLE_EMBED_NORM, used);
        } else {
            use_role(a, a->last_norm ? a->last_norm : MNEM__ROLE_OUTPUT_NORM, used);
            use_role(a, MNEM__ROLE_OUTPUT, used);
        }
        used[MNEM__ROLE_POSITIONS]++;
        used[MNEM__ROLE_ROPE_FACTORS]++;
        used[MNEM__ROLE_ROPE_LONG]++;
        used[MNEM__ROLE_ROPE_SHORT]++;
        used[MNEM__ROLE_LAYER_TABLE]++;
        used[MNEM__ROLE_LAYER_PROJ]++;
        used[MNEM__ROLE_LAYER_PROJ_NORM]++;
        used[MNEM__ROLE_LAYER_SCALE]++;
        if (a->takes & MNEM__TAKES_STREAMS)
            for (int i = 0; i < 8; i++) used[of_streams[i]]++;
        for (const mnem__tensor_use *use = a->tensors; use->role; use++)
            assert_int_equal(used[use->role], uses_of(a, use->role));
    }
}

/* As the parts read them: the builders take a handle of the first and of the last. */
static void matrices_of_a_layer_stand_in_the_order_of_use(void **state) {
    (void)state;
    EACH(a) {
        for (const mnem__layer_part *part = a->parts; part->out; part++) {
            const mnem__tensor_use *use = a->tensors;
            for (int i = 0; i <= MNEM__PART_INPUTS; i++) {
                const mnem__role role = i < MNEM__PART_INPUTS ? part->in[i] : part->out;
                while (role && use->role && use->role != role) use++;
                if (role) assert_int_equal(use->role, role);
            }
        }
    }
}

/* What the programs can do: one or three for attention, four with a gate, one for GELU, two for a
 * gate, or one that has both; heads are normed together only where q and k are products of their
 * own, and training turns them only there. */
static void parts_are_of_kinds_that_the_programs_have(void **state) {
    (void)state;
    EACH(a)
    for (const mnem__layer_part *part = a->parts; part->out; part++) {
        const int inputs = mnem__part_inputs(part);
        if (part->core == MNEM_OP_SHORT_CONV) {
            assert_true(inputs == 1 && part->weight && a->takes & MNEM__TAKES_CONV);
            continue;
        }
        if (part->core == MNEM_OP_DELTA) {
            assert_true(inputs >= 2 && part->a && part->dt_bias);
            assert_true(part->decay_b ? inputs == 6 && part->gate_b && part->convs[2]
                                      : part->weight != MNEM__ROLE_NONE);
            assert_int_equal(inputs < 4, part->in[inputs - 1] == MNEM__ROLE_BETA_ALPHA);
            assert_int_equal(inputs == 2, part->in[0] == MNEM__ROLE_STATE_IN);
            assert_true(part->state_norm && a->takes & MNEM__TAKES_STATES);
            continue;
        }
        if (part->core == MNEM_OP_ADD) {
            assert_true(inputs == 1 && part->beside && a->takes & MNEM__TAKES_STREAMS);
            continue;
        }
        if (part->core == MNEM_OP_SCAN) {
            assert_true(inputs == 1 && part->weight && part->a && part->dt_bias && part->skip);
            assert_true(!part->x == !part->step && a->takes & MNEM__TAKES_STATES);
            continue;
        }
        if (part->core != MNEM_OP_ATTENTION) {
            assert_true(part->core == MNEM_OP_GELU || part->core == MNEM_OP_GELU_ERF ||
                        part->core == MNEM_OP_RELU_SQUARED || part->core == MNEM_OP_XIELU ||
                        mnem__part_is_gated(part));
            assert_true(inputs == 1 || (inputs == 2 && mnem__part_is_gated(part)));
            continue;
        }
        if (part->k_b) {
            assert_true(inputs == 2 && part->v_b && part->kv_norm);
            assert_int_equal(!part->q_b, !part->q_norm);
            continue;
        }
        assert_true(inputs == 1 || inputs >= 3);
        assert_true(inputs >= 3 || !a->wide_qk_norm);
        assert_true(inputs == 3 || !a->turn || !a->trained);
        assert_int_equal(!part->q_norm, !part->k_norm);
    }
}

static void architectures_have_names_and_keys_of_their_own(void **state) {
    (void)state;
    EACH(a) {
        assert_non_null(a->epsilon_key);
        assert_true(a->norm == MNEM_OP_RMS_NORM || a->norm == MNEM_OP_LAYER_NORM);
        assert_true(strlen(a->names[0]) < sizeof((mnem_transformer *)NULL)->architecture);
        for (int i = 0; i < MNEM__NAMES_MAX && a->names[i]; i++)
            assert_ptr_equal(mnem__architecture_find(a->names[i]), a);
    }
    assert_null(mnem__architecture_find("rwkv7"));
}

static void each_architecture_loads_a_made_model(void **state) {
    (void)state;
    EACH(a)
    for (int i = 0; i < MNEM__NAMES_MAX && a->names[i]; i++) {
        char path[64], command[512];
        mnem_model *model;
        mnem_transformer t;
        snprintf(path, sizeof path, "/tmp/mnem_test_arch_tables_%d.gguf", (int)getpid());
        snprintf(command, sizeof command,
                 "%s %s --arch %s --embd 64 --layers 2 --heads 4 --ff 96 --vocab 400", MAKE_MODEL,
                 path, a->names[i]);
        assert_int_equal(system(command), 0);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        const mnem_status status = mnem_model_transformer(model, &t);
        if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
        assert_int_equal(status, MNEM_OK);
        assert_string_equal(t.architecture, a->names[0]);
        mnem_model_close(model);
        remove(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_role_has_a_name_of_its_own),
        cmocka_unit_test(names_that_no_role_has_are_none),
        cmocka_unit_test(matrices_of_a_layer_come_first_then_its_vectors),
        cmocka_unit_test(each_role_stands_once_in_an_architecture),
        cmocka_unit_test(layers_stand_together_in_an_architecture),
        cmocka_unit_test(every_tensor_of_an_architecture_is_used_once),
        cmocka_unit_test(matrices_of_a_layer_stand_in_the_order_of_use),
        cmocka_unit_test(tensors_are_in_the_layers_of_the_part_that_uses_them),
        cmocka_unit_test(layers_are_leading_or_later),
        cmocka_unit_test(parts_are_of_kinds_that_the_programs_have),
        cmocka_unit_test(architectures_have_names_and_keys_of_their_own),
        cmocka_unit_test(each_architecture_loads_a_made_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
