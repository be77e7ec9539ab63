/* call_format.h: the formats in which models write calls of tools.
 *
 *     <tool_call>                                     ChatML's (Hermes, Qwen, SmolLM3 ...)
 *     {"name": "add", "arguments": {"a": 1}}
 *     </tool_call>
 *     {"name": "add", "parameters": {"a": 1}}         Llama 3's: the whole answer is a call
 *     [TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}, ...]       Mistral's
 *     [TOOL_CALLS]add[ARGS]{"a": 1}                   Mistral's later one, once for each call
 *     <tool_call>                                     Qwen3-Coder's
 *     <function=add>
 *     <parameter=a>
 *     1
 *     </parameter>
 *     </function>
 *     </tool_call>
 *     <tool_call>add                                  GLM's
 *     <arg_key>a</arg_key>
 *     <arg_value>1</arg_value>
 *     </tool_call>
 *
 * The template determines the format; templates without tools get the first one, and a text that
 * explains it to the model. */
#ifndef MNEM_SRC_SERVER_API_CALLS_CALL_FORMAT_H
#define MNEM_SRC_SERVER_API_CALLS_CALL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum call_shape {
    CALL_OBJECT, /* an object with a name and arguments */
    CALL_LIST,   /* a list of those */
    CALL_NAMED,  /* a name, a mark, and the object of arguments */
    CALL_KEYED   /* each argument between marks of its own, texts as they are */
} call_shape;

/* The marks around the parts of CALL_KEYED, in order. */
typedef struct call_keys {
    const char *name, *name_end;                   /* "" for none */
    const char *key, *key_end, *value, *value_end; /* around an argument's key, and its value */
    const char *end;                               /* behind all of them */
    bool lines;                                    /* a value is on separate lines */
} call_keys;

typedef struct call_format {
    const char *name;
    call_shape shape;
    const char *begin, *end; /* marks around a call; both "": the whole answer is one call */
    const char *arguments;   /* the member of an object that has the arguments */
    const char *mark;        /* CALL_NAMED: the mark behind the name */
    call_keys keys;
} call_format;

/* Finds the format in a template's text; *writes_tools: the template writes the tools. */
const call_format *call_format_find(const char *text, size_t n, bool *writes_tools);
/* Marks that vocabularies may have as control tokens; ends with NULL. */
const char *const *call_format_marks(void);

#endif
