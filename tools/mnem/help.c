/* help.c: help, the man page and the words of completion, all from the tables.
 *
 * `mnem help VERB` is for people, wrapped to the terminal; `help man` is docs/mnem.1; `help verbs`
 * and `help options` are lines that completion reads, so that it never knows less than the command.
 * What a verb takes but hides (plan: what only run shows) is in none of them. */
#include <string.h>

#include "options.h"

/* ---- for people ---- */

void tool_help_overview(FILE *file) {
    fputs("mnem runs language models (GGUF files) inside a memory budget that you set.\n"
          "\n"
          "Usage: mnem VERB [operands] [options]\n\n",
          file);
    for (int i = 0; tool_verbs[i]; i++)
        fprintf(file, "  %-11s %s\n", tool_verbs[i]->name, tool_verbs[i]->about.summary);
    fputs("\nStart here:\n"
          "  mnem run -p 'In the beginning'         the model that ships with mnem\n"
          "  mnem plan model.gguf --memory 2G       would this file run in 2 GiB, and how?\n"
          "  mnem run model.gguf --memory 2G        chat inside 2 GiB\n"
          "  mnem help run                          options and examples of a verb\n",
          file);
}

/* "  -p, --prompt TEXT" */
static void option_name(const tool_option *o, char *out, size_t n) {
    char letter[5] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(out, n, "  %s--%s%s%s  ", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
}

/* Each line of examples: the command, two spaces, "# what it does". */
static void examples(FILE *file, const char *text) {
    int width = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        int n = (int)(strstr(line, "  # ") - line);
        if (n > width && n <= 52) width = n;
    }
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *note = strstr(line, "  # ");
        int end = (int)(strchr(line, '\n') - note);
        fprintf(file, "  %-*.*s%.*s\n", width, (int)(note - line), line, end, note);
    }
}

static void variables(FILE *file) {
    fputs("\nEnvironment:\n", file);
    for (int i = 0; i < tool_variables_count; i++) {
        const tool_variable *v = &tool_variables[i];
        fprintf(file, "  %-15s %s (default: %s)\n", v->name, v->help, v->fallback);
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

void tool_help_verb(FILE *file, const tool_verb *v) {
    const bool all = v == &tool_verb_run || v == &tool_verb_help;
    fprintf(file, "mnem %s: %s\n\nUsage: mnem %s%s%s [options]\n\n%s\nOptions:\n", v->name,
            v->about.summary, v->name, *v->about.operands ? " " : "", v->about.operands,
            v->about.text);
    put_options(file, v);
    fputs("\nExamples:\n", file);
    examples(file, v->about.examples);
    if (all) variables(file);
    if (all)
        fputs(
            "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 over budget; 128 + its number for a\n"
            "signal (130 Ctrl-C, 143 SIGTERM). With --json a failure is an object, too: error, "
            "status,\nrefused; of a plan also needed_bytes, budget_bytes and least, the --memory "
            "that would do.\n",
            file);
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
    fputs(
        ".SH NAME\nmnem \\- run language models inside a memory budget\n"
        ".SH SYNOPSIS\n.B mnem\n.I verb\n.RI [ operands ]\n.RI [ options ]\n"
        ".SH DESCRIPTION\n"
        "mnem runs language models (GGUF files) inside a memory budget that you set, and accounts "
        "for\nevery byte. The budget covers the whole process: weights, caches, code and "
        "libraries.\nWhat doesn\\(aqt fit is refused before anything is loaded, with the bytes and "
        "the "
        "option that\nwould help. Data goes to standard output, messages to standard error.\n"
        ".SH VERBS\nEvery verb also takes \\fB\\-h\\fR, \\fB\\-\\-help\\fR: show its help.\n",
        file);
    for (int i = 0; tool_verbs[i]; i++) roff_verb(file, tool_verbs[i]);
    roff_environment(file);
    fputs(".SH EXIT STATUS\n"
          ".TP\n0\ndone\n.TP\n1\nfailed\n.TP\n2\nwrong usage\n.TP\n3\nover budget\n"
          ".TP\n128 + n\nended by signal n: 130 by Ctrl\\-C, 143 by SIGTERM, 129 by SIGHUP\n"
          ".PP\nWith \\fB\\-\\-json\\fR a failure (1 or 3) is an object on standard output, too: "
          "error (the message),\nstatus, refused (over budget); of a plan also needed_bytes, "
          "budget_bytes and least, the\n\\fB\\-\\-memory\\fR that would do.\n",
          file);
}

/* ---- for completion: one word a line ---- */

static void words_verbs(FILE *file) {
    for (int i = 0; tool_verbs[i]; i++) fprintf(file, "%s\n", tool_verbs[i]->name);
}

/* "run --json", "run --memory SIZE", "run -m SIZE", "run --kv = f16 q8_0 auto" */
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

static int verb_help(const tool_args *args) {
    const char *topic = args->operand[0];
    if (!topic) {
        tool_help_overview(stdout);
        return tool_out_end();
    }
    for (int i = 0; tool_verbs[i]; i++) {
        if (strcmp(topic, tool_verbs[i]->name) != 0) continue;
        tool_help_verb(stdout, tool_verbs[i]);
        return tool_out_end();
    }
    if (strcmp(topic, "man") == 0)
        help_man(stdout);
    else if (strcmp(topic, "verbs") == 0)
        words_verbs(stdout);
    else if (strcmp(topic, "options") == 0)
        words_options(stdout);
    else
        return tool_usage(NULL, "no help about \"%s\"", topic);
    return tool_out_end();
}

TOOL_VERB(help, "[VERB]", 0, 1, "this, or all about one verb",
          "Shows what a verb does, its options and examples. `mnem VERB --help` does the same.\n",
          "mnem help run  # all about run\n");

static int verb_version(const tool_args *args) {
    (void)args;
    tool_outf("mnem %s\n", mnem_version());
    return tool_out_end();
}

TOOL_VERB(version, "", 0, 0, "the version", "Prints the version, one line.\n", "mnem version\n");
