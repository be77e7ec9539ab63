/* fuzz_train_config.c: any bytes as the config.json of a training run.
 *
 * What loads is within its bounds, and written and loaded again it is the same, so that a run that
 * began can be resumed; what doesn't was said in a message.
 *
 *     fuzz_train_config -max_len=4096 NEW_FOLDER fuzz/corpus/train_config */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/train/train_tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) abort();                                                                 \
    } while (0)

/* ---- the command around train_config.c and train_choice.c ---- */

static int messages;

#define SAY(format)                                                                                \
    do {                                                                                           \
        char text[4096];                                                                           \
        va_list list;                                                                              \
        va_start(list, format);                                                                    \
        CHECK(vsnprintf(text, sizeof text, format, list) > 0); /* reads what it is given */        \
        va_end(list);                                                                              \
        messages++;                                                                                \
    } while (0)

void tool_message(const char *format, ...) {
    SAY(format);
}

int tool_failed(const char *format, ...) {
    SAY(format);
    return TOOL_FAILED;
}

int tool_usage(const char *verb, const char *format, ...) {
    (void)verb;
    (void)format;
    return TOOL_USAGE;
}

bool tool_given(const tool_args *args, const char *name) {
    (void)args;
    (void)name;
    return false;
}

const char *tool_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool train_resume_is_folder(const char *path) {
    (void)path;
    return false;
}

int tool_check_model(const char *verb, const char *name) {
    (void)verb;
    (void)name;
    return TOOL_OK;
}

int32_t train_ranks(void) {
    return 1;
}

int train_teacher_say(const train_options *asked, train_config *c) {
    (void)asked;
    (void)c;
    return TOOL_OK;
}

/* ---- what loads ---- */

static void check_bounds(const train_config *c) {
    CHECK(c->layers >= 1 && c->layers <= 1024 && c->heads >= 1 && c->kv_heads >= 1);
    CHECK(c->embd >= 1 && c->ff >= 1 && c->vocab >= (*c->init ? 1 : 256) && c->context >= 1 &&
          c->batch >= 1);
    CHECK(c->steps >= 0 && c->warmup >= 0 && c->rate >= 0 && c->rate <= 10);
    CHECK(c->dropout >= 0 && c->dropout < 1 && c->heldout >= 0 && c->heldout < 1);
    CHECK(!strcmp(c->moments, "f32") || !strcmp(c->moments, "8bit"));
    CHECK(*c->init || !strcmp(c->architecture, "llama") || !strcmp(c->architecture, "gpt2"));
    CHECK(memchr(c->precision, 0, sizeof c->precision) && memchr(c->pre, 0, sizeof c->pre));
    CHECK(c->files >= 0 && c->files <= TRAIN_FILES_MAX);
}

static bool same(const train_config *a, const train_config *b) {
    CHECK(a->files == b->files);
    for (int32_t i = 0; i < a->files; i++) CHECK(!strcmp(a->file[i], b->file[i]));
    return a->layers == b->layers && a->embd == b->embd && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->ff == b->ff && a->vocab == b->vocab &&
           a->context == b->context && a->batch == b->batch && a->steps == b->steps &&
           a->time == b->time && a->rate == b->rate && a->rate_floor == b->rate_floor &&
           a->weight_decay == b->weight_decay && a->dropout == b->dropout && a->clip == b->clip &&
           a->heldout == b->heldout && a->warmup == b->warmup && a->seed == b->seed &&
           a->memory == b->memory && a->epsilon == b->epsilon && a->rope_base == b->rope_base &&
           !strcmp(a->architecture, b->architecture) && !strcmp(a->precision, b->precision) &&
           !strcmp(a->moments, b->moments) && !strcmp(a->pre, b->pre) &&
           !strcmp(a->name, b->name) && !strcmp(a->license, b->license) && a->lora == b->lora &&
           a->lora_alpha == b->lora_alpha && !strcmp(a->lora_targets, b->lora_targets) &&
           !strcmp(a->init, b->init) && !strcmp(a->data, b->data) && !strcmp(a->base, b->base) &&
           !strcmp(a->template_args, b->template_args) && a->vocab_asked == b->vocab_asked;
}

static void check_again(const train_config *c) {
    char path[64];
    snprintf(path, sizeof path, "%s/mnem-fuzz-config-%d",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    train_config again = {.files = 0};
    CHECK(train_config_save(path, c) == TOOL_OK);
    CHECK(train_config_load(path, &again) == TOOL_OK);
    CHECK(unlink(path) == 0);
    CHECK(same(c, &again));
    train_config_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char whole[] = "{}";
    char path[32];
    const int fd = memfd_create("config", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, n ? data : (const uint8_t *)whole, n ? n : 2) >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    train_options asked = {.config = path, .steps = 1, .data = "/dev/null"};
    train_config c;
    messages = 0;
    const int code = train_config_make(&asked, &c);
    CHECK(code == TOOL_OK || code == TOOL_USAGE || messages == 1);
    if (code == TOOL_OK) {
        check_bounds(&c);
        if (!*c.data) strcpy(c.data, "text"); /* train_data.c has looked at the files by then, */
        if (!*c.distill_on) strcpy(c.distill_on, "logits"); /* and train_teacher.c */
        check_again(&c);
    }
    train_config_fini(&c);
    close(fd);
    return 0;
}
