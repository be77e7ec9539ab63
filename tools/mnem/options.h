/* options.h: the rows of the option table, for those who print them. */
#ifndef MNEM_TOOLS_MNEM_OPTIONS_H
#define MNEM_TOOLS_MNEM_OPTIONS_H

#include "tool.h"

typedef enum tool_value {
    TOOL_VALUE_FLAG,   /* bool */
    TOOL_VALUE_TEXT,   /* const char * */
    TOOL_VALUE_SIZE,   /* uint64_t bytes */
    TOOL_VALUE_COUNT,  /* int32_t within [least, most] */
    TOOL_VALUE_NUMBER, /* uint64_t, within [least, most] where most isn't 0 */
    TOOL_VALUE_REAL,   /* double within [least, most] */
    TOOL_VALUE_CHOICE, /* int32_t: which word of choices */
    TOOL_VALUE_NAME,   /* const char *: a word of choices, in any case */
    TOOL_VALUE_LIST,   /* texts: the option may be given again (stop, space) */
} tool_value;

typedef struct tool_option {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* as help shows it; NULL: a flag */
    tool_value kind;
    size_t offset; /* of the field in tool_args */
    double least, most;
    const char *choices; /* words with spaces between; of TEXT only for completion */
    unsigned verbs;      /* bit per tool_verb_id */
    const char *help;
} tool_option;
extern const tool_option tool_options[];
extern const int tool_options_count;

typedef struct tool_variable {
    const char *name, *fallback, *help;
} tool_variable;
extern const tool_variable tool_variables[];
extern const int tool_variables_count;

void tool_help_overview(FILE *file);
void tool_help_verb(FILE *file, tool_verb_id verb);

#endif
