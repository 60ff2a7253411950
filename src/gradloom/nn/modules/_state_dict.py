"""A module's state as a flat dictionary of tensors: `state_dict`, `load_state_dict` and their hooks."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gradloom as gl
from gradloom.nn.modules._conversion import exchange, get_swap_module_params_on_conversion
from gradloom.nn.parameter import Parameter, is_lazy
from gradloom.utils.hooks import RemovableHandle, add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """Fields of `_IncompatibleKeys`."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class _IncompatibleKeys(IncompatibleKeys):
    """Result of `load_state_dict`: keys that the dictionary lacks, and keys that the module lacks."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _LoadPreHook:
    """A hook on loading; its module, if it gets one, is held weakly because the module holds the hook."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> Any:
        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if self.with_module else None

    def __call__(self, *args: Any) -> Any:
        if not self.with_module:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> Any:
        return {"hook": self.hook, "with_module": self.with_module, "module": self.module and self.module()}

    def __setstate__(self, state: dict[str, Any]) -> Any:
        self.hook, self.with_module = state["hook"], state["with_module"]
        self.module = weakref.ref(state["module"]) if self.with_module else None


class StateDict:
    """Saving and loading of parameters and persistent buffers."""

    _version: int = 1

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return the parameters and persistent buffers of this module and its descendants by dotted name.

        Args:
            destination: dictionary to fill, by default a new one; its attribute `_metadata` holds module versions.
            prefix: prefix of every name.
            keep_vars: return the parameters themselves, not detached tensors that share their memory.
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead.", FutureWarning, stacklevel=2)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination) if destination is None else destination
            prefix = given.get("prefix", prefix) if prefix == "" else prefix
            keep_vars = given.get("keep_vars", keep_vars) if keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if answer is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif answer is not None:
                destination = answer
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Put this module's own state into `destination`, without its children's."""
        for name, tensor in self._own_state():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def _own_state(self):
        for name, parameter in self._parameters.items():
            if parameter is not None:
                yield name, parameter
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                yield name, buffer

    def get_extra_state(self) -> Any:
        """Return state besides tensors, stored under "_extra_state"; classes that have some define this."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: a module with "
            "extra state defines get_extra_state itself."
        )

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned; classes that have extra state define this."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: a module with "
            "extra state defines set_extra_state itself."
        )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy values from `state_dict` into the parameters and buffers of this module and its descendants.

        Args:
            state_dict: mapping from dotted name to tensor.
            strict: require exactly the keys of `self.state_dict()`.
            assign: replace parameters and buffers by the given tensors instead of copying values. Names that share
                a parameter or buffer go on sharing one, the last that is given for any of them.

        Returns:
            A named tuple (missing_keys, unexpected_keys).

        Raises:
            TypeError: if `state_dict` is not a mapping.
            RuntimeError: with all problems listed, for keys (if strict), sizes and values that do not match.
        """
        from collections.abc import Mapping

        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = _Loading(state_dict, strict, _shared_places(self) if assign else None)
        loading.load(self, loading.state_dict, "")
        errors = loading.errors
        if strict:
            # Missing keys are reported first, then unexpected ones, then problems with values.
            for title, keys in (("Unexpected", loading.unexpected), ("Missing", loading.missing)):
                if keys:
                    names = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{title} key(s) in state_dict: {names}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(loading.missing, loading.unexpected)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Load this module's own state, without its children's, from the keys that begin with `prefix`. Problems are
        appended to the three lists. `local_metadata` is what the saving module noted, and
        "assign_to_params_buffers"."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._own_state())
        for name, present in own.items():
            key = prefix + name
            if key in state_dict:
                problem = _take(self, name, key, present, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    # A key that continues after a child's name is handled by the child.
                    if head not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` afterwards; it may change state_dict in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        """`register_state_dict_post_hook` for a hook that may return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before this module takes its own state from state_dict."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(self._load_state_dict_pre_hooks, _LoadPreHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and its descendants are loaded.

        The hook may change the two lists in place; it returns None.
        """
        return add_hook(self._load_state_dict_post_hooks, hook)


def _shared_places(module: Any) -> dict[tuple[int, str], list[tuple[Any, str]]]:
    """Return the places `(owner, name)` of each parameter and buffer that has several, by id of owner and name."""
    places: dict[int, list[tuple[Any, str]]] = {}
    for owner in module.modules():
        for tensors in (owner._parameters, owner._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    places.setdefault(id(tensor), []).append((owner, name))
    return {(id(owner), name): shared for shared in places.values() if len(shared) > 1 for owner, name in shared}


class _Loading:
    """One call of `load_state_dict`: the dictionary, the mode, and the problems found.

    Attributes:
        shared: see `_shared_places`; None if values are copied instead of assigned.
    """

    def __init__(self, state_dict: Mapping[str, Any], strict: bool, shared: dict | None) -> None:
        metadata = getattr(state_dict, "_metadata", None)
        # A copy, because hooks may rename keys.
        self.state_dict = OrderedDict(state_dict)
        self.metadata = {} if metadata is None else metadata
        if metadata is not None:
            self.state_dict._metadata = metadata
        self.strict, self.shared = strict, shared
        self.missing, self.unexpected, self.errors = [], [], []

    def load(self, module: Any, state_dict: Mapping[str, Any], prefix: str) -> None:
        metadata = self.metadata.get(prefix[:-1], {})
        before = {}
        if self.shared is not None:
            metadata = {**metadata, "assign_to_params_buffers": True}
            before = {**module._parameters, **module._buffers}
        module._load_from_state_dict(state_dict, prefix, metadata, True, self.missing, self.unexpected, self.errors)
        loaded = [(name, now) for name in before if (now := getattr(module, name, None)) is not before[name]]
        for name, tensor in loaded:
            if isinstance(tensor, gl.Tensor):
                for owner, other in self.shared.get((id(module), name), ()):
                    setattr(owner, other, tensor)
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.load(child, {key: value for key, value in state_dict.items() if key.startswith(inner)}, inner)
        keys = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                    "return new values, if incompatible_keys need to be modified, it should be done inplace."
                )


def _take(module, name, key, present, given, assign):
    """Copy `given` into the tensor `present`, or assign it; return a message if that fails."""
    if not isinstance(given, gl.Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
            f"checkpoint but received {type(given)}"
        )
    if is_lazy(present) and is_lazy(given):
        return None
    if present.dim() == 0 and given.dim() == 1 and given.shape[0] == 1:
        # Scalars used to be saved as one-element vectors.
        given = given[0]
    if given.shape != present.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape "
            f"in current model is {present.shape}."
        )
    try:
        with gl.no_grad():
            if get_swap_module_params_on_conversion():
                new = present.module_load(given, assign=assign)
                if new is given or new is present:
                    raise RuntimeError(
                        "module_load returned one of self or other, please .detach() the result if returning one of "
                        "the inputs in module_load"
                    )
                exchange(present, new)
                return None
            if not assign:
                present.copy_(given)
                return None
            if isinstance(present, Parameter):
                if isinstance(given, Parameter):
                    given.requires_grad_(present.requires_grad)
                else:
                    given = Parameter(given, requires_grad=present.requires_grad)
            setattr(module, name, given)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {present.shape} '
            f"and whose dimensions in the checkpoint are {given.shape}, an exception occurred : "
            f"{error.args}."
        )
    return None
