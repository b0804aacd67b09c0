  function number(count) {
    const [whole, part] = count.toFixed(count < 99.95 ? 1 : 0).split('.');
    const digits = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return part > 0 ? digits + '.' + part : digits;
  }
