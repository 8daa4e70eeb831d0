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
  section.append(
    ...(boards.length > 1 ? [el("div", { class: "controls" }, axis)] : []),
    ...boards.flatMap((board) => [
      sectionHead(board),
      el("div", { class: "controls" }, legendOf(doc, board), board.which ? null : axis),
      boardCurves(doc, board),
    ]),
    note(curveNote(doc), "Point at a chart, or focus it and use the arrow keys, to read values."),
  );
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
