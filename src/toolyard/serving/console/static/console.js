// The console's only script. Pages work without it; it adds updates in place, folding, copying and live updates.

const byId = (id) => document.getElementById(id);

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Replace the elements with these ids by those of another page, and restore the focus.
const lastHtml = new Map();
function replaceParts(html, ids, onlyIfChanged = false) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const focused = document.activeElement, row = rowIndex(focused);
  // Keep the scroll position in a list that grows: the first visible row stays where it is.
  const links = () => [...document.querySelectorAll("[data-rows] a[href]")], topOf = (link) => link.getBoundingClientRect().top;
  const anchor = onlyIfChanged && scrollY > 0 ? links().find((link) => topOf(link) > 0) : undefined;
  const { href, top } = anchor ? { href: anchor.href, top: topOf(anchor) } : {};
  let found = false;
  for (const id of ids) {
    const old = byId(id), fresh = page.getElementById(id);
    if (!old || !fresh) continue;
    found = true;
    // Leave unchanged parts alone, so that unfolded details stay open.
    const text = fresh.outerHTML;
    if (lastHtml.get(id) === text && onlyIfChanged) continue;
    lastHtml.set(id, text);
    const open = [...old.querySelectorAll("details[open] > [id]")];
    old.replaceWith(document.adoptNode(fresh));
    for (const { id: inside } of open) byId(inside)?.parentElement.setAttribute("open", "");
  }
  if (found && page.title) document.title = page.title;
  const same = (link) => link.href === focused.href;
  if (focused && !focused.isConnected) (byId(focused.id) ?? links().find(same) ?? linkAt(row))?.focus({ preventScroll: true });
  const again = anchor && links().find((link) => link.href === href);
  if (again) scrollBy(0, topOf(again) - top);
  updateTimes();
  return found;
}

// The index of the row around an element, and the link of the row now at that index, or of the last row.
const rows = () => [...document.querySelectorAll("[data-rows] > *")].filter((row) => row.checkVisibility());
const rowIndex = (element) => rows().indexOf(element?.closest("[data-rows] > *"));
const linkAt = (row) => (row < 0 ? null : (rows()[row] ?? rows().at(-1))?.querySelector("a, summary"));

// Show times relative to now; the tooltip has the original text and the local time.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]], WORDS = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
function updateTimes() {
  for (const time of document.querySelectorAll("time[data-moment]")) {
    const at = new Date(time.dateTime), seconds = (at - Date.now()) / 1000;
    const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? [];
    time.title ||= `${time.textContent} (${at.toLocaleString()} here)`;
    const words = unit ? WORDS.format(Math.trunc(seconds / length), unit) : seconds < 0 ? "just now" : "in less than a minute";
    if (!Number.isNaN(seconds) && time.textContent !== words) time.textContent = words;
  }
}
setInterval(updateTimes, 15000);
updateTimes();

// Fetch a page and replace the given parts. Navigate instead if the response is a redirect, such as to sign-in.
export async function swap(url, ids, options = {}) {
  const { onProgress, onlyIfChanged, ...rest } = options;
  const response = await fetch(url, { credentials: "same-origin", ...rest });
  if (response.redirected) return location.assign(response.url);
  const streams = response.headers.get("content-type")?.startsWith("text/event-stream");
  const html = streams ? await readStream(response, onProgress) : await response.text();
  if (html === null || !replaceParts(html, ids, onlyIfChanged)) showWholePage(html, url);
}

// A page without the requested parts is an error page: show all of it.
function showWholePage(html, url) {
  if (html === null || !replaceParts(html, ["main"])) location.assign(url);
}

// Return the page at the end of an event stream; calls onProgress for each progress event.
async function readStream(response, onProgress) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", html = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return html;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const name = /^event: (.*)$/m.exec(event)?.[1];
      const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "null");
      if (name === "progress") onProgress?.(data);
      if (name === "page") html = data.html;
    }
  }
}

// Text with a copy button.
class CodeBlock extends HTMLElement {
  connectedCallback() {
    if (this.querySelector(":scope > .copy") || !navigator.clipboard) return;
    const button = make("button", { type: "button", class: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(this.querySelector("code").dataset.whole ?? this.querySelector("code").textContent);
      button.textContent = "Copied";
      button.classList.add("done");
      setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 1500);
    });
    this.append(button);
  }
}

const MOST_FOLDED_LINES = 3000;

// JSON with foldable objects and lists. The text is never parsed into values, so numbers keep all their digits.
class JsonBlock extends CodeBlock {
  connectedCallback() {
    super.connectedCallback();
    const code = this.querySelector("code");
    if (!code || code.dataset.whole !== undefined) return;
    code.dataset.whole = code.textContent;
    const lines = this.splitLines(code);
    if (lines.length < 4 || lines.length > MOST_FOLDED_LINES) return;
    this.classList.add("folding");
    code.replaceChildren(...this.nest(lines, 0, lines.length));
  }

  splitLines(code) {
    const lines = [make("span")];
    for (const node of code.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE) {
        lines.at(-1).append(node.cloneNode(true));
        continue;
      }
      node.textContent.split("\n").forEach((part, at) => {
        if (at) lines.push(make("span"));
        lines.at(-1).append(part);
      });
    }
    return lines;
  }

  nest(lines, start, end) {
    const indent = (line) => /^ */.exec(line.textContent)[0].length;
    const found = [];
    for (let at = start; at < end; at++) {
      const line = lines[at], text = line.textContent, depth = indent(line);
      let close = at + 1;
      if (/[[{]$/.test(text)) while (close < end && indent(lines[close]) > depth) close++;
      const last = at === lines.length - 1;
      if (close > at + 1 && close < end) {
        const inside = make("span", {}, ...this.nest(lines, at + 1, close));
        const note = make("span", { class: "folded-note", hidden: "" }, "…");
        const button = make("button", { type: "button", class: "fold", "aria-expanded": "true", "aria-label": "Fold" });
        button.addEventListener("click", () => {
          inside.hidden = !inside.hidden;
          note.hidden = !inside.hidden;
          button.setAttribute("aria-expanded", String(!inside.hidden));
        });
        const blank = line.firstChild;
        if (depth && blank?.nodeType === Node.TEXT_NODE) {
          line.prepend(text.slice(0, depth), button);
          blank.textContent = blank.textContent.slice(depth);
        } else line.prepend(button);
        found.push(line, "\n", note, inside);
        at = close - 1;
      } else found.push(line, ...(last ? [] : ["\n"]));
    }
    return found;
  }
}

// Progress and elapsed time of a running call, with a cancel button.
class ProgressLine extends HTMLElement {
  begin(cancel) {
    const began = performance.now();
    this.bar = make("progress", { "aria-label": "Progress" });
    this.said = make("span", { class: "said", role: "status" });
    const clock = make("span", { class: "time" }, "0.0 s");
    this.replaceChildren(this.bar, clock, make("button", { type: "button", class: "quiet danger", onclick: cancel }, "Cancel"), this.said);
    this.timer = setInterval(() => { clock.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`; }, 100);
    this.classList.add("on");
  }

  show({ progress, total, message }) {
    if (progress !== null && total) this.bar.value = Math.min(progress / total, 1);
    this.said.textContent = message || (progress === null ? "" : total ? `${progress} of ${total}` : `${progress}`);
  }

  end() {
    clearInterval(this.timer);
    this.replaceChildren();
    this.classList.remove("on");
  }
}

// A list of calls, each with a bar for its start and duration where known.
class Timeline extends HTMLElement {
  connectedCallback() {
    const rows = [...this.querySelectorAll("[data-at]")].map((row) => {
      const end = Date.parse(row.dataset.at), took = Number(row.dataset.took || 0) * 1000;
      return { row, begin: end - took, end };
    }).filter(({ end }) => !Number.isNaN(end));
    const first = Math.min(...rows.map(({ begin }) => begin)), last = Math.max(...rows.map(({ end }) => end));
    if (rows.length < 2 || last <= first) return;
    for (const { row, begin, end } of rows) {
      const bar = make("span", { class: "bar" });
      bar.style.left = `${(100 * (begin - first)) / (last - first)}%`;
      bar.style.width = `${(100 * (end - begin)) / (last - first)}%`;
      row.querySelector(".bar-line")?.remove();
      row.querySelector("summary, a").append(make("span", { class: "bar-line", "aria-hidden": "true" }, bar));
    }
  }
}

// A button that inserts a sample value into a JSON control.
class ExampleButton extends HTMLElement {
  connectedCallback() {
    const control = byId(this.dataset.for);
    if (!control || this.firstChild) return;
    const button = make("button", { type: "button", class: "quiet" }, "Insert example");
    button.addEventListener("click", () => { control.value = control.placeholder; control.focus(); });
    this.append(button);
  }
}

// Reads a local file into a base64 control.
class FilePicker extends HTMLElement {
  connectedCallback() {
    const control = byId(this.dataset.for);
    if (!control || this.firstChild) return;
    const picker = make("input", { type: "file", "aria-label": "Read the bytes of a file" });
    picker.addEventListener("change", () => {
      const reader = new FileReader();
      reader.addEventListener("load", () => { control.value = reader.result.slice(reader.result.indexOf(",") + 1); });
      if (picker.files[0]) reader.readAsDataURL(picker.files[0]);
    });
    this.append(picker);
  }
}

// Changes of a world, one per line: path, old value, new value.
class DiffBlock extends HTMLElement {
  connectedCallback() {
    for (const line of this.querySelectorAll(".changes > li:not([data-kind])")) {
      // `/shop/order: ...`; for a named entity `order 1042: status ...`, or all of it as `order 1042: {...}`.
      const [, sign, path, rest] = /^([-+~] )?(\/.*?:|.*? .*?: [^\s{[]+(?= )|.*?:) (.*)$/s.exec(line.textContent) ?? [];
      if (path === undefined) continue;
      const at = rest.indexOf(" -> ");
      const parts = at < 0
        ? [make(sign === "- " ? "del" : "ins", {}, rest)]
        : [make("del", {}, rest.slice(0, at)), " → ", make("ins", {}, rest.slice(at + 4))];
      line.dataset.kind = at < 0 ? (sign === "- " ? "removed" : "added") : "changed";
      line.replaceChildren(make("code", { class: "where" }, path), " ", ...parts);
    }
  }
}

const POLL_SECONDS = 2.5, SELDOM_SECONDS = 30;

// A part of the page that refreshes on events, or by polling if the event stream is not available.
class LivePart extends HTMLElement {
  connectedCallback() {
    const { session } = this.dataset;
    this.refresh = ({ type, data }) => {
      if (session && type.startsWith("call.") && JSON.parse(data).session_id !== session) return;
      clearTimeout(this.soon);
      this.soon = setTimeout(() => this.swapIn(), 120);
    };
    // Expiry causes no event, so also poll at a long interval.
    this.poll(SELDOM_SECONDS);
    subscribe(this.dataset.topics.split(" "), this.refresh, () => this.poll(POLL_SECONDS));
    document.addEventListener("visibilitychange", this.refresh);
  }

  poll(seconds) {
    clearInterval(this.timer);
    this.timer = setInterval(() => this.swapIn(), seconds * 1000);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    clearTimeout(this.soon);
    document.removeEventListener("visibilitychange", this.refresh);
  }

  async swapIn() {
    const ids = this.dataset.swap.split(" ");
    const writing = document.activeElement?.matches("input, textarea, select") && ids.some((id) => byId(id)?.contains(document.activeElement));
    if (document.hidden || writing || document.querySelector("form[data-busy]")) return;
    // One request at a time: an older answer that comes later would undo a newer one.
    this.isStale = true;
    if (this.isFetching) return;
    this.isFetching = true;
    try {
      while (this.isStale) {
        this.isStale = false;
        await swap(location.href, ids, { onlyIfChanged: true });
      }
    } catch { /* the next poll or event retries */ }
    this.isFetching = false;
  }
}

// The shared event stream. Hidden pages close it, since browsers limit the connections to one server.
const listeners = [];
let source;
function connectEvents() {
  source?.close();
  source = document.hidden || !listeners.length ? undefined : new EventSource(document.body.dataset.events);
  for (const listener of source ? listeners : []) attach(source, listener);
}

function attach(stream, { topics, notify, giveUp }) {
  for (const topic of ["open", "events.missed", ...topics]) stream.addEventListener(topic, notify);
  stream.addEventListener("error", () => { if (stream.readyState === EventSource.CLOSED) giveUp(); });
}

function subscribe(topics, notify, giveUp = () => {}) {
  const listener = { topics, notify, giveUp };
  listeners.push(listener);
  if (source) attach(source, listener);
  else connectEvents();
}

document.addEventListener("visibilitychange", connectEvents);

const SLOW_MS = 1000, MOST_RUNNING = 20;

// Calls that began while the page was open and have not ended. Quick ones end before they would be shown.
class RunningCalls extends HTMLElement {
  connectedCallback() {
    this.calls = new Map();
    subscribe(["call.begun", "call.ended", "call.held"], (event) => this.note(event));
    setInterval(() => this.show(), 500);
  }

  note({ type, data }) {
    // A stream that is opened again does not say what ended in the meantime.
    if (!type.startsWith("call.")) return this.calls.clear();
    const call = JSON.parse(data);
    if (type === "call.begun") this.calls.set(call.id, { ...call, since: performance.now() });
    else this.calls.delete(call.id);
  }

  show() {
    const now = performance.now(), slow = [...this.calls.values()].filter(({ since }) => now - since >= SLOW_MS);
    if (!slow.length && this.hidden) return;
    this.hidden = !slow.length;
    const rows = slow.slice(0, MOST_RUNNING).map(({ time, tool, session_id: session = "", since }) => make("li", { class: "row call" },
      make("time", { datetime: time, title: time }, time.slice(11, 23)),
      make("span", { class: "row-name tool-name" }, tool),
      make("span", { class: "fine" }, session),
      make("span", { class: "score" }, `${Math.floor((now - since) / 1000)} s`)));
    if (slow.length > rows.length) rows.push(make("li", { class: "row fine" }, `and ${slow.length - rows.length} more`));
    this.replaceChildren(make("h2", {}, "Running"), make("ul", { class: "rows" }, ...rows));
  }
}

// The number of pending approvals, on every page.
class WaitingCount extends HTMLElement {
  connectedCallback() {
    subscribe(["approval.pending", "approval.approved", "approval.denied", "approval.used"], () => this.ask());
  }

  async ask() {
    try {
      const { approvals, next_cursor: more } = await (await fetch(this.dataset.url, { credentials: "same-origin" })).json();
      this.textContent = approvals.length ? `${approvals.length}${more ? "+" : ""}` : "";
    } catch { /* the next event retries */ }
  }
}

// Sessions with their forks below them; a button collapses the forks.
class ForkTree extends HTMLElement {
  connectedCallback() {
    const rows = [...this.querySelectorAll("[data-depth]")], depth = (row) => Number(row.dataset.depth);
    rows.forEach((row, at) => {
      const end = rows.findIndex((other, index) => index > at && depth(other) <= depth(row));
      const below = rows.slice(at + 1, end < 0 ? rows.length : end);
      if (!below.length || row.querySelector(".branch")) return;
      const name = row.querySelector(".tool-name").textContent;
      const button = make("button", { type: "button", class: "branch", "aria-expanded": "true", "aria-label": `Forks of ${name}` }, "▾");
      button.addEventListener("click", () => {
        const collapsed = button.getAttribute("aria-expanded") === "true";
        below.forEach((other) => { other.hidden = collapsed; });
        button.setAttribute("aria-expanded", String(!collapsed));
        button.textContent = collapsed ? "▸" : "▾";
      });
      row.append(button);
    });
  }
}

const READABLE = 0.6, GAP = 40;

// A list of edges drawn by Cytoscape, with tools linked to their pages. The list stays for keyboards and screen readers.
class EdgeDrawing extends HTMLElement {
  async connectedCallback() {
    await import(this.dataset.library);
    const rows = [...byId(this.dataset.list).tBodies[0].rows].map((row) => [...row.querySelectorAll("a")]);
    const tools = new Map(rows.flat().map((link) => [link.href, link.textContent]));
    this.hidden = false;
    const drawing = globalThis.cytoscape({
      container: this,
      elements: [
        ...[...tools].map(([id, name]) => ({ data: { id, label: name.replace("::", "\n") } })),
        ...rows.map(([source, target]) => ({ data: { source: source.href, target: target.href } })),
      ],
      style: this.paint(),
      layout: { name: "preset" },
      minZoom: 0.1,
      maxZoom: 2,
      autoungrabify: true,
      boxSelectionEnabled: false,
      userZoomingEnabled: false,
    });
    this.arrange(drawing);
    this.showReadable(drawing);
    drawing.on("tap", "node", (event) => location.assign(event.target.id()));
    drawing.on("mouseover", "node", ({ target }) => drawing.elements().difference(target.closedNeighborhood()).addClass("aside"));
    drawing.on("mouseout", "node", () => drawing.elements().removeClass("aside"));
    const zoom = (factor) => () => drawing.zoom({ level: drawing.zoom() * factor, renderedPosition: { x: this.clientWidth / 2, y: this.clientHeight / 2 } });
    this.after(make("p", { class: "actions zoom" },
      make("button", { type: "button", class: "quiet", onclick: zoom(1.4) }, "Zoom in"),
      make("button", { type: "button", class: "quiet", onclick: zoom(1 / 1.4) }, "Zoom out"),
      make("button", { type: "button", class: "quiet", onclick: () => drawing.fit(undefined, 16) }, "Show all"),
      make("span", { class: "fine" }, "Drag to move; choose a tool to open it.")));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawing.style(this.paint()));
  }

  // The connected groups fill rows of the drawing's proportions, highest first.
  arrange(drawing) {
    // The layout takes tools for empty if no style changed since their labels were measured, and puts them on one spot.
    drawing.elements().boundingBox();
    drawing.nodes().style("width", 170);
    const groups = drawing.elements().components().map((group) => ({ group, box: this.layOut(group) })).sort((one, other) => other.box.h - one.box.h);
    const area = groups.reduce((sum, { box }) => sum + (box.w + GAP) * (box.h + GAP), 0);
    const width = Math.max(Math.sqrt((area * this.clientWidth) / this.clientHeight), ...groups.map(({ box }) => box.w));
    let x = 0, y = 0, height = 0;
    for (const { group, box } of groups) {
      if (x + box.w > width) [x, y, height] = [0, y + height + GAP, 0];
      group.nodes().shift({ x: x - box.x1, y: y - box.y1 });
      [x, height] = [x + box.w + GAP, Math.max(height, box.h)];
    }
  }

  // The levels of a group go to the right, or downwards if it is too wide for the drawing and that is narrower.
  layOut(group) {
    const place = (transform) => {
      group.layout({ name: "breadthfirst", directed: true, fit: false, spacingFactor: 1, boundingBox: { x1: 0, y1: 0, w: 1, h: 1 }, transform: (_, at) => transform(at) }).run();
      return group.boundingBox();
    };
    const toRight = ({ x, y }) => ({ x: y * 1.4, y: x * 0.4 }), down = ({ x, y }) => ({ x: x * 1.1, y });
    let box = place(toRight), isWide = true;
    if (box.w * READABLE > this.clientWidth) {
      isWide = place(down).w >= box.w;
      box = place(isWide ? toRight : down);
    }
    // Edges within a level would overlap each other and the tools between, so attach them at the sides and curve them.
    const [across, along] = isWide ? ["x", "y"] : ["y", "x"];
    group.edges().forEach((edge) => {
      const [from, to] = [edge.source().position(), edge.target().position()], reach = to[along] - from[along];
      if (Math.abs(to[across] - from[across]) > 1) return;
      const side = isWide === reach > 0 ? -50 : 50, end = isWide ? `${side}% 0` : `0 ${side}%`;
      edge.style({ "curve-style": "unbundled-bezier", "edge-distances": "endpoints", "control-point-distances": 25 + Math.abs(reach) / 5, "control-point-weights": 0.5, "source-endpoint": end, "target-endpoint": end });
    });
    return box;
  }

  // Fit the drawing, curves included. If it would be too small to read, show its top left corner at a readable size.
  showReadable(drawing) {
    drawing.fit(undefined, 16);
    if (drawing.zoom() >= READABLE) return;
    const { x1, y1 } = drawing.elements().boundingBox();
    drawing.zoom(READABLE);
    drawing.pan({ x: 16 - x1 * READABLE, y: 16 - y1 * READABLE });
  }

  paint() {
    const styles = getComputedStyle(this), colour = (name) => styles.getPropertyValue(`--${name}`).trim();
    return [
      { selector: "node", style: { label: "data(label)", shape: "round-rectangle", height: "label", padding: 7, color: colour("ink"), "background-color": colour("sunk"), "border-color": colour("line-strong"), "border-width": 1, "font-family": "monospace", "font-size": 11, "text-valign": "center", "text-wrap": "wrap", "text-max-width": 170, "text-overflow-wrap": "anywhere" } },
      { selector: ".aside", style: { opacity: 0.2 } },
      { selector: "edge", style: { width: 1.2, "line-color": colour("line-strong"), "target-arrow-color": colour("line-strong"), "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier" } },
    ];
  }
}

customElements.define("y-graph", EdgeDrawing);
customElements.define("y-example", ExampleButton);
customElements.define("y-file", FilePicker);
customElements.define("y-tree", ForkTree);
customElements.define("y-diff", DiffBlock);
customElements.define("y-live", LivePart);
customElements.define("y-count", WaitingCount);
customElements.define("y-running", RunningCalls);
customElements.define("y-timeline", Timeline);
customElements.define("y-code", CodeBlock);
customElements.define("y-json", JsonBlock);
customElements.define("y-progress", ProgressLine);

// Fade what is about to be replaced.
const markBusy = (ids, isBusy) => ids.forEach((id) => byId(id)?.setAttribute("aria-busy", isBusy));

// Submit a form with data-swap by fetch, and replace the parts it names.
async function sendForm(form, submitter) {
  const fields = new URLSearchParams(new FormData(form, submitter));
  const buttons = [...form.querySelectorAll("button[type=submit]:enabled")];
  const line = form.querySelector("y-progress");
  const stop = new AbortController(), row = rowIndex(form), ids = (submitter?.dataset.swap ?? form.dataset.swap).split(" ");
  buttons.forEach((button) => { button.disabled = true; });
  form.dataset.busy = "";
  if (!line) markBusy(ids, true);
  const slow = setTimeout(() => line?.begin(() => stop.abort()), 250);
  try {
    await swap(form.action, ids, {
      method: "POST",
      body: fields,
      headers: { accept: "text/event-stream, text/html" },
      signal: stop.signal,
      onProgress: (notice) => { if (!line?.classList.contains("on")) line?.begin(() => stop.abort()); line?.show(notice); },
    });
  } catch (error) {
    const what = error.name === "AbortError" ? "Cancelled." : "The server did not answer.";
    const effect = form.dataset.effects === "read" ? "" : " It may have taken effect: check before you run it again.";
    byId("notice")?.replaceChildren(make("p", { class: "notice" }, what + effect));
    byId("notice")?.scrollIntoView({ block: "nearest" });
  } finally {
    clearTimeout(slow);
    line?.end();
    delete form.dataset.busy;
    markBusy(ids, false);
    buttons.forEach((button) => { button.disabled = false; });
    if (submitter?.id && document.activeElement === document.body) (byId(submitter.id) ?? linkAt(row))?.focus({ preventScroll: true });
    if (form.classList.contains("run")) byId("answer-title")?.scrollIntoView({ block: "nearest" });
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.swap && !event.defaultPrevented) {
    event.preventDefault();
    sendForm(form, event.submitter);
  }
});

// Search while typing.
let typing = 0, asked = new AbortController();
document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form?.dataset.live) return;
  clearTimeout(typing);
  typing = setTimeout(async () => {
    asked.abort();
    asked = new AbortController();
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const url = form.action + (query.size ? `?${query}` : ""), ids = form.dataset.live.split(" ");
    markBusy(ids, true);
    try {
      await swap(url, ids, { signal: asked.signal });
      history.replaceState(null, "", url);
    } catch (error) {
      if (error.name !== "AbortError") form.submit();
    }
  }, 180);
});

// Ignore repeated key presses, since the next approval moves into the place of the one just decided.
let decided = -Infinity;
const PAUSE_MS = 500;

// `/` focuses search, `j` and `k` move in a list, `a` and `d` decide the focused approval, `Escape` leaves a field.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && inField) inField.blur();
  if (inField) return;
  if (event.key === "/") {
    event.preventDefault();
    byId("q")?.select();
    byId("q")?.focus();
  }
  const approval = document.activeElement.closest("[data-approval]");
  if (approval && (event.key === "a" || event.key === "d") && !event.repeat && event.timeStamp - decided > PAUSE_MS) {
    decided = event.timeStamp;
    approval.querySelector(`button[aria-keyshortcuts="${event.key}"]`)?.click();
  }
  if (event.key === "j" || event.key === "k") {
    const links = rows().map((row) => row.querySelector("a, summary")).filter(Boolean);
    const at = links.findIndex((link) => link.closest("[data-rows] > *").contains(document.activeElement));
    const next = at < 0 ? 0 : at + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(next, links.length - 1))]?.focus();
  }
});
