/* architectures.c: the list of architectures. A new one is a file arch_NAME.c beside this one, its
 * line here and its name among the sources. */
#include <stdio.h>
#include <string.h>

#include "model/architecture/architecture.h"

#define ARCHITECTURES(X)                                                                           \
    X(llama)                                                                                       \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(gpt2)

#define DECLARE(name) extern const mnem__architecture mnem__architecture_##name;
ARCHITECTURES(DECLARE)
static const mnem__architecture *const all[] = {
#define ADDRESS(name) &mnem__architecture_##name,
    ARCHITECTURES(ADDRESS)};
enum { COUNT = sizeof all / sizeof all[0] };

const mnem__architecture *mnem__architecture_get(int index) {
    return index < COUNT ? all[index] : NULL;
}

const mnem__architecture *mnem__architecture_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        for (int n = 0; n < MNEM__NAMES_MAX && all[i]->names[n]; n++)
            if (strcmp(name, all[i]->names[n]) == 0) return all[i];
    return NULL;
}

void mnem__architecture_names(bool trained, char *text, size_t size) {
    const char *names[COUNT * MNEM__NAMES_MAX];
    size_t count = 0, at = 0;
    for (int i = 0; i < COUNT; i++)
        for (int n = 0; n < (trained ? 1 : MNEM__NAMES_MAX) && all[i]->names[n]; n++)
            if (!trained || all[i]->trained) names[count++] = all[i]->names[n];
    text[0] = 0;
    for (size_t i = 0; i < count && at < size; i++) {
        const char *before = i == 0 ? "" : i + 1 == count && !trained ? " and " : ", ";
        at += (size_t)snprintf(text + at, size - at, "%s%s", before, names[i]);
    }
}

bool mnem__architecture_has(const mnem__architecture *a, mnem__role role) {
    for (const mnem__tensor_use *use = a->tensors; use->role; use++)
        if (use->role == role) return true;
    return false;
}
