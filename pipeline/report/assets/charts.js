// Charts in plain SVG: the heat map, bars, and distributions.

const BLOCK = 20; // instances in one piece of the heat map
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
  `${row.counted ? '' : ', does not count'}`;

const voteLabel = (run, place) => `${run.ids[place]}: the vote is ${run.ballots[place]}`;

// One piece: rows of instances, columns of attempts, the vote at the end.
function heatPiece(run, places, size) {
  const names = places.map((place) => run.short[place]);
  const margin = Math.min(150, Math.max(...names.map((name) => name.length)) * size * 0.58 + 8);
  const width = margin + run.k * size + size * 1.6;
  const chart = draw('svg', {
    class: 'heat',
    width,
    height: places.length * size + 2,
    viewBox: `0 0 ${width} ${places.length * size + 2}`,
    'aria-hidden': 'true',
  });
  places.forEach((place, line) => {
    const y = line * size + 1;
    const strokes = { full: [], open: [] };
    chart.append(
      draw(
        'text',
        {
          x: margin - 6,
          y: y + size * 0.72,
          'text-anchor': 'end',
          'font-size': size * 0.72,
          class: run.split.has(place) ? 'split' : null,
        },
        names[line],
      ),
    );
    attemptsAt(run, place).forEach((row, column) => {
      const x = margin + column * size;
      chart.append(
        draw('rect', {
          x: x + 0.75,
          y: y + 0.75,
          width: size - 1.5,
          height: size - 1.5,
          rx: size / 7,
          class: `cell o-${row.outcome}${row.counted ? '' : ' open'}`,
          'data-at': row.at,
        }),
      );
      strokes[row.counted ? 'full' : 'open'].push(glyph(row.outcome, x, y, size));
    });
    for (const [kind, paths] of Object.entries(strokes))
      if (paths.length)
        chart.append(
          draw('path', {
            d: paths.join(''),
            class: `glyph ${kind}`,
            'stroke-width': Math.max(1.2, size / 11),
          }),
        );
    chart.append(
      draw('circle', {
        cx: margin + run.k * size + size * 0.95,
        cy: y + size / 2,
        r: size * 0.3,
        class: `vote v-${run.ballots[place]}`,
        'data-place': place,
      }),
    );
  });
  return chart;
}

// The whole map is one thing to tab to; arrows walk in it, and what is there is said.
function heatMap(run, open) {
  const many = run.ids.length * Math.max(run.k, 3);
  const size = many <= 60 ? 28 : many <= 300 ? 20 : many <= 1200 ? 16 : 13;
  const map = el('div', {
    class: 'heatmap',
    tabindex: 0,
    role: 'application',
    'aria-label': 'Heat map of instances and attempts. Arrow keys move, Enter opens an attempt.',
  });
  const longest = Math.max(...run.repos.map((repo) => repo.length));
  map.style.columnWidth = `${Math.max((run.k + 5) * size, Math.min(longest, 24) * 7 + 40)}px`;
  const status = el('p', { class: 'sr', 'aria-live': 'polite' });
  const hint = el('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
  const groups = new Map();
  run.repos.forEach((repo, place) => groups.set(repo, [...(groups.get(repo) || []), place]));
  for (const [repo, places] of groups) {
    const votes = places.filter((place) => run.ballots[place] === 'resolved').length;
    for (let from = 0; from < places.length; from += BLOCK) {
      const part = places.slice(from, from + BLOCK);
      const last = from + part.length;
      const span = part.length > 1 ? `${from + 1}–${last}` : last;
      const more = places.length > BLOCK ? `, ${span}` : '';
      map.append(
        el(
          'figure',
          {},
          el(
            'figcaption',
            {},
            el('bdi', {}, repo),
            more,
            el('span', { class: 'dim' }, from ? '' : ` ${votes}/${places.length}`),
          ),
          heatPiece(run, part, size),
        ),
      );
    }
  }
  const point = (target, text) => {
    const box = target.getBoundingClientRect();
    const around = map.getBoundingClientRect();
    hint.textContent = text;
    hint.hidden = false;
    const left = Math.min(box.left - around.left + box.width, around.width - hint.offsetWidth - 4);
    hint.style.left = `${Math.max(0, left)}px`;
    hint.style.top = `${box.top - around.top + box.height + 4}px`;
  };
  const textOf = (target) =>
    target.dataset.at !== undefined
      ? label(run.rows[target.dataset.at])
      : voteLabel(run, target.dataset.place);
  map.addEventListener('pointerover', (event) => {
    if (event.target.dataset?.at || event.target.dataset?.place) point(event.target, textOf(event.target));
    else hint.hidden = true;
  });
  map.addEventListener('pointerleave', () => {
    hint.hidden = true;
  });
  map.addEventListener('click', (event) => {
    if (event.target.dataset?.at) open(run.rows[event.target.dataset.at]);
  });
  let at = 0;
  const walk = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: run.k, ArrowUp: -run.k };
    if (event.key === 'Enter') {
      open(run.rows[at]);
      return;
    }
    if (event.type === 'keydown' && !(event.key in steps)) return;
    if (event.type === 'keydown') event.preventDefault();
    const next = at + (steps[event.key] || 0);
    if (next >= 0 && next < run.rows.length) at = next;
    map.querySelector('.at')?.classList.remove('at');
    const cell = map.querySelector(`[data-at="${at}"]`);
    cell.classList.add('at');
    cell.scrollIntoView({ block: 'nearest' });
    point(cell, label(run.rows[at]));
    status.textContent = label(run.rows[at]);
  };
  map.addEventListener('keydown', walk);
  map.addEventListener('focus', () => {
    if (map.matches(':focus-visible')) walk({ key: '' });
  });
  map.addEventListener('blur', () => {
    hint.hidden = true;
    map.querySelector('.at')?.classList.remove('at');
  });
  map.append(hint);
  return el('div', { class: 'heatbox' }, map, status);
}

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
