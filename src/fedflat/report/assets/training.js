/* The curves of training. */

/** What is drawn of a board: the name of the curve, its title, and whether it is the score or a loss. */
function measures(doc, { judged, headline, methods }) {
  const tests = testsOf(methods.map((i) => doc.methods[i]))
    .map((name) => [`tests.${name}`, `${judged.title}, ${name}`, true])
    .filter(([key]) => key !== "tests.drop");
  return [
    [headline.name, judged.title, true],
    ...tests,
    ...(headline.name === "loss" ? [] : [["loss", "Test loss", false]]),
    ["train_loss", "Training loss", false],
    ["personal", `Personal ${judged.label}`, true],
    ["clients", `Clients' ${judged.label}`, true],
  ];
}

const AXES = {
  round: { name: "Rounds", xTitle: "round", xFormat: whole },
  bytes: { name: "Bytes", xTitle: "sent", xFormat: bytes },
  clock: { name: "Simulated time", xTitle: "simulated time", xFormat: seconds },
  seconds: { name: "Time", xTitle: "time", xFormat: seconds },
};

/** The axes that some curve has. */
const axesOf = (doc) =>
  Object.entries(AXES).filter(([key]) =>
    doc.methods.some((m) => Object.values(m.curves).some((one) => one[key])),
  );

function series(doc, axis, measure, field = "curves", members = null) {
  return doc.methods
    .map((m, method) => ({ method, name: m.name, of: m[field][measure] }))
    .filter((one) => !members || members.includes(one.method))
    .filter((one) => one.of && one.of[axis])
    .map(({ method, name, of }) => ({
      method,
      name,
      x: of[axis],
      y: of.mean,
      low: of.low,
      high: of.high,
    }));
}

function drawTraining(section, doc) {
  if (!axesOf(doc).some(([key]) => key === remembered("axis", "round"))) state.axis = "round";
  const boards = boardsOf(doc),
    axis = choices(
      "Horizontal axis",
      "axis",
      axesOf(doc).map(([key, one]) => [key, one.name]),
      "training",
    );
  remembered("smoothing", "0");
  remembered("range", "settled");
  remembered("scale", "linear");
  const tools = el(
    "div",
    { class: "controls tools" },
    labelledChoices("Smoothing", "smoothing", SMOOTHING),
    labelledChoices("Vertical axis", "scale", [
      ["linear", "Linear"],
      ["log", "Logarithmic"],
    ]),
    labelledChoices("Range", "range", [
      ["settled", "Without the beginning"],
      ["whole", "Whole"],
    ]),
    state[`zoom ${state.axis}`]
      ? el(
          "button",
          {
            type: "button",
            "data-key": "zoom out",
            click: () => {
              state[`zoom ${state.axis}`] = null;
              redraw("training");
            },
          },
          "Show all rounds",
        )
      : null,
  );
  section.append(
    ...(boards.length > 1 ? [el("div", { class: "controls" }, axis)] : []),
    tools,
    ...boards.flatMap((board) => [
      sectionHead(board),
      el("div", { class: "controls" }, legendOf(doc, board), board.which ? null : axis),
      boardCurves(doc, board),
    ]),
    note(
      curveNote(doc),
      "Point at a chart, or focus it and use the arrow keys, to read values. Drag sideways, or press + and -, to zoom; a double click or 0 shows all.",
    ),
  );
}

const labelledChoices = (label, key, options) =>
  el(
    "div",
    { class: "select" },
    el("span", { "aria-hidden": "true" }, label),
    choices(label, key, options, "training"),
  );

/** The last rounds, whose mean is the score, if all runs of the board have the same ones. */
function denseRounds(doc, { methods, last }) {
  const rounds = new Set(methods.flatMap((i) => doc.methods[i].runs.map((r) => doc.runs[r].rounds)));
  const [all] = rounds;
  return rounds.size === 1 && last > 1 && last < all ? [all - last + 0.5, all] : null;
}

function boardCurves(doc, board) {
  const { judged, methods, which } = board;
  const there = measures(doc, board).filter(
      ([name]) => series(doc, "round", name, "curves", methods).length,
    ),
    odd = there.length % 2;
  return el(
    "div",
    { class: "pair" },
    there.map(([measure, called, score], place) => {
      const found = series(doc, state.axis, measure, "curves", methods),
        title = called;
      const options = {
        ...AXES[state.axis],
        name: measure + which,
        yTitle: score ? judged.unit : "",
        yFormat: score ? judged.tick : plain,
        yText: score ? judged.format : number,
        floor: 0,
        height: odd && !place ? 340 : 280,
        smoothing: state.smoothing,
        settled: state.range === "settled",
        logY: state.scale === "log",
        zoom: `zoom ${state.axis}`,
        part: "training",
        dense: state.axis === "round" ? denseRounds(doc, board) : null,
        denseText: `The score is the mean of these ${board.last} rounds.`,
      };
      return figure(
        title,
        "",
        lines(found, { ...options, sentence: describeCurves(found, title + which, options) }),
        () => curveTable(found, options),
        odd && !place ? "whole" : "",
        which,
      );
    }),
  );
}

function describeCurves(found, measure, options) {
  const ends = found.map((one) => {
    const i = one.y.findLastIndex(known);
    return i < 0
      ? ""
      : `${one.name} ends at ${options.yText(one.y[i])} (${options.xTitle} ${options.xFormat(one.x[i])})`;
  });
  return `${measure} against ${options.xTitle}: ${ends.filter(Boolean).join("; ")}. Arrow keys read values.`;
}

function curveNote(doc) {
  const seeds = doc.methods.some((m) => m.begun > 1),
    all = doc.methods.flatMap((m) => Object.values(m.curves));
  const most = Math.max(...all.map((one) => one.evaluations)),
    drawn = Math.max(...all.map((one) => one.round.length));
  return sentence([
    seeds
      ? "Lines are means over the seeds that got so far, bands reach from the least to the largest."
      : "",
    drawn < most ? `Of ${whole(most)} evaluations, ${drawn} are drawn.` : "",
    state.axis === "round" && boardsOf(doc).some((board) => denseRounds(doc, board))
      ? "Shaded: the last rounds, whose mean is the score."
      : "",
    state.smoothing === "0"
      ? ""
      : `Thick lines are moving means over ${100 * Number(state.smoothing)} % of the axis, thin lines the values.`,
    state.range === "settled" && state.scale === "linear"
      ? "Where the first tenth would squeeze the rest, the vertical axis leaves it out."
      : "",
  ]);
}

function curveTable(found, { xTitle, xFormat, yText }) {
  const places = [...new Set(found.flatMap((one) => one.x.filter(known)))].sort((a, b) => a - b);
  return {
    heads: [xTitle, ...found.map((one) => one.name)],
    rows: places.map((x) => [
      xFormat(x),
      ...found.map((one) => {
        const i = one.x.indexOf(x);
        return i < 0
          ? ""
          : one.low[i] === one.high[i]
            ? yText(one.y[i])
            : `${yText(one.y[i])} (${yText(one.low[i])} to ${yText(one.high[i])})`;
      }),
    ]),
  };
}
