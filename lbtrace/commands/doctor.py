"""``lbtrace doctor``: what this machine can do, what is missing, what is dangerous."""

from __future__ import annotations

import argparse
import os
import resource
import sys

import msgspec

from lbtrace import seccomp
from lbtrace.bpf import features, privileges
from lbtrace.errors import KernelError, PrivilegeError


class Check(msgspec.Struct, frozen=True):
    """One line of the report. ``state`` is ``ok``, ``missing``, ``absent`` (lbtrace
    works without it), ``unknown`` or ``warning``."""

    name: str
    state: str
    text: str


ESSENTIAL = ("btf", "ring buffer", "uprobe")
"""Without these there is no trace at all; the others make it cheaper, or show more."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="the report for programs")


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 when functions can be traced here, else 1."""
    checks = [*_privileges(), *_features(), *_limits(), *_hazards()]
    if args.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(checks)) + b"\n")
    else:
        for check in checks:
            print(f"{check.name:<12} {check.state:<8} {check.text}")
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
            return [Check("features", "unknown", "nobody may ask the kernel without privileges")]
        return [Check("features", "missing", f"{error.message}: {error.hint}")]
    return _perf_events(survey) + [_feature(feature) for feature in survey]


def _feature(feature: features.Feature) -> Check:
    purpose = f"{feature.purpose} (since {feature.since})"
    if feature.works:
        return Check(feature.name, "ok", purpose)
    state = "missing" if feature.name in ESSENTIAL else "absent"
    return Check(feature.name, state, f"{purpose}: {feature.without}")


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
            f"{soft} of at most {hard}; without multi each traced function takes two",
        ),
    ]


def _hazards() -> list[Check]:
    if seccomp.harms():
        text = "would kill programs confined by seccomp (CVE-2025-21834): returns take sites"
        return [Check("uretprobe", "warning", text)]
    return []
