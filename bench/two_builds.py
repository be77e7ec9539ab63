"""What compare_builds.py is made of: two builds of the command, a command line for both, groups of
comparisons, and what a budget and a plan of one must be in the other.

A comparison is of one field of one case. It is counted in its group as equal (or within what is
allowed), as excused (an exception names it), or as failed; failures keep both command lines.
"""
import fnmatch
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import threading

KIB, MIB = 1024, 1024 * 1024
RUNTIME_MORE, TABLES_MORE = 256 * KIB, 4 * KIB
SLACK = RUNTIME_MORE + TABLES_MORE
ALL = 4096 * MIB  # a budget that everything fits
NOTHING = 64 * KIB  # and one that nothing does

# Kinds whose lines are compared as one, and what they may take more: bytes, and a share of the old.
MORE = {"runtime": (RUNTIME_MORE, 0), "host": (16 * KIB, 0.01)}
# Lines with another name in the new build: (kind, new tag) -> old tag.
RENAMED = {("io", "hidden rows of ranks"): "states of ranks"}
# What the new build may hold less of `host` and `runtime`, and so has for another way: its reserve is
# 224 KiB smaller, an engine has no pool with tables (150 KiB), a trainer's checkpoints take 192 KiB
# less, and programs of five layers 176 KiB; the code is 124 KiB larger. Measured: 464 KiB at most.
FREED = 480 * KIB
FREED_WHY = "way, or what a walk holds: the old build does the same with up to 480 KiB more (FREED)"
KV_WHY = "tokens: --kv auto keeps f16 for q8_0, as the old build does with up to 480 KiB more (FREED)"
SLACK_WHY = "tokens: --kv auto chooses the old build's type within the slack only"
FASTER_WHY = "way: reads no more, keeps as much, and computes no more or is predicted no slower"


# What is included before everything so that no better level is found (src/base/cpu.c).
LEVELS = {
    "plain": "#include <cpuid.h>\n#undef bit_AVX2\n#define bit_AVX2 0\n",
    "avx2": "#include <cpuid.h>\n#undef bit_AVX512VNNI\n#define bit_AVX512VNNI 0\n",
}


class Group:
    """Comparisons of one kind: counted, and the first failures kept."""

    lock = threading.Lock()

    def __init__(self, name, exceptions):
        self.name, self.exceptions = name, exceptions
        self.compared = self.equal = self.failed = 0
        self.worst_bytes = self.worst_relative = None
        self.notes, self.excused, self.failures = {}, {}, []

    def note(self, text):
        with self.lock:
            self.notes[text] = self.notes.get(text, 0) + 1

    def check(self, case, field, old, new, fine=None):
        """One comparison; without `fine` both must be equal. Returns whether it is fine."""
        fine = repr(old) == repr(new) if fine is None else fine
        with self.lock:
            self.compared += 1
            self.equal += fine
            self.measure(old, new)
            if not fine:
                self.differ(case, field, old, new)
        return fine

    def measure(self, old, new):
        if isinstance(old, float) and isinstance(new, float) and old == old != 0:
            relative = abs(new - old) / abs(old)
            self.worst_relative = max(self.worst_relative or 0, relative)
        elif type(old) is int and type(new) is int:
            more = new - old
            self.worst_bytes = more if self.worst_bytes is None else max(self.worst_bytes, more)

    def excuse(self, why):
        """One comparison that is told, and no failure."""
        with self.lock:
            self.compared += 1
            self.excused[why] = self.excused.get(why, 0) + 1

    def differ(self, case, field, old, new):
        for groups, labels, fields, allows, why in self.exceptions:
            named = zip((self.name, case.label, field), (groups, labels, fields))
            if all(fnmatch.fnmatch(*pair) for pair in named) and allows(old, new):
                self.excused[why] = self.excused.get(why, 0) + 1
                return
        self.failed += 1
        if len(self.failures) < 8:
            self.failures.append(f"{case.label}: {field}: {short(old)} was, {short(new)} is\n"
                                 f"{case.commands}")

    def report(self):
        worst = [] if self.worst_relative is None else [f"{self.worst_relative:.2g} relative"]
        worst += [] if self.worst_bytes is None else [f"{self.worst_bytes:+d}"]
        print(f"{self.name:<12} {self.compared:8} compared {self.equal:8} equal or allowed"
              f" {sum(self.excused.values()):6} excused {self.failed:6} failed"
              f"   most: {', '.join(worst) or '-'}")
        for text, count in self.notes.items():
            print(f"    {count} x {text}")
        for text, count in self.excused.items():
            print(f"    {count} x excused: {text}")
        for failure in self.failures:
            print("    differs: " + failure.replace("\n", "\n      "))
        if self.failed > len(self.failures):
            print(f"    and {self.failed - len(self.failures)} more")
        sys.stdout.flush()


def short(value):
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."


class Result:
    """How a command ended, and the JSON that it wrote, an object a line (none where it isn't)."""

    def __init__(self, done):
        self.code, self.out = done.returncode, done.stdout
        try:
            self.objects = [json.loads(line) for line in self.out.splitlines() if line.strip()]
        except ValueError:
            self.objects = []
        self.last = self.objects[-1] if self.objects and isinstance(self.objects[-1], dict) else {}


def executable(folder, name):
    """A program of a build folder or of a tree with build/release, wherever its folder is."""
    folder = folder / "build/release" if (folder / "build/release").is_dir() else folder
    found = [p for p in folder.rglob(name) if p.is_file() and os.access(p, os.X_OK)]
    return min(found, key=lambda p: len(p.parts), default=None)


class Build:
    """The command by level of the processor, its tree where one is known, the folder it runs in."""

    def __init__(self, given, folder):
        given = given.resolve()
        self.folder = folder
        binary = given if given.is_file() else executable(given, "mnem")
        if not binary:
            sys.exit(f"compare_builds: no command mnem in {given} (./run builds it)")
        trees = [p for p in (given, *binary.parents) if (p / "CMakePresets.json").exists()]
        self.tree = trees[0] if trees else None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.binary = {}
        self.keep("native", binary)

    def keep(self, level, binary):
        """Copied: both sides' paths are as long, and a build meanwhile changes nothing."""
        self.binary[level] = self.folder / f"mnem-{level}"
        shutil.copy2(binary, self.binary[level])
        beside = binary.with_name("mnem-mpi")  # the command as a rank, which it looks for there
        if level == "native" and beside.exists():
            shutil.copy2(beside, self.folder)

    def run(self, case, *more):
        command = [*case.launcher, self.binary[case.level], *case.args, *map(str, more)]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=600, check=False)
        return Result(done)

    def build_level(self, level, header):
        """Builds the command once more, with a header that is included before everything."""
        folder = header.parent / f"{self.folder.name}-{level}"
        for command in (["cmake", "-S", self.tree, "-B", folder, "-G", "Ninja", "-Wno-dev",
                         "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF",
                         f"-DCMAKE_C_FLAGS=-include {header}"],
                        ["cmake", "--build", folder, "--target", "mnem"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"compare_builds: {shlex.join(map(str, command))} failed\n"
                         f"{done.stdout}{done.stderr}")
        self.keep(level, executable(folder, "mnem"))


class Case:
    """A command line for both builds, and a label that says what it is of."""

    def __init__(self, pair, label, args, level="native", ranks=0):
        self.pair, self.label, self.level, self.ranks = pair, label, level, ranks
        self.args = [str(a) for a in args]

    @property
    def launcher(self):
        return ["mpirun", "-n", str(self.ranks)] if self.ranks else []

    def like(self, label, args):
        return Case(self.pair, f"{self.label}{label}", args, self.level, self.ranks)

    def plus(self, label, *args):
        return self.like(f", {label}", [*self.args, *args])

    @property
    def commands(self):
        return "\n".join(shlex.join(["cd", str(build.folder)]) + " && " +
                         shlex.join([*self.launcher, str(build.binary[self.level]), *self.args])
                         for build in (self.pair.old, self.pair.new))


# ---- budgets and refusals ----

def size(text):
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?)", text).groups()
    return int(float(number) * {"": 1, "K": KIB, "M": MIB, "G": KIB * MIB}[unit])


def wording(text):
    """The text without its amounts; the names of options stay."""
    text = re.sub(r"--(memory|capacity|devices) \S+", r"--\1 SIZE", text)
    return re.sub(r"\d[\d.,]*( (bytes|B|KiB|MiB|GiB)\b)?", "N", text)


# ---- texts for humans ----

TEXTS = {"error", "message", "reason", "why", "change"}  # keys of them, in JSON


def amounts(text):
    """The numbers of a text, in no order: a sentence that is turned round has the same."""
    return sorted(re.findall(r"\d+(?:[.,]\d+)*", text))


def freed(value):
    """JSON, with the numbers of texts in place of their words."""
    if isinstance(value, dict):
        return {key: amounts(x) if key in TEXTS and isinstance(x, str) else freed(x)
                for key, x in value.items()}
    return [freed(x) for x in value] if isinstance(value, (list, tuple)) else value


def facts(text):
    """Of a table or a list: its words with digits in them, in order."""
    return [word for word in text.split() if re.search(r"\d", word)]


def options(text):
    return set(re.findall(r"--[a-z][a-z-]*", text))


class Pair:
    """Both builds, and the groups that what they do is counted in."""

    def __init__(self, old, new, names, exceptions, free_texts=False):
        self.old, self.new = old, new
        self.free_texts = free_texts
        self.groups = {name: Group(name, exceptions) for name in names}

    def said(self, value):
        """JSON as it is compared."""
        return freed(value) if self.free_texts else value

    def output(self, group, case, old, new):
        """What both wrote to standard output."""
        if not self.free_texts or old.out == new.out:
            group.check(case, "output", old.out, new.out)
        elif old.objects:
            group.check(case, "JSON", freed(old.objects), freed(new.objects))
        else:
            group.check(case, "numbers", *(facts(r.out.decode(errors="replace"))
                                           for r in (old, new)))

    def advice(self, group, case, old, new):
        """What a refusal says; its amounts are in JSON."""
        if self.free_texts:
            group.check(case, "options that would help", sorted(options(old)),
                        sorted(options(new)), options(old) <= options(new))
        else:
            group.check(case, "error", wording(old), wording(new))

    def have_ranks(self):
        return all((build.folder / "mnem-mpi").exists() for build in (self.old, self.new)) and \
            shutil.which("mpirun")

    def both(self, case, *more):
        return self.old.run(case, *more), self.new.run(case, *more)

    def ends(self, case, plan=None):
        """The old build's bytes at the least, and for all (which the case `plan` tells)."""
        needed = self.old.run(case, "--memory", NOTHING).last.get("needed_bytes", 0)
        whole = self.old.run(plan or case, "--memory", ALL).objects
        peak = whole[0].get("peak_bytes", 0) if whole else 0
        if not 0 < needed or not peak:
            sys.exit(f"compare_builds: no least and no peak of\n{case.commands}")
        return needed, max(needed, peak)

    def budgets(self, case, count, plan=None):
        """So many, from just below the least to all resident."""
        needed, peak = self.ends(case, plan)
        first, last, steps = needed + TABLES_MORE, peak + 64 * KIB, max(2, count - 2)
        between = [first + (last - first) * i // (steps - 1) for i in range(steps)]
        return [needed - 64 * KIB, *between, ALL]

    def within(self, group, case, budget, slack=SLACK):
        """Runs both under a budget. The new build may have the slack where it refuses. Returns the
        case with its budget, both results, and the new one's budget; no results unless both ran."""
        one = case.plus(f"{budget} bytes", "--memory", budget)
        old, new = self.both(one)
        if (old.code, new.code) == (0, 3):
            budget += slack
            new = self.new.run(case, "--memory", budget)
            if new.code == 0:
                group.note("accepted within the slack only")
        if (old.code, new.code) == (3, 0):
            group.note("refused by the old build only")
            return one, None, None, budget
        group.check(one, "exit code", str(old.code), str(new.code))
        if old.code == new.code == 3:
            self.refusal(case, budget, old.last, new.last, slack)
        elif old.code not in (0, 3):
            sys.exit(f"compare_builds: exit code {old.code} of\n{one.commands}\n{old.out.decode()}")
        ran = old.code == new.code == 0
        return one, old if ran else None, new if ran else None, budget

    def refusal(self, case, budget, was, now, slack=SLACK):
        """What a refusal says; `least` is needed_bytes, rounded up to few digits. Which option
        would help depends on what is missing: the new build is asked as far below its least."""
        group = self.groups["refusals"]
        more = now.get("needed_bytes", 0) - was.get("needed_bytes", 0)
        words = now.get("error", "")
        if 0 < more <= slack:
            words = self.new.run(case, "--memory", budget + more).last.get("error", "")
        case = case.plus(f"{budget} bytes", "--memory", budget)
        group.check(case, "keys", sorted(was), sorted(set(was) & set(now)))
        self.advice(group, case, was.get("error", ""), words)
        for key in ("status", "refused", "budget_bytes"):
            group.check(case, key, was.get(key), now.get(key))
        a, b = (x.get("needed_bytes", 0) for x in (was, now))
        group.check(case, "needed_bytes", a, b, b <= a + slack)
        if "least" in was and "least" in now:
            a, least = size(was["least"]), size(now["least"])
            step = max(a // 16, 128 * KIB)
            group.check(case, "least", a, least, b <= least <= a + slack + step)

    def with_freed(self, case, budget, same, slack=0):
        """Whether the old build does what the new one does, at some budget up to FREED larger, and
        the slack that the new one was given."""
        return any(same(self.old.run(case, "--memory", budget + more))
                   for more in range(FREED + slack, 0, -8 * KIB))

    def with_slack(self, case, budget, same):
        """Whether the new build does what the old one did, at some budget up to the slack larger."""
        return any(same(self.new.run(case, "--memory", budget + more))
                   for more in range(8 * KIB, SLACK + 1, 8 * KIB))

    def held(self, case, budget, old, new):
        """The peaks of two processes: the new one's is within its budget."""
        self.groups["memory"].check(case, "VmHWM", old, new, 0 < new <= budget)


def rate(build, level, pair):
    return build.run(Case(pair, level, [
        "bench", "../models/types-F32.gguf", "--threads", "1", "--pp", "32", "--tg", "1",
        "--repeats", "2", "--json", "-q"], level)).last["prompt_tokens_per_s"]


def force_levels(pair, work):
    """Builds both trees for each level; the levels, which must make a difference in speed."""
    if platform.machine() != "x86_64" or not (pair.old.tree and pair.new.tree):
        print("forced levels are left out: a tree isn't known, or no x86-64")
        return []
    (work / "levels").mkdir(exist_ok=True)
    for level, text in LEVELS.items():
        header = work / "levels" / f"{level}.h"
        if not header.exists():  # else everything would be built again
            header.write_text(text)
        for build in (pair.old, pair.new):
            build.build_level(level, header)
    rates = [rate(build, level, pair) for build in (pair.old, pair.new)
             for level in ("plain", "avx2")]
    if rates[1] < 4 * rates[0] or rates[3] < 4 * rates[2]:  # measured: 60 times; bits are the same
        sys.exit(f"compare_builds: levels can't be forced so any more: {rates} tokens a second")
    return list(LEVELS)


def same_file(group, case, name):
    """Equal in both builds' folders, or in neither; says the first byte that differs."""
    files = [build.folder / name for build in (case.pair.old, case.pair.new)]
    old, new = (f.read_bytes() if f.exists() else b"" for f in files)
    at = len(os.path.commonprefix([old, new]))
    group.check(case, name.rsplit("/", 1)[-1], f"{len(old)} bytes",
                f"{len(new)} bytes, another one at {at}", old == new)


# ---- plans ----

def add_lines(plan):
    """The bytes by kind and tag, with all of `runtime` as one and all of `host` as one."""
    total = {}
    for line in plan["lines"]:
        kind, tag = line["kind"], line["tag"]
        tag = RENAMED.get((kind, tag), tag)
        tag = "" if kind in MORE else tag
        total[kind, tag] = total.get((kind, tag), 0) + line["bytes"]
    return total


def compare_lines(group, case, old, new):
    old, new = add_lines(old), add_lines(new)
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key, 0), new.get(key, 0)
        more, share = MORE.get(key[0], (0, 0))
        group.check(case, "line " + " ".join(key).strip(), a, b, b <= a + more + a * share)


def excess(old, new):
    """The bytes of the new plan that the slack is for; a page more, as tables differ from way to way."""
    old, new = add_lines(old), add_lines(new)
    more = sum(new.get((k, ""), 0) - old.get((k, ""), 0) for k in MORE)
    return min(SLACK, more + 4 * KIB) if more > 0 else 0


def way(plan):
    """What a plan chose; the same keys in both builds."""
    keys = ("context", "chunk", "kv", "threads", "weight_bytes_resident", "bytes_streamed_per_pass",
            "ring_slots", "ring_slot_bytes", "direct_io", "keep", "micro_batch", "precision",
            "moments")
    return {k: plan[k] for k in keys if k in plan}


def better(old, new):
    """Whether a session's plan that chose another way reads less, or runs more together."""
    a, b = ((p.get("bytes_streamed_per_pass", 0), -p.get("context", 0), -p.get("chunk", 0))
            for p in (old, new))
    return b < a


def seconds_of(build, case, budget):
    """The predicted seconds of the way that `mnem plan` chooses; None where it predicts none."""
    if case.args[0] != "plan":
        return None
    ways = build.run(case, "--memory", budget, "--explain").last.get("frontier", [])
    return next((w["seconds"] for w in ways if w["chosen"]), None)


def as_fast(case, budget, old, new):
    """Whether a plan reads no more, keeps as much, and is predicted to be no slower."""
    same = ("kv", "context", "precision", "moments")
    if any(old.get(k) != new.get(k) for k in same) or \
            new.get("bytes_streamed_per_pass", 0) > old.get("bytes_streamed_per_pass", 0):
        return False
    if "macs_per_step" in old:  # its seconds are of a speed that each run measures again
        return new["macs_per_step"] <= old["macs_per_step"] and \
            new["micro_batch"] >= old["micro_batch"]
    a, b = (seconds_of(build, case, budget) for build in (case.pair.old, case.pair.new))
    return bool(a and b) and b <= a * (1 + 1e-9)


def same_way(group, case, budget, old, new):
    """Whether both plans are of one way; another one must be proven to be no worse."""
    if way(old) == way(new):
        return group.check(case, "way", way(old), way(new))
    if better(old, new):
        group.note("a better way in the new build")
    elif as_fast(case, budget, old, new):
        group.excuse(FASTER_WHY)
    elif case.pair.with_freed(case, budget, lambda r: way(plan_of_result(r)) == way(new)):
        group.excuse(FREED_WHY)
    else:
        group.check(case, "way", way(old), way(new))
    return False


def plan_of_result(result):
    """The plan that a command wrote: an object of its own, or in its last one; {} where none is."""
    plans = [x for x in result.objects if isinstance(x, dict) and "lines" in x]
    return plans[0] if plans else result.last.get("plan", {})


def plan_at(group, case, budget):
    """One budget: the same way in both (or a better one), and its lines."""
    one, old, new, given = case.pair.within(group, case, budget)
    if not old:
        return
    old, new = old.objects[0], new.objects[0]
    more = excess(old, new)
    if way(old) != way(new) and more:
        again = case.pair.new.run(case, "--memory", given + more).objects
        new = again[0] if again else new
    if same_way(group, one, given, old, new):
        compare_lines(group, one, old, new)


def frontier(group, case, old, new, cost):
    """Each way of the old build has one in the new that is as good, within the slack. Returns
    budgets at which the old build takes those ways."""
    for a in old:
        peaks = [b["peak_bytes"] for b in new if b[cost] <= a[cost] * (1 + 1e-9)]
        peak = min(peaks, default=ALL)
        group.check(case, f"peak of a way of {a[cost]} {cost}", a["peak_bytes"],
                    max(peak, a["peak_bytes"]), peak <= a["peak_bytes"] + SLACK)
    return [a["peak_bytes"] for a in old]
