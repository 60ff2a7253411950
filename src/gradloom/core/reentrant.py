"""Backward passes inside backward passes, nested deeper than one stack holds.

Python allows a thread some thousand frames, and a pass that a hook or a custom function starts takes a dozen of them or
more. After a number of levels a new thread, with a stack of its own, goes on while the one that started it waits.
"""

from __future__ import annotations

from contextvars import copy_context
from threading import Thread

from ..dispatch.state import state

_MOST_LEVELS = 3000


def in_another_thread(work, *args) -> None:
    """Call `work(*args)` in a thread that has this thread's state (grad mode, hooks, context variables), and wait.

    Raises:
        BaseException: what the call raised, the same object.
        RecursionError: if passes are nested so deep that one must be inside itself.
    """
    depth = state.graph_task.depth
    if depth >= _MOST_LEVELS:
        raise RecursionError(
            f"maximum recursion depth exceeded: {depth} backward passes run inside each other. A "
            "backward function or a hook probably calls backward() on a graph that it is a part of, "
            "as one does whose forward returned, without detach(), a tensor with a history of its "
            "own: the function is its history from then on"
        )
    inherited = dict(state.__dict__)
    context = copy_context()
    failure = []

    def call():
        state.__dict__.update(inherited)
        try:
            context.run(work, *args)
        except BaseException as error:  # raised anew in the thread that waits
            failure.append(error)

    thread = Thread(target=call, name="gradloom-backward", daemon=True)
    thread.start()
    thread.join()
    if failure:
        try:
            raise failure[0]
        finally:
            failure.clear()  # its traceback holds this frame
