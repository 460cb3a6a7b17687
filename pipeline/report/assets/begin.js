// Elements, packed data, and the report as rows. Nothing in here makes markup of a text.

const SVG = 'http://www.w3.org/2000/svg';
const report = { runs: [], comparison: null, rows: [], cache: new Map() };
const byId = (id) => document.getElementById(id);

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function unpack(text) {
  const packed = new Blob([bytesOf(text)]).stream();
  const plain = packed.pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(plain).text());
}

const parsed = new Promise((done) => {
  if (document.readyState !== 'loading') done();
  else document.addEventListener('DOMContentLoaded', () => done());
});

// A block of data by its name; null: it is not inside. The latest few stay unpacked.
async function block(name) {
  if (report.cache.has(name)) return report.cache.get(name);
  if (!byId(name)) await parsed;
  const node = byId(name);
  if (!node) return null;
  const found = await unpack(node.textContent);
  report.cache.set(name, found);
  if (report.cache.size > 24) report.cache.delete(report.cache.keys().next().value);
  return found;
}

const plain = (column) => (Array.isArray(column) ? column : column.codes.map((code) => column.words[code]));

function readRun(raw, number) {
  const run = { ...raw, number, repos: plain(raw.repo), ballots: plain(raw.votes) };
  run.difficulties = plain(raw.difficulty);
  run.short = run.ids.map(shortName);
  const columns = Object.entries(raw.rows).map(([name, column]) => [name, plain(column)]);
  run.rows = [];
  run.begins = [0]; // where the attempts at each instance begin: not all have equally many
  run.ids.forEach((id, i) => {
    run.begins.push(run.begins[i] + run.made[i]);
    for (let attempt = 1; attempt <= run.made[i]; attempt++) {
      const at = run.begins[i] + attempt - 1;
      const row = { run: number, at, place: i, instance: id, attempt, repo: run.repos[i] };
      for (const [name, column] of columns) row[name] = column[at];
      row.ballot = run.ballots[i];
      row.counted = row.blame === 'nobody' || row.blame === 'model';
      row.tokens = row.input_tokens + row.output_tokens;
      row.difficulty = run.difficulties[i];
      run.rows.push(row);
    }
  });
  run.split = new Set();
  for (let i = 0; i < run.ids.length; i++) {
    const counted = attemptsAt(run, i).filter((row) => row.counted);
    const resolved = counted.filter((row) => row.outcome === 'resolved').length;
    if (resolved && resolved < counted.length) run.split.add(i);
  }
  return run;
}

const attemptsAt = (run, place) => run.rows.slice(run.begins[place], run.begins[place + 1]);

// `django__django-11099` is 11099 under the heading of its repository.
function shortName(id) {
  const number = /-(\d+)$/.exec(id);
  return number ? number[1] : id;
}

const hashOf = (row) => `#/run/${row.run + 1}/${encodeURIComponent(row.instance)}/${row.attempt}`;

// Words and numbers

const OUTCOMES = {
  resolved: 'every test that matters passes',
  unresolved: 'the tests ran, and one that matters does not pass',
  patch_rejected: 'its patch does not apply',
  no_submission: 'it handed in nothing',
  contested: 'resolved, by tests that could not have failed',
  tests_timed_out: 'the tests ran out of time',
  tests_did_not_run: 'no test run that can be read',
  died: 'something ended with the model’s content in it',
  infra: 'our side broke, or its place cannot be trusted',
  pending: 'not yet run',
};

const CAUSES = {
  image: 'the image is not here and cannot be had',
  sandbox: 'Docker failed, or a container was ended from outside',
  instance: 'its place is broken or flaky: gold stumbles there',
  endpoint: 'the endpoint did not answer, or refused',
  credentials: 'the key was refused',
  agent_crash: 'the agent’s program broke',
  grader: 'the grader itself failed',
  disk: 'no space was left',
  unknown: 'nobody has mapped it',
};

const whole = (value) => Math.round(value).toLocaleString('en');
const unknown = (value) => value === null || value === undefined;
const said = (word) => word.replaceAll('_', ' ');
const plural = (n, noun, many) => `${whole(n)} ${n === 1 ? noun : many || noun + 's'}`;
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function seconds(value) {
  if (unknown(value)) return '–';
  if (value && value < 0.9995) return `${Math.round(1000 * value)} ms`;
  if (value < 9.95) return `${Number(value.toFixed(1))} s`;
  const all = Math.round(value);
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min ${all % 60} s`;
  const minutes = Math.round(value / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const bytes = (value) => (value < 1000 ? plural(value, 'byte') : `${short(value)}B`);

const rewarded = (value) => (unknown(value) ? '–' : String(Number(value.toFixed(3))));

const dollars = (value) =>
  unknown(value) ? 'unknown' : value && value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`;

function short(value) {
  for (const [unit, size] of [
    ['M', 1e6],
    ['k', 1e3],
  ])
    if (value >= size * 0.9995) return `${Number((value / size).toPrecision(value < 10 * size ? 2 : 3))} ${unit}`;
  return String(Math.round(value * 100) / 100);
}

const badge = (row) =>
  el(
    'span',
    { class: `badge o-${row.outcome}${row.counted ? '' : ' open'}` },
    said(row.outcome),
    row.cause ? ` (${said(row.cause)})` : '',
  );

const section = (title, id, ...children) =>
  el(
    'section',
    { class: 'card', id, 'aria-labelledby': `${id}-h` },
    el('h2', { id: `${id}-h` }, title),
    ...children,
  );

function fold(title, ...children) {
  return el('details', {}, el('summary', {}, title), ...children);
}
