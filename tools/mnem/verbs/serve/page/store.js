/* ---- conversations that the browser keeps ----
 *
 * Each is two entries of localStorage: "mnem.chat.ID" with its turns, and "mnem.about.ID" with its
 * name, time and size, so that the list is made without reading them all. Nothing is deleted to make
 * room: what has none stays in this page, and the page says so. */
const CHATS_MOST = 100, LETTERS_MOST = 4e6;

class Store {
  constructor() {
    this.here = new Map(); /* conversations that could not be kept */
    this.note = "";
    try {
      this.area = localStorage;
      this.area.setItem("mnem.probe", "1");
      this.area.removeItem("mnem.probe");
    } catch {
      this.area = null;
      this.note = "This browser keeps nothing for this page: conversations last until it is closed.";
    }
  }
  read(key) {
    try { return JSON.parse(this.area.getItem(key)); } catch { return null; }
  }
  /* {id, name, at, letters} of each, the newest first. */
  all() {
    const found = new Map();
    for (let i = 0; this.area && i < this.area.length; i++) {
      const key = this.area.key(i), id = key.startsWith("mnem.about.") ? key.slice(11) : "";
      const about = id && this.read(key);
      if (about && typeof about.name === "string") found.set(id, { id, name: about.name, at: +about.at || 0, letters: +about.letters || 0 });
    }
    for (const [id, c] of this.here) found.set(id, { id, name: c.name, at: c.at, letters: 0 });
    return [...found.values()].sort((a, b) => b.at - a.at);
  }
  load(id) {
    if (this.here.has(id)) return structuredClone(this.here.get(id));
    const about = this.area && this.read("mnem.about." + id), turns = this.area && this.read("mnem.chat." + id);
    if (!about || !Array.isArray(turns)) return null;
    const good = turns.every(t => t && ["user", "assistant"].includes(t.role) && typeof t.content === "string");
    return good ? { id, name: String(about.name), at: +about.at || 0, turns } : null;
  }
  save(c) {
    c.at = Date.now();
    const text = JSON.stringify(c.turns), others = this.all().filter(other => other.id !== c.id && !this.here.has(other.id));
    if (!this.area) { this.here.set(c.id, structuredClone(c)); return; }
    try {
      if (others.length >= CHATS_MOST || others.reduce((sum, o) => sum + o.letters, text.length) > LETTERS_MOST) throw new Error("full");
      this.area.setItem("mnem.chat." + c.id, text);
      this.area.setItem("mnem.about." + c.id, JSON.stringify({ name: c.name, at: c.at, letters: text.length }));
      this.here.delete(c.id);
      this.note = this.here.size ? this.note : "";
    } catch {
      this.here.set(c.id, structuredClone(c));
      this.note = "The browser's room for conversations is full: this one lasts until the page is closed. Export or delete some.";
    }
  }
  rename(id, name) {
    if (this.here.has(id)) this.here.get(id).name = name;
    const about = this.area && this.read("mnem.about." + id);
    if (!about) return;
    try { this.area.setItem("mnem.about." + id, JSON.stringify({ ...about, name })); } catch { this.note = "There is no room for that name."; }
  }
  remove(id) {
    this.here.delete(id);
    if (!this.area) return;
    this.area.removeItem("mnem.chat." + id);
    this.area.removeItem("mnem.about." + id);
    if (!this.here.size) this.note = "";
  }
}
const store = new Store();
/* A page that outlives a reload keeps what is open in it. */
const session = {
  held: new Map(), /* where the browser keeps nothing */
  get(key) {
    try { return this.held.get(key) ?? sessionStorage.getItem(key) ?? ""; } catch { return ""; }
  },
  set(key, value) {
    this.held.set(key, value);
    try { value ? sessionStorage.setItem(key, value) : sessionStorage.removeItem(key); } catch { /* it is forgotten on a reload */ }
  },
};
