"""The report: runs as one HTML page that needs no network, and as figures for papers.

collect(folders)              run folders as one document of plain values
document(collected)           the document as a page
write_report(folders, out)    both, into a file
"""

from fedflat.report.collect import collect
from fedflat.report.page import document, page, write_report

__all__ = ["collect", "document", "page", "write_report"]
