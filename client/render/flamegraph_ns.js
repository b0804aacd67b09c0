  function duration(ns) {
    const units = [[86400e9, ' d', 172800e9 * 0.9995], [3600e9, ' h', 3600e9 * 0.9995],
      [60e9, ' min', 1e12 * 0.9995], [1e9, ' s', 1e9 * 0.9995], [1e6, ' ms', 1e6 * 0.9995],
      [1e3, ' us', 1e3]];
    for (const [size, unit, least] of units) {
      if (ns >= least) {
        const value = ns / size;
        return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + unit;
      }
    }
    return ns.toFixed(0) + ' ns';
  }
