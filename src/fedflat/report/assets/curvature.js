/* Curvature: a table, the largest eigenvalues, the density of all, and each layer. */

function drawCurvature(section, doc) {
  const { list, items } = comparable(doc.curvature, "curvature", "curvature");
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({
    ...doc.methods[place],
    place,
  }));
  section.append(
    el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list),
    ...curvatureTable(doc),
  );
  const pair = el("div", { class: "pair" });
  const spectra = items
    .filter((item) => item.eigenvalues?.length)
    .map((item) => ({ method: item.method, name: item.label, y: item.eigenvalues }));
  if (spectra.length)
    pair.append(
      figure(
        "Largest eigenvalues",
        "Each stem is an eigenvalue of the Hessian: the curvature for steps of one length. Low stems mean a flat minimum only among models whose weights are about as long.",
        stems(spectra, {
          xTitle: "place",
          yTitle: "",
          xFormat: whole,
          sentence: `Largest eigenvalues: ${spectra.map((one) => `${one.name} from ${number(one.y[0])} down to ${number(one.y.at(-1))}`).join("; ")}.`,
        }),
        () => ({
          heads: ["place", ...spectra.map((one) => one.name)],
          rows: spectra
            .reduce((a, b) => (a.y.length > b.y.length ? a : b))
            .y.map((_, i) => [i + 1, ...spectra.map((one) => number(one.y[i]))]),
        }),
      ),
    );
  const densities = items
    .filter((item) => item.density)
    .map((item) => ({
      method: item.method,
      name: item.label,
      x: item.density.x,
      y: item.density.y,
      low: item.density.y,
      high: item.density.y,
    }));
  const options = {
    name: "density",
    xTitle: "eigenvalue",
    yTitle: "density, logarithmic",
    xFormat: plain,
    yText: number,
    logY: true,
  };
  if (densities.length)
    pair.append(
      figure(
        "Density of all eigenvalues",
        "Mass far from zero makes a minimum sharp for steps of one length.",
        lines(densities, {
          ...options,
          sentence: `Density of eigenvalues on a logarithmic axis: ${densities.map((one) => `${one.name} from ${number(Math.min(...one.x))} to ${number(Math.max(...one.x))}`).join("; ")}.`,
        }),
        () => curveTable(densities, options),
      ),
    );
  section.append(pair);
  drawLayers(section, items);
}

function curvatureTable(doc) {
  const columns = [
    ["run seed", (c) => c.seed],
    ["λ₁", (c) => spread(c.lambda_1, c.subsample?.lambda_1_spread)],
    ["λ₁/λ₅", (c) => number(c.ratio)],
    ["norm ‖w‖", (c) => number(c.norm)],
    ["λ₁‖w‖²", (c) => spread(c.scaled, c.subsample?.lambda_1_spread * c.norm ** 2)],
    ["trace", (c) => (c.trace ? spread(c.trace.mean, c.trace.stderr) : "–")],
    ["loss", (c) => number(c.loss)],
    ["sharpness, 1st order", (c) => number(c.sharpness?.first_order)],
    ["ascent", (c) => number(c.sharpness?.ascent)],
    ["adaptive", (c) => number(c.sharpness?.adaptive)],
    [
      "examples",
      (c) =>
        c.of && c.of !== c.examples ? `${whole(c.examples)} of ${whole(c.of)}` : whole(c.examples),
    ],
    ["measured on", (c) => c.settings],
  ].filter(([name, text]) =>
    name === "measured on"
      ? new Set(doc.curvature.map((c) => c.settings)).size > 1
      : doc.curvature.some((item) => String(text(item)) !== "–"),
  );
  const rows = doc.curvature.map((item) => ({
    ...item,
    under: doc.boards.length > 1 ? item.section : "",
  }));
  const table = methodTable("Curvature of every run", columns, rows);
  const parts = doc.curvature.find((item) => known(item.subsample?.lambda_1_spread))?.subsample;
  return [
    scrolling(table, "Table of curvatures"),
    note(
      sentence([
        doc.curvature.some((item) => known(item.scaled))
          ? "λ₁ is the curvature for steps of one length in all models; λ₁‖w‖² that for steps in proportion to the model's own weights w, as loss surfaces show it. A model may be the flatter of two by one of them and the sharper by the other."
          : "",
        parts
          ? `± of λ₁ and λ₁‖w‖²: the standard deviation over ${known(parts.parts) ? whole(parts.parts) : "several"} disjoint parts of the examples${known(parts.examples_each) ? `, ${whole(parts.examples_each)} each` : ""}.`
          : "",
        doc.curvature.some((item) => item.trace)
          ? "± of the trace: its standard error over random vectors."
          : "",
      ]),
    ),
  ];
}

function drawLayers(section, items) {
  const layered = items.filter((item) => item.layers && Object.keys(item.layers).length);
  if (!layered.length) return;
  const names = [...new Set(layered.flatMap((item) => Object.keys(item.layers)))];
  const sharpest = layered.map((item) => {
    const [name, value] = Object.entries(item.layers).reduce((a, b) => (b[1] > a[1] ? b : a));
    return `${item.label}: ${name} with ${number(value)}`;
  });
  section.append(
    figure(
      "λ₁ of each layer",
      "The largest eigenvalue of each layer's own block of the Hessian.",
      dotRows(
        names.map((name) => ({
          name,
          dots: layered.map((item) => ({ method: item.method, value: item.layers[name] })),
        })),
        {
          xTitle: "λ₁",
          from: 0,
          sentence: `Largest eigenvalue of each layer. The sharpest layer of ${sharpest.join("; of ")}.`,
        },
      ),
      () => ({
        heads: ["layer", ...layered.map((item) => item.label)],
        rows: names.map((name) => [name, ...layered.map((item) => number(item.layers[name]))]),
      }),
    ),
  );
}

Object.assign(DRAWINGS, { curvature: drawCurvature });
