"""Completion of values in shells: keys and values of ``--set``, words of lists, as each shell asks."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from mlsim.cli import completion
from mlsim.scenario import load, scenario_keys
from tests.cli.conftest import COMMAND

PROGRAM = "import sys; sys.argv = ['mlsim']; from mlsim.cli.main import main; main()"


def words(found: completion.Words) -> list[str]:
    return [word for word, _ in found]


def asked(shell: str, **variables: str) -> list[str]:
    """Return what mlsim answers a shell."""
    environment = {**os.environ, "_MLSIM_COMPLETE": f"complete_{shell}", **variables}
    done = subprocess.run(
        [COMMAND[0], "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def by_bash(*typed: str) -> list[str]:
    """Ask as Typer's function for bash does, which divides words at ``=``."""
    return asked("bash", COMP_WORDS="\n".join(("mlsim", *typed)), COMP_CWORD=str(len(typed)))


def test_keys_of_set_begin_as_typed():
    assert words(completion.settings("batch.backfill_")) == [
        "batch.backfill_order",
        "batch.backfill_interval",
    ]
    assert words(completion.settings("platform.nodes.1.cou")) == [
        "platform.nodes.1.count=",
        "platform.nodes.1.count=16",
    ]
    assert "platform.nodes.0.count" in words(completion.settings("platform.nodes."))
    assert completion.settings("nothing.so") == []


def test_every_key_is_offered_and_every_value_offered_is_read(small):
    keys = [key for key in words(completion.settings("")) if ".0." not in key]
    assert set(keys) >= {option.key for option in scenario_keys.options() if ".N." not in option.key}
    for key in ("coordination.rca", "batch.policy", "batch.power_cap", "output.trace", "seed"):
        values = words(completion.settings(f"{key}="))
        assert values
        for value in values:
            name, _, text = value.partition("=")
            assert name == key
            assert " " not in text
    for value in words(completion.settings("batch.backfill=")):
        load(small / "small.yaml", {"batch.backfill": value.partition("=")[2]})


def test_a_single_key_has_a_second_word_so_that_no_space_follows():
    assert words(completion.settings("coordination.rc")) == [
        "coordination.rca=",
        "coordination.rca=on",
        "coordination.rca=off",
    ]
    assert words(completion.settings("coordination.rca=")) == ["coordination.rca=on", "coordination.rca=off"]


def test_words_of_lists_with_commas_and_of_closed_sets():
    technique = completion.for_placeholder("TECHNIQUES")
    assert technique is not None
    assert {"GSS,FAC", "GSS,FAC2"} <= set(words(technique("GSS,FA")))
    method = completion.for_placeholder("grid|xnes|cma-es")
    assert method is not None
    assert words(method("x")) == ["xnes"]
    assert completion.for_placeholder("FILE.csv|.parquet") is None


def test_bash_gets_what_stands_behind_the_equals_sign():
    assert by_bash("run", "x.yaml", "--set", "batch.backfill", "=", "ea") == ["easy"]
    assert by_bash("run", "x.yaml", "--set", "=", "batch.backfill", "=", "c") == ["conservative"]
    assert by_bash("run", "x.yaml", "--set", "seed", "=", "4", "--set", "application.model", "=") == [
        "rigid",
        "loop",
        "fixed",
    ]
    assert by_bash("loop", "--technique", "GSS,FA") == ["GSS,FAC", "GSS,FAC2"]


def test_zsh_and_fish_get_whole_words():
    (line,) = asked("zsh", _TYPER_COMPLETE_ARGS="mlsim run x.yaml --set batch.backfill=ea")
    assert '"batch.backfill=easy":' in line
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    (line,) = asked("fish", _TYPER_COMPLETE_ARGS="mlsim run x.yaml --set batch.backfill=ea", **fish)
    assert line.split("\t")[0] == "batch.backfill=easy"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_function_of_bash_itself(tmp_path):
    program = tmp_path / "mlsim"
    program.write_text(f'#!/bin/sh\nexec {COMMAND[0]} -c "{PROGRAM}"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_MLSIM_COMPLETE=source_bash mlsim)"; COMP_WORDS=(mlsim run x --set batch.policy = SA); '
        'COMP_CWORD=6; _mlsim_completion mlsim; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["SAF"]
