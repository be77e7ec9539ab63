/* test_process_ledger.c: the ledger of the whole process against the kernel's own count. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/base.h"
#include "mnem/ledger.h"

static mnem_process_usage usage_get(void) {
    mnem_process_usage usage;
    must(mnem_process_usage_get(&usage));
    return usage;
}

static void what_is_resident_is_charged(void **state) {
    (void)state;
    void *early = mnem__alloc("early", 5000);
    mnem_ledger *ledger;
    mnem_ledger_info info;
    mnem_account_info account;
    must(mnem_ledger_create_process(&(mnem_ledger_options){.own_process = true}, &ledger));
    mnem_ledger_info_get(ledger, &info);
    uint64_t available;
    must(mnem_process_available(&available));
    double part = (double)info.budget_bytes / (double)(available + usage_get().bytes_resident);
    assert_true(part > 0.80 && part < 0.90);
    assert_true(mnem_ledger_account_get(ledger, info.accounts - 1, &account));
    assert_int_equal(account.kind, MNEM_KIND_RUNTIME);
    assert_string_equal(account.tag, "code and libraries");
    assert_true(info.bytes_live >= usage_get().bytes_resident - 512 * 1024);
    mnem__free(early);
    must(mnem_ledger_destroy(ledger));
}

static void a_budget_below_the_program_itself_is_refused(void **state) {
    (void)state;
    mnem_ledger *ledger = (void *)1;
    mnem_ledger_options options = {.budget_bytes = 100000, .own_process = true};
    assert_int_equal(mnem_ledger_create_process(&options, &ledger), MNEM_OVER_BUDGET);
    assert_null(ledger);
    assert_non_null(strstr(mnem_last_error(), "budget is 100000"));
}

static void idle(const mnem_worker *worker, void *context) {
    (void)context;
    mnem_team_barrier(worker);
}

/* Blocks, stacks and heap: the ledger's peak is the kernel's, within 2 MiB. */
static void charged_is_what_the_kernel_counts(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip();
    mnem_ledger *ledger;
    mnem_device *device;
    mnem_team *team;
    mnem_block blocks[4];
    mnem_ledger_info info;
    must(mnem_ledger_create_process(
        &(mnem_ledger_options){.budget_bytes = 512 * MIB, .own_process = true}, &ledger));
    must(mnem_device_open("host", NULL, &device));
    for (int i = 0; i < 4; i++)
        must(mnem_ledger_alloc(ledger, device, MNEM_KIND_WEIGHTS, "blocks",
                               (uint64_t)i * 13 * MIB + 12345, 64, &blocks[i]));
    must(mnem_ledger_charge(ledger, MNEM_KIND_RUNTIME, "stacks", mnem_team_bytes(8)));
    must(mnem_team_create(8, &team));
    mnem_team_run(team, idle, NULL);
    char *heap = mnem__alloc("heap", 3 * MIB);
    memset(heap, 1, 3 * MIB);
    mnem_ledger_info_get(ledger, &info);
    uint64_t peak = usage_get().bytes_peak;
    if (info.bytes_peak + 64 * 1024 < peak || info.bytes_peak > peak + 2 * MIB)
        fail_msg("the ledger says %llu bytes, the kernel %llu", (unsigned long long)info.bytes_peak,
                 (unsigned long long)peak);
    mnem__free(heap);
    mnem_team_destroy(team);
    mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "stacks", mnem_team_bytes(8));
    for (int i = 0; i < 4; i++) mnem_ledger_free(ledger, MNEM_KIND_WEIGHTS, "blocks", &blocks[i]);
    must(mnem_device_close(device));
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_resident_is_charged),
        cmocka_unit_test(a_budget_below_the_program_itself_is_refused),
        cmocka_unit_test(charged_is_what_the_kernel_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
