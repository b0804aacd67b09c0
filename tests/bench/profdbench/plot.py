"""Plots as SVG, without a library: lines over linear or logarithmic axes, and ratios with whiskers.

An SVG stands alone: a white background, so that it can be read on a dark page too, the fonts of the
system, no scripts and nothing from elsewhere. The same input gives the same bytes.
"""

import dataclasses
import math

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
# Okabe and Ito's colours, told apart by people with any colour vision; the yellow is left out.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
INK, SOFT, GRID, LIMIT = "#222222", "#666666", "#e4e4e4", "#b00020"
CHAR = 0.56  # mean width of a character, in font sizes; a little above what sans fonts have


@dataclasses.dataclass
class Series:
    """Points in order of x; `errors` are (low, high) of each, in units of y. A line joins the
    points unless what lies between two of them means nothing."""
    name: str
    points: list
    errors: list = None
    joined: bool = True


@dataclasses.dataclass
class Panel:
    """One plot. `limit` is (y, text): a line that the series must stay under."""
    title: str
    x_label: str
    y_label: str
    series: list
    x_log: bool = False
    y_log: bool = False
    limit: tuple = None


@dataclasses.dataclass
class Ratio:
    """A row of a ratio chart. `aim` is the least the ratio should be."""
    group: str
    name: str
    median: float
    low: float
    high: float
    aim: float = None


def linear_ticks(low, high, count=5):
    """Round values (1, 2, 2.5 or 5 times a power of ten apart) that enclose low and high."""
    if not high > low:
        low, high = (low - 1, low + 1) if low else (0, 1)
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low, high):
    """Powers of ten that enclose low and high; 1, 2, 5 times them over up to two decades.

    A value is enclosed too when it is out by a hundredth, so that 999 does not cost a decade.
    """
    if low <= 0 or high < low:
        raise ValueError("a logarithmic axis needs 0 < low <= high")
    first, last = math.floor(math.log10(low * 1.01)), math.ceil(math.log10(high / 1.01))
    if last - first >= 3:
        return [float(f"1e{e}") for e in range(first, last + 1)]
    fine = [float(f"{m}e{e}") for e in range(first, last + 1) for m in (1, 2, 5)]
    begin = max(i for i, value in enumerate(fine) if value <= low * 1.01)
    end = min((i for i, value in enumerate(fine) if value >= high / 1.01),
              default=len(fine) - 1)
    if begin == end:
        end = min(end + 1, len(fine) - 1)
        begin = max(0, end - 2)
    return fine[begin:end + 1]


def tick_text(value):
    """At most four characters or so: 0.25, 40, 2.5 k, 1 M."""
    if value == 0:
        return "0"
    for scale, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= scale:
            return f"{value / scale:.4g}{suffix}"
    return f"{value:.4g}"


def _number(value):
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _escape(text):
    return (str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            .replace('"', "&quot;"))


def _width(text, size):
    return len(text) * size * CHAR


class _Canvas:
    """Collects elements; coordinates are pixels, rounded to a tenth."""

    def __init__(self, width, height, title):
        self.size = width, height
        self.title = title
        self.parts = []

    def line(self, x1, y1, x2, y2, colour, width=1.0, dash=None):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}" '
            f'stroke="{colour}" stroke-width="{_number(width)}"{dashed}/>')

    def polyline(self, points, colour):
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" '
                          'stroke-width="2" stroke-linejoin="round"/>')

    def dot(self, x, y, colour, radius=3.5):
        self.parts.append(f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}" '
                          f'fill="{colour}" stroke="#ffffff" stroke-width="1"/>')

    def text(self, x, y, text, size=11, anchor="start", colour=INK, bold=False, turn=False,
             halo=False):
        weight = ' font-weight="600"' if bold else ""
        if halo:  # legible where a line runs through
            weight += ' stroke="#ffffff" stroke-width="3" paint-order="stroke"'
        turned = f' transform="rotate(-90 {_number(x)} {_number(y)})"' if turn else ""
        self.parts.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}"{weight}{turned}>{_escape(text)}</text>')

    def render(self):
        width, height = (math.ceil(side) for side in self.size)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="{_escape(FONT)}" role="img">',
            f"<title>{_escape(self.title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *self.parts, "</svg>", ""])


class _Axis:
    """From values to pixels, over the range of its ticks unless told otherwise."""

    def __init__(self, ticks, log, begin, end, span=None):
        self.log, self.begin, self.end = log, begin, end
        low, high = span or (ticks[0], ticks[-1])
        self.ticks = [tick for tick in ticks if low <= tick <= high]
        self.low, self.high = self._scale(low), self._scale(high)

    def _scale(self, value):
        return math.log10(value) if self.log else value

    def __call__(self, value):
        share = (self._scale(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def _ticks(values, log, count, from_zero):
    if log:
        positive = [value for value in values if value > 0] or [1, 10]
        return log_ticks(min(positive), max(positive))
    return linear_ticks(min([0, *values] if from_zero else values), max(values), count)


PANEL_WIDTH, PLOT_HEIGHT = 330, 190
LEFT, RIGHT, LEGEND_ROW = 58, 16, 16


def _legend_rows(panel):
    rows, used = [[]], 0.0
    for index, series in enumerate(panel.series):
        need = 22 + _width(series.name, 11) + 12
        if rows[-1] and used + need > PANEL_WIDTH - LEFT - RIGHT:
            rows.append([])
            used = 0.0
        rows[-1].append((index, series.name, used))
        used += need
    return rows


def _draw_panel(canvas, panel, left, legend_height):
    rows = _legend_rows(panel)
    x0, x1 = left + LEFT, left + PANEL_WIDTH - RIGHT
    canvas.text(x0, 22, panel.title, 13, bold=True)
    for row_index, row in enumerate(rows):
        y = 42 + row_index * LEGEND_ROW
        for index, name, offset in row:
            if panel.series[index].joined:
                canvas.line(x0 + offset, y - 4, x0 + offset + 16, y - 4, COLOURS[index], 2)
            canvas.dot(x0 + offset + 8, y - 4, COLOURS[index], 3)
            canvas.text(x0 + offset + 21, y, name, 11, colour=SOFT)
    top = 42 + legend_height + 2
    bottom = top + PLOT_HEIGHT

    xs = [x for series in panel.series for x, _ in series.points]
    ys = [y for series in panel.series for _, y in series.points]
    for series in panel.series:
        ys += [value for pair in series.errors or [] for value in pair]
    if panel.limit:
        ys.append(panel.limit[0])
    x_axis = _Axis(_ticks(xs, panel.x_log, 4, False), panel.x_log, x0, x1)
    y_axis = _Axis(_ticks(ys, panel.y_log, 4, True), panel.y_log, bottom, top)

    for value in y_axis.ticks:
        canvas.line(x0, y_axis(value), x1, y_axis(value), GRID)
        canvas.text(x0 - 6, y_axis(value) + 4, tick_text(value), 11, "end", SOFT)
    for value in x_axis.ticks:
        canvas.line(x_axis(value), bottom, x_axis(value), bottom + 4, SOFT)
        canvas.text(x_axis(value), bottom + 17, tick_text(value), 11, "middle", SOFT)
    canvas.line(x0, bottom, x1, bottom, SOFT)
    canvas.text((x0 + x1) / 2, bottom + 36, panel.x_label, 11, "middle")
    canvas.text(left + 14, (top + bottom) / 2, panel.y_label, 11, "middle", turn=True)
    if panel.limit:
        canvas.line(x0, y_axis(panel.limit[0]), x1, y_axis(panel.limit[0]), LIMIT, 1.5, "5 3")

    for index, series in enumerate(panel.series):
        # A logarithmic axis has no place for zero: it is drawn on the axis' foot.
        def place(value):
            return y_axis(max(value, y_axis.ticks[0]))
        points = [(x_axis(x), place(y)) for x, y in series.points]
        if len(points) > 1 and series.joined:
            canvas.polyline(points, COLOURS[index])
        for (x, _), (low, high) in zip(points, series.errors or []):
            canvas.line(x, place(low), x, place(high), COLOURS[index], 1.2)
            for end in (low, high):
                canvas.line(x - 3, place(end), x + 3, place(end), COLOURS[index], 1.2)
        for x, y in points:
            canvas.dot(x, y, COLOURS[index])
    if panel.limit:
        canvas.text(x0 + 4, y_axis(panel.limit[0]) - 5, panel.limit[1], 10.5, colour=LIMIT,
                    halo=True)


def lines(title, panels):
    """Panels side by side, as the text of an SVG. Each needs a series with a point."""
    legend = max(len(_legend_rows(panel)) for panel in panels) * LEGEND_ROW
    canvas = _Canvas(PANEL_WIDTH * len(panels), 42 + legend + 2 + PLOT_HEIGHT + 48, title)
    for number, panel in enumerate(panels):
        _draw_panel(canvas, panel, number * PANEL_WIDTH, legend)
    return canvas.render()


def ratios(title, rows, x_label):
    """A dot for each ratio, a whisker for its interval, rows grouped as they come."""
    name_width = max(_width(row.name, 12) for row in rows) + 34
    plot_width, value_width, row_height, group_height = 520, 150, 22, 30
    x0, x1 = name_width, name_width + plot_width
    tools = list(dict.fromkeys(row.name for row in rows))
    groups = list(dict.fromkeys(row.group for row in rows))
    top = 52
    bottom = top + len(rows) * row_height + len(groups) * group_height + 6
    canvas = _Canvas(x1 + value_width, bottom + 46, title)
    canvas.text(14, 24, title, 14, bold=True)

    values = [value for row in rows for value in (row.low, row.high, row.median, row.aim or 1.0)]
    low, high = min(0.95, *values), max(1.0, *values)
    margin = (high - low) / 40
    axis = _Axis(linear_ticks(low, high, 8), False, x0, x1, (low - margin, high + margin))
    for value in axis.ticks:
        canvas.line(axis(value), top - 6, axis(value), bottom, GRID)
        canvas.text(axis(value), bottom + 16, tick_text(value), 11, "middle", SOFT)
    canvas.line(axis(1.0), top - 6, axis(1.0), bottom, SOFT, 1.2)
    canvas.text((x0 + x1) / 2, bottom + 36, x_label, 11, "middle")
    canvas.text(x1 + 12, top - 12, "ratio [95 % interval]", 10.5, colour=SOFT)

    y = top
    for group in groups:
        canvas.text(14, y + 19, group, 12, bold=True)
        y += group_height
        for row in (row for row in rows if row.group == group):
            middle = y + row_height / 2 - 2
            colour = COLOURS[tools.index(row.name) % len(COLOURS)]
            canvas.text(26, middle + 4, row.name, 12)
            if row.aim is not None:
                canvas.line(axis(row.aim), middle - 9, axis(row.aim), middle + 9, LIMIT, 2)
            canvas.line(axis(row.low), middle, axis(row.high), middle, colour, 2)
            for end in (row.low, row.high):
                canvas.line(axis(end), middle - 6, axis(end), middle + 6, colour, 1.5)
            canvas.dot(axis(row.median), middle, colour, 4)
            canvas.text(x1 + 12, middle + 4,
                        f"{row.median:.3f} [{row.low:.3f}, {row.high:.3f}]", 11, colour=INK)
            y += row_height
    if any(row.aim is not None for row in rows):
        canvas.line(x1 - 142, 20, x1 - 142, 34, LIMIT, 2)
        canvas.text(x1 - 134, 31, "aim: at or right of it", 10.5, colour=SOFT)
    return canvas.render()
