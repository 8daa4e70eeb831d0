"""Every code block can be read: Python by Python, shell by bash and by the real argument parser.

All names in commands resolve: methods, data sets, models, partitions, schedules and so on.
`test_blocks_run.py` runs the blocks.
"""

from __future__ import annotations

import ast
import shlex
from argparse import Namespace
from pathlib import Path

import pytest

import fedflat as ff
from fedflat.cli.experiment_file import with_file
from fedflat.cli.parser import build
from fedflat.cli.preset_listing import chosen, settings_of
from fedflat.cli.training import given_settings
from fedflat.experiments.api import experiments
from fedflat.registry.specs import parse
from pages.blocks import DOCS, PAGES, ROOT, Block, blocks, commands
from plugins.forgetting import forget

LANGUAGES = {"python", "sh", "bash", "console", "toml", "json", "text", ""}
OTHERS = {"make", "pip", "python", "ray", "srun", "scontrol", "head"}
"""Commands of others."""
SHELL = [page for page in PAGES if any(block.language in ("sh", "bash") for block in blocks(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_are_python_and_languages_are_known(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES
        if block.language == "python":
            ast.parse(block.code)


@pytest.mark.parametrize("page", SHELL, ids=name)
def test_commands_are_understood(page: Path, tmp_path: Path) -> None:
    files = [block for block in blocks(page) if block.language == "python" and block.file]
    for block in files:
        assert block.file is not None
        Path(block.file).write_text(block.code)
    found = [words for each in commands(blocks(page), tmp_path) for words in each]
    assert found
    for words in found:
        understand(words)


def understand(words: list[str]) -> None:
    """Read one command as the command line would, as far as nothing is run."""
    if words[0] != "fedflat":
        assert words[0] in OTHERS, words
        if words[0] == "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).exists() or Path(words[1]).exists(), words
        return
    forget()
    try:
        for word, before in zip(words[1:], words, strict=False):
            if before == "--plugin":
                ff.load_plugin(word)
        args = build(words[1:]).read(words[1:])
        if args.command == "init":
            assert args.verb.run(args) == 0  # the next command may name the file
        full = with_file(words[1:], args)
        resolve(build(full).read(full))
    except SystemExit as error:
        raise AssertionError(f"{shlex.join(words)}: {error}") from None
    finally:
        forget()


def resolve(args: Namespace) -> None:
    """Resolve all names that the command has."""
    if args.command in ("run", "compare"):
        given = [args.method] if args.command == "run" else args.methods
        preset = chosen(args)
        settings = settings_of(preset, given_settings(args), getattr(args, "stretch", False))
        given = [settings.pop("method")] if preset else given
        parse(settings.pop("init", None) or "fresh", "initializer")  # a folder need not exist
        settings.setdefault("model", "mlp()")  # else the data are opened to choose one
        on = parse(settings.pop("on"), "data set")
        on = "digits()" if on.origin.endswith("of yours") else on  # files that another block makes
        experiments(given, on, [0], **settings)
    elif args.command == "data" and hasattr(args, "data"):
        parse(args.data, "data set")


def test_a_wrong_name_is_found(tmp_path: Path) -> None:
    loop = "for M in fedavg fedavgg; do\n  fedflat run $M --on 'digits(lda(0))'\ndone\n"
    [[right, wrong]] = commands([Block("sh", loop)], tmp_path)
    understand(right)
    with pytest.raises(ff.SpellingError, match="fedavgg"):
        understand(wrong)
    with pytest.raises(AssertionError):
        understand(["fedflat", "run", "fedavg", "--roundz", "3"])


def test_pages_of_the_site_are_those_of_the_repository() -> None:
    assert DOCS / "index.md" in PAGES
    assert len(PAGES) > 40
