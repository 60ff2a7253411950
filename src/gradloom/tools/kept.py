"""The specification and the generated files of gradloom, with what earlier processes found out about them.

Note [The kept specification]
The results of the generator's steps (Note [Kept steps]) are kept in one file for each checkout, in `gradloom/generator`
of the user's cache folder, under the rules of Note [The cache of machine code]: a folder or file that is not this
user's own, or that others may write to, is not used; a checksum finds damaged files; a file is written under another
name and renamed, so that processes that run at the same time see a whole one, and the last of them wins. A result goes
by a digest of all that it follows from, so that whoever reads the file need not know who wrote it, or when. The file
has the results that its writer used, and others as long as they are few.

What the file has is data, read without calling anything (Note [Kept values]), and the templates as compiled by Jinja,
which are code. `GRADLOOM_CACHE_DIR`, set to nothing, switches it off, as does `gradloom generate --afresh`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gradloom.codegen.derivatives import incremental, specification
from gradloom.codegen.derivatives.specification import Specification
from gradloom.codegen.memo import Memo, pack, unpack
from gradloom.codegen.target import FILES, Target

from ..compiler._llvm import cache

ROOM = "generator"
SMALLEST = 1 << 16  # bytes of YAML; smaller specifications are analysed in no time
T = TypeVar("T")


def load(target: Target) -> Specification:
    """Load the specification of a target, as `specification.load` does."""
    if not _is_kept(target):
        return specification.load(target)
    return _with_memo(target, lambda memo: incremental.load(target, memo))


def generated_files(target: Target, debug: bool = False) -> dict[str, str]:
    """Return the generated files of a target, as `render.generated_files` does."""
    from gradloom.codegen.outputs import incremental, render  # most users need the specification only

    if not _is_kept(target):
        return render.generated_files(target, debug)
    return _with_memo(target, lambda memo: incremental.generated_files(target, memo, debug))


def _is_kept(target: Target) -> bool:
    if not target.is_own or target.output is None or cache.folder(ROOM) is None:
        return False
    try:
        return sum(target.path(name).stat().st_size for name in FILES) >= SMALLEST
    except OSError:
        return False


def _with_memo(target: Target, make: Callable[[Memo], T]) -> T:
    """Return what `make` makes with the results that are kept for a target, and keep the new ones."""
    name = cache.file_name("generator", str(target))
    data = cache.read(name, ROOM)
    try:
        memo = Memo(unpack(data or b""))
    except ValueError:
        memo = Memo()
    made = make(memo)
    if memo.has_news:
        cache.write(name, pack(memo.results()), ROOM)
    return made
