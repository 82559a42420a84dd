"use strict";
// The page's own code: nothing is asked of a network. Rectangles over time are painted pixel by pixel, as
// gantt.png is: a pixel has the colour of what covers most of it, fainter the less of it is covered. That
// keeps a frame at some 10 ms with 10^5 rectangles, at any zoom.
(() => {
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const ratio = Math.min(window.devicePixelRatio || 1, 2);
const INK = "#222222", OUTAGES = ["failed", "drained", "drained, announced"];
const LIGHT = {ink: INK, paper: [255, 255, 255], frame: "#888888", divide: "#999999", chosen: "#000000", failed: "#D55E00"};
const DARK = {ink: "#e4e6e8", paper: [21, 24, 28], frame: "#8a9199", divide: "#6b727a", chosen: "#ffffff", failed: "#ff9d5c"};
const dark = window.matchMedia("screen and (prefers-color-scheme: dark)");
let look = dark.matches ? DARK : LIGHT;
const paperOf = () => `rgb(${look.paper.join(",")})`, inkOf = (colour) => colour === INK ? look.ink : colour;

// ---- columns: Base64 of deflated bytes, the n-th bytes of all values together ----
const TYPES = {f8: Float64Array, f4: Float32Array, i4: Int32Array, u1: Uint8Array};
async function column(packed) {
  const text = atob(packed.data), deflated = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) deflated[k] = text.charCodeAt(k);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const kind = TYPES[packed.type], size = kind.BYTES_PER_ELEMENT, bytes = new Uint8Array(packed.n * size);
  for (let plane = 0, at = 0; plane < size; plane++)
    for (let k = plane; k < bytes.length; k += size) bytes[k] = planes[at++];
  return new kind(bytes.buffer);
}
async function columns(packed) {
  const names = Object.keys(packed), found = await Promise.all(names.map((name) => column(packed[name])));
  return Object.fromEntries(names.map((name, k) => [name, found[k]]));
}

// ---- words ----
const UNITS = [[1e-3, "µs", 1e-6], [1, "ms", 1e-3], [180, "s", 1], [10800, "min", 60], [259200, "h", 3600],
               [Infinity, "d", 86400]];
const unitFor = (span) => UNITS.find((unit) => span < unit[0]);
const number = (value) => !Number.isFinite(value) ? "–" : value === 0 ? "0" :
  Math.abs(value) >= 100 && Math.abs(value) < 1e6 ? Math.round(value).toLocaleString("en-US") :
  String(Number(value.toPrecision(3)));
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  const sign = seconds < 0 ? "-" : "", unit = unitFor(Math.abs(seconds));
  return `${sign}${number(Math.abs(seconds) / unit[2])} ${unit[1]}`;
}
const integer = (value) => value.toLocaleString("en-US");
function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(wanted, 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) * power, found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step)
    found.push(Math.abs(value) < step * 1e-9 ? 0 : Number(value.toPrecision(12)));
  return found;
}
// Ticks of a view, as [time, words], and the title of the axis.
function times(view, wanted) {
  const unit = unitFor(view.t1 - view.t0), found = ticks(view.t0 / unit[2], view.t1 / unit[2], wanted);
  const far = found.length > 1 && Math.abs(found[0]) >= 1e5 * (found[1] - found[0]), zero = far ? found[0] : 0;  // too many digits
  const words = (value) => `${far && value > zero ? "+" : ""}${Number((value - zero).toPrecision(12)).toLocaleString("en-US", {maximumFractionDigits: 9})}`;
  const since = far ? ` from ${zero.toLocaleString("en-US", {maximumFractionDigits: 9})} ${unit[1]} on` : "";
  return {marks: found.map((value) => [value * unit[2], words(value)]), title: `time (${unit[1]})${since}`};
}
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
function clockOf(calendar) {
  const east = (time) => calendar.shifts.reduce((found, [from, ahead]) => time >= from ? ahead : found, calendar.shifts[0][1]);
  const local = (time) => new Date((calendar.zero + time + east(time)) * 1000);  // its UTC fields are the local time
  return {local, time: (moment) => { const seconds = moment / 1000 - calendar.zero, near = seconds - east(seconds); return seconds - east(near); }};
}
const dayOf = (date) => `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`, fullDay = (date) => `${dayOf(date)} ${date.getUTCFullYear()}`;
const clockTime = (date, end) => date.toISOString().slice(11, end);
const dated = (calendar, time) => { if (!calendar || !Number.isFinite(time)) return ""; const date = clockOf(calendar).local(time); return `, ${fullDay(date)} ${clockTime(date, 16)}`; };
function dates(view, wanted, calendar) {
  const {local, time} = clockOf(calendar), span = view.t1 - view.t0, first = local(view.t0), last = local(view.t1), marks = [];
  if (span < wanted) return null;  // parts of seconds
  const step = STEPS.find((each) => span / each <= wanted);
  if (step) {
    const shift = step >= 7 * DAY ? 4 * DAY : 0;  // weeks begin on Mondays
    for (let at = Math.ceil((first / 1000 - shift) / step) * step + shift; at <= last / 1000; at += step) {
      const date = new Date(at * 1000);
      marks.push([time(at * 1000), step >= DAY || at % DAY === 0 ? dayOf(date) : clockTime(date, step < 60 ? 19 : 16)]);
    }
  } else {
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((each) => span / (30.4 * DAY * each) <= wanted) || 600;
    for (let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months; ; month += months) {
      const date = new Date(0); date.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
      if (date > last) break;
      marks.push([time(date.getTime()), months % 12 ? `${MONTHS[month % 12]} ${date.getUTCFullYear()}` : String(date.getUTCFullYear())]);
    }
  }
  const from = fullDay(first), to = fullDay(last);
  return {marks, title: `${calendar.title}: ${from === to ? from : `${from} to ${to}`}`};
}
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// ---- step functions: exact averages over any span, by an integral ----
class Steps {
  constructor(time, value) {
    this.time = time; this.value = value; this.sum = new Float64Array(time.length);
    for (let k = 1; k < time.length; k++) this.sum[k] = this.sum[k - 1] + value[k - 1] * (time[k] - time[k - 1]);
  }
  place(at) {
    let low = 0, high = this.time.length;
    while (low < high) { const middle = (low + high) >> 1; if (this.time[middle] <= at) low = middle + 1; else high = middle; }
    return low - 1;
  }
  at(when) { const k = this.place(when); return k < 0 ? 0 : this.value[k]; }
  integral(when) { const k = this.place(when); return k < 0 ? 0 : this.sum[k] + this.value[k] * (when - this.time[k]); }
  mean(from, to) { return to > from ? (this.integral(to) - this.integral(from)) / (to - from) : this.at(from); }
}

// ---- rectangles painted into pixels ----
const mixed = (hue, share) => look.paper.map((part, k) => part - share * (part - hue[k]));
const FAINTEST = 0.25, GAP = 0.5, SEPARATED = 4;
class Raster {
  paint(width, height, boxes, palette, view) {
    const paper = look.paper, empty = (0xff000000 | paper[2] << 16 | paper[1] << 8 | paper[0]) >>> 0;
    const n = width * height;
    if (!this.covered || this.covered.length < n) {
      this.covered = new Float32Array(n); this.most = new Float32Array(n); this.winner = new Uint8Array(n);
    } else { this.covered.fill(0, 0, n); this.most.fill(0, 0, n); }
    const {covered, most, winner} = this, {start, end, top, bottom, weight, colour} = boxes;
    const across = width / (view.t1 - view.t0), down = height / (view.y1 - view.y0);
    let seen = 0;
    for (let row = 0; row < start.length; row++) {
      if (end[row] < view.t0 || start[row] > view.t1 || bottom[row] <= view.y0 || top[row] >= view.y1) continue;
      seen++;
      let x0 = Math.max((start[row] - view.t0) * across, 0), x1 = Math.min((end[row] - view.t0) * across, width);
      let y0 = Math.max((top[row] - view.y0) * down, 0), y1 = Math.min((bottom[row] - view.y0) * down, height);
      if (x1 - x0 >= SEPARATED && y1 - y0 >= SEPARATED) { x1 -= GAP; y1 -= GAP; }
      const fill = weight ? weight[row] : 1, hue = colour[row];
      const lastX = Math.min(Math.ceil(x1), width), lastY = Math.min(Math.ceil(y1), height);
      const firstX = x0 | 0, firstY = y0 | 0;
      if (lastX - firstX <= 3) {  // most of very many: column by column, whole rows between the edges
        for (let x = firstX; x < lastX; x++) {
          const across = fill * (Math.min(x + 1, x1) - Math.max(x, x0));
          for (let y = firstY, at = firstY * width + x; y < lastY; y++, at += width) {
            const share = y > firstY && y < lastY - 1 ? across : across * (Math.min(y + 1, y1) - Math.max(y, y0));
            covered[at] += share;
            if (share > most[at]) { most[at] = share; winner[at] = hue; }
          }
        }
        continue;
      }
      for (let y = firstY; y < lastY; y++) {
        const part = fill * (Math.min(y + 1, y1) - Math.max(y, y0));
        for (let x = firstX, at = y * width + x; x < lastX; x++, at++) {
          const share = x > firstX && x < lastX - 1 ? part : part * (Math.min(x + 1, x1) - Math.max(x, x0));
          covered[at] += share;
          if (share > most[at]) { most[at] = share; winner[at] = hue; }
        }
      }
    }
    const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    for (let at = 0; at < n; at++) {
      const c = covered[at];
      if (c <= 0) { pixels[at] = empty; continue; }
      const s = Math.min(Math.max(c, FAINTEST), 1), hue = palette[winner[at]];
      const r = paper[0] - s * (paper[0] - hue[0]), g = paper[1] - s * (paper[1] - hue[1]), b = paper[2] - s * (paper[2] - hue[2]);
      pixels[at] = 0xff000000 | (b + 0.5) << 16 | (g + 0.5) << 8 | (r + 0.5);
    }
    return [image, seen];
  }
}

function hatch(context, kind) {
  const size = 8 * ratio, tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = kind ? look.ink : look.failed; pen.lineWidth = ratio;
  pen.beginPath();
  if (kind !== 2) for (const shift of [-size, 0, size]) { pen.moveTo(shift, size); pen.lineTo(shift + size, 0); }
  if (kind !== 1) for (const shift of [-size, 0, size]) { pen.moveTo(shift, 0); pen.lineTo(shift + size, size); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// ---- a view as SVG: the calls of a canvas, written down ----
const FONT = "11px system-ui, sans-serif", MOST_VECTORS = 20000;
const rounded = (value) => Math.round(value * 100) / 100;
class SvgPen {
  constructor(width, height) {
    this.parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="11">`];
    Object.assign(this, {path: "", stack: [], open: 0, clips: 0, dash: "", fillStyle: "", strokeStyle: "", lineWidth: 1, globalAlpha: 1, textAlign: "left", textBaseline: "top"});
  }
  add(text) { this.parts.push(text); }
  text() { return [...this.parts, "</svg>"].join("\n"); }
  hatch(kind) {
    const lines = (kind !== 2 ? "M-2 2 2 -2M0 8 8 0M6 10 10 6" : "") + (kind !== 1 ? "M-2 6 2 10M0 0 8 8M6 -2 10 2" : "");
    this.add(`<pattern id="hatch${kind}" width="8" height="8" patternUnits="userSpaceOnUse"><path d="${lines}" stroke="${kind ? look.ink : look.failed}" stroke-width="1"/></pattern>`);
    return `url(#hatch${kind})`;
  }
  save() { const {open, fillStyle, strokeStyle, lineWidth, textAlign, textBaseline} = this; this.stack.push({open, fillStyle, strokeStyle, lineWidth, textAlign, textBaseline}); this.open = 0; }
  restore() { this.add("</g>".repeat(this.open)); Object.assign(this, this.stack.pop()); }
  group(words) { this.add(`<g ${words}>`); this.open++; }
  translate(x, y) { this.group(`transform="translate(${x} ${y})"`); }
  rotate(angle) { this.group(`transform="rotate(${angle * 180 / Math.PI})"`); }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${rounded(x)} ${rounded(y)}`; }
  lineTo(x, y) { this.path += `L${rounded(x)} ${rounded(y)}`; }
  closePath() { this.path += "Z"; }
  rect(x, y, width, height) { this.path += `M${rounded(x)} ${rounded(y)}h${rounded(width)}v${rounded(height)}h${rounded(-width)}Z`; }
  clip() { this.add(`<clipPath id="clip${++this.clips}"><path d="${this.path}"/></clipPath>`); this.group(`clip-path="url(#clip${this.clips})"`); }
  fill() { this.add(`<path d="${this.path}" fill="${this.fillStyle}"${this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : ""}/>`); }
  stroke() { this.add(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.dash ? ` stroke-dasharray="${this.dash}"` : ""}/>`); }
  fillRect(...box) { this.beginPath(); this.rect(...box); this.fill(); }
  strokeRect(...box) { this.beginPath(); this.rect(...box); this.stroke(); }
  setLineDash(dash) { this.dash = dash.join(" "); }
  fillText(words, x, y) {
    const anchor = {left: "start", center: "middle", right: "end"}[this.textAlign], down = {top: 9, middle: 4}[this.textBaseline];
    this.add(`<text x="${rounded(x)}" y="${rounded(y + down)}" text-anchor="${anchor}" fill="${this.fillStyle}">${String(words).replace(/[&<>]/g, (sign) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;"})[sign])}</text>`);
  }
}
function saveFile(name, blob) {
  const link = element("a", {href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-")});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
// What is saved or printed is light, whatever the page is.
function inLight(timelines, act) {
  const before = look;
  wear(LIGHT, timelines);
  try { return act(); } finally { wear(before, timelines); }
}
function wear(other, timelines) {
  if (look === other) return;
  look = other;
  for (const each of timelines.filter(Boolean)) { if (each.content.scaled) each.content.palette = scaleOf(); each.draw(); }
}
const scaleOf = () => look === DARK ? [...data.scale].reverse() : data.scale;
function saveView(timeline, name, kind) {
  if (!timeline) return;
  if (kind === "svg") saveFile(`${name}.svg`, new Blob([inLight([timeline], () => timeline.svg())], {type: "image/svg+xml"}));
  else inLight([timeline], () => {
    const copy = document.createElement("canvas");  // as the chart is dark again before the file is made
    copy.width = timeline.canvas.width; copy.height = timeline.canvas.height;
    copy.getContext("2d").drawImage(timeline.canvas, 0, 0);
    copy.toBlob((blob) => saveFile(`${name}.png`, blob));
  });
}

// ---- lanes over time, with tracks of step functions below; all on one time axis ----
class Timeline {
  constructor(canvas, content) {
    this.canvas = canvas; this.context = canvas.getContext("2d"); this.raster = new Raster();
    this.content = content; this.whole = {t0: content.begin, t1: content.end, y0: 0, y1: content.lanes};
    this.view = {...this.whole}; this.selected = -1; this.cursor = -1; this.shown = 0; this.frame = 0; this.milliseconds = 0;
    this.listeners = new AbortController();
    this.listen();
    this.draw();
  }
  close() { this.listeners.abort(); }
  layout() {
    const width = Math.max(this.canvas.parentElement.clientWidth, 280), left = width < 600 ? 58 : this.content.margin || 92, right = 12;
    const inner = width - left - right, lanes = this.content.height, tracks = [];
    let at = 8 + lanes;
    this.context.font = FONT;
    for (const track of this.content.tracks || []) {  // titles and legends take as many lines as they need
      const wide = (words) => this.context.measureText(words).width, places = [];
      let x = wide(track.title) + 14, line = 0;
      for (const series of track.series) {
        const room = wide(series.label) + 29;
        if (x > 0 && x + room - 14 > inner) { x = 0; line++; }
        places.push({series, x, line}); x += room;
      }
      const top = at + 26 + 14 * line;
      tracks.push({track, top, lines: line + 1, places, series: track.series, most: track.most || 1});
      at = top + track.height;
    }
    return {width, height: at + 40, left, right, top: 8, lanes, inner, tracks};
  }
  later() { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }
  draw() {
    const began = performance.now(), box = this.box = this.layout(), {canvas, context: pen, view, content} = this;
    canvas.width = Math.round(box.width * ratio); canvas.height = Math.round(box.height * ratio);
    canvas.style.width = `${box.width}px`; canvas.style.height = `${box.height}px`;
    pen.fillStyle = paperOf(); pen.fillRect(0, 0, canvas.width, canvas.height);
    this.hatches = [0, 1, 2].map((kind) => hatch(pen, kind));
    const width = Math.round(box.inner * ratio), height = Math.round(box.lanes * ratio);
    const [image, seen] = this.raster.paint(width, height, content.boxes, content.palette, view);
    pen.putImageData(image, Math.round(box.left * ratio), Math.round(box.top * ratio));
    this.shown = seen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawParts(pen, box);
    if (content.drawn) content.drawn(view);
    this.milliseconds = performance.now() - began;
    canvas.dataset.shown = seen; canvas.dataset.milliseconds = this.milliseconds.toFixed(1);
  }
  drawParts(pen, box) {
    pen.font = FONT; pen.lineWidth = 1;
    this.drawOver(pen, box); this.drawLaneNames(pen, box); this.drawTracks(pen, box); this.drawTimeAxis(pen, box);
  }
  svg() {
    const {box, view, content} = this, pen = new SvgPen(box.width, box.height), before = this.hatches;
    pen.fillStyle = paperOf(); pen.fillRect(0, 0, box.width, box.height);
    this.clip(pen, box.top, box.lanes);
    if (this.shown <= MOST_VECTORS) this.drawBoxes(pen, content.boxes, view);
    else {  // of more, the pixels
      const tile = document.createElement("canvas"), [image] = this.raster.paint(tile.width = Math.round(box.inner * 2), tile.height = Math.round(box.lanes * 2), content.boxes, content.palette, view);
      tile.getContext("2d").putImageData(image, 0, 0);
      pen.add(`<image x="${box.left}" y="${box.top}" width="${box.inner}" height="${box.lanes}" preserveAspectRatio="none" href=${JSON.stringify(tile.toDataURL())}/>`);
    }
    pen.restore();
    this.hatches = [0, 1, 2].map((kind) => pen.hatch(kind));
    this.drawParts(pen, box);
    this.hatches = before;
    return pen.text();
  }
  drawBoxes(pen, boxes, view) {
    for (let row = 0; row < boxes.start.length; row++) {
      if (boxes.end[row] < view.t0 || boxes.start[row] > view.t1 || boxes.bottom[row] <= view.y0 || boxes.top[row] >= view.y1) continue;
      const x = this.x(boxes.start[row]), y = this.y(boxes.top[row]), width = this.x(boxes.end[row]) - x, height = this.y(boxes.bottom[row]) - y;
      const gap = width >= SEPARATED && height >= SEPARATED ? GAP : 0, share = Math.max(boxes.weight ? boxes.weight[row] : 1, FAINTEST);
      pen.fillStyle = `rgb(${mixed(this.content.palette[boxes.colour[row]], share).map(Math.round).join(",")})`;
      pen.fillRect(x, y, width - gap, height - gap);
    }
  }
  x(time) { return this.box.left + (time - this.view.t0) / (this.view.t1 - this.view.t0) * this.box.inner; }
  y(lane) { return this.box.top + (lane - this.view.y0) / (this.view.y1 - this.view.y0) * this.box.lanes; }
  clip(pen, top, height) { pen.save(); pen.beginPath(); pen.rect(this.box.left, top, this.box.inner, height); pen.clip(); }
  drawOver(pen, box) {
    const {content, view} = this, boxes = content.boxes;
    this.clip(pen, box.top, box.lanes);
    const out = content.outages;
    if (out) {
      const many = out.start.length > 3000;
      for (let k = 0; k < out.start.length; k++) {
        if (out.end[k] < view.t0 || out.start[k] > view.t1 || out.last[k] <= view.y0 || out.first[k] >= view.y1) continue;
        const x0 = Math.max(this.x(out.start[k]), box.left - 1), x1 = Math.min(this.x(out.end[k]), box.left + box.inner + 1);
        pen.globalAlpha = many ? 0.35 : 1;
        pen.fillStyle = !many ? this.hatches[out.kind[k]] : out.kind[k] ? look.ink : look.failed;
        pen.fillRect(x0, this.y(out.first[k]), Math.max(x1 - x0, 1), this.y(out.last[k]) - this.y(out.first[k]));
      }
      pen.globalAlpha = 1;
    }
    if (content.divides && box.lanes / (view.y1 - view.y0) >= 12)
      for (const lane of content.divides) { pen.strokeStyle = look.divide; pen.beginPath(); pen.moveTo(box.left, this.y(lane)); pen.lineTo(box.left + box.inner, this.y(lane)); pen.stroke(); }
    this.drawMarks(pen, box);
    if (this.selected >= 0) {
      pen.strokeStyle = look.chosen; pen.lineWidth = 2; let left = 2000;
      for (let row = 0; row < boxes.start.length && left > 0; row++)
        if (content.owner(row) === this.selected) { left--; this.outline(pen, row); }
      pen.lineWidth = 1;
    }
    if (content.text && this.shown <= 400) this.drawTexts(pen, boxes);
    pen.restore();
    pen.strokeStyle = look.frame; pen.strokeRect(box.left - 0.5, box.top - 0.5, box.inner + 1, box.lanes + 1);
  }
  outline(pen, row) {
    const boxes = this.content.boxes, x = this.x(boxes.start[row]), y = this.y(boxes.top[row]);
    pen.strokeRect(x, y, Math.max(this.x(boxes.end[row]) - x, 2), Math.max(this.y(boxes.bottom[row]) - y, 2));
  }
  drawMarks(pen, box) {
    const {content, view} = this, boxes = content.boxes, seen = new Set();
    if (content.lines) for (const line of content.lines) {
      pen.setLineDash([5, 3]); pen.strokeStyle = line.colour; pen.beginPath();
      pen.moveTo(this.x(line.at), box.top); pen.lineTo(this.x(line.at), box.top + box.lanes); pen.stroke(); pen.setLineDash([]);
    }
    if (!boxes.released) return;
    const size = Math.min(Math.max(box.lanes / (view.y1 - view.y0) * 0.3, 3), 6);
    pen.fillStyle = look.ink; pen.strokeStyle = paperOf();
    for (let row = 0; row < boxes.start.length; row++) {
      if (!boxes.released[row] || boxes.end[row] < view.t0 || boxes.end[row] > view.t1) continue;
      const x = this.x(boxes.end[row]), y = this.y((boxes.top[row] + boxes.bottom[row]) / 2), key = (x / 6 | 0) * 4096 + (y / 6 | 0);
      if (seen.has(key)) continue;
      seen.add(key);
      pen.beginPath(); pen.moveTo(x - size, y); pen.lineTo(x, y - size * 0.7); pen.lineTo(x, y + size * 0.7); pen.closePath(); pen.fill(); pen.stroke();
    }
  }
  drawTexts(pen, boxes) {
    const {content, view} = this;
    pen.textAlign = "center"; pen.textBaseline = "middle";
    for (let row = 0; row < boxes.start.length; row++) {
      if (boxes.end[row] < view.t0 || boxes.start[row] > view.t1 || boxes.bottom[row] <= view.y0 || boxes.top[row] >= view.y1) continue;
      const x0 = this.x(Math.max(boxes.start[row], view.t0)), x1 = this.x(Math.min(boxes.end[row], view.t1));
      const y0 = this.y(Math.max(boxes.top[row], view.y0)), y1 = this.y(Math.min(boxes.bottom[row], view.y1));
      const text = content.text(row);
      if (y1 - y0 < 12 || x1 - x0 < text.length * 6.5 + 6) continue;
      const hue = content.palette[boxes.colour[row]];
      pen.fillStyle = hue[0] * 0.299 + hue[1] * 0.587 + hue[2] * 0.114 > 127 ? INK : "#fff";
      pen.fillText(text, (x0 + x1) / 2, (y0 + y1) / 2);
    }
  }
  drawLaneNames(pen, box) {
    const {view, content} = this, room = box.lanes / (view.y1 - view.y0), letters = Math.floor((box.left - 14) / 6);
    pen.fillStyle = look.ink; pen.textAlign = "right"; pen.textBaseline = "middle";
    const step = Math.max(1, ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 1e5].filter((n, k, all) => k === 0 || all[k - 1] * room < 13));
    for (let lane = Math.ceil((view.y0 - 0.5) / step) * step; lane < view.y1; lane += step) {
      if (lane < 0 || lane >= content.lanes) continue;
      const y = this.y(lane + 0.5);
      if (y < box.top + 2 || y > box.top + box.lanes - 2) continue;
      const name = content.laneName(lane);
      pen.fillText(name.length > letters ? "…" + name.slice(1 - letters) : name, box.left - 6, y);
    }
    pen.save(); pen.translate(10, box.top + box.lanes / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(content.laneTitle, 0, 0); pen.restore();
  }
  drawTracks(pen, box) {
    const {view} = this, across = (view.t1 - view.t0) / box.inner;
    for (const shown of box.tracks) {
      const {track, top, lines, places} = shown, levels = track.series.map((series) => {
        const found = new Float64Array(Math.max(Math.floor(box.inner), 1));
        for (let x = 0; x < found.length; x++) found[x] = series.steps.mean(view.t0 + x * across, view.t0 + (x + 1) * across);
        return found;
      });
      // The axis follows the view, but that of shares.
      if (!track.most) shown.most = Math.max(...levels.map((level) => level.reduce((one, other) => Math.max(one, other), 0)), 1) * 1.05;
      this.clip(pen, top - 1, track.height + 2);
      track.series.forEach((series, k) => this.drawSeries(pen, box, shown, series, levels[k]));
      pen.restore();
      pen.strokeStyle = look.frame; pen.beginPath(); pen.moveTo(box.left - 0.5, top); pen.lineTo(box.left - 0.5, top + track.height + 0.5); pen.lineTo(box.left + box.inner, top + track.height + 0.5); pen.stroke();
      pen.fillStyle = look.ink; pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const value of ticks(0, shown.most, 3)) pen.fillText(track.write(value), box.left - 6, top + track.height * (1 - value / shown.most));
      pen.textAlign = "left";
      const line = (number) => top - 11 - 14 * (lines - 1 - number);
      pen.fillText(track.title, box.left, line(0));
      for (const {series, x, line: number} of places) {
        const y = line(number), from = box.left + x;
        if (series.line) { pen.strokeStyle = inkOf(series.colour); pen.lineWidth = 2; pen.beginPath(); pen.moveTo(from, y); pen.lineTo(from + 11, y); pen.stroke(); pen.lineWidth = 1; }
        else { pen.fillStyle = series.colour; pen.fillRect(from, y - 5, 11, 9); }
        pen.fillStyle = look.ink; pen.fillText(series.label, from + 15, y);
      }
    }
  }
  drawSeries(pen, box, {track, top, most}, series, levels) {
    const bottom = top + track.height, level = (x) => bottom - Math.min(levels[x] / most, 1) * track.height;
    const steps = (from) => { pen.beginPath(); pen.moveTo(box.left, from ?? level(0)); levels.forEach((_, x) => { pen.lineTo(box.left + x, level(x)); pen.lineTo(box.left + x + 1, level(x)); }); if (from !== undefined) pen.lineTo(box.left + levels.length, from); };
    if (!series.line) { pen.fillStyle = series.colour; steps(bottom); pen.fill(); return; }
    if (series.hatched) { steps(top); pen.globalAlpha = 0.6; pen.fillStyle = this.hatches[1]; pen.fill(); pen.globalAlpha = 1; }
    pen.strokeStyle = inkOf(series.colour); pen.lineWidth = 1.4; steps(); pen.stroke(); pen.lineWidth = 1;
  }
  drawTimeAxis(pen, box) {
    const {view, content} = this, base = box.height - 39.5, wanted = Math.max(Math.floor(box.inner / 90), 2);
    const {marks, title} = (content.calendar && dates(view, wanted, content.calendar)) || times(view, wanted);
    pen.fillStyle = look.ink; pen.strokeStyle = look.frame; pen.textAlign = "center"; pen.textBaseline = "top";
    for (const [time, words] of marks) {
      const x = this.x(time);
      if (x < box.left - 1 || x > box.left + box.inner + 1) continue;
      pen.beginPath(); pen.moveTo(x, base); pen.lineTo(x, base + 5); pen.stroke();
      pen.fillText(words, Math.min(x, box.left + box.inner - 8), base + 7);
    }
    pen.fillText(title, box.left + box.inner / 2, base + 22);
  }
  hit(x, y) {
    const {box, view, content} = this;
    if (x < box.left || x > box.left + box.inner || y < box.top || y > box.top + box.lanes) return -1;
    const time = view.t0 + (x - box.left) / box.inner * (view.t1 - view.t0), lane = view.y0 + (y - box.top) / box.lanes * (view.y1 - view.y0);
    const slack = (view.t1 - view.t0) / box.inner, {start, end, top, bottom} = content.boxes;
    let best = -1, least = Infinity;
    for (let row = 0; row < start.length; row++) {
      if (lane < top[row] || lane >= bottom[row] || time < start[row] - slack || time > end[row] + slack) continue;
      const far = Math.max(start[row] - time, time - end[row], 0);
      if (far < least) { least = far; best = row; }
    }
    return best;
  }
  zoom(factor, at = 0.5, lanes = false) {
    const {view, whole} = this, [low, high] = lanes ? ["y0", "y1"] : ["t0", "t1"];
    const least = lanes ? Math.min(1, whole.y1) : (whole.t1 - whole.t0) * 1e-7 || 1e-9;
    const span = Math.min(Math.max((view[high] - view[low]) * factor, least), whole[high] - whole[low]);
    this.move(low, high, view[low] + (view[high] - view[low] - span) * at, span);
  }
  move(low, high, from, span) {
    const {view, whole} = this;
    view[low] = Math.min(Math.max(from, whole[low]), whole[high] - span); view[high] = view[low] + span; this.later();
  }
  pan(share, lanes = false) {
    const {view} = this, [low, high] = lanes ? ["y0", "y1"] : ["t0", "t1"], span = view[high] - view[low];
    this.move(low, high, view[low] + share * span, span);
  }
  reset() { this.view = {...this.whole}; this.later(); }
  show(row) {
    const boxes = this.content.boxes, length = Math.max(boxes.end[row] - boxes.start[row], (this.whole.t1 - this.whole.t0) * 1e-4);
    const span = this.view.t1 - this.view.t0;
    if (length > span || length < span * 0.02) this.move("t0", "t1", boxes.start[row] - length * 2, Math.min(length * 5, this.whole.t1 - this.whole.t0));
    else if (boxes.start[row] < this.view.t0 || boxes.end[row] > this.view.t1) this.move("t0", "t1", boxes.start[row] + length / 2 - span / 2, span);
    const lanes = this.view.y1 - this.view.y0;
    if (boxes.top[row] < this.view.y0 || boxes.bottom[row] > this.view.y1) this.move("y0", "y1", (boxes.top[row] + boxes.bottom[row]) / 2 - lanes / 2, lanes);
    this.later();
  }
  listen() {
    const canvas = this.canvas, signal = this.listeners.signal, tip = byId("tip");
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let held = null, moved = false;
    canvas.addEventListener("wheel", (event) => {
      if (!(event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === canvas)) return;
      event.preventDefault();
      const [x, y] = place(event), turned = event.deltaY || event.deltaX, factor = Math.exp(Math.sign(turned) * Math.min(Math.abs(turned), 120) / 400);
      if (event.shiftKey) this.zoom(factor, Math.min(Math.max((y - this.box.top) / this.box.lanes, 0), 1), true);
      else this.zoom(factor, Math.min(Math.max((x - this.box.left) / this.box.inner, 0), 1));
    }, {signal, passive: false});
    canvas.addEventListener("pointerdown", (event) => { held = {at: place(event), view: {...this.view}}; moved = false; canvas.setPointerCapture(event.pointerId); }, {signal});
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (held) {
        const dx = x - held.at[0], dy = y - held.at[1];
        if (Math.abs(dx) + Math.abs(dy) > 4) moved = true;
        if (moved) {
          const time = held.view.t1 - held.view.t0, lanes = held.view.y1 - held.view.y0;
          this.move("t0", "t1", held.view.t0 - dx / this.box.inner * time, time);
          this.move("y0", "y1", held.view.y0 - dy / this.box.lanes * lanes, lanes);
        }
      }
      const words = moved && held ? "" : this.wordsAt(x, y);
      tip.hidden = !words; tip.textContent = words;
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 270)}px`; tip.style.top = `${event.clientY + 14}px`;
    }, {signal});
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = place(event);
      if (held && !moved) { const row = this.hit(x, y); if (row >= 0 && this.content.pick) this.content.pick(row); }
      held = null;
    }, {signal});
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; }, {signal});
    canvas.addEventListener("dblclick", (event) => { const [x] = place(event); this.zoom(0.5, (x - this.box.left) / this.box.inner); }, {signal});
    canvas.addEventListener("keydown", (event) => { if (!event.ctrlKey && !event.metaKey && !event.altKey && this.key(event)) event.preventDefault(); }, {signal});
    window.addEventListener("resize", () => this.later(), {signal});
  }
  wordsAt(x, y) {
    const row = this.hit(x, y);
    if (row >= 0) return this.content.words(row);
    if (x < this.box.left || x > this.box.left + this.box.inner || y <= this.box.top + this.box.lanes) return "";
    const across = (this.view.t1 - this.view.t0) / this.box.inner, time = this.view.t0 + (x - this.box.left) * across;
    for (const {track, top} of this.box.tracks)
      if (y >= top && y <= top + track.height)
        return [`at ${duration(time)}${dated(this.content.calendar, time)}`, ...track.series.map((series) => `${series.label}: ${track.write(series.steps.mean(time, time + across))}`)].join("\n");
    return "";
  }
  key(event) {
    const done = {
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
      ArrowUp: () => event.shiftKey ? this.zoom(0.75, 0.5, true) : this.pan(-0.15, true),
      ArrowDown: () => event.shiftKey ? this.zoom(1 / 0.75, 0.5, true) : this.pan(0.15, true),
      "+": () => this.zoom(0.67), "=": () => this.zoom(0.67), "-": () => this.zoom(1.5), Home: () => this.reset(), 0: () => this.reset(),
      n: () => this.step(1), p: () => this.step(-1),
      Enter: () => { if (this.cursor >= 0 && this.content.pick) this.content.pick(this.cursor); },
      Escape: () => { if (this.content.leave) this.content.leave(); },
    }[event.key];
    if (done) done();
    return Boolean(done);
  }
  step(by) {
    const n = this.content.boxes.start.length;
    if (!n) return;
    const before = this.cursor;
    let next = this.cursor < 0 ? (by > 0 ? 0 : n - 1) : (this.cursor + by + n) % n;
    if (before >= 0) while (next !== before && this.content.owner(next) === this.content.owner(before)) next = (next + by + n) % n;
    this.cursor = next; this.selected = this.content.owner(next); this.show(next);
    byId("said").textContent = this.content.words(next).replaceAll("\n", "; ");
  }
}

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
    byId("loop-caption").textContent = `PEs over time since the job's start: ${integer(to - from)} chunks of ${integer(least)} to ${integer(most)} iterations, the ${look === DARK ? "lighter" : "darker"} the larger` +
      (finish.length ? `; the dashed line is the mean finish time of the PEs, ${duration(mean)}; the last PE finished after ${duration(Math.max(...finish))}, so the imbalance is ${number(loops.imbalance[k])} %.` : ".");
    byId("sizes-caption").textContent = `Chunk sizes over scheduling steps (logarithmic): ` + (many < size.length ? `the ${integer(many)} chunks in view of ${integer(size.length)}.` :
      `the first has ${integer(size[0])}, the last ${integer(size[size.length - 1])} iterations.`);
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
  byId("page").textContent = `${integer(table.order.length)} jobs, page ${table.page + 1} of ${integer(pages)}`;
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
})();
