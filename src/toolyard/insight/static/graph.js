"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const paint = dark
    ? { ink: "#ebebe5", surface: "#1d1f1c", edge: "#8a8d83", accent: "#6fd3ab", source: "#f3ad5d" }
    : { ink: "#1b1c1a", surface: "#ffffff", edge: "#8a8d83", accent: "#0f6b4f", source: "#b25300" };
  const spaces = [...new Set(data.nodes.map((node) => node.namespace))];
  const colours = new Map([...spaces].sort().map((space, at) => [space, `hsl(${Math.round(160 + at * 137.508) % 360}, 55%, 45%)`]));
  const byName = new Map(data.nodes.map((node) => [`${node.namespace}::${node.label}`, node.id]));

  const cy = cytoscape({
    container: byId("graph"),
    elements: [
      ...spaces.map((space, at) => ({ data: { id: `s${at}`, label: space, colour: colours.get(space) }, classes: "space" })),
      ...data.nodes.map((node) => ({
        data: { ...node, parent: `s${spaces.indexOf(node.namespace)}`, colour: colours.get(node.namespace) },
        classes: "tool",
      })),
      ...data.edges.map((edge, at) => ({ data: { ...edge, id: `e${at}` } })),
    ],
    layout: { name: "preset" },
    minZoom: 0.02,
    maxZoom: 3,
    autoungrabify: true,
    boxSelectionEnabled: false,
    hideEdgesOnViewport: data.edges.length > 4000,
    textureOnViewport: data.nodes.length > 1500,
    style: [
      { selector: "node", style: { label: "data(label)", color: paint.ink, "font-size": 11, "border-color": "data(colour)", "border-width": 1 } },
      { selector: ".tool", style: { shape: "round-rectangle", width: 150, height: 22, "background-color": paint.surface, "text-valign": "center", "text-wrap": "ellipsis", "text-max-width": 140, "font-family": "monospace", "min-zoomed-font-size": 5 } },
      { selector: ".space", style: { shape: "round-rectangle", "background-color": "data(colour)", "background-opacity": 0.08, "font-size": 15, "font-weight": "bold", "text-valign": "top", "text-margin-y": -4, padding: 14, events: "no" } },
      { selector: "edge", style: { width: 1.2, "line-color": paint.edge, "target-arrow-color": paint.edge, "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier", opacity: "mapData(score, 0.5, 1, 0.25, 0.9)" } },
      { selector: ".faded", style: { opacity: 0.12 } },
      { selector: ".hidden", style: { display: "none" } },
      { selector: "edge.out", style: { "line-color": paint.accent, "target-arrow-color": paint.accent, width: 2.5, opacity: 1, "z-index": 9 } },
      { selector: "edge.in", style: { "line-color": paint.source, "target-arrow-color": paint.source, width: 2.5, opacity: 1, "z-index": 9 } },
      { selector: ".chosen", style: { "border-width": 3 } },
    ],
  });
  const tools = cy.nodes(".tool");

  // Each namespace is a grid of its own, what feeds before what is fed; the grids stand in rows about as wide as high.
  function layOutNamespaces() {
    const grids = spaces.map((_, at) => {
      const nodes = cy.getElementById(`s${at}`).children();
      const columns = Math.max(1, Math.round(Math.sqrt(nodes.length / 4)));
      return { nodes, columns, width: columns * 190, height: Math.ceil(nodes.length / columns) * 34 };
    });
    const area = grids.reduce((sum, grid) => sum + (grid.width + 60) * (grid.height + 80), 0);
    const wide = Math.max(Math.sqrt(area) * 1.4, ...grids.map((grid) => grid.width));
    let x = 0, y = 0, row = 0;
    for (const grid of grids) {
      if (x > 0 && x + grid.width > wide) [x, y, row] = [0, y + row + 80, 0];
      grid.nodes
        .sort((one, other) => one.indegree(false) - one.outdegree(false) - other.indegree(false) + other.outdegree(false))
        .layout({ name: "grid", cols: grid.columns, fit: false, padding: 0, avoidOverlap: false, boundingBox: { x1: x, y1: y, w: grid.width, h: grid.height } })
        .run();
      x += grid.width + 60;
      row = Math.max(row, grid.height);
    }
  }

  function applyFilters() {
    const space = byId("namespace").value, least = Number(byId("score").value);
    byId("least").value = least.toFixed(2);
    cy.batch(() => {
      cy.elements().removeClass("hidden");
      tools.filter((node) => space !== "" && node.data("namespace") !== space).addClass("hidden");
      cy.edges().filter((edge) => edge.data("score") < least || edge.connectedNodes(".hidden").nonempty()).addClass("hidden");
      if (byId("linked").checked) tools.filter((node) => node.connectedEdges().not(".hidden").empty()).addClass("hidden");
      cy.nodes(".space").filter((box) => box.children().not(".hidden").empty()).addClass("hidden");
    });
    const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
    const edges = cy.edges().not(".hidden").length;
    byId("status").textContent = `${count(tools.not(".hidden").length, "tool")}, ${edges.toLocaleString("en")} of ${count(data.edges_in_all, "edge")}`;
  }

  function make(tag, text, ...children) {
    const element = document.createElement(tag);
    element.textContent = text;
    element.append(...children);
    return element;
  }

  function listEdges(title, edges, end) {
    const rows = edges.sort((one, other) => other.data("score") - one.data("score")).map((edge) => {
      const other = edge[end]();
      const button = make("button", `${other.data("namespace")}::${other.data("label")}`);
      button.type = "button";
      button.addEventListener("click", () => chooseTool(other, true));
      const feeds = edge.data("feeds").map((feed) => make("small", `${feed.output} → ${feed.parameter}`));
      if (edge.data("more_feeds")) feeds.push(make("small", `and ${edge.data("more_feeds")} more`));
      return make("li", "", button, ` ${edge.data("score").toFixed(2)}`, ...feeds);
    });
    return [make("h3", `${title} (${rows.length})`), make("ul", "", ...rows)];
  }

  function chooseTool(node, center) {
    cy.elements().removeClass("faded chosen in out");
    const panel = byId("panel");
    panel.replaceChildren();
    if (!node) {
      panel.append(make("p", "Click on a tool, or search for one, to see what it feeds and what feeds it."));
      return;
    }
    if (node.hasClass("hidden")) {
      [byId("namespace").value, byId("linked").checked] = ["", false];
      applyFilters();
    }
    const fed = node.outgoers("edge"), feeding = node.incomers("edge");
    cy.batch(() => {
      tools.union(cy.edges()).not(node.closedNeighborhood()).addClass("faded");
      fed.addClass("out");
      feeding.addClass("in");
      node.addClass("chosen");
    });
    // The header may have wrapped meanwhile, which the graph would notice only later.
    if (center) cy.resize(), cy.zoom(Math.max(cy.zoom(), 0.9)), cy.center(node);
    panel.append(make("h2", node.data("label")), make("p", node.data("namespace")), make("p", node.data("description")));
    panel.append(...listEdges("Feeds", fed, "target"), ...listEdges("Fed by", feeding, "source"));
  }

  function searchTool() {
    const words = byId("query").value.toLowerCase().split(/\s+/).filter(Boolean);
    const exact = byName.get(byId("query").value);
    const found = exact ? cy.getElementById(exact) : tools.filter((node) => words.every((word) => `${node.data("namespace")}::${node.data("label")}`.toLowerCase().includes(word))).first();
    chooseTool(words.length && found.nonempty() ? found : null, true);
    if (words.length && found.empty()) byId("panel").replaceChildren(make("p", "No tool has that in its name."));
  }

  byId("names").append(...[...byName.keys()].map((name) => Object.assign(document.createElement("option"), { value: name })));
  byId("namespace").append(...[...spaces].sort().map((space) => Object.assign(make("option", space), { value: space })));
  for (const id of ["namespace", "score", "linked"]) byId(id).addEventListener("input", applyFilters);
  byId("query").addEventListener("change", searchTool);
  byId("fit").addEventListener("click", () => cy.fit(undefined, 30));
  cy.on("tap", (event) => chooseTool(event.target !== cy && event.target.isNode() ? event.target : null, false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== byId("query")) { event.preventDefault(); byId("query").focus(); }
    if (event.key === "Escape") chooseTool(null, false);
  });
  layOutNamespaces();
  applyFilters();
  chooseTool(null, false);
  cy.fit(undefined, 30);
  window.toolyardGraph = cy;
})();
