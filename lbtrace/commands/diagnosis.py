"""Reports what this machine can do, what is missing, what is dangerous."""

from __future__ import annotations

import argparse
import os
import resource

import msgspec

from lbtrace.bpf import features, privileges
from lbtrace.bpf.attach import kernel_multi, kernel_plain
from lbtrace.commands.preflight import Check, check_binary
from lbtrace.errors import KernelError, PrivilegeError
from lbtrace.system.tracefs import list_events
from lbtrace.targets import seccomp
from lbtrace.text import clean, to_json

ESSENTIAL = ("btf", "ring buffer", "uprobe")
"""Without these there is no trace at all; the others make it cheaper, or show more."""


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 when functions can be traced here, else 1; 0 of a binary."""
    if args.binary:
        checks = [*check_binary(args.binary)]
    else:
        checks = [*_privileges(), *_features(), *_limits(), *_hazards()]
    if args.json:
        print(to_json(msgspec.to_builtins(checks), indent=2))
    else:
        for check in checks:
            print(clean(f"{check.name:<12} {check.state:<8} {check.text}"))
    if args.binary:
        return 0
    good = all(check.state != "missing" for check in checks)
    if not args.json:
        print("functions can be traced here" if good else "functions cannot be traced here")
    return 0 if good else 1


def _privileges() -> list[Check]:
    missing = privileges.missing()
    if missing:
        return [
            Check("privileges", "missing", f"{' and '.join(missing)}: {privileges.advice(missing)}")
        ]
    return [Check("privileges", "ok", ", ".join(sorted(privileges.held())))]


def _features() -> list[Check]:
    try:
        survey = features.survey()
    except KernelError as error:
        if isinstance(error, PrivilegeError):
            return [Check("features", "unknown", "the kernel answers only with privileges")]
        return [Check("features", "missing", ": ".join(error.command_line))]
    return [*_perf_events(survey), *map(_feature, survey), *_places(survey)]


def _feature(feature: features.Feature) -> Check:
    purpose = f"{feature.purpose} (since {feature.since})"
    if feature.works:
        return Check(feature.name, "ok", purpose)
    state = "missing" if feature.name in ESSENTIAL else "absent"
    return Check(feature.name, state, f"{purpose}: {feature.without}")


def _places(survey: tuple[features.Feature, ...]) -> list[Check]:
    """What traces of places inside of functions, and below calls, need besides probes."""
    state = "ok" if all(f.works for f in survey if f.name in ESSENTIAL) else "absent"
    lines = "points at source lines, from debug information (-g), and at instructions"
    within = "records only what is below some calls, where their returns and all stacks are seen"
    return [
        Check("lines", state, f"{lines}: needs uprobe"),
        Check("within", state, f"{within}: needs uprobe"),
        _of_kernel("syscalls", "system calls", survey),
        _of_kernel("off-CPU", "how long threads do not run, and where", survey),
        _tracepoints(survey),
        _kernel(survey),
    ]


def _of_kernel(name: str, what: str, survey: tuple[features.Feature, ...]) -> Check:
    """What traces of what the kernel does need: what it can since it has cookies."""
    purpose = f"{what} (since 5.15)"
    if any(feature.name == "cookie" and feature.works for feature in survey):
        return Check(name, "ok", purpose)
    return Check(name, "absent", f"{purpose}: use a later kernel")


def _kernel(survey: tuple[features.Feature, ...]) -> Check:
    """What traces of the kernel's functions need."""
    found = _of_kernel("kprobes", "functions of the kernel", survey)
    if found.state != "ok":
        return found
    if not kernel_plain.works():
        hint = "use a kernel with CONFIG_KPROBE_EVENTS=y"
        return Check(found.name, "absent", f"{found.text}: {hint}")
    how = "all at once" if kernel_multi.works() else "one by one: 0.1 s each"
    return Check(found.name, "ok", f"{found.text}, attached {how}")


def _tracepoints(survey: tuple[features.Feature, ...]) -> Check:
    """What traces of tracepoints need."""
    found = _of_kernel("tracepoints", "named places in the kernel", survey)
    if found.state != "ok":
        return found
    try:
        return Check(found.name, "ok", f"{len(list_events()):,} {found.text}")
    except KernelError as error:
        return Check(found.name, "absent", f"{found.text}: {': '.join(error.command_line)}")


def _perf_events(survey: tuple[features.Feature, ...]) -> list[Check]:
    multi = any(feature.name == "multi" and feature.works for feature in survey)
    if multi or not privileges.perf_forbidden():
        return []
    return [
        Check(
            "perf events", "missing", "CAP_SYS_ADMIN, which kernels before 6.6 ask for: run as root"
        )
    ]


def _limits() -> list[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = hard < 4096
    return [
        Check("kernel", "ok", f"{os.uname().release} {os.uname().machine}"),
        Check(
            "open files",
            "warning" if few else "ok",
            f"{soft} of at most {hard}; without multi each traced function takes four",
        ),
    ]


def _hazards() -> list[Check]:
    text = "private mappings of a traced file hold breakpoints: git add, valgrind (docs/safety.md)"
    found = [Check("files", "ok", text)]
    if seccomp.harms():
        text = "refused: they would kill programs that seccomp confines (CVE-2025-21834)"
        found.append(Check("uretprobe", "warning", text))
    return found
