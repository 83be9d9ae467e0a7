"""``mqredis completion bash | zsh | fish``: a script for the shell, made from the parser itself.

``cli.app`` adds the command, and gives it the parser as ``arguments.parser``. It walks through private attributes of
argparse, so new commands and options need no change here. The common options are not part of this command, but
``--json`` may stand before its name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mqredis.cli.common import Arguments, Subparsers
from mqredis.cli.output import Output

SHELLS = ("bash", "zsh", "fish")

_BASH = r"""# eval "$(mqredis completion bash)"
_mqredis() {
    local current=${COMP_WORDS[COMP_CWORD]} path="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in -*) ;; *) case "$path $word" in
%(commands)s        esac ;; esac
    done
    local words
    case "$path" in
%(cases)s    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _mqredis mqredis
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("completion", help="print completion rules for a shell")
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_completion)


def _completion(arguments: Arguments, output: Output) -> None:
    table = dict(_walk(arguments.parser, ""))
    text = _fish(table) if arguments.shell == "fish" else _bash(table)
    if arguments.shell == "zsh":
        text = "autoload -U +X bashcompinit && bashcompinit\n" + text
    output.line(text.rstrip("\n"), shell=arguments.shell, script=text)


def _walk(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the words that may follow it."""
    words: list[str] = []
    for action in parser._actions:
        words += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            words += list(action.choices)
            for name, inner in action.choices.items():
                yield from _walk(inner, f"{path} {name}".strip())
        elif action.choices and not action.option_strings:
            words += [str(choice) for choice in action.choices]
    yield path, words


def _bash(table: dict[str, list[str]]) -> str:
    known = ((path.rpartition(" "), path) for path in sorted(table) if path)
    commands = "".join(
        f'            "{before} {word}") path="{path}" ;;\n' for (before, _, word), path in known
    )
    cases = "".join(
        f'        "{path}") words="{" ".join(words)}" ;;\n' for path, words in sorted(table.items())
    )
    return _BASH % {"commands": commands, "cases": cases}


def _fish(table: dict[str, list[str]]) -> str:
    lines = ["# mqredis completion fish | source"]
    for path, words in sorted(table.items()):
        when = f"__fish_seen_subcommand_from {path.split()[-1]}" if path else "__fish_use_subcommand"
        lines.append(f"complete -c mqredis -n '{when}' -a '{' '.join(words)}'")
    return "\n".join(lines) + "\n"
