/* verb_template.c: `mnem template`: a model's chat template, and what it makes of a chat.
 *
 * Neither a transformer nor a tokenizer has to open: a file that doesn't run yet has a template. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

typedef struct template_options {
    tool_args args;
    tool_template_asked template;
    const char *messages, *tools;
    bool no_prompt;
} template_options;

/* What is shown where nobody gives a conversation. */
static const char small_talk[] =
    "[{\"role\": \"system\", \"content\": \"You are a helpful assistant.\"},"
    " {\"role\": \"user\", \"content\": \"Hello!\"},"
    " {\"role\": \"assistant\", \"content\": \"Good day.\"},"
    " {\"role\": \"user\", \"content\": \"How are you?\"}]";

/* Texts of the call, each ended by a zero; NULL: not given. */
typedef struct texts {
    char *source, *messages, *tools, *bos, *eos;
} texts;

/* A file's text, NULL where path is. */
static int read_file(tool_stage *stage, const char *path, char **text) {
    if (!path) return TOOL_OK;
    stage->prompt.bytes = 0;
    const int code = tool_stage_read(stage, path);
    if (code != TOOL_OK) return code;
    const size_t n = stage->prompt.bytes;
    if (!(*text = malloc(n + 1))) return tool_fail(MNEM_NO_MEMORY);
    if (n > 0) memcpy(*text, stage->prompt.text, n);
    (*text)[n] = 0;
    if (strlen(*text) == n) return TOOL_OK;
    tool_message("the text of %s has a zero byte, which is not supported: remove it", path);
    return TOOL_FAILED;
}

static char *copy(mnem_text text) {
    char *out = malloc(text.length + 1);
    if (!out) return NULL;
    memcpy(out, text.bytes, text.length);
    out[text.length] = 0;
    return out;
}

/* The file's own template, and the texts of its tokens; without a tokenizer that opens they aren't
 * defined. */
static int read_model(tool_stage *stage, texts *given) {
    mnem_value value;
    const char key[] = "tokenizer.chat_template";
    if (!given->source) {
        if (!mnem_model_key_find(stage->model, key, &value) || value.type != MNEM_VALUE_STRING) {
            return tool_failed("%s has no chat template: give one with --template FILE",
                               mnem_model_file_path(stage->model, 0));
        }
        if (!(given->source = copy(value.text))) return tool_fail(MNEM_NO_MEMORY);
    }
    if (mnem_tokenizer_create(stage->model, &stage->tokenizer) != MNEM_OK) {
        tool_message("warning: the template runs without bos_token and eos_token, because the "
                     "tokenizer can't be used: %s",
                     mnem_last_error());
        return TOOL_OK;
    }
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(stage->tokenizer, &info);
    if (info.bos >= 0) given->bos = copy(mnem_tokenizer_piece(stage->tokenizer, info.bos, true));
    if (info.eos >= 0) given->eos = copy(mnem_tokenizer_piece(stage->tokenizer, info.eos, true));
    return TOOL_OK;
}

static int open_all(tool_stage *stage, texts *given) {
    const template_options *o = (const template_options *)stage->args;
    const char *path = tool_model_path(stage->args);
    if (!path) return TOOL_FAILED;
    mnem_status status =
        mnem_ledger_create_process(&(mnem_ledger_options){.own_process = true}, &stage->ledger);
    if (status == MNEM_OK) status = mnem_model_open(path, &stage->model);
    if (status != MNEM_OK) return tool_fail(status);
    int code = read_file(stage, o->template.file, &given->source);
    if (code == TOOL_OK) code = read_file(stage, o->messages, &given->messages);
    if (code == TOOL_OK) code = read_file(stage, o->tools, &given->tools);
    return code == TOOL_OK ? read_model(stage, given) : code;
}

static void print(const template_options *o, const texts *given, mnem_text text) {
    if (o->args.json) {
        tool_out_json("template", json_pack("{s:s, s:o}", "template", given->source, "text",
                                            json_stringn(text.bytes, text.length)));
        return;
    }
    if (!o->messages) {
        tool_out(given->source, strlen(given->source));
        tool_outf("\n\n==> a small conversation\n\n");
    }
    tool_out(text.bytes, text.length);
    tool_out("\n", 1);
}

static int render(const template_options *o, const texts *given) {
    mnem_template *t;
    mnem_text text;
    const mnem_template_input input = {.messages = given->messages ? given->messages : small_talk,
                                       .tools = given->tools,
                                       .arguments = o->template.arguments,
                                       .bos = given->bos,
                                       .eos = given->eos,
                                       .add_generation_prompt = !o->no_prompt};
    mnem_status status = mnem_template_open(given->source, strlen(given->source), NULL, &t);
    if (status == MNEM_OK) status = mnem_template_render(t, &input, &text);
    const int code = status == MNEM_OK ? TOOL_OK : tool_fail(status);
    if (code == TOOL_OK) print(o, given, text);
    mnem_template_close(t);
    return code == TOOL_OK ? tool_out_end() : code;
}

static int verb_template(const tool_args *args) {
    tool_stage stage = {.args = args};
    texts given = {0};
    int code = open_all(&stage, &given);
    if (code == TOOL_OK) code = render((const template_options *)args, &given);
    free(given.source);
    free(given.messages);
    free(given.tools);
    free(given.bos);
    free(given.eos);
    tool_stage_close(&stage);
    return code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(template_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"messages", 0, "FILE", TOOL_VALUE_TEXT, AT(messages),
     .help = "the conversation: a JSON list of objects with role and content (- is standard "
             "input); only the text that the template renders is shown"},
    {"tools", 0, "FILE", TOOL_VALUE_TEXT, AT(tools),
     .help = "a JSON list of tools that the model may call"},
    TOOL_GROUP(tool_template_options, AT(template)),
    {"no-prompt", 0, NULL, TOOL_VALUE_FLAG, AT(no_prompt),
     .help = "don't end with the generation prompt (the text that opens the assistant's answer)"},
    TOOL_JSON_OPTION("one object"),
    {0},
};

static template_options asked;
TOOL_VERB(
    template, "[MODEL]", 0, 1, "show a model's chat template and the text that it renders",
    "Shows the chat template of a model (Jinja, from its file) and the text that it renders for\n"
    "a small example conversation, or for yours. Templates run in mnem's own interpreter, with\n"
    "limits on memory and time; results are the same as Python's jinja2. Errors that a template\n"
    "raises itself (raise_exception) and mistakes in it are reported with their line.\n",
    "mnem template model.gguf  # show the template, and a rendered example\n"
    "mnem template model.gguf --messages chat.json --tools tools.json  # render your conversation "
    "only\n"
    "mnem template model.gguf --template-args '{\"enable_thinking\": false}'  # set a variable of "
    "the template\n"
    "mnem template --template new.jinja --json | jq -r .text  # render with your own template\n");
