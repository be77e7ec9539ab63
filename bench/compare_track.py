#!/usr/bin/env python3
"""compare_track.py BUILD [HEAPTRACK] [--rounds N] [--only NAME]: what libmnem-track.so costs.

Programs of Debian run plain, under libmnem-track.so, under heaptrack (default: the one on the path),
and, where Python has it, under memray; one after another, again and again, so that what else the
machine does meets all of them. Told are the medians of processor seconds (user and system, with
children: heaptrack writes through one) over those of the plain run, and of the largest resident
size. Programs that aren't installed are left out, and named."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SQL = ("create table t(a integer primary key, b text); with recursive c(x) as (select 1 union all "
       "select x + 1 from c where x < %d) insert into t select x, hex(x * 7919) from c; "
       "create index i on t(b); select count(*), max(b) from t where b like '%%3%%'; "
       "select b, count(*) from t group by substr(b, 1, 3) order by 2 limit 3;")
PROGRAMS = {
    "sqlite3": ["sqlite3", ":memory:", SQL % 300000],
    "jq": ["jq", "-n", "[range(150000) | {a: ., b: (. * 2 | tostring)}] | map(select(.a % 3 == 0))"
                       " | group_by(.b | length) | map(length)"],
    "perl": ["perl", "-e", 'my %h; for (1..600000) { $h{$_ % 50000} .= "x" x ($_ % 40); '
                           'delete $h{($_ * 7) % 50000} if $_ % 3 == 0 } print scalar keys %h'],
    "python3": ["/usr/bin/python3", "-c", "import json; d = [{'k%d' % i: [i, str(i)]} for i in "
                "range(60000)]; print(len(json.dumps(json.loads(json.dumps(d)))))"],
}


def run(command, extra):
    """Processor seconds and the largest resident size in KiB."""
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen(command, env=dict(os.environ, **extra), stdin=subprocess.DEVNULL,
                                   stdout=sink, stderr=sink)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sink.seek(0)
            sys.exit("%s: status %d: %s" % (" ".join(command)[:80], status, sink.read()[-400:]))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def has_memray():
    return subprocess.run([sys.executable, "-m", "memray", "--version"], capture_output=True,
                          check=False).returncode == 0


def ways(name, command, library, heaptrack, folder):
    yield "plain", command, {}
    yield "mnem", command, {"LD_PRELOAD": library, "MNEM_TRACK": "out=%s/leaks" % folder}
    if heaptrack:
        yield "heaptrack", [heaptrack, "-o", folder + "/heap"] + command, {}
    if name == "python3" and has_memray():
        yield "memray", [sys.executable, "-m", "memray", "run", "--native", "-f", "-o",
                         folder + "/memray", "-c", command[2]], {}


def compare(name, library, heaptrack, rounds):
    seconds, sizes = {}, {}
    extra = {"PYTHONMALLOC": "malloc"} if name == "python3" else {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for way, command, more in ways(name, PROGRAMS[name], library, heaptrack, folder):
                took, size = run(command, {**extra, **more})
                seconds.setdefault(way, []).append(took)
                sizes.setdefault(way, []).append(size)
    row = {"program": name, "plain_seconds": statistics.median(seconds["plain"])}
    for way in seconds:
        ratios = [a / b for a, b in zip(seconds[way], seconds["plain"])]
        row[way] = {"cpu": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
                    "resident_mib": statistics.median(sizes[way]) / 1024}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("heaptrack", nargs="?", default=shutil.which("heaptrack"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    library = os.path.abspath(options.build + "/tools/preload/libmnem-track.so")
    if not os.path.exists(library):
        sys.exit("%s isn't there: build mnem_track" % library)
    if not options.heaptrack:
        print("heaptrack isn't installed: without it", file=sys.stderr)
    for name, command in PROGRAMS.items():
        if options.only and name != options.only:
            continue
        if not shutil.which(command[0]):
            print("%s isn't installed: left out" % name, file=sys.stderr)
            continue
        row = compare(name, library, options.heaptrack, options.rounds)
        if options.json:
            print(json.dumps(row), flush=True)
            continue
        print("%-8s plain %.2f s" % (name, row["plain_seconds"]), end="")
        for way in row:
            if way not in ("program", "plain_seconds", "plain"):
                print("; %s %.2f (%.2f to %.2f), %.0f MiB" % (
                    way, row[way]["cpu"], row[way]["least"], row[way]["most"],
                    row[way]["resident_mib"]), end="")
        print(" (plain %.0f MiB)" % row["plain"]["resident_mib"], flush=True)


if __name__ == "__main__":
    main()
