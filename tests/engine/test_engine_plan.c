/* test_engine_plan.c: the plan's promises: its bytes, its knobs, and what a budget buys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/engine_search.h"
#include "engine/session_case.h"
#include "engine/stored_families.h"
#include "kit/kit.h"
#include "plan/knob_case.h"

/* Fewer budgets under sanitizers: the plans of those between take the same code. */
enum { BUDGET_STEP = MNEM_SANITIZED ? MIB : MIB / 4 };

static void the_plan_is_the_ledger_to_the_byte(void **state) {
    (void)state;
    for (uint64_t budget = 0; budget <= 12; budget += 4) {
        session_case c;
        const mnem_engine_options o = {.context = 256, .threads = 2};
        assert_int_equal(session_case_open(&c, MODEL_Q8_0, budget * MIB, &o), MNEM_OK);
        mnem_ledger_info info;
        mnem_account_info account;
        mnem_ledger_info_get(c.ledger, &info);
        for (unsigned i = 0; mnem_ledger_account_get(c.ledger, i, &account); i++) {
            uint64_t planned = 0;
            for (unsigned j = 0; j < c.plan.lines; j++)
                if (c.plan.line[j].kind == account.kind && !strcmp(c.plan.line[j].tag, account.tag))
                    planned = c.plan.line[j].bytes;
            if (planned != account.bytes_live)
                print_message("%s %s: planned %llu, live %llu\n", mnem_kind_text(account.kind),
                              account.tag, (unsigned long long)planned,
                              (unsigned long long)account.bytes_live);
            assert_int_equal(planned, account.bytes_live);
        }
        assert_int_equal(info.bytes_live, c.plan.peak_bytes);
        session_case_close(&c);
    }
}

static void larger_budgets_are_never_slower_and_smaller_ones_never_higher(void **state) {
    (void)state;
    const mnem_machine_profile profile = {
        .read_bytes_per_s = 20e9, .disk_bytes_per_s = 1e9, .macs_per_s = 50e9};
    mnem_machine_profile reached = profile;
    reached.generate_bytes_per_s = 12e9;
    const mnem_engine_options variants[] = {{.context = 256, .profile = &profile},
                                            {.profile = &reached},
                                            {.profile = &profile, .kv = MNEM_KV_AUTO}};
    for (size_t v = 0; v < 3; v++) {
        double speed = 0;
        uint64_t peak = 0;
        int ran = 0;
        for (uint64_t budget = MIB; budget <= 24 * MIB; budget += BUDGET_STEP) {
            session_case c = {0};
            mnem_engine_options o = variants[v];
            assert_int_equal(
                mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &c.ledger),
                MNEM_OK);
            o.ledger = c.ledger;
            assert_int_equal(mnem_model_open(MODEL_Q8_0, &c.model), MNEM_OK);
            const mnem_status status = mnem_engine_plan_make(c.model, &o, &c.plan);
            if (status == MNEM_OK) {
                ran++;
                assert_true(c.plan.peak_bytes <= budget);
                /* generating and prompts together never get slower; each alone may give a little */
                assert_true(c.plan.predicted_generate >= speed * 0.95);
                assert_true(c.plan.peak_bytes >= peak);
                speed = c.plan.predicted_generate;
                peak = c.plan.peak_bytes;
                if (c.plan.smaller_bytes) assert_true(c.plan.smaller_bytes < c.plan.peak_bytes);
                if (c.plan.larger_bytes) assert_true(c.plan.larger_bytes > budget);
            } else {
                assert_int_equal(status, MNEM_OVER_BUDGET);
                assert_int_equal(ran, 0);
                assert_true(c.plan.needed_bytes > budget);
            }
            session_case_close(&c);
        }
        assert_true(ran > 10);
    }
}

static mnem_status plan_only(uint64_t budget, mnem_engine_options o, mnem_engine_plan *plan) {
    mnem_ledger *ledger;
    mnem_model *model;
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger),
                     MNEM_OK);
    assert_int_equal(mnem_model_open(MODEL_Q8_0, &model), MNEM_OK);
    o.ledger = ledger;
    const mnem_status status = mnem_engine_plan_make(model, &o, plan);
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
    return status;
}

static void the_knob_of_a_refusal_really_fits(void **state) {
    (void)state;
    mnem_engine_plan plan;
    mnem_engine_options o = {.context = 256};
    assert_int_equal(plan_only(1000, o, &plan), MNEM_OVER_BUDGET);
    const uint64_t needed = plan.needed_bytes;
    assert_non_null(strstr(mnem_last_error(), "budget is 1000"));
    assert_null(strstr(mnem_last_error(), "--"));
    assert_int_equal(plan_only(needed, o, &plan), MNEM_OK);
    assert_int_equal(plan.peak_bytes, needed);
    assert_int_equal(plan_only(needed - 1, o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan.knob.kind, MNEM_KNOB_KV);
    o.kv = (mnem_kv_choice)plan.knob.value;
    assert_int_equal(o.kv, MNEM_KV_Q8_0);
    assert_int_equal(plan_only(needed - 1, o, &plan), MNEM_OK);
    o.context = 256;
    assert_int_equal(plan_only(plan.needed_bytes ? 0 : needed / 2, o, &plan), MNEM_OVER_BUDGET);
    o = (mnem_engine_options){.context = 256, .chunk = 256};
    assert_int_equal(plan_only(needed, o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan.knob.kind, MNEM_KNOB_CHUNK);
    o.chunk = (int32_t)plan.knob.value;
    assert_int_equal(plan_only(needed, o, &plan), MNEM_OK);
}

/* With a text of 100 tokens and as many to follow, of a model of 256. */
static void a_wanted_context_is_held_or_what_would_hold_it_is_told(void **state) {
    (void)state;
    mnem_engine_plan plan, other;
    mnem_engine_options o = {.context_wanted = 200, .context_needed = 101};
    assert_int_equal(plan_only(24 * MIB, o, &plan), MNEM_OK);
    assert_true(plan.context >= 200 && plan.wanted_bytes == 0);
    assert_int_equal(plan_only(24 * MIB, (mnem_engine_options){0}, &other), MNEM_OK);
    assert_true(plan.context == other.context && plan.context_fixed == 0); /* its own choice */

    assert_int_equal(plan_only(1000, (mnem_engine_options){.context = 200}, &other),
                     MNEM_OVER_BUDGET);
    const uint64_t least = other.needed_bytes;
    assert_int_equal(plan_only(least, o, &plan), MNEM_OK);
    assert_true(plan.context == 200 && plan.context_fixed == 200 && plan.wanted_bytes == 0);
    assert_int_equal(plan_only(least - 1, o, &plan), MNEM_OK);
    assert_true(plan.context >= 101 && plan.context < 200);
    assert_int_equal(plan.wanted_bytes, least);
}

static void a_needed_context_that_fits_nowhere_is_refused(void **state) {
    (void)state;
    mnem_engine_plan plan, other;
    mnem_engine_options o = {.context_wanted = 200, .context_needed = 101};
    assert_int_equal(plan_only(1000, o, &plan), MNEM_OVER_BUDGET);
    assert_int_equal(plan.context_fixed, 101);
    assert_int_equal(plan_only(1000, (mnem_engine_options){.context = 101}, &other),
                     MNEM_OVER_BUDGET);
    assert_int_equal(plan.needed_bytes, other.needed_bytes);
    assert_true(plan.wanted_bytes > plan.needed_bytes);
    o.context_needed = 201;
    assert_int_equal(plan_only(24 * MIB, o, &plan), MNEM_INVALID);
}

/* The room of a ledger that is preparing is not the plan's, and ends where its memory is taken. */
static void a_plan_keeps_to_the_budget_while_the_ledger_is_preparing(void **state) {
    (void)state;
    mnem_engine_plan plan[2];
    for (int preparing = 0; preparing < 2; preparing++) {
        mnem_ledger_info info;
        mnem_model *model;
        mnem_engine *engine;
        mnem_engine_options o = {.context = 256};
        const mnem_ledger_options ledger = {.budget_bytes = 9 * MIB, .preparing = preparing};
        assert_int_equal(mnem_ledger_create(&ledger, &o.ledger), MNEM_OK);
        assert_int_equal(mnem_ledger_watch_heap(o.ledger), MNEM_OK);
        assert_int_equal(mnem_model_open(MODEL_Q8_0, &model), MNEM_OK);
        assert_int_equal(mnem_engine_plan_make(model, &o, &plan[preparing]), MNEM_OK);
        assert_int_equal(mnem_engine_create(model, &o, &plan[preparing], &engine), MNEM_OK);
        mnem_ledger_info_get(o.ledger, &info);
        assert_false(info.preparing);
        assert_true(info.bytes_peak <= 9 * MIB);
        mnem_engine_destroy(engine);
        mnem_model_close(model);
        assert_int_equal(mnem_ledger_destroy(o.ledger), MNEM_OK);
    }
    assert_int_equal(plan[1].budget_bytes, 9 * MIB);
    assert_int_equal(plan[1].peak_bytes, plan[0].peak_bytes);
}

static void a_session_on_the_null_device_takes_its_bytes_and_refuses_to_run(void **state) {
    (void)state;
    mnem_device *device;
    session_case c;
    const int32_t id = 1;
    assert_int_equal(mnem_device_open("null", NULL, &device), MNEM_OK);
    const mnem_engine_options o = {.context = 256, .device = device};
    assert_int_equal(session_case_open(&c, MODEL_Q8_0, 0, &o), MNEM_OK);
    mnem_ledger_info info;
    mnem_ledger_info_get(c.ledger, &info);
    assert_true(info.bytes_live > 10 * MIB);
    assert_int_equal(mnem_session_eval(c.session, &id, 1, 0, NULL, NULL), MNEM_UNSUPPORTED);
    session_case_close(&c);
    assert_int_equal(mnem_device_close(device), MNEM_OK);
}

/* Bytes of the plan's ring; 0: it has none of its own. */
static uint64_t ring_line(const mnem_engine_plan *plan) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == MNEM_KIND_IO && strcmp(plan->line[i].tag, "ring") == 0)
            return plan->line[i].bytes;
    return 0;
}

/* Loaded through a block that passes use later, which is zeros again. */
static void a_ring_only_for_loading_takes_no_bytes(void **state) {
    (void)state;
    const int32_t chunks[] = {0, 1};
    for (int i = 0; i < 2; i++) {
        session_case c;
        const mnem_engine_options o = {.context = 256, .chunk = chunks[i]};
        assert_int_equal(session_case_open(&c, MODEL_F16, 0, &o), MNEM_OK);
        const uint64_t bytes = (uint64_t)c.plan.ring_slots * c.plan.ring_slot_bytes;
        const mnem__part part = c.session->engine->parts.ring;
        assert_false(c.plan.streamed);
        if (chunks[i] == 0) assert_int_equal(ring_line(&c.plan), 0);
        assert_true((part == MNEM__PART_RING) == (ring_line(&c.plan) > 0));
        assert_true(ring_line(&c.plan) == 0 || ring_line(&c.plan) == bytes);
        assert_true(bytes > 0 && bytes <= c.session->engine->parts.all.bytes[part]);
        const uint8_t *block = mnem__part_host(&c.session->engine->taken, part);
        uint64_t left = 0;
        for (uint64_t b = 0; part != MNEM__PART_RING && b < bytes; b++) left += block[b] != 0;
        assert_int_equal(left, 0);
        session_case_close(&c);
    }
}

static void a_ring_for_streaming_has_its_own_bytes(void **state) {
    (void)state;
    session_case c;
    const mnem_engine_options o = {.context = 256};
    assert_int_equal(session_case_open(&c, MODEL_F16, session_case_least(MODEL_F16, &o), &o),
                     MNEM_OK);
    assert_true(c.plan.streamed);
    assert_true(ring_line(&c.plan) == (uint64_t)c.plan.ring_slots * c.plan.ring_slot_bytes);
    assert_int_equal(c.session->engine->parts.ring, MNEM__PART_RING);
    session_case_close(&c);
}

/* They are found one from the other. */
static void bytes_of_what_is_resident_are_those_that_measuring_finds(void **state) {
    (void)state;
    session_case c;
    mnem__setup setup;
    mnem__search search;
    const mnem_engine_options none = {.context = 256, .threads = 1};
    assert_int_equal(session_case_open(&c, MODEL_Q4_K_M, 0, &none), MNEM_OK);
    assert_int_equal(mnem__setup_init(&setup, c.model, &c.options), MNEM_OK);
    assert_int_equal(mnem__search_init(&search, &setup, 0), MNEM_OK);
    assert_int_equal(search.residency_count, 2 * setup.matrices);
    for (int32_t i = 0; i < search.residency_count; i++) {
        const mnem__residency_point *p = &search.residency[i];
        const mnem__choice choice = {.slots = 2};
        const mnem__weights_options o = mnem__engine_weights_options(&setup, &choice);
        mnem__weights_sizes sizes;
        mnem__residency(setup.map, p->order, p->resident, setup.flags);
        assert_int_equal(mnem__weights_measure(&o, &sizes), MNEM_OK);
        assert_int_equal(p->resident_bytes, sizes.resident_bytes);
        assert_int_equal(p->streamed_bytes_body, sizes.streamed_bytes_body);
        assert_int_equal(p->streamed_bytes_head, sizes.streamed_bytes_head);
        assert_int_equal(p->embedding_packed, setup.flags[setup.map->embedding]);
    }
    mnem__search_fini(&search);
    mnem__setup_fini(&setup);
    session_case_close(&c);
}

/* A KV cache in blocks of 32 numbers: only of heads that are whole blocks. The refusal says so, and
 * names no operator. */
static void blocks_are_refused_for_heads_of_other_sizes(void **state) {
    static const char *const families[] = {STORED_FAMILIES};
    int fit = 0, refused = 0;
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[256], size[64];
        mnem_model *model;
        mnem_transformer t;
        mnem_engine_plan plan;
        mnem_ledger *ledger;
        snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, families[i]);
        assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_OK);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        assert_int_equal(mnem_model_transformer(model, &t), MNEM_OK);
        const mnem_kv_layout kv = mnem__kv_layout_for(&t, MNEM_KV_F16);
        const mnem_engine_options o = {.ledger = ledger, .kv = i % 2 ? MNEM_KV_Q8_0 : MNEM_KV_Q4_0};
        const bool whole = kv.kv_heads == 0 || kv.head_dim % 32 == 0;
        assert_int_equal(mnem_engine_plan_make(model, &o, &plan), whole ? MNEM_OK : MNEM_INVALID);
        snprintf(size, sizeof size, "heads have %d dimensions", (int)kv.head_dim);
        if (!whole && !strstr(mnem_last_error(), size)) fail_msg("%s", mnem_last_error());
        fit += whole;
        refused += !whole;
        mnem_model_close(model);
        mnem_ledger_destroy(ledger);
    }
    assert_true(fit > 0 && refused > 0);
}

/* The bytes of a choice, as planning measures them, with nothing resident. */
static mnem__parts measure(mnem__setup *setup, mnem__choice choice) {
    mnem__graph_pair pair;
    mnem__engine_parts parts;
    mnem__weights_sizes weights;
    choice.slots = 2;
    choice.pages = mnem__engine_pages(setup, choice.context);
    choice.states = mnem__engine_states(setup, choice.context);
    const mnem__weights_options o = mnem__engine_weights_options(setup, &choice);
    assert_int_equal(mnem__weights_measure(&o, &weights), MNEM_OK);
    assert_int_equal(mnem__graphs_build(setup, &choice, &pair), MNEM_OK);
    mnem__engine_measure(setup, &choice, &pair.body_sizes, &pair.head_sizes, &weights, &parts);
    if (parts.ring != MNEM__PART_RING) /* that made another part larger */
        parts.all.bytes[parts.ring] = parts.idle_bytes;
    mnem__graphs_destroy(&pair);
    return parts.all;
}

static uint64_t scheduler_bytes(void *context, int32_t tokens) {
    (void)context;
    return (uint64_t)tokens * 4;
}

static void knobs_change_the_parts_that_the_list_says(void **state) {
    static const char *const families[] = {STORED_FAMILIES};
    static const mnem__choice base = {.context = 1000, .chunk = 32, .kv = MNEM_KV_F16};
    mnem__choice other[3] = {base, base, base};
    knob_case knobs[3] = {
        {.knob = MNEM_KNOB_CHUNK}, {.knob = MNEM_KNOB_KV}, {.knob = MNEM_KNOB_CONTEXT}};
    other[0].chunk = 16;
    other[1].kv = MNEM_KV_F32;
    other[2].context = 96;
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        char path[256];
        mnem_model *model;
        mnem__setup setup;
        mnem_ledger *ledger;
        snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, families[i]);
        assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_OK);
        assert_int_equal(mnem_model_open(path, &model), MNEM_OK);
        const mnem_engine_options o = {
            .ledger = ledger, .threads = 2, .scheduler_bytes = scheduler_bytes};
        assert_int_equal(mnem__setup_init(&setup, model, &o), MNEM_OK);
        mnem__residency(setup.map, 0, mnem__residency_routers(setup.map), setup.flags);
        const mnem__parts before = measure(&setup, base);
        for (int k = 0; k < 3; k++) {
            const mnem__parts after = measure(&setup, other[k]);
            knob_case_compare(&knobs[k], &before, &after, families[i]);
        }
        mnem__setup_fini(&setup);
        mnem_model_close(model);
        mnem_ledger_destroy(ledger);
    }
    for (int k = 0; k < 3; k++) knob_case_end(&knobs[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_refused_for_heads_of_other_sizes),
        cmocka_unit_test(the_plan_is_the_ledger_to_the_byte),
        cmocka_unit_test(larger_budgets_are_never_slower_and_smaller_ones_never_higher),
        cmocka_unit_test(the_knob_of_a_refusal_really_fits),
        cmocka_unit_test(a_wanted_context_is_held_or_what_would_hold_it_is_told),
        cmocka_unit_test(a_needed_context_that_fits_nowhere_is_refused),
        cmocka_unit_test(a_plan_keeps_to_the_budget_while_the_ledger_is_preparing),
        cmocka_unit_test(a_session_on_the_null_device_takes_its_bytes_and_refuses_to_run),
        cmocka_unit_test(a_ring_only_for_loading_takes_no_bytes),
        cmocka_unit_test(a_ring_for_streaming_has_its_own_bytes),
        cmocka_unit_test(bytes_of_what_is_resident_are_those_that_measuring_finds),
        cmocka_unit_test(knobs_change_the_parts_that_the_list_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
