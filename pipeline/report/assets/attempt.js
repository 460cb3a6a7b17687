// The page of one attempt.

async function attemptPage(run, row) {
  forget();
  const [one, shared] = await Promise.all([
    block(`a-${run.number}-${row.place}-${row.attempt}`),
    block(`i-${run.number}-${row.place}`),
  ]);
  const page = el('article', { class: 'attempt' }, attemptHead(run, row));
  if (!one) {
    page.append(
      el(
        'p',
        { class: 'notice' },
        row.tries
          ? 'Of this attempt only its row is inside this report; passone report --all has everything.'
          : 'This attempt has not been made yet.',
      ),
    );
  } else {
    page.append(
      ...[
        knownCard(row, one, shared),
        patchCard(one, shared),
        testsCard(row, one, shared),
        triesCard(one),
        trajectoryCard(row, one),
      ].filter(Boolean),
    );
  }
  if (shared) page.append(...[issueCard(run, row, shared)].filter(Boolean));
  const places = [...page.querySelectorAll('section.card')];
  page.firstChild.append(
    el(
      'nav',
      { class: 'places', 'aria-label': 'On this page' },
      places.map((place) =>
        el(
          'button',
          { type: 'button', class: 'pick', onclick: () => place.scrollIntoView() },
          place.firstChild.textContent,
        ),
      ),
    ),
  );
  return page;
}

function attemptHead(run, row) {
  const near = run.order || run.rows;
  const at = near.indexOf(row);
  const step = (other, text, title) =>
    other ? el('a', { href: hashOf(other), rel: text, title }, text) : el('span', { class: 'dim' }, text);
  const facts = [
    ['blame', row.blame || '–'],
    ['stop', said(row.stop) || 'unknown'],
    ['place', row.trust || '–'],
    ['tries', whole(row.tries)],
    ['time', seconds(row.seconds)],
    ...(run.recorded
      ? [
          ['steps', whole(row.steps)],
          [
            'tokens',
            `${whole(row.input_tokens)} in (${whole(row.cached_tokens)} cached), ${whole(row.output_tokens)} out`,
          ],
          ['cost', dollars(row.cost_usd)],
          ['sampling as planned', `${whole(row.as_planned)} of ${whole(row.requests)} requests`],
        ]
      : []),
  ];
  return el(
    'header',
    { class: 'head' },
    el(
      'p',
      { class: 'crumbs' },
      el('a', { href: `#/run/${run.number + 1}` }, '← ', inline(run.name)),
      ' · ',
      step(near[at - 1], 'previous', 'key ['),
      ' · ',
      step(near[at + 1], 'next', 'key ]'),
    ),
    el('h1', { tabindex: -1 }, el('bdi', {}, row.instance), ` #${row.attempt}`),
    el(
      'p',
      { class: 'said' },
      badge(row),
      row.mode ? [' ', el('b', {}, said(row.mode))] : null,
      row.moved ? ' moved by the controls of its place' : null,
      row.tainted ? el('span', { class: 'badge o-contested' }, 'tainted') : null,
    ),
    row.mode ? el('p', {}, run.modes[row.mode]) : null,
    el(
      'dl',
      { class: 'chips' },
      facts.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))),
    ),
    el(
      'nav',
      { class: 'siblings', 'aria-label': 'Attempts at this instance' },
      attemptsAt(run, row.place).map((other) =>
        el(
          'a',
          { href: hashOf(other), title: label(other), 'aria-current': other === row ? 'page' : null },
          icon(other.outcome, !other.counted),
          ` ${other.attempt}`,
        ),
      ),
      el('span', {}, `vote: ${row.ballot}`),
    ),
  );
}

function knownCard(row, one, shared) {
  const lines = [];
  const found = one.diagnosis;
  if (found) {
    lines.push(el('p', {}, inline([found.evidence, ...found.notes].join('; '))));
    if (found.steps.length && one.steps)
      lines.push(
        el(
          'p',
          {},
          'It rests on step ',
          found.steps.map((n) => [
            el('button', { type: 'button', class: 'pick', onclick: () => trajectoryOf(n) }, String(n)),
            ' ',
          ]),
        ),
      );
  }
  if (one.evidence.length) lines.push(textBlock(one.evidence.join('\n'), { kind: 'soft' }));
  for (const scoring of one.scorings) lines.push(el('p', {}, scoringWords(scoring)));
  if (row.moved && shared) lines.push(el('p', {}, inline(shared.grounds)));
  if (one.drift) lines.push(el('p', {}, 'The replay drifted: ', inline(one.drift)));
  for (const sign of one.audit)
    lines.push(
      el(
        'p',
        {},
        `Audit, step ${unknown(sign.step) ? '–' : sign.step}: ${said(String(sign.sign))}${sign.taints ? ', taints' : ''}: `,
        inline(String(sign.excerpt)),
      ),
    );
  if (shared && shared.controls.length)
    lines.push(
      fold(
        'Controls of its place',
        textBlock(shared.controls.map((line) => line.trim()).join('\n'), { kind: 'soft' }),
      ),
    );
  return lines.length ? section('What is known of it', 'known', lines) : null;
}

function scoringWords(one) {
  if (one.cause) return [`Scoring ended in a fault, cause ${said(one.cause)}: `, inline(one.detail)];
  const words = [`Graded as ${said(one.finding)} by ${one.grader} in ${seconds(one.seconds)}`];
  if (one.fail_to_pass) words.push(`FAIL_TO_PASS ${one.fail_to_pass}`);
  if (one.pass_to_pass) words.push(`PASS_TO_PASS ${one.pass_to_pass}`);
  if (!unknown(one.reward)) words.push(`reward ${one.reward}`);
  if (!unknown(one.exit_code)) words.push(`exit status ${one.exit_code}`);
  if (one.image) words.push(`image ${one.image.replace('sha256:', '').slice(0, 12)}`);
  if (one.origin) words.push(`taken over from ${one.origin}`);
  if (one.contradicted) words.push('graded again it came out otherwise');
  if (one.tampered) words.push('its tests could not have failed');
  const looked = [
    ...one.reasons.map(wholeText),
    ...one.checked.filter((text) => !one.origin || !text.includes(one.origin)),
  ];
  return [inline(words.join(', ')), looked.length ? [': ', inline(looked.join('; '))] : null, '.'];
}

function triesCard(one) {
  if (!one.tries.length) return null;
  const requests = (tried) =>
    tried.requests && tried.requests.length
      ? later(`What the gateway saw in try ${tried.n}: ${plural(tried.requests.length, 'request')}`, () =>
          el(
            'div',
            { class: 'scroll', tabindex: 0 },
            el(
              'table',
              {},
              el(
                'thead',
                {},
                el(
                  'tr',
                  {},
                  [
                    'request',
                    'sent at',
                    'took',
                    'status',
                    'tokens in',
                    'cached',
                    'out',
                    'as planned',
                    'finish',
                    'what came of it',
                  ].map((head) => el('th', { scope: 'col' }, head)),
                ),
              ),
              el(
                'tbody',
                {},
                tried.requests.map(
                  ([n, again, at, took, status, input, cached, output, planned, finish, ending, gone]) =>
                    el(
                      'tr',
                      { class: status >= 400 || ending || gone ? 'bad' : null },
                      el('td', {}, again ? `${n} (again, ${again})` : n),
                      el('td', {}, seconds(at)),
                      el('td', {}, seconds(took)),
                      el('td', {}, status),
                      el('td', { class: 'number' }, whole(input)),
                      el('td', { class: 'number' }, whole(cached)),
                      el('td', { class: 'number' }, whole(output)),
                      el('td', {}, planned ? 'yes' : 'no'),
                      el('td', {}, inline(finish)),
                      el('td', {}, inline(ending), gone ? ' never seen by the agent' : ''),
                    ),
                ),
              ),
            ),
          ),
        )
      : null;
  const words = (tried) =>
    el(
      'li',
      {},
      tryWords(tried),
      tried.begun ? el('span', { class: 'dim' }, ` · began ${tried.begun.slice(0, 19)}Z`) : '',
      tried.sampling ? el('span', { class: 'dim' }, ` · ${tried.sampling.join(' / ')}`) : null,
      tried.exit && wholeText(tried.exit) ? [' · in its own words: ', inline(tried.exit)] : null,
      tried.detail ? textBlock(tried.detail, { kind: 'soft' }) : null,
      tried.no_tape ? el('p', { class: 'dim' }, inline(tried.no_tape)) : null,
      tried.broken ? el('p', { class: 'dim' }, 'Its tape is ', inline(tried.broken)) : null,
      requests(tried),
    );
  return section(
    'Tries and faults',
    'tries',
    el('div', { class: 'scroll', tabindex: 0 }, timeline(one.tries)),
    el(
      'p',
      { class: 'legend' },
      [
        ['sent', 'request'],
        ['sent again', 'sent again'],
        ['sent bad', 'failed'],
      ].map(([kind, word]) => el('span', {}, el('span', { class: `dot ${kind}` }), ` ${word} `)),
    ),
    el('ul', { class: 'plain' }, one.tries.map(words)),
  );
}

function issueCard(run, row, shared) {
  const link = run.links[row.place];
  const parts = [
    shared.issue && wholeText(shared.issue)
      ? fold('The issue, as the agent was given it', textBlock(shared.issue))
      : null,
    link
      ? el(
          'p',
          {},
          el(
            'a',
            { href: link, rel: 'noreferrer noopener', target: '_blank' },
            'The tree before the fix, on GitHub',
          ),
        )
      : null,
  ];
  return parts.some(Boolean) ? section('Instance', 'instance', parts) : null;
}
