"""Groups of compare_builds.py: what is generated and measured, and the plans of it."""
import itertools

from builds_setup import GREEDY, PROMPT, SEEDED, plan_of, session, tokens_of
from builds_train import train_case, train_options
from two_builds import (ALL, KV_WHY, NOTHING, SLACK, SLACK_WHY, compare_lines, frontier, plan_at,
                        same_file, size, way)


def run_at(group, case, budget):
    case, old, new, given = case.pair.within(group, case, budget)
    if not old:
        return
    was, now = old.last, new.last
    other_kv = tokens_of(old) != tokens_of(new) and was["plan"]["kv"] != now["plan"]["kv"]
    if other_kv and case.pair.with_freed(case, given, lambda r: tokens_of(r) == tokens_of(new)):
        group.excuse(KV_WHY)
    elif other_kv and case.pair.with_slack(case, given, lambda r: tokens_of(r) == tokens_of(old)):
        group.excuse(SLACK_WHY)
    else:
        group.check(case, "tokens", tokens_of(old), tokens_of(new))
    for key in ("end", "prompt_tokens", "tokens", "seed"):
        group.check(case, key, str(was["stats"][key]), str(now["stats"][key]))
    case.pair.held(case, given, was["stats"]["vmhwm"], now["stats"]["vmhwm"])
    if way(was["plan"]) == way(now["plan"]):
        compare_lines(case.pair.groups["plans"], case, was["plan"], now["plan"])


def run_job(group, case, count):
    seeded = case.like(", seeded", [*case.args[:2], *SEEDED, *case.args[2 + len(GREEDY):]])
    for i, budget in enumerate(case.pair.budgets(case, count, plan_of(case))):
        run_at(group, case, budget)
        if i % 3 == 0:
            run_at(group, seeded, budget)


def tokens(s, group):
    context, count, few = ["--ctx", 96], s.extent.budgets, s.extent.few
    for model, options in itertools.product(s.models, s.extent.options):
        yield run_job, group, session(s, "run", model, options, GREEDY + context), count
    for model, kv in itertools.product(s.models, ("f16", "auto")):
        for more in ([], [*context, "--page-cache"]):
            yield run_job, group, session(s, "run", model, (0, kv, 2), GREEDY + more), count // 2
    for model, level, options in s.others():
        yield run_job, group, session(s, "run", model, options, GREEDY + context, level), few


def perplexity(s, group):
    def job(case, count):
        for budget in case.pair.budgets(case, count, plan_of(case)):
            one, old, new, _ = case.pair.within(group, case, budget)
            for key in ("perplexity", "error", "tokens", "windows") if old else ():
                group.check(one, key, old.last.get(key), new.last.get(key))
    more = ["../text/short.txt", "--ctx", 48, "-q"]
    for model, options in itertools.product(s.models, s.extent.options):
        yield job, session(s, "perplexity", model, options, more), s.extent.budgets
    for model, level, options in s.others():
        yield job, session(s, "perplexity", model, options, more, level), s.extent.few


def plans(s, group):
    def job(case):
        explained = case.plus("explained", "--explain", "--memory", ALL)
        old, new = (r.last["frontier"] for r in case.pair.both(explained))
        ways = frontier(group, explained, old, new, "seconds")
        some = ways[::max(1, len(ways) // s.extent.ways)]
        for budget in sorted({*some, *case.pair.budgets(case, s.extent.budgets)}):
            plan_at(group, case, budget)
    for model, kv, threads, more in itertools.product(
            s.models, ("f16", "q8_0", "auto"), s.extent.threads,
            (["--ctx", 96], [], ["--ctx", 96, "-p", PROMPT])):
        yield job, session(s, "plan", model, (0, kv, threads), more)


def least(s, group):
    def job(case):
        was = case.pair.old.run(case, "--memory", NOTHING).last["least"]
        one = case.plus(f"least {was}", "--memory", was)
        old, new = case.pair.both(one)
        if new.code == 3:
            new = case.pair.new.run(case, "--memory", size(was) + SLACK)
            group.note("accepted within the slack only")
        group.check(one, "exit code", str(old.code), str(new.code), old.code == new.code == 0)
    for model, options in itertools.product(s.models, s.extent.options):
        for verb, more in (("run", GREEDY), ("plan", []), ("perplexity", ["../text/short.txt"])):
            yield job, session(s, verb, model, options, [*more, "--ctx", 48])
    for label, more in train_options(s, few=True):
        yield job, train_case(s, label, [*more, "--dry-run", "--out", "least"])


def saved(s, group):
    """A prompt's state in a file: the same file, the same tokens after it, and each build goes on
    from the other's."""
    def job(case, name):
        for build in (case.pair.old, case.pair.new):
            (build.folder / name).unlink(missing_ok=True)
        longer = case.like(", loaded", [*case.args[:2], "-p", f"{PROMPT} And the earth was",
                                        *case.args[4:]])
        mine = [*longer.args, "--prompt-cache", f"../old/{name}", "--prompt-cache-ro"]
        for one in (case.plus("saved", "--prompt-cache", name),
                    longer.plus("its own", "--prompt-cache", name, "--prompt-cache-ro"),
                    longer.like(", the old one's", mine)):
            old, new = case.pair.both(one)
            group.check(one, "exit code", str(old.code), str(new.code), old.code == new.code == 0)
            group.check(one, "tokens", *([(x["token"], x["text"]) for x in r.objects if "token" in x]
                                         for r in (old, new)))
            for key in ("prompt_tokens", "prompt_cached"):
                group.check(one, key, *(r.last.get("stats", {}).get(key) for r in (old, new)))
            same_file(group, one, name)
    few = ((32, "f16", 2), (7, "q8_0", 1))
    for model, options, memory in itertools.product(s.models, few, ALL_OR_STREAMED):
        name = f"{model}-{options[1]}-{memory}.state"
        yield job, session(s, "run", model, options, [*GREEDY, "--ctx", 96, *memory_of(s, model,
                           options, memory)]), name


ALL_OR_STREAMED = ("all", "streamed")


def memory_of(s, model, options, memory):
    """All, or what the old build's least and a little are."""
    if memory == "all":
        return ["--memory", ALL]
    case = session(s, "run", model, options, [*GREEDY, "--ctx", 96])
    return ["--memory", s.pair.ends(case, plan_of(case))[0] + 2 * SLACK]
