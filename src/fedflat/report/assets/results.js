/* The results as a table, the curves of training, what was watched, and how the runs were made. */

/** A number and, below it or behind it, its spread. */
const spreadPercent = (value, off) => (known(value) && known(off) ? [percent(value), percent(off)] : [percent(value)]);
const spread = (value, off) => (known(value) && known(off) ? [number(value), around(value, off)] : [number(value)]);
const cell = (said) => (Array.isArray(said) && said.length > 1 ? [said[0], " ", el("span", { class: "off" }, `± ${said[1]}`)] : [said].flat());

/** The columns of the table: a head, the number to sort by, the text to show. Columns nobody has are left out. */
function columns(doc) {
  const target = doc.target === null ? "" : `${percent(doc.target)}\u00a0%`;
  const accuracy = (m) => (m.diverged && m.diverged === m.seeds ? "diverged" : known(m.accuracy) ? spreadPercent(m.accuracy, m.spread) : known(m.now) ? `${percent(m.now)} so far` : "–");
  return [
    ["method", "Method", (m) => m.name, (m) => m.name],
    ["accuracy", "Accuracy %", (m) => m.accuracy ?? m.now, accuracy],
    ["personal", "Personal %", (m) => m.personal, (m) => spreadPercent(m.personal, m.personal_spread)],
    ["loss", "Loss", (m) => m.loss, (m) => number(m.loss)],
    ["lambda_1", "λ₁", (m) => m.lambda_1, (m) => spread(m.lambda_1, m.lambda_1_spread)],
    ["scaled", "λ₁‖w‖²", (m) => m.scaled, (m) => spread(m.scaled, m.scaled_spread)],
    ["trace", "Trace", (m) => m.trace, (m) => spread(m.trace, m.trace_spread)],
    ["rounds_to_target", `Rounds\u00a0to ${target}`, (m) => m.rounds_to_target, (m) => whole(m.rounds_to_target)],
    ["bytes_to_target", `Sent\u00a0to ${target}`, (m) => m.bytes_to_target, (m) => bytes(m.bytes_to_target)],
    ["bytes", "Sent\u00a0in\u00a0all", (m) => m.bytes, (m) => bytes(m.bytes)],
    ["seconds", "Time", (m) => m.seconds, (m) => seconds(m.seconds)],
    ["speed", "Samples/s", (m) => m.speed, (m) => whole(m.speed)],
  ].filter(([key, , value]) => key === "method" || key === "accuracy" || doc.methods.some((method) => known(value(method))));
}

function drawResults(section, doc) {
  const heads = columns(doc), sort = kept("sort", { key: "", down: false });
  const value = heads.find(([key]) => key === sort.key)?.[2];
  const order = doc.methods.map((_, i) => i);
  if (value) order.sort((a, b) => compare(value(doc.methods[a]), value(doc.methods[b])) * (sort.down ? -1 : 1));
  const head = ([key, name]) => el("th", { scope: "col", "aria-sort": sort.key === key ? (sort.down ? "descending" : "ascending") : "none" },
    el("button", { type: "button", "data-key": `sort ${key}`, click: () => {
      state.sort = { key, down: sort.key === key ? !sort.down : !["method", "loss", "lambda_1", "scaled", "trace"].includes(key) };
      redraw("results");
    } }, name));
  const row = (i) => el("tr", { class: doc.ahead === i ? "best" : "" },
    heads.map(([key, , , text]) => key === "method" ? el("th", { scope: "row" }, el("div", {}, sign(i), el("span", {}, el("code", {}, text(doc.methods[i])), counted(doc.methods[i]))))
      : el("td", {}, cell(text(doc.methods[i])))));
  section.append(scrolling(el("table", { class: "results" }, el("caption", { class: "unseen" }, "Results of the methods"),
    el("thead", {}, el("tr", {}, heads.map(head))), el("tbody", {}, order.map(row))), "Table of results"), note(tableNote(doc), "Click a head to sort."));
}

function counted(method) {
  const seeds = method.seeds === method.begun ? (method.seeds > 1 ? `${method.seeds} seeds` : "") : `${method.seeds} of ${method.begun} seeds have ended`;
  return el("small", {}, [seeds, method.diverged ? `${method.diverged} diverged` : ""].filter(Boolean).join(", "));
}

function compare(a, b) {
  if (typeof a === "string") return a.localeCompare(b);
  return (known(a) ? a : -Infinity) - (known(b) ? b : -Infinity);
}

function tableNote(doc) {
  const seeds = doc.methods.some((m) => m.seeds > 1);
  return sentence([
    `Accuracy and loss on the test set: ${doc.last > 1 ? `mean of the evaluations in the last ${doc.last} rounds` : "the last evaluation"}${seeds ? ", ± the standard deviation over seeds" : ""}.`,
    doc.target !== null ? `Target ${percent(doc.target)} %${doc.target_of_first ? ": the accuracy of the first method" : ""}.` : "",
    doc.methods.length > 1 && doc.ahead === null ? "No row is marked: no method is ahead of all others by more than the spread." : "",
    doc.methods.some((m) => known(m.lambda_1)) ? `λ₁${doc.methods.some((m) => known(m.trace)) ? " and trace" : ""} of the Hessian${doc.methods.some((m) => known(m.scaled)) ? ", ‖w‖ the norm of the weights" : ""}: ${doc.curvature_of}.` : "",
  ]);
}

const MEASURES = { accuracy: "Accuracy", loss: "Test loss", train_loss: "Training loss", personal: "Personal accuracy", clients: "Clients' accuracy" };
const AXES = {
  round: { name: "Rounds", xTitle: "round", xFormat: whole },
  bytes: { name: "Bytes", xTitle: "sent", xFormat: bytes },
  seconds: { name: "Time", xTitle: "time", xFormat: seconds },
};

function series(doc, axis, measure, field = "curves") {
  return doc.methods.map((m, method) => ({ method, name: m.name, of: m[field][measure] }))
    .filter((one) => one.of && one.of[axis]).map(({ method, name, of }) => ({ method, name, x: of[axis], y: of.mean, low: of.low, high: of.high }));
}

function drawTraining(section, doc) {
  kept("axis", "round");
  const there = Object.keys(MEASURES).filter((name) => series(doc, "round", name).length), odd = there.length % 2;
  section.append(el("div", { class: "controls" }, doc.methods.length > 1 ? legend(doc.methods.map((m, place) => ({ ...m, place }))) : null,
    choices("Horizontal axis", "axis", Object.entries(AXES).map(([key, axis]) => [key, axis.name]), "training")),
    el("div", { class: "pair" }, there.map((measure, place) => {
      const found = series(doc, state.axis, measure), share = !measure.endsWith("loss");
      const options = { ...AXES[state.axis], name: measure, yTitle: share ? "%" : "", yFormat: share ? percentTick : plain, ySaid: share ? percents : number, floor: 0, height: odd && !place ? 340 : 280 };
      return figure(MEASURES[measure], "", lines(found, { ...options, sentence: curveSaid(found, MEASURES[measure], options) }), () => curveTable(found, options), odd && !place ? "whole" : "");
    })), note(curveNote(doc), "Point at a chart, or focus it and use the arrow keys, to read values."));
}

function curveSaid(found, measure, options) {
  const ends = found.map((one) => { const i = one.y.findLastIndex(known); return i < 0 ? "" : `${one.name} ends at ${options.ySaid(one.y[i])} (${options.xTitle} ${options.xFormat(one.x[i])})`; });
  return `${measure} against ${options.xTitle}: ${ends.filter(Boolean).join("; ")}. Arrow keys read values.`;
}

function curveNote(doc) {
  const seeds = doc.methods.some((m) => m.begun > 1), all = doc.methods.flatMap((m) => Object.values(m.curves));
  const most = Math.max(...all.map((one) => one.evaluations)), drawn = Math.max(...all.map((one) => one.round.length));
  return sentence([
    seeds ? "Lines are means over the seeds that got so far, bands reach from the least to the largest." : "",
    drawn < most ? `Of ${whole(most)} evaluations, ${drawn} are drawn.` : "",
  ]);
}

function curveTable(found, { xTitle, xFormat, ySaid }) {
  const places = [...new Set(found.flatMap((one) => one.x.filter(known)))].sort((a, b) => a - b);
  return {
    heads: [xTitle, ...found.map((one) => one.name)],
    rows: places.map((x) => [xFormat(x), ...found.map((one) => { const i = one.x.indexOf(x); return i < 0 ? "" : one.low[i] === one.high[i] ? ySaid(one.y[i]) : `${ySaid(one.y[i])} (${ySaid(one.low[i])} to ${ySaid(one.high[i])})`; })]),
  };
}

const WATCHED = bare({
  drift: ["Drift", "The distance of clients' models from what they were sent, mean over clients and local epochs."],
  alignment: ["Alignment", "The cosine between what the cohort answers in a round and in the round before (sent minus returned, the mean over clients), before the server makes a step of it: 1 if they pull the same way, -1 if one undoes the other."],
  delta_eps: ["Error of the stale perturbation", "The distance, from 0 to 2ρ, between the server's perturbation, along last round's pseudo-gradient, and the one along the pseudo-gradient that this round's clients return from the unperturbed model."],
  param_norm: ["Norm of the parameters", "Of the server's model."],
  feature_norms: ["Norm of the outputs", "The mean norm of the model's outputs on a client's examples, mean over the round's clients."],
  client_lambda: ["λ₁ at the clients", "Largest eigenvalue of each client's model on its own data, mean over the round's clients."],
});

function drawWatched(section, doc) {
  const names = [...new Set(doc.methods.flatMap((m) => Object.keys(m.watch)))];
  if (doc.methods.length > 1) section.append(el("div", { class: "controls" }, legend(doc.methods.map((m, place) => ({ ...m, place })))));
  section.append(el("div", { class: "pair" }, names.map((name) => {
    const [title, note] = WATCHED[name] || [name, ""], found = series(doc, "round", name, "watch");
    const options = { ...AXES.round, name, yTitle: "", yFormat: plain, ySaid: number, height: 220 };
    return figure(title, note, lines(found, { ...options, sentence: curveSaid(found, title, options) }), () => curveTable(found, options));
  })));
  drawClasses(section, doc);
}

function drawClasses(section, doc) {
  if (!doc.classes.length) return;
  const seeds = [...new Set(doc.classes.map((one) => `seed ${one.seed}`))];
  const chosen = selection("Accuracy of classes", "classes", seeds, "watched");
  const items = doc.classes.filter((one) => `seed ${one.seed}` === state.classes);
  section.append(el("h3", {}, "Accuracy of each class"), el("p", { class: "note" }, "Stripes are classes that are learnt in one round and forgotten in the next."), chosen,
    el("div", { class: "panels" }, items.map((item) => {
      const last = item.values.map((row) => row.at(-1));
      const worst = last.indexOf(Math.min(...last.filter(known)));
      return figure(item, "", heat(item.values, {
        range: [0, 1], format: percents, rowTitle: "class", columnTitle: "round", places: item.round,
        cell: (j, i) => `class ${j}, round ${item.round[i]}: ${percents(item.values[j][i])}`,
        sentence: `Accuracy of ${item.values.length} classes over the rounds of ${item.label}; at the end class ${worst} is the least accurate with ${percents(last[worst])}.`,
      }), () => ({ heads: ["round", ...item.values.map((_, c) => `class ${c}`)], rows: item.round.map((r, i) => [r, ...item.values.map((row) => percents(row[i]))]) }));
    })));
}

const said = (name) => name.replaceAll("_", " ");

function drawMade(section, doc) {
  const one = doc.runs[0], shared = Object.entries(one.settings).filter(([name]) => doc.shared.includes(name));
  section.append(el("h3", {}, doc.runs.length > 1 ? "The same in all runs" : "Settings"), facts(shared.map(([name, value]) => [said(name), value])));
  doc.methods.forEach((method, place) => {
    const runs = method.runs.map((i) => doc.runs[i]), own = Object.entries(runs[0].settings).filter(([name]) => !doc.shared.includes(name));
    section.append(el("details", { class: "made", "data-key": `made ${place}`, open: doc.methods.length === 1 },
      el("summary", {}, sign(place), " ", el("code", {}, method.name)),
      facts([["stack", method.stack || "not readable by this version"], ...own.map(([name, value]) => [said(name), value])], "stack"),
      runs.map(drawRun)));
  });
}

function drawRun(run) {
  const machine = Object.entries(run.machine).map(([name, value]) => `${name} ${value}`).join(", ");
  return el("div", { class: "run" },
    el("p", {}, el("b", {}, `Seed ${run.seed}`), `: ${run.status === "running" ? `not finished, round ${run.round} of ${run.rounds}` : `${run.status} after round ${run.round}`}, ${seconds(run.seconds)}. fedflat ${run.fedflat}, ${run.made}. `, el("span", { class: "folder" }, run.folder)),
    el("p", { class: "note" }, machine),
    run.command ? el("pre", { tabindex: "0", "aria-label": "The command that repeats the run" }, el("code", {}, words(run.command))) : el("p", { class: "note" }, "Data, model or loss were given in Python: no command repeats this run."),
    run.replayed ? el("p", { class: "note" }, "Its clients or batches were given in a file, which --replay must name.") : null);
}

/** A command that may be broken between options only. */
const words = (command) => command.split(/ (?=--)/).flatMap((word, i) => [i ? " " : "", el("span", { class: "word" }, word)]);

const facts = (pairs, wide = "") => el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", { class: name === wide ? "wide" : "" }, el("dt", {}, name), el("dd", {}, value))));
