// How much attempts took, and what they earned: distributions, stacked by what they came to.

const KINDS = [
  ['resolved', 'o-resolved'],
  ['failed', 'k-model'],
  ['does not count', 'k-open'],
];
const kindOf = (row) => (row.outcome === 'resolved' && row.counted ? 0 : row.counted ? 1 : 2);

function quantile(sorted, share) {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}

// Round numbers between two ends; more of them where there are few.
function ticks(from, to) {
  let found = [];
  for (const digits of [
    [1, 2, 5],
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9],
  ]) {
    found = [];
    for (let ten = 10 ** Math.floor(Math.log10(from)); ten <= to; ten *= 10)
      found.push(...digits.map((digit) => digit * ten).filter((tick) => tick >= from && tick <= to));
    if (found.length > 2) break;
  }
  return found;
}

// Bars of bins; `marks` are [share of the width, text]. The highest bar says how many it stands for.
function histogram(name, bins, marks) {
  const [width, top, height, foot] = [320, 14, 92, 18];
  const sums = bins.map((bin) => bin[0] + bin[1] + bin[2]);
  const most = Math.max(...sums);
  const step = width / bins.length;
  const chart = draw('svg', {
    class: 'chart',
    viewBox: `0 0 ${width} ${height + foot}`,
    role: 'img',
    'aria-label': name,
  });
  bins.forEach((bin, n) => {
    let y = height;
    bin.forEach((number, kind) => {
      const tall = ((height - top) * number) / most;
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
  const text = (x, y, words, align = 'middle') =>
    draw('text', { x, y, 'font-size': 10, class: 'tick', 'text-anchor': align }, words);
  const peak = (sums.indexOf(most) + 0.5) * step;
  chart.append(
    text(Math.min(Math.max(peak, 8), width - 8), top - 4, whole(most)),
    draw('line', { x1: 0, x2: width, y1: height, y2: height, class: 'axis' }),
  );
  let free = -1;
  for (const [share, words] of marks) {
    const x = share * width;
    const half = words.length * 3 + 2;
    const middle = Math.min(Math.max(x, half), width - half);
    if (middle - half < free) continue;
    free = middle + half + 6;
    chart.append(
      draw('line', { x1: x, x2: x, y1: height, y2: height + 3, class: 'axis' }),
      text(middle, height + 14, words),
    );
  }
  return chart;
}

const spread = (title, words, chart) =>
  el(
    'figure',
    { class: 'spread' },
    el('figcaption', {}, el('b', {}, title), el('span', { class: 'dim' }, ` ${words}`)),
    chart,
  );

// On a logarithmic scale; null: no attempt has a value that is known and not zero.
function distribution(title, rows, read, write) {
  const values = rows.map((row) => [read(row), kindOf(row)]).filter(([value]) => value > 0);
  const none = rows.filter((row) => read(row) === 0).length;
  if (!values.length) return null;
  const sorted = values.map(([value]) => value).sort((a, b) => a - b);
  const from = Math.floor(Math.log2(sorted[0]));
  const to = Math.max(Math.ceil(Math.log2(sorted.at(-1)) + 1e-9), from + 1);
  const fine = to - from <= 4 ? 4 : to - from <= 9 ? 2 : 1;
  const bins = Array.from({ length: (to - from) * fine }, () => [0, 0, 0]);
  for (const [value, kind] of values)
    bins[Math.min(Math.floor((Math.log2(value) - from) * fine), bins.length - 1)][kind] += 1;
  const total = sorted.reduce((sum, value) => sum + value, 0);
  const words =
    `median ${write(quantile(sorted, 0.5))}, nine in ten below ${write(quantile(sorted, 0.9))}, ` +
    `in all ${write(total)}${none ? `; ${whole(none)} at zero` : ''}`;
  const marks = ticks(2 ** from, 2 ** to).map((tick) => [(Math.log2(tick) - from) / (to - from), write(tick)]);
  const name = `${title}: distribution over ${plural(values.length, 'attempt')}, ${words}`;
  return spread(title, words, histogram(name, bins, marks));
}

// From 0 to 1, in tenths; what earned all has a bar of its own.
function rewards(rows) {
  const graded = rows.filter((row) => row.counted && !unknown(row.reward));
  if (!graded.length) return null;
  const bins = Array.from({ length: 11 }, () => [0, 0, 0]);
  for (const row of graded) bins[Math.floor(row.reward * 10 + 1e-9)][kindOf(row)] += 1;
  const part = graded.filter((row) => row.reward > 0 && row.reward < 1).length;
  const words =
    `1 at ${whole(graded.filter((row) => row.reward === 1).length)} of ` +
    `${plural(graded.length, 'attempt')} that count, a fraction at ${whole(part)}`;
  const marks = [0, 2, 4, 6, 8, 10].map((tenth) => [(tenth + 0.5) / 11, String(tenth / 10)]);
  return spread('Reward', words, histogram(`Reward: ${words}`, bins, marks));
}
