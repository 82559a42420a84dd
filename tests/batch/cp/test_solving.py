"""Time control: when a search is extended, from what, and when it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ortools.sat.python import cp_model

from mlsim.batch.cp import cp_solve
from mlsim.batch.cp.cp_solve import Answer, Control, Status, solve


class Script:
    """A solver that answers as it is told, and notes what it is asked.

    An answer is None where nothing is found in time, or an objective; with a bound as large it is a proof.
    """

    def __init__(self, *answers: tuple[float, float] | None) -> None:
        self._answers = list(answers)
        self.times: list[float] = []
        self.hints: list[list[int]] = []

    def solver(self, *_args: object) -> Script:
        self.parameters = SimpleNamespace(cp_model_presolve=False)
        return self

    def solve(self, model: cp_model.CpModel) -> int:
        self.times.append(round(self.parameters.max_deterministic_time, 6))
        self.hints.append(list(model.proto.solution_hint.values))
        answer = self._answers.pop(0)
        objective, bound = answer or (float("nan"), float("-inf"))
        self.response_proto = SimpleNamespace(
            solution=[int(objective)] if answer else [],
            objective_value=objective,
            best_objective_bound=bound,
            num_branches=1,
            num_conflicts=1,
        )
        if answer is None:
            return cp_model.UNKNOWN
        return cp_model.OPTIMAL if objective == bound else cp_model.FEASIBLE


def run(monkeypatch: pytest.MonkeyPatch, script: Script, **control: float) -> Answer:
    monkeypatch.setattr(cp_solve, "_solver", script.solver)
    model = cp_model.CpModel()
    model.minimize(model.new_int_var(0, 99, "x"))
    return solve(model, Control(**({"limit": 1.0, "last_limit": 16.0, "patience": 2} | control)), False)


def test_limits_double_up_to_the_last(monkeypatch):
    """1, 2, 4, 8 and 16 s in all; each extension has what is added."""
    script = Script(*((float(9 - k), 0.0) for k in range(5)))
    answer = run(monkeypatch, script)
    assert script.times == [1, 1, 2, 4, 8]
    assert (answer.extensions, answer.branches, answer.objective) == (4, 5, 5)


def test_the_last_extension_has_what_is_left(monkeypatch):
    script = Script(*((float(9 - k), 0.0) for k in range(3)))
    assert run(monkeypatch, script, last_limit=3.5).extensions == 2
    assert script.times == [1, 1, 1.5]


def test_an_extension_goes_on_from_the_best_plan(monkeypatch):
    script = Script((9.0, 0.0), (7.0, 1.0), (7.0, 7.0))
    assert run(monkeypatch, script).status is Status.OPTIMAL
    assert script.hints == [[], [9], [7]]


@pytest.mark.parametrize(("patience", "times"), [(1, [1, 1]), (2, [1, 1, 2]), (3, [1, 1, 2, 4])])
def test_extensions_that_improve_nothing_end_the_search(monkeypatch, patience: int, times: list[float]):
    script = Script(*[(9.0, 0.0)] * 9)
    answer = run(monkeypatch, script, patience=patience)
    assert script.times == times
    assert (answer.status, answer.extensions) == (Status.FEASIBLE, patience)


def test_only_extensions_in_a_row_count(monkeypatch):
    script = Script((9.0, 0.0), (9.0, 0.0), (8.0, 0.0), (8.0, 0.0), (8.0, 0.0))
    assert run(monkeypatch, script, last_limit=1e9).extensions == 4


def test_without_a_plan_the_search_goes_on_to_the_last_limit(monkeypatch):
    script = Script(*[None] * 5)
    answer = run(monkeypatch, script)
    assert (answer.status, answer.values, answer.extensions) == (Status.UNKNOWN, None, 4)


def test_what_is_known_is_kept_where_an_extension_finds_nothing(monkeypatch):
    script = Script((9.0, 3.0), None, (9.0, 2.0))
    answer = run(monkeypatch, script)
    assert (answer.status, answer.objective, answer.bound) == (Status.FEASIBLE, 9, 3)
    assert script.hints == [[], [9], [9]]


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_is_infeasible_is_not_tried_again(monkeypatch, deterministic: bool):
    made = []
    make = cp_solve._solver
    monkeypatch.setattr(cp_solve, "_solver", lambda *args: made.append(1) or make(*args))
    model = cp_model.CpModel()
    model.add(model.new_int_var(0, 3, "x") + model.new_int_var(0, 3, "y") == 7)
    answer = solve(model, Control(1.0, 16.0, deterministic=deterministic), False)
    assert (answer.status, answer.extensions, len(made)) == (Status.INFEASIBLE, 0, 1)
