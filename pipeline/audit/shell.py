"""Take a shell script apart into its commands, as far as a reader without a shell can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

HEREDOC = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_]\w*))")
REDIRECTION = re.compile(r"\d*(?:&>>?|>>?\||>>?|<)(?:&(?:\d+|-))?[ \t]*")
ENDS = ";&|()\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One simple command, with its quotes taken off."""

    words: tuple[str, ...]
    stdin: str = ""
    """Its here-document or here-string."""
    target: str = ""
    """The file that its output goes to."""
    hushed: bool = False
    """Its errors go to no one who reads on."""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2] if self.words else ""

    def __str__(self) -> str:
        return " ".join(self.words)


def parse(script: str) -> list[Command]:
    """The simple commands of a script, those in substitutions before the ones around them."""
    return list(Scanner(script).commands())


@dataclass(slots=True)
class Scanner:
    """Goes over a script once. What is not closed is taken to end where the script does."""

    text: str
    at: int = 0
    words: list[str] = field(default_factory=list)
    word: str | None = None
    """None: between two words; a quoted nothing is a word too."""
    target: str = ""
    stdin: str = ""
    hushed: bool = False
    awaiting: str = ""
    """`>`, `2>`, `<` or `<<<`: what the next word is for."""
    documents: list[tuple[str, bool]] = field(default_factory=list)
    """Ends of here-documents whose bodies begin after this line, and whether tabs go."""
    nested: list[Command] = field(default_factory=list)
    waiting: list[Command] = field(default_factory=list)
    """Commands of this line, until its here-documents have been read."""
    owners: list[int] = field(default_factory=list)

    def commands(self) -> Iterator[Command]:
        while self.at < len(self.text):
            self.step(self.text[self.at])
            if not self.documents and self.waiting:
                yield from self.flush()
        self.end_command()
        self.read_documents()
        yield from self.flush()

    def flush(self) -> list[Command]:
        done, self.waiting = self.waiting, []
        return done

    def step(self, char: str) -> None:
        if char == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if following != "\n":
                self.add(following)
            self.at += 2
        elif char == "'":
            end = self.find("'", self.at + 1)
            self.add(self.text[self.at + 1 : end])
            self.at = end + 1
        elif char == '"':
            self.quoted()
        elif self.text.startswith(("$(", "<(", ">("), self.at) or char == "`":
            self.substitution()
        elif char == "#" and self.word is None:
            self.at = self.find("\n", self.at)
        elif char == "<" and self.text.startswith("<<", self.at):
            self.document()
        elif (match := REDIRECTION.match(self.text, self.at)) and "\n" not in match[0]:
            self.redirection(match[0])
        elif char in ENDS:
            self.end_command()
            self.at += 1
            if char == "\n":
                self.read_documents()
        elif char.isspace():
            self.end_word()
            self.at += 1
        else:
            self.add(char)
            self.at += 1

    def find(self, mark: str, start: int) -> int:
        found = self.text.find(mark, start)
        return len(self.text) if found < 0 else found

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def quoted(self) -> None:
        """A double-quoted part, in which substitutions still run."""
        self.add("")
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.add(
                    escaped if escaped in '"\\$`' else "" if escaped == "\n" else f"\\{escaped}"
                )
                self.at += 2
            elif self.text.startswith("$(", self.at) or self.text[self.at] == "`":
                self.substitution()
            else:
                self.add(self.text[self.at])
                self.at += 1
        self.at += 1

    def substitution(self) -> None:
        """`$(…)`, `<(…)` or backticks: their commands run, and only a mark stays in the word."""
        if self.text[self.at] == "`":
            start, end = self.at + 1, self.find("`", self.at + 1)
        else:
            start, end = self.at + 2, closing(self.text, self.at + 2)
        self.nested += parse(self.text[start:end])
        self.add("$(…)")
        self.at = end + 1

    def document(self) -> None:
        if self.text.startswith("<<<", self.at):
            self.awaiting = "<<<"
            self.at += 3
            return
        match = HEREDOC.match(self.text, self.at)
        if match is None:
            self.at += 2
            return
        self.end_word()
        self.documents.append((match[2] or match[3] or match[4], bool(match[1])))
        self.owners.append(len(self.waiting) + len(self.nested))
        self.at = match.end()

    def redirection(self, text: str) -> None:
        self.end_word()
        self.at += len(text)
        if "&" not in text[1:]:
            self.awaiting = "<" if "<" in text else "2>" if text.startswith("2") else ">"

    def end_word(self) -> None:
        if self.word is None:
            return
        if self.awaiting == ">":
            self.target = self.word
        elif self.awaiting == "<<<":
            self.stdin = self.word
        elif self.awaiting == "2>":
            self.hushed = True
        else:
            self.words.append(self.word)
        self.awaiting, self.word = "", None

    def end_command(self) -> None:
        self.end_word()
        self.waiting += self.nested
        if self.words:
            found = Command(
                words=tuple(self.words),
                stdin=self.stdin,
                target=self.target,
                hushed=self.hushed,
            )
            self.waiting.append(found)
        self.words, self.nested, self.hushed = [], [], False
        self.target = self.stdin = self.awaiting = ""

    def read_documents(self) -> None:
        """Bodies stand below the line that asks for them, in its order."""
        for (end, tabs), owner in zip(self.documents, self.owners, strict=True):
            lines = []
            while self.at < len(self.text):
                stop = self.find("\n", self.at)
                line = self.text[self.at : stop]
                self.at = stop + 1
                if (line.lstrip("\t") if tabs else line) == end:
                    break
                lines.append(line)
            if owner < len(self.waiting):
                old = self.waiting[owner]
                body = "".join(f"{line}\n" for line in lines)
                self.waiting[owner] = replace(old, stdin=body)
        self.documents, self.owners = [], []


def closing(text: str, at: int) -> int:
    """Where the parenthesis that was opened before `at` is closed."""
    depth = 1
    quote = ""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at
        at += 1
    return len(text)
