"""Backward passes inside backward passes, nested deeper than one stack holds.

Python allows a thread some thousand frames, and a pass that a hook or a custom function starts takes a dozen of them or
more. After a number of levels a new thread, with a stack of its own, goes on while the one that started it waits.
"""

from __future__ import annotations

from contextvars import copy_context
from threading import Thread

from ..dispatch import state


def in_another_thread(work, *args) -> None:
    """Call `work(*args)` in a thread that has this thread's state (grad mode, hooks, context variables), and wait.

    Raises:
        BaseException: what the call raised, the same object.
    """
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
