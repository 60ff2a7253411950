"""The engine: runs the backward graph from its roots to its leaves.

Note [One backward pass]
1. `_dependencies` walks the graph once and counts, for every node, the edges that lead to it.
2. If only some gradients are wanted (`inputs=`), `_plan` marks the nodes on a path to one of them.
3. Nodes that have received all gradients wait in a heap, latest made first. For each, hooks and `apply` run, and each
   gradient is checked against the next node's metadata and added to that node's buffer.

Each pass has its own GraphTask, whichever thread runs it. A nested pass runs on the same stack; beyond a certain depth
it continues in a new thread (`_in_another_thread`).

Note [Gradients added where they are computed]
To store a gradient and then add it to another one takes twice the memory traffic of adding it while it is computed.
So with `set_kernels("llvm")`, once a large gradient waits in a buffer, `apply_adding` runs the nodes instead of
`Node.apply`. It adds a node's gradients to sums that only their buffers refer to, and returns None for these gradients.
Hooks, modes, anomaly mode and `create_graph` see no difference: nodes with hooks run without `apply_adding`, modes and
anomaly mode switch it off, and with `create_graph` it calls `Node.apply`.
"""

from __future__ import annotations

from contextvars import copy_context
from heapq import heappop, heappush, heappushpop
from itertools import count
from sys import getrefcount
from threading import Thread

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import ANOMALY, FORWARD_AD, GRAD_OFF, INFERENCE, INTERCEPT, state
from ..memory import malloc
from ..memory.metadata import NoValuesError
from ..types.silence import silence
from . import hooks as hook_calls, late
from .accumulate_grad import LEAF_NUMBER
from .gradient_checks import validate_gradient
from .node import NO_EDGE, GraphRoot, Node, as_pair

_task_id = count().__next__
add_arrays = np.add  # `set_kernels` replaces it
# Set by `set_kernels`: Note [Gradients added where they are computed]. It takes a task, a node and `apply`'s arguments.
apply_adding = None
LARGE = 1 << 17  # elements of a gradient that makes `apply_adding` worth its time
LEVELS_PER_THREAD = 20  # nested passes that share a stack; each takes a dozen of the thread's thousand frames
MOST_LEVELS = 3000


class GraphTask:
    """One backward pass."""

    __slots__ = (
        "id",
        "keep_graph",
        "create_graph",
        "plan",
        "callbacks",
        "pending",
        "node",
        "outer",
        "depth",
        "root",
        "notes",
    )

    def __init__(self, root: Node, keep_graph: bool, create_graph: bool, plan=None):
        self.id = _task_id()
        self.root = root
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.plan = plan
        self.callbacks = []
        self.pending = None  # see `_dependencies`
        self.node = None  # the running node
        self.outer = state.graph_task
        self.depth = 0 if self.outer is None else self.outer.depth + 1
        self.notes = {}  # state of hooks that run several times in a pass


class Plan:
    """Nodes to run and gradients to keep when only some gradients are wanted."""

    __slots__ = ("captures", "needed", "results")

    def __init__(self, edges, ends):
        self.captures = {}  # node -> [(input_nr, position in results)]
        self.results = [None] * len(edges)
        for position, edge in enumerate(edges):
            node, nr = as_pair(edge)
            self.captures.setdefault(node, []).append((nr, position))
        self.needed = set(ends)  # nodes that must run: those requested, and those that lead to a wanted gradient

    def wants(self, node) -> bool:
        """Return whether the node runs or a gradient that arrives there is kept."""
        return node in self.needed or bool(self.captures.get(node))

    def wanted(self, edges: tuple) -> tuple:
        """Return the next edges of a node, with NO_EDGE in place of those that lead to no wanted gradient."""
        needed, captures = self.needed, self.captures
        for edge in edges:
            node = edge[0] if type(edge) is tuple else edge
            if node is not None and node not in needed and node not in captures:
                return tuple([e if (n := as_pair(e)[0]) in needed or n in captures else NO_EDGE for e in edges])
        return edges

    def capture(self, node, grads):
        for nr, position in self.captures[node]:
            self.results[position] = grads[nr]


def execute(roots, root_grads, *, keep_graph, create_graph, capture_edges=None, run_only=None):
    """Run a backward pass.

    Args:
        roots: edges to start from; see Note [Edges].
        root_grads: a Tensor for each root.
        keep_graph: keep saved tensors for another pass.
        create_graph: record the pass itself, so that it can be differentiated again.
        capture_edges: edges whose gradients are wanted; then only nodes that lead to them run.
        run_only: edges whose nodes are to run; then only these and nodes that lead to them run.

    Returns:
        The captured gradients (None where a wanted edge was not reached), in the order of capture_edges.
    """
    if len(roots) == 1:
        root, nr = as_pair(roots[0])
        buffer = [None] * (len(root.input_metadata) // 2)
        buffer[nr] = root_grads[0]
    else:
        root, buffer = GraphRoot(roots, root_grads), []
    plan = None
    if capture_edges is not None or run_only is not None:
        plan = Plan(capture_edges or (), [as_pair(edge)[0] for edge in run_only or ()])
        _mark_needed(root, plan)
        if root not in plan.needed:
            plan.captures.setdefault(root, [])  # tensor hooks of a root always see its gradient
    task = GraphTask(root, keep_graph, create_graph, plan)
    task.pending = _dependencies(root)
    if not malloc.decided:
        malloc.apply_default()
    flags = state.flags
    state.graph_task = task
    state.flags = (flags if flags & INFERENCE else flags & ~GRAD_OFF) if create_graph else flags | GRAD_OFF
    try:
        if task.depth and not task.depth % LEVELS_PER_THREAD:
            _in_another_thread(_finish, task, root, buffer)
        else:
            _finish(task, root, buffer)
    except Exception as error:
        late.explain_backward_error(error, _run.__code__)
        raise
    finally:
        state.graph_task = task.outer
        state.flags = flags
    return plan.results if plan is not None else None


def _finish(task: GraphTask, root: Node, buffer: list) -> None:
    _run(task, root, buffer)
    task.node = None
    while task.callbacks:
        task.callbacks.pop(0)()


def _in_another_thread(work, *args) -> None:
    """Call `work(*args)` in a new thread with this thread's state (grad mode, hooks, context variables), and wait.

    Python allows a thread some thousand frames; the new thread has a stack of its own.

    Raises:
        BaseException: the exception of the call, the same object.
        RecursionError: at a depth that only a pass inside itself reaches.
    """
    depth = state.graph_task.depth
    if depth >= MOST_LEVELS:
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
        except BaseException as error:  # raised again in the waiting thread
            failure.append(error)

    thread = Thread(target=call, name="gradloom-backward", daemon=True)
    thread.start()
    thread.join()
    if failure:
        try:
            raise failure[0]
        finally:
            failure.clear()  # its traceback holds this frame


def _dependencies(root) -> dict:
    """Map each node that can be reached from `root` to None if one edge leads to it, else to a list.

    The list has the number of edges, the node's buffer (None at first), and the number of the gradient in the buffer to
    which nothing else refers, so that it can be added to in place (-1 for none). Edges that lead nowhere are counted
    under the key None; that saves a test for each of the others.
    """
    found: dict = {None: [0, None, -1]}
    stack = [root]
    pop, push = stack.pop, stack.append
    while stack:
        for node in pop().next_edges:
            if type(node) is tuple:
                node = node[0]
            if node not in found:
                found[node] = None
                push(node)
            else:
                entry = found[node]
                if entry is None:
                    found[node] = [2, None, -1]
                else:
                    entry[0] += 1
    return found


def _mark_needed(root, plan: Plan) -> None:
    """Add to `plan.needed` the nodes from which a wanted edge or node can be reached (without recursion)."""
    needed = plan.needed
    wanted = needed.union(plan.captures)
    reaches: dict = {}
    stack = [(root, iter(root.next_edges))]
    reaches[root] = False
    while stack:
        node, edges = stack[-1]
        for edge in edges:
            following = as_pair(edge)[0]
            if following is None:
                continue
            if following not in reaches:
                reaches[following] = False
                stack.append((following, iter(following.next_edges)))
                break
            if reaches[following] or following in wanted:
                reaches[node] = True
        else:
            stack.pop()
            if stack and (reaches[node] or node in wanted):
                reaches[stack[-1][0]] = True
    needed.update(node for node, flag in reaches.items() if flag)


def _run(task: GraphTask, node: Node, grads: list) -> None:
    """Run nodes until none is ready. The loop's body runs once per node, so all names are local; a node that is the
    only ready one waits in `next_node` instead of the heap."""
    pending, plan, keep_graph = task.pending, task.plan, task.keep_graph
    add, adding = add_arrays, apply_adding
    ready: list = []
    watched = state.flags & (ANOMALY | INTERCEPT)
    while True:
        task.node = node
        next_node = None
        if plan is not None and node in plan.captures:
            if node.hooks is not None and node not in plan.needed:
                hook_calls.on_tensors(node.hooks, grads)
            plan.capture(node, grads)
        if plan is None or node in plan.needed:
            edges = node.next_edges
            wanted = edges if plan is None else plan.wanted(edges)
            try:
                outputs = (
                    node.apply(grads, wanted)
                    if node.hooks is None and not watched
                    else adding(task, node, grads, wanted)
                    if node.hooks is None and watched is adding
                    else hook_calls.run(node, grads, wanted)
                )
            except NoValuesError as error:
                if node.hooks is not None or watched and watched is not adding:
                    raise
                outputs = hook_calls.apply_by_operators(node, grads, wanted, error)
            if not keep_graph:
                release = node.release_variables
                if release is not None:
                    release()
            for following, grad in zip(edges, outputs):  # noqa: B905 (`strict` costs as much again)
                nr = 0
                if type(following) is tuple:
                    following, nr = following
                    if following is None:
                        continue
                metadata = following.input_metadata
                if grad is not None:
                    array = grad._array
                    at = nr + nr
                    if array.shape != metadata[at] or array.dtype is not metadata[at + 1]:
                        grad = validate_gradient(
                            grad,
                            metadata[at],
                            metadata[at + 1],
                            node,
                            [as_pair(e) for e in edges].index((following, nr)),
                        )
                        array = grad._array
                entry = pending[following]
                buffer = None if entry is None else entry[1]
                if buffer is None:
                    if len(metadata) == 2:
                        buffer = [grad]
                    else:
                        buffer = [None] * (len(metadata) // 2)
                        buffer[nr] = grad
                    if entry is not None:
                        entry[1] = buffer
                        if adding is not None and not watched and grad is not None:
                            if array.__class__ is np.ndarray and array.size >= LARGE:
                                watched = adding
                elif buffer[nr] is None:
                    buffer[nr] = grad
                elif grad is not None:
                    if entry[2] == nr:
                        total = buffer[nr]._array
                        try:
                            add(total, array, total)
                        except RuntimeError:  # one of the two has no values; see memory/metadata.py
                            accumulate(entry, nr, grad)
                    else:
                        accumulate(entry, nr, grad)
                if entry is not None:
                    entry[0] -= 1
                    if entry[0] == 0:
                        entry[1] = entry = None
                if entry is None:
                    if next_node is None and not ready:
                        next_node, next_grads = following, buffer
                    else:
                        heappush(ready, (-following.sequence_nr, following, buffer))
            array = total = grad = outputs = buffer = grads = None  # only the buffer may refer to a sum (`own_array`)
        if next_node is None:
            if not ready:
                return
            _, node, grads = heappop(ready)
        elif ready and next_node.sequence_nr is not LEAF_NUMBER:
            _, node, grads = heappushpop(ready, (-next_node.sequence_nr, next_node, next_grads))
        else:
            node, grads = next_node, next_grads
        next_grads = None


def accumulate(entry: list, nr: int, grad) -> None:
    """Add `grad` to gradient `nr` of a buffer, in place if nothing else refers to the sum so far.

    Args:
        entry: [edges left, buffer, number of the gradient that can be added to in place]; see `_dependencies`.
    """
    buffer = entry[1]
    if state.flags & (GRAD_OFF | FORWARD_AD) == GRAD_OFF and grad.__class__ is _operators.Tensor:
        array = own_array(entry, nr)
        if array is None:
            buffer[nr] = _added(buffer[nr], grad)
        else:
            add_arrays(array, grad._array, array)
        entry[2] = nr
    else:
        buffer[nr] = _added(buffer[nr], grad)


def own_array(entry: list, nr: int):
    """Return the array of gradient `nr` of a buffer if nothing else refers to it, else None."""
    buffer = entry[1]
    total = buffer[nr]
    array = total._array
    if (
        getrefcount(total) <= _ALONE[0]
        and getrefcount(array) <= _ALONE[1]
        and array.base is None
        and total.__class__ is _operators.Tensor
        and total._vc is None
        and array.flags.writeable
    ):
        return array
    return None


def sum_so_far(task: GraphTask, edge):
    """Return the gradient that waits at an edge, if it may be added to in place, else None."""
    node, nr = as_pair(edge)
    entry = None if node is None else task.pending.get(node)
    if entry is None or entry[1] is None or entry[1][nr] is None:
        return None
    return None if own_array(entry, nr) is None else entry[1][nr]


def _added(total, grad):
    """Return the sum. A sparse total comes second, as in PyTorch: only a dense tensor adds one of the other kind."""
    return _operators.add(grad, total) if total.is_sparse else _operators.add(total, grad)


def _calibrate():
    """Return the reference counts, as `own_array` sees them, of a sum to which only its buffer refers."""

    class Probe:
        __slots__ = ("_array",)

    def look(entry, nr):
        buffer = entry[1]
        total = buffer[nr]
        array = total._array
        return getrefcount(total), getrefcount(array)

    probe = Probe()
    probe._array = np.empty(2)
    buffer = [probe]
    del probe
    return look([1, buffer], 0)


_ALONE = _calibrate()


def queue_callback(callback) -> None:
    """Call `callback()` when this thread's backward pass has finished.

    Raises RuntimeError outside of a backward pass.
    """
    task = state.graph_task
    if task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


def will_run(node) -> bool:
    """Return whether this thread's backward pass runs a node or captures a gradient there."""
    task = state.graph_task
    reached = node in task.pending or node is task.root
    return reached and (task.plan is None or task.plan.wants(node))


def execution_order(task: GraphTask) -> list[Node]:
    """Return the nodes that a backward pass runs or whose gradients it captures, in the order of `_run`.

    Args:
        task: the pass, which may have begun.
    """
    left: dict = {}
    for node in (task.root, *_dependencies(task.root)):
        for following, _ in node.next_functions if node is not None else ():
            left[following] = left.get(following, 0) + 1
    ready, order = [(0, task.root)], []
    while ready:
        node = heappop(ready)[1]
        order.append(node)
        for following, _ in node.next_functions:
            left[following] -= 1
            if following is not None and left[following] == 0:
                heappush(ready, (-following.sequence_nr, following))
    return [n for n in order if n.__class__ is not GraphRoot and (task.plan is None or task.plan.wants(n))]


def is_checkpoint_valid() -> bool:
    """Return whether this thread's backward passes compute all gradients, rather than those of selected inputs only."""
    task = state.graph_task
    while task is not None:
        if task.plan is not None:
            return False
        task = task.outer
    return True


silence(globals())
