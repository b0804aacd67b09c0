"""Progress on stderr: what was done, and how much time is left."""

import sys
import time


def log(text):
    """One line on stderr; results go to stdout."""
    print(text, file=sys.stderr, flush=True)


def duration(seconds):
    """Seconds as people say them: 45 s, 12 min, 1 h 05 min."""
    seconds = max(0, round(seconds))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class Progress:
    """Steps of known expected cost; what is left is scaled by how the done ones really went."""

    def __init__(self, expected_seconds):
        self.left = self.expected = expected_seconds
        self.done = 0.0
        self.began = time.monotonic()

    def _remaining(self):
        elapsed = time.monotonic() - self.began
        # The first steps say little about the pace; trust the plan until a tenth is done.
        pace = elapsed / self.done if self.done > self.expected / 10 else 1.0
        return self.left * pace

    def step(self, text, expected_seconds):
        """A step that was planned at `expected_seconds` is done."""
        self.done += expected_seconds
        self.left = max(0.0, self.left - expected_seconds)
        log(f"[{duration(self._remaining())} left] {text}")

    def drop(self, expected_seconds):
        """Planned work that will not be done."""
        self.left = max(0.0, self.left - expected_seconds)
        self.expected = max(0.0, self.expected - expected_seconds)
