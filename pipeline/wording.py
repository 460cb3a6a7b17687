"""Say a number of things as a person would."""

from __future__ import annotations

MOST_CHARACTERS = 200


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 instance`, `1,204 instances`, `2 tries`.

    Args:
        plural: where it is not the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def between(least: int, most: int) -> str:
    """`3`, or `3–7`."""
    return str(most) if least == most else f"{least}–{most}"


def shortened(text: str) -> str:
    """What fits into a line: of a traceback its end, of all else the beginning."""
    text = " ".join(text.split())
    if len(text) <= MOST_CHARACTERS:
        return text
    if text.startswith("Traceback"):
        return f"… {text[-MOST_CHARACTERS:]}"
    return f"{text[:MOST_CHARACTERS]} …"
