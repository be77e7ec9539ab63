"""python -m mnem: the command, with the same arguments. MNEM_COMMAND names a file; otherwise it is the
package's own copy, then the one in PATH."""
# mypy: ignore-errors
import os
import shutil
import sys


def command_path():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "mnem")
    command = os.environ.get("MNEM_COMMAND") or (here if os.path.exists(here) else shutil.which("mnem"))
    if not command:
        raise FileNotFoundError("mnem: there is no command mnem: install it, or set MNEM_COMMAND to its path")
    return command


def main():
    try:
        command = command_path()
    except FileNotFoundError as missing:
        sys.exit(str(missing))
    os.execv(command, ["mnem", *sys.argv[1:]])


if __name__ == "__main__":
    main()
