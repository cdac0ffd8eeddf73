"""The documents for people, and what they show."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"\ball\s+of\s+\[[^\]]*\]\(([^)]+)\):\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Document:
    """A Markdown file."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def blocks(self, language: str) -> list[str]:
        """Code blocks in this language; "" for those without one, which hold commands and output."""
        return [code for kind, code in FENCED.findall(self.text) if kind == language]

    @property
    def commands(self) -> list[list[str]]:
        """Arguments of each ``headbench`` command."""
        lines = [line for block in self.blocks("") for line in block.replace("\\\n", "").splitlines()]
        return [shlex.split(line)[1:] for line in lines if line.startswith("headbench ")]

    @property
    def quoted_files(self) -> list[tuple[Path, str]]:
        """Files that a block is said to show all of, and the block."""
        return [((self.path.parent / target).resolve(), code) for target, code in QUOTED.findall(self.text)]

    @property
    def links(self) -> list[str]:
        """Targets of links to files or headings, not to other sites."""
        return [target for target in LINK.findall(FENCED.sub("", self.text)) if "://" not in target]

    @property
    def anchors(self) -> set[str]:
        """What a link to a heading of this document may name."""
        headings = re.findall(r"^#+ (.*)$", FENCED.sub("", self.text), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


README, CONTRIBUTING = Document(ROOT / "README.md"), Document(ROOT / "CONTRIBUTING.md")
PAGES = [Document(path) for path in sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = [README, CONTRIBUTING, *PAGES]
