"""The documentation is correct: generated pages are up to date, links exist, examples run."""

from __future__ import annotations

import argparse
import codeop
import itertools
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import types
from contextlib import suppress
from pathlib import Path

import pytest

import mqredis
from mqredis.cli.app import build
from mqredis.cli.exits import Exit
from mqredis.selector import MAX_BYTES, MAX_DEPTH, MAX_NODES, like
from tools import script_docs, settings_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Pages whose Python blocks are programs, run from top to bottom as one.
PROGRAMS = [
    "README.md",
    "docs/index.md",
    "docs/howto.md",
    "docs/operating.md",
    "docs/settings.md",
    *(f"docs/learn/{name}.md" for name in ("first-queue", "worker", "asyncio", "transactions")),
    *(str(page.relative_to(ROOT)) for page in PAGES if page.parent.name == "guides" and page.stem != "index"),
]


def test_scripts_page_is_up_to_date() -> None:
    assert script_docs.TARGET.read_text() == script_docs.render(), "python -m tools.script_docs"


def test_page_of_the_command_line_has_all_exit_codes() -> None:
    _, _, section = (ROOT / "docs/cli.md").read_text().partition("## Exit codes")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == [*Exit]


def test_settings_page_is_up_to_date() -> None:
    assert settings_docs.TARGET.read_text() == settings_docs.render(), "python -m tools.settings_docs"


def test_settings_page_has_each_variable() -> None:
    code = "".join(
        path.read_text() for path in [*(ROOT / "mqredis").rglob("*.py"), ROOT / "pytest_mqredis.py"]
    )
    between_processes = {"MQREDIS_WORKER_PIPE", "MQREDIS_WORKER_URL", "MQREDIS_TEST_CRASH"}
    for name in set(re.findall(r'"(MQREDIS_[A-Z_]*[A-Z])"', code)) - between_processes:
        assert f"`{name}`" in settings_docs.render(), name


def test_page_of_selectors_has_their_limits() -> None:
    page = " ".join((ROOT / "docs/selectors.md").read_text().split())
    assert f" {MAX_BYTES:,} bytes of UTF-8, {MAX_DEPTH} levels of nesting, and {MAX_NODES:,} operands" in page
    for text in (
        f"`_` searches texts of up to {like.BUDGET:,} ",
        f"texts of up to {like.BUDGET * like.FACTOR:,} ",
    ):
        assert text in page
    assert f"each has at least {like.FLOOR} and {like.FLOOR * like.FACTOR:,}." in page


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.name)
def test_relative_links_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_print_the_documented_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MQREDIS_URL", f"memory://docs-{name.replace('/', '-')}")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert blocks
    module = types.ModuleType("example")  # workers resolve annotations through the module of a function
    monkeypatch.setitem(sys.modules, "example", module)
    told = re.findall(r"# -> (.*)", "".join(blocks))
    assert told, "an example shows what it prints"
    for _ in range(2):  # once more, with what the first run has left, such as the log of actions
        for block in blocks:
            exec(compile(block, f"{name}:{block[:30]!r}", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
        assert capsys.readouterr().out.splitlines() == told
        with mqredis.connect() as qm:  # a private server keeps queues, so the next page would find them
            assert [queue.name for queue in qm.queues() if not queue.name.startswith("system$")] == []


def test_types_of_the_examples(tmp_path: Path) -> None:
    """mypy without options, as a reader runs it on what the page shows."""
    pytest.importorskip("mypy")
    for name in PROGRAMS:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
        module = re.sub(r"\W", "_", name.removesuffix(".md"))
        (tmp_path / f"{module}.py").write_text("\n\n".join(blocks))
    cache = f"--cache-dir={ROOT / 'build' / 'mypy-examples'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", cache, "--no-error-summary", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "page, names",
    [
        ("testing.md", {"shop.py", "test_shop.py"}),
        ("learn/testing.md", {"shop.py", "test_shop.py"}),
        ("fastapi.md", {"test_app.py"}),
    ],
)
def test_module_and_tests_of_the_testing_pages_pass(page: str, names: set[str], tmp_path: Path) -> None:
    files = dict(
        re.findall(r'```python title="(.*?)"\n(.*?)```', (ROOT / "docs" / page).read_text(), re.DOTALL)
    )
    assert set(files) == names
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tests = "".join(files.values()).count("\ndef test_")
    # Starlette asks for the successor of httpx, which it can do without.
    options = [
        "-q",
        "-W",
        "error",
        "-W",
        "ignore:Using `httpx`",
        "-p",
        "no:asyncio",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *sorted(name for name in names if name[:5] == "test_")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # of the examples
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.name)
def test_code_blocks_can_be_pasted_into_a_prompt(page: Path) -> None:
    """As in the interactive prompt, a compound statement ends at a blank line and has none inside."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        given: list[str] = []
        for line in [*block.splitlines(), ""]:
            given.append(line)
            if codeop.compile_command("\n".join(given), f"{page.name}: {line}", "single") is not None:
                given = []
        assert not "".join(given).strip(), f"{page.name}: an unfinished statement: {given}"


def test_included_files_exist() -> None:
    marks = [line for page in PAGES for line in page.read_text().splitlines() if re.search(r"8 ?< ?--", line)]
    assert marks
    for mark in marks:
        named = re.fullmatch(r'--8<-- "([^"]+)"', mark)
        assert named, f"a formatter has spoilt {mark!r}"
        assert (ROOT / named[1]).exists(), mark


def test_command_line_page_names_every_command() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    actions = [action for action in build()._actions if isinstance(action.choices, dict)]
    for name in actions[0].choices or ():
        assert f"`{name}" in text, name


def test_page_of_the_command_line_names_existing_options() -> None:
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    parser, checked = build(), 0
    for commands, text in rows:
        known = set().union(
            *(_options(parser, command.split()) for command in re.findall(r"`([^`]+)`", commands))
        )
        for span in [commands, *re.findall(r"`(--[^`]+)`", text)]:
            for option in re.findall(r"--[a-z-]+", span):
                assert option in known, (commands, option)
                checked += 1
    assert checked > 40


def _options(parser: argparse.ArgumentParser, words: list[str]) -> set[str]:
    """The options of the command that these words name."""
    for word in words:
        choices = next((a.choices for a in parser._actions if isinstance(a.choices, dict)), {})
        parser = choices.get(word, parser)
    return {option for action in parser._actions for option in action.option_strings}


def test_commands_of_the_pages_are_accepted_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that lacks its arguments is only mentioned; one with "..." or in capital letters stands for several."""
    found = [command for page in [ROOT / "README.md", *PAGES] for command in _commands(page.read_text())]
    assert len(found) > 100
    parser = build()
    for command in found:
        with suppress(SystemExit):
            parser.parse_args(command[1:])
        error = capsys.readouterr().err
        assert not error or re.search("arguments are required|expected one argument", error), (command, error)


def _commands(text: str) -> list[list[str]]:
    """The calls of ``mqredis`` in code spans and in blocks of code, as words."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    calls = re.findall(r"`(mqredis [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    calls += [
        found[1] for line in lines if (found := re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*(mqredis .*)", line))
    ]
    commands = []
    for call in calls:
        # The shell's operators are words of their own.
        lexer = shlex.shlex(call, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(itertools.takewhile(lambda word: word not in {"|", ">", "&", "&&", ";", "||"}, lexer))
        if not {"...", "COMMAND"} & set(words):
            commands.append(words)
    return commands


def test_pages_contain_no_local_paths() -> None:
    for page in [ROOT / "README.md", *PAGES]:
        assert not re.search(r"/(work|tmp|home|root)/", page.read_text()), page


def test_menu_names_each_page_once() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES}
    named = re.findall(r"^ +- (?:[A-Z]\w*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(pages)


def test_reference_names_existing_objects_and_covers_the_classes() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    named = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert named
    for name in named:
        assert pkgutil.resolve_name(name) is not None
    covered = set(re.findall(r"^::: mqredis\.([A-Z]\w*)$", text, re.MULTILINE))
    for name in mqredis.__all__:
        thing = getattr(mqredis, name)
        if isinstance(thing, type) and thing.__module__.startswith(("mqredis.client", "mqredis.settings")):
            assert name in covered, name


def test_files_refer_to_no_external_specification() -> None:
    for folder in (
        "mqredis",
        "pyspark_mqredis",
        "lua",
        "docs",
        "tests",
        "tools",
        "demo",
        "bench",
        "examples",
    ):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".lua", ".md") and file != Path(__file__):
                assert not re.search(r"(?<!/)\bspec/|\(spec D\d|\bissue \d{1,3}\b", file.read_text()), file


def test_errors_page_has_each_class_once() -> None:
    rows = [
        line.split("|")[1] for line in (ROOT / "docs" / "errors.md").read_text().splitlines() if "| `" in line
    ]
    named = re.findall(r"`(\w+)`", "".join(rows))
    public = [getattr(mqredis, name) for name in mqredis.__all__]
    errors = [
        thing.__name__ for thing in public if isinstance(thing, type) and issubclass(thing, mqredis.MqError)
    ]
    assert sorted(named) == sorted(set(errors) - {"MqError"})


def test_every_error_is_public() -> None:
    classes = [thing for thing in vars(mqredis.errors).values() if isinstance(thing, type)]
    missing = {thing.__name__ for thing in classes if issubclass(thing, mqredis.MqError)} - set(
        mqredis.__all__
    )
    assert not missing
