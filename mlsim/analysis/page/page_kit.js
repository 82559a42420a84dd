// The page's own code: nothing is asked of a network. Rectangles over time are painted pixel by pixel, as
// gantt.png is: a pixel has the colour of what covers most of it, fainter the less of it is covered. That
// keeps a frame at some 10 ms with 10^5 rectangles, at any zoom.
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
const iterations = (count) => `${integer(count)} ${count === 1 ? "iteration" : "iterations"}`;
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

