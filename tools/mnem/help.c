/* help.c: help, the man page and the words of completion, all from the tables.
 *
 * `mnem help VERB` is for people, wrapped to the terminal; `help man` is docs/mnem.1; `help verbs`
 * and `help options` are lines that completion reads, so that it never knows less than the command.
 * What a verb takes but hides (plan: what only run shows) is in none of them. */
#include <string.h>

#include "options.h"
#include "screen/pager.h"

/* ---- for people ---- */

static void put_verb(FILE *file, const tool_verb *verb) {
    fprintf(file, "  %-11s %s\n", verb->name, verb->about.summary);
}

/* One screen of a terminal: what people do first. */
void tool_help_overview(FILE *file) {
    static const tool_verb *const first[] = {
        &tool_verb_run,     &tool_verb_serve,    &tool_verb_plan,  &tool_verb_info,
        &tool_verb_convert, &tool_verb_quantize, &tool_verb_train, &tool_verb_help};
    fputs("mnem runs language models (GGUF files) inside a memory budget that you set.\n"
          "\n"
          "Usage: mnem VERB [operands] [options]\n\n",
          file);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) put_verb(file, first[i]);
    fputs("\nStart here:\n"
          "  mnem run -p 'In the beginning'         the model that ships with mnem\n"
          "  mnem plan model.gguf --memory 2G       would this file run in 2 GiB, and how?\n"
          "  mnem run model.gguf --memory 2G        chat inside 2 GiB\n"
          "  mnem help run                          options and examples of a verb\n"
          "  mnem help all                          all verbs\n",
          file);
}

static void help_all(FILE *file) {
    fputs("The verbs of mnem; mnem help VERB shows the options and examples of one.\n\n", file);
    for (int i = 0; tool_verbs[i]; i++) put_verb(file, tool_verbs[i]);
}

/* "  -p, --prompt TEXT" */
static void option_name(const tool_option *o, char *out, size_t n) {
    char letter[5] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, n, "  %s--%s%s%s  ", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
}

/* The note of an example's line, or the line's end. */
static const char *find_note(const char *line) {
    const char *end = strchr(line, '\n'), *note = strstr(line, "  # ");
    return note && note < end ? note : end;
}

/* Each line of examples: the command, two spaces, "# what it does"; on a line of its own where both
 * are wider than a terminal. */
static void examples(FILE *file, const char *text) {
    enum { WIDEST = 46, COLUMNS = 80 };
    int width = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *note = find_note(line);
        const int n = (int)(note - line);
        if (*note != '\n' && n > width && n <= WIDEST) width = n;
    }
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *note = find_note(line);
        const int n = (int)(note - line), end = (int)(strchr(line, '\n') - note);
        const bool apart = 2 + (n > width ? n : width) + end > COLUMNS;
        fprintf(file, "  %-*.*s", apart || !end ? 0 : width, n, line);
        if (apart) fprintf(file, "\n%*s", COLUMNS - end < 6 ? 4 : 6, "");
        fprintf(file, "%.*s\n", end - 2 * apart, note + 2 * apart);
    }
}

/* Paragraphs wrapped anew; a line that begins with a space stays as it is. */
static void paragraphs(FILE *file, const char *text) {
    char paragraph[1200];
    size_t n = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");
        const bool apart = !length || *line == ' ';
        if (apart && n) tool_wrap(file, "", paragraph);
        if (apart) {
            fprintf(file, "%.*s\n", (int)length, line);
            n = 0;
            continue;
        }
        n += (size_t)snprintf(paragraph + n, sizeof paragraph - n, "%s%.*s", n ? " " : "",
                              (int)length, line);
    }
    if (n) tool_wrap(file, "", paragraph);
}

static void variables(FILE *file) {
    fputs("\nEnvironment:\n", file);
    for (int i = 0; i < tool_variables_count; i++) {
        const tool_variable *v = &tool_variables[i];
        char lead[32], text[400];
        snprintf(lead, sizeof lead, "  %-15s ", v->name);
        snprintf(text, sizeof text, "%s (default: %s)", v->help, v->fallback);
        tool_wrap(file, lead, text);
    }
}

static void put_options(FILE *file, const tool_verb *verb) {
    tool_option o;
    int width = 0;
    char name[64], lead[64];
    for (int i = 0; tool_option_get(verb, i, &o); i++) {
        option_name(&o, name, sizeof name);
        if (!o.hidden && (int)strlen(name) > width) width = (int)strlen(name);
    }
    for (int i = 0; tool_option_get(verb, i, &o); i++) {
        if (o.hidden) continue;
        option_name(&o, name, sizeof name);
        snprintf(lead, sizeof lead, "%-*s", width, name);
        tool_wrap(file, lead, o.help);
    }
}

/* "--ctx-size, --n-ctx" in words of --ctx: what other tools call what this verb has. */
static void put_spellings(FILE *file, const tool_verb *verb) {
    tool_option o;
    bool any = false;
    for (int i = 0; tool_option_get(verb, i, &o); i++) {
        char lead[64], text[256];
        size_t n = 0;
        if (o.hidden || !o.also) continue;
        for (const char *word = o.also; word; word = strchr(word, ' ')) {
            word += *word == ' ';
            n += (size_t)snprintf(text + n, sizeof text - n, "%s--%.*s", n ? ", " : "",
                                  (int)strcspn(word, " "), word);
        }
        if (!any) fputs("\nOther names of these options, from other tools:\n", file);
        any = true;
        snprintf(lead, sizeof lead, "  --%s: ", o.name);
        tool_wrap(file, lead, text);
    }
}

void tool_help_verb(FILE *file, const tool_verb *v) {
    const bool all = v == &tool_verb_run || v == &tool_verb_help;
    fprintf(file, "mnem %s: %s\n\nUsage: mnem %s%s%s [options]\n\n", v->name, v->about.summary,
            v->name, *v->about.operands ? " " : "", v->about.operands);
    paragraphs(file, v->about.text);
    fputs("\nOptions:\n", file);
    put_options(file, v);
    put_spellings(file, v);
    fputs("\nExamples:\n", file);
    examples(file, v->about.examples);
    if (all) variables(file);
    if (!all) return;
    fputc('\n', file);
    tool_wrap(
        file, "",
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 over budget; 128 + the number of the "
        "signal that ended mnem (130 Ctrl-C, 143 SIGTERM; mnem serve ends with 0). With --json a "
        "failure is also printed "
        "as an object with the keys error, status and refused; if the budget is too small also "
        "needed_bytes, "
        "budget_bytes and least, the smallest --memory that works. A run whose peak exceeded its "
        "budget keeps its result, reports the "
        "excess and exits with 3; with --json an object after the result has over_budget_bytes.");
}

/* ---- for man ---- */

/* Text with the characters that roff would take for its own. */
static void roff(FILE *file, const char *text) {
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) fputs("\\&", file);
        if (*text == '\\')
            fputs("\\e", file);
        else if (*text == '-')
            fputs("\\-", file);
        else if (*text == '\'')
            fputs("\\(aq", file);
        else
            fputc(*text, file);
        start = *text == '\n';
    }
}

/* Paragraphs: an empty line begins the next one. */
static void roff_paragraphs(FILE *file, const char *text) {
    for (const char *end; (end = strstr(text, "\n\n")) != NULL; text = end + 2) {
        char paragraph[1024];
        snprintf(paragraph, sizeof paragraph, "%.*s\n", (int)(end - text), text);
        roff(file, paragraph);
        fputs(".PP\n", file);
    }
    roff(file, text);
}

static void roff_option(FILE *file, const tool_option *o) {
    fputs(".TP\n", file);
    if (o->letter) fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", file);
    roff(file, o->name);
    fputs("\\fR", file);
    if (o->value) fprintf(file, " \\fI%s\\fR", o->value);
    fputc('\n', file);
    roff(file, o->help);
    fputc('\n', file);
}

static void roff_verb(FILE *file, const tool_verb *v) {
    tool_option o;
    fprintf(file, ".SS \"mnem %s%s%s\"\n", v->name, *v->about.operands ? " " : "",
            v->about.operands);
    roff_paragraphs(file, v->about.text);
    for (int i = 0; tool_option_get(v, i, &o); i++)
        if (!o.hidden && o.letter != 'h') roff_option(file, &o);
    fputs(".PP\nExamples:\n.PP\n.nf\n.RS\n", file);
    for (const char *line = v->about.examples; *line; line = strchr(line, '\n') + 1) {
        char example[160];
        snprintf(example, sizeof example, "%.*s\n", (int)strcspn(line, "\n"), line);
        roff(file, example);
    }
    fputs(".RE\n.fi\n", file);
}

static void roff_environment(FILE *file) {
    fputs(".SH ENVIRONMENT\n", file);
    for (int i = 0; i < tool_variables_count; i++) {
        const tool_variable *v = &tool_variables[i];
        fprintf(file, ".TP\n\\fB%s\\fR\n", v->name);
        roff(file, v->help);
        fputs(" (default: ", file);
        roff(file, v->fallback);
        fputs(")\n", file);
    }
}

static void help_man(FILE *file) {
    fprintf(file,
            ".\\\" Made by `mnem help man` from the tables in tools/mnem; tests compare it.\n"
            ".TH MNEM 1 \"\" \"mnem %s\" \"User Commands\"\n",
            mnem_version());
    fputs(".SH NAME\n"
          "mnem \\- run language models inside a memory budget\n"
          ".SH SYNOPSIS\n"
          ".B mnem\n"
          ".I verb\n"
          ".RI [ operands ]\n"
          ".RI [ options ]\n"
          ".SH DESCRIPTION\n"
          "mnem runs language models (GGUF files) inside a memory budget that you set, and "
          "accounts for\n"
          "every byte. The budget covers the whole process: weights, caches, code and libraries.\n"
          "A run that doesn\\(aqt fit is refused before anything is loaded; the message has the "
          "bytes and\n"
          "the option that would help. Data goes to standard output, messages to standard error.\n"
          ".SH VERBS\n"
          "Every verb also takes \\fB\\-h\\fR, \\fB\\-\\-help\\fR: show its help.\n",
          file);
    for (int i = 0; tool_verbs[i]; i++) roff_verb(file, tool_verbs[i]);
    roff_environment(file);
    fputs(".SH EXIT STATUS\n"
          ".TP\n"
          "0\n"
          "done\n"
          ".TP\n"
          "1\n"
          "failed\n"
          ".TP\n"
          "2\n"
          "wrong usage\n"
          ".TP\n"
          "3\n"
          "over budget\n"
          ".TP\n"
          "128 + n\n"
          "ended by signal n: 130 by Ctrl\\-C, 143 by SIGTERM, 129 by SIGHUP\n"
          ".PP\n"
          "With \\fB\\-\\-json\\fR a failure (1 or 3) is also printed as an object on standard "
          "output: error (the\n"
          "message), status, refused (over budget); if the budget is too small also needed_bytes, "
          "budget_bytes and "
          "least,\n"
          "the smallest \\fB\\-\\-memory\\fR that works.\n"
          ".PP\n"
          "A run whose peak exceeded its budget keeps its result, reports the excess and exits "
          "with 3;\n"
          "with \\fB\\-\\-json\\fR an object after the result has over_budget_bytes.\n",
          file);
}

/* ---- for completion: one word a line ---- */

static void words_verbs(FILE *file) {
    for (int i = 0; tool_verbs[i]; i++) fprintf(file, "%s\n", tool_verbs[i]->name);
}

/* "run --json", "run --memory SIZE", "run -m SIZE", "run --kv = f16 q8_0 auto f32" */
static void words_option(FILE *file, const char *verb, const tool_option *o) {
    const char *values = o->choices ? o->choices : o->value ? o->value : "";
    const char *gap = o->choices ? " = " : o->value ? " " : "";
    fprintf(file, "%s --%s%s%s\n", verb, o->name, gap, values);
    if (o->letter) fprintf(file, "%s -%c%s%s\n", verb, o->letter, gap, values);
}

static void words_options(FILE *file) {
    tool_option o;
    for (int v = 0; tool_verbs[v]; v++)
        for (int i = 0; tool_option_get(tool_verbs[v], i, &o); i++)
            if (!o.hidden) words_option(file, tool_verbs[v]->name, &o);
}

/* ---- the verbs ---- */

static const tool_option options[] = {{0}}; /* but --help */
static tool_args asked;

static int refuse_topic(const char *topic) {
    const char *instead = tool_foreign_verb(topic), *near = tool_near_verb(topic);
    if (instead) return tool_usage(NULL, "\"%s\" is not a verb; %s", topic, instead);
    if (near) return tool_usage(NULL, "\"%s\" is not a verb; did you mean %s?", topic, near);
    return tool_usage(NULL, "\"%s\" is not a verb; mnem help all lists the verbs", topic);
}

static int verb_help(const tool_args *args) {
    const char *topic = args->operand[0];
    if (!topic) {
        tool_help_overview(stdout);
        return tool_out_end();
    }
    for (int i = 0; tool_verbs[i]; i++) {
        if (strcmp(topic, tool_verbs[i]->name) != 0) continue;
        tool_page_begin();
        tool_help_verb(stdout, tool_verbs[i]);
        return tool_page_end(TOOL_OK);
    }
    if (strcmp(topic, "all") == 0)
        help_all(stdout);
    else if (strcmp(topic, "man") == 0)
        help_man(stdout);
    else if (strcmp(topic, "verbs") == 0)
        words_verbs(stdout);
    else if (strcmp(topic, "options") == 0)
        words_options(stdout);
    else
        return refuse_topic(topic);
    return tool_out_end();
}

TOOL_VERB(
    help, "[VERB|all|man|verbs|options]", 0, 1, "show the help of one verb, or all verbs",
    "Without an operand, shows how to start; `all` lists all verbs. With a VERB, shows what it\n"
    "does, its options and examples, as `mnem VERB --help` does.\n"
    "\n"
    "The other operands are for programs: `man` prints the manual page mnem(1) in roff. `verbs`\n"
    "lists the names of the verbs and `options` the options of all verbs, one per line, for\n"
    "shell completion.\n",
    "mnem help run  # the help of run\n"
    "mnem help all  # all verbs\n"
    "mnem help man | man -l -  # the help of all verbs, as a manual page\n");

static const tool_option version_options[] = {
    TOOL_JSON_OPTION("one object"),
    {0},
};
static tool_args version_asked;

static int verb_version(const tool_args *args) {
    if (args->json)
        tool_out_json("version", json_pack("{s:s}", "version", mnem_version()));
    else
        tool_outf("mnem %s\n", mnem_version());
    return tool_out_end();
}

const tool_verb tool_verb_version = {"version",
                                     {"", 0, 0, "print the version",
                                      "Prints the version on one line.\n",
                                      "mnem version\n"
                                      "mnem version --json  # print it as JSON\n"},
                                     version_options,
                                     &version_asked,
                                     verb_version,
                                     NULL};
