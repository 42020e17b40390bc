"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const CURVE = 61; // points of the effect of an input

  const format = (x, digits = 4) => {
    if (x === null) return "–";
    if (typeof x !== "number") return String(x);
    if (x === 0) return "0";
    const size = Math.abs(x);
    const text = size >= 1e6 || size < 1e-4 ? x.toExponential(digits - 2) : String(Number(x.toPrecision(digits)));
    return text.replaceAll("-", "−");
  };
  const element = (name, attributes = {}, text = null) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    return made;
  };
  const shape = (parent, name, attributes, text = null) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    parent.append(made);
    return made;
  };
  const drawing = (holder, height, label) => {
    holder.replaceChildren();
    const width = holder.clientWidth || 640;
    return [shape(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }), width];
  };

  // ------------------------------------------------------------------------------------- controls

  const values = {};
  const setters = {};
  let active = data.inputs[0].name;

  const changed = (name, value) => {
    values[name] = value;
    active = name;
    update();
  };

  const numberControl = (input, id) => {
    const step = input.whole ? 1 : (input.high - input.low) / 200 || 1;
    const slider = element("input", { type: "range", min: input.low, max: input.high, step, id: `${id}-slider`, "aria-label": input.name });
    const field = element("input", { type: "number", step: "any", required: "", id });
    slider.addEventListener("input", () => {
      const value = Number(Number(slider.value).toPrecision(6));
      field.value = value;
      changed(input.name, value);
    });
    field.addEventListener("input", () => {
      if (field.value !== "") slider.value = field.value;
      changed(input.name, field.value === "" ? null : Number(field.value));
    });
    setters[input.name] = (value) => { field.value = value; slider.value = value; };
    const pair = element("div", { class: "pair" });
    pair.append(slider, field);
    return [pair, element("span", { class: "range" }, `in training ${format(input.low)} to ${format(input.high)}`)];
  };
  const booleanControl = (input, id) => {
    const box = element("input", { type: "checkbox", id });
    box.addEventListener("input", () => changed(input.name, box.checked));
    setters[input.name] = (value) => { box.checked = value; };
    return [box];
  };
  const levelControl = (input, id) => {
    const list = element("select", { id });
    for (const level of input.levels) list.append(element("option", { value: level }, level));
    list.addEventListener("input", () => changed(input.name, list.value));
    setters[input.name] = (value) => { list.value = value; };
    return [list];
  };

  const seconds = (text) => Date.parse(`${text}Z`) / 1000;
  const isoDate = (time) => new Date(1000 * Math.round(time)).toISOString().slice(0, 19);
  const zoned = (input, text) => (input.zone ? `${text}+00:00` : text);
  const dateControl = (input, id) => {
    const [low, high] = [seconds(input.low), seconds(input.high)];
    const slider = element("input", { type: "range", min: low, max: high, step: 60, id: `${id}-slider`, "aria-label": input.name });
    const field = element("input", { type: "datetime-local", step: 1, required: "", id });
    slider.addEventListener("input", () => {
      field.value = isoDate(Number(slider.value));
      changed(input.name, zoned(input, isoDate(Number(slider.value))));
    });
    field.addEventListener("input", () => {
      const time = field.value === "" ? NaN : seconds(field.value);
      if (!Number.isNaN(time)) slider.value = time;
      changed(input.name, Number.isNaN(time) ? null : zoned(input, isoDate(time)));
    });
    setters[input.name] = (value) => { field.value = value.slice(0, 19); slider.value = seconds(field.value); };
    const zone = input.zone ? ", UTC" : "";
    return [slider, field, element("span", { class: "range" }, `in training ${input.low} to ${input.high}${zone}`)];
  };
  const noControl = (input) => {
    setters[input.name] = () => {};
    return [element("span", { class: "range" }, "no values in training: without effect")];
  };

  const kinds = { number: numberControl, boolean: booleanControl, category: levelControl, date: dateControl, empty: noControl };
  data.inputs.forEach((input, k) => {
    const box = element("div", { class: "input" });
    const id = `input-${k}`;
    box.append(element("label", { for: id }, input.name), ...kinds[input.kind](input, id));
    box.addEventListener("focusin", () => {
      if (active !== input.name) { active = input.name; update(); }
    });
    byId("inputs").append(box);
  });
  const reset = () => {
    for (const input of data.inputs) {
      values[input.name] = input.kind === "date" ? zoned(input, input.typical) : input.typical;
      setters[input.name](input.typical);
    }
    update();
  };

  // -------------------------------------------------------------------------------------- service

  const ask = async (path, rows) => {
    const response = await fetch(`${path}?level=${byId("level").value}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ rows }),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.detail);
    return body;
  };
  const varied = () => {
    const input = data.inputs.find((one) => one.name === active);
    const between = (low, high) => Array.from({ length: CURVE }, (_, i) => low + ((high - low) * i) / (CURVE - 1));
    const points = {
      number: () => between(input.low, input.high),
      date: () => between(seconds(input.low), seconds(input.high)).map((time) => zoned(input, isoDate(time))),
      boolean: () => [false, true],
      category: () => input.levels.slice(0, 30),
      empty: () => [null],
    }[input.kind]();
    return { input, points, rows: points.map((point) => ({ ...values, [active]: point })) };
  };

  let busy = false;
  let again = false;
  const update = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const missing = data.inputs.filter((input) => values[input.name] === null && input.kind !== "empty");
      if (missing.length) throw new Error(`${missing.map((input) => input.name).join(", ")}: enter a value.`);
      const effect = varied();
      const [told, along] = await Promise.all([ask("/explain", [{ ...values }]), ask("/predict", effect.rows)]);
      byId("error").hidden = true;
      showPrediction(told.explanations[0], told.level);
      showCurve(effect, along.predictions);
      showRows(told);
    } catch (error) {
      byId("error").textContent = error instanceof TypeError ? "The service cannot be reached." : error.message;
      byId("error").hidden = false;
    }
    busy = false;
    if (again) { again = false; update(); }
  };

  // ---------------------------------------------------------------------------------------- views

  let span = data.span; // the scale of the bar: usual targets, and all intervals so far

  const showPrediction = (one, level) => {
    byId("mean").textContent = format(one.mean);
    byId("interval").textContent = `${format(100 * level)} % interval ${format(one.lower)} to ${format(one.upper)}`;
    byId("std").textContent = `Standard deviation of a new observation: ${format(one.std, 3)}.`;
    byId("outside").hidden = one.outside.length === 0;
    byId("outside").textContent = `Outside the training range: ${one.outside.join(", ")}. The model has no rows there.`;
    span = [Math.min(span[0], one.lower), Math.max(span[1], one.upper)];
    const [svg, width] = drawing(byId("bar"), 34, `mean ${format(one.mean)}, from ${format(one.lower)} to ${format(one.upper)}`);
    const at = (x) => 6 + ((width - 12) * (x - span[0])) / (span[1] - span[0] || 1);
    shape(svg, "line", { x1: 6, x2: width - 6, y1: 12, y2: 12, stroke: "#d9dee5", "stroke-width": 2 });
    shape(svg, "rect", { x: at(one.lower), width: at(one.upper) - at(one.lower), y: 6, height: 12, fill: "#1f5fa8", opacity: 0.35 });
    shape(svg, "circle", { cx: at(one.mean), cy: 12, r: 6, fill: "#b8500f" });
    shape(svg, "text", { x: 6, y: 32 }, format(span[0], 3));
    shape(svg, "text", { x: width - 6, y: 32, "text-anchor": "end" }, format(span[1], 3));
  };

  const showCurve = ({ input, points }, predictions) => {
    byId("curve-title").textContent = `Effect of ${input.name}`;
    const [height, left, bottom, top] = [260, 56, 30, 10];
    const [svg, width] = drawing(byId("curve"), height, `${data.target} over ${input.name}`);
    const low = Math.min(...predictions.map((p) => p.lower));
    const high = Math.max(...predictions.map((p) => p.upper));
    const y = (v) => top + ((height - bottom - top) * (high - v)) / (high - low || 1);
    const numeric = input.kind === "number" || input.kind === "date";
    const x = (i) => left + ((width - left - 10) * (numeric ? i : i + 0.5)) / (numeric ? points.length - 1 : points.length);
    for (const v of [low, (low + high) / 2, high]) {
      shape(svg, "line", { x1: left, x2: width - 10, y1: y(v), y2: y(v), stroke: "#eceff2" });
      shape(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, format(v, 3));
    }
    if (numeric) {
      const path = (key) => predictions.map((p, i) => `${x(i)},${y(p[key])}`);
      shape(svg, "polygon", { points: [...path("upper"), ...path("lower").reverse()].join(" "), fill: "#1f5fa8", opacity: 0.2 });
      shape(svg, "polyline", { points: path("mean").join(" "), fill: "none", stroke: "#1f5fa8", "stroke-width": 2 });
      const number = (value) => (input.kind === "date" ? seconds(value.slice(0, 19)) : value);
      const share = (number(values[input.name]) - number(input.low)) / (number(input.high) - number(input.low) || 1);
      const here = left + (width - left - 10) * Math.min(1, Math.max(0, share));
      shape(svg, "line", { x1: here, x2: here, y1: top, y2: height - bottom, stroke: "#b8500f", "stroke-dasharray": "4 3" });
      shape(svg, "text", { x: left, y: height - 10 }, format(input.low));
      shape(svg, "text", { x: width - 10, y: height - 10, "text-anchor": "end" }, format(input.high));
      return;
    }
    predictions.forEach((p, i) => {
      const colour = points[i] === values[input.name] ? "#b8500f" : "#1f5fa8";
      shape(svg, "line", { x1: x(i), x2: x(i), y1: y(p.lower), y2: y(p.upper), stroke: colour, "stroke-width": 3, opacity: 0.45 });
      shape(svg, "circle", { cx: x(i), cy: y(p.mean), r: 5, fill: colour });
      if (points.length <= 12) shape(svg, "text", { x: x(i), y: height - 10, "text-anchor": "middle" }, String(points[i]).slice(0, 14));
    });
  };

  const showRows = (told) => {
    const { rows, experts } = told.explanations[0];
    const weighted = rows.length > 0 && rows[0].weight !== null;
    byId("rows-help").textContent = weighted
      ? "The rows with the largest weights in this prediction."
      : "The rows nearest to this input, in the metric of the kernel.";
    const head = ["row", data.target, ...(weighted ? ["weight"] : []), ...told.inputs];
    const line = (cells, name) => {
      const tr = element("tr");
      for (const cell of cells) tr.append(element(name, {}, typeof cell === "number" ? format(cell) : cell));
      return tr;
    };
    const table = byId("rows");
    table.tHead.replaceChildren(line(head, "th"));
    table.tBodies[0].replaceChildren(...rows.map((row) =>
      line([row.row.toLocaleString("en"), format(row.target), ...(weighted ? [format(row.weight, 3)] : []), ...row.inputs.map((v) => format(v))], "td")));
    byId("experts").tBodies[0].replaceChildren(...experts.map((one) =>
      line([one.name, format(one.weight, 3), format(one.mean), format(one.latent_std, 3)], "td")));
  };

  addEventListener("resize", update);
  byId("level").addEventListener("input", update);
  byId("reset").addEventListener("click", reset);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  reset();
})();
