// A patch, by file, with line numbers.

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)/;
const LONG_LINE = 2000; // characters
const MOST_OPEN = 600; // lines; a longer file is folded

// Says nothing but the name of the file, which stands above.
const repeats = (line, name) =>
  line === `--- a/${name}` || line === `+++ b/${name}` || /^index [0-9a-f]+\.\.[0-9a-f]+( 100644)?$/.test(line);

// A line of a hunk is never taken for a header, unless the hunk's own counts are wrong.
function filesOf(text) {
  const files = [];
  let file = null;
  let [before, after, old, fresh] = [0, 0, 0, 0];
  const begin = (name) => {
    file = { name, lines: [], added: 0, removed: 0 };
    files.push(file);
  };
  for (const line of text.split('\n')) {
    const kind = line[0] || ' ';
    if ((before > 0 || after > 0) && ' +-\\'.includes(kind)) {
      if (kind === '+') {
        file.lines.push(['add', '', fresh++, line]);
        file.added += 1;
        after -= 1;
      } else if (kind === '-') {
        file.lines.push(['del', old++, '', line]);
        file.removed += 1;
        before -= 1;
      } else if (kind === '\\') file.lines.push(['meta', '', '', line]);
      else {
        file.lines.push(['', old++, fresh++, line]);
        before -= 1;
        after -= 1;
      }
      continue;
    }
    [before, after] = [0, 0];
    const hunk = HUNK.exec(line);
    if (line.startsWith('diff --git ')) begin(line.slice(11).split(' b/').pop().replace(/^a\//, ''));
    else if (hunk) {
      if (!file) begin('');
      [old, fresh] = [Number(hunk[1]), Number(hunk[3])];
      [before, after] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file.lines.push(['hunk', '', '', line]);
    } else if (line.startsWith('+++ ') && !file) begin(line.slice(4).replace(/^b\//, ''));
    else if (line || file) {
      if (!file) begin('');
      if (line && !repeats(line, file.name)) file.lines.push(['meta', '', '', line]);
    }
  }
  return files;
}

function diffView(text) {
  if (!wholeText(text).trim()) return el('p', { class: 'dim' }, 'No patch.');
  const parts = endsOf(text);
  const views = parts.map((part) => el('div', {}, filesOf(part).map(fileView)));
  return el('div', { class: 'diff' }, views[0], parts.length > 1 ? [leftOut(text), views[1]] : null);
}

// A line; of one that nobody could read, its beginning, and the rest on request.
function lineOf(line) {
  if (line.length <= LONG_LINE) return el('code', { dir: 'ltr' }, inert(line));
  const more = el(
    'button',
    {
      type: 'button',
      onclick: () => more.replaceWith(el('code', { dir: 'ltr' }, inert(line.slice(LONG_LINE)))),
    },
    `${plural(line.length - LONG_LINE, 'more character')}`,
  );
  return el('div', {}, el('code', { dir: 'ltr' }, inert(line.slice(0, LONG_LINE))), ' ', more);
}

function fileView(file) {
  const body = el('tbody');
  const fill = () => {
    if (body.firstChild) return;
    for (const [kind, old, fresh, line] of file.lines)
      body.append(
        el(
          'tr',
          { class: kind || null },
          el('td', { class: 'n' }, old),
          el('td', { class: 'n' }, fresh),
          el('td', {}, lineOf(line)),
        ),
      );
  };
  const view = el(
    'details',
    {
      open: file.lines.length <= MOST_OPEN,
      ontoggle: () => {
        if (view.open) fill();
      },
    },
    el(
      'summary',
      {},
      el('bdi', { class: 'path' }, inert(file.name || 'no file is named')),
      el('span', { class: 'plus' }, ` +${file.added}`),
      el('span', { class: 'minus' }, ` −${file.removed}`),
    ),
    el('div', { class: 'scroll', tabindex: 0 }, el('table', {}, body)),
  );
  if (view.open) fill();
  return view;
}
