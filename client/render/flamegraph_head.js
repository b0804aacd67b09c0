  // The head: title, lines, controls, legend, and the frame under the pointer.
  const pen = document.createElementNS('http://www.w3.org/1999/xhtml', 'canvas').getContext('2d');
  const headLine = 18;

  function textWidth(text, element) {
    const style = getComputedStyle(element);
    pen.font = style.fontWeight + ' ' + style.fontSize + ' ' + style.fontFamily;
    return pen.measureText(text).width;
  }

  // Wraps words into rows; cuts a word that is longer than a row.
  function wrap(text, element, room) {
    const lines = [];
    let line = '';
    for (const word of text.split(' ')) {
      const longer = line ? line + ' ' + word : word;
      if (line && textWidth(longer, element) > room) {
        lines.push(line);
        line = word;
      } else {
        line = longer;
      }
    }
    lines.push(line);
    return lines.map((piece) => clip(piece, element, room, 1));
  }

  // Cuts a text to the room; `kept` is the share that comes from its front.
  function clip(text, element, room, kept) {
    if (textWidth(text, element) <= room) return text;
    const points = Array.from(text);
    let least = 0;
    let most = points.length;
    const cut = (count) => {
      const front = Math.ceil(count * kept);
      return points.slice(0, front).join('') + '…' +
          points.slice(points.length - (count - front)).join('');
    };
    while (least + 1 < most) {
      const middle = (least + most) >> 1;
      if (textWidth(cut(middle), element) <= room) least = middle; else most = middle;
    }
    return cut(least);
  }

  function layOutHead() {
    const room = width - 2 * margin;
    let y = 6;
    for (const text of head.querySelectorAll('.line')) {
      const step = Number(text.dataset.step);
      text.textContent = '';
      for (const line of wrap(text.dataset.text, text, room)) {
        y += step;
        const row = document.createElementNS('http://www.w3.org/2000/svg', 'tspan');
        row.setAttribute('x', margin);
        row.setAttribute('y', y);
        row.textContent = line;
        text.appendChild(row);
      }
    }
    const items = Array.from(legend.children, (item) => [item, item.getBBox().width + 16]);
    const all = items.reduce((sum, item) => sum + item[1], 0) - 16;
    const controlsWidth = Math.min(width - 8, 612);
    const beside = controlsWidth + all + 2 * margin <= width;
    const top = y + 6;
    controls.setAttribute('y', top);
    controls.setAttribute('width', controlsWidth);
    const used = controls.firstElementChild.offsetHeight || 34;
    controls.setAttribute('height', used);
    y = top + used;
    let x = beside ? width - margin - all : margin;
    let line = beside ? top + 11 : y + 2;
    for (const [item, needed] of items) {
      if (x > margin && x + needed - 16 > width - margin) {
        x = margin;
        line += 20;
      }
      item.setAttribute('transform', 'translate(' + x.toFixed(1) + ',' + line + ')');
      x += needed;
    }
    if (!beside) y = line + 20;
    what.setAttribute('y', y + 14);
    detail.setAttribute('y', y + 14 + headLine);
    y += 14 + headLine + 12;
    byId('headpaper').setAttribute('height', y - 4);
    for (const id of ['frames', 'empty']) {
      const group = byId(id);
      if (group) group.setAttribute('transform', 'translate(0,' + y + ')');
    }
    height = y + rows * row + margin;
  }

  // Shows name and numbers of a frame; without one, of the zoomed frame, or a hint.
  function describe(frame) {
    const shown = frame || (zoomed !== root ? zoomed : null);
    what.classList.toggle('hint', !shown);
    const room = width - 2 * margin;
    if (!shown) {
      what.textContent = root ? clip(hint, what, room, 1) : '';
      detail.textContent = root ? clip(numbers(root), detail, room, 1) : '';
      return;
    }
    what.textContent = clip(shown.name, what, room, 0.5);
    detail.textContent = clip(numbers(shown), detail, room, 1);
  }

  function numbers(frame) {
    const exact = span(frame).toLocaleString('en-US') + ' @UNIT@';
    let text = frame.value + ' of all · ' + exact;
    if (zoomed !== frame && zoomed !== root && contains(zoomed, frame)) {
      text += ' · ' + percent(span(frame), span(zoomed)) + ' of ' + zoomed.name;
    }
    return frame.place ? text + ' · ' + frame.place : text;
  }

  function keepHeadInSight() {
    if (!standalone) return;
    head.setAttribute('transform', 'translate(0,' + window.scrollY + ')');
  }

  function measureCharacter() {
    if (!root) return;
    const probe = document.createElementNS('http://www.w3.org/2000/svg', 'text');
    probe.textContent = 'm'.repeat(100);
    canvas.appendChild(probe);
    const measured = probe.getComputedTextLength() / 100;
    probe.remove();
    if (measured > 0) characterWidth = measured;
  }

  function fit() {
    const scrollbar = 16;
    if (fits) width = Math.max(leastWidth, window.innerWidth);
    layOutHead();
    if (fits && height > window.innerHeight && width > leastWidth) {
      width = Math.max(leastWidth, window.innerWidth - scrollbar);
      layOutHead();
    }
    svg.setAttribute('width', width);
    svg.setAttribute('height', height);
    svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
    draw();
    describe(null);
    keepHeadInSight();
  }
