// What the agent did, step by step: folded, searched, and with places to jump to.

const walk = { steps: [], at: -1, matches: [], match: -1, query: '', search: null, marks: null, one: null };

function trajectoryOf(number) {
  const step = walk.steps[number - 1];
  if (!step) return;
  step.open = true;
  // It is told that it was opened only later, and there is nothing to scroll to by then.
  fill(step, walk.one, number - 1);
  walk.at = number - 1;
  step.scrollIntoView({ block: 'start' });
  step.firstChild.focus({ preventScroll: true });
}

function stepBody(one, n) {
  const [thought, action, observation] = one.steps[n].map((at) => one.texts[at]);
  const part = (name, text, kind) =>
    wholeText(text).trim()
      ? el('div', { class: `part ${kind}` }, el('h4', {}, name), textBlock(text, { query: walk.query }))
      : null;
  return el(
    'div',
    { class: 'body' },
    part('thought', thought, 'thought'),
    part('action', action, 'action'),
    part('observation', observation, 'observation'),
  );
}

function stepView(one, n) {
  const marks = one.marks;
  const number = n + 1;
  const flags = [
    marks.edits.includes(number) && 'edits',
    marks.tests.includes(number) && 'runs tests',
    marks.submission === number && 'submits',
  ].filter(Boolean);
  const [thought, action] = one.steps[n].map((at) => one.texts[at]);
  const view = el(
    'details',
    {
      class: 'step',
      id: `step-${number}`,
      ontoggle: () => {
        if (view.open) {
          fill(view, one, n);
          walk.at = n;
        }
      },
    },
    el(
      'summary',
      {},
      el('span', { class: 'n' }, number),
      el('code', { dir: 'ltr' }, inert(firstLine(action) || '(no action)')),
      el('span', { class: 'gist' }, inert(gistOf(thought))),
      el(
        'span',
        { class: 'flags' },
        flags.map((flag) => el('span', { class: `flag f-${flag.split(' ')[0]}` }, flag)),
        unknown(one.steps[n][3]) ? null : el('span', { class: 'dim' }, seconds(one.steps[n][3])),
      ),
    ),
  );
  return view;
}

function fill(view, one, n) {
  if (view.dataset.query === walk.query && view.children[1]) return;
  view.children[1]?.remove();
  view.append(stepBody(one, n));
  view.dataset.query = walk.query;
}

function find(one, query) {
  walk.query = query.toLowerCase();
  walk.matches = [];
  walk.match = -1;
  const hits = new Map(); // a text may stand in several steps
  const count = (at) => {
    if (!hits.has(at))
      hits.set(
        at,
        endsOf(one.texts[at]).reduce(
          (sum, end) => sum + end.replaceAll('\r\n', '\n').toLowerCase().split(walk.query).length - 1,
          0,
        ),
      );
    return hits.get(at);
  };
  if (walk.query)
    one.steps.forEach((step, n) => {
      const number = count(step[0]) + count(step[1]) + count(step[2]);
      for (let nth = 0; nth < number && walk.matches.length < 5000; nth++) walk.matches.push([n, nth]);
    });
  const found = new Set(walk.matches.map(([n]) => n));
  walk.steps.forEach((view, n) => {
    view.classList.toggle('hit', found.has(n));
    if (view.open) fill(view, one, n);
  });
}

function goTo(one, by, status) {
  if (!walk.matches.length) return;
  walk.match = (walk.match + by + walk.matches.length) % walk.matches.length;
  const [n, nth] = walk.matches[walk.match];
  const view = walk.steps[n];
  view.open = true;
  fill(view, one, n);
  byId('trajectory')
    .querySelectorAll('mark.now')
    .forEach((old) => old.classList.remove('now'));
  const mark = view.querySelectorAll('.body mark')[nth];
  mark?.classList.add('now');
  (mark || view).scrollIntoView({ block: 'center' });
  status.textContent = `${walk.match + 1} of ${whole(walk.matches.length)}`;
}

// Nothing of an earlier attempt is walked in.
function forget() {
  Object.assign(walk, {
    steps: [],
    at: -1,
    matches: [],
    match: -1,
    query: '',
    search: null,
    marks: null,
    one: null,
    go: null,
  });
}

function trajectoryCard(row, one) {
  if (!one.steps) {
    const why = one.no_steps || 'It is not inside this report; passone report --all has it';
    return section('Trajectory', 'trajectory', el('p', { class: 'dim' }, `${sentence(why)}.`));
  }
  walk.steps = one.steps.map((_, n) => stepView(one, n));
  walk.marks = { e: one.marks.edits[0], t: one.marks.tests[0], s: one.marks.submission };
  walk.one = one;
  const status = el('span', { class: 'dim', role: 'status', 'aria-live': 'polite' });
  const search = el('input', {
    type: 'search',
    class: 'search',
    placeholder: 'search in all steps',
    'aria-label': 'Search in the trajectory',
    oninput: () => {
      find(one, search.value);
      status.textContent = search.value ? `${whole(walk.matches.length)} found` : '';
    },
    onkeydown: (event) => {
      if (event.key === 'Enter') {
        event.preventDefault();
        goTo(one, event.shiftKey ? -1 : 1, status);
      }
    },
  });
  walk.search = search;
  walk.go = (by) => goTo(one, by, status);
  const button = (text, title, act) => el('button', { type: 'button', title, onclick: act }, text);
  const jump = (text, key, number) =>
    number ? button(text, `step ${number}, key ${key}`, () => trajectoryOf(number)) : null;
  const every = (open) => () =>
    walk.steps.forEach((view, n) => {
      view.open = open;
      if (open) fill(view, one, n);
    });
  walk.every = every;
  return section(
    `Trajectory, ${plural(one.steps.length, 'step')}`,
    'trajectory',
    el(
      'div',
      { class: 'tools sticky', role: 'search' },
      search,
      button('‹', 'previous match', () => walk.go(-1)),
      button('›', 'next match', () => walk.go(1)),
      status,
      jump('First edit', 'e', walk.marks.e),
      jump('First test run', 't', walk.marks.t),
      jump('Submission', 's', walk.marks.s),
      button('Open all', 'key o', every(true)),
      button('Close all', 'key c', every(false)),
    ),
    el('div', { class: 'steps' }, walk.steps),
  );
}
