"""gradloom.autograd.anomaly_mode: context managers that switch anomaly detection on; see Note [Anomaly mode]."""

from __future__ import annotations

from ..core.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class _Switch:
    """Base of both context managers: restores the former mode."""

    _before: tuple[bool, bool]

    @property
    def prev(self) -> bool:
        """Return whether the mode was on before."""
        return self._before[0]

    @property
    def prev_check_nan(self) -> bool:
        """Return whether NaNs raised before."""
        return self._before[1]

    def __exit__(self, *exc: object) -> None:
        try:
            set_anomaly_enabled(*self._before)
        except BaseException:  # see Note [Interrupts]
            set_anomaly_enabled(*self._before)
            raise


class set_detect_anomaly(_Switch):
    """Switch anomaly detection on or off: as a statement at once, or for the length of a `with` block.

    Args:
        mode: whether nodes remember the forward call that made them.
        check_nan: whether a NaN that a backward function returns raises RuntimeError.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass


class detect_anomaly(_Switch):
    """A `with` block in which errors of backward name the forward line of the failing node, and NaNs raise.

    Args:
        check_nan: whether a NaN that a backward function returns raises RuntimeError.
    """

    def __init__(self, check_nan: bool = True) -> None:
        import warnings

        self._before = is_anomaly_enabled(), is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        try:
            set_anomaly_enabled(True, self.check_nan)
        except BaseException:
            set_anomaly_enabled(*self._before)
            raise
