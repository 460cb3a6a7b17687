// What was handed in, and what the tests made of it.

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
    'Patch',
    'patch',
    one.snapshot ? el('p', {}, 'A snapshot was submitted: ', inline(one.snapshot)) : null,
    one.snapshot ? null : diffView(one.patch),
    buttons,
    gold,
  );
}

function testsCard(row, one, shared) {
  if (!one.tests) {
    return row.fail_to_pass || row.pass_to_pass
      ? section(
          'Tests',
          'tests',
          el(
            'p',
            {},
            `FAIL_TO_PASS ${row.fail_to_pass || '–'}, PASS_TO_PASS ${row.pass_to_pass || '–'}; their names were not kept.`,
          ),
        )
      : null;
  }
  const names = shared ? shared.tests : [];
  const log = (places) =>
    el(
      'pre',
      { class: 'text log', dir: 'ltr', tabindex: 0 },
      places.map(([number, text]) => [
        el('span', { class: 'n' }, number > 0 ? number : number ? `end${number}` : ''),
        inert(text),
        '\n',
      ]),
    );
  const item = (passed) => (n, place) =>
    el(
      'li',
      { class: passed ? 'pass' : 'fail' },
      el('span', { class: 'mark' }, passed ? 'pass ' : 'fail '),
      el('code', {}, inert(names[n] || `test ${n}`)),
      one.tests.lines[n]
        ? log(one.tests.lines[n])
        : passed
          ? null
          : el(
              'p',
              { class: 'dim' },
              'No line of the log names it with a result: the grader counts that as failed.',
            ),
      one.tests.blocks[n]
        ? el(
            'details',
            { open: !passed && place < 5 },
            el('summary', {}, 'what the log says about it'),
            log(one.tests.blocks[n]),
          )
        : null,
    );
  const group = (name) => {
    const { failed, passed } = one.tests[name];
    const all = failed.length + passed.length;
    if (!all) return null;
    return el(
      'div',
      {},
      el('h3', {}, `${name} ${passed.length}/${all}`),
      failed.length ? el('ul', { class: 'tests' }, failed.slice(0, 200).map(item(false))) : null,
      failed.length > 200
        ? el('p', { class: 'dim' }, `and ${whole(failed.length - 200)} more that fail`)
        : null,
      passed.length
        ? later(
            `${plural(passed.length, 'test')} that ${passed.length === 1 ? 'passes' : 'pass'}`,
            () => el('ul', { class: 'tests' }, passed.map(item(true))),
            passed.length <= 3 && name === 'FAIL_TO_PASS',
          )
        : null,
    );
  };
  return section(
    'Tests',
    'tests',
    group('FAIL_TO_PASS'),
    group('PASS_TO_PASS'),
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
