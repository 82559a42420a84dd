// ---- chunk sizes over scheduling steps ----
function drawChunkSizes(canvas, step, size, shown) {
  const width = Math.max(canvas.parentElement.clientWidth, 280), height = 200, left = 64, bottom = 160, pen = canvas.getContext("2d");
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0); pen.fillStyle = paperOf(); pen.fillRect(0, 0, width, height);
  let most = 1, first = Infinity, last = 0, many = 0;
  for (let k = 0; k < size.length; k++) if (shown(k)) { many++; most = Math.max(most, size[k]); first = Math.min(first, step[k]); last = Math.max(last, step[k] + 1); }
  if (!many) { first = 0; last = 1; }
  const decades = Math.max(Math.log10(most) * 1.05, 0.35), inner = width - left - 14, logarithm = (value) => bottom - Math.log10(Math.max(value, 1)) / decades * 146;
  pen.font = FONT; pen.fillStyle = look.ink; pen.strokeStyle = look.frame; pen.textBaseline = "middle"; pen.textAlign = "right";
  for (const value of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6, 1e7].filter((v) => v <= most * 1.05 && (decades < 2 || Number.isInteger(Math.log10(v)))))
    { pen.fillText(integer(value), left - 6, logarithm(value)); pen.beginPath(); pen.moveTo(left - 4, logarithm(value)); pen.lineTo(left, logarithm(value)); pen.stroke(); }
  pen.textAlign = "center"; pen.textBaseline = "top";
  const place = (value) => left + (value - first) / (last - first) * inner;
  for (const value of ticks(first, last, 6)) if (Number.isInteger(value)) pen.fillText(integer(value), place(value), bottom + 6);
  pen.fillText("scheduling step", left + inner / 2, bottom + 22);
  pen.save(); pen.translate(12, 88); pen.rotate(-Math.PI / 2); pen.fillText("iterations per chunk", 0, 0); pen.restore();
  pen.beginPath(); pen.moveTo(left, 8); pen.lineTo(left, bottom + 1); pen.lineTo(width - 14, bottom + 1); pen.stroke();
  pen.fillStyle = look === DARK ? "#56B4E9" : "#0072B2";
  const radius = many > 2000 ? 1 : many > 300 ? 1.6 : 2.4;
  for (let k = 0; k < size.length; k++) if (shown(k)) { pen.beginPath(); pen.arc(place(step[k] + 0.5), logarithm(size[k]), radius, 0, 7); pen.fill(); }
  return many;
}

// ---- one run ----
let drawSizes = null;
window.addEventListener("resize", () => { if (drawSizes) requestAnimationFrame(drawSizes); });
let gantt = null, loop = null, run = null;
const STATES = data.states;

async function load(place) {
  const packed = data.runs[place];
  const [jobs, boxes, outages, tracks, loops, chunks, pes] = await Promise.all([
    columns(packed.jobs), columns(packed.boxes), packed.outages ? columns(packed.outages) : null,
    Promise.all(packed.tracks.map(async (track) => ({...track, series: await Promise.all(track.series.map(async (series) => {
      const found = await columns(series.steps);
      return {...series, steps: new Steps(found.time, found.value)};
    }))}))),
    columns(packed.loops), columns(packed.chunks), columns(packed.pes)]);
  const colours = Object.fromEntries(await Promise.all(Object.entries(packed.colours).map(async ([by, {row, entries}]) => [by, {row: await column(row), entries}])));
  const loopOf = new Map();
  for (let k = 0; k < loops.job.length; k++) loopOf.set(loops.job[k], k);
  const found = {...packed, jobs, boxes, outages, tracks, loops, chunks, pes, loopOf, colours};
  colourBy(found, "job");
  return found;
}
// A job has a colour of its own, or that of its user, partition, ...
function colourBy(some, by) {
  const {boxes, jobs, colours} = some, row = colours[by]?.row;
  boxes.colour = Uint8Array.from(boxes.job, row ? (job) => row[job] : (job) => (jobs.id[job] * 8) % data.hues);
}

function wordsOfJob(job) {
  const {jobs, loopOf, loops} = run, k = loopOf.get(job), wait = jobs.wait[job];
  const lines = [`job ${jobs.id[job]}: ${STATES[jobs.state[job]]}${jobs.backfilled[job] ? ", backfilled" : ""}`,
    `${integer(jobs.processors[job])} processors`, `submitted ${duration(jobs.submit[job])}, start ${duration(jobs.start[job])}, end ${duration(jobs.end[job])}`, ...(run.calendar ? [`submitted${dated(run.calendar, jobs.submit[job]).slice(1)}, started${dated(run.calendar, jobs.start[job]).slice(1) || " never"}`] : []),
    `wait ${duration(wait)}, run time ${duration(jobs.end[job] - jobs.start[job])}, bounded slowdown ${number(jobs.slowdown[job])}`];
  if (k !== undefined) lines.push(`loop: ${integer(loops.pes[k])} PEs, imbalance ${number(loops.imbalance[k])} %`);
  return lines;
}

function ganttContent() {
  const {boxes, jobs} = run;
  return {
    begin: run.begin, end: run.end, lanes: run.nodes.count, laneName: (lane) => run.nodes.names ? run.nodes.names[lane] : String(lane),
    laneTitle: "nodes", height: Math.min(Math.max(run.nodes.count * 22, 120), 420), boxes, palette: data.palette, outages: run.outages, calendar: run.calendar,
    tracks: run.tracks.map((track) => ({...track, height: 84,
      write: track.share ? (value) => `${Math.round(value * 100)} %` : number})),
    owner: (row) => boxes.job[row], text: (row) => String(jobs.id[boxes.job[row]]),
    words: (row) => [...wordsOfJob(boxes.job[row]), ...(boxes.released[row] ? ["this part was given back early"] : [])].join("\n"),
    pick: (row) => select(boxes.job[row]), leave: () => select(-1),
  };
}

function select(job, move = false) {
  gantt.selected = job;
  if (move && job >= 0) { const row = run.boxes.job.indexOf(job); if (row >= 0) { gantt.cursor = row; gantt.show(row); } }
  gantt.later();
  byId("job").hidden = job < 0;
  closeLoop();
  if (job < 0) return;
  byId("job-title").textContent = data.loops ? "Loop" : `Job ${run.jobs.id[job]}`;
  byId("job-facts").textContent = data.loops ? "" : wordsOfJob(job).join("; ");
  byId("said").textContent = wordsOfJob(job).join("; ");
  showLoop(job);
  for (const row of document.querySelectorAll("#jobs tbody tr")) row.classList.toggle("selected", row.dataset.job === String(job));
}

function closeLoop() { if (loop) loop.close(); loop = null; drawSizes = null; }

function showLoop(job) {
  const k = run.loopOf.get(job), {loops, chunks, pes} = run, note = byId("loop-note"), pictures = byId("loop-pictures");
  pictures.hidden = true; note.textContent = "";
  if (k === undefined) { note.textContent = "This job executed no loop: its run time is fixed."; return; }
  const facts = [["parallel loop time", duration(loops.t_loop[k])], ["PEs", integer(loops.pes[k])], ["iterations", integer(loops.iterations[k])], ["chunks", integer(loops.steps[k])],
    ["imbalance", `${number(loops.imbalance[k])} %`], ["c.o.v. of finish times", number(loops.cov[k])], ["busy", share(loops.busy[k], k)], ["overhead", share(loops.overhead[k], k)], ["idle", share(loops.idle[k], k)]];
  const list = element("dl", {class: "facts"});
  for (const [name, value] of facts) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  note.replaceChildren(list);
  if (loops.first[k] < 0) { note.append(element("p", {}, run.unread)); return; }
  pictures.hidden = false;
  const from = loops.first[k], to = from + loops.count[k], part = (name) => chunks[name].subarray(from, to), size = part("size"), offset = run.jobs.start[job];
  let least = Infinity, most = 1;
  for (const value of size) { least = Math.min(least, value); most = Math.max(most, value); }
  const scale = Math.log(most / least) || 1, pe = part("pe");
  const boxes = {start: part("start"), end: part("end"), top: Float32Array.from(pe), bottom: Float32Array.from(pe, (value) => value + 1),
    colour: Uint8Array.from(size, (value) => Math.round(Math.log(value / least) / scale * (data.scale.length - 1)))};
  const finish = pes.finish.subarray(loops.first_pe[k], loops.first_pe[k] + loops.pes[k]);
  let mean = 0;
  for (const value of finish) mean += value / finish.length;
  const step = part("step"), first = part("first");
  loop = new Timeline(byId("loop"), {
    begin: 0, end: Math.max(run.jobs.end[job] - offset, 1e-9), lanes: loops.pes[k], laneName: (lane) => `PE ${lane}`, laneTitle: "PEs", margin: 76,
    height: Math.min(Math.max(loops.pes[k] * 14, 90), 360), boxes, palette: scaleOf(), scaled: true, owner: (row) => row, drawn: () => { if (drawSizes) drawSizes(); },
    lines: finish.length ? [{at: mean, colour: "#D55E00"}] : [],
    words: (row) => `PE ${pe[row]}, step ${step[row]}\n${integer(size[row])} iterations from ${integer(first[row])} on\n${duration(boxes.start[row])} to ${duration(boxes.end[row])} after the job's start`,
  });
  byId("loop").setAttribute("aria-label", `Chunks of job ${run.jobs.id[job]} on ${loops.pes[k]} PEs over time`);
  const sized = () => {
    const {t0, t1, y0, y1} = loop.view, shown = (k) => boxes.end[k] >= t0 && boxes.start[k] <= t1 && pe[k] + 1 > y0 && pe[k] < y1;
    const many = drawChunkSizes(byId("sizes"), step, size, shown);
    byId("loop-caption").textContent = `PEs over time since the job's start: ${integer(to - from)} chunks of ${least === most ? iterations(least) : `${integer(least)} to ${iterations(most)}`}, the ${look === DARK ? "lighter" : "darker"} the larger` +
      (finish.length ? `; the dashed line is the mean finish time of the PEs, ${duration(mean)}; the last PE finished after ${duration(Math.max(...finish))}, so the imbalance is ${number(loops.imbalance[k])} %.` : ".");
    byId("sizes-caption").textContent = `Chunk sizes over scheduling steps (logarithmic): ` + (many < size.length ? `the ${integer(many)} chunks in view of ${integer(size.length)}.` :
      `the first has ${integer(size[0])}, the last ${iterations(size[size.length - 1])}.`);
  };
  drawSizes = sized;
  drawSizes();
}
const share = (value, k) => { const {busy, overhead, idle} = run.loops, all = busy[k] + overhead[k] + idle[k]; return all > 0 ? `${number(value / all * 100)} %` : "–"; };

// ---- the table of jobs: sorted by index, a page of rows at a time ----
const table = {order: null, key: "id", down: false, page: 0, rows: 25, filter: ""};
const COLUMNS = [
  ["id", "job", (jobs, k) => jobs.id[k], String], ["submit", "submitted", (jobs, k) => jobs.submit[k], duration],
  ["wait", "wait", (jobs, k) => jobs.wait[k], duration], ["start", "start", (jobs, k) => jobs.start[k], duration],
  ["run", "run time", (jobs, k) => jobs.end[k] - jobs.start[k], duration], ["walltime", "walltime", (jobs, k) => jobs.walltime[k], duration],
  ["processors", "processors", (jobs, k) => jobs.processors[k], integer], ["slowdown", "bounded slowdown", (jobs, k) => jobs.slowdown[k], number],
  ["state", "state", (jobs, k) => jobs.state[k], (value) => STATES[value]], ["backfilled", "backfilled", (jobs, k) => jobs.backfilled[k], (value) => value ? "yes" : ""],
  ["user", "user", (jobs, k) => jobs.user[k], (value) => value < 0 ? "" : String(value)],
  ["imbalance", "loop imbalance", (jobs, k) => { const l = run.loopOf.get(k); return l === undefined ? NaN : run.loops.imbalance[l]; }, (value) => Number.isFinite(value) ? `${number(value)} %` : ""],
];
function wanted(job) {
  if (!table.filter) return true;
  const {jobs} = run;
  return table.filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
    const found = word.match(/^(user|job|processors)([=<>])(\d+)$/);
    if (found) {
      const value = {user: jobs.user, job: jobs.id, processors: jobs.processors}[found[1]][job], limit = Number(found[3]);
      return found[2] === "=" ? value === limit : found[2] === "<" ? value < limit : value > limit;
    }
    if (word === "backfilled") return Boolean(jobs.backfilled[job]);
    return String(jobs.id[job]).startsWith(word) || STATES[jobs.state[job]].startsWith(word);
  });
}
function sortJobs() {
  const read = COLUMNS.find((each) => each[0] === table.key)[2], n = run.jobs.id.length, values = new Float64Array(n), sign = table.down ? -1 : 1;
  for (let k = 0; k < n; k++) values[k] = read(run.jobs, k);
  const rows = [];
  for (let k = 0; k < n; k++) if (wanted(k)) rows.push(k);
  // What has no value comes last, either way.
  rows.sort((a, b) => { const x = values[a], y = values[b]; return Number.isNaN(x) ? (Number.isNaN(y) ? a - b : 1) : Number.isNaN(y) ? -1 : sign * (x - y) || a - b; });
  table.order = rows; table.page = 0;
  drawTable();
}
function drawTable() {
  const shown = COLUMNS.filter((each) => each[0] !== "imbalance" || run.loops.job.length), pages = Math.max(Math.ceil(table.order.length / table.rows), 1);
  const head = element("tr");
  for (const [key, title] of shown) {
    const button = element("button", {type: "button"}, title, table.key === key ? (table.down ? " ▼" : " ▲") : "");
    button.addEventListener("click", () => { table.down = table.key === key ? !table.down : key !== "id"; table.key = key; sortJobs(); byId("jobs").querySelectorAll("th button")[shown.findIndex((each) => each[0] === key)].focus(); });
    head.append(element("th", {scope: "col", "aria-sort": table.key === key ? (table.down ? "descending" : "ascending") : "none"}, button));
  }
  const body = element("tbody");
  for (const job of table.order.slice(table.page * table.rows, (table.page + 1) * table.rows)) {
    const row = element("tr", {"data-job": job});
    for (const [key, , read, write] of shown) {
      const words = write(read(run.jobs, job));
      if (key !== "id") { row.append(element("td", {}, words)); continue; }
      const button = element("button", {type: "button", title: "show in the Gantt chart"}, words);
      row.append(element("td", {}, button));
    }
    row.addEventListener("click", () => { select(job, true); });
    row.classList.toggle("selected", gantt.selected === job);
    body.append(row);
  }
  byId("jobs").replaceChildren(element("caption", {}, element("span", {}, "Jobs of the run; times count from the scenario's start")), element("thead", {}, head), body);
  byId("page").textContent = `${integer(table.order.length)} ${table.order.length === 1 ? "job" : "jobs"}, page ${table.page + 1} of ${integer(pages)}`;
  byId("before").disabled = table.page === 0; byId("next").disabled = table.page >= pages - 1;
}

async function show(place) {
  document.documentElement.dataset.state = "loading";
  run = await load(place);
  if (gantt) gantt.close();
  closeLoop();
  byId("job").hidden = true;
  gantt = new Timeline(byId("gantt"), ganttContent());
  byId("gantt").dataset.boxes = run.boxes.start.length;
  byId("gantt").setAttribute("aria-label", run.alternative);
  byId("gantt-caption").textContent = run.alternative;
  byId("colour").replaceChildren(...["job", ...Object.keys(run.colours)].map((by) => element("option", {value: by}, by)));
  byId("colours").hidden = !Object.keys(run.colours).length;
  explain();
  for (const part of document.querySelectorAll("[data-run]")) part.hidden = Number(part.dataset.run) !== place;
  sortJobs();
  if (data.loops) select(0);
  document.documentElement.dataset.state = "ready";
}

// The legend of the Gantt chart.
function explain() {
  const swatch = (fill, words) => {
    const tile = element("canvas", {width: 24, height: 14, "aria-hidden": "true"}), pen = tile.getContext("2d");
    pen.fillStyle = paperOf(); pen.fillRect(0, 0, 24, 14); pen.fillStyle = fill(pen); pen.fillRect(0, 0, 24, 14);
    return element("span", {}, tile, ` ${words}`);
  };
  const entries = run.colours[byId("colour").value]?.entries || [], kinds = run.outages ? [...new Set(run.outages.kind)] : [];
  byId("gantt-legend").replaceChildren(...entries.map(([words, row]) => swatch(() => `rgb(${data.palette[row].join(",")})`, words)),
    ...kinds.map((kind) => swatch((pen) => hatch(pen, kind), OUTAGES[kind])),
    ...(run.boxes.released.some(Boolean) ? [element("span", {}, "◀ node released early")] : []));
}
function changeLook(other) { wear(other, [gantt, loop]); if (run) explain(); }

function sortableTables() {
  for (const each of document.querySelectorAll("table.sortable")) {
    const heads = [...each.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      const button = element("button", {type: "button"}, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending", value = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
        heads.forEach((other) => other.setAttribute("aria-sort", "none")); head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...each.tBodies[0].rows].sort((a, b) => {
          const x = value(a), y = value(b), difference = x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : String(x).localeCompare(String(y));
          return down ? -difference : difference;
        });
        each.tBodies[0].append(...rows);
      });
    });
  }
}

function begin() {
  sortableTables();
  document.querySelectorAll("figure svg").forEach((picture, k) => {
    const button = element("button", {type: "button", class: "save"}, "Save SVG");
    button.addEventListener("click", () => saveFile(`picture-${k + 1}.svg`, new Blob([new XMLSerializer().serializeToString(picture)], {type: "image/svg+xml"})));
    picture.after(button);
  });
  dark.addEventListener("change", () => changeLook(dark.matches ? DARK : LIGHT));
  window.addEventListener("beforeprint", () => changeLook(LIGHT)); window.addEventListener("afterprint", () => changeLook(dark.matches ? DARK : LIGHT));
  if (!data.runs.length) { byId("runs").hidden = true; document.documentElement.dataset.state = "ready"; return; }
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: it needs DecompressionStream (since Chromium 80, Firefox 113, Safari 16.4)");
  const choice = byId("run");
  choice.addEventListener("change", () => show(Number(choice.value)).catch(tell));
  for (const [id, act] of Object.entries({"zoom-in": () => gantt.zoom(0.67), "zoom-out": () => gantt.zoom(1.5), "lanes-in": () => gantt.zoom(0.67, 0.5, true), "lanes-out": () => gantt.zoom(1.5, 0.5, true), whole: () => gantt.reset(),
    "job-close": () => { select(-1); byId("gantt").focus(); }, before: () => { table.page--; drawTable(); }, next: () => { table.page++; drawTable(); }}))
    byId(id).addEventListener("click", act);
  const named = () => `${run.label}-`;
  for (const kind of ["png", "svg"]) {
    byId(`gantt-${kind}`).addEventListener("click", () => saveView(gantt, `${named()}nodes`, kind));
    byId(`loop-${kind}`).addEventListener("click", () => saveView(loop, `${named()}loop-of-job-${run.jobs.id[gantt.selected]}`, kind));
  }
  byId("loop-whole").addEventListener("click", () => { if (loop) loop.reset(); });
  byId("colour").addEventListener("change", () => { colourBy(run, byId("colour").value); explain(); gantt.later(); });
  if (data.loops) { byId("nodes").before(byId("job")); byId("job-close").hidden = true; }  // the page is about the loop
  byId("filter").addEventListener("input", () => { table.filter = byId("filter").value; sortJobs(); });
  return show(0);
}
function tell(error) {
  document.documentElement.dataset.state = "failed";
  byId("failure").hidden = false; byId("failure").textContent = `The interactive part cannot be shown: ${error.message}`;
  console.error(error);
}
window.mlsimReport = {get gantt() { return gantt; }, get loop() { return loop; }, get run() { return run; }, select};
(async () => { await begin(); })().catch(tell);
