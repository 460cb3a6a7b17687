// How much attempts took, and what happened in one attempt over time.

const KINDS = [
  ['resolved', 'o-resolved'],
  ['failed', 'k-model'],
  ['does not count', 'k-open'],
];
const kindOf = (row) => (row.outcome === 'resolved' && row.counted ? 0 : row.counted ? 1 : 2);

function quantile(sorted, share) {
  if (!sorted.length) return null;
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}

// Round numbers between two ends.
function ticks(from, to) {
  const found = [];
  for (let ten = 10 ** Math.floor(Math.log10(from)); ten <= to; ten *= 10)
    for (const digit of [1, 2, 5]) if (digit * ten >= from && digit * ten <= to) found.push(digit * ten);
  return found;
}

// A distribution on a logarithmic scale, stacked by what the attempts came to.
function distribution(title, rows, read, write) {
  const values = rows.map((row) => [read(row), kindOf(row)]).filter(([value]) => value > 0);
  const none = rows.filter((row) => read(row) === 0).length;
  if (!values.length) return null;
  const logs = values.map(([value]) => Math.log2(value));
  const from = Math.floor(Math.min(...logs));
  const to = Math.max(Math.ceil(Math.max(...logs) + 1e-9), from + 1);
  const fine = to - from <= 4 ? 4 : to - from <= 9 ? 2 : 1;
  const bins = Array.from({ length: (to - from) * fine }, () => [0, 0, 0]);
  values.forEach(([, kind], n) => {
    bins[Math.min(Math.floor((logs[n] - from) * fine), bins.length - 1)][kind] += 1;
  });
  const most = Math.max(...bins.map((bin) => bin[0] + bin[1] + bin[2]));
  const [width, height, foot] = [320, 92, 18];
  const step = width / bins.length;
  const chart = draw('svg', {
    class: 'chart',
    viewBox: `0 0 ${width} ${height + foot}`,
    role: 'img',
    'aria-label': `${title}: distribution over ${plural(values.length, 'attempt')}`,
  });
  bins.forEach((bin, n) => {
    let y = height;
    bin.forEach((number, kind) => {
      const tall = ((height - 6) * number) / most;
      y -= tall;
      if (number)
        chart.append(
          draw('rect', {
            x: n * step + 0.5,
            y,
            width: Math.max(step - 1, 0.5),
            height: tall,
            class: KINDS[kind][1],
          }),
        );
    });
  });
  chart.append(draw('line', { x1: 0, x2: width, y1: height, y2: height, class: 'axis' }));
  let free = 0;
  for (const tick of ticks(2 ** from, 2 ** to)) {
    const x = (Math.log2(tick) - from) * fine * step;
    if (x < free || x > width - 14) continue;
    free = x + 42;
    chart.append(draw('line', { x1: x, x2: x, y1: height, y2: height + 3, class: 'axis' }));
    chart.append(
      draw(
        'text',
        { x: Math.max(x, 12), y: height + 14, 'font-size': 10, class: 'tick', 'text-anchor': 'middle' },
        write(tick),
      ),
    );
  }
  const sorted = values.map(([value]) => value).sort((a, b) => a - b);
  const total = sorted.reduce((sum, value) => sum + value, 0);
  return el(
    'figure',
    { class: 'spread' },
    el(
      'figcaption',
      {},
      el('b', {}, title),
      el(
        'span',
        { class: 'dim' },
        ` median ${write(quantile(sorted, 0.5))}, nine in ten below ` +
          `${write(quantile(sorted, 0.9))}, in all ${write(total)}` +
          (none ? `; ${whole(none)} at zero` : ''),
      ),
    ),
    chart,
  );
}

// One lane a try: its requests where they were sent, and how it ended.
function timeline(tries) {
  const length = Math.max(
    1,
    ...tries.map((one) => one.seconds),
    ...tries.flatMap((one) => (one.requests || []).map((r) => (r[2] || 0) + r[3])),
  );
  const [width, lane, left] = [760, 34, 52];
  const x = (value) => left + ((width - left - 12) * value) / length;
  const chart = draw('svg', {
    class: 'chart times',
    viewBox: `0 0 ${width} ${tries.length * lane + 22}`,
    role: 'img',
    'aria-label': tries.map(tryWords).join('. '),
  });
  tries.forEach((one, n) => {
    const y = n * lane + 6;
    chart.append(draw('text', { x: 0, y: y + 15, 'font-size': 12 }, `try ${one.n}`));
    chart.append(
      draw('rect', {
        x: x(0),
        y: y + 4,
        width: Math.max(2, x(one.seconds) - x(0)),
        height: 14,
        rx: 3,
        class: one.cause ? 'lane broken' : 'lane',
      }),
    );
    for (const [, again, at, took, status, , , , , , ending, discarded] of one.requests || []) {
      if (at === null) continue;
      const bad = status >= 400 || ending || discarded;
      chart.append(
        draw('rect', {
          x: x(at),
          y: y + (bad ? 1 : 6),
          width: Math.max(2, x(at + took) - x(at)),
          height: bad ? 20 : 10,
          class: bad ? 'sent bad' : again ? 'sent again' : 'sent',
        }),
      );
    }
    const end = x(one.seconds);
    chart.append(
      draw('circle', {
        cx: Math.min(end, width - 6),
        cy: y + 11,
        r: 5,
        class: one.cause ? 'end bad' : 'end',
      }),
    );
  });
  const y = tries.length * lane + 16;
  for (const share of [0, 0.25, 0.5, 0.75, 1])
    chart.append(
      draw(
        'text',
        {
          x: x(length * share),
          y,
          'font-size': 10,
          class: 'tick',
          'text-anchor': share === 1 ? 'end' : share ? 'middle' : 'start',
        },
        seconds(length * share),
      ),
    );
  return chart;
}

function tryWords(one) {
  const end = one.cause
    ? `${one.died ? 'died' : 'fault'}, cause ${said(one.cause)}`
    : one.stop
      ? said(one.stop)
      : 'its exit is unknown';
  return `try ${one.n}: ${seconds(one.seconds)}, ${plural(one.usage.requests, 'request')}, ${end}`;
}
