// All attempts of a run: sorted by a column, filtered by words.

const COLUMNS = [
  ['instance', 'instance', 'text'],
  ['attempt', '#', 'number'],
  ['outcome', 'outcome', 'text'],
  ['blame', 'blame', 'text'],
  ['mode', 'diagnosis', 'text'],
  ['reward', 'reward', 'number'],
  ['fail_to_pass', 'F2P', 'tally'],
  ['pass_to_pass', 'P2P', 'tally'],
  ['stop', 'stop', 'text'],
  ['tries', 'tries', 'number'],
  ['steps', 'steps', 'number'],
  ['tokens', 'tokens', 'number'],
  ['cost_usd', 'cost', 'number'],
  ['seconds', 'seconds', 'number'],
  ['waiting', 'waiting', 'number'],
  ['trust', 'place', 'text'],
  ['why', 'what is known of it', 'text'],
];
const FULL_NAMES = {
  fail_to_pass: 'FAIL_TO_PASS',
  pass_to_pass: 'PASS_TO_PASS',
  attempt: 'attempt',
  waiting: 'share of the agent’s time that it waited for the endpoint',
  place: 'what the controls say of the place where it was graded',
};
const CHOICES = ['outcome', 'blame', 'cause', 'mode', 'repo'];
const PAGE = 50;

// Of what was not tried, or nobody recorded, no number is shown.
const known = (row, text) => (row.tries && report.runs[row.run].recorded ? text : '–');

const cellOf = {
  outcome: (row) => badge(row),
  mode: (row) => said(row.mode),
  stop: (row) => said(row.stop),
  reward: (row) => rewarded(row.reward),
  cost_usd: (row) => known(row, dollars(row.cost_usd)),
  tokens: (row) => known(row, whole(row.tokens)),
  steps: (row) => known(row, whole(row.steps)),
  seconds: (row) => (row.seconds ? row.seconds.toFixed(1) : '–'),
  waiting: (row) => (unknown(row.waiting) ? '–' : percent(row.waiting)),
  why: (row) => el('span', { title: row.why }, inline(row.why)),
  instance: (row) => el('a', { href: hashOf(row) }, el('bdi', {}, row.instance)),
};

function compareBy(name, down) {
  return (a, b) => {
    const value = (row) => (name === 'outcome' ? `${row.outcome} ${row.cause}` : row[name]);
    const [x, y] = [value(a), value(b)];
    // What is unknown stands last, whichever way.
    const empty = (word) => unknown(word) || word === '';
    if (empty(x) || empty(y)) return empty(x) - empty(y) || a.at - b.at;
    const order = typeof x === 'number' ? x - y : String(x).localeCompare(String(y), 'en', { numeric: true });
    return (down ? -order : order) || a.at - b.at;
  };
}

// Columns that say something here: those in which all attempts are alike are said once, below.
function columnsOf(run) {
  const always = new Set(['instance', 'attempt', 'outcome']);
  const text = (name, row) => (cellOf[name] ? cellOf[name](row) : row[name]);
  const alike = COLUMNS.filter(
    ([name]) =>
      !always.has(name) && run.rows.length > 1 && run.rows.every((row) => row[name] === run.rows[0][name]),
  );
  return [
    COLUMNS.filter((column) => !alike.includes(column)),
    alike
      .map(([name, title]) => [title, text(name, run.rows[0])])
      .filter(([, value]) => typeof value !== 'object' && value !== '' && value !== '–'),
  ];
}

// All words of a row, once.
function wordsOf(row) {
  row.words ??= ['instance', 'repo', 'outcome', 'blame', 'cause', 'mode', 'stop', 'why']
    .map((name) => `${row[name]} ${said(row[name])}`)
    .join(' ')
    .toLowerCase();
  return row.words;
}

function attemptTable(run) {
  const [columns, alike] = columnsOf(run);
  const state = { text: '', sort: '', down: false, shown: PAGE, only: '' };
  for (const name of CHOICES) state[name] = '';
  const body = el('tbody');
  const count = el('p', { class: 'count', role: 'status', 'aria-live': 'polite' });
  const more = el('p', { class: 'more' });
  const filtered = () => {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    return run.rows.filter(
      (row) =>
        CHOICES.every((name) => !state[name] || row[name] === state[name]) &&
        (state.only !== 'split' || run.split.has(row.place)) &&
        (state.only !== 'trajectory' || row.level === 2) &&
        (state.only !== 'moved' || row.moved) &&
        (state.only !== 'tainted' || row.tainted) &&
        words.every((word) => wordsOf(row).includes(word)),
    );
  };
  const line = (row) =>
    el(
      'tr',
      {},
      columns.map(([name, , kind], n) =>
        el(
          n ? 'td' : 'th',
          { class: name === 'why' ? 'why' : kind === 'text' ? null : 'number', scope: n ? null : 'row' },
          cellOf[name] ? cellOf[name](row) : row[name],
        ),
      ),
    );
  const show = () => {
    const rows = filtered();
    if (state.sort) rows.sort(compareBy(state.sort, state.down));
    run.order = rows;
    body.replaceChildren(...rows.slice(0, state.shown).map(line));
    count.textContent = `${whole(rows.length)} of ${plural(run.rows.length, 'attempt')}`;
    const left = rows.length - Math.min(state.shown, rows.length);
    more.replaceChildren();
    if (left) {
      const button = (text, most) =>
        el(
          'button',
          {
            type: 'button',
            onclick: () => {
              state.shown = most;
              show();
            },
          },
          text,
        );
      more.append(
        button(`Show ${whole(Math.min(left, 200))} more`, state.shown + 200),
        ' ',
        button(`Show all ${whole(rows.length)}`, rows.length),
      );
    }
    for (const head of heads) {
      const sorted = head.dataset.name === state.sort;
      head.setAttribute('aria-sort', sorted ? (state.down ? 'descending' : 'ascending') : 'none');
    }
  };
  const heads = columns.map(([name, title, kind]) =>
    el(
      'th',
      { scope: 'col', 'data-name': name, class: name === 'why' ? 'why' : kind === 'text' ? null : 'number' },
      el(
        'button',
        {
          type: 'button',
          title: FULL_NAMES[name],
          onclick: () => {
            // A number is first sorted from the top, a word from A; the third click gives the run's own order.
            const first = kind === 'number';
            if (state.sort !== name) Object.assign(state, { sort: name, down: first });
            else if (state.down === first) state.down = !first;
            else state.sort = '';
            show();
          },
        },
        title,
      ),
    ),
  );
  const search = el('input', {
    type: 'search',
    placeholder: 'instance, diagnosis, word …',
    class: 'search',
    'aria-label': 'Search attempts',
    oninput: () => {
      state.text = search.value;
      state.shown = PAGE;
      show();
    },
  });
  const selects = Object.fromEntries(
    CHOICES.map((name) => {
      const found = new Map();
      for (const row of run.rows) if (row[name]) found.set(row[name], (found.get(row[name]) || 0) + 1);
      const select = el(
        'select',
        {
          'aria-label': `Only one ${said(name)}`,
          onchange: () => {
            state[name] = select.value;
            state.shown = PAGE;
            show();
          },
        },
        el('option', { value: '' }, `any ${{ mode: 'diagnosis', repo: run.group }[name] || name}`),
        [...found]
          .sort((a, b) => b[1] - a[1])
          .map(([word, number]) =>
            el('option', { value: word }, `${name === 'repo' ? word : said(word)} (${whole(number)})`),
          ),
      );
      return [name, found.size > 1 ? select : null];
    }),
  );
  const only = el(
    'select',
    {
      'aria-label': 'Only some attempts',
      onchange: () => {
        state.only = only.value;
        state.shown = PAGE;
        show();
      },
    },
    [
      ['', 'all attempts'],
      ['split', 'where votes split'],
      ['trajectory', 'with a trajectory inside'],
      ['moved', 'moved by controls'],
      ['tainted', 'tainted, says the audit'],
    ].map(([value, text]) => el('option', { value }, text)),
  );
  const clear = el('button', { type: 'button', onclick: () => table.pick('', '') }, 'Clear');
  const table = el(
    'div',
    {},
    el(
      'div',
      { class: 'filters', role: 'search' },
      search,
      CHOICES.map((name) => selects[name]),
      only,
      clear,
    ),
    count,
    el(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Attempts' },
      el('table', { class: 'attempts' }, el('thead', {}, el('tr', {}, heads)), body),
    ),
    more,
    alike.length
      ? el('p', { class: 'dim' }, `The same for all: ${alike.map((pair) => pair.join(' ')).join(', ')}.`)
      : null,
  );
  // Show the attempts of one word; without one, all of them.
  table.pick = (name, word) => {
    for (const other of CHOICES) {
      state[other] = other === name ? word : '';
      if (selects[other]) selects[other].value = state[other];
    }
    Object.assign(state, { text: '', only: '', shown: PAGE });
    search.value = '';
    only.value = '';
    show();
    if (word) table.closest('section').scrollIntoView();
  };
  table.search = search;
  run.table = state;
  if (report.kept?.tables[run.number]) {
    Object.assign(state, report.kept.tables[run.number]);
    search.value = state.text;
    only.value = state.only;
    for (const name of CHOICES) {
      if (selects[name]) selects[name].value = state[name];
      // Nothing is left of it: the last infra may be resolved by now.
      if (selects[name]?.selectedIndex < 0) selects[name].value = '';
      state[name] = selects[name]?.value || '';
    }
  }
  show();
  return table;
}
