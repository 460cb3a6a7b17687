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
        triesCard(run, one),
        trajectoryCard(row, one),
      ].filter(Boolean),
    );
  }
  if (shared) page.append(...[issueCard(run, row, shared)].filter(Boolean));
  if (one?.kept.files.length) page.append(keptCard(run, one.kept));
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
    ['blame', row.blame],
    ['stop', row.blame === 'infra' ? '' : said(row.stop) || (row.tries ? 'unknown' : '')],
    ['place', row.trust],
    ['reward', unknown(row.reward) ? '' : rewarded(row.reward)],
    ['tries', whole(row.tries)],
    ...(run.recorded
      ? [
          ['time', seconds(row.seconds)],
          ['waiting for the endpoint', unknown(row.waiting) ? '' : percent(row.waiting)],
          ['steps', whole(row.steps)],
          [
            'tokens',
            `${whole(row.input_tokens)} in (${whole(row.cached_tokens)} cached), ${whole(row.output_tokens)} out`,
          ],
          ['cost', dollars(row.cost_usd)],
          ['sampling as planned', `${whole(row.as_planned)} of ${whole(row.requests)} requests`],
        ]
      : []),
  ].filter(([, value]) => value);
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
    run.k > 1
      ? el(
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
        )
      : null,
  );
}

function knownCard(row, one, shared) {
  const lines = [];
  const found = one.diagnosis;
  if (found) {
    lines.push(el('p', {}, inline(sentence([found.evidence, ...found.notes].join('; ')))));
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
  if (!found && one.detail) lines.push(textBlock(one.detail, { kind: 'soft' }));
  if (one.evidence.length) lines.push(textBlock(one.evidence.join('\n'), { kind: 'soft' }));
  one.scorings.forEach((scoring, n) =>
    lines.push(el('p', {}, n ? 'Scored again. ' : null, scoringWords(scoring))),
  );
  if (row.moved && shared) lines.push(el('p', {}, inline(sentence(shared.grounds))));
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
  if (one.grader === 'imported') return `The verdict was imported: ${said(one.finding)}.`;
  const words = [`Graded as ${said(one.finding)} by ${one.grader} in ${seconds(one.seconds)}`];
  if (one.fail_to_pass) words.push(`FAIL_TO_PASS ${one.fail_to_pass}`);
  if (one.pass_to_pass) words.push(`PASS_TO_PASS ${one.pass_to_pass}`);
  if (!unknown(one.reward)) words.push(`reward ${rewarded(one.reward)}`);
  if (!unknown(one.exit_code)) words.push(`exit status ${one.exit_code}`);
  if (one.image) words.push(`image ${one.image.replace('sha256:', '').slice(0, 12)}`);
  if (one.origin) words.push(`taken over from ${one.origin}`);
  if (one.contradicted) words.push('graded again it came out otherwise');
  if (one.tampered) words.push('its tests could not have failed');
  const looked = [
    ...one.reasons.map(wholeText).filter((text) => text !== `reward ${one.reward}`),
    ...one.checked.filter((text) => !one.origin || !text.includes(one.origin)),
  ];
  return [inline(words.join(', ')), looked.length ? [': ', inline(looked.join('; '))] : null, '.'];
}

function issueCard(run, row, shared) {
  const link = run.links[row.place];
  const parts = [
    shared.issue && wholeText(shared.issue)
      ? fold(
          run.group === 'category' ? 'The task, as the agent was given it' : 'The issue, as the agent was given it',
          textBlock(shared.issue),
        )
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

// What a browser shows or saves, and never runs: what an agent has left may be a page with scripts.
const HARMLESS = /\.(png|jpe?g|gif|webp|txt|json|csv|zip|gz|tgz|xz|zst|tar)$/i;

function wayTo(base, path) {
  if (!base || !HARMLESS.test(path)) return null;
  try {
    return base + path.split('/').map(encodeURIComponent).join('/');
  } catch {
    return null; // a name that is no UTF-16
  }
}

// The one place where files of an attempt are named: its artefacts, its logs, its trajectory.
function keptCard(run, kept) {
  const name = ([path]) => el('code', {}, inert(path));
  const view = (file) => {
    const href = wayTo(run.base, file[0]);
    return el(
      'li',
      {},
      href ? el('a', { href, target: '_blank', rel: 'noreferrer noopener' }, name(file)) : name(file),
      el('span', { class: 'dim number' }, ` ${bytes(file[1])}`),
    );
  };
  const list = (items) => el('ul', { class: 'files' }, items);
  const artefacts = kept.artefacts.length || kept.left_out.length;
  return section(
    'Kept files',
    'kept',
    el('p', { class: 'dim' }, 'In the directory of the run, not in this report.'),
    artefacts
      ? [
          el('h3', {}, 'Artefacts'),
          list(kept.artefacts.map(view)),
          kept.more ? el('p', { class: 'dim' }, `and ${plural(kept.more, 'other')}`) : null,
          kept.left_out.length
            ? [
                el('p', { class: 'dim' }, 'Not kept:'),
                list(kept.left_out.map((text) => el('li', { class: 'dim' }, inline(text)))),
              ]
            : null,
          el('h3', {}, 'Logs and records'),
        ]
      : null,
    list(kept.files.map(view)),
  );
}
