/* The clients: their data, their groups, and the sharpness of their models. */

function drawPartition(section, doc) {
  const name = (one) => inSection(doc, one, one.label);
  section.append(
    el(
      "div",
      { class: "controls" },
      selection("Partition", "partition", doc.partition.map(name), "partition"),
    ),
  );
  const item = doc.partition.find((one) => name(one) === state.partition);
  const clients = item.counts.length,
    classes = item.counts[0].length;
  const turned = Array.from({ length: classes }, (_, c) => item.counts.map((row) => row[c]));
  const held = item.counts.map((row) => row.filter((count) => count > 0).length),
    most = Math.max(...turned.flat());
  const mean = (held.reduce((a, b) => a + b, 0) / clients).toFixed(1);
  if (classes === 1) return void section.append(drawSizes(item, turned[0]));
  section.append(
    figure(
      "Who holds which classes",
      `A client holds ${mean} of ${classes} classes on average.${item.clients > clients ? ` The first ${clients} of ${item.clients} clients.` : ""}`,
      heat(turned, {
        range: [0, most],
        format: whole,
        rowTitle: "class",
        columnTitle: "client",
        rowName: (j) => item.names?.[j] ?? j,
        cell: (j, i) =>
          `client ${i} holds ${whole(turned[j][i])} examples of class ${item.names?.[j] ?? j}`,
        sentence: `Examples of ${classes} classes at ${clients} clients; a client holds ${mean} classes on average and at most ${most} examples of one class.`,
      }),
      () => ({
        heads: ["client", ...turned.map((_, c) => item.names?.[c] ?? `class ${c}`)],
        rows: item.counts.map((row, k) => [k, ...row.map(whole)]),
      }),
    ),
  );
}

/** Where examples have no class each: only how many there are. */
function drawSizes({ clients: all }, sizes) {
  const least = Math.min(...sizes),
    most = Math.max(...sizes),
    few = all > sizes.length ? ` The first ${sizes.length} of ${all} clients.` : "";
  const text = `A client holds ${least === most ? whole(most) : `${whole(least)} to ${whole(most)}`} examples.`;
  return figure(
    "How many examples clients hold",
    text + few,
    heat([sizes], {
      range: [0, most],
      format: whole,
      rowTitle: "",
      columnTitle: "client",
      cell: (_, i) => `client ${i} holds ${whole(sizes[i])} examples`,
      sentence: text,
    }),
    () => ({ heads: ["client", "examples"], rows: sizes.map((size, k) => [k, whole(size)]) }),
  );
}

/** Labels before, client by client in the order of their groups, and after, group by group. */
function drawGroups(section, doc) {
  const name = (one) => inSection(doc, one, one.label);
  section.append(
    el("div", { class: "controls" }, selection("Run", "groups", doc.groups.map(name), "groups")),
  );
  const item = doc.groups.find((one) => name(one) === state.groups),
    many = item.sizes.length;
  const least = Math.min(...item.sizes),
    most = Math.max(...item.sizes);
  section.append(
    el(
      "p",
      { class: "note" },
      `${many} groups of ${least === most ? most : `${least} to ${most}`} clients, by ${item.by}.`,
    ),
  );
  if (!item.before) return;
  const home = item.sizes.flatMap((size, at) => Array(size).fill(at));
  section.append(
    labelMap(
      "Before: labels of clients, group by group",
      item.before,
      item.clients,
      "client",
      (i) => item.order[i],
      (i) => `client ${item.order[i]} of group ${home[i]}`,
    ),
    labelMap(
      "After: labels of groups",
      item.after,
      many,
      "group",
      (i) => i,
      (i) => `group ${i}`,
    ),
  );
}

function labelMap(title, rows, of, what, name, who) {
  const sums = rows.map((row) => row.reduce((a, b) => a + b, 0) || 1),
    classes = rows[0].length;
  const shares = Array.from({ length: classes }, (_, c) => rows.map((row, k) => row[c] / sums[k]));
  const held = (
    rows.reduce((sum, row) => sum + row.filter((count) => count > 0).length, 0) / rows.length
  ).toFixed(1);
  return figure(
    title,
    `A ${what} holds ${held} of ${classes} classes on average.${rows.length < of ? ` The first ${rows.length} of ${of} ${what}s.` : ""}`,
    heat(shares, {
      range: [0, 1],
      format: percents,
      rowTitle: "class",
      columnTitle: what,
      columnName: name,
      cell: (j, i) => `${who(i)}: ${percents(shares[j][i])} of its examples are of class ${j}`,
      sentence: `Shares of ${classes} classes at ${rows.length} ${what}s; a ${what} holds ${held} classes on average.`,
    }),
    () => ({
      heads: [what, ...shares.map((_, c) => `class ${c}`)],
      rows: rows.map((row, k) => [name(k), ...row.map(whole)]),
    }),
  );
}

function drawLocalGlobal(section, doc) {
  const { list, items } = comparable(doc.local_global, "local", "local_global");
  section.append(
    list || "",
    el(
      "p",
      { class: "note" },
      "λ₁ as each client's own loss has it (local) and as the loss of all has it (global): a flat local minimum need not be a flat global one.",
    ),
    el(
      "div",
      { class: "panels" },
      items.map((item) =>
        el(
          "div",
          { class: "panel" },
          named(item),
          scrolling(
            el(
              "table",
              {},
              el("caption", { class: "unseen" }, `${item.label} after round ${item.round}`),
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  ["client", "local", "global"].map((name) => el("th", { scope: "col" }, name)),
                ),
              ),
              el(
                "tbody",
                {},
                [...item.clients, { client: "mean", local: item.local, global: item.global }].map(
                  (one) =>
                    el(
                      "tr",
                      { class: one.client === "mean" ? "best" : "" },
                      el("th", { scope: "row" }, one.client),
                      el("td", {}, number(one.local)),
                      el("td", {}, number(one.global)),
                    ),
                ),
              ),
            ),
            `Local and global, ${item.label}`,
          ),
        ),
      ),
    ),
  );
}

Object.assign(DRAWINGS, { partition: drawPartition, local_global: drawLocalGlobal });
