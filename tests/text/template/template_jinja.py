"""template_jinja.py: mnem's templates against Python's jinja2, as transformers runs it.

    python template_jinja.py RUNNER folder FOLDER     every *.jinja of FOLDER x 40 conversations
    python template_jinja.py RUNNER random N [SEED]   N small templates made at random
    python template_jinja.py RUNNER vectors OUT       results of template_cases.py, for test_template

RUNNER is the build's render_templates. Equal is equal text, an equal message of raise_exception, or
an error on both sides. SHOW=N shows N differences. With transformers installed and --transformers its own environment is used,
otherwise one made here in the same way.
"""
import datetime
import functools
import json
import os
import pathlib
import subprocess
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = 1735689600 + 5 * 3600  # 2025-01-01 05:00, by a clock on the wall


class Raised(jinja2.exceptions.TemplateError):
    """What raise_exception raises: told from Jinja's own errors."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: as transformers has it, without its tracking."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """No name begins with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Raised(message)


def make_environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["dict"] = Dict()
    env.globals["namespace"] = Namespace
    return env


@functools.lru_cache(maxsize=4)
def open_template(text, real):
    if real:
        from transformers.utils import chat_template_utils
        return chat_template_utils._cached_compile_jinja_template(text)
    return make_environment().from_string(text)


def alias_reasoning(messages):
    """A message's reasoning under each of the names that templates read."""
    out = []
    for message in messages:
        if isinstance(message, dict):
            names = ("reasoning_content", "thinking", "reasoning")
            found = next((message[name] for name in names if message.get(name) is not None), None)
            if found is not None:
                message = {"thinking": found, **message, "reasoning_content": found}
        out.append(message)
    return out


def truth(case, real=False):
    clock = datetime.datetime.fromtimestamp(case.get("clock") or CLOCK, datetime.timezone.utc).replace(tzinfo=None)
    variables = {"tools": case.get("tools"), "documents": case.get("documents"),
                 "add_generation_prompt": case.get("add_generation_prompt", False)}
    if "messages" in case:
        variables["messages"] = alias_reasoning(case["messages"])
    for name in ("bos", "eos"):
        if name in case:
            variables[name + "_token"] = case[name]
    variables.update(case.get("arguments") or {})
    try:
        template = open_template(case["template"], real)
        template.environment.globals["strftime_now"] = clock.strftime
        template.environment.globals["raise_exception"] = raise_exception
        template.globals.update(strftime_now=clock.strftime, raise_exception=raise_exception)
        text = template.render(**variables)
        text.encode()  # half a character is an error
        return {"text": text}
    except Raised as e:
        return {"raised": str(e)}
    except Exception as e:  # whatever it is: an error
        return {"error": f"{type(e).__name__}: {e}"}


def run(runner, cases):
    text = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    done = subprocess.run([runner], input=text.encode(), stdout=subprocess.PIPE)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(results) != len(cases):
        sys.exit(f"{runner} ended with {done.returncode} at case {json.dumps(cases[len(results)])}")
    return results


def same(ours, theirs):
    if "64 bits" in ours.get("error", ""):
        return True  # Python's whole numbers have no end
    if theirs.get("error", "").startswith("TemplateAssertionError: No "):
        return True  # names that a template doesn't come to are no error
    if "error" in theirs:
        return "error" in ours
    return all(ours.get(key) == theirs.get(key) for key in ("text", "raised"))


def compare(runner, cases, names, real, show=int(os.environ.get("SHOW", 12))):
    wrong = {}
    expected = [truth(case, real) for case in cases]
    for case, ours, theirs, name in zip(cases, run(runner, cases), expected, names):
        if same(ours, theirs):
            continue
        wrong[name] = wrong.get(name, 0) + 1
        if sum(wrong.values()) <= show:
            print(f"--- {name}\n{json.dumps(case, ensure_ascii=False)[:1500]}")
            print(f"ours:   {json.dumps(ours, ensure_ascii=False)[:1500]}")
            print(f"theirs: {json.dumps(theirs, ensure_ascii=False)[:1500]}")
    kinds = {}
    for theirs in expected:
        kind = next(iter(theirs))
        kinds[kind] = kinds.get(kind, 0) + 1
    print(f"{len(cases)} cases ({', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))}), "
          f"{sum(wrong.values())} differ" + "".join(f"\n  {name}: {n}" for name, n in sorted(wrong.items())))
    return 1 if wrong else 0


def folder_cases(folder):
    import template_conversations
    cases, names = [], []
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        text = path.read_text()
        for conversation in template_conversations.ALL:
            for prompt in (False, True):
                cases.append({"template": text, "bos": "<s>", "eos": "</s>", "clock": CLOCK,
                              "add_generation_prompt": prompt, **conversation})
                names.append(path.name)
    return cases, names


def main(arguments):
    real = "--transformers" in arguments
    arguments = [a for a in arguments if a != "--transformers"]
    if len(arguments) < 3:
        sys.exit(__doc__)
    runner, verb, what = arguments[:3]
    if verb == "folder":
        return compare(runner, *folder_cases(what), real)
    if verb == "random":
        import template_random
        cases = template_random.make(int(what), int(arguments[3]) if len(arguments) > 3 else 1)
        return compare(runner, cases, ["random"] * len(cases), real)
    import template_cases
    with open(what, "w") as out:
        for case in template_cases.ALL:
            print(json.dumps({**case, "result": truth(case)}, ensure_ascii=False), file=out)
    return compare(runner, template_cases.ALL, [case["name"] for case in template_cases.ALL], False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
