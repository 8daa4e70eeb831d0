/* Loss surfaces in 3-D on plain canvases. All turn together and share one scale, so that they can be compared. */

const VIEW = { turn: -0.7, tilt: 0.55 };

/** Canvases side by side; drag, touch or arrow keys turn all of them. */
function surfaces(items, measure, log, range, format) {
  remembered("turn", VIEW.turn);
  remembered("tilt", VIEW.tilt);
  const panels = items.map((item) => surfacePanel(item, measure, log, range, format));
  let waiting = false;
  const drawAll = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      panels.forEach((panel) => panel.draw());
    });
  };
  const turn = (by, tilt) => {
    state.turn += by;
    state.tilt = Math.min(1.5, Math.max(0.08, state.tilt + tilt));
    drawAll();
  };
  panels.forEach(({ canvas }) => listen(canvas, turn, drawAll));
  const button = (name, sign, by, tilt) =>
    el(
      "button",
      {
        type: "button",
        "aria-label": name,
        title: name,
        "data-key": name,
        click: () => turn(by, tilt),
      },
      sign,
    );
  const controls = el(
    "div",
    { class: "choices", role: "group", "aria-label": "View of the surfaces" },
    button("Turn left", "←", 0.2, 0),
    button("Turn right", "→", -0.2, 0),
    button("Tilt up", "↑", 0, 0.12),
    button("Tilt down", "↓", 0, -0.12),
    el(
      "button",
      {
        type: "button",
        "data-key": "reset",
        click: () => {
          Object.assign(state, VIEW);
          drawAll();
        },
      },
      "Reset",
    ),
  );
  const grid = el(
    "div",
    { class: "panels" },
    panels.map(({ canvas, item }) => el("div", { class: "panel" }, named(item), canvas)),
  );
  later(grid, () => panels.forEach((panel) => panel.draw()));
  return { grid, controls };
}

function listen(canvas, turn, drawAll) {
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    turn(-(event.clientX - last[0]) * 0.01, (event.clientY - last[1]) * 0.008);
    last = [event.clientX, event.clientY];
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => {
      last = null;
    });
  canvas.addEventListener("dblclick", () => {
    Object.assign(state, VIEW);
    drawAll();
  });
  canvas.addEventListener("keydown", (event) => {
    const by = {
      ArrowLeft: [0.1, 0],
      ArrowRight: [-0.1, 0],
      ArrowUp: [0, 0.06],
      ArrowDown: [0, -0.06],
    }[event.key];
    if (!by) return;
    event.preventDefault();
    turn(...by);
  });
}

function surfacePanel(item, measure, log, range, format) {
  const at = log ? (value) => Math.log10(Math.max(value, 1e-9)) : (value) => value;
  const [low, high] = range.map(at);
  const height = item[measure].map((row) =>
    row.map((value) => (known(value) ? (at(value) - low) / (high - low || 1) : NaN)),
  );
  const center = item.center[measure];
  const model =
    known(center) && item.x[0] <= 0 && item.x.at(-1) >= 0
      ? { value: center, height: (at(center) - low) / (high - low || 1) }
      : null;
  const canvas = el("canvas", {
    role: "img",
    tabindex: "0",
    class: "surface",
    "data-key": `surface ${item.label}`,
    "aria-label": describeSurface(item, measure, format),
  });
  const shape = {
    x: unit(item.x),
    y: unit(item.y),
    height,
    fills: shades(height),
    model,
    zero: [along(item.x, 0), along(item.y, 0)],
    marks: [distances(item.x, item), distances(item.y, item)],
  };
  return { canvas, item, draw: () => drawSurface(canvas, shape, range, format) };
}

/** Ticks along one side: in parameter distance if the analysis has the length of the directions, else in that length. */
function distances(values, { length }) {
  const far = known(length) ? length : 1,
    found = ticks(values[0] * far, values.at(-1) * far, 4);
  return labels(found, plain).map((text, i) => [along(values, found[i] / far), text]);
}

const unit = (values) => values.map((value) => along(values, value));
const along = (values, value) => (2 * (value - values[0])) / (values.at(-1) - values[0] || 1) - 1;

function describeSurface(item, measure, format) {
  const [low, high] = extent(item[measure].flat(), 0);
  const center = known(item.center[measure])
    ? ` at the model ${format(item.center[measure])},`
    : "";
  const far = Math.max(...item.x.map(Math.abs));
  const reach = known(item.length)
    ? `It reaches ${plain(far * item.length)} from the model in parameter distance.`
    : `It reaches ${plain(far)} times the length of the weights from the model.`;
  return `Surface of the ${measure} around ${item.label}:${center} least ${format(low)}, largest ${format(high)}. ${reach} Arrow keys turn all surfaces.`;
}

/** The colour of each cell: by its height, lit from one side. It does not depend on the view. */
function shades(height) {
  const rise = 1.1,
    rows = height.length,
    columns = height[0].length;
  const fills = [];
  for (let j = 0; j + 1 < rows; j++)
    for (let i = 0; i + 1 < columns; i++) {
      const [a, b, c, d] = [height[j][i], height[j][i + 1], height[j + 1][i + 1], height[j + 1][i]];
      if (![a, b, c, d].every(known)) {
        fills.push(null);
        continue;
      }
      const dx = (rise * (b + c - a - d) * (columns - 1)) / 4,
        dy = (rise * (c + d - a - b) * (rows - 1)) / 4;
      const light = (0.45 * dx - 0.35 * dy + 0.82) / Math.hypot(dx, dy, 1);
      const lit = 0.72 + 0.34 * Math.max(0, light);
      fills.push(rgb(heights((a + b + c + d) / 4).map((value) => Math.min(255, value * lit))));
    }
  return fills;
}

function drawSurface(canvas, shape, range, format) {
  const wide = canvas.clientWidth,
    tall = canvas.clientHeight,
    fine = Math.min(3, window.devicePixelRatio || 1);
  if (!wide || !tall) return;
  if (canvas.width !== Math.round(wide * fine)) {
    canvas.width = Math.round(wide * fine);
    canvas.height = Math.round(tall * fine);
  }
  const context = canvas.getContext("2d");
  context.setTransform(fine, 0, 0, fine, 0, 0);
  context.clearRect(0, 0, wide, tall);
  const [sin, cos] = [Math.sin(state.turn), Math.cos(state.turn)],
    [up, flat] = [Math.cos(state.tilt), Math.sin(state.tilt)];
  const size = Math.min(wide / 3.5, tall / 2.95),
    middle = [wide / 2, tall / 2 + size * (0.52 * up - 0.02)];
  const project = (x, y, z) => [
    middle[0] + size * (x * cos - y * sin),
    middle[1] - size * (1.1 * z * up + (x * sin + y * cos) * flat),
  ];
  const style = getComputedStyle(canvas),
    ink = style.getPropertyValue("--muted"),
    rule = style.getPropertyValue("--rule");
  drawBox(context, project, sin, cos, rule);
  drawCells(context, project, shape, sin, cos);
  drawScale(context, project, sin, cos, range, format, ink);
  drawDistances(context, project, sin, cos, shape.marks, ink);
  if (shape.model)
    drawModel(
      context,
      project(...shape.zero, shape.model.height),
      format(shape.model.value),
      style,
    );
}

function drawBox(context, project, sin, cos, rule) {
  context.strokeStyle = rule;
  context.lineWidth = 1;
  const line = (...points) => {
    context.beginPath();
    points.forEach((point, i) => context[i ? "lineTo" : "moveTo"](...project(...point)));
    context.stroke();
  };
  const far = [sin > 0 ? 1 : -1, cos > 0 ? 1 : -1];
  for (const z of [0, 0.5, 1])
    line([-far[0], far[1], z], [far[0], far[1], z], [far[0], -far[1], z]);
  for (const t of [-1, -0.5, 0, 0.5, 1]) {
    line([t, -1, 0], [t, 1, 0]);
    line([-1, t, 0], [1, t, 0]);
  }
  for (const corner of [[-far[0], far[1]], far, [far[0], -far[1]]])
    line([...corner, 0], [...corner, 1]);
}

/** Cells from the far ones to the near ones; a regular grid needs no sorting. */
function drawCells(context, project, { x, y, height, fills }, sin, cos) {
  const columns = x.length - 1,
    rows = y.length - 1,
    mesh = Math.max(1, Math.round(columns / 14));
  const corners = height.map((line, j) => line.map((z, i) => project(x[i], y[j], z)));
  context.lineJoin = "round";
  for (let b = 0; b < rows; b++)
    for (let a = 0; a < columns; a++) {
      const i = sin > 0 ? columns - 1 - a : a,
        j = cos > 0 ? rows - 1 - b : b,
        fillStyle = fills[j * columns + i];
      if (!fillStyle) continue;
      const [p, q, r, s] = [
        corners[j][i],
        corners[j][i + 1],
        corners[j + 1][i + 1],
        corners[j + 1][i],
      ];
      context.beginPath();
      context.moveTo(...p);
      context.lineTo(...q);
      context.lineTo(...r);
      context.lineTo(...s);
      context.closePath();
      context.fillStyle = context.strokeStyle = fillStyle;
      context.lineWidth = 0.7;
      context.fill();
      context.stroke();
      if (i % mesh && j % mesh) continue;
      context.strokeStyle = "rgb(0 0 0 / 0.22)";
      context.beginPath();
      if (j % mesh === 0) {
        context.moveTo(...p);
        context.lineTo(...q);
      }
      if (i % mesh === 0) {
        context.moveTo(...p);
        context.lineTo(...s);
      }
      context.stroke();
    }
}

function drawScale(context, project, sin, cos, range, format, ink) {
  const ends = [
    [1, 1],
    [1, -1],
    [-1, -1],
    [-1, 1],
  ]
    .map(([x, y]) => [x, y, project(x, y, 0)[0]])
    .sort((a, b) => a[2] - b[2]);
  const [x, y] = ends[0];
  context.fillStyle = ink;
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "right";
  for (const [z, value] of [
    [0, range[0]],
    [1, range[1]],
  ]) {
    const [left, top] = project(x, y, z),
      text = format(value);
    context.textAlign = left - 8 < context.measureText(text).width ? "left" : "right";
    context.fillText(
      text,
      context.textAlign === "left" ? 0 : left - 7,
      top + (context.textAlign === "left" ? -5 : 4),
    );
  }
}

/** Distances from the model, along the two sides that are near. */
function drawDistances(context, project, sin, cos, [x, y], ink) {
  const near = [sin > 0 ? -1 : 1, cos > 0 ? -1 : 1],
    [left, top] = project(0, 0, 0);
  context.fillStyle = ink;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  const write = (place, text) => {
    const [right, below] = project(...place, 0),
      away = Math.hypot(right - left, below - top) || 1;
    context.fillText(
      text,
      right + (14 * (right - left)) / away,
      below + (12 * (below - top)) / away + 4,
    );
  };
  for (const [at, text] of x) write([at, near[1]], text);
  for (const [at, text] of y) write([near[0], at], text);
}

function drawModel(context, [x, y], text, style) {
  context.beginPath();
  context.arc(x, y, 4.5, 0, 7);
  context.fillStyle = "#fff";
  context.strokeStyle = "#000";
  context.lineWidth = 1.6;
  context.fill();
  context.stroke();
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.lineWidth = 3.5;
  context.strokeStyle = style.getPropertyValue("--paper");
  context.strokeText(text, x, y - 11);
  context.fillStyle = style.getPropertyValue("--ink");
  context.fillText(text, x, y - 11);
}
