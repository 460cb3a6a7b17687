// The heat map: a row an instance, a column an attempt, the vote at the end.

const BLOCK = 20; // instances in one piece

const ruler = document.createElement('canvas').getContext('2d');
const family = getComputedStyle(document.body).fontFamily;

// How wide a text is drawn, and as much of it as there is room for; pixels.
function widthOf(text, size) {
  ruler.font = `700 ${size}px ${family}`;
  return ruler.measureText(text).width;
}

function fitting(text, size, room) {
  if (widthOf(text, size) <= room) return text;
  let most = text.length - 1;
  while (most > 1 && widthOf(`${text.slice(0, most)}…`, size) > room) most -= 1;
  return `${text.slice(0, most)}…`;
}

// What all pieces of a map have in common: sizes in pixels.
function scaleOf(run) {
  const many = run.ids.length * Math.max(run.k, 3);
  const size = many <= 60 ? 28 : many <= 300 ? 20 : many <= 1200 ? 16 : 13;
  const font = Math.min(size * 0.75, 13);
  const longest = Math.min(Math.max(...run.short.map((name) => widthOf(name, font))), 220, innerWidth * 0.42);
  const margin = Math.ceil(longest) + 8;
  // A vote of one is no vote.
  return { size, font, margin, width: margin + run.k * size + (run.k > 1 ? size * 1.6 : 2) };
}

// One piece: rows of instances, columns of attempts, the vote at the end.
function heatPiece(run, places, { size, font, margin, width }) {
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
          x: 0,
          y: y + size / 2 + font * 0.36,
          'font-size': font,
          class: run.split.has(place) ? 'split' : null,
        },
        fitting(run.short[place], font, margin - 6),
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
    if (run.k > 1)
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
  const scale = scaleOf(run);
  const map = el('div', {
    class: 'heatmap',
    tabindex: 0,
    role: 'application',
    'aria-label': 'Heat map of instances and attempts. Arrow keys move, Enter opens an attempt.',
  });
  const heading = Math.max(...[...new Set(run.repos)].map((repo) => widthOf(`${repo}, 100–120`, 13)));
  map.style.columnWidth = `${Math.ceil(Math.max(scale.width, Math.min(heading, 220)))}px`;
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
          heatPiece(run, part, scale),
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
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 0, ArrowUp: 0 };
    const ways = { ArrowDown: 1, ArrowUp: -1 };
    const beside = (way) => {
      const { place, attempt } = run.rows[at];
      const there = attemptsAt(run, place + way);
      return there.length ? there[Math.min(attempt, there.length) - 1].at : at;
    };
    if (event.key === 'Enter') {
      open(run.rows[at]);
      return;
    }
    if (event.type === 'keydown' && !(event.key in steps)) return;
    if (event.type === 'keydown') event.preventDefault();
    const next = ways[event.key] ? beside(ways[event.key]) : at + (steps[event.key] || 0);
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
