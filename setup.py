"""Builds pyxla._core (no LLVM), pyxla/_gen.so (the code generator, opened when first needed) and the kernels that are shipped.

Objects are compiled in parallel and only when their source or a header they include has changed.
Environment: LLVM_CONFIG, CC, CFLAGS, PYXLA_DEBUG=1 (assertions), PYXLA_SANITIZE=address,undefined|thread,
PYXLA_SYNTAX=1 (the sources are only checked, as by `make lint` with clang).
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "csrc"
LLVM_VERSIONS = range(22, 18, -1)
# What the code generator needs of the lower layers.
GEN_LAYERS = ("base", "ir", "opt", "gen")
CORE_LAYERS = ("base", "ir", "opt", "run", "py")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]


def llvm_version(path):
    """What llvm-config says of itself, or None: it does not run."""
    try:
        return subprocess.check_output([path, "--version"], text=True, stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def find_llvm():
    """The path of llvm-config, of a version we support, or an error that says what to install."""
    wanted = os.environ.get("LLVM_CONFIG")
    names = [wanted] if wanted else [f"llvm-config-{v}" for v in LLVM_VERSIONS] + ["llvm-config"]
    found = [f"LLVM_CONFIG: {wanted} is not there"] if wanted and not shutil.which(wanted) else []
    for path in filter(None, map(shutil.which, names)):
        version = llvm_version(path)
        major = re.match(r"\d+", version or "")
        if major and int(major[0]) in LLVM_VERSIONS:
            return path
        found.append(f"{path} is version {version}" if version else f"{path} does not run")
    raise SystemExit(
        "pyxla needs LLVM 19 to 22 to build. "
        + (f"Found: {'; '.join(found)}. " if found else "No llvm-config was found. ")
        + "On Debian or Ubuntu: apt-get install llvm-19-dev; or set LLVM_CONFIG to the llvm-config to use."
    )


def llvm_config(path, *args):
    return subprocess.check_output([path, *args], text=True).split()


def sources(layers):
    return sorted(p for layer in layers for p in (CSRC / layer).glob("*.c"))


class Build(build_ext):
    def run(self):
        import numpy

        cc = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
        cc = [c for c in cc if c != "-pthread"] if not os.environ.get("CC") else cc
        llvm = find_llvm()
        debug = os.environ.get("PYXLA_DEBUG") == "1"
        flags = ["-std=gnu17", "-g", "-O1" if debug else "-O2", "-fPIC", "-fvisibility=hidden", "-fno-math-errno",
                 "-ffp-contract=off", *WARNINGS, f"-I{CSRC}"]
        link = ["-shared", "-pthread", "-Wl,-Bsymbolic"]
        if debug:
            flags.append("-DPYXLA_DEBUG")
        sanitize = os.environ.get("PYXLA_SANITIZE")
        if sanitize:
            flags += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
            link.append(f"-fsanitize={sanitize}")
        own = os.environ.get("CFLAGS", "").split()
        flags += [*own, "-Wno-error"] if own else []        # what others' flags make a compiler say is no failure
        layer_flags = {
            "py": [f"-isystem{sysconfig.get_path('include')}", f"-isystem{numpy.get_include()}",
                   "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION"],
            "gen": [f"-isystem{llvm_config(llvm, '--includedir')[0]}"],
        }
        parts = [Path(cc[0]).name, sysconfig.get_config_var("SOABI"), sanitize or "", "debug" if debug else ""]
        key = re.sub(r"\W+", "-", "-".join(parts))
        every = sources(sorted({*GEN_LAYERS, *CORE_LAYERS}))
        if os.environ.get("PYXLA_SYNTAX") == "1":
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda s: check_one(cc, flags + layer_flags.get(s.parent.name, []), s), every))
            return
        objdir = Path(self.build_temp).parent / f"obj-{key}"
        out = Path(self.get_ext_fullpath("pyxla._core"))
        gen = out.with_name("_gen.so")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(lambda s: compile_one(cc, flags + layer_flags.get(s.parent.name, []), s, objdir), every))
        out.parent.mkdir(parents=True, exist_ok=True)
        by_layer = {layer: [o for o in objects if o.parent.name == layer] for layer in {*GEN_LAYERS, *CORE_LAYERS}}
        name = build_name([*cc, *flags, *llvm_config(llvm, "--version")])
        by_layer["run"].append(compile_one(cc, flags, build_source(name, objdir), objdir))
        link_one(cc, link + ["-lm", "-ldl"], [o for la in CORE_LAYERS for o in by_layer[la]], out, objdir)
        link_one(cc, link + llvm_link_flags(llvm), [o for la in GEN_LAYERS for o in by_layer[la]], gen, objdir)
        if not sanitize and not debug:
            ship_kernels(name, out.parent, objdir)

    def get_outputs(self):
        out = Path(self.get_ext_fullpath("pyxla._core"))
        return [str(out), str(out.with_name("_gen.so")), *map(str, out.parent.glob("_kernels_*.bin"))]


def build_name(flags):
    """A name of what the kernels' code is made by: the sources, their compiler's flags and LLVM."""
    digest = hashlib.sha256("\n".join(flags).encode())
    for path in [ROOT / "pyxla" / "_families.py", *sorted(p for layer in GEN_LAYERS for p in (CSRC / layer).iterdir())]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_source(name, objdir):
    """The source that gives the core its build's name."""
    path = objdir / "build" / "name.c"
    text = f'extern const char pyxla_build[64];\nconst char pyxla_build[64] = "{name}";\n'
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


def ship_kernels(name, package, objdir):
    """The files of kernels beside the core, unless those of this build are there."""
    stamp = objdir / (re.sub(r"\W+", "-", str(package)) + ".kernels")
    if any(package.glob("_kernels_*.bin")) and stamp.exists() and stamp.read_text() == name:
        return
    home = package.resolve().parent
    path = os.pathsep.join(filter(None, [str(home), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-m", "pyxla._families", str(home / package.name)], check=True, cwd=home, env=env)
    stamp.write_text(name)


def llvm_link_flags(llvm):
    """Dynamic by default; PYXLA_LLVM=static for wheels: hidden, so that it meets no other LLVM of the process."""
    if os.environ.get("PYXLA_LLVM") != "static":
        return llvm_config(llvm, "--ldflags") + llvm_config(llvm, "--libs")
    target = {"x86_64": "x86"}.get(os.uname().machine, os.uname().machine)
    parts = ["core", target, "nvptx"]
    # Of the system libraries LLVM names, the code we use needs these two at most (xml2 and z3 belong to parts left out).
    needed = [lib for lib in llvm_config(llvm, "--link-static", "--system-libs", *parts) if lib in ("-lz", "-lzstd")]
    return (llvm_config(llvm, "--ldflags") + llvm_config(llvm, "--link-static", "--libs", *parts)
            + ["-Wl,-Bstatic", *needed, "-lstdc++", "-Wl,-Bdynamic", "-lrt", "-ldl", "-lm", "-static-libgcc",
               "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-s"])


def compile_one(cc, flags, source, objdir):
    """Compiles a source unless its object is newer than every file it was made of and has the same flags."""
    stamp = "\n".join([*cc, *flags])
    obj = objdir / source.parent.name / (source.stem + ".o")
    deps, flagfile = obj.with_suffix(".d"), obj.with_suffix(".flags")
    if obj.exists() and deps.exists() and flagfile.exists() and flagfile.read_text() == stamp:
        built = obj.stat().st_mtime
        files = deps.read_text().replace("\\\n", " ").split(":", 1)[1].split()
        if all(os.path.exists(f) and os.stat(f).st_mtime <= built for f in files):
            return obj
    obj.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*cc, *flags, "-MMD", "-MF", str(deps), "-c", str(source), "-o", str(obj)], check=True)
    flagfile.write_text(stamp)
    return obj


def check_one(cc, flags, source):
    """What the compiler says of a source, without code."""
    subprocess.run([*cc, *flags, "-fsyntax-only", str(source)], check=True)


def link_one(cc, flags, objects, out, objdir):
    """Links objects unless the shared object is newer than all of them and was linked so."""
    command = [*cc, *map(str, objects), *flags, "-o", str(out)]
    stamp = objdir / (re.sub(r"\W+", "-", str(out)) + ".link")
    if out.exists() and stamp.exists() and stamp.read_text() == "\n".join(command):
        built = out.stat().st_mtime
        if all(o.stat().st_mtime <= built for o in objects):
            return
    subprocess.run(command, check=True)
    stamp.write_text("\n".join(command))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    setup(ext_modules=[Extension("pyxla._core", [])], cmdclass={"build_ext": Build})
