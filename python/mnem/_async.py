"""Answers for asyncio: the worker works, and the event loop goes on meanwhile."""


def _tell(loop, function, *values):
    """Calls function in the loop's thread, if it still runs."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:  # the loop is closed
        pass


async def answer_of(worker, work, one):
    """The result of work, of its first text if there is one only."""
    import asyncio  # which takes longer than all of mnem

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    job = worker.submit(work, lambda: _tell(loop, ended.set))
    try:
        await ended.wait()
    except BaseException:
        worker.ask_stop(job)
        raise
    found = job.outcome()
    return found[0] if one else found


async def pieces_of(worker, work):
    """The pieces of one text, while they come."""
    import asyncio

    loop, pieces = asyncio.get_running_loop(), asyncio.Queue()
    job = worker.submit(lambda job: work(job, lambda piece: _tell(loop, pieces.put_nowait, piece)),
                        lambda: _tell(loop, pieces.put_nowait, None))
    try:
        while True:
            piece = await pieces.get()
            if piece is None:
                break
            yield piece
    except BaseException:  # left half-read, or cancelled
        worker.ask_stop(job)
        raise
    job.outcome()
