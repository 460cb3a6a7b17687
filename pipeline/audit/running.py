"""Find what an action runs in the end: behind wrappers, in `bash -c`, in Python, in its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pipeline.audit.shell import Command, parse

SHELLS = {"bash", "sh", "dash", "zsh", "ksh"}
PYTHON = re.compile(r"(?:python|pypy)[\d.]*|ipython3?")
WRAPPERS = {
    "builtin",
    "command",
    "env",
    "exec",
    "ionice",
    "nice",
    "nohup",
    "setsid",
    "stdbuf",
    "sudo",
    "time",
    "timeout",
    "unbuffer",
    "xargs",
}
RESERVED = {"!", "{", "}", "do", "done", "elif", "else", "fi", "if", "then", "until", "while"}
ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
OPERAND = re.compile(r"-.*|[\d.]+[smhd]?|\w+=.*|\{\}", re.DOTALL)
"""What stands between a wrapper and the command that it runs."""
EDITORS = {"str_replace_editor", "str_replace_based_edit_tool", "edit_anthropic"}
NETWORKED = re.compile(
    r"\b(?:urllib|urlopen|urlretrieve|requests|httpx|http\.client|aiohttp|pycurl|wget"
    r"|load_dataset|hf_hub_download|snapshot_download)\b"
)
STARTS = {"system", "popen", "run", "call", "check_call", "check_output", "Popen", "getoutput"}
DEEPEST = 6


@dataclass(slots=True)
class Running:
    """Follows what a try runs, over its steps: a script counts when it is run, not written."""

    scripts: dict[str, str] = field(default_factory=dict)
    """Files that were written out in an action, by name."""

    def commands(self, action: str, depth: int = 0) -> Iterator[Command]:
        """Every command that an action runs; a program in Python is one with its strings."""
        if depth > DEEPEST:
            return
        for command in parse(action):
            yield from self.resolved(command, depth)

    def resolved(self, command: Command, depth: int) -> Iterator[Command]:
        command = replace(command, words=unwrapped(command.words))
        words, program = command.words, command.program
        if not words:
            return
        if program in ("cat", "tee") and command.stdin:
            name = command.target or (words[1] if len(words) > 1 else "")
            self.scripts[file_name(name)] = command.stdin
            return
        if program in EDITORS:
            yield self.edited(command)
        elif program in SHELLS or program in ("eval", "source", "."):
            yield from self.shell(command, depth)
        elif PYTHON.fullmatch(program):
            yield from self.python(command, depth)
        elif file_name(words[0]) in self.scripts:
            yield from self.script(words[0], depth)
        else:
            yield command

    def shell(self, command: Command, depth: int) -> Iterator[Command]:
        words = command.words
        if command.program == "eval":
            yield from self.commands(" ".join(words[1:]), depth + 1)
            return
        for number, word in enumerate(words[1:], start=1):
            if re.fullmatch(r"-[a-z]*c", word):
                yield from self.commands(" ".join(words[number + 1 : number + 2]), depth + 1)
                return
            if not word.startswith("-"):
                yield from self.script(word, depth)
                # A file that it only reads is looked at all the same.
                yield replace(command, words=words[: number + 1])
                return
        yield from self.commands(command.stdin, depth + 1)

    def python(self, command: Command, depth: int) -> Iterator[Command]:
        words = command.words
        for number, word in enumerate(words[1:], start=1):
            if word == "-m":
                yield from self.resolved(replace(command, words=words[number + 1 :]), depth + 1)
                return
            if re.fullmatch(r"-[A-Za-z]*c", word):
                yield from self.code(" ".join(words[number + 1 : number + 2]), command, depth)
                return
            if not word.startswith("-"):
                yield from self.script(word, depth)
                yield replace(command, words=("python-file", *words[1:]))
                return
        yield from self.code(command.stdin, command, depth)

    def script(self, name: str, depth: int) -> Iterator[Command]:
        """What was written into this file, if that was seen."""
        body = self.scripts.get(file_name(name))
        if body is None or depth > DEEPEST:
            return
        if file_name(name).endswith(".py") or re.match(r"#!.*python", body):
            yield from self.code(body, Command(words=("python", name)), depth)
        else:
            yield from self.commands(body, depth + 1)

    def code(self, code: str, command: Command, depth: int) -> Iterator[Command]:
        """Python: what it starts, and the words that it holds."""
        if not code.strip():
            return
        strings, started = read_code(code)
        for line in started:
            yield from self.commands(line, depth + 1)
        program = "python-net" if NETWORKED.search(code) else "python"
        yield replace(command, words=(program, *strings), stdin="")

    def edited(self, command: Command) -> Command:
        """A call of an editing tool: what it writes is remembered, and no word of it."""
        words = list(command.words)
        for flag in ("--file_text", "--new_str", "--old_str"):
            if flag in words[:-1]:
                at = words.index(flag)
                if flag == "--file_text" and len(words) > 2:
                    self.scripts[file_name(words[2])] = words[at + 1]
                del words[at : at + 2]
        return replace(command, words=tuple(words))


def unwrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command without what only stands around it: assignments, `timeout 9`, `conda run -n x`."""
    at = 0
    wrapped = False
    while at < len(words):
        word = words[at]
        if words[at : at + 2] == ("conda", "run"):
            at += 2
            while at < len(words) and words[at].startswith("-"):
                at += 2 if words[at] in ("-n", "-p", "--name", "--prefix") else 1
        elif word.rpartition("/")[2] in WRAPPERS:
            wrapped = True
            at += 1
        elif word in RESERVED or (OPERAND if wrapped else ASSIGNMENT).fullmatch(word):
            at += 1
        else:
            break
    return words[at:]


def file_name(path: str) -> str:
    return path.rpartition("/")[2]


def read_code(code: str) -> tuple[list[str], list[str]]:
    """The strings of a Python program, and the command lines that it starts."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        # What is no Python does not run.
        return [], []
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        # A string that stands alone is a remark.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documented
    ]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    started = [line for call in calls if called(call) in STARTS for line in lines_in(call.args[0])]
    return strings, started


def called(call: ast.Call) -> str:
    target = call.func
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def lines_in(node: ast.expr) -> list[str]:
    """A command line: a string, or a list of strings."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.List | ast.Tuple):
        parts = [
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…"
            for part in node.elts
        ]
        return [" ".join(f"'{part}'" for part in parts)]
    return []
