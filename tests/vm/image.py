"""What a guest boots: a packaged kernel, and an initramfs with programs, scenarios and a Python."""

import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "profd-vm"
FOLDERS = ("bin", "dev", "proc", "sys", "tmp", "var/tmp", "results", "build")
DISK_MIB = 256
# Run by every guest; targets come on top. Debug information would only make the image larger.
PROGRAMS = ("profd", "profctl", "kernel_test", "waiter")
# Imported only once something is used, so that importing the guest's program does not name them.
LATE = ("concurrent.futures.thread", "encodings.ascii", "encodings.latin_1", "importlib._abc", "linecache",
        "runpy")


class Missing(Exception):
    """Something that this machine would need; the text says what."""


# Kernels

def newest_package(prefix):
    """The newest packaged cloud kernel of a series, "" for none. Packages that only name another
    (linux-image-6.12-...) have no third number."""
    done = subprocess.run(["apt-cache", "pkgnames", f"linux-image-{prefix}"], capture_output=True,
                          text=True, check=False)
    wanted = re.compile(rf"linux-image-({re.escape(prefix)}(?:[.+-].*)?)-cloud-amd64")
    found = [name for name in done.stdout.split()
             if wanted.fullmatch(name) and re.match(r"linux-image-\d+\.\d+\.\d+", name)]
    return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], default="")


def kernel(prefix):
    """The path of a kernel image of this series, fetched when it is not in the cache."""
    package = newest_package(prefix)
    image = CACHE / f"vmlinuz-{package.removeprefix('linux-image-')}"
    if package and image.exists():
        return image
    try:
        if not package:
            raise Missing(f"apt knows no package linux-image-{prefix}*-cloud-amd64")
        fetch(package, image)
        return image
    except Missing:
        cached = sorted(CACHE.glob(f"vmlinuz-{prefix}[.+-]*-cloud-amd64"))
        if not cached:
            raise
        return cached[-1]


def fetch(package, image):
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        done = subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package],
                              cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Missing(f"apt-get download {package} failed: {done.stderr.strip().splitlines()[-1:]}")
        archive = next(Path(folder).glob("*.deb"))
        subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
        found = next(Path(folder).glob("boot/vmlinuz-*"), None)
        if found is None:
            raise Missing(f"{package} holds no kernel image")
        found.replace(image)


# The disk

def make_disk(path):
    """A disk with an empty file system, ext4 as the kernels have it without modules."""
    with path.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    # Those who are not root may not have its folder in their PATH.
    folders = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", path], env={**os.environ, "PATH": folders}, check=True)


# The initramfs

class Archive:
    """A cpio archive in the format that the kernel unpacks (newc)."""

    def __init__(self):
        self._parts = []
        self._folders = set()
        self._names = set()

    def _entry(self, name, mode, data):
        raw = name.encode() + b"\0"
        numbers = (len(self._parts) + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08X" % number for number in numbers) + raw
        self._parts.append(header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4))

    def folder(self, path):
        name = str(path).strip("/")
        if name and name not in self._folders:
            self.folder(Path(name).parent if "/" in name else "")
            self._folders.add(name)
            self._entry(name, 0o40755, b"")

    def file(self, path, data, mode=0o755):
        name = str(path).strip("/")
        if name not in self._names:
            self._names.add(name)
            self.folder(Path("/" + name).parent)
            self._entry(name, 0o100000 | mode, data)

    def data(self):
        self._entry("TRAILER!!!", 0, b"")
        return b"".join(self._parts)


def libraries(paths):
    """Shared libraries of programs, with those that they need themselves."""
    done = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"(/\S+) \(0x", done.stdout)))


def modules():
    """Files of the standard library that the guest's program imports."""
    listing = ("import sys, importlib\n"
               f"sys.path.insert(0, {str(ROOT)!r})\n"
               f"for name in ('tests.vm.guest', *{LATE!r}): importlib.import_module(name)\n"
               "for module in list(sys.modules.values()):\n"
               "    if getattr(module, '__file__', None): print(module.__file__)\n")
    # Without site, as in the guest.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", listing], capture_output=True, text=True,
                          check=True)
    return [Path(line) for line in done.stdout.split("\n") if line and not line.startswith(str(ROOT))]


def add_python(archive):
    """The interpreter that runs this, and what it needs, compiled: a guest is slow at that."""
    interpreter = Path(os.path.realpath(sys.executable))
    archive.file(interpreter, interpreter.read_bytes())
    binaries = [interpreter]
    for path in modules():
        if path.suffix == ".py":
            archive.file(path.with_suffix(".pyc"), compiled(path))
        else:
            binaries.append(path)
            archive.file(path, path.read_bytes())
    # By this file the interpreter knows its library.
    landmark = Path(sysconfig.get_path("stdlib")) / "os.py"
    archive.file(landmark.with_suffix(".pyc"), compiled(landmark))
    for path in sorted([*ROOT.glob("tests/*.py"), *ROOT.glob("tests/harness/*.py"),
                        *ROOT.glob("tests/vm/*.py"), *ROOT.glob("tests/scenarios/*")]):
        if path.is_dir():
            continue
        name = Path("/src") / path.relative_to(ROOT)
        archive.file(name, path.read_bytes())
        if path.suffix == ".py":
            tag = sys.implementation.cache_tag
            archive.file(name.parent / "__pycache__" / f"{name.stem}.{tag}.pyc", compiled(path))
    return interpreter, binaries


def compiled(path):
    with tempfile.NamedTemporaryFile(suffix=".pyc") as file:
        py_compile.compile(str(path), cfile=file.name, doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        return Path(file.name).read_bytes()


def stripped(path):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "--strip-debug", "-o", file.name, path], check=True)
        return Path(file.name).read_bytes()


def initramfs(build, scenarios):
    """An archive with what these scenarios need of a build tree."""
    busybox = shutil.which("busybox")
    archive = Archive()
    for folder in FOLDERS:
        archive.folder(folder)
    archive.file("/bin/busybox", Path(busybox).read_bytes())
    archive.file("/init", (ROOT / "tests/vm/guest-init").read_bytes())
    interpreter, binaries = add_python(archive)
    archive.file("/bin/python3", f"#!/bin/sh\nexec {interpreter} -S \"$@\"\n".encode())
    for name in PROGRAMS:
        if not (build / name).exists():
            raise FileNotFoundError(f"{build}/{name}")
        archive.file(f"/build/{name}", stripped(build / name))
        binaries.append(build / name)
    for name in programs(scenarios):
        path = build / name if (build / name).exists() else shutil.which(name)
        # What busybox has, such as a shell, is there.
        if path and Path(path).parent == build:
            archive.file(f"/build/{name}", Path(path).read_bytes())
            binaries.append(path)
    for path in build.glob("*.so"):
        archive.file(f"/build/{path.name}", path.read_bytes())
        binaries.append(path)
    capsh = shutil.which("capsh")
    if capsh:
        archive.file("/bin/capsh", Path(capsh).read_bytes())
        binaries.append(capsh)
    for library in libraries([busybox, *binaries]):
        archive.file(library, Path(library).read_bytes())
    return archive


def programs(scenarios):
    """Names of programs that scenarios start, also as {build}/NAME among the arguments."""
    names = set()
    for scenario in scenarios:
        for target in scenario.target:
            names.add(target.run[0])
            names |= set(re.findall(r"\{build\}/([\w.-]+)", " ".join(target.run)))
    return sorted(names)
