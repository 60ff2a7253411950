"""The versions of what gradloom runs on, for a bug report: `python -m gradloom.utils.collect_env`."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_PACKAGES = ("numpy", "scipy", "ml_dtypes", "jinja2", "pyyaml", "torch")


class SystemEnv(NamedTuple):
    """Facts about the library and the machine; None for an accelerator."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str | None
    python_version: str
    python_platform: str
    is_cuda_available: str
    os: str
    libc_version: str
    cpu_info: str
    pip_packages: str


def get_env_info() -> SystemEnv:
    """Return the facts."""
    import gradloom
    from gradloom.dispatch.state import DEBUG

    bits = 64 if sys.maxsize > 2**32 else 32
    return SystemEnv(
        torch_version=gradloom.__version__,
        is_debug_build=str(DEBUG),
        cuda_compiled_version=None,
        python_version=f"{sys.version.splitlines()[0]} ({bits}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available="False",
        os=f"{_distribution()} ({platform.machine()})",
        libc_version="-".join(platform.libc_ver()) or "N/A",
        cpu_info=f"{_processor()}, {os.cpu_count()} logical processors, {gradloom.get_num_threads()} threads",
        pip_packages="\n".join([f"{name}=={found}" for name in _PACKAGES if (found := _version(name))]),
    )


def get_pretty_env_info() -> str:
    """Return the facts as text."""
    env = get_env_info()
    packages = "\n".join([f"  {line}" for line in env.pip_packages.splitlines()])
    return (
        f"gradloom version: {env.torch_version}\nIs debug build: {env.is_debug_build}\n\nOS: {env.os}\n"
        f"Libc version: {env.libc_version}\n\nPython version: {env.python_version}\n"
        f"Python platform: {env.python_platform}\nIs CUDA available: {env.is_cuda_available}\n\nCPU: {env.cpu_info}\n\n"
        f"Versions of relevant libraries:\n{packages}"
    )


def main() -> None:
    """Print the facts."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _distribution():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
