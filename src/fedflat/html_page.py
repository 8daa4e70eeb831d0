"""One self-contained HTML file with its style, script and data; it needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files

from fedflat.version import __version__

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:; connect-src {connect}">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fedflat {version}">
<link rel="icon" href="data:,">
<title>{title} · fedflat</title>
<style>
{style}
</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""


def one_page(
    title: str,
    body: str,
    data: object,
    *,
    package: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    live: bool = False,
) -> str:
    """An HTML page with ``body`` and, as JSON in the element "data", ``data`` for the scripts.

    Styles and scripts are files in the folder "assets" of ``package``. A ``live`` page may send
    requests to its own server.
    """
    assets = files(package).joinpath("assets")
    page = _PAGE.format(
        connect="'self'" if live else "'none'",
        version=__version__,
        title=html.escape(title),
        style="\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in styles),
        body=body,
        data=_embedded(data),
        script="\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in scripts),
    )
    return page.encode(
        "utf-8", "replace"
    ).decode()  # replaces lone surrogates, which UTF-8 cannot encode


def _embedded(value: object) -> str:
    """JSON that cannot close the HTML element around it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
