#!/usr/bin/env python3
"""Install to a scratch prefix, move it, build consumers with pkg-config and CMake, run them."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONSUMER = os.path.join(HERE, "consumer")


def run(*command, **options):
    """Output of a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stdout}")
    return done.stdout


def run_consumer(path, env):
    """A consumer says which library it met."""
    out = run(path, env=env)
    if "mooncake 0.1.0: ERPC" not in out:
        sys.exit(f"{path} says:\n{out}")
    print(f"ok: {os.path.basename(path)}")


def with_pkg_config(prefix, libdir, scratch, compiler, static):
    """One compiler call, flags from the .pc file alone."""
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, libdir, "pkgconfig"),
               LD_LIBRARY_PATH=os.path.join(prefix, libdir))
    flags = run("pkg-config", "--cflags", "--libs", *(["--static"] if static else []),
                "mooncake-client", env=env).split()
    if not any(prefix in flag for flag in flags):
        sys.exit(f"pkg-config does not follow the prefix: {flags}")
    cpp = "++" in os.path.basename(compiler)
    source = os.path.join(scratch, "consumer.cpp" if cpp else "consumer.c")
    shutil.copy(os.path.join(CONSUMER, "consumer.c"), source)
    target = os.path.join(scratch, "pc_" + os.path.basename(compiler) + ("_static" if static else ""))
    if static:
        archive = os.path.join(prefix, libdir, "libmooncake_client.a")
        flags = [archive if flag == "-lmooncake_client" else flag for flag in flags]
    run(compiler, "-Wall", "-Werror", source, "-o", target, *flags)
    run_consumer(target, env)


def with_cmake(prefix, scratch, cmake):
    """find_package() and the exported targets."""
    build = os.path.join(scratch, "cmake")
    run(cmake, "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run(cmake, "--build", build)
    for name in ("in_c", "in_cpp", "in_c_static"):
        run_consumer(os.path.join(build, name), dict(os.environ))


def check_programs(prefix):
    """Installed programs find their library wherever the tree lies."""
    env = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    for name in sorted(os.listdir(os.path.join(prefix, "bin"))):
        out = run(os.path.join(prefix, "bin", name), "--version", env=env)
        if "0.1.0" not in out:
            sys.exit(f"{name} --version says: {out}")
        print(f"ok: {name}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "cmake", "cc", "libdir"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mooncake-install-") as scratch:
        first, prefix = os.path.join(scratch, "first"), os.path.join(scratch, "moved")
        run(args.cmake, "--install", args.build, "--prefix", first)
        os.rename(first, prefix)
        check_programs(prefix)
        if not os.path.exists(os.path.join(prefix, "share/man/man3/mooncake_put.3")):
            sys.exit("the man pages of functions are not installed")
        cxx = shutil.which("g++") or shutil.which("clang++")
        with_pkg_config(prefix, args.libdir, scratch, args.cc, False)
        with_pkg_config(prefix, args.libdir, scratch, args.cc, True)
        if cxx:
            with_pkg_config(prefix, args.libdir, scratch, cxx, False)
        with_cmake(prefix, scratch, args.cmake)


if __name__ == "__main__":
    main()
