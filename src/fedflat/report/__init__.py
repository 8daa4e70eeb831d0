"""The report: runs as one HTML page that needs no network, and as figures for papers.

collect(folders)              run folders as one document of plain values
document(collected)           the document as a page
write_report(folders, out)    both, into a file
report(folders)               the page inside a notebook

The package is also the function `report`: ``fedflat.report("runs/mine")``, with the
options of `fedflat.report.page.report`.
"""

import sys
from types import ModuleType
from typing import Any

from fedflat.report.collect import collect
from fedflat.report.page import InlineReport, document, page, report, write_report

__all__ = ["InlineReport", "collect", "document", "page", "report", "write_report"]


class _CallableModule(ModuleType):
    """A package that can be called as its function of the same name."""

    def __call__(self, *runs: Any, **options: Any) -> InlineReport:
        return report(*runs, **options)


sys.modules[__name__].__class__ = _CallableModule
