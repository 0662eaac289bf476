"""How a break is tried: in a fork of one process that has imported everything, or in a process of its own.

`Runs` is a plugin of pytest that takes over before tests are collected. For each mutant it forks a child, which
exchanges the code of the broken functions (`code_changes.py`), then collects the mutant's tests and runs them until
one fails. (The tests are not collected before the fork: JAX would start threads, which no fork survives.) A break
that cannot be put in like that, or that survived, is tried in a new process with a broken copy of the sources.
A break counts as noticed only if the test that failed passes without it, in a fork too.
"""

from __future__ import annotations

import ast
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

from breaks import Mutant
from code_changes import Living

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "scalewise"
LONGEST = (
    120  # seconds of computing that a test may take; one that a break makes hang has noticed it
)
OPTIONS = ("-x", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
AT = "at"  # the file in the folder of a child that says which test it runs


@dataclass(frozen=True)
class Outcome:
    """How a child ended, and at which test."""

    status: int
    test: str

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or was stopped because it took too long."""
        return self.status in (1, -signal.SIGXCPU)


Child = Callable[[], int]
Story = Generator[Child, Outcome, None]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say which test runs, and give it its time: of computing, and of waiting for whatever is locked."""
    Path(tempfile.gettempdir(), AT).write_text(nodeid)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + LONGEST
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    signal.setitimer(signal.ITIMER_REAL, 20 * LONGEST)


def broken(mutant: Mutant) -> str:
    """The text of the mutant's file with the break in it."""
    text = (PACKAGE / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name!r} does not fit {mutant.file} any more.")
    return text.replace(mutant.old, mutant.new)


def imports(file: Path) -> Iterator[str]:
    """What a file of tests imports of other packages than its own."""
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        else:
            continue
        first = {name: ROOT / "tests" / name.partition(".")[0] for name in names}
        yield from (
            name
            for name, path in first.items()
            if path.name != "scalewise" and not path.with_suffix(".py").exists()
        )


def in_new_process(mutant: Mutant) -> int:
    """Become a run of the mutant's tests with a broken copy of the sources."""
    sources = Path(tempfile.gettempdir(), "src")
    shutil.copytree(PACKAGE, sources / "scalewise", ignore=shutil.ignore_patterns("__pycache__"))
    (sources / "scalewise" / mutant.file).write_text(broken(mutant))
    os.environ["PYTHONPATH"] = os.pathsep.join((str(sources), str(ROOT / "tests")))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    words = ("-m", "pytest", "-p", "mutant_runs", *OPTIONS, *mutant.tests)
    os.execv(sys.executable, (sys.executable, *words))


class Runs:
    """The runs of some mutants, as many at a time as there are cores.

    Args:
        mutants: What to try.
        tell: Called with each mutant and whether it survived, None if nothing can be said.
        afresh: Whether to try each in a process of its own, whatever the break is.
    """

    def __init__(
        self,
        mutants: Sequence[Mutant],
        tell: Callable[[Mutant, bool | None], None],
        *,
        afresh: bool = False,
    ) -> None:
        self._mutants, self._tell, self._afresh = mutants, tell, afresh
        self._living = Living(PACKAGE)
        self._sound: set[str] = set()
        self._complaint = ""
        self.new_processes = 0

    def go(self) -> None:
        """Collect the tests and run them."""
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT / "src"))
        os.environ["PYTHONPATH"] = str(ROOT / "src")
        plugins = [sys.modules[__name__], self]
        status = pytest.main([*OPTIONS, "-p", "no:terminal", "tests"], plugins=plugins)
        if self._complaint or status != pytest.ExitCode.NO_TESTS_COLLECTED:
            raise SystemExit(self._complaint or f"Exit status {int(status)} of pytest.")

    def _stop(self, complaint: str) -> NoReturn:
        self._complaint = complaint
        pytest.exit(complaint)

    def pytest_collection(self, session: pytest.Session) -> bool:
        """In place of collecting tests: import, then let every child collect its own."""
        self._session = session
        files = sorted({m.file for m in self._mutants if m.file.endswith(".py")})
        named = sorted({test.partition("::")[0] for m in self._mutants for test in m.tests})
        outside = {name for test in named for name in imports(ROOT / test)}
        for name in sorted(outside):
            import_module(name)
        assert "scalewise" not in sys.modules, "nobody has seen what of it runs at import"
        self._living.watch()
        for file in files:
            parts = ("scalewise", *Path(file).with_suffix("").parts)
            import_module(".".join(parts).removesuffix(".__init__"))
        self._living.settle()
        threads = Path("/proc/self/task")
        if threads.exists() and len(list(threads.iterdir())) > 1:
            self._stop("An import starts threads, which a fork would lose, locked as they are.")
        gc.collect()
        gc.freeze()  # no page is copied only because a child counts what is alive
        self._take_turns(self._story(mutant) for mutant in self._mutants)
        return True

    def _take_turns(self, stories: Iterator[Story]) -> None:
        running: dict[int, tuple[Story, str]] = {}

        def goes_on(story: Story, outcome: Outcome | None) -> bool:
            try:
                child = next(story) if outcome is None else story.send(outcome)
            except StopIteration:
                return False
            folder = tempfile.mkdtemp()
            running[_fork(child, folder)] = story, folder
            return True

        try:
            while True:
                while len(running) < CORES and (story := next(stories, None)):
                    goes_on(story, None)
                if not running:
                    return
                pid, status = os.wait()
                story, folder = running.pop(pid)
                at = Path(folder, AT)
                outcome = Outcome(
                    os.waitstatus_to_exitcode(status), at.read_text() if at.exists() else ""
                )
                shutil.rmtree(folder, ignore_errors=True)
                goes_on(story, outcome)
        finally:
            for pid, (_, folder) in running.items():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                shutil.rmtree(folder, ignore_errors=True)

    def _story(self, mutant: Mutant) -> Story:
        file = PACKAGE / mutant.file
        exchanges = None
        if file.suffix == ".py" and not self._afresh:
            exchanges = self._living.exchanges(file, file.read_text(), broken(mutant))

        def put_in() -> int:
            for function, code in exchanges or ():
                function.__code__ = code
            return self._run(mutant.tests)

        outcome = None
        if exchanges:
            outcome = yield put_in
        if outcome is None or not outcome.noticed:
            self.new_processes += 1
            outcome = yield lambda: in_new_process(mutant)
        test = outcome.test
        if outcome.noticed and test not in self._sound:
            check = yield lambda: self._run((test,))
            if check.status != 0:
                print(f"{test} fails without any break; mend that first.")
                self._tell(mutant, None)
                return
            self._sound.add(test)
        survived = outcome.status == 0
        if not (outcome.noticed or survived):
            print(f"Exit status {outcome.status} at {test or 'the collection of tests'}")
        self._tell(mutant, survived if outcome.noticed or survived else None)

    def _run(self, tests: tuple[str, ...]) -> int:
        """Run tests in this process until one fails."""
        items = self._session.perform_collect(tests)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                return 1
        return 0


def _fork(child: Child, folder: str) -> int:
    if pid := os.fork():
        return pid
    status = 70
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        status = child()
    except BaseException:
        with Path(folder, AT).open("a") as file:
            file.write(f"\n{traceback.format_exc()}")
    finally:
        os._exit(status)
