/* render_templates.c: cases (template_case.h), a line of JSON each, from standard input; their
 * results, a line each, to standard output. template_jinja.py compares them with Python's. */
#include <stdio.h>
#include <stdlib.h>

#include "text/template/template_case.h"

int main(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        json_error_t error;
        json_t *one = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &error);
        json_t *result = one ? template_case_run(one) : json_pack("{s:s}", "error", error.text);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(one);
    }
    free(line);
    return 0;
}
