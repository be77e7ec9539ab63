/* ---- turns on the screen ----
 *
 * A turn is an <article> whose text is there from the start. Turns stand in groups: the Markdown and
 * the buttons of one are made when it comes near to what is seen, and the browser looks at no other
 * (content-visibility), so that a conversation of thousands of turns costs what a screen of it costs. */
const turnsBox = $("turns"), scroller = $("said");
let stuck = true, lastTop = 0; /* to the end, while nobody has scrolled up */
/* While it is, the browser does not scroll of itself: a position that falls is somebody's wish. */
function stick(on) {
  if (on !== stuck) scroller.style.overflowAnchor = on ? "none" : "auto";
  stuck = on;
}
scroller.onscroll = () => {
  const top = scroller.scrollTop;
  if (scroller.scrollHeight - top - scroller.clientHeight < 60) stick(true);
  else if (top < lastTop) stick(false);
  lastTop = top;
};
new ResizeObserver(() => { if (stuck) scroller.scrollTop = scroller.scrollHeight; }).observe(turnsBox);
function toEnd() {
  stick(true);
  scroller.scrollTop = scroller.scrollHeight;
}

const GROUP = 16;
const views = new WeakMap(); /* an article's view */
const near = new IntersectionObserver(seen => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    for (const node of target.children) views.get(node).fill();
  }
}, { root: scroller, rootMargin: "600px" });

function newGroup(nodes) {
  const group = make("div", "group");
  group.append(...nodes);
  near.observe(group);
  return group;
}
function showTurn(view) {
  const last = turnsBox.lastElementChild;
  if (last && last.children.length < GROUP) last.append(view.node);
  else turnsBox.append(newGroup([view.node]));
  if (view.turn.role === "user") view.fill(); /* an answer is filled as it arrives */
}
function showTurns(turns) {
  const groups = [];
  for (let i = 0; i < turns.length; i += GROUP)
    groups.push(newGroup(turns.slice(i, i + GROUP).map(turn => new TurnView(turn).node)));
  turnsBox.replaceChildren(...groups);
}
function hideTurnsFrom(index) {
  while (turnsBox.children.length > Math.ceil(index / GROUP)) turnsBox.lastElementChild.remove();
  const last = turnsBox.lastElementChild;
  while (last && last.children.length > index - (turnsBox.children.length - 1) * GROUP) last.lastElementChild.remove();
}

class TurnView {
  constructor(turn) {
    this.turn = turn;
    this.node = make("article", "turn " + turn.role);
    this.node.setAttribute("aria-label", turn.role === "user" ? "you" : "the model");
    this.body = make("div", "body", turn.content);
    this.body.dir = "auto";
    this.node.append(this.body);
    this.filled = false;
    views.set(this.node, this);
  }
  fill() {
    if (this.filled) return;
    this.filled = true;
    if (this.turn.thought) this.think(this.turn.thought);
    if (this.turn.role === "assistant") this.rendered().set(this.turn.content);
    this.foot();
  }
  rendered() {
    if (!this.markdown) {
      this.body.replaceChildren();
      this.body.removeAttribute("dir");
      this.markdown = new Markdown(this.body, node => speak(node.textContent));
    }
    return this.markdown;
  }
  think(text) {
    if (!this.thought) {
      this.thought = make("details", "thought");
      this.thought.append(make("summary", "", "Reasoning"), make("div"));
      this.node.prepend(this.thought);
    }
    const box = this.thought.lastChild, shown = box.textContent.length;
    box.append(text.slice(shown));
    box.normalize();
  }
  foot() {
    this.bar?.remove();
    this.bar = make("div", "foot");
    const button = (act, text, label) => {
      const e = make("button", "small", text);
      e.type = "button";
      e.dataset.act = act;
      e.setAttribute("aria-label", label);
      this.bar.append(e);
    };
    if (this.turn.role === "user") button("edit", "Edit", "edit this message and send it again");
    button("copy", "Copy", this.turn.role === "user" ? "copy this message" : "copy this answer");
    if (this.turn.role === "assistant") button("again", "Regenerate", "generate this answer again");
    if (this.turn.note) this.bar.append(make("span", "note", this.turn.note));
    this.node.append(this.bar);
  }
}

/* An answer while it arrives: rendered once a frame at most, and less often where that takes long. */
class Arriving {
  constructor(view) {
    this.view = view;
    this.next = 0;
    this.asked = false;
    this.pieces = 0; /* of text: a token each, but for those that wait for the rest of a character */
    view.filled = true;
    view.node.classList.add("open");
    view.rendered();
  }
  more() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }
  draw() {
    const start = performance.now();
    if (start < this.next && !this.ended) { this.more(); return; }
    const { turn } = this.view;
    if (turn.thought) this.view.think(turn.thought);
    this.view.markdown.set(turn.content);
    this.next = performance.now() + 4 * (performance.now() - start) - 8;
  }
  end() {
    this.ended = true;
    this.draw();
    this.view.markdown.end();
    this.view.node.classList.remove("open");
    this.view.foot();
  }
}

/* For screen readers: finished blocks of an answer that arrives, not each token. */
function speak(text) {
  if (!asking || !text.trim()) return;
  $("spoken").append(make("p", "", text));
}

async function copyText(text, button) {
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch { done = copyBySelection(text); }
  const label = button.dataset.label ??= button.textContent;
  button.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => { button.textContent = label; }, 1500);
}
/* A page that doesn't come from this machine or over TLS has no clipboard. */
function copyBySelection(text) {
  const box = make("textarea", "unseen");
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}
