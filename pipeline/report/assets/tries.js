// What happened in the tries of one attempt, over time.

const CLOCK = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200]; // seconds

function clock(tick) {
  if (tick && tick % 3600 === 0) return `${tick / 3600} h`;
  return tick && tick % 60 === 0 ? `${tick / 60} min` : `${tick} s`;
}

const kindOfRequest = ([, again, , , status, , , , , , ending, gone]) =>
  status >= 400 || ending || gone ? 'sent bad' : again ? 'sent again' : 'sent';

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
    for (const request of one.requests || []) {
      const [, , at, took] = request;
      if (at === null) continue;
      const kind = kindOfRequest(request);
      const bad = kind === 'sent bad';
      chart.append(
        draw('rect', {
          x: x(at),
          y: y + (bad ? 1 : 6),
          width: Math.max(2, x(at + took) - x(at)),
          height: bad ? 20 : 10,
          class: kind,
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
  const y = tries.length * lane;
  const step = CLOCK.find((size) => length / size <= 6) || CLOCK.at(-1);
  for (let tick = 0; tick <= length; tick += step)
    chart.append(
      draw('line', { x1: x(tick), x2: x(tick), y1: y, y2: y + 4, class: 'axis' }),
      draw(
        'text',
        { x: x(tick), y: y + 16, 'font-size': 10, class: 'tick', 'text-anchor': tick ? 'middle' : 'start' },
        clock(tick),
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
  const failed = one.usage.failed ? ` and ${whole(one.usage.failed)} that failed` : '';
  return `Try ${one.n}: ${seconds(one.seconds)}, ${plural(one.usage.requests, 'request')}${failed}, ${end}`;
}

const HEADS = [
  ['request', ''],
  ['sent at', 'number'],
  ['took', 'number'],
  ['status', 'number'],
  ['tokens in', 'number'],
  ['cached', 'number'],
  ['out', 'number'],
  ['as planned', ''],
  ['finish', ''],
  ['what came of it', ''],
];

function requestRow([n, again, at, took, status, input, cached, output, planned, finish, ending, gone], columns) {
  const cells = [
    again ? `${n} (again, ${again})` : n,
    seconds(at),
    seconds(took),
    status,
    whole(input),
    whole(cached),
    whole(output),
    planned ? 'yes' : 'no',
    inline(finish),
    [inline(ending), gone ? ' never seen by the agent' : ''],
  ];
  return el(
    'tr',
    { class: status >= 400 || ending || gone ? 'bad' : null },
    columns.map(([, kind], place) => el('td', { class: kind || null }, cells[place])),
  );
}

function requestsOf(tried) {
  if (!tried.requests?.length) return null;
  const columns = tried.requests.some((request) => request[10] || request[11]) ? HEADS : HEADS.slice(0, -1);
  const heads = columns.map(([head, kind]) => el('th', { scope: 'col', class: kind || null }, head));
  return later(`What the gateway saw in try ${tried.n}: ${plural(tried.requests.length, 'request')}`, () =>
    el(
      'div',
      { class: 'scroll', tabindex: 0 },
      el(
        'table',
        { class: 'requests' },
        el('thead', {}, el('tr', {}, heads)),
        el(
          'tbody',
          {},
          tried.requests.map((request) => requestRow(request, columns)),
        ),
      ),
    ),
  );
}

function tryView(tried, recorded) {
  const dim = (...words) => el('span', { class: 'dim' }, ' · ', words);
  const exit = tried.exit ? wholeText(tried.exit) : '';
  return el(
    'li',
    {},
    recorded ? tryWords(tried) : `Try ${tried.n}: imported; nobody recorded how it went`,
    tried.begun ? dim(`began ${tried.begun.slice(0, 19).replace('T', ' ')} UTC`) : null,
    tried.sampling?.length ? dim(tried.sampling.join(' / ')) : null,
    exit && recorded ? dim('in its own words: ', inline(exit)) : null,
    tried.detail ? textBlock(tried.detail, { kind: 'soft' }) : null,
    tried.no_tape && recorded ? el('p', { class: 'dim' }, inline(sentence(wholeText(tried.no_tape)))) : null,
    tried.broken ? el('p', { class: 'dim' }, 'Its tape is ', inline(tried.broken)) : null,
    requestsOf(tried),
  );
}

function triesCard(run, one) {
  const empty = one.tries.every((tried) => !tried.cause && !tried.requests);
  if (!one.tries.length || (empty && !run.recorded)) return null;
  const sent = one.tries.flatMap((tried) => (tried.requests || []).map(kindOfRequest));
  const kinds = [
    ['sent', 'request'],
    ['sent again', 'sent again'],
    ['sent bad', 'failed'],
  ].filter(([kind]) => sent.includes(kind));
  return section(
    'Tries and faults',
    'tries',
    run.recorded ? el('div', { class: 'scroll', tabindex: 0 }, timeline(one.tries)) : null,
    kinds.length
      ? el(
          'p',
          { class: 'legend' },
          kinds.map(([kind, word]) => el('span', {}, el('span', { class: `dot ${kind}` }), ` ${word} `)),
        )
      : null,
    el(
      'ul',
      { class: 'plain' },
      one.tries.map((tried) => tryView(tried, run.recorded)),
    ),
  );
}
