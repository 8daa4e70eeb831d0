"use strict";
(() => {
  const HEIGHT = 22, LEAST = 1.5;
  const { rooms, root } = JSON.parse(document.getElementById("data").textContent);
  const flame = document.getElementById("flame"), said = document.getElementById("said");

  const read = ([name, room, seconds, inside], parent) => {
    const node = { name, room, seconds, parent };
    node.inside = inside.map((box) => read(box, node));
    return node;
  };
  const whole = read(root, null);
  let near = whole;

  const short = (name) => name.replace(/^fedflat\./, "");
  const sentence = (node) =>
    `${short(node.name)}, ${node.seconds.toFixed(3)} s, ${((100 * node.seconds) / whole.seconds).toFixed(2)} % of all` +
    (node.room === null ? "" : `, ${rooms[node.room]}`);

  const box = (node, depth, left, width, around) => {
    const one = document.createElement("button");
    one.type = "button";
    one.className = `box room${node.room}${around ? " around" : ""}${width < 24 ? " thin" : ""}`;
    one.style.left = `${left}px`;
    one.style.width = `${width}px`;
    one.style.top = `${depth * HEIGHT}px`;
    one.title = sentence(node);
    one.setAttribute("aria-label", one.title);
    one.textContent = width < 24 ? "" : short(node.name);
    one.tabIndex = node === near ? 0 : -1;
    one.node = node;
    node.drawn = one;
    flame.append(one);
  };

  const forget = (node) => { node.drawn = null; node.inside.forEach(forget); };

  const below = (node, depth, left, scale) => {
    const width = node.seconds * scale;
    if (width < LEAST) return depth;
    box(node, depth, left, width, false);
    let deepest = depth + 1;
    for (const inner of node.inside) {
      deepest = Math.max(deepest, below(inner, depth + 1, left, scale));
      left += inner.seconds * scale;
    }
    return deepest;
  };

  const draw = (focus) => {
    forget(whole);
    flame.replaceChildren();
    const width = flame.clientWidth, path = [];
    for (let node = near.parent; node; node = node.parent) path.unshift(node);
    path.forEach((node, depth) => box(node, depth, 0, width, true));
    const deepest = below(near, path.length, 0, near.seconds ? width / near.seconds : 0);
    flame.style.height = `${deepest * HEIGHT}px`;
    said.textContent = sentence(near);
    if (focus) near.drawn.focus();
  };

  const zoom = (node) => { near = node; draw(true); };
  const visit = (node) => { if (node && node.drawn) node.drawn.focus(); };
  const beside = (node, step) => {
    const row = node.parent ? node.parent.inside.filter((one) => one.drawn) : [];
    return row[row.indexOf(node) + step];
  };

  flame.addEventListener("click", (event) => { if (event.target.node) zoom(event.target.node); });
  flame.addEventListener("mouseover", (event) => { if (event.target.node) said.textContent = event.target.title; });
  flame.addEventListener("focusin", (event) => { said.textContent = event.target.title; });
  flame.addEventListener("keydown", (event) => {
    const node = event.target.node, widest = (a, b) => (b.seconds > a.seconds ? b : a);
    const inside = node.inside.filter((one) => one.drawn);
    const go = {
      Escape: () => zoom(near.parent || whole),
      ArrowUp: () => visit(node.parent),
      ArrowDown: () => visit(inside.length ? inside.reduce(widest) : null),
      ArrowLeft: () => visit(beside(node, -1)),
      ArrowRight: () => visit(beside(node, 1)),
    }[event.key];
    if (go) { event.preventDefault(); go(); }
  });
  addEventListener("resize", () => draw(false));
  draw(false);
})();
