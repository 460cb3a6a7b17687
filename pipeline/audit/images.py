"""Look into an image, as an agent could: for commits after the base, and for other copies."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.audit.signs import Own, excerpt
from pipeline.contracts import Sandboxes
from pipeline.domain import Instance
from pipeline.outcomes import InfraError

SECONDS = 600
MOST = 20
PROBE_FILE = "/tmp/passone-audit.sh"
HARNESS = "setup@swebench.config"
"""Who makes the one commit on top of the base in SWE-bench's own images."""
PROBE = rf"""
base=$1; shift
work=$(mktemp -d) && cd /testbed || exit 1
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
git() {{ command git -c safe.directory='*' "$@"; }}
git rev-parse -q --verify "$base^{{commit}}" >/dev/null || {{ echo "no-base"; exit 0; }}
git rev-list "$base" | sort >"$work/old"
# Every commit that is stored, whatever leads to it: refs, stashes, reflogs, or nothing.
git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' |
  sed -n 's/^commit //p' | sort | comm -23 - "$work/old" >"$work/all"
while read -r sha; do
  [ "$(git log -1 --format=%ce "$sha")" = "{HARNESS}" ] || echo "$sha"
done <"$work/all" >"$work/beyond"
echo "beyond $(wc -l <"$work/beyond")"
head -n {MOST} "$work/beyond" | while read -r sha; do
  git log -1 --format='commit %h %cI %s' "$sha"
done
git for-each-ref --format='%(objectname) %(*objectname) %(refname)' |
  grep -F -f "$work/beyond" | sed 's/.* /ref /' | head -n {MOST}
git remote -v | sed 's/^/remote /' | head -n {MOST}
for name; do
  if [ -d "src/$name" ]; then tree=src/$name; elif [ -d "lib/$name" ]; then tree=lib/$name
  else tree=$name; fi
  find / -xdev -type d -iname "$name" \( -path '*/site-packages/*' -o -path '*/dist-packages/*' \) \
    -prune 2>/dev/null | while read -r copy; do
    case $copy in */site-packages/"$name" | */dist-packages/"$name" | */_vendor/"$name") ;;
    *) continue ;; esac
    diff -rq -x __pycache__ -x '*.pyc' -x '*.so' "$copy" "$tree" >/dev/null 2>&1 ||
      echo "copy $copy"
  done | head -n {MOST}
  find / -xdev -type f \( -iname "$name-[0-9]*.whl" -o -iname "$name-[0-9]*.tar.gz" \
    -o -iname "$name-[0-9]*.conda" -o -iname "$name-[0-9]*.tar.bz2" \) 2>/dev/null |
    sed 's/^/archive /' | head -n {MOST}
done
rm -rf "$work"
echo over
"""
"""Plain sh, git and find: an image need not have a Python that we know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image holds that can tell an agent the answer."""

    beyond: int = 0
    """Commits that are neither the base nor before it."""
    commits: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    """Names that lead to them."""
    remotes: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    """Of the package, with other code than the tree's."""
    archives: tuple[str, ...] = ()
    """Releases of the package lying around."""
    why_not: str = ""
    """Why it could not be looked at."""

    @property
    def without_history(self) -> bool:
        """Looked at, and no commit beyond the base is in it."""
        return not self.why_not and not self.beyond

    @property
    def leaks(self) -> list[str]:
        """One line for everything that should not be there."""
        said = []
        if self.beyond:
            names = ", ".join(self.refs) or "no ref leads to them"
            said.append(f"{self.beyond} commits beyond the base ({names}): {self.commits[0]}")
        said += [f"another copy of the package: {path}" for path in self.copies]
        said += [f"a release of the package: {path}" for path in self.archives]
        return said


def look(sandboxes: Sandboxes, instance: Instance, own: Own) -> Image:
    """Search a fresh container of an instance's image; never raises for one that cannot be had."""
    with tempfile.TemporaryDirectory(prefix="passone-audit-") as scratch:
        log = Path(scratch) / "log"
        names = sorted(own.packages)
        try:
            with sandboxes.open(instance) as sandbox:
                sandbox.put(PROBE.encode(), PROBE_FILE)
                command = ["sh", PROBE_FILE, own.base, *names]
                sandbox.run(command, timeout_seconds=SECONDS, output=log)
        except InfraError as error:
            return Image(why_not=f"it could not be looked at: {excerpt(error.detail)}")
        return read_probe(log.read_text(encoding="utf-8", errors="replace"))


def read_probe(text: str) -> Image:
    """What the script in the container found."""
    lines = [line.partition(" ") for line in text.splitlines()]
    if not any(kind == "over" for kind, _, _ in lines):
        last = lines[-1] if lines else ("nothing was printed", "", "")
        if last[0] == "no-base":
            return Image(why_not="its tree does not hold the base commit")
        return Image(why_not=f"the search did not end: {excerpt(''.join(last))}")

    def of(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(excerpt(rest) for first, _, rest in lines if first == kind))

    return Image(
        beyond=int(of("beyond")[0]),
        commits=of("commit"),
        refs=of("ref"),
        remotes=of("remote"),
        copies=of("copy"),
        archives=of("archive"),
    )
