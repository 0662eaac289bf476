"""Property: uv takes packages from where pip is set to take them, and is not asked where it cannot be told."""

import environment


def test_the_nearest_setting_holds_and_keeps_its_values() -> None:
    listed = """\
:env:.index-url='file:///first'
:env:.no-color='1'
global.index-url='file:///third'
global.find-links='\\n/one\\n/two'
install.index-url='file:///second'
install.extra-index-url='file:///a file:///b'
:env:.constraint='versions.txt others.txt'
freeze.index-url='file:///never'
"""
    assert environment.translated(environment.settings(listed)) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "file:///first",
        "UV_INDEX": "file:///a file:///b",
        "UV_FIND_LINKS": "/one,/two",
        "UV_CONSTRAINT": "versions.txt others.txt",
    }


def test_what_cannot_be_told_is_left_to_pip(monkeypatch) -> None:
    for setting in ("no-index", "client-cert", "no-binary", "user"):
        assert environment.translated({setting: "1"}) is None

    ran = []

    class Done:
        returncode, stdout = 0, "global.no-binary='numpy'\n"

    def run(command, **options):
        ran.append(command)
        return Done

    monkeypatch.setattr(environment.subprocess, "run", run)
    assert environment.main(["-e", "."]) == 0
    here = environment.sys.executable
    assert ran[-1] == [*environment.PIP, "--python", here, "install", "--quiet", "-e", "."]
    assert environment.main(["--python", "other/python", "-e", "."]) == 0
    assert ran[-1][3:] == ["--python", "other/python", "install", "--quiet", "-e", "."]
    assert not [command for command in ran if "uv" in command]
    Done.stdout = ""
    assert environment.main(["-e", "."]) == 0
    assert ran[-1][:4] == [here, "-m", "uv", "pip"]
    assert ran[-1][-4:] == ["--python", here, "-e", "."]
