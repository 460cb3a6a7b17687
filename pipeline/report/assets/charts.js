// Charts in plain SVG: signs of outcomes, parts of a whole, bars.

const GLYPHS = {
  resolved: 'M.24 .52l.2 .2l.34 -.42',
  unresolved: 'M.28 .28l.44 .44M.72 .28l-.44 .44',
  patch_rejected: 'M.3 .72l.4 -.44',
  no_submission: 'M.28 .5h.44',
  contested: 'M.5 .24v.3M.5 .7v.06',
  tests_timed_out: 'M.32 .26h.36l-.36 .48h.36z',
  tests_did_not_run: 'M.3 .4h.4M.3 .6h.4',
  died: 'M.5 .24v.52M.34 .4h.32',
  infra: 'M.24 .55q.13 -.22 .26 -.05t.26 -.05',
  pending: 'M.5 .48v.04',
};

function glyph(outcome, x, y, size) {
  const number = (value) => Math.round(value * size * 100) / 100;
  // Only the first pair of a path is a place; what follows is relative to it.
  return GLYPHS[outcome].replace(/M([\d.]+) ([\d.]+)|-?\.\d+/g, (all, left, top) =>
    left === undefined
      ? number(Number(all))
      : `M${Math.round((x + left * size) * 100) / 100} ${Math.round((y + top * size) * 100) / 100}`,
  );
}

const label = (row) =>
  `${row.instance}, attempt ${row.attempt}: ${said(row.outcome)}` +
  `${row.cause ? ` (${said(row.cause)})` : ''}${row.mode ? `, ${said(row.mode)}` : ''}` +
  `${unknown(row.reward) ? '' : `, reward ${rewarded(row.reward)}`}` +
  `${row.counted ? '' : ', does not count'}`;

const voteLabel = (run, place) => `${run.ids[place]}: the vote is ${run.ballots[place]}`;

function icon(outcome, open) {
  return draw(
    'svg',
    { width: 16, height: 16, viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': 'true' },
    draw('rect', {
      x: 0.75,
      y: 0.75,
      width: 14.5,
      height: 14.5,
      rx: 2.5,
      class: `cell o-${outcome}${open ? ' open' : ''}`,
    }),
    draw('path', {
      d: glyph(outcome, 0, 0, 16),
      class: `glyph ${open ? 'open' : 'full'}`,
      'stroke-width': 1.5,
    }),
  );
}

// Parts of a whole: [word, number, class, meaning]; a click calls back with the word.
function shares(parts, total, pick) {
  const known = parts.filter(([, number]) => number);
  const bar = draw('svg', {
    class: 'shares',
    viewBox: '0 0 1000 24',
    preserveAspectRatio: 'none',
    'aria-hidden': 'true',
  });
  let x = 0;
  for (const [, number, kind] of known) {
    const width = (1000 * number) / (total || 1);
    bar.append(draw('rect', { x, y: 0, width, height: 24, class: kind, 'data-shape': 'share' }));
    x += width;
  }
  return el(
    'div',
    {},
    bar,
    el(
      'ul',
      { class: 'legend' },
      known.map(([word, number, kind, meaning, mark]) =>
        el(
          'li',
          {},
          el(
            'button',
            { type: 'button', class: 'pick', title: meaning, onclick: () => pick(word) },
            mark || el('span', { class: `dot ${kind}` }),
            ` ${said(word)} `,
            el('b', {}, whole(number)),
            el('span', { class: 'dim' }, ` ${percent(number / (total || 1))}`),
          ),
        ),
      ),
    ),
  );
}

// Bars with a word, a number and a sentence each.
function bars(items, pick, kind = 'k-model') {
  const most = Math.max(...items.map(([, number]) => number), 1);
  return el(
    'table',
    { class: 'bars' },
    el(
      'tbody',
      {},
      items.map(([word, number, sentence]) =>
        el(
          'tr',
          {},
          el(
            'th',
            { scope: 'row' },
            el('button', { type: 'button', class: 'pick', onclick: () => pick(word) }, said(word)),
          ),
          el(
            'td',
            { class: 'bar' },
            draw(
              'svg',
              { viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
              draw('rect', { x: 0, y: 1, width: (100 * number) / most, height: 8, rx: 1, class: kind }),
            ),
          ),
          el('td', { class: 'number' }, whole(number)),
          el('td', { class: 'dim' }, sentence),
        ),
      ),
    ),
  );
}
