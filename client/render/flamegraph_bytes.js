  function size(bytes) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let value = bytes;
    let unit = 0;
    while (value >= 1023.5 && unit + 1 < units.length) {
      value /= 1024;
      ++unit;
    }
    const decimals = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return value.toFixed(decimals) + ' ' + units[unit];
  }
