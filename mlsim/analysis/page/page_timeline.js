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

