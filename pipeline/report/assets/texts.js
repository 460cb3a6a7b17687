// Show a text of a model so that it does nothing: every character that moves, hides or turns others is
// drawn as what it is.

const MOVING = new RegExp(
  '\\u001b\\[[0-9;?]*[ -/]*[@-~]' +
    '|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f' +
    '\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]',
  'g',
);

// By their names: few fonts draw the symbols for them.
const NAMES = (
  'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ' +
  'ESC FS GS RS US'
).split(' ');

function nameOf(piece) {
  const code = piece.codePointAt(0);
  if (code < 0x20) return `${NAMES[code]}${piece.slice(1)}`;
  if (code === 0x7f) return 'DEL';
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

// Nodes of a text; `query` (in lower case) is marked.
function inert(text, query = '') {
  const found = document.createDocumentFragment();
  let last = 0;
  for (const match of text.replaceAll('\r\n', '\n').matchAll(MOVING)) {
    const source = match.input;
    if (match.index > last) marked(found, source.slice(last, match.index), query);
    found.append(el('span', { class: 'ctl' }, nameOf(match[0])));
    last = match.index + match[0].length;
  }
  marked(found, text.replaceAll('\r\n', '\n').slice(last), query);
  return found;
}

function marked(target, text, query) {
  if (!query) {
    target.append(text);
    return;
  }
  const lower = text.toLowerCase();
  // A few letters change their length in lower case; then places would not fit.
  if (lower.length !== text.length) {
    target.append(text);
    return;
  }
  let last = 0;
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, at + query.length)) {
    if (at > last) target.append(text.slice(last, at));
    target.append(el('mark', {}, text.slice(at, at + query.length)));
    last = at + query.length;
  }
  target.append(text.slice(last));
}

const endsOf = (text) => (typeof text === 'string' ? [text] : [text.head, text.tail]);
const wholeText = (text) => endsOf(text).join('\n');

// A block of text; of one that was cut, both ends and how much is missing.
function textBlock(text, { query = '', kind = '' } = {}) {
  const ends = endsOf(text).map((part) =>
    el('pre', { class: `text ${kind}`, dir: 'ltr', tabindex: 0 }, inert(part, query)),
  );
  if (ends.length === 1) return ends[0];
  return el('div', {}, ends[0], leftOut(text), ends[1]);
}

const leftOut = (text) =>
  el(
    'p',
    { class: 'left' },
    `… ${plural(text.left, 'character')}`,
    text.lines ? ` in ${plural(text.lines, 'line')}` : '',
    ' left out of this report …',
  );

const inline = (text) => el('bdi', { class: 'inline' }, inert(wholeText(text)));

const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : '');

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);

function firstLine(text, most = 140) {
  const lines = endsOf(text)[0].split('\n');
  return shortened(lines.map((part) => part.trim()).find(Boolean) || '', most);
}

// The beginning of a text, as one line.
function gistOf(text, most = 200) {
  const words = endsOf(text)[0].slice(0, 4 * most).trim().split(/\s+/);
  return shortened(words.join(' '), most);
}
