/* ---- the conversation ---- */

let chat = null;   /* {id, name, title, at, turns: [{role, content, thought, note}]} */
let asking = null; /* aborts the request that runs */
$("key").value = session.get("key");
$("key").onchange = () => session.set("key", $("key").value);
const headers = () => $("key").value ? { Authorization: "Bearer " + $("key").value } : {};
const newChat = () => ({ id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), name: "", at: 0, turns: [] });
const titleOf = c => c.turns.length ? c.turns[0].content.replace(/\s+/g, " ").slice(0, 48) : "";
/* What is typed but not sent belongs to its conversation; those without a message share one draft. */
const draftKey = c => "draft." + (c.at ? c.id : "new");
const keepDraft = () => session.set(draftKey(chat), $("text").value);
function setDraft(text) {
  $("text").value = text;
  keepDraft();
}

function say(wrong) { setText($("wrong"), wrong); }
function addTurn(turn) {
  const view = new TurnView(turn);
  chat.turns.push(turn);
  showTurn(view);
  $("first").hidden = true;
  return view;
}
/* Forgets turn `index` and what follows. */
function cutTurns(index) {
  chat.turns.length = index;
  hideTurnsFrom(index);
}
function openChat(c) {
  if (asking) asking.abort();
  chat = c;
  c.title ??= titleOf(c);
  $("text").value = session.get(draftKey(c));
  session.set("chat", c.id);
  say("");
  showTurns(c.turns);
  $("first").hidden = c.turns.length > 0;
  $("spoken").replaceChildren();
  toEnd();
  drawList();
}
function keepChat(c) {
  if (c.deleted) return;
  if (!c.turns.length) {
    if (c.at) { store.remove(c.id); drawList(); }
    c.at = 0;
    return;
  }
  const title = titleOf(c);
  if (!c.name || c.name === c.title) c.name = title; /* another one is the user's */
  c.title = title;
  store.save(c);
  drawList();
}

/* Of a server of several models one is chosen; "" where there is one. */
const chosenModel = () => $("model").hidden ? "" : $("model").value;
$("model").onchange = () => { session.set("model", $("model").value); look(); };

function request(turns) {
  const messages = turns.map(({ role, content }) => ({ role, content }));
  if ($("system").value) messages.unshift({ role: "system", content: $("system").value });
  const body = { messages, stream: true, stream_options: { include_usage: true } };
  if (chosenModel()) body.model = chosenModel();
  if ($("temperature").value !== "") body.temperature = +$("temperature").value;
  if ($("tokens").value !== "") body.max_tokens = +$("tokens").value;
  return body;
}
/* Events of a stream: what stands behind "data: ", up to an empty line. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    for (let end; (end = held.indexOf("\n\n")) >= 0; held = held.slice(end + 2))
      for (const line of held.slice(0, end).split("\n"))
        if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}
/* Asks for the answer to `turns`, which goes into `turn` as it arrives. */
async function answer(turns, turn, arriving) {
  const start = performance.now();
  let first = 0, usage = null, why = "";
  const response = await fetch("/v1/chat/completions", { method: "POST", signal: asking.signal,
    headers: { "Content-Type": "application/json", ...headers() }, body: JSON.stringify(request(turns)) });
  if (!response.ok) {
    const e = await response.json().catch(() => null);
    throw new Error(e && e.error ? e.error.message : "the server says " + response.status);
  }
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) usage = event.usage;
    const choice = event.choices && event.choices[0];
    if (!choice) continue;
    if (choice.finish_reason) why = choice.finish_reason;
    const delta = choice.delta || {};
    if (delta.content || delta.reasoning_content) arriving.pieces++;
    if (!first && arriving.pieces) { first = performance.now(); look(); }
    if (delta.reasoning_content) turn.thought = (turn.thought || "") + delta.reasoning_content;
    if (delta.content) turn.content += delta.content;
    arriving.more();
  }
  if (!first) first = performance.now();
  if (usage) turn.note = noteOf(usage, why, (first - start) / 1000, (performance.now() - first) / 1000);
}
/* An answer that came within 0.1 s came in one or two reads, which say nothing about its speed. */
function noteOf(usage, why, wait, seconds) {
  const cached = usage.prompt_tokens_details ? usage.prompt_tokens_details.cached_tokens : 0, out = usage.completion_tokens;
  return `${usage.prompt_tokens} tokens in` + (cached ? ` (${cached} of them cached)` : "") + `, ${out} out` +
    (out > 1 && seconds > 0.1 ? ` at ${((out - 1) / seconds).toFixed(1)} a second` : "") +
    `, the first after ${wait.toFixed(2)} s` + (why === "length" ? "; cut at the limit" : "");
}
/* Generates an answer to the last message. `before` are the turns to go back to if there is none. */
async function generate(before, draft) {
  const c = chat, turns = c.turns.slice(), turn = { role: "assistant", content: "" }, view = addTurn(turn);
  const arriving = new Arriving(view), mine = asking = new AbortController();
  let failed = "";
  $("send").textContent = "Stop";
  look();
  $("spoken").replaceChildren();
  say("");
  toEnd();
  try {
    await answer(turns, turn, arriving);
  } catch (e) {
    if (e.name !== "AbortError") failed = e instanceof TypeError ? "The server does not answer." : e.message;
    else turn.note ||= "stopped" + (arriving.pieces ? `, about ${arriving.pieces} token${arriving.pieces > 1 ? "s" : ""} out` : "");
  }
  arriving.end();
  if (asking === mine) { asking = null; $("send").textContent = "Send"; }
  look();
  if (!turn.content && !turn.thought) {
    if (failed || turn.note === "stopped") c.turns = before;
    if (chat === c) openChat(c);
  }
  if (chat === c) say(failed);
  keepChat(c);
  if (chat === c && !c.turns.includes(turn) && draft && !$("text").value) setDraft(draft);
}
function ask(text) {
  if (!text.trim() || asking) return;
  const before = chat.turns.slice();
  session.set(draftKey(chat), "");
  addTurn({ role: "user", content: text.trim() });
  keepChat(chat);
  keepDraft();
  generate(before, text);
}
function askAgain(index, text) {
  if (asking) return;
  const before = chat.turns.slice();
  cutTurns(index);
  if (text !== undefined) {
    addTurn({ role: "user", content: text });
    keepChat(chat);
  }
  generate(before);
}

/* ---- what one can do with a turn ---- */

function edit(view, index) {
  const box = make("form", "edit"), text = make("textarea"), send = make("button", "main", "Send from here");
  const cancel = make("button", "", "Cancel"), close = () => {
    box.replaceWith(view.body);
    view.node.classList.remove("editing");
    view.bar.querySelector("button").focus();
  };
  text.value = view.turn.content;
  text.rows = Math.min(12, text.value.split("\n").length + 1);
  text.setAttribute("aria-label", "your message, to send again from here");
  cancel.type = "button";
  cancel.onclick = close;
  box.onsubmit = e => { e.preventDefault(); if (!asking && text.value.trim()) askAgain(index, text.value.trim()); };
  text.onkeydown = e => {
    if (e.key === "Escape") { e.stopPropagation(); close(); }
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); box.requestSubmit(); }
  };
  box.append(text, send, cancel);
  view.node.classList.add("editing");
  view.body.replaceWith(box);
  text.focus();
}
turnsBox.onclick = e => {
  const button = e.target.closest("button[data-act]"), node = button && button.closest(".turn");
  if (!node) return;
  const view = views.get(node), index = chat.turns.indexOf(view.turn);
  switch (button.dataset.act) {
  case "code": copyText(button.closest(".code").querySelector("pre").textContent, button); break;
  case "copy": copyText(view.turn.content, button); break;
  case "again": askAgain(index); break;
  case "edit": edit(view, index); break;
  }
};
$("form").onsubmit = e => {
  e.preventDefault();
  if (asking) { asking.abort(); return; }
  const text = $("text").value;
  setDraft("");
  ask(text);
};
$("text").oninput = keepDraft;
$("text").onkeydown = e => {
  if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  if (!asking) $("form").requestSubmit();
};
$("prompts").onclick = e => { if (e.target.matches("button")) ask(e.target.textContent); };
$("settings").onsubmit = e => e.preventDefault();
/* An answer that is cut off so says it, when its conversation is read again. */
addEventListener("pagehide", () => {
  if (!asking) return;
  chat.turns.at(-1).note ||= "interrupted: the page was reloaded or closed";
  keepChat(chat);
});
