/* Loss surfaces, planes through models, and lines between models. */

/** Loss or error: what the height shows. */
function measured(items, key, part) {
  const there = ["loss", "error"].filter((name) => items.every((item) => item[name]));
  if (!there.includes(remembered(key, there[0]))) state[key] = there[0];
  return there.length > 1
    ? choices(
        "Height",
        key,
        there.map((name) => [name, name === "loss" ? "Loss" : "Error"]),
        part,
      )
    : null;
}

function drawSurfaces(section, doc) {
  const { list, items } = comparable(doc.surface, "surface", "surface");
  const measure = measured(items, "surface height", "surface"),
    name = state["surface height"];
  const range = extent(
      items.flatMap((item) => item[name].flat()),
      0,
    ),
    format = name === "loss" ? number : percents;
  const wide = name === "loss" && range[0] > 0 && range[1] / range[0] > 30;
  remembered("surface log", wide ? "log" : "linear");
  const log = state["surface log"] === "log" && range[0] > 0;
  const { grid, controls } = surfaces(items, name, log, range, format);
  const scales =
    range[0] > 0
      ? choices(
          "Scale",
          "surface log",
          [
            ["linear", "Linear"],
            ["log", "Logarithmic"],
          ],
          "surface",
        )
      : null;
  const fewer = items.some(
    (item) => item.x.length < item.points[0] || item.y.length < item.points[1],
  );
  section.append(
    el("div", { class: "controls" }, measure, scales, controls, list),
    grid,
    colorKey(range[0], range[1], format, heights),
    note(
      sentence([
        `Height and colour are the ${name}${log ? ", on a logarithmic axis" : ""}, on the same scale and along the same directions in every picture; the dot is the model.`,
        items.every((item) => known(item.length))
          ? "The numbers along both sides are distances from the model in parameter space."
          : items.some((item) => known(item.length))
            ? ""
            : "The numbers along both sides are distances from the model, in lengths of its weights.",
        fewer ? "Fewer points are drawn than were measured." : "",
      ]),
      "Drag sideways, or use the arrow keys or the buttons: all turn together.",
    ),
    note(filterNormalised(items, doc)),
    el(
      "details",
      {
        class: "data",
        "data-key": "data surface",
        toggle: (event) => {
          if (event.currentTarget.open && event.currentTarget.children.length === 1)
            event.currentTarget.append(
              ...items.map((item) =>
                el(
                  "div",
                  {},
                  named(item),
                  scrolling(
                    dataTable(`${item.label}: ${name}`, {
                      heads: ["y \\ x", ...item.x.map((x) => plain(x * (item.length || 1)))],
                      rows: item.y.map((y, j) => [
                        plain(y * (item.length || 1)),
                        ...item[name][j].map((value) => format(value)),
                      ]),
                    }),
                    `Data of ${item.label}`,
                  ),
                ),
              ),
            ),
              settle();
        },
      },
      el("summary", {}, "Data as table"),
    ),
  );
}

/** Why a surface may be steep where λ₁ is small: what it is drawn along, and how long the weights are. */
function filterNormalised(items, doc) {
  const norms = items
    .map((item) => [
      item.label,
      doc.curvature.find(
        (one) => one.run === item.run && one.label === item.label && known(one.norm),
      )?.norm,
    ])
    .filter(([, norm]) => known(norm));
  return sentence([
    "Surfaces are filter-normalised: along both directions each filter is as long as the model's own, so one length of a direction is as far as the weights are long.",
    "A model whose weights are three times as long is looked at three times as far around: its surface can be the steepest though its λ₁, for steps of one length in all models, is the smallest. λ₁‖w‖² among the curvatures is on the scale of these pictures.",
    norms.length
      ? `Norm of the weights: ${norms.map(([label, norm]) => `${label} ${number(norm)}`).join("; ")}.`
      : "",
  ]);
}

function drawPlanes(section, doc) {
  const { list, items } = comparable(doc.plane, "plane", "plane");
  const measure = measured(items, "plane height", "plane"),
    name = state["plane height"];
  const range = extent(
    items.flatMap((item) => item[name].flat()),
    0,
  );
  section.append(
    el("div", { class: "controls" }, measure, list),
    el(
      "div",
      { class: "panels" },
      items.map((item) =>
        figure(item.title, "", plane(item, name, range), () => ({
          heads: ["model", "x", "y", "loss", "error"],
          rows: item.marks.map((mark) => [
            mark.name,
            plain(mark.x),
            plain(mark.y),
            number(mark.loss),
            percents(mark.error),
          ]),
        })),
      ),
    ),
    el(
      "p",
      { class: "note" },
      `Colours are ${name === "loss" ? "how far the loss lies above the least one, on a logarithmic scale" : "the error"}, the same in every picture. Both axes are distances in parameter space; their scales may differ.`,
    ),
    el(
      "p",
      { class: "note" },
      ...coded(
        "Two models lie in different basins if the loss rises on the way from one to the other: the rise is the barrier between the basins. A contour line alone shows no barrier: contour lines also cross the slope of a single basin. `fedflat analyse --interpolate A B` measures the barrier on the straight line between two models.",
      ),
    ),
  );
}

function drawBetween(section, doc) {
  const { list, items } = comparable(doc.interpolate, "between", "interpolate");
  section.append(
    el("div", { class: "controls" }, list),
    ...items.map((item) =>
      el(
        "div",
        { class: "pair" },
        ["loss", "error"]
          .filter((name) => item[name])
          .map((name) => {
            const found = [
              {
                method: item.method,
                name,
                x: item.gamma,
                y: item[name],
                low: item[name],
                high: item[name],
              },
            ];
            const share = name === "error",
              options = {
                xTitle: "γ",
                name: `${item.title} ${name}`,
                yTitle: share ? "%" : "",
                xFormat: plain,
                yFormat: share ? percentTick : plain,
                yText: share ? percents : number,
                floor: 0,
              };
            return figure(
              `${share ? "Error" : "Loss"} from ${item.b} to ${item.a}`,
              sentence([
                `γ is 0 at ${item.b} and 1 at ${item.a}.`,
                !share && known(item.barrier)
                  ? `Barrier, the most by which the loss rises above the straight line between both: ${number(item.barrier)}.`
                  : "",
              ]),
              lines(found, {
                ...options,
                sentence: `The ${name} on the line from ${item.b} to ${item.a}: at most ${options.yText(Math.max(...item[name].filter(known)))}.`,
              }),
              () => curveTable(found, options),
            );
          }),
      ),
    ),
  );
}

Object.assign(DRAWINGS, { surface: drawSurfaces, plane: drawPlanes, interpolate: drawBetween });
