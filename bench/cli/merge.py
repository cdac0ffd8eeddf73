"""The verb ``merge``: records of several runs in one folder, with what was dropped."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.analysis.naming import count
from bench.records.storage.merge import merge

NAMED = 5  # most duplicates of a folder that are named


def merge_runs(folders: Sequence[Path], out: Path) -> int:
    """Merge the records of ``folders`` into ``out``, and say what was kept and dropped. Raises InputError."""
    merged = merge(folders, out)
    for _, fault in merged.corrupt:
        print(f"headbench: dropped, a corrupt record: {fault}", file=sys.stderr)
    kept = Counter(each.folder for each in merged.kept)
    corrupt, others = Counter(folder for folder, _ in merged.corrupt), Counter(merged.other_protocol)
    print(
        f"{out}: {count(len(merged.kept), 'record')}: {', '.join(f'{kept[folder]} of {folder}' for folder in folders)}"
    )
    for folder in folders:
        if names := [each.name for each in merged.duplicates if each.folder == folder]:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            print(
                f"dropped of {folder}: {count(len(names), 'record')} of cells that another record is kept of: "
                f"{', '.join(names[:NAMED])}{more}"
            )
        for number, what in ((corrupt[folder], "corrupt"), (others[folder], "made under another protocol")):
            if number:
                print(f"dropped of {folder}: {count(number, 'record')}, {what}")
    print(f"Next: headbench leaderboard {out}")
    return 0
