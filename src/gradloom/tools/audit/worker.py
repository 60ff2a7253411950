"""A process that audits operators: `python -m gradloom.tools.audit.worker LIBRARY SEED`.

It reads lines {"operator": name, "skipped": n} and writes lines {"ready": version}, {"at": [number, label]},
{"finding": ...}, {"note": ...}, {"counts": ...} and {"done": name}. It ends when its input does, also in the middle of
a call.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from gradloom.tools.verify.findings import said
from gradloom.tools.verify.operators import own_operators
from gradloom.tools.verify.runner import raised_at

from .auditing import audit_operator
from .findings import Finding
from .judging import RAISES
from .libraries import load


def main(name: str, seed: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what to do
    channel = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the library prints does not mix with the lines

    def send(**fields: Any) -> None:
        try:
            channel.write(json.dumps(fields) + "\n")
        except OSError:
            os._exit(1)

    try:
        library = load(name)
    except ImportError as error:
        return send(absent=str(error))
    send(ready=library.version)
    witness = load("gradloom") if name != "gradloom" else None
    operators = {o.name: o for o in own_operators()}
    for task in iter(_tasks().get, None):
        operator = operators[task["operator"]]
        try:
            for found in audit_operator(
                operator, library, witness, seed, task["skipped"], lambda n, label: send(at=[n, label])
            ):
                if isinstance(found, Finding):
                    send(finding=found.as_dict())
                else:
                    send(**{found[0]: found[1]})
        except Exception as error:  # of a sampler, or of the audit
            send(note=[operator.name, "", "", RAISES, f"{said(error)} ({raised_at(error)})"])
        send(done=task["operator"])


def _tasks() -> queue.Queue[Any]:
    """Return the queue of tasks; a thread fills it, and ends the process where the input ends."""
    tasks: queue.Queue[Any] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            tasks.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return tasks


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
