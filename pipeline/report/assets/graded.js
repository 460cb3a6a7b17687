// What was handed in, and what the tests made of it.

const handedIn = (one) =>
  one.snapshot
    ? el('p', {}, 'The container as it was left, kept as the image ', el('code', {}, inert(one.snapshot)), '.')
    : diffView(one.patch);

function patchCard(one, shared) {
  const gold = el('div', { hidden: true });
  const reveal = (name, text) => {
    const button = el(
      'button',
      {
        type: 'button',
        'aria-expanded': 'false',
        onclick: () => {
          const open = gold.dataset.name !== name || gold.hidden;
          gold.hidden = !open;
          gold.dataset.name = name;
          gold.replaceChildren(el('h3', {}, name), diffView(text));
          for (const other of buttons.querySelectorAll('button'))
            other.setAttribute('aria-expanded', 'false');
          button.setAttribute('aria-expanded', String(open));
        },
      },
      `Show ${name}`,
    );
    return button;
  };
  const buttons = el(
    'p',
    { class: 'tools' },
    shared && wholeText(shared.gold).trim() ? reveal('gold', shared.gold) : null,
    shared && wholeText(shared.test_patch).trim() ? reveal('the hidden tests', shared.test_patch) : null,
  );
  return section(
    one.snapshot ? 'Submission' : 'Patch',
    'patch',
    handedIn(one),
    buttons,
    gold,
  );
}

// Lines of a log, with their numbers.
function logView(places) {
  const last = places.findLastIndex(([, text]) => text.trim());
  return el(
    'pre',
    { class: 'text log', dir: 'ltr', tabindex: 0 },
    places
      .slice(0, last + 1)
      .map(([number, text]) =>
        el(
          'span',
          { class: 'line' },
          el('span', { class: 'n' }, number > 0 ? number : `end${number}`),
          inert(text || ' '),
        ),
      ),
  );
}

function testView(tests, names, n, passed, place) {
  const block = tests.blocks[n];
  const told = new Set((block || []).map(([number]) => number));
  const lines = (tests.lines[n] || []).filter(([number]) => !told.has(number));
  return el(
    'li',
    { class: passed ? 'pass' : 'fail' },
    el('span', { class: 'mark' }, passed ? 'pass ' : 'fail '),
    el('code', {}, inert(names[n] || `test ${n}`)),
    lines.length ? logView(lines) : null,
    !tests.lines[n] && !passed
      ? el('p', { class: 'dim' }, 'No line of the log names it with a result: the grader counts that as failed.')
      : null,
    block
      ? el('details', { open: place < 5 }, el('summary', {}, 'what the log says about it'), logView(block))
      : null,
  );
}

function testsGroup(tests, names, title) {
  const { failed, passed } = tests[title];
  if (!failed.length && !passed.length) return null;
  const list = (numbers, good) =>
    el(
      'ul',
      { class: 'tests' },
      numbers.map((n, place) => testView(tests, names, n, good, place)),
    );
  const words = `${plural(passed.length, 'test')} that ${passed.length === 1 ? 'passes' : 'pass'}`;
  return el(
    'div',
    {},
    el('h3', {}, `${title} ${passed.length}/${failed.length + passed.length}`),
    failed.length ? list(failed.slice(0, 200), false) : null,
    failed.length > 200
      ? el('p', { class: 'dim' }, `and ${whole(failed.length - 200)} more that fail`)
      : null,
    passed.length
      ? later(words, () => list(passed, true), passed.length <= 3 && title === 'FAIL_TO_PASS')
      : null,
  );
}

// Tests that nobody named: how many passed, what they earned, and what they printed.
function bareTests(row, one) {
  const words = [];
  if (row.fail_to_pass) words.push(`FAIL_TO_PASS ${row.fail_to_pass}`);
  if (row.pass_to_pass) words.push(`PASS_TO_PASS ${row.pass_to_pass}`);
  if (words.length) words.push('their names were not kept');
  if (!unknown(row.reward)) words.push(`reward ${rewarded(row.reward)}`);
  for (const [name, number] of Object.entries(one.numbers || {}))
    if (name !== 'reward') words.push(`${name} ${number}`);
  if (!words.length && !one.output) return null;
  return section(
    'Tests',
    'tests',
    words.length ? el('p', {}, inline(`${sentence(words.join(', '))}.`)) : null,
    one.output ? [el('h3', {}, 'What they printed'), textBlock(one.output, { kind: 'log' })] : null,
  );
}

function testsCard(row, one, shared) {
  if (!one.tests) return bareTests(row, one);
  const names = shared ? shared.tests : [];
  return section(
    'Tests',
    'tests',
    testsGroup(one.tests, names, 'FAIL_TO_PASS'),
    testsGroup(one.tests, names, 'PASS_TO_PASS'),
    el(
      'p',
      { class: 'dim' },
      'By the official report; numbers are lines of ',
      el('code', {}, one.tests.log),
      '.',
    ),
  );
}

// Folded, and made when it is opened.
function later(title, make, open = false) {
  const view = el(
    'details',
    {
      ontoggle: () => {
        if (view.open && !view.children[1]) view.append(make());
      },
    },
    el('summary', {}, title),
  );
  view.open = open;
  return view;
}
