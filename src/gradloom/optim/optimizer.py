"""Optimizer, the base class of all optimizers: parameter groups, state, hooks and saving."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import gradloom as gl
from gradloom import Tensor
from gradloom.dispatch import state as dispatch_state
from gradloom.dispatch.state import state
from gradloom.optim._arrays import number_of_state
from gradloom.utils.hooks import RemovableHandle, add_hook

# Parameters, parameter groups, or pairs (name, parameter).
ParamsT: TypeAlias = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

_global_pre_hooks: OrderedDict = OrderedDict()
_global_post_hooks: OrderedDict = OrderedDict()


class _Required:
    """Value in `defaults` of an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: _Required = _Required()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before the step of every optimizer; it may return new (args, kwargs).

    Args:
        hook: called with the optimizer and the arguments of `step`.
    """
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after the step of every optimizer."""
    return add_hook(_global_post_hooks, hook)


def _hooked(step):
    """Return a class's `step` wrapped so that hooks run around it; hooks get all of its arguments."""

    def with_hooks(*args, **kwargs):
        self = args[0]
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            answer = hook(self, args, kwargs)
            if answer is not None:
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a pre-hook must return None or a tuple of (new_args, "
                        f"new_kwargs), but got {answer}."
                    )
                args, kwargs = answer
        before = state.updates
        updates = dispatch_state.new_updates() if before is None else before
        if updates is None:
            result = step(*args, **kwargs)
        else:
            state.updates = updates
            try:
                result = updates.during(step, args, kwargs)
            finally:
                state.updates = before
        # A scheduler warns if it is stepped before its optimizer.
        self._opt_called = True
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    @functools.wraps(step)
    def wrapper(*args, **kwargs):
        if state.profiler is None:
            return with_hooks(*args, **kwargs)
        with _marked(args[0], "step"):
            return with_hooks(*args, **kwargs)

    wrapper.hooked = True
    wrapper._wrapped_by_lr_sched = True  # it sets _opt_called, for which PyTorch's schedulers wrap `step` again
    return wrapper


def _marked(optimizer, method):
    """Return a block that profiles show under PyTorch's name, such as `Optimizer.step#SGD.step`."""
    from gradloom.profiler import record_function

    return record_function(f"Optimizer.{method}#{type(optimizer).__name__}.{method}")


class Optimizer:
    """Base class of optimizers.

    A subclass calls `super().__init__(params, defaults)`, which wraps its `step` so that hooks run around it, and
    defines `step`. One that stands for another optimizer, and does not call it, has no hooks of its own.

    Args:
        params: an iterable of tensors, of pairs (name, tensor), or of dictionaries, each a parameter group with its
            tensors under "params" and options that override the defaults.
        defaults: options of groups that do not give their own.

    Attributes:
        param_groups: list of parameter groups, dictionaries with all options filled in.
        state: dictionary from a parameter to the dictionary of its state.

    Raises:
        TypeError: if `params` is a tensor or has an item of another type.
        ValueError: if `params` is empty.
    """

    # Options that states saved by earlier versions may lack, with their meaning then.
    _later_options: dict[str, Any] = {}
    # Entries of a parameter's state that are tensors of one number; Python's and NumPy's numbers in saved states.
    _numbers_of_state: tuple[str, ...] = ()

    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    state: dict[Any, Any]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        self._wrap_step()
        if isinstance(params, gl.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _wrap_step(self) -> None:
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _hooked(cls.step)

    def _make_hook_tables(self):
        for table in _HOOK_TABLES:
            setattr(self, table, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._wrap_step()
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for parameter in group["params"]:
                kept = self.state.get(parameter) or {}
                for name in self._numbers_of_state if kept else ():
                    if not isinstance(kept[name], Tensor):
                        kept[name] = number_of_state(kept[name], group.get("fused"))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            options = "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
            text += f"\nParameter Group {number}\n{options}"
        return text + ")"

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once from their gradients.

        Args:
            closure: function that computes the loss anew and its gradients. Optimizers that need it call it several
                times, the others once before the update.

        Returns:
            The closure's loss, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def _loss_of(self, closure):
        """Call the closure with gradients enabled; return None without one."""
        if closure is None:
            return None
        with gl.enable_grad():
            return closure()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or, without `set_to_none`, to zeros in place."""
        if state.profiler is None:
            self._zero_grad(set_to_none)
        else:
            with _marked(self, "zero_grad"):
                self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none):
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                    continue
                if gradient.grad_fn is not None:
                    gradient.detach_()
                else:
                    gradient.requires_grad_(False)
                gradient.zero_()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group.

        Args:
            param_group: dictionary with "params", and any options that override the defaults.

        Raises:
            TypeError: if the group is not a dictionary, or its parameters are a set, or are not tensors.
            ValueError: for a non-leaf tensor, a tensor in another group, a missing required option, or names for some
                groups only.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        parameters = param_group["params"]
        if isinstance(parameters, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        parameters = [parameters] if isinstance(parameters, gl.Tensor) else list(parameters)
        parameters, names = _split_names(parameters)
        param_group["params"] = parameters
        if names is not None:
            param_group["param_names"] = names
        for parameter in parameters:
            if not isinstance(parameter, gl.Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}"
                )
            if not (self.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(set(parameters)) != len(parameters):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        present = {parameter for group in self.param_groups for parameter in group["params"]}
        if not present.isdisjoint(parameters):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            which = "with" if names is not None else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {which} names to the optimizer"
            )
        self.param_groups.append(param_group)

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, with parameters replaced by their indices in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, gl.Tensor) else key: value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            answer = hook(self, result)
            if answer is not None:
                result = answer
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Floating point tensors of the state take their parameter's dtype and device, except step counts, which become
        float32 for fused optimizers. Numbers, as in states of PyTorch 1.x, become tensors.

        Args:
            state_dict: what `state_dict` of an optimizer with groups of the same sizes returned.

        Raises:
            ValueError: if the numbers of groups or of parameters in a group differ.
        """
        import copy

        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            answer = hook(self, state_dict)
            if answer is not None:
                state_dict = answer
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, saved, strict=True))
        if any(len(group["params"]) != len(loaded["params"]) for group, loaded in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        parameters, fused = {}, set()
        for group, loaded in pairs:
            parameters.update(zip(loaded["params"], group["params"], strict=True))
            if loaded.get("fused"):
                fused.update(loaded["params"])
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                state[parameters[key]] = _fitted(parameters[key], value, key in fused)
            else:
                state[key] = value
        groups = []
        for group, loaded in pairs:
            loaded["params"] = group["params"]
            if "param_names" in group and "param_names" not in loaded:
                loaded["param_names"] = group["param_names"]
            groups.append(loaded)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects the state.

        Args:
            hook: called with the optimizer.
            prepend: run before the hooks registered so far.
        """
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` with the result of `state_dict`; it may return a replacement.

        Args:
            hook: called with the optimizer and the dictionary.
            prepend: run before the hooks registered so far.
        """
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return a replacement.

        Args:
            hook: called with the optimizer and the dictionary.
            prepend: run before the hooks registered so far.
        """
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading.

        Args:
            hook: called with the optimizer.
            prepend: run before the hooks registered so far.
        """
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)


_HOOK_TABLES = """
_optimizer_step_pre_hooks _optimizer_step_post_hooks _optimizer_state_dict_pre_hooks _optimizer_state_dict_post_hooks
_optimizer_load_state_dict_pre_hooks _optimizer_load_state_dict_post_hooks
""".split()


def _split_names(parameters):
    """Split pairs (name, tensor) into (tensors, names); names are None for a list of tensors."""
    named = [isinstance(item, tuple) for item in parameters]
    if not any(named):
        return parameters, None
    if not all(named):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [tensor for _, tensor in parameters], [name for name, _ in parameters]


def _fitted(parameter, value, is_fused, key=None):
    """Convert the tensors of a loaded state, within containers too, to the parameter's dtype and device."""
    if isinstance(value, gl.Tensor):
        # In half precision a step count would soon stop growing.
        if key == "step":
            return value.to(dtype=gl.float32, device=parameter.device) if is_fused else value
        if not parameter.is_floating_point():
            return value
        return value.to(dtype=parameter.dtype, device=parameter.device)
    if isinstance(value, Mapping):
        return {name: _fitted(parameter, item, is_fused, name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fitted(parameter, item, is_fused) for item in value)
    return value
