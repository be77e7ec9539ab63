"""mnem.Pool: bytes under a budget, and memory that is reused only when nothing can reach it."""
import gc
import os
import random
import threading
import unittest

import mnem

try:
    import numpy
except ImportError:
    numpy = None


class Pool(unittest.TestCase):
    def test_blocks_are_memory_of_their_own(self):
        with mnem.Pool("8M") as pool:
            blocks = [pool.alloc(1000 + n, f"tag {n % 3}") for n in range(50)]
            for n, block in enumerate(blocks):
                block.view[:] = bytes([n]) * block.size
                self.assertEqual(block.address % 256, 0)
            for n, block in enumerate(blocks):
                self.assertEqual(bytes(block.view), bytes([n]) * (1000 + n))
            stats = pool.stats
            self.assertEqual(stats.live, sum(block.size for block in blocks))
            self.assertEqual(sum(line.bytes for line in stats.lines), stats.live)
            self.assertEqual((stats.blocks, stats.size), (50, 8 << 20))
            self.assertIn("tag 2", str(stats))
            self.assertIn("50 blocks", repr(stats))

    def test_a_freed_block_can_not_be_used(self):
        with mnem.Pool("1M") as pool:
            block = pool.alloc(100)
            view = block.view
            block.free()
            block.free()
            self.assertTrue(block.freed)
            with self.assertRaises(ValueError):
                view[0]
            with self.assertRaisesRegex(mnem.Error, "freed"):
                block.view
            self.assertEqual(pool.stats.blocks, 0)

    def test_what_is_still_used_is_not_freed(self):
        with mnem.Pool("1M") as pool:
            block = pool.alloc(100, "mine")
            part = block.view[10:20]
            with self.assertRaisesRegex(mnem.Error, "'mine' is still used"):
                block.free()
            part[:] = b"0123456789"
            self.assertEqual(bytes(block.view[10:20]), b"0123456789")
            del part
            block.free()
            self.assertEqual(pool.stats.live, 0)

    def test_a_block_that_is_dropped_is_freed_with_the_last_view(self):
        with mnem.Pool("1M") as pool:
            part = pool.alloc(4000).view[5:]
            gc.collect()
            self.assertEqual(pool.stats.blocks, 1)
            part[:] = bytes(len(part))
            del part
            gc.collect()
            self.assertEqual(pool.stats.blocks, 0)

    def test_a_closed_pool_leaves_its_blocks_usable(self):
        pool = mnem.Pool("1M")
        block = pool.alloc(64)
        pool.close()
        pool.close()
        block.view[:] = b"x" * 64
        self.assertEqual(bytes(block.view), b"x" * 64)
        with self.assertRaisesRegex(mnem.Error, "closed"):
            pool.alloc(1)
        block.free()
        self.assertFalse(pool._handle.pool)

    def test_a_block_is_a_context(self):
        with mnem.Pool("1M") as pool:
            with pool.alloc(8) as block:
                self.assertEqual(len(block), 8)
            self.assertTrue(block.freed)

    def test_a_refusal_names_the_blocks_in_the_way(self):
        with mnem.Pool("1M") as pool:
            block = pool.alloc(700 << 10, "the large one")
            with self.assertRaisesRegex(mnem.OverBudget, "(?s)the large one") as refused:
                pool.alloc(700 << 10)
            self.assertEqual(refused.exception.budget, 1 << 20)
            block.free()
            pool.alloc(700 << 10)

    def test_a_limit_of_a_tag(self):
        with mnem.Pool("8M") as pool:
            pool.limit("cache", "1K")
            one = pool.alloc(1000, "cache")
            with self.assertRaisesRegex(mnem.OverBudget, "cache"):
                pool.alloc(1000, "cache")
            pool.limit("cache", None)
            two = pool.alloc(1000, "cache")
            self.assertEqual(pool.stats.live, one.size + two.size)

    def test_trim_gives_back(self):
        with mnem.Pool("8M") as pool:
            pool.alloc(4 << 20).free()
            self.assertGreater(pool.stats.reserved, 0)
            self.assertGreater(pool.trim(), 0)
            self.assertEqual(pool.stats.reserved, 0)

    def test_wrong_arguments_are_named(self):
        with self.assertRaisesRegex(ValueError, "memory"):
            mnem.Pool(None)
        with self.assertRaisesRegex(mnem.Error, "not a size"):
            mnem.Pool(0)
        with self.assertRaisesRegex(mnem.Error, "align"):
            mnem.Pool("1M", alignment=3)
        with mnem.Pool("1M") as pool, self.assertRaisesRegex(ValueError, "size is 0"):
            pool.alloc(0)

    def test_threads_share_a_pool(self):
        def work(pool, seed, failures):
            chance, mine = random.Random(seed), []
            for _ in range(400):
                if mine and chance.random() < 0.5:
                    block = mine.pop(chance.randrange(len(mine)))
                    if bytes(block.view) != bytes([seed]) * block.size:
                        failures.append(seed)
                    block.free()
                else:
                    mine.append(pool.alloc(chance.randrange(1, 5000), f"of {seed}"))
                    mine[-1].view[:] = bytes([seed]) * mine[-1].size
        failures = []
        with mnem.Pool("64M") as pool:
            team = [threading.Thread(target=work, args=(pool, seed, failures)) for seed in range(4)]
            for one in team:
                one.start()
            for one in team:
                one.join()
            gc.collect()
            self.assertEqual(pool.stats.blocks, 0)
        self.assertEqual(failures, [])

    def test_a_forked_child_is_refused(self):
        with mnem.Pool("1M") as pool:
            block = pool.alloc(16)
            child = os.fork()
            if child == 0:
                try:
                    pool.alloc(1)
                except mnem.Error as error:
                    block.free()  # nothing in the child
                    os._exit(0 if "fork" in str(error) else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(pool.stats.blocks, 1)

    @unittest.skipUnless(numpy, "NumPy isn't there")
    def test_arrays_of_numpy_hold_their_memory(self):
        with mnem.Pool("1M") as pool:
            block = pool.alloc(4 * 30 + 2)
            array = block.numpy("float32", (5, 6))
            array[:] = 1.5
            with self.assertRaisesRegex(mnem.Error, "still used"):
                block.free()
            del block
            row = array[2]
            del array
            self.assertEqual(pool.stats.blocks, 1)
            self.assertEqual(row.tolist(), [1.5] * 6)
            del row
            self.assertEqual(pool.stats.blocks, 0)


if __name__ == "__main__":
    unittest.main()
