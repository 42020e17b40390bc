"use strict";
// Draws the figures and explains the selected query. Text is only ever set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const INK = "#1c2733", SOFT = "#9aa4b1", ACCENT = "#1f5fa8", SECOND = "#b8500f";
  const byId = (id) => document.getElementById(id);
  const tip = byId("tip");
  const NARROW = matchMedia("(max-width: 820px)").matches; // letters are larger there: figures are scaled

  const format = (x, digits = 4) => {
    if (x === null) return "–"; // a gap
    if (typeof x === "string") return x; // a level or a date
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e6 || size < 1e-4) return x.toExponential(digits - 2).replaceAll("-", "−");
    return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 10 }).replace("-", "−");
  };
  const percent = (x) => `${(100 * x).toFixed(1)} %`;

  const element = (name, attributes = {}, text) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const draw = (parent, name, attributes = {}, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const hint = (shape, text) => {
    const move = (event) => {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
    };
    shape.addEventListener("pointermove", move);
    shape.addEventListener("pointerleave", () => { tip.hidden = true; });
    return shape;
  };

  // ------------------------------------------------------------------------------------ axes

  const ticks = (low, high, count = 5) => {
    const raw = (high - low) / count || 1;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * unit).find((s) => s >= raw);
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push(Math.abs(t) < 1e-9 * step ? 0 : t);
    return found;
  };
  const extent = (values, margin = 0.04) => {
    let low = Infinity, high = -Infinity;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    const pad = (high - low) * margin || Math.abs(high) * 0.1 || 1;
    return [low - pad, high + pad];
  };
  // Limits that a few outliers do not stretch.
  const robust = (values) => {
    const sorted = [...values].sort((a, b) => a - b), at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const [low, high] = [at(0.01), at(0.99)], reach = 0.5 * (high - low);
    return extent([Math.max(sorted[0], low - reach), Math.min(sorted[sorted.length - 1], high + reach)]);
  };
  // A frame with linear scales; x and y map data to the viewBox.
  const frame = (id, { xs, ys, height = 340, left = NARROW ? 70 : 58, xlabel = "", ylabel = "", labels = null }) => {
    const svg = byId(id), width = 520, bottom = height - 42, right = width - 10, top = 10;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const x = (v) => left + ((v - xs[0]) / (xs[1] - xs[0])) * (right - left);
    const y = (v) => bottom - ((v - ys[0]) / (ys[1] - ys[0])) * (bottom - top);
    for (const [t, text] of labels ?? ticks(...xs).map((t) => [t, format(t)])) {
      draw(svg, "line", { class: "grid", x1: x(t), x2: x(t), y1: top, y2: bottom });
      draw(svg, "text", { x: x(t), y: bottom + 17, "text-anchor": "middle" }, text);
    }
    for (const t of ticks(...ys)) {
      draw(svg, "line", { class: "grid", x1: left, x2: right, y1: y(t), y2: y(t) });
      draw(svg, "text", { x: left - 7, y: y(t) + 4, "text-anchor": "end" }, format(t));
    }
    draw(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
    draw(svg, "line", { class: "axis", x1: left, x2: left, y1: top, y2: bottom });
    draw(svg, "text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, xlabel);
    draw(svg, "text", { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, ylabel);
    return { svg, x, y, left };
  };
  // Places and texts of some of the levels of a category, or of dates in order.
  const some = (values) => {
    const most = NARROW ? 4 : 6, step = Math.ceil(values.length / most);
    const room = Math.floor((NARROW ? 44 : 72) / Math.min(values.length, most));
    return values.map((v, i) => [i, v]).filter(([i]) => i % step === 0).map(([i, v]) => [i, short(String(v), room)]);
  };
  const short = (text, room) => {
    const day = /^\d{4}-\d\d-\d\d/.test(text) ? text.slice(0, 10) : text;
    return day.length > room ? `${day.slice(0, room - 1)}…` : day;
  };
  const path = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(2)} ${py.toFixed(2)}`).join("");
  const bars = (id, rows, unit) => {
    // Horizontal bars: rows of {label, value, text}.
    const svg = byId(id), width = 520, left = NARROW ? 190 : 150, step = 24;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${step * rows.length + 8}`);
    const most = Math.max(...rows.map((r) => r.value)) || 1;
    rows.forEach((row, i) => {
      const y = 4 + i * step, length = ((width - left - 70) * row.value) / most;
      const label = row.label.length > 22 ? `${row.label.slice(0, 21)}…` : row.label;
      draw(svg, "text", { x: left - 8, y: y + 15, "text-anchor": "end" }, label);
      const bar = draw(svg, "rect", { x: left, y: y + 3, width: Math.max(1, length), height: step - 8, fill: ACCENT });
      hint(bar, row.text);
      draw(svg, "text", { x: left + length + 6, y: y + 15 }, format(row.value, 3) + unit);
    });
  };

  // ------------------------------------------------------------------------- the selected query

  const queryAtRow = new Map(data.queries.map((q, i) => [q.row, i]));
  const chooser = byId("query");
  data.queries.forEach((q, i) => {
    const observed = q.observed === null ? "" : `, observed ${format(q.observed)}`;
    chooser.append(element("option", { value: i }, `Row ${q.number}: predicted ${format(q.mean)}${observed}`));
  });
  const select = (i) => {
    const n = data.queries.length;
    chooser.value = String(((i % n) + n) % n);
    explain(data.queries[Number(chooser.value)]);
  };
  const cell = (tag, text, value) => element(tag, value === undefined ? {} : { "data-value": String(value) }, text);
  const contributions = (q) => {
    const rows = q.experts.map((e, k) => ({
      name: `expert ${e}`, mean: q.expert_mean[k], std: q.expert_std[k], weight: q.weight[k], kind: "expert",
    }));
    if (q.own) rows.unshift({ name: "nearest rows", mean: q.own.mean, std: q.own.std, weight: q.own.weight, kind: "expert" });
    if (q.communication) rows.push({ name: "communication expert", ...q.communication, kind: "communication" });
    rows.push({ name: "prior mean", mean: q.prior_mean, weight: q.prior_weight, kind: "prior" });
    if (q.trend !== null) rows.push({ name: "trend", mean: q.trend, weight: 1, kind: "trend" });
    return rows;
  };
  const weightBar = (weight, most) => {
    const bar = element("td", { class: "bar" });
    const span = element("span", weight < 0 ? { class: "negative" } : {});
    span.style.width = `${(100 * Math.abs(weight)) / most}%`;
    bar.append(span);
    return bar;
  };
  const showNeighbours = ({ n_rows, rows }) => {
    const most = Math.max(...rows.map((r) => Math.abs(r.weight))) || 1;
    byId("neighbours-sentence").textContent =
      `This prediction uses the ${n_rows.toLocaleString("en")} training rows nearest to the query. ` +
      `These ${rows.length} have the largest weights: if the ${data.target} of a row were larger by 1, the prediction would be larger by its weight.`;
    byId("neighbours").tBodies[0].replaceChildren(...rows.map((r) => {
      const tr = element("tr");
      tr.append(
        cell("td", r.number.toLocaleString("en"), r.number), cell("td", format(r.target), r.target), cell("td", format(r.weight, 3), r.weight),
        weightBar(r.weight, most), ...r.inputs.map((v) => cell("td", format(v), v)),
      );
      return tr;
    }));
  };
  const explain = (q) => {
    const rows = contributions(q), body = byId("contributions").tBodies[0], foot = byId("contributions").tFoot;
    const most = Math.max(...rows.map((r) => Math.abs(r.weight))) || 1;
    if (q.own) showNeighbours(q.own);
    body.replaceChildren(...rows.map((r) => {
      const tr = element("tr", { class: r.kind });
      const bar = weightBar(r.weight, most);
      tr.append(
        cell("td", r.name), cell("td", format(r.mean), r.mean), cell("td", r.std === undefined ? "" : format(r.std, 3), r.std),
        cell("td", format(r.weight, 3), r.weight), bar, cell("td", format(r.weight * r.mean), r.weight * r.mean),
      );
      return tr;
    }));
    const total = element("tr");
    const sum = rows.reduce((s, r) => s + (r.kind === "trend" ? 0 : r.weight), 0);
    total.append(cell("th", "prediction"), cell("td", ""), cell("td", format(q.std, 3), q.std), cell("td", format(sum, 3), sum), cell("td", ""), cell("td", format(q.mean), q.mean));
    total.lastChild.id = "total";
    foot.replaceChildren(total);
    const sentence = byId("prediction");
    sentence.replaceChildren(
      `Row ${q.number}: the prediction is `, element("strong", { id: "mean", "data-value": String(q.mean) }, format(q.mean)),
      `, with a 95 % interval from ${format(q.lower)} to ${format(q.upper)}.`,
    );
    if (q.observed !== null) {
      const inside = q.observed >= q.lower && q.observed <= q.upper;
      sentence.append(` The observation, ${format(q.observed)}, is ${inside ? "inside" : "outside"} the interval.`);
    }
    if (q.outside) sentence.append(` Outside the range of the training rows: ${q.outside}.`);
    byId("inputs").replaceChildren(...data.features.map((name, k) => {
      const pair = element("div");
      pair.append(element("dt", {}, name), element("dd", { "data-value": String(q.inputs[k]) }, format(q.inputs[k], 5)));
      return pair;
    }));
    drawExperts(q, rows, most);
    drawMap(q);
    document.querySelectorAll("#predicted-observed .selected").forEach((dot) => dot.classList.remove("selected"));
    document.querySelector(`#predicted-observed [data-row="${q.row}"]`)?.classList.add("selected");
  };
  const drawExperts = (q, rows, most) => {
    const svg = byId("experts-figure"), width = 520, left = NARROW ? 150 : 118, step = 24, height = step * (rows.length + 1) + 40;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const values = rows.flatMap((r) => [r.mean - 2 * (r.std ?? 0), r.mean + 2 * (r.std ?? 0)]);
    values.push(q.lower, q.upper);
    // An observation far away is drawn at the end of the axis, so that it does not squash the rest.
    const [low, high] = extent(values), reach = 2 * (high - low);
    const seen = q.observed === null ? null : Math.max(low - reach, Math.min(high + reach, q.observed));
    const xs = extent(seen === null ? values : [...values, seen]);
    const x = (v) => left + ((v - xs[0]) / (xs[1] - xs[0])) * (width - left - 12);
    for (const t of ticks(...xs)) {
      draw(svg, "line", { class: "grid", x1: x(t), x2: x(t), y1: 4, y2: height - 30 });
      draw(svg, "text", { x: x(t), y: height - 14, "text-anchor": "middle" }, format(t));
    }
    const bar = (y, label, centre, ends, colour, opacity, text) => {
      draw(svg, "text", { x: left - 10, y: y + 4, "text-anchor": "end" }, label);
      const group = hint(draw(svg, "g"), text);
      if (ends[1] > ends[0]) draw(group, "line", { x1: x(ends[0]), x2: x(ends[1]), y1: y, y2: y, stroke: colour, "stroke-width": 7, "stroke-opacity": opacity * 0.5, "stroke-linecap": "round" });
      draw(group, "circle", { cx: x(centre), cy: y, r: 5, fill: colour, "fill-opacity": opacity });
    };
    rows.forEach((r, i) => {
      const opacity = r.kind === "trend" ? 0.6 : 0.25 + 0.75 * (Math.abs(r.weight) / most);
      const text = `${r.name}: mean ${format(r.mean)}\nweight ${format(r.weight, 3)}`;
      bar(14 + i * step, r.name, r.mean, [r.mean - 2 * (r.std ?? 0), r.mean + 2 * (r.std ?? 0)], ["prior", "trend"].includes(r.kind) ? SOFT : ACCENT, opacity, text);
    });
    const y = 14 + rows.length * step;
    bar(y, "prediction", q.mean, [q.lower, q.upper], SECOND, 1, `prediction ${format(q.mean)} ± ${format(q.std, 3)}`);
    draw(svg, "line", { x1: x(q.mean), x2: x(q.mean), y1: 4, y2: y, stroke: SECOND, "stroke-dasharray": "2 4" });
    if (q.observed !== null) {
      const cx = x(seen);
      draw(svg, "path", { d: `M${cx - 5} ${y - 5}L${cx + 5} ${y + 5}M${cx - 5} ${y + 5}L${cx + 5} ${y - 5}`, stroke: INK, "stroke-width": 2 });
    }
  };
  const drawMap = (q) => {
    if (!byId("map")) return; // a single expert
    const { position, size, count, n_queries } = data.experts;
    const { svg, x, y } = frame("map", {
      xs: extent(position.map((p) => p[0]), 0.12), ys: extent(position.map((p) => p[1]), 0.12),
      xlabel: "first principal axis", ylabel: "second principal axis",
    });
    const largest = Math.max(...size), largestCount = Math.max(...count, 1);
    const radius = Math.max(4, Math.min(22, 130 / Math.sqrt(position.length)));
    const current = new Set(q.experts);
    const order = position.map((_, i) => i).sort((a, b) => current.has(a) - current.has(b));
    for (const i of order) {
      const r = radius * Math.sqrt(size[i] / largest);
      const dot = draw(svg, "circle", {
        cx: x(position[i][0]), cy: y(position[i][1]), r, fill: ACCENT, "fill-opacity": 0.12 + 0.7 * (count[i] / largestCount),
        stroke: "white", class: current.has(i) ? "selected" : "",
      });
      hint(dot, `expert ${i}\n${size[i].toLocaleString("en")} rows\nselected for ${percent(count[i] / n_queries)} of the queries`);
      if (position.length <= 40) {
        const label = draw(svg, "text", { x: x(position[i][0]), y: y(position[i][1]) + 4, "text-anchor": "middle", "pointer-events": "none" }, i);
        label.style.fill = count[i] / largestCount > 0.55 ? "white" : INK;
      }
    }
  };
  // A row that is not explained: its prediction and, if they are known, its inputs.
  const brief = (k) => {
    const { number, y, mean, lower, upper, inputs } = data.observed.listed;
    byId("prediction").textContent = `Row ${number[k]}: the prediction is ${format(mean[k])}, with a 95 % interval from ` +
      `${format(lower[k])} to ${format(upper[k])}. The observation is ${format(y[k])}. ` +
      "Experts and training rows are shown for the rows of the list only.";
    byId("contributions").tBodies[0].replaceChildren();
    byId("contributions").tFoot.replaceChildren();
    byId("experts-figure").replaceChildren();
    if (byId("neighbours")) {
      byId("neighbours").tBodies[0].replaceChildren();
      byId("neighbours-sentence").textContent = "";
    }
    byId("inputs").replaceChildren(...data.features.map((name, i) => {
      const pair = element("div");
      pair.append(element("dt", {}, name), element("dd", {}, inputs.length ? format(inputs[k][i], 5) : "–"));
      return pair;
    }));
  };
  const find = (text) => {
    const wanted = Number(text.replace(/[^0-9]/g, ""));
    const query = data.queries.findIndex((q) => q.number === wanted), listed = data.observed.listed.number.indexOf(wanted);
    if (text.trim() === "") return;
    if (query >= 0) select(query);
    else if (listed >= 0) brief(listed);
    else byId("prediction").textContent = `There is no row ${text.trim()} among the rows of this page.`;
  };
  byId("search")?.addEventListener("input", (event) => find(event.target.value));
  document.querySelectorAll("[data-query-row]").forEach((button) => button.addEventListener("click", () => {
    select(queryAtRow.get(Number(button.dataset.queryRow)));
    byId("explain").scrollIntoView({ block: "start" });
  }));
  chooser.addEventListener("change", () => select(Number(chooser.value)));
  byId("previous").addEventListener("click", () => select(Number(chooser.value) - 1));
  byId("next").addEventListener("click", () => select(Number(chooser.value) + 1));
  document.addEventListener("keydown", (event) => {
    if (["SELECT", "INPUT"].includes(event.target.tagName) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") select(Number(chooser.value) - 1);
    if (event.key === "ArrowRight") select(Number(chooser.value) + 1);
  });

  // ------------------------------------------------------------------- compared with the observations

  const drawPredictedObserved = ({ points }) => {
    const { lower, upper } = points;
    const both = robust([...points.y, ...points.mean]), near = (v) => Math.max(both[0], Math.min(both[1], v));
    const { svg, x, y } = frame("predicted-observed", { xs: both, ys: both, height: 420, xlabel: `observed ${data.target}`, ylabel: "predicted" });
    draw(svg, "line", { x1: x(both[0]), y1: y(both[0]), x2: x(both[1]), y2: y(both[1]), stroke: INK, "stroke-dasharray": "4 4", "stroke-opacity": 0.5 });
    const faint = Math.max(0.05, Math.min(0.3, 60 / points.y.length));
    points.y.forEach((observed, i) => {
      const inside = lower[i] <= observed && observed <= upper[i], colour = inside ? ACCENT : SECOND;
      const clip = (v) => Math.max(both[0], Math.min(both[1], v));
      draw(svg, "line", { x1: x(near(observed)), x2: x(near(observed)), y1: y(clip(lower[i])), y2: y(clip(upper[i])), stroke: colour, "stroke-opacity": faint });
      const query = queryAtRow.get(points.row[i]);
      const dot = draw(svg, "circle", { cx: x(near(observed)), cy: y(near(points.mean[i])), r: query === undefined ? 2 : 4, fill: colour, "fill-opacity": 0.65 });
      hint(dot, `row ${points.number[i]}\nobserved ${format(observed)}\npredicted ${format(points.mean[i])} ± ${format(points.std[i], 3)}`);
      if (query !== undefined) {
        dot.classList.add("selectable");
        dot.dataset.row = points.row[i];
        dot.setAttribute("stroke", colour);
        dot.addEventListener("click", () => { select(query); byId("explain").scrollIntoView({ block: "start" }); });
      }
    });
  };
  const drawCalibration = ({ calibration, scores }) => {
    const { svg, x, y } = frame("calibration", { xs: [0, 1], ys: [0, 1], height: 420, xlabel: "nominal coverage", ylabel: "empirical coverage" });
    const { level, share } = calibration, error = level.map((p) => 2 * Math.sqrt((p * (1 - p)) / scores.n));
    const clip = (v) => Math.max(0, Math.min(1, v));
    const band = [...level.map((p, i) => [x(p), y(clip(p + error[i]))]), ...level.map((p, i) => [x(p), y(clip(p - error[i]))]).reverse()];
    draw(svg, "path", { d: `${path(band)}Z`, fill: "#e3e6ea" });
    draw(svg, "line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), stroke: INK, "stroke-dasharray": "4 4", "stroke-opacity": 0.5 });
    draw(svg, "path", { d: path(level.map((p, i) => [x(p), y(share[i])])), fill: "none", stroke: ACCENT, "stroke-width": 2.2 });
    level.forEach((p, i) => {
      const dot = draw(svg, "circle", { cx: x(p), cy: y(share[i]), r: 6, fill: "transparent" });
      hint(dot, `${percent(share[i])} inside the ${(100 * p).toFixed(0)} % interval`);
    });
  };
  const drawResiduals = ({ name, levels, dates, x }) => {
    // Rows without a value of this input are left out.
    const known = x.flatMap((place, i) => (place === null ? [] : [[place, data.observed.z[i]]]));
    drawResidualPoints(name, levels, dates, known.map(([place]) => place), known.map(([, z]) => z));
  };
  const drawResidualPoints = (name, levels, dates, places, z) => {
    const end = Math.max(1.5 * data.observed.width, ...robust(z).map(Math.abs));
    const { svg, x, y, left } = frame("residuals", {
      xs: levels.length ? [-0.5, levels.length - 0.5] : robust(places), ys: [-end, end], height: 260, xlabel: name,
      labels: levels.length ? some(levels) : dates.length ? dates.filter((_, i) => !NARROW || i % 2 === 0).map(([at, text]) => [at, short(text, 14)]) : null,
    });
    for (const level of [-data.observed.width, 0, data.observed.width]) {
      draw(svg, "line", { x1: left, x2: 510, y1: y(level), y2: y(level), stroke: INK, "stroke-dasharray": level ? "4 4" : "", "stroke-opacity": 0.5 });
    }
    places.forEach((place, i) => {
      const clipped = Math.max(-end, Math.min(end, z[i])), outside = Math.abs(z[i]) > data.observed.width;
      draw(svg, "circle", { cx: Math.max(left, Math.min(510, x(place))), cy: y(clipped), r: 2.5, fill: outside ? SECOND : ACCENT, "fill-opacity": 0.55 });
    });
  };
  const drawErrors = ({ by_input, by_expert, residuals }) => {
    const input = byId("input");
    data.features.forEach((name, k) => input.append(element("option", { value: k }, name)));
    const text = (bin) => `${bin.n.toLocaleString("en")} rows\nRMSE ${format(bin.rmse, 3)}\n${percent(bin.inside)} inside the 95 % interval`;
    const show = () => {
      bars("by-input", by_input[Number(input.value)].map((bin) => ({
        label: bin.low === bin.high ? format(bin.low, 3) : typeof bin.low === "string" ? `from ${bin.low.replace(" 00:00", "")}` : `${format(bin.low, 3)} to ${format(bin.high, 3)}`, value: bin.rmse, text: text(bin),
      })), "");
      drawResiduals(residuals[Number(input.value)]);
    };
    input.addEventListener("change", show);
    show();
    if (byId("by-expert")) bars("by-expert", by_expert.map((bin) => ({ label: `expert ${bin.expert} (${bin.n})`, value: bin.rmse, text: text(bin) })), "");
  };

  // ------------------------------------------------------------------------------ the model

  bars("relevance", data.relevance.map((r) => ({ label: r.name, value: r.value, text: `${r.name}\nlength scale ${format(r.length_scale)}` })), "");
  if (data.importance.length) {
    bars("importance", data.importance.map((one) => ({ label: one.name, value: Math.max(0, one.increase), text: `${one.name}\nincrease of the RMSE ${format(one.increase, 3)} ± ${format(one.std, 2)}` })), "");
  }
  data.effects.forEach((one, k) => {
    const figure = element("figure");
    byId("effects").append(figure);
    draw(figure, "svg", { id: `effect-${k}`, role: "img", "aria-label": `Effect of ${one.name}` });
    const numeric = typeof one.values[0] === "number", last = one.values.length - 1;
    const curve = numeric || one.dates; // dates are evenly spaced
    const place = (i) => (numeric ? one.values[i] : i);
    const { svg, x, y } = frame(`effect-${k}`, {
      xs: numeric ? extent(one.values, 0.02) : one.dates ? extent([0, last], 0.02) : [-0.5, last + 0.5], ys: extent(data.effects.flatMap((e) => [...e.low, ...e.high])), xlabel: one.name, ylabel: data.target.slice(0, 24),
      labels: numeric ? null : some(one.values),
    });
    if (curve) {
      const band = [...one.high.map((v, i) => [x(place(i)), y(v)]), ...one.low.map((v, i) => [x(place(i)), y(v)]).reverse()];
      draw(svg, "path", { d: `${path(band)}Z`, fill: ACCENT, "fill-opacity": 0.2 });
      draw(svg, "path", { d: path(one.mean.map((v, i) => [x(place(i)), y(v)])), fill: "none", stroke: ACCENT, "stroke-width": 2.2 });
      return;
    }
    one.mean.forEach((v, i) => {
      draw(svg, "line", { x1: x(i), x2: x(i), y1: y(one.low[i]), y2: y(one.high[i]), stroke: ACCENT, "stroke-width": 4, "stroke-opacity": 0.3 });
      hint(draw(svg, "circle", { cx: x(i), cy: y(v), r: 5, fill: ACCENT }), `${one.values[i]}\n${format(v)}`);
    });
  });
  const drawTrace = () => {
    const all = data.trace.flat();
    const { svg, x, y } = frame("trace", { xs: extent([0, Math.max(1, all.length - 1)], 0.02), ys: extent(all), height: 260, left: 74, xlabel: "step" });
    let begin = 0;
    data.trace.forEach((stage, s) => {
      const points = stage.map((v, i) => [x(begin + i), y(v)]);
      draw(svg, "path", { d: path(points), fill: "none", stroke: ACCENT, "stroke-width": 2 });
      points.forEach(([px, py], i) => hint(draw(svg, "circle", { cx: px, cy: py, r: 3, fill: ACCENT }), `stage ${s + 1}, step ${i}\n${format(stage[i], 6)}`));
      begin += stage.length;
    });
  };
  drawTrace();
  if (data.observed) {
    drawPredictedObserved(data.observed);
    drawCalibration(data.observed);
    drawErrors(data.observed);
  }
  select(0);
})();
