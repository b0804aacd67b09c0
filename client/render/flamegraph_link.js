  // Zoom and search are in the address, so that links and the back button work.
  const frameById = new Map();
  let remembered = '';

  // The id of a frame comes from the names on its path, so that it is the same in every picture.
  function nameFrames() {
    const mix = (hash, text) => {
      for (let i = 0; i < text.length; ++i) {
        hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
      }
      return Math.imul(hash ^ 10, 16777619);
    };
    const hex = (hash) => (hash >>> 0).toString(16).padStart(8, '0');
    for (const frame of frames) {
      const [a, b] = frame.parent ? frame.parent.path : [-2128831035, 1818371886];
      frame.path = [mix(a, frame.name), mix(b, frame.name)];
      frame.id = hex(frame.path[0]) + hex(frame.path[1]);
      for (let copy = 2; frameById.has(frame.id); ++copy) {
        frame.id = hex(frame.path[0]) + hex(frame.path[1]) + '-' + copy;
      }
      frameById.set(frame.id, frame);
    }
  }

  // `step`: the back button undoes this step alone.
  function remember(step) {
    if (!standalone || !root) return;
    const state = new URLSearchParams();
    if (zoomed !== root) state.set('zoom', zoomed.id);
    if (pattern) state.set('search', pattern);
    const fragment = String(state);
    if (fragment === remembered) return;
    remembered = fragment;
    const address = location.href.split('#')[0] + (fragment ? '#' + fragment : '');
    try {
      if (step) history.pushState(null, '', address); else history.replaceState(null, '', address);
    } catch (error) {  // if the browser forbids it
      if (step) location.hash = fragment; else location.replace('#' + fragment);
    }
  }

  function recall() {
    if (!standalone || !root) return;
    const fragment = location.hash.slice(1);
    const state = new URLSearchParams(fragment);
    remembered = String(state);
    zoomed = frameById.get(state.get('zoom')) || root;
    pattern = state.get('search') || '';
    if (term.value !== pattern) term.value = pattern;
    search(pattern);
    draw();
    describe(null);
  }
