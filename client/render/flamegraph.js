(function () {
  'use strict';
  const svg = document.currentScript.ownerSVGElement;
  const byId = (id) => svg.querySelector('#' + id);
  const margin = Number(svg.dataset.margin);
  const textMargin = 3;
  const narrowest = 0.1;
  const leastWidth = 1080;
  const hint = 
      'Click or Enter zooms, / searches, Tab and arrows move, Esc goes back. ± is one standard error.';
  const controls = byId('controls');
  const term = byId('term');
  const matched = byId('matched');
  const resetButton = byId('reset');
  const clearButton = byId('clear');
  const detail = byId('detail');
  const head = byId('head');
  const legend = byId('legend');
  const height = Number(svg.getAttribute('height'));

  // In the order of the file: parents before children, siblings from left to right.
  const frames = Array.from(byId('frames').children, (group) => {
    const lines = group.querySelector('title').textContent.split('\n');
    return {
      group,
      rect: group.querySelector('rect'),
      text: group.querySelector('text'),
      name: lines[0],
      detail: lines.join(' · '),
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
  let current = root;  // the one frame that Tab reaches
  let query = null;
  let width = Number(svg.getAttribute('width'));
  let characterWidth = 7.3;

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
      frame.text.setAttribute('y', Number(frame.rect.getAttribute('y')) + 13);
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
      frame.shown = whole || (contains(zoomed, frame) && frame.width >= narrowest);
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

  // Counts time below the zoomed frame once, however many frames of a stack match.
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
    clearButton.disabled = query === null;
    matched.textContent = query === null ? '' :
        count === 0 ? 'no match' :
        'matched ' + percent(time, span(zoomed)) + ' (' + @FORMAT@(time) + ')';
  }

  function search(pattern) {
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
  }

  function zoom(frame) {
    zoomed = frame;
    draw();
    describe(zoomed === root ? null : current);
  }

  function describe(frame) {
    if (!frame) {
      detail.textContent = root ? hint : '';
      return;
    }
    let text = frame.detail;
    if (zoomed !== frame && zoomed !== root && contains(zoomed, frame)) {
      text += ' · ' + percent(span(frame), span(zoomed)) + ' of ' + zoomed.name;
    }
    const columns = Math.floor((width - 2 * margin) / 6.6);
    detail.textContent = text.length <= columns ? text : text.slice(0, columns - 2) + '..';
  }

  function setCurrent(frame) {
    if (current) current.group.setAttribute('tabindex', '-1');
    current = frame;
    current.group.setAttribute('tabindex', '0');
  }

  function focus(frame) {
    if (!frame) return;
    setCurrent(frame);
    frame.group.focus();
    describe(frame);
  }

  function widestChild(frame) {
    let widest = null;
    for (const other of frames) {
      if (other.parent !== frame || !other.shown) continue;
      if (!widest || span(other) > span(widest)) widest = other;
    }
    return widest;
  }

  function neighbour(frame, direction) {
    const row = frames.filter((other) => other.depth === frame.depth && other.shown);
    return row[row.indexOf(frame) + direction];
  }

  function moveWith(key) {
    switch (key) {
      case 'ArrowUp': return widestChild(current);
      case 'ArrowDown': return current.parent;
      case 'ArrowLeft': return neighbour(current, -1);
      case 'ArrowRight': return neighbour(current, 1);
      case 'Home': return zoomed;
      default: return undefined;
    }
  }

  function openSearch() {
    term.focus();
    term.select();
  }

  function escape() {
    if (query !== null || document.activeElement === term) {
      clearSearch();
      term.blur();
    } else if (root) {
      zoom(root);
    }
  }

  function onKey(event) {
    const typing = document.activeElement === term;
    if ((event.ctrlKey || event.metaKey) && event.key === 'f') {
      openSearch();
    } else if (event.key === 'Escape') {
      escape();
    } else if (event.ctrlKey || event.metaKey || event.altKey || typing) {
      return;
    } else if (event.key === '/') {
      openSearch();
    } else if (root && frameOf.has(document.activeElement)) {
      if (event.key === 'Enter' || event.key === ' ') {
        zoom(current);
        focus(current);
      } else {
        const next = moveWith(event.key);
        if (next === undefined && !event.key.startsWith('Arrow')) return;
        focus(next);
      }
    } else {
      return;
    }
    event.preventDefault();
  }

  function frameAt(event) {
    const group = event.target.closest ? event.target.closest('#frames > g') : null;
    return group ? frameOf.get(group) : null;
  }

  function keepHeadInSight() {
    if (svg !== document.documentElement) return;
    head.setAttribute('transform', 'translate(0,' + window.scrollY + ')');
  }

  function measureCharacter() {
    if (!root) return;
    const probe = document.createElementNS('http://www.w3.org/2000/svg', 'text');
    probe.textContent = 'm'.repeat(100);
    byId('frames').appendChild(probe);
    const measured = probe.getComputedTextLength() / 100;
    probe.remove();
    if (measured > 0) characterWidth = measured;
  }

  function fit() {
    if (svg === document.documentElement) {
      width = Math.max(leastWidth, window.innerWidth - (height > window.innerHeight ? 16 : 0));
      svg.setAttribute('width', width);
      svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
    }
    const box = legend.getBBox();
    const top = Number(controls.getAttribute('y')) + 11;
    legend.setAttribute('transform', 'translate(' + (width - margin - box.width) + ',' + top + ')');
    draw();
  }

  controls.style.display = 'inline';
  measureCharacter();
  for (const frame of frames) frame.group.setAttribute('tabindex', '-1');
  if (root) setCurrent(root);

  byId('frames').addEventListener('click', (event) => {
    const frame = frameAt(event);
    if (!frame) return;
    setCurrent(frame);
    zoom(frame);
  });
  byId('frames').addEventListener('mouseover', (event) => describe(frameAt(event)));
  byId('frames').addEventListener('mouseout', () => describe(null));
  byId('frames').addEventListener('focusin', (event) => {
    const frame = frameAt(event);
    if (frame) describe(frame);
  });
  term.addEventListener('input', () => search(term.value));
  byId('find').addEventListener('click', openSearch);
  clearButton.addEventListener('click', clearSearch);
  resetButton.addEventListener('click', () => root && zoom(root));
  document.addEventListener('keydown', onKey);
  window.addEventListener('scroll', keepHeadInSight);
  window.addEventListener('resize', fit);
  fit();
  describe(null);
  // The root is at the bottom, which is where reading begins.
  if (svg === document.documentElement) window.scrollTo(0, height);
})();
