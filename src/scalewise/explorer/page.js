// Controls, pictures and words. Every number comes from `Model`.
"use strict";

const Page = (() => {
  const tables = JSON.parse(document.getElementById("tables").textContent);
  const byId = (id) => document.getElementById(id);
  const LARGEST = { C_W: 4, C_b: 1 };
  const HEIGHT = 270;
  const CELLS = { C_W: 48, C_b: 28 };
  const WIDTHS = Array.from({ length: 109 }, (_, k) => Math.round(8 * 2 ** (k / 12)));

  // A slider runs over places; `value` and `place` translate where the two differ.
  const same = (v) => v;
  const SLIDERS = {
    C_b: { label: "C_b", min: 0, max: LARGEST.C_b, step: 0.005 },
    C_W: { label: "C_W", min: 0.05, max: LARGEST.C_W, step: 0.01 },
    depth: { label: "depth L", min: 2, max: 64, step: 1, whole: true },
    width: {
      label: "width n", min: 8, max: 4096, step: 0.05, whole: true,
      value: (place) => Math.round(2 ** place), place: Math.log2,
    },
    s: { label: "s", min: 0, max: 1, step: 0.05 },
  };
  const state = { activation: Object.keys(tables.activations)[0], C_b: 0, C_W: 1, depth: 16, width: 128, s: 0 };
  const pictures = {};
  let regions = { key: "" };

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const shown = (v) =>
    v === Infinity ? "without bound" : v === 0 ? "0" : Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5
      ? String(Number(v.toPrecision(6))) : v.toExponential(4);

  // What the page says of a state: numbers by name, and the arrays that are drawn.
  function found() {
    const activation = tables.activations[state.activation];
    const flow = Model.flow(tables, activation, state);
    const fixed = Model.fixedPoint(tables, activation, state);
    const last = flow.K.length - 1, n = state.width;
    const row = Model.trainedAt(tables, activation, state.depth);
    const vertex = flow.V.map((V, k) => V / (n * flow.K[k] ** 2));
    const mean = flow.G1.map((G1, k) => Math.abs(G1) / (n * flow.K[k]));
    const bears = vertex.findLastIndex((v) => v <= 0.5) + 1;
    return {
      activation, flow, fixed, row, vertex, mean, bears,
      lost: flow.K.length < state.depth,
      numbers: {
        layer: last + 1, K: flow.K[last], Theta: flow.Theta[last], V: flow.V[last], G1: flow.G1[last],
        chi_parallel: flow.chi_parallel[last - 1], chi_perp: flow.chi_perp[last - 1],
        fluctuation: vertex[last], K_star: fixed.K,
        gamma: Model.limit(tables, state.depth, n, state.s).gamma,
        optimal: activation.critical ? activation.aspect_ratio * n : null,
        loss: row ? Model.loss(tables, row, n) : null,
        loss_leading: row ? row.leading : null,
      },
    };
  }

  // Words ---------------------------------------------------------------------------------------------------------

  function phase(f) {
    const { K, chi_parallel: par, chi_perp: perp } = f.fixed;
    if (Number.isNaN(perp)) return "The kernel of the first layer is beyond what the tables of this activation hold.";
    const to = K === 0 ? "shrinks to 0" : K === Infinity ? "grows without bound" : `goes to K* = ${shown(K)}`;
    const near = Math.abs(perp - 1) < 2e-3 && Math.abs(par - 1) < 2e-3;
    const word = near ? "critical: signals and their differences pass through many layers"
      : perp < 1 ? `ordered: the distance of nearby inputs falls by half every ${shown(Number((-Math.LN2 / Math.log(perp) * 2).toPrecision(2)))} layers`
        : "chaotic: nearby inputs part";
    const told = `With depth the kernel ${to}, where χ∥ = ${par.toPrecision(4)} and χ⊥ = ${perp.toPrecision(4)}. The network is ${word}.`;
    return f.lost ? `${told} Its kernel leaves what the tables hold behind layer ${f.flow.K.length}.` : told;
  }

  function limit() {
    const { near, held } = Model.limit(tables, state.depth, state.width, state.s);
    const said = (name) => `${name.replaceAll("_", " ")} (${tables.limits[name].replace(/\.$/, "")})`;
    return near === held ? said(near) : `${said(near)}; with γ held fixed: ${said(held)}`;
  }

  const unknown = (row) => !row ? "not known without a critical point"
    : row.nlo === null ? "not known with a kink" : "order 1/n decides nothing at this width";

  function rows(f) {
    const v = f.numbers, at = `layer ${v.layer}`;
    const critical = f.activation.critical;
    return [
      ["K", `Kernel K, ${at}`, v.K],
      ["Theta", `NTK Θ, ${at}`, v.Theta],
      ["V", `Four-point vertex V, ${at} (coefficient of 1/n)`, v.V],
      ["G1", `Correction of the kernel G{1}, ${at} (coefficient of 1/n)`, v.G1],
      ["fluctuation", `Relative variance of the kernel V/nK², ${at}`, v.fluctuation],
      ["chi_parallel", "χ∥ of the last step", v.chi_parallel],
      ["chi_perp", "χ⊥ of the last step", v.chi_perp],
      ["K_star", "Fixed point K*", v.K_star],
      ["critical", "Critical point", critical
        ? `C_b = ${shown(critical.C_b)}, C_W = ${shown(critical.C_W)} (class ${critical.class})` : `none, because ${f.activation.reason}`],
      ["gamma", "γ = L/n¹⁻ˢ", v.gamma],
      ["limit", "Near the limit", limit()],
      ["bears", "Deepest layer here with V/nK² ≤ ½", f.bears],
      ["optimal", `Optimal depth at the critical point, ${tables.outputs} outputs`, v.optimal === null ? "none: there is no critical point" : v.optimal],
      ["loss", f.row ? `Test loss of digits at depth ${f.row.depth}, to order 1/n` : "Test loss of digits",
        v.loss === null ? unknown(f.row) : v.loss],
      ["loss_leading", "The same at infinite width", v.loss_leading === null ? "not known without a critical point" : v.loss_leading],
    ];
  }

  function write(f) {
    byId("phase").textContent = phase(f);
    const body = byId("numbers").tBodies[0];
    body.replaceChildren(...rows(f).map(([key, name, value]) => {
      const line = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
      head.scope = "row";
      head.textContent = name;
      cell.id = `value-${key}`;
      if (typeof value === "number") cell.dataset.value = value;
      cell.textContent = typeof value === "number" ? shown(value) : value === undefined ? "–" : value;
      line.append(head, cell);
      return line;
    }));
  }

  // Pictures ------------------------------------------------------------------------------------------------------

  const axis = (label, more = {}) => ({
    label, labelSize: 18, size: 46, stroke: color("ink"), font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    grid: { stroke: color("rule"), width: 1 }, ticks: { stroke: color("rule"), width: 1 }, ...more,
  });
  const short = (v) => (v >= 1e-3 && v < 1e5 ? String(v) : v.toExponential().replace("+", ""));
  const powers = (_, marks) => marks.map((v) => (v === null ? "" : short(v)));
  const layers = () => axis("layer ℓ", { incrs: [1, 2, 5, 10, 20] });
  const line = (label, name, more = {}) => ({
    label, stroke: color(name), width: 2, points: { show: false }, value: (_, v) => (v === null || v === undefined ? "–" : shown(v)), ...more,
  });

  function chart(id, options, data) {
    pictures[id]?.destroy();
    byId(id).replaceChildren();
    const width = byId(id).clientWidth;
    pictures[id] = new uPlot({ width, height: HEIGHT, ...options }, data, byId(id));
  }

  function stroke(u, points, name, { dash = [], width = 2 } = {}) {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.beginPath();
    let open = false;
    for (const p of points) {
      if (p) ctx[open ? "lineTo" : "moveTo"](u.valToPos(p[0], "x", true), u.valToPos(p[1], "y", true));
      open = p !== null;
    }
    Object.assign(ctx, { strokeStyle: color(name), lineWidth: width * devicePixelRatio });
    ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
    ctx.stroke();
    ctx.restore();
  }

  function dot(u, x, y, { ring = false } = {}) {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), (ring ? 8 : 5) * devicePixelRatio, 0, 2 * Math.PI);
    Object.assign(ctx, { strokeStyle: color("ink"), fillStyle: color("ink"), lineWidth: 2 * devicePixelRatio });
    if (ring) ctx.stroke(); else ctx.fill();
    ctx.restore();
  }

  // Shades of the plane are kept until the activation or the depth changes.
  function regionsOf(activation) {
    const key = `${state.activation} ${state.depth}`;
    if (regions.key !== key) {
      const middles = (count, top) => Array.from({ length: count }, (_, k) => ((k + 0.5) / count) * top);
      const C_Ws = middles(CELLS.C_W, LARGEST.C_W), C_bs = middles(CELLS.C_b, LARGEST.C_b);
      regions = {
        key, C_Ws, C_bs,
        chi: Model.plane(tables, activation, state.depth, C_Ws, C_bs),
        lines: Model.lines(tables, activation, LARGEST),
      };
    }
    return regions;
  }

  function shade(u, { C_Ws, C_bs, chi }) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const x = (i) => Math.round(left + (i / C_Ws.length) * width), y = (j) => Math.round(top + height - (j / C_bs.length) * height);
    ctx.save();
    chi.forEach((row, j) => row.forEach((value, i) => {
      const lost = Number.isNaN(value);
      ctx.fillStyle = color(lost ? "lost" : value < 1 ? "first" : "second");
      ctx.globalAlpha = lost ? 0.5 : Math.min(0.55, 0.06 + 0.5 * Math.abs(Math.log(value)));
      ctx.fillRect(x(i), y(j + 1), x(i + 1) - x(i), y(j) - y(j + 1));
    }));
    ctx.restore();
  }

  function plain(id, x, y, draw) {
    const own = { show: false };
    chart(id, {
      scales: { x: { time: false, range: x.range }, y: { range: y.range } },
      axes: [axis(x.label), axis(y.label)],
      series: [{}, { points: own }], legend: own, cursor: own,
      hooks: { drawClear: draw.below ? [draw.below] : [], draw: [draw.above] },
    }, [x.range, [null, null]]);
  }

  const PICTURES = {
    plane: (f) => {
      const known = regionsOf(f.activation), critical = f.activation.critical;
      plain("plane", { label: "C_W", range: [0, LARGEST.C_W] }, { label: "C_b", range: [0, LARGEST.C_b] }, {
        below: (u) => shade(u, known),
        above: (u) => {
          stroke(u, known.lines.perp, "ink");
          stroke(u, known.lines.parallel, "ink", { dash: [5, 4], width: 1.5 });
          if (critical) dot(u, critical.C_W, critical.C_b, { ring: true });
          dot(u, state.C_W, state.C_b);
        },
      });
    },
    kernels: (f) => chart("kernels", {
      scales: { x: { time: false }, y: { distr: 3 } },
      axes: [layers(), axis("", { values: powers, size: 54 })],
      series: [{ label: "layer" }, line("K", "first"), line("Θ", "second")],
    }, [f.flow.K.map((_, k) => k + 1), f.flow.K, f.flow.Theta]),
    fluctuations: (f) => {
      const shownOnLog = (v) => (v > 0 ? v : null);
      chart("fluctuations", {
        scales: { x: { time: false }, y: { distr: 3 } },
        axes: [layers(), axis("", { values: powers, size: 54 })],
        series: [{ label: "layer" }, line("V/nK²", "first"), line("|G{1}|/nK", "second"), line("½", "muted", { dash: [5, 4], width: 1 })],
      }, [f.vertex.map((_, k) => k + 1), f.vertex.map(shownOnLog), f.mean.map(shownOnLog), f.vertex.map(() => 0.5)]);
    },
    web: () => plain("web", { label: "s", range: [-0.04, 1.04] }, { label: "e = log L / log n", range: [0, 1.5] }, {
      above: (u) => {
        stroke(u, [[0, 1], [1, 0]], "ink");
        dot(u, state.s, Math.log(state.depth) / Math.log(state.width));
      },
    }),
    loss: (f) => {
      if (!f.row) {
        pictures.loss?.destroy();
        delete pictures.loss;
        byId("loss").textContent = "The task is predicted at the critical point, and this activation has none.";
        return;
      }
      const losses = f.activation.loss.map((row) => WIDTHS.map((n) => (row.nlo === null ? row.leading : Model.loss(tables, row, n))));
      const mark = (u) => {
        const [low, high] = [u.scales.y.min, u.scales.y.max];
        stroke(u, [[state.width, low], [state.width, high]], "ink", { dash: [2, 3], width: 1 });
        const here = f.numbers.loss;
        if (here !== null) dot(u, state.width, here);
      };
      chart("loss", {
        scales: { x: { time: false, distr: 3 } },
        axes: [axis("width n", { values: powers }), axis("", { size: 58 })],
        series: [{ label: "n" }, ...f.activation.loss.map((row) =>
          line(`L = ${row.depth}`, row === f.row ? "second" : "muted", row === f.row ? { width: 3 } : { width: 1 }))],
        hooks: { draw: [mark] },
      }, [WIDTHS, ...losses]);
    },
  };

  function describe(f) {
    const v = f.numbers;
    const texts = {
      plane: `Phase diagram of ${state.activation}; this network at C_W ${shown(state.C_W)}, C_b ${shown(state.C_b)}. ${phase(f)}`,
      kernels: `Kernel from ${shown(f.flow.K[0])} to ${shown(v.K)}, NTK from 2 to ${shown(v.Theta)} at layer ${v.layer}.`,
      fluctuations: `Relative variance of the kernel up to ${shown(v.fluctuation)} at layer ${v.layer}.`,
      web: `gamma is ${shown(v.gamma)}: near ${limit()}.`,
      loss: v.loss === null ? "Test loss not known here." : `Test loss ${shown(v.loss)} at width ${state.width}, ${shown(v.loss_leading)} at infinite width.`,
    };
    for (const [id, text] of Object.entries(texts)) byId(id).setAttribute("aria-label", text);
  }

  // Controls ------------------------------------------------------------------------------------------------------

  function clamped(name, given) {
    const row = SLIDERS[name], value = Math.min(row.max, Math.max(row.min, given));
    return row.whole ? Math.round(value) : value;
  }

  function set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (name === "activation") {
        if (value in tables.activations) state.activation = value;
      } else if (name in SLIDERS && Number.isFinite(Number(value))) state[name] = clamped(name, Number(value));
    }
    update();
  }

  function update() {
    const f = found();
    byId("activation").value = state.activation;
    byId("critical").disabled = !f.activation.critical;
    for (const [name, { place = same }] of Object.entries(SLIDERS)) {
      byId(`slider-${name}`).value = place(state[name]);
      byId(`slider-${name}`).setAttribute("aria-valuetext", shown(state[name]));
      if (document.activeElement !== byId(`number-${name}`)) byId(`number-${name}`).value = Number(state[name].toPrecision(8));
    }
    write(f);
    for (const draw of Object.values(PICTURES)) draw(f);
    describe(f);
  }

  let asked = false; // browsers tell of a slider once to a frame: what comes together is one update
  function soon(changes) {
    Object.assign(pending, changes);
    if (asked) return;
    asked = true;
    queueMicrotask(() => {
      asked = false;
      const now = pending;
      pending = {};
      set(now);
      history.replaceState(null, "", `#${new URLSearchParams(state)}`);
    });
  }
  let pending = {};

  function control(name, { label, min, max, step, whole, value = same, place = same }) {
    const row = document.createElement("div"), text = document.createElement("label");
    const slider = document.createElement("input"), number = document.createElement("input");
    row.className = "slider";
    text.textContent = label;
    text.htmlFor = slider.id = `slider-${name}`;
    number.id = `number-${name}`;
    number.setAttribute("aria-label", `${label}, as a number`);
    Object.assign(slider, { type: "range", min: place(min), max: place(max), step });
    Object.assign(number, { type: "number", min, max, step: whole ? 1 : "any" });
    slider.addEventListener("input", () => soon({ [name]: value(Number(slider.value)) }));
    number.addEventListener("change", () => number.value !== "" && soon({ [name]: Number(number.value) }));
    row.append(text, slider, number);
    return row;
  }

  function toCritical() {
    const { critical } = tables.activations[state.activation];
    if (critical) soon({ C_b: critical.C_b, C_W: critical.C_W });
  }

  function begin() {
    byId("activation").append(...Object.keys(tables.activations).map((name) => new Option(name, name)));
    byId("activation").addEventListener("change", (event) => soon({ activation: event.target.value }));
    byId("critical").addEventListener("click", toCritical);
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("sliders").append(...Object.entries(SLIDERS).map(([name, row]) => control(name, row)));
    byId("accuracy").textContent = `These are the numbers of scalewise.predict to one part in ${Math.round(1 / tables.accuracy).toLocaleString("en")} of their size; ` +
      "losses are those of scalewise.predict_training.";
    byId("task").textContent = `Digits 3 and 8, ${tables.task.samples} training and ${tables.task.samples} test samples, gradient flow to its end, s = 0, at the critical ` +
      "C_b and C_W of the activation, at the depths that were computed: the nearest to L is thick. To order 1/n, and of an " +
      `activation with a kink at infinite width; a line ends where the parameter of the expansion is above ${tables.task.large}.`;
    const read = () => {
      const told = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
      const { critical } = tables.activations[told.activation] ?? tables.activations[state.activation];
      set({ ...(critical && { C_b: critical.C_b, C_W: critical.C_W }), ...told });
    };
    read();
    addEventListener("hashchange", read);
    addEventListener("resize", () => soon({}));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => soon({}));
  }

  begin();
  return { state, set, found, pictures };
})();
