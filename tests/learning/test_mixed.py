"""Mixed policies: grids, evolution, and the three protocols against plain loops over runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import weeks_of
from mlsim.learning.learning_parts import Parts
from mlsim.learning.mixed_policies import (
    FEATURES,
    PURE,
    Searching,
    feature_scales,
    learn_mixed,
    minimise,
    penalty,
    simplex_grid,
    tried_by,
    weekly_means,
    widened,
)
from mlsim.learning.policy_validation import learn_phases, learn_transfer
from mlsim.learning.search_maps import map_of, map_rows, write_map
from mlsim.scenario import dump, from_mapping
from mlsim.workload import generate


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.swf"
    generate("lublin", days=42, processors=32, load=0.95, seed=4, estimates="tsafrir").write(path)
    return from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
            "workload": {"path": str(path), "mapping": "node", "weeks": {"crossing": "remove"}},
            "batch": {"policy": "FCFS", "backfill": "easy", "threshold": "20 h"},
        }
    )


@pytest.mark.parametrize(
    ("points", "features"), [(5, ("q", "p")), (6, ("p", "wait", "area")), (3, FEATURES[:4])]
)
def test_grids_are_all_policies_once(points, features):
    vectors = simplex_grid(points, features)
    np.testing.assert_allclose(np.abs(vectors).sum(axis=1), 1.0, rtol=1e-12)
    assert len(np.unique(vectors.round(9), axis=0)) == len(vectors)
    others = [place for place, name in enumerate(FEATURES) if name not in features]
    assert not vectors[:, others].any()
    steps = np.linspace(-1, 1, points)
    for place in (FEATURES.index(name) for name in features[1:]):
        assert np.abs(vectors[:, place, np.newaxis] - steps).min(axis=1).max() < 1e-12
    if points % 2:  # so that 0 is among the values: every pure policy is a vertex
        for place in (FEATURES.index(name) for name in features):
            assert {-1.0, 1.0} <= set(vectors[:, place])


def test_the_order_of_a_grid_is_that_of_nested_loops():
    """Which of equally good vectors is learned depends on it."""
    values = np.linspace(-1.0, 1.0, 4)
    loops = [
        (sign * (1 - abs(p) - abs(wait)), p, wait)
        for sign in (1, -1)
        for p in values
        for wait in values
        if 1 - abs(p) - abs(wait) > 1e-12
    ]
    edge = [(0.0, p, wait) for p in values for wait in values if abs(1 - abs(p) - abs(wait)) <= 1e-12]
    grid = simplex_grid(4, ("q", "p", "wait"))
    np.testing.assert_array_equal(grid[:, :3], np.array(loops + edge))


def test_the_grid_of_the_source_covers_the_source():
    assert len(simplex_grid(200, ("q", "p", "wait"))) == 39_600


def direction(target):
    return lambda tried: np.linalg.norm(tried / np.abs(tried).sum(axis=1, keepdims=True) - target, axis=1)


@pytest.mark.parametrize("method", ["xnes", "cma-es"])
def test_evolution_finds_a_direction_and_keeps_the_norm(method):
    if method == "cma-es":
        pytest.importorskip("cmaes", reason="no cmaes; pip install 'mlsim[search]'")
    target = np.array([0.5, -0.3, 0.2])
    options = {"method": method, "evaluations": 1500, "factor": 0.1, "seed": 3}
    vector, loss = minimise(direction(target), 3, **options)
    assert loss < 1e-2
    assert 0.2 < np.abs(vector).sum() < 5
    again, _ = minimise(direction(target), 3, **options)
    assert again.tobytes() == vector.tobytes()


@pytest.mark.parametrize("method", ["xnes", "cma-es"])
@pytest.mark.parametrize("evaluations", [1, 10, 100])
def test_vectors_are_counted_as_they_are_tried(method, evaluations):
    if method == "cma-es":
        pytest.importorskip("cmaes", reason="no cmaes; pip install 'mlsim[search]'")
    counts = []

    def loss(tried):
        counts.append(len(tried))
        return np.abs(tried).sum(axis=1)

    minimise(loss, 3, method=method, evaluations=evaluations, factor=1.0, seed=1)
    assert tried_by(method, 3, evaluations) == sum(counts)


def test_the_penalty_is_least_at_norm_1():
    norms = np.array([[0.5], [0.9], [1.0], [1.1], [2.0]])
    expected = [7.5, 3 * (0.9 + 1 / 0.9), 6.0, 3 * (1.1 + 1 / 1.1), 7.5]
    assert penalty(norms, 3.0).tolist() == pytest.approx(expected)


def test_protocols_are_what_loops_over_runs_give(scenario):
    """Every vector in every week by a whole run each, and then the three protocols in plain words."""
    vectors = simplex_grid(3, ("q", "p"))
    means = {}
    for week in range(5):
        for number, vector in enumerate(vectors.tolist()):
            weights = {name: weight for name, weight in zip(FEATURES, vector, strict=True) if weight}
            keys = {"workload.select.weeks": week, "batch.policy": "linear", "batch.weights": weights}
            summary = run_of(scenario, keys)
            means[week, number] = summary["bounded_slowdown"]["mean"]
    found = learn_mixed(weeks_of(scenario), (1, 2), (3, 4), Searching(("q", "p"), "grid", 3))
    everything = range(len(vectors))
    best = {week: min(means[week, number] for number in everything) for week in range(5)}
    assert found.sums()["w*"] == pytest.approx((best[1] + best[2], best[3] + best[4]), rel=1e-12)
    learned = min(everything, key=lambda number: means[1, number] + means[2, number])
    np.testing.assert_allclose(found.learned, vectors[learned])
    expected = (means[1, learned] + means[2, learned], means[3, learned] + means[4, learned])
    assert found.sums()["w*_train"] == pytest.approx(expected, rel=1e-12)

    def greedy(week):
        good = [number for number in everything if means[week - 1, number] == pytest.approx(best[week - 1])]
        return np.mean([means[week, number] for number in good])

    assert found.sums()["w_greedy"] == pytest.approx((greedy(1) + greedy(2), greedy(3) + greedy(4)), rel=1e-9)
    for name in PURE:
        runs = [run_of(scenario, {"workload.select.weeks": week, "batch.policy": name}) for week in (3, 4)]
        assert found.sums()[name][1] == pytest.approx(sum(run["bounded_slowdown"]["mean"] for run in runs))
    assert found.against("SAF")["SAF"].difference == 0


def run_of(scenario, keys):
    return mlsim.run(mlsim.scenario.loads(dump(scenario), overrides=keys)).summary


def test_pure_policies_are_vertices(scenario):
    weeks = weeks_of(scenario)
    blocks = list(weeks.blocks.values())
    means = weekly_means(blocks, scenario.batch, weeks.units, np.eye(6))
    found = learn_mixed(weeks, (0, 2), (3, 4), Searching(("q", "p"), "grid", 3))
    for place, name in enumerate(("SQF", "SPF", "FCFS", "SRF", "LEXP", "SAF")):
        np.testing.assert_allclose(means[found.weeks, place], found.means[name], rtol=1e-12)


def test_what_is_learned_depends_on_nothing_after_the_training_weeks(scenario):
    """With every later job changed, weights and values of the training weeks are the same."""
    weeks = weeks_of(scenario)
    poisoned = {
        week: replace(block, run_time=block.run_time[::-1].copy(), processors=np.ones_like(block.processors))
        if week > 2
        else block
        for week, block in weeks.blocks.items()
    }
    for method in ("grid", "xnes"):
        searching = Searching(("q", "p", "wait"), method, points=5, evaluations=20)
        one = learn_mixed(weeks, (0, 2), (3, 4), searching)
        other = learn_mixed(replace(weeks, blocks=poisoned), (0, 2), (3, 4), searching)
        assert one.learned.tobytes() == other.learned.tobytes()
        for name in one.means:
            assert one.means[name][:3].tobytes() == other.means[name][:3].tobytes()
        greedy = other.means["w_greedy"][3]
        week = weekly_means([poisoned[3]], scenario.batch, weeks.units, one.best[2:3])[0, 0]
        if method == "xnes":
            assert greedy == pytest.approx(week)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 2), (2, 4), Searching(("q", "p"), "grid", 3)), "overlap"),
        (((0, 2), (90, 94), Searching(("q", "p"), "grid", 3)), "no week of the log"),
        (((0, 2), (3, 4), Searching(("q", "size"), "grid", 3)), "'size' is not known"),
        (((0, 2), (3, 4), Searching(("q",), "grid", 3)), "at least two"),
        (((0, 2), (3, 4), Searching(("q", "p"), "annealing")), "allowed: grid, xnes"),
    ],
)
def test_what_makes_no_sense_is_refused(scenario, arguments, message):
    with pytest.raises(InputError, match=message):
        learn_mixed(weeks_of(scenario), *arguments)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_map_has_the_value_of_every_vector(scenario, tmp_path, scaled):
    weeks, searching = weeks_of(scenario), Searching(("q", "p", "wait"), points=5, scaled=scaled)
    parts = Parts()
    found = learn_mixed(weeks, (0, 2), (3, 4), searching, parts)
    means = map_of(weeks, 1, 2, found, parts)
    write_map(tmp_path, means, found)
    table = pl.read_csv(tmp_path / "map.csv")
    assert table["week"].unique().to_list() == [1, 2]
    scale = feature_scales([weeks.blocks[number] for number in (0, 1, 2)]) if scaled else np.ones(6)
    for week in (1, 2):
        rows = table.filter(pl.col("week") == week)
        vectors = widened(rows.select("q", "p", "wait").to_numpy(), ("q", "p", "wait"))
        assert len(vectors) == len(simplex_grid(5, ("q", "p", "wait")))
        expected = weekly_means([weeks.blocks[week]], scenario.batch, weeks.units, vectors / scale)[0]
        assert rows["mean"].to_numpy() == pytest.approx(expected)
        row = map_rows(means, found)[week - 1]
        best = int(np.argmin(expected))
        assert (row["week"], row["least"]) == (str(week), pytest.approx(expected[best]))
        assert [row[f"w*: {name}"] for name in ("q", "p", "wait")] == pytest.approx(
            vectors[best, [0, 1, 2]].tolist()
        )
        assert row["q > 0"] == pytest.approx(np.median(expected[vectors[:, 0] > 0]))
        assert row["near the least %"] == pytest.approx(100 * np.mean(expected <= 1.1 * expected[best]))
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="no week from 7 to 9"):
        map_of(weeks, 7, 9, found, parts)


@pytest.mark.slow
def test_the_command_writes_a_scenario_that_runs(scenario, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "base.yaml").write_text(dump(scenario))
    words = ["--train", "0-2", "--test", "3-4", "--points", "3", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["learn", "mixed", str(tmp_path / "base.yaml"), *words, "--map", "1-1"])
    assert result.exit_code == 0, result.output
    assert "w*_train" in result.output
    assert "Map of the search space" in result.output
    assert {path.name for path in (tmp_path / "out").glob("map.*")} == {"map.csv", "map.png"}
    assert CliRunner().invoke(app, ["learn", "mixed", str(tmp_path / "base.yaml"), *words]).exit_code == 0
    assert not list((tmp_path / "out").glob("map.*"))  # no map of another command
    rows = (tmp_path / "out" / "weeks.csv").read_text().splitlines()
    assert rows[0].startswith("week,part,w*,w*_train,w_greedy,SAF")
    assert len(rows) == 6
    summary = mlsim.run(str(tmp_path / "out" / "learned.yaml"), {"workload.select.weeks": 3}).summary
    column = rows[0].split(",").index("w*_train")
    assert float(rows[4].split(",")[column]) == pytest.approx(summary["bounded_slowdown"]["mean"], rel=1e-9)


def test_weights_are_put_in_their_places():
    assert widened(np.array([[1.0, 2.0]]), ("area", "wait")).tolist() == [[0, 0, 2, 0, 0, 1]]


def test_what_is_learned_on_one_log_is_tested_on_all(tmp_path):
    """Each number against plain runs of a learned vector; the first weeks are nowhere tested."""
    logs = {}
    for name, load, seed in (("calm", 0.7, 1), ("busy", 1.0, 2)):
        path = tmp_path / f"{name}.swf"
        generate("lublin", days=35, processors=32, load=load, seed=seed, estimates="tsafrir").write(path)
        logs[name] = weeks_of(
            from_mapping(
                {
                    "name": name,
                    "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
                    "workload": {"path": str(path), "mapping": "node", "weeks": {"crossing": "remove"}},
                    "batch": {"policy": "FCFS", "backfill": "easy"},
                }
            )
        )
    found = learn_transfer(logs, 0.5, Searching(points=4))
    for name, log in logs.items():
        numbers = sorted(log.blocks)
        first = round(0.5 * len(numbers))
        assert found.weeks[name].tolist() == numbers[first:]
        config, learn = log.scenario.batch, [log.blocks[number] for number in numbers[:first]]
        grid = simplex_grid(4, ("q", "p", "wait"))
        sums = weekly_means(learn, config, log.units, grid).sum(axis=0)
        learned = weekly_means(learn, config, log.units, found.weights[name][np.newaxis]).sum()
        assert learned == pytest.approx(sums.min(), rel=1e-12)
        for other, vector in found.weights.items():
            blocks = [log.blocks[number] for number in numbers[first:]]
            means = weekly_means(blocks, config, log.units, vector[np.newaxis])[:, 0]
            np.testing.assert_array_equal(found.means[name][other], means)
    spread = found.against("busy", "calm", "SAF")
    expected = (found.means["busy"]["calm"] - found.means["busy"]["SAF"]).mean()
    assert spread.difference == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InputError, match="needed: one to learn"):
        learn_transfer(logs, 0.999, Searching(points=4))


@pytest.mark.slow
def test_transfer_by_the_command_line(scenario, tmp_path):
    from mlsim.cli.main import app

    for name in ("one", "other"):
        (tmp_path / f"{name}.yaml").write_text(dump(scenario.model_copy(update={"name": name})))
    files = [str(tmp_path / f"{name}.yaml") for name in ("one", "other")]
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["learn", "transfer", *files, "--points", "3", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "learned on" in result.output
    assert (out / "weights.csv").read_text().count("\n") == 3
    rows = pl.read_csv(out / "transfer.csv")
    assert set(rows["policy"]) == {"one", "other", *PURE}
    twins = rows.filter(pl.col("policy").is_in(["one", "other"])).select("tested on", "mean")
    assert twins["mean"].n_unique() == 1  # the same log under two names
    result = CliRunner().invoke(app, ["learn", "transfer", files[0], "--points", "3"])
    assert isinstance(result.exception, InputError)


def test_scaled_features_are_divided_by_what_they_were_in_the_training_weeks(scenario):
    weeks = weeks_of(scenario)
    scale = feature_scales([weeks.blocks[number] for number in (0, 1, 2)])
    jobs = [weeks.blocks[number] for number in (0, 1, 2)]
    p, q = (np.concatenate([getattr(block, name) for block in jobs]) for name in ("walltime", "processors"))
    assert scale.tolist() == pytest.approx(
        [np.std(q), np.std(p), np.std(p), np.std(p / q), np.std(1800 / p), np.std(p * q)]
    )
    found = learn_mixed(weeks, (0, 2), (3, 4), Searching(("q", "p"), "grid", 5, scaled=True))
    vectors = simplex_grid(5, ("q", "p")) / scale
    blocks = [weeks.blocks[number] for number in range(5)]
    means = weekly_means(blocks, scenario.batch, weeks.units, vectors)
    np.testing.assert_allclose(found.means["w*"], means.min(axis=1), rtol=1e-12)
    learned = vectors[np.argmin(means[:3].sum(axis=0))]
    np.testing.assert_allclose(found.learned, learned / np.abs(learned).sum(), rtol=1e-12)
    poisoned = dict(weeks.blocks) | {3: weeks.blocks[3].select(np.arange(2))}
    other = learn_mixed(
        replace(weeks, blocks=poisoned), (0, 2), (3, 4), Searching(("q", "p"), "grid", 5, scaled=True)
    )
    assert other.learned.tobytes() == found.learned.tobytes()


def test_the_band_is_that_of_cuts_at_each_phase(scenario):
    searching = Searching(("q", "p"), "grid", 3)
    band = learn_phases(scenario, 2, (1, 2), (3, 3), searching)
    assert band.phases.tolist() == [0.0, 302_400.0]
    for place, phase in enumerate(("0 h", "84 h")):
        moved = mlsim.scenario.loads(dump(scenario), overrides={"workload.weeks.phase": phase})
        sums = learn_mixed(weeks_of(moved), (1, 2), (3, 3), searching).sums()
        for name, (train, test) in sums.items():
            assert (band.train[name][place], band.test[name][place]) == (train, test)
    with pytest.raises(InputError, match="allowed: 2 or more"):
        learn_phases(scenario, 1, (1, 2), (3, 3), searching)


@pytest.mark.slow
def test_the_command_shows_phases_and_what_others_found(scenario, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "base.yaml").write_text(dump(scenario))
    (tmp_path / "source.csv").write_text("policy,part,bounded slowdown\nSAF,train,123.25\nw*,test,77.5\n")
    words = [
        "learn",
        "mixed",
        str(tmp_path / "base.yaml"),
        "--train",
        "0-2",
        "--test",
        "3-3",
        "--points",
        "3",
    ]
    more = ["--scaled", "--phases", "2", "--phase-points", "3", "--reference", str(tmp_path / "source.csv")]
    result = CliRunner().invoke(app, [*words, *more])
    assert result.exit_code == 0, result.output
    for text in ("123.25", "77.5", "over 2 phases", "w*_train"):
        assert text in result.output
    (tmp_path / "source.csv").write_text("policy,value\nSAF,1\n")
    result = CliRunner().invoke(app, [*words, *more])
    assert "needed: policy, part" in str(result.exception)


def mixed(place, *words, command="mixed"):
    from mlsim.cli.main import app

    weeks = ["--train", "0-2", "--test", "3-4"] if command == "mixed" and "--test" not in words else []
    return CliRunner().invoke(app, ["learn", command, str(place / "base.yaml"), *weeks, *words])


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("mixed", ["--method", "xnes", "--points", "3"], "--points: read with --method grid only"),
        ("mixed", ["--evaluations", "20"], "--evaluations: read with --method xnes or cma-es only"),
        ("mixed", ["--seed", "0"], "--seed: read with --method xnes or cma-es only"),
        ("mixed", ["--penalty", "2"], "--penalty: read with --method xnes or cma-es only"),
        ("mixed", ["--phase-points", "3"], "--phase-points: read with --phases and --method grid only"),
        ("mixed", ["--method", "annealing", "--points", "3"], "allowed: grid, xnes"),
        (
            "mixed",
            ["--features", "q,p,wait,ratio,exp"],
            "200 values of each of 4 features are 1,600,000,000 vectors to make a grid of; allowed: "
            "10,000,000, thus up to 56 points",
        ),
        ("mixed", ["--points", "3", "--phases", "2", "--phase-points", "10001"], "are 100,020,001 vectors"),
        ("mixed", ["--features", "q,p", "--map", "1-2"], "--map: read with one FILE, --method grid, three"),
        ("transfer", ["--map", "1-2"], "--map: read with one FILE, --method grid, three features only"),
        ("mixed", ["--share", "0.4"], "--share: read with several FILEs only"),
        ("transfer", ["--train", "1-2"], "--train: read with one FILE only"),
        ("transfer", ["--features", "q,p,wait,ratio,exp,area"], "thus up to 25 points"),
        (
            "transfer",
            ["--points", "3", "--share", "0.99"],
            "base: 6 weeks with jobs, 6 of them to learn by a",
        ),
        ("transfer", ["--method", "xnes", "--points", "3"], "--points: read with --method grid only"),
        ("transfer", ["--seed", "1"], "--seed: read with --method xnes or cma-es only"),
    ],
)
def test_options_that_nothing_reads_are_refused(scenario, command, words, message, tmp_path):
    (tmp_path / "base.yaml").write_text(dump(scenario.model_copy(update={"name": "base"})))
    (tmp_path / "other.yaml").write_text(dump(scenario.model_copy(update={"name": "other"})))
    others = [str(tmp_path / "other.yaml")] if command == "transfer" else []
    result = mixed(tmp_path, *others, *words, command=command)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "columns: none; needed: policy, part, and one of values"),
        ("policy,part,value\nSAF,train,1\nSAF,all,2\n", "part: 'all'; allowed: train, test"),
        ("policy,part,value\nSAF,train,1\n\nSAF,test,nan\n", ":4: value: 'nan' is no number"),
        ("policy,part,value\nSAF,train\n", ":2: has 2 columns; needed: policy, part, value"),
    ],
)
def test_damaged_results_of_others_are_refused_by_their_line(scenario, lines, message, tmp_path):
    (tmp_path / "base.yaml").write_text(dump(scenario))
    (tmp_path / "source.csv").write_text(lines)
    result = mixed(tmp_path, "--points", "3", "--reference", str(tmp_path / "source.csv"))
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.mark.slow
def test_one_week_gives_a_difference_and_no_interval(scenario, tmp_path):
    (tmp_path / "base.yaml").write_text(dump(scenario))
    result = mixed(tmp_path, "--points", "3", "--train", "1-2", "--test", "0-0")
    assert result.exit_code == 0, result.output
    assert "nan" not in result.output
    assert "Some test weeks are before the weeks that weights were learned from" in result.output
    assert "learned from 2 weeks with jobs, tested on 1;" in " ".join(result.output.split())
    sums = learn_mixed(weeks_of(scenario), (1, 2), (0, 0), Searching(points=3)).sums()
    row = next(line for line in result.output.splitlines() if line.startswith("FCFS "))
    assert f" {sums['FCFS'][1] - sums['SAF'][1]:.2f} " in f"{row} "


def test_the_learned_scenario_finds_its_log_and_no_band_of_another_command_stays(scenario, tmp_path):
    """A scenario names its log by the way from itself; what was learned from it lies elsewhere."""
    log = tmp_path / "logs" / "log.swf"
    log.parent.mkdir()
    log.write_bytes((scenario.directory / scenario.workload.path).read_bytes())
    workload = scenario.workload.model_copy(update={"path": "logs/log.swf"})
    (tmp_path / "base.yaml").write_text(dump(scenario.model_copy(update={"workload": workload})))
    out = tmp_path / "far" / "away"
    words = ["--points", "3", "--jobs", "1", "--out", str(out)]
    result = mixed(tmp_path, *words, "--phases", "2", "--phase-points", "3")
    assert result.exit_code == 0, result.output
    assert (out / "phases.csv").is_file()
    result = mixed(tmp_path, *words)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir() if path.is_file()} == {"weeks.csv", "learned.yaml"}
    summary = mlsim.run(str(out / "learned.yaml"), {"workload.select.weeks": 3}).summary
    row = pl.read_csv(out / "weeks.csv").row(3, named=True)
    assert row["w*_train"] == pytest.approx(summary["bounded_slowdown"]["mean"], rel=1e-9)


def test_one_week_of_another_log_gives_a_difference(scenario, tmp_path):
    (tmp_path / "base.yaml").write_text(dump(scenario))
    (tmp_path / "other.yaml").write_text(dump(scenario.model_copy(update={"name": "other"})))
    other, out = str(tmp_path / "other.yaml"), tmp_path / "out"
    words = [other, "--points", "3", "--share", "0.8", "--jobs", "1", "--out", str(out)]
    result = mixed(tmp_path, *words, "--phases", "2", command="transfer")
    assert result.exit_code == 0, result.output
    assert "weeks: 1" in result.output
    assert "nan" not in result.output
    assert (out / "phases.csv").is_file()
    rows = pl.read_csv(out / "transfer.csv").filter(pl.col("policy") == "FCFS")
    reference = pl.read_csv(out / "transfer.csv").filter(pl.col("policy") == "SAF")["mean"]
    assert rows["difference to SAF"].to_list() == (rows["mean"] - reference).to_list()
    assert mixed(tmp_path, *words, command="transfer").exit_code == 0
    assert {path.name for path in out.iterdir() if path.is_file()} == {"transfer.csv", "weights.csv"}


@pytest.mark.parametrize(
    "words",
    [
        ["mixed", "a.yaml", "--train", "0-2", "--test", "3-4", "--method", "xnes", "--penalty", "inf"],
        ["classes", "a.yaml", "--seed", str(2**32)],
    ],
)
def test_numbers_that_no_search_and_no_forest_takes_are_refused(words):
    from mlsim.cli.main import app

    result = CliRunner().invoke(app, ["learn", *words])
    assert result.exit_code != 0
    assert words[-2].removeprefix("--") in f"{result.output}{result.exception}"
