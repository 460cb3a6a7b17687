"""Lay the site out as the repository is, so that a link that holds in one holds in the other.

mkdocs calls it (`hooks:` in mkdocs.yml). Notebooks become pages; with PASSONE_EXECUTED set they are
run first, on the runs in logs/ that they read where nobody names others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SHOWN = ("*.md", "docs/*.md", "configs/*.yaml", "notebooks/*.ipynb", "LICENSE", "*.cff")


def executed(path: Path) -> Any:
    """A notebook with its outputs; nothing is written into it."""
    import nbformat  # noqa: PLC0415 - of the extra `docs`, and only notebooks that run need it
    from nbclient import NotebookClient  # noqa: PLC0415

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    return notebook


def shown(output: Any) -> str:
    """What a cell displayed, as a part of a page."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![](data:image/png;base64,{''.join(data['image/png'].split())})"
    for kind in ("text/markdown", "text/html"):
        if kind in data:
            return "".join(data[kind]).replace("\\$", "$")
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```\n{text}\n```"


def parts(notebook: Any) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        yield from map(shown, cell.get("outputs", ()))


def page_of(path: Path, *, run: bool) -> str:
    """A notebook as Markdown."""
    notebook = executed(path) if run else json.loads(path.read_text(encoding="utf-8"))
    return "\n\n".join(parts(notebook))


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Everything at its path from the root of the repository, not of docs/."""
    root = Path(str(config.config_file_path)).parent
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    for path in sorted(path for pattern in SHOWN for path in root.glob(pattern)):
        name = path.relative_to(root).as_posix()
        files.append(File(name, str(root), config.site_dir, config.use_directory_urls))
        if path.suffix == ".ipynb":
            page = page_of(path, run=config.extra["executed"])
            name = name.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, name, content=page))
    return files
