
(() => {
  "use strict";
  const get = (id) => document.getElementById(id);
  const data = JSON.parse(get("data").textContent);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const boxes = data.boxes.map((box) => ({ ...box, x: box.at[0], y: box.at[1], w: box.at[2], h: box.at[3], on: true, count: 0 }));
  const nodes = data.nodes.map(([label, name, box, x, y, w, text], id) => {
    boxes[box].count += 1;
    const full = boxes[box].name + "::" + name;
    return { id, label, name, full, sought: full.toLowerCase(), more: text.toLowerCase(), box: boxes[box], x, y, w, text, out: [], into: [], on: true };
  });
  const lines = data.lines.map(([source, target, score, strength, points, heading, covers, feeds, more]) => {
    const line = { source: nodes[source], target: nodes[target], score, strength, points, heading, covers, feeds, more, on: true };
    line.step = Math.min(Math.floor(strength * 4), 3);
    line.left = line.right = points[0];
    line.top = line.bottom = points[1];
    for (let at = 2; at < points.length; at += 2) {
      line.left = Math.min(line.left, points[at]);
      line.right = Math.max(line.right, points[at]);
      line.top = Math.min(line.top, points[at + 1]);
      line.bottom = Math.max(line.bottom, points[at + 1]);
    }
    line.source.out.push(line);
    line.target.into.push(line);
    return line;
  });
  for (const node of nodes) {
    node.out.reverse();
    node.into.reverse();
  }

  const canvas = get("canvas");
  const stage = canvas.parentElement;
  const pen = canvas.getContext("2d");
  const tip = get("tip");
  const view = { x: 0, y: 0, k: 1 };
  const ALPHA = [0.2, 0.34, 0.52, 0.8];
  const WIDTH = [0.9, 1.1, 1.3, 1.6];
  const MANY = 4000;
  let size = { width: 0, height: 0 };
  let colours = {};
  let hovered = null;
  let pinned = null;
  let matches = null;
  let moving = 0;
  let asked = false;
  let shown = null;

  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["bg", "surface", "ink", "soft", "accent", "in"]) colours[name] = style.getPropertyValue("--" + name).trim();
    colours.mono = style.getPropertyValue("--mono");
  };
  const ask = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
  const moved = () => {
    clearTimeout(moving);
    moving = setTimeout(() => {
      moving = 0;
      ask();
    }, 140);
    ask();
  };

  const trace = (line) => {
    const p = line.points;
    pen.moveTo(p[0], p[1]);
    for (let at = 2; at < p.length; at += 6) pen.bezierCurveTo(p[at], p[at + 1], p[at + 2], p[at + 3], p[at + 4], p[at + 5]);
  };
  const arrow = (line) => {
    const p = line.points;
    const x = p[p.length - 2];
    const y = p[p.length - 1];
    const back = -6 * line.heading;
    pen.moveTo(x + back, y - 3.5);
    pen.lineTo(x, y);
    pen.lineTo(x + back, y + 3.5);
  };
  const seen = (area, left, top, right, bottom) => right >= area.left && left <= area.right && bottom >= area.top && top <= area.bottom;

  function drawLines(area, faint) {
    const groups = new Map();
    const hasty = moving && lines.length > MANY;
    for (const line of lines) {
      if (!line.on || (hasty && line.step < 3) || !seen(area, line.left, line.top, line.right, line.bottom)) continue;
      const key = line.source.box.colour * 4 + line.step;
      if (groups.has(key)) groups.get(key).push(line);
      else groups.set(key, [line]);
    }
    for (const [key, group] of [...groups].sort((one, other) => (one[0] % 4) - (other[0] % 4))) {
      const step = key % 4;
      pen.strokeStyle = data.palette[(key - step) / 4];
      pen.globalAlpha = ALPHA[step] * (faint ? 0.25 : view.k < 0.3 ? 0.75 : 1);
      pen.lineWidth = Math.max(WIDTH[step], (0.45 + 0.15 * step) / view.k);
      pen.beginPath();
      for (const line of group) {
        trace(line);
        if (view.k > 0.4) arrow(line);
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawFocus(focus) {
    for (const [group, colour] of [[focus.into, colours.in], [focus.out, colours.accent]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = Math.max(1.8, 1.4 / view.k);
      pen.beginPath();
      for (const line of group) {
        if (!line.on) continue;
        trace(line);
        arrow(line);
      }
      pen.stroke();
    }
  }

  function drawBoxes(area) {
    for (const box of boxes) {
      if (!box.on || !seen(area, box.x, box.y, box.x + box.w, box.y + box.h)) continue;
      pen.fillStyle = pen.strokeStyle = data.palette[box.colour];
      pen.lineWidth = Math.max(1, 0.75 / view.k);
      pen.beginPath();
      pen.roundRect(box.x, box.y, box.w, box.h, 10);
      pen.globalAlpha = 0.09;
      pen.fill();
      pen.globalAlpha = 0.45;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawTitles(area) {
    pen.textBaseline = "middle";
    for (const box of boxes) {
      if (!box.on || !seen(area, box.x, box.y, box.x + box.w, box.y + box.h)) continue;
      const near = view.k >= 0.4;
      const room = box.w - 16;
      const text = view.k >= 0.9 ? box.title : box.name;
      let letters = near ? Math.min(Math.max(13, 12 / view.k), data.title * 0.7) : Math.min(12 / view.k, box.h * 0.42);
      pen.font = `650 ${letters}px system-ui, sans-serif`;
      letters = Math.max(Math.min(letters, (letters * room) / pen.measureText(text).width), near ? 13 : 9 / view.k);
      if (letters * view.k < 7 || letters > box.h * 0.6) continue;
      pen.font = `650 ${letters}px system-ui, sans-serif`;
      let cut = text;
      if (pen.measureText(cut).width > room) {
        const fits = Math.floor((text.length * room) / pen.measureText(text).width) - 1;
        if (fits < 3) continue;
        cut = text.slice(0, fits) + "…";
      }
      if (near) {
        pen.fillStyle = colours.ink;
        pen.fillText(cut, box.x + 14, box.y + data.title / 2);
        continue;
      }
      const width = pen.measureText(cut).width;
      const x = box.x + (box.w - width) / 2;
      const y = box.y + box.h / 2;
      pen.globalAlpha = 0.78;
      pen.fillStyle = colours.surface;
      pen.beginPath();
      pen.roundRect(x - letters * 0.4, y - letters * 0.65, width + letters * 0.8, letters * 1.3, letters * 0.35);
      pen.fill();
      pen.globalAlpha = 1;
      pen.fillStyle = colours.ink;
      pen.fillText(cut, x, y);
    }
  }

  function drawNodes(area, focus, lit, below) {
    const whole = view.k >= 0.4;
    pen.textBaseline = "middle";
    pen.font = `${data.letters}px ${colours.mono}`;
    for (const node of nodes) {
      if (!node.on || !seen(area, node.x, node.y, node.x + node.w, node.y + data.row)) continue;
      const faint = Boolean(lit) && !lit.has(node);
      if (faint !== below) continue;
      pen.beginPath();
      if (whole) pen.roundRect(node.x, node.y, node.w, data.row, 6);
      else pen.rect(node.x, node.y, node.w, data.row);
      if (whole || (lit && !faint)) {
        pen.globalAlpha = 1;
        pen.fillStyle = colours.surface;
        pen.fill();
      } else {
        pen.globalAlpha = faint ? 0.12 : 0.4;
        pen.fillStyle = data.palette[node.box.colour];
        pen.fill();
      }
      const strong = node === focus || (matches && matches.has(node));
      pen.globalAlpha = faint ? 0.25 : 1;
      if (whole || !faint) {
        pen.strokeStyle = strong ? colours.accent : data.palette[node.box.colour];
        pen.lineWidth = Math.max(strong ? 2.5 : 1, (strong ? 2 : lit && !faint ? 1.2 : 0.5) / view.k);
        if (whole || (lit && !faint)) pen.stroke();
      }
      if (whole) {
        pen.globalAlpha = faint ? 0.35 : 1;
        pen.fillStyle = colours.ink;
        pen.fillText(node.label, node.x + 9, node.y + data.row / 2 + 0.5);
      }
    }
    pen.globalAlpha = 1;
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.bg;
    pen.fillRect(0, 0, size.width, size.height);
    pen.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    const area = { left: -view.x / view.k, top: -view.y / view.k, right: (size.width - view.x) / view.k, bottom: (size.height - view.y) / view.k };
    const focus = hovered || pinned;
    let lit = matches;
    if (focus) {
      lit = new Set([focus]);
      for (const line of focus.out) if (line.on) lit.add(line.target);
      for (const line of focus.into) if (line.on) lit.add(line.source);
    }
    drawBoxes(area);
    drawLines(area, Boolean(lit));
    if (lit) drawNodes(area, focus, lit, true);
    if (focus) drawFocus(focus);
    drawNodes(area, focus, lit, false);
    drawTitles(area);
    canvas.dataset.view = [view.x, view.y, view.k].join(" ");
  }

  const zoom = (factor, x = size.width / 2, y = size.height / 2) => {
    const k = Math.min(Math.max(view.k * factor, 0.02), 4);
    view.x = x - ((x - view.x) * k) / view.k;
    view.y = y - ((y - view.y) * k) / view.k;
    view.k = k;
    moved();
  };
  const show = (x, y, w, h, most) => {
    view.k = Math.min(size.width / (w + 40), size.height / (h + 40), most);
    view.x = (size.width - w * view.k) / 2 - x * view.k;
    view.y = (size.height - h * view.k) / 2 - y * view.k;
    ask();
  };
  const fit = () => show(0, 0, data.width, data.height, 1.5);

  function refresh() {
    const least = Number(get("score").value);
    get("least").textContent = least.toFixed(2);
    for (const node of nodes) node.on = node.box.on;
    const linked = new Set();
    let edges = 0;
    for (const line of lines) {
      line.on = line.score >= least - 0.0005 && line.source.on && line.target.on;
      if (!line.on) continue;
      edges += 1;
      linked.add(line.source).add(line.target);
    }
    let tools = 0;
    for (const node of nodes) {
      node.on = node.on && (!get("linked").checked || linked.has(node));
      tools += node.on ? 1 : 0;
    }
    get("status").textContent = `${tools.toLocaleString("en")} ${tools === 1 ? "tool" : "tools"}, ${edges.toLocaleString("en")} ${edges === 1 ? "edge" : "edges"} shown`;
    if (hovered && !hovered.on) hovered = null;
    shown = undefined;
    tell();
    ask();
  }

  function list(title, group, end, kind) {
    const part = make("section");
    const on = group.filter((line) => line.on);
    part.append(make("h3", kind, `${title} (${on.length})`));
    const rows = make("ul");
    for (const line of on) {
      const button = make("button");
      button.type = "button";
      const row = make("span", "row");
      row.append(make("span", "tool-name", line[end].box === (shown && shown.box) ? line[end].name : line[end].full), make("span", "count", line.score.toFixed(2)));
      button.append(row);
      for (const [output, parameter, how] of line.feeds) {
        button.append(make("span", "feed", `${data.words[output]} → ${data.words[parameter]}${how === "direct" ? "" : ` (${how})`}`));
      }
      if (line.more) button.append(make("span", "feed", `and ${line.more} more`));
      button.addEventListener("click", () => pick(line[end]));
      const item = make("li");
      item.append(button);
      rows.append(item);
    }
    part.append(rows);
    return part;
  }

  function tell() {
    const node = pinned || hovered;
    if (node === shown) return;
    shown = node;
    const panel = get("panel");
    if (!node) {
      panel.replaceChildren(make("p", "fine empty", "Point at a tool to see what it feeds and what feeds it; click to keep it."));
      return;
    }
    const parts = [];
    if (pinned) {
      const close = make("button", "quiet close", "Let go");
      close.type = "button";
      close.addEventListener("click", () => {
        drop();
        canvas.focus();
      });
      parts.push(close);
    }
    parts.push(make("h2", "", node.name), make("p", "fine", node.box.name));
    if (node.text) parts.push(make("p", "text", node.text));
    parts.push(list("Feeds", node.out, "target", "feeds"), list("Fed by", node.into, "source", "fed"));
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
  }

  function drop() {
    pinned = null;
    tell();
    ask();
  }
  function pin(node) {
    pinned = node;
    hovered = null;
    shown = undefined;
    tell();
    ask();
  }
  function pick(node) {
    if (!node.on) {
      node.box.on = node.box.check.checked = true;
      if (!node.out.length && !node.into.length) get("linked").checked = false;
      refresh();
    }
    view.k = Math.max(view.k, 0.9);
    view.x = size.width / 2 - (node.x + node.w / 2) * view.k;
    view.y = size.height / 2 - (node.y + data.row / 2) * view.k;
    pin(node);
  }

  const at = (event) => {
    const place = canvas.getBoundingClientRect();
    return { x: event.clientX - place.left, y: event.clientY - place.top };
  };
  const under = ({ x, y }) => {
    const worldX = (x - view.x) / view.k;
    const worldY = (y - view.y) / view.k;
    return nodes.find((node) => node.on && worldX >= node.x && worldX <= node.x + node.w && worldY >= node.y && worldY <= node.y + data.row) || null;
  };
  function hint(place) {
    tip.hidden = !hovered;
    if (!hovered) return;
    const told = [make("span", "tool-name", hovered.full)];
    if (hovered.text) told.push(make("span", "", hovered.text.slice(0, 120) + (hovered.text.length > 120 ? "…" : "")));
    const between = pinned && pinned !== hovered ? [...pinned.out.filter((line) => line.target === hovered), ...pinned.into.filter((line) => line.source === hovered)] : [];
    for (const line of between) {
      for (const [output, parameter] of line.feeds) told.push(make("span", "feed", `${data.words[output]} → ${data.words[parameter]}`));
    }
    tip.replaceChildren(...told);
    const x = Math.max(Math.min(place.x + 14, size.width - tip.offsetWidth - 8), 0);
    const y = place.y + 18 + tip.offsetHeight > size.height ? place.y - tip.offsetHeight - 10 : place.y + 18;
    tip.style.transform = `translate(${x}px, ${Math.max(y, 0)}px)`;
  }
  function hover(place) {
    const node = place && under(place);
    canvas.classList.toggle("over", Boolean(node));
    const changed = node !== hovered;
    hovered = node;
    hint(place);
    if (!changed) return;
    tell();
    ask();
  }

  const pointers = new Map();
  let walked = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    walked = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = at(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      hover(place);
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, place);
    walked += Math.abs(place.x - before.x) + Math.abs(place.y - before.y);
    if (walked < 4) return;
    canvas.classList.add("drag");
    if (hovered) hover(null);
    if (other) {
      const far = (one) => Math.hypot(one.x - other[1].x, one.y - other[1].y) || 1;
      zoom(far(place) / far(before), (place.x + other[1].x) / 2, (place.y + other[1].y) / 2);
    } else {
      view.x += place.x - before.x;
      view.y += place.y - before.y;
      moved();
    }
  });
  const release = (event) => {
    const held = pointers.delete(event.pointerId);
    if (!pointers.size) canvas.classList.remove("drag");
    if (!held || event.type !== "pointerup" || walked >= 4) return;
    const node = under(at(event));
    if (node && node !== pinned) pin(node);
    else drop();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = at(event);
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.0016)), place.x, place.y);
    hover(null);
  }, { passive: false });

  const STEPS = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    if (step) {
      view.x += step[0];
      view.y += step[1];
      moved();
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const typing = document.activeElement && document.activeElement.matches("input[type='search']");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      get("query").focus();
    } else if (event.key === "Escape" && !typing) drop();
  });
  get("in").addEventListener("click", () => zoom(1.4));
  get("out").addEventListener("click", () => zoom(1 / 1.4));
  get("fit").addEventListener("click", fit);

  const query = get("query");
  const found = get("found");
  let choice = -1;
  let offered = [];
  function rank(node, whole, words) {
    const name = node.name.toLowerCase();
    if (node.sought === whole || name === whole) return 0;
    if (name.startsWith(whole)) return 1;
    if (words.every((word) => name.includes(word))) return 2;
    if (node.sought.includes(whole)) return 3;
    if (words.every((word) => node.sought.includes(word))) return 4;
    return words.every((word) => node.sought.includes(word) || node.more.includes(word)) ? 5 : 9;
  }
  function choose(next) {
    choice = next;
    [...found.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === choice)));
    if (choice >= 0) {
      query.setAttribute("aria-activedescendant", `found-${choice}`);
      found.children[choice].scrollIntoView({ block: "nearest" });
    } else query.removeAttribute("aria-activedescendant");
  }
  function close() {
    found.hidden = true;
    query.setAttribute("aria-expanded", "false");
    choose(-1);
  }
  function search() {
    const whole = query.value.trim().toLowerCase();
    const words = whole.split(/[\s_]+/).filter(Boolean);
    if (!whole) {
      matches = null;
      offered = [];
      close();
      ask();
      return;
    }
    const ranked = nodes.map((node) => [rank(node, whole, words), node]).filter(([place]) => place < 9);
    ranked.sort((one, other) => one[0] - other[0] || one[1].id - other[1].id);
    matches = new Set(ranked.map(([, node]) => node));
    offered = ranked.slice(0, 30).map(([, node]) => node);
    found.replaceChildren(...offered.map((node, number) => {
      const item = make("li");
      item.id = `found-${number}`;
      item.setAttribute("role", "option");
      item.append(make("span", "tool-name", node.full));
      if (node.text) item.append(make("span", "fine", node.text.slice(0, 90)));
      item.addEventListener("mousedown", (event) => event.preventDefault());
      item.addEventListener("click", () => take(node));
      return item;
    }));
    if (!offered.length) found.append(make("li", "none", "No tool has that in its name or description."));
    found.hidden = false;
    query.setAttribute("aria-expanded", "true");
    choose(offered.length ? 0 : -1);
    ask();
  }
  function take(node) {
    query.value = "";
    matches = null;
    offered = [];
    close();
    pick(node);
    canvas.focus();
  }
  query.addEventListener("input", search);
  query.addEventListener("blur", close);
  query.addEventListener("focus", search);
  query.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && offered.length) choose((choice + 1) % offered.length);
    else if (event.key === "ArrowUp" && offered.length) choose((choice - 1 + offered.length) % offered.length);
    else if (event.key === "Enter" && offered[choice]) take(offered[choice]);
    else if (event.key === "Escape") {
      query.value = "";
      search();
      return;
    } else return;
    event.preventDefault();
  });

  const spaces = get("spaces");
  for (const box of [...boxes].sort((one, other) => other.count - one.count || (one.name < other.name ? -1 : 1))) {
    const item = (box.item = make("li"));
    const check = (box.check = make("input"));
    check.type = "checkbox";
    check.checked = true;
    check.setAttribute("aria-label", `Show ${box.name}`);
    check.addEventListener("change", () => {
      box.on = check.checked;
      refresh();
    });
    const swatch = make("span", "swatch");
    swatch.style.backgroundColor = data.palette[box.colour];
    const name = make("button", "", box.name);
    name.type = "button";
    name.title = `Zoom to ${box.name}`;
    name.addEventListener("click", () => show(box.x, box.y, box.w, box.h, 1.3));
    item.append(check, swatch, name, make("span", "count", box.count.toLocaleString("en")));
    spaces.append(item);
  }
  const every = (on) => {
    for (const box of boxes) if (!box.item.hidden) box.on = box.check.checked = on;
    refresh();
  };
  get("all").addEventListener("click", () => every(true));
  get("none").addEventListener("click", () => every(false));
  get("narrow").addEventListener("input", () => {
    const text = get("narrow").value.trim().toLowerCase();
    for (const box of boxes) box.item.hidden = !box.name.toLowerCase().includes(text);
  });

  const slider = get("score");
  if (lines.length) {
    slider.min = Math.floor(lines[0].score * 100) / 100;
    slider.max = Math.ceil(lines[lines.length - 1].score * 100) / 100;
    slider.value = slider.min;
  } else slider.disabled = true;
  slider.addEventListener("input", refresh);
  get("linked").addEventListener("change", refresh);

  let begun = false;
  new ResizeObserver(() => {
    const ratio = window.devicePixelRatio || 1;
    size = { width: stage.clientWidth, height: stage.clientHeight };
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
    if (!begun) {
      begun = true;
      fit();
    }
    draw();
  }).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    ask();
  });
  readColours();
  refresh();
})();
