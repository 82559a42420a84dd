"""`mlsim report`: the page in a browser, and directories that it cannot be made of."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from typer.testing import CliRunner

import mlsim
from mlsim.analysis.plots.job_colours import colours_of
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from tests.browser import Browser, Page, find_chromium

QUICKSTART = "scenarios/quickstart.yaml"


def report(*words: object) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with and without coordination, and with maintenance."""
    place = tmp_path_factory.mktemp("runs")
    mlsim.run(QUICKSTART, {"coordination.rca": False}, out=place / "alone")
    mlsim.run(QUICKSTART, out=place / "coordinated")
    mlsim.run("scenarios/maintenance.yaml", out=place / "maintained")
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium on this machine")
    found = Browser(program)
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(browser: Browser, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file = tmp_path_factory.mktemp("page") / "report.html"
    report(runs / "coordinated", runs / "alone", runs / "maintained", "-o", file)
    opened = browser.open(file)
    yield opened
    assert opened.problems() == []
    opened.close()


def enter(page: Page, name: str, value: object, event: str) -> None:
    """Give a control a value, as a user does."""
    page.evaluate(
        f"(() => {{ const box = document.getElementById('{name}'); box.value = '{value}'; "
        f"box.dispatchEvent(new Event('{event}')); }})()"
    )


def rectangles(directory: Path) -> int:
    return len(mlsim.experiment.stored_runs.read_run(directory).records.occupancy.job)


def shown(page: Page) -> int:
    page.wait("mlsimReport.gantt.frame === 0")
    return int(page.evaluate("document.getElementById('gantt').dataset.shown"))


@pytest.mark.slow
def test_the_gantt_chart_shows_every_rectangle_of_the_run(page: Page, runs: Path) -> None:
    assert page.evaluate("document.documentElement.dataset.state") == "ready"
    assert shown(page) == rectangles(runs / "coordinated")
    assert page.problems() == []


@pytest.mark.slow
def test_pixels_have_the_colours_of_the_jobs_that_hold_the_nodes(page: Page) -> None:
    """In the middle of the longest stay."""
    found = page.evaluate("""(() => {
        const {gantt, run} = mlsimReport, boxes = run.boxes; let best = 0;
        const size = (row) => (boxes.end[row] - boxes.start[row]) * (boxes.bottom[row] - boxes.top[row]);
        for (let row = 0; row < boxes.start.length; row++) if (size(row) > size(best)) best = row;
        const x = gantt.x(boxes.start[best] * 0.8 + boxes.end[best] * 0.2);
        const y = gantt.y(boxes.top[best] * 0.8 + boxes.bottom[best] * 0.2);
        const pixel = [...gantt.context.getImageData(x, y, 1, 1).data].slice(0, 3);
        return [pixel, gantt.content.palette[boxes.colour[best]]];
    })()""")
    assert found[0] == found[1]


def test_the_wheel_zooms_where_the_pointer_is_and_home_shows_all_again(page: Page) -> None:
    page.evaluate("document.getElementById('gantt').scrollIntoView({block: 'center'})")
    box = page.evaluate("(({x, y}) => ({x, y}))(document.getElementById('gantt').getBoundingClientRect())")
    before = page.evaluate("({...mlsimReport.gantt.view})")
    x, y = box["x"] + 600, box["y"] + 60
    at = "(({view, box}) => view.t0 + (600 - box.left) / box.inner * (view.t1 - view.t0))(mlsimReport.gantt)"
    here = page.evaluate(at)
    page.click(x, y)
    for _ in range(5):
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    page.wait("mlsimReport.gantt.frame === 0")
    after = page.evaluate("({...mlsimReport.gantt.view})")
    assert after["t1"] - after["t0"] < 0.5 * (before["t1"] - before["t0"])
    assert page.evaluate(at) == pytest.approx(here, rel=1e-6)
    fewer = shown(page)
    assert fewer < int(page.evaluate("document.getElementById('gantt').dataset.boxes"))
    page.mouse("mousePressed", x, y, button="left", clickCount=1)
    page.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    page.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    moved = page.evaluate("mlsimReport.gantt.view.t0")
    assert moved > after["t0"]
    page.press("Home")
    page.wait("mlsimReport.gantt.frame === 0")
    assert page.evaluate("({...mlsimReport.gantt.view})") == before


def test_a_click_on_a_job_shows_its_loop(page: Page, runs: Path) -> None:
    records = mlsim.experiment.stored_runs.read_run(runs / "coordinated").records
    page.evaluate("document.getElementById('gantt').scrollIntoView({block: 'center'})")
    place = page.evaluate("""(() => {
        const {gantt, run} = mlsimReport, boxes = run.boxes;
        const row = boxes.job.indexOf(run.jobs.id.indexOf(16));
        const box = document.getElementById('gantt').getBoundingClientRect();
        const middle = (boxes.start[row] + boxes.end[row]) / 2;
        return [box.x + gantt.x(middle), box.y + gantt.y(boxes.top[row] + 0.5)];
    })()""")
    page.click(*place)
    page.wait("mlsimReport.loop !== null")
    assert page.evaluate("document.getElementById('job-title').textContent") == "Job 16"
    job = records.jobs.job_id.tolist().index(16)
    loop = records.loops.job.tolist().index(job)
    assert page.evaluate("mlsimReport.loop.content.boxes.start.length") == records.loops.steps[loop]
    assert page.evaluate("mlsimReport.loop.shown") == records.loops.steps[loop]
    assert page.evaluate("mlsimReport.loop.content.lanes") == records.loops.pes[loop]
    assert page.evaluate("Math.max(...mlsimReport.loop.content.boxes.end)") == pytest.approx(
        records.loops.t_loop[loop]
    )


def test_keys_go_from_job_to_job_and_tell_what_they_are(page: Page) -> None:
    page.evaluate(
        "mlsimReport.gantt.reset(), mlsimReport.gantt.cursor = -1, document.getElementById('gantt').focus()"
    )
    page.press("n")
    first = page.evaluate("document.getElementById('said').textContent")
    page.press("n")
    second = page.evaluate("document.getElementById('said').textContent")
    assert first.startswith("job ")
    assert second.startswith("job ")
    assert first != second
    page.press("Enter")
    assert page.evaluate("document.getElementById('job').hidden") is False
    page.press("Escape")
    assert page.evaluate("document.getElementById('job').hidden") is True
    page.press("Home")


def test_the_table_of_jobs_is_sorted_and_filtered(page: Page, runs: Path) -> None:
    jobs = mlsim.experiment.stored_runs.read_run(runs / "coordinated").records.jobs
    waits = dict(zip(jobs.job_id.tolist(), (jobs.start_time - jobs.submit_time).tolist(), strict=True))
    ids = (
        "[...document.querySelectorAll('#jobs tbody td:first-child')].map((cell) => Number(cell.textContent))"
    )
    page.evaluate(
        "[...document.querySelectorAll('#jobs th button')]"
        ".find((each) => each.textContent.startsWith('wait')).click()"
    )
    found = page.evaluate(ids)
    assert [waits[job] for job in found] == sorted(waits.values(), reverse=True)[: len(found)]
    assert page.evaluate("document.querySelector('#jobs th[aria-sort=descending]').textContent").startswith(
        "wait"
    )
    enter(page, "filter", "processors>64", "input")
    large = int((jobs.processors > 64).sum())
    assert page.evaluate("document.getElementById('page').textContent").startswith(f"{large} jobs")
    enter(page, "filter", "", "input")


def test_another_run_can_be_chosen_and_outages_are_drawn(page: Page, runs: Path) -> None:
    for place, name in ((2, "maintained"), (0, "coordinated")):
        enter(page, "run", place, "change")
        page.wait("document.documentElement.dataset.state === 'ready'")
        assert shown(page) == rectangles(runs / name)
        outages = page.evaluate("mlsimReport.run.outages && mlsimReport.run.outages.start.length")
        assert bool(outages) == (name == "maintained")


def test_a_narrow_window_needs_no_scrolling_sideways(page: Page) -> None:
    page.resize(380, 800)
    page.wait("mlsimReport.gantt.frame === 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.resize(1280, 900)


CAPTURE = """(() => {
    const make = URL.createObjectURL;
    window.saved = [];
    URL.createObjectURL = (blob) => { window.saved.push(blob); return make.call(URL, blob); };
    HTMLAnchorElement.prototype.click = () => {};
})()"""


def saved(page: Page, button: str) -> str:
    """Press a button that saves a file; return its content, one character a byte."""
    page.evaluate("window.saved || " + CAPTURE)
    page.evaluate(f"window.saved.length = 0, document.getElementById('{button}').click()")
    page.wait("window.saved.length === 1")
    return page.evaluate(
        "window.saved[0].arrayBuffer().then((data) => Array.from(new Uint8Array(data), "
        "(byte) => String.fromCharCode(byte)).join(''))"
    )


def colour_at(page: Page, x: int, y: int) -> list[int]:
    """Return a pixel of the Gantt chart once all that changes it has been drawn."""
    page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    )
    return page.evaluate(
        "(() => { const copy = document.createElement('canvas'); copy.width = copy.height = 1; "
        "const pen = copy.getContext('2d', {willReadFrequently: true}); "
        f"pen.drawImage(mlsimReport.gantt.canvas, {x}, {y}, 1, 1, 0, 0, 1, 1); "
        "return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3); })()"
    )


def test_a_dark_page_saves_light_pictures(page: Page) -> None:
    assert colour_at(page, 1, 1) == [255, 255, 255]
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert colour_at(page, 1, 1) != [255, 255, 255]
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == f"rgb({', '.join(map(str, colour_at(page, 1, 1)))})"
    text = saved(page, "gantt-svg")
    drawn = ElementTree.fromstring(text)
    assert drawn[0].attrib["fill"] == "rgb(255,255,255)"
    kinds = Counter(element.tag.rpartition("}")[2] for element in drawn.iter())
    assert kinds["path"] > shown(page)
    png = saved(page, "gantt-png").encode("latin-1")
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
    assert colour_at(page, 1, 1) != [255, 255, 255]
    page.call("Emulation.setEmulatedMedia", features=[])
    assert colour_at(page, 1, 1) == [255, 255, 255]


def test_the_axis_of_the_queue_follows_the_zoom(page: Page) -> None:
    most = "mlsimReport.gantt.draw(), mlsimReport.gantt.box.tracks[1].most"
    page.evaluate("mlsimReport.gantt.reset()")
    whole = page.evaluate(most)
    found = page.evaluate(
        "(({view, whole}) => { view.t1 = whole.t0 + (whole.t1 - whole.t0) / 20; })(mlsimReport.gantt), "
        + most
    )
    assert found < whole / 2
    page.evaluate("mlsimReport.gantt.reset()")


def test_jobs_can_be_coloured_by_user(page: Page, runs: Path) -> None:
    records = mlsim.experiment.stored_runs.read_run(runs / "coordinated").records
    expected = colours_of(records, "user")
    enter(page, "colour", "user", "change")
    assert page.evaluate("[...mlsimReport.run.boxes.colour]") == expected.row[records.occupancy.job].tolist()
    words = page.evaluate("document.getElementById('gantt-legend').textContent")
    assert all(label in words for label, _ in expected.entries)
    enter(page, "colour", "job", "change")


def test_the_page_of_a_loop_begins_with_it_and_its_chunk_sizes_follow_the_zoom(
    browser: Browser, tmp_path: Path
) -> None:
    from mlsim.experiment import choices, load_loop, run_loops

    settings = {"application.iterations.count": 2000}
    loops = [load_loop("scenarios/studies/slowdown/loop.yaml", {**choices(["GSS"], ["cca"])[0], **settings})]
    run_loops(loops, out=tmp_path / "loop")
    report(tmp_path / "loop", "-o", tmp_path / "report.html")
    opened = browser.open(tmp_path / "report.html")
    above = "(a, b) => document.getElementById(a).compareDocumentPosition(document.getElementById(b)) === 4"
    assert opened.evaluate(f"({above})('loop', 'gantt') && ({above})('run-title', 'loop')")
    assert opened.evaluate("document.getElementById('job').hidden") is False
    assert opened.evaluate("document.querySelector('.cards dt').textContent") == "parallel loop time"
    caption = "document.getElementById('sizes-caption').textContent"
    assert "the first has" in opened.evaluate(caption)
    opened.evaluate("mlsimReport.loop.zoom(0.1)")
    opened.wait(f"{caption}.includes('in view of')")
    assert opened.problems() == []
    opened.close()


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_dates_are_on_the_axis_where_the_log_has_them(
    zone: str | None, browser: Browser, tmp_path: Path
) -> None:
    header = ["; UnixStartTime: 1162027800"] + ([f"; TimeZoneString: {zone}"] if zone else [])
    jobs = [f"{k} {k * 36000} -1 86400 1 -1 -1 1 90000 -1 1 1 1 1 1 1 -1 -1" for k in range(1, 9)]
    (tmp_path / "log.swf").write_text("\n".join([*header, *jobs, ""]))
    machine = {"nodes": [{"name": "n", "count": 2, "cores": 1}]}
    mlsim.run({"platform": machine, "workload": {"path": str(tmp_path / "log.swf")}}, out=tmp_path / "run")
    report(tmp_path / "run", "-o", tmp_path / "report.html")
    opened = browser.open(tmp_path / "report.html")
    text = opened.evaluate("mlsimReport.gantt.svg()")
    words = [
        element.text for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert f"date{f' ({zone})' if zone else ''}: 28 Oct 2006 to 2 Nov 2006" in words
    # The clocks of Berlin are set back on the 29th: days have their ticks at midnights before and after.
    places = {
        element.text: float(element.attrib["x"])
        for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    }
    change = (places["30 Oct"] - places["29 Oct"]) / (places["31 Oct"] - places["30 Oct"])
    assert change == pytest.approx(25 / 24 if zone else 1.0, rel=1e-3)
    opened.close()


def test_a_page_is_not_written_over_another(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        report(runs / "alone", "-o", target)
    assert target.read_text() == "mine"


def test_damage_is_told_by_name_and_no_page_is_left(tmp_path: Path) -> None:
    mlsim.run(QUICKSTART, out=tmp_path / "run")
    chunks = tmp_path / "run" / "chunks.parquet"
    chunks.write_bytes(chunks.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"chunks\.parquet"):
        report(tmp_path / "run", "-o", tmp_path / "report.html")
    (tmp_path / "run" / "jobs.parquet").unlink()
    with pytest.raises(InputError, match=r"jobs\.parquet"):
        report(tmp_path / "run", "-o", tmp_path / "report.html")
    with pytest.raises(InputError, match="there is no such directory"):
        report(tmp_path / "nothing", "-o", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_loops_alone_are_reported(tmp_path: Path) -> None:
    from mlsim.experiment import choices, load_loop, run_loops

    loops = [
        load_loop("scenarios/studies/slowdown/loop.yaml", {**pair, "application.iterations.count": 2000})
        for pair in choices(["SS", "GSS"], ["cca"])
    ]
    run_loops(loops, out=tmp_path / "loops")
    report(tmp_path / "loops", "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert '<option value="1">' in text
    summary = json.loads((tmp_path / "loops" / "summary.json").read_text())
    assert summary["loops"][0]["technique"] in text


@pytest.mark.slow
def test_runs_of_a_study_are_named_by_what_they_differ_in(tmp_path: Path) -> None:
    lines = ("of: runs", "name: tiny", f"base: {Path(QUICKSTART).resolve()}", "keep: tables",
             "vary: {batch.policy: [FCFS, SPF]}", "metrics: {makespan: makespan}")  # fmt: skip
    (tmp_path / "study.yaml").write_text("\n".join(lines))
    run_study(load_study(tmp_path / "study.yaml"), out=tmp_path / "out")
    report(tmp_path / "out", "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert '<option value="0">policy FCFS</option><option value="1">policy SPF</option>' in text or (
        '<option value="0">policy SPF</option><option value="1">policy FCFS</option>' in text
    )
    assert "Results of the study, one row a run: 2 rows." in text
