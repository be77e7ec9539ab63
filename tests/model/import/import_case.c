/* import_case.c: see import_case.h. */
#include "model/import/import_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"

const char *copy_folder(const char *stored, const char *name) {
    const char *to = kit_path(name);
    char command[1024];
    kit_remove(to);
    snprintf(command, sizeof command, "cp -r '%s' '%s' && chmod -R u+w '%s'", stored, to, to);
    assert_int_equal(system(command), 0);
    return to;
}

static void path_of(const char *folder, const char *name, char path[512]) {
    snprintf(path, 512, "%s/%s", folder, name);
}

void put_file(const char *folder, const char *name, const char *text) {
    char path[512];
    path_of(folder, name, path);
    if (text)
        write_file(path, text, strlen(text));
    else
        unlink(path);
}

void edit_file(const char *folder, const char *name, const char *old, const char *new) {
    char path[512];
    size_t n;
    path_of(folder, name, path);
    char *text = read_file(path, &n), *at = strstr(text, old);
    if (!at) fail_msg("%s: no %s", path, old);
    char *changed = malloc(n + strlen(new) + 1);
    const size_t head = (size_t)(at - text), tail = n - head - strlen(old);
    memcpy(changed, text, head);
    memcpy(changed + head, new, strlen(new));
    memcpy(changed + head + strlen(new), at + strlen(old), tail);
    write_file(path, changed, head + strlen(new) + tail);
    free(changed);
    free(text);
}

void refuses(const char *folder, mnem_status status, ...) {
    mnem_model *model = NULL;
    const mnem_status got = mnem_model_open(folder, &model);
    mnem_model_close(model);
    if (got != status)
        fail_msg("%s, expected %s: %s", mnem_status_text(got), mnem_status_text(status),
                 mnem_last_error());
    va_list words;
    va_start(words, status);
    for (const char *word; (word = va_arg(words, const char *));)
        if (!strstr(mnem_last_error(), word)) fail_msg("no \"%s\": %s", word, mnem_last_error());
    va_end(words);
}
