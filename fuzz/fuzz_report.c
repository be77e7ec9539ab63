/* fuzz_report.c: a report of any bytes: what opens must add up, whatever the file says.
 *
 *     fuzz_report -max_len=8192 -dict=fuzz/workload.dict NEW_FOLDER fuzz/corpus/workload */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mnem/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

/* all: they are of all bytes; sites are of blocks only, which a ledger's bytes needn't be in. */
static void check_owners(const mnem_report_facts *f, const mnem_report_owner *o, size_t count,
                         bool all) {
    uint64_t peak = 0, end = 0;
    for (size_t i = 0; i < count; i++) {
        CHECK(o[i].kind && o[i].tag && o[i].site);
        CHECK(o[i].bytes_most >= o[i].bytes_at_peak && o[i].bytes_most >= o[i].bytes_end);
        CHECK(!i || o[i - 1].bytes_at_peak >= o[i].bytes_at_peak);
        peak += o[i].bytes_at_peak;
        end += o[i].bytes_end;
    }
    CHECK(peak <= f->bytes_peak && end <= f->bytes_end);
    CHECK(!all || !count || (peak == f->bytes_peak && end == f->bytes_end));
}

static void check_leaks(const mnem_report_facts *f) {
    uint64_t bytes = 0, blocks = 0;
    for (size_t i = 0; i < f->leaks; i++) {
        CHECK(f->leak[i].blocks && f->leak[i].age_oldest >= f->leak[i].age_median);
        CHECK(f->leak[i].age_oldest <= f->duration);
        bytes += f->leak[i].bytes;
        blocks += f->leak[i].blocks;
    }
    CHECK(bytes == f->leaked_bytes && blocks == f->leaked_blocks && bytes <= f->bytes_end);
}

static void check_facts(const mnem_report_facts *f) {
    double value;
    CHECK(f->live.at_peak == f->bytes_peak && f->peak_at <= f->duration);
    CHECK(f->live.mean >= 0 && f->live.mean <= (double)f->bytes_peak * 1.0001);
    check_owners(f, f->account, f->accounts, true);
    check_owners(f, f->site, f->sites, f->accounts == 0);
    check_leaks(f);
    for (int i = 0; i < MNEM_REPORT_METRICS; i++)
        if (!mnem_report_measure(f, (mnem_report_metric)i, &value)) CHECK(value == 0);
}

/* What a page draws is text that a script in HTML may hold. */
static bool take(void *context, const char *text, size_t n) {
    uint64_t *bytes = context;
    for (size_t i = 0; i < n; i++)
        CHECK((text[i] >= 32 || text[i] == '\n') && text[i] < 127 && text[i] != '<');
    *bytes += n;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char path[32];
    const int fd = memfd_create("report", 0);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    mnem_report *r;
    if (mnem_report_create(path, NULL, &r) == MNEM_OK) {
        uint64_t bytes = 0;
        check_facts(mnem_report_facts_get(r));
        CHECK(mnem_report_draw(r, &(mnem_report_sink){take, &bytes}) == MNEM_OK && bytes);
    } else {
        CHECK(!r && *mnem_last_error());
    }
    mnem_report_destroy(r);
    close(fd);
    return 0;
}
