"""Configures and builds a preset: build.py PRESET [--configure] [TARGET...]. Also used by test_run.py.

It configures when it never did; --configure does it again."""

import json
import os
import subprocess
import sys

import steps


def presets():
    with open(os.path.join(steps.ROOT, "CMakePresets.json"), encoding="utf-8") as file:
        return [p["name"] for p in json.load(file)["configurePresets"] if not p.get("hidden")]


def folder(preset):
    # `program` is `release` without tests, for a machine that has no packages for them: the same files, compiled once.
    return os.path.join(steps.ROOT, "build", "release" if preset == "program" else preset)


def environment():
    """Ours, with a compiler cache that works even where there is no home directory, and that knows a file again when
    another build folder, or another clone, compiles it in the same way."""
    env = dict(os.environ)
    env.setdefault("CCACHE_BASEDIR", steps.ROOT)
    env.setdefault("CCACHE_NOHASHDIR", "1")
    env.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")  # What a precompiled header needs.
    home = env.get("HOME", "")
    if "CCACHE_DIR" not in env and not (os.path.isdir(home) and os.access(home, os.W_OK)):
        env["CCACHE_DIR"] = os.path.join(steps.ROOT, "build", "ccache")
    return env


def configure(preset):
    """ninja configures again by itself when a CMake file changes; the presets' file it does not know."""
    ninja = os.path.join(folder(preset), "build.ninja")
    settings = os.path.join(steps.ROOT, "CMakePresets.json")
    enough = ("program", "release") if preset == "program" else (preset,)
    if os.path.exists(ninja) and os.path.getmtime(ninja) > os.path.getmtime(settings) and last_preset(preset) in enough:
        return True
    return configure_again(preset)


def last_preset(preset):
    """The preset that the folder was last configured with."""
    try:
        with open(os.path.join(folder(preset), "preset"), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def prepare(preset):
    """What a preset needs beyond the packages of every build."""
    if preset != "aarch64":
        return True
    # A folder of its own outside the preset's: `./dev clean` keeps it.
    return (subprocess.run(["scripts/setup", "aarch64"], cwd=steps.ROOT, check=False).returncode == 0
            and subprocess.run(["scripts/sysroot", "build/sysroot-aarch64"], cwd=steps.ROOT, check=False).returncode == 0)


def configure_again(preset):
    if not prepare(preset):
        return False
    if not steps.run(f"configure {preset}", ["cmake", "--preset", preset], env=environment()):
        return False
    with open(os.path.join(folder(preset), "preset"), "w", encoding="utf-8") as file:
        file.write(preset)
    return True


def refresh(preset):
    """Brings build/<preset>/tests.list up to date, building nothing. Returns whether that went well."""
    if not configure(preset):
        return False
    command = ["cmake", "--build", "--preset", preset, "--target", "tests_list"]
    log = steps.log_path(f"refresh {preset}")
    if steps.execute(command, log, env=environment()) == 0:
        return True
    steps.report_failure(command, log)
    return False


def build(preset, targets=(), title=None, result="done"):
    if preset not in presets():
        print(f"there is no preset '{preset}'; there are: {' '.join(presets())}")
        return False
    if not configure(preset):
        return False
    command = ["cmake", "--build", "--preset", preset, "--parallel", str(os.cpu_count() or 1)]
    if targets:
        command += ["--target", *targets]
    return steps.run(title or f"build {preset}", command, env=environment(), result=result)


if __name__ == "__main__":
    steps.end_together()
    preset, *targets = sys.argv[1:]
    if "--configure" in targets:
        targets.remove("--configure")
        if preset in presets() and not configure_again(preset):
            sys.exit(1)
    sys.exit(0 if build(preset, targets) else 1)
