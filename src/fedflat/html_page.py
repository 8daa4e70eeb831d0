"""One HTML file with its style, its script and its data, that asks no network for anything."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

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
    data: Any,
    *,
    package: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    live: bool = False,
) -> str:
    """The page ``body``, whose scripts find ``data`` in the element "data"; a live one may ask its
    own server.

    Styles and scripts are files in the folder "assets" of a package.
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
    ).decode()  # half a character in a method's name is no page


def _embedded(value: Any) -> str:
    """JSON that cannot end the element it stands in, whatever a method is called."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
