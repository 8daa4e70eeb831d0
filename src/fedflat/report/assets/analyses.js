/* What was analysed: curvature, the landscape, clients, corruptions. */

/** The analyses that can be compared: same section, same settings, same seed of the run. */
function comparable(items, key, part) {
  const name = (item) => inSection(shownDocument, item, [item.settings, `run seed ${item.seed}`].filter(Boolean).join(", "));
  const list = selection("Measured on", key, [...new Set(items.map(name))], part);
  return { list, items: items.filter((item) => name(item) === state[key]) };
}

function drawCurvature(section, doc) {
  const { list, items } = comparable(doc.curvature, "curvature", "curvature");
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({ ...doc.methods[place], place }));
  section.append(el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list), ...curvatureTable(doc));
  const pair = el("div", { class: "pair" });
  const spectra = items.filter((item) => item.eigenvalues?.length).map((item) => ({ method: item.method, name: item.label, y: item.eigenvalues }));
  if (spectra.length) pair.append(figure("Largest eigenvalues", "Each stem is an eigenvalue of the Hessian: the curvature for steps of one length. Low stems mean a flat minimum only among models whose weights are about as long.",
    stems(spectra, { xTitle: "place", yTitle: "", xFormat: whole, sentence: `Largest eigenvalues: ${spectra.map((one) => `${one.name} from ${number(one.y[0])} down to ${number(one.y.at(-1))}`).join("; ")}.` }),
    () => ({ heads: ["place", ...spectra.map((one) => one.name)], rows: spectra.reduce((a, b) => (a.y.length > b.y.length ? a : b)).y.map((_, i) => [i + 1, ...spectra.map((one) => number(one.y[i]))]) })));
  const densities = items.filter((item) => item.density).map((item) => ({ method: item.method, name: item.label, x: item.density.x, y: item.density.y, low: item.density.y, high: item.density.y }));
  const options = { name: "density", xTitle: "eigenvalue", yTitle: "density, logarithmic", xFormat: plain, ySaid: number, logY: true };
  if (densities.length) pair.append(figure("Density of all eigenvalues", "Mass far from zero makes a minimum sharp for steps of one length.",
    lines(densities, { ...options, sentence: `Density of eigenvalues on a logarithmic axis: ${densities.map((one) => `${one.name} from ${number(Math.min(...one.x))} to ${number(Math.max(...one.x))}`).join("; ")}.` }),
    () => curveTable(densities, options)));
  section.append(pair);
  drawLayers(section, items);
}

function curvatureTable(doc) {
  const columns = [
    ["data, partition, task", (c) => (doc.boards.length > 1 ? c.section : "–")],
    ["run seed", (c) => c.seed], ["λ₁", (c) => spread(c.lambda_1, c.subsample?.lambda_1_spread)], ["λ₁/λ₅", (c) => number(c.ratio)],
    ["norm ‖w‖", (c) => number(c.norm)], ["λ₁‖w‖²", (c) => spread(c.scaled, c.subsample?.lambda_1_spread * c.norm ** 2)],
    ["trace", (c) => (c.trace ? spread(c.trace.mean, c.trace.stderr) : "–")], ["loss", (c) => number(c.loss)],
    ["sharpness, 1st order", (c) => number(c.sharpness?.first_order)], ["ascent", (c) => number(c.sharpness?.ascent)], ["adaptive", (c) => number(c.sharpness?.adaptive)],
    ["examples", (c) => (c.of && c.of !== c.examples ? `${whole(c.examples)} of ${whole(c.of)}` : whole(c.examples))],
    ["measured on", (c) => c.settings],
  ].filter(([name, text]) => name === "measured on" ? new Set(doc.curvature.map((c) => c.settings)).size > 1 : doc.curvature.some((item) => String(text(item)) !== "–"));
  const table = el("table", { class: "wide" }, el("caption", { class: "unseen" }, "Curvature of every run"),
    el("thead", {}, el("tr", {}, ["method", ...columns.map(([name]) => name)].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, doc.curvature.map((item) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, item.label)), columns.map(([, text]) => el("td", {}, cell(text(item))))))));
  const parts = doc.curvature.find((item) => known(item.subsample?.lambda_1_spread))?.subsample;
  return [scrolling(table, "Table of curvatures"), note(sentence([
    doc.curvature.some((item) => known(item.scaled)) ? "λ₁ is the curvature for steps of one length in all models; λ₁‖w‖² that for steps in proportion to the model's own weights w, as loss surfaces show it. A model may be the flatter of two by one of them and the sharper by the other." : "",
    parts ? `± of λ₁ and λ₁‖w‖²: the standard deviation over ${known(parts.parts) ? whole(parts.parts) : "several"} disjoint parts of the examples${known(parts.examples_each) ? `, ${whole(parts.examples_each)} each` : ""}.` : "",
    doc.curvature.some((item) => item.trace) ? "± of the trace: its standard error over random vectors." : ""]))];
}

function drawLayers(section, items) {
  const layered = items.filter((item) => item.layers && Object.keys(item.layers).length);
  if (!layered.length) return;
  const names = [...new Set(layered.flatMap((item) => Object.keys(item.layers)))];
  const sharpest = layered.map((item) => { const [name, value] = Object.entries(item.layers).reduce((a, b) => (b[1] > a[1] ? b : a)); return `${item.label}: ${name} with ${number(value)}`; });
  section.append(figure("λ₁ of each layer", "The largest eigenvalue of each layer's own block of the Hessian.",
    dotRows(names.map((name) => ({ name, dots: layered.map((item) => ({ method: item.method, value: item.layers[name] })) })), { xTitle: "λ₁", from: 0, sentence: `Largest eigenvalue of each layer. The sharpest layer of ${sharpest.join("; of ")}.` }),
    () => ({ heads: ["layer", ...layered.map((item) => item.label)], rows: names.map((name) => [name, ...layered.map((item) => number(item.layers[name]))]) })));
}

/** Loss or error: what the height shows. */
function measured(items, key, part) {
  const there = ["loss", "error"].filter((name) => items.every((item) => item[name]));
  if (!there.includes(kept(key, there[0]))) state[key] = there[0];
  return there.length > 1 ? choices("Height", key, there.map((name) => [name, name === "loss" ? "Loss" : "Error"]), part) : null;
}

function drawSurfaces(section, doc) {
  const { list, items } = comparable(doc.surface, "surface", "surface");
  const measure = measured(items, "surface height", "surface"), name = state["surface height"];
  const range = extent(items.flatMap((item) => item[name].flat()), 0), format = name === "loss" ? number : percents;
  const wide = name === "loss" && range[0] > 0 && range[1] / range[0] > 30;
  kept("surface log", wide ? "log" : "linear");
  const log = state["surface log"] === "log" && range[0] > 0;
  const { grid, controls } = surfaces(items, name, log, range, format);
  const scales = range[0] > 0 ? choices("Scale", "surface log", [["linear", "Linear"], ["log", "Logarithmic"]], "surface") : null;
  const fewer = items.some((item) => item.x.length < item.points[0] || item.y.length < item.points[1]);
  section.append(el("div", { class: "controls" }, measure, scales, controls, list), grid, colorKey(range[0], range[1], format, heights),
    note(sentence([
      `Height and colour are the ${name}${log ? ", on a logarithmic axis" : ""}, on the same scale and along the same directions in every picture; the dot is the model.`,
      items.every((item) => known(item.length)) ? "The numbers along both sides are distances from the model in parameter space." : items.some((item) => known(item.length)) ? "" : "The numbers along both sides are distances from the model, in lengths of its weights.",
      fewer ? "Fewer points are drawn than were measured." : ""]), "Drag sideways, or use the arrow keys or the buttons: all turn together."),
    note(filterNormalised(items, doc)),
    el("details", { class: "data", "data-key": "data surface", toggle: (event) => {
      if (event.currentTarget.open && event.currentTarget.children.length === 1)
        event.currentTarget.append(...items.map((item) => el("div", {}, named(item), scrolling(dataTable(`${item.label}: ${name}`, { heads: ["y \\ x", ...item.x.map((x) => plain(x * (item.length || 1)))], rows: item.y.map((y, j) => [plain(y * (item.length || 1)), ...item[name][j].map((value) => format(value))]) }), `Data of ${item.label}`)))), settle();
    } }, el("summary", {}, "Data as table")));
}

/** Why a surface may be steep where λ₁ is small: what it is drawn along, and how long the weights are. */
function filterNormalised(items, doc) {
  const norms = items.map((item) => [item.label, doc.curvature.find((one) => one.run === item.run && one.label === item.label && known(one.norm))?.norm]).filter(([, norm]) => known(norm));
  return sentence([
    "Surfaces are filter-normalised: along both directions each filter is as long as the model's own, so one length of a direction is as far as the weights are long.",
    "A model whose weights are three times as long is looked at three times as far around: its surface can be the steepest though its λ₁, for steps of one length in all models, is the smallest. λ₁‖w‖² among the curvatures is on the scale of these pictures.",
    norms.length ? `Norm of the weights: ${norms.map(([label, norm]) => `${label} ${number(norm)}`).join("; ")}.` : ""]);
}

function drawPlanes(section, doc) {
  const { list, items } = comparable(doc.plane, "plane", "plane");
  const measure = measured(items, "plane height", "plane"), name = state["plane height"];
  const range = extent(items.flatMap((item) => item[name].flat()), 0);
  section.append(el("div", { class: "controls" }, measure, list), el("div", { class: "panels" }, items.map((item) => figure(item.title, "", plane(item, name, range),
    () => ({ heads: ["model", "x", "y", "loss", "error"], rows: item.marks.map((mark) => [mark.name, plain(mark.x), plain(mark.y), number(mark.loss), percents(mark.error)]) })))),
    el("p", { class: "note" }, `Colours are ${name === "loss" ? "how far the loss lies above the least one, on a logarithmic scale" : "the error"}, the same in every picture. Both axes are distances in parameter space; their scales may differ.`),
    el("p", { class: "note" }, ...coded("Two models lie in different basins if the loss rises on the way from one to the other: the rise is the barrier between the basins. A contour line alone shows no barrier: contour lines also cross the slope of a single basin. `fedflat analyse --interpolate A B` measures the barrier on the straight line between two models.")));
}

function drawBetween(section, doc) {
  const { list, items } = comparable(doc.interpolate, "between", "interpolate");
  section.append(el("div", { class: "controls" }, list), ...items.map((item) => el("div", { class: "pair" }, ["loss", "error"].filter((name) => item[name]).map((name) => {
    const found = [{ method: item.method, name, x: item.gamma, y: item[name], low: item[name], high: item[name] }];
    const share = name === "error", options = { xTitle: "γ", name: `${item.title} ${name}`, yTitle: share ? "%" : "", xFormat: plain, yFormat: share ? percentTick : plain, ySaid: share ? percents : number, floor: 0 };
    return figure(`${share ? "Error" : "Loss"} from ${item.b} to ${item.a}`, sentence([
      `γ is 0 at ${item.b} and 1 at ${item.a}.`, !share && known(item.barrier) ? `Barrier, the most by which the loss rises above the straight line between both: ${number(item.barrier)}.` : ""]),
      lines(found, { ...options, sentence: `The ${name} on the line from ${item.b} to ${item.a}: at most ${options.ySaid(Math.max(...item[name].filter(known)))}.` }), () => curveTable(found, options));
  }))));
}

function drawPartition(section, doc) {
  const name = (one) => inSection(doc, one, one.label);
  section.append(el("div", { class: "controls" }, selection("Partition", "partition", doc.partition.map(name), "partition")));
  const item = doc.partition.find((one) => name(one) === state.partition);
  const clients = item.counts.length, classes = item.counts[0].length;
  const turned = Array.from({ length: classes }, (_, c) => item.counts.map((row) => row[c]));
  const held = item.counts.map((row) => row.filter((count) => count > 0).length), most = Math.max(...turned.flat());
  const mean = (held.reduce((a, b) => a + b, 0) / clients).toFixed(1);
  if (classes === 1) return void section.append(drawSizes(item, turned[0]));
  section.append(figure("Who holds which classes", `A client holds ${mean} of ${classes} classes on average.${item.clients > clients ? ` The first ${clients} of ${item.clients} clients.` : ""}`,
    heat(turned, { range: [0, most], format: whole, rowTitle: "class", columnTitle: "client", cell: (j, i) => `client ${i} holds ${whole(turned[j][i])} examples of class ${j}`, sentence: `Examples of ${classes} classes at ${clients} clients; a client holds ${mean} classes on average and at most ${most} examples of one class.` }),
    () => ({ heads: ["client", ...turned.map((_, c) => `class ${c}`)], rows: item.counts.map((row, k) => [k, ...row.map(whole)]) })));
}

/** Where examples have no class each: only how many there are. */
function drawSizes({ clients: all }, sizes) {
  const least = Math.min(...sizes), most = Math.max(...sizes), few = all > sizes.length ? ` The first ${sizes.length} of ${all} clients.` : "";
  const said = `A client holds ${least === most ? whole(most) : `${whole(least)} to ${whole(most)}`} examples.`;
  return figure("How many examples clients hold", said + few,
    heat([sizes], { range: [0, most], format: whole, rowTitle: "", columnTitle: "client", cell: (_, i) => `client ${i} holds ${whole(sizes[i])} examples`, sentence: said }),
    () => ({ heads: ["client", "examples"], rows: sizes.map((size, k) => [k, whole(size)]) }));
}

/** Labels before, client by client in the order of their groups, and after, group by group. */
function drawGroups(section, doc) {
  const name = (one) => inSection(doc, one, one.label);
  section.append(el("div", { class: "controls" }, selection("Run", "groups", doc.groups.map(name), "groups")));
  const item = doc.groups.find((one) => name(one) === state.groups), many = item.sizes.length;
  const least = Math.min(...item.sizes), most = Math.max(...item.sizes);
  section.append(el("p", { class: "note" }, `${many} groups of ${least === most ? most : `${least} to ${most}`} clients, by ${item.by}.`));
  if (!item.before) return;
  const home = item.sizes.flatMap((size, at) => Array(size).fill(at));
  section.append(
    labelMap("Before: labels of clients, group by group", item.before, item.clients, "client", (i) => item.order[i], (i) => `client ${item.order[i]} of group ${home[i]}`),
    labelMap("After: labels of groups", item.after, many, "group", (i) => i, (i) => `group ${i}`));
}

function labelMap(title, rows, of, what, name, who) {
  const sums = rows.map((row) => row.reduce((a, b) => a + b, 0) || 1), classes = rows[0].length;
  const shares = Array.from({ length: classes }, (_, c) => rows.map((row, k) => row[c] / sums[k]));
  const held = (rows.reduce((sum, row) => sum + row.filter((count) => count > 0).length, 0) / rows.length).toFixed(1);
  return figure(title, `A ${what} holds ${held} of ${classes} classes on average.${rows.length < of ? ` The first ${rows.length} of ${of} ${what}s.` : ""}`,
    heat(shares, { range: [0, 1], format: percents, rowTitle: "class", columnTitle: what, columnName: name, cell: (j, i) => `${who(i)}: ${percents(shares[j][i])} of its examples are of class ${j}`, sentence: `Shares of ${classes} classes at ${rows.length} ${what}s; a ${what} holds ${held} classes on average.` }),
    () => ({ heads: [what, ...shares.map((_, c) => `class ${c}`)], rows: rows.map((row, k) => [name(k), ...row.map(whole)]) }));
}

function drawLocalGlobal(section, doc) {
  const { list, items } = comparable(doc.local_global, "local", "local_global");
  section.append(list || "", el("p", { class: "note" }, "λ₁ as each client's own loss has it (local) and as the loss of all has it (global): a flat local minimum need not be a flat global one."),
    el("div", { class: "panels" }, items.map((item) => el("div", { class: "panel" }, named(item), scrolling(el("table", {}, el("caption", { class: "unseen" }, `${item.label} after round ${item.round}`),
      el("thead", {}, el("tr", {}, ["client", "local", "global"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, [...item.clients, { client: "mean", local: item.local, global: item.global }].map((one) => el("tr", { class: one.client === "mean" ? "best" : "" }, el("th", { scope: "row" }, one.client), el("td", {}, number(one.local)), el("td", {}, number(one.global)))))), `Local and global, ${item.label}`)))));
}

function drawCorruptions(section, doc) {
  const { list, items } = comparable(doc.corruptions, "corruptions", "corruptions");
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({ ...doc.methods[place], place }));
  section.append(el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list));
  boardsOf(doc).forEach(({ judged, methods: members }) => {
    const own = items.filter((item) => members.includes(item.method));
    if (own.length) drawCorrupted(section, own, judged);
  });
}

function drawCorrupted(section, items, judged) {
  const names = [...new Set(items.flatMap((item) => Object.keys(item.kinds)))];
  const mean = (values = []) => { const there = values.filter(known); return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null; };
  const rows = [["clean", (item) => item.clean], ...names.map((name) => [plainName(name), (item) => mean(item.kinds[name])]), ["mean of all", (item) => item.mean]];
  section.append(
    figure(`${judged.title} on corrupted images`, sentence(["Mean over severities.", ...new Set(items.map((item) => item.source && `Images: ${item.source}.`))]), dotRows(rows.map(([name, of]) => ({ name, dots: items.map((item) => ({ method: item.method, value: of(item) })) })),
      { xTitle: judged.unit ? `${judged.label}, ${judged.unit}` : judged.label, xFormat: judged.tick, sentence: `${judged.title} on corrupted images: ${items.map((item) => `${item.label} ${judged.said(item.clean)} on clean ones, ${judged.said(item.mean)} on average over corruptions`).join("; ")}.` }),
      () => ({ heads: ["kind", ...items.map((item) => item.label)], rows: rows.map(([name, of]) => [name, ...items.map((item) => judged.said(of(item)))]) })),
    el("div", { class: "panels" }, items.filter((item) => Object.values(item.kinds).some((row) => row.length)).map((item) => {
      const values = names.map((name) => item.kinds[name] || []), widest = Math.max(...values.map((row) => row.length));
      return figure(item, "", heat(values.map((row) => Array.from({ length: widest }, (_, i) => row[i] ?? null)), {
        range: extent(items.flatMap((one) => Object.values(one.kinds).flat()), 0), format: judged.said, rowTitle: "kind", columnTitle: "severity", rowName: (j) => plainName(names[j]), columnName: (i) => i + 1,
        cell: (j, i) => `${plainName(names[j])}, severity ${i + 1}: ${judged.said(values[j][i])}`, sentence: `${judged.title} of ${item.label} by kind of corruption and severity, on average ${judged.said(item.mean)}.`,
      }), () => ({ heads: ["kind", ...Array.from({ length: widest }, (_, i) => `severity ${i + 1}`)], rows: names.map((name, j) => [plainName(name), ...values[j].map(judged.said)]) }));
    })));
}

/** An analysis without a drawing of its own: numbers as a table, lists as lines, lists of lists as heat maps. */
function drawAnyAnalysis(section, doc, kind) {
  const { list, items } = comparable(doc[kind], kind, kind);
  const own = ["method", "run", "seed", "label", "section", "settings"];
  const names = [...new Set(items.flatMap(Object.keys))].filter((name) => !own.includes(name));
  const of = (test) => names.filter((name) => items.some((item) => test(item[name])));
  const single = of((value) => typeof value === "number" || typeof value === "string");
  const isList = (value) => Array.isArray(value) && value.length > 0 && !Array.isArray(value[0]) && typeof value[0] !== "object";
  const isTable = (value) => Array.isArray(value) && value.length > 0 && Array.isArray(value[0]);
  const text = (value) => (typeof value === "number" ? number(value) : value ?? "–");
  const methods = [...new Set(items.map((item) => item.method))].map((place) => ({ ...doc.methods[place], place }));
  section.append(el("div", { class: "controls" }, methods.length > 1 ? legend(methods) : null, list));
  if (single.length)
    section.append(scrolling(dataTable("Values", {
      heads: ["method", ...single.map(plainName)],
      rows: items.map((item) => [item.label, ...single.map((name) => text(item[name]))]),
    }), "Table of values"));
  const pair = el("div", { class: "pair" });
  for (const name of of(isList)) {
    const found = items.filter((item) => isList(item[name])).map((item) => ({
      method: item.method, name: item.label, x: item[name].map((_, i) => i), y: item[name], low: item[name], high: item[name],
    }));
    const options = { name: `${kind} ${name}`, xTitle: "place", yTitle: "", xFormat: whole, yFormat: plain, ySaid: number };
    pair.append(figure(plainName(name), "", lines(found, { ...options, sentence: `${plainName(name)} of ${found.map((one) => one.name).join("; ")}.` }), () => curveTable(found, options)));
  }
  section.append(pair);
  for (const name of of(isTable))
    section.append(el("h3", {}, plainName(name)), el("div", { class: "panels" }, items.filter((item) => isTable(item[name])).map((item) => {
      const rows = item[name];
      return figure(item, "", heat(rows, {
        range: extent(rows.flat(), 0), format: number, rowTitle: "row", columnTitle: "column",
        cell: (j, i) => `row ${j}, column ${i}: ${number(rows[j][i])}`,
        sentence: `${plainName(name)} of ${item.label}: ${rows.length} rows.`,
      }), () => ({ heads: ["row", ...rows[0].map((_, i) => i)], rows: rows.map((row, j) => [j, ...row.map((value) => number(value))]) }));
    })));
}

Object.assign(DRAWINGS, {
  curvature: drawCurvature,
  surface: drawSurfaces,
  plane: drawPlanes,
  interpolate: drawBetween,
  partition: drawPartition,
  local_global: drawLocalGlobal,
  corruptions: drawCorruptions,
});
