// Of a served page only: it asks whether there is a newer one, and comes back as it was left.

const SOON = 2000;
const SLOWLY = 30000; // once nobody drives a run
const STILL = 5000; // so long nothing was touched: nobody is amid anything
const PLACE = `passone ${location.pathname}`;
const live = { version: document.documentElement.dataset.version, newer: false, touched: 0, timer: 0 };

// Every fold of a view, by a name that a newer page has as well.
function folds() {
  const found = new Map();
  for (const fold of byId('app').querySelectorAll('details')) {
    const name = fold.id || fold.firstChild.textContent;
    let nth = 0;
    while (found.has(`${name} ${nth}`)) nth++;
    found.set(`${name} ${nth}`, fold);
  }
  return found;
}

// What stands at the top of the window, and where: what is above it may grow.
function anchor() {
  const shown = [...byId('app').querySelectorAll('[id]')].filter((one) => one.getClientRects().length);
  const last = shown.filter((one) => one.getBoundingClientRect().top < 150).pop();
  return last ? [last.id, last.getBoundingClientRect().top] : ['', window.scrollY];
}

function remember() {
  const tables = { ...report.kept?.tables };
  for (const run of report.runs) if (run.table) tables[run.number] = run.table;
  scrolled.set(current, window.scrollY);
  const kept = {
    tables,
    view: location.hash,
    scrolled: [...scrolled],
    anchor: anchor(),
    folds: [...folds()].map(([name, fold]) => [name, fold.open]),
    pressed: [...byId('app').querySelectorAll('[aria-expanded="true"]')].map((one) => one.textContent),
    query: walk.query,
    still: live.box.checked,
  };
  try {
    sessionStorage.setItem(PLACE, JSON.stringify(kept));
  } catch {
    // No room, or not allowed: the newer page begins at its top.
  }
}

function remembered() {
  try {
    const [how] = performance.getEntriesByType('navigation');
    return how?.type === 'reload' ? JSON.parse(sessionStorage.getItem(PLACE)) : null;
  } catch {
    return null;
  }
}

// The view that is drawn, as its reader has left it.
function resume(kept) {
  for (const [address, height] of kept.scrolled) scrolled.set(address, height);
  live.box.checked = kept.still;
  if (kept.view !== location.hash) return;
  for (const button of byId('app').querySelectorAll('[aria-expanded="false"]'))
    if (kept.pressed.includes(button.textContent)) button.click();
  if (kept.query && walk.search) {
    walk.search.value = kept.query;
    walk.search.dispatchEvent(new Event('input'));
  }
  const open = new Map(kept.folds);
  for (const [name, fold] of folds()) {
    if (!open.has(name)) continue;
    fold.open = open.get(name);
    const step = walk.steps.indexOf(fold);
    if (fold.open && step >= 0) fill(fold, walk.one, step);
  }
  const [id, top] = kept.anchor;
  const there = id && byId(id);
  window.scrollTo(0, there ? there.getBoundingClientRect().top + window.scrollY - top : top);
}

function show() {
  remember();
  location.reload();
}

// Whether a newer page may come by itself: over an overview, and nobody is in the middle of anything.
function undisturbed() {
  const loaded = performance.getEntriesByType('navigation')[0]?.duration || 0;
  return (
    live.box.checked &&
    document.body.dataset.view !== 'attempt' &&
    document.body.dataset.view !== 'instance' &&
    Date.now() - live.touched > STILL &&
    performance.now() > 10 * loaded &&
    getSelection().isCollapsed &&
    !document.querySelector('dialog[open]') &&
    !document.activeElement.matches('input:not([type="checkbox"]), select')
  );
}

function tell(state) {
  live.newer = Boolean(state.version) && state.version !== live.version;
  live.button.hidden = !live.newer;
  live.follow.hidden = !state.driven.some(Boolean);
  live.dot.classList.toggle('on', state.driven.some(Boolean));
  const shown = report.run ? [report.run.number] : state.said.keys();
  const lines = [...shown].map((n) => {
    const name = report.run ? '' : `${report.runs[n].name}: `;
    return `${name}${state.said[n]}${state.driven[n] ? '' : ' · nobody drives it'}`;
  });
  const words = state.problem || lines.join(' · ');
  live.line.replaceChildren(inline(words));
  live.line.title = words;
  live.line.classList.toggle('wrong', Boolean(state.problem));
  // What is read out: only that there is something new, or something wrong.
  const news = state.problem || (live.newer ? 'There are new results; press r to show them.' : '');
  if (live.status.textContent !== news) live.status.textContent = news;
}

async function look() {
  clearTimeout(live.timer);
  if (document.hidden) return;
  let wait = SLOWLY;
  try {
    const answer = await fetch(`${location.pathname.replace(/\/$/, '')}/state`, { cache: 'no-store' });
    const state = await answer.json();
    tell(state);
    if (live.newer && undisturbed()) {
      show();
      return;
    }
    if (state.driven.some(Boolean) || state.waiting || (live.newer && live.box.checked)) wait = SOON;
  } catch {
    const problem = 'passone serve has ended here; this page stays as it is.';
    tell({ version: live.version, driven: [], said: [], problem });
  }
  clearTimeout(live.timer);
  live.timer = setTimeout(look, wait);
}

report.kept = remembered();
report.acts = { r: () => live.newer && show() };
report.follow = () => {
  KEYS.push(['r', 'show new results']);
  live.dot = el('span', { class: 'alive' });
  live.line = el('span', { class: 'going' });
  live.status = el('span', { class: 'sr', role: 'status', 'aria-live': 'polite' });
  live.box = el('input', { type: 'checkbox' });
  live.box.checked = true;
  const title = 'An overview that nobody touches shows new results by itself';
  live.follow = el('label', { class: 'follow', title, hidden: true }, live.box, ' follow');
  live.button = el(
    'button',
    { type: 'button', class: 'newer', title: 'key r', hidden: true, onclick: show },
    'Show new results',
  );
  byId('top').append(
    el('div', { id: 'live' }, live.dot, live.line, live.follow, live.button, live.status),
  );
  if (report.kept) resume(report.kept);
  const touched = () => {
    live.touched = Date.now();
  };
  for (const kind of ['pointermove', 'pointerdown', 'keydown', 'wheel', 'touchmove', 'scroll'])
    addEventListener(kind, touched, { passive: true });
  addEventListener('pagehide', remember);
  addEventListener('hashchange', () => setTimeout(look));
  document.addEventListener('visibilitychange', look);
  look();
};
