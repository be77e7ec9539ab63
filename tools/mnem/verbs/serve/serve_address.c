/* serve_address.c: what is said of the address of a server. */
#include <errno.h>
#include <string.h>

#include "verbs/serve/serve_tool.h"

/* A port that is taken, or a small one, has others beside it; an address that this machine hasn't
 * got does at no port. */
int serve_address_fail(const serve_options *o, mnem_status status, const char *why) {
    const bool port =
        strcmp(why, strerrordesc_np(EADDRINUSE)) == 0 || strcmp(why, strerrordesc_np(EACCES)) == 0;
    return tool_failed("can't listen on %s:%d: %s%s", o->host ? o->host : "127.0.0.1", o->port, why,
                       status != MNEM_IO ? ""
                       : port            ? "; choose another --port (0: any free one)"
                                         : "; choose a --host of this machine");
}

/* Who has set it may wait at that address. */
void serve_address_say_other(const serve_options *o) {
    const char *other = tool_env("OLLAMA_HOST");
    if (other && !o->args.quiet && !tool_given(&o->args, "host") && !tool_given(&o->args, "port"))
        tool_message("OLLAMA_HOST=%.80s is not used: set the address with --host and --port",
                     other);
}
