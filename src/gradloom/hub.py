"""Models from repositories and files from the network: PyTorch's torch.hub.

A repository has a file hubconf.py whose functions return models. Its code is run, so load only what you trust. Programs
that import torch find gradloom under that name after `import gradloom.as_torch`.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import gradloom as gl

from .types.absent import absent

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise absent(__name__, name)
    try:
        return import_module("tqdm").tqdm
    except ModuleNotFoundError:
        return _Progress


class _Progress:
    """Progress of a loop on stderr, where the package tqdm is not installed; other options of tqdm's have no effect.

    Args:
        iterable: what to iterate over, if anything.
        total: how much there is to do, in the unit of `update`; by default, the length of the iterable.
        disable: show nothing.
    """

    def __init__(self, iterable: Any = None, total: float | None = None, disable: bool = False, **options: Any) -> None:
        self.iterable, self.disable, self.n = iterable, disable, 0.0
        self.total = len(iterable) if total is None and hasattr(iterable, "__len__") else total

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            yield item
            self.update(1)

    def update(self, n: float = 1) -> None:
        """Say that `n` more have been done."""
        self.n += n
        if not self.disable:
            sys.stderr.write(f"\r{100 * self.n / self.total:.1f}%" if self.total else f"\r{self.n:g}")

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            sys.stderr.write("\n")

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Settings:
    directory: str | None = None


def get_dir() -> str:
    """Return the folder of downloads: that of `set_dir`, or `hub` in $TORCH_HOME, by default ~/.cache/torch."""
    if _Settings.directory is not None:
        return _Settings.directory
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """Return the folder of what is downloaded: $TORCH_HOME, or `torch` in $XDG_CACHE_HOME, by default ~/.cache."""
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloads."""
    _Settings.directory = os.path.expanduser(os.fspath(d))


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return what a function of a repository's hubconf.py returns.

    Args:
        repo_or_dir: "owner/name" or "owner/name:ref" on GitHub, or a folder if `source` is "local".
        model: name of the function.
        args, kwargs: its arguments.
        source: "github" or "local".
        trust_repo: True trusts the repository from now on, "check" asks unless it is trusted, False always asks.
        force_reload: download even if there is a copy.
        verbose: say whether a copy is used.
        skip_validation: do not check that the ref belongs to the repository rather than to a fork.

    Raises:
        ValueError: for another source, and for a ref that the repository lacks.
        RuntimeError: if hubconf.py lacks the function, or needs packages that are not installed.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo_or_dir
    if source == "github":
        folder = _repository(repo_or_dir, force_reload, trust_repo, verbose, skip_validation)
    with _hubconf(folder) as module:
        return _entry(module, model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
) -> builtins.list[str]:
    """Return the names of the functions of a GitHub repository's hubconf.py; the arguments are those of `load`."""
    with _hubconf(_repository(github, force_reload, trust_repo, verbose, skip_validation)) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
) -> str | None:
    """Return the docstring of a function of a GitHub repository's hubconf.py; the arguments are those of `load`."""
    with _hubconf(_repository(github, force_reload, trust_repo, True, skip_validation)) as module:
        documentation: str | None = _entry(module, model).__doc__
        return documentation


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download to a file, which appears once it is complete.

    Args:
        url: https://, http:// or file:// address.
        dst: path of the file.
        hash_prefix: the beginning of its SHA-256 checksum, in hexadecimal digits.
        progress: show the progress on stderr.

    Raises:
        RuntimeError: if the checksum differs.
    """
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    descriptor, partial = tempfile.mkstemp(suffix=".partial", dir=os.path.dirname(dst) or ".")
    try:
        with os.fdopen(descriptor, "wb") as file, urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            done = 0
            while chunk := answer.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress:
                    sys.stderr.write(f"\r{100 * done / size:.1f}%" if size else f"\r{done} bytes")
        if progress:
            sys.stderr.write("\n")
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        os.chmod(partial, 0o644)  # mkstemp keeps its files from others
        shutil.move(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Return what a file of `torch.save` holds; it is downloaded unless there is a copy.

    Args:
        url: address of the file.
        model_dir: folder of copies; None for `checkpoints` in `get_dir()`.
        map_location: as for `torch.load`.
        weights_only: True refuses all but tensors and plain containers. False, the default as in PyTorch, runs any code
            that the file names: pass True unless you trust whoever can change the file.
        progress: show the progress on stderr.
        check_hash: compare with the beginning of the SHA-256 checksum in the name, as in net-5c106cde.pth.
        file_name: name of the copy; None for that in the address.

    Raises:
        RuntimeError: if the checksum differs.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        found = re.search(r"-([a-f0-9]*)\.", name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return gl.load(path, map_location=map_location, weights_only=weights_only)


# --- hubconf.py ---


@contextmanager
def _hubconf(folder: str) -> Iterator[Any]:
    """Import a folder's hubconf.py; within the `with` block it imports modules beside it."""
    sys.path.insert(0, folder)
    try:
        spec = spec_from_file_location("hubconf.py", os.path.join(folder, "hubconf.py"))
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: Any, name: Any) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [package for package in getattr(module, "dependencies", None) or () if not _is_installed(package)]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def _is_installed(package: str) -> bool:
    # gradloom stands for torch; code that imports it under that name needs gradloom.as_torch.
    return package == "torch" or find_spec(package) is not None


# --- GitHub ---


def _repository(github: str, force_reload: bool, trust: bool | str | None, verbose: bool, skip_validation: bool) -> str:
    """Return the folder of a repository, downloaded unless there is a copy."""
    os.makedirs(get_dir(), exist_ok=True)
    owner, name, ref = _parse(github)
    folder = os.path.join(get_dir(), f"{owner}_{name}_{ref.replace('/', '_')}")
    _check_trust(owner, name, os.path.basename(folder), trust)
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _check_ref(owner, name, ref)
    url = f"https://github.com/{owner}/{name}/zipball/{ref}"
    with tempfile.TemporaryDirectory(dir=get_dir()) as place:
        archive = os.path.join(place, "repository.zip")
        sys.stdout.write(f'Downloading: "{url}" to {archive}\n')
        download_url_to_file(url, archive, progress=False)
        with zipfile.ZipFile(archive) as file:
            _extract(file, Path(place, "content"))
        (extracted,) = Path(place, "content").iterdir()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(extracted, folder)
    return folder


def _parse(github: str) -> tuple[str, str, str]:
    """Return owner, name and ref; the ref is main or master if none is given."""
    repository, _, ref = github.partition(":")
    owner, name = repository.split("/")
    if ref:
        return owner, name, ref
    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/"):
            return owner, name, "main"
    except HTTPError as error:
        if error.code != 404:
            raise
        return owner, name, "master"
    except URLError as error:
        for ref in ("main", "master"):
            if os.path.exists(os.path.join(get_dir(), f"{owner}_{name}_{ref}")):
                return owner, name, ref
        raise RuntimeError(
            f"It looks like there is no internet connection and the repo could not be found in the cache ({get_dir()})"
        ) from error


def _check_ref(owner: str, name: str, ref: str) -> None:
    """Raise ValueError for a ref of a fork, which GitHub shows under the original's address, too."""
    headers = {"Accept": "application/vnd.github.v3+json"}
    if token := os.environ.get("GITHUB_TOKEN"):
        headers["Authorization"] = f"token {token}"
    for kind in ("branches", "tags"):
        page = 0
        while True:
            page += 1
            url = f"https://api.github.com/repos/{owner}/{name}/{kind}?per_page=100&page={page}"
            with urlopen(Request(url, headers=headers)) as answer:
                found = json.load(answer)
            if not found:
                break
            if any(item["name"] == ref or item["commit"]["sha"].startswith(ref) for item in found):
                return
    raise ValueError(
        f"Cannot find {ref} in https://github.com/{owner}/{name}. If it's a commit from a forked repo, please call "
        "hub.load() with forked repo directly."
    )


def _check_trust(owner: str, name: str, folder: str, trust: bool | str | None) -> None:
    """Ask whether to trust a repository where `trust_repo` says so, and remember those that are trusted."""
    path = Path(get_dir(), "trusted_list")
    known = path.read_text().split() if path.exists() else []
    repository = f"{owner}_{name}"
    trusted = repository in known or os.path.isdir(os.path.join(get_dir(), folder)) or owner in _TRUSTED_OWNERS
    if trust is False or (trust == "check" and not trusted):
        answer = input(
            f"The repository {repository} does not belong to the list of trusted repositories and as such cannot be "
            "downloaded. Do you trust this repository and wish to add it to the trusted list of repositories (y/N)?"
        ).lower()
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository.")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
    if not trusted:
        path.write_text("".join(f"{line}\n" for line in [*known, repository]))


def _extract(archive: zipfile.ZipFile, folder: Path) -> None:
    """Extract an archive whose members all stay within a folder. Raises ValueError for one that does not."""
    folder.mkdir()
    for member in archive.namelist():
        if not (folder / member).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"Archive entry escapes target directory: {member}")
    archive.extractall(folder)
