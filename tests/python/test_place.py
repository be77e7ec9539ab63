"""mnem.place: no overlaps, the peak of the bounds, and refusals that name the row."""
import array
import random
import signal
import threading
import time
import unittest

import mnem


def rows(n, seed, gaps=False):
    chance = random.Random(seed)
    lower = [chance.randrange(100) for _ in range(n)]
    return lower, [at + chance.randrange(1, 40) for at in lower], [chance.randrange(1, 900) for _ in range(n)]


class Place(unittest.TestCase):
    def check(self, lower, upper, size, found):
        self.assertEqual(len(found), len(lower))
        for a in range(len(lower)):
            self.assertLessEqual(found.offsets[a] + size[a], found.peak)
            for b in range(a):
                together = lower[a] < upper[b] and lower[b] < upper[a]
                apart = (found.offsets[a] + size[a] <= found.offsets[b]
                         or found.offsets[b] + size[b] <= found.offsets[a])
                self.assertTrue(apart or not together, (a, b))

    def test_buffers_alive_together_are_apart(self):
        for seed in range(5):
            lower, upper, size = rows(60, seed)
            found = mnem.place(lower, upper, size, seconds=0.2)
            self.check(lower, upper, size, found)
            self.assertLessEqual(found.lower_bound, found.peak)
            self.assertLess(found.peak, found.total)

    def test_a_small_case_is_proven(self):
        found = mnem.place([0, 1, 2], [2, 3, 4], [100, 80, 90])
        self.assertEqual((found.peak, found.lower_bound, found.total), (180, 180, 270))
        self.assertTrue(found.proven and found.fits)
        self.assertIn("lower bound", str(found))
        self.assertIn("proven", repr(found))

    def test_arrays_and_buffers_are_as_lists(self):
        lower, upper, size = rows(40, 7)
        whole = mnem.place(lower, upper, size, seconds=20, steps=2000).offsets
        for kind in "i", "q", "H":
            arrays = [array.array(kind, column) for column in (lower, upper, size)]
            self.assertEqual(mnem.place(*arrays, seconds=20, steps=2000).offsets, whole)
        try:
            import numpy
        except ImportError:
            return
        arrays = [numpy.array(column) for column in (lower, upper, size)]
        self.assertEqual(mnem.place(*arrays, seconds=20, steps=2000).offsets, whole)
        wide = numpy.zeros((40, 2), numpy.int32)
        wide[:, 0] = lower  # a view with steps
        self.assertEqual(mnem.place(wide[:, 0], *arrays[1:], seconds=20, steps=2000).offsets, whole)

    def test_alignment_fixed_and_gaps_are_kept(self):
        lower, upper, size = rows(20, 3)
        self.assertTrue(all(at % 64 == 0 for at in mnem.place(lower, upper, size, alignment=64).offsets))
        each = [1 << row % 5 for row in range(20)]
        found = mnem.place(lower, upper, size, alignment=each)
        self.assertTrue(all(at % step == 0 for at, step in zip(found.offsets, each)))
        fixed = [None] * 20
        fixed[4] = 4096
        self.assertEqual(mnem.place(lower, upper, size, fixed=fixed).offsets[4], 4096)
        self.assertEqual(mnem.place([0], [1], [8], hints=[512], capacity=1000).offsets, [512])
        self.assertEqual(mnem.place([0, 2], [10, 4], [50, 50]).peak, 100)
        self.assertEqual(mnem.place([0, 2], [10, 4], [50, 50], gaps=[[(2, 4)], None]).peak, 50)
        self.assertEqual(mnem.place([0, 2], [10, 4], [50, 20], gaps=[[(2, 4, 0, 30)], None]).peak, 50)

    def test_buffers_may_share_an_offset(self):
        self.assertEqual(mnem.place([0, 1], [2, 3], [64, 64]).peak, 128)
        found = mnem.place([0, 1], [2, 3], [64, 64], in_place=[None, 0])
        self.assertEqual((found.peak, found.offsets), (64, [0, 0]))
        found = mnem.place([0, 1, 0], [2, 3, 3], [64, 64, 64], same_as=[None, 0, None])
        self.assertEqual((found.peak, found.offsets[0]), (128, found.offsets[1]))
        for wrong in 1, 2, -1:
            with self.assertRaisesRegex(ValueError, r"same_as\[1\] is"):
                mnem.place([0, 1], [2, 3], [64, 64], same_as=[None, wrong])

    def test_a_capacity_too_small_is_no_error(self):
        found = mnem.place([0, 0], [1, 1], [100, 100], capacity=150)
        self.assertFalse(found.fits)
        self.assertTrue(found.proven)
        self.assertIn("too small", str(found))
        self.assertTrue(mnem.place([0, 0], [1, 1], [100, 100], capacity="1K").fits)

    def test_nothing_takes_nothing(self):
        found = mnem.place([], [], [])
        self.assertEqual((found.offsets, found.peak, found.proven), ([], 0, True))

    def test_refusals_name_the_row(self):
        cases = (ValueError, r"size has 1 rows, but lower has 2", dict(size=[1])), (
            ValueError, r"size\[1\] is 1\.5, expected a whole number", dict(size=[1, 1.5])), (
            ValueError, r"size\[1\] is -4, expected 0 or more", dict(size=[1, -4])), (
            ValueError, r"lower\[0\] is \d+, expected a number of 64 bits", dict(lower=[2**70, 1])), (
            ValueError, r"alignment\[1\] is 0", dict(alignment=[1, 0])), (
            ValueError, r"gaps\[1\]", dict(gaps=[None, [(1,)]])), (
            ValueError, r"fixed\[0\] is -7", dict(fixed=[-7, None])), (
            mnem.Error, "buffer 1 has lower 5 and upper 2", dict(lower=[0, 5])), (
            mnem.Error, "buffer 0 has alignment 3", dict(alignment=3)), (
            mnem.Error, "gap 7 to 9 of buffer 1", dict(gaps=[None, [(7, 9)]]))
        for kind, text, given in cases:
            with self.assertRaisesRegex(kind, text):
                mnem.place(**{"lower": [0, 0], "upper": [2, 2], "size": [8, 8], **given})

    def test_ctrl_c_ends_the_search(self):
        lower, upper, size = rows(3000, 1)
        main = threading.main_thread().ident
        timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            while time.monotonic() < begin + 100:  # more than one, where they are solved soon
                mnem.place(lower, upper, size, seconds=300)
        timer.join()
        self.assertLess(time.monotonic() - begin, 100)


if __name__ == "__main__":
    unittest.main()
