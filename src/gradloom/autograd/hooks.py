"""How the engine calls the hooks of a node."""

from __future__ import annotations

from .. import _operators


def before(node, hooks, grads, will_run):
    """Run tensor hooks, then (if the node will run) node pre-hooks, then the hooks that keep `.grad`.

    Returns:
        The gradients that the node receives.
    """
    if hooks.tensor_pre:
        for nr, registered in hooks.tensor_pre.items():
            for hook in list(registered.values()):
                found = hook(grads[nr]) if grads[nr] is not None else None
                if found is not None:
                    grads[nr] = checked_replacement(hook, grads[nr], found)
    if hooks.pre and will_run:
        for hook in list(hooks.pre.values()):
            found = hook(tuple(grads))
            if found is not None:
                found = found if isinstance(found, tuple) else (found,)
                if len(found) != len(grads):
                    raise RuntimeError(f"hook {_name(hook)} has returned an incorrect number of values (got "
                                       f"{len(found)}, but expected {len(grads)})")
                grads = list(found)
    for nr, keep in list(hooks.retain_grad.items()):
        if grads[nr] is not None:
            keep(grads[nr])
    return grads


def after(node, hooks, outputs, grads):
    """Run a node's post-hooks.

    Returns:
        The gradients that go on to the next nodes.
    """
    outputs = tuple(outputs)
    for hook in list(hooks.post.values()):
        found = hook(outputs, tuple(grads))
        if found is not None:
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(outputs):
                raise RuntimeError(f"hook {_name(hook)} has returned an incorrect number of values (got {len(found)}, "
                                   f"but expected {len(outputs)})")
            outputs = tuple([checked_replacement(hook, old, new) if old is not None and new is not None else new
                             for old, new in zip(outputs, found, strict=True)])
    return outputs


def checked_replacement(hook, old, new):
    """What a hook returned in place of a gradient, if it can stand for it.

    Raises:
        TypeError: if it is not a Tensor.
        RuntimeError: if its dtype or shape differ from the gradient's.
    """
    if not isinstance(new, _operators.Tensor):
        raise TypeError(f"hook {_name(hook)} has returned a value of type {type(new).__name__}; expected Tensor")
    if new.dtype is not old.dtype:
        raise RuntimeError(f"hook {_name(hook)} has changed the type of value (was {old.type()} got {new.type()})")
    if new.shape != old.shape:
        raise RuntimeError(f"hook {_name(hook)} has changed the size of value")
    return new


def _name(hook) -> str:
    return f"'{getattr(hook, '__name__', repr(hook))}'"
