#!/usr/bin/env python3
"""peaks.py MNEM MODEL [FORM...]: predicted beside measured peaks, for the forms of the verbs that least.py tries.

Each form is refused within 1 MiB, which names its prediction for the smallest way, and is then run with that and with
1.5 and 4 times as much, where the plan in its JSON is the prediction; forms that show no plan are run with the first
only. Measured is the peak of the resident set, as time(1) says it. A difference beyond 1 MiB and beyond 1 % of the
measured peak is marked. MODEL is a small one, such as the one that ships. Run by hand, on Linux."""
import pathlib
import signal
import subprocess
import sys
import tempfile

import least

MIB = 1 << 20


class Measured(least.Place):
    """Runs verbs below time(1): a child of Python would begin with Python's own peak."""

    def run(self, verb, args):
        peak = self.root / "peak"
        command = ["/usr/bin/time", "-q", "-f", "%M", "-o", peak, self.mnem, verb, *args]
        with subprocess.Popen(list(map(str, command)), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            first = process.stdout.readline() if verb == "serve" else ""
            if '"serving"' in first:
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                subprocess.run(["kill", f"-{signal.SIGTERM.value}", *children], check=True)
            out, error = process.communicate(timeout=600)
        self.peak = int(peak.read_text().split()[-1]) * 1024
        return process.returncode, first + out, error


def planned(value):
    """The largest peak that a plan in JSON says; 0: no plan."""
    if isinstance(value, list):
        return max(map(planned, value), default=0)
    if not isinstance(value, dict):
        return 0
    own = value["plan"].get("peak_bytes", 0) if isinstance(value.get("plan"), dict) else 0
    return max(own, value.get("predicted_bytes") or 0, *map(planned, value.values()), 0)


def rows(place, name, words):
    """Budget, prediction and peak of each run; text: what went wrong."""
    needed, text = least.named(place.within(words, "1M"))
    if needed is None:
        yield text
        return
    for times in (1, 1.5, 4):
        code, out, error = place.within(words, str(int(needed * times)))
        if code:
            yield f"with {int(needed * times)}: exit {code}: {error.strip()[-200:]}"
            return
        told = planned(least.objects(out)) or (needed if times == 1 else 0)
        if told:
            yield int(needed * times), told, place.peak


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    outside = 0
    with tempfile.TemporaryDirectory() as root:
        place = Measured(*map(str, map(pathlib.Path.absolute, map(pathlib.Path, sys.argv[1:3]))), root)
        verbs = place.verbs()
        print(f"{'form':22} {'threads':>7} {'budget':>9} {'predicted':>9} {'measured':>9} {'over':>7} MiB")
        for name in sys.argv[3:] or verbs:
            for threads in [None] if "-t" in verbs[name] else [1, 2]:
                for row in rows(place, name, verbs[name] + (["-t", threads] if threads else [])):
                    if isinstance(row, str):
                        wrong, shown = True, row
                    else:
                        budget, told, peak = row
                        wrong = abs(told - peak) > max(MIB, peak // 100)
                        shown = " ".join(f"{v / MIB:9.2f}" for v in row) + f" {(told - peak) / MIB:7.2f}"
                    outside += wrong
                    print(f"{name:22} {threads or 'own':>7} {shown}{'  OUTSIDE' if wrong else ''}", flush=True)
    print(f"{outside} outside")
    sys.exit(1 if outside else 0)


if __name__ == "__main__":
    main()
