  function duration(ns) {
    const units = [[1e9, ' s'], [1e6, ' ms'], [1e3, ' us']];
    for (const [size, unit] of units) {
      if (ns >= size * 0.9995 || unit === ' us' && ns >= 1e3) {
        const value = ns / size;
        return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + unit;
      }
    }
    return ns.toFixed(0) + ' ns';
  }
