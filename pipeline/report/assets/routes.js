// Which view an address is, the keys, and the beginning.

const views = new Map(); // overviews stay as they were left
const scrolled = new Map(); // how far down each was
let current = '';

const addresses = () => [
  ...(report.comparison ? [['#/compare', 'Side by side']] : []),
  ...report.runs.map((run, n) => [
    `#/run/${n + 1}`,
    report.runs.length > 1 ? `${LETTERS[n]} · ${run.name}` : 'Overview',
  ]),
];

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ''; // somebody's own address: it leads to the overview
  }
}

async function viewOf(hash) {
  const [, kind, first, second] = hash.split('/');
  if (kind === 'compare' && report.comparison) {
    if (first) return [await sidePage(decoded(first)), 'instance', decoded(first)];
    if (!views.has('compare')) views.set('compare', comparePage());
    return [views.get('compare'), 'compare', 'side by side'];
  }
  const run = report.runs[Number(first) - 1] || report.runs[0];
  if (kind === 'run' && second) {
    const place = run.ids.indexOf(decoded(second));
    const row = attemptsAt(run, place).find((one) => String(one.attempt) === hash.split('/')[4]);
    if (place >= 0 && row)
      return [await attemptPage(run, row), 'attempt', `${row.instance} #${row.attempt}`, run, row];
  }
  if (!views.has(run.number)) views.set(run.number, overview(run));
  return [views.get(run.number), 'run', run.name, run];
}

async function route() {
  const hash = location.hash;
  // A place on this page, not a view.
  if (hash && !hash.startsWith('#/')) return;
  if (current) scrolled.set(current, window.scrollY);
  const wanted = hash || addresses()[0][0];
  current = wanted;
  const [view, kind, title, run, row] = await viewOf(wanted);
  if (current !== wanted) return;
  document.body.dataset.view = kind;
  report.row = row || null;
  report.run = run || null;
  byId('app').replaceChildren(view);
  [...byId('headlines').children].forEach((line, n) => {
    line.hidden = kind === 'instance' || (run ? n !== run.number : false);
  });
  document.title = `${title} · passone`;
  for (const link of byId('nav').querySelectorAll('a'))
    if (link.getAttribute('href') === (run ? `#/run/${run.number + 1}` : '#/compare'))
      link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  window.scrollTo(0, kind === 'attempt' || kind === 'instance' ? 0 : scrolled.get(wanted) || 0);
  if (kind === 'attempt' || kind === 'instance') view.querySelector('h1').focus({ preventScroll: true });
}

const KEYS = [
  ['/', 'search: attempts, or in a trajectory'],
  ['[ ]', 'previous and next attempt, as the table has them'],
  ['j k', 'next and previous step'],
  ['e t s', 'first edit, first test run, submission'],
  ['n N', 'next and previous match'],
  ['o c', 'open and close all steps'],
  ['g', 'show gold'],
  ['u', 'back to the run'],
  ['arrows, Enter', 'walk in the heat map, open an attempt'],
  ['?', 'these keys'],
];

function help() {
  const dialog = el(
    'dialog',
    { 'aria-label': 'Keys' },
    el('h2', {}, 'Keys'),
    el(
      'dl',
      { class: 'keys' },
      KEYS.map(([key, what]) => [
        el(
          'dt',
          {},
          key.split(' ').map((one) => [el('kbd', {}, one.replace(',', '')), ' ']),
        ),
        el('dd', {}, what),
      ]),
    ),
    el('button', { type: 'button', onclick: () => dialog.close() }, 'Close'),
  );
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function pressed(event) {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.closest('input, select, textarea, dialog')
  ) {
    if (event.key === 'Escape' && event.target.matches('input')) event.target.blur();
    return;
  }
  const near = (by) => {
    const order = report.run?.order || report.run?.rows || [];
    const next = order[order.indexOf(report.row) + by];
    if (!report.row || !next) return;
    // At once: a second press may come before the page has been drawn.
    report.row = next;
    location.hash = hashOf(next);
  };
  const jump = (key) => {
    if (walk.marks?.[key]) trajectoryOf(walk.marks[key]);
  };
  const inAttempt = document.body.dataset.view === 'attempt';
  const acts = {
    '?': help,
    '/': () => (inAttempt ? walk.search : byId('app').querySelector('.search'))?.focus(),
    '[': () => near(-1),
    ']': () => near(1),
    u: () => {
      if (report.run) location.hash = `#/run/${report.run.number + 1}`;
    },
    ...(inAttempt
      ? {
          j: () => trajectoryOf(Math.min(walk.at + 2, walk.steps.length)),
          k: () => trajectoryOf(Math.max(walk.at, 1)),
          e: () => jump('e'),
          t: () => jump('t'),
          s: () => jump('s'),
          n: () => walk.go?.(1),
          N: () => walk.go?.(-1),
          o: () => walk.every?.(true)(),
          c: () => walk.every?.(false)(),
          g: () => byId('patch')?.querySelector('.tools button')?.click(),
        }
      : {}),
    ...report.acts,
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

async function begin() {
  if (typeof DecompressionStream === 'undefined') {
    byId('cannot').hidden = false;
    return;
  }
  const found = await unpack(byId('index').textContent);
  report.every = found.every;
  report.comparison = found.comparison || null;
  report.runs = found.runs.map(readRun);
  byId('nav').append(...addresses().map(([address, name]) => el('a', { href: address }, inline(name))));
  history.scrollRestoration = 'manual';
  addEventListener('hashchange', () => route().catch(failed));
  addEventListener('keydown', pressed);
  await route();
  report.follow?.();
  document.documentElement.dataset.ready = 'yes';
}

function failed(error) {
  const words = `The rest of this page cannot be read: ${error.message}. Is the file whole?`;
  byId('app').replaceChildren(el('p', { class: 'notice' }, words));
  throw error;
}

begin().catch(failed);
