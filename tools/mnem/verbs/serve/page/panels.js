/* ---- the list of conversations, the theme, and what a narrow window hides ---- */

const nameOf = about => about.name || "without a name";
function iconButton(act, text, label) {
  const e = make("button", "small", text);
  e.type = "button";
  e.dataset.act = act;
  e.setAttribute("aria-label", label);
  return e;
}
function drawList() {
  const rows = store.all().map(about => {
    const row = make("li", about.id === chat.id ? "current" : ""), open = make("button", "name", nameOf(about));
    row.dataset.id = about.id;
    open.type = "button";
    open.dataset.act = "open";
    open.title = nameOf(about);
    if (about.id === chat.id) open.setAttribute("aria-current", "true");
    row.append(open, iconButton("rename", "Rename", "rename " + nameOf(about)), iconButton("delete", "Delete", "delete " + nameOf(about)));
    return row;
  });
  $("kept").replaceChildren(...rows);
  setText($("store_note"), store.note);
  $("export_md").disabled = $("export_json").disabled = !chat.turns.length;
}
function rename(row) {
  const form = make("form"), box = make("input"), id = row.dataset.id;
  box.value = row.querySelector(".name").textContent;
  box.maxLength = 80;
  box.setAttribute("aria-label", "name of the conversation");
  const done = () => {
    const name = box.value.trim();
    if (name) store.rename(id, name);
    if (name && id === chat.id) chat.name = name;
    drawList();
    $("kept").querySelector(`li[data-id="${id}"] .name`)?.focus();
  };
  form.onsubmit = e => { e.preventDefault(); done(); };
  box.onkeydown = e => { if (e.key === "Escape") { e.stopPropagation(); drawList(); } };
  form.append(box);
  row.replaceChildren(form);
  box.select();
}
/* Asks once more in its own place: a page has no other way that a browser doesn't block. */
function remove(row, button) {
  if (!button.classList.contains("sure")) {
    button.classList.add("sure");
    button.textContent = "Delete it?";
    button.onblur = drawList;
    return;
  }
  button.onblur = null;
  store.remove(row.dataset.id);
  session.set("draft." + row.dataset.id, "");
  if (row.dataset.id === chat.id) {
    chat.deleted = true; /* the answer that may be arriving does not bring it back */
    openChat(newChat());
  } else drawList();
}
$("kept").onclick = e => {
  const button = e.target.closest("button[data-act]"), row = button && button.closest("li");
  if (!row) return;
  if (button.dataset.act === "rename") rename(row);
  if (button.dataset.act === "delete") remove(row, button);
  if (button.dataset.act === "open") {
    const c = row.dataset.id === chat.id ? null : store.load(row.dataset.id);
    if (c) openChat(c);
    else if (row.dataset.id !== chat.id) say("That conversation can't be read: the browser's copy of it is damaged.");
    closePanels();
  }
};
$("fresh").onclick = () => { openChat(newChat()); closePanels(); $("text").focus(); };
addEventListener("storage", () => drawList());

/* ---- export ---- */

const fileName = () => (chat.name.replace(/[^\p{L}\p{N} _-]/gu, "").trim().slice(0, 40) || "conversation");
function download(name, type, text) {
  const a = make("a"), url = URL.createObjectURL(new Blob([text], { type }));
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
$("export_json").onclick = () => {
  const messages = chat.turns.map(({ role, content }) => ({ role, content }));
  if ($("system").value) messages.unshift({ role: "system", content: $("system").value });
  download(fileName() + ".json", "application/json", JSON.stringify(messages, null, 1) + "\n");
};
$("export_md").onclick = () => {
  const parts = chat.turns.map(turn => `**${turn.role === "user" ? "You" : "Model"}**\n\n${turn.content}\n`);
  download(fileName() + ".md", "text/markdown", `# ${chat.name}\n\n` + parts.join("\n"));
};

/* ---- theme ---- */

const THEMES = ["system", "light", "dark"], dark = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";
try { theme = THEMES.find(t => t === localStorage.getItem("mnem.theme")) || "system"; } catch { /* the system's */ }
function drawTheme() {
  document.documentElement.dataset.theme = theme === "system" ? dark.matches ? "dark" : "light" : theme;
  $("theme").textContent = "Theme: " + theme;
  if (history.length) drawMemory();
}
$("theme").onclick = () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try { localStorage.setItem("mnem.theme", theme); } catch { /* until the page is closed */ }
  drawTheme();
};
dark.onchange = drawTheme;

/* ---- panels of a narrow window ---- */

const PANELS = { show_list: "list", show_meters: "meters" };
function setPanel(button, open) {
  $(button).setAttribute("aria-expanded", open);
  $(PANELS[button]).classList.toggle("shown", open);
}
function closePanels() {
  const shown = Object.keys(PANELS).find(button => $(button).getAttribute("aria-expanded") === "true");
  for (const button in PANELS) setPanel(button, false);
  return shown;
}
for (const button in PANELS) $(button).onclick = () => {
  const open = $(button).getAttribute("aria-expanded") !== "true";
  closePanels();
  setPanel(button, open);
  if (open) { $(PANELS[button]).querySelector("button, [tabindex]")?.focus(); drawMemory(); }
};
$("said").addEventListener("click", closePanels);
document.onkeydown = e => {
  if (e.key !== "Escape") return;
  const shown = closePanels();
  if (shown) $(shown).focus();
  else if (asking) asking.abort();
};
