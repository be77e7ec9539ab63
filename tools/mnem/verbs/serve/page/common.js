const $ = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const bytes = n => n >= 2 ** 30 ? (n / 2 ** 30).toFixed(2) + " GiB" : n >= 2 ** 20 ? (n / 2 ** 20).toFixed(1) + " MiB"
  : (n / 1024).toFixed(0) + " KiB";
const number = n => Math.round(n).toLocaleString("en");
const make = (name, className, text) => {
  const e = document.createElement(name);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
/* A text that is the same is not set again: a screen reader would read it again. */
const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };
