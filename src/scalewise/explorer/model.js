// What `predict` says of one input, computed from the tables of the page. Nothing here knows of a page.
"use strict";

const Model = (() => {
  const FIXED = 1e-12; // a kernel that moves by less of itself stays

  // The panel of an activation that holds K, and the place on it from -1 to 1; null beyond the table.
  function locate(tables, activation, K) {
    const t = (Math.log(K) - activation.start) / tables.length;
    const index = Math.floor(t);
    if (!(index >= 0 && index < activation.panels.length)) return null;
    return { panel: activation.panels[index], x: 2 * (t - index) - 1 };
  }

  // A Chebyshev series, by Clenshaw's rule.
  function series(c, x) {
    let above = 0, here = 0;
    for (let k = c.length - 1; k > 0; k--) [here, above] = [2 * x * here - above + c[k], here];
    return x * here - above + c[0];
  }

  function moment(tables, activation, name, K) {
    const at = locate(tables, activation, K);
    return at && series(at.panel[tables.moments.indexOf(name)], at.x);
  }

  function moments(tables, activation, K) {
    const at = locate(tables, activation, K);
    return at && Object.fromEntries(tables.moments.map((name, k) => [name, series(at.panel[k], at.x)]));
  }

  // PDLT (5.108)-(5.110), (9.6) at equal hidden widths, lambda_b = lambda_W = 1 and |x|^2 = n_0. The arrays end where
  // the kernel leaves the table; `chi_*` belong to the step from a layer to the next.
  function flow(tables, activation, { C_b, C_W, depth }) {
    let K = C_b + C_W, V = 0, G1 = 0, Theta = 2;
    const found = { K: [K], V: [V], G1: [G1], Theta: [Theta], chi_parallel: [], chi_perp: [] };
    for (let layer = 1; layer < depth; layer++) {
      const m = moments(tables, activation, K);
      if (!m) break;
      const chi = C_W * m.g1, perp = C_W * m.p;
      G1 = chi * G1 + 0.5 * C_W * m.g2 * V;
      V = chi * chi * V + C_W * C_W * m.vss;
      Theta = 1 + m.g + perp * Theta;
      K = C_b + C_W * m.g;
      if (!locate(tables, activation, K)) break;
      for (const [name, value] of Object.entries({ K, V, G1, Theta })) found[name].push(value);
      found.chi_parallel.push(chi);
      found.chi_perp.push(perp);
    }
    return found;
  }

  // Where the kernel goes from K^(1): {K, chi_parallel, chi_perp}, K = 0 or Infinity where it leaves the table.
  function fixedPoint(tables, activation, { C_b, C_W }) {
    const step = (K) => C_b + C_W * moment(tables, activation, "g", K) - K;
    const at = (K, shown) => {
      const m = moments(tables, activation, K);
      return { K: shown, chi_parallel: C_W * m.g1, chi_perp: C_W * m.p };
    };
    if (!locate(tables, activation, C_b + C_W)) return { K: Infinity, chi_parallel: NaN, chi_perp: NaN };
    const start = Math.log(C_b + C_W), first = step(C_b + C_W);
    if (Math.abs(first) <= FIXED * (C_b + C_W)) return at(C_b + C_W, C_b + C_W);
    const away = Math.sign(first);
    const end = activation.start + (away > 0 ? tables.length * activation.panels.length - 1e-9 : 1e-9);
    let near = start;
    while (away * (end - near) > 0) {
      let far = near + 0.05 * away;
      if (away * (end - far) < 0) far = end;
      if (away * step(Math.exp(far)) <= 0) {
        for (let k = 0; k < 60; k++) {
          const middle = (near + far) / 2;
          if (away * step(Math.exp(middle)) > 0) near = middle; else far = middle;
        }
        return at(Math.exp(near), Math.exp(near));
      }
      near = far;
    }
    return at(Math.exp(end), away > 0 ? Infinity : 0);
  }

  // The lines chi = 1: points (C_W, C_b, K) of the plane and the fixed point at which it holds; null where it has left.
  function lines(tables, activation, largest) {
    const found = { parallel: [], perp: [] };
    const top = activation.start + tables.length * activation.panels.length;
    for (let t = activation.start + 1e-9; t < top; t += 0.02) {
      const K = Math.exp(t), m = moments(tables, activation, K);
      for (const [name, slope] of [["parallel", m.g1], ["perp", m.p]]) {
        const C_W = 1 / slope, C_b = K - C_W * m.g;
        const inside = slope > 0 && C_W <= largest.C_W && C_b >= -1e-9 * K && C_b <= largest.C_b;
        found[name].push(inside ? [C_W, Math.max(C_b, 0), K] : null);
      }
    }
    return found;
  }

  // chi_perp of the last step through a network, on a grid; NaN where the kernel has left the table before.
  function plane(tables, activation, depth, C_Ws, C_bs) {
    return C_bs.map((C_b) => C_Ws.map((C_W) => {
      let K = C_b + C_W;
      for (let layer = 2; layer < depth && K > 0; layer++) {
        const g = moment(tables, activation, "g", K);
        K = g === null ? NaN : C_b + C_W * g;
      }
      const slope = moment(tables, activation, "p", K);
      return slope === null ? NaN : C_W * slope;
    }));
  }

  // gamma, the limit that a network is near, and the one that is reached with gamma held fixed.
  function limit(tables, L, n, s) {
    const gamma = L / n ** (1 - s);
    const held = s === 0 ? "infinite_width_and_depth" : s === 1 ? "mean_field" : "missing";
    if (s === 1) return { gamma, near: held, held };
    if (gamma < tables.frozen_below) return { gamma, near: "frozen_ntk", held };
    return { gamma, near: gamma > tables.unbounded_above ? "unbounded" : held, held };
  }

  // The row of trained networks whose depth is nearest, by ratio.
  function trainedAt(tables, activation, depth) {
    const off = (row) => Math.abs(Math.log(row.depth / depth));
    return activation.loss && activation.loss.reduce((best, row) => (off(row) < off(best) ? row : best));
  }

  // The mean test loss at width n, to order 1/n; null where this order is not known or decides nothing.
  const loss = (tables, row, n) =>
    row.nlo === null || row.parameter / n > tables.task.large ? null : row.leading + row.nlo / n;

  return { moments, flow, fixedPoint, lines, plane, limit, trainedAt, loss };
})();

if (typeof module !== "undefined") module.exports = Model;
