"""Wrong command lines: what was wrong, what is allowed, what to try, in mlsim's words; exit code 2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.main import get_command

from mlsim.cli.command_options import Commands
from mlsim.cli.commands import PANELS, program
from mlsim.errors import InputError


@pytest.fixture(scope="module")
def whole():
    """The program with all commands."""
    return get_command(program())


def refusal(whole, line: str) -> str:
    with pytest.raises(InputError) as refused:
        whole.main(line.split(), prog_name="mlsim")
    assert refused.value.exit_code == 2
    return str(refused.value)


OF_RUN = "--set, --out, -o, --rca, --json, --quiet, -q, --status, --watch, --help; try: mlsim run --help"
NUMBERS = {
    "advise a --seeds 1.5": "--seeds 1.5: allowed: whole numbers from 1 up",
    "plot gantt a --width x": "--width x: allowed: numbers from 30 to 500",
    "plot gantt a --width 501": "--width 501: allowed: numbers from 30 to 500",
    "metrics a --tau nan": "--tau nan: allowed: numbers from 1e-09 up",
    "slurm cluster up --nodes 65": "--nodes 65: allowed: whole numbers from 1 to 64",
    "workload generate lublin --out a --seed x": "--seed x: allowed: whole numbers from 0 up",
}


def test_an_unknown_option_is_answered_with_the_options_of_the_command(whole):
    assert refusal(whole, "run a.yaml --otu b") == (
        f"--otu: mlsim run has no such option; did you mean '--out'? allowed: {OF_RUN}"
    )
    assert refusal(whole, "run a.yaml -qz") == f"-z: mlsim run has no such option; allowed: {OF_RUN}"


def test_an_unknown_option_of_mlsim_itself_and_of_a_group(whole):
    message = refusal(whole, "--debgu run a.yaml")
    assert message.startswith(
        "--debgu: mlsim has no such option; did you mean '--debug'? allowed: --version, "
    )
    assert message.endswith("--help; try: mlsim --help")
    assert refusal(whole, "slurm cluster --foo") == (
        "--foo: mlsim slurm cluster has no such option; allowed: --help; try: mlsim slurm cluster --help"
    )


def test_an_option_of_mlsim_behind_a_command_is_put_where_it_belongs(whole):
    assert refusal(whole, "run a.yaml --debug") == (
        "--debug: an option of mlsim, which stands before the command; try: mlsim --debug run"
    )


def test_an_unknown_command_and_one_of_a_group(whole):
    message = refusal(whole, "rnu a.yaml")
    assert message.startswith("rnu: mlsim has no such command; did you mean 'run'? allowed: init, run, ")
    assert "rca" not in message
    assert message.endswith("; try: mlsim --help")
    assert refusal(whole, "slurm cluster sttus") == (
        "sttus: mlsim slurm cluster has no such command; did you mean 'status'? "
        "allowed: up, status, jobs, down; try: mlsim slurm cluster --help"
    )


def test_a_missing_argument_and_a_missing_option(whole):
    assert refusal(whole, "run") == (
        "FILE is missing; allowed: mlsim run [OPTIONS] FILE; try: mlsim run --help"
    )
    assert refusal(whole, "plot").startswith("KIND is missing; allowed: gantt, utilization, ")
    assert refusal(whole, "workload generate lublin") == (
        "--out FILE is missing; allowed: --out FILE; try: mlsim workload generate --help"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run a.yaml --out", "--out: needs a value; allowed: --out DIR; try: mlsim run --help"),
        ("run a.yaml -o", "-o: needs a value; allowed: --out DIR; try: mlsim run --help"),
        ("study a --quiet=3", "--quiet: takes no value; allowed: --quiet; try: mlsim study run --help"),
        ("--debug=3", "--debug: takes no value; allowed: --debug; try: mlsim --help"),
        ("slurm --help=3", "--help: takes no value; allowed: --help; try: mlsim slurm --help"),
    ],
)
def test_a_value_too_few_or_too_many(whole, line, message):
    assert refusal(whole, line) == message


def test_more_arguments_than_a_command_takes(whole):
    assert refusal(whole, "run a.yaml b.yaml c.yaml") == (
        "b.yaml c.yaml: more than mlsim run takes; allowed: mlsim run [OPTIONS] FILE; try: mlsim run --help"
    )


@pytest.mark.parametrize("line", NUMBERS)
def test_a_number_out_of_range_or_none(whole, line):
    assert refusal(whole, line) == NUMBERS[line]


def test_a_word_of_a_closed_set(whole):
    assert refusal(whole, "run a.yaml --rca maybe") == "--rca maybe: allowed: on, off, both"
    assert refusal(whole, "plot gant a").startswith("gant: did you mean 'gantt'? allowed: gantt, ")


def test_every_group_of_commands_speaks_so(whole):
    def groups(command) -> Iterator[object]:
        if hasattr(command, "commands"):
            yield command
            for inner in command.commands.values():
                yield from groups(inner)

    found = list(groups(whole))
    assert len(found) > 8
    assert all(isinstance(group, Commands) for group in found)


@pytest.mark.parametrize("line", ["", "trace", "slurm cluster"])
def test_no_words_at_all_print_the_help(mlsim, line):
    done = mlsim(*line.split())
    assert done.code == 2
    assert "Usage: " in done.out
    titles = PANELS if not line else ["Commands"]
    assert all(f"─ {title} ─" in done.out for title in titles)
    assert done.err == ""


def test_a_message_is_one_line_on_standard_error(mlsim):
    for line in ("run a.yaml --otu b", "--debgu", "rnu", "run", "run a.yaml --out", "advise a --seeds 1.5"):
        done = mlsim(*line.split(), env={"COLUMNS": "40"})
        assert done.code == 2
        assert done.out == ""
        assert done.err.startswith("mlsim: ")
        assert len(done.err.splitlines()) == 1
