#!/usr/bin/env python3
"""read_rate.py FILE BLOCK BYTES [READERS]: bytes a second that readers (2) get past the page cache,
together, when each reads blocks of that many bytes from random places."""
import mmap
import os
import random
import sys
import threading
import time

PAGE = 4096


def read(path, block, count, seed):
    rng = random.Random(seed)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, block)
    for _ in range(count):
        os.preadv(fd, [buffer], rng.randrange((os.path.getsize(path) - block) // PAGE) * PAGE)
    os.close(fd)


def main():
    path, block, total = sys.argv[1], -(-int(sys.argv[2]) // PAGE) * PAGE, int(sys.argv[3])
    readers = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    count = max(1, total // block // readers)
    threads = [threading.Thread(target=read, args=(path, block, count, i)) for i in range(readers)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(readers * count * block / (time.monotonic() - begin))


if __name__ == "__main__":
    main()
