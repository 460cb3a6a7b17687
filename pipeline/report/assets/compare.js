// Up to four runs side by side, with their paired test.

const LETTERS = 'ABCD';
const chance = (p) => (unknown(p) ? '–' : p < 0.0001 ? '< 0.0001' : (p + 1e-12).toFixed(4));
const points = (value) => `${value > 0 ? '+' : ''}${(100 * value).toFixed(1)}`.replace('-', '−');

function plainTable(heads, rows, name) {
  return el(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name },
    el(
      'table',
      { class: 'even' },
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          heads.map((head) => el('th', { scope: 'col' }, head)),
        ),
      ),
      el(
        'tbody',
        {},
        rows.map((row) =>
          el(
            'tr',
            {},
            row.map((cell, n) => el(n ? 'td' : 'th', { scope: n ? null : 'row' }, cell)),
          ),
        ),
      ),
    ),
  );
}

// A name keeps its own letters; only our words begin a sentence.
const begun = (text) => (/^no /.test(text) ? sentence(text) : text);

// pass@1 of every run with its interval, on one scale.
function intervals(sides) {
  const known = sides.filter((side) => !unknown(side.pass_at_1));
  if (!known.length) return null;
  const [width, lane, left] = [760, 26, 40];
  const low = Math.floor(10 * Math.min(...known.map((side) => side.low))) / 10;
  const high = Math.ceil(10 * Math.max(...known.map((side) => side.high))) / 10;
  const x = (value) => left + ((width - left - 20) * (value - low)) / (high - low || 1);
  const chart = draw('svg', {
    class: 'chart times',
    viewBox: `0 0 ${width} ${sides.length * lane + 20}`,
    role: 'img',
    'aria-label': known.map((side) => `${side.name}: ${percent(side.pass_at_1)}`).join(', '),
  });
  for (let tick = low; tick <= high + 1e-9; tick += 0.1) {
    chart.append(
      draw('line', { x1: x(tick), x2: x(tick), y1: 0, y2: sides.length * lane, class: 'axis' }),
      draw(
        'text',
        { x: x(tick), y: sides.length * lane + 14, 'font-size': 11, class: 'tick', 'text-anchor': 'middle' },
        `${Math.round(100 * tick)} %`,
      ),
    );
  }
  sides.forEach((side, n) => {
    const y = n * lane + lane / 2;
    chart.append(draw('text', { x: 0, y: y + 4, 'font-size': 13 }, side.side));
    if (unknown(side.pass_at_1)) return;
    chart.append(
      draw('line', { x1: x(side.low), x2: x(side.high), y1: y, y2: y, class: 'whisker' }),
      draw('circle', { cx: x(side.pass_at_1), cy: y, r: 5.5, class: 'end' }),
    );
  });
  return chart;
}

function comparePage() {
  const found = report.comparison;
  const names = report.runs.map((run, n) =>
    el('p', {}, el('b', {}, LETTERS[n]), ' ', el('a', { href: `#/run/${n + 1}` }, inline(run.name))),
  );
  if (found.refused) {
    return el(
      'div',
      { class: 'overview' },
      section(
        'Side by side',
        'compare',
        names,
        el('p', { class: 'notice' }, 'These runs are not compared: ', inline(found.refused)),
      ),
    );
  }
  const rate = (side) =>
    unknown(side.pass_at_1)
      ? '–'
      : `${percent(side.pass_at_1)} [${(100 * side.low).toFixed(1)}–${(100 * side.high).toFixed(1)}]`;
  const graded = found.rewards.some(Boolean);
  const reward = (one) =>
    one ? `${one.mean.toFixed(3)} [${one.ci95.map((end) => end.toFixed(3)).join('–')}]` : '–';
  const sides = found.sides.map((side, n) => [
    el('a', { href: `#/run/${n + 1}` }, `${side.side} · `, inline(side.name)),
    el('bdi', {}, side.model),
    `${side.resolved} of ${side.counted}`,
    rate(side),
    `${side.votes_resolved} / ${side.votes_rejected} / ${side.votes_undetermined}`,
    ...(graded ? [reward(found.rewards[n])] : []),
  ]);
  const letters = Object.fromEntries(found.sides.map((side) => [side.name, side.side]));
  const pairs = found.pairs.map((pair) => [
    `${letters[pair.first]} − ${letters[pair.second]}`,
    `${pair.only_first} / ${pair.only_second}`,
    `${pair.both} / ${pair.neither}`,
    pair.open,
    chance(pair.mcnemar_p),
    ...(found.pairs.length > 1 ? [chance(pair.mcnemar_p_holm)] : []),
    unknown(pair.difference)
      ? '–'
      : points(pair.difference) +
        (unknown(pair.difference_low)
          ? ''
          : ` [${points(pair.difference_low)} to ${points(pair.difference_high)}]`),
    chance(pair.permutation_p),
    unknown(pair.detectable) ? '–' : (100 * pair.detectable).toFixed(1),
  ]);
  return el(
    'div',
    { class: 'overview' },
    section(
      'Side by side',
      'compare',
      found.sentences.map((text) => el('p', { class: 'sentence' }, inline(`${begun(text)}.`))),
      found.confounds ? el('p', {}, inline(`${sentence(found.confounds)}.`)) : null,
      plainTable(
        [
          'run',
          'model',
          'resolved of counted',
          'pass@1 over valid',
          'votes yes / no / open',
          ...(graded ? ['mean reward'] : []),
        ],
        sides,
        'Runs',
      ),
      el('div', { class: 'scroll', tabindex: 0 }, intervals(found.sides)),
      plainTable(
        [
          'pair',
          'only first / second',
          'both / neither',
          'open',
          'McNemar p',
          ...(found.pairs.length > 1 ? ['by Holm'] : []),
          'points [95 %]',
          'permutation p',
          'points detectable',
        ],
        pairs,
        'Paired tests',
      ),
      found.notes.length
        ? el(
            'ul',
            {},
            found.notes.map((note) => el('li', {}, inline(note))),
          )
        : null,
    ),
    instancesCard(found),
    found.differences.length
      ? section(
          'In what they differ',
          'differences',
          plainTable(
            ['key', ...found.sides.map((side) => side.side)],
            found.differences.map((row) => row.map((text) => inline(text))),
            'Differences',
          ),
        )
      : null,
  );
}

const cellWords = ([resolved, counted, attempts, vote]) =>
  `${attempts > 1 ? `${resolved}/${counted} ` : ''}${{ resolved: 'yes', rejected: 'no', undetermined: 'open' }[vote]}`;

function instancesCard(found) {
  const two = found.sides.length === 2;
  const words = { 'only first': 'only A', 'only second': 'only B' };
  const apart = found.instances.filter(([, told]) => found.apart.includes(told));
  const alike = found.instances.filter(([, told]) => !found.apart.includes(told));
  const rows = (items) =>
    plainTable(
      ['instance', ...found.sides.map((side) => side.side), ...(two ? ['told'] : [])],
      items.map(([id, told, ...cells]) => [
        el('a', { href: `#/compare/${encodeURIComponent(id)}` }, el('bdi', {}, id)),
        ...cells.map((cell) => el('span', { class: `ballot v-${cell[3]}` }, cellWords(cell))),
        ...(two ? [words[told] || told] : []),
      ]),
      'Instances',
    );
  return section(
    'Instance by instance',
    'told',
    apart.length ? rows(apart) : el('p', {}, 'No instance tells them apart.'),
    alike.length
      ? later(`${plural(alike.length, 'instance')} on which the votes agree`, () => rows(alike))
      : null,
  );
}

// One instance in every run: choose an attempt of each, and read their patches beside each other.
async function sidePage(id) {
  const known = report.runs.find((run) => run.ids.includes(id));
  const shared = known && (await block(`i-${known.number}-${known.ids.indexOf(id)}`));
  const columns = await Promise.all(
    report.runs
      .filter((run) => run.ids.includes(id))
      .map(async (run) => {
        const place = run.ids.indexOf(id);
        const rows = attemptsAt(run, place);
        const shown = el('div', {});
        const choose = async (row) => {
          const one = await block(`a-${run.number}-${place}-${row.attempt}`);
          for (const link of chips.children)
            link.setAttribute('aria-pressed', String(link.dataset.attempt === String(row.attempt)));
          const parts = [
            el(
              'p',
              {},
              badge(row),
              row.mode ? ` ${said(row.mode)} · ` : ' ',
              el('a', { href: hashOf(row) }, 'the whole attempt'),
            ),
            row.why ? el('p', { class: 'dim' }, inline(sentence(row.why))) : null,
            one ? handedIn(one) : el('p', { class: 'dim' }, 'Its patch is not inside this report.'),
          ];
          shown.replaceChildren(...parts.filter(Boolean));
        };
        const chips = el(
          'div',
          { class: 'siblings' },
          rows.map((row) =>
            el(
              'button',
              { type: 'button', title: label(row), 'data-attempt': row.attempt, onclick: () => choose(row) },
              icon(row.outcome, !row.counted),
              ` ${row.attempt}`,
            ),
          ),
        );
        await choose(rows[0]);
        return el(
          'section',
          { class: 'card', 'aria-label': run.name },
          el('h2', {}, `${LETTERS[run.number]} · `, inline(run.name)),
          run.k > 1 ? [chips, el('p', {}, `vote: ${run.ballots[place]}`)] : null,
          shown,
        );
      }),
  );
  return el(
    'article',
    { class: 'attempt' },
    el(
      'header',
      { class: 'head' },
      el('p', { class: 'crumbs' }, el('a', { href: '#/compare' }, '← side by side')),
      el('h1', { tabindex: -1 }, el('bdi', {}, id)),
    ),
    el('div', { class: 'columns' }, columns),
    shared && wholeText(shared.gold).trim()
      ? el(
          'section',
          { class: 'card', 'aria-label': 'Gold' },
          later('Show gold', () => diffView(shared.gold)),
        )
      : null,
  );
}
