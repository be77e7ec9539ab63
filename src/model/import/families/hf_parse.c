/* hf_parse.c: see hf_parse.h. */
#include "model/import/families/hf_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts a part out, wherever it is. */
static void cut(char *name, const char *part) {
    char *at = strstr(name, part);
    if (at) memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
}

static const char *skip_beginning(const char *name, const char *beginning) {
    const size_t n = strlen(beginning);
    return strncmp(name, beginning, n) == 0 ? name + n : name;
}

/* "experts.12." becomes "experts.*." */
static void take_expert(mnem__hf_parsed *p) {
    static const char word[] = "experts.";
    char *at = strstr(p->text, word), *end;
    p->expert = -1;
    if (!at) return;
    at += sizeof word - 1;
    const long number = strtol(at, &end, 10);
    if (end == at || *end != '.' || *at < '0' || *at > '9') return;
    p->expert = number;
    *at = '*';
    memmove(at + 1, end, strlen(end) + 1);
}

/* There, and here; old files say it the second way. */
static const char *const suffixes[][2] = {
    {".weight", ".weight"}, {".bias", ".bias"}, {".gamma", ".weight"}, {".beta", ".bias"}};

void mnem__hf_parse(const char *name, mnem__hf_parsed *p) {
    snprintf(p->text, sizeof p->text, "%s", name);
    cut(p->text, "language_model.");
    cut(p->text, "text_model.");
    take_expert(p);
    const char *at = skip_beginning(skip_beginning(p->text, "model."), "transformer.");
    at = skip_beginning(skip_beginning(at, "bert."), "backbone.");
    const char *number = skip_beginning(skip_beginning(at, "encoder."), "layers.");
    number = skip_beginning(skip_beginning(number, "layer."), "h.");
    p->layer = -1;
    if (number != at && *number >= '0' && *number <= '9') {
        char *end;
        p->layer = strtol(number, &end, 10);
        at = *end == '.' ? end + 1 : end;
    }
    p->base = at;
    p->base_bytes = strlen(at);
    p->suffix = at + p->base_bytes;
    const char *dot = strrchr(at, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(dot, suffixes[i][0]) != 0) continue;
        p->suffix = suffixes[i][1];
        p->base_bytes = (size_t)(dot - at);
    }
}
