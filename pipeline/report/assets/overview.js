// One run as a whole.

function overview(run) {
  const table = attemptTable(run);
  const total = run.rows.length;
  const pick = (name) => (word) => table.pick(name, word);
  const outcomes = Object.keys(OUTCOMES).map((word) => [
    word,
    run.outcomes[word],
    `o-${word}`,
    OUTCOMES[word],
    icon(word, word === 'infra' || word === 'pending'),
  ]);
  const blames = [
    ['nobody', run.blame.nobody, 'o-resolved', 'counts for the model'],
    ['model', run.blame.model, 'k-model', 'counts against the model'],
    ['ambiguous', run.blame.ambiguous, 'k-amb', 'either side may have caused it; does not count'],
    ['infra', run.blame.infra, 'k-open', 'our side; does not count'],
    ['pending', run.outcomes.pending, 'k-later', 'not yet run'],
  ];
  const causes = Object.entries(run.causes)
    .sort((a, b) => b[1] - a[1])
    .map(([word, number]) => [word, number, CAUSES[word]]);
  const pickBlame = (word) => (word === 'pending' ? table.pick('outcome', word) : table.pick('blame', word));
  return el(
    'div',
    { class: 'overview' },
    run.rows.some((row) => row.tries) ? null : el('p', { class: 'notice' }, 'No attempt is over yet.'),
    section(
      'Every attempt',
      'map',
      shares(outcomes, total, pick('outcome')),
      el('p', { class: 'dim' }, mapWords(run)),
      heatMap(run, (row) => {
        location.hash = hashOf(row);
      }),
    ),
    section(
      'Who is to blame',
      'blame',
      shares(blames, total, pickBlame),
      causes.length
        ? el('div', {}, el('h3', {}, 'What broke, by cause'), bars(causes, pick('cause'), 'k-open'))
        : null,
    ),
    diagnosisCard(run, pick('mode')),
    spreadCard(run),
    section('Attempts', 'attempts', table),
    section(
      'What was asked',
      'facts',
      el(
        'dl',
        { class: 'facts' },
        run.facts.map(([name, value]) => [el('dt', {}, name), el('dd', {}, inline(value))]),
      ),
      insideWords(run),
    ),
  );
}

function mapWords(run) {
  const words = ['A row is an instance, a column an attempt.'];
  if (run.k > 1) words[0] = 'A row is an instance, a column an attempt, the circle at its end the vote.';
  if (run.rows.some((row) => !row.counted)) words.push('Solid counts; outlined does not.');
  if (run.split.size)
    words.push(`In bold: ${plural(run.split.size, 'instance')} at which the attempts that count disagree.`);
  return words.join(' ');
}

function diagnosisCard(run, pick) {
  const found = new Map();
  for (const row of run.rows) if (row.mode) found.set(row.mode, (found.get(row.mode) || 0) + 1);
  const items = Object.entries(run.modes)
    .filter(([mode]) => found.has(mode))
    .map(([mode, sentence]) => [mode, found.get(mode), sentence])
    .sort((a, b) => b[1] - a[1]);
  const bare = run.rows.filter((row) => row.blame === 'model' && !row.mode).length;
  if (!items.length && !bare) return null;
  return section(
    'Why it failed',
    'diagnosis',
    items.length ? bars(items, pick) : null,
    bare
      ? el(
          'p',
          { class: 'dim' },
          `${plural(bare, 'attempt')} blamed on the model ` +
            `${bare === 1 ? 'is' : 'are'} not diagnosed; passone diagnose does it.`,
        )
      : null,
  );
}

function spreadCard(run) {
  const tried = run.rows.filter((row) => row.tries);
  const usd = tried.filter((row) => unknown(row.cost_usd)).length;
  const charts = [
    run.recorded && distribution('Tokens', tried, (row) => row.tokens, short),
    run.recorded && distribution('Cost', tried, (row) => row.cost_usd, dollars),
    run.recorded && distribution('Steps', tried, (row) => row.steps, short),
    distribution('Time', tried, (row) => row.seconds, seconds),
    rewards(tried),
  ].filter(Boolean);
  const notes = [];
  if (!run.recorded) notes.push('Nobody recorded what was used: the predictions were imported.');
  else if (usd)
    notes.push(
      usd === tried.length
        ? 'What they cost is unknown.'
        : `The cost of ${plural(usd, 'attempt')} is unknown, which is not zero.`,
    );
  if (!charts.length && !notes.length) return null;
  return section(
    tried.some((row) => !unknown(row.reward)) ? 'What an attempt takes and earns' : 'What an attempt takes',
    'spread',
    charts.length
      ? el(
          'p',
          { class: 'legend' },
          KINDS.filter((_, n) => tried.some((row) => kindOf(row) === n)).map(([word, kind]) =>
            el('span', {}, el('span', { class: `dot ${kind}` }), ` ${word} `),
          ),
        )
      : null,
    el('div', { class: 'spreads' }, charts),
    notes.map((note) => el('p', { class: 'dim' }, note)),
  );
}

function insideWords(run) {
  const tried = run.rows.filter((row) => row.tries);
  const inside = tried.filter((row) => row.level === 2).length;
  const rest = tried.filter((row) => !row.level).length;
  if (!run.recorded && !inside) return el('p', { class: 'dim' }, 'Predictions come without trajectories.');
  const what = report.every
    ? 'All that were made.'
    : 'Those of failures and of split votes, as far as there was room; ' + 'passone report --all has all.';
  return el(
    'p',
    { class: 'dim' },
    `Trajectories inside: ${whole(inside)} of ${plural(tried.length, 'attempt')}. ${what}`,
    rest ? ` Of ${plural(rest, 'attempt')} only the row is inside.` : '',
  );
}
