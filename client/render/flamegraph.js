(function () {
  'use strict';
  const svg = document.currentScript.ownerSVGElement;
  const byId = (id) => svg.querySelector('#' + id);
  const standalone = svg === document.documentElement;
  const margin = Number(svg.dataset.margin);
  const row = Number(svg.dataset.row);
  const rows = Number(svg.dataset.rows);
  const font = Number(svg.dataset.font);
  const narrowest = Number(svg.dataset.narrowest);
  const inverted = svg.dataset.inverted === '1';
  const fits = standalone && svg.dataset.fit === '1';
  const textMargin = 3;
  const leastWidth = 320;
  const hint = 'Click or Enter: zoom. Type: search. Tab, arrows: move. Esc: back.';
  const controls = byId('controls');
  const term = byId('term');
  const matched = byId('matched');
  const resetButton = byId('reset');
  const clearButton = byId('clear');
  const what = byId('what');
  const detail = byId('detail');
  const head = byId('head');
  const legend = byId('legend');
  const canvas = byId('frames');

  // In the order of the file: parents before children, siblings from left to right.
  const frames = Array.from(canvas.children, (group) => {
    const lines = group.querySelector('title').textContent.split('\n');
    return {
      group,
      rect: group.querySelector('rect'),
      text: group.querySelector('text'),
      name: lines[0],
      value: lines[1],
      place: lines.slice(2).join(' '),
      start: Number(group.dataset.s),
      end: Number(group.dataset.e),
      depth: Number(group.dataset.d),
      parent: null,
      width: 0,
      shown: true,
    };
  });
  const frameOf = new Map(frames.map((frame) => [frame.group, frame]));
  const ancestors = [];
  for (const frame of frames) {
    ancestors.length = frame.depth;
    frame.parent = ancestors[frame.depth - 1] || null;
    ancestors.push(frame);
  }

  const root = frames[0] || null;
  let zoomed = root;
  let current = root;  // the only frame that Tab reaches
  let pattern = '';    // the search text
  let query = null;    // the same, as a function of a name
  let width = Number(svg.getAttribute('width'));
  let height = Number(svg.getAttribute('height'));
  let characterWidth = font * 0.608;

  const span = (frame) => frame.end - frame.start;
  const contains = (outer, inner) =>
    outer.depth <= inner.depth && outer.start <= inner.start && inner.end <= outer.end;

  function percent(part, whole) {
    const share = whole > 0 ? 100 * part / whole : 0;
    return share > 0 && share < 0.05 ? '<0.1%' : share.toFixed(1) + '%';
  }

@FORMAT_FUNCTION@
  function label(frame) {
    const columns = Math.floor((frame.width - 2 * textMargin) / characterWidth);
    if (columns < 3) return '';
    const points = Array.from(frame.name);
    if (points.length <= columns) return frame.name;
    return points.slice(0, columns - 2).join('') + '..';
  }

  function drawText(frame, x) {
    const content = label(frame);
    if (!frame.text) {
      if (!content) return;
      frame.text = document.createElementNS('http://www.w3.org/2000/svg', 'text');
      const middle = Number(frame.rect.getAttribute('y')) + (row - 1) / 2;
      frame.text.setAttribute('y', (middle + font * 0.35).toFixed(1));
      frame.group.appendChild(frame.text);
    }
    frame.text.textContent = content;
    frame.text.setAttribute('x', (x + textMargin).toFixed(2));
  }

  function draw() {
    if (!root) return;
    const inner = width - 2 * margin;
    const scale = inner / span(zoomed);
    for (const frame of frames) {
      const outer = frame !== zoomed && contains(frame, zoomed);
      const whole = outer || frame === zoomed;
      const x = whole ? margin : margin + (frame.start - zoomed.start) * scale;
      frame.width = whole ? inner : span(frame) * scale;
      frame.shown = whole || (contains(zoomed, frame) && frame.width >= Math.min(narrowest, 0.1));
      frame.group.style.display = frame.shown ? '' : 'none';
      if (!frame.shown) continue;
      frame.group.classList.toggle('outer', outer);
      frame.rect.setAttribute('x', x.toFixed(2));
      frame.rect.setAttribute('width', frame.width.toFixed(2));
      drawText(frame, x);
    }
    resetButton.disabled = zoomed === root;
    if (!current.shown) setCurrent(zoomed);
    showMatches();
  }

  // Counts each part of the zoomed frame once, even if several frames of a stack match.
  function showMatches() {
    let time = 0;
    let counted = -1;
    let count = 0;
    for (const frame of frames) {
      const hit = query !== null && query(frame.name);
      frame.group.classList.toggle('match', hit);
      if (!hit || !contains(zoomed, frame)) continue;
      ++count;
      if (frame.start >= counted) {
        time += span(frame);
        counted = frame.end;
      }
    }
    canvas.classList.toggle('searched', query !== null && count > 0);
    clearButton.disabled = query === null;
    matched.textContent = query === null ? '' :
        count === 0 ? 'no match' :
        'matched ' + percent(time, span(zoomed)) + ' (' + @FORMAT@(time) + ')';
  }

  function search(wanted) {
    pattern = wanted;
    query = null;
    if (pattern) {
      try {
        const regex = new RegExp(pattern, 'i');
        query = (name) => regex.test(name);
      } catch (error) {
        const literal = pattern.toLowerCase();
        query = (name) => name.toLowerCase().includes(literal);
      }
    }
    if (root) showMatches();
  }

  function clearSearch() {
    term.value = '';
    search('');
    remember(true);
  }

  function zoom(frame) {
    zoomed = frame;
    draw();
    describe(null);
    remember(true);
  }

  function setCurrent(frame) {
    if (current) current.group.setAttribute('tabindex', '-1');
    current = frame;
    current.group.setAttribute('tabindex', '0');
  }

@HEAD@
@LINK@
@KEYS@
  controls.style.display = 'inline';
  measureCharacter();
  for (const frame of frames) frame.group.setAttribute('tabindex', '-1');
  if (root) setCurrent(root);

  canvas.addEventListener('click', (event) => {
    const frame = frameAt(event);
    if (!frame) return;
    setCurrent(frame);
    zoom(frame);
    describe(frame);
  });
  canvas.addEventListener('mouseover', (event) => describe(frameAt(event)));
  canvas.addEventListener('mouseout', () => describe(null));
  canvas.addEventListener('focusin', (event) => describe(frameAt(event)));
  term.addEventListener('input', () => {
    const began = pattern === '';
    search(term.value);
    remember(began);
  });
  byId('find').addEventListener('click', openSearch);
  clearButton.addEventListener('click', clearSearch);
  resetButton.addEventListener('click', () => root && zoom(root));
  document.addEventListener('keydown', onKey);
  window.addEventListener('scroll', keepHeadInSight);
  window.addEventListener('resize', fit);
  fit();
  describe(null);
  nameFrames();
  recall();
  window.addEventListener('popstate', recall);
  window.addEventListener('hashchange', recall);
  // Unless inverted, the root is at the bottom, where reading begins.
  if (standalone && !inverted) window.scrollTo(0, height);
})();
