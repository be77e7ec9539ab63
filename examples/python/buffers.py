"""One block of memory for all buffers of a program: python buffers.py

The steps of a small network make and use up arrays. mnem.place says where each lies, so that arrays that aren't
needed at one time share memory; one block of a mnem.Pool holds them all."""
import mnem

NAMES = ["input", "hidden", "gate", "product", "norm", "output"]
BEGIN = [0, 1, 1, 2, 3, 4]  # the step that makes it
END = [2, 3, 3, 4, 5, 6]    # the step after the last one that reads it
ROWS = [256, 1024, 1024, 1024, 256, 256]
COLUMNS = 64


def views(block, offsets, sizes):
    """Each buffer as a memoryview of floats over its part of the block."""
    return [block.view[at:at + n].cast("f") for at, n in zip(offsets, sizes)]


def main():
    sizes = [rows * COLUMNS * 4 for rows in ROWS]
    found = mnem.place(BEGIN, END, sizes, alignment=64)
    print(found)
    for name, begin, end, size, at in zip(NAMES, BEGIN, END, sizes, found.offsets):
        print(f"{name:<8} steps {begin} to {end - 1}: bytes {at:>7,} to {at + size:>7,}")
    with mnem.Pool("8M") as pool:
        block = pool.alloc(found.peak, "activations")
        buffers = dict(zip(NAMES, views(block, found.offsets, sizes)))
        for i in range(len(buffers["input"])):
            buffers["input"][i] = i % 7
        buffers["hidden"][0] = sum(buffers["input"][:COLUMNS])  # they don't overlap: both are alive
        print(f"hidden[0] is {buffers['hidden'][0]}, input[6] is still {buffers['input'][6]}")
        print(pool.stats)


if __name__ == "__main__":
    main()
