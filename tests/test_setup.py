"""setup.py finds LLVM 19 to 22, or says what to install; the two scripts that prepare a machine look for the same versions."""
import importlib.util
import os
import re
import stat
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """setup.py as a module, on a machine whose PATH is one folder; machine(name=version, ...) puts an llvm-config there."""
    spec = importlib.util.spec_from_file_location("pyxla_setup", ROOT / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LLVM_CONFIG", raising=False)

    def install(**versions):
        for name, version in versions.items():
            path = tmp_path / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{'exit 1' if version is None else f'echo {version}'}\n")
            path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return setup

    install.folder = tmp_path
    return install


def found(setup):
    return os.path.basename(setup.find_llvm())


def test_the_newest_version_is_taken(machine):
    assert found(machine(llvm_config="21.1.0")) == "llvm-config"
    assert found(machine(llvm_config_19="19.1.7")) == "llvm-config-19"
    assert found(machine(llvm_config_20="20.1.0", llvm_config_22="22.1.0git")) == "llvm-config-22"


def test_the_variable_comes_first(machine, monkeypatch):
    setup = machine(llvm_config_22="22.1.0", mine="20.1.2")
    monkeypatch.setenv("LLVM_CONFIG", str(machine.folder / "mine"))
    assert found(setup) == "mine"


@pytest.mark.parametrize("versions", [{}, {"llvm_config": "18.1.8"}, {"llvm_config": "23.0.0", "llvm_config_19": "14.0.6"}, {"llvm_config_21": None},
                                      {"llvm_config": "nonsense"}], ids=str)
def test_without_llvm_the_message_names_the_package(machine, versions):
    setup = machine(**versions)
    with pytest.raises(SystemExit) as e:
        setup.find_llvm()
    message = str(e.value)
    assert "LLVM 19 to 22" in message and "apt-get install llvm-19-dev" in message and "LLVM_CONFIG" in message and "\n" not in message
    for name, version in versions.items():
        assert name.replace("_", "-") in message and (version or "does not run") in message


@pytest.mark.parametrize(("name", "text"), [("nowhere", "is not there"), ("old", "is version 17.0.6")])
def test_a_variable_that_leads_nowhere_is_named(machine, monkeypatch, name, text):
    setup = machine(llvm_config_22="22.1.0", old="17.0.6")
    path = str(machine.folder / name)
    monkeypatch.setenv("LLVM_CONFIG", path)
    with pytest.raises(SystemExit, match=f"{path} {text}.*apt-get install llvm-19-dev"):
        setup.find_llvm()


def test_scripts_know_the_same_versions(machine):
    versions = [str(v) for v in machine().LLVM_VERSIONS]
    script = (ROOT / ".ci" / "setup").read_text()
    assert re.findall(r"llvm-config-(\d+)", script) == versions == ["22", "21", "20", "19"]
    assert all(f"{v}.*" in script for v in versions)
