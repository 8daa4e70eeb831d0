"""Where plugins come from, what a run records of them, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

import fedflat as ff
from experiments.small import experiment
from fedflat.cli import main
from fedflat.errors import RunError, SettingError, SpellingError
from fedflat.experiments.experiment import from_json
from fedflat.experiments.run_folder.plugins_needed import (
    PluginNeed,
    changed,
    missing,
    needs_of,
)
from fedflat.registry.plugins import Plugin, load_same, named_plugins, plugin_of
from fedflat.report.labels import command
from plugins.forgetting import forget

MINE = """
import fedflat as ff
from fedflat.client.gradient_transforms import Prox

@ff.method
def {name}(mu: float = {mu}) -> ff.Method:
    \"\"\"A pull.\"\"\"
    return ff.Method(client=(Prox(mu),))
"""
QUICK = [
    "--on",
    "digits(clients=20)",
    "--model",
    "logistic",
    "--rounds",
    "1",
    "--threads",
    "1",
    "--quiet",
]


def written(folder: Path, name: str = "pull", mu: float = 0.5) -> Path:
    """A plugin with one method."""
    path = folder / f"{name}_file.py"
    path.write_text(MINE.format(name=name, mu=mu))
    return path


def test_a_plugin_file_is_named_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = written(tmp_path), str(tmp_path / "run")
    assert main(["list", "methods", "pull", "--plugin", str(path)]) == 0
    assert "A pull." in capsys.readouterr().out
    assert (
        main(
            [
                "compare",
                "fedavg",
                "pull(mu=0.1) + swa()",
                *QUICK,
                "--plugin",
                str(path),
                "--out",
                out,
            ]
        )
        == 0
    )
    study = json.loads((tmp_path / "run" / "study.json").read_text())
    needs = [run["experiment"].get("plugins") for run in study["runs"]]
    assert needs[0] is None  # which uses nothing of it
    [need] = needs[1]
    assert (need["name"], need["names"], need["version"], need["place"]) == (
        "pull_file.py",
        ["pull"],
        None,
        str(path),
    )
    assert main(["report", out, "--plugin", str(path)]) == 0


def test_a_run_is_resumed_without_its_plugin_or_with_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = written(tmp_path), str(tmp_path / "run")

    def message(*words: str) -> tuple[int, str]:
        forget()
        capsys.readouterr()
        return main(list(words)), capsys.readouterr().err

    assert main(["run", "pull", *QUICK, "--plugin", str(path), "--out", run]) == 0
    digest = needs_of(["pull"])[0].plugin.digest
    for word in ("resume", "analyse"):
        code, errors = message(word, run, "--quiet")
        assert code == 2
        assert f"needs pull of 'pull_file.py' with the digest {digest[:12]}, found in" in errors
        assert "which is not loaded here. Name it again (--plugin" in errors
    code, errors = message("report", run)
    assert code == 0
    assert errors.startswith("the run needs pull of 'pull_file.py'")
    path.write_text(path.read_text() + "# another\n")
    code, errors = message("resume", run, "--quiet", "--plugin", str(path))
    assert code == 2
    assert "which may compute other numbers. Restore it to continue, or start a new run." in errors
    code, errors = message("analyse", run, "--quiet", "--plugin", str(path))
    assert code == 0
    assert errors.startswith("the run was begun with pull of 'pull_file.py'")


@pytest.mark.slow
def test_a_table_is_run_in_processes_that_load_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, table, out = written(tmp_path), tmp_path / "mine.toml", str(tmp_path / "out")
    settings = "[settings]\non = 'digits(clients=20)'\nmodel = 'logistic'\nrounds = 1\n"
    table.write_text(
        f"title = 'Mine'\nsource = 'nobody'\n{settings}[[rows]]\nname = 'a'\nmethod = 'pull(mu=0.1)'\n"
    )
    made = [
        "reproduce",
        str(table),
        "--cells",
        "*",
        "--nice",
        "0",
        "--quiet",
        "--out",
        out,
        "--plugin",
        str(path),
    ]
    assert main(made) == 0, capsys.readouterr().err
    assert list((tmp_path / "out").rglob("final.safetensors"))
    forget()
    assert main(["reproduce", "--resume", out, "--quiet"]) == 2
    assert "the run needs pull of 'pull_file.py'" in capsys.readouterr().err


def test_the_printed_command_names_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    ff.load_plugin(str(path))
    texts = experiment("pull(mu=0.1)", on=ff.digits(clients=20)).texts()
    assert command(texts, {}).endswith(f" --plugin {quote(str(path))}")


def test_no_code_is_run_because_a_folder_names_its_place(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(f"open({str(tmp_path / 'was here')!r}, 'w')\n" + path.read_text())
    need = {
        "name": path.name,
        "version": None,
        "digest": "0" * 64,
        "place": str(path),
        "names": ["pull"],
    }
    with pytest.raises(RunError, match=r"the run needs pull of 'pull_file\.py'"):
        from_json({**experiment().as_json(), "plugins": [need]})
    assert not (tmp_path / "was here").exists()


def test_a_file_that_was_renamed_is_the_same_and_an_edited_one_is_loaded_again(
    tmp_path: Path,
) -> None:
    path = written(tmp_path)
    ff.load_plugin(str(path))
    needs = needs_of(["pull(mu=0.1)", None, "fedavg() + swa()"])
    moved = path.rename(tmp_path / "other.py")
    ff.load_plugin(str(moved))  # the same code under another name takes nothing from anybody
    assert (missing(needs), changed(needs)) == ([], [])
    moved.write_text(MINE.format(name="pull", mu=0.25))
    ff.load_plugin(str(moved))
    assert ff.parse("pull()", "method").client[0].mu == 0.25
    assert len(changed(needs)) == 1


def test_a_study_goes_on_though_its_plugin_was_moved(tmp_path: Path) -> None:
    path, study = written(tmp_path), tmp_path / "study"
    assert (
        main(["run", "pull", *QUICK, "--seeds", "2", "--plugin", str(path), "--out", str(study)])
        == 0
    )
    shutil.rmtree(study / "01-pull" / "seed-1")
    moved = path.rename(tmp_path / "moved.py")
    for _ in range(2):  # the second time it reads what the first one wrote
        forget()
        assert main(["resume", str(study), "--quiet", "--plugin", str(moved)]) == 0
    assert (study / "01-pull" / "seed-1" / "final.safetensors").exists()


def test_a_name_of_ours_or_of_another_plugin_cannot_be_taken(tmp_path: Path) -> None:
    ff.load_plugin(str(written(tmp_path, "pull")))
    other = tmp_path / "second.py"
    other.write_text(MINE.format(name="pull", mu=2))
    with pytest.raises(
        SettingError, match=r"'pull' is the name of a method already, in pull_file\.py"
    ):
        ff.load_plugin(str(other))
    with pytest.raises(
        SettingError, match=r"'fedsam' is the name of a method already, in fedflat\.methods"
    ):
        ff.load_plugin(str(written(tmp_path, "fedsam")))
    assert ff.parse("pull()", "method").client[0].mu == 0.5


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = 1\ny = 1 / 0\n", r"ZeroDivisionError: division by zero, in its line 2"),
        ("def (:\n", r"SyntaxError: .*, in its line 1"),
        ("import sys; sys.exit(3)", r"SystemExit: 3, in its line 1"),
    ],
)
def test_a_file_that_fails_is_a_sentence(tmp_path: Path, code: str, why: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(code)
    with pytest.raises(
        SettingError, match=rf"bad\.py' cannot be loaded \({why}\)\. Fix the plugin"
    ):
        ff.load_plugin(str(path))
    assert not [name for name in sys.modules if name.startswith("fedflat_plugin_bad")]


@pytest.mark.parametrize(
    "message",
    [
        "nothing.py",
        "no.such.module",
        "a b",
        "",
        "/",
        "/dev/zero",
        "~nobody/x.py",
        "\0.py",
        "\ud800.py",
    ],
)
def test_what_is_not_there_is_a_sentence(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "--plugin", message]) == 2
    assert capsys.readouterr().err.startswith("fedflat: error: plugin: ")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("/", "is a folder"),
        ("./here", "is a folder"),
        ("here", "is a folder without an __init__.py"),
        ("/dev/zero", "is not a regular file"),
        ("nothing.py", "does not exist"),
    ],
)
def test_what_is_no_python_is_answered_with_what_a_plugin_is(
    message: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        ff.load_plugin(message)
    expected = (
        "a plugin must be a Python file such as my_methods.py, or a module such as package.module."
    )
    assert str(caught.value) == f"plugin: {message!r} {found}; {expected}"
    assert not named_plugins()


def test_a_module_of_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "extra_pack").mkdir()
    (tmp_path / "extra_pack" / "__init__.py").write_text("")
    written(tmp_path / "extra_pack", "tug")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    ff.load_plugin("extra_pack.tug_file")
    assert sys.path == before
    [need] = needs_of(["tug"])
    assert (need.plugin.name, need.plugin.version) == ("extra_pack", None)
    (tmp_path / "extra_pack" / "other.py").write_text("# more")
    assert len(changed([need])) == 1  # its digest is that of the whole package


def test_an_installed_package_is_loaded_and_named_by_its_version(tmp_path: Path) -> None:
    written(tmp_path, "haul").rename(tmp_path / "extra_haul.py")
    info = tmp_path / "extra_haul-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-haul\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[fedflat.plugins]\nmine = extra_haul\nbroken = extra_nothing\n"
    )
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from fedflat.experiments.run_folder.plugins_needed import needs_of, changed, missing\n"
        "[need] = needs_of(['haul(mu=1)'])\n"
        "saved = need.as_json()\n"
        "assert saved == dict(name='extra-haul', version='1.2', digest=None, place=None, names=['haul']), need\n"
        "from fedflat.experiments.run_folder.plugins_needed import PluginNeed\n"
        "[message] = changed([PluginNeed.from_json({**saved, 'version': '1.1'})])\n"
        "assert 'of \\'extra-haul\\' 1.1 ' in message and 'nstall ' not in message, message\n"
        "[message] = missing([PluginNeed(need.plugin, ('tow',))])\n"
        "assert message.endswith('make that version of it available here again.'), message\n"
    )
    place = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": place}, check=True
    )


def test_what_a_notebook_defines_is_known_by_name_and_a_cell_takes_its_own_place() -> None:
    cell = MINE.format(name="yank", mu=3)
    for text in (cell, cell.replace("3", "4")):
        exec(text, {"__name__": "__main__"})
    assert ff.parse("yank()", "method").client[0].mu == 4
    [need] = needs_of(["yank()"])
    assert (need.plugin.name, need.plugin.version, need.plugin.digest) == (
        "a notebook or a script",
        None,
        None,
    )
    assert (missing([need]), changed([need])) == ([], [])
    [output] = missing([PluginNeed(need.plugin, ("jerk",))])
    assert output.startswith("the run needs jerk of a notebook or a script")
    assert "Go on in Python, where it is defined" in output


def test_a_worker_refuses_a_file_that_has_changed_since(tmp_path: Path) -> None:
    path = written(tmp_path)
    ff.load_plugin(str(path))
    [named] = named_plugins()
    path.write_text(MINE.format(name="pull", mu=7))
    with pytest.raises(SettingError, match="has changed since the run began"):
        load_same(named)


def test_names_of_ours_need_nothing() -> None:
    assert (
        needs_of(["fedavg() + sam(rho=decay(0.1, 0.9))", "digits(lda(0))", "not ( a text", None, 3])
        == ()
    )
    assert plugin_of("fedflat.methods.recipes") is None
    assert plugin_of("torch.nn") == Plugin("torch", version=plugin_of("torch").version)  # type: ignore[union-attr]
    with pytest.raises(SpellingError):
        ff.parse("pull", "method")


CLAIMS = {
    "of a class": "ByHalf.__module__ = 'fedflat.data.partitions.iid'",
    "of another package": "ByHalf.__module__ = 'torch.nn'",
    "of the file": "__name__ = ByHalf.__module__ = 'fedflat.data.partitions.iid'",
}
CLASS = """
from fedflat import register
from fedflat.data.partitions.iid import Iid

class ByHalf(Iid):
    pass

{claim}
register("partition", "by_half")(ByHalf)
"""


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_plugin_is_known_by_who_loaded_it(claim: str, tmp_path: Path) -> None:
    """A class that claims to be one of fedflat's was not recorded, nor was its name protected."""
    path = tmp_path / "half.py"
    path.write_text(CLASS.format(claim=CLAIMS[claim]))
    ff.load_plugin(str(path))
    assert (
        main(
            [
                "run",
                "fedavg",
                *QUICK,
                "--on",
                "digits(by_half(), clients=20)",
                "--out",
                str(tmp_path / "run"),
            ]
        )
        == 0
    )
    [need] = json.loads((tmp_path / "run" / "run.json").read_text())["experiment"]["plugins"]
    assert (need["name"], need["names"], need["place"]) == ("half.py", ["by_half"], str(path))
    assert main(["data", "list"]) == 0
    path.write_text(CLASS.format(claim=CLAIMS[claim]).replace("by_half", "iid"))
    with pytest.raises(SettingError, match="'iid' is the name of a partition already, in fedflat"):
        ff.load_plugin(str(path))


def test_a_script_may_register_what_it_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is the code of that module which is recorded, but never as fedflat's."""
    classes = "class Small: ...\nclass Fake: ...\nFake.__module__ = 'fedflat.models.cnn'\n"
    (tmp_path / "extra_nets.py").write_text(classes)
    monkeypatch.syspath_prepend(tmp_path)
    code = "import fedflat as ff, extra_nets\nff.register('model', 'tiny')(extra_nets.{made})"
    for made, name in (("Small", "extra_nets.py"), ("Fake", "a notebook or a script")):
        exec(code.format(made=made), {"__name__": "__main__"})
        assert [need.plugin.name for need in needs_of(["tiny()"])] == [name]


@pytest.mark.parametrize(
    "name",
    [
        5,
        None,
        b"x",
        "",
        "two words",
        "9lives",
        "a-b",
        "x.y",
        "lambda",
        "None",
        "\ufb01ne",
        "\ud800",
        ["x"],
    ],
    ids=ascii,
)
def test_names_that_no_text_can_have_are_refused(
    name: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number as a name was taken, and the search for similar names failed ever after."""
    made = type("not a name", (), {})
    with pytest.raises(
        SpellingError,
        match=r"register: .* cannot be written as a name in a text\. Choose a name of",
    ):
        ff.register("model", name)(made)  # type: ignore[arg-type]
    with pytest.raises(SpellingError, match=r"cannot be written as a name in a text"):
        ff.method(lambda: ff.Method())
    assert main(["run", "fedavg", "--model", "logstic", "--on", "digits()"]) == 2
    assert "Did you mean 'logistic'?" in capsys.readouterr().err
