"""DeviceMesh: ranks as an array of some dimensions, with a process group for each line along a dimension."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import gradloom as gl

from . import distributed_c10d as dist

__all__ = ["DeviceMesh", "init_device_mesh"]

_entered: list[DeviceMesh] = []
_made: weakref.WeakValueDictionary[Any, DeviceMesh] = weakref.WeakValueDictionary()  # for unpickling


def current_mesh() -> DeviceMesh:
    """Return the mesh of the innermost `with mesh:`.

    Raises:
        RuntimeError: outside of any.
    """
    if not _entered:
        raise RuntimeError("No device mesh is currently active!")
    return _entered[-1]


class DeviceMesh:
    """Ranks as an array, with a process group for each line along a dimension. All ranks make the same.

    Args:
        device_type: "cpu".
        mesh: array of ranks, each once.
        mesh_dim_names: names of the dimensions.

    Raises:
        RuntimeError: if the ranks of the mesh are not those of the default group.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _groups: Sequence[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        if gl.device(device_type).type != "cpu":
            raise RuntimeError(f"gradloom computes on CPUs: there are no devices of type {device_type!r}")
        if backend_override is not None:
            raise RuntimeError("gradloom has no backend_override of meshes yet: all groups have the default backend")
        self.device_type = device_type
        self.mesh = gl.as_tensor(mesh, dtype=gl.int32)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.ndim:
            raise RuntimeError(
                f"mesh_dim_names {self.mesh_dim_names} must have one name for each of {self.mesh.ndim} dimensions"
            )
        self._root = _root
        if not dist.is_initialized():
            dist.init_process_group()
        flat = self.mesh.flatten().tolist()
        if len(set(flat)) != len(flat):
            raise RuntimeError(f"ranks of a mesh must be unique, got {flat}")
        if max(flat) >= dist.get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found rank "
                f"{max(flat)}!"
            )
        self._key = self.device_type, self.mesh_dim_names, tuple(self.mesh.shape), tuple(flat)
        found = (self.mesh == dist.get_rank()).nonzero().tolist()
        self._coordinate: tuple[int, ...] | None = tuple(found[0]) if found else None
        self._groups = list(_groups) if _groups is not None else self._made_groups() if _init_backend else []
        if self._groups:
            _made[self._key] = self

    def _made_groups(self) -> list[Any]:
        if self.mesh.ndim == 1 and self.mesh.tolist() == list(range(dist.get_world_size())):
            return [dist._get_default_group()]
        found = []
        for dim in range(self.mesh.ndim):
            lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
            name = f"mesh_{self.mesh_dim_names[dim]}" if self.mesh_dim_names else f"mesh_dim_{dim}"
            made = [dist.new_group(line, group_desc=name, sort_ranks=False) for line in lines]
            found.append(next((group for group in made if group != dist.GroupMember.NON_GROUP_MEMBER), None))
        return found

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.mesh.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.mesh.ndim} dimensions. Optional kwarg `mesh_dim` needs to be "
                    "specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: {self.mesh_dim_names}"
                )
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the group of this rank's line along a dimension.

        Args:
            mesh_dim: number or name of the dimension; may be None if there is one.
        """
        if not self._groups:
            raise RuntimeError(
                f"DeviceMesh process groups not initialized! Make {self} with init_device_mesh, on all ranks, "
                "before what refers to it is loaded."
            )
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """Return the groups of this rank's lines, by dimension."""
        return [self.get_group(dim) for dim in range(self.mesh.ndim)]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.mesh.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks, or the size of a dimension."""
        return int(self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim))

    def get_rank(self) -> int:
        """Return this process's rank in the default group."""
        return dist.get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return where this rank is in the mesh; None if it is not in it."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's number along a dimension.

        Args:
            mesh_dim: number or name of the dimension; may be None if there is one.
        """
        return dist.get_rank(self.get_group(mesh_dim))

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the part of the mesh along some dimensions in which this rank is.

        Args:
            names: name, or names in the order of the dimensions.
        """
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name) for name in wanted]
        if dims != sorted(set(dims)):
            raise KeyError(f"Invalid mesh_dim_names {wanted}: they must be in the order of {self.mesh_dim_names}")
        if wanted == self.mesh_dim_names:
            return self
        where = self.get_coordinate()
        if where is None:
            raise RuntimeError("this rank is not in the mesh")
        index = tuple(slice(None) if dim in dims else where[dim] for dim in range(self.ndim))
        groups = [self._groups[dim] for dim in dims]
        return DeviceMesh(self.device_type, self.mesh[index], mesh_dim_names=wanted, _groups=groups, _root=self._top())

    def _top(self) -> DeviceMesh:
        return self if self._root is None else self._root

    _get_root_mesh = _top

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return a mesh of one dimension with the same ranks, and a group of all of them. All ranks call it.

        Args:
            mesh_dim_name: name of the dimension; that of the dimensions, joined by "_", if None.
        """
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("flat",))
        whole = self._top()
        if self is whole:
            return DeviceMesh(self.device_type, self.mesh.flatten(), mesh_dim_names=(name,))
        # The parts of all ranks have a group each, which all ranks must make.
        dims = [whole._dim(one) for one in self.mesh_dim_names or ()]
        others = [dim for dim in range(whole.ndim) if dim not in dims]
        lines = whole.mesh.permute(*others, *dims).reshape(-1, self.size()).tolist()
        made = [dist.new_group(line, group_desc=name, sort_ranks=False) for line in lines]
        mine = next(group for group in made if group != dist.GroupMember.NON_GROUP_MEMBER)
        return DeviceMesh(self.device_type, self.mesh.flatten(), mesh_dim_names=(name,), _groups=[mine], _root=whole)

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """Return a mesh of groups that exist.

        Args:
            group: a group, for a mesh of one dimension, or a list with one for each dimension.
            device_type: "cpu".
            mesh: array of ranks, if `group` is a list.
            mesh_dim_names: names of the dimensions.
        """
        if not isinstance(group, (list, tuple)):
            ranks = dist.get_process_group_ranks(group)
            return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=[group])
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=list(group))

    def __enter__(self) -> DeviceMesh:
        _entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _entered.pop()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self is other or self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> Any:
        return _restored, (self.device_type, self.mesh.tolist(), self.mesh_dim_names)

    def __repr__(self) -> str:
        sizes = ", ".join(
            [
                str(size) if name is None else f"{name}={size}"
                for name, size in zip(self.mesh_dim_names or [None] * self.ndim, self.shape, strict=True)
            ]
        )
        return f"DeviceMesh(({sizes}), '{self.device_type}', stride={tuple(self.mesh.stride())})"


def _restored(device_type: str, ranks: Any, names: tuple[str, ...] | None) -> DeviceMesh:
    """Return the mesh that a pickle names: one of this process, or a new one, without new groups."""
    mesh = DeviceMesh(device_type, ranks, mesh_dim_names=names, _init_backend=False)
    known = _made.get(mesh._key)
    if known is None and mesh.ndim == 1 and mesh.mesh.tolist() == list(range(dist.get_world_size())):
        mesh._groups = [dist._get_default_group()]
    return mesh if known is None else known


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Return the ranks of the default group as an array of a shape; make the default group if there is none.

    Args:
        device_type: "cpu".
        mesh_shape: sizes of the dimensions; their product is the number of ranks.
        mesh_dim_names: names of the dimensions.
        backend_override: None.

    Raises:
        RuntimeError: if shape and names do not fit, or the ranks are too few.
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name: {mesh_dim_names}")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    ranks = gl.arange(math.prod(mesh_shape), dtype=gl.int32).view(*mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
