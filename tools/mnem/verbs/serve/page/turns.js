/* ---- turns on the screen ----
 *
 * A turn is an <article> whose text is there from the start; its Markdown and its buttons are made
 * when it comes near to what is seen, and the browser lays out only that (content-visibility): a
 * conversation of thousands of turns costs what a screen of it costs. */
const turnsBox = $("turns"), scroller = $("said");
let stuck = true; /* to the end, while nobody has scrolled up */
scroller.onscroll = () => { stuck = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60; };
new ResizeObserver(() => { if (stuck) scroller.scrollTop = scroller.scrollHeight; }).observe(turnsBox);
const toEnd = () => { stuck = true; scroller.scrollTop = scroller.scrollHeight; };

const views = new WeakMap(); /* an article's view */
const near = new IntersectionObserver(seen => {
  for (const { target, isIntersecting } of seen)
    if (isIntersecting) { near.unobserve(target); views.get(target)?.fill(); }
}, { root: scroller, rootMargin: "600px" });

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
    near.observe(this.node);
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
    view.filled = true;
    near.unobserve(view.node);
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
