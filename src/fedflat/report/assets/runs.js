/* How the runs were made: settings, machines and commands. */

/** A name in code as words. */
const plainName = (name) => name.replaceAll("_", " ");
/** A text with the section it is about, where there are several. */
const inSection = (doc, { section }, text) =>
  doc.boards.length > 1 ? `${section}, ${text}` : text;

function drawMade(section, doc) {
  const one = doc.runs[0],
    shared = Object.entries(one.settings).filter(([name]) => doc.shared.includes(name));
  section.append(
    el("h3", {}, doc.runs.length > 1 ? "The same in all runs" : "Settings"),
    facts(shared.map(([name, value]) => [plainName(name), value])),
  );
  doc.methods.forEach((method, place) => {
    const runs = method.runs.map((i) => doc.runs[i]),
      own = Object.entries(runs[0].settings).filter(([name]) => !doc.shared.includes(name));
    section.append(
      el(
        "details",
        { class: "made", "data-key": `made ${place}`, open: doc.methods.length === 1 },
        el(
          "summary",
          {},
          sign(place),
          " ",
          el("code", {}, method.name),
          doc.boards.length > 1
            ? el("span", { class: "note" }, " on ", el("code", {}, doc.boards[method.board].title))
            : "",
        ),
        facts(
          [
            ["stack", method.stack || "not readable by this version"],
            ...own.map(([name, value]) => [plainName(name), value]),
          ],
          "stack",
        ),
        runs.map(drawRun),
      ),
    );
  });
}

function drawRun(run) {
  const machine = Object.entries(run.machine)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  return el(
    "div",
    { class: "run" },
    el(
      "p",
      {},
      el("b", {}, `Seed ${run.seed}`),
      `: ${run.status === "running" ? `not finished, round ${run.round} of ${run.rounds}` : `${run.status} after round ${run.round}`}, ${seconds(run.seconds)}. fedflat ${run.fedflat}, ${run.made}. `,
      el("span", { class: "folder" }, run.folder),
    ),
    el("p", { class: "note" }, machine),
    run.command
      ? el(
          "pre",
          { tabindex: "0", "aria-label": "The command that repeats the run" },
          el("code", {}, words(run.command)),
        )
      : el(
          "p",
          { class: "note" },
          "Data, model or loss were given in Python: no command repeats this run.",
        ),
    run.replayed
      ? el(
          "p",
          { class: "note" },
          "Its clients or batches were given in a file, which --replay must name.",
        )
      : null,
  );
}

/** A command that may be broken between options only. */
const words = (command) =>
  command
    .split(/ (?=--)/)
    .flatMap((word, i) => [i ? " " : "", el("span", { class: "word" }, word)]);

const facts = (pairs, wide = "") =>
  el(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) =>
      el("div", { class: name === wide ? "wide" : "" }, el("dt", {}, name), el("dd", {}, value)),
    ),
  );
