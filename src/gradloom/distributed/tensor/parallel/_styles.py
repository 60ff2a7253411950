"""Ways to distribute a module, its inputs and its outputs, for `parallelize_module`.

Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism", 2019; for
SequenceParallel, Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gradloom as gl

from ....nn.modules.linear import Linear
from ....nn.modules.sparse import Embedding
from ....nn.parameter import Parameter
from ...device_mesh import DeviceMesh
from .._dtensor import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]

_Layouts = Placement | tuple[Placement | None, ...] | None


def _as_tuple(layouts: _Layouts) -> tuple[Placement | None, ...]:
    return (layouts,) if layouts is None or isinstance(layouts, Placement) else tuple(layouts)


def _taken(value: Any, layout: Placement, wanted: Placement, mesh: DeviceMesh) -> Any:
    """Return an input as a distributed tensor; an ordinary one is this process's part."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [layout], run_check=False)
    return value if value.placements == (wanted,) else value.redistribute(placements=[wanted])


def _given(value: Any, wanted: Placement, use_local: bool) -> Any:
    """Return an output, distributed as the caller wants it."""
    if value.placements != (wanted,):
        value = value.redistribute(placements=[wanted])
    return value.to_local() if use_local else value


class ParallelStyle:
    """Base of the ways to distribute a module: `_apply` does it."""

    src_data_rank: int | None = 0

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        raise NotImplementedError

    def _distributed(self, module: Any, placements: dict[str, Placement], mesh: DeviceMesh) -> None:
        """Distribute the parameters of a module: by name, or else replicated."""
        for name, parameter in list(module.named_parameters(recurse=False)):
            placement = placements.get(name, Replicate())
            made = distribute_tensor(parameter.detach(), mesh, [placement], src_data_rank=self.src_data_rank)
            module.register_parameter(name, Parameter(made, parameter.requires_grad))


class _OfLayer(ParallelStyle):
    """Base of the ways to distribute the parameters of a Linear or Embedding."""

    def __init__(self, input_layout: Placement, output_layout: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (input_layout,), (output_layout,)
        self.use_local_output = use_local_output

    _LINEAR: dict[str, Placement]
    _EMBEDDING: dict[str, Placement]

    def _wanted_input(self, module: Any) -> Placement:
        return Replicate()

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        if not isinstance(module, (Linear, Embedding)):
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        placements = self._LINEAR if isinstance(module, Linear) else self._EMBEDDING
        self._distributed(module, placements, device_mesh)
        return distribute_module(
            module, device_mesh, None, partial(self._input, self._wanted_input(module)), self._output
        )

    def _input(self, wanted: Placement, module: Any, inputs: Any, mesh: DeviceMesh) -> Any:
        return (_taken(inputs[0], self.input_layouts[0], wanted, mesh), *inputs[1:])

    def _output(self, module: Any, outputs: Any, mesh: DeviceMesh) -> Any:
        return _given(outputs, self.output_layouts[0], self.use_local_output)


class ColwiseParallel(_OfLayer):
    """Let each process compute some features of the output of a Linear or Embedding.

    Args:
        input_layouts: how the input is distributed, of which an ordinary tensor is a part; replicated if None.
        output_layouts: how the output is distributed; along its last dimension if None.
        use_local_output: return this process's part of the output, as an ordinary tensor.
    """

    _LINEAR = {"weight": Shard(0), "bias": Shard(0)}
    _EMBEDDING = {"weight": Shard(1)}

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _output(self, module: Any, outputs: Any, mesh: DeviceMesh) -> Any:
        return _given(outputs, _from_front(self.output_layouts[0], outputs.dim()), self.use_local_output)


def _from_front(layout: Placement, ndim: int) -> Placement:
    return Shard(layout.dim % ndim) if isinstance(layout, Shard) else layout


class RowwiseParallel(_OfLayer):
    """Let each process use some features of the input of a Linear, or some rows of an Embedding, and sum the outputs.

    Args:
        input_layouts: how the input is distributed, of which an ordinary tensor is a part; along its last dimension if
            None.
        output_layouts: how the output is distributed; replicated if None.
        use_local_output: return this process's part of the output, as an ordinary tensor.
    """

    _LINEAR = {"weight": Shard(1), "bias": Replicate()}
    _EMBEDDING = {"weight": Shard(0)}

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _wanted_input(self, module: Any) -> Placement:
        return Shard(-1) if isinstance(module, Linear) else Replicate()

    def _input(self, wanted: Placement, module: Any, inputs: Any, mesh: DeviceMesh) -> Any:
        layout, ndim = self.input_layouts[0], inputs[0].dim()
        taken = _taken(inputs[0], _from_front(layout, ndim), _from_front(wanted, ndim), mesh)
        return (taken, *inputs[1:])


class SequenceParallel(ParallelStyle):
    """Let each process compute a part of the sequence: for LayerNorm, RMSNorm and Dropout, whose parameters all have.

    Args:
        sequence_dim: dimension of the input along which the sequence goes.
        use_local_output: return this process's part of the output, as an ordinary tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self._distributed(module, {}, device_mesh)
        return distribute_module(module, device_mesh, None, self._input, self._output)

    def _input(self, module: Any, inputs: Any, mesh: DeviceMesh) -> Any:
        value, wanted = inputs[0], self.sequence_sharding[0]
        if not isinstance(value, gl.Tensor):
            raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {value}")
        return (_taken(value, wanted, wanted, mesh), *inputs[1:])

    def _output(self, module: Any, outputs: Any, mesh: DeviceMesh) -> Any:
        return outputs.to_local() if self.use_local_output else outputs


class PrepareModuleInput(ParallelStyle):
    """Distribute the inputs of a module.

    Args:
        input_layouts: how each positional input is distributed, of which an ordinary tensor is a part; None for an
            input that is left alone.
        desired_input_layouts: how each is to be distributed.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for keyword inputs.
        use_local_output: pass this process's part of the inputs, as ordinary tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _as_tuple(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _as_tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _one(self, value: Any, layout: Placement | None, wanted: Placement | None, mesh: DeviceMesh) -> Any:
        if layout is None or value is None:
            return value
        if not isinstance(value, gl.Tensor):
            raise AssertionError("expecting input to be a torch.Tensor!")
        ndim = value.dim()
        taken = _taken(value, _from_front(layout, ndim), _from_front(wanted or layout, ndim), mesh)
        return taken.to_local() if self.use_local_output else taken

    def _inputs(self, mesh: DeviceMesh, module: Any, inputs: Any, kwargs: dict[str, Any]) -> Any:
        if self.input_layouts is not None:
            if len(inputs) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            wanted: Sequence[Placement | None] = self.desired_input_layouts or ()
            inputs = tuple([self._one(*one, mesh) for one in zip(inputs, self.input_layouts, wanted, strict=True)])
        layouts, desired = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        kwargs = {name: self._one(value, layouts.get(name), desired.get(name), mesh) for name, value in kwargs.items()}
        return inputs, kwargs

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        module.register_forward_pre_hook(partial(self._inputs, device_mesh), with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Distribute the outputs of a module.

    Args:
        output_layouts: how each output is distributed, of which an ordinary tensor is a part; None for an output that
            is left alone.
        desired_output_layouts: how each is to be distributed.
        use_local_output: return this process's part of the outputs, as ordinary tensors.
    """

    def __init__(
        self, *, output_layouts: _Layouts, desired_output_layouts: _Layouts, use_local_output: bool = True
    ) -> None:
        self.output_layouts, self.desired_output_layouts = _as_tuple(output_layouts), _as_tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _outputs(self, mesh: DeviceMesh, module: Any, inputs: Any, outputs: Any) -> Any:
        listed = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        if len(listed) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        found = []
        for value, layout, wanted in zip(listed, self.output_layouts, self.desired_output_layouts, strict=True):
            if layout is not None:
                ndim = value.dim()
                value = _taken(value, _from_front(layout, ndim), _from_front(wanted or layout, ndim), mesh)
                value = value.to_local() if self.use_local_output else value
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        module.register_forward_hook(partial(self._outputs, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Distribute the inputs and outputs of a module: PrepareModuleInput and PrepareModuleOutput.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: of PrepareModuleInput.
        use_local_input: its `use_local_output`.
        output_layouts, desired_output_layouts, use_local_output: of PrepareModuleOutput.
    """

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: _Layouts,
        desired_output_layouts: _Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
