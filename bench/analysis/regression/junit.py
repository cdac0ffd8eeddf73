"""Verdicts as a JUnit file for continuous integration: one test case per method."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from bench.analysis.regression.cells import Twins
from bench.analysis.regression.screen import origin
from bench.analysis.regression.verdict import FAILED, Verdict

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(cells: Twins, verdicts: Sequence[Verdict]) -> bytes:
    """XML in UTF-8: failures with their reasons, new methods as skipped, remarks as output."""
    failures = sum(verdict.status == FAILED for verdict in verdicts)
    counts = {"tests": len(verdicts) + len(cells.new), "failures": failures, "skipped": len(cells.new)}
    suite = ElementTree.Element("testsuite", {"name": "headbench regress"} | {k: str(v) for k, v in counts.items()})
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname="regress", name=verdict.label)
        if verdict.reasons:
            failure = ElementTree.SubElement(case, "failure", message=_allowed(verdict.reasons[0]))
            failure.text = _allowed("\n".join(verdict.reasons))
        if verdict.remarks:
            ElementTree.SubElement(case, "system-out").text = _allowed("\n".join(verdict.remarks))
    for label in cells.new:
        case = ElementTree.SubElement(suite, "testcase", classname="regress", name=label)
        ElementTree.SubElement(case, "skipped", message="not in the baseline")
    ElementTree.SubElement(suite, "system-out").text = "\n".join([*origin(cells), *cells.absent])
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n"


def _allowed(text: str) -> str:
    """``text`` with characters that no XML may hold, such as the escapes of a coloured message, as their numbers."""
    return NOT_IN_XML.sub(lambda found: ascii(found[0])[1:-1], text)
