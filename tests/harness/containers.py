"""Target, profd and profctl in three containers, by podman and runc.

profd's image is the one of deploy/Dockerfile, with the binaries of a build tree in place of those
that its first stage would compile. The targets' image is a plain Debian, into which the build tree is
mounted: profd's container has none of the targets' files. All containers of one object share the PID
namespace of a pause container, so PIDs that targets print are those that profd sees.

Images live in a storage of our own in ${XDG_CACHE_HOME:-~/.cache}/profd-tests: `podman` without
options shows nothing of them.
"""

import contextlib
import fcntl
import importlib.util
import itertools
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .process import Process

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMMANDS = ("podman", "runc", "conmon", "debootstrap", "apt-get", "strip")
RELEASE = "bookworm"
BASE = "localhost/profd-test-base"
IMAGE = "localhost/profd-test"
LABEL = "profd-test-owner"
PREFIX = "profd-test-"
SOCKETS = "/run/profd"
RUNROOT = "/run/profd-test-containers"
# PID 1 of the namespace: it collects orphans, and ends at SIGTERM.
PAUSE = "sleep infinity & trap 'kill $!' TERM; wait"
BUILD_SECONDS = 900
REMOVE_SECONDS = 60


class ContainerError(Exception):
    """An image or a container could not be made, or not be removed."""


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "profd-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def profile():
    """deploy/seccomp.py as a module: the capabilities and calls that profd needs."""
    spec = importlib.util.spec_from_file_location("profd_seccomp", DEPLOY / "seccomp.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def podman(*words) -> list[str]:
    return ["podman", "--root", str(cache() / "containers"), "--runroot", RUNROOT, "--runtime", "runc",
            *map(str, words)]


def limits() -> list[str]:
    # Podman asks for more than a process without CAP_SYS_RESOURCE may have. The number of processes is
    # not counted for root.
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", "nproc=1024:1024"]


def call(words, timeout=BUILD_SECONDS) -> str:
    """Runs a command; its stdout. Raises ContainerError with the end of what it said when it fails."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise ContainerError(f"{' '.join(words)} took longer than {timeout} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-8:]
        raise ContainerError(f"{' '.join(words)} failed: " + "\n".join(said))
    return done.stdout.strip()


@contextlib.contextmanager
def locked():
    """One at a time makes images, or clears up what a killed run left."""
    with open(cache() / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def mirror() -> str:
    """The address that apt here has for Debian 12."""
    told = call(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)",
                 "Created-By: Packages"])
    for line in told.splitlines():
        site, release, component = line.split()
        if (release, component) == (RELEASE, "main"):
            return site
    raise ContainerError(f"apt has no source for Debian {RELEASE}")


def make_base():
    """The base image, from a tarball in the cache that is made when it is missing."""
    tarball = cache() / f"debian-{RELEASE}.tar"
    if not tarball.exists():
        tree = Path(tempfile.mkdtemp(prefix="debootstrap.", dir=cache()))
        try:
            call(["debootstrap", "--variant=minbase", RELEASE, str(tree), mirror()])
            for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
                shutil.rmtree(tree / folder)
            part = tarball.with_suffix(".part")
            # The engine makes its own /dev.
            call(["tar", "--directory", str(tree), "--numeric-owner", "--exclude=./dev/*", "--create",
                  "--file", str(part), "."])
            part.rename(tarball)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
    if subprocess.run(podman("image", "exists", BASE), check=False).returncode != 0:
        call(podman("import", tarball, BASE))


def owner() -> str:
    """Ourselves, told apart from later processes with our PID by the time that we began."""
    return f"{PREFIX}{os.getpid()}-{start_time(os.getpid())}"


def is_alive(name) -> bool:
    """Whether the process that owner() named, in the first words of `name`, still runs."""
    pid, began = name.removeprefix(PREFIX).split("-")[:2]
    return start_time(pid) == began


def start_time(pid) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def remove(*filters):
    """Removes pods, containers and volumes, of which `podman` knows by these filters."""
    pods = call(podman("pod", "ps", "--quiet", *filters)).split()
    if pods:
        call(podman("pod", "rm", "--force", "--ignore", "--time", 0, *pods))
    deadline = time.monotonic() + REMOVE_SECONDS
    said = ""
    # One that ends meanwhile removes itself, and podman fails over it.
    while names := call(podman("ps", "--all", "--quiet", *filters)).split():
        if time.monotonic() > deadline:
            raise ContainerError(f"these containers cannot be removed: {' '.join(names)}: {said}")
        said = subprocess.run(podman("rm", "--force", "--depend", "--ignore", "--time", 0, *names),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False).stderr.strip()
    volumes = call(podman("volume", "ls", "--quiet", *filters)).split()
    if volumes:
        call(podman("volume", "rm", "--force", *volumes))


def remove_left_over():
    """What runs left that were killed."""
    labels = set()
    for command in (("ps", "--all"), ("volume", "ls")):
        told = call(podman(*command, "--filter", f"label={LABEL}", "--format", "json"))
        for thing in json.loads(told or "[]"):
            labels.add(thing["Labels"][LABEL])
    for label in labels:
        if not is_alive(label):
            remove("--filter", f"label={LABEL}={label}")
    for tag in call(podman("images", "--format", "{{.Tag}}", IMAGE)).split():
        if tag != "latest" and not is_alive(tag):
            call(podman("untag", f"{IMAGE}:{tag}", f"{IMAGE}:{tag}"))
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}[0-9]*-[0-9]*-[0-9]*"):
        if not is_alive(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


class Containers:
    """What is needed to run targets, profd and profctl. A context manager; leaves nothing behind."""

    _reason = ""  # of unavailable(), once it was looked for
    _objects = itertools.count(1)

    def __init__(self, build_dir: Path):
        self._build = Path(build_dir).resolve()
        self._seccomp = DEPLOY / "seccomp.json"
        self._id = f"{owner()}-{next(self._objects)}"
        self._image = f"{IMAGE}:{self._id}"
        self._pause = f"{self._id}-pause"
        self._numbers = itertools.count(1)
        self._folder = Path(tempfile.gettempdir(), self._id)

    @staticmethod
    def unavailable() -> str | None:
        """The fact of the machine for which containers cannot be run, and the reason; None when they can."""
        if Containers._reason == "":
            Containers._reason = why_unavailable()
        return Containers._reason

    def __enter__(self):
        self._folder.mkdir(mode=0o755)
        try:
            with locked():
                remove_left_over()
                self._make_image()
            call(podman("volume", "create", "--label", f"{LABEL}={self._id}", self._id))
            call(podman("run", "--detach", *self._common(self._pause), "--cap-drop", "all", BASE, "sh",
                        "-c", PAUSE))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        remove("--filter", f"label={LABEL}={self._id}")
        subprocess.run(podman("untag", self._image, self._image), stdin=subprocess.DEVNULL, capture_output=True,
                       check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def image(self) -> str:
        """profd's image."""
        return self._image

    def name(self, what="") -> str:
        """A name for something of this object, or its label without `what`."""
        return f"{self._id}-{what}" if what else self._id

    @property
    def folder(self) -> Path:
        """A folder that targets may write to; it has the same path here."""
        return self._folder

    def target_argv(self, argv: list[str], environment: dict, options=()) -> list[str]:
        """A command that runs a program of the build tree, or of the base image, as a target.
        `options` are more of podman's."""
        program = self._build / argv[0]
        words = [str(program) if program.exists() else argv[0], *argv[1:]]
        variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        return podman("run", "--rm", "--interactive", *self._common(), "--pid", f"container:{self._pause}",
                      "--volume", f"{self._build}:{self._build}:ro",
                      "--volume", f"{self._folder}:{self._folder}",
                      # Podman mounts a container's own file system so that fsync() does nothing.
                      "--volume", f"{self._folder}:/var/tmp", *variables, *options, BASE,
                      *words)

    def daemon_argv(self, options: list[str], without: str = "", seccomp: Path | None = None) -> list[str]:
        """A command that runs profd beside the targets, as docs/operating.md says, which listens on its
        default socket. `without`: a capability that it is not given; `seccomp`: another profile."""
        capabilities = [word for capability in sorted(profile().CAPABILITIES - {without})
                        for word in ("--cap-add", capability)]
        return podman("run", "--rm", *self._common(), "--pid", f"container:{self._pause}", "--read-only",
                      "--cap-drop", "all", *capabilities, "--security-opt", "no-new-privileges",
                      "--security-opt", f"seccomp={seccomp or self._seccomp}",
                      "--volume", f"{self._id}:{SOCKETS}", self._image, *options)

    def profctl_argv(self, arguments: list[str]) -> list[str]:
        """A command that asks profd from a third container, which has no capability at all."""
        return podman("run", "--rm", *self._common(), "--read-only", "--cap-drop", "all", "--security-opt",
                      "no-new-privileges", "--volume", f"{self._id}:{SOCKETS}", "--entrypoint", "profctl",
                      self._image, *arguments)

    def _common(self, name=None):
        return ["--name", name or f"{self._id}-{next(self._numbers)}", "--label", f"{LABEL}={self._id}",
                "--network", "none", "--log-driver", "none", *limits()]

    def _make_image(self):
        """The runtime stage of the Dockerfile, with the build tree's binaries as its stage `build`."""
        with tempfile.TemporaryDirectory(prefix="profd-image.") as folder:
            out = Path(folder) / "out"
            out.mkdir()
            for name in ("profd", "profctl"):
                call(["strip", "--preserve-dates", "-o", str(out / name), str(self._build / name)])
            call(podman("build", "--force-rm", "--network", "host", *limits(), "--build-arg", f"BASE={BASE}",
                        "--build-context", f"build={folder}", "--target", "profd", "--tag", IMAGE, "--tag",
                        self._image, "--file", DEPLOY / "Dockerfile", ROOT))
        # The images of earlier binaries; the layer with the libraries stays.
        call(podman("image", "prune", "--force"))


def why_unavailable() -> str | None:
    if os.geteuid() != 0:
        return "root: containers need it"
    missing = [command for command in COMMANDS if not shutil.which(command)]
    if missing:
        return f"containers: {', '.join(missing)} not found; run deploy/packages/install tests"
    try:
        with locked():
            make_base()
        call(podman("run", "--rm", "--network", "none", *limits(), BASE, "true"), timeout=60)
    except ContainerError as error:
        return f"containers: {error}"
    return None


class Place:
    """What the scenario runner runs programs by, as harness.daemon.Host is for this machine."""

    def __init__(self, build):
        reason = Containers.unavailable()
        if reason:
            raise ContainerError(reason)
        self.build = Path(build).resolve()
        self._containers = Containers(self.build).__enter__()
        self._sockets = 0

    def close(self):
        self._containers.__exit__()

    def target(self, argv, environment):
        return Process(self._containers.target_argv([self.word(word) for word in argv], environment))

    def word(self, word):
        return word.replace("{build}", str(self.build)).replace("{folder}", str(self._containers.folder))

    def new_address(self):
        self._sockets += 1
        return f"unix://{SOCKETS}/{self._sockets}.sock"

    def daemon_argv(self, address, options):
        return self._containers.daemon_argv(["--listen", address, *options])

    def profctl_argv(self, address, arguments):
        return self._containers.profctl_argv(["--server", address, *arguments])
