// memory_viz.js MEMORYVIZ.JS SNAPSHOT: what PyTorch's viewer of memory snapshots makes of a file, by
// its own functions, without a page: the most bytes of each device over time, as one line of JSON.
//
// MEMORYVIZ.JS is torch/utils/viz/MemoryViz.js of PyTorch's sources, with process_alloc_data.js
// beside it where that version has one. What draws is given something that takes every call.
'use strict';
const fs = require('fs');
const path = require('path');

const nothing = new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => 0 : nothing),
  apply: () => nothing,
  set: () => true,
});

function load(file) {
  const beside = path.join(path.dirname(file), 'process_alloc_data.js');
  const own = fs.existsSync(beside) ? fs.readFileSync(beside, 'utf8') : '';
  const text = (own + '\n' + fs.readFileSync(file, 'utf8'))
    .replace(/^import\s[^;]*;/gm, '')
    .replace(/^export\s*\{[^}]*\};?/gm, '')
    .replace(/^export\s+/gm, '');
  const names = ['d3', 'axisLeft', 'scaleLinear', 'zoom', 'zoomIdentity', 'brushX', 'window',
    'document', 'location', 'Worker', 'URLSearchParams'];
  const tail = '\nreturn {unpickle, annotate_snapshot, process_alloc_data};';
  return new Function(...names, text + tail)(...names.map(() => nothing));
}

console.log = () => {};
const [viewer, file] = process.argv.slice(2);
const viz = load(viewer);
const bytes = fs.readFileSync(file);
const snapshot = viz.unpickle(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
viz.annotate_snapshot(snapshot);
const devices = snapshot.device_traces.map((_, device) => {
  const blocks = viz.process_alloc_data(snapshot, device, false, 1e9);
  const segments = viz.process_alloc_data(snapshot, device, true, 1e9);
  return {peak: blocks.max_size, reserved: segments.max_size, elements: blocks.elements_length};
});
process.stdout.write(JSON.stringify({categories: snapshot.categories, devices}) + "\n");
