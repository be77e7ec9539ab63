/* output.c: stdout, messages, and numbers as text.
 *
 * stdout goes through stdio with a static buffer; a reader that went away (EPIPE) is remembered and
 * is no error: whoever makes the text asks tool_out_closed and stops. Nor is a Ctrl-C that comes
 * while a reader is slow: the text ends there. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

static int out_error; /* errno of the first failed write; 0: none */

static bool out_check(bool ok) {
    if (!ok && !out_error) out_error = errno ? errno : EIO;
    return !out_error;
}

bool tool_out(const char *text, size_t length) {
    if (out_error) return false;
    return out_check(fwrite(text, 1, length, stdout) == length);
}

bool tool_outf(const char *format, ...) {
    if (out_error) return false;
    va_list list;
    va_start(list, format);
    int n = vfprintf(stdout, format, list);
    va_end(list);
    return out_check(n >= 0);
}

bool tool_out_flush(void) {
    if (out_error) return false;
    return out_check(fflush(stdout) == 0);
}

bool tool_out_closed(void) {
    return out_error != 0;
}

int tool_out_end(void) {
    tool_out_flush();
    if (!out_error || out_error == EPIPE) return TOOL_OK;
    if (out_error == EINTR && tool_interrupted()) return tool_fail(MNEM_CANCELLED);
    static bool told;
    if (!told) tool_message("writing to standard output failed: %s", strerror(out_error));
    told = true;
    return TOOL_FAILED;
}

bool tool_out_json(const char *type, json_t *value) {
    if (!value) {
        errno = ENOMEM;
        return out_check(false);
    }
    if (!json_object_get(value, "type")) json_object_set_new(value, "type", json_string(type));
    bool ok = !out_error && out_check(json_dumpf(value, stdout, JSON_COMPACT) == 0);
    json_decref(value);
    return ok && tool_out("\n", 1) && tool_out_flush();
}

void tool_out_escaped(void *context, const char *text, size_t length) {
    (void)context;
    json_t *value = json_stringn(text, length);
    char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (quoted) tool_out(quoted + 1, strlen(quoted) - 2);
    free(quoted);
    json_decref(value);
}

json_t *tool_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *tool_json_known(double value) {
    return value > 0 ? json_real(value) : json_null();
}

json_t *tool_json_count(bool known, uint64_t value) {
    return known ? json_integer((json_int_t)value) : json_null();
}

/* ---- messages ---- */

/* What went wrong, for --json. What tool_fail says counts before other messages. */
static struct {
    char text[1024];
    mnem_status status; /* MNEM_OK: only messages */
    json_t *more;       /* NULL: nothing */
} failure;

static void say(const char *format, va_list list) {
    char text[sizeof failure.text];
    vsnprintf(text, sizeof text, format, list);
    tool_progress_hide();
    if (tool_columns(stderr))
        tool_wrap(stderr, "mnem: ", text);
    else
        fprintf(stderr, "mnem: %s\n", text); /* a line each, for who searches in them */
    if (failure.status == MNEM_OK) memcpy(failure.text, text, sizeof text);
}

void tool_message(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
}

void tool_say_waiting(void) {
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        fputs("reading the input from the terminal; press Ctrl-D on an empty line to end it\n",
              stderr);
}

int tool_usage(const char *verb, const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    fprintf(stderr, "Try: mnem help%s%s\n", verb ? " " : "", verb ? verb : "");
    return TOOL_USAGE;
}

int tool_fail_with(mnem_status status, const char *advice) {
    if (status == MNEM_CANCELLED) {
        tool_progress_hide();
        if (isatty(STDERR_FILENO)) fputc('\n', stderr); /* the terminal has shown ^C */
        return TOOL_INTERRUPTED;
    }
    const char *why = mnem_last_error();
    if (!*why) why = mnem_status_text(status);
    tool_message("%s%s", why, advice);
    failure.status = status;
    return status == MNEM_OVER_BUDGET ? TOOL_OVER_BUDGET : TOOL_FAILED;
}

/* A plan's refusal is worded in refusal.c; the ledger's doesn't know of options. */
int tool_fail(mnem_status status) {
    const bool over = status == MNEM_OVER_BUDGET && !strstr(mnem_last_error(), "--");
    return tool_fail_with(status, over ? ": use a larger --memory" : "");
}

void tool_failure_said(char *text, size_t n) {
    snprintf(text, n, "%s", failure.text);
}

void tool_failure_bytes(const char *key, uint64_t bytes) {
    if (!failure.more) failure.more = json_object();
    json_object_set_new(failure.more, key, json_integer((json_int_t)bytes));
}

int tool_failed(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    return TOOL_FAILED;
}

int tool_over(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    failure.status = MNEM_OVER_BUDGET;
    return TOOL_OVER_BUDGET;
}

int tool_fail_asked(mnem_status status) {
    if (status != MNEM_INVALID) return tool_fail(status);
    return tool_usage(tool_verb_name(), "%s", mnem_last_error());
}

void tool_failure_text(const char *key, const char *text) {
    if (!failure.more) failure.more = json_object();
    json_object_set_new(failure.more, key, json_string(text));
}

void tool_error_json(const tool_args *args, int code) {
    const bool failed = failure.status != MNEM_OK || code == TOOL_FAILED;
    if (!args->json || code == TOOL_OK || code == TOOL_USAGE || !failed || !*failure.text) return;
    const char *status = failure.status ? mnem_status_text(failure.status) : "failed";
    json_t *object = json_pack("{s:o?, s:s, s:b}", "error", json_string(failure.text), "status",
                               status, "refused", failure.status == MNEM_OVER_BUDGET);
    if (object && failure.more) json_object_update_new(object, failure.more);
    failure.more = NULL;
    tool_out_json("error", object);
    tool_out_end();
}

/* ---- numbers as text ---- */

/* The kernel's own peak is counted by processor and may be told smaller the next time. */
uint64_t tool_peak_bytes(void) {
    static _Atomic uint64_t most;
    mnem_process_usage usage = {0};
    mnem_process_usage_get(&usage);
    uint64_t before = most;
    while (before < usage.bytes_peak &&
           !atomic_compare_exchange_weak(&most, &before, usage.bytes_peak))
        continue;
    return most;
}

const char *tool_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *tool_size(uint64_t bytes, char text[TOOL_TEXT]) {
    return mnem_size_format(bytes, text, TOOL_TEXT);
}

char *tool_exact(uint64_t number, char text[TOOL_TEXT]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

char *tool_count(double number, char text[TOOL_TEXT]) {
    static const char *const units[] = {"", " k", " M", " B", " T"};
    int unit = 0;
    /* 999.95 would print as 1000.0 */
    while (number >= 999.95 && unit < 4) number /= 1000, unit++;
    snprintf(text, TOOL_TEXT, number >= 100 || unit == 0 ? "%.0f%s" : "%.1f%s", number,
             units[unit]);
    return text;
}

char *tool_seconds(double seconds, char text[TOOL_TEXT]) {
    if (seconds < 10)
        snprintf(text, TOOL_TEXT, "%.1f s", seconds);
    else if (seconds < 120)
        snprintf(text, TOOL_TEXT, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, TOOL_TEXT, "%.0f min", seconds / 60);
    else
        snprintf(text, TOOL_TEXT, "%.1f h", seconds / 3600);
    return text;
}

const char *tool_s(uint64_t number) {
    return number == 1 ? "" : "s";
}

double tool_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int32_t tool_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

int tool_columns(FILE *file) {
    struct winsize size = {0};
    const bool known = ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col >= 40;
    return known ? size.ws_col : 0;
}

/* Columns of a word: characters, of UTF-8, each one wide. */
static int columns_of(const char *word, int bytes) {
    int columns = 0;
    for (int i = 0; i < bytes; i++) columns += ((unsigned char)word[i] & 0xc0) != 0x80;
    return columns;
}

/* Bytes up to where a line may be broken: of a word, or of a `command`, which is copied as a whole
 * and so is kept on a line where one of `most` columns can hold it. */
static int unbroken(const char *text, int most) {
    const int word = (int)strcspn(text, " \n");
    const char *open = memchr(text, '`', (size_t)word);
    const char *close = open ? strchr(open + 1, '`') : NULL;
    if (!close || close < text + word) return word;
    const int whole = (int)(close - text) + (int)strcspn(close, " \n");
    return memchr(text, '\n', (size_t)whole) || columns_of(text, whole) > most ? word : whole;
}

enum { USUAL_COLUMNS = 80, MOST_COLUMNS = 100 };

static int columns_to_use(FILE *file) {
    const int wide = tool_columns(file);
    return !wide ? USUAL_COLUMNS : wide < MOST_COLUMNS ? wide : MOST_COLUMNS;
}

bool tool_out_row(const char *left, const char *right) {
    const int width = columns_of(left, (int)strlen(left)) + columns_of(right, (int)strlen(right));
    if (!*right) return tool_outf("%s\n", left);
    return width + 2 > columns_to_use(stdout) ? tool_outf("%s\n        %s\n", left, right)
                                              : tool_outf("%s  %s\n", left, right);
}

bool tool_out_result(const char *path, const char *text) {
    const int width = columns_of(path, (int)strlen(path)) + columns_of(text, (int)strlen(text));
    if (!tool_columns(stdout) || width + 2 <= columns_to_use(stdout))
        return tool_outf("%s: %s\n", path, text);
    if (!tool_outf("%s:\n", path) || !tool_out_flush()) return false;
    tool_wrap(stdout, "    ", text);
    return true;
}

void tool_wrap(FILE *file, const char *lead, const char *text) {
    const int columns = columns_to_use(file);
    int indent = columns_of(lead, (int)strlen(lead)), column = indent;
    fputs(lead, file);
    while (*text) {
        const int word = unbroken(text, columns - indent), width = columns_of(text, word);
        if (column > indent && column + 1 + width > columns) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        }
        if (column > indent) fputc(' ', file);
        fprintf(file, "%.*s", word, text);
        column += width + (column > indent);
        text += word;
        while (*text == ' ' || *text == '\n') text++;
    }
    fputc('\n', file);
}

bool tool_has_colours(FILE *file) {
    const char *terminal = tool_env("TERM");
    return isatty(fileno(file)) && !tool_env("NO_COLOR") && terminal &&
           strcmp(terminal, "dumb") != 0;
}

void tool_wrap_dim(FILE *file, const char *lead, const char *text) {
    const bool colours = tool_has_colours(file);
    if (colours) fputs("\033[2m", file);
    tool_wrap(file, lead, text);
    if (colours) fputs("\033[0m", file);
}
