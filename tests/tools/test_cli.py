"""The command line: what it says to wrong commands and options."""

import subprocess
import sys

import pytest

from gradloom.tools import cli
from tests.waiting import LIMIT


@pytest.mark.parametrize(
    "words, usage, message",
    [
        (["genrate"], "gradloom", "there is no command `genrate`; did you mean `generate`?"),
        (["frobnicate"], "gradloom", "there is no command `frobnicate`; the commands are generate, verify, "),
        (["verify", "--opp", "mul"], "gradloom verify", "there is no option `--opp`; did you mean `--op`?"),
        (["explain", "mul", "--breif=1"], "gradloom explain", "there is no option `--breif`; did you mean `--brief`?"),
        (["generate", "--zzz"], "gradloom generate", "there is no option `--zzz`; --help lists the options"),
        (["explain", "mul", "add"], "gradloom explain", "unexpected argument `add`"),
        (
            ["torchrun", "--nproc-pr-node=2", "a.py"],
            "gradloom torchrun",
            "there is no option `--nproc-pr-node`; did you mean `--nproc-per-node`?",
        ),
    ],
)
def test_a_misspelt_command_or_option_is_answered_with_one_that_is_close(words, usage, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    out, answer = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert answer.startswith(f"usage: {usage} [-h]")
    assert f"{usage}: error: {message}" in answer


def test_without_a_command_the_help_is_shown(capsys):
    assert cli.main([]) == 2
    out, answer = capsys.readouterr()
    assert out == ""
    assert all(command in answer for command in cli.COMMANDS)


def test_options_behind_a_program_are_its_own(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr("gradloom.tools.launch.launch", lambda *call: given.append(call) or 0)
    assert cli.main(["run", "program.py", "--opp", "-x", "1"]) == 0
    assert given == [("program.py", ["--opp", "-x", "1"], False)]


def test_a_program_is_run_without_the_generator(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint([name for name in sys.modules if name.startswith('gradloom.codegen')])")
    command = [sys.executable, "-m", "gradloom", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
