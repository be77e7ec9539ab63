"""control_group.py: a memory control group of version 1 or 2 that programs run in.

Where groups are: the memory hierarchy of version 1, or the tree of version 2 if it hands memory to
its groups; the tree's top first, then this process's own group and those above it. A script is
skipped (exit code 77), with what stood in the way, where no group can be made.
"""
import os
import signal
import subprocess
import sys
import time


def mounts(table="/proc/mounts"):
    """(kind, folder, options) of each control group file system."""
    with open(table, encoding="ascii", errors="replace") as f:
        fields = [line.split() for line in f]
    return [(f[2], f[1], f[3].split(",")) for f in fields if f[2] in ("cgroup", "cgroup2")]


def own_path(version, table="/proc/self/cgroup"):
    """This process's group, from the hierarchy's top."""
    with open(table, encoding="ascii", errors="replace") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if (version == 1 and "memory" in controllers.split(",")) or \
                    (version == 2 and not controllers):
                return path
    return "/"


def words(folder, name):
    with open(os.path.join(folder, name), encoding="ascii") as f:
        return f.read().split()


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="ascii") as f:
        f.write(str(value))


def version_of(folder):
    return 2 if os.path.exists(os.path.join(folder, "cgroup.controllers")) else 1


def candidates():
    """Folders in which a group may be made, the likeliest first."""
    for kind, top, options in mounts():
        if kind == "cgroup" and "memory" not in options:
            continue
        path = own_path(1 if kind == "cgroup" else 2)
        yield top
        while path.strip("/"):
            yield os.path.join(top, path.strip("/"))
            path = os.path.dirname(path)


def hand_memory_down(folder):
    """Version 2: groups in a folder have only the controllers that it hands down."""
    if "memory" not in words(folder, "cgroup.controllers"):
        raise OSError(f"{folder} has no memory controller")
    if "memory" not in words(folder, "cgroup.subtree_control"):
        write(folder, "cgroup.subtree_control", "+memory")


class ControlGroup:
    """folder: where to make the group; None looks for a place."""

    def __init__(self, name, folder=None):
        reasons = []
        for parent in [folder] if folder else candidates():
            try:
                self.make(os.path.join(parent, f"{name}-{os.getpid()}"), parent)
                return
            except OSError as error:
                self.remove()
                reasons.append(str(error))
        print("skipped: no memory control group can be made "
              f"({'; '.join(reasons) or 'none is mounted'})")
        sys.exit(77)

    def make(self, path, parent):
        self.path, self.version = path, version_of(parent)
        self.limit_file = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        if self.version == 2:
            hand_memory_down(parent)
        os.mkdir(path)
        self.limit(1 << 40)
        if os.path.exists(os.path.join(path, "memory.swap.max")):
            write(path, "memory.swap.max", 0)  # what doesn't fit isn't to be found elsewhere

    def limit(self, limit):
        write(self.path, self.limit_file, limit)

    def run(self, limit, command):
        """Output of a command that runs inside, the page cache dropped first."""
        drop_caches()
        self.limit(limit)
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=lambda: write(self.path, "cgroup.procs", os.getpid()))
        if done.returncode:
            sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stderr[-2000:]}")
        return done.stdout

    def begin(self, command, out):
        """A program that runs inside, and writes to a file."""
        return subprocess.Popen(
            command, stdout=out, stderr=out,
            preexec_fn=lambda: write(self.path, "cgroup.procs", os.getpid()))

    def kill(self):
        """Ends what programs of the group have left running."""
        for pid in words(self.path, "cgroup.procs"):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def remove(self):
        """A group that a program has just left may be busy for a moment."""
        for _ in range(300):
            try:
                os.rmdir(self.path)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


def drop_caches():
    os.sync()
    try:
        write("/proc/sys/vm", "drop_caches", 3)
    except OSError as error:
        print(f"skipped: the page cache can't be dropped ({error})")
        sys.exit(77)
