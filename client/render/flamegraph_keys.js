  // The keyboard and the mouse.
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
    const same = frames.filter((other) => other.depth === frame.depth && other.shown);
    return same[same.indexOf(frame) + direction];
  }

  // Directions are those of the picture.
  function moveWith(key) {
    switch (key) {
      case 'ArrowUp': return inverted ? current.parent : widestChild(current);
      case 'ArrowDown': return inverted ? widestChild(current) : current.parent;
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
    } else if (event.key.length === 1 && event.key !== ' ') {
      if (!standalone) return;  // the page keeps its own keys
      openSearch();
      return;  // the field takes the character
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
