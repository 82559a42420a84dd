"""Regret of methods that choose techniques, from the results of this study.

Usage: python scenarios/studies/selection/regret.py RESULTS [--out DIR]

RESULTS is the directory of ``mlsim study scenarios/studies/selection --out RESULTS``. Regret is the loop
time of all time steps together under a method, less that of the best single technique of the portfolio, as a
share of the latter: which one that is, is known afterwards only. The oracle of a time step knows what each
technique will take in it, slow-downs to come included, and takes the best, at no cost. Where the machine does
not change, all time steps are alike and the oracle is the best single technique; else it is simulated here.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl

from mlsim.application import simulate
from mlsim.application.application_simulator import loop_perturbation
from mlsim.coordination import NodeSet
from mlsim.cosim.simulation import loop_costs
from mlsim.execution_models.loop_state import Perturbation
from mlsim.experiment.loops import load_loop
from mlsim.experiment.study.study_tables import mean_interval
from mlsim.platform import machine_of
from mlsim.scenario.scenario_text import parse_value_text

HERE = Path(__file__).parent
PORTFOLIO = ("STATIC", "GSS", "TSS", "FAC2", "mFSC", "AF", "SS")
CONDITIONS = ("steady", "perturbed", "changing")
KEYS = ["profile", "condition", "seed"]


def oracle(profile: str, condition: str, seed: int, reach: float) -> float:
    """Return the loop time where each time step has the technique that is best for it [s].

    Slow-downs are known up to ``reach`` (s), a time by which the loop has ended.
    """
    vary: dict[str, Any] = parse_value_text((HERE / "study.yaml").read_text(), "study.yaml")["vary"]
    keys = {**vary["profile"][profile], **vary["condition"][condition], "seed": seed}
    scenario = load_loop(HERE / "loop.yaml", {**keys, "application.technique": "SS"})
    machine, application = machine_of(scenario), scenario.application
    nodes = NodeSet(np.arange(machine.n_nodes), machine.cores)
    node_of_pe = np.repeat(np.arange(machine.n_nodes), machine.cores)
    slow = loop_perturbation(machine.perturbations, nodes, node_of_pe, 0.0, reach)
    latency = machine.network.message_time(0, nodes.node, application.execution.message_size)[node_of_pe]
    latency[0] = 0.0
    prefix, speed = loop_costs(scenario), machine.speed[node_of_pe]
    now = finish = 0.0
    for _ in range(application.time_steps):
        moved = Perturbation(slow.slow_of_pe, slow.slow_index, slow.slow_time - now, slow.slow_factor)
        found = [
            simulate(prefix, speed, latency, name, application.execution, seed=seed, perturbation=moved)
            for name in PORTFOLIO
        ]
        best = min(found, key=lambda outcome: outcome.t_loop)
        finish = now + best.t_loop
        now += float(best.notified_at.max())
    return finish


def regrets(loops: pl.DataFrame) -> pl.DataFrame:
    """Return one row a loop and method: its regrets, and what choosing took, in percent of it."""
    single = loops.filter(pl.col("choice").is_in(PORTFOLIO))
    least, most = pl.col("t_loop").min().alias("best"), pl.col("t_loop").max().alias("worst")
    best = single.group_by(KEYS).agg(least, most)
    bounds = [
        row["best"] if row["condition"] != "changing" else oracle(*(row[key] for key in KEYS), row["worst"])
        for row in best.iter_rows(named=True)
    ]
    best = best.with_columns(oracle=pl.Series(bounds))
    methods = loops.filter(~pl.col("choice").is_in(PORTFOLIO)).join(best, on=KEYS)
    return methods.select(
        *KEYS,
        method="choice",
        regret=(pl.col("t_loop") / pl.col("best") - 1.0) * 100.0,
        against_oracle=(pl.col("t_loop") / pl.col("oracle") - 1.0) * 100.0,
        choosing=pl.col("selection_time") / pl.col("t_loop") * 100.0,
        oracle_gain=(1.0 - pl.col("oracle") / pl.col("best")) * 100.0,
    )


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the means of each method and condition, with 95 % intervals over profiles and seeds."""
    lines = []
    for (method, condition), of in rows.group_by("method", "condition", maintain_order=True):
        values = of["regret"].to_numpy()
        low, high = mean_interval(values)
        lines.append(
            {
                "method": method,
                "condition": condition,
                "regret %": values.mean(),
                "from": low,
                "to": high,
                "worst profile %": of.group_by("profile").agg(pl.col("regret").mean())["regret"].max(),
                "against oracle %": of["against_oracle"].mean(),
                "choosing %": of["choosing"].mean(),
                "choosing at most %": of["choosing"].max(),
            }
        )
    return pl.DataFrame(lines)


def by_profile(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the mean regret of each method, a row a profile and condition."""
    means = rows.group_by("profile", "condition", "method", maintain_order=True).agg(pl.col("regret").mean())
    return means.pivot("method", index=["profile", "condition"], values="regret")


def draw(lines: pl.DataFrame, path: Path) -> None:
    """Draw the mean regrets with their intervals."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    methods = lines["method"].unique(maintain_order=True).to_list()
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for place, condition in enumerate(CONDITIONS):
        of = lines.filter(pl.col("condition") == condition)
        mean, low, high = (of[name].to_numpy() for name in ("regret %", "from", "to"))
        at = np.arange(len(methods)) + (place - 1) * 0.27
        axes.bar(at, mean, 0.25, yerr=[mean - low, high - mean], capsize=2, label=condition)
    axes.axhline(3.0, color="black", linewidth=0.8, linestyle="--", label="3 %")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_yticks([0, 1, 3, 10, 30, 100], ["0", "1", "3", "10", "30", "100"])
    axes.set_xticks(range(len(methods)), methods)
    axes.set_ylabel("mean regret (%)")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Read the options, compute, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or given.results
    out.mkdir(parents=True, exist_ok=True)
    rows = regrets(pl.read_csv(given.results / "loops.csv"))
    lines = table(rows)
    rows.write_csv(out / "regret.csv", float_precision=4)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, float_precision=2, tbl_width_chars=160):
        print(lines)
        print(by_profile(rows))
    draw(lines, out / "regret.png")


if __name__ == "__main__":
    main()
