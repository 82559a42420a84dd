"""The plan of an ESP trial: ESP's jobs and times, and costs that take them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.mpi.apps.mandelbrot import Mandelbrot
from mlsim.scenario.words import Technique
from mlsim.slurm.esp_plan import Plan, image_of, job_table, jobs_of, write_costs, write_loop
from mlsim.workload.esp_workload import CATEGORIES, EspApplication, esp, nodes_of

PLAN = Plan(nodes=8, scale=0.01, jobs=60, techniques=(Technique.STATIC, Technique.GSS), size=32)


def test_jobs_are_the_first_of_esp_with_scaled_times() -> None:
    whole = esp(EspApplication.MANDELBROT, 8).jobs
    jobs = jobs_of(PLAN)
    assert [job.number for job in jobs] == list(range(1, 61))
    by_code = {category.code: category for category in CATEGORIES}
    for row, job in enumerate(jobs):
        category = by_code[job.category]
        assert job.run_time == pytest.approx(0.01 * category.target)
        assert job.nodes == nodes_of(category, 8)
        assert job.submit == pytest.approx(0.01 * whole.submit_time[row])
        assert job.estimate % 60.0 == 0.0
        assert job.estimate >= 2.0 * job.run_time + 60.0


def test_costs_are_those_of_the_image_and_take_the_run_time(tmp_path: Path) -> None:
    limits = write_costs(PLAN, tmp_path)
    for job in jobs_of(PLAN):
        costs = np.load(tmp_path / f"{job.category}.npy")
        assert costs.shape == (32 * 32,)
        assert costs.sum() == pytest.approx(job.run_time * job.nodes)
        # The limit is chosen for a step of 5 ns, up to one step of every pixel.
        steps = costs / costs.max() * limits[job.category]
        assert steps.sum() * PLAN.step == pytest.approx(costs.sum(), abs=32 * 32 * PLAN.step)


def test_computed_pixels_have_the_counts_that_are_simulated(tmp_path: Path) -> None:
    small = Plan(nodes=2, scale=0.0004, jobs=3, techniques=(Technique.SS,), size=16)
    limits = write_costs(small, tmp_path)
    category = jobs_of(small)[0].category
    application = Mandelbrot(image_of(small), limits[category], every_step=True)
    counts = np.frombuffer(application.expected(), np.int64)
    costs = np.load(tmp_path / f"{category}.npy")
    assert np.allclose(counts / counts.sum(), costs / costs.sum())


def test_the_table_says_what_the_jobs_do() -> None:
    limits = {category.code: 10 + k for k, category in enumerate(CATEGORIES)}
    block, header = job_table(PLAN, limits, launch=1.5)
    jobs = jobs_of(PLAN)
    assert block.run_time.tolist() == pytest.approx([job.run_time + 1.5 for job in jobs])
    assert [header["executable_names"][code - 1] for code in block.executable] == [
        job.category for job in jobs
    ]
    assert block.loop_limit.tolist() == [limits[job.category] for job in jobs]
    assert (block.loop_iterations == 32 * 32).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": 1}, "--nodes 1; allowed: 2 or more"),
        ({"scale": 0.0}, "--scale 0.0; allowed: more than 0"),
        (
            {"scale": 1e-6},
            "shortest job would take 0.00019 s, less than any job of Slurm; allowed: 0.00027 or more",
        ),
        ({"jobs": 231}, "--jobs 231; allowed: 1 to 230"),
        ({"repetitions": 0}, "--repetitions 0; allowed: 1 or more"),
        ({"size": 4}, "--size 4; allowed: 8 to 1024"),
        ({"half_width": 3.0}, "--half-width 3.0; allowed: 0.1 to 2"),
        ({"techniques": ()}, "--techniques none; allowed: one or more"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(PLAN, **changes).checked()


def test_an_image_too_small_for_long_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--size 8: a pixel would have .* steps; allowed: 100,000,000"):
        write_costs(Plan(nodes=64, scale=1.0, jobs=230, techniques=(Technique.SS,), size=8), tmp_path)


def test_the_scenario_of_computed_loops_has_the_window(tmp_path: Path) -> None:
    from mlsim.experiment import load_loop

    write_loop(PLAN, tmp_path / "loop.yaml")
    assert json.loads((tmp_path / "loop.yaml").read_text())["name"] == "esp"
    costs = load_loop(tmp_path / "loop.yaml", {}).application.costs
    assert (costs.parameters.window.x_min, costs.parameters.window.y_max, costs.parameters.size) == (
        -0.68,
        0.68,
        32,
    )
