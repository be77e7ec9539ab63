/* ---- Markdown blocks: headings, lists, tables, code, quotes, paragraphs ----
 *
 * CommonMark with the tables of GFM, without HTML and without references. Where a line begins a block
 * depends on that line and the next one only, so that an answer can be rendered while it arrives:
 * blocks that are followed by another one do not change any more. */
const BLOCKS_DEEP = 12, COLUMNS_MOST = 64;
const isBlank = line => line === undefined || !line.trim();
const indentOf = line => line.length - line.trimStart().length;

/* Tabs at the beginning of a line reach to columns of four. */
function untab(line) {
  if (line.endsWith("\r")) line = line.slice(0, -1);
  let column = 0, i = 0;
  for (; line[i] === " " || line[i] === "\t"; i++) column += line[i] === "\t" ? 4 - column % 4 : 1;
  return " ".repeat(column) + line.slice(i);
}
function fenceOf(line) {
  const found = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line);
  if (!found || (found[2][0] === "`" && found[3].includes("`"))) return null;
  return { indent: found[1].length, c: found[2][0], count: found[2].length, info: found[3].trim() };
}
function closesFence(line, fence) {
  const t = line.trim();
  return indentOf(line) < 4 && t.length >= fence.count && t === fence.c.repeat(t.length);
}
const isRule = line => indentOf(line) < 4 && /^(-{3,}|\*{3,}|_{3,})$/.test(line.replace(/[ \t]+/g, ""));

/* The marker of a list's item: where it stands, and where its text begins. */
function markerOf(line) {
  const found = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/.exec(line);
  if (!found || isRule(line)) return null;
  const width = found[0].length, rest = untab(" ".repeat(width % 4) + line.slice(width)).slice(width % 4);
  const space = indentOf(rest), empty = !rest.trim();
  return { indent: found[1].length, c: found[2].slice(-1), number: parseInt(found[2], 10), empty,
    text: empty ? "" : rest.slice(space > 4 ? 1 : space), content: width + (empty || space > 4 ? 1 : space) };
}
/* Cells of a row: pipes part them, but for those behind a backslash. */
function cellsOf(line) {
  const cells = [""], t = line.trim();
  for (let i = t[0] === "|" ? 1 : 0; i < t.length; i++) {
    if (t[i] === "\\" && t[i + 1] === "|") { cells[cells.length - 1] += "|"; i++; }
    else if (t[i] === "|") cells.push("");
    else cells[cells.length - 1] += t[i];
  }
  if (cells.length > 1 && cells[cells.length - 1] === "") cells.pop();
  return cells.map(cell => cell.trim());
}
function columnsOf(lines, i) {
  const rule = lines[i + 1];
  if (!lines[i].includes("|") || rule === undefined || !/^[\s|:-]+$/.test(rule) || !rule.includes("-")) return null;
  const columns = cellsOf(rule);
  if (columns.length > COLUMNS_MOST || !columns.every(cell => /^:?-+:?$/.test(cell))) return null;
  if (cellsOf(lines[i]).length !== columns.length) return null;
  return columns.map(cell => cell.endsWith(":") ? cell[0] === ":" ? "center" : "right" : cell[0] === ":" ? "left" : "");
}
/* Does a line end the paragraph before it? */
function interrupts(lines, i) {
  const line = lines[i], marker = markerOf(line);
  if (marker) return !marker.empty && (isNaN(marker.number) || marker.number === 1);
  return Boolean(fenceOf(line)) || /^ {0,3}(#{1,6}(?=[ \t]|$)|>)/.test(line) || isRule(line) || Boolean(columnsOf(lines, i));
}

/* ---- parsing: each gives {kind, to, ...}, to behind its last line, or null ---- */

function parseFence(lines, i) {
  const fence = fenceOf(lines[i]);
  if (!fence) return null;
  const code = [];
  let to = i + 1;
  for (; to < lines.length && !closesFence(lines[to], fence); to++)
    code.push(lines[to].slice(Math.min(fence.indent, indentOf(lines[to]))));
  const closed = to < lines.length;
  return { kind: "code", info: fence.info, code: code.join("\n"), to: closed ? to + 1 : to };
}
function parseHeading(lines, i) {
  const found = /^ {0,3}(#{1,6})(?=[ \t]|$)/.exec(lines[i]);
  if (!found) return null;
  let text = lines[i].slice(found[0].length).trim(), end = text.length;
  while (text[end - 1] === "#") end--;
  if (end === 0 || /\s/.test(text[end - 1])) text = text.slice(0, end).trim();
  return { kind: "heading", level: found[1].length, text, to: i + 1 };
}
function parseRule(lines, i) { return isRule(lines[i]) ? { kind: "rule", to: i + 1 } : null; }

/* Follows whether lines stand within a fence: a paragraph's lazy lines do not. */
function fenceAfter(fence, line) { return fence ? closesFence(line, fence) ? null : fence : fenceOf(line); }
const isLazy = (lines, i, last, fence) => !fence && !isBlank(last) && !isBlank(lines[i]) && !interrupts(lines, i) && !markerOf(lines[i]) &&
  !/^\s*(#|\||>)/.test(last);

function parseQuote(lines, i, depth) {
  if (!/^ {0,3}>/.test(lines[i])) return null;
  const own = [];
  let fence = null;
  for (; i < lines.length; i++) {
    const quoted = /^ {0,3}> ?/.exec(lines[i]);
    if (!quoted && !isLazy(lines, i, own[own.length - 1], fence)) break;
    own.push(quoted ? untab(lines[i].slice(quoted[0].length)) : lines[i]);
    fence = fenceAfter(fence, own[own.length - 1]);
  }
  return { kind: "quote", blocks: parseBlocks(own, depth + 1), to: i };
}
/* Lines of one item, from i on. Models indent lists within lists by two columns, too. */
function parseItem(lines, i, marker, depth) {
  const own = [marker.text];
  let content = marker.content, fence = fenceOf(marker.text);
  for (i++; i < lines.length; i++) {
    const line = lines[i], indent = indentOf(line);
    if (isBlank(line)) own.push("");
    else {
      if (indent < content && indent >= marker.indent + 2 && markerOf(line.trimStart())) content = indent;
      if (indent < content && !isLazy(lines, i, own[own.length - 1], fence)) break;
      own.push(line.slice(Math.min(indent, content)));
    }
    fence = fenceAfter(fence, own[own.length - 1]);
  }
  let after = false;
  for (; own.length > 1 && isBlank(own[own.length - 1]); i--) { own.pop(); after = true; }
  const blocks = parseBlocks(own, depth + 1);
  return { blocks, to: i, after, loose: blocks.some((b, k) => k && b.from > blocks[k - 1].to) };
}
function parseList(lines, i, depth) {
  const first = markerOf(lines[i]), items = [];
  if (!first) return null;
  let loose = false, to = i;
  for (let marker = first; marker && marker.c === first.c;) {
    const item = parseItem(lines, i, marker, depth);
    items.push(item.blocks);
    loose = loose || item.loose;
    to = i = item.to;
    while (i < lines.length && isBlank(lines[i])) i++;
    marker = i < lines.length ? markerOf(lines[i]) : null;
    if (marker && marker.c === first.c && item.after) loose = true;
  }
  return { kind: "list", ordered: !isNaN(first.number), start: first.number, items, loose, to };
}
function parseTable(lines, i) {
  const columns = columnsOf(lines, i), rows = [];
  if (!columns) return null;
  const head = cellsOf(lines[i]);
  for (i += 2; i < lines.length && !isBlank(lines[i]); i++) {
    if (!lines[i].includes("|") && interrupts(lines, i)) break;
    rows.push(cellsOf(lines[i]).slice(0, columns.length));
  }
  return { kind: "table", columns, head, rows, to: i };
}
function parseIndented(lines, i) {
  if (indentOf(lines[i]) < 4) return null;
  const code = [];
  for (; i < lines.length && (isBlank(lines[i]) || indentOf(lines[i]) >= 4); i++) code.push(lines[i].slice(4));
  for (; isBlank(code[code.length - 1]); i--) code.pop();
  return { kind: "code", info: "", code: code.join("\n"), to: i };
}
function parseParagraph(lines, i, depth) {
  const own = [];
  for (; i < lines.length && !isBlank(lines[i]); i++) {
    const under = own.length && /^ {0,3}(={2,}|-{2,})[ \t]*$/.exec(lines[i]);
    if (under) return { kind: "heading", level: under[1][0] === "=" ? 1 : 2, text: own.join("\n"), to: i + 1 };
    if (own.length && depth <= BLOCKS_DEEP && interrupts(lines, i)) break;
    own.push(lines[i].trim().replace(/\\$/, ""));
  }
  return { kind: "paragraph", text: own.join("\n"), to: i };
}
const PARSERS = [parseIndented, parseFence, parseHeading, parseRule, parseQuote, parseList, parseTable, parseParagraph];
function parseBlocks(lines, depth = 0) {
  const blocks = [], parsers = depth > BLOCKS_DEEP ? [parseParagraph] : PARSERS;
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) { i++; continue; }
    let block = null;
    for (let k = 0; !block; k++) block = parsers[k](lines, i, depth);
    block.from = i;
    i = block.to;
    blocks.push(block);
  }
  return blocks;
}

/* ---- rendering ---- */

const RENDERERS = {
  paragraph: block => withInline("p", block.text),
  heading: block => withInline("h" + Math.min(block.level + 2, 6), block.text),
  rule: () => make("hr"),
  quote: block => withBlocks(make("blockquote"), block.blocks),
  code: renderCode, list: renderList, table: renderTable,
};
function withInline(name, text) {
  const e = make(name);
  e.dir = "auto";
  renderInline(e, text);
  return e;
}
function withBlocks(into, blocks) {
  for (const block of blocks) into.append(RENDERERS[block.kind](block));
  return into;
}
function renderCode(block) {
  const box = make("div", "code"), bar = make("div", "bar"), pre = make("pre"), copy = make("button", "small", "Copy");
  copy.type = "button";
  copy.dataset.act = "code";
  copy.setAttribute("aria-label", "copy this code");
  bar.append(make("span", "", block.info.split(/\s/)[0].slice(0, 30)), copy);
  pre.tabIndex = 0;
  pre.append(make("code", "", block.code));
  box.append(bar, pre);
  return box;
}
const TASK = /^\[([ xX])\] /;
function renderList(block) {
  const list = make(block.ordered ? "ol" : "ul");
  if (block.ordered && block.start !== 1) list.start = block.start;
  for (const blocks of block.items) {
    const item = make("li");
    item.dir = "auto";
    blocks.forEach((b, k) => {
      if (k === 0 && b.kind === "paragraph" && TASK.test(b.text))
        b.text = (b.text[1] === " " ? "☐ " : "☑ ") + b.text.slice(4);
      if (b.kind === "paragraph" && !block.loose) renderInline(item, (k ? "\n" : "") + b.text);
      else item.append(RENDERERS[b.kind](b));
    });
    list.append(item);
  }
  return list;
}
function renderTable(block) {
  const box = make("div", "wide"), table = make("table"), head = make("thead"), body = make("tbody");
  const row = (cells, name) => {
    const tr = make("tr");
    cells.forEach((cell, k) => {
      const e = withInline(name, cell);
      if (block.columns[k]) e.className = block.columns[k];
      tr.append(e);
    });
    return tr;
  };
  head.append(row(block.head, "th"));
  body.append(...block.rows.map(cells => row(cells, "td")));
  table.append(head, body);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "table");
  box.append(table);
  return box;
}

/* A text that grows, rendered into an element. Blocks that are finished stay as they are; those that
 * may still change are parsed again; code that grows is appended to. */
class Markdown {
  constructor(root, finished = () => {}) {
    this.root = root;
    this.finished = finished; /* is given the node of each finished block, once */
    this.clear();
  }
  clear() {
    this.text = "";
    this.start = 0; /* where the text begins that may still change */
    this.open = []; /* {source, block, node} of what is rendered of that */
    this.root.replaceChildren();
  }
  set(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const raw = text.slice(this.start).split("\n"), lines = raw.map(untab), blocks = parseBlocks(lines);
    for (const old of this.open.splice(blocks.length)) old.node.remove();
    this.open = blocks.map((block, k) => this.place(block, lines.slice(block.from, block.to).join("\n"), this.open[k]));
    /* A block is finished when the next one begins in a line that is complete, as is the one after. */
    let done = 0;
    for (let k = 1; k < blocks.length; k++) if (blocks[k].from + 1 < raw.length - 1) done = k;
    if (!done) return;
    for (const line of raw.slice(0, blocks[done].from)) this.start += line.length + 1;
    for (const { node } of this.open.splice(0, done)) this.finished(node);
  }
  end() { for (const { node } of this.open) this.finished(node); }
  place(block, source, old) {
    if (old && old.source === source) return old;
    if (old && block.kind === "code" && old.block.kind === "code" && old.block.info === block.info &&
        block.code.startsWith(old.block.code)) {
      const code = old.node.querySelector("code");
      code.append(block.code.slice(old.block.code.length));
      code.normalize();
      return { source, block, node: old.node };
    }
    const node = RENDERERS[block.kind](block);
    if (old) old.node.replaceWith(node);
    else this.root.append(node);
    return { source, block, node };
  }
}
