/* ---- numbers ---- */
const KINDS = ["weights", "kv", "activation", "workspace", "gradient", "optimizer", "io", "host", "runtime"];
const COLOR = Object.fromEntries(KINDS.map((kind, i) => [kind, `--k${i}`]));
const KIND_NAMES = { kv: "KV cache", activation: "activations", gradient: "gradients", optimizer: "optimizer state",
  io: "reading buffers", host: "host data" };
const history = [];
function tile(value, what, className = "") {
  const e = make("div", "tile " + className);
  e.append(make("b", "", value), make("span", "", what));
  return e;
}
function drawMemory() {
  const canvas = $("memory"), scale = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (!w || !history.length) return;
  canvas.width = w * scale;
  canvas.height = h * scale;
  const g = canvas.getContext("2d"), last = history[history.length - 1];
  g.scale(scale, scale);
  /* Of a budget that is far above what is used the scale would show nothing else. */
  const most = Math.max(...history.map(m => m.live)), far = last.budget > 4 * most;
  const top = far ? 1.3 * most : 1.08 * Math.max(last.budget, most), y = n => h - n / top * h;
  const step = w / Math.max(60, history.length - 1), x = i => w - (history.length - 1 - i) * step;
  const floor = history.map(() => 0);
  for (const kind of KINDS) {
    if (!history.some(m => m.kinds[kind])) continue;
    g.fillStyle = css(COLOR[kind]);
    g.beginPath();
    history.forEach((m, i) => g.lineTo(x(i), y(floor[i])));
    history.forEach((m, i) => floor[i] += m.kinds[kind] || 0);
    for (let i = history.length - 1; i >= 0; i--) g.lineTo(x(i), y(floor[i]));
    g.fill();
  }
  if (last.budget) {
    g.strokeStyle = g.fillStyle = css("--bad");
    g.setLineDash([5, 4]);
    const line = far ? 2 : y(last.budget);
    g.beginPath(); g.moveTo(0, line); g.lineTo(w, line); g.stroke();
    g.font = "12px system-ui, sans-serif";
    g.fillText("budget " + bytes(last.budget) + (far ? ", above this scale" : ""), 4, line + 14);
  }
}
function drawKinds(m) {
  $("kinds").replaceChildren(...KINDS.filter(kind => m.kinds[kind]).map(kind => {
    const e = make("span"), dot = make("i");
    dot.style.background = `var(${COLOR[kind]})`;
    e.append(dot, `${KIND_NAMES[kind] || kind} ${bytes(m.kinds[kind])}`);
    return e;
  }));
}
const STATES = { prompt: "--k1", generating: "--k2", cached: "--k4", swapping: "--k3", shared: "--k0", free: "--free" };
function cells(n, color, most) {
  const all = [];
  for (let i = 0; i < Math.min(n, most); i++) {
    const c = make("span", "cell");
    c.style.background = `var(${color})`;
    all.push(c);
  }
  return all;
}
const SQUARES = 60; /* more take more of the window than they tell */
const pageCount = n => make("span", "n", `${number(n)} page${n === 1 ? "" : "s"}`);
function drawMap(m) {
  const rows = [], each = Math.max(1, Math.ceil(m.pages.all / SQUARES));
  for (const [state, length, pages, own] of m.slots) {
    if (state === "free") continue;
    const row = make("div", "row"), map = make("div", "cells");
    map.append(...cells(Math.ceil((pages - own) / each), STATES.shared, SQUARES), ...cells(Math.ceil(own / each), STATES[state], SQUARES));
    row.append(make("span", "", state), map, pageCount(pages));
    row.title = `${number(length)} tokens, ${number(pages - own)} of the pages shared`;
    rows.push(row);
  }
  const row = make("div", "row"), map = make("div", "cells");
  map.append(...cells(Math.ceil(m.pages.free / each), STATES.free, SQUARES));
  row.append(make("span", "", "free"), map, pageCount(m.pages.free));
  rows.push(row);
  $("map").replaceChildren(...rows);
  const used = new Set(["free", ...m.slots.map(([state]) => state)]);
  if (m.slots.some(([, , pages, own]) => own < pages)) used.add("shared");
  $("mapkey").replaceChildren(...Object.keys(STATES).filter(state => used.has(state)).map(state => {
    const e = make("span"), dot = make("i");
    dot.style.background = `var(${STATES[state]})`;
    e.append(dot, state);
    return e;
  }), make("span", "", `${number(m.pages.all)} pages of ` + (m.page_tokens ? `${number(m.page_tokens)} tokens (${bytes(m.pages.bytes)})` : bytes(m.pages.bytes)) + " in all" +
    (each > 1 ? `; a square is ${number(each)} of them` : "")));
}
/* The server keeps the rate of its last step: of a server that waits it is no speed of now. */
function rateTile(m) {
  if (m.running) return tile(m.rate.toFixed(1), "tokens/s, with prompts");
  return tile(m.rate ? m.rate.toFixed(1) : "–", m.rate ? "tokens/s when last busy" : "tokens/s", "past");
}
function drawTiles(m) {
  const found = m.looked_for ? (100 * m.found / m.looked_for).toFixed(0) + " %" : "–";
  $("tiles").replaceChildren(
    tile(bytes(m.live), "memory reserved"), tile(bytes(m.budget), "memory budget"), tile(bytes(m.resident_peak), "used so far (peak RSS)"),
    rateTile(m), tile(number(m.tokens), "tokens generated"),
    tile(number(m.prompt_tokens), "prompt tokens"), tile(found, "prefix cache hits"),
    tile(`${m.running} of ${m.parallel}`, "requests running"), tile(number(m.waiting), "requests waiting"),
    tile(number(m.preemptions), "preempted"), tile(m.step_ms.toFixed(0) + " ms", "last step"),
    tile(m.step_most_ms.toFixed(0) + " ms", "longest step"));
}
/* ---- several models ---- */
function drawChoice(models) {
  const box = $("model"), names = models.map(m => m.name), wanted = box.value || session.get("model");
  if (box.options.length !== names.length || names.some((name, i) => box.options[i].value !== name)) {
    box.replaceChildren(...names.map(name => make("option", "", name)));
    box.value = names.includes(wanted) ? wanted : names[0];
  }
  box.hidden = false;
}
function drawModels(models) {
  $("models_card").hidden = false;
  $("models").replaceChildren(...models.map(m => {
    const row = make("div", "row model"), busy = m.requests || m.waiting;
    row.append(make("span", "name", m.name), make("span", "", m.state + (m.pin ? ", pinned" : "") +
      (busy ? `, ${number(m.requests)} running, ${number(m.waiting)} waiting` : "")), make("span", "n", m.bytes ? bytes(m.bytes) : "–"));
    row.classList.toggle("out", m.state === "unloaded");
    row.title = m.name;
    return row;
  }));
}
/* What the first view says of the server. */
function drawFacts(m) {
  setText($("first_model"), m.model);
  const facts = [["Model", m.model], ["Memory", `${bytes(m.live)} reserved` + (m.budget ? ` of a budget of ${bytes(m.budget)}` : "")],
    ["Context", m.context ? `${number(m.context)} tokens for a conversation` : "known once it is loaded"],
    ["Requests", m.parallel ? `up to ${m.parallel} at a time` : "the model is loaded with the first one"]];
  const text = facts.map(fact => fact.join("")).join("");
  if ($("first_facts").textContent === text) return;
  $("first_facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}
/* Once a second; while an answer is on its way, as often as its text may change what is shown. */
let looking = false, lookTimer = 0, columnAt = -1000;
async function look() {
  if (looking) return;
  looking = true;
  clearTimeout(lookTimer);
  try {
    const of = chosenModel();
    const response = await fetch("/page.json" + (of ? "?model=" + encodeURIComponent(of) : ""), { headers: headers() });
    if (response.status === 401) throw new Error("this server needs an API key: see Settings");
    if (!response.ok) throw new Error("the server says " + response.status);
    const m = await response.json();
    /* The state first: a narrow window cuts off the end. */
    const mine = m.models && m.models.find(one => one.name === m.model), state = mine && mine.state !== "loaded" ? mine.state : "ready";
    setText($("about"), (m.ready ? m.draining ? "stopping" : state === "loading" ? "loading …" : state : "loading …") +
      ` · ${m.model} · ` + (m.context ? `${number(m.context)} tokens of context · ` : "") + m.version);
    if (m.models) { drawChoice(m.models); drawModels(m.models); }
    drawFacts(m);
    const now = performance.now();
    if (now - columnAt < 900) history.pop(); /* a column is a second */
    else columnAt = now;
    history.push(m);
    if (history.length > 300) history.shift();
    drawMemory();
    drawKinds(m);
    const loaded = m.ready && m.pages;
    for (const id of ["tiles", "map"]) $(id).closest("section").hidden = !loaded;
    if (loaded) { drawTiles(m); drawMap(m); }
  } catch (e) {
    setText($("about"), e instanceof TypeError ? "the server does not answer" : e.message);
  }
  looking = false;
  lookTimer = setTimeout(look, document.hidden ? 5000 : asking ? 250 : 1000);
}
drawTheme();
openChat(store.load(session.get("chat")) || newChat());
look();
onresize = () => history.length && drawMemory();
