"""A browser driven by the WebDriver protocol, with nothing but the standard library."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Escape": "\ue00c", "Enter": "\ue007", "Tab": "\ue004", "Control": "\ue009",
        "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}


def missing_programs():
    return [name for name in ("chromedriver", "chromium") if shutil.which(name) is None]


class Browser:
    def __init__(self, dark=False):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self._base = None
        try:
            self._start(dark)
        except BaseException:
            self.close()
            raise

    def _start(self, dark):
        for line in self._driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                break
        else:
            raise RuntimeError("chromedriver ended before it was ready")
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                     "--no-first-run", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync", "--window-size=1280,760",
                     "--user-data-dir=" + self._profile.name]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": shutil.which("chromium"), "args": arguments}
        self._base = "http://127.0.0.1:" + found.group(1)
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options}}})
        self._base += "/session/" + session["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        try:
            if self._base and "/session/" in self._base:
                self._call("DELETE", "")
        except OSError:
            pass
        self._driver.terminate()
        self._driver.wait(30)
        self._driver.stdout.close()
        self._profile.cleanup()

    def _call(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        # The driver is on this machine: no proxy of the environment is asked.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()[:500]}") from None

    def open(self, path):
        self.open_url("file://" + os.path.abspath(path))

    def open_url(self, url):
        self._call("POST", "/url", {"url": url})

    def back(self):
        self._call("POST", "/back")

    def forward(self):
        self._call("POST", "/forward")

    def emulate(self, media, scheme):
        """As if on "screen" or in "print", for who prefers "light" or "dark"; "": as it is."""
        features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
        self._call("POST", "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia",
            "params": {"media": media, "features": features}})

    def pages(self):
        """How many pages the printed picture takes."""
        pdf = base64.b64decode(self._call("POST", "/print", {
            "orientation": "landscape", "background": True}))
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    def run(self, script, *arguments):
        """Runs the body of a function in the page and returns its result."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def resize(self, width, height):
        self._call("POST", "/window/rect", {"width": width, "height": height})

    def click(self, element):
        self._call("POST", f"/element/{element[ELEMENT]}/click")

    def move_to(self, element):
        self._call("POST", "/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "actions": [
                {"type": "pointerMove", "origin": element, "x": 0, "y": 0, "duration": 0}]}]})

    def press(self, *keys):
        """Presses keys together, the first ones held: press("Control", "f")."""
        keys = [KEYS.get(key, key) for key in keys]
        steps = [{"type": "keyDown", "value": key} for key in keys]
        steps += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._call("POST", "/actions", {"actions": [
            {"type": "key", "id": "keyboard", "actions": steps}]})

    def type(self, text):
        for character in text:
            self.press(character)

    def save_screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", "/screenshot")))
