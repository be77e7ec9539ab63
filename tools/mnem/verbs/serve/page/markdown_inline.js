/* ---- Markdown within a line: emphasis, code, links ----
 *
 * An answer is never HTML: nodes are made by name from the list below and text is set as text. Each
 * scan is linear in the text, and depth is bounded: layout recurses over nested elements. */
const INLINE_MOST = 40000, NESTED_MOST = 16, URL_MOST = 2000;
const SPECIAL = /[\\`*_~[\]!<&]|\bhttps?:\/\//gi;
const LETTER = /[\p{L}\p{N}_]/u;
const ENTITY = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|lt|gt|quot|apos|nbsp|hellip|mdash|ndash|rarr|larr|times|copy));/iy;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–",
  rarr: "→", larr: "←", times: "×", copy: "©" };
const TARGET = /\(\s{0,9}(?:<([^<>\n]{0,2000})>|([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))(?:\s{1,9}(?:"[^"]{0,500}"|'[^']{0,500}'))?\s{0,9}\)/y;
const BRACKETED = /<(https?:\/\/[^\s<>]{1,2000})>/iy, BREAK = /<br ?\/?>/iy, BARE = /https?:\/\/[^\s<>"`\\]{1,2000}/iy;
const at = (pattern, text, i) => { pattern.lastIndex = i; return pattern.exec(text); };

/* The address of a link, or null: only those of the web are links. */
function linkTarget(address) {
  if (address.length > URL_MOST || !/^https?:\/\/[^\s/]/i.test(address)) return null;
  try { return new URL(address).href; } catch { return null; }
}
/* What closes the sentence around an address is not of it. */
function withoutTail(address) {
  let depth = 0;
  for (const c of address) depth += c === "(" ? 1 : c === ")" ? -1 : 0;
  for (;;) {
    const last = address[address.length - 1];
    if (last === ")" && depth < 0) depth++;
    else if (!".,;:!?'*_~]".includes(last)) return address;
    address = address.slice(0, -1);
  }
}
function codePoint(digits, base) {
  const n = parseInt(digits, base);
  return n > 0 && n < 0x110000 && (n < 0xd800 || n > 0xdfff) ? String.fromCodePoint(n) : "\ufffd";
}

/* Pairs runs of * _ ~ as CommonMark does: a closer takes the nearest opener of its kind, and what
 * could not be found once is not looked for again (`floor`). */
function pairRuns(runs) {
  const stack = [], floor = {};
  for (const run of runs) {
    while (run.closes && run.count) {
      const key = run.c + run.opens + run.all % 3;
      let i = stack.length - 1;
      while (i >= (floor[key] || 0) && !pairs(stack[i], run)) i--;
      if (i < (floor[key] || 0)) { floor[key] = stack.length; break; }
      const opener = stack[i], n = run.c === "~" || (opener.count > 1 && run.count > 1) ? 2 : 1;
      const tag = run.c === "~" ? "del" : n === 2 ? "strong" : "em";
      opener.count -= n;
      run.count -= n;
      opener.after.unshift({ open: tag });
      run.before.push({ close: tag });
      stack.length = opener.count ? i + 1 : i;
      for (const k in floor) floor[k] = Math.min(floor[k], stack.length);
    }
    if (run.opens && run.count) stack.push(run);
  }
}
function pairs(opener, run) {
  if (opener.c !== run.c) return false;
  const both = (opener.closes || run.opens) && (opener.all + run.all) % 3 === 0;
  return !both || (opener.all % 3 === 0 && run.all % 3 === 0);
}

class InlineParser {
  constructor(text) {
    this.text = text;
    this.parts = []; /* {text}, {code}, {br}, {open, href}, {close}, or a run of * _ ~ */
    this.runs = [];
    this.brackets = [];
    this.unclosed = new Set(); /* lengths of backtick runs that nothing closes */
  }
  say(text) { if (text) this.parts.push({ text }); }
  link(href, text) { this.parts.push({ open: "a", href }, { text }, { close: "a" }); }

  run(i) {
    const text = this.text, c = text[i];
    let end = i;
    while (text[end] === c) end++;
    const before = text[i - 1] || " ", after = text[end] || " ", count = end - i;
    let opens = !/\s/.test(after), closes = !/\s/.test(before);
    if (c === "_") { opens = opens && !LETTER.test(before); closes = closes && !LETTER.test(after); }
    if ((c === "~" && count !== 2) || !(opens || closes)) this.say(text.slice(i, end));
    else {
      const run = { c, count, all: count, opens, closes, before: [], after: [] };
      this.parts.push(run);
      this.runs.push(run);
    }
    return end;
  }
  code(i) {
    const text = this.text;
    let end = i;
    while (text[end] === "`") end++;
    const count = end - i;
    for (let from = end; !this.unclosed.has(count);) {
      const start = text.indexOf("`", from);
      if (start < 0) { this.unclosed.add(count); break; }
      for (from = start; text[from] === "`";) from++;
      if (from - start !== count) continue;
      let code = text.slice(end, start).replace(/\n/g, " ");
      if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
      this.parts.push({ code });
      return from;
    }
    this.say(text.slice(i, end));
    return end;
  }
  bracket(i, image) {
    this.brackets.push({ part: this.parts.length, runs: this.runs.length, image, dead: false });
    this.say(image ? "![" : "[");
    return i + (image ? 2 : 1);
  }
  closeBracket(i) {
    const opener = this.brackets.pop(), target = opener && !opener.dead && at(TARGET, this.text, i + 1);
    const href = target && linkTarget(target[1] ?? target[2]);
    if (!href) { this.say("]"); return i + 1; }
    pairRuns(this.runs.splice(opener.runs));
    for (let k = opener.part + 1; k < this.parts.length; k++) /* an address as a label is a label */
      if (this.parts[k].open === "a" || this.parts[k].close === "a") this.parts[k] = { text: "" };
    this.parts[opener.part] = { open: "a", href };
    if (opener.image) this.parts.splice(opener.part + 1, 0, { text: "image: " });
    this.parts.push({ close: "a" });
    for (const other of this.brackets) other.dead = true;
    return i + 1 + target[0].length;
  }
  angle(i) {
    const address = at(BRACKETED, this.text, i), href = address && linkTarget(address[1]);
    if (href) { this.link(href, address[1]); return i + address[0].length; }
    const br = at(BREAK, this.text, i);
    if (br) { this.parts.push({ br: true }); return i + br[0].length; }
    this.say("<");
    return i + 1;
  }
  entity(i) {
    const found = at(ENTITY, this.text, i);
    if (!found) { this.say("&"); return i + 1; }
    const [all, decimal, hex, name] = found;
    this.say(decimal ? codePoint(decimal, 10) : hex ? codePoint(hex, 16) : ENTITIES[name.toLowerCase()]);
    return i + all.length;
  }
  address(i) {
    const address = withoutTail(at(BARE, this.text, i)?.[0] || "h"), href = linkTarget(address);
    if (href) this.link(href, address);
    else this.say(address);
    return i + address.length;
  }
  special(i) {
    const text = this.text, c = text[i];
    switch (c) {
    case "\\":
      if (!/[!-/:-@[-`{-~]/.test(text[i + 1] || "")) { this.say("\\"); return i + 1; }
      this.say(text[i + 1]);
      return i + 2;
    case "`": return this.code(i);
    case "*": case "_": case "~": return this.run(i);
    case "[": return this.bracket(i, false);
    case "]": return this.closeBracket(i);
    case "<": return this.angle(i);
    case "&": return this.entity(i);
    case "!":
      if (text[i + 1] === "[") return this.bracket(i, true);
      this.say("!");
      return i + 1;
    default: return this.address(i);
    }
  }
  parse() {
    for (let i = 0; i < this.text.length;) {
      const found = at(SPECIAL, this.text, i);
      this.say(this.text.slice(i, found ? found.index : undefined));
      if (!found) break;
      i = this.special(found.index);
    }
    pairRuns(this.runs);
    const parts = [];
    for (const part of this.parts)
      if (part.c) parts.push(...part.before, { text: part.c.repeat(part.count) }, ...part.after);
      else parts.push(part);
    return parts;
  }
}

function openElement(part) {
  const e = make(part.open);
  if (part.href) {
    e.href = e.title = part.href;
    e.rel = "noopener noreferrer";
    e.target = "_blank";
  }
  return e;
}
/* Appends a line of Markdown to an element. */
function renderInline(into, text) {
  if (text.length > INLINE_MOST) { into.append(text); return; }
  const stack = [into];
  let skipped = 0;
  for (const part of new InlineParser(text).parse()) {
    const top = stack[stack.length - 1];
    if (part.open && (skipped || stack.length > NESTED_MOST)) skipped++;
    else if (part.open) {
      const e = openElement(part);
      top.append(e);
      stack.push(e);
    } else if (part.close && skipped) skipped--;
    else if (part.close) stack.pop();
    else if (part.br) top.append(make("br"));
    else if (part.code !== undefined) top.append(make("code", "", part.code));
    else if (part.text) top.append(part.text);
  }
  into.normalize();
}
